"""Loopy belief propagation for labels of graphs with cycles."""

from functools import partial

import numpy as np

from .._kernels import label_graphs as kernels
from .._kernels.label_trees import exponentials_of_rows
from .._utils.parallel import run_blocks
from ..exact.label_trees import LabelSums, chunks

N_CHUNK = 5_000  # nodes per block of examples that a thread computes
MAX_ITER = 100
TOL = 1e-6
MAX_SWEEPS = 100
MAX_STATES = 2200  # joint states of one column of a strip of rows
MAX_ROWS = 7  # of a strip that does not contain the whole grid
MAX_RANGE = 600.0  # of the log-potentials of one column of a strip, in nats
MAX_BYTES = 2**25  # of the states of a block of strips


def _exponentials(graphs, potentials):
    """Return the exponentials of the log-potentials, and the maxima of nodes and tables."""
    nodes, tops = np.empty_like(potentials.nodes), np.empty(graphs.n_nodes)
    exponentials_of_rows(potentials.nodes, graphs.labels, potentials.n_labels, nodes, tops)
    top = potentials.tables.max(axis=(1, 2), initial=-np.inf)
    top[~np.isfinite(top)] = 0.0
    return nodes, np.exp(potentials.tables - top[:, None, None]), tops, top


def sums(graphs, potentials, weights=None, *, max_iter=MAX_ITER, tol=TOL, damping=0.0, shapes=None):
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
    shapes : list of (int, int), optional
        Height and width of each example, if the examples are grids. The beliefs of nodes are then
        the means of exact marginals in strips of rows and in strips of columns. The messages of
        belief propagation replace the rest of the grid.

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
    log_z, converged = np.full(len(graphs), -np.inf), np.ones(len(graphs), dtype=bool)
    ranges = _ranges(graphs)

    def add_chunk(first, last):
        """Propagate in a chunk of examples; return the sums of the beliefs of its edges."""
        counts = np.zeros_like(potentials.tables)
        for example in range(first, last):
            model = *ranges[example], graphs.edges, graphs.edge_types, nodes, tables
            change = kernels.propagate(*model, max_iter, tol, damping, False, messages, beliefs)
            converged[example] = change <= tol
            log_z[example] = shifts[example] + kernels.bethe_log_z(
                *model, messages, beliefs, weights[example], counts
            )
            if shapes is not None and min(shapes[example]) > 1 and log_z[example] > -np.inf:
                start, end, *edges = ranges[example]
                types = graphs.edge_types[edges[0]], graphs.edge_types[edges[1] - 1]
                _sum_grid(
                    nodes[start:end].reshape(*shapes[example], -1), [tables[k] for k in types],
                    messages[slice(*edges)], beliefs[start:end],
                )  # fmt: skip
        return counts

    counts = sum(run_blocks(add_chunk, chunks(graphs, N_CHUNK), None))
    return LabelSums(log_z, beliefs * weights[graphs.example_of_node][:, None], counts, converged)


def _sum_grid(weights, tables, messages, beliefs):
    """Set beliefs to means of the marginals in strips of rows and in strips of columns.

    ``weights`` has shape (height, width, n_labels). If the states of a column of the whole height
    or width are few enough, its strip is exact, and only this strip is used. Beliefs are left
    unchanged if sums over one row could underflow.
    """
    height, width, q = weights.shape
    n_right = height * (width - 1)
    right = messages[:n_right].reshape(height, width - 1, 2, q).swapaxes(0, 1)
    down = messages[n_right:].reshape(height - 1, width, 2, q)
    with np.errstate(divide="ignore"):
        lowest = np.log([weights[weights > 0.0].min(), *(table.min() for table in tables)])
    size = min(np.log(MAX_STATES + 0.5) / np.log(max(q, 2)), MAX_RANGE / max(-lowest.sum(), 1.0))
    n_rows, parts = int(size), []
    if n_rows < min(height, width):
        n_rows = min(n_rows, MAX_ROWS)
    if n_rows > 0 and (height <= n_rows or width > n_rows):
        parts.append(_sum_strips(weights, tables, down, min(height, n_rows)))
    if 0 < n_rows < height:
        columns = _sum_strips(weights.swapaxes(0, 1), tables[::-1], right, min(width, n_rows))
        parts.append(columns.swapaxes(0, 1))
    if parts:
        beliefs[:] = (sum(parts) / len(parts)).reshape(-1, q)


