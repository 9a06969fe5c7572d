"""One clique's turn in belief propagation: it hears its variables and answers them.

Variables are numbered in an order in which the clamped ones come first; cliques list their
variables in that order, so what is left of a clique's table is one contiguous slice of it.
Messages and cavities are logs, one number a state of every (clique, variable) edge; ``-inf`` is a
state that is ruled out, counted in ``dead`` and left out of ``totals``.
"""

from typing import NamedTuple

import numpy as np

from ._jit import borrowed, inlined

TINY = 1e-200  # sums below may have lost terms; they are taken again in logs
PENALTY = 1e4  # nats for a state that only the present states of maximised variables rule out


class Graph(NamedTuple):
    """Arrays of a factor graph; edge p is variable clique_vars[p] in its clique."""

    n_states: np.ndarray
    state_start: np.ndarray
    clique_ptr: np.ndarray
    clique_vars: np.ndarray
    table_start: np.ndarray
    message_start: np.ndarray
    var_ptr: np.ndarray
    var_edge: np.ndarray
    var_clique: np.ndarray
    counting: np.ndarray  # of cliques: 1 for belief propagation, less for tree reweighting
    maximised: np.ndarray  # of variables: max instead of sum


class Work(NamedTuple):
    """What a run changes."""

    messages: np.ndarray  # from cliques to variables
    cavities: np.ndarray  # from variables to cliques, the largest 0
    weights: np.ndarray  # exp(cavities)
    totals: np.ndarray  # of every variable's states, side by side
    dead: np.ndarray  # how many cliques rule the state out
    table: np.ndarray
    sums: np.ndarray
    joint: np.ndarray


@inlined
def borrowed_graph(g):
    """The graph in arrays that count no references."""
    return Graph(
        borrowed(g.n_states),
        borrowed(g.state_start),
        borrowed(g.clique_ptr),
        borrowed(g.clique_vars),
        borrowed(g.table_start),
        borrowed(g.message_start),
        borrowed(g.var_ptr),
        borrowed(g.var_edge),
        borrowed(g.var_clique),
        borrowed(g.counting),
        borrowed(g.maximised),
    )


@inlined
def borrowed_work(work):
    """The same for what a run changes."""
    return Work(
        borrowed(work.messages),
        borrowed(work.cavities),
        borrowed(work.weights),
        borrowed(work.totals),
        borrowed(work.dead),
        borrowed(work.table),
        borrowed(work.sums),
        borrowed(work.joint),
    )


@inlined
def first_free(g, a, n_clamped):
    """First edge of clique a whose variable is not clamped."""
    p = g.clique_ptr[a]
    while p < g.clique_ptr[a + 1] and g.clique_vars[p] < n_clamped:
        p += 1
    return p


@inlined
def hear(g, work, p):
    """Take in what edge p's variable knows from its other cliques; how far that moved.

    The largest change of a log, relative where the log is below -1; of a weight, where a state is
    ruled out. A weight that stays next to 0 says nothing of its log, on which others may depend.
    """
    i = g.clique_vars[p]
    at = g.message_start[p]
    base = g.state_start[i]
    open_states = 0
    for s in range(g.n_states[i]):
        open_states += work.dead[base + s] == 0
    if open_states == 2 and g.n_states[i] == 2:
        moved = hear_odds(work, at, base)
    else:
        moved = hear_states(work, at, base, g.n_states[i])
    return moved


@inlined
def hear_odds(work, at, base):
    """:func:`hear` where two states are open: their log-odds say it all."""
    odds = work.totals[base + 1] - work.messages[at + 1] - work.totals[base] + work.messages[at]
    old = work.cavities[at + 1] - work.cavities[at]
    low = -abs(odds)
    weight = np.exp(low)
    one = odds > 0.0
    work.cavities[at] = low if one else 0.0
    work.cavities[at + 1] = 0.0 if one else low
    work.weights[at] = weight if one else 1.0
    work.weights[at + 1] = 1.0 if one else weight
    return abs(odds - old) / max(1.0, -low, abs(old))


