"""The rows that edges are selected from."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._utils.batch import Batch
from .._utils.codes import MISSING
from .._utils.log_weights import check_sample_weight
from .._utils.warn import warn_caller
from ..samplers import Product, spawn_generators, sweep
from .columns import Columns
from .screening import pair_counts_seen

COMPLETION_SWEEPS = 20


@dataclass(frozen=True, eq=False)
class Rows:
    """State codes and how often each row counts.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_variables)
        MISSING where not observed.
    weights : ndarray of shape (n_rows,)
        Positive; a weight of 2 is the row twice.
    n_states : ndarray of shape (n_variables,)
    """

    X: np.ndarray
    weights: np.ndarray
    n_states: np.ndarray

    @property
    def count(self):
        """Number of rows, by weight."""
        return float(self.weights.sum())

    @cached_property
    def batch(self):
        """The rows as the loop takes them."""
        equal = (self.weights == self.weights[0]).all()
        return Batch(self.X, None, None if equal else np.log(self.weights))

    @cached_property
    def has_missing(self):
        """Whether an entry is missing."""
        return bool((self.X == MISSING).any())

    @cached_property
    def _seen(self):
        return pair_counts_seen(self.X, self.weights)

    def seen(self, edges):
        """Number of rows, by weight, that show both ends of every edge."""
        if not self.has_missing:
            return np.full(len(edges), self.count)
        return self._seen[edges[:, 0], edges[:, 1]]

    def frequencies(self, i):
        """Of the states of variable i among the rows that show it, each counted half once more."""
        shown = self.X[:, i] != MISSING
        counts = np.bincount(self.X[shown, i], self.weights[shown], minlength=self.n_states[i])
        return (counts + 0.5) / (counts.sum() + 0.5 * len(counts))

    def completed(self, energy, rng):
        """The rows with their missing entries drawn given the others, by Gibbs chains."""
        if not self.has_missing:
            return self
        shown = self.X != MISSING
        uniform = Product.uniform(self.n_states).sample(len(self.X), rng)
        start = np.where(shown, self.X, uniform)
        generators = spawn_generators(rng, len(start))
        X, _ = sweep(energy, start, generators, n_sweeps=COMPLETION_SWEEPS, clamped=shown)
        return Rows(X, self.weights, self.n_states)

    def take(self, counts):
        """The rows that count, their weights multiplied by ``counts``."""
        kept = counts > 0
        return Rows(self.X[kept], self.weights[kept] * counts[kept], self.n_states)


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Encoded training rows.

    Attributes
    ----------
    categories : list of ndarray
        Categories of each column.
    all_rows : Rows
        Rows of positive weight, all columns.
    columns : Columns
        Columns that edges are learned between, and their copies.
    rows : Rows
        Rows of positive weight, columns that edges are learned between.
    """

    categories: list
    all_rows: Rows
    columns: Columns
    rows: Rows

    @classmethod
    def of(cls, categories, rows, columns):
        """Return the table of given rows and columns."""
        kept = columns.kept
        X = np.ascontiguousarray(rows.X[:, kept])
        return cls(categories, rows, columns, Rows(X, rows.weights, rows.n_states[kept]))


def positive_rows(codes, categories, sample_weight):
    """Return the rows of positive weight.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        State codes, MISSING where not observed.
    categories : list of ndarray
        Categories of each column.
    sample_weight : array-like of shape (n_rows,), or None

    Returns
    -------
    Rows
    """
    weights = check_sample_weight(sample_weight, len(codes))
    weights = np.ones(len(codes)) if weights is None else weights
    if sample_weight is not None and weights.sum() < 2.0:
        warn_caller(
            f"sample_weight sums to {weights.sum():.3g}, as if there were no more rows. A "
            "weight is how often a row counts; multiply them by the number of independent rows."
        )
    n_states = np.array([len(c) for c in categories])
    return Rows(codes, weights, n_states).take(1.0 * (weights > 0))
