"""Tests of elimination orders, and of the time and memory that they take."""

import time
import tracemalloc
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
import twins
from numpy.testing import assert_allclose
from zoo import ZOO

from skmrf import exact
from skmrf.energies.layout import Layout


def pairs_of(graph, n_states=2):
    return Layout.build(np.full(len(graph), n_states), sorted(map(sorted, graph.edges)))


def grid(rows, columns):
    return pairs_of(nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns)))


def wide_and_narrow():
    """Many binary variables on few of 13 states: blocks of an awkward shape."""
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
def test_orders_are_as_narrow_as_the_graph_allows(graph, log2_largest):
    cost = exact.forecast(pairs_of(graph))
    assert_allclose(cost.log2_largest, log2_largest, atol=1e-9)
    assert sorted(cost.order.tolist()) == sorted(graph)


def test_forecast_of_what_is_observed():
    layout = pairs_of(nx.complete_graph(9))
    observed = np.arange(9) < 5
    cost = exact.forecast(layout, observed)
    assert sorted(cost.order.tolist()) == [5, 6, 7, 8]
    assert_allclose(cost.log2_largest, 4)
    assert_allclose(cost.entries, 16 + 8 + 4 + 2)
    nothing = exact.forecast(layout, np.ones(9, dtype=bool))
    assert (nothing.bytes, nothing.entries, len(nothing.order)) == (0.0, 0.0, 0)


@pytest.mark.parametrize(
    "layout",
    [grid(14, 25), grid(9, 100), pairs_of(nx.complete_graph(18)), wide_and_narrow()],
    ids=["grid", "strip", "complete", "wide-and-narrow"],
)
def test_memory_is_as_forecast(layout):
    rng = np.random.default_rng(0)
    flat = rng.normal(size=layout.n_parameters)
    warm = ZOO["chain"](0)
    exact.expected_moments(exact.prepare(warm.layout), flat[:32])
    tracemalloc.start()
    try:
        plan = exact.prepare(layout)
        exact.expected_moments(plan, flat)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.1 * plan.forecast.bytes + 4e6
    assert plan.forecast.bytes < 1.3 * peak


def test_max_bytes_is_the_bound():
    layout = grid(5, 5)
    needed = exact.forecast(layout).bytes
    exact.prepare(layout, max_bytes=needed)
    with pytest.raises(ValueError) as caught:
        exact.prepare(layout, max_bytes=needed - 1)
    assert str(caught.value) == (
        f"Exact inference needs {needed:.4g} bytes (largest table 2^6.0 entries), more than "
        f"max_bytes={needed - 1:.4g}. Raise max_bytes, observe more variables or use an "
        "approximate method."
    )


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (
            lambda: pairs_of(nx.complete_graph(1058)),
            r"needs at least 1\.798e\+308 bytes \(largest table 2\^1058\.0 entries\)",
        ),
        (
            lambda: pairs_of(nx.complete_graph(36)),
            r"needs 8\.6\d+e\+11 bytes \(largest table 2\^36\.0 entries\)",
        ),
        (lambda: grid(36, 36), r"needs \d\.\d+e\+1\d bytes \(largest table 2\^3\d\.0 entries\)"),
        (lambda: pairs_of(nx.gnp_random_graph(400, 0.05, seed=0)), r"bytes \(largest table 2\^\d+"),
        (lambda: pairs_of(nx.complete_graph(12), 1000), r"needs at least \S+ bytes"),
    ],
    ids=["complete-1058", "complete-36", "grid-36", "random-400", "thousand-states"],
)
def test_what_does_not_fit_is_refused_before_memory_is_taken(layout, message):
    layout = layout()
    tracemalloc.start()
    start = time.perf_counter()
    try:
        with pytest.raises(ValueError, match=message):
            exact.prepare(layout)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - start < 10
    assert peak < 1e8


def test_variables_of_one_state_cost_nothing():
    """A clique of 150 variables, all but 3 of one state."""
    n_states = [1] * 147 + [2, 3, 2]
    layout = Layout.build(n_states, [range(150)])
    assert_allclose(exact.forecast(layout).log2_largest, np.log2(12))
    flat = np.random.default_rng(0).normal(size=12)
    plan = exact.prepare(layout)
    assert_allclose(exact.log_partitions(plan, flat)[0], twins.log_sum(flat))
