"""Tests of Chow-Liu trees: maximum over spanning trees, probabilities, and embedding."""

from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest
from numpy.testing import assert_allclose

from skmrf._utils.codes import MISSING, STATE
from skmrf.energies.layout import Layout
from skmrf.structure.chow_liu import embed, fit_tree, pair_gains, possible_edges

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


def test_probabilities_of_a_tree(seed):
    """Probabilities sum to 1, and the marginals of edges are the smoothed frequencies."""
    rng = np.random.default_rng(seed)
    X, weights = random_rows(rng), rng.uniform(0.5, 2.0, 60)
    graph = fit_tree(X, N_STATES, weights=weights).graph
    states = all_states()
    p = np.exp(graph.log_potential(states))
    assert p.sum() == pytest.approx(1.0)
    for clique in graph.cliques:
        marginal = np.zeros(N_STATES[list(clique)])
        np.add.at(marginal, tuple(states[:, list(clique)].T), p)
        assert_allclose(marginal, smoothed(X, weights, clique), atol=1e-12)


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
