"""Tests of all energies: definitions, finite differences and symmetries."""

import pickle
from copy import deepcopy
from dataclasses import replace
from math import prod

import numpy as np
import pytest
import twins
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from zoo import (
    FINITE,
    HUGE,
    WITH_ZEROS,
    ZOO,
    enumerate_states,
    naive_log_potential,
    random_tables,
    small_graphs,
)

from skmrf._utils.phases import CliqueMoments, States
from skmrf._utils.rows import Batch, count_rows, drop_incomplete_rows, pair_frequencies
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.energies.dense_tables import find_positions
from skmrf.energies.layout import Layout
from skmrf.energies.table_backed import CHUNK
from skmrf.training.data_moments import summarise_pairs

every = pytest.mark.parametrize("name", ZOO)


def draw_rows(energy, n_rows, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(energy.n_states, size=(n_rows, energy.n_variables)), rng.normal(size=n_rows)


def normalise(log_weights):
    return np.exp(log_weights - np.logaddexp.reduce(log_weights))


def assert_same_theta(left, right, **tolerance):
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].shape == right[name].shape
        assert_allclose(left[name], right[name], err_msg=name, **tolerance)


def without_matrix_products(graph):
    """Return the same graph, forced to compute with tables instead of matrix products."""
    layout = replace(graph.layout)
    layout.__dict__.update(is_binary_pairwise=False, table_work=0.0)
    return FactorGraph.from_layout(layout, graph.flat)


# Log-potentials ---------------------------------------------------------------------------


@every
def test_log_potential(name, seed):
    energy = ZOO[name](seed)
    states, log_f = enumerate_states(energy)
    assert_allclose(energy.log_potential(states), log_f, rtol=1e-13, atol=1e-12)


@every
def test_log_potential_of_zero_potentials(name, seed):
    energy = ZOO[name](seed)
    states, log_f = enumerate_states(energy)
    zero = energy.log_potential(states) == -np.inf
    assert_array_equal(zero, log_f == -np.inf)
    assert zero.any() == (name in WITH_ZEROS)


@pytest.mark.parametrize("name", ["grid", "huge_binary", "tied_binary", "chain"])
def test_couplings_and_tables_agree(name, seed):
    graph = ZOO[name](seed)
    states, _ = enumerate_states(graph)
    table = without_matrix_products(graph)
    assert type(graph.conditionals()).__name__ == "BinaryConditionals"
    assert type(table.conditionals()).__name__ == "TableConditionals"
    assert_allclose(graph.log_potential(states), table.log_potential(states), rtol=0, atol=1e-11)
    X, log_weights = draw_rows(graph, 300, seed)
    both = [e.moments(States(X, None, log_weights)) for e in (graph, table)]
    assert_same_theta(*both, rtol=0, atol=1e-13)
    model = States(states, None, graph.log_potential(states))
    both = [e.gradient(States(X), model) for e in (graph, table)]
    assert_same_theta(*both, rtol=0, atol=1e-12)


def test_sparse_binary_pairs(seed):
    """Check that Gibbs kernels use couplings and sums over rows use tables."""
    n = 40
    rng = np.random.default_rng(seed)
    cliques = [(i,) for i in range(n)] + [(i + 1, i) for i in range(n - 1)]
    graph = FactorGraph([2] * n, cliques, random_tables([2] * n, cliques, rng))
    X, log_weights = draw_rows(graph, 60, seed)
    assert_allclose(graph.log_potential(X), naive_log_potential(graph, X), rtol=1e-13, atol=1e-12)
    expected = twins.moments(graph, X, normalise(log_weights))
    moments = graph.moments(States(X, None, log_weights))
    assert_same_theta(moments, expected, rtol=0, atol=1e-13)
    coupling, bias, constant = graph.conditionals()
    quadratic = constant + X @ bias + 0.5 * np.einsum("ri,ij,rj->r", X, coupling, X)
    assert_allclose(quadratic, graph.log_potential(X), rtol=1e-12, atol=1e-12)


