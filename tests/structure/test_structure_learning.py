"""Tests of statistics, learners, errors and bootstraps of MRFStructureLearner, and of trees."""

import pickle
from itertools import chain, repeat
from types import SimpleNamespace

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from structure_rows import (
    CHAIN,
    a_fit,
    binary_truth,
    chain_rows,
    edges_of,
    holes,
    joint_law,
    learner,
    same_fit,
    strict,
    three_state_rows,
)
from zoo import TABLE_LEARNERS

from skmrf import BoltzmannMachine, DiscreteMRF, MRFStructureLearner, inference
from skmrf._utils.codes import STATE
from skmrf._utils.phases import States
from skmrf._utils.rows import Batch
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph
from skmrf.estimators import _automatic, _refinement, _weight_decay, structure_learner
from skmrf.estimators._hidden_layer import initial_layers, tree_layers
from skmrf.learners import PCD, PseudoLikelihood
from skmrf.likelihood import log_partition_bounds
from skmrf.structure import (
    RemovalWhileLearning,
    Thresholding,
    assessment,
    chow_liu,
    removal,
    screening,
)
from skmrf.structure.chow_liu import fit_tree
from skmrf.structure.rows import Rows
from skmrf.structure.search import select_on_sample
from skmrf.training import regularization
from skmrf.training.part_reports import Bootstraps

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# Statistics and learners ------------------------------------------------------------------


def test_agreement_statistic_of_three_states(seed):
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


def test_statistics_are_equal_for_two_states(seed):
    X = chain_rows(seed)
    table, agreement = (learner(statistic=s).fit(X) for s in ("table", "agreement"))
    np.testing.assert_allclose(table.coupling_, agreement.coupling_, atol=1e-5)
    np.testing.assert_allclose(table.p_values_, agreement.p_values_, rtol=1e-3)


def test_without_unary_parameters(seed):
    X = chain_rows(seed, 2000)
    found = learner(unary=False).fit(X)
    assert edges_of(found) == CHAIN
    single = inference.marginals(found.energy_, method="exact").single
    np.testing.assert_allclose(single, 0.5, atol=1e-12)
    assert (
        edges_of(learner(unary=False).fit(np.random.default_rng(0).integers(0, 2, (99, 3)))) == []
    )


@pytest.mark.parametrize("name", sorted(TABLE_LEARNERS))
def test_all_table_learners(name):
    X = chain_rows(0, 400)
    found = learner(name, max_iter=4, search=strict(1e-3)).fit(X)
    assert {tuple(e) for e in CHAIN} <= {tuple(e) for e in edges_of(found)}
    assert np.isfinite(found.coupling_).all()
    incomplete = learner(name, max_iter=2).fit(holes(X, 0.1, 0))
    assert np.isfinite(incomplete.coupling_).all()


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
def test_optimizers_and_learning_rates(parameters):
    parameters = dict(parameters)
    found = learner(parameters.pop("learner", "exact"), **parameters).fit(chain_rows(0))
    assert edges_of(found) == CHAIN
    assert (np.abs(found.coupling_[tuple(found.edges_.T)] - 0.5) < 0.15).all()


@pytest.mark.long
def test_default_learner_is_near_the_maximum_likelihood(seed):
    """The error of PCD estimates is a fraction of their standard error."""
    X = chain_rows(seed, 2000, 4)
    exact, found = learner().fit(X), learner("pcd", random_state=seed).fit(X)
    assert edges_of(found) == edges_of(exact) == CHAIN[:3]
    error = np.diff(exact.confidence_intervals_)[:, 0] / 3.92
    where = tuple(found.edges_.T)
    assert (np.abs(found.coupling_ - exact.coupling_)[where] < 5 * 0.25 * error).all()


# Partial fit ------------------------------------------------------------------------------


def removal_learner(warmup=10, **parameters):
    search = RemovalWhileLearning(0.2, warmup)
    defaults = {"search": search, "learning_rate": 1.0, "max_iter": 15, "screen": None}
    return learner(**(defaults | parameters))


def test_partial_fits_equal_one_fit(seed):
    X = chain_rows(seed, 2000)
    whole, parts = removal_learner().fit(X), removal_learner()
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


