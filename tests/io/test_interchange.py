"""Tests of graphs and draws exchanged with networkx and ArviZ, and of what all exchanges share."""

import doctest
import importlib
import subprocess
import sys
import time
import warnings

import networkx as nx
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skmrf import DiscreteMRF, MRFStructureLearner, io
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.samplers import ChainTraces, trace_chains

# networkx ---------------------------------------------------------------------------------


def test_edges_are_as_those_of_the_structure_learner(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(2, size=(300, 4))
    X[:, 1] = np.where(rng.random(300) < 0.8, X[:, 0], X[:, 1])
    X[:, 3] = np.where(rng.random(300) < 0.8, 1 - X[:, 2], X[:, 3])
    for rows in (X, np.column_stack([X, rng.integers(3, size=300)])):
        learner = MRFStructureLearner("exact").fit(rows)
        graph = io.to_networkx(learner.energy_)
        assert list(graph.nodes) == list(learner.graph_.nodes)
        assert set(map(frozenset, graph.edges)) == set(map(frozenset, learner.graph_.edges))
        assert graph.number_of_edges() >= 2
        for i, j, found in learner.graph_.edges(data=True):
            edge = graph.edges[i, j]
            assert set(edge) == {"weight", "strength", "sign"} & set(found)
            for key, value in edge.items():
                assert_allclose(value, found[key], rtol=1e-9)
        assert [q for _, q in graph.nodes(data="n_states")] == learner.energy_.n_states.tolist()


def test_couplings_are_read_off_tables():
    energy = PairwiseEnergy([[0, -0.5, 0], [-0.5, 0, 0.3], [0, 0.3, 0]], np.ones(3), states=(0, 1))
    graph = io.to_networkx(energy, names=["a", "b", "c"])
    assert list(graph.edges) == [("a", "b"), ("b", "c")]
    assert_allclose(graph.edges["a", "b"]["weight"], -0.5 / 4)  # of states -1 and 1
    assert graph.edges["b", "c"]["sign"] == 1.0

    tables = [[[1.0, 0.0], [0.0, 0.0]], [[[2.0, 0.0]], [[0.0, 0.0]]], [[0.0, 3.0], [0.0, 0.0]]]
    graph = io.to_networkx(FactorGraph([2, 2, 1], [(0, 1), (1, 2, 0), (1, 0)], tables))
    # sum over cliques: 1 at (0, 0), 2 at (0, 0), 3 at x0 = 1, x1 = 0
    assert_allclose(graph.edges[0, 1]["weight"], (1 + 2 - 3) / 4, atol=1e-15)
    assert_allclose(graph.edges[1, 2]["strength"], 0.0, atol=1e-15)

    parity = np.array([[[1.0, -1.0], [-1.0, 1.0]], [[-1.0, 1.0], [1.0, -1.0]]])
    graph = io.to_networkx(FactorGraph([2, 2, 2], [(0, 1, 2)], [parity]))
    assert [e["strength"] for *_, e in graph.edges(data=True)] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("table", "weight", "strength"),
    [
        ([[0, -np.inf], [0, 0]], np.inf, np.inf),
        ([[0, -np.inf], [-np.inf, 0]], np.inf, np.inf),
        ([[0, 1], [1, -np.inf]], -np.inf, np.inf),
        ([[-np.inf, -np.inf], [0, 1]], 0.0, 0.0),
        ([[-np.inf, 0], [-np.inf, 1]], 0.0, 0.0),
    ],
)
def test_states_that_exclude_each_other(table, weight, strength):
    edge = io.to_networkx(FactorGraph([2, 2], [(0, 1)], [table])).edges[0, 1]
    assert edge == {"weight": weight, "strength": strength, "sign": np.sign(weight)}


def test_zeros_of_larger_tables_and_of_more_states():
    triple = np.zeros((2, 2, 2))
    triple[0, 0, 0] = -np.inf
    edges = io.to_networkx(FactorGraph([2, 2, 2], [(0, 1, 2)], [triple])).edges(data=True)
    assert all(e == {"weight": np.inf, "strength": np.inf, "sign": 0.0} for *_, e in edges)
    table = np.zeros((3, 2))
    table[1] = -np.inf
    table[2, 1] = 1.0
    edge = io.to_networkx(FactorGraph([3, 2], [(0, 1)], [table])).edges[0, 1]
    assert_allclose(list(edge.values()), [0.5, 0.5])  # of [[0, 0], [0, 1]], centred
    tables = [[[0, -np.inf], [-np.inf, -np.inf]], [[-np.inf, 0], [0, 0]]]
    edge = io.to_networkx(FactorGraph([2, 2], [(0, 1), (0, 1)], tables)).edges[0, 1]
    assert edge["strength"] == np.inf  # no state is possible


