"""Tests of kernels against plain Python: elimination, propagation, vectors, Gaussians."""

from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest
import twins
from numba import config
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import ThreadpoolController
from zoo import SMALL, TABLES, ZOO, enumerate_states, naive_log_potential, possible_rows

from skmrf._kernels import gaussians, products
from skmrf._kernels._jit import (
    kernel,
    larger,
    load,
    multiply_add,
    read_only,
    spread,
    store,
    transpose,
)
from skmrf._kernels.belief import TINY
from skmrf._kernels.bipartite import fill_beliefs
from skmrf._kernels.elimination import block_offsets
from skmrf._kernels.label_trees import add_observed_products, add_observed_scores
from skmrf._kernels.networks import network_gradients, network_values
from skmrf._kernels.ordering import (
    adjacency_bits,
    greedy_order,
    grow_forest,
    popcount,
    root_of,
    set_bits,
)
from skmrf._kernels.products import find_product, multiply
from skmrf._kernels.propagation import sift_down, sift_up
from skmrf._kernels.pseudo import pair_sites
from skmrf._kernels.tables import sweep_tables
from skmrf._utils.codes import STATE
from skmrf._utils.label_graphs import LabelGraphs
from skmrf.energies import FactorGraph
from skmrf.energies.layout import Layout
from skmrf.energies.structured_protocols import LabelPotentials
from skmrf.exact import elimination, label_trees
from skmrf.variational import belief_propagation, mean_field

# exp may overflow to inf and log(0) is -inf on purpose; only uncompiled kernels warn of it
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning"),
]


# Compilation ------------------------------------------------------------------------------


@pytest.mark.skipif(config.DISABLE_JIT, reason="needs compiled functions")
@pytest.mark.parametrize(
    "function",
    [network_gradients, network_values, pair_sites, sweep_tables],
    ids=lambda f: f.__name__,
)
def test_functions_of_kernels_are_not_compiled_on_their_own(function):
    """A process that compiles a kernel would use other machine code than one that loads it."""
    pending, is_part = [function], {}
    while pending:
        f = pending.pop().py_func
        called = [f.__globals__.get(name) for name in f.__code__.co_names]
        pending += [g for g in called if isinstance(g, Dispatcher) and g not in is_part]
        for g in pending:
            options = g.targetoptions
            is_part[g] = options.get("forceinline") or options.get("inline") == "always"
    assert is_part
    assert all(is_part.values()), is_part


# Elimination ------------------------------------------------------------------------------


def test_popcount():
    rng = np.random.default_rng(0)
    words = [0, 1, 2**63, 2**64 - 1, *rng.integers(0, 2**64, size=20, dtype=np.uint64).tolist()]
    for word in words:
        assert popcount(np.uint64(word)) == word.bit_count()


def test_set_bits():
    row = np.array([0b1011, 0, 1 << 63], dtype=np.uint64)
    out = np.empty(192, dtype=np.int64)
    assert out[: set_bits(row, out)].tolist() == [0, 1, 3, 191]


def test_adjacency_skips_observed_variables():
    layout = Layout.build([2] * 70, [(0, 1, 69), (1, 2), (3,)])
    free = np.ones(70, dtype=bool)
    free[1] = False
    bits = adjacency_bits(layout.clique_ptr, layout.clique_vars, free, 70)
    out = np.empty(128, dtype=np.int64)
    neighbours = {v: out[: set_bits(bits[v], out)].tolist() for v in range(70)}
    assert {v: n for v, n in neighbours.items() if n} == {0: [69], 69: [0]}


