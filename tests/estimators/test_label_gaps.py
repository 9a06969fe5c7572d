"""Tests of predictions of NNMRFClassifier for incomplete rows."""

import numpy as np
import pandas as pd
import pytest
from labelled_rows import classes, fitted, kinds, rings
from numpy.testing import assert_allclose, assert_array_equal

from skmrf.estimators.nnmrf import class_densities
from skmrf.estimators.nnmrf.class_densities import N_IMPUTATIONS, impute_rows, mean_log_proba

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def integral(model, rows, axis, volume):
    """Return mean and deviation of ``p(y | x)`` over the second column of the rows."""
    means, deviations = [], []
    for x in rows[:, 0]:
        line = np.stack([np.full(len(axis), x), axis], axis=1)
        weights = np.exp(model.score_samples(line))
        p = model.predict_proba(line)
        assert weights.sum() * volume > 1e-4
        weights = weights / weights.sum()
        means.append(weights @ p)
        deviations.append(np.sqrt(weights @ (p - means[-1]) ** 2))
    return np.array(means), np.array(deviations)


@pytest.mark.parametrize("kind", ["rings", "kinds"])
def test_missing_entries_are_integrated_out(kind, seed):
    model = fitted(kind, seed)
    rng = np.random.default_rng(seed)
    make = {"rings": rings, "kinds": kinds}[kind]
    rows = make(40, seed + 1)[0]
    rows[:, 1] = np.nan
    axis = np.linspace(-9, 9, 1201) if kind == "rings" else np.arange(3.0)
    means, deviations = integral(model, rows, axis, axis[1] - axis[0])
    assert deviations.max() > 0.1
    found = model.predict_proba(rows)
    assert_allclose(found.sum(axis=1), 1.0)
    error = deviations / np.sqrt(N_IMPUTATIONS)
    assert (np.abs(found - means) <= 5 * error + 2e-3).all()
    copies = model.predict_proba(np.repeat(rows, 25, axis=0)).reshape(40, 25, -1)
    assert (np.abs(copies.mean(axis=1) - means) <= error + 2e-3).all()  # of 2,500 draws
    control = np.exp(model.ensemble_.log_proba(model._columns.encode(list(make(40, 9)[0].T))))
    assert np.abs(control[rng.permutation(40)] - means).max() > 5 * error.max()


@pytest.mark.parametrize("density", ["mixture", "mrf"])
def test_imputed_rows(density, seed):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], [60, 30])
    X = 8.0 * y[:, None] + rng.normal(size=(90, 2)) - 4.0
    parts = classes(density=density, random_state=seed).fit(X, y).densities_
    rows = np.array([[0.5, np.nan], [np.nan, -0.5], [1.0, 2.0], [np.nan, np.nan]])
    rows = np.repeat(rows, 500, axis=0)
    before = rows.copy()
    for odds, share in ((-np.inf, 0.0), (0.0, 0.5), (np.log(3), 0.75), (np.inf, 1.0)):
        logs = np.tile([[min(0.0, -odds), min(0.0, odds)]], (len(rows), 1))
        full = impute_rows(parts, logs, rows, rng)
        seen = ~np.isnan(rows)
        assert_array_equal(full[seen], rows[seen])
        assert not np.isnan(full).any()
        error = 5 * np.sqrt(share * (1 - share) / 500)
        second = (full[1500:].sum(axis=1) > 2.0 / 3.0).mean()  # between the classes
        assert second == pytest.approx(share, abs=error + 1e-3)
    assert_array_equal(rows, before)


def test_blocks_of_rows_do_not_matter(monkeypatch, seed):
    model = fitted("rings", seed)
    rows = model._columns.encode(list(rings(7, seed)[0].T))
    rows[[0, 2, 3, 6], 1] = np.nan
    arguments = model.ensemble_, model.densities_, np.log([0.5, 0.5]), rows
    expected = mean_log_proba(*arguments, np.random.default_rng(seed))
    full = ~np.isnan(rows).any(axis=1)
    assert_array_equal(expected[full], model.ensemble_.log_proba(rows[full]))
    monkeypatch.setattr(class_densities, "BLOCK_SIZE", 3)
    found = mean_log_proba(*arguments, np.random.default_rng(seed))
    assert_array_equal(found[full], expected[full])
    assert np.abs(np.exp(found) - np.exp(expected)).max() < 5 * 0.5 * np.sqrt(2 / N_IMPUTATIONS)
    assert_allclose(np.exp(found).sum(axis=1), 1.0)


def test_empty_rows_have_the_class_shares(seed):
    """The mean of p(y | x) over p(x) is about the share of y."""
    model = fitted("kinds", seed)
    p = model.predict_proba(np.full((20, 2), np.nan))
    assert_allclose(p.mean(axis=0), model.class_prior_, atol=0.06)


def test_missing_and_unknown_categories(seed):
    X, y = kinds(90, seed)
    table = pd.DataFrame({"size": X[:, 0], "kind": pd.Categorical(X[:, 1].astype(int).astype(str))})
    model = classes().fit(table, y)
    rows = table.iloc[:4].astype(object)
    rows["kind"] = [None, np.nan, pd.NA, None]
    incomplete = table.iloc[:4].assign(kind=pd.Categorical([None] * 4, list("012")))
    assert_array_equal(model.predict_proba(rows), model.predict_proba(incomplete))
    for rule in ("conditional", "bayes"):
        with pytest.raises(ValueError, match="Column 'kind' has the category 'oak'"):
            model.set_params(rule=rule).predict(rows.assign(kind="oak"))


def test_learning_from_incomplete_rows(seed):
    X, y = rings(400, seed)
    incomplete = X.copy()
    incomplete[np.random.default_rng(seed + 1000).random(400) < 0.3, 0] = np.nan
    model = classes(max_iter=100).fit(incomplete[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.75
    again = classes(max_iter=100).fit(incomplete[:300], y[:300])
    assert_array_equal(again.predict_proba(incomplete), model.predict_proba(incomplete))
