"""Tests of ConditionalBipartiteEnergy (plain loops, enumeration) and of logistic regressions."""

from functools import partial

import numpy as np
import pytest
import twins
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, csr_matrix
from scipy.special import expit

from skmrf._utils.codes import STATE
from skmrf._utils.phases import States, UnitMoments
from skmrf._utils.rows import Batch
from skmrf.energies import BipartiteEnergy, ConditionalBipartiteEnergy
from skmrf.estimators._conditional_training import _is_smaller
from skmrf.inference import marginals
from skmrf.training.logistic_start import LogisticSolver, PenalizedSolver

SIZES = [(4, 3, 2), (1, 1, 1), (2, 4, 0), (0, 3, 2), (5, 1, 4)]
each_size = pytest.mark.parametrize("size", SIZES)
each_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def conditional(seed, size=SIZES[0], dtype=float):
    """Return a random energy with the given numbers of inputs and units."""
    rng = np.random.default_rng(seed)
    n_inputs, n_visible, n_hidden = size
    shapes = (n_visible, n_hidden), (n_inputs, n_visible), (n_inputs, n_hidden)
    arrays = (rng.normal(size=s) for s in (*shapes, (n_visible,), (n_hidden,)))
    return ConditionalBipartiteEnergy(*(a.astype(dtype) for a in arrays))


def draw_batch(energy, n_rows, seed):
    """Return a batch of random inputs, some of them zero, and outputs."""
    rng = np.random.default_rng(seed + 1)
    n_inputs, n_visible = energy.theta["visible_inputs"].shape
    X = rng.normal(size=(n_rows, n_inputs)) * (rng.random((n_rows, n_inputs)) < 0.6)
    Y = rng.integers(0, 2, size=(n_rows, n_visible)).astype(STATE)
    return Batch(X, Y)


def log_f(energy, v, h, x):
    """Return log f(v, h | x), computed with plain loops."""
    t = energy.theta
    total = sum(float(t["visible_bias"][i]) * a for i, a in enumerate(v))
    total += sum(float(t["hidden_bias"][j]) * b for j, b in enumerate(h))
    for i, a in enumerate(v):
        total += sum(float(t["weights"][i, j]) * a * b for j, b in enumerate(h))
        total += sum(float(t["visible_inputs"][k, i]) * a * c for k, c in enumerate(x))
    for j, b in enumerate(h):
        total += sum(float(t["hidden_inputs"][k, j]) * b * c for k, c in enumerate(x))
    return total


def table(energy, x):
    """Return all joint states of both layers and their log-potentials given one row of inputs."""
    V, H = (twins.binary_states(n) for n in energy.weights.shape)
    return V, H, np.array([[log_f(energy, v, h, x) for h in H] for v in V])


def log_likelihood(energy, batch):
    """Return the mean log-likelihood of outputs given inputs, by enumeration."""
    total = 0.0
    for x, y in zip(batch.X, batch.Y, strict=True):
        V, _, scores = table(energy, x)
        row = int(np.flatnonzero((y == V).all(axis=1))[0])
        total += twins.log_sum(scores[row]) - twins.log_sum(scores.ravel())
    return total / len(batch.X)


def exact_phases(energy, batch):
    """Return the exact phases: given inputs and outputs, and given inputs only."""
    hidden, model = [], []
    for x, y in zip(batch.X, batch.Y, strict=True):
        V, H, scores = table(energy, x)
        row = int(np.flatnonzero((y == V).all(axis=1))[0])
        hidden.append(np.exp(scores[row] - twins.log_sum(scores[row])) @ H)
        p = np.exp(scores - twins.log_sum(scores.ravel()))
        model.append((p.sum(axis=1) @ V, p.sum(axis=0) @ H, V.T @ p @ H))
    shown, odds, pairs = (np.array(a) for a in zip(*model, strict=True))
    return States(batch.Y, np.array(hidden)), UnitMoments(shown, odds, pairs.mean(axis=0))


def assert_same(left, right, **within):
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].shape == right[name].shape
        assert_allclose(left[name], right[name], err_msg=name, **within)


# Given inputs ------------------------------------------------------------------------------


@each_dtype
@each_size
def test_condition_uses_the_fields(size, dtype, seed):
    energy = conditional(seed, size, dtype)
    batch = draw_batch(energy, 3, seed)
    visible, hidden = energy.fields(batch.X)
    assert visible.dtype == hidden.dtype == dtype
    within = 1e-12 if dtype is np.float64 else 2e-5
    for k, x in enumerate(batch.X):
        _, _, expected = table(energy, x)
        _, _, found = twins.layer_table(energy.weights, visible[k], hidden[k])
        assert_allclose(found, expected, rtol=0, atol=within)


