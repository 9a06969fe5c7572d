"""Tests of bounds on files: memory, time and damaged bytes."""

import doctest
import gzip
import importlib
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_files import GOOD, GOOD_FG, in_one_folder, write

from skmrf.energies import FactorGraph
from skmrf.energies.layout import Layout
from skmrf.io import Result, read_evidence, read_fg, read_result, read_uai, write_fg, write_uai

HOSTILE = [
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
@pytest.mark.parametrize("text", [*HOSTILE, f"{10**17} 1", f"MAR {10**9} 2", f"MAP {10**9} 2"])
def test_hostile_numbers_take_no_memory(tmp_path, read, text):
    path = write(tmp_path, text)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="line 1, token"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 3e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("read", [read_uai, read_fg, read_evidence, read_result])
def test_what_unpacks_beyond_the_bound_is_refused(tmp_path, read):
    path = write(tmp_path, b" " * 50_000_000, "bomb.gz")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError) as caught:
            read(path, max_bytes=10_000)
        assert tracemalloc.get_traced_memory()[1] < 3e6
    finally:
        tracemalloc.stop()
    assert "the file holds more than max_bytes = 10000 bytes of text" in str(caught.value)


def test_memory_is_in_proportion_to_the_text(tmp_path):
    n = 30_000
    path = write(tmp_path, f"MARKOV 1 2 {n} " + "0 " * n + "1 1 " * n)
    tracemalloc.start()
    try:
        read_uai(path)
        assert tracemalloc.get_traced_memory()[1] < 25 * path.stat().st_size + 3e6
    finally:
        tracemalloc.stop()


def test_the_bound_is_exact_and_checked(tmp_path):
    path = write(tmp_path, GOOD)
    read_uai(path, max_bytes=len(GOOD))
    with pytest.raises(ValueError, match="max_bytes"):
        read_uai(path, max_bytes=len(GOOD) - 1)
    with pytest.raises(ValueError, match="max_bytes must be an integer"):
        read_uai(path, max_bytes=0)


@pytest.mark.parametrize("cut", [0, 5, 12, 30, -1])
def test_broken_gzip_files(tmp_path, cut):
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(GOOD.encode())[:cut])
    with pytest.raises(ValueError, match=r"file\.gz: .*expected"):
        read_uai(path)
    with pytest.raises(ValueError, match="expected a complete gzip file, found: Not a gzipped"):
        read_uai(write(tmp_path, GOOD).rename(path))


def test_a_missing_file_is_an_os_error(tmp_path):
    for read in (read_uai, read_fg, read_evidence, read_result):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none")


FUZZED = {
    read_uai: (GOOD.encode(), FactorGraph),
    read_fg: (GOOD_FG.encode(), FactorGraph),
    read_evidence: (b"1\n3 7 0 3 1 10 12\n", dict),
    read_result: (b"MAR\n1 2 2 0.25 0.75 1 1\n-BEGIN-\n2 2 0.5 0.5 3 1e-3 .9 0\n", Result),
}


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
def test_damaged_files_give_a_value_or_a_value_error(tmp_path, read, cut, changes):
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
def test_any_words_give_a_value_or_a_value_error(tmp_path, words):
    for start, (read, (_, kind)) in zip(("MARKOV", "1", "1", "MAR"), FUZZED.items(), strict=True):
        try:
            assert isinstance(read(write(tmp_path, " ".join([start, *words]))), kind)
        except ValueError as error:
            assert ": line 1, token " in str(error)  # noqa: PT017


@pytest.mark.slow
def test_a_million_numbers_take_no_time(tmp_path):
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


@pytest.mark.parametrize("module", ["uai", "fg", "names", "evidence", "results"])
def test_examples_in_docstrings(module):
    outcome = doctest.testmod(importlib.import_module(f"skmrf.io.{module}"))
    assert outcome.attempted
    assert not outcome.failed
