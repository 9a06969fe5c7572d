"""Tests of displays of chains and of intervals of log Z."""

import numpy as np
import pytest
from displayed_models import SINGLE
from numpy.testing import assert_allclose, assert_array_equal

from skmrf._utils.results import LogPartition
from skmrf.inference import log_partition
from skmrf.plot import ChainsDisplay, LogPartitionDisplay
from skmrf.samplers import trace_chains

pytestmark = [
    pytest.mark.filterwarnings("ignore:Learning had not converged"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


# Chains -----------------------------------------------------------------------------------


def test_chains(models):
    how = {"n_chains": 3, "n_sweeps": 20, "n_discarded": 5, "thin": 2, "random_state": 1}
    traces = trace_chains(models["boltzmann"].energy_, **how)
    display = ChainsDisplay.from_estimator(models["boltzmann"], **how)
    assert len(display.axes_) == 1
    assert display.bars_ is None
    for line, values in zip(display.lines_, traces.log_potential, strict=True):
        assert_array_equal(line.get_ydata(), values)
        assert_array_equal(line.get_xdata(), np.arange(2, 21, 2))
    assert len({line.get_color() for line in display.lines_}) == 3


def test_swap_rates_of_chains(models):
    betas = [0.0, 0.25, 1.0]
    traces = trace_chains(models["rbm"].energy_, betas=betas, n_sweeps=10, random_state=0)
    display = ChainsDisplay.from_traces(traces)
    bars = [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in display.bars_]
    assert_allclose(bars, [(0.0, 0.25, traces.swap_rates[0]), (0.25, 0.75, traces.swap_rates[1])])


def test_only_traces_are_taken(models):
    with pytest.raises(TypeError, match=r"takes what skmrf.samplers.trace_chains returns; got RBM"):
        ChainsDisplay.from_traces(models["rbm"])


# Log Z ------------------------------------------------------------------------------------


def test_intervals_of_log_z():
    results = {
        "proved": LogPartition(1.0, 0.1, 0.5, 2.0, True, "ais", True),
        "estimated": LogPartition(1.2, 0.1, 0.7, 1.5, False, "ais", True),
        "exact": LogPartition(1.1, 0.0, 1.1, 1.1, True, "exact", True),
    }
    display = LogPartitionDisplay.from_results(results)
    drawn = [line.get_xdata().tolist() for line in display.intervals_]
    assert drawn == [[0.5, 1.0], [2.0, 1.0], [0.7, 1.2], [1.5, 1.2]]
    assert [set(line.get_ydata()) for line in display.intervals_] == [{0}, {0}, {1}, {1}]
    assert [float(line.get_xdata()[0]) for line in display.values_] == [1.0, 1.2, 1.1]
    solid = [line.get_linestyle() == "-" for line in display.intervals_]
    assert solid == [True, True, True, False]
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == list(results)
    legend = {t.get_text() for t in display.ax_.get_legend().get_texts()}
    assert legend == {"limit: a bound", "limit: an estimate", "value", "exact"}
    proved = LogPartitionDisplay.from_results({"proved": results["proved"]})
    legend = {t.get_text() for t in proved.ax_.get_legend().get_texts()}
    assert legend == {"limit: a bound", "value"}


def test_limits_that_there_are_not():
    results = {"a": LogPartition(1.0, 0.1, -np.inf, np.inf, False, "bethe", True)}
    display = LogPartitionDisplay.from_results(results)
    ends = [line.get_xdata()[0] for line in display.intervals_]
    assert_allclose(ends, display.ax_.get_xlim())
    assert [line.get_marker() for line in display.intervals_] == ["<", ">"]
    legend = {t.get_text() for t in display.ax_.get_legend().get_texts()}
    assert legend == {"no limit", "value"}


def test_minus_infinity_is_no_point_on_the_axis():
    nothing = LogPartition(-np.inf, 0.0, -np.inf, -np.inf, True, "exact", True)
    display = LogPartitionDisplay.from_results({"a": nothing})
    assert display.values_[0].get_marker() == "<"
    (text,) = display.ax_.get_legend().get_texts()
    assert text.get_text() == "exact: minus infinity"


def test_log_z_of_estimators(models):
    chosen = {"first": models["boltzmann"], "second": models["rbm"]}
    display = LogPartitionDisplay.from_estimators(chosen)
    drawn = [float(line.get_xdata()[0]) for line in display.values_]
    assert_allclose(drawn, [m.log_partition_ for m in chosen.values()])
    found = log_partition(models["boltzmann"].energy_)
    assert display.results["first"].value == pytest.approx(found.value)


@pytest.mark.parametrize("results", [{"a": 1.0}, {}, SINGLE, [SINGLE]])
def test_results_are_checked(results, models):
    with pytest.raises(TypeError, match="results must be a dict from names to"):
        LogPartitionDisplay.from_results(results)
    with pytest.raises(TypeError, match=r"estimators must be a dict from names to .* got list"):
        LogPartitionDisplay.from_estimators([models["rbm"]])
