"""Tests of the interface of all learners, and of exact learners against enumeration."""

import pickle
import time
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from zoo import TABLE_LEARNERS, TABLE_MODELS, VARIATIONAL, ZOO, enumerate_states, model_rows

from skmrf import DiscreteMRF
from skmrf._kernels.pseudo import pseudo_likelihood
from skmrf._utils.codes import MISSING, STATE
from skmrf._utils.parallel import parallel_jobs
from skmrf._utils.phases import CliqueMoments, States
from skmrf._utils.rows import Batch
from skmrf.energies import BipartiteEnergy, FactorGraph, SemiRestrictedEnergy
from skmrf.energies.layout import Layout
from skmrf.exact import elimination
from skmrf.learners import (
    BP,
    BPCD,
    CD,
    PCD,
    BPChainCD,
    DataPhase,
    Exact,
    Learner,
    MeanField,
    PseudoLikelihood,
    register,
)
from skmrf.learners.base import GibbsImputer
from skmrf.learners.exact import DeviceExact
from skmrf.learners.pseudo_likelihood import site_log_likelihood
from skmrf.training import held_out, preconditioning
from skmrf.training.preconditioning import TablePreconditioner
from skmrf.training.regularization import _time_objective


def remove_entries(X, share, rng):
    X = X.copy()
    X[rng.random(X.shape) < share] = MISSING
    return X


def log_likelihood(energy, X, weights, states=None):
    """Return the mean log-likelihood of the observed entries, by enumeration.

    If the states are given, their log-potentials are those of the energy, which is faster.
    """
    if states is None:
        states, log_f = enumerate_states(energy)
    else:
        log_f = energy.log_potential(states)
    total = np.logaddexp.reduce(log_f)
    value = 0.0
    for row, w in zip(X, weights / weights.sum(), strict=True):
        observed = row != MISSING
        matches = (states[:, observed] == row[observed]).all(axis=1)
        value += w * (np.logaddexp.reduce(log_f[matches]) - total)
    return value


def finite_differences(function, energy, h=1e-5):
    (name,) = energy.theta
    flat = energy.theta[name]
    out = np.empty(len(flat))
    for e in range(len(flat)):
        up, down = flat.copy(), flat.copy()
        up[e] += h
        down[e] -= h
        moved = function(energy.with_theta({name: up})), function(energy.with_theta({name: down}))
        out[e] = (moved[0] - moved[1]) / (2 * h)
    return out


@pytest.mark.parametrize("name", TABLE_LEARNERS)
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_learners_implement_the_interface(name, share, seed):
    rng = np.random.default_rng(seed)
    energy = ZOO["complete"](seed)
    X = remove_entries(model_rows(energy, 150, rng), share, rng)
    batch = Batch(X, None, np.log(rng.uniform(0.5, 1.5, size=150)), np.arange(150))
    learner = TABLE_LEARNERS[name]()
    assert clone(learner).get_params() == learner.get_params()
    state = learner.init(energy, batch, rng)
    before = X.copy()
    for step in range(2):
        part = Batch(X[:100], None, batch.log_weights[:100], np.arange(100), 0, step)
        positive, negative, state, info = learner.step(energy, part, state, rng)
        for phase in (positive, negative):
            assert isinstance(phase, States | CliqueMoments)
            if isinstance(phase, States):
                assert (phase.visible >= 0).all()
                assert (phase.visible < energy.n_states).all()
                assert phase.visible.dtype == STATE
        gradient = energy.gradient(positive, negative, part)
        assert all(np.isfinite(g).all() for g in gradient.values())
        assert all(np.isscalar(v) for v in info.values())
    np.testing.assert_array_equal(X, before)
    again = pickle.loads(pickle.dumps((state, rng)))
    one = learner.step(energy, part, *again)
    two = learner.step(energy, part, state, rng)
    for a, b in zip(one[:2], two[:2], strict=True):
        for k, v in energy.moments(a).items():
            np.testing.assert_array_equal(v, energy.moments(b)[k])


