"""MRFStructureLearner as its users meet it, and what it is made of.

Data are drawn from models whose edges are far beyond doubt, and ``STRICT`` keeps the probability of
any false edge at 1e-6, so that exact graphs can be asked for.
"""

import pickle
from dataclasses import replace
from itertools import combinations, permutations, product
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import parallel_config
from scipy.stats import binom
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
from skmrf.selection import (
    Columns,
    Path,
    Rows,
    assessment,
    bootstrap,
    estimates,
    findings,
    information,
    penalised,
    rounds,
)
from skmrf.selection.columns import coincidence, relabelled
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
    monkeypatch.setattr(rounds, "adjusted", lambda p, _: p)
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
    """95% limits hold the true couplings; p-values of pairs that are no edges hold where small."""
    monkeypatch.setattr(findings, "adjusted", lambda p, _: p)
    truth, where = _chain_couplings()[0], (np.array([0, 1, 2]), np.array([1, 2, 3]))
    z, p = [], []
    for k in range(n_sets):
        X = inference.sample(
            binary_truth(),
            3000 if missing else 1000,
            random_state=np.random.default_rng([seed, 1, k]),
        )
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
        # as likely as they say, or a little less: their statistics are means of two that differ
        for level in (0.01, 0.05, 0.1, 0.2):
            rejected = (np.reshape(p, (-1, 3)) <= level).sum(axis=0)
            assert (rejected <= binom.isf(RARE, n_sets, level)).all(), (level, rejected)
            assert (rejected >= binom.ppf(RARE, n_sets, 0.7 * level)).all(), (level, rejected)


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
    known = rows.count * np.array(slopes)
    inverse = np.linalg.inv(known + 0.01 * np.eye(len(known)))
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


@pytest.mark.parametrize(
    "name", ["exact", *(pytest.param(n, marks=slow) for n in ("pseudo-likelihood", "pcd"))]
)
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
    named = learner(categories=[[2, 3], *[[0, 1]] * 2, [3, 4], *[[0, 1]] * 2]).fit(X)
    single = inference.marginals(named.energy_, method="exact").single
    np.testing.assert_allclose(single[0], np.array([0.5, 1500.5]) / 1501)
    np.testing.assert_allclose(single[3], np.array([1500.5, 0.5]) / 1501)
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
    X = np.column_stack([X, X[:, 0], 1 - X[:, 1]]).astype(STATE)
    found = Columns.of(X, np.full(4, 20.0))
    assert found.kept.tolist() == [0, 1, 4]
    assert found.copies == [(1, 2), (0, 5), (1, 6)]
    assert max(found.copied_p) < 1e-9
    assert Columns.of(X, np.ones(4)).copies == []


@pytest.mark.parametrize(
    "codes", [[0, 1, 1, 1, 1], [0, 1, 0, 1], [0, 1, 2, 2, -1], [0, 1, 1, 0, 2]]
)
def test_probability_of_coincidences(codes):
    """Of all orders of a column, those that tell the same rows apart."""
    codes = np.array(codes)
    seen = codes[codes >= 0]
    orders = np.array(list(permutations(seen)))
    same = [np.array_equal(relabelled(o), relabelled(seen)) for o in orders]
    assert coincidence(codes, np.ones(len(codes))) == pytest.approx(np.mean(same))


@pytest.mark.parametrize("n_rows", [200, 3])
def test_coincidences_are_no_edges(n_rows, seed):
    """Columns with a single rare state in the same row, or of hardly any rows."""
    rng = np.random.default_rng(seed)
    wrong = 0
    for _ in range(20):
        X = (rng.random((n_rows, 25)) < (0.01 if n_rows > 3 else 0.5)).astype(int)
        X[0, :2], X[1:, :2] = 1, 0
        found = MRFStructureLearner("pseudo-likelihood", random_state=0).fit(X)
        assert np.isfinite(found.coupling_).all()
        assert found.p_values_[0, 1] > 0.05
        wrong += len(found.edges_) > 0
    assert wrong <= binom.isf(RARE, 20, 0.05)


def test_copies_where_states_must_agree():
    """A renamed column agrees with the original nowhere, so an edge can tell something of it."""
    X = np.array([[0, 1], [1, 0], [2, 1], [1, 0]])
    X = np.column_stack([X, (X[:, 0] + 1) % 3, X[:, 0], 1 - X[:, 1]]).astype(STATE)
    weights = np.full(4, 20.0)
    assert Columns.of(X, weights, same_states=True).copies == [(0, 3), (1, 4)]
    assert Columns.of(X, weights).copies == [(0, 2), (0, 3), (1, 4)]
    rows = three_state_rows(0)
    rows = np.column_stack([rows, (rows[:, 0] + 1) % 3])
    found = learner("pseudo-likelihood", statistic="agreement").fit(rows)
    assert np.isfinite(found.coupling_).all()


def test_score_tests_that_take_too_long(monkeypatch):
    X = chain_rows(0)
    monkeypatch.setattr(assessment, "MOST_WORK", 1.0)
    with pytest.warns(UserWarning, match="Score tests of columns of 2 categories and more would"):
        found = learner(screen=0.001).fit(X)
    missing = ~np.isin(np.arange(25).reshape(5, 5), [5 * i + j for i, j in CHAIN])
    assert (found.p_values_[np.triu(missing, 1)] == 1.0).all()


@pytest.mark.parametrize(("most", "n_tested"), [(1e6, 5), (1e5, 4), (1e4, 0), (1.0, 0)])
def test_columns_left_out_of_score_tests(most, n_tested, monkeypatch, recwarn):
    """Those of most states, or all where it would be many."""
    monkeypatch.setattr(assessment, "MOST_WORK", most)
    form = LogLinearForm.build((2, 2, 2, 5, 9), np.zeros((0, 2), int))
    tested = assessment._affordable(form, 100)
    assert tested.tolist() == [k < n_tested for k in range(5)]
    told = [str(w.message) for w in recwarn]
    assert len(told) == (n_tested < 5)
    assert all(f"of {9 if n_tested else 2} categories and more would take" in m for m in told)


def test_weights_that_are_shares_are_told(seed):
    X = chain_rows(seed)
    with pytest.warns(UserWarning, match="sample_weight sums to 1, .* how often a row counts"):
        found = learner("pseudo-likelihood").fit(X, sample_weight=np.full(len(X), 1 / len(X)))
    assert len(found.edges_) == 0


def test_a_column_that_names_the_rows(seed):
    """It costs itself its edges, and no other column."""
    X = chain_rows(seed, n_rows=500, n_variables=6)
    whole = learner("pseudo-likelihood").fit(X)
    with pytest.warns(UserWarning, match="columns of 500 categories and more.*drop columns that"):
        found = learner("pseudo-likelihood").fit(np.column_stack([X, np.arange(500)]))
    assert edges_of(found) == edges_of(whole)
    assert (found.p_values_[6, :6] == 1.0).all()
    assert 0.5 < (found.p_values_[:6, :6] < 1.0).sum() / (whole.p_values_ < 1.0).sum() < 2.0


