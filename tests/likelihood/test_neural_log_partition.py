"""Tests of log Z of neural potentials, and of the sums of densities over rounded numbers."""

import warnings

import numpy as np
import pytest
import twins
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, poisson
from zoo import enumerate_states

from skmrf import NNMRFBayesClassifier, NNMRFDensity
from skmrf._data.classes import cell_points, find_cells, spread_over_cells
from skmrf._data.mixed import learn_columns
from skmrf._data.supports import find_grid, find_outer_ends, find_smallest, score_grids
from skmrf._data.transforms import learn_transform
from skmrf._utils.rows import Batch
from skmrf._utils.warn import LogPartitionWarning
from skmrf.energies import NeuralEnergy
from skmrf.learners import Grid
from skmrf.learners.initial_mixture import normal_beliefs
from skmrf.likelihood.neural import grid, grid_fits, grid_log_partition, neural_log_partition
from skmrf.variational.mixtures import Mixture

LOG_2PI = np.log(2 * np.pi)


def neural(seed, n_states, edges=None, *, scale=1.0, coupling=0.5):
    """Return a random energy with strong networks; with scale 0 only the base is left."""
    rng = np.random.default_rng(seed)
    n = len(n_states)
    m = n_states.count(0)
    A = rng.normal(0, coupling, size=(m, m))
    energy = NeuralEnergy.random(
        n_states,
        [(i, j) for i in range(n) for j in range(i)] if edges is None else edges,
        node_layers=(4, 3),
        edge_layers=(4, 3),
        mean=rng.normal(0, 2, size=m),
        precision=A @ A.T + 0.3 * np.eye(m),
        random_state=rng,
    )
    theta = {k: v + rng.normal(0, 0.4, v.shape) for k, v in energy.theta.items()}
    for v in theta.values():
        v[:, -1] *= scale
    return energy.with_theta(theta)


def rows_of(energy, n, rng):
    columns = [
        rng.normal(size=n) if q == 0 else rng.integers(0, q, n).astype(float)
        for q in energy.n_states
    ]
    return np.stack(columns, axis=1)


# Grid --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_states", "n_points"),
    [([0], None), ([0, 0], 201), ([0, 0, 0], 101), ([3, 0], None), ([0, 2, 0, 4], 101)],
    ids=str,
)
def test_base_without_networks_has_a_closed_form(n_states, n_points, seed):
    """Log Z of the base is a Gaussian integral times the number of states."""
    energy = neural(seed, n_states, scale=0.0)
    found = grid_log_partition(energy, n_points)
    expected = 0.5 * len(energy.mean) * LOG_2PI - 0.5 * np.linalg.slogdet(energy.precision)[1]
    expected += np.log([q for q in n_states if q]).sum()
    assert_allclose(found.value, expected, atol=1e-6)
    assert found.lower <= found.value <= found.upper
    assert found.std_error < 1e-3
    assert found.method == "grid"
    assert found.converged


def test_networks_of_discrete_variables_keep_the_gaussian(seed):
    """Networks of discrete variables do not change the Gaussian."""
    energy = neural(seed, [0, 3, 2], [(1, 2)])
    energy.theta["nodes"][0, -1] = 0.0
    states = np.array(list(np.ndindex(3, 2)), dtype=float)
    X = np.column_stack([np.full(6, energy.mean[0]), states])
    expected = twins.log_sum(energy.log_potential(X))
    expected += 0.5 * (LOG_2PI - np.log(energy.precision[0, 0]))
    assert_allclose(grid_log_partition(energy).value, expected, atol=1e-9)


def test_two_continuous_variables_against_another_grid(seed):
    """Compare with a trapezoidal sum over another box, and check the estimated error."""
    energy = neural(seed, [0, 0])
    found = grid_log_partition(energy, 301)
    reach = 9.3 * np.sqrt(np.diag(energy.covariance))
    x, y = (energy.mean[k] + np.linspace(-reach[k], reach[k], 373) for k in range(2))
    X = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    area = (x[1] - x[0]) * (y[1] - y[0])
    expected = twins.log_sum(energy.log_potential(X)) + np.log(area)
    assert_allclose(found.value, expected, atol=2e-3)
    assert found.std_error < 1e-2