def test_partial_fit_with_new_rows(seed):
    """Partial fits resume chains and keep edges removed; fit starts anew."""
    model = removal_learner(name="pcd", learning_rate=0.3, warmup=20)
    for k in range(30):
        model.partial_fit(chain_rows(1000 * (seed + 1) + k, 300))
    assert {tuple(e) for e in CHAIN} <= {tuple(e) for e in edges_of(model)}
    error = 0.1  # noise of about ten batches of 300 rows, and of the chains
    np.testing.assert_allclose(model.coupling_[tuple(np.array(CHAIN).T)], 0.5, atol=5 * error)
    gone = model.path_.removed > 0
    assert (model.path_.removed[gone] > 20).all()
    assert len(model.edges_) == 10 - gone.sum()
    assert model.fit(chain_rows(seed)).n_iter_ == 15


def test_invalid_partial_fit_raises(seed):
    X = chain_rows(seed)
    assert not hasattr(learner(), "partial_fit")
    assert not hasattr(learner(search="unknown"), "partial_fit")
    assert not hasattr(learner(search=Thresholding(0.1)), "partial_fit")
    model = removal_learner().partial_fit(X)
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


def mean_statistics(energy):
    X, p = joint_law(energy)
    moments = energy.moments(States(X, None, np.log(p)))
    return np.concatenate([moments["unary"], moments["pairs"]])


@pytest.mark.parametrize("draws", [False, True])
def test_information_is_the_derivative_of_the_moments(draws, seed, monkeypatch):
    """Compare the information with the derivative of the moments, exact and from Gibbs chains."""
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
        monkeypatch.setattr(assessment, "MAX_ENUMERATED_STATES", 1)
    found = assessment.fisher_information(energy, rows, rng)
    # 5 standard errors of a covariance of at least 20,000 nearly independent draws
    atol = 5 * 1.5 / np.sqrt(assessment.MIN_DRAWS) if draws else 1e-8
    np.testing.assert_allclose(found, np.array(slopes), atol=atol)
    covariances = assessment.parameter_covariances(energy, rows, rng)
    total = rows.count * np.array(slopes)
    inverse = np.linalg.inv(total + 0.01 * np.eye(len(total)))
    start = energy.form.unary_start[-1] + energy.form.pair_start
    for a, b, c in zip(start[:-1], start[1:], covariances, strict=True):
        np.testing.assert_allclose(
            c, inverse[a:b, a:b], atol=0.15 * inverse[a, a] if draws else 1e-9
        )


def test_sampled_covariance_is_corrected_for_bias(monkeypatch):
    """The factor n / (n - k - 1) corrects the bias of the inverse of a sample covariance."""
    energy, rows, rng = a_fit(0, (2, 2, 2), 500, ((0, 1), (1, 2), (0, 2)))
    parts = [rows.X[:100], rows.X[100:200]]
    monkeypatch.setattr(assessment, "MAX_ENUMERATED_STATES", 1)
    monkeypatch.setattr(assessment, "N_CHAINS", 100)
    monkeypatch.setattr(assessment, "MIN_DRAWS", 150)  # the chains draw 200 states
    monkeypatch.setattr(assessment, "_sample_chains", lambda *_: iter(parts))
    T = assessment.sufficient_statistics(energy.form, rows.X[:200])
    np.testing.assert_allclose(
        assessment.fisher_information(energy, rows, rng),
        np.cov(T.T, bias=True) * 200 / (200 - 6 - 1),
        atol=1e-12,
    )


def test_model_and_nodewise_standard_errors_agree(seed, monkeypatch):
    """Compare standard errors of the likelihood with those of the conditional likelihoods."""
    X = inference.sample(binary_truth(), 4000, random_state=np.random.default_rng([seed, 4]))
    by_model = learner().fit(X)
    monkeypatch.setattr("skmrf.structure.assessment.MAX_STATISTICS", 3)
    by_nodes = learner().fit(X)
    assert edges_of(by_model) == edges_of(by_nodes) == CHAIN[:3]
    ratio = np.diff(by_nodes.confidence_intervals_) / np.diff(by_model.confidence_intervals_)
    assert (ratio > 0.98).all()  # the conditional standard errors are an upper bound, and close
    assert (ratio < 1.25).all()
    assert (ratio != 1).all()


def test_standard_errors_decrease_with_sample_weights():
    X = chain_rows(0)
    once, four = learner().fit(X), learner().fit(X, sample_weight=np.full(len(X), 4.0))
    ratio = np.diff(once.confidence_intervals_) / np.diff(four.confidence_intervals_)
    np.testing.assert_allclose(ratio, 2.0, rtol=1e-4)


