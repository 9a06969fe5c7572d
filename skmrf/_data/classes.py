"""Checked and encoded training rows with class labels."""

from typing import NamedTuple

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from .._utils.warn import warn_caller
from .categories import missing_mask
from .mixed import Columns, warn_degenerate
from .targets import check_given


class Table(NamedTuple):
    """Encoded training rows with class labels.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        Encoded rows. Continuous columns are standardised over all classes.
    labels : ndarray of int, shape (n_rows,)
        Code of the class of each row.
    classes : ndarray
        Class labels, in the order of their codes.
    weights : ndarray of shape (n_rows,), or None
        Weight of each row. None means equal weights.
    columns : Columns
        Encoding of the rows.
    """

    rows: np.ndarray
    labels: np.ndarray
    classes: np.ndarray
    weights: np.ndarray | None
    columns: Columns

    @property
    def shares(self):
        """Share of each class in the total weight of the training rows."""
        counts = np.bincount(self.labels, weights=self.weights)
        return counts / counts.sum()


def check_target(estimator, X, y):
    """Check the class labels ``y``, and return them as a one-dimensional array.

    Parameters
    ----------
    estimator : estimator
        Estimator that error messages name.
    X : array-like or frame of shape (n_rows, n_columns)
        Training rows.
    y : array-like of shape (n_rows,)
        Labels.

    Returns
    -------
    ndarray of shape (n_rows,)
        Labels.

    Raises
    ------
    ValueError
        If labels are missing, have several types, or are continuous numbers, or if their number is
        not the number of rows.
    """
    check_given(estimator, y)
    y = column_or_1d(y, warn=True)
    _check_label_types(y)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    check_consistent_length(X, y)
    return y


def check_priors(priors, shares):
    """Check the parameter ``priors``, and return the prior probability of each class.

    Parameters
    ----------
    priors : array-like of shape (n_classes,), or None
        Parameter of the classifier. None means the shares of the classes.
    shares : ndarray of shape (n_classes,)
        Shares of the classes in the training rows.

    Returns
    -------
    ndarray of shape (n_classes,)
        Probabilities with sum 1.

    Raises
    ------
    ValueError
        If the priors are not one probability per class with sum 1.
    """
    if priors is None:
        return shares
    try:
        p = np.asarray(priors, dtype=float)
    except (TypeError, ValueError):
        p = np.zeros(0)
    is_valid = p.shape == shares.shape and (p >= 0).all()
    if not is_valid or abs(p.sum() - 1) > 1e-6:
        raise ValueError(
            f"priors must be {len(shares)} probabilities that sum to 1, one per class; got "
            f"{priors!r}."
        )
    return p / p.sum()


def _check_label_types(y):
    """Raise a ValueError if labels are missing, or mix text with other types."""
    labels = y.tolist() if y.dtype == object else []
    kinds = {type(label) for label in labels}
    if type(None) in kinds or any(kind.__name__ in ("NAType", "NaTType") for kind in kinds):
        absent = next(
            label for label, is_absent in zip(labels, missing_mask(y), strict=True) if is_absent
        )
        raise ValueError(f"y holds {absent!r}; remove the rows without a label.")
    if len(kinds) > 1 and str in kinds:
        raise ValueError(
            f"y mixes labels of the types {sorted(kind.__name__ for kind in kinds)}; make them all "
            "strings or all numbers."
        )


def check_classes(rows, labels, classes, columns):
    """Warn if a column is constant, has only two values, or has no observed entry in a class."""
    degenerate = warn_degenerate(rows, columns.continuous, columns.names)
    for k, label in enumerate(classes.tolist()):
        here = rows[labels == k]
        empty = np.flatnonzero(np.isnan(here).all(axis=0)).tolist()
        for j in empty:
            warn_caller(
                f"Column {columns.names[j]!r} has no observed entry in class {label!r}. The "
                "density of the class uses the column's values in all classes instead."
            )
        rest = np.setdiff1d(columns.continuous, degenerate + empty)
        warn_degenerate(here, rest, columns.names, f" in class {label!r}")


def impute_unobserved_columns(rows, labels):
    """Impute a column in the rows of a class if the class has no observed entry of the column.

    The imputed values are quantiles of the column over all classes, in random order. Other missing
    entries stay missing.
    """
    out, rng = rows.copy(), np.random.default_rng(0)
    for k in range(labels.max() + 1):
        here = np.flatnonzero(labels == k)
        for j in np.flatnonzero(np.isnan(rows[here]).all(axis=0)):
            observed = rows[~np.isnan(rows[:, j]), j]
            shares = (rng.permutation(len(here)) + 0.5) / len(here)
            if len(observed):  # categories of a data type may have no observed entry at all
                out[here, j] = np.quantile(observed, shares, method="nearest")
    return out
