"""Access to the columns of arrays, pandas frames and polars frames."""

import numbers
from functools import partial

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from .._utils.codes import MAX_STATES, STATE
from .._utils.rows import MappedCodes, is_mapped, row_blocks
from .frame_types import (
    FrameType,
    append_to_frame,
    is_pandas,
    is_polars,
    replace_frame_entries,
)

TRUTH_VALUES = (bool, np.bool_)
MAX_EXACT = 2.0**53  # larger integers are rounded in float64
LARGE_BLOCK = 2**22  # entries of rows whose distinct values are found together
USER_DEFINED = 2  # value of numpy.dtype.isbuiltin for the data types of other packages


def as_columns(X):
    """Return the columns of an array or a frame as one-dimensional arrays.

    Columns of a frame keep their data types. Arrays may have nan. Masked entries of a masked array
    become missing entries.
    """
    if is_polars(X):
        return _check_frame([_column_values(c) for c in X.get_columns()], X.shape)
    if is_pandas(X):
        return _check_frame([_column_values(X.iloc[:, j]) for j in range(X.shape[1])], X.shape)
    return list(as_array(X).T)


def _column_values(column):
    """Return a column of a frame as an array; integers that floats would round are objects."""
    values, kind = column.to_numpy(), column.dtype
    kind = getattr(getattr(kind, "categories", None), "dtype", kind)  # of a categorical column
    is_rounded = values.dtype.kind == "f" and "int" in str(kind).lower()
    if is_rounded and (np.abs(values) >= MAX_EXACT).any():  # nan is not
        return np.fromiter(column, dtype=object, count=len(values))
    return values


def as_array(X):
    """Return an array-like as an array of shape (n_rows, n_columns), whose entries keep their type.

    Masked entries become nan in arrays of floats, otherwise None.
    """
    X = plain_array(X)
    array = check_array(X, dtype=None, ensure_all_finite=False)
    if not hasattr(X, "dtype") and array.dtype.kind in "Uif":  # a list may have several types
        objects = check_array(X, dtype=object, ensure_all_finite=False)
        if array.dtype.kind == "U" or any(isinstance(v, TRUTH_VALUES) for v in objects.flat):
            return objects
    return array


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def to_double(values):
    """Return numbers in double precision. Rounded numbers stay the same decimal numbers.

    The float32 number nearest to 0.1 becomes 0.1, not 0.10000000149. Numbers that need more decimal
    digits are converted exactly.
    """
    out, dtype = values.astype(float), values.dtype
    if dtype.kind != "f" or dtype.itemsize >= out.itemsize:
        return out
    size, precision = np.floor(np.log10(np.abs(out))), np.finfo(dtype).precision
    for n_digits in (precision + 1, precision):  # fewer digits are preferred
        places = n_digits - 1 - np.where(np.isfinite(size), size, 0.0)
        unit = 10.0 ** np.abs(places)  # exact, unlike its inverse
        decimal = np.rint(np.where(places > 0, out * unit, out / unit))
        decimal = np.where(places > 0, decimal / unit, decimal * unit)
        out = np.where(decimal.astype(dtype) == values, decimal, out)
    return out


