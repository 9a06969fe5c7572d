"""Tests of graphs of columns, of Gaussians on graphs, and of the screening of columns."""

from itertools import combinations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2_contingency, multivariate_normal

from skmrf import NNMRFClassifier
from skmrf.estimators.nnmrf import label_screening
from skmrf.estimators.nnmrf.gaussian_base import shrunk_covariance
from skmrf.estimators.nnmrf.initial_energy import precision_on_graph, resolve_edges
from skmrf.estimators.nnmrf.label_features import FoldFeatures, find_levels, fit_column
from skmrf.estimators.nnmrf.label_members import LabelRows, assign_folds
from skmrf.estimators.nnmrf.label_networks import (
    Kind,
    NetworkSettings,
    features_of_folds,
    learn_member,
)
from skmrf.estimators.nnmrf.label_screening import Screening, column_scores

NAMES = ["a", "b", "c", "d"]


def covariance_of(seed, n, n_rows=60):
    """Return the covariance of random rows with correlated columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n)) @ rng.normal(size=(n, n))
    return np.cov(X.T, ddof=0).reshape(n, n)


def correlation_of(seed, n):
    C = covariance_of(seed, n)
    return C / np.sqrt(np.outer(np.diag(C), np.diag(C)))


def edges(graph, seed=0, names=NAMES):
    found = resolve_edges(graph, correlation_of(seed, len(names)), list(names))
    assert found.dtype == np.int64
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


# Screening of columns ------------------------------------------------------------------------


def many_columns(seed, n=600, n_columns=60):
    """Return rows, and labels that depend on the first columns: alone, and on a product of two."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_columns))
    f = 2 * np.sin(2 * X[:, 0]) + 1.5 * X[:, 1] + 2.5 * X[:, 2] * X[:, 3]
    return X, (rng.random(n) < 1 / (1 + np.exp(-f))).astype(int)


def screening_of(X, y, weights=None, is_nominal=None):
    is_nominal = [False] * X.shape[1] if is_nominal is None else is_nominal
    weights = np.ones(len(y)) if weights is None else weights
    return Screening(list(X.T), is_nominal, np.eye(y.max() + 1)[y], weights)


def test_scores_are_uncorrelated(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 6))
    X[:, 1] = np.round(X[:, 1])  # several distinct values
    X[:, 2] = X[:, 2] > 0  # two distinct values
    X[:, 3] = 7.0  # one
    X[rng.random(300) < 0.2, 4] = np.nan
    X[:, 5] = rng.integers(0, 4, 300)  # categories
    weights = rng.exponential(size=300)
    found = column_scores(list(X.T), [False] * 5 + [True], weights)
    assert_array_equal(np.bincount(found.owners, minlength=6), [4, 4, 1, 0, 5, 3])
    assert_array_equal(np.bincount(found.owners[found.is_simple], minlength=6), [1, 1, 1, 0, 1, 3])
    assert_allclose(weights @ found.scores, 0.0, atol=1e-3)
    for S in (found.scores[:, found.owners == j] for j in range(6)):
        assert_allclose((S.T * weights) @ S / weights.sum(), np.eye(S.shape[1]), atol=1e-3)
    first = found.scores[:, np.argmax(found.owners == 0)]
    assert_array_equal(np.argsort(first), np.argsort(X[:, 0]))


def test_tests_of_categories_are_those_of_pearson(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (300, 5)).astype(float)
    y = rng.integers(0, 3, 300)
    tests = screening_of(X, y, is_nominal=[True] * 5).tests
    statistics = label_screening._statistics(tests.sums, tests.counts)
    for j in range(5):
        table = np.array([[((X[:, j] == a) & (y == b)).sum() for b in range(3)] for a in range(4)])
        expected = chi2_contingency(table).statistic
        assert statistics[tests.found.owners == j].sum() == pytest.approx(expected, rel=1e-3)