def _sum_strips(weights, tables, messages, n_rows):
    """Return the marginals of the nodes of a grid, each in the strip of rows around the node.

    A node close to the upper or lower border is not in the middle row of its strip.

    Parameters
    ----------
    weights : ndarray of shape (height, width, n_labels)
        Exponentials of the log-potentials of nodes.
    tables : sequence of ndarray of shape (n_labels, n_labels)
        Exponentials of the log-potentials of edges to the right, and of edges downwards.
    messages : ndarray of shape (height - 1, width, 2, n_labels)
        Messages of the edges downwards to the upper node and to the lower node.
    n_rows : int
        Number of rows of a strip.

    Returns
    -------
    ndarray of shape (height, width, n_labels)
        Marginals.
    """
    height, width, q = weights.shape
    rows, last = np.arange(height), height - n_rows
    first = np.clip(rows - n_rows // 2, 0, last)  # first row of the strip of each row
    out, step = np.empty(weights.shape), max(int(MAX_BYTES / (8 * width * q**n_rows)), 1)
    for block in range(0, last + 1, step):
        starts = np.arange(block, min(block + step, last + 1))
        strips = weights[starts[:, None] + np.arange(n_rows)]
        above, below = starts > 0, starts < last
        strips[above, 0] *= messages[starts[above] - 1, :, 1]
        strips[below, -1] *= messages[starts[below] + n_rows - 1, :, 0]
        found = _marginals_of_strips(strips, *tables)
        inside = rows[(first >= starts[0]) & (first <= starts[-1])]
        out[inside] = found[first[inside] - block, inside - first[inside]]
    return out


def _marginals_of_strips(weights, across, down):
    """Return the exact marginals of the nodes of strips of equal size, by sums over columns.

    ``weights`` and the result have shape (n_strips, n_rows, width, n_labels).
    """
    n_strips, n_rows, width, q = weights.shape
    weights = np.ascontiguousarray(weights.transpose(1, 2, 3, 0))
    columns = np.empty((width, q**n_rows, n_strips))
    for c in range(width):
        values = weights[0, c]
        for row in range(1, n_rows):
            values = values.reshape(-1, q, 1, n_strips) * down[..., None] * weights[row, c]
        columns[c] = values.reshape(-1, n_strips)

    def send(values, table):
        """Multiply the states of each row of a column by a table."""
        for row in range(n_rows):
            values = np.matmul(table, values.reshape(q**row, q, -1))
        return values.reshape(-1, n_strips)

    forward = np.empty_like(columns)
    forward[0] = columns[0]
    for c in range(width):
        if c > 0:
            forward[c] = send(forward[c - 1], across.T) * columns[c]
        forward[c] /= forward[c].sum(axis=0)
    out, backward = np.empty(weights.shape), np.ones(columns.shape[1:])
    for c in range(width - 1, -1, -1):
        joint = forward[c] * backward
        joint /= joint.sum(axis=0)
        for row in range(n_rows):
            joint = joint.reshape(q, -1, n_strips)
            out[row, c] = joint.sum(axis=1)
            joint = joint.sum(axis=0)
        backward = send(columns[c] * backward, across)
        backward /= backward.max(axis=0)
    return out.transpose(3, 0, 1, 2)


def _messages(graphs, potentials):
    """Return arrays for the messages and beliefs of all examples."""
    n_states = potentials.nodes.shape[1]
    return np.empty((len(graphs.edges), 2, n_states)), np.empty_like(potentials.nodes)


def _ranges(graphs):
    """Return the first and last node, and the first and last edge, of each example, as a list."""
    nodes, edges = graphs.node_ptr.tolist(), graphs.edge_ptr.tolist()
    return list(zip(nodes[:-1], nodes[1:], edges[:-1], edges[1:], strict=True))


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
        arrays = *edges, nodes, tables
        options = MAX_ITER, TOL, 0.0, is_max
        kernels.propagate(start, end, *limits, *arrays, *options, messages, beliefs)
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
