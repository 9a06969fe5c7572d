"""Tests of the generators of random models."""

import re

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from montecarlo import TAIL, check_draws
from numpy.testing import assert_allclose
from scipy.stats import kstest, trapezoid, uniform

from skmrf.datasets import (
    make_ising,
    make_multimodal_mrf,
    make_non_decay_mrf,
    make_structured_sequences,
    make_weighted_3sat,
)
from skmrf.datasets.random_models import make_random_mrf

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


def list_edges(energy):
    i, j = np.nonzero(np.triu(energy.coupling))
    return set(zip(i.tolist(), j.tolist(), strict=True))


def build_graph(energy):
    graph = nx.Graph()
    graph.add_nodes_from(range(energy.n_variables))
    graph.add_edges_from(list_edges(energy))
    return graph


# make_non_decay_mrf -----------------------------------------------------------------------


def compute_second_moments(energy):
    """Compute E[s_i s_j] by enumeration."""
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
def test_non_decay_correlations(beta, first):
    for n_middle in (first - 1, first):
        moments = compute_second_moments(make_non_decay_mrf(n_middle, beta=beta))
        t = 2 * beta - 1
        ends = np.tanh(n_middle * np.arctanh(t * t))
        rest = np.tanh((n_middle - 1) * np.arctanh(t * t))
        edge = np.tanh(np.arctanh(t) + np.arctanh(t * rest))
        assert_allclose([moments[0, -1], moments[0, 1]], [ends, edge], atol=1e-12)
        assert_allclose(moments[0, 1:-1], edge, atol=1e-12)
        assert (ends > abs(edge)) == (n_middle == first)


def test_non_decay_graph():
    energy = make_non_decay_mrf(8, beta=0.6)
    assert list_edges(energy) == {(0, k) for k in range(1, 9)} | {(k, 9) for k in range(1, 9)}
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
        (3, np.nan, "beta must be a finite number"),
    ],
)
def test_non_decay_errors(n_middle, beta, message):
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
def test_ising_edges_match_networkx(kind, graph):
    if kind in ("grid", "torus"):
        graph = nx.relabel_nodes(graph, {(r, c): 4 * r + c for r, c in graph})
    energy = make_ising(kind, n_variables=12, coupling=1.0)
    assert list_edges(energy) == {tuple(sorted(edge)) for edge in graph.edges}


@pytest.mark.parametrize("seed", range(3))
def test_ising_random_graph_degrees(seed):
    def build(kind, n, **options):
        energy = make_ising(kind, n_variables=n, coupling=1.0, random_state=seed, **options)
        return build_graph(energy)

    assert nx.is_tree(build("tree", 20))
    assert {d for _, d in build("regular", 20, degree=3).degree} == {3}
    assert build("power-law", 50, degree=6).number_of_edges() == 3 * (50 - 3)
    # 400 * 6 / 2 = 1200 edges expected, standard deviation below sqrt(1200)
    edges = build("erdos-renyi", 400, degree=6.0).number_of_edges()
    assert abs(edges - 1200) < 5 * np.sqrt(1200)
    assert build("erdos-renyi", 6, degree=5).number_of_edges() == 15
    assert build("erdos-renyi", 6, degree=0).number_of_edges() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_ising_is_reproducible(kind):
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
    assert list_edges(make_ising(kind, n_variables=30, coupling=2.0, random_state=4)) != list_edges(
        plain
    )


def test_ising_signs_have_equal_frequency():
    energy = make_ising("complete", n_variables=60, coupling=1.0, mixed_signs=True, random_state=0)
    signs = energy.coupling[np.triu_indices(60, 1)]
    assert set(signs) == {-1.0, 1.0}
    assert abs(signs.sum()) < 5 * np.sqrt(len(signs))


@pytest.mark.parametrize("random_state", [0, None])
def test_generators_keep_global_random_state(random_state):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    make_ising("tree", n_variables=9, coupling=1.0, mixed_signs=True, random_state=random_state)
    make_random_mrf(9, n_cliques=5, random_state=random_state)
    make_multimodal_mrf(9, random_state=random_state)
    make_weighted_3sat(9, random_state=random_state)
    make_structured_sequences(9, n_samples=5, random_state=random_state)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_ising_without_seed_is_random():
    first, second = (make_ising("tree", n_variables=40, coupling=1.0) for _ in range(2))
    assert list_edges(first) != list_edges(second)


