"""Tests of UAI files: models, evidence, results, and limits of size."""

import doctest
import gzip
import importlib
import json
import math
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from zoo import (
    DATA,
    GOOD,
    GOOD_FG,
    LN10,
    MODELS,
    fails,
    graphs,
    in_one_folder,
    needs_data,
    write,
)

from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.energies.layout import Layout
from skmrf.io import read_evidence, read_fg, read_result, read_uai, write_fg, write_uai
from skmrf.io.uai import Result


class NaiveModel:
    """Simple reference parser of UAI models."""

    def __init__(self, path):
        with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
            self.words = file.read().split()[::-1]
        assert self.words.pop() in ("MARKOV", "BAYES")
        self.n_states = [self.integer() for _ in range(self.integer())]
        self.cliques = [
            [self.integer() for _ in range(self.integer())] for _ in range(self.integer())
        ]
        self.tables = []
        for clique in self.cliques:
            size = self.integer()
            assert size == math.prod(self.n_states[v] for v in clique)
            self.tables.append([float(self.words.pop()) for _ in range(size)])
        assert not self.words

    def integer(self):
        return int(self.words.pop())

    def log_potential(self, x):
        total = 0.0
        for clique, table in zip(self.cliques, self.tables, strict=True):
            entry = 0
            for v in clique:
                entry = entry * self.n_states[v] + x[v]
            total += math.log(table[entry]) if table[entry] > 0 else -math.inf
        return total


# models -----------------------------------------------------------------------------------


@given(graph=graphs(), name=st.sampled_from(["model.uai", "model.uai.gz"]))
@in_one_folder
def test_round_trip(tmp_path, graph, name):
    write_uai(graph, tmp_path / name)
    again = read_uai(str(tmp_path / name))
    assert_array_equal(again.n_states, graph.n_states)
    assert again.cliques == graph.cliques
    assert_allclose(again.flat, graph.flat, rtol=4e-16, atol=5e-16)
    assert not again.flat.flags.writeable
    NaiveModel(tmp_path / name)


def test_round_trip_of_other_energies_and_tied_tables(tmp_path):
    rng = np.random.default_rng(0)
    coupling = np.triu(rng.normal(size=(4, 4)), 1)
    energy = PairwiseEnergy(coupling + coupling.T, rng.normal(size=4))
    write_uai(energy, tmp_path / "ising.uai")
    X = rng.integers(2, size=(8, 4))
    read = read_uai(tmp_path / "ising.uai")
    assert_allclose(read.log_potential(X), energy.log_potential(X), rtol=1e-12)

    table = rng.normal(size=(2, 2))
    tied = FactorGraph([2, 2, 2], [(0, 1), (1, 2)], [table, table], tie=[(0, 1)])
    write_uai(tied, tmp_path / "tied.uai")
    again = read_uai(tmp_path / "tied.uai")
    assert_allclose(again.log_potentials, [table, table], rtol=1e-14)


def test_gzip_files_are_reproducible(tmp_path):
    graph = FactorGraph([2], [(0,)], [[0.0, 1.0]])
    write_uai(graph, tmp_path / "a.gz")
    before = (tmp_path / "a.gz").read_bytes()
    write_uai(graph, tmp_path / "b.gz")
    assert (tmp_path / "b.gz").read_bytes() == before


@pytest.mark.parametrize("value", [np.nan, np.inf, -3e18])
def test_writing_invalid_log_potentials(tmp_path, value):
    layout = Layout.build([2, 2], [(0,), (0, 1)])
    graph = FactorGraph.from_layout(layout, np.array([0.0, 0, 0, 0, value, 0]))
    with pytest.raises(
        ValueError,
        match=r"clique 1 \(0, 1\) has the entry (nan|inf|-3e\+18); "
        r"log-pot",
    ):
        write_uai(graph, tmp_path / "model.uai")


