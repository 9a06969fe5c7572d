"""NNMRFDensity and NNMRFClassifier as their users meet them."""

import copy
import functools
import pickle
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skmrf import NNMRFClassifier, NNMRFDensity
from skmrf._gaussians import pooled_covariance
from skmrf._types import Batch
from skmrf.energies import NeuralEnergy
from skmrf.learners import Grid, Variational
from skmrf.nnmrf import FEWEST

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SMALL = {"node_layers": (3,), "edge_layers": (3,), "max_iter": 3, "random_state": 0}
DENSITIES = "mixture", "mrf"
both = pytest.mark.parametrize("density", DENSITIES)
KINDS = np.array(["fern", "moss", "tree"], dtype=object)


def small(*args, **parameters):
    return NNMRFDensity(*args, **SMALL | parameters)


def classes(*args, **parameters):
    return NNMRFClassifier(*args, **SMALL | parameters)


def ring(n, seed):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.2 * rng.normal(size=(n, 2))
    return X * [1.0, 3.0] + [0.0, 5.0]


def plants(n, seed):
    """Heights, of which every kind has its own."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.resize(np.arange(3), n))
    return np.stack([3.0 * codes + rng.normal(size=n), codes], axis=1)


def line(n, seed, n_columns=2, correlation=0.9):
    """Numbers of which each depends on the one before."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_columns))
    for j in range(1, n_columns):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
    return X


TABLES = {
    "one number": (lambda n, seed: ring(n, seed)[:, :1], None),
    "two numbers": (ring, None),
    "mixed": (plants, [1]),
}


@functools.lru_cache
def learned(kind, density, seed):
    """A model whose networks matter; not to be changed."""
    table, categorical = TABLES[kind]
    model = small(learner=Grid(31), optimizer="lbfgs", node_layers=(8,), edge_layers=(8,))
    model.set_params(density=density, categorical_features=categorical, max_iter=100)
    return model.set_params(random_state=seed).fit(table(150, seed))


def lattice(kind):
    """Rows all over the space, and the volume that each stands for."""
    if kind == "mixed":
        axes = np.linspace(-20, 26, 2001), np.arange(3.0)
    elif kind == "one number":
        axes = (np.linspace(-12, 12, 4001),)
    else:
        axes = np.linspace(-9, 9, 301), np.linspace(-22, 32, 301)
    mesh = np.meshgrid(*axes, indexing="ij")
    steps = [axis[1] - axis[0] for axis in axes]
    return np.stack([x.ravel() for x in mesh], axis=1), np.prod(steps), axes


# Densities ---------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("kind", TABLES)
def test_densities_integrate_to_one(kind, density, seed):
    model = learned(kind, density, seed)
    rows, volume, _ = lattice(kind)
    assert np.exp(model.score_samples(rows)).sum() * volume == pytest.approx(1.0, abs=2e-3)


def test_networks_matter(seed):
    """Without them the tests here would be of Gaussians."""
    model = learned("two numbers", "mrf", seed)
    X = ring(500, seed + 100)
    gaussian = copy.deepcopy(model)
    theta = {k: np.zeros_like(v) for k, v in model.energy_.theta.items()}
    gaussian.energy_, gaussian._cache = model.energy_.with_theta(theta), {}
    assert model.score(X) > gaussian.score(X) + 0.1


def test_four_numbers_are_normalised_by_annealing(seed):
    """By importance sampling from the mixture."""
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
def test_draws_are_of_the_density(density, seed):
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


# Missing entries ---------------------------------------------------------------------------


def with_gap(rows, column):
    rows = rows.copy()
    rows[:, column] = np.nan
    return rows


def by_integration(model, kind, rows, column):
    """Log density of rows without a column."""
    _, _, axes = lattice(kind)
    axis = axes[column]
    step = axis[1] - axis[0]
    out = []
    for row in rows:
        filled = np.tile(row, (len(axis), 1))
        filled[:, column] = axis
        out.append(np.log(np.exp(model.score_samples(filled)).sum() * step))
    return np.array(out)


@pytest.mark.parametrize(("kind", "column"), [("two numbers", 0), ("two numbers", 1),
                                              ("mixed", 0), ("mixed", 1)])  # fmt: skip
def test_missing_entries_are_integrated_out_of_mixtures(kind, column, seed):
    model = learned(kind, "mixture", seed)
    rows = TABLES[kind][0](15, seed + 1)
    found = model.score_samples(with_gap(rows, column))
    assert_allclose(found, by_integration(model, kind, rows, column), atol=2e-3)
    empty = np.full((2, rows.shape[1]), np.nan)
    assert_allclose(model.score_samples(empty), 0.0, atol=1e-9)


@pytest.mark.parametrize(("kind", "column"), [("two numbers", 0), ("two numbers", 1),
                                              ("mixed", 0), ("mixed", 1)])  # fmt: skip
def test_missing_entries_are_integrated_out_of_models(kind, column, seed):
    """By importance sampling. All rows take the same random numbers, so seeds are compared."""
    model = copy.copy(learned(kind, "mrf", seed))
    rows = TABLES[kind][0](10, seed + 1)
    exact, found = by_integration(model, kind, rows, column), []
    for model._seed in range(20):
        found.append(model.score_samples(with_gap(rows, column)) - exact)
    found = np.array(found)
    assert np.abs(found).max() < 1.0
    off = found.mean(axis=1)
    assert abs(off.mean()) < 5 * off.std() / np.sqrt(len(off)) + found.var() + 2e-3


def test_complete_rows_do_not_depend_on_others(seed):
    model = learned("two numbers", "mrf", seed)
    rows = ring(10, seed + 1)
    mixed = np.concatenate([with_gap(rows, 1), rows])
    assert_allclose(model.score_samples(mixed)[10:], model.score_samples(rows), rtol=1e-6)


def test_rows_with_gaps_do_not_depend_on_others(seed):
    model = learned("two numbers", "mrf", seed)
    rows = with_gap(ring(10, seed + 1), 1)
    assert_allclose(model.score_samples(rows)[5:], model.score_samples(rows[5:]), rtol=1e-6)


@both
def test_missing_entries_while_fitting(density, seed):
    rng = np.random.default_rng(seed)
    X = line(200, seed, 3, 0.95)
    gaps = np.where(rng.random(X.shape) < 0.15, np.nan, X)
    model = small(density=density, max_iter=30, early_stopping=False).fit(gaps)
    apart = np.stack([rng.permutation(x) for x in X.T], axis=1)
    without = small(density=density, max_iter=30, early_stopping=False).fit(apart)
    held_out = line(500, seed + 50, 3, 0.95)
    assert model.score(held_out) > without.score(held_out) + 0.2
    assert np.isfinite(model.score_samples(gaps)).all()


def test_base_of_rows_with_gaps(seed):
    X = line(500, seed, 3, 0.9)
    gaps = np.where(np.random.default_rng(seed).random(X.shape) < 0.2, np.nan, X)
    assert_allclose(base_of(small().fit(gaps))[1], base_of(small().fit(X))[1], atol=0.12)


def test_missing_categories_while_fitting(seed):
    rng = np.random.default_rng(seed)
    codes = plants(120, seed)
    X = codes.astype(object)
    X[:, 1] = KINDS[codes[:, 1].astype(int)]
    X[rng.random(X.shape) < 0.2] = None
    model = small(categorical_features=[1]).fit(X)
    assert model.categories_[0].tolist() == KINDS.tolist()
    assert np.isfinite(model.score_samples(X)).all()


# Draws given some entries ------------------------------------------------------------------


