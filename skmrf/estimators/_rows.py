"""Sample weights, held-out rows for early stopping, and rows at which Markov chains start."""

import numpy as np

from .._utils.codes import MISSING
from .._utils.log_weights import check_sample_weight
from ..learners.base import draw_states

N_STARTS = 512  # rows at which reverse annealing chains of log Z start


def weighted_rows(data, sample_weight):
    """Return the rows with a positive weight as a batch, which also has the log weights.

    Parameters
    ----------
    data : Batch
        All rows, without weights.
    sample_weight : array-like of shape (n_rows,), or None
        Weight of each row. None means equal weights.

    Returns
    -------
    Batch
        Rows with positive weight.
    """
    weights = check_sample_weight(sample_weight, data.X.shape[0])
    if weights is None:
        return data
    counted = weights > 0
    return data.take(counted)._replace(log_weights=np.log(weights[counted]))


def sample_weights(data):
    """Return the row weights of a batch, shape (n_rows,), or None if all weights are equal."""
    return None if data.log_weights is None else np.exp(data.log_weights)


def hold_out(data, parameters, rng, *, min_rows=1):
    """Split the rows into training rows and held-out rows for early stopping.

    Parameters
    ----------
    data : Batch
        All rows.
    parameters : TrainingParameters
        Parameters of the estimator.
    rng : Generator
        Random numbers that select the held-out rows.
    min_rows : int, default=1
        Smallest number of rows with which ``early_stopping="auto"`` holds rows out.

    Returns
    -------
    data : Batch
        Training rows.
    held_out : Batch or None
        Held-out rows. None without early stopping.
    """
    n = data.X.shape[0]
    if not parameters.stops_early(n, min_rows):
        return data, None
    n_held_out = max(1, round(parameters.validation_fraction * n))
    if n_held_out >= n:
        raise ValueError(
            f"early_stopping holds out rows, so X must have at least 2 rows; got n_samples = {n}."
        )
    order = rng.permutation(n)
    return data.take(order[n_held_out:]), data.take(order[:n_held_out])


def complete_states(rows, rng):
    """Return the rows without missing entries, with states drawn from probabilities.

    Parameters
    ----------
    rows : Batch
        Rows of state codes, or of probabilities as floating-point numbers.
    rng : Generator
        Random numbers of the drawn states.

    Returns
    -------
    Batch
        Complete rows of state codes.
    """
    rows = rows._replace(X=draw_states(rows.X, rng))
    return rows.take((rows.X != MISSING).all(axis=1))


def random_states(data, rng):
    """Return states of random complete rows, at which reverse annealing chains start.

    Parameters
    ----------
    data : Batch
        Rows of state codes, or of probabilities as floating-point numbers.
    rng : Generator
        Random numbers that select the rows.

    Returns
    -------
    ndarray of shape (n_rows, n_columns) or None
        At most 512 rows; None if all of them have missing entries.
    """
    few = rng.permutation(data.X.shape[0])[:N_STARTS]
    states = complete_states(data.take(few), rng).X
    return states if len(states) else None


def rows_of_log_partition(data, rng):
    """Return fitted attributes for the estimate of log Z.

    They are rows at which reverse annealing chains start, and the number of training rows.
    """
    return {"_starts": random_states(data, rng), "_n_rows": data.X.shape[0]}
