"""Tests of make_ising and make_non_decay_mrf."""

import re

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skmrf.datasets import (
    make_ising,
    make_multimodal_mrf,
    make_non_decay_mrf,
    make_random_mrf,
    make_structured_sequences,
    make_weighted_3sat,
)

KINDS = {
    "chain": 12,
    "cycle": 12,
    "grid": 12,
    "torus": 12,
    "star": 12,
    "complete": 12,
    "tree": 12,
    "erdos-renyi": 12,
    "regular": 12,
    "power-law": 12,
}
RANDOM_KINDS = ["tree", "erdos-renyi", "regular", "power-law"]


def edges_of(energy):
    i, j = np.nonzero(np.triu(energy.coupling))
    return set(zip(i.tolist(), j.tolist(), strict=True))


def graph_of(energy):
    graph = nx.Graph()
    graph.add_nodes_from(range(energy.n_variables))
    graph.add_edges_from(edges_of(energy))
    return graph


# make_non_decay_mrf -----------------------------------------------------------------------


def second_moments(energy):
    """E[s_i s_j] by enumeration."""
    codes = np.stack(np.meshgrid(*[[0, 1]] * energy.n_variables), -1).reshape(
        -1, energy.n_variables
    )
    logs = energy.log_potential(codes)
    p = np.exp(logs - logs.max())
    spins = 2 * codes - 1
    return spins.T @ (spins * (p / p.sum())[:, None])


@pytest.mark.parametrize(
    ("beta", "first"), [(0.55, 12), (0.6, 7), (0.7, 4), (0.8, 3), (0.9, 3), (0.4, 7)]
)
def test_correlations_that_do_not_decay(beta, first):
    for n_middle in (first - 1, first):
        moments = second_moments(make_non_decay_mrf(n_middle, beta=beta))
        t = 2 * beta - 1
        ends = np.tanh(n_middle * np.arctanh(t * t))
        rest = np.tanh((n_middle - 1) * np.arctanh(t * t))
        edge = np.tanh(np.arctanh(t) + np.arctanh(t * rest))
        assert_allclose([moments[0, -1], moments[0, 1]], [ends, edge], atol=1e-12)
        assert_allclose(moments[0, 1:-1], edge, atol=1e-12)
        assert (ends > abs(edge)) == (n_middle == first)


def test_non_decay_graph():
    energy = make_non_decay_mrf(8, beta=0.6)
    assert edges_of(energy) == {(0, k) for k in range(1, 9)} | {(k, 9) for k in range(1, 9)}
    assert_allclose(np.unique(energy.coupling), [0, np.log(1.5) / 2])
    assert not energy.bias.any()
    assert energy.states == (-1, 1)


@pytest.mark.parametrize(
    ("n_middle", "beta", "message"),
    [
        (0, 0.6, "n_middle must be an integer >= 1"),
        (2.5, 0.6, "n_middle must be an integer"),
        (3, 0.0, "beta must be strictly between 0 and 1; got 0.0"),
        (3, 1, "beta must be strictly between 0 and 1; got 1"),
        (3, 1.2, "beta must be a number >= 0 and <= 1"),
        (3, np.nan, "beta must be a number"),
    ],
)
def test_non_decay_refusals(n_middle, beta, message):
    with pytest.raises(ValueError, match=message):
        make_non_decay_mrf(n_middle, beta=beta)


# make_ising -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_ising_shapes_and_symmetry(kind):
    energy = make_ising(kind, n_variables=12, coupling=0.3, field=-0.2, random_state=0)
    assert energy.coupling.shape == (12, 12)
    assert energy.states == (-1, 1)
    np.testing.assert_array_equal(energy.coupling, energy.coupling.T)
    assert not np.diagonal(energy.coupling).any()
    assert set(np.unique(energy.coupling)) <= {0.0, 0.3}
    np.testing.assert_array_equal(energy.bias, np.full(12, -0.2))


@pytest.mark.parametrize(
    ("kind", "graph"),
    [
        ("chain", nx.path_graph(12)),
        ("cycle", nx.cycle_graph(12)),
        ("star", nx.star_graph(11)),
        ("complete", nx.complete_graph(12)),
        ("grid", nx.grid_2d_graph(3, 4)),
        ("torus", nx.grid_2d_graph(3, 4, periodic=True)),
    ],
)
def test_ising_edges_are_those_of_networkx(kind, graph):
    if kind in ("grid", "torus"):
        graph = nx.relabel_nodes(graph, {(r, c): 4 * r + c for r, c in graph})
    energy = make_ising(kind, n_variables=12, coupling=1.0)
    assert edges_of(energy) == {tuple(sorted(edge)) for edge in graph.edges}


