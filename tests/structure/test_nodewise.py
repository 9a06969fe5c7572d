"""Tests of nodewise regressions, and of Chow-Liu trees."""

from itertools import combinations, pairwise, product

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
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

from skmrf import MRFStructureLearner
from skmrf._utils.codes import MISSING, STATE
from skmrf._utils.rows import Batch
from skmrf.energies.layout import Layout
from skmrf.energies.log_linear import LogLinearForm, contrasts, pair_basis
from skmrf.exact.expectations import exact_model
from skmrf.structure import assessment as score_module
from skmrf.structure import mixed_nodes, regression
from skmrf.structure.assessment import score_tests
from skmrf.structure.chow_liu import (
    CONCENTRATIONS,
    _smooth_conditional,
    embed,
    fit_pairwise_forest,
    fit_tree,
    pair_gains,
    possible_edges,
)
from skmrf.structure.mixed import MixedRows, fit_graph
from skmrf.structure.nodewise import fit_nodes, likelihood_ratio
from skmrf.structure.significance import sparse_table_test


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


# Chow-Liu trees ----------------------------------------------------------------------------------


N_STATES = np.array([2, 3, 1, 2, 3])


def random_rows(rng, n_rows=60):
    X = np.column_stack([rng.integers(0, q, n_rows) for q in N_STATES])
    X[:, 3] = np.where(rng.random(n_rows) < 0.8, X[:, 0], X[:, 3])
    return X.astype(STATE)


def smoothed(X, weights, variables):
    """Return the joint frequencies of some columns with one pseudo-count, by a loop over rows."""
    shape = N_STATES[list(variables)]
    counts = np.full(shape, 1.0 / shape.prod())
    for x, w in zip(X, weights, strict=True):
        counts[tuple(x[list(variables)])] += w
    return counts / counts.sum()


def all_states():
    return np.array(list(product(*map(range, N_STATES))), dtype=STATE)


def test_gains_are_mutual_information(seed):
    rng = np.random.default_rng(seed)
    X, weights = random_rows(rng), rng.uniform(0.5, 2.0, 60)
    gains = pair_gains(X, N_STATES, weights)
    for i, j in combinations(range(5), 2):
        p = smoothed(X, weights, (i, j))
        ratio = p / (p.sum(axis=1, keepdims=True) * p.sum(axis=0))
        expected = weights.sum() * (p * np.log(ratio)).sum()
        assert_allclose([gains[i, j], gains[j, i]], expected, atol=1e-10)


def test_tree_has_the_largest_gain_of_all_spanning_trees(seed):
    X = random_rows(np.random.default_rng(seed))
    gains = pair_gains(X, N_STATES, np.ones(60))
    others = [0, 1, 3, 4]  # variable 2 has one state
    graph = nx.complete_graph(others)
    totals = [sum(gains[e] for e in tree.edges) for tree in nx.SpanningTreeIterator(graph)]
    tree = fit_tree(X, N_STATES)
    edges = [c for c in tree.graph.cliques if len(c) == 2]
    assert len(edges) == 3
    assert len(totals) == 16
    assert sum(gains[e] for e in edges) == pytest.approx(max(totals), abs=1e-10)
    sizes = [(N_STATES[i] - 1) * (N_STATES[j] - 1) for i, j in edges]
    assert_allclose(tree.gains * sizes, [gains[e] for e in edges])


def single_frequencies(X, weights, i):
    """Return the frequencies of a column, with half a pseudo-count for each state."""
    counts = [0.5 + weights[X[:, i] == s].sum() for s in range(N_STATES[i])]
    return np.array(counts) / sum(counts)


def test_probabilities_of_a_tree(seed):
    """Probabilities sum to 1, also if entries are missing; marginals are smoothed frequencies."""
    rng = np.random.default_rng(seed)
    X, weights = random_rows(rng), rng.uniform(0.5, 2.0, 60)
    X[rng.random(X.shape) < 0.2] = MISSING
    graph = fit_tree(X, N_STATES, weights=weights).graph
    states = all_states()
    p = np.exp(graph.log_potential(states))
    assert p.sum() == pytest.approx(1.0)
    for i in range(5):
        marginal = np.bincount(states[:, i], p)
        assert_allclose(marginal, single_frequencies(X, weights, i), atol=1e-12)


