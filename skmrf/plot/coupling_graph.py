"""Plots of the interaction graph of a model."""

import textwrap

import networkx as nx
import numpy as np

from .._utils.parameters import check_choice, check_number, show_list
from ..energies.factor_graph import pair_strengths
from ..estimators.boltzmann_machine import BoltzmannMachine
from ..estimators.discrete_mrf import DiscreteMRF
from ..estimators.structure_learner import MRFStructureLearner
from ._axes import (
    BLACK,
    BLUE,
    VERMILION,
    check_estimator,
    format_count,
    get_column_names,
    get_single_axes,
)

LAYOUTS = ("kamada-kawai", "circular")
MAX_WIDTH = 6.0  # points
MAX_INSIDE = 3  # longest name, in letters, that fits inside a node
LINE_LENGTH = 16  # letters per line of a longer name
MAX_ISOLATED = 20  # if more nodes have no edge, these nodes are not drawn
INSIDE_PER_ROW, BELOW_PER_ROW = 10, 4  # nodes without edges, by the place of their names
ROW_STEP = 0.4  # distance of these rows; the layout of the other nodes has the radius 1
POSITIVE, NEGATIVE = "attract (coupling > 0)", "repel (coupling < 0)"


class CouplingGraphDisplay:
    r"""Plot of the strongest interactions of a model as a graph.

    The width of an edge is proportional to its strength. If no column has more than two states,
    the strength is the absolute coupling :math:`|J|` of the states -1 and 1, and the colour shows
    the sign of :math:`J`. If all columns of a structure learner are numeric, the couplings are
    partial correlations. Otherwise all edges have the same colour, and the strength is the norm
    of the centred table, :math:`\lVert \theta_{ij} \rVert`. If more than 20 columns have no edge,
    these columns are omitted, unless the layout gives positions.

    Parameters
    ----------
    weights : array-like of shape (n_columns, n_columns)
        Symmetric matrix of couplings or strengths in nats. A weight of 0 means no edge. Edges with
        infinite weights are dashed and have the maximal width.
    names : list of str of length n_columns
        Names of the columns.
    signed : bool
        Whether colours show the signs of the weights.
    unit : str, default="nats"
        Unit of the weights in the legend. It is empty for partial correlations.

    Attributes
    ----------
    ax_ : Axes
        Axes of the plot.
    figure_ : Figure
        Figure that contains the axes.
    graph_ : networkx.Graph
        Plotted graph: the nodes are column indices, and edges have the attribute ``weight``.
    positions_ : dict of int to (float, float)
        Coordinates of each plotted column.
    lines_ : LineCollection
        Edges, in the order of ``graph_.edges``.
    nodes_ : PathCollection
        Nodes, in the order of ``graph_.nodes``.

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

    def __init__(self, weights, names, signed, unit="nats"):
        self.weights = weights
        self.names = names
        self.signed = signed
        self.unit = unit

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
        """Plot the interaction graph of a fitted model.

        Parameters
        ----------
        estimator : DiscreteMRF, BoltzmannMachine or MRFStructureLearner
            Fitted model. The table of a clique with more than two columns is averaged over the
            other columns for each of its pairs.
        threshold : float, default=0.0
            Plot only edges with a strength above this value, in nats.
        n_strongest : int or None, default=60
            Plot at most this number of edges, the strongest ones. None means no limit.
        layout : {"kamada-kawai", "circular"} or dict, default="kamada-kawai"
            Positions of the columns. With "kamada-kawai", distances in the plot approximate
            distances in the graph. With "circular", the columns are on a circle. A dict maps each
            column index to its coordinates (x, y).
        ax : Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the edges, passed to the matplotlib ``LineCollection``.

        Returns
        -------
        CouplingGraphDisplay
            Display with the plot.
        """
        check_estimator(cls, estimator, (DiscreteMRF, BoltzmannMachine, MRFStructureLearner))
        weights, signed = _get_weights(estimator)
        is_correlation = isinstance(estimator, MRFStructureLearner) and signed
        is_correlation = is_correlation and not hasattr(estimator, "energy_")
        unit = "" if is_correlation else "nats"
        return cls(weights, get_column_names(estimator), signed, unit).plot(
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
        """Plot the interaction graph.

        Parameters
        ----------
        threshold : float, default=0.0
            Plot only edges with a strength above this value, in nats.
        n_strongest : int or None, default=60
            Plot at most this number of edges, the strongest ones. None means no limit.
        layout : {"kamada-kawai", "circular"} or dict, default="kamada-kawai"
            Positions of the columns. With "kamada-kawai", distances in the plot approximate
            distances in the graph. With "circular", the columns are on a circle. A dict maps each
            column index to its coordinates (x, y).
        ax : Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the edges, passed to the matplotlib ``LineCollection``.

        Returns
        -------
        CouplingGraphDisplay
            The display itself.
        """
        check_number("threshold", threshold, low=0)
        if n_strongest is not None:
            check_number("n_strongest", n_strongest, low=1, integer=True)
        n_all = np.count_nonzero(np.triu(np.asarray(self.weights), 1))
        self.graph_ = _select_edges(np.asarray(self.weights, dtype=float), threshold, n_strongest)
        isolated = list(nx.isolates(self.graph_))
        omitted = len(isolated) > MAX_ISOLATED and not isinstance(layout, dict)
        self.graph_.remove_nodes_from(isolated if omitted else ())
        names_fit = self._names_fit()
        row_length = INSIDE_PER_ROW if names_fit else BELOW_PER_ROW
        self.positions_ = _compute_positions(self.graph_, layout, row_length)
        self.ax_ = get_single_axes(ax, (5.6, 5.0) if names_fit else (6.6, 5.8))
        self.figure_ = self.ax_.figure
        self._draw_edges(kwargs)
        self._draw_nodes()
        self._draw_legend()
        n_drawn = self.graph_.number_of_edges()
        few = f"{n_drawn} strongest of " if n_drawn < n_all else ""
        title = few + format_count(n_all, "edge")
        title += f"; {len(isolated)} columns without edges omitted" if omitted else ""
        self.ax_.set_title(title, fontsize="medium")
        self.ax_.set_axis_off()
        self.ax_.margins(0.08)
        return self

    def _names_fit(self):
        """Return True if the names of all columns fit inside the plotted nodes."""
        return max(len(name) for name in self.names) <= MAX_INSIDE

    def _max_weight(self):
        """Return the largest finite absolute weight of an edge."""
        sizes = [abs(w) for *_, w in self.graph_.edges(data="weight") if np.isfinite(w)]
        return max(sizes, default=1.0)

    def _get_colour(self, weight):
        if not self.signed:
            return BLUE
        return BLUE if weight > 0 else VERMILION

    def _draw_edges(self, kwargs):
        from matplotlib.collections import LineCollection

        weights = [w for *_, w in self.graph_.edges(data="weight")]
        sizes = np.minimum(np.abs(weights), self._max_weight())
        style = {
            "linewidths": np.maximum(MAX_WIDTH * sizes / self._max_weight(), 0.4),
            "colors": [self._get_colour(w) for w in weights],
            "linestyles": ["-" if np.isfinite(w) else "--" for w in weights],
            "alpha": 0.75,
            "zorder": 1,
        }
        ends = [[self.positions_[i], self.positions_[j]] for i, j in self.graph_.edges]
        self.lines_ = LineCollection(ends, **(style | kwargs))
        self.ax_.add_collection(self.lines_)

    def _draw_nodes(self):
        """Draw the nodes, with short names inside them and longer names below them."""
        inside = self._names_fit()
        places = np.array([self.positions_[i] for i in self.graph_.nodes]).reshape(-1, 2)
        self.nodes_ = self.ax_.scatter(
            *places.T, s=230 if inside else 40, color="white" if inside else BLACK, zorder=2,
            edgecolors=BLACK, linewidths=0.8
        )  # fmt: skip
        style = {"xytext": (0, 0 if inside else -5), "textcoords": "offset points"}
        style |= {"ha": "center", "va": "center" if inside else "top", "fontsize": 8, "zorder": 3}
        if not inside:
            style["bbox"] = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.5}
        for i, place in zip(self.graph_.nodes, places, strict=True):
            self.ax_.annotate(textwrap.fill(self.names[i], LINE_LENGTH), place, **style)

    def _draw_legend(self):
        """Draw the legend of colours and line widths."""
        from matplotlib.lines import Line2D

        kind = "coupling" if self.signed else "strength"
        marks = []
        if self.signed:
            is_positive = {w > 0 for *_, w in self.graph_.edges(data="weight")}
            marks += [Line2D([], [], color=BLUE, linewidth=3, label=POSITIVE)] * (
                True in is_positive
            )
            marks += [Line2D([], [], color=VERMILION, linewidth=3, label=NEGATIVE)] * (
                False in is_positive
            )
        finite = {bool(np.isfinite(w)) for *_, w in self.graph_.edges(data="weight")}
        if True in finite:
            for share in (1.0, 1 / 3):
                label = f"|{kind}| = {share * self._max_weight():.2g} {self.unit}".rstrip()
                marks.append(Line2D([], [], color="0.4", linewidth=share * MAX_WIDTH, label=label))
        if False in finite:
            label = f"|{kind}| infinite"
            marks.append(Line2D([], [], color="0.4", linewidth=3, linestyle="--", label=label))
        self.ax_.legend(
            handles=marks, frameon=False, fontsize="small", ncols=2, loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
        )  # fmt: skip


def _select_edges(weights, threshold, n_strongest):
    """Return a graph with all columns as nodes and only the strongest edges."""
    rows, columns = np.nonzero(np.triu(np.abs(weights) > threshold, 1))
    order = np.argsort(-np.abs(weights[rows, columns]), kind="stable")[:n_strongest]
    graph = nx.Graph()
    graph.add_nodes_from(range(len(weights)))
    for i, j in sorted(zip(rows[order].tolist(), columns[order].tolist(), strict=True)):
        graph.add_edge(i, j, weight=float(weights[i, j]))
    return graph


def _compute_positions(graph, layout, row_length):
    """Return the position of each column.

    With "kamada-kawai", unconnected columns are at the bottom, in rows of a maximal length.
    """
    if isinstance(layout, dict):
        absent = sorted(set(graph) - set(layout))
        if absent:
            raise ValueError(
                f"layout has no position for the columns {show_list(absent)}; give a position for "
                "each column."
            )
        return {i: tuple(map(float, layout[i])) for i in graph}
    check_choice("layout", layout, LAYOUTS)
    if layout == "circular":
        return {i: tuple(p) for i, p in nx.circular_layout(graph).items()}
    isolated = [i for i in graph if not graph.degree[i]]
    connected = graph.subgraph([i for i in graph if graph.degree[i]])
    distances = dict(nx.all_pairs_shortest_path_length(connected))
    # columns in different components are one step farther apart than any two in one component
    max_distance = 1 + max((max(d.values()) for d in distances.values()), default=0)
    distances = {i: {j: d.get(j, max_distance) for j in connected} for i, d in distances.items()}
    places = nx.kamada_kawai_layout(connected, distances, nx.circular_layout(connected))
    places = {i: tuple(p) for i, p in places.items()}
    bottom = min((p[1] for p in places.values()), default=0.0)
    rows = np.array_split(isolated, -(-len(isolated) // row_length)) if isolated else []
    for k, row in enumerate(rows, start=1):
        across = (2 * np.arange(len(row)) + 1) / len(row) - 1
        places |= {
            int(i): (float(x), bottom - ROW_STEP * k) for i, x in zip(row, across, strict=True)
        }
    return places


def _get_weights(estimator):
    """Return the matrix of couplings of a model, or of interaction strengths, and which it is."""
    if isinstance(estimator, BoltzmannMachine):
        return estimator.coupling_, True
    if isinstance(estimator, MRFStructureLearner):
        if isinstance(estimator.coupling_, np.ndarray):
            return estimator.coupling_, True
        strength = np.zeros_like(estimator.strength_)
        for i, j in estimator.edges_:
            strength[i, j] = strength[j, i] = estimator.strength_[i, j]
        return strength, False
    return _compute_weights(estimator.energy_)


def _compute_weights(energy):
    """Compute the couplings or strengths of all pairs of columns from tables.

    Couplings have signs, strengths have not. The second result is True for couplings.
    """
    pairs, couplings, strengths = pair_strengths(energy)
    signed = bool((energy.n_states <= 2).all()) and not np.isnan(couplings).any()
    weights = np.zeros((energy.n_variables, energy.n_variables))
    for (i, j), value in zip(pairs, couplings if signed else strengths, strict=True):
        weights[i, j] = weights[j, i] = value
    return weights, signed
