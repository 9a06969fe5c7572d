"""Tests of graphs of columns and of Gaussians on graphs."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from skmrf.estimators.nnmrf.gaussian_base import precision_on_graph, shrunk_covariance
from skmrf.estimators.nnmrf.initial_energy import resolve_edges

NAMES = ["a", "b", "c", "d"]


def covariance_of(seed, n, n_rows=60):
    """Return the covariance of random rows with correlated columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n)) @ rng.normal(size=(n, n))
    return np.cov(X.T, ddof=0).reshape(n, n)


def correlation_of(seed, n):
    C = covariance_of(seed, n)
    deviations = np.sqrt(np.diag(C))
    return C / np.outer(deviations, deviations)


def edges(graph, seed=0, names=NAMES):
    found = resolve_edges(graph, correlation_of(seed, len(names)), list(names))
    assert found.dtype == np.int64
    assert found.shape == (len(found), 2)
    assert (found[:, 0] < found[:, 1]).all()
    assert sorted(map(tuple, found.tolist())) == list(map(tuple, found.tolist()))
    return [tuple(e) for e in found.tolist()]


# Edges -------------------------------------------------------------------------------------


def test_complete_and_empty():
    assert edges("complete") == list(combinations(range(4), 2))
    assert edges("empty") == []
    for graph in ("complete", "empty", "tree", "knn", "grid"):
        assert edges(graph, names=["alone"]) == []


def test_tree_maximises_mutual_information(seed):
    """The tree is compared with all 125 spanning trees of five columns."""
    R = correlation_of(seed, 5)

    def information(pairs):
        return sum(-0.5 * np.log(1 - R[i, j] ** 2) for i, j in pairs)

    found = edges("tree", seed, list("abcde"))
    trees = [
        pairs
        for pairs in combinations(list(combinations(range(5), 2)), 4)
        if nx.is_connected(nx.Graph([*pairs, *((i, i) for i in range(5))]))
    ]
    assert len(trees) == 125
    assert tuple(found) == max(trees, key=information)


def test_tree_of_columns_without_correlation():
    found = resolve_edges("tree", np.eye(4), NAMES)
    assert nx.is_tree(nx.Graph(found.tolist()))


def test_knn(seed):
    """Each column is joined with the five columns of largest absolute correlation."""
    n = 9
    R = correlation_of(seed, n)
    found = edges("knn", seed, [f"x{i}" for i in range(n)])
    expected = set()
    for i in range(n):
        others = sorted((j for j in range(n) if j != i), key=lambda j: -abs(R[i, j]))
        expected |= {tuple(sorted((i, j))) for j in others[:5]}
    assert found == sorted(expected)
    assert len(expected) < n * (n - 1) / 2
    assert edges("knn", seed) == edges("complete", seed)


def test_grid():
    assert edges("grid") == [(0, 1), (0, 2), (1, 3), (2, 3)]
    found = edges("grid", names=[f"x{i}" for i in range(25)])
    assert len(found) == 40
    for i, j in found:
        assert j - i == 5 or (j - i == 1 and j % 5)
    with pytest.raises(ValueError, match="needs a square number of columns, but there are 3"):
        edges("grid", names=NAMES[:3])


@pytest.mark.parametrize(
    "graph",
    [
        [("a", "b"), ("d", "b")],
        [(0, 1), (1, 3)],
        [[3, "b"], ["a", 1], ("b", "d")],
        np.array([(1, 0), (3, 1)]),
        {frozenset("ab"), frozenset("bd")},
        nx.Graph([("a", "b"), ("b", "d")]),
        nx.Graph([(0, 1), (1, 3)]),
        nx.DiGraph([("b", "a"), ("b", "d"), ("d", "b")]),
    ],
    ids=type,
)
def test_pairs_by_name_and_index(graph):
    assert edges(graph) == [(0, 1), (1, 3)]


def test_nodes_without_edges_are_valid():
    graph = nx.Graph()
    graph.add_nodes_from(NAMES)
    assert edges(graph) == []
    assert edges([]) == []


