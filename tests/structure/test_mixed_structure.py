"""Tests of graphs of mixed tables: numeric and categorical columns together, or numbers only."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import parallel_config
from scipy.stats import binom, chi2, chi2_contingency, f, f_oneway, norm, pearsonr, t
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from structure_rows import RARE, chain_rows, edges_of, holes, learner, slow, strict

from skmrf import DiscreteMRF, MRFStructureLearner
from skmrf._data.column_types import find_graph_types
from skmrf._data.mixed import learn_scale
from skmrf.plot import CouplingGraphDisplay
from skmrf.structure import Nodewise, RemovalWhileLearning, Thresholding, WaldTests
from skmrf.structure.mixed import MixedRows, assess_graph, dependence_tests, find_columns, fit_graph
from skmrf.structure.mixed_nodes import assess_others, fit_node
from skmrf.structure.penalised import PenalisedNodes
from skmrf.structure.significance import chi2_from_f

N_STATES = [0, 3, 0, 2, 0, 3, 0, 2]  # 0: numeric
EDGES = [(0, 1), (0, 2), (1, 5), (2, 4), (3, 5), (4, 6), (6, 7)]


def interaction(q, r):
    """Return the true interaction of two variables, given their numbers of states."""
    table = 0.3 * np.ones((1, 1)) if not q + r else 0.6 * np.linspace(-1, 1, max(q, r))
    return np.eye(q, r) if q and r else table.reshape(max(q, 1), max(r, 1))


def mixed_rows(seed, n_rows=2000, n_states=N_STATES, edges=EDGES, n_sweeps=60):
    """Return rows of a pairwise model of Gaussian and categorical variables, by Gibbs chains.

    The conditional variance of Gaussian variables is 1.
    """
    rng = np.random.default_rng([seed, 17])
    X = np.column_stack([rng.integers(max(q, 1), size=n_rows) for q in n_states]).astype(float)
    tables = {(i, j): interaction(n_states[i], n_states[j]) for i, j in edges}
    tables |= {(j, i): table.T for (i, j), table in tables.items()}
    for _ in range(n_sweeps):
        for v, q in enumerate(n_states):
            field = np.zeros((n_rows, max(q, 1)))
            for (i, j), table in tables.items():
                if i == v:
                    other = (
                        X[:, [j]] if not n_states[j] else np.eye(n_states[j])[X[:, j].astype(int)]
                    )
                    field += other @ table.T
            if q:
                X[:, v] = np.argmax(field + rng.gumbel(size=field.shape), axis=1)
            else:
                X[:, v] = field[:, 0] + rng.normal(size=n_rows)
    return X


def encoded(X, n_states=N_STATES, weights=None):
    """Return encoded rows, whose numbers are standardised."""
    X, is_number = X.copy(), np.array(n_states) == 0
    X[:, is_number] -= np.nanmean(X[:, is_number], axis=0)
    X[:, is_number] /= np.nanstd(X[:, is_number], axis=0)
    return MixedRows(X, np.ones(len(X)) if weights is None else weights, np.array(n_states))


def as_lists(edges):
    return [list(edge) for edge in edges]


def all_pairs(n):
    return np.column_stack(np.triu_indices(n, 1))


# Recovery and error rates ------------------------------------------------------------------


@pytest.mark.parametrize("search", [strict(), "nodewise", "l1", Nodewise(alpha=0.2)], ids=repr)
def test_recovery_of_a_mixed_graph(search, seed):
    found = MRFStructureLearner(search=search, random_state=0).fit(mixed_rows(seed))
    assert edges_of(found) == as_lists(EDGES)
    assert found.converged_
    assert found.column_types_[:4] == ["continuous", "categorical", "continuous", "categorical"]
    others = np.ones((8, 8), dtype=bool)
    others[tuple(np.array(EDGES + [(j, i) for i, j in EDGES]).T)] = False
    assert (found.p_values_[~others] < 1e-6).all()
    assert (found.p_values_[others] > 1e-6).all()
    assert not found.strength_[others].any()
    assert hasattr(found, "alpha_") == (search != strict() and not isinstance(search, WaldTests))


def test_intervals_contain_the_true_interactions(seed):
    found = MRFStructureLearner(search=strict()).fit(mixed_rows(seed))
    scores, sizes = [], []
    for (i, j), table, limits in zip(
        EDGES, found.coupling_, found.confidence_intervals_, strict=True
    ):
        truth = interaction(N_STATES[i], N_STATES[j])
        for axis in range(2):
            truth = truth - (truth.mean(axis=axis, keepdims=True) if truth.shape[axis] > 1 else 0.0)
        error = table - truth.reshape(np.shape(table))
        scores.append(np.ravel(error / ((limits[1] - limits[0]) / 3.92)))
        sizes.append(np.max(np.abs(table) / ((limits[1] - limits[0]) / 3.92)))
    scores = np.concatenate(scores)
    assert np.abs(scores).max() < 5
    assert 0.4 < np.sqrt(np.mean(scores**2)) < 2.0
    assert min(sizes) > 5  # zero is rejected


def test_missing_entries_of_a_mixed_graph(seed):
    X = mixed_rows(seed, 3000)
    full = MRFStructureLearner(search=strict()).fit(X)
    found = MRFStructureLearner(search=strict(), random_state=0).fit(holes(X, 0.15, seed))
    assert edges_of(found) == as_lists(EDGES)
    size = full.strength_[full.strength_ > 0]
    np.testing.assert_allclose(found.strength_[full.strength_ > 0], size, atol=0.25)
    assert (
        found.p_values_[tuple(np.array(EDGES).T)] > full.p_values_[tuple(np.array(EDGES).T)]
    ).all()


def test_cross_validated_penalty_keeps_all_true_edges():
    X = mixed_rows(0, 800)[:, :5]
    found = MRFStructureLearner(search=Nodewise(alpha="cv"), random_state=0).fit(X)
    assert {tuple(e) for e in edges_of(found)} >= {(0, 1), (0, 2), (2, 4)}


def test_tests_keep_their_level_under_independence(seed):
    """p-values of independent columns are rarely small, for each kind of pair."""
    shares = {"numbers": [], "both": [], "categories": []}
    for k in range(40):
        rng = np.random.default_rng([seed, k, 5])
        X = rng.normal(size=(150, 6))
        X[:, 3:] = rng.choice(3, size=(150, 3), p=[0.5, 0.3, 0.2])
        rows = encoded(X, [0, 0, 0, 3, 3, 3])
        p = assess_graph(rows, fit_graph(rows, all_pairs(6), None)).log_p <= np.log(0.05)
        shares["numbers"].append(p[:3, :3][np.triu_indices(3, 1)])
        shares["both"].append(p[:3, 3:].ravel())
        shares["categories"].append(p[3:, 3:][np.triu_indices(3, 1)])
    for found in shares.values():
        found = np.concatenate(found)
        assert binom.isf(1 - RARE, len(found), 0.03) <= found.sum()
        assert found.sum() <= binom.isf(RARE, len(found), 0.055)


@slow
@pytest.mark.parametrize("parameters", [{}, {"search": "nodewise"}])
def test_false_edges_of_independent_mixed_columns_are_rare(parameters):
    wrong = 0
    for k in range(60):
        rng = np.random.default_rng([k, 6])
        X = rng.normal(size=(500, 8))
        X[:, 4:] = rng.choice(3, size=(500, 4), p=[0.6, 0.3, 0.1])
        wrong += len(MRFStructureLearner(**parameters).fit(X).edges_) > 0
    assert wrong <= binom.isf(RARE, 60, 0.07)


# Regressions and tests ---------------------------------------------------------------------


def test_gaussian_graph_has_partial_correlations(seed):
    """p-values of a complete graph are those of the t-test of partial correlations."""
    rng = np.random.default_rng([seed, 8])
    X = rng.normal(size=(80, 5)) @ rng.normal(size=(5, 5))
    found = MRFStructureLearner(search=WaldTests(level=1.0)).fit(X)
    assert len(found.edges_) == 10
    K = np.linalg.inv(np.cov(X.T))
    r = -K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    upper = np.triu_indices(5, 1)
    np.testing.assert_allclose(found.coupling_[upper], r[upper], rtol=1e-4)
    free = 80 - 5
    p = 2 * t.sf(np.abs(r[upper]) * np.sqrt(free / (1 - r[upper] ** 2)), free)
    fits = fit_graph(encoded(X, [0] * 5), all_pairs(5), None)
    np.testing.assert_allclose(assess_graph(encoded(X, [0] * 5), fits).p, p, rtol=1e-4)
    assert (found.p_values_[upper] >= p * (1 - 1e-4)).all()  # adjusted
    limits = np.tanh(np.arctanh(r[upper])[:, None] + 1.96 / np.sqrt(80 - 3 - 3) * np.array([-1, 1]))
    np.testing.assert_allclose(found.confidence_intervals_, limits, atol=1e-4)
    R2 = [
        LinearRegression().fit(Z := np.delete(X, i, 1), X[:, i]).score(Z, X[:, i]) for i in range(5)
    ]
    np.testing.assert_allclose(found.predictability_, R2, atol=1e-6)
    two = MRFStructureLearner(search=WaldTests(level=1.0)).fit(X[:, :2])
    assert two.p_values_[0, 1] == pytest.approx(pearsonr(*X[:, :2].T).pvalue, rel=1e-5)


def test_f_statistics_as_chi_square_statistics():
    for d1, d2 in [(1, 10), (3, 50), (2, 4)]:
        values = np.geomspace(0.01, 300, 20)
        np.testing.assert_allclose(
            chi2.sf(chi2_from_f(values, d1, d2), d1), f.sf(values, d1, d2), rtol=1e-8
        )
    far = chi2_from_f(np.geomspace(1e3, 1e9, 50), 1, 1000)
    assert (np.diff(far) > 0).all()
    assert chi2_from_f(3.0, 0, 5) == 0.0


def test_logistic_regression_of_a_categorical_node(seed):
    X = mixed_rows(seed, 600)
    design = encoded(X).design
    node = fit_node(design, 5, (0, 1, 3))
    values = np.column_stack([X[:, 0], np.eye(3)[X[:, 1].astype(int)][:, 1:], X[:, 3]])
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=2000).fit(values, X[:, 5])
    log_p = model.predict_log_proba(values)
    expected = log_p[np.arange(600), X[:, 5].astype(int)].sum()
    assert node.log_likelihood == pytest.approx(expected, abs=0.01)
    hits, base = (
        (log_p.argmax(axis=1) == X[:, 5]).mean(),
        np.bincount(X[:, 5].astype(int)).max() / 600,
    )
    assert node.predictability == pytest.approx(max(hits - base, 0) / (1 - base), abs=0.01)


def test_marginal_tests_are_the_textbook_tests(seed):
    X = mixed_rows(seed, 200)
    rows = encoded(X)
    tests = dependence_tests(rows)
    p = dict(
        zip(map(tuple, tests.edges.tolist()), chi2.sf(tests.statistic, tests.dof), strict=True)
    )
    scores = assess_graph(rows, fit_graph(rows, np.zeros((0, 2), dtype=int), None), others=True)
    for (i, j), value in p.items():
        x, y = X[:, i], X[:, j]
        q, r = N_STATES[i], N_STATES[j]
        if not q and not r:
            expected = pearsonr(x, y).pvalue
        elif q and r:
            counts = np.zeros((q, r))
            np.add.at(counts, (x.astype(int), y.astype(int)), 1)
            expected = chi2_contingency(counts, correction=False).pvalue
        else:
            number, state = (x, y) if not q else (y, x)
            expected = f_oneway(*(number[state == s] for s in np.unique(state))).pvalue
        assert value == pytest.approx(expected, rel=1e-4)
        rel, slack = (0.25, 0.3) if bool(q) != bool(r) else (1e-4, 1e-6)  # the mean of two
        assert scores.log_p[i, j] == pytest.approx(np.log(expected), rel=rel, abs=slack)


def test_conditional_tests_of_a_numeric_node(seed):
    """F tests of a neighbour and of another variable agree with two least-squares fits."""
    X = mixed_rows(seed, 150)
    rows = encoded(X)
    node = fit_node(rows.design, 0, (1, 2))

    def residual_sum(*columns):
        parts = [
            np.eye(3)[X[:, j].astype(int)][:, 1:] if N_STATES[j] == 3 else X[:, [j]]
            for j in columns
        ]
        Z = np.column_stack([np.ones(len(X)), *parts])
        return np.sum((X[:, 0] - Z @ np.linalg.lstsq(Z, X[:, 0], rcond=None)[0]) ** 2), Z.shape[1]

    def p_value(small, large):
        (a, k), (b, m) = residual_sum(*small), residual_sum(*large)
        return f.sf((a - b) / (m - k) / (b / (150 - m)), m - k, 150 - m)

    statistic, dof = assess_others(rows.design, node)
    for j in (4, 5):
        expected = p_value((1, 2), (1, 2, j))
        assert chi2.sf(statistic[j], dof[j]) == pytest.approx(expected, rel=1e-5)
    fits = fit_graph(rows, np.array([[0, 1], [0, 2]]), None)
    tests = assess_graph(rows, fits)
    assert tests.dof[0, 1] == 2
    roots = [  # of the tests of columns 0 and 2 in the regression of the other one
        norm.isf(p_value((1,), (1, 2)) / 2),
        norm.isf(pearsonr(X[:, 0], X[:, 2]).pvalue / 2),
    ]
    assert tests.statistic[0, 2] == pytest.approx(np.mean(roots) ** 2, rel=1e-5)


def test_a_category_that_is_a_function_of_a_number_is_found(seed):
    """The maximum of the likelihood is infinite, where Wald tests fail."""
    rng = np.random.default_rng([seed, 9])
    X = rng.normal(size=(300, 4))
    X[:, 3] = X[:, 0] > 0
    X[:, 2] += X[:, 1]
    found = MRFStructureLearner(random_state=0).fit(X)
    assert edges_of(found) == [[0, 3], [1, 2]]
    assert found.predictability_[3] > 0.9
    assert np.isfinite(found.strength_).all()


@pytest.mark.parametrize("penalty", ["l1", "group-l1"])
def test_optimality_of_penalised_regressions(penalty, seed):
    """The gradient of each group of parameters balances the penalty, or is smaller."""
    rows = encoded(mixed_rows(seed, 400))
    problem = PenalisedNodes(rows.design, all_pairs(8), penalty)
    largest = problem.largest_alpha()
    assert not problem.nonzero_edges(problem.solve(1.001 * largest, problem.start())[0]).any()
    assert problem.nonzero_edges(problem.solve(0.98 * largest, problem.start())[0]).sum() == 1
    alpha = 0.3 * largest
    B, _ = problem.solve(alpha, problem.start())
    assert 2 <= problem.nonzero_edges(B).sum() < 28
    _, gradient = problem.value_and_gradient(B)
    assert np.abs(gradient[0]).max() < 1e-4
    start, n_groups = rows.design.start - 1, 0
    for i, j in all_pairs(8):
        first, second = (slice(start[v], start[v + 1]) for v in (i, j))
        values = np.stack([B[1:][first, second], B[1:][second, first].T])
        slopes = np.stack([gradient[1:][first, second], gradient[1:][second, first].T])
        if penalty == "group-l1":
            values, slopes = values.reshape(1, -1), slopes.reshape(1, -1)
        else:
            values, slopes = values.reshape(2, -1).T, slopes.reshape(2, -1).T
        limit = alpha * np.sqrt(values.shape[1] / 2) / np.sqrt(2)
        for value, slope in zip(values, slopes, strict=True):
            size, n_groups = np.linalg.norm(value), n_groups + 1
            expected = -limit * value / size if size else np.zeros_like(value)
            slack = 0.0 if size else limit
            assert np.linalg.norm(slope - expected) <= slack + 2e-4
    assert (
        n_groups == (28 if penalty == "group-l1" else problem.weights.size // 2 - 0)
        or n_groups > 28
    )


def test_gradient_of_penalised_regressions():
    rows = encoded(mixed_rows(0, 100))
    problem = PenalisedNodes(rows.design, all_pairs(8), "l1")
    rng = np.random.default_rng(0)
    B = 0.2 * rng.normal(size=problem.start().shape)
    B[1:] *= problem.allowed
    direction = rng.normal(size=B.shape)
    _, gradient = problem.value_and_gradient(B)
    ahead, behind = (problem.value_and_gradient(B + h * direction)[0] for h in (1e-5, -1e-5))
    assert (ahead - behind).sum() / 2e-5 == pytest.approx((gradient * direction).sum(), rel=1e-6)


# Rows and columns --------------------------------------------------------------------------


@pytest.mark.parametrize("search", ["tests", "nodewise"])
def test_weights_count_as_repetition(search):
    X = mixed_rows(1, 400)[:, :4]
    weights = np.random.default_rng(2).integers(0, 3, len(X))
    weighted = MRFStructureLearner(search=search).fit(X, sample_weight=weights)
    repeated = MRFStructureLearner(search=search).fit(np.repeat(X, weights, axis=0))
    for name in ("edges_", "strength_", "p_values_", "predictability_"):
        a, b = getattr(weighted, name), getattr(repeated, name)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    other = MRFStructureLearner(search=search).fit(X)
    assert np.abs(other.strength_ - weighted.strength_).max() > 1e-3


def test_order_of_columns_does_not_matter(seed):
    X = mixed_rows(seed, 500)
    order = np.random.default_rng(seed).permutation(8)
    found, moved = MRFStructureLearner().fit(X), MRFStructureLearner().fit(X[:, order])
    for name in ("strength_", "p_values_", "edge_probability_"):
        expected = getattr(found, name)[np.ix_(order, order)]
        np.testing.assert_allclose(getattr(moved, name), expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(moved.predictability_, found.predictability_[order], atol=1e-8)
    shapes = {tuple(e): np.shape(c) for e, c in zip(edges_of(found), found.coupling_, strict=True)}
    assert shapes[0, 1] == (3,)
    assert shapes[0, 2] == ()
    assert shapes[1, 5] == (3, 3)


def test_constant_and_duplicate_columns():
    X = mixed_rows(0, 600)
    Z = np.column_stack([X, np.full(600, 3.7), -X[:, 0], np.exp(X[:, 2]), 2 - X[:, 1]])
    found = MRFStructureLearner(search=strict()).fit(Z)
    plain = MRFStructureLearner(search=strict()).fit(X)
    assert edges_of(found) == sorted([*edges_of(plain), [0, 9], [2, 10], [1, 11]])
    np.testing.assert_array_equal(found.strength_[[0, 2, 1], [9, 10, 11]], [1.0, 1.0, np.inf])
    np.testing.assert_array_equal(found.predictability_[[8, 9, 10, 11]], [0, 1, 1, 1])
    assert np.isfinite(found.score(Z))
    numbers = MRFStructureLearner().fit(Z[:, [0, 2, 9, 10]])
    assert numbers.coupling_[0, 2] == -1.0
    assert numbers.coupling_[1, 3] == 1.0
    few = MixedRows(np.array([[1.0, 1], [2, 2], [3, 3]]), np.ones(3), np.zeros(2, dtype=int))
    assert find_columns(few).kept.tolist() == [0, 1]  # equal ranks of 3 rows may be chance


def test_outliers_and_skewed_columns():
    """Columns with heavy tails have Gaussian scores of their ranks."""
    X = mixed_rows(0, 600)
    X[5, 0] = 1e30
    X[:, 2] = np.exp(2 * X[:, 2])
    found = MRFStructureLearner(search=strict()).fit(X)
    assert edges_of(found) == edges_of(MRFStructureLearner(search=strict()).fit(mixed_rows(0, 600)))
    x = np.random.default_rng(0).normal(size=300)
    linear = learn_scale(x, np.ones(300))
    np.testing.assert_allclose(linear.transform(x), (x - x.mean()) / x.std(), atol=1e-12)
    z = learn_scale(np.exp(x), np.ones(300)).transform(np.exp(x))
    ranks = norm.ppf((np.argsort(np.argsort(x)) + 0.5) / 300)
    np.testing.assert_allclose(z, ranks / ranks.std(), atol=1e-9)
    assert np.isnan(linear.transform(np.array([np.nan]))).all()


ID = np.array([f"row {k}" for k in range(50)], dtype=object)
NUMBERS = np.random.default_rng(3).normal(size=(50, 3))


@pytest.mark.parametrize(
    ("frame", "parameters", "message"),
    [
        ({"id": ID}, {}, "Column 'id' has 50 categories in 50 rows.*Drop the column.*column_types"),
        ({"gone": np.full(50, np.nan)}, {}, "Column 'gone' has no observed entry; drop it"),
        ({"far": np.where(np.arange(50) == 3, np.inf, 1.0)}, {}, "Column 'far' holds infinity"),
        (
            {},
            {"search": Thresholding()},
            r"Column 'a' .* search=Thresholding\(\) needs .*\"tests\"",
        ),
        ({}, {"search": RemovalWhileLearning()}, "Column 'a' has the type .*removal|Removal"),
        ({}, {"learner": "pcd"}, "learner='pcd' needs categorical columns. Use learner=\"auto\""),
        ({}, {"statistic": "agreement"}, 'statistic=.* Use statistic="table", discretise'),
        ({}, {"unary": False}, "unary=False needs categorical columns. Use unary=True"),
        ({}, {"column_types": "number"}, "column_types must be"),
        (
            {"k": ID},
            {"column_types": {"k": "continuous"}},
            "Column 'k' holds 'row 0', which is not a",
        ),
        ({}, {"max_bytes": 10}, "max_bytes=10.*Set screen to a number"),
    ],
)
def test_invalid_mixed_tables_raise(frame, parameters, message):
    X = pd.DataFrame(NUMBERS, columns=list("abc")).assign(**frame)
    model = MRFStructureLearner(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X)
    assert not [name for name in vars(model) if name.endswith("_")]
    if parameters.get("search"):
        with pytest.raises(ValueError, match=r"Column .a. has the type .*RemovalWhileLearning"):
            MRFStructureLearner(search=RemovalWhileLearning()).partial_fit(X)


def test_types_of_columns():
    columns = {
        "text": np.array(["1", "2", "3"] * 20, dtype=object),
        "few": np.arange(60.0) % 20,
        "many": np.arange(60.0) % 21,
        "two": np.arange(60) % 2 - 0.5,
        "third": np.arange(60) % 7 / 3,
        "real": np.linspace(-1, 1, 60),
        "empty": np.full(60, np.nan),
    }
    found = find_graph_types(pd.DataFrame(columns), list(columns.values()))
    kinds = dict.fromkeys(columns, "categorical") | {"many": "integer", "real": "continuous"}
    assert found == list(kinds.values())
    X = np.column_stack([columns["few"], columns["many"]])
    assert hasattr(
        MRFStructureLearner("exact", categories=[range(20), range(21)]).fit(X), "energy_"
    )
    assert not hasattr(MRFStructureLearner().fit(X), "energy_")
    model = DiscreteMRF(MRFStructureLearner("exact"), "exact", alpha=0.1).fit(X[:, 1:])
    assert model.structure_.column_types_ == ["categorical"]


def test_ordinal_columns_and_counts_are_scores():
    rng = np.random.default_rng(5)
    z = rng.normal(size=(800, 3))
    z[:, 1] += 0.6 * z[:, 0]
    z[:, 2] += 0.6 * z[:, 1]
    grade = pd.Categorical.from_codes(np.digitize(z[:, 1], [-1, 0, 1]), list("dcba"), ordered=True)
    X = pd.DataFrame({"x": z[:, 0], "grade": grade, "count": np.floor(np.exp(z[:, 2] + 2))})
    found = MRFStructureLearner().fit(X)
    assert found.column_types_ == ["continuous", "ordinal", "integer"]
    assert edges_of(found) == [[0, 1], [1, 2]]
    assert found.coupling_[0, 1] > 0.2
    assert [c.tolist() for c in found.categories_] == [[], list("dcba"), []]
    by_name = MRFStructureLearner(column_types={"grade": "categorical"}).fit(X)
    assert np.shape(by_name.coupling_[0]) == (4,)


def test_frames_graphs_and_plots():
    X = mixed_rows(0, 800)
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    for name in "bdfh":
        frame[name] = frame[name].map(lambda v: f"level {v:.0f}")
    plain, found = MRFStructureLearner().fit(X), MRFStructureLearner().fit(frame)
    by_polars = MRFStructureLearner().fit(pl.DataFrame(frame.to_dict("list")))
    for other in (found, by_polars):
        np.testing.assert_allclose(other.p_values_, plain.p_values_, rtol=1e-6)
        assert other.score(frame if other is found else pl.DataFrame(frame.to_dict("list"))) == (
            pytest.approx(plain.score(X))
        )
    edge = found.graph_.edges["a", "c"]
    assert edge.keys() == {"weight", "strength", "p_value", "probability", "sign"}
    assert edge["sign"] == 1.0
    assert found.graph_.edges["a", "b"]["sign"] == 0.0
    assert found.graph_.edges["g", "h"]["sign"] == 1.0
    display = CouplingGraphDisplay.from_estimator(found)
    assert len(display.graph_.edges) == len(found.edges_)
    numbers = MRFStructureLearner().fit(X[:, [0, 2, 4, 6]])
    legend = CouplingGraphDisplay.from_estimator(numbers).ax_.get_legend().get_texts()
    assert not any("nats" in text.get_text() for text in legend)


@pytest.mark.long
def test_bootstraps_and_persistence():
    X = mixed_rows(0, 500)
    found = MRFStructureLearner(n_bootstraps=4, random_state=0).fit(X)
    with parallel_config("threading"):
        again = MRFStructureLearner(n_bootstraps=4, random_state=0, n_jobs=2).fit(X)
    np.testing.assert_array_equal(found.edge_frequency_, again.edge_frequency_)
    assert found.edge_frequency_[0, 2] > 0
    copy = pickle.loads(pickle.dumps(found))
    assert copy.score(X) == found.score(X)
    assert list(copy.graph_.edges) == list(found.graph_.edges)
    for name in ("energy_", "path_"):
        with pytest.raises(AttributeError, match=name):
            getattr(found, name)
    discrete = found.set_params(n_bootstraps=0).fit(chain_rows(0, 200))
    assert hasattr(discrete, "path_")
    assert not hasattr(discrete.set_params(random_state=1).fit(X), "path_")


def test_score_of_gaussian_columns():
    """The score is the mean sum of the conditional log-densities of standardised columns."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 2)) @ np.array([[1.0, 0.8], [0.0, 1.0]])
    found = MRFStructureLearner().fit(X)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    r = np.corrcoef(X.T)[0, 1]
    variance = (1 - r**2) * 300 / 298
    expected = norm.logpdf(Z, r * Z[:, ::-1], np.sqrt(variance)).sum(axis=1)
    assert found.score(X) == pytest.approx(expected.mean(), abs=1e-6)
    assert found.score(X[:1]) == pytest.approx(expected[0], abs=1e-6)


