"""Tests of belief propagation and decimation: trees, general graphs, published problems."""

import gzip
import json
import sys
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import twins
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from zoo import ZOO, enumerate_states, naive_log_potential, random_tables, small_graphs

from skmrf._kernels.propagation import LATE_DAMPING, UNDAMPED
from skmrf._utils.codes import MISSING, STATE
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.exact import elimination
from skmrf.exact.elimination import ImpossibleEvidence
from skmrf.io import read_uai
from skmrf.variational.belief_propagation import (
    SCHEDULES,
    Propagation,
    belief_propagation,
    decimate,
)
from skmrf.variational.tree_reweighting import tree_reweighted

each_model = pytest.mark.parametrize("name", ZOO)
each_schedule = pytest.mark.parametrize("schedule", SCHEDULES)
TREES = ("chain", "zeros_binary", "tied_binary", "one_state", "disconnected", "isolated")
TREES += ("uniform", "single_variable")
LOOPS = ("cycle", "grid", "complete", "zero_one", "orders", "zeros", "tied", "constant_variables")
LOOPS += ("constant_binary",)
XOR = [[-np.inf, 0.0], [0.0, -np.inf]]


def flatten_all(arrays):
    return np.concatenate([*(np.ravel(a) for a in arrays), np.zeros(0)])


def split_beliefs(graph, found):
    """Return the beliefs of the variables and of the cliques, as lists of arrays."""
    singles = np.split(found.single, np.cumsum(graph.n_states))[:-1]
    return singles, graph.layout.untied().split(found.cliques)


def enumerate_beliefs(graph):
    """Return the marginals of variables and cliques as flat arrays, and log Z."""
    states, p = twins.distribution(graph)
    log_z = twins.log_sum(naive_log_potential(graph, states))
    singles = twins.single_marginals(states, p, graph.n_states)
    return flatten_all(singles), flatten_all(twins.clique_marginals(states, p, graph)), log_z


def check(found, expected, **tolerance):
    for value, right in zip(found[:3], expected, strict=True):
        assert_allclose(value, right, **tolerance)


def check_distributions(graph, found):
    assert np.isfinite(found.log_partition)
    for p in join_lists(split_beliefs(graph, found)):
        assert p.min(initial=1.0) >= 0
        assert_allclose(p.sum(), 1, rtol=0, atol=1e-12)


def join_lists(lists):
    return [array for arrays in lists for array in arrays]


def possible_row(graph, rng, share=0.4):
    """Return random evidence of positive probability."""
    states, log_f = enumerate_states(graph)
    row = states[rng.choice(np.flatnonzero(log_f > -np.inf))].copy()
    row[rng.random(len(row)) > share] = MISSING
    return row


def condition_on_row(graph, row):
    """Return the conditioned graph, and masks of its beliefs in those of the full graph."""
    observed = np.flatnonzero(row != MISSING)
    evidence = {int(i): int(row[i]) for i in observed}
    owner = np.repeat(np.arange(len(row)), graph.n_states)
    tables = [np.zeros(t.shape, dtype=bool) for t in graph.log_potentials]
    for clique, table in zip(graph.cliques, tables, strict=True):
        table[tuple(evidence.get(v, slice(None)) for v in clique)] = True
    return graph.condition(evidence), np.isin(owner, observed, invert=True), flatten_all(tables) > 0


# Trees -------------------------------------------------------------------------------------


@each_schedule
@pytest.mark.parametrize("name", TREES)
def test_exact_on_trees(name, schedule, seed):
    graph = ZOO[name](seed)
    found = belief_propagation(graph, Propagation(schedule=schedule))
    assert found.converged
    check(found, enumerate_beliefs(graph), rtol=0, atol=1e-10)


