"""Tests of hypothesis tests of edges: independence, score and likelihood-ratio tests, p-values."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import (
    binom,
    chi2,
    chi2_contingency,
    false_discovery_control,
    fisher_exact,
    hypergeom,
    norm,
)
from structure_rows import (
    EDGES,
    FORMS,
    MIXED,
    TAIL,
    all_of,
    assert_same,
    by_scipy,
    counted,
    derivatives,
    features,
    parameters_of,
    pseudo_log_likelihoods,
    random_energy,
)

from skmrf import MRFStructureLearner
from skmrf._utils.codes import MISSING, STATE
from skmrf.energies.log_linear import LogLinearEnergy, LogLinearForm
from skmrf.structure import assessment as score_module
from skmrf.structure import screening
from skmrf.structure.assessment import pseudo_likelihood_covariances, score_tests
from skmrf.structure.nodewise import fit_nodes, likelihood_ratio
from skmrf.structure.regression import RIDGE
from skmrf.structure.rows import Rows
from skmrf.structure.significance import (
    adjust_p_values,
    correct_rare_cells,
    edge_probabilities,
    fill_untested,
    log_tail,
)


def naive_fit(F, states, weights):
    theta = np.zeros(F.shape[2])
    for _ in range(60):
        _, scores, information = derivatives(F, states, weights, theta)
        gradient = scores.T @ weights - 0.01 * theta
        theta = theta + np.linalg.solve(information + 0.01 * np.eye(len(theta)), gradient)
    return theta


def naive_score(fits, X, weights, form, i, j):
    """Return the mean score statistic of both directions, from the model with the pair added."""
    statistics = []
    edges = [*form.edges.tolist(), sorted([i, j])]
    extended = LogLinearForm.build(form.layout.n_states, edges, form.statistic, form.unary)
    for v in (i, j):
        names = parameters_of(extended, v)
        new = np.array([n == "pairs" and extended.owner[k] == len(edges) - 1 for n, k in names])
        theta = np.zeros(len(names))
        theta[~new] = fits.node_parameters[v]
        _, scores, information = derivatives(features(extended, X, v), X[:, v], weights, theta)
        information[~new, ~new] += 0.01
        left = np.linalg.inv(np.linalg.inv(information)[np.ix_(new, new)])
        score = (scores.T @ weights)[new]
        statistics.append(score @ np.linalg.solve(left, score))
    return np.mean(statistics), new.sum()


@pytest.mark.parametrize(("statistic", "unary"), FORMS)
@pytest.mark.parametrize("n_states", [(2, 3, 2, 4, 1, 2), (2, 2, 2, 1, 2)])
def test_score_statistics_match_the_definition(n_states, statistic, unary, seed):
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
            expected = naive_score(fits, X, weights, form, i, j)
        assert dof[i, j] == expected[1]
        assert found[i, j] == pytest.approx(expected[0], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("statistic", ["table", "agreement"])
@pytest.mark.parametrize("unary", [True, False])
def test_two_state_and_table_scores_agree(statistic, unary, seed):
    rng = np.random.default_rng(seed)
    n_states = (2, 2, 1, 2, 2, 2, 2)
    energy = random_energy(rng, n_states, [*EDGES, (5, 6)], statistic, unary)
    X, weights = counted(rng, energy, 2000)
    form = LogLinearForm.build(n_states, EDGES, statistic, unary)
    fits = fit_nodes(X, weights, form)
    first, second = (
        score_module._symmetrise(
            form, score(fits, X, weights, form, form.layout.n_states > 1, None)
        )
        for score in (score_module._two_state_scores, score_module._table_scores)
    )
    assert_same(first, second, rtol=1e-8, atol=1e-9)
    assert first[0][5, 6] > 0
    for part in score_module._symmetrise(form, (np.ones((7, 7)), np.ones((7, 7), dtype=int))):
        assert part.sum() == 7 * 6 - 2 * len(EDGES)


@pytest.mark.parametrize(("statistic", "unary"), FORMS)
def test_likelihood_ratio_matches_two_fits(statistic, unary, seed):
    rng = np.random.default_rng(seed)
    X, weights = counted(rng, random_energy(rng, MIXED, EDGES, statistic, unary), 3000)
    form = LogLinearForm.build(MIXED, EDGES, statistic, unary)
    which = [3, 0, 4, 5]
    found, dof = likelihood_ratio(fit_nodes(X, weights, form), X, weights, which)
    for e, got, d in zip(which, found, dof, strict=True):
        if 4 in EDGES[e]:
            assert got == d == 0
            continue
        reduced = LogLinearForm.build(MIXED, EDGES[:e] + EDGES[e + 1 :], statistic, unary)
        losses = []
        for i in EDGES[e]:
            values = []
            for f in (form, reduced):
                F = features(f, X, i)
                theta = naive_fit(F, X[:, i], weights)
                values.append(derivatives(F, X[:, i], weights, theta)[0])
            losses.append(2 * (values[0] - values[1]))
        assert got == pytest.approx(np.mean(losses), rel=1e-6, abs=1e-6)
        assert d == form.pair_start[e + 1] - form.pair_start[e]


def test_variance_of_estimates_matches_the_sandwich_covariance(seed):
    """The variance of repeated estimates has a relative error of sqrt(2 / repeats)."""
    rng = np.random.default_rng(seed)
    edges = [(0, 1), (1, 2), (2, 3), (0, 3)]
    form = LogLinearForm.build((2,) * 4, edges, "agreement")
    energy = LogLinearEnergy(form, {"unary": np.array([0.3, 0, -0.2, 0]), "pairs": np.full(4, 0.6)})
    repeats, estimates, variances = 80, [], []
    for _ in range(repeats):
        fits = fit_nodes(*counted(rng, energy, 2000), form)
        estimates.append(fits.theta["pairs"])
        variances.append(np.ravel(fits.covariances))
    ratio = np.var(estimates, axis=0, ddof=1) / np.mean(variances, axis=0)
    np.testing.assert_allclose(ratio, 1.0, atol=5 * np.sqrt(2 / repeats) + 0.03)
    error = np.std(estimates, axis=0) / np.sqrt(repeats)
    assert (np.abs(np.mean(estimates, axis=0) - 0.6) < 5 * error + 5e-3).all()


def pair_statistics(rng, pair, n_states, repeats, strength):
    """Return Wald, score and likelihood-ratio statistics of the pair that closes a chain."""
    n = len(n_states)
    chain = [(i, i + 1) for i in range(n - 1)]
    extended = LogLinearForm.build(n_states, [*chain, pair])
    reduced = LogLinearForm.build(n_states, chain)
    theta = {k: np.full(v.shape, 0.4) for k, v in extended.zeros().items()}
    theta["pairs"][extended.pair_start[-2] :] = strength
    energy = LogLinearEnergy(extended, theta)
    found = np.zeros((repeats, 3))
    for k in range(repeats):
        X, weights = counted(rng, energy, 3000)
        statistic, dof = score_tests(
            fit_nodes(X, weights, reduced), X, weights, reduced, all_of(reduced)
        )
        fits = fit_nodes(X, weights, extended)
        wald = fits.wald()
        ratio = likelihood_ratio(fits, X, weights, [n - 1])
        assert (
            dof[pair]
            == wald[1][-1]
            == ratio[1][0]
            == (extended.pair_start[-1] - extended.pair_start[-2])
        )
        found[k] = wald[0][-1], statistic[pair], ratio[0][0]
    return found, dof[pair]


@pytest.mark.parametrize("n_states", [(2, 2, 2, 2), (3, 2, 2)])
def test_statistics_under_the_null_hypothesis(n_states, seed):
    """Wald, score and likelihood-ratio tests have the right size and agree."""
    pair = (0, len(n_states) - 1)
    found, dof = pair_statistics(np.random.default_rng(seed), pair, n_states, 50, 0.0)
    p = chi2.sf(found, dof)
    for level in (0.05, 0.3, 0.7):
        tails = binom.cdf((p <= level).sum(axis=0), 50, level)
        assert ((tails > TAIL) & (tails < 1 - TAIL)).all(), (level, tails)
    scale = 0.05 + 0.1 * found.mean(axis=1, keepdims=True)
    assert (np.abs(found - found.mean(axis=1, keepdims=True)) < scale).mean() > 0.98


def test_statistics_under_an_alternative(seed):
    found, dof = pair_statistics(np.random.default_rng(seed), (0, 3), (2,) * 4, 20, 0.15)
    p = chi2.sf(found, dof)
    assert (p < 0.05).mean() > 0.6
    np.testing.assert_allclose(found.mean(axis=0), found.mean(), rtol=0.03)


@pytest.mark.parametrize("n_states", [(2, 2, 2, 2, 2), (3, 2, 3, 3, 2)], ids=str)
def test_score_tests_of_a_subset_of_variables(n_states, seed):
    """Score tests of a subset of variables equal those of all variables."""
    rng = np.random.default_rng(seed)
    X, weights = counted(rng, random_energy(rng, n_states, [(0, 1), (1, 2)], "table", True), 2000)
    form = LogLinearForm.build(n_states, [(0, 1)])
    fits, tested = fit_nodes(X, weights, form), np.array([True, True, True, False, True])
    all_tests = score_tests(fits, X, weights, form, all_of(form))
    for found, complete in zip(score_tests(fits, X, weights, form, tested), all_tests, strict=True):
        np.testing.assert_allclose(
            found, np.where(tested & tested[:, None], complete, 0.0), rtol=1e-10
        )


def test_scores_of_pairs_with_many_parameters(seed, monkeypatch):
    """Without neighbours they are Pearson's statistics; with neighbours they are not larger."""
    rng = np.random.default_rng(seed)
    n_states = 3, 4, 2, 4
    X, weights = counted(rng, random_energy(rng, n_states, [(0, 1), (1, 2)], "table", True), 3000)
    for edges in ([], [(0, 1), (2, 3)]):
        form = LogLinearForm.build(n_states, np.reshape(edges, (-1, 2)).astype(int))
        fits = fit_nodes(X, 1000 * weights, form)  # large weights make the ridge negligible
        whole, expected_dof = score_tests(fits, X, 1000 * weights, form, all_of(form))
        with monkeypatch.context() as patched:
            patched.setattr(score_module, "MAX_PARAMETERS", 0)
            found, dof = score_tests(fits, X, 1000 * weights, form, all_of(form))
        np.testing.assert_array_equal(dof, expected_dof)
        np.testing.assert_allclose(found, found.T)
        assert (found <= whole * (1 + 1e-6) + 1e-6).all()
        if not edges:
            np.testing.assert_allclose(found, whole, rtol=1e-3)
            rows = np.repeat(X, weights.astype(int), axis=0)
            assert found[0, 3] == pytest.approx(1000 * by_scipy(*rows[:, [0, 3]].T)[1], rel=1e-3)
        else:
            assert found[0, 2] > 0.5 * whole[0, 2]


