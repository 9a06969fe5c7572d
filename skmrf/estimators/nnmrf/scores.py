"""Scores of held-out rows for densities with neural potentials."""

import numpy as np

from ..._utils.log_weights import log_mean_exp, normalized_weights

N_SCORING = 10_000  # draws for the log Z of a score


def held_out_score(learner, held_out, density):
    """Return a function that computes the mean log-likelihood of held-out rows.

    Parameters
    ----------
    learner : BeliefLearner
        Learner whose state has the mixture.
    held_out : Batch or None
        Held-out rows.
    density : {"mixture", "mrf"}
        Distribution that is scored: the mixture or the model. The model scores complete rows only.
        If there are none, the mixture is scored.

    Returns
    -------
    callable or None
        ``(energy, state) -> float`` in nats. None without held-out rows.
    """
    if held_out is None:
        return None
    weights = normalized_weights(held_out.log_weights, len(held_out.X))
    complete = ~np.isnan(held_out.X).any(axis=1)
    if density == "mrf" and complete.any():
        shares = weights[complete] / max(weights[complete].sum(), 1e-300)
        return _model_score(learner, held_out.X[complete], shares)

    def score(energy, state):
        beliefs = learner.beliefs(energy, state.learner)
        return float(weights @ beliefs.log_density(held_out.X))

    return score


def _model_score(learner, X, weights):
    """Return the score of complete rows under the model, with log Z by importance sampling."""
    rng = np.random.default_rng(0)

    def score(energy, state):
        proposal = learner.proposal(energy, state.learner)
        draws = proposal.sample(N_SCORING, rng)
        logs = energy.log_potential(draws) - proposal.log_density(draws)
        return float(weights @ energy.log_potential(X)) - log_mean_exp(logs)

    return score
