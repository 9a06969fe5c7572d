"""Tests of variable elimination: results by enumeration, elimination orders, time and memory."""

import re
import time
import tracemalloc
from itertools import combinations, pairwise

import networkx as nx
import numpy as np
import pytest
import twins
from hypothesis import given
from hypothesis import strategies as st
from montecarlo import check_draws
from numpy.testing import assert_allclose, assert_array_equal
from zoo import (
    WITH_ZEROS,
    ZOO,
    enumerate_states,
    naive_log_potential,
    random_tables,
    small_graphs,
)

from skmrf._kernels.completion import _first_of_block
from skmrf._kernels.ordering import find_degeneracy
from skmrf._utils.codes import MISSING, STATE
from skmrf.energies import FactorGraph
from skmrf.energies.layout import Layout
from skmrf.exact import elimination, tree_decomposition
from skmrf.exact.completion import Completion

each_model = pytest.mark.parametrize("name", ZOO)


def observed_masks(graph, rng):
    """Yield masks of observed variables: none, all, and random subsets."""
    n = graph.n_variables
    yield np.zeros(n, dtype=bool)
    yield np.ones(n, dtype=bool)
    for _ in range(4):
        yield rng.random(n) < rng.choice([0.2, 0.5, 0.8])


def possible_rows(states, log_f, n_rows, rng):
    return states[rng.choice(np.flatnonzero(log_f > -np.inf), size=n_rows)]


def enumerate_given_rows(states, log_f, observed, X):
    """Yield log Z, state probabilities and compatible states given the evidence of each row."""
    for x in X:
        agree = (states[:, observed] == x[observed]).all(axis=1)
        log_given = np.where(agree, log_f, -np.inf)
        log_z = twins.log_sum(log_given)
        yield log_z, np.exp(log_given - log_z), agree


# Comparison with enumeration --------------------------------------------------------------


@each_model
def test_results_equal_enumeration(name, seed):
    """Check log Z, single marginals, weighted clique moments and modes for batches of rows."""
    graph = ZOO[name](seed).factor_graph()
    rng = np.random.default_rng(seed)
    states, log_f = enumerate_states(graph)
    singles_of = np.hstack([(states[:, [i]] == range(q)) for i, q in enumerate(graph.n_states)])
    for observed in observed_masks(graph, rng):
        X = possible_rows(states, log_f, 5, rng)
        hidden = X.copy()
        hidden[:, ~observed] = MISSING
        weights = rng.random(len(X))
        plan = elimination.prepare(graph.layout, observed)
        log_z = elimination.log_partitions(plan, graph.flat, hidden)
        singles = elimination.single_marginals(plan, graph.flat, hidden)
        modes = elimination.maximise(plan, graph.flat, hidden)
        moments, totals = elimination.expected_moments(plan, graph.flat, hidden, weights)
        mixture, unweighted = np.zeros((2, len(states)))
        for r, (log_given, p, agree) in enumerate(enumerate_given_rows(states, log_f, observed, X)):
            assert_allclose(log_z[r], log_given, rtol=1e-13, atol=1e-12)
            assert_allclose(singles[r], p @ singles_of, rtol=0, atol=1e-11)
            assert_array_equal(modes[r, observed], X[r, observed])
            best = naive_log_potential(graph, modes[[r]])
            assert_allclose(best, log_f[agree].max(), rtol=1e-13, atol=1e-12)
            mixture += weights[r] * p
            unweighted += p
        assert_array_equal(totals, log_z)
        expected = twins.moments(graph, states, mixture)["log_potentials"]
        assert_allclose(moments, expected, rtol=0, atol=1e-11)
        untied = graph.layout.untied()
        found, apart = elimination.all_marginals(plan, graph.flat, hidden, layout=untied)
        assert_array_equal(found, singles)
        tables = twins.clique_marginals(states, unweighted, graph)
        for found, table in zip(untied.split(apart), tables, strict=True):
            assert_allclose(found, table, rtol=0, atol=1e-11)


@each_model
def test_no_evidence_is_one_row(name, seed):
    graph = ZOO[name](seed).factor_graph()
    states, log_f = enumerate_states(graph)
    plan = elimination.prepare(graph.layout)
    assert_allclose(
        elimination.log_partitions(plan, graph.flat), [twins.log_sum(log_f)], rtol=1e-13
    )
    p = np.exp(log_f - twins.log_sum(log_f))
    moments, _ = elimination.expected_moments(plan, graph.flat)
    expected = twins.moments(graph, states, p)["log_potentials"]
    assert_allclose(moments, expected, rtol=0, atol=1e-11)
    assert elimination.single_marginals(plan, graph.flat).shape == (1, graph.n_states.sum())
    assert_allclose(
        naive_log_potential(graph, elimination.maximise(plan, graph.flat)),
        [log_f.max()],
        rtol=1e-13,
    )