@each_schedule
@pytest.mark.parametrize("name", TREES)
def test_exact_on_trees_given_evidence(name, schedule, seed):
    graph = ZOO[name](seed)
    row = possible_row(graph, np.random.default_rng(seed))
    found = belief_propagation(graph, Propagation(schedule=schedule), evidence=row)
    states, log_f = enumerate_states(graph)
    log_f[~((row == MISSING) | (states == row)).all(axis=1)] = -np.inf
    p = np.exp(log_f - twins.log_sum(log_f))
    assert_allclose(found.log_partition, twins.log_sum(log_f), rtol=0, atol=1e-10)
    expected = flatten_all(twins.single_marginals(states, p, graph.n_states))
    assert_allclose(found.single, expected, rtol=0, atol=1e-10)
    expected = flatten_all(twins.clique_marginals(states, p, graph))
    assert_allclose(found.cliques, expected, rtol=0, atol=1e-10)


@each_schedule
@pytest.mark.parametrize("root", [0, 1, 2])
def test_message_from_a_single_informative_clique(root, schedule):
    """All messages are uniform until the information of one clique reaches them."""
    tables = [[0.0, 1.0], np.eye(2), np.eye(2)]
    graph = FactorGraph([2] * 3, [(root,), (0, 1), (1, 2)], tables)
    found = belief_propagation(graph, Propagation(schedule=schedule))
    check(found, enumerate_beliefs(graph), rtol=0, atol=1e-12)


@each_schedule
@pytest.mark.parametrize("damping", [0.5, 0.9])
@pytest.mark.parametrize("cliques", [[(0,), (0, 1)], [(0, 1)]])
def test_damped_messages_to_leaves(cliques, damping, schedule):
    """No other message depends on a message to a leaf, but the belief of the leaf does."""
    tables = [np.array([0.0, 2.0]), np.array([[3.0, -np.inf], [0.0, 4.0]])][-len(cliques) :]
    graph = FactorGraph([2] * 2, cliques, tables)
    found = belief_propagation(graph, Propagation(schedule, damping))
    assert found.converged
    check(found, enumerate_beliefs(graph), rtol=0, atol=1e-6)


def test_one_iteration_does_not_count_as_converged():
    graph = FactorGraph([2] * 2, [(0,), (0, 1)], [[0.0, 1.0], np.eye(2)])
    found = belief_propagation(graph, Propagation(max_iter=1))
    assert (found.n_iter, found.converged) == (1, False)


@pytest.mark.parametrize("scale", [1.0, 300.0])
@each_schedule
def test_exact_on_a_tree_of_higher_order_cliques(schedule, scale, seed):
    n_states, cliques = [2, 3, 2, 4, 2, 3], [(1, 0, 2), (3, 2), (5, 3, 4), (), (4,), (1,)]
    rng = np.random.default_rng(seed)
    graph = FactorGraph(n_states, cliques, random_tables(n_states, cliques, rng, scale))
    found = belief_propagation(graph, Propagation(schedule=schedule))
    assert found.converged
    check(found, enumerate_beliefs(graph), rtol=1e-12, atol=1e-10)


@each_schedule
@pytest.mark.parametrize("name", TREES)
def test_max_marginals_of_trees(name, schedule, seed):
    graph = ZOO[name](seed)
    all_maximised = np.ones(graph.n_variables, dtype=bool)
    how = Propagation(schedule=schedule)
    found = belief_propagation(graph, how, maximised=all_maximised)
    assert found.converged
    states, log_f = enumerate_states(graph)
    for i, p in enumerate(split_beliefs(graph, found)[0]):
        tops = np.array([log_f[states[:, i] == s].max() for s in range(graph.n_states[i])])
        tops = np.exp(tops - tops.max())
        assert_allclose(p, tops / tops.sum(), rtol=0, atol=1e-10)


