"""Coordinate ascent on ``log sum_h f(v, h)`` over the states of visible units."""

import numpy as np

from ._jit import borrowed, inlined, kernel
from .bipartite import beliefs, log_product


@inlined
def log_odds(w, state, one, zero, segments, factors):
    """Log of ``sum_h f`` with a visible unit at 1 over that at 0, without its field."""
    if state:  # the hidden units' fields hold the weights of the unit
        for j in range(w.size):
            factors[j] = zero[j] + one[j] / w[j]
        return -log_product(factors, segments)
    for j in range(w.size):
        factors[j] = zero[j] + one[j] * w[j]
    return log_product(factors, segments)


@kernel
def ascend(weights, w, visible, hidden, segments, bound, max_iter, scratch, V, out, n_iter, moved):
    """Set one visible unit after the other to its better state until none changes.

    Units leave 0 only for more than rounding errors, which differ by state: else ties would cycle.

    Parameters
    ----------
    weights, w : (n_visible, n_hidden), W and its exponentials
    visible, hidden : (n_rows, n_visible) and (n_rows, n_hidden), fields
    segments : bounds of segments of hidden units
    bound : logits beyond it are held there
    max_iter : sweeps
    scratch : (4, n_hidden)
    V : (n_rows, n_visible), states, changed in place
    out : (n_rows, n_visible), log odds of every unit given the others
    n_iter, moved : (n_rows,), sweeps done, and the changes of the last
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
        beliefs(logits, bound, one, zero)
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
                beliefs(logits, bound, one, zero)
                V[c, i] += step
                changes += 1
        n_iter[c], moved[c] = count, changes
