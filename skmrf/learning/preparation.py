"""What the data say before learning: a start, moments, how fine to learn, what to hold out for."""

import warnings

import numpy as np

from .. import inference
from .._types import MISSING, States, effective_sample_size, normalized_weights
from ..learners import site_log_likelihood
from ..likelihood import log_partition_bounds
from ..messages import forecast

SMALL_ELIMINATION = 2**20


def independent_start(layout, codes, tie):
    """Log frequencies of every column, in the first table that has it, if any has."""
    flat = np.zeros(layout.n_parameters)
    if tie:
        return flat
    ptr, cliques, _ = layout.incidence
    for i in np.flatnonzero(np.diff(ptr)).tolist():
        q = int(layout.n_states[i])
        seen = codes[codes[:, i] != MISSING, i]
        log_p = np.log((np.bincount(seen, minlength=q) + 0.5) / (len(seen) + 0.5 * q))
        a = int(cliques[ptr[i]])
        start, shape = layout.table_start[a], layout.shape(a)
        table = flat[start : start + layout.table_size[a]].reshape(shape)
        axis = layout.cliques[a].index(i) if len(shape) > 1 else 0
        table += log_p.reshape([q if d == axis else 1 for d in range(len(shape))])
    return flat


def complete_moments(energy, data):
    """Clique moments of the complete rows; empty if there are none."""
    complete = (data.X != MISSING).all(axis=1)
    if not complete.any():
        return {}
    logs = None if data.log_weights is None else data.log_weights[complete]
    return energy.moments(States(data.X[complete], None, logs))


def resolution(moments, data):
    """A hundredth of the squared sampling error of the data's own moments."""
    variance = sum(float((m * (1.0 - m)).clip(0.0).sum()) for m in moments.values())
    return 0.01 * variance / _effective_rows(data)


def _effective_rows(data):
    if data.log_weights is None:
        return data.X.shape[0]
    return effective_sample_size(data.log_weights)


def count_never(moments):
    """Joint states of cliques that never occur."""
    return sum(int((m <= 1e-15).sum()) for m in moments.values())


def warn_unbounded(n_never):
    """A clique state that never occurs sends its log-potential to minus infinity."""
    if n_never:
        warnings.warn(
            f"{n_never} joint states of cliques never occur in the data, so the likelihood has its "
            "maximum at infinity and the fit stops on the way there. Set alpha > 0 for a finite "
            "one.",
            stacklevel=5,
        )


def held_out_score(layout, held_out):
    """Mean log-likelihood where elimination is cheap, else mean pseudo-log-likelihood."""
    weights = normalized_weights(held_out.log_weights, len(held_out.X))
    cost = forecast(layout)
    if cost.order is not None and cost.entries <= SMALL_ELIMINATION:

        def score(energy):
            rows = inference.row_log_partitions(energy, held_out.X)
            return float(weights @ rows) - log_partition_bounds(energy, method="exact").value

        return score
    complete = (held_out.X != MISSING).all(axis=1)
    if not complete.any():
        raise ValueError(
            "early_stopping scores complete rows of a model this wide, but every held-out row has "
            "a missing entry; set early_stopping=False."
        )
    share = weights[complete] / weights[complete].sum()
    return lambda energy: float(share @ site_log_likelihood(energy, held_out.X[complete])[0])
