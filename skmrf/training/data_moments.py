"""Moments of the training rows and their sampling error."""

import numpy as np

from .._utils.codes import MISSING
from .._utils.log_weights import effective_sample_size, normalized_weights
from .._utils.phases import States
from .._utils.warn import warn_caller


def complete_moments(energy, data):
    """Return the clique moments of the complete rows; an empty dict if there are none.

    Parameters
    ----------
    energy : Energy
    data : Batch
        All training rows, with -1 where an entry is missing.

    Returns
    -------
    dict of str to ndarray
        Means of the statistics, shaped like theta.
    """
    complete = (data.X != MISSING).all(axis=1)
    if not complete.any():
        return {}
    logs = None if data.log_weights is None else data.log_weights[complete]
    return energy.moments(States(data.X[complete], None, logs))


def resolution(moments, data):
    """Return a hundredth of the squared sampling error of the moments of the data.

    Parameters
    ----------
    moments : dict of str to ndarray
        From :func:`complete_moments`.
    data : Batch
        All training rows.

    Returns
    -------
    float
        Squared norm below which a gradient counts as noise.
    """
    variance = sum(float((m * (1.0 - m)).clip(0.0).sum()) for m in moments.values())
    return 0.01 * variance / _effective_rows(data)


def _effective_rows(data):
    if data.log_weights is None:
        return data.X.shape[0]
    return effective_sample_size(data.log_weights)


def count_never(moments):
    """Count the joint states of cliques that never occur.

    Parameters
    ----------
    moments : dict of str to ndarray
        From :func:`complete_moments`.

    Returns
    -------
    int
    """
    return sum(int((m <= 1e-15).sum()) for m in moments.values())


def pair_facts(energy, data):
    """Return the resolution of a ``PairwiseEnergy`` and its number of unseen joint states.

    Both are of the complete rows, and 0 if there are none.

    Parameters
    ----------
    energy : PairwiseEnergy
    data : Batch
        All training rows.

    Returns
    -------
    resolution : float
        As of :func:`resolution`.
    n_never : int
        As of :func:`count_never`, of pairs.
    """
    complete = (data.X != MISSING).all(axis=1)
    if not complete.any():
        return 0.0, 0
    logs = None if data.log_weights is None else data.log_weights[complete]
    up = data.X[complete].astype(float)
    down = 1.0 - up
    weights = normalized_weights(logs, len(up))[:, None]
    high, low, mixed = up.T @ (weights * up), down.T @ (weights * down), up.T @ (weights * down)
    variance = _pair_variance(energy.states, high, low, mixed)
    apart = ~np.eye(len(high), dtype=bool)
    n_never = sum(int((p[apart] <= 1e-15).sum()) for p in (high, low)) // 2
    n_never += int((mixed[apart] <= 1e-15).sum())
    return 0.01 * variance / _effective_rows(data), n_never


def _pair_variance(states, high, low, mixed):
    """Return the sum of the variances of all statistics, from joint probabilities of pairs."""
    lower, upper = states
    values = np.array([upper * upper, lower * lower, upper * lower])
    p = np.stack([high, low, mixed + mixed.T])
    pairs = np.tensordot(values**2, p, 1) - np.tensordot(values, p, 1) ** 2
    np.fill_diagonal(pairs, 0.0)
    means = np.diagonal(high)
    return float(pairs.clip(0.0).sum() + (upper - lower) ** 2 * (means * (1.0 - means)).sum())


def warn_unbounded(n_never):
    """Warn if a joint state never occurs: its log-potential tends to minus infinity.

    Parameters
    ----------
    n_never : int
        Number of such states, from :func:`count_never`; 0 does not warn.
    """
    if n_never:
        warn_caller(
            f"{n_never} joint states of cliques never occur in the data, so the likelihood has its "
            "maximum at infinity and the fit stops on the way there. Set alpha > 0 for a finite "
            "one."
        )