@inlined
def hear_states(work, at, base, q):
    """:func:`hear` for any number of states, some of them ruled out."""
    top = -np.inf
    for s in range(q):
        value = work.totals[base + s]
        dead = work.dead[base + s]
        told = work.messages[at + s]
        if told == -np.inf:
            dead -= 1
        else:
            value -= told
        if dead > 0:
            value = -np.inf
        work.sums[s] = value
        top = max(top, value)
    moved = 0.0
    for s in range(q):
        value = work.sums[s] - top if top > -np.inf else 0.0
        old = work.cavities[at + s]
        weight = 1.0 if value == 0.0 else np.exp(value)
        if min(value, old) > -np.inf:
            moved = max(moved, abs(value - old) / max(1.0, -value, -old))
        else:
            moved = max(moved, abs(weight - work.weights[at + s]))
        work.cavities[at + s] = value
        work.weights[at + s] = weight
    return moved


@inlined
def multiply(g, work, first, last, start, potentials):
    """work.table = potentials times the weights of all variables; its size."""
    size = 1
    work.table[0] = 1.0
    for p in range(last - 1, first - 1, -1):
        at = g.message_start[p]
        q = g.n_states[g.clique_vars[p]]
        for s in range(q - 1, -1, -1):
            weight = work.weights[at + s]
            for r in range(size):
                work.table[s * size + r] = weight * work.table[r]
        size *= q
    for r in range(size):
        work.table[r] *= potentials[start + r]
    return size


@inlined
def pair_sums(g, work, first, start, potentials):
    """work.sums as by :func:`marginal_sums`, for two variables of two states."""
    a, b = g.message_start[first], g.message_start[first + 1]
    x0, x1, y0, y1 = work.weights[a], work.weights[a + 1], work.weights[b], work.weights[b + 1]
    t00, t01 = potentials[start] * x0 * y0, potentials[start + 1] * x0 * y1
    t10, t11 = potentials[start + 2] * x1 * y0, potentials[start + 3] * x1 * y1
    work.sums[0] = t00 + t01
    work.sums[1] = t10 + t11
    work.sums[2] = t00 + t10
    work.sums[3] = t01 + t11


@inlined
def marginal_sums(g, work, first, last, size):
    """work.sums = sums of work.table by the states of every variable; the table is used up."""
    at = 0
    for p in range(first, last):
        q = g.n_states[g.clique_vars[p]]
        size //= q
        for s in range(q):
            total = 0.0
            for r in range(size):
                total += work.table[s * size + r]
            work.sums[at + s] = total
        for s in range(1, q):
            for r in range(size):
                work.table[r] += work.table[s * size + r]
        at += q


@inlined
def lost_precision(g, work, first, last):
    """How many sums of states that are not ruled out may have lost terms."""
    at = 0
    lost = 0
    for p in range(first, last):
        edge = g.message_start[p]
        q = g.n_states[g.clique_vars[p]]
        for s in range(q):
            ruled_out = min(work.cavities[edge + s], work.messages[edge + s]) == -np.inf
            lost += work.sums[at + s] < TINY and not ruled_out
        at += q
    return lost


@inlined
def logs_of_sums(g, work, first, last):
    """work.sums = messages, from sums."""
    at = 0
    for p in range(first, last):
        q = g.n_states[g.clique_vars[p]]
        edge = g.message_start[p]
        best = 0
        for s in range(q):
            if work.sums[at + s] > work.sums[at + best]:
                best = s
        scale = work.sums[at + best]
        for s in range(q):
            value = 0.0
            if work.cavities[edge + s] > -np.inf:
                value = -work.cavities[edge + s]
                if s != best:
                    value += np.log(work.sums[at + s] / scale)
            work.sums[at + s] = value
        at += q


@inlined
def add_logs(g, work, first, last, start, log_potentials):
    """work.table = log-potentials plus the cavities of all variables; its size."""
    size = 1
    work.table[0] = 0.0
    for p in range(last - 1, first - 1, -1):
        at = g.message_start[p]
        q = g.n_states[g.clique_vars[p]]
        for s in range(q - 1, -1, -1):
            value = work.cavities[at + s]
            for r in range(size):
                work.table[s * size + r] = value + work.table[r]
        size *= q
    for r in range(size):
        work.table[r] += log_potentials[start + r]
    return size


