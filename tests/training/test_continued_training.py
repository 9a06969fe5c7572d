"""Tests of continued training: partial_fit, warm starts, and checkpoints of fits with parts."""

import os
import signal
import subprocess
import sys
import time

import joblib
import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from test_checkpoints import CLASSES, GRAPHS, LABELS, NUMBERS, Killed, Killer, X, table_model
from zoo import ZOO, long

from skmrf import (
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFStructureLearner,
    NNMRFClassifier,
    NNMRFDensity,
)
from skmrf._utils.rows import Batch
from skmrf.energies import BipartiteEnergy
from skmrf.estimators import structure_learner
from skmrf.estimators._training import TrainingParameters, run_unless_divergent
from skmrf.learners import PCD, PSMC
from skmrf.likelihood import ais
from skmrf.samplers import Product
from skmrf.structure import Nodewise, Penalized
from skmrf.training import Checkpoint, EarlyStopping, ScoreMonitor, fit_energy
from skmrf.training.optimizers import Adam, Momentum
from skmrf.training.schedules import (
    AdaptiveRate,
    ConstantRate,
    InverseRate,
    LinearRate,
    StepRate,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

BITS = (np.random.default_rng(0).random((60, 5)) < 0.4).astype(int)
ESTIMATORS = [
    RBM(2, "pcd", alpha=0.01, max_iter=3, random_state=0),
    BoltzmannMachine("pcd", states=(0, 1), alpha=0.01, max_iter=3, random_state=0),
    DiscreteMRF(learner="pcd", alpha=0.0, max_iter=3, random_state=0),
]
all_estimators = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
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
INCOMPLETE = np.where(np.random.default_rng(3).random(NUMBERS.shape) < 0.1, np.nan, NUMBERS)


@all_estimators
@pytest.mark.parametrize("callback", [ScoreMonitor, EarlyStopping])
def test_callbacks_score_each_epoch(estimator, callback):
    monitor = callback()
    estimator.set_callbacks(monitor).fit(BITS)
    estimator.set_callbacks()
    assert len(monitor.scores) == 3
    assert np.isfinite(monitor.scores).all()


@all_estimators
def test_partial_fit_continues_after_fit(estimator):
    """A fit without warm_start keeps the model, but not the optimizer state or the chains."""
    estimator.set_params(max_iter=100).fit(BITS)
    theta = {k: v.copy() for k, v in estimator.energy_.theta.items()}
    estimator.partial_fit(BITS)
    for name, value in theta.items():
        assert np.abs(estimator.energy_.theta[name] - value).max() < 0.1
    estimator.set_params(max_iter=3)


@pytest.mark.parametrize("kind", [*long("hidden units", "pairs"), "tables"])
def test_partial_fit_after_convergence_keeps_the_likelihood(kind, seed):
    """A large learning rate would move the parameters far from the maximum."""
    rng = np.random.default_rng(seed)
    is_first = np.arange(12) < 6
    X = np.where(rng.random((500, 1)) < 0.5, is_first, ~is_first)
    X = np.where(rng.random(X.shape) < 0.05, ~X, X).astype(int)
    model = {
        "hidden units": RBM(4, random_state=seed),
        "pairs": BoltzmannMachine(states=(0, 1), random_state=seed),
        "tables": DiscreteMRF(random_state=seed),
    }[kind].fit(X)
    before = model.score(X)
    for _ in range(20):
        model.partial_fit(X)
    assert model.score(X) > before - 0.1


@pytest.mark.parametrize("model", [RBM(3, random_state=0), BoltzmannMachine(states=(0, 1))])
def test_partial_fit_learns_from_small_calls(model, seed):
    """The default penalty is not that of a table with as few rows as the first call."""
    rng = np.random.default_rng(seed)
    X = ((rng.random((1000, 1)) < 0.5) ^ (rng.random((1000, 6)) < 0.05)).astype(int)
    model = clone(model).set_params(random_state=seed)
    for start in 5 * list(range(0, 1000, 10)):
        model.partial_fit(X[start : start + 10])
    independent = -6 * np.log(2)
    assert model.score(X) > independent + 0.5


@pytest.mark.parametrize(
    ("model", "learner"),
    [
        (RBM(2), "pcd"),
        *long((RBM(2), "exact"), (BoltzmannMachine(states=(0, 1), n_components=1), "pcd")),
    ],
)
def test_partial_fits_of_similar_sizes_compile_once(model, learner):
    """Rows of weight 0 and unused minibatches change no result; rows of JAX have none of them."""
    jax, devices = pytest.importorskip("jax"), pytest.importorskip("skmrf._jax.devices")
    X, functions = (np.random.default_rng(0).random((1200, 5)) < 0.4).astype(int), devices._COMPILED
    others = {"alpha": 0.01, "batch_size": 50, "random_state": 0, "device": "jax"}
    model = clone(model).set_params(learner=learner, **others)
    first, found, expected = (clone(model) for _ in range(3))
    functions.clear()
    for n in (45, 33, 833, 1200):  # 1 minibatch of 50 rows, and 24 minibatches
        first.partial_fit(X[:n])
    assert first.history_["n_updates"] == [1, 2, 19, 43]
    for _ in range(2):
        found.partial_fit(X[:833])
    updates = [f for f in functions.values() if isinstance(f, devices.CompiledUpdates)]
    assert sum(f.compiled._cache_size() for f in updates) == 2
    for _ in range(2):
        expected.partial_fit(jax.numpy.asarray(X[:833]))
    assert found.history_["n_updates"] == expected.history_["n_updates"] == [17, 34]
    for name in ("gradient_rms", "learning_rate"):
        np.testing.assert_allclose(found.history_[name], expected.history_[name], rtol=1e-4)
    for name, array in found.energy_.theta.items():
        np.testing.assert_allclose(array, expected.energy_.theta[name], rtol=1e-3, atol=1e-5)


def test_partial_fit_remains_in_the_last_stage():
    options = {"alpha": 0.01, "batch_size": 5, "random_state": 0}
    model = RBM(2, learning_rate=AdaptiveRate(0.1, 12, 1.0, 2), optimizer="adam", **options)
    assert model.fit(BITS).converged_
    assert model.history_["learning_rate"][0] > 0.025
    for _ in range(5):
        model.partial_fit(BITS)
        assert model.history_["learning_rate"][-1] == pytest.approx(0.025)


@pytest.mark.long
def test_warm_start_after_convergence_learns_other_rows(seed):
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((500, 3)) < 0.8, 1, -1)
    model = BoltzmannMachine("pcd", warm_start=True, alpha=0.01, random_state=seed).fit(A)
    assert model.converged_
    continued = model.fit(-A).score(-A)
    best = BoltzmannMachine("exact", alpha=0.01).fit(-A).score(-A)
    assert abs(continued - best) < 0.02


