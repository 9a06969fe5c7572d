"""Exact inference of the labels of chains and trees: log Z, marginals, maxima, draws, k best."""

from itertools import pairwise
from math import inf, log, prod
from typing import NamedTuple

import numpy as np

from .._kernels import label_trees
from .._kernels._jit import LANES, N_LANES
from .._kernels.label_graphs import chain_sums
from .._utils.parallel import run_blocks

MAX_RANGE = 300.0  # of finite log-potentials, in nats, in the ratio domain
N_CHUNK = 50_000  # nodes per call of a kernel
MAX_BYTES = 4 * 2**30  # of the best labellings of one example
MIN_SHARE = 0.4  # mean length of a group of chains, relative to its longest chain
LEAST = -500.0  # of log Z minus all maxima, if labels with small sums are neglected
MAX_CHANGE = 200.0  # of the log of a sum between two checks of its range, in nats
MAX_UNROLLED = 5  # labels, for kernels that are compiled for a number of labels
CACHE_LINE = 8  # numbers of eight bytes


class LabelSums(NamedTuple):
    """Log Z and marginals of examples.

    Attributes
    ----------
    log_z : ndarray of shape (n_examples,)
        Log of the sum over all labellings, in nats; ``-inf`` if no labelling is possible.
    nodes : ndarray of shape (n_nodes, n_states)
        Marginals of nodes, times the weight of their example.
    tables : ndarray of shape (n_tables, n_states, n_states) or None
        Weighted sums of the marginals of edges; None if they were not computed.
    converged : ndarray of bool of shape (n_examples,)
        Whether the inference of each example converged; True if it is exact.
    """

    log_z: np.ndarray
    nodes: np.ndarray
    tables: np.ndarray | None
    converged: np.ndarray


class _Arrays(NamedTuple):
    ptr: np.ndarray
    order: np.ndarray
    parent: np.ndarray
    kind: np.ndarray
    nodes: np.ndarray
    labels: np.ndarray
    base: int


def _arrays(graphs, potentials):
    """Return the arrays that all kernels take, and the tables of both directions."""
    trees, tables = graphs.trees, potentials.tables
    kind = trees.kind if potentials.kinds is None else potentials.kinds
    if graphs.edges is not None:
        blank = np.zeros((1, *tables.shape[1:]))
        tables = np.concatenate([tables, tables.transpose(0, 2, 1), blank])
    arrays = _Arrays(
        graphs.node_ptr, trees.order, trees.parent, kind, potentials.nodes, graphs.labels,
        potentials.n_labels,
    )  # fmt: skip
    return arrays, np.ascontiguousarray(tables)


def chunks(graphs, n_nodes):
    """Return the first and last example of chunks of about equal numbers of nodes, as a list.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples.
    n_nodes : int
        Largest number of nodes of a chunk, unless an example has more nodes.

    Returns
    -------
    list of (int, int)
        Chunks, which do not depend on the number of threads.
    """
    if ("chunks", n_nodes) not in graphs.cache:
        graphs.cache["chunks", n_nodes] = _find_chunks(graphs, n_nodes)
    return graphs.cache["chunks", n_nodes]


def _find_chunks(graphs, n_nodes):
    out, first = [], 0
    while first < len(graphs):
        limit = graphs.node_ptr[first] + n_nodes
        last = max(int(np.searchsorted(graphs.node_ptr, limit, side="right")) - 1, first + 1)
        out.append((first, min(last, len(graphs))))
        first = last
    return out


