"""Displays of paths: regularization paths, and edge parameters during a graph search."""

import numpy as np

from ..estimators.discrete_mrf import DiscreteMRF
from ..estimators.structure_learner import MRFStructureLearner
from ._axes import (
    BLUE,
    COLOURS,
    GREY,
    check_estimator,
    get_column_names,
    get_pair_indices,
    get_single_axes,
    hide_frame,
    merge_line_style,
)

KEPT, REMOVED, REMOVAL, RETURN = "edges kept", "edges removed", "removal", "return"


class RegularizationPathDisplay:
    """Plot of held-out scores against the penalty strength, for ``alpha="auto"``.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,)
        Penalty strengths in decreasing order. The first one is inf: the reference model.
    scores : array-like of shape (n_alphas,)
        Mean score of a held-out row, in nats.
    std_errors : array-like of shape (n_alphas,)
        Standard error of the difference between each score and the first score, in nats.
    chosen : float
        Chosen strength; inf for the reference model.
    criterion : str, default="log-likelihood"
        Kind of the scores, for the label of the axis.

    Attributes
    ----------
    ax_ : Axes
        Axes of the plot.
    figure_ : Figure
        Figure that contains the axes.
    line_ : Line2D
        Scores of the finite strengths.
    reference_line_ : Line2D
        Score of the reference model.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from skmrf import DiscreteMRF
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.inference import sample
    >>> from skmrf.plot import RegularizationPathDisplay
    >>> X = sample(make_ising("cycle", n_variables=4, coupling=0.5), 1000, random_state=0)
    >>> display = RegularizationPathDisplay.from_estimator(DiscreteMRF().fit(X))
    >>> bool(display.alphas[0] == float("inf"))
    True
    """

    def __init__(self, alphas, scores, std_errors, chosen, criterion="log-likelihood"):
        self.alphas = alphas
        self.scores = scores
        self.std_errors = std_errors
        self.chosen = chosen
        self.criterion = criterion

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **kwargs):
        """Plot ``regularization_path_`` of a model that was fitted with ``alpha="auto"``.

        Parameters
        ----------
        estimator : DiscreteMRF
            Fitted model.
        ax : Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the line of scores, passed to matplotlib.

        Returns
        -------
        RegularizationPathDisplay
            Display with the plot.

        Raises
        ------
        ValueError
            If the model was not fitted with ``alpha="auto"``.
        """
        check_estimator(cls, estimator, (DiscreteMRF,))
        path = vars(estimator).get("regularization_path_")
        if path is None:
            raise ValueError(
                'The model has no path of penalty strengths. Fit it with alpha="auto", with fit '
                "and not with partial_fit."
            )
        display = cls(path.alphas, path.scores, path.std_errors, estimator.alpha_, path.criterion)
        return display.plot(ax=ax, **kwargs)

    def plot(self, *, ax=None, **kwargs):
        """Plot the held-out scores against the penalty strength.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the line of scores, passed to matplotlib.

        Returns
        -------
        RegularizationPathDisplay
            This display.
        """
        self.ax_ = get_single_axes(ax, (5.0, 3.4))
        self.figure_ = self.ax_.figure
        alphas, scores = np.asarray(self.alphas), np.asarray(self.scores)
        style = merge_line_style({"color": BLUE, "marker": "o"}, kwargs)
        (self.line_,) = self.ax_.plot(alphas[1:], scores[1:], label="penalised model", **style)
        errors = np.asarray(self.std_errors)[1:]
        self.ax_.fill_between(
            alphas[1:], scores[1:] - errors, scores[1:] + errors, color=BLUE, alpha=0.2, lw=0
        )
        self.reference_line_ = self.ax_.axhline(
            scores[0], color=GREY, linestyle="--", label="reference model"
        )
        if np.isfinite(self.chosen):
            self.ax_.axvline(self.chosen, color=GREY, linestyle=":", label="chosen alpha")
        self.ax_.set(xscale="log", xlabel="alpha", ylabel=f"{self.criterion} of a row (nats)")
        self.ax_.legend(frameon=False)
        hide_frame(self.ax_)
        return self