@both
def test_given_entries_are_kept(density, seed):
    model = learned("two numbers", density, seed)
    X = model.sample(20, given={1: 6.0}, random_state=0)
    assert_allclose(X[:, 1], 6.0)
    assert len(np.unique(X[:, 0])) > 1
    given = np.array([[0.5, np.nan], [np.nan, 4.0], [np.nan, np.nan], [0.1, 7.0]])
    X = model.sample(4, given=given, random_state=0)
    assert not np.isnan(X).any()
    assert_allclose(X[~np.isnan(given)], given[~np.isnan(given)])
    assert_array_equal(X, model.sample(4, given=given, random_state=0))
    assert X.tolist() != model.sample(4, given=given, random_state=1).tolist()


@both
def test_draws_of_numbers_given_a_number(density, seed):
    model = learned("two numbers", density, seed)
    axis = np.linspace(-22, 32, 3001)
    p = np.exp(model.score_samples(np.stack([np.zeros_like(axis), axis], axis=1)))
    p /= p.sum()
    n = 1500 if density == "mixture" else 600
    X = model.sample(n, given={0: 0.0}, random_state=seed)[:, 1]
    for function in (lambda x: x, lambda x: np.abs(x - 5)):
        mean = p @ function(axis)
        deviation = np.sqrt(p @ (function(axis) - mean) ** 2)
        assert abs(function(X).mean() - mean) < (5 / np.sqrt(len(X)) + 0.02) * deviation


@both
def test_draws_given_mixed_columns(density, seed):
    model = learned("mixed", density, seed)
    n = 1500 if density == "mixture" else 400
    p = np.exp(model.score_samples([[3.0, k] for k in range(3)]))
    p /= p.sum()
    states = model.sample(n, given={0: 3.0}, random_state=seed)[:, 1].astype(int)
    counts = np.bincount(states, minlength=3) / n
    assert (np.abs(counts - p) < 5 * np.sqrt(p * (1 - p) / n) + 0.02).all()
    axis = np.linspace(-20, 26, 3001)
    for k in range(3):
        p = np.exp(model.score_samples(np.stack([axis, np.full_like(axis, k)], axis=1)))
        p /= p.sum()
        mean = p @ axis
        deviation = np.sqrt(p @ (axis - mean) ** 2)
        X = model.sample(n, given={1: k}, random_state=seed)[:, 0]
        assert abs(X.mean() - mean) < (5 / np.sqrt(n) + 0.02) * deviation


# log Z -------------------------------------------------------------------------------------


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


# Graphs ------------------------------------------------------------------------------------


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


def test_columns_of_an_empty_graph_are_independent_of_the_model(seed):
    model = small("empty", density="mrf", max_iter=20).fit(ring(100, seed))
    a, b, c, d = model.score_samples([[0.0, 4.0], [1.0, 4.0], [0.0, 7.0], [1.0, 7.0]])
    assert a - b == pytest.approx(c - d, abs=1e-4)


# Categories --------------------------------------------------------------------------------


def bits(n, seed):
    rng = np.random.default_rng(seed)
    a = rng.random(n) < 0.3
    b = a ^ (rng.random(n) < 0.1)
    return np.stack([a, b, b ^ (rng.random(n) < 0.2)], axis=1).astype(int)


@both
def test_tables_of_categories_alone(density, seed):
    X = bits(150, seed)
    model = small(density=density, categorical_features=[0, 1, 2], max_iter=150).fit(X)
    every = np.array(np.unravel_index(np.arange(8), (2, 2, 2))).T
    p = np.exp(model.score_samples(every))
    assert p.sum() == pytest.approx(1.0, abs=1e-6)
    frequencies = np.bincount(X @ [4, 2, 1], minlength=8) / len(X)
    assert np.abs(p - frequencies).max() < (0.08 if density == "mrf" else 0.15)
    assert model.log_partition_method_ == "exact"
    lower, upper = model.log_partition_interval_
    assert lower == model.log_partition_ == upper
    draws = model.sample(2000 if density == "mixture" else 700, random_state=seed)
    counts = np.bincount((draws @ [4, 2, 1]).astype(int), minlength=8) / len(draws)
    assert (np.abs(counts - p) < 5 * np.sqrt(p * (1 - p) / len(draws)) + 0.01).all()
    some = np.array([[np.nan, 1, np.nan]])
    atol = 1e-6 if density == "mixture" else 0.3
    expected = np.log(p[every[:, 1] == 1].sum())
    assert model.score_samples(some)[0] == pytest.approx(expected, abs=atol)


def test_frames_and_ways_to_name_categories(seed):
    """All the same fit."""
    codes = plants(60, seed)
    words = KINDS[codes[:, 1].astype(int)]
    columns = {"height": codes[:, 0], "kind": words}
    pandas = pd.DataFrame(columns)
    pandas["kind"] = pandas["kind"].astype("category")
    polars = pl.DataFrame({"height": codes[:, 0], "kind": words.tolist()})
    plain = np.empty((60, 2), dtype=object)
    plain[:, 0], plain[:, 1] = codes[:, 0], words
    model = small().fit(pandas)
    expected = model.score_samples(pandas)
    assert model.categories_[0].tolist() == KINDS.tolist()
    assert model.feature_names_in_.tolist() == ["height", "kind"]
    for table, named in (
        (polars.with_columns(pl.col("kind").cast(pl.Categorical)), "from_dtype"),
        (polars.with_columns(pl.col("kind").cast(pl.Enum(KINDS.tolist()))), "from_dtype"),
        (polars, ["kind"]),
        (pd.DataFrame(columns), ["kind"]),
        (pandas, [1]),
        (pandas, [False, True]),
        (plain, [1]),
        (plain, [-1]),
        (pandas, np.array(["kind"])),
        (plain, np.array([False, True])),
        (plain.tolist(), [1]),
        (codes, [1]),
    ):
        other = small(categorical_features=named).fit(table)
        assert_array_equal(other.score_samples(table), expected)
    y = np.resize([0, 1], 60)
    expected = classes().fit(pandas, y).predict_proba(pandas)
    found = classes(categorical_features=["kind"]).fit(polars, y).predict_proba(polars)
    assert_array_equal(found, expected)


def declared(columns):
    """A frame of pandas and one of polars, of which a type declares a category that no row has."""
    known = [*KINDS.tolist(), "never"]
    pandas = pd.DataFrame(columns)
    pandas["kind"] = pd.Categorical(pandas["kind"], categories=known)
    return pandas, pl.DataFrame(columns).with_columns(pl.col("kind").cast(pl.Enum(known)))


def test_declared_categories(seed):
    """Those of a frame's type are known, though no row has them."""
    codes = plants(60, seed)
    columns = {"height": codes[:, 0], "kind": KINDS[codes[:, 1].astype(int)].tolist()}
    y = np.resize([0, 1], 60)
    for table in declared(columns):
        other = declared(columns | {"kind": ["never"] * 60})[isinstance(table, pl.DataFrame)]
        model, parts = small().fit(table), classes().fit(table, y)
        assert model.categories_[0].tolist() == parts.categories_[0].tolist()
        assert model.categories_[0].tolist()[-1] == "never"
        assert model.score_samples(other).mean() < model.score_samples(table).mean()
        assert_allclose(parts.predict_proba(other).sum(axis=1), 1.0)
    plain = pd.DataFrame(columns)
    given = {"categorical_features": ["kind"], "categories": [[*KINDS.tolist(), "never"]]}
    parts = classes(**given).fit(plain, y)
    assert_array_equal(parts.predict_proba(plain), classes().fit(table, y).predict_proba(table))
    with pytest.raises(ValueError, match=r"not seen in fit.*Name all in categories= before fit"):
        classes(categorical_features=["kind"]).fit(plain, y).predict(plain.assign(kind="never"))
    empty = table.with_columns(pl.lit(None).cast(table["kind"].dtype).alias("kind"))
    assert np.isfinite(small().fit(empty).score_samples(table)).all()
    assert_allclose(classes().fit(empty, y).predict_proba(table).sum(axis=1), 1.0)
    rare = declared(columns | {"kind": ["never", *columns["kind"][1:]]})[0]
    assert np.isfinite(cross_val_score(classes(), rare, y, cv=3, error_score="raise")).all()


