"""Tests of conversion to networkx and ArviZ, and of libDAI and CRFsuite files."""

import doctest
import importlib
import math
import sys
import time
import tracemalloc
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from zoo import GOOD_FG, MODELS, fails, graphs, in_one_folder, needs_data, write

from skmrf import CRF, TRUSTED_TYPES, DiscreteMRF, MRFStructureLearner, io
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.io import read_fg, read_uai, write_fg
from skmrf.samplers import trace_chains
from skmrf.samplers.traces import ChainTraces

# networkx ---------------------------------------------------------------------------------


def test_edges_match_structure_learner(seed):
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


def test_couplings_of_tables():
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
def test_pairs_with_impossible_states(table, weight, strength):
    edge = io.to_networkx(FactorGraph([2, 2], [(0, 1)], [table])).edges[0, 1]
    assert edge == {"weight": weight, "strength": strength, "sign": np.sign(weight)}


def test_zeros_in_larger_tables():
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
    assert edge["strength"] == np.inf  # all joint states have probability zero


def test_factor_graphs_are_bipartite():
    graph = FactorGraph([2, 3, 1], [(1, 0), (), (0,)], [np.arange(6.0), [2.0], [0.0, 1.0]])
    network = io.to_networkx(graph, kind="factor", names=["a", "b", "c"])
    assert nx.is_bipartite(network)
    assert dict(network.nodes["b"]) == {"n_states": 3, "bipartite": 0}
    assert network.nodes["factor", 0]["variables"] == ["b", "a"]
    assert_array_equal(network.nodes["factor", 0]["log_potentials"], np.arange(6.0).reshape(3, 2))
    assert sorted(network["factor", 0]) == ["a", "b"]
    assert network.degree[("factor", 1)] == network.degree["c"] == 0
    assert network.nodes["factor", 1]["log_potentials"] == 2.0
    with pytest.raises(ValueError, match="A variable is named"):
        io.to_networkx(graph, kind="factor", names=["a", "b", ("factor", 2)])
    with pytest.raises(ValueError, match="kind must be one of"):
        io.to_networkx(graph, kind="bipartite")
    with pytest.raises(ValueError, match="There are 3 variables, but 2 names"):
        io.to_networkx(graph, names=["a", "b"])
    assert io.to_networkx(FactorGraph([], [], [])).number_of_nodes() == 0


def test_graph_can_be_used_as_cliques(seed):
    X = np.random.default_rng(seed).integers(2, size=(50, 4)).astype(str)
    cliques = [(0, 1), (1, 3)]
    model = DiscreteMRF(cliques, "exact", alpha=0.1).fit(X)
    again = DiscreteMRF(io.to_networkx(model.energy_), "exact", alpha=0.1).fit(X)
    pairs = [c for c in again.cliques_ if len(c) == 2]
    assert sorted(pairs) == cliques


@pytest.mark.slow
def test_large_graphs_are_fast():
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
        # ArviZ warns once a day of changes in its next version
        warnings.simplefilter("ignore", FutureWarning)
        return pytest.importorskip("arviz")


@pytest.mark.usefixtures("arviz")
def test_arviz_data_have_states_and_log_potentials():
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
def test_r_hat_detects_stuck_chains(arviz, seed):
    options = {"n_chains": 16, "n_sweeps": 400, "n_discarded": 100, "random_state": seed}
    for coupling, mixes in ((0.2, True), (1.0, False)):
        energy = make_ising("grid", n_variables=16, coupling=coupling)
        data = io.to_arviz(trace_chains(energy, **options))
        r_hat, ess = arviz.rhat(data)["states"].values, arviz.ess(data)["states"].values
        if mixes:
            assert r_hat.max() < 1.02
            assert ess.min() > 1000
            assert arviz.rhat(data.sample_stats["lp"].values) < 1.02
        else:  # each chain stays in the mode that it reaches first
            assert np.nanmin(r_hat) > 1.5
            assert np.nanmax(ess) < 50
    assert "states[15]" in arviz.summary(data).index


