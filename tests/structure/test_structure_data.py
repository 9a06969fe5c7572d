"""Tests of input data of MRFStructureLearner: missing, constant, duplicate columns; frames."""

from itertools import permutations

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom
from sklearn.exceptions import ConvergenceWarning
from structure_rows import (
    CHAIN,
    RARE,
    a_fit,
    chain_rows,
    edges_of,
    holes,
    joint_law,
    learner,
    same_fit,
    slow,
    strict,
    three_state_rows,
)

from skmrf import MRFImputer, MRFStructureLearner, NNMRFDensity, inference
from skmrf._utils.codes import STATE
from skmrf.energies.log_linear import LogLinearForm
from skmrf.structure import RemovalWhileLearning, Thresholding, WaldTests, assessment, search
from skmrf.structure.mixed import MixedRows, fit_graph
from skmrf.structure.mixed_nodes import Multinomial
from skmrf.structure.nodewise import fit_nodes
from skmrf.structure.pairwise import PairwiseModel, SparseTableModel, transfer_parameters
from skmrf.structure.rows import Columns, Design, Rows, coincidence_probability, relabel_states
from skmrf.structure.screening import pair_tables

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize(
    "name", ["exact", *(pytest.param(n, marks=slow) for n in ("pseudo-likelihood", "pcd"))]
)
def test_missing_entries(name, seed):
    X = chain_rows(seed, 3000)
    full, found = learner(name).fit(X), learner(name).fit(holes(X, 0.2, seed))
    assert edges_of(found) == CHAIN
    assert found.converged_
    ratio = np.diff(found.confidence_intervals_) / np.diff(full.confidence_intervals_)
    # 0.64 times as many rows observe both columns
    np.testing.assert_allclose(ratio, 1 / 0.8, rtol=0.1)
    error = np.diff(found.confidence_intervals_)[:, 0] / (2 * 1.96)
    assert (np.abs(found.coupling_[tuple(np.array(CHAIN).T)] - 0.5) < 5 * error).all()
    blank = np.vstack([holes(X, 0.2, seed), np.full((3, 5), np.nan)])
    assert edges_of(learner(name).fit(blank)) == CHAIN


def test_pairs_never_observed_together_have_no_edge():
    X = chain_rows(0, 2000, 3).astype(float)
    X[:1000, 0] = X[1000:, 1] = np.nan
    found = learner().fit(X)
    assert [1, 2] in edges_of(found)
    assert [0, 1] not in edges_of(found)
    assert found.p_values_[0, 1] > 0.01


def test_more_columns_than_rows():
    X = np.random.default_rng(0).integers(0, 2, size=(30, 40))
    X[:, 7] = X[:, 3]
    X[0, 7] = 1 - X[0, 7]
    found = learner("pseudo-likelihood", search=strict(1e-3)).fit(X)
    assert edges_of(found) == [[3, 7]]
    assert found.n_candidates_ < 40 * 39 / 2
    assert found.p_values_.shape == (40, 40)
    for name in ("strength_", "p_values_", "edge_probability_", "coupling_"):
        assert np.isfinite(getattr(found, name)).all()


def test_constant_columns_have_no_edges():
    X = chain_rows(0, 1500, 4)
    X = np.column_stack([np.full(len(X), 3), X[:, :2], np.full(len(X), 3), X[:, 2:]])
    found = learner().fit(X)
    assert edges_of(found) == [[1, 2], [2, 4], [4, 5]]
    for k in (0, 3):
        assert (found.p_values_[k] == 1).all()
        assert (found.edge_probability_[k] == 0).all()
        assert (found.strength_[k] == 0).all()
    assert found.energy_.n_states.tolist() == [1, 2, 2, 1, 2, 2]
    named = learner(categories=[[2, 3], *[[0, 1]] * 2, [3, 4], *[[0, 1]] * 2]).fit(X)
    single = inference.marginals(named.energy_, method="exact").single
    np.testing.assert_allclose(single[0], np.array([0.5, 1500.5]) / 1501)
    np.testing.assert_allclose(single[3], np.array([1500.5, 0.5]) / 1501)
    alone = learner().fit(X[:, [1, 2, 4, 5]])
    np.testing.assert_allclose(found.coupling_[1, 2], alone.coupling_[0, 1], rtol=1e-6)


