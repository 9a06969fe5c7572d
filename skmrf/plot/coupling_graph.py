"""Graphs of columns: which interact, how strongly, and with which sign."""

import textwrap

import networkx as nx
import numpy as np

from .._utils.parameters import check_choice, check_number
from ..energies.pair_strengths import pair_strengths
from ..estimators.boltzmann_machine import BoltzmannMachine
from ..estimators.discrete_mrf import DiscreteMRF
from ..estimators.structure_learner import MRFStructureLearner
from ._axes import BLACK, BLUE, VERMILION, check_estimator, column_names, counted, single_axes

LAYOUTS = ("kamada-kawai", "circular")
WIDEST = 6.0  # points
SHORT = 3  # letters that fit into a node
LINE = 16  # letters in a line of a longer name
MOST_ALONE = 20  # nodes without an edge that are drawn
POSITIVE, NEGATIVE = "attract (coupling > 0)", "repel (coupling < 0)"


class CouplingGraphDisplay:
    r"""The strongest interactions as a graph.

    An edge is as wide as it is strong. Where no column has more than two states its colour is the
    sign of the coupling J of states -1 and 1, else all edges have one colour and their strength is
    the norm of the centred table, :math:`\lVert \theta_{ij} \rVert`. Columns without an edge are
    left out where they are more than 20, unless the layout has positions for them.

    Parameters
    ----------
    weights : array-like of shape (n_columns, n_columns)
        Symmetric, in nats; 0 where there is no edge. Infinite ones are drawn as the widest, dashed.
    names : list of str
    signed : bool
        Whether signs are shown.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    graph_ : networkx.Graph
        What is drawn: nodes by number, edges with ``weight``.
    positions_ : dict of int to (float, float)
    lines_ : LineCollection
        Edges, in the order of ``graph_.edges``.
    nodes_ : PathCollection

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from skmrf import BoltzmannMachine
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.inference import sample
    >>> from skmrf.plot import CouplingGraphDisplay
    >>> X = sample(make_ising("cycle", n_variables=5, coupling=0.5), 1000, random_state=0)
    >>> model = BoltzmannMachine("exact", binarize=0.5).fit(X)
    >>> display = CouplingGraphDisplay.from_estimator(model, n_strongest=5)
    >>> sorted(display.graph_.edges)
    [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)]
    """

    def __init__(self, weights, names, signed):
        self.weights = weights
        self.names = names
        self.signed = signed

    @classmethod
    def from_estimator(
        cls,
        estimator,
        *,
        threshold=0.0,
        n_strongest=60,
        layout="kamada-kawai",
        ax=None,
        **kwargs,
    ):
        """Draw the graph of a model.

        Parameters
        ----------
        estimator : DiscreteMRF, BoltzmannMachine or MRFStructureLearner
            Fitted. Of cliques of more than two columns, what pairs have of the table averaged over
            the others is drawn.
        threshold : float, default=0.0
            Edges must be stronger.
        n_strongest : int or None, default=60
            How many edges to draw at most.
        layout : {"kamada-kawai", "circular"} or dict, default="kamada-kawai"
            Where the columns are: "kamada-kawai" has them as far apart as they are in the graph; a
            dict has positions by number of the column.
        ax : Axes, optional
        **kwargs
            Of the edges, a matplotlib ``LineCollection``.

        Returns
        -------
        CouplingGraphDisplay
        """
        check_estimator(cls, estimator, (DiscreteMRF, BoltzmannMachine, MRFStructureLearner))
        weights, signed = _weights(estimator)
        return cls(weights, column_names(estimator), signed).plot(
            threshold=threshold,
            n_strongest=n_strongest,
            layout=layout,
            ax=ax,
            **kwargs,
        )

    def plot(
        self,
        *,
        threshold=0.0,
        n_strongest=60,
        layout="kamada-kawai",
        ax=None,
        **kwargs,
    ):
        """Draw.

        Parameters
        ----------
        threshold, n_strongest, layout
            As in :meth:`from_estimator`.
        ax : Axes, optional
        **kwargs
            Of the edges, a matplotlib ``LineCollection``.

        Returns
        -------
        CouplingGraphDisplay
        """
        check_number("threshold", threshold, low=0)
        if n_strongest is not None:
            check_number("n_strongest", n_strongest, low=1, integer=True)
        n_all = np.count_nonzero(np.triu(np.asarray(self.weights), 1))
        self.graph_ = _strongest(np.asarray(self.weights, dtype=float), threshold, n_strongest)
        alone = list(nx.isolates(self.graph_))
        left_out = len(alone) > MOST_ALONE and not isinstance(layout, dict)
        self.graph_.remove_nodes_from(alone if left_out else ())
        self.positions_ = _positions(self.graph_, layout)
        self.ax_ = single_axes(ax, (5.6, 5.0) if self._names_fit() else (6.6, 5.8))
        self.figure_ = self.ax_.figure
        self._draw_edges(kwargs)
        self._draw_nodes()
        self._legend()
        n_drawn = self.graph_.number_of_edges()
        few = f"{n_drawn} strongest of " if n_drawn < n_all else ""
        title = few + counted(n_all, "edge")
        title += f"; {len(alone)} columns without one are left out" if left_out else ""
        self.ax_.set_title(title, fontsize="medium")
        self.ax_.set_axis_off()
        self.ax_.margins(0.08)
        return self

    def _names_fit(self):
        """Whether names fit into the nodes."""
        return max(len(name) for name in self.names) <= SHORT

    def _largest(self):
        sizes = [abs(w) for *_, w in self.graph_.edges(data="weight") if np.isfinite(w)]
        return max(sizes, default=1.0)

    def _colour(self, weight):
        if not self.signed:
            return BLUE
        return BLUE if weight > 0 else VERMILION

    def _draw_edges(self, kwargs):
        from matplotlib.collections import LineCollection

        weights = [w for *_, w in self.graph_.edges(data="weight")]
        sizes = np.minimum(np.abs(weights), self._largest())
        style = {
            "linewidths": np.maximum(WIDEST * sizes / self._largest(), 0.4),
            "colors": [self._colour(w) for w in weights],
            "linestyles": ["-" if np.isfinite(w) else "--" for w in weights],
            "alpha": 0.75,
            "zorder": 1,
        }
        ends = [[self.positions_[i], self.positions_[j]] for i, j in self.graph_.edges]
        self.lines_ = LineCollection(ends, **(style | kwargs))
        self.ax_.add_collection(self.lines_)

    def _draw_nodes(self):
        """Short names within the nodes, longer ones below them."""
        inside = self._names_fit()
        places = np.array([self.positions_[i] for i in self.graph_.nodes]).reshape(-1, 2)
        self.nodes_ = self.ax_.scatter(
            *places.T, s=230 if inside else 40, color="white" if inside else BLACK, zorder=2,
            edgecolors=BLACK, linewidths=0.8
        )  # fmt: skip
        below = {"xytext": (0, 0 if inside else -5), "textcoords": "offset points"}
        below |= {"ha": "center", "va": "center" if inside else "top", "fontsize": 8, "zorder": 3}
        if not inside:
            below["bbox"] = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.5}
        for i, place in zip(self.graph_.nodes, places, strict=True):
            self.ax_.annotate(textwrap.fill(self.names[i], LINE), place, **below)

    def _legend(self):
        """The colours, and how strong an edge of the full and of a third of the width is."""
        from matplotlib.lines import Line2D

        kind = "coupling" if self.signed else "strength"
        marks = []
        if self.signed:
            found = {w > 0 for *_, w in self.graph_.edges(data="weight")}
            marks += [Line2D([], [], color=BLUE, linewidth=3, label=POSITIVE)] * (True in found)
            marks += [Line2D([], [], color=VERMILION, linewidth=3, label=NEGATIVE)] * (
                False in found
            )
        finite = {bool(np.isfinite(w)) for *_, w in self.graph_.edges(data="weight")}
        if True in finite:
            for share in (1.0, 1 / 3):
                label = f"|{kind}| = {share * self._largest():.2g} nats"
                marks.append(Line2D([], [], color="0.4", linewidth=share * WIDEST, label=label))
        if False in finite:
            label = f"|{kind}| infinite"
            marks.append(Line2D([], [], color="0.4", linewidth=3, linestyle="--", label=label))
        self.ax_.legend(
            handles=marks, frameon=False, fontsize="small", ncols=2, loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
        )  # fmt: skip


