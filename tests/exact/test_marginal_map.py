"""Tests of marginal MAP by elimination, and of exact inference in published models."""

import gzip
import json
import time
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import twins
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from zoo import (
    WITH_ZEROS,
    ZOO,
    enumerate_states,
    long,
    naive_log_potential,
    slow,
    small_graphs,
)

from skmrf._utils.codes import MISSING, STATE
from skmrf.energies import FactorGraph
from skmrf.energies.layout import Layout
from skmrf.exact import elimination, tree_decomposition
from skmrf.inference import marginal_map
from skmrf.io import read_evidence, read_result, read_uai

each_model = pytest.mark.parametrize("name", ZOO)


def brute_force(states, log_f, maximised, observed, x):
    """Return the log sum over the other variables for each state of the maximised ones, given x."""
    agree = (states[:, observed] == x[observed]).all(axis=1)
    sums = {}
    for state, value in zip(states[agree][:, maximised].tolist(), log_f[agree], strict=True):
        sums.setdefault(tuple(state), []).append(value)
    return {state: twins.log_sum(np.array(values)) for state, values in sums.items()}


def maximised_and_observed_masks(n, rng):
    """Yield masks of maximised and of observed variables; some variables are both."""
    yield np.arange(n) == 0, np.zeros(n, dtype=bool)
    for _ in range(6):
        yield rng.random(n) < rng.choice([0.3, 0.6]), rng.random(n) < rng.choice([0.0, 0.4])
    yield np.ones(n, dtype=bool), np.arange(n) == n - 1


def possible_rows(states, log_f, n_rows, rng):
    return states[rng.choice(np.flatnonzero(log_f > -np.inf), size=n_rows)]


def check(graph, maximised, observed, X):
    """Check value and states of each row; entries of unobserved variables in X must not be read."""
    states, log_f = enumerate_states(graph)
    plan = elimination.prepare(graph.layout, observed, maximised=maximised)
    found, value = elimination.marginal_map(plan, graph.flat, X)
    assert found.dtype == STATE
    assert_array_equal(found[:, observed], X[:, observed])
    assert (found[:, ~observed & ~maximised] == MISSING).all()
    for x, best, top in zip(X, found, value, strict=True):
        sums = brute_force(states, log_f, maximised, observed, x)
        assert_allclose(top, max(sums.values()), rtol=1e-13, atol=1e-12)
        assert_allclose(sums[tuple(best[maximised].tolist())], top, rtol=1e-13, atol=1e-12)


@each_model
def test_against_brute_force(name, seed):
    graph = ZOO[name](seed).factor_graph()
    rng = np.random.default_rng(seed)
    states, log_f = enumerate_states(graph)
    for maximised, observed in maximised_and_observed_masks(graph.n_variables, rng):
        check(graph, maximised, observed, possible_rows(states, log_f, 4, rng))


@pytest.mark.long
@given(small_graphs(), st.integers(0, 2**32))
def test_any_graph(graph, seed):
    rng = np.random.default_rng(seed)
    n = graph.n_variables
    X = possible_rows(*enumerate_states(graph), 1, rng)
    check(graph, rng.random(n) < 0.5, rng.random(n) < 0.3, X)


@each_model
def test_maximising_no_variable_or_all_variables(name, seed):
    """The results are log Z and the joint mode; observed variables keep their states."""
    graph = ZOO[name](seed).factor_graph()
    rng = np.random.default_rng(seed)
    states, log_f = enumerate_states(graph)
    n = graph.n_variables
    for observed in (np.zeros(n, dtype=bool), rng.random(n) < 0.4):
        X = possible_rows(states, log_f, 3, rng)
        summed = elimination.prepare(graph.layout, observed, maximised=np.zeros(n, dtype=bool))
        found, value = elimination.marginal_map(summed, graph.flat, X)
        assert_array_equal(value, elimination.log_partitions(summed, graph.flat, X))
        assert_array_equal(found, np.where(observed, X, MISSING))
        whole = elimination.prepare(graph.layout, observed, maximised=np.ones(n, dtype=bool))
        found, value = elimination.marginal_map(whole, graph.flat, X)
        assert_array_equal(found, elimination.maximise(whole, graph.flat, X))
        assert_allclose(value, naive_log_potential(graph, found), rtol=1e-13, atol=1e-12)


