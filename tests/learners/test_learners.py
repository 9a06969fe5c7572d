"""Every learner keeps the contract; deterministic ones against enumeration."""

import pickle
import warnings

import numpy as np
import pytest
import twins
from montecarlo import check_draws, check_mean_weight, check_means
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from zoo import ZOO, enumerate_states, model_rows

from skmrf import DiscreteMRF, messages
from skmrf._types import MISSING, STATE, Batch, CliqueMoments, States
from skmrf.datasets import make_ising
from skmrf.energies import BipartiteEnergy, FactorGraph
from skmrf.learners import (
    BP,
    BPCD,
    CD,
    LEARNERS,
    PCD,
    BPChainCD,
    Exact,
    MeanField,
    PseudoLikelihood,
    site_log_likelihood,
)

TREES = ["chain", "tied_binary", "disconnected", "isolated", "single_variable", "zeros_binary"]
VARIATIONAL = ["bp", "bp-cd", "bpchain-cd", "mean-field"]
FINITE = ["chain", "cycle", "grid", "complete", "orders", "tied", "constant_binary"]


def punch_holes(X, share, rng):
    X = X.copy()
    X[rng.random(X.shape) < share] = MISSING
    return X


def log_likelihood(energy, X, weights):
    """Mean log-likelihood of the observed entries, by enumeration."""
    states, log_f = enumerate_states(energy)
    total = np.logaddexp.reduce(log_f)
    value = 0.0
    for row, w in zip(X, weights / weights.sum(), strict=True):
        seen = row != MISSING
        agrees = (states[:, seen] == row[seen]).all(axis=1)
        value += w * (np.logaddexp.reduce(log_f[agrees]) - total)
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


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_contract(name, share, seed):
    rng = np.random.default_rng(seed)
    energy = ZOO["complete"](seed)
    X = punch_holes(model_rows(energy, 150, rng), share, rng)
    batch = Batch(X, None, np.log(rng.uniform(0.5, 1.5, size=150)), np.arange(150))
    learner = LEARNERS[name]()
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


@pytest.mark.parametrize("name", FINITE)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_exact_objective(name, share, seed):
    rng = np.random.default_rng(seed)
    energy = ZOO[name](seed)
    X = punch_holes(model_rows(energy, 12, rng), share, rng)
    weights = rng.uniform(0.2, 2.0, size=12)
    batch = Batch(X, None, np.log(weights))
    learner = Exact()
    state = learner.init(energy, batch, rng)
    value, gradient = learner.objective(energy, batch, state)
    assert value == pytest.approx(log_likelihood(energy, X, weights), abs=1e-10)
    reference = finite_differences(lambda e: log_likelihood(e, X, weights), energy)
    np.testing.assert_allclose(gradient["log_potentials"], reference, atol=1e-7)
    positive, negative, _, info = learner.step(energy, batch, state, rng)
    stepped = energy.gradient(positive, negative)["log_potentials"]
    np.testing.assert_allclose(stepped, gradient["log_potentials"], atol=1e-12)
    assert info["log_likelihood"] == pytest.approx(value)


def naive_pseudo_likelihood(energy, X):
    total = np.zeros(len(X))
    for i, q in enumerate(energy.n_states):
        changed = np.repeat(X[None], q, axis=0)
        for s in range(q):
            changed[s, :, i] = s
        scores = np.array([energy.log_potential(c) for c in changed])
        total += energy.log_potential(X) - np.logaddexp.reduce(scores, axis=0)
    return total


@pytest.mark.parametrize("name", FINITE)
def test_pseudo_likelihood(name, seed):
    rng = np.random.default_rng(seed)
    energy = ZOO[name](seed)
    X = model_rows(energy, 15, rng)
    weights = rng.uniform(size=15)
    values, gradient = site_log_likelihood(energy, X, weights)
    np.testing.assert_allclose(values, naive_pseudo_likelihood(energy, X), atol=1e-10)
    np.testing.assert_allclose(site_log_likelihood(energy, X)[0], values, atol=1e-12)
    reference = finite_differences(lambda e: weights @ naive_pseudo_likelihood(e, X), energy)
    np.testing.assert_allclose(gradient, reference, atol=1e-7)


