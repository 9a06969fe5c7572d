"""Rows of a table: dense copies and unique rows."""

import numpy as np
from scipy.sparse import issparse


def dense_rows(X):
    """Rows as an array, also those of a sparse matrix."""
    return X.toarray() if issparse(X) else X


def distinct_rows(rows):
    """Numbers of the first of equal rows, and which of these each row equals."""
    if rows.shape[1] == 0:
        return np.zeros(min(len(rows), 1), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    rows = np.ascontiguousarray(rows)
    view = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, which = np.unique(view, return_index=True, return_inverse=True)
    return first, which


def float_type(array):
    """float32 where an array is of that type, else float64."""
    return np.float32 if np.asarray(array).dtype == np.float32 else np.float64
