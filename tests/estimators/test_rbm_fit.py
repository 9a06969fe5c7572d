"""Tests of the training of RBM."""

import tracemalloc
import warnings
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from estimator_models import SMALL, assert_same, bits, draws, every, law, quick
from montecarlo import check_means
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import BernoulliRBM
from zoo import LAYERED_LEARNERS, layers

from skmrf import RBM, BoltzmannMachine
from skmrf._data.binary import TwoStateEncoder
from skmrf._utils.codes import MISSING, STATE
from skmrf._utils.rows import Batch
from skmrf.energies import BipartiteEnergy, PairwiseEnergy, SemiRestrictedEnergy
from skmrf.estimators import _hidden_layer, _weight_decay, boltzmann_machine
from skmrf.estimators._hidden_layer import initial_layers, tree_layers
from skmrf.estimators._weight_decay import STRENGTHS
from skmrf.learners import PCD, Exact
from skmrf.likelihood import log_partition_bounds
from skmrf.structure.chow_liu import fit_tree
from skmrf.training import held_out, initial_values

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def true_score(energy, X):
    """Return the mean log-likelihood of rows by enumeration."""
    V, log_p = law(energy)
    known = {tuple(v): value for v, value in zip(V.tolist(), log_p, strict=True)}
    return np.mean([known[tuple(row)] for row in X.tolist()])


# Learning ---------------------------------------------------------------------------------


def test_exact_learning_is_no_worse_than_the_true_model(seed):
    energy = layers(6, 2, seed, scale=1.5)
    X = draws(energy, 1000, seed)
    model = RBM(2, "exact", optimizer="lbfgs", alpha=0.0, random_state=seed).fit(X)
    truth = true_score(energy, X)
    assert truth - 0.005 < model.score(X) < truth + 0.05
    steps = RBM(2, "exact", alpha=0.0, learning_rate=0.05, max_iter=150, random_state=seed).fit(X)
    assert truth - 0.05 < steps.score(X) < truth + 0.05
    assert true_score(steps.energy_, X) == pytest.approx(steps.score(X), abs=1e-4)


@cache
def best_score(seed):
    """Return the largest mean log-likelihood of 510 rows."""
    X = draws(layers(6, 2, seed), 510, seed)
    return RBM(2, "exact", optimizer="lbfgs", alpha=0.0, random_state=seed).fit(X).score(X)


@pytest.mark.parametrize("learner", [name for name in LAYERED_LEARNERS if name != "exact"])
def test_learners_near_maximum_likelihood(learner, seed):
    """The last minibatch has ten rows, and learners have other numbers of chains."""
    energy = layers(6, 2, seed)
    X = draws(energy, 510, seed)
    best = best_score(seed)
    model = RBM(2, learner, alpha=0.0, max_iter=60, learning_rate=0.03, random_state=seed).fit(X)
    assert best - 0.1 < model.score(X) < best + 0.01


def test_default_training_is_near_maximum_likelihood(seed):
    energy = layers(6, 2, seed)
    X = draws(energy, 600, seed)
    best = RBM(2, "exact", optimizer="lbfgs", alpha=0.0, random_state=seed).fit(X).score(X)
    model = RBM(2, alpha=0.0, random_state=seed).fit(X)
    is_independent = np.ptp(model.transform(X), axis=0).max() < 0.05  # has not left zero weights
    assert model.converged_ or is_independent
    assert best - 0.15 < model.score(X) < best + 0.01
    assert model.learning_rate_ == 0.1


@pytest.mark.parametrize("early_stopping", [False, True])
def test_default_training_learns_the_weights_of_separated_clusters(early_stopping, seed):
    rng = np.random.default_rng(seed)
    centre = rng.integers(2, size=20)
    is_first = rng.random(1000) < 0.3
    X = np.where(is_first[:, None], centre, 1 - centre) ^ (rng.random((1000, 20)) < 0.02)
    model = RBM(4, alpha=0.01, early_stopping=early_stopping, random_state=seed).fit(X)
    drawn = model.sample(4000, random_state=seed)
    share = ((drawn == centre).mean(axis=1) > 0.5).mean()
    assert abs(share - is_first.mean()) < 5 * 0.5 / np.sqrt(4000) + 0.05 * early_stopping


