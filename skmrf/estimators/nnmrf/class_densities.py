"""Densities of the classes of a classifier: common parameters and short fits."""

import warnings

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ...learners.initial_mixture import impute_normal
from .gaussian_base import pooled_covariance, select_class_shrinkage
from .graph import resolve_edges


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


def class_log_joint(densities, log_prior, rows):
    """Return ``log p(x, y)`` of each row and each class, shape (n_rows, n_classes)."""
    if not len(rows):
        return np.empty((0, len(densities)))
    return np.stack([density.score_samples(rows) for density in densities], axis=1) + log_prior
