"""Tests of chain traces: visited states against enumeration, and swap rates of tempered chains."""

import pickle
from itertools import combinations, pairwise

import numpy as np
import pytest
import twins
from montecarlo import check_means, law, number_of, visible_states
from numpy.testing import assert_allclose, assert_array_equal
from zoo import LAYERED, ZOO

from skmrf._utils.codes import STATE
from skmrf._utils.interrupts import limit_time, remaining_time
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.inference import marginals, methods
from skmrf.inference.conditioned import ConditionedModel
from skmrf.samplers import Product, gibbs_queries, trace_chains
from skmrf.samplers import traces as module
from skmrf.samplers.gibbs_queries import record_states

MODELS = {n: ZOO[n] for n in ("cycle", "tied_binary", "zero_one", "constant_variables", "isolated")}
MODELS |= {n: LAYERED[n] for n in ("few_hidden", "many_hidden", "single_precision")}
LADDER = (0.0, 0.4, 1.0)
RUNS = {"n_chains": 256, "n_sweeps": 40, "n_discarded": 80}  # four blocks of 64 chains
each_model = pytest.mark.parametrize("name", MODELS)
plain_or_tempered = pytest.mark.parametrize("betas", [None, LADDER], ids=["plain", "tempered"])


def joint_frequencies(traces, states):
    """Return the frequency of each joint state in each chain, shape (n_chains, n_states)."""
    n_chains, n_draws, _ = traces.states.shape
    which = number_of(traces.states.reshape(n_chains * n_draws, -1), states)
    cells = np.repeat(np.arange(n_chains), n_draws) * len(states) + which
    return np.bincount(cells, minlength=n_chains * len(states)).reshape(n_chains, -1) / n_draws


def check_marginals(traces, states, p):
    """Check marginals of single variables and pairs, with one value per chain.

    States with a probability below 0.01 are left out, as their errors are far from normal.
    """
    visits = joint_frequencies(traces, states)
    assert not visits[:, p == 0].any(), "a state of probability zero was visited"
    n = states.shape[1]
    for members in [(i,) for i in range(n)] + list(combinations(range(n), 2)):
        cells = (states[:, None, members] == np.unique(states[:, members], axis=0)).all(axis=2)
        cells = cells[:, p @ cells > 0.01]
        check_means(visits @ cells, p @ cells)


def two_mode_energy():
    """Return eight spins that agree, mostly on the upper state; single flips do not change mode."""
    coupling = 0.9 * (1 - np.eye(8))
    return PairwiseEnergy(coupling, np.full(8, 0.1))


# Recorded states ---------------------------------------------------------------------------


@plain_or_tempered
@each_model
@pytest.mark.long
def test_traces_follow_the_model(name, betas, seed):
    energy = MODELS[name](seed)
    how = {**RUNS, "random_state": seed}
    traces = trace_chains(energy, betas=betas, **how)
    states, (_, p) = visible_states(energy), law(energy)
    check_marginals(traces, states, p)


@plain_or_tempered
def test_check_detects_other_distributions(betas, seed):
    """Negative control: a chain without warm-up, and a model at another temperature."""
    energy = MODELS["cycle"](seed)
    states, (_, p) = visible_states(energy), law(energy)
    how = {"betas": betas, "random_state": seed}
    early = trace_chains(energy, n_chains=4000, n_sweeps=1, n_discarded=0, **how)
    hotter = trace_chains(energy.tempered(0.8), **RUNS, **how)
    for traces in (early, hotter):
        with pytest.raises(AssertionError):
            check_marginals(traces, states, p)


@pytest.mark.long
def test_tempered_chains_change_modes_and_plain_ones_do_not(seed):
    energy = two_mode_energy()
    states, (_, p) = visible_states(energy), law(energy)
    how = {"n_chains": 256, "n_sweeps": 60, "n_discarded": 120, "random_state": seed}
    check_marginals(trace_chains(energy, betas=6, **how), states, p)
    stuck = trace_chains(energy, **how)
    with pytest.raises(AssertionError):
        check_marginals(stuck, states, p)
    upper = stuck.states.mean(axis=(1, 2))
    assert ((upper < 0.1) | (upper > 0.9)).mean() > 0.95


@plain_or_tempered
@pytest.mark.parametrize(
    ("name", "evidence"),
    [("cycle", {1: 2}), ("zero_one", {5: 0, 0: 1}), ("few_hidden", {1: 1, 3: 0})],
)
def test_evidence_stays(name, evidence, betas, seed):
    energy = MODELS[name](seed)
    states, (_, p) = visible_states(energy), law(energy)
    p = np.where(twins.consistent(states, evidence), p, 0.0)
    how = {**RUNS, "random_state": seed}
    traces = trace_chains(energy, betas=betas, evidence=evidence, **how)
    check_marginals(traces, states, p / p.sum())