def test_duplicate_columns():
    """Duplicate and negated columns have infinite couplings and impossible joint states."""
    X = chain_rows(0, 1500, 3)
    X = np.column_stack([X, X[:, 0], 1 - X[:, 1]])
    found = learner(n_bootstraps=2).fit(X)
    assert edges_of(found) == [[0, 1], [0, 3], [1, 2], [1, 4]]
    assert found.coupling_[0, 3] == found.coupling_[3, 0] == np.inf
    assert found.coupling_[1, 4] == found.coupling_[4, 1] == -np.inf
    np.testing.assert_array_equal(
        found.confidence_intervals_[[1, 3]], [[np.inf] * 2, [-np.inf] * 2]
    )
    assert found.strength_[0, 3] == found.strength_[1, 4] == np.inf
    assert found.p_values_[0, 3] == 0
    assert found.edge_probability_[1, 4] == found.edge_frequency_[1, 4] == 1
    assert (found.p_values_[3, [1, 2, 4]] == 1).all()
    assert found.edge_probability_[3, 2] == 0
    assert found.graph_.edges[1, 4]["sign"] == -1
    tables = dict(zip(found.energy_.cliques, found.energy_.log_potentials, strict=True))
    np.testing.assert_array_equal(tables[0, 3], [[0, -np.inf], [-np.inf, 0]])
    np.testing.assert_array_equal(tables[1, 4], [[-np.inf, 0], [0, -np.inf]])
    drawn = inference.sample(found.energy_, 500, random_state=0)
    np.testing.assert_array_equal(drawn[:, 3], drawn[:, 0])
    np.testing.assert_array_equal(drawn[:, 4], 1 - drawn[:, 1])
    single = inference.marginals(found.energy_, method="exact").single
    np.testing.assert_allclose(single[0], [(X[:, 0] == s).mean() for s in (0, 1)], atol=1e-4)
    np.testing.assert_allclose(single[4], [(X[:, 4] == s).mean() for s in (0, 1)], atol=1e-4)
    assert np.isfinite(inference.log_partition(found.energy_, method="exact").value)
    assert np.isfinite(found.score(X))
    alone = learner().fit(X[:, :3])
    np.testing.assert_allclose(found.coupling_[:3, :3], alone.coupling_, atol=1e-6)


def test_duplicates_of_three_states_with_missing_entries():
    X = three_state_rows(0).astype(float)
    X[::9, 0] = np.nan
    X = np.column_stack([X, (X[:, 0] + 1) % 3])  # relabelled states, missing in the same rows
    found = learner().fit(X)
    assert edges_of(found) == [[0, 1], [0, 4], [2, 3]]
    expected = np.full((3, 3), -np.inf)
    expected[[0, 1, 2], [1, 2, 0]] = 0
    np.testing.assert_array_equal(found.coupling_[1], expected)
    np.testing.assert_array_equal(found.confidence_intervals_[1], [expected, expected])
    drawn = inference.sample(found.energy_, 200, random_state=0)
    np.testing.assert_array_equal(drawn[:, 4], (drawn[:, 0] + 1) % 3)


def test_duplicates_with_relabelled_states():
    X = np.array([[0, 1, 2, 0, -1], [0, 0, 1, 0, 2], [1, 1, 2, 0, 2], [-1, 0, 1, -1, 0]])
    X = np.column_stack([X, X[:, 0], 1 - X[:, 1]]).astype(STATE)
    found = Columns.from_codes(X, np.full(4, 20.0))
    assert found.kept.tolist() == [0, 1, 4]
    assert found.duplicates == [(1, 2), (0, 5), (1, 6)]
    assert max(found.duplicate_p) < 1e-9
    assert Columns.from_codes(X, np.ones(4)).duplicates == []


