"""Tests of symmetries of energies."""

from math import prod

import numpy as np
import pytest
import twins
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from zoo import enumerate_states, random_tables, small_graphs

from skmrf.energies import FactorGraph
from skmrf.energies.layout import Layout


def log_z(energy):
    return twins.log_sum(energy.log_potential(enumerate_states(energy)[0]))


@given(small_graphs(), st.integers(0, 2**32))
def test_relabelled_states(graph, seed):
    rng = np.random.default_rng(seed)
    new_code = [rng.permutation(q) for q in graph.n_states]
    tables = []
    for clique, table in zip(graph.cliques, graph.log_potentials, strict=True):
        relabelled = np.empty_like(table)
        relabelled[np.ix_(*(new_code[v] for v in clique))] = table
        tables.append(relabelled)
    other = FactorGraph(graph.n_states, graph.cliques, tables)
    states, log_f = enumerate_states(graph)
    renamed = np.column_stack([code[states[:, i]] for i, code in enumerate(new_code)])
    assert_allclose(other.log_potential(renamed), log_f, rtol=1e-12, atol=1e-12)
    assert_allclose(log_z(other), log_z(graph), rtol=1e-12, atol=1e-12)


@given(small_graphs(), st.integers(0, 2**32))
def test_permuted_variables(graph, seed):
    """New variable k is old variable order[k]."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(graph.n_variables)
    new = np.argsort(order)
    cliques = [tuple(new[list(c)]) for c in graph.cliques]
    shuffled = rng.permutation(len(cliques))
    other = FactorGraph(
        graph.n_states[order],
        [cliques[a] for a in shuffled],
        [graph.log_potentials[a] for a in shuffled],
    )
    states, log_f = enumerate_states(graph)
    assert_allclose(other.log_potential(states[:, order]), log_f, rtol=1e-12, atol=1e-12)


@given(small_graphs(), st.floats(-50, 50))
def test_shifted_tables_shift_log_z(graph, shift):
    for a in range(len(graph.cliques)):
        tables = [t + shift * (a == b) for b, t in enumerate(graph.log_potentials)]
        other = FactorGraph(graph.n_states, graph.cliques, tables)
        assert_allclose(log_z(other), log_z(graph) + shift, rtol=1e-12, atol=1e-10)


@given(small_graphs(), st.integers(0, 2**32))
def test_permuted_table_axes(graph, seed):
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(c)) for c in graph.cliques]
    cliques = [tuple(c[p] for p in o) for c, o in zip(graph.cliques, orders, strict=True)]
    tables = [t.transpose(o) for t, o in zip(graph.log_potentials, orders, strict=True)]
    other = FactorGraph(graph.n_states, cliques, tables)
    states, log_f = enumerate_states(graph)
    assert_allclose(other.log_potential(states), log_f, rtol=1e-12, atol=1e-12)


def test_tables_of_a_layout_fill_it():
    rng = np.random.default_rng(0)
    n_states = [2, 3, 4]
    cliques = [(2, 0), (), (1,), (0, 1, 2)]
    tables = random_tables(n_states, cliques, rng)
    layout = Layout.build(n_states, cliques)
    assert layout.n_parameters == sum(prod(t.shape) for t in tables)
    graph = FactorGraph(n_states, cliques, tables)
    for table, again in zip(tables, graph.log_potentials, strict=True):
        assert_array_equal(table, again)


def test_tables_whose_sums_overflow_are_refused():
    with pytest.raises(ValueError, match="may overflow; keep them below"):
        FactorGraph([2, 2], [(0, 1)] * 2, [[[1e308, 0.0], [0.0, 1e308]]] * 2)


def test_tie_is_groups_of_cliques():
    with pytest.raises(ValueError, match="tie must be groups of clique numbers"):
        FactorGraph([2] * 3, [(0,), (1,), (2,)], [np.zeros(2)] * 3, tie=[0, 1, 2])
