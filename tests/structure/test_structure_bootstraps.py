"""Tests of bootstraps and random states of MRFStructureLearner."""

from types import SimpleNamespace

import numpy as np
import pytest
from joblib import parallel_config
from structure_rows import CHAIN, chain_rows, edges_of, holes, learner, same_fit, strict

from skmrf import MRFStructureLearner, inference
from skmrf._utils.codes import STATE
from skmrf.datasets import make_ising
from skmrf.structure import assessment, bootstrap, wald
from skmrf.structure.estimation import Estimation
from skmrf.structure.path import Path
from skmrf.structure.rows import Rows

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


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
    loose = learner("pseudo-likelihood", n_bootstraps=8, search=strict(0.9)).fit(X)
    others = loose.edge_frequency_ * (found.coupling_ == 0)
    assert ((others > 0) & (others < 1)).any()  # some edges are found by chance in some bootstraps
    assert not hasattr(learner().fit(X), "edge_frequency_")


@pytest.mark.slow
def test_bootstraps_in_parallel_processes():
    X = chain_rows(0, 600)
    one, two = (learner(n_bootstraps=5, n_jobs=k, search=strict(0.5)).fit(X) for k in (1, 2))
    np.testing.assert_array_equal(one.edge_frequency_, two.edge_frequency_)
    same_fit(one, two)


def test_bootstrap_draws_rows_by_weight():
    """A bootstrap draws rows in proportion to their weights, and keeps the total weight."""
    records = []

    def record(rows, *_):
        records.append(rows)
        raise StopIteration

    search = SimpleNamespace(select=record)
    X = np.repeat(np.arange(4), 100)[:, None].astype(STATE)
    rows = Rows(X, np.repeat([1.0, 2.0, 3.0, 4.0], 100), np.array([4]))
    for k in range(20):
        seed = np.random.SeedSequence(k)
        with pytest.raises(StopIteration):
            bootstrap._select_on_sample(rows, None, search, None, None, seed)
    assert all(r.count == pytest.approx(1000) for r in records)
    shares = np.mean([np.bincount(r.X[:, 0], r.weights) / 1000 for r in records], axis=0)
    np.testing.assert_allclose(shares, [0.1, 0.2, 0.3, 0.4], atol=5 * 0.5 / np.sqrt(20 * 400))


def test_bootstrap_counts_have_the_variance_of_rows():
    """Bootstrap counts of weighted rows have the variance of repeated rows."""
    records = []

    def record(rows, *_):
        records.append(rows.weights[rows.X[:, 0] == 0].sum())
        raise StopIteration

    search = SimpleNamespace(select=record)
    rows = Rows(np.array([[0], [1]], dtype=STATE), np.array([1000.0, 1000.0]), np.array([2]))
    for k in range(200):
        seed = np.random.SeedSequence(k)
        with pytest.raises(StopIteration):
            bootstrap._select_on_sample(rows, None, search, None, None, seed)
    # a standard deviation of 22.4, within 5 standard errors of 200 draws
    assert np.std(records) == pytest.approx(np.sqrt(500), abs=5 * np.sqrt(500) / np.sqrt(400))


@pytest.mark.parametrize("max_statistics", [2000, 0])
def test_edges_of_hubs_are_found(max_statistics, monkeypatch):
    """Hub edges are found, although the hub's own regression has little information on them."""
    monkeypatch.setattr(assessment, "MAX_STATISTICS", max_statistics)
    star = make_ising("star", n_variables=9, coupling=1.0)
    X = inference.sample(star, 1000, random_state=0)
    found = MRFStructureLearner("pseudo-likelihood").fit(X)
    assert {(0, k) for k in range(1, 9)} <= set(map(tuple, edges_of(found)))
    rng = np.random.default_rng(0)
    hub = rng.integers(0, 6, 2500)
    leaves = [np.where(rng.random(2500) < 0.8, hub, rng.integers(0, 6, 2500)) for _ in range(4)]
    found = MRFStructureLearner("pseudo-likelihood").fit(np.column_stack([hub, *leaves]))
    assert {(0, k) for k in range(1, 5)} <= set(map(tuple, edges_of(found)))


def test_most_significant_pair_with_underflowing_p_values():
    """Pairs are ordered by log p-values, also where p-values underflow."""
    statistic = np.array([[0.0, 5000.0, 4000.0], [5000.0, 0.0, 1.0], [4000.0, 1.0, 0.0]])
    log_p = assessment.Assessment(statistic, np.ones((3, 3), int) - np.eye(3, dtype=int), []).log_p
    assert np.isfinite(log_p).all()
    good = np.triu(log_p < -100)
    assert wald.most_significant(np.where(good, log_p, np.inf)).tolist() == [[0, 1]]


def test_categories_that_never_occur_do_not_change_edges():
    """Categories that never occur do not change the selected edges."""
    X = chain_rows(0)[:150]
    plain = learner("exact").fit(X)
    more = learner("exact", categories=[[0, 1, 5, 6]] * X.shape[1]).fit(X)
    assert edges_of(more) == edges_of(plain)


def test_bootstrap_frequencies(monkeypatch):
    edges = iter([[[0, 1]], [], [[0, 1], [1, 2]]])
    monkeypatch.setattr(
        bootstrap, "_select_on_sample", lambda *_: np.array(next(edges), dtype=int).reshape(-1, 2)
    )
    rows = Rows(np.zeros((2, 3), dtype=STATE), np.ones(2), np.array([2, 2, 2]))
    estimation = Estimation(None, None, np.random.default_rng(0), Path())
    bootstraps = bootstrap.Bootstraps.start(3, estimation.rng)
    assert bootstraps.frequencies() is None
    bootstrap.run_bootstraps(bootstraps, 3, rows, None, None, estimation)
    np.testing.assert_allclose(
        bootstraps.frequencies(), np.array([[0, 2, 0], [2, 0, 1], [0, 1, 0]]) / 3
    )


def test_edge_probabilities_account_for_degrees_of_freedom(seed):
    """Edge probabilities of independent four-state columns (nine degrees of freedom) are small."""
    X = np.random.default_rng(seed).integers(4, size=(400, 6))
    assert learner("exact").fit(X).edge_probability_.max() < 0.5
    assert learner("exact").fit(X).edge_probability_.mean() < 0.05


def test_bootstraps_do_not_change_edge_probabilities():
    X = chain_rows(0, 300)
    plain, repeated = learner("exact").fit(X), learner("exact", n_bootstraps=3).fit(X)
    np.testing.assert_array_equal(repeated.edge_probability_, plain.edge_probability_)


def test_random_state_makes_fits_reproducible():
    X = holes(chain_rows(0, 500), 0.1, 0)
    first, again, other = (learner("pcd", max_iter=20, random_state=s).fit(X) for s in (3, 3, 4))
    same_fit(first, again)
    np.testing.assert_array_equal(first.path_.parameters, again.path_.parameters)
    assert (first.coupling_ != other.coupling_).any()
    with parallel_config(n_jobs=2):
        threads = learner("pcd", max_iter=20, random_state=3).fit(X)
    same_fit(first, threads)
