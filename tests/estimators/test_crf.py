"""Tests of the estimator CRF: training, queries, forms of examples and wrong inputs."""

import pickle
from itertools import pairwise
from threading import get_ident

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from zoo import GRAPH_LEARNERS

from skmrf import CRF, SequenceVectorizer
from skmrf._data.numeric import FeatureScaling
from skmrf.exact import label_trees
from skmrf.learners import SSVM, CRFPropagation, Perceptron
from skmrf.variational import label_graphs as propagation

QUICK = {"alpha": 0.05, "max_iter": 15}


class ClassifierCRF(ClassifierMixin, CRF):
    """CRF that scikit-learn tests as a classifier; a CRF is not one, because y can be a list."""


def make_sequences(rng, n=30, noise=1.0):
    """Return sequences of a Markov chain with three labels, and noisy features of the labels."""
    X, y = [], []
    for length in rng.integers(1, 8, size=n):
        labels = [rng.integers(3)]
        for _ in range(length - 1):
            labels.append(labels[-1] if rng.random() < 0.8 else rng.integers(3))
        y.append(np.array(["a", "b", "c"])[labels])
        X.append(np.eye(3)[labels] + noise * rng.normal(size=(length, 3)))
    return X, y


def name_features(x):
    return [dict(zip("uvw", row, strict=True)) for row in x.tolist()]


@pytest.fixture
def sequences(seed):
    """Return features and labels of sequences."""
    return make_sequences(np.random.default_rng(seed))