@inlined
def log_messages(g, work, first, last, size, maximise):
    """work.sums = messages by log-sum-exp or maximum over the log table."""
    at = 0
    inner = size
    for p in range(first, last):
        q = g.n_states[g.clique_vars[p]]
        inner //= q
        outer = size // (inner * q)
        for s in range(q):
            top = -np.inf
            for o in range(outer):
                for r in range(inner):
                    top = max(top, work.table[(o * q + s) * inner + r])
            if not maximise and top > -np.inf:
                total = 0.0
                for o in range(outer):
                    for r in range(inner):
                        total += np.exp(work.table[(o * q + s) * inner + r] - top)
                top += np.log(total)
            cavity = work.cavities[g.message_start[p] + s]
            work.sums[at + s] = top - cavity if cavity > -np.inf else 0.0
        at += q


@inlined
def best_state(g, work, i):
    """The state of variable i of largest belief, the first of equal ones."""
    base = g.state_start[i]
    best = 0
    top = -np.inf
    for s in range(g.n_states[i]):
        if work.dead[base + s] == 0 and work.totals[base + s] > top:
            best = s
            top = work.totals[base + s]
    return best


@inlined
def log_add(a, b):
    """log(exp(a) + exp(b))."""
    top = max(a, b)
    return top if top == -np.inf else top + np.log1p(np.exp(min(a, b) - top))


@inlined
def log_sum_at(work, size, inner, q, s):
    """Log of the sum over the log table where the variable of this stride and size is in s."""
    value = -np.inf
    for r in range(size):
        if r // inner % q == s:
            value = log_add(value, work.table[r])
    return value


@inlined
def mixed_messages(g, work, first, last, size):
    """work.sums = messages of a clique of maximised and summed variables.

    To a maximised variable: the maximum over the other maximised ones of the sum over all summed
    ones. To a summed variable: the sum over the other summed ones, the maximised ones at the states
    of their largest beliefs. What is impossible with these is so for the present only: it gets the
    sum over all states of the maximised ones less a penalty.
    """
    n_joint, n_sums = 1, 0
    for p in range(first, last):
        i = g.clique_vars[p]
        n_sums += g.n_states[i]
        if g.maximised[i]:
            n_joint *= g.n_states[i]
    work.joint[:n_joint] = -np.inf
    work.sums[:n_sums] = -np.inf
    for r in range(size):
        rest, j, radix, agrees = r, 0, 1, True
        for p in range(last - 1, first - 1, -1):
            i = g.clique_vars[p]
            s = rest % g.n_states[i]
            rest //= g.n_states[i]
            if g.maximised[i]:
                j += radix * s
                radix *= g.n_states[i]
                agrees = agrees and s == best_state(g, work, i)
        work.joint[j] = log_add(work.joint[j], work.table[r])
        rest, at = r, n_sums
        for p in range(last - 1, first - 1, -1):
            i = g.clique_vars[p]
            at -= g.n_states[i]
            if agrees and not g.maximised[i]:
                place = at + rest % g.n_states[i]
                work.sums[place] = log_add(work.sums[place], work.table[r])
            rest //= g.n_states[i]
    for j in range(n_joint):
        rest, at = j, n_sums
        for p in range(last - 1, first - 1, -1):
            i = g.clique_vars[p]
            at -= g.n_states[i]
            if g.maximised[i]:
                place = at + rest % g.n_states[i]
                work.sums[place] = max(work.sums[place], work.joint[j])
                rest //= g.n_states[i]
    at = 0
    inner = size
    for p in range(first, last):
        i = g.clique_vars[p]
        q = g.n_states[i]
        inner //= q
        for s in range(q):
            value = work.sums[at + s]
            if value == -np.inf and not g.maximised[i]:
                value = log_sum_at(work, size, inner, q, s) - PENALTY
            cavity = work.cavities[g.message_start[p] + s]
            work.sums[at + s] = value - cavity if cavity > -np.inf else 0.0
        at += q
