"""Initial values: models of independent columns."""

import numpy as np
from scipy.sparse import issparse

from .._utils.codes import MISSING


def independent_start(layout, codes, tie, log_weights=None):
    """Return the log frequencies of every column, in the first table that holds the column.

    Parameters
    ----------
    layout : Layout
    codes : ndarray of shape (n_rows, n_variables)
        State codes; -1 where an entry is missing.
    tie : list of lists of int or None
        Groups of cliques that share one table. If given, all tables start at zero.
    log_weights : ndarray of shape (n_rows,), optional

    Returns
    -------
    ndarray of shape (n_parameters,)
        Log-potentials of all tables, concatenated. Half a row is added to every count.
    """
    weights = np.ones(len(codes)) if log_weights is None else np.exp(log_weights)
    flat = np.zeros(layout.n_parameters)
    if tie:
        return flat
    ptr, cliques, _ = layout.incidence
    for i in np.flatnonzero(np.diff(ptr)).tolist():
        q = int(layout.n_states[i])
        observed = codes[:, i] != MISSING
        counts = np.bincount(codes[observed, i], weights[observed], minlength=q)
        log_p = np.log((counts + 0.5) / (counts.sum() + 0.5 * q))
        a = int(cliques[ptr[i]])
        start, shape = layout.table_start[a], layout.shape(a)
        table = flat[start : start + layout.table_size[a]].reshape(shape)
        axis = layout.cliques[a].index(i) if len(shape) > 1 else 0
        table += log_p.reshape([q if d == axis else 1 for d in range(len(shape))])
    return flat


def log_odds(codes, log_weights=None):
    """Return the log odds of code 1 against 0 in every column, with half a row added to each.

    Parameters
    ----------
    codes : ndarray or sparse matrix of shape (n_rows, n_variables)
        State codes 0 and 1; -1 where an entry is missing.
    log_weights : ndarray of shape (n_rows,), optional

    Returns
    -------
    ndarray of shape (n_variables,)
        In nats.
    """
    up, absent = (_count_rows(codes == code, log_weights) for code in (1, MISSING))
    total = codes.shape[0] if log_weights is None else np.exp(log_weights).sum()
    return np.log((up + 0.5) / (np.maximum(total - up - absent, 0.0) + 0.5))


def _count_rows(mask, log_weights):
    """Return the number of marked rows of every column, or their weight."""
    if log_weights is None:
        return np.asarray(mask.sum(axis=0)).ravel()
    weights = np.exp(log_weights)
    return weights @ mask if issparse(mask) else np.einsum("i,ij->j", weights, mask)
