"""Exact inference of the labels of small or narrow graphs with cycles, by elimination."""

from typing import NamedTuple

import numpy as np

from .._utils.codes import MISSING
from ..energies.factor_graph import FactorGraph
from . import elimination
from .label_trees import LabelSums
from .tree_decomposition import forecast

MAX_ENTRIES = 2e6  # of the tables of one example that elimination visits by default
MAX_STATES = 2**16  # of an example whose labellings can be enumerated


class _Example(NamedTuple):
    """Factor graph of one example: layout, elimination order, and the pairs of its edges."""

    layout: object
    plan: object
    nodes: slice
    edges: np.ndarray
    kinds: np.ndarray
    pair: np.ndarray
    is_turned: np.ndarray


def _layouts(graphs, q):
    """Return the layout of each example, its unique pairs of nodes, and its edges."""
    key = "layouts", q
    if key not in graphs.cache:
        graphs.cache[key] = _make_layouts(graphs, q)
    return graphs.cache[key]


def _make_layouts(graphs, q):
    out = []
    for start, end, first, last in zip(
        graphs.node_ptr[:-1], graphs.node_ptr[1:], graphs.edge_ptr[:-1], graphs.edge_ptr[1:],
        strict=True,
    ):  # fmt: skip
        edges = graphs.edges[first:last] - start
        is_turned = edges[:, 0] > edges[:, 1]
        pairs, pair = np.unique(np.sort(edges, axis=1), axis=0, return_inverse=True)
        n = int(end - start)
        cliques = [(i,) for i in range(n)] + [tuple(p) for p in pairs.tolist()]
        tables = [np.zeros((q,) * len(clique)) for clique in cliques]
        layout = FactorGraph([q] * n, cliques, tables).layout
        kinds, nodes = graphs.edge_types[first:last], slice(int(start), int(end))
        out.append(_Example(layout, None, nodes, edges, kinds, pair.ravel(), is_turned))
    return out


def _examples(graphs, q):
    """Return the factor graph of each example with its elimination order."""
    key = "plans", q
    if key not in graphs.cache:
        examples = _layouts(graphs, q)
        graphs.cache[key] = [e._replace(plan=_prepare(k, e, q)) for k, e in enumerate(examples)]
    return graphs.cache[key]


def _prepare(number, example, q):
    """Return the plan of the elimination of an example; raise a ValueError if it is too large."""
    try:
        return elimination.prepare(example.layout)
    except ValueError as error:
        raise ValueError(
            f"Example {number} has cycles, and {len(example.layout.n_states)} nodes with {q} "
            "labels, which are too many for exact inference, and for sample. Use smaller graphs, "
            'or learner="bp" and predict_marginals.'
        ) from error


def is_cheap(graphs, n_states):
    """Return whether elimination of every example is fast.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples.
    n_states : int
        Number of states of a node.

    Returns
    -------
    bool
        Whether no example visits more than two million table entries.
    """
    key = "cheap", n_states
    if key not in graphs.cache:
        graphs.cache[key] = _are_cheap(_layouts(graphs, n_states))
    return graphs.cache[key]


def _are_cheap(examples):
    """Return whether elimination of every example is fast; stop at the first that is slow."""
    for example in examples:
        cost = forecast(example.layout)
        if cost.order is None or cost.entries > MAX_ENTRIES:
            return False
    return True


def _flat(example, graphs, potentials):
    """Return the tables of one example, concatenated in the order of its layout."""
    nodes = potentials.nodes[example.nodes].copy()
    labels = graphs.labels[example.nodes]
    is_known = labels != MISSING
    is_other = np.arange(nodes.shape[1]) != labels[:, None]
    nodes[is_known[:, None] & is_other] = -np.inf
    q = nodes.shape[1]
    tables = np.zeros((example.pair.max(initial=-1) + 1, q, q))
    turned = potentials.tables.transpose(0, 2, 1)
    choose = example.is_turned[:, None, None]
    values = np.where(choose, turned[example.kinds], potentials.tables[example.kinds])
    np.add.at(tables, example.pair, values)
    return np.concatenate([nodes.ravel(), tables.ravel()])