@each_dtype
@each_size
def test_at_batch_equals_condition_of_each_row(size, dtype, seed):
    energy = conditional(seed, size, dtype)
    batch = draw_batch(energy, 7, seed)
    model = energy.at(batch)
    assert isinstance(model, BipartiteEnergy)
    free, means = model.free_energy(batch.Y), model.hidden_means(batch.Y)
    assert means.dtype == dtype
    within = 1e-12 if dtype is np.float64 else 1e-5
    for k, (x, y) in enumerate(zip(batch.X, batch.Y, strict=True)):
        visible, hidden = (a[0] for a in energy.fields(x[None]))
        one = BipartiteEnergy(energy.weights, visible, hidden)
        assert_allclose(free[k], one.free_energy(y[None])[0], rtol=within, atol=within)
        assert_allclose(means[k], one.hidden_means(y[None])[0], rtol=within, atol=within)
        V, H, scores = table(energy, x)
        row = scores[int(np.flatnonzero((y == V).all(axis=1))[0])]
        assert_allclose(free[k], -twins.log_sum(row), rtol=within, atol=within)
        expected = np.exp(row - twins.log_sum(row)) @ H
        assert_allclose(means[k], expected, rtol=within, atol=within)


@each_dtype
@pytest.mark.parametrize("kind", [csr_matrix, csr_array])
@pytest.mark.parametrize("inputs", [np.float64, np.float32, np.int8])
def test_sparse_inputs(kind, inputs, dtype, seed):
    energy = conditional(seed, dtype=dtype)
    batch = draw_batch(energy, 9, seed)
    X = np.round(3 * batch.X).astype(inputs)
    dense, sparse = batch._replace(X=X), batch._replace(X=kind(X))
    within = {"rtol": 1e-12, "atol": 1e-12} if dtype is np.float64 else {"rtol": 1e-5, "atol": 1e-5}
    for a, b in zip(energy.fields(X), energy.fields(kind(X)), strict=True):
        assert isinstance(b, np.ndarray)
        assert b.dtype == dtype
        assert_allclose(a, b, **within)
    phases = exact_phases(energy, dense)
    gradients = [energy.gradient(*phases, each) for each in (dense, sparse)]
    assert_same(*gradients, **within)
    assert {g.dtype for g in gradients[1].values()} == {np.dtype(dtype)}
    models = [energy.at(each) for each in (dense, sparse)]
    assert_allclose(*(m.free_energy(batch.Y) for m in models), **within)


# Gradients ---------------------------------------------------------------------------------


@each_size
def test_gradient_matches_finite_differences(size, seed):
    energy = conditional(seed, size)
    batch = draw_batch(energy, 5, seed)
    found = energy.gradient(*exact_phases(energy, batch), batch)
    expected = twins.differences(lambda e: log_likelihood(e, batch), energy)
    assert_same(found, expected, rtol=1e-6, atol=1e-8)


@each_size
def test_gradient_of_states(size, seed):
    """Check that hidden units are averaged out unless their states are given."""
    energy = conditional(seed, size)
    batch = draw_batch(energy, 6, seed)
    rng = np.random.default_rng(seed)
    positive, _ = exact_phases(energy, batch)
    V = rng.integers(0, 2, size=batch.Y.shape).astype(STATE)
    means = exact_phases(energy, batch._replace(Y=V))[0].hidden
    found = energy.gradient(States(batch.Y), States(V), batch)
    given = energy.gradient(positive, States(V, means), batch)
    pairs = V.T.astype(float) @ means / 6
    moments = energy.gradient(positive, UnitMoments(V.astype(float), means, pairs), batch)
    assert_same(found, given, rtol=0, atol=1e-12)
    assert_same(found, moments, rtol=0, atol=1e-12)
    H = rng.integers(0, 2, size=means.shape)
    found = energy.gradient(States(batch.Y, H), States(V, H), batch)
    expected = {name: np.zeros(a.shape) for name, a in energy.theta.items()}
    for x, y, v, h in zip(batch.X, batch.Y, V, H, strict=True):
        expected["weights"] += np.outer(1.0 * y - v, h) / 6
        expected["visible_inputs"] += np.outer(x, 1.0 * y - v) / 6
        expected["visible_bias"] += (1.0 * y - v) / 6
    assert_same(found, expected, rtol=0, atol=1e-12)


