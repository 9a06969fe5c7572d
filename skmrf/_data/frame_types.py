"""Data types of the columns of a frame, and conversion of results to frames with these types."""

from dataclasses import dataclass, field
from importlib import import_module

import numpy as np

OPTIONS = ("time_unit", "time_zone", "precision", "scale")  # of polars data types


def is_polars(X):
    """Return True for a polars frame."""
    return hasattr(X, "get_columns")


def is_pandas(X):
    """Return True for a pandas frame."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


@dataclass(frozen=True)
class ColumnType:
    """Data type of one column, as plain values that can be stored safely.

    Attributes
    ----------
    name : str
        Name of the data type in the library of the frame, such as ``"Int64"``.
    options : dict
        Arguments of the data type, such as the categories of a categorical type.
    """

    name: str
    options: dict = field(default_factory=dict)


@dataclass(frozen=True)
class FrameType:
    """Library, column names and data types of a frame.

    Attributes
    ----------
    library : {"pandas", "polars"}
        Library of the frame.
    names : list
        Names of the columns.
    types : list of ColumnType
        Data type of each column.
    """

    library: str
    names: list
    types: list

    @classmethod
    def of(cls, X):
        """Return the type of a frame, or None if X is no pandas or polars frame."""
        if is_pandas(X):
            return cls("pandas", list(X.columns), [_describe_pandas(t) for t in X.dtypes])
        if is_polars(X):
            return cls("polars", list(X.columns), [_describe_polars(t) for t in X.dtypes])
        return None

    def build(self, values, index=None):
        """Return a frame with these column names and data types.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_columns)
            Values of the frame. In a column of integers, fractions are rounded. A column whose data
            type cannot represent its values gets another data type.
        index : pandas.Index, optional
            Index of a pandas frame. By default the rows are numbered from 0.

        Returns
        -------
        frame of shape (n_rows, n_columns)
            Frame of the library ``library``.
        """
        pairs = list(zip(values.T, self.types, strict=True))
        if self.library == "pandas":
            frame = import_module("pandas").concat(
                [_to_pandas(column, t, index) for column, t in pairs], axis=1
            )
            frame.columns = self.names
            return frame
        columns = [_to_polars(column, t) for column, t in pairs]
        named = [c.rename(name) for c, name in zip(columns, self.names, strict=True)]
        return import_module("polars").DataFrame(named)

    def build_probabilities(self, values, categories, index=None):
        """Return a frame of probabilities with one column for each category.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_categories)
            Probabilities.
        categories : ndarray of shape (n_categories,)
            Names of the columns. polars needs strings, so other categories are converted.
        index : pandas.Index, optional
            Index of a pandas frame. By default the rows are numbered from 0.

        Returns
        -------
        frame of shape (n_rows, n_categories)
            Frame of the library ``library``.
        """
        library = import_module(self.library)
        if self.library == "pandas":
            return library.DataFrame(values, columns=categories, index=index)
        return library.DataFrame(values, schema=[str(c) for c in categories.tolist()])


def frame_index(X):
    """Return the index of a pandas frame, or None for all other tables."""
    return X.index if is_pandas(X) else None


def _describe_pandas(dtype):
    arrow = getattr(dtype, "pyarrow_dtype", None)
    if arrow is not None:
        options = {"type": str(arrow)}
        if hasattr(arrow, "value_type") and hasattr(arrow, "index_type"):  # a dictionary
            options = {"type": str(arrow.value_type), "index": str(arrow.index_type)}
        return ColumnType("arrow", options)
    if str(dtype) != "category":
        return ColumnType(str(dtype))
    known = dtype.categories
    options = {"categories": known.to_numpy(), "dtype": str(known.dtype), "ordered": dtype.ordered}
    return ColumnType("category", options)


def _describe_polars(dtype):
    options = {name: getattr(dtype, name) for name in OPTIONS if hasattr(dtype, name)}
    name = dtype.base_type().__name__
    if name == "Enum":
        options = {"categories": dtype.categories.to_list()}
    return ColumnType(name, options)


def replace_frame_entries(X, entries, values):
    """Return a copy of a frame in which some entries have new values.

    Parameters
    ----------
    X : pandas.DataFrame or polars.DataFrame of shape (n_rows, n_columns)
        Frame.
    entries : ndarray of bool of shape (n_rows, n_columns)
        True for the entries to replace.
    values : ndarray of shape (n_rows, n_columns)
        New values of these entries. In columns of integers, fractions are rounded.

    Returns
    -------
    frame of shape (n_rows, n_columns)
        Frame with the data types of ``X``.
    """
    out = X.copy() if is_pandas(X) else X.clone()
    for j in np.flatnonzero(entries.any(axis=0)).tolist():
        places = np.flatnonzero(entries[:, j])
        if is_pandas(X):
            column = X.iloc[:, j].copy()
            column.iloc[places] = _to_pandas(
                values[places, j], _describe_pandas(column.dtype)
            ).array
            out.isetitem(j, column)
        else:
            column = X.get_columns()[j]
            new, kind = column.to_list(), _describe_polars(column.dtype)
            for place, value in zip(places, _to_polars(values[places, j], kind), strict=True):
                new[place] = value
            new = import_module("polars").Series(column.name, new, dtype=column.dtype)
            out = out.with_columns(new)
    return out


def append_to_frame(X, values, names):
    """Append boolean columns, given as an array of shape (n_rows, n_names), to a frame."""
    added = dict(zip(names, values.T, strict=True))
    if is_polars(X):
        polars = import_module("polars")
        return X.with_columns([polars.Series(name, column) for name, column in added.items()])
    return X.assign(**added)


def to_library(X, library):
    """Return a frame as a frame of another library, and other tables unchanged."""
    if library == "polars" and is_pandas(X):
        polars = import_module("polars")
        columns = {str(n): [_to_plain(v) for v in X.iloc[:, j]] for j, n in enumerate(X.columns)}
        return polars.DataFrame({name: polars.Series(v) for name, v in columns.items()})
    if library == "pandas" and is_polars(X):
        return import_module("pandas").DataFrame({c.name: c.to_numpy() for c in X.get_columns()})
    return X


def _to_plain(value):
    return value.item() if isinstance(value, np.generic) else value


def _to_pandas(values, column_type, index=None):
    pandas = import_module("pandas")
    natural = pandas.Series(values, index=index).infer_objects()
    try:
        dtype = _pandas_dtype(column_type)
        if dtype.kind in "iu" and natural.dtype.kind == "f":
            natural = natural.round()
        is_text = pandas.api.types.is_string_dtype(dtype) and str(dtype) != "object"
        if is_text and _is_whole(natural):
            natural = natural.astype("Int64")  # so that 5.0 becomes "5"
        if "index" in column_type.options:  # pandas makes dictionaries of Arrow values only
            values_type = ColumnType("arrow", {"type": column_type.options["type"]})
            natural = natural.astype(_pandas_dtype(values_type))
        converted = natural.astype(dtype)
    except (OverflowError, TypeError, ValueError):
        return natural
    is_same = (converted.isna() == natural.isna()).all()
    if dtype.kind in "biu":  # such as -1 in a column of unsigned integers
        is_same = is_same and (converted == natural).all()
    return converted if is_same else natural


def _is_whole(values):
    """Return whether values are floats without fractions."""
    values = np.asarray(values)
    return values.dtype.kind == "f" and bool((np.isnan(values) | (values % 1.0 == 0.0)).all())


def _pandas_dtype(column_type):
    pandas = import_module("pandas")
    if column_type.name == "arrow":
        options = column_type.options
        if "index" in options or options["type"] == "string":  # pandas does not read these names
            return pandas.ArrowDtype(_arrow_type(**options))
        return pandas.api.types.pandas_dtype(f"{options['type']}[pyarrow]")
    if column_type.name != "category":
        return pandas.api.types.pandas_dtype(column_type.name)
    options = column_type.options
    known = pandas.Index(options["categories"]).astype(options["dtype"])
    return pandas.CategoricalDtype(known, options["ordered"])


def _arrow_type(type, index=None):
    """Return the data type of Arrow with a name, such as "string", or a dictionary of this type."""
    arrow = import_module("pyarrow")
    value_type = arrow.type_for_alias(type)
    return (
        value_type if index is None else arrow.dictionary(arrow.type_for_alias(index), value_type)
    )


def _to_polars(values, column_type):
    polars = import_module("polars")
    values = np.array(values.tolist()) if _is_time(values) else values
    natural = polars.Series(values.tolist() if values.dtype == object else values)
    dtype = getattr(polars, column_type.name)
    try:
        dtype = dtype(**column_type.options) if column_type.options else dtype
        if dtype.is_integer() and natural.dtype.is_float():
            natural = natural.round()
        if dtype == polars.String and natural.dtype.is_float() and _is_whole(natural.to_numpy()):
            natural = natural.cast(polars.Int64)
        return natural.cast(dtype)
    except (TypeError, polars.exceptions.PolarsError):
        return natural


def _is_time(values):
    kinds = (np.datetime64, np.timedelta64)
    return values.dtype == object and all(isinstance(v, kinds) for v in values.tolist())