@each_schedule
@pytest.mark.parametrize("zero_share", [0.0, 0.2])
def test_marginal_map_on_trees(zero_share, schedule, seed):
    """Variables 0 to 3 are a maximised chain; variables 4 to 7 are attached to it in pairs."""
    n_states = [2, 3, 2, 3, 2, 2, 3, 2]
    cliques = [*pairwise(range(4)), (0, 4), (4, 5), (2, 6), (6, 7), *((i,) for i in range(8))]
    rng = np.random.default_rng(seed)
    tables = random_tables(n_states, cliques, rng)
    for table in tables:
        drop = rng.random(table.shape) < zero_share
        drop.flat[0] = False
        table[drop] = -np.inf
    graph = FactorGraph(n_states, cliques, tables)
    maximised = np.arange(8) < 4
    found = belief_propagation(graph, Propagation(schedule=schedule), maximised=maximised)
    assert found.converged
    decoded = [int(np.argmax(p)) for p in split_beliefs(graph, found)[0][:4]]
    plan = elimination.prepare(graph.layout, maximised=maximised)
    best, value = elimination.marginal_map(plan, graph.flat)
    assert decoded == best[0, :4].tolist()
    states, log_f = enumerate_states(graph)
    agree = (states[:, :4] == decoded).all(axis=1)
    assert_allclose(twins.log_sum(log_f[agree]), value[0], rtol=0, atol=1e-12)
    p = np.exp(log_f[agree] - value[0])
    marginals = twins.single_marginals(states[agree], p, n_states)
    assert_allclose(
        flatten_all(split_beliefs(graph, found)[0][4:]),
        flatten_all(marginals[4:]),
        rtol=0,
        atol=1e-10,
    )


# General graphs ----------------------------------------------------------------------------