def test_the_screen_keeps_the_best_partners(monkeypatch):
    """Without a level of its own the screen leaves every variable its 64 best partners."""
    X = chain_rows(0, n_rows=4000)
    rows = Rows(X.astype(STATE), np.ones(len(X)), np.full(5, 2))
    criteria = rounds.Criteria(
        "table", True, "auto", "wald", "holm", 0.05, None, True, None, max_bytes=1e9
    )
    assert len(rounds.candidates(rows, criteria)) == 10
    monkeypatch.setattr("skmrf.selection.rounds.MOST_CANDIDATES", 3)
    assert len(rounds.candidates(rows, criteria)) > 4
    monkeypatch.setattr("skmrf.selection.rounds.MOST_PARTNERS", 1)
    assert len(rounds.candidates(rows, criteria)) <= 2
    assert len(rounds.candidates(rows, replace(criteria, screen=0.05))) > 4


def test_a_selection_that_is_ended_before_it_settles_says_so(monkeypatch):
    monkeypatch.setattr(rounds, "MAX_ROUNDS", 1)
    with pytest.warns(
        ConvergenceWarning, match=r"ended after 1 rounds, .*; 6 of its edges are not"
    ):
        found = learner(screen=None).fit(chain_rows(0))
    assert not found.converged_
    assert len(found.edges_) == 10


def test_rows_by_hand():
    """Frequencies count every state half once more, and gaps not at all; independent columns."""
    X = np.array([[0, 2], [1, -1], [0, 0], [-1, 2]], dtype=STATE)
    rows = Rows(X, np.array([1.0, 2.0, 3.0, 4.0]), np.array([2, 3]))
    np.testing.assert_allclose(rows.frequencies(0), np.array([4.5, 2.5]) / 7)
    np.testing.assert_allclose(rows.frequencies(1), np.array([3.5, 0.5, 5.5]) / 9.5)
    assert rows.count == 10
    np.testing.assert_array_equal(rows.seen(np.array([[0, 1]])), [4.0])
    fewer = rows.take(np.array([0, 2, 0, 1]))
    assert fewer.weights.tolist() == [4, 4]
    np.testing.assert_array_equal(fewer.X, X[[1, 3]])
    np.testing.assert_allclose(np.exp(rows.batch.log_weights), rows.weights)
    assert Rows(X, np.full(4, 3.0), rows.n_states).batch.log_weights is None
    start = estimates.independent(rows, np.array([[0, 1]]), "table", True)
    assert not start.theta["pairs"].any()
    single = inference.marginals(start, method="exact").single
    np.testing.assert_allclose(single[1], rows.frequencies(1))


def test_gaps_are_drawn_given_the_rest(seed):
    energy, rows, rng = a_fit(seed, n_rows=3000)
    X = rows.X.copy()
    X[:, 1] = -1
    X[::2, 2] = -1
    drawn = Rows(X, rows.weights, rows.n_states).completed(energy, rng)
    np.testing.assert_array_equal(drawn.X[X >= 0], X[X >= 0])
    assert rows.completed(energy, rng) is rows
    states, p = joint_law(energy)
    shares = np.array([(x == drawn.X).all(axis=1).mean() for x in states])
    assert (np.abs(shares - p) < 5 * np.sqrt(p / 3000) + 1e-9).all()


def test_parameters_are_carried_to_another_graph():
    energy, rows, _ = a_fit(0, n_rows=50)
    other = estimates.independent(rows, np.array([[0, 1], [0, 3], [2, 3]]), "table", True)
    found = rounds.carried(energy, other)
    old, new = energy.edge_parameters(), found.edge_parameters()
    np.testing.assert_array_equal(new[0], old[0])
    np.testing.assert_array_equal(new[1], 0.0)
    np.testing.assert_array_equal(new[2], old[2])
    np.testing.assert_array_equal(found.theta["unary"], energy.theta["unary"])


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
    two = learner(**parameters).fit(X[[0, np.argmax((X[0] != X).any(axis=1))]])
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
    assert "sign" not in facts


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


# Candidates, rounds, thresholds ------------------------------------------------------------


def hidden_pair(seed, n_rows=4000):
    """Columns 0 and 1 are independent, but not given column 2."""
    J = np.zeros((3, 3))
    J[0, 2] = J[2, 0] = J[1, 2] = J[2, 1] = 0.6
    J[0, 1] = J[1, 0] = -np.arctanh(np.tanh(0.6) ** 2)
    rng = np.random.default_rng([seed, 6])
    X = inference.sample(PairwiseEnergy(J, np.zeros(3)), n_rows, random_state=rng).astype(int)
    while abs(np.corrcoef(X[:, 0], X[:, 1])[0, 1]) * np.sqrt(n_rows) > 1:  # no screen finds it
        X = inference.sample(PairwiseEnergy(J, np.zeros(3)), n_rows, random_state=rng).astype(int)
    return X


def test_pairs_that_the_screen_misses_enter(seed):
    X = hidden_pair(seed)
    found = learner(screen=0.05).fit(X)
    assert found.n_candidates_ == 2
    assert edges_of(found) == [[0, 1], [0, 2], [1, 2]]
    assert found.rounds_ == [
        {"n_edges": 2, "left": 0, "entered": 1},
        {"n_edges": 3, "left": 0, "entered": 0},
    ]
    assert found.path_.edges.tolist() == [[0, 2], [1, 2], [0, 1]]
    assert found.path_.removed.tolist() == [-1, -1, -1]
    assert found.path_.parameters[0, 2] == 0
    assert found.converged_
    for parameters in ({"re_entry": False}, {"threshold": 0.1}):
        without = learner(screen=0.05, **parameters).fit(X)
        assert edges_of(without) == [[0, 2], [1, 2]]
        assert len(without.rounds_) == 1
    assert without.p_values_[0, 1] < 1e-6  # the test of the missing pair says so
    everything = learner(screen=None).fit(X)
    assert everything.n_candidates_ == 3
    same_fit(everything, found, atol=1e-4)


