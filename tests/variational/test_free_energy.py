"""Tests of mixtures: selection of components, free energy of beliefs, values, bounds, ascent."""

from dataclasses import replace

import numpy as np
import pytest
import twins
from numpy.testing import assert_allclose, assert_array_equal
from potentials import (
    COMPLETE,
    FINE,
    MIXED,
    base_precision,
    each_entropy,
    mixture_of,
    neural,
    smooth,
)
from scipy.stats import multivariate_normal

from skmrf._utils.phases import States
from skmrf.energies import NeuralEnergy
from skmrf.inference import log_partition
from skmrf.likelihood.neural import grid_log_partition
from skmrf.variational import mixture_selection
from skmrf.variational.expectation_maximization import (
    MixtureRows,
    Prior,
    fit_mixture,
    start_mixture,
)
from skmrf.variational.free_energy import QuadratureSettings, ascend, free_energy, infer
from skmrf.variational.mixture_selection import learn_mixture
from skmrf.variational.mixtures import Mixture, missing_patterns
from skmrf.variational.quadrature import ConditionalMoments, integrate, quadrature

TREE = [(0, 1), (2, 1), (1, 3)]
LOG_2PI = np.log(2 * np.pi)


def gaussian(seed, n_states, edges, *, tree=False):
    """Return the base alone, with couplings on the edges only for a tree."""
    rng = np.random.default_rng(seed)
    energy = neural(seed, n_states, edges, scale=0.0)
    m = len(energy.mean)
    precision = base_precision(rng, m)
    if tree:
        precision = np.eye(m)
        for i, j in edges:
            precision[i, j] = precision[j, i] = rng.uniform(-0.5, 0.5)
    return replace_base(energy, rng.normal(size=m), precision)


def replace_base(energy, mean, precision):
    return NeuralEnergy(energy.theta, energy.edges, energy.n_states, energy.shape, mean, precision)


def gaussian_log_partition(energy):
    m = len(energy.mean)
    value = 0.5 * m * LOG_2PI - 0.5 * np.linalg.slogdet(energy.precision)[1]
    return value + np.log(energy.n_states[energy.n_states > 0]).sum()


def one_component(mean, covariance, n_states, tables=()):
    """Return a mixture of one component."""
    tables = np.reshape(tables, (1, int((np.array(n_states) > 0).sum()), max(1, *n_states)))
    return Mixture(
        np.array(n_states), np.zeros(1), np.array([mean]), np.array([covariance]), tables
    )


# Derivatives ------------------------------------------------------------------------------


def joint_grid(energy, mixture, n=161):
    """Return grid points of two continuous and one discrete variable, and their volume."""
    axes = []
    numbers = list(energy.numbers)
    step = 1.0
    for i, q in enumerate(energy.n_states):
        if q:
            axes.append(np.arange(q, dtype=float))
            continue
        k = numbers.index(i)
        deviations = np.sqrt(mixture.covariances[:, k, k])
        low = (mixture.means[:, k] - 9 * deviations).min()
        high = (mixture.means[:, k] + 9 * deviations).max()
        axes.append(np.linspace(low, high, n))
        step *= (high - low) / (n - 1)
    return np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=1), step


def log_belief(energy, mixture, X, entropy):
    """Return log b of each row, or its Bethe approximation."""
    if entropy == "joint":
        return mixture.log_density(X)
    total = 0.0
    for i, degree in enumerate(energy.degrees):
        total = total - (degree - 1) * mixture.marginal([i]).log_density(X[:, [i]])
    for i, j in energy.edges:
        pair = sorted((i, j))
        total = total + mixture.marginal(pair).log_density(X[:, pair])
    return total


class GridValue:
    """Free energy of beliefs by a sum over a fixed grid, which is smooth in the beliefs."""

    def __init__(self, energy, mixture, entropy):
        self.energy, self.entropy = energy, entropy
        self.X, self.step = joint_grid(energy, mixture)
        self.log_f = energy.log_potential(self.X)

    def __call__(self, mixture):
        b = np.exp(mixture.log_density(self.X)) * self.step
        log_b = log_belief(self.energy, mixture, self.X, self.entropy)
        return float(b @ (self.log_f - log_b))


