"""Class labels and labels of sequences: checks and encoding of targets."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from .._utils.codes import MISSING
from .categories import is_missing, to_floats
from .mixed import Columns
from .numeric import find_far_values, median_and_scale
from .supports import find_grid
from .transforms import (
    BEYOND,
    BOUND_SOFTNESS,
    FAR,
    MAX_SOFTNESS,
    TAIL_SOFTNESS,
    ColumnTransform,
)

UNKNOWN = -2  # code of a label that was not seen during fit
MIN_GAIN_PER_ROW = 0.05  # nats that a transform must gain; few other columns are transformed
MAX_DISTANCE = 30.0  # standard deviations from training rows; a far number is still recognised
SMALL = 0.05  # quantile of the positive numbers that is added to a column with zeros
N_POINTS = 8  # of a cell, at which its density is averaged
ROUNDING = 1e-3  # largest rounding error of a zero, in steps
MIN_ROWS = 20  # observed numbers of a column that is transformed


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
    check_label_types(y)
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


def check_label_types(y, name="y"):
    """Raise a ValueError if labels are missing, or mix text with other types.

    Floats are not checked for nan. ``name`` is the name of the parameter in error messages.
    """
    check_no_missing(y, name)
    kinds = {type(label) for label in y.tolist()} if y.dtype == object else set()
    if len(kinds) > 1 and str in kinds:
        raise ValueError(
            f"{name} mixes labels of the types {sorted(kind.__name__ for kind in kinds)}; make "
            "them all strings or all numbers."
        )


def check_no_missing(y, name="y"):
    """Raise a ValueError if labels are None, NA or NaT."""
    for label in y.tolist() if y.dtype == object else []:
        if is_absent(label):
            raise ValueError(f"{name} holds {label!r}; remove the rows without a label.")


def is_absent(label):
    """Return whether a label is None, NA or NaT."""
    return label is None or type(label).__name__ in ("NAType", "NaTType")


@dataclass(frozen=True)
class CurvedColumns(Columns):
    """Encoder that transforms numbers with wide tails before they are standardised.

    Attributes
    ----------
    curves : dict of int to ColumnTransform
        Transform of each transformed column.
    """

    curves: dict = field(default_factory=dict)

    def encode(self, columns):
        """Return transformed and standardised numbers, and state codes; missing entries are nan."""
        columns = list(columns)
        for j, curve in self.curves.items():
            z = curve.forward(to_floats(columns[j], self.names[j]))
            columns[j] = _limit(z, curve, MAX_DISTANCE)
        return super().encode(columns)

    def decode(self, X):
        """Convert encoded rows back to the user's units and categories."""
        out = super().decode(X)
        for j, curve in self.curves.items():
            # The inverse increases exponentially.
            x = curve.inverse(_limit(out[:, j].astype(float), curve, BEYOND))
            out[:, j] = x if np.isinf(curve.low) else np.maximum(x, 0.0)
        return out

    def log_scale(self, X):
        """Return, for each row, minus the log-derivative of its transformed observed numbers."""
        total = super().log_scale(X)
        for k, j in enumerate(self.continuous):
            if j in self.curves:
                z = X[:, j] * self.scale[k] + self.mean[k]
                total -= np.where(np.isnan(z), 0.0, self.curves[j].log_slope(z))
        return total


def _limit(z, curve, distance):
    """Return transformed numbers, clipped to the training range and ``distance`` beyond it."""
    lowest, highest = curve.extremes
    return np.clip(z, lowest - distance, highest + distance)


def transform_wide_columns(columns, rows, labels, weights, widths):
    """Return an encoder of a table with class labels that transforms numbers with wide tails.

    A transform is used if it increases the log-likelihood of normal distributions of the classes by
    at least 0.05 nats per row. Numbers far from all others of their class do not count.

    Parameters
    ----------
    columns : Columns
        Encoder without transforms.
    rows : list of ndarray of shape (n_rows,)
        Columns of the table, whose rounded numbers are spread over their cells.
    labels : ndarray of int, shape (n_rows,)
        Code of the class of each row.
    weights : ndarray of shape (n_rows,), or None
        Weight of each row.
    widths : dict of int to float
        Width of the cells of each rounded column.

    Returns
    -------
    Columns
        The same encoder if no column is transformed.
    """
    weights, curves = np.ones(len(labels)) if weights is None else weights, {}
    for j in columns.continuous.tolist():
        x = to_floats(rows[j], columns.names[j])
        is_near = ~np.isnan(x)
        for k in range(labels.max() + 1):
            is_near[labels == k] &= ~find_far_values(x[labels == k])
        near = (part[is_near] for part in (x, labels, weights))
        curve = _choose_curve(*near, widths.get(j, 0.0))
        if curve is not None:
            z = curve.forward(x)
            z = z[np.abs(z) <= FAR]  # not nan
            curves[j] = replace(curve, extremes=(float(z.min()), float(z.max())))
    if not curves:
        return columns
    is_curved = np.isin(columns.continuous, list(curves))
    parts = {"mean": np.where(is_curved, 0.0, columns.mean)}
    parts["scale"] = np.where(is_curved, 1.0, columns.scale)
    curved = CurvedColumns(**(vars(columns) | parts), curves=curves)
    return curved.standardised(curved.encode(rows), weights)[1]