@pytest.mark.parametrize("name", TABLE_MODELS)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_exact_objective_equals_enumeration(name, share, seed):
    rng = np.random.default_rng(seed)
    energy = ZOO[name](seed)
    X = remove_entries(model_rows(energy, 12, rng), share, rng)
    weights = rng.uniform(0.2, 2.0, size=12)
    batch = Batch(X, None, np.log(weights))
    learner = Exact()
    state = learner.init(energy, batch, rng)
    value, gradient = learner.objective(energy, batch, state)
    assert value == pytest.approx(log_likelihood(energy, X, weights), abs=1e-10)
    states = enumerate_states(energy)[0]
    reference = finite_differences(lambda e: log_likelihood(e, X, weights, states), energy)
    np.testing.assert_allclose(gradient["log_potentials"], reference, atol=1e-7)
    positive, negative, _, info = learner.step(energy, batch, state, rng)
    stepped = energy.gradient(positive, negative)["log_potentials"]
    np.testing.assert_allclose(stepped, gradient["log_potentials"], atol=1e-12)
    assert info["log_likelihood"] == pytest.approx(value)


def enumerate_pseudo_likelihood(energy, X):
    total = np.zeros(len(X))
    for i, q in enumerate(energy.n_states):
        changed = np.repeat(X[None], q, axis=0)
        for s in range(q):
            changed[s, :, i] = s
        scores = np.array([energy.log_potential(c) for c in changed])
        total += energy.log_potential(X) - np.logaddexp.reduce(scores, axis=0)
    return total


@pytest.mark.parametrize("name", TABLE_MODELS)
def test_pseudo_likelihood_equals_enumeration(name, seed):
    rng = np.random.default_rng(seed)
    energy = ZOO[name](seed)
    X = model_rows(energy, 15, rng)
    weights = rng.uniform(size=15)
    values, gradient = site_log_likelihood(energy, X, weights)
    np.testing.assert_allclose(values, enumerate_pseudo_likelihood(energy, X), atol=1e-10)
    np.testing.assert_allclose(site_log_likelihood(energy, X)[0], values, atol=1e-12)
    reference = finite_differences(lambda e: weights @ enumerate_pseudo_likelihood(e, X), energy)
    np.testing.assert_allclose(gradient, reference, atol=1e-7)


def test_pseudo_likelihood_of_zero_potentials():
    graph = FactorGraph([2, 2], [(0, 1)], [np.array([[0.0, -np.inf], [-np.inf, 1.0]])])
    values, gradient = site_log_likelihood(
        graph, np.array([[0, 0], [1, 1]], dtype=STATE), np.ones(2)
    )
    np.testing.assert_array_equal(values, [0.0, 0.0])
    np.testing.assert_array_equal(gradient, np.zeros(4))


@pytest.mark.parametrize("special", [0.0, 1e7, -np.inf])
def test_pseudo_likelihood_of_many_states(special, seed):
    """Variables in several tiles and rows in several blocks; large and zero potentials."""
    rng = np.random.default_rng(seed)
    n_states = [170, 1, 3, 2]
    cliques = [(i,) for i in range(4)] + list(combinations(range(4), 2))
    tables = [rng.normal(size=[n_states[i] for i in c]) for c in cliques]
    for table in tables[-1], tables[5]:
        table[0, 0] += special
    energy = FactorGraph(n_states, cliques, tables)
    X = np.column_stack([rng.integers(0, q, 600) for q in n_states]).astype(STATE)
    weights = rng.uniform(size=600)
    values, gradient = site_log_likelihood(energy, X, weights)
    np.testing.assert_array_equal(site_log_likelihood(energy, X)[0], values)
    row_by_row, slow = np.empty(600), np.zeros_like(gradient)
    pseudo_likelihood(energy.table_conditionals(), X, weights, row_by_row, slow)
    np.testing.assert_allclose(values, row_by_row, atol=1e-9, rtol=1e-9)
    np.testing.assert_allclose(gradient, slow, atol=1e-8)