@pytest.mark.parametrize("kind", ["hidden layer", "pairs", "coupled layers"])
def test_scores_of_small_models_are_exact(kind, monkeypatch, seed):
    """Compare scores with enumeration; the scores of annealing are estimates."""
    rng = np.random.default_rng(seed)
    coupling = np.triu(rng.normal(size=(6, 6)), 1)
    coupling, arrays = coupling + coupling.T, [rng.normal(size=s) for s in ((6, 3), 6, 3)]
    energy = {
        "hidden layer": BipartiteEnergy(*arrays),
        "pairs": PairwiseEnergy(coupling, rng.normal(size=6)),
        "coupled layers": SemiRestrictedEnergy(coupling, *arrays),
    }[kind]
    X = rng.integers(0, 2, size=(20, 6)).astype(STATE)
    score = held_out.annealed_log_likelihoods(energy, Batch(X), X, "cpu").mean()
    assert score == pytest.approx(true_score(energy, X), rel=1e-6)
    monkeypatch.setattr(held_out, "MAX_LAYER_SIZE", 2)
    estimate = held_out.annealed_log_likelihoods(energy, Batch(X), X, "cpu").mean()
    assert 0.0 < abs(estimate - score) < 0.05


@pytest.mark.long
def test_strength_of_the_weight_decay_is_chosen(monkeypatch, seed):
    """Rows of independent columns get the strongest decay; two patterns get a good model."""
    monkeypatch.setattr(_weight_decay, "MIN_LAYER_UPDATES", 450)
    monkeypatch.setattr(_weight_decay, "MAX_LAYER_UPDATES", (450, 450))
    rng = np.random.default_rng(seed)
    noise = (rng.random((200, 30)) < 0.4).astype(int)
    model = RBM(30, random_state=seed).fit(noise)
    assert model.alpha_ == pytest.approx(30 / 200)
    X, Y = bits(600, 12, seed), bits(600, 12, seed + 100)
    model = RBM(8, random_state=seed).fit(X)
    assert np.abs(model.alpha_ * len(X) - np.array(STRENGTHS)).min() < 1e-9
    p = np.log(0.85) * 0.85 + np.log(0.15) * 0.15  # of an entry, given the pattern
    assert model.score(Y) > 12 * p + np.log(0.5) - 0.3
    assert RBM(2, random_state=seed).fit(X[:40]).alpha_ == pytest.approx(10 / 40)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rates_that_diverge_are_not_chosen(monkeypatch, seed):
    monkeypatch.setattr(_weight_decay, "LAYER_RATES", (1e38, 0.05))
    monkeypatch.setattr(_weight_decay, "MIN_LAYER_UPDATES", 300)
    monkeypatch.setattr(_weight_decay, "MAX_LAYER_UPDATES", (300, 300))
    assert RBM(2, random_state=seed).fit(bits()).learning_rate_ == 0.05


@pytest.mark.parametrize(
    ("short", "whole", "rate"), [(0.1, -1.0, 0.05), (0.1, 1.0, 0.2), (9.0, -1.0, 0.2)]
)
def test_whole_fits_compare_the_rates_if_short_ones_are_unclear(monkeypatch, short, whole, rate):
    """The larger rate has scores that are higher by one of two numbers, with an error of 0.2."""
    gains, noise = [], np.tile([-1.0, 1.0], 12)

    def fit(energy, *others):
        *_, rate, _, is_short = others
        gains.append((short if is_short else whole) + noise if rate == 0.2 else 0.0 * noise)
        return energy

    monkeypatch.setattr(_weight_decay, "_fit", fit)
    monkeypatch.setattr(_weight_decay, "annealed_log_likelihoods", lambda *_: gains[-1])
    assert quick(alpha="auto", max_iter=1).fit(bits()).learning_rate_ == rate
    assert len(gains) == 6 + 2 * (short < 1)


@pytest.mark.parametrize(
    ("best", "compared"),
    [
        (3.0, [3.0, 3.0, 3.0, 1.0, 10.0]),
        (1.0, [3.0, 3.0, 3.0, 1.0, 0.3]),
        (0.1, [3.0, 3.0, 3.0, 1.0, 0.3, 0.1]),
        (30.0, [3.0, 3.0, 3.0, 1.0, 10.0, 30.0, 100.0]),
    ],
)
def test_strengths_are_compared_while_they_improve(monkeypatch, best, compared):
    """The score falls with the distance from the best one. There are two rates and two centres."""
    strengths, centres = [], []

    def fit(energy, data, _, alpha, __, centre, ___):
        strengths.append(round(alpha * len(data.X), 9))
        centres.append(centre)
        return energy

    monkeypatch.setattr(_weight_decay, "_fit", fit)
    monkeypatch.setattr(
        _weight_decay,
        "annealed_log_likelihoods",
        lambda *_: np.array([-abs(np.log(strengths[-1] / best))]),
    )
    model = BoltzmannMachine(n_components=2, states=(0, 1), max_iter=1, random_state=0)
    assert model.fit(bits()).alpha_ == pytest.approx(best / len(bits()))
    assert strengths == compared
    assert [centre is not None for centre in centres] == [k == 2 for k in range(len(compared))]


