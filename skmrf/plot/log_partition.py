"""Plots of log partition functions (log Z) with intervals."""

import numpy as np

from .._utils.results import LogPartition
from ..estimators.boltzmann_machine import BoltzmannMachine
from ..estimators.discrete_mrf import DiscreteMRF
from ..estimators.nnmrf.density import NNMRFDensity
from ..estimators.rbm import RBM
from ._axes import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    check_estimator,
    get_single_axes,
    hide_frame,
    merge_line_style,
)

EXACT, IMPOSSIBLE, VALUE = "exact", "exact: minus infinity", "value"
BOUND, ESTIMATE, NONE = "limit: a bound", "limit: an estimate", "no limit"
ARROW_SIZE = 6  # points
STYLES = {
    BOUND: {"color": BLUE, "label": BOUND},
    ESTIMATE: {"color": ORANGE, "linestyle": (0, (2, 1)), "label": ESTIMATE},
    NONE: {"color": GREY, "linestyle": ":", "label": NONE, "markersize": ARROW_SIZE},
}


class LogPartitionDisplay:
    """Plot of log Z with its lower and upper limit, one row for each result.

    The lower limit is a bound of log Z at the confidence level of the result. The upper limit is a
    bound if its line is solid. If its line is dashed, it is an estimate, and log Z may be larger. A
    dotted arrow means that there is no limit.

    Parameters
    ----------
    results : dict of str to LogPartition
        Results of :func:`skmrf.inference.log_partition`, keyed by the name of the row.

    Attributes
    ----------
    ax_ : Axes
        Axes of the plot.
    figure_ : Figure
        Figure that contains the axes.
    values_ : list of Line2D
        Value of each result.
    intervals_ : list of Line2D
        Lines from the lower limit and from the upper limit to the value, two for each result that
        is not exact.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.inference import log_partition
    >>> from skmrf.plot import LogPartitionDisplay
    >>> grid = make_ising("grid", n_variables=16, coupling=0.5)
    >>> results = {m: log_partition(grid, method=m, random_state=0) for m in ("exact", "trw")}
    >>> display = LogPartitionDisplay.from_results(results)
    >>> [text.get_text() for text in display.ax_.get_yticklabels()]
    ['exact', 'trw']
    """

    def __init__(self, results):
        self.results = results

    @classmethod
    def from_results(cls, results, *, ax=None, **kwargs):
        """Plot results of :func:`skmrf.inference.log_partition`.

        Parameters
        ----------
        results : dict of str to LogPartition
            Results of :func:`skmrf.inference.log_partition`, keyed by the name of the row.
        ax : Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the lines of the intervals, passed to matplotlib.

        Returns
        -------
        LogPartitionDisplay
            Display with the plot.
        """
        accepted = "results of skmrf.inference.log_partition"
        _check_dict("results", results, accepted)
        wrong = [k for k, v in results.items() if not isinstance(v, LogPartition)]
        if wrong or not results:
            found = (
                f"{type(results[wrong[0]]).__name__} for {wrong[0]!r}" if wrong else "an empty dict"
            )
            raise TypeError(f"results must be a dict from names to {accepted}; got {found}.")
        return cls(dict(results)).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **kwargs):
        """Plot log Z of a fitted model.

        Parameters
        ----------
        estimator : DiscreteMRF, BoltzmannMachine, RBM or NNMRFDensity
            Fitted model. Its log Z is computed if it was not computed before.
        ax : Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the lines of the intervals, passed to matplotlib.

        Returns
        -------
        LogPartitionDisplay
            Display with the plot.
        """
        return cls.from_estimators({type(estimator).__name__: estimator}, ax=ax, **kwargs)

    @classmethod
    def from_estimators(cls, estimators, *, ax=None, **kwargs):
        """Plot log Z of several fitted models.

        Parameters
        ----------
        estimators : dict of str to estimator
            Fitted models, keyed by the name of the row: DiscreteMRF, BoltzmannMachine, RBM or
            NNMRFDensity.
        ax : Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the lines of the intervals, passed to matplotlib.

        Returns
        -------
        LogPartitionDisplay
            Display with the plot.
        """
        _check_dict("estimators", estimators, "fitted models")
        for estimator in estimators.values():
            check_estimator(cls, estimator, (DiscreteMRF, BoltzmannMachine, RBM, NNMRFDensity))
        results = {name: estimator._log_partition() for name, estimator in estimators.items()}
        return cls.from_results(results, ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Plot log Z with its limits for all results.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the lines of the intervals, passed to matplotlib.

        Returns
        -------
        LogPartitionDisplay
            The display itself.
        """
        self.ax_ = get_single_axes(ax, (5.6, 1.1 + 0.45 * len(self.results)))
        self.figure_ = self.ax_.figure
        self.values_, self.intervals_ = [], []
        ends = self._compute_ends()
        for row, result in enumerate(self.results.values()):
            self._plot_row(row, result, ends, kwargs)
        self.ax_.set(xlim=ends, ylim=(len(self.results) - 0.5, -0.5), xlabel="log Z (nats)")
        self.ax_.set_yticks(range(len(self.results)), list(self.results))
        self.ax_.ticklabel_format(axis="x", useOffset=False)
        self.ax_.tick_params(axis="y", length=0, pad=ARROW_SIZE + 2)  # beside the arrows
        marks = dict(zip(*self.ax_.get_legend_handles_labels()[::-1], strict=True))
        above = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 2}
        self.ax_.legend(marks.values(), marks, frameon=False, fontsize="small", **above)
        hide_frame(self.ax_)
        return self

    def _compute_ends(self):
        """Return the limits of the axis: the range of all finite numbers, with a margin."""
        numbers = [n for r in self.results.values() for n in (r.lower, r.value, r.upper)]
        numbers = np.array([n for n in numbers if np.isfinite(n)] or [0.0])
        margin = 0.12 * np.ptp(numbers) or 0.5
        return numbers.min() - margin, numbers.max() + margin

    def _plot_row(self, row, result, ends, kwargs):
        """Plot log Z and its limits for one result, or arrows if there are no limits."""
        value = np.clip(result.value, *ends)
        if result.lower == result.upper:
            marker, label = ("D", EXACT) if np.isfinite(result.value) else ("<", IMPOSSIBLE)
            self.values_ += self.ax_.plot(
                value, row, marker, color=BLACK, markersize=6, label=label, clip_on=False
            )
            return
        kinds = BOUND, BOUND if result.upper_is_bound else ESTIMATE
        for side, limit, kind in zip((0, 1), (result.lower, result.upper), kinds, strict=True):
            style = STYLES[kind if np.isfinite(limit) else NONE]
            style = {"markersize": 9, "linewidth": 2.2, "clip_on": False} | style
            heads = ("|", "|") if np.isfinite(limit) else ("<", ">")
            self.intervals_ += self.ax_.plot(
                [np.clip(limit, *ends), value],
                [row, row],
                marker=heads[side],
                markevery=[0],
                **merge_line_style(style, kwargs),
            )
        self.values_ += self.ax_.plot(value, row, "o", color=BLACK, markersize=4.5, label=VALUE)


def _check_dict(name, value, accepted):
    """Raise a TypeError if the value is not a dict."""
    if not isinstance(value, dict):
        raise TypeError(
            f"{name} must be a dict from names to {accepted}; got {type(value).__name__}. Pass "
            '{"name": ...}.'
        )