@np.errstate(over="ignore", invalid="ignore")
def _choose_curve(x, labels, weights, width):
    """Return the transform of numbers, or None if a transform gains little."""
    if len(x) < MIN_ROWS or len(np.unique(x)) < 3:
        return None
    (median, scale), found = median_and_scale(x), []
    candidates = [{"centre": median, "softness": softness} for softness in TAIL_SOFTNESS]
    low = _find_lower_bound(x, width)
    if np.isfinite(low):
        bound = {"low": low, "centre": low, "least": (x.min() - low) / scale / 2}
        candidates += [bound | {"softness": min(t, MAX_SOFTNESS)} for t in BOUND_SOFTNESS]
    for parts in candidates:
        curve = ColumnTransform(**parts, scale=scale)
        z = curve.forward(x)
        sums = np.stack([np.bincount(labels, weights * z**k) for k in range(3)])
        counts = np.maximum(sums[0], 1e-300)
        variances = sums[2] / counts - (sums[1] / counts) ** 2
        variances = np.maximum(variances, 1e-6 * z.var())
        score = weights @ curve.log_slope(z) - 0.5 * sums[0] @ np.log(variances)
        score = score / weights.sum() if np.isfinite(score) else -np.inf
        found.append((score, z, curve))
    score, z, curve = max(found, key=lambda part: part[0])
    if not score >= found[0][0] + MIN_GAIN_PER_ROW:
        return None
    return replace(curve, mean=z.mean(), deviation=z.std())


def _find_lower_bound(x, width):
    """Return the lower bound of numbers that are spread over cells of a width; -inf if none."""
    if x.min() < -width / 2:
        return -np.inf
    if width or x.min() > 0:
        return -width / 2 if x.min() < width / 2 else 0.0
    return -np.quantile(x[x > 0], SMALL)  # the logarithm is that of a number and a small one


def find_cells(columns, rows):
    """Return the width of the cells of each rounded column of a table, keyed by its index.

    A value of such a column stands for all numbers that are rounded to it.

    Parameters
    ----------
    columns : Columns
        Encoder of the table.
    rows : list of ndarray of shape (n_rows,)
        Columns of the table.

    Returns
    -------
    dict of int to float
        Widths. Columns without repeated values, and with only one or two values, have no cells.
    """
    widths = {}
    for j in columns.continuous.tolist():
        x = to_floats(rows[j], columns.names[j])
        x = x[~np.isnan(x)]
        step = find_grid(x, "continuous").step if len(np.unique(x)) > 2 else 0.0
        if step:
            offsets = np.abs(x)[np.abs(x) > ROUNDING * step]
            widths[j] = min(step, 2.0 * offsets.min())  # cells of positive numbers are positive
    return widths


def spread_over_cells(rows, labels, columns, widths):
    """Return columns whose equal values are evenly spread over their cell in each class."""
    rows, rng = list(rows), np.random.default_rng(0)
    for j, width in widths.items():
        x = to_floats(rows[j], columns.names[j])
        order = np.lexsort((rng.random(len(x)), x, labels))
        is_first = np.diff(x[order], prepend=np.nan) != 0
        is_first |= np.diff(labels[order], prepend=-1) != 0
        starts = np.flatnonzero(is_first)
        counts = np.diff(starts, append=len(x))
        ranks = np.arange(len(x)) - np.repeat(starts, counts)
        x[order] += width * ((ranks + 0.5) / np.repeat(counts, counts) - 0.5)
        rows[j] = x
    return rows


def cell_points(rows, columns, widths):
    """Yield the columns of a table at points that are spread over the cells of rounded columns."""
    n_points = N_POINTS if widths else 1
    rng, offsets = np.random.default_rng(0), (np.arange(n_points) + 0.5) / n_points - 0.5
    shifts = {j: width * rng.permutation(offsets) for j, width in widths.items()}
    numbers = {j: to_floats(rows[j], columns.names[j]) for j in widths}
    for k in range(n_points):
        yield [numbers[j] + shifts[j][k] if j in widths else x for j, x in enumerate(rows)]


def check_given(estimator, y):
    """Raise a ValueError if the targets ``y`` are None."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )


@dataclass(frozen=True)
class LabelCodes:
    """Encoder that converts labels to integer codes.

    Attributes
    ----------
    classes : ndarray of shape (n_labels,)
        Labels in the order of their codes: sorted if possible, else in the order of appearance.
    codes : dict
        Code of each label.
    """

    classes: np.ndarray
    codes: dict

    @classmethod
    def of(cls, labels):
        """Return the codes of a flat list of labels; missing labels have no code."""
        wrong = next((label for label in labels if not _is_hashable(label)), None)
        if wrong is not None:
            raise ValueError(f"y holds {wrong!r}; labels must be hashable.")
        found = list(dict.fromkeys(label for label in labels if not is_missing(label)))
        if not found:
            raise ValueError("y has no labels; at least one label must be known.")
        with suppress(TypeError):
            found = sorted(found)
        classes = np.empty(len(found), dtype=object)
        classes[:] = found
        kinds = {type(label) for label in found}
        if len(kinds) == 1 and issubclass(*kinds, str | int | float | np.generic):
            classes = np.array(found)
        return cls(classes, {label: code for code, label in enumerate(found)})

    def encode(self, labels):
        """Return the code of each label: -1 if it is missing, -2 if it was not seen during fit."""
        codes = self.codes
        try:
            out = [codes.get(label, UNKNOWN) for label in labels]
        except TypeError:
            wrong = next(label for label in labels if not _is_hashable(label))
            raise ValueError(f"y holds {wrong!r}; labels must be hashable.") from None
        for k, code in enumerate(out):
            if code == UNKNOWN and is_missing(labels[k]):
                out[k] = MISSING
        return np.array(out, dtype=np.int64)


def _is_hashable(label):
    try:
        hash(label)
    except TypeError:
        return False
    return True
