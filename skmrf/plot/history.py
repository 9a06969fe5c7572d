"""Diagnostics of learning by epoch."""

import numpy as np

from .._utils.parameters import check_choice
from ..estimators.boltzmann_machine import BoltzmannMachine
from ..estimators.crbm import CRBMStructuredPredictor
from ..estimators.discrete_mrf import DiscreteMRF
from ..estimators.nnmrf.density import NNMRFDensity
from ..estimators.rbm import RBM
from ..estimators.structure_learner import MRFStructureLearner
from ._axes import BLUE, check_estimator, line_style, panel_axes, plain

MOST = 6  # panels by default
ACCEPTED = (
    DiscreteMRF,
    BoltzmannMachine,
    RBM,
    CRBMStructuredPredictor,
    NNMRFDensity,
    MRFStructureLearner,
)
LABELS = {  # in the order in which they are shown
    "validation_score": "validation score (nats)",
    "objective": "objective (nats)",
    "hinge": "hinge loss (nats)",
    "perceptron_loss": "perceptron loss (nats)",
    "log_partition_bound": "bound on log Z (nats)",
    "log_partition": "log Z of the learner (nats)",
    "gradient_rms": "gradient, RMS entry",
    "gradient_max": "gradient, largest entry",
    "learning_rate": "learning rate",
    "n_temperatures": "temperatures an update",
    "ess": "effective sample size",
    "least_ess": "least effective size (share)",
    "distinct": "distinct particles (share)",
    "swap_rate": "swaps accepted (share)",
    "least_swap_rate": "swaps, worst pair (share)",
    "round_trips": "round trips a chain",
    "acceptance": "transitions accepted (share)",
    "jumps_accepted": "jumps accepted (share)",
    "walks_accepted": "walks accepted (share)",
    "flip_rate": "entries changed (share)",
    "inference_converged": "inference converged (share)",
    "inference_iterations": "iterations of inference",
    "n_propagations": "iterations of propagation",
    "residual": "residual of messages",
}
LOGARITHMIC = ("gradient_rms", "gradient_max", "learning_rate", "residual")
COUNTS = {"epoch": "epoch", "n_updates": "updates"}
ERRORS = {"log_partition": "log_partition_error"}