def test_without_evidence_and_empty_batch(seed):
    graph = ZOO["grid"](seed)
    maximised = np.arange(9) % 2 == 0
    plan = elimination.prepare(graph.layout, maximised=maximised)
    found, value = elimination.marginal_map(plan, graph.flat)
    sums = brute_force(*enumerate_states(graph), maximised, np.zeros(9, dtype=bool), found[0])
    assert_allclose(value, [max(sums.values())], rtol=1e-13)
    none = np.zeros((0, 9), dtype=STATE)
    found, value = elimination.marginal_map(plan, graph.flat, none)
    assert (found.shape, value.shape) == ((0, 9), (0,))


def test_marginal_map_differs_from_the_joint_mode():
    """The joint mode has x_0 = 0, but p(x_0 = 1) = 0.6: x_1 has four states given x_0 = 1."""
    table = np.log([[0.4, 1e-9, 1e-9, 1e-9], [0.15, 0.15, 0.15, 0.15]])
    graph = FactorGraph([2, 4], [(0, 1)], [table])
    assert elimination.maximise(elimination.prepare(graph.layout), graph.flat)[0, 0] == 0
    plan = elimination.prepare(graph.layout, maximised=np.array([True, False]))
    found, value = elimination.marginal_map(plan, graph.flat)
    assert found.tolist() == [[1, MISSING]]
    assert_allclose(value, [np.log(0.6)])


@pytest.mark.parametrize("name", ["tied", "zeros", "huge"])
def test_chunk_sizes_do_not_change_results(name, seed, monkeypatch):
    """Chunks of rows and ranges of buckets give the same results as one call."""
    graph = ZOO[name](seed).factor_graph()
    X = possible_rows(*enumerate_states(graph), 7, np.random.default_rng(seed))
    plan = elimination.prepare(graph.layout, np.arange(5) == 1, maximised=np.arange(5) % 2 == 0)
    whole = elimination.marginal_map(plan, graph.flat, X)
    monkeypatch.setattr(elimination, "MESSAGES_PER_CHUNK", 2 * plan.n_messages)
    for entries in (1, 200):
        monkeypatch.setattr(elimination, "ENTRIES_PER_CALL", entries)
        for left, right in zip(whole, elimination.marginal_map(plan, graph.flat, X), strict=True):
            assert_array_equal(left, right)


@pytest.mark.parametrize("name", WITH_ZEROS)
def test_impossible_evidence_raises(name, seed):
    graph = ZOO[name](seed)
    states, log_f = enumerate_states(graph)
    X = states[[np.argmax(log_f), np.argmin(log_f)]]
    observed = np.ones(graph.n_variables, dtype=bool)
    plan = elimination.prepare(graph.layout, observed, maximised=~observed)
    with pytest.raises(elimination.ImpossibleEvidence, match="evidence of row 1 has prob"):
        elimination.marginal_map(plan, graph.flat, X)


def test_two_best_states_can_mislead_propagation():
    """The best states are (0, 2) and (1, 0) of the first and last variable; (0, 0) is impossible.

    Propagation chooses the best state of each variable. It raises an error instead of (0, 0).
    """
    first = [[-np.inf, -np.inf, 3.0], [-1.0, -np.inf, 2.0]]
    second = [[-np.inf, 2.0, -4.0], [0.0, 2.0, -np.inf]]
    graph = FactorGraph([2, 2, 3], [(0, 2), (1, 2)], [first, second])
    assert marginal_map(graph, [0, 2]).log_potential == pytest.approx(-1.0)
    with pytest.raises(ValueError, match='"bp" found no state of positive probability'):
        marginal_map(graph, [0, 2], method="bp")


def test_model_without_variables():
    graph = FactorGraph([], [()], [1.5])
    plan = elimination.prepare(graph.layout, maximised=np.zeros(0, dtype=bool))
    found, value = elimination.marginal_map(plan, graph.flat)
    assert (found.shape, value.tolist()) == ((1, 0), [1.5])


# Costs -------------------------------------------------------------------------------------


def star_layout(n_leaves):
    return Layout.build([2] * (n_leaves + 1), [(0, leaf) for leaf in range(1, n_leaves + 1)])


