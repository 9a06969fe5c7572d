"""Mean-field coordinate ascent on the lower bound of log Z, and expected log-potentials.

The approximation is a product of single-variable distributions, and ``single[single_start[i] + s]``
is the probability of state s of variable i. Table entries with zero potential have no finite
log-potential, so expectations of log-potentials leave them out. The sum of the probabilities of
these entries under the product distribution is called the zero mass.

For two layers of units, coordinate ascent finds a state of the visible units with locally maximal
probability, the hidden units summed out.
"""

import numpy as np

from ._jit import borrowed, inlined, kernel
from .bipartite import fill_beliefs, sum_segment_logs

RELATIVE = 1.0 + 1e-12  # zero masses within rounding errors are equal


@inlined
def joint_probabilities(a, skipped, n_states, clique_ptr, clique_vars, single, single_start, out):
    """Write the probability of each joint state of clique a's variables, except ``skipped``.

    If ``skipped`` is -1, no variable is left out. Returns the number of probabilities.
    """
    out[0] = 1.0
    filled = 1
    for p in range(clique_ptr[a + 1] - 1, clique_ptr[a] - 1, -1):
        i = clique_vars[p]
        q = n_states[i]
        if i == skipped or q == 1:
            continue
        at = single_start[i]
        for s in range(q - 1, -1, -1):
            for r in range(filled):
                out[s * filled + r] = out[r] * single[at + s]
        filled *= q
    return filled


@kernel
def ascend(tables, single_start, first, last, n_sweeps, tol, buffer, single):
    """Update single-variable distributions until no probability changes by more than ``tol``.

    Each sweep updates the variables ``first`` to ``last - 1``. ``single`` is changed in place.
    ``buffer`` is scratch for a table without one variable. Returns the number of sweeps and the
    largest change in the last one.
    """
    largest = tables.n_states.max() if tables.n_states.size > 0 else 1
    zero = np.empty(largest)
    field = np.empty(largest)
    change = 0.0
    for t in range(n_sweeps):
        change = 0.0
        for i in range(first, last):
            q = tables.n_states[i]
            if q > 1:
                fill_field(tables, i, single, single_start, buffer, zero, field)
                own = single[single_start[i] : single_start[i] + q]
                change = max(change, update_probabilities(zero, field, own))
        if change <= tol:
            return t + 1, change
    return n_sweeps, change


@inlined
def fill_field(tables, i, single, single_start, buffer, zero, field):
    """Write the expected log-potential and the zero-potential probability for states of variable i.

    The expectation leaves out zero potentials.
    """
    q = tables.n_states[i]
    zero[:q] = 0.0
    field[:q] = 0.0
    for e in range(tables.var_ptr[i], tables.var_ptr[i + 1]):
        a = tables.var_clique[e]
        stride = tables.var_stride[e]
        others = joint_probabilities(
            a,
            i,
            tables.n_states,
            tables.clique_ptr,
            tables.clique_vars,
            single,
            single_start,
            buffer,
        )
        at = tables.table_start[a]
        for outer in range(0, others, stride):
            for s in range(q):
                for inner in range(outer, outer + stride):
                    if tables.flat[at] == -np.inf:
                        zero[s] += buffer[inner]
                    else:
                        field[s] += buffer[inner] * tables.flat[at]
                    at += 1


@inlined
def update_probabilities(zero, field, own):
    """Set the probabilities of a variable to the softmax of its expected log-potentials.

    States whose zero mass (probability of zero potentials) is not minimal get probability zero.
    Returns the largest change of a probability.
    """
    least = np.inf
    for s in range(own.size):
        least = min(least, zero[s])
    top = -np.inf
    for s in range(own.size):
        if zero[s] <= least * RELATIVE:
            top = max(top, field[s])
        else:
            field[s] = -np.inf
    total = 0.0
    for s in range(own.size):
        field[s] = np.exp(field[s] - top)
        total += field[s]
    change = 0.0
    for s in range(own.size):
        new = field[s] / total
        change = max(change, abs(new - own[s]))
        own[s] = new
    return change


