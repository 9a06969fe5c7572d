"""Tests of densities, graphs, log Z, incomplete rows and conditional samples of NNMRFDensity."""

import copy
import pickle
import warnings
from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from estimator_models import (
    DENSITIES,
    KINDS,
    TABLES,
    base_of,
    both,
    classes,
    lattice,
    learned,
    line,
    plants,
    ring,
    small,
    with_gap,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from skmrf import GaussianPotentials, NNMRFDensity
from skmrf.metrics import classifier_two_sample_test
from skmrf.variational.conditional_gaussians import shrink_eigenvalues
from skmrf.variational.expectation_maximization import (
    MixtureRows,
    Prior,
    fit_mixture,
    start_mixture,
)
from skmrf.variational.mixture_selection import MixtureSelection, inflate, learn_mixture
from skmrf.variational.quadrature import joint_log_densities

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
    mixture = copy.deepcopy(model).set_params(potentials__density="mixture")
    X = mixture.sample(4000, random_state=seed)
    ratios = np.exp(model.score_samples(X) - mixture.score_samples(X))
    assert ratios.sum() ** 2 / (ratios**2).sum() > 400
    error = 5 * ratios.std() / np.sqrt(len(X)) + (upper - lower)
    assert ratios.mean() == pytest.approx(1.0, abs=error)


@pytest.mark.parametrize(("scale", "tolerance"), [(2.0**-10, 1e-6), (0.1, 0.05), (1e6, 0.05)])
def test_units_of_columns(scale, tolerance, seed):
    X = ring(100, seed)
    fits = [(small().fit(t), t) for t in (X, X * [scale, 1.0], X * scale + 7 * scale)]
    for given in ({"potentials__density": density} for density in DENSITIES):
        expected, one, both = (m.set_params(**given).score_samples(t) for m, t in fits)
        assert_allclose(one, expected - np.log(scale), atol=tolerance)
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


@pytest.mark.long
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
@pytest.mark.long
def test_graphs(graph, edges, seed):
    X = pd.DataFrame(line(120, seed, 4), columns=list("abcd"))
    model = small(graph).fit(X)
    assert model.edges_.tolist() == edges
    for density in DENSITIES:
        model.set_params(potentials__density=density)
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


# Missing entries --------------------------------------------------------------------------


def by_integration(model, kind, rows, column):
    """Return the log-density of rows without a column, by integration."""
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
    """All rows have the same random numbers, so several seeds are compared."""
    model = copy.copy(learned(kind, "mrf", seed))
    rows = TABLES[kind][0](10, seed + 1)
    exact, found = by_integration(model, kind, rows, column), []
    for model._seed in range(20):
        found.append(model.score_samples(with_gap(rows, column)) - exact)
    found = np.array(found)
    assert np.abs(found).max() < 1.0
    off = found.mean(axis=1)
    assert abs(off.mean()) < 5 * off.std() / np.sqrt(len(off)) + found.var() + 2e-3


def test_rows_do_not_depend_on_others(seed):
    model, rows = learned("two numbers", "mrf", seed), ring(10, seed + 1)
    incomplete = with_gap(rows, 1)
    mixed = np.concatenate([incomplete, rows])
    assert_allclose(model.score_samples(mixed)[10:], model.score_samples(rows), rtol=1e-6)
    scores = model.score_samples(incomplete)[5:]
    assert_allclose(scores, model.score_samples(incomplete[5:]), rtol=1e-6)


@pytest.mark.long
def test_missing_entries_while_fitting(seed):
    rng = np.random.default_rng(seed)
    X = line(200, seed, 3, 0.95)
    incomplete = np.where(rng.random(X.shape) < 0.15, np.nan, X)
    model = small(max_iter=30, early_stopping=False).fit(incomplete)
    apart = np.stack([rng.permutation(x) for x in X.T], axis=1)
    without = small(max_iter=30, early_stopping=False).fit(apart)
    new = line(500, seed + 50, 3, 0.95)
    for density in DENSITIES:
        a, b = (m.set_params(potentials__density=density).score(new) for m in (model, without))
        assert a > b + 0.2
        assert np.isfinite(model.score_samples(incomplete)).all()


def test_base_of_incomplete_rows(seed):
    X = line(500, seed, 3, 0.9)
    incomplete = np.where(np.random.default_rng(seed).random(X.shape) < 0.2, np.nan, X)
    tables = incomplete, X, np.nan_to_num(incomplete)
    found, exact, wrong = (base_of(small().fit(x))[1] for x in tables)
    tolerance = 5 * np.sqrt(2 / 400 - 2 / 500)  # five standard errors of a variance of 1
    assert np.abs(found - exact).max() < tolerance < np.abs(wrong - exact).max()


def test_missing_categories_while_fitting(seed):
    rng = np.random.default_rng(seed)
    codes = plants(120, seed)
    X = codes.astype(object)
    X[:, 1] = KINDS[codes[:, 1].astype(int)]
    X[rng.random(X.shape) < 0.2] = None
    model = small(column_types={1: "categorical"}).fit(X)
    assert model.categories_[0].tolist() == KINDS.tolist()
    assert np.isfinite(model.score_samples(X)).all()


def test_exact_gradients_of_incomplete_rows(seed):
    X = ring(100, seed)
    X[::7, 0] = np.nan
    assert np.isfinite(small(learner="grid").fit(X).score(X))
    with pytest.raises(ValueError, match=r"lbfgs.*needs a deterministic objective"):
        small(learner="grid", optimizer="lbfgs").fit(X)


# Conditional samples ----------------------------------------------------------------------


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
def test_samples_of_continuous_columns_given_one(density, seed):
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
def test_samples_given_mixed_columns(density, seed):
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


# Gaussian potentials -----------------------------------------------------------------------


def households(n, seed, missing=0.0):
    """Return a frame with all types of columns, which depend on a hidden class."""
    rng = np.random.default_rng(seed)
    k = rng.integers(2, size=n)
    frame = pd.DataFrame(
        {
            "income": np.exp(rng.normal(k, 0.5)),
            "savings": np.where(rng.random(n) < 0.3 + 0.4 * k, 0.0, rng.exponential(2.0, n)),
            "people": rng.poisson(2 + 3 * k, n),
            "owner": rng.random(n) < 0.2 + 0.6 * k,
            "region": pd.Categorical(np.array(["east", "west"])[(k + (rng.random(n) < 0.1)) % 2]),
        }
    )
    if missing:
        frame = frame.astype({"owner": object, "people": "Int64"})
        frame = frame.mask(rng.random(frame.shape) < missing)
    return frame


def test_gaussian_density_of_mixed_columns(seed):
    model = NNMRFDensity(random_state=seed).fit(households(300, seed))
    kinds = ["non-negative", "non-negative", "integer", "boolean", "categorical"]
    assert model.column_types_ == kinds
    rows = model.sample(400, random_state=seed)
    assert rows.dtypes.equals(households(10, seed).dtypes)
    assert (rows[["income", "savings", "people"]] >= 0).all(axis=None)
    share = (rows["savings"] == 0).mean()
    expected = (households(5000, seed + 99)["savings"] == 0).mean()
    assert share == pytest.approx(expected, abs=0.12)
    assert model.log_partition_ == 0
    assert np.isfinite(model.score_samples(households(50, seed + 1, missing=0.3))).all()
    test = households(300, seed + 1)
    shuffled = test.assign(people=np.random.default_rng(seed).permutation(test["people"]))
    assert model.score(test) > model.score(shuffled) + 0.1


@pytest.mark.parametrize("kind", ["non-negative", "bounded", "continuous"])
def test_gaussian_density_integrates_to_one(kind, seed):
    """The density of the continuous part and the point masses sum to one."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(150) < 0.25, 0.0, rng.beta(2, 4, 150))
    x = x - 0.5 if kind == "continuous" else x
    x[0] = 1.0 if kind == "bounded" else x[0]  # a single value at a bound is a point mass
    y = rng.integers(2, size=150)
    types = [kind, "categorical"]
    model = NNMRFDensity(GaussianPotentials(2), column_types=types, random_state=seed)
    model.fit(np.stack([x, y], axis=1))
    spike, low = x.min(), -40.0 if kind == "continuous" else 0.0
    high = 1.0 if kind == "bounded" else 40.0
    transform = model._columns.transforms[0]
    assert transform.spikes.tolist() == [spike] + [1.0] * (kind == "bounded")
    ends = transform.forward(np.array([low + 1e-9, high - 1e-9]))
    grid = transform.inverse(np.linspace(*ends, 20_001))
    grid = np.concatenate([[low + 1e-9], grid, [high - 1e-9]])  # transforms end before bounds
    total = 0.0
    for state in (0, 1):
        p = np.exp(model.score_samples(np.stack([grid, np.full(len(grid), state)], axis=1)))
        total += np.trapezoid(p, grid)
        masses = model.score_samples([[value, state] for value in transform.spikes])
        total += np.exp(masses).sum() * transform.unit
    assert total == pytest.approx(1.0, abs=5e-3)
    both_states = [[0.3, 0], [0.3, 1]]
    joint = np.logaddexp.reduce(model.score_samples(both_states))
    assert joint == pytest.approx(model.score_samples([[0.3, np.nan]])[0])


def test_conditionals_of_gaussian_density(seed):
    """Quantiles agree with draws given the same entries, and cover new rows as promised."""
    model = NNMRFDensity(random_state=seed).fit(households(400, seed))
    test = households(300, seed + 50)
    hidden = test.assign(income=np.nan)
    low, middle, high = model.marginals(hidden)[0].T
    inside = ((low <= test["income"]) & (test["income"] <= high)).mean()
    assert 0.82 < inside < 0.97
    assert_allclose(model.predict(hidden)["income"], middle, rtol=1e-5)
    given = {"people": 5, "owner": True}
    draws = model.sample(2000, given=given, random_state=seed)
    row = test.iloc[:1].astype(object)
    row[["income", "savings", "region"]] = None
    row["people"], row["owner"] = 5, True
    found = model.marginals(row, quantiles=[0.1, 0.5, 0.9])
    for level, value in zip([0.1, 0.5, 0.9], found[0][0], strict=True):
        assert (draws["income"] <= value).mean() == pytest.approx(level, abs=0.05)
    share = (draws["region"] == "west").mean()
    assert share == pytest.approx(found[4][0, 1], abs=0.05)
    with pytest.raises(ValueError, match="quantiles must be a list of probabilities"):
        model.marginals(row, quantiles=[0.0])


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_expectation_maximisation_never_decreases(missing, seed):
    """The likelihood of rows with missing entries increases in each iteration."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(120, 3)), rng.integers(3, size=120)])
    X[rng.random(X.shape) < missing] = np.nan
    rows = MixtureRows(X, np.array([0, 0, 0, 3]), np.ones(120), np.zeros(3))
    prior = Prior(0.0, 0.0, 0.0)
    start = start_mixture(rows, 2, prior, rng)
    mixture, scores = fit_mixture(rows, start, prior, 15, -np.inf)
    assert (np.diff(scores) > -1e-3).all()
    logs = joint_log_densities(mixture, rows, rows.patterns)[0]
    assert_allclose(np.logaddexp.reduce(logs), mixture.log_density(X), atol=1e-12)


def numeric_rows(seed, n_rows, n_columns):
    """Return rows of two clusters of correlated numbers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns)) @ rng.normal(size=(n_columns, n_columns))
    X[::2] += 3.0
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return MixtureRows(X, np.zeros(n_columns, dtype=int), np.ones(n_rows), np.zeros(n_columns))


def test_pooled_covariance_is_shrunk(seed):
    """Components with a strong prior have the shrunk pooled covariance."""
    rows = numeric_rows(seed, 60, 12)
    for k in (1, 2):
        large = start_mixture(rows, k, Prior(1e9, 0.0), np.random.default_rng(0))
        small = start_mixture(rows, k, Prior(0.0, 0.0), np.random.default_rng(0))
        shares = np.exp(small.log_weights) * (60 + k / 2) - 0.5  # without the prior of weights
        pooled = np.tensordot(shares / shares.sum(), small.covariances, 1)
        expected = shrink_eigenvalues(pooled, 60 - k)
        assert_allclose(large.covariances, [expected] * k, atol=1e-6)
        assert not np.allclose(pooled, expected, atol=0.01)


def test_selection_of_inflation(seed):
    """The factor is that of the variance 1 of held-out rows, less a third for larger folds."""
    centres = np.where(np.arange(3000) % 2, 3.0, -3.0)
    X = (centres + np.random.default_rng(seed).normal(size=3000))[:, None]
    rows = MixtureRows(X, np.zeros(1, dtype=int), np.ones(3000), np.zeros(1))
    start = start_mixture(rows, 2, Prior(0.0, 0.0), np.random.default_rng(0))
    means, covariances = np.sqrt([[9.3], [9.3]]) * [[1.0], [-1.0]], np.full((2, 1, 1), 0.7)
    mixture = replace(start, means=means, covariances=covariances)
    choice = MixtureSelection(rows, np.random.default_rng(0))
    narrow, correct = Prior(1.0, 0.0), Prior(2.0, 0.0)
    choice._fitted = {(2, narrow): [(mixture, rows)], (2, correct): [(start, rows)]}
    assert choice.select_spread(2, narrow)[0] == pytest.approx(1.3, abs=0.11)
    assert choice.select_spread(2, correct)[0] < 1.04


def test_inflation_of_learned_mixture(seed, monkeypatch):
    rows, found = numeric_rows(seed, 60, 8), []
    for factor in (1.0, 1.5):
        monkeypatch.setattr(MixtureSelection, "select_spread", lambda *_, f=factor: (f, np.inf))
        found.append(learn_mixture(rows, 2, np.random.default_rng(0))[0])
    expected = inflate(found[0], 1.5)
    assert_allclose(found[1].covariances, expected.covariances)
    assert_allclose(found[1].means, expected.means, atol=1e-12)


def test_rows_without_entries_do_not_change_a_density(seed):
    X = np.random.default_rng(seed).standard_t(3, size=(150, 3))
    model = NNMRFDensity(random_state=seed)
    logs = model.fit(X).score_samples(X)
    empty = np.full((80, 3), np.nan)
    assert_allclose(model.fit(np.r_[X, empty]).score_samples(X), logs)


def test_quantiles_of_columns_without_negative_numbers(seed):
    """The density is positive below 0, but quantiles are not negative, as draws."""
    x = np.abs(np.random.default_rng(seed).normal(4.0, 1.5, (400, 1)))
    model = NNMRFDensity(random_state=seed).fit(x)
    levels = [1e-9, 1e-6, 0.5]
    low, lower, median = model.marginals([[np.nan]], quantiles=levels)[0][0]
    assert np.isfinite(model.score_samples([[-0.5]])[0])
    assert low == lower == 0.0
    assert abs(median - np.median(x)) < 0.5


def test_quantiles_of_rounded_numbers_have_the_probabilities_of_the_scores(seed):
    x = np.rint(np.random.default_rng(seed).normal(0.0, 0.6, (800, 1)))
    model = NNMRFDensity(column_types="integer", random_state=seed).fit(x)
    share = np.exp(model.score_samples(np.arange(-9.0, 0.0)[:, None])).sum()
    found = model.marginals([[np.nan]], quantiles=[share - 0.01, share + 0.01])[0][0]
    assert found.tolist() == [-1.0, 0.0]


def test_categories_have_no_degrees_of_freedom(seed):
    """A table without numbers has no copies of its components."""
    codes = np.random.default_rng(seed).integers(3, size=(200, 2)).astype(float)
    rows = MixtureRows(codes, np.array([3, 3]), np.ones(200), np.zeros(0))
    learned = [learn_mixture(rows, k, np.random.default_rng(0))[0] for k in (1, 2)]
    assert [mixture.n_components for mixture in learned] == [1, 4]


def test_saddle_points_are_left_out(seed, monkeypatch):
    """Equal components are a saddle point, which expectation-maximisation does not leave."""
    rng = np.random.default_rng(seed)
    X = 0.3 * rng.normal(size=(2000, 1)) + rng.choice([-1.0, 1.0], size=(2000, 1))
    rows = MixtureRows(X[:1000], np.zeros(1, dtype=int), np.ones(1000), np.zeros(1))
    good = start_mixture(rows, 2, Prior(3.0, 0.0), rng)
    saddle = replace(good, means=np.zeros((2, 1)), covariances=np.ones((2, 1, 1)))
    starts = iter([saddle, good, saddle, good])
    module = "skmrf.variational.expectation_maximization"
    choose = lambda *given: next(starts) if given[-1] is rng else good  # noqa: E731
    monkeypatch.setattr(f"{module}.start_mixture", choose)
    learned = learn_mixture(rows, 2, rng)[0].log_density(X[1000:])
    true = np.log(norm.pdf(X[1000:], [-1.0, 1.0], 0.3).mean(axis=1))
    assert learned.mean() > true.mean() - 0.02


BAD_TABLES = {
    "missing": (lambda X: X * [1, np.nan, 1], "Column 1 has no observed entry; drop it"),
    "infinite": (lambda X: np.where(X > 2, np.inf, X), "Column 0 holds infinity"),
    "outlier": (lambda X: np.r_[X, [[0, 1e30, 0]]], None),
    "too large": (lambda X: np.r_[np.abs(X), [[0, 1e300, 0]]], r"Column 1 holds 1e\+300, which is"),
    "constant": (lambda X: X * [1, 0, 1] + 5.5, None),
    "twelve constants": (lambda X: np.tile(0 * X, 4) + 2.2, None),
    "few distinct rows": (lambda X: X[:3].repeat(20, axis=0), None),
    "one row": (lambda X: X[:1], None),
    "large numbers": (lambda X: 1e305 * X, None),
    "names": (
        lambda X: pd.DataFrame({"a": X[:, 0].astype(str) + "x", "b": X[:, 1], "c": X[:, 2] > 0}),
        None,
    ),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_of_gaussian_density(name):
    make, message = BAD_TABLES[name]
    X = make(np.where(np.arange(180).reshape(60, 3) == 0, 3.0, line(60, 0, 3)))
    model = NNMRFDensity(random_state=0)
    if message:
        with pytest.raises(ValueError, match=message):
            model.fit(X)
        assert not hasattr(model, "n_features_in_")
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.isfinite(model.fit(X).score_samples(X)).all()
        draws = np.asarray(model.sample(3, random_state=0))
        assert draws.shape == (3, X.shape[1])
        assert name == "names" or np.isfinite(draws).all()


@pytest.mark.parametrize(("value", "n_others"), [(0.5, 0), (-3.25, 1), (0.0, 1), (1e6, 0)])
def test_new_value_of_a_constant_column(value, n_others, seed):
    """It is improbable, but its density is not that of an impossible value."""
    numbers = np.random.default_rng(seed).normal(size=40)
    X = np.column_stack([numbers, np.full(40, value)])
    X[:n_others, 1] = value + 1.5
    model = NNMRFDensity(column_types=["continuous", "continuous"]).fit(X)
    known, other, far = model.score_samples([[0, value], [0, value + 0.5], [0, value + 20.0]])
    assert known - 40 < other < known - 2
    assert known - 60 < far < known - 2
    assert np.mean(model.sample(50, random_state=seed)[:, 1] == value) > 0.8


def test_two_sample_test(seed):
    rows = households(150, seed, missing=0.1)
    same = classifier_two_sample_test(rows, households(150, seed + 7, 0.1), random_state=seed)
    other = rows.assign(income=rows["income"] + 2.0)
    different = classifier_two_sample_test(rows, other, random_state=seed)
    assert 0.35 < same.auc < 0.65
    assert same.lower < same.auc < same.upper
    assert different.lower > 0.6
    with pytest.raises(ValueError, match="X and Y must have the same columns"):
        classifier_two_sample_test(rows, rows.drop(columns="income"))
