"""Mean field against its definition, exact log Z and published results."""

import gzip
import json
import sys

import numpy as np
import pytest
import twins
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from zoo import WITH_ZEROS, ZOO, enumerate_states, random_tables, small_graphs

from skmrf import variational
from skmrf.energies import FactorGraph
from skmrf.io import read_uai

every = pytest.mark.parametrize("name", ZOO)
XOR = [[-np.inf, 0.0], [0.0, -np.inf]]


def split(graph, single):
    return np.split(single, np.cumsum(graph.n_states))[:-1]


def uniform(graph):
    return [np.full(q, 1 / q) for q in graph.n_states]


def random_start(graph, rng):
    return np.concatenate([rng.dirichlet(np.ones(q)) for q in graph.n_states])


def exact_log_z(graph):
    return twins.log_sum(enumerate_states(graph)[1])


def check_distributions(graph, found):
    assert not np.isnan(found.lower_bound)
    for p in split(graph, found.single):
        assert p.min() >= 0
        assert_allclose(p.sum(), 1, rtol=0, atol=1e-14)


# Against the definition --------------------------------------------------------------------


@every
def test_sweeps_against_the_definition(name, seed):
    """Every sweep from the uniform product, and the residual."""
    graph = ZOO[name](seed).factor_graph()
    singles = uniform(graph)
    for n_sweeps in range(1, 5):
        before = np.concatenate(singles)
        twins.mean_field_sweep(graph, singles)
        found = variational.mean_field(graph, max_iter=n_sweeps, tol=0.0)
        assert_allclose(found.single, np.concatenate(singles), rtol=0, atol=1e-10)
        if found.n_iter == n_sweeps:
            change = np.abs(np.concatenate(singles) - before).max()
            assert_allclose(found.residual, change, rtol=0, atol=1e-10)
        check_distributions(graph, found)


@every
def test_bound_against_the_definition(name, seed):
    graph = ZOO[name](seed).factor_graph()
    found = variational.mean_field(graph, max_iter=2)
    zero, bound = twins.product_bound(graph, split(graph, found.single))
    assert_allclose(found.lower_bound, -np.inf if zero > 0 else bound, rtol=1e-12, atol=1e-11)


@every
def test_bound_is_below_log_z_and_never_falls(name, seed):
    """From the uniform product and from random ones; zero mass never grows either."""
    graph = ZOO[name](seed).factor_graph()
    log_z = exact_log_z(graph)
    slack = 1e-11 * (1 + abs(log_z))
    rng = np.random.default_rng(seed)
    for start in (None, random_start(graph, rng), random_start(graph, rng)):
        last, least = -np.inf, np.inf
        for n_sweeps in (1, 2, 3, 4, 5, 10, 1000):
            found = variational.mean_field(graph, start=start, max_iter=n_sweeps)
            zero, _ = twins.product_bound(graph, split(graph, found.single))
            assert zero <= least * (1 + 1e-9)
            assert last - slack <= found.lower_bound <= log_z + slack
            last, least = found.lower_bound, zero


@every
def test_it_ends_at_a_fixed_point(name, seed):
    graph = ZOO[name](seed).factor_graph()
    found = variational.mean_field(graph, max_iter=10_000)
    assert found.converged
    assert found.residual <= 1e-9
    singles = split(graph, found.single)
    twins.mean_field_sweep(graph, singles)
    assert_allclose(found.single, np.concatenate(singles), rtol=0, atol=2e-9)
    again = variational.mean_field(graph, start=found.single)
    assert again.n_iter <= 2
    assert_allclose(again.lower_bound, found.lower_bound, rtol=1e-12, atol=1e-11)


def test_independent_variables_are_exact(seed):
    n_states = [2, 1, 5, 3]
    cliques = [(0,), (2,), (3,), (1,), (), (2,)]
    rng = np.random.default_rng(seed)
    tables = random_tables(n_states, cliques, rng, 3.0)
    tables[5][2] = -np.inf
    graph = FactorGraph(n_states, cliques, tables)
    found = variational.mean_field(graph)
    assert (found.n_iter, found.residual, found.converged) == (2, 0.0, True)
    assert_allclose(found.lower_bound, exact_log_z(graph), rtol=1e-13)
    marginals = twins.single_marginals(*twins.distribution(graph), n_states)
    assert_allclose(found.single, np.concatenate(marginals), rtol=0, atol=1e-14)


