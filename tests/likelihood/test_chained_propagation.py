"""Tests of chained belief propagation: log Z, other bounds, and the paper's example of six bits."""

import warnings
from functools import cache
from itertools import permutations

import numpy as np
import pytest
import twins
from montecarlo import check_draws, check_mean_weight
from numpy.testing import assert_allclose
from potentials import hard_model, true_log_z
from zoo import MODERATE, ZOO, enumerate_states

from skmrf._utils.codes import STATE
from skmrf._utils.rows import Batch
from skmrf.datasets import make_ising, make_multimodal_mrf, make_weighted_3sat
from skmrf.datasets.random_models import make_random_mrf
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.inference import log_partition, marginals, sample
from skmrf.learners import BPCD, BPChainCD
from skmrf.likelihood import chained_bp, log_partition_bounds
from skmrf.likelihood import intervals as intervals_module
from skmrf.likelihood.chained_bp import bpchain
from skmrf.samplers import gibbs, spawn_generators, sweep
from skmrf.samplers.chained_bp import ChainedSampler, ChainSettings
from skmrf.variational import belief_propagation
from skmrf.variational.belief_propagation import Propagation


def hard_models(seed, n):
    """Yield small models with loops, where belief propagation is inexact, and their log Z."""
    for k in range(n):
        how = {"random_state": 1000 * seed + k}
        energy = (
            lambda how: make_multimodal_mrf(10, **how),
            lambda how: make_weighted_3sat(10, **how),
            lambda how: make_random_mrf(8, n_cliques=16, order=3, scale=1.5, **how),
            lambda how: make_ising(
                "complete", n_variables=9, coupling=1.0, field=0.1, mixed_signs=True, **how
            ),
        )[k % 4](how)
        X = np.indices(energy.n_states).reshape(energy.n_variables, -1).T
        yield energy, twins.log_sum(energy.log_potential(X))


