"""Tests of learners of conditional models: likelihood and max-margin."""

import pickle

import numpy as np
import pytest
import twins
from montecarlo import check_draws, check_means
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from zoo import CONDITIONAL_LEARNERS

from skmrf import CRBMStructuredPredictor
from skmrf._utils.codes import STATE
from skmrf._utils.phases import States, UnitMoments
from skmrf._utils.rows import Batch
from skmrf.energies import ConditionalBipartiteEnergy
from skmrf.learners import CD, LR, LSSVM, MLEBP, MLEMF, MSSVM, CDPercLoss
from skmrf.variational.bipartite import UnitBeliefs, mean_field, propagate, unit_probabilities


def make_energy(seed, n_visible=4, n_hidden=3, n_inputs=2, *, scale=1.0, dtype=float):
    rng = np.random.default_rng(seed)
    shapes = (n_visible, n_hidden), (n_inputs, n_visible), (n_inputs, n_hidden)
    arrays = (rng.normal(0.0, scale, s) for s in (*shapes, (n_visible,), (n_hidden,)))
    return ConditionalBipartiteEnergy(*(a.astype(dtype) for a in arrays))


def make_rows(energy, n_rows, seed):
    rng = np.random.default_rng(seed + 1)
    n_inputs, n_visible = energy.theta["visible_inputs"].shape
    X = rng.normal(size=(n_rows, n_inputs))
    return Batch(X, rng.integers(0, 2, size=(n_rows, n_visible)).astype(STATE))


def log_f_tables(energy, X):
    """Return, for each row, log f of all states of visible (rows) and hidden (columns) units."""
    V = H = None
    tables = []
    for fields in zip(*energy.fields(X), strict=True):
        V, H, log_f = twins.layer_table(energy.weights, *fields)
        tables.append(log_f)
    return V, H, np.array(tables)


def sum_over_hidden(log_f):
    """Return the log of the sum over hidden states, for each row and visible state."""
    return np.logaddexp.reduce(log_f, axis=2)


def state_indices(V, Y):
    """Return the indices of the rows of Y among the states V."""
    return np.array([np.flatnonzero((y == V).all(axis=1))[0] for y in Y])


def take_states(values, indices):
    return values[np.arange(len(values)), indices]


def first_step(learner, energy, batch, seed=0):
    """Return both phases and the diagnostics of the first step."""
    rng = np.random.default_rng(seed)
    state = learner.init(energy, batch, rng)
    positive, negative, _, info = learner.step(energy, batch, state, rng)
    return positive, negative, info


def first_gradient(learner, energy, batch, seed=0):
    return energy.gradient(*first_step(learner, energy, batch, seed)[:2], batch)


def assert_same(left, right, **tolerances):
    assert left.keys() == right.keys()
    for name in left:
        assert_allclose(left[name], right[name], err_msg=name, **tolerances)


all_learners = pytest.mark.parametrize("name", CONDITIONAL_LEARNERS)


def log_likelihood(energy, batch):
    V, _, log_f = log_f_tables(energy, batch.X)
    scores = sum_over_hidden(log_f)
    return (
        take_states(scores, state_indices(V, batch.Y)) - np.logaddexp.reduce(scores, axis=1)
    ).mean()


# All learners ----------------------------------------------------------------------------


def make_energy_for(name, seed, **options):
    n_hidden = 3 if CONDITIONAL_LEARNERS[name]().has_hidden else 0
    return make_energy(seed, n_hidden=n_hidden, **options)


@all_learners
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_are_finite_reproducible_and_leave_their_inputs_unchanged(name, dtype, seed):
    """The gradients are finite, of the dtype of the weights, and the same for the same seed."""
    learner = CONDITIONAL_LEARNERS[name]()
    energy = make_energy_for(name, seed, dtype=dtype)
    batch = make_rows(energy, 70, seed)
    for array in (*energy.theta.values(), batch.X, batch.Y):
        array.flags.writeable = False
    actual = first_gradient(learner, energy, batch)
    for key, values in actual.items():
        assert values.shape == energy.theta[key].shape
        assert values.dtype == dtype
        assert np.isfinite(values).all()
    assert_same(actual, first_gradient(clone(learner), energy, batch), rtol=0, atol=0)
    _, _, info = first_step(learner, energy, batch)
    assert all(np.isfinite(v) for v in info.values())