def sums(graphs, potentials, weights=None):
    """Return log Z and the marginals of nodes and edges, given the known labels.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples without cycles. Their known labels are evidence.
    potentials : LabelPotentials
        Log-potentials of the examples.
    weights : ndarray of shape (n_examples,), optional
        Weight of each example. By default 1.

    Returns
    -------
    LabelSums
        Log Z, and weighted marginals.
    """
    arrays, tables = _arrays(graphs, potentials)
    weights = np.ones(len(graphs)) if weights is None else weights
    top = tables.max(axis=(1, 2), keepdims=True, initial=-np.inf)
    top[~np.isfinite(top)] = 0.0
    with np.errstate(under="ignore"):
        ratios = np.exp(tables - top)
    log_z, nodes = np.full(len(graphs), np.nan), np.empty_like(arrays.nodes)
    finite = tables[np.isfinite(tables)]
    is_wide = finite.size > 0 and finite.max() - finite.min() > MAX_RANGE
    least = None if is_wide else _least_log_z(graphs, ratios, arrays.nodes)

    def add_chunk(*chunk):
        """Compute a chunk of examples; return the sums of the marginals of its edges."""
        counts, logs = np.zeros_like(tables), np.zeros_like(tables)
        part = slice(*chunk)
        if graphs.edges is None and not is_wide:
            _add_chains(graphs, chunk, arrays, ratios, least, weights, log_z, nodes, counts)
        is_left = np.isnan(log_z[part]).any()
        if is_left and not is_wide:
            out = log_z, nodes, counts, _scratch(graphs, nodes)
            label_trees.tree_sums(*chunk, *arrays, ratios, least, weights, *out)
            is_left = np.isnan(log_z[part]).any()
        log_z[part] += _shifts(graphs, arrays, top.ravel(), chunk)
        if is_left:
            out = log_z, nodes, logs, _scratch(graphs, nodes)
            label_trees.tree_sums_in_logs(*chunk, *arrays, tables, weights, *out)
        return ratios * counts + logs

    counts = sum(run_blocks(add_chunk, chunks(graphs, N_CHUNK), None))
    if graphs.edges is not None:
        n = len(potentials.tables)
        counts = counts[:n] + counts[n : 2 * n].transpose(0, 2, 1)
    return LabelSums(log_z, nodes, counts, np.ones(len(graphs), dtype=bool))


def _least_log_z(graphs, ratios, nodes):
    """Return the log Z, minus all maxima, up to which the sums of an example can be wrong.

    If pairs of labels are impossible, a label can have the largest sum at the last positions, but a
    small probability, because no probable label can precede it. The sums of the other labels can
    then underflow to 0. This cannot happen if each label can follow each label after two steps, and
    if the ranges of log-potentials are small. Labels that are impossible only at the first position
    do not matter. The result has shape (n_examples,).
    """
    least = np.full(len(graphs), -np.inf)
    if ratios.min(initial=1.0) > 0.0:
        return least
    is_possible = (ratios > 0.0).all(axis=0)
    lowest, firsts = nodes.min(axis=1), graphs.node_ptr[:-1]
    lowest[firsts] = nodes[firsts].min(axis=1, initial=np.inf, where=nodes[firsts] > -np.inf)
    with np.errstate(invalid="ignore"):  # nan is not safe
        spread = (nodes.max(axis=1) - lowest).max(initial=0.0)
    spread -= np.log(ratios[ratios > 0.0].min(initial=1.0))
    if (is_possible @ is_possible).all() and 2.0 * spread < -LEAST:
        return least
    growth = np.log(max(ratios.sum(axis=2).max(), 1.0))  # of a sum from a position to the next one
    return LEAST + growth * graphs.sizes


def _add_chains(graphs, chunk, arrays, ratios, least, weights, log_z, nodes, counts):
    """Compute the sums of the chains of a chunk that are in a group of similar lengths."""
    first, last = graphs.node_ptr[chunk[0]], graphs.node_ptr[chunk[1]]
    if arrays.labels[first:last].max(initial=-1) < 0:
        arrays = arrays._replace(labels=arrays.labels[:0])
    if ("groups", *chunk) not in graphs.cache:
        graphs.cache["groups", *chunk] = _group_chains(graphs.sizes[slice(*chunk)])
    order, longest = graphs.cache["groups", *chunk]
    n = nodes.shape[1]
    labels = tuple(range(n)) if 1 < n <= MAX_UNROLLED else ()
    smallest = ratios.min(initial=1.0)
    change = 1.0 + log(n) - log(smallest) if smallest > 0.0 else inf
    transposed = ratios.transpose(0, 2, 1).ravel()
    scratch = _aligned_arrays(
        (2, longest, n, N_LANES), (2 * n + 4, N_LANES), (counts.size * LANES,)
    )
    chain_sums(
        chunk[0] + order, arrays.ptr, *arrays[3:], ratios.ravel(), least, transposed,
        max(int(MAX_CHANGE / change), 1), weights, log_z, nodes, counts, labels,
        *scratch, np.empty((2, N_LANES), dtype=np.int64), np.empty(N_LANES, dtype=np.int32),
    )  # fmt: skip