def test_pseudo_likelihood_of_zero_potentials():
    graph = FactorGraph([2, 2], [(0, 1)], [np.array([[0.0, -np.inf], [-np.inf, 1.0]])])
    values, gradient = site_log_likelihood(
        graph, np.array([[0, 0], [1, 1]], dtype=STATE), np.ones(2)
    )
    np.testing.assert_array_equal(values, [0.0, 0.0])
    np.testing.assert_array_equal(gradient, np.zeros(4))


@pytest.mark.parametrize(
    "learner", [PCD(n_chains=2000), CD(n_steps=30), CD(50, "random")], ids=repr
)
def test_negative_phase_is_the_models(learner, seed):
    """Chains have the model's moments, up to Monte Carlo error.

    They start at the model's own rows, or make sweeps enough to forget that they did not.
    """
    rng = np.random.default_rng(seed)
    energy = ZOO["cycle"](seed)
    X = model_rows(energy, 2000, rng)
    batch = Batch(X, None, None, np.arange(2000))
    state = learner.init(energy, batch, rng)
    for _ in range(20):
        _, negative, state, _ = learner.step(energy, batch, state, rng)
    plan = messages.prepare(energy.layout)
    exact, _ = messages.expected_moments(plan, energy.flat)
    found = energy.moments(negative)["log_potentials"]
    error = np.sqrt(np.maximum(exact * (1 - exact), 0.0) / 2000) + 1e-9
    assert (np.abs(found - exact) / error).max() < 5.5
    shifted = np.roll(exact, 1)
    assert (np.abs(found - shifted) / error).max() > 5.5


def test_cd_moves_from_its_own_rows(seed):
    """One step of CD at a random model is not the data: the negative phase has moved."""
    rng = np.random.default_rng(seed)
    energy = ZOO["grid"](seed)
    X = np.zeros((200, 9), dtype=STATE)
    positive, negative, _, _ = CD().step(energy, Batch(X), CD().init(energy, Batch(X), rng), rng)
    np.testing.assert_array_equal(positive.visible, X)
    assert negative.visible.any()


def test_cd_from_random_starts(seed):
    """Variables that hold each other stay where they start: anywhere, whatever the data are."""
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


class Copying(BipartiteEnergy):
    """Targets that are 1 where the inputs are large."""

    def at(self, batch):
        return self.with_theta(self.theta | {"visible_bias": batch.X})


@pytest.mark.parametrize("start", ["data", "random"])
def test_targets_follow_their_inputs(start, seed):
    """Chains and completed targets are those of the inputs of their rows, in batches too."""
    rng = np.random.default_rng(seed)
    energy = Copying(np.zeros((4, 2)), np.zeros(4), np.zeros(2))
    X = 100.0 * rng.choice([-1, 1], size=(150, 4))
    Y = punch_holes((X > 0).astype(STATE), 0.3, rng)
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
    _, negative, state, info = learner.step(frozen, Batch(X), state, rng)
    assert len(negative.visible) == 40
    np.testing.assert_array_equal(negative.visible, state.X)
    assert not negative.visible[:, 0].any()
    assert 0.0 <= info["flip_rate"] <= 0.5


