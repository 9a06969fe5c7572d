"""Data and small models for the tests of NNMRFDensity and NNMRFBayesClassifier."""

import functools

import numpy as np
import pytest

from skmrf import NNMRFBayesClassifier, NNMRFDensity
from skmrf.learners import Grid

SMALL = {
    "node_layers": (3,),
    "edge_layers": (3,),
    "max_iter": 3,
    "random_state": 0,
}
DENSITIES = "mixture", "mrf"
both = pytest.mark.parametrize("density", DENSITIES)
KINDS = np.array(["fern", "moss", "tree"], dtype=object)


def small(*args, **parameters):
    return NNMRFDensity(*args, **{"potentials": "network"} | SMALL | parameters)


def classes(*args, **parameters):
    return NNMRFBayesClassifier(*args, **SMALL | parameters)


def ring(n, seed):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.2 * rng.normal(size=(n, 2))
    return X * [1.0, 3.0] + [0.0, 5.0]


def plants(n, seed):
    """Return two columns: a continuous column that depends on a categorical column."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.resize(np.arange(3), n))
    return np.stack([3.0 * codes + rng.normal(size=n), codes], axis=1)


def line(n, seed, n_columns=2, correlation=0.9):
    """Return continuous columns, each correlated with the previous column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_columns))
    for j in range(1, n_columns):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
    return X


TABLES = {
    "one number": (lambda n, seed: ring(n, seed)[:, :1], "continuous"),
    "two numbers": (ring, "continuous"),
    "mixed": (plants, ["continuous", "categorical"]),
}


@functools.lru_cache
def learned(kind, density, seed):
    """Return a fitted NNMRFDensity with large networks; it is cached and must not be changed."""
    table, categorical = TABLES[kind]
    model = small(learner=Grid(31), optimizer="lbfgs", node_layers=(8,), edge_layers=(8,))
    model.set_params(density=density, column_types=categorical, max_iter=100)
    return model.set_params(random_state=seed).fit(table(150, seed))


def lattice(kind):
    """Return rows on a grid over the whole space, the volume of a cell, and the axes."""
    if kind == "mixed":
        axes = np.linspace(-20, 26, 2001), np.arange(3.0)
    elif kind == "one number":
        axes = (np.linspace(-12, 12, 4001),)
    else:
        axes = np.linspace(-9, 9, 301), np.linspace(-22, 32, 301)
    mesh = np.meshgrid(*axes, indexing="ij")
    steps = [axis[1] - axis[0] for axis in axes]
    return np.stack([x.ravel() for x in mesh], axis=1), np.prod(steps), axes


def with_gap(rows, column):
    rows = rows.copy()
    rows[:, column] = np.nan
    return rows


def base_of(model):
    """Return the mean and covariance of the Gaussian base in the units of the data."""
    scale, mean = model._columns.scale, model._columns.mean
    return mean + scale * model.energy_.mean, scale * model.energy_.covariance * scale[:, None]


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
    """Return a fitted NNMRFBayesClassifier; it is cached and must not be changed."""
    make, categorical = {"rings": (rings, "auto"), "kinds": (kinds, "auto")}[kind]
    X, y = make(150, seed)
    model = classes(column_types=categorical, max_iter=40, random_state=seed)
    return model.fit(X, y, sample_weight=np.where(y == y[0], 1.0, 1.5))