def test_score_tests_without_edges_or_parameters(seed):
    rng = np.random.default_rng(seed)
    X, weights = counted(rng, random_energy(rng, (2, 3, 1), [(0, 1)], "table", True), 500)
    none = np.zeros((0, 2), dtype=int)
    for unary in (True, False):
        form = LogLinearForm.build((2, 3, 1), none, "table", unary)
        fits = fit_nodes(X, 1000 * weights, form)  # large weights make the ridge negligible
        assert fits.n_parameters.tolist() == ([1, 2, 0] if unary else [0, 0, 0])
        assert [part.shape for part in fits.wald()] == [(0,), (0,)]
        statistic, dof = score_tests(fits, X, 1000 * weights, form, all_of(form))
        assert dof.tolist() == [[0, 2, 0], [2, 0, 0], [0, 0, 0]]
        if unary:
            expected = by_scipy(*np.repeat(X, weights.astype(int), axis=0)[:, :2].T)[1]
            assert statistic[0, 1] == pytest.approx(1000 * expected, rel=1e-3)


def rare_columns(rng, rate, shape):
    """Return independent columns of zeros and ones, none of them constant."""
    X = (rng.random(shape) < rate) * 1
    X[rng.integers(shape[0], size=shape[1]), np.arange(shape[1])] = 1
    return X