@pytest.mark.parametrize("max_iter", [1, 2, 500])
@each_schedule
@each_model
def test_beliefs_are_distributions(name, schedule, max_iter, seed):
    graph = ZOO[name](seed).factor_graph()
    how = Propagation(schedule=schedule, max_iter=max_iter)
    found = belief_propagation(graph, how)
    check_distributions(graph, found)
    assert found.converged == (found.residual <= how.tol)
    assert found.n_iter <= max_iter
    if found.converged:
        singles, cliques = split_beliefs(graph, found)
        for members, table in zip(graph.cliques, cliques, strict=True):
            for k, i in enumerate(members):
                others = tuple(j for j in range(len(members)) if j != k)
                assert_allclose(table.sum(axis=others), singles[i], rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", LOOPS)
def test_all_schedules_reach_the_same_fixed_point(name, seed):
    graph = ZOO[name](seed).factor_graph()
    ways = [Propagation(schedule=s, tol=1e-11, max_iter=5000) for s in SCHEDULES]
    ways += [Propagation(schedule=s, tol=1e-11, damping=0.6, max_iter=5000) for s in SCHEDULES]
    runs = [belief_propagation(graph, how) for how in ways]
    runs = [found for found in runs if found.converged]
    assert len(runs) >= 5
    for found in runs[1:]:
        check(found, runs[0][:3], rtol=0, atol=1e-7)


@each_schedule
@each_model
def test_evidence_slices_tables(name, schedule, seed):
    graph = ZOO[name](seed).factor_graph()
    row = possible_row(graph, np.random.default_rng(seed))
    smaller, free, kept = condition_on_row(graph, row)
    how = Propagation(schedule=schedule)
    found = belief_propagation(graph, how, evidence=row)
    expected = belief_propagation(smaller, how)
    assert found.converged == expected.converged
    assert_allclose(found.single[free], expected.single, rtol=0, atol=1e-7)
    assert_allclose(found.cliques[kept], expected.cliques, rtol=0, atol=1e-7)
    assert not found.cliques[~kept].any()
    assert_allclose(found.log_partition, expected.log_partition, rtol=1e-12, atol=1e-7)
    first = np.cumsum(graph.n_states) - graph.n_states
    seen = row != MISSING
    assert_array_equal(found.single[first[seen] + row[seen]], 1.0)


@each_schedule
@each_model
def test_start_at_the_fixed_point_stays(name, schedule, seed):
    graph = ZOO[name](seed).factor_graph()
    found = belief_propagation(graph, Propagation(schedule=schedule, tol=1e-11))
    kept = found.messages.copy()
    damping = 0.0 if found.n_iter <= UNDAMPED else LATE_DAMPING
    again = belief_propagation(graph, Propagation(schedule, damping), start=found.messages)
    assert_array_equal(found.messages, kept)
    if found.converged:
        assert again.converged
        assert again.n_iter <= (2 if damping == 0.0 else 100)
        assert_allclose(again.single, found.single, rtol=0, atol=1e-6)


@pytest.mark.parametrize("entries", [1, 300])
@each_schedule
@each_model
def test_short_kernel_calls_do_not_change_results(name, schedule, entries, seed, monkeypatch):
    graph = ZOO[name](seed).factor_graph()
    how = Propagation(schedule=schedule, max_iter=30)
    whole = belief_propagation(graph, how)
    module = sys.modules["skmrf.variational.belief_propagation"]
    monkeypatch.setattr(module, "ENTRIES_PER_CALL", entries)
    pieces = belief_propagation(graph, how)
    if schedule != "residual":  # this schedule restarts in every call
        assert pieces.n_iter == whole.n_iter
        assert_allclose(pieces.single, whole.single, rtol=0, atol=1e-9)
    elif name in TREES:
        assert_allclose(pieces.single, whole.single, rtol=0, atol=1e-9)


def test_oscillation_is_reported():
    """Flooding oscillates between two states on four spins that repel each other."""
    coupling = -1.5 * (1 - np.eye(4))
    graph = PairwiseEnergy(coupling, np.full(4, 0.01)).factor_graph()
    found = belief_propagation(graph, Propagation(schedule="flooding", damping=0.0))
    assert (found.converged, found.n_iter) == (False, 500)
    assert found.residual > 0.5
    check_distributions(graph, found)
    assert belief_propagation(graph, Propagation(schedule="flooding")).converged


@pytest.mark.parametrize("evidence", [None, [0, 0, MISSING], [0, 1, 1], [MISSING, 0, MISSING]])
@each_schedule
def test_contradictory_models(schedule, evidence):
    """Three binary variables cannot all differ, so no state is possible."""
    graph = FactorGraph([2] * 3, [(0, 1), (1, 2), (0, 2)], [XOR] * 3)
    row = None if evidence is None else np.array(evidence, dtype=STATE)
    found = belief_propagation(graph, Propagation(schedule=schedule), evidence=row)
    assert not np.isnan(found.single).any()
    assert not np.isnan(found.cliques).any()
    if row is not None:
        assert found.log_partition == -np.inf


@given(small_graphs(), st.sampled_from(list(SCHEDULES)), st.integers(1, 30), st.booleans())
def test_any_graph(graph, schedule, max_iter, maximise):
    maximised = np.full(graph.n_variables, maximise)
    how = Propagation(schedule=schedule, max_iter=max_iter)
    check_distributions(graph, belief_propagation(graph, how, maximised=maximised))


@given(small_graphs(), st.integers(0, 2**32))
def test_invariant_to_relabelling(graph, seed):
    """Permute the variables, their states and the order within cliques."""
    rng = np.random.default_rng(seed)
    place = rng.permutation(graph.n_variables)
    codes = [rng.permutation(q) for q in graph.n_states]
    cliques, tables = [], []
    for clique, table in zip(graph.cliques, graph.log_potentials, strict=True):
        turn = rng.permutation(len(clique))
        cliques.append(tuple(int(place[clique[k]]) for k in turn))
        table = table[np.ix_(*(codes[v] for v in clique))] if clique else table
        tables.append(table.transpose(turn))
    renamed = FactorGraph(graph.n_states[np.argsort(place)], cliques, tables)
    how = Propagation(schedule="flooding", max_iter=4, tol=0.0)
    found, expected = belief_propagation(renamed, how), belief_propagation(graph, how)
    singles = split_beliefs(renamed, found)[0]
    for i, p in enumerate(split_beliefs(graph, expected)[0]):
        assert_allclose(singles[place[i]], p[codes[i]], rtol=0, atol=1e-9)
    assert_allclose(found.log_partition, expected.log_partition, rtol=1e-10, atol=1e-9)


# Comparison with the definition ------------------------------------------------------------

TWINS = ("cycle", "complete", "orders", "zeros", "zeros_binary", "constant_variables", "huge")
TWINS += ("isolated", "one_state", "uniform")


@pytest.mark.parametrize("damping", [0.0, 0.4])
@pytest.mark.parametrize("name", TWINS)
def test_flooding_against_the_definition(name, damping, seed):
    graph = ZOO[name](seed).factor_graph()
    rng = np.random.default_rng(seed)
    for counting in (None, rng.uniform(0.5, 1.0, size=len(graph.cliques))):
        for n_iter in (1, 2, 3, 5):
            how = Propagation("flooding", damping, n_iter, 0.0)
            found = belief_propagation(graph, how, counting=counting)
            log_messages = twins.flooding(graph, found.n_iter, damping=damping, counting=counting)
            singles, cliques, value = twins.beliefs(graph, log_messages, counting)
            expected = flatten_all(singles), flatten_all(cliques), value
            check(found, expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("name", TWINS)
def test_max_product_against_the_definition(name, seed):
    graph = ZOO[name](seed).factor_graph()
    all_maximised = np.ones(graph.n_variables, dtype=bool)
    for n_iter in (1, 2, 3):
        how = Propagation("flooding", 0.0, n_iter, 0.0)
        found = belief_propagation(graph, how, maximised=all_maximised)
        log_messages = twins.flooding(graph, found.n_iter, total=np.max)
        assert_allclose(
            found.single, flatten_all(twins.beliefs(graph, log_messages)[0]), rtol=0, atol=1e-9
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "random"}, "schedule must be one of .*; got 'random'"),
        ({"damping": 1.0}, "damping must be a number >= 0 and <= 0.99; got 1.0"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1; got 0"),
        ({"tol": -1.0}, "tol must be a number >= 0 and <= 0.5; got -1.0"),
        ({"tol": 1.0}, "tol must be a number >= 0 and <= 0.5; got 1.0"),
        ({"damping": "Auto"}, "damping must be \"auto\" or a number; got 'Auto'"),
    ],
)
def test_invalid_settings_raise(options, message):
    with pytest.raises(ValueError, match=message):
        Propagation(**options)


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({0: 1}, r"evidence must be an array of integers of shape \(9,\)"),
        (np.zeros(3, dtype=int), r"evidence must be an array of integers of shape \(9,\)"),
        (np.full(9, -1.0), r"evidence must be an array of integers of shape \(9,\)"),
        ([0, 5] + [-1] * 7, "Evidence gives variable 1 the state 5, but its states are 0 to 1"),
        (np.full(9, -2), "Evidence gives variable 0 the state -2"),
    ],
)
@pytest.mark.parametrize("passing", [belief_propagation, decimate, tree_reweighted])
def test_invalid_evidence_raises(passing, evidence, message):
    with pytest.raises(ValueError, match=message):
        passing(ZOO["grid"](0).factor_graph(), evidence=evidence)


