"""Initial mixture approximation of a model, from clusters of the training rows."""

from dataclasses import replace

import numpy as np

from .._utils.log_weights import normalized_weights
from ..variational.mixtures import Mixture

MAX_CLUSTERING_ROWS = 2000
N_IMPUTATIONS = 10
SHRINKAGE = 5.0  # weight, in rows, of the covariance of the base in that of a cluster


def first_mixture(energy, batch, n_components, diagonal, rng):
    """Return a Gaussian mixture with one component for each cluster of training rows.

    The covariance of each component is shrunk towards the covariance of the Gaussian base.
    """
    weights = normalized_weights(batch.log_weights, len(batch.X))
    rows = impute_normal(batch.X, energy.n_states, weights, rng)
    labels = _cluster_labels(rows, weights, n_components, rng)
    parts = [
        _estimate_component(energy, rows, weights * (labels == k), labels.max() + 1, diagonal)
        for k in range(labels.max() + 1)
    ]
    counts, means, covariances, tables = (np.array(p) for p in zip(*parts, strict=True))
    log_weights = np.log(counts + 1.0) - np.log((counts + 1.0).sum())
    return Mixture(energy.n_states, log_weights, means, covariances, tables)


def normal_beliefs(energy):
    """Return a mixture with one component: a model's Gaussian base, and uniform discrete variables.

    Parameters
    ----------
    energy : NeuralEnergy
        Model with the base.

    Returns
    -------
    Mixture
        Gaussian of the continuous variables, and uniform states of the categorical ones.
    """
    n = len(energy.mean)
    d, q = int((energy.n_states > 0).sum()), energy.n_slots
    empty = Mixture(
        energy.n_states, np.zeros(0), np.zeros((0, n)), np.zeros((0, n, n)), np.zeros((0, d, q))
    )
    return replace(
        empty.with_defensive_component(energy.mean, energy.covariance), log_weights=np.zeros(1)
    )


def impute_normal(X, n_states, weights, rng, shrinkage=0.0):
    """Impute missing entries by draws from one mixture component that is fitted to the rows.

    Draws and fits alternate, so that the covariance is estimated from imputed rows.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_variables)
        Values of continuous variables and state codes of categorical ones; nan where an entry is
        missing.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each categorical variable; 0 for continuous variables.
    weights : ndarray of shape (n_rows,)
        Row weights, which sum to 1.
    rng : Generator
        Source of random numbers.
    shrinkage : float, default=0
        Weight of its diagonal in the covariance of the component.

    Returns
    -------
    ndarray of shape (n_rows, n_variables)
        Rows without missing entries; X itself if nothing is missing.
    """
    if not np.isnan(X).any():
        return X
    numbers, discrete = np.flatnonzero(n_states == 0), np.flatnonzero(n_states)
    tables = np.zeros((1, len(discrete), int(max(n_states.max(initial=1), 1))))
    for d, i in enumerate(discrete):
        observed = ~np.isnan(X[:, i])
        counts = np.bincount(X[observed, i].astype(int), weights[observed], n_states[i]) + 1e-9
        tables[0, d, : n_states[i]] = counts / counts.sum()
    mean, covariance = np.zeros(len(numbers)), np.eye(len(numbers))
    for _ in range(N_IMPUTATIONS):
        component = Mixture(n_states, np.zeros(1), mean[None], covariance[None], tables)
        full = component.impute(X, rng)
        mean = weights @ full[:, numbers]
        centred = full[:, numbers] - mean
        covariance = (weights[:, None] * centred).T @ centred + 1e-6 * np.eye(len(numbers))
        covariance += shrinkage * (np.diag(np.diag(covariance)) - covariance)
    return full


def _cluster_labels(X, weights, n_components, rng):
    from sklearn.cluster import KMeans  # takes long to import

    n = min(n_components, len(np.unique(X, axis=0)))
    if n < 2:
        return np.zeros(len(X), int)
    is_large = len(X) > MAX_CLUSTERING_ROWS
    subset = rng.choice(len(X), MAX_CLUSTERING_ROWS, p=weights) if is_large else slice(None)
    clusters = KMeans(n, random_state=int(rng.integers(2**31)))
    clusters.fit(X[subset], sample_weight=None if is_large else weights)
    return np.unique(clusters.predict(X), return_inverse=True)[1]


def _estimate_component(energy, X, weights, n_clusters, diagonal):
    """Return the row count, mean, covariance and state probabilities of one cluster of rows."""
    count = weights.sum() * len(X)
    weights = weights / weights.sum()
    numbers = X[:, energy.numbers]
    mean = weights @ numbers
    spread = (weights[:, None] * (numbers - mean)).T @ (numbers - mean)
    base = energy.covariance / n_clusters ** (2 / max(len(mean), 1))
    covariance = (count * spread + SHRINKAGE * base) / (count + SHRINKAGE)
    discrete = np.flatnonzero(energy.n_states)
    tables = np.zeros((len(discrete), energy.n_slots))
    for d, i in enumerate(discrete):
        q = energy.n_states[i]
        p = np.bincount(X[:, i].astype(int), weights=weights, minlength=q)
        tables[d, :q] = (count * p + 1.0) / (count + q)
    return count, mean, np.diag(np.diag(covariance)) if diagonal else covariance, tables