@pytest.mark.parametrize(
    "learner", [PCD(n_chains=2000), CD(n_sweeps=30), CD(50, "random")], ids=repr
)
def test_chains_have_the_moments_of_the_model(learner, seed):
    """The moments agree up to Monte Carlo error.

    The chains start at draws from the model, or make enough sweeps to converge.
    """
    rng = np.random.default_rng(seed)
    energy = ZOO["cycle"](seed)
    X = model_rows(energy, 2000, rng)
    batch = Batch(X, None, None, np.arange(2000))
    state = learner.init(energy, batch, rng)
    for _ in range(20 if isinstance(learner, PCD) else 1):  # CD starts again at the rows
        _, negative, state, _ = learner.step(energy, batch, state, rng)
    plan = elimination.prepare(energy.layout)
    expected, _ = elimination.expected_moments(plan, energy.flat)
    actual = energy.moments(negative)["log_potentials"]
    error = np.sqrt(np.maximum(expected * (1 - expected), 0.0) / 2000) + 1e-9
    assert (np.abs(actual - expected) / error).max() < 5.5
    shifted = np.roll(expected, 1)
    assert (np.abs(actual - shifted) / error).max() > 5.5


def test_cd_chains_move_away_from_the_data(seed):
    """After one step at a random model, the negative phase differs from the data."""
    rng = np.random.default_rng(seed)
    energy = ZOO["grid"](seed)
    X = np.zeros((200, 9), dtype=STATE)
    positive, negative, _, _ = CD().step(energy, Batch(X), CD().init(energy, Batch(X), rng), rng)
    np.testing.assert_array_equal(positive.visible, X)
    assert negative.visible.any()


def test_cd_from_random_starts(seed):
    """Strongly coupled variables stay at their initial states, which are uniform."""
    rng = np.random.default_rng(seed)
    locked = -1e3 * (1 - np.eye(3))
    energy = FactorGraph([3, 3, 3], [(0, 1), (2,)], [locked, np.zeros(3)])
    X = np.zeros((9000, 3), dtype=STATE)
    learner = CD(start="random")
    state = learner.init(energy, Batch(X), rng)
    _, negative, _, _ = learner.step(energy, Batch(X), state, rng)
    assert negative.visible.shape == X.shape
    for column in negative.visible.T:
        share = np.bincount(column, minlength=3) / 9000
        assert np.abs(share - 1 / 3).max() < 5 * np.sqrt(2 / 9 / 9000)


class CopyEnergy(BipartiteEnergy):
    """Energy whose targets are 1 where the inputs are large."""

    def at(self, batch):
        """Return the energy given the inputs of a batch."""
        return self.with_theta(self.theta | {"visible_bias": batch.X})


@pytest.mark.parametrize("start", ["data", "random"])
def test_targets_depend_on_the_inputs_of_their_rows(start, seed):
    """Chains and imputed targets depend on the inputs of their rows, also in batches."""
    rng = np.random.default_rng(seed)
    energy = CopyEnergy(np.zeros((4, 2)), np.zeros(4), np.zeros(2))
    X = 100.0 * rng.choice([-1, 1], size=(150, 4))
    Y = remove_entries((X > 0).astype(STATE), 0.3, rng)
    learner = CD(start=start)
    state = learner.init(energy, Batch(X, Y), rng)
    rows = rng.permutation(150)[:80]
    batch = Batch(X[rows], Y[rows], None, rows)
    positive, negative, _, _ = learner.step(energy, batch, state, rng)
    for phase in (positive, negative):
        np.testing.assert_array_equal(phase.visible, X[rows] > 0)


def test_pcd_chains_persist(seed):
    rng = np.random.default_rng(seed)
    frozen = FactorGraph([2, 2], [(0,), (1,)], [np.array([0.0, -np.inf]), np.array([0.0, 0.0])])
    X = np.zeros((50, 2), dtype=STATE)
    learner = PCD(n_chains=40)
    state = learner.init(frozen, Batch(X), rng)
    first = state.X
    _, negative, state, info = learner.step(frozen, Batch(X), state, rng)
    assert len(negative.visible) == 40
    np.testing.assert_array_equal(negative.visible, state.X)
    assert not negative.visible[:, 0].any()
    assert info["flip_rate"] == (first != state.X).mean() <= 0.5