def test_completions_follow_the_conditional(seed):
    """Missing entries given observed ones, against enumeration."""
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
    agrees = (states[:, 0] == 1) & (states[:, 3] == 0)
    p = np.exp(log_f[agrees] - np.logaddexp.reduce(log_f[agrees]))
    exact = p @ states[agrees]
    error = np.sqrt(np.maximum(exact * (1 - exact), 0.0) / 3000) + 1e-9
    assert (np.abs(positive.visible.mean(axis=0) - exact) / error).max() < 5.0
    np.testing.assert_array_equal(positive.visible[:, [0, 3]], X[:, [0, 3]])


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (PCD(n_chains=0), "n_chains must be an integer >= 1; got 0"),
        (PCD(n_steps=1.5), "n_steps must be an integer; got 1.5"),
        (CD(n_steps=-1), "n_steps must be an integer >= 1; got -1"),
        (CD(start="zeros"), r"start must be one of \['data', 'random'\]; got 'zeros'"),
        (Exact(max_bytes=10), "Exact inference needs"),
        (BP(damping=1.0), "damping must be a number >= 0 and <= 0.99; got 1.0"),
        (BP(max_iter=0), "max_iter must be an integer >= 1; got 0"),
        (BP(tol=-1.0), "tol must be a number >= 0 and <= 0.5; got -1.0"),
        (BP(schedule="random"), "schedule must be one of"),
        (BPCD(n_samples=0), "n_samples must be an integer >= 1; got 0"),
        (BPCD(damping="none"), "damping must be \"auto\" or a number; got 'none'"),
        (BPChainCD(n_samples=2.5), "n_samples must be an integer; got 2.5"),
        (BPChainCD(conditionals="gibbs"), "conditionals must be one of"),
        (BPChainCD(order=[0, 1]), "order must be one of"),
        (BPChainCD(damping=-0.1), "damping must be a number >= 0 and <= 0.99; got -0.1"),
        (MeanField(max_iter=0), "max_iter must be an integer >= 1; got 0"),
        (MeanField(tol=np.inf), "tol must be a number; got inf"),
    ],
)
def test_bad_parameters(learner, message):
    energy = ZOO["grid"](0)
    with pytest.raises(ValueError, match=message):
        learner.init(energy, Batch(np.zeros((3, 9), dtype=STATE)), np.random.default_rng(0))


def test_settings_changed_between_fits_count(seed):
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
def test_another_learner_goes_on(first, second, seed):
    X = np.random.default_rng(seed).integers(0, 2, size=(20, 3))
    model = DiscreteMRF([(0, 1), (1, 2)], first, random_state=seed).partial_fit(X)
    model.set_params(learner=second).partial_fit(X)
    assert np.isfinite(model.score(X))
    assert model.n_iter_ == 2


def test_pseudo_likelihood_step_takes_weights(seed):
    rng = np.random.default_rng(seed)
    energy = ZOO["chain"](seed)
    X = model_rows(energy, 20, rng)
    learner = PseudoLikelihood()
    twice = Batch(np.concatenate([X, X[:5]]))
    weighted = Batch(X, None, np.log(np.where(np.arange(20) < 5, 2.0, 1.0)))
    gradients = []
    for batch in (twice, weighted):
        positive, negative, _, _ = learner.step(
            energy, batch, learner.init(energy, batch, rng), rng
        )
        gradients.append(energy.gradient(positive, negative)["log_potentials"])
    np.testing.assert_allclose(*gradients, atol=1e-12)


# Propagation and mean field ----------------------------------------------------------------


def phases(learner, energy, n_steps, seed, n_rows=60):
    """Moments of the negative phase and diagnostics of every step; rows are of the model."""
    rng = np.random.default_rng(seed)
    batch = Batch(model_rows(energy, n_rows, rng))
    state = learner.init(energy, batch, rng)
    moments, infos = [], []
    for _ in range(n_steps):
        _, negative, state, info = learner.step(energy, batch, state, rng)
        moments.append(energy.moments(negative)["log_potentials"])
        infos.append(info)
    return np.array(moments), infos, negative


def exact_moments(energy):
    return twins.moments(energy, *twins.distribution(energy))["log_potentials"]


