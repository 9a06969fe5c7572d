"""Labelled rows and small ensembles for the tests of label networks."""

import functools

import numpy as np

from skmrf import NNMRFClassifier
from skmrf.energies import NeuralEnergy
from skmrf.energies.neural_labels import NeuralLabels

SMALL = {"node_layers": (3,), "edge_layers": (3,), "max_iter": 20, "random_state": 0}
CASES = {
    "numbers": ([0, 0, 0], [(0, 1), (2, 1)]),
    "mixed": ([0, 3, 0, 2], [(0, 1), (2, 0), (1, 3)]),
    "states": ([2, 3, 4], [(0, 1), (2, 1)]),
    "no edges": ([0, 2], []),
}


def classes(*args, **parameters):
    return NNMRFClassifier(*args, **SMALL | parameters)


def labelled(case, seed, n=23, n_labels=3):
    """Return a model far from its initial values, with rows and labels."""
    n_states, edges = CASES[case]
    rng = np.random.default_rng(seed)
    networks = NeuralEnergy.random(
        n_states, edges, node_layers=(3, 2), edge_layers=(4,), random_state=rng
    )
    model = NeuralLabels.random(networks, n_labels, 2.0, random_state=rng)
    theta = {k: v + rng.normal(0, 0.5, v.shape) for k, v in model.theta.items()}
    X = np.stack([rng.normal(size=n) if q == 0 else rng.integers(0, q, n) for q in n_states], 1)
    return model.with_theta(theta), X, rng.integers(0, n_labels, n)


def rings(n, seed):
    """Return points on a ring, and points off it with the same mean and covariance."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    y = np.resize([0, 1], n)
    radius = np.where(y, 2.0, 2.0 * np.sqrt(2) * rng.integers(0, 2, n))
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1) * radius[:, None]
    return X + 0.3 * rng.normal(size=(n, 2)), y


def kinds(n, seed):
    """Return a continuous and several categorical columns, each related to the label."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.resize(["big", "big", "little"], n))
    kind = np.where(y == "big", rng.integers(1, 3, n), rng.integers(0, 2, n))
    X = np.stack([rng.normal(size=n) + (y == "big") + 0.5 * kind, kind], axis=1)
    return X, y


@functools.lru_cache
def fitted(kind, seed):
    """Return a fitted ensemble, which is cached and must not be changed."""
    make, categorical = {"rings": (rings, None), "kinds": (kinds, [1])}[kind]
    X, y = make(150, seed)
    model = classes(categorical_features=categorical, max_iter=40, random_state=seed)
    return model.fit(X, y, sample_weight=np.where(y == y[0], 1.0, 1.5))