def test_rows_in_several_chunks(seed):
    graph = ZOO["grid"](seed)
    X, log_weights = draw_rows(graph, 2 * CHUNK + 5, seed)
    table = without_matrix_products(graph)
    assert_allclose(graph.log_potential(X), table.log_potential(X), rtol=0, atol=1e-12)
    phase = States(X, None, log_weights)
    assert_same_theta(graph.moments(phase), table.moments(phase), rtol=0, atol=1e-13)


def test_huge_differences_use_tables():
    same = [[0.0, -1e20], [-1e20, 0.0]]
    graph = FactorGraph([2, 2], [(0, 1), (0,)], [same, [0.0, 0.3]])
    assert_array_equal(graph.log_potential([[0, 0], [1, 1], [0, 1]]), [0.0, 0.3, -1e20])
    assert type(graph.conditionals()).__name__ == "TableConditionals"


@every
def test_inputs_of_any_memory_layout(name, seed):
    energy = ZOO[name](seed)
    X, _ = draw_rows(energy, 40, seed)
    expected = energy.log_potential(X)
    readonly = X.copy()
    readonly.flags.writeable = False
    padded = np.zeros((80, 2 * X.shape[1]), dtype=X.dtype)
    padded[::2, ::2] = X
    for given_X in (X.tolist(), X.astype(float), X.astype(np.uint8), readonly, padded[::2, ::2]):
        assert_array_equal(energy.log_potential(given_X), expected)
    assert_array_equal(energy.log_potential(np.asfortranarray(X)), expected)
    assert energy.log_potential(X[:0]).shape == (0,)


# Moments and gradients --------------------------------------------------------------------


@every
def test_moments(name, seed):
    energy = ZOO[name](seed)
    X, log_weights = draw_rows(energy, 50, seed)
    equal = twins.moments(energy, X, np.full(50, 1 / 50))
    weighted = twins.moments(energy, X, normalise(log_weights))
    assert_same_theta(energy.moments(States(X)), equal, rtol=0, atol=1e-13)
    phase = States(X, None, log_weights + 500.0)
    assert_same_theta(energy.moments(phase), weighted, rtol=0, atol=1e-13)
    assert_same_theta(energy.moments(CliqueMoments(weighted)), weighted, rtol=0, atol=0)


@every
def test_gradient_of_states_and_moments(name, seed):
    energy = ZOO[name](seed)
    X, log_weights = draw_rows(energy, 50, seed)
    Y, _ = draw_rows(energy, 30, seed + 1)
    up = twins.moments(energy, X, normalise(log_weights))
    down = twins.moments(energy, Y, np.full(30, 1 / 30))
    expected = {k: up[k] - down[k] for k in up}
    for positive in (States(X, None, log_weights), CliqueMoments(up)):
        for negative in (States(Y), CliqueMoments(down)):
            gradient = energy.gradient(positive, negative)
            assert_same_theta(gradient, expected, rtol=0, atol=1e-13)


@every
def test_rows_of_weight_zero_have_no_moments(name, seed):
    energy = ZOO[name](seed)
    X, _ = draw_rows(energy, 5, seed)
    for phase in (States(X, None, np.full(5, -np.inf)), States(X[:0])):
        for moment in energy.moments(phase).values():
            assert not moment.any()
    weightless = energy.moments(States(X, None, np.array([0.0, -np.inf, -np.inf, 0, -np.inf])))
    assert_same_theta(weightless, energy.moments(States(X[[0, 3]])), rtol=0, atol=1e-15)


def change_parameter(energy, name, entry, step):
    """Return the energy with one parameter changed, symmetrically in a symmetric matrix."""
    theta = {k: v.copy() for k, v in energy.theta.items()}
    theta[name][entry] += step
    if theta[name].ndim == 2:
        theta[name][entry[::-1]] += step
    return energy.with_theta(theta)


