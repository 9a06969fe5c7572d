"""CRBMStructuredPredictor as its users meet it."""

import pickle
import tracemalloc
import warnings
from functools import partial

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skmrf import CRBMStructuredPredictor
from skmrf.datasets import occlude
from skmrf.learners import CD, CONDITIONAL_LEARNERS, LSSVM, MLEBP, MSSVM
from skmrf.learning import EarlyStopping, ScoreMonitor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
MAX_MARGIN = "mssvm", "lssvm"
every = pytest.mark.parametrize("learner", CONDITIONAL_LEARNERS)


def quick(n_components=4, learner="mle-bp", max_iter=3, **parameters):
    return CRBMStructuredPredictor(
        n_components, learner, max_iter=max_iter, **{"random_state": 0, **parameters}
    )


def tied(n_rows=150, n_outputs=8, seed=0):
    """Inputs, and outputs of which each shows one, flipped; the outputs are all equal or not."""
    rng = np.random.default_rng(seed)
    half = np.arange(n_outputs) < n_outputs // 2
    Y = np.where(rng.random((n_rows, 1)) < 0.5, half, ~half)
    X = np.where(rng.random(Y.shape) < 0.3, ~Y, Y)
    return X.astype(float), Y.astype(int)


def real(X, seed=0):
    """Other numbers than zeros and ones."""
    return X + np.random.default_rng(seed).normal(0.0, 0.3, size=X.shape)


def assert_same(left, right):
    """The same fit, bit for bit."""
    assert left.energy_.theta.keys() == right.energy_.theta.keys()
    for name, value in left.energy_.theta.items():
        assert_array_equal(value, right.energy_.theta[name])


def assert_close(left, right, atol=1e-4):
    """The same fit but for rounding."""
    for name, value in left.energy_.theta.items():
        assert_allclose(value, right.energy_.theta[name], atol=atol)


# Targets and answers -------------------------------------------------------------------------


@every
@pytest.mark.parametrize(
    "labels", [[0, 1], [1, 2], ["no", "yes"], [False, True], [-1.0, 1.0]], ids=str
)
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
@pytest.mark.parametrize("shape", [(1,), (8,), (2, 4), (2, 2, 2)])
def test_several_outputs(learner, shape):
    X, Y = tied()
    Y = Y[:, : np.prod(shape)].reshape(-1, *shape)
    model = quick(learner=learner, max_iter=15).fit(X, Y)
    assert model.classes_.tolist() == [0, 1]
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


