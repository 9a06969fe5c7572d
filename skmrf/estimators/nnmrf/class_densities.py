"""Densities of classes: their common parameters, their fits and completions of rows by them."""

import warnings
from copy import copy

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ...learners.initial_mixture import completed
from .gaussian_base import class_shrinkage, pooled_covariance
from .graph import edges_of

N_FILLS = 100  # completions of a row with gaps
ROWS = 1024  # with gaps, at a time


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


def fit_density_briefly(density, rows, y, weights):
    """Fit a copy of the density for one epoch, as a thread may still be training the density."""
    density = clone(density).set_params(max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return density.fit(rows, y, sample_weight=weights)


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


def class_log_joint(densities, log_prior, rows):
    """Log of prior times density of every class, shape (n_rows, n_classes)."""
    if not len(rows):
        return np.empty((0, len(densities)))
    return np.stack([density.score_samples(rows) for density in densities], axis=1) + log_prior


def completed_rows(densities, log_joint, rows, rng):
    """Rows with what is missing drawn given the rest: a class by Bayes' rule, then by its beliefs.

    Draws of the model itself, ``density="mrf"``, would cost a hundred times as much.

    Parameters
    ----------
    densities : list of NNMRFDensity
    log_joint : ndarray of shape (n_rows, n_classes)
        Of the rows, see :func:`class_log_joint`.
    rows : ndarray of shape (n_rows, n_columns)
    rng : Generator
    """
    out = rows.copy()
    drawn = np.argmax(log_joint + rng.gumbel(size=log_joint.shape), axis=1)
    for y in np.unique(drawn):
        here = drawn == y
        beliefs = copy(densities[y]).set_params(density="mixture")
        full = beliefs.sample(int(here.sum()), given=rows[here], random_state=rng)
        out[here] = np.where(np.isnan(rows[here]), full, rows[here])
    return out


def mean_log_proba(ensemble, densities, log_prior, rows, rng):
    """``log p(y | x)``, of rows with gaps the mean over completions, shape (n_rows, n_classes)."""
    gaps = np.isnan(rows).any(axis=1)
    out = np.empty((len(rows), len(densities)))
    out[~gaps] = ensemble.log_proba(rows[~gaps])
    places = np.flatnonzero(gaps)
    for s in range(0, len(places), ROWS):
        here = places[s : s + ROWS]
        joint = class_log_joint(densities, log_prior, rows[here])
        copies = (np.repeat(v, N_FILLS, axis=0) for v in (joint, rows[here]))
        logs = ensemble.log_proba(completed_rows(densities, *copies, rng))
        means = np.logaddexp.reduce(logs.reshape(len(here), N_FILLS, -1), axis=1)
        out[here] = means - np.log(N_FILLS)
    return out