@cache
def estimate_by_chained_propagation(seed, n):
    """Return (true log Z, estimate, energy) of each model, with conditionals from beliefs."""
    found = []
    for k, (energy, log_z) in enumerate(hard_models(seed, n)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            rng = np.random.default_rng([seed, k])
            found.append((log_z, bpchain(energy, conditionals="bp", random_state=rng), energy))
    return found


def check_estimates(found):
    """Check that the standard errors are calibrated and that the intervals contain log Z."""
    near = np.mean([abs(r.value - log_z) < 4 * r.std_error for log_z, r, _ in found])
    assert near >= 0.95, f"{near:.3f} of the values are within four standard errors"
    held = np.mean([r.lower <= log_z <= r.upper for log_z, r, _ in found])
    assert held >= 0.93, f"{held:.3f} of the intervals hold log Z"


@pytest.mark.long
def test_chained_propagation(seed):
    found = estimate_by_chained_propagation(seed, 16)
    check_estimates(found)
    assert all(r.method == "bpchain" for _, r, _ in found)
    assert np.mean([r.converged for _, r, _ in found]) > 0.4
    assert all(r.ess >= 10 for _, r, _ in found if r.converged)


@pytest.mark.slow
def test_chained_propagation_on_many_models(seed):
    check_estimates(estimate_by_chained_propagation(seed, 80))


@pytest.mark.long
def test_check_detects_a_wrong_log_z(seed):
    """Negative control: log Z is scaled by 0.9."""
    found = [(0.9 * log_z, r, e) for log_z, r, e in estimate_by_chained_propagation(seed, 16)]
    with pytest.raises(AssertionError, match="of the values are within"):
        check_estimates(found)


@pytest.mark.parametrize("order", ["index", "elimination"])
@pytest.mark.parametrize("name", ["cycle", "orders", "zeros", "zero_one", "spin_glass"])
def test_mean_importance_weight_is_unbiased(name, order, seed):
    """The mean of f / q over samples is unbiased although the messages have not converged."""
    graph = ZOO[name](seed).factor_graph()
    how = Propagation("flooding", damping=0.0, max_iter=3, tol=0.0)
    chain = ChainedSampler(graph.layout, ChainSettings("bp", order, how, clip=0.05))
    draws = chain.draw(graph.flat, 40_000, np.random.default_rng(seed))
    log_weights = np.repeat(graph.log_potential(draws.X) - draws.log_q, draws.counts)
    log_z = true_log_z(graph)
    check_mean_weight(log_weights, log_z)
    with pytest.raises(AssertionError, match="the mean is"):
        check_mean_weight(log_weights, log_z + 0.5)


@pytest.mark.parametrize("name", ["orders", "zeros", "spin_glass"])
def test_estimate_with_enumerated_states_is_unbiased(name, seed, monkeypatch):
    """The estimate is unbiased if the last states of annealed chains are summed over."""
    defaults = gibbs.annealed_states.__kwdefaults__
    monkeypatch.setitem(defaults, "betas", np.linspace(0.0, 1.0, 3))
    monkeypatch.setattr(intervals_module, "N_BOOTSTRAPS", 2)
    energy = ZOO[name](seed)
    settings = ChainSettings("bp", "index", Propagation("flooding", 0.0, 3, 0.0), clip=0.05)
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = [
            bpchain(energy, n_samples=8, settings=settings, random_state=rng).value
            for _ in range(100)
        ]
    check_mean_weight(found, true_log_z(energy), largest_error=0.15)
    with pytest.raises(AssertionError, match="the mean is"):
        check_mean_weight(found, true_log_z(energy) + 1.0, largest_error=0.15)


@pytest.mark.parametrize("conditionals", ["auto", "exact"])
@pytest.mark.parametrize("name", ZOO)
def test_exact_conditionals_give_the_exact_value(name, conditionals, seed):
    energy = ZOO[name](seed)
    result = log_partition_bounds(
        energy, method="bpchain", conditionals=conditionals, random_state=seed
    )
    assert_allclose(result.value, true_log_z(energy), rtol=1e-12, atol=1e-11)
    assert (result.lower, result.upper) == (result.value, result.value)
    assert (result.std_error, result.ess, result.converged) == (0.0, np.inf, True)
    assert (result.method, result.upper_is_bound) == ("bpchain", True)


@pytest.mark.parametrize("name", [n for n in MODERATE if n not in ("one_state", "uniform")])
def test_result_attributes(name, seed):
    energy = ZOO[name](seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = bpchain(energy, conditionals="bp", n_samples=500, random_state=seed)
    for field in ("value", "std_error", "lower", "upper", "ess"):
        assert type(getattr(result, field)) is float
        assert np.isfinite(getattr(result, field))
    assert abs(result.value - true_log_z(energy)) < 5 * result.std_error + 1e-6
    assert result.lower <= result.value <= result.upper
    assert 0 <= result.ess <= 500 * (1 + 1e-9)
    assert result.upper_is_bound is False
    assert result.method == "bpchain"
    assert result.converged is (result.upper - result.lower <= 1.0 and result.ess >= 10)


def two_modes():
    """Return a ferromagnetic chain whose last spin is pulled up, and whose first spin down.

    Nearly all probability is on the state with all spins up. One iteration of belief propagation
    does not carry this information to the first spin.
    """
    coupling = np.zeros((10, 10))
    coupling[np.arange(9), np.arange(1, 10)] = 6.0
    bias = np.zeros(10)
    bias[0], bias[-1] = -4.0, 6.0
    return PairwiseEnergy(coupling + coupling.T, bias)


def test_missed_mode_raises_a_warning(seed):
    """The samples agree with each other; only the annealed states reveal the missed mode."""
    energy = two_modes()
    settings = ChainSettings("bp", "index", Propagation("flooding", 0.0, 1, 0.0))
    graph = energy.factor_graph()
    sampler = ChainedSampler(graph.layout, settings)
    draws = sampler.draw(graph.flat, 1000, np.random.default_rng(seed))
    assert np.average(draws.X[:, 0], weights=draws.counts) < 0.01
    with pytest.warns(UserWarning, match="samples may miss states of high probability") as caught:
        result = bpchain(energy, settings=settings, random_state=seed)
    assert caught[0].filename == __file__
    assert result.ess < 10
    assert result.converged is False
    assert abs(result.value - true_log_z(energy)) < 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = bpchain(energy, conditionals="bp", random_state=seed)
    assert result.converged
    assert result.ess > 900


def test_ess_is_zero_if_a_mode_cannot_be_sampled(seed):
    """The state up has a probability below the smallest float before the other spin is known."""
    graph = FactorGraph(
        [2, 2], [(0,), (1,), (0, 1)], [[0.0, -800.0], [0.0, 1600.0], [[0.0, -2e3], [-2e3, 0.0]]]
    )
    settings = ChainSettings("bp", "index", Propagation("flooding", 0.0, 1, 0.0))
    with pytest.warns(UserWarning, match=r"an effective sample size of 0\.0 of 1000"):
        result = bpchain(graph, settings=settings, random_state=seed)
    assert (result.ess, result.converged) == (0.0, False)
    assert_allclose(result.value, 800.0, rtol=1e-12)
    assert result.upper >= 800.0


def test_impossible_draws_lower_the_upper_limit(seed, monkeypatch):
    """Reverse weights estimate 1 / Z times the probability that a draw is possible."""
    rng = np.random.default_rng(seed)
    forward, backward = np.full(400, np.log(2.0)), np.full(400, np.log(1.0 / 8.0))
    found = intervals_module.interval(forward, backward, 1.0, rng, "bpchain", n_possible=100)
    assert np.log(2.0) <= found.upper < np.log(2.0) + 0.2  # 2 of 8 equally likely states have f = 1
    even = np.where(np.indices((2,) * 4).sum(axis=0) % 2, -np.inf, 0.0)
    cliques = [tuple(rng.choice(10, 4, replace=False).tolist()) for _ in range(7)]
    graph = FactorGraph([2] * 10, cliques, [even] * 7)
    known = []

    def estimate(*args, n_possible, **options):
        known.append(n_possible)
        return intervals_module.interval(*args, n_possible=n_possible, **options)

    monkeypatch.setattr(chained_bp, "interval", estimate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        bpchain(graph, conditionals="bp", n_samples=200, random_state=seed)
    assert 0 < known[0] < 200


def test_model_without_possible_states(seed):
    equal, other = [[0.0, -np.inf], [-np.inf, 0.0]], [[-np.inf, 0.0], [0.0, -np.inf]]
    graph = FactorGraph([2] * 3, [(0, 1), (1, 2), (2, 0)], [equal, equal, other])
    with pytest.warns(UserWarning, match="The samples may miss states"):
        result = bpchain(graph, conditionals="bp", random_state=seed)
    assert (result.value, result.lower, result.upper) == (-np.inf, -np.inf, np.inf)
    assert (result.converged, result.ess) == (False, 0.0)


@pytest.mark.parametrize("name", ["huge", "huge_binary"])
def test_huge_log_potentials_by_chained_propagation(name, seed):
    energy = ZOO[name](seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = bpchain(energy, conditionals="bp", random_state=seed)
    assert not np.isnan([result.value, result.lower, result.upper, result.std_error]).any()
    assert result.lower <= true_log_z(energy) + 1e-9


@pytest.mark.parametrize("name", ["orders", "spin_glass"])
def test_same_seed_gives_same_estimate(name, seed):
    energy = ZOO[name](seed)
    how = {"conditionals": "bp", "n_samples": 200}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        first = bpchain(energy, random_state=seed, **how)
        assert bpchain(energy, random_state=seed, **how) == first
        assert bpchain(energy, random_state=np.random.default_rng(seed), **how) == first
        assert bpchain(energy, random_state=seed + 1, **how) != first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 1}, "n_samples must be an integer >= 2; got 1."),
        ({"max_width": -1}, "max_width must be a number >= 0; got -1."),
        ({"clip": 0.7}, "clip must be a number >= 0 and <= 0.5; got 0.7."),
        (
            {"conditionals": "sampled"},
            "conditionals must be one of ['auto', 'bp', 'exact']; got 'sampled'.",
        ),
        ({"order": "best"}, "order must be one of ['elimination', 'index']; got 'best'."),
    ],
)
def test_options_of_chained_propagation_are_checked(options, message):
    with pytest.raises(ValueError) as caught:
        bpchain(ZOO["chain"](0), **options)
    assert str(caught.value) == message


