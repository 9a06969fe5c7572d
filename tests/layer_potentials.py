"""Weights of two layers, for the tests of messages between layers."""

import numpy as np
import pytest
import twins

PRODUCTS = ["sum", "max", "mixed"]
DTYPES = [np.float64, np.float32]

each_product = pytest.mark.parametrize("product", PRODUCTS)
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


def layers(rng, n_visible, n_hidden, n_rows=1, *, scale=1.0, field=1.0, dtype=float):
    """Return the weights and the biases of both layers."""
    weights = rng.normal(0.0, scale, size=(n_visible, n_hidden))
    visible = rng.normal(0.0, field, size=(n_rows, n_visible))
    hidden = rng.normal(0.0, field, size=(n_rows, n_hidden))
    return tuple(a.astype(dtype) for a in (weights, visible, hidden))


def log_marginals(weights, visible, hidden):
    """Return all visible states and the log of the sum of f over hidden states."""
    V, _, log_f = twins.layer_table(weights, visible, hidden)
    return V, np.array([twins.log_sum(row) for row in log_f])


def gains(scores, V, state):
    """Return the change of a state's score if one unit is flipped, for each unit."""
    number = {tuple(v): s for v, s in zip(V.astype(int).tolist(), scores, strict=True)}
    state = np.asarray(state, dtype=int)
    others = state ^ np.eye(len(state), dtype=int)
    moved = np.array([number[tuple(v)] for v in others.tolist()])
    return moved - number[tuple(state.tolist())]


def assert_finite(beliefs, dtype):
    for values in (beliefs.visible, beliefs.hidden):
        assert values.dtype == dtype
        assert np.isfinite(values).all()
    if beliefs.pairs is not None:
        assert beliefs.pairs.dtype == dtype
        assert ((beliefs.pairs >= 0) & (beliefs.pairs <= 1 + 1e-6)).all()
