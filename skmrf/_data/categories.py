"""Columns of categories to state codes and back."""

import numbers
from dataclasses import dataclass

import numpy as np

from .._utils.codes import MAX_STATES, MISSING, STATE
from .frames import as_columns, column_names, read_columns

__all__ = [
    "CategoryEncoder",
    "as_columns",
    "decode",
    "encode",
    "find_categories",
    "given_categories",
    "is_number",
    "known_columns",
    "missing",
    "resolve_categories",
    "shared_categories",
    "training_columns",
]

SHOWN = 8
MAX_REAL_CATEGORIES = 50


@dataclass(frozen=True)
class CategoryEncoder:
    """Encoding of categories as state codes.

    Attributes
    ----------
    names : list
        Names of the columns, for errors.
    categories : list of ndarray
        Categories of every column, in the order of their codes.
    """

    names: list
    categories: list

    def read(self, estimator, X):
        """Return the columns of rows to query a fitted estimator with."""
        return read_columns(estimator, X, reset=False)

    def encode(self, columns):
        """Return state codes of shape (n_rows, n_columns), MISSING for missing entries."""
        return encode(columns, self.categories, self.names)

    def encode_row(self, row):
        """Return the state codes of an object array of shape (1, n_columns); None is missing."""
        return self.encode(list(row.T))

    def decode(self, codes):
        """Return the categories of complete state codes."""
        return decode(codes, self.categories)


def resolve_categories(categories, columns, names):
    """Return the categories of every column for the parameter ``categories``.

    Parameters
    ----------
    categories : "auto" or list of lists
        "auto" finds them in the columns.
    columns : list of ndarray
    names : list

    Returns
    -------
    list of ndarray
    """
    if isinstance(categories, str) and categories == "auto":
        return find_categories(columns, names)
    return given_categories(categories, names)


def known_columns(estimator, X):
    """Return the columns of rows to query a fitted estimator with, as many as in ``fit``."""
    return read_columns(estimator, X, reset=False)


def training_columns(estimator, X, resume):
    """Return the columns of training rows, their categories and their names.

    The number and the names of columns are recorded, or checked if ``resume``. Categories are then
    those of the earlier fit, else those of ``estimator.categories``.
    """
    columns = read_columns(estimator, X, reset=not resume)
    names = column_names(estimator)
    if resume:
        return columns, estimator.categories_, names
    return columns, resolve_categories(estimator.categories, columns, names), names


def _is_missing(value):
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and np.isnan(value)


def is_number(value):
    """Whether a value is a number or stands for one."""
    try:
        float(value)
    except (OverflowError, TypeError, ValueError):
        return False
    return True


def missing(column):
    """Mask of the entries that are None, nan, NaT or NA."""
    if column.dtype.kind == "f":
        return np.isnan(column)
    if column.dtype.kind in "mM":
        return np.isnat(column)
    if column.dtype == object:
        return np.fromiter((_is_missing(v) for v in column), dtype=bool, count=len(column))
    return np.zeros(len(column), dtype=bool)


def _plain(values):
    """An object array of numbers as a numeric array; anything else as it is."""
    if values.dtype != object or not len(values):
        return values
    kinds = {bool if isinstance(v, bool | np.bool_) else type(v) for v in values}
    if kinds <= {bool}:
        return values.astype(bool)
    if all(issubclass(k, numbers.Real) for k in kinds - {bool}) and bool not in kinds:
        numeric = np.array(values.tolist())
        return numeric if numeric.dtype.kind in "iuf" else values
    return values


def _refuse_measurements(values, name):
    """Infinities, and real numbers too various to be categories."""
    if values.dtype.kind != "f":
        return
    if np.isinf(values).any():
        raise ValueError(
            f"Column {name!r} holds infinity; use nan for a missing entry or a finite category."
        )
    odd = values != np.floor(values)
    few = min(MAX_REAL_CATEGORIES, max(2.0, np.sqrt(len(values))))
    if odd.any() and len(np.unique(values)) > few:
        raise ValueError(
            f"Column {name!r} holds real numbers such as {float(values[odd][0])!r} that hardly "
            "repeat, so they are no categories. Discretise the column "
            "(sklearn.preprocessing.KBinsDiscretizer), or turn it into strings if its values are "
            "categories."
        )


def _distinct(values, name):
    """Sorted distinct values; mixed types by type name first."""
    if values.dtype != object:
        return np.unique(values)
    try:
        distinct = set(values.tolist())
    except TypeError:
        kind = next(type(v).__name__ for v in values if getattr(v, "__hash__", None) is None)
        raise TypeError(
            f"Column {name!r} holds a {kind}; categories must be hashable (numbers, strings, "
            "booleans, tuples)."
        ) from None
    try:
        ordered = sorted(distinct)
    except TypeError:
        ordered = sorted(distinct, key=lambda v: (type(v).__name__, repr(v)))
    out = np.empty(len(ordered), dtype=object)
    out[:] = ordered
    return out


