"""Access to the columns of arrays, pandas frames and polars frames."""

from sklearn.utils.validation import check_array, validate_data


def _is_polars(X):
    return hasattr(X, "get_columns")


def _is_pandas(X):
    return hasattr(X, "iloc") and hasattr(X, "columns")


def as_columns(X):
    """Return the columns of an array or a frame as one-dimensional arrays.

    Columns of a frame keep their data types. Arrays may have nan.
    """
    if _is_polars(X):
        return _check_frame([c.to_numpy() for c in X.get_columns()], X.shape)
    if _is_pandas(X):
        return _check_frame([X.iloc[:, j].to_numpy() for j in range(X.shape[1])], X.shape)
    array = check_array(X, dtype=None, ensure_all_finite=False)
    if not hasattr(X, "dtype") and array.dtype.kind == "U":  # a list may mix strings and numbers
        array = check_array(X, dtype=object, ensure_all_finite=False)
    return list(array.T)


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


def find_column_names(X, n_columns):
    """Return the column names of a data frame, or 0, 1, 2, ... for an array."""
    return list(getattr(X, "columns", range(n_columns)))


def array_kind(X):
    """Return the ``dtype.kind`` of an array, such as ``"f"``, or "" if it has no dtype."""
    return getattr(getattr(X, "dtype", None), "kind", "")


def column_names(estimator):
    """Return the column names seen during fit, or 0, 1, 2, ... if there are no names."""
    fitted = vars(estimator)
    return list(fitted.get("feature_names_in_", range(fitted["n_features_in_"])))


def read_columns(estimator, X, *, reset):
    """Return the columns of X; record their names during fit, or compare them with fit later.

    Parameters
    ----------
    estimator : estimator
        Its attributes ``n_features_in_`` and ``feature_names_in_`` are set or checked.
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
        If the columns are not those of ``fit``.
    """
    columns = as_columns(X)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if reset:
        estimator.n_features_in_ = len(columns)
    elif len(columns) != estimator.n_features_in_:
        raise ValueError(
            f"X has {len(columns)} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    return columns
