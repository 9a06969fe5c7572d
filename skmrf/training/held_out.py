"""Scores of models on held-out rows, for early stopping."""

import numpy as np

from .._utils.codes import MISSING
from .._utils.log_weights import normalized_weights
from .._utils.rows import dense_rows, has_missing
from ..energies import LayeredEnergy
from ..exact import expectations
from ..exact.tree_decomposition import forecast
from ..inference import row_queries
from ..learners.pseudo_likelihood import site_log_likelihood
from ..likelihood import log_partition_bounds

MAX_TABLE_ENTRIES = 2**20  # of elimination, for an exact log-likelihood
MAX_LAYER_SIZE = 12  # for an exact log-likelihood
N_SITES = 16  # of each row, for a pseudo-likelihood
NO_COMPLETE_ROW = (
    "This model is too large to score held-out rows with missing entries, but each held-out row "
    "has a missing entry. Set early_stopping=False."
)


def held_out_score(layout, held_out):
    """Return a function that scores a model with tables of log-potentials on held-out rows.

    The score is the mean log-likelihood if exact elimination is cheap, else the mean
    pseudo-log-likelihood of the complete rows.

    Parameters
    ----------
    layout : Layout
        Layout of the tables of the model.
    held_out : Batch
        Held-out rows and their weights.

    Returns
    -------
    callable
        Function ``(energy, state) -> float``, in nats. It ignores the state of the loop.

    Raises
    ------
    ValueError
        If elimination is not cheap and no held-out row is complete.
    """
    weights = normalized_weights(held_out.log_weights, len(held_out.X))
    cost = forecast(layout)
    if cost.order is not None and cost.entries <= MAX_TABLE_ENTRIES:

        def score(energy, _):
            rows = row_queries.row_log_partitions(energy.factor_graph(), held_out.X, exact=True)
            return float(weights @ rows) - log_partition_bounds(energy, method="exact").value

        return score
    complete = (held_out.X != MISSING).all(axis=1)
    if not complete.any():
        raise ValueError(NO_COMPLETE_ROW)
    share = weights[complete] / weights[complete].sum()
    return lambda energy, _: float(share @ site_log_likelihood(energy, held_out.X[complete])[0])


def log_likelihoods(energy):
    """Return a function that computes the log-likelihoods of rows by exact inference.

    Parameters
    ----------
    energy : FactorGraph
        Model with the same cliques as the models to score.

    Returns
    -------
    callable
        Function ``(energy, rows) -> ndarray of shape (n_rows,)``, in nats. The rows are a Batch.
    """
    model = expectations.exact_model(energy)

    def score_rows(energy, rows):
        sums = row_queries.row_log_partitions(energy, rows.X, exact=True)
        return sums - model.log_partition(energy)

    return score_rows


def pseudo_log_likelihoods(energy, rows):
    """Return the pseudo-log-likelihood of each row of a batch in nats, shape (n_rows,)."""
    return site_log_likelihood(energy, rows.X)[0]


def layered_score(energy, held_out):
    """Return a function that scores a model with hidden units on held-out rows.

    The score is the mean log-likelihood if the exact log Z is cheap, as it is with a layer of at
    most 12 units in a two-layer model. Else it is an estimate of the mean pseudo-log-likelihood
    from 16 randomly chosen variables of each row. Rows with missing entries are ignored.

    Parameters
    ----------
    energy : HiddenLayerEnergy
        Energy with the same numbers of units as the energies to score.
    held_out : Batch
        Held-out rows and their weights.

    Returns
    -------
    callable
        Function ``(energy, state) -> float``, in nats. It ignores the state of the loop.
    """
    if has_missing(held_out.X):
        held_out = held_out.take((held_out.X != MISSING).all(axis=1))
        if not len(held_out.X):
            raise ValueError(NO_COMPLETE_ROW)
    weights = normalized_weights(held_out.log_weights, held_out.X.shape[0])
    n_visible, n_hidden = energy.weights.shape
    smallest = min(n_visible, n_hidden) if isinstance(energy, LayeredEnergy) else n_visible
    if smallest <= MAX_LAYER_SIZE:

        def score(energy, _):
            rows = float(weights @ energy.log_marginal(held_out.X))
            return rows - log_partition_bounds(energy, method="exact").value

        return score
    X = dense_rows(held_out.X)
    sites = np.random.default_rng(0).integers(X.shape[1], size=(N_SITES, len(X)))

    def estimate(energy, _):
        rows = energy.log_marginal(X)
        total = 0.0
        for chosen in sites:
            flipped = X.copy()
            entries = np.arange(len(X)), chosen
            flipped[entries] = 1 - flipped[entries]
            total -= float(weights @ np.logaddexp(0.0, energy.log_marginal(flipped) - rows))
        return total * X.shape[1] / len(sites)

    return estimate
