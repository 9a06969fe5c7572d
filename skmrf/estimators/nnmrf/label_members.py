"""Members of a classifier: convex models, networks, and the weights of their predictions."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

ALPHAS = 100.0, 20.0, 5.0, 1.0, 0.2, 0.05, 0.01
LARGE_INCREASE = 1.01  # of the held-out loss, which ends the path of penalties at once


class LabelRows(NamedTuple):
    """Encoded training rows, labels and weights, from which the members are learned.

    Attributes
    ----------
    targets : ndarray of shape (n_rows, n_classes)
        One-hot labels.
    weights : ndarray of shape (n_rows,)
        Weight of each row.
    folds : ndarray of int, shape (n_rows,)
        Number of the fold that leaves out each row. No fold leaves out rows with -1.
    """

    targets: np.ndarray
    weights: np.ndarray
    folds: np.ndarray

    @property
    def n_folds(self):
        """Number of folds."""
        return int(self.folds.max(initial=0)) + 1

    def log_shares(self, shrinkage=0.5):
        """Return the log of the shares of the classes, with ``shrinkage`` rows added to each."""
        counts = self.weights @ self.targets + shrinkage
        return np.log(counts / counts.sum())

    def held_out_loss(self, logs):
        """Return the mean log loss in nats of the rows that a fold leaves out."""
        weights = np.where(self.folds >= 0, self.weights, 0.0)
        return float(-(weights @ (self.targets * logs).sum(axis=1)) / (weights.sum() or 1.0))

    def select(self, rows):
        """Return the given rows."""
        return LabelRows(self.targets[rows], self.weights[rows], self.folds[rows])


def assign_folds(labels, n_folds, rng):
    """Return the number of the cross-validation fold of each row, stratified by class.

    The numbers start at 0. A row that is alone in its class has -1: no fold leaves it out.
    """
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    folds = np.empty(len(labels), int)
    folds[order] = np.arange(len(labels)) % n_folds
    folds[np.bincount(labels)[labels] == 1] = -1
    return folds


# Convex members --------------------------------------------------------------------------------


def softmax_objective(flat, F, rows, alpha):
    """Return the penalised log loss of multinomial logistic regression, and its gradient.

    Parameters
    ----------
    flat : ndarray of shape ((n_features + 1) * n_classes,)
        Coefficients. The last row has the biases, which are not penalised.
    F : ndarray of shape (n_rows, n_features)
        Features.
    rows : LabelRows
        Labels and weights.
    alpha : float
        Strength of the L2 penalty, for all rows together.

    Returns
    -------
    value : float
        Objective in nats per row.
    gradient : ndarray
        Gradient, shaped like ``flat``.
    """
    B = flat.reshape(F.shape[1] + 1, -1)
    logs = log_softmax(F @ B[:-1] + B[-1], axis=-1)
    total = rows.weights.sum()
    residuals = rows.weights[:, None] * (np.exp(logs) - rows.targets)
    gradient = np.vstack([F.T @ residuals + alpha * B[:-1], residuals.sum(axis=0)])
    loss = -rows.weights @ (rows.targets * logs).sum(axis=1)
    return (loss + 0.5 * alpha * (B[:-1] ** 2).sum()) / total, gradient.ravel() / total


def fit_softmax(F, rows, alpha, first=None, max_iter=200):
    """Return the coefficients that minimise :func:`softmax_objective`, by L-BFGS.

    The result has shape (n_features + 1, n_classes). ``first`` has the initial coefficients.
    """
    if first is None:
        first = np.zeros((F.shape[1] + 1, rows.targets.shape[1]))
        first[-1] = rows.log_shares()
    options = {"maxiter": max_iter, "gtol": 1e-4, "ftol": 1e-7, "maxcor": 20}
    found = minimize(
        softmax_objective, first.ravel(), (F, rows, alpha), "L-BFGS-B", True, options=options
    )
    return found.x.reshape(first.shape)


class ConvexMember:
    """Log-linear model of the labels given features.

    Attributes
    ----------
    coef : ndarray of shape (n_features + 1, n_classes)
        Coefficients. The last row has the biases.
    alpha : float
        Strength of the penalty that cross-validation has selected.
    held_out : ndarray of shape (n_rows, n_classes)
        Log-probabilities of training rows by models that were learned without their folds.
    n_iter : int
        Number of epochs, which is 0.
    """

    n_iter = 0

    def __init__(self, coef, alpha, held_out):
        self.coef, self.alpha, self.held_out = coef, alpha, held_out

    def log_proba(self, F):
        """Return ``log p(y | x)`` of each row, shape (n_rows, n_classes)."""
        return log_softmax(F @ self.coef[:-1] + self.coef[-1], axis=-1)


def learn_convex(F, rows, alphas, max_iter):
    """Learn a log-linear model; cross-validation selects its penalty on a decreasing path.

    Parameters
    ----------
    F : ndarray of shape (n_rows, n_features)
        Features.
    rows : LabelRows
        Labels, weights and folds.
    alphas : sequence of float
        Strengths of the penalty, for all rows together. The path ends when the held-out loss
        increases by more than a percent, or twice.
    max_iter : int
        Maximum number of iterations of L-BFGS for each strength.

    Returns
    -------
    ConvexMember
        Model of all rows.
    """
    parts = [np.flatnonzero(rows.folds != k) for k in range(rows.n_folds)]
    parts = [
        (F[part], rows.select(part), np.flatnonzero(rows.folds == k))
        for k, part in enumerate(parts)
    ]
    coefs, best, losses = [None] * len(parts), None, []
    for alpha in sorted(alphas, reverse=True):
        logs = np.zeros(rows.targets.shape)
        for k, (features, kept, left) in enumerate(parts):
            coefs[k] = fit_softmax(features, kept, alpha, coefs[k], max_iter)
            logs[left] = log_softmax(F[left] @ coefs[k][:-1] + coefs[k][-1], axis=-1)
        losses.append(rows.held_out_loss(logs))
        if losses[-1] == min(losses):
            best = alpha, logs, np.mean(coefs, axis=0)
        elif losses[-1] > LARGE_INCREASE * min(losses) or losses[-2] > min(losses):
            break
    alpha, logs, first = best
    return ConvexMember(fit_softmax(F, rows, alpha, first, max_iter), alpha, logs)


# Weights of members ----------------------------------------------------------------------------


def learn_exponents(logs, rows, shrinkage):
    """Learn exponents of the members: ``p(y | x)`` is proportional to ``prod_m p_m(y | x)**w_m``.

    The exponents are not negative, and maximise the likelihood of the held-out rows with an L2
    penalty on their differences from equal shares. Their sum is an inverse temperature.

    Parameters
    ----------
    logs : ndarray of shape (n_members, n_rows, n_classes)
        Held-out log-probabilities of the members.
    rows : LabelRows
        Labels and weights.
    shrinkage : float
        Strength of the penalty, for all rows together.

    Returns
    -------
    ndarray of shape (n_members,)
        Exponents.
    """
    kept = rows.folds >= 0
    logs, targets = logs[:, kept], rows.targets[kept]
    weights = rows.weights[kept]
    equal = 1 / len(logs)

    def objective(exponents):
        mixed = log_softmax(np.tensordot(exponents, logs, 1), axis=-1)
        residuals = weights[:, None] * (targets - np.exp(mixed))
        slopes = shrinkage * (exponents - equal) - np.tensordot(logs, residuals, 2)
        value = -weights @ (targets * mixed).sum(axis=1)
        return value + 0.5 * shrinkage * ((exponents - equal) ** 2).sum(), slopes

    first = np.full(len(logs), equal)
    return minimize(objective, first, jac=True, bounds=[(0, None)] * len(logs)).x
