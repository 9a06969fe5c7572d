"""Tests of checkpoints of fits of many parts: graphs, bootstraps and classes."""

import os
import signal
import subprocess
import sys
import time

import joblib
import numpy as np
import pytest
from joblib import parallel_config
from killed_fits import CLASSES, GRAPHS, LABELS, NUMBERS, SMALL, Killed, Killer, X
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skmrf import DiscreteMRF, MRFStructureLearner, NNMRFDensity
from skmrf.structure import Nodewise, Penalized, bootstrap
from skmrf.training import Checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
GAPS = np.where(np.random.default_rng(3).random(NUMBERS.shape) < 0.1, np.nan, NUMBERS)


class Tasks(Killer):
    """Counts the tasks of a fit."""

    def setup(self, estimator, context):
        self.n = 0

    def on_fit_task_end(self, estimator, context):
        self.n += 1


def found_in(model):
    """Everything that was learned, as arrays."""
    if isinstance(model, MRFStructureLearner):
        found = [model.edges_, model.coupling_, model.p_values_, model.path_.parameters]
        found += [model.edge_frequency_, model.edge_probability_]
        return [*found, *model.energy_.theta.values()]
    members = [] if model.ensemble_ is None else model.ensemble_.members
    energies = [density.energy_ for density in model.densities_] + members
    return [values for energy in energies for values in energy.theta.values()]


def assert_found(model, expected):
    for values, wanted in zip(found_in(model), expected, strict=True):
        np.testing.assert_array_equal(values, wanted, strict=True)


def fit_counting(model, rows):
    """The tasks of a fit, and what it finds."""
    tasks = Tasks(0)
    found = found_in(model.set_callbacks(tasks).fit(*rows))
    return tasks.n, found


@pytest.mark.filterwarnings("ignore:.*have been cancelled:UserWarning")
@pytest.mark.parametrize(
    ("model", "rows", "n_jobs"), [(*GRAPHS[0], None), (*GRAPHS[0], 2), (*GRAPHS[1], None)]
)
def test_graphs_go_on_bit_for_bit(model, rows, n_jobs, tmp_path):
    path, model = tmp_path / "fit", clone(model).set_params(n_jobs=n_jobs)
    with parallel_config("threading"):
        n_tasks, whole = fit_counting(model, rows)
        for n_done in (1, 3):
            model.set_callbacks(Checkpoint(path, 0), Killer(n_tasks - 5 + n_done))
            with pytest.raises(Killed):
                model.fit(*rows)
            assert joblib.load(path)["state"].n_done == n_done
            assert_found(model.set_callbacks(Checkpoint(path)).fit(*rows), whole)
            path.unlink()


@pytest.mark.parametrize(("model", "rows"), GRAPHS, ids=["exact", "pcd"])
def test_a_graph_goes_on_from_the_search(model, rows, tmp_path, monkeypatch):
    path, model = tmp_path / "fit", clone(model)
    _, whole = fit_counting(model, rows)
    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "_select_on_sample", Killer(0, Killed).fail)
        with pytest.raises(Killed):
            model.set_callbacks(Checkpoint(path, 0)).fit(*rows)
    monkeypatch.setattr(MRFStructureLearner, "_select", Killer(0, Killed).fail)  # which is over
    tasks = Tasks(0)
    model.set_callbacks(Checkpoint(path), tasks).fit(*rows)
    assert tasks.n == 4 + 1
    assert_found(model, whole)
    tasks = Tasks(0)
    model.set_callbacks(Checkpoint(path), tasks).fit(*rows)
    assert tasks.n == 1  # the fit had ended
    assert_found(model, whole)


def test_a_graph_that_was_not_found_is_looked_for_anew(tmp_path):
    model, rows = clone(GRAPHS[0][0]), GRAPHS[0][1]
    _, whole = fit_counting(model, rows)
    with pytest.raises(Killed):
        model.set_callbacks(Checkpoint(tmp_path / "fit", 0), Killer(2)).fit(*rows)
    assert not (tmp_path / "fit").exists()
    assert_found(model.set_callbacks(Checkpoint(tmp_path / "fit")).fit(*rows), whole)


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("model", CLASSES, ids=lambda model: model.rule)
def test_classes_go_on_bit_for_bit(model, n_jobs, tmp_path):
    rows, path, model = (GAPS, LABELS), tmp_path / "fit", clone(model).set_params(n_jobs=n_jobs)
    with parallel_config("threading"):
        n_tasks, whole = fit_counting(model, rows)
        for n_done in {2, n_tasks - 1}:
            model.set_callbacks(Checkpoint(path, 0), Killer(n_done))
            with pytest.raises(Killed):
                model.fit(*rows)
            done = len(joblib.load(path)["state"]) if path.exists() else 0
            assert done == n_done - 1 if n_jobs is None else done < n_tasks - 1
            tasks = Tasks(0)
            assert_found(model.set_callbacks(Checkpoint(path), tasks).fit(*rows), whole)
            assert tasks.n == n_tasks - done
            assert_found(model.set_callbacks(Checkpoint(path), tasks).fit(*rows), whole)
            assert tasks.n == 1
            path.unlink()
    assert np.isfinite(model.predict_proba(GAPS)).all()


