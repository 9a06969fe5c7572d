"""Conversion of categories to state codes and back."""

import numbers
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from .._utils.codes import MAX_STATES, MISSING, STATE
from .._utils.parameters import show_list
from .._utils.rows import find_copies, find_unique_rows
from .._utils.warn import warn_caller
from .frames import MAX_EXACT, MappedColumns, as_columns, read_columns, to_double

__all__ = [
    "CategoryEncoder",
    "TableEncoder",
    "as_columns",
    "check_categories",
    "check_seen",
    "common_type",
    "decode",
    "encode",
    "find_categories",
    "is_number",
    "missing_mask",
    "resolve_categories",
    "time_advice",
    "to_floats",
    "unite_categories",
    "warn_identifiers",
]

N_SHOWN = 8  # names or values in an error message
MAX_REAL_CATEGORIES = 50
MANY_CATEGORIES = 1000  # of an identifier, which has a category for every second row at least
GRID_RATIO, GRID_TOLERANCE = 4, 1e-3  # places of a grid per value, and rounding errors of a place
MAX_PLACES, LEAST = 1e15, 1e-300
GIVE_ALL = "Give all categories in categories= before fit"
GIVE_TYPE = (
    'If the column has numbers rather than codes, give it the type "integer" or "continuous" in '
    "column_types before fit. "
)


class TableEncoder:
    """Base class of encoders of tables, which have the method ``encode``."""

    def read(self, estimator, X):
        """Return the columns of X, or raise a ValueError if they differ from ``fit``."""
        return read_columns(estimator, X, reset=False)

    def encode_row(self, row):
        """Encode a single row, in which None is a missing entry.

        The given row is an array of dtype object and shape (1, n_columns).
        """
        return self.encode(list(row.T))


@dataclass(frozen=True)
class CategoryEncoder(TableEncoder):
    """Encoder that converts categories to state codes.

    Attributes
    ----------
    names : list
        Names of the columns, for error messages.
    categories : list of ndarray
        Categories of each column, in the order of their codes.
    """

    names: list
    categories: list

    @property
    def state_names(self):
        """Category of each state, one array per column."""
        return self.categories

    def encode(self, columns):
        """Return the state codes, shape (n_rows, n_columns); missing entries have MISSING."""
        if isinstance(columns, MappedColumns):
            parts = zip(columns, self.categories, self.names, strict=True)
            codes = [encode([x], [known], [name])[:, 0] for x, known, name in parts]
            return columns.encode(codes)
        return encode(columns, self.categories, self.names)

    def decode(self, codes):
        """Return the category of each state code; no code may be MISSING."""
        return decode(codes, self.categories)


def resolve_categories(categories, columns, names, declared=None):
    """Return the categories of each column: given, declared, or found in the column.

    Parameters
    ----------
    categories : "auto" or list of lists
        Categories of each column. "auto" means the declared ones, or those in the column.
    columns : list of ndarray
        Training columns.
    names : list
        Names of the columns.
    declared : list of (ndarray or None), optional
        Categories that the data type of each column declares. None means that it declares none.

    Returns
    -------
    list of ndarray
        Categories of each column.
    """
    if not isinstance(categories, str) or categories != "auto":
        return check_categories(categories, names)
    parts = zip(declared or [None] * len(columns), columns, names, strict=True)
    return [
        find_categories([column], [name])[0]
        if known is None
        else check_categories([known], [name])[0]
        for known, column, name in parts
    ]


