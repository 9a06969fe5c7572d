"""Tests of the training loop and of its parts."""

import pickle
import tracemalloc
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from zoo import ZOO, model_rows

from skmrf import CRBMStructuredPredictor, DiscreteMRF
from skmrf._utils.log_weights import effective_sample_size, logsumexp
from skmrf._utils.phases import CliqueMoments
from skmrf._utils.results import History
from skmrf._utils.rows import Batch, sort_rows, take_minibatch, weighted_rows
from skmrf.energies import FactorGraph
from skmrf.estimators._training import TrainingParameters, hold_out
from skmrf.learners import PCD, Exact, Learner
from skmrf.training import AdaptiveRate, fit_energy, loop, optimizers
from skmrf.training.optimizers import OPTIMIZERS
from skmrf.training.penalties import L1, L2, ElasticNet, GroupL1, NoPenalty, make_penalty
from skmrf.training.reports import SilentReports
from skmrf.training.schedules import ConstantRate, InverseRate, StepRate, make_rate
from skmrf.training.settings import Settings

GROUPS = {"a": np.array([-1, 0, 0, 1, 1, 1]), "b": np.array([-1, -1])}


def make_theta(seed):
    rng = np.random.default_rng(seed)
    return {"a": rng.normal(size=6), "b": rng.normal(size=2)}


@pytest.mark.parametrize("kind", OPTIMIZERS.values())
def test_optimizers_maximise_a_quadratic(kind):
    optimizer, theta = kind(), {"a": np.full(3, 5.0), "b": np.zeros(2)}
    state = optimizer.init(theta)
    for _ in range(3000):
        gradient = {"a": 1.0 - theta["a"], "b": -2.0 - theta["b"]}
        theta, sizes, state = optimizer.step(theta, gradient, 0.01, state)
    np.testing.assert_allclose(theta["a"], 1.0, atol=1e-3)
    np.testing.assert_allclose(theta["b"], -2.0, atol=1e-3)
    assert all(np.all(np.asarray(s) > 0) for s in sizes.values())


@pytest.mark.parametrize("kind", OPTIMIZERS.values())
def test_optimizers_maximise_a_quadratic_minus_an_l1_penalty(kind):
    optimizer, penalty = kind(), L1(0.5, {"a": np.zeros(3, dtype=int)})
    theta = {"a": np.array([0.0, 5.0, 5.0])}
    state = optimizer.init(theta)
    for _ in range(3000):
        gradient = {"a": np.array([3.0, -1.0, 0.2]) - theta["a"]}
        theta, sizes, state = optimizer.step(theta, gradient, 0.01, state)
        theta = penalty.prox(theta, sizes)
    np.testing.assert_allclose(theta["a"], [2.5, -0.5, 0.0], atol=1e-3)


def test_first_adam_step_has_the_size_of_the_rate():
    adam, theta = OPTIMIZERS["adam"](), {"a": np.zeros(2)}
    moved, _, _ = adam.step(theta, {"a": np.array([1e-3, -50.0])}, 0.1, adam.init(theta))
    np.testing.assert_allclose(moved["a"], [0.1, -0.1], rtol=1e-4)


def test_values_of_schedules():
    for rate, expected in [
        (ConstantRate(0.3), [0.3, 0.3, 0.3]),
        (StepRate(1.0, 0.5, every=2), [1.0, 1.0, 0.5]),
        (InverseRate(2.0, 1.0), [1 / 2, 1 / 3, 1 / 4]),
    ]:
        state, values = rate.init(), []
        for _ in range(3):
            values.append(rate.value(state))
            state, new_stage, done = rate.observe({}, state, 0.0)
            assert not new_stage
            assert not done
        np.testing.assert_allclose(values, expected)


def run_schedule(rate, gradients):
    state, stages = rate.init(), 0
    for g in gradients:
        state, new_stage, done = rate.observe({"a": g}, state, 0.0)
        stages += new_stage
    return rate.value(state), stages, done