@each_model
def test_samples_have_the_exact_distribution(name, seed):
    graph = ZOO[name](seed).factor_graph()
    rng = np.random.default_rng(seed)
    states, log_f = enumerate_states(graph)
    observed = np.arange(graph.n_variables) % 3 == 1
    X = possible_rows(states, log_f, 1, rng)
    for mask in (np.zeros_like(observed), observed):
        plan = elimination.prepare(graph.layout, mask)
        ((_, p, _),) = enumerate_given_rows(states, log_f, mask, X)
        check_draws(elimination.sample(plan, graph.flat, 20_000, rng, X), states, p)
        rows = np.repeat(X, 5000, axis=0)
        check_draws(elimination.sample(plan, graph.flat, 5000, rng, rows), states, p)


def test_sample_check_detects_a_wrong_model(seed):
    graph = ZOO["orders"](seed)
    wrong = graph.flat.copy()
    wrong[1] += 0.2
    plan = elimination.prepare(graph.layout)
    draws = elimination.sample(plan, wrong, 20_000, np.random.default_rng(seed))
    with pytest.raises(AssertionError, match="was drawn"):
        check_draws(draws, *twins.distribution(graph))


def test_samples_of_each_row_are_conditional_on_its_evidence(seed):
    graph = ZOO["complete"](seed)
    rng = np.random.default_rng(seed)
    states, log_f = enumerate_states(graph)
    observed = np.array([True, False, False, True, False])
    X = np.repeat(possible_rows(states, log_f, 3, rng), 4000, axis=0)
    plan = elimination.prepare(graph.layout, observed)
    draws = elimination.sample(plan, graph.flat, len(X), rng, X)
    for k, (_, p, _) in enumerate(enumerate_given_rows(states, log_f, observed, X[::4000])):
        check_draws(draws[4000 * k : 4000 * (k + 1)], states, p)