@pytest.mark.parametrize("n", [1, 2, 40, 700])
def test_summed_variables_are_eliminated_first(n, seed):
    rng = np.random.default_rng(seed)
    pairs = [tuple(rng.choice(n, size=2, replace=False)) for _ in range(n // 2)]
    layout = Layout.build(rng.integers(1, 4, size=n), pairs)
    maximised = rng.random(n) < 0.5
    cost = tree_decomposition.forecast(layout, maximised=maximised)
    assert sorted(cost.order.tolist()) == list(range(n))
    assert_array_equal(np.sort(maximised[cost.order]), maximised[cost.order])


def test_constrained_order_can_be_wider():
    """Summing over the centre of a star joins all its leaves; maximising it is cheap."""
    layout = star_layout(12)
    leaves = np.arange(13) > 0
    assert_allclose(tree_decomposition.forecast(layout).log2_largest, 2)
    assert_allclose(tree_decomposition.forecast(layout, maximised=~leaves).log2_largest, 2)
    assert_allclose(tree_decomposition.forecast(layout, maximised=leaves).log2_largest, 13)
    observed = np.arange(13) > 4
    assert_allclose(tree_decomposition.forecast(layout, observed, leaves).log2_largest, 5)


@pytest.mark.parametrize(
    ("n_leaves", "message"),
    [
        (40, r"^Exact inference needs 2\.7\d+e\+13 bytes \(largest table 2\^41\.0 entries\), more"),
        (2000, r"^Exact inference needs at least \S+ bytes \(largest table 2\^2001\.0 entries\)"),
    ],
)
def test_too_large_models_raise_before_allocation(n_leaves, message):
    layout = star_layout(n_leaves)
    elimination.prepare(layout)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message):
            elimination.prepare(layout, maximised=np.arange(n_leaves + 1) > 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1e8


def test_memory_is_below_the_forecast(seed):
    """The peak memory is below the forecast, and a limit of one byte less raises an error."""
    maximised = np.arange(21) > 0
    layout = star_layout(20)
    flat = np.random.default_rng(seed).normal(size=layout.n_parameters)
    elimination.marginal_map(elimination.prepare(star_layout(2), maximised=maximised[:3]), flat[:8])
    needed = tree_decomposition.forecast(layout, maximised=maximised).bytes
    with pytest.raises(ValueError, match=f"needs {needed:.4g} bytes".replace("+", r"\+")):
        elimination.prepare(layout, maximised=maximised, max_bytes=needed - 1)
    tracemalloc.start()
    try:
        plan = elimination.prepare(layout, maximised=maximised, max_bytes=needed)
        elimination.marginal_map(plan, flat)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.5 * needed < peak < 1.1 * needed + 4e6


def test_a_long_chain_is_fast_and_exact(seed):
    """Every third variable is maximised, and the pairs between them are summed."""
    n = 3001
    rng = np.random.default_rng(seed)
    pair = rng.normal(0, 2.0, size=(n - 1, 3, 3))
    graph = FactorGraph([3] * n, list(pairwise(range(n))), list(pair))
    maximised = np.arange(n) % 3 == 0
    plan = elimination.prepare(graph.layout, maximised=maximised)
    assert_allclose(plan.forecast.log2_largest, 3 * np.log2(3))
    found, value = elimination.marginal_map(plan, graph.flat)
    best = np.zeros(3)
    for k in range(0, n - 1, 3):
        step = np.logaddexp.reduce(pair[k][:, :, None] + pair[k + 1][None], axis=1)
        step = np.logaddexp.reduce(step[:, :, None] + pair[k + 2][None], axis=1)
        best = np.max(best[:, None] + step, axis=0)
    assert_allclose(value, best.max(), rtol=1e-12)
    given = elimination.prepare(graph.layout, maximised)
    assert_allclose(elimination.log_partitions(given, graph.flat, found), value, rtol=1e-12)


# Published models --------------------------------------------------------------------------------


LN10 = np.log(10.0)


def evidence_row(graph, evidence):
    row = np.full((1, graph.n_variables), MISSING, dtype=STATE)
    for variable, state in evidence.items():
        row[0, variable] = state
    return row


@pytest.mark.parametrize("name", ["testfast", "alarm", "hoi1", "hoi2", "hoi3", "hoi4"])
def test_libdai(name, data_folder):
    folder = data_folder("libdai")
    expected = json.loads(gzip.decompress((folder / "exact_by_ve.json.gz").read_bytes()))[name]
    graph = read_uai(folder / f"{name}.uai.gz")
    plan = elimination.prepare(graph.layout)
    log_z = elimination.log_partitions(plan, graph.flat)[0]
    assert_allclose(log_z, expected["logZ"], rtol=0, atol=1e-9)
    mode = elimination.maximise(plan, graph.flat)
    assert_allclose(graph.log_potential(mode)[0], expected["log_map"], rtol=0, atol=1e-9)
    singles = elimination.single_marginals(plan, graph.flat)[0]
    assert_allclose(singles, np.concatenate(expected["marginals"]), rtol=0, atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "Alchemy_11",
        "CSP_12",
        "Grids_11",
        "Pedigree_12",
        "Promedus_11",
        "Segmentation_12",
        *long("Grids_13", "Promedus_15", "Promedus_24", "Promedus_33"),
        *long("Segmentation_14", "Segmentation_16"),
        pytest.param("DBN_13", marks=pytest.mark.slow(seconds=30)),
        *slow("DBN_11", "Grids_15", "Grids_17"),
        *slow("ObjectDetection_28", "ObjectDetection_74"),
    ],
)
def test_uai_2014_partition_and_marginals(name, data_folder):
    folder = data_folder("uai2014")
    reference = json.loads((folder / "reference.json").read_text())["PR_MAR"][name]
    path = folder / "PR_MAR" / f"{name}.uai"
    graph = read_uai(f"{path}.gz")
    row = evidence_row(graph, read_evidence(f"{path}.evid.gz"))
    plan = elimination.prepare(graph.layout, row[0] != MISSING)
    log_z = elimination.log_partitions(plan, graph.flat, row)[0]
    assert_allclose(log_z / LN10, reference["my_log10Z"], rtol=0, atol=1e-5)
    published = read_result(f"{path}.PR.gz").value
    assert_allclose(log_z, published, rtol=1e-5)
    singles = elimination.single_marginals(plan, graph.flat, row)[0]
    marginals = read_result(f"{path}.MAR.gz").value
    assert_allclose(singles, np.concatenate(marginals), rtol=0, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("PR_MAR", "2bitcomp_5.cnf"),
        ("PR_MAR", "linkage_11"),
        ("MAP", "Grids_26"),
        ("MAP", "wcsp_15"),
        *long(("PR_MAR", "linkage_16"), ("MAP", "Grids_29")),
        *long(("MAP", "ImageAlignment_12"), ("MAP", "Promedas_69")),
    ],
)
def test_uai_2014_too_large_models_raise(kind, name, data_folder):
    path = data_folder("uai2014") / kind / f"{name}.uai"
    graph = read_uai(f"{path}.gz")
    row = evidence_row(graph, read_evidence(f"{path}.evid.gz"))
    start = time.perf_counter()
    with pytest.raises(ValueError, match=r"^Exact inference needs .* bytes"):
        elimination.prepare(graph.layout, row[0] != MISSING)
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize("name", ["Segmentation_12", "Segmentation_16"])
def test_uai_2014_mode(name, data_folder):
    folder = data_folder("uai2014")
    reference = json.loads((folder / "reference.json").read_text())["MAP"][name]
    path = folder / "MAP" / f"{name}.uai"
    graph = read_uai(f"{path}.gz")
    row = evidence_row(graph, read_evidence(f"{path}.evid.gz"))
    plan = elimination.prepare(graph.layout, row[0] != MISSING)
    best = graph.log_potential(elimination.maximise(plan, graph.flat, row))[0]
    published = graph.log_potential(read_result(f"{path}.MAP.gz").value[None])[0]
    assert_allclose(best / LN10, reference["exact_log10"], rtol=0, atol=1e-8)
    assert_allclose(published / LN10, reference["map_log10"], rtol=0, atol=1e-8)
    assert best > published


def test_automatic_method_falls_back_after_a_timeout(monkeypatch, seed):
    """If elimination does not end in half of the time, belief propagation has the result."""

    def stop(*_, **__):
        raise TimeoutError

    graph = ZOO["chain"](seed)
    assert marginal_map(graph, [0], time_limit=60.0).method == "exact"
    monkeypatch.setattr(elimination, "marginal_map", stop)
    assert marginal_map(graph, [0], time_limit=60.0).method == "bp"
    with pytest.raises(TimeoutError):
        marginal_map(graph, [0], method="exact", time_limit=60.0)