def test_bootstraps(seed):
    X = chain_rows(seed, 700)
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
            select_on_sample(rows, None, search, None, None, seed)
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
            select_on_sample(rows, None, search, None, None, seed)
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
    assert removal.most_significant(np.where(good, log_p, np.inf)).tolist() == [[0, 1]]


def test_categories_that_never_occur_do_not_change_edges():
    """Categories that never occur do not change the selected edges."""
    X = chain_rows(0)[:150]
    plain = learner("exact").fit(X)
    more = learner("exact", categories=[[0, 1, 5, 6]] * X.shape[1]).fit(X)
    assert edges_of(more) == edges_of(plain)


def test_bootstrap_frequencies(monkeypatch):
    found = iter([[[0, 1]], [], [[0, 1], [1, 2]]])
    monkeypatch.setattr(
        structure_learner,
        "select_on_sample",
        lambda *_: np.array(next(found), dtype=int).reshape(-1, 2),
    )
    fitted = learner("exact", n_bootstraps=3).fit(chain_rows(0)[:, :3])
    expected = np.array([[0, 2, 0], [2, 0, 1], [0, 1, 0]]) / 3
    np.testing.assert_allclose(fitted.edge_frequency_, expected)


def test_bootstrap_seeds_continue():
    bootstraps = Bootstraps.start(3, np.random.default_rng(0))
    assert bootstraps.frequencies() is None
    seeds = [seed.generate_state(4).tolist() for _, seed in bootstraps.tasks(3, "rows")]
    bootstraps.add(np.array([[0, 1]]))
    later = [seed.generate_state(4).tolist() for _, seed in bootstraps.tasks(3, "rows")]
    assert later == seeds[1:]
    assert len(set(map(tuple, seeds))) == 3


def test_edge_probabilities_account_for_degrees_of_freedom(seed):
    """Edge probabilities of independent four-state columns (nine degrees of freedom) are small."""
    X = np.random.default_rng(seed).integers(4, size=(400, 6))
    assert learner("exact").fit(X).edge_probability_.max() < 0.5
    assert learner("exact").fit(X).edge_probability_.mean() < 0.05


def test_bootstraps_do_not_change_edge_probabilities():
    X = chain_rows(0, 300)
    plain, repeated = learner("exact").fit(X), learner("exact", n_bootstraps=3).fit(X)
    np.testing.assert_array_equal(repeated.edge_probability_, plain.edge_probability_)


@pytest.mark.long
def test_random_state_makes_fits_reproducible():
    X = holes(chain_rows(0, 500), 0.1, 0)
    first, again, other = (learner("pcd", max_iter=20, random_state=s).fit(X) for s in (3, 3, 4))
    same_fit(first, again)
    np.testing.assert_array_equal(first.path_.parameters, again.path_.parameters)
    assert (first.coupling_ != other.coupling_).any()
    with parallel_config(n_jobs=2):
        threads = learner("pcd", max_iter=20, random_state=3).fit(X)
    same_fit(first, threads)


@pytest.mark.parametrize("kind", ["codes", "jax", "probabilities", "weights"])
def test_tree_of_a_device(kind, monkeypatch, seed):
    """It is the tree of the host, and that from tables of all pairs of columns."""
    jax, devices = pytest.importorskip("jax"), pytest.importorskip("skmrf._jax.devices")
    rng = np.random.default_rng(seed)
    X = np.cumsum(rng.random((300, 9)) < 0.2, axis=1) % 2 ^ rng.integers(2, size=(300, 1))
    X = np.clip(X, 0.1, 0.9) if kind == "probabilities" else X
    rows = Batch(X, log_weights=rng.normal(size=300) if kind == "weights" else None)
    start = initial_layers(rows, 5, "data", rng)
    found = tree_layers(start, rows)
    own = rows._replace(X=jax.numpy.asarray(X)) if kind == "jax" else rows
    on_device = tree_layers(start, own, devices.find_device("jax"))
    for module in (chow_liu, screening):
        monkeypatch.setattr(module, "binary_counts", lambda *_: None)
    from_tables = tree_layers(start, rows)
    assert np.abs(found.weights).max() > 1.0
    for name, array in found.theta.items():
        np.testing.assert_array_equal(on_device.theta[name], array)
        np.testing.assert_array_equal(from_tables.theta[name], array)


