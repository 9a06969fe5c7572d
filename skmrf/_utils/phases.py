"""Phases: estimates of the two expectations (data and model) in the log-likelihood gradient."""

from typing import NamedTuple

import numpy as np

from .log_weights import normalized_weights

Theta = dict[str, np.ndarray]


class States(NamedTuple):
    """Weighted states that estimate one of the two expectations in the gradient (a phase).

    Attributes
    ----------
    visible : ndarray of shape (n_rows, n_visible)
        State codes of the visible variables.
    hidden : ndarray of shape (n_rows, n_hidden) or None
        Means or states of the hidden units. None means the means of the hidden units given the
        visible units.
    log_weights : ndarray of shape (n_rows,) or None
        Log weights of the rows, up to a constant. None means equal weights.
    """

    visible: np.ndarray
    hidden: np.ndarray | None = None
    log_weights: np.ndarray | None = None

    @property
    def weights(self):
        """Row weights that are normalised to sum to one, ndarray of shape (n_rows,)."""
        return normalized_weights(self.log_weights, self.visible.shape[0])


class CliqueMoments(NamedTuple):
    """Expected sufficient statistics under the data or under the model (a phase of the gradient).

    Attributes
    ----------
    moments : dict of str to ndarray
        Expected sufficient statistics, with the names and shapes of ``theta``.
    """

    moments: Theta


class CliquePoints(NamedTuple):
    """Quadrature points and weights of variables and edges, for an expectation in the gradient.

    Attributes
    ----------
    nodes : ndarray of shape (n_variables, n_node_points)
        Points of each variable: values of a continuous variable, or state codes.
    node_weights : ndarray of shape (n_variables, n_node_points)
        Weights of the points of variables.
    edges : ndarray of shape (2 * n_edges, n_edge_points)
        Points of each edge. Rows 2e and 2e + 1 hold the two variables of edge e.
    edge_weights : ndarray of shape (n_edges, n_edge_points)
        Weights of the points of edges.
    """

    nodes: np.ndarray
    node_weights: np.ndarray
    edges: np.ndarray
    edge_weights: np.ndarray


class UnitMoments(NamedTuple):
    """Expected unit states of a bipartite model for each row (a phase of the gradient).

    Attributes
    ----------
    visible : ndarray of shape (n_rows, n_visible)
        Expected visible units of each row.
    hidden : ndarray of shape (n_rows, n_hidden)
        Expected hidden units of each row.
    pairs : ndarray of shape (n_visible, n_hidden)
        Expected product of each visible and each hidden unit, averaged over the rows.
    """

    visible: np.ndarray
    hidden: np.ndarray
    pairs: np.ndarray


class GraphMoments(NamedTuple):
    """Expected labels of nodes and edges, summed over examples with their weights (a phase).

    Attributes
    ----------
    nodes : ndarray of shape (n_nodes, n_states)
        Probability of each state of each node, times the weight of the example.
    tables : ndarray of shape (n_tables, n_states, n_states)
        Probability of each pair of states of an edge, summed over the edges of a type.
    """

    nodes: np.ndarray
    tables: np.ndarray