@kernel
def expected_log_potential(tables, single_start, single, buffer):
    """Return the probability of zero potentials and the expected log-potential, under mean field.

    The probability is a sum over cliques of the probabilities of zero potentials, which the
    expectation leaves out.
    """
    zero = 0.0
    total = 0.0
    for a in range(tables.table_start.size):
        size = joint_probabilities(
            a,
            -1,
            tables.n_states,
            tables.clique_ptr,
            tables.clique_vars,
            single,
            single_start,
            buffer,
        )
        start = tables.table_start[a]
        for r in range(size):
            value = tables.flat[start + r]
            if value == -np.inf:
                zero += buffer[r]
            else:
                total += buffer[r] * value
    return zero, total


@kernel
def add_products(single, single_start, n_states, clique_ptr, clique_vars, table_start, buffer, out):
    """Add to ``out[e]`` the mean-field probability of the joint state of table entry e."""
    for a in range(table_start.size):
        size = joint_probabilities(
            a, -1, n_states, clique_ptr, clique_vars, single, single_start, buffer
        )
        for r in range(size):
            out[table_start[a] + r] += buffer[r]


@inlined
def log_odds(w, state, one, zero, segments, factors):
    """Return the log odds that a visible unit is 1, without the bias of the unit.

    The hidden units are summed out.
    """
    if state:  # the hidden probabilities include the weights of the unit
        for j in range(w.size):
            factors[j] = zero[j] + one[j] / w[j]
        return -sum_segment_logs(factors, segments)
    for j in range(w.size):
        factors[j] = zero[j] + one[j] * w[j]
    return sum_segment_logs(factors, segments)


@kernel
def ascend_states(
    weights, w, visible, hidden, segments, bound, max_iter, scratch, V, out, n_iter, moved
):
    """Set each visible unit in turn to its more probable state until no unit changes.

    A unit changes from 0 to 1 only if its log odds exceed the rounding error. Otherwise ties would
    cycle, because rounding errors depend on the state.

    Parameters
    ----------
    weights, w : ndarray of shape (n_visible, n_hidden)
        Weights and their exponentials.
    visible, hidden : ndarray of shape (n_rows, n_visible) and (n_rows, n_hidden)
        Biases.
    segments : ndarray of int
        Bounds of the segments of hidden units.
    bound : float
        Largest size of logits; larger ones are clipped.
    max_iter : int
        Maximum number of sweeps.
    scratch : ndarray of shape (4, n_hidden)
        Scratch.
    V : ndarray of shape (n_rows, n_visible)
        States, changed in place.
    out : ndarray of shape (n_rows, n_visible)
        Receives the log odds of each visible unit given the other visible units.
    n_iter, moved : ndarray of int of shape (n_rows,)
        Receive the number of sweeps, and the number of units that changed in the last one.
    """
    weights, w, scratch = borrowed(weights), borrowed(w), borrowed(scratch)
    kind = w.dtype.type
    one, zero, factors, logits = scratch[0], scratch[1], scratch[2], scratch[3]
    n_visible, n_hidden = w.shape
    rounding = kind(8 * np.finfo(w.dtype).eps)
    for c in range(V.shape[0]):
        for j in range(n_hidden):
            logits[j] = hidden[c, j]
        for i in range(n_visible):
            if V[c, i]:
                for j in range(n_hidden):
                    logits[j] += weights[i, j]
        fill_beliefs(logits, bound, one, zero)
        count, changes = 0, 1
        while count < max_iter and changes:
            count, changes = count + 1, 0
            for i in range(n_visible):
                state = V[c, i] > 0
                odds = log_odds(w[i], state, one, zero, segments, factors)
                out[c, i] = visible[c, i] + odds
                tie = rounding * (kind(n_hidden) + abs(visible[c, i]))
                if not state and 0 < out[c, i] <= tie:
                    out[c, i] = 0
                if (out[c, i] > 0) == state:
                    continue
                step = kind(-1) if state else kind(1)
                for j in range(n_hidden):
                    logits[j] += step * weights[i, j]
                fill_beliefs(logits, bound, one, zero)
                V[c, i] += step
                changes += 1
        n_iter[c], moved[c] = count, changes
