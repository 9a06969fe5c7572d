"""Tests of variational bounds of log Z, and of the classes of mixtures of tables."""

import gzip
import json
import sys
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
import twins
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from potentials import layers, log_marginals
from scipy.optimize import minimize
from zoo import WITH_ZEROS, ZOO, enumerate_states, random_tables, small_graphs

from skmrf._utils.codes import MISSING, STATE
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph
from skmrf.energies.layout import Layout
from skmrf.exact import elimination
from skmrf.io import read_uai
from skmrf.variational import bipartite, mean_field
from skmrf.variational.belief_propagation import Propagation
from skmrf.variational.expectation_maximization import (
    ClusterTree,
    MixtureRows,
    Prior,
    fit_from_clusters,
    fit_mixture,
    start_mixture,
)
from skmrf.variational.mixture_selection import learn_mixture
from skmrf.variational.tree_reweighting import spanning_forests, tree_reweighted

each_model = pytest.mark.parametrize("name", ZOO)
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


# Comparison with the definition ------------------------------------------------------------


@each_model
def test_sweeps_against_the_definition(name, seed):
    """Check each sweep from the uniform product, and the residual."""
    graph = ZOO[name](seed).factor_graph()
    singles = uniform(graph)
    for n_sweeps in range(1, 5):
        before = np.concatenate(singles)
        twins.mean_field_sweep(graph, singles)
        found = mean_field.mean_field(graph, max_iter=n_sweeps, tol=0.0)
        assert_allclose(found.single, np.concatenate(singles), rtol=0, atol=1e-10)
        if found.n_iter == n_sweeps:
            change = np.abs(np.concatenate(singles) - before).max()
            assert_allclose(found.residual, change, rtol=0, atol=1e-10)
        check_distributions(graph, found)


@each_model
def test_bound_against_the_definition(name, seed):
    graph = ZOO[name](seed).factor_graph()
    found = mean_field.mean_field(graph, max_iter=2)
    zero, bound = twins.product_bound(graph, split(graph, found.single))
    assert_allclose(found.lower_bound, -np.inf if zero > 0 else bound, rtol=1e-12, atol=1e-11)


@each_model
@pytest.mark.long
def test_bound_is_below_log_z_and_never_decreases(name, seed):
    """Start from the uniform product and from a random one; mass on zero potentials never grows."""
    graph = ZOO[name](seed).factor_graph()
    log_z = exact_log_z(graph)
    slack = 1e-11 * (1 + abs(log_z))
    rng = np.random.default_rng(seed)
    for start in (None, random_start(graph, rng)):
        last, least = -np.inf, np.inf
        for n_sweeps in (1, 2, 3, 4, 5, 10, 1000):
            found = mean_field.mean_field(graph, start=start, max_iter=n_sweeps)
            zero, _ = twins.product_bound(graph, split(graph, found.single))
            assert zero <= least * (1 + 1e-9)
            assert last - slack <= found.lower_bound <= log_z + slack
            last, least = found.lower_bound, zero


@each_model
def test_mean_field_ends_at_a_fixed_point(name, seed):
    graph = ZOO[name](seed).factor_graph()
    found = mean_field.mean_field(graph, max_iter=10_000)
    assert found.converged
    assert found.residual <= 1e-9
    singles = split(graph, found.single)
    twins.mean_field_sweep(graph, singles)
    assert_allclose(found.single, np.concatenate(singles), rtol=0, atol=2e-9)
    again = mean_field.mean_field(graph, start=found.single)
    assert again.n_iter <= 2
    assert_allclose(again.lower_bound, found.lower_bound, rtol=1e-12, atol=1e-11)


def test_independent_variables_are_exact(seed):
    n_states = [2, 1, 5, 3]
    cliques = [(0,), (2,), (3,), (1,), (), (2,)]
    rng = np.random.default_rng(seed)
    tables = random_tables(n_states, cliques, rng, 3.0)
    tables[5][2] = -np.inf
    graph = FactorGraph(n_states, cliques, tables)
    found = mean_field.mean_field(graph)
    assert (found.n_iter, found.residual, found.converged) == (2, 0.0, True)
    assert_allclose(found.lower_bound, exact_log_z(graph), rtol=1e-13)
    marginals = twins.single_marginals(*twins.distribution(graph), n_states)
    assert_allclose(found.single, np.concatenate(marginals), rtol=0, atol=1e-14)


