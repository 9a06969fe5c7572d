"""Tests of Ctrl-C (in kernels, in queries, in fits and in callbacks) and of progress messages."""

import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.exceptions import ConvergenceWarning

from skmrf import (
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
from skmrf._kernels.ordering import adjacency_bits, greedy_order
from skmrf._kernels.tables import incidence
from skmrf._utils import interrupts
from skmrf._utils.interrupts import InterruptLater
from skmrf.energies import PairwiseEnergy
from skmrf.estimators import _conditional_training
from skmrf.inference import map_assignment
from skmrf.learners import MLEBP
from skmrf.structure import Penalized, pairwise
from skmrf.training import Checkpoint, EarlyStopping, ScoreMonitor, reports
from skmrf.training.checkpoints import FileCheckpoint

FITS = """
import signal, sys, warnings
import numpy as np
from skmrf import DiscreteMRF

warnings.simplefilter("ignore")
rng = np.random.default_rng(int(sys.argv[1]))
X = rng.integers(2, size=(200, 12))
settings = {"alpha": 0.0, "max_iter": 400, "optimizer": "sgd", "average": False, "random_state": 0}
DiscreteMRF(learner="pcd", **settings | {"max_iter": 2}).fit(X)
signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGINT))
for _ in range(8):
    signal.setitimer(signal.ITIMER_PROF, rng.uniform(0.01, 0.06))
    model = DiscreteMRF(learner="pcd", **settings).fit(X)
    signal.setitimer(signal.ITIMER_PROF, 0)
    assert model.n_iter_ == len(model.history_.get("gradient_rms", []))
    assert np.isfinite(model.score_samples(X[:3])).all()
print("whole")
"""


def press():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def run_nested_blocks(done, times):
    """Press Ctrl-C at the start of a nested block."""
    with InterruptLater():
        with InterruptLater():
            for _ in range(times):
                press()
            done.append("inner")
        done.append("outer")


@pytest.mark.parametrize("times", [1, 2])
def test_interrupt_waits_for_the_outermost_block(times):
    """Check Ctrl-C pressed once, and twice at the same moment as some terminals do."""
    done = []
    with pytest.raises(KeyboardInterrupt):
        run_nested_blocks(done, times)
    assert done == ["inner", "outer"]


def test_second_interrupt_is_immediate(monkeypatch):
    monkeypatch.setattr(interrupts, "SECOND_PRESS_DELAY", -1.0)
    done = []
    with pytest.raises(KeyboardInterrupt):
        run_nested_blocks(done, 2)
    assert done == []


def test_errors_take_precedence():
    def fails():
        with InterruptLater():
            press()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()


def test_custom_handlers_are_kept():
    heard = []

    def mine(number, _frame):
        heard.append(number)

    signal.signal(signal.SIGINT, mine)
    with InterruptLater():
        press()
        assert heard == [signal.SIGINT]
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is mine


def test_other_threads_are_unaffected():
    kept = []

    def work():
        with InterruptLater() as later:
            kept.append(later.is_active)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert kept == [False]


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer of POSIX")
def test_interrupted_fit_is_consistent(seed):
    """Check an interrupted fit, which without the delay crashes or is inconsistent."""
    run = [sys.executable, "-c", FITS, str(seed)]
    found = subprocess.run(run, capture_output=True, text=True, timeout=300)
    assert (found.returncode, found.stdout) == (0, "whole\n"), found.stderr[-2000:]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer of POSIX")
def test_interrupted_kernels_raise_keyboard_interrupt():
    """Functions that return arrays of compiled code raise nothing but KeyboardInterrupt."""
    cliques = (np.array([0, 2, 4]), np.array([0, 1, 1, 2]))
    free, log_states, rank = np.ones(3, dtype=bool), np.zeros(3), np.arange(3.0)
    raised = set()

    def call_for(seconds):
        end = time.monotonic() + seconds
        is_first = True
        while is_first or time.monotonic() < end:
            is_first = False
            incidence(*cliques, np.array([1, 1, 1, 1]), 3)
            bits = adjacency_bits(*cliques, free, 3)
            greedy_order(bits, free, log_states, np.ones(3), rank, 1.0)

    call_for(0.0)  # compile
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    for k in range(300):
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-3 + 1e-6 * k)
            call_for(60.0)
        except BaseException as error:
            raised.add(type(error))
    signal.signal(signal.SIGALRM, before)
    assert raised == {KeyboardInterrupt}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer of POSIX")
