"""Tests of pairs, screening, and regressions of variables on their neighbours."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2, chi2_contingency, false_discovery_control
from sklearn.linear_model import LogisticRegression

from skmrf._types import MISSING
from skmrf.energies import LogLinearEnergy, LogLinearForm, contrasts
from skmrf.selection import regression, scores, screen, tails
from skmrf.selection.multiple import adjusted
from skmrf.selection.nodewise import fit_nodes, likelihood_ratio
from skmrf.selection.scores import score_tests

TAIL = 5.7e-7  # both tails of a normal variable beyond five sigma
MIXED = (2, 3, 2, 4, 1, 2)
EDGES = [(0, 1), (1, 2), (0, 3), (1, 3), (2, 4), (3, 5)]
FORMS = [("table", True), ("table", False), ("agreement", True), ("agreement", False)]


# Multiple tests ----------------------------------------------------------------------------

p_values = st.lists(st.integers(0, 64).map(lambda k: k / 64) | st.floats(0, 1), max_size=12)


def steps(p, control, level, m):
    """Rejections of the step procedures, by their definitions."""
    order, reject = np.argsort(p, kind="stable"), np.zeros(len(p), dtype=bool)
    if control == "holm":
        for k, i in enumerate(order):
            if p[i] * (m - k) > level:
                break
            reject[i] = True
        return reject
    passing = [k for k, i in enumerate(order) if p[i] * (m / (k + 1)) <= level]
    reject[order[: max(passing, default=-1) + 1]] = True
    return reject


@pytest.mark.parametrize("control", ["holm", "fdr"])
@given(p=p_values, level=st.integers(0, 63).map(lambda k: k / 64), more=st.integers(0, 5))
def test_adjusted_is_the_step_procedure(control, p, level, more):
    p = np.array(p)
    got = adjusted(p, control, n_tests=len(p) + more)
    np.testing.assert_array_equal(got <= level, steps(p, control, level, len(p) + more))
    padded = adjusted(np.append(p, np.ones(more)), control)
    np.testing.assert_array_equal(got, padded[: len(p)])
    assert ((got >= p) & (got <= 1)).all()


def test_adjusted_by_hand():
    p = [0.04, 0.01, 0.03, 0.5]
    np.testing.assert_allclose(adjusted(p, "holm"), [0.09, 0.04, 0.09, 0.5])
    np.testing.assert_allclose(adjusted(p, "fdr"), false_discovery_control(p))
    np.testing.assert_allclose(adjusted(p, "fdr", n_tests=8), [0.32 / 3, 0.08, 0.32 / 3, 1.0])


def test_adjusted_refuses():
    with pytest.raises(ValueError, match="n_tests must be at least the number of p-values, 2"):
        adjusted([0.1, 0.2], "holm", n_tests=1)
    with pytest.raises(ValueError, match="control must be one of"):
        adjusted([0.1], "bonferroni")


# Screening ---------------------------------------------------------------------------------


def dependent_rows(rng, n_states, n_rows, n_missing=0.2):
    """Rows that share a hidden number, with entries missing; state 3 of variable 4 never occurs."""
    hidden = rng.normal(size=(n_rows, 1))
    q = np.array(n_states)
    noise = rng.normal(size=(n_rows, len(q)))
    X = np.clip(np.round((hidden * rng.normal(size=len(q)) + noise + 1) * q / 3), 0, q - 1)
    X[:, 4] = np.minimum(X[:, 4], 2)
    X[rng.random(X.shape) < n_missing] = MISSING
    return X.astype(np.int16)


def by_scipy(x, y):
    """p-value and statistic of the rows where both are observed."""
    both = (x != MISSING) & (y != MISSING)
    a, i = np.unique(x[both], return_inverse=True)
    b, j = np.unique(y[both], return_inverse=True)
    if min(len(a), len(b)) < 2:
        return 1.0, 0.0
    table = np.zeros((len(a), len(b)))
    np.add.at(table, (i, j), 1)
    found = chi2_contingency(table, correction=False)
    return found.pvalue, found.statistic


def all_of(form):
    return np.ones(len(form.layout.n_states), dtype=bool)


def partners(n, most):
    """As many partners as asked for, whatever their parameters."""
    return screen.Budget(np.ones(n), np.inf, most)


@pytest.mark.parametrize("columns", [256, 4, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_screen_is_the_test_of_every_pair(columns, weighted, seed, monkeypatch):
    monkeypatch.setattr(screen, "COLUMNS", columns)
    rng = np.random.default_rng(seed)
    n_states = (2, 3, 2, 1, 4, 3, 2, 5)
    X = dependent_rows(rng, n_states, 150)
    weights = rng.integers(0, 4, len(X)).astype(float) if weighted else np.ones(len(X))
    repeated = np.repeat(X, weights.astype(int), axis=0)
    pairs = list(combinations(range(len(n_states)), 2))
    p = np.array([by_scipy(repeated[:, i], repeated[:, j])[0] for i, j in pairs])
    for level in (0.9999, 0.2, 0.01, 1e-4):
        found = screen.screen(X, weights, n_states, level=level)
        expected = adjusted(p, "fdr") <= level
        np.testing.assert_array_equal(found.edges, np.array(pairs)[expected].reshape(-1, 2))
        np.testing.assert_allclose(found.p, p[expected], rtol=1e-6, atol=1e-300)


def test_screen_of_fractional_weights(seed):
    """Weights that single precision does not hold exactly."""
    X = dependent_rows(np.random.default_rng(seed), (2, 3, 2, 2, 4), 200)
    for factor in (1.1, 1e6):
        ones = screen.screen(X, np.full(200, factor), (2, 3, 2, 2, 4), level=1)
        statistic = {
            pair: factor * by_scipy(*X[:, pair].T)[1] for pair in combinations(range(5), 2)
        }
        dofs = {
            (i, j): (q - 1) * (r - 1)
            for (i, q), (j, r) in combinations(enumerate((2, 3, 2, 2, 3)), 2)
        }
        for pair, p in zip(map(tuple, ones.edges.tolist()), ones.p, strict=True):
            assert p == pytest.approx(chi2.sf(statistic[pair], dofs[pair]), rel=1e-6, abs=1e-300)


def test_screen_counts_many_rows_exactly(seed):
    """Counts above 2 ** 24, which single precision would round."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (300, 6)).astype(np.int16)
    weights = rng.integers(10**6, 10**7, 300).astype(float)
    pairs, statistic, _ = screen._candidates(X, weights, (2,) * 6, 1.0)
    for (i, j), got in zip(pairs, statistic, strict=True):
        table = np.zeros((2, 2))
        np.add.at(table, (X[:, i], X[:, j]), weights)
        assert got == pytest.approx(chi2_contingency(table, correction=False).statistic, rel=1e-10)


