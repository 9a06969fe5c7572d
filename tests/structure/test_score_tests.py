"""Tests of score tests and likelihood-ratio tests of edges."""

from itertools import combinations

import numpy as np
import pytest
from nodewise_problems import (
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
    random_energy,
)
from scipy.stats import binom, chi2

from skmrf.energies.log_linear import LogLinearEnergy, LogLinearForm
from skmrf.structure import score_tests as score_module
from skmrf.structure.nodewise import fit_nodes, likelihood_ratio
from skmrf.structure.score_tests import score_tests


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
