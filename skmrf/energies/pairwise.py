"""Dense pairwise energy of two-state variables (Ising model, Boltzmann machine)."""

from functools import cached_property
from typing import ClassVar

import numpy as np

from .._utils.codes import check_evidence, check_states
from .._utils.log_weights import normalized_weights
from .._utils.namespaces import is_numpy, namespace, without_diagonal
from .._utils.parallel import gram_matrix
from .._utils.phases import States
from .._utils.rows import float_type, pair_frequencies
from .conditionals import BinaryConditionals
from .factor_graph import FactorGraph
from .layout import Layout
from .protocols import BinaryPairwiseEnergy


class PairwiseEnergy(BinaryPairwiseEnergy):
    r"""Pairwise energy of two-state variables.

    .. math:: \log f(s) = \sum_{i<j} J_{ij} s_i s_j + \sum_i b_i s_i

    where :math:`s_i` is one of the two ``states``. Like all energies, it takes and returns state
    *codes* 0 and 1; :meth:`decode` turns codes into states.

    Parameters
    ----------
    coupling : array-like of shape (n_variables, n_variables)
        Couplings :math:`J`, symmetric with a zero diagonal. If they are float32, so are all
        parameters and conditionals, otherwise these are float64. Sums over variables are always
        float64.
    bias : array-like of shape (n_variables,)
        Biases :math:`b`.
    states : pair of float, default=(-1, 1)
        Values of the states with the codes 0 and 1, in increasing order.

    Attributes
    ----------
    theta : dict of str to ndarray
        ``{"coupling": ndarray, "bias": ndarray}``.
    states : tuple of float
        Values of the states with the codes 0 and 1.
    n_states : ndarray of shape (n_variables,)
        Number of states of each variable (2).

    Examples
    --------
    >>> from skmrf.energies import PairwiseEnergy
    >>> energy = PairwiseEnergy([[0, 0.5], [0.5, 0]], [0.0, 0.0])
    >>> energy.log_potential([[1, 1], [0, 1]])
    array([ 0.5, -0.5])
    """

    multiplicity: ClassVar = {"coupling": 2}

    def __init__(self, coupling, bias, states=(-1, 1)):
        dtype = float_type(coupling)
        coupling = np.array(coupling, dtype=dtype)
        bias = np.array(bias, dtype=dtype)
        if bias.ndim != 1 or coupling.shape != (len(bias), len(bias)):
            raise ValueError(
                "coupling must have shape (n, n), and bias must have shape (n,); got "
                f"{coupling.shape} and {bias.shape}."
            )
        if not (np.isfinite(coupling).all() and np.isfinite(bias).all()):
            raise ValueError(
                "coupling and bias must be finite; for states of probability zero use a "
                "FactorGraph."
            )
        is_close = _is_nearly_symmetric(coupling)
        if not is_close.all():
            i, j = np.argwhere(~is_close)[0]
            raise ValueError(
                f"coupling must be symmetric, but coupling[{i}, {j}] is {coupling[i, j]} and "
                f"coupling[{j}, {i}] is {coupling[j, i]}; use (J + J.T) / 2."
            )
        coupling = (coupling + coupling.T) / 2 if (coupling != coupling.T).any() else coupling
        if np.diagonal(coupling).any():
            i = np.flatnonzero(np.diagonal(coupling))[0]
            raise ValueError(
                f"coupling must have a zero diagonal, but coupling[{i}, {i}] is {coupling[i, i]}; "
                "use bias for terms of single variables."
            )
        states = tuple(float(s) for s in states)
        if len(states) != 2 or not -np.inf < states[0] < states[1] < np.inf:
            raise ValueError(f"states must be two increasing finite numbers; got {states}.")
        largest = 2.0 * max(abs(s) for s in states)
        with np.errstate(over="ignore"):
            total = largest * np.abs(coupling).sum(dtype=float) + np.abs(bias).sum(dtype=float)
        if float(total) * largest > np.finfo(dtype).max:
            raise ValueError(
                "Sums of coupling and bias exceed the largest floating-point number "
                f"({np.finfo(dtype).max:.2g}). Use smaller parameters."
            )
        self.states = states
        self.n_states = np.full(len(bias), 2)
        self.theta = {"coupling": coupling, "bias": bias}

    def __repr__(self):
        """Return a summary with the number of variables and the states."""
        return f"PairwiseEnergy(n_variables={self.n_variables}, states={self.states})"

    @property
    def coupling(self):
        """Couplings J, shape (n_variables, n_variables)."""
        return self.theta["coupling"]

    @property
    def bias(self):
        """Biases b, shape (n_variables,)."""
        return self.theta["bias"]

    def with_theta(self, theta):
        """Return the same energy with other parameters, which are neither checked nor copied."""
        energy = PairwiseEnergy.__new__(PairwiseEnergy)
        energy.states, energy.n_states = self.states, self.n_states
        energy.theta = theta
        return energy

    def decode(self, X):
        """Replace state codes by the values of the states.

        Parameters
        ----------
        X : array-like
            Codes 0 and 1.

        Returns
        -------
        ndarray
            Values of the states, with the shape of ``X``.
        """
        low, high = self.states
        X = np.asarray(X) if is_numpy(X) else X
        return namespace(X).where(X == 0, low, high)

    def from_pair_moments(self, pairs, means):
        """Return the expectations of products and of variables in a dict like ``theta``."""
        return {"coupling": pairs, "bias": means}

    @cached_property
    def _binary(self):
        """Return couplings, biases and constant of the same model with the codes 0 and 1."""
        low, high = self.states
        step = high - low
        if low == 0.0:  # a GPU would compute the sums below
            return BinaryConditionals(step**2 * self.coupling, step * self.bias, 0.0)
        coupling_sums = self.coupling.sum(axis=1)
        constant = 0.5 * low**2 * coupling_sums.sum() + low * self.bias.sum()
        constant = constant.item() if isinstance(constant, np.generic) else constant
        return BinaryConditionals(
            step**2 * self.coupling, step * (self.bias + low * coupling_sums), constant
        )

    def conditionals(self):
        """Return couplings, biases and constant for Gibbs sampling of the codes 0 and 1."""
        return self._binary

    def log_potential(self, X):
        """Return ``log f`` in nats of each row of state codes."""
        if not is_numpy(X):
            S = self.decode(X)
            return (S * (0.5 * (S @ self.coupling) + self.bias)).sum(axis=1)
        S = self.decode(check_states(X, self.n_states))
        return np.einsum("ij,ij->i", S, 0.5 * (S @ self.coupling) + self.bias)

    def moments(self, phase):
        """Return the expected sufficient statistics of a phase (data or model).

        The arrays have the names and shapes of ``theta``.
        """
        if not isinstance(phase, States):
            return phase.moments
        S = self.decode(phase.visible)
        weights = normalized_weights(phase.log_weights, len(S))
        pair = pair_statistics(S, weights)
        dtype = self.coupling.dtype
        return {"coupling": pair.astype(dtype, copy=False), "bias": (weights @ S).astype(dtype)}

    def row_moments(self, X, log_weights=None):
        """Return the means of the sufficient statistics of many rows, in a dict like ``theta``.

        The rows may be in a file or on a device of JAX. Only blocks of them are copied.
        """
        low, high = self.states
        step, joint = high - low, pair_frequencies(X, log_weights)
        means = joint.diagonal()
        pairs = low**2 + low * step * np.add.outer(means, means) + step**2 * joint
        moments = self.from_pair_moments(without_diagonal(pairs), low + step * means)
        return {k: v.astype(self.coupling.dtype) for k, v in moments.items()}

    def from_table_moments(self, flat):
        """Convert clique marginals to expected sufficient statistics, shaped like ``theta``.

        Raises
        ------
        ValueError
            If a coupling is zero, because the factor graph has no pair table for it.
        """
        n = self.n_variables
        i, j = np.nonzero(np.triu(self.coupling, 1))
        if len(i) < n * (n - 1) // 2:
            raise ValueError(
                "Some couplings are zero. The factor graph has no table for a zero coupling, so "
                "its clique marginals do not give the expected statistic of this coupling. Use "
                "skmrf.exact.expectations.exact_model(energy) with sparse=False."
            )
        states = np.array(self.states)
        pair = np.zeros((n, n))
        pair[i, j] = flat[2 * n :].reshape(-1, 4) @ np.multiply.outer(states, states).ravel()
        return self.from_pair_moments(pair + pair.T, flat[: 2 * n].reshape(-1, 2) @ states)

    def mean_log_potential(self, moments):
        """Return ``E[log f]`` in nats, computed from expected sufficient statistics."""
        pairs = 0.5 * np.vdot(self.coupling, moments["coupling"])
        return float(pairs + self.bias @ moments["bias"])

    def penalty_groups(self):
        """Return the penalty groups: each pair of variables is one group.

        Biases have the group number -1 and are not penalised.
        """
        n = self.n_variables
        low, high = (
            np.minimum.outer(np.arange(n), np.arange(n)),
            np.maximum.outer(np.arange(n), np.arange(n)),
        )
        groups = low * n + high
        np.fill_diagonal(groups, -1)
        return {"coupling": groups, "bias": np.full(n, -1)}

    def factor_graph(self):
        """Return the factor graph of the same distribution.

        Returns
        -------
        FactorGraph
            A unary table for each variable and a pair table for each non-zero coupling.
        """
        n, states = self.n_variables, np.array(self.states)
        i, j = np.nonzero(np.triu(self.coupling, 1))
        variables = np.concatenate([np.arange(n), np.column_stack([i, j]).ravel()])
        starts = np.concatenate([np.arange(n), n + 2 * np.arange(len(i) + 1)])
        layout = Layout.build(self.n_states, (starts, variables))
        outer = np.multiply.outer(states, states)
        tables = (self.bias, states), (self.coupling[i, j], outer)
        flat = np.concatenate([np.multiply.outer(*pair).ravel() for pair in tables])
        return FactorGraph.from_layout(layout, flat.astype(float, copy=False))

    def condition(self, evidence):
        """Return the factor graph of the unobserved variables given evidence.

        Parameters
        ----------
        evidence : dict of int to int
            State code of each observed variable.

        Returns
        -------
        FactorGraph
            Energy of the unobserved variables, in their order. It includes the constant that
            depends on the evidence only.
        """
        return self.factor_graph().condition(check_evidence(evidence, self.n_states))


def pair_statistics(S, weights):
    """Return the weighted sum over rows of ``s_i s_j``, with a zero diagonal.

    Parameters
    ----------
    S : ndarray of shape (n_rows, n_variables)
        Values of the variables.
    weights : ndarray of shape (n_rows,)
        Weights of the rows, of any sign.

    Returns
    -------
    ndarray of shape (n_variables, n_variables)
        Symmetric up to rounding.
    """
    return without_diagonal(gram_matrix((S, weights)))


def _is_nearly_symmetric(coupling):
    """Return where a matrix is symmetric up to rounding errors of its largest entries."""
    tol = max(1e-12, 4 * np.finfo(coupling.dtype).eps) * np.abs(coupling).max(initial=0.0)
    return np.abs(coupling - coupling.T) <= tol