def change_parameter(mixture, name, where, h):
    """Return a mixture with one parameter changed; table mass moves from state 0 to state 1."""
    array = getattr(mixture, name).copy()
    array[where] += h
    if name == "covariances" and where[1] != where[2]:
        array[where[0], where[2], where[1]] += h
    if name == "tables":
        array[where[0], where[1], 0] -= h
    if name == "log_weights":
        array -= np.logaddexp.reduce(array)
    return replace(mixture, **{name: array})


def directional_derivative(function, mixture, name, where, h=1e-4):
    up, down = (function(change_parameter(mixture, name, where, sign * h)) for sign in (1, -1))
    return (up - down) / (2 * h)


def assert_terms(function, mixture, terms, within):
    """Check :class:`Expectations` against derivatives of a function of mixtures."""
    shares = np.exp(mixture.log_weights)
    size = 0.0
    for k, share in enumerate(shares):
        checks = [("log_weights", (k,), terms.values[k] - shares @ terms.values)]
        for i in range(mixture.means.shape[1]):
            checks.append(("means", (k, i), terms.slopes[k, i]))
            for j in range(i + 1):
                half = 0.5 if i == j else 1.0
                checks.append(("covariances", (k, i, j), half * terms.curvatures[k, i, j]))
        for d in range(mixture.tables.shape[1]):
            gain = terms.gains[k, d, 1] - terms.gains[k, d, 0]
            checks.append(("tables", (k, d, 1), gain))
        for name, where, expected in checks:
            slope = directional_derivative(function, mixture, name, where)
            size = max(size, abs(slope))
            assert_allclose(share * expected, slope, rtol=0, atol=within, err_msg=str(where))
    assert size > 20 * within


@pytest.mark.parametrize("shape", [(COMPLETE, [0, 2, 0]), ([(2, 0), (0, 1)], [0, 0, 2])], ids=str)
def test_derivatives_of_expected_potentials(shape, seed):
    """Compare with differences of quadrature and of a grid, for smooth networks and many points."""
    edges, n_states = shape
    energy = smooth(seed, n_states, edges)
    mixture = mixture_of(seed, n_states, 2)

    def expected(b):
        grid = quadrature(b, energy.edges, 41)
        return integrate(b, energy.edges, grid, *energy.clique_values(grid.points))

    def value(b):
        return float(np.exp(b.log_weights) @ expected(b).values)

    terms = expected(mixture)
    X, step = joint_grid(energy, mixture)
    log_f = energy.log_potential(X) - energy.base(X)
    on_grid = np.exp(mixture.log_density(X)) @ log_f * step
    assert_allclose(value(mixture), on_grid, atol=1e-6)
    assert_terms(value, mixture, terms, 1e-5)


@each_entropy
def test_derivatives_of_the_free_energy(entropy, seed):
    """Compare values and derivatives with a grid over the joint space."""
    energy = smooth(seed, MIXED, COMPLETE)
    mixture = mixture_of(seed, MIXED, 2)
    on_grid = GridValue(energy, mixture, entropy)
    value, terms = free_energy(energy, mixture, QuadratureSettings(entropy=entropy, **FINE))
    assert_allclose(value, on_grid(mixture), atol=5e-3)
    assert_terms(on_grid, mixture, terms, 1e-2)


def test_default_rule_on_networks_that_are_not_smooth(seed):
    """The default number of points suffices for networks with kinks."""
    energy = neural(seed, MIXED, COMPLETE)
    mixture = mixture_of(seed, MIXED, 2)
    value, _ = free_energy(energy, mixture, QuadratureSettings())
    assert_allclose(value, GridValue(energy, mixture, "joint")(mixture), atol=0.15)


@pytest.mark.long
@each_entropy
def test_gradient_of_fixed_beliefs(entropy, seed):
    """It is the gradient of mean log f over rows minus its expectation under the beliefs."""
    energy = neural(seed, [0, 3, 0], COMPLETE)
    mixture = mixture_of(seed, [0, 3, 0], 2)
    rng = np.random.default_rng(seed)
    X = np.stack([rng.normal(size=8), rng.integers(0, 3, 8), rng.normal(size=8)], axis=1)
    logs = rng.normal(size=8)
    shares = np.exp(logs) / np.exp(logs).sum()
    rule = QuadratureSettings(5, entropy)

    def difference(e):
        return shares @ e.log_potential(X) - free_energy(e, mixture, rule)[0]

    points = quadrature(mixture, energy.edges, rule.n_points).points
    found = energy.gradient(States(X, None, logs), points)
    expected = twins.differences(difference, energy, h=1e-6)
    for name, values in found.items():
        assert_allclose(values, expected[name], rtol=1e-5, atol=1e-7)
        assert np.abs(values).max() > 1e-2