class StructurePathDisplay:
    """Plot of the parameters of edges during structure learning.

    Marks show when an edge was removed from the model and when it was added again.

    Parameters
    ----------
    edges : array-like of shape (n_paths, 2)
        Column indices of each edge, the lower one first.
    iteration : array-like of shape (n_records,)
        Number of updates at each record.
    parameters : array-like of shape (n_records, n_paths)
        Parameter of each edge in nats; zero while the edge is not in the model.
    kept : array-like of bool of shape (n_paths,)
        Whether the edge is in the final model.
    names : list of str of length n_columns
        Names of the columns.

    Attributes
    ----------
    ax_ : Axes
        Axes of the plot.
    figure_ : Figure
        Figure that contains the axes.
    lines_ : dict of (int, int) to Line2D
        Line of each edge, keyed by its column indices. The line is interrupted while the edge is
        not in the model.
    removals_ : ndarray of shape (n_removals, 2)
        For each removal, the number of updates and the last parameter before it.
    returns_ : ndarray of shape (n_returns, 2)
        For each return of an edge, the number of updates and the first parameter after it.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from skmrf import MRFStructureLearner
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.inference import sample
    >>> from skmrf.plot import StructurePathDisplay
    >>> X = sample(make_ising("chain", n_variables=4, coupling=0.5), 1000, random_state=0)
    >>> learner = MRFStructureLearner("exact").fit(X)
    >>> display = StructurePathDisplay.from_estimator(learner, pairs=[(0, 1)])
    >>> len(display.lines_), int(display.kept.sum())
    (6, 3)
    """

    def __init__(self, edges, iteration, parameters, kept, names):
        self.edges = edges
        self.iteration = iteration
        self.parameters = parameters
        self.kept = kept
        self.names = names

    @classmethod
    def from_estimator(cls, estimator, *, pairs=None, ax=None, **kwargs):
        """Plot the edge parameters ``path_`` of a fitted structure learner.

        Parameters
        ----------
        estimator : MRFStructureLearner
            Fitted structure learner.
        pairs : list of pairs, optional
            Edges that get a colour and a legend entry of their own. Each is a pair of columns,
            given by name or by index.
        ax : Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the lines, passed to matplotlib.

        Returns
        -------
        StructurePathDisplay
            Display with the plot.

        Raises
        ------
        ValueError
            If a column is numeric, if no pair of columns was a candidate, or if a pair of
            ``pairs`` was never in the model.
        """
        check_estimator(cls, estimator, (MRFStructureLearner,))
        if not hasattr(estimator, "path_"):
            raise ValueError(
                "The structure learner has no path_, because a column is numeric. Use "
                "CouplingGraphDisplay to draw the graph."
            )
        path = estimator.path_
        if not path.parameters.size:
            raise ValueError(
                "path_ has no record, because no pair of columns was a candidate. An edge needs "
                "two columns that are not constant; screen=None makes all such pairs candidates."
            )
        chosen = set(map(tuple, estimator.edges_.tolist()))
        kept = np.array([tuple(edge) in chosen for edge in path.edges.tolist()])
        names = get_column_names(estimator)
        display = cls(path.edges, path.iteration, path.parameters, kept, names)
        return display.plot(pairs=pairs, ax=ax, **kwargs)

    def plot(self, *, pairs=None, ax=None, **kwargs):
        """Plot the parameters of each edge against the number of updates.

        Parameters
        ----------
        pairs : list of pairs, optional
            Edges that get a colour and a legend entry of their own. Each is a pair of columns,
            given by name or by index.
        ax : Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the lines, passed to matplotlib.

        Returns
        -------
        StructurePathDisplay
            The display itself.
        """
        colours = self._choose_colours(pairs)
        self.ax_ = get_single_axes(ax, (6.4, 3.6))
        self.figure_ = self.ax_.figure
        self.lines_ = {}
        removals, returns = [], []
        for column, (edge, kept) in enumerate(zip(map(tuple, self.edges), self.kept, strict=True)):
            values = _replace_zeros(np.asarray(self.parameters)[:, column])
            self._plot_line(edge, values, colours.get(edge), kept, kwargs)
            gone, back = _find_events(values, kept)
            removals.append(np.column_stack([np.asarray(self.iteration)[gone], values[gone]]))
            returns.append(np.column_stack([np.asarray(self.iteration)[back], values[back]]))
        self.removals_, self.returns_ = np.concatenate(removals), np.concatenate(returns)
        self._plot_events()
        self.ax_.axhline(0.0, color="black", linewidth=0.6, zorder=0)
        self.ax_.set(xlabel="updates", ylabel="parameter of the edge (nats)")
        self.ax_.margins(x=0.01)
        self._draw_legend()
        hide_frame(self.ax_)
        return self

    def _choose_colours(self, pairs):
        """Return a dict with a colour for each edge that the user lists in ``pairs``."""
        edges = {tuple(map(int, edge)) for edge in self.edges}
        chosen = get_pair_indices([] if pairs is None else pairs, list(self.names))
        for pair in chosen:
            if pair not in edges:
                raise ValueError(
                    f"The pair {self._format_edge(pair)} was never in the model, so it cannot be "
                    "plotted. Choose pairs from path_.edges."
                )
        return {pair: COLOURS[1:][k % (len(COLOURS) - 1)] for k, pair in enumerate(chosen)}

    def _format_edge(self, edge):
        return " \u2013 ".join(self.names[i] for i in edge)

    def _plot_line(self, edge, values, colour, kept, kwargs):
        if colour is not None:
            label = self._format_edge(edge)
            style = {"color": colour, "linewidth": 2.0, "zorder": 3, "label": label}
        else:
            style = {"color": BLUE if kept else GREY, "linewidth": 0.8, "alpha": 0.7}
            style["label"] = KEPT if kept else REMOVED
        if np.count_nonzero(np.isfinite(values)) == 1:
            style["marker"] = "o"
        style = merge_line_style(style, kwargs)
        (self.lines_[edge],) = self.ax_.plot(self.iteration, values, **style)

    def _plot_events(self):
        for events, marker, label in (
            (self.removals_, "x", REMOVAL),
            (self.returns_, "^", RETURN),
        ):
            if len(events):
                self.ax_.plot(*events.T, marker, color="0.25", markersize=4, label=label)

    def _draw_legend(self):
        """Draw the legend: the chosen edges first, then one entry for each kind of other edge."""
        marks = dict(zip(*self.ax_.get_legend_handles_labels()[::-1], strict=True))
        order = sorted(marks, key=lambda label: label in (KEPT, REMOVED, REMOVAL, RETURN))
        above = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 3}
        handles = [marks[label] for label in order]
        self.ax_.legend(handles, order, frameon=False, fontsize="small", **above)


def _replace_zeros(values):
    """Replace zeros by nan, because an edge with parameter zero is not in the model."""
    return np.where(values == 0.0, np.nan, values.astype(float))


def _find_events(values, kept):
    """Find the recorded updates at which an edge was removed, and at which it was added again.

    Returns the last record before each removal, and the first record after each return.
    """
    is_present = np.isfinite(values)
    gone = np.flatnonzero(is_present & ~np.append(is_present[1:], kept))
    back = np.flatnonzero(~is_present[:-1] & is_present[1:]) + 1
    return gone, back[back > np.argmax(is_present)]