@all_estimators
def test_warm_start_with_other_rows_starts_the_schedule_and_the_mean_anew(estimator):
    """Rows with other weights are other rows. The same rows continue both."""
    model = clone(estimator).set_params(warm_start=True, learning_rate=InverseRate())
    fits = (BITS, None, 1), (BITS, None, 2), (1 - BITS, None, 1), (1 - BITS, np.arange(1, 61), 1)
    for rows, sample_weight, n_fits in fits:
        state = model.fit(rows, sample_weight=sample_weight)._loop_state
        assert state.n_averaged == state.rate["t"] == 3 * n_fits
    state = model.partial_fit(BITS)._loop_state
    assert state.n_averaged == state.rate["t"] == 4


def test_early_stopping_starts_anew_with_warm_start():
    options = {"alpha": 0.01, "batch_size": 5, "warm_start": True, "random_state": 0}
    model = RBM(2, "pcd", early_stopping=True, **options)
    first = model.set_params(max_iter=70).fit(BITS).components_.copy()
    n_iter = model.n_iter_
    assert n_iter > 40
    model.fit(BITS)
    assert model.n_iter_ > n_iter + 40
    assert (model.components_ != first).any()


def test_partial_fit_holds_no_rows_out():
    model = RBM(2, "pcd", early_stopping=True, random_state=0)
    weights = [model.partial_fit(BITS).components_[0, 0] for _ in range(4)]
    assert len(set(weights)) == 4
    assert "validation_score" not in model.history_


@pytest.mark.long
def test_parameters_can_change_between_warm_starts():
    model = RBM(2, "pcd", max_iter=2, warm_start=True, random_state=0).fit(BITS)
    for change in CHANGES:
        model.set_params(**change).fit(BITS)
        assert np.isfinite(model.components_).all()


