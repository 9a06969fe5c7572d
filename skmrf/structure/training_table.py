"""Encoded training rows of all columns, and of those that edges are learned between."""

from dataclasses import dataclass

import numpy as np

from .._utils.log_weights import check_sample_weight
from .._utils.warn import warn_caller
from .columns import Columns
from .rows import Rows


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