def test_rare_cells_have_exact_tests(seed):
    rng = np.random.default_rng(seed)
    tables = rng.integers(1, 9, (200, 2, 2)) * rng.choice([1, 30], (200, 2, 2)) + 0.0
    tables[::3, 1, 1] = 0
    expected = (
        tables.sum(2)[:, :, None] * tables.sum(1)[:, None] / tables.sum((1, 2))[:, None, None]
    )
    found = correct_rare_cells(np.full(200, -1.0), tables, expected)
    is_rare = expected.min(axis=(1, 2)) < 10
    assert (found[~is_rare] == -1).all()
    for table, statistic in zip(tables[is_rare], found[is_rare], strict=True):
        same = hypergeom(table.sum(), table[1].sum(), table[:, 1].sum())
        pmf = same.pmf(np.arange(table.sum() + 1))
        equal = pmf[np.isclose(pmf, same.pmf(table[1, 1]), rtol=1e-6, atol=0)].sum()
        p = fisher_exact(table)[1] - equal / 2
        assert chi2.sf(statistic, 1) == pytest.approx(p, rel=1e-4)


@pytest.mark.parametrize("kind", ["binary", "categories", "numbers"])
def test_rare_columns_without_edges(kind, seed):
    """Adjusted p-values of independent rare columns are valid, and edge probabilities are small."""
    rng, n_found = np.random.default_rng(seed), 0
    for _ in range(7):
        X = rare_columns(rng, 0.02, (200, 12))
        if kind == "categories":
            X[:, 0] = rng.integers(0, 3, 200)
        if kind == "numbers":
            X = np.column_stack([X, rng.standard_normal(200)])
        learner = MRFStructureLearner(random_state=0).fit(X)
        n_found += learner.p_values_.min() <= 0.05
        assert (learner.p_values_ > 1e-4).all()
        assert learner.edge_probability_.max() < 0.999
    assert n_found <= 3  # binomial with p = 0.05


