"""Tests of ladders of models: exact swaps, mixing, log Z by bridge sampling and by references."""

import pickle
import warnings
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest
from montecarlo import check_counts, check_invariant, law, random_product, visible_states
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from twins import log_sum
from zoo import layers

from skmrf import RBM, BoltzmannMachine, DiscreteMRF
from skmrf._utils.codes import STATE
from skmrf._utils.results import LogPartition
from skmrf._utils.rows import Batch
from skmrf.energies import BipartiteEnergy, FactorGraph, PairwiseEnergy
from skmrf.estimators import _density, _refinement
from skmrf.learners import PCD, PTT
from skmrf.likelihood import ais, raise_bound
from skmrf.likelihood.ladder import bennett, burn_in, combine, ladder_log_partition
from skmrf.samplers import Product, spawn_generators, sweep, trace_chains
from skmrf.samplers.ladder import Ladder, draw
from skmrf.samplers.parallel_tempering import density_ratios, swap_probability
from skmrf.samplers.traces import diagnose_chains
from skmrf.training import held_out
from skmrf.training.regularization import Fold


def spins(n, coupling, field):
    """Return strongly coupled spins: nearly all are 1, or nearly all are -1."""
    return PairwiseEnergy(coupling * (1 - np.eye(n)), np.full(n, field))


def two_patterns(scale):
    """Return an RBM whose two hidden units switch on two opposite patterns of 8 columns."""
    half = np.repeat([1.0, -1.0], 4)
    weights = scale * np.column_stack([half, -half])
    return BipartiteEnergy(weights, np.zeros(8), [-0.3, 0.3])


MODELS = {"spins": spins(8, 0.7, 0.03), "layers": two_patterns(3.0)}
each_model = pytest.mark.parametrize("name", MODELS)


def make_ladder(energy, X, rng, n_rungs=5):
    """Return a ladder from independent columns to a model, with interpolated parameters."""
    free = energy.with_theta({k: 0.0 * v for k, v in energy.theta.items()})
    ladder = Ladder.start(Product.uniform(energy.visible_states), free, X, rng)
    for k in range(1, n_rungs):
        between = free.interpolate(energy, k / n_rungs)
        ladder = ladder.insert(len(ladder) - 1, between, 1.0, X, rng)
    return ladder.with_last(energy, X)


def exact_shares(energy):
    """Return the exact probability that most of the first columns are 1."""
    states = np.array(list(product((0, 1), repeat=len(energy.visible_states))))
    p = np.exp(normalise(energy.log_marginal(states)))
    return p[is_first_mode(states)].sum()


def normalise(log_f):
    return log_f - log_sum(np.asarray(log_f, dtype=float))


def is_first_mode(X):
    return X[:, :4].sum(axis=1) > 2


def first_mode(energy, n):
    """Return n states of one mode."""
    states, (_, p) = visible_states(energy), law(energy)
    best = states[np.argmax(np.where(is_first_mode(states), p, 0.0))]
    return np.repeat(best[None], n, axis=0).astype(STATE)


# Swaps -------------------------------------------------------------------------------------


@pytest.mark.parametrize("low", [0, 1])
def test_swaps_leave_the_product_of_both_rungs_invariant(low, seed):
    """The exact transition matrix on pairs of states is reversible."""
    rng = np.random.default_rng(seed)
    energy = layers(3, 2, seed, scale=1.5)
    ladder = Ladder.start(random_product([2] * 3, rng), energy, np.zeros((1, 3), STATE), rng)
    ladder = ladder.insert(1, layers(3, 2, [seed, 1]), 0.4, np.zeros((1, 3), STATE), rng)
    rungs, states = ladder.rungs, visible_states(energy)
    S = len(states)
    pairs = np.stack([np.repeat(states, S, axis=0), np.tile(states, (S, 1))])
    accepted = swap_probability(density_ratios(rungs, pairs, [low, low + 1]))
    first, second = np.divmod(np.arange(S * S), S)
    K = np.zeros((S * S, S * S))
    K[np.arange(S * S), second * S + first] = accepted
    K[np.arange(S * S), np.arange(S * S)] += 1.0 - accepted
    laws = [rungs.log_density(states)(k) for k in (low, low + 1)]
    laws = [np.exp(normalise(log_f)) for log_f in laws]
    p = np.outer(*laws).ravel()
    check_invariant(p, K)
    assert_allclose(p[:, None] * K, (p[:, None] * K).T, rtol=0, atol=1e-14)
    with pytest.raises(AssertionError):  # negative control: swaps without rejection
        check_invariant(p, np.eye(S * S)[second * S + first])