@plain_or_tempered
def test_log_potentials_of_recorded_states(betas, seed):
    for name, evidence in (("cycle", {0: 1}), ("few_hidden", None), ("few_hidden", {2: 1})):
        energy = MODELS[name](seed)
        traces = trace_chains(
            energy, n_chains=3, n_sweeps=20, betas=betas, evidence=evidence, random_state=seed
        )
        states, (log_f, _) = visible_states(energy), law(energy)
        assert traces.states.shape == (3, 20, states.shape[1])
        assert traces.states.dtype == STATE
        which = number_of(traces.states.reshape(60, -1), states).reshape(3, 20)
        assert_allclose(traces.log_potential, log_f[which], rtol=0, atol=1e-10)


@plain_or_tempered
@each_model
def test_thinning_keeps_every_kth_state(name, betas, seed):
    energy = MODELS[name](seed)
    how = {"n_chains": 1, "n_sweeps": 23, "n_discarded": 10, "betas": betas}
    how["random_state"] = seed
    every_one, thinned = (trace_chains(energy, thin=thin, **how) for thin in (1, 5))
    assert_array_equal(thinned.states, every_one.states[:, 4:20:5])
    assert_array_equal(thinned.log_potential, every_one.log_potential[:, 4:20:5])


@pytest.mark.parametrize("betas", [None, 3])
def test_results_do_not_depend_on_n_jobs(betas, seed):
    energy = MODELS["few_hidden"](seed)
    how = {"n_chains": 150, "n_sweeps": 5, "n_discarded": 120, "betas": betas, "random_state": seed}
    one, two = (trace_chains(energy, n_jobs=n, **how) for n in (None, 2))
    assert_array_equal(one.states, two.states)
    assert_array_equal(one.swap_rates, two.swap_rates)
    assert_array_equal(one.betas, two.betas)
    assert one.round_trips == two.round_trips


@pytest.mark.parametrize("betas", [None, LADDER])
def test_short_blocks_run_in_threads(betas, monkeypatch):
    """Blocks that take less than about a second are not sent to other processes."""
    sent = []

    def run_blocks(function, blocks, _n_jobs, *, long):
        sent.append(long)
        return [function(*block) for block in blocks]

    monkeypatch.setattr(module, "run_blocks", run_blocks)
    how = {"n_chains": 65, "n_sweeps": 30, "n_discarded": 10, "random_state": 0}
    work = 64 * 40 * (3 if betas else 1) * 2
    for limit in (work - 1, work):
        monkeypatch.setattr(module, "UPDATES_TO_SEND", limit)
        trace_chains(FactorGraph([2, 2], [], []), betas=betas, **how)
    assert sent == [True, False]


def test_blocks_have_different_starts(seed):
    traces = trace_chains(
        FactorGraph([2] * 40, [], []), n_chains=130, n_sweeps=1, n_discarded=0, random_state=seed
    )
    assert len(np.unique(traces.states[:, 0], axis=0)) == 130


def test_traces_pickle(seed):
    for betas in (None, LADDER):
        traces = trace_chains(MODELS["cycle"](seed), n_sweeps=3, betas=betas, random_state=seed)
        back = pickle.loads(pickle.dumps(traces))
        assert_array_equal(back.states, traces.states)
        assert_array_equal(back.swap_rates, traces.swap_rates)
        assert back.round_trips == traces.round_trips
    plain = trace_chains(MODELS["cycle"](seed), n_sweeps=3)
    assert (plain.betas, plain.swap_rates, plain.round_trips) == (None, None, None)


# Swaps -------------------------------------------------------------------------------------


def exact_swap_rates(energy, betas):
    """Return the swap rates of neighbours that both follow their own distribution."""
    reference, out = Product.uniform(energy.visible_states), []
    for hot, cold in pairwise(betas):
        (log_hot, p), (log_cold, q) = (law(energy, beta, reference) for beta in (hot, cold))
        gain = (log_cold - log_hot)[:, None] - (log_cold - log_hot)[None]
        out.append(np.sum(np.outer(p, q) * np.exp(np.minimum(gain, 0.0))))
    return np.array(out)


@pytest.mark.parametrize("name", ["cycle", "zero_one", "few_hidden"])
@pytest.mark.long
def test_swap_rates(name, seed):
    energy = MODELS[name](seed)
    rng = np.random.default_rng(seed)
    how = {"n_chains": 64, "n_sweeps": 30, "n_discarded": 30, "betas": LADDER}
    runs = [trace_chains(energy, random_state=rng, **how).swap_rates for _ in range(16)]
    runs = np.array(runs)
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    assert (error < 0.008).all()
    expected = exact_swap_rates(energy, LADDER)
    assert (np.abs(runs.mean(axis=0) - expected) < 5 * error).all()
    for wrong in (expected + 0.05, exact_swap_rates(energy, (0.0, 0.5, 1.0))):
        assert (np.abs(runs.mean(axis=0) - wrong) > 5 * error).any()


