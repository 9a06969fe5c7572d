"""MRFStructureLearner as its users meet it, and what it is made of.

Data are drawn from models whose edges are far beyond doubt, and ``STRICT`` keeps the probability of
any false edge at 1e-6, so that exact graphs can be asked for.
"""

import warnings
from itertools import combinations, product

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import parallel_config
from scipy.stats import binom, kstest
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer
from zoo import random_tables

from skmrf import DiscreteMRF, MRFStructureLearner, inference
from skmrf._types import STATE, States
from skmrf.datasets import make_ising, make_non_decay_mrf
from skmrf.energies import FactorGraph, LogLinearEnergy, LogLinearForm, PairwiseEnergy
from skmrf.learners import LEARNERS, PCD, Exact
from skmrf.selection import Columns, Path, Rows, bootstrap, estimates, findings, information, rounds
from skmrf.selection.nodewise import fit_nodes
from skmrf.selection.path import MOST_RECORDS
from skmrf.selection.removal import EdgeRemoval

STRICT = 1e-6
RARE = 1e-5  # failure probability of a test of replicates
CHAIN = [[0, 1], [1, 2], [2, 3], [3, 4]]
slow = pytest.mark.slow

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def learner(name="exact", **parameters):
    return MRFStructureLearner(name, **({"level": STRICT, "random_state": 0} | parameters))


def chain_rows(seed, n_rows=1500, n_variables=5, coupling=0.5, field=0.0):
    model = make_ising("chain", n_variables=n_variables, coupling=coupling, field=field)
    return inference.sample(model, n_rows, random_state=seed + 500).astype(int)


def three_state_rows(seed, n_rows=1500):
    """Columns 0 and 1 agree often, as do 2 and 3."""
    rng = np.random.default_rng(seed + 700)
    X = rng.integers(0, 3, size=(n_rows, 4))
    for i, j in [(0, 1), (2, 3)]:
        same = rng.random(n_rows) < 0.5
        X[same, j] = X[same, i]
    return X


def holes(X, share, *seed):
    """Entries missing whatever they are; rows are drawn from other seeds."""
    X = X.astype(float)
    X[np.random.default_rng([77, *seed]).random(X.shape) < share] = np.nan
    return X


def edges_of(model):
    return model.edges_.tolist()


def same_fit(a, b, atol=0.0):
    assert edges_of(a) == edges_of(b)
    for x, y in zip(a.energy_.log_potentials, b.energy_.log_potentials, strict=True):
        np.testing.assert_allclose(x, y, atol=atol)
    for name in ("strength_", "p_values_", "edge_probability_"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=atol, rtol=1e-4)


# The paper ---------------------------------------------------------------------------------

D, BETA = 8, 0.6
TRUE = sorted([0, i] for i in range(1, 9)) + sorted([i, 9] for i in range(1, 9))
MIDDLE = list(combinations(range(1, 9), 2))
RATES = [  # rate, crossing, removal of (0, 9), removal of pairs of middle nodes
    (0.04, 90, 1028, 1),
    (0.06, 60, 685, 1),
    (0.08, 45, 513, 1),
    (0.1, 50, 592, 418),
    (0.15, 34, 394, 278),
    (0.2, 25, 295, 208),
    (0.3, 17, 196, 139),
    (0.5, 11, 117, 83),
    (1.0, 6, 57, 41),
]


def population():
    """All joint states of the paper's example and how often 5,000 rows are expected to show them"""
    model = make_non_decay_mrf(D, beta=BETA)
    states = np.array(list(product((0, 1), repeat=D + 2)), dtype=STATE)
    log_f = model.log_potential(states)
    return states, 5_000 * np.exp(log_f - np.logaddexp.reduce(log_f))


def papers_algorithm(rate, max_iter, **parameters):
    return MRFStructureLearner(
        "exact",
        statistic="agreement",
        unary=False,
        threshold=np.log(0.501 / 0.499),
        warmup=0,
        learning_rate=rate,
        max_iter=max_iter,
        screen=None,
        **parameters,
    )


