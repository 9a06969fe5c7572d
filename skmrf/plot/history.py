"""Plots of the training history."""

import numpy as np

from .._utils.parameters import check_choice
from ..estimators.boltzmann_machine import BoltzmannMachine
from ..estimators.crbm import CRBMStructuredPredictor
from ..estimators.crf import CRF
from ..estimators.discrete_mrf import DiscreteMRF
from ..estimators.nnmrf.density import NNMRFDensity
from ..estimators.rbm import RBM
from ..estimators.structure_learner import MRFStructureLearner
from ._axes import BLUE, check_estimator, get_panel_axes, hide_frame, merge_line_style

MAX_PANELS = 6  # by default
ACCEPTED = (
    DiscreteMRF,
    BoltzmannMachine,
    RBM,
    CRBMStructuredPredictor,
    NNMRFDensity,
    MRFStructureLearner,
    CRF,
)
LABELS = {  # in the order of the panels
    "validation_score": "validation score (nats)",
    "log_likelihood": "log-likelihood (nats)",
    "objective": "objective (nats)",
    "hinge": "hinge loss (nats)",
    "perceptron_loss": "perceptron loss (nats)",
    "log_partition_bound": "bound on log Z (nats)",
    "log_partition": "log Z of the learner (nats)",
    "gradient_rms": "gradient, RMS entry",
    "gradient_max": "gradient, largest entry",
    "learning_rate": "learning rate",
    "n_temperatures": "temperatures per update",
    "ess": "effective sample size (fraction)",
    "least_ess": "smallest ESS (fraction)",
    "distinct": "distinct particles (fraction)",
    "swap_rate": "accepted swaps (fraction)",
    "least_swap_rate": "accepted swaps, worst pair",
    "round_trips": "round trips per chain",
    "acceptance": "accepted transitions (fraction)",
    "jumps_accepted": "accepted jumps (fraction)",
    "walks_accepted": "accepted walks (fraction)",
    "flip_rate": "changed entries (fraction)",
    "inference_converged": "converged inference (fraction)",
    "inference_iterations": "inference iterations",
    "n_propagations": "propagation iterations",
    "n_runs": "propagation runs",
    "residual": "message residual",
}
LOGARITHMIC = ("gradient_rms", "gradient_max", "learning_rate", "residual")
COUNTS = {"epoch": "epoch", "n_updates": "updates"}
REFERENCE_MODEL = "alpha_ is inf, so the model is the reference model of the penalty."
OTHER_REASONS = (
    "Either fit was not called, or the method needs no epochs, as MRFStructureLearner if a column "
    "is numeric."
)
ERRORS = {"log_partition": "log_partition_error"}


