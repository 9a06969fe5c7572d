"""Solvers of deterministic objectives, on problems whose maximum is known."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize

from skmrf.training.loop import answer
from skmrf.training.penalties import L1, L2, NoPenalty
from skmrf.training.solvers import C1, C2, MEMORY, make_solver, wolfe_point


@dataclass(frozen=True)
class Point:
    """An energy as far as solvers know one."""

    theta: dict

    def with_theta(self, theta):
        return Point(theta)


def quadratic(rng, n=30, spread=1e3):
    """A concave quadratic in two arrays, its matrix and its maximum."""
    q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    matrix = q * np.geomspace(1.0, spread, n) @ q.T
    best = rng.normal(size=n)

    def objective(point):
        away = np.concatenate([point.theta["a"], point.theta["b"].ravel()]) - best
        pull = -matrix @ away
        return 0.5 * away @ pull, {"a": pull[:10], "b": pull[10:].reshape(4, 5)}

    return objective, matrix, best


def zeros():
    return Point({"a": np.zeros(10), "b": np.zeros((4, 5))})


def flat(point):
    return np.concatenate([v.ravel() for v in point.theta.values()])


class Counted:
    """An objective that notes the points it was asked for."""

    def __init__(self, objective):
        self.objective = objective
        self.points = []

    def __call__(self, point):
        self.points.append(flat(point).tobytes())
        return self.objective(point)


def banana(point):
    """Rosenbrock's function in ten variables, upside down: curved and not concave."""
    x = point.theta["x"]
    left, right = x[:-1], x[1:]
    bend = right - left**2
    gradient = np.zeros_like(x)
    gradient[:-1] += 400 * left * bend + 2 * (1 - left)
    gradient[1:] -= 200 * bend
    return -float(np.sum(100 * bend**2 + (1 - left) ** 2)), {"x": gradient}


def solve(objective, start, penalty=None, tol=1e-8, max_iter=5000, multiplicity=None, look=None):
    """The maximum; ``look`` is shown the energy, value and norm after every iteration."""
    solver = make_solver(penalty or NoPenalty(), tol, multiplicity)
    energy, at = start, answer(solver.start(start), objective)
    for _ in range(max_iter):
        if at.is_done:
            break
        energy, at = answer(solver.step(energy, at), objective)
        if look is not None:
            look(energy, at.value, at.gradient_max)
    return energy, at.converged


# The maximum -------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [1.0, 1e3, 1e6])
def test_quadratics(seed, spread):
    rng = np.random.default_rng(seed)
    objective, _, best = quadratic(rng, spread=spread)
    found, converged = solve(objective, zeros(), tol=1e-6)
    assert converged
    np.testing.assert_allclose(flat(found), best, atol=1e-5)


@pytest.mark.parametrize("strength", [1e-6, 0.1, 10.0])
def test_ridge(seed, strength):
    objective, matrix, best = quadratic(np.random.default_rng(seed))
    groups = {"a": np.full(10, -1), "b": np.zeros((4, 5), int)}
    weights = np.repeat([0.0, strength], [10, 20])
    found, converged = solve(objective, zeros(), L2(strength, groups), tol=1e-7)
    assert converged
    expected = np.linalg.solve(matrix + np.diag(weights), matrix @ best)
    np.testing.assert_allclose(flat(found), expected, atol=1e-6)


def test_no_more_evaluations_than_l_bfgs_b(seed):
    rng = np.random.default_rng(seed)
    ours, theirs = [], []
    for problem in range(8):
        start = {"x": rng.normal(size=10)} if problem < 4 else None
        base = banana if start else quadratic(rng)[0]
        point = Point(start) if start else zeros()
        counted = Counted(base)
        solve(counted, point, tol=1e-6)
        ours.append(len(counted.points))

        def negative(x, base=base, point=point):
            parts = np.split(x, np.cumsum([v.size for v in point.theta.values()])[:-1])
            shapes = [v.shape for v in point.theta.values()]
            theta = {k: p.reshape(s) for k, p, s in zip(point.theta, parts, shapes, strict=True)}
            value, gradient = base(Point(theta))
            return -value, -flat(Point(gradient))

        options = {"maxcor": MEMORY, "gtol": 1e-6, "ftol": 1e-15, "maxiter": 5000}
        found = minimize(negative, flat(point), jac=True, method="L-BFGS-B", options=options)
        theirs.append(found.nfev)
    assert sum(ours) < 1.15 * sum(theirs)


