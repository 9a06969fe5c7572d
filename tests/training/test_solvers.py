"""Tests of solvers of deterministic objectives, on problems with a known maximum."""

import pickle
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from zoo import coupled_layers

from skmrf._utils.codes import MISSING, STATE
from skmrf._utils.phases import States
from skmrf._utils.rows import Batch
from skmrf.energies import BipartiteEnergy, FactorGraph
from skmrf.energies.layout import Layout
from skmrf.learners import Exact, PseudoLikelihood
from skmrf.training.loop import run_with_objective
from skmrf.training.penalties import L1, L2, NoPenalty
from skmrf.training.preconditioning import (
    CoupledLayerPreconditioner,
    LayerPreconditioner,
    PairPreconditioner,
    PreconditionedSGD,
    TablePreconditioner,
    make_preconditioner,
)
from skmrf.training.schedules import LinearRate
from skmrf.training.solvers import C1, C2, MEMORY, make_solver, wolfe_point


@dataclass(frozen=True)
class Point:
    """Minimal energy for solvers."""

    theta: dict

    def with_theta(self, theta):
        """Return a point with other parameters."""
        return Point(theta)


def make_quadratic(rng, n=30, condition=1e3):
    """Return a concave quadratic of two arrays, its matrix and its maximum."""
    q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    matrix = q * np.geomspace(1.0, condition, n) @ q.T
    best = rng.normal(size=n)

    def objective(point):
        difference = np.concatenate([point.theta["a"], point.theta["b"].ravel()]) - best
        gradient = -matrix @ difference
        return 0.5 * difference @ gradient, {"a": gradient[:10], "b": gradient[10:].reshape(4, 5)}

    return objective, matrix, best


def zeros():
    return Point({"a": np.zeros(10), "b": np.zeros((4, 5))})


def flat(point):
    return np.concatenate([v.ravel() for v in point.theta.values()])


class CountedObjective:
    """Objective that records the points at which it is evaluated."""

    def __init__(self, objective):
        self.objective = objective
        self.points = []

    def __call__(self, point):
        self.points.append(flat(point).tobytes())
        return self.objective(point)


def negative_rosenbrock(point):
    """Return the negative Rosenbrock function, which is not concave, and its gradient."""
    x = point.theta["x"]
    left, right = x[:-1], x[1:]
    bend = right - left**2
    gradient = np.zeros_like(x)
    gradient[:-1] += 400 * left * bend + 2 * (1 - left)
    gradient[1:] -= 200 * bend
    return -float(np.sum(100 * bend**2 + (1 - left) ** 2)), {"x": gradient}


def solve(
    objective, start, penalty=None, tol=1e-8, max_iter=5000, multiplicity=None, callback=None
):
    """Return the maximum and whether the solver has converged.

    ``callback(energy, value, gradient_max)`` is called after each iteration.
    """
    solver = make_solver(penalty or NoPenalty(), tol, multiplicity)
    energy, state = start, run_with_objective(solver.start(start), objective)
    for _ in range(max_iter):
        if state.is_done:
            break
        energy, state = run_with_objective(solver.step(energy, state), objective)
        if callback is not None:
            callback(energy, state.value, state.gradient_max)
    return energy, state.converged


# The maximum -------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
def test_maximum_of_quadratics(seed, condition):
    rng = np.random.default_rng(seed)
    objective, _, best = make_quadratic(rng, condition=condition)
    actual, converged = solve(objective, zeros(), tol=1e-6)
    assert converged
    np.testing.assert_allclose(flat(actual), best, atol=1e-5)


@pytest.mark.parametrize("strength", [1e-6, 0.1, 10.0])
def test_l2_penalty_equals_ridge_regression(seed, strength):
    objective, matrix, best = make_quadratic(np.random.default_rng(seed))
    groups = {"a": np.full(10, -1), "b": np.zeros((4, 5), int)}
    weights = np.repeat([0.0, strength], [10, 20])
    actual, converged = solve(objective, zeros(), L2(strength, groups), tol=1e-7)
    assert converged
    expected = np.linalg.solve(matrix + np.diag(weights), matrix @ best)
    np.testing.assert_allclose(flat(actual), expected, atol=1e-6)