def test_bipartite_graphs():
    graph = FactorGraph([2, 3, 1], [(1, 0), (), (0,)], [np.arange(6.0), [2.0], [0.0, 1.0]])
    network = io.to_networkx(graph, kind="factor", names=["a", "b", "c"])
    assert nx.is_bipartite(network)
    assert dict(network.nodes["b"]) == {"n_states": 3, "bipartite": 0}
    assert network.nodes["factor", 0]["variables"] == ["b", "a"]
    assert_array_equal(network.nodes["factor", 0]["log_potentials"], np.arange(6.0).reshape(3, 2))
    assert sorted(network["factor", 0]) == ["a", "b"]
    assert network.degree[("factor", 1)] == network.degree["c"] == 0
    assert network.nodes["factor", 1]["log_potentials"] == 2.0
    with pytest.raises(ValueError, match="A variable is called"):
        io.to_networkx(graph, kind="factor", names=["a", "b", ("factor", 2)])
    with pytest.raises(ValueError, match="kind must be one of"):
        io.to_networkx(graph, kind="bipartite")
    with pytest.raises(ValueError, match="There are 3 variables, but 2 names"):
        io.to_networkx(graph, names=["a", "b"])
    assert io.to_networkx(FactorGraph([], [], [])).number_of_nodes() == 0


def test_a_graph_goes_back_as_cliques(seed):
    X = np.random.default_rng(seed).integers(2, size=(50, 4)).astype(str)
    cliques = [(0, 1), (1, 3)]
    model = DiscreteMRF(cliques, "exact", alpha=0.1).fit(X)
    again = DiscreteMRF(io.to_networkx(model.energy_), "exact", alpha=0.1).fit(X)
    pairs = [c for c in again.cliques_ if len(c) == 2]
    assert sorted(pairs) == cliques


@pytest.mark.slow
def test_large_graphs_take_seconds():
    rng = np.random.default_rng(0)
    coupling = np.triu(rng.normal(size=(600, 600)), 1)
    energy = PairwiseEnergy(coupling + coupling.T, np.zeros(600))
    start = time.perf_counter()
    graph = io.to_networkx(energy)
    assert time.perf_counter() - start < 20.0
    assert_allclose(graph.edges[17, 400]["weight"], coupling[17, 400])


# ArviZ ------------------------------------------------------------------------------------


@pytest.fixture
def arviz():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # it announces its next version once a day
        return pytest.importorskip("arviz")


@pytest.mark.usefixtures("arviz")
def test_records_of_chains_keep_their_places():
    states = np.arange(2 * 5 * 3, dtype=np.int16).reshape(2, 5, 3)
    traces = ChainTraces(states, np.linspace(-3.0, 0.0, 10).reshape(2, 5))
    data = io.to_arviz(traces, names=["a", "b", "ß"])
    assert data.posterior["states"].dims == ("chain", "draw", "column")
    assert_array_equal(data.posterior["states"], states)
    assert_array_equal(data.posterior["states"].sel(column="ß"), states[:, :, 2])
    assert_array_equal(data.sample_stats["lp"], traces.log_potential)
    assert io.to_arviz(traces).posterior["column"].values.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="There are 3 variables, but 2 names"):
        io.to_arviz(traces, names=["a", "b"])


@pytest.mark.filterwarnings("ignore::RuntimeWarning:arviz")
def test_r_hat_tells_stuck_chains_from_chains_that_mix(arviz, seed):
    options = {"n_chains": 16, "n_sweeps": 400, "n_discarded": 100, "random_state": seed}
    for coupling, mixes in ((0.2, True), (1.0, False)):
        energy = make_ising("grid", n_variables=16, coupling=coupling)
        data = io.to_arviz(trace_chains(energy, **options))
        r_hat, ess = arviz.rhat(data)["states"].values, arviz.ess(data)["states"].values
        if mixes:
            assert r_hat.max() < 1.02
            assert ess.min() > 1000
            assert arviz.rhat(data.sample_stats["lp"].values) < 1.02
        else:  # every chain stays with the sign that it found first
            assert np.nanmin(r_hat) > 1.5
            assert np.nanmax(ess) < 50
    assert "states[15]" in arviz.summary(data).index


# what all share ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [
        ("pgmpy", "interop", lambda: io.to_pgmpy(FactorGraph([2], [], []))),
        ("pgmpy", "interop", lambda: io.from_pgmpy(None)),
        ("arviz", "interop", lambda: io.to_arviz(None)),
    ],
)
def test_packages_that_are_missing(monkeypatch, package, extra, call):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf'{package} is not installed .*"skmrf\[{extra}\]"'):
        call()


def test_no_other_package_is_imported_before_it_is_needed():
    code = "import sys, skmrf.io; print({'pgmpy', 'arviz', 'skops'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("module", ["pgmpy", "networkx", "arviz"])
def test_examples_in_docstrings(module):
    pytest.importorskip(module)
    outcome = doctest.testmod(importlib.import_module(f"skmrf.io.{module}"))
    assert outcome.attempted
    assert not outcome.failed
