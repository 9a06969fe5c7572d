"""Examples of a conditional random field: nodes with features, edges and labels."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from .codes import MISSING


@dataclass(frozen=True)
class LabelGraphs:
    """Examples whose nodes have labels: sequences, trees, images or other graphs.

    The nodes of all examples are numbered consecutively, and so are their edges. Labels are codes
    from 0, or -1 where they are missing. An object can be indexed by example, like an array.

    Attributes
    ----------
    features : ndarray or CSR matrix of shape (n_nodes, n_features)
        Features of each node.
    node_ptr : ndarray of int of shape (n_examples + 1,)
        Index of the first node of each example, and the number of nodes.
    labels : ndarray of int of shape (n_nodes,)
        Label code of each node.
    edges : ndarray of int of shape (n_edges, 2) or None
        First and second node of each edge. None means chains: successive nodes of an example are
        neighbours.
    edge_ptr : ndarray of int of shape (n_examples + 1,) or None
        Index of the first edge of each example, and the number of edges.
    edge_types : ndarray of int of shape (n_edges,) or None
        Row of ``edge_features`` that belongs to each edge.
    edge_features : ndarray of shape (n_types, n_edge_features)
        Distinct rows of features of edges.
    cache : dict
        Results that depend on the graphs only. Copies with other labels share it.
    """

    features: Any
    node_ptr: np.ndarray
    labels: np.ndarray
    edges: np.ndarray | None
    edge_ptr: np.ndarray | None
    edge_types: np.ndarray | None
    edge_features: np.ndarray
    cache: dict = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def chains(cls, features, lengths, labels=None):
        """Return chains, given the features of all positions and the length of each chain."""
        node_ptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        if labels is None:
            labels = np.full(node_ptr[-1], MISSING, dtype=np.int64)
        return cls(features, node_ptr, labels, None, None, None, np.ones((1, 1)))

    @property
    def shape(self):
        """Number of examples, as a tuple of one number."""
        return (len(self.node_ptr) - 1,)

    def __len__(self):
        """Return the number of examples."""
        return len(self.node_ptr) - 1

    @property
    def n_nodes(self):
        """Number of nodes of all examples."""
        return int(self.node_ptr[-1])

    @property
    def sizes(self):
        """Number of nodes of each example, ndarray of shape (n_examples,)."""
        return self.cached("sizes", lambda: np.diff(self.node_ptr))

    @property
    def example_of_node(self):
        """Index of the example of each node, ndarray of shape (n_nodes,)."""
        return self.cached("examples", lambda: np.repeat(np.arange(len(self)), self.sizes))

    def cached(self, key, compute):
        """Return the result of a function without parameters, which is called only once.

        Parameters
        ----------
        key : object
            Name of the result.
        compute : callable
            Function of no parameters. Its result must not depend on features or labels.

        Returns
        -------
        object
            Result.
        """
        if key not in self.cache:
            self.cache[key] = compute()
        return self.cache[key]

    def occurrences(self, pairs, n_labels):
        """Return the features of nodes as arrays for the kernels of observed pairs.

        They are computed once for the examples of a fit.

        Parameters
        ----------
        pairs : tuple of (ndarray, ndarray) or None
            Pairs of a feature and a label that have a weight: the index of the first pair of each
            feature, and the label of each pair. None means all pairs.
        n_labels : int
            Number of labels.

        Returns
        -------
        tuple of ndarray
            Of features with a weight for each label: pointers to rows, first weights and values. Of
            pairs of other features and labels: pointers to rows, weights, labels and values. The
            values are empty if all of them are 1.
        """
        features, known, found = self.cache.get("occurrences", (None, None, None))
        if features is not self.features or known is not pairs:
            found = _find_occurrences(csr_matrix(self.features), pairs, n_labels)
            self.cache["occurrences"] = self.features, pairs, found
        return found

    def __getstate__(self):
        """Return the attributes without the cache, for pickle and copy."""
        return {k: v for k, v in vars(self).items() if k != "cache"} | {"cache": {}}

    @property
    def is_labelled(self):
        """True if all labels are known."""
        return bool((self.labels != MISSING).all())

    def with_labels(self, labels):
        """Return the same examples with other labels, ndarray of int of shape (n_nodes,)."""
        return replace(self, labels=labels)

    def __getitem__(self, which):
        """Return the examples with the given indices or mask."""
        which = np.arange(len(self))[which]
        nodes, node_ptr = take_ranges(self.node_ptr, which)
        parts = {"node_ptr": node_ptr, "features": self.features[nodes]}
        if self.edges is not None:
            edges, parts["edge_ptr"] = take_ranges(self.edge_ptr, which)
            shift = np.repeat(node_ptr[:-1] - self.node_ptr[which], np.diff(parts["edge_ptr"]))
            parts["edges"] = self.edges[edges] + shift[:, None]
            parts["edge_types"] = self.edge_types[edges]
        return replace(self, labels=self.labels[nodes], cache={}, **parts)

    def cut(self, n_parts):
        """Return chains that are cut into parts of successive nodes.

        Parameters
        ----------
        n_parts : int
            Number of parts of each chain. Chains with fewer nodes have a part for each node.

        Returns
        -------
        graphs : LabelGraphs
            Parts of the chains.
        counts : list of int
            Number of parts of each chain.
        """
        limits = [
            np.linspace(first, last, min(n_parts, last - first) + 1).astype(np.int64)[1:]
            for first, last in pairwise(self.node_ptr.tolist())
        ]
        node_ptr = np.concatenate([[0], *limits])
        return replace(self, node_ptr=node_ptr, cache={}), [len(v) for v in limits]

    @property
    def chain_edges(self):
        """Nodes of each pair of successive nodes of an example, shape (n_pairs, 2)."""
        return self.cached("chain edges", lambda: _pair_successive(self.node_ptr))

    @property
    def trees(self):
        """Rooted trees of the examples, or None if an example has a cycle."""
        find = _chain_trees if self.edges is None else _root_trees
        return self.cached("trees", lambda: find(self))


def _find_occurrences(X, pairs, n_labels):
    """Return the result of :meth:`LabelGraphs.occurrences` for a CSR matrix."""
    columns, indptr = X.indices, X.indptr.astype(np.int64)
    index = np.int32 if X.shape[1] * n_labels < 2**31 else np.int64
    firsts, counts = columns.astype(index) * index(n_labels), np.full(len(columns), n_labels)
    if pairs is not None:
        firsts, counts = pairs[0][columns], pairs[0][columns + 1] - pairs[0][columns]
    is_full = counts == n_labels
    ptr = np.concatenate([[0], np.cumsum(is_full)])[indptr]
    counts = np.where(is_full, 0, counts).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(counts)])
    single = np.repeat(firsts - ends[:-1], counts) + np.arange(ends[-1])
    single = single.astype(firsts.dtype)
    labels = np.zeros(0, dtype=firsts.dtype) if pairs is None else pairs[1][single]
    full, pair_values = X.data[is_full], np.repeat(X.data, counts)
    if (X.data == 1.0).all():  # needs less memory and time
        full, pair_values = full[:0].copy(), pair_values[:0].copy()
    return ptr, firsts[is_full], full, ends[indptr], single, labels, pair_values


@dataclass(frozen=True)
class Trees:
    """Rooted trees: one tree per example, over all of its nodes.

    An example whose graph is not connected has additional edges without interaction between the
    roots of its components.

    Attributes
    ----------
    order : ndarray of int of shape (n_nodes,)
        Nodes in an order in which parents precede their children, example by example.
    parent : ndarray of int of shape (n_nodes,)
        Parent of each node, or -1 for a root.
    kind : ndarray of int of shape (n_nodes,)
        Table of the edge between a node and its parent. With n types of edges, ``k < n`` is the
        table of type k, whose first axis is the parent's label; ``n + k`` is its transpose; ``2n``
        is an edge without interaction.
    """

    order: np.ndarray
    parent: np.ndarray
    kind: np.ndarray


def take_ranges(ptr, which):
    """Return the indices of the entries of some ranges, and the limits of these ranges.

    Parameters
    ----------
    ptr : ndarray of int of shape (n_ranges + 1,)
        First entry of each range, and the number of entries.
    which : ndarray of int of shape (n_chosen,)
        Chosen ranges.

    Returns
    -------
    indices : ndarray of int of shape (n_indices,)
        Entries of the chosen ranges.
    limits : ndarray of int of shape (n_chosen + 1,)
        Position in ``indices`` of the first entry of each chosen range, and their number.
    """
    sizes = ptr[which + 1] - ptr[which]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    offsets = np.repeat(ptr[which] - ends[:-1], sizes)
    return np.arange(ends[-1]) + offsets, ends


def _pair_successive(node_ptr):
    is_second = np.ones(node_ptr[-1], dtype=bool)
    is_second[node_ptr[:-1]] = False
    second = np.flatnonzero(is_second)
    return np.stack([second - 1, second], axis=1)


def _chain_trees(graphs):
    order = np.arange(graphs.n_nodes)
    parent = order - 1
    parent[graphs.node_ptr[:-1]] = -1
    return Trees(order, parent, np.zeros(len(order), dtype=np.int64))


def _root_trees(graphs):
    """Return the trees of all examples by breadth-first search, or None if there is a cycle."""
    n, n_types = graphs.n_nodes, len(graphs.edge_features)
    neighbours = [[] for _ in range(n)]
    for (i, j), k in zip(graphs.edges.tolist(), graphs.edge_types.tolist(), strict=True):
        neighbours[i].append((j, k))
        neighbours[j].append((i, n_types + k))
    parent, kind = np.full(n, -1), np.full(n, 2 * n_types)
    order, is_found, n_tree_edges = [], np.zeros(n, dtype=bool), 0
    for first, last in zip(
        graphs.node_ptr[:-1].tolist(), graphs.node_ptr[1:].tolist(), strict=True
    ):
        for root in range(first, last):
            if is_found[root]:
                continue
            is_found[root], parent[root] = True, first if root > first else -1
            order.append(root)
            position = len(order) - 1
            while position < len(order):
                i = order[position]
                position += 1
                for j, k in neighbours[i]:
                    if not is_found[j]:
                        is_found[j], parent[j], kind[j] = True, i, k
                        n_tree_edges += 1
                        order.append(j)
    if n_tree_edges < len(graphs.edges):
        return None
    return Trees(np.array(order, dtype=np.int64), parent, kind)


def observed_pairs(graphs, n_labels):
    """Return the pairs of a feature and a label that occur together in the known labels.

    Features that occur with at least a quarter of the labels have a pair for each label.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples with sparse features.
    n_labels : int
        Number of labels.

    Returns
    -------
    pair_ptr : ndarray of int of shape (n_features + 1,)
        Index of the first pair of each feature.
    pair_labels : ndarray of int of shape (n_pairs,)
        Label of each pair.
    """
    X = graphs.features
    known = graphs.labels >= 0
    rows = np.repeat(graphs.labels, np.diff(X.indptr))
    used = np.repeat(known, np.diff(X.indptr)) & (X.data != 0)
    codes = np.sort(X.indices[used].astype(np.int64) * n_labels + rows[used])
    codes = codes[np.diff(codes, prepend=-1) > 0]  # np.unique takes several times longer
    counts = np.bincount(codes // n_labels, minlength=X.shape[1])
    frequent = np.flatnonzero(4 * counts >= n_labels)
    codes = codes[4 * counts[codes // n_labels] < n_labels]
    added = (frequent[:, None] * n_labels + np.arange(n_labels)).ravel()
    codes = np.sort(np.concatenate([codes, added]))
    counts[frequent] = n_labels
    ptr = np.concatenate([[0], np.cumsum(counts)])
    # Small integers, because the memory bandwidth limits a pass over the examples.
    index = np.int32 if len(codes) < 2**31 else np.int64
    return ptr.astype(index), (codes % n_labels).astype(index)
