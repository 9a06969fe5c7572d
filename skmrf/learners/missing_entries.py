"""Imputation of missing entries during training, by persistent Gibbs chains."""

import numpy as np

from .._utils.codes import MISSING
from ..samplers import Product, spawn_generators, sweep


class GibbsImputer:
    """Gibbs chains that impute the missing entries of the training rows.

    Parameters
    ----------
    batch : Batch
        All training rows. The row numbers ``rows`` of later batches refer to these.
    n_states : ndarray of int of shape (n_visible,)
        Number of states of each visible variable.
    rng : numpy.random.Generator
        Source of random numbers.
    """

    def __init__(self, batch, n_states, rng):
        missing = batch.shown == MISSING
        self.rows = np.flatnonzero(missing.any(axis=1))
        self.X = batch.shown[self.rows].copy()
        self.missing = missing[self.rows]
        self.rng = rng
        for i, q in enumerate(n_states):
            observed = batch.shown[~missing[:, i], i]
            is_missing = self.missing[:, i]
            drawn = Product.from_counts(observed[:, None], [q]).sample(int(is_missing.sum()), rng)
            self.X[is_missing, i] = drawn[:, 0]

    def _find_chains(self, batch):
        """Return the indices of a batch's incomplete rows, and the indices of their chains."""
        row_numbers = np.arange(len(batch.X)) if batch.rows is None else batch.rows
        incomplete = np.flatnonzero(np.isin(row_numbers, self.rows))
        return incomplete, np.searchsorted(self.rows, row_numbers[incomplete])

    def impute(self, batch):
        """Return the rows of a batch, with missing entries replaced by the chains' states."""
        incomplete, chains = self._find_chains(batch)
        X = batch.shown.copy()
        X[incomplete] = self.X[chains]
        return X

    def update(self, energy, batch):
        """Make one Gibbs sweep over the missing entries of a batch; return the imputed rows."""
        incomplete, chains = self._find_chains(batch)
        X = batch.shown.copy()
        if len(incomplete):
            generators = spawn_generators(self.rng, len(incomplete))
            model = energy.at(batch.take(incomplete))
            moved, _ = sweep(model, self.X[chains], generators, clamped=~self.missing[chains])
            self.X[chains] = moved
            X[incomplete] = moved
        return X