@pytest.mark.parametrize(
    ("rate", "crossing", "removal", "middle"),
    [pytest.param(*r, marks=[] if r[0] in (0.1, 0.15, 1.0) else pytest.mark.slow) for r in RATES],
)
def test_the_papers_counterexample(rate, crossing, removal, middle):
    """Pair (0, 9) leads, is overtaken by an edge, and decays; population moments, no chance."""
    states, counts = population()
    model = papers_algorithm(rate, 1000 if rate == 0.15 else removal + 3)
    model.fit(states, sample_weight=counts)
    path = model.path_
    place = {tuple(e): k for k, e in enumerate(path.edges.tolist())}
    ahead = path.parameters[:, place[0, 9]] > path.parameters[:, place[0, 1]]
    assert path.iteration[np.argmin(ahead)] == crossing
    assert ahead[: crossing - 1].all()
    assert path.removed[place[0, 9]] == removal
    assert {path.removed[place[e]] for e in MIDDLE} == {middle}
    assert {path.removed[place[tuple(e)]] for e in TRUE} == {-1}
    assert sorted(edges_of(model)) == sorted(TRUE)
    assert model.n_iter_ == len(path.iteration) == (1000 if rate == 0.15 else removal + 3)
    after = path.parameters[removal - 1 :, place[0, 9]]
    np.testing.assert_array_equal(after, 0.0)
    assert path.parameters[removal - 2, place[0, 9]] >= np.log(0.501 / 0.499)
    assert (model.confidence_intervals_[:, 0] > 0).all()
    if rate == 0.15:
        couplings = model.coupling_[tuple(np.array(TRUE).T)]
        np.testing.assert_allclose(couplings, np.log(0.6 / 0.4) / 2, atol=1e-5)


def test_the_papers_algorithm_fails_with_small_steps():
    """At a rate of .03 the first step leaves every edge but (0, 9) below the threshold."""
    states, counts = population()
    model = papers_algorithm(0.03, 40).fit(states, sample_weight=counts)
    assert edges_of(model) == [[0, 9]]
    assert sorted(model.path_.removed) == [-1] + [1] * 44


def test_wald_finds_the_papers_graph_in_population_moments():
    states, counts = population()
    model = learner().fit(states, sample_weight=counts)
    assert sorted(edges_of(model)) == sorted(TRUE)
    np.testing.assert_allclose(
        model.coupling_[tuple(np.array(TRUE).T)], np.log(0.6 / 0.4) / 2, atol=1e-4
    )


@pytest.mark.parametrize("name", ["exact", "pseudo-likelihood"])
def test_recovers_the_papers_example(name, seed):
    """Edges are 11 standard errors from zero, false ones have probability 1e-5."""
    for k in range(3):
        rows = inference.sample(
            make_non_decay_mrf(D, beta=BETA), 5000, random_state=np.random.default_rng([seed, k])
        )
        model = learner(name, level=1e-5).fit(rows)
        assert sorted(edges_of(model)) == sorted(TRUE)
        assert model.converged_
        assert model.edge_probability_[tuple(np.array(TRUE).T)].min() > 0.99


@pytest.mark.slow
def test_default_recovers_the_papers_example(seed):
    """In 40 data sets; false edges are as rare as the level, 0.05, says."""
    missed = 0
    for k in range(40):
        rows = inference.sample(
            make_non_decay_mrf(D, beta=BETA), 5000, random_state=np.random.default_rng([seed, k])
        )
        found = MRFStructureLearner(random_state=k).fit(rows)
        assert {tuple(e) for e in TRUE} <= {tuple(e) for e in edges_of(found)}
        missed += sorted(edges_of(found)) != sorted(TRUE)
    assert missed <= binom.isf(RARE, 40, 0.05)


# Errors are as rare as promised ------------------------------------------------------------


