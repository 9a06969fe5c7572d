"""Data and small models for the tests of RBMs, of neural potentials and of displays."""

import functools

import numpy as np
import pandas as pd
import pytest
import twins
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from zoo import CONDITIONAL_LEARNERS, LAYERED_LEARNERS

from skmrf import (
    CRF,
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFStructureLearner,
    NetworkPotentials,
    NNMRFBayesClassifier,
    NNMRFDensity,
)
from skmrf._utils.results import LogPartition
from skmrf.datasets import make_ising
from skmrf.inference import sample
from skmrf.learners import Grid
from skmrf.plot import (
    ChainsDisplay,
    CouplingGraphDisplay,
    CRFWeightsDisplay,
    FiltersDisplay,
    HistoryDisplay,
    LogPartitionDisplay,
    MomentsDisplay,
    RegularizationPathDisplay,
    StructurePathDisplay,
)
from skmrf.structure import RemovalWhileLearning

# RBM and CRBMStructuredPredictor -------------------------------------------------------------

SMALL = 50_000  # bytes, too few for an exact sum over 12 units
every = pytest.mark.parametrize("learner", LAYERED_LEARNERS)


def law(energy):
    """Return all visible states and their log-probabilities."""
    V, log_f = twins.visible_law(energy)
    return V, log_f - twins.log_sum(log_f)


def draws(energy, n_rows, seed):
    """Return exact samples of the visible units of a model."""
    V, log_p = law(energy)
    return V[np.random.default_rng(seed).choice(len(V), size=n_rows, p=np.exp(log_p))].astype(int)


def bits(n_rows=120, n_columns=12, seed=0):
    """Return noisy rows of zeros and ones; each row has one of two opposite patterns."""
    rng = np.random.default_rng(seed)
    half = np.arange(n_columns) < n_columns // 2
    X = np.where(rng.random((n_rows, 1)) < 0.5, half, ~half)
    return np.where(rng.random(X.shape) < 0.15, ~X, X).astype(int)


def quick(n_components=4, learner="pcd", max_iter=3, **parameters):
    parameters = {"alpha": 0.0, "batch_size": 50, "random_state": 0, **parameters}
    return RBM(n_components, learner, max_iter=max_iter, **parameters)


