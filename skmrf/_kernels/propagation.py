"""Runs of belief propagation: schedules, damping and stopping.

There is one run for each row of ``starts``. The row contains the index of each clique's first table
entry that agrees with the states of the clamped variables. A run covers the cliques and
variables of one or more connected components.
"""

from typing import NamedTuple

import numpy as np

from ._jit import borrowed, copy_into, inlined, kernel
from .belief import (
    count_lost_sums,
    fill_log_table,
    fill_product_table,
    first_free_edge,
    messages_from_log_table,
    messages_from_mixed_table,
    messages_from_sums,
    sum_binary_pair,
    sum_out_variables,
    update_cavity,
)

FLOODING, SEQUENTIAL, RESIDUAL = 0, 1, 2
AUTO_DAMPING = -1.0
UNDAMPED = 20  # iterations before automatic damping starts
LATE_DAMPING = 0.5


class Tables(NamedTuple):
    """Tables of a factor graph: log-potentials, and potentials scaled to a maximum of 1."""

    log_potentials: np.ndarray
    potentials: np.ndarray


class Scope(NamedTuple):
    """Cliques and variables that a run of belief propagation covers.

    The cliques and variables form connected components of the graph without clamped variables.
    """

    n_clamped: int
    cliques: np.ndarray
    variables: np.ndarray
    n_read: int  # the beliefs of this many variables are written, in their order


class RunSettings(NamedTuple):
    """Schedule, iteration limit, tolerance and damping of a run of belief propagation.

    A negative damping means automatic damping.
    """

    schedule: int
    max_iter: int
    tol: float
    damping: float


@inlined
def sift_up(heap, position, priority, item):
    """Restore the order of a binary heap after the priority of an item has increased.

    ``heap`` holds the items; the first one has the highest priority. ``position[item]`` is the
    index of an item in the heap.
    """
    k = position[item]
    while k > 0:
        above = (k - 1) // 2
        other = heap[above]
        if priority[other] >= priority[item]:
            break
        heap[k] = other
        position[other] = k
        k = above
    heap[k] = item
    position[item] = k


@inlined
def sift_down(heap, position, priority, item):
    """Restore the order of a binary heap after the priority of an item has decreased."""
    k = position[item]
    n = heap.size
    while 2 * k + 1 < n:
        below = 2 * k + 1
        if below + 1 < n and priority[heap[below + 1]] > priority[heap[below]]:
            below += 1
        other = heap[below]
        if priority[other] <= priority[item]:
            break
        heap[k] = other
        position[other] = k
        k = below
    heap[k] = item
    position[item] = k


@kernel
def find_component(g, n_clamped, root, is_visited, cliques, variables):
    """Write the cliques and variables of the connected component of variable ``root``.

    They are written in breadth-first order.
    Returns the numbers of cliques and variables written. ``is_visited`` has one entry per variable,
    then one per clique, and is updated.
    """
    n = g.n_states.size
    n_cliques, n_variables, done = 0, 1, 0
    variables[0] = root
    is_visited[root] = True
    while done < n_variables:
        i = variables[done]
        done += 1
        for k in range(g.var_ptr[i], g.var_ptr[i + 1]):
            a = g.var_clique[k]
            if is_visited[n + a]:
                continue
            is_visited[n + a] = True
            cliques[n_cliques] = a
            n_cliques += 1
            for p in range(first_free_edge(g, a, n_clamped), g.clique_ptr[a + 1]):
                j = g.clique_vars[p]
                if not is_visited[j]:
                    is_visited[j] = True
                    variables[n_variables] = j
                    n_variables += 1
    return n_cliques, n_variables


@inlined
def compute_messages(g, work, a, first, start, log_potentials, potentials):
    """Set ``work.sums`` to the log messages from clique a to its unclamped variables."""
    last = g.clique_ptr[a + 1]
    n_maximised, size = np.int64(0), np.int64(1)  # one type, so that numba compiles once
    for p in range(first, last):
        n_maximised += g.maximised[g.clique_vars[p]]
        size *= g.n_states[g.clique_vars[p]]
    is_precise = False
    if n_maximised == 0:
        if last - first == 2 and size == 4 and g.n_states[g.clique_vars[first]] == 2:
            sum_binary_pair(g, work, first, start, potentials)
        else:
            sum_out_variables(
                g, work, first, last, fill_product_table(g, work, first, last, start, potentials)
            )
        is_precise = count_lost_sums(g, work, first, last) == 0
    if is_precise:
        messages_from_sums(g, work, first, last)
    else:
        compute_log_messages(g, work, first, last, start, log_potentials, size, n_maximised)


