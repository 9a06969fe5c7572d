"""Log odds of the outputs of conditional models, and the score of held-out rows."""

import numpy as np

from .._utils.parallel import parallel_jobs
from ..training.logistic_start import log_losses
from ._rows import sample_weights

N_ROWS = 1024  # rows per call of inference
LOG_LOSS_WEIGHT = 1e-6  # per nat; small, so that it only decides between equal shares


def has_probabilities(estimator):
    """Return True if the learner predicts probabilities, or raise an AttributeError."""
    learner = vars(estimator).get("_fitted_learner") or estimator._check_learner()
    if not learner.probabilistic:
        raise AttributeError(
            f"Models learned by {type(learner).__name__} have no probabilities. Use "
            "decision_function instead."
        )
    return True


def log_odds(learner, energy, X, epoch, n_jobs=None):
    """Compute the log odds of each output with the inference algorithm of the learner.

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
    with parallel_jobs(n_jobs):
        for s in range(0, X.shape[0], N_ROWS):
            out[s : s + N_ROWS] = learner.infer(energy, X[s : s + N_ROWS], epoch).visible
    return out


def finite_log_odds(learner, energy, X, epoch, n_jobs=None):
    """Return the log odds of each output in float64; raise a ValueError if any is not finite.

    In float64, the other rows of ``X`` change the odds of a row only by rounding errors.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        energy = energy.with_theta({k: v.astype(float) for k, v in energy.theta.items()})
        odds = log_odds(learner, energy, X, epoch, n_jobs)
    wrong = np.flatnonzero(~np.isfinite(odds).all(axis=1))
    if wrong.size:
        raise ValueError(
            f"Row {wrong[0]} of X holds numbers that are too large: the log odds of its outputs "
            "overflow. Correct or remove this row."
        )
    return odds


def output_score(learner, held_out, n_jobs=None):
    """Return a function that scores held-out rows for early stopping.

    The score is the share of correctly predicted outputs. If two models have the same share and
    the learner predicts probabilities, the model with the lower log-loss has the higher score.

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
    weights = sample_weights(held_out)

    def score(energy, state):
        losses = mean_losses(learner, energy, held_out, state.epoch - 1, n_jobs)
        wrong, *log_loss = np.average(losses, axis=1, weights=weights).tolist()
        return 1.0 - wrong - sum(LOG_LOSS_WEIGHT * round(loss, 2) for loss in log_loss)

    return score


def mean_losses(learner, energy, held_out, epoch, n_jobs=None):
    """Return the share of wrong outputs and the mean log-loss of each row.

    Parameters
    ----------
    learner : ConditionalLearner
        Learner whose inference is used.
    energy : ConditionalBipartiteEnergy
        Model.
    held_out : Batch
        Held-out rows.
    epoch : int
        Epoch of the model.
    n_jobs : int, optional
        Number of threads.

    Returns
    -------
    ndarray of shape (n_losses, n_rows)
        Share of wrong outputs, and then the mean log-loss in nats if the learner predicts
        probabilities.
    """
    odds, Y = log_odds(learner, energy, held_out.X, epoch, n_jobs), held_out.Y > 0
    losses = [(odds > 0) != Y]
    if learner.probabilistic:
        losses.append(log_losses(odds, Y))
    return np.array([loss.mean(axis=1) for loss in losses])