def test_no_more_evaluations_than_l_bfgs_b(seed):
    rng = np.random.default_rng(seed)
    n_skmrf, n_scipy = [], []
    for problem in range(8):
        start = {"x": rng.normal(size=10)} if problem < 4 else None
        base = negative_rosenbrock if start else make_quadratic(rng)[0]
        point = Point(start) if start else zeros()
        counted = CountedObjective(base)
        solve(counted, point, tol=1e-6)
        n_skmrf.append(len(counted.points))

        def negative(x, base=base, point=point):
            parts = np.split(x, np.cumsum([v.size for v in point.theta.values()])[:-1])
            shapes = [v.shape for v in point.theta.values()]
            theta = {k: p.reshape(s) for k, p, s in zip(point.theta, parts, shapes, strict=True)}
            value, gradient = base(Point(theta))
            return -value, -flat(Point(gradient))

        options = {"maxcor": MEMORY, "gtol": 1e-6, "ftol": 1e-15, "maxiter": 5000}
        actual = minimize(negative, flat(point), jac=True, method="L-BFGS-B", options=options)
        n_scipy.append(actual.nfev)
    assert sum(n_skmrf) < 1.15 * sum(n_scipy)


def test_rosenbrock_without_repeated_evaluations(seed):
    start = Point({"x": np.random.default_rng(seed).normal(size=2)})
    counted = CountedObjective(negative_rosenbrock)
    actual, converged = solve(counted, start)
    assert converged
    np.testing.assert_allclose(actual.theta["x"], 1.0, atol=1e-5)
    assert len(set(counted.points)) == len(counted.points)


def test_multiplicity_of_a_symmetric_matrix(seed):
    """The iterations are those with the upper triangle as parameters."""
    rng = np.random.default_rng(seed)
    whole = rng.normal(size=(4, 4))
    best = whole + whole.T
    upper = np.triu_indices(4)
    scales = rng.uniform(1, 50, size=(4, 4))
    scales = np.triu(scales) + np.triu(scales, 1).T

    def symmetric(point):
        difference = point.theta["x"] - best
        return -0.25 * float(np.sum(scales * difference**2)), {"x": -scales * difference}

    def triangular(point):
        difference = point.theta["x"] - best[upper]
        weight = np.where(upper[0] == upper[1], 0.5, 1.0) * scales[upper]
        return -0.5 * float(np.sum(weight * difference**2)), {"x": -scales[upper] * difference}

    def norms(objective, start, **options):
        values = []
        solve(objective, start, callback=lambda *a: values.append(a[2]), **options)
        return values

    assert len(norms(symmetric, Point({"x": np.zeros((4, 4))}), multiplicity={"x": 2})) < 60
    best[np.diag_indices(4)] = 0.0  # each parameter occurs once on the diagonal, so exclude it
    first = norms(symmetric, Point({"x": np.zeros((4, 4))}), multiplicity={"x": 2})
    off = upper[0] != upper[1]
    upper = upper[0][off], upper[1][off]
    second = norms(triangular, Point({"x": np.zeros(6)}))
    np.testing.assert_allclose(first[:8], second[:8], rtol=1e-6)


def test_l1_penalty_satisfies_optimality_conditions(seed):
    """The gradient is that of the penalty, or within its bounds for parameters of zero."""
    objective, matrix, best = make_quadratic(np.random.default_rng(seed), condition=20.0)
    groups = {"a": np.zeros(10, int), "b": np.zeros((4, 5), int)}
    actual, converged = solve(objective, zeros(), L1(2.0, groups), tol=1e-8)
    assert converged
    x = flat(actual)
    gradient = matrix @ (best - x)
    assert 0 < np.count_nonzero(x) < 30
    np.testing.assert_allclose(gradient[x != 0], 2.0 * np.sign(x[x != 0]), atol=1e-5)
    assert (np.abs(gradient[x == 0]) <= 2.0 + 1e-5).all()


def test_reported_value_is_that_of_the_returned_energy(seed):
    objective = make_quadratic(np.random.default_rng(seed))[0]
    groups = {"a": np.zeros(10, int), "b": np.zeros((4, 5), int)}
    for penalty in (L1(0.5, groups), L2(0.5, groups)):

        def check(point, value, _norm, penalty=penalty):
            expected = objective(point)[0] - penalty.value(point.theta)
            assert value == pytest.approx(expected, rel=1e-12)

        solve(objective, zeros(), penalty, max_iter=20, callback=check)