# Functions that are called once per iteration, or that few models need, are compiled separately.
# If everything is inlined into one function, its compilation takes twice as long.


@kernel
def compute_log_messages(g, work, first, last, start, log_potentials, size, n_maximised):
    """Set ``work.sums`` to the messages of one clique, computed in the log domain."""
    fill_log_table(g, work, first, last, start, log_potentials)
    if 0 < n_maximised < last - first:
        messages_from_mixed_table(g, work, first, last, size)
    else:
        messages_from_log_table(g, work, first, last, size, n_maximised > 0)


@kernel
def measure_change(work, place, at, q):
    """Return the largest difference between an old message and the new one in ``work.sums``.

    Both log messages are shifted so that their largest entry is 0. The difference is relative if an
    entry is below -1. Excluded states do not count.
    """
    old_top, new_top, change = -np.inf, -np.inf, 0.0
    for s in range(q):
        if min(work.messages[place + s], work.sums[at + s]) > -np.inf:
            old_top = max(old_top, work.messages[place + s])
            new_top = max(new_top, work.sums[at + s])
    for s in range(q):
        old, new = work.messages[place + s] - old_top, work.sums[at + s] - new_top
        if min(old, new) > -np.inf:
            change = max(change, abs(new - old) / max(1.0, -new, -old))
    return change


@inlined
def store_messages(g, work, a, first, damping, absorb):
    """Replace the messages from clique a by the new messages in ``work.sums``, with damping.

    If ``absorb`` is true, the sums of messages in ``work.totals`` are updated, too. Returns the
    largest distance from a damped message to the new one, which is 0 without damping.
    """
    at, distance = 0, 0.0
    weight = g.counting[a]
    for p in range(first, g.clique_ptr[a + 1]):
        i = g.clique_vars[p]
        if damping > 0.0:
            change = measure_change(work, g.message_start[p], at, g.n_states[i])
            distance = max(distance, damping * change)
        for s in range(g.n_states[i]):
            place = g.message_start[p] + s
            old = work.messages[place]
            new = work.sums[at + s]
            if old > -np.inf:  # an excluded state stays excluded
                if new > -np.inf:
                    new += damping * (old - new)
                    if absorb:
                        work.totals[g.state_start[i] + s] += weight * (new - old)
                elif absorb:
                    work.totals[g.state_start[i] + s] -= weight * old
                    work.n_excluded[g.state_start[i] + s] += 1
                work.messages[place] = new
        at += g.n_states[i]
    return distance


@kernel
def sum_messages(g, work, cliques, variables, n_clamped):
    """Recompute the sum of the incoming log messages of each variable."""
    for v in range(variables.size):
        i = variables[v]
        work.totals[g.state_start[i] : g.state_start[i + 1]] = 0.0
        work.n_excluded[g.state_start[i] : g.state_start[i + 1]] = 0
    for k in range(cliques.size):
        a = cliques[k]
        for p in range(first_free_edge(g, a, n_clamped), g.clique_ptr[a + 1]):
            offset = g.state_start[g.clique_vars[p]]
            for s in range(g.n_states[g.clique_vars[p]]):
                message = work.messages[g.message_start[p] + s]
                if message == -np.inf:
                    work.n_excluded[offset + s] += 1
                else:
                    work.totals[offset + s] += g.counting[a] * message


@kernel
def update_all_cavities(g, work, cliques, n_clamped):
    """Recompute all messages from variables to cliques (cavities); return the largest change."""
    change = 0.0
    for k in range(cliques.size):
        a = cliques[k]
        for p in range(first_free_edge(g, a, n_clamped), g.clique_ptr[a + 1]):
            change = max(change, update_cavity(g, work, p))
    return change