def test_last_variable_is_fastest_and_zero_gives_minus_infinity(tmp_path):
    graph = read_uai(write(tmp_path, GOOD))
    assert graph.cliques == ((0,), (), (2, 0))
    assert_array_equal(graph.n_states, [2, 1, 3])
    with np.errstate(divide="ignore"):
        assert_array_equal(graph.log_potentials[2], np.log([[1, 2], [3, 0], [5, 6]]))
    assert_allclose(graph.log_potential([[1, 0, 2]]), [math.log(1e-3 * 7 * 6)])


def test_byte_order_mark(tmp_path):
    (tmp_path / "a.uai").write_bytes(b"\xef\xbb\xbfMARKOV\n1\n2\n1\n1 0\n2\n 1.0 3.0\n")
    assert_allclose(read_uai(tmp_path / "a.uai").log_potentials[0], np.log([1.0, 3.0]))


def test_bayes_comments_and_line_ends_are_equivalent(tmp_path):
    same = GOOD.replace("MARKOV", "# a\nBAYES\nc\n \tc b 1\n#").replace("\n", "\r\n") + "c"
    graph = read_uai(write(tmp_path, same))
    assert_array_equal(graph.flat, read_uai(write(tmp_path, GOOD)).flat)


@pytest.mark.parametrize(
    ("word", "log"),
    [
        ("0", -math.inf),
        ("-0.0", -math.inf),
        ("0e-99999999999999999999", -math.inf),
        ("1e-400", -400 * LN10),
        ("0." + "0" * 399 + "1", -400 * LN10),
        ("2.5e-320", math.log(2.5) - 320 * LN10),
        ("+1e400", 400 * LN10),
        ("9" * 5000, 5000 * LN10),
    ],
)
def test_potentials_outside_float_range(tmp_path, word, log):
    graph = read_uai(write(tmp_path, f"MARKOV 1 2 1 1 0 2 1 {word}"))
    assert_allclose(graph.flat, [0.0, log], rtol=1e-15)


@needs_data
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.name)
def test_real_models_match_reference_parser(path):
    graph, naive = read_uai(path), NaiveModel(path)
    assert_array_equal(graph.n_states, naive.n_states)
    rng = np.random.default_rng(1)
    X = (rng.random((3, graph.n_variables)) * graph.n_states).astype(int)
    expected = [naive.log_potential(x) for x in X.tolist()]
    assert_allclose(graph.log_potential(X), expected, rtol=1e-10)


# errors in models -------------------------------------------------------------------------