@pytest.mark.parametrize(
    "codes", [[0, 1, 1, 1, 1], [0, 1, 0, 1], [0, 1, 2, 2, -1], [0, 1, 1, 0, 2]]
)
def test_coincidence_probability(codes):
    """Compare with the share of permutations of a column that are duplicates of it."""
    codes = np.array(codes)
    observed = codes[codes >= 0]
    orders = np.array(list(permutations(observed)))
    same = [np.array_equal(relabel_states(o), relabel_states(observed)) for o in orders]
    assert coincidence_probability(codes, np.ones(len(codes))) == pytest.approx(np.mean(same))


@pytest.mark.parametrize("n_rows", [200, 3])
def test_columns_equal_by_chance_have_no_edge(n_rows, seed):
    """Columns that are equal by chance (a shared rare state, or few rows) have no edge."""
    rng = np.random.default_rng(seed)
    wrong = 0
    for _ in range(4):
        X = (rng.random((n_rows, 25)) < (0.01 if n_rows > 3 else 0.5)).astype(int)
        X[0, :2], X[1:, :2] = 1, 0
        found = MRFStructureLearner("pseudo-likelihood", random_state=0).fit(X)
        assert np.isfinite(found.coupling_).all()
        assert found.p_values_[0, 1] > 0.05
        wrong += len(found.edges_) > 0
    assert wrong <= binom.isf(RARE, 4, 0.05)


def test_duplicates_with_the_same_states():
    """A relabelled column of three states is no duplicate for the agreement statistic."""
    X = np.array([[0, 1], [1, 0], [2, 1], [1, 0]])
    X = np.column_stack([X, (X[:, 0] + 1) % 3, X[:, 0], 1 - X[:, 1]]).astype(STATE)
    weights = np.full(4, 20.0)
    assert Columns.from_codes(X, weights, same_states=True).duplicates == [(0, 3), (1, 4)]
    assert Columns.from_codes(X, weights).duplicates == [(0, 2), (0, 3), (1, 4)]
    rows = three_state_rows(0)
    rows = np.column_stack([rows, (rows[:, 0] + 1) % 3])
    found = learner("pseudo-likelihood", statistic="agreement").fit(rows)
    assert np.isfinite(found.coupling_).all()


def test_score_tests_are_skipped_if_too_slow(monkeypatch):
    X = chain_rows(0)
    monkeypatch.setattr(assessment, "MAX_MULTIPLICATIONS", 1.0)
    with pytest.warns(UserWarning, match="Score tests skip columns with 2 or more categories"):
        found = learner(screen=0.001).fit(X)
    missing = ~np.isin(np.arange(25).reshape(5, 5), [5 * i + j for i, j in CHAIN])
    assert (found.p_values_[np.triu(missing, 1)] == 1.0).all()


@pytest.mark.parametrize(("most", "n_tested"), [(1e6, 5), (1e5, 4), (1e4, 0), (1.0, 0)])
def test_columns_without_score_tests(most, n_tested, monkeypatch, recwarn):
    """Columns with most states are not tested; if they are many, no column is tested."""
    monkeypatch.setattr(assessment, "MAX_MULTIPLICATIONS", most)
    form = LogLinearForm.build((2, 2, 2, 5, 9), np.zeros((0, 2), int))
    tested = assessment._select_testable_variables(form, 100)
    assert tested.tolist() == [k < n_tested for k in range(5)]
    messages = [str(w.message) for w in recwarn]
    assert len(messages) == (n_tested < 5)
    assert all(
        f"skip columns with {9 if n_tested else 2} or more categories" in m for m in messages
    )


def test_normalised_sample_weights_warn(seed):
    X = chain_rows(seed)
    with pytest.warns(UserWarning, match="sample_weight sums to 1, .*multiply them by the number"):
        found = learner("pseudo-likelihood").fit(X, sample_weight=np.full(len(X), 1 / len(X)))
    assert len(found.edges_) == 0


