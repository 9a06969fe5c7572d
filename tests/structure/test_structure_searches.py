"""Tests of the searches of MRFStructureLearner: candidates, rounds, thresholds and penalties."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.exceptions import ConvergenceWarning
from structure_rows import (
    CHAIN,
    RARE,
    chain_rows,
    edges_of,
    holes,
    learner,
    same_fit,
    slow,
    strict,
    three_state_rows,
)

from skmrf import MRFStructureLearner, inference
from skmrf._utils.codes import STATE
from skmrf.energies import PairwiseEnergy
from skmrf.energies.log_linear import LogLinearEnergy, LogLinearForm
from skmrf.structure import (
    Nodewise,
    Penalized,
    RemovalWhileLearning,
    Thresholding,
    pairwise,
    penalised,
    screening,
    search,
)
from skmrf.structure.nodewise import fit_nodes
from skmrf.structure.pairwise import PairwiseModel, PairwisePath
from skmrf.structure.path import MAX_RECORDS, EdgeRemoval, Path
from skmrf.structure.rows import Design, Rows

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def hidden_pair(seed, n_rows=4000):
    """Return rows in which columns 0 and 1 are independent, but dependent given column 2."""
    J = np.zeros((3, 3))
    J[0, 2] = J[2, 0] = J[1, 2] = J[2, 1] = 0.6
    J[0, 1] = J[1, 0] = -np.arctanh(np.tanh(0.6) ** 2)
    rng = np.random.default_rng([seed, 6])
    X = inference.sample(PairwiseEnergy(J, np.zeros(3)), n_rows, random_state=rng).astype(int)
    # reject samples in which the screen would find the pair
    while abs(np.corrcoef(X[:, 0], X[:, 1])[0, 1]) * np.sqrt(n_rows) > 1:
        X = inference.sample(PairwiseEnergy(J, np.zeros(3)), n_rows, random_state=rng).astype(int)
    return X


def test_pairs_missed_by_the_screen_are_added(seed):
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
    for strategy in (strict(re_entry=False), Thresholding(0.1)):
        without = learner(screen=0.05, search=strategy).fit(X)
        assert edges_of(without) == [[0, 2], [1, 2]]
        assert len(without.rounds_) == 1
    assert without.p_values_[0, 1] < 1e-6  # the score test finds the missing edge
    everything = learner(screen=None).fit(X)
    assert everything.n_candidates_ == 3
    same_fit(everything, found, atol=1e-4)


def test_search_from_all_pairs_recovers_the_chain(seed):
    """The search removes false edges from all candidates, and the true graph remains."""
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
        (2000, 6, "auto", 15),  # all pairs
        (2000, 6, None, 15),
        (2000, 6, 1e-140, 5),  # neighbours only: |r| = 0.66; other pairs have at most 0.44
        (79, 6, "auto", 3),  # at most 3 pairs per column, by tests of independence
        (100, 6, "auto", 15),
        (99, 6, "auto", None),  # one row too few for five pairs per column
    ],
)
def test_candidate_pairs(n_rows, n_columns, screen, expected):
    X = chain_rows(0, n_rows, n_columns, coupling=0.8)
    rows = Rows(X.astype(STATE), np.ones(n_rows), np.full(n_columns, 2))
    found = PairwiseModel(screen=screen).candidates(rows)
    if n_rows < 100:
        assert len(found) < 15
        assert np.bincount(found.ravel()).max() <= n_rows // 20
    else:
        assert len(found) == expected
    assert (found[:, 0] < found[:, 1]).all()


def test_candidate_pairs_with_many_parameters(monkeypatch):
    monkeypatch.setattr(screening, "MAX_PARAMETERS", 4 * 6)
    rng = np.random.default_rng(0)
    rows = Rows(rng.integers(0, 3, (5000, 4)).astype(STATE), np.ones(5000), np.full(4, 3))
    assert len(PairwiseModel().candidates(rows)) == 6
    monkeypatch.setattr(screening, "MAX_PARAMETERS", 4 * 6 - 1)
    assert len(PairwiseModel().candidates(rows)) < 6
    assert len(PairwiseModel(statistic="agreement").candidates(rows)) == 6


def test_thresholding(seed):
    X = chain_rows(seed, 3000)
    low, high = (learner(search=Thresholding(t)).fit(X) for t in (0.0, 0.5))
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


def test_warmup_of_removal(seed):
    """Edges are removed only after the warm-up, and only weak ones."""
    X = chain_rows(seed, 3000)
    parameters = {"learning_rate": 0.5, "max_iter": 160}
    found = learner(search=RemovalWhileLearning(0.4, 150), **parameters).fit(X)
    assert edges_of(found) == CHAIN
    assert set(found.path_.removed) == {-1, 151}
    early = learner(search=RemovalWhileLearning(0.4), **parameters).fit(X)
    assert early.path_.removed.min() == 1
    assert early.n_iter_ == 160
    with pytest.raises(
        ValueError, match=r'L-BFGS cannot be used\. Use optimizer="sgd", or use search=Thr'
    ):
        learner(search=RemovalWhileLearning(0.1), optimizer="lbfgs").fit(X)


def test_maximum_number_of_rounds(monkeypatch):
    """A search that reaches the maximum number of rounds has not converged."""
    X = chain_rows(0)
    monkeypatch.setattr(search, "MAX_ROUNDS", 1)
    found = learner().fit(X)
    assert len(found.rounds_) == 1
    assert not found.converged_
    assert learner(search=Thresholding(0.0)).fit(X).converged_


def test_edge_removal():
    """Edges with a small norm are removed permanently after the warm-up."""
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
    all_strong = weak.with_theta({"unary": theta["unary"], "pairs": np.ones(5)})
    assert removal.update(all_strong, None, None, {}) is all_strong


@pytest.mark.parametrize("q", [2, 3])
def test_path_of_a_small_example(q):
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


def test_long_path_is_thinned():
    form = LogLinearForm.build((2, 2), [(0, 1)])
    zero = LogLinearEnergy(form, form.zeros())
    path = Path()
    path.begin()
    for t in range(1, 9001):
        path.record(t, zero.with_theta({"unary": np.zeros(2), "pairs": np.array([float(t)])}))
    found = path.summary(np.arange(2))
    n = len(found["iteration"])
    assert MAX_RECORDS / 2 <= n <= MAX_RECORDS
    assert set(np.diff(found["iteration"])) == {8}
    np.testing.assert_array_equal(found["parameters"][:, 0], found["iteration"])


@pytest.mark.long
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
    assert pairwise.ebic(rows, energy) == pytest.approx(expected)


def test_penalty_of_smallest_ebic(monkeypatch):
    """The path of 20 strengths is refined around the best strength."""
    X = chain_rows(0)
    rows = Rows(X.astype(STATE), np.ones(len(X)), np.full(5, 2))
    start = PairwiseModel().independent(rows, np.array(list(combinations(range(5), 2))))
    distances = []

    def distance(_rows, energy, *_):
        distances.append(abs(np.linalg.norm(energy.strengths()) - 0.7))
        return distances[-1]

    monkeypatch.setattr(pairwise, "ebic", distance)
    estimation = SimpleNamespace(n_jobs=None, stopped=False)
    alpha = penalised.choose_alpha(PairwisePath(rows, start, "l1"), "ebic", estimation)
    assert len(distances) == 20 + penalised.N_FINER
    assert min(distances[20:]) < 0.5 * min(distances[:20])
    (best,) = PairwisePath(rows, start, "l1").estimates([alpha])
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

    monkeypatch.setattr(pairwise, "ebic", count)
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


# Convergence -------------------------------------------------------------------------------


def rows_with_a_threshold(seed, width):
    """Return rows of three numbers, and of a category that the first number determines."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(200, 3))
    return np.column_stack([numbers, numbers[:, 0] + width * rng.normal(size=200) > 0])


def test_penalised_regressions_of_well_predicted_categories_converge(seed):
    X = rows_with_a_threshold(seed, 0.1)
    design = Design.from_rows(X, np.ones(200), np.array([0, 0, 0, 2]))
    edges = np.array(list(combinations(range(4), 2)))
    problem = penalised.PenalisedNodes(design, edges, "group-l1")
    alpha = 0.05 * problem.largest_alpha()
    B, has_converged = problem.solve(alpha, problem.start())
    assert has_converged
    longer, _ = problem.solve(alpha, B, max_steps=2000)
    np.testing.assert_allclose(B, longer, atol=1e-3)


def test_unconverged_penalised_regressions_warn_once(seed, monkeypatch):
    X = rows_with_a_threshold(seed, 0.0)
    learner = MRFStructureLearner(search=Penalized(alpha=0.02))
    assert [0, 3] in edges_of(learner.fit(X))  # the tests treat warnings as errors
    monkeypatch.setattr(penalised, "FINAL_STEPS", 5)
    with pytest.warns(ConvergenceWarning, match="larger alpha") as found:
        learner.fit(X)
    assert len(found) == 1
