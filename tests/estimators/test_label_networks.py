"""Tests of NeuralLabels: probabilities, gradients and initial values."""

import numpy as np
import pytest
from labelled_rows import CASES, labelled
from numpy.testing import assert_allclose, assert_array_equal

from skmrf.energies import NeuralEnergy
from skmrf.energies.neural_labels import NeuralLabels
from skmrf.training.loop import run_with_objective
from skmrf.training.penalties import L2
from skmrf.training.solvers import make_solver

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

each_case = pytest.mark.parametrize("case", CASES)


def network(row, layers, inputs):
    """Return the scale times the hyperbolic tangent of a dense network of SELU units."""
    values, at = inputs, 0
    for width in (*layers, 1):
        if at:
            values = 1.0507009873554805 * np.where(
                values > 0, values, 1.6732632423543772 * np.expm1(values)
            )
        size = values.shape[1] * width
        values = values @ row[at : at + size].reshape(-1, width) + row[at + size :][:width]
        at += size + width
    return row[at] * np.tanh(values[:, 0])


def inputs_of(X, n_states, variables):
    """Return the inputs of a network: numbers in the first slot, states one-hot."""
    slots = max(1, *n_states)
    out = np.zeros((len(X), len(variables), slots))
    for k, i in enumerate(variables):
        if n_states[i]:
            out[np.arange(len(X)), k, X[:, i].astype(int)] = 1.0
        else:
            out[:, k, 0] = X[:, i]
    return out.reshape(len(X), -1)


@each_case
def test_probabilities_are_those_of_the_formula(case, seed):
    model, X, _ = labelled(case, seed)
    n_states, edges = CASES[case]
    cliques = {"nodes": [(i,) for i in range(len(n_states))], "edges": edges}
    scores = np.tile(model.theta["labels"], (len(X), 1))
    for kind, layers in (("nodes", (3, 2)), ("edges", (4,))):
        for y in range(3):
            for k, clique in enumerate(cliques[kind]):
                row = model.theta[kind][y * len(cliques[kind]) + k]
                part = network(row, layers, inputs_of(X, n_states, clique))
                scores[:, y] += 2.0 / np.sqrt(len(n_states) + len(edges)) * part
    expected = np.exp(scores)
    expected /= expected.sum(axis=1, keepdims=True)
    found = np.exp(model.log_proba(X))
    assert found.shape == (len(X), 3)
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    assert_allclose(found, expected, rtol=1e-9)
    assert np.ptp(found, axis=0).max() > 0.01  # networks change the result


@each_case
def test_gradient_by_differences(case, seed):
    model, X, y = labelled(case, seed)
    weights = np.random.default_rng(seed).exponential(size=len(X))
    value, gradient = model.objective(X, y, weights)
    assert value == pytest.approx(weights @ model.log_proba(X)[np.arange(len(X)), y], rel=1e-12)
    for name, array in model.theta.items():
        expected = np.zeros(array.shape)
        for place in np.ndindex(array.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = array.copy()
                moved[place] += step
                ends.append(model.with_theta(model.theta | {name: moved}).objective(X, y, weights))
            expected[place] = (ends[0][0] - ends[1][0]) / 2e-6
        assert_allclose(gradient[name], expected, rtol=1e-5, atol=1e-6)


def test_weights_equal_repeated_rows(seed):
    model, X, y = labelled("mixed", seed)
    counts = np.random.default_rng(seed).integers(0, 4, len(X))
    value, gradient = model.objective(X, y, counts.astype(float))
    again = np.repeat(np.arange(len(X)), counts)
    expected, slopes = model.objective(X[again], y[again], np.ones(len(again)))
    assert value == pytest.approx(expected, rel=1e-10)
    for name, slope in slopes.items():
        assert_allclose(gradient[name], slope, rtol=1e-8, atol=1e-10)


def test_penalised_optimum(seed):
    """SELU units have kinks at which an optimum may lie, so a few slopes are not zero."""
    model, X, y = labelled("mixed", seed, n=60)
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(X)))
    penalty = L2(0.02, model.penalty_groups())
    solver = make_solver(penalty, tol=1e-7)

    def objective(energy):
        return energy.objective(X, y, weights)

    found, state = model, run_with_objective(solver.start(model), objective)
    while not state.is_done:
        found, state = run_with_objective(solver.step(found, state), objective)
    assert state.converged

    def value(energy):
        return energy.objective(X, y, weights)[0] - penalty.value(energy.theta)

    def slope(energy):
        gradient, pull = energy.objective(X, y, weights)[1], penalty.gradient(energy.theta)
        return np.concatenate([(gradient[k] - pull[k]).ravel() for k in gradient])

    assert np.median(np.abs(slope(found))) < 1e-4
    assert np.linalg.norm(slope(found)) < 0.1 * np.linalg.norm(slope(model))
    best, rng = value(found), np.random.default_rng(seed)
    for size in np.repeat([1e-3, 1e-2, 1e-1], 50):
        step = {k: size * rng.normal(size=v.shape) for k, v in found.theta.items()}
        assert value(found.with_theta({k: v + step[k] for k, v in found.theta.items()})) < best
    assert not penalty.gradient(found.theta)["labels"].any()
    shares = np.bincount(y, weights, minlength=3)  # biases are not penalised, so shares match
    assert_allclose(weights @ np.exp(found.log_proba(X)), shares, atol=2e-3)


def test_initial_networks(seed):
    networks = labelled("mixed", seed)[0].networks
    model = NeuralLabels.random(networks, 4, random_state=seed)
    assert model.n_labels == 4
    assert model.gain == pytest.approx(1 / np.sqrt(4 + 3))
    assert_array_equal(model.theta["labels"], 0.0)
    stacks = model.theta["nodes"].reshape(4, 4, -1)
    assert (stacks[0] != stacks[1]).any()
    again = NeuralLabels.random(networks, 4, random_state=seed)
    for name, array in model.theta.items():
        assert_array_equal(again.theta[name], array)
    assert "n_labels=4" in repr(model)
    assert model.log_proba(np.zeros((0, 4))).shape == (0, 4)


@each_case
def test_factors_of_initial_networks(case, seed):
    n_states, edges = CASES[case]
    networks = NeuralEnergy.random(n_states, edges, node_layers=(3, 2), edge_layers=(4,))
    plain = NeuralLabels.random(networks, 2, random_state=seed)
    scaled = NeuralLabels.random(networks, 2, inner=3.0, outer=10.0, random_state=seed)
    slots = max(1, *n_states)
    for kind, n_inputs, first, last in (("nodes", slots, 3, 2), ("edges", 2 * slots, 4, 4)):
        expected = plain.theta[kind].copy()
        expected[:, : (n_inputs + 1) * first] *= 3.0
        expected[:, expected.shape[1] - 2 - last : -2] *= (
            10.0  # weights of the last layer; a bias and a scale follow
        )
        assert_allclose(scaled.theta[kind], expected, rtol=1e-12)
