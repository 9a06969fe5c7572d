"""Tables of numbers and categories as arrays of numbers and state codes, and back."""

from dataclasses import dataclass, field, replace

import numpy as np

from .._utils.codes import MISSING
from .._utils.warn import warn_caller
from .categories import decode, encode, find_categories, given_categories, is_number, missing
from .frames import column_types, read_columns

SHOWN = 8
DEGENERATE = r"Columns? .* no maximum; the deviations of the model are bounded"  # of warnings
FARTHEST = 1e100  # of a standardised number, so that its square is finite


@dataclass(frozen=True)
class Columns:
    """How the columns of a table become numbers of about unit size and state codes.

    Attributes
    ----------
    names : list
    numbers, discrete : ndarray of int
        Which columns are numbers and which are categories.
    categories : list of ndarray, of the discrete columns
    mean, scale : ndarray of shape (n_numbers,)
        The standardised number is ``(x - mean) / scale``.
    """

    names: list
    numbers: np.ndarray
    discrete: np.ndarray
    categories: list
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    scale: np.ndarray = field(default_factory=lambda: np.ones(0))

    @property
    def n_states(self):
        """Number of states of every column, 0 of a number."""
        n_states = np.zeros(len(self.names), dtype=np.int64)
        n_states[self.discrete] = [len(c) for c in self.categories]
        return n_states

    def read(self, estimator, X):
        """Return the columns of rows to query a fitted estimator with."""
        return read_columns(estimator, X, reset=False)

    def encode_row(self, row):
        """Return the code of an object array of shape (1, n_columns); None is missing."""
        return self.encode(list(row.T))

    def encode(self, columns):
        """Standardised numbers and state codes, nan where missing, shape (n_rows, n_columns)."""
        X = np.empty((len(columns[0]), len(columns)))
        for k, j in enumerate(self.numbers):
            with np.errstate(over="ignore"):
                x = (as_numbers(columns[j], self.names[j]) - self.mean[k]) / self.scale[k]
            X[:, j] = np.clip(x, -FARTHEST, FARTHEST)
        if len(self.discrete):
            names = [self.names[j] for j in self.discrete]
            codes = encode([columns[j] for j in self.discrete], self.categories, names)
            X[:, self.discrete] = np.where(codes == MISSING, np.nan, codes)
        return X

    def decode(self, X):
        """Rows in the units of the user; objects where there are categories that are no numbers."""
        values = X[:, self.numbers] * self.scale + self.mean
        if not len(self.discrete):
            return values
        states = decode(X[:, self.discrete].astype(np.int64), self.categories)
        numeric = states.dtype.kind in "iuf"
        out = np.empty(X.shape, dtype=float if numeric else object)
        out[:, self.numbers], out[:, self.discrete] = values, states
        return out

    def standardised(self, X, weights):
        """Encoded rows on the scale of weighted rows, and the columns with that scale."""
        X, mean, scale = X.copy(), self.mean.copy(), self.scale.copy()
        for k, j in enumerate(self.numbers):
            centre, spread = _moments(X[:, j], weights, self.names[j])
            X[:, j] = (X[:, j] - centre) / spread
            mean[k], scale[k] = mean[k] + scale[k] * centre, scale[k] * spread
        return X, replace(self, mean=mean, scale=scale)

    def log_volume(self, X):
        """Log of the units that the observed numbers of every row were divided by."""
        return ~np.isnan(X[:, self.numbers]) @ np.log(self.scale)


def learn_columns(X, columns, names, categorical_features, categories, weights=None):
    """Return the :class:`Columns` of a table, with the categorical ones as parameters name them.

    Parameters
    ----------
    X : array-like or frame
    columns : list of ndarray
        Those of ``X``, or of some of its rows.
    names : list
    categorical_features : "from_dtype", None, or array-like of names, indices or booleans
    categories : "auto" or list of lists, one for every categorical column
    weights : ndarray of shape (n_rows,), optional
    """
    mask = categorical_mask(categorical_features, X, names)
    declared = declared_categories(X, mask)
    return find_columns(columns, names, mask, categories, weights, declared)


def find_columns(columns, names, categorical, categories, weights=None, declared=None):
    """The :class:`Columns` of a table.

    Parameters
    ----------
    columns : list of ndarray
    names : list
    categorical : ndarray of bool
    categories : "auto" or list of lists, one for every categorical column
    weights : ndarray of shape (n_rows,), optional
    declared : list of list or None, one for every categorical column, optional
        With "auto": its categories, or None for those that it holds.
    """
    discrete, numbers = np.flatnonzero(categorical), np.flatnonzero(~categorical)
    shown = [names[j] for j in discrete]
    if not isinstance(categories, list | tuple | np.ndarray) and categories != "auto":
        raise ValueError(f'categories must be "auto" or a list of lists; got {categories!r}.')
    if isinstance(categories, str):
        found = [
            find_categories([columns[j]], [names[j]])[0]
            if known is None
            else given_categories([known], [names[j]])[0]
            for j, known in zip(discrete, declared or [None] * len(discrete), strict=True)
        ]
    else:
        found = given_categories(categories, shown)
    mean, scale = np.zeros(len(numbers)), np.ones(len(numbers))
    for k, j in enumerate(numbers):
        mean[k], scale[k] = _moments(as_numbers(columns[j], names[j]), weights, names[j])
    return Columns(list(names), numbers, discrete, found, mean, scale)


