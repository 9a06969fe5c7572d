"""Tests of incomplete rows and of conditional samples of NNMRFDensity."""

import copy

import numpy as np
import pytest
from nnmrf_models import (
    KINDS,
    TABLES,
    base_of,
    both,
    lattice,
    learned,
    line,
    plants,
    ring,
    small,
    with_gap,
)
from numpy.testing import assert_allclose, assert_array_equal

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


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


def test_complete_rows_do_not_depend_on_others(seed):
    model = learned("two numbers", "mrf", seed)
    rows = ring(10, seed + 1)
    mixed = np.concatenate([with_gap(rows, 1), rows])
    assert_allclose(model.score_samples(mixed)[10:], model.score_samples(rows), rtol=1e-6)


def test_incomplete_rows_do_not_depend_on_others(seed):
    model = learned("two numbers", "mrf", seed)
    rows = with_gap(ring(10, seed + 1), 1)
    assert_allclose(model.score_samples(rows)[5:], model.score_samples(rows[5:]), rtol=1e-6)


@both
def test_missing_entries_while_fitting(density, seed):
    rng = np.random.default_rng(seed)
    X = line(200, seed, 3, 0.95)
    incomplete = np.where(rng.random(X.shape) < 0.15, np.nan, X)
    model = small(density=density, max_iter=30, early_stopping=False).fit(incomplete)
    apart = np.stack([rng.permutation(x) for x in X.T], axis=1)
    without = small(density=density, max_iter=30, early_stopping=False).fit(apart)
    held_out = line(500, seed + 50, 3, 0.95)
    assert model.score(held_out) > without.score(held_out) + 0.2
    assert np.isfinite(model.score_samples(incomplete)).all()


def test_base_of_incomplete_rows(seed):
    X = line(500, seed, 3, 0.9)
    incomplete = np.where(np.random.default_rng(seed).random(X.shape) < 0.2, np.nan, X)
    assert_allclose(base_of(small().fit(incomplete))[1], base_of(small().fit(X))[1], atol=0.12)


def test_missing_categories_while_fitting(seed):
    rng = np.random.default_rng(seed)
    codes = plants(120, seed)
    X = codes.astype(object)
    X[:, 1] = KINDS[codes[:, 1].astype(int)]
    X[rng.random(X.shape) < 0.2] = None
    model = small(categorical_features=[1]).fit(X)
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