@pytest.mark.parametrize("has_numbers", [False, True])
def test_dependent_rare_columns_are_edges(has_numbers, seed):
    rng = np.random.default_rng(seed)
    X = rare_columns(rng, 0.03, (300, 8))
    X[:, 0] = np.arange(300) < 9
    X[:, 1] = (np.arange(300) >= 2) & (np.arange(300) < 11)  # seven joint occurrences
    if has_numbers:
        X = np.column_stack([X, rng.standard_normal(300)])
    learner = MRFStructureLearner(random_state=0).fit(X)
    assert (learner.edges_ == [0, 1]).all(axis=1).any()
    others = np.triu(learner.edge_probability_ >= 0.95, 1).sum() - 1
    assert others == 0
    assert learner.p_values_[0, 1] == pytest.approx(0.0, abs=1e-6)


def test_rare_cells_of_larger_tables(seed):
    rng, n = np.random.default_rng(seed), 4_000
    p = np.array([0.9, 0.07, 0.03])
    a, b = (rng.choice(3, size=(n, 200), p=p) for _ in range(2))
    cells = np.arange(n)[:, None] * 9 + 3 * a + b
    tables = np.bincount(cells.ravel(), minlength=9 * n).reshape(n, 3, 3) + 0.0
    tables = tables[(tables.sum(1) > 0).all(1) & (tables.sum(2) > 0).all(1)]
    expected = tables.sum(2)[:, :, None] * tables.sum(1)[:, None] / 200
    pearson = ((tables - expected) ** 2 / expected).sum(axis=(1, 2))
    found = correct_rare_cells(pearson, tables, expected)
    assert (found <= pearson).all()
    n_small = [(chi2.sf(values, 4) < 1e-3).sum() for values in (pearson, found)]
    assert n_small[0] > binom.ppf(1 - 1e-6, len(tables), 1e-3) >= n_small[1]


