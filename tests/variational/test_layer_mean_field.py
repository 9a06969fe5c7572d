"""Tests of mean field in two layers."""

import numpy as np
import pytest
import twins
from layer_potentials import PRODUCTS, layers, log_marginals
from numpy.testing import assert_allclose, assert_array_equal

from skmrf.variational.bipartite import coordinate_ascent, mean_field, propagate, unit_probabilities


def bound(weights, visible, hidden, p, q):
    """Lower bound of log Z by independent units."""
    entropy = sum(-(r * np.log(r) + (1 - r) * np.log1p(-r)).sum() for r in (p, q))
    return p @ weights @ q + p @ visible + q @ hidden + entropy


def test_mean_field_equations(seed):
    weights, visible, hidden = layers(np.random.default_rng(seed), 7, 5, n_rows=20, scale=0.5)
    found = mean_field(weights, visible, hidden, max_iter=2000, tol=1e-13, pairs=True)
    p, q = (unit_probabilities(a) for a in (found.visible, found.hidden))
    assert found.converged.all()
    assert (found.n_iter < 2000).all()
    assert_allclose(found.hidden, p @ weights + hidden, rtol=0, atol=1e-10)
    assert_allclose(found.visible, q @ weights.T + visible, rtol=0, atol=1e-10)
    assert_allclose(found.pairs, p.T @ q / 20, rtol=0, atol=1e-14)


def test_mean_field_bounds_log_z_ever_better(seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        weights, visible, hidden = layers(rng, 5, 4, scale=1.5)
        _, scores = log_marginals(weights, visible[0], hidden[0])
        values = []
        for n_iter in range(1, 12):
            found = mean_field(weights, visible, hidden, max_iter=n_iter, tol=-1.0)
            p, q = (unit_probabilities(a)[0] for a in (found.visible, found.hidden))
            values.append(bound(weights, visible[0], hidden[0], p, q))
        assert (np.diff(values) >= -1e-10).all()
        assert values[-1] < twins.log_sum(scores)


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_rows_of_mean_field_stop_alone(tol, seed):
    weights, visible, hidden = layers(np.random.default_rng(seed), 7, 5, n_rows=40, scale=1.5)
    found = mean_field(weights, visible, hidden, max_iter=15, tol=tol)
    assert len(np.unique(found.n_iter)) > 1
    assert_array_equal(found.converged | (found.n_iter == 15), True)
    for k in range(40):
        row = mean_field(weights, visible[k : k + 1], hidden[k : k + 1], max_iter=15, tol=tol)
        assert found.n_iter[k] == row.n_iter[0]
        assert found.converged[k] == row.converged[0]
        assert_allclose(found.visible[k], row.visible[0], rtol=1e-12, atol=1e-12)
        assert_allclose(found.hidden[k], row.hidden[0], rtol=1e-12, atol=1e-12)


def test_without_hidden_units_all_are_alone(seed):
    arrays = layers(np.random.default_rng(seed), 4, 0, n_rows=3)
    for found in (
        *(propagate(*arrays, product=p) for p in PRODUCTS),
        mean_field(*arrays),
        coordinate_ascent(*arrays, np.ones((3, 4))),
    ):
        assert_array_equal(found.visible, arrays[1])
        assert found.hidden.shape == (3, 0)
        assert found.converged.all()