def test_imputed_values_have_the_conditional_distribution(seed):
    """Imputed values given the observed ones are compared with enumeration."""
    rng = np.random.default_rng(seed)
    energy = ZOO["chain"](seed)
    X = np.full((3000, 6), MISSING, dtype=STATE)
    X[:, 0], X[:, 3] = 1, 0
    batch = Batch(X, None, None, np.arange(3000))
    learner = PCD(n_chains=64)
    state = learner.init(energy, batch, rng)
    for _ in range(30):
        positive, _, state, _ = learner.step(energy, batch, state, rng)
    states, log_f = enumerate_states(energy)
    matches = (states[:, 0] == 1) & (states[:, 3] == 0)
    p = np.exp(log_f[matches] - np.logaddexp.reduce(log_f[matches]))
    exact = p @ states[matches]
    error = np.sqrt(np.maximum(exact * (1 - exact), 0.0) / 3000) + 1e-9
    assert (np.abs(positive.visible.mean(axis=0) - exact) / error).max() < 5.0
    np.testing.assert_array_equal(positive.visible[:, [0, 3]], X[:, [0, 3]])


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (PCD(n_chains=0), "n_chains must be an integer >= 1; got 0"),
        (PCD(n_sweeps=1.5), "n_sweeps must be an integer; got 1.5"),
        (CD(n_sweeps=-1), "n_sweeps must be an integer >= 1; got -1"),
        (CD(start="zeros"), r"start must be one of \['data', 'random'\]; got 'zeros'"),
        (Exact(max_bytes=10), "Exact inference needs"),
        (Exact(max_bytes="1 GiB"), "max_bytes must be a number of bytes, at least 0; got '1 GiB'"),
        (Exact(max_bytes=-1), "max_bytes must be a number of bytes, at least 0; got -1"),
        (Exact(max_bytes=np.nan), "max_bytes must be a number of bytes, at least 0; got nan"),
        (BP(damping=1.0), "damping must be a number >= 0 and <= 0.99; got 1.0"),
        (BP(max_iter=0), "max_iter must be an integer >= 1; got 0"),
        (BP(tol=-1.0), "tol must be a number >= 0 and <= 0.5; got -1.0"),
        (BP(schedule="random"), "schedule must be one of"),
        (BP(warm_start="no"), "warm_start must be True or False; got 'no'"),
        (BPCD(n_samples=0), "n_samples must be an integer >= 1; got 0"),
        (BPCD(damping="none"), "damping must be \"auto\" or a number; got 'none'"),
        (BPChainCD(n_samples=2.5), "n_samples must be an integer; got 2.5"),
        (BPChainCD(conditionals="gibbs"), "conditionals must be one of"),
        (BPChainCD(order=[0, 1]), "order must be one of"),
        (BPChainCD(corrected="no"), "corrected must be True or False; got 'no'"),
        (BPChainCD(warm_start=1), "warm_start must be True or False; got 1"),
        (BPChainCD(damping=-0.1), "damping must be a number >= 0 and <= 0.99; got -0.1"),
        (MeanField(max_iter=0), "max_iter must be an integer >= 1; got 0"),
        (MeanField(tol=np.inf), "tol must be a finite number; got inf"),
    ],
)
def test_invalid_parameters_raise(learner, message):
    energy = ZOO["grid"](0)
    with pytest.raises(ValueError, match=message):
        learner.init(energy, Batch(np.zeros((3, 9), dtype=STATE)), np.random.default_rng(0))


def test_reserved_name_and_parameter_without_default_raise():
    class NoDefault(CD):
        def __init__(self, n_sweeps):
            super().__init__(n_sweeps)

    with pytest.raises(TypeError, match="The parameter n_sweeps of NoDefault has no default"):
        register("no-default", NoDefault)
    with pytest.raises(ValueError, match="The name 'auto' is reserved"):
        register("auto", CD)


def test_changed_learner_parameters_take_effect_in_partial_fit(seed):
    model = DiscreteMRF([(0, 1), (1, 2)], BPChainCD(conditionals="bp"), random_state=seed)
    X = np.random.default_rng(seed).integers(0, 2, size=(20, 3))
    model.partial_fit(X)
    assert not model._loop_state.learner.chain.exact
    model.set_params(learner__conditionals="exact").partial_fit(X)
    assert model._loop_state.learner.chain.exact
    model = DiscreteMRF([(0, 1)], BPCD(), random_state=seed).partial_fit(X)
    with pytest.raises(ValueError, match="n_samples must be an integer >= 1; got -3"):
        model.set_params(learner__n_samples=-3).partial_fit(X)