def log_likelihood(energy, states, X, weights):
    return weights @ energy.log_potential(X) - twins.log_sum(energy.log_potential(states))


@pytest.mark.parametrize("name", FINITE)
def test_gradient_matches_finite_differences(name, seed):
    energy = ZOO[name](seed)
    X, log_weights = draw_rows(energy, 20, seed)
    weights = normalise(log_weights)
    states, log_f = enumerate_states(energy)
    gradient = energy.gradient(States(X, None, log_weights), States(states, None, log_f))
    step, tolerance = (1e-3, 1e-6) if name in HUGE else (1e-4, 1e-7)
    for key, values in gradient.items():
        for entry in np.ndindex(values.shape):
            if values.ndim == 2 and entry[0] >= entry[1]:
                continue
            high, low = (
                log_likelihood(change_parameter(energy, key, entry, s), states, X, weights)
                for s in (step, -step)
            )
            assert_allclose(values[entry], (high - low) / (2 * step), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", WITH_ZEROS)
def test_gradient_with_zero_potentials(name, seed):
    energy = ZOO[name](seed)
    states, p = twins.distribution(energy)
    data = States(states[p > 0])
    gradient = energy.gradient(data, States(states, None, energy.log_potential(states)))
    (values,) = gradient.values()
    assert np.isfinite(values).all()
    assert not values[energy.flat == -np.inf].any()
    expected = twins.moments(energy, states, p)
    assert_same_theta(
        energy.moments(States(states, None, energy.log_potential(states))),
        expected,
        rtol=0,
        atol=1e-14,
    )


def test_inputs_are_not_modified(seed):
    for factory in ZOO.values():
        energy = factory(seed)
        theta = {k: v.copy() for k, v in energy.theta.items()}
        frozen = energy.with_theta(theta)
        X, log_weights = draw_rows(energy, 10, seed)
        for array in (*theta.values(), X, log_weights):
            array.flags.writeable = False
        frozen.log_potential(X)
        frozen.moments(States(X, None, log_weights))
        frozen.gradient(States(X, None, log_weights), States(X))
        frozen.conditionals()
        frozen.penalty_groups()


@given(small_graphs())
def test_moments_sum_to_the_weights(graph):
    states, _ = enumerate_states(graph)
    (flat,) = graph.moments(States(states)).values()
    for table in graph.layout.split(flat):
        assert_allclose(table.sum(), 1.0, rtol=1e-12)


@given(small_graphs(), st.floats(0.1, 3))
def test_integer_weights_equal_repeated_rows(graph, weight):
    states, _ = enumerate_states(graph)
    twice = States(np.concatenate([states, states[:1]]))
    heavy = States(states, None, np.log(weight * np.append(2.0, np.ones(len(states) - 1))))
    assert_same_theta(graph.moments(heavy), graph.moments(twice), rtol=0, atol=1e-12)


KINDS_OF_ROWS = pytest.mark.parametrize(
    "is_jax", [False, pytest.param(True, marks=pytest.mark.long)]
)
STATE_PAIRS = pytest.mark.parametrize("states", [(0, 1), (-1, 1), (0.2, 3.0)], ids=str)


def many_rows(is_jax, seed, monkeypatch):
    """Return codes, the same as an array of numpy or JAX, and log weights; blocks are small."""
    for name in ("BLOCK_ENTRIES", "LARGE_ENTRIES"):
        monkeypatch.setattr(f"skmrf._utils.rows.{name}", 40)
    rng = np.random.default_rng(seed)
    X, log_weights = (rng.random((60, 4)) < 0.4).astype(np.int8), rng.normal(size=60)
    X[:, 3] &= 1 - X[:, 2]  # two states that never occur together
    return X, pytest.importorskip("jax.numpy").asarray(X) if is_jax else X, log_weights


@KINDS_OF_ROWS
@STATE_PAIRS
def test_moments_of_many_rows(is_jax, states, seed, monkeypatch):
    """Means of rows in blocks are those of weighted states."""
    X, rows, log_weights = many_rows(is_jax, seed, monkeypatch)
    energy = PairwiseEnergy(np.zeros((4, 4)), np.zeros(4), states)
    graph = energy.with_theta({"coupling": np.ones((4, 4)), "bias": np.ones(4)}).factor_graph()
    for logs in (None, log_weights, np.full(60, 0.3)):
        expected = energy.moments(States(X.astype(np.int16), None, logs))
        atol = 1e-6 if is_jax else 1e-12  # sums of a device are in float32
        assert_same_theta(energy.row_moments(rows, logs), expected, atol=atol)
        given = States(X.astype(np.int16), None, logs)
        assert_same_theta(graph.row_moments(X, logs), graph.moments(given), atol=1e-12)


@KINDS_OF_ROWS
def test_sums_of_rows_in_blocks(is_jax, seed, monkeypatch):
    """Counts, frequencies and complete rows are those of a plain computation."""
    X, rows, log_weights = many_rows(is_jax, seed, monkeypatch)
    weights = np.exp(log_weights)
    for code in (0, 1):
        assert_array_equal(count_rows(rows, code), (code == X).sum(axis=0))
        assert_allclose(count_rows(rows, code, weights), weights @ (code == X))
    assert_array_equal(pair_frequencies(rows), X.T.astype(int) @ X / len(X))
    shares = X.T @ (weights[:, None] * X) / weights.sum()
    atol = 1e-6 if is_jax else 1e-12
    assert_allclose(pair_frequencies(rows, log_weights), shares, atol=atol)
    X[[3, 50], [1, 2]] = -1
    found = drop_incomplete_rows(Batch(X, None, log_weights))
    kept = np.delete(np.arange(60), [3, 50])
    assert_array_equal(found.X, X[kept])
    assert_array_equal(found.log_weights, log_weights[kept])


@KINDS_OF_ROWS
@STATE_PAIRS
def test_summary_of_pairs(is_jax, states, seed, monkeypatch):
    """The noise floor is a hundredth of the variance of the statistics, divided by the rows."""
    X, rows, log_weights = many_rows(is_jax, seed, monkeypatch)
    energy = PairwiseEnergy(np.zeros((4, 4)), np.zeros(4), states)
    S = energy.decode(X.astype(int))
    for logs in (None, log_weights, 6.0 * log_weights):
        p = np.full(60, 1 / 60) if logs is None else normalise(logs)
        pairs = S[:, :, None] * S[:, None, :] * (1.0 - np.eye(4))
        variance = sum(p @ v**2 - (p @ v) ** 2 for v in (*pairs.reshape(60, -1).T, *S.T))
        n_rows = 60 if logs is None else 1.0 / (p**2).sum()
        resolution, n_unobserved = summarise_pairs(energy, Batch(rows, None, logs))
        assert resolution == pytest.approx(0.01 * variance / n_rows, rel=1e-4)
        assert n_unobserved == 1
    X = np.vstack([X, [[-1, 1, 1, 1]]])  # (1, 1) is only in an incomplete row
    assert summarise_pairs(energy, Batch(X))[1] == 1


# Conditioning, tempering, paths -----------------------------------------------------------


@every
def test_condition(name, seed, monkeypatch):
    energy, rng = ZOO[name](seed), np.random.default_rng(seed)
    states, log_f = enumerate_states(energy)
    for k in range(6):
        monkeypatch.setattr("skmrf.energies.factor_graph.SMALL_TABLE", (1e9, -1)[k % 2])
        observed = rng.random(energy.n_variables) < rng.choice([0.3, 0.7])
        evidence = {int(i): int(rng.integers(energy.n_states[i])) for i in np.flatnonzero(observed)}
        rest = energy.condition(evidence)
        assert_array_equal(rest.n_states, energy.n_states[~observed])
        kept = twins.consistent(states, evidence)
        value = rest.log_potential(states[kept][:, ~observed])
        assert_allclose(value, log_f[kept], rtol=1e-13, atol=1e-12)


def test_condition_on_everything_leaves_a_constant(seed):
    energy = ZOO["orders"](seed)
    rest = energy.condition(dict(enumerate([1, 2, 0, 3, 1])))
    assert rest.n_variables == 0
    expected = naive_log_potential(energy, np.array([[1, 2, 0, 3, 1]]))
    assert_allclose(rest.log_potential(np.zeros((1, 0), dtype=int)), expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({6: 0}, "Evidence names variable 6, but the variables are 0 to 5."),
        ({-1: 0}, "Evidence names variable -1, but the variables are 0 to 5."),
        ({"a": 0}, "Evidence names variable 'a', but the variables are 0 to 5."),
        ({0: 2}, "Evidence gives variable 0 the state 2, but its states are 0 to 1."),
        ({0: -1}, "Evidence gives variable 0 the state -1, but its states are 0 to 1."),
        ({0: 0.5}, "Evidence gives variable 0 the state 0.5; its states are integers, 0 to 1."),
        ([0, 1], "evidence must be a dict from variables to states, or None; got list."),
    ],
)
@pytest.mark.parametrize("name", ["chain", "zero_one"])
def test_condition_rejects_invalid_evidence(name, evidence, message):
    with pytest.raises(ValueError) as caught:
        ZOO[name](0).condition(evidence)
    assert str(caught.value) == message


