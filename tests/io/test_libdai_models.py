"""Tests of libDAI's files of factors."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_files import GOOD_FG, MODELS, fails, graphs, in_one_folder, needs_data, write
from numpy.testing import assert_allclose, assert_array_equal

from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.io import read_fg, read_uai, write_fg


class NaiveFactors:
    """Factors of a file of libDAI as dicts from joint states, ((label, state), ...), to numbers."""

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
        """Of a dict from labels to states."""
        values = [
            table.get(frozenset((v, x[v]) for v in labels), 0.0) for labels, table in self.factors
        ]
        return sum(math.log(value) if value > 0 else -math.inf for value in values)


@given(graph=graphs(), name=st.sampled_from(["model.fg", "model.fg.gz"]))
@in_one_folder
def test_round_trip_by_libdai(tmp_path, graph, name):
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


def test_tied_tables_and_other_energies_by_libdai(tmp_path):
    table = np.random.default_rng(0).normal(size=(2, 2))
    tied = FactorGraph([2, 2, 2], [(0, 1), (1, 2)], [table, table], tie=[(0, 1)])
    write_fg(tied, tmp_path / "tied.fg")
    assert_allclose(read_fg(tmp_path / "tied.fg").log_potentials, [table, table], rtol=1e-14)
    write_fg(PairwiseEnergy([[0, 1.0], [1.0, 0]], [0.0, 0.5]), tmp_path / "ising.fg")
    X = [[0, 0], [0, 1], [1, 0], [1, 1]]
    read = read_fg(tmp_path / "ising.fg")
    assert_allclose(read.log_potential(X), [0.5, -0.5, -1.5, 1.5], atol=1e-15)


def test_first_variable_is_fastest_and_labels_are_names(tmp_path):
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


def test_a_model_without_factors_has_no_variables(tmp_path):
    graph = read_fg(write(tmp_path, "0\n"))
    assert graph.n_variables == 0
    assert graph.cliques == ()


@needs_data
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.name)
def test_real_models_by_libdai(tmp_path, path):
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
    f"{10**30} 2": "line 1, token 1: expected the number of factors (an integer, at most 1, as "
    "many as tokens follow), found '1000000000000000000000000000000'.",
    "1\n\n2\n0 1\n2": "line 3, token 1: expected the number of variables of the factor (an "
    "integer, at most 1, as many as 2 tokens each follow), found '2'.",
    "1\n\n1\n0\n2": "line 5, token 2: expected the number of entries of factor 0 (an integer, at "
    "least 0), found the end of the file.",
    "1\n\n1\n0\n2\n2\n0 1": "line 6, token 1: expected the number of entries of factor 0 (an "
    "integer, at most 1, as many as 2 tokens each follow), found '2'.",
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
    "1\n\n2\n4 4\n2 2\n1\n0 1": "line 4, token 2: expected a variable that the factor does not "
    "have yet, found '4'.",
    "2\n\n1\n4\n2\n1\n0 1\n\n2\n3 4\n2 3\n1\n0 1": "line 11, token 2: expected 2, the number of "
    "states that variable 4 has in factor 0, found '3'.",
    "1\n\n1\n0\n2\n2\n0 1\n2 1": "line 8, token 1: expected the index of an entry (an integer from "
    "0 to 1), found '2'.",
    "1\n\n1\n0\n2\n2\n1 1\n1 2": "line 8, token 1: expected an entry that the factor does not have "
    "yet, found '1'.",
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
            "line 3, token 1: expected tables of at most max_bytes = 1073741824 bytes in all, "
            "found 8.796e+12 bytes, and here the largest table.",
        )
        assert tracemalloc.get_traced_memory()[1] < 3e6
    finally:
        tracemalloc.stop()
    small = write(tmp_path, text.replace("2 " * 40, "2 2 " + "1 " * 38))
    assert read_fg(small, max_bytes=len(text)).layout.n_parameters == 4