def test_categories_that_are_times(seed):
    days = pd.to_datetime(["2026-01-01", "2026-01-02"]).to_numpy().astype("datetime64[ns]")
    plain = pd.DataFrame({"x": ring(40, seed)[:, 0], "day": np.resize(days, 40)})
    named = {"categorical_features": ["day"]}
    for table, given in ((plain, named), (plain.astype({"day": "category"}), {})):
        model = small(**given).fit(table)
        assert set(model.sample(30, random_state=seed)[:, 1]) == set(days)
        rows = pd.DataFrame(model.sample(3, random_state=seed), columns=["x", "day"])
        assert np.isfinite(model.score_samples(rows)).all()


@both
def test_draws_are_in_the_categories_of_the_user(density, seed):
    codes = plants(60, seed)
    table = pd.DataFrame({"height": codes[:, 0], "kind": KINDS[codes[:, 1].astype(int)]})
    model = small(density=density, categorical_features=["kind"]).fit(table)
    X = model.sample(30, random_state=0)
    assert X.dtype == object
    assert set(X[:, 1]) <= set(KINDS)
    assert all(isinstance(v, float) for v in X[:, 0])
    X = model.sample(5, given={"kind": "moss"}, random_state=0)
    assert X[:, 1].tolist() == ["moss"] * 5
    given = pd.DataFrame({"height": [1.5, np.nan], "kind": [None, "tree"]})
    X = model.sample(2, given=given, random_state=0)
    assert X[0, 0] == pytest.approx(1.5)
    assert X[1, 1] == "tree"
    numeric = small(density=density, categorical_features=[1]).fit(codes * [1, 5])
    X = numeric.sample(30, random_state=0)
    assert X.dtype == float
    assert set(X[:, 1]) <= {0.0, 5.0, 10.0}


def test_given_categories(seed):
    codes = plants(60, seed)
    model = small(categorical_features=[1], categories=[[2, 0, 1, 7]]).fit(codes)
    assert model.categories_[0].tolist() == [2, 0, 1, 7]
    assert np.isfinite(model.score_samples([[0.0, 7.0]])).all()
    with pytest.raises(ValueError, match="Column 1 has the category 3"):
        model.score_samples([[0.0, 3.0]])


def frames(seed):
    """Types that columns of frames may have; some of them with gaps."""
    x = np.random.default_rng(seed).normal(size=30)
    return {
        "whole numbers": pd.DataFrame({"x": x, "a": pd.array([1, None, 3] * 10, dtype="Int64")}),
        "floats": pd.DataFrame({"x": x, "a": pd.array(x**2, dtype="Float64")}),
        "intervals": pd.DataFrame({"x": x, "a": pd.cut(x, 3)}),
        "numbers": pd.DataFrame({"x": x, "a": pd.Categorical([1, 2, None] * 10)}),
        "words": pd.DataFrame({"x": x, "a": pd.Categorical(["u", "v", None] * 10)}),
        "polars": pl.DataFrame({"x": x, "a": [1, None, 4] * 10}),
        "polars words": pl.DataFrame({"x": x, "a": ["u", None, "v"] * 10}).with_columns(
            pl.col("a").cast(pl.Categorical)
        ),
    }


@pytest.mark.filterwarnings("ignore:Column 'a' has two values only")
@pytest.mark.parametrize("kind", frames(0))
def test_types_of_frames(kind, seed):
    table = frames(seed)[kind]
    model = small().fit(table)
    assert np.isfinite(model.score_samples(table)).all()
    assert len(model.categories_) == (kind not in ("whole numbers", "floats", "polars"))
    assert model.sample(3, random_state=0).shape == (3, 2)
    y = np.resize([0, 1], 30)
    assert_allclose(classes().fit(table, y).predict_proba(table).sum(axis=1), 1.0)


# Weights -----------------------------------------------------------------------------------


def base_of(model):
    """Mean and covariance of the base in the units of the user."""
    scale, mean = model._columns.scale, model._columns.mean
    return mean + scale * model.energy_.mean, scale * model.energy_.covariance * scale[:, None]


def test_covariances_are_shrunk_in_the_units_of_columns(seed):
    X = line(200, seed, 3, 0.6) * [1.0, 10.0, 0.1]
    sample, prior = np.cov(X.T, bias=True), np.diag([2.0, 3.0, 0.5])
    unit = np.sqrt(np.outer(*[np.diag(sample)] * 2))
    for share in (0.0, 0.3, 1.0):
        model = small(prior_covariance=prior, shrinkage=share).fit(X)
        mean, covariance = base_of(model)
        expected = sample + share * (prior - sample)
        assert_allclose(covariance / unit, expected / unit, rtol=0.01, atol=0.01)
        assert_allclose(mean, X.mean(axis=0))
    apart = base_of(small(shrinkage=1.0).fit(X))[1]
    assert_allclose(apart / unit, np.diag(np.diag(sample)) / unit, atol=1e-5)
    number = base_of(small(base=0.5).fit(X))[1]
    assert_allclose(number, np.diag(X.var(axis=0)), rtol=1e-6)


def test_whole_weights_are_about_repeated_rows(seed):
    X = line(200, seed, 3, 0.6) * [1.0, 10.0, 0.1]
    counts = np.random.default_rng(seed).integers(1, 5, size=len(X)) * (1 + (X[:, 0] > 0.5))
    weighted = base_of(small().fit(X, sample_weight=counts))
    repeated = base_of(small().fit(np.repeat(X, counts, axis=0)))
    plain = base_of(small().fit(X))
    deviation = np.sqrt(np.diag(repeated[1]))
    assert_allclose(weighted[0] / deviation, repeated[0] / deviation, atol=1e-6)
    unit = deviation * deviation[:, None]
    assert_allclose(weighted[1] / unit, repeated[1] / unit, atol=0.06)
    assert np.abs((plain[0] - repeated[0]) / deviation).max() > 0.05


def test_rows_of_weight_zero_are_absent(seed):
    X = ring(60, seed)
    weights = np.r_[np.ones(40), np.zeros(20)]
    X[40:] += 100.0
    expected = small().fit(X[:40], sample_weight=np.ones(40))
    assert_allclose(
        small().fit(X, sample_weight=weights).score_samples(X[:40]),
        expected.score_samples(X[:40]),
        atol=1e-6,
    )


def test_rows_of_weight_zero_are_absent_from_classes(seed):
    codes = plants(80, seed)
    table = np.column_stack([codes, np.random.default_rng(seed).normal(size=80)])
    y = np.resize(["a", "b"], 80)
    weights = np.r_[np.ones(60), np.zeros(20)]
    table[60:, 0] += 100.0
    table[70:, 1], table[60:, 2] = 9, np.nan
    y[75:] = "c"
    left = classes(categorical_features=[1]).fit(table, y, sample_weight=weights)
    right = classes(categorical_features=[1])
    right.fit(table[:60], y[:60], sample_weight=np.ones(60))
    assert left.classes_.tolist() == ["a", "b"]
    assert left.categories_[0].tolist() == [0, 1, 2]
    expected = right.predict_proba(table[:60])
    assert_allclose(left.predict_proba(table[:60]), expected, atol=1e-4)


def test_heavy_rows_count_more(seed):
    X = np.r_[ring(60, seed), ring(60, seed) + 10.0]
    left, right = np.r_[np.full(60, 9.0), np.ones(60)], np.r_[np.ones(60), np.full(60, 9.0)]
    a, b = (small(max_iter=20).fit(X, sample_weight=w) for w in (left, right))
    assert a.score(X[:60]) > b.score(X[:60]) + 0.5
    assert b.score(X[60:]) > a.score(X[60:]) + 0.5
    y = np.r_[np.zeros(60), np.ones(60)]
    assert_allclose(classes().fit(X, y, sample_weight=left).class_prior_, [0.9, 0.1])


# Learning ----------------------------------------------------------------------------------


