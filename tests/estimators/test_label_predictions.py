"""Tests of predictions of NNMRFClassifier: decision rules and incomplete rows."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from nnmrf_models import ensemble, fitted, kinds, rings
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

from skmrf.estimators.nnmrf import class_densities
from skmrf.estimators.nnmrf.class_densities import N_IMPUTATIONS, impute_rows, mean_log_proba

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def crossed(n, seed):
    """Return rows of two classes; each has two clusters at opposite corners of a square."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], size=(n, 2))
    return 1.5 * signs + 0.5 * rng.normal(size=(n, 2)), (signs[:, 0] == signs[:, 1]).astype(int)


# Decision rules ---------------------------------------------------------------------------


def with_missing_entries(X):
    return np.where((np.arange(len(X)) % 3 == 0)[:, None] & [False, True], np.nan, X)


@pytest.mark.parametrize("kind", ["rings", "kinds"])
def test_joint_probabilities(kind, seed):
    model = copy.deepcopy(fitted(kind, seed))
    X = with_missing_entries({"rings": rings, "kinds": kinds}[kind](40, seed + 1)[0])
    scores, p = {}, {}
    for rule in ("conditional", "bayes"):
        model.set_params(rule=rule)
        scores[rule], p[rule] = model.score_samples(X), model.predict_proba(X)
        joint = model.predict_joint_log_proba(X)
        assert_allclose(np.logaddexp.reduce(joint, axis=1), scores[rule], rtol=1e-10)
        assert_allclose(np.exp(joint - scores[rule][:, None]), p[rule], rtol=1e-8, atol=1e-12)
        assert_allclose(p[rule].sum(axis=1), 1.0)
        assert_allclose(np.exp(model.predict_log_proba(X)), p[rule])
        assert_array_equal(model.predict(X), model.classes_[p[rule].argmax(axis=1)])
    assert_array_equal(*scores.values())
    assert np.abs(p["conditional"] - p["bayes"]).max() > 0.05


def test_priors_shift_log_odds(seed):
    X, y = rings(60, seed)
    y = np.where(X[:, 0] > 0.5, "c", np.where(y, "a", "b"))
    counted, priors = ensemble().fit(X, y), np.array([0.2, 0.7, 0.1])
    given = ensemble(priors=priors).fit(X, y)
    rows = with_missing_entries(X)
    shift = np.log(priors / counted.class_prior_)
    expected = counted.predict_log_proba(rows) + shift
    expected -= np.logaddexp.reduce(expected, axis=1, keepdims=True)
    assert_allclose(given.predict_log_proba(rows), expected, atol=1e-10)
    never = ensemble(priors=[0.5, 0.5, 0.0]).fit(X, y)
    assert_array_equal(never.predict_proba(rows)[:, 2], 0.0)
    assert np.isfinite(never.predict_log_proba(rows)[:, :2]).all()


def test_switching_rules(seed):
    X, y = rings(60, seed)
    both, plain = ensemble().fit(X, y), ensemble(rule="bayes").fit(X, y)
    assert plain.ensemble_ is None
    both.set_params(rule="bayes")
    assert_array_equal(both.predict_joint_log_proba(X), plain.predict_joint_log_proba(X))
    plain.set_params(rule="conditional")
    for ask in (plain.predict, plain.predict_proba, plain.predict_joint_log_proba):
        with pytest.raises(
            ValueError, match=r'was fitted with rule="bayes"\. Fit again with.*set_par'
        ):
            ask(X)
    assert_array_equal(plain.score_samples(X), both.score_samples(X))
    again = plain.fit(X, y).predict_proba(X)
    assert_array_equal(again, both.set_params(rule="conditional").predict_proba(X))


@pytest.mark.parametrize("rule", ["both", None, 1])
def test_bad_rules(rule, seed):
    X, y = rings(20, seed)
    with pytest.raises(ValueError, match=r"rule must be one of \['bayes', 'conditional'\]; got"):
        ensemble(rule=rule).fit(X, y)
    model = ensemble().fit(X, y)
    before = model.predict_proba(X)
    model.set_params(rule=rule)
    for ask in (model.predict, model.predict_proba, model.predict_joint_log_proba):
        with pytest.raises(ValueError, match="rule must be one of"):
            ask(X)
    with pytest.raises(ValueError, match="rule must be one of"):
        model.fit(X + 1, y)
    assert_array_equal(model.set_params(rule="conditional").predict_proba(X), before)


# Learned labels ---------------------------------------------------------------------------


def test_rings_that_gaussians_cannot_separate(seed):
    X, y = rings(1400, seed)
    train, test = slice(400), slice(400, None)
    gaussian = QuadraticDiscriminantAnalysis().fit(X[train], y[train])
    assert gaussian.score(X[test], y[test]) < 0.75
    model = ensemble(node_layers=(8,), edge_layers=(8,), max_iter=100).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.85