def test_ising_coupling_per_edge_and_matrix():
    values = np.array([1.0, 2.0, 3.0, 4.0])  # sorted edges: (0,1) (0,2) (1,3) (2,3)
    energy = make_ising("grid", n_variables=4, coupling=values, field=[0, 1, 2, 3])
    assert [energy.coupling[e] for e in [(0, 1), (0, 2), (1, 3), (2, 3)]] == values.tolist()
    np.testing.assert_array_equal(energy.bias, [0, 1, 2, 3])
    full = np.arange(16.0).reshape(4, 4)
    full = full + full.T
    masked = make_ising("grid", n_variables=4, coupling=full).coupling
    np.testing.assert_array_equal(masked, np.where(energy.coupling != 0, full, 0.0))


def test_ising_edge_list_keeps_order():
    energy = make_ising([(3, 1), (0, 2)], n_variables=5, coupling=[1.0, -2.0])
    assert list_edges(energy) == {(1, 3), (0, 2)}
    assert energy.coupling[1, 3] == 1.0
    assert energy.coupling[2, 0] == -2.0
    as_array = make_ising(np.array([(3, 1), (0, 2)]), n_variables=5, coupling=[1.0, -2.0])
    np.testing.assert_array_equal(as_array.coupling, energy.coupling)


def test_ising_networkx_graph():
    graph = nx.Graph([("a", "b"), ("b", "c")])
    energy = make_ising(graph, n_variables=3, coupling=[1.0, 2.0])
    assert energy.coupling[0, 1] == 1.0
    assert energy.coupling[1, 2] == 2.0
    shuffled = nx.Graph([(2, 0), (0, 1)])  # nodes 0 .. n - 1 keep their numbers
    assert list_edges(make_ising(shuffled, n_variables=3, coupling=1.0)) == {(0, 2), (0, 1)}


def test_ising_smallest_models():
    for kind in ("chain", "star", "complete", "tree"):
        assert make_ising(kind, n_variables=1, coupling=1.0).coupling.tolist() == [[0.0]]
    assert not list_edges(make_ising([], n_variables=3, coupling=1.0))
    assert make_ising("erdos-renyi", n_variables=1, coupling=1.0, degree=0).n_variables == 1


