"""Protocols of energies with layers of two-state units, and of energies of labels of graphs."""

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from .._utils.codes import STATE
from .base import Energy
from .conditionals import BipartiteConditionals, as_matrix
from .protocols import DiscreteEnergy, GibbsEnergy


class HiddenLayerEnergy(DiscreteEnergy):
    """Energy with a layer of two-state hidden units, independent given the visible variables.

    All variables have two states. A row of ``log_potential(X)`` holds visible codes, then hidden
    codes. The rows of all other methods hold visible codes only, because the hidden units are
    latent. If the field ``hidden`` of a phase is None, :meth:`moments` uses the means of the hidden
    units given the visible variables.
    """

    @property
    def visible_states(self):
        """Number of states of each visible variable (2), ndarray of shape (n_visible,)."""
        return self.n_states[: self.weights.shape[0]]

    @abstractmethod
    def conditionals(self):
        """Return the arrays for Gibbs sampling of the hidden layer and of the visible variables.

        Returns
        -------
        BipartiteConditionals or CoupledLayerConditionals
            Weights, biases and couplings of the state codes 0 and 1.
        """

    @property
    @abstractmethod
    def weights(self):
        """Weights between visible and hidden units, shape (n_visible, n_hidden)."""

    @property
    @abstractmethod
    def hidden_bias(self):
        """Hidden biases, shape (n_hidden,), or (n_rows, n_hidden) if they differ by row."""

    @abstractmethod
    def hidden_means(self, V):
        """Return the probability ``p(h_j = 1 | v)`` of each hidden unit for each row.

        Parameters
        ----------
        V : array-like or sparse matrix of shape (n_rows, n_visible)
            Visible states.

        Returns
        -------
        ndarray of shape (n_rows, n_hidden)
            Probabilities that hidden units are 1.
        """

    def complete(self, V, rng):
        """Draw hidden units given visible units and return the states of both layers.

        Parameters
        ----------
        V : array-like of shape (n_rows, n_visible)
            Visible states.
        rng : numpy.random.Generator
            Random number generator.

        Returns
        -------
        ndarray of shape (n_rows, n_visible + n_hidden)
            Visible states followed by the drawn hidden states.
        """
        means = self.hidden_means(V)
        H = rng.random(means.shape) < means
        return np.concatenate([np.asarray(V, dtype=STATE), H.astype(STATE)], axis=1)

    def log_marginal(self, V):
        """Return ``log sum_h f(v, h)`` in nats of each row of visible states."""
        return -self.free_energy(V)

    @abstractmethod
    def free_energy(self, V):
        """Return the free energy ``-log sum_h f(v, h)`` of each row.

        Parameters
        ----------
        V : array-like or sparse matrix of shape (n_rows, n_visible)
            Visible states.

        Returns
        -------
        ndarray of shape (n_rows,)
            Free energies in nats.
        """

    def raised(self, V):
        r"""Return a function of the inverse temperature beta: the scaled log marginal of each row.

        The scaled log marginal is :math:`\log \bigl( m^{\beta - 1} \sum_h f(v, h)^\beta \bigr)`,
        where m is the number of joint states of the latent variables. It is 0 at ``beta = 0`` and
        ``log_marginal`` at ``beta = 1``.

        Parameters
        ----------
        V : array-like or sparse matrix of shape (n_rows, n_visible)
            Visible states.

        Returns
        -------
        callable
            Function from a float beta to an ndarray of shape (n_rows,), in nats.
        """
        log_n_latent = self.weights.shape[1] * np.log(2.0)
        return lambda beta: self.tempered(beta).log_marginal(V) - (1 - beta) * log_n_latent

    def along(self, other, V):
        """Return a function of beta: the log marginals under ``interpolate(other, beta)``."""
        return lambda beta: self.interpolate(other, beta).log_marginal(V)


class LayeredEnergy(HiddenLayerEnergy):
    r"""Energy of a visible and a hidden layer of two-state units; no coupling within a layer.

    .. math:: \log f(v, h) = v^\top W h + c^\top v + b^\top h

    with the :attr:`weights` W, the :attr:`visible_bias` c and the :attr:`hidden_bias` b, which are
    arrays of floats. They are linear functions of ``theta``, and may have more entries.
    """

    @property
    @abstractmethod
    def visible_bias(self):
        """Visible biases, shape (n_visible,), or (n_rows, n_visible) if they differ by row."""

    def conditionals(self):
        """Return the weights and biases as ``BipartiteConditionals``."""
        biases = (as_matrix(b) for b in (self.visible_bias, self.hidden_bias))
        return BipartiteConditionals(self.weights, *biases)

    @abstractmethod
    def from_layer_moments(self, pairs, visible, hidden):
        """Convert expectations of the units to expected sufficient statistics.

        The statistic of a parameter is the derivative of ``log f`` by this parameter.

        Parameters
        ----------
        pairs : ndarray of shape (n_visible, n_hidden)
            Expected product of each visible and each hidden unit.
        visible : ndarray of shape (n_visible,)
            Expected visible units.
        hidden : ndarray of shape (n_hidden,)
            Expected hidden units.

        Returns
        -------
        dict of str to ndarray
            Expected sufficient statistics, shaped like ``theta``.
        """

    @abstractmethod
    def visible_means(self, H):
        """Return the probability ``p(v_i = 1 | h)`` of each visible unit for each row.

        Parameters
        ----------
        H : array-like of shape (n_rows, n_hidden)
            Hidden states.

        Returns
        -------
        ndarray of shape (n_rows, n_visible)
            Probabilities that visible units are 1.
        """