@pytest.mark.parametrize("name", ["tied", "zeros", "grid"])
def test_chunk_sizes_do_not_change_results(name, seed, monkeypatch):
    """Chunks of rows, of buckets and of uniforms give the same results as one call."""
    graph = ZOO[name](seed).factor_graph()
    rng = np.random.default_rng(seed)
    observed = np.arange(graph.n_variables) == 1
    X = possible_rows(*enumerate_states(graph), 7, rng)
    weights = rng.random(7)
    plan = elimination.prepare(graph.layout, observed)

    def all_results():
        return (
            elimination.log_partitions(plan, graph.flat, X),
            elimination.single_marginals(plan, graph.flat, X),
            elimination.expected_moments(plan, graph.flat, X, weights)[0],
            elimination.maximise(plan, graph.flat, X),
            elimination.sample(plan, graph.flat, 7, np.random.default_rng(1), X),
            elimination.sample(plan, graph.flat, 9, np.random.default_rng(1), X[:1]),
        )

    whole = all_results()
    monkeypatch.setattr(elimination, "MESSAGES_PER_CHUNK", 2 * plan.n_messages)
    monkeypatch.setattr(elimination, "ENTRIES_PER_CALL", 1)
    monkeypatch.setattr(elimination, "UNIFORMS_PER_CALL", 2 * len(plan.tree.variable))
    for left, right in zip(whole, all_results(), strict=True):
        assert_allclose(left, right, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", ["tied", "spin_glass", "huge"])
def test_block_size_does_not_change_results(name, seed, monkeypatch):
    graph = ZOO[name](seed).factor_graph()
    states, log_f = enumerate_states(graph)
    for block in (1, 4, 64):
        monkeypatch.setattr(tree_decomposition, "BLOCK", block)
        plan = elimination.prepare(graph.layout)
        log_z = elimination.log_partitions(plan, graph.flat)[0]
        assert_allclose(log_z, twins.log_sum(log_f), rtol=1e-13)
        moments, _ = elimination.expected_moments(plan, graph.flat)
        expected = twins.moments(graph, states, np.exp(log_f - log_z))["log_potentials"]
        assert_allclose(moments, expected, rtol=0, atol=1e-11)


def test_empty_batch(seed):
    graph = ZOO["chain"](seed)
    plan = elimination.prepare(graph.layout, np.arange(6) < 2)
    none = np.zeros((0, 6), dtype=STATE)
    assert elimination.log_partitions(plan, graph.flat, none).shape == (0,)
    assert elimination.single_marginals(plan, graph.flat, none).shape == (0, 12)
    assert elimination.maximise(plan, graph.flat, none).shape == (0, 6)
    moments, totals = elimination.expected_moments(plan, graph.flat, none)
    assert not moments.any()
    assert totals.shape == (0,)


def test_inputs_are_read_only(seed):
    graph = ZOO["orders"](seed)
    X = np.array([[1, 2, 0, 3, 1]] * 3, dtype=STATE)
    X.flags.writeable = False
    kept = X.copy()
    plan = elimination.prepare(graph.layout, np.arange(5) % 2 == 0)
    assert not graph.flat.flags.writeable
    elimination.log_partitions(plan, graph.flat, X)
    elimination.single_marginals(plan, graph.flat, X)
    elimination.expected_moments(plan, graph.flat, X)
    elimination.maximise(plan, graph.flat, X)
    elimination.sample(plan, graph.flat, 3, np.random.default_rng(0), X)
    assert_array_equal(X, kept)


# Impossible evidence ----------------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_ZEROS)
def test_impossible_evidence_raises(name, seed):
    """Log Z of impossible evidence is -inf; conditional queries raise an error with the row."""
    graph = ZOO[name](seed)
    states, log_f = enumerate_states(graph)
    n = graph.n_variables
    for observed in [*(np.arange(n) != i for i in range(n)), np.ones(n, dtype=bool)]:
        agree = (states[:, None, observed] == states[None, :, observed]).all(axis=2)
        best = np.where(agree, log_f, -np.inf).max(axis=1)
        if best.min() == -np.inf:
            break
    bad, good = states[np.argmin(best)], states[np.argmax(log_f)]
    X = np.array([good, good, bad, good])
    plan = elimination.prepare(graph.layout, observed)
    log_z = elimination.log_partitions(plan, graph.flat, X)
    assert_array_equal(np.isneginf(log_z), [False, False, True, False])
    message = re.escape(
        "The evidence of row 2 has probability zero under the model, so conditional "
        "probabilities are undefined. Change the evidence, or replace zero potentials by small "
        "positive ones."
    )
    for query in (
        elimination.single_marginals,
        elimination.expected_moments,
        elimination.maximise,
        lambda plan, flat, X: elimination.sample(plan, flat, 4, np.random.default_rng(0), X),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            query(plan, graph.flat, X)


def test_impossible_row_in_a_later_chunk_is_named(seed, monkeypatch):
    graph = ZOO["zeros_binary"](seed)
    X = np.zeros((9, 6), dtype=STATE)
    X[7, 0] = 1
    plan = elimination.prepare(graph.layout, np.arange(6) < 2)
    monkeypatch.setattr(elimination, "MESSAGES_PER_CHUNK", 2 * plan.n_messages)
    for query in (elimination.single_marginals, elimination.expected_moments, elimination.maximise):
        with pytest.raises(elimination.ImpossibleEvidence, match="evidence of row 7 has") as caught:
            query(plan, graph.flat, X)
        assert caught.value.row == 7


def test_model_without_possible_states():
    """Every table allows some states, but no joint state is possible."""
    equal, other = [[0.0, -np.inf], [-np.inf, 0.0]], [[-np.inf, 0.0], [0.0, -np.inf]]
    graph = FactorGraph([2] * 3, [(0, 1), (1, 2), (2, 0)], [equal, equal, other])
    plan = elimination.prepare(graph.layout)
    assert elimination.log_partitions(plan, graph.flat)[0] == -np.inf
    with pytest.raises(ValueError, match="evidence of row 0 has probability zero"):
        elimination.maximise(plan, graph.flat)


# Large models of small width --------------------------------------------------------------


def transfer_matrices(unary, pair):
    """Return log Z, the largest log f and the marginals of a chain by transfer matrices."""
    n = len(unary)
    left, right, best, shift = [unary[0]], [np.zeros(3)], unary[0], 0.0
    for k in range(n - 1):
        message = np.logaddexp.reduce(left[-1][:, None] + pair[k], axis=0)
        shift += message.max()
        left.append(message - message.max() + unary[k + 1])
        best = np.max(best[:, None] + pair[k], axis=0) + unary[k + 1]
        back = pair[n - 2 - k] + (right[-1] + unary[n - 1 - k])[None]
        back = np.logaddexp.reduce(back, axis=1)
        right.append(back - back.max())
    log_p = np.array(left) + np.array(right[::-1])
    log_p -= np.logaddexp.reduce(log_p, axis=1)[:, None]
    return shift + np.logaddexp.reduce(left[-1]), best.max(), np.exp(log_p)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_a_long_chain_is_fast_and_exact(scale, seed):
    n = 5000
    rng = np.random.default_rng(seed)
    unary, pair = rng.normal(0, scale, size=(n, 3)), rng.normal(0, scale, size=(n - 1, 3, 3))
    order = rng.permutation(n)  # variable order[k] is at position k of the chain
    cliques = [(v,) for v in order] + list(pairwise(order))
    graph = FactorGraph([3] * n, cliques, [*unary, *pair])
    start = time.perf_counter()
    plan = elimination.prepare(graph.layout)
    log_z = elimination.log_partitions(plan, graph.flat)[0]
    singles = elimination.single_marginals(plan, graph.flat).reshape(n, 3)
    mode = elimination.maximise(plan, graph.flat)
    draw = elimination.sample(plan, graph.flat, 1, rng)
    assert time.perf_counter() - start < 10
    expected, best, marginals = transfer_matrices(unary, pair)
    assert_allclose(log_z, expected, rtol=1e-12)
    assert_allclose(singles[order], marginals, rtol=0, atol=1e-9)
    assert_allclose(graph.log_potential(mode)[0], best, rtol=1e-12)
    assert np.isfinite(graph.log_potential(draw)[0])


def test_ising_grid_without_field_is_symmetric():
    """Check a cold 10 x 10 Ising model against the expansion of log Z at low temperature.

    It has two ground states. The next terms are flips of a corner (two edges, 12 nats) and flips of
    three edges (32 single variables at the rim, 8 pairs at corners).
    """
    edges = sorted(nx.convert_node_labels_to_integers(nx.grid_2d_graph(10, 10)).edges)
    table = np.array([[3.0, -3.0], [-3.0, 3.0]])
    graph = FactorGraph([2] * 100, edges, [table] * 180, tie=[range(180)])
    plan = elimination.prepare(graph.layout)
    assert_allclose(elimination.single_marginals(plan, graph.flat), 0.5, rtol=0, atol=1e-12)
    moments, total = elimination.expected_moments(plan, graph.flat)
    assert_allclose(moments.sum(), 180.0, rtol=1e-12)
    assert_allclose(moments[0], moments[3], rtol=1e-12)
    assert_allclose(total[0], 540 + np.log(2) + 4 * np.exp(-12) + 40 * np.exp(-18), atol=1e-8)


# Properties -------------------------------------------------------------------------------


@given(small_graphs(), st.integers(0, 2**32))
def test_log_z_is_the_log_sum_over_states_of_a_variable(graph, seed):
    """Log Z is the log-sum of log Z given each state of a variable; marginals are ratios."""
    rng = np.random.default_rng(seed)
    i = int(rng.integers(graph.n_variables))
    q = int(graph.n_states[i])
    X = np.zeros((q, graph.n_variables), dtype=STATE)
    X[:, i] = np.arange(q)
    given_i = elimination.prepare(graph.layout, np.arange(graph.n_variables) == i)
    parts = elimination.log_partitions(given_i, graph.flat, X)
    plan = elimination.prepare(graph.layout)
    log_z = elimination.log_partitions(plan, graph.flat)[0]
    assert_allclose(twins.log_sum(parts), log_z, rtol=1e-12, atol=1e-12)
    singles = elimination.single_marginals(plan, graph.flat)[0]
    first = int(graph.n_states[:i].sum())
    assert_allclose(singles[first : first + q], np.exp(parts - log_z), rtol=0, atol=1e-11)


@given(small_graphs(), st.floats(-500, 500))
def test_shifted_table_only_shifts_log_z(graph, shift):
    plan = elimination.prepare(graph.layout)
    log_z = elimination.log_partitions(plan, graph.flat)[0]
    singles = elimination.single_marginals(plan, graph.flat)
    for a in range(len(graph.cliques)):
        tables = [t + shift * (a == b) for b, t in enumerate(graph.log_potentials)]
        other = FactorGraph(graph.n_states, graph.cliques, tables)
        shifted = elimination.log_partitions(plan, other.flat)[0]
        assert_allclose(shifted, log_z + shift, rtol=1e-12, atol=1e-11)
        assert_allclose(elimination.single_marginals(plan, other.flat), singles, rtol=0, atol=1e-10)


@given(small_graphs())
def test_random_models_equal_enumeration(graph):
    states, log_f = enumerate_states(graph)
    plan = elimination.prepare(graph.layout)
    log_z = elimination.log_partitions(plan, graph.flat)[0]
    assert_allclose(log_z, twins.log_sum(log_f), rtol=1e-12, atol=1e-12)
    p = np.exp(log_f - log_z)
    moments, _ = elimination.expected_moments(plan, graph.flat)
    expected = twins.moments(graph, states, p)["log_potentials"]
    assert_allclose(moments, expected, rtol=0, atol=1e-11)


# Elimination orders, time and memory -------------------------------------------------------------


def pairwise_layout(graph, n_states=2):
    return Layout.build(np.full(len(graph), n_states), sorted(map(sorted, graph.edges)))


def grid_layout(rows, columns):
    return pairwise_layout(nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns)))