def test_irrelevant_columns_are_rarely_selected(seed):
    """p-values of the smallest of 40 columns are about uniform, also with ties and categories."""
    rng = np.random.default_rng(seed)
    smallest = []
    for _ in range(60):
        X = rng.normal(size=(200, 40))
        X[:, :10] = np.round(X[:, :10])
        X[:, 10:20] = rng.integers(0, 5, (200, 10))
        y = (rng.random(200) < 0.3).astype(int)
        tests = screening_of(X, y, is_nominal=[10 <= j < 20 for j in range(40)]).tests
        smallest.append(40 * np.exp(tests.log_p_values(np.zeros(200, bool)).min()))
    assert 1 <= np.sum(np.array(smallest) < 0.5) <= 36  # at most 30 are expected
    assert np.sum(np.array(smallest) < 0.05) <= 10


def test_a_column_of_a_rare_class_makes_no_others_relevant(seed):
    """Products with the column vary more in the rare class. Weights may depend on a column, too."""
    n_selected, rng = [], np.random.default_rng(seed)
    for _ in range(8):
        X = rng.normal(size=(1000, 60))
        X[:, 0] = rng.random(1000) < 0.05
        y = (X[:, 0] == 1) ^ (rng.random(1000) < 0.02)
        n_selected.append(len(screening_of(X, y.astype(int)).selected))
        weights = np.where(X[:, 0] == 1, 20.0, 1.0)
        n_selected.append(1 + len(screening_of(X, rng.integers(0, 2, 1000), weights).selected))
    assert np.mean(n_selected) < 2.0


def test_products_of_scores_of_one_column_are_not_tested(seed):
    X = np.random.default_rng(seed).integers(0, 4, (200, 5)).astype(float)
    tests = screening_of(X, np.resize([0, 1], 200), is_nominal=[True] * 3 + [False] * 2).tests
    variances = tests._variances(tests.products, tests.squares, tests.counts)
    assert_array_equal(np.isinf(variances), tests.owners[:, None] == tests.owners)


def test_relevant_columns_are_found(seed):
    X, y = many_columns(seed)
    found = screening_of(X, y)
    assert np.isin([0, 1, 2, 3], found.selected).all()
    assert len(found.selected) <= 10
    assert len(screening_of(X[:, :4], y).selected) == 0  # too few columns
    assert len(screening_of(X[:, :7], y).selected) == 0  # most columns are relevant
    weights = np.where(np.arange(len(y)) < 40, 1.0, 1e-9)  # as if there were 40 rows
    assert len(screening_of(X, y, weights).selected) < 4
    for weight in (9.0, 1e-300, 1e300):
        assert_array_equal(screening_of(X, y, np.full(len(y), weight)).selected, found.selected)