@every
def test_tempered(name, seed):
    energy = ZOO[name](seed)
    states, log_f = enumerate_states(energy)
    half = energy.tempered(0.5).log_potential(states)
    assert_allclose(half, 0.5 * log_f, rtol=1e-13, atol=1e-12)
    assert_array_equal(energy.tempered(0.0).log_potential(states), np.zeros(len(states)))
    assert_array_equal(energy.tempered(1.0).log_potential(states), energy.log_potential(states))


@every
def test_interpolate(name, seed):
    energy, other = ZOO[name](seed), ZOO[name](seed + 1)
    states, log_f = enumerate_states(energy)
    with np.errstate(invalid="raise"):
        mixed = energy.interpolate(other, 0.25).log_potential(states)
    expected = 0.75 * log_f + 0.25 * naive_log_potential(other, states)
    assert_allclose(mixed, expected, rtol=1e-12, atol=1e-12)
    assert_array_equal(
        energy.interpolate(other, 0).log_potential(states), energy.log_potential(states)
    )
    assert_array_equal(
        energy.interpolate(other, 1).log_potential(states), other.log_potential(states)
    )


def test_with_theta_keeps_other_attributes(seed):
    energy = ZOO["zero_one"](seed)
    doubled = energy.with_theta({k: 2 * v for k, v in energy.theta.items()})
    assert doubled.states == (0, 1)
    tied = ZOO["tied"](seed)
    other = tied.with_theta({"log_potentials": tied.flat + 1})
    assert_array_equal(other.log_potentials[0], other.log_potentials[4])