def test_adaptive_rate_is_halved_only_for_noise(seed):
    rng = np.random.default_rng(seed)
    rate = AdaptiveRate(rate=1.0, window=50)
    drift = run_schedule(rate, rng.normal(1.0, 1.0, size=(500, 40)))
    assert drift == (1.0, 0, False)
    noise = run_schedule(rate, rng.normal(0.0, 1.0, size=(5000, 40)))
    assert noise[0] < 0.05
    assert noise[2] or noise[1] >= 5


def test_adaptive_rate_is_halved_below_the_resolution():
    rate = AdaptiveRate(rate=1.0, window=10)
    state = rate.init()
    for _ in range(10):
        state, new_stage, _ = rate.observe({"a": np.full(4, 1e-3)}, state, 1e-4)
    assert new_stage


def test_make_rate():
    assert make_rate(0.5).value(make_rate(0.5).init()) == 0.5
    assert isinstance(make_rate("adaptive"), AdaptiveRate)
    with pytest.raises(ValueError, match=r"learning_rate must be one of .*; got 'fast'"):
        make_rate("fast")
    with pytest.raises(ValueError, match="learning_rate must be a number > 0; got -1"):
        make_rate(-1)


@pytest.mark.parametrize("second", [-1, 2])
def test_gradient_of_the_l2_penalty(second, seed):
    penalty = L2(0.7, GROUPS | {"b": np.array([second, second])})
    theta, steps = make_theta(seed), make_theta(seed + 1)
    near = {k: v + 1e-6 * steps[k] for k, v in theta.items()}
    slope = sum(g @ steps[k] for k, g in penalty.gradient(theta).items())
    assert (penalty.value(near) - penalty.value(theta)) / 1e-6 == pytest.approx(slope, abs=1e-4)
    expected = {k: steps[k] - g for k, g in penalty.gradient(theta).items()}
    found, squares = penalty.subtract_gradient(steps, theta)
    for k in theta:
        np.testing.assert_allclose(found[k], expected[k], rtol=0, atol=1e-14)
        assert squares.get(k, found[k] @ found[k]) == pytest.approx(found[k] @ found[k])


@pytest.mark.parametrize("strength", [0.02, 0.2, 0.7])
@pytest.mark.parametrize("kind", [L1, ElasticNet, GroupL1])
def test_proximal_maps_are_optimal_for_any_step_sizes(kind, strength, seed):
    """No nearby point has a smaller sum of the penalty and the distance; group -1 is not moved."""
    rng, penalty, theta = np.random.default_rng(seed), kind(strength, GROUPS), make_theta(seed)
    sizes = {k: rng.choice([0.1, 1.0, 10.0], v.shape) for k, v in theta.items()}
    best = penalty.prox(theta, sizes)

    def cost(x):
        distances = (((x[k] - v) ** 2 / sizes[k]).sum() for k, v in theta.items())
        return penalty.value(x) + 0.5 * sum(distances)

    for scale in np.repeat([1e-4, 1e-2, 1.0], 50):
        near = {k: v + scale * rng.normal(size=v.shape) for k, v in best.items()}
        assert cost(best) <= cost(near) + 1e-14
    np.testing.assert_array_equal(best["b"], theta["b"])


def test_group_l1_sets_whole_tables_to_zero():
    theta = {"a": np.array([1.0, 0.1, 0.1, 5.0, 5.0, 5.0]), "b": np.zeros(2)}
    new = GroupL1(1.0, GROUPS).prox(theta, {"a": 1.0, "b": 1.0})
    np.testing.assert_array_equal(new["a"][1:3], 0.0)
    assert (new["a"][3:] > 0).all()
    theta["a"][4], sizes = -np.inf, {"a": np.array([1.0, 1.0, 1.0, 0.1, 1e6, 0.0]), "b": 1.0}
    new = GroupL1(1.0, GROUPS).prox(theta, sizes)["a"]  # -inf and entries of step 0 are constant
    np.testing.assert_array_equal(np.delete(new, 3), [1.0, 0.0, 0.0, -np.inf, 5.0])
    assert 4.8 < new[3] < 5


