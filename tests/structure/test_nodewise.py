"""Tests of nodewise regressions of variables on their neighbours."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.linear_model import LogisticRegression
from structure_rows import (
    EDGES,
    FORMS,
    MIXED,
    all_of,
    assert_same,
    counted,
    derivatives,
    features,
    law,
    parameters_of,
    random_energy,
)

from skmrf.energies.log_linear import LogLinearForm, contrasts
from skmrf.structure import regression
from skmrf.structure import score_tests as score_module
from skmrf.structure.nodewise import fit_nodes, likelihood_ratio
from skmrf.structure.score_tests import score_tests


@pytest.fixture(params=FORMS, ids=lambda f: f"{f[0]}-{f[1]}")
def problem(request, seed):
    """Return weighted rows of variables with different numbers of states, and a form to fit."""
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, MIXED, EDGES, *request.param)
    X, weights = counted(rng, energy, 1500)
    return X, weights, LogLinearForm.build(MIXED, EDGES[:-1], *request.param)


def test_fits_maximise_the_likelihood(problem):
    """Compare gradients, covariances, log-likelihoods and weighted means with their definitions."""
    X, weights, form = problem
    fits = fit_nodes(X, weights, form)
    pairs = form.zeros()["pairs"]
    precisions = [np.zeros((d, d)) for d in np.diff(form.pair_start)]
    for i in range(len(MIXED)):
        names, own = parameters_of(form, i), fits.node_parameters[i]
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
def test_population_fit_recovers_the_parameters(statistic, unary, seed):
    """Asymmetric tables, with different numbers of states, detect swapped axes."""
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


def test_two_states_match_sklearn(seed):
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, (2,) * 4, [(0, 1), (0, 2), (0, 3), (1, 2)], "table", True)
    X, p = law(energy)
    X = X[rng.choice(len(X), 800, p=p)]
    fits = fit_nodes(X, np.ones(len(X)), energy.form)
    D = np.column_stack([np.full(len(X), -np.sqrt(2)), 2.0 * X[:, 1:] - 1])
    np.testing.assert_allclose(
        fits.node_parameters[0], sklearn_coefficients(D, X[:, 0])[0], atol=1e-5
    )


def test_many_states_match_sklearn(seed):
    """Orthonormal contrasts keep the norm, so both ridge penalties are equal."""
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, (3, 4, 2), [(0, 1), (0, 2)], "table", True)
    X, p = law(energy)
    X = X[rng.choice(len(X), 2000, p=p)]
    fits = fit_nodes(X, np.ones(len(X)), energy.form)
    D = np.column_stack([np.ones(len(X)), contrasts(4)[X[:, 1]], contrasts(2)[X[:, 2]]])
    coefficients = sklearn_coefficients(D, X[:, 0])
    own, first, second = (
        fits.node_parameters[0][:2],
        fits.node_parameters[0][2:8],
        fits.node_parameters[0][8:],
    )
    expected = np.column_stack([own, first.reshape(2, 3), second.reshape(2, 1)])
    np.testing.assert_allclose(contrasts(3) @ expected, coefficients, atol=1e-4)


def all_results(X, weights, form, **options):
    """Return all results of fits and tests on the rows."""
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


@pytest.mark.parametrize("n_states", [MIXED, (2, 2, 1, 2, 2, 2)])
def test_weights_chunks_and_threads_do_not_change_results(n_states, seed, monkeypatch):
    """Row weights equal repeated rows; chunks and threads do not change the result."""
    rng = np.random.default_rng(seed)
    X, weights = counted(rng, random_energy(rng, n_states, EDGES, "table", True), 800)
    form = LogLinearForm.build(n_states, EDGES[:-1])
    once = all_results(X, weights, form)
    assert all(np.isfinite(part).all() for part in once)
    tolerance = {"rtol": 1e-6, "atol": 1e-7}
    repeated = np.repeat(X, weights.astype(int), axis=0)
    assert_same(once, all_results(repeated, np.ones(len(repeated)), form), **tolerance)
    assert_same(once, all_results(np.asfortranarray(X), weights, form, n_jobs=2), rtol=0, atol=1e-9)
    monkeypatch.setattr(regression, "CHUNK_ENTRIES", 200)
    assert_same(once, all_results(X, weights, form), **tolerance)
    monkeypatch.setattr(regression, "MIN_ROWS_PER_PATTERN", np.inf)
    assert_same(once, all_results(X, weights, form), **tolerance)


def test_patterns_are_unique_rows_of_partner_states(problem):
    X, weights, form = problem
    for node in regression.build_nodes(form):
        patterns = regression.Patterns(node, X.T)
        partner_states = X[:, node.partners]
        np.testing.assert_array_equal(
            partner_states[patterns.first][patterns.inverse], partner_states
        )
        assert len(patterns) == len(np.unique(partner_states, axis=0))
        counts = patterns.counts(weights)
        assert counts.shape == (node.n_states, len(patterns))
        for a in range(node.n_states):
            has_state = X[:, node.variable] == a
            expected = np.bincount(patterns.inverse[has_state], weights[has_state], len(patterns))
            np.testing.assert_allclose(counts[a], expected)


def test_separated_and_duplicate_columns_have_finite_results(seed):
    """Test a duplicate, a deterministic and a constant column, and a state that never occurs."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (500, 3))
    decided = x[:, 1] * (1 + x[:, 2])
    X = np.column_stack([x, x[:, 0], decided, np.zeros(500)]).astype(np.int16)
    weights = np.ones(500)
    edges = [(0, 1), (0, 3), (1, 3), (1, 4), (2, 4), (2, 5)]
    for statistic, unary in FORMS:
        form = LogLinearForm.build((2, 2, 2, 2, 4, 2), edges, statistic, unary)
        found = all_results(X, weights, form)
        assert all(np.isfinite(part).all() for part in found)
        lost, dof = likelihood_ratio(fit_nodes(X, weights, form), X, weights, [1, 3])
        assert (chi2.sf(lost, dof) < 1e-8).all()


def test_edges_to_constant_columns_have_no_effect(seed):
    """An edge to a constant column or to a second duplicate has no effect."""
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
    for score in (score_module._two_state_scores, score_module._table_scores):
        statistic, dof = score(fits, X, weights, without, all_of(without), None)
        assert statistic[0, 2] == dof[0, 2] == 0  # column 2 duplicates the neighbour 1
        assert statistic[0, 3] == dof[0, 3] == 0


def test_large_newton_steps_are_halved(problem):
    X, weights, form = problem
    fits = fit_nodes(X, weights, form)
    for node, own in zip(regression.build_nodes(form), fits.node_parameters, strict=True):
        if node.n_states > 1:
            far, _, _ = regression.Regression(node, X.T, weights).maximise(np.full(len(own), 20.0))
            np.testing.assert_allclose(far, own, atol=1e-5)