def test_pairs_of_categories_and_incomplete_columns(seed):
    """The label is a parity of two columns, and independent of each of them."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (600, 30)).astype(float)
    y = (X[:, 4] == X[:, 9]) ^ (rng.random(600) < 0.1)
    X[rng.random(X.shape) < 0.1] = np.nan
    for is_nominal in (False, True):
        found = screening_of(X, y.astype(int), is_nominal=[is_nominal] * 30).selected
        assert np.isin([4, 9], found).all()
        assert len(found) <= 6
    found = screening_of(X, rng.permutation(y).astype(int)).selected
    assert not np.isin([4, 9], found).all()


def test_folds_select_without_the_rows_that_they_leave_out(seed):
    X, y = many_columns(seed)
    folds = assign_folds(y, 3, np.random.default_rng(seed))
    before = screening_of(X, y)
    log_p = before.tests.log_p_values(folds == 1)
    kept = folds != 1
    alone = screening_of(X[kept], y[kept]).tests.log_p_values(np.zeros(kept.sum(), bool))
    assert_allclose(log_p, alone, rtol=0.2, atol=3)  # scores have the ranks of other rows
    changed = np.where(folds == 1, 1 - y, y)
    after = screening_of(X, changed)
    assert_allclose(after.tests.log_p_values(folds == 1), log_p, atol=0.02)
    assert_array_equal(after.of_folds(folds)[1], before.of_folds(folds)[1])
    assert (
        np.abs(after.tests.log_p_values(folds == 0) - before.tests.log_p_values(folds == 0)).max()
        > 1
    )


@pytest.mark.parametrize("potential", ["linear", "spline", "radial", "relu"])
def test_held_out_predictions_of_relevant_columns(potential, seed):
    """They depend neither on labels in their fold, nor on columns that the fold does not select."""
    rng = np.random.default_rng(seed)
    F, y = rng.normal(size=(60, 6)), np.resize([0, 1, 2], 60)
    rows = LabelRows(np.eye(3)[y], np.ones(60), assign_folds(y, 3, rng))
    columns = [np.array(c) for c in ([0, 1], [2, 3, 4], [1, 5], [0, 1, 2])]
    centers = F[:20] if potential == "radial" else None
    settings, seed_of_networks = ((1.0,), 50), None
    if potential == "relu":
        settings, seed_of_networks = NetworkSettings("relu", 4, 0.01, 0.0, 64, 3, 5), 0
        centers = slice(None)

    def held_out(F, targets):
        given = columns, centers, settings, seed_of_networks
        mapping, member = learn_member(
            Kind(potential, 1.0, "relevant"), F, rows._replace(targets=targets), *given
        )
        assert_allclose(np.exp(member.log_proba(mapping.transform(F))).sum(axis=1), 1.0)
        if potential == "relu":
            assert str(mapping.kept) == str(columns[:3])
        return member.held_out

    first, left = held_out(F, rows.targets), rows.folds == 1
    other_labels = np.where(left[:, None], np.roll(rows.targets, 1, axis=1), rows.targets)
    other_columns = F.copy()
    other_columns[:, [0, 1, 5]] = rng.normal(size=(60, 3))
    if potential != "relu":  # its held-out loss decides when training ends
        assert_allclose(held_out(F, other_labels)[left], first[left], atol=1e-5)
        assert_allclose(held_out(other_columns, rows.targets)[left], first[left], atol=1e-5)
    assert np.abs(held_out(F, other_labels)[~left] - first[~left]).max() > 1e-3
    assert np.abs(held_out(other_columns, rows.targets)[~left] - first[~left]).max() > 1e-3


def test_features_of_folds():
    F, columns = np.arange(8.0).reshape(2, 4), [np.array(c) for c in ([1], [0, 3], [2])]
    parts = FoldFeatures(columns[:2]).transform(F)
    assert_array_equal(parts, [[[1, 0], [5, 0]], [[0, 3], [4, 7]]])
    rows = LabelRows(np.eye(2), np.ones(2), np.arange(2))
    mapping, parts = features_of_folds(Kind("quadratic"), F, rows, columns, None)
    assert_array_equal(mapping.transform(F), F[:, [2]])
    assert_array_equal(parts[0], F[:, [1]])
    assert_array_equal(parts[1], F[:, [0, 3]])


def test_members_of_relevant_columns_ignore_other_columns(seed):
    X, y = many_columns(seed, 1200, 150)
    given = {"random_state": seed, "max_iter": 60, "cv": 3}
    potentials = "spline", "quadratic", "relu"
    scores = []
    for select in (False, True):
        model = NNMRFClassifier(potentials, select_columns=select, **given).fit(X[:600], y[:600])
        scores.append(model.score(X[600:], y[600:]))
    assert model.kinds_ == [(p, None, c) for c in ("all", "relevant") for p in potentials]
    assert len(model.exponents_) == len(model.members_) == 6
    assert np.isin([0, 1, 2, 3], model.relevant_columns_).all()
    assert scores[1] > scores[0] + 0.05
    model = NNMRFClassifier(("linear",), **given).fit(X[:, :5], y)
    assert model.kinds_ == [("linear", None, "all")]
    assert len(model.relevant_columns_) == 0
    with pytest.raises(ValueError, match="select_columns must be True or False; got 1"):
        NNMRFClassifier(select_columns=1).fit(X, y)


def test_relu_networks_receive_splines_unless_they_are_many(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 30))
    y = np.where(X[:, 0] > 0, "a", "b")
    given = {"max_iter": 3, "random_state": seed}
    model = NNMRFClassifier(("relu", "tanh"), **given).fit(X, y)
    n_inputs = {
        (kind.potential, kind.columns): member.networks.theta[0].shape[1]
        for kind, member in zip(model.kinds_, model.members_, strict=True)
    }
    assert n_inputs["relu", "all"] == n_inputs["tanh", "all"] == 30
    n_relevant = n_inputs["tanh", "relevant"]
    assert n_relevant < 15
    assert n_inputs["relu", "relevant"] == 12 * n_relevant
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_relu_networks_learn_thresholds(seed):
    """The labels are the colours of a chessboard, so that each column has three thresholds."""
    X = np.random.default_rng(seed).uniform(0, 4, (1600, 2))
    y = np.floor(X).sum(axis=1) % 2
    model = NNMRFClassifier(("relu",), random_state=seed).fit(X[:800], y[:800])
    assert model.score(X[800:], y[800:]) > 0.9


@pytest.mark.parametrize(
    ("n_values", "n_rows", "unit", "n_expected"),
    [
        (20, 100, 0.5, 20),
        (20, 99, 0.5, 13),
        (21, 2000, 0.5, 13),
        (64, 1280, 1.0, 64),
        (64, 1279, 1.0, 13),
        (65, 2000, 1.0, 13),
    ],
)
def test_knots_at_distinct_values(n_values, n_rows, unit, n_expected, seed):
    x = np.random.default_rng(seed).permutation(np.resize(np.arange(n_values), n_rows)) * unit
    column = fit_column(x, np.ones(n_rows), 12, {"name": "x"})
    assert len(column.knots) == n_expected
    assert np.isin(column.knots, column.standardised(x)).all()


def test_effects_of_codes(seed):
    """Each of 40 whole numbers has its own effect on the label, which is almost certain."""
    rng = np.random.default_rng(seed)
    X = rng.permutation(np.resize(np.arange(40), 1600))[:, None]
    y = rng.permutation(40)[X[:, 0]] % 2
    model = NNMRFClassifier(("spline",), random_state=seed).fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > 0.95


@pytest.mark.parametrize("categories", ["auto", [["a", "b", "c", "d", "e"]]])
def test_rare_and_unseen_categories_share_a_level(categories, seed):
    rng = np.random.default_rng(seed)
    kind = rng.permutation(np.array(["a"] * 30 + ["b"] * 30 + ["c", "d"], dtype=object))
    X = pd.DataFrame({"kind": kind, "z": rng.normal(size=62)})
    y = np.where(kind == "a", 1, 0)
    model = NNMRFClassifier(("linear",), categories=categories, random_state=seed).fit(X, y)
    known = ["a", "b", "c", "d"] if categories == "auto" else categories[0]
    assert model.categories_[0].tolist() == known
    assert len(model.members_[0].coef) == 3 + 1 + 1  # levels, number and bias
    rows = pd.DataFrame({"kind": ["c", "d", "e", "new", "b", None], "z": 0.0})
    p = model.predict_proba(rows)[:, 1]
    assert_allclose(p[1:4], p[0])
    assert np.unique(p.round(6)).size == 3


@pytest.mark.parametrize("known", [["a", "b", "c"], [7, 8, 9]])
def test_declared_categories_without_rows_are_missing(known, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"kind": pd.Categorical(rng.permutation(known[:2] * 30), known)})
    model = NNMRFClassifier(("linear", "tanh"), max_iter=5, random_state=seed).fit(X, X["kind"])
    assert model.column_types_ == ["categorical"]
    p = model.predict_proba(pd.DataFrame({"kind": pd.Categorical([known[2], None], known)}))
    assert_array_equal(p[0], p[1])


def test_most_frequent_of_many_categories_have_levels():
    codes = np.repeat(np.arange(1400), np.where(np.arange(1400) % 2, 4, 2))
    levels = find_levels(codes, {"name": "x", "categories": np.arange(1400)})
    assert np.unique(levels).size == 1000
    assert np.unique(levels[1:1400:2]).size == 700
    assert levels[1400] == levels.max() == 999


def test_unique_names_are_ignored(seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=60)
    X = pd.DataFrame({"z": z, "name": [f"id{k}" for k in range(60)]})
    model = NNMRFClassifier(("linear", "tanh"), max_iter=5, random_state=seed)
    with pytest.warns(UserWarning, match="No category of column 'name' occurs in several rows"):
        model.fit(X, z > 0)
    assert len(model.members_[0].coef) == 3
    expected = model.predict_proba(X)
    assert_array_equal(model.predict_proba(X.assign(name="new")), expected)