def test_all_pairs_leave_and_the_truth_comes_back(seed):
    """Of two columns that nearly repeat each other, one edge too many leaves."""
    X = chain_rows(seed, 3000, 4, coupling=0.6)
    found = learner(screen=1.0).fit(X)
    assert found.n_candidates_ == 6
    assert edges_of(found) == CHAIN[:3]
    assert found.rounds_[0] == {"n_edges": 6, "left": 3, "entered": 0}
    assert sum(r["entered"] - r["left"] for r in found.rounds_) + 6 == 3
    assert (found.path_.removed > 0).sum() == 3


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "screen", "expected"),
    [
        (2000, 6, "auto", 15),  # all
        (2000, 6, None, 15),
        (2000, 6, 1e-140, 5),  # neighbours only: |r| = 0.66, then 0.44
        (79, 6, "auto", 3),  # 3 pairs a column at most, by independence
        (100, 6, "auto", 15),
        (99, 6, "auto", None),  # one row too few for five pairs a column
    ],
)
def test_candidates(n_rows, n_columns, screen, expected):
    X = chain_rows(0, n_rows, n_columns, coupling=0.8)
    rows = Rows(X.astype(STATE), np.ones(n_rows), np.full(n_columns, 2))
    criteria = learner(screen=screen)._criteria()
    found = rounds.candidates(rows, criteria)
    if n_rows < 100:
        assert len(found) < 15
        assert np.bincount(found.ravel()).max() <= n_rows // 20
    else:
        assert len(found) == expected
    assert (found[:, 0] < found[:, 1]).all()


def test_candidates_of_many_parameters(monkeypatch):
    monkeypatch.setattr(rounds, "MOST_CANDIDATES", 4 * 6)
    rng = np.random.default_rng(0)
    rows = Rows(rng.integers(0, 3, (5000, 4)).astype(STATE), np.ones(5000), np.full(4, 3))
    assert len(rounds.candidates(rows, learner()._criteria())) == 6
    monkeypatch.setattr(rounds, "MOST_CANDIDATES", 4 * 6 - 1)
    assert len(rounds.candidates(rows, learner()._criteria())) < 6
    assert len(rounds.candidates(rows, learner(statistic="agreement")._criteria())) == 6


def test_threshold_after_learning(seed):
    X = chain_rows(seed, 3000)
    low, high = (learner(threshold=t).fit(X) for t in (0.0, 0.5))
    assert len(low.edges_) == 10
    assert edges_of(high) == CHAIN
    assert high.rounds_[0] == {"n_edges": 10, "left": 6, "entered": 0}
    assert (high.strength_[tuple(high.edges_.T)] >= 0.5).all()
    wald = learner().fit(X)
    np.testing.assert_allclose(high.coupling_, wald.coupling_, atol=1e-5)
    left = {
        tuple(e)
        for e, t in zip(high.path_.edges.tolist(), high.path_.removed, strict=True)
        if t > 0
    }
    assert left == {tuple(e) for e in edges_of(low)} - {tuple(e) for e in CHAIN}


def test_warmup(seed):
    """No edge leaves before the warm-up is over, and then only weak ones."""
    X = chain_rows(seed, 3000)
    parameters = {"threshold": 0.4, "learning_rate": 0.5, "max_iter": 160}
    found = learner(warmup=150, **parameters).fit(X)
    assert edges_of(found) == CHAIN
    assert set(found.path_.removed) == {-1, 151}
    early = learner(warmup=0, **parameters).fit(X)
    assert early.path_.removed.min() == 1
    assert early.n_iter_ == 160
    with pytest.raises(ValueError, match=r'L-BFGS has none of; use optimizer="sgd", or warmup='):
        learner(warmup=0, optimizer="lbfgs", threshold=0.1).fit(X)


def test_rounds_come_to_an_end(monkeypatch):
    """And what is not settled then has not converged."""
    X = chain_rows(0)
    monkeypatch.setattr(rounds, "MAX_ROUNDS", 1)
    found = learner().fit(X)
    assert len(found.rounds_) == 1
    assert not found.converged_
    assert learner(threshold=0.0).fit(X).converged_


def test_edge_removal():
    """By hand: the norm of a table counts, for good, after the warm-up."""
    form = LogLinearForm.build((2, 2, 3), [(0, 1), (0, 2), (1, 2)])
    path = Path()
    path.now = 7
    path.begin()
    removal = EdgeRemoval(0.5, 1, path)
    weak = LogLinearEnergy(form, {"unary": np.zeros(4), "pairs": np.full(5, 0.1)})
    assert removal.update(weak, None, None, {}) is weak
    theta = {"unary": np.ones(4), "pairs": np.array([-0.51, 0.4, 0.3, 0.3, -0.3])}
    left = removal.update(weak.with_theta(theta), None, None, {})
    assert left.alive.tolist() == [True, True, False]
    np.testing.assert_array_equal(left.theta["pairs"], [-0.51, 0.4, 0.3, 0, 0])
    np.testing.assert_array_equal(left.theta["unary"], 1)
    back = removal.update(left.with_theta(theta), None, None, {})
    np.testing.assert_array_equal(back.theta["pairs"], left.theta["pairs"])
    assert path.removed == {(1, 2): 9}
    nothing_dead = weak.with_theta({"unary": theta["unary"], "pairs": np.ones(5)})
    assert removal.update(nothing_dead, None, None, {}) is nothing_dead


@pytest.mark.parametrize("q", [2, 3])
def test_path_by_hand(q):
    form = LogLinearForm.build((q,) * 3, [(0, 1), (1, 2)])
    energy = LogLinearEnergy(form, form.zeros())
    free = (q - 1) ** 2
    path = Path()
    path.begin()
    for t in (1, 2, 3):
        pairs = np.r_[np.full(free, -t), np.full(free, 0.5)].astype(float)
        path.record(t, energy.with_theta({"unary": energy.theta["unary"], "pairs": pairs}))
    path.remove(np.array([[0, 1]]))
    path.begin()
    other = LogLinearForm.build((q,) * 3, [(0, 2), (1, 2)])
    ones = LogLinearEnergy(other, {"unary": energy.theta["unary"], "pairs": np.ones(2 * free)})
    path.record(1, ones)
    path.enter(np.array([[0, 2]]))
    path.remove(np.array([[1, 2]]), 1)
    found = path.summary(np.array([4, 6, 9]))
    assert found["edges"].tolist() == [[4, 6], [6, 9], [4, 9]]
    assert found["iteration"].tolist() == [1, 2, 3, 4]
    first = [-1, -2, -3, 0] if q == 2 else [2, 4, 6, 0]
    half = np.sqrt(free) / 2
    expected = np.transpose([first, [half, half, half, 2 * half], [0, 0, 0, 2 * half]])
    np.testing.assert_allclose(found["parameters"], expected)
    assert found["removed"].tolist() == [3, 4, -1]
    path.enter(np.array([[0, 1]]))
    assert path.summary(np.arange(3))["removed"].tolist() == [-1, 4, -1]