@pytest.mark.parametrize("n_states", [[], [1], [1, 1]])
def test_nothing_to_update(n_states):
    graph = FactorGraph(n_states, [()], [2.5])
    found = variational.mean_field(graph)
    assert_array_equal(found.single, np.ones(len(n_states)))
    assert found[1:] == (2.5, 1, 0.0, True)
    assert_array_equal(variational.clique_moments(graph, found.single), [1.0])


# Zero potentials and huge ones -------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_ZEROS)
def test_zero_potentials_are_the_limit_of_a_penalty(name, seed):
    graph = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    for start in (None, random_start(graph, rng)):
        found = variational.mean_field(graph, start=start, max_iter=3)
        near = graph.with_theta({"log_potentials": np.maximum(graph.flat, -1e9)})
        penalised = variational.mean_field(near, start=start, max_iter=3)
        assert_allclose(found.single, penalised.single, rtol=0, atol=1e-5)


def test_no_product_may_fit():
    """All updates of a symmetric constraint leave half of the mass on zero potentials."""
    graph = FactorGraph([2, 2], [(0, 1)], [XOR])
    found = variational.mean_field(graph)
    assert_array_equal(found.single, 0.5)
    assert found.lower_bound == -np.inf
    assert found.converged
    broken = variational.mean_field(graph, start=np.array([0.5, 0.5, 0.6, 0.4]))
    assert_array_equal(broken.single, [0, 1, 1, 0])
    assert broken.lower_bound == 0.0


def test_a_tiny_mass_on_a_zero_potential_counts():
    """A state that is allowed but for 2e-13 of its neighbour's mass is given up."""
    tables = [[0.0, -29.0], [[0.0, 0.0], [0.0, -np.inf]], [0.0, 5.0]]
    graph = FactorGraph([2, 2], [(0,), (0, 1), (1,)], tables)
    found = variational.mean_field(graph, start=np.array([0.5, 0.5, 1.0, 0.0]))
    assert_array_equal(found.single[2:], [1, 0])
    assert_allclose(found.lower_bound, np.log1p(np.exp(-29.0)), atol=1e-15)


@pytest.mark.parametrize("size", [1e3, 1e100, 1e300])
def test_huge_log_potentials(size, seed):
    rng = np.random.default_rng(seed)
    cliques = [(0, 1), (1, 2), (2, 0), (0,)]
    graph = FactorGraph([2, 3, 2], cliques, random_tables([2, 3, 2], cliques, rng, size))
    found = variational.mean_field(graph)
    check_distributions(graph, found)
    assert found.lower_bound <= exact_log_z(graph) * (1 + 1e-12)


@given(small_graphs(), st.integers(0, 2**32))
def test_any_graph(graph, seed):
    """A bound on log Z, no nan, whatever the start."""
    log_z = exact_log_z(graph)
    for start in (None, random_start(graph, np.random.default_rng(seed))):
        found = variational.mean_field(graph, start=start, max_iter=50)
        check_distributions(graph, found)
        assert found.lower_bound <= log_z + 1e-10 * (1 + abs(log_z))


# Moments -----------------------------------------------------------------------------------


@every
def test_moments_of_a_product(name, seed):
    graph = ZOO[name](seed).factor_graph()
    single = random_start(graph, np.random.default_rng(seed))
    singles = split(graph, single)
    states, _ = enumerate_states(graph)
    p = np.array([np.prod([singles[i][s] for i, s in enumerate(x)]) for x in states])
    expected = twins.moments(graph, states, p)["log_potentials"]
    assert_allclose(variational.clique_moments(graph, single), expected, rtol=0, atol=1e-13)
    untied = graph.layout.untied()
    apart = variational.clique_moments(graph, single, untied)
    tables = twins.clique_marginals(states, p, graph)
    for found, table in zip(untied.split(apart), tables, strict=True):
        assert_allclose(found, table, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["orders", "tied", "cycle"])
