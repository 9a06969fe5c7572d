"""Input validation and standardisation of numeric columns."""

import numpy as np
from scipy.sparse import issparse
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import validate_data

from .._utils.namespaces import is_numpy, namespace
from .._utils.rows import dense_rows, row_blocks
from .categories import is_number, missing_mask
from .frame_types import FrameType, is_pandas, is_polars
from .frames import (
    array_kind,
    as_array,
    as_columns,
    check_truth_values,
    find_column_names,
    plain_array,
)

MAX_CENTRED = 100  # columns of a table whose columns of zeros and ones are centred
BINARY_SCALE = 0.5  # the standard deviation of as many zeros as ones


def numeric_rows(estimator, X, *, reset, remedy, missing=False, on_device=False, **options):
    """Return X as a numeric array; record its columns during fit, or compare them with fit later.

    The array is one of numpy, unless ``on_device`` is True and X is an array of JAX.

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
        Whether nan, None and NA are missing entries; they become nan. Infinite values are then left
        to the caller to check.
    on_device : bool, default=False
        Whether an array of JAX is returned unchanged, and not as an array of numpy.
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
    X = plain_array(X)
    frame_type = FrameType.of(X) if reset else None
    if array_kind(X) in ("", "O"):
        _raise_for_truth_values(X)
        X = _replace_missing(X) if missing else X
    if array_kind(X) in ("", "m", "M"):  # numpy would convert text and dates to numbers
        _raise_for_text(X, remedy)
    try:
        stays = on_device and not is_numpy(X) and X.ndim == 2 and array_kind(X) in "biuf"
        # An array of zeros without memory has the shape to check.
        given = np.broadcast_to(np.zeros((), X.dtype), X.shape) if stays else X
        rows = validate_data(estimator, given, reset=reset, ensure_all_finite=False, **options)
        rows = X if stays else rows
        if rows.dtype.kind == "O":  # polars frames may be converted to objects
            rows = rows.astype(float)
    except (OverflowError, TypeError, ValueError) as error:
        _raise_for_text(X, remedy, error)
        raise
    if not missing:
        _check_finite(rows, estimator)
    if reset:
        estimator._frame_type = frame_type
    return rows


def to_nan(values):
    """Return an array of objects in which the missing entries are nan."""
    absent = missing_mask(values.ravel()).reshape(values.shape)
    return np.where(absent, np.nan, values)


def _replace_missing(X):
    """Return a table in which missing entries of objects and of booleans are nan."""
    if is_polars(X):
        booleans = [c.name for c in X if c.null_count() and c.to_numpy().dtype == object]
        return X.with_columns(X.select(booleans).cast(float)) if booleans else X
    if is_pandas(X):
        X = X.copy(deep=False)
        for j, dtype in enumerate(X.dtypes):
            if dtype.kind in "Ob" and X.iloc[:, j].hasnans:
                X.isetitem(j, to_nan(X.iloc[:, j].to_numpy(dtype=object)))
        return X
    try:
        array = as_array(X)
    except (TypeError, ValueError):  # the caller raises a better error
        return X
    return to_nan(array) if array.dtype == object else X


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
    if rows.dtype.kind in "biu":
        return
    values = rows.data[:, None] if issparse(rows) else rows
    for block in row_blocks(values):
        wrong = ~namespace(values).isfinite(values[block])
        if wrong.any():
            break
    else:
        return
    place = wrong.nonzero()
    column = rows.indices[block][place[0][0]] if issparse(rows) else place[1][0]
    name = vars(estimator).get("feature_names_in_", range(rows.shape[1]))[column]
    if np.isnan(values[block][wrong][0]):
        raise ValueError(
            f"Column {name!r} holds NaN, but {type(estimator).__name__} needs complete rows. "
            "Impute the missing entries (sklearn.impute.SimpleImputer), or drop these rows."
        )
    raise ValueError(f"Column {name!r} holds infinity; give finite numbers.")


def fit_scaler(X, weights, is_centred):
    """Return a scaler of the columns, or None if no column is changed.

    With ``is_centred``, columns of zeros and ones get the mean 0, and the variance 1 if both are
    equally frequent, and sparse rows are treated like dense ones. With many columns, steps of
    training would be too large, and ``is_centred`` is ignored.
    """
    is_centred = is_centred and X.shape[1] <= MAX_CENTRED
    X = dense_rows(X) if is_centred else X
    sparse = issparse(X)
    if sparse:
        others = np.unique(X.indices[(X.data != 0) & (X.data != 1)])
    else:
        others = np.flatnonzero(((X != 0) & (X != 1)).any(axis=0))
    if len(others) == 0 and not is_centred:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        weights = None if weights is None else weights / weights.max()
        scaler = StandardScaler(with_mean=not sparse).fit(X, sample_weight=weights)
        if sparse:  # the mean is not subtracted, so it is part of the scale
            scaler.scale_ = np.sqrt(scaler.var_ + scaler.mean_**2)
            scaler.scale_[scaler.scale_ == 0] = 1.0
    # The variance is checked too: where it overflows, StandardScaler sets the scale to 1.
    means = 0.0 if sparse else scaler.mean_
    wrong = np.flatnonzero(~np.isfinite(scaler.scale_ + scaler.var_ + means))
    if wrong.size:
        largest = abs(X[:, [wrong[0]]]).max()
        raise ValueError(
            f"Column {wrong[0]} of X holds {largest:.4g}, which is too large to be standardised. "
            "Remove the row if this is an outlier, or divide the column by a power of ten."
        )
    binary = np.setdiff1d(np.arange(X.shape[1]), others)
    scaler.scale_[binary] = BINARY_SCALE if is_centred else 1.0
    if not (sparse or is_centred):
        scaler.mean_[binary] = 0.0
    return scaler


def scale_inputs(scaler, X):
    """Return the scaled inputs; if ``scaler`` is None, return the inputs unchanged."""
    if scaler is None:
        return X
    with np.errstate(over="ignore"):  # the weights have a check of large inputs
        return scaler.transform(dense_rows(X) if scaler.with_mean else X)
