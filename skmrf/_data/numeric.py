"""Validation of numeric rows."""

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from .categories import is_number
from .frame_types import FrameType
from .frames import array_kind, as_columns, check_truth_values, find_column_names, unmask


def numeric_rows(estimator, X, *, reset, remedy, missing=False, **options):
    """Return X as a numeric array; record its columns during fit, or compare them with fit later.

    Parameters
    ----------
    estimator : estimator
        Its attributes ``n_features_in_`` and ``feature_names_in_`` are set or checked. Its
        attribute ``_frame_type`` is set.
    X : array-like, frame or sparse matrix
        Rows.
    reset : bool
        Whether to record the columns. Otherwise they are compared with those of ``fit``.
    remedy : str
        End of error messages about entries that are not numbers: what the user can do.
    missing : bool, default=False
        Whether nan is a missing entry. Infinite values are then left to the caller to check.
    **options
        Options of :func:`sklearn.utils.validation.check_array`.

    Returns
    -------
    ndarray or sparse matrix of shape (n_rows, n_columns)
        Numeric rows.

    Raises
    ------
    ValueError
        If an entry is not a number or not finite, or if a column mixes booleans and numbers.
        The message names the first such column.
    TypeError
        If an entry is neither a number nor a string, such as a dict.
    """
    X = unmask(X)
    if array_kind(X) in ("", "O"):
        _raise_for_truth_values(X)
    if array_kind(X) in ("", "m", "M"):  # numpy would convert text and dates to numbers
        _raise_for_text(X, remedy)
    try:
        rows = validate_data(estimator, X, reset=reset, ensure_all_finite=False, **options)
        if rows.dtype.kind == "O":  # polars frames may be converted to objects
            rows = rows.astype(float)
    except (OverflowError, TypeError, ValueError) as error:
        _raise_for_text(X, remedy, error)
        raise
    if not missing:
        _check_finite(rows, estimator)
    if reset:
        estimator._frame_type = FrameType.of(X)
    return rows


def _raise_for_truth_values(X):
    """Raise an error that names a column with both booleans and numbers, if there is one."""
    try:
        columns = as_columns(X)
    except (TypeError, ValueError):  # the caller raises a better error
        return
    check_truth_values(columns, find_column_names(X, len(columns)))


def _raise_for_text(X, remedy, error=None):
    """Raise an error that names the first entry that is not a number, if there is one.

    If ``error`` is a TypeError, a TypeError with numpy's message is raised, otherwise a ValueError.
    """
    error_type, detail = ValueError, ""
    if isinstance(error, TypeError):
        error_type, detail = TypeError, f" ({error})"
    try:
        columns = as_columns(X)
    except (TypeError, ValueError):
        return
    names = find_column_names(X, len(columns))
    for is_wrong in (lambda value: not is_number(value), lambda value: isinstance(value, str)):
        for name, column in zip(names, columns, strict=True):
            for value in _values_to_check(column):
                if is_wrong(value):
                    raise error_type(
                        f"Column {name!r} holds {value!r}, which is not a number; {remedy}{detail}"
                    )


def _values_to_check(column):
    """Return the values of a column as a list; the list is empty if the data type is numeric."""
    if column.dtype.kind in "biuf":
        return []
    return (column.astype(str) if column.dtype.kind in "mM" else column).tolist()


def _check_finite(rows, estimator):
    values = rows.data if issparse(rows) else rows
    wrong = ~np.isfinite(values)
    if not wrong.any():
        return
    place = wrong.nonzero()
    column = rows.indices[place[0]][0] if issparse(rows) else place[1][0]
    name = vars(estimator).get("feature_names_in_", range(rows.shape[1]))[column]
    if np.isnan(values[wrong][0]):
        raise ValueError(
            f"Column {name!r} holds NaN, but {type(estimator).__name__} needs complete rows. "
            "Impute the missing entries (sklearn.impute.SimpleImputer), or drop these rows."
        )
    raise ValueError(f"Column {name!r} holds infinity; give finite numbers.")