# optional packages and docstrings ---------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [
        ("pgmpy", "interop", lambda: io.to_pgmpy(FactorGraph([2], [], []))),
        ("pgmpy", "interop", lambda: io.from_pgmpy(None)),
        ("arviz", "interop", lambda: io.to_arviz(None)),
    ],
)
def test_missing_packages(monkeypatch, package, extra, call):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf'{package} is not installed .*"skmrf\[{extra}\]"'):
        call()


@pytest.mark.parametrize(("module", "package"), [("pgmpy", "pgmpy"), ("export", "arviz")])
def test_docstring_examples(module, package):
    pytest.importorskip(package)
    outcome = doctest.testmod(importlib.import_module(f"skmrf.io.{module}"))
    assert outcome.attempted
    assert not outcome.failed


# libDAI ------------------------------------------------------------------------------------------


class NaiveFactors:
    """Simple reference parser of libDAI files.

    Each factor is a dict from joint states, sets of (label, state), to potentials.
    """

    def __init__(self, path):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        words = " ".join(lines).split()[::-1]
        self.factors = []
        for _ in range(int(words.pop())):
            n = int(words.pop())
            labels, states = [[int(words.pop()) for _ in range(n)] for _ in range(2)]
            table = {}
            for _ in range(int(words.pop())):
                index, key = int(words.pop()), []
                for label, q in zip(labels, states, strict=True):
                    key.append((label, index % q))
                    index //= q
                table[frozenset(key)] = float(words.pop())
            self.factors.append((labels, table))
        assert not words

    def log_potential(self, x):
        """Return the log-potential of a dict from labels to states."""
        values = [
            table.get(frozenset((v, x[v]) for v in labels), 0.0) for labels, table in self.factors
        ]
        return sum(math.log(value) if value > 0 else -math.inf for value in values)


@given(graph=graphs(), name=st.sampled_from(["model.fg", "model.fg.gz"]))
@in_one_folder
def test_libdai_round_trip(tmp_path, graph, name):
    write_fg(graph, tmp_path / name)
    again = read_fg(str(tmp_path / name))
    m = graph.layout.n_cliques
    covered = {v for clique in graph.cliques for v in clique}
    absent = [v for v in range(graph.n_variables) if v not in covered]
    assert again.cliques == graph.cliques + tuple((v,) for v in absent)
    assert_array_equal(again.n_states, graph.n_states)
    assert again.names == list(range(graph.n_variables))
    assert [len(states) for states in again.categories] == graph.n_states.tolist()
    tables = zip(again.log_potentials[:m], graph.log_potentials, strict=True)
    for read, table in tables:
        assert_allclose(read, table, rtol=4e-16, atol=5e-16)
    assert not any(table.any() for table in again.log_potentials[m:])
    assert not again.flat.flags.writeable


def test_libdai_round_trip_of_tied_tables_and_other_energies(tmp_path):
    table = np.random.default_rng(0).normal(size=(2, 2))
    tied = FactorGraph([2, 2, 2], [(0, 1), (1, 2)], [table, table], tie=[(0, 1)])
    write_fg(tied, tmp_path / "tied.fg")
    assert_allclose(read_fg(tmp_path / "tied.fg").log_potentials, [table, table], rtol=1e-14)
    write_fg(PairwiseEnergy([[0, 1.0], [1.0, 0]], [0.0, 0.5]), tmp_path / "ising.fg")
    X = [[0, 0], [0, 1], [1, 0], [1, 1]]
    read = read_fg(tmp_path / "ising.fg")
    assert_allclose(read.log_potential(X), [0.5, -0.5, -1.5, 1.5], atol=1e-15)


def test_libdai_first_variable_is_fastest_and_labels_are_names(tmp_path):
    path = write(tmp_path, GOOD_FG)
    graph, naive = read_fg(path), NaiveFactors(path)
    assert graph.names == [3, 7, 1000]
    assert_array_equal(graph.n_states, [2, 3, 2])
    assert graph.cliques == ((2,), (), (0, 1))
    with np.errstate(divide="ignore"):
        assert_array_equal(graph.log_potentials[2], np.log([[1, 3, 5], [2, 0, 6]]))
    X = list(np.ndindex(2, 3, 2))
    expected = [naive.log_potential(dict(zip(graph.names, x, strict=True))) for x in X]
    assert_allclose(graph.log_potential(X), expected, rtol=1e-14)