# Bounds ------------------------------------------------------------------------------------------


TREES = ("chain", "zeros_binary", "tied_binary", "one_state", "disconnected", "isolated")
TREES += ("uniform", "single_variable")


@pytest.mark.parametrize("name", ZOO)
def test_variational_bounds(name, seed):
    """Mean field is a lower and tree reweighting an upper bound, also without convergence."""
    energy = ZOO[name](seed)
    log_z = true_log_z(energy)
    slack = 1e-9 * (1 + abs(log_z))
    for options in ({}, {"max_iter": 2}):
        below = log_partition_bounds(energy, method="mean-field", **options)
        above = log_partition_bounds(energy, method="trw", **options)
        assert below.lower == below.value <= log_z + slack
        assert (below.upper, below.upper_is_bound, below.method) == (np.inf, False, "mean-field")
        assert above.lower - slack <= log_z <= above.upper + slack
        assert (above.value, above.upper_is_bound, above.method) == (above.upper, True, "trw")
        assert np.isnan([below.std_error, above.std_error, below.ess, above.ess]).all()
        if not options:
            assert below.converged


def test_rounding_does_not_swap_equal_bounds(seed):
    """Both bounds equal log Z if the variables are independent."""
    for tables in np.random.default_rng(seed).normal(size=(40, 8, 3)):
        energy = FactorGraph([3] * 8, [(i,) for i in range(8)], tables)
        result = log_partition_bounds(energy, method="trw")
        assert result.lower <= result.value == result.upper