def test_a_curved_valley(seed):
    start = Point({"x": np.random.default_rng(seed).normal(size=2)})
    counted = Counted(banana)
    found, converged = solve(counted, start)
    assert converged
    np.testing.assert_allclose(found.theta["x"], 1.0, atol=1e-5)
    assert len(set(counted.points)) == len(counted.points)  # nothing is evaluated twice


def test_repeated_parameters_count_once(seed):
    """A symmetric matrix is learned as its upper triangle is, step by step."""
    rng = np.random.default_rng(seed)
    whole = rng.normal(size=(4, 4))
    best = whole + whole.T
    upper = np.triu_indices(4)
    scales = rng.uniform(1, 50, size=(4, 4))
    scales = np.triu(scales) + np.triu(scales, 1).T

    def symmetric(point):
        away = point.theta["x"] - best
        return -0.25 * float(np.sum(scales * away**2)), {"x": -scales * away}

    def once(point):
        away = point.theta["x"] - best[upper]
        weight = np.where(upper[0] == upper[1], 0.5, 1.0) * scales[upper]
        return -0.5 * float(np.sum(weight * away**2)), {"x": -scales[upper] * away}

    def norms(objective, start, **options):
        seen = []
        solve(objective, start, look=lambda *a: seen.append(a[2]), **options)
        return seen

    assert len(norms(symmetric, Point({"x": np.zeros((4, 4))}), multiplicity={"x": 2})) < 60
    best[np.diag_indices(4)] = 0.0  # the diagonal holds each parameter once
    first = norms(symmetric, Point({"x": np.zeros((4, 4))}), multiplicity={"x": 2})
    off = upper[0] != upper[1]
    upper = upper[0][off], upper[1][off]
    second = norms(once, Point({"x": np.zeros(6)}))
    np.testing.assert_allclose(first[:8], second[:8], rtol=1e-6)


def test_lasso(seed):
    """The optimum is where the gradient is the penalty's, and inside its bounds at zero."""
    objective, matrix, best = quadratic(np.random.default_rng(seed), spread=20.0)
    groups = {"a": np.zeros(10, int), "b": np.zeros((4, 5), int)}
    found, converged = solve(objective, zeros(), L1(2.0, groups), tol=1e-8)
    assert converged
    x = flat(found)
    pull = matrix @ (best - x)
    assert 0 < np.count_nonzero(x) < 30
    np.testing.assert_allclose(pull[x != 0], 2.0 * np.sign(x[x != 0]), atol=1e-5)
    assert (np.abs(pull[x == 0]) <= 2.0 + 1e-5).all()


def test_the_value_reported_is_that_of_the_energy(seed):
    objective = quadratic(np.random.default_rng(seed))[0]
    groups = {"a": np.zeros(10, int), "b": np.zeros((4, 5), int)}
    for penalty in (L1(0.5, groups), L2(0.5, groups)):

        def check(point, value, _norm, penalty=penalty):
            expected = objective(point)[0] - penalty.value(point.theta)
            assert value == pytest.approx(expected, rel=1e-12)

        solve(objective, zeros(), penalty, max_iter=20, look=check)


# Going on ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [L1, L2])
def test_a_solver_goes_on_bit_for_bit(kind, seed):
    objective = quadratic(np.random.default_rng(seed))[0]
    penalty = kind(0.1, {"a": np.zeros(10, int), "b": np.zeros((4, 5), int)})
    solver = make_solver(penalty, 1e-8)
    energy, paths = zeros(), []
    at = answer(solver.start(energy), objective)
    for _ in range(2 * MEMORY + 5):
        energy, at = answer(solver.step(energy, at), objective)
        paths.append(flat(energy))
    for n_before in (1, 7, MEMORY + 3):
        energy = zeros()
        at = answer(make_solver(penalty, 1e-8).start(energy), objective)
        for _ in range(n_before):
            energy, at = answer(make_solver(penalty, 1e-8).step(energy, at), objective)
        before = pickle.dumps(at)
        energy, at = pickle.loads(pickle.dumps((energy, at)))
        for expected in paths[n_before:]:
            energy, at = answer(solver.step(energy, at), objective)
            np.testing.assert_array_equal(flat(energy), expected)
        assert len(before) < 8 * 30 * (2 * MEMORY + 3) + 20_000