@pytest.mark.parametrize("power", [pytest.param(0.0, marks=pytest.mark.long), 1.0])
def test_independent_columns_with_sparse_tables(power, seed):
    """Two independent columns of 12 categories and 200 rows have an edge at the given rate."""
    rng, n_sets = np.random.default_rng(seed), 30
    shares = np.arange(1.0, 13.0) ** -power
    n_edges = 0
    for _ in range(n_sets):
        X = rng.choice(12, size=(200, 2), p=shares / shares.sum())
        found = learner(search=WaldTests("holm"), screen=None, column_types="categorical").fit(X)
        n_edges += len(found.edges_)
    assert n_edges <= binom.ppf(1 - 1e-4, n_sets, 0.05)


def test_parameters_of_sparse_tables_solve_the_conditional_likelihoods(seed):
    """The parameters of independent columns and of one edge are those of its joint counts."""
    rng, edges = np.random.default_rng(seed), np.array([[0, 1]])
    X = np.column_stack([rng.integers(4, size=500), rng.integers(5, size=500)])
    X[::2, 1] = X[::2, 0]
    rows = Rows(X.astype(STATE), rng.integers(1, 3, 500) * 1.0, np.array([4, 5]))
    fits = fit_graph(MixedRows.from_codes(rows, rows), edges, None)
    model = SparseTableModel()
    energy = model.initial(rows, edges)
    energy = energy.with_theta(model.start_parameters(energy.form, fits))
    expected = fit_nodes(rows.X, rows.weights, energy.form).theta
    for name in ("unary", "pairs"):
        assert_allclose(energy.theta[name], expected[name], atol=0.1)


@pytest.mark.long
def test_column_of_row_identifiers(seed):
    """A column of row identifiers has no edges, and does not change other edges."""
    X = chain_rows(seed, n_rows=400, n_variables=6)
    whole = learner("pseudo-likelihood").fit(X)
    with_identifiers = np.column_stack([X, np.arange(400)])
    with pytest.warns(UserWarning, match="columns with 400 or more categories.*drop columns that"):
        found = learner("pseudo-likelihood", column_types="categorical").fit(with_identifiers)
    assert edges_of(found) == edges_of(whole)
    assert (found.p_values_[6, :6] == 1.0).all()
    assert 0.3 < (found.p_values_[:6, :6] < 1.0).sum() / (whole.p_values_ < 1.0).sum() < 2.6


@pytest.mark.parametrize(("lowest", "is_whole"), [(-1, False), (-1, True), (0, False), (0, True)])
def test_contingency_tables_of_many_states(lowest, is_whole, seed):
    """Columns of many states have blocks of their own; pairs with themselves are left out."""
    rng = np.random.default_rng(seed)
    n_states = np.array([150, 2, 150, 3, 2, 3, 3])
    X = np.column_stack([rng.integers(lowest, q, 300) for q in n_states]).astype(STATE)
    weights = rng.integers(0, 4, 300).astype(float) if is_whole else rng.uniform(size=300)
    found = {}
    for left, right, tables in pair_tables(X, weights, n_states):
        pairs = [(i, j, tables[a, b]) for a, i in enumerate(left) for b, j in enumerate(right)]
        found |= {(i, j): table for i, j, table in pairs if i != j}
    assert {tuple(sorted(pair)) for pair in found} == {(i, j) for j in range(7) for i in range(j)}
    for (i, j), table in found.items():
        expected = np.zeros((n_states[i], n_states[j]))
        observed = (X[:, i] >= 0) & (X[:, j] >= 0)
        np.add.at(expected, (X[observed, i], X[observed, j]), weights[observed])
        np.testing.assert_allclose(table, expected, atol=0.0 if is_whole else 1e-12)


