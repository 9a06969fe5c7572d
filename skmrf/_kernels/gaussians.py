"""Gaussian components of rows with gaps: densities of what is there, draws of what is not.

Rows come in an order in which those that miss the same entries follow each other: ``pattern[r]``
tells which, and a factor is good for all of them.
"""

import numpy as np

from ._jit import inlined, kernel

LOG_2PI = 1.8378770664093453
TINY = 1e-300  # least square of a pivot


@inlined
def _places(row, seen, places):
    """Where the row has entries, or where it has none; how many there are."""
    m = 0
    for i in range(row.size):
        if np.isnan(row[i]) != seen:
            places[m] = i
            m += 1
    return m


@inlined
def _factor(matrix, places, m, root):
    """Cholesky's factor of some rows and columns of a matrix."""
    for a in range(m):
        for b in range(a + 1):
            total = matrix[places[a], places[b]]
            for c in range(b):
                total -= root[a, c] * root[b, c]
            root[a, b] = total / root[b, b] if b < a else np.sqrt(max(total, TINY))


@kernel
def seen_log_densities(X, pattern, order, means, covariances, out):
    """Log densities of the numbers that rows have, under every component.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_numbers)
        nan where an entry is missing.
    pattern, order : ndarray of int64, shape (n_rows,)
    means : ndarray of shape (n_components, n_numbers)
    covariances : ndarray of shape (n_components, n_numbers, n_numbers)
    out : ndarray of shape (n_components, n_rows)
    """
    n = X.shape[1]
    places, root, white = np.empty(n, np.int64), np.empty((n, n)), np.empty(n)
    for k in range(len(means)):
        last, m, log_det = -1, 0, 0.0
        for r in order:
            row = X[r]
            if pattern[r] != last:
                last, m, log_det = pattern[r], _places(row, True, places), 0.0
                _factor(covariances[k], places, m, root)
                for a in range(m):
                    log_det += np.log(root[a, a])
            square = 0.0
            for a in range(m):
                total = row[places[a]] - means[k, places[a]]
                for b in range(a):
                    total -= root[a, b] * white[b]
                white[a] = total / root[a, a]
                square += white[a] ** 2
            out[k, r] = -0.5 * (square + m * LOG_2PI) - log_det


@kernel
def fill_numbers(X, pattern, order, chosen, means, precisions, noise):
    r"""Draw the numbers that rows miss from the component chosen for each, given the others.

    With P the precision, :math:`P_{mm} = L L^\top` and z standard normal, they are
    :math:`\mu_m + L^{-\top} (z - L^{-1} P_{mo} (x_o - \mu_o))`.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_numbers)
        nan where an entry is missing; filled in place.
    pattern, order, chosen : ndarray of int64, shape (n_rows,)
        The order is also one of components.
    means : ndarray of shape (n_components, n_numbers)
    precisions : ndarray of shape (n_components, n_numbers, n_numbers)
    noise : ndarray of shape (n_rows, n_numbers)
        Standard normal.
    """
    n = X.shape[1]
    places, root, y = np.empty(n, np.int64), np.empty((n, n)), np.empty(n)
    last, component, m = -1, -1, 0
    for r in order:
        row, k = X[r], chosen[r]
        if pattern[r] != last or k != component:
            last, component, m = pattern[r], k, _places(row, False, places)
            _factor(precisions[k], places, m, root)
        for a in range(m):
            total = 0.0
            for j in range(n):
                if not np.isnan(row[j]):
                    total += precisions[k, places[a], j] * (row[j] - means[k, j])
            for b in range(a):
                total -= root[a, b] * y[b]
            y[a] = total / root[a, a]
        for a in range(m):
            y[a] = noise[r, places[a]] - y[a]
        for a in range(m - 1, -1, -1):
            for b in range(a + 1, m):
                y[a] -= root[b, a] * y[b]
            y[a] /= root[a, a]
        for a in range(m):
            row[places[a]] = means[k, places[a]] + y[a]