def test_make_penalty():
    assert isinstance(make_penalty("l2", 0.0, GROUPS), NoPenalty)
    with pytest.raises(ValueError, match=r"penalty must be one of .*; got 'lasso'"):
        make_penalty("lasso", 1.0, GROUPS)
    with pytest.raises(ValueError, match="alpha must be a number >= 0; got -1"):
        make_penalty("l2", -1, GROUPS)


def make_problem(seed, n_rows=400):
    rng, truth = np.random.default_rng(seed), ZOO["cycle"](seed)
    data = Batch(model_rows(truth, n_rows, rng))
    return data, truth.with_theta({"log_potentials": np.zeros_like(truth.flat)})


def fit_exactly(data, energy, penalty_name="l2", alpha=0.0, **changes):
    learner, penalty = Exact(), make_penalty(penalty_name, alpha, energy.penalty_groups())
    settings = Settings(**{"optimizer": None, "penalty": penalty, "tol": 1e-8, **changes})
    state = loop.start(energy, learner, data, settings, np.random.default_rng(0))
    return loop.run(learner, data, settings, state), learner, penalty


def test_gradient_equals_that_of_the_penalty_at_the_maximum(seed):
    data, energy = make_problem(seed)
    state, learner, _ = fit_exactly(data, energy, alpha=0.01)
    result = state.result()
    _, gradient = learner.objective(result, data, state.learner)
    assert state.converged
    expected = 0.01 * result.flat * (energy.penalty_groups()["log_potentials"] >= 0)
    np.testing.assert_allclose(gradient["log_potentials"], expected, atol=1e-6)


@pytest.mark.parametrize("optimizer", [None, optimizers.Adam()])
@pytest.mark.parametrize("name", ["l1", "group-l1"])
def test_training_with_non_smooth_penalty_is_optimal(name, optimizer, seed):
    """No nearby point is better, and a strong penalty sets all tables to zero."""
    data, energy = make_problem(seed)
    state, learner, penalty = fit_exactly(data, energy, name, 0.05, optimizer=optimizer)
    best = state.result()

    def value(flat):
        moved = energy.with_theta({"log_potentials": flat})
        return learner.objective(moved, data, state.learner)[0] - penalty.value(moved.theta)

    rng = np.random.default_rng(seed)
    for scale in np.repeat([1e-3, 1e-2, 0.1], 20):
        step = scale * rng.normal(size=best.flat.shape)
        assert value(best.flat) >= value(best.flat + step) - (1e-6 if optimizer else 1e-9)
    assert state.converged
    empty, _, _ = fit_exactly(data, energy, name, 10.0)
    np.testing.assert_array_equal(empty.result().flat, 0.0)


def start_pcd(data, energy, **changes):
    learner, settings = PCD(n_chains=100), Settings(batch_size=100, **changes)
    state = loop.start(energy, learner, data, settings, np.random.default_rng(1))
    return learner, settings, state


@pytest.mark.long
def test_pcd_is_close_to_exact_learning(seed):
    data, energy = make_problem(seed)
    exact, learner, _ = fit_exactly(data, energy)
    pcd, settings, state = start_pcd(data, energy)
    state = loop.run(pcd, data, settings, state)
    best = learner.objective(exact.result(), data, exact.learner)[0]
    actual = learner.objective(state.result(), data, exact.learner)[0]
    assert state.converged
    assert best - 0.01 < actual <= best + 1e-9


