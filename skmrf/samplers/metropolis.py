"""Metropolis-Hastings chains with proposals of a mixture, or of chained belief propagation."""

from dataclasses import dataclass

import numpy as np

from ..variational.mixtures import Mixture

# Step size of random walks, times the root of the number of variables (Roberts et al., 1997).
SCALE = 2.38
TARGET_ACCEPTANCE = 0.3  # acceptance rate of random walks that the step size is adapted to


@dataclass
class Metropolis:
    """Metropolis steps of many chains that leave a target distribution invariant.

    Parameters
    ----------
    mixture : Mixture
        Approximation of the target. Independent proposals are samples of it, and random-walk
        proposals have the covariances of its components.
    size : float, optional
        Step size of the random walk, in units of the standard deviations of the components. By
        default 2.38 divided by the square root of the number of continuous variables.

    Attributes
    ----------
    root : ndarray of shape (n_numbers, n_numbers)
        Cholesky factor of the mean covariance of the components.
    """

    mixture: Mixture
    size: float = 0.0

    def __post_init__(self):
        """Set the default step size, and factorise the mean covariance of the mixture."""
        n = self.mixture.means.shape[1]
        self.size = self.size or SCALE / np.sqrt(max(n, 1))
        shares = np.exp(self.mixture.log_weights)
        within = np.einsum("k,kij->ij", shares / shares.sum(), self.mixture.covariances)
        self.root = np.linalg.cholesky(within) if n else within

    def random_walk_step(self, target, X, logs, rng):
        """Make one random-walk Metropolis step of each chain.

        All continuous variables are changed by a Gaussian step, and one discrete variable is
        changed to another state.

        Parameters
        ----------
        target : callable
            Function that takes X and returns the log-density of each row, up to a constant.
        X : ndarray of shape (n_chains, n_variables)
            States of the chains.
        logs : ndarray of shape (n_chains,)
            ``target(X)``.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        X : ndarray of shape (n_chains, n_variables)
            States after the step, in a new array.
        logs : ndarray of shape (n_chains,)
            ``target`` of these states, in a new array.
        rate : float
            Fraction of chains that accepted their proposal.
        """
        proposed = self.propose_random_walk(X, rng)
        new = target(proposed)
        return self.accept_or_reject(X, logs, proposed, new, new - logs, rng)

    def independence_step(self, target, X, logs, rng):
        """Make one independence Metropolis step of each chain.

        The proposals are samples of the mixture.

        Parameters
        ----------
        target : callable
            Function that takes X and returns the log-density of each row, up to a constant.
        X : ndarray of shape (n_chains, n_variables)
            States of the chains.
        logs : ndarray of shape (n_chains,)
            ``target(X)``.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        X : ndarray of shape (n_chains, n_variables)
            States after the step, in a new array.
        logs : ndarray of shape (n_chains,)
            ``target`` of these states, in a new array.
        rate : float
            Fraction of chains that accepted their proposal.
        """
        proposed = self.propose_independent(X, rng)
        new = target(proposed)
        return self.accept_or_reject(
            X, logs, proposed, new, self.independence_log_ratio(X, logs, proposed, new), rng
        )

    def propose_independent(self, X, rng):
        """Return one independent sample of the mixture for each chain (row of X)."""
        return self.mixture.sample(len(X), rng)

    def independence_log_ratio(self, X, logs, proposed, new):
        """Return the log acceptance ratio of independent proposals from the mixture."""
        return new - self.mixture.log_density(proposed) - logs + self.mixture.log_density(X)

    def accept_or_reject(self, X, logs, proposed, new, log_ratio, rng):
        """Accept or reject proposals by the Metropolis rule.

        Parameters
        ----------
        X : ndarray of shape (n_chains, n_variables)
            States of the chains.
        logs : ndarray of shape (n_chains,)
            Log-densities of the states.
        proposed : ndarray of shape (n_chains, n_variables)
            Proposals.
        new : ndarray of shape (n_chains,)
            Log-densities of the proposals.
        log_ratio : ndarray of shape (n_chains,)
            Log acceptance ratios.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        X : ndarray of shape (n_chains, n_variables)
            States after the step, in a new array.
        logs : ndarray of shape (n_chains,)
            Log-densities of these states, in a new array.
        rate : float
            Fraction of chains that accepted their proposal.
        """
        accepted = np.log1p(-rng.random(len(X))) < log_ratio
        return (
            np.where(accepted[:, None], proposed, X),
            np.where(accepted, new, logs),
            float(accepted.mean()),
        )

    def adapt(self, rate):
        """Increase the step size if the acceptance rate is above 30%, otherwise decrease it."""
        self.size *= np.exp(np.clip(rate - TARGET_ACCEPTANCE, -0.3, 0.3))

    def propose_random_walk(self, X, rng):
        """Return one random-walk proposal for each chain (row of X)."""
        X = X.copy()
        numbers, discrete = self.mixture.numbers, self.mixture.discrete
        if len(numbers):
            X[:, numbers] += self.size * rng.normal(size=(len(X), len(numbers))) @ self.root.T
        if len(discrete):
            rows, chosen = np.arange(len(X)), rng.choice(discrete, size=len(X))
            q = self.mixture.n_states[chosen]
            shift = 1 + np.floor(rng.random(len(X)) * (q - 1))
            X[rows, chosen] = (X[rows, chosen] + shift) % q
        return X


