"""Tests of the training of CRBMStructuredPredictor."""

import pickle
import tracemalloc
import warnings
from functools import partial

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from estimator_models import MAX_MARGIN, assert_close, real, some_alpha, tied
from estimator_models import assert_same_theta as assert_same
from estimator_models import every_conditional as every
from estimator_models import quick_conditional as quick
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from zoo import CONDITIONAL_LEARNERS

from skmrf import CRBMStructuredPredictor
from skmrf._utils.rows import Batch
from skmrf.datasets import occlude
from skmrf.estimators import _conditional_training
from skmrf.learners import MLEBP
from skmrf.training import logistic_start

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# Weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [True, False])
@every
def test_rows_of_weight_zero_are_ignored(learner, binary):
    X, Y = tied()
    X = X if binary else real(X)
    weights = (np.arange(len(X)) % 3 > 0).astype(float)
    kept = weights > 0
    X[~kept] = 1e3 * X[~kept] + 7.0
    model = quick(learner=learner, alpha=some_alpha(learner))
    weighted = clone(model).fit(X, Y, sample_weight=weights)
    absent = clone(model).fit(X[kept], Y[kept], sample_weight=weights[kept])
    assert_same(weighted, absent)


@pytest.mark.parametrize("binary", [True, False])
def test_sample_weight_is_repetition(binary, seed):
    X, Y = tied(seed=seed)
    X = X if binary else real(X, seed)
    weights = np.random.default_rng(seed).integers(0, 3, len(X))
    options = {"optimizer": "lbfgs", "alpha": 0.01, "tol": 1e-6, "early_stopping": False}
    model = quick(learner="lr", max_iter=200, **options)
    weighted = clone(model).fit(X, Y, sample_weight=weights)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0))
    assert_close(weighted, repeated, atol=2e-3)
    assert (
        np.abs(clone(model).fit(X, Y).decision_function(X) - weighted.decision_function(X)).max()
        > 0.01
    )


def test_initial_biases_use_sample_weights():
    """The initial biases are the log odds of weighted frequencies if the penalty is strong."""
    X, Y = tied(20, 2)
    weights = 1.0 + np.arange(20)
    model = quick(max_iter=1, learning_rate=1e-12, optimizer="sgd", alpha=1e6)
    model.fit(X, Y, sample_weight=weights)
    n_rows = weights.sum() ** 2 / (weights**2).sum()
    ones = n_rows * (weights @ Y) / weights.sum()
    expected = np.log((ones + 0.5) / (n_rows - ones + 0.5))
    assert_allclose(model.energy_.theta["visible_bias"], expected, rtol=1e-3)


# Resuming ---------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("binary", [True, False])
def test_resumes_bit_for_bit(learner, binary, tmp_path):
    X, Y = tied()
    X = X if binary else real(X)
    make = partial(quick, learner=learner, optimizer="sgd", early_stopping=False)
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
def test_resuming_does_not_change_earlier_models(optimizer):
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


def test_other_models_cannot_resume():
    X, Y = tied()
    model = quick(warm_start=True).fit(X, Y)
    before = model.decision_function(X)
    with pytest.raises(
        ValueError, match=r"with 5 hidden units, because the previous fit has 4\. Start anew"
    ):
        model.set_params(n_components=5).fit(X, Y)
    with pytest.raises(ValueError, match="with 0 hidden units, because the previous fit has 4"):
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
    with pytest.raises(ValueError, match=r"previous fit, \['no', 'yes'\]; got \['maybe', 'no'\]"):
        model.partial_fit(X, y, classes=["no", "maybe"])
    for wrong in (["a"], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="classes must be the two labels of an output; got"):
            quick().partial_fit(X, y, classes=wrong)
    with pytest.raises(
        ValueError, match=r"'yes'; outputs must be one of \['no'\]\. Give all labels to partial_fit"
    ):
        quick().partial_fit(X[order[:9]], y[order[:9]]).partial_fit(X, y)
    weighted = quick().partial_fit(X, Y, sample_weight=np.ones(len(X)))
    assert "validation_score" not in weighted.history_


SEEN = []  # iterates before the interruption


