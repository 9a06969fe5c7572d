"""Ctrl-C, and callbacks, in every fit that is long."""

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
    NNMRFClassifier,
    NNMRFDensity,
)
from skmrf.estimators.nnmrf import classifier
from skmrf.structure import Penalized, penalised
from skmrf.training import Checkpoint, EarlyStopping, ScoreMonitor
from skmrf.training.checkpoints import FitOnFile

RNG = np.random.default_rng(0)
X = RNG.integers(2, size=(60, 4))
X[:, 1] ^= X[:, 0] & RNG.integers(2, size=60)
NUMBERS = RNG.normal(size=(60, 2)) + X[:, :2]
LABELS = X[:, 0]
FEW = {"max_iter": 6, "random_state": 0}
SMALL = {"node_layers": (3,), "edge_layers": (3,), "random_state": 0}

CASES = {
    "discrete": (DiscreteMRF(**FEW), (X,)),
    "exact": (DiscreteMRF(learner="exact", alpha=1e-3), (X,)),
    "boltzmann": (BoltzmannMachine(states=(0, 1), **FEW), (X,)),
    "rbm": (RBM(3, **FEW), (X,)),
    "crbm": (CRBMStructuredPredictor(3, **FEW), (X[:, :2], X[:, 2:])),
    "density": (NNMRFDensity(**SMALL), (NUMBERS,)),
    "structure": (MRFStructureLearner("exact", n_bootstraps=8, random_state=0), (X,)),
    "found": (DiscreteMRF(MRFStructureLearner("exact"), **FEW), (X,)),
    "classifier": (NNMRFClassifier(max_iter=2, **SMALL), (NUMBERS, LABELS)),
}
pytestmark = pytest.mark.filterwarnings("ignore:Learning had not converged")
each = pytest.mark.parametrize("name", CASES)


class CtrlC:
    """Presses Ctrl-C at a task, counted from 1, and counts all."""

    def __init__(self, at=None):
        self.at = at

    def setup(self, estimator, context):
        self.names = []

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        self.names.append(context.task_name)
        if len(self.names) - 1 == self.at:  # after the fit's own
            raise KeyboardInterrupt

    def on_fit_task_end(self, estimator, context):
        pass


def check_usable(model, name):
    """Answers are finite, and the model goes on to learn."""
    if name == "structure":
        assert np.isfinite(model.coupling_).all()
        assert np.isfinite(model.score(X))
    elif name in ("crbm", "classifier"):
        rows, targets = CASES[name][1]
        assert 0 <= model.score(rows, targets) <= 1
        assert np.isfinite(model.predict_proba(rows)).all()
    else:
        assert np.isfinite(model.score_samples(*CASES[name][1])).all()


@each
def test_ctrl_c_leaves_a_usable_estimator(name):
    model, rows = CASES[name]
    model = clone(model)
    at = {"structure": 2, "classifier": 5}.get(name, 3)
    model.set_callbacks(CtrlC(at))
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model.fit(*rows)
    check_usable(model, name)
    model.set_callbacks().fit(*rows)
    check_usable(model, name)


@each
def test_progress_is_shown(name, capsys):
    model, rows = CASES[name]
    clone(model).set_callbacks(ProgressBar()).fit(*rows)
    shown = capsys.readouterr().out
    assert type(model).__name__ in shown
    assert ("NNMRFDensity" in shown) == (name in ("classifier", "density"))
    assert ("MRFStructureLearner" in shown) == (name in ("structure", "found"))


class Deep(CtrlC):
    """Is told of nested tasks too."""

    max_propagation_depth = 1


