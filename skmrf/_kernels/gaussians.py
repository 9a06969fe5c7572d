"""Log-densities and imputation of rows with missing values, under Gaussian components.

``pattern[r]`` is an integer that identifies which entries of row r are missing. Rows are visited in
``order``, in which rows of the same pattern are adjacent, so that they share one Cholesky factor.
"""

import math

import numpy as np

from ._jit import inlined, kernel, subkernel

LOG_2PI = 1.8378770664093453
TWO_PI, ROOT_HALF = 2.0 * np.pi, np.sqrt(0.5)
FAR_CELL = 30.0  # standard deviations; the probability of a farther cell is a series
SMALL_MASS, LARGE_PRODUCT = 1e-40, 1e100  # so that products of factors are finite
FINE = 0.25  # squared width of a cell, relative to the variance, whose density is about normal
MIN_VARIANCE = 0.01  # of a number in a cell, relative to the variance of its rounding error
MIN_PATTERNS, MIN_COLUMNS = 16, 32  # with at least both, the covariance of all columns is inverted
MIN_PIVOT = 1e-10  # of a covariance matrix that is inverted, relative to the largest variance
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


@inlined
def _invert(root, inverse, precision):
    """Write the inverse of a Cholesky factor, and the inverse of its product with its transpose."""
    n = len(root)
    for i in range(n):
        for j in range(n):
            inverse[i, j], precision[i, j] = 0.0, 0.0
        for k in range(i):
            factor = root[i, k]
            for j in range(k + 1):
                inverse[i, j] -= factor * inverse[k, j]
        for j in range(i):
            inverse[i, j] /= root[i, i]
        inverse[i, i] = 1.0 / root[i, i]
    for i in range(n):
        for a in range(i + 1):
            factor = inverse[i, a]
            for b in range(i + 1):
                precision[a, b] += factor * inverse[i, b]


@inlined
def _impute_deviations(root, precision, entries, m, y, deviations):
    """Replace the missing deviations of a row, which are 0, by their conditional means.

    ``root`` is the Cholesky factor of the precision matrix of the m missing entries.
    """
    for a in range(m):
        total = 0.0
        for j in range(deviations.size):
            total -= precision[entries[a], j] * deviations[j]
        for b in range(a):
            total -= root[a, b] * y[b]
        y[a] = total / root[a, a]
    for a in range(m - 1, -1, -1):
        y[a] /= root[a, a]
        for b in range(a):
            y[b] -= root[a, b] * y[a]
    for a in range(m):
        deviations[entries[a]] = y[a]


@kernel
def add_by_precisions(X, pattern, order, mean, covariance, out):
    r"""Add the log-densities of rows with few missing entries under one component.

    With the precision matrix P and missing entries m, the determinant of the covariance of the
    observed entries is :math:`|\Sigma| |P_{mm}|`, and the squared distance of a row is that of the
    row with conditional means for its missing entries. Rows with at least as many missing as
    observed entries are left out.

    Returns False, and adds nothing, if the covariance matrix has no accurate inverse.
    """
    n = X.shape[1]
    entries, root, y = np.arange(n), np.empty((n, n)), np.empty(n)
    _cholesky(covariance, entries, n, root)
    smallest, largest, total_log = np.inf, 0.0, 0.0
    for a in range(n):
        smallest, largest = min(smallest, root[a, a] ** 2), max(largest, covariance[a, a])
        total_log += np.log(root[a, a])
    if smallest < MIN_PIVOT * largest:
        return False
    inverse, precision, deviations = np.empty((n, n)), np.empty((n, n)), np.empty(n)
    _invert(root, inverse, precision)
    last, m, log_det = -1, 0, 0.0
    for r in order:
        row = X[r]
        if pattern[r] != last:
            last, m, log_det = pattern[r], _find_entries(row, False, entries), total_log
            if 2 * m < n:
                _cholesky(precision, entries, m, root)
            for a in range(m if 2 * m < n else 0):
                log_det += np.log(root[a, a])
        if 2 * m >= n or out[r] == -np.inf:
            continue
        for j in range(n):
            deviations[j] = 0.0 if np.isnan(row[j]) else row[j] - mean[j]
        _impute_deviations(root, precision, entries, m, y, deviations)
        square = 0.0
        for i in range(n):
            total = 0.0
            for j in range(i + 1):
                total += inverse[i, j] * deviations[j]
            square += total**2
        out[r] += -0.5 * (square + (n - m) * LOG_2PI) - log_det
    return True


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
    has_many = n >= MIN_COLUMNS and pattern.size > 0 and pattern.max() + 1 >= MIN_PATTERNS
    for k in range(len(means)):
        done = has_many and add_by_precisions(X, pattern, order, means[k], covariances[k], out[k])
        last, m, log_det, is_added = -1, 0, 0.0, False
        for r in order:
            if out[k, r] == -np.inf:
                continue
            row = X[r]
            if pattern[r] != last:
                last, m, log_det = pattern[r], _find_entries(row, True, entries), 0.0
                is_added = done and 2 * m > n
                if not is_added:
                    _cholesky(covariances[k], entries, m, root)
                    for a in range(m):
                        log_det += np.log(root[a, a])
            if is_added:
                continue
            square = 0.0
            for a in range(m):
                total = row[entries[a]] - means[k, entries[a]]
                for b in range(a):
                    total -= root[a, b] * white[b]
                white[a] = total / root[a, a]
                square += white[a] ** 2
            out[k, r] += -0.5 * (square + m * LOG_2PI) - log_det