def as_numbers(column, name):
    """A column as floats; nan where missing."""
    if column.dtype.kind in "cmM":
        raise ValueError(
            f"Column {name!r} holds values of type {column.dtype}; turn them into real numbers."
        )
    absent = missing(column)
    out = np.full(len(column), np.nan)
    try:
        out[~absent] = column[~absent].astype(float)
    except TypeError:
        value = next(v for v in column[~absent].tolist() if not is_number(v))
        raise TypeError(
            f"Column {name!r} holds a {type(value).__name__}; every entry of this argument must be "
            "a number, a string that stands for a number, or missing (nan or None)."
        ) from None
    except (OverflowError, ValueError):
        value = next(v for v in column[~absent].tolist() if not is_number(v))
        raise ValueError(
            f"Column {name!r} holds {value!r}, which is no number; name the column in "
            "categorical_features if its values are categories."
        ) from None
    if np.isinf(out).any():
        raise ValueError(
            f"Column {name!r} holds infinity; use nan for a missing entry or a finite number."
        )
    return out


def _moments(x, weights, name):
    """Mean and standard deviation of what is there; the deviation of a constant is 1."""
    seen = ~np.isnan(x)
    if not seen.any():
        raise ValueError(f"Column {name!r} has no observed entry; drop it.")
    x, weights = x[seen], None if weights is None else weights[seen]
    centre = x[np.argmax(np.abs(x))] / 2  # so that sums of large numbers stay finite
    with np.errstate(over="ignore", invalid="ignore"):
        mean = centre + np.average(x - centre, weights=weights)
        size = np.abs(x - mean).max()
        spread = (
            size * np.sqrt(np.average(((x - mean) / size) ** 2, weights=weights)) if size else 0
        )
    if not np.isfinite(mean + spread):
        raise ValueError(f"Column {name!r} holds numbers too large; divide it by a power of ten.")
    negligible = spread <= 1e-12 * max(abs(mean), 1e-300)
    return mean, 1.0 if negligible else spread


def warn_degenerate(X, numbers, names, where=""):
    """Warn of columns of numbers that have no density: constant ones and those of two values.

    Returns
    -------
    list of int
        These columns.
    """
    found = {True: [], False: []}
    for j in numbers if len(X) >= 10 else ():
        values = np.unique(X[~np.isnan(X[:, j]), j])
        if len(values) <= 2:
            found[len(values) == 1].append(j)
    for constant, columns in found.items():
        if columns:
            warn_caller(_degenerate(constant, [names[j] for j in columns], where))
    return found[True] + found[False]


def _degenerate(constant, names, where):
    shown = ", ".join(repr(name) for name in names[:SHOWN]) + ", ..." * (len(names) > SHOWN)
    subject, be, have, them = (
        ("Column", "is", "has", "it") if len(names) == 1 else ("Columns", "are", "have", "them")
    )
    what = f"{be} constant" if constant else f"{have} two values only"
    advice = f"drop {them}" if constant else f"name {them} in categorical_features"
    return (
        f"{subject} {shown} {what}{where}, so the likelihood of a density has no maximum; the "
        f"deviations of the model are bounded from below. Better {advice}."
    )


def categorical_mask(categorical_features, X, names):
    """Which columns hold categories.

    Parameters
    ----------
    categorical_features : "from_dtype", None, or array-like of names, indices or booleans
    X : array-like or frame
    names : list of the columns' names

    Returns
    -------
    ndarray of bool
    """
    n = len(names)
    if categorical_features is None:
        return np.zeros(n, dtype=bool)
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        return _categorical_dtypes(X, n)
    # as objects, or numpy makes text of indices beside names
    dtype = None if hasattr(categorical_features, "dtype") else object
    listed = np.asarray(categorical_features, dtype=dtype)
    if listed.ndim != 1:
        raise ValueError(
            'categorical_features must be "from_dtype", None, or a list of names, indices or '
            f"booleans; got {categorical_features!r}."
        )
    if listed.size and all(isinstance(v, bool | np.bool_) for v in listed):
        if listed.shape != (n,):
            raise ValueError(
                f"categorical_features has {listed.size} booleans, but X has {n} columns."
            )
        return listed.astype(bool)
    mask = np.zeros(n, dtype=bool)
    for column in listed.tolist():
        mask[_position(column, names)] = True
    return mask


def _position(column, names):
    if isinstance(column, int) and not isinstance(column, bool):
        if -len(names) <= column < len(names):
            return column
    elif column in names:
        return names.index(column)
    raise ValueError(
        f"categorical_features names column {column!r}; the columns are {names[:8]}"
        f"{' ...' if len(names) > 8 else ''}."
    )


def _categorical_dtypes(X, n):
    """Columns of a frame whose type is categorical."""
    types = column_types(X)
    if not types:
        return np.zeros(n, dtype=bool)
    return np.array([str(t).lower().startswith(("category", "categorical", "enum")) for t in types])


def declared_categories(X, categorical):
    """The categories that the types of a frame's columns declare, None where they do not.

    Parameters
    ----------
    X : array-like or frame
    categorical : ndarray of bool

    Returns
    -------
    list of list or None, one for every categorical column
    """
    types = column_types(X)
    declared = [getattr(t, "categories", None) for t in types] or [None] * len(categorical)
    wanted = [known for known, here in zip(declared, categorical, strict=True) if here]
    return [
        known.to_numpy() if hasattr(known, "to_numpy") and len(known) else None for known in wanted
    ]