def dependent_rows(rng, n_states, n_rows, n_missing=0.2):
    """Return rows with a shared latent factor and missing entries; variable 4 has no state 3."""
    hidden = rng.normal(size=(n_rows, 1))
    q = np.array(n_states)
    noise = rng.normal(size=(n_rows, len(q)))
    X = np.clip(np.round((hidden * rng.normal(size=len(q)) + noise + 1) * q / 3), 0, q - 1)
    X[:, 4] = np.minimum(X[:, 4], 2)
    X[rng.random(X.shape) < n_missing] = MISSING
    return X.astype(np.int16)


def partner_budget(n, max_partners):
    """Return a budget that limits the number of partners only."""
    return screening.Budget(np.ones(n), np.inf, max_partners)


@pytest.mark.parametrize(("columns", "entries"), [(256, 2**20), (256, 500), (4, 99), (1, 1)])
@pytest.mark.parametrize("weighted", [False, True])
def test_screen_matches_scipy(columns, entries, weighted, seed, monkeypatch):
    monkeypatch.setattr(screening, "BLOCK_COLUMNS", columns)
    monkeypatch.setattr(screening, "BLOCK_ENTRIES", entries)
    rng = np.random.default_rng(seed)
    n_states = (2, 3, 2, 1, 4, 3, 2, 5)
    X = dependent_rows(rng, n_states, 150)
    weights = rng.integers(0, 4, len(X)).astype(float) if weighted else np.ones(len(X))
    repeated = np.repeat(X, weights.astype(int), axis=0)
    pairs = list(combinations(range(len(n_states)), 2))
    p = np.array([by_scipy(repeated[:, i], repeated[:, j])[0] for i, j in pairs])
    for level in (0.9999, 0.2, 0.01, 1e-4):
        found = screening.screen(X, weights, n_states, level=level)
        expected = adjust_p_values(p, "fdr") <= level
        np.testing.assert_array_equal(found.edges, np.array(pairs)[expected].reshape(-1, 2))
        np.testing.assert_allclose(found.p, p[expected], rtol=1e-6, atol=1e-300)