# Values -----------------------------------------------------------------------------------


def test_one_component_is_mean_field_of_states(seed):
    n_states = [2, 3, 4]
    energy = neural(seed, n_states, COMPLETE)
    mixture = mixture_of(seed, n_states, 1)
    singles = [mixture.tables[0, d, :q] for d, q in enumerate(n_states)]
    expected = twins.product_bound(energy.factor_graph(), singles)[1]
    for entropy in ("joint", "bethe"):
        assert_allclose(
            free_energy(energy, mixture, QuadratureSettings(3, entropy))[0], expected, atol=1e-10
        )


def test_one_component_is_mean_field(seed):
    """Compare with expected log f by a grid, and entropies by formulas."""
    energy = smooth(seed, MIXED, COMPLETE)
    mixture = mixture_of(seed, MIXED, 1, diagonal=True)
    X, step = joint_grid(energy, mixture)
    expected = np.exp(mixture.log_density(X)) @ energy.log_potential(X) * step
    variances, p = np.diag(mixture.covariances[0]), mixture.tables[0, 0]
    expected += 0.5 * (1 + LOG_2PI + np.log(variances)).sum() - p @ np.log(p)
    for entropy in ("joint", "bethe"):
        rule = QuadratureSettings(31, entropy, diagonal=True)
        assert_allclose(free_energy(energy, mixture, rule)[0], expected, atol=1e-6)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_bethe_entropy_of_distant_components(n, seed):
    """It is ln 2 (n - 1) (n - 2) / 2 below the joint entropy for two distant components."""
    edges = [(i, j) for i in range(n) for j in range(i)]
    energy = gaussian(seed, [0] * n, edges)
    one = mixture_of(seed, [0] * n, 1, diagonal=True).covariances
    means = np.outer([-30.0, 30.0], np.ones(n))
    mixture = Mixture(
        np.zeros(n, int),
        np.full(2, -np.log(2)),
        means,
        np.tile(one, (2, 1, 1)),
        np.zeros((2, 0, 1)),
    )
    joint, bethe = (
        free_energy(energy, mixture, QuadratureSettings(5, entropy, n_draws=2**14))[0]
        for entropy in ("joint", "bethe")
    )
    assert_allclose(bethe - joint, -(n - 1) * (n - 2) / 2 * np.log(2), atol=0.02)
    exact = 0.5 * n * (1 + LOG_2PI) + 0.5 * np.linalg.slogdet(one)[1].sum() + np.log(2)
    centre = means - energy.mean
    expected = -0.5 * np.einsum("ki,ij,kj->k", centre, energy.precision, centre).mean()
    expected -= 0.5 * np.trace(energy.precision @ one[0])
    assert_allclose(joint, expected + exact, rtol=1e-9, atol=0.02)


def test_bethe_is_exact_at_the_marginals_of_a_tree(seed):
    energy = gaussian(seed, [0] * 4, TREE, tree=True)
    mixture = one_component(energy.mean, energy.covariance, [0] * 4)
    for entropy in ("joint", "bethe"):
        value, terms = free_energy(energy, mixture, QuadratureSettings(3, entropy))
        assert_allclose(value, gaussian_log_partition(energy), atol=1e-9)
        assert_allclose(terms.slopes, 0.0, atol=1e-9)
    off = one_component(energy.mean + 0.3, energy.covariance, [0] * 4)
    assert (
        free_energy(energy, off, QuadratureSettings(3, "bethe"))[0]
        < gaussian_log_partition(energy) - 1e-3
    )