@pytest.mark.parametrize("weights", [(1.0, 1e-3, 1e-6), (1e-3, 1.0, 1e-6), (0.0, 0.0, 1.0)])
def test_greedy_order(weights, seed):
    """Check that each step eliminates a variable with the smallest score."""
    n = 24
    rng = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(n, 0.15, seed=seed)
    n_states = rng.integers(1, 5, size=n)
    layout = Layout.build(n_states, list(graph.edges))
    free = np.arange(n) != 4
    rank = rng.random(n)
    bits = adjacency_bits(layout.clique_ptr, layout.clique_vars, free, n)
    log_states = np.log(n_states)
    order, log_size = greedy_order(bits, free, log_states, np.array(weights), rank, np.inf)
    assert sorted(order.tolist()) == np.flatnonzero(free).tolist()
    graph.remove_node(4)
    for v, size in zip(order.tolist(), log_size, strict=True):
        scores = {u: _score(graph, u, log_states, weights, rank) for u in graph}
        assert_allclose(scores[v], min(scores.values()), rtol=1e-12, atol=1e-12)
        assert_allclose(size, log_states[[v, *graph[v]]].sum(), rtol=1e-12, atol=1e-12)
        graph.add_edges_from(combinations(list(graph[v]), 2))
        graph.remove_node(v)


def _score(graph, v, log_states, weights, rank):
    fill = sum(not graph.has_edge(*pair) for pair in combinations(graph[v], 2))
    return np.dot(weights, [fill, log_states[[v, *graph[v]]].sum(), rank[v]])


def test_greedy_order_stops_at_a_large_table():
    layout = Layout.build([2] * 6, [(0, 1), *combinations(range(1, 6), 2)])
    free = np.ones(6, dtype=bool)
    bits = adjacency_bits(layout.clique_ptr, layout.clique_vars, free, 6)
    weights = np.array([1.0, 1e-3, 1e-6])
    found = greedy_order(bits, free, np.log([2.0] * 6), weights, np.arange(6) / 6, 2.0)
    assert found[0].tolist() == [0, 1]
    assert_allclose(np.exp(found[1]), [4, 32])


def test_block_offsets():
    out = np.empty(24, dtype=np.int64)
    block_offsets(np.array([2, 3, 4]), np.array([100, 0, 7]), out)
    expected = [100 * a + 7 * c for a in range(2) for _ in range(3) for c in range(4)]
    assert out.tolist() == expected


@pytest.mark.parametrize("name", [*TABLES, "one_state", "uniform", "disconnected"])
def test_elimination(name, seed):
    """Check all kernels of the passes, for three rows with the same observed variables."""
    graph = ZOO[name](seed).factor_graph()
    rng = np.random.default_rng(seed)
    observed = rng.random(graph.n_variables) < 0.3
    X = possible_rows(graph, 3, rng)
    states, log_f = enumerate_states(graph)
    plan = elimination.prepare(graph.layout, observed)
    log_z = elimination.log_partitions(plan, graph.flat, X)
    singles = elimination.single_marginals(plan, graph.flat, X)
    modes = elimination.maximise(plan, graph.flat, X)
    draws = elimination.sample(plan, graph.flat, 3, rng, X)
    expected_flat = np.zeros(graph.layout.n_parameters)
    for r, x in enumerate(X):
        agree = (states[:, observed] == x[observed]).all(axis=1)
        expected = twins.log_sum(log_f[agree])
        assert_allclose(log_z[r], expected, rtol=1e-13, atol=1e-12)
        p = np.exp(np.where(agree, log_f, -np.inf) - expected)
        marginals = twins.single_marginals(states, p, graph.n_states)
        assert_allclose(singles[r], np.concatenate(marginals), rtol=0, atol=1e-11)
        assert_allclose(naive_log_potential(graph, modes[r : r + 1]), log_f[agree].max())
        assert_array_equal(modes[r, observed], x[observed])
        assert_array_equal(draws[r, observed], x[observed])
        expected_flat += (r + 1) * twins.moments(graph, states, p)["log_potentials"]
    assert (naive_log_potential(graph, draws) > -np.inf).all()
    weights = np.array([1.0, 2.0, 3.0])
    flat, totals = elimination.expected_moments(plan, graph.flat, X, weights)
    assert_allclose(flat, expected_flat, rtol=0, atol=1e-10)
    assert_array_equal(totals, log_z)