@subkernel
def _mass(low, high):
    """Return the probability of an interval under a standard normal distribution."""
    if low > 0.0:  # the difference of shares near 1 is inaccurate
        low, high = -high, -low
    return 0.5 * (math.erfc(-high * ROOT_HALF) - math.erfc(-low * ROOT_HALF))


@subkernel
def _log_mass(low, high):
    """Return the log-probability of an interval that is far from 0."""
    if low > 0.0:
        low, high = -high, -low
    if high > -FAR_CELL:
        return np.log(max(_mass(low, high), TINY))
    return -0.5 * (high**2 + LOG_2PI) - np.log(-high) - 1.0 / high**2  # the other end is farther


@subkernel
def _find_cell_density(deviation, variance, low, high, width):
    """Return the exponent and the factor of the mean density of the cell of a number.

    The mean density is ``exp(-exponent / 2) / sqrt(factor)``. ``low`` and ``high`` are the ends of
    the cell, relative to the conditional mean, and ``width`` is its width. It is nan for a number
    without a cell.
    """
    squared_width = (high - low) ** 2
    if np.isnan(width) or squared_width <= FINE * variance:
        variance += 0.0 if np.isnan(width) else squared_width / 12.0
        return deviation**2 / variance, TWO_PI * variance
    scale = 1.0 / np.sqrt(variance)
    mass = _mass(low * scale, high * scale)
    if mass > SMALL_MASS:
        return 0.0, (width / mass) ** 2
    return -2.0 * _log_mass(low * scale, high * scale), width**2


@subkernel
def _mass_outside(ends, center, variance):
    """Return the probability that a number is not in the cells of point masses.

    ``ends`` are the ends of these cells, shape (n_spikes, 2), with nan if there are fewer.
    """
    scale, total = 1.0 / np.sqrt(variance), 1.0
    for s in range(len(ends)):
        if ends[s, 0] < ends[s, 1]:
            total -= _mass((ends[s, 0] - center) * scale, (ends[s, 1] - center) * scale)
    return total


