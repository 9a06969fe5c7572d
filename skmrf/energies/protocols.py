"""Protocols: what only some energies can do.

Each protocol is an abstract class. An energy keeps a protocol by deriving from it. A learner or an
inference function names the protocols that it needs, and finds them by ``isinstance``.

==================================  ==============================================================
protocol                            what it adds to :class:`~skmrf.energies.Energy`
==================================  ==============================================================
:class:`FactorGraphConvertible`     the same distribution as a factor graph of tables
:class:`GibbsEnergy`                visible variables that can be drawn given the others
:class:`DiscreteEnergy`             finitely many joint states: moments, exact sums, conditioning
:class:`TableEnergy`                one flat vector of tables of log-potentials
:class:`BinaryPairwiseEnergy`       two states a variable, a coupling matrix and biases
:class:`LayeredEnergy`              a visible and a hidden layer of two-state units
:class:`ConditionalLayeredEnergy`   two layers of two-state units given inputs
:class:`LabelEnergy`                one class label given a row
:class:`ContinuousEnergy`           continuous variables on a Gaussian base
==================================  ==============================================================
"""

from abc import abstractmethod

import numpy as np

from .base import Energy
from .layout import Layout


class FactorGraphConvertible(Energy):
    """Energy that can be written as a factor graph of tables."""

    @abstractmethod
    def factor_graph(self):
        """Return the same distribution as a :class:`~skmrf.energies.FactorGraph`.

        Raises
        ------
        ValueError
            A variable without finitely many states.
        """


class GibbsEnergy(Energy):
    """Energy whose visible variables can be drawn given the others.

    Data show the *visible* variables; the others, if any, are latent. Chains and particles are
    states of the visible variables, with the latent ones summed out.

    ``at(batch)`` returns a :class:`DiscreteEnergy`.
    """

    @property
    @abstractmethod
    def visible_states(self):
        """Number of states of every visible variable, ndarray of shape (n_visible,)."""

    @property
    @abstractmethod
    def has_latent(self):
        """Whether there are variables that the data do not show."""


class DiscreteEnergy(FactorGraphConvertible, GibbsEnergy):
    """Energy of variables with finitely many states.

    States are codes ``0 .. n_states[i] - 1``, one column a variable, the visible variables first.
    ``log f`` is linear in ``theta`` (an exponential family), so the geometric path between two
    parameter settings is a straight line in ``theta``.

    Attributes
    ----------
    n_states : ndarray of shape (n_variables,)
        Number of states of every variable.
    """

    n_states: np.ndarray

    @abstractmethod
    def moments(self, phase):
        """Return the expected statistics under a phase, arrays shaped like ``theta``."""

    @abstractmethod
    def from_table_moments(self, flat):
        """Return the expected statistics, shaped like ``theta``, from clique marginals.

        Parameters
        ----------
        flat : ndarray of shape (n_parameters,)
            Marginals of the cliques of ``factor_graph()``, laid out like its ``flat``.
        """

    @property
    def n_variables(self):
        """Number of variables."""
        return len(self.n_states)

    @property
    def visible_states(self):
        """Number of states of every visible variable."""
        return self.n_states

    @property
    def has_latent(self):
        """Whether there are variables that the data do not show."""
        return len(self.visible_states) < len(self.n_states)

    @property
    def sweep_work(self):
        """Work of a Gibbs sweep of one chain, in draws of one variable (about 20 ns)."""
        return float(self.n_variables)

    def conditionals(self):
        """Return what a Gibbs kernel needs to know of ``p(x_i | rest)``, as arrays.

        Returns
        -------
        TableConditionals, BinaryConditionals or BipartiteConditionals
            See ``skmrf.energies.conditionals``.
        """
        return self.factor_graph().conditionals()

    def condition(self, evidence):
        """Return the energy of the other variables given ``{variable: state code}``."""
        return self.factor_graph().condition(evidence)

    def gradient(self, positive, negative, batch=None):
        up, down = self.moments(positive), self.moments(negative)
        return {name: up[name] - down[name] for name in up}

    def log_marginal(self, V):
        """Return the log of ``f`` summed over the latent variables, of rows of visible states."""
        return self.log_potential(V)

    def along(self, other, V):
        """Return :meth:`log_marginal` of ``interpolate(other, beta)`` as a function of beta.

        What does not depend on beta is computed once.
        """
        first, last = self.log_marginal(V), other.log_marginal(V)

        def at(beta):
            if beta in (0, 1):  # the other end may be -inf
                return last if beta else first
            return (1 - beta) * first + beta * last

        return at

    def mean_log_potential(self, moments):
        """Return ``E[log f]`` in nats from expected statistics shaped like ``theta``.

        States of probability zero have no part in it, whatever their log-potential is.
        """
        value = 0.0
        for name, theta in self.theta.items():
            happens = moments[name] != 0
            total = float(theta[happens] @ moments[name][happens])
            value += total / self.multiplicity.get(name, 1)
        return value


