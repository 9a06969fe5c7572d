"""Weights of rows and particles: log-sum-exp, effective sample size, checks, groups of copies."""

import numpy as np

from .namespaces import is_numpy, namespace

MIN_FREQUENT, FREQUENT_SHARE = 5, 0.02  # of a row that is no copy: mean weights, share of weights
LOWEST = -1e30  # stands for -inf in a subtraction of JAX arrays, which would give nan


def logsumexp(log_weights):
    """Return the log of the sum of ``exp(x)``, without overflow; -inf for an empty sum."""
    if not is_numpy(log_weights):
        xp = namespace(log_weights)
        top = xp.maximum(log_weights.max(), LOWEST)
        return top + xp.log(xp.exp(log_weights - top).sum())
    top = np.max(log_weights, initial=-np.inf)
    if not np.isfinite(top):
        return float(top)
    return float(top + np.log(np.sum(np.exp(log_weights - top))))


def logsumexp_along(logs, axis=0, keepdims=False):
    """Return the log of the sum of exponentials along an axis; -inf if all terms are zero.

    Parameters
    ----------
    logs : ndarray
        Logarithms of the terms.
    axis : int, default=0
        Axis to sum over.
    keepdims : bool, default=False
        Whether to keep the axis with length one.

    Returns
    -------
    ndarray
        Logarithms of the sums.
    """
    top = logs.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(logs - top).sum(axis=axis, keepdims=True)) + top
    return total if keepdims else total.squeeze(axis)


def log_mean_exp(log_weights):
    """Return the log of the mean of ``exp(x)``, without overflow."""
    return logsumexp(log_weights) - np.log(len(log_weights))


def normalized_weights(log_weights, n):
    """Return weights that sum to one from log weights: equal for None, zeros if all are -inf."""
    if log_weights is None:
        return np.full(n, 1.0 / max(n, 1))
    total = logsumexp(log_weights)
    if not is_numpy(log_weights):
        xp = namespace(log_weights)
        return xp.exp(log_weights - xp.maximum(total, LOWEST))
    if total == -np.inf:
        return np.zeros(n)
    return np.exp(np.asarray(log_weights) - total)


def effective_sample_size(log_weights):
    """Return Kish's effective sample size, from 1 to n, or 0 if all weights are zero."""
    if not is_numpy(log_weights):
        weights = normalized_weights(log_weights, len(log_weights))
        return (weights.sum() > 0) / namespace(weights).maximum((weights**2).sum(), 1e-30)
    log_weights = np.asarray(log_weights, dtype=float)
    top = log_weights.max(initial=-np.inf)
    if top == -np.inf:
        return 0.0
    weights = np.exp(log_weights - top)
    ess = weights.sum() ** 2 / (weights @ weights)
    return float(np.clip(ess, 1.0, len(weights)))  # rounding errors may exceed these bounds


def check_sample_weight(sample_weight, n_rows):
    """Return sample weights as floats, or None for weights of one; raise a ValueError if invalid.

    Weights of one have the same meaning as no weights, and then also the same result.
    """
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError) as error:
        reason = str(error).rstrip(".")
        raise ValueError(
            f"sample_weight must be one number per row or example; {reason}."
        ) from error
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}: one weight per row or "
            "example."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[0]
        raise ValueError(
            f"sample_weight[{wrong}] is {weights[wrong]}; weights must be finite and not negative."
        )
    if not weights.any():
        raise ValueError(
            "All sample weights are zero; at least one row must have a positive weight."
        )
    if (weights == 1.0).all():
        return None
    with np.errstate(over="ignore"):
        is_sum_finite = np.isfinite(weights.sum())
    return weights if is_sum_finite else weights / weights.max()


def group_copies(owners, weights):
    """Return the number of the group of each row; equal rows are a group unless they are frequent.

    A frequent row is a group of its own, because other rows can be equal to it by chance.

    Parameters
    ----------
    owners : ndarray of int of shape (n_rows,)
        Number of each row, which is the same for equal rows.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.

    Returns
    -------
    ndarray of int of shape (n_rows,)
        Numbers of the groups.
    """
    most = max(FREQUENT_SHARE * weights.sum(), MIN_FREQUENT * weights.mean())
    is_frequent = np.bincount(owners, weights)[owners] > most
    return np.where(is_frequent, owners.max() + 1 + np.arange(len(owners)), owners)


def random_folds(groups, n_folds, max_rows, rng):
    """Return the indices of the training rows and of the held-out rows of random folds.

    Parameters
    ----------
    groups : ndarray of int of shape (n_rows,)
        Number of the group of each row. The rows of a group are in the same fold, unless there is
        a single group.
    n_folds : int
        Number of folds, if there are enough groups. A single fold has about a third of the rows.
    max_rows : int
        Largest number of training rows, and about that of held-out rows, of a single fold.
    rng : Generator
        Random numbers.

    Returns
    -------
    list of (ndarray of int, ndarray of int)
        Indices of the rows of each fold.
    """
    order = rng.permutation(len(groups))
    groups = np.arange(len(groups)) if (groups == groups[0]).all() else groups
    _, first, owners = np.unique(groups[order], return_index=True, return_inverse=True)
    ranks = np.argsort(np.argsort(first))[owners]  # of the groups, in the random order
    by_group = np.argsort(ranks, kind="stable")
    order, ranks = order[by_group], ranks[by_group]
    if n_folds == 1:
        is_held_out = ranks < ranks[min(len(order) // 3, max_rows)]
        return [(order[~is_held_out][:max_rows], order[is_held_out])]
    fold = ranks % n_folds
    return [(order[fold != k], order[fold == k]) for k in range(min(n_folds, ranks[-1] + 1))]
