"""Tests of CRBMStructuredPredictor: queries, input, use with scikit-learn."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from estimator_models import MAX_MARGIN, assert_close, real, some_alpha, tied
from estimator_models import assert_same_theta as assert_same
from estimator_models import every_conditional as every
from estimator_models import quick_conditional as quick
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skmrf import CRBMStructuredPredictor
from skmrf._data.numeric import scale_inputs
from skmrf._utils import rows as rows_module
from skmrf._utils.rows import Batch, dense_rows
from skmrf.estimators import _conditional_training
from skmrf.learners import CD, LSSVM, MLEBP, MSSVM
from skmrf.training import EarlyStopping, ScoreMonitor, initial_values
from skmrf.training.logistic_start import make_solver

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@every
@pytest.mark.parametrize("labels", [[1, 2], ["no", "yes"], [False, True], [-1.0, 1.0]], ids=str)
def test_one_output(learner, labels):
    X, Y = tied()
    y = np.array(labels)[Y[:, 0]]
    model = quick(learner=learner, max_iter=15).fit(X, y)
    assert model.classes_.tolist() == labels
    assert model.output_shape_ == ()
    odds, predicted = model.decision_function(X), model.predict(X)
    assert odds.shape == predicted.shape == (len(X),)
    assert odds.dtype == float
    assert predicted.dtype == y.dtype
    assert_array_equal(predicted, np.array(labels)[(odds > 0).astype(int)])
    assert model.score(X, y) == np.mean(predicted == y) > 0.8
    if learner not in MAX_MARGIN:
        p = model.predict_proba(X)
        assert_allclose(p.sum(axis=1), 1.0)
        assert_allclose(p[:, 1], 1 / (1 + np.exp(-odds)))
        assert_array_equal(np.array(labels)[p.argmax(axis=1)], predicted)


@every
@pytest.mark.parametrize("shape", [(1,), (8,), (2, 2, 2)])
def test_several_outputs(learner, shape):
    X, Y = tied()
    Y = Y[:, : np.prod(shape)].reshape(-1, *shape)
    model = quick(learner=learner, max_iter=15).fit(X, Y)
    assert model.classes_.tolist() == {1: [[0, 1]], 8: list(range(8)), 2: [0, 1]}[shape[0]]
    assert model.output_shape_ == shape
    odds, predicted = model.decision_function(X), model.predict(X)
    assert odds.shape == predicted.shape == Y.shape
    assert np.issubdtype(predicted.dtype, np.integer)
    assert_array_equal(predicted, odds > 0)
    assert model.score(X, Y) == pytest.approx(np.mean(predicted == Y), abs=1e-12)
    assert model.score(X, Y) > 0.8
    if learner not in MAX_MARGIN:
        assert_allclose(model.predict_proba(X), 1 / (1 + np.exp(-odds)))
    flat = quick(learner=learner, max_iter=15).fit(X, Y.reshape(len(Y), -1))
    assert_same(model, flat)
    assert_array_equal(flat.decision_function(X), odds.reshape(len(Y), -1))


@pytest.mark.parametrize("n_outputs", [1, 8])
def test_metrics_of_several_outputs_in_cross_validation(n_outputs):
    """scikit-learn takes the probabilities of all outputs, not those of one class."""
    X, Y = tied()
    Y, model = Y[:, :n_outputs], quick(max_iter=3, alpha=0.1, random_state=0)
    folds = list(KFold(2).split(X))
    found = cross_val_predict(model, X, Y, cv=folds, method="predict_proba")
    metrics = ["roc_auc", "average_precision", "accuracy"] + ["neg_log_loss"] * (n_outputs == 1)
    scores = cross_validate(model, X, Y, cv=folds, scoring=metrics, return_estimator=True)
    for k, ((_, rows), fitted) in enumerate(zip(folds, scores["estimator"], strict=True)):
        p = fitted.predict_proba(X[rows])
        assert_allclose(found[rows], p)
        assert scores["test_roc_auc"][k] == roc_auc_score(Y[rows], p)
        assert scores["test_average_precision"][k] == average_precision_score(Y[rows], p)
        assert scores["test_accuracy"][k] == (fitted.predict(X[rows]) == Y[rows]).all(axis=1).mean()
        if n_outputs == 1:
            assert scores["test_neg_log_loss"][k] == pytest.approx(-log_loss(Y[rows], p))


@pytest.mark.parametrize("learner", [*MAX_MARGIN, MSSVM(), LSSVM()], ids=str)
def test_max_margin_models_have_no_probabilities(learner):
    X, Y = tied()
    model = quick(learner=learner).fit(X, Y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba") as error:
        model.predict_proba(X)
    assert "have no probabilities. Use decision_function" in str(error.value.__cause__)


def test_score_uses_weights_and_checks_shapes():
    X, Y = tied()
    model = quick().fit(X, Y)
    right = (model.predict(X) == Y).mean(axis=1)
    weights = np.arange(len(X))
    assert model.score(X, Y, weights) == pytest.approx(np.average(right, weights=weights))
    for wrong in (Y[:, 0], Y[:, :3], Y[:5], Y.reshape(-1, 2, 4)):
        with pytest.raises(ValueError, match=r"y must have shape \(150, 8\), .* got"):
            model.score(X, wrong)
    one = quick().fit(X, Y[:, 0])
    with pytest.raises(ValueError, match=r"y must have shape \(150,\); got \(150, 1\)"):
        one.score(X, Y[:, :1])
    with pytest.raises(ValueError, match=r"sample_weight\[0\] is -1\.0"):
        model.score(X, Y, -np.ones(len(X)))


def test_probabilities_of_a_tree_are_exact():
    """Belief propagation is exact with one hidden unit."""
    X, Y = tied(n_outputs=4)
    model = quick(1, MLEBP(n_iter=20), max_iter=30).fit(X, Y)
    W, bits = model.energy_.weights.astype(float), np.arange(16)[:, None] >> np.arange(4) & 1
    theta = model.energy_.theta
    for x, p in zip(model.scaler_.transform(X[:5]), model.predict_proba(X[:5]), strict=True):
        a = x @ theta["visible_inputs"] + theta["visible_bias"]
        b = x @ theta["hidden_inputs"] + theta["hidden_bias"]
        f = bits @ a + np.logaddexp(0.0, bits @ W + b).sum(axis=1)
        weights = np.exp(f - f.max())
        assert_allclose(p, weights @ bits / weights.sum(), atol=1e-5)


@every
def test_predictions_do_not_depend_on_other_rows(learner):
    X, Y = tied()
    model = quick(learner=learner, max_iter=20).fit(real(X), Y)
    odds = model.decision_function(real(X))
    singly = np.concatenate([model.decision_function(row[None]) for row in real(X)])
    assert_allclose(odds, singly, atol=1e-7, rtol=1e-7)


def test_queries_use_the_learner_of_the_fit():
    X, Y = tied()
    model = quick(learner="mle-bp").fit(X, Y)
    before = model.predict_proba(X)
    model.set_params(learner="mssvm")
    assert_array_equal(model.predict_proba(X), before)
    assert not hasattr(clone(model), "predict_proba")


def test_log_loss_decides_between_equal_scores():
    X, Y = tied(400)
    model = quick(max_iter=20, learner="mle-bp", alpha=0.1).fit(
        X, Y[:, 0], X_val=X[:20], y_val=Y[:20, 0]
    )
    scores = np.array(model.history_["validation_score"])
    assert len(np.unique(scores)) > len(np.unique(np.round(scores, 3)))


@pytest.mark.parametrize("learner", MAX_MARGIN)
def test_scores_without_probabilities_are_shares(learner):
    X, Y = tied(400)
    model = quick(learner=learner).fit(X, Y, X_val=X[:20], y_val=Y[:20])
    counts = np.array(model.history_["validation_score"]) * Y[:20].size
    assert_allclose(counts, np.round(counts), rtol=0, atol=1e-9)


def test_classes_of_several_outputs():
    X, Y = tied()
    with pytest.raises(
        ValueError, match=r"classes must be \[0, 1\] if there are several .*; got \['a', 'b'\]"
    ):
        quick().partial_fit(X, Y, classes=["a", "b"])


# Inputs -----------------------------------------------------------------------------------


@every
def test_sparse_and_dense_rows_give_the_same_model(learner):
    X, Y = tied()
    model = quick(learner=learner, alpha=some_alpha(learner))
    dense = clone(model).fit(X, Y)
    assert (dense.scaler_ is None) == (learner == "lr")
    for convert in (sp.csr_matrix, sp.coo_array):
        sparse = clone(model).fit(convert(X), Y)
        if "cd" not in learner:  # rounding may change its chains
            assert_close(sparse, dense)
        odds = dense.decision_function(X)
        assert_allclose(dense.decision_function(convert(X)), odds, atol=1e-8)
    assert_same(clone(model).fit(X, sp.csr_array(Y)), dense)


def test_sparse_columns_are_scaled_but_not_centred():
    X, Y = tied()
    numbers = np.where(X > 0, 5.0 * real(X), 0.0)
    few = sp.csr_array(np.hstack([numbers, X]))  # up to 100 columns are treated like dense ones
    assert_close(quick().fit(few, Y), quick().fit(few.toarray(), Y))
    numbers = sp.csr_array(np.tile(numbers, 13))
    model = quick(max_iter=10).fit(numbers, Y)
    assert not model.scaler_.with_mean
    assert_allclose(model.scaler_.transform(numbers).power(2).mean(axis=0), 1.0)
    assert model.score(numbers, Y) > 0.8
    assert_allclose(
        model.decision_function(numbers.toarray()), model.decision_function(numbers), atol=1e-8
    )
    centred = quick(max_iter=10).fit(numbers.toarray(), Y)
    assert_allclose(
        centred.decision_function(numbers), centred.decision_function(numbers.toarray()), atol=1e-8
    )


def test_sparse_rows_stay_sparse():
    X = sp.random_array((2000, 20_000), density=0.0005, rng=0, format="csr")
    X.data[:] = 1.0
    Y = np.random.default_rng(0).integers(2, size=(2000, 2))
    model = quick(2, max_iter=1, early_stopping=False, average=False)
    model.fit(X[:200], Y[:200])  # compiles the kernels
    tracemalloc.start()
    model.fit(X, Y)
    model.predict(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30e6  # L-BFGS stores 40 vectors; one byte per entry of X would be 40e6


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("learner", ["mle-bp", "mssvm"])
def test_wide_rows_are_trained_in_their_span(convert, learner, monkeypatch, seed):
    """Training in the span changes weights of inputs only where training rows do not see them."""
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(40, 300)) * (rng.random((40, 300)) < 0.2), rng.integers(2, size=(40, 3))
    X[1], Y[1] = X[0], Y[0]  # the inner products of the rows are a singular matrix
    new, rows = convert(rng.normal(size=(5, 300))), convert(X)
    options = {"alpha": 0.02, "early_stopping": False, "max_iter": 20, "random_state": seed}
    model = CRBMStructuredPredictor(32, learner, **options)
    spanned = clone(model).fit(rows, Y)
    monkeypatch.setattr(_conditional_training, "WIDE", np.inf)
    whole = clone(model).fit(rows, Y)
    theta, expected = spanned.energy_.theta, whole.energy_.theta
    for name in ("weights", "visible_inputs", "visible_bias", "hidden_bias"):
        assert_allclose(theta[name], expected[name], atol=1e-4)
    scaled = dense_rows(scale_inputs(whole.scaler_, rows))
    hidden = theta["hidden_inputs"]
    assert_allclose(scaled @ hidden, scaled @ expected["hidden_inputs"], atol=1e-3)
    span = np.linalg.pinv(scaled, rcond=1e-6) @ scaled
    assert_allclose(span @ hidden, hidden, atol=1e-4)
    assert np.abs(span @ expected["hidden_inputs"] - hidden).max() < 1e-3
    assert np.abs(expected["hidden_inputs"] - hidden).max() > 0.01
    assert spanned.predict(new).shape == (5, 3)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_constant_inputs_have_moderate_weights(convert):
    """The variance of a constant column is a rounding error, and not 0."""
    for n, value in ((77, 0.1), (77, 4e-17), (333, 0.1), (333, 1.0), (1000, 0.3)):
        data = Batch(convert(np.full((n, 3), value)), np.zeros((n, 2), dtype=int))
        theta = initial_values.conditional_layers(data, 4, np.random.default_rng(0))
        assert np.abs(theta["hidden_inputs"]).max() < 10.0


def test_first_weights_have_the_scale_of_the_inputs(seed):
    """Rare ones and large numbers change the log odds of hidden units by about 1."""
    rng = np.random.default_rng(seed)
    X = np.hstack([rng.random((2000, 200)) < 0.05, 30.0 * rng.normal(size=(2000, 2))])
    for inputs in (X[:, :200].astype(float), X):
        data = Batch(inputs, rng.integers(2, size=(2000, 3)))
        weights = initial_values.conditional_layers(data, 400, rng)["hidden_inputs"]
        assert 0.8 < (inputs @ weights).std(axis=0).mean() < 1.2


def test_few_binary_columns_are_centred_if_there_are_hidden_units():
    X, Y = tied()
    Z = quick().fit(X, Y).scaler_.transform(X)
    assert_allclose(Z, 2.0 * (X - X.mean(axis=0)))
    assert quick().fit(np.tile(X, 13), Y).scaler_ is None  # 104 columns


def test_binary_columns_of_logistic_regressions_are_not_scaled():
    X, Y = tied()
    mixed = X.copy()
    mixed[:, 2:4] = 1e3 * real(X[:, 2:4]) + 50.0
    scaler = quick(learner="lr").fit(mixed, Y).scaler_
    assert_array_equal(scaler.transform(mixed)[:, [0, 1, 4, 5, 6, 7]], mixed[:, [0, 1, 4, 5, 6, 7]])
    assert_allclose(scaler.transform(mixed)[:, 2:4].mean(axis=0), 0.0, atol=1e-9)
    assert_allclose(scaler.transform(mixed)[:, 2:4].std(axis=0), 1.0)


@pytest.mark.parametrize("learner", ["mle-bp", "lr", "mssvm"])
def test_scales_of_columns_do_not_matter(learner, seed):
    X, Y = tied(600, seed=seed)
    X = real(X, seed)
    factors = 10.0 ** np.array([4, -4, 0, 2, -2, 4, -4, 1])
    plain = quick(8, learner, max_iter=20).fit(X[:300], Y[:300])
    scaled = quick(8, learner, max_iter=20).fit(X[:300] * factors + 3 * factors, Y[:300])
    score = plain.score(X[300:], Y[300:])
    assert score > 0.8
    assert scaled.score(X[300:] * factors + 3 * factors, Y[300:]) == pytest.approx(score, abs=0.01)


def test_types_of_rows(tmp_path):
    X, Y = tied(60)
    X = real(X)
    expected = quick().fit(X, Y)
    saved = tmp_path / "rows.npy"
    np.save(saved, X)
    locked = X.copy()
    locked.flags.writeable = False
    strided = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    mapped = np.load(saved, mmap_mode="r")
    for rows in (X.tolist(), X.astype(object), locked, np.asfortranarray(X), strided, mapped):
        assert_same(quick().fit(rows, Y), expected)
        assert_allclose(expected.decision_function(rows), expected.decision_function(X))
    np.save(tmp_path / "outputs.npy", Y)
    mapped = np.load(tmp_path / "outputs.npy", mmap_mode="r")
    kinds = Y.astype(bool), Y.astype(np.float32), Y.tolist(), Y.astype(object), mapped
    strided = np.repeat(Y, 2, axis=1)[:, ::2]
    for outputs in (*kinds, np.asfortranarray(Y), strided, pd.DataFrame(Y)):
        assert_same(quick().fit(X, outputs), expected)
        assert expected.score(X, outputs) == expected.score(X, Y)
    single = quick(max_iter=20).fit(X.astype(np.float32), Y)
    assert single.score(X, Y) == pytest.approx(quick(max_iter=20).fit(X, Y).score(X, Y), abs=0.02)
    assert single.predict_proba(X.astype(np.float32)).dtype == np.float64


def test_frames():
    X, Y = tied(60, 4)
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=names)
    model = quick().fit(frame, pd.DataFrame(Y, columns=names))
    assert_same(model, quick().fit(X, Y))
    assert_same(model, quick().fit(pl.DataFrame(X, schema=names), pl.DataFrame(Y, schema=names)))
    assert model.feature_names_in_.tolist() == names
    assert model.n_features_in_ == 4
    assert_array_equal(model.predict(pl.DataFrame(X, schema=names)), model.predict(frame))
    for query in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(ValueError, match="feature names"):
            getattr(model, query)(frame[names[::-1]])
    words = pd.Series(np.where(Y[:, 0] == 1, "yes", "no"))
    assert quick().fit(frame, words).predict(frame).tolist()[0] in ("yes", "no")
    assert quick().fit(frame, words.astype("category")).classes_.tolist() == ["no", "yes"]
    assert quick().fit(frame, pl.Series(words.tolist())).classes_.tolist() == ["no", "yes"]


# With scikit-learn ------------------------------------------------------------------------


def test_pipelines_and_searches():
    X, Y = tied(90)
    pipeline = make_pipeline(StandardScaler(), quick(max_iter=10))
    assert pipeline.fit(real(X), Y).score(real(X), Y) > 0.8
    assert cross_val_score(pipeline, real(X), Y, cv=3).min() > 0.7
    grid = {"learner": ["mle-bp", "lr", "mssvm", CD(n_sweeps=2)], "n_components": [2, 5]}
    search = GridSearchCV(quick(), grid, cv=2).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict(X).shape == Y.shape
    inner = GridSearchCV(quick(learner=MLEBP()), {"learner__n_iter": [3, 9]}, cv=2).fit(X, Y[:, 0])
    assert inner.best_estimator_.learner.n_iter in (3, 9)
    images = GridSearchCV(quick(), {"alpha": [0.0, 0.1]}, cv=2).fit(X, Y.reshape(-1, 2, 4))
    assert images.predict(X).shape == (90, 2, 4)


def test_unfitted_and_clone():
    model = quick(3, MSSVM(max_iter=7))
    for query in ("predict", "decision_function", "score"):
        with pytest.raises(NotFittedError):
            getattr(model, query)(*tied()[: 1 + (query == "score")])
    with pytest.raises(NotFittedError):
        CRBMStructuredPredictor().predict_proba(tied()[0])
    copied = clone(model)
    assert copied.learner is not model.learner
    assert copied.learner.max_iter == 7
    assert copied.set_params(learner__loss_weight=2.0).learner.loss_weight == 2.0
    assert not hasattr(copied.fit(*tied()), "predict_proba")
    tags = model.__sklearn_tags__()
    assert tags.input_tags.sparse
    assert tags.classifier_tags.multi_label
    assert not tags.classifier_tags.multi_class
    assert tags.target_tags.multi_output


@pytest.mark.parametrize("n_outputs", [None, 8])
def test_callbacks_receive_targets(n_outputs):
    X, Y = tied(60)
    Y = Y[:, 0] if n_outputs is None else Y
    own, held_out = ScoreMonitor(), EarlyStopping(X[:20], y=Y[:20])
    named = ScoreMonitor(scoring=lambda model, X, y: model.score(X, y) - 1.0)
    by_metric = ScoringMonitor(scoring="accuracy" if n_outputs is None else "f1_macro")
    model = quick().set_callbacks(own, held_out, named, by_metric).fit(X, Y)
    assert own.scores[-1] == model.score(X, Y)
    assert held_out.scores[-1] == model.score(X[:20], Y[:20])
    assert named.scores[-1] == own.scores[-1] - 1.0
    assert len(own.scores) == len(held_out.scores) == 3
    logged = [
        entry["accuracy" if n_outputs is None else "f1_macro"]
        for entry in by_metric.get_logs().data
    ]
    assert len(logged) == 4  # the fit and its epochs
    assert logged[0] == logged[-1]


# Degenerate data --------------------------------------------------------------------------


@every
@pytest.mark.parametrize(
    "data",
    [
        ([[0.0, 3.0, 1.0]], [[1, 0]]),
        ([[0.0, 3.0, 1.0]], [1]),
        ([[1.0], [0.0], [1.0]], [[1, 1], [0, 1], [1, 1]]),
        ([[1.0, 7.0], [0.0, 7.0], [1.0, 7.0]], [1, 0, 1]),
        ([[5.0, -2.0]] * 30, [[0, 1]] * 30),
        ([[0.0, 0.0]] * 30, [[1], [0]] * 15),
        ([[0.0, 1.0], [1.0, 0.0]] * 15, ["one"] * 30),
    ],
    ids=[
        "one row",
        "one row and output",
        "one column",
        "a constant column",
        "constant outputs and columns",
        "nothing known",
        "one label",
    ],
)
def test_degenerate_data(data, learner):
    X, Y = (np.array(part) for part in data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = quick(2, learner, max_iter=20, alpha=some_alpha(learner)).fit(X, Y)
        odds, predicted = model.decision_function(X), model.predict(X)
    assert np.isfinite(odds).all()
    for value in model.energy_.theta.values():
        assert np.isfinite(value).all()
    assert predicted.shape == Y.shape
    assert set(np.unique(predicted)) <= set(np.unique(Y)) | ({0, 1} if Y.ndim > 1 else set())
    if learner not in MAX_MARGIN:
        p = model.predict_proba(X)
        assert p.shape == ((*Y.shape, len(model.classes_)) if Y.ndim == 1 else Y.shape)
        assert ((p >= 0) & (p <= 1)).all()
    constant = (Y[0] == Y).all(axis=0)
    assert (
        (predicted == Y)[:, constant].all()
        if Y.ndim > 1
        else (not constant or (predicted == Y).all())
    )


@pytest.mark.long
def test_many_outputs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20))
    Y = (X @ rng.normal(size=(20, 2000)) + rng.normal(size=(300, 2000)) > 0).astype(np.int8)
    model = quick(16).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert model.score(X, Y) > 0.75


def test_inputs_too_large_for_the_weights_raise():
    X, Y = tied()
    model = quick(max_iter=30).fit(X, Y)
    far = X.copy()
    far[7] = 1e308
    with pytest.raises(ValueError, match=r"Row 7 of X holds numbers that are too large"):
        model.decision_function(far)


def test_fit_raises_if_weights_are_too_large_for_inference():
    X, Y = tied()
    model = quick(learner="mssvm", alpha=0.0, learning_rate=1e6, max_iter=1, batch_size=200)
    with pytest.raises(ValueError, match="needs weights of absolute value at most 300;"):
        model.fit(X, Y)


def test_tiny_sparse_columns():
    X, Y = tied()
    X[:, 0] *= 1e-170
    model = quick().fit(sp.csr_matrix(X), Y)
    assert np.isfinite(model.decision_function(sp.csr_matrix(X))).all()


# Memory maps -------------------------------------------------------------------------------


def write_rows(path, X):
    """Write rows to a file, and return a memory map of it."""
    np.save(path, X)
    return np.load(path, mmap_mode="r")


@pytest.mark.parametrize(
    ("dtype", "options", "weighted"),
    [
        (np.float32, {}, False),
        (np.float64, {"learner": "cd"}, True),
        (np.int8, {"alpha": "auto", "learner": "lr", "max_iter": None}, True),
        (np.int64, {"learner": "mssvm", "early_stopping": False, "penalty": "l1"}, False),
        (np.uint8, {"device": "jax"}, True),
        (np.float32, {"device": "jax", "early_stopping": False}, False),
    ],
    ids=str,
)
def test_rows_of_a_memory_map(dtype, options, weighted, tmp_path, seed, monkeypatch):
    """A memory map that is read in blocks gives the model and the predictions of an array."""
    if "device" in options:
        pytest.importorskip("jax")
    monkeypatch.setattr(rows_module, "BLOCK_ENTRIES", 1000)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 6))
    Y = (X[:, :3] + rng.normal(size=(400, 1)) > 0).astype(np.uint8)
    X = (X if np.issubdtype(dtype, np.floating) else np.rint(np.abs(X))).astype(dtype)
    weights = np.r_[np.zeros(20), np.linspace(0.5, 1.5, 380)] if weighted else None
    given = {"alpha": 0.01, "max_iter": 3, "batch_size": 50, "random_state": 0}
    expected = CRBMStructuredPredictor(4, **given | options)
    found = clone(expected)
    rows, targets = write_rows(tmp_path / "X.npy", X), write_rows(tmp_path / "Y.npy", Y)
    expected.fit(X, Y, weights)
    found.fit(rows, targets, weights)
    for k, v in expected.energy_.theta.items():
        assert_allclose(found.energy_.theta[k], v, rtol=1e-5, atol=1e-6)
    for name in ("decision_function", "predict"):
        expected_values = getattr(expected, name)(X)
        assert_allclose(getattr(found, name)(rows), expected_values, rtol=1e-5, atol=1e-5)
    Y[390, 2] = 3
    wrong = write_rows(tmp_path / "wrong.npy", Y)
    with pytest.raises(ValueError, match=r"Output 2 of row 390 of y is 3"):
        found.fit(rows, wrong)


def test_logistic_regressions_of_a_large_memory_map(tmp_path, seed, monkeypatch):
    """The regressions start at those of some rows, and are fitted to all rows."""
    monkeypatch.setattr(rows_module, "BLOCK_ENTRIES", 2000)
    monkeypatch.setattr("skmrf.estimators._conditional_training.MAX_ENTRIES", 2000)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3000, 4))
    Y = (X[:, :2] + rng.logistic(size=(3000, 2)) > 0).astype(np.int8)
    maps = write_rows(tmp_path / "X.npy", X), write_rows(tmp_path / "Y.npy", Y)
    for penalty, options in (("l2", {}), ("l1", {}), ("l2", {"max_iter": 1, "learner": "mle-bp"})):
        model = CRBMStructuredPredictor(2, "lr", penalty=penalty, random_state=0)
        found = model.set_params(**options).fit(*maps)
        assert 0.001 < found.alpha_ * len(X) < 1000.0
        data = Batch(scale_inputs(found.scaler_, X), Y)
        solver = make_solver(data, penalty, found._strongest is not None)
        expected = solver.solve(found.alpha_).theta["visible_inputs"]
        assert_allclose(found.energy_.theta["visible_inputs"], expected, atol=0.01)


@pytest.mark.long
@pytest.mark.parametrize("device", ["cpu", pytest.param("jax", marks=pytest.mark.slow)])
def test_memory_of_a_memory_map(device, tmp_path, monkeypatch):
    """A fit and predictions copy only small parts of the rows of a memory map."""
    if device == "jax":
        pytest.importorskip("jax")
    monkeypatch.setattr("skmrf.training.device.MAPPED_BYTES", 2**18)
    monkeypatch.setattr("skmrf.estimators._conditional_training.MAX_ENTRIES", 2**15)
    monkeypatch.setattr(rows_module, "BLOCK_ENTRIES", 2**15)
    X = np.random.default_rng(0).integers(0, 3, (100_000, 60), dtype=np.uint8)
    Y = (X[:, :2] > 0).astype(np.uint8)
    rows, targets = write_rows(tmp_path / "X.npy", X), write_rows(tmp_path / "Y.npy", Y)
    n_bytes = X.nbytes
    del X
    alpha = "auto" if device == "cpu" else 0.01  # it is chosen on the CPU
    options = {"max_iter": 1, "batch_size": 2000, "device": device, "random_state": 0}
    model = CRBMStructuredPredictor(2, alpha=alpha, **options)
    model.fit(rows[:4000], targets[:4000]).predict(rows[:4000])  # compiles
    tracemalloc.start()
    model.fit(rows, targets)
    accuracy = model.score(rows, targets)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert accuracy > 0.8
    assert peak < n_bytes


def test_numbers_of_rows_that_are_compiled():
    """Predictions compile functions for the powers of two, and give the results of the CPU."""
    devices = pytest.importorskip("skmrf._jax.devices")
    X = np.random.default_rng(0).integers(2, size=(130, 6))
    model = CRBMStructuredPredictor(2, alpha=0.1, max_iter=1, device="jax", random_state=0)
    model.fit(X.astype(float), X[:, :2])
    devices._COMPILED.clear()
    found = [model.predict_proba(X[:n]) for n in (130, 129, 5, 8, 7)]
    assert [f._cache_size() for f in devices._COMPILED.values()] == [2]
    expected = model.set_params(device="cpu").predict_proba(X)
    for part in found:
        np.testing.assert_allclose(part, expected[: len(part)], atol=1e-5)
