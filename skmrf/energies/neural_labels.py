"""Conditional model of a class label given a row; neural networks give the potentials."""

import numpy as np

from .._utils.log_weights import normalized_weights
from .neural import NeuralEnergy
from .protocols import LabelEnergy


class NeuralLabels(LabelEnergy):
    r"""Conditional Markov random field of a class label; neural networks give the potentials.

    .. math:: p(y | x) \propto \exp\Bigl(b_y + c \sum_i s_{yi} \tanh n_{yi}(x_i)
        + c \sum_{ij} s_{yij} \tanh n_{yij}(x_i, x_j)\Bigr)

    The sums are over the variables and over the edges :math:`ij` of a graph. Each label has its own
    networks, of the kind that :class:`NeuralEnergy` describes. In :meth:`random` the gain :math:`c`
    is inversely proportional to the square root of the number of networks of a label. This makes
    the initial log odds and the steps of learning equally large on small and on large graphs.

    Parameters
    ----------
    theta : dict of str to ndarray
        ``nodes`` of shape (n_labels * n_variables, n_node_parameters) and ``edges`` of shape
        (n_labels * n_edges, n_edge_parameters) hold the networks, one label after the other.
        ``labels`` of shape (n_labels,) holds the biases :math:`b_y`.
    networks : NeuralEnergy
        Energy that gives the graph, the numbers of states and the sizes of the networks of each
        label. Its parameters and its Gaussian base are not used.
    gain : float
        Factor :math:`c` of all networks.
    """

    def __init__(self, theta, networks, gain):
        self.theta = theta
        self.networks = networks
        self.gain = gain

    @classmethod
    def random(cls, networks, n_labels, gain=1.0, inner=1.0, outer=1.0, random_state=None):
        """Create an energy with random networks and equal label biases.

        Parameters
        ----------
        networks : NeuralEnergy
            Energy that gives the graph, the numbers of states and the sizes of the networks of
            each label.
        n_labels : int
            Number of labels.
        gain : float, default=1.0
            Factor of all networks, times the square root of the number of networks of a label.
        inner : float, default=1.0
            Factor of the initial weights and biases of the first hidden layer. With a larger
            factor the networks change within a shorter range of their inputs.
        outer : float, default=1.0
            Factor of the initial weights of the output units. With a larger factor the networks
            change by more.
        random_state : int, numpy.random.Generator or None, default=None
            Seed or generator of the initial weights.

        Returns
        -------
        NeuralLabels
            Energy with the initial parameters.
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
        """Return a summary with the number of labels and the sizes of the networks."""
        return f"NeuralLabels(n_labels={self.n_labels}, networks={self.networks!r})"

    @property
    def n_labels(self):
        """Number of labels."""
        return len(self.theta["labels"])

    def with_theta(self, theta):
        """Return the same energy with other parameters, which are neither checked nor copied."""
        return NeuralLabels(theta, self.networks, self.gain)

    def log_potential(self, X):
        """Return ``log f`` in nats of each row; the last column of X holds the label codes."""
        rows, labels = X[:, :-1], X[:, -1].astype(int)
        return self._scores(rows)[np.arange(len(X)), labels]

    def log_proba(self, X):
        """Return ``log p(y | x)`` of each row and label.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)
            Values of continuous variables and state codes of categorical variables, without
            missing values.

        Returns
        -------
        ndarray of shape (n_rows, n_labels)
            Log-probabilities in nats.
        """
        scores = self._scores(X)
        return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)

    def _scores(self, X):
        """Return ``log f`` of each row and label, shape (n_rows, n_labels)."""
        scores = np.empty((len(X), self.n_labels))
        for y in range(self.n_labels):
            scores[:, y] = self.theta["labels"][y] + self.gain * self._label_energy(y).networks(X)
        return scores

    def objective(self, X, labels, weights):
        """Return the weighted conditional log-likelihood of the labels, and its gradient.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)
            Rows without missing values.
        labels : ndarray of int of shape (n_rows,)
            Code of the label of each row.
        weights : ndarray of shape (n_rows,)
            Weight of each row.

        Returns
        -------
        value : float
            Weighted sum of ``log p(y | x)`` in nats.
        gradient : dict of str to ndarray
            Gradient by each parameter, shaped like ``theta``.
        """
        log_proba, rows = self.log_proba(X), np.arange(len(X))
        residuals = -np.exp(log_proba)
        residuals[rows, labels] += 1.0
        gradient = self._weighted_gradient(X, residuals * weights[:, None])
        return float(weights @ log_proba[rows, labels]), gradient

    def gradient(self, positive, negative, batch):
        """Return a batch's gradient: the data expectation of d log f / d theta minus the model's.

        Parameters
        ----------
        positive : LabelMoments
            Label probabilities of each row under the data.
        negative : LabelMoments
            Label probabilities of each row under the model.
        batch : Batch
            Rows without labels, and their weights.

        Returns
        -------
        dict of str to ndarray
            Gradient by each parameter, shaped like ``theta``.
        """
        residuals = positive.probabilities - negative.probabilities
        weights = normalized_weights(batch.log_weights, len(batch.X))
        return self._weighted_gradient(batch.X, residuals * weights[:, None])

    def _weighted_gradient(self, X, residuals):
        """Return the gradient of the sum of ``residuals * log f`` over rows and labels."""
        gradient = {k: np.zeros_like(v) for k, v in self.theta.items()}
        gradient["labels"] += residuals.sum(axis=0)
        for y in range(self.n_labels):
            label_gradient = {k: self._label_rows(gradient[k], y) for k in ("nodes", "edges")}
            self._label_energy(y).add_gradient(X, self.gain * residuals[:, y], label_gradient)
        return gradient

    def penalty_groups(self):
        """Return the penalty groups: all network parameters form one group.

        The group number is 0 for network parameters. It is -1 for label biases, which are not
        penalised.
        """
        return {k: np.full(v.shape, -1 if k == "labels" else 0) for k, v in self.theta.items()}

    def _label_energy(self, y):
        """Return the networks of one label as a :class:`NeuralEnergy`."""
        return self.networks.with_theta(
            {k: self._label_rows(self.theta[k], y) for k in ("nodes", "edges")}
        )

    def _label_rows(self, rows, y):
        n = len(rows) // self.n_labels
        return rows[y * n : (y + 1) * n]
