"""Tests of make_random_mrf, make_multimodal_mrf and make_weighted_3sat."""

import re

import numpy as np
import pytest
from montecarlo import TAIL, check_draws
from scipy.stats import kstest, trapezoid, uniform

from skmrf.datasets import make_multimodal_mrf, make_random_mrf, make_weighted_3sat

# make_random_mrf --------------------------------------------------------------------------


def test_random_mrf_shapes():
    graph = make_random_mrf(8, n_states=3, n_cliques=10, order=3, random_state=0)
    np.testing.assert_array_equal(graph.n_states, np.full(8, 3))
    assert len(set(graph.cliques)) == 10
    assert all(len(c) == 3 and list(c) == sorted(set(c)) for c in graph.cliques)
    assert all(t.shape == (3, 3, 3) for t in graph.log_potentials)


def test_random_mrf_rule_of_n_states():
    drawn = make_random_mrf(200, n_states=(2, 4), n_cliques=1, random_state=0).n_states
    assert set(drawn.tolist()) == {2, 3, 4}
    for given_states in ([2, 4], np.array([2, 4])):
        graph = make_random_mrf(2, n_states=given_states, n_cliques=1, random_state=0)
        np.testing.assert_array_equal(graph.n_states, [2, 4])


def test_random_mrf_orders():
    graph = make_random_mrf(20, n_cliques=60, order=(1, 3), random_state=0)
    assert {len(c) for c in graph.cliques} == {1, 2, 3}
    everything = make_random_mrf(4, n_cliques=14, order=(1, 3), random_state=0)
    assert len(set(everything.cliques)) == 14  # 4 + 6 + 4: all there are


def test_random_mrf_repeats():
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
def test_random_mrf_zeros_leave_a_state(fraction, seed):
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


def test_random_mrf_fraction_of_zeros():
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


def test_random_mrf_refuses_tables_before_memory():
    with pytest.raises(ValueError, match="more than the limit"):
        make_random_mrf(40, n_states=1000, n_cliques=1, order=12, random_state=0)


# make_multimodal_mrf ----------------------------------------------------------------------


def check_uniform(values, low, high):
    """Independent integers are uniform over ``low .. high``, both included."""
    states = np.arange(low, high + 1)[:, None]
    check_draws(np.reshape(values, (-1, 1)), states, np.full(len(states), 1 / len(states)))


def potentials_of(graphs):
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
def test_multimodal_law(n, min_size, seed):
    graphs = [
        make_multimodal_mrf(n, min_size=min_size, random_state=s)
        for s in np.random.default_rng(seed).integers(2**31, size=400)
    ]
    check_uniform([len(g.cliques) for g in graphs], n, 2 * n)
    cliques = [clique for g in graphs for clique in g.cliques]
    check_uniform([len(clique) for clique in cliques], min_size, min(6, n))
    pairs = [clique for clique in cliques if len(clique) == 2]
    check_uniform([i * n + j - (i + 1) * (i + 2) // 2 for i, j in pairs], 0, n * (n - 1) // 2 - 1)
    v = potentials_of(graphs)
    check_uniform((v > 1.0).astype(int), 0, 1)
    large = trapezoid(1 / 991, 990 / 991, loc=10.0, scale=991.0)  # U(0, 1) + U(10, 1000)
    assert kstest(v[v <= 1.0], uniform(0, 1).cdf).pvalue > TAIL
    assert kstest(v[v > 1.0], large.cdf).pvalue > TAIL
    assert kstest(v[v > 1.0], uniform(100, 900).cdf).pvalue < TAIL
    assert v[v > 1.0].min() > 10.0


def test_multimodal_is_nearly_deterministic():
    """What the docstring says of random_state = 0 .. 199."""
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
    tables = np.sort(potentials_of([graph]).reshape(-1, 8))
    assert (tables[:, 0] >= 0.1).all()
    assert (tables[:, 0] < 1.0).all()
    assert (tables[:, 1] >= 10.0).all()
    assert (tables[:, -1] < 1000.0).all()


def test_3sat_law(seed):
    graph = make_weighted_3sat(5, n_clauses=4000, random_state=seed)
    sets = {c: k for k, c in enumerate(sorted(set(graph.cliques)))}
    assert len(sets) == 10
    check_uniform([sets[c] for c in graph.cliques], 0, 9)
    tables = potentials_of([graph]).reshape(-1, 8)
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
def test_benchmark_mrfs_repeat(make, seed):
    first, again, other = (make(12, random_state=s) for s in (seed, seed, seed + 1))
    assert first.cliques == again.cliques
    np.testing.assert_array_equal(first.flat, again.flat)
    state = np.random.RandomState(seed)
    np.testing.assert_array_equal(make(12, random_state=state).flat, first.flat)
    assert make(12, random_state=state).cliques != first.cliques
    assert other.cliques != first.cliques
    assert make(12).cliques != make(12).cliques
