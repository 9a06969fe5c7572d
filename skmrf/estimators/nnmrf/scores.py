"""Scores of held-out rows of a density with neural potentials."""

import numpy as np

from ..._utils.log_weights import log_mean_exp, normalized_weights

N_SCORING = 10_000  # draws for the log Z of a score


def held_out_score(learner, held_out, density):
    """Return the score of held-out rows for early stopping: their mean log-likelihood.

    Parameters
    ----------
    learner : BeliefLearner
    held_out : Batch or None
    density : {"mixture", "mrf"}
        Whether the beliefs or the model is scored. Rows that all have missing entries are scored
        by the beliefs.

    Returns
    -------
    callable or None
        ``(energy, state) -> float`` in nats; None without held-out rows.
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
    """Return the score of complete rows by the model, log Z by draws from the beliefs."""
    rng = np.random.default_rng(0)

    def score(energy, state):
        proposal = learner.proposal(energy, state.learner)
        draws = proposal.sample(N_SCORING, rng)
        logs = energy.log_potential(draws) - proposal.log_density(draws)
        return float(weights @ energy.log_potential(X)) - log_mean_exp(logs)

    return score