def test_history_of_an_earlier_fit_is_not_modified():
    model = RBM(2, "pcd", max_iter=3, warm_start=True, random_state=0).fit(BITS)
    history = model.history_
    model.fit(BITS)
    assert len(history["epoch"]) == 3
    assert model.history_["epoch"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("batch_size", [1, 2, 20, 200])
@pytest.mark.long
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
@pytest.mark.long
@pytest.mark.parametrize(("rate", "epoch"), [(1e39, 1), (StepRate(0.01, drop=1e45, every=1), 2)])
def test_divergence_raises(rate, epoch):
    """If all parameters are minus infinity at first, which is rare, the next epoch finds it."""
    model = RBM(2, "pcd", alpha=0.01, learning_rate=rate, optimizer="sgd", max_iter=5)
    message = rf"^Learning diverged in epoch ({epoch}|{epoch + 1}): .* learning_rate"
    with pytest.raises(ValueError, match=message):
        model.fit(BITS)
    assert not hasattr(model, "energy_")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_other_errors_than_divergence_end_a_comparison(monkeypatch):
    """A fit that diverges has no model. Other errors are raised."""

    def fail(*_):
        raise ValueError("an error of the learner")

    zeros, learner, rows = np.zeros((5, 2), np.float32), PCD(), BITS
    energy = BipartiteEnergy(zeros, zeros[:, 0], zeros[0])
    for rate in (1e39, 0.1):
        owner = RBM(2, learner, alpha=0.01, learning_rate=rate, optimizer="sgd", max_iter=5)
        parameters = TrainingParameters.of(owner)
        settings = parameters.settings(learner, energy, Batch(rows))
        model = run_unless_divergent(energy, learner, Batch(rows), settings)
        assert (model is None) == (rate > 1.0)
    monkeypatch.setattr(PCD, "step", fail)
    with pytest.raises(ValueError, match="an error of the learner"):
        run_unless_divergent(energy, learner, Batch(rows), settings)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (ConstantRate(-1.0), r"rate of ConstantRate must be a number > 0; got -1\.0"),
        (StepRate(0.1, drop=0.0), r"drop of StepRate must be a number > 0"),
        (StepRate(0.1, every=0), r"every of StepRate must be an integer >= 1"),
        (InverseRate(a=0.0), r"a of InverseRate must be a number > 0"),
        (InverseRate(b=-1.0), r"b of InverseRate must be a number >= 0"),
        (LinearRate(n_updates=0), r"n_updates of LinearRate must be an integer >= 1"),
        (AdaptiveRate(np.nan), r"rate of AdaptiveRate must be a finite number"),
        (AdaptiveRate(window=1), r"window of AdaptiveRate must be an integer >= 2; got 1"),
        (AdaptiveRate(cosine=2), r"cosine of AdaptiveRate must be a number >= -1 and <= 1"),
        (AdaptiveRate(n_halvings=-1), r"n_halvings of AdaptiveRate must be an integer >= 0"),
        (Momentum(1.0), r"momentum of Momentum must be a number >= 0 and < 1; got 1\.0"),
        (Adam(beta_1=1.0), r"beta_1 of Adam must be a number >= 0 and < 1"),
        (Adam(beta_2=-0.1), r"beta_2 of Adam must be a number >= 0 and < 1"),
        (Adam(epsilon=0.0), r"epsilon of Adam must be a number > 0"),
    ],
)
def test_invalid_steps_raise(step, message):
    name = "optimizer" if isinstance(step, Adam | Momentum) else "learning_rate"
    for model in (table_model(), MRFStructureLearner("pcd", random_state=0)):
        with pytest.raises(ValueError, match=rf"^{message}"):
            model.set_params(**{name: step}).fit(X)


@pytest.mark.parametrize("max_iter", [0, False, -1, 2.5])
def test_energies_need_a_positive_number_of_epochs(max_iter):
    with pytest.raises(ValueError, match=r"^max_iter must be an integer"):
        fit_energy(ZOO["chain"](0), "pcd", np.zeros((4, 6), dtype=int), max_iter=max_iter)


def test_lbfgs_of_an_rbm_converges():
    model = RBM(2, "exact", optimizer="lbfgs", alpha=0.01, max_iter=2000, random_state=0).fit(BITS)
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


class TaskCounter(Killer):
    """Callback that counts the tasks of a fit."""

    def setup(self, estimator, context):
        """Reset the counter."""
        self.n = 0

    def on_fit_task_end(self, estimator, context):
        """Count a task."""
        self.n += 1


