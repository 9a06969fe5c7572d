"""Energy of labels of sequences, trees and graphs given features (conditional random field)."""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_matrix, issparse

from .._kernels import label_trees as kernels
from .._utils.codes import MISSING
from .._utils.label_graphs import take_ranges
from .._utils.parallel import run_blocks
from .._utils.phases import GraphMoments
from .structured_protocols import LabelGraphEnergy, LabelPotentials

N_CHUNK = 50_000  # nodes per call of a kernel


class CRFEnergy(LabelGraphEnergy):
    r"""Energy of a conditional random field with log-linear potentials.

    .. math:: \log f(y | x) = \sum_i (x_i^\top W + b)_{y_i} + \sum_{ij} (z_{ij}^\top T)_{y_i y_j}

    The sums are over the nodes i, with features :math:`x_i`, and over the edges ij, with features
    :math:`z_{ij}`. The edges of a chain have one feature, which is 1. Chains have further
    log-potentials of the first and of the last label, and second-order chains also log-potentials
    of three successive labels.

    Parameters
    ----------
    theta : dict of str to ndarray
        Parameters: "coef", the weights :math:`W` of shape (n_features, n_labels), or the weights of
        ``pairs``; "intercept" of shape (n_labels,); "transition", the tables :math:`T` of shape
        (n_edge_features, n_labels, n_labels). Optional: "start" and "end" of shape (n_labels,), and
        "triples" of shape (n_labels, n_labels, n_labels).
    pairs : tuple of (ndarray, ndarray), optional
        Pairs of a feature and a label that have a weight, as the index of the first pair of each
        feature, and the label of each pair. By default each feature has a weight for each label.
    """

    def __init__(self, theta, pairs=None):
        self.theta = theta
        self.pairs = pairs

    @classmethod
    def zeros(cls, n_features, n_labels, n_edge_features=1, *, graph="given", pairs=None):
        """Return an energy whose parameters are zero.

        Parameters
        ----------
        n_features : int
            Number of features of a node.
        n_labels : int
            Number of labels.
        n_edge_features : int, default=1
            Number of features of an edge.
        graph : {"chain", "second-order chain", "tree", "grid", "given"}, default="given"
            Kind of graph.
        pairs : tuple of (ndarray, ndarray), optional
            Pairs of a feature and a label that have a weight. By default all pairs.

        Returns
        -------
        CRFEnergy
            Energy with zero parameters.
        """
        size = (n_features, n_labels) if pairs is None else len(pairs[1])
        theta = {
            "coef": np.zeros(size),
            "intercept": np.zeros(n_labels),
            "transition": np.zeros((n_edge_features, n_labels, n_labels)),
        }
        if graph.endswith("chain"):
            theta |= {"start": np.zeros(n_labels), "end": np.zeros(n_labels)}
        if graph == "second-order chain":
            theta["triples"] = np.zeros((n_labels,) * 3)
        return cls(theta, pairs)

    def __repr__(self):
        """Return a summary with the numbers of labels and parameters."""
        n_parameters = sum(v.size for v in self.theta.values())
        return f"CRFEnergy(n_labels={self.n_labels}, n_parameters={n_parameters})"

    @property
    def n_labels(self):
        """Number of labels."""
        return len(self.theta["intercept"])

    @property
    def is_second_order(self):
        """True if three successive labels interact."""
        return "triples" in self.theta

    def with_theta(self, theta):
        """Return the same energy with other parameters, which are neither checked nor copied."""
        return CRFEnergy(theta, self.pairs)

    def restrict(self, graphs):
        """Return the part of the model that some examples use, these examples, and an index."""
        if graphs.edges is not None:
            types, inverse = np.unique(np.append(0, graphs.edge_types), return_inverse=True)
            rows = graphs.edge_features[types] if len(graphs.edges) else graphs.edge_features[:1]
            graphs = replace(graphs, edge_types=inverse[1:], edge_features=rows, cache={})
        X = graphs.features
        if not issparse(X):
            return self, graphs, slice(None)
        index, inverse = np.unique(X.indices, return_inverse=True)
        features, pairs = csr_matrix((X.shape[0], len(index))), self.pairs
        features.indptr, features.data = X.indptr.astype(np.int64), X.data
        features.indices = inverse.astype(np.int32)
        if pairs is not None:
            index, limits = take_ranges(pairs[0], index)
            pairs = limits.astype(pairs[0].dtype), pairs[1][index]
        energy = CRFEnergy(self.theta | {"coef": self.theta["coef"][index]}, pairs)
        return energy, replace(graphs, features=features), index

    def node_scores(self, graphs):
        """Return the log-potential of each label of each node, without edges.

        Parameters
        ----------
        graphs : LabelGraphs
            Examples.

        Returns
        -------
        ndarray of shape (n_nodes, n_labels)
            Log-potentials in nats.
        """
        X, coef = graphs.features, self.theta["coef"]
        scores = np.tile(self.theta["intercept"], (graphs.n_nodes, 1))
        if not issparse(X):
            scores += X @ coef
        else:
            matrix = graphs.occurrences(self.pairs, self.n_labels)
            blocks = [
                (*rows, *matrix, coef.reshape(-1), scores) for rows in _chunks(graphs.n_nodes)
            ]
            list(run_blocks(kernels.add_observed_scores, blocks, None))
        if "start" in self.theta:
            scores[graphs.node_ptr[:-1]] += self.theta["start"]
            scores[graphs.node_ptr[1:] - 1] += self.theta["end"]
        return scores

    def potentials(self, graphs):
        """Return the log-potentials; the states of second-order chains are pairs of labels."""
        scores = self.node_scores(graphs)
        if self.is_second_order:
            return self._pair_potentials(scores, graphs)
        tables = np.tensordot(graphs.edge_features, self.theta["transition"], axes=1)
        return LabelPotentials(scores, tables, None, self.n_labels)

    def _pair_potentials(self, scores, graphs):
        """Return potentials of pairs of labels; the first node has the pairs with label 0."""
        (n, q), firsts = scores.shape, graphs.node_ptr[:-1]
        nodes = scores[:, None, :] + self.theta["transition"][0]
        nodes[firsts] = -np.inf
        nodes[firsts, 0] = scores[firsts]
        tables = np.full((2, q, q, q, q), -np.inf)
        labels = np.arange(q)
        tables[0][:, labels, labels] = self.theta["triples"]
        tables[1][:, labels, labels] = 0.0  # the first two nodes have no triple
        kinds = _second_order_kinds(graphs)
        return LabelPotentials(nodes.reshape(n, -1), tables.reshape(2, q * q, q * q), kinds, q)

    def states_of(self, graphs):
        """Return the labels, or the codes of pairs of labels of second-order chains."""
        if not self.is_second_order:
            return graphs.labels
        before = np.roll(graphs.labels, 1)
        before[graphs.node_ptr[:-1]] = 0
        return before * self.n_labels + graphs.labels

    def log_potential(self, X):
        """Return ``log f(y | x)`` of each example.

        Parameters
        ----------
        X : LabelGraphs
            Examples without missing labels.

        Returns
        -------
        ndarray of shape (n_examples,)
            Unnormalised log-probabilities in nats; ``-inf`` for impossible labels.
        """
        potentials, states = self.potentials(X), self.states_of(X)
        nodes = potentials.nodes[np.arange(X.n_nodes), states]
        total = np.bincount(X.example_of_node, nodes, minlength=len(X))
        ends, kinds = self.edges_of(X)
        if len(ends):
            values = potentials.tables[kinds, states[ends[:, 0]], states[ends[:, 1]]]
            total += np.bincount(X.example_of_node[ends[:, 0]], values, minlength=len(X))
        return total

    def edges_of(self, graphs):
        """Return the two nodes of each edge, and the index of its table of log-potentials.

        Parameters
        ----------
        graphs : LabelGraphs
            Examples.

        Returns
        -------
        ends : ndarray of int of shape (n_edges, 2)
            First and second node of each edge.
        kinds : ndarray of int of shape (n_edges,)
            Index of the table of each edge.
        """
        if graphs.edges is not None:
            return graphs.edges, graphs.edge_types
        ends = graphs.chain_edges
        second = ends[:, 1]
        kinds = _second_order_kinds(graphs)[second] if self.is_second_order else 0 * second
        return ends, kinds

    def count_edges(self, graphs, states, weights):
        """Return the weighted counts of the pairs of states of edges."""
        q = self.n_labels ** (1 + self.is_second_order)
        n_tables = 2 if self.is_second_order else len(graphs.edge_features)
        ends, kinds = self.edges_of(graphs)
        flat = (kinds * q + states[ends[:, 0]]) * q + states[ends[:, 1]]
        strength = weights[graphs.example_of_node[ends[:, 0]]]
        return np.bincount(flat, strength, minlength=n_tables * q * q).reshape(n_tables, q, q)

    def statistics(self, moments, graphs):
        """Return the expected sufficient statistics of moments of nodes and edges."""
        nodes, out = moments.nodes, {}
        if self.is_second_order:
            out = self._triple_statistics(moments, graphs.node_ptr[:-1])
            nodes = nodes.reshape(len(nodes), -1, self.n_labels).sum(axis=1)
        else:
            tables = moments.tables
            out["transition"] = np.tensordot(graphs.edge_features, tables, axes=(0, 0))
        out |= self._label_statistics(nodes, graphs)
        return {k: out[k] for k in self.theta}

    def _label_statistics(self, nodes, graphs):
        """Return the statistics of single labels, given an array of one row per node."""
        out = {"coef": self._feature_sums(graphs, nodes), "intercept": nodes.sum(axis=0)}
        if "start" in self.theta:
            out["start"] = nodes[graphs.node_ptr[:-1]].sum(axis=0)
            out["end"] = nodes[graphs.node_ptr[1:] - 1].sum(axis=0)
        return out

    def _triple_statistics(self, moments, firsts):
        q, labels = self.n_labels, np.arange(self.n_labels)
        pairs = moments.nodes.sum(axis=0) - moments.nodes[firsts].sum(axis=0)
        triples = moments.tables[0].reshape((q,) * 4)[:, labels, labels]
        return {"transition": pairs.reshape(1, q, q), "triples": triples}

    def _feature_sums(self, graphs, nodes):
        X = graphs.features
        if not issparse(X):
            return X.T @ nodes
        out, nodes = np.zeros_like(self.theta["coef"]), np.ascontiguousarray(nodes)
        matrix = graphs.occurrences(self.pairs, self.n_labels)
        for rows in _chunks(graphs.n_nodes):
            kernels.add_observed_products(*rows, *matrix, nodes, out.reshape(-1))
        return out

    def conditional_scores(self, graphs):
        """Return the log-potential of each label of each node, given the labels of all others."""
        scores = self.node_scores(graphs)
        for name, tables, kinds, members in self._cliques(graphs):
            labels = graphs.labels[members]
            for position in range(members.shape[1]):
                index = _fix_others(kinds, labels, position)
                np.add.at(scores, members[:, position], tables[name][index])
        return scores

    def conditional_statistics(self, residuals, graphs):
        """Return the gradient of a function of the conditional scores."""
        q = self.n_labels
        sums = {"tables": np.zeros((len(graphs.edge_features), q, q))}
        if self.is_second_order:
            sums["triples"] = np.zeros((1, q, q, q))
        for name, _, kinds, members in self._cliques(graphs):
            labels = graphs.labels[members]
            for position in range(members.shape[1]):
                index = _fix_others(kinds, labels, position)
                np.add.at(sums[name], index, residuals[members[:, position]])
        tables = sums["tables"]
        out = self._label_statistics(residuals, graphs)
        out["transition"] = np.tensordot(graphs.edge_features, tables, axes=(0, 0))
        if self.is_second_order:
            out["triples"] = sums["triples"][0]
        return {k: out[k] for k in self.theta}

    def _cliques(self, graphs):
        """Yield the name, tables, table indices and nodes of the edges, then of the triples."""
        ends, kinds = self.edges_of(graphs)
        kinds = np.zeros_like(kinds) if self.is_second_order else kinds
        tables = np.tensordot(graphs.edge_features, self.theta["transition"], axes=1)
        yield "tables", {"tables": tables}, kinds, ends
        if self.is_second_order:
            has_triple = np.zeros(graphs.n_nodes, dtype=bool)
            has_triple[ends[:, 1]] = True
            thirds = np.flatnonzero(has_triple & np.roll(has_triple, 1))
            members = np.stack([thirds - 2, thirds - 1, thirds], axis=1)
            tables = {"triples": self.theta["triples"][None]}
            yield "triples", tables, np.zeros_like(thirds), members

    def gradient(self, positive, negative, batch):
        """Return the gradient of the log-likelihood of a batch from both expectations.

        Parameters
        ----------
        positive : GraphMoments
            Moments under the data.
        negative : GraphMoments
            Moments under the model.
        batch : Batch
            Examples of the gradient step.

        Returns
        -------
        dict of str to ndarray
            Gradient by each parameter, shaped like ``theta``.
        """
        pairs = zip(positive, negative, strict=True)
        return self.statistics(GraphMoments(*(up - down for up, down in pairs)), batch.X)

    def penalty_groups(self):
        """Return the penalty groups: 0 for all parameters but the intercept, which has -1."""
        return {
            k: np.broadcast_to(-1 if k == "intercept" else 0, v.shape)
            for k, v in self.theta.items()
        }


def _chunks(n_nodes):
    """Yield the first and last row of chunks of rows, so that kernels return quickly."""
    for first in range(0, n_nodes, N_CHUNK):
        yield first, min(first + N_CHUNK, n_nodes)


def _fix_others(kinds, labels, position):
    """Return an index that selects all states at one position, and known labels elsewhere."""
    states = (labels[:, p] if p != position else slice(None) for p in range(labels.shape[1]))
    return kinds, *states


def _second_order_kinds(graphs):
    """Return 1 for the second node of each chain, and 0 for the other nodes."""
    kinds = np.zeros(graphs.n_nodes, dtype=np.int64)
    kinds[graphs.node_ptr[:-1][graphs.sizes > 1] + 1] = 1
    return kinds


def without_labels(graphs):
    """Return the same examples, with all labels missing."""
    return graphs.with_labels(np.full(graphs.n_nodes, MISSING))
