"""Tests of continued training (partial_fit, warm_start) and of weighted rows."""

import numpy as np
import pytest
from zoo import ZOO

from skmrf import RBM, BoltzmannMachine, DiscreteMRF
from skmrf.learners import PCD, PSMC
from skmrf.likelihood import ais
from skmrf.samplers import Product
from skmrf.training import EarlyStopping, ScoreMonitor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X = (np.random.default_rng(0).random((60, 5)) < 0.4).astype(int)
ESTIMATORS = [
    RBM(2, "pcd", alpha=0.01, max_iter=3, random_state=0),
    BoltzmannMachine("pcd", states=(0, 1), alpha=0.01, max_iter=3, random_state=0),
    DiscreteMRF(learner="pcd", alpha=0.0, max_iter=3, random_state=0),
]
all_estimators = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)


@all_estimators
@pytest.mark.parametrize("callback", [ScoreMonitor, EarlyStopping])
def test_callbacks_score_each_epoch(estimator, callback):
    monitor = callback()
    estimator.set_callbacks(monitor).fit(X)
    estimator.set_callbacks()
    assert len(monitor.scores) == 3
    assert np.isfinite(monitor.scores).all()


@all_estimators
def test_partial_fit_continues_after_fit(estimator):
    """A fit without warm_start keeps the model, but not the optimizer state or the chains."""
    estimator.set_params(max_iter=100).fit(X)
    theta = {k: v.copy() for k, v in estimator.energy_.theta.items()}
    estimator.partial_fit(X)
    for name, value in theta.items():
        assert np.abs(estimator.energy_.theta[name] - value).max() < 0.1
    estimator.set_params(max_iter=3)


def test_warm_start_after_convergence_learns_other_rows(seed):
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((500, 3)) < 0.8, 1, -1)
    model = BoltzmannMachine("pcd", warm_start=True, alpha=0.01, random_state=seed).fit(A)
    assert model.converged_
    continued = model.fit(-A).score(-A)
    best = BoltzmannMachine("exact", alpha=0.01).fit(-A).score(-A)
    assert abs(continued - best) < 0.02


def test_early_stopping_starts_anew_with_warm_start():
    options = {"alpha": 0.01, "batch_size": 5, "warm_start": True, "random_state": 0}
    model = RBM(2, "pcd", early_stopping=True, **options)
    first = model.set_params(max_iter=70).fit(X).components_.copy()
    n_iter = model.n_iter_
    assert n_iter > 40
    model.fit(X)
    assert model.n_iter_ > n_iter + 40
    assert (model.components_ != first).any()


def test_partial_fit_holds_no_rows_out():
    model = RBM(2, "pcd", early_stopping=True, random_state=0)
    weights = [model.partial_fit(X).components_[0, 0] for _ in range(4)]
    assert len(set(weights)) == 4
    assert "validation_score" not in model.history_


CHANGES = [
    {"optimizer": "momentum"},
    {"optimizer": "adam", "learning_rate": "constant"},
    {"learning_rate": "adaptive"},
    {"learner": "exact", "optimizer": "lbfgs"},
    {"optimizer": "auto"},
    {"learner": "psmc"},
    {"learner": PSMC(n_particles=20)},
    {"learner": "parallel-tempering"},
    {"learner": "ptt"},
    {"learner": PCD(n_chains=7)},
    {"learner": "cd"},
]


def test_parameters_can_change_between_warm_starts():
    model = RBM(2, "pcd", max_iter=2, warm_start=True, random_state=0).fit(X)
    for change in CHANGES:
        model.set_params(**change).fit(X)
        assert np.isfinite(model.components_).all()


def test_history_of_an_earlier_fit_is_not_modified():
    model = RBM(2, "pcd", max_iter=3, warm_start=True, random_state=0).fit(X)
    history = model.history_
    model.fit(X)
    assert len(history["epoch"]) == 3
    assert model.history_["epoch"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("batch_size", [1, 2, 20, 200])
def test_batches_of_weighted_rows_are_unbiased(batch_size):
    """Rows of ones have nine times the weight of rows of zeros, for each batch size."""
    rows = np.repeat([[1], [0]], 100, axis=0)
    weights = np.where(rows[:, 0] == 1, 9.0, 1.0)
    max_iter = 1000 // (200 // batch_size) + 1
    model = RBM(1, "exact", alpha=0.0, batch_size=batch_size, max_iter=max_iter)
    model.set_params(random_state=0).fit(rows, sample_weight=weights)
    assert np.exp(model.score_samples([[1]])) == pytest.approx(0.9, abs=0.02)


def test_row_with_a_large_weight():
    rows = np.zeros((2000, 4), dtype=int)
    rows[0] = 1
    weights = np.ones(2000)
    weights[0] = 2000
    model = RBM(
        2, "exact", alpha=0.0, batch_size=100, max_iter=60, learning_rate=0.02, random_state=0
    )
    model.fit(rows, sample_weight=weights)
    assert np.exp(model.score_samples([[1, 1, 1, 1]])) == pytest.approx(0.5, abs=0.1)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_divergence_raises():
    model = RBM(2, "pcd", learning_rate=1e39, optimizer="sgd", max_iter=5)
    with pytest.raises(ValueError, match=r"^Learning diverged in epoch 1: .* learning_rate"):
        model.fit(X)
    assert not hasattr(model, "energy_")


def test_lbfgs_of_an_rbm_converges():
    model = RBM(2, "exact", optimizer="lbfgs", alpha=0.01, max_iter=2000, random_state=0).fit(X)
    assert model.converged_
    assert model.history_["gradient_max"][-1] < 1e-5


def test_ais_checks_reference_and_start():
    energy = ZOO["zero_one"](0)
    with pytest.raises(ValueError, match=r"^reference must be a skmrf\.samplers\.Product over"):
        ais(energy, reference=Product.uniform([3] * 6))
    with pytest.raises(ValueError, match=r"^reference must be a skmrf\.samplers\.Product over"):
        ais(energy, reference=np.zeros(12))
    with pytest.raises(ValueError, match=r"^start has no rows"):
        ais(energy, start=np.zeros((0, 6), dtype=int))
