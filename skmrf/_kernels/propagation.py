"""Runs of belief propagation: which clique's turn it is, and when to stop.

A run is made for every row of ``starts`` (where each clique's slice begins once its clamped
variables are fixed), on the cliques and variables of one or more components.
"""

from typing import NamedTuple

import numpy as np

from ._jit import borrowed, inlined, kernel
from .belief import (
    add_logs,
    borrowed_graph,
    borrowed_work,
    first_free,
    hear,
    log_messages,
    logs_of_sums,
    lost_precision,
    marginal_sums,
    mixed_messages,
    multiply,
    pair_sums,
)
from .heap import rise, sink

FLOODING, SEQUENTIAL, RESIDUAL = 0, 1, 2
AUTO_DAMPING = -1.0
UNDAMPED = 20  # iterations before automatic damping sets in
LATE_DAMPING = 0.5


class Tables(NamedTuple):
    """The same tables twice: logs, and potentials whose largest is 1 in every clique."""

    log_potentials: np.ndarray
    potentials: np.ndarray


class Scope(NamedTuple):
    """What a run is about: one or more components of the variables from n_clamped on."""

    n_clamped: int
    cliques: np.ndarray
    variables: np.ndarray
    n_read: int  # how many of the variables' beliefs are wanted


class How(NamedTuple):
    """Schedule, limits and damping (negative: automatic)."""

    schedule: int
    max_iter: int
    tol: float
    damping: float


@kernel
def component(g, n_clamped, root, seen, cliques, variables):
    """Numbers of cliques and variables written: those connected with root, nearest first.

    seen (of variables, then of cliques) is updated.
    """
    n = g.n_states.size
    n_cliques, n_variables, done = 0, 1, 0
    variables[0] = root
    seen[root] = True
    while done < n_variables:
        i = variables[done]
        done += 1
        for k in range(g.var_ptr[i], g.var_ptr[i + 1]):
            a = g.var_clique[k]
            if seen[n + a]:
                continue
            seen[n + a] = True
            cliques[n_cliques] = a
            n_cliques += 1
            for p in range(first_free(g, a, n_clamped), g.clique_ptr[a + 1]):
                j = g.clique_vars[p]
                if not seen[j]:
                    seen[j] = True
                    variables[n_variables] = j
                    n_variables += 1
    return n_cliques, n_variables


@inlined
def answer(g, work, a, first, start, log_potentials, potentials):
    """work.sums = what clique a tells its free variables."""
    last = g.clique_ptr[a + 1]
    n_maximised, size = 0, 1
    for p in range(first, last):
        n_maximised += g.maximised[g.clique_vars[p]]
        size *= g.n_states[g.clique_vars[p]]
    sound = False
    if n_maximised == 0:
        if last - first == 2 and size == 4 and g.n_states[g.clique_vars[first]] == 2:
            pair_sums(g, work, first, start, potentials)
        else:
            marginal_sums(g, work, first, last, multiply(g, work, first, last, start, potentials))
        sound = lost_precision(g, work, first, last) == 0
    if sound:
        logs_of_sums(g, work, first, last)
    else:
        add_logs(g, work, first, last, start, log_potentials)
        if 0 < n_maximised < last - first:
            mixed_messages(g, work, first, last, size)
        else:
            log_messages(g, work, first, last, size, n_maximised > 0)


@inlined
def speak(g, work, a, first, damping, absorb):
    """Replace clique a's messages by work.sums, damped; add what changed to totals if absorb."""
    at = 0
    weight = g.counting[a]
    for p in range(first, g.clique_ptr[a + 1]):
        i = g.clique_vars[p]
        for s in range(g.n_states[i]):
            place = g.message_start[p] + s
            old = work.messages[place]
            new = work.sums[at + s]
            if old > -np.inf:  # what is ruled out stays so
                if new > -np.inf:
                    new += damping * (old - new)
                    if absorb:
                        work.totals[g.state_start[i] + s] += weight * (new - old)
                elif absorb:
                    work.totals[g.state_start[i] + s] -= weight * old
                    work.dead[g.state_start[i] + s] += 1
                work.messages[place] = new
        at += g.n_states[i]