MODEL_ERRORS = {
    "": "line 1, token 1: expected MARKOV or BAYES, found the end of the file.",
    "\n\n markov 1": "line 3, token 1: expected MARKOV or BAYES, found 'markov'.",
    "\x00\x01\xff": "line 1, token 1: expected MARKOV or BAYES, found '\\x00\\x01\\xc3\\xbf'.",
    "MARKOV": "line 1, token 2: expected the number of variables (an integer, at least 0), "
    "found the end of the file.",
    "MARKOV\n1e3": "line 2, token 1: expected the number of variables (an integer, at least 0), "
    "found '1e3'.",
    "MARKOV\n-3\n2": "line 2, token 1: expected the number of variables (an integer, at least "
    "0), found '-3'.",
    f"MARKOV\n{10**30} 2": "line 2, token 1: expected the number of variables (an integer, at "
    "most 1, limited by the number of remaining tokens), found '1000000000000000000000000000000'.",
    "MARKOV\n" + "7" * 50: "line 2, token 1: expected the number of variables (an integer, at "
    f"most 0, limited by the number of remaining tokens), found '{'7' * 40}'....",
    "MARKOV\n2\n2 0\n0": "line 3, token 2: expected a number of states (an integer from 1 to "
    "32767), found '0'.",
    "MARKOV\n2\n2 32768\n0": "line 3, token 2: expected a number of states (an integer from 1 "
    "to 32767), found '32768'.",
    "MARKOV\n2\n2.0 2\n0": "line 3, token 1: expected a number of states (an integer from 1 to "
    "32767), found '2.0'.",
    "MARKOV\n2\n2 2": "line 3, token 3: expected the number of cliques (an integer, at least 0), "
    "found the end of the file.",
    "MARKOV\n2\n2 2\nnan": "line 4, token 1: expected the number of cliques (an integer, at "
    "least 0), found 'nan'.",
    "MARKOV\n2\n2 2\n5\n1 0": "line 4, token 1: expected the number of cliques (an integer, at "
    "most 2, limited by the number of remaining tokens), found '5'.",
    "MARKOV\n2\n2 2\n1\n3 0 1": "line 5, token 1: expected the number of variables of the clique "
    "(an integer, at most 2, limited by the number of remaining tokens), found '3'.",
    "MARKOV\n2\n2 2\n2\n1 0": "line 5, token 3: expected the number of variables of the clique "
    "(an integer, at least 0), found the end of the file.",
    "MARKOV\n2\n2 2\n1\n1 x": "line 5, token 2: expected a variable (an integer from 0 to "
    "999999999999999999), found 'x'.",
    "MARKOV\n2\n2 2\n2\n1 0\n2 1 2\n2 1 1\n4 1 1 1 1": "line 6, token 3: expected one of the 2 "
    "variables, numbered from 0, found '2'.",
    "MARKOV\n2\n2 2\n2\n1 0\n2 1 1\n2 1 1\n4 1 1 1 1": "line 6, token 3: expected a variable "
    "that does not occur earlier in the clique, found '1'.",
    "MARKOV\n1\n1\n2\n1 0\n65" + " 0" * 65: "line 6, token 1: expected at most 64 variables in "
    "a clique, found '65'.",
    "MARKOV\n2\n2 2\n1\n2 0 1\n\n8\n1 1 1 1": "line 7, token 1: expected 4, the number of "
    "entries of clique 0, found '8'.",
    "MARKOV\n2\n2 2\n1\n2 0 1\n\n4.0\n1 1 1 1": "line 7, token 1: expected 4, the number of "
    "entries of clique 0, found '4.0'.",
    "MARKOV\n2\n2 2\n2\n1 0\n1 1\n2\n.1 .2 .3\n2\n.1 .2": "line 8, token 3: expected 2, the "
    "number of entries of clique 1, found '.3'.",
    "MARKOV\n2\n2 2\n1\n2 0 1": "line 5, token 4: expected the number of entries of clique 0, "
    "found the end of the file.",
    "MARKOV\n2\n2 2\n1\n2 0 1\n\n4\n1 1\n1": "line 9, token 2: expected 4 potentials of clique 0, "
    "found the end of the file.",
    "MARKOV\n2\n2 2\n2\n1 0\n1 1\n2\n1 1": "line 8, token 3: expected the number of entries of "
    "clique 1, found the end of the file.",
    GOOD + " 8": "line 18, token 1: expected the end of the file after the tables of 3 cliques, "
    "found '8'.",
    "MARKOV 0 0 # x": "line 1, token 4: expected the end of the file after the tables of 0 "
    "cliques, found '#'.",
    GOOD.replace(" 7", " 0"): "line 12, token 1: expected a potential above 0 in the table of "
    "clique 1, found zeros only.",
}
BAD_POTENTIALS = ["-0.5", "nan", "inf", "-inf", "x", "1_0", "0x1p3", "1,5", "1e", "--1", "\x00"]
BAD_POTENTIALS += ["1e99999999999999999999", "1e-99999999999999999999", "1-2"]


@pytest.mark.parametrize(("text", "message"), MODEL_ERRORS.items())
def test_malformed_models(tmp_path, text, message):
    fails(read_uai, write(tmp_path, text), message)


@pytest.mark.parametrize("word", BAD_POTENTIALS)
def test_malformed_potentials(tmp_path, word):
    message = (
        f"line 17, token 2: expected a potential (a finite number of at least 0), found {word!r}."
    )
    fails(read_uai, write(tmp_path, GOOD.replace(" 5", f"\t{word}")), message)