def test_screen_of_nothing():
    X = np.zeros((4, 3), dtype=np.int16)
    for rows, n_states in ((X, (1, 1, 1)), (X, (2, 3, 1)), (X - 1, (2, 3, 2)), (X[:0], (2, 2, 2))):
        found = screen.screen(
            rows, np.ones(len(rows)), n_states, level=0.5, budget=partners(len(n_states), 2)
        )
        assert found.edges.shape == (0, 2)
        assert found.p.shape == (0,)
    found = screen.screen(X[:, :1], np.ones(4), (2,), level=0.5)
    assert found.edges.shape == (0, 2)


def test_screen_is_calibrated(seed):
    """Of independent variables the tests of different pairs are uncorrelated: a binomial count."""
    rng = np.random.default_rng(seed)
    n_states = np.repeat([2, 3], 20)
    X = rng.integers(0, n_states, (3000, 40)).astype(np.int16)
    p = screen.screen(X, np.ones(len(X)), n_states, level=1.0).p
    assert len(p) == 780
    for level in (0.05, 0.3, 0.7):
        assert TAIL < binom.cdf((p <= level).sum(), 780, level) < 1 - TAIL


def test_screen_caps_degrees(seed):
    """The smallest p-values of every variable, against a slow twin; ends must agree."""
    rng = np.random.default_rng(seed)
    n_states = (2,) * 9
    X = dependent_rows(rng, n_states, 400, 0.1)
    weights = np.ones(400)
    every = screen.screen(X, weights, n_states, level=0.3)
    assert len(every.edges) > 10
    p = {(i, j): by_scipy(X[:, i], X[:, j])[0] for i, j in every.edges.tolist()}
    for cap in (0, 1, 2, 4):
        best = {v: sorted((e for e in p if v in e), key=p.get)[:cap] for v in range(len(n_states))}
        expected = [e for e in sorted(p) if e in best[e[0]] and e in best[e[1]]]
        found = screen.screen(X, weights, n_states, level=0.3, budget=partners(X.shape[1], cap))
        assert [tuple(e) for e in found.edges.tolist()] == expected
        np.testing.assert_allclose(found.p, [p[e] for e in expected], rtol=1e-6)