def test_long_paths_are_thinned():
    form = LogLinearForm.build((2, 2), [(0, 1)])
    zero = LogLinearEnergy(form, form.zeros())
    path = Path()
    path.begin()
    for t in range(1, 9001):
        path.record(t, zero.with_theta({"unary": np.zeros(2), "pairs": np.array([float(t)])}))
    found = path.summary(np.arange(2))
    n = len(found["iteration"])
    assert MOST_RECORDS / 2 <= n <= MOST_RECORDS
    assert set(np.diff(found["iteration"])) == {8}
    np.testing.assert_array_equal(found["parameters"][:, 0], found["iteration"])


# Penalties ---------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", ["l1", "group-l1"])
@pytest.mark.parametrize("alpha", [0.08, "ebic"])
@pytest.mark.parametrize("name", ["exact", "pseudo-likelihood"])
def test_penalties(penalty, alpha, name):
    """Edges that stay are learned again without the penalty."""
    for X, edges in ((chain_rows(0, 3000), CHAIN), (three_state_rows(0), [[0, 1], [2, 3]])):
        found = learner(name, penalty=penalty, alpha=alpha).fit(X)
        assert edges_of(found) == edges
        assert found.alpha_ == alpha or alpha == "ebic"
        free = learner(name).fit(X)
        assert edges_of(free) == edges
        np.testing.assert_allclose(found.strength_, free.strength_, atol=1e-4)
        assert found.rounds_ == [{"n_edges": len(edges), "left": 0, "entered": 0}]
        assert found.converged_
        removed = found.path_["removed"]
        assert found.path_["edges"][removed < 0].tolist() == edges
        assert (removed[removed >= 0] <= found.path_["iteration"].max()).all()


def test_strength_of_penalties():
    """A likelihood has one term for an edge, a pseudo-likelihood two."""
    X = chain_rows(0, 1000)
    by_pairs = learner("pseudo-likelihood", penalty="l1").fit(X).alpha_
    assert learner("exact", penalty="l1").fit(X).alpha_ == pytest.approx(by_pairs / 2)
    # gradients of an edge at independence: of an agreement, about half a correlation
    assert len(learner(penalty="l1", alpha=1.0).fit(X).edges_) == 0
    assert len(learner(penalty="l1", alpha=1e-6).fit(X).edges_) == 10


def test_cross_validated_penalty(seed):
    """Leaves all true edges and, as is known of it, often false ones."""
    X = chain_rows(seed, 600)
    found = learner("pseudo-likelihood", penalty="group-l1", alpha="cv", random_state=seed).fit(X)
    assert {tuple(e) for e in CHAIN} <= {tuple(e) for e in edges_of(found)}
    ebic = learner("pseudo-likelihood", penalty="group-l1").fit(X)
    assert found.alpha_ <= ebic.alpha_
    few = learner("pseudo-likelihood", penalty="l1", alpha="cv").fit(X[:3])
    assert np.isfinite(few.strength_[np.isfinite(few.strength_)]).all()


def test_nodewise(seed):
    X = chain_rows(seed, 3000)
    found = learner("pcd", method="nodewise").fit(X)
    same_fit(found, learner("pseudo-likelihood", penalty="group-l1").fit(X))
    assert edges_of(found) == CHAIN
    gaps = learner(method="nodewise", max_iter=30).fit(holes(X, 0.1, seed))
    assert {tuple(e) for e in CHAIN} <= {tuple(e) for e in edges_of(gaps)}


def test_criterion_by_hand():
    """EBIC: conditional likelihoods, parameters, edges."""
    X = chain_rows(0, 500, 3)
    rows = Rows(X.astype(STATE), np.full(500, 2.0), np.full(3, 2))
    form = LogLinearForm.build((2,) * 3, [(0, 1), (0, 2)])
    energy = LogLinearEnergy(form, {"unary": np.zeros(3), "pairs": np.array([1.0, 0.0])})
    fits = fit_nodes(rows.X, rows.weights, LogLinearForm.build((2,) * 3, [(0, 1)]))
    expected = -2 * fits.log_likelihood.sum() + 5 * np.log(1000) + 2 * 0.5 * 2 * np.log(2)
    assert penalised.ebic(rows, energy) == pytest.approx(expected)


def test_penalty_of_least_criterion(monkeypatch):
    """The path of 20 is made finer about the best of it."""
    X = chain_rows(0)
    rows = Rows(X.astype(STATE), np.ones(len(X)), np.full(5, 2))
    start = estimates.independent(rows, np.array(list(combinations(range(5), 2))), "table", True)
    judged = []

    def distance(_rows, energy, *_):
        judged.append(abs(np.linalg.norm(energy.strengths()) - 0.7))
        return judged[-1]

    monkeypatch.setattr(penalised, "ebic", distance)
    estimation = SimpleNamespace(n_jobs=None, stopped=False)
    alpha = penalised.choose_alpha(rows, start, "l1", "ebic", estimation)
    assert len(judged) == 20 + penalised.N_FINER
    assert min(judged[20:]) < 0.5 * min(judged[:20])
    (best,) = penalised._path(rows, start, "l1", [alpha])
    assert distance(rows, best) == pytest.approx(min(judged), abs=1e-3)


PENALTIES = {"method": "nodewise"}, {"penalty": "l1"}, {"penalty": "group-l1"}


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("name", ["exact", "pcd"])
@pytest.mark.parametrize("gaps", [False, True])
def test_the_empty_graph_is_empty(penalty, name, gaps, monkeypatch, seed):
    """Neither rounding nor chains leave the strongest pair where a criterion wants no edge."""
    n_edges = []

    def count(_rows, energy, *_):
        n_edges.append((energy.strengths() > 0).sum())
        return n_edges[-1]

    monkeypatch.setattr(penalised, "ebic", count)
    X = np.random.default_rng(seed).integers(0, 2, (300, 6))
    found = learner(name, **penalty).fit(holes(X, 0.2, seed) if gaps else X)
    assert n_edges[0] == 0
    assert found.edges_.shape == (0, 2)
    assert not found.coupling_.any()


@slow
@pytest.mark.parametrize("method", ["nodewise", "cd"])
def test_penalties_that_leave_nothing(method):
    """Of independent columns few sets have an edge: the criterion asks for chi-square of 8.2."""
    penalty = {} if method == "nodewise" else {"penalty": "l1"}
    sets = [np.random.default_rng(7000 + s).integers(0, 2, (500, 8)) for s in range(40)]
    found = [learner("exact", method=method, **penalty).fit(X) for X in sets]
    wrong = [len(f.edges_) > 0 for f in found]
    assert sum(wrong) <= binom.isf(RARE, 40, 0.12)
    for f, X in zip(found, sets, strict=True):
        assert (np.abs(f.coupling_) * np.sqrt(len(X)) > 2.5).sum() == 2 * len(f.edges_)


