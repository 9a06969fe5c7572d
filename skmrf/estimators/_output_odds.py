"""Log odds of the outputs of conditional models, and their score on held-out rows."""

from contextlib import nullcontext

import numpy as np
from joblib import parallel_config

from ._rows import sample_weights

N_ROWS = 1024  # rows per call of inference
LOG_LOSS_WEIGHT = 1e-6  # per nat; small, so that it only decides between equal shares


def log_odds(learner, energy, X, epoch, n_jobs=None):
    """Return the log odds of each output, by the inference algorithm of a learner.

    Parameters
    ----------
    learner : ConditionalLearner
        Learner whose inference is used.
    energy : ConditionalBipartiteEnergy
        Model.
    X : ndarray or sparse matrix of shape (n_rows, n_inputs)
        Scaled inputs.
    epoch : int
        Epoch of the model. Some learners change their inference by epoch.
    n_jobs : int, optional
        Number of threads.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
        Log odds in nats.
    """
    out = np.empty((X.shape[0], energy.weights.shape[0]), dtype=energy.weights.dtype)
    with nullcontext() if n_jobs is None else parallel_config(n_jobs=n_jobs):
        for s in range(0, X.shape[0], N_ROWS):
            out[s : s + N_ROWS] = learner.infer(energy, X[s : s + N_ROWS], epoch).visible
    return out


def output_score(learner, held_out, n_jobs=None):
    """Return a function that scores held-out rows for early stopping.

    The score is the share of correct outputs. If two models have the same share, the log-loss
    decides, provided that the learner has probabilities.

    Parameters
    ----------
    learner : ConditionalLearner
        Learner whose inference is used.
    held_out : Batch or None
        Held-out rows.
    n_jobs : int, optional
        Number of threads.

    Returns
    -------
    callable or None
        ``(energy, state) -> float``. None without held-out rows.
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
        return share - LOG_LOSS_WEIGHT * round(float(np.average(losses, weights=weights)), 2)

    return score
