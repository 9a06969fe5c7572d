"""What became of every edge while a graph was learned."""

import numpy as np

from ..estimators.structure_learner import MRFStructureLearner
from ._axes import (
    BLUE,
    COLOURS,
    GREY,
    check_estimator,
    column_names,
    line_style,
    pair_numbers,
    plain,
    single_axes,
)

KEPT, REMOVED, GONE, BACK = "edges kept", "edges removed", "removal", "return"


class StructurePathDisplay:
    """Parameters of edges by update, with their removals and returns.

    Parameters
    ----------
    edges : array-like of shape (n_paths, 2)
        Numbers of columns, the lower first.
    iteration : array-like of shape (n_records,)
        Updates.
    parameters : array-like of shape (n_records, n_paths)
        Zero while an edge is not in the model.
    kept : array-like of bool of shape (n_paths,)
        Whether the edge was there at the end.
    names : list of str
        Of the columns.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    lines_ : dict of (int, int) to Line2D
        By the numbers of an edge's columns; with gaps where it was away.
    removals_, returns_ : ndarray of shape (n_events, 2)
        Update and last or first parameter of every removal and every return.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from skmrf import MRFStructureLearner
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.inference import sample
    >>> from skmrf.plot import StructurePathDisplay
    >>> X = sample(make_ising("chain", n_variables=4, coupling=0.5), 1000, random_state=0)
    >>> learner = MRFStructureLearner(random_state=0).fit(X)
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
        """Draw ``path_``.

        Parameters
        ----------
        estimator : MRFStructureLearner
            Fitted.
        pairs : list of pairs, optional
            Edges to have a colour and a label of their own: two columns each, by name or number.
        ax : Axes, optional
        **kwargs
            Of the lines.

        Returns
        -------
        StructurePathDisplay

        Raises
        ------
        ValueError
            No pair of columns was a candidate; a pair that was never in the model.
        """
        check_estimator(cls, estimator, (MRFStructureLearner,))
        path = estimator.path_
        if not path.parameters.size:
            raise ValueError(
                "path_ has no record, as no pair of columns was a candidate; an edge needs two "
                "columns that vary, and screen=None takes all pairs of these."
            )
        chosen = set(map(tuple, estimator.edges_.tolist()))
        kept = np.array([tuple(edge) in chosen for edge in path.edges.tolist()])
        display = cls(path.edges, path.iteration, path.parameters, kept, column_names(estimator))
        return display.plot(pairs=pairs, ax=ax, **kwargs)

    def plot(self, *, pairs=None, ax=None, **kwargs):
        """Draw.

        Parameters
        ----------
        pairs : list of pairs, optional
            Edges to have a colour and a label of their own.
        ax : Axes, optional
        **kwargs
            Of the lines.

        Returns
        -------
        StructurePathDisplay
        """
        colours = self._colours(pairs)
        self.ax_ = single_axes(ax, (6.4, 3.6))
        self.figure_ = self.ax_.figure
        self.lines_ = {}
        removals, returns = [], []
        for column, (edge, kept) in enumerate(zip(map(tuple, self.edges), self.kept, strict=True)):
            values = _with_gaps(np.asarray(self.parameters)[:, column])
            self._line(edge, values, colours.get(edge), kept, kwargs)
            gone, back = _events(values, kept)
            removals.append(np.column_stack([np.asarray(self.iteration)[gone], values[gone]]))
            returns.append(np.column_stack([np.asarray(self.iteration)[back], values[back]]))
        self.removals_, self.returns_ = np.concatenate(removals), np.concatenate(returns)
        self._marks()
        self.ax_.axhline(0.0, color="black", linewidth=0.6, zorder=0)
        self.ax_.set(xlabel="updates", ylabel="parameter of the edge (nats)")
        self.ax_.margins(x=0.01)
        self._legend()
        plain(self.ax_)
        return self

    def _colours(self, pairs):
        """Colour of every chosen edge."""
        known = {tuple(map(int, edge)) for edge in self.edges}
        chosen = pair_numbers([] if pairs is None else pairs, list(self.names))
        for pair in chosen:
            if pair not in known:
                raise ValueError(
                    f"The pair {self._called(pair)} was never in the model, so it has no path."
                )
        return {pair: COLOURS[1:][k % (len(COLOURS) - 1)] for k, pair in enumerate(chosen)}

    def _called(self, edge):
        return " \u2013 ".join(self.names[i] for i in edge)

    def _line(self, edge, values, colour, kept, kwargs):
        if colour is not None:
            style = {"color": colour, "linewidth": 2.0, "zorder": 3, "label": self._called(edge)}
        else:
            style = {"color": BLUE if kept else GREY, "linewidth": 0.8, "alpha": 0.7}
            style["label"] = KEPT if kept else REMOVED
        if np.count_nonzero(np.isfinite(values)) == 1:
            style["marker"] = "o"
        (self.lines_[edge],) = self.ax_.plot(self.iteration, values, **line_style(style, kwargs))

    def _marks(self):
        for events, marker, label in (
            (self.removals_, "x", GONE),
            (self.returns_, "^", BACK),
        ):
            if len(events):
                self.ax_.plot(*events.T, marker, color="0.25", markersize=4, label=label)

    def _legend(self):
        """Chosen edges first; all others of a kind have one entry."""
        marks = dict(zip(*self.ax_.get_legend_handles_labels()[::-1], strict=True))
        order = sorted(marks, key=lambda label: label in (KEPT, REMOVED, GONE, BACK))
        above = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 3}
        handles = [marks[label] for label in order]
        self.ax_.legend(handles, order, frameon=False, fontsize="small", **above)


def _with_gaps(values):
    """Values with nan where the edge was not in the model."""
    return np.where(values == 0.0, np.nan, values.astype(float))


def _events(values, kept):
    """Records after which the edge was away, and those with which it was back."""
    there = np.isfinite(values)
    gone = np.flatnonzero(there & ~np.append(there[1:], kept))
    back = np.flatnonzero(~there[:-1] & there[1:]) + 1
    return gone, back[back > np.argmax(there)]