@pytest.mark.parametrize("warm_start", [False, True])
@pytest.mark.parametrize("schedule", ["sequential", "residual", "flooding"])
@pytest.mark.parametrize("name", TREES)
def test_beliefs_of_trees_are_exact(name, schedule, warm_start, seed):
    energy = ZOO[name](seed)
    learner = BP(schedule=schedule, warm_start=warm_start)
    found, infos, _ = phases(learner, energy, 3, seed)
    np.testing.assert_allclose(found, [exact_moments(energy)] * 3, rtol=0, atol=1e-6)
    log_z = twins.log_sum(enumerate_states(energy)[1])
    for info in infos:
        assert info["inference_converged"] == 1.0
        assert info["residual"] <= 1e-6
        assert info["log_partition"] == pytest.approx(log_z, abs=1e-6)


def test_warm_beliefs_need_fewer_iterations(seed):
    energy = ZOO["grid"](seed)
    for warm_start in (True, False):
        _, infos, _ = phases(BP(warm_start=warm_start), energy, 2, seed)
        first, second = (info["n_propagations"] for info in infos)
        assert (second < first) is warm_start


@pytest.mark.parametrize("name", ["cycle", "grid", "complete", "orders", "tied", "zeros", "pull"])
def test_beliefs_with_loops(name, seed):
    """The learner's moments are the tied clique beliefs, which are not the exact ones."""
    energy = pull() if name == "pull" else ZOO[name](seed)
    found, _, _ = phases(BP(), energy, 1, seed)
    beliefs = messages.belief_propagation(energy, messages.Propagation(tol=1e-10)).cliques
    np.testing.assert_allclose(found[0], energy.layout.tied(beliefs), rtol=0, atol=1e-4)
    assert name != "pull" or np.abs(found[0] - exact_moments(energy)).max() > 0.01


@pytest.mark.parametrize("name", [*FINITE, "zeros", "zeros_binary"])
def test_mean_field_moments_are_products(name, seed):
    energy = ZOO[name](seed)
    found, infos, _ = phases(MeanField(tol=1e-12, max_iter=5000), energy, 2, seed)
    single = messages.mean_field(energy, tol=1e-12, max_iter=5000)
    parts = np.split(single.single, np.cumsum(energy.n_states)[:-1])
    states, log_f = enumerate_states(energy)
    p = np.array([np.prod([parts[i][s] for i, s in enumerate(x)]) for x in states])
    expected = twins.moments(energy, states, p)["log_potentials"]
    np.testing.assert_allclose(found, [expected] * 2, rtol=0, atol=1e-8)
    for info in infos:
        assert info["log_partition"] == pytest.approx(single.lower_bound, abs=1e-8)
        assert info["log_partition"] <= twins.log_sum(log_f)
        assert info["inference_converged"] == 1.0


def product_law(graph):
    """All joint states, and their probabilities were the variables independent beliefs."""
    beliefs = messages.belief_propagation(graph).single
    parts = np.split(beliefs, np.cumsum(graph.n_states)[:-1])
    states, _ = enumerate_states(graph)
    return states, np.array([np.prod([parts[i][s] for i, s in enumerate(x)]) for x in states])


def pull(strength=0.25):
    """Six spins that all pull at each other: beliefs are wrong, and the variables dependent."""
    how = {"n_variables": 6, "coupling": strength, "field": 0.1}
    return make_ising("complete", **how).factor_graph()


@pytest.mark.parametrize("name", ["chain", "cycle", "orders", "zeros_binary"])
def test_independent_draws_from_beliefs(name, seed):
    energy = ZOO[name](seed)
    _, infos, negative = phases(BPCD(n_samples=20_000), energy, 2, seed)
    assert isinstance(negative, States)
    assert negative.visible.shape == (20_000, energy.n_variables)
    check_draws(negative.visible, *product_law(energy))
    assert infos[0]["inference_converged"] == 1.0


def test_independent_draws_lose_the_pairs(seed):
    """Single marginals of beliefs, not the model's pairs: the negative control."""
    energy = pull()
    _, _, negative = phases(BPCD(n_samples=20_000), energy, 1, seed)
    check_draws(negative.visible, *product_law(energy))
    states, p = twins.distribution(energy)
    with pytest.raises(AssertionError, match="was drawn"):
        check_draws(negative.visible, states, p)
    correlations = np.corrcoef(negative.visible.T)
    assert np.abs(correlations[np.triu_indices(6, 1)]).max() < 0.04


