"""Coordinate ascent for a state of the visible units with locally maximal probability.

The objective is ``log sum_h f(v, h)``. It depends on the visible states v; the hidden units are
summed out.
"""

import numpy as np

from ._jit import borrowed, inlined, kernel
from .bipartite import fill_beliefs, sum_segment_logs


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
def ascend(weights, w, visible, hidden, segments, bound, max_iter, scratch, V, out, n_iter, moved):
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
