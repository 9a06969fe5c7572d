"""Protocols: interfaces of the methods that only some energies have.

Each protocol is an abstract class. An energy implements a protocol by deriving from it. A learner
or an inference function declares the protocols that it requires, and checks them with
``isinstance``.

=================================  ===============================================================
protocol                           addition to :class:`~skmrf.energies.Energy`
=================================  ===============================================================
:class:`FactorGraphConvertible`    conversion to a factor graph of tables
:class:`GibbsEnergy`               visible variables that Gibbs sampling can draw
:class:`DiscreteEnergy`            finitely many joint states: moments, exact sums, conditioning
:class:`BinaryPairwiseEnergy`      variables with two states, a coupling matrix and biases
:class:`ContinuousEnergy`          continuous variables with a Gaussian base
:class:`TableBackedEnergy`         tables of log-potentials, one per clique
:class:`TableEnergy`               the parameters are the entries of these tables
:class:`HiddenLayerEnergy`         two-state variables and a layer of two-state hidden units
:class:`LayeredEnergy`             a visible and a hidden layer of two-state units
:class:`ConditionalLayeredEnergy`  two layers of two-state units given inputs
:class:`LabelGraphEnergy`          labels of the nodes of graphs given features
=================================  ===============================================================

The first five protocols are in this module. The two protocols of tables are in
``skmrf.energies.table_backed``. The last four are in ``skmrf.energies.structured_protocols``.
"""

from abc import abstractmethod
from functools import cached_property

import numpy as np

from .._utils.namespaces import is_numpy, namespace, sigmoid, without_diagonal
from .._utils.phases import States
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

    The data hold the *visible* variables: the targets ``Y`` of a batch, or its rows ``X`` if it has
    no targets. All other variables are latent. Chains and particles are states of the visible
    variables; the latent variables are summed out.

    The method ``at(batch)`` returns a :class:`DiscreteEnergy`. A conditional energy returns a
    ``LayeredEnergy``, whose biases have one row for each row of the batch. The phases that
    ``gradient`` of a conditional energy receives are ``States``, with one row for each row of the
    batch.
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
    The sufficient statistic of a parameter is the derivative of ``log f`` by this parameter. An
    energy with latent variables derives from ``HiddenLayerEnergy``.

    Attributes
    ----------
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.
    """

    n_states: np.ndarray

    def __getstate__(self):
        """Return the attributes without cached properties, for pickling."""
        return {
            k: v
            for k, v in vars(self).items()
            if not isinstance(getattr(type(self), k, None), cached_property)
        }

    @abstractmethod
    def moments(self, phase):
        """Return the expected sufficient statistics of a phase (data or model).

        Parameters
        ----------
        phase : States or CliqueMoments
            Weighted states: ``phase.visible`` of shape (n_rows, n_visible) and ``phase.weights`` of
            shape (n_rows,), which sum to one. Or expected statistics ``phase.moments``, which are
            returned as they are.

        Returns
        -------
        dict of str to ndarray
            Expected sufficient statistics, shaped like ``theta``.
        """

    def row_moments(self, X, log_weights=None):
        """Return the means of the sufficient statistics of many rows.

        Parameters
        ----------
        X : ndarray of int of shape (n_rows, n_visible)
            Complete rows of state codes.
        log_weights : ndarray of shape (n_rows,), optional
            Logarithms of the row weights. By default all weights are 1.

        Returns
        -------
        dict of str to ndarray
            Means, shaped like ``theta``.
        """
        return self.moments(States(X, None, log_weights))

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
        """Cost of a Gibbs sweep of one chain; the unit is one draw of a variable."""
        return float(self.n_variables)

    def conditionals(self):
        """Return the arrays from which Gibbs sampling computes ``p(x_i | rest)``.

        Returns
        -------
        conditionals
            Arrays for one of the kernels, of one of the types in ``skmrf.energies.conditionals``.
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
        """Return the gradient of the log-likelihood from the data and the model expectations."""
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
        """Return a function of beta: the log marginals under ``interpolate(other, beta)``.

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
    r"""Energy of variables with two states that interact in pairs.

    .. math:: \log f(s) = \sum_{i<j} J_{ij} s_i s_j + \sum_i b_i s_i

    with the :attr:`coupling` J and the :attr:`bias` b, which are arrays of floats. They are linear
    functions of ``theta``, and may have more entries.

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

    @abstractmethod
    def from_pair_moments(self, pairs, means):
        """Convert expectations of the variables and of their products to expected statistics.

        Parameters
        ----------
        pairs : ndarray of shape (n_variables, n_variables)
            Expected product :math:`E[s_i s_j]` of each pair of variables. It is symmetric, with a
            zero diagonal.
        means : ndarray of shape (n_variables,)
            Expected variables :math:`E[s_i]`.

        Returns
        -------
        dict of str to ndarray
            Expected sufficient statistics, shaped like ``theta``.
        """

    def conditional_moments(self, X):
        """Estimate the expected statistics from samples and their conditional expectations.

        The product of two variables is replaced by the mean of its expectations given all variables
        but one of the two, and a variable by the mean of its value and of its expectation.

        Parameters
        ----------
        X : array of shape (n_rows, n_variables)
            State codes of samples of the model.

        Returns
        -------
        dict of str to ndarray
            Estimates, shaped like ``theta``.
        """
        coupling, bias, _ = self.conditionals()
        low, high = self.states
        X = X.astype(coupling.dtype)
        states, means = (low + (high - low) * p for p in (X, sigmoid(X @ coupling + bias)))
        joint = states.T @ means / len(X)
        pairs = without_diagonal(0.5 * (joint + joint.T))
        return self.from_pair_moments(pairs, 0.5 * (states + means).mean(axis=0))


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
    """Raise a TypeError unless ``energy`` is a ``protocol`` with parameters of numpy."""
    if not isinstance(energy, protocol):
        raise TypeError(
            "energy must be an energy of discrete variables, such as energy_ of a DiscreteMRF; got "
            f"{type(energy).__name__}."
        )
    for name, values in energy.theta.items():
        if not is_numpy(values):
            raise TypeError(
                f"The parameter {name!r} of {type(energy).__name__} must be an array of numpy; got "
                f"an array of {namespace(values).__name__}. Convert it with numpy.asarray."
            )


def factor_graph_of(energy):
    """Return the factor graph of an energy, or raise a TypeError if it has none."""
    check_energy(energy, FactorGraphConvertible)
    return energy.factor_graph()


def visible_graph_of(energy):
    """Return the factor graph of an energy without hidden units, or raise an error."""
    graph = factor_graph_of(energy)
    if energy.has_latent:
        raise ValueError(
            f"The {type(energy).__name__} has hidden units, but the variables must be columns of "
            "data. Use the functions of skmrf.inference for this model."
        )
    return graph
