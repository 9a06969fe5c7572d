"""Computation of the messages of one clique in belief propagation.

The clamped variables have the lowest numbers. Each clique lists its variables in increasing order,
so its table given the clamped variables is one contiguous slice of the whole table.

An edge is a pair of a clique and one of its variables. Messages go from cliques to variables.
Cavities go from variables to cliques: the cavity of an edge is the belief of the variable without
the message of this clique. Messages and cavities are logarithms, one per state of the edge's
variable. A message of ``-inf`` excludes a state: the state has probability zero. For each
state of each variable, ``n_excluded`` is the number of messages of ``-inf``, and ``totals`` is the
sum of all other messages.
"""

from typing import NamedTuple

import numpy as np

from ._jit import inlined

TINY = 1e-200  # sums below may have lost terms by underflow; they are recomputed with logarithms
PENALTY = 1e4  # nats, for states that only the current states of maximised variables exclude


class Graph(NamedTuple):
    """Arrays that describe a factor graph.

    Edge p connects the variable ``clique_vars[p]`` to its clique.
    """

    n_states: np.ndarray
    state_start: np.ndarray
    clique_ptr: np.ndarray
    clique_vars: np.ndarray
    table_start: np.ndarray
    message_start: np.ndarray
    var_ptr: np.ndarray
    var_edge: np.ndarray
    var_clique: np.ndarray
    counting: np.ndarray  # weight per clique: 1 for belief propagation, less for tree reweighting
    maximised: np.ndarray  # whether a variable is maximised and not summed out


class Work(NamedTuple):
    """Messages and scratch arrays of a run of belief propagation."""

    messages: np.ndarray  # from cliques to variables
    cavities: np.ndarray  # from variables to cliques; the largest of each edge is 0
    weights: np.ndarray  # exp(cavities)
    totals: np.ndarray  # sums of messages, for all states of all variables
    n_excluded: np.ndarray  # number of cliques that exclude a state
    table: np.ndarray
    sums: np.ndarray
    joint: np.ndarray


@inlined
def first_free_edge(g, a, n_clamped):
    """Return the index of the first edge of clique a whose variable is not clamped."""
    p = g.clique_ptr[a]
    while p < g.clique_ptr[a + 1] and g.clique_vars[p] < n_clamped:
        p += 1
    return p


@inlined
def update_cavity(g, work, p):
    """Recompute the message from variable to clique (cavity) of edge p; return the largest change.

    The change of a state is the change of its log message, relative if the log message is below -1.
    The log message of an excluded state is infinite, so its change is the change of the weight (the
    exponential). For all other states the weight is not sufficient: it may stay close to 0 while
    the log message, on which other messages depend, changes.
    """
    i = g.clique_vars[p]
    at = g.message_start[p]
    offset = g.state_start[i]
    open_states = 0
    for s in range(g.n_states[i]):
        open_states += work.n_excluded[offset + s] == 0
    if open_states == 2 and g.n_states[i] == 2:
        change = update_binary_cavity(work, at, offset)
    else:
        change = update_cavity_states(work, at, offset, g.n_states[i])
    return change


@inlined
def update_binary_cavity(work, at, offset):
    """Recompute the message from a binary variable to a clique (cavity); return the change.

    The message is computed from the log odds of the variable. Neither state may be excluded.
    """
    odds = work.totals[offset + 1] - work.messages[at + 1] - work.totals[offset] + work.messages[at]
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
def update_cavity_states(work, at, offset, q):
    """Recompute the message from a variable to a clique (cavity); return the largest change.

    Some states of the variable can be excluded (have probability zero).
    """
    top = -np.inf
    for s in range(q):
        value = work.totals[offset + s]
        n_excluded = work.n_excluded[offset + s]
        message = work.messages[at + s]
        if message == -np.inf:
            n_excluded -= 1
        else:
            value -= message
        if n_excluded > 0:
            value = -np.inf
        work.sums[s] = value
        top = max(top, value)
    change = 0.0
    for s in range(q):
        value = work.sums[s] - top if top > -np.inf else 0.0
        old = work.cavities[at + s]
        weight = 1.0 if value == 0.0 else np.exp(value)
        if min(value, old) > -np.inf:
            change = max(change, abs(value - old) / max(1.0, -value, -old))
        else:
            change = max(change, abs(weight - work.weights[at + s]))
        work.cavities[at + s] = value
        work.weights[at + s] = weight
    return change


