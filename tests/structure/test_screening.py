"""Tests of the screening of pairs by tests of independence."""

from itertools import combinations

import numpy as np
import pytest
from nodewise_problems import TAIL, by_scipy
from scipy.stats import binom, chi2, chi2_contingency

from skmrf._utils.codes import MISSING
from skmrf.structure import chi2_tail, screening
from skmrf.structure.multiple_tests import adjust_p_values


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


@pytest.mark.parametrize("columns", [256, 4, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_screen_matches_scipy(columns, weighted, seed, monkeypatch):
    monkeypatch.setattr(screening, "BLOCK_COLUMNS", columns)
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
        beyond = chi2_tail.log_tail(np.array([1400.0, 3000.0, 5000.0]), np.full(3, dof))
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
    np.testing.assert_allclose(screening.count_observed_pairs(X, weights), expected)
    monkeypatch.setattr(screening, "BLOCK_ENTRIES", 8 * 5 * 7)
    np.testing.assert_allclose(screening.count_observed_pairs(X, weights), expected)
