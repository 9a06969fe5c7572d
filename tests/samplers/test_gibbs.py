"""Tests of Gibbs sweeps and annealed weights: invariance and unbiasedness."""

import pickle

import numpy as np
import pytest
import twins
import zoo
from montecarlo import check_draws, check_mean_weight, check_means, count
from numpy.testing import assert_allclose, assert_array_equal
from zoo import FINITE, MODERATE, WITH_ZEROS, ZOO, enumerate_states, random_tables

from skmrf._utils.codes import STATE
from skmrf._utils.phases import States
from skmrf.energies import BipartiteEnergy, FactorGraph, PairwiseEnergy, SemiRestrictedEnergy
from skmrf.energies.conditionals import StateConditionals, TableConditionals
from skmrf.energies.layout import Layout
from skmrf.samplers import Product, layers, spawn_generators, sweep
from skmrf.samplers.gibbs import BLOCK, move_from_hidden
from skmrf.samplers.gibbs_queries import anneal, draw, record_states
from skmrf.samplers.layers import REFRESH

TINY = tuple(n for n in ZOO if len(enumerate_states(ZOO[n](0))[0]) <= 150)
PATH = np.linspace(0.0, 1.0, 21)


def random_product(n_states, rng):
    """Return a product distribution that is not uniform."""
    log_p = [np.log(rng.dirichlet(np.full(q, 3.0))) for q in n_states]
    return Product(np.concatenate(log_p), np.cumsum(n_states) - n_states)


def short_path(name, energy, rng):
    """Return a path whose weights have a small variance, and a reference with possible states."""
    n_steps = 200 if name == "spin_glass" else 20
    uniform = name in WITH_ZEROS
    reference = (
        Product.uniform(energy.n_states) if uniform else random_product(energy.n_states, rng)
    )
    return np.linspace(0.0, 1.0, n_steps + 1), reference


def split(reference, n_states):
    return np.split(reference.log_p, np.cumsum(n_states)[:-1])


def target(energy, beta, reference):
    """Return the probabilities of all states at ``reference^(1 - beta) f^beta``."""
    states, log_f = enumerate_states(energy)
    log_reference = sum(b[states[:, i]] for i, b in enumerate(split(reference, energy.n_states)))
    log_p = log_reference if beta == 0 else beta * log_f + (1 - beta) * log_reference
    return states, np.exp(log_p - twins.log_sum(log_p)), log_reference


def exact_draws(states, p, n, rng):
    return states[rng.choice(len(states), size=n, p=p)]


def run_sweeps(energy, X, rng, **how):
    return sweep(energy, X, spawn_generators(rng, len(X)), **how)


# Transition matrices -----------------------------------------------------------------------


