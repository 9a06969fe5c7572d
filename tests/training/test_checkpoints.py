"""Tests of fits that are killed and resumed from a checkpoint file."""

import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from threading import Barrier

import joblib
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.utils.parallel import Parallel, delayed
from zoo import TABLE_LEARNERS

from skmrf import (
    CRF,
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFStructureLearner,
    NetworkPotentials,
    NNMRFBayesClassifier,
    NNMRFClassifier,
    NNMRFDensity,
)
from skmrf.learners import PTT
from skmrf.training import Checkpoint, EarlyStopping, ScoreMonitor, device
from skmrf.training.schedules import LinearRate

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Killed(BaseException):
    """Error that ends a fit; no code of the package catches it."""


class Killer:
    """Callback that ends a fit with an error after some epochs."""

    def __init__(self, n_epochs, error=Killed):
        self.n_epochs = n_epochs
        self.error = error

    def setup(self, estimator, context):
        self.left = self.n_epochs

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.left -= 1
        if not self.left:
            raise self.error

    def fail(self, *_, **__):
        raise self.error


def table(seed, n_rows=120):
    rng = np.random.default_rng(seed)
    X = rng.integers(2, size=(n_rows, 5))
    X[:, 1] ^= X[:, 0] & rng.integers(2, size=n_rows)
    return X


X = table(0)
HOLES = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
SMALL = {"max_iter": 6, "batch_size": 40, "random_state": 0}


def table_model(cliques="pairwise", **options):
    """Return a DiscreteMRF with few epochs, by default of PCD without a penalty."""
    return DiscreteMRF(cliques, **{"learner": "pcd", "alpha": 0.0} | SMALL | options)


NUMBERS = np.random.default_rng(0).normal(size=(60, 2))
LABELS = (NUMBERS[:, 0] + 0.5 * np.random.default_rng(2).normal(size=60) > 0).astype(int)
SEQUENCES = NUMBERS.reshape(12, 5, 2)
SEQUENCE_LABELS = LABELS.reshape(12, 5)

GRAPHS = [
    (MRFStructureLearner("exact", n_bootstraps=4, random_state=0), (X,)),
    (MRFStructureLearner("pcd", n_bootstraps=4, max_iter=5, random_state=0), (HOLES[:, :3],)),
]
CLASSES = [
    NNMRFBayesClassifier(
        NetworkPotentials(node_layers=(3,), edge_layers=(3,), max_iter=3), random_state=0
    ),
    NNMRFClassifier(max_iter=3, random_state=0),
]


FITS = [
    *((table_model(learner=name), (X,)) for name in sorted(TABLE_LEARNERS)),
    *(
        (DiscreteMRF(learner=name, penalty=penalty, alpha=0.01), (X,))
        for name in ("exact", "pseudo-likelihood")
        for penalty in ("l1", "l2", "group-l1")
    ),
    (table_model(learner="exact", early_stopping=True, max_iter=30, batch_size=256), (HOLES,)),
    (BoltzmannMachine("exact", states=(0, 1), alpha=0.01), (X,)),
    (RBM(2, "exact", optimizer="lbfgs", alpha=0.01, max_iter=8, random_state=0), (X[:, :4],)),
    (
        CRBMStructuredPredictor(learner="lr", optimizer="lbfgs", alpha=0.0, tol=1e-12),
        (X[:, :3], X[:, 3:]),
    ),
    (
        NNMRFDensity(
            NetworkPotentials(learner="grid", optimizer="lbfgs", max_iter=6), random_state=0
        ),
        (NUMBERS[:, :1],),
    ),
    (table_model(), (HOLES,)),
    (table_model(optimizer="adam", learning_rate="inverse"), (X,)),
    (table_model(learner="exact", optimizer="momentum"), (X,)),
    (table_model(penalty="l1", alpha=0.01), (X,)),
    (table_model(early_stopping=True), (X,)),
    (table_model(MRFStructureLearner("exact")), (X,)),
    pytest.param(BoltzmannMachine(states=(0, 1), **SMALL), (X,), marks=pytest.mark.long),
    pytest.param(RBM(3, early_stopping=True, **SMALL), (X,), marks=pytest.mark.long),
    (RBM(3, "pcd", alpha=0.01, **SMALL), (sp.csr_array(X),)),
    (CRBMStructuredPredictor(3, **SMALL), (X[:, :3], X[:, 3:])),
    (CRBMStructuredPredictor(3, "mssvm", early_stopping=True, **SMALL), (X[:, :3], X[:, 3:])),
    (NNMRFDensity(NetworkPotentials(max_iter=6, batch_size=40), random_state=0), (NUMBERS,)),
    (
        NNMRFDensity(
            NetworkPotentials("tree", density="mrf", early_stopping=True, max_iter=6),
            random_state=0,
        ),
        (NUMBERS,),
    ),
    (CRF(optimizer="adam", alpha=0.1, max_iter=6, random_state=0), (SEQUENCES, SEQUENCE_LABELS)),
]