def test_loop_resumes_bit_for_bit():
    data, energy = make_problem(0)
    learner, settings, state = start_pcd(data, energy, max_iter=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole = loop.run(learner, data, settings, state)
        _, settings, state = start_pcd(data, energy, max_iter=3)
        half = loop.run(learner, data, settings, state)
        half = pickle.loads(pickle.dumps(half))
        half = loop.run(learner, data, settings, loop.resume(half, learner, data, settings))
    np.testing.assert_array_equal(whole.result().flat, half.result().flat)
    assert whole.history == half.history


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values())
@pytest.mark.parametrize("is_centred", [False, True])
def test_strong_penalty_keeps_parameters_near_its_centre(optimizer, is_centred, seed):
    """Gradients of the log-likelihood are between -1 and 1, so they move a parameter by 1/alpha."""
    data, energy = make_problem(seed)
    groups = {k: np.zeros_like(g) for k, g in energy.penalty_groups().items()}
    centre = {k: np.full_like(v, 2.0) for k, v in energy.theta.items()} if is_centred else None
    options = {"penalty": L2(50.0, groups, centre=centre), "rate": ConstantRate(0.2)}
    options |= {"optimizer": optimizer(), "max_iter": 100, "complete": False, "average": False}
    learner, settings, state = start_pcd(data, energy, **options)
    last = loop.run(learner, data, settings, state).energy.flat
    is_adaptive = optimizer is OPTIMIZERS["adam"]  # its steps have the size of the rate
    np.testing.assert_allclose(last, 2.0 * is_centred, atol=0.5 if is_adaptive else 0.03)


ZERO = FactorGraph([2, 2], [(0, 1)], [[[0.0, 0.0], [0.0, -np.inf]]])
ZERO_ROWS = np.repeat([[0, 0], [0, 1], [1, 0]], [12, 6, 2], axis=0)


@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet", "group-l1"])
@pytest.mark.parametrize("optimizer", ["lbfgs", "sgd", "momentum"])
def test_zero_potentials_remain(penalty, optimizer, seed):
    """The other log-potentials maximise the mean log-likelihood minus the penalty."""
    options = {"optimizer": optimizer, "alpha": 0.05, "random_state": seed, "max_iter": 800}
    flat = fit_energy(ZERO, "exact", ZERO_ROWS, penalty=penalty, **options).flat
    terms = make_penalty(penalty, 0.05, ZERO.penalty_groups())

    def value(flat):
        fit = [0.6, 0.3, 0.1] @ flat[:3] - logsumexp(flat[:3])
        return fit - terms.value({"log_potentials": flat})

    assert flat[3] == -np.inf
    assert value(flat) > value(ZERO.flat) + 0.01
    rng = np.random.default_rng(seed)
    for scale in np.repeat([0.01, 0.1, 1.0], 30):
        assert value(flat) >= value(flat + scale * rng.normal(size=4)) - 3e-4


@pytest.mark.parametrize("learner", ["auto", "exact", "pcd", "pseudo-likelihood"])
@pytest.mark.parametrize("alpha", [0.0, 0.01, "auto"])
def test_training_of_a_given_model_keeps_zero_potentials(learner, alpha, seed):
    model = DiscreteMRF.from_energy(ZERO).set_params(warm_start=True, alpha=alpha, max_iter=20)
    model.set_params(learner=learner, random_state=seed).fit(ZERO_ROWS).partial_fit(ZERO_ROWS)
    (table,) = model.log_potentials_
    assert table[1, 1] == -np.inf
    assert np.isfinite(table).sum() == 3
    assert table[0, 0] > table[0, 1] > table[1, 0]


def test_device_refuses_zero_potentials():
    pytest.importorskip("jax")
    model = DiscreteMRF.from_energy(ZERO).set_params(warm_start=True, learner="pcd", device="jax")
    with pytest.raises(ValueError, match=r"models without zero potentials \(-inf\)"):
        model.fit(ZERO_ROWS)


def test_unconverged_run_warns():
    data, energy = make_problem(0)
    learner, settings, state = start_pcd(data, energy, max_iter=2)
    with pytest.warns(ConvergenceWarning, match="had not converged after 2 epochs"):
        state = loop.run(learner, data, settings, state)
    assert not state.converged
    assert len(state.history.columns["gradient_rms"]) == 2