class HistoryDisplay:
    """Plot of the training history, with one panel for each diagnostic.

    Parameters
    ----------
    columns : dict of str to array-like of shape (n_epochs,)
        Recorded values of each diagnostic, keyed by name.
    x : array-like of shape (n_epochs,)
        Epochs or numbers of updates at which the values were recorded.
    errors : dict of str to array-like of shape (n_epochs,), optional
        Standard errors of some of the diagnostics, keyed by name.
    x_label : str, default="epoch"
        Label of the horizontal axes.
    labels : dict of str to str, optional
        Titles of the panels, keyed by name of the diagnostic. The default title is the name.

    Attributes
    ----------
    axes_ : ndarray of Axes of shape (n_panels,)
        Panels, one per diagnostic.
    figure_ : Figure
        Figure that contains the axes.
    lines_ : list of Line2D
        Lines, one per diagnostic.
    bands_ : dict of str to PolyCollection
        Bands of plus and minus two standard errors, keyed by name of the diagnostic.

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
        """Plot the training history ``history_`` of a fitted model.

        Parameters
        ----------
        estimator : DiscreteMRF, BoltzmannMachine, RBM, CRBMStructuredPredictor, NNMRFDensity, \
                MRFStructureLearner or CRF
            Fitted model.
        names : list of str, optional
            Keys of ``history_`` to plot. By default at most six are plotted: scores and objectives
            first, then other diagnostics.
        x : {"epoch", "n_updates"}, default="epoch"
            Quantity on the horizontal axis. If training consisted of several runs, for example the
            rounds of a structure learner, the epochs or updates of all runs are numbered
            consecutively.
        ax : array-like of Axes, optional
            Axes to draw in, one per panel. By default a new figure is made.
        **kwargs
            Properties of the lines, passed to matplotlib.

        Returns
        -------
        HistoryDisplay
            Display with the plot.

        Raises
        ------
        ValueError
            If a name is not a key of ``history_``, or if ``history_`` has no diagnostics because
            the model was not trained in epochs.
        """
        check_estimator(cls, estimator, ACCEPTED)
        check_choice("x", x, tuple(COUNTS))
        history = estimator.history_
        if not _choose_names(history):
            is_reference = getattr(estimator, "alpha_", None) == np.inf
            raise ValueError(
                "history_ has no diagnostics to plot, because the model was not trained in epochs. "
                + (REFERENCE_MODEL if is_reference else OTHER_REASONS)
            )
        names = _choose_names(history) if names is None else _check_names(names, history)
        labels = {name: LABELS.get(name, name) for name in names}
        if isinstance(estimator, CRBMStructuredPredictor) and "validation_score" in labels:
            labels["validation_score"] = "validation score (accuracy)"
        display = cls(
            {name: np.asarray(history[name], dtype=float) for name in names},
            _add_up_runs(history[x]),
            errors={n: np.asarray(history[e]) for n, e in ERRORS.items() if e in history},
            x_label=COUNTS[x],
            labels=labels,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Plot the training history.

        Parameters
        ----------
        ax : array-like of Axes, optional
            Axes to draw in, one per panel. By default a new figure is made.
        **kwargs
            Properties of the lines, passed to matplotlib.

        Returns
        -------
        HistoryDisplay
            The display itself.
        """
        n_columns = min(len(self.columns), 2)
        self.axes_ = get_panel_axes(ax, len(self.columns), (2.9, 1.9), n_columns)
        self.figure_ = self.axes_[0].figure
        self.lines_, self.bands_ = [], {}
        for axes, name in zip(self.axes_, self.columns, strict=True):
            self._plot_panel(axes, name, kwargs)
        for axes in self.axes_[-n_columns:]:
            axes.set_xlabel(self.x_label)
        return self

    def _plot_panel(self, axes, name, kwargs):
        values = np.asarray(self.columns[name], dtype=float)
        style = merge_line_style({"color": BLUE, "linewidth": 1.2}, kwargs)
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
        hide_frame(axes)


def _set_scale(axes, values, logarithmic):
    """Set the y-axis: logarithmic for a wide range, starting at 0 for a constant value."""
    finite = values[np.isfinite(values)]
    low, high = finite.min(initial=np.inf), finite.max(initial=-np.inf)
    if logarithmic and low > 0 and high > 30 * low:
        axes.set_yscale("log")
    elif low == high and high > 0:
        axes.set_ylim(0.0, 1.1 * high)


def _choose_names(history):
    """Return the keys of the history that are plotted by default."""
    excluded = {*COUNTS, *ERRORS.values()}
    labelled = [name for name in LABELS if name in history]
    others = [name for name in history if name not in LABELS and name not in excluded]
    return (labelled + others)[:MAX_PANELS]


def _check_names(names, history):
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if name not in history:
            raise ValueError(
                f"names contains {name!r}, but the keys of history_ are {sorted(history)}."
            )
    if not names:
        raise ValueError(f"names is empty; the keys of history_ are {sorted(history)}.")
    return names


def _add_up_runs(counts):
    """Convert counts that start at zero in each training run to counts over all runs."""
    counts = np.asarray(counts)
    restarts = np.flatnonzero(np.diff(counts) <= 0)
    before = np.zeros(len(counts), dtype=counts.dtype)
    before[restarts + 1] = counts[restarts]
    return counts + np.cumsum(before)