def assert_same(left, right):
    """Check that two fits are exactly equal."""
    for name in ("components_", "intercept_visible_", "intercept_hidden_"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    np.testing.assert_array_equal(left.hidden_means_, right.hidden_means_)
    np.testing.assert_array_equal(left.hidden_stds_, right.hidden_stds_)


MAX_MARGIN = "mssvm", "lssvm"
every_conditional = pytest.mark.parametrize("learner", CONDITIONAL_LEARNERS)


def quick_conditional(n_components=4, learner="mle-bp", max_iter=3, **parameters):
    """Return a small model; a given alpha saves its choice by held-out rows."""
    return CRBMStructuredPredictor(
        n_components, learner, max_iter=max_iter, **{"random_state": 0, "alpha": 0.01, **parameters}
    )


def some_alpha(learner):
    """Return a fixed alpha, except for one learner, whose tests also choose alpha."""
    return "auto" if learner == "lr" else 0.01


def tied(n_rows=150, n_outputs=8, seed=0):
    """Return inputs and outputs: outputs have one of two patterns, inputs are noisy copies."""
    rng = np.random.default_rng(seed)
    half = np.arange(n_outputs) < n_outputs // 2
    Y = np.where(rng.random((n_rows, 1)) < 0.5, half, ~half)
    X = np.where(rng.random(Y.shape) < 0.3, ~Y, Y)
    return X.astype(float), Y.astype(int)


def real(X, seed=0):
    """Add normal noise to binary inputs, so that they are real numbers."""
    return X + np.random.default_rng(seed).normal(0.0, 0.3, size=X.shape)


def assert_same_theta(left, right):
    """Check that two fits are exactly equal."""
    assert left.energy_.theta.keys() == right.energy_.theta.keys()
    for name, value in left.energy_.theta.items():
        assert_array_equal(value, right.energy_.theta[name])


def assert_close(left, right, atol=1e-4):
    """Check that two fits are equal up to rounding."""
    for name, value in left.energy_.theta.items():
        assert_allclose(value, right.energy_.theta[name], atol=atol)


# NNMRFDensity and NNMRFBayesClassifier -------------------------------------------------------

SMALL_NETWORKS = {
    "node_layers": (3,),
    "edge_layers": (3,),
    "max_iter": 3,
}
DENSITIES = "mixture", "mrf"
both = pytest.mark.parametrize("density", DENSITIES)
KINDS = np.array(["fern", "moss", "tree"], dtype=object)


def small(*args, **parameters):
    """Return an unfitted NNMRFDensity with small networks."""
    return _with_networks(NNMRFDensity, *args, **parameters)


def classes(*args, **parameters):
    """Return an unfitted NNMRFBayesClassifier with small networks."""
    return _with_networks(NNMRFBayesClassifier, *args, **parameters)


def _with_networks(kind, *args, **parameters):
    """Return an estimator, given its own parameters and those of its networks."""
    own = {k: v for k, v in parameters.items() if k in kind().get_params(deep=False)}
    given = SMALL_NETWORKS | {k: v for k, v in parameters.items() if k not in own}
    return kind(NetworkPotentials(*args, **given), **{"random_state": 0} | own)


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
    networks = {"optimizer": "lbfgs", "node_layers": (8,), "edge_layers": (8,), "max_iter": 100}
    model = small(learner=Grid(31), density=density, **networks, column_types=categorical)
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


# Displays ------------------------------------------------------------------------------------

NAMES = ["north", "east", "south", "west"]
SINGLE = LogPartition(1.0, 0.1, 0.5, 2.0, True, "ais", True)


def spins(n_rows=400):
    """Return rows of four spins in a ring with one negative coupling."""
    coupling = [0.6, -0.5, 0.4, 0.5]
    energy = make_ising("cycle", n_variables=4, coupling=coupling)
    return sample(energy, n_rows, random_state=0)


def sequences():
    """Return sequences in which label 1 follows label 0 and 0 follows 1, with two features."""
    y = [np.arange(start, start + 6) % 2 for start in (0, 1, 1)]
    return [np.stack([2.0 * v, np.ones(6)], axis=1) for v in y], y


def digits():
    return (load_digits().data[:200] > 7.5).astype(int)


def displayed_models():
    """Return one fitted estimator of each class that a display accepts."""
    X, ink = spins(), digits()
    return {
        "discrete": DiscreteMRF(learner="psmc", max_iter=8, random_state=0).fit(
            pd.DataFrame(X, columns=NAMES)
        ),
        "boltzmann": BoltzmannMachine("exact", binarize=0.5).fit(X),
        "rbm": RBM(5, "pcd", alpha=0.01, max_iter=3, random_state=0).fit(ink),
        "crbm": CRBMStructuredPredictor(4, "mssvm", alpha=0.01, max_iter=2, random_state=0).fit(
            ink, ink[:, :12].reshape(-1, 3, 4)
        ),
        "crf": CRF(alpha=0.1, max_iter=20).fit(*sequences()),
        "structure": MRFStructureLearner(
            search=RemovalWhileLearning(0.3, 30), max_iter=60, random_state=0
        ).fit(pd.DataFrame(X, columns=NAMES)),
        "density": NNMRFDensity(NetworkPotentials(learner="grid", max_iter=2), random_state=0).fit(
            np.random.default_rng(0).normal(size=(50, 2))
        ),
    }


ROWS = {"discrete": lambda: pd.DataFrame(spins(), columns=NAMES), "boltzmann": spins, "rbm": digits}
TAKES = {
    HistoryDisplay: ("discrete", "boltzmann", "rbm", "crbm", "structure", "density", "crf"),
    MomentsDisplay: ("discrete", "boltzmann", "rbm"),
    CouplingGraphDisplay: ("discrete", "boltzmann", "structure"),
    FiltersDisplay: ("rbm", "crbm"),
    CRFWeightsDisplay: ("crf",),
    ChainsDisplay: ("discrete", "boltzmann", "rbm"),
    LogPartitionDisplay: ("discrete", "boltzmann", "rbm", "density"),
    RegularizationPathDisplay: ("discrete",),
    StructurePathDisplay: ("structure",),
}
CHEAP = {
    MomentsDisplay: {"n_samples": 50, "random_state": 0},
    ChainsDisplay: {"n_sweeps": 20, "betas": 3, "random_state": 0},
}


def draw(display, model, name, **how):
    rows = (ROWS[name](),) if display is MomentsDisplay else ()
    return display.from_estimator(model, *rows, **(CHEAP.get(display, {}) | how))
