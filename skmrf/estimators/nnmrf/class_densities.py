"""Densities of classes: their common parameters, their fits and completions of rows by them."""

import warnings

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..._data.mixed import DEGENERATE
from ...learners.initial_mixture import completed
from .gaussian_base import class_shrinkage, pooled_covariance
from .graph import edges_of
from .label_networks import class_log_joint, completed_rows


def density_parameters(graph, table):
    """Return the parameters of the densities that the rows of all classes determine.

    Parameters
    ----------
    graph : {"complete", "tree", "grid", "knn", "empty"}, networkx.Graph or list of pairs
    table : Table

    Returns
    -------
    dict
    """
    columns = table.columns
    rows = table.rows[:, columns.numbers]
    parameters = {
        "categorical_features": columns.discrete.tolist() or None,
        "categories": [np.arange(float(len(c))) for c in columns.categories],
    }
    if not isinstance(graph, str):
        parameters["graph"] = edges_of(graph, None, columns.names).tolist()
    return parameters | _common_covariance(rows, table.labels, table.weights)


def _common_covariance(X, labels, weights):
    """Return the covariance to which those of the classes are shrunk, and by how much."""
    weights = np.ones(len(X)) if weights is None else weights
    X, numbers, rng = X.copy(), np.zeros(X.shape[1], int), np.random.default_rng(0)
    for k in range(labels.max() + 1):
        here = labels == k
        X[here] = completed(X[here], numbers, weights[here] / weights[here].sum(), rng)
    pooled = pooled_covariance(X, labels, weights)
    share = class_shrinkage(X, labels, weights, pooled)
    return {"prior_covariance": pooled, "shrinkage": share}


def fit_density(density, rows, weights):
    """Fit the density of a class; its columns have no names, so it does not warn of any."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=DEGENERATE)
        return density.fit(rows, sample_weight=weights)


def fit_density_briefly(density, rows, weights):
    """Fit a copy of the density for one epoch, as a thread may still be training the density."""
    density = clone(density).set_params(max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit_density(density, rows, weights)


def class_completions(table, densities):
    """Return a function that draws the missing entries of the rows by the densities.

    Parameters
    ----------
    table : Table
    densities : list of NNMRFDensity

    Returns
    -------
    callable
        ``Generator -> ndarray of shape (n_rows, n_columns)``.
    """
    gaps = np.isnan(table.rows).any(axis=1)
    logs = class_log_joint(densities, np.log(table.shares), table.rows[gaps])

    def completions(rng):
        full = table.rows.copy()
        full[gaps] = completed_rows(densities, logs, table.rows[gaps], rng)
        return full

    return completions