def copy_theta(model):
    return {k: v.copy() for k, v in model.energy_.theta.items()}


def assert_same(model, theta):
    for name, values in theta.items():
        np.testing.assert_array_equal(model.energy_.theta[name], values, strict=True)


@pytest.mark.parametrize(("model", "rows"), FITS, ids=range(len(FITS)))
def test_killed_fits_resume_bit_for_bit(model, rows, tmp_path):
    weights = {"sample_weight": np.linspace(0, 2, rows[0].shape[0])}
    model.set_callbacks().fit(*rows, **weights)
    whole, history = copy_theta(model), model.history_
    assert model.n_iter_ > 4
    killed = [Checkpoint(tmp_path / "fit", 0), Killer(4)]
    with pytest.raises(Killed):
        model.set_callbacks(*killed).fit(*rows, **weights)
    assert "_checkpoint" not in vars(model)
    model.set_callbacks(killed[0]).fit(*rows, **weights)
    assert_same(model, whole)
    assert model.history_ == history
    if hasattr(model, "sample") and not isinstance(model, CRF):
        again = model.sample(5, random_state=0)
        np.testing.assert_array_equal(again, model.fit(*rows, **weights).sample(5, random_state=0))
    assert_same(model, whole)  # from the file of the complete fit
    model.set_callbacks()


@pytest.mark.long
def test_killed_process_resumes_bit_for_bit(tmp_path):
    path, code = (
        tmp_path / "fit",
        (
            "import sys, numpy as np\n"
            "from skmrf import RBM\n"
            "from skmrf.training import Checkpoint\n"
            "X = np.random.default_rng(0).integers(2, size=(500, 20))\n"
            "model = RBM(30, 'pcd', alpha=0.01, random_state=0, max_iter=60)\n"
            "model.set_callbacks(Checkpoint(sys.argv[1], 0)).fit(X)\n"
            "np.save(sys.argv[1] + '.npy', model.components_)\n"
        ),
    )
    run = [sys.executable, "-W", "ignore", "-c", code, str(path)]
    process = subprocess.Popen(run)
    while not path.exists() and process.poll() is None:
        time.sleep(0.001)
    time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    epoch = joblib.load(path)["state"].epoch
    assert 0 < epoch < 60, "killed too late"
    subprocess.run(run, check=True)
    rows = np.random.default_rng(0).integers(2, size=(500, 20))
    whole = RBM(30, "pcd", alpha=0.01, random_state=0, max_iter=60).fit(rows)
    np.testing.assert_array_equal(np.load(f"{path}.npy"), whole.components_)


def test_resume_uses_the_generator_in_the_file(tmp_path):
    rng = np.random.default_rng(5)
    model = table_model(early_stopping=True, batch_size=256, random_state=rng)
    whole = copy_theta(model.fit(X))
    model.set_params(random_state=np.random.default_rng(5))
    with pytest.raises(Killed):
        model.set_callbacks(Checkpoint(tmp_path / "fit", 0), Killer(3)).fit(X)
    model.set_params(random_state=np.random.default_rng(5))
    assert_same(model.set_callbacks(Checkpoint(tmp_path / "fit")).fit(X), whole)


