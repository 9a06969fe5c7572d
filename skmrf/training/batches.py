"""Minibatches of rows."""

import numpy as np

from .._utils.rows import Batch
from ..samplers.smc import resample

MASK_RATIO = 16  # a mask sorts faster than np.sort if a batch has at least one row in 16


def random_order(data, rng):
    """Return the row indices of an epoch in random order; weighted rows are resampled by weight.

    Batches of resampled rows estimate the phases without bias. Batches of weighted rows would be
    biased, because a batch with a small total weight would count as much as one with a large one.
    """
    n = data.X.shape[0]
    if data.log_weights is None:
        return rng.permutation(n)
    return rng.permutation(resample(data.log_weights, n, rng))


def sort_rows(rows, data):
    """Return row indices in ascending order.

    For large batches, a mask takes a tenth of the time of sorting. A mask needs distinct rows, so
    it is not used for weighted rows, which are resampled with repetitions.
    """
    n = data.X.shape[0]
    if data.log_weights is not None or MASK_RATIO * len(rows) < n:
        return np.sort(rows)
    mask = np.zeros(n, dtype=bool)
    mask[rows] = True
    return np.flatnonzero(mask)


def take_rows(data, rows, state):
    """Return a minibatch that contains the given rows with equal weights."""
    targets = None if data.Y is None else data.Y[rows]
    X = data.X
    # np.take copies the whole array first if it is not C-contiguous.
    is_contiguous = isinstance(X, np.ndarray) and X.flags.c_contiguous
    X = np.take(X, rows, axis=0) if is_contiguous else X[rows]
    return Batch(X, targets, None, rows, state.epoch, state.step)