class ConditionalLayeredEnergy(GibbsEnergy):
    """Energy of a visible and a hidden layer of two-state units given inputs.

    The visible units are the targets ``Y`` of a batch and the inputs are its rows ``X``. The method
    ``at(batch)`` returns a :class:`LayeredEnergy` whose biases have one row per row of the batch.
    The phases that ``gradient`` receives are ``States``, whose hidden states may be None, or
    ``UnitMoments``, with one row for each row of the batch. The rows of ``log_potential(X)`` hold
    inputs, then visible states, then hidden states.
    """

    @property
    @abstractmethod
    def weights(self):
        """Weights between visible and hidden units, shape (n_visible, n_hidden)."""

    @abstractmethod
    def fields(self, X):
        """Return the biases of both layers given each row of inputs.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_rows, n_inputs)
            Inputs.

        Returns
        -------
        visible : ndarray of shape (n_rows, n_visible)
            Biases of the visible units given the inputs.
        hidden : ndarray of shape (n_rows, n_hidden)
            Biases of the hidden units given the inputs.
        """


class LabelPotentials(NamedTuple):
    """Log-potentials of the nodes and edges of some examples, in nats.

    Attributes
    ----------
    nodes : ndarray of shape (n_nodes, n_states)
        Log-potential of each state of each node.
    tables : ndarray of shape (n_tables, n_states, n_states)
        Log-potentials of the pairs of states of each type of edges. The first axis is the state of
        the first node.
    kinds : ndarray of int of shape (n_nodes,) or None
        Table of the edge between each node of a chain and the node before it. None if the examples
        have their own types of edges.
    n_labels : int
        Number of labels. The label of a state is the remainder of its code by this number.
    """

    nodes: np.ndarray
    tables: np.ndarray
    kinds: np.ndarray | None
    n_labels: int


class LabelGraphEnergy(Energy):
    """Energy of the labels of nodes of graphs, given features of nodes and edges.

    The rows ``X`` of a batch are examples, :class:`~skmrf._utils.label_graphs.LabelGraphs`. A state
    of a node is its label, or its label and that of the node before it. ``gradient`` receives
    ``GraphMoments``.
    """

    @property
    @abstractmethod
    def n_labels(self):
        """Number of labels."""

    @property
    def is_second_order(self):
        """True if a state of a node is its label and the label of the node before it."""
        return False

    @abstractmethod
    def potentials(self, graphs):
        """Return the log-potentials of nodes and edges.

        Parameters
        ----------
        graphs : LabelGraphs
            Examples.

        Returns
        -------
        LabelPotentials
            Log-potentials in nats.
        """

    @abstractmethod
    def states_of(self, graphs):
        """Return the state of each node, given the labels of all nodes.

        Parameters
        ----------
        graphs : LabelGraphs
            Examples without missing labels.

        Returns
        -------
        ndarray of int of shape (n_nodes,)
            Codes of states, which are indices of the potentials.
        """

    @abstractmethod
    def count_edges(self, graphs, states, weights):
        """Return the weighted counts of the pairs of states of edges.

        Parameters
        ----------
        graphs : LabelGraphs
            Examples.
        states : ndarray of int of shape (n_nodes,)
            State of each node.
        weights : ndarray of shape (n_examples,)
            Weight of each example.

        Returns
        -------
        ndarray of shape (n_tables, n_states, n_states)
            Sum of the weights of the edges that have a pair of states, by type of edge.
        """

    @abstractmethod
    def statistics(self, moments, graphs):
        """Return the expected sufficient statistics of moments of nodes and edges.

        Parameters
        ----------
        moments : GraphMoments
            Weighted probabilities of states of nodes and edges, or their differences.
        graphs : LabelGraphs
            Examples.

        Returns
        -------
        dict of str to ndarray
            Statistics, shaped like ``theta``.
        """

    @abstractmethod
    def conditional_scores(self, graphs):
        """Return the log-potential of each label of each node, given the labels of all other nodes.

        Parameters
        ----------
        graphs : LabelGraphs
            Examples without missing labels.

        Returns
        -------
        ndarray of shape (n_nodes, n_labels)
            Log-potentials in nats, up to a constant for each node.
        """

    @abstractmethod
    def conditional_statistics(self, residuals, graphs):
        """Return the gradient of a function of the conditional scores.

        Parameters
        ----------
        residuals : ndarray of shape (n_nodes, n_labels)
            Derivatives by the conditional scores.
        graphs : LabelGraphs
            Examples without missing labels.

        Returns
        -------
        dict of str to ndarray
            Derivatives by the parameters, shaped like ``theta``.
        """

    def restrict(self, graphs):
        """Return the part of the model that some examples use, and these examples.

        By default, it is the whole model.

        Parameters
        ----------
        graphs : LabelGraphs
            Examples.

        Returns
        -------
        energy : LabelGraphEnergy
            Model of the features that are not zero.
        graphs : LabelGraphs
            Examples with these features, and with the types of their own edges.
        index : slice or ndarray of int
            Entries of the array ``theta["coef"]`` that this model has. All other arrays of
            ``theta`` are complete.
        """
        return self, graphs, slice(None)