def test_bound_and_its_gradient(name, seed):
    """Moments are the derivative of the bound by the log-potentials, at the fixed point."""
    graph = ZOO[name](seed).factor_graph()
    found = variational.mean_field(graph, tol=1e-12, max_iter=10_000)
    moments = variational.clique_moments(graph, found.single)
    direction = np.random.default_rng(seed).normal(size=len(moments))
    bounds = [
        variational.mean_field(
            graph.with_theta({"log_potentials": graph.flat + h * direction}),
            start=found.single,
            tol=1e-12,
            max_iter=10_000,
        ).lower_bound
        for h in (1e-4, -1e-4)
    ]
    assert_allclose((bounds[0] - bounds[1]) / 2e-4, moments @ direction, rtol=0, atol=1e-5)


# Calls -------------------------------------------------------------------------------------


@every
def test_sweeps_in_pieces(name, seed, monkeypatch):
    """Runs of variables and calls of one sweep change nothing."""
    graph = ZOO[name](seed).factor_graph()
    whole = variational.mean_field(graph, max_iter=20)
    for entries in (1, 30, 200):
        monkeypatch.setattr(sys.modules["skmrf.variational.mean_field"], "ENTRIES_A_CALL", entries)
        pieces = variational.mean_field(graph, max_iter=20)
        assert_array_equal(pieces.single, whole.single)
        assert pieces[1:] == whole[1:]


def test_tol_and_max_iter_stop(seed):
    graph = ZOO["complete"](seed)
    short = variational.mean_field(graph, max_iter=2)
    assert (short.n_iter, short.converged) == (2, False)
    loose = variational.mean_field(graph, tol=0.01)
    assert loose.converged
    assert loose.residual <= 0.01
    assert loose.n_iter < variational.mean_field(graph).n_iter


def test_a_start_is_left_alone(seed):
    graph = ZOO["orders"](seed)
    start = random_start(graph, np.random.default_rng(seed))
    start.flags.writeable = False
    kept = start.copy()
    variational.mean_field(graph, start=start)
    variational.clique_moments(graph, start)
    assert_array_equal(start, kept)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": np.full(3, 0.5)}, r"start must have shape \(5,\), .*; got \(3,\)\."),
        (
            {"start": np.array([0.5, 0.5, 0.4, 0.4, 0.4])},
            r"start gives variable 1 \[0\.4 0\.4 0\.4\], which is no distribution; give",
        ),
        ({"start": np.array([1.5, -0.5, 1.0, 0.0, 0.0])}, "start gives variable 0 "),
        ({"start": np.array([1.0, 0.0, np.nan, 0.0, 0.0])}, "start gives variable 1 "),
        ({"max_iter": 0}, "max_iter must be an integer >= 1; got 0"),
        ({"tol": -1.0}, r"tol must be a number >= 0\.0; got -1\.0"),
    ],
)
def test_bad_input(options, message):
    graph = FactorGraph([2, 3], [(0, 1)], [np.zeros((2, 3))])
    with pytest.raises(ValueError, match=message):
        variational.mean_field(graph, **options)


# Published results -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["MF", "MF_NAIVE_UNI"])
def test_libdai(method, data_folder):
    """Marginals to the four digits that were printed, and the error of log Z."""
    folder = data_folder("libdai")
    reference = json.loads(gzip.decompress((folder / "testfast_reference.json.gz").read_bytes()))
    expected = reference["methods"][method]
    found = variational.mean_field(read_uai(folder / "testfast.uai.gz"))
    marginals = np.concatenate([expected["marginals"][str(i)] for i in range(16)])
    assert_allclose(found.single, marginals, rtol=0, atol=5e-5 + 1e-9)
    error = float(expected["errors"][reference["columns"].index("LOGZ ERROR")])
    assert_allclose(found.lower_bound - 14.328233281091581, error, rtol=0, atol=5e-4)