def test_same_seed_same_model(seed):
    X = ring(60, seed)
    expected = small(random_state=seed).fit(X).score_samples(X)
    for same in (seed, np.random.default_rng(seed)):
        model = small(random_state=same).fit(X)
        assert_array_equal(model.score_samples(X), expected)
    assert (small(random_state=seed + 1).fit(X).score_samples(X) != expected).any()
    legacy = [
        small(random_state=np.random.RandomState(seed)).fit(X).score_samples(X) for _ in range(2)
    ]
    assert_array_equal(*legacy)
    free = small(random_state=None).fit(X)
    assert_array_equal(free.score_samples(X), free.score_samples(X))


def test_jobs_have_no_influence(seed):
    X, y = ring(60, seed), np.resize([0, 1, 2], 60)
    expected = small().fit(X).score_samples(X)
    assert_array_equal(small(n_jobs=2).fit(X).score_samples(X), expected)
    expected = classes().fit(X, y).predict_log_proba(X)
    assert_array_equal(classes(n_jobs=2).fit(X, y).predict_log_proba(X), expected)
    with parallel_config("threading", n_jobs=2):
        assert_array_equal(classes().fit(X, y).predict_log_proba(X), expected)


@both
def test_grid_with_lbfgs(density, seed):
    X = ring(150, seed)
    model = small(learner=Grid(21), optimizer="lbfgs", max_iter=40, density=density).fit(X)
    steps = model.history_["objective"]
    assert np.all(np.diff(steps) > -1e-6)
    assert steps[-1] > steps[0] + 0.05
    start = small(learner=Grid(21), max_iter=1, learning_rate=1e-9, density=density).fit(X)
    if density == "mrf":
        assert model.score(X) > start.score(X) + 0.05
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(small(learner="grid", density=density).fit(X).score_samples(X)).all()


def test_grid_takes_three_numbers():
    with pytest.raises(ValueError, match=r'at most three numbers .* Use learner="variational"'):
        small(learner="grid").fit(line(50, 0, 4))


@both
@pytest.mark.parametrize("graph", ["complete", "tree", "empty"])
def test_the_learner_of_the_paper(graph, density, seed):
    X = np.column_stack([ring(80, seed), plants(80, seed)])
    learner = Variational(
        3, negative="quadrature", entropy="bethe", covariance="diag", n_points=5, warmup=1
    )
    model = small(graph, learner, density=density, base=0.01, categorical_features=[3])
    model.fit(X)
    assert "log_partition_bound" in model.history_
    assert np.isfinite(model.score_samples(X)).all()
    covariances = model.mixture_.covariances
    diagonal = np.diagonal(covariances, axis1=1, axis2=2)
    assert_allclose(covariances, diagonal[:, :, None] * np.eye(3), atol=1e-9)
    assert np.isfinite(model.sample(20, random_state=0)).all()


def test_beliefs_alone_as_the_negative_phase(seed):
    """A model that learned faster than its beliefs follow would be worse than a Gaussian."""
    rng = np.random.default_rng(seed)
    roots = np.array([[[0.5, 0, 0], [-0.4, 1.1, 0], [0.3, 0.5, 0.4]], 0.8 * np.eye(3)])
    means, shares = np.array([[-2.5, 1.9, -1.0], [1.7, -1.5, 2.2]]), (0.3, 0.7)
    kind = rng.choice(2, size=3000, p=shares)
    X = means[kind] + np.einsum("nij,nj->ni", roots[kind], rng.normal(size=(3000, 3)))
    X, T = X[:1000], X[1000:]
    gaussian = multivariate_normal(X.mean(axis=0), np.cov(X.T)).logpdf(T).mean()
    learner = Variational(negative="quadrature")
    model = NNMRFDensity(learner=learner, density="mrf", random_state=seed).fit(X)
    assert model.score(T) > gaussian + 0.3


def test_beliefs_keep_up_where_they_are_the_negative_phase(seed):
    X, energy = ring(60, seed), NeuralEnergy.random([0, 0], [(0, 1)], random_state=seed)
    for negative, interval, n_inferred, rate in (
        ("quadrature", None, 5, 0.003),
        ("chains", None, 1, 0.03),
        ("quadrature", 2, 3, 0.003),
        ("chains", 4, 2, 0.03),
    ):
        rng = np.random.default_rng(seed)
        learner = Variational(negative=negative, interval=interval, warmup=0)
        state = learner.init(energy, Batch(X), rng)
        for _ in range(5):
            _, _, state, _ = learner.step(energy, Batch(X), state, rng)
        assert len(state.pool) == 1 + n_inferred
        assert_allclose(small(learner=learner).fit(X).history_["learning_rate"][0], rate)


def test_early_stopping(seed):
    X = ring(FEWEST, seed)
    for wanted, n, held_out in (
        (True, 60, True),
        (False, FEWEST, False),
        ("auto", FEWEST, True),
        ("auto", FEWEST - 1, False),
    ):
        for density in DENSITIES:
            model = small(early_stopping=wanted, density=density).fit(X[:n])
            assert ("validation_score" in model.history_) is held_out
            assert np.isfinite(model.score_samples(X[:50])).all()
    model = small(early_stopping=True, max_iter=2000, n_iter_no_change=1, learning_rate=0.3)
    assert model.fit(X[:50]).n_iter_ < 2000


@both
def test_early_stopping_by_rows_with_gaps(density, seed):
    X = ring(100, seed)
    X[np.random.default_rng(seed).random(100) < 0.5, 1] = np.nan
    for rows in (X, with_gap(X, 0)):
        rows[:5] = ring(5, seed)
        model = small(early_stopping=True, density=density).fit(rows)
        assert np.isfinite(model.history_["validation_score"]).all()


def test_epochs_one_by_one(seed):
    X = ring(60, seed)
    one = small(max_iter=1).fit(X)
    model = small().partial_fit(X)
    assert_array_equal(model.score_samples(X), one.score_samples(X))
    edges = model.edges_
    for n in (2, 3):
        model.partial_fit(ring(40, seed + n))
        assert model.n_iter_ == n
    assert_array_equal(model.edges_, edges)
    assert (model.score_samples(X) != one.score_samples(X)).any()
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(np.zeros((4, 3)))
    assert model.n_features_in_ == 2
    assert model.n_iter_ == 3


def test_going_on(seed):
    X = ring(60, seed)
    model = small(warm_start=True, max_iter=4, optimizer="sgd", learning_rate=0.01).fit(X)
    first = model.score_samples(X)
    assert model.fit(X).n_iter_ == 8
    assert (model.score_samples(X) != first).any()
    cold = small(max_iter=4).fit(X)
    assert cold.fit(X).n_iter_ == 4


@pytest.mark.parametrize(
    "change",
    [
        {"graph": "empty"},
        {"graph": "tree"},
        {"node_layers": (5,)},
        {"base": 0.5},
        {"shrinkage": 0.3},
        {"prior_covariance": np.eye(2)},
        {"categorical_features": [0]},
    ],
    ids=str,
)
def test_going_on_with_another_model_is_refused(change, seed):
    X = ring(60, seed)
    model = small(warm_start=True).fit(X)
    with pytest.raises(ValueError, match=f"{next(iter(change))}.*warm_start=False"):
        model.set_params(**change).fit(X)


@both
def test_copies(density, seed):
    X = ring(60, seed)
    model = small(density=density).fit(X)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.score_samples(X), model.score_samples(X))
    assert_array_equal(again.sample(5, random_state=1), model.sample(5, random_state=1))
    assert not hasattr(clone(model), "energy_")
    assert_array_equal(clone(model).fit(X).score_samples(X), model.score_samples(X))
    assert model.score(X) == pytest.approx(model.score_samples(X).mean())
    parameters = clone(model).get_params()
    assert parameters == NNMRFDensity(**parameters).get_params()


# Degenerate tables -------------------------------------------------------------------------