def test_screen_has_room_for_parameters(seed):
    """A partner too large is passed over for later ones, unless it is the first."""
    rng = np.random.default_rng(seed)
    n_rows, noise = 4000, (0.5, 0.6, 0.7, 0.8)
    x = rng.integers(0, 2, n_rows)
    columns = [
        np.where(rng.random(n_rows) < share, rng.integers(0, 2, n_rows), x) for share in noise
    ]
    many = np.where(rng.random(n_rows) < 0.2, rng.integers(0, 6, n_rows), x)
    X = np.column_stack([x, many, *columns]).astype(np.int16)
    n_states = np.array([2, 6, 2, 2, 2, 2])

    def partners_of_first(room, most=64):
        budget = screen.Budget(n_states - 1.0, room, most)
        found = screen.screen(X, np.ones(n_rows), n_states, level=0.01, budget=budget).edges
        return sorted(j for i, j in found.tolist() if i == 0)

    assert partners_of_first(5.0) == [1]
    assert partners_of_first(7.0) == [1, 2, 3]
    assert partners_of_first(7.0, 2) == [1, 2]
    assert partners_of_first(1.0) == [1]
    X[:, 1] = rng.permutation(X[:, 1])
    assert partners_of_first(2.0) == [2, 3]


def test_screen_tells_underflowing_p_values_apart(seed):
    rng = np.random.default_rng(seed)
    n_rows = 40000
    x = rng.integers(0, 2, n_rows)
    flips = [rng.random(n_rows) < share for share in (0.2, 0.1, 0.3)]
    X = np.column_stack([x] + [np.where(flip, 1 - x, x) for flip in flips]).astype(np.int16)
    found = screen.screen(X, np.ones(n_rows), (2,) * 4, level=0.01, budget=partners(4, 1))
    assert found.edges.tolist() == [[0, 2]]
    assert found.p.tolist() == [0.0]


def test_log_p_goes_on_where_p_underflows():
    for dof in (1, 4, 36):
        statistic = np.array([600.0, 1000.0, 1400.0])
        exact = chi2.logsf(statistic, dof)
        a, z = dof / 2, statistic / 2
        assert np.isfinite(exact).all()
        beyond = tails.log_tail(np.array([1400.0, 3000.0, 5000.0]), np.full(3, dof))
        assert beyond[0] == pytest.approx(exact[2])
        slope = np.diff(beyond) / [1600, 2000]
        np.testing.assert_allclose(slope, -0.5, atol=0.5 * (dof - 2 if dof > 2 else 1) / 1400)
        assert z[2] > a