def test_too_coarse_grid_does_not_converge(seed):
    found = grid_log_partition(neural(seed, [0, 0]), 7)
    exact = grid_log_partition(neural(seed, [0, 0]), 301).value
    assert abs(found.value - exact) > 1e-2
    assert found.std_error > 1e-2


def test_grid_points(seed):
    energy = neural(seed, [2, 0, 3])
    X, log_weights = grid(energy, 11)
    assert X.shape == (2 * 11 * 3, 3)
    assert len(np.unique(X, axis=0)) == len(X)
    deviation = 1 / np.sqrt(energy.precision[0, 0])
    assert_allclose(X[:, 1].min(), energy.mean[0] - 8 * deviation)
    assert_allclose(X[:, 1].max(), energy.mean[0] + 8 * deviation)
    assert log_weights.shape == (len(X),)
    x = np.unique(X[:, 1]) - energy.mean[0]
    assert len(x) == 11
    assert_allclose(x, -x[::-1], atol=1e-12)


def test_grid_of_discrete_variables():
    X, log_weights = grid(neural(0, [2, 3]))
    assert X.tolist() == [[i, j] for i in range(2) for j in range(3)]
    assert_allclose(log_weights, 0.0)


def gaussian_sum(energy, means, deviations, n_points=None):
    """Return the sum over the grid of a product of normal densities."""
    X, log_weights = grid(energy, n_points)
    numbers = np.flatnonzero(energy.n_states == 0)
    logs = norm.logpdf(X[:, numbers], means, deviations).sum(axis=1)
    return np.exp(logs + log_weights).sum()


@pytest.mark.parametrize("precision", [0.02, 1.0, 50.0])
def test_grid_sums_equal_integrals(precision, seed):
    """Check the base, and bumps near its mean that are much narrower than a wide base."""
    base = 1 / np.sqrt(precision)
    rng = np.random.default_rng(seed)
    for n_states, widths in (([0], [0.01, 0.1]), ([2, 0, 0], [0.1])):
        m = n_states.count(0)
        energy = NeuralEnergy.random(
            n_states, [], mean=rng.normal(size=m), precision=precision * np.eye(m), random_state=0
        )
        states = max(n_states, default=0) or 1
        assert_allclose(gaussian_sum(energy, energy.mean, base), states, rtol=1e-6)
        for width in widths:
            centre = energy.mean + rng.uniform(-2, 2, size=m) * min(1.0, base)
            found = gaussian_sum(energy, centre, width * min(1.0, base))
            assert_allclose(found, states, rtol=1e-4)


def even_grid_sum(energy, centre, width, n_points):
    """Return the same sum as :func:`gaussian_sum` for one variable, over evenly spaced points."""
    reach = 8.0 * np.sqrt(energy.covariance[0, 0])
    x, step = np.linspace(-reach, reach, n_points, retstep=True)
    return norm.pdf(x + energy.mean, centre, width).sum() * step


def test_grid_is_dense_near_the_mean():
    """An evenly spaced grid misses a narrow bump or counts it twice."""
    energy = NeuralEnergy.random([0], [], precision=0.02 * np.eye(1), random_state=0)
    centres = np.linspace(-1.5, 1.5, 7)
    found = [gaussian_sum(energy, c, 0.05, 401) for c in centres]
    even = [even_grid_sum(energy, c, 0.05, 401) for c in centres]
    assert_allclose(found, 1.0, rtol=1e-3)
    assert np.abs(np.array(even) - 1.0).max() > 0.1