# Other forms ------------------------------------------------------------------------------


@every
def test_factor_graph_is_the_same_distribution(name, seed):
    energy = ZOO[name](seed)
    states, log_f = enumerate_states(energy)
    graph = energy.factor_graph()
    assert isinstance(graph, FactorGraph)
    assert_allclose(naive_log_potential(graph, states), log_f, rtol=1e-13, atol=1e-12)


def test_factor_graph_of_pairwise_drops_zero_couplings():
    energy = PairwiseEnergy([[0, 2, 0], [2, 0, 0], [0, 0, 0]], [1, 0, 3], states=(0, 1))
    graph = energy.factor_graph()
    assert graph.cliques == ((0,), (1,), (2,), (0, 1))
    assert_array_equal(graph.log_potentials[3], [[0, 0], [0, 2]])
    assert_array_equal(graph.log_potentials[2], [0, 3])


@every
def test_penalty_groups(name, seed):
    """Check that groups are couplings and tables of two or more variables."""
    energy = ZOO[name](seed)
    groups = energy.penalty_groups()
    assert {k: v.shape for k, v in groups.items()} == {k: v.shape for k, v in energy.theta.items()}
    if isinstance(energy, PairwiseEnergy):
        n = energy.n_variables
        assert (groups["bias"] == -1).all()
        assert (np.diagonal(groups["coupling"]) == -1).all()
        assert_array_equal(groups["coupling"], groups["coupling"].T)
        assert len(np.unique(groups["coupling"])) == n * (n - 1) // 2 + 1
        return
    (flat,) = groups.values()
    tables = energy.layout.split(flat)
    starts = energy.layout.table_start.tolist()
    by_start = {}
    for clique, table, start in zip(energy.cliques, tables, starts, strict=True):
        numbers = np.unique(table)
        assert len(numbers) == 1
        assert (numbers[0] == -1) == (len(clique) < 2)
        assert by_start.setdefault(start, numbers[0]) == numbers[0]
    penalised = [g for g in by_start.values() if g >= 0]
    assert sorted(penalised) == list(range(len(penalised)))