@pytest.mark.parametrize("learner", [*MAX_MARGIN, MSSVM(), LSSVM()], ids=str)
def test_max_margin_models_have_no_probabilities(learner):
    X, Y = tied()
    model = quick(learner=learner).fit(X, Y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba") as error:
        model.predict_proba(X)
    assert "have no probabilities; use decision_function" in str(error.value.__cause__)


def test_score_counts_weights_and_asks_for_shapes():
    X, Y = tied()
    model = quick().fit(X, Y)
    right = (model.predict(X) == Y).mean(axis=1)
    weights = np.arange(len(X))
    assert model.score(X, Y, weights) == pytest.approx(np.average(right, weights=weights))
    for wrong in (Y[:, 0], Y[:, :3], Y[:5], Y.reshape(-1, 2, 4)):
        with pytest.raises(ValueError, match=r"y must have shape \(150, 8\); got"):
            model.score(X, wrong)
    one = quick().fit(X, Y[:, 0])
    with pytest.raises(ValueError, match=r"y must have shape \(150,\); got \(150, 1\)"):
        one.score(X, Y[:, :1])
    with pytest.raises(ValueError, match=r"sample_weight\[0\] is -1\.0"):
        model.score(X, Y, -np.ones(len(X)))


def test_probabilities_of_a_tree_are_exact():
    """With one hidden unit belief propagation is exact, however strong the weights are."""
    X, Y = tied(n_outputs=4)
    model = quick(1, MLEBP(n_iter=20), max_iter=30).fit(X, Y)
    W, bits = model.energy_.weights.astype(float), np.arange(16)[:, None] >> np.arange(4) & 1
    theta = model.energy_.theta
    for x, p in zip(X[:5], model.predict_proba(X[:5]), strict=True):
        a = x @ theta["visible_inputs"] + theta["visible_bias"]
        b = x @ theta["hidden_inputs"] + theta["hidden_bias"]
        f = bits @ a + np.logaddexp(0.0, bits @ W + b).sum(axis=1)
        weights = np.exp(f - f.max())
        assert_allclose(p, weights @ bits / weights.sum(), atol=1e-5)


# Inputs --------------------------------------------------------------------------------------


@every
def test_sparse_rows_are_dense_rows(learner):
    X, Y = tied()
    dense = quick(learner=learner).fit(X, Y)
    assert dense.scaler_ is None
    for convert in (sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_array):
        sparse = quick(learner=learner).fit(convert(X), Y)
        if "cd" not in learner:  # whose chains may part company by rounding
            assert_close(sparse, dense)
        odds = dense.decision_function(X)
        assert_allclose(dense.decision_function(convert(X)), odds, atol=1e-8)
    assert_same(quick(learner=learner).fit(X, sp.csr_array(Y)), dense)


def test_sparse_numbers_are_only_scaled():
    X, Y = tied()
    numbers = sp.csr_array(np.where(X > 0, 5.0 * real(X), 0.0))
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
    model.fit(X[:200], Y[:200])  # compiled
    tracemalloc.start()
    model.fit(X, Y)
    model.predict(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10e6  # a byte an entry would be 40e6


def test_binary_columns_are_left_alone():
    X, Y = tied()
    mixed = X.copy()
    mixed[:, 2:4] = 1e3 * real(X[:, 2:4]) + 50.0
    scaler = quick().fit(mixed, Y).scaler_
    assert_array_equal(scaler.transform(mixed)[:, [0, 1, 4, 5, 6, 7]], mixed[:, [0, 1, 4, 5, 6, 7]])
    assert_allclose(scaler.transform(mixed)[:, 2:4].mean(axis=0), 0.0, atol=1e-9)
    assert_allclose(scaler.transform(mixed)[:, 2:4].std(axis=0), 1.0)


@pytest.mark.parametrize("learner", ["mle-bp", "lr", "mssvm"])
def test_scales_of_columns_do_not_matter(learner, seed):
    X, Y = tied(600, seed=seed)
    X = real(X, seed)
    factors = 10.0 ** np.array([4, -4, 0, 2, -2, 4, -4, 1])
    plain = quick(8, learner, max_iter=20).fit(X[:300], Y[:300])
    odd = quick(8, learner, max_iter=20).fit(X[:300] * factors + 3 * factors, Y[:300])
    score = plain.score(X[300:], Y[300:])
    assert score > 0.8
    assert odd.score(X[300:] * factors + 3 * factors, Y[300:]) == pytest.approx(score, abs=0.01)


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


# With scikit-learn ---------------------------------------------------------------------------


def test_pipelines_and_searches():
    X, Y = tied(90)
    pipeline = make_pipeline(StandardScaler(), quick(max_iter=10))
    assert pipeline.fit(real(X), Y).score(real(X), Y) > 0.8
    assert cross_val_score(pipeline, real(X), Y, cv=3).min() > 0.7
    grid = {"learner": ["mle-bp", "lr", "mssvm", CD(n_steps=2)], "n_components": [2, 5]}
    search = GridSearchCV(quick(), grid, cv=2).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict(X).shape == Y.shape
    inner = GridSearchCV(quick(learner=MLEBP()), {"learner__n_iter": [3, 9]}, cv=2).fit(X, Y[:, 0])
    assert inner.best_estimator_.learner.n_iter in (3, 9)
    images = GridSearchCV(quick(), {"alpha": [0.0, 0.1]}, cv=2).fit(X, Y.reshape(-1, 2, 4))
    assert images.predict(X).shape == (90, 2, 4)


def test_unfitted_and_clone():
    model = CRBMStructuredPredictor(3, MSSVM(max_iter=7))
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
def test_callbacks_are_given_targets(n_outputs):
    X, Y = tied(60)
    Y = Y[:, 0] if n_outputs is None else Y
    own, held_out = ScoreMonitor(), EarlyStopping(X[:20], y=Y[:20])
    named = ScoreMonitor(scoring=lambda model, X, y: model.score(X, y) - 1.0)
    theirs = ScoringMonitor(scoring="accuracy" if n_outputs is None else "f1_macro")
    model = quick().set_callbacks(own, held_out, named, theirs).fit(X, Y)
    assert own.scores[-1] == model.score(X, Y)
    assert held_out.scores[-1] == model.score(X[:20], Y[:20])
    assert named.scores[-1] == own.scores[-1] - 1.0
    assert len(own.scores) == len(held_out.scores) == 3
    logged = [
        entry["accuracy" if n_outputs is None else "f1_macro"] for entry in theirs.get_logs().data
    ]
    assert len(logged) == 4  # of the fit and its epochs
    assert logged[0] == logged[-1]


# Weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [True, False])
@every
def test_rows_of_weight_zero_are_absent(learner, binary):
    X, Y = tied()
    X = X if binary else real(X)
    weights = (np.arange(len(X)) % 3 > 0).astype(float)
    kept = weights > 0
    X[~kept] = 1e3 * X[~kept] + 7.0
    weighted = quick(learner=learner).fit(X, Y, sample_weight=weights)
    absent = quick(learner=learner).fit(X[kept], Y[kept], sample_weight=weights[kept])
    assert_same(weighted, absent)


@pytest.mark.parametrize("binary", [True, False])
def test_sample_weight_is_repetition(binary, seed):
    X, Y = tied(seed=seed)
    X = X if binary else real(X, seed)
    weights = np.random.default_rng(seed).integers(0, 3, len(X))
    model = quick(learner="lr", optimizer="lbfgs", max_iter=200, alpha=0.01, early_stopping=False)
    weighted = clone(model).fit(X, Y, sample_weight=weights)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0))
    assert_close(weighted, repeated, atol=2e-3)
    assert (
        np.abs(clone(model).fit(X, Y).decision_function(X) - weighted.decision_function(X)).max()
        > 0.01
    )