def test_the_search_for_a_graph_is_a_task():
    model, rows = CASES["found"]
    seen, deep = CtrlC(), Deep()
    model = clone(model).set_callbacks(seen, deep).fit(*rows)
    assert seen.names == ["fit", "structure"] + 6 * ["epoch"]
    search = Deep()
    found = clone(model.structure_).set_callbacks(search).fit(*rows)
    assert deep.names == ["fit", *search.names, *seen.names[2:]]
    assert found.edges_.tolist() == model.structure_.edges_.tolist()
    assert not [name for name in vars(model.structure_) if "callback" in name]
    once = clone(model).set_callbacks(seen).partial_fit(*rows).partial_fit(*rows)
    assert seen.names == ["fit", "epoch"]  # of the second
    assert once.n_iter_ == 2


def test_callbacks_of_models_leave_the_search_alone(tmp_path):
    model, rows = CASES["found"]
    monitor, stopping = ScoreMonitor(X), EarlyStopping(X, patience=2, min_delta=10.0)
    how = monitor, stopping, Checkpoint(tmp_path / "fit"), ProgressBar()
    model = clone(model).set_callbacks(*how).fit(*rows)
    assert len(monitor.scores) == model.n_iter_ == 3
    before = model.score(X)
    assert model.fit(*rows).score(X) == before  # from the file
    assert monitor.scores == []


def test_the_graph_has_a_file_of_its_own(tmp_path):
    model, rows = CASES["found"]
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


def test_callbacks_end_bootstraps():
    class Enough(CtrlC):
        last = None

        def on_fit_task_end(self, estimator, context):
            return len(self.names) - 1 == self.last

    model = clone(CASES["structure"][0])
    rounds = CtrlC()
    model.set_params(n_bootstraps=0).set_callbacks(rounds).fit(X)
    stop = Enough()
    stop.last = len(rounds.names) + 2
    model.set_params(n_bootstraps=8).set_callbacks(stop).fit(X)
    assert len(stop.names) - 1 == stop.last
    assert np.isin(model.edge_frequency_ * 3, np.arange(4)).all()


def test_members_before_ctrl_c_are_kept():
    pressed = CtrlC(2 + 3)  # classes, and the third member
    model = clone(CASES["classifier"][0]).set_callbacks(pressed)
    with pytest.warns(ConvergenceWarning, match="Interrupted after 2 of 15 members"):
        model.fit(NUMBERS, LABELS)
    assert len(model.ensemble_.members) == 2
    whole = clone(model).set_callbacks().fit(NUMBERS, LABELS)
    for found, expected in zip(model.ensemble_.members, whole.ensemble_.members, strict=False):
        for part, values in expected.theta.items():
            np.testing.assert_array_equal(found.theta[part], values)


@pytest.mark.parametrize(("n_done", "n_jobs"), [(0, None), (0, 2), (1, None), (2, None)])
def test_ctrl_c_before_the_first_member(n_done, n_jobs):
    """Densities that are done are kept, the others have one epoch, and Bayes' rule is left."""
    model = clone(CASES["classifier"][0]).set_params(n_jobs=n_jobs)
    whole = clone(model).fit(NUMBERS, LABELS)
    pressed = CtrlC(n_done + 1)
    model.set_callbacks(pressed)
    what = "2 densities of classes" if n_done < 2 else "15 members"
    with pytest.warns(ConvergenceWarning) as warned:
        model.fit(NUMBERS, LABELS)
    messages = [str(warning.message) for warning in warned]
    assert any(f"Interrupted after {n_done % 2} of {what}" in message for message in messages)
    assert any("classified by Bayes' rule" in message for message in messages)
    if n_jobs is None:  # the others' one epoch is no news
        assert sum("had not converged" in message for message in messages) == n_done
    assert pressed.names.count("member of the ensemble") == (n_done == 2)
    assert {warning.filename for warning in warned} == {__file__}
    assert [density.n_iter_ for density in model.densities_] == n_done * [2] + (2 - n_done) * [1]
    for found, expected in zip(model.densities_[:n_done], whole.densities_, strict=False):
        np.testing.assert_array_equal(found.score_samples(NUMBERS), expected.score_samples(NUMBERS))
    gaps = np.where(RNG.random(NUMBERS.shape) < 0.3, np.nan, NUMBERS)
    found = model.predict_proba(gaps)
    assert np.abs(found - whole.predict_proba(gaps)).max() > 0.01
    np.testing.assert_array_equal(found, model.set_params(rule="bayes").predict_proba(gaps))
    assert model.score(NUMBERS, LABELS) > 0.6