@pytest.mark.long
def test_error_positions_in_large_files(tmp_path):
    rows = ["0.5"] * 200_000
    rows[150_000] = "0.5  oops"
    text = "MARKOV\n# one\n1\n1\n200001\n" + "0\n" * 200_001 + "1 " + "\n1 ".join(rows)
    fails(
        read_uai,
        write(tmp_path, text),
        f"line {5 + 200_001 + 150_001}, token 3: expected 1, the number of entries of clique "
        "150001, found 'oops'.",
    )
    rows[150_000] = "oops"
    text = "MARKOV\n1\n1\n200000\n" + "0\n" * 200_000 + "1 " + "\n1 ".join(rows)
    fails(
        read_uai,
        write(tmp_path, text),
        f"line {4 + 200_000 + 150_001}, token 2: expected a potential (a finite number of at "
        "least 0), found 'oops'.",
    )


# Evidence and results ----------------------------------------------------------------------------


# evidence ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("", {}),
        (" \n\n", {}),
        ("0", {}),
        ("1\n0\n", {}),
        ("# none\n0", {}),
        ("2 7 0 3 1", {7: 0, 3: 1}),
        ("2\n7 0\n3 1\n", {7: 0, 3: 1}),
        ("1 4 2", {4: 2}),
        ("1\n2 7 0 3 1", {7: 0, 3: 1}),
        ("1\n1 4 2", {4: 2}),
        ("2\n0\n1 3 1", {0: 1, 3: 1}),  # could also be read as two samples
    ],
)
@pytest.mark.parametrize("name", ["evid", "evid.gz"])
def test_evidence_forms(tmp_path, text, evidence, name):
    assert read_evidence(write(tmp_path, text, name)) == evidence


EVIDENCE_ERRORS = {
    "2 7 0 3": "line 1, token 5: expected 2 observed variables with their states, found the end "
    "of the file.",
    "1": "line 1, token 2: expected 1 observed variables with their states, found the end of the "
    "file.",
    "1\n2 7 0 3": "line 2, token 3: expected the end of the file after 1 observed variables with "
    "their states, found '0'.",
    "1\n2 7 0 3 1 5 5": "line 2, token 6: expected the end of the file after 2 observed variables "
    "with their states, found '5'.",
    "0 0": "line 1, token 2: expected the end of the file after 0 observed variables with their "
    "states, found '0'.",
    "2\n1 0 1\n1 0 0": "line 1, token 1: expected evidence of one sample, found 2 samples.",
    "3\n0\n0\n0": "line 1, token 1: expected evidence of one sample, found 3 samples.",
    "2 7 0 7 1": "line 1, token 4: expected a variable that does not occur earlier in the "
    "evidence, found '7'.",
    "1 -7 0": "line 1, token 2: expected a count, a variable or a state (an integer from 0 to "
    "999999999999999999), found '-7'.",
    "1 7 1.0": "line 1, token 3: expected a count, a variable or a state (an integer from 0 to "
    "999999999999999999), found '1.0'.",
}


@pytest.mark.parametrize(("text", "message"), EVIDENCE_ERRORS.items())
def test_malformed_evidence(tmp_path, text, message):
    fails(read_evidence, write(tmp_path, text), message)


@needs_data
def test_real_evidence_can_be_conditioned_on():
    paths = sorted(DATA.glob("uai2014/*/*.evid.gz"))
    assert paths
    observed = 0
    for path in paths:
        graph = read_uai(path.with_name(path.name.replace(".evid", "")))
        evidence = read_evidence(path)
        observed += len(evidence)
        assert graph.condition(evidence).n_variables == graph.n_variables - len(evidence)
    assert observed > 0


