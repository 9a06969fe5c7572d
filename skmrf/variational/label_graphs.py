"""Sums and maxima over labels of graphs with cycles: loopy belief propagation, and grids."""

from functools import partial

import numpy as np

from .._kernels import label_graphs as kernels
from .._kernels.label_trees import exponentials_of_rows
from .._utils.parallel import run_blocks
from ..exact.label_trees import LabelSums, chunks
from . import grids

N_CHUNK = 5_000  # nodes per block of examples that a thread computes
MAX_ITER = 100
TOL = 1e-6
MAX_SWEEPS = 100


def _exponentials(graphs, potentials):
    """Return the exponentials of the log-potentials, and the maxima of nodes and tables."""
    nodes, tops = np.empty_like(potentials.nodes), np.empty(graphs.n_nodes)
    exponentials_of_rows(potentials.nodes, graphs.labels, potentials.n_labels, nodes, tops)
    top = potentials.tables.max(axis=(1, 2), initial=-np.inf)
    top[~np.isfinite(top)] = 0.0
    return nodes, np.exp(potentials.tables - top[:, None, None]), tops, top


@np.errstate(under="ignore")
def sums(graphs, potentials, weights=None, *, max_iter=MAX_ITER, tol=TOL, damping=0.0, shapes=None):
    """Return approximations of log Z and of the marginals of nodes and edges.

    They are the Bethe approximation and the beliefs of loopy belief propagation, or for grids the
    sums of :func:`.grids.contract`.

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
    shapes : list of (int, int), optional
        Height and width of each example, if the examples are grids. They are contracted, and
        belief propagation is used for those for which the result is not reliable. The marginals of
        edges are not computed.

    Returns
    -------
    LabelSums
        Log Z, and weighted marginals. ``tables`` is None if ``shapes`` is given.
    """
    weights = np.ones(len(graphs)) if weights is None else weights
    nodes, tables, tops, top = _exponentials(graphs, potentials)
    shifts = np.bincount(graphs.example_of_node, tops, minlength=len(graphs))
    examples = graphs.example_of_node[graphs.edges[:, 0]]
    shifts += np.bincount(examples, top[graphs.edge_types], minlength=len(graphs))
    messages, beliefs = _messages(graphs, potentials)
    arrays, ranges = (graphs.edges, graphs.edge_types, nodes, tables), _ranges(graphs)
    log_z, converged = np.full(len(graphs), np.nan), np.ones(len(graphs), dtype=bool)
    if shapes is not None:
        log_z = _contract_grids(graphs, shapes, arrays, messages, beliefs) + shifts
    is_known = ~np.isnan(log_z)

    def add_chunk(first, last):
        """Propagate in a chunk of examples; return the sums of the beliefs of its edges."""
        counts = np.zeros_like(potentials.tables)
        for example in np.arange(first, last)[~is_known[first:last]]:
            model = *ranges[example], *arrays
            change = kernels.propagate(*model, max_iter, tol, damping, False, messages, beliefs)
            converged[example] = change <= tol
            log_z[example] = shifts[example] + kernels.bethe_log_z(
                *model, messages, beliefs, weights[example], counts
            )
        return counts

    counts = sum(run_blocks(add_chunk, chunks(graphs, N_CHUNK), None))
    counts = counts if shapes is None else None
    return LabelSums(log_z, beliefs * weights[graphs.example_of_node][:, None], counts, converged)


def _contract_grids(graphs, shapes, arrays, messages, beliefs):
    """Set the beliefs of grids to their marginals; return log Z, which is nan where this failed.

    The messages are those of one iteration. Converged messages can belong to one mode of the model,
    and other modes would be lost.
    """
    _, kinds, nodes, _ = arrays
    log_z, ranges, groups = np.full(len(graphs), np.nan), _ranges(graphs), {}
    for example, (shape, (*_, first, last)) in enumerate(zip(shapes, ranges, strict=True)):
        if min(shape) > 1:
            kernels.propagate(*ranges[example], *arrays, 1, 0.0, 0.0, False, messages, beliefs)
            groups.setdefault((shape, kinds[first], kinds[last - 1]), []).append(example)
    for (shape, *pair), members in groups.items():
        sizes = grids.bond_dimensions(shape, nodes.shape[1])
        for size in sizes:
            left = [k for k in members if np.isnan(log_z[k])]
            step = grids.block_size(shape, nodes.shape[1], size)
            limit = grids.LARGEST_STEP if size == sizes[-1] else grids.SMALL_STEP
            for start in range(0, len(left), step):
                block = np.array(left[start : start + step])
                found, marginals, at = _contract_block(
                    graphs, shape, pair, size, block, arrays, messages
                )
                is_reliable = grids.is_reliable(found, limit)
                is_reliable &= np.isfinite(marginals).all(axis=(1, 2))
                log_z[block[is_reliable]] = found[is_reliable].mean(axis=1)
                beliefs[at[is_reliable]] = marginals[is_reliable]
    return log_z