@pytest.mark.parametrize("n_states", [[], [1], [1, 1]])
def test_models_with_nothing_to_update(n_states):
    graph = FactorGraph(n_states, [()], [2.5])
    found = mean_field.mean_field(graph)
    assert_array_equal(found.single, np.ones(len(n_states)))
    assert found[1:] == (2.5, 1, 0.0, True)
    assert_array_equal(mean_field.clique_moments(graph, found.single), [1.0])


# Zero and huge potentials ------------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_ZEROS)
def test_zero_potentials_are_the_limit_of_a_penalty(name, seed):
    graph = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    for start in (None, random_start(graph, rng)):
        found = mean_field.mean_field(graph, start=start, max_iter=3)
        near = graph.with_theta({"log_potentials": np.maximum(graph.flat, -1e9)})
        penalised = mean_field.mean_field(near, start=start, max_iter=3)
        assert_allclose(found.single, penalised.single, rtol=0, atol=1e-5)


def test_constraint_that_no_product_satisfies():
    """All updates of a symmetric constraint leave half of the mass on zero potentials."""
    graph = FactorGraph([2, 2], [(0, 1)], [XOR])
    found = mean_field.mean_field(graph)
    assert_array_equal(found.single, 0.5)
    assert found.lower_bound == -np.inf
    assert found.converged
    broken = mean_field.mean_field(graph, start=np.array([0.5, 0.5, 0.6, 0.4]))
    assert_array_equal(broken.single, [0, 1, 1, 0])
    assert broken.lower_bound == 0.0


def test_tiny_probability_of_a_zero_potential_counts():
    """A state gets probability zero if it meets a zero potential with probability 2e-13."""
    tables = [[0.0, -29.0], [[0.0, 0.0], [0.0, -np.inf]], [0.0, 5.0]]
    graph = FactorGraph([2, 2], [(0,), (0, 1), (1,)], tables)
    found = mean_field.mean_field(graph, start=np.array([0.5, 0.5, 1.0, 0.0]))
    assert_array_equal(found.single[2:], [1, 0])
    assert_allclose(found.lower_bound, np.log1p(np.exp(-29.0)), atol=1e-15)


@pytest.mark.parametrize("size", [1e3, 1e100, 1e300])
def test_huge_log_potentials(size, seed):
    rng = np.random.default_rng(seed)
    cliques = [(0, 1), (1, 2), (2, 0), (0,)]
    graph = FactorGraph([2, 3, 2], cliques, random_tables([2, 3, 2], cliques, rng, size))
    found = mean_field.mean_field(graph)
    check_distributions(graph, found)
    assert found.lower_bound <= exact_log_z(graph) * (1 + 1e-12)


@given(small_graphs(), st.integers(0, 2**32))
def test_mean_field_of_any_graph(graph, seed):
    """The bound is below log Z and no value is nan, for any start."""
    log_z = exact_log_z(graph)
    for start in (None, random_start(graph, np.random.default_rng(seed))):
        found = mean_field.mean_field(graph, start=start, max_iter=50)
        check_distributions(graph, found)
        assert found.lower_bound <= log_z + 1e-10 * (1 + abs(log_z))


# Moments -----------------------------------------------------------------------------------


@each_model
def test_clique_moments_of_a_product(name, seed):
    graph = ZOO[name](seed).factor_graph()
    single = random_start(graph, np.random.default_rng(seed))
    singles = split(graph, single)
    states, _ = enumerate_states(graph)
    p = np.array([np.prod([singles[i][s] for i, s in enumerate(x)]) for x in states])
    expected = twins.moments(graph, states, p)["log_potentials"]
    assert_allclose(mean_field.clique_moments(graph, single), expected, rtol=0, atol=1e-13)
    untied = graph.layout.untied()
    apart = mean_field.clique_moments(graph, single, untied)
    tables = twins.clique_marginals(states, p, graph)
    for found, table in zip(untied.split(apart), tables, strict=True):
        assert_allclose(found, table, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["orders", "tied", "cycle"])