def find_categories(columns, names):
    """The sorted categories of every column.

    Raises
    ------
    ValueError
        Infinities, real numbers that are no categories, a column with no observed entry, more
        than 32767 categories.
    TypeError
        Unhashable entries.
    """
    found = []
    for column, name in zip(columns, names, strict=True):
        values = _plain(column[~missing(column)])
        _refuse_measurements(values, name)
        categories = _distinct(values, name)
        if len(categories) == 0:
            raise ValueError(
                f"Column {name!r} has no observed entry; drop it, or name its categories in "
                "categories=."
            )
        found.append(_check_count(categories, name))
    return found


def _check_count(categories, name):
    if len(categories) > MAX_STATES:
        raise ValueError(
            f"Column {name!r} has {len(categories)} categories; at most {MAX_STATES} are possible. "
            "Drop identifier columns, or merge rare categories."
        )
    return categories


def given_categories(categories, names):
    """The user's categories, checked: one list of distinct values a column."""
    if isinstance(categories, str) or not hasattr(categories, "__len__"):
        raise ValueError(
            f'categories must be "auto" or a list of lists, one a column; got {categories!r}.'
        )
    if len(categories) != len(names):
        raise ValueError(
            f"categories has {len(categories)} lists, but X has {len(names)} columns; give one "
            "each."
        )
    out = []
    for values, name in zip(categories, names, strict=True):
        array = _plain(_object_array(values))
        if len(array) == 0 or len(set(array.tolist())) < len(array):
            raise ValueError(
                f"The categories of column {name!r} must be distinct and at least one; got "
                f"{list(values)[:SHOWN]}."
            )
        out.append(_check_count(array, name))
    return out


def shared_categories(categories):
    """The union of the categories of all columns, once for every column."""
    values = [v for c in categories for v in c.tolist()]
    union = _distinct(_plain(_object_array(values)), "all")
    return [union] * len(categories)


def _object_array(values):
    values = list(values)
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def encode(columns, categories, names):
    """State codes of every entry, MISSING where nothing was observed.

    Raises
    ------
    ValueError
        A category that was not seen in fit.
    """
    X = np.full((len(columns[0]), len(columns)), MISSING, dtype=STATE)
    for j, (column, known, name) in enumerate(zip(columns, categories, names, strict=True)):
        seen = ~missing(column)
        values = _plain(column[seen])
        X[seen, j] = _codes(values, known, name)
    return X


def _codes(values, known, name):
    if values.dtype.kind in "biuf" and known.dtype.kind in "biuf" and len(known):
        order = np.argsort(known, kind="stable")
        place = np.minimum(np.searchsorted(known[order], values), len(known) - 1)
        codes = order[place]
        unseen = np.flatnonzero(known[codes] != values)
    else:
        if "m" in (known.dtype.kind + values.dtype.kind).lower():
            known, values = _kept_as_they_are(known), _kept_as_they_are(values)
        table = {v: s for s, v in enumerate(known.tolist())}
        codes = np.fromiter(
            (table.get(v, -1) for v in values.tolist()), dtype=int, count=len(values)
        )
        unseen = np.flatnonzero(codes < 0)
    if unseen.size:
        shown = ", ".join(repr(v) for v in known.tolist()[:SHOWN])
        more = ", ..." if len(known) > SHOWN else ""
        raise ValueError(
            f"Column {name!r} has the category {values.tolist()[unseen[0]]!r}, which was not seen "
            f"in fit; known are [{shown}{more}]. Name all in categories= before fit, or use nan or "
            "None for a missing entry."
        )
    return codes


def decode(X, categories):
    """The categories that state codes stand for: numeric if all columns are, else objects."""
    kinds = {c.dtype.kind for c in categories}
    if kinds <= set("biuf") and (kinds == {"b"} or "b" not in kinds):
        out = np.empty(X.shape, dtype=np.result_type(*[c.dtype for c in categories]))
    else:
        out = np.empty(X.shape, dtype=object)
    for j, known in enumerate(categories):
        known = _kept_as_they_are(known) if known.dtype.kind in "mM" else known
        out[:, j] = known[X[:, j]]
    return out


def _kept_as_they_are(values):
    """An object array; numpy would make numbers of times."""
    return np.fromiter(values, dtype=object, count=len(values))
