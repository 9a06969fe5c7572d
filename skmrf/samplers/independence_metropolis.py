"""Independence Metropolis-Hastings: proposals that do not depend on the state of the chain."""

import numpy as np


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
    chain : Chain
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