@slow
def test_gaps_are_no_evidence_of_edges():
    found = []
    for s in range(12):
        rng = np.random.default_rng(8000 + s)
        X = holes(rng.integers(0, 2, (500, 8)), 0.3, s)
        found.append(len(learner("exact", method="nodewise", random_state=s).fit(X).edges_) > 0)
    assert sum(found) <= binom.isf(RARE, 12, 0.15)


# Statistics and learners -------------------------------------------------------------------


def test_agreement_of_three_states(seed):
    X = three_state_rows(seed)
    found = learner(statistic="agreement").fit(X)
    assert edges_of(found) == [[0, 1], [2, 3]]
    assert found.coupling_.shape == (4, 4)
    np.testing.assert_allclose(found.strength_, 2 * np.abs(found.coupling_))
    # p(agree) = 2 / 3 = e^theta / (e^theta + 2)
    share = (X[:, 0] == X[:, 1]).mean()
    assert 2 * found.coupling_[0, 1] == pytest.approx(np.log(2 * share / (1 - share)), abs=0.05)
    X = X[X[:, 0] < 2]
    shared = learner(statistic="agreement").fit(X)
    assert [c.tolist() for c in shared.categories_] == [[0, 1, 2]] * 4
    assert edges_of(shared) == [[0, 1], [2, 3]]


def test_two_states_need_no_statistic(seed):
    X = chain_rows(seed)
    table, agreement = (learner(statistic=s).fit(X) for s in ("table", "agreement"))
    np.testing.assert_allclose(table.coupling_, agreement.coupling_, atol=1e-5)
    np.testing.assert_allclose(table.p_values_, agreement.p_values_, rtol=1e-3)


def test_without_parameters_of_single_columns(seed):
    X = chain_rows(seed, 2000)
    found = learner(unary=False).fit(X)
    assert edges_of(found) == CHAIN
    single = inference.marginals(found.energy_, method="exact").single
    np.testing.assert_allclose(single, 0.5, atol=1e-12)
    assert (
        edges_of(learner(unary=False).fit(np.random.default_rng(0).integers(0, 2, (99, 3)))) == []
    )


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_every_learner_runs(name):
    X = chain_rows(0, 400)
    found = learner(name, max_iter=4, level=1e-3).fit(X)
    assert {tuple(e) for e in CHAIN} <= {tuple(e) for e in edges_of(found)}
    assert np.isfinite(found.coupling_).all()
    gaps = learner(name, max_iter=2).fit(holes(X, 0.1, 0))
    assert np.isfinite(gaps.coupling_).all()


@pytest.mark.parametrize(
    "parameters",
    [
        {"optimizer": "adam", "learning_rate": "adaptive", "max_iter": 30},
        {"optimizer": "sgd", "learning_rate": 0.1, "max_iter": 30},
        {"optimizer": "momentum", "learning_rate": "inverse", "max_iter": 30},
        {"optimizer": "lbfgs", "tol": 1e-3},
        {"learner": PCD(n_chains=64), "batch_size": 100, "max_iter": 5},
    ],
)
def test_schedules(parameters):
    parameters = dict(parameters)
    found = learner(parameters.pop("learner", "exact"), **parameters).fit(chain_rows(0))
    assert edges_of(found) == CHAIN
    assert (np.abs(found.coupling_[tuple(found.edges_.T)] - 0.5) < 0.15).all()


def test_default_learns_the_maximum(seed):
    """PCD near the maximum of the likelihood, its noise a fraction of the standard error."""
    X = chain_rows(seed, 2000, 4)
    exact, found = learner().fit(X), learner("pcd", random_state=seed).fit(X)
    assert edges_of(found) == edges_of(exact) == CHAIN[:3]
    error = np.diff(exact.confidence_intervals_)[:, 0] / 3.92
    where = tuple(found.edges_.T)
    assert (np.abs(found.coupling_ - exact.coupling_)[where] < 5 * 0.25 * error).all()


# Rows that arrive ---------------------------------------------------------------------------


def arriving(**parameters):
    given = {"threshold": 0.2, "warmup": 10, "learning_rate": 1.0, "max_iter": 15, "screen": None}
    return learner(**(given | parameters))


def test_partial_fit_is_a_fit_in_parts(seed):
    X = chain_rows(seed, 2000)
    whole, parts = arriving().fit(X), arriving()
    for k in range(15):
        assert parts.partial_fit(X) is parts
        assert parts.n_iter_ == k + 1
    same_fit(parts, whole, atol=1e-12)
    assert edges_of(parts) == CHAIN
    for name in ("edges", "iteration", "parameters", "removed"):
        np.testing.assert_array_equal(parts.path_[name], whole.path_[name])
    assert parts.history_.keys() == whole.history_.keys()
    assert parts.history_["n_updates"] == list(range(1, 16))
    assert parts.n_candidates_ == whole.n_candidates_ == 10


def test_partial_fit_of_other_rows_every_time(seed):
    """Chains go on, removed edges stay away, and a fit begins anew."""
    model = arriving(name="pcd", learning_rate=0.3, warmup=20)
    for k in range(30):
        model.partial_fit(chain_rows(1000 * (seed + 1) + k, 300))
    assert {tuple(e) for e in CHAIN} <= {tuple(e) for e in edges_of(model)}
    error = 0.1  # the noise of about ten batches of 300 rows and of the chains
    np.testing.assert_allclose(model.coupling_[tuple(np.array(CHAIN).T)], 0.5, atol=5 * error)
    gone = model.path_.removed > 0
    assert (model.path_.removed[gone] > 20).all()
    assert len(model.edges_) == 10 - gone.sum()
    assert model.fit(chain_rows(seed)).n_iter_ == 15


def test_partial_fit_refuses(seed):
    X = chain_rows(seed)
    assert not hasattr(learner(), "partial_fit")
    assert not hasattr(learner(threshold=0.1), "partial_fit")
    model = arriving().partial_fit(X)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="not seen in fit"):
        model.partial_fit(X + 1)
    with pytest.raises(
        ValueError, match="X has 4 features, but MRFStructureLearner is expecting 5"
    ):
        model.partial_fit(X[:, :4])
    assert all(vars(model)[k] is v for k, v in before.items())
    assert vars(model).keys() == before.keys()
    twin = clone(model).partial_fit(X)
    same_fit(twin, model)
    assert model.partial_fit(X).n_iter_ == 2
    loaded = pickle.loads(pickle.dumps(twin)).partial_fit(X)
    same_fit(loaded, model)


# Bootstraps and random numbers -------------------------------------------------------------


