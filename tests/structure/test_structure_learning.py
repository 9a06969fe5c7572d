"""Tests of statistics, learners and partial fits of MRFStructureLearner."""

import pickle

import numpy as np
import pytest
from learner_names import TABLE_LEARNERS
from sklearn.base import clone
from structure_rows import (
    CHAIN,
    chain_rows,
    edges_of,
    holes,
    learner,
    same_fit,
    strict,
    three_state_rows,
)

from skmrf import inference
from skmrf.learners import PCD
from skmrf.structure import RemovalWhileLearning, Thresholding

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