@pytest.mark.parametrize("kind", ["binary", "tables"])
def test_long_annealing_is_interrupted_soon(kind):
    """Ctrl-C during 200,000 sweeps takes effect within 0.2 seconds of processor time."""
    energy = PairwiseEnergy(np.ones((50, 50)) - np.eye(50), np.zeros(50))
    energy = energy if kind == "binary" else energy.factor_graph()
    pressed = []

    def interrupt(*_):
        pressed.append(time.process_time())
        signal.raise_signal(signal.SIGINT)

    map_assignment(energy, method="annealing", n_sweeps=1)  # compile
    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        map_assignment(energy, method="annealing", n_sweeps=200_000)
    assert time.process_time() - pressed[0] < 0.2
    signal.signal(signal.SIGVTALRM, before)


# Fits and callbacks ------------------------------------------------------------------------------


RNG = np.random.default_rng(0)
X = RNG.integers(2, size=(60, 4))
X[:, 1] ^= X[:, 0] & RNG.integers(2, size=60)
NUMBERS = RNG.normal(size=(60, 2)) + X[:, :2]
LABELS = X[:, 0]
FEW = {"max_iter": 6, "random_state": 0}
TABLES = {"learner": "pcd", "alpha": 0.0} | FEW
SMALL = {"node_layers": (3,), "edge_layers": (3,)}
CASES = {
    "discrete": (DiscreteMRF(**TABLES), (X,)),
    "exact": (DiscreteMRF(learner="exact", alpha=1e-3), (X,)),
    "boltzmann": (BoltzmannMachine(states=(0, 1), **FEW), (X,)),
    "rbm": (RBM(3, **FEW), (X,)),
    "crbm": (CRBMStructuredPredictor(3, **FEW), (X[:, :2], X[:, 2:])),
    "density": (NNMRFDensity(NetworkPotentials(**SMALL), random_state=0), (NUMBERS,)),
    "structure": (MRFStructureLearner("exact", n_bootstraps=8, random_state=0), (X,)),
    "with_structure": (DiscreteMRF(MRFStructureLearner("exact"), **TABLES), (X,)),
    "classifier": (
        NNMRFBayesClassifier(NetworkPotentials(max_iter=2, **SMALL), random_state=0),
        (NUMBERS, LABELS),
    ),
}
pytestmark = pytest.mark.filterwarnings("ignore:Learning had not converged")
all_cases = pytest.mark.parametrize("name", CASES)


class CtrlC:
    """Callback that records the names of tasks and raises a KeyboardInterrupt at one of them.

    The tasks of a fit are counted from 1; the fit itself is task 0.
    """

    def __init__(self, at=None):
        self.at = at

    def setup(self, estimator, context):
        """Clear the names."""
        self.names = []

    def teardown(self, estimator, context):
        """Do nothing."""

    def on_fit_task_begin(self, estimator, context):
        """Record the name of the task, or interrupt."""
        self.names.append(context.task_name)
        if len(self.names) - 1 == self.at:
            raise KeyboardInterrupt

    def on_fit_task_end(self, estimator, context):
        """Do nothing."""


def check_usable(model, name):
    """Check that scores and predictions are finite."""
    if name == "structure":
        assert np.isfinite(model.coupling_).all()
        assert np.isfinite(model.score(X))
    elif name in ("crbm", "classifier"):
        rows, targets = CASES[name][1]
        assert 0 <= model.score(rows, targets) <= 1
        assert np.isfinite(model.predict_proba(rows)).all()
    else:
        assert np.isfinite(model.score_samples(*CASES[name][1])).all()


@all_cases
def test_ctrl_c_leaves_a_usable_estimator(name):
    model, rows = CASES[name]
    model = clone(model)
    at = {"structure": 2, "classifier": 2, "crbm": 2}.get(name, 3)
    model.set_callbacks(CtrlC(at))
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model.fit(*rows)
    check_usable(model, name)
    model.set_callbacks().fit(*rows)
    check_usable(model, name)


@all_cases
@pytest.mark.long
def test_progress_bar_shows_the_estimators(name, capsys):
    model, rows = CASES[name]
    clone(model).set_callbacks(ProgressBar()).fit(*rows)
    output = capsys.readouterr().out
    assert type(model).__name__ in output
    assert ("NNMRFDensity" in output) == (name in ("classifier", "density"))
    assert ("MRFStructureLearner" in output) == (name in ("structure", "with_structure"))