# results ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "log10"),
    [
        ("PR\n2.5\n", 2.5),
        ("PR 1", 1.0),
        ("PR\n1\n2.5", 2.5),
        ("PR\n-BEGIN-\n1\n2.5", 2.5),
        ("PR\n1\nabc\n-BEGIN-\n1\n2.5\n-BEGIN-\n1\n-3", -3.0),
        ("PR\n-inf", -math.inf),
    ],
)
def test_partition_functions_are_in_nats(tmp_path, text, log10):
    result = read_result(write(tmp_path, text))
    assert result.kind == "PR"
    assert isinstance(result.value, float)
    assert result.value == log10 * LN10


@pytest.mark.parametrize(
    ("text", "marginals"),
    [
        ("MAR\n2 2 0.25 0.75 3 0 1 0", [[0.25, 0.75], [0, 1, 0]]),
        ("MAR\n1\n2 2 0.25 0.75 3 0 1 0", [[0.25, 0.75], [0, 1, 0]]),
        ("MAR\n1 2 0.25 0.75", [[0.25, 0.75]]),
        ("MAR\n1\n1 2 0.25 0.75", [[0.25, 0.75]]),
        ("MAR\n1 1 1", [[1.0]]),
        ("MAR\n1 1 1 1", [[1.0]]),
        ("MAR 0", []),
        ("MAR 1 0", []),
        ("MAR 1 1 .5 -BEGIN- 1 1 1.0000001", [[1.0000001]]),
    ],
)
def test_marginals(tmp_path, text, marginals):
    result = read_result(write(tmp_path, text))
    assert result.kind == "MAR"
    assert [m.tolist() for m in result.value] == marginals


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("MAP\n3 0 2 1", [0, 2, 1]),
        ("MPE\n3 0 2 1", [0, 2, 1]),
        ("MAP\n1\n3 0 2 1", [0, 2, 1]),
        ("MAP\n1 0", [0]),
        ("MAP\n1 1 0", [0]),
        ("MAP\n0", []),
        ("MAP\n3 0 0 0\n-BEGIN-\n3 0 2 1", [0, 2, 1]),
    ],
)
def test_map_states(tmp_path, text, states):
    result = read_result(write(tmp_path, text, "r.gz"))
    assert result.kind == "MAP"
    assert np.issubdtype(result.value.dtype, np.integer)
    assert_array_equal(result.value, states)


RESULT_ERRORS = {
    "": "line 1, token 1: expected PR, MAR, MAP or MPE, found the end of the file.",
    "MMAP 1 0 0": "line 1, token 1: expected PR, MAR, MAP or MPE, found 'MMAP'.",
    "PR": "line 1, token 2: expected a solution, found the end of the file.",
    "PR\n2\n-BEGIN-\n": "line 3, token 2: expected a solution, found the end of the file.",
    "PR\nnan": "line 2, token 1: expected log10 Z (a finite number, or -inf), found 'nan'.",
    "PR\nx": "line 2, token 1: expected log10 Z (a finite number, or -inf), found 'x'.",
    "PR\n1\ninf": "line 3, token 1: expected log10 Z (a finite number, or -inf), found 'inf'.",
    "PR\n2\n3": "line 3, token 1: expected the end of the file after log10 Z, found '3'.",
    "MAR\n2 2 0.5 0.5": "line 2, token 5: expected the number of states (an integer, at least "
    "1), found the end of the file.",
    "MAR\n2 2 .5 .5 3 0 1": "line 2, token 5: expected the number of states (an integer, at most "
    "2, limited by the number of remaining tokens), found '3'.",
    "MAR\n2 2 .5 .5 0": "line 2, token 5: expected the number of states (an integer, at least "
    "1), found '0'.",
    "MAR\n1\n1 2 .5 .6 .7": "line 3, token 5: expected the end of the file after the marginals "
    "of 1 variables, found '.7'.",
    "MAR\n2 2 .5 .5 1 -1": "line 2, token 6: expected a probability, found '-1'.",
    "MAR\n2 2 .5 .5 1 1.1": "line 2, token 6: expected a probability, found '1.1'.",
    "MAR\n2 2 .5 nan 1 1": "line 2, token 4: expected a probability, found 'nan'.",
    "MAP\n1": "line 2, token 2: expected the number of variables (an integer, at least 0), found "
    "the end of the file.",
    "MAP\n3 0 1": "line 2, token 1: expected the number of variables (an integer, at most 2, "
    "limited by the number of remaining tokens), found '3'.",
    "MAP\n3 0 1 0 1": "line 2, token 5: expected the end of the file after the states of 3 "
    "variables, found '1'.",
    "MAP\n2 0 -1": "line 2, token 3: expected a state (an integer from 0 to 32766), found '-1'.",
    "MAP\n2 0 0.5": "line 2, token 3: expected a state (an integer from 0 to 32766), found '0.5'.",
}