@kernel
def cell_log_densities(
    X, pattern, order, means, factors, covariance, low, high, widths, noise, spikes, out
):
    r"""Find the log-density of the observed entries of each row, averaged over cells of rounding.

    The density is a product of conditional densities of each number given the numbers before it.
    A covariance includes the variances of the rounding errors, so the conditional mean is that
    given rounded numbers. The variance of a number before rounding is smaller than the conditional
    variance by that of its rounding error. Its probability in the cell is divided by the width.

    Parameters
    ----------
    X, pattern, order : ndarray
        As in :func:`observed_log_densities`.
    means : ndarray of shape (n_components, n_continuous)
        Means of components with proportional covariances.
    factors, covariance : ndarray
        Factors of the covariance of each component, shape (n_components,), and the covariance.
    low, high, widths : ndarray of shape (n_rows, n_continuous)
        Ends of the cells of rounded numbers, and their widths. They are nan for other numbers.
    noise : ndarray of shape (n_continuous,)
        Variances of the rounding errors.
    spikes : ndarray of shape (n_continuous, n_spikes, 2)
        Ends of the cells of point masses, which contain no other numbers; nan if there are fewer.
    out : ndarray of shape (n_components, n_rows)
        The log-densities in nats are written here.
    """
    n, last, m = X.shape[1], -1, 0
    entries, root, white = np.empty(n, np.int64), np.empty((n, n)), np.empty(n)
    for r in order:
        if pattern[r] != last:
            last, m = pattern[r], _find_entries(X[r], True, entries)
            _cholesky(covariance, entries, m, root)
        for k in range(len(means)):
            total, product = 0.0, 1.0
            for a in range(m):
                i, center = entries[a], means[k, entries[a]]
                for b in range(a):
                    center += root[a, b] * white[b]
                deviation, width = X[r, i] - center, widths[r, i]
                white[a] = deviation / root[a, a]
                variance = factors[k] * root[a, a] ** 2
                if not np.isnan(width):
                    variance = max(variance - noise[i], MIN_VARIANCE * noise[i])
                exponent, factor = _find_cell_density(
                    deviation, variance, low[r, i] - center, high[r, i] - center, width
                )
                total, product = total + exponent, product * factor
                if spikes[i, 0, 0] < spikes[i, 0, 1] and not np.isnan(width):
                    mass = width * np.exp(-0.5 * exponent) / np.sqrt(factor)
                    outside = max(_mass_outside(spikes[i], center, variance), mass, SMALL_MASS)
                    product *= min(outside, 1.0) ** 2
                if product < 1.0 / LARGE_PRODUCT or product > LARGE_PRODUCT:
                    total, product = total + np.log(product), 1.0
            out[k, r] = -0.5 * (total + np.log(product))


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


@kernel
def find_regressions(masks, chosen, precisions, coefficients, variances):
    """Find the regression of each missing number on the missing numbers before it.

    Rows of ``masks`` have nan for missing numbers, and a component in ``chosen``. Coefficients of
    shape (n_masks, n_continuous, n_continuous), which are zeros before, and conditional variances
    of shape (n_masks, n_continuous) are written. They are those given the observed numbers.
    """
    n = masks.shape[1]
    entries, root = np.empty(n, np.int64), np.empty((n, n))
    for g in range(len(masks)):
        m = _find_entries(masks[g], False, entries)
        entries[:m] = entries[:m][::-1].copy()  # a factor of a precision has those after a number
        _cholesky(precisions[chosen[g]], entries, m, root)
        for a in range(m):
            variances[g, entries[a]] = 1.0 / root[a, a] ** 2
            for b in range(a + 1, m):
                coefficients[g, entries[a], entries[b]] = -root[b, a] / root[a, a]


@kernel
def predict_number(j, rows, group, coefficients, deviations, out):
    """Write the conditional mean of deviation j of some rows, given the deviations before it."""
    for i, r in enumerate(rows):
        out[i] = 0.0
        for b in range(j):
            out[i] += coefficients[group[i], j, b] * deviations[r, b]


@inlined
def _factorise_block(matrix, entries, m, root):
    """Write the upper Cholesky factor of the submatrix whose rows and columns are in ``entries``.

    It subtracts contiguous rows, which is faster in a large block than products of columns.
    """
    for a in range(m):
        for b in range(a, m):
            root[a, b] = matrix[entries[a], entries[b]]
    for a in range(m):
        pivot = np.sqrt(max(root[a, a], TINY))
        for b in range(a, m):
            root[a, b] /= pivot
        for c in range(a + 1, m):
            factor = root[a, c]
            for b in range(c, m):
                root[c, b] -= factor * root[a, b]


@inlined
def _invert_block(root, m, inverse, block):
    """Write the lower triangle of the inverse of a block, given its upper Cholesky factor."""
    for c in range(m):
        for b in range(c):
            inverse[c, b] = 0.0
        inverse[c, c] = 1.0 / root[c, c]
        for k in range(c):
            factor = root[k, c] * inverse[c, c]
            for b in range(k + 1):
                inverse[c, b] -= factor * inverse[k, b]
    for a in range(m):
        for b in range(a + 1):
            block[a, b] = 0.0
    for c in range(m):
        for a in range(c + 1):
            factor = inverse[c, a]
            for b in range(a + 1):
                block[a, b] += factor * inverse[c, b]