# Resuming --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [L1, L2])
def test_solver_resumes_bit_for_bit(kind, seed):
    objective = make_quadratic(np.random.default_rng(seed))[0]
    penalty = kind(0.1, {"a": np.zeros(10, int), "b": np.zeros((4, 5), int)})
    solver = make_solver(penalty, 1e-8)
    energy, paths = zeros(), []
    state = run_with_objective(solver.start(energy), objective)
    for _ in range(2 * MEMORY + 5):
        energy, state = run_with_objective(solver.step(energy, state), objective)
        paths.append(flat(energy))
    for n_before in (1, 7, MEMORY + 3):
        energy = zeros()
        state = run_with_objective(make_solver(penalty, 1e-8).start(energy), objective)
        for _ in range(n_before):
            energy, state = run_with_objective(
                make_solver(penalty, 1e-8).step(energy, state), objective
            )
        pickled = pickle.dumps(state)
        energy, state = pickle.loads(pickle.dumps((energy, state)))
        for expected in paths[n_before:]:
            energy, state = run_with_objective(solver.step(energy, state), objective)
            np.testing.assert_array_equal(flat(energy), expected)
        assert len(pickled) < 8 * 30 * (2 * MEMORY + 3) + 20_000


# Termination -----------------------------------------------------------------------------


def test_start_at_the_maximum_makes_no_iteration(seed):
    objective, _, best = make_quadratic(np.random.default_rng(seed))
    start = Point({"a": best[:10], "b": best[10:].reshape(4, 5)})
    iterations = []
    actual, converged = solve(objective, start, callback=lambda *a: iterations.append(a))
    assert converged
    assert not iterations
    assert actual is start


def test_solver_converges_within_rounding_if_tol_is_zero(seed):
    objective = make_quadratic(np.random.default_rng(seed))[0]
    counted = CountedObjective(objective)
    actual, converged = solve(counted, zeros(), tol=0.0)
    assert converged
    assert len(counted.points) < 500
    assert np.abs(flat(Point(objective(actual)[1]))).max() < 1e-4


def test_min_gain_ends_lbfgs_early(seed):
    """The solver stops after one or more small increases, but not that of the first iteration."""
    objective = make_quadratic(np.random.default_rng(seed))[0]

    def values_with(**stop):
        solver, point, values = make_solver(NoPenalty(), 1e-8, **stop), zeros(), []
        state = run_with_objective(solver.start(point), objective)
        while not state.is_done:
            point, state = run_with_objective(solver.step(point, state), objective)
            values.append(state.value)
        assert state.converged
        return values

    whole, some = values_with(min_gain=0.0), values_with(min_gain=0.01)
    assert some == whole[: len(some)]
    assert len(some) < len(whole) / 2
    assert np.diff(some)[-1] <= 0.01 < np.diff(some)[:-1].min()
    assert whole[-1] == pytest.approx(0.0, abs=1e-12)
    assert -50 * 0.01 < some[-1] < 0
    assert [len(values_with(min_gain=np.inf, n_small_gains=n)) for n in (1, 3)] == [2, 4]
    assert values_with(min_gain=np.inf, max_gradient=1e-9) == whole


def test_wrong_gradient_ends_without_convergence():
    """The line search finds no better point, although the gradient is not zero."""

    def objective(point):
        return -float(np.abs(point.theta["x"]).sum()), {"x": np.ones(3)}

    start = Point({"x": np.zeros(3)})
    actual, converged = solve(objective, start, tol=1e-6)
    assert actual is start
    assert not converged


def test_solver_avoids_points_without_a_finite_value():
    def objective(point):
        x = point.theta["x"]
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(np.sum(np.log(x) - 10 * x)), {"x": 1 / x - 10}

    actual, converged = solve(objective, Point({"x": np.full(3, 0.9)}))
    assert converged
    np.testing.assert_allclose(actual.theta["x"], 0.1)


def test_solver_converges_by_gradient_without_a_finite_maximum():
    def objective(point):
        x = point.theta["x"]
        return -float(np.logaddexp(0, -x).sum()), {"x": 1 / (1 + np.exp(x))}

    actual, converged = solve(objective, Point({"x": np.zeros(2)}), tol=1e-6)
    assert converged
    assert (actual.theta["x"] > 13).all()


def test_value_increases_until_max_iter(seed):
    objective = make_quadratic(np.random.default_rng(seed), condition=1e6)[0]
    values = []
    _, converged = solve(objective, zeros(), max_iter=3, callback=lambda *a: values.append(a[1]))
    assert not converged
    assert len(values) == 3
    assert values == sorted(values)


# The line search ---------------------------------------------------------------------------


@dataclass(frozen=True)
class LinePoint:
    """Point of a line search."""

    step: float
    value: float
    slope: float