def plain_array(X):
    """Return an array without a mask and with a data type of numpy, and other tables unchanged.

    Masked entries become nan in arrays of floats, otherwise None. Data types that numpy does not
    have, such as bfloat16 and int4 of JAX, become float32 or int8, which have all their values.
    """
    dtype = getattr(X, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.isbuiltin == USER_DEFINED:
        X = X.astype(np.int8 if "int" in dtype.name else np.float32)
    if not isinstance(X, np.ma.MaskedArray):
        return X
    mask = np.ma.getmaskarray(X)
    if not mask.any():
        return np.asarray(X.data)
    out = X.data.astype(X.dtype if X.dtype.kind == "f" else object)
    out[mask] = np.nan if X.dtype.kind == "f" else None
    return out


def check_truth_values(columns, names):
    """Raise a ValueError that names a column with both booleans and numbers, if there is one.

    Python counts True and 1 as equal, so such a column would have fewer categories than values.
    """
    for column, name in zip(columns, names, strict=True):
        values = column.tolist() if column.dtype == object else []
        if {type(v) for v in values}.isdisjoint(TRUTH_VALUES):
            continue
        others = (v for v in values if not isinstance(v, TRUTH_VALUES))
        number = next((v for v in others if isinstance(v, numbers.Number) and v == v), None)
        if number is not None:
            raise ValueError(
                f"Column {name!r} mixes booleans and numbers such as {number!r}; convert its "
                "entries to one type."
            )


def select_columns(X, columns):
    """Return some columns of an array or a frame, given an array of their indices."""
    if is_pandas(X):
        return X.iloc[:, columns]
    return X[:, columns.tolist()] if is_polars(X) else as_array(X)[:, columns]


def holds_numbers(X, n_columns):
    """Return a mask of the columns whose data type can hold numbers or booleans."""
    if is_pandas(X):
        return np.array([getattr(t, "kind", "O") in "biufO" and _is_plain(t) for t in X.dtypes])
    if is_polars(X):
        return np.array([t.is_numeric() or t.base_type().__name__ == "Boolean" for t in X.dtypes])
    return np.full(n_columns, array_kind(X) not in ("U", "m", "M"))


def _is_plain(dtype):
    return dtype.kind != "O" or str(dtype) == "object"


def replace_entries(X, entries, values):
    """Return a copy of a table in which some entries have new values.

    Parameters
    ----------
    X : array-like or frame of shape (n_rows, n_columns)
        Table.
    entries : ndarray of bool of shape (n_rows, n_columns)
        True for the entries to replace.
    values : ndarray of shape (n_rows, n_columns)
        New values of these entries. In columns of integers, fractions are rounded.

    Returns
    -------
    ndarray or frame of shape (n_rows, n_columns)
        Table of the library and with the data types of ``X``.
    """
    if is_pandas(X) or is_polars(X):
        return replace_frame_entries(X, entries, values)
    is_masked = isinstance(X, np.ma.MaskedArray)
    out = np.array(X.data if is_masked else as_array(X))
    new = values[entries]
    out[entries] = np.rint(new.astype(float)) if out.dtype.kind in "iu" else new
    return out


def append_columns(X, values, names):
    """Append boolean columns to a table: as booleans to a frame, as zeros and ones to an array."""
    if is_pandas(X) or is_polars(X):
        return append_to_frame(X, values, names)
    return np.hstack([X, values])


def _check_frame(columns, shape):
    if shape[0] < 1 or shape[1] < 1:
        what, least = ("sample", shape[0]) if shape[0] < 1 else ("feature", shape[1])
        raise ValueError(
            f"Found array with {least} {what}(s) (shape={shape}) while a minimum of 1 is required."
        )
    return columns


def column_types(X):
    """Return the data type of each column of a data frame, or an empty list for an array."""
    return list(X.dtypes) if hasattr(X, "columns") and hasattr(X, "dtypes") else []


def declared_categories(X, categorical):
    """Return the categories that pandas or polars data types declare for each column.

    Parameters
    ----------
    X : array-like or frame
        Training rows.
    categorical : ndarray of bool
        Mask of the categorical columns.

    Returns
    -------
    list of (ndarray or None)
        Categories of each categorical column, or None if it declares none.
    """
    types = column_types(X)
    declared = [getattr(t, "categories", None) for t in types] or [None] * len(categorical)
    selected = [c for c, is_selected in zip(declared, categorical, strict=True) if is_selected]
    return [c.to_numpy() if hasattr(c, "to_numpy") and len(c) else None for c in selected]


def find_column_names(X, n_columns):
    """Return the column names of a data frame, or 0, 1, 2, ... for an array."""
    return list(getattr(X, "columns", range(n_columns)))


def array_kind(X):
    """Return the ``dtype.kind`` of an array, such as ``"f"``, or "" if it has no dtype."""
    return getattr(getattr(X, "dtype", None), "kind", "")


def column_names(estimator):
    """Return the column names seen during fit, or 0, 1, 2, ... if there are no names."""
    names = vars(estimator).get("feature_names_in_")
    return list(range(estimator.n_features_in_) if names is None else names)


def read_columns(estimator, X, *, reset):
    """Return the columns of X; record their names during fit, or compare them with fit later.

    Parameters
    ----------
    estimator : estimator
        Its attributes ``n_features_in_`` and ``feature_names_in_`` are set or checked. Its
        attribute ``_frame_type`` is set.
    X : array-like or frame of shape (n_rows, n_columns)
        Rows.
    reset : bool
        Whether to record the columns, as in ``fit``. Otherwise they are compared with those of
        ``fit``.

    Returns
    -------
    list of ndarray of shape (n_rows,)
        Columns.

    Raises
    ------
    ValueError
        If the columns are not those of ``fit``, or if a column mixes booleans and numbers.
    """
    columns = as_columns(X)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if reset:
        estimator.n_features_in_ = len(columns)
        estimator._frame_type = FrameType.of(X)
    elif len(columns) != estimator.n_features_in_:
        raise ValueError(
            f"X has {len(columns)} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    check_truth_values(columns, column_names(estimator))
    return columns


class MappedColumns:
    """Columns of small integers in a memory map, whose rows are read in blocks.

    Iteration yields the sorted distinct values of each column.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Booleans, or integers of one or two bytes, in a memory map.
    """

    def __init__(self, X):
        self.X = X
        parts = [[np.unique(v) for v in np.array(X[rows]).T] for rows in row_blocks(X, LARGE_BLOCK)]
        self.values = [np.unique(np.concatenate(found)) for found in zip(*parts, strict=True)]

    def __len__(self):
        """Return the number of columns."""
        return len(self.values)

    def __iter__(self):
        """Iterate over the sorted distinct values of each column."""
        return iter(self.values)

    def encode(self, codes):
        """Return the state codes of the rows, given those of the distinct values of each column.

        Parameters
        ----------
        codes : list of ndarray of int
            State code of each distinct value.

        Returns
        -------
        MappedCodes
            Codes, which are computed when rows are read.
        """
        values = [v.astype(int) for v in self.values]
        low, high = min(v[0] for v in values), max(v[-1] for v in values)
        pairs = zip(codes, values, strict=True)
        if high <= MAX_STATES and all((c == v - low).all() for c, v in pairs):
            convert = partial(_shift, low=int(low))
        else:
            tables = np.zeros((len(values), high - low + 1), dtype=STATE)
            for table, v, c in zip(tables, values, codes, strict=True):
                table[v - low] = c
            convert = partial(_look_up, tables=tables, low=int(low))
        return MappedCodes(self.X, convert=convert, dtype=STATE)


def _shift(rows, low):
    codes = rows.astype(STATE, order="C")
    codes -= low
    return codes


def _look_up(rows, tables, low):
    starts = np.arange(len(tables)) * tables.shape[1] - low
    return tables.ravel()[rows + starts]


def read_training_columns(estimator, X, *, reset, in_blocks):
    """Return the columns of training rows, as :func:`read_columns`.

    With ``in_blocks``, the columns of a memory map of small integers are a MappedColumns.
    """
    columns = read_columns(estimator, X, reset=reset)
    rows = as_array(X) if in_blocks and is_mapped(X) else np.zeros(0)
    if is_mapped(rows) and rows.dtype.kind in "biu" and rows.dtype.itemsize <= 2:
        return MappedColumns(rows)
    return columns
