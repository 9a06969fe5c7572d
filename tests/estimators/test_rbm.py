"""RBM as its users meet it."""

import pickle
import tracemalloc
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import twins
from montecarlo import check_draws, check_means
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline
from zoo import layers

from skmrf import RBM, learning
from skmrf._types import STATE, Batch
from skmrf.energies import BipartiteEnergy
from skmrf.learners import BP, CD, MSSVM, PCD, PSMC, Exact
from skmrf.likelihood import log_partition_bounds
from skmrf.rbm import OF_PARTICLES

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SMALL = 50_000  # bytes in which no exact sum over 12 units fits
every = pytest.mark.parametrize("learner", OF_PARTICLES)


def law(energy):
    """All visible states and their log-probabilities."""
    V, log_f = twins.visible_law(energy)
    return V, log_f - twins.log_sum(log_f)


def draws(energy, n_rows, seed):
    """Exact samples."""
    V, log_p = law(energy)
    return V[np.random.default_rng(seed).choice(len(V), size=n_rows, p=np.exp(log_p))].astype(int)


def true_score(energy, X):
    """Mean log-likelihood of rows by enumeration."""
    V, log_p = law(energy)
    known = {tuple(v): value for v, value in zip(V.tolist(), log_p, strict=True)}
    return np.mean([known[tuple(row)] for row in X.tolist()])


def bits(n_rows=120, n_columns=12, seed=0):
    """Rows with two kinds of patterns."""
    rng = np.random.default_rng(seed)
    half = np.arange(n_columns) < n_columns // 2
    X = np.where(rng.random((n_rows, 1)) < 0.5, half, ~half)
    return np.where(rng.random(X.shape) < 0.15, ~X, X).astype(int)


def quick(n_components=4, learner="pcd", max_iter=3, **parameters):
    parameters = {"batch_size": 50, "random_state": 0, **parameters}
    return RBM(n_components, learner, max_iter=max_iter, **parameters)


def assert_same(left, right):
    """The same fit, bit for bit."""
    for name in ("components_", "intercept_visible_", "intercept_hidden_"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    np.testing.assert_array_equal(left.hidden_means_, right.hidden_means_)
    np.testing.assert_array_equal(left.hidden_stds_, right.hidden_stds_)


@pytest.fixture(scope="module")
def fitted():
    """Maximum likelihood by L-BFGS; both layers can be enumerated."""
    X = draws(layers(6, 2, 0, scale=1.5), 1000, 0)
    return RBM(2, "exact", optimizer="lbfgs", random_state=0).fit(X)


@pytest.fixture(scope="module")
def annealed():
    """Log Z is not exact."""
    return quick(12, max_iter=20, max_bytes=SMALL).fit(bits())


# Probabilities -------------------------------------------------------------------------------


def test_probabilities_sum_to_one(fitted):
    V, log_p = law(fitted.energy_)
    found = fitted.score_samples(V)
    np.testing.assert_allclose(found, log_p, atol=1e-5)
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-5)
    assert fitted.log_partition_method_ == "exact"
    assert fitted.log_partition_interval_ == (fitted.log_partition_,) * 2
    assert fitted.score(V) == pytest.approx(found.mean())
    for end in ("value", "lower"):
        np.testing.assert_array_equal(fitted.score_samples(V, end=end), found)


def test_free_energy(fitted):
    W, c, b = fitted.components_.T, fitted.intercept_visible_, fitted.intercept_hidden_
    V, _ = law(fitted.energy_)
    V = V.astype(float)
    expected = -V @ c - np.logaddexp(0.0, V @ W + b).sum(axis=1)
    np.testing.assert_allclose(fitted.free_energy(V), expected, atol=1e-5)
    scores = fitted.score_samples(V)
    np.testing.assert_allclose(scores + fitted.free_energy(V), -fitted.log_partition_, atol=1e-9)


def test_agrees_with_scikit_learns_formulas(fitted):
    X = bits(50, 6).astype(float)
    other = BernoulliRBM(n_components=2, n_iter=1, random_state=0).fit(X)
    other.components_ = fitted.components_.astype(float)
    other.intercept_hidden_ = fitted.intercept_hidden_.astype(float)
    other.intercept_visible_ = fitted.intercept_visible_.astype(float)
    np.testing.assert_allclose(fitted.transform(X), other.transform(X), rtol=1e-5)
    assert fitted.components_.shape == other.components_.shape
    names = fitted.get_feature_names_out().tolist()
    assert names == ["rbm0", "rbm1"]