@kernel
def reset_messages(g, work, cliques, n_clamped):
    """Set the messages in both directions to uniform distributions."""
    for k in range(cliques.size):
        a = cliques[k]
        for p in range(first_free_edge(g, a, n_clamped), g.clique_ptr[a + 1]):
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
    priority,
):
    """Run iteration t of belief propagation, and return the residual.

    An iteration has at most ``cliques.size`` clique updates.
    """
    is_late = how.damping < 0.0 and t >= UNDAMPED
    usual_damping = LATE_DAMPING if is_late else max(how.damping, 0.0)
    forward = how.schedule == FLOODING or t % 2 == 1
    is_first = how.schedule == SEQUENTIAL and t == 0 and cliques.size > 0
    residual = 1.0 if is_first else 0.0  # a second iteration, as the first lacks some messages
    for k in range(cliques.size):
        a = cliques[k] if forward else cliques[cliques.size - 1 - k]
        if how.schedule == RESIDUAL:
            a = heap[0]
            if priority[a] <= how.tol:
                break
        first = first_free_edge(g, a, n_clamped)
        is_constant = g.clique_ptr[a + 1] - first == 1
        if is_constant and t > 0 and how.schedule != RESIDUAL:
            continue
        if how.schedule == SEQUENTIAL:
            for p in range(first, g.clique_ptr[a + 1]):
                residual = max(residual, update_cavity(g, work, p))
        compute_messages(g, work, a, first, start[a], log_potentials, potentials)
        damping = 0.0 if is_constant else usual_damping
        distance = store_messages(g, work, a, first, damping, how.schedule != FLOODING)
        residual = max(residual, distance)  # damped messages can lag behind constant cavities
        if how.schedule == RESIDUAL:
            priority[a] *= damping
            update_priorities(g, work, a, first, n_clamped, heap, place, priority)
    if how.schedule == FLOODING:
        sum_messages(g, work, cliques, variables, n_clamped)
        residual = max(residual, update_all_cavities(g, work, cliques, n_clamped))
    elif how.schedule == RESIDUAL and cliques.size > 0:
        residual = priority[heap[0]]
    return residual


@kernel
def propagate(graph, tables, starts, scope, how, n_before, messages, scratch, singles, ends):
    """Run belief propagation once for each row of evidence (each row of ``starts``).

    ``singles`` receives the beliefs of the first ``scope.n_read`` variables. ``ends`` receives the
    number of iterations and the residual of each run. The residual is the largest change of a
    cavity in the last iteration, as :func:`update_cavity` defines it, or the largest distance from
    a damped message to the undamped one if this is greater. If ``messages`` has rows, runs start at
    these messages and write their last messages there. If it has no rows, runs start at uniform
    messages.
    """
    g, work = borrowed(graph), borrowed(scratch)
    cliques, variables = borrowed(scope.cliques), borrowed(scope.variables)
    n_clamped = scope.n_clamped
    log_potentials, potentials = borrowed(tables.log_potentials), borrowed(tables.potentials)
    starts, singles = borrowed(starts), borrowed(singles)
    n_cliques = g.table_start.size
    heap, place, priority = cliques.copy(), np.empty(n_cliques, np.int64), np.empty(n_cliques)
    for b in range(starts.shape[0]):
        if messages.shape[0] == 0:
            reset_messages(g, work, cliques, n_clamped)
        else:
            copy_into(messages[b], work.messages)
        sum_messages(g, work, cliques, variables, n_clamped)
        if n_before == 0 and (messages.shape[0] > 0 or how.schedule == RESIDUAL):
            update_all_cavities(g, work, cliques, n_clamped)
        if how.schedule == RESIDUAL:
            for k in range(cliques.size):
                heap[k] = cliques[k]
                place[cliques[k]] = k
                priority[cliques[k]] = 1.0
        residual = 0.0
        t = 0
        while t < how.max_iter:
            residual = iterate(
                g, work, log_potentials, potentials, starts[b], cliques, variables, n_clamped,
                how, n_before + t, heap, place, priority,
            )  # fmt: skip
            t += 1
            if residual <= how.tol:
                break
        read_beliefs(g, work, variables, scope.n_read, singles[b])
        ends[b, 0] = t
        ends[b, 1] = residual
        if messages.shape[0] > 0:
            copy_into(work.messages, messages[b])