def test_clique_moments_are_the_gradient_of_the_bound(name, seed):
    """At the fixed point the moments are the derivative of the bound by the log-potentials."""
    graph = ZOO[name](seed).factor_graph()
    found = mean_field.mean_field(graph, tol=1e-12, max_iter=10_000)
    moments = mean_field.clique_moments(graph, found.single)
    direction = np.random.default_rng(seed).normal(size=len(moments))
    bounds = [
        mean_field.mean_field(
            graph.with_theta({"log_potentials": graph.flat + h * direction}),
            start=found.single,
            tol=1e-12,
            max_iter=10_000,
        ).lower_bound
        for h in (1e-4, -1e-4)
    ]
    assert_allclose((bounds[0] - bounds[1]) / 2e-4, moments @ direction, rtol=0, atol=1e-5)


# Arguments and kernel calls ----------------------------------------------------------------


@each_model
def test_short_kernel_calls_do_not_change_results(name, seed, monkeypatch):
    """Ranges of variables and kernel calls of one sweep give the same results."""
    graph = ZOO[name](seed).factor_graph()
    whole = mean_field.mean_field(graph, max_iter=20)
    for entries in (1, 30, 200):
        monkeypatch.setattr(
            sys.modules["skmrf.variational.mean_field"], "ENTRIES_PER_CALL", entries
        )
        pieces = mean_field.mean_field(graph, max_iter=20)
        assert_array_equal(pieces.single, whole.single)
        assert pieces[1:] == whole[1:]


def test_tol_and_max_iter_stop(seed):
    graph = ZOO["complete"](seed)
    short = mean_field.mean_field(graph, max_iter=2)
    assert (short.n_iter, short.converged) == (2, False)
    loose = mean_field.mean_field(graph, tol=0.01)
    assert loose.converged
    assert loose.residual <= 0.01
    assert loose.n_iter < mean_field.mean_field(graph).n_iter


def test_start_is_not_modified(seed):
    graph = ZOO["orders"](seed)
    start = random_start(graph, np.random.default_rng(seed))
    start.flags.writeable = False
    kept = start.copy()
    mean_field.mean_field(graph, start=start)
    mean_field.clique_moments(graph, start)
    assert_array_equal(start, kept)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": np.full(3, 0.5)}, r"start must contain .* shape \(5,\); got \(3,\)\."),
        (
            {"start": np.array([0.5, 0.5, 0.4, 0.4, 0.4])},
            r"belongs to variable 1, is \[0\.4 0\.4 0\.4\]\. It must be a distribution",
        ),
        ({"start": np.array([1.5, -0.5, 1.0, 0.0, 0.0])}, "belongs to variable 0, is "),
        ({"start": np.array([1.0, 0.0, np.nan, 0.0, 0.0])}, "belongs to variable 1, is "),
        ({"max_iter": 0}, "max_iter must be an integer >= 1; got 0"),
        ({"tol": -1.0}, r"tol must be a number >= 0\.0; got -1\.0"),
    ],
)
def test_invalid_input_raises(options, message):
    graph = FactorGraph([2, 3], [(0, 1)], [np.zeros((2, 3))])
    with pytest.raises(ValueError, match=message):
        mean_field.mean_field(graph, **options)


# Published results -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["MF", "MF_NAIVE_UNI"])
def test_libdai(method, data_folder):
    """Compare with marginals printed with four digits, and with the error of log Z."""
    folder = data_folder("libdai")
    reference = json.loads(gzip.decompress((folder / "testfast_reference.json.gz").read_bytes()))
    expected = reference["methods"][method]
    found = mean_field.mean_field(read_uai(folder / "testfast.uai.gz"))
    marginals = np.concatenate([expected["marginals"][str(i)] for i in range(16)])
    assert_allclose(found.single, marginals, rtol=0, atol=5e-5 + 1e-9)
    error = float(expected["errors"][reference["columns"].index("LOGZ ERROR")])
    assert_allclose(found.lower_bound - 14.328233281091581, error, rtol=0, atol=5e-4)


# Tree reweighting --------------------------------------------------------------------------------


TREES = ("chain", "zeros_binary", "tied_binary", "one_state", "disconnected", "isolated")
TREES += ("uniform", "single_variable")


def clique_variable_graph(layout, members):
    """Return the bipartite graph of cliques (negative numbers) and variables."""
    graph = nx.Graph()
    graph.add_nodes_from(range(len(layout.n_states)))
    for a in members:
        graph.add_node(-1 - a)
        graph.add_edges_from((-1 - a, i) for i in layout.cliques[a])
    return graph