def test_first_biases_count_weights():
    X, Y = tied(20, 2)
    weights = 1.0 + np.arange(20)
    model = quick(max_iter=1, learning_rate=1e-12, optimizer="sgd")
    model.fit(X, Y, sample_weight=weights)
    ones = weights @ Y
    expected = np.log((ones + 0.5) / (weights.sum() - ones + 0.5))
    assert_allclose(model.energy_.theta["visible_bias"], expected, rtol=1e-5)


# Going on ------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("binary", [True, False])
def test_resumes_bit_for_bit(learner, binary, tmp_path):
    X, Y = tied()
    X = X if binary else real(X)
    make = partial(quick, learner=learner, early_stopping=False)
    whole = make(max_iter=4).fit(X, Y)
    half = make(max_iter=2, warm_start=True).fit(X, Y)
    half = pickle.loads(pickle.dumps(half)).fit(X, Y)
    assert_same(whole, half)
    assert half.n_iter_ == whole.n_iter_ == 4
    parts = make().partial_fit(X, Y).partial_fit(X, Y)
    joblib.dump(parts, tmp_path / "model.joblib")
    parts = joblib.load(tmp_path / "model.joblib").partial_fit(X, Y).partial_fit(X, Y)
    assert_same(whole, parts)
    assert whole.history_.keys() == parts.history_.keys()
    assert_array_equal(parts.decision_function(X), whole.decision_function(X))


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_optimizers_resume_and_leave_earlier_models_alone(optimizer):
    X, Y = tied()
    make = partial(quick, optimizer=optimizer, early_stopping=False, average=False)
    whole = make(max_iter=3).fit(X, Y)
    model = make(max_iter=1, warm_start=True)
    seen = [model.fit(X, Y).energy_ for _ in range(3)]
    copies = [{k: v.copy() for k, v in energy.theta.items()} for energy in seen]
    assert_same(whole, model)
    model.fit(X, Y)
    for energy, copied in zip(seen, copies, strict=True):
        for name, value in energy.theta.items():
            assert_array_equal(value, copied[name])


