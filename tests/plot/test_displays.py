"""Tests of what all displays have in common."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from displayed_models import SINGLE, TAKES, draw, spins
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from skmrf.plot import (
    ChainsDisplay,
    CouplingGraphDisplay,
    HistoryDisplay,
    LogPartitionDisplay,
    MomentsDisplay,
    StructurePathDisplay,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:Learning had not converged"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
N_PANELS = {MomentsDisplay: 2, ChainsDisplay: 2}
CASES = [(display, name) for display, names in TAKES.items() for name in names]
WRONG = [(d, n) for d in TAKES for n in TAKES[HistoryDisplay] if n not in TAKES[d]]


def axes_of(display):
    return np.ravel(display.axes_ if hasattr(display, "axes_") else [display.ax_])


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_given_axes_are_used(kind, name, models):
    """They are, whoever made them, and pyplot learns of no figure."""
    first = draw(kind, models[name], name)
    n = N_PANELS.get(kind, len(axes_of(first)))
    assert len(plt.get_fignums()) == 1
    assert first.figure_ is plt.figure(plt.get_fignums()[0])
    plt.close("all")
    axes = Figure().subplots(1, n, squeeze=False)[0]
    second = draw(kind, models[name], name, ax=axes[0] if n == 1 else list(axes))
    assert isinstance(second, kind)
    assert all(a is b for a, b in zip(axes_of(second), axes, strict=True))
    assert second.figure_ is axes[0].figure
    assert all(a.has_data() for a in axes)
    third = Figure().subplots(1, n, squeeze=False)[0]
    assert second.plot(ax=third) is second
    assert all(a is b for a, b in zip(axes_of(second), third, strict=True))
    assert not plt.get_fignums()


@pytest.mark.parametrize("kind", TAKES)
def test_another_number_of_axes_is_refused(kind, models):
    name = TAKES[kind][0]
    axes = Figure().subplots(1, 9)
    with pytest.raises(ValueError, match=r"ax must be \d axes, one a panel .*; got 9"):
        draw(kind, models[name], name, ax=axes)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_what_is_not_fitted_is_refused(kind, name, models):
    with pytest.raises(NotFittedError):
        draw(kind, type(models[name])(), name)


@pytest.mark.parametrize(("kind", "name"), WRONG)
def test_other_estimators_are_refused(kind, name, models):
    rows = (spins(),) if kind is MomentsDisplay else ()
    with pytest.raises(
        TypeError, match=f"{kind.__name__} takes .* got {type(models[name]).__name__}"
    ):
        kind.from_estimator(models[name], *rows)


@pytest.mark.parametrize("kind", TAKES)
def test_the_error_says_who_is_taken(kind):
    rows = (spins(),) if kind is MomentsDisplay else ()
    with pytest.raises(TypeError, match=r"of these classes: \w+.*; got LogisticRegression"):
        kind.from_estimator(LogisticRegression(), *rows)


def test_lines_take_short_names_of_properties(models):
    """As matplotlib does; the long name of the default gives way."""
    for kind, name, short, long in (
        (HistoryDisplay, "discrete", {"lw": 3.0, "c": "red"}, ("linewidth", 3.0)),
        (ChainsDisplay, "rbm", {"lw": 3.0}, ("linewidth", 3.0)),
        (MomentsDisplay, "rbm", {"ms": 5.0}, ("markersize", 5.0)),
        (StructurePathDisplay, "structure", {"lw": 3.0}, ("linewidth", 3.0)),
    ):
        display = draw(kind, models[name], name, **short)
        lines = [line for axes in axes_of(display) for line in axes.lines]
        assert any(getattr(line, f"get_{long[0]}")() == long[1] for line in lines), kind
    display = LogPartitionDisplay.from_results({"a": SINGLE}, lw=3.0)
    assert [line.get_linewidth() for line in display.intervals_] == [3.0, 3.0]


def test_refused_parameters_leave_no_figure(models):
    with pytest.raises(ValueError, match="a pair is two columns"):
        StructurePathDisplay.from_estimator(models["structure"], pairs=[(0, 9)])
    with pytest.raises(ValueError, match="layout must be one of"):
        CouplingGraphDisplay.from_estimator(models["boltzmann"], layout="round")
    assert not plt.get_fignums()


def test_importing_imports_no_matplotlib():
    code = "import sys, skmrf.plot; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from skmrf.plot import FiltersDisplay\n"
        "FiltersDisplay([[[0.0]]], [0]).plot()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'ImportError: Plots need matplotlib; install it with pip install "skmrf[plot]"' in (
        done.stderr
    )