def fitted_arrays(model):
    """Return all fitted arrays of a model."""
    if isinstance(model, MRFStructureLearner):
        arrays = [model.edges_, model.coupling_, model.p_values_, model.path_.parameters]
        arrays += [model.edge_frequency_, model.edge_probability_]
        return [*arrays, *model.energy_.theta.values()]
    if isinstance(model, NNMRFClassifier):
        parts = [member_arrays(member) for member in model.members_]
        return [values for part in parts for values in part] + [model.exponents_]
    return [v for density in model.densities_ for v in density.energy_.theta.values()]


def member_arrays(member):
    """Return the arrays of a member of NNMRFClassifier."""
    if member.n_iter:
        return member.networks.theta
    if hasattr(member, "densities"):
        return [member.densities.means, member.densities.variances, member.densities.axes]
    return [member.coef]


def assert_fitted(model, expected):
    for values, expected_values in zip(fitted_arrays(model), expected, strict=True):
        np.testing.assert_array_equal(values, expected_values, strict=True)


def fit_and_count(model, rows):
    """Return the number of tasks of a fit and the fitted arrays."""
    tasks = TaskCounter(0)
    arrays = fitted_arrays(model.set_callbacks(tasks).fit(*rows))
    return tasks.n, arrays


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*have been cancelled:UserWarning")
@pytest.mark.parametrize(
    ("model", "rows", "n_jobs"), [(*GRAPHS[0], None), (*GRAPHS[0], 2), (*GRAPHS[1], None)]
)
def test_structure_learner_resumes_bit_for_bit(model, rows, n_jobs, tmp_path):
    path, model = tmp_path / "fit", clone(model).set_params(n_jobs=n_jobs)
    with parallel_config("threading"):
        n_tasks, whole = fit_and_count(model, rows)
        for n_done in (1, 3):
            model.set_callbacks(Checkpoint(path, 0), Killer(n_tasks - 5 + n_done))
            with pytest.raises(Killed):
                model.fit(*rows)
            assert joblib.load(path)["state"].n_done == n_done
            assert_fitted(model.set_callbacks(Checkpoint(path)).fit(*rows), whole)
            path.unlink()


@pytest.mark.parametrize(("model", "rows"), GRAPHS, ids=["exact", "pcd"])
def test_structure_learner_resumes_after_the_search(model, rows, tmp_path, monkeypatch):
    path, model = tmp_path / "fit", clone(model)
    _, whole = fit_and_count(model, rows)
    with monkeypatch.context() as patch:
        patch.setattr(structure_learner, "select_on_sample", Killer(0, Killed).fail)
        with pytest.raises(Killed):
            model.set_callbacks(Checkpoint(path, 0)).fit(*rows)
    # The search must not run again.
    monkeypatch.setattr(MRFStructureLearner, "_select", Killer(0, Killed).fail)
    tasks = TaskCounter(0)
    model.set_callbacks(Checkpoint(path), tasks).fit(*rows)
    assert tasks.n == 4 + 1
    assert_fitted(model, whole)
    tasks = TaskCounter(0)
    model.set_callbacks(Checkpoint(path), tasks).fit(*rows)
    assert tasks.n == 1  # as the fit in the file is complete
    assert_fitted(model, whole)


def test_unfinished_search_starts_anew(tmp_path):
    model, rows = clone(GRAPHS[0][0]), GRAPHS[0][1]
    _, whole = fit_and_count(model, rows)
    with pytest.raises(Killed):
        model.set_callbacks(Checkpoint(tmp_path / "fit", 0), Killer(2)).fit(*rows)
    assert not (tmp_path / "fit").exists()
    assert_fitted(model.set_callbacks(Checkpoint(tmp_path / "fit")).fit(*rows), whole)