@pytest.mark.parametrize("second", ["pcd", *VARIATIONAL])
@pytest.mark.parametrize("first", ["cd", "mean-field", "bp"])
def test_training_continues_with_another_learner(first, second, seed):
    X = np.random.default_rng(seed).integers(0, 2, size=(20, 3))
    model = DiscreteMRF([(0, 1), (1, 2)], first, random_state=seed).partial_fit(X)
    model.set_params(learner=second).partial_fit(X)
    assert np.isfinite(model.score(X))
    assert model.n_iter_ == 2


def test_pseudo_likelihood_weights_equal_repeated_rows(seed):
    rng = np.random.default_rng(seed)
    energy = ZOO["chain"](seed)
    X = model_rows(energy, 20, rng)
    learner = PseudoLikelihood()
    repeated = Batch(np.concatenate([X, X[:5]]))
    weighted = Batch(X, None, np.log(np.where(np.arange(20) < 5, 2.0, 1.0)))
    gradients = []
    for batch in (repeated, weighted):
        positive, negative, _, _ = learner.step(
            energy, batch, learner.init(energy, batch, rng), rng
        )
        gradients.append(energy.gradient(positive, negative)["log_potentials"])
    np.testing.assert_allclose(*gradients, atol=1e-12)


@pytest.mark.parametrize("name", ["chain", "spin_glass"])
def test_positive_phase_has_the_weights_of_the_rows(name, seed):
    rng = np.random.default_rng(seed)
    energy = ZOO[name](seed)
    X, log_weights = model_rows(energy, 20, rng), rng.normal(size=20)
    phase = DataPhase(energy, Batch(X, None, log_weights), rng)
    expected = energy.moments(States(X, None, log_weights))
    for k, v in phase.moments.moments.items():
        np.testing.assert_allclose(v, expected[k], atol=1e-12)


class EnumeratedLikelihood(Learner):
    """Likelihood by enumeration of all states. The objective takes complete rows only."""

    deterministic = True

    def init(self, energy, batch, rng):
        return DataPhase(energy, batch, rng)

    def step(self, energy, batch, state, rng):
        states, log_f = enumerate_states(energy)
        return state(energy, batch), States(states, None, log_f), state, {}

    def objective(self, energy, batch, state):
        positive, negative, _, _ = self.step(energy, batch, state, None)
        rows = States(batch.X, None, batch.log_weights)
        value = rows.weights @ energy.log_potential(batch.X)
        value -= np.logaddexp.reduce(negative.log_weights)
        return value, energy.gradient(positive, negative, batch)


class SlowObjective(EnumeratedLikelihood):
    """Likelihood whose evaluation waits, without processor time."""

    def objective(self, energy, batch, state):
        time.sleep(0.03)
        return super().objective(energy, batch, state)


def test_forecast_of_a_path_has_the_wall_time():
    fold = SimpleNamespace(reference=ZOO["chain"](0), train=Batch(np.zeros((1, 6), dtype=int)))
    assert _time_objective(SlowObjective(), fold) >= 0.03


class WrongGradient(EnumeratedLikelihood):
    """Likelihood with a gradient of the wrong sign, along which no point is better."""

    def objective(self, energy, batch, state):
        value, gradient = super().objective(energy, batch, state)
        return value, {k: -g for k, g in gradient.items()}


def test_line_search_without_a_better_point_warns():
    X = [[0, 0, 0]] * 5 + [[1, 1, 1]] * 5 + [[1, 1, 0]]
    message = r"^L-BFGS stopped after \d+ iterations, because no step .* above tol=.* larger tol"
    with pytest.warns(ConvergenceWarning, match=message) as found:
        DiscreteMRF(learner=WrongGradient(), alpha=0.1).fit(X)
    assert not any("max_iter" in str(warning.message) for warning in found)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_deterministic_learner_without_missing_entries(seed):
    """Check that the default of objective_takes_missing gives stochastic steps for such rows."""
    rng = np.random.default_rng(seed)
    X = ((rng.random((100, 1)) < 0.5) ^ (rng.random((100, 3)) < 0.2)) * 1.0
    own, exact = (
        DiscreteMRF(learner=learner, alpha=0.1, max_iter=40, random_state=0)
        for learner in (EnumeratedLikelihood(), Exact())
    )
    assert own.fit(X).score(X) == pytest.approx(exact.fit(X).score(X), abs=1e-4)
    X[:5, 0] = np.nan
    assert own.fit(X).score(X) == pytest.approx(exact.fit(X).score(X), abs=0.02)
    with pytest.raises(ValueError, match=r'optimizer="lbfgs" needs a deterministic objective'):
        own.set_params(optimizer="lbfgs").fit(X)


