"""Modes by decimation: exact on trees, possible states elsewhere, published problems."""

import gzip
import json
import sys

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from zoo import ZOO, enumerate_states, naive_log_potential, small_graphs

from skmrf._utils.codes import MISSING, STATE
from skmrf.energies import FactorGraph
from skmrf.exact import ImpossibleEvidence
from skmrf.io import read_uai
from skmrf.variational import Propagation, decimate

every = pytest.mark.parametrize("name", ZOO)
TREES = ("chain", "zeros_binary", "tied_binary", "one_state", "disconnected", "isolated")
TREES += ("uniform", "single_variable")
XOR = [[-np.inf, 0.0], [0.0, -np.inf]]


def value(graph, found):
    return naive_log_potential(graph, found.states[None])[0]


@pytest.mark.parametrize("schedule", ["sequential", "flooding", "residual"])
@pytest.mark.parametrize("name", TREES)
def test_a_mode_on_trees(name, schedule, seed):
    graph = ZOO[name](seed)
    found = decimate(graph, Propagation(schedule=schedule))
    assert found.converged_fraction == 1.0
    assert found.states.dtype == STATE
    assert_allclose(value(graph, found), enumerate_states(graph)[1].max(), rtol=0, atol=1e-10)


@every
def test_possible_states(name, seed):
    """Zero potentials are avoided; what is found is not above the mode."""
    graph = ZOO[name](seed).factor_graph()
    found = decimate(graph)
    top = enumerate_states(graph)[1].max()
    assert -np.inf < value(graph, found) <= top + 1e-12 * (1 + abs(top))
    assert 0 <= found.converged_fraction <= 1
    assert_array_equal(decimate(graph).states, found.states)


@every
def test_evidence_stays(name, seed):
    graph = ZOO[name](seed).factor_graph()
    rng = np.random.default_rng(seed)
    states, log_f = enumerate_states(graph)
    row = states[rng.choice(np.flatnonzero(log_f > -np.inf))].copy()
    row[rng.random(len(row)) < 0.5] = MISSING
    kept = row.copy()
    found = decimate(graph, evidence=row)
    assert_array_equal(row, kept)
    assert_array_equal(found.states[row != MISSING], row[row != MISSING])
    assert value(graph, found) > -np.inf
    if name in TREES:
        top = log_f[((row == MISSING) | (states == row)).all(axis=1)].max()
        assert_allclose(value(graph, found), top, rtol=0, atol=1e-10)


@given(small_graphs())
def test_any_graph(graph):
    assert value(graph, decimate(graph)) > -np.inf


def test_ties_go_to_the_first():
    graph = FactorGraph([2, 3, 2, 2], [(2, 3), (1,)], [np.zeros((2, 2)), np.zeros(3)])
    assert_array_equal(decimate(graph).states, 0)
    graph = FactorGraph([2, 2, 2], [(0, 1), (1, 2)], [XOR, XOR])
    assert_array_equal(decimate(graph).states, [0, 1, 0])


def coloring(graph, n_colors):
    different = np.where(np.eye(n_colors, dtype=bool), -np.inf, 0.0)
    edges = list(graph.edges)
    return FactorGraph([n_colors] * len(graph), edges, [different] * len(edges))


@pytest.mark.parametrize("n", [8, 14])
def test_colorings(n, seed):
    """Three colours suffice by construction, and are found by going back."""
    rng = np.random.default_rng(seed)
    planted = rng.integers(3, size=n)
    edges = [(i, j) for i in range(n) for j in range(i) if planted[i] != planted[j]]
    edges = [edge for edge in edges if rng.random() < 7 / n]
    network = nx.Graph(edges)
    network.add_nodes_from(range(n))
    network = nx.convert_node_labels_to_integers(network, ordering="sorted")
    graph = coloring(network, 3)
    assert value(graph, decimate(graph)) == 0.0


@pytest.mark.parametrize(
    ("network", "n_colors"), [(nx.cycle_graph(5), 2), (nx.complete_graph(4), 3)]
)
def test_impossible_models(network, n_colors, monkeypatch):
    """An odd cycle in two colours, four neighbours in three: a proof, or any state without one."""
    graph = coloring(network, n_colors)
    with pytest.raises(ImpossibleEvidence):
        decimate(graph)
    monkeypatch.setattr(sys.modules["skmrf.variational.decimation"], "MAX_RETURNS", 0)
    assert value(graph, decimate(graph)) == -np.inf


# Published problems ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "gap"),
    [
        ("testfast", 0.0),
        ("hoi1", 0.0),
        ("hoi2", 0.0),
        ("hoi3", 0.0),
        ("hoi4", 0.0),
        ("alarm", 0.08),
    ],
)
def test_libdai(name, gap, data_folder):
    """Exact modes but for alarm, where the value is 0.075 nats below."""
    folder = data_folder("libdai")
    exact = json.loads(gzip.decompress((folder / "exact_by_ve.json.gz").read_bytes()))[name]
    graph = read_uai(folder / f"{name}.uai.gz")
    found = value(graph, decimate(graph))
    assert exact["log_map"] - gap - 1e-9 <= found <= exact["log_map"] + 1e-9
