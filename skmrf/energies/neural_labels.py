"""Labels given numbers and states: networks of every label on the nodes and edges of a graph."""

import numpy as np

from .._utils.log_weights import normalized_weights
from .neural import NeuralEnergy
from .protocols import LabelEnergy


class NeuralLabels(LabelEnergy):
    r"""Conditional Markov random field of one label, with neural-network potentials.

    .. math:: p(y | x) \propto \exp\Bigl(b_y + c \sum_i s_{yi} \tanh n_{yi}(x_i)
        + c \sum_{ij} s_{yij} \tanh n_{yij}(x_i, x_j)\Bigr)

    over the edges :math:`ij` of a graph: the networks of :class:`NeuralEnergy`, a stack for every
    label. In :meth:`random` the gain :math:`c` falls with the root of the number of networks, so
    that first log odds and the steps of learning are of one size on small and on large graphs.

    Parameters
    ----------
    theta : dict
        ``nodes`` of shape (n_labels * n_variables, n_node_parameters) and ``edges`` of shape
        (n_labels * n_edges, n_edge_parameters), label by label, and ``labels`` of shape
        (n_labels,).
    networks : NeuralEnergy
        Whose graph, states and shape of networks those of every label have; neither its parameters
        nor its base enter.
    gain : float
        :math:`c`.
    """

    def __init__(self, theta, networks, gain):
        self.theta = theta
        self.networks = networks
        self.gain = gain

    @classmethod
    def random(cls, networks, n_labels, gain=1.0, inner=1.0, outer=1.0, random_state=None):
        """First networks of every label, and equal labels.

        Parameters
        ----------
        networks : NeuralEnergy
        n_labels : int
        gain : float
            In units of one over the root of the number of networks of a label.
        inner, outer : float
            Factors of the first weights and biases of the inputs, and of those of the outputs:
            with greater ones networks bend within a shorter range, and by more.
        random_state : int, Generator or None

        Returns
        -------
        NeuralLabels
        """
        rng = np.random.default_rng(random_state)
        layers = {"node_layers": networks.shape.nodes, "edge_layers": networks.shape.edges}
        dtype = networks.theta["nodes"].dtype
        stacks = [
            NeuralEnergy.random(
                networks.n_states, networks.edges, dtype=dtype, random_state=rng, **layers
            ).theta
            for _ in range(n_labels)
        ]
        theta = {k: np.concatenate([stack[k] for stack in stacks]) for k in ("nodes", "edges")}
        for k, n_variables, layers in zip(theta, (1, 2), networks.shape, strict=True):
            theta[k][:, : (n_variables * networks.n_slots + 1) * layers[0]] *= inner
            theta[k][:, -layers[-1] - 2 : -2] *= outer
        gain = gain / np.sqrt(networks.n_variables + len(networks.edges))
        return cls(theta | {"labels": np.zeros(n_labels, dtype)}, networks, gain)

    def __repr__(self):
        return f"NeuralLabels(n_labels={self.n_labels}, networks={self.networks!r})"

    @property
    def n_labels(self):
        """Number of labels."""
        return len(self.theta["labels"])

    def with_theta(self, theta):
        """The same with other parameters; ``theta`` is not copied."""
        return NeuralLabels(theta, self.networks, self.gain)

    def log_potential(self, X):
        rows, labels = X[:, :-1], X[:, -1].astype(int)
        return self._scores(rows)[np.arange(len(X)), labels]

    def log_proba(self, X):
        """``log p(y | x)`` of rows without gaps, shape (n_rows, n_labels)."""
        scores = self._scores(X)
        return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)

    def _scores(self, X):
        """``log f`` of every row and label, shape (n_rows, n_labels)."""
        scores = np.empty((len(X), self.n_labels))
        for y in range(self.n_labels):
            scores[:, y] = self.theta["labels"][y] + self.gain * self._of(y).networks(X)
        return scores

    def objective(self, X, labels, weights):
        """Weighted log-likelihood of labels given rows, and its gradient.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)
        labels : ndarray of int, shape (n_rows,)
        weights : ndarray of shape (n_rows,)

        Returns
        -------
        value : float
        gradient : dict
        """
        logs, rows = self.log_proba(X), np.arange(len(X))
        residuals = -np.exp(logs)
        residuals[rows, labels] += 1.0
        gradient = self._add_networks(X, residuals * weights[:, None])
        return float(weights @ logs[rows, labels]), gradient

    def gradient(self, positive, negative, batch):
        """Return ``E_positive[d log f] - E_negative[d log f]``, means over the rows of a batch.

        Parameters
        ----------
        positive, negative : LabelMoments
        batch : Batch
            Rows without labels.
        """
        residuals = positive.probabilities - negative.probabilities
        weights = normalized_weights(batch.log_weights, len(batch.X))
        return self._add_networks(batch.X, residuals * weights[:, None])

    def _add_networks(self, X, residuals):
        """Return the derivatives of the sum of ``residuals * log f``, shaped like theta."""
        gradient = {k: np.zeros_like(v) for k, v in self.theta.items()}
        gradient["labels"] += residuals.sum(axis=0)
        for y in range(self.n_labels):
            here = {k: self._part(gradient[k], y) for k in ("nodes", "edges")}
            self._of(y).add_gradient(X, self.gain * residuals[:, y], here)
        return gradient

    def penalty_groups(self):
        """0 for what networks hold, -1 for labels."""
        return {k: np.full(v.shape, -1 if k == "labels" else 0) for k, v in self.theta.items()}

    def _of(self, y):
        """The networks of a label."""
        return self.networks.with_theta(
            {k: self._part(self.theta[k], y) for k in ("nodes", "edges")}
        )

    def _part(self, rows, y):
        n = len(rows) // self.n_labels
        return rows[y * n : (y + 1) * n]
