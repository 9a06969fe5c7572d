"""Tests of compiled Gaussian densities of rows with gaps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skmrf._kernels.gaussians import fill_numbers, seen_log_densities

# exp overflows to inf and log takes 0 to -inf on purpose, which compiled code does not mention
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning"),
]


def gaps_and_components(seed, n=4, n_rows=30, n_components=3):
    """Rows with gaps, among them one without any entry and one without a gap; their patterns."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n_components, n, n))
    X = rng.normal(size=(n_rows, n))
    X[rng.random(X.shape) < 0.4] = np.nan
    X[0], X[1] = np.nan, 1.0
    pattern = np.isnan(X) @ 2 ** np.arange(n)
    return X, pattern, rng.normal(size=(n_components, n)), A @ A.transpose(0, 2, 1) + np.eye(n), rng


def test_densities_of_rows_with_gaps(seed):
    X, pattern, means, covariances, _ = gaps_and_components(seed)
    found = np.empty((3, len(X)))
    seen_log_densities(X, pattern, np.argsort(pattern), means, covariances, found)
    for r, row in enumerate(X):
        o = ~np.isnan(row)
        for k in range(3):
            d, C = row[o] - means[k, o], 2 * np.pi * covariances[k][np.ix_(o, o)]
            quadratic = 2 * np.pi * d @ np.linalg.solve(C, d)
            expected = -0.5 * (quadratic + np.linalg.slogdet(C)[1])
            assert_allclose(found[k, r], expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("one_pattern", [False, True])
def test_numbers_filled_in(one_pattern, seed):
    X, pattern, means, covariances, rng = gaps_and_components(seed)
    if one_pattern:
        X, pattern = rng.normal(size=X.shape), np.ones_like(pattern)
        X[:, 0] = np.nan
    chosen = rng.integers(3, size=len(X))
    filled, noise = X.copy(), rng.normal(size=X.shape)
    order, precisions = np.lexsort((pattern, chosen)), np.linalg.inv(covariances)
    fill_numbers(filled, pattern, order, chosen, means, precisions, noise)
    for r, row in enumerate(X):
        m, P, mean = np.isnan(row), precisions[chosen[r]], means[chosen[r]]
        shift = np.linalg.solve(P[np.ix_(m, m)], P[np.ix_(m, ~m)] @ (row[~m] - mean[~m]))
        root = np.linalg.cholesky(P[np.ix_(m, m)])
        expected = mean[m] - shift + np.linalg.solve(root.T, noise[r, m])
        assert_allclose(filled[r, m], expected, rtol=1e-10, atol=1e-10)
        assert_array_equal(filled[r, ~m], row[~m])