def test_messages_of_several_blocks(seed):
    """Check tables larger than a block, where offsets of blocks and entries are added."""
    rng = np.random.default_rng(seed)
    graph = FactorGraph(
        [3, 2, 40, 30], [(0, 2), (3, 0, 1), (2, 3)], rng.normal(size=1200 + 180 + 120)
    )
    plan = elimination.prepare(graph.layout)
    assert plan.tree.outer.max() > 1
    t = graph.log_potentials
    joint = t[0][:, None, :, None] + t[1].transpose(1, 2, 0)[:, :, None] + t[2][None, None]
    assert_allclose(elimination.log_partitions(plan, graph.flat), twins.log_sum(joint.ravel()))
    p = np.exp(joint - twins.log_sum(joint.ravel()))
    flat, _ = elimination.expected_moments(plan, graph.flat)
    pairs = [p.sum((1, 3)), p.sum(2).transpose(2, 0, 1), p.sum((0, 1))]
    assert_allclose(flat, np.concatenate([m.ravel() for m in pairs]), rtol=0, atol=1e-13)


def test_marginal_map(seed):
    """Check sums in the first buckets and maxima in the other ones, for two rows."""
    graph = ZOO["orders"](seed)
    rng = np.random.default_rng(seed)
    observed, maximised = np.arange(5) == 2, np.isin(np.arange(5), (0, 2, 3))
    X = possible_rows(graph, 2, rng)
    plan = elimination.prepare(graph.layout, observed, maximised=maximised)
    found, value = elimination.marginal_map(plan, graph.flat, X)
    states, log_f = enumerate_states(graph)
    for x, best, top in zip(X, found, value, strict=True):
        kept = states[:, 2] == x[2]
        sums = {
            pair: twins.log_sum(log_f[kept & (states[:, [0, 3]] == pair).all(axis=1)])
            for pair in np.ndindex(2, 4)
        }
        assert_allclose(top, max(sums.values()), rtol=1e-13, atol=1e-12)
        assert_array_equal(best, [best[0], -1, x[2], best[3], -1])
        assert_allclose(sums[best[0], best[3]], top, rtol=1e-13, atol=1e-12)


# Belief propagation -----------------------------------------------------------------------


def test_heap(seed):
    """Check that the item of highest priority is first after priorities change."""
    rng = np.random.default_rng(seed)
    items = rng.permutation(30)[:20]
    heap, place, urgency = items.copy(), np.full(30, -1), np.zeros(30)
    urgency[items] = 1.0
    place[items] = np.arange(20)
    for _ in range(300):
        item = int(rng.choice(items))
        before = urgency[item]
        urgency[item] = rng.integers(15) / 7
        if urgency[item] > before:
            sift_up(heap, place, urgency, item)
        else:
            sift_down(heap, place, urgency, item)
        assert urgency[heap[0]] == urgency[items].max()
        assert_array_equal(heap[place[items]], items)
    found = []
    for _ in range(20):
        found.append(urgency[heap[0]])
        urgency[heap[0]] = -1.0
        sift_down(heap, place, urgency, heap[0])
    assert found == sorted(found, reverse=True)


def beliefs(graph, found):
    return np.split(found.single, np.cumsum(graph.n_states))[:-1]