class NestedTasks(CtrlC):
    """Callback that also records nested tasks."""

    max_propagation_depth = 1


def test_structure_search_is_a_task():
    model, rows = CASES["with_structure"]
    tasks, nested = CtrlC(), NestedTasks()
    model = clone(model).set_callbacks(tasks, nested).fit(*rows)
    assert tasks.names == ["fit", "structure"] + 6 * ["epoch"]
    search = NestedTasks()
    structure = clone(model.structure_).set_callbacks(search).fit(*rows)
    assert nested.names == ["fit", *search.names, *tasks.names[2:]]
    assert structure.edges_.tolist() == model.structure_.edges_.tolist()
    assert not [name for name in vars(model.structure_) if "callback" in name]
    partial = clone(model).set_callbacks(tasks).partial_fit(*rows).partial_fit(*rows)
    assert tasks.names == ["fit", "epoch"]  # of the second call
    assert partial.n_iter_ == 2


def test_score_callbacks_ignore_the_structure_search(tmp_path):
    model, rows = CASES["with_structure"]
    monitor, stopping = ScoreMonitor(X), EarlyStopping(X, patience=2, min_delta=10.0)
    callbacks = monitor, stopping, Checkpoint(tmp_path / "fit"), ProgressBar()
    model = clone(model).set_callbacks(*callbacks).fit(*rows)
    assert len(monitor.scores) == model.n_iter_ == 3
    before = model.score(X)
    assert model.fit(*rows).score(X) == before  # from the file
    assert monitor.scores == []


def test_structure_learner_can_have_its_own_checkpoint(tmp_path):
    model, rows = CASES["with_structure"]
    structure = clone(model.cliques).set_callbacks(Checkpoint(tmp_path / "graph"))
    model = clone(model).set_params(cliques=structure).set_callbacks(Checkpoint(tmp_path / "fit"))
    expected = model.fit(*rows).score(X)
    assert {path.name for path in tmp_path.iterdir()} == {"graph", "fit"}
    assert model.fit(*rows).score(X) == expected


def test_bootstraps_before_ctrl_c_are_kept():
    model = clone(CASES["structure"][0])
    rounds = CtrlC()
    model.set_params(n_bootstraps=0).set_callbacks(rounds).fit(X)
    before = len(rounds.names) - 1
    model.set_params(n_bootstraps=8).set_callbacks(CtrlC(before + 4))
    with pytest.warns(ConvergenceWarning, match="Interrupted after 4 of 8 bootstraps"):
        some = model.fit(X).edge_frequency_
    model.set_params(n_bootstraps=8).set_callbacks()
    whole = model.fit(X).edge_frequency_
    assert np.isin(some * 4, np.arange(5)).all()
    assert (np.abs(some * 4 - whole * 8) <= 4).all()


def test_callbacks_can_stop_bootstraps():
    class Stopper(CtrlC):
        last = None

        def on_fit_task_end(self, estimator, context):
            return len(self.names) - 1 == self.last

    model = clone(CASES["structure"][0])
    rounds = CtrlC()
    model.set_params(n_bootstraps=0).set_callbacks(rounds).fit(X)
    stop = Stopper()
    stop.last = len(rounds.names) + 2
    model.set_params(n_bootstraps=8).set_callbacks(stop).fit(X)
    assert len(stop.names) - 1 == stop.last
    assert np.isin(model.edge_frequency_ * 3, np.arange(4)).all()


def test_members_before_ctrl_c_are_kept():
    ctrl_c = CtrlC(3)  # at the third member
    model = NNMRFClassifier(max_iter=3, random_state=0).set_callbacks(ctrl_c)
    with pytest.warns(ConvergenceWarning, match="Interrupted after 2 of 7 members"):
        model.fit(NUMBERS, LABELS)
    assert ctrl_c.names[1] == "member"
    assert model.kinds_ == [("linear", None, "all"), ("spline", None, "all")]
    whole = clone(model).set_callbacks().fit(NUMBERS, LABELS)
    for actual, expected in zip(model.members_, whole.members_, strict=False):
        np.testing.assert_array_equal(actual.coef, expected.coef)
    np.testing.assert_allclose(model.predict_proba(NUMBERS).sum(axis=1), 1.0)
    model = clone(model).set_callbacks(CtrlC(1))
    with pytest.warns(ConvergenceWarning), pytest.raises(KeyboardInterrupt):
        model.fit(NUMBERS, LABELS)
    assert not hasattr(model, "classes_")


