"""Tests of the input of RBM and its use with scikit-learn."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from rbm_models import assert_same, bits, every, law, quick
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline

from skmrf import RBM
from skmrf.learners import BP, CD, MSSVM, PCD, PSMC

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# With scikit-learn ------------------------------------------------------------------------


def test_features_for_a_classifier():
    grey, labels = load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(grey, labels, random_state=0)
    model = make_pipeline(
        RBM(64, "pcd", binarize=7.5, max_iter=100, random_state=0),
        LogisticRegression(C=10, max_iter=1000),
    )
    assert model.fit(train, train_labels).score(test, test_labels) > 0.85


def test_grid_search_over_learners():
    X = bits(60)
    grid = {"learner": ["pcd", "cd", PSMC(n_particles=50)], "n_components": [2, 13]}
    search = GridSearchCV(quick(max_iter=2), grid, cv=2).fit(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    inner = GridSearchCV(quick(learner=PCD(), max_iter=2), {"learner__n_chains": [10, 20]}, cv=2)
    assert inner.fit(X).best_estimator_.learner.n_chains in (10, 20)


def test_types_of_rows(tmp_path):
    X = bits(40, 4)
    expected = quick().fit(X)
    saved = tmp_path / "rows.npy"
    np.save(saved, X.astype(float))
    locked = X.copy()
    locked.flags.writeable = False
    kinds = (X.astype(bool), X.astype(np.float32), X.tolist(), X.astype(object), locked)
    strided = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    for rows in (*kinds, np.asfortranarray(X), strided, np.load(saved, mmap_mode="r")):
        assert_same(quick().fit(rows), expected)
        np.testing.assert_allclose(expected.transform(rows), expected.transform(X), rtol=1e-6)
    assert expected.transform(X).dtype == np.float64
    assert expected.transform(X.astype(np.float32)).dtype == np.float32
    assert expected.transform(sp.csr_array(X.astype(np.float32))).dtype == np.float32


def test_frames():
    X = pd.DataFrame(bits(40, 3), columns=["a", "b", "c"])
    model = quick().fit(X)
    assert_same(model, quick().fit(X.to_numpy()))
    assert_same(model, quick().fit(pl.DataFrame({name: X[name].to_list() for name in X})))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.set_output(transform="pandas").transform(X).columns.tolist() == [
        f"rbm{k}" for k in range(4)
    ]
    assert (model.sample(5, given={"b": 1}, random_state=0)["b"] == 1).all()
    with pytest.raises(ValueError, match="feature names"):
        model.transform(X[["c", "b", "a"]])
    with pytest.raises(ValueError, match=r"Column 'c' holds 3, but the states are 0 and 1"):
        model.score(X.assign(c=3))


@every
@pytest.mark.parametrize("convert", [np.array, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "rows",
    [
        [[1.0, 0.0, 1.0]],
        [[1.0], [0.0], [1.0]],
        [[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]],
        [[0.0, 0.0]] * 30,
        [[1.0, 1.0], [0.0, 0.0]] * 10,
    ],
    ids=["one row", "one column", "a constant column", "all zero", "equal columns"],
)
def test_degenerate_data(rows, convert, learner):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = quick(2, learner, max_iter=20, alpha=0.01).fit(convert(np.array(rows)))
    for name in ("components_", "intercept_visible_", "intercept_hidden_", "hidden_stds_"):
        assert np.isfinite(getattr(model, name)).all()
    uniform = -len(rows[0]) * np.log(2)
    assert uniform - 0.1 < model.score(convert(np.array(rows))) <= 1e-6


# Probabilities ----------------------------------------------------------------------------


def fractions(n_rows=60, n_columns=5, seed=0):
    """Return rows of probabilities; some probabilities are exactly 0 or 1."""
    return np.clip(np.random.default_rng(seed).normal(0.6, 0.4, (n_rows, n_columns)), 0, 1)


def test_transform_takes_probabilities():
    model = quick().fit(bits(40, 5))
    other = BernoulliRBM(4).fit(bits(40, 5))
    other.components_ = model.components_
    other.intercept_hidden_ = model.intercept_hidden_
    P = fractions()
    for rows in (P, sp.csr_array(P), pd.DataFrame(P)):
        np.testing.assert_allclose(model.transform(rows), other.transform(P), rtol=1e-5)
    assert np.abs(model.transform(P) - model.transform(P > 0.5)).max() > 1e-3


@every
def test_fit_takes_probabilities(learner):
    P = fractions()
    dense, sparse = (quick(learner=learner, max_iter=2).fit(rows) for rows in (P, sp.csr_array(P)))
    np.testing.assert_allclose(dense.components_, sparse.components_, atol=1e-6)
    assert np.abs(dense.components_ - quick(learner=learner).fit(P > 0.5).components_).max() > 1e-4
    assert np.isfinite(dense.sample(3, random_state=0)).all()
    assert np.isfinite(dense.partial_fit(P).score(P > 0.5))
    assert quick(learner=learner, early_stopping=True).fit(P).history_["validation_score"][0] < 0


@pytest.mark.parametrize("weighted", [False, True])
def test_model_of_probabilities_has_their_means(weighted, seed):
    P = fractions(seed=seed)
    weights = np.arange(len(P)) if weighted else np.ones(len(P))
    model = RBM(1, "exact", optimizer="lbfgs", random_state=seed)
    energy = model.fit(P, sample_weight=weights).energy_
    V, log_p = law(energy)
    means = np.average(P, axis=0, weights=weights)
    np.testing.assert_allclose(np.exp(log_p) @ V, means, atol=1e-3)
    start = quick(learning_rate=1e-12, max_iter=1).fit(P, sample_weight=weights)
    ones = weights @ P
    expected = np.log((ones + 0.5) / (weights.sum() - ones + 0.5))
    np.testing.assert_allclose(start.intercept_visible_, expected, rtol=1e-4)


@pytest.mark.parametrize("query", ["score_samples", "score", "free_energy", "gibbs"])
def test_other_queries_refuse_probabilities(query):
    model = quick().fit(fractions())
    with pytest.raises(ValueError, match=r"Column . holds 0\.\d+, but .* binarize= .* by rounding"):
        getattr(model, query)(np.full((2, 5), 0.25) + 0.5 * np.eye(2, 5))


@pytest.mark.slow
def test_default_parameters_learn_a_good_model():
    X = bits(200, 12)
    model = RBM(2, random_state=0).fit(X)
    best = RBM(2, "exact", optimizer="lbfgs", random_state=0).fit(X).score(X)
    assert model.history_["n_updates"][-1] <= 10_100
    assert best - 0.3 < model.score(X) < best + 0.01


# Bad input --------------------------------------------------------------------------------

BITS = bits(20, 3)

BAD_PARAMETERS = [
    ({"n_components": 0}, "n_components must be an integer >= 1; got 0"),
    ({"n_components": 2.0}, r"n_components must be an integer; got 2\.0"),
    ({"learner": "sgd"}, r"learner must be one of \['cd', 'exact', .*'psmc'.*; got 'sgd'"),
    ({"learner": "bp"}, r"RBM cannot take the learner BP\(\): .*Take one of \['cd', 'exact'"),
    ({"learner": "pseudo-likelihood"}, r"RBM cannot take the learner PseudoLikelihood\(\)"),
    ({"learner": BP()}, r"RBM cannot take the learner BP\(\)"),
    ({"learner": PCD}, "learner must be one of .*; got <class"),
    ({"learner": PCD(n_chains=0)}, "n_chains must be an integer >= 1; got 0"),
    ({"learner": CD(n_sweeps=0)}, "n_sweeps must be an integer >= 1; got 0"),
    ({"binarize": "mean"}, "binarize must be a number; got 'mean'"),
    ({"init_visible_bias": "ones"}, r"init_visible_bias must be one of \['data', 'zeros'\]"),
    ({"optimizer": "lbfgs"}, 'optimizer="lbfgs" needs a deterministic objective'),
    ({"alpha": -1}, "alpha must be a number >= 0; got -1"),
    ({"max_iter": 0}, "max_iter must be an integer >= 1; got 0"),
    ({"batch_size": 0}, "batch_size must be an integer >= 1; got 0"),
    ({"max_bytes": 100}, "Learning 12 weights needs about 576 bytes, .* Use fewer n_components"),
    ({"n_components": 10**9}, "Learning 3000000000 weights needs about 1.44e"),
    ({"random_state": "seed"}, "random_state must be None, an int"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS)))
def test_bad_parameters(parameters, message):
    model = RBM(**{"n_components": 4, "learner": "pcd", "max_iter": 1, **parameters})
    with pytest.raises(ValueError, match=message):
        model.fit(BITS)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_exact_learning_of_two_large_layers_raises():
    with pytest.raises(ValueError, match=r'smaller layer \(50 units.* such as "pcd" or "psmc"'):
        RBM(60, "exact").fit(bits(20, 50))


BAD_DATA = [
    (BITS * 2, ValueError, "Column 0 holds 2, but the states are 0 and 1. .* as binarize="),
    (BITS * 1.5, ValueError, r"Column 0 holds 1\.5, but the states are 0 and 1"),
    (-0.5 * BITS, ValueError, r"Column 0 holds -0\.5, but the states are 0 and 1"),
    (sp.csr_array(BITS * 2), ValueError, "Column 0 holds 2, but the states are 0 and 1"),
    (np.where(BITS > 0, np.nan, 0), ValueError, "Column 0 holds NaN, but RBM needs complete rows"),
    (np.where(BITS > 0, np.inf, 0), ValueError, "Column . holds infinity; give finite"),
    (BITS[:0], ValueError, r"Found array with 0 sample\(s\)"),
    (BITS[:, :0], ValueError, r"Found array with 0 feature\(s\)"),
    (BITS[:, 0], ValueError, "Expected 2D array, got 1D array"),
    (BITS + 1j, ValueError, "Complex data not supported"),
    (np.array([["a", "b"]] * 3), ValueError, "which is not a number; give two states"),
    (pd.DataFrame({"x": [1, 1], "y": [0, 7]}), ValueError, "Column 'y' holds 7, but the states"),
]


@pytest.mark.parametrize(("data", "error", "message"), BAD_DATA, ids=range(len(BAD_DATA)))
def test_bad_data(data, error, message):
    model = quick()
    with pytest.raises(error, match=message):
        model.fit(data)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_failed_fit_keeps_the_previous_model():
    model = quick().fit(BITS)
    before = model.score(BITS)
    with pytest.raises(ValueError, match="Column 1 holds 3"):
        model.fit(np.array([[1, 3]]))
    assert model.score(BITS) == before
    with pytest.raises(ValueError, match="X has 2 features, but RBM is expecting 3"):
        model.transform(np.ones((1, 2)))


def test_unfitted_and_clone():
    model = RBM(3, PCD(n_chains=10))
    for query in ("transform", "free_energy", "score_samples", "score", "gibbs", "sample"):
        with pytest.raises(NotFittedError):
            getattr(model, query)(*([] if query == "sample" else [BITS]))
    with pytest.raises(NotFittedError):
        model.inverse_transform(np.ones((1, 3)))
    assert clone(model).learner.n_chains == 10
    assert not hasattr(model, "components_")
    assert model.__sklearn_tags__().input_tags.sparse


@pytest.mark.parametrize("learner", ["mssvm", MSSVM()], ids=str)
def test_learners_of_conditional_models_raise(learner):
    with pytest.raises(ValueError, match="RBM cannot take the learner"):
        RBM(2, learner).fit(np.eye(4))