def test_libdai_model_without_factors(tmp_path):
    graph = read_fg(write(tmp_path, "0\n"))
    assert graph.n_variables == 0
    assert graph.cliques == ()


@needs_data
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.long if "ImageAlignment" in path.name else ())
        for path in MODELS
    ],
    ids=lambda p: p.name,
)
def test_libdai_round_trip_of_real_models(tmp_path, path):
    graph = read_uai(path)
    write_fg(graph, tmp_path / "model.fg")
    again = read_fg(tmp_path / "model.fg")
    assert again.cliques[: len(graph.cliques)] == graph.cliques
    assert_array_equal(again.n_states, graph.n_states)
    rng = np.random.default_rng(1)
    X = (rng.random((20, graph.n_variables)) * graph.n_states).astype(int)
    assert_allclose(again.log_potential(X), graph.log_potential(X), rtol=1e-14)
    naive = NaiveFactors(tmp_path / "model.fg")
    expected = [naive.log_potential(x) for x in X[:3].tolist()]
    assert_allclose(again.log_potential(X[:3]), expected, rtol=1e-10)


FG_ERRORS = {
    "": "line 1, token 1: expected the number of factors (an integer, at least 0), found the end "
    "of the file.",
    "MARKOV": "line 1, token 1: expected the number of factors (an integer, at least 0), found "
    "'MARKOV'.",
    f"{10**30} 2": "line 1, token 1: expected the number of factors (an integer, at most 1, "
    "limited by the number of remaining tokens), found "
    "'1000000000000000000000000000000'.",
    "1\n\n2\n0 1\n2": "line 3, token 1: expected the number of variables of the factor (an "
    "integer, at most 1, limited by the number of remaining tokens), found '2'.",
    "1\n\n1\n0\n2": "line 5, token 2: expected the number of entries of factor 0 (an integer, at "
    "least 0), found the end of the file.",
    "1\n\n1\n0\n2\n2\n0 1": "line 6, token 1: expected the number of entries of factor 0 (an "
    "integer, at most 1, limited by the number of remaining tokens), found '2'.",
    "2\n\n1\n0\n2\n1\n0 1": "line 7, token 3: expected the number of variables of the factor (an "
    "integer, at least 0), found the end of the file.",
    "1\n\n65" + " 0" * 200: "line 3, token 1: expected at most 64 variables in a factor, found "
    "'65'.",
    "1\n\n1\n0\n2\n1\n0 1\n1": "line 8, token 1: expected the end of the file after 1 factors, "
    "found '1'.",
    "1\n\n1\nx0\n2\n1\n0 1": "line 4, token 1: expected a number, found 'x0'.",
    "1\n\n1\n-1\n2\n1\n0 1": "line 4, token 1: expected a label (an integer from 0 to "
    "9007199254740991), found '-1'.",
    "1\n\n1\n9007199254740993\n2\n1\n0 1": "line 4, token 1: expected a label (an integer from 0 "
    "to 9007199254740991), found '9007199254740993'.",
    "1\n\n1\n0\n0\n1\n0 1": "line 5, token 1: expected a number of states (an integer from 1 to "
    "32767), found '0'.",
    "1\n\n1\n0\n2.0\n1\n0 1": "line 5, token 1: expected a number of states (an integer from 1 to "
    "32767), found '2.0'.",
    "1\n\n2\n4 4\n2 2\n1\n0 1": "line 4, token 2: expected a variable that does not "
    "occur earlier in the factor, found '4'.",
    "2\n\n1\n4\n2\n1\n0 1\n\n2\n3 4\n2 3\n1\n0 1": "line 11, token 2: expected 2, the number of "
    "states that variable 4 has in factor 0, found '3'.",
    "1\n\n1\n0\n2\n2\n0 1\n2 1": "line 8, token 1: expected the index of an entry (an integer from "
    "0 to 1), found '2'.",
    "1\n\n1\n0\n2\n2\n1 1\n1 2": "line 8, token 1: expected an index that does not occur "
    "earlier in the factor, found '1'.",
    "1\n\n1\n0\n2\n2\n0 0\n1 0": "line 6, token 1: expected a potential above 0 among the entries "
    "of factor 0, found zeros only.",
    "1\n\n1\n0\n2\n0": "line 6, token 1: expected a potential above 0 among the entries of factor "
    "0, found zeros only.",
    "c 1\n0": "line 1, token 1: expected the number of factors (an integer, at least 0), found "
    "'c'.",
}