def copied_rows(rng, n_rows):
    """Return rows of a chain of ten columns; each column is almost a copy of the one before."""
    flips = rng.random((n_rows, 10)) < np.array([0.5] + [0.03] * 9)
    return np.cumsum(flips, axis=1) % 2


@pytest.mark.long
def test_boltzmann_machine_shrinks_couplings_towards_a_tree(seed):
    rng = np.random.default_rng(seed)
    train, test = copied_rows(rng, 120), copied_rows(rng, 2000)
    given = {"states": (0, 1), "max_iter": 300, "random_state": 0}
    model = BoltzmannMachine(warm_start=True, **given).fit(train)
    tree = fit_tree(train, np.full(10, 2)).graph
    assert model.score(test) > tree.log_potential(test).mean() - 0.1
    towards_zero = BoltzmannMachine(alpha=10 / 120, **given).fit(train)
    assert towards_zero.score(test) < model.score(test) - 0.2
    centre = model._centre["coupling"]
    assert np.abs(centre).max() > 3
    assert model.partial_fit(train)._centre["coupling"] is centre


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_components", "scores"),
    [
        (4, [0.0, 0.0, 1.0, -1.0]),  # two rates, tree, another strength
        (0, [-999.0] * 4),  # zero, tree, a stronger penalty, the strongest one
        (0, [-np.inf] * 4),
    ],
)
def test_strong_penalty_leaves_a_tree(n_components, scores, monkeypatch, seed):
    """The couplings stay near those of the tree, and the weights of hidden units vanish.

    Without hidden units, the tree is better than each candidate.
    """
    scores = iter(np.array(scores)[:, None])
    monkeypatch.setattr(_weight_decay, "MAX_EXACT", 0)
    monkeypatch.setattr(_weight_decay, "COUPLED_STRENGTHS", (300.0, 100.0))
    monkeypatch.setattr(_weight_decay, "FIRST_COUPLED_STRENGTH", 300.0)
    monkeypatch.setattr(_weight_decay, "_fit", lambda energy, *_: energy)
    monkeypatch.setattr(_weight_decay, "annealed_log_likelihoods", lambda *_: next(scores))
    X = copied_rows(np.random.default_rng(seed), 120)
    given = {"states": (0, 1), "max_iter": 300, "random_state": 0}
    model = BoltzmannMachine(n_components=n_components, **given).fit(X)
    assert model.alpha_ == pytest.approx(300 / 120)
    tree = model._centre["coupling"]
    assert np.abs(tree).max() > 3
    np.testing.assert_allclose(model.energy_.coupling, tree, atol=0.3)
    assert np.abs(model.components_).max(initial=0.0) < 0.2
    assert next(scores, None) is None


@pytest.mark.parametrize("gain", [0.01, -0.01])
def test_candidates_are_compared_with_the_forest_itself(gain, monkeypatch, seed):
    """Shrinkage towards zero is chosen only if its score is above that of the forest."""
    X = copied_rows(np.random.default_rng(seed), 120)
    train, test = _weight_decay.split_rows(Batch(X.astype(STATE)), np.random.default_rng(0))
    forest = chow_liu.fit_pairwise_forest(train, (0.0, 1.0))
    score = forest.log_marginal(test.X).mean() - log_partition_bounds(forest).value
    scores = chain([[score + gain]], repeat([-999.0]))
    monkeypatch.setattr(_weight_decay, "MAX_EXACT", 0)
    monkeypatch.setattr(_weight_decay, "_fit", lambda energy, *_: energy)
    monkeypatch.setattr(
        _weight_decay, "annealed_log_likelihoods", lambda *_: np.array(next(scores))
    )
    model = BoltzmannMachine(states=(0, 1), max_iter=1, random_state=0).fit(X)
    assert model.alpha_ == pytest.approx((10 if gain > 0.0 else 3000) / 120)
    assert (model._centre is None) == (gain > 0.0)


