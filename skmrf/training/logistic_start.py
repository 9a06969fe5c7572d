"""Logistic regressions of each output, at which the training of conditional models starts."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, issparse

from .._utils.log_weights import effective_sample_size, normalized_weights
from ..energies import ConditionalBipartiteEnergy
from ..learners import LR
from . import initial_values, loop
from .penalties import make_penalty
from .settings import Settings
from .state import start

STRENGTHS = 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03  # alpha times number of rows
PATH_ITER = 50  # iterations of the solver at each alpha
MAX_ITER = 200
TOL = 1e-4  # nats; more exact fits do not predict better
N_FOLDS = 5
MEDIUM, LARGE, HUGE = 1e7, 1e8, 2e9  # rows times inputs times outputs: fewer folds, then rows
HELD_OUT_SHARE = 0.2  # if there is one fold
SPARSE_SHARE = 0.05  # products with sparse matrices are faster below this share of non-zeros


@dataclass(frozen=True)
class AlphaPath:
    """Held-out log-losses of logistic regressions with different penalties.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        Strengths of the penalty, in decreasing order.
    losses : ndarray of shape (n_alphas,)
        Mean log-loss of an output of a held-out row, in nats.
    chosen : float
        Chosen strength.
    """

    alphas: np.ndarray
    losses: np.ndarray
    chosen: float


def choose_alpha(data, penalty, rng):
    """Choose the strength of the penalty of logistic regressions by held-out log-loss.

    The strengths decrease from fit to fit, and each fit starts at the previous one. The path ends
    when the log-loss increases by more than one standard error. The result is the weakest penalty
    whose log-loss is within one standard error of the smallest log-loss.

    Parameters
    ----------
    data : Batch
        Training rows: inputs ``X`` and targets ``Y``.
    penalty : {"l2", "l1", "group-l1"}
        Penalty on the weights.
    rng : Generator
        Random numbers that divide the rows into folds.

    Returns
    -------
    AlphaPath
        Strengths, their held-out log-losses, and the chosen strength.
    """
    n, work = data.X.shape[0], data.X.shape[0] * data.X.shape[1] * data.Y.shape[1]
    order = rng.permutation(n)
    if work > HUGE:
        order = order[: max(2, int(n * HUGE / work))]
    folds = _divide(data, order, 1 if work > LARGE else 3 if work > MEDIUM else N_FOLDS)
    size = n if data.log_weights is None else effective_sample_size(data.log_weights)
    strengths = STRENGTHS[1::2] if work > LARGE else STRENGTHS
    alphas, losses, models = [], [], [None] * len(folds)
    weights = _row_weights([held_out for _, held_out in folds])
    for strength in strengths:
        alphas.append(strength / size)
        models = [
            fit_logistic(train, alphas[-1], penalty, energy, PATH_ITER)
            for (train, _), energy in zip(folds, models, strict=True)
        ]
        losses.append(_losses(models, folds))
        if not _is_within_error(losses, weights)[-1]:
            break
    chosen = alphas[int(np.flatnonzero(_is_within_error(losses, weights))[-1])]
    return AlphaPath(np.array(alphas), np.array(losses) @ weights, chosen)


def _divide(data, order, n_folds):
    """Return pairs (training rows, held-out rows)."""
    n_folds = min(n_folds, len(order))
    if n_folds < 2:
        n_held_out = max(1, round(HELD_OUT_SHARE * len(order)))
        parts = [order[:n_held_out], order[n_held_out:]][: len(order)]
        return [(data.take(parts[-1]), data.take(parts[0]))]
    parts = np.array_split(order, n_folds)
    return [
        (data.take(np.concatenate(parts[:k] + parts[k + 1 :])), data.take(parts[k]))
        for k in range(n_folds)
    ]


def _row_weights(batches):
    """Return the weights of all rows of some batches, shape (n_rows,); their sum is one."""
    if batches[0].log_weights is None:
        return normalized_weights(None, sum(batch.X.shape[0] for batch in batches))
    log_weights = np.concatenate([batch.log_weights for batch in batches])
    return normalized_weights(log_weights, len(log_weights))


def _losses(models, folds):
    """Return the mean log-loss of the outputs of each held-out row, shape (n_rows,)."""
    return np.concatenate(
        [
            log_losses(model.fields(held_out.X)[0], held_out.Y > 0).mean(axis=1)
            for model, (_, held_out) in zip(models, folds, strict=True)
        ]
    )


def log_losses(odds, Y):
    """Return the log-loss of each output in nats.

    Parameters
    ----------
    odds : ndarray of shape (n_rows, n_outputs)
        Predicted log odds.
    Y : ndarray of bool of shape (n_rows, n_outputs)
        Outputs.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
        Log-losses.
    """
    return np.logaddexp(0.0, np.where(Y, -odds, odds))


def _is_within_error(losses, weights):
    """Return whether each mean loss is within one standard error of the smallest mean loss."""
    losses = np.array(losses)
    best = losses[int(np.argmin(losses @ weights))]
    excess, error = mean_and_error(losses - best, weights)
    return excess <= error


def mean_and_error(values, weights):
    """Return the weighted means of the rows of a matrix, and their standard errors.

    Parameters
    ----------
    values : ndarray of shape (..., n_rows)
        Values.
    weights : ndarray of shape (n_rows,)
        Weights, with sum one.

    Returns
    -------
    mean, error : ndarray of shape (...)
        Means and standard errors.
    """
    mean = values @ weights
    return mean, np.sqrt(((values - mean[..., None]) ** 2) @ weights**2)


def fit_logistic(data, alpha, penalty="l2", energy=None, max_iter=MAX_ITER):
    """Fit a penalised logistic regression of each output.

    Parameters
    ----------
    data : Batch
        Training rows: inputs ``X`` and targets ``Y``.
    alpha : float
        Strength of the penalty, against the mean log-likelihood of a row in nats.
    penalty : {"l2", "l1", "group-l1"}, default="l2"
        Penalty on the weights.
    energy : ConditionalBipartiteEnergy, optional
        Logistic regressions at which the solver starts. By default independent outputs.
    max_iter : int, default=200
        Maximum number of iterations of the solver.

    Returns
    -------
    ConditionalBipartiteEnergy
        Model without hidden units.
    """
    if energy is None:
        energy = independent_outputs(data)
    settings = Settings(
        optimizer=None,
        penalty=make_penalty(penalty, alpha, energy.penalty_groups(), energy.multiplicity),
        max_iter=max_iter,
        tol=TOL,
        complete=False,
        interruptible=False,
        multiplicity=energy.multiplicity,
    )
    learner, data = LR(), data._replace(X=_faster_form(data.X))
    return loop.run(learner, data, settings, start(energy, learner, data, settings, None)).energy


def _faster_form(X):
    """Return the inputs as a sparse matrix if they are dense and few are not zero."""
    if issparse(X) or np.count_nonzero(X) > SPARSE_SHARE * X.size:
        return X
    return csr_array(X)


def independent_outputs(data):
    """Return an energy without hidden units, in which outputs do not depend on inputs."""
    rng = np.random.default_rng(0)  # not used, because there are no hidden units
    return ConditionalBipartiteEnergy(**initial_values.conditional_layers(data, 0, rng))


def add_hidden_units(energy, data, n_hidden, rng):
    """Return an energy with hidden units that has almost the same distribution of the outputs.

    The hidden units are pairs with equal weights of inputs and opposite weights of outputs, so that
    their effects on the log odds of outputs cancel.

    Parameters
    ----------
    energy : ConditionalBipartiteEnergy
        Model without hidden units.
    data : Batch
        Training rows.
    n_hidden : int
        Number of hidden units.
    rng : Generator
        Random numbers of the weights.

    Returns
    -------
    ConditionalBipartiteEnergy
        Model with random weights of hidden units.
    """
    theta, half = initial_values.conditional_layers(data, n_hidden, rng), n_hidden // 2
    theta["weights"][:, half : 2 * half] = -theta["weights"][:, :half]
    theta["weights"][:, 2 * half :] = 0.0
    theta["hidden_inputs"][:, half : 2 * half] = theta["hidden_inputs"][:, :half]
    theta |= {name: energy.theta[name] for name in ("visible_inputs", "visible_bias")}
    return ConditionalBipartiteEnergy(**theta)


def add_idle_units(energy, n_hidden):
    """Return the energy with hidden units whose weights are all zero."""
    n_inputs, n_visible = energy.theta["visible_inputs"].shape
    zeros = {
        "weights": np.zeros((n_visible, n_hidden), np.float32),
        "hidden_inputs": np.zeros((n_inputs, n_hidden)),
        "hidden_bias": np.zeros(n_hidden),
    }
    return ConditionalBipartiteEnergy(**(energy.theta | zeros))