@pytest.mark.parametrize("limit", [2**24, 100])
def test_contingency_tables_of_binary_columns(limit, seed, monkeypatch):
    """All tables are counted, also those of more rows than float32 numbers can count."""
    monkeypatch.setattr("skmrf.structure.screening.MAX_EXACT_FLOAT32", limit)
    X = np.random.default_rng(seed).integers(0, 2, (300, 5)).astype(STATE)
    [(_, _, tables)] = pair_tables(X, np.ones(300), np.full(5, 2))
    for i in range(5):
        for j in range(i):
            expected = np.histogram2d(X[:, i], X[:, j], 2)[0]
            np.testing.assert_array_equal(tables[i, j], expected)


def test_default_screen_limits_partners(monkeypatch):
    """The default screen limits the number of partners of each variable."""
    X = chain_rows(0, n_rows=4000)
    rows = Rows(X.astype(STATE), np.ones(len(X)), np.full(5, 2))
    assert len(PairwiseModel().candidates(rows)) == 10
    monkeypatch.setattr("skmrf.structure.screening.MAX_PARAMETERS", 3)
    assert len(PairwiseModel().candidates(rows)) > 4
    monkeypatch.setattr("skmrf.structure.screening.MAX_PARTNERS", 1)
    assert len(PairwiseModel().candidates(rows)) <= 2
    assert len(PairwiseModel(screen=0.05).candidates(rows)) > 4


def test_search_that_does_not_converge_warns(monkeypatch):
    monkeypatch.setattr(search, "MAX_ROUNDS", 1)
    with pytest.warns(
        ConvergenceWarning, match=r"limit of 1 rounds, .*\. 6 of the selected edges do not"
    ):
        found = learner(screen=None).fit(chain_rows(0))
    assert not found.converged_
    assert len(found.edges_) == 10


def test_rows_of_a_small_example():
    """Test smoothed frequencies, observed pairs and reweighting on a small example."""
    X = np.array([[0, 2], [1, -1], [0, 0], [-1, 2]], dtype=STATE)
    rows = Rows(X, np.array([1.0, 2.0, 3.0, 4.0]), np.array([2, 3]))
    np.testing.assert_allclose(rows.smoothed_frequencies(0), np.array([4.5, 2.5]) / 7)
    np.testing.assert_allclose(rows.smoothed_frequencies(1), np.array([3.5, 0.5, 5.5]) / 9.5)
    assert rows.count == 10
    np.testing.assert_array_equal(rows.count_observed(np.array([[0, 1]])), [4.0])
    fewer = rows.reweight(np.array([0, 2, 0, 1]))
    assert fewer.weights.tolist() == [4, 4]
    np.testing.assert_array_equal(fewer.X, X[[1, 3]])
    np.testing.assert_allclose(np.exp(rows.batch.log_weights), rows.weights)
    assert Rows(X, np.full(4, 3.0), rows.n_states).batch.log_weights is None
    start = PairwiseModel().independent(rows, np.array([[0, 1]]))
    assert not start.theta["pairs"].any()
    single = inference.marginals(start, method="exact").single
    np.testing.assert_allclose(single[1], rows.smoothed_frequencies(1))


def test_missing_entries_are_drawn_from_their_conditional(seed):
    energy, rows, rng = a_fit(seed, n_rows=3000)
    X = rows.X.copy()
    X[:, 1] = -1
    X[::2, 2] = -1
    drawn = Rows(X, rows.weights, rows.n_states).impute(energy, rng)
    np.testing.assert_array_equal(drawn.X[X >= 0], X[X >= 0])
    assert rows.impute(energy, rng) is rows
    states, p = joint_law(energy)
    shares = np.array([(x == drawn.X).all(axis=1).mean() for x in states])
    assert (np.abs(shares - p) < 5 * np.sqrt(p / 3000) + 1e-9).all()


def test_transfer_of_parameters_to_another_graph():
    energy, rows, _ = a_fit(0, n_rows=50)
    other = PairwiseModel().independent(rows, np.array([[0, 1], [0, 3], [2, 3]]))
    found = transfer_parameters(energy, other)
    old, new = energy.edge_parameters(), found.edge_parameters()
    np.testing.assert_array_equal(new[0], old[0])
    np.testing.assert_array_equal(new[1], 0.0)
    np.testing.assert_array_equal(new[2], old[2])
    np.testing.assert_array_equal(found.theta["unary"], energy.theta["unary"])


