"""Scores of labels from sparse features, and the sums that are their gradients."""

import numpy as np

from ._jit import kernel


@kernel
def add_scores(first, last, ptr, columns, values, weights, out):
    """Add ``X @ weights`` to the rows ``first .. last`` of ``out``, for a CSR matrix X."""
    n = weights.shape[1]
    row = np.empty(n)
    for i in range(first, last):
        row[:] = out[i]
        for k in range(ptr[i], ptr[i + 1]):
            j, x = columns[k], values[k]
            for b in range(n):
                row[b] += x * weights[j, b]
        out[i] = row


@kernel
def add_products(first, last, ptr, columns, values, residuals, out):
    """Add ``X.T @ residuals`` of the rows ``first .. last`` of a CSR matrix X to ``out``."""
    n = out.shape[1]
    row = np.empty(n)
    for i in range(first, last):
        row[:] = residuals[i]
        for k in range(ptr[i], ptr[i + 1]):
            j, x = columns[k], values[k]
            for b in range(n):
                out[j, b] += x * row[b]


@kernel
def add_observed_scores(first, last, ptr, columns, values, pair_ptr, pair_labels, weights, out):
    """Add the scores of observed pairs of a feature and a label.

    Feature j has the weights ``pair_ptr[j] .. pair_ptr[j + 1]``, one for each of its labels.
    """
    row = np.empty(out.shape[1])
    for i in range(first, last):
        row[:] = out[i]
        for k in range(ptr[i], ptr[i + 1]):
            j, x = columns[k], values[k]
            start, end = pair_ptr[j], pair_ptr[j + 1]
            if end - start == row.size:
                for b in range(row.size):
                    row[b] += x * weights[start + b]
                continue
            for q in range(start, end):
                row[pair_labels[q]] += x * weights[q]
        out[i] = row


@kernel
def add_observed_products(
    first, last, ptr, columns, values, pair_ptr, pair_labels, residuals, out
):  # fmt: skip
    """Add the gradient by the weights of observed pairs of a feature and a label."""
    row = np.empty(residuals.shape[1])
    for i in range(first, last):
        row[:] = residuals[i]
        for k in range(ptr[i], ptr[i + 1]):
            j, x = columns[k], values[k]
            start, end = pair_ptr[j], pair_ptr[j + 1]
            if end - start == row.size:
                for b in range(row.size):
                    out[start + b] += x * row[b]
                continue
            for q in range(start, end):
                out[q] += x * row[pair_labels[q]]