def test_bootstraps(seed):
    X = chain_rows(seed, 1500)
    found = learner("pseudo-likelihood", n_bootstraps=8, random_state=seed).fit(X)
    assert (found.edge_frequency_[tuple(np.array(CHAIN).T)] == 1).all()
    assert (np.diag(found.edge_frequency_) == 0).all()
    np.testing.assert_allclose(8 * found.edge_frequency_ % 1, 0.0, atol=1e-9)
    with parallel_config(backend="threading"):
        threads = learner("pseudo-likelihood", n_bootstraps=8, random_state=seed, n_jobs=2).fit(X)
    np.testing.assert_array_equal(threads.edge_frequency_, found.edge_frequency_)
    same_fit(threads, found)
    loose = learner("pseudo-likelihood", n_bootstraps=8, level=0.9).fit(X)
    others = loose.edge_frequency_ * (found.coupling_ == 0)
    assert ((others > 0) & (others < 1)).any()  # chance decides
    assert not hasattr(learner().fit(X), "edge_frequency_")


@pytest.mark.slow
def test_bootstraps_by_processes():
    X = chain_rows(0, 600)
    one, two = (learner(n_bootstraps=5, n_jobs=k, level=0.5).fit(X) for k in (1, 2))
    np.testing.assert_array_equal(one.edge_frequency_, two.edge_frequency_)
    same_fit(one, two)


def test_replicates_are_drawn_by_weight(monkeypatch):
    """As many rows as the weights count, a weight of 2 being the row twice."""
    seen = []

    def note(rows, *_):
        seen.append(rows)
        raise StopIteration

    monkeypatch.setattr(bootstrap, "select", note)
    X = np.repeat(np.arange(4), 100)[:, None].astype(STATE)
    rows = Rows(X, np.repeat([1.0, 2.0, 3.0, 4.0], 100), np.array([4]))
    for k in range(20):
        with pytest.raises(StopIteration):
            bootstrap._replicate(rows, None, None, None, np.random.SeedSequence(k))
    assert all(r.count == pytest.approx(1000) for r in seen)
    shares = np.mean([np.bincount(r.X[:, 0], r.weights) / 1000 for r in seen], axis=0)
    np.testing.assert_allclose(shares, [0.1, 0.2, 0.3, 0.4], atol=5 * 0.5 / np.sqrt(20 * 400))


def test_counted_rows_are_bootstrapped_as_rows(monkeypatch):
    """Distinct rows with counts vary as the rows themselves do."""
    seen = []

    def note(rows, *_):
        seen.append(rows.weights[rows.X[:, 0] == 0].sum())
        raise StopIteration

    monkeypatch.setattr(bootstrap, "select", note)
    rows = Rows(np.array([[0], [1]], dtype=STATE), np.array([1000.0, 1000.0]), np.array([2]))
    for k in range(200):
        with pytest.raises(StopIteration):
            bootstrap._replicate(rows, None, None, None, np.random.SeedSequence(k))
    # a standard deviation of 22.4, within 5 sigma of its estimate from 200 draws
    assert np.std(seen) == pytest.approx(np.sqrt(500), abs=5 * np.sqrt(500) / np.sqrt(400))


@pytest.mark.parametrize("most", [2000, 0])
def test_hubs_keep_their_edges(most, monkeypatch):
    """Given its leaves the centre is known, so its own regression hardly tells of an edge."""
    monkeypatch.setattr(assessment, "MOST_STATISTICS", most)
    star = make_ising("star", n_variables=9, coupling=1.0)
    X = inference.sample(star, 1000, random_state=0)
    found = MRFStructureLearner("pseudo-likelihood").fit(X)
    assert {(0, k) for k in range(1, 9)} <= set(map(tuple, edges_of(found)))
    rng = np.random.default_rng(0)
    hub = rng.integers(0, 6, 2500)
    leaves = [np.where(rng.random(2500) < 0.8, hub, rng.integers(0, 6, 2500)) for _ in range(4)]
    found = MRFStructureLearner("pseudo-likelihood").fit(np.column_stack([hub, *leaves]))
    assert {(0, k) for k in range(1, 5)} <= set(map(tuple, edges_of(found)))


def test_strong_missing_pairs_enter():
    """Also where their p-values are below the smallest number."""
    statistic = np.array([[0.0, 5000.0, 4000.0], [5000.0, 0.0, 1.0], [4000.0, 1.0, 0.0]])
    log_p = assessment.Assessment(statistic, np.ones((3, 3), int) - np.eye(3, dtype=int), []).log_p
    assert np.isfinite(log_p).all()
    good = np.triu(log_p < -100)
    assert rounds._foremost(np.where(good, log_p, np.inf)).tolist() == [[0, 1]]


def test_states_that_never_occur_cost_nothing():
    """Neither power nor degrees of freedom."""
    X = chain_rows(0)[:150]
    plain = learner("exact").fit(X)
    more = learner("exact", categories=[[0, 1, 5, 6]] * X.shape[1]).fit(X)
    assert edges_of(more) == edges_of(plain)


def test_frequencies_of_bootstraps(monkeypatch):
    edges = iter([[[0, 1]], [], [[0, 1], [1, 2]]])
    monkeypatch.setattr(
        bootstrap, "_replicate", lambda *_: np.array(next(edges), dtype=int).reshape(-1, 2)
    )
    rows = Rows(np.zeros((2, 3), dtype=STATE), np.ones(2), np.array([2, 2, 2]))
    estimation = estimates.Estimation(None, None, np.random.default_rng(0), Path())
    shares = bootstrap.repeated(rows, None, estimation, 3)
    np.testing.assert_allclose(shares, np.array([[0, 2, 0], [2, 0, 1], [0, 1, 0]]) / 3)


def test_probabilities_of_tables_know_their_degrees_of_freedom(seed):
    """Independent columns of four states: nine degrees of freedom a pair."""
    X = np.random.default_rng(seed).integers(4, size=(400, 6))
    assert learner("exact").fit(X).edge_probability_.max() < 0.5
    assert learner("exact").fit(X).edge_probability_.mean() < 0.05


def test_bootstraps_leave_probabilities_as_they_are():
    X = chain_rows(0, 300)
    plain, repeated = learner("exact").fit(X), learner("exact", n_bootstraps=3).fit(X)
    np.testing.assert_array_equal(repeated.edge_probability_, plain.edge_probability_)


def test_random_state():
    X = holes(chain_rows(0, 500), 0.1, 0)
    first, again, other = (learner("pcd", max_iter=20, random_state=s).fit(X) for s in (3, 3, 4))
    same_fit(first, again)
    np.testing.assert_array_equal(first.path_.parameters, again.path_.parameters)
    assert (first.coupling_ != other.coupling_).any()
    with parallel_config(n_jobs=2):
        threads = learner("pcd", max_iter=20, random_state=3).fit(X)
    same_fit(first, threads)


# As an estimator ---------------------------------------------------------------------------