DEGENERATE = {
    "constant": (lambda X: np.column_stack([X, np.full(len(X), 7.0)]), "Column 2 is constant"),
    "two values": (
        lambda X: np.column_stack([X, np.resize([3, 8], len(X))]),
        "Column 2 has two values only.*Better name it in categorical_features",
    ),
    "all equal": (lambda X: np.repeat(X[:1], 30, axis=0), "Columns 0, 1 are constant"),
    "one feature": (lambda X: X[:, :1], None),
    "one row": (lambda X: X[:1], None),
    "two rows": (lambda X: X[:2], None),
    "duplicates": (lambda X: np.repeat(X[:4], 10, axis=0), None),
    "collinear": (lambda X: np.column_stack([X, 2 * X[:, 0] + 1, X.sum(axis=1)]), None),
    "large": (lambda X: X * 1e6 + 1e8, None),
    "huge": (lambda X: X * 1e200, None),
    "tiny": (lambda X: X * 1e-9, None),
    "integers": (lambda X: np.round(X).astype(int), None),
    "outlier": (lambda X: np.concatenate([X, [[1e4, -1e4]]]), None),
    "more columns than rows": (lambda X: X[:20].reshape(4, 10), None),
}


@pytest.mark.parametrize("rule", ["bayes", "conditional"])
def test_columns_that_follow_from_others(rule, seed):
    """Also the same quantities in other units, of classes that are shrunk to a singular whole."""
    X = np.random.default_rng(seed).normal(size=(120, 3))
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    for more in (X, X * 1e6 + 3):
        table = np.column_stack([X, more])
        parts = classes(rule=rule).fit(table, y)
        assert np.isfinite(parts.score_samples(table)).all()
        assert_allclose(parts.predict_proba(table).sum(axis=1), 1.0)


@both
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_tables(name, density, seed):
    make, message = DEGENERATE[name]
    X = make(ring(60, seed))
    graph = "tree" if name == "more columns than rows" else "complete"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = small(graph, density=density).fit(X)
        scores = model.score_samples(X)
    told = [str(w.message) for w in caught if "no maximum" in str(w.message)]
    assert bool(told) == (message is not None)
    if message is not None:
        with pytest.warns(UserWarning, match=message):
            small(graph, density=density).fit(X)
    assert np.isfinite(scores).all()
    assert all(np.isfinite(v).all() for v in model.energy_.theta.values())
    assert np.isfinite(model.sample(5, random_state=0)).all()
    assert np.isfinite(model.sample(2, given={0: X[0, 0]}, random_state=0)).all()


def test_columns_without_density_are_named(seed):
    table = pd.DataFrame(ring(40, seed), columns=["a", "b"]).assign(on=np.resize([0, 1], 40), k=3)
    with pytest.warns(UserWarning, match="no maximum") as caught:
        small().fit(table)
    told = [str(w.message) for w in caught if "no maximum" in str(w.message)]
    assert len(told) == 2
    assert told[0].startswith("Column 'k' is constant, so the likelihood")
    assert told[1].startswith("Column 'on' has two values only, so the likelihood")


def test_columns_without_density_in_a_class_are_named(seed):
    y = np.resize(["x", "y"], 60)
    table = pd.DataFrame(ring(60, seed), columns=["a", "b"])
    table["c"] = np.where(y == "y", 1.0, table["a"])
    with pytest.warns(UserWarning, match="no maximum") as caught:
        model = classes().fit(table, y)
    told = [str(w.message) for w in caught if "no maximum" in str(w.message)]
    assert len(told) == 1
    assert told[0].startswith("Column 'c' is constant in class 'y', so the likelihood")
    assert np.isfinite(model.score_samples(table)).all()


# Classes -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@both
def test_iris(iris, density, seed):
    X, y = iris
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:100], order[100:]
    model = classes(density=density, max_iter=20, random_state=seed).fit(X[train], y[train])
    assert model.score(X[test], y[test]) >= 0.88
    p = model.predict_proba(X[test])
    assert_allclose(p.sum(axis=1), 1.0)
    assert (p >= 0).all()
    assert_allclose(np.exp(model.predict_log_proba(X[test])), p)
    assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X[test]))
    joint = model.predict_joint_log_proba(X[test])
    assert_allclose(np.logaddexp.reduce(joint, axis=1), model.score_samples(X[test]))
    assert_allclose(joint - model.score_samples(X[test])[:, None], np.log(p), atol=1e-9)
    assert_allclose(model.class_prior_, np.bincount(y[train]) / len(train))
    assert model.n_iter_ == 20
    assert len(model.densities_) == 3
    assert all(isinstance(part, NNMRFDensity) for part in model.densities_)


@both
def test_densities_of_classes_integrate_to_one(density, seed):
    X = plants(120, seed)
    model = classes(density=density, max_iter=20).fit(X[:, :1], X[:, 1])
    axis = np.linspace(-20, 26, 4001)[:, None]
    joint = np.exp(model.predict_joint_log_proba(axis)) * (axis[1] - axis[0])
    assert joint.sum() == pytest.approx(1.0, abs=2e-3)
    by_densities = copy.deepcopy(model).set_params(rule="bayes").predict_joint_log_proba(axis)
    joint = np.exp(by_densities) * (axis[1] - axis[0])
    assert_allclose(joint.sum(axis=0), model.class_prior_, atol=2e-3)
    expected = model.score_samples(axis) - np.log(1e3)
    scaled = classes(density=density, max_iter=20).fit(X[:, :1] * 1e3, X[:, 1])
    assert_allclose(scaled.score_samples(axis * 1e3), expected, atol=0.05)


@pytest.mark.parametrize("labels", [["b", "a"], [5, -1], [True, False], [0.0, 1.0]], ids=str)
def test_labels(labels, seed):
    X = np.r_[ring(30, seed), ring(30, seed) + 20.0]
    y = np.repeat(labels, 30)
    model = classes().fit(X, y)
    assert model.classes_.tolist() == sorted(labels)
    assert model.predict(X).dtype == y.dtype
    assert_array_equal(model.predict(X), y)
    rows = model.sample(4, y=labels[0], random_state=0)
    assert model.predict(rows).tolist() == [labels[0]] * 4


def test_priors(seed):
    X, y = np.r_[ring(30, seed), ring(60, seed) + 1.0], np.repeat([0, 1], [30, 60])
    counted, given = classes().fit(X, y), classes(priors=[0.9, 0.1]).fit(X, y)
    assert_allclose(counted.class_prior_, [1 / 3, 2 / 3])
    assert_allclose(given.class_prior_, [0.9, 0.1])
    shift = np.log([0.9 * 3, 0.1 * 1.5])
    expected = counted.predict_log_proba(X) + shift
    expected -= np.logaddexp.reduce(expected, axis=1, keepdims=True)
    assert_allclose(given.predict_log_proba(X), expected, atol=1e-9)
    for model in (counted, given):
        model.set_params(rule="bayes")
    expected = counted.predict_joint_log_proba(X) + shift
    assert_allclose(given.predict_joint_log_proba(X), expected)
    X[y == 1] += 100.0
    never = classes(priors=[1, 0]).fit(X, y)
    assert_array_equal(never.predict(X), 0)
    assert_allclose(never.predict_proba(X), np.tile([1.0, 0.0], (90, 1)))
    assert (never.sample(50, random_state=0) < 50.0).all()
    assert not (never.sample(50, y=1, random_state=0) < 50.0).any()


def test_density_can_be_chosen_after_a_fit(seed):
    X, y = ring(60, seed), np.resize([0, 1], 60)
    parts, later = classes(density="mrf").fit(X, y), classes().fit(X, y)
    before = later.score_samples(X)
    later.set_params(density="mrf")
    assert_allclose(later.score_samples(X), parts.score_samples(X))
    assert_array_equal(later.sample(5, random_state=1), parts.sample(5, random_state=1))
    assert np.abs(later.score_samples(X) - before).max() > 1e-6
    for model in (later.set_params(density="foo"), small().fit(X).set_params(density="foo")):
        for ask in (model.score_samples, lambda _, model=model: model.sample(2)):
            with pytest.raises(ValueError, match="density must be one of"):
                ask(X)