@each_entropy
def test_states_of_probability_zero(entropy, seed):
    """A probability of zero in one or all components gives finite values and no warning."""
    energy = neural(seed, [0, 3, 3], COMPLETE)
    mixture = mixture_of(seed, [0, 3, 3], 2)
    tables = mixture.tables.copy()
    tables[:, 0] = [0.3, 0.0, 0.7]
    tables[0, 1] = [0.0, 0.4, 0.6]
    mixture = replace(mixture, tables=tables)
    value, terms = free_energy(energy, mixture, QuadratureSettings(5, entropy))
    assert np.isfinite(value)
    assert np.isfinite(terms.values).all()
    assert np.isfinite(ascend(mixture, terms, 0.1).tables).all()
    almost = replace(mixture, tables=np.where(tables == 0, 1e-12, tables))
    assert_allclose(
        value, free_energy(energy, almost, QuadratureSettings(5, entropy))[0], atol=1e-6
    )


# Bounds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_states", [[0], [0, 0], [0, 3], [2, 0, 0]], ids=str)
def test_joint_entropy_gives_a_lower_bound(n_states, seed):
    """Check a random mixture, and an inferred one, whose bound is close."""
    edges = [(i, j) for i in range(len(n_states)) for j in range(i)]
    energy = neural(seed, n_states, edges)
    exact = grid_log_partition(energy, 201 if n_states.count(0) == 2 else None)
    assert exact.std_error < 5e-3
    rule = QuadratureSettings(15, n_draws=128)
    start = mixture_of(seed, n_states, 3, spread=2.0)
    found = infer(energy, start, rule, max_iter=60).mixture
    fine = QuadratureSettings(entropy="joint", **FINE)
    before, after = (free_energy(energy, m, fine)[0] for m in (start, found))
    assert before < exact.value
    assert after < exact.value + 0.02
    assert before < after
    assert exact.value - after < 0.5


@pytest.mark.parametrize("n_states", [[2, 2, 2], [3, 2, 4]], ids=str)
def test_lower_bound_of_discrete_models(n_states, seed):
    """The bound is below the exact log Z, and close to it."""
    energy = neural(seed, n_states, COMPLETE)
    exact = log_partition(energy.factor_graph(), method="exact").value
    rule = QuadratureSettings(3)
    found = infer(energy, mixture_of(seed, n_states, 1), rule, max_iter=300, tol=1e-10)
    assert exact - 1.0 < found.value <= exact


def test_lower_bound_without_edges_is_exact(seed):
    energy = neural(seed, [3, 2, 4], [])
    start = mixture_of(seed, [3, 2, 4], 1)
    found = infer(energy, start, QuadratureSettings(3), max_iter=300, tol=1e-12)
    exact = log_partition(energy.factor_graph(), method="exact").value
    assert_allclose(found.value, exact, atol=1e-8)


def test_inferred_states_are_a_fixed_point_of_mean_field(seed):
    n_states = [2, 3, 4]
    energy = neural(seed, n_states, COMPLETE)
    found = infer(
        energy, mixture_of(seed, n_states, 1), QuadratureSettings(3), max_iter=500, tol=1e-12
    )
    singles = [found.mixture.tables[0, d, :q].copy() for d, q in enumerate(n_states)]
    before = [p.copy() for p in singles]
    twins.mean_field_sweep(energy.factor_graph(), singles)
    for p, q in zip(singles, before, strict=True):
        assert_allclose(p, q, atol=1e-4)


@pytest.mark.parametrize("tree", [True, False])
def test_gaussians_are_recovered(tree, seed):
    edges = TREE if tree else [(i, j) for i in range(4) for j in range(i)]
    energy = gaussian(seed, [0] * 4, edges, tree=tree)
    start = one_component(energy.mean + 2.0, 0.5 * np.eye(4), [0] * 4)
    found = infer(energy, start, QuadratureSettings(3), max_iter=400, tol=1e-12)
    assert found.converged
    assert_allclose(found.value, gaussian_log_partition(energy), atol=1e-6)
    assert_allclose(found.mixture.means[0], energy.mean, atol=1e-3)
    assert_allclose(found.mixture.covariances[0], energy.covariance, rtol=1e-3, atol=1e-3)