def mean_over_forests(graph, forests, log_messages):
    """Return the bound for messages {(clique, variable): array}, by enumeration of all forests."""
    rho = forests.mean(axis=0)
    states, _ = enumerate_states(graph)
    values = []
    for forest in forests:
        log_f = np.zeros(len(states))
        for (a, i), table in log_messages.items():
            log_f += (rho[a] - forest[a]) * table[states[:, i]]
        for a in np.flatnonzero(forest):
            log_f += graph.log_potentials[a][tuple(states[:, list(graph.cliques[a])].T)] / rho[a]
        values.append(twins.log_sum(log_f))
    return np.mean(values)


# Forests -----------------------------------------------------------------------------------


@each_model
def test_spanning_forests(name, seed):
    """The forests have no cycles, are maximal, and together contain all cliques."""
    layout = ZOO[name](seed).factor_graph().layout
    forests = spanning_forests(layout)
    assert forests.any(axis=0).all()
    assert forests[:, layout.orders <= 1].all()
    for forest in forests:
        chosen = np.flatnonzero(forest).tolist()
        assert nx.is_forest(clique_variable_graph(layout, chosen))
        for a in np.flatnonzero(~forest).tolist():
            assert not nx.is_forest(clique_variable_graph(layout, [*chosen, a]))


def test_clique_probabilities_are_balanced():
    for n in (3, 4, 7, 10):
        forests = spanning_forests(Layout.build([2] * n, list(combinations(range(n), 2))))
        assert_allclose(forests.mean(axis=0), 2 / n, rtol=0.15)
    assert_array_equal(spanning_forests(Layout.build([2] * 3, [(0, 1), (1, 2), (2, 0)])).sum(0), 12)


# Bounds ------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["sequential", "flooding", "residual"])
@each_model
def test_bound_holds_for_any_messages(name, schedule, seed):
    graph = ZOO[name](seed).factor_graph()
    log_z = exact_log_z(graph)
    for max_iter in (1, 2, 3, 500):
        found = tree_reweighted(graph, Propagation(schedule=schedule, max_iter=max_iter))
        assert found.upper_bound >= log_z - 1e-12 * (1 + abs(log_z))
        assert found.upper_bound < np.inf
        if found.beliefs.converged:
            value = found.beliefs.log_partition
            assert_allclose(found.upper_bound, value, rtol=0, atol=1e-6)


@pytest.mark.parametrize("max_iter", [1, 500])
@pytest.mark.parametrize("name", TREES)
def test_exact_on_trees(name, max_iter, seed):
    graph = ZOO[name](seed)
    found = tree_reweighted(graph, Propagation(max_iter=max_iter))
    assert found.n_forests == 1
    assert_allclose(found.upper_bound, exact_log_z(graph), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["cycle", "complete", "orders", "zeros", "tied", "grid"])
def test_bound_equals_the_mean_over_forests(name, seed):
    graph = ZOO[name](seed).factor_graph()
    forests = spanning_forests(graph.layout)
    for n_iter in (1, 4):
        found = tree_reweighted(graph, Propagation("flooding", 0.0, n_iter, 0.0))
        log_messages = twins.flooding(graph, n_iter, counting=forests.mean(axis=0))
        log_messages = {key: np.maximum(table, -1e3) for key, table in log_messages.items()}
        expected = mean_over_forests(graph, forests, log_messages)
        assert found.n_forests == len(forests)
        assert_allclose(found.upper_bound, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["cycle", "complete", "constant_variables"])
def test_fixed_point_gives_the_best_bound(name, seed):
    graph = ZOO[name](seed).factor_graph()
    forests = spanning_forests(graph.layout)
    found = tree_reweighted(graph, Propagation(max_iter=5000))
    assert found.beliefs.converged
    keys = [(a, i) for a, c in enumerate(graph.cliques) for i in c]
    sizes = [graph.n_states[i] for _, i in keys]
    rng = np.random.default_rng(seed)
    for scale in (0.0, 0.1, 1.0):
        log_messages = {k: scale * rng.normal(size=q) for k, q in zip(keys, sizes, strict=True)}
        assert found.upper_bound <= mean_over_forests(graph, forests, log_messages) + 1e-9