def test_tables_and_one_array_are_the_same(seed):
    graph = ZOO["orders"](seed)
    again = FactorGraph(graph.n_states, graph.cliques, graph.flat)
    flat_tables = [t.ravel() for t in graph.log_potentials]
    listed = FactorGraph(graph.n_states, graph.cliques, flat_tables)
    assert_array_equal(graph.flat, again.flat)
    assert_array_equal(graph.flat, listed.flat)
    with pytest.raises(ValueError, match="read-only"):
        graph.flat[0] = 1.0


def test_tied_tables_are_stored_once(seed):
    graph = ZOO["tied"](seed)
    assert graph.flat.shape == (3 + 9 + 9,)
    assert graph.layout.untied().n_parameters == 5 * 3 + 5 * 9
    again = FactorGraph(graph.n_states, graph.cliques, graph.flat, tie=[range(5), range(5, 9)])
    assert_array_equal(again.log_potentials[8], graph.log_potentials[5])


def test_cliques_may_be_arrays():
    graph = FactorGraph([2, 2, 2], (np.array([0, 1]), np.array([1, 2])), [np.zeros(4)] * 2)
    assert graph.cliques == ((0, 1), (1, 2))


def test_arguments_are_copied():
    n_states, table = np.array([2, 2]), np.zeros(4)
    graph = FactorGraph(n_states, [(0, 1)], [table])
    n_states[:] = 9
    table[:] = 9
    assert graph.n_states.tolist() == [2, 2]
    assert not graph.flat.any()


# Symmetries --------------------------------------------------------------------------------------


def log_z(energy):
    return twins.log_sum(energy.log_potential(enumerate_states(energy)[0]))


@given(small_graphs(), st.integers(0, 2**32))
def test_relabelled_states(graph, seed):
    rng = np.random.default_rng(seed)
    new_code = [rng.permutation(q) for q in graph.n_states]
    tables = []
    for clique, table in zip(graph.cliques, graph.log_potentials, strict=True):
        relabelled = np.empty_like(table)
        relabelled[np.ix_(*(new_code[v] for v in clique))] = table
        tables.append(relabelled)
    other = FactorGraph(graph.n_states, graph.cliques, tables)
    states, log_f = enumerate_states(graph)
    renamed = np.column_stack([code[states[:, i]] for i, code in enumerate(new_code)])
    assert_allclose(other.log_potential(renamed), log_f, rtol=1e-12, atol=1e-12)
    assert_allclose(log_z(other), log_z(graph), rtol=1e-12, atol=1e-12)