def test_resume_without_a_seed_holds_out_the_same_rows(tmp_path):
    path = tmp_path / "fit"
    model = table_model(early_stopping=True, batch_size=256, random_state=None)
    with pytest.raises(Killed):
        model.set_callbacks(Checkpoint(path, 0), Killer(3)).fit(X)
    killed = path.read_bytes()
    model.set_callbacks(Checkpoint(path))
    first, seed, history = copy_theta(model.fit(X)), model._seed, model.history_
    path.write_bytes(killed)
    assert_same(model.fit(X), first)
    assert (model._seed, model.history_) == (seed, history)
    assert len(history["validation_score"]) == 6


class ChangingStructure(BaseEstimator):
    """Structure estimator that selects given edges one after the other."""

    edges = iter([[0, 1], [0, 1], [2, 3]])

    def fit(self, X, y=None, sample_weight=None):
        """Select the next edge."""
        self.edges_ = np.array([next(self.edges)])
        return self

    def __init__(self, categories=None, random_state=None):
        self.categories = categories
        self.random_state = random_state


def test_checkpoint_of_another_graph_raises(tmp_path):
    model = table_model(ChangingStructure()).set_callbacks(Checkpoint(tmp_path / "fit"))
    model.fit(X).fit(X)
    with pytest.raises(ValueError, match="belongs to another fit"):
        model.fit(X)


def test_interrupted_structure_search_writes_no_file(tmp_path):
    search = MRFStructureLearner("exact").set_callbacks(Killer(2, KeyboardInterrupt))
    model = table_model(search).set_callbacks(Checkpoint(tmp_path / "fit", 0))
    with pytest.warns(ConvergenceWarning, match="Interrupted; .* after 2 epochs"):
        model.fit(X)
    assert not (tmp_path / "fit").exists()  # as it would not match the complete graph
    search.set_callbacks()
    actual = copy_theta(model.fit(X))
    assert_same(model.fit(X), actual)


def test_ctrl_c_keeps_the_file_of_the_last_complete_epoch(tmp_path):
    path = tmp_path / "fit"
    model = RBM(3, alpha=0.01, **SMALL)
    whole = copy_theta(model.fit(X))
    model.set_callbacks(Checkpoint(path, 0), Killer(4, KeyboardInterrupt))
    with pytest.warns(ConvergenceWarning, match="Interrupted; .* after 4 epochs"):
        model.fit(X)
    assert model.n_iter_ == 4
    assert not joblib.load(path)["state"].interrupted
    assert_same(model.set_callbacks(Checkpoint(path)).fit(X), whole)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_solvers_resume_after_each_iteration(penalty, tmp_path):
    path = tmp_path / "fit"
    model = DiscreteMRF(learner="exact", penalty=penalty, alpha=0.01, max_iter=5)
    whole = copy_theta(model.fit(X))
    for n_epochs in (1, 2, 5):
        with pytest.raises(Killed):
            model.set_callbacks(Checkpoint(path, 0), Killer(n_epochs)).fit(X)
        assert joblib.load(path)["state"].epoch == n_epochs
        assert_same(model.set_callbacks(Checkpoint(path)).fit(X), whole)
        assert model.n_iter_ == 5
        path.unlink()


