"""Tree-reweighted bounds against exact log Z, their definition and their dual problem."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
import twins
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from zoo import ZOO, enumerate_states, random_tables, small_graphs

from skmrf import exact
from skmrf._utils.codes import MISSING, STATE
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph
from skmrf.energies.layout import Layout
from skmrf.variational import Propagation, spanning_forests, tree_reweighted

every = pytest.mark.parametrize("name", ZOO)
TREES = ("chain", "zeros_binary", "tied_binary", "one_state", "disconnected", "isolated")
TREES += ("uniform", "single_variable")
XOR = [[-np.inf, 0.0], [0.0, -np.inf]]


def exact_log_z(graph):
    return twins.log_sum(enumerate_states(graph)[1])


def bipartite(layout, members):
    """Cliques (negative numbers) and variables as a graph."""
    graph = nx.Graph()
    graph.add_nodes_from(range(len(layout.n_states)))
    for a in members:
        graph.add_node(-1 - a)
        graph.add_edges_from((-1 - a, i) for i in layout.cliques[a])
    return graph


def mean_over_forests(graph, forests, told):
    """The bound at messages {(clique, variable): array}, by enumeration of every forest."""
    rho = forests.mean(axis=0)
    states, _ = enumerate_states(graph)
    values = []
    for forest in forests:
        log_f = np.zeros(len(states))
        for (a, i), table in told.items():
            log_f += (rho[a] - forest[a]) * table[states[:, i]]
        for a in np.flatnonzero(forest):
            log_f += graph.log_potentials[a][tuple(states[:, list(graph.cliques[a])].T)] / rho[a]
        values.append(twins.log_sum(log_f))
    return np.mean(values)


# Forests -----------------------------------------------------------------------------------


@every
def test_forests(name, seed):
    """Without cycles, as large as can be, together all cliques."""
    layout = ZOO[name](seed).factor_graph().layout
    forests = spanning_forests(layout)
    assert forests.any(axis=0).all()
    assert forests[:, layout.orders <= 1].all()
    for forest in forests:
        chosen = np.flatnonzero(forest).tolist()
        assert nx.is_forest(bipartite(layout, chosen))
        for a in np.flatnonzero(~forest).tolist():
            assert not nx.is_forest(bipartite(layout, [*chosen, a]))


def test_shares_are_balanced():
    for n in (3, 4, 7, 10):
        forests = spanning_forests(Layout.build([2] * n, list(combinations(range(n), 2))))
        assert_allclose(forests.mean(axis=0), 2 / n, rtol=0.15)
    assert_array_equal(spanning_forests(Layout.build([2] * 3, [(0, 1), (1, 2), (2, 0)])).sum(0), 12)


# Bounds ------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["sequential", "flooding", "residual"])
@every
def test_the_bound_holds_at_any_messages(name, schedule, seed):
    graph = ZOO[name](seed).factor_graph()
    log_z = exact_log_z(graph)
    for max_iter in (1, 2, 3, 500):
        found = tree_reweighted(graph, Propagation(schedule=schedule, max_iter=max_iter))
        assert found.upper_bound >= log_z - 1e-12 * (1 + abs(log_z))
        assert found.upper_bound < np.inf
        if found.beliefs.converged:
            value = found.beliefs.log_partition
            assert_allclose(found.upper_bound, value, rtol=0, atol=1e-6)


@pytest.mark.parametrize("max_iter", [1, 500])
@pytest.mark.parametrize("name", TREES)
def test_exact_on_trees(name, max_iter, seed):
    graph = ZOO[name](seed)
    found = tree_reweighted(graph, Propagation(max_iter=max_iter))
    assert found.n_forests == 1
    assert_allclose(found.upper_bound, exact_log_z(graph), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["cycle", "complete", "orders", "zeros", "tied", "grid"])
def test_against_the_definition(name, seed):
    graph = ZOO[name](seed).factor_graph()
    forests = spanning_forests(graph.layout)
    for n_iter in (1, 4):
        found = tree_reweighted(graph, Propagation("flooding", 0.0, n_iter, 0.0))
        told = twins.flooding(graph, n_iter, counting=forests.mean(axis=0))
        told = {key: np.maximum(table, -1e3) for key, table in told.items()}
        expected = mean_over_forests(graph, forests, told)
        assert found.n_forests == len(forests)
        assert_allclose(found.upper_bound, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["cycle", "complete", "constant_variables"])
def test_no_messages_give_a_better_bound(name, seed):
    graph = ZOO[name](seed).factor_graph()
    forests = spanning_forests(graph.layout)
    found = tree_reweighted(graph, Propagation(max_iter=5000))
    assert found.beliefs.converged
    keys = [(a, i) for a, c in enumerate(graph.cliques) for i in c]
    sizes = [graph.n_states[i] for _, i in keys]
    rng = np.random.default_rng(seed)
    for scale in (0.0, 0.1, 1.0):
        told = {k: scale * rng.normal(size=q) for k, q in zip(keys, sizes, strict=True)}
        assert found.upper_bound <= mean_over_forests(graph, forests, told) + 1e-9


def test_a_triangle_by_its_dual_problem(seed):
    """The least bound over all messages, by a general minimiser; every share is 2/3."""
    cliques = [(0, 1), (1, 2), (2, 0), (0,), (1,), (2,)]
    rng = np.random.default_rng(seed)
    graph = FactorGraph([2] * 3, cliques, random_tables([2] * 3, cliques, rng))
    forests = ~np.eye(3, 6, dtype=bool)
    keys = [(a, i) for a in range(3) for i in cliques[a]]

    def bound(values):
        told = {key: np.array([0.0, v]) for key, v in zip(keys, values, strict=True)}
        return mean_over_forests(graph, forests, told)

    least = minimize(bound, np.zeros(6), options={"gtol": 1e-7}).fun
    assert_allclose(tree_reweighted(graph).upper_bound, least, rtol=0, atol=1e-7)


@pytest.mark.parametrize("coupling", [-1.0, 0.5, 1.0, 3.0])
def test_a_symmetric_triangle(coupling):
    """log 2 + max over p of 3 p c + 2 h(p), with p the probability that neighbours agree."""
    graph = FactorGraph([2] * 3, [(0, 1), (1, 2), (2, 0)], [coupling * np.eye(2)] * 3)
    expected = np.log(2) + 2 * np.log1p(np.exp(1.5 * coupling))
    assert_allclose(tree_reweighted(graph).upper_bound, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("coupling", [0.3, 1.0])
def test_grids(coupling, seed):
    """At least as near to log Z as to the bound by the largest entries of all tables."""
    graph = make_ising(
        "grid", n_variables=64, coupling=coupling, field=0.1, mixed_signs=True, random_state=seed
    ).factor_graph()
    log_z = exact.log_partitions(exact.prepare(graph.layout), graph.flat)[0]
    found = tree_reweighted(graph)
    tops = sum(table.max() for table in graph.log_potentials)
    trivial = tops + np.log(graph.n_states).sum()
    assert 0 <= found.upper_bound - log_z <= 0.5 * (trivial - log_z)


@given(small_graphs(), st.integers(1, 30))
def test_any_graph(graph, max_iter):
    log_z = exact_log_z(graph)
    found = tree_reweighted(graph, Propagation(max_iter=max_iter))
    assert log_z - 1e-12 * (1 + abs(log_z)) <= found.upper_bound < np.inf


# Evidence ----------------------------------------------------------------------------------


@every
def test_evidence(name, seed):
    graph = ZOO[name](seed).factor_graph()
    rng = np.random.default_rng(seed)
    states, log_f = enumerate_states(graph)
    row = states[rng.choice(np.flatnonzero(log_f > -np.inf))].copy()
    row[rng.random(len(row)) < 0.6] = MISSING
    found = tree_reweighted(graph, evidence=row)
    log_z = twins.log_sum(log_f[((row == MISSING) | (states == row)).all(axis=1)])
    assert found.upper_bound >= log_z - 1e-12 * (1 + abs(log_z))
    seen = {int(i): int(row[i]) for i in np.flatnonzero(row != MISSING)}
    smaller = tree_reweighted(graph.condition(seen))
    if found.beliefs.converged and smaller.beliefs.converged:
        assert_allclose(found.upper_bound, smaller.upper_bound, rtol=0, atol=1e-6)
    singles = np.split(found.beliefs.single, np.cumsum(graph.n_states))
    for i, s in seen.items():
        assert_array_equal(singles[i], np.arange(graph.n_states[i]) == s)


@pytest.mark.parametrize("evidence", [[0, 0, MISSING], [0, 1, 1], [MISSING, 0, MISSING]])
def test_contradictions(evidence):
    graph = FactorGraph([2] * 3, [(0, 1), (1, 2), (0, 2)], [XOR] * 3)
    row = np.array(evidence, dtype=STATE)
    assert tree_reweighted(graph, evidence=row).upper_bound == -np.inf
