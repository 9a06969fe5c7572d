"""Rows of several classes to learn from: their labels, and columns that a class says nothing of."""

from typing import NamedTuple

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from .._utils.warn import warn_caller
from .categories import missing
from .mixed import Columns, warn_degenerate


class Table(NamedTuple):
    """Rows to learn from.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        Encoded, numbers standardised over all classes.
    labels : ndarray of int, shape (n_rows,)
    classes : ndarray
    weights : ndarray of shape (n_rows,), or None
    columns : Columns
    """

    rows: np.ndarray
    labels: np.ndarray
    classes: np.ndarray
    weights: np.ndarray | None
    columns: Columns

    @property
    def shares(self):
        """Of the classes."""
        counts = np.bincount(self.labels, weights=self.weights)
        return counts / counts.sum()


def checked_labels(estimator, X, y):
    """Return the labels of a classifier as a one-dimensional array.

    Parameters
    ----------
    estimator : estimator
        Named in errors.
    X : array-like or frame of shape (n_rows, n_columns)
    y : array-like of shape (n_rows,)

    Returns
    -------
    ndarray of shape (n_rows,)

    Raises
    ------
    ValueError
        Missing labels, labels of several types, numbers that are no classes, another number of
        labels than rows.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    y = column_or_1d(y, warn=True)
    check_labels(y)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    check_consistent_length(X, y)
    return y


def checked_priors(priors, shares):
    """Return the probabilities of the classes.

    Parameters
    ----------
    priors : array-like of shape (n_classes,), or None
        None takes the shares of the classes.
    shares : ndarray of shape (n_classes,)

    Returns
    -------
    ndarray of shape (n_classes,)

    Raises
    ------
    ValueError
        Anything but one probability a class, with sum 1.
    """
    if priors is None:
        return shares
    try:
        p = np.asarray(priors, dtype=float)
    except (TypeError, ValueError):
        p = np.zeros(0)
    is_right = p.shape == shares.shape and (p >= 0).all()
    if not is_right or abs(p.sum() - 1) > 1e-6:
        raise ValueError(
            f"priors must be {len(shares)} probabilities that sum to 1, one a class; got "
            f"{priors!r}."
        )
    return p / p.sum()


def check_labels(y):
    """Refuse labels that are missing or of several types, which have no order."""
    labels = y.tolist() if y.dtype == object else []
    kinds = {type(label) for label in labels}
    if type(None) in kinds or any(kind.__name__ in ("NAType", "NaTType") for kind in kinds):
        absent = next(label for label, gone in zip(labels, missing(y), strict=True) if gone)
        raise ValueError(f"y holds {absent!r}; leave out the rows without a label.")
    if len(kinds) > 1 and str in kinds:
        raise ValueError(
            f"y mixes labels of the types {sorted(kind.__name__ for kind in kinds)}; make them all "
            "text or all numbers."
        )


def check_classes(rows, labels, classes, columns):
    """Warn of columns that a class has no entry of, and of those without a density in it."""
    everywhere = warn_degenerate(rows, columns.numbers, columns.names)
    for k, label in enumerate(classes.tolist()):
        here = rows[labels == k]
        empty = np.flatnonzero(np.isnan(here).all(axis=0)).tolist()
        for j in empty:
            warn_caller(
                f"Column {columns.names[j]!r} has no observed entry in class {label!r}; its "
                "density takes the column to be as in all classes together."
            )
        rest = np.setdiff1d(columns.numbers, everywhere + empty)
        warn_degenerate(here, rest, columns.names, f" in class {label!r}")


def with_some_entry(rows, labels):
    """Where a class has no entry of a column, quantiles of those of all classes, in any order."""
    out, rng = rows.copy(), np.random.default_rng(0)
    for k in range(labels.max() + 1):
        here = np.flatnonzero(labels == k)
        for j in np.flatnonzero(np.isnan(rows[here]).all(axis=0)):
            known = rows[~np.isnan(rows[:, j]), j]
            shares = (rng.permutation(len(here)) + 0.5) / len(here)
            if len(known):  # else only the type of the column says what it may hold
                out[here, j] = np.quantile(known, shares, method="nearest")
    return out
