"""Rows, weights and enumerated moments of two layers."""

import numpy as np
import pytest
import twins
from zoo import LAYERED, enumerate_states

from skmrf._utils.codes import STATE

every = pytest.mark.parametrize("name", LAYERED)


def tolerance(energy):
    """Of sums of some ten terms."""
    single = energy.weights.dtype == np.float32
    return {"rtol": 2e-6, "atol": 4e-6} if single else {"rtol": 1e-13, "atol": 1e-12}


def split(energy, X):
    n = len(energy.visible_bias)
    return X[:, :n], X[:, n:]


def visible_states(energy):
    return twins.visible_law(energy)[0]


def posterior(energy, v):
    """All hidden states and their probabilities given one visible state."""
    X, log_f = enumerate_states(energy)
    V, H = split(energy, X)
    agree = (v == V).all(axis=1)
    return H[agree], np.exp(log_f[agree] - twins.log_sum(log_f[agree]))


def shares(log_weights):
    return np.exp(log_weights - twins.log_sum(log_weights))


def rows_of(energy, n_rows, seed):
    rng = np.random.default_rng(seed)
    n = len(energy.visible_bias)
    return rng.integers(0, 2, size=(n_rows, n)).astype(STATE), rng.normal(0.0, 2.0, size=n_rows)