@inlined
def add_up(g, work, cliques, variables, n_clamped):
    """Totals of all variables from the messages."""
    for v in range(variables.size):
        i = variables[v]
        work.totals[g.state_start[i] : g.state_start[i + 1]] = 0.0
        work.dead[g.state_start[i] : g.state_start[i + 1]] = 0
    for k in range(cliques.size):
        a = cliques[k]
        for p in range(first_free(g, a, n_clamped), g.clique_ptr[a + 1]):
            base = g.state_start[g.clique_vars[p]]
            for s in range(g.n_states[g.clique_vars[p]]):
                told = work.messages[g.message_start[p] + s]
                if told == -np.inf:
                    work.dead[base + s] += 1
                else:
                    work.totals[base + s] += g.counting[a] * told


@inlined
def hear_all(g, work, cliques, n_clamped):
    """Every clique hears all its variables; the largest change."""
    moved = 0.0
    for k in range(cliques.size):
        a = cliques[k]
        for p in range(first_free(g, a, n_clamped), g.clique_ptr[a + 1]):
            moved = max(moved, hear(g, work, p))
    return moved


@inlined
def forget(g, work, cliques, n_clamped):
    """Uniform messages both ways."""
    for k in range(cliques.size):
        a = cliques[k]
        for p in range(first_free(g, a, n_clamped), g.clique_ptr[a + 1]):
            for s in range(g.n_states[g.clique_vars[p]]):
                place = g.message_start[p] + s
                work.messages[place] = 0.0
                work.cavities[place] = 0.0
                work.weights[place] = 1.0


@inlined
def iterate(
    g,
    work,
    log_potentials,
    potentials,
    start,
    cliques,
    variables,
    n_clamped,
    how,
    t,
    heap,
    place,
    urgency,
):
    """As many turns as there are cliques, the t-th time; the residual."""
    late = how.damping < 0.0 and t >= UNDAMPED
    usual = LATE_DAMPING if late else max(how.damping, 0.0)
    forward = how.schedule == FLOODING or t % 2 == 1
    first_answers = how.schedule == SEQUENTIAL and t == 0 and cliques.size > 0
    residual = 1.0 if first_answers else 0.0  # heard in full in the second iteration
    for k in range(cliques.size):
        a = cliques[k] if forward else cliques[cliques.size - 1 - k]
        if how.schedule == RESIDUAL:
            a = heap[0]
            if urgency[a] <= how.tol:
                break
        first = first_free(g, a, n_clamped)
        constant = g.clique_ptr[a + 1] - first == 1
        if constant and t > 0 and how.schedule != RESIDUAL:
            continue
        if how.schedule == SEQUENTIAL:
            for p in range(first, g.clique_ptr[a + 1]):
                residual = max(residual, hear(g, work, p))
        answer(g, work, a, first, start[a], log_potentials, potentials)
        speak(g, work, a, first, 0.0 if constant else usual, how.schedule != FLOODING)
        if how.schedule == RESIDUAL:
            urgency[a] *= 0.0 if constant else usual
            tell(g, work, a, first, n_clamped, heap, place, urgency)
    if how.schedule == FLOODING:
        add_up(g, work, cliques, variables, n_clamped)
        residual = hear_all(g, work, cliques, n_clamped)
    elif how.schedule == RESIDUAL and cliques.size > 0:
        residual = urgency[heap[0]]
    return residual


@kernel
def propagate(graph, tables, starts, scope, how, n_before, messages, scratch, singles, ends):
    """A run for every row of starts.

    singles receives the beliefs of the first scope.n_read variables, ends iterations and residuals:
    the largest change, in the last iteration, of a message from a variable to a clique, as
    :func:`hear` has it. messages of one row or more are where runs start and,
    changed, where they end; with no rows every run starts at uniform messages.
    """
    g, work = borrowed_graph(graph), borrowed_work(scratch)
    cliques, variables = borrowed(scope.cliques), borrowed(scope.variables)
    n_clamped = scope.n_clamped
    log_potentials, potentials = borrowed(tables.log_potentials), borrowed(tables.potentials)
    starts, singles = borrowed(starts), borrowed(singles)
    own = cliques.copy(), np.empty(g.table_start.size, np.int64), np.empty(g.table_start.size)
    heap, place, urgency = borrowed(own[0]), borrowed(own[1]), borrowed(own[2])
    for b in range(starts.shape[0]):
        if messages.shape[0] == 0:
            forget(g, work, cliques, n_clamped)
        else:
            work.messages[:] = messages[b]
        add_up(g, work, cliques, variables, n_clamped)
        if n_before == 0 and (messages.shape[0] > 0 or how.schedule == RESIDUAL):
            hear_all(g, work, cliques, n_clamped)
        if how.schedule == RESIDUAL:
            for k in range(cliques.size):
                heap[k] = cliques[k]
                place[cliques[k]] = k
                urgency[cliques[k]] = 1.0
        residual = 0.0
        t = 0
        while t < how.max_iter:
            residual = iterate(
                g, work, log_potentials, potentials, starts[b], cliques, variables, n_clamped,
                how, n_before + t, heap, place, urgency,
            )  # fmt: skip
            t += 1
            if residual <= how.tol:
                break
        read_singles(g, work, variables, scope.n_read, singles[b])
        ends[b, 0] = t
        ends[b, 1] = residual
        if messages.shape[0] > 0:
            messages[b] = work.messages