def log_evidence(counts, prior):
    """Return the log marginal likelihood of the rows of a table, one observation at a time."""
    total = 0.0
    for row in counts.astype(int):
        urn = prior.copy()
        for state in np.repeat(np.arange(len(row)), row):
            total += np.log(urn[state] / urn.sum())
            urn[state] += 1.0
    return total


def test_conditional_distributions_maximise_the_marginal_likelihood(seed):
    """The estimate of one direction is between the frequencies and the marginal distribution."""
    rng = np.random.default_rng(seed)
    n_copied = rng.integers(0, 30, 4)
    counts = rng.integers(0, 5, (4, 6)).astype(float)
    counts[np.arange(4), np.arange(4)] += n_copied
    prior = (counts.sum(axis=0) + 0.5) / (counts + 0.5 / 4).sum()
    evidence = [log_evidence(counts, c * prior) for c in CONCENTRATIONS]
    best = CONCENTRATIONS[np.argmax(evidence)]
    expected = counts + best * prior + 1 / 24
    found = _smooth_conditional(counts, prior)
    assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), atol=1e-12)


def copies_of_skewed_columns(rng, n_rows, n_states):
    """Return columns that copy the column before with probability 1/2, and have rare states."""
    p = 1.0 / np.arange(1, n_states + 1)
    X = rng.choice(n_states, (n_rows, 6), p=p / p.sum())
    for i in range(1, 6):
        X[:, i] = np.where(rng.random(n_rows) < 0.5, X[:, i - 1], X[:, i])
    return X


def test_many_states_and_few_rows(seed):
    """A tree is better than conditional frequencies with one pseudo-count, split by marginals."""
    rng = np.random.default_rng(seed)
    q, train, test = np.full(6, 12), *(copies_of_skewed_columns(rng, n, 12) for n in (200, 2000))
    tree = fit_tree(train, q)
    p = [(np.bincount(x, minlength=12) + 1 / 12) / 201 for x in train.T]
    simple = np.log(p[0])[test[:, 0]]
    for i in range(1, 6):
        counts = np.zeros((12, 12))
        np.add.at(counts, (train[:, i - 1], train[:, i]), 1.0)
        joint = counts + p[i]
        simple += np.log(joint / joint.sum(axis=1, keepdims=True))[test[:, i - 1], test[:, i]]
    gain = tree.graph.log_potential(test) - simple
    assert gain.mean() > 0.1
    assert tree.graph.log_potential(test).mean() > tree.prune(np.inf).log_potential(test).mean()


