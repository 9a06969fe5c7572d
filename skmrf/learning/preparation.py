"""What the data say before learning: a start, moments, how fine to learn, what to hold out for."""

import numpy as np
from scipy.sparse import issparse

from .. import inference
from .._types import MISSING, States, dense_rows, effective_sample_size, normalized_weights
from .._validation import warn_caller
from ..learners import site_log_likelihood
from ..likelihood import log_partition_bounds
from ..messages import forecast

SMALL_ELIMINATION = 2**20
SMALL_LAYER = 12
PROXY_SITES = 16  # a row, of a pseudo-likelihood


def independent_start(layout, codes, tie, log_weights=None):
    """Log frequencies of every column, in the first table that has it, if any has.

    Parameters
    ----------
    layout : Layout
    codes : ndarray of shape (n_rows, n_variables)
        State codes; -1 where an entry is missing.
    tie : list of lists of int or None
        Groups of cliques that share one table; then all tables start at zero.
    log_weights : ndarray of shape (n_rows,), optional

    Returns
    -------
    ndarray of shape (n_parameters,)
        Log-potentials of all tables, side by side; each state counted half once more.
    """
    weights = np.ones(len(codes)) if log_weights is None else np.exp(log_weights)
    flat = np.zeros(layout.n_parameters)
    if tie:
        return flat
    ptr, cliques, _ = layout.incidence
    for i in np.flatnonzero(np.diff(ptr)).tolist():
        q = int(layout.n_states[i])
        seen = codes[:, i] != MISSING
        counts = np.bincount(codes[seen, i], weights[seen], minlength=q)
        log_p = np.log((counts + 0.5) / (counts.sum() + 0.5 * q))
        a = int(cliques[ptr[i]])
        start, shape = layout.table_start[a], layout.shape(a)
        table = flat[start : start + layout.table_size[a]].reshape(shape)
        axis = layout.cliques[a].index(i) if len(shape) > 1 else 0
        table += log_p.reshape([q if d == axis else 1 for d in range(len(shape))])
    return flat


def log_odds(codes, log_weights=None):
    """Log odds of code 1 against 0 in every column, each state counted half a row more.

    Parameters
    ----------
    codes : ndarray or sparse matrix of shape (n_rows, n_variables)
        Of two states; -1 where an entry is missing.
    log_weights : ndarray of shape (n_rows,), optional

    Returns
    -------
    ndarray of shape (n_variables,)
        In nats.
    """
    up, absent = (_counts(codes == code, log_weights) for code in (1, MISSING))
    total = codes.shape[0] if log_weights is None else np.exp(log_weights).sum()
    return np.log((up + 0.5) / (np.maximum(total - up - absent, 0.0) + 0.5))


def _counts(which, log_weights):
    """Of every column, how many rows, or their weight."""
    if log_weights is None:
        return np.asarray(which.sum(axis=0)).ravel()
    weights = np.exp(log_weights)
    return weights @ which if issparse(which) else np.einsum("i,ij->j", weights, which)


def complete_moments(energy, data):
    """Clique moments of the complete rows; empty if there are none.

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
    """A hundredth of the squared sampling error of the data's own moments.

    Parameters
    ----------
    moments : dict of str to ndarray
        From :func:`complete_moments`.
    data : Batch
        All training rows.

    Returns
    -------
    float
        Squared norm of a gradient that is only noise.
    """
    variance = sum(float((m * (1.0 - m)).clip(0.0).sum()) for m in moments.values())
    return 0.01 * variance / _effective_rows(data)


def _effective_rows(data):
    if data.log_weights is None:
        return data.X.shape[0]
    return effective_sample_size(data.log_weights)


def count_never(moments):
    """Joint states of cliques that never occur.

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
    """The resolution and the number of unseen joint states of a ``PairwiseEnergy``.

    Of the complete rows; both are 0 if there are none.

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
    """Sum of the variances of all statistics, from the probabilities of joint states of pairs."""
    lower, upper = states
    values = np.array([upper * upper, lower * lower, upper * lower])
    p = np.stack([high, low, mixed + mixed.T])
    pairs = np.tensordot(values**2, p, 1) - np.tensordot(values, p, 1) ** 2
    np.fill_diagonal(pairs, 0.0)
    means = np.diagonal(high)
    return float(pairs.clip(0.0).sum() + (upper - lower) ** 2 * (means * (1.0 - means)).sum())


def warn_unbounded(n_never):
    """A clique state that never occurs sends its log-potential to minus infinity.

    Parameters
    ----------
    n_never : int
        How many there are, from :func:`count_never`; 0 does not warn.
    """
    if n_never:
        warn_caller(
            f"{n_never} joint states of cliques never occur in the data, so the likelihood has its "
            "maximum at infinity and the fit stops on the way there. Set alpha > 0 for a finite "
            "one."
        )


def held_out_score(layout, held_out):
    """Mean log-likelihood where elimination is cheap, else mean pseudo-log-likelihood.

    A function of an energy and the state of the loop, which has no influence.

    Parameters
    ----------
    layout : Layout
        Of the model's tables.
    held_out : Batch

    Returns
    -------
    callable
        ``(energy, state) -> float``, in nats.

    Raises
    ------
    ValueError
        Where elimination is not cheap and no held-out row is complete.
    """
    weights = normalized_weights(held_out.log_weights, len(held_out.X))
    cost = forecast(layout)
    if cost.order is not None and cost.entries <= SMALL_ELIMINATION:

        def score(energy, _):
            rows = inference.row_log_partitions(energy.factor_graph(), held_out.X)
            return float(weights @ rows) - log_partition_bounds(energy, method="exact").value

        return score
    complete = (held_out.X != MISSING).all(axis=1)
    if not complete.any():
        raise ValueError(
            "early_stopping scores complete rows of a model this wide, but every held-out row has "
            "a missing entry; set early_stopping=False."
        )
    share = weights[complete] / weights[complete].sum()
    return lambda energy, _: float(share @ site_log_likelihood(energy, held_out.X[complete])[0])


def layered_score(energy, held_out):
    """Mean log-likelihood where a layer is small, else mean pseudo-log-likelihood of some sites.

    A function of an energy and the state of the loop, which has no influence.

    Parameters
    ----------
    energy : BipartiteEnergy
        Of the size of those to be scored.
    held_out : Batch

    Returns
    -------
    callable
        ``(energy, state) -> float``, in nats.
    """
    weights = normalized_weights(held_out.log_weights, held_out.X.shape[0])
    if min(energy.weights.shape) <= SMALL_LAYER:

        def score(energy, _):
            rows = float(weights @ energy.log_marginal(held_out.X))
            return rows - log_partition_bounds(energy, method="exact").value

        return score
    X = dense_rows(held_out.X)
    sites = np.random.default_rng(0).integers(X.shape[1], size=(PROXY_SITES, len(X)))

    def proxy(energy, _):
        rows = energy.log_marginal(X)
        total = 0.0
        for chosen in sites:
            flipped = X.copy()
            each = np.arange(len(X)), chosen
            flipped[each] = 1 - flipped[each]
            total -= float(weights @ np.logaddexp(0.0, energy.log_marginal(flipped) - rows))
        return total * X.shape[1] / len(sites)

    return proxy
