"""Data and small models for the tests of RBM."""

import numpy as np
import pytest
import twins
from zoo import LAYERED_LEARNERS

from skmrf import RBM

SMALL = 50_000  # bytes, too few for an exact sum over 12 units
every = pytest.mark.parametrize("learner", LAYERED_LEARNERS)


def law(energy):
    """Return all visible states and their log-probabilities."""
    V, log_f = twins.visible_law(energy)
    return V, log_f - twins.log_sum(log_f)


def draws(energy, n_rows, seed):
    """Return exact samples of the visible units of a model."""
    V, log_p = law(energy)
    return V[np.random.default_rng(seed).choice(len(V), size=n_rows, p=np.exp(log_p))].astype(int)


def bits(n_rows=120, n_columns=12, seed=0):
    """Return noisy rows of zeros and ones; each row has one of two opposite patterns."""
    rng = np.random.default_rng(seed)
    half = np.arange(n_columns) < n_columns // 2
    X = np.where(rng.random((n_rows, 1)) < 0.5, half, ~half)
    return np.where(rng.random(X.shape) < 0.15, ~X, X).astype(int)


def quick(n_components=4, learner="pcd", max_iter=3, **parameters):
    parameters = {"alpha": 0.0, "batch_size": 50, "random_state": 0, **parameters}
    return RBM(n_components, learner, max_iter=max_iter, **parameters)


def assert_same(left, right):
    """Check that two fits are exactly equal."""
    for name in ("components_", "intercept_visible_", "intercept_hidden_"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    np.testing.assert_array_equal(left.hidden_means_, right.hidden_means_)
    np.testing.assert_array_equal(left.hidden_stds_, right.hidden_stds_)