CURVES = {
    "first step too short": (lambda t: -((t - 300) ** 2), lambda t: -2 * (t - 300)),
    "first step too long": (lambda t: -((t - 3e-4) ** 2), lambda t: -2 * (t - 3e-4)),
    "oscillating": (lambda t: np.sin(9 * t) - 0.1 * t**2, lambda t: 9 * np.cos(9 * t) - 0.2 * t),
    "saturating": (lambda t: -np.exp(-50 * t), lambda t: 50 * np.exp(-50 * t)),
    "nan": (lambda t: np.log(0.1 - t) + 30 * t, lambda t: 30 - 1 / (0.1 - t)),
}


def line_search(point_at, first):
    """Return the result of the line search over a function of the step."""

    def evaluate(step):
        return (yield step)

    return run_with_objective(wolfe_point(evaluate, first), point_at)


@pytest.mark.parametrize("name", CURVES)
def test_line_search_satisfies_the_wolfe_conditions(name):
    value, slope = CURVES[name]
    steps = []

    def visit(t):
        steps.append(t)
        with np.errstate(invalid="ignore", divide="ignore"):
            return LinePoint(t, float(value(np.float64(t))), float(slope(np.float64(t))))

    first = visit(0.0)
    actual = line_search(visit, first)
    assert actual.value >= first.value + C1 * actual.step * first.slope
    if name != "saturating":
        assert abs(actual.slope) <= C2 * first.slope
    assert len(steps) == len(set(steps))
    assert len(steps) < 15


def test_line_search_without_a_better_point_returns_none():
    assert line_search(lambda t: LinePoint(t, -t, 1.0), LinePoint(0.0, 0.0, 1.0)) is None


def test_line_search_on_an_unbounded_line_returns_the_best_trial():
    actual = line_search(lambda t: LinePoint(t, t, 1.0), LinePoint(0.0, 0.0, 1.0))
    assert actual.step > 1e6


# Preconditioner of tables -------------------------------------------------------------------------


MIXED = [2, 3, 1, 4]
PAIRS = [(0,), (1,), (2,), (3,), (0, 1), (3, 0), (1, 2), (1, 3)]


def table_problem(rng, cliques=PAIRS, n_rows=80, alpha=0.01):
    """Return a model without interactions, weighted rows with a missing entry, and a penalty."""
    layout = Layout.build(MIXED, cliques)
    energy = FactorGraph.from_layout(layout, np.zeros(layout.n_parameters))
    X = np.column_stack([rng.integers(q, size=n_rows) for q in MIXED]).astype(STATE)
    X[:, 3] = np.where(rng.random(n_rows) < 0.6, X[:, 1], X[:, 3])
    data = Batch(X, log_weights=rng.normal(0.0, 0.3, n_rows))
    return energy, data, L2(alpha, energy.penalty_groups())


def matrix_of(preconditioner):
    return np.column_stack([preconditioner(e) for e in np.eye(preconditioner.layout.n_parameters)])


def test_preconditioner_is_the_inverse_hessian_of_independent_variables(seed):
    """The rows are all joint states, weighted by the product of the frequencies."""
    rng = np.random.default_rng(seed)
    frequencies = [rng.dirichlet(np.full(q, 3.0)) for q in MIXED]
    X = np.array(list(product(*map(range, MIXED))), dtype=STATE)
    weights = np.prod([p[x] for p, x in zip(frequencies, X.T, strict=True)], axis=0)
    layout = Layout.build(MIXED, PAIRS)
    theta = np.zeros(layout.n_parameters)
    theta[: layout.table_start[4]] = np.log(np.concatenate(frequencies))
    learner, data = PseudoLikelihood(), Batch(X, log_weights=np.log(weights))
    state = learner.init(FactorGraph.from_layout(layout, theta), data, rng)

    def gradient(values):
        energy = FactorGraph.from_layout(layout, values)
        return learner.objective(energy, data, state)[1]["log_potentials"]

    steps = 1e-5 * np.eye(layout.n_parameters)
    hessian = -np.array([gradient(theta + e) - gradient(theta - e) for e in steps]) / 2e-5
    inverse = matrix_of(TablePreconditioner(layout, frequencies, 0.0))
    kept = np.setdiff1d(np.arange(layout.n_parameters), constant_entries(layout))
    hessian, inverse = hessian[np.ix_(kept, kept)], inverse[np.ix_(kept, kept)]
    np.testing.assert_allclose(hessian @ inverse @ hessian, hessian, atol=1e-6)


