"""Phases: what an expectation of the gradient is estimated by."""

from typing import NamedTuple

import numpy as np

from .log_weights import normalized_weights

Theta = dict[str, np.ndarray]


class States(NamedTuple):
    """A phase given by weighted states: data, chains, particles or maximisers.

    Attributes
    ----------
    visible : ndarray of shape (n_rows, n_visible)
        State codes of the visible variables.
    hidden : ndarray of shape (n_rows, n_hidden) or None
        Means or states of the hidden units; None: their means given the visible ones.
    log_weights : ndarray of shape (n_rows,) or None
        Log weights up to a constant; None: equal weights.
    """

    visible: np.ndarray
    hidden: np.ndarray | None = None
    log_weights: np.ndarray | None = None

    @property
    def weights(self):
        """Weights of the rows, which sum to one, ndarray of shape (n_rows,)."""
        return normalized_weights(self.log_weights, self.visible.shape[0])


class CliqueMoments(NamedTuple):
    """A phase given by expected statistics.

    Attributes
    ----------
    moments : dict of str to ndarray
        One array for every array of ``theta``, of the same shape.
    """

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