@inlined
def tell(g, work, a, first, n_clamped, heap, place, urgency):
    """What clique a said makes the other cliques of its variables more urgent."""
    sink(heap, place, urgency, a)
    for p in range(first, g.clique_ptr[a + 1]):
        i = g.clique_vars[p]
        for k in range(g.var_ptr[i], g.var_ptr[i + 1]):
            other = g.var_clique[k]
            alone = first_free(g, other, n_clamped) == g.clique_ptr[other + 1] - 1
            if other != a and not alone:
                urgency[other] += hear(g, work, g.var_edge[k])
                rise(heap, place, urgency, other)


@inlined
def read_singles(g, work, variables, n_read, out):
    """Normalised beliefs of variables; uniform where every state is ruled out."""
    for v in range(n_read):
        i = variables[v]
        base = g.state_start[i]
        q = g.n_states[i]
        top = -np.inf
        for s in range(q):
            if work.dead[base + s] == 0:
                top = max(top, work.totals[base + s])
        total = 0.0
        for s in range(q):
            value = 1.0 if top == -np.inf else 0.0
            if work.dead[base + s] == 0:
                value = np.exp(work.totals[base + s] - top)
            out[base + s] = value
            total += value
        for s in range(q):
            out[base + s] /= total


@kernel
def summarise(graph, tables, starts, scope, messages, scratch, beliefs):
    """The Bethe (or reweighted) log partition function at the messages, constants left out.

    -inf where the messages rule out every state of a variable or a clique. beliefs receives the
    beliefs of all cliques' slices where their tables lie, if it has entries.
    """
    g, work = borrowed_graph(graph), borrowed_work(scratch)
    cliques, variables = borrowed(scope.cliques), borrowed(scope.variables)
    n_clamped, log_potentials = scope.n_clamped, borrowed(tables.log_potentials)
    work.messages[:] = messages
    add_up(g, work, cliques, variables, n_clamped)
    value = 0.0
    possible = True
    for v in range(variables.size):
        i = variables[v]
        norm = log_norm(work, g.state_start[i], g.n_states[i])
        possible = possible and norm > -np.inf
        value += norm
    for k in range(cliques.size):
        a = cliques[k]
        first = first_free(g, a, n_clamped)
        shift = 0.0
        singles = 0.0
        for p in range(first, g.clique_ptr[a + 1]):
            i = g.clique_vars[p]
            hear(g, work, p)
            shift += cavity_top(g, work, p)
            singles += log_norm(work, g.state_start[i], g.n_states[i])
        size = add_logs(g, work, first, g.clique_ptr[a + 1], starts[a], log_potentials)
        top = -np.inf
        for r in range(size):
            top = max(top, work.table[r])
        possible = possible and top > -np.inf
        total = 0.0
        for r in range(size):
            work.table[r] = np.exp(work.table[r] - top) if top > -np.inf else 1.0
            total += work.table[r]
        value += g.counting[a] * (shift + top + np.log(total) - singles)
        if beliefs.size > 0:
            for r in range(size):
                beliefs[starts[a] + r] = work.table[r] / total
    return value if possible else -np.inf


@inlined
def log_norm(work, base, q):
    """Log of the sum of exp(totals) of one variable."""
    top = -np.inf
    for s in range(q):
        if work.dead[base + s] == 0:
            top = max(top, work.totals[base + s])
    total = 0.0
    for s in range(q):
        if work.dead[base + s] == 0:
            total += np.exp(work.totals[base + s] - top)
    return top + np.log(total) if top > -np.inf else -np.inf


@inlined
def cavity_top(g, work, p):
    """What :func:`hear` took off the cavities of edge p."""
    i = g.clique_vars[p]
    at = g.message_start[p]
    for s in range(g.n_states[i]):
        if work.cavities[at + s] == 0.0:
            told = work.messages[at + s]
            return work.totals[g.state_start[i] + s] - (told if told > -np.inf else 0.0)
    return -np.inf