def _strongest(weights, threshold, n_strongest):
    """The graph of the edges that are drawn, with all columns for nodes."""
    rows, columns = np.nonzero(np.triu(np.abs(weights) > threshold, 1))
    order = np.argsort(-np.abs(weights[rows, columns]), kind="stable")[:n_strongest]
    graph = nx.Graph()
    graph.add_nodes_from(range(len(weights)))
    for i, j in sorted(zip(rows[order].tolist(), columns[order].tolist(), strict=True)):
        graph.add_edge(i, j, weight=float(weights[i, j]))
    return graph


def _positions(graph, layout):
    """Where the columns are; those without an edge in a row of their own below the others."""
    if isinstance(layout, dict):
        absent = sorted(set(graph) - set(layout))
        if absent:
            raise ValueError(f"layout has no position for the columns {absent[:8]}.")
        return {i: tuple(map(float, layout[i])) for i in graph}
    check_choice("layout", layout, LAYOUTS)
    if layout == "circular":
        return {i: tuple(p) for i, p in nx.circular_layout(graph).items()}
    alone = [i for i in graph if not graph.degree[i]]
    joined = graph.subgraph([i for i in graph if graph.degree[i]])
    distances = dict(nx.all_pairs_shortest_path_length(joined))
    apart = 1 + max((max(d.values()) for d in distances.values()), default=0)
    distances = {i: {j: d.get(j, apart) for j in joined} for i, d in distances.items()}
    places = nx.kamada_kawai_layout(joined, distances, nx.circular_layout(joined))
    bottom = min((p[1] for p in places.values()), default=0.0) - 0.35
    across = np.linspace(-1.0, 1.0, len(alone) + 2)[1:-1]
    return {i: tuple(p) for i, p in places.items()} | {
        i: (float(x), float(bottom)) for i, x in zip(alone, across, strict=True)
    }


def _weights(estimator):
    """Couplings or strengths of all pairs, and whether they have signs."""
    if isinstance(estimator, BoltzmannMachine):
        return estimator.coupling_, True
    if isinstance(estimator, MRFStructureLearner):
        if isinstance(estimator.coupling_, np.ndarray):
            return estimator.coupling_, True
        strength = np.zeros_like(estimator.strength_)
        for i, j in estimator.edges_:
            strength[i, j] = strength[j, i] = estimator.strength_[i, j]
        return strength, False
    return _of_tables(estimator.energy_)


def _of_tables(energy):
    """Of the pairs of a factor graph."""
    pairs, couplings, strengths = pair_strengths(energy)
    signed = bool((energy.n_states <= 2).all()) and not np.isnan(couplings).any()
    weights = np.zeros((energy.n_variables, energy.n_variables))
    for (i, j), value in zip(pairs, couplings if signed else strengths, strict=True):
        weights[i, j] = weights[j, i] = value
    return weights, signed