def test_comparison_starts_at_the_choice_for_fewer_hidden_units(monkeypatch):
    """A strength of 30 and shrinkage towards a forest are best, with any number of units."""
    compared = []

    def fit(energy, data, _, alpha, __, centre, ___):
        compared.append((energy.n_variables - 12, round(alpha * len(data.X)), centre is not None))
        return energy

    def score(*_):
        n_hidden, strength, has_centre = compared[-1]
        return np.array([n_hidden + has_centre - abs(np.log(strength / 30))])

    monkeypatch.setattr(_weight_decay, "MAX_EXACT", 0)
    monkeypatch.setattr(_weight_decay, "_fit", fit)
    monkeypatch.setattr(_weight_decay, "annealed_log_likelihoods", score)
    X = bits(400)
    model = BoltzmannMachine(n_components="auto", states=(0, 1), max_iter=1, random_state=0).fit(X)
    assert (model.n_components_, model.alpha_) == (32, pytest.approx(30 / 400))
    pairs = [c[1:] for c in compared if c[0] == 0]
    assert pairs == [(10, False), (10, True), (3, True), (30, True), (100, True)]
    assert [c[1:] for c in compared if c[0] == 32] == [(s, True) for s in (30, 30, 10, 100)]


@pytest.mark.parametrize("n_hidden", [3, 5, 8])
def test_hidden_units_of_a_chow_liu_tree(n_hidden, seed):
    """Hidden units represent the edges of the tree with the largest gains, or all edges."""
    rng = np.random.default_rng(seed)
    X = np.cumsum(rng.random((300, 6)) < 0.2, axis=1) % 2 ^ rng.integers(2, size=(300, 1))
    X[:, 3] = 1 - X[:, 3]
    data = Batch(X.astype(STATE))
    energy = tree_layers(initial_layers(data, n_hidden, "data", rng, 1e-9), data)
    V, log_p = law(energy)
    tree = fit_tree(X, [2] * 6)
    weakest = np.sort(tree.gains)[2] if n_hidden == 3 else -1.0
    graph = tree.prune(weakest - 1e-9) if n_hidden == 3 else tree.graph
    expected = graph.log_potential(V)
    np.testing.assert_allclose(log_p, expected, atol=1e-4)
    independent = tree.prune(np.inf).log_potential(V)
    assert np.abs(log_p - independent).max() > 0.5


@pytest.mark.long
def test_initial_weights_of_a_tree_are_compared(monkeypatch, seed):
    """The columns are a chain with strong couplings."""
    rng = np.random.default_rng(seed)
    X = np.cumsum(rng.random((300, 13)) < 0.05, axis=1) % 2 ^ rng.integers(2, size=(300, 1))
    monkeypatch.setattr(_weight_decay, "MIN_LAYER_UPDATES", 300)
    monkeypatch.setattr(_weight_decay, "MAX_LAYER_UPDATES", (300, 300))
    score = RBM(12, random_state=seed).fit(X).score(X)
    monkeypatch.setattr(_hidden_layer, "tree_layers", lambda energy, *_, **__: energy)
    without = RBM(12, random_state=seed).fit(X).score(X)
    assert score > without + 0.1


def test_ctrl_c_while_the_strength_is_chosen(monkeypatch, seed):
    calls, score = [], held_out.annealed_log_likelihoods

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return score(*args)

    monkeypatch.setattr(_weight_decay, "annealed_log_likelihoods", interrupted)
    with pytest.warns(ConvergenceWarning, match="Interrupted while alpha was chosen"):
        model = RBM(2, max_iter=900, random_state=seed).fit(bits())
    assert not model.converged_
    assert np.abs(model.components_).max() > 0.1  # of the first short fit


@pytest.mark.long
def test_both_phases_are_means(seed):
    """Gradients of unequal minibatches average to the exact one, for all numbers of chains."""
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
        learner = PCD(n_chains=n_chains, n_sweeps=20)
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
    """Both phases are means; scikit-learn divides its chains' sum by the rows."""
    X = np.array([[0.0, 1.0], [1.0, 0.0]])  # their mean is also that of the initial model
    other = BernoulliRBM(n_components=1, batch_size=100, learning_rate=1.0, random_state=0)
    other.partial_fit(X)
    start, chains = np.zeros(2), PCD(n_chains=100)
    assert np.abs(other.intercept_visible_).min() > 20
    model = RBM(1, chains, optimizer="sgd", learning_rate=1.0, average=False, random_state=0)
    model.partial_fit(X)
    assert np.abs(model.intercept_visible_ - start).max() < 0.3