@pytest.mark.long
def test_pseudo_likelihood_learns_from_missing_entries(seed):
    """The learner that was given is kept; "auto" replaces it by PCD."""
    rng = np.random.default_rng(seed)
    X = rng.integers(2, size=(300, 4)).astype(float)
    X[:, 1] = np.where(rng.random(300) < 0.1, 1 - X[:, 0], X[:, 0])
    X[rng.random(X.shape) < 0.1] = np.nan
    given = {"alpha": 0.01, "random_state": seed}
    model = DiscreteMRF(learner="pseudo-likelihood", **given).fit(X)
    assert isinstance(model.learner_, PseudoLikelihood)
    exact = DiscreteMRF(learner="exact", **given).fit(X)
    assert abs(model.score(X) - exact.score(X)) < 0.02


def test_chains_of_missing_entries():
    """Each incomplete row keeps its chain and its observed entries; rows may occur twice."""
    jax, chains = pytest.importorskip("jax"), pytest.importorskip("skmrf._jax.chains")
    X = np.random.default_rng(5).integers(0, 2, (40, 3)).astype(np.int16)
    X[10:, 1] = MISSING
    energy = BipartiteEnergy(np.zeros((3, 2), np.float32), np.zeros(3), np.zeros(2))
    imputer = GibbsImputer(Batch(X), np.full(3, 2), np.random.default_rng(0))
    first = imputer.X.copy()
    imputer.rows, imputer.missing = map(jax.numpy.asarray, (imputer.rows, imputer.missing))
    imputer.X, imputer.rng = jax.numpy.asarray(first), chains.DeviceChains(jax.random.key(0))
    numbers = np.r_[0:40, 20, 5, 20]
    batch = Batch(jax.numpy.asarray(X[numbers]), rows=jax.numpy.asarray(numbers))
    drawn, kept = np.asarray(imputer.update(energy, batch)), np.asarray(imputer.X)
    is_observed = X[numbers] != MISSING
    np.testing.assert_array_equal(drawn[is_observed], X[numbers][is_observed])
    np.testing.assert_array_equal(kept, drawn[[*range(10, 20), 42, *range(21, 40)]])
    assert (kept != first).any()


# Devices ----------------------------------------------------------------------------------


def random_model(n_visible, n_hidden, states, rng):
    """Return a model with hidden units; with numbers for the states, its columns are coupled."""
    arrays = [rng.normal(0.0, 0.6, shape) for shape in ((n_visible, n_hidden), n_visible, n_hidden)]
    if states is None:
        return BipartiteEnergy(*arrays)
    coupling = np.triu(rng.normal(0.0, 0.4, (n_visible, n_visible)), 1)
    return SemiRestrictedEnergy(coupling + coupling.T, *arrays, states=states)


@pytest.mark.parametrize("kind", ["codes", "probabilities", "jax"])
@pytest.mark.parametrize("n_hidden", [3, 9])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_objective_of_a_device(kind, n_hidden, is_weighted, seed, monkeypatch):
    """It is the objective of the host in double precision, also if the rows are in blocks."""
    jax, devices = pytest.importorskip("jax"), pytest.importorskip("skmrf._jax.devices")
    monkeypatch.setattr("skmrf._jax.rows.BLOCK_ENTRIES", 6 * 64)
    rng = np.random.default_rng(seed)
    energy, X = random_model(6, n_hidden, None, rng), rng.integers(0, 2, (150, 6))
    if kind == "probabilities":
        X = rng.random((150, 6)).astype(np.float32)
    batch = Batch(X, log_weights=rng.normal(size=150) if is_weighted else None)
    value, gradient = Exact().objective(energy, batch, Exact().init(energy, batch, None))
    own = batch._replace(X=jax.numpy.asarray(X)) if kind == "jax" else batch
    learner = DeviceExact(devices.find_device("jax"))
    found = learner.objective(energy, own, learner.init(energy, own, None))
    assert found[0] == pytest.approx(value, rel=1e-13)
    for name, array in gradient.items():
        np.testing.assert_allclose(found[1][name], array, atol=1e-13)