def test_gaussians_of_trees_are_recovered_by_bethe(seed):
    """Covariances of pairs without an edge are not determined by the Bethe free energy."""
    energy = gaussian(seed, [0] * 4, TREE, tree=True)
    start = one_component(energy.mean + 2.0, 0.5 * np.eye(4), [0] * 4)
    found = infer(energy, start, QuadratureSettings(3, "bethe"), max_iter=400, tol=1e-12)
    assert_allclose(found.value, gaussian_log_partition(energy), atol=1e-6)
    assert_allclose(found.mixture.means[0], energy.mean, atol=1e-3)
    for i, j in (*TREE, *np.repeat(np.arange(4), 2).reshape(4, 2)):
        expected = energy.covariance[i, j]
        assert_allclose(found.mixture.covariances[0, i, j], expected, rtol=1e-3, atol=1e-3)


def test_gaussian_and_discrete_variables_are_recovered(seed):
    energy = gaussian(seed, [0, 3, 0, 2], [(0, 1), (1, 2), (2, 3)])
    tables = [0.8, 0.1, 0.1, 0.9, 0.1, 0.0]
    start = one_component(energy.mean - 1.0, np.eye(2), [0, 3, 0, 2], tables)
    found = infer(energy, start, QuadratureSettings(3), max_iter=400, tol=1e-12)
    assert_allclose(found.value, gaussian_log_partition(energy), atol=1e-6)
    assert_allclose(found.mixture.tables[0, 0], 1 / 3, atol=1e-3)
    assert_allclose(found.mixture.tables[0, 1], [0.5, 0.5, 0.0], atol=1e-3)
    assert_allclose(found.mixture.covariances[0], energy.covariance, rtol=1e-3, atol=1e-3)


def coupled_gaussian(seed):
    """Return three coupled variables without networks, and the best diagonal Gaussian.

    The variances of this Gaussian are the inverse of the diagonal of the precision.
    """
    rng = np.random.default_rng(seed)
    precision = np.diag(rng.uniform(1, 2, size=3)) + 0.9 * (1 - np.eye(3))
    energy = replace_base(gaussian(seed, [0] * 3, COMPLETE), rng.normal(size=3), precision)
    return energy, one_component(energy.mean, np.diag(1 / np.diag(precision)), [0] * 3)


def test_diagonal_components(seed):
    energy, best = coupled_gaussian(seed)
    start = one_component(energy.mean + 1.0, np.eye(3), [0] * 3)
    found = infer(energy, start, QuadratureSettings(3, diagonal=True), max_iter=600, tol=1e-12)
    assert_allclose(found.mixture.means, best.means, atol=0.1)
    assert_allclose(found.mixture.covariances, best.covariances, rtol=0.03, atol=1e-9)
    value = free_energy(energy, best, QuadratureSettings(3))[0]
    assert_allclose(found.value, value, atol=2e-3)
    assert value < gaussian_log_partition(energy) - 1e-2


def test_best_diagonal_component_is_a_fixed_point(seed):
    energy, best = coupled_gaussian(seed)
    _, terms = free_energy(energy, best, QuadratureSettings(3, diagonal=True))
    moved_on = ascend(best, terms, 0.5, diagonal=True)
    assert_allclose(moved_on.covariances, best.covariances, rtol=1e-6, atol=1e-9)


# Ascent ------------------------------------------------------------------------------------------


@each_entropy
@pytest.mark.parametrize("diagonal", [False, True])
def test_inference_never_decreases_the_value(diagonal, entropy, seed):
    """Check a single run, and the steps of a learner that continues it."""
    energy = neural(seed, MIXED, COMPLETE, scale=3.0)
    mixture = mixture_of(seed, MIXED, 3, diagonal=diagonal, spread=2.0)
    rule, tol = QuadratureSettings(7, entropy, diagonal=diagonal), 1e-4
    start = value = free_energy(energy, mixture, rule)[0]
    step = 0.2
    for _ in range(15):
        found = infer(energy, mixture, rule, max_iter=1, tol=tol, step=step)
        assert found.value >= value - tol
        assert_allclose(found.value, free_energy(energy, found.mixture, rule)[0], atol=1e-10)
        mixture, value, step = found.mixture, found.value, found.step
    assert value > start
    whole = infer(energy, mixture, rule, max_iter=50, tol=tol)
    assert whole.value >= value - 3 * tol
    assert whole.n_iter <= 50