def test_score_is_the_pseudo_likelihood(seed):
    X = chain_rows(seed, 300, 4)
    found = learner().fit(X)
    log_f = found.energy_.log_potential(X.astype(STATE))
    expected = 0.0
    for i in range(4):
        turned = X.copy()
        turned[:, i] = 1 - turned[:, i]
        expected -= np.logaddexp(0, found.energy_.log_potential(turned.astype(STATE)) - log_f)
    assert found.score(X) == pytest.approx(expected.mean())
    gaps = X.astype(float)
    gaps[:100, 0] = np.nan
    assert found.score(gaps) == pytest.approx(expected[100:].mean())
    gaps[:, 0] = np.nan
    with pytest.raises(ValueError, match=r"needs a row without missing entries.*DiscreteMRF.pred"):
        found.score(gaps)
    with pytest.raises(NotFittedError):
        learner().score(X)
    with pytest.raises(
        ValueError, match="X has 3 features, but MRFStructureLearner is expecting 4"
    ):
        found.score(X[:, :3])
    with pytest.raises(ValueError, match="not seen in fit"):
        found.score(X + 5)


def test_parameters():
    assert MRFStructureLearner()._check_parameters().n_steps == 2
    assert MRFStructureLearner(PCD())._check_parameters().n_steps == PCD().n_steps
    model = MRFStructureLearner(PCD(n_chains=10), level=0.01)
    assert model.get_params()["learner__n_chains"] == 10
    twin = clone(model.set_params(learner__n_chains=20, screen=None))
    assert twin.learner.n_chains == 20
    assert twin.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert "MRFStructureLearner(learner=PCD(n_chains=20), level=0.01, screen=None)" in repr(
        twin
    ).replace("\n", "").replace("  ", "")


REFUSED = [
    ({"method": "other"}, 'method must be one of .*"?nodewise'),
    ({"statistic": "x"}, "statistic must be one of .*agreement"),
    ({"control": "bonferroni"}, "control must be one of .*fdr.*holm"),
    ({"screen": "all"}, "screen must be \"auto\", None or a number; got 'all'"),
    ({"threshold": None}, 'threshold must be "wald" or a number; got None'),
    ({"threshold": np.ones(2)}, 'threshold must be "wald" or a number; got array'),
    ({"penalty": "l1", "alpha": None}, 'alpha must be "ebic", "cv" or a number; got None'),
    ({"screen": 0.0}, "screen must be .*0.*got 0.0"),
    ({"screen": 1.5}, "screen must be .*1.*got 1.5"),
    ({"level": 0}, "level must be .*got 0"),
    ({"level": 2}, "level must be .*got 2"),
    ({"threshold": "z"}, "threshold must be \"wald\" or a number; got 'z'"),
    ({"threshold": -1.0}, "threshold must be .*got -1.0"),
    ({"warmup": 3}, "a number as threshold.*use warmup=None"),
    ({"warmup": -1, "threshold": 0.1}, "warmup must be .*got -1"),
    ({"warmup": 1, "threshold": 0.1, "penalty": "l1"}, "no penalty; with others use warmup=None"),
    ({"warmup": 1, "threshold": 0.1, "method": "nodewise"}, 'method="cd".*use warmup=None'),
    ({"penalty": "l2"}, "penalty must be one of .*group-l1.*l1"),
    ({"penalty": "l1", "alpha": "aic"}, 'alpha must be "ebic", "cv" or a number; got \'aic\''),
    ({"penalty": "l1", "alpha": 0.0}, "alpha must be .*got 0.0"),
    ({"n_bootstraps": -1}, "n_bootstraps must be .*got -1"),
    ({"n_bootstraps": 1.5}, "n_bootstraps must be .*got 1.5"),
    ({"max_iter": 0}, "max_iter must be .*got 0"),
    ({"batch_size": 0}, "batch_size must be .*got 0"),
    ({"tol": -1}, "tol must be .*got -1"),
    ({"max_bytes": 0}, "max_bytes must be .*got 0"),
    ({"max_bytes": 100}, "more than max_bytes=100.*Give a level as screen.*raise max_bytes"),
    ({"learner": "newton"}, r"learner must be one of \[.*exact.*pcd"),
    ({"learner": "lr"}, "MRFStructureLearner cannot take the learner 'lr'; it takes one of"),
    ({"optimizer": "newton"}, "optimizer must be one of .*lbfgs"),
    ({"learning_rate": "fast", "learner": "pcd"}, "learning_rate must be .*adaptive"),
    ({"random_state": "x"}, "random_state must be None, an int"),
    ({"categories": [[0, 1]] * 2}, "categories has 2 lists, but X has 5 columns; give one each"),
]


@pytest.mark.parametrize(("parameters", "message"), REFUSED, ids=lambda v: str(v)[:40])
def test_what_is_refused(parameters, message):
    model = MRFStructureLearner("exact").set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(chain_rows(0, 100))
    assert not hasattr(model, "n_features_in_")
    assert not hasattr(model, "edges_")


def test_refused_rows():
    X = chain_rows(0, 100).astype(float)
    with pytest.raises(
        ValueError, match=r"All sample weights are zero; at least one row must count"
    ):
        learner().fit(X, sample_weight=np.zeros(100))
    with pytest.raises(ValueError, match=r"hardly repeat, so they are no categories\. Discretise"):
        learner().fit(np.random.default_rng(0).normal(size=(100, 2)))
    with pytest.raises(ValueError, match="Column 1 holds infinity; use nan for a missing entry"):
        learner().fit(np.where(np.arange(5) == 1, np.inf, X))
    with pytest.raises(ValueError, match="Column 1 has no observed entry; drop it, or name its"):
        learner().fit(np.where(np.arange(5) == 1, np.nan, X))


def test_a_fit_that_fails_changes_nothing():
    X = chain_rows(0)
    model = learner().fit(X)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="infinity"):
        model.fit(pd.DataFrame(np.full((9, 2), np.inf), columns=["a", "b"]))
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[k] is v for k, v in before.items())


class Count:
    """A callback that counts, and stops a fit at the end of task ``stop``."""

    def __init__(self, stop=None):
        self.stop, self.begun, self.ended = stop, 0, 0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        self.begun += 1

    def on_fit_task_end(self, estimator, context, **rows):
        self.ended += 1
        return self.ended == self.stop


@pytest.mark.parametrize("parameters", [{}, {"n_bootstraps": 3}, {"penalty": "l1"}])
def test_callbacks_hear_of_every_epoch(parameters):
    count = Count()
    found = learner(**parameters).set_callbacks(count).fit(chain_rows(0))
    assert count.begun == count.ended == 1 + found.n_iter_ + parameters.get("n_bootstraps", 0)
    assert {len(column) for column in found.history_.values()} == {found.n_iter_}
    updates = found.path_.iteration
    assert updates.tolist() == list(range(1, found.n_iter_ + 1))
    assert len(found.path_.parameters) == found.n_iter_
    learner(n_bootstraps=2).set_callbacks(ProgressBar()).fit(chain_rows(0, 200))