@inlined
def fill_product_table(g, work, first, last, start, potentials):
    """Multiply a clique's potentials by its incoming messages; return the number of entries.

    ``work.table`` receives the products.
    """
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
def sum_binary_pair(g, work, first, start, potentials):
    """Compute the marginals of both variables of a clique of two binary variables.

    ``work.sums`` receives the marginals, which are not normalised. They are the
    same as in :func:`sum_out_variables`.
    """
    a, b = g.message_start[first], g.message_start[first + 1]
    x0, x1, y0, y1 = work.weights[a], work.weights[a + 1], work.weights[b], work.weights[b + 1]
    t00, t01 = potentials[start] * x0 * y0, potentials[start + 1] * x0 * y1
    t10, t11 = potentials[start + 2] * x1 * y0, potentials[start + 3] * x1 * y1
    work.sums[0] = t00 + t01
    work.sums[1] = t10 + t11
    work.sums[2] = t00 + t10
    work.sums[3] = t01 + t11


@inlined
def sum_out_variables(g, work, first, last, size):
    """Compute the marginals of a clique's variables from potentials times incoming messages.

    ``work.table`` contains these products, and is overwritten. ``work.sums`` receives the
    marginals, which are not normalised.
    """
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
def count_lost_sums(g, work, first, last):
    """Return the number of marginals of a clique that may be too small because of underflow."""
    at = 0
    lost = 0
    for p in range(first, last):
        edge = g.message_start[p]
        q = g.n_states[g.clique_vars[p]]
        for s in range(q):
            is_excluded = min(work.cavities[edge + s], work.messages[edge + s]) == -np.inf
            lost += work.sums[at + s] < TINY and not is_excluded
        at += q
    return lost


@inlined
def messages_from_sums(g, work, first, last):
    """Convert the marginals in ``work.sums`` to log messages from a clique to its variables."""
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
def fill_log_table(g, work, first, last, start, log_potentials):
    """Add a clique's incoming log messages to its log-potentials; return the number of entries.

    ``work.table`` receives the sums.
    """
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
def messages_from_log_table(g, work, first, last, size, maximise):
    """Compute the log messages of a clique from its table of log sums.

    ``work.sums`` receives the messages.
    """
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
def most_probable_state(g, work, i):
    """Return the state of variable i with the largest belief (the first state if tied)."""
    offset = g.state_start[i]
    best = 0
    top = -np.inf
    for s in range(g.n_states[i]):
        if work.n_excluded[offset + s] == 0 and work.totals[offset + s] > top:
            best = s
            top = work.totals[offset + s]
    return best


@inlined
def log_add(a, b):
    """Return ``log(exp(a) + exp(b))``."""
    top = max(a, b)
    return top if top == -np.inf else top + np.log1p(np.exp(min(a, b) - top))


@inlined
def log_sum_at(work, size, inner, q, s):
    """Return the log-sum-exp of the entries of a clique's table in which a variable has state s.

    The variable has q states and the stride ``inner`` in the table.
    """
    value = -np.inf
    for r in range(size):
        if r // inner % q == s:
            value = log_add(value, work.table[r])
    return value


@inlined
def messages_from_mixed_table(g, work, first, last, size):
    """Compute the log messages of a clique that has both maximised and summed variables.

    ``work.sums`` receives the messages.
    The message to a maximised variable is the maximum, over the other maximised variables, of the
    sum over all summed variables. The message to a summed variable is the sum over the other summed
    variables, with each maximised variable in its state of largest belief. If this sum is zero, the
    state is impossible only until the beliefs change. The message is then the sum over all states
    of the maximised variables, minus a penalty.
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
        rest, j, radix, is_consistent = r, 0, 1, True
        for p in range(last - 1, first - 1, -1):
            i = g.clique_vars[p]
            s = rest % g.n_states[i]
            rest //= g.n_states[i]
            if g.maximised[i]:
                j += radix * s
                radix *= g.n_states[i]
                is_consistent = is_consistent and s == most_probable_state(g, work, i)
        work.joint[j] = log_add(work.joint[j], work.table[r])
        rest, at = r, n_sums
        for p in range(last - 1, first - 1, -1):
            i = g.clique_vars[p]
            at -= g.n_states[i]
            if is_consistent and not g.maximised[i]:
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