@pytest.mark.parametrize("seed", range(3))
def test_ising_random_graphs_are_of_their_kind(seed):
    def build(kind, n, **options):
        return graph_of(make_ising(kind, n_variables=n, coupling=1.0, random_state=seed, **options))

    assert nx.is_tree(build("tree", 20))
    assert {d for _, d in build("regular", 20, degree=3).degree} == {3}
    assert build("power-law", 50, degree=6).number_of_edges() == 3 * (50 - 3)
    # 400 * 6 / 2 = 1200 edges expected, standard deviation below sqrt(1200)
    edges = build("erdos-renyi", 400, degree=6.0).number_of_edges()
    assert abs(edges - 1200) < 5 * np.sqrt(1200)
    assert build("erdos-renyi", 6, degree=5).number_of_edges() == 15
    assert build("erdos-renyi", 6, degree=0).number_of_edges() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_ising_repeats_for_an_int(kind):
    def build(seed):
        return make_ising(
            kind, n_variables=12, coupling=0.5, mixed_signs=True, random_state=seed
        ).coupling

    np.testing.assert_array_equal(build(7), build(7))
    np.testing.assert_array_equal(build(np.random.RandomState(7)), build(7))
    assert any((build(seed) != build(7)).any() for seed in range(8, 11))


@pytest.mark.parametrize("kind", RANDOM_KINDS)
def test_ising_signs_do_not_change_the_graph(kind):
    plain, mixed = (
        make_ising(kind, n_variables=30, coupling=2.0, mixed_signs=signs, random_state=3)
        for signs in (False, True)
    )
    np.testing.assert_array_equal(np.abs(mixed.coupling), plain.coupling)
    assert edges_of(make_ising(kind, n_variables=30, coupling=2.0, random_state=4)) != edges_of(
        plain
    )


def test_ising_signs_are_fair():
    energy = make_ising("complete", n_variables=60, coupling=1.0, mixed_signs=True, random_state=0)
    signs = energy.coupling[np.triu_indices(60, 1)]
    assert set(signs) == {-1.0, 1.0}
    assert abs(signs.sum()) < 5 * np.sqrt(len(signs))


@pytest.mark.parametrize("random_state", [0, None])
def test_generators_leave_the_global_state_alone(random_state):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    make_ising("tree", n_variables=9, coupling=1.0, mixed_signs=True, random_state=random_state)
    make_random_mrf(9, n_cliques=5, random_state=random_state)
    make_multimodal_mrf(9, random_state=random_state)
    make_weighted_3sat(9, random_state=random_state)
    make_structured_sequences(9, n_samples=5, random_state=random_state)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_ising_without_a_seed_differs():
    first, second = (make_ising("tree", n_variables=40, coupling=1.0) for _ in range(2))
    assert edges_of(first) != edges_of(second)


def test_ising_couplings_of_edges_and_matrix():
    values = np.array([1.0, 2.0, 3.0, 4.0])  # sorted edges: (0,1) (0,2) (1,3) (2,3)
    energy = make_ising("grid", n_variables=4, coupling=values, field=[0, 1, 2, 3])
    assert [energy.coupling[e] for e in [(0, 1), (0, 2), (1, 3), (2, 3)]] == values.tolist()
    np.testing.assert_array_equal(energy.bias, [0, 1, 2, 3])
    full = np.arange(16.0).reshape(4, 4)
    full = full + full.T
    masked = make_ising("grid", n_variables=4, coupling=full).coupling
    np.testing.assert_array_equal(masked, np.where(energy.coupling != 0, full, 0.0))


def test_ising_given_edges_keep_their_order():
    energy = make_ising([(3, 1), (0, 2)], n_variables=5, coupling=[1.0, -2.0])
    assert edges_of(energy) == {(1, 3), (0, 2)}
    assert energy.coupling[1, 3] == 1.0
    assert energy.coupling[2, 0] == -2.0
    as_array = make_ising(np.array([(3, 1), (0, 2)]), n_variables=5, coupling=[1.0, -2.0])
    np.testing.assert_array_equal(as_array.coupling, energy.coupling)


def test_ising_given_graph():
    graph = nx.Graph([("a", "b"), ("b", "c")])
    energy = make_ising(graph, n_variables=3, coupling=[1.0, 2.0])
    assert energy.coupling[0, 1] == 1.0
    assert energy.coupling[1, 2] == 2.0
    shuffled = nx.Graph([(2, 0), (0, 1)])  # nodes 0 .. n - 1 keep their numbers
    assert edges_of(make_ising(shuffled, n_variables=3, coupling=1.0)) == {(0, 2), (0, 1)}


def test_ising_smallest():
    for kind in ("chain", "star", "complete", "tree"):
        assert make_ising(kind, n_variables=1, coupling=1.0).coupling.tolist() == [[0.0]]
    assert not edges_of(make_ising([], n_variables=3, coupling=1.0))
    assert make_ising("erdos-renyi", n_variables=1, coupling=1.0, degree=0).n_variables == 1