# The end -----------------------------------------------------------------------------------


def test_a_start_at_the_maximum_is_left_alone(seed):
    objective, _, best = quadratic(np.random.default_rng(seed))
    start = Point({"a": best[:10], "b": best[10:].reshape(4, 5)})
    seen = []
    found, converged = solve(objective, start, look=lambda *a: seen.append(a))
    assert converged
    assert not seen
    assert found is start


def test_rounding_ends_as_converged(seed):
    objective = quadratic(np.random.default_rng(seed))[0]
    counted = Counted(objective)
    found, converged = solve(counted, zeros(), tol=0.0)
    assert converged
    assert len(counted.points) < 500
    assert np.abs(flat(Point(objective(found)[1]))).max() < 1e-4


def test_an_objective_that_contradicts_its_gradient_stalls():
    """Whatever it looks like, there is nowhere better, and that is no maximum."""

    def objective(point):
        return -float(np.abs(point.theta["x"]).sum()), {"x": np.ones(3)}

    start = Point({"x": np.zeros(3)})
    found, converged = solve(objective, start, tol=1e-6)
    assert found is start
    assert not converged


def test_values_that_are_not_finite_are_avoided():
    def objective(point):
        x = point.theta["x"]
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(np.sum(np.log(x) - 10 * x)), {"x": 1 / x - 10}

    found, converged = solve(objective, Point({"x": np.full(3, 0.9)}))
    assert converged
    np.testing.assert_allclose(found.theta["x"], 0.1)


def test_parameters_without_a_maximum_grow_until_the_gradient_is_small():
    def objective(point):
        x = point.theta["x"]
        return -float(np.logaddexp(0, -x).sum()), {"x": 1 / (1 + np.exp(x))}

    found, converged = solve(objective, Point({"x": np.zeros(2)}), tol=1e-6)
    assert converged
    assert (found.theta["x"] > 13).all()


def test_iterations_are_limited(seed):
    objective = quadratic(np.random.default_rng(seed), spread=1e6)[0]
    seen = []
    _, converged = solve(objective, zeros(), max_iter=3, look=lambda *a: seen.append(a[1]))
    assert not converged
    assert len(seen) == 3
    assert seen == sorted(seen)


# The line search ---------------------------------------------------------------------------


@dataclass(frozen=True)
class On:
    step: float
    value: float
    slope: float


CURVES = {
    "far too short": (lambda t: -((t - 300) ** 2), lambda t: -2 * (t - 300)),
    "far too long": (lambda t: -((t - 3e-4) ** 2), lambda t: -2 * (t - 3e-4)),
    "waves": (lambda t: np.sin(9 * t) - 0.1 * t**2, lambda t: 9 * np.cos(9 * t) - 0.2 * t),
    "steep, then flat": (lambda t: -np.exp(-50 * t), lambda t: 50 * np.exp(-50 * t)),
    "nan": (lambda t: np.log(0.1 - t) + 30 * t, lambda t: 30 - 1 / (0.1 - t)),
}


def line_search(point_at, first):
    """Return the result of the line search over a function of the step."""

    def evaluate(step):
        return (yield step)

    return answer(wolfe_point(evaluate, first), point_at)


@pytest.mark.parametrize("name", CURVES)
def test_wolfe_conditions_hold(name):
    value, slope = CURVES[name]
    steps = []

    def visit(t):
        steps.append(t)
        with np.errstate(invalid="ignore", divide="ignore"):
            return On(t, float(value(np.float64(t))), float(slope(np.float64(t))))

    first = visit(0.0)
    found = line_search(visit, first)
    assert found.value >= first.value + C1 * found.step * first.slope
    if name != "steep, then flat":
        assert abs(found.slope) <= C2 * first.slope
    assert len(steps) == len(set(steps))
    assert len(steps) < 15


def test_nowhere_better():
    assert line_search(lambda t: On(t, -t, 1.0), On(0.0, 0.0, 1.0)) is None


def test_a_line_without_end_is_left_at_the_best_point():
    found = line_search(lambda t: On(t, t, 1.0), On(0.0, 0.0, 1.0))
    assert found.step > 1e6
