"""Tests of penalised searches of MRFStructureLearner."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom
from structure_rows import (
    CHAIN,
    RARE,
    chain_rows,
    edges_of,
    holes,
    learner,
    same_fit,
    slow,
    three_state_rows,
)

from skmrf._utils.codes import STATE
from skmrf.energies.log_linear import LogLinearEnergy, LogLinearForm
from skmrf.structure import Nodewise, Penalized, penalised
from skmrf.structure.nodewise import fit_nodes
from skmrf.structure.pairwise_model import PairwiseModel
from skmrf.structure.rows import Rows

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("penalty", ["l1", "group-l1"])
@pytest.mark.parametrize("alpha", [0.08, "ebic"])
@pytest.mark.parametrize("name", ["exact", "pseudo-likelihood"])
def test_penalised_selection(penalty, alpha, name):
    """Selected edges are learned again without the penalty."""
    for X, edges in ((chain_rows(0, 3000), CHAIN), (three_state_rows(0), [[0, 1], [2, 3]])):
        found = learner(name, search=Penalized(penalty, alpha)).fit(X)
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


def test_penalty_strength():
    """Pseudo-likelihood needs twice the penalty of the likelihood, as edges are in two terms."""
    X = chain_rows(0, 1000)
    by_pairs = learner("pseudo-likelihood", search="l1").fit(X).alpha_
    assert learner("exact", search="l1").fit(X).alpha_ == pytest.approx(by_pairs / 2)
    # at independence, the gradient of an agreement is about half the correlation
    assert len(learner(search=Penalized("l1", 1.0)).fit(X).edges_) == 0
    assert len(learner(search=Penalized("l1", 1e-6)).fit(X).edges_) == 10


def test_cross_validated_penalty(seed):
    """Cross-validation keeps all true edges, and selects a weaker penalty than EBIC."""
    X = chain_rows(seed, 600)
    search = Penalized("group-l1", "cv")
    found = learner("pseudo-likelihood", search=search, random_state=seed).fit(X)
    assert {tuple(e) for e in CHAIN} <= {tuple(e) for e in edges_of(found)}
    ebic = learner("pseudo-likelihood", search="group-l1").fit(X)
    assert found.alpha_ <= ebic.alpha_
    tiny = learner("pseudo-likelihood", search=Penalized("l1", "cv")).fit(X[:3])
    assert np.isfinite(tiny.strength_[np.isfinite(tiny.strength_)]).all()


def test_nodewise_search(seed):
    X = chain_rows(seed, 3000)
    found = learner("auto", search="nodewise").fit(X)
    same_fit(found, learner("pseudo-likelihood", search="group-l1").fit(X))
    assert edges_of(found) == CHAIN
    other = learner("auto", search=Nodewise("l1", 0.08)).fit(X)
    same_fit(other, learner("pseudo-likelihood", search=Penalized("l1", 0.08)).fit(X))
    with_missing = learner("auto", search="nodewise", max_iter=30).fit(holes(X, 0.1, seed))
    assert {tuple(e) for e in CHAIN} <= {tuple(e) for e in edges_of(with_missing)}


def test_ebic_of_a_small_example():
    """Compare EBIC with its terms: conditional likelihoods, parameters and edges."""
    X = chain_rows(0, 500, 3)
    rows = Rows(X.astype(STATE), np.full(500, 2.0), np.full(3, 2))
    form = LogLinearForm.build((2,) * 3, [(0, 1), (0, 2)])
    energy = LogLinearEnergy(form, {"unary": np.zeros(3), "pairs": np.array([1.0, 0.0])})
    fits = fit_nodes(rows.X, rows.weights, LogLinearForm.build((2,) * 3, [(0, 1)]))
    expected = -2 * fits.log_likelihood.sum() + 5 * np.log(1000) + 2 * 0.5 * 2 * np.log(2)
    assert penalised.ebic(rows, energy) == pytest.approx(expected)


def test_penalty_of_smallest_ebic(monkeypatch):
    """The path of 20 strengths is refined around the best strength."""
    X = chain_rows(0)
    rows = Rows(X.astype(STATE), np.ones(len(X)), np.full(5, 2))
    start = PairwiseModel().independent(rows, np.array(list(combinations(range(5), 2))))
    distances = []

    def distance(_rows, energy, *_):
        distances.append(abs(np.linalg.norm(energy.strengths()) - 0.7))
        return distances[-1]

    monkeypatch.setattr(penalised, "ebic", distance)
    estimation = SimpleNamespace(n_jobs=None, stopped=False)
    alpha = penalised.choose_alpha(rows, start, "l1", "ebic", estimation)
    assert len(distances) == 20 + penalised.N_FINER
    assert min(distances[20:]) < 0.5 * min(distances[:20])
    (best,) = penalised._penalised_energies(rows, start, "l1", [alpha])
    assert distance(rows, best) == pytest.approx(min(distances), abs=1e-3)


PENALISED = [("auto", "nodewise"), *((n, s) for n in ("exact", "pcd") for s in ("l1", "group-l1"))]


@pytest.mark.parametrize(("name", "search"), PENALISED)
@pytest.mark.parametrize("with_missing", [False, True])
def test_largest_penalty_selects_no_edge(search, name, with_missing, monkeypatch, seed):
    """The largest penalty selects no edge, despite rounding and noise of chains."""
    n_edges = []

    def count(_rows, energy, *_):
        n_edges.append((energy.strengths() > 0).sum())
        return n_edges[-1]

    monkeypatch.setattr(penalised, "ebic", count)
    X = np.random.default_rng(seed).integers(0, 2, (300, 6))
    found = learner(name, search=search).fit(holes(X, 0.2, seed) if with_missing else X)
    assert n_edges[0] == 0
    assert found.edges_.shape == (0, 2)
    assert not found.coupling_.any()


@slow
@pytest.mark.parametrize(("name", "search"), [("auto", "nodewise"), ("exact", "l1")])
def test_false_edges_of_independent_columns_are_rare(name, search):
    """Few data sets of independent columns have an edge: EBIC requires a chi-square of 8.2."""
    sets = [np.random.default_rng(7000 + s).integers(0, 2, (500, 8)) for s in range(40)]
    found = [learner(name, search=search).fit(X) for X in sets]
    wrong = [len(f.edges_) > 0 for f in found]
    assert sum(wrong) <= binom.isf(RARE, 40, 0.12)
    for f, X in zip(found, sets, strict=True):
        assert (np.abs(f.coupling_) * np.sqrt(len(X)) > 2.5).sum() == 2 * len(f.edges_)


@slow
def test_missing_entries_do_not_cause_false_edges():
    found = []
    for s in range(12):
        rng = np.random.default_rng(8000 + s)
        X = holes(rng.integers(0, 2, (500, 8)), 0.3, s)
        found.append(len(learner("auto", search="nodewise", random_state=s).fit(X).edges_) > 0)
    assert sum(found) <= binom.isf(RARE, 12, 0.15)