def test_narrow_networks_on_a_wide_base(seed):
    """The network of one variable is a step near the mean, so log Z has a closed form."""
    rng = np.random.default_rng(seed)
    at, scale = rng.uniform(-1, 1), 3.0
    energy = NeuralEnergy.random(
        [0], [], node_layers=(2,), precision=0.02 * np.eye(1), random_state=0
    )
    row = np.array([400.0, -400.0, -400 * at, 400 * at, 1.0, -1.0, 0.0, scale])
    energy = energy.with_theta({"nodes": row[None], "edges": energy.theta["edges"]})
    below = norm.cdf(at, energy.mean[0], 1 / np.sqrt(0.02))
    expected = np.log(below * np.exp(-scale) + (1 - below) * np.exp(scale))
    expected += 0.5 * (LOG_2PI - np.log(0.02))
    assert_allclose(grid_log_partition(energy).value, expected, atol=2e-3)


def test_grid_fits():
    assert grid_fits(neural(0, [0, 0, 0, 2], []))
    assert not grid_fits(neural(0, [0, 0, 0, 3], []))
    assert not grid_fits(neural(0, [0] * 4, []))
    assert grid_fits(neural(0, [1000, 1000], []))
    assert not grid_fits(neural(0, [1000, 1000, 10], []))


# Methods -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "exact", "grid"])
def test_discrete_models_are_exact(method, seed):
    energy = neural(seed, [2, 3, 4])
    _, log_f = enumerate_states(energy.factor_graph())
    found = neural_log_partition(energy, normal_beliefs(energy), method=method)
    assert_allclose(found.value, twins.log_sum(log_f), atol=1e-10)
    assert found.std_error == 0
    assert found.lower == found.upper == found.value


def test_auto_uses_the_grid_if_it_fits(seed):
    energy = neural(seed, [0, 2])
    found = neural_log_partition(energy, normal_beliefs(energy))
    assert found.method == "grid"
    assert found.value == grid_log_partition(energy).value