def constant_entries(layout):
    """Return the indices of the entries of tables that contain the constant variable."""
    tables = [a for a, clique in enumerate(layout.cliques) if 2 in clique]
    starts, sizes = layout.table_start[tables], layout.table_size[tables]
    return np.concatenate([s + np.arange(n) for s, n in zip(starts, sizes, strict=True)])


def test_preconditioner_uses_smoothed_frequencies(seed):
    energy, data, penalty = table_problem(np.random.default_rng(seed))
    data.X[3, 1] = MISSING
    weights = np.exp(data.log_weights)
    weights *= len(data.X) / weights.sum()
    expected = []
    for x, q in zip(data.X.T, MIXED, strict=True):
        counts = np.array([weights[x == s].sum() for s in range(q)])
        expected.append((counts + 1 / q) / (counts.sum() + 1))
    found = make_preconditioner(energy, data, penalty).frequencies
    np.testing.assert_allclose(found, np.concatenate(expected))


@pytest.mark.parametrize("cliques", [PAIRS, PAIRS[4:], [(0, 1, 3), (2,), (0, 3)]])
def test_preconditioner_is_positive_definite(cliques, seed):
    matrix = matrix_of(make_preconditioner(*table_problem(np.random.default_rng(seed), cliques)))
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-9)
    assert np.linalg.eigvalsh(matrix).min() > -1e-9


@pytest.mark.parametrize("learner", [Exact(), PseudoLikelihood()], ids=["exact", "pseudo"])
def test_preconditioner_saves_evaluations(learner, seed):
    energy, data, penalty = table_problem(np.random.default_rng(seed), alpha=1e-3)
    state = learner.init(energy, data, np.random.default_rng(seed))
    objective = partial(learner.objective, batch=data, state=state)
    counts, maxima = [], []
    for precondition in (None, make_preconditioner(energy, data, penalty)):
        counted = CountedObjective(objective)
        solver, point = make_solver(penalty, 1e-8, precondition=precondition), energy
        state_of_solver = run_with_objective(solver.start(point), counted)
        while not state_of_solver.is_done:
            point, state_of_solver = run_with_objective(
                solver.step(point, state_of_solver), counted
            )
        assert state_of_solver.converged
        counts.append(len(counted.points))
        maxima.append(point.flat[energy.layout.table_start[4] :])  # others are not unique
    np.testing.assert_allclose(*maxima, atol=1e-4)
    assert counts[1] < counts[0]


def test_models_without_preconditioner(seed):
    energy, data, penalty = table_problem(np.random.default_rng(seed))
    tied = Layout.build([2, 2, 2], [(0, 1), (1, 2)], tie=[[0, 1]])
    tied = FactorGraph.from_layout(tied, np.zeros(tied.n_parameters))
    assert make_preconditioner(tied, data, penalty) is None
    assert make_preconditioner(zeros(), data, penalty) is None
    assert make_preconditioner(energy, data, L1(0.1, energy.penalty_groups())) is None


def steps_matrix(preconditioner, theta):
    """Return the matrix of a preconditioner whose gradient is a dict of arrays."""
    shapes = {k: v.shape for k, v in theta.items()}
    columns = []
    for name, shape in shapes.items():
        for k in range(np.prod(shape)):
            gradient = {n: np.zeros(s) for n, s in shapes.items()}
            gradient[name].flat[k] = 1.0
            steps = preconditioner.steps(theta, gradient)
            columns.append(np.concatenate([steps[n].ravel() for n in shapes]))
    return np.array(columns).T


def random_layers(rng, n_visible=4, n_hidden=3):
    return BipartiteEnergy(
        rng.normal(size=(n_visible, n_hidden)),
        rng.normal(size=n_visible),
        rng.normal(size=n_hidden),
    )


