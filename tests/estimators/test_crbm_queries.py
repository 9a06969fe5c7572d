"""Tests of targets, predictions and probabilities of CRBMStructuredPredictor."""

import numpy as np
import pytest
from crbm_models import MAX_MARGIN, assert_same, every, quick, real, tied
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skmrf.learners import LSSVM, MLEBP, MSSVM

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


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
    assert "have no probabilities. Use decision_function" in str(error.value.__cause__)


def test_score_uses_weights_and_checks_shapes():
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
    """Belief propagation is exact with one hidden unit."""
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