def sums(graphs, potentials, weights=None):
    """Return log Z and the marginals of nodes and edges, given the known labels.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples. Their known labels are evidence.
    potentials : LabelPotentials
        Log-potentials of the examples.
    weights : ndarray of shape (n_examples,), optional
        Weight of each example. By default 1.

    Returns
    -------
    LabelSums
        Log Z, and weighted marginals.
    """
    weights = np.ones(len(graphs)) if weights is None else weights
    q = potentials.nodes.shape[1]
    log_z, nodes = np.full(len(graphs), -np.inf), np.zeros_like(potentials.nodes)
    counts = np.zeros_like(potentials.tables)
    for k, example in enumerate(_examples(graphs, q)):
        flat = _flat(example, graphs, potentials)
        try:
            moments, total = elimination.expected_moments(example.plan, flat)
        except elimination.ImpossibleEvidence:
            continue
        log_z[k], n = total[0], len(example.layout.n_states)
        nodes[example.nodes] = weights[k] * moments[: n * q].reshape(n, q)
        pairs = weights[k] * moments[n * q :].reshape(-1, q, q)[example.pair]
        pairs = np.where(example.is_turned[:, None, None], pairs.transpose(0, 2, 1), pairs)
        np.add.at(counts, example.kinds, pairs)
    return LabelSums(log_z, nodes, counts, np.ones(len(graphs), dtype=bool))


def maxima(graphs, potentials):
    """Return the most probable labels of each example, jointly.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples. Their known labels are evidence.
    potentials : LabelPotentials
        Log-potentials of the examples.

    Returns
    -------
    states : ndarray of int of shape (n_nodes,)
        Label of each node.
    scores : ndarray of shape (n_examples,)
        Log-potentials in nats, ``-inf`` if no labelling is possible.
    """
    return _complete(graphs, potentials, elimination.maximise)


def draws(graphs, potentials, rng):
    """Draw the labels of each example from their joint distribution.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples. Their known labels are evidence.
    potentials : LabelPotentials
        Log-potentials of the examples.
    rng : numpy.random.Generator
        Source of random numbers.

    Returns
    -------
    ndarray of int of shape (n_nodes,)
        Labels.
    """
    return _complete(graphs, potentials, lambda plan, flat: elimination.sample(plan, flat, 1, rng))[
        0
    ]


def _complete(graphs, potentials, choose):
    states, scores = np.zeros(graphs.n_nodes, dtype=np.int64), np.full(len(graphs), -np.inf)
    for k, example in enumerate(_examples(graphs, potentials.nodes.shape[1])):
        flat = _flat(example, graphs, potentials)
        try:
            row = choose(example.plan, flat)
        except elimination.ImpossibleEvidence:
            continue
        states[example.nodes] = row[0]
        scores[k] = _log_potentials(example, flat, row)[0]
    return states, scores


def _log_potentials(example, flat, rows):
    return FactorGraph.from_layout(example.layout, flat).log_potential(rows)


def best(graphs, potentials, k):
    """Return the k most probable labellings of each example, by enumeration.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples. Their known labels are evidence.
    potentials : LabelPotentials
        Log-potentials of the examples.
    k : int
        Number of labellings.

    Returns
    -------
    states : list of ndarray of shape (n_labellings, n_nodes)
        Distinct labellings of each example, the most probable first.
    scores : list of ndarray of shape (n_labellings,)
        Log-potentials in nats.

    Raises
    ------
    ValueError
        If an example with cycles has more than 65536 labellings.
    """
    all_states, all_scores, q = [], [], potentials.nodes.shape[1]
    for number, example in enumerate(_layouts(graphs, q)):
        n = len(example.layout.n_states)
        if n * np.log(q) > np.log(MAX_STATES):
            raise ValueError(
                f"Example {number} has cycles, and {n} nodes with {q} labels, which are too many. "
                "The best labellings of a graph with cycles are found by enumeration of at most "
                f"{MAX_STATES} labellings. Use predict, which returns a single labelling."
            )
        rows = np.indices((q,) * n).reshape(n, -1).T
        values = _log_potentials(example, _flat(example, graphs, potentials), rows)
        order = np.argsort(-values, kind="stable")[:k]
        order = order[values[order] > -np.inf]
        all_states.append(rows[order])
        all_scores.append(values[order])
    return all_states, all_scores
