"""Tests of the compiled steps of Adam."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skmrf._kernels.ascent import adam_sizes, adam_step

# exp overflows to inf and log takes 0 to -inf on purpose, which compiled code does not mention
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning"),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adam(dtype, seed):
    """Steps of the textbook: Kingma and Ba (2015), Algorithm 1."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=20).astype(dtype)
    mean, square = np.zeros(20, dtype), np.zeros(20, dtype)
    expected, m, v = theta.astype(float), np.zeros(20), np.zeros(20)
    b1, b2, rate, epsilon = 0.9, 0.999, 0.01, 1e-8
    for t in range(1, 30):
        g = rng.normal(size=20).astype(dtype)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g.astype(float) ** 2
        m_hat, v_hat = m / (1 - b1**t), v / (1 - b2**t)
        expected = expected + rate * m_hat / (np.sqrt(v_hat) + epsilon)
        corrections = 1 / (1 - b1**t), 1 / np.sqrt(1 - b2**t)
        out, sizes, again = np.empty((3, 20), dtype)
        adam_step(theta, g, mean, square, (b1, b2), corrections, rate, epsilon, out, sizes)
        adam_sizes(square, rate, corrections[1], epsilon, again)
        assert_array_equal(again, sizes)
        within = {"rtol": 1e-12} if dtype == np.float64 else {"rtol": 2e-4}
        assert_allclose(sizes, rate / (np.sqrt(v_hat) + epsilon), **within)
        assert_allclose(mean, m, rtol=within["rtol"], atol=1e-6 if dtype == np.float32 else 0)
        assert_allclose(square, v, **within)
        assert_allclose(out, expected, rtol=0, atol=1e-12 if dtype == np.float64 else 1e-5)
        theta = out
