"""Tests of displays of history and of paths of the structure learner."""

import numpy as np
import pytest
from displayed_models import TAKES, spins
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose, assert_array_equal
from zoo import ZOO

from skmrf import DiscreteMRF, MRFStructureLearner
from skmrf.plot import HistoryDisplay, StructurePathDisplay

pytestmark = [
    pytest.mark.filterwarnings("ignore:Learning had not converged"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


# History ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TAKES[HistoryDisplay])
def test_history(name, models):
    history = models[name].history_
    display = HistoryDisplay.from_estimator(models[name], x="n_updates")
    assert 1 <= len(display.columns) <= 6
    for line, column in zip(display.lines_, display.columns, strict=True):
        assert_array_equal(line.get_xdata(), history["n_updates"])
        assert_allclose(line.get_ydata(), history[column])
    assert display.axes_[-1].get_xlabel() == "updates"


def test_scores_come_first_and_log_z_has_its_error(models):
    display = HistoryDisplay.from_estimator(models["discrete"])
    history = models["discrete"].history_
    assert list(display.columns)[:3] == ["log_partition", "gradient_rms", "learning_rate"]
    assert list(display.bands_) == ["log_partition"]
    edge = display.bands_["log_partition"].get_paths()[0].vertices
    at_first = edge[edge[:, 0] == 1][:, 1]
    value, error = history["log_partition"][0], history["log_partition_error"][0]
    assert_allclose([at_first.min(), at_first.max()], [value - 2 * error, value + 2 * error])


def test_names_of_history(models):
    display = HistoryDisplay.from_estimator(models["crbm"], names=["hinge", "validation_score"])
    assert list(display.columns) == ["hinge", "validation_score"]
    assert display.axes_[1].get_title() == "validation score (accuracy)"
    single = HistoryDisplay.from_estimator(models["crbm"], names="hinge", color="red")
    assert to_rgb(single.lines_[0].get_color()) == to_rgb("red")
    for names in (["hinges"], []):
        with pytest.raises(ValueError, match=r"the columns of history_ are .*hinge"):
            HistoryDisplay.from_estimator(models["crbm"], names=names)


def test_unknown_columns_are_shown_last():
    model = DiscreteMRF(learner="exact").fit(spins())
    model.history_["novelty"] = [0.5] * model.n_iter_
    display = HistoryDisplay.from_estimator(model)
    assert list(display.columns) == ["objective", "gradient_max", "novelty"]
    assert display.axes_[2].get_title() == "novelty"


def test_epochs_of_runs_are_counted_on():
    model = MRFStructureLearner("exact", random_state=0).fit(spins())
    epochs = np.array(model.history_["epoch"])
    assert (np.diff(epochs) < 0).any()
    drawn = HistoryDisplay.from_estimator(model).lines_[0].get_xdata()
    assert_array_equal(drawn, np.arange(1, len(epochs) + 1))


def test_scales_of_history():
    columns = {"gradient_rms": [1.0, 0.02], "learning_rate": [0.2, 0.1], "residual": [1.0, 0.0]}
    display = HistoryDisplay(columns, [1, 2]).plot()
    assert [axes.get_yscale() for axes in display.axes_] == ["log", "linear", "linear"]


def test_history_that_is_not_finite():
    columns = {"bound": [np.inf, np.inf], "score": [np.nan, np.nan], "ess": [2.0, np.inf]}
    display = HistoryDisplay(columns, [1, 2]).plot()
    assert display.axes_[2].get_ylim() == pytest.approx((0.0, 2.2))


def test_a_model_without_history_is_refused():
    model = DiscreteMRF.from_energy(ZOO["chain"](0))
    with pytest.raises(ValueError, match="history_ is empty"):
        HistoryDisplay.from_estimator(model)


# Paths ------------------------------------------------------------------------------------


def test_path_of_a_learner(models):
    path = models["structure"].path_
    display = StructurePathDisplay.from_estimator(models["structure"], pairs=[("west", "south")])
    assert set(display.lines_) == set(map(tuple, path.edges.tolist()))
    for edge, column in zip(path.edges.tolist(), path.parameters.T, strict=True):
        line = display.lines_[tuple(edge)]
        there = column != 0
        assert_array_equal(line.get_xdata(), path.iteration)
        assert_array_equal(line.get_ydata()[there], column[there])
        assert np.isnan(line.get_ydata()[~there]).all()
    kept = {tuple(e) for e in models["structure"].edges_.tolist()}
    assert {tuple(e) for e in display.edges[display.kept].tolist()} == kept
    assert len(display.removals_) == len(path.edges) - len(kept)
    labels = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert labels[0] == "south \u2013 west"
    assert sorted(labels[1:]) == ["edges kept", "edges removed", "removal"]
    widths = {edge: line.get_linewidth() for edge, line in display.lines_.items()}
    assert max(widths, key=widths.get) == (2, 3)


def test_removals_and_returns():
    parameters = [
        [0.5, 0.3, 0.0, 0.2],
        [0.6, 0.2, 0.0, 0.1],
        [0.7, 0.0, 0.4, 0.0],
        [0.8, 0.0, 0.5, 0.0],
        [0.9, 0.6, 0.6, 0.0],
    ]
    edges, kept = [(0, 1), (0, 2), (1, 2), (1, 3)], [True, True, True, False]
    display = StructurePathDisplay(
        np.array(edges), [10, 20, 30, 40, 50], parameters, kept, list("abcd")
    ).plot()
    assert_allclose(display.removals_, [[20, 0.2], [20, 0.1]])
    assert_allclose(display.returns_, [[50, 0.6]])  # the one that began late did not return
    drawn = {
        line.get_marker(): line.get_xydata()
        for line in display.ax_.lines
        if line.get_linestyle() == "None"
    }
    assert_allclose(drawn["x"], display.removals_)
    assert_allclose(drawn["^"], display.returns_)


def test_edges_that_a_penalty_left_are_kept():
    learner = MRFStructureLearner("exact", penalty="l1", alpha=0.05).fit(spins()[:, [0, 2, 1]])
    display = StructurePathDisplay.from_estimator(learner)
    kept = display.edges[display.kept].tolist()
    assert 0 < len(kept) < 3
    assert sorted(kept) == learner.edges_.tolist()


def test_removals_after_the_last_record():
    """Of one record, as a fit of one pair has: it is a point, and a cross if the edge went."""
    edges = np.array([(0, 1), (0, 2)])
    display = StructurePathDisplay(edges, [7], [[0.5, 0.3]], [True, False], list("abc")).plot()
    assert_allclose(display.removals_, [[7, 0.3]])
    assert display.returns_.shape == (0, 2)
    assert [line.get_marker() for line in display.lines_.values()] == ["o", "o"]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("north", "up")], r"pairs names \('north', 'up'\); a pair is two columns"),
        ([(0, 4)], "a pair is two columns"),
        ([(0, 1, 2)], "a pair is two columns"),
        ([(0, 0)], "was never in the model"),
    ],
)
def test_wrong_pairs_are_refused(pairs, message, models):
    with pytest.raises(ValueError, match=message):
        StructurePathDisplay.from_estimator(models["structure"], pairs=pairs)


def test_a_path_without_records_is_refused():
    learner = MRFStructureLearner("exact").fit(spins()[:, :1])
    with pytest.raises(ValueError, match="path_ has no record"):
        StructurePathDisplay.from_estimator(learner)
