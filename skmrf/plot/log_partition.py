"""Estimates of log Z with their limits."""

import numpy as np

from .._utils.results import LogPartition
from ..estimators.boltzmann_machine import BoltzmannMachine
from ..estimators.discrete_mrf import DiscreteMRF
from ..estimators.nnmrf.density import NNMRFDensity
from ..estimators.rbm import RBM
from ._axes import BLACK, BLUE, GREY, ORANGE, check_estimator, line_style, plain, single_axes

EXACT, IMPOSSIBLE, VALUE = "exact", "exact: minus infinity", "value"
BOUND, ESTIMATE, NONE = "limit: a bound", "limit: an estimate", "no limit"
STYLES = {
    BOUND: {"color": BLUE, "label": BOUND},
    ESTIMATE: {"color": ORANGE, "linestyle": (0, (2, 1)), "label": ESTIMATE},
    NONE: {"color": GREY, "linestyle": ":", "label": NONE, "markersize": 6},
}


class LogPartitionDisplay:
    """Lower limit, value and upper limit of log Z, a row for every result.

    The lower limit of a result bounds log Z, with its confidence. The upper one does where its line
    is solid; where it is dashed it is an estimate that log Z may exceed. A dotted arrow stands for
    a limit that there is not.

    Parameters
    ----------
    results : dict of str to LogPartition

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    values_ : list of Line2D
        The value of every result.
    intervals_ : list of Line2D
        From a limit to the value, the lower and the upper one of every result that is not exact.

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
        """Draw what :func:`skmrf.inference.log_partition` returned.

        Parameters
        ----------
        results : dict of str to LogPartition
            By what to call them.
        ax : Axes, optional
        **kwargs
            Of the lines of the intervals.

        Returns
        -------
        LogPartitionDisplay
        """
        accepted = "what skmrf.inference.log_partition returns"
        _check_named("results", results, accepted)
        wrong = [k for k, v in results.items() if not isinstance(v, LogPartition)]
        if wrong or not results:
            found = f"{type(results[wrong[0]]).__name__} for {wrong[0]!r}" if wrong else "none"
            raise TypeError(f"results must be a dict from names to {accepted}; got {found}.")
        return cls(dict(results)).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **kwargs):
        """Draw log Z of a fitted density.

        Parameters
        ----------
        estimator : DiscreteMRF, BoltzmannMachine, RBM or NNMRFDensity
            Fitted; log Z is computed if it was not yet asked for.
        ax : Axes, optional
        **kwargs
            Of the lines of the intervals.

        Returns
        -------
        LogPartitionDisplay
        """
        return cls.from_estimators({type(estimator).__name__: estimator}, ax=ax, **kwargs)

    @classmethod
    def from_estimators(cls, estimators, *, ax=None, **kwargs):
        """Draw log Z of several fitted densities.

        Parameters
        ----------
        estimators : dict of str to estimator
            By what to call them; of the classes that :meth:`from_estimator` takes.
        ax : Axes, optional
        **kwargs
            Of the lines of the intervals.

        Returns
        -------
        LogPartitionDisplay
        """
        _check_named("estimators", estimators, "fitted densities")
        for estimator in estimators.values():
            check_estimator(cls, estimator, (DiscreteMRF, BoltzmannMachine, RBM, NNMRFDensity))
        results = {name: estimator._log_partition() for name, estimator in estimators.items()}
        return cls.from_results(results, ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw.

        Parameters
        ----------
        ax : Axes, optional
        **kwargs
            Of the lines of the intervals.

        Returns
        -------
        LogPartitionDisplay
        """
        self.ax_ = single_axes(ax, (5.6, 1.1 + 0.45 * len(self.results)))
        self.figure_ = self.ax_.figure
        self.values_, self.intervals_ = [], []
        ends = self._ends()
        for row, result in enumerate(self.results.values()):
            self._row(row, result, ends, kwargs)
        self.ax_.set(xlim=ends, ylim=(len(self.results) - 0.5, -0.5), xlabel="log Z (nats)")
        self.ax_.set_yticks(range(len(self.results)), list(self.results))
        self.ax_.ticklabel_format(axis="x", useOffset=False)
        self.ax_.tick_params(axis="y", length=0)
        marks = dict(zip(*self.ax_.get_legend_handles_labels()[::-1], strict=True))
        above = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 2}
        self.ax_.legend(marks.values(), marks, frameon=False, fontsize="small", **above)
        plain(self.ax_)
        return self

    def _ends(self):
        """What the axis shows: all finite numbers, and some room."""
        numbers = [n for r in self.results.values() for n in (r.lower, r.value, r.upper)]
        numbers = np.array([n for n in numbers if np.isfinite(n)] or [0.0])
        room = 0.12 * np.ptp(numbers) or 0.5
        return numbers.min() - room, numbers.max() + room

    def _row(self, row, result, ends, kwargs):
        """One result: its limits, or arrows where there are none, and its value."""
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
                **line_style(style, kwargs),
            )
        self.values_ += self.ax_.plot(value, row, "o", color=BLACK, markersize=4.5, label=VALUE)


def _check_named(name, given, accepted):
    """A dict, and neither a single thing nor a list of them."""
    if not isinstance(given, dict):
        raise TypeError(
            f"{name} must be a dict from names to {accepted}; got {type(given).__name__}. Give "
            '{"name": ...}.'
        )