def test_triangle_against_the_dual_problem(seed):
    """Minimise the bound over all messages numerically; every clique has probability 2/3."""
    cliques = [(0, 1), (1, 2), (2, 0), (0,), (1,), (2,)]
    rng = np.random.default_rng(seed)
    graph = FactorGraph([2] * 3, cliques, random_tables([2] * 3, cliques, rng))
    forests = ~np.eye(3, 6, dtype=bool)
    keys = [(a, i) for a in range(3) for i in cliques[a]]

    def bound(values):
        log_messages = {key: np.array([0.0, v]) for key, v in zip(keys, values, strict=True)}
        return mean_over_forests(graph, forests, log_messages)

    least = minimize(bound, np.zeros(6), options={"gtol": 1e-7}).fun
    assert_allclose(tree_reweighted(graph).upper_bound, least, rtol=0, atol=1e-7)


@pytest.mark.parametrize("coupling", [-1.0, 0.5, 1.0, 3.0])
def test_symmetric_triangle(coupling):
    """The bound is log 2 + max over p of 3 p c + 2 h(p); neighbours agree with probability p."""
    graph = FactorGraph([2] * 3, [(0, 1), (1, 2), (2, 0)], [coupling * np.eye(2)] * 3)
    expected = np.log(2) + 2 * np.log1p(np.exp(1.5 * coupling))
    assert_allclose(tree_reweighted(graph).upper_bound, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("coupling", [0.3, 1.0])
def test_bound_on_ising_grids(coupling, seed):
    """The bound is at most half as far from log Z as the bound by the largest table entries."""
    graph = make_ising(
        "grid", n_variables=64, coupling=coupling, field=0.1, mixed_signs=True, random_state=seed
    ).factor_graph()
    log_z = elimination.log_partitions(elimination.prepare(graph.layout), graph.flat)[0]
    found = tree_reweighted(graph)
    tops = sum(table.max() for table in graph.log_potentials)
    trivial = tops + np.log(graph.n_states).sum()
    assert 0 <= found.upper_bound - log_z <= 0.5 * (trivial - log_z)


@given(small_graphs(), st.integers(1, 30))
def test_tree_reweighting_of_any_graph(graph, max_iter):
    log_z = exact_log_z(graph)
    found = tree_reweighted(graph, Propagation(max_iter=max_iter))
    assert log_z - 1e-12 * (1 + abs(log_z)) <= found.upper_bound < np.inf


# Evidence ----------------------------------------------------------------------------------


@each_model
def test_tree_reweighting_with_evidence(name, seed):
    graph = ZOO[name](seed).factor_graph()
    rng = np.random.default_rng(seed)
    states, log_f = enumerate_states(graph)
    row = states[rng.choice(np.flatnonzero(log_f > -np.inf))].copy()
    row[rng.random(len(row)) < 0.6] = MISSING
    found = tree_reweighted(graph, evidence=row)
    log_z = twins.log_sum(log_f[((row == MISSING) | (states == row)).all(axis=1)])
    assert found.upper_bound >= log_z - 1e-12 * (1 + abs(log_z))
    seen = {int(i): int(row[i]) for i in np.flatnonzero(row != MISSING)}
    smaller = tree_reweighted(graph.condition(seen))
    if found.beliefs.converged and smaller.beliefs.converged:
        assert_allclose(found.upper_bound, smaller.upper_bound, rtol=0, atol=1e-6)
    singles = np.split(found.beliefs.single, np.cumsum(graph.n_states))
    for i, s in seen.items():
        assert_array_equal(singles[i], np.arange(graph.n_states[i]) == s)


@pytest.mark.parametrize("evidence", [[0, 0, MISSING], [0, 1, 1], [MISSING, 0, MISSING]])
def test_contradictory_evidence(evidence):
    graph = FactorGraph([2] * 3, [(0, 1), (1, 2), (0, 2)], [XOR] * 3)
    row = np.array(evidence, dtype=STATE)
    assert tree_reweighted(graph, evidence=row).upper_bound == -np.inf


def layer_bound(weights, visible, hidden, p, q):
    """Return the mean-field lower bound of log Z."""
    entropy = sum(-(r * np.log(r) + (1 - r) * np.log1p(-r)).sum() for r in (p, q))
    return p @ weights @ q + p @ visible + q @ hidden + entropy


def test_mean_field_bound_of_layers_increases(seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        weights, visible, hidden = layers(rng, 5, 4, scale=1.5)
        _, scores = log_marginals(weights, visible[0], hidden[0])
        values = []
        for n_iter in range(1, 12):
            found = bipartite.mean_field(weights, visible, hidden, max_iter=n_iter, tol=-1.0)
            p, q = (bipartite.unit_probabilities(a)[0] for a in (found.visible, found.hidden))
            values.append(layer_bound(weights, visible[0], hidden[0], p, q))
        assert (np.diff(values) >= -1e-10).all()
        assert values[-1] < twins.log_sum(scores)


def table_rows(X, n_states, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    return MixtureRows(X.astype(float), np.array(n_states), weights, np.zeros(0))


def sums_of_dice(rng, n):
    """Return rows of two dice with five and three sides, their sum and three coins."""
    X = np.column_stack(
        [rng.integers([5, 3], size=(n, 2)), np.zeros(n), rng.integers(2, size=(n, 3))]
    )
    X[:, 2] = X[:, 0] + X[:, 1]
    return X, [5, 3, 7, 2, 2, 2]


def test_number_of_classes_of_tables_with_functions_of_columns(seed):
    """The sum needs a class for each combination. Clusters of few classes depend on the coins."""
    rng = np.random.default_rng(seed)
    (train, n_states), (new, _) = sums_of_dice(rng, 1500), sums_of_dice(rng, 1500)
    rows = table_rows(train, n_states)
    for run in range(8):
        mixture, *_ = learn_mixture(rows, "auto", np.random.default_rng([seed, run]))
        assert mixture.log_density(new).mean() > -np.log(15 * 8) - 0.1


def test_classes_of_a_tree_are_better_than_clusters(seed):
    rng, prior = np.random.default_rng(seed), Prior(2.0, 0.0)
    rows = table_rows(*sums_of_dice(rng, 600)).merge()
    for k in (3, 6, 10, 15):
        args = [np.random.default_rng(run) for run in range(5)]
        clusters = [fit_mixture(rows, start_mixture(rows, k, prior, r), prior, 20) for r in args]
        found = [fit_from_clusters(rows, k, prior, r, 20, 1e-4)[1][-1] for r in args]
        assert min(found) > np.mean([scores[-1] for _, scores in clusters]) - 0.01


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_tree_merges_the_clusters_that_lose_least(missing, seed):
    """Each union is the best of all unions by the log-likelihood, computed from its rows."""
    rng, q = np.random.default_rng(seed), [2, 3, 4]
    X = np.stack([rng.integers(n, size=12) for n in q], axis=1).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    rows = table_rows(X, q, rng.uniform(0.5, 2.0, size=12))
    tree, labels = ClusterTree(rows, rng), np.arange(12)
    shares = [rows.weights @ part + 0.5 for part in rows.one_hot()]

    def score(members):
        w, total = rows.weights[members], 0.0
        for part, share in zip(rows.one_hot(), shares, strict=True):
            counts = w @ part[members]
            total += counts @ np.log((counts + share / share.sum()) / (counts.sum() + 1.0))
        return total + w.sum() * np.log(w.sum())

    for a, b in tree._merges:
        losses = {}
        for i, j in combinations(np.unique(labels), 2):
            parts = np.flatnonzero(labels == i), np.flatnonzero(labels == j)
            losses[i, j] = score(parts[0]) + score(parts[1]) - score(np.concatenate(parts))
        assert losses[min(a, b), max(a, b)] == pytest.approx(min(losses.values()), abs=1e-8)
        labels[labels == b] = a
    for k in (1, 5, 12):
        assert tree.start_mixture(k, Prior(2.0, 0.0)).n_components == k


def test_tree_of_many_rows_has_some_of_them(seed):
    rng = np.random.default_rng(seed)
    rows = table_rows(rng.integers(4, size=(2000, 6)), [4] * 6)
    trees = [ClusterTree(rows, np.random.default_rng(1), is_random=r) for r in (False, False, True)]
    assert len(trees[0].rows.X) < 500
    assert trees[0]._merges == trees[1]._merges != trees[2]._merges