def test_gradient_vanishes_at_the_model(seed):
    energy = conditional(seed)
    batch = draw_batch(energy, 4, seed)
    V, hidden = batch.Y, exact_phases(energy, batch)[0].hidden
    for phase in (States(V), States(V, hidden)):
        for values in energy.gradient(phase, phase, batch).values():
            assert_array_equal(values, 0.0)


# Forms -------------------------------------------------------------------------------------


def test_dtype_is_that_of_the_weights(seed):
    single, double = (conditional(seed, dtype=d) for d in (np.float32, np.float64))
    for energy, dtype in ((single, np.float32), (double, np.float64)):
        batch = draw_batch(energy, 4, seed)
        assert {a.dtype for a in energy.theta.values()} == {np.dtype(dtype)}
        gradient = energy.gradient(*exact_phases(energy, batch), batch)
        assert {a.dtype for a in gradient.values()} == {np.dtype(dtype)}
        gradient = energy.gradient(States(batch.Y), States(batch.Y[::-1]), batch)
        assert {a.dtype for a in gradient.values()} == {np.dtype(dtype)}
    mixed = ConditionalBipartiteEnergy(single.weights, *list(double.theta.values())[1:])
    assert {a.dtype for a in mixed.theta.values()} == {np.dtype(np.float32)}
    assert ConditionalBipartiteEnergy([[1]], [[1]], [[1]], [0], [0]).weights.dtype == np.float64


def test_arguments_are_copied_but_theta_is_not():
    weights = np.ones((1, 1))
    energy = ConditionalBipartiteEnergy(weights, [[0.0]], [[0.0]], [0.0], [0.0])
    weights[:] = 9.0
    assert_array_equal(energy.weights, [[1.0]])
    theta = {k: a + 1 for k, a in energy.theta.items()}
    moved = energy.with_theta(theta)
    assert moved.theta is theta
    assert_array_equal(moved.weights, [[2.0]])
    assert_array_equal(energy.weights, [[1.0]])


def test_inputs_are_not_modified(seed):
    energy = conditional(seed)
    batch = draw_batch(energy, 5, seed)
    positive, negative = exact_phases(energy, batch)
    for array in (*energy.theta.values(), batch.X, batch.Y, *positive[:2], *negative):
        array.flags.writeable = False
    energy.gradient(positive, negative, batch)
    energy.gradient(States(batch.Y), States(batch.Y), batch)
    energy.at(batch).free_energy(batch.Y)
    energy.fields(batch.X)


def test_shapes_and_penalty_groups():
    energy = conditional(0)
    assert energy.has_latent
    assert energy.visible_states.tolist() == [2, 2, 2]
    assert repr(energy) == "ConditionalBipartiteEnergy(n_inputs=4, n_visible=3, n_hidden=2)"
    groups = energy.penalty_groups()
    assert {k: g.shape for k, g in groups.items()} == {k: a.shape for k, a in energy.theta.items()}
    assert_array_equal(groups["weights"], [[0, 1]] * 3)
    assert_array_equal(groups["hidden_inputs"], [[0, 1]] * 4)
    assert_array_equal(groups["visible_inputs"], [[0, 1, 2]] * 4)
    assert (groups["visible_bias"] == -1).all()
    assert (groups["hidden_bias"] == -1).all()


RIGHT = {
    "weights": np.zeros((3, 2)),
    "visible_inputs": np.zeros((4, 3)),
    "hidden_inputs": np.zeros((4, 2)),
    "visible_bias": np.zeros(3),
    "hidden_bias": np.zeros(2),
}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("weights", np.zeros((2, 3)), "weights must be of shape (3, 2); got (2, 3)."),
        ("weights", np.zeros(6), "weights must be of shape (3, 2); got (6,)."),
        ("visible_inputs", np.zeros((4, 2)), "visible_inputs must be of shape (4, 3); got (4, 2)."),
        ("hidden_inputs", np.zeros((3, 2)), "hidden_inputs must be of shape (4, 2); got (3, 2)."),
        ("visible_bias", np.zeros((3, 1)), "visible_bias must be of shape (3,); got (3, 1)."),
        ("hidden_bias", np.zeros((1, 2)), "hidden_bias must be of shape (2,); got (1, 2)."),
        (
            "hidden_inputs",
            np.full((4, 2), np.nan),
            "hidden_inputs must be finite; it holds nan or infinite values.",
        ),
        (
            "visible_bias",
            np.array([0, np.inf, 0]),
            "visible_bias must be finite; it holds nan or infinite values.",
        ),
    ],
)
def test_invalid_arguments_raise(name, value, message):
    with pytest.raises(ValueError) as caught:
        ConditionalBipartiteEnergy(**(RIGHT | {name: value}))
    assert str(caught.value) == message