@pytest.mark.parametrize(("text", "message"), RESULT_ERRORS.items())
def test_malformed_results(tmp_path, text, message):
    fails(read_result, write(tmp_path, text), message)


@needs_data
def test_real_results_match_models():
    reference = json.loads((DATA / "uai2014" / "reference.json").read_text())
    for path in sorted(DATA.glob("uai2014/*/*.uai.gz")):
        name = path.name.removesuffix(".uai.gz")
        graph = read_uai(path)
        expected = reference[path.parent.name][name]
        assert (graph.n_variables, graph.layout.n_cliques) == (expected["n"], expected["m"])
        for kind in ("PR", "MAR", "MAP"):
            solution = path.with_name(f"{name}.uai.{kind}.gz")
            if not solution.exists():
                continue
            result = read_result(solution)
            assert result.kind == kind
            if kind == "PR":
                assert_allclose(result.value, expected["pr"] * LN10)
            elif kind == "MAR":
                assert_array_equal([len(m) for m in result.value], graph.n_states)
                assert_allclose([m.sum() for m in result.value], 1.0, atol=5e-6)
            else:
                score = graph.log_potential(result.value[None])
                assert_allclose(score, expected["map_log10"] * LN10)


# Limits of memory and time, damaged files --------------------------------------------------------


MALICIOUS = [
    f"MARKOV {10**9}",
    f"MARKOV {10**17} 2 2",
    f"MARKOV 1 2 {10**9}",
    f"MARKOV 1 2 1 {10**9} 0",
    "MARKOV 40 " + "30000 " * 40 + "1 40 " + " ".join(map(str, range(40))) + f" {10**9} 1",
    "MARKOV 64 " + "32767 " * 64 + "1 64 " + " ".join(map(str, range(64))),
    "MARKOV 31 " + "2 " * 31 + "1 31 " + " ".join(map(str, range(31))) + f" {2**31} 1 1",
    "MARKOV 1 1 1 0 1 " + "9" * 1000 + "e" + "9" * 1000,
]


@pytest.mark.parametrize("read", [read_uai, read_fg, read_evidence, read_result])
@pytest.mark.parametrize("text", [*MALICIOUS, f"{10**17} 1", f"MAR {10**9} 2", f"MAP {10**9} 2"])
def test_malicious_sizes_allocate_no_memory(tmp_path, read, text):
    path = write(tmp_path, text)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="line 1, token"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 3e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("read", [read_uai, read_fg, read_evidence, read_result])
def test_decompressed_size_is_limited(tmp_path, read):
    path = write(tmp_path, b" " * 50_000_000, "bomb.gz")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError) as caught:
            read(path, max_bytes=10_000)
        assert tracemalloc.get_traced_memory()[1] < 3e6
    finally:
        tracemalloc.stop()
    assert "the file has more than max_bytes = 10000 bytes of text" in str(caught.value)


def test_memory_is_proportional_to_text(tmp_path):
    n = 30_000
    path = write(tmp_path, f"MARKOV 1 2 {n} " + "0 " * n + "1 1 " * n)
    tracemalloc.start()
    try:
        read_uai(path)
        assert tracemalloc.get_traced_memory()[1] < 25 * path.stat().st_size + 3e6
    finally:
        tracemalloc.stop()