@all_learners
def test_small_batches_and_sparse_inputs(name, seed):
    """The last batch of an epoch can have fewer rows than the others."""
    learner = CONDITIONAL_LEARNERS[name]()
    energy = make_energy_for(name, seed)
    batch = make_rows(energy, 150, seed)
    small = batch.take(np.arange(3))
    gradients = []
    for part in (small, small._replace(X=csr_matrix(small.X))):
        rng = np.random.default_rng(seed)
        state = learner.init(energy, batch, rng)
        positive, negative, state, _ = learner.step(energy, part, state, rng)
        assert len(positive.visible) == len(negative.visible) == 3
        gradients.append(energy.gradient(positive, negative, part))
        pickle.loads(pickle.dumps(state))
    assert_same(*gradients, rtol=1e-12, atol=1e-12)


@all_learners
def test_huge_weights_give_finite_gradients_and_beliefs(name, seed):
    learner = CONDITIONAL_LEARNERS[name]()
    energy = make_energy_for(name, seed, scale=100.0)
    energy = energy.with_theta({k: np.clip(a, -290, 290) for k, a in energy.theta.items()})
    batch = make_rows(energy, 20, seed)
    for values in first_gradient(learner, energy, batch).values():
        assert np.isfinite(values).all()
    actual = learner.infer(energy, batch.X, 0)
    assert np.isfinite(actual.visible).all()


@all_learners
def test_beliefs_have_a_row_per_input(name, seed):
    learner = CONDITIONAL_LEARNERS[name]()
    energy = make_energy_for(name, seed)
    for n_rows in (0, 1, 40):
        X = make_rows(energy, n_rows, seed).X
        actual = learner.infer(energy, X, 3)
        assert isinstance(actual, UnitBeliefs)
        assert actual.visible.shape == (n_rows, 4)
        assert actual.hidden.shape == (n_rows, energy.weights.shape[1])
        sparse = learner.infer(energy, csr_matrix(X), 3)
        assert_allclose(actual.visible, sparse.visible, rtol=1e-9, atol=1e-9)


def test_flags_of_probabilistic_learners_and_hidden_units():
    actual = {k: (c().probabilistic, c().has_hidden) for k, c in CONDITIONAL_LEARNERS.items()}
    assert {k for k, (probabilistic, _) in actual.items() if not probabilistic} == {
        "mssvm",
        "lssvm",
    }
    assert {k for k, (_, has_hidden) in actual.items() if not has_hidden} == {"lr"}


# Likelihood ------------------------------------------------------------------------------


def test_mle_bp_is_exact_on_trees(seed):
    energy = make_energy(seed, 5, 1)
    batch = make_rows(energy, 6, seed)
    expected = twins.differences(lambda e: log_likelihood(e, batch), energy)
    actual = first_gradient(MLEBP(n_iter=3, tol=0.0), energy, batch)
    assert_same(actual, expected, rtol=1e-6, atol=1e-8)


def test_mle_bp_is_close_where_weights_are_small(seed):
    energy = make_energy(seed, scale=0.3)
    batch = make_rows(energy, 6, seed)
    expected = twins.differences(lambda e: log_likelihood(e, batch), energy)
    assert_same(first_gradient(MLEBP(), energy, batch), expected, rtol=0, atol=3e-3)


@pytest.mark.parametrize(("learner", "infer"), [(MLEBP, propagate), (MLEMF, mean_field)])
def test_iterations_grow_with_the_epoch(learner, infer, seed):
    energy = make_energy(seed, scale=3.0)
    batch = make_rows(energy, 8, seed)
    for growth, epoch, limit in ((1, 0, 2), (1, 5, 7), (3, 2, 8), (0, 9, 2)):
        instance = learner(n_iter=2, growth=growth, tol=0.0)
        _, negative, info = first_step(instance, energy, batch._replace(epoch=epoch))
        fields = energy.fields(batch.X)
        expected = infer(energy.weights, *fields, max_iter=limit, tol=0.0, pairs=True)
        assert info["inference_iterations"] == expected.n_iter.mean() > limit - 1
        assert info["inference_converged"] == expected.converged.mean()
        assert_array_equal(negative.visible, unit_probabilities(expected.visible))
        assert_array_equal(negative.hidden, unit_probabilities(expected.hidden))
        assert_array_equal(negative.pairs, expected.pairs)
        assert_array_equal(instance.infer(energy, batch.X, epoch).visible, expected.visible)