def test_threads_that_continue_after_ctrl_c_have_no_effect(monkeypatch):
    """The brief fit of a class uses another object than the interrupted fit."""
    densities, original_fit = [], NNMRFDensity.fit

    def fit_and_interrupt(density, *rows, **weights):
        densities.append(density)
        if density.potentials.max_iter > 1:
            raise KeyboardInterrupt
        return original_fit(density, *rows, **weights)

    monkeypatch.setattr(NNMRFDensity, "fit", fit_and_interrupt)
    model = clone(CASES["classifier"][0])
    with pytest.warns(ConvergenceWarning) as warned:
        model.fit(NUMBERS, LABELS)
    assert "Interrupted after 0 of 2 densities" in str(warned[0].message)
    assert densities[0].potentials.max_iter == 2
    assert not any(density is densities[0] for density in model.densities_)
    assert not [name for name in vars(model.densities_[0]) if "callback" in name]


def test_ctrl_c_after_the_last_class(monkeypatch, tmp_path):
    """If Ctrl-C comes during the last write, the model is complete and the fit warns."""
    write = FileCheckpoint.write

    def write_and_interrupt(self, state, *, ended=False):
        if len(state) == 2 and not ended:
            raise KeyboardInterrupt
        return write(self, state, ended=ended)

    monkeypatch.setattr(FileCheckpoint, "write", write_and_interrupt)
    model = clone(CASES["classifier"][0]).set_callbacks(Checkpoint(tmp_path / "fit", 0))
    with pytest.warns(ConvergenceWarning, match="Interrupted after 2 of 2 densities"):
        model.fit(NUMBERS, LABELS)
    whole = clone(model).set_callbacks().fit(NUMBERS, LABELS)
    np.testing.assert_array_equal(model.predict_proba(NUMBERS), whole.predict_proba(NUMBERS))


def test_classifier_reports_its_tasks():
    tasks = CtrlC()
    CASES["classifier"][0].set_callbacks(tasks).fit(NUMBERS, LABELS)
    CASES["classifier"][0].set_callbacks()
    assert tasks.names == ["fit"] + 2 * ["density of a class"]
    density = CASES["classifier"][0].densities_[0]
    assert not [name for name in vars(density) if "callback" in name]


@pytest.mark.parametrize(
    ("function", "alpha", "at", "progress"),
    [("ebic", "ebic", 4, "3 of 20 penalties"), ("site_log_likelihood", "cv", 25, "1 of 5 folds")],
)
def test_ctrl_c_during_the_selection_of_a_penalty(monkeypatch, function, alpha, at, progress):
    """The fit uses the best penalty so far, or raises if there is none."""
    evaluate, calls = getattr(pairwise, function), []

    def evaluate_and_interrupt(*args):
        calls.append(args)
        if len(calls) == at:
            raise KeyboardInterrupt
        return evaluate(*args)

    monkeypatch.setattr(pairwise, function, evaluate_and_interrupt)
    search = Penalized("l1", alpha)
    model = MRFStructureLearner("pseudo-likelihood", search=search, random_state=0)
    with pytest.warns(ConvergenceWarning, match=f"Interrupted after {progress}"):
        model.fit(X)
    assert model.alpha_ > 0
    assert np.isfinite(model.coupling_).all()
    assert np.isfinite(model.score(X))
    calls[:] = [None] * (at - 1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)


def test_ctrl_c_during_the_trial_of_hidden_units(monkeypatch):
    """The fit returns the logistic regressions."""
    step, steps = MLEBP.step, []

    def interrupted_step(learner, *args):
        steps.append(args)
        if len(steps) == 5:
            raise KeyboardInterrupt
        return step(learner, *args)

    monkeypatch.setattr(_conditional_training, "TALL", 100)
    monkeypatch.setattr(MLEBP, "step", interrupted_step)
    rows = np.random.default_rng(0).integers(2, size=(300, 4))
    model = CRBMStructuredPredictor(4, alpha=0.1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="Interrupted before the parameters were learned"):
        model.fit(rows[:, :2], rows[:, 2:])
    assert len(steps) == 5
    assert not model.converged_
    assert not model.energy_.weights.any()
    assert np.isfinite(model.predict_proba(rows[:, :2])).all()