@pytest.mark.parametrize("name", ["exact", "pcd"])
@pytest.mark.parametrize("stop", [1, 3])
def test_a_callback_that_stops(name, stop):
    """The model is that of the epoch, and neither further rounds nor bootstraps follow."""
    found = learner(name, n_bootstraps=3).set_callbacks(Count(stop)).fit(chain_rows(0))
    assert found.n_iter_ == stop
    assert not found.converged_
    assert len(found.rounds_) == 1
    assert not hasattr(found, "edge_frequency_")
    assert np.isfinite(found.coupling_).all()
    assert np.isfinite(found.score(chain_rows(1)))


class Interrupted(PCD):
    """Ctrl-C at the third update of the second run of the loop."""

    def init(self, energy, batch, rng):
        self.runs = getattr(self, "runs", 0) + 1
        self.updates = 0
        return super().init(energy, batch, rng)

    def step(self, energy, batch, state, rng):
        self.updates += 1
        if (self.runs, self.updates) == (2, 3):
            raise KeyboardInterrupt
        return super().step(energy, batch, state, rng)


class InterruptedExact(Exact):
    """Ctrl-C in the solver."""

    n_left = 2

    def objective(self, energy, batch, state):
        self.n_left -= 1
        if self.n_left == 0:
            raise KeyboardInterrupt
        return super().objective(energy, batch, state)


@pytest.mark.parametrize("which", [Interrupted(), InterruptedExact()], ids=repr)
def test_interruption_leaves_a_usable_model(which):
    """With a warning; no further rounds, and no bootstraps."""
    X = chain_rows(0)
    with pytest.warns(ConvergenceWarning, match="Interrupted; the model is that of the last"):
        found = learner(which, max_iter=30, n_bootstraps=2).fit(X)
    assert not found.converged_
    assert not hasattr(found, "edge_frequency_")
    assert len(found.rounds_) == (2 if isinstance(which, Interrupted) else 1)
    assert found.n_iter_ == (32 if isinstance(which, Interrupted) else 0)
    assert {tuple(e) for e in CHAIN} <= {tuple(e) for e in edges_of(found)}
    where = tuple(np.array(CHAIN).T)
    np.testing.assert_allclose(found.coupling_[where], 0.5, atol=0.2)
    assert np.isfinite(found.score(X))


def test_interruption_of_a_bootstrap_leaves_that_one_out():
    """Half a selection says nothing."""
    X = chain_rows(0)
    which = InterruptedExact()
    which.n_left = 60
    model = learner(which, n_bootstraps=50)
    with pytest.warns(ConvergenceWarning, match=r"Interrupted after [1-9]\d* of 50 bootstraps"):
        model.fit(X)
    assert edges_of(model) == CHAIN
    frequency = model.edge_frequency_[model.edge_frequency_ > 0]
    assert frequency.max() == 1.0


# As the cliques of a DiscreteMRF -----------------------------------------------------------


def as_cliques(**parameters):
    return DiscreteMRF(learner("pseudo-likelihood", random_state=None), "exact", **parameters)


def test_discrete_mrf_takes_a_structure_learner():
    X = pd.DataFrame(chain_rows(0), columns=list("abcde"))
    model = as_cliques(random_state=3).fit(X)
    assert model.cliques_ == tuple([(i,) for i in range(5)] + [tuple(e) for e in CHAIN])
    assert edges_of(model.structure_) == CHAIN
    assert model.structure_.random_state == 3
    assert model.cliques.random_state is None
    assert not hasattr(model.cliques, "edges_")
    by_hand = DiscreteMRF(CHAIN, "exact").fit(X)
    assert model.score(X) == pytest.approx(by_hand.score(X), abs=1e-6)
    by_seed = DiscreteMRF(learner(random_state=7), "exact", random_state=3).fit(X)
    assert by_seed.structure_.random_state == 7
    model.set_params(cliques="independent").fit(X)
    assert not hasattr(model, "structure_")


def test_structure_learner_gets_weights_and_categories():
    X, Y = chain_rows(0), np.random.default_rng(1).integers(0, 2, (1500, 5))
    both, first = np.vstack([X, Y]), np.repeat([1.0, 0.0], 1500)
    model = as_cliques(categories=[[1, 0]] * 5).fit(both, sample_weight=first)
    same_fit(model.structure_, learner("pseudo-likelihood", categories=[[1, 0]] * 5).fit(X))
    assert [c.tolist() for c in model.structure_.categories_] == [[1, 0]] * 5
    assert edges_of(as_cliques().fit(Y).structure_) == []


def test_a_discrete_mrf_that_fails_keeps_its_structure():
    X = chain_rows(0)
    model = as_cliques().fit(X)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.full((9, 2), np.inf))
    bad = model.set_params(max_bytes=1)  # fails after the structure was found
    with pytest.raises(ValueError, match="max_bytes"):
        bad.fit(np.random.default_rng(1).integers(0, 2, (500, 5)))
    model.set_params(max_bytes=before["max_bytes"])
    assert {k: v for k, v in vars(model).items() if k != "max_bytes"}.keys() == (
        before.keys() - {"max_bytes"}
    )
    assert model.structure_ is before["structure_"]
    assert model.energy_ is before["energy_"]


def test_going_on_keeps_the_structure():
    X = chain_rows(0)
    model = as_cliques(max_iter=5, warm_start=True).fit(X)
    first = model.structure_
    assert model.fit(X).structure_ is first
    assert model.partial_fit(X).structure_ is first


def test_grid_search_and_pipeline():
    X = chain_rows(0, 300)
    search = GridSearchCV(
        as_cliques(), {"cliques__level": [1e-3, 0.99], "cliques__screen": [None]}, cv=2
    ).fit(X)
    assert search.best_params_["cliques__level"] in (1e-3, 0.99)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    noise = np.random.default_rng(0).normal(size=(600, 1))
    Z = np.column_stack([noise, noise + 0.3 * np.random.default_rng(1).normal(size=(600, 1))])
    pipe = make_pipeline(KBinsDiscretizer(3, encode="ordinal"), learner()).fit(Z)
    assert edges_of(pipe[-1]) == [[0, 1]]
    assert pipe.score(Z) < 0


def test_a_fit_without_bootstraps_forgets_those_of_an_earlier_one():
    X = np.random.default_rng(0).integers(2, size=(80, 3))
    learner = MRFStructureLearner("exact", n_bootstraps=2, random_state=0).fit(X)
    assert learner.edge_frequency_.shape == (3, 3)
    learner.set_params(n_bootstraps=0).fit(X)
    assert not hasattr(learner, "edge_frequency_")
    assert not any("frequency" in edge for *_, edge in learner.graph_.edges(data=True))