def test_ctrl_c_between_the_densities_and_the_first_member(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(classifier, "member_tasks", interrupted)
    model = clone(CASES["classifier"][0])
    with pytest.warns(ConvergenceWarning, match="Interrupted before networks of labels"):
        model.fit(NUMBERS, LABELS)
    assert model.ensemble_ is None
    assert [density.n_iter_ for density in model.densities_] == [2, 2]
    assert np.isfinite(model.predict_log_proba(NUMBERS)).all()


def test_threads_that_go_on_after_ctrl_c_change_nothing(monkeypatch):
    """A class that a thread is still learning is learned in brief as another object."""
    seen, original = [], NNMRFDensity.fit

    def fitted(density, *given, **weights):
        seen.append(density)
        if density.max_iter > 1:
            raise KeyboardInterrupt
        return original(density, *given, **weights)

    monkeypatch.setattr(NNMRFDensity, "fit", fitted)
    model = clone(CASES["classifier"][0])
    with pytest.warns(ConvergenceWarning) as warned:
        model.fit(NUMBERS, LABELS)
    assert "Interrupted after 0 of 2 densities" in str(warned[0].message)
    assert seen[0].max_iter == 2
    assert not any(density is seen[0] for density in model.densities_)
    assert not [name for name in vars(model.densities_[0]) if "callback" in name]


def test_ctrl_c_after_the_last_member(monkeypatch, tmp_path):
    """While the last part is written: the model is whole, and it is said that Ctrl-C came."""
    write = FitOnFile.write

    def interrupted(self, state, *, ended=False):
        if len(state) == 2 + 15 and not ended:
            raise KeyboardInterrupt
        return write(self, state, ended=ended)

    monkeypatch.setattr(FitOnFile, "write", interrupted)
    model = clone(CASES["classifier"][0]).set_callbacks(Checkpoint(tmp_path / "fit", 0))
    with pytest.warns(ConvergenceWarning, match="Interrupted after 15 of 15 members"):
        model.fit(NUMBERS, LABELS)
    whole = clone(model).set_callbacks().fit(NUMBERS, LABELS)
    np.testing.assert_array_equal(model.predict_proba(NUMBERS), whole.predict_proba(NUMBERS))


def test_tasks_of_a_classifier():
    seen = CtrlC()
    CASES["classifier"][0].set_callbacks(seen).fit(NUMBERS, LABELS)
    CASES["classifier"][0].set_callbacks()
    assert seen.names == (["fit"] + 2 * ["density of a class"] + 15 * ["member of the ensemble"])
    density = CASES["classifier"][0].densities_[0]
    assert not [name for name in vars(density) if "callback" in name]


@pytest.mark.parametrize(
    ("function", "alpha", "at", "judged"),
    [("ebic", "ebic", 4, "3 of 20 penalties"), ("site_log_likelihood", "cv", 25, "1 of 5 folds")],
)
def test_ctrl_c_while_a_penalty_is_chosen(monkeypatch, function, alpha, at, judged):
    """The best of those judged; without any there is no model."""
    judge, calls = getattr(penalised, function), []

    def interrupting(*args):
        calls.append(args)
        if len(calls) == at:
            raise KeyboardInterrupt
        return judge(*args)

    monkeypatch.setattr(penalised, function, interrupting)
    search = Penalized("l1", alpha)
    model = MRFStructureLearner("pseudo-likelihood", search=search, random_state=0)
    with pytest.warns(ConvergenceWarning, match=f"Interrupted after {judged}"):
        model.fit(X)
    assert model.alpha_ > 0
    assert np.isfinite(model.coupling_).all()
    assert np.isfinite(model.score(X))
    calls[:] = [None] * (at - 1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