def test_pair_counts_seen(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X = dependent_rows(rng, (2, 3, 2, 2, 4), 60)
    weights = rng.random(60)
    expected = np.zeros((5, 5))
    for row, w in zip(X != MISSING, weights, strict=True):
        expected += w * np.outer(row, row)
    np.testing.assert_allclose(screen.pair_counts_seen(X, weights), expected)
    monkeypatch.setattr(screen, "NUMBERS_A_BLOCK", 8 * 5 * 7)
    np.testing.assert_allclose(screen.pair_counts_seen(X, weights), expected)


# Regressions -------------------------------------------------------------------------------


def law(energy):
    """All joint states and their probabilities."""
    X = np.array(list(product(*(range(q) for q in energy.n_states))), dtype=np.int16)
    log_f = energy.log_potential(X)
    p = np.exp(log_f - log_f.max())
    return X, p / p.sum()


def random_energy(rng, n_states, edges, statistic, unary, scale=0.7):
    form = LogLinearForm.build(n_states, edges, statistic, unary)
    theta = {k: scale * rng.normal(size=v.shape) for k, v in form.zeros().items()}
    return LogLinearEnergy(form, theta)


def counted(rng, energy, n_rows):
    """Distinct rows of a sample and how often they occur."""
    X, p = law(energy)
    counts = rng.multinomial(n_rows, p).astype(float)
    return X[counts > 0], counts[counts > 0]


def parameters_of(form, i):
    """Names and numbers of the parameters of the regression of a variable, in order."""
    q = form.layout.n_states
    if q[i] == 1:
        return []
    out = []
    if form.unary:
        out += [("unary", k) for k in range(*form.unary_start[i : i + 2])]
    for e, (a, b) in enumerate(form.edges):
        if i in (a, b) and min(q[a], q[b]) > 1:
            out += [("pairs", k) for k in range(*form.pair_start[e : e + 2])]
    return out


def features(form, X, i):
    """Statistics by row, state and parameter, from the log-potentials of whole rows."""
    names = parameters_of(form, i)
    F = np.zeros((len(X), form.layout.n_states[i], len(names)))
    for k, (name, number) in enumerate(names):
        theta = form.zeros()
        theta[name][number] = 1.0
        energy = LogLinearEnergy(form, theta)
        for a in range(F.shape[1]):
            rows = X.copy()
            rows[:, i] = a
            F[:, a, k] = energy.log_potential(rows)
    return F


def derivatives(F, states, weights, theta):
    """Log-likelihood, scores of the rows and information, from the definition."""
    logits = F @ theta
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    rows = np.arange(len(F))
    value = weights @ np.log(p[rows, states])
    mean = np.einsum("rak,ra->rk", F, p)
    scores = F[rows, states] - mean
    second = np.einsum("rak,ral,ra,r->kl", F, F, p, weights)
    return value, scores, second - np.einsum("rk,rl,r->kl", mean, mean, weights)


def slow_fit(F, states, weights):
    theta = np.zeros(F.shape[2])
    for _ in range(60):
        _, scores, information = derivatives(F, states, weights, theta)
        gradient = scores.T @ weights - 0.01 * theta
        theta = theta + np.linalg.solve(information + 0.01 * np.eye(len(theta)), gradient)
    return theta


@pytest.fixture(params=FORMS, ids=lambda f: f"{f[0]}-{f[1]}")
def problem(request, seed):
    """Weighted rows of a model of mixed numbers of states, and a form to fit."""
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, MIXED, EDGES, *request.param)
    X, weights = counted(rng, energy, 1500)
    return X, weights, LogLinearForm.build(MIXED, EDGES[:-1], *request.param)


def test_fits_are_maximisers(problem):
    """Gradient zero; covariances, log-likelihoods and weighted means from the definitions."""
    X, weights, form = problem
    fits = fit_nodes(X, weights, form)
    pairs = form.zeros()["pairs"]
    precisions = [np.zeros((d, d)) for d in np.diff(form.pair_start)]
    for i in range(len(MIXED)):
        names, own = parameters_of(form, i), fits.own[i]
        assert fits.n_parameters[i] == len(names) == len(own)
        F = features(form, X, i)
        value, scores, information = derivatives(F, X[:, i], weights, own)
        assert fits.log_likelihood[i] == pytest.approx(value, abs=1e-9)
        np.testing.assert_allclose(scores.T @ weights, 0.01 * own, atol=1e-6)
        eye = 0.01 * np.eye(len(own))
        inverse = np.linalg.inv(information + eye) if len(own) else eye
        sandwich = inverse @ (scores.T * weights @ scores + eye) @ inverse
        for k, (name, number) in enumerate(names):
            if name == "unary":
                assert fits.theta["unary"][number] == own[k]
        for e in {form.owner[number] for name, number in names if name == "pairs"}:
            at = [k for k, (name, n) in enumerate(names) if name == "pairs" and form.owner[n] == e]
            numbers = [names[k][1] for k in at]
            precision = np.linalg.inv(sandwich[np.ix_(at, at)]) / 2
            order = np.argsort(numbers)
            precisions[e] += precision[np.ix_(order, order)]
            pairs[np.sort(numbers)] += (precision @ own[at])[order]
    covariances = [np.linalg.inv(p) if p.any() else p for p in precisions]
    for e, (start, stop) in enumerate(pairwise(form.pair_start)):
        pairs[start:stop] = covariances[e] @ pairs[start:stop]
    np.testing.assert_allclose(fits.theta["pairs"], pairs, atol=1e-9)
    for got, expected in zip(fits.covariances, covariances, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-10)
    statistic, dof = fits.wald()
    split = np.split(fits.theta["pairs"], form.pair_start[1:-1])
    for e, (theta, covariance) in enumerate(zip(split, covariances, strict=True)):
        constant = min(np.array(MIXED)[form.edges[e]]) == 1
        assert dof[e] == (0 if constant else len(theta))
        expected = 0.0 if constant else theta @ np.linalg.solve(covariance, theta)
        assert statistic[e] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("statistic", "unary"), FORMS)