def test_max_bytes_is_exact_and_validated(tmp_path):
    path = write(tmp_path, GOOD)
    read_uai(path, max_bytes=len(GOOD))
    with pytest.raises(ValueError, match="max_bytes"):
        read_uai(path, max_bytes=len(GOOD) - 1)
    with pytest.raises(ValueError, match="max_bytes must be an integer"):
        read_uai(path, max_bytes=0)


@pytest.mark.parametrize("cut", [0, 5, 12, 30, -1])
def test_damaged_gzip_files(tmp_path, cut):
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(GOOD.encode())[:cut])
    with pytest.raises(ValueError, match=r"file\.gz: .*expected"):
        read_uai(path)
    with pytest.raises(ValueError, match="expected a complete gzip file, found: Not a gzipped"):
        read_uai(write(tmp_path, GOOD).rename(path))


def test_missing_file(tmp_path):
    for read in (read_uai, read_fg, read_evidence, read_result):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none")


FUZZED = {
    read_uai: (GOOD.encode(), FactorGraph),
    read_fg: (GOOD_FG.encode(), FactorGraph),
    read_evidence: (b"1\n3 7 0 3 1 10 12\n", dict),
    read_result: (b"MAR\n1 2 2 0.25 0.75 1 1\n-BEGIN-\n2 2 0.5 0.5 3 1e-3 .9 0\n", Result),
}


@pytest.mark.long
@given(
    read=st.sampled_from(list(FUZZED)),
    cut=st.floats(0, 1) | st.none(),
    changes=st.lists(
        st.tuples(
            st.floats(0, 1, exclude_max=True), st.integers(0, 255) | st.sampled_from(b"0192 \n-.e")
        ),
        max_size=4,
    ),
)
@settings(in_one_folder, max_examples=600)
def test_damaged_files_raise_only_value_errors(tmp_path, read, cut, changes):
    good, kind = FUZZED[read]
    data = bytearray(good)
    for place, byte in changes:
        data[int(place * len(data))] = byte
    path = write(tmp_path, bytes(data if cut is None else data[: int(cut * len(data))]))
    try:
        assert isinstance(read(path), kind)
    except ValueError as error:
        assert str(error).startswith(f"{path}: line ")  # noqa: PT017


@given(words=st.lists(st.sampled_from(["0", "1", "2", "3", "0.5", "-1", "nan", "-BEGIN-", "MAP"])))
@in_one_folder
def test_random_tokens_raise_only_value_errors(tmp_path, words):
    for start, (read, (_, kind)) in zip(("MARKOV", "1", "1", "MAR"), FUZZED.items(), strict=True):
        try:
            assert isinstance(read(write(tmp_path, " ".join([start, *words]))), kind)
        except ValueError as error:
            assert ": line 1, token " in str(error)  # noqa: PT017


@pytest.mark.slow
def test_large_files_are_read_fast(tmp_path):
    layout = Layout.build(np.full(1000, 2), [(i % 1000, (i + 1) % 1000) for i in range(250_000)])
    flat = np.random.default_rng(0).normal(size=layout.n_parameters)
    write_uai(FactorGraph.from_layout(layout, flat), tmp_path / "model.uai")
    start = time.perf_counter()
    read_uai(tmp_path / "model.uai")
    assert time.perf_counter() - start < 2.0
    write_fg(FactorGraph.from_layout(layout, flat), tmp_path / "model.fg")
    start = time.perf_counter()
    read_fg(tmp_path / "model.fg")
    assert time.perf_counter() - start < 4.0


@pytest.mark.parametrize("module", ["uai", "fg", "names"])
def test_docstring_examples(module):
    outcome = doctest.testmod(importlib.import_module(f"skmrf.io.{module}"))
    assert outcome.attempted
    assert not outcome.failed