def mixed_state_layout():
    """Return a layout of many binary variables and three variables of 13 states."""
    cliques = [(i, j, 30 + j % 3) for i, j in combinations(range(12), 2)]
    cliques += [(30, 31), (31, 32), (32, 30)]
    return Layout.build([2] * 30 + [13] * 3, cliques)


@pytest.mark.parametrize(
    ("graph", "log2_largest"),
    [
        (nx.empty_graph(5), 1),
        (nx.path_graph(30), 2),
        (nx.cycle_graph(30), 3),
        (nx.star_graph(30), 2),
        (nx.complete_graph(9), 9),
        (nx.random_labeled_tree(60, seed=0), 2),
        (nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 20)), 5),
        (nx.convert_node_labels_to_integers(nx.grid_2d_graph(14, 14)), 15),
    ],
)
def test_elimination_orders_have_minimal_width(graph, log2_largest):
    cost = tree_decomposition.forecast(pairwise_layout(graph))
    assert_allclose(cost.log2_largest, log2_largest, atol=1e-9)
    assert sorted(cost.order.tolist()) == sorted(graph)


def test_forecast_with_observed_variables():
    layout = pairwise_layout(nx.complete_graph(9))
    observed = np.arange(9) < 5
    cost = tree_decomposition.forecast(layout, observed)
    assert sorted(cost.order.tolist()) == [5, 6, 7, 8]
    assert_allclose(cost.log2_largest, 4)
    assert_allclose(cost.entries, 16 + 8 + 4 + 2)
    empty = tree_decomposition.forecast(layout, np.ones(9, dtype=bool))
    assert (empty.bytes, empty.entries, len(empty.order)) == (0.0, 0.0, 0)