@pytest.mark.parametrize("start", [np.zeros(3), np.full(66, np.nan)])
def test_invalid_start_raises(start):
    with pytest.raises(
        ValueError, match=r"start must contain the messages of a run .* shape \(66,\)"
    ):
        belief_propagation(ZOO["grid"](0).factor_graph(), start=start)


# Published results -------------------------------------------------------------------------

LOG_Z = 14.328233281091581


def _published(folder, prefixes):
    text = gzip.decompress((folder / "testfast_reference.json.gz").read_bytes())
    methods = json.loads(text)["methods"]
    chosen = {name: v for name, v in methods.items() if name.startswith(prefixes) or name == "BP"}
    return {
        name: (flatten_all(v["marginals"][str(i)] for i in range(16)), float(v["errors"][4]))
        for name, v in chosen.items()
    }


@each_schedule
def test_libdai_sum_product(schedule, data_folder):
    """Compare with marginals printed with four digits, and with the error of log Z."""
    folder = data_folder("libdai")
    found = belief_propagation(read_uai(folder / "testfast.uai.gz"), Propagation(schedule=schedule))
    published = _published(folder, ("BP_", "FBP"))
    assert len(published) == 18
    for marginals, error in published.values():
        assert_allclose(found.single, marginals, rtol=0, atol=5e-5 + 1e-9)
        assert_allclose(found.log_partition - LOG_Z, error, rtol=0, atol=5e-8)


@each_schedule
def test_libdai_max_product(schedule, data_folder):
    folder = data_folder("libdai")
    graph = read_uai(folder / "testfast.uai.gz")
    how = Propagation(schedule=schedule, damping=0.1)
    found = belief_propagation(graph, how, maximised=np.ones(16, dtype=bool))
    assert found.converged
    published = _published(folder, ("MP_", "FMP_"))
    del published["BP"]
    assert len(published) == 12
    for marginals, _ in published.values():
        assert_allclose(found.single, marginals, rtol=0, atol=5e-5 + 1e-9)