@pytest.mark.long
@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("model", CLASSES, ids=lambda model: type(model).__name__)
def test_classifier_resumes_bit_for_bit(model, n_jobs, tmp_path):
    rows, path, model = (
        (INCOMPLETE, LABELS),
        tmp_path / "fit",
        clone(model).set_params(n_jobs=n_jobs),
    )
    with parallel_config("threading"):
        n_tasks, whole = fit_and_count(model, rows)
        for n_done in (2, n_tasks - 1) if n_jobs is None else (n_tasks - 1,):
            model.set_callbacks(Checkpoint(path, 0), Killer(n_done))
            with pytest.raises(Killed):
                model.fit(*rows)
            done = len(joblib.load(path)["state"]) if path.exists() else 0
            assert done == n_done - 1 if n_jobs is None else done < n_tasks - 1
            tasks = TaskCounter(0)
            assert_fitted(model.set_callbacks(Checkpoint(path), tasks).fit(*rows), whole)
            assert tasks.n == n_tasks - done
            assert_fitted(model.set_callbacks(Checkpoint(path), tasks).fit(*rows), whole)
            assert tasks.n == 1
            path.unlink()
    assert np.isfinite(model.predict_proba(INCOMPLETE)).all()


def test_interrupted_class_is_fitted_again(tmp_path):
    path, model = tmp_path / "fit", clone(CLASSES[0])
    rows = NUMBERS, LABELS
    _, whole = fit_and_count(model, rows)

    def fit_and_interrupt(density, *rows, **weights):
        if density.potentials.max_iter > 1:  # not the brief fit after the interruption
            density.set_callbacks(Killer(2, KeyboardInterrupt))
        return original_fit(density, *rows, **weights)

    original_fit = NNMRFDensity.fit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NNMRFDensity, "fit", fit_and_interrupt)
        with pytest.warns(ConvergenceWarning, match="Interrupted; .* after 2 epochs"):
            model.set_callbacks(Checkpoint(path, 0)).fit(*rows)
    assert not path.exists()
    assert [density.n_iter_ for density in model.densities_] == [2, 1]
    assert np.isfinite(model.predict_log_proba(NUMBERS)).all()
    assert_fitted(model.fit(*rows), whole)


@pytest.mark.parametrize(
    ("model", "rows"), [GRAPHS[0], (CLASSES[1], (NUMBERS, LABELS))], ids=["graph", "classes"]
)
def test_checkpoint_of_other_parts_raises(model, rows, tmp_path):
    model = clone(model).set_callbacks(Checkpoint(tmp_path / "fit"))
    model.fit(*rows)
    whole = fitted_arrays(model)
    weights = np.linspace(1, 2, len(rows[0]))
    for change, other_rows, options in (
        ({}, (rows[0][::-1], *rows[1:]), {}),
        ({}, (2 * rows[0], *rows[1:]), {}),
        ({}, rows, {"sample_weight": weights}),
        ({"random_state": 1}, rows, {}),
        ({"max_iter": 7}, rows, {}),
    ):
        with pytest.raises(ValueError, match="belongs to another fit"):
            clone(model).set_params(**change).fit(*other_rows, **options)
    assert_fitted(clone(model).set_params(n_jobs=2).fit(*rows), whole)
    with pytest.raises(ValueError, match="belongs to another fit"):
        table_model().set_callbacks(Checkpoint(tmp_path / "fit")).fit(X)


def test_ctrl_c_keeps_the_file_of_the_last_complete_part(tmp_path):
    path, model = tmp_path / "fit", clone(GRAPHS[0][0])
    n_tasks, whole = fit_and_count(model, (X,))
    model.set_callbacks(Checkpoint(path, 0), Killer(n_tasks - 5 + 2, KeyboardInterrupt))
    with pytest.warns(ConvergenceWarning, match="Interrupted after 2 of 4 bootstraps"):
        model.fit(X)
    assert not joblib.load(path)["ended"]
    assert_fitted(model.set_callbacks(Checkpoint(path)).fit(X), whole)
    path.unlink()
    model.set_callbacks(Checkpoint(path, 0), Killer(2, KeyboardInterrupt))
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model.fit(X)
    assert not path.exists()  # as the search is incomplete
    model = clone(CLASSES[1]).set_callbacks(Checkpoint(path, 0), Killer(3, KeyboardInterrupt))
    with pytest.warns(ConvergenceWarning, match="Interrupted after 2 of 7 members"):
        model.fit(NUMBERS, LABELS)
    saved = joblib.load(path)
    assert len(saved["state"]) == 2
    assert not saved["ended"]
    model.set_callbacks(Checkpoint(path)).fit(NUMBERS, LABELS)
    assert_fitted(model, fitted_arrays(clone(model).set_callbacks().fit(NUMBERS, LABELS)))