def test_other_models_cannot_go_on():
    X, Y = tied()
    model = quick(warm_start=True).fit(X, Y)
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="from has 4 hidden units, not 5; start anew with fit"):
        model.set_params(n_components=5).fit(X, Y)
    with pytest.raises(ValueError, match="from has 4 hidden units, not 0"):
        model.set_params(n_components=4, learner="lr").fit(X, Y)
    model.set_params(learner="mle-bp")
    with pytest.raises(ValueError, match=r"y must have shape \(150, 8\), .* got \(150, 3\)"):
        model.fit(X, Y[:, :3])
    with pytest.raises(ValueError, match=r"X has 3 features, but CRBM.* is expecting 8 features"):
        model.partial_fit(X[:, :3], Y)
    assert_array_equal(model.decision_function(X), before)
    assert model.n_features_in_ == 8
    model.set_params(warm_start=False, n_components=5).fit(X, Y)
    assert model.energy_.weights.shape == (8, 5)


def test_settings_may_change_between_warm_fits():
    X, Y = tied()
    model = quick(warm_start=True).fit(X, Y)
    for change in (
        {"learner": "mssvm"},
        {"optimizer": "adam"},
        {"learner": "cd"},
        {"learning_rate": "step", "average": False},
        {"learner": MLEBP(n_iter=3), "early_stopping": True},
        {"learner": "cd-percloss"},
    ):
        model.set_params(**change).fit(X, Y)
        assert np.isfinite(model.decision_function(X)).all()
        lengths = {len(column) for column in model.history_.values()}
        assert lengths == {model.n_iter_}


def test_partial_fit_with_classes():
    X, Y = tied()
    y = np.where(Y[:, 0] == 1, "yes", "no")
    order = np.argsort(y)
    model = quick()
    for rows in np.array_split(order, 3):
        model.partial_fit(X[rows], y[rows], classes=["yes", "no"])
    assert model.classes_.tolist() == ["no", "yes"]
    for _ in range(20):
        model.partial_fit(X, y)
    assert set(model.predict(X)) == {"no", "yes"}
    with pytest.raises(ValueError, match=r"go on from, \['no', 'yes'\]; got \['maybe', 'no'\]"):
        model.partial_fit(X, y, classes=["no", "maybe"])
    for wrong in (["a"], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="classes must be the two labels of an output; got"):
            quick().partial_fit(X, y, classes=wrong)
    with pytest.raises(
        ValueError, match=r"'yes'; outputs must be in \['no'\]\. Give partial_fit all labels as"
    ):
        quick().partial_fit(X[order[:9]], y[order[:9]]).partial_fit(X, y)
    weighted = quick().partial_fit(X, Y, sample_weight=np.ones(len(X)))
    assert "validation_score" not in weighted.history_


SEEN = []  # iterates


class Interrupted(MLEBP):
    """Presses Ctrl-C in the middle of the third epoch, and tells of the iterates before it."""

    def step(self, energy, *arguments):
        SEEN.append(energy.theta)
        if len(SEEN) == 20:
            raise KeyboardInterrupt
        return super().step(energy, *arguments)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("average", [True, False])
