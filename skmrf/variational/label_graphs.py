"""Loopy belief propagation for labels of graphs with cycles."""

import numpy as np

from .._kernels import label_graphs as kernels
from ..exact.label_trees import LabelSums

MAX_ITER = 100
TOL = 1e-6
MAX_SWEEPS = 100


def _exponentials(graphs, potentials):
    """Return the exponentials of the log-potentials, and the maxima of nodes and tables."""
    nodes, tops = np.empty_like(potentials.nodes), np.empty(graphs.n_nodes)
    kernels.exponentials_of_rows(potentials.nodes, graphs.labels, potentials.n_labels, nodes, tops)
    top = potentials.tables.max(axis=(1, 2), initial=-np.inf)
    top[~np.isfinite(top)] = 0.0
    return nodes, np.exp(potentials.tables - top[:, None, None]), tops, top


def sums(graphs, potentials, weights=None, *, max_iter=MAX_ITER, tol=TOL, damping=0.0):
    """Return the Bethe approximation of log Z, and the beliefs of nodes and edges.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples. Their known labels are evidence.
    potentials : LabelPotentials
        Log-potentials of the examples.
    weights : ndarray of shape (n_examples,), optional
        Weight of each example. By default 1.
    max_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=1e-6
        Largest change of a message at which propagation has converged.
    damping : float, default=0.0
        Weight of the old message in the new one.

    Returns
    -------
    LabelSums
        Log Z, and weighted beliefs.
    """
    weights = np.ones(len(graphs)) if weights is None else weights
    nodes, tables, tops, top = _exponentials(graphs, potentials)
    shifts = np.bincount(graphs.example_of_node, tops, minlength=len(graphs))
    examples = graphs.example_of_node[graphs.edges[:, 0]]
    shifts += np.bincount(examples, top[graphs.edge_types], minlength=len(graphs))
    messages, beliefs = _messages(graphs, potentials)
    counts, log_z = np.zeros_like(potentials.tables), np.full(len(graphs), -np.inf)
    converged = np.ones(len(graphs), dtype=bool)
    for example, part in enumerate(_ranges(graphs)):
        model = *part, graphs.edges, graphs.edge_types, nodes, tables
        change = kernels.propagate(*model, max_iter, tol, damping, False, messages, beliefs)
        converged[example] = change <= tol
        log_z[example] = shifts[example] + kernels.bethe_log_z(
            *model, messages, beliefs, weights[example], counts
        )
    return LabelSums(log_z, beliefs * weights[graphs.example_of_node][:, None], counts, converged)


def _messages(graphs, potentials):
    """Return arrays for the messages and beliefs of all examples."""
    n_states = potentials.nodes.shape[1]
    return np.empty((len(graphs.edges), 2, n_states)), np.empty_like(potentials.nodes)


def _ranges(graphs):
    """Yield the first and last node, and the first and last edge, of each example."""
    nodes, edges = graphs.node_ptr.tolist(), graphs.edge_ptr.tolist()
    yield from zip(nodes[:-1], nodes[1:], edges[:-1], edges[1:], strict=True)


def maxima(graphs, potentials):
    """Return labels with a large log-potential, by max-product propagation and local search.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples. Their known labels are evidence.
    potentials : LabelPotentials
        Log-potentials of the examples.

    Returns
    -------
    ndarray of int of shape (n_nodes,)
        Label of each node. No change of a single label increases the log-potential.
    """
    nodes, tables, *_ = _exponentials(graphs, potentials)
    with np.errstate(divide="ignore"):
        values = np.where(nodes > 0, potentials.nodes, -np.inf)
    messages, beliefs = _messages(graphs, potentials)
    neighbours = graphs.cached("neighbours", lambda: _find_neighbours(graphs))
    best, scores = np.zeros(graphs.n_nodes, dtype=np.int64), np.full(len(graphs), -np.inf)
    for is_max in (True, False):
        states = np.zeros(graphs.n_nodes, dtype=np.int64)
        for start, end, first, last in _ranges(graphs):
            model = start, end, first, last, graphs.edges, graphs.edge_types, nodes, tables
            kernels.propagate(*model, MAX_ITER, TOL, 0.0, is_max, messages, beliefs)
            states[start:end] = beliefs[start:end].argmax(axis=1)
            kernels.maximise_locally(
                start, end, *neighbours, values, potentials.tables, states, MAX_SWEEPS
            )
        found = _log_potentials(graphs, values, potentials.tables, states)
        is_better = np.repeat(found > scores, graphs.sizes)
        best[is_better], scores = states[is_better], np.maximum(found, scores)
    return best, scores


def _find_neighbours(graphs):
    """Return the neighbours of each node, the tables and the node's side of their edges."""
    n_edges = len(graphs.edges)
    ends = graphs.edges.T.ravel()
    order = np.argsort(ends, kind="stable")
    ptr = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=graphs.n_nodes))])
    others = graphs.edges[:, ::-1].T.ravel()[order]
    return ptr, others, np.tile(graphs.edge_types, 2)[order], np.repeat([0, 1], n_edges)[order]


def _log_potentials(graphs, nodes, tables, states):
    """Return the log-potential of one labelling of each example."""
    total = np.bincount(
        graphs.example_of_node, nodes[np.arange(graphs.n_nodes), states], minlength=len(graphs)
    )
    ends = graphs.edges
    values = tables[graphs.edge_types, states[ends[:, 0]], states[ends[:, 1]]]
    return total + np.bincount(graphs.example_of_node[ends[:, 0]], values, minlength=len(graphs))