def metropolis(X, log_weights, proposals, proposal_weights, rng):
    r"""Make one independence Metropolis-Hastings step of each chain.

    A proposal :math:`x'` from :math:`q` is accepted with probability

    .. math:: \min\Big(1, \frac{f(x') / q(x')}{f(x) / q(x)}\Big).

    The step leaves the model invariant.

    Parameters
    ----------
    X : ndarray of shape (n_chains, n_variables)
        States of the chains.
    log_weights : ndarray of shape (n_chains,)
        ``log f - log q`` of the states.
    proposals : ndarray of shape (n_chains, n_variables)
        One proposal per chain.
    proposal_weights : ndarray of shape (n_chains,)
        ``log f - log q`` of the proposals.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    X : ndarray of shape (n_chains, n_variables)
        States after the step.
    log_weights : ndarray of shape (n_chains,)
        ``log f - log q`` of these states.
    accepted : ndarray of bool of shape (n_chains,)
        True for chains that accepted their proposal. A chain at a state of probability zero accepts
        every proposal.
    """
    with np.errstate(invalid="ignore"):  # -inf - -inf: both states have probability zero
        ratio = proposal_weights - log_weights
    accepted = ~(np.log1p(-rng.random(len(X))) >= ratio)
    X = np.where(accepted[:, None], proposals, X)
    return X, np.where(accepted, proposal_weights, log_weights), accepted


def chain_states(chain, graph, n_chains, n_steps, rng):
    """Run Metropolis chains that start at, and propose, samples of chained belief propagation.

    Parameters
    ----------
    chain : ChainedSampler
        Source of the proposals.
    graph : FactorGraph
        Target model.
    n_chains : int
        Number of Metropolis chains.
    n_steps : int
        Number of steps of each chain.
    rng : Generator
        Source of randomness.

    Returns
    -------
    X : ndarray of shape (n_chains, n_variables)
        States after the last step.
    acceptance : float
        Fraction of accepted proposals; 1 if ``n_steps`` is 0.
    """
    draws = chain.draw(graph.flat, n_chains * (n_steps + 1), rng)
    every = rng.permutation(np.repeat(np.arange(len(draws.X)), draws.counts))
    log_weights = graph.log_potential(draws.X) - draws.log_q
    turns = every.reshape(n_steps + 1, n_chains)
    X, weights = draws.X[turns[0]], log_weights[turns[0]]
    n_accepted = 0
    for turn in turns[1:]:
        X, weights, accepted = metropolis(X, weights, draws.X[turn], log_weights[turn], rng)
        n_accepted += int(accepted.sum())
    return X, n_accepted / (n_chains * n_steps) if n_steps else 1.0