@given(n=st.integers(4, 120), kind=st.sampled_from(["grid", "torus"]))
@settings(deadline=None, max_examples=30)
def test_ising_grid_is_most_square_factorisation(n, kind):
    least = 2 if kind == "grid" else 3
    rows = max((a for a in range(1, n) if n % a == 0 and a * a <= n), default=1)
    if rows < least:
        with pytest.raises(ValueError, match=f"kind='{kind}' needs n_variables = rows"):
            make_ising(kind, n_variables=n, coupling=1.0)
        return
    graph = build_graph(make_ising(kind, n_variables=n, coupling=1.0))
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
        "nearest valid numbers are 6 (2 x 3) and 8 (2 x 4).",
    ),
    (
        {"kind": "torus", "n_variables": 4},
        "kind='torus' needs n_variables = rows * columns with at least 3 of each; got 4. The "
        "nearest valid numbers are 9 (3 x 3).",
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
    ({"kind": "erdos-renyi", "degree": np.nan}, "degree must be a finite number; got nan."),
    (
        {"coupling": [1.0, 2.0]},
        "coupling must be a number, 5 numbers (one per edge) or a matrix of shape (6, 6); got an "
        "array of shape (2,).",
    ),
    ({"coupling": np.inf}, "coupling must be finite; found inf."),
    (
        {"coupling": "strong"},
        "coupling must be a number, 5 numbers (one per edge) or a matrix of shape (6, 6); got str.",
    ),
    (
        {"coupling": np.triu(np.ones((6, 6)))},
        "coupling must be symmetric on the edges; coupling[0, 1] is 1.0 and coupling[1, 0] is 0.0.",
    ),
    (
        {"field": np.zeros(5)},
        "field must be a number or 6 numbers (one per variable); got an array of shape (5,).",
    ),
    ({"field": [0, 0, np.nan, 0, 0, 0]}, "field must be finite; found nan."),
    (
        {"kind": [(0, 1), (2, 6)]},
        "kind contains the edge (2, 6), but the variables are 0 to 5.",
    ),
    (
        {"kind": [(0, 1), (2, 2)]},
        "kind contains the edge (2, 2), which joins a variable to itself; edges must join two "
        "different variables.",
    ),
    (
        {"kind": [(0, 1), (2, 3), (1, 0)]},
        "kind contains the edge (0, 1) more than once; give each pair of variables once.",
    ),
    (
        {"kind": nx.path_graph(4)},
        "kind is a graph with 4 nodes, but n_variables is 6; give n_variables=4 or a graph with 6 "
        "nodes.",
    ),
    (
        {"kind": nx.DiGraph([(0, 1)])},
        "kind must be an undirected graph, but it is directed; use graph.to_undirected().",
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


# Random, multimodal and 3-SAT models -------------------------------------------------------------


# make_random_mrf --------------------------------------------------------------------------


def test_random_mrf_shapes():
    graph = make_random_mrf(8, n_states=3, n_cliques=10, order=3, random_state=0)
    np.testing.assert_array_equal(graph.n_states, np.full(8, 3))
    assert len(set(graph.cliques)) == 10
    assert all(len(c) == 3 and list(c) == sorted(set(c)) for c in graph.cliques)
    assert all(t.shape == (3, 3, 3) for t in graph.log_potentials)


def test_random_mrf_n_states():
    drawn = make_random_mrf(200, n_states=(2, 4), n_cliques=1, random_state=0).n_states
    assert set(drawn.tolist()) == {2, 3, 4}
    for given_states in ([2, 4], np.array([2, 4])):
        graph = make_random_mrf(2, n_states=given_states, n_cliques=1, random_state=0)
        np.testing.assert_array_equal(graph.n_states, [2, 4])


def test_random_mrf_orders():
    graph = make_random_mrf(20, n_cliques=60, order=(1, 3), random_state=0)
    assert {len(c) for c in graph.cliques} == {1, 2, 3}
    everything = make_random_mrf(4, n_cliques=14, order=(1, 3), random_state=0)
    assert len(set(everything.cliques)) == 14  # 4 + 6 + 4, all cliques of these orders


def test_random_mrf_is_reproducible():
    def build(seed):
        return make_random_mrf(
            9, n_states=(2, 3), n_cliques=12, order=(1, 3), zero_fraction=0.2, random_state=seed
        )

    assert build(5).cliques == build(5).cliques
    np.testing.assert_array_equal(build(5).flat, build(5).flat)
    assert build(5).cliques != build(6).cliques


def test_random_mrf_scale():
    flat = make_random_mrf(60, n_cliques=1700, scale=2.0, random_state=0).flat
    assert abs(flat.mean()) < 5 * 2.0 / np.sqrt(len(flat))
    assert abs(flat.std() / 2.0 - 1) < 5 / np.sqrt(2 * len(flat))
    assert not make_random_mrf(4, n_cliques=3, scale=0.0, random_state=0).flat.any()


@pytest.mark.parametrize("fraction", [0.3, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_random_mrf_zeros_keep_positive_state(fraction, seed):
    options = {"n_states": (2, 3), "n_cliques": 12, "order": (1, 3), "random_state": seed}
    graph = make_random_mrf(6, zero_fraction=fraction, **options)
    finite = np.isfinite(graph.flat)
    states = np.indices(graph.n_states).reshape(6, -1).T
    positive = np.isfinite(graph.log_potential(states)).sum()
    assert positive >= 1
    if fraction == 1.0:
        assert positive == np.prod(np.delete(graph.n_states, np.unique(sum(graph.cliques, ()))))
        assert finite.sum() == 12
    whole = make_random_mrf(6, **options)
    np.testing.assert_array_equal(graph.flat[finite], whole.flat[finite])
    assert graph.cliques == whole.cliques


def test_random_mrf_zero_fraction():
    graph = make_random_mrf(40, n_states=4, n_cliques=300, zero_fraction=0.25, random_state=0)
    n = len(graph.flat)
    expected, spread = 0.25 * (n - 300), np.sqrt(n * 0.25 * 0.75)
    assert abs(np.isinf(graph.flat).sum() - expected) < 5 * spread


MRF_ERRORS = [
    ({"n_variables": 0}, "n_variables must be an integer >= 1; got 0."),
    ({"n_cliques": 0}, "n_cliques must be an integer >= 1; got 0."),
    (
        {"n_cliques": 11},
        "n_cliques must be at most 10, the number of distinct cliques of order 2 to 2 among 5 "
        "variables; got 11.",
    ),
    ({"order": 6}, "order must be an integer >= 1 and <= 5; got 6."),
    ({"order": (3, 2)}, "order must be a tuple (low, high) with low <= high; got (3, 2)."),
    ({"order": (1, 2, 3)}, "order must be an integer or a tuple (low, high); got (1, 2, 3)."),
    ({"n_states": 0}, "n_states must be an integer >= 1 and <= 32767; got 0."),
    (
        {"n_states": [2, 3]},
        "n_states must be an integer, a tuple (low, high) or a list of 5 integers; got a list of "
        "shape (2,).",
    ),
    (
        {"n_states": [2, 3, 0, 2, 2]},
        "n_states must be an integer >= 1 and <= 32767; got 0.",
    ),
    ({"scale": -1.0}, "scale must be a number >= 0; got -1.0."),
    ({"zero_fraction": 1.5}, "zero_fraction must be a number >= 0 and <= 1; got 1.5."),
]


@pytest.mark.parametrize(("options", "message"), MRF_ERRORS)
def test_random_mrf_errors(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_random_mrf(**({"n_variables": 5, "n_cliques": 3} | options))


def test_random_mrf_checks_size_before_allocation():
    with pytest.raises(ValueError, match="more than the limit"):
        make_random_mrf(40, n_states=1000, n_cliques=1, order=12, random_state=0)


# make_multimodal_mrf ----------------------------------------------------------------------


def check_uniform(values, low, high):
    """Assert that independent integers are uniform on ``low .. high``, both included."""
    states = np.arange(low, high + 1)[:, None]
    check_draws(np.reshape(values, (-1, 1)), states, np.full(len(states), 1 / len(states)))


def collect_potentials(graphs):
    return np.exp(np.concatenate([graph.flat for graph in graphs]))


@pytest.mark.parametrize("n", [1, 2, 5, 6, 31])
@pytest.mark.parametrize("min_size", [1, 2])
def test_multimodal_ranges(n, min_size, seed):
    min_size = min(min_size, n)
    graph = make_multimodal_mrf(n, min_size=min_size, random_state=seed)
    np.testing.assert_array_equal(graph.n_states, np.full(n, 2))
    assert n <= len(graph.cliques) <= 2 * n
    for clique, table in zip(graph.cliques, graph.log_potentials, strict=True):
        assert list(clique) == sorted(set(clique))
        assert min_size <= len(clique) <= min(6, n)
        assert table.shape == (2,) * len(clique)
    assert np.isfinite(graph.flat).all()


@pytest.mark.parametrize(("n", "min_size"), [(3, 1), (10, 1), (10, 2)])
def test_multimodal_distribution(n, min_size, seed):
    graphs = [
        make_multimodal_mrf(n, min_size=min_size, random_state=s)
        for s in np.random.default_rng(seed).integers(2**31, size=400)
    ]
    check_uniform([len(g.cliques) for g in graphs], n, 2 * n)
    cliques = [clique for g in graphs for clique in g.cliques]
    check_uniform([len(clique) for clique in cliques], min_size, min(6, n))
    pairs = [clique for clique in cliques if len(clique) == 2]
    check_uniform([i * n + j - (i + 1) * (i + 2) // 2 for i, j in pairs], 0, n * (n - 1) // 2 - 1)
    v = collect_potentials(graphs)
    check_uniform((v > 1.0).astype(int), 0, 1)
    large = trapezoid(1 / 991, 990 / 991, loc=10.0, scale=991.0)  # U(0, 1) + U(10, 1000)
    assert kstest(v[v <= 1.0], uniform(0, 1).cdf).pvalue > TAIL
    assert kstest(v[v > 1.0], large.cdf).pvalue > TAIL
    assert kstest(v[v > 1.0], uniform(100, 900).cdf).pvalue < TAIL
    assert v[v > 1.0].min() > 10.0


def test_multimodal_is_nearly_deterministic():
    """Check the statement on random_state = 0 .. 199 in the docstring."""
    states = np.indices((2,) * 10).reshape(10, -1).T
    perplexity = []
    for s in range(200):
        log_f = make_multimodal_mrf(10, random_state=s).log_potential(states)
        p = np.exp(log_f - np.logaddexp.reduce(log_f))
        perplexity.append(np.exp(-(p[p > 0] * np.log(p[p > 0])).sum()))
    assert round(np.median(perplexity), 1) == 2.3
    assert np.mean(np.array(perplexity) < 5.3) >= 0.9


MULTIMODAL_ERRORS = [
    ({"n_variables": 0}, "n_variables must be an integer >= 1; got 0."),
    ({"n_variables": 4.0}, "n_variables must be an integer; got 4.0."),
    ({"n_variables": True}, "n_variables must be an integer; got True."),
    ({"min_size": 0}, "min_size must be an integer >= 1 and <= 6; got 0."),
    ({"min_size": 7}, "min_size must be an integer >= 1 and <= 6; got 7."),
    ({"n_variables": 3, "min_size": 4}, "min_size must be an integer >= 1 and <= 3; got 4."),
]


@pytest.mark.parametrize(("options", "message"), MULTIMODAL_ERRORS)
def test_multimodal_errors(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_multimodal_mrf(**({"n_variables": 8} | options))


# make_weighted_3sat -----------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 4, 10, 31])
@pytest.mark.parametrize("n_clauses", [None, 1, 17])
def test_3sat_ranges(n, n_clauses, seed):
    graph = make_weighted_3sat(n, n_clauses=n_clauses, random_state=seed)
    np.testing.assert_array_equal(graph.n_states, np.full(n, 2))
    assert len(graph.cliques) == (n_clauses or 3 * n)
    assert all(len(c) == 3 and list(c) == sorted(set(c)) for c in graph.cliques)
    assert all(table.shape == (2, 2, 2) for table in graph.log_potentials)
    tables = np.sort(collect_potentials([graph]).reshape(-1, 8))
    assert (tables[:, 0] >= 0.1).all()
    assert (tables[:, 0] < 1.0).all()
    assert (tables[:, 1] >= 10.0).all()
    assert (tables[:, -1] < 1000.0).all()


def test_3sat_distribution(seed):
    graph = make_weighted_3sat(5, n_clauses=4000, random_state=seed)
    sets = {c: k for k, c in enumerate(sorted(set(graph.cliques)))}
    assert len(sets) == 10
    check_uniform([sets[c] for c in graph.cliques], 0, 9)
    tables = collect_potentials([graph]).reshape(-1, 8)
    false = tables.argmin(axis=1)
    bits = np.array(np.unravel_index(false, (2, 2, 2))).T
    corners = np.indices((2, 2, 2)).reshape(3, -1).T
    check_draws(bits, corners, np.full(8, 1 / 8))
    satisfied = np.arange(8) != false[:, None]
    assert kstest(tables[~satisfied], uniform(0.1, 0.9).cdf).pvalue > TAIL
    assert kstest(tables[satisfied], uniform(10, 990).cdf).pvalue > TAIL
    assert kstest(tables[satisfied], uniform(100, 900).cdf).pvalue < TAIL


SAT_ERRORS = [
    ({"n_variables": 2}, "n_variables must be an integer >= 3; got 2."),
    ({"n_variables": "10"}, "n_variables must be an integer; got '10'."),
    ({"n_clauses": 0}, "n_clauses must be an integer >= 1; got 0."),
    ({"n_clauses": 2.5}, "n_clauses must be an integer; got 2.5."),
]


@pytest.mark.parametrize(("options", "message"), SAT_ERRORS)
def test_3sat_errors(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_weighted_3sat(**({"n_variables": 8} | options))


@pytest.mark.parametrize("make", [make_multimodal_mrf, make_weighted_3sat])
def test_benchmark_mrfs_are_reproducible(make, seed):
    first, again, other = (make(12, random_state=s) for s in (seed, seed, seed + 1))
    assert first.cliques == again.cliques
    np.testing.assert_array_equal(first.flat, again.flat)
    state = np.random.RandomState(seed)
    np.testing.assert_array_equal(make(12, random_state=state).flat, first.flat)
    assert make(12, random_state=state).cliques != first.cliques
    assert other.cliques != first.cliques
    assert make(12).cliques != make(12).cliques