@pytest.mark.parametrize(("text", "message"), FG_ERRORS.items())
def test_malformed_factors(tmp_path, text, message):
    fails(read_fg, write(tmp_path, text), message)


@pytest.mark.parametrize("word", ["-0.5", "nan", "inf", "1e99999999999999999999"])
def test_malformed_potentials_of_factors(tmp_path, word):
    message = (
        f"line 8, token 2: expected a potential (a finite number of at least 0), found {word!r}."
    )
    fails(read_fg, write(tmp_path, GOOD_FG.replace("1e-3", word)), message)


def test_what_a_factor_leaves_out_takes_no_memory(tmp_path):
    labels = " ".join(map(str, range(40)))
    text = f"1\n\n40\n{labels}\n{'2 ' * 40}\n1\n0 1\n"
    path = write(tmp_path, text)
    tracemalloc.start()
    try:
        fails(
            read_fg,
            path,
            "line 3, token 1: expected tables of at most max_bytes = 1073741824 bytes in total, "
            "found 8.796e+12 bytes (this is the largest table).",
        )
        assert tracemalloc.get_traced_memory()[1] < 3e6
    finally:
        tracemalloc.stop()
    small = write(tmp_path, text.replace("2 " * 40, "2 2 " + "1 " * 38))
    assert read_fg(small, max_bytes=len(text)).layout.n_parameters == 4


# CRFsuite ---------------------------------------------------------------------------------

DUMP = """FILEHEADER = {
  magic: lCRF
}

LABELS = {
      0: y
      1: x --> z
}

ATTRIBUTES = {
      0: bias
      1: w:a --> b
      2: w:c
}

TRANSITIONS = {
  (1) y --> x --> z: 1.500000
  (1) x --> z --> y: -2.000000
}

STATE_FEATURES = {
  (0) bias --> y: 0.250000
  (0) w:a --> b --> x --> z: 0.750000
}

"""


