"""Initial values of the parameters: models without interactions, and random weights."""

import numpy as np
from scipy.sparse import issparse

from .._utils.codes import MISSING
from .._utils.rows import (
    MappedRows,
    column_means,
    count_rows,
    count_states,
    has_missing,
    is_mapped,
)
from ..energies import FactorGraph, PairwiseEnergy

ROUNDING = 1e-10  # of a variance, relative to the mean square of a column
SMALLEST_SQUARE = 1e-20  # smaller mean squares are rounding errors of standardised columns


def independent_tables(layout, data, tie):
    """Return a model without interactions between columns.

    The log frequencies of each column are added to the first table that contains the column. Half a
    row is added to the count of each state.

    Parameters
    ----------
    layout : Layout
        Layout of the tables of the model.
    data : Batch
        Rows of state codes; -1 where an entry is missing.
    tie : list of lists of int or None
        Groups of cliques that share one table. If there are any, all log-potentials are zero.

    Returns
    -------
    FactorGraph
        Model.
    """
    flat = np.zeros(layout.n_parameters)
    if tie:
        return FactorGraph.from_layout(layout, flat)
    weights = np.ones(len(data.X)) if data.log_weights is None else np.exp(data.log_weights)
    ptr, cliques, _ = layout.incidence
    counts = count_states(data.X, layout.n_states, weights)
    for i in np.flatnonzero(np.diff(ptr)).tolist():
        q = int(layout.n_states[i])
        log_p = np.log((counts[i] + 0.5) / (counts[i].sum() + 0.5 * q))
        a = int(cliques[ptr[i]])
        start, shape = layout.table_start[a], layout.shape(a)
        table = flat[start : start + layout.table_size[a]].reshape(shape)
        axis = layout.cliques[a].index(i) if len(shape) > 1 else 0
        table += log_p.reshape([q if d == axis else 1 for d in range(len(shape))])
    return FactorGraph.from_layout(layout, flat)


def independent_columns(data, states):
    """Return a model without couplings.

    Parameters
    ----------
    data : Batch
        Rows of the codes 0 and 1; MISSING (-1) where an entry is missing.
    states : pair of float
        Values of the states with the codes 0 and 1.

    Returns
    -------
    PairwiseEnergy
        Model with the log odds of each column, and with half a pseudo-count for each state.
    """
    n, (low, high) = data.X.shape[1], states
    odds = log_odds(data.X, data.log_weights)
    return PairwiseEnergy(np.zeros((n, n)), odds / (high - low), states)


def log_odds(codes, log_weights=None):
    """Return the log odds of state 1 against state 0 in each column.

    Parameters
    ----------
    codes : ndarray or sparse matrix of shape (n_rows, n_variables)
        State codes 0 and 1; -1 where an entry is missing.
    log_weights : ndarray of shape (n_rows,), optional
        Logarithms of the row weights. By default all weights are 1.

    Returns
    -------
    ndarray of shape (n_variables,)
        Log odds in nats. Half a row is added to the count of each state.
    """
    weights = None if log_weights is None else np.exp(log_weights)
    n_ones = count_rows(codes, 1, weights)
    n_missing = count_rows(codes, MISSING, weights) if has_missing(codes) else 0
    total = codes.shape[0] if weights is None else weights.sum()
    n_zeros = np.maximum(total - n_ones - n_missing, 0.0)
    return np.log((n_ones + 0.5) / (n_zeros + 0.5))


def column_log_odds(X, log_weights=None):
    """Return the log odds of the columns as :func:`log_odds`, also of rows of probabilities."""
    if X.dtype.kind != "f":
        return log_odds(X, log_weights)
    n_rows = X.shape[0] if log_weights is None else float(np.exp(log_weights).sum())
    n_ones = n_rows * column_means(X, log_weights)
    return np.log((n_ones + 0.5) / (np.maximum(n_rows - n_ones, 0.0) + 0.5))


def conditional_layers(data, n_hidden, rng):
    """Return initial parameters of a conditional restricted Boltzmann machine.

    Parameters
    ----------
    data : Batch
        Training rows: inputs ``X`` and targets ``Y``.
    n_hidden : int
        Number of hidden units.
    rng : Generator
        Random numbers of the weights.

    Returns
    -------
    dict of str to ndarray
        Parameters of :class:`~skmrf.energies.ConditionalBipartiteEnergy`. The weights of hidden
        units are random, so that hidden units differ. Their inputs change the log odds of a hidden
        unit by about 1, whatever the variance of the inputs.
    """
    n_inputs, n_visible = data.X.shape[1], data.Y.shape[1]
    variance = _total_variance(data.X, data.log_weights)
    return {
        "weights": _random_weights(rng, (n_visible, n_hidden), max(n_visible, n_hidden)),
        "visible_inputs": np.broadcast_to(np.float32(0), (n_inputs, n_visible)),
        "hidden_inputs": _random_weights(rng, (n_inputs, n_hidden), variance or n_inputs),
        "visible_bias": log_odds(data.Y, data.log_weights),
        "hidden_bias": np.zeros(n_hidden),
    }


def _total_variance(X, log_weights):
    """Return the sum of the variances of all columns, also of a sparse matrix."""
    if is_mapped(X):
        squares = MappedRows(X, convert=np.square)
    else:
        squares = X.multiply(X).tocsr() if issparse(X) else X * X
    means, squares = column_means(X, log_weights), column_means(squares, log_weights)
    variances = squares - means**2
    return float(variances[variances > ROUNDING * np.maximum(squares, SMALLEST_SQUARE)].sum())


def _random_weights(rng, shape, total):
    """Draw normal random weights with variance ``1 / total``."""
    return rng.normal(0.0, 1.0 / np.sqrt(total or 1.0), size=shape).astype(np.float32)