class TableEnergy(DiscreteEnergy):
    """Energy whose parameters are tables of log-potentials in one flat vector.

    ``theta`` holds one array, ``flat``.

    Attributes
    ----------
    layout : Layout
        Where the table of each clique lies in ``flat``.
    """

    layout: Layout

    @property
    @abstractmethod
    def flat(self):
        """All log-potentials, ndarray of shape (n_parameters,)."""

    @abstractmethod
    def binary_gradient(self, coupling, bias):
        """Return the derivatives by ``flat`` from those by the couplings and biases of codes 0, 1.

        Parameters
        ----------
        coupling : ndarray of shape (n_variables, n_variables)
        bias : ndarray of shape (n_variables,)

        Returns
        -------
        ndarray of shape (n_parameters,)
        """

    def from_table_moments(self, flat):
        (name,) = self.theta
        return {name: flat}


class BinaryPairwiseEnergy(DiscreteEnergy):
    """Energy of variables with two states that interact in pairs.

    Attributes
    ----------
    states : tuple of float
        The values that the codes 0 and 1 stand for.
    """

    states: tuple[float, float]

    @property
    @abstractmethod
    def coupling(self):
        """Symmetric couplings with a zero diagonal, shape (n_variables, n_variables)."""

    @property
    @abstractmethod
    def bias(self):
        """Biases, shape (n_variables,)."""


class LayeredEnergy(DiscreteEnergy):
    """Energy of a visible and a hidden layer of two-state units, no two of a layer coupled."""

    @property
    @abstractmethod
    def weights(self):
        """Weights between the layers, shape (n_visible, n_hidden)."""

    @property
    @abstractmethod
    def visible_bias(self):
        """Biases of the visible units, shape (n_visible,), or a row for every row of states."""

    @property
    @abstractmethod
    def hidden_bias(self):
        """Biases of the hidden units, shape (n_hidden,), or a row for every row of states."""

    @abstractmethod
    def hidden_means(self, V):
        """Return ``p(h_j = 1 | v)`` of every row, shape (n_rows, n_hidden)."""

    @abstractmethod
    def visible_means(self, H):
        """Return ``p(v_i = 1 | h)`` of every row of hidden states, shape (n_rows, n_visible)."""

    @abstractmethod
    def free_energy(self, V):
        """Return ``-log sum_h f(v, h)`` of every row, shape (n_rows,), in nats."""

    @abstractmethod
    def raised(self, V):
        r"""Return the log of ``f ** beta`` summed over the m latent states, by ``m ** (1 - beta)``.

        A function of beta: 0 at beta = 0, ``log_marginal`` at 1.
        """

    @abstractmethod
    def complete(self, V, rng):
        """Return rows of both layers, the hidden units drawn given visible states."""


class ConditionalLayeredEnergy(GibbsEnergy):
    """Energy of a visible and a hidden layer of two-state units given inputs.

    The visible units are the targets ``Y`` of a batch, the inputs its rows ``X``. ``at(batch)`` is
    a :class:`LayeredEnergy` whose biases have one row for every row of the batch.
    ``log_potential(X)`` takes rows of inputs, followed by visible and hidden states.
    """

    @property
    @abstractmethod
    def weights(self):
        """Weights between the layers, shape (n_visible, n_hidden)."""

    @abstractmethod
    def fields(self, X):
        """Return the biases of both layers given inputs.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_rows, n_inputs)

        Returns
        -------
        visible : ndarray of shape (n_rows, n_visible)
        hidden : ndarray of shape (n_rows, n_hidden)
        """


class LabelEnergy(Energy):
    """Energy of one class label given a row.

    ``log_potential(X)`` takes rows whose last column is the label's code.
    """

    @property
    @abstractmethod
    def n_labels(self):
        """Number of labels."""

    @abstractmethod
    def log_proba(self, X):
        """Return ``log p(y | x)`` of every row and label, shape (n_rows, n_labels)."""


class ContinuousEnergy(FactorGraphConvertible):
    """Energy of continuous and discrete variables on the nodes and edges of a graph.

    ``log f`` is a sum of functions of variables and edges and of a quadratic term, the Gaussian
    base of the continuous variables.

    Attributes
    ----------
    n_states : ndarray of shape (n_variables,)
        Number of states of every variable; 0 marks a continuous variable.
    edges : ndarray of shape (n_edges, 2)
    mean : ndarray of shape (n_continuous,)
        Mean of the base.
    precision : ndarray of shape (n_continuous, n_continuous)
        Precision of the base.
    """

    n_states: np.ndarray
    edges: np.ndarray
    mean: np.ndarray
    precision: np.ndarray

    @property
    def n_variables(self):
        """Number of variables."""
        return len(self.n_states)

    @property
    def n_slots(self):
        """Input units of a variable: the largest number of states, at least 1."""
        return int(max(self.n_states.max(initial=1), 1))

    @property
    @abstractmethod
    def numbers(self):
        """Indices of the continuous variables."""

    @property
    @abstractmethod
    def covariance(self):
        """Covariance of the base, shape (n_continuous, n_continuous)."""

    @property
    def degrees(self):
        """Number of edges of every variable, ndarray of shape (n_variables,)."""
        return np.bincount(self.edges.ravel(), minlength=self.n_variables)

    @abstractmethod
    def clique_values(self, points):
        """Return the functions of variables and of edges at points of their own.

        Parameters
        ----------
        points : CliquePoints

        Returns
        -------
        nodes : ndarray of shape (n_variables, n_node_points)
        edges : ndarray of shape (n_edges, n_edge_points)
            Both without the quadratic term.
        """