def test_unsupported_methods_raise(seed):
    energy = neural(seed, [0] * 4, [])
    beliefs = normal_beliefs(energy)
    with pytest.raises(ValueError, match="takes at most three continuous variables"):
        neural_log_partition(energy, beliefs, method="grid")
    with pytest.raises(ValueError, match="method must be"):
        neural_log_partition(energy, beliefs, method="bethe")
    with pytest.raises(ValueError, match="A model with continuous variables has no tables"):
        neural_log_partition(energy, beliefs, method="exact")
    for wrong in ({"n_chains": 1}, {"n_temperatures": 0}, {"max_width": -1.0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            neural_log_partition(energy, beliefs, **wrong)


def test_auto_takes_no_grid_with_many_terms(seed):
    """The grid of 8 million points has 78 potentials at each; its sum takes a minute."""
    energy = neural(seed, [0] + [2] * 11)
    assert grid_fits(energy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogPartitionWarning)
        given = {"n_chains": 8, "n_temperatures": 2, "random_state": seed}
        found = neural_log_partition(energy, normal_beliefs(energy), **given)
    assert found.method == "ais"


# Annealing ---------------------------------------------------------------------------------

MODELS = {
    "numbers": [0, 0],
    "mixed": [0, 3, 0],
    "states": [3, 2, 4],
    "one state": [0, 1],
}


def check_annealed(energy, beliefs, exact, seed, *, n_runs=8, **options):
    """Check that intervals contain the value as often as limits of 97.5% each should.

    Fewer than four of eight intervals would have a probability of 1 in 50,000.
    """
    rng = np.random.default_rng(seed)
    held = 0
    for _ in range(n_runs):
        found = neural_log_partition(
            energy, beliefs, method="ais", random_state=rng.integers(2**31), **options
        )
        assert found.method == "ais"
        assert found.converged
        assert found.lower <= found.value <= found.upper
        assert abs(found.value - exact) < 5 * found.std_error + 1e-9
        held += found.lower <= exact <= found.upper
    assert held >= n_runs / 2


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_annealing_from_the_base(name, seed):
    energy = neural(seed, MODELS[name])
    exact = grid_log_partition(energy, 201 if MODELS[name].count(0) == 2 else None).value
    options = {"n_chains": 64, "n_temperatures": 40}
    check_annealed(energy, normal_beliefs(energy), exact, seed, **options)


@pytest.mark.long
def test_annealing_from_poor_beliefs(seed):
    """A poor mixture widens the interval without bias, as the proposal contains the base."""
    energy = neural(seed, [0, 0])
    rng = np.random.default_rng(seed)
    beliefs = Mixture(
        energy.n_states,
        np.log([0.5, 0.5]),
        rng.normal(0, 2, size=(2, 2)),
        np.tile(0.3 * np.eye(2), (2, 1, 1)),
        np.zeros((2, 0, 1)),
    )
    exact = grid_log_partition(energy, 201).value
    options = {"n_chains": 64, "n_temperatures": 80, "max_width": 10.0}
    check_annealed(energy, beliefs, exact, seed, **options)


@pytest.mark.parametrize("name", MODELS)
def test_annealing_with_few_temperatures_and_many_chains(name, seed):
    """Check the estimate in a setting that is sensitive to errors of the moves.

    Chains hardly mix here. The result is only correct if the moves leave each tempered distribution
    invariant and if the backward chains start from the model.
    """
    energy = neural(seed, MODELS[name])
    exact = grid_log_partition(energy, 201 if MODELS[name].count(0) == 2 else None).value
    options = {"n_chains": 10_000, "n_temperatures": 3, "random_state": seed}
    found = neural_log_partition(energy, normal_beliefs(energy), method="ais", **options)
    error = 5 / np.sqrt(found.ess)
    assert error < 0.15
    assert abs(found.value - exact) < error
    assert found.std_error < 0.6 * error


def test_annealing_from_the_model_itself_is_exact(seed):
    """If the beliefs equal the model, every weight is Z."""
    energy = neural(seed, [0, 3], scale=0.0)
    found = neural_log_partition(
        energy, normal_beliefs(energy), method="ais", n_chains=16, random_state=seed
    )
    assert_allclose(found.value, grid_log_partition(energy).value, atol=1e-8)
    assert_allclose(found.upper - found.lower, 0.0, atol=1e-8)


def test_same_seed_gives_same_estimate(seed):
    energy = neural(seed, [0, 3])
    options = {"method": "ais", "n_chains": 16, "n_temperatures": 4, "max_width": 100.0}
    a, b, c = (
        neural_log_partition(energy, normal_beliefs(energy), random_state=k, **options).value
        for k in (seed, seed, seed + 1)
    )
    assert a == b
    assert a != c


def test_wide_interval_raises_a_warning(seed):
    energy = neural(seed, [0, 0], scale=8.0)
    options = {"n_chains": 4, "n_temperatures": 1, "max_width": 1e-3, "random_state": seed}
    with pytest.warns(UserWarning, match="Increase n_chains or n_temperatures"):
        found = neural_log_partition(energy, normal_beliefs(energy), method="ais", **options)
    assert not found.converged


# Exact gradient ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_states", [[0, 0], [3, 0], [2, 3]], ids=str)
def test_gradient_of_the_exact_likelihood(n_states, seed):
    energy = neural(seed, n_states)
    rng = np.random.default_rng(seed)
    batch = Batch(rows_of(energy, 10, rng), None, rng.normal(size=10))
    learner = Grid(n_points=21)
    state = learner.init(energy, batch, rng)
    value, gradient = learner.objective(energy, batch, state)
    expected = twins.differences(lambda e: learner.objective(e, batch, state)[0], energy, h=1e-5)
    for name, values in gradient.items():
        assert_allclose(values, expected[name], rtol=1e-4, atol=1e-5)
        assert np.abs(values).max() > 1e-2
    shares = np.exp(batch.log_weights - twins.log_sum(batch.log_weights))
    exact = grid_log_partition(energy, None if n_states.count(0) < 2 else 201).value
    assert_allclose(value, shares @ energy.log_potential(batch.X) - exact, atol=0.1)
    positive, negative, same, _ = learner.step(energy, batch, state, rng)
    assert same is state
    for name, values in energy.gradient(positive, negative, batch).items():
        assert_allclose(values, gradient[name], rtol=1e-9, atol=1e-12)


def test_grid_learner_raises_for_too_many_variables(seed):
    energy = neural(seed, [0] * 4, [])
    batch = Batch(np.zeros((3, 4)))
    rng = np.random.default_rng(seed)
    with pytest.raises(ValueError, match='Use learner="variational"'):
        Grid().init(energy, batch, rng)
    with pytest.raises(ValueError, match="n_points"):
        Grid(n_points=2).init(neural(seed, [0]), batch, rng)


# Rounded numbers ------------------------------------------------------------------------


def count_rows(n, seed):
    """Return numbers and counts of two classes, and the exact log-probabilities of the classes."""
    rng = np.random.default_rng(seed)
    y, z = rng.integers(2, size=n), rng.normal(size=n)
    rates = np.array([0.6, 1.6]) * np.exp(0.4 * z[:, None])
    X = np.column_stack([z, rng.poisson(rates[np.arange(n), y])])
    logs = poisson.logpmf(X[:, 1:], rates)
    return X, y, logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("potentials", ["gaussian", "network"])
def test_class_densities_of_counts(potentials, seed):
    X, y, exact = count_rows(700, seed)
    model = NNMRFBayesClassifier(potentials, column_types={1: "integer"}, random_state=seed)
    model.fit(X[:300], y[:300])
    rows, labels = X[300:], y[300:]
    joint = [model.predict_joint_log_proba(np.c_[rows[:, 0], k + 0 * labels]) for k in range(40)]
    marginal = model.predict_joint_log_proba(np.c_[rows[:, 0], np.nan * labels])
    sums = np.exp(np.logaddexp.reduce(joint) - marginal)
    assert_allclose(sums.mean(axis=0), 1.0, atol=0.05)
    logs = exact[300:] - model.predict_log_proba(rows)
    assert logs[np.arange(400), labels].mean() < 0.05


@pytest.mark.parametrize("width", [1.0, 0.1])
def test_spread_over_cells(width, seed):
    rng = np.random.default_rng(seed)
    x, labels = width * rng.integers(3, size=200), rng.integers(2, size=200)
    x[:2] = np.nan
    columns = learn_columns(x[:, None], [x], ["x"], "continuous", "auto")
    assert find_cells(columns, [x]) == pytest.approx({0: width})
    assert not find_cells(columns, [x + rng.random(200)])
    x[2] = 1e-9 * width  # a rounding error
    assert find_cells(columns, [x]) == pytest.approx({0: width})
    x[2] = 0.0
    (spread,) = spread_over_cells([x], labels, columns, {0: width})
    for value in width * np.arange(3):
        for k in range(2):
            shifts = np.sort(spread[(x == value) & (labels == k)] - value) / width
            n = len(shifts)
            assert_allclose(shifts, (np.arange(n) + 0.5) / n - 0.5, atol=1e-9)
    points = [point[0] for point in cell_points([x], columns, {0: width})]
    assert len(points) == 8
    assert_allclose(np.mean(points, axis=0), x)
    assert_allclose(np.ptp(points, axis=0)[2:], (1 - 1 / len(points)) * width)


def test_numbers_beyond_the_bounds_of_doses(seed):
    """They have a positive density, however far they are, and do not change the other columns."""
    rng = np.random.default_rng(seed)
    doses = rng.choice([0, 5, 15, 50, 100, 300], 300)
    X = np.column_stack([doses, 0.05 * doses + rng.normal(size=300)])
    model = NNMRFDensity(column_types=["integer", "continuous"], random_state=seed).fit(X)
    far, none = [[d, np.nan] for d in (-20, 700, -1e17, 1e17)], [[np.nan, np.nan]]
    assert np.isfinite(model.score_samples(far)).all()
    assert_allclose(model.marginals(far)[1], np.repeat(model.marginals(none)[1], 4, axis=0))
    assert_allclose(model.predict(far)[:, 1], model.predict(none)[0, 1])
    assert_array_equal(model.predict(far)[:, 0], np.array(far)[:, 0])


GRIDS = {  # values of random whole numbers, their type, the unit, the step and the origin
    "half": (lambda k: k + 0.5, "non-negative", 0.5, 1.0, 0.5),
    "tenths": (lambda k: np.round(1.0 * k + 0.7, 1), "non-negative", 0.1, 1.0, 0.7),
    "every fourth": (lambda k: 4.0 * k + 3.0, "integer", 1.0, 4.0, 3.0),
    "years": (lambda k: 5.0 * k + 1952.0, "integer", 1.0, 5.0, 2.0),
    "negative": (lambda k: 5.0 * k - 32.0, "integer", 1.0, 5.0, 3.0),
    "thousands": (lambda k: 1000.0 * k, "integer", 1000.0, 1000.0, 0.0),
    "percentages": (lambda k: np.round(100.0 * k / 84, 2), "non-negative", 0.01, 100.0 / 84, 0.0),
    "eighths": (lambda k: np.round(k / 8, 2), "non-negative", 0.01, 0.125, 0.0),
    "with offset": (lambda k: np.round(k / 7 + 0.1234, 4), "non-negative", 1e-4, 1 / 7, 0.1234),
    "not rounded": (lambda k: k / 7, "non-negative", 1 / 7, 1 / 7, 0.0),
}


@pytest.mark.parametrize("name", GRIDS)
def test_find_grid(name, seed):
    convert, kind, unit, step, origin = GRIDS[name]
    x = convert(np.random.default_rng(seed).permutation(np.append(np.arange(30), np.full(200, 9))))
    grid = find_grid(x, kind)
    assert_allclose([grid.unit, grid.step], [unit, step], rtol=1e-3)
    places = (grid.origin - origin) / step
    assert_allclose(places, np.rint(places), atol=0.01)


def test_no_grid_by_chance(seed):
    """A grid that is coarser than the decimals of the values needs many values."""
    rng = np.random.default_rng(seed)
    for decimals in (0, 1, 2, 3):
        for size in (8, 20, 100):
            x = np.round(rng.choice(rng.gamma(3, size=size), 400), decimals)
            divisor = np.gcd.reduce(np.rint(x * 10.0**decimals).astype(int))
            assert find_grid(x, "non-negative").step == divisor / 10.0**decimals
    assert find_grid(rng.permutation(100) / 8 + 0.1, "non-negative").step == 0.0  # no equal values
    assert find_grid(np.array([3.0, 7.0, 15.0, 3.0]), "integer").step == 1.0
    assert find_grid(np.array([10007.0, 12510.0]), "integer").step == 1.0
    assert find_grid(np.array([3.1234, 8.9127, 3.1234]), "continuous").step == 1e-4
    assert find_grid(np.array([17.0, 317.0, 617.0]), "integer").step == 1.0


@pytest.mark.parametrize("n_equal", [0, 400])
@pytest.mark.parametrize("name", ["half", "every fourth", "percentages", "eighths"])
def test_densities_of_equidistant_values(name, n_equal, seed):
    """The density times the unit is a probability, and few values are between the possible ones."""
    convert, kind, unit, _, _ = GRIDS[name]
    rng = np.random.default_rng(seed)
    k = np.concatenate([rng.poisson(12, 400), np.arange(5, 20), np.full(n_equal, 14)])
    X = np.column_stack([convert(k), k + rng.normal(size=len(k))])
    model = NNMRFDensity(column_types=[kind, "continuous"], random_state=seed).fit(X)
    assert_array_equal(model._columns.transforms[0].spikes, convert(np.array([14] * (n_equal > 0))))
    possible = convert(np.arange(100))
    places = np.arange(1, round(possible[-1] / unit))
    others = np.setdiff1d(places, np.rint(possible / unit)) * unit
    logs = [model.score_samples(np.column_stack([x, 0 * x + np.nan])) for x in (possible, others)]
    assert np.isfinite(logs[1]).all()
    sums = [np.exp(part).sum() * unit for part in logs]
    assert_allclose(sums, [1.0, 0.0], atol=0.02)  # 0.125 is rounded to 0.12 or 0.13
    assert_allclose(sum(sums), 1.0, atol=0.005)
    shares = np.bincount(k, minlength=100) / len(k)
    assert np.abs(np.exp(logs[0]) * unit - shares).sum() < 0.3


@pytest.mark.parametrize("name", ["half", "every fourth", "percentages", "not rounded"])
def test_densities_and_samples_of_equidistant_values(name, seed):
    """The probabilities of all possible values sum to one, and samples are possible values."""
    convert, kind, unit, step, _ = GRIDS[name]
    rng = np.random.default_rng(seed)
    k = np.append(rng.poisson(12, 400), [5, 7, 9, 11, 13, 15, 17, 19])
    X = np.column_stack([convert(k), k + rng.normal(size=len(k))])
    model = NNMRFDensity(column_types=[kind, "continuous"], random_state=seed).fit(X)
    possible = convert(np.arange(61))
    query = np.column_stack([possible, np.full(61, np.nan)])
    assert_allclose(unit * np.exp(model.score_samples(query)).sum(), 1.0, atol=0.02)
    between = np.column_stack([possible[:-1] + step / 3, np.full(60, np.nan)])
    assert np.isfinite(model.score_samples(between)).all()
    transform, n = model._columns.transforms[0], len(X)
    known = np.setdiff1d(X[:, 0], transform.spikes)
    factors = score_grids(model._columns, [np.append(known, known[0] + step / 3), known[:1]])
    if step > 1.01 * transform.unit:
        factor = transform.step / transform.unit * n / (n + 1)
        assert_allclose(factors, np.log(np.append(np.full(len(known), factor), 1 / (n + 1))))
    missing = np.array([[np.nan, 12.0]])
    draws = model.sample(200, given=np.repeat(missing, 200, axis=0), random_state=seed)[:, 0]
    quantiles = model.marginals(missing)[0].ravel()
    for x in (draws, quantiles, model.sample(200)[:, 0], model.predict(missing)[:, 0]):
        assert_allclose(np.abs(x[:, None] - possible).min(axis=1), 0.0, atol=0.02 * step)
        assert np.isin(x, X[:, 0]).mean() > 0.9


@pytest.mark.parametrize("offset", [0.3, 0.7, 0.99])
def test_smallest_of_equidistant_values(offset, seed):
    """Numbers between the bound 0 and the smallest possible value are rounded to this value."""
    rng = np.random.default_rng(seed)
    k = np.append(rng.geometric(0.3, 400) - 1, np.arange(12))
    X = np.column_stack([np.round(k + offset, 2), k + rng.normal(size=len(k))])
    types = ["non-negative", "continuous"]
    transform = learn_transform(X[:, 0], np.ones(len(k)), types[0])
    assert transform.inverse(np.linspace(-40.0, 5.0, 99)).min() == offset
    assert find_smallest(transform) == offset
    assert_allclose(find_outer_ends(transform)[0], offset - 0.5)
    model = NNMRFDensity(column_types=types, random_state=seed).fit(X)
    query = np.column_stack([np.arange(60) + offset, np.full(60, np.nan)])
    unit = model._columns.transforms[0].unit
    assert unit == (0.01 if offset == 0.99 else 0.1)
    assert_allclose(unit * np.exp(model.score_samples(query)).sum(), 1.0, atol=0.006)
    low = np.repeat([[np.nan, -6.0]], 200, axis=0)
    draws = model.sample(200, given=low, random_state=seed)[:, 0]
    assert_allclose(draws - offset, np.rint(draws - offset), atol=1e-9)
    for x in (draws, model.marginals(low[:1])[0].ravel(), model.predict(low[:1])[:, 0]):
        assert x.min() >= offset