def test_a_class_cut_short_is_learned_again(tmp_path):
    path, model = tmp_path / "fit", clone(CLASSES[1])
    rows = NUMBERS, LABELS
    _, whole = fit_counting(model, rows)

    def interrupted(density, *given, **weights):
        if density.max_iter > 1:  # a class that is not left in brief
            density.set_callbacks(Killer(2, KeyboardInterrupt))
        return fitted(density, *given, **weights)

    fitted = NNMRFDensity.fit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NNMRFDensity, "fit", interrupted)
        with pytest.warns(ConvergenceWarning, match="Interrupted; .* after 2 epochs"):
            model.set_callbacks(Checkpoint(path, 0)).fit(*rows)
    assert not path.exists()
    assert [density.n_iter_ for density in model.densities_] == [2, 1]
    assert np.isfinite(model.predict_log_proba(NUMBERS)).all()
    assert_found(model.fit(*rows), whole)


@pytest.mark.parametrize(
    ("model", "rows"), [GRAPHS[0], (CLASSES[1], (NUMBERS, LABELS))], ids=["graph", "classes"]
)
def test_parts_of_other_fits_are_told_apart(model, rows, tmp_path):
    model = clone(model).set_callbacks(Checkpoint(tmp_path / "fit"))
    model.fit(*rows)
    whole = found_in(model)
    weights = np.linspace(1, 2, len(rows[0]))
    for change, other, given in (
        ({}, (rows[0][::-1], *rows[1:]), {}),
        ({}, (2 * rows[0], *rows[1:]), {}),
        ({}, rows, {"sample_weight": weights}),
        ({"random_state": 1}, rows, {}),
        ({"max_iter": 7}, rows, {}),
    ):
        with pytest.raises(ValueError, match="is of another fit"):
            clone(model).set_params(**change).fit(*other, **given)
    assert_found(clone(model).set_params(n_jobs=2).fit(*rows), whole)
    with pytest.raises(ValueError, match="is of another fit"):
        DiscreteMRF(**SMALL).set_callbacks(Checkpoint(tmp_path / "fit")).fit(X)


def test_ctrl_c_leaves_the_file_of_the_last_part(tmp_path):
    path, model = tmp_path / "fit", clone(GRAPHS[0][0])
    n_tasks, whole = fit_counting(model, (X,))
    model.set_callbacks(Checkpoint(path, 0), Killer(n_tasks - 5 + 2, KeyboardInterrupt))
    with pytest.warns(ConvergenceWarning, match="Interrupted after 2 of 4 bootstraps"):
        model.fit(X)
    assert not joblib.load(path)["ended"]
    assert_found(model.set_callbacks(Checkpoint(path)).fit(X), whole)
    path.unlink()
    model.set_callbacks(Checkpoint(path, 0), Killer(2, KeyboardInterrupt))
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model.fit(X)
    assert not path.exists()  # half a search says nothing
    model = clone(CLASSES[1]).set_callbacks(Checkpoint(path, 0), Killer(2 + 3, KeyboardInterrupt))
    with pytest.warns(ConvergenceWarning, match="Interrupted after 2 of 15 members"):
        model.fit(NUMBERS, LABELS)
    on_file = joblib.load(path)
    assert len(on_file["state"]) == 2 + 2
    assert not on_file["ended"]
    model.set_callbacks(Checkpoint(path)).fit(NUMBERS, LABELS)
    assert_found(model, found_in(clone(model).set_callbacks().fit(NUMBERS, LABELS)))


@pytest.mark.parametrize(
    ("name", "search"),
    [("auto", Nodewise(alpha=0.02)), ("exact", Penalized("l1", alpha=0.02))],
    ids=str,
)
def test_a_penalised_search_cut_short_is_made_again(name, search, tmp_path):
    path, model = tmp_path / "fit", MRFStructureLearner(name, search=search, random_state=0)
    whole = model.fit(X).coupling_
    model.set_callbacks(Checkpoint(path, 0), Killer(2, KeyboardInterrupt))
    with pytest.warns(ConvergenceWarning, match="Interrupted; .* after 2 epochs"):
        model.fit(X)
    assert not path.exists()  # a later run of the loop was not interrupted
    again = model.set_callbacks(Checkpoint(path)).fit(X).coupling_
    np.testing.assert_array_equal(again, whole, strict=True)


def test_bootstraps_that_a_callback_ended_are_a_fit_that_ended(tmp_path):
    class Enough(Tasks):
        def on_fit_task_end(self, estimator, context):
            super().on_fit_task_end(estimator, context)
            return self.n == self.n_epochs

    path, model = tmp_path / "fit", clone(GRAPHS[0][0])
    n_tasks, _ = fit_counting(model, (X,))
    some = found_in(model.set_callbacks(Enough(n_tasks - 5 + 2), Checkpoint(path)).fit(X))
    tasks = Tasks(0)
    assert_found(model.set_callbacks(Checkpoint(path), tasks).fit(X), some)
    assert tasks.n == 1


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_classifier_whose_process_is_killed(n_jobs, tmp_path):
    path, code = (
        tmp_path / "fit",
        (
            "import sys, numpy as np\n"
            "from skmrf import NNMRFClassifier\n"
            "from skmrf.training import Checkpoint\n"
            "rng = np.random.default_rng(0)\n"
            "y = np.arange(600) % 3\n"
            "X = rng.normal(size=(600, 4)) + y[:, None]\n"
            f"model = NNMRFClassifier(max_iter=30, random_state=0, n_jobs={n_jobs})\n"
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
    found = np.load(f"{path}.npy")
    path.unlink()
    subprocess.run(run, check=True)
    np.testing.assert_array_equal(found, np.load(f"{path}.npy"))