class Interrupted(MLEBP):
    """Learner that raises KeyboardInterrupt in the third epoch and records earlier iterates."""

    def step(self, energy, *arguments):
        SEEN.append(energy.theta)
        if len(SEEN) == 20:
            raise KeyboardInterrupt
        return super().step(energy, *arguments)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("average", [True, False])
def test_interrupt_keeps_the_last_update(optimizer, average):
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


# Early stopping ---------------------------------------------------------------------------


def test_validation_rows():
    X, Y = tied(300)
    model = quick(8, max_iter=60, learning_rate=0.05)
    model.fit(X[:150], Y[:150], X_val=X[150:], y_val=Y[150:])
    scores = model.history_["validation_score"]
    assert len(scores) == model.n_iter_
    assert model.score(X[150:], Y[150:]) == pytest.approx(max(scores), abs=0.02)
    words = np.array(["no", "yes"])[Y[:, 0]]
    one = quick().fit(X[:150], words[:150], X_val=X[150:], y_val=words[150:])
    assert one.history_["validation_score"][-1] > 0.5
    images = quick().fit(X, Y.reshape(-1, 2, 4), X_val=X, y_val=Y.reshape(-1, 2, 4))
    assert images.history_["validation_score"][-1] > 0.5
    numbers = quick().fit(real(X), Y, X_val=sp.csr_array(real(X)), y_val=Y)
    best = max(numbers.history_["validation_score"])
    assert numbers.score(real(X), Y) == pytest.approx(best, abs=0.02)


@pytest.mark.parametrize(("n_rows", "held_out"), [(99, False), (100, True)])
def test_early_stopping_by_number_of_rows(n_rows, held_out):
    X, Y = tied(n_rows)
    assert ("validation_score" in quick().fit(X, Y).history_) == held_out
    assert "validation_score" not in quick(early_stopping=False).fit(X, Y).history_
    assert "validation_score" in quick(early_stopping=True).fit(X, Y).history_
    assert "validation_score" in quick(early_stopping=np.True_).fit(X, Y).history_


@pytest.mark.long
def test_hidden_units_that_do_not_help_have_zero_weights(seed):
    """The outputs are noise, so training soon overfits."""
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(220, 30)), rng.integers(2, size=(220, 5))
    model = quick(8, max_iter=None, batch_size=5, learning_rate=0.1, optimizer="sgd")
    model.fit(X[:120], Y[:120], X_val=X[120:], y_val=Y[120:])
    scores = model.history_["validation_score"]
    patience = -(-2000 // 24)
    assert len(scores) == model.n_iter_ == int(np.argmax(scores)) + 1 + patience
    assert max(scores) > scores[-1]
    theta = model.energy_.theta
    assert not theta["weights"].any()
    assert not theta["hidden_inputs"].any()
    linear = quick(learner="lr", max_iter=None, early_stopping=False, alpha=model.alpha_)
    theta = linear.fit(X[:120], Y[:120]).energy_.theta
    assert np.abs(theta["visible_inputs"]).max() < 1


@pytest.mark.parametrize("weighted", [False, pytest.param(True, marks=pytest.mark.long)])
def test_trial_rejects_hidden_units_of_tall_tables(weighted, monkeypatch, seed):
    """The outputs are independent given the inputs."""
    monkeypatch.setattr(_conditional_training, "TALL", 300)
    monkeypatch.setattr(_conditional_training, "TRIAL_ERRORS", 4.0)  # 1.0 sometimes trains all rows
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1500, 3))
    Y = (rng.random((1500, 2)) < expit(X[:, :2])).astype(int)
    weights = rng.uniform(0.5, 2, size=1500) if weighted else None
    model = CRBMStructuredPredictor(4, random_state=seed, alpha=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, Y, sample_weight=weights)
    assert "learning_rate" not in model.history_  # of L-BFGS
    assert not model.energy_.weights.any()
    assert model.converged_
    logistic = clone(model).set_params(learner="lr").fit(X, Y, sample_weight=weights)
    assert_allclose(model.predict_proba(X), logistic.predict_proba(X), atol=0.02)
    epochs = clone(model).set_params(max_iter=3).fit(X, Y, sample_weight=weights)
    assert epochs.history_["n_updates"] == [68, 136, 204]  # max_iter counts all epochs