@pytest.mark.parametrize("state", [0.5, 2.0, 2.0**16, -1.0, np.nan])
def test_states_other_than_0_and_1_raise(state):
    row = np.array([[0.3, 1.0, -2.0, 0.7, 1.0, 0.0, state, 1.0, 0.0]])
    with pytest.raises(ValueError, match=r"States must be integer codes|Variable 2 has 2 states"):
        conditional(0).log_potential(row)


def test_scalars_raise():
    with pytest.raises(ValueError, match=r"visible_inputs must be of shape \(1, 3\); got \(\)\."):
        ConditionalBipartiteEnergy(**(RIGHT | {"visible_inputs": 0.0}))


def test_condition_on_one_row(seed):
    energy = conditional(seed)
    x = np.random.default_rng(seed).normal(size=4)
    model = energy.condition(x)
    rows = energy.at(Batch(x[None]))
    V = np.random.default_rng(seed).integers(0, 2, size=(1, 3))
    assert_allclose(model.free_energy(V), rows.free_energy(V))
    single = marginals(model, method="exact").single
    assert_allclose([p.sum() for p in single], 1.0)


@pytest.mark.parametrize("shape", [(300, 8), (40, 60)])
@pytest.mark.parametrize("light", [False, True])
def test_logistic_solver_finds_the_maximum(shape, light, seed):
    """The gradient of the penalised log-likelihood is zero, up to the tolerance."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=shape) * rng.uniform(0.2, 3, size=shape[1]) + 1
    Y = (rng.random((shape[0], 3)) < expit(X[:, :3] - 1)).astype(np.int8)
    data = Batch(X, Y, np.log(rng.uniform(0.5, 2, size=shape[0])))
    solver = LogisticSolver(data, light)
    energy = solver.solve(0.02)
    theta = {k: v.astype(float) for k, v in energy.theta.items()}
    weights = np.exp(data.log_weights) / np.exp(data.log_weights).sum()
    residuals = weights[:, None] * (expit(energy.fields(X)[0]) - Y)
    strengths = np.full(theta["visible_inputs"].shape, 0.02)
    if light:
        covariances = np.cov(X.T, Y.T, aweights=weights)[: shape[1], shape[1] :]
        correlations = (
            np.abs(covariances) / np.sqrt(np.cov(X.T, aweights=weights).diagonal())[:, None]
        )
        assert_array_equal(solver.strongest, correlations.argmax(axis=0))
        strengths[solver.strongest, np.arange(3)] = 0.1 / solver.n
    gradient = X.T @ residuals + strengths * theta["visible_inputs"]
    assert np.abs(gradient).max() < 0.03
    assert np.abs(X.T @ residuals).max() > np.abs(gradient).max()
    assert np.abs(residuals.sum(axis=0)).max() < 1.0 / solver.n


def test_solvers_of_logistic_regressions_agree(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 5))
    Y = (rng.random((500, 2)) < expit(X[:, :2])).astype(np.int8)
    for rows in (X, csr_array(X)):
        fast, general = (
            make(Batch(rows, Y)).solve(0.01).theta["visible_inputs"]
            for make in (LogisticSolver, partial(PenalizedSolver, penalty="l2"))
        )
        assert_allclose(fast, general, atol=0.02)
    weak = LogisticSolver(Batch(X, Y)).solve(1e-4).theta["visible_inputs"]
    assert np.abs(weak - general).max() > 0.02


@pytest.mark.parametrize(
    ("gains", "is_accepted"),
    [((0.1, 0.1), True), ((0.1, -0.1), False), ((-0.1, 0.1), False), ((0.0, 0.0), False)],
)
def test_hidden_units_must_not_make_one_of_two_losses_worse(gains, is_accepted, seed):
    """The losses are the share of wrong outputs and the log-loss of held-out rows."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0.0, 0.05, 200)
    others = rng.random((2, 200))
    losses = others - np.array(gains)[:, None] - (noise - noise.mean())
    weights = np.ones(200)
    assert _is_smaller(losses, others, weights, n_errors=2.0) == is_accepted
    assert not _is_smaller(losses, others, weights, n_errors=1000.0)
