"""Tests of NeuralEnergy against a slow reference implementation and finite differences."""

from itertools import pairwise

import numpy as np
import pytest
import twins
from numpy.testing import assert_allclose, assert_array_equal
from zoo import enumerate_states

from skmrf._kernels._jit import read_only
from skmrf._kernels.networks import BLOCK, network_gradients, network_values
from skmrf._utils.phases import CliquePoints, States
from skmrf._utils.rows import Batch
from skmrf.energies import FactorGraph, NeuralEnergy
from skmrf.energies.neural import n_parameters

LAYERS = [(3,), (1, 1), (5, 2), (2, 7, 4), (4, 5, 5, 4)]
POINTS = [1, BLOCK, 2 * BLOCK + 17]
CASES = {
    "numbers": ([0, 0, 0], [(0, 1), (2, 1), (0, 2)]),
    "mixed": ([0, 3, 0, 2], [(0, 1), (2, 0), (1, 3), (3, 2)]),
    "states": ([2, 3, 4, 1], [(0, 1), (2, 1), (3, 0)]),
    "no edges": ([0, 2], []),
    "alone": ([0], []),
}

each_layers = pytest.mark.parametrize("layers", LAYERS)
each_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])
each_case = pytest.mark.parametrize("case", CASES)


# Twins -------------------------------------------------------------------------------------


def selu(x):
    """Return SELU of real or complex numbers; complex ones give derivatives by complex steps."""
    return 1.0507009873554805 * np.where(x.real > 0, x, 1.6732632423543772 * (np.exp(x) - 1))


def network(row, layers, inputs):
    """Return the value of a network at each row of one-hot encoded inputs."""
    values, at = inputs, 0
    for k, width in enumerate((*layers, 1)):
        fan_in = values.shape[1]
        weights = row[at : at + fan_in * width].reshape(fan_in, width)
        at += fan_in * width
        values = values @ weights + row[at : at + width]
        at += width
        values = selu(values) if k < len(layers) else np.tanh(values)
    assert at == len(row) - 1
    return row[at] * values[:, 0]


def network_derivative(row, layers, inputs, weights):
    """Return the derivatives of the weighted sum of values, by complex steps."""
    out = np.zeros(len(row))
    for k in range(len(row)):
        moved = row.astype(complex)
        moved[k] += 1e-30j
        out[k] = (weights @ network(moved, layers, inputs)).imag / 1e-30
    return out


def one_hot(x, q, n_slots):
    """Return the network inputs of a variable: its value in the first slot, or one-hot states."""
    out = np.zeros((len(x), n_slots))
    if q == 0:
        out[:, 0] = x
    else:
        out[np.arange(len(x)), x.astype(int)] = 1.0
    return out


def naive_log_potential(energy, X):
    """Return log f, computed from the definition, network by network."""
    slots = max(1, *energy.n_states)
    parts = [one_hot(X[:, i], q, slots) for i, q in enumerate(energy.n_states)]
    centred = X[:, energy.n_states == 0] - energy.mean
    total = np.array([-0.5 * c @ energy.precision @ c for c in centred])
    for row, part in zip(energy.theta["nodes"], parts, strict=True):
        total = total + network(row.astype(float), energy.shape.nodes, part)
    for row, (i, j) in zip(energy.theta["edges"], energy.edges, strict=True):
        inputs = np.concatenate([parts[i], parts[j]], axis=1)
        total = total + network(row.astype(float), energy.shape.edges, inputs)
    return total


# Models ------------------------------------------------------------------------------------


def neural(seed, case, dtype=float, layers=(3, 2)):
    """Return an energy whose networks are large compared to the base."""
    n_states, edges = CASES[case]
    rng = np.random.default_rng(seed)
    m = n_states.count(0)
    A = rng.normal(size=(m, m))
    energy = NeuralEnergy.random(
        n_states,
        edges,
        node_layers=layers,
        edge_layers=layers[::-1],
        mean=rng.normal(size=m),
        precision=A @ A.T + np.eye(m),
        random_state=rng,
    )
    theta = {k: (v + rng.normal(0, 0.5, v.shape)).astype(dtype) for k, v in energy.theta.items()}
    return energy.with_theta(theta)