@pytest.mark.long
def test_dump_of_crfsuite(tmp_path):
    (tmp_path / "model.txt").write_text(DUMP)
    model = io.read_crfsuite(tmp_path / "model.txt")
    assert model.classes_.tolist() == ["x --> z", "y"]
    assert_array_equal(model.transition_, [[0.0, -2.0], [1.5, 0.0]])
    assert_array_equal(model.coef_.toarray(), [[0.0, 0.75, 0.0], [0.25, 0.0, 0.0]])
    x = [{"bias": 2.0, "w": "unknown"}, {"bias": True, "w": ["a --> b", "c"]}]
    scores = np.array([[0.0, 0.5], [0.75, 0.25]])
    joint = np.exp(scores[0][:, None] + model.transition_ + scores[1])
    found = model.predict_marginals([x])[0]
    assert_allclose(found, np.stack([joint.sum(1), joint.sum(0)]) / joint.sum())
    assert_allclose(model.predict_best([x], 4)[1][0].sum(), 1.0)
    with pytest.raises(ValueError, match="Feature 'w' of position 0 of sequence 0 is None"):
        model.predict([[{"w": None}]])
    model.set_params(warm_start=True, alpha=0.1, max_iter=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.fit([x], [["y", "x --> z"]]).n_iter_ == 2


def test_models_of_crfsuite_can_be_saved(tmp_path):
    skops = pytest.importorskip("skops.io")
    (tmp_path / "model.txt").write_text(DUMP)
    model = io.read_crfsuite(tmp_path / "model.txt")
    loaded = skops.loads(skops.dumps(model), trusted=TRUSTED_TYPES)
    x = [[{"bias": 2.0}, {"w": "a --> b"}]]
    assert_array_equal(loaded.predict_marginals(x), model.predict_marginals(x))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("FILEHEADER", "lCRF\0"), "line 1: expected the start of one of the sections"),
        (("LABELS = {", "OTHER = {"), "line 5: expected the start"),
        (("      1: x", "      2: x"), "line 7: expected '1: NAME'"),
        (("w:c", "bias"), "the label or attribute .* occurs twice"),
        (("y --> x", "q --> x"), "line 17: expected '.TYPE. NAME --> LABEL: WEIGHT'"),
        (("0.250000", "nan"), "line 22: expected a finite weight, found 'nan'"),
        (("0.750000\n}", "0.750000\n"), "expected a line '}' at the end"),
        (("STATE_FEATURES = {", "TRANSITIONS = {"), "expected the section STATE_FEATURES"),
    ],
)
def test_damaged_dumps_of_crfsuite(change, message, tmp_path):
    (tmp_path / "model.txt").write_text(DUMP.replace(*change, 1))
    with pytest.raises(ValueError, match=message):
        io.read_crfsuite(tmp_path / "model.txt")


def test_model_of_python_crfsuite(seed, tmp_path):
    """Probabilities and labels equal those of python-crfsuite, up to the decimals of the dump."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in rng.integers(1, 7, size=40):
        labels = rng.integers(3, size=length)
        noise = np.where(rng.random(length) < 0.7, labels, 9).tolist()
        X.append([{"w": f"v:{k}", "n": k / 3, "odd": k % 2 == 1, "d": {"u": ["p"]}} for k in noise])
        y.append(np.array(["A", "B", "C"])[labels].tolist())
    trainer = pycrfsuite.Trainer(verbose=False)
    for x, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(x), labels)
    trainer.set_params({"c1": 0.1, "c2": 0.1, "max_iterations": 50})
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    tagger.dump(str(tmp_path / "model.txt"))
    model = io.read_crfsuite(tmp_path / "model.txt")
    assert isinstance(model, CRF)
    for x, labels, p in zip(X, y, model.predict_marginals(X), strict=True):
        tagger.set(pycrfsuite.ItemSequence(x))
        expected = [[tagger.marginal(c, i) for c in model.classes_] for i in range(len(x))]
        assert_allclose(p, expected, atol=2e-6)
        assert model.predict([x])[0].tolist() == tagger.tag()
        log_p = np.log(tagger.probability(labels))
        assert_allclose(model.log_likelihood([x], [labels]), log_p, atol=1e-5)


def test_sequences_in_a_column():
    """Sequences of unequal lengths can be a Series or an array of objects."""
    X = [[{"w": "a"}, {"w": "b"}], [{"w": "b"}], [{"w": "a"}]] * 4
    y = [["A", "B"], ["B"], ["A"]] * 4
    expected = CRF(alpha=0.1).fit(X, y).predict_proba(X)
    objects, labels = np.empty(len(X), dtype=object), np.empty(len(X), dtype=object)
    objects[:], labels[:] = X, y
    index = range(5, 5 + len(X))
    columns = [(objects, labels), (pd.Series(X, index=index), pd.Series(y, index=index))]
    for sequences, own in [*columns, (pl.Series(X), pl.Series(y))]:
        model = CRF(alpha=0.1).fit(sequences, own)
        for a, b in zip(model.predict_proba(sequences), expected, strict=True):
            assert_allclose(a, b)
    arrays = [np.array([[float(len(row))]] * len(row)) for row in X]
    model = CRF(alpha=0.1).fit(pd.Series(arrays), y)
    assert model.predict(pd.Series(arrays))[0].tolist() == model.predict(arrays)[0].tolist()
