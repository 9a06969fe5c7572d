"""Log-densities and imputation of rows with missing values, under Gaussian components.

``pattern[r]`` is an integer that identifies which entries of row r are missing. Rows are visited in
``order``, in which rows of the same pattern are adjacent, so that they share one Cholesky factor.
"""

import numpy as np

from ._jit import inlined, kernel

LOG_2PI = 1.8378770664093453
TINY = 1e-300  # lower bound of the square of a pivot


@inlined
def _find_entries(row, observed, entries):
    """Write the indices of the observed or of the missing entries of a row; return their number.

    ``observed`` is True for the observed entries, False for the missing entries.
    """
    m = 0
    for i in range(row.size):
        if np.isnan(row[i]) != observed:
            entries[m] = i
            m += 1
    return m


@inlined
def _cholesky(matrix, entries, m, root):
    """Write the Cholesky factor of the submatrix whose rows and columns are in ``entries``."""
    for a in range(m):
        for b in range(a + 1):
            total = matrix[entries[a], entries[b]]
            for c in range(b):
                total -= root[a, c] * root[b, c]
            root[a, b] = total / root[b, b] if b < a else np.sqrt(max(total, TINY))


@kernel
def observed_log_densities(X, pattern, order, means, covariances, out):
    """Add the log-density of the observed entries of each row under each component.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_continuous)
        Rows, with nan for missing values.
    pattern, order : ndarray of int64 of shape (n_rows,)
        Missing-value pattern of each row, and the order in which rows are visited.
    means : ndarray of shape (n_components, n_continuous)
        Means of the components.
    covariances : ndarray of shape (n_components, n_continuous, n_continuous)
        Covariance matrices of the components.
    out : ndarray of shape (n_components, n_rows)
        Log-densities in nats, to which those of the numbers are added. Entries of -inf remain.
    """
    n = X.shape[1]
    entries, root, white = np.empty(n, np.int64), np.empty((n, n)), np.empty(n)
    for k in range(len(means)):
        last, m, log_det = -1, 0, 0.0
        for r in order:
            if out[k, r] == -np.inf:
                continue
            row = X[r]
            if pattern[r] != last:
                last, m, log_det = pattern[r], _find_entries(row, True, entries), 0.0
                _cholesky(covariances[k], entries, m, root)
                for a in range(m):
                    log_det += np.log(root[a, a])
            square = 0.0
            for a in range(m):
                total = row[entries[a]] - means[k, entries[a]]
                for b in range(a):
                    total -= root[a, b] * white[b]
                white[a] = total / root[a, a]
                square += white[a] ** 2
            out[k, r] += -0.5 * (square + m * LOG_2PI) - log_det


@kernel
def draw_missing_values(X, pattern, order, chosen, means, precisions, noise):
    r"""Draw each row's missing values from the row's component, given its observed entries.

    Let P be the precision matrix, :math:`P_{mm} = L L^\top`, and z standard normal. The draw is
    :math:`\mu_m + L^{-\top} (z - L^{-1} P_{mo} (x_o - \mu_o))`, where m marks the missing and o the
    observed entries.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_continuous)
        Rows, with nan for missing values, which are replaced in place.
    pattern, order, chosen : ndarray of int64 of shape (n_rows,)
        Missing-value pattern of each row, the order in which rows are visited, and the component
        of each row. In this order, rows with the same pattern and component are adjacent.
    means : ndarray of shape (n_components, n_continuous)
        Means of the components.
    precisions : ndarray of shape (n_components, n_continuous, n_continuous)
        Precision matrices of the components.
    noise : ndarray of shape (n_rows, n_continuous)
        Standard normal draws.
    """
    n = X.shape[1]
    entries, root, y = np.empty(n, np.int64), np.empty((n, n)), np.empty(n)
    last, component, m = -1, -1, 0
    for r in order:
        row, k = X[r], chosen[r]
        if pattern[r] != last or k != component:
            last, component, m = pattern[r], k, _find_entries(row, False, entries)
            _cholesky(precisions[k], entries, m, root)
        for a in range(m):
            total = 0.0
            for j in range(n):
                if not np.isnan(row[j]):
                    total += precisions[k, entries[a], j] * (row[j] - means[k, j])
            for b in range(a):
                total -= root[a, b] * y[b]
            y[a] = total / root[a, a]
        for a in range(m):
            y[a] = noise[r, entries[a]] - y[a]
        for a in range(m - 1, -1, -1):
            for b in range(a + 1, m):
                y[a] -= root[b, a] * y[b]
            y[a] /= root[a, a]
        for a in range(m):
            row[entries[a]] = means[k, entries[a]] + y[a]