@pytest.mark.long
@pytest.mark.parametrize(
    "layout",
    [
        grid_layout(14, 25),
        grid_layout(9, 100),
        pairwise_layout(nx.complete_graph(18)),
        mixed_state_layout(),
    ],
    ids=["grid", "strip", "complete", "wide-and-narrow"],
)
def test_peak_memory_is_close_to_the_forecast(layout):
    rng = np.random.default_rng(0)
    flat = rng.normal(size=layout.n_parameters)
    warm = ZOO["chain"](0)
    elimination.expected_moments(elimination.prepare(warm.layout), flat[:32])
    tracemalloc.start()
    try:
        plan = elimination.prepare(layout)
        elimination.expected_moments(plan, flat)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.1 * plan.forecast.bytes + 4e6
    assert plan.forecast.bytes < 1.3 * peak


def test_max_bytes_is_the_exact_limit():
    layout = grid_layout(5, 5)
    needed = tree_decomposition.forecast(layout).bytes
    elimination.prepare(layout, max_bytes=needed)
    with pytest.raises(ValueError) as caught:
        elimination.prepare(layout, max_bytes=needed - 1)
    assert str(caught.value) == (
        f"Exact inference needs {needed:.4g} bytes (largest table 2^6.0 entries), more than "
        f"max_bytes={needed - 1:.4g}. Raise max_bytes, observe more variables or use an "
        "approximate method."
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("layout", "message"),
    [
        pytest.param(
            lambda: pairwise_layout(nx.complete_graph(1058)),
            r"needs at least 1\.798e\+308 bytes \(largest table 2\^1058\.0 entries\)",
            marks=pytest.mark.long,
        ),
        (
            lambda: pairwise_layout(nx.complete_graph(36)),
            r"needs 8\.6\d+e\+11 bytes \(largest table 2\^36\.0 entries\)",
        ),
        (
            lambda: grid_layout(36, 36),
            r"needs \d\.\d+e\+1\d bytes \(largest table 2\^3\d\.0 entries\)",
        ),
        (
            lambda: pairwise_layout(nx.gnp_random_graph(400, 0.05, seed=0)),
            r"bytes \(largest table 2\^\d+",
        ),
        (lambda: pairwise_layout(nx.complete_graph(12), 1000), r"needs at least \S+ bytes"),
    ],
    ids=["complete-1058", "complete-36", "grid-36", "random-400", "thousand-states"],
)
def test_too_large_models_raise_before_allocation(layout, message):
    layout = layout()
    tracemalloc.start()
    start = time.perf_counter()
    try:
        with pytest.raises(ValueError, match=message):
            elimination.prepare(layout)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - start < 10
    assert peak < 1e8


