"""The example of Figure 1 of the paper on chained belief propagation: six bits, four modes."""

from functools import cache
from itertools import permutations

import numpy as np
import pytest
import twins
from montecarlo import check_draws
from numpy.testing import assert_allclose
from zoo import enumerate_states

from skmrf import variational
from skmrf._utils.batch import Batch
from skmrf._utils.codes import STATE
from skmrf.energies import FactorGraph
from skmrf.inference import log_partition, marginals, sample
from skmrf.learners import BPCD, BPChainCD
from skmrf.samplers import Chain, ChainSettings, spawn_generators, sweep

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
    """One update of a site chosen at random."""
    return np.mean(site_kernels(), axis=0)


def sweep_kernel(order=range(6)):
    """One update of every site in turn."""
    kernels = site_kernels()
    K = np.eye(64)
    for i in order:
        K = K @ kernels[i]
    return K


def hitting_time(K, start, targets):
    """Expected number of steps until one of the targets is reached."""
    rest = np.setdiff1d(np.arange(64), targets)
    steps = np.linalg.solve(np.eye(len(rest)) - K[np.ix_(rest, rest)], np.ones(len(rest)))
    return steps[np.searchsorted(rest, start)]


def total_variation(p, q):
    return 0.5 * np.abs(p - q).sum()


# The table ---------------------------------------------------------------------------------


def test_the_table():
    assert_allclose(P.sum(), 1.0, rtol=0, atol=1e-12)
    assert_allclose(float(log_partition(graph())), 0.0, atol=1e-12)
    given = marginals(graph(), evidence={0: 1}).single[1]
    assert round(given[1], 4) == 0.9968
    assert_allclose(given[1], 0.4984 / 0.5, rtol=1e-12)
    for single in marginals(graph()).single:
        assert_allclose(single, 0.5, rtol=1e-12)


def test_a_bit_of_a_mode_hardly_ever_flips():
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


def test_sweeps():
    """1654 expected sweeps in the order of the bits; 1607 or 1613 in some others."""
    found = set()
    for order in permutations(range(6)):
        K = sweep_kernel(order)
        found.add(round(hitting_time(K, ZEROS, [ONES])))
    assert found == {1607, 1613, 1654}
    for order in (range(6), range(5, -1, -1)):
        K = sweep_kernel(order)
        assert_allclose(P @ K, P, rtol=0, atol=1e-14)
        assert round(hitting_time(K, ZEROS, [ONES])) == 1654


def test_gibbs_chains_stay_where_they_start(seed):
    """The law after sweeps from all zeros, exactly and as the sampler draws it."""
    K = sweep_kernel()
    law = np.zeros(64)
    law[ZEROS] = 1.0
    after = [law @ np.linalg.matrix_power(K, n) for n in (100, 1000)]
    assert [round(total_variation(q, P), 2) for q in after] == [0.49, 0.11]
    start = np.zeros((5000, 6), dtype=STATE)
    generators = spawn_generators(np.random.default_rng(seed), len(start))
    X, _ = sweep(graph(), start, generators, n_sweeps=100)
    check_draws(X, STATES, after[0])
    with pytest.raises(AssertionError, match="was drawn"):
        check_draws(X, STATES, P)


# Belief propagation ------------------------------------------------------------------------


def test_beliefs_are_exact_but_their_product_is_not(seed):
    """One clique is a tree. The product of the marginals is uniform, and far from the law."""
    found = variational.belief_propagation(graph())
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
def test_the_chain_draws_from_the_law(schedule, order, seed):
    how = variational.Propagation(schedule, damping=0.0, max_iter=20)
    chain = Chain(graph().layout, ChainSettings("bp", order, how))
    assert chain.n_chained == 6
    assert_allclose(np.exp(chain.log_density(graph().flat, STATES)), P, rtol=1e-11)
    draws = chain.draw(graph().flat, 20_000, np.random.default_rng(seed))
    assert draws.converged == 1.0
    assert draws.n_runs <= 63
    check_draws(np.repeat(draws.X, draws.counts, axis=0), STATES, P)


def test_chains_of_both_kinds_from_one_mode(seed):
    """Draws of the chain know all modes at once; so does its learner."""
    learner = BPChainCD(n_samples=5000, conditionals="bp", order="index")
    phase = negative_phase(learner, seed)
    counts = np.rint(np.exp(phase.log_weights)).astype(int)
    check_draws(np.repeat(phase.visible, counts, axis=0), STATES, P)
    for method in ("exact", "bpchain"):
        check_draws(sample(graph(), 5000, method=method, random_state=seed), STATES, P)
