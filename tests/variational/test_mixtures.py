"""Tests of mixtures of Gaussians and tables: densities, samples, moments and quadrature."""

import pickle

import numpy as np
import pytest
from montecarlo import N_SIGMA, check_draws, check_means
from numpy.testing import assert_allclose, assert_array_equal
from potentials import mixture_of, neural
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, multivariate_t

from skmrf.variational.conditional_gaussians import epanechnikov, shrink_eigenvalues
from skmrf.variational.free_energy import QuadratureSettings, free_energy
from skmrf.variational.mixture_selection import inflate
from skmrf.variational.mixtures import Mixture, average_mixtures, student_mixture
from skmrf.variational.quadrature import integrate, quadrature

KINDS = {
    "numbers": [0, 0, 0],
    "mixed": [3, 0, 0, 2, 0],
    "states": [2, 4, 1],
    "one number": [0],
    "one state": [3],
}
N_DRAWS = 20_000
each_kind = pytest.mark.parametrize("kind", KINDS)


def random_mixture(seed, kind, n_components=3):
    """Return a random mixture with correlated continuous variables."""
    rng = np.random.default_rng(seed)
    n_states = np.array(KINDS[kind])
    m, q = int((n_states == 0).sum()), n_states[n_states > 0]
    roots = rng.normal(size=(n_components, m, m))
    tables = np.zeros((n_components, len(q), max(1, *n_states)))
    for d, size in enumerate(q):
        tables[:, d, :size] = rng.dirichlet(np.full(size, 2.0), size=n_components)
    return Mixture(
        n_states,
        np.log(rng.dirichlet(np.full(n_components, 3.0))),
        rng.normal(0, 2, size=(n_components, m)),
        roots @ roots.transpose(0, 2, 1) + 0.3 * np.eye(m),
        tables,
    )


def rows_of(mixture, n, rng):
    """Return arbitrary rows, which are not samples of the mixture."""
    columns = [
        rng.normal(0, 2, n) if q == 0 else rng.integers(0, q, n).astype(float)
        for q in mixture.n_states
    ]
    return np.stack(columns, axis=1)


def with_missing(X, rng):
    """Return rows with about half of the entries missing, and all entries of the first row."""
    X = np.where(rng.random(X.shape) < 0.5, np.nan, X)
    X[0] = np.nan
    return X


def log_component(mixture, k, x):
    """Return the log density of a row's observed entries under one component."""
    seen = ~np.isnan(x)
    numbers, states = mixture.n_states == 0, mixture.n_states > 0
    total, there = 0.0, seen[numbers]
    if there.any():
        mean, cov = mixture.means[k][there], mixture.covariances[k][np.ix_(there, there)]
        total += multivariate_normal(mean, cov).logpdf(x[numbers & seen])
    for d, i in enumerate(np.flatnonzero(states)):
        if seen[i]:
            total += np.log(mixture.tables[k, d, int(x[i])])
    return total


def log_joint(mixture, x):
    """Return the log of weight times density for each component."""
    each = range(len(mixture.log_weights))
    return np.array([mixture.log_weights[k] + log_component(mixture, k, x) for k in each])


def log_density(mixture, X):
    return np.array([logsumexp(log_joint(mixture, x)) for x in X])


# Densities ---------------------------------------------------------------------------------


@each_kind
def test_log_density(kind, seed):
    mixture = random_mixture(seed, kind)
    X = rows_of(mixture, 30, np.random.default_rng(seed))
    parts = mixture.component_log_densities(X) + mixture.log_weights[:, None]
    expected = np.array([log_joint(mixture, x) for x in X]).T
    assert_allclose(parts, expected, rtol=1e-9, atol=1e-9)
    assert_allclose(mixture.log_density(X), log_density(mixture, X), rtol=1e-9, atol=1e-9)


@each_kind
def test_missing_entries_are_integrated_out(kind, seed):
    mixture = random_mixture(seed, kind)
    rng = np.random.default_rng(seed)
    X = with_missing(rows_of(mixture, 40, rng), rng)
    before = X.copy()
    found = mixture.log_density(X)
    assert_allclose(found, log_density(mixture, X), rtol=1e-9, atol=1e-9)
    assert abs(found[0]) < 1e-12
    assert_array_equal(X, before)