@pytest.mark.parametrize("size", [1e-300, 1e308])
def test_only_shares_of_weights_count(size, seed):
    X, y = ring(60, seed), np.resize([0, 1], 60)
    weighted = classes().fit(X, y, sample_weight=np.full(60, size))
    assert_allclose(weighted.predict_proba(X), classes().fit(X, y, np.ones(60)).predict_proba(X))


@both
def test_one_class(density, seed):
    X = ring(40, seed)
    model = classes(density=density).fit(X, np.full(40, "only"))
    assert_array_equal(model.predict(X), "only")
    assert_allclose(model.predict_proba(X), 1.0)
    assert np.isfinite(model.score_samples(X)).all()


@both
def test_one_row_a_class(density, seed):
    X = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 1e3]])
    model = classes(density=density).fit(X, ["a", "b", "c"])
    assert model.predict(X).tolist() == ["a", "b", "c"]
    assert np.isfinite(model.predict_joint_log_proba(X + 1.0)).all()
    X = np.r_[ring(40, seed), [[50.0, 50.0]]]
    model = classes(density=density).fit(X, [0] * 40 + [1])
    assert model.predict([[50.0, 50.0]]) == [1]
    assert (model.predict(X[:40]) == 0).all()
    assert np.isfinite(model.predict_joint_log_proba(X)).all()


def test_draws_of_classes(seed):
    X = np.r_[ring(30, seed), ring(60, seed) + 30.0]
    model = classes().fit(X, np.repeat(["a", "b"], [30, 60]))
    drawn = model.predict(model.sample(600, random_state=seed))
    share = np.mean(drawn == "b")
    assert share == pytest.approx(2 / 3, abs=5 * np.sqrt(2 / 9 / 600))
    assert set(model.predict(model.sample(20, y="a", random_state=seed))) == {"a"}
    wanted = np.resize(["b", "a", "a"], 30)
    rows = model.sample(30, y=wanted, random_state=seed)
    assert_array_equal(model.predict(rows), wanted)
    assert_array_equal(rows, model.sample(30, y=wanted, random_state=seed))
    assert model.sample().shape == (1, 2)
    mixed = pd.DataFrame({"x": X[:, 0], "kind": np.resize(KINDS, 90)})
    model = classes(categorical_features=["kind"]).fit(mixed, np.resize([0, 1], 90))
    rows = model.sample(20, random_state=seed)
    assert rows.dtype == object
    assert set(rows[:, 1]) <= set(KINDS)
    assert np.isfinite(rows[:, 0].astype(float)).all()


@both
def test_missing_entries_of_rows_to_classify(iris, density, seed):
    X, y = iris
    model = classes(density=density, max_iter=20).fit(X, y)
    gaps = X.copy()
    gaps[:, :2] = np.nan
    assert model.score(gaps, y) > 0.85
    rows = np.full((1, 4), np.nan)
    assert_allclose(model.predict_proba(rows)[0], model.class_prior_, atol=0.1)
    holes = np.where(np.random.default_rng(seed).random(X.shape) < 0.2, np.nan, X)
    assert classes(density=density, max_iter=20).fit(holes, y).score(X, y) > 0.85


def test_columns_in_the_units_of_classes(seed):
    """Gaps of rows, in columns of other units."""
    X = plants(90, seed)
    X, y = np.stack([X[:, 0], X[:, 0] * 1e3 + 50], axis=1), X[:, 1]
    X[:, 1] += 1e3 * np.random.default_rng(seed).normal(size=90)
    model = classes().fit(X, y)
    first = model.score_samples(with_gap(X, 1))
    second = model.score_samples(with_gap(X, 0))
    assert -5 < first.mean() < -1
    assert -5 < second.mean() + np.log(1e3) < -1


def test_searches_and_pipelines(iris):
    X, y = iris
    model = classes(learner=Variational(), max_iter=10)
    grid = {"learner__n_components": [1, 3], "alpha": [0.001, 0.1]}
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert set(search.best_params_) == set(grid)
    assert cross_val_score(model, X, y, cv=3).min() > 0.85
    assert make_pipeline(StandardScaler(), model).fit(X, y).score(X, y) > 0.9
    calibrated = CalibratedClassifierCV(model, cv=3).fit(X, y)
    assert calibrated.score(X, y) > 0.9
    assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1.0)
    search = GridSearchCV(small(), {"alpha": [0.001, 0.1], "graph": ["tree", "empty"]}, cv=3)
    assert search.fit(line(90, 0, 3)).best_params_["graph"] == "tree"


def test_classes_of_frames(seed):
    codes = plants(90, seed)
    table = pd.DataFrame({"height": codes[:, 0] + codes[:, 1], "kind": codes[:, 1]})
    table["kind"] = pd.Categorical(KINDS[codes[:, 1].astype(int)])
    y = pd.Series(np.where(codes[:, 1] == 2, "big", "little"))
    model = classes(max_iter=20).fit(table, y)
    assert model.score(table, y) > 0.9
    assert model.feature_names_in_.tolist() == ["height", "kind"]
    assert model.categories_[0].tolist() == KINDS.tolist()
    gaps = pd.DataFrame({"height": [np.nan, 10.0], "kind": ["tree", None]})
    assert model.predict(gaps).tolist() == ["big", "big"]
    with pytest.raises(ValueError, match="Column 'kind' has the category 'oak'"):
        model.predict(pd.DataFrame({"height": [1.0], "kind": ["oak"]}))
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        model.predict(table.rename(columns={"kind": "sort"}))


def test_copies_of_classifiers(iris):
    X, y = iris
    model = classes("tree").fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert_array_equal(clone(model).fit(X, y).predict_proba(X), model.predict_proba(X))
    assert not hasattr(clone(model), "classes_")
    shared = set(NNMRFDensity().get_params()) & set(NNMRFClassifier().get_params())
    for name in shared:
        assert NNMRFDensity().get_params()[name] == NNMRFClassifier().get_params()[name]


# Bad input ---------------------------------------------------------------------------------


GOOD = line(30, 0, 3)
NAMED = pd.DataFrame(GOOD, columns=["a", "b", "c"])


def changed(column, row, value):
    table = NAMED.astype(object)
    table[column] = [value if i == row else v for i, v in enumerate(table[column])]
    return table


TEXT = "Column 'b' holds 'tall', which is no number; name the column in categorical_features"
BAD_DATA = [
    (changed("b", 3, np.inf), ValueError, "Column 'b' holds infinity; use nan"),
    (changed("b", 3, -np.inf), ValueError, "Column 'b' holds infinity; use nan"),
    (changed("b", 3, "tall"), ValueError, TEXT),
    (changed("b", 3, {"x": 1}), TypeError, "Column 'b' holds a dict"),
    (NAMED.assign(b="tall"), ValueError, TEXT),
    (NAMED.assign(b=np.nan), ValueError, "Column 'b' has no observed entry; drop it"),
    (NAMED.assign(b=None), ValueError, "Column 'b' has no observed entry; drop it"),
    (NAMED.assign(b=1.7e308 * np.resize([1, -1], 30)), ValueError, "Column 'b' holds numbers too"),
    (NAMED.iloc[:0], ValueError, r"Found array with 0 sample\(s\)"),
    (GOOD[:0], ValueError, r"Found array with 0 sample\(s\)"),
    (GOOD[:, :0], ValueError, r"Found array with 0 feature\(s\)"),
    (GOOD[0], ValueError, "Expected 2D array, got 1D array"),
    (GOOD + 1j, ValueError, "Complex data not supported"),
    (NAMED.assign(b=1j), ValueError, "Column 'b' holds values of type complex128; turn them into"),
    (
        NAMED.assign(b=pd.date_range("2020-01-01", periods=30)),
        ValueError,
        "Column 'b' holds values of type datetime64.*; turn them into real numbers",
    ),
    (sp.csr_array(GOOD), TypeError, "Sparse data was passed"),
]