def test_crosses_need_edges(seed):
    X, y = crossed(1000, seed)
    train, test = slice(300), slice(300, None)
    model = ensemble(max_iter=60).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.97
    model = ensemble("empty", max_iter=60).fit(X[train], y[train])
    assert model.score(X[test], y[test]) < 0.7


def test_labels_independent_of_rows(seed):
    """The accuracy is at most the share of the majority."""
    X, _ = rings(2300, seed)
    y = (np.random.default_rng(seed + 1000).random(2300) < 0.75).astype(int)
    model = ensemble(max_iter=100).fit(X[:300], y[:300])
    assert 0.62 < model.score(X[300:], y[300:]) < 0.75 + 5 * np.sqrt(0.75 * 0.25 / 2000)
    logs = model.predict_log_proba(X[300:])[np.arange(2000), y[300:]]
    assert -0.9 < logs.mean() < -0.53  # minus the entropy of the labels is -0.56


@pytest.mark.parametrize("rule", ["conditional", "bayes"])
def test_one_class(rule, seed):
    X, _ = rings(40, seed)
    model = ensemble(rule=rule).fit(X, np.full(40, "only"))
    rows = with_missing_entries(X)
    assert_array_equal(model.predict(rows), "only")
    assert_allclose(model.predict_proba(rows), 1.0)
    assert_allclose(model.predict_joint_log_proba(rows)[:, 0], model.score_samples(rows))


def test_many_classes_of_few_rows(seed):
    y = np.repeat(np.arange(20), 3)
    angle = 2 * np.pi * y / 20
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1) * 10
    rng = np.random.default_rng(seed)
    model = ensemble(max_iter=40).fit(X + 0.3 * rng.normal(size=X.shape), y)
    p = model.predict_proba(X)
    assert p.shape == (60, 20)
    assert_allclose(p.sum(axis=1), 1.0)
    assert model.score(X, y) > 0.8


def test_sample_weights_change_probabilities(seed):
    """Labels are independent of rows, so probabilities are weighted class shares."""
    X, _ = rings(300, seed)
    y = np.resize(["a", "b"], 300)
    model = ensemble(max_iter=10).fit(X, y, sample_weight=np.where(y == "a", 9.0, 1.0))
    assert_allclose(model.predict_proba(X).mean(axis=0), [0.9, 0.1], atol=0.04)


def test_rows_of_weight_zero_are_ignored(seed):
    X, y = rings(60, seed)
    weights = np.random.default_rng(seed).exponential(size=60)
    weights[40:] = 0.0
    X[50:, 0], y[55:] = 1e3, 7
    left = ensemble().fit(with_missing_entries(X), y, sample_weight=weights)
    right = ensemble().fit(with_missing_entries(X)[:40], y[:40], sample_weight=weights[:40])
    assert left.classes_.tolist() == [0, 1]
    rows = rings(30, seed + 1)[0]
    assert_array_equal(left.predict_proba(rows), right.predict_proba(rows))
    scaled = ensemble().fit(with_missing_entries(X)[:40], y[:40], sample_weight=1e3 * weights[:40])
    assert_allclose(scaled.predict_proba(rows), right.predict_proba(rows), atol=0.02)


# Reproducibility --------------------------------------------------------------------------


def test_same_seed_same_predictions(seed):
    X, y = rings(80, seed)
    X, y = with_missing_entries(X), np.where(y, "ring", "rest")
    model = ensemble(random_state=seed).fit(X, y)
    expected = model.predict_proba(X)
    assert_array_equal(model.predict_proba(X), expected)  # all calls have the same imputations
    assert set(model.predict(X)) == {"ring", "rest"}
    for again in (
        pickle.loads(pickle.dumps(model)),
        clone(model).fit(X, y),
        ensemble(random_state=np.random.default_rng(seed)).fit(X, y),
    ):
        assert_array_equal(again.predict_proba(X), expected)
    with parallel_config("threading", n_jobs=2):
        threads = ensemble(random_state=seed, n_jobs=2).fit(X, y)
    assert_array_equal(threads.predict_proba(X), expected)
    assert (ensemble(random_state=seed + 1).fit(X, y).predict_proba(X) != expected).any()


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
    parts = ensemble(density=density, random_state=seed).fit(X, y).densities_
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
    model = ensemble().fit(table, y)
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
    model = ensemble(max_iter=100).fit(incomplete[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.75
    again = ensemble(max_iter=100).fit(incomplete[:300], y[:300])
    assert_array_equal(again.predict_proba(incomplete), model.predict_proba(incomplete))