def test_interrupt_leaves_the_last_update(optimizer, average):
    X, Y = tied()
    SEEN.clear()
    options = {"optimizer": optimizer, "average": average, "early_stopping": False}
    model = quick(learner=Interrupted(), max_iter=30, warm_start=True, **options)
    with pytest.warns(ConvergenceWarning, match="update, 19, after 2 epochs"):
        model.fit(X, Y)
    assert model.n_iter_ == len(model.history_["n_updates"]) == 2
    for name, learned in model.energy_.theta.items():
        seen = np.array([theta[name] for theta in SEEN])
        if average:
            assert (learned >= seen.min(axis=0) - 1e-6).all()
            assert (learned <= seen.max(axis=0) + 1e-6).all()
            assert not np.array_equal(learned, seen[-1])
        else:
            assert_array_equal(learned, seen[-1])
    model.set_params(learner="mle-bp", max_iter=2).fit(X, Y)
    assert model.n_iter_ == 4
    assert np.isfinite(model.predict_proba(X)).all()


# Early stopping ------------------------------------------------------------------------------


def test_rows_for_validation():
    X, Y = tied(300)
    model = quick(8, max_iter=300, learning_rate=0.05)
    model.fit(X[:150], Y[:150], X_val=X[150:], y_val=Y[150:])
    scores = model.history_["validation_score"]
    assert len(scores) == model.n_iter_
    assert model.score(X[150:], Y[150:]) == pytest.approx(max(scores), abs=1e-3)
    words = np.array(["no", "yes"])[Y[:, 0]]
    one = quick().fit(X[:150], words[:150], X_val=X[150:], y_val=words[150:])
    assert one.history_["validation_score"][-1] > 0.5
    images = quick().fit(X, Y.reshape(-1, 2, 4), X_val=X, y_val=Y.reshape(-1, 2, 4))
    assert images.history_["validation_score"][-1] > 0.5
    numbers = quick().fit(real(X), Y, X_val=sp.csr_array(real(X)), y_val=Y)
    best = max(numbers.history_["validation_score"])
    assert numbers.score(real(X), Y) == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize(("n_rows", "held_out"), [(199, False), (200, True)])
def test_early_stopping_by_number_of_rows(n_rows, held_out):
    X, Y = tied(n_rows)
    assert ("validation_score" in quick().fit(X, Y).history_) == held_out
    assert "validation_score" not in quick(early_stopping=False).fit(X, Y).history_
    assert "validation_score" in quick(early_stopping=True).fit(X, Y).history_
    assert "validation_score" in quick(early_stopping=np.True_).fit(X, Y).history_