@kernel
def complete_deviations(masks, pattern, order, precision, products, deviations, squares, log_dets):
    r"""Replace the deviations of missing numbers from the mean by their conditional means.

    Let P be the precision matrix, and d the deviations, which are 0 for the missing entries m. The
    conditional mean of the missing deviations is :math:`-P_{mm}^{-1} (P d)_m`. The squared distance
    of the observed entries is :math:`d^\top P d - (P d)_m^\top P_{mm}^{-1} (P d)_m`, and the
    determinant of their covariance is :math:`|P_{mm}| / |P|`.

    Parameters
    ----------
    masks : ndarray of shape (n_patterns, n_numbers)
        Missing-value patterns: nan for missing numbers.
    pattern, order : ndarray of int64 of shape (n_rows,)
        Missing-value pattern of each row, and the order in which rows are visited.
    precision : ndarray of shape (n_numbers, n_numbers)
        Precision matrix.
    products : ndarray of shape (n_rows, n_numbers)
        Products of the precision matrix and the deviations, P d.
    deviations : ndarray of shape (n_rows, n_numbers)
        Deviations d, which are replaced in place where numbers are missing.
    squares : ndarray of shape (n_rows,)
        Squares d' P d, which are replaced by the squared distances.
    log_dets : ndarray of shape (n_rows,)
        Half of the log-determinants of P_mm are written here.
    """
    n = masks.shape[1]
    entries, root, y = np.empty(n, np.int64), np.empty((n, n)), np.empty(n)
    last, m, log_det = -1, 0, 0.0
    for r in order:
        if pattern[r] != last:
            last, m, log_det = pattern[r], _find_entries(masks[pattern[r]], False, entries), 0.0
            _factorise_block(precision, entries, m, root)
            for a in range(m):
                log_det += np.log(root[a, a])
        log_dets[r] = log_det
        for a in range(m):
            y[a] = products[r, entries[a]]
        for a in range(m):
            y[a] /= root[a, a]
            squares[r] -= y[a] ** 2
            for b in range(a + 1, m):
                y[b] -= root[a, b] * y[a]
        for a in range(m - 1, -1, -1):
            total = y[a]
            for b in range(a + 1, m):
                total -= root[a, b] * y[b]
            y[a] = total / root[a, a]
            deviations[r, entries[a]] = -y[a]


@kernel
def sum_conditional_covariances(masks, precision, weights, variances, out):
    """Sum the weighted covariances of missing numbers given the observed numbers of their rows.

    Parameters
    ----------
    masks : ndarray of shape (n_patterns, n_numbers)
        Missing-value patterns: nan for missing numbers.
    precision : ndarray of shape (n_numbers, n_numbers)
        Precision matrix.
    weights : ndarray of shape (n_sums, n_patterns)
        Weights of the rows of each pattern. A pattern whose weights are all 0 is left out.
    variances : ndarray of shape (n_patterns, n_numbers)
        Conditional variances of the missing numbers are written here.
    out : ndarray of shape (n_sums, n_numbers, n_numbers)
        Zeros, to which the weighted covariances are added.
    """
    n = masks.shape[1]
    entries, root = np.empty(n, np.int64), np.empty((n, n))
    inverse, block = np.empty((n, n)), np.empty((n, n))
    for r in range(len(masks)):
        total = 0.0
        for k in range(len(weights)):
            total += weights[k, r]
        if total == 0.0:
            continue
        m = _find_entries(masks[r], False, entries)
        _factorise_block(precision, entries, m, root)
        _invert_block(root, m, inverse, block)
        for a in range(m):
            variances[r, entries[a]] = block[a, a]
        for k in range(len(weights)):
            for a in range(m if weights[k, r] > 0.0 else 0):
                for b in range(a + 1):
                    out[k, entries[a], entries[b]] += weights[k, r] * block[a, b]
    for k in range(len(weights)):
        for i in range(n):
            for j in range(i):
                out[k, j, i] = out[k, i, j]