def likelihood_bound(energy, batch, learner):
    """Return the mean of -F(y) minus the lower bound of log Z by independent units."""
    V, _, log_f = log_f_tables(energy, batch.X)
    total = take_states(sum_over_hidden(log_f), state_indices(V, batch.Y))
    fields = energy.fields(batch.X)
    beliefs = learner.infer(energy, batch.X, 0)
    p, q = (unit_probabilities(a) for a in (beliefs.visible, beliefs.hidden))
    for r, field in zip((p, q), fields, strict=True):
        total = total - (r * field - r * np.log(r) - (1 - r) * np.log1p(-r)).sum(axis=1)
    return (total - np.einsum("ni,ij,nj->n", p, energy.weights, q)).mean()


def test_mle_mf_gradient_is_that_of_its_bound(seed):
    learner = MLEMF(n_iter=2000, tol=1e-12)
    energy = make_energy(seed, scale=0.6)
    batch = make_rows(energy, 6, seed)
    expected = twins.differences(lambda e: likelihood_bound(e, batch, learner), energy)
    assert_same(first_gradient(learner, energy, batch), expected, rtol=1e-6, atol=1e-7)
    assert likelihood_bound(energy, batch, learner) > log_likelihood(energy, batch)


# Logistic regression ---------------------------------------------------------------------


def test_lr_objective_is_the_log_likelihood(seed):
    energy = make_energy(seed, 3, 0)
    batch = make_rows(energy, 30, seed)
    value, actual = LR().objective(energy, batch, None)
    p = unit_probabilities(energy.fields(batch.X)[0])
    expected = -sum(log_loss(batch.Y[:, i], p[:, i], labels=[0, 1]) for i in range(3))
    assert_allclose(value, expected, rtol=1e-10)
    assert_allclose(value, log_likelihood(energy, batch), rtol=1e-10)
    expected = twins.differences(lambda e: LR().objective(e, batch, None)[0], energy)
    assert_same(actual, expected, rtol=1e-6, atol=1e-8)
    assert_same(actual, first_gradient(LR(), energy, batch), rtol=0, atol=1e-13)
    assert_array_equal(LR().infer(energy, batch.X, 5).visible, energy.fields(batch.X)[0])


def test_lr_weights_equal_repeated_rows(seed):
    energy = make_energy(seed, 3, 0)
    batch = make_rows(energy, 10, seed)
    counts = np.random.default_rng(seed).integers(1, 5, size=10)
    value, actual = LR().objective(energy, batch._replace(log_weights=np.log(counts)), None)
    repeated = batch.take(np.repeat(np.arange(10), counts))
    expected = LR().objective(energy, repeated, None)
    assert_allclose(value, expected[0], rtol=1e-12)
    assert_same(actual, expected[1], rtol=0, atol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [0.01, 0.3])
def test_lr_equals_logistic_regression(alpha, weighted, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, size=(150, 4)).astype(float)
    Y = (X @ rng.normal(size=(4, 3)) + rng.normal(size=(150, 3)) > 0.5).astype(int)
    weights = rng.uniform(0.1, 5.0, size=150) if weighted else np.ones(150)
    model = CRBMStructuredPredictor(learner="lr", alpha=alpha, max_iter=1000, tol=1e-7)
    model.fit(X, Y, sample_weight=weights if weighted else None)
    assert model.converged_
    assert model.energy_.weights.shape == (3, 0)
    for i in range(3):
        other = LogisticRegression(C=1 / (alpha * weights.sum()), tol=1e-10, max_iter=1000)
        other.fit(X, Y[:, i], sample_weight=weights)
        actual = model.energy_.theta
        assert_allclose(actual["visible_inputs"][:, i], other.coef_[0], rtol=0, atol=1e-4)
        assert_allclose(actual["visible_bias"][i], other.intercept_[0], rtol=0, atol=1e-4)
        assert_allclose(
            model.predict_proba(X)[:, i], other.predict_proba(X)[:, 1], rtol=0, atol=1e-4
        )