@inlined
def update_priorities(g, work, a, first, n_clamped, heap, place, priority):
    """Raise the priority of the neighbours of clique a after its messages have changed."""
    sift_down(heap, place, priority, a)
    for p in range(first, g.clique_ptr[a + 1]):
        i = g.clique_vars[p]
        for k in range(g.var_ptr[i], g.var_ptr[i + 1]):
            neighbour = g.var_clique[k]
            is_constant = (
                first_free_edge(g, neighbour, n_clamped) == g.clique_ptr[neighbour + 1] - 1
            )
            if neighbour != a and not is_constant:
                priority[neighbour] += update_cavity(g, work, g.var_edge[k])
                sift_up(heap, place, priority, neighbour)


@kernel
def read_beliefs(g, work, variables, n_read, out):
    """Write the normalised belief of each variable (uniform if no state is possible)."""
    for v in range(n_read):
        i = variables[v]
        offset = g.state_start[i]
        q = g.n_states[i]
        top = -np.inf
        for s in range(q):
            if work.n_excluded[offset + s] == 0:
                top = max(top, work.totals[offset + s])
        total = 0.0
        for s in range(q):
            value = 1.0 if top == -np.inf else 0.0
            if work.n_excluded[offset + s] == 0:
                value = np.exp(work.totals[offset + s] - top)
            out[offset + s] = value
            total += value
        for s in range(q):
            out[offset + s] /= total


@kernel
def log_norm(work, offset, q):
    """Return the log normalising constant of the belief of one variable."""
    top = -np.inf
    for s in range(q):
        if work.n_excluded[offset + s] == 0:
            top = max(top, work.totals[offset + s])
    total = 0.0
    for s in range(q):
        if work.n_excluded[offset + s] == 0:
            total += np.exp(work.totals[offset + s] - top)
    return top + np.log(total) if top > -np.inf else -np.inf


@kernel
def cavity_shift(g, work, p):
    """Return the constant that normalises the log message of edge p in :func:`update_cavity`."""
    i = g.clique_vars[p]
    at = g.message_start[p]
    for s in range(g.n_states[i]):
        if work.cavities[at + s] == 0.0:
            message = work.messages[at + s]
            return work.totals[g.state_start[i] + s] - (message if message > -np.inf else 0.0)
    return -np.inf


@kernel
def bethe_log_partition(graph, tables, starts, scope, messages, scratch, beliefs):
    """Return the Bethe (or tree-reweighted) approximation of log Z for given messages.

    Cliques whose variables are all clamped are left out. The value is ``-inf`` if the messages
    exclude every state of a variable or a clique. If ``beliefs`` has entries, it receives the
    beliefs of each clique, at the positions of its slice of the table.
    """
    g, work = borrowed(graph), borrowed(scratch)
    cliques, variables = borrowed(scope.cliques), borrowed(scope.variables)
    n_clamped, log_potentials = scope.n_clamped, borrowed(tables.log_potentials)
    copy_into(messages, work.messages)
    sum_messages(g, work, cliques, variables, n_clamped)
    update_all_cavities(g, work, cliques, n_clamped)
    value = 0.0
    is_possible = True
    for v in range(variables.size):
        i = variables[v]
        norm = log_norm(work, g.state_start[i], g.n_states[i])
        is_possible = is_possible and norm > -np.inf
        value += norm
    for k in range(cliques.size):
        a = cliques[k]
        first = first_free_edge(g, a, n_clamped)
        shift = 0.0
        singles = 0.0
        for p in range(first, g.clique_ptr[a + 1]):
            i = g.clique_vars[p]
            shift += cavity_shift(g, work, p)
            singles += log_norm(work, g.state_start[i], g.n_states[i])
        size = fill_log_table(g, work, first, g.clique_ptr[a + 1], starts[a], log_potentials)
        top = -np.inf
        for r in range(size):
            top = max(top, work.table[r])
        is_possible = is_possible and top > -np.inf
        total = 0.0
        for r in range(size):
            work.table[r] = np.exp(work.table[r] - top) if top > -np.inf else 1.0
            total += work.table[r]
        value += g.counting[a] * (shift + top + np.log(total) - singles)
        if beliefs.size > 0:
            for r in range(size):
                beliefs[starts[a] + r] = work.table[r] / total
    return value if is_possible else -np.inf
