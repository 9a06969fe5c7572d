"""Weights of training rows, and rows held out for early stopping."""

import numpy as np

from .._utils.log_weights import check_sample_weight


def weighted_rows(data, sample_weight):
    """Return the rows of positive weight, with their log weights.

    Parameters
    ----------
    data : Batch
        All rows, without weights.
    sample_weight : array-like of shape (n_rows,), or None

    Returns
    -------
    Batch
    """
    weights = check_sample_weight(sample_weight, data.X.shape[0])
    if weights is None:
        return data
    counted = weights > 0
    return data.take(counted)._replace(log_weights=np.log(weights[counted]))


def sample_weights(data):
    """Return the weights of the rows of a batch, shape (n_rows,), or None."""
    return None if data.log_weights is None else np.exp(data.log_weights)


def hold_out(data, parameters, rng, *, fewest=1):
    """Split the rows into training rows and rows that early stopping scores.

    Parameters
    ----------
    data : Batch
    parameters : TrainingParameters
    rng : Generator
    fewest : int, default=1
        Number of rows from which on ``early_stopping="auto"`` holds rows out.

    Returns
    -------
    data : Batch
        The training rows.
    held_out : Batch or None
        None without early stopping.
    """
    n = data.X.shape[0]
    if not parameters.stops_early(n, fewest):
        return data, None
    n_held_out = max(1, round(parameters.validation_fraction * n))
    if n_held_out >= n:
        raise ValueError(
            f"early_stopping holds out rows, so it needs at least 2; got n_samples = {n}."
        )
    order = rng.permutation(n)
    return data.take(order[n_held_out:]), data.take(order[:n_held_out])