@pytest.mark.parametrize("name", ZOO)
def test_bethe_is_exact_on_trees_and_has_no_limits(name, seed):
    """The Bethe approximation has no limits because its error can have either sign."""
    energy = ZOO[name](seed)
    result = log_partition_bounds(energy, method="bethe")
    assert (result.lower, result.upper) == (-np.inf, np.inf)
    assert (result.upper_is_bound, result.method) == (False, "bethe")
    assert np.isnan([result.std_error, result.ess]).all()
    assert np.isfinite(result.value)
    if name in TREES:
        assert result.converged
        assert_allclose(result.value, true_log_z(energy), rtol=1e-12, atol=1e-10)
        above = log_partition_bounds(energy, method="trw")
        assert_allclose(above.value, result.value, rtol=1e-8, atol=1e-8)


def test_bethe_reports_non_convergence():
    energy = PairwiseEnergy(hard_model().coupling, np.linspace(-1.0, 1.0, 14))
    result = log_partition_bounds(energy, method="bethe", damping=0.0, max_iter=10)
    assert result.converged is False
    assert not log_partition_bounds(energy, method="trw", max_iter=1).converged
    assert not log_partition_bounds(energy, method="mean-field", max_iter=1).converged


# Six bits: Figure 1 of the paper on chained belief propagation -----------------------------------


MODES = {(0,) * 6: 0.4, (1,) * 6: 0.4, (0, 0, 1, 1, 0, 0): 0.097, (1, 1, 0, 0, 1, 1): 0.097}


def table():
    p = np.full([2] * 6, 0.0001)
    for mode, value in MODES.items():
        p[mode] = value
    return p


def graph():
    return FactorGraph([2] * 6, [range(6)], [np.log(table())])


STATES, P = enumerate_states(graph())[0], table().ravel()
ZEROS, ONES = 0, 63
PEAKS = np.flatnonzero(P > 0.01)


@cache
def site_kernels():
    return [twins.site_kernel(graph(), STATES, i) for i in range(6)]


def random_scan():
    """Return the transition matrix of an update of a random site."""
    return np.mean(site_kernels(), axis=0)


def sweep_kernel(order=range(6)):
    """Return the transition matrix of an update of all sites in the given order."""
    kernels = site_kernels()
    K = np.eye(64)
    for i in order:
        K = K @ kernels[i]
    return K


def hitting_time(K, start, targets):
    """Return the expected number of steps until one of the targets is reached."""
    rest = np.setdiff1d(np.arange(64), targets)
    steps = np.linalg.solve(np.eye(len(rest)) - K[np.ix_(rest, rest)], np.ones(len(rest)))
    return steps[np.searchsorted(rest, start)]


def total_variation(p, q):
    return 0.5 * np.abs(p - q).sum()


# Table of the example ----------------------------------------------------------------------


def test_table_of_the_example():
    assert_allclose(P.sum(), 1.0, rtol=0, atol=1e-12)
    assert_allclose(float(log_partition(graph())), 0.0, atol=1e-12)
    given = marginals(graph(), evidence={0: 1}).single[1]
    assert round(given[1], 4) == 0.9968
    assert_allclose(given[1], 0.4984 / 0.5, rtol=1e-12)
    for single in marginals(graph()).single:
        assert_allclose(single, 0.5, rtol=1e-12)


