"""Protocols: interfaces of the methods that only some energies have.

Each protocol is an abstract class. An energy implements a protocol by deriving from it. A learner
or an inference function declares the protocols that it requires, and checks them with
``isinstance``.

==================================  ==============================================================
protocol                            addition to :class:`~skmrf.energies.Energy`
==================================  ==============================================================
:class:`FactorGraphConvertible`     conversion to a factor graph of tables
:class:`GibbsEnergy`                visible variables that Gibbs sampling can draw
:class:`DiscreteEnergy`             finitely many joint states: moments, exact sums, conditioning
:class:`TableEnergy`                one flat vector of tables of log-potentials
:class:`BinaryPairwiseEnergy`       variables with two states, a coupling matrix and biases
:class:`LayeredEnergy`              a visible and a hidden layer of two-state units
:class:`ConditionalLayeredEnergy`   two layers of two-state units given inputs
:class:`ContinuousEnergy`           continuous variables with a Gaussian base
==================================  ==============================================================

:class:`TableEnergy` is in ``skmrf.energies.table_backed``, the other protocols are in this module.
"""

from abc import abstractmethod

import numpy as np

from .._utils.codes import STATE
from .._utils.namespaces import is_numpy
from .base import Energy


class FactorGraphConvertible(Energy):
    """Energy that can be written as a factor graph of tables."""

    @abstractmethod
    def factor_graph(self):
        """Return the factor graph of the same distribution.

        Returns
        -------
        FactorGraph
            Tables of log-potentials whose sum is ``log f``.

        Raises
        ------
        ValueError
            If a variable is continuous.
        """


class GibbsEnergy(Energy):
    """Energy whose visible variables can be drawn by Gibbs sampling.

    The data hold the *visible* variables. All other variables are latent. Chains and particles are
    states of the visible variables; the latent variables are summed out.

    The method ``at(batch)`` returns a :class:`DiscreteEnergy`.
    """

    @property
    @abstractmethod
    def visible_states(self):
        """Number of states of each visible variable, ndarray of shape (n_visible,)."""

    @property
    @abstractmethod
    def has_latent(self):
        """True if the model has latent variables."""


class DiscreteEnergy(FactorGraphConvertible, GibbsEnergy):
    """Energy of variables with finitely many states.

    The states of variable i are the codes ``0 .. n_states[i] - 1``. A row of states has one column
    per variable, the visible variables first. ``log f`` is linear in ``theta`` (an exponential
    family), so the geometric path between two parameter settings is a straight line in ``theta``.

    Attributes
    ----------
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.
    """

    n_states: np.ndarray

    @abstractmethod
    def moments(self, phase):
        """Return the expected sufficient statistics of a phase (data or model).

        Parameters
        ----------
        phase : States or CliqueMoments
            Weighted states or expected statistics.

        Returns
        -------
        dict of str to ndarray
            Expected sufficient statistics, shaped like ``theta``.
        """

    @abstractmethod
    def from_table_moments(self, flat):
        """Convert clique marginals to expected sufficient statistics.

        Parameters
        ----------
        flat : ndarray of shape (n_parameters,)
            Marginals of the cliques of ``factor_graph()``, in the order of its ``flat``.

        Returns
        -------
        dict of str to ndarray
            Expected sufficient statistics, shaped like ``theta``.
        """

    @property
    def n_variables(self):
        """Number of variables."""
        return len(self.n_states)

    @property
    def visible_states(self):
        """Number of states of each visible variable, ndarray of shape (n_visible,)."""
        return self.n_states

    @property
    def has_latent(self):
        """True if the model has latent variables."""
        return len(self.visible_states) < len(self.n_states)

    @property
    def sweep_work(self):
        """Cost of a Gibbs sweep of one chain; the unit is one draw of a variable (about 20 ns)."""
        return float(self.n_variables)

    def conditionals(self):
        """Return the arrays from which Gibbs sampling computes ``p(x_i | rest)``.

        Returns
        -------
        TableConditionals, BinaryConditionals, BipartiteConditionals or CoupledLayerConditionals
            Arrays for one of the kernels; ``skmrf.energies.conditionals`` defines the types.
        """
        return self.factor_graph().conditionals()

    def condition(self, evidence):
        """Return the energy of the unobserved variables given evidence.

        Parameters
        ----------
        evidence : dict of int to int
            State code of each observed variable.

        Returns
        -------
        FactorGraph
            Energy of the unobserved variables, in their order.
        """
        return self.factor_graph().condition(evidence)

    def gradient(self, positive, negative, batch=None):
        """Return the gradient: the data expectation of the statistics minus the model's."""
        up, down = self.moments(positive), self.moments(negative)
        return {name: up[name] - down[name] for name in up}

    def log_marginal(self, V):
        """Return the log of the sum of ``f`` over the latent variables, for each row.

        Parameters
        ----------
        V : array-like of shape (n_rows, n_visible)
            Visible states.

        Returns
        -------
        ndarray of shape (n_rows,)
            Unnormalised log-probabilities of the visible states, in nats.
        """
        return self.log_potential(V)

    def along(self, other, V):
        """Return a function that maps beta to log marginals of ``interpolate(other, beta)``.

        Terms that do not depend on beta are computed only once.

        Parameters
        ----------
        other : DiscreteEnergy
            Energy at ``beta = 1``; this energy is at ``beta = 0``.
        V : array-like of shape (n_rows, n_visible)
            Visible states.

        Returns
        -------
        callable
            Function from a float beta to an ndarray of shape (n_rows,), in nats.
        """
        first, last = self.log_marginal(V), other.log_marginal(V)

        def at(beta):
            if is_numpy(beta) and beta in (0, 1):  # 0 * -inf would be nan
                return last if beta else first
            return (1 - beta) * first + beta * last

        return at

    def mean_log_potential(self, moments):
        """Return the expected log-potential ``E[log f]``.

        States of probability zero contribute nothing, even if their log-potential is ``-inf``.

        Parameters
        ----------
        moments : dict of str to ndarray
            Expected sufficient statistics, shaped like ``theta``.

        Returns
        -------
        float
            Expected log-potential in nats.
        """
        value = 0.0
        for name, theta in self.theta.items():
            is_possible = moments[name] != 0
            total = float(theta[is_possible] @ moments[name][is_possible])
            value += total / self.multiplicity.get(name, 1)
        return value


