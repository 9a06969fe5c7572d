"""Tests of the decision rules of NNMRFClassifier."""

import copy
import pickle

import numpy as np
import pytest
from joblib import parallel_config
from labelled_rows import classes, fitted, kinds, rings
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

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
    counted, priors = classes().fit(X, y), np.array([0.2, 0.7, 0.1])
    given = classes(priors=priors).fit(X, y)
    rows = with_missing_entries(X)
    shift = np.log(priors / counted.class_prior_)
    expected = counted.predict_log_proba(rows) + shift
    expected -= np.logaddexp.reduce(expected, axis=1, keepdims=True)
    assert_allclose(given.predict_log_proba(rows), expected, atol=1e-10)
    never = classes(priors=[0.5, 0.5, 0.0]).fit(X, y)
    assert_array_equal(never.predict_proba(rows)[:, 2], 0.0)
    assert np.isfinite(never.predict_log_proba(rows)[:, :2]).all()


def test_switching_rules(seed):
    X, y = rings(60, seed)
    both, plain = classes().fit(X, y), classes(rule="bayes").fit(X, y)
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
        classes(rule=rule).fit(X, y)
    model = classes().fit(X, y)
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
    model = classes(node_layers=(8,), edge_layers=(8,), max_iter=100).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.85


def test_crosses_need_edges(seed):
    X, y = crossed(1000, seed)
    train, test = slice(300), slice(300, None)
    model = classes(max_iter=60).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.97
    model = classes("empty", max_iter=60).fit(X[train], y[train])
    assert model.score(X[test], y[test]) < 0.7


def test_labels_independent_of_rows(seed):
    """The accuracy is at most the share of the majority."""
    X, _ = rings(2300, seed)
    y = (np.random.default_rng(seed + 1000).random(2300) < 0.75).astype(int)
    model = classes(max_iter=100).fit(X[:300], y[:300])
    assert 0.62 < model.score(X[300:], y[300:]) < 0.75 + 5 * np.sqrt(0.75 * 0.25 / 2000)
    logs = model.predict_log_proba(X[300:])[np.arange(2000), y[300:]]
    assert -0.9 < logs.mean() < -0.53  # minus the entropy of the labels is -0.56


@pytest.mark.parametrize("rule", ["conditional", "bayes"])
def test_one_class(rule, seed):
    X, _ = rings(40, seed)
    model = classes(rule=rule).fit(X, np.full(40, "only"))
    rows = with_missing_entries(X)
    assert_array_equal(model.predict(rows), "only")
    assert_allclose(model.predict_proba(rows), 1.0)
    assert_allclose(model.predict_joint_log_proba(rows)[:, 0], model.score_samples(rows))


def test_many_classes_of_few_rows(seed):
    y = np.repeat(np.arange(20), 3)
    angle = 2 * np.pi * y / 20
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1) * 10
    rng = np.random.default_rng(seed)
    model = classes(max_iter=40).fit(X + 0.3 * rng.normal(size=X.shape), y)
    p = model.predict_proba(X)
    assert p.shape == (60, 20)
    assert_allclose(p.sum(axis=1), 1.0)
    assert model.score(X, y) > 0.8


def test_sample_weights_change_probabilities(seed):
    """Labels are independent of rows, so probabilities are weighted class shares."""
    X, _ = rings(300, seed)
    y = np.resize(["a", "b"], 300)
    model = classes(max_iter=10).fit(X, y, sample_weight=np.where(y == "a", 9.0, 1.0))
    assert_allclose(model.predict_proba(X).mean(axis=0), [0.9, 0.1], atol=0.04)


def test_rows_of_weight_zero_are_ignored(seed):
    X, y = rings(60, seed)
    weights = np.random.default_rng(seed).exponential(size=60)
    weights[40:] = 0.0
    X[50:, 0], y[55:] = 1e3, 7
    left = classes().fit(with_missing_entries(X), y, sample_weight=weights)
    right = classes().fit(with_missing_entries(X)[:40], y[:40], sample_weight=weights[:40])
    assert left.classes_.tolist() == [0, 1]
    rows = rings(30, seed + 1)[0]
    assert_array_equal(left.predict_proba(rows), right.predict_proba(rows))
    scaled = classes().fit(with_missing_entries(X)[:40], y[:40], sample_weight=1e3 * weights[:40])
    assert_allclose(scaled.predict_proba(rows), right.predict_proba(rows), atol=0.02)


# Reproducibility --------------------------------------------------------------------------


def test_same_seed_same_predictions(seed):
    X, y = rings(80, seed)
    X, y = with_missing_entries(X), np.where(y, "ring", "rest")
    model = classes(random_state=seed).fit(X, y)
    expected = model.predict_proba(X)
    assert_array_equal(model.predict_proba(X), expected)  # all calls have the same imputations
    assert set(model.predict(X)) == {"ring", "rest"}
    for again in (
        pickle.loads(pickle.dumps(model)),
        clone(model).fit(X, y),
        classes(random_state=np.random.default_rng(seed)).fit(X, y),
    ):
        assert_array_equal(again.predict_proba(X), expected)
    with parallel_config("threading", n_jobs=2):
        threads = classes(random_state=seed, n_jobs=2).fit(X, y)
    assert_array_equal(threads.predict_proba(X), expected)
    assert (classes(random_state=seed + 1).fit(X, y).predict_proba(X) != expected).any()