def test_flips_from_a_mode_are_rare():
    for i in range(6):
        flipped = STATES[ZEROS].copy()
        flipped[i] = 1
        there = int(np.flatnonzero((flipped == STATES).all(axis=1))[0])
        assert_allclose(site_kernels()[i][ZEROS, there], 1 / 4001, rtol=1e-9)


# Gibbs sampling ----------------------------------------------------------------------------


def test_hitting_times():
    K = random_scan()
    assert_allclose(K.sum(axis=1), 1.0, rtol=1e-12)
    assert_allclose(P @ K, P, rtol=0, atol=1e-14)
    assert round(hitting_time(K, ZEROS, [ONES])) == 15667
    others = np.setdiff1d(PEAKS, [ZEROS])
    assert round(hitting_time(K, ZEROS, others)) == 7621


def test_expected_number_of_sweeps():
    """Expect 1654 sweeps in the order of the bits, and 1607 or 1613 in some other orders."""
    found = set()
    for order in permutations(range(6)):
        K = sweep_kernel(order)
        found.add(round(hitting_time(K, ZEROS, [ONES])))
    assert found == {1607, 1613, 1654}
    for order in (range(6), range(5, -1, -1)):
        K = sweep_kernel(order)
        assert_allclose(P @ K, P, rtol=0, atol=1e-14)
        assert round(hitting_time(K, ZEROS, [ONES])) == 1654


def test_gibbs_chains_do_not_leave_their_mode(seed):
    """Check the distribution after sweeps from all zeros, exactly and by samples."""
    K = sweep_kernel()
    p = np.zeros(64)
    p[ZEROS] = 1.0
    after = [p @ np.linalg.matrix_power(K, n) for n in (100, 1000)]
    assert [round(total_variation(q, P), 2) for q in after] == [0.49, 0.11]
    start = np.zeros((5000, 6), dtype=STATE)
    generators = spawn_generators(np.random.default_rng(seed), len(start))
    X, _ = sweep(graph(), start, generators, n_sweeps=100)
    check_draws(X, STATES, after[0])
    with pytest.raises(AssertionError, match="was drawn"):
        check_draws(X, STATES, P)


# Belief propagation ------------------------------------------------------------------------


def test_product_of_exact_marginals_is_far_from_the_model(seed):
    """Beliefs of a single clique are exact, but the product of its marginals is uniform."""
    found = belief_propagation.belief_propagation(graph())
    assert found.converged
    assert_allclose(found.single, 0.5, rtol=1e-12)
    assert_allclose(found.cliques, P, rtol=1e-12)
    assert_allclose(found.log_partition, 0.0, atol=1e-12)
    uniform = np.full(64, 1 / 64)
    assert_allclose(total_variation(uniform, P), 0.9315, rtol=1e-10)
    X = negative_phase(BPCD(n_samples=20_000), seed).visible
    check_draws(X, STATES, uniform)


def negative_phase(learner, seed):
    rng = np.random.default_rng(seed)
    batch = Batch(STATES[PEAKS])
    return learner.step(graph(), batch, learner.init(graph(), batch, rng), rng)[1]


@pytest.mark.parametrize("order", ["index", "elimination", [3, 0, 5, 1, 4, 2]])
@pytest.mark.parametrize("schedule", ["flooding", "sequential", "residual"])
def test_chained_samples_follow_the_model(schedule, order, seed):
    how = belief_propagation.Propagation(schedule, damping=0.0, max_iter=20)
    chain = ChainedSampler(graph().layout, ChainSettings("bp", order, how))
    assert chain.n_chained == 6
    assert_allclose(np.exp(chain.log_density(graph().flat, STATES)), P, rtol=1e-11)
    draws = chain.draw(graph().flat, 20_000, np.random.default_rng(seed))
    assert draws.converged == 1.0
    assert draws.n_runs <= 63
    check_draws(np.repeat(draws.X, draws.counts, axis=0), STATES, P)


def test_chained_samples_cover_all_modes(seed):
    """Samples of the chain cover all modes, and so do the particles of its learner."""
    learner = BPChainCD(n_samples=5000, conditionals="bp", order="index")
    phase = negative_phase(learner, seed)
    counts = np.rint(np.exp(phase.log_weights)).astype(int)
    check_draws(np.repeat(phase.visible, counts, axis=0), STATES, P)
    for method in ("exact", "bpchain"):
        check_draws(sample(graph(), 5000, method=method, random_state=seed), STATES, P)