class BinaryPairwiseEnergy(DiscreteEnergy):
    """Energy of variables with two states that interact in pairs.

    Attributes
    ----------
    states : tuple of float
        Values of the states with the codes 0 and 1.
    """

    states: tuple[float, float]

    @property
    @abstractmethod
    def coupling(self):
        """Symmetric couplings with a zero diagonal, ndarray of shape (n_variables, n_variables)."""

    @property
    @abstractmethod
    def bias(self):
        """Biases, ndarray of shape (n_variables,)."""


class HiddenLayerEnergy(DiscreteEnergy):
    """Energy with a layer of two-state hidden units, independent given the visible variables."""

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

    @abstractmethod
    def raised(self, V):
        r"""Return a function of beta: the scaled log sum over hidden states of ``f ** beta``.

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


class LayeredEnergy(HiddenLayerEnergy):
    """Energy of a visible and a hidden layer of two-state units; no coupling within a layer."""

    @property
    @abstractmethod
    def visible_bias(self):
        """Visible biases, shape (n_visible,), or (n_rows, n_visible) if they differ by row."""

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
    The rows of ``log_potential(X)`` hold inputs, then visible states, then hidden states.
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


class ContinuousEnergy(FactorGraphConvertible):
    """Energy of continuous and discrete variables that interact along the edges of a graph.

    ``log f`` is the sum of a function of each variable, a function of each edge, and a quadratic
    term: the Gaussian base of the continuous variables.

    Attributes
    ----------
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable; 0 for a continuous variable.
    edges : ndarray of int of shape (n_edges, 2)
        Pairs of different variables.
    mean : ndarray of shape (n_continuous,)
        Mean of the Gaussian base.
    precision : ndarray of shape (n_continuous, n_continuous)
        Precision matrix of the Gaussian base.
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
        """Number of network inputs per variable: the largest number of states, and at least 1."""
        return int(max(self.n_states.max(initial=1), 1))

    @property
    @abstractmethod
    def numbers(self):
        """Indices of the continuous variables, ndarray of shape (n_continuous,)."""

    @property
    @abstractmethod
    def covariance(self):
        """Covariance matrix of the Gaussian base, shape (n_continuous, n_continuous)."""

    @property
    def degrees(self):
        """Number of edges of each variable, ndarray of shape (n_variables,)."""
        return np.bincount(self.edges.ravel(), minlength=self.n_variables)

    @abstractmethod
    def clique_values(self, points):
        """Return the log-potential of each variable and of each edge at given points.

        Parameters
        ----------
        points : CliquePoints
            Points of each variable and of each edge.

        Returns
        -------
        nodes : ndarray of shape (n_variables, n_node_points)
            Values of the functions of variables, in nats.
        edges : ndarray of shape (n_edges, n_edge_points)
            Values of the functions of edges, in nats. Neither array contains the quadratic term.
        """


def check_energy(energy, protocol=DiscreteEnergy):
    """Raise a TypeError unless ``energy`` is an instance of ``protocol``."""
    if not isinstance(energy, protocol):
        raise TypeError(
            "energy must be an energy of discrete variables, such as energy_ of a DiscreteMRF; got "
            f"{type(energy).__name__}."
        )


def factor_graph_of(energy):
    """Return the factor graph of an energy, or raise a TypeError if it has none."""
    check_energy(energy, FactorGraphConvertible)
    return energy.factor_graph()