def test_preconditioner_of_layers_is_positive_definite(seed):
    """A maximum of the likelihood stays a maximum, and every step increases the likelihood."""
    rng = np.random.default_rng(seed)
    means = np.append(rng.random(3), 0.0).astype(np.float32)
    preconditioner, theta = LayerPreconditioner(means, 0.1), random_layers(rng).theta
    matrix = steps_matrix(preconditioner, theta)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-5)
    assert np.linalg.eigvalsh(matrix).min() > 0.0
    moved = preconditioner.move(theta, {k: np.ones_like(v) for k, v in theta.items()}, 0.3)
    steps = np.concatenate([(moved[k] - v).ravel() for k, v in theta.items()])
    np.testing.assert_allclose(steps, 0.3 * matrix.sum(axis=1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("states", [(-1, 1), (0.5, 2.0)])
def test_preconditioner_of_coupled_layers_is_positive_definite(states, seed):
    means = np.random.default_rng(seed).uniform(0.05, 0.95, 3)
    preconditioner = CoupledLayerPreconditioner(means, states, (0.1, 0.2))
    theta = coupled_layers(3, 2, seed, states).theta
    steps = preconditioner.steps(theta, {k: np.ones_like(v) for k, v in theta.items()})
    means = states[0] + (states[1] - states[0]) * means
    offsets = 1.0 / (1.0 + np.exp(-theta["hidden_bias"] - means @ theta["weights"]))
    bias = steps["visible_bias"] + steps["coupling"] @ means + steps["weights"] @ offsets
    np.testing.assert_allclose(bias, 0.25 * preconditioner.pairs.scale, rtol=1e-4)
    matrix = steps_matrix(preconditioner, theta)
    upper, lower = [1, 2, 5], [3, 6, 7]  # entries of the symmetric matrix of couplings
    matrix[:, upper] += matrix[:, lower]
    matrix = matrix[np.ix_(kept := [*upper, *range(9, len(matrix))], kept)]
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-4 * np.abs(matrix).max())
    assert np.linalg.eigvalsh(matrix).min() > 0.0


def flip(energy):
    """Return the model of the visible units 1 - v."""
    weights, visible, hidden = energy.weights, energy.visible_bias, energy.hidden_bias
    return BipartiteEnergy(-weights, -visible, hidden + weights.sum(axis=0))


def test_centred_steps_do_not_depend_on_the_coding_of_visible_units(seed):
    """A step of the model of 1 - v is the flipped step; plain gradients fail this test."""
    rng = np.random.default_rng(seed)
    energy, means = random_layers(rng), rng.random(4)
    phases = [(rng.random((50, 4)) < p).astype(STATE) for p in (0.3, 0.6)]

    def step(model, rows, optimizer):
        gradient = model.gradient(*(States(V, None, None) for V in rows))
        return model.with_theta(optimizer.step(model.theta, gradient, 0.1, {})[0])

    for centres, is_equal in ((means, True), (np.zeros(4), False)):
        first = PreconditionedSGD(LayerPreconditioner(centres, 0.0))
        second = PreconditionedSGD(LayerPreconditioner(1.0 - centres if is_equal else centres, 0.0))
        straight = flip(step(energy, phases, first))
        flipped = step(flip(energy), [1 - V for V in phases], second)
        close = [np.allclose(v, flipped.theta[k], atol=1e-5) for k, v in straight.theta.items()]
        assert all(close) == is_equal


@pytest.mark.parametrize("states", [(-1, 1), (0, 1), (0.5, 2.0)])
def test_preconditioner_of_pairs_is_the_inverse_fisher_information(states, seed):
    """The covariance of the statistics of independent variables, by enumeration."""
    rng = np.random.default_rng(seed)
    means = rng.uniform(0.2, 0.8, 3)
    codes = np.array(list(product((0, 1), repeat=3)))
    p = np.prod(np.where(codes, means, 1.0 - means), axis=1)
    S = np.where(codes, states[1], states[0])
    first, second = np.triu_indices(3, 1)
    statistics = np.hstack([S[:, first] * S[:, second], S])
    fisher = np.cov(statistics.T, aweights=p, bias=True)
    gradient = rng.normal(size=6)
    coupling = np.zeros((3, 3))
    coupling[first, second] = coupling[second, first] = gradient[:3]
    given = {"coupling": coupling, "bias": gradient[3:]}
    steps = PairPreconditioner(means, states, 0.0).steps({}, given)
    found = np.concatenate([steps["coupling"][first, second], steps["bias"]])
    np.testing.assert_allclose(fisher @ found, gradient, atol=1e-9)


def test_linear_rate_falls_to_zero():
    rate, state, stages, values = LinearRate(0.5, 4), LinearRate(0.5, 4).init(), [], []
    for _ in range(4):
        values.append(rate.value(state))
        state, is_new_stage, is_done = rate.observe({}, state, 0.0)
        stages.append((is_new_stage, is_done))
    assert values == [0.5, 0.375, 0.25, 0.125]
    assert rate.value(state) == 0.0
    assert stages == [(False, False), (True, False), (False, False), (False, True)]
