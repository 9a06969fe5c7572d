"""Importance sampling of Z in which a set of probable states is summed exactly."""

from typing import NamedTuple

import numpy as np

from .._utils.codes import STATE
from .._utils.log_weights import logsumexp
from .gibbs import annealed_states, spawn_generators, sweep

N_BOUND_CHAINS, N_BOUND_SWEEPS = 64, 50
N_DEVICE_CHAINS = 128  # the default of ais, so that a device compiles nothing


class EnumeratedStates:
    r"""Set of states whose potentials are summed exactly; samples estimate the rest of Z.

    .. math:: Z = \sum_{x \in A} f(x) + \mathbb{E}_q \, 1[x \notin A] \, \frac{f(x)}{q(x)}

    This holds for any set :math:`A` of states that does not depend on the samples. The sum has no
    sampling error.

    Parameters
    ----------
    X : ndarray of shape (n_states, n_variables)
        State codes; the rows are distinct.
    """

    def __init__(self, X):
        self.X = np.asarray(X, dtype=STATE)  # the dtype of samples: rows are compared as bytes
        self._bytes = {row.tobytes() for row in self.X}

    def compute_weights(self, graph, draws):
        """Return the log weights of the enumerated states and of the samples.

        Samples that are among the enumerated states have the log weight -inf.

        Parameters
        ----------
        graph : FactorGraph
            Model.
        draws : Draws
            Samples with their log-probabilities.

        Returns
        -------
        ImportanceWeights
            Log weights.
        """
        outside = np.array([row.tobytes() not in self._bytes for row in draws.X], dtype=bool)
        log_f = graph.log_potential(self.X)
        log_weights = np.where(outside, graph.log_potential(draws.X) - draws.log_q, -np.inf)
        return ImportanceWeights(log_f, log_weights, np.repeat(log_weights, draws.counts))


class ImportanceWeights(NamedTuple):
    """Log importance weights of enumerated states and of samples.

    Attributes
    ----------
    enumerated : ndarray of shape (n_states,)
        log f of the enumerated states, in nats.
    draws : ndarray of shape (n_distinct,)
        log f - log q of each distinct sample, in nats; -inf for a sample that is in the set of
        enumerated states.
    per_draw : ndarray of shape (n_samples,)
        The entries of ``draws``, repeated by the counts of the samples.
    """

    enumerated: np.ndarray
    draws: np.ndarray
    per_draw: np.ndarray

    def estimates(self):
        """Return, for each sample, the log of an unbiased estimate of the partition function Z."""
        return np.logaddexp(logsumexp(self.enumerated), self.per_draw)

    def effective_size(self, log_q, log_z):
        """Return the effective sample size K / E_p[p / q] of K samples from q for the model p.

        The expectation is a sum over the enumerated states plus an average over the samples outside
        of the set.

        Parameters
        ----------
        log_q : ndarray of shape (n_states,)
            Log-probability of sampling each enumerated state, in nats.
        log_z : float
            Log partition function, in nats.

        Returns
        -------
        float
            Effective sample size.
        """
        with np.errstate(divide="ignore", over="ignore"):
            in_set = np.exp(2.0 * (self.enumerated - log_z) - log_q).sum()
            others = np.exp(2.0 * (self.per_draw - log_z)).mean()
        return float(len(self.per_draw) / (in_set + others))


def mode_bound(energy, rng, device=None):
    r"""Return a lower bound of log Z: the log of the sum of f over states near modes of the model.

    The states are those that annealed Gibbs chains reach and then visit. The modes can be far from
    the training rows. Annealing from a reference model misses such modes, and so do chains that
    start at training rows.

    Parameters
    ----------
    energy : DiscreteEnergy
        Model. Hidden variables are summed out.
    rng : Generator
        Source of randomness.
    device : Device, optional
        Device of JAX on which the chains move.

    Returns
    -------
    float
        Lower bound of log Z in nats; -inf if no state of positive probability is found.
    """
    n_chains = N_BOUND_CHAINS if device is None else N_DEVICE_CHAINS
    X = annealed_states(energy, n_chains, rng, device=device)
    if not len(X):
        return -np.inf
    X = X if device is None else np.resize(X, (n_chains, X.shape[1]))
    generators, visited = spawn_generators(rng, len(X), device), [X]
    for _ in range(N_BOUND_SWEEPS):
        X, _ = sweep(energy, X, generators)
        visited.append(X)
    states = np.unique(np.concatenate(visited), axis=0)
    return float(logsumexp(energy.log_marginal(states)))
