"""Scores of held-out rows."""

import numpy as np

from .._utils.codes import MISSING
from .._utils.log_weights import normalized_weights
from .._utils.rows import dense_rows
from ..exact.tree_decomposition import forecast
from ..inference import row_queries
from ..learners.pseudo_likelihood import site_log_likelihood
from ..likelihood import log_partition_bounds

SMALL_ELIMINATION = 2**20  # entries of tables
SMALL_LAYER = 12  # units
PROXY_SITES = 16  # of a row, for a pseudo-likelihood


def held_out_score(layout, held_out):
    """Return the score of held-out rows of an energy of tables.

    It is the mean log-likelihood where elimination is cheap, else the mean pseudo-log-likelihood.
    The state of the loop has no influence.

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
            rows = row_queries.row_log_partitions(energy.factor_graph(), held_out.X)
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
    """Return the score of held-out rows of an energy of two layers.

    It is the mean log-likelihood where a layer is small, else the mean pseudo-log-likelihood of
    some sites. The state of the loop has no influence.

    Parameters
    ----------
    energy : BipartiteEnergy
        An energy with as many units as those that are scored.
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