@pytest.mark.parametrize("learner", [pytest.param("mle-bp", marks=pytest.mark.long), "mssvm"])
def test_training_of_tall_tables_continues_the_trial(learner, monkeypatch, seed):
    monkeypatch.setattr(_conditional_training, "TALL", 300)
    X = np.random.default_rng(seed).integers(2, size=(1500, 3)).astype(float)
    parity = X.sum(axis=1, keepdims=True) % 2
    Y = np.hstack([parity, 1 - parity])
    model = CRBMStructuredPredictor(8, learner, random_state=seed)
    model.fit(X[:1000], Y[:1000], X_val=X[1000:], y_val=Y[1000:])
    assert len(model.history_["validation_score"]) == model.n_iter_
    assert model.history_["learning_rate"][0] == pytest.approx(0.3)
    assert model.score(X, Y) > 0.95


# Diagnostics and determinism --------------------------------------------------------------


@every
def test_history(learner):
    X, Y = tied(200)
    model = quick(learner=learner, optimizer="sgd").fit(X, Y)
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
    make = partial(quick, learner=learner, alpha=some_alpha(learner))
    one, same, other = (make(random_state=s).fit(X, Y) for s in (3, 3, 4))
    assert_same(one, same)
    assert np.abs(one.decision_function(X) - other.decision_function(X)).max() > 0
    for state in (np.random.RandomState(0), np.random.default_rng(0), None):
        make(random_state=state).fit(X, Y)


# Learned models ---------------------------------------------------------------------------


def digits(seed):
    """Return occluded and whole digits: 1200 training rows and 597 test rows."""
    V = (load_digits().data > 7.5).astype(np.int8)
    V = V[np.random.default_rng(seed).permutation(len(V))]
    X = occlude(V, size=3, random_state=seed)
    return X[:1200], V[:1200], X[1200:], V[1200:]


@pytest.mark.long
@pytest.mark.parametrize(
    ("learners", "options"),
    [
        (["lr", "mle-bp"], {"alpha": 0.003, "max_iter": 30, "early_stopping": False}),
        pytest.param([*CONDITIONAL_LEARNERS], {}, marks=pytest.mark.slow),
    ],
    ids=["two", "all"],
)
def test_occluded_digits(learners, options, seed):
    X, V, X_test, V_test = digits(seed)
    copied = np.mean(X_test != V_test)
    models = [CRBMStructuredPredictor(48, k, random_state=seed, **options) for k in learners]
    scores = [model.fit(X, V).score(X_test, V_test) for model in models]
    error = dict(zip(learners, 1.0 - np.array(scores), strict=True))
    least = 0.001 if options else -0.001  # by default, hidden units may be left out
    assert error["mle-bp"] < error["lr"] - least
    assert max(error.values()) < copied - 0.005
    if "mssvm" in error:
        assert error["mssvm"] < error["lr"] - 0.001


def test_hidden_units_model_dependent_outputs():
    """The outputs of a row are all 1 or all 0, independent of the inputs."""
    rng = np.random.default_rng(0)
    Y = np.repeat(rng.integers(2, size=(400, 1)), 6, axis=1)
    X = np.where(rng.random(Y.shape) < 0.35, 1 - Y, Y)
    model = quick(4, max_iter=40).fit(X, Y)
    predicted = model.predict(X)
    same = (predicted == predicted[:, :1]).all(axis=1)
    assert same.mean() > 0.9


# Memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learner", "average", "optimizer", "n_slots"),
    [
        *(("mle-bp", False, *o) for o in (("sgd", 0), ("momentum", 1), ("adam", 2))),
        *((*k, "adam", 2) for k in (("mle-bp", True), ("mssvm", False), ("cd", False))),
        ("lr", False, "sgd", 0),
    ],
)
def test_memory_of_training(learner, average, optimizer, n_slots, monkeypatch):
    """Training stores parameters, their gradient, the optimizer's arrays and the average.

    Messages and their ratios have the size of the weights between outputs and hidden units. The
    logistic regressions at which training starts need more memory; they are not measured.
    """
    rng = np.random.default_rng(0)
    X = (rng.random((100, 1500)) < 0.3).astype(np.float32)
    Y = rng.integers(2, size=(100, 400), dtype=np.int8)
    model = quick(100, learner, max_iter=3, optimizer=optimizer, learning_rate=0.01, alpha=0.0)
    monkeypatch.setattr(
        logistic_start, "make_solver", lambda data, *_, **__: IndependentOutputs(data)
    )
    model.set_params(average=average, early_stopping=False).fit(
        X[:40], Y[:40]
    )  # compiles the kernels
    tracemalloc.start()
    model.fit(X, Y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    theta = model.energy_.theta
    parameters = sum(v.nbytes for v in theta.values()) + theta["visible_inputs"].nbytes
    batch = 20 * (X[0].nbytes + 4 * 500)
    assert peak < (2 + average + n_slots) * parameters + 4 * theta["weights"].nbytes + 4 * batch


class IndependentOutputs:
    """Solver that returns independent outputs at once."""

    strongest = None

    def __init__(self, data, *_, **__):
        self.data = data

    def solve(self, alpha):
        return logistic_start.independent_outputs(self.data)


# Logistic regressions at which training starts --------------------------------------------


def test_alpha_is_chosen_by_held_out_rows(seed):
    """The penalty is strong if the outputs are noise, and weak if they depend on many inputs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 20))
    noise = rng.integers(2, size=(150, 2))
    signal = (X @ rng.normal(size=(20, 2)) + 0.3 * rng.normal(size=(150, 2)) > 0).astype(int)
    strong, weak = (
        CRBMStructuredPredictor(learner="lr", random_state=seed).fit(X, Y) for Y in (noise, signal)
    )
    assert strong.alpha_ >= 10 * weak.alpha_
    assert weak.alpha_ in weak.alpha_path_["alphas"]
    assert weak.score(X, signal) > 0.9
    given = CRBMStructuredPredictor(learner="lr", alpha=0.5).fit(X, signal)
    assert (given.alpha_, given.alpha_path_) == (0.5, None)


def test_fits_that_converge_at_their_start_have_one_epoch():
    X = np.random.default_rng(0).choice([-1, 1], size=(40, 3))
    model = CRBMStructuredPredictor(2, "lr", random_state=0).fit(X, np.arange(40) % 2)
    assert (model.n_iter_, model.converged_) == (1, True)


def test_alpha_of_a_model_without_hidden_units(seed):
    """It is the strength with the smallest log-loss, not that in the training of hidden units."""
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(150, 10)), rng.integers(2, size=(150, 4))
    options = {"max_iter": 1, "learning_rate": 1e-12, "random_state": seed}
    model = CRBMStructuredPredictor(8, **options).fit(X, Y)
    assert not model.energy_.weights.any()
    path = model.alpha_path_
    assert model.alpha_ == path["alphas"][np.argmin(path["losses"])]


def test_weight_of_the_strongest_input(seed):
    """It is penalised less if outputs depend on one input each, but not if on many inputs."""
    rng = np.random.default_rng(seed)
    X = rng.integers(2, size=(150, 30))
    one = X[:, :3] ^ (rng.random((150, 3)) < 0.1)
    many = (2 * X - 1.0) @ rng.choice([-1.0, 1.0], size=(30, 3)) + rng.normal(size=(150, 3)) > 0
    chosen = [logistic_start.choose_penalty(Batch(X, Y), "l2", rng) for Y in (one, many)]
    assert [path.light for path, _ in chosen] == [True, False]
    for path, weakest in chosen:
        assert path.best in path.alphas[path.losses == path.losses.min()]
        assert weakest <= path.weakest <= path.best
    parity = np.repeat(X[:, :3].sum(axis=1, keepdims=True) % 2, 3, axis=1)
    path, weakest = logistic_start.choose_penalty(Batch(X[:, :3], parity), "l2", rng)
    assert weakest <= 1 / 150
    assert not logistic_start.choose_penalty(Batch(X, one), "l1", rng)[0].light


@pytest.mark.parametrize("learner", ["lr", "mle-bp", "mle-mf"])
def test_training_keeps_the_penalty_of_the_start(learner, monkeypatch, seed):
    """The weight of the strongest input stays large if the penalty of all others is strong."""
    rng = np.random.default_rng(seed)
    X = rng.integers(2, size=(200, 5))
    Y = X[:, :2] ^ (rng.random((200, 2)) < 0.2)
    alpha = np.ones(1)
    path = logistic_start.PenaltyPath(True, alpha, alpha, alpha > 0)
    monkeypatch.setattr(logistic_start, "choose_penalty", lambda *_: (path, 1.0))
    options = {"max_iter": 80, "early_stopping": False, "random_state": seed}
    model = CRBMStructuredPredictor(8, learner, **options).fit(X, Y)
    inputs = X if model.scaler_ is None else model.scaler_.transform(X)
    start = (
        logistic_start.LogisticSolver(Batch(inputs, Y), light=True)
        .solve(1.0)
        .theta["visible_inputs"]
    )
    assert np.abs(start).max(axis=0).min() > 1.0
    rtol = 0.01 if learner == "lr" else 0.1  # gradients of minibatches have noise
    assert_allclose(model.energy_.theta["visible_inputs"], start, rtol=rtol, atol=0.05)
    plain = clone(model).set_params(alpha=1.0).fit(X, Y)
    assert np.abs(plain.energy_.theta["visible_inputs"]).max() < 0.5


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("options", [{}, {"learner": "mssvm"}, {"optimizer": "adam"}], ids=repr)
def test_few_rows_have_no_hidden_units(options, seed):
    """The defaults are then logistic regressions, and predict as well as scikit-learn's."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2060, 10))
    Y = (X[:, :3] + rng.normal(size=(2060, 3)) > 0).astype(int)
    model = CRBMStructuredPredictor(16, random_state=seed, **options).fit(X[:60], Y[:60])
    assert model.energy_.weights.shape == (3, 16)
    assert not model.energy_.weights.any()
    assert model.converged_
    assert model.n_iter_ >= 1
    logistic = MultiOutputClassifier(LogisticRegression()).fit(X[:60], Y[:60])
    assert model.score(X[60:], Y[60:]) > np.mean(logistic.predict(X[60:]) == Y[60:]) - 0.02
    for kept in ({"alpha": 0.1}, {"early_stopping": False}):
        trained = clone(model).set_params(max_iter=3, **kept)
        with pytest.warns(ConvergenceWarning):
            assert trained.fit(X[:60], Y[:60]).energy_.weights.any()


def test_training_starts_at_the_logistic_regressions(seed):
    X, Y = tied(150, seed=seed)
    options = {"alpha": 0.01, "random_state": seed}
    start = quick(64, max_iter=1, learning_rate=1e-12, **options).fit(X, Y)
    logistic = quick(learner="lr", max_iter=None, **options).fit(2 * X - 1, Y)
    odds = logistic.decision_function(2 * X - 1)
    assert np.sqrt(np.mean((start.decision_function(X) - odds) ** 2)) < 0.25 * odds.std()


def test_few_epochs_are_better_than_copying_the_inputs(seed):
    X, V, X_test, V_test = digits(seed)
    model = CRBMStructuredPredictor(8, alpha=0.003, max_iter=1, random_state=seed)
    model.fit(X[:600], V[:600])
    assert np.mean(model.predict(X_test) != V_test) < np.mean(X_test != V_test)


# Other properties -------------------------------------------------------------------------


@pytest.mark.parametrize("low", [0.0, pytest.param(-1.0, marks=pytest.mark.slow)])
def test_parity_is_learned_in_any_coding_of_the_inputs(low, seed):
    X = np.random.default_rng(seed).integers(2, size=(600, 3)).astype(float)
    parity = X.sum(axis=1, keepdims=True) % 2
    X, Y = low + (1.0 - low) * X, np.hstack([parity, 1.0 - parity])
    model = CRBMStructuredPredictor(8, random_state=seed).fit(X[:500], Y[:500])
    assert model.score(X[500:], Y[500:]) > 0.95


@pytest.mark.parametrize("shape", [(1, 256), (2, 256), (6, 30), (14, 256), (300, 4)])
def test_training_starts_near_independent_outputs(shape, seed):
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