def test_impossible_states_are_never_swapped():
    ratios = np.array([[-np.inf, 0.0, 0.0, 1.0], [0.0, np.inf, -np.inf, 0.0]])
    assert_array_equal(swap_probability(ratios), [0.0, 0.0, 1.0, 1.0])


@pytest.mark.parametrize("dtype", [float, np.float32])
def test_rungs_keep_their_distributions(dtype, seed):
    """Chains that start in equilibrium stay there, at every rung."""
    rng = np.random.default_rng(seed)
    energy = layers(4, 3, seed, dtype=dtype)
    n = 20_000
    ladder = Ladder.start(random_product([2] * 4, rng), energy, np.zeros((n, 4), STATE), rng)
    ladder = ladder.insert(1, energy, 0.5, ladder.states[1], rng)
    states, laws = visible_states(energy), []
    for k in range(len(ladder)):
        laws.append(np.exp(normalise(ladder.rungs.log_density(states)(k).astype(float))))
        ladder.states[k] = states[rng.choice(len(states), size=n, p=laws[k] / laws[k].sum())]
    for _ in range(4):
        ladder, _ = ladder.advance(rng)
    codes = ladder.states @ np.array([8, 4, 2, 1])
    for k, p in enumerate(laws):
        counts = np.bincount(codes[k], minlength=16)
        check_counts(counts, p)
        with pytest.raises(AssertionError, match="was drawn"):
            check_counts(counts, np.roll(p, 1))


# Modes -------------------------------------------------------------------------------------


@pytest.mark.long
@each_model
def test_ladders_find_both_modes(name, seed):
    """Plain chains stay in the mode where they start; chains of a ladder leave it."""
    energy, rng = MODELS[name], np.random.default_rng(seed)
    X, true = first_mode(energy, 200), exact_shares(energy)
    assert 0.2 < true < 0.8
    stuck, _ = sweep(energy, X, spawn_generators(rng, 200), n_sweeps=100)
    assert is_first_mode(stuck).mean() > true + 0.15
    ladder, shares, trips = make_ladder(energy, X, rng), [], 0.0
    for k in range(110):
        ladder, info = ladder.advance(rng)
        trips += info["round_trips"]
        if k >= 40:
            shares.append(is_first_mode(ladder.states[-1]).mean())
    error = np.sqrt(true * (1 - true) / 200)
    assert trips > 1
    assert abs(np.mean(shares) - true) < 5 * error
    drawn = draw(ladder.compact(), 300, rng)
    assert abs(is_first_mode(drawn).mean() - true) < 5 * np.sqrt(true * (1 - true) / 200)


# log Z -------------------------------------------------------------------------------------


def test_bennett_of_gaussians(seed):
    """The log ratio of two unnormalised normal densities is known."""
    rng = np.random.default_rng(seed)
    n, values, errors = 200, [], []
    for _ in range(10):
        low, high = rng.normal(0.0, 1.0, size=(5, n)), rng.normal(1.0, 0.5, size=(5, n))
        ratio = [-2.0 * (x - 1.0) ** 2 + 0.5 * x**2 for x in (low, high)]
        value, influence = bennett(ratio[0], -ratio[1])
        values.append(value - np.log(0.5))
        errors.append(np.sqrt((influence**2).sum()))
    z = np.array(values) / errors
    assert np.abs(z).max() < 5
    assert abs(values[0] + np.log(0.5)) > 5 * errors[0]  # negative control: not zero
    assert 0.3 < np.sqrt(np.mean(z**2)) < 2.0


