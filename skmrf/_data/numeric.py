"""Rows of numbers, for estimators that take no categories."""

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from .categories import is_number
from .frames import array_kind, as_columns, shown_names


def numeric_rows(estimator, X, *, reset, remedy, missing=False, **options):
    """Rows of numbers as an array; their number of columns and names are recorded or checked.

    Parameters
    ----------
    estimator : estimator
    X : array-like, frame or sparse matrix
    reset : bool
        Record the columns, else compare them with those of ``fit``.
    remedy : str
        What to do with entries that are no numbers.
    missing : bool
        Whether nan is a missing entry; infinity then is for the caller to judge.
    **options
        Of :func:`sklearn.utils.validation.check_array`.

    Raises
    ------
    ValueError
        Entries that are no numbers, or not finite; the message names the first such column.
    TypeError
        An entry that is neither a number nor a string, such as a dict.
    """
    if array_kind(X) in ("", "m", "M"):  # numpy would convert text and dates to numbers
        _refuse_words(X, remedy)
    try:
        rows = validate_data(estimator, X, reset=reset, ensure_all_finite=False, **options)
        if rows.dtype.kind == "O":  # of a frame of polars
            rows = rows.astype(float)
    except (OverflowError, TypeError, ValueError) as error:
        _refuse_words(X, remedy, error)
        raise
    if not missing:
        _check_finite(rows, estimator)
    return rows


def _refuse_words(X, remedy, error=None):
    """Name the first entry that is no number, if that is what is wrong.

    A TypeError of numpy, for an object that stands for nothing, stays one and keeps its words.
    """
    kind, detail = (TypeError, f" ({error})") if isinstance(error, TypeError) else (ValueError, "")
    try:
        columns = as_columns(X)
    except (TypeError, ValueError):
        return
    names = shown_names(X, len(columns))
    for wrong in (lambda value: not is_number(value), lambda value: isinstance(value, str)):
        for name, column in zip(names, columns, strict=True):
            for value in _suspects(column):
                if wrong(value):
                    raise kind(
                        f"Column {name!r} holds {value!r}, which is no number; {remedy}{detail}"
                    )


def _suspects(column):
    """Values that may be no numbers."""
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
            f"Column {name!r} holds NaN, but {type(estimator).__name__} takes complete rows. Fill "
            "the gaps (sklearn.impute.SimpleImputer), or leave these rows out."
        )
    raise ValueError(f"Column {name!r} holds infinity; give finite numbers.")