@every
def test_sparse_and_dense_rows_give_the_same_model(learner):
    X = bits()
    dense = quick(learner=learner).fit(X)
    for convert in (sp.csr_matrix, sp.csc_array):
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
    model.fit(X[:200])  # compiles the kernels
    tracemalloc.start()
    model.fit(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 35e6  # one byte per entry would be 40e6


def test_sparse_matrices_in_non_canonical_form():
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


@pytest.mark.parametrize("is_jax", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32])
def test_codes_of_training_rows(dtype, is_jax):
    """The codes of rows that are not copied, or are on a device, are those of all other rows."""
    convert = pytest.importorskip("jax.numpy").asarray if is_jax else np.asarray
    X = bits(30, 4).astype(dtype)
    for states, binarize in [((0, 1), None), ((0, 1), 1.5), ((0, 1), 0.5), ((-1, 1), None)]:
        low, high = states
        rows = X if low == 0 else (low + (high - low) * X.astype(float)).astype(np.float32)
        encoder = TwoStateEncoder(list("abcd"), (float(low), float(high)), binarize)
        codes = encoder.encode_training(convert(rows))
        assert isinstance(codes, np.ndarray) != is_jax
        np.testing.assert_array_equal(codes, encoder.encode(rows))
        if dtype is np.float32:
            rows = rows.copy()
            rows[3, 2] = np.nan
            codes = encoder.encode_training(convert(rows))
            assert codes[3, 2] == MISSING
            rows[3, 1] = np.inf
            with pytest.raises(ValueError, match="'b' holds inf"):
                encoder.encode_training(convert(rows))


@pytest.mark.parametrize("weighted", [False, True])
def test_column_means_of_a_preconditioner(weighted, seed):
    """Missing entries do not count, and rows count with their weights."""
    rng = np.random.default_rng(seed)
    X, log_weights = bits(40, 5), 2.0 + rng.normal(size=40) if weighted else None
    X[rng.random(X.shape) < 0.3] = MISSING
    weights = np.exp(log_weights) if weighted else np.ones(40)
    masked = np.ma.masked_equal(X, MISSING)
    found = _weight_decay._means(Batch(X, None, log_weights))
    np.testing.assert_allclose(found, np.ma.average(masked, axis=0, weights=weights))


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
    found = initial_values.log_odds(codes, np.log(weights) if weighted else None)
    np.testing.assert_allclose(found, np.log((ones + 0.5) / (zeros + 0.5)), atol=1e-12)


def test_group_penalty_removes_hidden_units(seed):
    """Training starts at a learned model, because small weights stay at zero."""
    X = bits(seed=seed)
    model = quick(6, learning_rate=0.02, max_iter=100, warm_start=True, random_state=seed).fit(X)
    assert (model.components_ != 0).all()
    model.set_params(penalty="group-l1", alpha=0.05).fit(X)
    norms = np.abs(model.components_).sum(axis=1)
    assert (norms == 0).sum() >= 2
    assert (norms > 1).any()
    model.set_params(warm_start=False).fit(X)
    assert (model.components_ == 0).all()


