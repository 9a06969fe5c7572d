"""Tests of moments and gradients of the energy of two layers."""

import numpy as np
import pytest
import twins
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from two_layers import every, posterior, rows_of, shares, tolerance, visible_states
from zoo import LAYERED, layers

from skmrf._utils.codes import STATE
from skmrf._utils.phases import CliqueMoments, States
from skmrf.energies.bipartite import CHUNK


def statistics(energy, V, H, weights):
    """Weighted sums of products, in plain loops."""
    out = {k: np.zeros(a.shape) for k, a in energy.theta.items()}
    for v, h, w in zip(V, H, weights, strict=True):
        out["weights"] += w * np.outer(v, h)
        out["visible_bias"] += w * np.asarray(v, dtype=float)
        out["hidden_bias"] += w * np.asarray(h, dtype=float)
    return out


def averaged(energy, V, weights):
    """Statistics with hidden units averaged over their states given each row."""
    total = {k: np.zeros(a.shape) for k, a in energy.theta.items()}
    for v, w in zip(V, weights, strict=True):
        H, p = posterior(energy, v)
        part = statistics(energy, np.repeat(v[None], len(H), axis=0), H, w * p)
        total = {k: total[k] + part[k] for k in total}
    return total


def assert_same(left, right, **within):
    assert left.keys() == right.keys()
    for key in left:
        assert left[key].shape == right[key].shape
        assert_allclose(left[key], right[key], err_msg=key, **within)


@every
def test_moments_average_the_hidden_units(name, seed):
    energy = LAYERED[name](seed)
    V, log_weights = rows_of(energy, 12, seed)
    expected = averaged(energy, V, np.full(12, 1 / 12))
    assert_same(energy.moments(States(V)), expected, **tolerance(energy))
    expected = averaged(energy, V, shares(log_weights))
    found = energy.moments(States(V, None, log_weights + 500.0))
    assert_same(found, expected, **tolerance(energy))
    assert_same(energy.moments(CliqueMoments(expected)), expected, rtol=0, atol=0)


@every
def test_moments_of_given_hidden_units(name, seed):
    energy = LAYERED[name](seed)
    V, log_weights = rows_of(energy, 12, seed)
    H = np.random.default_rng(seed).integers(0, 2, size=(12, len(energy.hidden_bias)))
    expected = statistics(energy, V, H, shares(log_weights))
    assert_same(energy.moments(States(V, H, log_weights)), expected, **tolerance(energy))


@every
@pytest.mark.parametrize("numbers", [(3, 40), (40, 3), (CHUNK + 7, 5)])
def test_each_phase_by_its_own_weights(name, numbers, seed):
    """Phases of very unequal numbers of rows and total weights, in one product or in chunks."""
    energy = LAYERED[name](seed)
    (V, up), (Y, down) = (rows_of(energy, n, seed + n) for n in numbers)
    positive, negative = States(V, None, up + 300.0), States(Y, None, down - 300.0)
    first, second = energy.moments(positive), energy.moments(negative)
    expected = {k: first[k] - second[k] for k in first}
    within = {**tolerance(energy), "rtol": 0}
    assert_same(energy.gradient(positive, negative), expected, **within)
    assert_same(energy.gradient(CliqueMoments(first), negative), expected, **within)
    assert_same(energy.gradient(positive, CliqueMoments(second)), expected, **within)
    small = min((V, up), (Y, down), key=lambda rows: len(rows[0]))
    twin = averaged(energy, small[0], shares(small[1]))
    assert_same(energy.moments(States(small[0], None, small[1])), twin, **tolerance(energy))


@every
def test_rows_beyond_one_chunk(name, seed):
    energy = LAYERED[name](seed)
    V, log_weights = rows_of(energy, 2 * CHUNK + 5, seed)
    states, which = np.unique(V, axis=0, return_inverse=True)
    weights = np.bincount(which.ravel(), shares(log_weights))
    found = energy.moments(States(V, None, log_weights))
    assert_same(found, averaged(energy, states, weights), rtol=0, atol=1e-5)
    each = energy.free_energy(states)[which.ravel()]
    assert_allclose(energy.free_energy(V), each, **tolerance(energy))


@every
def test_sparse_rows(name, seed):
    """CSR rows give what dense ones do, in every type of numbers."""
    energy = LAYERED[name](seed)
    V, log_weights = rows_of(energy, CHUNK + 40, seed)
    for dtype in (np.float64, np.float32, STATE, np.uint8):
        rows = csr_matrix(V.astype(dtype))
        assert_array_equal(energy.free_energy(rows), energy.free_energy(V))
        assert_array_equal(energy.hidden_means(rows), energy.hidden_means(V))
        phase = States(rows, None, log_weights)
        both = [energy.moments(p) for p in (phase, States(V, None, log_weights))]
        assert_same(*both, rtol=0, atol=1e-7)
        few, other = States(rows[:30], None, log_weights[:30]), States(V[:7])
        dense = energy.gradient(States(V[:30], None, log_weights[:30]), other)
        assert_same(energy.gradient(few, other), dense, rtol=0, atol=1e-7)


@every
def test_rows_without_weight_count_nothing(name, seed):
    energy = LAYERED[name](seed)
    V, _ = rows_of(energy, 5, seed)
    for phase in (States(V, None, np.full(5, -np.inf)), States(V[:0])):
        assert not any(m.any() for m in energy.moments(phase).values())
    weightless = States(V, None, np.array([0.0, -np.inf, -np.inf, 0.0, -np.inf]))
    assert_same(energy.moments(weightless), energy.moments(States(V[[0, 3]])), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in LAYERED if n != "single_precision"])
def test_gradient_is_that_of_the_log_likelihood(name, seed):
    energy = LAYERED[name](seed)
    V, log_weights = rows_of(energy, 10, seed)
    states = visible_states(energy)

    def log_likelihood(model):
        total = twins.log_sum(twins.visible_law(model)[1])
        return shares(log_weights) @ model.log_marginal(V) - total

    model = States(states, None, energy.log_marginal(states))
    gradient = energy.gradient(States(V, None, log_weights), model)
    for key, values in gradient.items():
        for entry in np.ndindex(values.shape):
            sides = []
            for step in (1e-4, -1e-4):
                theta = {k: a.copy() for k, a in energy.theta.items()}
                theta[key][entry] += step
                sides.append(log_likelihood(energy.with_theta(theta)))
            expected = (sides[0] - sides[1]) / 2e-4
            assert_allclose(values[entry], expected, rtol=0, atol=1e-7)


def test_gradient_vanishes_at_the_model(seed):
    energy = layers(4, 3, seed)
    V = visible_states(energy)
    model = States(V, None, energy.log_marginal(V))
    for values in energy.gradient(model, model).values():
        assert_allclose(values, 0.0, rtol=0, atol=1e-15)