def test_single_state_variables_cost_nothing():
    """A clique has 150 variables, and 147 of them have a single state."""
    n_states = [1] * 147 + [2, 3, 2]
    layout = Layout.build(n_states, [range(150)])
    assert_allclose(tree_decomposition.forecast(layout).log2_largest, np.log2(12))
    flat = np.random.default_rng(0).normal(size=12)
    plan = elimination.prepare(layout)
    assert_allclose(elimination.log_partitions(plan, flat)[0], twins.log_sum(flat))


@pytest.mark.parametrize("level", [1e14, 1.1e16, 1e300])
def test_marginals_of_huge_potentials_are_normalised(level, seed):
    """Equal potentials beyond 1e14 nats leave no digits for the log of their number."""
    rng = np.random.default_rng(seed)
    n = 6
    cliques = [(i, i + 1) for i in range(n - 1)] + [(i,) for i in range(n)]
    tables = [np.full((2, 3) if i % 2 == 0 else (3, 2), level) for i in range(n - 1)]
    singles = [rng.normal(size=2 + i % 2) for i in range(n)]
    graph = FactorGraph([2 + i % 2 for i in range(n)], cliques, tables + singles)
    plan = elimination.prepare(graph.layout)
    found = elimination.single_marginals(plan, graph.flat)[0]
    moments, _ = elimination.expected_moments(plan, graph.flat)
    for p in np.split(found, np.cumsum(graph.n_states)[:-1]):
        assert_allclose(p.sum(), 1.0, rtol=1e-12)
    for table in graph.layout.split(moments):
        assert_allclose(table.sum(), 1.0, rtol=1e-12)


# Choice between elimination and sums -----------------------------------------------------


@pytest.mark.parametrize("density", [0.9, 1.0])
def test_dense_rows_are_summed_and_sparse_rows_are_eliminated(density, seed):
    """A row with 20 missing variables is summed if the graph is dense, but not if it is a chain."""
    rng = np.random.default_rng(seed)
    pairs = [pair for pair in combinations(range(20), 2) if rng.random() < density]
    chain = [(i, i + 1) for i in range(19)]
    X = np.full((1, 20), MISSING, dtype=STATE)
    for cliques, is_summed in ((sorted({*pairs, *chain}), True), (chain, False)):
        graph = FactorGraph([2] * 20, cliques, random_tables([2] * 20, cliques, rng))
        done, sums = Completion(graph).log_partitions(X)
        assert done[0] == is_summed
        if is_summed:
            plan = elimination.prepare(graph.layout, X[0] != MISSING)
            assert_allclose(sums, elimination.log_partitions(plan, graph.flat, X), rtol=1e-10)


def test_degeneracy_is_the_largest_core_number(seed):
    rng = np.random.default_rng(seed)
    for probability in (0.2, 0.5, 0.8):
        graph = nx.gnp_random_graph(15, probability, seed=seed)
        cliques = [*graph.edges, *((i,) for i in range(15))]
        tables = random_tables([2] * 15, cliques, rng)
        arrays = FactorGraph([2] * 15, cliques, tables).layout.index_arrays
        found = find_degeneracy(rng.permutation(15), 15, np.zeros(15, int), arrays)
        assert found == max(nx.core_number(graph).values())


def test_blocks_have_no_variables_with_one_state():
    """The sums over the variables of a block would need more memory than twice its states."""
    q, pairs = np.array([2, 1, 2, 2]), np.zeros((4, 4, 2, 2))
    assert _first_of_block(4, q, pairs) == 2
    assert _first_of_block(4, np.array([2, 2, 2, 2]), pairs) == 0
    assert _first_of_block(3, np.array([2, 2, 600]), np.zeros((3, 3, 600, 600))) == 2
