"""States summed over, the rest of them averaged over draws."""

from typing import NamedTuple

import numpy as np

from .._utils.codes import STATE
from .._utils.log_weights import logsumexp
from .gibbs import Product, spawn_generators, sweep

ANNEAL = np.minimum(np.linspace(0.0, 1.25, 201), 1.0)


class KnownStates:
    r"""A set :math:`A` of states that is summed over, so that draws stand for the others only.

    .. math:: Z = \sum_{x \in A} f(x) + \mathbb{E}_q \, 1[x \notin A] \, \frac{f(x)}{q(x)}

    holds for any fixed :math:`A`; what the sum has adds no error.

    Parameters
    ----------
    X : ndarray of shape (n_states, n_variables), distinct rows of state codes
    """

    def __init__(self, X):
        self.X = np.asarray(X, dtype=STATE)  # as the draws have it: rows are told by their bytes
        self._bytes = {row.tobytes() for row in self.X}

    def weigh(self, graph, draws):
        """Weights of these states and of the draws among the others.

        Parameters
        ----------
        graph : FactorGraph
        draws : Draws

        Returns
        -------
        Weighted
        """
        outside = np.array([row.tobytes() not in self._bytes for row in draws.X], dtype=bool)
        log_f = graph.log_potential(self.X)
        log_weights = np.where(outside, graph.log_potential(draws.X) - draws.log_q, -np.inf)
        return Weighted(log_f, log_weights, np.repeat(log_weights, draws.counts))


class Weighted(NamedTuple):
    """Log weights.

    Attributes
    ----------
    known : ndarray of shape (n_states,)
        log f.
    draws : ndarray of shape (n_distinct,)
        log f - log q; -inf for a draw that is among the known states.
    every : ndarray of shape (n_samples,)
        The same, draw by draw.
    """

    known: np.ndarray
    draws: np.ndarray
    every: np.ndarray

    def estimates(self):
        """Log of an unbiased estimate of Z from each draw."""
        return np.logaddexp(logsumexp(self.known), self.every)

    def effective_size(self, log_q, log_z):
        """K / E_p[p / q]: known states summed over, the others averaged over the K draws.

        Parameters
        ----------
        log_q : ndarray of shape (n_states,)
            Log-probability with which the chain draws each known state.
        log_z : float
        """
        with np.errstate(divide="ignore", over="ignore"):
            known = np.exp(2.0 * (self.known - log_z) - log_q).sum()
            others = np.exp(2.0 * (self.every - log_z)).mean()
        return float(len(self.every) / (known + others))


def annealed_states(graph, n_chains, rng):
    """Distinct states of positive probability in which annealed Gibbs chains end.

    Parameters
    ----------
    graph : FactorGraph
    n_chains : int
    rng : Generator

    Returns
    -------
    ndarray of shape (n_states, n_variables)
        State codes; as many rows as different states were found.
    """
    X = Product.uniform(graph.n_states).sample(n_chains, rng)
    X, _ = sweep(graph, X, spawn_generators(rng, n_chains), betas=ANNEAL)
    X = np.unique(X, axis=0)
    return X[graph.log_potential(X) > -np.inf]