# Chains ----------------------------------------------------------------------------------


def repeat_one_row(energy, n_rows, seed):
    """Return copies of one row, all visible states, their joint law, and the sweep's matrix.

    The joint law of visible and hidden states is that given the input of the row. The last value is
    the transition matrix of one Gibbs sweep over the visible states.
    """
    batch = make_rows(energy, 1, seed).take(np.zeros(n_rows, dtype=int))
    V, _, log_f = log_f_tables(energy, batch.X[:1])
    joint = np.exp(log_f[0] - twins.log_sum(log_f.ravel()))
    to_hidden = joint / joint.sum(axis=1, keepdims=True)
    to_visible = (joint / joint.sum(axis=0)).T
    return batch, V, joint, to_hidden @ to_visible


def make_bimodal_energy(seed):
    """Return a model with one mode of ones and one of zeros, between which chains mix slowly."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(3.0, 0.3, size=(3, 2))
    visible, hidden = (rng.normal(-0.5 * weights.sum(axis=a), 0.2) for a in (1, 0))
    inputs = rng.normal(0.0, 0.2, size=(2, 3)), rng.normal(0.0, 0.2, size=(2, 2))
    return ConditionalBipartiteEnergy(weights, *inputs, visible, hidden)


@pytest.mark.parametrize("n_sweeps", [1, 2, 40])
@pytest.mark.parametrize("start", ["data", "random"])
def test_cd_chains_have_the_distribution_after_n_sweeps(start, n_sweeps, seed):
    """The distribution is the initial one times a power of the transition matrix of a sweep."""
    energy = make_bimodal_energy(seed)
    batch, V, _, sweep = repeat_one_row(energy, 4000, seed)
    starts = {"data": 1.0 * (batch.Y[0] == V).all(axis=1), "random": np.full(8, 1 / 8)}
    laws = {k: p @ np.linalg.matrix_power(sweep, n_sweeps) for k, p in starts.items()}
    _, negative, info = first_step(CD(n_sweeps, start), energy, batch, seed)
    assert info == {}
    check_draws(negative.visible, V.astype(int), laws.pop(start))
    ((_, other),) = laws.items()
    if n_sweeps < 3:
        with pytest.raises(AssertionError):
            check_draws(negative.visible, V.astype(int), other)


@pytest.mark.parametrize("start", ["data", "random"])
def test_long_chains_give_the_exact_gradient(start, seed):
    energy = make_energy(seed, 3, 2, scale=0.8)
    batch, V, joint, _ = repeat_one_row(energy, 4000, seed)
    H = twins.binary_states(2)
    positive, negative, _ = first_step(CD(60, start), energy, batch, seed)
    hidden = energy.at(batch).hidden_means(negative.visible)
    pairs = negative.visible[:, :, None] * hidden[:, None]
    drawn = np.concatenate([negative.visible, hidden, pairs.reshape(len(hidden), -1)], axis=1)

    def expected(joint):
        visible, hidden = joint.sum(axis=1) @ V, joint.sum(axis=0) @ H
        return np.concatenate([visible, hidden, (V.T @ joint @ H).ravel()])

    check_means(drawn, expected(joint))
    wrong = make_energy(seed + 50, 3, 2, scale=0.8)
    with pytest.raises(AssertionError):
        check_means(drawn, expected(repeat_one_row(wrong, 1, seed)[2]))
    moments = UnitMoments(
        *(np.tile(a, (4000, 1)) for a in (joint.sum(axis=1) @ V, joint.sum(axis=0) @ H)),
        V.T @ joint @ H,
    )
    exact = energy.gradient(positive, moments, batch)
    assert_same(energy.gradient(positive, negative, batch), exact, rtol=0, atol=0.1)


def test_generators_persist_between_steps(seed):
    energy = make_energy(seed)
    batch = make_rows(energy, 130, seed)  # three blocks
    for learner in (CD(), CDPercLoss(2)):
        rng = np.random.default_rng(seed)
        state = learner.init(energy, batch, rng)
        assert len(state.generators) == 3
        steps = [learner.step(energy, batch, state, rng)[1].visible for _ in range(2)]
        assert (steps[0] != steps[1]).any()
        for rows in (slice(0, 64), slice(64, 128)):
            assert (steps[0][rows] != steps[1][rows]).any()
    learner, rng = CD(), np.random.default_rng(seed)
    state = learner.init(energy, batch, rng)
    again = learner.resume(energy, batch.take(np.arange(40)), state, rng)
    assert again.generators is state.generators
    more = make_rows(energy, 200, seed)
    assert len(learner.resume(energy, more, state, rng).generators) == 4


def test_perceptron_chains_start_from_the_inputs_alone(seed):
    for energy in (make_energy(seed, 3, 2), make_bimodal_energy(seed)):
        batch, V, joint, sweep = repeat_one_row(energy, 4000, seed)
        worst = V[[joint.sum(axis=1).argmin()]]  # true outputs that no chain is worse than
        batch = batch._replace(Y=np.repeat(worst, 4000, axis=0).astype(STATE))
        p = unit_probabilities(energy.fields(batch.X[:1])[0])[0]
        start = np.prod(np.where(V > 0, p, 1 - p), axis=1)
        _, negative, _ = first_step(CDPercLoss(1), energy, batch, seed)
        check_draws(negative.visible, V.astype(int), start @ sweep)
    with pytest.raises(AssertionError):
        check_draws(negative.visible, V.astype(int), np.full(8, 1 / 8) @ sweep)


def find_lowest_states(energy, batch, n_sweeps, seed):
    positive, negative, info = first_step(CDPercLoss(n_sweeps), energy, batch, seed)
    assert_array_equal(positive.visible, batch.Y)
    assert negative.visible.dtype == STATE
    return energy.at(batch).free_energy(negative.visible), info["perceptron_loss"]


def test_perceptron_loss_decreases_with_sweeps(seed):
    """The free energy decreases from that of the true outputs to the minimum with more sweeps."""
    energy = make_energy(seed, 3, 2, scale=0.7)
    batch = make_rows(energy, 100, seed)
    _, _, log_f = log_f_tables(energy, batch.X)
    least = -sum_over_hidden(log_f).max(axis=1)
    truth = energy.at(batch).free_energy(batch.Y)
    before = truth
    for n_sweeps in (1, 2, 5, 20, 200):
        actual, loss = find_lowest_states(energy, batch, n_sweeps, seed)
        assert (actual <= before).all()
        assert (actual >= least - 1e-12).all()
        assert_allclose(loss, (truth - actual).mean(), rtol=1e-12)
        before = actual
    assert_allclose(before, least, rtol=0, atol=1e-12)


# Parameters ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (MLEBP(n_iter=0), "n_iter"),
        (MLEBP(n_iter=2.5), "n_iter"),
        (MLEBP(growth=-1), "growth"),
        (MLEBP(tol=-1e-3), "tol"),
        (MLEMF(n_iter=0), "n_iter"),
        (MLEMF(tol=np.nan), "tol"),
        (CD(n_sweeps=0), "n_sweeps"),
        (CD(start="here"), "start"),
        (CDPercLoss(n_sweeps=0), "n_sweeps"),
        (CDPercLoss(n_sweeps=1.5), "n_sweeps"),
        (MSSVM("twice"), "schedule"),
        (MSSVM(max_iter=0), "max_iter"),
        (MSSVM(loss_weight=-1.0), "a number of at least 0, .*; got -1.0"),
        (MSSVM(loss_weight=np.nan), "loss_weight must be a number"),
        (MSSVM(loss_weight=np.ones((1, 4))), "loss_weight must be a number"),
        (MSSVM(loss_weight=np.ones(3)), "loss_weight has 3 entries, but there are 4 outputs"),
        (LSSVM(loss_weight=[1.0, -1.0, 0.0, 0.0]), "a list of such numbers, one per output"),
        (LSSVM(loss_weight=np.ones(5)), "loss_weight has 5 entries, but there are 4 outputs"),
        (LSSVM(max_iter=0.5), "max_iter"),
    ],
    ids=repr,
)
def test_bad_parameters(learner, message):
    energy = make_energy(0)
    batch = make_rows(energy, 5, 0)
    with pytest.raises(ValueError, match=message):
        learner.init(energy, batch, np.random.default_rng(0))


def test_phases_of_chains_and_maximisers_have_a_row_per_batch_row(seed):
    energy = make_energy(seed)
    batch = make_rows(energy, 12, seed)
    for learner in (CD(), CDPercLoss(), MSSVM(), LSSVM()):
        positive, negative, _ = first_step(learner, energy, batch)
        for phase in (positive, negative):
            assert isinstance(phase, States)
            assert phase.visible.shape == (12, 4)
            assert np.isin(phase.visible, [0, 1]).all()


# Max-margin learners ---------------------------------------------------------------------


LOSS_WEIGHT = (0.5, 1.0, 0.0, 2.0)
MARGIN = 1e-3  # minimum margin of the best state, so that the maximum is differentiable


def hamming_losses(V, Y, weight):
    """Return the weighted Hamming losses of all states, with a row for each row of Y."""
    return ((V[None] != Y[:, None]) * np.broadcast_to(weight, V.shape[1])).sum(axis=2)


def margins(scores):
    """Return the difference between the best and the second-best score of each row."""
    ordered = np.sort(scores, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def count_local_maxima(V, scores):
    """Return, for each row, the number of states that no change of one output improves."""
    codes = V @ (2.0 ** np.arange(V.shape[1]))
    order = np.argsort(codes)
    best = np.ones(scores.shape, dtype=bool)
    for i in range(V.shape[1]):
        other = V.copy()
        other[:, i] = 1 - other[:, i]
        neighbours = order[(other @ (2.0 ** np.arange(V.shape[1]))).astype(int)]
        best &= scores > scores[:, neighbours]
    return best.sum(axis=1)


def structured_hinge(energy, batch, weight):
    """Return all states, their loss-augmented scores, and the structured hinge of each row."""
    V, _, log_f = log_f_tables(energy, batch.X)
    scores = sum_over_hidden(log_f)
    augmented = scores + hamming_losses(V, batch.Y, weight)
    return V, augmented, augmented.max(axis=1) - take_states(scores, state_indices(V, batch.Y))


@pytest.mark.parametrize("weight", [1.0, 0.0, LOSS_WEIGHT])
@pytest.mark.parametrize("n_hidden", [1, 3])
def test_mssvm_gradient_is_that_of_the_hinge(n_hidden, weight, seed):
    """The rows are those whose loss-augmented maximiser is the only local maximum."""
    energy = make_energy(seed, 4, n_hidden, scale=0.7)
    batch = make_rows(energy, 60, seed)
    V, augmented, _ = structured_hinge(energy, batch, weight)
    batch = batch.take((count_local_maxima(V, augmented) == 1) & (margins(augmented) > MARGIN))
    assert len(batch.X) > 20
    V, augmented, values = structured_hinge(energy, batch, weight)
    positive, negative, info = first_step(MSSVM(loss_weight=weight), energy, batch)
    assert_array_equal(negative.visible, V[augmented.argmax(axis=1)])
    assert_allclose(info["hinge"], values.mean(), rtol=1e-10, atol=1e-12)
    assert info["inference_converged"] == 1.0
    actual = energy.gradient(positive, negative, batch)
    expected = twins.differences(
        lambda e: -structured_hinge(e, batch, weight)[2].mean(), energy, h=1e-5
    )
    assert_same(actual, expected, rtol=1e-6, atol=1e-8)


def test_mssvm_hinge_is_a_lower_bound(seed):
    """It is smaller than the exact hinge if coordinate ascent ends at a local maximum."""
    energy = make_energy(seed, scale=3.0)
    batch = make_rows(energy, 100, seed)
    _, _, values = structured_hinge(energy, batch, 1.0)
    for schedule in ("sequential", "parallel"):
        _, _, info = first_step(MSSVM(schedule), energy, batch)
        assert 0.5 * values.mean() < info["hinge"] <= values.mean() + 1e-10


@pytest.mark.parametrize("schedule", ["sequential", "parallel"])
def test_mssvm_does_not_change_the_most_probable_outputs(schedule, seed):
    energy = make_bimodal_energy(seed)
    batch = make_rows(energy, 300, seed)
    V, scores, _ = structured_hinge(energy, batch, 0.0)
    batch = batch._replace(Y=V[scores.argmax(axis=1)].astype(STATE))
    _, negative, info = first_step(MSSVM(schedule, loss_weight=0.0), energy, batch)
    assert_array_equal(negative.visible, batch.Y)
    assert info["hinge"] == 0.0


@pytest.mark.parametrize("schedule", ["sequential", "parallel"])
def test_mssvm_predicts_local_maxima(schedule, seed):
    energy = make_energy(seed, scale=2.0)
    X = make_rows(energy, 40, seed).X
    actual = MSSVM(schedule).infer(energy, X, 0)
    V, _, log_f = log_f_tables(energy, X)
    scores = sum_over_hidden(log_f)
    states = (actual.visible > 0).astype(float)
    at = take_states(scores, state_indices(V, states))
    assert actual.converged.mean() > 0.5
    for i in range(4):
        other = states.copy()
        other[:, i] = 1 - other[:, i]
        gain = take_states(scores, state_indices(V, other)) - at
        assert (gain[actual.converged] <= 1e-10).all()
        expected = np.where(states[:, i] > 0, -gain, gain)[actual.converged]
        assert_allclose(actual.visible[actual.converged, i], expected, rtol=0, atol=1e-10)


def latent_hinge(energy, batch, weight):
    """Return the hinge with a maximum over hidden units, and the scores of all joint states."""
    V, _, log_f = log_f_tables(energy, batch.X)
    augmented = log_f + hamming_losses(V, batch.Y, weight)[:, :, None]
    observed = take_states(log_f, state_indices(V, batch.Y))
    augmented = augmented.reshape(len(observed), -1)
    return V, augmented, observed, augmented.max(axis=1) - observed.max(axis=1)


@pytest.mark.parametrize("weight", [1.0, 0.0, LOSS_WEIGHT])
def test_lssvm_gradient_is_that_of_the_latent_hinge(weight, seed):
    """The model has one hidden unit, for which max-product is exact."""
    energy = make_energy(seed, 4, 1)
    batch = make_rows(energy, 60, seed)
    _, augmented, observed, _ = latent_hinge(energy, batch, weight)
    batch = batch.take((margins(augmented) > MARGIN) & (margins(observed) > MARGIN))
    assert len(batch.X) > 30
    V, augmented, observed, _ = latent_hinge(energy, batch, weight)
    positive, negative, _ = first_step(LSSVM(loss_weight=weight), energy, batch)
    best = augmented.argmax(axis=1)
    assert_array_equal(negative.visible, V[best // 2])
    assert_array_equal(negative.hidden[:, 0], best % 2)
    assert_array_equal(positive.hidden[:, 0], observed.argmax(axis=1))
    actual = energy.gradient(positive, negative, batch)
    expected = twins.differences(
        lambda e: -latent_hinge(e, batch, weight)[3].mean(), energy, h=1e-5
    )
    assert_same(actual, expected, rtol=1e-6, atol=1e-8)


def test_lssvm_predicts_the_joint_maximiser(seed):
    energy = make_energy(seed, 4, 1, scale=2.0)
    X = make_rows(energy, 50, seed).X
    actual = LSSVM().infer(energy, X, 0)
    V, _, log_f = log_f_tables(energy, X)
    best = log_f.reshape(50, -1).argmax(axis=1)
    assert_array_equal(actual.visible > 0, V[best // 2] > 0)
    assert_array_equal(actual.hidden[:, 0] > 0, best % 2 > 0)


@pytest.mark.parametrize("learner", [MSSVM, LSSVM])
def test_outputs_of_zero_loss_weight_have_zero_gradient(learner):
    """Both outputs are right with a margin of 0.1; only the one with a loss has a gradient."""
    energy = ConditionalBipartiteEnergy(
        np.zeros((2, 1)), np.zeros((1, 2)), np.zeros((1, 1)), [0.1, 0.1], [0.0]
    )
    batch = Batch(np.ones((5, 1)), np.ones((5, 2), dtype=STATE))
    actual = first_gradient(learner(loss_weight=[0.0, 1.0]), energy, batch)
    assert_array_equal(actual["visible_bias"], [0.0, 1.0])
    assert_array_equal(actual["visible_inputs"], [[0.0, 1.0]])
    actual = first_gradient(learner(loss_weight=0.05), energy, batch)
    assert_array_equal(actual["visible_bias"], [0.0, 0.0])