@given(small_graphs(), st.integers(0, 2**32))
def test_permuted_variables(graph, seed):
    """Check log Z after a permutation: new variable k is old variable order[k]."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(graph.n_variables)
    new = np.argsort(order)
    cliques = [tuple(new[list(c)]) for c in graph.cliques]
    shuffled = rng.permutation(len(cliques))
    other = FactorGraph(
        graph.n_states[order],
        [cliques[a] for a in shuffled],
        [graph.log_potentials[a] for a in shuffled],
    )
    states, log_f = enumerate_states(graph)
    assert_allclose(other.log_potential(states[:, order]), log_f, rtol=1e-12, atol=1e-12)


@given(small_graphs(), st.floats(-50, 50))
def test_shifted_tables_shift_log_z(graph, shift):
    for a in range(len(graph.cliques)):
        tables = [t + shift * (a == b) for b, t in enumerate(graph.log_potentials)]
        other = FactorGraph(graph.n_states, graph.cliques, tables)
        assert_allclose(log_z(other), log_z(graph) + shift, rtol=1e-12, atol=1e-10)


@given(small_graphs(), st.integers(0, 2**32))
def test_permuted_table_axes(graph, seed):
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(c)) for c in graph.cliques]
    cliques = [tuple(c[p] for p in o) for c, o in zip(graph.cliques, orders, strict=True)]
    tables = [t.transpose(o) for t, o in zip(graph.log_potentials, orders, strict=True)]
    other = FactorGraph(graph.n_states, cliques, tables)
    states, log_f = enumerate_states(graph)
    assert_allclose(other.log_potential(states), log_f, rtol=1e-12, atol=1e-12)


def test_tables_cover_the_flat_vector():
    rng = np.random.default_rng(0)
    n_states = [2, 3, 4]
    cliques = [(2, 0), (), (1,), (0, 1, 2)]
    tables = random_tables(n_states, cliques, rng)
    layout = Layout.build(n_states, cliques)
    assert layout.n_parameters == sum(prod(t.shape) for t in tables)
    graph = FactorGraph(n_states, cliques, tables)
    for table, again in zip(tables, graph.log_potentials, strict=True):
        assert_array_equal(table, again)


def test_overflowing_log_potentials_raise():
    with pytest.raises(ValueError, match="may overflow; keep them below"):
        FactorGraph([2, 2], [(0, 1)] * 2, [[[1e308, 0.0], [0.0, 1e308]]] * 2)


def test_tie_must_be_groups_of_cliques():
    with pytest.raises(ValueError, match="tie must be groups of clique numbers"):
        FactorGraph([2] * 3, [(0,), (1,), (2,)], [np.zeros(2)] * 3, tie=[0, 1, 2])


def test_positions_of_tables():
    """The matrix over all states, and the way back, are those of loops over all tables."""
    layout = Layout.build([3, 2, 1, 4, 2], [(0,), (3,), (0, 1), (3, 1), (0, 3), (1, 2), (4, 3)])
    positions, start = find_positions(layout), layout.state_start
    expected = np.full((12, 12), layout.n_parameters)
    tables = layout.split(np.arange(layout.n_parameters))
    for clique, numbers in zip(layout.cliques, tables, strict=True):
        for index, number in np.ndenumerate(numbers):
            i, j = start[clique[0]] + index[0], start[clique[-1]] + index[-1]
            expected[i, j] = expected[j, i] = number
    matrix, entries = positions["matrix"], positions["entries"]
    assert_array_equal(matrix, expected)
    assert_array_equal(matrix.ravel()[entries], np.arange(layout.n_parameters))


def test_arrays_of_layouts_are_read_only():
    """Kernels would be compiled again for writeable arrays, for example after unpickling."""
    layout = Layout.build([3, 2, 2], [(0,), (0, 1), (1, 2)])
    assert layout.index_arrays  # is cached
    for found in (layout, pickle.loads(pickle.dumps(layout)), deepcopy(layout)):
        arrays = [*found.index_arrays, *found.structure, found.table_size]
        assert not any(array.flags.writeable for array in arrays)