def test_marginal_equals_the_integral(seed):
    """Integrate by a grid over a continuous variable and a sum over states."""
    mixture = random_mixture(seed, "mixed")
    kept, x = [0, 2, 4], np.linspace(-40, 40, 4001)
    rows = np.repeat(rows_of(mixture, 4, np.random.default_rng(seed)), 2 * len(x), axis=0)
    rows[:, 1], rows[:, 3] = np.tile(np.repeat(x, 2), 4), np.tile([0, 1], 4 * len(x))
    density = np.exp(mixture.log_density(rows)).reshape(4, -1).sum(axis=1) * (x[1] - x[0])
    found = mixture.marginal(kept)
    assert found.n_states.tolist() == [3, 0, 0]
    assert_allclose(np.exp(found.log_density(rows[:: 2 * len(x), kept])), density, rtol=1e-6)


def test_density_integrates_to_one(seed):
    mixture = random_mixture(seed, "states")
    states = np.array(list(np.ndindex(*mixture.n_states)), dtype=float)
    assert_allclose(logsumexp(mixture.log_density(states)), 0.0, atol=1e-12)


def test_far_rows_have_finite_densities(seed):
    mixture = random_mixture(seed, "numbers")
    found = mixture.log_density(np.array([[1e6, -1e6, 1e6], [1e100, 0, 0]]))
    assert np.isfinite(found).all()
    assert (found < -1e9).all()


@each_kind
def test_pickle_size_does_not_grow_with_use(kind, seed):
    mixture, rng = random_mixture(seed, kind), np.random.default_rng(seed)
    X, before = rows_of(mixture, 5, rng), pickle.dumps(mixture)
    logs = mixture.log_density(X)
    assert pickle.dumps(mixture) == before
    assert_array_equal(pickle.loads(before).log_density(X), logs)


@each_kind
def test_defensive_component(kind, seed):
    """The mixture contains a share of another density."""
    mixture, rng = random_mixture(seed, kind), np.random.default_rng(seed)
    m = mixture.means.shape[1]
    mean, cov = rng.normal(size=m), 2.0 * np.eye(m) + 0.5
    wide = mixture.with_defensive_component(mean, cov, share=0.3)
    X = rows_of(mixture, 20, rng)
    q = mixture.n_states[mixture.n_states > 0]
    other = np.full(len(X), -np.log(q).sum())
    if m:
        other += multivariate_normal(mean, cov).logpdf(X[:, mixture.n_states == 0])
    expected = np.logaddexp(np.log(0.7) + log_density(mixture, X), np.log(0.3) + other)
    assert_allclose(wide.log_density(X), expected, rtol=1e-9, atol=1e-9)
    assert_allclose(wide.tables.sum(axis=2), 1.0)
    assert mixture.n_components == 3


@each_kind
def test_average_of_mixtures(kind, seed):
    """Mixtures of different sizes have equal weights."""
    mixtures = [random_mixture(seed + k, kind, n) for k, n in enumerate((3, 1, 2))]
    X = rows_of(mixtures[0], 20, np.random.default_rng(seed))
    expected = logsumexp([log_density(m, X) for m in mixtures], axis=0) - np.log(3)
    assert_allclose(average_mixtures(mixtures).log_density(X), expected, rtol=1e-9, atol=1e-9)


# Samples -----------------------------------------------------------------------------------


def second_moments(X, numbers):
    """Return the products of all pairs of columns, and the columns."""
    Y = X[:, numbers]
    i, j = np.triu_indices(Y.shape[1])
    return np.concatenate([Y, Y[:, i] * Y[:, j]], axis=1)


def exact_moments(shares, means, covariances):
    second = covariances + means[:, :, None] * means[:, None, :]
    i, j = np.triu_indices(means.shape[1])
    return shares @ np.concatenate([means, second[:, i, j]], axis=1)