def test_population_gives_the_parameters_back(statistic, unary, seed):
    """Tables of different numbers of states are not symmetric, so no axis may be confused."""
    n_states, edges = (3, 2, 4, 2), [(0, 1), (0, 2), (1, 2), (1, 3)]
    energy = random_energy(np.random.default_rng(seed), n_states, edges, statistic, unary)
    X, p = law(energy)
    fits = fit_nodes(X, 1e9 * p, energy.form)
    for name, theta in energy.theta.items():
        np.testing.assert_allclose(fits.theta[name], theta, atol=1e-4)
    wrong = fit_nodes(X[:, [0, 3, 2, 1]], 1e9 * p, energy.form)
    assert np.abs(wrong.theta["pairs"] - energy.theta["pairs"]).max() > 1e-2


def sklearn_coefficients(D, y):
    model = LogisticRegression(C=100.0, fit_intercept=False, tol=1e-10, max_iter=10000)
    return model.fit(D, y).coef_


def test_two_states_against_sklearn(seed):
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, (2,) * 4, [(0, 1), (0, 2), (0, 3), (1, 2)], "table", True)
    X, p = law(energy)
    X = X[rng.choice(len(X), 800, p=p)]
    fits = fit_nodes(X, np.ones(len(X)), energy.form)
    D = np.column_stack([np.full(len(X), -np.sqrt(2)), 2.0 * X[:, 1:] - 1])
    np.testing.assert_allclose(fits.own[0], sklearn_coefficients(D, X[:, 0])[0], atol=1e-5)


def test_many_states_against_sklearn(seed):
    """Orthonormal contrasts leave the norm alone, so the ridges are the same."""
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, (3, 4, 2), [(0, 1), (0, 2)], "table", True)
    X, p = law(energy)
    X = X[rng.choice(len(X), 2000, p=p)]
    fits = fit_nodes(X, np.ones(len(X)), energy.form)
    D = np.column_stack([np.ones(len(X)), contrasts(4)[X[:, 1]], contrasts(2)[X[:, 2]]])
    coefficients = sklearn_coefficients(D, X[:, 0])
    own, first, second = fits.own[0][:2], fits.own[0][2:8], fits.own[0][8:]
    expected = np.column_stack([own, first.reshape(2, 3), second.reshape(2, 1)])
    np.testing.assert_allclose(contrasts(3) @ expected, coefficients, atol=1e-4)


def everything(X, weights, form, **options):
    """All numbers that the module computes of rows."""
    fits = fit_nodes(X, weights, form, **options)
    edges = np.arange(len(form.edges))
    return [
        *fits.theta.values(),
        *fits.covariances,
        fits.log_likelihood,
        fits.n_parameters,
        *fits.wald(),
        *score_tests(fits, X, weights, form, all_of(form), **options),
        *likelihood_ratio(fits, X, weights, edges, **options),
    ]


def assert_same(first, second, **tolerance):
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


@pytest.mark.parametrize("n_states", [MIXED, (2, 2, 1, 2, 2, 2)])
def test_how_the_rows_come_does_not_count(n_states, seed, monkeypatch):
    """Weight 2 is the row twice, chunks are sums, threads change nothing."""
    rng = np.random.default_rng(seed)
    X, weights = counted(rng, random_energy(rng, n_states, EDGES, "table", True), 800)
    form = LogLinearForm.build(n_states, EDGES[:-1])
    once = everything(X, weights, form)
    assert all(np.isfinite(part).all() for part in once)
    tolerance = {"rtol": 1e-6, "atol": 1e-7}
    repeated = np.repeat(X, weights.astype(int), axis=0)
    assert_same(once, everything(repeated, np.ones(len(repeated)), form), **tolerance)
    assert_same(once, everything(np.asfortranarray(X), weights, form, n_jobs=2), rtol=0, atol=1e-9)
    monkeypatch.setattr(regression, "NUMBERS_A_CHUNK", 200)
    assert_same(once, everything(X, weights, form), **tolerance)
    monkeypatch.setattr(regression, "REPEATED", np.inf)
    assert_same(once, everything(X, weights, form), **tolerance)