# Decimation --------------------------------------------------------------------------------------


def value(graph, found):
    return naive_log_potential(graph, found.states[None])[0]


@pytest.mark.parametrize("schedule", ["sequential", "flooding", "residual"])
@pytest.mark.parametrize("name", TREES)
def test_decimation_finds_the_mode_on_trees(name, schedule, seed):
    graph = ZOO[name](seed)
    found = decimate(graph, Propagation(schedule=schedule))
    assert found.converged_fraction == 1.0
    assert found.states.dtype == STATE
    assert_allclose(value(graph, found), enumerate_states(graph)[1].max(), rtol=0, atol=1e-10)


@each_model
def test_decimation_avoids_zero_potentials(name, seed):
    """The state found has positive probability, and not more than the mode."""
    graph = ZOO[name](seed).factor_graph()
    found = decimate(graph)
    top = enumerate_states(graph)[1].max()
    assert -np.inf < value(graph, found) <= top + 1e-12 * (1 + abs(top))
    assert 0 <= found.converged_fraction <= 1
    assert_array_equal(decimate(graph).states, found.states)


@each_model
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
def test_decimation_of_any_graph(graph):
    assert value(graph, decimate(graph)) > -np.inf


def test_ties_are_resolved_by_index():
    graph = FactorGraph([2, 3, 2, 2], [(2, 3), (1,)], [np.zeros((2, 2)), np.zeros(3)])
    assert_array_equal(decimate(graph).states, 0)
    graph = FactorGraph([2, 2, 2], [(0, 1), (1, 2)], [XOR, XOR])
    assert_array_equal(decimate(graph).states, [0, 1, 0])


def colouring_graph(graph, n_colors):
    different = np.where(np.eye(n_colors, dtype=bool), -np.inf, 0.0)
    edges = list(graph.edges)
    return FactorGraph([n_colors] * len(graph), edges, [different] * len(edges))


@pytest.mark.parametrize("n", [8, 14])
def test_graph_colouring_by_backtracking(n, seed):
    """Three colours suffice by construction; the search finds them by backtracking."""
    rng = np.random.default_rng(seed)
    planted = rng.integers(3, size=n)
    edges = [(i, j) for i in range(n) for j in range(i) if planted[i] != planted[j]]
    edges = [edge for edge in edges if rng.random() < 7 / n]
    network = nx.Graph(edges)
    network.add_nodes_from(range(n))
    network = nx.convert_node_labels_to_integers(network, ordering="sorted")
    graph = colouring_graph(network, 3)
    assert value(graph, decimate(graph)) == 0.0


@pytest.mark.parametrize(
    ("network", "n_colors"), [(nx.cycle_graph(5), 2), (nx.complete_graph(4), 3)]
)
def test_decimation_of_impossible_models(network, n_colors, monkeypatch):
    """Impossible models raise an error, or give some state without backtracking."""
    graph = colouring_graph(network, n_colors)
    with pytest.raises(ImpossibleEvidence):
        decimate(graph)
    monkeypatch.setattr(sys.modules["skmrf.variational.belief_propagation"], "MAX_BACKTRACKS", 0)
    assert value(graph, decimate(graph)) == -np.inf


# Published problems ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("testfast", 0.0),
        ("hoi1", 0.0),
        ("hoi2", 0.0),
        ("hoi3", 0.0),
        ("hoi4", 0.0),
        ("alarm", 0.08),
    ],
)
def test_libdai(name, tolerance, data_folder):
    """The modes are exact except for alarm, where the value is 0.075 nats below."""
    folder = data_folder("libdai")
    exact = json.loads(gzip.decompress((folder / "exact_by_ve.json.gz").read_bytes()))[name]
    graph = read_uai(folder / f"{name}.uai.gz")
    found = value(graph, decimate(graph))
    assert exact["log_map"] - tolerance - 1e-9 <= found <= exact["log_map"] + 1e-9