def test_which_end_of_log_z(annealed):
    lower, upper = annealed.log_partition_interval_
    assert annealed.log_partition_method_ == "ais"
    assert lower < annealed.log_partition_ < upper
    X = bits(30)
    scores = {end: annealed.score_samples(X, end=end) for end in ("upper", "value", "lower")}
    np.testing.assert_array_equal(annealed.score_samples(X), scores["upper"])
    for end, log_z in (("upper", upper), ("value", annealed.log_partition_), ("lower", lower)):
        np.testing.assert_allclose(scores[end], -annealed.free_energy(X) - log_z)
    exact = log_partition_bounds(annealed.energy_, method="exact").value
    assert lower - 0.1 < exact < upper + 0.1
    with pytest.raises(ValueError, match=r"end must be one of \['lower', 'upper', 'value'\]"):
        annealed.score_samples(X, end="both")


def test_scores_do_not_change_from_call_to_call(annealed):
    X = bits(30)
    first = annealed.score_samples(X)
    again = pickle.loads(pickle.dumps(annealed))
    again._cache.clear()
    np.testing.assert_array_equal(again.score_samples(X), first)
    unseeded = quick(12, random_state=None, max_bytes=SMALL).fit(X)
    first = unseeded.score_samples(X)
    unseeded._cache.clear()
    np.testing.assert_array_equal(unseeded.score_samples(X), first)


# Learning ------------------------------------------------------------------------------------


def test_exact_learning_beats_the_truth_in_training(seed):
    """Maximum likelihood, so no worse than the model that the rows come from."""
    energy = layers(6, 2, seed, scale=1.5)
    X = draws(energy, 1000, seed)
    model = RBM(2, "exact", optimizer="lbfgs", random_state=seed).fit(X)
    truth = true_score(energy, X)
    assert truth - 0.005 < model.score(X) < truth + 0.05
    steps = RBM(2, "exact", learning_rate=0.05, max_iter=150, random_state=seed).fit(X)
    assert truth - 0.05 < steps.score(X) < truth + 0.05
    assert true_score(steps.energy_, X) == pytest.approx(steps.score(X), abs=1e-4)


@pytest.mark.parametrize("learner", [name for name in OF_PARTICLES if name != "exact"])
def test_learners_near_maximum_likelihood(learner, seed):
    """The last of the batches has ten rows; numbers of chains are others."""
    energy = layers(6, 2, seed)
    X = draws(energy, 510, seed)
    best = RBM(2, "exact", optimizer="lbfgs", random_state=seed).fit(X).score(X)
    model = RBM(2, learner, max_iter=80, learning_rate=0.03, random_state=seed).fit(X)
    assert best - 0.1 < model.score(X) < best + 0.01


def test_both_phases_are_means(seed):
    """Gradients of batches of unequal size average to the exact one, with fewer or more chains."""
    energy = layers(5, 2, seed)
    V, log_p = law(energy)
    rows = bits(23, 5, seed).astype(STATE)
    moments = energy.moments(
        Exact().step(energy, Batch(V, None, log_p), Exact().init(energy, Batch(V), None), None)[1]
    )
    everything = energy.moments(
        Exact().step(energy, Batch(rows), Exact().init(energy, Batch(rows), None), None)[0]
    )
    for n_chains in (3, 200):
        rng = np.random.default_rng(seed)
        learner = PCD(n_chains=n_chains, n_steps=20)
        state = learner.init(energy, Batch(rows), rng)
        found = []
        for _ in range(400):
            total = dict.fromkeys(energy.theta, 0.0)
            for part in (slice(0, 10), slice(10, 20), slice(20, 23)):
                batch = Batch(rows[part])
                positive, negative, state, _ = learner.step(energy, batch, state, rng)
                gradient = energy.gradient(positive, negative, batch)
                share = len(batch.X) / len(rows)
                total = {k: total[k] + share * g for k, g in gradient.items()}
            found.append(np.concatenate([(everything[k] - g).ravel() for k, g in total.items()]))
        expected = np.concatenate([moments[k].ravel() for k in energy.theta])
        check_means(np.array(found), expected)