class HistoryDisplay:
    """Diagnostics of learning, a panel each.

    Parameters
    ----------
    columns : dict of str to array-like of shape (n_epochs,)
        Diagnostics by name.
    x : array-like of shape (n_epochs,)
        Where they were recorded.
    errors : dict of str to array-like of shape (n_epochs,), optional
        Standard errors of some of the columns.
    x_label : str, default="epoch"
    labels : dict of str to str, optional
        What to call the columns, with units; by default their names.

    Attributes
    ----------
    axes_ : ndarray of Axes, one a panel
    figure_ : Figure
    lines_ : list of Line2D
    bands_ : dict of str to PolyCollection
        Two standard errors to both sides.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from skmrf import DiscreteMRF
    >>> from skmrf.plot import HistoryDisplay
    >>> model = DiscreteMRF(learner="exact", alpha=0.1).fit([[0, 0], [1, 1], [1, 0], [0, 0]])
    >>> display = HistoryDisplay.from_estimator(model)
    >>> list(display.columns)
    ['objective', 'gradient_max']
    """

    def __init__(self, columns, x, *, errors=None, x_label="epoch", labels=None):
        self.columns = columns
        self.x = x
        self.errors = errors
        self.x_label = x_label
        self.labels = labels

    @classmethod
    def from_estimator(cls, estimator, *, names=None, x="epoch", ax=None, **kwargs):
        """Draw ``history_``.

        Parameters
        ----------
        estimator : DiscreteMRF, BoltzmannMachine, RBM, CRBMStructuredPredictor, NNMRFDensity or \
                MRFStructureLearner
            Fitted.
        names : list of str, optional
            Columns of ``history_``; by default scores and objectives first and then diagnostics,
            six at most.
        x : {"epoch", "n_updates"}, default="epoch"
            Counted on where learning began anew, as in the rounds of a structure learner.
        ax : array-like of Axes, optional
            One a panel.
        **kwargs
            Of the lines.

        Returns
        -------
        HistoryDisplay

        Raises
        ------
        ValueError
            A name that is no column of ``history_``; a model that was not learned here.
        """
        check_estimator(cls, estimator, ACCEPTED)
        check_choice("x", x, tuple(COUNTS))
        history = estimator.history_
        if not history:
            raise ValueError(
                "history_ is empty: learning began at the maximum and made no update, or the model "
                "was not learned by this estimator."
            )
        names = _shown(history) if names is None else _known(names, history)
        labels = {name: LABELS.get(name, name) for name in names}
        if isinstance(estimator, CRBMStructuredPredictor) and "validation_score" in labels:
            labels["validation_score"] = "validation score (accuracy)"
        display = cls(
            {name: np.asarray(history[name], dtype=float) for name in names},
            _continued(history[x]),
            errors={n: np.asarray(history[e]) for n, e in ERRORS.items() if e in history},
            x_label=COUNTS[x],
            labels=labels,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw.

        Parameters
        ----------
        ax : array-like of Axes, optional
            One a panel.
        **kwargs
            Of the lines.

        Returns
        -------
        HistoryDisplay
        """
        n_columns = min(len(self.columns), 2)
        self.axes_ = panel_axes(ax, len(self.columns), (2.9, 1.9), n_columns)
        self.figure_ = self.axes_[0].figure
        self.lines_, self.bands_ = [], {}
        for axes, name in zip(self.axes_, self.columns, strict=True):
            self._panel(axes, name, kwargs)
        for axes in self.axes_[-n_columns:]:
            axes.set_xlabel(self.x_label)
        return self

    def _panel(self, axes, name, kwargs):
        values = np.asarray(self.columns[name], dtype=float)
        style = line_style({"color": BLUE, "linewidth": 1.2}, kwargs)
        if len(values) == 1:
            style.setdefault("marker", "o")
        self.lines_ += axes.plot(self.x, values, **style)
        error = (self.errors or {}).get(name)
        if error is not None:
            low, high = values - 2 * np.asarray(error), values + 2 * np.asarray(error)
            self.bands_[name] = axes.fill_between(
                self.x, low, high, color=style["color"], alpha=0.25, linewidth=0
            )
        _set_scale(axes, values, logarithmic=name in LOGARITHMIC)
        axes.set_title((self.labels or {}).get(name, name), fontsize="medium")
        plain(axes)


def _set_scale(axes, values, logarithmic):
    """Decades where there are some; all of it where nothing changes."""
    finite = values[np.isfinite(values)]
    low, high = finite.min(initial=np.inf), finite.max(initial=-np.inf)
    if logarithmic and low > 0 and high > 30 * low:
        axes.set_yscale("log")
    elif low == high and high > 0:
        axes.set_ylim(0.0, 1.1 * high)


def _shown(history):
    """Columns to show by default."""
    passed_over = {*COUNTS, *ERRORS.values()}
    known = [name for name in LABELS if name in history]
    others = [name for name in history if name not in LABELS and name not in passed_over]
    return (known + others)[:MOST]


def _known(names, history):
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if name not in history:
            raise ValueError(
                f"names has {name!r}, but the columns of history_ are {sorted(history)}."
            )
    if not names:
        raise ValueError(f"names is empty; the columns of history_ are {sorted(history)}.")
    return names


def _continued(counts):
    """Counts that begin anew with every run, counted on."""
    counts = np.asarray(counts)
    restarts = np.flatnonzero(np.diff(counts) <= 0)
    before = np.zeros(len(counts), dtype=counts.dtype)
    before[restarts + 1] = counts[restarts]
    return counts + np.cumsum(before)