@pytest.mark.parametrize("parameters", [{}, {"statistic": "agreement", "unary": False}])
def test_degenerate_data(parameters):
    """Test one column, one row, equal rows, and two rows."""
    X = chain_rows(0)
    one = learner(**parameters).fit(X[:, :1])
    assert one.edges_.shape == (0, 2)
    assert one.coupling_.tolist() == [[0.0]]
    assert one.score(X[:, :1]) <= 0
    for rows in (X[:1], np.ones((50, 4))):
        found = learner(n_bootstraps=2, **parameters).fit(rows)
        assert found.edges_.shape == (0, 2)
        assert found.confidence_intervals_.shape == (0, 2)
        assert (found.p_values_ == 1).all()
        assert found.converged_
        assert found.score(rows) == pytest.approx(0.0)
        assert found.path_.edges.shape == (0, 2)
        assert list(found.graph_.nodes) == list(range(rows.shape[1]))
    two = learner(**parameters).fit(X[[0, np.argmax((X[0] != X).any(axis=1))]])
    assert np.isinf(two.strength_[two.strength_ > 0]).all()  # columns that vary are duplicates


@pytest.mark.parametrize("strategy", [Thresholding(5.0), RemovalWhileLearning(5.0)], ids=repr)
@pytest.mark.parametrize("name", ["exact", "pcd"])
def test_large_threshold_removes_all_edges(name, strategy):
    X = np.random.default_rng(0).integers(0, 2, size=(200, 4))
    found = learner(name, search=strategy, max_iter=5, n_bootstraps=2).fit(X)
    assert found.edges_.shape == (0, 2)
    assert found.coupling_.shape == (4, 4)
    assert (found.path_.removed > 0).all()
    assert found.energy_.n_variables == 4


def test_strings_and_frames():
    X = chain_rows(0)
    plain = learner().fit(X)
    names = np.array(["no", "yes"])[X]
    same_fit(learner().fit(names), plain)
    frame = pd.DataFrame(names, columns=list("abcde"))
    found = learner().fit(frame)
    same_fit(found, plain)
    assert list(found.graph_.nodes) == list("abcde")
    assert [sorted(e) for e in found.graph_.edges] == [
        ["a", "b"],
        ["b", "c"],
        ["c", "d"],
        ["d", "e"],
    ]
    assert found.feature_names_in_.tolist() == list("abcde")
    assert found.score(frame) == pytest.approx(plain.score(X))
    with pytest.raises(ValueError, match="feature names"):
        found.score(frame[list("bacde")])
    polars = learner().fit(pl.DataFrame(names, schema=list("abcde"), orient="row"))
    same_fit(polars, plain)
    assert list(polars.graph_.nodes) == list("abcde")
    incomplete = names.astype(object)
    incomplete[3, 2] = incomplete[5, 0] = None
    numbers = X.astype(float)
    numbers[3, 2] = numbers[5, 0] = np.nan
    same_fit(learner().fit(incomplete), learner().fit(numbers))


def test_attributes_of_the_graph():
    X = chain_rows(0)
    found = learner(n_bootstraps=2).fit(X)
    assert isinstance(found.graph_, nx.Graph)
    for i, j, attributes in found.graph_.edges(data=True):
        assert attributes == {
            "weight": found.coupling_[i, j],
            "sign": 1.0,
            "strength": found.strength_[i, j],
            "p_value": found.p_values_[i, j],
            "probability": found.edge_probability_[i, j],
            "frequency": found.edge_frequency_[i, j],
        }
    assert sorted(map(sorted, found.graph_.edges)) == CHAIN
    np.testing.assert_allclose(found.strength_, 2 * np.abs(found.coupling_))
    for name in ("coupling_", "strength_", "p_values_", "edge_probability_", "edge_frequency_"):
        value = getattr(found, name)
        np.testing.assert_array_equal(value, value.T)
    edges = tuple(found.edges_.T)
    assert (found.p_values_[edges] < 1e-6).all()
    others = found.coupling_ + np.eye(5) == 0
    assert (found.p_values_[others] > 1e-6).all()
    assert (np.diag(found.p_values_) == 1).all()
    inside = (found.confidence_intervals_.T - found.coupling_[edges]) * [[-1], [1]]
    assert (inside > 0).all()
    three = learner().fit(three_state_rows(0))
    attributes = three.graph_.edges[0, 1]
    assert attributes["weight"] == attributes["strength"] == three.strength_[0, 1]
    assert "sign" not in attributes