def test_imputation_draws_from_the_conditional_distribution(seed):
    X = mixed_rows(seed, 4000)
    rows = encoded(X)
    fits = fit_graph(rows, np.array(EDGES), None)
    hidden = rows.X.copy()
    hidden[::2, 0] = np.nan
    hidden[1::2, 3] = np.nan
    incomplete = MixedRows(hidden, rows.weights, rows.n_states)
    drawn = incomplete.impute(fits, rows, np.random.default_rng(seed))
    np.testing.assert_array_equal(drawn.X[~np.isnan(hidden)], hidden[~np.isnan(hidden)])
    for s in range(3):
        a, b = (values[::2][rows.X[::2, 1] == s, 0] for values in (drawn.X, rows.X))
        assert abs(a.mean() - b.mean()) < 5 * np.sqrt((a.var() + b.var()) / len(a))
        c, d = (values[1::2][rows.X[1::2, 5] == s, 3] for values in (drawn.X, rows.X))
        assert abs(c.mean() - d.mean()) < 5 * np.sqrt(0.5 / len(c))
    assert rows.impute(fits, rows, None) is rows


@pytest.mark.parametrize("n_rows", [3, 6, 15])
def test_more_columns_than_rows(n_rows):
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, 16))
    X[:, 8:] = rng.integers(2, size=(n_rows, 8))
    for parameters in ({}, {"screen": 0.1}, {"screen": None}, {"search": "nodewise"}):
        found = MRFStructureLearner(random_state=0, **parameters).fit(X)
        assert found.p_values_.shape == (16, 16)
        assert np.isfinite(found.p_values_).all()