def test_ctrl_c_at_the_end_of_training_keeps_the_model(monkeypatch, seed):
    """The final checks of training can take a second or more."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("skmrf.estimators._hidden_layer._check_dependence", interrupted)
    rows = np.random.default_rng(seed).integers(2, size=(50, 4))
    with pytest.warns(ConvergenceWarning, match="Interrupted; the model is that of the last"):
        model = RBM(2, alpha=0.1, random_state=seed).fit(rows)
    assert model.n_iter_ > 1


# Progress messages ---------------------------------------------------------------------------

QUICK = {"max_iter": 3, "random_state": 0}
NETWORKS = NetworkPotentials(max_iter=3)
VERBOSE = {
    "DiscreteMRF": (DiscreteMRF("independent", "pcd", alpha=0.0, **QUICK), "epoch 2 of at most 3"),
    "BoltzmannMachine": (BoltzmannMachine("pcd", **QUICK), "epoch 2 of at most 3, at most "),
    "RBM": (RBM(2, **QUICK), "epoch 2 of at most 3, at most "),
    "CRBMStructuredPredictor": (
        CRBMStructuredPredictor(2, "lr", optimizer="sgd", **QUICK),
        "epoch 2 of at most 3",
    ),
    "NNMRFDensity": (NNMRFDensity(NETWORKS, random_state=0), "epoch 2 of at most 3, at most "),
    "NNMRFBayesClassifier": (NNMRFBayesClassifier(NETWORKS, random_state=0), "part 2 of at most 2"),
    "MRFStructureLearner": (MRFStructureLearner("exact", **QUICK), "epoch 2, 0 s"),
}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", VERBOSE)
def test_verbose_prints_progress(name, capsys):
    """A short fit prints a line at its end, and with verbose=2 a line at each step."""
    model, expected = VERBOSE[name]
    rng = np.random.default_rng(0)
    X, y = rng.choice([-1, 1], size=(40, 3)), np.arange(40) % 2
    X = np.maximum(X, 0) if name == "RBM" else X
    X = X + rng.normal(size=X.shape) if name.startswith("NNMRF") else X
    targets = (y,) if name in ("NNMRFBayesClassifier", "CRBMStructuredPredictor") else ()
    for verbose in (0, 1, 2):
        clone(model).set_params(verbose=verbose).fit(X, *targets)
        lines = capsys.readouterr().out.splitlines()
        lines = [line for line in lines if line.startswith(f"[{name}] ")]
        assert verbose == len(lines) if verbose < 2 else any(expected in line for line in lines)
    for wrong in (-1, "yes", 0.5):
        with pytest.raises(ValueError, match="verbose must be an integer"):
            clone(model).set_params(verbose=wrong).fit(X, *targets)


def test_verbose_lines_are_seconds_apart(capsys, monkeypatch):
    times = iter(np.arange(100.0))
    monkeypatch.setattr(reports, "monotonic", lambda: next(times))
    lines = reports.ProgressLines(RBM(verbose=1), "epoch", 8)
    for k in range(7):
        lines.step({"objective": [-3.0, -2.5 + k]})
    lines.finish()
    assert capsys.readouterr().out.splitlines() == [
        "[RBM] epoch 3 of at most 8, at most 5 s left, objective -0.5",
        "[RBM] epoch 6 of at most 8, at most 2 s left, objective 2.5",
        "[RBM] finished: 7 epochs, objective 3.5, 8.0 s",
    ]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("max_iter", "message"),
    [(3, "epochs of max_iter take up to .* hours"), (None, "max_iter=None sets no limit")],
)
def test_long_first_epoch_warns(max_iter, message, monkeypatch):
    """The duration of a long fit is forecast once, after its first epoch."""
    X = np.random.default_rng(0).integers(2, size=(30, 3))
    monkeypatch.setattr(reports, "LONG_EPOCH", 0.0)
    with pytest.warns(UserWarning, match="The first epoch took 0 seconds") as caught:
        DiscreteMRF("independent", "exact", alpha=0.0, max_iter=max_iter).fit(X)
    found = [str(w.message) for w in caught if "first epoch" in str(w.message)]
    assert len(found) == 1
    assert re.search(message, found[0])
