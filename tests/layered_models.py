"""Data and small models for the tests of RBM and CRBMStructuredPredictor."""

import numpy as np
import pytest
import twins
from numpy.testing import assert_allclose, assert_array_equal
from zoo import CONDITIONAL_LEARNERS, LAYERED_LEARNERS

from skmrf import RBM, CRBMStructuredPredictor

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


MAX_MARGIN = "mssvm", "lssvm"
every_conditional = pytest.mark.parametrize("learner", CONDITIONAL_LEARNERS)


def quick_conditional(n_components=4, learner="mle-bp", max_iter=3, **parameters):
    """Return a small model; a given alpha saves its choice by held-out rows."""
    return CRBMStructuredPredictor(
        n_components, learner, max_iter=max_iter, **{"random_state": 0, "alpha": 0.01, **parameters}
    )


def some_alpha(learner):
    """Return a fixed alpha, except for one learner, whose tests also choose alpha."""
    return "auto" if learner == "lr" else 0.01


def tied(n_rows=150, n_outputs=8, seed=0):
    """Return inputs and outputs: outputs have one of two patterns, inputs are noisy copies."""
    rng = np.random.default_rng(seed)
    half = np.arange(n_outputs) < n_outputs // 2
    Y = np.where(rng.random((n_rows, 1)) < 0.5, half, ~half)
    X = np.where(rng.random(Y.shape) < 0.3, ~Y, Y)
    return X.astype(float), Y.astype(int)


def real(X, seed=0):
    """Add normal noise to binary inputs, so that they are real numbers."""
    return X + np.random.default_rng(seed).normal(0.0, 0.3, size=X.shape)


def assert_same_theta(left, right):
    """Check that two fits are exactly equal."""
    assert left.energy_.theta.keys() == right.energy_.theta.keys()
    for name, value in left.energy_.theta.items():
        assert_array_equal(value, right.energy_.theta[name])


def assert_close(left, right, atol=1e-4):
    """Check that two fits are equal up to rounding."""
    for name, value in left.energy_.theta.items():
        assert_allclose(value, right.energy_.theta[name], atol=atol)
