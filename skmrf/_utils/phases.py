"""Phases: what an expectation of the gradient is estimated by."""

from typing import NamedTuple

import numpy as np

Theta = dict[str, np.ndarray]


class States(NamedTuple):
    """A phase given by weighted states: data, chains, particles or maximisers."""

    visible: np.ndarray
    hidden: np.ndarray | None = None
    log_weights: np.ndarray | None = None


class CliqueMoments(NamedTuple):
    """A phase given by expected statistics, one array for every array of theta."""

    moments: Theta


class CliquePoints(NamedTuple):
    """A phase given by weighted points for every variable and edge, as of quadrature.

    Attributes
    ----------
    nodes, node_weights : ndarray of shape (n_variables, n_node_points)
        Numbers, or states as numbers.
    edges : ndarray of shape (2 n_edges, n_edge_points)
        Two rows for every edge.
    edge_weights : ndarray of shape (n_edges, n_edge_points)
    """

    nodes: np.ndarray
    node_weights: np.ndarray
    edges: np.ndarray
    edge_weights: np.ndarray


class UnitMoments(NamedTuple):
    """A phase of a bipartite model, given by the expected units of every row.

    Attributes
    ----------
    visible : ndarray of shape (n_rows, n_visible)
    hidden : ndarray of shape (n_rows, n_hidden)
    pairs : ndarray of shape (n_visible, n_hidden)
        Mean over rows of the expected products.
    """

    visible: np.ndarray
    hidden: np.ndarray
    pairs: np.ndarray


class LabelMoments(NamedTuple):
    """A phase of a label model, given by the label probabilities of every row.

    Attributes
    ----------
    probabilities : ndarray of shape (n_rows, n_labels)
    """

    probabilities: np.ndarray