@pytest.mark.parametrize("conditionals", ["auto", "exact"])
@pytest.mark.parametrize("name", ["chain", "cycle", "complete", "orders", "tied", "zeros"])
def test_exact_conditionals_are_unbiased(name, conditionals, seed):
    energy = ZOO[name](seed)
    learner = BPChainCD(n_samples=50, conditionals=conditionals)
    found, infos, _ = phases(learner, energy, 200, seed)
    counts = len(energy.cliques) if name == "tied" else 1  # of a tied table, cliques add up
    check_means(found / counts, exact_moments(energy) / counts)
    log_z = twins.log_sum(enumerate_states(energy)[1])
    for info in infos:
        assert info["ess"] == pytest.approx(50)
        assert info["log_partition"] == pytest.approx(log_z)
        assert info["inference_converged"] == 1.0


@pytest.mark.parametrize("name", ["cycle", "complete", "orders", "zeros", "pull"])
def test_corrected_beliefs_are_unbiased(name, seed):
    """Weighted draws, few rows known; up to the bias of order 1 / n_samples of their ratio."""
    energy = pull() if name == "pull" else ZOO[name](seed)
    learner = BPChainCD(n_samples=2000, conditionals="bp", corrected=True)
    found, infos, _ = phases(learner, energy, 100, seed, n_rows=3)
    check_means(found, exact_moments(energy))
    log_z = twins.log_sum(enumerate_states(energy)[1])
    check_mean_weight([info["log_partition"] for info in infos], log_z)
    assert all(1 <= info["ess"] <= 2000 + 1e-6 for info in infos)


def test_plain_beliefs_are_biased(seed):
    """The negative control of the correction."""
    energy = pull()
    found, infos, negative = phases(BPChainCD(2000, "bp"), energy, 100, seed)
    with pytest.raises(AssertionError, match="sigma off"):
        check_means(found, exact_moments(energy))
    assert all(info["ess"] < 1999 for info in infos)
    np.testing.assert_allclose(np.exp(negative.log_weights).sum(), 2000)


def test_weights_of_the_correction(seed):
    """Training rows count f, the others f / q / n: together an estimate of Z and of moments."""
    rng = np.random.default_rng(seed)
    energy = pull()
    batch = Batch(model_rows(energy, 4, rng))
    learner = BPChainCD(300, "bp", corrected=True, order="index")
    state = learner.init(energy, batch, rng)
    _, negative, state, info = learner.step(energy, batch, state, rng)
    X, log_weights = negative.visible, negative.log_weights
    known = np.unique(batch.X, axis=0)
    assert {x.tobytes() for x in X[: len(known)]} == {x.tobytes() for x in known}
    log_f = energy.log_potential(X)
    np.testing.assert_allclose(log_weights[: len(known)], log_f[: len(known)])
    repeated = np.array([x.tobytes() in {k.tobytes() for k in known} for x in X[len(known) :]])
    assert (log_weights[len(known) :][repeated] == -np.inf).all()
    log_q = state.chain.log_density(energy.flat, X[len(known) :][~repeated])
    shares = 300 * np.exp(log_weights - log_f)[len(known) :][~repeated] * np.exp(log_q)
    np.testing.assert_allclose(shares, np.round(shares), atol=1e-9)  # how often each was drawn
    assert info["log_partition"] == pytest.approx(twins.log_sum(log_weights))


# In an estimator ---------------------------------------------------------------------------


def some_rows(seed, n_rows=400):
    rng = np.random.default_rng(seed)
    return model_rows(ZOO["chain"](seed), n_rows, rng)


def inference_warnings(caught):
    return [w for w in caught if str(w.message).startswith("Inference converged in")]