def check_moments(values, expected):
    """Check means of columns that are not between 0 and 1."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert (error < 0.05 * (1 + np.abs(expected))).all()
    assert (np.abs(values.mean(axis=0) - expected) < N_SIGMA * error).all()


@each_kind
def test_moments_of_samples(kind, seed):
    mixture = random_mixture(seed, kind)
    X = mixture.sample(N_DRAWS, np.random.default_rng(seed))
    assert X.shape == (N_DRAWS, len(mixture.n_states))
    shares = np.exp(mixture.log_weights)
    found = second_moments(X, mixture.n_states == 0)
    check_moments(found, exact_moments(shares, mixture.means, mixture.covariances))
    for d, i in enumerate(np.flatnonzero(mixture.n_states)):
        expected = (shares @ mixture.tables[:, d])[: mixture.n_states[i], None].ravel()
        check_means(X[:, [i]] == np.arange(mixture.n_states[i]), expected)


def test_joint_states_of_samples(seed):
    mixture = random_mixture(seed, "states")
    draws = mixture.sample(N_DRAWS, np.random.default_rng(seed)).astype(int)
    states = np.array(list(np.ndindex(*mixture.n_states)))
    check_draws(draws, states, np.exp(log_density(mixture, states.astype(float))))


def test_continuous_and_discrete_samples_share_a_component(seed):
    """Check the mean of a continuous variable given a state; wrong components would change it."""
    mixture = random_mixture(seed, "mixed")
    X = mixture.sample(N_DRAWS, np.random.default_rng(seed))
    shares = np.exp(mixture.log_weights)
    for s in range(3):
        values = X[:, [1, 2, 4]] * (X[:, [0]] == s)
        check_moments(values, (shares * mixture.tables[:, 0, s]) @ mixture.means)


def test_sample_order_does_not_depend_on_the_component():
    mixture = Mixture(
        np.zeros(1, int),
        np.log([0.5, 0.5]),
        np.array([[-50.0], [50.0]]),
        np.ones((2, 1, 1)),
        np.zeros((2, 0, 1)),
    )
    rng = np.random.default_rng(0)
    X = np.array([mixture.sample(4, rng)[:, 0] for _ in range(2000)])
    check_means(X > 0, np.full(4, 0.5))
    assert np.abs(np.corrcoef(np.sign(X).T) - np.eye(4)).max() < N_SIGMA / np.sqrt(2000)


def test_fewer_samples_than_components():
    mixture = random_mixture(0, "mixed")
    for n in (0, 1, 2):
        assert mixture.sample(n, np.random.default_rng(0)).shape == (n, 5)


# Imputation --------------------------------------------------------------------------------


def responsibilities(mixture, x):
    """Return the probabilities of the components given the observed entries."""
    logs = log_joint(mixture, x)
    return np.exp(logs - logsumexp(logs))


def conditional(mixture, k, x):
    """Return the mean and covariance of the missing continuous variables under a component."""
    y = x[mixture.n_states == 0]
    a = ~np.isnan(y)
    C, mean = mixture.covariances[k], mixture.means[k]
    gain = C[np.ix_(~a, a)] @ np.linalg.inv(C[np.ix_(a, a)])
    return mean[~a] + gain @ (y[a] - mean[a]), C[np.ix_(~a, ~a)] - gain @ C[np.ix_(a, ~a)]


MISSING = [[0], [1], [1, 2], [3], [0, 3], [1, 4, 0], [0, 3, 1, 2], [1, 2, 4], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("missing", MISSING, ids=str)
def test_imputed_entries(missing, seed):
    mixture = random_mixture(seed, "mixed")
    rng = np.random.default_rng(seed)
    x = mixture.sample(1, rng)[0]
    x[missing] = np.nan
    X = mixture.impute(np.repeat(x[None], N_DRAWS, axis=0), rng)
    seen = ~np.isnan(x)
    assert_array_equal(X[:, seen], np.repeat(x[None, seen], N_DRAWS, axis=0))
    assert not np.isnan(X).any()
    shares = responsibilities(mixture, x)
    missing_numbers = [i for i in (1, 2, 4) if i in missing]
    if missing_numbers:
        parts = [conditional(mixture, k, x) for k in range(3)]
        means, covariances = (np.array(p) for p in zip(*parts, strict=True))
        check_moments(second_moments(X, missing_numbers), exact_moments(shares, means, covariances))
    for d, i in enumerate([0, 3]):
        if i in missing:
            p = (shares @ mixture.tables[:, d])[: mixture.n_states[i]]
            check_means(X[:, [i]] == np.arange(len(p)), p)
    if 0 in missing and missing_numbers:
        expected = (shares * mixture.tables[:, 0, 1]) @ means
        check_moments(X[:, missing_numbers] * (X[:, [0]] == 1), expected)


def test_imputation_of_different_missing_patterns(seed):
    """Observed entries are kept, and complete rows are returned unchanged."""
    mixture = random_mixture(seed, "mixed")
    rng = np.random.default_rng(seed)
    full = mixture.sample(200, rng)
    X = with_missing(full, rng)
    X[-1] = full[-1]
    before = X.copy()
    filled = mixture.impute(X, rng)
    assert_array_equal(X, before)
    seen = ~np.isnan(X)
    assert_array_equal(filled[seen], X[seen])
    assert not np.isnan(filled).any()
    states = np.flatnonzero(mixture.n_states)
    assert (filled[:, states] < mixture.n_states[states]).all()
    assert_array_equal(filled[:, states], np.floor(filled[:, states]))


def test_repeated_imputation_keeps_the_moments(seed):
    """Gibbs steps leave the mixture invariant, for any missing pattern."""
    mixture = random_mixture(seed, "mixed")
    rng = np.random.default_rng(seed)
    X = mixture.sample(N_DRAWS, rng)
    X = mixture.impute(np.where(rng.random(X.shape) < 0.4, np.nan, X), rng)
    shares = np.exp(mixture.log_weights)
    found = second_moments(X, mixture.n_states == 0)
    check_moments(found, exact_moments(shares, mixture.means, mixture.covariances))
    for d, i in enumerate([0, 3]):
        p = shares @ mixture.tables[:, d, : mixture.n_states[i]]
        check_means(X[:, [i]] == np.arange(len(p)), p)


# Quadrature --------------------------------------------------------------------------------------


N_STATES = np.array([0, 0, 5, 0, 2])  # more states than points in the smallest rule
EDGES = np.array([(0, 1), (3, 0), (0, 2), (4, 1), (2, 4), (3, 1)])


def polynomials(grid, rng):
    """Return polynomials of variables and edges at grid points, and their coefficients.

    A continuous variable x has a x + b x^2 + c x^3. Two of them have a x y + b x^2 y + g y^2. A
    continuous and a discrete variable have t_s (x + x^2). Discrete variables have t_s and t_st.
    """
    nodes, edges, names = np.empty(grid.points.nodes.shape), [], []
    for i, q in enumerate(N_STATES):
        x = grid.points.nodes[i]
        t = rng.normal(size=q or 3)
        nodes[i] = t[x.astype(int)] if q else t[0] * x + t[1] * x**2 + t[2] * x**3
        names.append(t)
    for e, (i, j) in enumerate(EDGES):
        x, y = grid.points.edges[2 * e : 2 * e + 2]
        t = rng.normal(size=(max(N_STATES[i], 1), max(N_STATES[j], 1), 3))
        s = t[x.astype(int) if N_STATES[i] else 0, y.astype(int) if N_STATES[j] else 0].T
        if N_STATES[i] and N_STATES[j]:
            value = s[0]
        elif N_STATES[i] or N_STATES[j]:
            z = y if N_STATES[i] else x
            value = s[0] * (z + z**2)
        else:
            value = s[0] * x * y + s[1] * x**2 * y + s[2] * y**2
        edges.append(value)
        names.append(t)
    return nodes, np.array(edges), names


class PolynomialExpectations:
    """Exact expectations of :func:`polynomials` under one component."""

    def __init__(self, mixture, k):
        self.mu, self.C, self.p = np.zeros(5), np.zeros((5, 5)), [None] * 5
        numbers = np.flatnonzero(N_STATES == 0)
        self.mu[numbers] = mixture.means[k]
        self.C[np.ix_(numbers, numbers)] = mixture.covariances[k]
        for d, i in enumerate(np.flatnonzero(N_STATES)):
            self.p[i] = mixture.tables[k, d, : N_STATES[i]]
        self.value, self.slope, self.curvature = 0.0, np.zeros(5), np.zeros((5, 5))
        self.gain = [np.zeros(q) for q in N_STATES]

    def node(self, i, t):
        mu, v = self.mu[i], self.C[i, i]
        if N_STATES[i]:
            self.value += self.p[i] @ t
            self.gain[i] += t
            return
        self.value += t[0] * mu + t[1] * (mu**2 + v) + t[2] * (mu**3 + 3 * mu * v)
        self.slope[i] += t[0] + 2 * t[1] * mu + 3 * t[2] * (mu**2 + v)
        self.curvature[i, i] += 2 * t[1] + 6 * t[2] * mu

    def edge(self, i, j, t):
        if N_STATES[i] and N_STATES[j]:
            self.value += self.p[i] @ t[..., 0] @ self.p[j]
            self.gain[i] += t[..., 0] @ self.p[j]
            self.gain[j] += self.p[i] @ t[..., 0]
        elif N_STATES[i] or N_STATES[j]:
            self.mixed(*((j, i) if N_STATES[i] else (i, j)), t[..., 0].ravel())
        else:
            self.pair(i, j, *t.ravel())

    def mixed(self, number, state, t):
        mu, v = self.mu[number], self.C[number, number]
        mean = self.p[state] @ t
        self.value += mean * (mu + mu**2 + v)
        self.slope[number] += mean * (1 + 2 * mu)
        self.curvature[number, number] += 2 * mean
        self.gain[state] += t * (mu + mu**2 + v)

    def pair(self, i, j, a, b, g):
        (x, y), v, c = self.mu[[i, j]], self.C[i, i], self.C[i, j]
        self.value += a * (x * y + c) + b * (x**2 * y + v * y + 2 * x * c)
        self.value += g * (y**2 + self.C[j, j])
        self.slope[i] += a * y + 2 * b * (x * y + c)
        self.slope[j] += a * x + b * (x**2 + v) + 2 * g * y
        self.curvature[i, i] += 2 * b * y
        self.curvature[i, j] += a + 2 * b * x
        self.curvature[j, i] += a + 2 * b * x
        self.curvature[j, j] += 2 * g


def centre(gain):
    """Return gains minus their mean, as they are defined up to a constant."""
    return gain - gain.mean()


@pytest.mark.parametrize("n_points", [3, 4, 8])
def test_quadrature_of_polynomials_is_exact(n_points, seed):
    rng = np.random.default_rng(seed)
    mixture = mixture_of(seed, N_STATES, 3)
    grid = quadrature(mixture, EDGES, n_points)
    nodes, edges, coefficients = polynomials(grid, rng)
    found = integrate(mixture, EDGES, grid, nodes, edges)
    numbers = N_STATES == 0
    for k in range(3):
        exact = PolynomialExpectations(mixture, k)
        for i in range(5):
            exact.node(i, coefficients[i])
        for (i, j), t in zip(EDGES, coefficients[5:], strict=True):
            exact.edge(i, j, t)
        assert_allclose(found.values[k], exact.value, rtol=1e-10, atol=1e-10)
        assert_allclose(found.slopes[k], exact.slope[numbers], rtol=1e-10, atol=1e-10)
        curvature = exact.curvature[np.ix_(numbers, numbers)]
        assert_allclose(found.curvatures[k], curvature, rtol=1e-9, atol=1e-9)
        for d, i in enumerate(np.flatnonzero(N_STATES)):
            gain = found.gains[k, d, : N_STATES[i]]
            assert_allclose(centre(gain), centre(exact.gain[i]), rtol=1e-10, atol=1e-10)


def test_quadrature_of_a_sine_converges(seed):
    """E sin(a x + b y) of correlated variables is not a polynomial expectation."""
    mixture = mixture_of(seed, [0, 0], 2)
    edges = np.array([(1, 0)])
    grid = quadrature(mixture, edges, 31)
    a = np.array([0.7, -1.1])
    values = np.sin(a[1] * grid.points.edges[:1] + a[0] * grid.points.edges[1:])
    found = integrate(mixture, edges, grid, np.zeros(grid.points.nodes.shape), values)
    angle = mixture.means @ a
    decay = np.exp(-0.5 * np.einsum("i,kij,j->k", a, mixture.covariances, a))
    assert_allclose(found.values, decay * np.sin(angle), atol=1e-9)
    assert_allclose(found.slopes, (decay * np.cos(angle))[:, None] * a, atol=1e-9)
    waves = -(decay * np.sin(angle))[:, None, None] * np.outer(a, a)
    assert_allclose(found.curvatures, waves, atol=1e-9)


def test_quadrature_weights_sum_to_one(seed):
    mixture = mixture_of(seed, N_STATES, 3)
    grid = quadrature(mixture, EDGES, 4)
    assert_allclose(grid.points.node_weights.sum(axis=1), 1.0)
    assert_allclose(grid.points.edge_weights.sum(axis=1), 1.0)
    assert (grid.points.node_weights >= 0).all()
    for i, q in enumerate(N_STATES):
        if q:
            assert (np.isin(grid.points.nodes[i], np.arange(q))).all()


def test_quadrature_without_edges(seed):
    mixture = mixture_of(seed, [0, 3], 2)
    energy = neural(seed, [0, 3], [])
    value, terms = free_energy(energy, mixture, QuadratureSettings(9))
    assert np.isfinite(value)
    assert terms.curvatures.shape == (2, 1, 1)


# Shrinkage of covariances -------------------------------------------------------------------


def sample_covariance(seed, n_columns=40, n_rows=80):
    """Return an autoregressive covariance matrix, and one that is estimated from rows."""
    steps = np.abs(np.subtract.outer(np.arange(n_columns), np.arange(n_columns)))
    covariance = 0.7**steps
    rows = np.random.default_rng(seed).multivariate_normal(np.zeros(n_columns), covariance, n_rows)
    return covariance, np.cov(rows.T, bias=True)


def test_shrunk_eigenvalues_have_a_higher_likelihood(seed):
    """The mean log-density under the true covariance, minus its maximum, is closer to zero."""
    covariance, sample = sample_covariance(seed)

    def divergence(estimate):
        ratio = np.linalg.solve(estimate, covariance)
        return 0.5 * (np.trace(ratio) - len(ratio) - np.linalg.slogdet(ratio)[1])

    assert divergence(shrink_eigenvalues(sample, 79)) < 0.5 * divergence(sample)
    linear = 0.9 * sample + 0.1 * np.diag(np.diag(sample))
    assert divergence(shrink_eigenvalues(sample, 79)) < divergence(linear)


@pytest.mark.parametrize(("n_columns", "n"), [(10, 15), (12, 400), (40, 79)])
def test_formula_of_shrunk_eigenvalues(n_columns, n, seed):
    _, sample = sample_covariance(seed, n_columns, n)
    roots = np.sqrt(np.diag(sample))
    values, vectors = np.linalg.eigh(sample / np.outer(roots, roots))
    c, shrunk = n_columns / n, []
    for value in values:
        transform = 0.0  # Hilbert transform of the density, and the density times 1j
        for centre in values:
            width = centre * n ** (-1 / 3)
            density, hilbert = epanechnikov(np.array([(value - centre) / width]))
            transform += (hilbert[0] + 1j * density[0]) / (n_columns * width)
        shrunk.append(value / abs(1 - c - np.pi * c * value * transform) ** 2)
    vectors = vectors * roots[:, None]
    assert_allclose(shrink_eigenvalues(sample, n), (vectors * shrunk) @ vectors.T, atol=1e-10)


def test_covariance_of_many_rows_is_not_changed(seed):
    _, sample = sample_covariance(seed)
    assert_allclose(shrink_eigenvalues(sample, 1e9), sample, atol=1e-4)


def test_shrunk_eigenvalues_do_not_depend_on_units(seed):
    _, sample = sample_covariance(seed)
    units = np.outer(*[10.0 ** np.random.default_rng(seed).uniform(-1, 1, len(sample))] * 2)
    assert_allclose(shrink_eigenvalues(sample * units, 79) / units, shrink_eigenvalues(sample, 79))


def test_shrunk_eigenvalues_of_linear_functions(seed):
    """A column that is the sum of two others stays it."""
    _, sample = sample_covariance(seed)
    maps = np.vstack([np.eye(len(sample)), np.eye(len(sample))[:1] + np.eye(len(sample))[1:2]])
    shrunk = shrink_eigenvalues(maps @ sample @ maps.T, 79)
    difference = np.zeros(len(maps))
    difference[[0, 1, -1]] = 1.0, 1.0, -1.0
    assert difference @ shrunk @ difference < 1e-10
    assert np.linalg.eigvalsh(shrunk)[1] > np.linalg.eigvalsh(sample)[0]


def test_eigenvalues_of_few_rows_or_columns_are_not_shrunk():
    _, sample = sample_covariance(0)
    assert shrink_eigenvalues(sample, 40) is sample
    few = sample[:9, :9]
    assert shrink_eigenvalues(few, 79) is few


@pytest.mark.parametrize("n_constant", [1, 11, 12])
def test_shrunk_eigenvalues_of_constant_columns(n_constant, seed):
    """The rounding errors of the variances may be positive or negative."""
    _, sample = sample_covariance(seed, 12)
    sample[:n_constant] = sample[:, :n_constant] = 0.0
    for error in (-1e-18, 0.0, 1e-18):
        shrunk = shrink_eigenvalues(sample + error * np.eye(12), 79)
        assert_allclose(shrunk[:n_constant], 0.0, atol=1e-15)
        varied = np.diag(shrunk)[n_constant:] / np.diag(sample)[n_constant:]
        assert ((varied > 0.7) & (varied < 1.4)).all()


@pytest.mark.parametrize("x", [-3.0, -1.0, 0.3, 2.0, 99.0, 101.0])
def test_hilbert_transform_of_the_kernel(x):
    reach, density = np.sqrt(5.0), lambda t: epanechnikov(t)[0]
    options = {"weight": "cauchy", "wvar": x} if abs(x) < reach else {}
    integrand = density if options else lambda t: density(t) / (t - x)
    expected = quad(integrand, -reach, reach, **options)[0]
    assert epanechnikov(np.array([x]))[1][0] == pytest.approx(expected / np.pi, rel=1e-6)


@pytest.mark.parametrize("kind", ["numbers", "mixed", "states"])
def test_inflation_keeps_means_and_variances(kind, seed):
    mixture = random_mixture(seed, kind)
    inflated = inflate(mixture, 1.5)
    shares = np.exp(mixture.log_weights)

    def moments(m):
        mean = shares @ m.means
        within = shares @ np.diagonal(m.covariances, axis1=1, axis2=2)
        return mean, within + shares @ (m.means - mean) ** 2, within

    for before, after in zip(moments(mixture)[:2], moments(inflated)[:2], strict=True):
        assert_allclose(after, before)
    assert (moments(inflated)[2] > moments(mixture)[2]).all()
    assert_array_equal(inflated.tables, mixture.tables)


@pytest.mark.parametrize("degrees", [5.0, 10.0, 20.0])
def test_student_mixture_is_near_the_student_distribution(degrees, seed):
    mixture = random_mixture(seed, "numbers", 1)
    assert student_mixture(mixture, np.inf) is mixture
    found, covariance = student_mixture(mixture, degrees), mixture.covariances[0]
    assert_allclose(np.tensordot(np.exp(found.log_weights), found.covariances, 1), covariance)
    shape = covariance * (degrees - 2) / degrees
    exact = multivariate_t(mixture.means[0], shape, degrees)
    X = exact.rvs(9000, random_state=np.random.default_rng(seed))
    near, far = (np.mean(exact.logpdf(X) - m.log_density(X)) for m in (found, mixture))
    assert abs(near) < min(0.01, far)