def test_early_stopping_keeps_the_best(seed):
    """Outputs are noise, so that learning soon fits nothing else."""
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(220, 30)), rng.integers(2, size=(220, 5))
    model = quick(8, max_iter=None, batch_size=5, learning_rate=0.1, optimizer="sgd")
    model.fit(X[:120], Y[:120], X_val=X[120:], y_val=Y[120:])
    scores = model.history_["validation_score"]
    patience = -(-2000 // 24)
    assert len(scores) == model.n_iter_ == int(np.argmax(scores)) + 1 + patience
    assert model.score(X[120:], Y[120:]) == pytest.approx(max(scores), abs=0.005)
    assert max(scores) > scores[-1]


# Diagnostics and determinism -----------------------------------------------------------------


@every
def test_history(learner):
    X, Y = tied(200)
    model = quick(learner=learner).fit(X, Y)
    assert {len(column) for column in model.history_.values()} == {3} == {model.n_iter_}
    assert model.history_["epoch"] == [1, 2, 3]
    assert ("inference_converged" in model.history_) == (
        learner in ("mle-bp", "mle-mf", *MAX_MARGIN)
    )
    for column in model.history_.values():
        assert np.isfinite(column).all()


@pytest.mark.parametrize("learner", CONDITIONAL_LEARNERS)
def test_jobs_do_not_matter(learner):
    X, Y = tied(300, 40)
    make = partial(quick, 20, learner, batch_size=100, max_iter=2)
    one, two = (make(n_jobs=n).fit(X, Y) for n in (None, 2))
    assert_same(one, two)
    assert_array_equal(one.decision_function(X), two.decision_function(X))


@every
def test_seeds(learner):
    X, Y = tied()
    one, same, other = (quick(learner=learner, random_state=s).fit(X, Y) for s in (3, 3, 4))
    assert_same(one, same)
    assert np.abs(one.decision_function(X) - other.decision_function(X)).max() > 0
    for state in (np.random.RandomState(0), np.random.default_rng(0), None):
        quick(learner=learner, random_state=state).fit(X, Y)


@every
def test_answers_do_not_depend_on_other_rows(learner):
    X, Y = tied()
    model = quick(learner=learner, max_iter=20).fit(real(X), Y)
    odds = model.decision_function(real(X))
    singly = np.concatenate([model.decision_function(row[None]) for row in real(X)])
    assert_allclose(odds, singly, atol=1e-7, rtol=1e-7)


# What is learned -----------------------------------------------------------------------------


def digits(seed):
    """Occluded and whole digits: 1200 rows to learn from, 597 others."""
    V = (load_digits().data > 7.5).astype(np.int8)
    V = V[np.random.default_rng(seed).permutation(len(V))]
    X = occlude(V, size=3, random_state=seed)
    return X[:1200], V[:1200], X[1200:], V[1200:]


@pytest.mark.parametrize(
    "learners",
    [["lr", "mle-bp"], pytest.param([*CONDITIONAL_LEARNERS], marks=pytest.mark.slow)],
    ids=["two", "all"],
)
def test_occluded_digits(learners, seed):
    X, V, X_test, V_test = digits(seed)
    copied = np.mean(X_test != V_test)
    error = {
        name: 1.0
        - CRBMStructuredPredictor(48, name, random_state=seed).fit(X, V).score(X_test, V_test)
        for name in learners
    }
    assert error["mle-bp"] < error["lr"] - 0.001
    assert max(error.values()) < copied - 0.005
    if "mssvm" in error:
        assert error["mssvm"] < error["lr"] - 0.001


def test_hidden_units_tie_outputs():
    """A row's outputs are all 1 or all 0, and no input says which."""
    rng = np.random.default_rng(0)
    Y = np.repeat(rng.integers(2, size=(400, 1)), 6, axis=1)
    X = np.where(rng.random(Y.shape) < 0.35, 1 - Y, Y)
    model = quick(4, max_iter=40).fit(X, Y)
    predicted = model.predict(X)
    same = (predicted == predicted[:, :1]).all(axis=1)
    assert same.mean() > 0.9


# Odd data ------------------------------------------------------------------------------------


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
        model = quick(2, learner, max_iter=20).fit(X, Y)
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


def test_many_outputs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20))
    Y = (X @ rng.normal(size=(20, 5000)) + rng.normal(size=(300, 5000)) > 0).astype(np.int8)
    model = quick(16).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert model.score(X, Y) > 0.75


# Memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("optimizer", "n_slots"), [("sgd", 0), ("momentum", 1), ("adam", 2)])
@pytest.mark.parametrize(
    ("learner", "average"),
    [("mle-bp", False), ("mle-bp", True), ("mssvm", False), ("cd", False), ("lr", False)],
)
def test_memory_of_learning(learner, average, optimizer, n_slots):
    """Parameters, their gradient, the optimizer's arrays, and one more for the average.

    Messages and their ratios are of the size of the weights between outputs and hidden units.
    """
    rng = np.random.default_rng(0)
    X = (rng.random((300, 1500)) < 0.3).astype(np.float32)
    Y = rng.integers(2, size=(300, 400), dtype=np.int8)
    model = quick(100, learner, max_iter=3, optimizer=optimizer, learning_rate=0.01)
    model.set_params(average=average, early_stopping=False).fit(X[:40], Y[:40])  # compiled
    tracemalloc.start()
    model.fit(X, Y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    theta = model.energy_.theta
    parameters = sum(v.nbytes for v in theta.values())
    batch = 20 * (X[0].nbytes + 4 * 500)
    assert peak < (2 + average + n_slots) * parameters + 4 * theta["weights"].nbytes + 4 * batch


# Further promises ----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 256), (2, 256), (6, 30), (14, 256), (300, 4)])
def test_learning_begins_near_independent_outputs(shape, seed):
    n_outputs, n_components = shape
    rng = np.random.default_rng(seed)
    Y = (rng.random((60, n_outputs)) < 0.3).astype(int)
    model = quick(n_components, learning_rate=1e-9, average=False, random_state=seed)
    model.fit(rng.normal(size=(60, 5)), Y)
    odds = model.decision_function(np.zeros((1, 5))) - model.energy_.theta["visible_bias"]
    assert np.abs(odds).mean() < 1


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("penalty", ["l2", "l1", "group-l1"])
def test_parameters_stay_in_single_precision(optimizer, penalty):
    X, Y = tied()
    for average in (True, False):
        options = {"optimizer": optimizer, "penalty": penalty, "average": average, "alpha": 0.01}
        theta = quick(**options).fit(X, Y).energy_.theta
        assert {v.dtype for v in theta.values()} == {np.dtype(np.float32)}


def test_a_fit_is_asked_as_it_was_learned():
    X, Y = tied()
    model = quick(learner="mle-bp").fit(X, Y)
    before = model.predict_proba(X)
    model.set_params(learner="mssvm")
    assert_array_equal(model.predict_proba(X), before)
    assert not hasattr(clone(model), "predict_proba")


@pytest.mark.parametrize("learning_rate", ["constant", "step", "inverse", "adaptive"])
def test_named_schedules_start_at_the_rate_of_the_optimizer(learning_rate):
    X, Y = tied()
    rates = [
        quick(learning_rate=learning_rate, **more).fit(X, Y).history_["learning_rate"][0]
        for more in ({}, {"optimizer": "sgd"})
    ]
    assert rates[0] == rates[1]
    assert 0.05 < rates[0] <= 0.1


def test_lbfgs_finds_the_maximum_by_default():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    Y = (rng.random((400, 2)) < 1 / (1 + np.exp(-X[:, :2]))).astype(int)
    model = CRBMStructuredPredictor(learner="lr", optimizer="lbfgs").fit(X, Y)
    assert "validation_score" not in model.history_
    assert model.converged_


def test_one_epoch_of_partial_fit_does_not_warn():
    X, Y = tied()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick(learner="mssvm").partial_fit(X, Y).partial_fit(X, Y)


def test_numbers_too_large_for_the_weights_are_refused():
    X, Y = tied()
    model = quick(max_iter=30).fit(X, Y)
    far = X.copy()
    far[7] = 1e308
    with pytest.raises(ValueError, match=r"Row 7 of X holds numbers too large"):
        model.decision_function(far)


def test_weights_beyond_what_can_be_asked_are_refused_by_fit():
    X, Y = tied()
    with pytest.raises(ValueError, match="Inference takes weights of up to 300 in size"):
        quick(learner="mssvm", learning_rate=1e6, max_iter=1, batch_size=200).fit(X, Y)


def test_tiny_sparse_columns():
    X, Y = tied()
    X[:, 0] *= 1e-170
    model = quick().fit(sp.csr_matrix(X), Y)
    assert np.isfinite(model.decision_function(sp.csr_matrix(X))).all()


def test_probabilities_decide_between_equal_scores():
    X, Y = tied(400)
    model = quick(max_iter=40, learner="lr").fit(X, Y[:, 0], X_val=X[:20], y_val=Y[:20, 0])
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
        ValueError, match=r"Several outputs have classes \[0, 1\]; got \['a', 'b'\]"
    ):
        quick().partial_fit(X, Y, classes=["a", "b"])
