"""Encoded training rows of structure learning, with sample weights."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._utils.codes import MISSING
from .._utils.log_weights import check_sample_weight
from .._utils.rows import Batch
from .._utils.warn import warn_caller
from ..samplers import Product, spawn_generators, sweep
from .columns import Columns
from .screening import count_observed_pairs

IMPUTATION_SWEEPS = 20


@dataclass(frozen=True, eq=False)
class Rows:
    """Training rows as state codes, with sample weights.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes, MISSING where not observed.
    weights : ndarray of shape (n_rows,)
        Positive sample weights; a row of weight 2 counts as two equal rows.
    n_states : ndarray of shape (n_variables,)
        Number of states of each variable.
    """

    X: np.ndarray
    weights: np.ndarray
    n_states: np.ndarray

    @property
    def count(self):
        """Weighted number of rows: the sum of the weights."""
        return float(self.weights.sum())

    @cached_property
    def batch(self):
        """One batch with all rows, for the training loop."""
        equal = (self.weights == self.weights[0]).all()
        return Batch(self.X, None, None if equal else np.log(self.weights))

    @cached_property
    def has_missing(self):
        """True if any entry is missing."""
        return bool((self.X == MISSING).any())

    @cached_property
    def _observed_pair_counts(self):
        return count_observed_pairs(self.X, self.weights)

    def count_observed(self, edges):
        """Return, for each edge, the weighted number of rows that observe both variables."""
        if not self.has_missing:
            return np.full(len(edges), self.count)
        return self._observed_pair_counts[edges[:, 0], edges[:, 1]]

    def smoothed_frequencies(self, i):
        """Return the state frequencies of variable i, after 0.5 is added to each state count."""
        observed = self.X[:, i] != MISSING
        counts = np.bincount(
            self.X[observed, i], self.weights[observed], minlength=self.n_states[i]
        )
        return (counts + 0.5) / (counts.sum() + 0.5 * len(counts))

    def impute(self, energy, rng):
        """Return the rows with missing entries imputed by Gibbs chains, given the observed ones."""
        if not self.has_missing:
            return self
        observed = self.X != MISSING
        uniform = Product.uniform(self.n_states).sample(len(self.X), rng)
        start = np.where(observed, self.X, uniform)
        generators = spawn_generators(rng, len(start))
        X, _ = sweep(energy, start, generators, n_sweeps=IMPUTATION_SWEEPS, clamped=observed)
        return Rows(X, self.weights, self.n_states)

    def reweight(self, factors):
        """Multiply the row weights by factors; return the rows with positive factors."""
        kept = factors > 0
        return Rows(self.X[kept], self.weights[kept] * factors[kept], self.n_states)


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Encoded training rows of all columns, and of the columns that the graph search uses.

    Attributes
    ----------
    categories : list of ndarray
        Categories of each column.
    all_rows : Rows
        Rows of positive weight, with all columns.
    columns : Columns
        Columns of the search, and their duplicates.
    rows : Rows
        Rows of positive weight, with the columns of the search only.
    """

    categories: list
    all_rows: Rows
    columns: Columns
    rows: Rows

    @classmethod
    def from_rows(cls, categories, rows, columns):
        """Create the table from encoded rows and the columns that the graph search uses."""
        kept = columns.kept
        X = np.ascontiguousarray(rows.X[:, kept])
        return cls(categories, rows, columns, Rows(X, rows.weights, rows.n_states[kept]))


def positive_rows(codes, categories, sample_weight):
    """Return the rows of positive sample weight; warn if the weights sum to less than 2."""
    weights = check_sample_weight(sample_weight, len(codes))
    weights = np.ones(len(codes)) if weights is None else weights
    if sample_weight is not None and weights.sum() < 2.0:
        warn_caller(
            f"sample_weight sums to {weights.sum():.3g}, and this sum is used as the number of "
            "rows. If the weights are normalised, multiply them by the number of independent rows."
        )
    n_states = np.array([len(c) for c in categories])
    return Rows(codes, weights, n_states).reweight(1.0 * (weights > 0))