@pytest.mark.parametrize("name", VARIATIONAL)
def test_estimators_learn_by_it(name, seed):
    """By name and by instance alike; what history_ holds; a warning only where it is due."""
    X = some_rows(seed)
    cliques = [(i, i + 1) for i in range(5)]
    models = []
    for learner in (name, LEARNERS[name]()):
        model = DiscreteMRF(cliques, learner, max_iter=20, alpha=0.01, random_state=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            models.append(model.fit(X))
            again = clone(model).fit(X)
        n_due = 2 * (model.history_["inference_converged"][-1] < 0.99)
        assert len(inference_warnings(caught)) == n_due
        np.testing.assert_array_equal(again.energy_.flat, model.energy_.flat)
    one, two = models
    np.testing.assert_array_equal(one.energy_.flat, two.energy_.flat)
    assert np.isfinite(one.energy_.flat).all()
    columns = {"inference_converged", "log_partition"}
    if name == "bpchain-cd":
        columns.add("ess")
    assert columns <= set(one.history_)
    assert all(len(one.history_[c]) == one.n_iter_ == 20 for c in columns)
    assert all(np.isfinite(one.history_[c]).all() for c in columns)
    assert name == "mean-field" or min(one.history_["inference_converged"]) == 1.0


@pytest.mark.parametrize("learner", [BP(), BPChainCD(500), BPChainCD(500, "bp", corrected=True)])
def test_trees_are_learned_as_exactly(learner, seed):
    """Exact moments, so the likelihood is that of exact learning."""
    X = some_rows(seed)
    how = {"cliques": [(i, i + 1) for i in range(5)], "alpha": 0.001, "random_state": seed}
    best = DiscreteMRF(learner="exact", **how).fit(X).score(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = DiscreteMRF(learner=learner, max_iter=150, **how).fit(X).score(X)
    assert best - 0.02 < found < best + 1e-3


@pytest.mark.parametrize("learner", [BP(max_iter=1), BPCD(max_iter=1), MeanField(max_iter=1)])
def test_inference_that_does_not_converge_is_warned_about_once(learner, seed):
    X = some_rows(seed)
    model = DiscreteMRF("pairwise", learner, max_iter=8, alpha=0.01, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    (found,) = inference_warnings(caught)
    assert issubclass(found.category, ConvergenceWarning)
    assert "give the learner more iterations or damping" in str(found.message)
    assert model.history_["inference_converged"][-1] < 0.99


def test_chained_inference_that_does_not_converge_is_warned_about_once(seed):
    learner = BPChainCD(conditionals="bp", order="index", schedule="flooding", max_iter=2, tol=0.0)
    model = DiscreteMRF("pairwise", learner, max_iter=4, alpha=0.01, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(some_rows(seed))
    assert len(inference_warnings(caught)) == 1
    assert 0.0 <= model.history_["inference_converged"][-1] < 0.99


def test_learners_are_searched(seed):
    """Parameters of the learner go through set_params and a grid search; a clone is apart."""
    X = some_rows(seed, 100)
    cliques = [(i, i + 1) for i in range(5)]
    how = {"max_iter": 3, "alpha": 0.1, "categories": [[0, 1]] * 6, "random_state": seed}
    model = DiscreteMRF(cliques, BPChainCD(), **how)
    grid = {"learner__corrected": [False, True], "learner__n_samples": [20, 30]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(model, grid, cv=2).fit(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_.learner
    assert best.get_params()["n_samples"] == search.best_params_["learner__n_samples"]
    assert model.learner.n_samples == 100
    for learner, name, value in [
        (BP(), "damping", 0.3),
        (BPCD(), "n_samples", 7),
        (BPChainCD(), "order", "index"),
        (MeanField(), "max_iter", 9),
    ]:
        changed = clone(DiscreteMRF(learner=learner)).set_params(**{f"learner__{name}": value})
        assert getattr(changed.learner, name) == value
        assert getattr(learner, name) != value
