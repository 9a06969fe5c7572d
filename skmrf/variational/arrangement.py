"""Factor graphs with reordered variables, and index arrays for message passing."""

from dataclasses import dataclass

import numpy as np

from .._kernels._jit import read_only
from .._kernels.belief import Graph, Work
from .._kernels.elimination import clamped_starts
from .._kernels.propagation import Scope, Tables, find_component
from .._kernels.tables import incidence
from ..energies.layout import Layout


@dataclass(frozen=True)
class Arrangement:
    """Factor graph with variables in a given order, and index arrays for message passing.

    Attributes
    ----------
    order : ndarray of shape (n_variables,)
        Variable at each position.
    layout : Layout
        Layout of the reordered graph. Cliques list their positions in increasing order, and no
        tables are tied.
    source : ndarray of int of shape (n_entries,)
        Index of each table entry in the parameters of the model.
    place : ndarray of int of shape (n_entries,)
        Index of each table entry in the untied tables of the model.
    graph : Graph
        Index arrays for the kernels.
    """

    order: np.ndarray
    layout: Layout
    source: np.ndarray
    place: np.ndarray
    graph: Graph

    def tables(self, flat):
        """Return log-potentials and potentials (scaled to maximum 1) of the reordered tables."""
        size, start = self.layout.table_size, self.layout.table_start
        logs = flat[self.source] / np.repeat(self.graph.counting, size)
        top = np.maximum.reduceat(logs, start) if len(logs) else logs
        top = np.where(top > -np.inf, top, 0.0)
        return Tables(logs, np.exp(logs - np.repeat(top, size)))

    def visits(self, cliques=slice(None)):
        """Return the approximate number of table entries that an iteration of messages reads.

        Each entry is read once for each variable of its clique.
        """
        return int(self.layout.table_size[cliques] @ self.layout.orders[cliques])

    def work(self):
        """Allocate the messages and scratch arrays of one run of belief propagation."""
        n_messages = int(self.graph.message_start[-1])
        n_totals = int(self.graph.state_start[-1])
        largest = int(self.layout.table_size.max(initial=1))
        numbers = [np.zeros(n_messages) for _ in range(3)]
        largest_clique_messages = int(
            np.diff(self.graph.message_start[self.graph.clique_ptr]).max(initial=1)
        )
        return Work(
            *numbers,
            np.zeros(n_totals),
            np.zeros(n_totals, dtype=np.int64),
            np.zeros(largest),
            np.zeros(largest_clique_messages),
            np.zeros(largest),
        )

    def starts(self, X, n_clamped):
        """Return the index of each clique's first table entry that agrees with a row, for all rows.

        An entry agrees with a row if it has the states of the clamped variables in the row.
        """
        lay = self.layout
        clamped = np.arange(len(self.order)) < n_clamped
        out = np.empty((len(X), lay.n_cliques), dtype=np.int64)
        X = read_only(np.ascontiguousarray(X))
        clamped_starts(X, clamped, *map(read_only, lay.structure), out)
        return out

    def find_component(self, n_clamped, root):
        """Return the connected component of a variable in the graph without clamped variables."""
        n, m = len(self.order), self.layout.n_cliques
        seen = np.zeros(n + m, dtype=bool)
        cliques, variables = np.empty(m, dtype=np.int64), np.empty(n, dtype=np.int64)
        a, v = find_component(self.graph, n_clamped, root, seen, cliques, variables)
        return Scope(n_clamped, cliques[:a], variables[:v], 1)

    def components(self, n_clamped):
        """Return all connected components of the graph without clamped variables, concatenated."""
        n, m = len(self.order), self.layout.n_cliques
        seen = np.zeros(n + m, dtype=bool)
        cliques, variables = np.empty(m, dtype=np.int64), np.empty(n, dtype=np.int64)
        a = v = 0
        for root in range(n_clamped, n):
            if not seen[root]:
                more = find_component(self.graph, n_clamped, root, seen, cliques[a:], variables[v:])
                a, v = a + more[0], v + more[1]
        return Scope(n_clamped, cliques[:a], variables[:v], v)

    def in_model_order(self, singles, tables):
        """Convert values of states and of table entries back to the variable order of the model.

        The arguments have the order of the arrangement. The result for table entries has
        the order of the model's untied tables.
        """
        n_states = self.layout.n_states
        parts = np.split(singles, np.cumsum(n_states)[:-1])
        singles = np.concatenate([*(parts[k] for k in np.argsort(self.order)), np.zeros(0)])
        out = np.empty(len(tables))
        out[self.place] = tables
        return singles, out


def arrange(layout, order=None, *, counting=None, maximised=None):
    """Reorder the variables of a factor graph, and build index arrays for message passing.

    Parameters
    ----------
    layout : Layout
        Variables, cliques and tables of the factor graph.
    order : ndarray of shape (n_variables,), optional
        Variable at each position; by default the order of the layout.
    counting : ndarray of shape (n_cliques,), optional
        Counting numbers of tree-reweighted propagation. By default all are 1.
    maximised : ndarray of bool of shape (n_variables,), optional
        True for variables to maximise over; the others are summed over. By default all are summed.

    Returns
    -------
    Arrangement
        The reordered graph.
    """
    n = len(layout.n_states)
    order = np.arange(n) if order is None else np.asarray(order)
    position = np.argsort(order)
    owner = np.repeat(np.arange(layout.n_cliques), layout.orders)
    moved = position[layout.clique_vars]
    by = np.lexsort((moved, owner))
    arranged = Layout.build(layout.n_states[order], (layout.clique_ptr, moved[by]))
    clique = np.repeat(np.arange(arranged.n_cliques), arranged.table_size)
    offset = _offsets(arranged, clique, layout.strides[by])
    source = layout.table_start[clique] + offset
    place = arranged.table_start[clique] + offset
    counting = np.ones(layout.n_cliques) if counting is None else np.asarray(counting, dtype=float)
    maximised = np.zeros(n, dtype=bool) if maximised is None else np.asarray(maximised)[order]
    return Arrangement(order, arranged, source, place, _graph(arranged, counting, maximised))


def _offsets(arranged, clique, strides):
    """Return, for each reordered table entry, its position in the original table."""
    rest = np.arange(arranged.n_parameters) - arranged.table_start[clique]
    offset = np.zeros(arranged.n_parameters, dtype=np.int64)
    for back in range(int(arranged.orders.max(initial=0))):
        has = np.flatnonzero(arranged.orders[clique] > back)
        edge = arranged.clique_ptr[1:][clique[has]] - 1 - back
        q = arranged.n_states[arranged.clique_vars[edge]]
        offset[has] += rest[has] % q * strides[edge]
        rest[has] //= q
    return offset


def _graph(layout, counting, maximised):
    q = layout.n_states[layout.clique_vars]
    edge = np.arange(len(layout.clique_vars), dtype=np.int64)
    var_ptr, var_clique, var_edge = incidence(
        layout.clique_ptr, layout.clique_vars, edge, len(layout.n_states)
    )
    return Graph(
        layout.n_states,
        np.concatenate([[0], np.cumsum(layout.n_states)]),
        layout.clique_ptr,
        layout.clique_vars,
        layout.table_start,
        np.concatenate([[0], np.cumsum(q)]).astype(np.int64),
        var_ptr,
        var_edge,
        var_clique,
        counting,
        maximised,
    )
