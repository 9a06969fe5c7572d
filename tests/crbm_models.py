"""Data and small models for the tests of CRBMStructuredPredictor."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from zoo import CONDITIONAL_LEARNERS

from skmrf import CRBMStructuredPredictor

MAX_MARGIN = "mssvm", "lssvm"
every = pytest.mark.parametrize("learner", CONDITIONAL_LEARNERS)


def quick(n_components=4, learner="mle-bp", max_iter=3, **parameters):
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


def assert_same(left, right):
    """Check that two fits are exactly equal."""
    assert left.energy_.theta.keys() == right.energy_.theta.keys()
    for name, value in left.energy_.theta.items():
        assert_array_equal(value, right.energy_.theta[name])


def assert_close(left, right, atol=1e-4):
    """Check that two fits are equal up to rounding."""
    for name, value in left.energy_.theta.items():
        assert_allclose(value, right.energy_.theta[name], atol=atol)