@pytest.mark.parametrize("states", [(0, 1), (-1, 1), (0.5, 2)])
def test_pairwise_energy_of_a_forest(states, seed):
    """It has the distribution of the tree without the edge that the criterion rejects."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (200, 4))
    X[:, 1], X[:, 2] = X[:, 0] ^ (rng.random(200) < 0.1), X[:, 0] ^ (rng.random(200) < 0.2)
    X[rng.random(X.shape) < 0.05] = MISSING
    weights = rng.uniform(0.5, 2.0, 200)
    energy = fit_pairwise_forest(Batch(X, None, np.log(weights)), states)
    tree = fit_tree(X, np.full(4, 2), weights=weights)
    codes = np.array(list(product((0, 1), repeat=4)))
    found, full = (e.log_potential(codes) for e in (energy, tree.graph))
    kept = tree.prune(np.sort(tree.gains)[0]).log_potential(codes)
    assert_allclose(found - found[0], kept - kept[0], atol=1e-10)
    assert np.abs((found - found[0]) - (full - full[0])).max() > 1e-3


def test_weights_count_rows(seed):
    rng = np.random.default_rng(seed)
    X, counts = random_rows(rng), rng.integers(0, 3, 60)
    weighted = fit_tree(X, N_STATES, weights=counts.astype(float)).graph
    repeated = fit_tree(np.repeat(X, counts, axis=0), N_STATES).graph
    assert weighted.cliques == repeated.cliques
    assert_allclose(weighted.flat, repeated.flat, atol=1e-12)


def test_pairs_are_counted_where_both_are_observed(seed):
    rng = np.random.default_rng(seed)
    X = random_rows(rng)
    X[rng.random(X.shape) < 0.3] = MISSING
    both = (X[:, [0, 3]] != MISSING).all(axis=1)
    gains = pair_gains(X, N_STATES, np.ones(60))
    complete = pair_gains(X[both], N_STATES, np.ones(both.sum()))
    assert gains[0, 3] == pytest.approx(complete[0, 3])
    assert np.isfinite(fit_tree(X, N_STATES).graph.flat).all()


def test_pruning_removes_the_weakest_edges(seed):
    tree = fit_tree(random_rows(np.random.default_rng(seed)), N_STATES)
    threshold = np.sort(tree.gains)[-2]
    pruned = tree.prune(threshold)
    assert [c for c in pruned.cliques if len(c) == 2] == [
        c for c, g in zip(tree.graph.cliques[5:], tree.gains, strict=True) if g == tree.gains.max()
    ]
    assert len(tree.prune(np.inf).cliques) == 5


@pytest.mark.parametrize(
    "cliques",
    [
        [(0,), (1,), (2,), (3,), (4,), (1, 0), (3, 0), (4, 3), (4, 1), (0, 4), (1, 3)],
        [(3, 1, 0), (4, 1), (0, 4, 2), (3, 4)],
    ],
)
def test_embedded_trees_have_the_same_distribution(cliques, seed):
    X = random_rows(np.random.default_rng(seed))
    layout = Layout.build(N_STATES, cliques)
    graph = fit_tree(X, N_STATES, allowed=possible_edges(layout)).graph
    embedded = embed(graph, layout)
    states = all_states()
    assert_allclose(embedded.log_potential(states), graph.log_potential(states), atol=1e-12)
    compact = embedded.without_zero_tables()
    assert_allclose(compact.log_potential(states), graph.log_potential(states), atol=1e-12)
    assert compact.layout.n_cliques < layout.n_cliques or len(cliques) == 4
    assert not possible_edges(layout)[1, 2]


def test_embedded_forests_have_no_large_cycles(seed):
    """Without cliques of single variables, each variable is added to an edge of its own tree."""
    rng = np.random.default_rng(seed)
    X = rng.integers(2, size=(50, 80)).astype(STATE)
    pairs = np.argwhere(np.triu(rng.random((80, 80)) < 0.3, 1))
    layout = Layout.build([2] * 80, [tuple(p) for p in pairs.tolist()])
    tree = fit_tree(X, layout.n_states, allowed=possible_edges(layout))
    for min_gain in (-np.inf, np.median(tree.gains), np.inf):
        graph = tree.prune(min_gain)
        compact = embed(graph, layout).without_zero_tables()
        assert_allclose(compact.log_potential(X), graph.log_potential(X), atol=1e-9)
        log_z = exact_model(compact, max_bytes=50_000).log_partition(compact)
        assert_allclose(log_z, 0.0, atol=1e-9)


def test_products_of_tables_without_the_dense_loadings(problem, seed):
    form = problem[2]
    for node in regression.build_nodes(form):
        _, k, m = node.loadings.shape
        products = np.random.default_rng(seed).normal(size=(k, m, k, m))
        expected = node.flat_loadings @ products.reshape(k * m, k * m) @ node.flat_loadings.T
        assert_allclose(node.to_parameters(products), expected, atol=1e-12)
        if form.statistic == "table":
            assert sorted(node.table_order) == list(range(k * m))


# Columns with many categories --------------------------------------------------------------


def copied(rng, states, n_states, share):
    """Return a copy of states, in which a share of the entries is replaced by random states."""
    return np.where(
        rng.random(len(states)) < share, rng.integers(n_states, size=len(states)), states
    )


def test_regressions_without_covariances_agree_with_newtons_method(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    a = rng.integers(4, size=3000)
    b, x = copied(rng, a, 5, 0.6), a + rng.normal(size=3000)
    X = np.column_stack([a, b, (x - x.mean()) / x.std()])
    weights = rng.integers(1, 3, 3000) * 1.0
    rows = [MixedRows(X, weights, np.array([4, 5, 0])) for _ in range(2)]
    edges = np.array([[0, 1], [0, 2]])
    exact = fit_graph(rows[0], edges, None)
    monkeypatch.setattr(mixed_nodes, "MAX_PARAMETERS", 0)
    found = fit_graph(rows[1], edges, None)
    for k in range(2):
        assert found.nodes[k].covariance is None
        assert found.log_likelihood[k] == pytest.approx(exact.log_likelihood[k], abs=0.05)
        assert_allclose(found.nodes[k].parameters, exact.nodes[k].parameters, atol=0.05)
    assert_allclose(found.tables()[0], exact.tables()[0], atol=0.1)
    assert found.covariances[1].shape == (3, 3)
    single = fit_graph(rows[1], edges[:1], None)
    monkeypatch.undo()
    exact = fit_graph(rows[0], edges[:1], None)
    variances = [fits.table_variances(fits.covariances)[0] for fits in (exact, single)]
    assert_allclose(variances[1], variances[0], rtol=0.02)


@pytest.mark.parametrize("n_states", [(60, 60), (60, 3)])
def test_sparse_table_tests_of_permuted_columns(n_states, seed):
    """Under permutations, the mean and the variance are those of the chi-square distribution."""
    rng, n_draws = np.random.default_rng(seed), 400
    shares = [1.0 / np.arange(1, q + 1) for q in n_states]
    left, right = (np.eye(len(s))[rng.choice(len(s), 500, p=s / s.sum())] for s in shares)
    p = np.repeat(left.mean(axis=0)[None], 500, axis=0)
    z = np.empty(n_draws)
    for k in range(n_draws):
        right = rng.permutation(right)
        statistic, dof = sparse_table_test(right - right.mean(axis=0), right, left, p, 1)
        z[k] = (statistic - dof) / np.sqrt(2.0 * dof)
    assert abs(z.mean()) < 5.0 / np.sqrt(n_draws)
    assert 0.4 < z.std() < 1.3


@pytest.mark.parametrize("statistic", ["table", "agreement"])
def test_tables_of_many_states_are_sums_of_basis_tables(statistic, seed):
    rng, n_states = np.random.default_rng(seed), (9, 10, 3, 9)
    energy = random_energy(rng, n_states, list(combinations(range(4), 2)), statistic, unary=True)
    flat = rng.normal(size=energy.form.layout.n_parameters)
    derivatives, start = energy.form.contract(flat)["pairs"], energy.form.layout.table_start[4:]
    for e, (i, j) in enumerate(energy.form.edges):
        q, r = n_states[i], n_states[j]
        basis, part = pair_basis(statistic, q, r), slice(*energy.form.pair_start[e : e + 2])
        table = np.tensordot(energy.theta["pairs"][part], basis, 1)
        assert_allclose(energy.graph.log_potentials[4 + e], table, atol=1e-12)
        own = flat[start[e] : start[e] + q * r].reshape(q, r)
        assert_allclose(derivatives[part], np.tensordot(basis, own, 2), atol=1e-12)


@pytest.mark.parametrize("has_numbers", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_dependent_columns_of_60_categories(has_numbers, seed, monkeypatch):
    """The graph is correct, and no matrix over the parameters of a pair of columns is solved."""
    rng, n = np.random.default_rng(seed), 1500
    a, free, x = rng.integers(60, size=n), rng.integers(60, size=n), rng.normal(size=n)
    b, s = copied(rng, a, 60, 0.5), rng.integers(3, size=n)
    c = copied(rng, b, 60, 0.5)
    states = {"a": a, "b": b, "c": c, "free": free, "s": s, "copy": copied(rng, s, 3, 0.5)}
    frame = pd.DataFrame({k: np.char.add("v", v.astype(str)) for k, v in states.items()})
    if has_numbers:
        frame = frame.assign(x=x, y=x + rng.normal(size=n))
    sizes, maximise = [0], regression.TableRegression.maximise
    for name in ("inv", "solve", "eigh"):
        plain = getattr(np.linalg, name)

        def recorded(matrix, *others, plain=plain):
            sizes.append(matrix.shape[-1])
            return plain(matrix, *others)

        monkeypatch.setattr(np.linalg, name, recorded)

    def counted_maximise(self, start):
        parameters = maximise(self, start)
        assert 0 < self.n_iter < 500
        return parameters

    monkeypatch.setattr(regression.TableRegression, "maximise", counted_maximise)
    model = MRFStructureLearner(random_state=0).fit(frame)
    edges = set(map(tuple, model.edges_.tolist()))
    assert {e for e in edges if e[0] < 4} == {(0, 1), (1, 2)}
    assert {(4, 5), (6, 7)} - edges == (set() if has_numbers else {(6, 7)})
    assert max(sizes) <= mixed_nodes.MAX_PARAMETERS
    low, high = model.confidence_intervals_[0]
    assert low.shape == (60, 60)
    assert (low < high).all()