@pytest.mark.parametrize("learner", ["auto", "pseudo-likelihood"])
@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("choice", [0, 1])
def test_likelihood_refuses_models_around_independent_columns(
    choice, interrupted, learner, monkeypatch, seed
):
    """Pseudo-likelihood prefers independent columns as reference, but the tree is more likely."""
    folds, least, gains = [], [], iter([-0.01])

    def choose_path(paths):
        folds.append(paths[0].folds[0])
        fits = paths[1].fits._replace(interrupted=interrupted)
        return 1, paths[1]._replace(choice=choice, fits=fits)

    def check_likelihood(*given):
        least.append(given[-1])
        return 0

    def refine(*_):
        energy, rows = folds[0].reference, folds[0].test.X
        scores = energy.log_potential(rows) - log_partition_bounds(energy).value + next(gains)
        return 1, _refinement.Refined(10.0, energy, PCD(), scores), interrupted

    X = copied_rows(np.random.default_rng(seed), 120)
    monkeypatch.setattr(_automatic, "_choose_learner", lambda *_: PseudoLikelihood())
    monkeypatch.setattr(_automatic, "_check_likelihood", check_likelihood)
    monkeypatch.setattr(_automatic, "_refine", refine)
    monkeypatch.setattr(_automatic, "choose_path", choose_path)
    model = DiscreteMRF(learner=learner).fit(X)
    tree = fit_tree(X, np.full(10, 2)).graph.log_potential(X.astype(STATE))
    assert model.alpha_ == np.inf
    assert model.converged_ == (not interrupted)
    np.testing.assert_allclose(model.score_samples(X), tree, atol=1e-9)
    for score in least:
        found = DiscreteMRF.from_energy(folds[0].reference).score(folds[0].test.X)
        assert score == pytest.approx(found, abs=1e-9)
    is_checked = bool(choice) and (learner != "auto" or interrupted)
    assert len(least) == is_checked
    assert (next(gains, None) is None) == (bool(choice) and not is_checked)


def test_fits_of_a_path_end_at_the_resolution_of_held_out_rows(monkeypatch, seed):
    """Later fits end at a gain that is small against the standard errors of the scores."""
    fit_strength, gains = regularization.fit_strength, []

    def record(learner, fold, energy, settings, *given):
        gains.append(settings.min_gain)
        return fit_strength(learner, fold, energy, settings, *given)

    monkeypatch.setattr(regularization, "fit_strength", record)
    monkeypatch.setattr(regularization, "RESOLUTION", 0.5)
    monkeypatch.setattr(_automatic, "_choose_learner", lambda *_: PseudoLikelihood())
    monkeypatch.setattr(_refinement, "is_possible", lambda *_: False)
    X = copied_rows(np.random.default_rng(seed), 2400)
    model = DiscreteMRF("pairwise", learner="pseudo-likelihood").fit(X)
    gains = gains[: len(model.regularization_path_.alphas) - 1]  # without a second path
    assert gains[0] == 2 * _automatic.PATH_GAIN
    assert gains[1] == pytest.approx(0.5 * model.regularization_path_.std_errors[1])
    assert gains == sorted(gains)


@pytest.mark.parametrize("most", [0, 10**6])
def test_paths_of_large_models_end_at_a_model_that_is_certainly_worse(most, monkeypatch, seed):
    """States near modes of the third model have more than the probability that is left."""
    bounds = chain([-np.inf] * 2, repeat(np.inf))
    monkeypatch.setattr(_refinement, "mode_bound", lambda *_: next(bounds))
    monkeypatch.setattr(_automatic, "_choose_learner", lambda *_: PseudoLikelihood())
    monkeypatch.setattr(_automatic, "MIN_CHECKED_PARAMETERS", most)
    X = copied_rows(np.random.default_rng(seed), 2400)
    model = DiscreteMRF("pairwise", learner="pseudo-likelihood").fit(X)
    if most:
        assert next(bounds) == next(bounds) == -np.inf  # no model was checked
    else:
        assert len(model.regularization_path_.alphas) == 3  # with the reference model


def test_models_that_are_certainly_worse(seed):
    """A tree is better than the uniform distribution, for rows of a chain."""
    X = copied_rows(np.random.default_rng(seed), 200).astype(STATE)
    energy = fit_tree(X, np.full(10, 2)).graph
    fold = regularization.Fold(Batch(X), Batch(X), energy)
    flat = FactorGraph.from_layout(energy.layout)
    assert not _refinement.is_certainly_worse(fold._replace(reference=flat), energy)
    assert _refinement.is_certainly_worse(fold, flat)
