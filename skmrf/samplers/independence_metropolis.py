"""Independence Metropolis-Hastings: proposals that do not depend on where a chain stands."""

import numpy as np


def metropolis(X, log_weights, proposals, proposal_weights, rng):
    r"""One step of every chain; leaves the model invariant.

    A proposal :math:`x'` from :math:`q` is accepted with probability

    .. math:: \min\Big(1, \frac{f(x') / q(x')}{f(x) / q(x)}\Big).

    Parameters
    ----------
    X, proposals : ndarray of shape (n_chains, n_variables)
    log_weights, proposal_weights : ndarray of shape (n_chains,)
        ``log f - log q`` of each.
    rng : numpy.random.Generator

    Returns
    -------
    X, log_weights
        Where the chains stand then.
    accepted : ndarray of bool of shape (n_chains,)
        A chain at a state of probability zero accepts whatever comes.
    """
    with np.errstate(invalid="ignore"):  # -inf - -inf: both of probability zero
        ratio = proposal_weights - log_weights
    accepted = ~(np.log1p(-rng.random(len(X))) >= ratio)
    X = np.where(accepted[:, None], proposals, X)
    return X, np.where(accepted, proposal_weights, log_weights), accepted


def chain_states(chain, graph, n_chains, n_steps, rng):
    """States of Metropolis chains whose start and proposals are draws of a :class:`Chain`.

    Parameters
    ----------
    chain : Chain
        What proposes.
    graph : FactorGraph
        The target.
    n_chains, n_steps : int
    rng : Generator

    Returns
    -------
    X : ndarray of shape (n_chains, n_variables)
    acceptance : float
        Share of accepted proposals; 1 without any.
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
