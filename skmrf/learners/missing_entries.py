"""Missing entries completed by Gibbs chains that persist from step to step."""

import numpy as np

from .._utils.codes import MISSING
from ..samplers import Product, spawn_generators, sweep


class Completions:
    """Current completion of every training row that has missing entries.

    Parameters
    ----------
    batch : Batch
        All training rows; ``rows`` of later batches number these.
    n_states : ndarray
    rng : numpy.random.Generator
    """

    def __init__(self, batch, n_states, rng):
        missing = batch.shown == MISSING
        self.rows = np.flatnonzero(missing.any(axis=1))
        self.X = batch.shown[self.rows].copy()
        self.missing = missing[self.rows]
        self.rng = rng
        for i, q in enumerate(n_states):
            seen = batch.shown[~missing[:, i], i]
            holes = self.missing[:, i]
            guess = Product.from_counts(seen[:, None], [q]).sample(int(holes.sum()), rng)
            self.X[holes, i] = guess[:, 0]

    def _places(self, batch):
        """(rows of the batch that have missing entries, their places here)."""
        numbers = np.arange(len(batch.X)) if batch.rows is None else batch.rows
        here = np.flatnonzero(np.isin(numbers, self.rows))
        return here, np.searchsorted(self.rows, numbers[here])

    def filled(self, batch):
        """The rows of a batch with the current completions."""
        here, places = self._places(batch)
        X = batch.shown.copy()
        X[here] = self.X[places]
        return X

    def update(self, energy, batch):
        """One Gibbs sweep over the missing entries of a batch; its completed rows."""
        here, places = self._places(batch)
        X = batch.shown.copy()
        if len(here):
            generators = spawn_generators(self.rng, len(here))
            given = energy.at(batch.take(here))
            moved, _ = sweep(given, self.X[places], generators, clamped=~self.missing[places])
            self.X[places] = moved
            X[here] = moved
        return X