@each_model
def test_log_partition_is_that_of_enumeration(name, seed):
    energy, z = MODELS[name], []
    exact = log_sum(law(energy)[0])
    for k in range(3):
        rng = np.random.default_rng([seed, k])
        ladder = burn_in(make_ladder(energy, first_mode(energy, 64), rng), rng)
        estimate = ladder_log_partition(ladder, rng)
        result = estimate.result
        assert result.converged
        assert result.upper - result.lower < 0.5
        z.append((result.value - exact) / result.std_error)
        assert len(estimate.log_partitions) == len(ladder)
        assert min(estimate.ess_up.min(), estimate.ess_down.min()) == pytest.approx(result.ess)
    assert np.abs(z).max() < 5
    assert np.sqrt(np.mean(np.square(z))) < 2.5


def test_stuck_ladder_has_no_upper_limit(seed):
    """Without swaps between the first two rungs, the mass of other modes is unknown."""
    rng = np.random.default_rng(seed)
    energy = spins(30, 1.0, 0.0)
    X = np.ones((8, 30), dtype=STATE)
    ladder = Ladder.start(Product.uniform([2] * 30), energy, X, rng)
    result = ladder_log_partition(ladder, rng).result
    assert not result.converged
    assert result.upper == np.inf


def interval(value, half_width, converged=True, upper=None):
    upper = value + half_width if upper is None else upper
    return LogPartition(value, 0.1, value - half_width, upper, False, "", converged, 50.0)


def test_combined_estimates():
    wide, narrow = interval(10.0, 0.5), interval(10.05, 0.1)
    assert combine(wide, narrow) is narrow
    assert combine(narrow, wide) is narrow
    assert combine(wide, interval(10.3, 0.1)) is wide
    apart = combine(interval(10.0, 0.1), interval(12.0, 0.1))
    assert (apart.lower, apart.upper, apart.converged) == (9.9, 12.1, False)
    unknown = interval(9.0, 0.5, converged=False, upper=np.inf)
    assert combine(unknown, narrow) is narrow
    assert combine(narrow, unknown) is narrow
    larger = combine(interval(11.0, 0.5, converged=False, upper=np.inf), narrow)
    assert larger.upper == np.inf
    assert not larger.converged


# Estimators --------------------------------------------------------------------------------


def fit_two_modes(seed, **parameters):
    """Return an RBM of rows of 8 columns in two opposite modes, and the rows."""
    rng = np.random.default_rng(seed)
    first = rng.random((300, 1)) < 0.3
    X = ((first ^ (np.arange(8) < 4)) ^ (rng.random((300, 8)) < 0.02)).astype(int)
    model = RBM(8, PTT(n_chains=100), alpha=0.01, max_iter=150, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.set_params(**parameters).fit(X), X


def test_fitted_ladder(seed):
    model, X = fit_two_modes(seed)
    ladder = model.ladder_
    assert ladder.energy is model.energy_
    assert ladder.states.dtype == np.uint8
    assert model.ladder_ is ladder
    samples = model.sample(200, random_state=seed)
    true = exact_shares(model.energy_)
    assert 0.4 < true < 0.9
    assert abs(is_first_mode(samples).mean() - true) < 5 * np.sqrt(true * (1 - true) / 100)
    result = ladder_log_partition(ladder, seed).result
    assert abs(result.value - model.log_partition_) < 5 * result.std_error
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.sample(20, random_state=1), model.sample(20, random_state=1))
    with pytest.warns(ConvergenceWarning, match="Learning had not converged"):
        model.set_params(learner="pcd", max_iter=2).fit(X)
    assert not hasattr(model, "ladder_")


def test_diagnosis_of_chains(seed):
    """The diagnosis finds chains that stay in one of two modes; chains in both modes agree."""
    energy, rng = MODELS["spins"], np.random.default_rng(seed)
    uneven = PairwiseEnergy(energy.coupling, np.full(8, 0.3))
    states, (_, p) = visible_states(uneven), law(uneven)
    draws = states[rng.choice(len(states), size=400, p=p)]
    good = diagnose_chains(uneven, draws[:200], draws[200:], rng)
    assert good["r_hat"] < 1.1
    assert good["missed"] < 0.05
    stuck = np.zeros((200, 8), dtype=STATE)
    bad = diagnose_chains(uneven, stuck, draws[200:], rng)
    assert bad["r_hat"] > 1.2
    assert bad["missed"] > 0.5
    assert bad["autocorrelation_time"] > 1