def test_swap_rates_are_weighted_by_block_size(seed):
    """A block of 64 chains and a block of one chain have their own swaps."""
    energy = FactorGraph([2], [(0,)], [[0.0, 3.0]])
    how = {"n_sweeps": 1, "n_discarded": 0, "betas": (0.0, 1.0), "random_state": seed}
    alone = trace_chains(energy, n_chains=64, **how).swap_rates[0]
    rate = trace_chains(energy, n_chains=65, **how).swap_rates[0]
    assert min(abs(65 * rate - 64 * alone - c) for c in (1.0, np.exp(-3.0))) < 1e-10


def test_swap_rate_of_untried_pair_is_nan(seed):
    traces = trace_chains(
        MODELS["cycle"](seed), n_sweeps=1, n_discarded=0, betas=(0.1, 0.5, 1.0), random_state=seed
    )
    assert traces.swap_rates[0] > 0
    assert np.isnan(traces.swap_rates[1])


@pytest.mark.slow
def test_ladders_are_adapted(seed):
    energy = two_mode_energy()
    how = {"n_chains": 64, "n_sweeps": 400, "random_state": seed}
    even = trace_chains(energy, betas=np.linspace(0, 1, 6), **how)
    adapted = trace_chains(energy, betas=6, n_discarded=1000, **how)
    assert_array_equal(even.betas, np.linspace(0, 1, 6))
    assert (adapted.betas[0], adapted.betas[-1]) == (0.0, 1.0)
    assert adapted.swap_rates.min() > 1.2 * even.swap_rates.min()
    assert np.ptp(adapted.swap_rates) < 0.5 * np.ptp(even.swap_rates)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_round_trips(n):
    """If every swap is made, a replica returns after 2 n sweeps."""
    energy = FactorGraph([2, 2], [], [])
    traces = trace_chains(energy, n_chains=67, n_sweeps=2 * n * 5, n_discarded=8 * n, betas=n)
    assert traces.round_trips == 67 * n * 5
    assert_array_equal(traces.swap_rates, np.ones(n - 1))
    assert_allclose(traces.betas, np.linspace(0, 1, n))


# Edge cases --------------------------------------------------------------------------------


@plain_or_tempered
def test_all_variables_observed(betas, seed):
    energy = ZOO["chain"](seed)
    evidence = {i: i % 2 for i in range(6)}
    traces = trace_chains(energy, n_sweeps=3, betas=betas, evidence=evidence)
    assert (traces.states == np.arange(6) % 2).all()
    assert_allclose(traces.log_potential, energy.log_potential([[0, 1, 0, 1, 0, 1]])[0])


def test_no_possible_state_found_raises():
    """Two states of six equal variables are possible, and single flips never reach them."""
    table = np.full((3,) * 6, -np.inf)
    table[(0,) * 6] = table[(2,) * 6] = 0.0
    energy = FactorGraph([3] * 6, [tuple(range(6))], [table])
    with pytest.raises(ValueError, match="None of 4 Gibbs chains found a state of positive"):
        trace_chains(energy, n_sweeps=1, n_discarded=0, random_state=0)
    with limit_time(60.0), pytest.raises(ValueError, match="the time limit is too short, the evid"):
        trace_chains(energy, n_sweeps=1, n_discarded=0, random_state=0)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"n_chains": 0}, "n_chains must be an integer >= 1"),
        ({"n_sweeps": 0}, "n_sweeps must be an integer >= 1"),
        ({"n_discarded": -1}, "n_discarded must be an integer >= 0"),
        ({"n_sweeps": 4, "thin": 5}, "thin must be an integer >= 1 and <= 4"),
        ({"betas": 1}, "betas must be an integer >= 2"),
        ({"betas": [0.5, 0.9]}, "inverse temperatures that increase to 1"),
        ({"evidence": {9: 0}}, "Evidence names variable 9"),
        ({"evidence": {0: 2}}, "Evidence gives variable 0 the state 2"),
        ({"random_state": "a"}, "random_state must be"),
    ],
)
def test_invalid_parameters_raise(how, message):
    with pytest.raises(ValueError, match=message):
        trace_chains(ZOO["chain"](0), **how)


def test_evidence_on_hidden_units_raises(seed):
    with pytest.raises(ValueError, match="the variables are 0 to 4"):
        trace_chains(LAYERED["few_hidden"](seed), evidence={5: 1})


def test_unsupported_energy_raises():
    with pytest.raises(TypeError, match=r"takes an energy of discrete variables.*Got ndarray"):
        trace_chains(np.eye(2))