def test_screen_of_fractional_weights(seed):
    """Test weights that are not exact in single precision."""
    X = dependent_rows(np.random.default_rng(seed), (2, 3, 2, 2, 4), 200)
    for factor in (1.1, 1e6):
        ones = screening.screen(X, np.full(200, factor), (2, 3, 2, 2, 4), level=1)
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
    """Test counts above 2 ** 24, which single precision would round."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (300, 6)).astype(np.int16)
    weights = rng.integers(10**6, 10**7, 300).astype(float)
    pairs, statistic, _ = screening._pairs_below_level(X, weights, (2,) * 6, 1.0)
    for (i, j), got in zip(pairs, statistic, strict=True):
        table = np.zeros((2, 2))
        np.add.at(table, (X[:, i], X[:, j]), weights)
        assert got == pytest.approx(chi2_contingency(table, correction=False).statistic, rel=1e-10)


def test_screen_without_pairs():
    X = np.zeros((4, 3), dtype=np.int16)
    for rows, n_states in ((X, (1, 1, 1)), (X, (2, 3, 1)), (X - 1, (2, 3, 2)), (X[:0], (2, 2, 2))):
        found = screening.screen(
            rows, np.ones(len(rows)), n_states, level=0.5, budget=partner_budget(len(n_states), 2)
        )
        assert found.edges.shape == (0, 2)
        assert found.p.shape == (0,)
    found = screening.screen(X[:, :1], np.ones(4), (2,), level=0.5)
    assert found.edges.shape == (0, 2)


def test_screen_is_calibrated(seed):
    """The number of rejections of independent pairs is binomial, as the tests are uncorrelated."""
    rng = np.random.default_rng(seed)
    n_states = np.repeat([2, 3], 20)
    X = rng.integers(0, n_states, (3000, 40)).astype(np.int16)
    p = screening.screen(X, np.ones(len(X)), n_states, level=1.0).p
    assert len(p) == 780
    for level in (0.05, 0.3, 0.7):
        assert TAIL < binom.cdf((p <= level).sum(), 780, level) < 1 - TAIL


def test_screen_limits_partners(seed):
    """Compare the pairs kept by both variables with a naive implementation."""
    rng = np.random.default_rng(seed)
    n_states = (2,) * 9
    X = dependent_rows(rng, n_states, 400, 0.1)
    weights = np.ones(400)
    all_pairs = screening.screen(X, weights, n_states, level=0.3)
    assert len(all_pairs.edges) > 10
    p = {(i, j): by_scipy(X[:, i], X[:, j])[0] for i, j in all_pairs.edges.tolist()}
    for cap in (0, 1, 2, 4):
        best = {v: sorted((e for e in p if v in e), key=p.get)[:cap] for v in range(len(n_states))}
        expected = [e for e in sorted(p) if e in best[e[0]] and e in best[e[1]]]
        found = screening.screen(
            X, weights, n_states, level=0.3, budget=partner_budget(X.shape[1], cap)
        )
        assert [tuple(e) for e in found.edges.tolist()] == expected
        np.testing.assert_allclose(found.p, [p[e] for e in expected], rtol=1e-6)


def test_screen_limits_parameters(seed):
    """A partner with too many parameters is skipped, unless it is the first partner."""
    rng = np.random.default_rng(seed)
    n_rows, noise = 4000, (0.5, 0.6, 0.7, 0.8)
    x = rng.integers(0, 2, n_rows)
    columns = [
        np.where(rng.random(n_rows) < share, rng.integers(0, 2, n_rows), x) for share in noise
    ]
    many = np.where(rng.random(n_rows) < 0.2, rng.integers(0, 6, n_rows), x)
    X = np.column_stack([x, many, *columns]).astype(np.int16)
    n_states = np.array([2, 6, 2, 2, 2, 2])

    def partners_of_first(max_parameters, max_partners=64):
        budget = screening.Budget(n_states - 1.0, max_parameters, max_partners)
        found = screening.screen(X, np.ones(n_rows), n_states, level=0.01, budget=budget).edges
        return sorted(j for i, j in found.tolist() if i == 0)

    assert partners_of_first(5.0) == [1]
    assert partners_of_first(7.0) == [1, 2, 3]
    assert partners_of_first(7.0, 2) == [1, 2]
    assert partners_of_first(1.0) == [1]
    X[:, 1] = rng.permutation(X[:, 1])
    assert partners_of_first(2.0) == [2, 3]


def test_screen_orders_underflowing_p_values(seed):
    rng = np.random.default_rng(seed)
    n_rows = 40000
    x = rng.integers(0, 2, n_rows)
    flips = [rng.random(n_rows) < share for share in (0.2, 0.1, 0.3)]
    X = np.column_stack([x] + [np.where(flip, 1 - x, x) for flip in flips]).astype(np.int16)
    found = screening.screen(X, np.ones(n_rows), (2,) * 4, level=0.01, budget=partner_budget(4, 1))
    assert found.edges.tolist() == [[0, 2]]
    assert found.p.tolist() == [0.0]


def test_log_p_is_finite_where_p_underflows():
    for dof in (1, 4, 36):
        statistic = np.array([600.0, 1000.0, 1400.0])
        exact = chi2.logsf(statistic, dof)
        a, z = dof / 2, statistic / 2
        assert np.isfinite(exact).all()
        beyond = log_tail(np.array([1400.0, 3000.0, 5000.0]), np.full(3, dof))
        assert beyond[0] == pytest.approx(exact[2])
        slope = np.diff(beyond) / [1600, 2000]
        np.testing.assert_allclose(slope, -0.5, atol=0.5 * (dof - 2 if dof > 2 else 1) / 1400)
        assert z[2] > a


def test_count_observed_pairs(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X = dependent_rows(rng, (2, 3, 2, 2, 4), 60)
    weights = rng.random(60)
    expected = np.zeros((5, 5))
    for row, w in zip(X != MISSING, weights, strict=True):
        expected += w * np.outer(row, row)
    np.testing.assert_allclose(screening.count_observed_pairs(X != MISSING, weights), expected)
    monkeypatch.setattr(screening, "BLOCK_ENTRIES", 8 * 5 * 7)
    np.testing.assert_allclose(screening.count_observed_pairs(X != MISSING, weights), expected)


p_values = st.lists(st.integers(0, 64).map(lambda k: k / 64) | st.floats(0, 1), max_size=12)


def reject_stepwise(p, control, level, m):
    """Return the rejections of the step procedures by their definitions."""
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
def test_adjustment_matches_the_step_procedure(control, p, level, more):
    p = np.array(p)
    got = adjust_p_values(p, control, n_tests=len(p) + more)
    np.testing.assert_array_equal(got <= level, reject_stepwise(p, control, level, len(p) + more))
    padded = adjust_p_values(np.append(p, np.ones(more)), control)
    np.testing.assert_array_equal(got, padded[: len(p)])
    assert ((got >= p) & (got <= 1)).all()


def test_adjustment_of_known_values():
    p = [0.04, 0.01, 0.03, 0.5]
    np.testing.assert_allclose(adjust_p_values(p, "holm"), [0.09, 0.04, 0.09, 0.5])
    np.testing.assert_allclose(adjust_p_values(p, "fdr"), false_discovery_control(p))
    np.testing.assert_allclose(
        adjust_p_values(p, "fdr", n_tests=8), [0.32 / 3, 0.08, 0.32 / 3, 1.0]
    )


def test_invalid_adjustment_raises():
    with pytest.raises(ValueError, match="n_tests must be at least the number of p-values, 2"):
        adjust_p_values([0.1, 0.2], "holm", n_tests=1)
    with pytest.raises(ValueError, match="control must be one of"):
        adjust_p_values([0.1], "bonferroni")


def test_untested_pairs_count_as_noise():
    tested = np.array([True, False, True, False, False])
    z = fill_untested(np.array([3.0, 0.0, 1.0, 0.0, 0.0]), tested)
    np.testing.assert_array_equal(z[tested], [3.0, 1.0])
    np.testing.assert_allclose(2.0 * norm.sf(z[~tested]), [1 / 6, 3 / 6, 5 / 6])
    strong = np.append(np.full(20, 6.0), np.zeros(300))
    noise = fill_untested(strong, strong > 0)
    assert edge_probabilities(noise)[:20].min() > 0.99
    assert np.median(edge_probabilities(noise)[20:]) < 0.02


@pytest.mark.parametrize(("statistic", "unary"), FORMS)
def test_covariances_of_pseudo_likelihood_by_finite_differences(statistic, unary, seed):
    rng = np.random.default_rng(seed)
    edges = [edge for edge in EDGES if 1 not in np.take(MIXED, edge)]  # edges of two states or more
    form = LogLinearForm.build(MIXED, edges, statistic, unary)
    X = np.column_stack([rng.integers(q, size=60) for q in MIXED]).astype(STATE)
    weights = rng.integers(1, 4, size=60).astype(float)
    parts = {name: part.shape[0] for name, part in form.zeros().items()}
    theta = rng.normal(scale=0.3, size=sum(parts.values()))

    def at(vector):
        ends = np.cumsum(list(parts.values()))[:-1]
        return LogLinearEnergy(form, dict(zip(parts, np.split(vector, ends), strict=True)))

    evaluate = pseudo_log_likelihoods([at(unit) for unit in np.eye(len(theta))], X)

    def scores(vector, step=1e-4):
        moves = step * np.eye(len(vector))
        ahead, behind = (evaluate(vector[:, None] + sign * moves) for sign in (1.0, -1.0))
        return (ahead - behind) / (2.0 * step)

    moves = 1e-3 * np.eye(len(theta))
    changes = [(scores(theta + move) - scores(theta - move)) @ weights for move in moves]
    information = RIDGE * np.eye(len(theta)) - np.array(changes) / 2e-3
    outer = RIDGE * np.eye(len(theta)) + (scores(theta) * weights) @ scores(theta).T
    inverse = np.linalg.inv(information)
    expected = inverse @ outer @ inverse
    found = pseudo_likelihood_covariances(at(theta), Rows(X, weights, np.array(MIXED)))
    first = parts.get("unary", 0)
    for e, covariance in enumerate(found):
        place = slice(first + form.pair_start[e], first + form.pair_start[e + 1])
        np.testing.assert_allclose(covariance, expected[place, place], rtol=1e-5, atol=1e-7)