class Interrupt(SilentReports):
    """Reports that raise a KeyboardInterrupt after the second epoch."""

    def end(self, state):
        """Interrupt after the second epoch."""
        if state.epoch == 2:
            raise KeyboardInterrupt
        return False


def test_interrupt_between_epochs_keeps_the_state():
    data, energy = make_problem(0)
    learner, settings, state = start_pcd(data, energy, max_iter=9)
    with pytest.warns(ConvergenceWarning, match="Interrupted; .* after 2 epochs"):
        state = loop.run(learner, data, settings, state, Interrupt())
    assert state.epoch == 2
    assert np.isfinite(state.result().flat).all()


@pytest.mark.parametrize("is_deterministic", [False, True])
def test_interrupt_is_raised_if_the_run_is_not_interruptible(is_deterministic):
    data, energy = make_problem(0)
    learner, settings, state = start_pcd(data, energy, max_iter=9, interruptible=False)
    if is_deterministic:
        learner, settings = Exact(), replace(settings, optimizer=None)
        state = loop.start(energy, learner, data, settings, None)
    with pytest.raises(KeyboardInterrupt):
        loop.run(learner, data, settings, state, Interrupt())


def test_interrupt_of_a_solver_keeps_the_last_iteration():
    data, energy = make_problem(0)
    learner, settings = Exact(), Settings(optimizer=None, average=False)
    state = loop.start(energy, learner, data, settings, None)
    with pytest.warns(ConvergenceWarning, match="Interrupted; .* update, 2, after 2 epochs"):
        state = loop.run(learner, data, settings, state, Interrupt())
    assert len(state.history.columns["objective"]) == 2
    assert state.interrupted
    assert state.optimizer is None
    state = loop.run(learner, data, settings, loop.resume(state, learner, data, settings))
    assert state.converged
    assert state.epoch > 2