def test_solver_resumes_after_repeated_kills(tmp_path):
    model = DiscreteMRF(learner="exact", alpha=0.01)
    whole = copy_theta(model.fit(X))
    assert model.n_iter_ > 4
    model.set_callbacks(Checkpoint(tmp_path / "fit", 0), Killer(2))
    for _ in range((model.n_iter_ - 1) // 2):
        with pytest.raises(Killed):
            model.fit(X)
    assert_same(model.set_callbacks(Checkpoint(tmp_path / "fit")).fit(X), whole)


def test_solver_state_is_dropped_at_the_end(tmp_path):
    path = tmp_path / "fit"
    model = DiscreteMRF(learner="exact", alpha=0.01, warm_start=True)
    with pytest.raises(Killed):
        model.set_callbacks(Checkpoint(path, 0), Killer(3)).fit(X)
    assert len(joblib.load(path)["state"].optimizer.pairs) == 3
    model.set_callbacks(Checkpoint(path)).fit(X)
    assert joblib.load(path)["state"].optimizer is None
    assert model._loop_state.optimizer is None


def test_checkpoint_of_another_fit_raises(tmp_path):
    path = tmp_path / "fit"
    rows = X.astype(str)
    model = table_model().set_callbacks(Checkpoint(path))
    model.fit(rows, sample_weight=np.ones(len(rows)))
    before = copy_theta(model)
    for change, X_other, weights in (
        ({}, rows[::-1], np.ones(len(rows))),
        ({}, np.char.add(rows, "x"), np.ones(len(rows))),
        ({}, rows, np.linspace(1, 2, len(rows))),
        ({"alpha": 0.1}, rows, np.ones(len(rows))),
        ({"learner": TABLE_LEARNERS["pcd"](n_chains=7)}, rows, np.ones(len(rows))),
        ({"cliques": "independent"}, rows, np.ones(len(rows))),
        ({"random_state": 1}, rows, np.ones(len(rows))),
    ):
        other = table_model(**change).set_callbacks(Checkpoint(path))
        with pytest.raises(ValueError, match=r"belongs to another fit: .*Delete the file, or give"):
            other.fit(X_other, sample_weight=weights)
        assert not hasattr(other, "energy_")
    same = table_model(n_jobs=2).set_callbacks(Checkpoint(path))
    assert_same(same.fit(rows, sample_weight=np.ones(len(rows))), before)


def test_damaged_files_raise(tmp_path, seed):
    """A flipped bit, zeroed bytes and appended bytes are detected before anything is unpickled."""
    path = tmp_path / "fit"
    model = table_model().set_callbacks(Checkpoint(path, 0))
    model.fit(X)
    intact = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    rng = np.random.default_rng(seed)
    for position in rng.integers(len(intact), size=40):
        flipped, zeroed = intact.copy(), intact.copy()
        flipped[position] ^= 1 << rng.integers(8)
        zeroed[position : position + 50] = 0
        for damaged in (flipped, zeroed, np.append(intact, flipped[position])):
            if np.array_equal(damaged, intact):
                continue
            path.write_bytes(damaged.tobytes())
            with pytest.raises(ValueError, match=r"fit is not a checkpoint file .* damaged"):
                model.fit(X)
    path.write_bytes(intact.tobytes())
    assert model.fit(X).n_iter_ == 6


def test_invalid_files_and_paths_raise(tmp_path):
    path = tmp_path / "fit"
    model = table_model().set_callbacks(Checkpoint(path, 0))
    model.fit(X)
    whole = path.read_bytes()
    half = whole[: len(whole) // 2]
    for content in (b"", b"a,b\n1,2\n", half, pickle.dumps([1, 2]), pickle.dumps({"state": 1})):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="fit is not a checkpoint file"):
            model.fit(X)
    path.unlink()
    (tmp_path / "fit.1-1.part").write_bytes(whole[:99])  # killed while it wrote
    assert model.fit(X).n_iter_ == 6
    model.set_callbacks(Checkpoint(tmp_path / "no such folder" / "fit"))
    with pytest.raises(FileNotFoundError, match=r"no such folder, does not exist; create it first"):
        model.fit(X)
    model.set_callbacks(Checkpoint(tmp_path))
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        model.fit(X)
    model.set_callbacks(Checkpoint(path), Checkpoint(tmp_path / "other"))
    with pytest.raises(ValueError, match="A fit takes one Checkpoint"):
        model.fit(X)


def test_relative_paths_are_resolved_at_creation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = table_model().set_callbacks(Checkpoint("fit"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    model.fit(X)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["fit"]


def test_failed_writes_warn_and_leave_no_broken_file(tmp_path, monkeypatch):
    """The fit returns its model, for example if the disk is full."""
    path = tmp_path / "fit"
    whole = copy_theta(table_model().fit(X))
    model = table_model().set_callbacks(Checkpoint(path, 0))
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):

        def fail(state, file, error=error):
            file.write(b"half")
            if isinstance(error, OSError) or state["ended"]:
                raise error

        monkeypatch.setattr(joblib, "dump", fail)
        with pytest.warns(UserWarning, match="could not be written; the fit continues without it"):
            assert_same(model.fit(X), whole)
        assert not list(tmp_path.glob("*.part"))
        path.unlink(missing_ok=True)


def test_clones_can_share_a_file(tmp_path, monkeypatch):
    path, dump, barrier = tmp_path / "fit", joblib.dump, Barrier(2, timeout=60)

    def dump_together(state, file):
        dump(state, file)
        if state["state"].epoch == 1:
            barrier.wait()  # so that both temporary files exist before they are renamed

    monkeypatch.setattr(joblib, "dump", dump_together)
    model = table_model().set_callbacks(Checkpoint(path, 0))
    tasks = [delayed(clone(model).fit)(X) for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = Parallel(2, backend="threading")(tasks)
    assert_same(fitted[0], copy_theta(fitted[1]))
    assert_same(model.fit(X), copy_theta(fitted[0]))
    assert [file.name for file in tmp_path.iterdir()] == ["fit"]


def test_unsupported_estimators_and_parameters_raise():
    search = GridSearchCV(DiscreteMRF(), {"alpha": [0.0, 0.1]}).set_callbacks(Checkpoint("nowhere"))
    with pytest.raises(TypeError, match="estimators of skmrf only; got a GridSearchCV"):
        search.fit(X)
    with pytest.raises(ValueError, match="interval must be a number >= 0; got -1"):
        Checkpoint("nowhere", -1)


def test_interval_limits_the_number_of_writes(tmp_path):
    path, exists = tmp_path / "fit", []

    class Recorder(Killer):
        def on_fit_task_end(self, estimator, context):
            exists.append(path.exists())

    table_model().set_callbacks(Checkpoint(path), Recorder(0)).fit(X)
    assert exists == [False] * 6 + [True]
    path.unlink()
    exists.clear()
    clone(CLASSES[0]).set_callbacks(Checkpoint(path), Recorder(0)).fit(NUMBERS, LABELS)
    assert exists == [False] * 2 + [True]
    path.unlink()
    exists.clear()
    clone(GRAPHS[0][0]).set_callbacks(Checkpoint(path), Recorder(0)).fit(X)
    assert exists == [False] * (len(exists) - 1) + [True]
    table_model().set_callbacks(Checkpoint(tmp_path / "other")).partial_fit(X)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("patience", [0, -1, 2.5, None])
def test_patience_must_be_a_positive_integer(patience):
    with pytest.raises(ValueError, match="patience must be"):
        EarlyStopping(patience=patience)


def test_checkpoint_with_other_callbacks(tmp_path):
    monitor, stopping = ScoreMonitor(X), EarlyStopping(X, patience=2, min_delta=10.0)
    model = table_model().set_callbacks(monitor, Checkpoint(tmp_path / "fit"), stopping)
    model.fit(X)
    assert len(monitor.scores) == model.n_iter_ == 3
    assert joblib.load(tmp_path / "fit")["state"].epoch == 3
    stopped = copy_theta(model)
    assert_same(model.fit(X), stopped)  # from the file of the complete fit
    assert model.n_iter_ == 3
    assert monitor.scores == []


@pytest.mark.long
def test_warm_starts_resume(tmp_path):
    path = tmp_path / "fit"
    twice = copy_theta(RBM(3, warm_start=True, **SMALL).fit(X).fit(X))
    model = RBM(3, warm_start=True, **SMALL).fit(X)
    model.set_callbacks(Checkpoint(path, 0), Killer(3))
    with pytest.raises(Killed):
        model.fit(X)
    assert np.isfinite(model.score(X))  # scores between two fits have no effect
    model.set_callbacks(Checkpoint(path))
    assert_same(model.fit(X), twice)
    assert model.n_iter_ == 12
    with pytest.raises(ValueError, match=r"belongs to another fit: .*, initial values"):
        model.fit(X)  # a third time, from other initial values
    assert_same(model, twice)


def test_checkpoint_of_equal_parameters_of_other_types_resumes(tmp_path):
    path = tmp_path / "fit"
    graph = nx.path_graph(5)
    options = {"warm_start": True, "alpha": 0.1, "categories": [[0, 1]] * 5}
    model = table_model(graph, **options).set_callbacks(Checkpoint(path, 0), Killer(3))
    with pytest.raises(Killed):
        model.fit(X)
    assert len(graph.edges) == len(graph.adj) - 1
    options |= {"alpha": np.float64(0.1), "categories": [[0, 1] for _ in range(5)]}
    again = table_model(graph, **options).set_callbacks(Checkpoint(path))
    actual = copy_theta(again.fit(np.asfortranarray(X)))
    assert again.n_iter_ == 6
    assert_same(table_model(graph, **options).fit(X), actual)
    other = table_model(nx.star_graph(4), **options).set_callbacks(Checkpoint(path))
    with pytest.raises(ValueError, match="belongs to another fit"):
        other.fit(X)


# Devices -----------------------------------------------------------------------------------

NOISE = np.random.default_rng(1).random((300, 6)) < 0.15
SPINS = np.random.default_rng(0).integers(0, 2, (300, 1)) ^ NOISE.astype(int)


def device_fit(kind="pairs", **options):
    """Return an estimator that is fitted quickly on the default device of JAX."""
    pytest.importorskip("jax")
    given = {"alpha": 0.01, "batch_size": 100, "device": "jax", "random_state": 0} | options
    if kind == "rbm":
        return RBM(3, **given)
    return BoltzmannMachine(n_components=0, states=(0, 1), **given)


def check_same_fits(found, expected):
    """Check that two fits have the same history and parameters."""
    assert found.n_iter_ == expected.n_iter_
    for name, column in expected.history_.items():
        assert_allclose(found.history_[name], column, rtol=1e-6, atol=1e-6)
    for name, values in expected.energy_.theta.items():
        assert_allclose(found.energy_.theta[name], values, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "learner", "X"),
    [
        ("rbm", "pcd", SPINS),
        pytest.param("pairs", PTT(n_chains=60, max_rungs=4), SPINS, marks=pytest.mark.long),
        pytest.param("pairs", "pcd", np.where(NOISE, np.nan, SPINS), marks=pytest.mark.long),
    ],
)
def test_fits_on_a_device_resume(kind, learner, X, tmp_path):
    """A fit that was killed and is resumed has the model of an uninterrupted fit."""
    path = tmp_path / "fit.joblib"
    model = device_fit(kind, max_iter=6, learner=learner)
    with pytest.raises(Killed):
        clone(model).set_callbacks(Checkpoint(path, interval=0), Killer(2)).fit(X)
    assert b"jaxlib" not in path.read_bytes()
    resumed = clone(model).set_callbacks(Checkpoint(path, interval=0)).fit(X)
    check_same_fits(resumed, model.fit(X))


@pytest.mark.parametrize(
    ("max_iter", "batch_size"), [(40, 100), pytest.param(None, 20, marks=pytest.mark.long)]
)
def test_several_epochs_in_a_call(max_iter, batch_size, monkeypatch):
    """Calls of several epochs have the results of single ones, also if training ends early."""
    numbers, call = [], device.DeviceUpdates._call

    def record(self, batches, words, n_epochs):
        numbers.append(n_epochs)
        return call(self, batches, words, n_epochs)

    monkeypatch.setattr(device.DeviceUpdates, "_call", record)
    monkeypatch.setattr(device, "CALL_SECONDS", np.inf)
    given = {"max_iter": max_iter, "batch_size": batch_size, "warm_start": True}
    model = device_fit("rbm", learning_rate=LinearRate(0.1, 70), **given)
    single = clone(model).set_callbacks(ScoreMonitor(scoring=lambda *_: 0.0)).fit(SPINS)
    assert set(numbers) == {1}
    several = clone(model).fit(SPINS)
    assert max(numbers) > 1
    check_same_fits(several, single)
    # A second fit continues with the same random numbers.
    check_same_fits(several.fit(SPINS), single.fit(SPINS))


def test_ctrl_c_keeps_all_epochs_of_a_call(monkeypatch):
    """The history has the epochs that the device has completed when Ctrl-C stops training."""
    calls, read = [], device.DeviceUpdates._read

    def interrupted(self, *args):
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return read(self, *args)

    model = device_fit("rbm", max_iter=40)
    monkeypatch.setattr(device, "CALL_SECONDS", np.inf)
    monkeypatch.setattr(device.DeviceUpdates, "_read", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    try:
        with pytest.warns(ConvergenceWarning, match="Interrupted"):
            stopped = clone(model).fit(SPINS)
    finally:
        signal.signal(signal.SIGINT, before)
    monkeypatch.undo()
    assert stopped.n_iter_ == 1 + device.MAX_TOGETHER
    check_same_fits(stopped, model.set_params(max_iter=stopped.n_iter_).fit(SPINS))