def test_integer_names_have_precedence_over_indices():
    """The node 1 is the column named 1, whatever its position is."""
    assert edges([(1, 5)], names=[5, 7, 1]) == [(0, 2)]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ("ring", r"graph must be one of \['complete', 'empty', 'grid', 'knn', 'tree'\].*'ring'"),
        ([("a", "x")], "graph has 'x', which is not a column; the columns are"),
        ([(0, 4)], "graph has 4, which is not a column"),
        ([(0, -1)], "graph has -1, which"),
        ([(0.5, 1)], "graph has 0.5, which"),
        ([(0, True)], "graph has True, which"),
        (nx.empty_graph(["a", "nope"]), "graph has 'nope', which"),
        ([("a", "a")], r"must join two different columns; got \('a', 'a'\)"),
        ([("a", 0)], "Each edge of graph must join two different columns"),
        ([("a",)], r"graph must be .* a list of pairs of columns; got \('a',\)"),
        ([("a", "b", "c")], r"graph must be .* a list of pairs of columns; got \('a', 'b', 'c'\)"),
        (["ab"], r"graph must be .* a list of pairs of columns; got 'ab'"),
        (nx.Graph([("a", "a")]), "Each edge of graph must join two different columns"),
    ],
    ids=str,
)
def test_invalid_graphs_raise(graph, message):
    with pytest.raises(ValueError, match=message):
        edges(graph)


@pytest.mark.parametrize("name", range(9, 14))
def test_messages_list_few_columns(name):
    with pytest.raises(ValueError, match=r"99, which is not a column; the .*, \.\.\.\]\."):
        edges([(0, 99)], names=list(range(name)))


def test_edges_of_three_columns_raise():
    """Two edges with three columns must not be read as three pairs."""
    with pytest.raises(ValueError, match=r"graph must be .* got \('a', 'b', 'a'\)"):
        resolve_edges([("a", "b", "a"), ("b", "c", "b")], np.eye(4), NAMES)


def test_multigraphs():
    assert edges(nx.MultiGraph([("a", "b"), ("b", "d"), ("b", "d")])) == [(0, 1), (1, 3)]


@pytest.mark.parametrize("graph", [3, None, [0, 1]], ids=str)
def test_invalid_types_raise(graph):
    with pytest.raises(ValueError, match="graph must be"):
        edges(graph)


# Gaussians ---------------------------------------------------------------------------------

GRAPHS = {
    "complete": list(combinations(range(5), 2)),
    "tree": [(0, 1), (1, 2), (1, 3), (3, 4)],
    "ring": [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)],
    "two parts": [(0, 1), (1, 2), (0, 2), (3, 4)],
    "lonely column": [(0, 1), (1, 2), (2, 3), (0, 3)],
    "empty": [],
}


@pytest.mark.parametrize("name", GRAPHS)
def test_precision_on_a_graph(name, seed):
    """The precision is zero without an edge; the covariance is given on the edges."""
    pairs = np.array(GRAPHS[name], dtype=np.int64).reshape(-1, 2)
    C = covariance_of(seed, 5)
    before = C.copy()
    P = precision_on_graph(C, pairs, max_iter=2000)
    assert_array_equal(C, before)
    assert_allclose(P, P.T, rtol=1e-9, atol=1e-9)
    assert (np.linalg.eigvalsh(P) > 0).all()
    on = np.eye(5, dtype=bool)
    on[pairs[:, 0], pairs[:, 1]] = on[pairs[:, 1], pairs[:, 0]] = True
    size = np.sqrt(np.outer(np.diag(C), np.diag(C)))
    assert_allclose((np.linalg.inv(P) / size)[on], (C / size)[on], rtol=0, atol=1e-5)
    if name == "complete":
        assert_allclose(P @ C, np.eye(5), atol=1e-8)
    else:
        assert_array_equal(P[~on], 0.0)


def test_precision_on_a_tree_has_closed_form(seed):
    """It is a sum of precisions of pairs, minus those of the columns that pairs share."""
    pairs = np.array(GRAPHS["tree"])
    C = covariance_of(seed, 5)
    expected = np.zeros((5, 5))
    for pair in pairs:
        expected[np.ix_(pair, pair)] += np.linalg.inv(C[np.ix_(pair, pair)])
    degrees = np.bincount(pairs.ravel())
    expected[np.arange(5), np.arange(5)] -= (degrees - 1) / np.diag(C)
    size = np.sqrt(np.outer(np.diag(C), np.diag(C)))
    found = precision_on_graph(C, pairs, max_iter=2000)
    assert_allclose(found * size, expected * size, rtol=1e-4, atol=1e-4)