def null_errors(seed, n_sets, **parameters):
    """Data sets of independent columns of which any edge is found."""
    wrong = 0
    for k in range(n_sets):
        X = np.random.default_rng([seed, k]).integers(0, 2, size=(300, 6))
        wrong += len(learner("pseudo-likelihood", **parameters).fit(X).edges_) > 0
    return wrong


@pytest.mark.parametrize(
    ("n_sets", "level"), [(40, 0.1), pytest.param(600, 0.05, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("control", ["holm", "fdr"])
def test_no_edges_between_independent_columns(n_sets, level, control, seed):
    """Of data without edges any edge is an error, of both kinds of control."""
    wrong = null_errors(seed, n_sets, level=level, control=control)
    assert wrong <= binom.isf(RARE, n_sets, level)


def test_errors_without_adjustment_are_many(seed, monkeypatch):
    """Negative control of the test above."""
    monkeypatch.setattr(rounds, "adjusted", lambda p, control: p)
    assert null_errors(seed, 40, level=0.1) > binom.isf(RARE, 40, 0.1)


@pytest.mark.parametrize("n_sets", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_false_discoveries(n_sets, seed):
    """Mean share of false edges among those found is at most the level; Holm's is smaller."""
    level = 0.2
    shares, n_false = [], {"fdr": 0, "holm": 0}
    for k in range(n_sets):
        X = chain_rows(1000 * (seed + 1) + k, 400, 6)
        for control in n_false:
            found = learner("pseudo-likelihood", control=control, level=level).fit(X)
            false = int((np.diff(found.edges_, axis=1) != 1).sum())
            n_false[control] += false
            if control == "fdr":
                shares.append(false / max(len(found.edges_), 1))
    error = max(np.std(shares), 0.05) / np.sqrt(n_sets)
    assert np.mean(shares) <= level + 5 * error
    assert n_false["fdr"] >= n_false["holm"]
    assert n_false["fdr"] > 0 or n_sets < 100


def binary_truth():
    return PairwiseEnergy(*_chain_couplings(), (-1, 1))


def _chain_couplings():
    J = np.zeros((4, 4))
    for i, value in enumerate((0.5, -0.4, 0.6)):
        J[i, i + 1] = J[i + 1, i] = value
    return J, np.array([0.3, -0.2, 0.0, 0.4])


def calibration(z):
    """z of shape (n_sets, n_numbers): squares are one on average, by their own error."""
    squares = np.mean(np.square(z), axis=1)
    error = squares.std(ddof=1) / np.sqrt(len(squares))
    assert abs(squares.mean() - 1) < 5 * error + 0.03, squares.mean()
    covered = (np.abs(z) < 1.959964).sum(axis=0)
    n = len(z)
    assert (covered >= binom.ppf(RARE / z.shape[1], n, 0.945)).all(), covered
    assert (covered <= binom.isf(RARE / z.shape[1], n, 0.955)).all(), covered


@pytest.mark.parametrize(
    ("n_sets", "missing"),
    [(30, 0.0), pytest.param(500, 0.0, marks=slow), pytest.param(250, 0.2, marks=slow)],
)
def test_intervals_of_couplings(n_sets, missing, seed, monkeypatch):
    """95% limits hold the true couplings, and p-values of pairs that are no edges are uniform."""
    monkeypatch.setattr(findings, "adjusted", lambda p, control: p)
    truth, where = _chain_couplings()[0], (np.array([0, 1, 2]), np.array([1, 2, 3]))
    z, p = [], []
    for k in range(n_sets):
        X = inference.sample(binary_truth(), 1000, random_state=np.random.default_rng([seed, 1, k]))
        X = holes(X, missing, seed, k) if missing else X
        model = learner(random_state=k).fit(X)
        assert edges_of(model) == CHAIN[:3]
        half = np.diff(model.confidence_intervals_, axis=1)[:, 0] / 2
        middle = model.confidence_intervals_.mean(axis=1)
        np.testing.assert_allclose(middle, model.coupling_[where])
        z.append(1.959964 * (middle - truth[where]) / half)
        p.extend(model.p_values_[[0, 0, 1], [2, 3, 3]])
    calibration(np.array(z))
    if not missing:
        assert kstest(p, "uniform").pvalue > RARE


@pytest.mark.parametrize("n_sets", [15, pytest.param(300, marks=slow)])
def test_intervals_of_tables(n_sets, seed):
    """Three states: 95% limits hold the true centred tables, entry by entry."""
    rng = np.random.default_rng(5)
    tables = random_tables([3] * 3, [(0,), (1,), (2,), (0, 1), (1, 2)], rng)
    truth = [t - t.mean(0) - t.mean(1, keepdims=True) + t.mean() for t in tables[3:]]
    model = FactorGraph([3] * 3, [(0,), (1,), (2,), (0, 1), (1, 2)], tables)
    z = []
    for k in range(n_sets):
        X = inference.sample(model, 2000, random_state=np.random.default_rng([seed, 2, k]))
        found = learner().fit(X)
        assert edges_of(found) == CHAIN[:2]
        numbers = []
        for table, limits, true in zip(
            found.coupling_, found.confidence_intervals_, truth, strict=True
        ):
            np.testing.assert_allclose(limits.mean(axis=0), table, atol=1e-12)
            np.testing.assert_allclose(table.sum(axis=0), 0.0, atol=1e-12)
            np.testing.assert_allclose(table.sum(axis=1), 0.0, atol=1e-12)
            numbers.append((1.959964 * (table - true) / (limits[1] - table)).ravel())
        np.testing.assert_allclose(
            found.strength_[[0, 1], [1, 2]], [np.linalg.norm(t) for t in found.coupling_]
        )
        z.append(np.concatenate(numbers))
    calibration(np.array(z))


# Standard errors ---------------------------------------------------------------------------


def a_fit(seed, n_states=(2, 3, 2, 3), n_rows=4000, edges=((0, 1), (1, 2), (2, 3), (0, 2))):
    """A log-linear energy and rows that it has learned from."""
    rng = np.random.default_rng([seed, 3])
    form = LogLinearForm.build(n_states, edges)
    theta = {k: rng.normal(0, 0.4, size=v.shape) for k, v in form.zeros().items()}
    energy = LogLinearEnergy(form, theta)
    X = inference.sample(energy, n_rows, random_state=rng)
    return energy, Rows(X.astype(STATE), np.ones(n_rows), np.array(n_states)), rng


def joint_law(energy):
    X = np.array(list(product(*map(range, energy.n_states))), dtype=STATE)
    log_f = energy.log_potential(X)
    return X, np.exp(log_f - np.logaddexp.reduce(log_f))


def mean_statistics(energy):
    X, p = joint_law(energy)
    moments = energy.moments(States(X, None, np.log(p)))
    return np.concatenate([moments["unary"], moments["pairs"]])


@pytest.mark.parametrize("draws", [False, True])
def test_information_is_the_slope_of_the_moments(draws, seed, monkeypatch):
    """By enumeration, and from Gibbs chains."""
    energy, rows, rng = a_fit(seed)
    slopes, h = [], 1e-5
    for name, values in energy.theta.items():
        for k in range(len(values)):
            ends = []
            for step in (h, -h):
                moved = values.copy()
                moved[k] += step
                ends.append(mean_statistics(energy.with_theta(dict(energy.theta, **{name: moved}))))
            slopes.append((ends[0] - ends[1]) / (2 * h))
    if draws:
        monkeypatch.setattr(information, "ENUMERABLE", 1)
    found = information.information(energy, rows, rng)
    # a covariance of 20,000 draws and more, hardly dependent: 5 sigma of numbers at most 1
    atol = 5 * 1.5 / np.sqrt(information.FEWEST_DRAWS) if draws else 1e-8
    np.testing.assert_allclose(found, np.array(slopes), atol=atol)
    covariances = information.parameter_covariances(energy, rows, rng)
    inverse = np.linalg.inv(np.array(slopes)) / rows.count
    start = energy.form.unary_start[-1] + energy.form.pair_start
    for a, b, c in zip(start[:-1], start[1:], covariances, strict=True):
        np.testing.assert_allclose(
            c, inverse[a:b, a:b], atol=0.15 * inverse[a, a] if draws else 1e-9
        )


def test_covariance_of_draws_is_widened_for_their_number(monkeypatch):
    """By n / (n - k - 1), as the mean of the inverse of a covariance of n draws is too large."""
    energy, rows, rng = a_fit(0, (2, 2, 2), 500, ((0, 1), (1, 2), (0, 2)))
    parts = [rows.X[:100], rows.X[100:200]]
    monkeypatch.setattr(information, "ENUMERABLE", 1)
    monkeypatch.setattr(information, "CHAINS", 100)
    monkeypatch.setattr(information, "FEWEST_DRAWS", 200)
    monkeypatch.setattr(information, "_draws", lambda *_: iter(parts))
    T = information.statistics(energy.form, rows.X[:200])
    np.testing.assert_allclose(
        information.information(energy, rows, rng),
        np.cov(T.T, bias=True) * 200 / (200 - 6 - 1),
        atol=1e-12,
    )


def test_both_routes_to_standard_errors_agree(seed, monkeypatch):
    """Those of the likelihood and of each variable's own conditional likelihood."""
    X = inference.sample(binary_truth(), 4000, random_state=np.random.default_rng([seed, 4]))
    by_model = learner().fit(X)
    monkeypatch.setattr("skmrf.selection.assessment.MOST_STATISTICS", 3)
    by_nodes = learner().fit(X)
    assert edges_of(by_model) == edges_of(by_nodes) == CHAIN[:3]
    ratio = np.diff(by_nodes.confidence_intervals_) / np.diff(by_model.confidence_intervals_)
    assert (ratio > 0.98).all()  # the conditional ones are an upper bound, and nearly as good
    assert (ratio < 1.25).all()
    assert (ratio != 1).all()


def test_weights_count_as_rows_in_standard_errors():
    X = chain_rows(0)
    once, four = learner().fit(X), learner().fit(X, sample_weight=np.full(len(X), 4.0))
    ratio = np.diff(once.confidence_intervals_) / np.diff(four.confidence_intervals_)
    np.testing.assert_allclose(ratio, 2.0, rtol=1e-4)


# What data may look like -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["exact", "pseudo-likelihood", pytest.param("pcd", marks=slow)])
def test_missing_entries(name, seed):
    X = chain_rows(seed, 3000)
    full, found = learner(name).fit(X), learner(name).fit(holes(X, 0.2, seed))
    assert edges_of(found) == CHAIN
    assert found.converged_
    ratio = np.diff(found.confidence_intervals_) / np.diff(full.confidence_intervals_)
    np.testing.assert_allclose(ratio, 1 / 0.8, rtol=0.1)  # pairs are seen 0.64 times as often
    error = np.diff(found.confidence_intervals_)[:, 0] / (2 * 1.96)
    assert (np.abs(found.coupling_[tuple(np.array(CHAIN).T)] - 0.5) < 5 * error).all()
    blank = np.vstack([holes(X, 0.2, seed), np.full((3, 5), np.nan)])
    assert edges_of(learner(name).fit(blank)) == CHAIN


def test_pairs_that_were_never_seen_together():
    X = chain_rows(0, 2000, 3).astype(float)
    X[:1000, 0] = X[1000:, 1] = np.nan
    found = learner().fit(X)
    assert edges_of(found) == [[1, 2]]
    assert found.p_values_[0, 1] > 0.01


def test_more_columns_than_rows():
    X = np.random.default_rng(0).integers(0, 2, size=(30, 60))
    X[:, 7] = X[:, 3]
    X[0, 7] = 1 - X[0, 7]
    found = learner("pseudo-likelihood", level=1e-3).fit(X)
    assert edges_of(found) == [[3, 7]]
    assert found.n_candidates_ < 60 * 59 / 2
    assert found.p_values_.shape == (60, 60)
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
    alone = learner().fit(X[:, [1, 2, 4, 5]])
    np.testing.assert_allclose(found.coupling_[1, 2], alone.coupling_[0, 1], rtol=1e-6)


def test_columns_that_repeat_others():
    """A copy and a negated copy: infinite couplings, and a model that knows what is impossible."""
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


def test_repeats_of_three_states_and_gaps():
    X = three_state_rows(0).astype(float)
    X[::9, 0] = np.nan
    X = np.column_stack([X, (X[:, 0] + 1) % 3])  # a renaming, missing in the same rows
    found = learner().fit(X)
    assert edges_of(found) == [[0, 1], [0, 4], [2, 3]]
    expected = np.full((3, 3), -np.inf)
    expected[[0, 1, 2], [1, 2, 0]] = 0
    np.testing.assert_array_equal(found.coupling_[1], expected)
    np.testing.assert_array_equal(found.confidence_intervals_[1], [expected, expected])
    drawn = inference.sample(found.energy_, 200, random_state=0)
    np.testing.assert_array_equal(drawn[:, 4], (drawn[:, 0] + 1) % 3)


def test_columns_relabelled():
    X = np.array([[0, 1, 2, 0, -1], [0, 0, 1, 0, 2], [1, 1, 2, 0, 2], [-1, 0, 1, -1, 0]])
    found = Columns.of(np.column_stack([X, X[:, 0], 1 - X[:, 1]]).astype(STATE))
    assert found.kept.tolist() == [0, 1, 4]
    assert found.copies == [(1, 2), (0, 5), (1, 6)]


@pytest.mark.parametrize("parameters", [{}, {"statistic": "agreement", "unary": False}])
def test_nothing_to_learn_from(parameters):
    """One column, one row, rows all the same, two rows."""
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
    two = learner(**parameters).fit(X[[0, np.argmax((X != X[0]).any(axis=1))]])
    assert np.isinf(two.strength_[two.strength_ > 0]).all()  # what varies repeats


@pytest.mark.parametrize("warmup", [None, 0])
@pytest.mark.parametrize("name", ["exact", "pcd"])
def test_no_edge_is_left(name, warmup):
    X = np.random.default_rng(0).integers(0, 2, size=(200, 4))
    found = learner(name, threshold=5.0, warmup=warmup, max_iter=5, n_bootstraps=2).fit(X)
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
    gaps = names.astype(object)
    gaps[3, 2] = gaps[5, 0] = None
    numbers = X.astype(float)
    numbers[3, 2] = numbers[5, 0] = np.nan
    same_fit(learner().fit(gaps), learner().fit(numbers))


def test_attributes_of_the_graph():
    X = chain_rows(0)
    found = learner(n_bootstraps=2).fit(X)
    assert isinstance(found.graph_, nx.Graph)
    for i, j, facts in found.graph_.edges(data=True):
        assert facts == {
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
    facts = three.graph_.edges[0, 1]
    assert facts["weight"] == facts["strength"] == three.strength_[0, 1]
    assert facts["sign"] == 1


def test_sample_weight_is_repetition(seed):
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
    """Categories that never occur; what else is learned is hardly changed by them."""
    X = chain_rows(0)
    found = learner(categories=[[0, 1, 7]] * 5).fit(X)
    assert edges_of(found) == CHAIN
    assert found.energy_.n_states.tolist() == [3] * 5
    assert all(np.isfinite(t).all() for t in found.energy_.log_potentials)
    for limits in found.confidence_intervals_:
        assert (limits[1] - limits[0])[2].min() > 10  # the data say nothing of it
    single = inference.marginals(found.energy_, method="exact").single
    assert max(p[2] for p in single) < 1e-2
    same = learner(categories=[[0, 1]] * 5).fit(X)
    same_fit(same, learner().fit(X))
    with pytest.raises(ValueError, match=r"category 1, which was not seen .* known are \[0, 7\]"):
        learner(categories=[[0, 7]] * 5).fit(X)