def test_sample_weight_equals_repetition(seed):
    X = chain_rows(seed, 800)
    weights = np.random.default_rng(seed + 1).integers(0, 4, len(X))
    weighted = learner().fit(X, sample_weight=weights)
    repeated = learner().fit(np.repeat(X, weights, axis=0))
    same_fit(weighted, repeated, atol=2e-5)
    np.testing.assert_allclose(
        weighted.confidence_intervals_, repeated.confidence_intervals_, atol=2e-5
    )
    absent = learner().fit(X[weights > 0], sample_weight=weights[weights > 0])
    same_fit(weighted, absent)
    other = learner().fit(X)
    assert np.abs(other.coupling_ - weighted.coupling_).max() > 1e-3
    varying = X.copy()
    varying[weights == 0, 0] = 1
    varying[weights > 0, 0] = 0
    assert 0 not in learner().fit(varying, sample_weight=weights).edges_


def test_given_categories():
    """Given categories that never occur hardly change the other results."""
    X = chain_rows(0)
    found = learner(categories=[[0, 1, 7]] * 5).fit(X)
    assert edges_of(found) == CHAIN
    assert found.energy_.n_states.tolist() == [3] * 5
    assert all(np.isfinite(t).all() for t in found.energy_.log_potentials)
    for limits in found.confidence_intervals_:
        assert (limits[1] - limits[0])[2].min() > 10  # category 7 never occurs
    single = inference.marginals(found.energy_, method="exact").single
    assert max(p[2] for p in single) < 1e-2
    same = learner(categories=[[0, 1]] * 5).fit(X)
    same_fit(same, learner().fit(X))
    with pytest.raises(
        ValueError, match=r"category 1, which was not seen .* categories are \[0, 7\]"
    ):
        learner(categories=[[0, 7]] * 5).fit(X)


def test_regression_with_certain_states_can_be_solved():
    """If all probabilities are 0 or 1, the ridge alone makes the information regular."""
    numbers = np.linspace(-2.0, 2.0, 30)
    X = np.column_stack([numbers, numbers > 0, np.arange(30) % 3])
    design = Design.from_rows(X, np.ones(30), np.array([0, 2, 3]))
    regression = Multinomial(design, 2, (0, 1))
    parameters = np.zeros(regression.ridge.shape)
    parameters[0] = 1e4, -3e3
    log_p = regression.objective(parameters)[0]
    assert np.isin(np.exp(log_p), (0.0, 1.0)).all()
    information = regression.derivatives(parameters, log_p)[1]
    assert np.isfinite(np.linalg.inv(information)).all()


@pytest.mark.parametrize("estimator", [MRFStructureLearner(), NNMRFDensity(), MRFImputer()])
@pytest.mark.parametrize("kind", ["dates", "zones", "durations", "periods", "objects"])
def test_dates_are_not_supported(kind, estimator):
    days = pd.date_range("2026-01-01", periods=60)
    columns = {
        "dates": days,
        "zones": days.tz_localize("UTC"),
        "durations": days - days[0],
        "periods": days.to_period("D"),
        "objects": np.array(days.date, dtype=object),
    }
    X = pd.DataFrame({"x": np.linspace(0.1, 2.0, 60) ** 2, "when": columns[kind]})
    message = "Column 'when' .*Dates and durations are not supported.*days since a date"
    with pytest.raises((TypeError, ValueError), match=message):
        estimator.fit(X)
