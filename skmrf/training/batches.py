"""Minibatches of rows."""

import numpy as np

from .._utils.batch import Batch
from ..samplers.smc import resample

MASK_SHARE = 16  # batches of at least one row in 16 are sorted by a mask


def random_order(data, rng):
    """Return the numbers of all rows in random order, resampled by weight if there are weights.

    Batches of equal rows estimate the phases without bias. Weights within batches would not: a
    batch of light rows would count as much as one of heavy rows.
    """
    n = data.X.shape[0]
    if data.log_weights is None:
        return rng.permutation(n)
    return rng.permutation(resample(data.log_weights, n, rng))


def sort_rows(rows, data):
    """Return row numbers in ascending order.

    A mask takes a tenth of the time of sorting where there are many rows. It needs distinct rows,
    and weighted rows repeat.
    """
    n = data.X.shape[0]
    if data.log_weights is not None or MASK_SHARE * len(rows) < n:
        return np.sort(rows)
    mask = np.zeros(n, dtype=bool)
    mask[rows] = True
    return np.flatnonzero(mask)


def take_rows(data, rows, state):
    """Return the batch of some rows, without weights."""
    targets = None if data.Y is None else data.Y[rows]
    X = data.X
    is_contiguous = isinstance(X, np.ndarray) and X.flags.c_contiguous  # else take copies all of it
    X = np.take(X, rows, axis=0) if is_contiguous else X[rows]
    return Batch(X, targets, None, rows, state.epoch, state.step)
