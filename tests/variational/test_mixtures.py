"""Mixtures of Gaussians and tables: densities by formula, draws by their moments."""

import pickle

import numpy as np
import pytest
from montecarlo import N_SIGMA, check_draws, check_means
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from skmrf.variational.mixtures import Mixture, average

KINDS = {
    "numbers": [0, 0, 0],
    "mixed": [3, 0, 0, 2, 0],
    "states": [2, 4, 1],
    "one number": [0],
    "one state": [3],
}
N_DRAWS = 20_000

each_kind = pytest.mark.parametrize("kind", KINDS)


def mixture_of(seed, kind, n_components=3):
    """A random mixture with correlated numbers."""
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
    """Any rows, not draws of the mixture."""
    columns = [
        rng.normal(0, 2, n) if q == 0 else rng.integers(0, q, n).astype(float)
        for q in mixture.n_states
    ]
    return np.stack(columns, axis=1)


def with_gaps(X, rng):
    """Rows of which about half of the entries are missing, of the first one all."""
    X = np.where(rng.random(X.shape) < 0.5, np.nan, X)
    X[0] = np.nan
    return X


def log_component(mixture, k, x):
    """Log density of what is there of a row, under one component."""
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


def log_parts(mixture, x):
    """Log of weight by density, for every component."""
    each = range(len(mixture.log_weights))
    return np.array([mixture.log_weights[k] + log_component(mixture, k, x) for k in each])


def log_density(mixture, X):
    return np.array([logsumexp(log_parts(mixture, x)) for x in X])


# Densities ---------------------------------------------------------------------------------


@each_kind
def test_log_density(kind, seed):
    mixture = mixture_of(seed, kind)
    X = rows_of(mixture, 30, np.random.default_rng(seed))
    parts = mixture.component_log_densities(X) + mixture.log_weights[:, None]
    expected = np.array([log_parts(mixture, x) for x in X]).T
    assert_allclose(parts, expected, rtol=1e-9, atol=1e-9)
    assert_allclose(mixture.log_density(X), log_density(mixture, X), rtol=1e-9, atol=1e-9)


@each_kind
def test_missing_entries_are_integrated_out(kind, seed):
    mixture = mixture_of(seed, kind)
    rng = np.random.default_rng(seed)
    X = with_gaps(rows_of(mixture, 40, rng), rng)
    before = X.copy()
    found = mixture.log_density(X)
    assert_allclose(found, log_density(mixture, X), rtol=1e-9, atol=1e-9)
    assert abs(found[0]) < 1e-12
    assert_array_equal(X, before)


def test_marginal_is_the_integral(seed):
    """By a grid over a number and a sum over states."""
    mixture = mixture_of(seed, "mixed")
    kept, x = [0, 2, 4], np.linspace(-40, 40, 4001)
    rows = np.repeat(rows_of(mixture, 4, np.random.default_rng(seed)), 2 * len(x), axis=0)
    rows[:, 1], rows[:, 3] = np.tile(np.repeat(x, 2), 4), np.tile([0, 1], 4 * len(x))
    density = np.exp(mixture.log_density(rows)).reshape(4, -1).sum(axis=1) * (x[1] - x[0])
    found = mixture.marginal(kept)
    assert found.n_states.tolist() == [3, 0, 0]
    assert_allclose(np.exp(found.log_density(rows[:: 2 * len(x), kept])), density, rtol=1e-6)


def test_sums_to_one(seed):
    mixture = mixture_of(seed, "states")
    states = np.array(list(np.ndindex(*mixture.n_states)), dtype=float)
    assert_allclose(logsumexp(mixture.log_density(states)), 0.0, atol=1e-12)


def test_far_rows_have_finite_densities(seed):
    mixture = mixture_of(seed, "numbers")
    found = mixture.log_density(np.array([[1e6, -1e6, 1e6], [1e100, 0, 0]]))
    assert np.isfinite(found).all()
    assert (found < -1e9).all()


@each_kind
def test_pickles_do_not_grow_by_use(kind, seed):
    mixture, rng = mixture_of(seed, kind), np.random.default_rng(seed)
    X, before = rows_of(mixture, 5, rng), pickle.dumps(mixture)
    logs = mixture.log_density(X)
    assert pickle.dumps(mixture) == before
    assert_array_equal(pickle.loads(before).log_density(X), logs)


@each_kind
def test_defended(kind, seed):
    """A share of another density."""
    mixture = mixture_of(seed, kind)
    rng = np.random.default_rng(seed)
    m = mixture.means.shape[1]
    mean, cov = rng.normal(size=m), 2.0 * np.eye(m) + 0.5
    wide = mixture.defended(mean, cov, share=0.3)
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
def test_average(kind, seed):
    """Of mixtures of different sizes, each counts the same."""
    mixtures = [mixture_of(seed + k, kind, n) for k, n in enumerate((3, 1, 2))]
    X = rows_of(mixtures[0], 20, np.random.default_rng(seed))
    expected = logsumexp([log_density(m, X) for m in mixtures], axis=0) - np.log(3)
    assert_allclose(average(mixtures).log_density(X), expected, rtol=1e-9, atol=1e-9)


# Draws -------------------------------------------------------------------------------------


def moments_of(X, numbers):
    """Products of all pairs of columns, whose means are the second moments, and the columns."""
    Y = X[:, numbers]
    i, j = np.triu_indices(Y.shape[1])
    return np.concatenate([Y, Y[:, i] * Y[:, j]], axis=1)


def exact_moments(shares, means, covariances):
    second = covariances + means[:, :, None] * means[:, None, :]
    i, j = np.triu_indices(means.shape[1])
    return shares @ np.concatenate([means, second[:, i, j]], axis=1)