def is_missing(value):
    """Return True if a value is None, nan, NaT or NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and value != value


def time_advice(column):
    """Return advice for error messages about dates and durations; empty for other columns."""
    is_time = column.dtype.kind in "mM" or any(
        isinstance(value, (date, timedelta)) or type(value).__name__ == "Period"
        for value in column[~missing_mask(column)].tolist()
    )
    advice = " Dates and durations are not supported. Use numbers, such as the days since a date."
    return advice if is_time else ""


def to_floats(column, name):
    """Return a column as floats, with nan for missing entries."""
    if column.dtype.kind in "cmM":
        raise ValueError(
            f"Column {name!r} holds values of type {column.dtype}; convert them to real numbers."
            f"{time_advice(column)}"
        )
    absent = missing_mask(column)
    out = np.full(len(column), np.nan)
    try:
        out[~absent] = to_double(column[~absent])
    except TypeError:
        value = next(v for v in column[~absent].tolist() if not is_number(v))
        raise TypeError(
            f"Column {name!r} holds a {type(value).__name__}; each entry of this argument must be "
            "a number, a string that can be converted to a number, or missing (nan or None)."
            f"{time_advice(column)}"
        ) from None
    except (OverflowError, ValueError):
        value = next(v for v in column[~absent].tolist() if not is_number(v))
        raise ValueError(
            f"Column {name!r} holds {value!r}, which is not a number; if its values are "
            'categories, give the column the type "categorical" in column_types.'
        ) from None
    if np.isinf(out).any():
        raise ValueError(
            f"Column {name!r} holds infinity; use nan for a missing entry or a finite number."
        )
    return out


def is_number(value):
    """Return True if a value can be converted to a float."""
    try:
        float(value)
    except (OverflowError, TypeError, ValueError):
        return False
    return True


def missing_mask(column):
    """Return a boolean mask: True where an entry is None, nan, NaT or NA."""
    if column.dtype.kind == "f":
        return np.isnan(column)
    if column.dtype.kind in "mM":
        return np.isnat(column)
    if column.dtype == object:
        return np.fromiter((is_missing(v) for v in column), dtype=bool, count=len(column))
    return np.zeros(len(column), dtype=bool)


def value_codes(columns):
    """Return codes of the values of columns, which are equal for equal values of a column.

    Missing entries have the code -1. The result has shape (n_rows, n_columns).
    """
    codes = np.empty((len(columns[0]), len(columns)), np.int64)
    for j, column in enumerate(columns):
        if column.dtype == object:
            known = {}
            keys = [value if isinstance(value, Hashable) else id(value) for value in column]
            codes[:, j] = [known.setdefault(key, len(known)) for key in keys]
        else:
            codes[:, j] = np.unique(column, return_inverse=True)[1]
        codes[missing_mask(column), j] = MISSING
    return codes


def _has_fine_values(column):
    """Return whether the numbers of a column are on no grid, or fill less than 25 % of one.

    Rounded numbers are on a grid. Years fill one.
    """
    values = _to_numeric(column[~missing_mask(column)])
    values = to_double(values) if values.dtype.kind in "iuf" else np.zeros(0)
    values = values[np.isfinite(values)]
    largest = max(np.abs(values).max(initial=0.0), LEAST)
    values = np.unique(values / largest)  # their differences do not overflow
    if len(values) < 3:  # two numbers are on a grid
        return False
    with np.errstate(over="ignore"):
        places = np.minimum((values - values[0]) / np.diff(values).min(), MAX_PLACES)
    is_on_grid = np.abs(places - np.rint(places)).max() < GRID_TOLERANCE
    return not is_on_grid or bool(places[-1] > GRID_RATIO * len(values))


def merge_copies(columns, labels, weights):
    """Merge copies of rows that have the same label, and add their weights.

    :func:`~skmrf._utils.rows.find_copies` describes which equal rows are copies.

    Parameters
    ----------
    columns : list of ndarray of shape (n_rows,)
        Columns. Missing entries are equal to each other.
    labels : ndarray of shape (n_rows,)
        Label of each row.
    weights : ndarray of shape (n_rows,)
        Weight of each row.

    Returns
    -------
    rows : ndarray of int of shape (n_distinct,)
        Indices of the rows that are kept, in ascending order.
    weights : ndarray of shape (n_distinct,)
        Sums of weights.
    groups : ndarray of int of shape (n_distinct,)
        Group of each row. Copies with different labels are in the same group.
    """
    is_fine = np.array([_has_fine_values(column) for column in columns])
    _, groups = find_copies(value_codes(columns), is_fine)
    _, codes = np.unique(labels, return_inverse=True)
    first, owners = find_unique_rows(np.stack([groups, codes], axis=1))
    order = np.argsort(first)
    rows = first[order]
    return rows, np.bincount(owners, weights)[order], groups[rows]


def _to_numeric(values):
    """Convert an object array of numbers to a numeric array; return other arrays unchanged."""
    if values.dtype != object or not len(values):
        return values
    kinds = {bool if isinstance(v, bool | np.bool_) else type(v) for v in values}
    if kinds <= {bool}:
        return values.astype(bool)
    if all(issubclass(k, numbers.Real) for k in kinds - {bool}) and bool not in kinds:
        numeric = np.array(values.tolist())
        if numeric.dtype.kind == "f":
            integers = [v for v in values.tolist() if isinstance(v, numbers.Integral)]
            return numeric if all(float(v) == v for v in integers) else values
        return numeric if numeric.dtype.kind in "iu" else values
    return values


def _check_is_categorical(values, name):
    """Raise a ValueError if values are infinite or look continuous."""
    if values.dtype.kind != "f":
        return
    if np.isinf(values).any():
        raise ValueError(
            f"Column {name!r} holds infinity; use nan for a missing entry or a finite category."
        )
    is_fractional = values != np.floor(values)
    max_categories = min(MAX_REAL_CATEGORIES, max(2.0, np.sqrt(len(values))))
    n_distinct = len(np.unique(values))
    if is_fractional.any() and n_distinct > max_categories:
        raise ValueError(
            f"Column {name!r} holds real numbers such as {float(values[is_fractional][0])!r}, of "
            f"which {n_distinct} are distinct in {len(values)} rows: too many for categories. "
            "Discretise the column "
            "(sklearn.preprocessing.KBinsDiscretizer), or convert it to strings if its values are "
            "categories."
        )


def _sorted_unique(values, name):
    """Return the sorted distinct values; values of several types are sorted by type first."""
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
    """Return the sorted categories of each column.

    Raises
    ------
    ValueError
        If a column has infinite values, real numbers that are not categories, no observed entry, or
        more than 32767 categories.
    TypeError
        If a column has entries that are not hashable.
    """
    found = []
    for column, name in zip(columns, names, strict=True):
        values = _to_numeric(column[~missing_mask(column)])
        _check_is_categorical(values, name)
        categories = _sorted_unique(values, name)
        if len(categories) == 0:
            raise ValueError(
                f"Column {name!r} has no observed entry; drop it, or give its categories with the "
                "parameter categories."
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


def warn_identifiers(names, n_states, n_rows):
    """Warn about columns with so many categories that most of them occur in one row."""
    for i in np.flatnonzero(np.asarray(n_states) > max(MANY_CATEGORIES, 0.5 * n_rows)):
        warn_caller(
            f"Column {names[i]!r} has {n_states[i]} categories in {n_rows} rows. A model cannot "
            "learn from so few rows of each category, and the fit takes much time and memory. Drop "
            "identifier columns, or merge rare categories."
        )


def check_categories(categories, names):
    """Convert the parameter ``categories`` to arrays, or raise a ValueError if it is invalid."""
    if isinstance(categories, str) or not hasattr(categories, "__len__"):
        raise ValueError(
            f'categories must be "auto" or a list of lists, one per column; got {categories!r}.'
        )
    if len(categories) != len(names):
        raise ValueError(
            f"categories has {len(categories)} lists, but X has {len(names)} columns; give one "
            "list per column."
        )
    out = []
    for values, name in zip(categories, names, strict=True):
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise ValueError(f"The categories of column {name!r} must be a list; got {values!r}.")
        array = _to_numeric(_object_array(values))
        if missing_mask(array).any():
            raise ValueError(
                f"The categories of column {name!r} contain a missing entry (nan, None or NA); "
                f"remove it: {show_list(list(values), N_SHOWN)}."
            )
        if len(array) == 0 or len(set(array.tolist())) < len(array):
            raise ValueError(
                f"The categories of column {name!r} must be distinct, and at least one is needed; "
                f"got {show_list(list(values), N_SHOWN)}."
            )
        out.append(_check_count(array, name))
    return out


def unite_categories(categories):
    """Return the same categories for each column: the union of the categories of all columns."""
    values = [v for c in categories for v in c.tolist()]
    union = _sorted_unique(_to_numeric(_object_array(values)), "all")
    return [union] * len(categories)


def _object_array(values):
    values = list(values)
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def encode(columns, categories, names, *, has_types=False):
    """Return the state codes of all entries; the code of a missing entry is MISSING.

    With ``has_types``, the error message names the parameter ``column_types``.

    Raises
    ------
    ValueError
        If a category was not seen in fit.
    """
    X = np.full((len(columns[0]), len(columns)), MISSING, dtype=STATE)
    for j, (column, known, name) in enumerate(zip(columns, categories, names, strict=True)):
        is_observed = ~missing_mask(column)
        values = _to_numeric(column[is_observed])
        codes = _find_codes(values, known)
        _raise_for_unseen(codes, values, known, name, GIVE_ALL, has_types)
        X[is_observed, j] = codes
    return X


def blank_unseen(column, known):
    """Return a column in which categories that are not in ``known`` are missing (None)."""
    is_observed = ~missing_mask(column)
    unseen = np.flatnonzero(is_observed)[_find_codes(_to_numeric(column[is_observed]), known) < 0]
    if not len(unseen):
        return column
    out = _to_objects(column)
    out[unseen] = None
    return out


def _find_codes(values, known):
    """Return the code of each category, and -1 for categories that are not in ``known``."""
    if len(known) and common_type([values, known]).kind in "biuf":
        order = np.argsort(known, kind="stable")
        place = np.minimum(np.searchsorted(known[order], values), len(known) - 1)
        return np.where(known[order[place]] == values, order[place], -1)
    if "m" in (known.dtype.kind + values.dtype.kind).lower():
        known, values = _to_objects(known), _to_objects(values)
    table = {v: s for s, v in enumerate(known.tolist())}
    return np.fromiter((table.get(v, -1) for v in values.tolist()), dtype=int, count=len(values))


def check_seen(column, known, name, remedy, has_types):
    """Raise a ValueError with the given remedy if a category of a column is not in ``known``.

    With ``has_types``, the error message names the parameter ``column_types``.
    """
    values = _to_numeric(column[~missing_mask(column)])
    _raise_for_unseen(_find_codes(values, known), values, known, name, remedy, has_types)


def _raise_for_unseen(codes, values, known, name, remedy, has_types):
    unseen = np.flatnonzero(codes < 0)
    if unseen.size:
        place = "seen in fit and is not in categories=" if remedy == GIVE_ALL else "seen in fit"
        if has_types and {known.dtype.kind, values.dtype.kind} <= set("iuf"):
            remedy = GIVE_TYPE + remedy
        if "m" in (known.dtype.kind + values.dtype.kind).lower():
            known, values = _to_objects(known), _to_objects(values)
        raise ValueError(
            f"Column {name!r} has the category {values.tolist()[unseen[0]]!r}, which was not "
            f"{place}; its categories are {show_list(known.tolist(), N_SHOWN)}. {remedy}, or use "
            "nan or None for a missing entry."
        )


def common_type(arrays):
    """Return the common data type of arrays of numbers, which is object if floats round integers.

    It is also object if an array has other values, or if some arrays have booleans.
    """
    kinds = {a.dtype.kind for a in arrays}
    if not kinds <= set("biuf") or ("b" in kinds and kinds != {"b"}):
        return np.dtype(object)
    dtype = np.result_type(*[a.dtype for a in arrays])
    integers = [a.astype(float) for a in arrays if dtype.kind == "f" and a.dtype.kind in "iu"]
    is_rounded = any(np.abs(a).max(initial=0.0) >= MAX_EXACT for a in integers)
    return np.dtype(object) if is_rounded else dtype


def decode(X, categories):
    """Return the category of each code, in an array of the common type of the categories."""
    out = np.empty(X.shape, dtype=common_type(categories))
    for j, known in enumerate(categories):
        known = _to_objects(known) if known.dtype.kind in "mM" else known
        out[:, j] = known[X[:, j]]
    return out


def _to_objects(values):
    """Return the values as an object array; times are not converted to integers."""
    return np.fromiter(values, dtype=object, count=len(values))