def test_beliefs_stay_valid_after_any_step(seed):
    """Check any step size and curvature."""
    rng = np.random.default_rng(seed)
    mixture = mixture_of(seed, [0, 3, 0, 2], 3)
    energy = neural(seed, [0, 3, 0, 2], [(0, 1), (1, 2), (2, 3)])
    _, terms = free_energy(energy, mixture, QuadratureSettings(5))
    G = rng.normal(0, 30, size=(3, 2, 2))
    wild = terms._replace(
        values=1e4 * terms.values,
        curvatures=G + G.transpose(0, 2, 1),
        slopes=1e3 * terms.slopes,
        gains=1e3 * terms.gains,
    )
    for step in (0.01, 0.5, 1.0):
        for diagonal in (False, True):
            start = replace(mixture, covariances=mixture.covariances * np.eye(2))
            found = ascend(start if diagonal else mixture, wild, step, diagonal)
            assert_allclose(np.exp(found.log_weights).sum(), 1.0)
            assert (np.linalg.eigvalsh(found.covariances) > 0).all()
            assert_allclose(found.tables.sum(axis=2), 1.0)
            assert_array_equal(found.tables[:, 1, 2], 0.0)
            if diagonal:
                assert_array_equal(found.covariances[:, 0, 1], 0.0)


def test_small_steps_increase_the_value(seed):
    energy = smooth(seed, MIXED, COMPLETE)
    mixture = mixture_of(seed, MIXED, 2)
    for entropy in ("joint", "bethe"):
        rule = QuadratureSettings(entropy=entropy, **FINE)
        value, terms = free_energy(energy, mixture, rule)
        moved_value, _ = free_energy(energy, ascend(mixture, terms, 0.02), rule)
        assert moved_value > value


def test_shrunk_eigenvalues_converge(seed):
    """Shrunk eigenvalues of few incomplete rows would alternate in every fifth of these tables."""
    for k in range(6):
        rng = np.random.default_rng([seed, k])
        X = rng.normal(size=(100, 4)) @ rng.normal(size=(4, 50)) + 0.5 * rng.normal(size=(100, 50))
        X = np.where(rng.random(X.shape) < 0.1, np.nan, X / X.std(axis=0))
        rows = MixtureRows(X, np.zeros(50, dtype=int), np.ones(100), np.zeros(50))
        prior = Prior(np.inf, 0.0, shrinks_eigenvalues=True)
        _, scores = fit_mixture(rows, start_mixture(rows, 1, prior, rng), prior, 100)
        assert len(scores) < 100


@pytest.mark.parametrize("sizes", [[1.0, 0.1, 0.003], [1.0, 1.0, 1.0]])
def test_components_of_different_sizes(sizes, seed):
    """Small components are not made as wide as the mean of all components."""
    rng, sizes, centres = np.random.default_rng(seed), np.array(sizes), 6.0 * np.eye(3)
    labels = rng.integers(0, 3, 2400)
    X = centres[labels] + sizes[labels, None] * rng.normal(size=(2400, 3))
    rows = MixtureRows(X[:600], np.zeros(3, dtype=int), np.ones(600), np.zeros(3))
    mixture, *_ = learn_mixture(rows, "auto", np.random.default_rng(0))
    logs = [
        multivariate_normal(c, s**2 * np.eye(3)).logpdf(X[600:])
        for c, s in zip(centres, sizes, strict=True)
    ]
    loss = np.logaddexp.reduce(logs) - np.log(3.0) - mixture.log_density(X[600:])
    assert -0.01 < loss.mean() < 0.12