@pytest.mark.long
@pytest.mark.parametrize("n_columns", [12, 20])
def test_early_stopping(n_columns):
    """The score is the likelihood if a layer has at most 12 units, else the pseudo-likelihood."""
    X = bits(200, n_columns)
    model = quick(14, max_iter=900, learning_rate=0.05, early_stopping=True, n_iter_no_change=30)
    scores = model.fit(X).history_["validation_score"]
    patience = max(30, -(-500 * model.batch_size // 180))  # at least 500 updates
    assert len(scores) == model.n_iter_ < 900
    assert np.argmax(scores) == len(scores) - 1 - patience
    assert scores[0] < max(scores) < 0
    if n_columns == 20:
        assert_same(model, clone(model).fit(sp.csr_array(X)))


# Jobs and partial fits --------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("learner", ["pcd", "psmc", "cd"])
def test_jobs_do_not_matter(learner):
    X = bits(n_rows=300)
    one, two = (quick(12, learner, n_jobs=n, max_bytes=SMALL).fit(X) for n in (1, 2))
    assert_same(one, two)
    np.testing.assert_array_equal(one.score_samples(X), two.score_samples(X))
    np.testing.assert_array_equal(one.sample(9, random_state=0), two.sample(9, random_state=0))


@pytest.mark.long
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
    with pytest.raises(ValueError, match="n_components=5, because the previous fit has 2 hidden"):
        model.set_params(n_components=5).partial_fit(X)
    assert model.set_params(warm_start=False).fit(X).components_.shape == (5, 12)


SEEN = []  # iterates before the interruption


class Interrupted(PCD):
    """Learner that raises KeyboardInterrupt in the third epoch and records earlier iterates."""

    def step(self, energy, *arguments):
        SEEN.append(energy.theta)
        if len(SEEN) == 8:
            raise KeyboardInterrupt
        return super().step(energy, *arguments)


def test_interrupt_keeps_the_last_update():
    X = bits()
    SEEN.clear()
    model = quick(learner=Interrupted(), max_iter=30, average=False)
    with pytest.warns(ConvergenceWarning, match="update, 7, after 2 epochs"):
        model.fit(X)
    assert model.n_iter_ == 2
    for name, learned in model.energy_.theta.items():
        np.testing.assert_array_equal(learned, SEEN[-1][name])
    assert np.isfinite(model.score(X))


@pytest.fixture
def mnist(data_folder):
    """Return binary images for training and testing."""
    with np.load(data_folder("mnist") / "mnist.npz") as file:
        return [file[name].reshape(-1, 784) > 127 for name in ("x_train", "x_test")]


@pytest.mark.slow(seconds=240)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("learner", "least"), [("exact", -151.5), ("pcd", -175.0)])
def test_rbm_learns_digits(mnist, learner, least, seed):
    """Independent pixels give -206, the maximum is about -150, PCD ends at -152 to -166."""
    train, test = mnist
    model = RBM(10, learner, random_state=seed).fit(train)
    assert model.log_partition_method_ == "exact"
    assert model.score(train) > least
    assert model.score(test) > least


@pytest.mark.parametrize(("width", "lengths"), [(0.4, [1000]), (1.2, [1000, 4000])])
def test_a_wide_interval_is_estimated_again(monkeypatch, width, lengths):
    """Scores use the middle of a narrow interval, or the upper limit of the longest run."""
    runs = []

    def annealed(_, *, n_temperatures, **__):
        runs.append(n_temperatures)
        return SimpleNamespace(lower=0.0, upper=width / len(runs))

    monkeypatch.setattr(held_out, "ais", annealed)
    n = held_out.MAX_LAYER_SIZE + 1
    energy = PairwiseEnergy(np.zeros((n, n)), np.zeros(n))
    rows = SimpleNamespace(X=np.zeros((3, n), dtype=int))
    scores = held_out.annealed_log_likelihoods(energy, rows, rows.X, "cpu")
    assert runs == lengths
    np.testing.assert_allclose(scores, -0.2 if len(lengths) == 1 else -0.6)


@pytest.mark.parametrize("learner", ["pcd", "ptt"])
@pytest.mark.parametrize(("strength", "average"), [(-2.0, True), (-2.0, False), (1.0, True)])
def test_boltzmann_machine_keeps_the_short_fit_if_it_is_better(
    strength, average, learner, monkeypatch, seed
):
    """The rate is zero, so training ends at its initial model."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, 100)
    X = np.column_stack([first, first ^ (rng.random(100) < 0.1), rng.integers(0, 2, 100)])
    coupling = np.zeros((3, 3))
    coupling[0, 1] = coupling[1, 0] = 1.0
    short, start = (PairwiseEnergy(c * coupling, np.zeros(3)) for c in (0.9, strength))
    held_out = _weight_decay.split_rows(Batch(X), np.random.default_rng(0))[1]
    score = short.log_potential(held_out.X).mean() - log_partition_bounds(short).value

    def choose(*_):
        return _weight_decay.Choice(0.01, 0.0, short, score=score - 1e-9, start=start)

    monkeypatch.setattr(boltzmann_machine, "choose", choose)
    monkeypatch.setattr(_weight_decay, "PAIR_UPDATES", 100)
    model = BoltzmannMachine(learner, average=average, warm_start=True, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(2 * X - 1)
    start_score = start.log_potential(held_out.X).mean() - log_partition_bounds(start).value
    is_worse = start_score < score - 1e-6
    assert is_worse or strength > 0
    assert [str(w.message)[:16] for w in caught] == ["Training reached"] * int(is_worse)
    assert model.converged_ == (not is_worse)
    kept = short if is_worse else start
    np.testing.assert_allclose(model.energy_.coupling, kept.coupling, atol=1e-12)
    assert hasattr(model, "equilibrium_") != is_worse  # the chains are those of the last model
    assert hasattr(model, "ladder_") == (learner == "ptt" and not is_worse)
    model.fit(2 * X - 1)
    assert hasattr(model, "equilibrium_")