def _contract_block(graphs, shape, pair, size, block, arrays, messages):
    """Return log Z by rows, marginals and the indices of the nodes of grids of equal shape."""
    _, _, nodes, tables = arrays
    n_labels, n_edges = nodes.shape[1], np.diff(graphs.edge_ptr)[block[0]]
    at_nodes = graphs.node_ptr[block][:, None] + np.arange(np.prod(shape))
    at_edges = graphs.edge_ptr[block][:, None] + np.arange(n_edges)
    images = nodes[at_nodes].reshape(len(block), *shape, n_labels)
    log_z, marginals = grids.contract(images, tables[pair], messages[at_edges], size)
    return log_z, marginals.reshape(*at_nodes.shape, n_labels), at_nodes


def _messages(graphs, potentials):
    """Return arrays for the messages and beliefs of all examples."""
    n_states = potentials.nodes.shape[1]
    return np.empty((len(graphs.edges), 2, n_states)), np.empty_like(potentials.nodes)


def _ranges(graphs):
    """Return the first and last node, and the first and last edge, of each example, as a list."""
    nodes, edges = graphs.node_ptr.tolist(), graphs.edge_ptr.tolist()
    return list(zip(nodes[:-1], nodes[1:], edges[:-1], edges[1:], strict=True))


@np.errstate(under="ignore")
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
    neighbours = _find_neighbours(graphs)
    best, scores = np.zeros(graphs.n_nodes, dtype=np.int64), np.full(len(graphs), -np.inf)
    edges = graphs.edges, graphs.edge_types
    model = _ranges(graphs), edges, nodes, tables, values, potentials.tables, messages, beliefs
    for is_max in (True, False):
        states = np.zeros(graphs.n_nodes, dtype=np.int64)
        maximise = partial(_maximise, is_max, model, neighbours, states)
        list(run_blocks(maximise, chunks(graphs, N_CHUNK), None))
        found = _log_potentials(graphs, values, potentials.tables, states)
        is_better = np.repeat(found > scores, graphs.sizes)
        best[is_better], scores = states[is_better], np.maximum(found, scores)
    return best, scores


def _maximise(is_max, model, neighbours, states, first, last):
    """Set the states of a chunk of examples to labels with a large log-potential."""
    ranges, edges, nodes, tables, values, log_tables, messages, beliefs = model
    for start, end, *limits in ranges[first:last]:
        kernels.propagate(
            start, end, *limits, *edges, nodes, tables, MAX_ITER, TOL, 0.0, is_max, messages,
            beliefs,
        )  # fmt: skip
        states[start:end] = beliefs[start:end].argmax(axis=1)
        kernels.maximise_locally(start, end, *neighbours, values, log_tables, states, MAX_SWEEPS)


def _find_neighbours(graphs):
    """Return the neighbours of each node, the tables and the node's side of their edges."""
    if "neighbours" in graphs.cache:
        return graphs.cache["neighbours"]
    n_edges = len(graphs.edges)
    ends = graphs.edges.T.ravel()
    order = np.argsort(ends, kind="stable")
    ptr = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=graphs.n_nodes))])
    others = graphs.edges[:, ::-1].T.ravel()[order]
    tables, sides = np.tile(graphs.edge_types, 2)[order], np.repeat([0, 1], n_edges)[order]
    graphs.cache["neighbours"] = ptr, others, tables, sides
    return graphs.cache["neighbours"]


def _log_potentials(graphs, nodes, tables, states):
    """Return the log-potential of one labelling of each example."""
    total = np.bincount(
        graphs.example_of_node, nodes[np.arange(graphs.n_nodes), states], minlength=len(graphs)
    )
    ends = graphs.edges
    values = tables[graphs.edge_types, states[ends[:, 0]], states[ends[:, 1]]]
    return total + np.bincount(graphs.example_of_node[ends[:, 0]], values, minlength=len(graphs))