def test_a_batch_smaller_than_the_number_of_chains():
    """scikit-learn divides the sum over its chains by the number of rows; here both are means."""
    X = np.array([[0.0, 1.0], [1.0, 0.0]])  # the mean of the visible units of the start, too
    other = BernoulliRBM(n_components=1, batch_size=100, learning_rate=1.0, random_state=0)
    other.partial_fit(X)
    start, chains = np.zeros(2), PCD(n_chains=100)
    assert np.abs(other.intercept_visible_).min() > 20
    model = RBM(1, chains, optimizer="sgd", learning_rate=1.0, average=False, random_state=0)
    model.partial_fit(X)
    assert np.abs(model.intercept_visible_ - start).max() < 0.3


@every
def test_sparse_rows_are_dense_rows(learner):
    X = bits()
    dense = quick(learner=learner).fit(X)
    for convert in (sp.csr_matrix, sp.csr_array, sp.csc_array):
        sparse = quick(learner=learner).fit(convert(X))
        assert_same(dense, sparse)
    for query in ("transform", "free_energy", "score_samples"):
        left, right = getattr(dense, query)(X), getattr(sparse, query)(sp.csr_array(X))
        np.testing.assert_array_equal(left, right)
    weights = np.arange(len(X)) % 3
    weighted = [quick(learner=learner).fit(Y, sample_weight=weights) for Y in (X, sp.csr_array(X))]
    assert_same(*weighted)