def check_moments(values, expected):
    """Means of columns that are not between 0 and 1."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert (error < 0.05 * (1 + np.abs(expected))).all()
    assert (np.abs(values.mean(axis=0) - expected) < N_SIGMA * error).all()


@each_kind
def test_moments_of_draws(kind, seed):
    mixture = mixture_of(seed, kind)
    X = mixture.sample(N_DRAWS, np.random.default_rng(seed))
    assert X.shape == (N_DRAWS, len(mixture.n_states))
    shares = np.exp(mixture.log_weights)
    found = moments_of(X, mixture.n_states == 0)
    check_moments(found, exact_moments(shares, mixture.means, mixture.covariances))
    for d, i in enumerate(np.flatnonzero(mixture.n_states)):
        expected = (shares @ mixture.tables[:, d])[: mixture.n_states[i], None].ravel()
        check_means(X[:, [i]] == np.arange(mixture.n_states[i]), expected)


def test_joint_states_of_draws(seed):
    mixture = mixture_of(seed, "states")
    draws = mixture.sample(N_DRAWS, np.random.default_rng(seed)).astype(int)
    states = np.array(list(np.ndindex(*mixture.n_states)))
    check_draws(draws, states, np.exp(log_density(mixture, states.astype(float))))


def test_draws_of_numbers_and_states_are_of_the_same_component(seed):
    """E of a number where a state is drawn, which a mix-up of rows would not give."""
    mixture = mixture_of(seed, "mixed")
    X = mixture.sample(N_DRAWS, np.random.default_rng(seed))
    shares = np.exp(mixture.log_weights)
    for s in range(3):
        values = X[:, [1, 2, 4]] * (X[:, [0]] == s)
        check_moments(values, (shares * mixture.tables[:, 0, s]) @ mixture.means)


def test_draws_are_of_any_component_in_any_place():
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


def test_draws_need_no_rows_of_all_components():
    mixture = mixture_of(0, "mixed")
    for n in (0, 1, 2):
        assert mixture.sample(n, np.random.default_rng(0)).shape == (n, 5)


# Filling -----------------------------------------------------------------------------------


def posterior(mixture, x):
    """Shares of the components given what is there."""
    logs = log_parts(mixture, x)
    return np.exp(logs - logsumexp(logs))


def conditional(mixture, k, x):
    """Mean and covariance of the missing numbers under a component."""
    y = x[mixture.n_states == 0]
    a = ~np.isnan(y)
    C, mean = mixture.covariances[k], mixture.means[k]
    gain = C[np.ix_(~a, a)] @ np.linalg.inv(C[np.ix_(a, a)])
    return mean[~a] + gain @ (y[a] - mean[a]), C[np.ix_(~a, ~a)] - gain @ C[np.ix_(a, ~a)]


GAPS = [[0], [1], [1, 2], [3], [0, 3], [1, 4, 0], [0, 3, 1, 2], [1, 2, 4], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("gaps", GAPS, ids=str)
def test_filled_entries(gaps, seed):
    mixture = mixture_of(seed, "mixed")
    rng = np.random.default_rng(seed)
    x = mixture.sample(1, rng)[0]
    x[gaps] = np.nan
    X = mixture.fill(np.repeat(x[None], N_DRAWS, axis=0), rng)
    seen = ~np.isnan(x)
    assert_array_equal(X[:, seen], np.repeat(x[None, seen], N_DRAWS, axis=0))
    assert not np.isnan(X).any()
    shares = posterior(mixture, x)
    number_gaps = [i for i in (1, 2, 4) if i in gaps]
    if number_gaps:
        parts = [conditional(mixture, k, x) for k in range(3)]
        means, covariances = (np.array(p) for p in zip(*parts, strict=True))
        check_moments(moments_of(X, number_gaps), exact_moments(shares, means, covariances))
    for d, i in enumerate([0, 3]):
        if i in gaps:
            p = (shares @ mixture.tables[:, d])[: mixture.n_states[i]]
            check_means(X[:, [i]] == np.arange(len(p)), p)
    if 0 in gaps and number_gaps:
        expected = (shares * mixture.tables[:, 0, 1]) @ means
        check_moments(X[:, number_gaps] * (X[:, [0]] == 1), expected)


def test_rows_of_different_gaps_are_filled(seed):
    """Every row keeps what it has, and complete rows come back."""
    mixture = mixture_of(seed, "mixed")
    rng = np.random.default_rng(seed)
    full = mixture.sample(200, rng)
    X = with_gaps(full, rng)
    X[-1] = full[-1]
    before = X.copy()
    filled = mixture.fill(X, rng)
    assert_array_equal(X, before)
    seen = ~np.isnan(X)
    assert_array_equal(filled[seen], X[seen])
    assert not np.isnan(filled).any()
    states = np.flatnonzero(mixture.n_states)
    assert (filled[:, states] < mixture.n_states[states]).all()
    assert_array_equal(filled[:, states], np.floor(filled[:, states]))


def test_draws_filled_again_have_the_same_moments(seed):
    """Gibbs steps leave the mixture as it is, whatever is missing where."""
    mixture = mixture_of(seed, "mixed")
    rng = np.random.default_rng(seed)
    X = mixture.sample(N_DRAWS, rng)
    X = mixture.fill(np.where(rng.random(X.shape) < 0.4, np.nan, X), rng)
    shares = np.exp(mixture.log_weights)
    found = moments_of(X, mixture.n_states == 0)
    check_moments(found, exact_moments(shares, mixture.means, mixture.covariances))
    for d, i in enumerate([0, 3]):
        p = shares @ mixture.tables[:, d, : mixture.n_states[i]]
        check_means(X[:, [i]] == np.arange(len(p)), p)