@pytest.mark.parametrize(
    ("name", "search"),
    [("auto", Nodewise(alpha=0.02)), ("exact", Penalized("l1", alpha=0.02))],
    ids=str,
)
def test_interrupted_penalised_search_starts_anew(name, search, tmp_path):
    path, model = tmp_path / "fit", MRFStructureLearner(name, search=search, random_state=0)
    whole = model.fit(X).coupling_
    model.set_callbacks(Checkpoint(path, 0), Killer(2, KeyboardInterrupt))
    with pytest.warns(ConvergenceWarning, match="Interrupted; .* after 2 epochs"):
        model.fit(X)
    assert not path.exists()  # although a later run of the loop was complete
    again = model.set_callbacks(Checkpoint(path)).fit(X).coupling_
    np.testing.assert_array_equal(again, whole, strict=True)


def test_fit_that_a_callback_stops_is_complete(tmp_path):
    class Stopper(TaskCounter):
        def on_fit_task_end(self, estimator, context):
            super().on_fit_task_end(estimator, context)
            return self.n == self.n_epochs

    path, model = tmp_path / "fit", clone(GRAPHS[0][0])
    n_tasks, _ = fit_and_count(model, (X,))
    stopped = fitted_arrays(model.set_callbacks(Stopper(n_tasks - 5 + 2), Checkpoint(path)).fit(X))
    tasks = TaskCounter(0)
    assert_fitted(model.set_callbacks(Checkpoint(path), tasks).fit(X), stopped)
    assert tasks.n == 1


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_killed_classifier_process_resumes_bit_for_bit(n_jobs, tmp_path):
    path, code = (
        tmp_path / "fit",
        (
            "import sys, numpy as np\n"
            "from skmrf import NetworkPotentials, NNMRFBayesClassifier\n"
            "from skmrf.training import Checkpoint\n"
            "rng = np.random.default_rng(0)\n"
            "y = np.arange(600) % 3\n"
            "X = rng.normal(size=(600, 4)) + y[:, None]\n"
            "networks = NetworkPotentials(max_iter=30)\n"
            f"model = NNMRFBayesClassifier(networks, random_state=0, n_jobs={n_jobs})\n"
            "model.set_callbacks(Checkpoint(sys.argv[1], 0)).fit(X, y)\n"
            "np.save(sys.argv[1] + '.npy', model.predict_proba(X))\n"
        ),
    )
    run = [sys.executable, "-W", "ignore", "-c", code, str(path)]
    process = subprocess.Popen(run, start_new_session=True)
    while not path.exists() and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not joblib.load(path)["ended"], "killed too late"
    subprocess.run(run, check=True)
    actual = np.load(f"{path}.npy")
    path.unlink()
    subprocess.run(run, check=True)
    np.testing.assert_array_equal(actual, np.load(f"{path}.npy"))


def test_partial_fit_of_an_rbm_is_faster_than_adam(seed):
    """Centred and scaled gradients learn groups of equal columns in few epochs."""
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.random((2000, 4)) < 0.3, 4, axis=1).astype(int)
    scores = {}
    for optimizer in ("auto", "adam"):
        model = RBM(8, optimizer=optimizer, batch_size=20, random_state=seed)
        for _ in range(4):
            model.partial_fit(X)
        scores[optimizer] = model.score(X)
    assert scores["auto"] > scores["adam"] + 2.0


def test_training_in_the_span_of_wide_rows_continues(seed, tmp_path):
    rng = np.random.default_rng(seed)
    rows, outputs = rng.normal(size=(30, 300)), rng.integers(2, size=(30, 3))
    options = {"alpha": 0.02, "early_stopping": False, "max_iter": 6, "random_state": seed}
    model = CRBMStructuredPredictor(32, **options).fit(rows, outputs)
    whole = model.energy_.theta
    with pytest.raises(Killed):
        model.set_callbacks(Checkpoint(tmp_path / "fit", 0), Killer(4)).fit(rows, outputs)
    model.set_callbacks(Checkpoint(tmp_path / "fit", 0)).fit(rows, outputs)
    for name, values in whole.items():
        np.testing.assert_array_equal(model.energy_.theta[name], values)
    others = rng.normal(size=rows.shape)
    model.set_callbacks().partial_fit(others, outputs)
    assert not np.array_equal(model.energy_.theta["hidden_inputs"], whole["hidden_inputs"])
    assert model.set_params(warm_start=True).fit(others, outputs).n_iter_ > 6