def draw_column(rng, q, n):
    return rng.normal(size=n) if q == 0 else rng.integers(0, q, size=n).astype(float)


def draw_rows(energy, n, rng):
    """Return random rows of continuous and categorical variables."""
    return np.stack([draw_column(rng, q, n) for q in energy.n_states], axis=1)


def draw_points(energy, rng, n_nodes=5, n_edges=7):
    """Return random points for each clique, with weights of both signs."""
    nodes = [draw_column(rng, q, n_nodes) for q in energy.n_states]
    ends = energy.n_states[energy.edges.ravel()]
    edges = [draw_column(rng, q, n_edges) for q in ends]
    return CliquePoints(
        np.array(nodes),
        rng.normal(size=(len(nodes), n_nodes)),
        np.array(edges).reshape(len(ends), n_edges),
        rng.normal(size=(len(ends) // 2, n_edges)),
    )


def stack(rng, n_variables, n_slots, layers, dtype, n_networks=3):
    size = n_networks, n_parameters(n_variables, n_slots, layers)
    return rng.normal(0, 0.7, size=size).astype(dtype)


# Networks ----------------------------------------------------------------------------------

KINDS = [(0,), (3,), (0, 0), (3, 2), (0, 3), (2, 0)]
FEW_KINDS = (3,), (0, 0), (2, 0)


def inputs_of(rng, kinds, n_points, dtype):
    """Return rows of six variables, the inputs of three networks, and their one-hot encoding."""
    q = np.resize(kinds, 6)
    inputs = np.array([draw_column(rng, k, n_points) for k in q]).astype(dtype)
    which = np.array([[len(kinds) * c + e for e in range(len(kinds))] for c in (2, 0, 1)])
    which %= 6
    slots = max(1, *q)
    hot = [
        np.concatenate([one_hot(inputs[i].astype(float), q[i], slots) for i in members], axis=1)
        for members in which
    ]
    return inputs, q > 0, which, slots, hot


@each_dtype
@each_layers
@pytest.mark.parametrize("kinds", KINDS)
def test_values_of_networks(kinds, layers, dtype, seed):
    rng = np.random.default_rng(seed)
    within = 1e-12 if dtype is np.float64 else 2e-5
    for n_points in POINTS:
        inputs, discrete, which, slots, hot = inputs_of(rng, kinds, n_points, dtype)
        theta = stack(rng, len(kinds), slots, layers, dtype)
        out = np.full((3, n_points), np.nan, dtype)
        network_values(read_only(theta), np.array(layers), slots, inputs, discrete, which, out)
        expected = [network(r, layers, h) for r, h in zip(theta.astype(float), hot, strict=True)]
        assert_allclose(out, expected, rtol=within, atol=within)


@each_dtype
@each_layers
@pytest.mark.parametrize(
    "kinds",
    [k if k in FEW_KINDS else pytest.param(k, marks=pytest.mark.long) for k in KINDS],
)
@pytest.mark.parametrize("shared", [True, False])
def test_gradients_of_networks(kinds, layers, shared, dtype, seed):
    """Check that gradients are added, with weights per network or for all networks.

    Derivatives by complex steps take long, so only every seventh point has a weight.
    """
    rng = np.random.default_rng(seed)
    for n_points in POINTS:
        inputs, discrete, which, slots, hot = inputs_of(rng, kinds, n_points, dtype)
        theta = stack(rng, len(kinds), slots, layers, dtype)
        weights = rng.normal(size=(1 if shared else 3, n_points)).astype(dtype)
        weights[:, np.arange(n_points) % 7 > 0] = 0.0
        out = np.ones_like(theta)
        network_gradients(
            read_only(theta), np.array(layers), slots, inputs, discrete, which, weights, out
        )
        expected = [
            network_derivative(row, layers, inputs[::7], w[::7])
            for row, inputs, w in zip(
                theta.astype(float),
                hot,
                np.broadcast_to(weights, (3, n_points)).astype(float),
                strict=True,
            )
        ]
        within = 1e-11 if dtype is np.float64 else 2e-5
        largest = np.abs(expected).max()
        assert_allclose(out - 1, expected, rtol=within, atol=within * max(largest, 1.0))


@pytest.mark.long
def test_saturated_units(seed):
    """Check that huge inputs give the limit of the networks and no nan."""
    rng = np.random.default_rng(seed)
    for dtype in (np.float64, np.float32):
        theta = stack(rng, 1, 1, (4, 3), dtype)
        x = np.array([[-1e30, -1e6, 1e6, 1e30]], dtype)
        out, gradient = np.empty((3, 4), dtype), np.zeros_like(theta)
        rest = np.array([4, 3]), 1, x, np.array([False]), np.zeros((3, 1), int)
        network_values(read_only(theta), *rest, out)
        assert_allclose(out[:, ::3], out[:, 1:3], rtol=1e-3)
        assert (np.abs(out) <= np.abs(theta[:, -1:])).all()
        network_gradients(read_only(theta), *rest, np.ones((1, 4), dtype), gradient)
        assert np.isfinite(gradient).all()


# Values ------------------------------------------------------------------------------------


@each_dtype
@each_case
def test_log_potential(case, dtype, seed):
    energy = neural(seed, case, dtype)
    X = draw_rows(energy, 2 * BLOCK + 3, np.random.default_rng(seed))
    found = energy.log_potential(X)
    assert found.dtype == np.float64
    within = 1e-11 if dtype is np.float64 else 1e-4
    assert_allclose(found, naive_log_potential(energy, X), rtol=within, atol=within)
    assert energy.log_potential(X[:0]).shape == (0,)


def test_rows_in_several_blocks(monkeypatch, seed):
    energy = neural(seed, "mixed")
    X = draw_rows(energy, 50, np.random.default_rng(seed))
    whole = energy.log_potential(X)
    monkeypatch.setattr("skmrf.energies.neural.MAX_ROWS", 7)
    assert_allclose(energy.log_potential(X), whole, rtol=1e-13)


@each_case
def test_values_at_points_of_cliques(case, seed):
    energy = neural(seed, case)
    points = draw_points(energy, np.random.default_rng(seed))
    nodes, edges = energy.clique_values(points)
    slots = max(1, *energy.n_states)
    for i, q in enumerate(energy.n_states):
        inputs = one_hot(points.nodes[i], q, slots)
        expected = network(energy.theta["nodes"][i], energy.shape.nodes, inputs)
        assert_allclose(nodes[i], expected, rtol=1e-11, atol=1e-11)
    assert edges.shape == points.edge_weights.shape
    for e, pair in enumerate(energy.edges):
        ends = zip(points.edges[2 * e : 2 * e + 2], energy.n_states[pair], strict=True)
        inputs = np.concatenate([one_hot(x, q, slots) for x, q in ends], axis=1)
        expected = network(energy.theta["edges"][e], energy.shape.edges, inputs)
        assert_allclose(edges[e], expected, rtol=1e-11, atol=1e-11)


def test_factor_graph_is_the_same_distribution(seed):
    energy = neural(seed, "states")
    graph = energy.factor_graph()
    assert isinstance(graph, FactorGraph)
    states, log_f = enumerate_states(graph)
    assert len(states) == np.prod(energy.n_states)
    assert_allclose(log_f, energy.log_potential(states), rtol=1e-12, atol=1e-12)
    assert np.ptp(log_f) > 0.1


def test_factor_graph_of_continuous_variables_raises(seed):
    with pytest.raises(ValueError, match="A model with continuous variables has no tables"):
        neural(seed, "mixed").factor_graph()


# Gradients ---------------------------------------------------------------------------------


def assert_gradient(found, function, energy):
    """Compare a gradient with central differences, whose steps avoid most kinks of SELU units."""
    expected = twins.differences(function, energy, h=1e-6)
    assert found.keys() == energy.theta.keys()
    assert max(np.abs(v).max(initial=0.0) for v in expected.values()) > 1e-4
    for name, values in found.items():
        assert_allclose(values, expected[name], rtol=1e-5, atol=1e-7, err_msg=name)


@each_case
def test_gradient_of_states(case, seed):
    energy = neural(seed, case)
    rng = np.random.default_rng(seed)
    X, Y = draw_rows(energy, 6, rng), draw_rows(energy, 9, rng)
    logs = rng.normal(size=9)
    shares = np.exp(logs) / np.exp(logs).sum()

    def difference(e):
        return e.log_potential(X).mean() - shares @ e.log_potential(Y)

    found = energy.gradient(States(X), States(Y, None, logs + 3.0), Batch(X))
    assert_gradient(found, difference, energy)


@each_case
def test_gradient_of_points(case, seed):
    energy = neural(seed, case)
    rng = np.random.default_rng(seed)
    X, points = draw_rows(energy, 6, rng), draw_points(energy, rng)
    logs = rng.normal(size=6)
    shares = np.exp(logs) / np.exp(logs).sum()

    def difference(e):
        nodes, edges = e.clique_values(points)
        there = (points.node_weights * nodes).sum() + (points.edge_weights * edges).sum()
        return shares @ e.log_potential(X) - there

    found = energy.gradient(States(X, None, logs), points)
    assert_gradient(found, difference, energy)


def test_gradient_of_points_in_either_phase(seed):
    energy = neural(seed, "mixed")
    points = draw_points(energy, np.random.default_rng(seed))
    for values in energy.gradient(points, points).values():
        assert_allclose(values, 0.0, atol=1e-12)


@each_case
def test_gradient_in_single_precision(case, seed):
    single = neural(seed, case, np.float32)
    double = single.with_theta({k: v.astype(float) for k, v in single.theta.items()})
    rng = np.random.default_rng(seed)
    phases = States(draw_rows(single, 200, rng)), draw_points(single, rng)
    found, expected = (e.gradient(*phases) for e in (single, double))
    for name, values in found.items():
        assert values.dtype == np.float32
        assert_allclose(values, expected[name], rtol=1e-3, atol=1e-4)


def test_inputs_are_not_modified(seed):
    energy = neural(seed, "mixed")
    rng = np.random.default_rng(seed)
    X, points = draw_rows(energy, 6, rng), draw_points(energy, rng)
    # Read-only arrays would need their own compilation of the kernels, so compare with copies.
    arrays = *energy.theta.values(), energy.mean, energy.precision, X, *points
    before = [array.copy() for array in arrays]
    energy.log_potential(X)
    energy.clique_values(points)
    energy.gradient(States(X), States(X))
    energy.gradient(States(X), points)
    for array, expected in zip(arrays, before, strict=True):
        assert_array_equal(array, expected)


# Forms -------------------------------------------------------------------------------------


def test_with_theta(seed):
    energy = neural(seed, "mixed")
    before = {k: v.copy() for k, v in energy.theta.items()}
    theta = {k: v + 1 for k, v in energy.theta.items()}
    other = energy.with_theta(theta)
    assert other.theta is theta
    assert other.edges is energy.edges
    for k, v in before.items():
        assert_array_equal(energy.theta[k], v)
    X = draw_rows(energy, 4, np.random.default_rng(seed))
    assert_allclose(other.log_potential(X), naive_log_potential(other, X), rtol=1e-11)
    assert energy.at(Batch(X)) is energy


@each_case
def test_penalty_groups(case):
    """Check that each network is a group, without its biases and scale."""
    energy = neural(0, case, layers=(3, 2))
    groups = energy.penalty_groups()
    slots = max(1, *energy.n_states)
    shapes = {"nodes": (slots, 3, 2, 1), "edges": (2 * slots, 2, 3, 1)}
    first = 0
    for name, sizes in shapes.items():
        assert groups[name].shape == energy.theta[name].shape
        for k, row in enumerate(groups[name]):
            expected = []
            for a, b in pairwise(sizes):
                expected += [first + k] * (a * b) + [-1] * b
            assert row.tolist() == [*expected, -1]
        first += len(groups[name])


def test_properties():
    energy = neural(0, "mixed")
    assert repr(energy) == "NeuralEnergy(n_variables=4, n_edges=4)"
    assert energy.numbers.tolist() == [0, 2]
    assert energy.n_slots == 3
    assert energy.degrees.tolist() == [2, 2, 2, 2]
    assert_allclose(energy.covariance @ energy.precision, np.eye(2), atol=1e-12)


def test_random_is_near_its_base(seed):
    """Check that initial networks add little to the base."""
    options = {"random_state": seed, "dtype": np.float32}
    energy = NeuralEnergy.random([0, 3], [(0, 1)], **options)
    assert {v.dtype for v in energy.theta.values()} == {np.dtype(np.float32)}
    X = draw_rows(energy, 500, np.random.default_rng(seed))
    assert 0 < np.std(energy.log_potential(X) - energy.base(X)) < 1.0
    again = NeuralEnergy.random([0, 3], [(0, 1)], **options)
    for k, v in energy.theta.items():
        assert_array_equal(again.theta[k], v)


def valid_arguments():
    """Return valid arguments for two continuous variables."""
    theta = {"nodes": np.zeros((2, 8)), "edges": np.zeros((1, 10))}
    return [theta, [(0, 1)], [0, 0], ((2,), (2,)), np.zeros(2), np.eye(2)]


def test_valid_arguments():
    energy = NeuralEnergy(*valid_arguments())
    assert_allclose(energy.log_potential(np.array([[1.0, 2.0]])), [-2.5])


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (1, [(0, 2)], r"edges must join variables 0 to 1; got the edge \[0, 2\]\."),
        (1, [(-1, 1)], r"edges must join variables 0 to 1; got the edge \[-1, 1\]\."),
        (1, [(1, 1)], r"The edge \[1, 1\] joins a variable to itself"),
        (1, [(0, 1), (1, 0)], r"The edge \[0, 1\] is given twice"),
        (1, [(0, 1), (0, 1)], r"The edge \[0, 1\] is given twice"),
        (1, np.zeros((0, 2)), r"theta\['edges'\] must be of shape \(0, 10\); got \(1, 10\)"),
        (2, [0, 3], r"theta\['nodes'\] must be of shape \(2, 12\); got \(2, 8\)"),
        (3, ((3,), (2,)), r"theta\['nodes'\] must be of shape \(2, 11\); got \(2, 8\)"),
        (4, np.zeros(3), "There are 2 continuous variables, so mean must have shape"),
        (5, np.eye(1), r"There are 2 continuous variables, .*; got \(2,\) and \(1, 1\)"),
        (3, ((), (2,)), "Each network needs at least one hidden layer"),
        (3, ((2,), (2, 0)), "Each network needs at least one hidden layer"),
        (5, np.diag([1.0, 0.0]), "precision must be symmetric and positive definite"),
        (
            5,
            np.array([[1.0, 2.0], [2.0, 1.0]]),
            "precision must be symmetric and positive definite",
        ),
        (
            5,
            np.array([[1.0, 0.9], [0.0, 1.0]]),
            "precision must be symmetric and positive definite",
        ),
        (5, np.full((2, 2), np.nan), "precision must be symmetric and positive definite"),
    ],
)
def test_invalid_arguments_raise(place, value, message):
    arguments = valid_arguments()
    arguments[place] = value
    with pytest.raises(ValueError, match=message):
        NeuralEnergy(*arguments)


@pytest.mark.parametrize("code", [-1.0, 3.0])
def test_invalid_states_raise(code, seed):
    """Check states that are invalid for their variable but valid for another one."""
    energy = NeuralEnergy.random([0, 3, 5], [(0, 1), (1, 2)], random_state=seed)
    X = np.array([[9.0, 2.0, 4.0], [0.0, 1.0, 0.0], [-7.5, 0.0, 3.0]])
    energy.log_potential(X)
    X[1, 1] = code
    with pytest.raises(
        ValueError, match="Variable 1 has the state codes 0 to 2, but row 1 of X holds "
    ):
        energy.log_potential(X)