def test_equilibrium_of_a_fit(seed):
    model, _ = fit_two_modes(seed, max_iter=40)
    diagnosis = model.equilibrium_
    assert set(diagnosis) == {"autocorrelation_time", "r_hat", "missed", "round_trips"}
    assert diagnosis["round_trips"] > 1
    assert model.equilibrium_ is diagnosis
    model, _ = fit_two_modes(seed, max_iter=40, learner="pcd")
    assert np.isnan(model.equilibrium_["round_trips"])
    model._cache.clear()
    model._chains = np.zeros((100, 8), dtype=np.uint8)  # a state that the model does not favour
    with pytest.warns(ConvergenceWarning, match='learner="ptt"'):
        assert model.equilibrium_["missed"] > 0.2


def test_equilibrium_of_tables():
    X = np.tile([[0, 0, 1], [1, 2, 0], [0, 1, 1], [1, 1, 0]], (20, 1))
    model = DiscreteMRF(learner="pcd", alpha=0.1, max_iter=20, random_state=0).fit(X)
    assert model.equilibrium_["r_hat"] < 1.2
    assert model.equilibrium_["missed"] < 0.2


def test_log_partition_uses_the_ladder(monkeypatch, seed):
    """Without an exact sum, log Z comes from annealing and from the ladder."""
    model, _ = fit_two_modes(seed, max_iter=20)
    exact = model.log_partition_
    model._cache.clear()

    def annealed(energy, **options):
        del options["max_bytes"]
        return ais(energy, n_temperatures=100, **options)

    monkeypatch.setattr(_density, "log_partition_bounds", annealed)
    lower, upper = model.log_partition_interval_
    assert lower - 0.1 < exact < upper + 0.1
    assert upper - lower < 0.5
    assert model.log_partition_method_ in ("ais", "ladder")
    assert "ladder" in model._cache


def test_exact_queries_need_no_ladder(seed):
    X = np.random.default_rng(seed).integers(0, 2, size=(60, 4))
    model = BoltzmannMachine(PTT(20), states=(0, 1), alpha=0.1, max_iter=1000, random_state=seed)
    model.fit(X)
    assert model.log_partition_method_ == "exact"
    assert model.sample(3, random_state=0).shape == (3, 4)
    assert "ladder" not in model._cache


# Recorded chains ---------------------------------------------------------------------------


