"""Log odds of the outputs of a conditional model, and their score on held-out rows."""

from contextlib import nullcontext

import numpy as np
from joblib import parallel_config

from ._rows import sample_weights

N_ROWS = 1024  # of which outputs are inferred at once
TIE = 1e-6  # weight of a nat of log-loss against the share of right outputs


def log_odds(learner, energy, X, epoch, n_jobs=None):
    """Return the log odds of the outputs by the inference of a learner.

    Parameters
    ----------
    learner : ConditionalLearner
    energy : ConditionalBipartiteEnergy
    X : ndarray or sparse matrix of shape (n_rows, n_inputs)
    epoch : int
        Epoch of the model, for schedules of inference.
    n_jobs : int, optional

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
    """
    out = np.empty((X.shape[0], energy.weights.shape[0]), dtype=energy.weights.dtype)
    with nullcontext() if n_jobs is None else parallel_config(n_jobs=n_jobs):
        for s in range(0, X.shape[0], N_ROWS):
            out[s : s + N_ROWS] = learner.infer(energy, X[s : s + N_ROWS], epoch).visible
    return out


def output_score(learner, held_out, n_jobs=None):
    """Return the score of held-out rows for early stopping.

    The score is the share of right outputs. Between models of the same share the log-loss decides,
    where the learner gives probabilities.

    Parameters
    ----------
    learner : ConditionalLearner
    held_out : Batch or None
    n_jobs : int, optional

    Returns
    -------
    callable or None
        ``(energy, state) -> float``; None without held-out rows.
    """
    if held_out is None:
        return None
    weights, Y = sample_weights(held_out), held_out.Y > 0

    def score(energy, state):
        odds = log_odds(learner, energy, held_out.X, state.epoch - 1, n_jobs)
        share = float(np.average(((odds > 0) == Y).mean(axis=1), weights=weights))
        if not learner.probabilistic:
            return share
        losses = np.logaddexp(0.0, np.where(Y, -odds, odds)).mean(axis=1)
        return share - TIE * round(float(np.average(losses, weights=weights)), 2)

    return score