def test_screening_keeps_strong_pairs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 150))
    X[:, 1] += 2 * X[:, 0]
    found = MRFStructureLearner().fit(X)
    assert [0, 1] in edges_of(found)
    assert found.n_candidates_ < 150
    with pytest.warns(ConvergenceWarning, match="callback or Ctrl-C stopped"):
        MRFStructureLearner().set_callbacks(Stop()).fit(X[:, :3])


class Stop:
    """Callback that stops the fit after the first round."""

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, **rows):
        return True


# Predictability of categorical tables ------------------------------------------------------


def test_predictability_of_categorical_columns(seed):
    """Compare the normalised accuracy with the most probable state given all other columns."""
    X = chain_rows(seed, 600, 4, field=0.2)
    found = learner("exact").fit(X)
    for i in range(4):
        flipped = X.copy()
        flipped[:, i] = 1 - flipped[:, i]
        is_likely = found.energy_.log_potential(X) >= found.energy_.log_potential(flipped)
        base = np.bincount(X[:, i]).max() / 600
        expected = max(is_likely.mean() - base, 0) / (1 - base)
        assert found.predictability_[i] == pytest.approx(expected)
    copied = learner("exact").fit(np.column_stack([X, X[:, 0], np.ones(600)]))
    assert copied.predictability_[[0, 4, 5]].tolist() == [1.0, 1.0, 0.0]
    incomplete = learner("exact").fit(holes(X, 0.1, seed))
    np.testing.assert_allclose(incomplete.predictability_, found.predictability_, atol=0.15)