def test_recorded_chains_of_a_ladder_change_modes(seed):
    energy, rng = MODELS["layers"], np.random.default_rng(seed)
    ladder = make_ladder(energy, first_mode(energy, 256), rng)
    how = {"n_chains": 256, "n_sweeps": 60, "n_discarded": 60, "random_state": seed}
    traces = trace_chains(energy, ladder=ladder, **how)
    shares = is_first_mode(traces.states.reshape(-1, 8)).reshape(256, -1).mean(axis=1)
    error = shares.std(ddof=1) / np.sqrt(len(shares))
    assert abs(shares.mean() - exact_shares(energy)) < 5 * error
    assert traces.round_trips > 50
    assert traces.swap_rates.shape == (len(ladder) - 1,)
    assert_allclose(traces.log_potential[:, 0], energy.log_marginal(traces.states[:, 0]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_recorded_chains_of_a_fitted_ladder(seed):
    X = np.random.default_rng(seed).integers(0, 2, (60, 5))
    model = RBM(3, "ptt", max_iter=3, alpha=0.1, random_state=seed).fit(X)
    how = {"n_sweeps": 5, "n_discarded": 2, "random_state": seed}
    traces = trace_chains(model.energy_, ladder=model.ladder_, n_chains=70, n_jobs=2, **how)
    same = trace_chains(model.energy_, ladder=model.ladder_, n_chains=70, **how)
    assert_array_equal(traces.states, same.states)


def test_ladder_of_another_model():
    energy = MODELS["layers"]
    ladder = make_ladder(energy, first_mode(energy, 8), np.random.default_rng(0))
    with pytest.raises(ValueError, match="has another model"):
        trace_chains(two_patterns(1.0), ladder=ladder)
    with pytest.raises(ValueError, match="n_chains=9 is more than the 8 chains"):
        trace_chains(energy, ladder=ladder, n_chains=9)
    with pytest.raises(ValueError, match="excludes betas and evidence"):
        trace_chains(energy, ladder=ladder, betas=3)
    with pytest.raises(TypeError, match="ladder_ of an estimator"):
        trace_chains(energy, ladder=[0.5, 1.0])


def test_modes_of_boltzmann_machines_raise_log_z(monkeypatch, seed):
    """An estimate that misses all ones has no upper limit, and a warning names the modes."""
    model = BoltzmannMachine(states=(0, 1), alpha=0.1, max_iter=1, random_state=seed)
    model.fit(np.random.default_rng(seed).integers(2, size=(60, 40)))
    coupling = 0.3 * (1 - np.eye(40))
    model.energy_ = PairwiseEnergy(coupling, np.full(40, -4.6), (0, 1))
    ones = float(model.energy_.log_potential(np.ones((1, 40), dtype=int))[0])
    missed = ais(model.energy_, n_temperatures=100, random_state=seed)
    missed = replace(missed, value=0.4, lower=0.3, upper=0.5, converged=True)
    monkeypatch.setattr(_density, "log_partition_bounds", lambda *_, **__: missed)
    with pytest.warns(UserWarning, match="modes far from the training rows"):
        lower, upper = model.log_partition_interval_
    assert ones <= lower <= model.log_partition_ < ones + 1
    assert upper == np.inf


@pytest.mark.parametrize("share", [0.5, 1.5])
def test_bounds_of_modes_inside_the_interval(share, monkeypatch):
    """A lower bound of log Z inside its interval is no evidence of missed modes."""
    model = BoltzmannMachine("pcd", n_components=0, alpha=0.1, max_iter=1, random_state=0)
    with warnings.catch_warnings(action="ignore"):
        model.fit(np.random.default_rng(0).choice([-1, 1], size=(60, 5)))
    found = ais(model.energy_, n_temperatures=100, random_state=0)
    found = replace(found, value=1.0, lower=0.0, upper=2.0, converged=True)
    monkeypatch.setattr(_density, "log_partition_bounds", lambda *_, **__: found)
    monkeypatch.setattr(_density, "mode_bound", lambda *_: share)
    with warnings.catch_warnings(action="error"):
        assert model.log_partition_interval_ == (share, 2.0)
    assert model.log_partition_ == max(1.0, share)


# Other references of log Z ------------------------------------------------------------------


def test_references_with_a_zero_probability_are_refused():
    energy = spins(2, 0.5, 0.0)
    reference = Product(np.array([0.0, -np.inf, np.log(0.5), np.log(0.5)]), np.array([0, 2]))
    for query in (ais, partial(raise_bound, X=[[0, 0]])):
        with pytest.raises(ValueError, match="reference has states whose probability is 0"):
            query(energy, reference=reference)


@pytest.mark.parametrize("first_converges", [False, True])
def test_second_log_partition_from_the_forest(first_converges, seed, monkeypatch):
    """Annealing starts at the Chow-Liu forest only if log Z has not converged."""
    monkeypatch.setattr(held_out, "N_REFERENCE_TEMPERATURES", (50, 100))
    X = np.random.default_rng(seed).choice([0, 1], (300, 22))
    X[:, 1] = X[:, 0]
    model = BoltzmannMachine(states=(0, 1), max_iter=10, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    wide = LogPartition(0.0, 1.0, -50.0, 50.0, False, "ais", first_converges)
    monkeypatch.setattr(_density, "log_partition_bounds", lambda *_, **__: wide)
    references = []

    def record(energy, reference, **options):
        references.append(reference.coupling[0, 1])
        return ais(energy, reference=reference, **options)

    monkeypatch.setattr(_density, "ais", record)
    lower, upper = pickle.loads(pickle.dumps(model)).log_partition_interval_
    assert (upper - lower < 1.0) == (not first_converges)
    assert len(references) == (not first_converges)
    if not first_converges:
        expected = ais(model.energy_, random_state=seed)
        assert references[0] > 1.0  # an edge of the forest
        assert max(lower, expected.lower) <= min(upper, expected.upper) + 0.1


def far_mode(n=40):
    """Return a model whose probable state, all ones, is far from a reference model near zeros."""
    pairs = list(combinations(range(n), 2))
    cliques, singles = [(i,) for i in range(n)] + pairs, [np.array([0.0, -4.6])] * n
    tables = [np.array([[0.0, 0.0], [0.0, 0.3]])] * len(pairs)
    energy = FactorGraph([2] * n, cliques, singles + tables)
    return energy, FactorGraph([2] * n, cliques, singles + [np.zeros((2, 2))] * len(pairs))


@pytest.mark.long
def test_modes_far_from_the_rows_raise_log_z(seed, monkeypatch):
    """Annealing from a second reference distribution finds modes that the first one misses."""
    energy, reference = far_mode()
    ones = float(energy.log_potential(np.ones((1, 40), dtype=int))[0])
    missed = ais(energy, reference=reference, n_temperatures=100, random_state=seed)
    assert missed.upper < ones - 40
    value, upper, near = _refinement.quick_log_partition(energy, reference)
    assert near < ones - 40 < ones <= value <= upper
    model = DiscreteMRF.from_energy(energy).set_params(max_bytes=2**20)
    model._tree = reference
    monkeypatch.setitem(ais.__globals__, "MAX_UPDATES", 1e8)
    with pytest.warns(ConvergenceWarning, match="log Z has not converged"):
        lower, upper = model.log_partition_interval_
    assert ones <= lower <= model.log_partition_ < ones + 1 < upper


def test_restarted_chains_find_modes_far_from_the_rows(seed):
    energy, _ = far_mode()
    rows = Batch(np.zeros((100, 40), dtype=int))
    for n_annealed in (0, 4):
        learner, rng = PCD(n_chains=64, n_annealed=n_annealed), np.random.default_rng(seed)
        state = learner.init(energy, rows, rng)
        _, phase, state, _ = learner.step(energy, rows, state, rng)
        assert (phase.visible.sum(axis=1) > 30).any() == (n_annealed > 0)
        state = replace(state, X=np.zeros_like(state.X))
        _, phase, _, _ = learner.step(energy, rows._replace(step=5), state, rng)
        assert (phase.visible.sum(axis=1) < 10).all()


def test_annealing_from_independent_columns_raises_log_z(monkeypatch):
    graph, ais = FactorGraph([2] * 3, [(0, 1), (1, 2)], [np.eye(2)] * 2), _refinement.ais

    def anneal(_, reference, **others):
        result = ais(graph, reference=reference, **others)
        return replace(result, value=99.0) if reference is None else result

    monkeypatch.setattr(_refinement, "MAX_EXACT_ENTRIES", 0)
    monkeypatch.setattr(_refinement, "ais", anneal)
    found = _refinement.quick_log_partition(graph, graph)
    assert found[:2] == (99.0, 99.0)
    assert abs(found.near) < 10.0


@pytest.mark.parametrize(("n_far", "tried"), [(0, [2]), (1, [2, 8]), (9, [2, 8, 32])])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("limit", [1, 2, 9])
def test_more_chains_restart_while_modes_are_far(n_far, tried, sign, limit, monkeypatch):
    """Ctrl-C keeps the best model so far."""
    numbers, rows = [], np.zeros((20, 1), dtype=int)

    def refine(_, learner, *__):
        if len(numbers) == limit:
            raise KeyboardInterrupt
        numbers.append(learner.n_annealed)
        return model(99.0 + sign * learner.n_annealed)

    def model(score):
        return SimpleNamespace(log_potential=lambda X: np.full(len(X), score))

    def estimate(*_):
        return _refinement.QuickLogPartition(0.0, 0.0, -1.0 if len(numbers) <= n_far else -0.1)

    monkeypatch.setattr(_refinement, "_refine", refine)
    monkeypatch.setattr(_refinement, "quick_log_partition", estimate)
    fold = Fold(None, Batch(rows), FactorGraph([2], [(0,)], [[-99.0, -99.0]]))
    search = _refinement.StrengthSearch(model(-99.0), 1.0, lambda _: None, fold, None)
    with suppress(KeyboardInterrupt):
        search.start()
    assert numbers == tried[:limit]
    assert search.best.learner.n_annealed == (numbers[-1] if sign > 0 else 2)