@pytest.mark.parametrize("states", [None, (-1, 1)])
@pytest.mark.parametrize("n_hidden", [5, 14])
@pytest.mark.parametrize("computes", ["device", "host", "processor"])
def test_scores_of_held_out_rows(states, n_hidden, computes, seed, monkeypatch):
    """A device has the score of the host: an exact one, or from all models with one changed bit."""
    devices = pytest.importorskip("skmrf._jax.devices")
    rng = np.random.default_rng(seed)
    energy, X = random_model(13, n_hidden, states, rng), rng.integers(0, 2, (90, 13))
    batch = Batch(X, log_weights=rng.normal(size=90))
    score = held_out.layered_score(energy, batch)(energy, None)
    device = devices.find_device("jax")
    device.is_processor = computes == "processor"
    if computes == "host":  # the scores do not fit on the device
        monkeypatch.setattr(devices.Device, "free_bytes", 100.0)
    if computes != "device":
        monkeypatch.setattr(devices.Device, "weighted_sum", None)
    on_device = held_out.layered_score(energy, batch, device)
    assert on_device(energy, None) == pytest.approx(score, rel=1e-12)
    if states is None and n_hidden == 5:
        learner = Exact()
        exact = learner.objective(energy, batch, learner.init(energy, batch, None))[0]
        assert score == pytest.approx(exact, abs=1e-9)
        return
    sites = np.random.default_rng(0).integers(13, size=(16, 90))
    log_p, total = energy.log_marginal(X), 0.0
    for chosen in sites:
        changed = X.copy()
        changed[np.arange(90), chosen] ^= 1
        total = total - np.logaddexp(0.0, energy.log_marginal(changed) - log_p)
    weights = np.exp(batch.log_weights)
    assert score == pytest.approx(weights @ total / weights.sum() * 13 / 16, rel=1e-10)


# Preconditioner ----------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [1, 50, 10**6])
def test_preconditioner_of_centred_tables(entries, seed, monkeypatch):
    """Threads treat the tables in units; reversed cliques and any numbers of states are allowed."""
    monkeypatch.setattr(preconditioning, "ENTRIES_PER_UNIT", entries)
    rng, n_states = np.random.default_rng(seed), [2, 9, 1, 5, 2, 4]
    cliques = [(i,) for i in (5, 0, 1, 3, 4)] + [(1, 0), (0, 4), (4, 5), (3, 1), (2, 0), (5, 3)]
    layout = Layout.build(n_states, cliques)
    curvature = rng.random(layout.n_cliques)
    frequencies = [rng.dirichlet(np.full(q, 3.0)) for q in n_states]
    gradient = rng.normal(size=layout.n_parameters)
    precondition = TablePreconditioner(layout, frequencies, curvature.repeat(layout.table_size))
    found = layout.split(precondition(gradient))
    with parallel_jobs(2):
        assert np.array_equal(np.concatenate([t.ravel() for t in found]), precondition(gradient))
    tables = layout.split(gradient)
    own = {c[0]: t for c, t in zip(cliques, tables, strict=True) if len(c) == 1}
    covariances = [np.diag(p) - np.outer(p, p) for p in frequencies]
    singles = {
        i: np.linalg.solve(covariances[i] + curvature[k] * np.eye(len(t)), t)
        for k, (i, t) in enumerate(own.items())
    }
    for (*pair,), table, step, c in zip(cliques, tables, found, curvature, strict=True):
        if len(pair) == 1:
            continue
        p, q = (frequencies[i] for i in pair)
        if 2 in pair:
            np.testing.assert_allclose(step, table / (np.outer(p, q) + c), rtol=1e-9)
            continue
        i, j = pair
        centred = (table - np.outer(own[i], q) - np.outer(p, own[j])).ravel()
        hessian = 2.0 * np.kron(covariances[i], covariances[j]) + c * np.eye(centred.size)
        expected = np.linalg.solve(hessian, centred).reshape(table.shape)
        np.testing.assert_allclose(step, expected, rtol=1e-8, atol=1e-9)
        singles[i], singles[j] = singles[i] - expected @ q, singles[j] - p @ expected
    for clique, step in zip(cliques, found, strict=True):
        if len(clique) == 1:
            np.testing.assert_allclose(step, singles[clique[0]], rtol=1e-8, atol=1e-8)