def test_precision_of_two_columns_and_of_one(seed):
    C = covariance_of(seed, 2)
    assert_allclose(precision_on_graph(C, np.array([(0, 1)])), np.linalg.inv(C))
    assert_allclose(precision_on_graph(C, np.empty((0, 2), int)), np.diag(1 / np.diag(C)))
    assert_allclose(precision_on_graph(C[:1, :1], np.empty((0, 2), int)), 1 / C[:1, :1])


@pytest.mark.parametrize("least", [1e-2, 1e-6, 1e-10])
@pytest.mark.parametrize("max_iter", [1, 3, 100])
def test_precision_of_nearly_collinear_columns(max_iter, least, seed):
    """Sweeps converge slowly; their result may not be positive definite."""
    rng = np.random.default_rng(seed)
    pairs = np.array([(i, j) for i in range(10) for j in range(i + 1, 10) if (i + j) % 2])
    for _ in range(10):
        C = np.cov(rng.normal(size=(10, 2)) @ rng.normal(size=(2, 300))) + least * np.eye(10)
        P = precision_on_graph(C, pairs, max_iter=max_iter)
        assert_array_equal(P, P.T)
        assert np.linalg.eigvalsh(P)[0] > 0


# Shrinkage ---------------------------------------------------------------------------------


def equal(n):
    return np.full(n, 1 / n)


@pytest.mark.parametrize("shape", [(4, 30), (10, 11), (30, 60), (2, 5), (1, 3)], ids=str)
def test_fewer_rows_than_columns(shape, seed):
    X = np.random.default_rng(seed).normal(size=shape)
    mean, C = shrunk_covariance(X, equal(len(X)), np.eye(shape[1]))
    assert_allclose(mean, X.mean(axis=0))
    assert_allclose(C, C.T)
    assert np.linalg.eigvalsh(C)[0] > 1e-4
    np.linalg.cholesky(C)


@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_collinear_columns(scale, seed):
    """A third column is the sum of two columns, up to rounding."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 50))
    X = np.stack([a, b, scale * (a + b), np.zeros(50)], axis=1)
    target = np.diag([1.0, 1.0, scale**2, 1.0])
    _, C = shrunk_covariance(X, equal(50), target)
    deviations = np.sqrt(np.diag(target))
    assert np.linalg.eigvalsh(C / np.outer(deviations, deviations))[0] > 1e-6


def test_equal_rows(seed):
    X = np.repeat(np.random.default_rng(seed).normal(size=(1, 3)), 8, axis=0)
    mean, C = shrunk_covariance(X, equal(8), np.eye(3))
    assert_allclose(mean, X[0])
    assert np.linalg.eigvalsh(C)[0] > 1e-4


def test_shrunk_covariance_is_between_sample_and_target(seed):
    """The result is a weighted mean of the covariance and the target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 3))
    weights = rng.dirichlet(np.ones(40))
    target = np.diag([1.0, 2.0, 3.0])
    mean, C = shrunk_covariance(X, weights, target)
    assert_allclose(mean, weights @ X)
    S = (X - mean).T @ (weights[:, None] * (X - mean))
    off = ~np.eye(3, dtype=bool)
    share = 1 - np.median(C[off] / S[off])
    assert -1e-9 <= share <= 1
    assert_allclose(C, S + share * (target - S), rtol=1e-7, atol=1e-9)


def test_shrinkage_decreases_with_the_number_of_rows(seed):
    rng = np.random.default_rng(seed)
    root = np.array([[1.0, 0.0], [0.9, np.sqrt(0.19)]])
    true = root @ root.T
    many = shrunk_covariance(rng.normal(size=(2000, 2)) @ root.T, equal(2000), np.eye(2))[1]
    assert_allclose(many, true, atol=0.25)
    assert many[0, 1] > 0.7
    noise = rng.normal(size=(12, 20))
    few = shrunk_covariance(noise, equal(12), np.eye(20))[1]
    law = multivariate_normal(np.zeros(20), np.eye(20))
    fresh = law.rvs(500, random_state=rng)
    ours = multivariate_normal(np.zeros(20), few).logpdf(fresh).mean()
    assert ours > law.logpdf(fresh).mean() - 5.0