def _aligned_arrays(*shapes):
    """Return empty arrays that start at cache lines, if all sizes are multiples of cache lines.

    Otherwise every second vector of four numbers lies in two cache lines, and the sums of chains
    take about 10% longer.
    """
    memory = np.empty(sum(map(prod, shapes)) + CACHE_LINE)
    start, out = -(memory.ctypes.data // 8) % CACHE_LINE, []
    for shape in shapes:
        out.append(memory[start : start + prod(shape)].reshape(shape))
        start += prod(shape)
    return out


def _group_chains(sizes):
    """Return the chains in groups of similar lengths, and their largest length."""
    order = np.argsort(-sizes, kind="stable")
    firsts = np.arange(0, len(order), N_LANES)
    n_nodes = np.add.reduceat(sizes[order], firsts)
    is_even = n_nodes >= MIN_SHARE * N_LANES * sizes[order[firsts]]
    order = order[np.repeat(is_even, N_LANES)[: len(order)]]
    return order, int(sizes[order].max(initial=0))


def _scratch(graphs, nodes, dtype=float):
    """Return an array with one row per node of the largest example."""
    return np.empty((graphs.sizes.max(initial=0), nodes.shape[1]), dtype=dtype)


def _shifts(graphs, arrays, top, chunk):
    """Return the sum of the largest log-potentials of the tables of the edges of each example."""
    if len(top) == 1:
        return top[0] * (graphs.sizes[slice(*chunk)] - 1)
    start, end = graphs.node_ptr[chunk[0]], graphs.node_ptr[chunk[1]]
    values = np.where(arrays.parent[start:end] < 0, 0.0, top[arrays.kind[start:end]])
    return np.add.reduceat(values, graphs.node_ptr[chunk[0] : chunk[1]] - start)


def maxima(graphs, potentials):
    """Return the most probable state of each node, jointly, and the largest log-potentials.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples without cycles. Their known labels are evidence.
    potentials : LabelPotentials
        Log-potentials of the examples.

    Returns
    -------
    states : ndarray of int of shape (n_nodes,)
        State of each node.
    scores : ndarray of shape (n_examples,)
        Log-potentials in nats, ``-inf`` if no labelling is possible.
    """
    arrays, tables = _arrays(graphs, potentials)
    states, scores = np.empty(graphs.n_nodes, dtype=np.int64), np.empty(len(graphs))
    values = np.empty_like(arrays.nodes)

    def maximise_chunk(*chunk):
        best = _scratch(graphs, values, np.int64)
        label_trees.tree_maxima(*chunk, *arrays, tables, values, best, scores, states)

    list(run_blocks(maximise_chunk, chunks(graphs, N_CHUNK), None))
    return states, scores


def draws(graphs, potentials, rng):
    """Draw the states of each example from their joint distribution.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples without cycles. Their known labels are evidence.
    potentials : LabelPotentials
        Log-potentials of the examples.
    rng : numpy.random.Generator
        Source of random numbers.

    Returns
    -------
    ndarray of int of shape (n_nodes,)
        States; -1 for examples without a possible labelling.
    """
    arrays, tables = _arrays(graphs, potentials)
    states, uniforms = np.empty(graphs.n_nodes, dtype=np.int64), rng.random(graphs.n_nodes)
    values = np.empty_like(arrays.nodes)
    messages = _scratch(graphs, values)
    for chunk in chunks(graphs, N_CHUNK):
        label_trees.tree_draws(*chunk, *arrays, tables, uniforms, values, messages, states)
    return states


def best(graphs, potentials, k):
    """Return the k most probable labellings of each example.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples without cycles. Their known labels are evidence.
    potentials : LabelPotentials
        Log-potentials of the examples.
    k : int
        Number of labellings.

    Returns
    -------
    states : list of ndarray of shape (n_labellings, n_nodes)
        Distinct labellings of each example, the most probable first. There are fewer than k if
        fewer are possible.
    scores : list of ndarray of shape (n_labellings,)
        Log-potentials in nats.

    Raises
    ------
    ValueError
        If the labellings of an example need too much memory.
    """
    arrays, tables = _arrays(graphs, potentials)
    all_states, all_scores = [], []
    q = arrays.nodes.shape[1]
    limits = graphs.node_ptr.tolist()
    for example, (start, end) in enumerate(pairwise(limits)):
        n = end - start
        size = min(k, q ** min(n, 64))  # q**n labellings exist
        if 40 * n * q * size > MAX_BYTES:
            raise ValueError(
                f"The {k} best labellings of example {example} need about {40 * n * q * size:.1e} "
                f"bytes, more than the limit of {MAX_BYTES:.1e}. Use a smaller k."
            )
        scores, states = np.full(size, -np.inf), np.zeros((size, n), dtype=np.int64)
        lists, back = np.empty((n, q, size)), np.zeros((n, q, size, 3), dtype=np.int64)
        label_trees.best_labellings(start, end, *arrays[1:], tables, lists, back, scores, states)
        is_possible = scores > -np.inf
        all_states.append(states[is_possible])
        all_scores.append(scores[is_possible])
    return all_states, all_scores
