"""First beliefs: clusters of the training rows."""

from dataclasses import replace

import numpy as np

from .._utils.log_weights import normalized_weights
from ..variational.mixtures import Mixture

N_CLUSTERED = 2000  # rows, at most, that clusters are found by
N_TURNS = 10  # of drawing what is missing and fitting
SHRINKAGE = 5.0  # rows that the base counts for in the covariances of clusters


def first_mixture(energy, batch, n_components, diagonal, rng):
    """Clusters of the rows, with covariances shrunk towards the base."""
    weights = normalized_weights(batch.log_weights, len(batch.X))
    rows = completed(batch.X, energy.n_states, weights, rng)
    labels = _labels(rows, weights, n_components, rng)
    parts = [
        _component(energy, rows, weights * (labels == k), labels.max() + 1, diagonal)
        for k in range(labels.max() + 1)
    ]
    counts, means, covariances, tables = (np.array(p) for p in zip(*parts, strict=True))
    log_weights = np.log(counts + 1.0) - np.log((counts + 1.0).sum())
    return Mixture(energy.n_states, log_weights, means, covariances, tables)


def normal_beliefs(energy):
    """Beliefs of the base alone: its Gaussian, and all states alike.

    Parameters
    ----------
    energy : NeuralEnergy

    Returns
    -------
    Mixture
        Of one component.
    """
    n = len(energy.mean)
    d, q = int((energy.n_states > 0).sum()), energy.n_slots
    empty = Mixture(
        energy.n_states, np.zeros(0), np.zeros((0, n)), np.zeros((0, n, n)), np.zeros((0, d, q))
    )
    return replace(empty.defended(energy.mean, energy.covariance), log_weights=np.zeros(1))


def completed(X, n_states, weights, rng):
    """Rows with what is missing drawn from one component that fits them.

    Draws and fits take turns, so that covariances are those of complete rows.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_variables)
        Numbers, and state codes of categories; nan where an entry is missing.
    n_states : ndarray of int of shape (n_variables,)
        Of every category its states; 0 of numbers.
    weights : ndarray of shape (n_rows,)
        Of the rows, of sum 1.
    rng : Generator

    Returns
    -------
    ndarray of shape (n_rows, n_variables)
        X itself where nothing is missing.
    """
    if not np.isnan(X).any():
        return X
    numbers, discrete = np.flatnonzero(n_states == 0), np.flatnonzero(n_states)
    tables = np.zeros((1, len(discrete), int(max(n_states.max(initial=1), 1))))
    for d, i in enumerate(discrete):
        seen = ~np.isnan(X[:, i])
        counts = np.bincount(X[seen, i].astype(int), weights[seen], n_states[i]) + 1e-9
        tables[0, d, : n_states[i]] = counts / counts.sum()
    mean, covariance = np.zeros(len(numbers)), np.eye(len(numbers))
    for _ in range(N_TURNS):
        guess = Mixture(n_states, np.zeros(1), mean[None], covariance[None], tables)
        full = guess.fill(X, rng)
        mean = weights @ full[:, numbers]
        centred = full[:, numbers] - mean
        covariance = (weights[:, None] * centred).T @ centred + 1e-6 * np.eye(len(numbers))
    return full


def _labels(X, weights, n_components, rng):
    from sklearn.cluster import KMeans  # takes long to import

    n = min(n_components, len(np.unique(X, axis=0)))
    if n < 2:
        return np.zeros(len(X), int)
    some = rng.choice(len(X), N_CLUSTERED, p=weights) if len(X) > N_CLUSTERED else slice(None)
    found = KMeans(n, random_state=int(rng.integers(2**31)))
    found.fit(X[some], sample_weight=None if len(X) > N_CLUSTERED else weights)
    return np.unique(found.predict(X), return_inverse=True)[1]


def _component(energy, X, weights, n_clusters, diagonal):
    """Rows that count, mean, covariance and tables of a cluster."""
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
