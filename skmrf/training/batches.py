"""Which rows a batch has."""

import numpy as np

from .._utils.batch import Batch
from ..samplers import resample

MARKED = 16  # batches of this part of all rows or more


def random_order(data, rng):
    """All rows in random order; weighted ones about as often as their weights say.

    Batches of equal rows estimate the phases without bias. Weights within batches would not: a
    batch of light rows would count as much as one of heavy rows.
    """
    n = data.X.shape[0]
    if data.log_weights is None:
        return rng.permutation(n)
    return rng.permutation(resample(data.log_weights, n, rng))


def ascending(rows, data):
    """Numbers of rows in order.

    Marks of many take a tenth of the time of sorting, where none occurs twice, as weighted rows do.
    """
    n = data.X.shape[0]
    if data.log_weights is not None or MARKED * len(rows) < n:
        return np.sort(rows)
    marks = np.zeros(n, dtype=bool)
    marks[rows] = True
    return np.flatnonzero(marks)


def take(data, rows, state):
    """The batch of these rows."""
    targets = None if data.Y is None else data.Y[rows]
    X = data.X
    plain = isinstance(X, np.ndarray) and X.flags.c_contiguous  # else take copies all of it first
    X = np.take(X, rows, axis=0) if plain else X[rows]
    return Batch(X, targets, None, rows, state.epoch, state.step)
