"""Densities of the classes of a classifier: common parameters, short fits and imputation."""

import warnings
from copy import copy

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ...learners.initial_mixture import impute_normal
from .gaussian_base import pooled_covariance, select_class_shrinkage
from .graph import resolve_edges

N_IMPUTATIONS = 100  # of each row with missing entries
BLOCK_SIZE = 1024  # rows that are imputed together, to bound memory


def density_parameters(graph, table):
    """Return the common parameters of the class densities, computed from all rows.

    Parameters
    ----------
    graph : {"complete", "tree", "grid", "knn", "empty"}, networkx.Graph or list of pairs
        Parameter of the classifier.
    table : Table
        Training rows of all classes.

    Returns
    -------
    dict
        Parameters of :class:`NNMRFDensity`.
    """
    columns = table.columns
    rows = table.rows[:, columns.continuous]
    parameters = {
        "potentials": "network",
        "column_types": np.where(columns.n_states, "categorical", "continuous").tolist(),
        "categories": [np.arange(float(len(c))) for c in columns.categories],
    }
    if not isinstance(graph, str):
        parameters["graph"] = resolve_edges(graph, None, columns.names).tolist()
    return parameters | _common_covariance(rows, table.labels, table.weights)


def _common_covariance(X, labels, weights):
    """Return the pooled within-class covariance, and the weight of shrinkage towards it."""
    weights = np.ones(len(X)) if weights is None else weights
    X, numbers, rng = X.copy(), np.zeros(X.shape[1], int), np.random.default_rng(0)
    for k in range(labels.max() + 1):
        here = labels == k
        X[here] = impute_normal(X[here], numbers, weights[here] / weights[here].sum(), rng)
    pooled = pooled_covariance(X, labels, weights)
    share = select_class_shrinkage(X, labels, weights, pooled)
    return {"prior_covariance": pooled, "shrinkage": share}


def fit_density_briefly(density, rows, y, weights):
    """Fit a copy of the density for one epoch.

    The given density is not changed, because another thread may still train it.
    """
    density = clone(density).set_params(max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return density.fit(rows, y, sample_weight=weights)


def make_class_imputer(table, densities):
    """Return a function that imputes the missing entries of the training rows.

    Parameters
    ----------
    table : Table
        Training rows of all classes.
    densities : list of NNMRFDensity
        Density of each class.

    Returns
    -------
    callable
        ``Generator -> ndarray of shape (n_rows, n_columns)``. Each call draws new imputations.
    """
    has_missing = np.isnan(table.rows).any(axis=1)
    logs = class_log_joint(densities, np.log(table.shares), table.rows[has_missing])

    def impute(rng):
        full = table.rows.copy()
        full[has_missing] = impute_rows(densities, logs, table.rows[has_missing], rng)
        return full

    return impute


def class_log_joint(densities, log_prior, rows):
    """Return ``log p(x, y)`` of each row and each class, shape (n_rows, n_classes)."""
    if not len(rows):
        return np.empty((0, len(densities)))
    return np.stack([density.score_samples(rows) for density in densities], axis=1) + log_prior


def impute_rows(densities, log_joint, rows, rng):
    """Impute missing entries: draw a class by Bayes' rule, then entries from its mixture.

    The mixture approximates the density of the class. Draws from the model itself
    (``density="mrf"``) would take a hundred times as long.

    Parameters
    ----------
    densities : list of NNMRFDensity
        Density of each class.
    log_joint : ndarray of shape (n_rows, n_classes)
        Result of :func:`class_log_joint` for the rows.
    rows : ndarray of shape (n_rows, n_columns)
        Encoded rows, with nan for missing entries.
    rng : Generator
        Random numbers of the draws.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Complete rows.
    """
    out = rows.copy()
    drawn = np.argmax(log_joint + rng.gumbel(size=log_joint.shape), axis=1)
    for y in np.unique(drawn):
        here = drawn == y
        mixture = copy(densities[y]).set_params(density="mixture")
        full = mixture.sample(int(here.sum()), given=rows[here], random_state=rng)
        out[here] = np.where(np.isnan(rows[here]), full, rows[here])
    return out


def mean_log_proba(ensemble, densities, log_prior, rows, rng):
    """Return the log of the ensemble's ``p(y | x)``, averaged over imputations of missing entries.

    The result has shape (n_rows, n_classes).
    """
    has_missing = np.isnan(rows).any(axis=1)
    out = np.empty((len(rows), len(densities)))
    out[~has_missing] = ensemble.log_proba(rows[~has_missing])
    places = np.flatnonzero(has_missing)
    for s in range(0, len(places), BLOCK_SIZE):
        here = places[s : s + BLOCK_SIZE]
        joint = class_log_joint(densities, log_prior, rows[here])
        copies = (np.repeat(v, N_IMPUTATIONS, axis=0) for v in (joint, rows[here]))
        logs = ensemble.log_proba(impute_rows(densities, *copies, rng))
        means = np.logaddexp.reduce(logs.reshape(len(here), N_IMPUTATIONS, -1), axis=1)
        out[here] = means - np.log(N_IMPUTATIONS)
    return out