@pytest.mark.parametrize("beta", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("name", TINY)
def test_transition_matrix(name, beta, seed):
    """Check the kernels of sites and of whole sweeps.

    Each site kernel is a reversible projection. A sweep leaves the target invariant, and the sweep
    in the reverse order is its time reversal.
    """
    energy = ZOO[name](seed)
    reference = random_product(energy.n_states, np.random.default_rng(seed))
    states, p, _ = target(energy, beta, reference)
    sites = range(energy.n_variables)
    kernels = [
        twins.site_kernel(energy, states, i, beta, split(reference, energy.n_states)) for i in sites
    ]
    forward, backward = np.eye(len(states)), np.eye(len(states))
    for K in kernels:
        assert_allclose(K.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        assert_allclose(K @ K, K, rtol=0, atol=1e-12)
        flow = p[:, None] * K
        assert_allclose(flow, flow.T, rtol=0, atol=1e-12)
        forward = forward @ K
        backward = K @ backward
    assert_allclose(forward.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert_allclose(p @ forward, p, rtol=0, atol=1e-12)
    assert_allclose(p @ backward, p, rtol=0, atol=1e-12)
    assert_allclose(p[:, None] * forward, (p[:, None] * backward).T, rtol=0, atol=1e-12)


# Invariance --------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ZOO)
def test_sweeps_leave_the_target_invariant(name, reverse, seed):
    energy = ZOO[name](seed)
    rng = np.random.default_rng([seed, reverse])
    states, p = twins.distribution(energy)
    X = exact_draws(states, p, 10_000, rng)
    check_draws(run_sweeps(energy, X, rng, n_sweeps=10, reverse=reverse)[0], states, p)


@pytest.mark.parametrize("name", ["orders", "spin_glass", "grid", "zeros", "constant_binary"])
def test_tempered_sweeps_leave_their_target_invariant(name, seed):
    energy = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    reference = random_product(energy.n_states, rng)
    for beta in (0.4, 0.0):
        states, p, _ = target(energy, beta, reference)
        X = exact_draws(states, p, 10_000, rng)
        X, log_weights = run_sweeps(energy, X, rng, betas=[beta] * 4, reference=reference)
        check_draws(X, states, p)
        assert not log_weights.any()


@pytest.mark.parametrize("name", ["orders", "tied", "grid"])
def test_check_detects_a_wrong_target(name, seed):
    """Negative control: one entry of one table is changed by 0.3."""
    graph = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    states, p = twins.distribution(graph)
    X = exact_draws(states, p, 10_000, rng)
    flat = graph.flat.copy()
    flat[np.argmin(np.abs(twins.moments(graph, states, p)["log_potentials"] - 0.5))] += 0.3
    X, _ = run_sweeps(graph.with_theta({"log_potentials": flat}), X, rng, n_sweeps=10)
    with pytest.raises(AssertionError, match="was drawn"):
        check_draws(X, states, p)


@pytest.mark.parametrize(
    "name",
    [
        n
        if n in ("orders", "zeros", "tied", "complete")
        else pytest.param(n, marks=pytest.mark.long)
        for n in MODERATE
        if n not in ("spin_glass", "one_state")
    ],
)
def test_long_runs_converge_to_the_target(name, seed):
    energy = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    states, p = twins.distribution(energy)
    X = np.repeat(states[-1:], 128, axis=0)
    generators = spawn_generators(rng, len(X))
    X, _ = sweep(energy, X, generators, n_sweeps=200)
    frequency = np.zeros((len(X), len(states)))
    for _ in range(60):
        X, _ = sweep(energy, X, generators, n_sweeps=2)
        frequency += [count(x[None], states) for x in X]
    frequency /= 60
    singles = np.hstack([states == s for s in range(int(energy.n_states.max()))])
    expected = p @ singles
    check_means(frequency @ singles, expected)
    wrong = np.where(expected > 0.5, expected - 0.1, expected + 0.1)
    with pytest.raises(AssertionError, match="sigma off"):
        check_means(frequency @ singles, wrong)


@pytest.mark.parametrize("name", ["chain", "zero_one", "orders", "zeros_binary"])
def test_clamped_entries_stay_and_others_are_conditional(name, seed):
    energy = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    states, p = twins.distribution(energy)
    x = exact_draws(states, p, 1, rng)[0]
    mask = np.arange(energy.n_variables) % 3 == 0
    agree = (states[:, mask] == x[mask]).all(axis=1)
    given = np.where(agree, p, 0) / p[agree].sum()
    X = exact_draws(states, given, 10_000, rng)
    clamped = np.broadcast_to(mask, X.shape)
    X, _ = run_sweeps(energy, X, rng, n_sweeps=10, clamped=clamped)
    check_draws(X, states, given)


@pytest.mark.parametrize("name", ["orders", "zero_one", "constant_binary", "constant_variables"])
def test_sweep_passes_all_arguments_to_the_kernel(name, seed):
    energy = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    reference = random_product(energy.n_states, rng)
    X = reference.sample(70, rng)
    clamped = rng.random(X.shape) < 0.3
    how = {"betas": [0.0, 0.4, 1.0], "clamped": clamped}
    generators = spawn_generators(np.random.default_rng(seed), 70)
    again = spawn_generators(np.random.default_rng(seed), 70)
    for reverse in (False, True):
        found = sweep(energy, X, generators, reference=reference, reverse=reverse, **how)
        parts = split(reference, energy.n_states)
        for rng_of_block, b in zip(again, (slice(0, BLOCK), slice(BLOCK, 70)), strict=True):
            block = {**how, "clamped": clamped[b], "reverse": reverse, "reference": parts}
            expected = twins.gibbs(energy, X[b], rng_of_block, **block)
            assert_array_equal(found[0][b], expected[0])
            assert_allclose(found[1][b], expected[1], rtol=1e-11, atol=1e-12)


def test_chains_of_many_categories(seed):
    """Check blocks of chains, groups of variables and recomputed fields against NumPy."""
    rng, n = np.random.default_rng(seed), 22
    n_states = rng.integers(1, 6, n)
    cliques = [(), *((i,) for i in range(n)), *zip(*np.triu_indices(n, 1), strict=True)]
    graph = FactorGraph(n_states, cliques, random_tables(n_states, cliques, rng, 0.4))
    assert isinstance(graph.conditionals(), StateConditionals)
    reference = random_product(n_states, rng)
    betas, X = np.linspace(0.0, 1.0, REFRESH + 7), reference.sample(BLOCK + 6, rng)
    clamped, sizes = rng.random(X.shape) < 0.1, (BLOCK, 6)
    generators, again = (spawn_generators(np.random.default_rng(seed), len(X)) for _ in range(2))
    how = {"betas": betas, "reference": reference, "clamped": clamped}
    found, log_weights = sweep(graph, X, generators, **how)
    sites = np.flatnonzero(n_states > 1)
    blocks = zip(again, sizes, strict=True)
    parts = [twins.state_uniforms(g, len(betas) - 1, len(sites), m) for g, m in blocks]
    numbers = np.concatenate(parts, axis=2)
    pairs, singles, *_ = graph.conditionals()
    pairs, start = pairs[:, : len(singles)], reference.start
    expected, log_expected = X.copy(), np.zeros(len(X))
    for before, beta, uniforms in zip(betas, betas[1:], numbers, strict=False):
        log_p = reference.log_p[start + expected].sum(axis=1)
        log_expected += (beta - before) * (graph.log_potential(expected) - log_p)
        for i, u in zip(sites, uniforms, strict=True):
            own = slice(start[i], start[i] + n_states[i])
            scores = singles[own] + pairs[own][:, start + expected].sum(axis=2).T
            p = np.exp(beta * scores + (1.0 - beta) * reference.log_p[own])
            new = (np.cumsum(p, axis=1) <= u[:, None] * p.sum(axis=1, keepdims=True)).sum(axis=1)
            expected[:, i] = np.where(clamped[:, i], expected[:, i], new)
    assert_array_equal(found, expected)
    assert_allclose(log_weights, log_expected, rtol=1e-11, atol=1e-11)


def test_sweep_work_is_that_of_the_faster_chains():
    layout = Layout.build([4, 3, 2], [(0, 1), (1, 2), (1,)])
    n_draws, n_members, n_entries = 3 + 1.5 * 2, 5, 4 + 3 + 3 + 2 + 3
    assert_allclose(layout.table_work, n_draws + (3 * n_members + n_entries) / 20)
    assert FactorGraph([2, 2], [(0, 1)], [np.zeros((2, 2))]).sweep_work == 2
    for n, reach, kind in ((30, 30, StateConditionals), (200, 2, TableConditionals)):
        cliques = [(i, j) for i in range(n) for j in range(i + 1, min(i + reach, n))]
        graph = FactorGraph.from_layout(Layout.build([5] * n, cliques), np.zeros(25 * len(cliques)))
        assert isinstance(graph.conditionals(), kind)
        assert (graph.sweep_work < graph.layout.table_work) == (kind is StateConditionals)
        assert len(pickle.dumps(graph)) < 10 * graph.layout.n_parameters + 60_000


# Annealed weights --------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*MODERATE, *WITH_ZEROS])
def test_annealed_weights_are_unbiased(name, seed):
    """The mean weight is Z, and weighted end states follow the target, for any reference."""
    energy = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    states, log_f = enumerate_states(energy)
    betas, reference = short_path(name, energy, rng)
    X, log_weights = run_sweeps(
        energy, reference.sample(10_000, rng), rng, betas=betas, reference=reference
    )
    check_mean_weight(log_weights, twins.log_sum(log_f), largest_error=0.1)
    top = int(np.argmax(log_f))
    hit = (states[top] == X).all(axis=1)
    check_mean_weight(np.where(hit, log_weights, -np.inf), log_f[top], largest_error=0.1)


@pytest.mark.parametrize("name", ["chain", "orders", "zeros"])
def test_check_detects_wrong_weights(name, seed):
    energy = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    betas, reference = short_path(name, energy, rng)
    _, log_weights = run_sweeps(
        energy, reference.sample(10_000, rng), rng, betas=betas, reference=reference
    )
    log_z = twins.log_sum(enumerate_states(energy)[1])
    for wrong in (log_z + 0.2, log_z - 0.2):
        with pytest.raises(AssertionError, match="the mean is"):
            check_mean_weight(log_weights, wrong)


@pytest.mark.parametrize("name", [*MODERATE, *WITH_ZEROS])
def test_reverse_weights_are_unbiased(name, seed):
    """The mean weight of exact samples is the reference's mass of possible states over Z."""
    energy = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    betas, reference = short_path(name, energy, rng)
    states, p, log_reference = target(energy, 1.0, reference)
    X = exact_draws(states, p, 10_000, rng)
    _, log_weights = run_sweeps(
        energy, X, rng, betas=betas[::-1], reference=reference, reverse=True
    )
    log_z = twins.log_sum(enumerate_states(energy)[1])
    check_mean_weight(log_weights, twins.log_sum(log_reference[p > 0]) - log_z, largest_error=0.1)


@pytest.mark.parametrize("name", ["orders", "grid", "zeros"])
def test_log_weights_of_path_segments_add_up(name, seed):
    energy = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    reference = random_product(energy.n_states, rng)
    states, log_f = enumerate_states(energy)
    _, p, log_reference = target(energy, 0.3, reference)
    X = exact_draws(states, p, 10_000, rng)
    _, log_weights = run_sweeps(energy, X, rng, betas=[0.3, 0.5, 0.5, 0.8], reference=reference)
    log_z = [twins.log_sum(b * log_f + (1 - b) * log_reference) for b in (0.3, 0.8)]
    check_mean_weight(log_weights, log_z[1] - log_z[0])


# Reproducibility ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["orders", "spin_glass"])
def test_results_do_not_depend_on_n_jobs(name, seed):
    energy = ZOO[name](seed)
    X = Product.uniform(energy.n_states).sample(200, np.random.default_rng(seed))
    results = []
    for n_jobs in (None, 1, 2, 4):
        generators = spawn_generators(np.random.default_rng(seed), len(X))
        once = sweep(energy, X, generators, betas=PATH, n_jobs=n_jobs)
        results.append((*once, *sweep(energy, once[0], generators, n_jobs=n_jobs)))
    for other in results[1:]:
        for left, right in zip(results[0], other, strict=True):
            assert_array_equal(left, right)


@pytest.mark.parametrize("name", ["orders", "spin_glass"])
def test_blocks_are_independent(name, seed):
    energy = ZOO[name](seed)
    X = Product.uniform(energy.n_states).sample(150, np.random.default_rng(seed))
    all_blocks, _ = sweep(energy, X, spawn_generators(np.random.default_rng(seed), 150))
    one, _ = sweep(energy, X[:BLOCK], spawn_generators(np.random.default_rng(seed), BLOCK))
    assert_array_equal(all_blocks[:BLOCK], one)
    assert not np.array_equal(all_blocks[:BLOCK], all_blocks[BLOCK : 2 * BLOCK])


@pytest.mark.parametrize(("name", "n_chains"), [("orders", 1), ("spin_glass", 150)])
def test_path_pieces_do_not_change_results(name, n_chains, seed, monkeypatch):
    energy, rng = ZOO[name](seed), np.random.default_rng(seed)
    X = Product.uniform(energy.n_states).sample(n_chains, rng)
    given, results = {"betas": PATH, "clamped": rng.random(X.shape) < 0.3}, []
    for updates in (10**9, 1):
        monkeypatch.setattr(layers, "UPDATES_PER_CALL", updates)
        results.append(run_sweeps(energy, X, np.random.default_rng(seed), **given))
    assert_array_equal(results[0][0], results[1][0])
    assert_allclose(results[0][1], results[1][1], rtol=1e-12)


def test_read_only_memory_maps(tmp_path, seed):
    def mapped(name, array):
        np.save(tmp_path / name, array)
        return np.load(tmp_path / name, mmap_mode="r")

    for name in ("orders", "spin_glass"):
        energy = ZOO[name](seed)
        rng = np.random.default_rng(seed)
        X = Product.uniform(energy.n_states).sample(100, rng)
        clamped = rng.random(X.shape) < 0.3
        expected = run_sweeps(energy, X, np.random.default_rng(seed), betas=PATH, clamped=clamped)
        theta = {k: mapped(f"{name}_{k}.npy", v) for k, v in energy.theta.items()}
        X_map, mask = mapped("X.npy", X), mapped("clamped.npy", clamped)
        found = run_sweeps(
            energy.with_theta(theta), X_map, np.random.default_rng(seed), betas=PATH, clamped=mask
        )
        for left, right in zip(expected, found, strict=True):
            assert_array_equal(left, right)
        assert_array_equal(X_map, X)
        wide = X.astype(np.int64)
        fortran = np.asfortranarray(wide)
        for other in (wide, fortran, np.repeat(X, 2, axis=0)[::2]):
            again = run_sweeps(
                energy, other, np.random.default_rng(seed), betas=PATH, clamped=clamped
            )
            assert_array_equal(again[0], expected[0])
        assert_array_equal(fortran, X)


def test_no_chains(seed):
    energy = ZOO["chain"](seed)
    X, log_weights = sweep(energy, np.zeros((0, 6), dtype=STATE), [], n_sweeps=2)
    assert X.shape == (0, 6)
    assert log_weights.shape == (0,)


def test_no_variables(seed):
    """The log weight of a constant model is the constant times the change of beta."""
    graph = FactorGraph([], [(), ()], [1.0, 0.5])
    X, log_weights = run_sweeps(
        graph, np.zeros((3, 0), dtype=STATE), np.random.default_rng(seed), betas=[0.0, 0.3, 0.8]
    )
    assert X.shape == (3, 0)
    assert_allclose(log_weights, 1.2, rtol=1e-12)


def test_chains_leave_states_of_probability_zero(seed):
    """All states are equally likely until a possible one is found."""
    graph = FactorGraph([2, 3], [(0,), (1,)], [[-np.inf, 0.0], [0.0, -np.inf, -np.inf]])
    X, _ = run_sweeps(graph, np.array([[0, 2]] * 64, dtype=STATE), np.random.default_rng(seed))
    assert_array_equal(X, [[1, 0]] * 64)


# Product distributions ---------------------------------------------------------------------


def test_product_samples_are_independent(seed):
    rng = np.random.default_rng(seed)
    n_states = np.array([2, 1, 3, 2])
    reference = random_product(n_states, rng)
    graph = FactorGraph(n_states, [(i,) for i in range(4)], split(reference, n_states))
    check_draws(reference.sample(20_000, rng), *twins.distribution(graph))


def test_product_from_counts():
    X = np.array([[0, 2], [0, 1], [1, 2]], dtype=STATE)
    reference = Product.from_counts(X, [2, 3])
    expected = [2.5 / 4, 1.5 / 4, 0.5 / 4.5, 1.5 / 4.5, 2.5 / 4.5]
    assert_allclose(np.exp(reference.log_p), expected, rtol=1e-14)
    assert reference.start.tolist() == [0, 2]


def test_uniform_product():
    reference = Product.uniform([1, 4])
    assert_allclose(np.exp(reference.log_p), [1, 0.25, 0.25, 0.25, 0.25], rtol=1e-14)


@pytest.mark.parametrize(("n_chains", "n_blocks"), [(0, 0), (1, 1), (64, 1), (65, 2)])
def test_one_generator_per_block(n_chains, n_blocks):
    assert len(spawn_generators(np.random.default_rng(0), n_chains)) == n_blocks


# Pairs of two-state variables --------------------------------------------------------------


def exclusive(n_groups, n, least):
    """Return a model whose most probable states have a single 1 in each group of n variables."""
    coupling = np.kron(np.eye(n_groups), -2.0 * least * (1.0 - np.eye(n)))
    return PairwiseEnergy(coupling, np.full(n_groups * n, least), states=(0, 1))


@pytest.mark.parametrize(("n_groups", "n"), [(1, 5), (8, 20)])  # with all pairs, and with some
def test_pairs_move_the_only_one_of_exclusive_variables(n_groups, n, seed, monkeypatch):
    """Without pairs, a group without ones has the probability exp(-15), so chains do not move."""
    energy, X = exclusive(n_groups, n, 15.0), np.zeros((1000, n_groups * n), dtype=STATE)
    X[:, ::n] = 1
    moved, _ = run_sweeps(energy, X, np.random.default_rng(seed), n_sweeps=200)
    assert (moved.sum(axis=1) == n_groups).all()
    check_means(moved, np.full(n_groups * n, 1 / n))
    monkeypatch.setattr(layers, "STRONG_COUPLING", np.inf)
    stays, _ = run_sweeps(energy, X, np.random.default_rng(seed), n_sweeps=200)
    assert stays[:, ::n].mean() > 0.99


@pytest.mark.parametrize("most", [4, 2])
def test_pairs_of_strongest_partners(most, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.normal(0.0, 6.0, size=(9, 9)), 1)
    strength, order = np.abs(upper + upper.T), np.delete(rng.permutation(9), 3)
    ranks = np.argsort(np.argsort(-strength, axis=1), axis=1)
    kept = (strength > 4.0) & ((ranks < most) | (most > ranks.T))
    is_drawn = np.isin(np.arange(9), order)
    kept &= is_drawn & is_drawn[:, None]
    monkeypatch.setattr(layers, "PARTNERS", most)
    scan = layers.make_scan([upper + upper.T], order, reverse=False)
    assert_array_equal(scan.pairs, np.argwhere(np.triu(kept)))
    backward = layers.make_scan([upper + upper.T], order[::-1], reverse=True)
    assert_array_equal(backward.pairs, scan.pairs[::-1])
    for n in (0, 9):
        assert len(layers.make_scan([np.zeros((n, 9))], order, reverse=False).pairs) == 0


def test_pairs_with_references_of_probability_zero(seed):
    """Infinite odds of the reference have no effect if beta is 1."""
    energy, X = exclusive(1, 2, 15.0), np.tile([1, 0], (4000, 1))
    reference = Product(np.array([0.0, -np.inf, *np.log([0.5, 0.5])]), np.array([0, 2]))
    rng, betas = np.random.default_rng(seed), np.ones(21)
    moved, _ = run_sweeps(energy, X, rng, betas=betas, reference=reference)
    check_means(moved, np.full(2, 0.5))


# Queries by Gibbs chains -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["orders", "tied_binary", "zero_one", "complete"])
def test_draw(name, seed):
    energy = ZOO[name](seed)
    X = draw(energy, 5000, np.random.default_rng(seed), n_sweeps=100)
    check_draws(X, *twins.distribution(energy))


@pytest.mark.parametrize("name", [*FINITE, "zeros_binary"])
def test_annealing_finds_the_mode(name, seed):
    energy = ZOO[name](seed)
    _, log_f = enumerate_states(energy)
    best, value = anneal(energy, np.random.default_rng(seed))
    assert_allclose(value, log_f.max(), rtol=1e-12)
    assert_allclose(energy.log_potential(best[None])[0], value, rtol=1e-12)


def test_no_possible_state_found_raises(seed):
    """The model x0 = x1, x1 = x2, x2 != x0 is impossible, though every table allows some states."""
    equal, other = [[0.0, -np.inf], [-np.inf, 0.0]], [[-np.inf, 0.0], [0.0, -np.inf]]
    graph = FactorGraph([2] * 3, [(0, 1), (1, 2), (2, 0)], [equal, equal, other])
    with pytest.raises(ValueError, match="None of 10 Gibbs chains found a state of positive"):
        draw(graph, 10, np.random.default_rng(seed), n_sweeps=10)


def test_chains_in_zero_potentials_raise_a_warning(seed):
    """The two possible states differ in all 10 bits, so single flips rarely reach either."""
    tables = np.full([2] * 10, -np.inf)
    tables.flat[[0, -1]] = 0.0
    graph = FactorGraph([2] * 10, [range(10)], [tables])
    with pytest.warns(UserWarning, match="of 300 Gibbs chains are in states of probability zero"):
        draw(graph, 300, np.random.default_rng(seed), n_sweeps=10)


@pytest.mark.parametrize(
    ("call", "options", "message"),
    [
        (draw, {"n_samples": 3, "n_sweeps": 0}, "n_sweeps must be an integer >= 1; got 0."),
        (record_states, {"n_chains": 1}, "n_chains must be an integer >= 2; got 1."),
        (record_states, {"n_records": 0}, "n_records must be an integer >= 1; got 0."),
        (anneal, {"n_chains": 0}, "n_chains must be an integer >= 1; got 0."),
        (anneal, {"n_sweeps": 1.5}, "n_sweeps must be an integer; got 1.5."),
    ],
)
def test_invalid_numbers_raise(call, options, message):
    energy = PairwiseEnergy(np.zeros((2, 2)), np.zeros(2))
    with pytest.raises(ValueError) as caught:
        call(energy, rng=np.random.default_rng(0), **options)
    assert str(caught.value) == message


def test_sweeps_from_hidden_states(seed):
    """Both layers have their exact joint distribution, and two sweeps equal two calls."""
    energy, n_chains, powers = zoo.layers(3, 3, seed), 50_000, 2 ** np.arange(6)
    start = np.zeros((n_chains, 3), dtype=energy.weights.dtype)
    first, second = (spawn_generators(np.random.default_rng(seed), n_chains) for _ in range(2))
    moved = move_from_hidden(energy, start, first, 2)
    halfway = move_from_hidden(energy, start, second, 1)
    for a, b in zip(moved, move_from_hidden(energy, halfway[2], second, 1), strict=True):
        assert_array_equal(a, b)
    X, _, H = move_from_hidden(energy, start, first, 60)
    states, log_f = enumerate_states(energy)
    p = np.exp(log_f - np.logaddexp.reduce(log_f))
    found = np.bincount((np.hstack([X, H]) @ powers).astype(int), minlength=64)[states @ powers]
    assert np.abs((found - n_chains * p) / np.sqrt(n_chains * p * (1.0 - p))).max() < 5.0


def layered_model(n_visible=6, n_hidden=4, coupling=None):
    rng = np.random.default_rng(0)
    W, b = rng.normal(size=(n_visible, n_hidden)), rng.normal(size=n_visible)
    if coupling is None:
        return BipartiteEnergy(W, b, np.zeros(n_hidden))
    return SemiRestrictedEnergy(coupling, W, b, np.zeros(n_hidden))


def models_of_two_states():
    coupled = ZOO["spin_glass"](0)
    n = len(coupled.bias)
    return [coupled, layered_model(), layered_model(n, coupling=coupled.coupling)]


@pytest.mark.parametrize("energy", [*models_of_two_states(), ZOO["orders"](0)])
def test_wrong_shapes_raise(energy):
    """Compiled functions do not check shapes."""
    n = len(energy.visible_states)
    X, rng = np.zeros((70, n), STATE), np.random.default_rng(0)
    generators = spawn_generators(rng, 70)
    wrong = rf"X must have shape \(n_chains, {n}\); got \(70, {n - 1}\)"
    with pytest.raises(ValueError, match=wrong):
        sweep(energy, X[:, 1:], generators)
    with pytest.raises(ValueError, match=r"clamped must have the shape of X, \(70, "):
        sweep(energy, X, generators, clamped=np.zeros((69, n), bool))
    with pytest.raises(ValueError, match="70 chains need 2 generators, one for each 64"):
        sweep(energy, X, generators[:1])


def test_wrong_shapes_of_layers_raise():
    energy = layered_model()
    n_visible, n_hidden = energy.weights.shape
    H, generators = np.zeros((5, n_hidden)), spawn_generators(np.random.default_rng(0), 5)
    with pytest.raises(ValueError, match=r"H must have shape \(n_chains, "):
        move_from_hidden(energy, H[:, 1:], generators, 1)
    V = np.zeros((5, n_visible), np.int8)
    for visible, hidden in ((V[:, 1:], None), (V, H[:, 1:]), (V, H[1:])):
        with pytest.raises(ValueError, match="states of both layers must have the shapes"):
            energy.moments(States(visible, hidden, None))
    assert [a.shape[0] for a in move_from_hidden(energy, H[:0], generators, 1)] == [0, 0, 0]


@pytest.mark.parametrize("energy", models_of_two_states())
def test_parameters_of_several_types(energy, seed):
    """Parameters of several floating-point types are converted to one type."""
    small = energy.with_theta({k: v.astype(np.float32) for k, v in energy.theta.items()})
    key = "bias" if "bias" in energy.theta else "visible_bias"
    mixed = small.with_theta(small.theta | {key: small.theta[key].astype(float)})
    X = np.zeros((100, len(energy.visible_states)), STATE)
    drawn = [
        sweep(e, X, spawn_generators(np.random.default_rng(seed), 100), n_sweeps=5)[0]
        for e in (small, mixed)
    ]
    assert_array_equal(*drawn)