def test_many_components_for_categories(seed, monkeypatch):
    """Categories that depend on several numbers need many components of similar covariances."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(1000, 4))
    numbers = latent @ rng.normal(size=(4, 8)) + rng.normal(size=(1000, 8))
    states = np.clip((latent + rng.normal(0.0, 0.5, latent.shape) + 1.5).astype(int), 0, 3)
    X, n_states = np.column_stack([numbers, states]), np.repeat([0, 4], [8, 4])
    rows = MixtureRows(X, n_states, np.ones(1000), np.zeros(8))
    name = "add_conditional_gaussian"
    monkeypatch.setattr(mixture_selection, name, lambda mixture, *_: mixture)
    scores = []
    for groups in (mixture_selection.EQUAL_COVARIANCES, ((1.0,),)):
        monkeypatch.setattr(mixture_selection, "EQUAL_COVARIANCES", groups)
        train = rows.take(np.arange(250))
        mixture, *_ = learn_mixture(train, "auto", np.random.default_rng(0))
        scores.append(mixture.log_density(X[250:]).mean())
    assert scores[0] > scores[1] + 0.1


# Conditional moments of missing numbers -----------------------------------------------------


def dense_moments(row, mean, covariance):
    """Return the completed row, its conditional covariance, and log-density, by solving."""
    m, o = np.isnan(row), ~np.isnan(row)
    inner, cross = covariance[np.ix_(o, o)], covariance[np.ix_(m, o)]
    completed, conditional, log_density = row.copy(), np.zeros_like(covariance), 0.0
    completed[m] = mean[m]
    conditional[np.ix_(m, m)] = covariance[np.ix_(m, m)]
    if o.any():
        slopes = np.linalg.solve(inner, cross.T).T
        completed[m] += slopes @ (row - mean)[o]
        conditional[np.ix_(m, m)] -= slopes @ cross.T
        log_density = multivariate_normal(mean[o], inner).logpdf(row[o])
    return completed, conditional, log_density


def test_proportional_covariances_are_grouped():
    """The second matrix is twice the first one. The third has the first row of the first one."""
    diagonals = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 3.0, 2.0]])
    covariances = np.stack([np.diag(d) for d in diagonals])
    mixture = Mixture(
        np.zeros(3, int), np.zeros(3), np.zeros((3, 3)), covariances, np.zeros((3, 0, 1))
    )
    assert [(m.tolist(), f.tolist()) for m, f in mixture.shapes] == [
        ([0, 1], [1.0, 2.0]),
        ([2], [1.0]),
    ]


@pytest.mark.parametrize(
    ("p", "missing"), [(1, 0.5), (6, 0.2), (6, 0.7), (40, 0.3), (6, 0.0), (70, 0.0)]
)
def test_conditional_moments_equal_dense_formulas(p, missing, seed):
    """Components have equal, proportional and different covariances, and linear functions."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(2, p, p))
    covariances = roots @ np.swapaxes(roots, 1, 2) / p + 0.1 * np.eye(p)
    if p == 6:
        maps = np.vstack([np.eye(5), [1.0, 1.0, 0.0, 0.0, 0.0]])
        covariances[1] = maps @ covariances[1, :5, :5] @ maps.T + 1e-6 * np.eye(6)
    covariances = covariances[[0, 1, 0, 0, 1]] * np.array([1.0, 1.0, 1.0, 2.5, 0.4])[:, None, None]
    means, X = rng.normal(size=(5, p)), rng.normal(size=(30, p))
    X[:, 5:6] = X[:, :1] + X[:, 1:2]
    X[rng.random(X.shape) < missing] = np.nan
    if missing:
        X[:3], X[5] = np.nan, np.arange(p)  # a pattern of several rows, and a complete row
    weights = rng.random((5, 30))
    weights[:, 10:15] = 0.0
    weights[4, :20] = 0.0  # less than half of the rows have the last component
    mixture = Mixture(np.zeros(p, int), np.zeros(5), means, covariances, np.zeros((5, 0, 1)))
    assert sorted(len(members) for members, _ in mixture.shapes) == ([2, 3] if p > 1 else [5])
    moments = ConditionalMoments(mixture, np.asfortranarray(X), *missing_patterns(X))
    variances = moments.find_variances(weights)
    first, second = moments.find_moments(weights, weights)
    for k in range(5):
        found = [dense_moments(row, means[k], covariances[k]) for row in X]
        completed, conditional, logs = map(np.array, zip(*found, strict=True))
        assert_allclose(moments.means[k], completed, rtol=1e-5, atol=1e-7)
        assert_allclose(moments.log_densities[k], logs, rtol=1e-6, atol=1e-6)
        diagonals = np.diagonal(conditional, axis1=1, axis2=2)
        assert_allclose(variances[k, 15:], diagonals[15:], rtol=1e-5, atol=1e-9)
        total = np.tensordot(weights[k], conditional, 1)
        assert_allclose(first[k], weights[k] @ completed, rtol=1e-5, atol=1e-7)
        outer = (completed.T * weights[k]) @ completed
        assert_allclose(second[k], outer + total, rtol=1e-5, atol=1e-7)