@given(n=st.integers(4, 120), kind=st.sampled_from(["grid", "torus"]))
@settings(deadline=None, max_examples=30)
def test_ising_grids_take_the_most_square_factorisation(n, kind):
    least = 2 if kind == "grid" else 3
    rows = max((a for a in range(1, n) if n % a == 0 and a * a <= n), default=1)
    if rows < least:
        with pytest.raises(ValueError, match=f"kind='{kind}' needs n_variables = rows"):
            make_ising(kind, n_variables=n, coupling=1.0)
        return
    graph = graph_of(make_ising(kind, n_variables=n, coupling=1.0))
    expected = nx.grid_2d_graph(rows, n // rows, periodic=kind == "torus")
    expected = nx.relabel_nodes(expected, {(r, c): r * (n // rows) + c for r, c in expected})
    assert nx.utils.graphs_equal(graph, expected)


ISING_ERRORS = [
    (
        {"kind": "ring"},
        "kind must be one of ['chain', 'cycle', 'grid', 'torus', 'star', 'complete', 'tree', "
        "'erdos-renyi', 'regular', 'power-law'], a networkx graph or a list of edges; got 'ring'.",
    ),
    ({"n_variables": 0}, "n_variables must be an integer >= 1 and <= 16384; got 0."),
    ({"n_variables": 4.0}, "n_variables must be an integer; got 4.0."),
    ({"n_variables": 10**6}, "n_variables must be an integer >= 1 and <= 16384; got 1000000."),
    ({"kind": "cycle", "n_variables": 2}, "kind='cycle' needs n_variables >= 3; got 2."),
    (
        {"kind": "grid", "n_variables": 7},
        "kind='grid' needs n_variables = rows * columns with at least 2 of each; got 7. The "
        "nearest are 6 (2 x 3) and 8 (2 x 4).",
    ),
    (
        {"kind": "torus", "n_variables": 4},
        "kind='torus' needs n_variables = rows * columns with at least 3 of each; got 4. The "
        "nearest are 9 (3 x 3).",
    ),
    (
        {"kind": "regular", "n_variables": 5, "degree": 3},
        "kind='regular' needs an integer degree with n_variables * degree even; got degree=3.0 "
        "and n_variables=5.",
    ),
    (
        {"kind": "regular", "n_variables": 4},
        "kind='regular' with n_variables=4 needs a degree from 0 to 3; got degree=4.0.",
    ),
    (
        {"kind": "power-law", "degree": 3},
        "kind='power-law' needs an even integer degree; got degree=3.0.",
    ),
    ({"kind": "erdos-renyi", "degree": np.nan}, "degree must be a number; got nan."),
    (
        {"coupling": [1.0, 2.0]},
        "coupling must be a number, 5 numbers (one an edge) or a matrix of shape (6, 6); got an "
        "array of shape (2,).",
    ),
    ({"coupling": np.inf}, "coupling must be finite; it holds inf."),
    (
        {"coupling": "strong"},
        "coupling must be a number, 5 numbers (one an edge) or a matrix of shape (6, 6); got str.",
    ),
    (
        {"coupling": np.triu(np.ones((6, 6)))},
        "coupling must be symmetric on the edges; coupling[0, 1] is 1.0 and coupling[1, 0] is 0.0.",
    ),
    (
        {"field": np.zeros(5)},
        "field must be a number or 6 numbers (one a variable); got an array of shape (5,).",
    ),
    ({"field": [0, 0, np.nan, 0, 0, 0]}, "field must be finite; it holds nan."),
    (
        {"kind": [(0, 1), (2, 6)]},
        "kind holds the edge (2, 6), but the variables are 0 to 5.",
    ),
    (
        {"kind": [(0, 1), (2, 2)]},
        "kind holds the edge (2, 2), which joins a variable to itself; edges join two variables.",
    ),
    (
        {"kind": [(0, 1), (2, 3), (1, 0)]},
        "kind holds the edge (0, 1) more than once; give every pair of variables once.",
    ),
    (
        {"kind": nx.path_graph(4)},
        "kind is a graph of 4 nodes, but n_variables is 6; give n_variables=4 or a graph of 6 "
        "nodes.",
    ),
    (
        {"kind": nx.DiGraph([(0, 1)])},
        "kind must be an undirected graph; use graph.to_undirected().",
    ),
    (
        {"kind": 3},
        "kind must be the name of a graph, a networkx graph or a list of edges, each a pair of "
        "integers; got 3.",
    ),
    (
        {"kind": [(0, 1), (2,)]},
        "kind must be the name of a graph, a networkx graph or a list of edges, each a pair of "
        "integers; got [(0, 1), (2,)].",
    ),
    (
        {"kind": [(0.5, 1)]},
        "kind must be the name of a graph, a networkx graph or a list of edges, each a pair of "
        "integers; got [(0.5, 1)].",
    ),
]


@pytest.mark.parametrize(("options", "message"), ISING_ERRORS)
def test_ising_errors(options, message):
    options = {"kind": "chain", "n_variables": 6, "coupling": 1.0} | options
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_ising(options.pop("kind"), **options)