@pytest.mark.parametrize("learner", ["pcd", "cd"])
def test_sparse_rows_stay_sparse(learner):
    X = sp.random_array((40_000, 1000), density=0.003, rng=0, format="csr")
    X.data[:] = 1.0
    model = quick(2, learner, max_iter=1, batch_size=500)
    model.fit(X[:200])  # compiled
    tracemalloc.start()
    model.fit(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 35e6  # a byte an entry would be 40e6


def test_odd_sparse_matrices():
    X = bits(20, 4)
    zeros = sp.csr_array(X)
    zeros.data[:3] = 0
    before = zeros.toarray()
    assert_same(quick().fit(zeros), quick().fit(zeros.toarray()))
    np.testing.assert_array_equal(zeros.toarray(), before)
    twice = sp.csr_array((np.ones(2), [0, 0], [0, 2]), shape=(1, 2))
    with pytest.raises(ValueError, match=r"Column 0 holds 2\.0, but the states are 0 and 1"):
        quick().fit(twice)
    assert twice.nnz == 2
    floats = sp.csr_array(X * 0.7)
    floats.data[::2] = 0.3
    before = floats.toarray()
    for threshold in (0.5, -0.5):
        dense = quick(binarize=threshold).fit(before)
        assert_same(quick(binarize=threshold).fit(floats), dense)
    np.testing.assert_array_equal(floats.toarray(), before)


def test_binarize():
    numbers = np.random.default_rng(0).normal(size=(100, 4))
    plain = quick().fit((numbers > 0.2).astype(int))
    cut = quick(binarize=0.2).fit(numbers)
    assert_same(plain, cut)
    np.testing.assert_array_equal(cut.transform(numbers), plain.transform(numbers > 0.2))
    with pytest.raises(ValueError, match=r"Give a threshold as binarize="):
        quick().fit(numbers)
    with pytest.raises(ValueError, match=r"Give a threshold as binarize="):
        plain.transform(numbers)


def test_sample_weight_is_repetition(seed):
    X = draws(layers(6, 2, seed), 200, seed)
    weights = np.random.default_rng(seed + 1000).integers(0, 3, len(X))
    energy, kept = layers(6, 2, seed + 1), weights > 0
    rows = X[kept].astype(STATE), np.repeat(X, weights, axis=0).astype(STATE)
    batches = Batch(rows[0], None, np.log(weights[kept])), Batch(rows[1])
    (value, gradient), (expected, twin) = (
        Exact().objective(energy, b, Exact().init(energy, b, None)) for b in batches
    )
    assert value == pytest.approx(expected, abs=1e-10)
    for name in twin:
        np.testing.assert_allclose(gradient[name], twin[name], atol=1e-10)
    model = RBM(2, "exact", optimizer="lbfgs", init_visible_bias="zeros", max_iter=30)
    model.set_params(random_state=seed, alpha=0.01)
    weighted = clone(model).fit(X, sample_weight=weights)
    repeated = clone(model).fit(rows[1])
    assert weighted.score(X) == pytest.approx(repeated.score(X), abs=2e-3)
    unweighted = clone(model).fit(X)
    assert np.abs(unweighted.components_ - weighted.components_).max() > 1e-3


def test_initial_biases():
    X = np.array([[1, 0, 0], [1, 0, 1], [1, 0, 1], [1, 0, 1]])
    model = quick(learning_rate=1e-12, max_iter=1).fit(X)
    np.testing.assert_allclose(model.intercept_visible_, np.log([9, 1 / 9, 7 / 3]), rtol=1e-5)
    model = quick(learning_rate=1e-12, max_iter=1, init_visible_bias="zeros").fit(X)
    np.testing.assert_allclose(model.intercept_visible_, 0.0, atol=1e-9)
    assert 0 < np.abs(model.components_).max() < 0.1
    weights = np.array([1, 2, 3, 0])
    for rows in (X, sp.csr_matrix(X)):
        model = quick(learning_rate=1e-12, max_iter=1).fit(rows, sample_weight=weights)
        expected = np.log([13, 1 / 13, 11 / 3])
        np.testing.assert_allclose(model.intercept_visible_, expected, rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_log_odds_of_columns(weighted):
    codes = np.array([[1, 0, -1], [1, -1, 0], [0, 1, -1], [1, 0, -1]], dtype=STATE)
    weights = np.array([1, 1, 2, 3]) if weighted else np.ones(4, int)
    copies = np.repeat(codes, weights, axis=0)
    ones, zeros = (copies == 1).sum(axis=0), (copies == 0).sum(axis=0)
    found = learning.log_odds(codes, np.log(weights) if weighted else None)
    np.testing.assert_allclose(found, np.log((ones + 0.5) / (zeros + 0.5)), atol=1e-12)


def test_hidden_statistics(fitted):
    X = draws(layers(6, 2, 0, scale=1.5), 1000, 0)
    H = fitted.transform(X)
    np.testing.assert_allclose(fitted.hidden_means_, H.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(fitted.hidden_stds_, H.std(axis=0), rtol=1e-5)


def test_group_penalty_empties_hidden_units(seed):
    """From a learned start; the small random one is within reach of no hidden unit at all."""
    X = bits(seed=seed)
    model = quick(6, learning_rate=0.02, max_iter=100, warm_start=True, random_state=seed).fit(X)
    assert (model.components_ != 0).all()
    model.set_params(penalty="group-l1", alpha=0.05).fit(X)
    norms = np.abs(model.components_).sum(axis=1)
    assert (norms == 0).sum() >= 2
    assert (norms > 1).any()
    model.set_params(warm_start=False).fit(X)
    assert (model.components_ == 0).all()


@pytest.mark.parametrize("n_columns", [12, 20])
def test_early_stopping(n_columns):
    """By the likelihood where a layer has 12 units at most, else by the pseudo-likelihood."""
    X = bits(200, n_columns)
    model = quick(14, max_iter=900, learning_rate=0.05, early_stopping=True, n_iter_no_change=30)
    scores = model.fit(X).history_["validation_score"]
    patience = max(30, -(-500 * model.batch_size // 180))  # at least 500 updates
    assert len(scores) == model.n_iter_ < 900
    assert np.argmax(scores) == len(scores) - 1 - patience
    assert scores[0] < max(scores) < 0
    sparse = clone(model).fit(sp.csr_array(X))
    assert_same(model, sparse)


# Going on ------------------------------------------------------------------------------------


@every
def test_resumes_bit_for_bit(learner, tmp_path):
    X = bits()
    whole = quick(6, learner, 4).fit(X)
    half = quick(6, learner, 2, warm_start=True).fit(X)
    half = pickle.loads(pickle.dumps(half)).fit(X)
    assert_same(whole, half)
    assert half.n_iter_ == whole.n_iter_ == 4
    parts = quick(6, learner).partial_fit(X).partial_fit(X)
    joblib.dump(parts, tmp_path / "model.joblib")
    parts = joblib.load(tmp_path / "model.joblib").partial_fit(X).partial_fit(X)
    assert_same(whole, parts)
    assert whole.history_.keys() == parts.history_.keys()
    assert parts.score(X) == whole.score(X)


def test_resumed_fits_have_the_same_log_z():
    X = bits()
    whole = quick(12, max_iter=2, max_bytes=SMALL).fit(X)
    parts = quick(12, max_bytes=SMALL).partial_fit(X).partial_fit(X)
    assert whole.log_partition_method_ == "ais"
    np.testing.assert_array_equal(whole.score_samples(X), parts.score_samples(X))


@pytest.mark.parametrize("learner", ["pcd", "psmc", "cd"])
def test_jobs_do_not_matter(learner):
    X = bits(n_rows=300)
    one, two = (quick(12, learner, n_jobs=n, max_bytes=SMALL).fit(X) for n in (1, 2))
    assert_same(one, two)
    np.testing.assert_array_equal(one.score_samples(X), two.score_samples(X))
    np.testing.assert_array_equal(one.sample(9, random_state=0), two.sample(9, random_state=0))


def test_partial_fit_on_other_rows():
    X = bits(300)
    model = quick(2, learning_rate=0.05, batch_size=20)
    for k in range(90):
        model.partial_fit(X[(k % 3) * 100 :][:100])
    assert model.n_iter_ == 90
    best = RBM(2, "exact", optimizer="lbfgs", random_state=0).fit(X).score(X)
    assert model.score(X) > best - 0.5
    with pytest.raises(ValueError, match="X has 3 features, but RBM is expecting 12 features"):
        model.partial_fit(X[:, :3])
    with pytest.raises(ValueError, match="n_components=5 is not that of the fit to go on from, 2"):
        model.set_params(n_components=5).partial_fit(X)
    assert model.set_params(warm_start=False).fit(X).components_.shape == (5, 12)


SEEN = []  # iterates


class Interrupted(PCD):
    """Presses Ctrl-C in the middle of the third epoch, and tells of the iterates before it."""

    def step(self, energy, *arguments):
        SEEN.append(energy.theta)
        if len(SEEN) == 8:
            raise KeyboardInterrupt
        return super().step(energy, *arguments)


def test_interrupt_leaves_the_last_update():
    X = bits()
    SEEN.clear()
    model = quick(learner=Interrupted(), max_iter=30, average=False)
    with pytest.warns(ConvergenceWarning, match="update, 7, after 2 epochs"):
        model.fit(X)
    assert model.n_iter_ == 2
    for name, learned in model.energy_.theta.items():
        np.testing.assert_array_equal(learned, SEEN[-1][name])
    assert np.isfinite(model.score(X))


# Draws ---------------------------------------------------------------------------------------


def test_sample_follows_the_model(fitted, seed):
    V, log_p = law(fitted.energy_)
    check_draws(fitted.sample(4000, random_state=seed), V, np.exp(log_p))
    drawn = fitted.sample(4000, given={1: 1, 4: 0}, random_state=seed)
    agrees = (V[:, 1] == 1) & (V[:, 4] == 0)
    p = np.where(agrees, np.exp(log_p), 0.0)
    check_draws(drawn, V, p / p.sum())


def test_sample_given_rows(fitted):
    given = np.full((3, 6), np.nan)
    given[:, 2] = 0, 1, 1
    drawn = fitted.sample(3, given=given, random_state=0)
    assert drawn.shape == (3, 6)
    assert set(np.unique(drawn)) <= {0, 1}
    np.testing.assert_array_equal(drawn[:, 2], [0, 1, 1])
    assert (fitted.sample(5, given=given[1:2], random_state=0)[:, 2] == 1).all()
    again = [fitted.sample(4, random_state=3) for _ in range(2)]
    np.testing.assert_array_equal(*again)
    assert (fitted.sample(4, random_state=3) != fitted.sample(4, random_state=4)).any()
    assert fitted.sample().shape == (1, 6)
    with pytest.raises(ValueError, match="given has 3 rows; give one, or as many as n_samples=2"):
        fitted.sample(2, given=given)
    with pytest.raises(ValueError, match=r"given names column 6; the columns are \[0, 1, 2"):
        fitted.sample(given={6: 1})
    with pytest.raises(ValueError, match=r"Column 2 holds 3\.0, but the states are 0 and 1"):
        fitted.sample(given={2: 3})


def test_gibbs(fitted, seed):
    """One step from a row: hidden units given it, visible ones given these."""
    V, _ = law(fitted.energy_)
    row = V[21]
    hidden, _ = law(BipartiteEnergy(np.zeros((2, 0)), np.zeros(2), []))
    up = fitted.transform(row[None])[0]
    weights = np.where(hidden == 1, up, 1 - up).prod(axis=1)
    down = fitted.inverse_transform(hidden.astype(float))
    p = np.array([weights @ np.where(v == 1, down, 1 - down).prod(axis=1) for v in V])
    drawn = fitted.gibbs(np.repeat(row[None], 8000, axis=0), random_state=seed)
    check_draws(drawn, V, p / p.sum())
    sparse = fitted.gibbs(sp.csr_array(V), random_state=seed)
    np.testing.assert_array_equal(sparse, fitted.gibbs(V, random_state=seed))


def test_inverse_transform(fitted):
    H = np.array([[0.0, 1.0], [0.3, 0.6]])
    expected = 1 / (1 + np.exp(-H @ fitted.components_ - fitted.intercept_visible_))
    found = fitted.inverse_transform(H)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert fitted.inverse_transform(H.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="X has 3 columns, but there are 2 hidden units"):
        fitted.inverse_transform(np.zeros((1, 3)))


# With scikit-learn ---------------------------------------------------------------------------


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
    assert (model.sample(5, given={"b": 1}, random_state=0)[:, 1] == 1).all()
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


# Bad input -----------------------------------------------------------------------------------

BITS = bits(20, 3)

BAD_PARAMETERS = [
    ({"n_components": 0}, "n_components must be an integer >= 1; got 0"),
    ({"n_components": 2.0}, r"n_components must be an integer; got 2\.0"),
    ({"learner": "sgd"}, r"learner must be one of \['cd', 'exact', .*'psmc'.*; got 'sgd'"),
    ({"learner": "bp"}, r"RBM cannot take the learner 'bp'; it takes one of \['cd', 'exact'"),
    ({"learner": "pseudo-likelihood"}, "RBM cannot take the learner 'pseudo-likelihood'"),
    ({"learner": BP()}, r"RBM cannot take the learner BP\(\)"),
    ({"learner": PCD}, "learner must be one of .*; got <class"),
    ({"learner": PCD(n_chains=0)}, "n_chains must be an integer >= 1; got 0"),
    ({"learner": CD(n_steps=0)}, "n_steps must be an integer >= 1; got 0"),
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


def test_exact_learning_of_two_large_layers():
    with pytest.raises(ValueError, match=r'smaller layer \(50 units.* such as "pcd" or "psmc"'):
        RBM(60, "exact").fit(bits(20, 50))


BAD_DATA = [
    (BITS * 2, ValueError, "Column 0 holds 2, but the states are 0 and 1. .* as binarize="),
    (BITS * 0.5, ValueError, r"Column 0 holds 0\.5, but the states are 0 and 1"),
    (sp.csr_array(BITS * 2), ValueError, "Column 0 holds 2, but the states are 0 and 1"),
    (np.where(BITS > 0, np.nan, 0), ValueError, "Column 0 holds NaN, but RBM takes complete rows"),
    (np.where(BITS > 0, np.inf, 0), ValueError, "Column . holds infinity; give finite"),
    (BITS[:0], ValueError, r"Found array with 0 sample\(s\)"),
    (BITS[:, :0], ValueError, r"Found array with 0 feature\(s\)"),
    (BITS[:, 0], ValueError, "Expected 2D array, got 1D array"),
    (BITS + 1j, ValueError, "Complex data not supported"),
    (np.array([["a", "b"]] * 3), ValueError, "which is no number; give two states"),
    (pd.DataFrame({"x": [1, 1], "y": [0, 7]}), ValueError, "Column 'y' holds 7, but the states"),
]


@pytest.mark.parametrize(("data", "error", "message"), BAD_DATA, ids=range(len(BAD_DATA)))
def test_bad_data(data, error, message):
    model = quick()
    with pytest.raises(error, match=message):
        model.fit(data)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_failed_fit_leaves_the_previous_one():
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
def test_learners_of_outputs_given_inputs_are_refused(learner):
    with pytest.raises(ValueError, match="RBM cannot take the learner"):
        RBM(2, learner).fit(np.eye(4))
