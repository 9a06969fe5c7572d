"""Tests of UAI files of models."""

import gzip
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_files import GOOD, LN10, MODELS, fails, graphs, in_one_folder, needs_data, write
from numpy.testing import assert_allclose, assert_array_equal

from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.energies.layout import Layout
from skmrf.io import read_uai, write_uai


class Naive:
    """A parser that can be checked by eye."""

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
    Naive(tmp_path / name)


def test_other_energies_and_tied_tables(tmp_path):
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


def test_the_same_model_gives_the_same_gzip_file(tmp_path):
    graph = FactorGraph([2], [(0,)], [[0.0, 1.0]])
    write_uai(graph, tmp_path / "a.gz")
    before = (tmp_path / "a.gz").read_bytes()
    write_uai(graph, tmp_path / "b.gz")
    assert (tmp_path / "b.gz").read_bytes() == before


@pytest.mark.parametrize("value", [np.nan, np.inf, -3e18])
def test_writing_refuses_what_has_no_decimal_form(tmp_path, value):
    layout = Layout.build([2, 2], [(0,), (0, 1)])
    graph = FactorGraph.from_layout(layout, np.array([0.0, 0, 0, 0, value, 0]))
    with pytest.raises(ValueError, match=r"clique 1 \(0, 1\) holds (nan|inf|-3e\+18); log-pot"):
        write_uai(graph, tmp_path / "model.uai")


def test_last_variable_is_fastest_and_zero_is_minus_infinity(tmp_path):
    graph = read_uai(write(tmp_path, GOOD))
    assert graph.cliques == ((0,), (), (2, 0))
    assert_array_equal(graph.n_states, [2, 1, 3])
    with np.errstate(divide="ignore"):
        assert_array_equal(graph.log_potentials[2], np.log([[1, 2], [3, 0], [5, 6]]))
    assert_allclose(graph.log_potential([[1, 0, 2]]), [math.log(1e-3 * 7 * 6)])


def test_bayes_comments_and_line_ends_make_no_difference(tmp_path):
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
def test_potentials_beyond_floats_keep_their_logarithms(tmp_path, word, log):
    graph = read_uai(write(tmp_path, f"MARKOV 1 2 1 1 0 2 1 {word}"))
    assert_allclose(graph.flat, [0.0, log], rtol=1e-15)


@needs_data
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.name)
def test_real_models_agree_with_the_naive_parser(path):
    graph, naive = read_uai(path), Naive(path)
    assert_array_equal(graph.n_states, naive.n_states)
    rng = np.random.default_rng(1)
    X = (rng.random((3, graph.n_variables)) * graph.n_states).astype(int)
    expected = [naive.log_potential(x) for x in X.tolist()]
    assert_allclose(graph.log_potential(X), expected, rtol=1e-10)


# what is wrong with models ----------------------------------------------------------------

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
    "most 1, as many as tokens follow), found '1000000000000000000000000000000'.",
    "MARKOV\n" + "7" * 50: "line 2, token 1: expected the number of variables (an integer, at "
    f"most 0, as many as tokens follow), found '{'7' * 40}'....",
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
    "most 2, as many as tokens follow), found '5'.",
    "MARKOV\n2\n2 2\n1\n3 0 1": "line 5, token 1: expected the number of variables of the clique "
    "(an integer, at most 2, as many as tokens follow), found '3'.",
    "MARKOV\n2\n2 2\n2\n1 0": "line 5, token 3: expected the number of variables of the clique "
    "(an integer, at least 0), found the end of the file.",
    "MARKOV\n2\n2 2\n1\n1 x": "line 5, token 2: expected a variable (an integer from 0 to "
    "999999999999999999), found 'x'.",
    "MARKOV\n2\n2 2\n2\n1 0\n2 1 2\n2 1 1\n4 1 1 1 1": "line 6, token 3: expected one of the 2 "
    "variables, numbered from 0, found '2'.",
    "MARKOV\n2\n2 2\n2\n1 0\n2 1 1\n2 1 1\n4 1 1 1 1": "line 6, token 3: expected a variable "
    "that the clique does not have yet, found '1'.",
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


def test_positions_are_right_far_into_a_file(tmp_path):
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