@pytest.mark.parametrize("name", [*SMALL, "isolated", "one_state", "uniform"])
def test_flooding(name, seed):
    """Check three iterations of sums and of maxima, and the Bethe value."""
    graph = ZOO[name](seed).factor_graph()
    everything = np.ones(graph.n_variables, dtype=bool)
    how = belief_propagation.Propagation("flooding", 0.3, 3, 0.0)
    found = belief_propagation.belief_propagation(graph, how)
    told = twins.flooding(graph, found.n_iter, damping=0.3)
    singles, cliques, value = twins.beliefs(graph, told)
    assert_allclose(found.single, np.concatenate(singles), rtol=0, atol=1e-9)
    flat = np.concatenate([*(table.ravel() for table in cliques), np.zeros(0)])
    assert_allclose(found.cliques, flat, rtol=0, atol=1e-9)
    assert_allclose(found.log_partition, value, rtol=1e-10, atol=1e-9)
    found = belief_propagation.belief_propagation(graph, how, maximised=everything)
    told = twins.flooding(graph, found.n_iter, total=np.max, damping=0.3)
    expected = np.concatenate(twins.beliefs(graph, told)[0])
    assert_allclose(found.single, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("schedule", ["flooding", "sequential", "residual"])
@pytest.mark.parametrize("name", ["chain", "zeros_binary", "disconnected"])
def test_schedules_on_trees(name, schedule, seed):
    graph = ZOO[name](seed)
    states, log_f = enumerate_states(graph)
    rows = possible_rows(graph, 1, np.random.default_rng(seed))
    row = np.where(np.arange(graph.n_variables) < 2, rows[0], -1).astype(STATE)
    log_f[(states[:, :2] != row[:2]).any(axis=1)] = -np.inf
    how = belief_propagation.Propagation(schedule)
    found = belief_propagation.belief_propagation(graph, how, evidence=row)
    p = np.exp(log_f - twins.log_sum(log_f))
    expected = np.concatenate(twins.single_marginals(states, p, graph.n_states))
    assert_allclose(found.single, expected, rtol=0, atol=1e-10)
    assert_allclose(found.log_partition, twins.log_sum(log_f), rtol=0, atol=1e-10)


@pytest.mark.parametrize("gap", [-0.4, -0.9, -1.1, -1.6, -2.5, -20.0])
def test_sums_that_underflow(gap):
    """Check messages whose weights underflow, but whose logarithms do not."""
    step = gap * -np.log(TINY)
    tables = [[0.0, step], [[0.0, 2 * step], [3 * step, 0.0]], [0.0, -3 * step], [step, 0.0]]
    graph = FactorGraph([2] * 2, [(0,), (0, 1), (1,), (1,)], tables)
    states, log_f = enumerate_states(graph)
    found = belief_propagation.belief_propagation(graph)
    assert_allclose(found.log_partition, twins.log_sum(log_f), rtol=1e-13)
    p = np.exp(log_f - twins.log_sum(log_f))
    expected = np.concatenate(twins.single_marginals(states, p, [2, 2]))
    assert_allclose(found.single, expected, rtol=0, atol=1e-10)


def test_mixed_messages(seed):
    """Check a chain with two maximised and two summed variables and zero potentials."""
    cliques = [(0, 1), (1, 2), (2, 3), (0,), (1,), (2,), (3,)]
    rng = np.random.default_rng(seed)
    tables = [rng.normal(size=[2] * len(c)) for c in cliques]
    tables[0][0, 1] = tables[2][0, 1] = -np.inf
    graph = FactorGraph([2] * 4, cliques, tables)
    maximised = np.array([False, True, True, False])
    found = beliefs(graph, belief_propagation.belief_propagation(graph, maximised=maximised))
    states, log_f = enumerate_states(graph)
    value = {
        pair: twins.log_sum(log_f[(states[:, 1:3] == pair).all(axis=1)])
        for pair in np.ndindex(2, 2)
    }
    best = max(value, key=value.get)
    assert (found[1].argmax(), found[2].argmax()) == best
    agree = (states[:, 1:3] == best).all(axis=1)
    p = np.exp(log_f[agree] - value[best])
    expected = twins.single_marginals(states[agree], p, [2] * 4)
    assert_allclose(found[0], expected[0], rtol=0, atol=1e-10)
    assert_allclose(found[3], expected[3], rtol=0, atol=1e-10)


def test_grow_forest():
    layout = Layout.build([2] * 5, [(0, 1, 2), (2, 1), (), (1, 3), (3, 0), (4,), (4, 3)])
    taken = np.zeros(7, dtype=bool)
    order = np.array([6, 1, 0, 2, 4, 3, 5])
    grow_forest(order, layout.clique_ptr, layout.clique_vars, 5, taken)
    assert np.flatnonzero(taken).tolist() == [1, 2, 3, 4, 5, 6]
    grow_forest(np.arange(7), layout.clique_ptr, layout.clique_vars, 5, taken)
    assert np.flatnonzero(taken).tolist() == [0, 2, 3, 5, 6]
    parent = np.array([0, 0, 1, 2, 4])
    assert [root_of(parent, i) for i in (3, 2, 1, 0, 4)] == [0, 0, 0, 0, 4]


# Mean field -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*TABLES, "one_state", "uniform", "disconnected"])
def test_mean_field(name, seed):
    """Check sweeps from a random start, the bound and the moments."""
    graph = ZOO[name](seed).factor_graph()
    rng = np.random.default_rng(seed)
    singles = [rng.dirichlet(np.ones(q)) for q in graph.n_states]
    found = mean_field.mean_field(graph, start=np.concatenate(singles), max_iter=3, tol=0.0)
    for _ in range(found.n_iter):
        twins.mean_field_sweep(graph, singles)
    assert_allclose(found.single, np.concatenate(singles), rtol=0, atol=1e-10)
    zero, bound = twins.product_bound(graph, singles)
    expected = -np.inf if zero > 0 else bound
    assert_allclose(found.lower_bound, expected, rtol=1e-12, atol=1e-10)
    p = np.array([np.prod([singles[i][s] for i, s in enumerate(x)]) for x in _states(graph)])
    moments = mean_field.clique_moments(graph, found.single)
    expected = twins.moments(graph, _states(graph), p)["log_potentials"]
    assert_allclose(moments, expected, rtol=0, atol=1e-9)


def _states(graph):
    return enumerate_states(graph)[0]


# Vectors and sparse features --------------------------------------------------------------


@kernel
def compute_vectors(x, y, out):
    a, b = load(x, 1), load(y, 4)
    store(out, 0, multiply_add(a, b, spread(2.0)))
    store(out, 4, larger(a, b))
    a, b, c, d = transpose(load(x, 0), load(x, 4), load(x, 8), load(x, 12))
    store(out, 8, a)
    store(out, 12, b)
    store(out, 16, c)
    store(out, 20, d)


def test_vectors_of_four_numbers():
    rng = np.random.default_rng(0)
    x, y, out = rng.normal(size=(4, 4)), rng.random((2, 4)), np.empty(24)
    x[0, 2] = -np.inf
    compute_vectors(x, y, out)
    a, b = x.ravel()[1:5], y[1]
    assert_allclose(out[:4], a * b + 2.0, rtol=1e-15)
    assert_array_equal(out[4:8], np.maximum(a, b))
    assert_array_equal(out[8:], x.T.ravel())


def test_scratch_starts_at_cache_lines():
    shapes = (2, 3, 5, 16), (7, 16), (12,)
    for _ in range(10):
        arrays = label_trees._aligned_arrays(*shapes)
        assert [x.shape for x in arrays] == list(shapes)
        assert all(x.ctypes.data % 64 == 0 and x.flags.c_contiguous for x in arrays)
        for k, x in enumerate(arrays):
            x[:] = k
        assert all((x == k).all() for k, x in enumerate(arrays))


@pytest.mark.parametrize("signaling_nan", [np.uint32(0x7FA00000), np.uint64(0x7FF4 << 48)])
def test_unused_entries_of_scratch_are_neither_read_nor_written(signaling_nan):
    """Arithmetic with a signaling NaN warns without compilation, and makes the NaN quiet."""
    bits = np.full((2, 16), signaling_nan)
    one, zero = bits.view(f"f{bits.itemsize}")
    fill_beliefs(np.array([-1.0, 0.0, 2.0], one.dtype), one.dtype.type(80), one, zero)
    assert_allclose(one[:3], 1 / (1 + np.exp([1.0, 0.0, -2.0])), rtol=1e-6)
    assert_allclose(zero[:3], 1 / (1 + np.exp([-1.0, 0.0, 2.0])), rtol=1e-6)
    assert_array_equal(bits[:, 3:], signaling_nan)


@pytest.mark.parametrize("n_labels", [3, 4])
@pytest.mark.parametrize("least", [-np.inf, label_trees.LEAST])
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
def test_overflow_in_one_chain_of_a_group(n_labels, least, monkeypatch):
    """Only label 0 can follow or precede label 0, which is the known last label of chain 3."""
    monkeypatch.setattr(label_trees, "LEAST", least)
    n = 1200
    graphs = LabelGraphs.chains(np.ones((16 * n, 1)), np.full(16, n))
    graphs.labels[4 * n - 1] = 0
    tables = np.zeros((1, n_labels, n_labels))
    tables[0, 0, 1:] = tables[0, 1:, 0] = -np.inf
    potentials = LabelPotentials(np.zeros((16 * n, n_labels)), tables, None, n_labels)
    found = label_trees.sums(graphs, potentials)
    log_z, marginals = np.full(16, n * np.log(n_labels - 1.0)), np.zeros((16, n, n_labels))
    log_z[3], marginals[:, :, 1:], marginals[3] = 0.0, 1.0 / (n_labels - 1), np.eye(n_labels)[0]
    assert_allclose(found.log_z, log_z, rtol=1e-12, atol=1e-9)
    assert_allclose(found.nodes, marginals.reshape(-1, n_labels), atol=1e-9)
    pairs = np.full((n_labels, n_labels), 15.0 * (n - 1) / (n_labels - 1) ** 2)
    pairs[0], pairs[:, 0], pairs[0, 0] = 0.0, 0.0, n - 1.0
    assert_allclose(found.tables[0], pairs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_labels", [2, 3, 4])
@pytest.mark.parametrize("n_chains", [1, 16])
def test_underflow_of_the_most_probable_labelling(n_chains, n_labels):
    """All labels of a chain are equal. The last 75 positions favour label 1, and all label 0.

    The weights of chains are small, because the forward sums would overflow otherwise.
    """
    graphs = LabelGraphs.chains(np.ones((150 * n_chains, 1)), np.full(n_chains, 150))
    nodes, tables = np.zeros((150, n_labels)), np.where(np.eye(n_labels) == 1, 0.0, -np.inf)
    nodes[:75, 0], nodes[75:, 1] = 10.02, 10.0
    potentials = LabelPotentials(np.tile(nodes, (n_chains, 1)), tables[None], None, n_labels)
    found = label_trees.sums(graphs, potentials, np.full(n_chains, 1e-100))
    p = 1.0 / (1.0 + np.exp(-1.5))
    assert_allclose(found.log_z, 751.5 - np.log(p), rtol=1e-12)
    assert_allclose(1e100 * found.nodes[:, 0], p, rtol=1e-9)
    assert_allclose(1e100 * found.tables[0, 1, 1], 149 * n_chains * (1.0 - p), rtol=1e-9)


def test_long_chains_with_an_impossible_pair_need_no_logs(seed, monkeypatch):
    """Sums of logs take 15 times longer. Label 1 is impossible at first and after label 0."""
    rng, found = np.random.default_rng(seed), []
    graphs = LabelGraphs.chains(np.ones((16 * 1000, 1)), np.full(16, 1000))
    potentials = LabelPotentials(rng.normal(size=(16 * 1000, 3)), np.zeros((1, 3, 3)), None, 3)
    potentials.tables[0, 0, 1], potentials.nodes[::1000, 1] = -np.inf, -np.inf
    monkeypatch.setattr(label_trees.label_trees, "tree_sums_in_logs", None)
    found.append(label_trees.sums(graphs, potentials))
    monkeypatch.undo()
    monkeypatch.setattr(label_trees, "MAX_RANGE", -1.0)
    found.append(label_trees.sums(graphs, potentials))
    for name in ("log_z", "nodes", "tables"):
        assert_allclose(*(getattr(sums, name) for sums in found), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_labels", [2, 5, 9])
def test_equal_chains_in_a_group_with_longer_chains(n_labels, seed, monkeypatch):
    """No label is known. Chains of one position have fewer numbers than a vector."""
    rng, found, lengths = np.random.default_rng(seed), [], np.repeat([7, 4, 2, 1], 8)
    n = lengths.sum()
    graphs = LabelGraphs.chains(np.ones((n, 1)), rng.permutation(lengths))
    nodes, tables = rng.normal(size=(n, n_labels)), rng.normal(size=(1, n_labels, n_labels))
    potentials, weights = LabelPotentials(nodes, tables, None, n_labels), rng.random(32)
    for largest in (label_trees.MAX_RANGE, -1.0):
        monkeypatch.setattr(label_trees, "MAX_RANGE", largest)
        found.append(label_trees.sums(graphs, potentials, weights))
    for name in ("log_z", "nodes", "tables"):
        assert_allclose(*(getattr(sums, name) for sums in found), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n_labels", [1, 3, 4, 9])
@pytest.mark.parametrize("has_values", [False, True])
def test_scores_of_observed_features(n_labels, has_values, seed):
    """Features 0 to 2 have all labels; of the other features, some pairs have a weight."""
    rng = np.random.default_rng(seed)
    weights = np.where(rng.random((6, n_labels)) < 0.5, rng.normal(size=(6, n_labels)), 0.0)
    weights[:3] = rng.normal(size=(3, n_labels))
    is_pair = weights != 0
    index = np.cumsum(is_pair).reshape(is_pair.shape) - 1
    X = (rng.random((10, 6)) < 0.5) * (rng.normal(size=(10, 6)) if has_values else 1.0)
    rows, columns = np.nonzero(X[:, :3])
    full = np.searchsorted(rows, np.arange(11)), index[columns, 0], X[:, :3][rows, columns]
    pairs = np.argwhere((X[:, 3:, None] != 0) & is_pair[3:])
    single = index[3:][pairs[:, 1], pairs[:, 2]], pairs[:, 2], X[:, 3:][pairs[:, 0], pairs[:, 1]]
    matrix = *full, np.searchsorted(pairs[:, 0], np.arange(11)), *single
    if not has_values:
        matrix = *full[:2], full[2][:0], matrix[3], *single[:2], single[2][:0]
    scores, residuals = np.ones((10, n_labels)), rng.normal(size=(10, n_labels))
    add_observed_scores(0, 10, *matrix, weights[is_pair], scores)
    assert_allclose(scores, 1.0 + X @ weights, rtol=0, atol=1e-13)
    gradient = np.ones(is_pair.sum())
    add_observed_products(2, 10, *matrix, residuals, gradient)
    assert_allclose(gradient, 1.0 + (X[2:].T @ residuals[2:])[is_pair], rtol=0, atol=1e-13)


# Matrix products ---------------------------------------------------------------------------------


def blas_of_scipy(dtype):
    """Return the product function that is used if numpy has no OpenBLAS of its own."""
    find_product.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "SYMBOLS", ("{}_of_no_library",))
        address = find_product(np.dtype(dtype))
    find_product.cache_clear()
    return address


@pytest.mark.parametrize("find", [lambda dtype: find_product(np.dtype(dtype)), blas_of_scipy])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(7, 4, 5), (1, 4, 3), (3, 1, 4), (2, 3, 1), (70, 90, 110)])
def test_products_of_kernels(shape, dtype, find, seed):
    """Matrices and transposed matrices are multiplied by the libraries of numpy and of scipy."""
    rng, (m, n, k) = np.random.default_rng(seed), shape
    address, tol = find(dtype), 1e-4 if dtype == np.float32 else 1e-12
    A, B = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
    for left, right in product((A, A.T.copy().T), (B, B.T.copy().T)):
        out = np.full((m + 1, n), np.nan, dtype)
        multiply(address, left, right, out[:m])
        assert_allclose(out[:m], A.astype(float) @ B.astype(float), rtol=tol, atol=tol)
        assert np.isnan(out[m]).all()  # nothing is written after the product


@pytest.mark.parametrize("shape", [(0, 4, 5), (3, 0, 5), (3, 4, 0)])
def test_products_of_empty_matrices(shape):
    m, n, k = shape
    for address in (find_product(np.dtype(float)), blas_of_scipy(float)):
        out = np.full((m, n), np.nan)
        multiply(address, np.ones((m, k)), read_only(np.ones((k, n))), out)
        assert_array_equal(out, np.zeros((m, n)))


def test_address_of_a_product():
    """The library of numpy is used if it is OpenBLAS. Each data type has its own function."""
    dtype = np.dtype(np.float32)
    has_own = any(
        hasattr(library.dynlib, "scipy_sgemm_64_")
        for library in ThreadpoolController().lib_controllers
    )
    assert (find_product(dtype) != blas_of_scipy(dtype)) == has_own
    assert find_product(dtype) != find_product(np.dtype(float))


@pytest.mark.skipif(config.DISABLE_JIT, reason="Python code multiplies all arrays")
def test_strided_and_mixed_arrays_are_not_multiplied():
    address, out = find_product(np.dtype(float)), np.ones((4, 3))
    with pytest.raises(TypingError, match="must be contiguous"):
        multiply(address, np.ones((4, 6))[:, ::2], np.eye(3), out)
    with pytest.raises(TypingError, match="the same data type"):
        multiply(address, np.ones((4, 3)), np.eye(3, dtype=np.float32), out)


# Gaussians with missing entries ------------------------------------------------------------


def gaussian_rows(seed, n=36):
    """Return rows with missing entries, their patterns, and a mean and a covariance matrix."""
    rng = np.random.default_rng(seed)
    X, root = rng.normal(size=(40, n)), rng.normal(size=(n, n))
    X[rng.random(X.shape) < 0.3 + 0.4 * (np.arange(40) % 2)[:, None]] = np.nan
    X[:2, 1] = 0.0  # no row without an observed entry
    pattern = np.unique(np.isnan(X), axis=0, return_inverse=True)[1].ravel().astype(np.int64)
    return X, pattern, rng.normal(size=n), root @ root.T / n + 0.1 * np.eye(n)


def log_density(row, mean, covariance):
    o = ~np.isnan(row)
    d, C = row[o] - mean[o], 2 * np.pi * covariance[np.ix_(o, o)]
    return -0.5 * (2 * np.pi * d @ np.linalg.solve(C, d) + np.linalg.slogdet(C)[1])


def test_log_densities_of_rows_with_few_missing_entries(seed):
    X, pattern, mean, covariance = gaussian_rows(seed)
    expected = np.array([log_density(row, mean, covariance) for row in X])
    is_few = np.isnan(X).mean(axis=1) < 0.5
    order = np.argsort(pattern, kind="stable")
    found = np.where(np.arange(40) == 0, -np.inf, 0.5)
    assert gaussians.add_by_precisions(X, pattern, order, mean, covariance, found)
    assert_allclose(found[1:], 0.5 + np.where(is_few, expected, 0.0)[1:], rtol=1e-9)
    assert found[0] == -np.inf
    both = np.zeros((2, 40))
    means, covariances = np.stack([mean, mean]), np.stack([covariance, covariance])
    covariances[1, 1] = covariances[1, :, 1] = 0.0
    covariances[1, 1, 1] = 1e-14  # it has no accurate inverse
    assert not gaussians.add_by_precisions(X, pattern, order, mean, covariances[1], both[1])
    gaussians.observed_log_densities(X, pattern, order, means, covariances, both)
    assert_allclose(both[0], expected, rtol=1e-9)
    assert_allclose(both[1], [log_density(row, mean, covariances[1]) for row in X], rtol=1e-9)