def not_fitted(model):
    return not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(("data", "error", "message"), BAD_DATA, ids=range(len(BAD_DATA)))
def test_bad_data(data, error, message):
    model = small()
    with pytest.raises(error, match=message):
        model.fit(data)
    assert not_fitted(model)
    model = classes()
    with pytest.raises(error, match=message):
        model.fit(data, np.resize([0, 1], data.shape[0]))
    assert not_fitted(model)


BAD_PARAMETERS = [
    ({"graph": "ring"}, r"graph must be one of \['complete', .*a list of pairs.*; got 'ring'"),
    ({"graph": [("a", "z")]}, r"graph names column 'z'; the columns are \['a', 'b', 'c'\]"),
    ({"graph": [(0, 3)]}, "graph names column 3; the columns are"),
    ({"graph": [("a", "a")]}, r"Edges join two different columns; got \('a', 'a'\)"),
    ({"graph": [("a", "b", "c")]}, "graph must be .* a list of pairs of columns"),
    ({"graph": 7}, "graph must be .* a list of pairs of columns; got 7"),
    ({"graph": "grid"}, "pixels of a square, but there are 3"),
    ({"graph": nx.path_graph(5)}, "graph names column 3; the columns are"),
    ({"learner": "pcd"}, r"cannot take the learner 'pcd'; it takes one of \['grid', 'variational"),
    ({"learner": "sgd"}, r"learner must be one of \['grid', 'variational'\].*; got 'sgd'"),
    ({"learner": Variational(0)}, "n_components must be an integer >= 1; got 0"),
    ({"learner": Variational(entropy="x")}, r"entropy must be one of \['bethe', 'joint'\]"),
    ({"learner": Variational(negative="x")}, "negative must be one of"),
    ({"learner": Variational(interval=0)}, "interval must be an integer >= 1; got 0"),
    ({"learner": Variational(covariance="x")}, r"covariance must be one of \['diag', 'full'\]"),
    ({"learner": Grid(2)}, "n_points must be an integer >= 3; got 2"),
    ({"base": 0}, "base must be a number > 0; got 0"),
    ({"base": -1.0}, "base must be a number > 0; got -1"),
    ({"base": "gauss"}, "base must be .*; got 'gauss'"),
    (
        {"node_layers": ()},
        "node_layers must be a tuple of the units of every hidden layer, at least one",
    ),
    (
        {"edge_layers": ()},
        "edge_layers must be a tuple of the units of every hidden layer, at least one",
    ),
    ({"node_layers": (0,)}, "node_layers must be an integer >= 1; got 0"),
    ({"edge_layers": (3, 2.5)}, r"edge_layers must be an integer; got 2\.5"),
    ({"density": "model"}, r"density must be one of \['mixture', 'mrf'\]; got 'model'"),
    ({"early_stopping": "yes"}, "early_stopping must be .*; got 'yes'"),
    ({"early_stopping": 1}, "early_stopping must be .*; got 1"),
    ({"optimizer": "lbfgs"}, 'optimizer="lbfgs" needs a deterministic objective'),
    ({"categorical_features": "all"}, 'categorical_features must be "from_dtype", None, or a lis'),
    ({"categorical_features": 3}, 'categorical_features must be "from_dtype", None, or a list'),
    ({"categorical_features": ["z"]}, r"names column 'z'; the columns are \['a', 'b', 'c'\]"),
    ({"categorical_features": [3]}, "categorical_features names column 3; the columns are"),
    ({"categorical_features": [True]}, "has 1 booleans, but X has 3 columns"),
    ({"categorical_features": ["b"]}, "Column 'b' holds real numbers such as .*KBinsDiscretizer"),
    ({"max_bytes": 100}, "bytes, more than max_bytes=100. Give a sparser graph"),
]


def test_weights_that_memory_is_asked_for():
    """Three units for each of three nodes of one number and three edges of two."""
    with pytest.raises(ValueError, match="Learning 27 first weights of networks needs"):
        small(max_bytes=1200).fit(NAMED)


@pytest.mark.parametrize(("parameters", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS)))
def test_bad_parameters(parameters, message):
    model = small(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(NAMED)
    assert not_fitted(model)
    model = classes(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(NAMED, np.resize([0, 1], 30))
    assert not_fitted(model)


ONLY_DENSITY = [
    (
        {"prior_covariance": np.eye(2)},
        r"prior_covariance must be a symmetric positive definite matrix of shape",
    ),
    ({"categories": [[0]]}, "categories has 1 lists"),
    ({"shrinkage": 1.5}, "shrinkage must be a number >= 0 and <= 1; got 1.5"),
    ({"shrinkage": -0.1}, "shrinkage must be a number >= 0 and <= 1; got -0.1"),
]
LACKING = [
    ({"base": "gauss"}, "gaussian"),
    ({"base": None}, "gaussian"),
    ({"node_layers": 8}, "node_layers"),
    ({"prior_covariance": "a"}, "prior_covariance"),
    ({"prior_covariance": np.full((3, 3), np.nan)}, "prior_covariance"),
    ({"prior_covariance": -np.eye(3)}, "prior_covariance"),
    ({"prior_covariance": np.tri(3)}, "prior_covariance"),
    ({"early_stopping": "yes"}, "True"),
    ({"alpha": None}, "auto"),
]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        *ONLY_DENSITY,
        *LACKING,
    ],
)
def test_bad_parameters_of_densities(parameters, message):
    model = small(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(NAMED)
    assert not_fitted(model)


@pytest.mark.parametrize(
    "priors", [[0.5], [0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0], "a", 1.0, [[0.5, 0.5]]], ids=str
)
def test_bad_priors(priors):
    model = classes(priors=priors)
    with pytest.raises(ValueError, match="priors must be 2 probabilities that sum to 1, one a cl"):
        model.fit(GOOD, np.resize([0, 1], 30))
    assert not_fitted(model)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        (np.linspace(0, 1, 30), "Unknown label type"),
        (np.zeros(29), "inconsistent numbers of samples"),
        (np.zeros((30, 2)), "y should be a 1d array|multilabel|Unknown label type"),
        (np.where(np.arange(30) > 3, np.nan, 1.0), "NaN"),
    ],
    ids=range(5),
)
def test_bad_targets(y, message):
    model = classes()
    with pytest.raises(ValueError, match=message):
        model.fit(NAMED, y)
    assert not_fitted(model)


@pytest.mark.parametrize("n", [1, 15])
def test_columns_that_a_class_has_no_entry_of(n):
    """There they are as in all classes, which says nothing of the class."""
    y = np.where(np.arange(30) < 30 - n, "x", "y")
    kinds = np.resize(["u", "v", "v"], 30).astype(object)
    table = NAMED.assign(
        b=NAMED["b"].where(y == "x"), kind=pd.Categorical(np.where(y == "x", kinds, None))
    )
    with pytest.warns(UserWarning, match="Column 'b' has no observed entry in class 'y'; its"):
        model = classes(rule="bayes").fit(table, y)
    drawn = model.sample(400, y="y", random_state=0)
    mean, spread = NAMED["b"].mean(), NAMED["b"].std()
    assert abs(np.mean(drawn[:, 1].astype(float)) - mean) < spread
    assert set(drawn[:, -1]) == {"u", "v"}
    assert np.isfinite(model.score_samples(table)).all()
    assert_allclose(classes().fit(table, y).predict_proba(table).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(30), "All sample weights are zero"),
        (-np.ones(30), r"sample_weight\[0\] is -1.0; weights must be finite and not negative"),
        (np.full(30, np.nan), r"sample_weight\[0\] is nan"),
        (np.ones(3), r"sample_weight.shape == \(3,\), expected \(30,\)"),
    ],
    ids=range(4),
)
def test_bad_weights(weights, message):
    model = small()
    with pytest.raises(ValueError, match=message):
        model.fit(GOOD, sample_weight=weights)
    assert not_fitted(model)
    model = classes()
    with pytest.raises(ValueError, match=message):
        model.fit(GOOD, np.resize([0, 1], 30), sample_weight=weights)
    assert not_fitted(model)