# Averages of conditional probabilities -----------------------------------------------------


def brute_force_conditionals(graph, x):
    """Return the probabilities of the states of each variable given the other states of a row."""
    out = []
    for i, q in enumerate(graph.n_states):
        rows = np.repeat(x[None], q, axis=0)
        rows[:, i] = np.arange(q)
        logs = graph.log_potential(rows)
        out.append(np.exp(logs - np.logaddexp.reduce(logs)))
    return np.concatenate(out)


@pytest.mark.parametrize("name", ["zero_one", "complete", "one_state"])
def test_averages_of_conditionals(name, seed):
    graph = ZOO[name](seed).factor_graph()
    X = Product.uniform(graph.n_states).sample(12, np.random.default_rng(seed))
    found = gibbs_queries.average_conditionals(graph, X, 4)
    expected = np.stack([brute_force_conditionals(graph, x) for x in X])
    assert_allclose(found, expected.reshape(3, 4, -1).mean(axis=0), atol=1e-6)


def test_frequencies_without_a_matrix_of_couplings(seed):
    graph = ZOO["orders"](seed)
    X = Product.uniform(graph.n_states).sample(12, np.random.default_rng(seed))
    found = gibbs_queries.average_conditionals(graph, X, 4)
    counts = [(X[:, i, None] == np.arange(q)) for i, q in enumerate(graph.n_states)]
    expected = np.concatenate(counts, axis=1).reshape(3, 4, -1).mean(axis=0)
    assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("coupling", "n_runs"), [(0.02, 1), (0.3, 2)])
def test_few_chains_are_enough_for_weak_couplings(coupling, n_runs, seed, monkeypatch):
    record, runs = gibbs_queries.record_states, []

    def count(energy, rng, **how):
        runs.append(how)
        return record(energy, rng, **how)

    monkeypatch.setattr(gibbs_queries, "record_states", count)
    graph = PairwiseEnergy(coupling * (1.0 - np.eye(12)), np.full(12, -coupling)).factor_graph()
    row = np.full(12, -1, dtype=STATE)
    row[0] = 1  # it cancels the biases
    states = visible_states(graph)
    p = np.exp(graph.log_potential(states)) * (states[:, 0] == 1)
    model = ConditionedModel.of_row(graph, row, np.random.default_rng(seed))
    found = methods.quick_gibbs_marginals(model)[1::2]
    assert len(runs) == n_runs
    assert found[0] == 1.0
    error = 0.005 if n_runs == 1 else 0.2  # chains of strong couplings rarely change their mode
    assert_allclose(found, p @ states / p.sum(), atol=5 * error)


# Standard errors of records -----------------------------------------------------------------


def test_recorded_states_and_standard_error(seed):
    energy = ZOO["orders"](seed)
    states, p = twins.distribution(energy)
    X, residual = record_states(energy, np.random.default_rng(seed), n_sweeps=100)
    assert X.shape == (256 * 50, 5)
    assert 0 < residual < 0.03
    for i, expected in enumerate(twins.single_marginals(states, p, energy.n_states)):
        found = np.bincount(X[:, i], minlength=len(expected)) / len(X)
        assert np.abs(found - expected).max() < 5 * residual


def test_chains_continue_until_convergence(seed):
    """Each chain rarely leaves one of the two common states of four equal variables."""
    energy = PairwiseEnergy(0.6 * (1.0 - np.eye(4)), np.zeros(4))
    how, drawn = {"n_sweeps": 20, "n_records": 40}, []
    for until_converged in (False, True):
        rng = np.random.default_rng(seed)
        X, error = record_states(energy, rng, until_converged=until_converged, **how)
        assert X.shape == (256 * 40, 4)
        drawn.append(error)
    assert drawn[1] < 0.01 < drawn[0]
    assert_allclose(X.mean(axis=0), 0.5, atol=5.0 * error)
    with limit_time(0.0):
        X, _ = record_states(energy, rng, until_converged=True, **how)
    assert len(X) == 256
    few = {"n_chains": 64, "n_sweeps": 20, "n_records": 1}
    with limit_time(60.0):
        assert record_states(energy, rng, until_converged=True, **few)[1] < 1 / 8
        assert remaining_time() > 30.0


def test_automatic_marginals_continue_to_the_time_limit(seed):
    energy = PairwiseEnergy(0.85 * (1.0 - np.eye(4)), np.zeros(4))
    how = {"max_bytes": 1.0, "random_state": seed}  # exact inference does not fit
    assert marginals(energy, time_limit=60.0, **how).residual < 0.01
    with pytest.warns(UserWarning, match="averages over Gibbs chains"):
        assert marginals(energy, **how).residual > 0.01