class InterruptUpdate:
    """Restriction that raises a KeyboardInterrupt during an update."""

    def __init__(self, at):
        self.n_remaining = at

    def update(self, energy, positive, negative, info):
        """Return the energy unchanged, or interrupt."""
        self.n_remaining -= 1
        if self.n_remaining == 0:
            raise KeyboardInterrupt
        return energy


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("average", [False, True])
def test_interrupt_keeps_the_last_update(optimizer, average):
    """The state is that of the last complete update, and training can be resumed."""
    data, energy = make_problem(0)
    options = {"average": average, "optimizer": optimizers.OPTIMIZERS[optimizer]()}
    n_updates = 2 * -(-len(data.X) // start_pcd(data, energy)[1].batch_size) + 1
    learner, settings, state = start_pcd(data, energy, max_iter=9, **options)
    before = []
    how = {
        "restriction": InterruptUpdate(n_updates + 1),
        "score": lambda energy, _: before.append(energy.flat.copy()) or 0.0,
    }
    with pytest.warns(ConvergenceWarning, match=f"update, {n_updates}, after 2 epochs"):
        state = loop.run(learner, data, replace(settings, **how), state)
    assert (state.epoch, state.step, state.n_averaged) == (2, n_updates, average * n_updates)
    learned = (state.averaged if average else state.energy.theta)["log_potentials"]
    assert np.isfinite(learned).all()
    assert not np.array_equal(np.ravel(learned), before[-1])
    assert len(state.history.columns["epoch"]) == 2
    state = loop.resume(state, learner, data, settings)
    with pytest.warns(ConvergenceWarning, match="had not converged"):
        state = loop.run(learner, data, settings, state)
    assert state.epoch == 11


class Diverge:
    """Restriction that sets infinite parameters, and then raises a KeyboardInterrupt."""

    def __init__(self):
        self.n_calls = 0

    def update(self, energy, positive, negative, info):
        """Return an energy with infinite parameters, or interrupt."""
        self.n_calls += 1
        if self.n_calls == 2:
            raise KeyboardInterrupt
        return energy.with_theta({k: v + np.inf for k, v in energy.theta.items()})


def test_interrupt_after_divergence_raises():
    data, energy = make_problem(0)
    learner, settings, state = start_pcd(data, energy, max_iter=9, restriction=Diverge())
    with pytest.raises(ValueError, match="not finite"):
        loop.run(learner, data, settings, state)


class FreezeFirst:
    """Restriction that keeps the first parameter at zero."""

    def update(self, energy, positive, negative, info):
        """Return the energy with a first parameter of zero."""
        flat = energy.flat.copy()
        flat[0] = 0.0
        return energy.with_theta({"log_potentials": flat})


def test_restriction_is_applied_after_each_update():
    data, energy = make_problem(0)
    learner, settings, state = start_pcd(data, energy, max_iter=3, restriction=FreezeFirst())
    with pytest.warns(ConvergenceWarning):
        state = loop.run(learner, data, settings, state)
    assert state.energy.flat[0] == 0.0
    assert state.energy.flat[1:].any()


def test_early_stopping_returns_the_best_energy():
    data, energy = make_problem(0)
    scores = iter([1.0, 3.0, 2.0, 2.5, 2.9, 9.0])
    learner, settings, state = start_pcd(
        data, energy, max_iter=50, score=lambda *_: next(scores), patience=3
    )
    state = loop.run(learner, data, settings, state)
    assert state.epoch == 5
    assert state.best[0] == 3.0
    assert state.result() is state.best[1]


def test_rows_keep_their_targets_and_weights():
    """Rows of zero weight and held-out rows are removed with their targets and weights."""
    rng = np.random.default_rng(0)
    X = np.arange(20)[:, None]
    weights = np.where(X[:, 0] % 3, X[:, 0] + 1.0, 0.0)
    data = weighted_rows(Batch(X, 10 * X), weights)
    np.testing.assert_array_equal(data.X, X[weights > 0])
    model = DiscreteMRF(early_stopping=True, validation_fraction=0.25)
    parts = hold_out(data, TrainingParameters.of(model), rng)
    assert [len(p.X) for p in parts] == [10, 3]
    for part in (data, *parts):
        assert part.shown is part.Y
        np.testing.assert_array_equal(part.Y, 10 * part.X)
        np.testing.assert_allclose(part.log_weights, np.log(part.X[:, 0] + 1.0))
    assert Batch(X).shown is X
    automatic = TrainingParameters.of(CRBMStructuredPredictor())
    parts = hold_out(data, automatic, rng, min_held_out=4)
    assert [len(p.X) for p in parts] == [9, 4]


def test_score_gets_the_state():
    data, energy = make_problem(0)
    epochs = []
    learner, settings, state = start_pcd(
        data, energy, max_iter=3, score=lambda _, state: epochs.append(state.epoch) or 0.0
    )
    with pytest.warns(ConvergenceWarning):
        loop.run(learner, data, settings, state)
    assert epochs == [1, 2, 3]


def test_average_option():
    """The option does not change the iterates, and a resumed run can change it."""
    data, energy = make_problem(0)
    plain, averaging = (
        start_pcd(data, energy, max_iter=3, average=average) for average in (False, True)
    )
    with pytest.warns(ConvergenceWarning):
        last, mean = (loop.run(p[0], data, *p[1:]) for p in (plain, averaging))
    assert last.averaged == {}
    assert last.result() is last.energy
    np.testing.assert_array_equal(last.energy.flat, mean.energy.flat)
    assert (mean.result().flat != mean.energy.flat).any()
    learner, settings, _ = averaging
    on = loop.resume(last, learner, data, settings)
    with pytest.warns(ConvergenceWarning):
        on = loop.run(learner, data, settings, on)
    assert on.n_averaged == on.step - last.step
    assert np.abs(on.result().flat - on.energy.flat).max() < 1.0
    off = loop.resume(on, learner, data, plain[1])
    assert off.averaged == {}


def test_history_pads_late_columns():
    history = History()
    history.append({"a": 1})
    history.append({"a": 2, "b": 3})
    assert history.columns["a"] == [1, 2]
    assert np.isnan(history.columns["b"][0])
    assert history.columns["b"][1] == 3


def test_loop_takes_any_energy_and_learner_with_the_interface():

    class Linear:
        def __init__(self):
            self.theta = {"w": np.zeros(2)}

        def with_theta(self, theta):
            other = Linear()
            other.theta = theta
            return other

        def gradient(self, positive, negative, batch):
            return {"w": positive.moments["w"] - self.theta["w"]}

    class Target(Learner):
        requires = ()
        deterministic = False

        def init(self, energy, batch, rng):
            return None

        def step(self, energy, batch, state, rng):
            phase = CliqueMoments({"w": np.array([1.0, -2.0]) + 0.1 * rng.normal(size=2)})
            return phase, phase, state, {}

    settings = Settings(batch_size=10)
    data = Batch(np.zeros((10, 1)))
    state = loop.start(Linear(), Target(), data, settings, np.random.default_rng(0))
    state = loop.run(Target(), data, settings, state)
    np.testing.assert_allclose(state.result().theta["w"], [1.0, -2.0], atol=0.02)


def test_effective_sample_size_is_at_most_the_number_of_draws():
    """Rounding errors of equal weights do not exceed the bound."""
    rng = np.random.default_rng(0)
    for n in range(1, 300):
        equal = -np.log(n) + 1e-15 * rng.normal(size=n)
        assert n - 1e-9 <= effective_sample_size(equal) <= n
    assert effective_sample_size(np.array([0.0, -800.0])) == 1.0
    assert effective_sample_size(np.full(3, -np.inf)) == 0.0


@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize("learner", ["exact", "pseudo-likelihood"])
def test_unconverged_deterministic_learning_warns(learner, penalty, seed):
    X = np.random.default_rng(seed).integers(2, size=(50, 4))
    model = DiscreteMRF("pairwise", learner, penalty=penalty, alpha=0.01)
    with pytest.warns(ConvergenceWarning, match=r"had not converged after 1 epochs \(1 updates\)"):
        model.set_params(max_iter=1).fit(X)
    assert not model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.set_params(max_iter=None).fit(X)
    assert model.converged_


# Batches -----------------------------------------------------------------------------------


def test_minibatches_have_equal_sizes(monkeypatch):
    sizes, make = [], loop.take_minibatch
    record = lambda data, rows, *steps: sizes.append(len(rows)) or make(data, rows, *steps)  # noqa: E731
    monkeypatch.setattr(loop, "take_minibatch", record)
    DiscreteMRF(learner=PCD(), alpha=1.0, batch_size=100, max_iter=1).fit(np.eye(201, 2))
    assert sizes == [67, 67, 67]


@pytest.mark.parametrize("size", [1, 30, 400, 1000])
def test_rows_of_a_batch_are_sorted(size, seed):
    rng = np.random.default_rng(seed)
    plain = Batch(np.zeros((1000, 1)), None, None)
    rows = rng.permutation(1000)[:size]
    np.testing.assert_array_equal(sort_rows(rows, plain), np.sort(rows))
    weighted = Batch(np.zeros((1000, 1)), None, np.zeros(1000))
    rows = rng.choice(1000, size)  # some twice
    np.testing.assert_array_equal(sort_rows(rows, weighted), np.sort(rows))


@pytest.mark.parametrize(
    "layout", [np.ascontiguousarray, np.asfortranarray, lambda X: X[:, ::2], sparse.csr_array]
)
def test_take_minibatch_copies_only_the_batch(layout, seed):
    X = layout((np.random.default_rng(seed).random((20_000, 40)) < 0.5).astype(float))
    rows = np.arange(5, 20_000, 200)
    tracemalloc.start()
    batch = take_minibatch(Batch(X, None, None), rows, 0, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    expected = X[rows]
    if sparse.issparse(X):
        batch, expected = SimpleNamespace(X=batch.X.toarray()), expected.toarray()
    np.testing.assert_array_equal(batch.X, expected)
    assert peak < 200_000  # the whole array has 3 to 6 MB
