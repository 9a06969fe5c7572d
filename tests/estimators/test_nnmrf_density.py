"""Tests of densities, graphs and log Z of NNMRFDensity."""

import copy
import pickle

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from nnmrf_models import TABLES, both, classes, lattice, learned, line, ring, small
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from skmrf import NNMRFDensity

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# Densities --------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("kind", TABLES)
def test_densities_integrate_to_one(kind, density, seed):
    model = learned(kind, density, seed)
    rows, volume, _ = lattice(kind)
    assert np.exp(model.score_samples(rows)).sum() * volume == pytest.approx(1.0, abs=2e-3)


def test_networks_matter(seed):
    """Without networks, the other tests would be of Gaussians only."""
    model = learned("two numbers", "mrf", seed)
    X = ring(500, seed + 100)
    gaussian = copy.deepcopy(model)
    theta = {k: np.zeros_like(v) for k, v in model.energy_.theta.items()}
    gaussian.energy_, gaussian._cache = model.energy_.with_theta(theta), {}
    assert model.score(X) > gaussian.score(X) + 0.1


def test_four_columns_are_normalised_by_annealing(seed):
    """The integral is estimated by importance sampling from the mixture."""
    model = small(density="mrf", max_iter=30, random_state=seed).fit(line(150, seed, 4))
    assert model.log_partition_method_ == "ais"
    lower, upper = model.log_partition_interval_
    assert lower < model.log_partition_ < upper < lower + 1
    mixture = copy.deepcopy(model).set_params(density="mixture")
    X = mixture.sample(4000, random_state=seed)
    ratios = np.exp(model.score_samples(X) - mixture.score_samples(X))
    assert ratios.sum() ** 2 / (ratios**2).sum() > 400
    error = 5 * ratios.std() / np.sqrt(len(X)) + (upper - lower)
    assert ratios.mean() == pytest.approx(1.0, abs=error)


@both
@pytest.mark.parametrize(
    ("scale", "tolerance"), [(2.0**-10, 1e-6), (0.1, 0.05), (1e6, 0.05)], ids=str
)
def test_units_of_columns(density, scale, tolerance, seed):
    X = ring(100, seed)
    expected = small(density=density).fit(X).score_samples(X)
    one = small(density=density).fit(X * [scale, 1.0]).score_samples(X * [scale, 1.0])
    assert_allclose(one, expected - np.log(scale), atol=tolerance)
    both = small(density=density).fit(X * scale + 7 * scale).score_samples(X * scale + 7 * scale)
    assert_allclose(both, expected - 2 * np.log(scale), atol=max(tolerance, 1e-2))


@both
def test_samples_follow_the_density(density, seed):
    model = learned("two numbers", density, seed)
    rows, volume, _ = lattice("two numbers")
    p = np.exp(model.score_samples(rows)) * volume
    X = model.sample(2000 if density == "mixture" else 700, random_state=seed)
    for function in (lambda x: x, lambda x: x**2, lambda x: np.abs(x - [0, 5])):
        values = function(rows)
        mean = p @ values
        deviation = np.sqrt(p @ (values - mean) ** 2)
        off = np.abs(function(X).mean(axis=0) - mean)
        assert (off < 5 * deviation / np.sqrt(len(X)) + 0.01 * deviation).all()


def test_rows_far_away():
    X, y = load_iris(return_X_y=True)
    model = classes().fit(X, y)
    far = np.full((1, 4), 1e160)
    assert_allclose(model.predict_proba(far).sum(), 1.0)
    assert np.isfinite(model.score_samples(far)).all()
    density = small(density="mrf").fit(ring(60, 0))
    assert density.score_samples([[1e40, 0.0]])[0] < -1e9


def test_coarse_grids_are_replaced_by_annealing(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, 1))
    X = x + np.c_[np.zeros(300), 1e-3 * rng.normal(size=(300, 2))]
    model = small(density="mrf", max_iter=1).fit(X)
    assert model.log_partition_method_ == "ais"


# log Z ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "method"), [("one number", "grid"), ("two numbers", "grid"), ("mixed", "grid")]
)
def test_log_partition(kind, method, seed):
    model = learned(kind, "mrf", seed)
    assert model.log_partition_method_ == method
    lower, upper = model.log_partition_interval_
    assert lower <= model.log_partition_ <= upper < lower + 0.01
    again = pickle.loads(pickle.dumps(model))
    again._cache = {}
    assert again.log_partition_ == model.log_partition_


def test_log_partition_needs_a_fit():
    with pytest.raises(NotFittedError):
        _ = NNMRFDensity().log_partition_
    with pytest.raises(NotFittedError):
        _ = NNMRFDensity().edges_


# Graphs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "edges"),
    [
        ("tree", [[0, 1], [1, 2], [2, 3]]),
        ("empty", []),
        ("grid", [[0, 1], [0, 2], [1, 3], [2, 3]]),
        ("complete", [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]),
        ("knn", [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]),
        ([("b", "a"), ("d", "c")], [[0, 1], [2, 3]]),
        ([(3, 0)], [[0, 3]]),
        (nx.path_graph(["c", "a", "d"]), [[0, 2], [0, 3]]),
        (nx.star_graph(3), [[0, 1], [0, 2], [0, 3]]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@both
def test_graphs(graph, edges, density, seed):
    X = pd.DataFrame(line(120, seed, 4), columns=list("abcd"))
    model = small(graph, density=density).fit(X)
    assert model.edges_.tolist() == edges
    assert np.isfinite(model.score_samples(X)).all()
    assert model.sample(3, given={"b": 0.0}, random_state=0).shape == (3, 4)
    if graph != "empty":
        y = np.resize([0, 1], len(X))
        for part in classes(graph).fit(X, y).densities_:
            assert graph in ("tree", "knn") or part.edges_.tolist() == edges


def test_columns_of_an_empty_graph_are_independent(seed):
    model = small("empty", density="mrf", max_iter=20).fit(ring(100, seed))
    a, b, c, d = model.score_samples([[0.0, 4.0], [1.0, 4.0], [0.0, 7.0], [1.0, 7.0]])
    assert a - b == pytest.approx(c - d, abs=1e-4)
