"""Energy of coupled visible variables and a layer of hidden units (semi-restricted machine)."""

from functools import cached_property
from typing import ClassVar

import numpy as np

from .._utils.codes import check_evidence, check_states
from .._utils.namespaces import namespace
from .._utils.phases import States
from .._utils.rows import dense_rows, float_type
from .bipartite import BipartiteEnergy
from .conditionals import CoupledLayerConditionals
from .factor_graph import FactorGraph
from .pairwise import PairwiseEnergy, pair_statistics
from .structured_protocols import HiddenLayerEnergy


class SemiRestrictedEnergy(HiddenLayerEnergy):
    r"""Energy of coupled two-state variables and a layer of hidden units.

    .. math:: \log f(s, h) = \sum_{i<j} J_{ij} s_i s_j + \sum_i b_i s_i
        + \sum_{ij} s_i W_{ij} h_j + \sum_j c_j h_j

    The visible variables :math:`s_i` have the two values in ``states``, and the hidden units
    :math:`h_j` are 0 or 1. The visible variables come first, then the hidden units. The hidden
    units are latent and not coupled to each other. The log of the sum over them is

    .. math:: \log \sum_h f(s, h) = \sum_{i<j} J_{ij} s_i s_j + \sum_i b_i s_i
        + \sum_j \log(1 + e^{c_j + (s^\top W)_j}).

    Like all energies, it takes and returns state *codes* 0 and 1.

    Parameters
    ----------
    coupling : array-like of shape (n_visible, n_visible) or None
        Couplings :math:`J` between visible variables, symmetric with a zero diagonal. If the
        couplings and the weights are float32, so are all parameters, otherwise these are float64.
        None means that the couplings are zero and no parameters; the visible variables are then
        drawn as a layer.
    weights : array-like of shape (n_visible, n_hidden)
        Weights :math:`W` between visible variables and hidden units.
    visible_bias : array-like of shape (n_visible,)
        Biases :math:`b` of the visible variables.
    hidden_bias : array-like of shape (n_hidden,)
        Biases :math:`c` of the hidden units.
    states : pair of float, default=(0, 1)
        Values of the visible states with the codes 0 and 1, in increasing order.

    Attributes
    ----------
    theta : dict of str to ndarray
        ``{"coupling": ndarray, "weights": ndarray, "visible_bias": ndarray,
        "hidden_bias": ndarray}``, without ``"coupling"`` if it is None.
    states : tuple of float
        Values of the visible states with the codes 0 and 1.
    n_states : ndarray of shape (n_visible + n_hidden,)
        Number of states of each variable (2).

    References
    ----------
    S. Osindero, G. E. Hinton, "Modeling image patches with a directed hierarchy of Markov random
    fields", NIPS (2007): semi-restricted Boltzmann machines.

    Examples
    --------
    >>> from skmrf.energies import SemiRestrictedEnergy
    >>> energy = SemiRestrictedEnergy([[0, 1], [1, 0]], [[0.5], [-0.5]], [0.0, 0.0], [0.2])
    >>> energy.log_potential([[1, 1, 1]])
    array([1.2])
    >>> energy.log_marginal([[1, 1]]).round(4)
    array([1.7981])
    """

    multiplicity: ClassVar = {"coupling": 2}

    def __init__(self, coupling, weights, visible_bias, hidden_bias, states=(0, 1)):
        dtype = float_type(weights)
        if coupling is not None:
            dtype = np.result_type(float_type(coupling), dtype)
        weights, visible_bias, hidden_bias = (
            np.asarray(a, dtype=dtype) for a in (weights, visible_bias, hidden_bias)
        )
        theta = BipartiteEnergy(weights, visible_bias, hidden_bias).theta
        no_coupling = np.zeros((len(visible_bias), len(visible_bias)), dtype=dtype)
        given = no_coupling if coupling is None else np.asarray(coupling, dtype=dtype)
        pairs = PairwiseEnergy(given, visible_bias, states)
        if coupling is not None:
            theta = {"coupling": pairs.coupling, **theta}
        self._set(pairs, theta)

    def _set(self, pairs, theta):
        """Set the parameters; ``pairs`` has the states, and the couplings if they are fixed."""
        bias = theta["visible_bias"]
        self.theta, self.states = theta, pairs.states
        coupling = theta.get("coupling", pairs.coupling.astype(bias.dtype, copy=False))
        self._pairs = pairs.with_theta({"coupling": coupling, "bias": bias})
        # The biases belong to the pairwise part, so that their terms are not counted twice.
        self._layers = BipartiteEnergy.from_theta(
            {
                "weights": theta["weights"],
                "visible_bias": namespace(bias).zeros_like(bias),
                "hidden_bias": theta["hidden_bias"],
            }
        )

    def __repr__(self):
        """Return a summary with the numbers of variables and the states."""
        n_visible, n_hidden = self.weights.shape
        return (
            f"SemiRestrictedEnergy(n_visible={n_visible}, n_hidden={n_hidden}, "
            f"states={self.states})"
        )

    @property
    def coupling(self):
        """Couplings J between visible variables, shape (n_visible, n_visible)."""
        return self._pairs.coupling

    @property
    def is_coupled(self):
        """True if the couplings between visible variables are parameters of the energy."""
        return "coupling" in self.theta

    @property
    def weights(self):
        """Weights W between visible and hidden units, shape (n_visible, n_hidden)."""
        return self.theta["weights"]

    @property
    def visible_bias(self):
        """Visible biases b, shape (n_visible,)."""
        return self.theta["visible_bias"]

    @property
    def hidden_bias(self):
        """Hidden biases c, shape (n_hidden,)."""
        return self.theta["hidden_bias"]

    @property
    def n_states(self):
        """Number of states of each variable (2), shape (n_visible + n_hidden,)."""
        return np.full(sum(self.weights.shape), 2)

    @property
    def sweep_work(self):
        """Cost of a Gibbs sweep of one chain; the unit is one draw of a variable."""
        n_visible, _ = self.weights.shape
        if not self.is_coupled:
            return self._layers.sweep_work
        # A tenth of the visible variables change in a sweep; a change costs 0.1 ns per variable.
        return self._layers.sweep_work + n_visible * (5.0 + 0.01 * n_visible) / 20

    def with_theta(self, theta):
        """Return the same energy with other parameters, which are neither checked nor copied."""
        energy = SemiRestrictedEnergy.__new__(SemiRestrictedEnergy)
        energy._set(self._pairs, theta)
        return energy

    def astype(self, dtype):
        """Return the same energy with parameters of another floating-point type.

        Parameters
        ----------
        dtype : dtype
            ``numpy.float32`` or ``numpy.float64``.

        Returns
        -------
        SemiRestrictedEnergy
            Energy whose parameters have the given type.
        """
        return self.with_theta({k: v.astype(dtype, copy=False) for k, v in self.theta.items()})

    def decode(self, V):
        """Replace state codes of visible variables by the values of the states.

        Parameters
        ----------
        V : array-like or sparse matrix of shape (n_rows, n_visible)
            Codes 0 and 1.

        Returns
        -------
        ndarray of shape (n_rows, n_visible)
            Values of the states, with the data type of the parameters.
        """
        low, high = self.states
        S = self._layers.dense(V)
        S = S * (high - low)
        S += low
        return S

    def hidden_means(self, V):
        """Return the probability ``p(h_j = 1 | v)`` of each hidden unit for each row.

        Parameters
        ----------
        V : array-like or sparse matrix of shape (n_rows, n_visible)
            Visible state codes.

        Returns
        -------
        ndarray of shape (n_rows, n_hidden)
            Probabilities that hidden units are 1.
        """
        return self._layers.hidden_means(self.decode(V))

    def log_potential(self, X):
        """Return ``log f(s, h)`` in nats of each row of visible and hidden state codes."""
        X = check_states(X, self.n_states)
        V, H = np.split(X, [self.weights.shape[0]], axis=1)
        S = self.decode(V)
        hidden = np.einsum("ij,ij->i", S @ self.weights + self.hidden_bias, H)
        return self._pairs.log_potential(V) + hidden

    def free_energy(self, V):
        """Return the free energy ``-log sum_h f(s, h)`` of each row of visible state codes.

        Parameters
        ----------
        V : array-like or sparse matrix of shape (n_rows, n_visible)
            Visible state codes.

        Returns
        -------
        ndarray of shape (n_rows,)
            Free energies in nats.
        """
        return self._layers.free_energy(self.decode(V)) - self._pairs.log_potential(dense_rows(V))

    def raised(self, V):
        """Return a function of the inverse temperature beta: the scaled log marginal of each row.

        The function returns ``log(sum_h f(s, h) ** beta) + (beta - 1) * log(m)`` of each row, where
        m is the number of joint states of the hidden units.
        """
        pairs, layers = self._pairs.log_potential(V), self._layers.raised(self.decode(V))
        return lambda beta: beta * pairs + layers(beta)

    def along(self, other, V):
        """Return a function of beta: the log marginals under ``interpolate(other, beta)``."""
        first, last = self._pairs.log_potential(V), other._pairs.log_potential(V)
        layers = self._layers.along(other._layers, self.decode(V))
        return lambda beta: (1 - beta) * first + beta * last + layers(beta)

    @cached_property
    def _conditionals(self):
        low, high = self.states
        step, weights = high - low, self.weights
        coupling, bias, constant = self._pairs.conditionals()
        hidden_bias = self.hidden_bias + (low * weights.sum(axis=0) if low else 0.0)
        dtype = weights.dtype
        arrays = coupling, step * weights, bias, hidden_bias
        return CoupledLayerConditionals(*(a.astype(dtype, copy=False) for a in arrays), constant)

    def conditionals(self):
        """Return couplings, weights and biases for Gibbs sampling of the codes 0 and 1."""
        return self._conditionals

    def moments(self, phase):
        """Return the expected sufficient statistics of a phase (data or model).

        The arrays have the names and shapes of ``theta``. Hidden units are averaged out given the
        visible variables, unless the phase contains their states.
        """
        if not isinstance(phase, States):
            return phase.moments
        S = self.decode(phase.visible)
        moments = self._layers.moments(States(S, phase.hidden, phase.log_weights))
        if not self.is_coupled:
            return moments
        pair = pair_statistics(S, self._layers.row_weights(phase))
        return {"coupling": pair, **moments}

    def from_table_moments(self, flat):
        """Convert clique marginals to expected sufficient statistics, shaped like ``theta``.

        Raises
        ------
        ValueError
            If a coupling or a weight is zero, because the factor graph has no pair table for it.
        """
        n_visible, n_hidden = self.weights.shape
        n_pairs = n_visible * (n_visible - 1) // 2 if self.is_coupled else 0
        parts = np.split(flat, np.cumsum([2 * n_visible, 2 * n_hidden, 4 * n_pairs]))
        visible, hidden, pairs, across = parts
        moments = {}
        if self.is_coupled:
            singles = np.concatenate([visible, pairs])
            moments["coupling"] = self._pairs.from_table_moments(singles)["coupling"]
        if not self.weights.all():
            raise ValueError(
                "Some weights are zero. The factor graph has no table for a zero weight, so its "
                "clique marginals do not give the expected statistic of this weight. Use "
                "skmrf.exact.expectations.exact_model(energy) with sparse=False."
            )
        both = across.reshape(-1, 2, 2)[:, :, 1] @ np.array(self.states)
        return moments | {
            "weights": both.reshape(n_visible, n_hidden),
            "visible_bias": visible.reshape(-1, 2) @ np.array(self.states),
            "hidden_bias": hidden[1::2],
        }

    def penalty_groups(self):
        """Return the penalty groups: each coupling, and the weights of each hidden unit.

        Biases have the group number -1 and are not penalised.
        """
        groups = self._layers.penalty_groups()
        if self.is_coupled:
            groups["coupling"] = self._pairs.penalty_groups()["coupling"]
        return groups

    def factor_graph(self):
        """Return the factor graph of the same distribution.

        Returns
        -------
        FactorGraph
            A unary table for each variable and a pair table for each non-zero coupling or weight.
        """
        n_visible, n_hidden = self.weights.shape
        pairs, states = self._pairs.factor_graph(), np.array(self.states)
        i, j = np.nonzero(self.weights)
        hidden = np.stack([np.zeros(n_hidden), self.hidden_bias], axis=1)
        across = np.zeros((len(i), 2, 2))
        across[:, :, 1] = np.multiply.outer(self.weights[i, j].astype(float), states)
        units = n_visible + np.arange(n_hidden)
        cliques = [*pairs.cliques[:n_visible], *((u,) for u in units.tolist())]
        cliques += pairs.cliques[n_visible:]
        cliques += zip(i.tolist(), units[j].tolist(), strict=True)
        single, double = np.split(pairs.flat, [2 * n_visible])
        flat = np.concatenate([single, hidden.ravel(), double, across.ravel()])
        return FactorGraph(self.n_states, cliques, flat)

    def condition(self, evidence):
        """Return the factor graph of the unobserved variables given evidence.

        Parameters
        ----------
        evidence : dict of int to int
            State code of each observed variable. Hidden units have the numbers ``n_visible`` and
            above.

        Returns
        -------
        FactorGraph
            Distribution of the other variables, in their order, up to normalisation.
        """
        return self.factor_graph().condition(check_evidence(evidence, self.n_states))