def test_failed_fits_leave_the_previous_one():
    y = np.resize([0, 1], 30)
    model, parts = small().fit(NAMED), classes().fit(NAMED, y)
    before = dict(vars(model)), dict(vars(parts))
    scores = model.score_samples(NAMED), parts.predict_proba(NAMED)
    for data in (np.full((4, 2), np.inf), pd.DataFrame({"z": ["u", "v"]}), GOOD[:0]):
        with pytest.raises(ValueError):
            model.fit(data)
        with pytest.raises(ValueError):
            parts.fit(data, y[: len(data)])
    with pytest.raises(ValueError, match="graph must be"):
        model.set_params(graph="ring").fit(GOOD[:, :2])
    with pytest.raises(ValueError, match="graph must be"):
        parts.set_params(graph="ring").fit(GOOD[:, :2], y)
    model.set_params(graph="complete")
    parts.set_params(graph="complete")
    assert vars(model).keys() == before[0].keys()
    assert vars(parts).keys() == before[1].keys()
    assert_array_equal(model.score_samples(NAMED), scores[0])
    assert_array_equal(parts.predict_proba(NAMED), scores[1])
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="Learning diverged"):
        small(optimizer="sgd", learning_rate=1e39, max_iter=5).fit(NAMED)


@both
def test_bad_queries(density):
    model = small(density=density, categorical_features=["d"])
    table = NAMED.assign(d=np.resize(["u", "v"], 30))
    model.fit(table)
    for wrong, message in (
        (table.assign(d="w"), "Column 'd' has the category 'w', which was not seen in fit"),
        (table.assign(a=np.inf), "Column 'a' holds infinity"),
        (table.assign(a="tall"), "Column 'a' holds 'tall', which is no number"),
        (table.rename(columns={"a": "z"}), "Feature names unseen at fit time"),
        (table.to_numpy()[:, :2], "X has 2 features, but NNMRFDensity is expecting 4"),
        (table.iloc[:0], r"Found array with 0 sample\(s\)"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for ask in (model.score_samples, model.score, lambda X: model.sample(30, given=X)):
                with pytest.raises(ValueError, match=message):
                    ask(wrong)
    with pytest.raises(ValueError, match="n_samples must be an integer >= 1; got 0"):
        model.sample(0)
    with pytest.raises(ValueError, match=r"given names column 'z'; the columns are \['a'"):
        model.sample(given={"z": 1})
    with pytest.raises(ValueError, match="Column 'd' has the category 'w'"):
        model.sample(given={"d": "w"})
    with pytest.raises(ValueError, match="Column 'a' holds 'tall', which is no number"):
        model.sample(given={"a": "tall"})
    with pytest.raises(ValueError, match="given has 30 rows; give one, or as many as n_samples=2"):
        model.sample(2, given=table)
    with pytest.raises(ValueError, match="random_state must be None, an int"):
        model.sample(1, random_state="seed")


def test_bad_queries_of_classifiers():
    model = classes().fit(NAMED, np.resize(["x", "y"], 30))
    for ask in (model.predict, model.predict_proba, model.score_samples):
        with pytest.raises(ValueError, match="Column 'a' holds infinity"):
            ask(NAMED.assign(a=np.inf))
        with pytest.raises(ValueError, match="Feature names unseen at fit time"):
            ask(NAMED.rename(columns={"a": "z"}))
        with pytest.raises(NotFittedError):
            getattr(classes(), ask.__name__)(NAMED)
    with pytest.raises(NotFittedError):
        classes().sample()
    with pytest.raises(ValueError, match=r"y names class 'z'; the classes are \['x', 'y'\]"):
        model.sample(3, y="z")
    with pytest.raises(ValueError, match=r"y must be one class, or as many as n_samples=3; .*2"):
        model.sample(3, y=["x", "y"])
    with pytest.raises(ValueError, match="n_samples must be an integer >= 1; got 0"):
        model.sample(0)


# Models that were found wrong once ----------------------------------------------------------


def test_exact_gradients_are_judged_by_beliefs_of_the_model(seed):
    X = ring(FEWEST + 100, seed)
    model = small(learner=Grid(31), max_iter=60).fit(X)
    scores = model.history_["validation_score"]
    assert len(set(scores)) > 10
    assert max(scores[10:]) > scores[0] + 0.02


def test_exact_gradients_of_rows_with_gaps(seed):
    X = ring(100, seed)
    X[::7, 0] = np.nan
    assert np.isfinite(small(learner="grid").fit(X).score(X))
    with pytest.raises(ValueError, match=r"lbfgs.*needs a deterministic objective"):
        small(learner="grid", optimizer="lbfgs").fit(X)


@pytest.mark.parametrize("first", ["grid", "variational"])
def test_going_on_with_another_learner(first, seed):
    X = ring(80, seed)
    model = small(learner=first, warm_start=True).fit(X)
    other = {"grid": "variational", "variational": "grid"}[first]
    before = model.score(X)
    model.set_params(learner=other, max_iter=5).fit(X)
    assert abs(model.score(X) - before) < 1.0
    model.set_params(learner=Variational(n_chains=7)).fit(X)
    assert model.n_iter_ == 13


def test_gaps_do_not_change_how_far_classes_are_shrunk(seed):
    y = np.repeat(np.arange(4), 100)
    X = line(400, seed, 2, 0.8) + 5.0 * y[:, None]
    gaps = np.where(np.random.default_rng(seed).random(X.shape) < 0.3, np.nan, X)
    for table in (X, gaps):
        density = classes(max_iter=1).fit(table, y).densities_[0]
        assert density.shrinkage >= 0.2  # all classes have one covariance
        spread = np.sqrt(np.diag(density.prior_covariance)) * X.std(axis=0)
        assert_allclose(spread, 1.0, atol=0.2)


def test_pooled_covariances_of_small_classes(seed):
    y = np.repeat(np.arange(2000), 2)
    X = np.random.default_rng(seed).normal(size=(4000, 2)) + 0.1 * y[:, None]
    assert_allclose(np.diag(pooled_covariance(X, y, np.ones(len(X)))), 1.0, atol=0.2)


def test_one_row_a_class_has_the_spread_of_all():
    model = classes().fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    assert model.predict([[0.1], [1.9]]).tolist() == [0, 2]
    assert model.score_samples([[0.5]])[0] > -5


def test_rows_far_away():
    X, y = load_iris(return_X_y=True)
    model = classes().fit(X, y)
    far = np.full((1, 4), 1e160)
    assert_allclose(model.predict_proba(far).sum(), 1.0)
    assert np.isfinite(model.score_samples(far)).all()
    density = small(density="mrf").fit(ring(60, 0))
    assert density.score_samples([[1e40, 0.0]])[0] < -1e9


def test_grids_too_coarse_give_way_to_chains(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, 1))
    X = x + np.c_[np.zeros(300), 1e-3 * rng.normal(size=(300, 2))]
    model = small(density="mrf", max_iter=1).fit(X)
    assert model.log_partition_method_ == "ais"


def test_priors_are_normalised():
    X, y = load_iris(return_X_y=True)
    model = classes(priors=[0.3333333] * 3).fit(X, y)
    assert model.sample(5, random_state=0).shape == (5, 4)


def test_a_row_of_gaps_has_probability_one():
    model = learned("two numbers", "mrf", 0)
    assert_allclose(model.score_samples([[np.nan, np.nan]]), 0.0, atol=1e-12)
