"""Conversion to dense rows, unique rows, and the floating-point type of rows."""

import numpy as np
from scipy.sparse import issparse


def dense_rows(X):
    """Return the rows as a dense array."""
    return X.toarray() if issparse(X) else X


def find_unique_rows(rows):
    """Return the first index of each unique row, and the inverse index of each row."""
    if rows.shape[1] == 0:
        return np.zeros(min(len(rows), 1), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    rows = np.ascontiguousarray(rows)
    view = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first_index, inverse = np.unique(view, return_index=True, return_inverse=True)
    return first_index, inverse


def float_type(array):
    """Return float32 if the array has the dtype float32, otherwise float64."""
    return np.float32 if np.asarray(array).dtype == np.float32 else np.float64