@pytest.mark.long
def test_check_estimator_of_classifier():
    """test_estimator_checks.py checks the estimator itself."""
    expected = dict.fromkeys(
        [
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        ],
        "fits are compared to 1e-7, but L-BFGS stops at tol; see test_weights_count_examples",
    )
    results = check_estimator(
        ClassifierCRF(**QUICK), expected_failed_checks=expected, on_fail=None, on_skip=None
    )
    assert not {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_rows_are_multinomial_logistic_regression(C):
    X, y = load_iris(return_X_y=True)
    scale = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / scale
    other = LogisticRegression(C=C, tol=1e-12, max_iter=10_000, solver="newton-cg").fit(Z, y)
    model = CRF(alpha=1 / (C * len(X)), tol=1e-10).fit(X, y)
    assert_allclose(model.coef_ * scale, other.coef_, atol=1e-6)
    intercept = model.intercept_ + model.coef_ @ X.mean(axis=0)
    assert_allclose(intercept - intercept.mean(), other.intercept_, atol=1e-5)
    assert_array_equal(model.predict(X), other.predict(Z))
    assert_allclose(model.predict_proba(X), other.predict_proba(Z), atol=1e-6)


def test_chain_predicts_better_than_rows(seed):
    rng = np.random.default_rng(seed)
    X, y = make_sequences(rng, 300)
    X_test, y_test = make_sequences(rng, 300)
    chain = CRF(alpha=0.01).fit(X, y)
    rows = CRF(alpha=0.01).fit(np.concatenate(X), np.concatenate(y))
    flat = np.concatenate(X_test), np.concatenate(y_test)
    assert chain.score(X_test, y_test) > rows.score(*flat) + 0.02
    assert (np.diag(chain.transition_) > chain.transition_.mean(axis=1)).all()


@pytest.mark.parametrize(
    "learner",
    [pytest.param(k, marks=pytest.mark.long) if k == "ssvm" else k for k in GRAPH_LEARNERS],
)
@pytest.mark.parametrize("graph", ["chain", "second-order chain", "grid"])
def test_learners_learn(learner, graph, seed):
    rng = np.random.default_rng(seed)
    X, y = make_sequences(rng, 40, noise=0.5)
    if graph == "grid":
        y = [np.kron(rng.integers(2, size=(2, 1)), np.ones((1, 3), int)) for _ in range(20)]
        X = [np.stack([1.0 - v, v], axis=-1) + 0.5 * rng.normal(size=(2, 3, 2)) for v in y]
    max_iter = 40 if learner == "ssvm" else 10
    model = CRF(graph, learner, alpha=0.02, max_iter=max_iter, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.75
    assert all(len(p) == len(v) for p, v in zip(model.predict(X), y, strict=True))


def test_forms_of_sequences_agree(sequences):
    X, y = sequences
    model = CRF(**QUICK).fit(X, y)
    ids = np.repeat(np.arange(len(X)), [len(x) for x in X])
    rows, labels = np.concatenate(X), np.concatenate(y)
    flat = CRF(**QUICK).fit(rows, labels, sequence_ids=ids)
    assert_allclose(flat.coef_, model.coef_)
    assert_array_equal(flat.predict(rows, sequence_ids=ids), np.concatenate(model.predict(X)))
    parts = CRF(**QUICK).fit([sparse.csr_matrix(x) for x in X], y)
    assert_allclose(parts.coef_, model.coef_, atol=1e-8)
    names = [name_features(x) for x in X]
    dicts = CRF(**QUICK).fit(names, y)
    assert_allclose(np.sort(dicts.coef_.ravel()), np.sort(model.coef_.ravel()), atol=1e-8)
    expected = flat.predict_proba(rows, sequence_ids=ids)
    assert_allclose(np.concatenate(dicts.predict_proba(names)), expected, atol=1e-8)


@pytest.mark.long
def test_queries_agree(sequences, seed):
    X, y = sequences
    model = CRF(**QUICK).fit(X, y)
    marginals, (best, p) = model.predict_marginals(X), model.predict_best(X, 3**7)
    for x, m, labels, q in zip(X, marginals, best, p, strict=True):
        assert m.shape == (len(x), 3)
        assert_allclose(q.sum(), 1.0)
        assert (np.diff(q) <= 1e-12).all()
        for b, label in enumerate(model.classes_):
            assert_allclose(q @ (labels == label), m[:, b], atol=1e-9)
    assert all((a == b[0]).all() for a, b in zip(model.predict(X), best, strict=True))
    found = model.log_likelihood(X, y)
    expected = [np.log(q[(b == v).all(axis=1)]) for b, q, v in zip(best, p, y, strict=True)]
    assert_allclose(found, np.concatenate(expected), atol=1e-9)
    draws = model.sample(X[:1], 2000, random_state=seed)[0]
    error = np.sqrt(marginals[0] * (1 - marginals[0]) / 2000)
    shares = np.stack([(draws == label).mean(axis=0) for label in model.classes_], axis=1)
    assert (np.abs(shares - marginals[0]) < 5 * error + 1e-3).all()


def test_missing_labels_are_summed_out(sequences):
    X, y = sequences
    hidden = [[None if k % 3 == 2 else v for k, v in enumerate(labels)] for labels in y]
    model = CRF(alpha=0.01).fit(X, hidden)
    assert model.score(X, y) > 0.6
    partial = model.log_likelihood(X, hidden)
    assert (partial >= model.log_likelihood(X, y) - 1e-9).all()
    assert model.score(X, hidden) <= 1.0
    assert_allclose(model.log_likelihood(X, [[None] * len(x) for x in X]), 0.0, atol=1e-9)
    with pytest.raises(ValueError, match=r"position 2 of example \d+ is missing"):
        CRF(learner="pseudo-likelihood", alpha=0.1).fit(X, hidden)


def test_weights_count_examples(sequences):
    X, y = sequences
    weights = np.arange(len(X)) % 3
    left = CRF(alpha=0.1, tol=1e-9).fit(X, y, sample_weight=weights)
    rows = np.repeat(np.arange(len(X)), weights)
    right = CRF(alpha=0.1, tol=1e-9).fit([X[i] for i in rows], [y[i] for i in rows])
    assert_allclose(left.coef_, right.coef_, atol=1e-6)


def test_constraints(sequences):
    X, _ = sequences
    rng = np.random.default_rng(0)
    names = np.array(["B-x", "I-x", "B-y", "I-y", "O"])
    y = [names[rng.integers(5, size=len(x))] for x in X]
    for graph in ("chain", "second-order chain"):
        model = CRF(graph, **QUICK).fit(X, y)
        best, _ = model.predict_best(X[:5], 3, allowed="iob2")
        for labels in (*model.predict(X, allowed="iob2"), *(row for rows in best for row in rows)):
            for before, after in zip(["O", *labels], labels, strict=False):
                assert after[0] != "I" or before[2:] == after[2:]
        given = [[None] * (len(x) - 1) + ["O"] for x in X]
        assert all(labels[-1] == "O" for labels in model.predict(X, given=given))
        assert_allclose([m[-1, -1] for m in model.predict_marginals(X, given=given)], 1.0)
        pairs = [("O", "O"), ("O", "B-x")]
        for labels in model.predict(X, allowed=pairs):
            assert set(pairwise(labels)) <= set(pairs)
    with pytest.raises(ValueError, match="Example 0 has no labels that satisfy"):
        model.predict([X[0][[0, 0]]], given=[["I-x", None]], allowed="iob2")
    with pytest.raises(ValueError, match="'Q', which is not in classes_"):
        model.predict(X, allowed=[("Q", "O")])


def test_tools_of_scikit_learn(sequences):
    X, y = sequences
    y = [labels.tolist() for labels in y]
    model = CRF(**QUICK)
    assert cross_val_score(model, X, y, cv=3).shape == (3,)
    search = GridSearchCV(model, {"alpha": [0.01, 10.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"alpha": 0.01}
    copy = pickle.loads(pickle.dumps(search.best_estimator_))
    assert_allclose(copy.coef_, search.best_estimator_.coef_)
    assert clone(CRF(learner=SSVM(2.0))).get_params()["learner__loss_weight"] == 2.0
    names = [[{"v": str(v)} for v in labels] for labels in y]
    pipeline = make_pipeline(SequenceVectorizer({"v": [-1, 0]}), model).fit(names, y)
    assert pipeline.score(names, y) == 1.0


def test_choice_of_alpha(seed):
    X, y = make_sequences(np.random.default_rng(seed), 60)
    model = CRF(random_state=0).fit(X, y)
    path = model.alpha_path_
    assert model.alpha_ == path["alphas"][np.argmax(path["log_likelihoods"])]
    assert len(path["alphas"]) <= 6
    assert CRF(learner=Perceptron()).fit(X, y).alpha_ == 0.0


def make_words(rng, n, length=15):
    """Return sequences of three labels, whose words occur with one label only."""
    y = [rng.integers(3, size=length) for _ in range(n)]
    return [[{"word": f"{label} {rng.integers(5)}"} for label in v] for v in y], y


@pytest.mark.parametrize("n", [1, 3, 9])
def test_choice_of_alpha_with_few_sequences(n, seed):
    rng = np.random.default_rng(seed)
    X, y = make_words(rng, n, length=135 if n == 1 else 15)
    X_test, y_test = make_words(rng, 50)
    model = CRF(random_state=0).fit(X, y)
    default = CRF(alpha=2 / n).fit(X, y)
    found, other = (-m.log_likelihood(X_test, y_test).mean() / 15 for m in (model, default))
    assert found < min(0.8 * other, 0.05 if n > 3 else np.inf)


def test_choice_of_alpha_for_noise(seed):
    """Without a dependence of labels on features, predictions are nearly the frequencies."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(205, 15, 10)), rng.integers(3, size=(205, 15))
    model = CRF(random_state=0).fit(X[:5], y[:5])
    assert model.alpha_ > 2 / 5
    assert -model.log_likelihood(X[5:], y[5:]).mean() / 15 < np.log(3) + 0.12


@pytest.mark.parametrize("n", [1, 5])
def test_choice_of_alpha_without_labels_in_folds(n):
    """Held-out labels that the training examples lack are summed out."""
    X, y = np.eye(5)[:n], np.arange(n)[:, None]
    model = CRF(random_state=0).fit(X[:, None].repeat(4, axis=1), y.repeat(4, axis=1))
    assert model.alpha_ == 2 / n
    assert_allclose(model.alpha_path_["log_likelihoods"], 0.0, atol=1e-9)


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_sparse_penalties(penalty, sequences):
    X, y = sequences
    wide = [np.hstack([x, np.random.default_rng(len(x)).normal(size=(len(x), 5))]) for x in X]
    model = CRF(penalty=penalty, alpha=0.3, tol=1e-5).fit(wide, y)
    assert (model.coef_[:, 3:] == 0).mean() > 0.3
    assert (model.coef_[:, :3] != 0).any()


def test_early_stopping_and_warm_start(sequences):
    X, y = sequences
    model = CRF(alpha=0.01, early_stopping=True, random_state=0).fit(X, y)
    assert len(model.history_["validation_score"]) == model.n_iter_
    model = CRF(alpha=0.01, warm_start=True, max_iter=2).fit(X, y)
    first = model.history_["objective"][-1]
    assert model.fit(X, y).history_["objective"][-1] > first


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, name_features])
def test_shift_and_scale_of_features(form, sequences):
    X, y = sequences
    found, weights = [], np.arange(len(X)) % 3
    for f in (lambda x: x, lambda x: x * [1e4, 1e-3, 1.0] + [0.0, 5.0, 1e4], np.exp):
        Z = [form(f(x)) for x in X]
        model = CRF(feature_labels="observed", random_state=0).fit(Z, y, sample_weight=weights)
        found.append(model.log_likelihood(Z, y))
        model = CRF(alpha=0.01, max_iter=8).fit(Z, y)
        first = model.history_["objective"][-1]
        model.set_params(warm_start=True, max_iter=1).fit(Z, y)
        assert first <= model.history_["objective"][-1] < first + 0.05
    assert_allclose(found[1], found[0], atol=1e-6)
    assert np.abs(found[2] - found[0]).max() > 1e-2


@pytest.mark.parametrize("has_constant", [True, False])
def test_shift_and_scale_of_edge_features(has_constant, seed):
    """Without a column of ones, edges have no intercept, and only the scale does not matter."""
    X, y = make_sequences(np.random.default_rng(seed), 60)
    found = []
    for scale, shift in [(1.0, 0.0), (1e4, 0.0), (1.0, 1e3)]:
        rng, graphs = np.random.default_rng(seed), []
        for x, labels in zip(X, y, strict=True):
            z = (labels[1:] == labels[:-1]) + rng.normal(size=len(x) - 1)
            Z = np.stack([z**0, scale * z + shift], axis=1)[:, 1 - has_constant :]
            graphs.append((x, [(i, i + 1) for i in range(len(x) - 1)], Z))
        found.append(CRF("given", random_state=0).fit(graphs, y).log_likelihood(graphs, y))
    assert_allclose(found[1], found[0], atol=1e-6)
    assert (np.abs(found[2] - found[0]).max() < 1e-6) == has_constant


def test_indicators_are_not_scaled(sequences, monkeypatch):
    X, y = sequences
    X = [(x > 0.5).astype(float) for x in X]
    model = CRF(random_state=0).fit(X, y)
    grey = CRF(random_state=0).fit([255 * x + 100 for x in X], y)
    assert_allclose(255 * grey.coef_, model.coef_, atol=1e-6)
    monkeypatch.setattr(FeatureScaling, "is_identity", True)
    assert_array_equal(CRF(random_state=0).fit(X, y).coef_, model.coef_)


@pytest.mark.long
def test_convergence_on_badly_scaled_features(sequences, monkeypatch):
    X, y = sequences
    monkeypatch.setattr(FeatureScaling, "is_identity", True)
    X = [x + 30.0 for x in X]
    model = CRF(alpha=0.01).fit(X, y)
    best = CRF(alpha=0.01, tol=1e-9, max_iter=20_000).fit(X, y)
    gap = best.history_["objective"][-1] - model.history_["objective"][-1]
    assert not model.converged_ or gap < 0.05


def test_threads_do_not_change_results(monkeypatch, seed):
    """Chunks of examples are computed in threads, with the same results to the last bit."""
    rng, found, threads = np.random.default_rng(seed), [], []
    y = rng.integers(2, size=600)
    X = y[:, None] + rng.normal(size=(600, 1))
    images, states = list(X.reshape(6, 10, 10, 1)), list(y.reshape(6, 10, 10))
    for module in (label_trees, propagation):
        monkeypatch.setattr(module, "N_CHUNK", 100)

    def record(module, name):
        kernel = getattr(module, name)

        def call(*arguments):
            threads.append(get_ident())
            return kernel(*arguments)

        monkeypatch.setattr(module, name, call)

    record(label_trees, "chain_sums")
    record(propagation.kernels, "propagate")
    for n_jobs in (1, 2):
        threads.clear()
        model = CRF(alpha=0.1, max_iter=3, n_jobs=n_jobs)
        model.fit(X, y, sequence_ids=np.arange(600) // 6)
        grid = CRF("grid", "bp", alpha=0.1, max_iter=2, n_jobs=n_jobs).fit(images, states)
        found.append((model.coef_, model.transition_, grid.transition_, grid.predict(images)))
        assert (set(threads) == {get_ident()}) == (n_jobs == 1)
    for one, two in zip(*found, strict=True):
        assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, y[:-1]), "30 examples, but y has 29"),
        (lambda X, y: (X, [y[0], y[1][:-1], *y[2:]]), r"Example 1: X has \d positions"),
        (lambda X, y: ([*X[:3], X[3][:0], *X[4:]], y), "Sequence 3 of X is empty"),
        (lambda X, y: ([*X[:3], X[3] * np.nan, *X[4:]], y), "Sequence 3 .* NaN at position 0"),
        (lambda X, y: ([*X[:3], X[3][:, :2], *X[4:]], y), "Sequence 3 of X has 2 features"),
        (lambda X, y: (X, [[None] * len(v) for v in y]), "y has no labels"),
        (lambda X, y: (X, [[[1]] * len(v) for v in y]), "labels must be hashable"),
        (lambda X, y: (X, ["a" * len(v) for v in y]), "Example 0 of y must be a list .* got 'a+'"),
        (lambda X, y: (X, [set(v) for v in y]), "Example 0 of y must be a list of labels; got {"),
        (lambda X, y: (X, iter(y)), "y must be a list with .*; got list_iterator"),
        (lambda X, y: (iter(X), y), "X must be a list with .*; got list_iterator"),
        (lambda X, y: ([x[:, 0] for x in X], y), r"element \d+ \(\d+ values\) is not"),
        (lambda X, y: ([None, *X[1:]], y), r"element 0 \(None\) is a row of a table"),
    ],
)
def test_wrong_input_of_fit(change, message, sequences):
    with pytest.raises((TypeError, ValueError), match=message):
        CRF(**QUICK).fit(*change(*sequences))


@pytest.mark.parametrize(
    ("ids", "y", "message"),
    [
        (["a", None, "a"], [0, 1, 0], r"sequence_ids\[1\] is None; each row needs an id"),
        ([0, 0], [0, 1, 0], r"sequence_ids must have shape \(3,\)"),
        ([0, 0, 1], [[0, 1], [0]], "one label per row; got lists of unequal lengths"),
    ],
)
def test_wrong_sequence_ids(ids, y, message):
    with pytest.raises(ValueError, match=message):
        CRF(**QUICK).fit(np.ones((3, 1)), y, sequence_ids=ids)


def test_tables_without_sequence_ids(recwarn):
    """A model of sequences warns if the rows of a table become sequences of length one."""
    rows, y, ids = np.arange(12.0).reshape(6, 2), [0, 1, 1, 0, 1, 0], [0, 0, 0, 1, 1, 1]
    model = CRF(**QUICK).fit(rows, y, sequence_ids=ids)
    for table, options in ((rows, {"sequence_ids": ids}), ([rows], {}), (rows[:1], {})):
        model.predict(table, **options)
    CRF(**QUICK).fit(rows, y).predict(rows)
    assert not [w for w in recwarn.list if "length one" in str(w.message)]
    dicts = [{"a": 1.0}, {"b": 1.0}]
    for found, X in ((model, rows), (CRF(**QUICK).fit([dicts], [[0, 1]]), dicts)):
        with pytest.warns(UserWarning, match=r"fit was given longer sequences.*give \[X\]"):
            found.predict(X)


def test_sequence_ids_of_several_types():
    X, ids = np.arange(4.0)[:, None], ["b", 1, "b", 1]
    model = CRF(**QUICK).fit(X, [0, 1, 0, 1], sequence_ids=ids)
    other = CRF(**QUICK).fit(X, [0, 1, 0, 1], sequence_ids=[0, 1, 0, 1])
    assert_array_equal(model.coef_, other.coef_)


def test_missing_labels_of_pandas():
    """pd.NA and pd.NaT are missing labels, like None."""
    X, y = np.arange(6.0)[:, None], [0, 1, 0, 1, None, None]
    model = CRF(**QUICK).fit([X], [y])
    other = CRF(**QUICK).fit([X], [[*y[:4], pd.NA, pd.NaT]])
    assert other.classes_.tolist() == [0, 1]
    assert_array_equal(model.coef_, other.coef_)


def test_lists_of_frames_and_of_nothing_are_refused(sequences):
    X, y = sequences
    with pytest.raises(TypeError, match=r"is a data frame\. .* sequence_ids"):
        CRF(**QUICK).fit([pd.DataFrame(x) for x in X], y)
    model = CRF(**QUICK).fit(X, y)
    with pytest.raises(ValueError, match="X has no examples"):
        model.predict([])
    words = CRF(**QUICK).fit([[{"word": "cat"}], [{"word": "the"}]], [["n"], ["d"]])
    with pytest.raises(ValueError, match="Sequence 0 of X is empty"):
        words.predict([[]])


def test_wrong_input_of_graphs_and_queries(sequences):
    X, y = sequences
    graphs = [(x, [(0, len(x))]) for x in X]
    with pytest.raises(ValueError, match=r"Edge 0 of graph 0 of X is \(0, \d\); it must join"):
        CRF("given", **QUICK).fit(graphs, y)
    ring = [(x, [(i, (i + 1) % len(x)) for i in range(len(x))]) for x in X if len(x) > 2]
    with pytest.raises(ValueError, match="needs graphs without cycles"):
        CRF("tree", **QUICK).fit(ring, [v for v in y if len(v) > 2])
    model = CRF(**QUICK).fit(X, y)
    assert model.score(X, [["unknown"] * len(v) for v in y]) == 0.0
    with pytest.raises(ValueError, match="'unknown', which was not seen"):
        model.log_likelihood(X, [["unknown"] * len(v) for v in y])
    with pytest.raises(ValueError, match="has 2 features, but fit has 3"):
        model.predict([x[:, :2] for x in X])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allowed": 5}, "allowed must be .*; got 5"),
        ({"allowed": ["ab"]}, "allowed holds 'ab'; each entry must be a pair"),
        ({"allowed": [("a", "b", "c")]}, r"allowed holds \('a', 'b', 'c'\)"),
        ({"allowed": [("a", [])]}, r"allowed holds \('a', \[\]\)"),
        ({"allowed": []}, "Example 1 has no labels that satisfy the constraints"),
        ({"given": [["a"], None]}, "Example 1 of given must be a list of labels; got None"),
        ({"given": [["a"], ["b"]]}, "Example 1: X has 2 positions, but given has 1 labels"),
    ],
)
def test_wrong_constraints(options, message, sequences):
    model = CRF(**QUICK).fit(*sequences)
    with pytest.raises(ValueError, match=message):
        model.predict([np.ones((1, 3)), np.ones((2, 3))], **options)


@pytest.mark.parametrize("query", ["predict", "predict_marginals", "predict_best"])
def test_graphs_with_cycles_without_possible_labels(query):
    ring = [(np.eye(3), [(0, 1), (1, 2), (2, 0)])] * 4
    model = CRF("given", **QUICK).fit(ring, [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 1, 0]])
    with pytest.raises(ValueError, match="Example 0 has no labels that satisfy the constraints"):
        getattr(model, query)(ring, allowed=[])


def test_scores_without_labels(sequences):
    model = CRF(**QUICK).fit(*sequences)
    for query in (model.score, model.log_likelihood):
        with pytest.raises(TypeError, match=r"y must be a list with .*; got NoneType"):
            query(sequences[0], None)


def test_numbers_of_best_labellings(sequences, monkeypatch):
    """There are not more labellings than exist, and the memory is limited."""
    model = CRF(**QUICK).fit(*sequences)
    labels, probabilities = model.predict_best([np.ones((2, 3))], 10**9)
    assert labels[0].shape == (9, 2)
    assert_allclose(probabilities[0].sum(), 1.0)
    monkeypatch.setattr(label_trees, "MAX_BYTES", 1e4)
    with pytest.raises(ValueError, match="The 50 best labellings of example 0 need about"):
        model.predict_best([np.ones((9, 3))], 50)


def test_wrong_edges():
    graphs = [(np.eye(3), [(0, 1), (1, 2)], [[1.0, 2.0], [0.5, 1.0]])] * 3
    model = CRF("given", **QUICK).fit(graphs, [[0, 1, 0]] * 3)
    with pytest.raises(ValueError, match="edges of X have 1 features, but those of fit have 2"):
        model.predict([graphs[0][:2]])
    with pytest.raises(ValueError, match="edges of X have 1 features, but those of fit have 2"):
        model.set_params(warm_start=True).fit([graphs[0][:2]], [[0, 1, 0]])
    assert_array_equal(model.predict([(np.eye(3), [])])[0], model.predict(np.eye(3)))
    with pytest.raises(ValueError, match=r"edges of graph 0 of X must be integers .* dtype object"):
        model.predict([(np.eye(3), [(0, 1), (1,)])])
    with pytest.raises(ValueError, match="edge features of graph 0 of X must be numbers; could"):
        model.predict([(np.eye(3), [(0, 1)], [["a", "b"]])])


def test_graphs_with_edge_features(seed):
    """Edges with the feature 1 join equal labels, edges with the feature -1 join other labels."""
    rng = np.random.default_rng(seed)
    graphs, y = [], []
    for _ in range(60):
        labels = rng.integers(2, size=5)
        edges = np.array([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
        signs = np.where(labels[edges[:, 0]] == labels[edges[:, 1]], 1.0, -1.0)
        X = np.zeros((5, 1))
        X[0] = 2 * labels[0] - 1
        graphs.append((X, edges, signs[:, None]))
        y.append(labels)
    model = CRF("given", alpha=0.01).fit(graphs, y)
    assert model.score(graphs, y) > 0.95
    assert model.transition_[0, 0] > model.transition_[0, 1]
    assert model.predict_best(graphs[:1], 2)[1][0].sum() <= 1.0


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_vectorizer_returns_lists_whatever_the_output_of_other_transformers(library):
    with config_context(transform_output=library):
        pipeline = make_pipeline(SequenceVectorizer(), CRF(**QUICK))
        pipeline.fit([[{"w": "a"}, {"w": "b"}]], [["x", "y"]])
        assert pipeline.predict([[{"w": "b"}]])[0].tolist() == ["y"]


def test_predictions_of_grids_are_contracted(seed):
    """Marginals and log-likelihoods of grids of unequal shapes, with missing labels."""
    rng = np.random.default_rng(seed)
    images = [rng.normal(size=(height, 7, 3)) for height in (1, 3, 5)]
    y = [np.where(rng.random(x.shape[:2]) < 0.8, x.argmax(axis=2), np.nan) for x in images]
    model = CRF("grid", "bp", **QUICK).fit(images, y)
    exact = CRF("grid", "exact", **QUICK).fit(images, y)
    exact.energy_ = model.energy_
    for a, b in zip(model.predict_marginals(images), exact.predict_marginals(images), strict=True):
        assert_allclose(a, b, atol=1e-5)
    assert_allclose(
        model.log_likelihood(images, y), exact.log_likelihood(images, y), atol=1e-4, rtol=0.0
    )


def test_best_labellings_of_small_grids(seed):
    """Their probabilities do not have the errors of belief propagation."""
    rng = np.random.default_rng(seed)
    images = [rng.normal(size=(3, 3, 2)) for _ in range(4)]
    y = [np.where(x[..., 0] + rng.normal(size=(3, 3)) > 0.0, "a", "b") for x in images]
    model = CRF("grid", "bp", **QUICK).fit(images, y)
    tables = 3.0 * np.stack([np.eye(2), -np.eye(2)])
    model.energy_ = model.energy_.with_theta(model.energy_.theta | {"transition": tables})
    _, probabilities = model.predict_best(images, 2**9)
    assert_allclose([p.sum() for p in probabilities], 1.0, rtol=1e-6)


def test_large_weights_of_grids(seed):
    rng = np.random.default_rng(seed)
    images = [rng.normal(size=(3, 3, 2)) for _ in range(4)]
    model = CRF("grid", "bp", **QUICK).fit(images, [x.argmax(axis=2) for x in images])
    theta = model.energy_.theta
    model.energy_ = model.energy_.with_theta({key: 1e5 * value for key, value in theta.items()})
    with pytest.raises(ValueError, match="In a graph with cycles, the sums over labels also under"):
        model.predict_marginals(images)


def test_grids_that_are_too_large_for_exact_inference():
    X = np.random.default_rng(0).normal(size=(2, 20, 20, 3))
    y = X.argmax(axis=3)
    message = "Example 0 has cycles, and 400 nodes with 3 labels, which are too many for exact"
    with pytest.raises(ValueError, match=message):
        CRF("grid", "exact", **QUICK).fit(list(X), list(y))
    model = CRF("grid", "pseudo-likelihood", **QUICK).fit(list(X), list(y))
    with pytest.raises(ValueError, match=message):
        model.sample(list(X))


def test_propagation_that_does_not_converge(seed):
    """Two iterations are not enough for a cycle, but they are for a chain."""
    x = np.random.default_rng(seed).normal(size=(3, 2))
    cycle, chain = (x, [[0, 1], [1, 2], [0, 2]]), (x, [[0, 1], [1, 2]])
    model = CRF("given", CRFPropagation(max_iter=2), alpha=0.01, max_iter=15)
    model.fit([cycle, chain], [["a", "b", "a"]] * 2)
    message = "Belief propagation did not converge for 1 of 2 examples"
    for query in (
        model.predict_marginals,
        lambda X: model.log_likelihood(X, [["a", "b", "a"]] * 2),
    ):
        with pytest.warns(UserWarning, match=message):
            query([cycle, chain])