def test_rows_of_a_pattern_share_the_states_of_all_partners(problem):
    X, weights, form = problem
    for node in regression.nodes_of(form):
        patterns = regression.Patterns(node, X.T)
        theirs = X[:, node.partners]
        np.testing.assert_array_equal(theirs[patterns.first][patterns.which], theirs)
        assert len(patterns) == len(np.unique(theirs, axis=0))
        counts = patterns.counts(weights)
        assert counts.shape == (node.n_states, len(patterns))
        for a in range(node.n_states):
            these = X[:, node.variable] == a
            expected = np.bincount(patterns.which[these], weights[these], len(patterns))
            np.testing.assert_allclose(counts[a], expected)


def test_separated_and_repeated_columns_stay_finite(seed):
    """A column twice, a column that another one decides, a constant one, a state that is absent."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (500, 3))
    decided = x[:, 1] * (1 + x[:, 2])
    X = np.column_stack([x, x[:, 0], decided, np.zeros(500)]).astype(np.int16)
    weights = np.ones(500)
    edges = [(0, 1), (0, 3), (1, 3), (1, 4), (2, 4), (2, 5)]
    for statistic, unary in FORMS:
        form = LogLinearForm.build((2, 2, 2, 2, 4, 2), edges, statistic, unary)
        found = everything(X, weights, form)
        assert all(np.isfinite(part).all() for part in found)
        lost, dof = likelihood_ratio(fit_nodes(X, weights, form), X, weights, [1, 3])
        assert (chi2.sf(lost, dof) < 1e-8).all()


def test_an_edge_to_a_constant_says_nothing(seed):
    """Nor one to a second copy of a neighbour: neither is needed where the other is there."""
    rng = np.random.default_rng(seed)
    x = (rng.random((2000, 2)) < 0.8).astype(np.int16)
    y = np.where(rng.random(2000) < 0.2, 1 - x[:, 0], x[:, 0])
    X = np.column_stack([x[:, 0], y, y, np.zeros(2000)]).astype(np.int16)
    weights = np.ones(2000)
    form = LogLinearForm.build((2,) * 4, [(0, 1), (0, 2), (0, 3)])
    fits = fit_nodes(X, weights, form)
    statistic, _ = fits.wald()
    lost, _ = likelihood_ratio(fits, X, weights, [0, 1, 2])
    assert statistic[2] < 0.1
    assert lost[2] < 0.1
    without = LogLinearForm.build((2,) * 4, [(0, 1)])
    fits = fit_nodes(X, weights, without)
    for score in (scores._two_state_scores, scores._table_scores):
        statistic, dof = score(fits, X, weights, without, all_of(without), None)
        assert statistic[0, 2] == dof[0, 2] == 0  # what 1 says already
        assert statistic[0, 3] == dof[0, 3] == 0


def test_newton_steps_that_go_too_far_are_halved(problem):
    X, weights, form = problem
    fits = fit_nodes(X, weights, form)
    for node, own in zip(regression.nodes_of(form), fits.own, strict=True):
        if node.n_states > 1:
            far, _, _ = regression.Regression(node, X.T, weights).maximise(np.full(len(own), 20.0))
            np.testing.assert_allclose(far, own, atol=1e-5)


# Tests of edges ----------------------------------------------------------------------------


def slow_score(fits, X, weights, form, i, j):
    """Mean of both directions, from the information of the model with the pair added."""
    statistics = []
    edges = [*form.edges.tolist(), sorted([i, j])]
    more = LogLinearForm.build(form.layout.n_states, edges, form.statistic, form.unary)
    for v in (i, j):
        names = parameters_of(more, v)
        new = np.array([n == "pairs" and more.owner[k] == len(edges) - 1 for n, k in names])
        theta = np.zeros(len(names))
        theta[~new] = fits.own[v]
        _, scores, information = derivatives(features(more, X, v), X[:, v], weights, theta)
        information[~new, ~new] += 0.01
        left = np.linalg.inv(np.linalg.inv(information)[np.ix_(new, new)])
        score = (scores.T @ weights)[new]
        statistics.append(score @ np.linalg.solve(left, score))
    return np.mean(statistics), new.sum()


@pytest.mark.parametrize(("statistic", "unary"), FORMS)
@pytest.mark.parametrize("n_states", [(2, 3, 2, 4, 1, 2), (2, 2, 2, 1, 2)])
def test_scores_against_the_definition(n_states, statistic, unary, seed):
    rng = np.random.default_rng(seed)
    n = len(n_states)
    edges = [e for e in EDGES if max(e) < n]
    energy = random_energy(rng, n_states, edges, statistic, unary)
    X, weights = counted(rng, energy, 3000)
    form = LogLinearForm.build(n_states, edges[:-2], statistic, unary)
    fits = fit_nodes(X, weights, form)
    found, dof = score_tests(fits, X, weights, form, all_of(form))
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(dof, dof.T)
    assert not found.diagonal().any()
    kept = {tuple(e) for e in form.edges.tolist()}
    for i, j in combinations(range(n), 2):
        expected = 0.0, 0
        if (i, j) not in kept and min(n_states[i], n_states[j]) > 1:
            expected = slow_score(fits, X, weights, form, i, j)
        assert dof[i, j] == expected[1]
        assert found[i, j] == pytest.approx(expected[0], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("statistic", ["table", "agreement"])
@pytest.mark.parametrize("unary", [True, False])
def test_both_ways_to_the_scores_agree(statistic, unary, seed):
    rng = np.random.default_rng(seed)
    n_states = (2, 2, 1, 2, 2, 2, 2)
    energy = random_energy(rng, n_states, [*EDGES, (5, 6)], statistic, unary)
    X, weights = counted(rng, energy, 2000)
    form = LogLinearForm.build(n_states, EDGES, statistic, unary)
    fits = fit_nodes(X, weights, form)
    first, second = (
        scores._symmetric(form, score(fits, X, weights, form, form.layout.n_states > 1, None))
        for score in (scores._two_state_scores, scores._table_scores)
    )
    assert_same(first, second, rtol=1e-8, atol=1e-9)
    assert first[0][5, 6] > 0
    for part in scores._symmetric(form, (np.ones((7, 7)), np.ones((7, 7), dtype=int))):
        assert part.sum() == 7 * 6 - 2 * len(EDGES)


@pytest.mark.parametrize(("statistic", "unary"), FORMS)
def test_likelihood_ratio_is_that_of_two_fits(statistic, unary, seed):
    rng = np.random.default_rng(seed)
    X, weights = counted(rng, random_energy(rng, MIXED, EDGES, statistic, unary), 3000)
    form = LogLinearForm.build(MIXED, EDGES, statistic, unary)
    which = [3, 0, 4, 5]
    found, dof = likelihood_ratio(fit_nodes(X, weights, form), X, weights, which)
    for e, got, d in zip(which, found, dof, strict=True):
        if 4 in EDGES[e]:
            assert got == d == 0
            continue
        less = LogLinearForm.build(MIXED, EDGES[:e] + EDGES[e + 1 :], statistic, unary)
        losses = []
        for i in EDGES[e]:
            values = []
            for f in (form, less):
                F = features(f, X, i)
                theta = slow_fit(F, X[:, i], weights)
                values.append(derivatives(F, X[:, i], weights, theta)[0])
            losses.append(2 * (values[0] - values[1]))
        assert got == pytest.approx(np.mean(losses), rel=1e-6, abs=1e-6)
        assert d == form.pair_start[e + 1] - form.pair_start[e]


def test_spread_of_estimates_is_that_of_the_sandwich(seed):
    """The variance of repeated estimates has a relative error of sqrt(2 / repeats)."""
    rng = np.random.default_rng(seed)
    edges = [(0, 1), (1, 2), (2, 3), (0, 3)]
    form = LogLinearForm.build((2,) * 4, edges, "agreement")
    energy = LogLinearEnergy(form, {"unary": np.array([0.3, 0, -0.2, 0]), "pairs": np.full(4, 0.6)})
    repeats, estimates, variances = 800, [], []
    for _ in range(repeats):
        fits = fit_nodes(*counted(rng, energy, 2000), form)
        estimates.append(fits.theta["pairs"])
        variances.append(np.ravel(fits.covariances))
    ratio = np.var(estimates, axis=0, ddof=1) / np.mean(variances, axis=0)
    np.testing.assert_allclose(ratio, 1.0, atol=5 * np.sqrt(2 / repeats) + 0.03)
    error = np.std(estimates, axis=0) / np.sqrt(repeats)
    assert (np.abs(np.mean(estimates, axis=0) - 0.6) < 5 * error + 5e-3).all()


def pair_statistics(rng, pair, n_states, repeats, strength):
    """Wald, score and likelihood ratio statistics of the last pair of a chain that is closed."""
    n = len(n_states)
    chain = [(i, i + 1) for i in range(n - 1)]
    more = LogLinearForm.build(n_states, [*chain, pair])
    less = LogLinearForm.build(n_states, chain)
    theta = {k: np.full(v.shape, 0.4) for k, v in more.zeros().items()}
    theta["pairs"][more.pair_start[-2] :] = strength
    energy = LogLinearEnergy(more, theta)
    found = np.zeros((repeats, 3))
    for k in range(repeats):
        X, weights = counted(rng, energy, 3000)
        statistic, dof = score_tests(fit_nodes(X, weights, less), X, weights, less, all_of(less))
        fits = fit_nodes(X, weights, more)
        wald = fits.wald()
        ratio = likelihood_ratio(fits, X, weights, [n - 1])
        assert (
            dof[pair] == wald[1][-1] == ratio[1][0] == (more.pair_start[-1] - more.pair_start[-2])
        )
        found[k] = wald[0][-1], statistic[pair], ratio[0][0]
    return found, dof[pair]


@pytest.mark.parametrize("n_states", [(2, 2, 2, 2), (3, 2, 2)])
def test_statistics_under_the_null(n_states, seed):
    """Wald, score and likelihood ratio: binomial counts of small p-values; the three agree."""
    pair = (0, len(n_states) - 1)
    found, dof = pair_statistics(np.random.default_rng(seed), pair, n_states, 400, 0.0)
    p = chi2.sf(found, dof)
    for level in (0.05, 0.3, 0.7):
        tails = binom.cdf((p <= level).sum(axis=0), 400, level)
        assert ((tails > TAIL) & (tails < 1 - TAIL)).all(), (level, tails)
    scale = 0.05 + 0.1 * found.mean(axis=1, keepdims=True)
    assert (np.abs(found - found.mean(axis=1, keepdims=True)) < scale).mean() > 0.98


def test_statistics_under_an_alternative(seed):
    found, dof = pair_statistics(np.random.default_rng(seed), (0, 3), (2,) * 4, 100, 0.15)
    p = chi2.sf(found, dof)
    assert (p < 0.05).mean() > 0.8
    np.testing.assert_allclose(found.mean(axis=0), found.mean(), rtol=0.03)


@pytest.mark.parametrize("n_states", [(2, 2, 2, 2, 2), (3, 2, 3, 3, 2)], ids=str)
def test_scores_of_some_variables(n_states, seed):
    """Those of all, where both ends are among them."""
    rng = np.random.default_rng(seed)
    X, weights = counted(rng, random_energy(rng, n_states, [(0, 1), (1, 2)], "table", True), 2000)
    form = LogLinearForm.build(n_states, [(0, 1)])
    fits, some = fit_nodes(X, weights, form), np.array([True, True, True, False, True])
    whole = score_tests(fits, X, weights, form, all_of(form))
    for found, every in zip(score_tests(fits, X, weights, form, some), whole, strict=True):
        np.testing.assert_allclose(found, np.where(some & some[:, None], every, 0.0), rtol=1e-10)


def test_no_edges_and_no_parameters(seed):
    rng = np.random.default_rng(seed)
    X, weights = counted(rng, random_energy(rng, (2, 3, 1), [(0, 1)], "table", True), 500)
    none = np.zeros((0, 2), dtype=int)
    for unary in (True, False):
        form = LogLinearForm.build((2, 3, 1), none, "table", unary)
        fits = fit_nodes(X, 1000 * weights, form)  # the ridge counts for little
        assert fits.n_parameters.tolist() == ([1, 2, 0] if unary else [0, 0, 0])
        assert [part.shape for part in fits.wald()] == [(0,), (0,)]
        statistic, dof = score_tests(fits, X, 1000 * weights, form, all_of(form))
        assert dof.tolist() == [[0, 2, 0], [2, 0, 0], [0, 0, 0]]
        if unary:
            expected = by_scipy(*np.repeat(X, weights.astype(int), axis=0)[:, :2].T)[1]
            assert statistic[0, 1] == pytest.approx(1000 * expected, rel=1e-3)
