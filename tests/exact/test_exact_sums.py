"""Tests of exact log Z, expected statistics and exact learning of all energies, by enumeration."""

import pickle
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest
import twins
from montecarlo import check_draws
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from scipy.special import logsumexp
from zoo import ZOO, coupled_layers, enumerate_states, naive_log_potential, random_tables

from skmrf import exact, inference
from skmrf._data.sequences import read_examples
from skmrf._kernels.completion import BLOCK_STATES
from skmrf._kernels.layers import softplus_sums_and_means
from skmrf._utils.codes import MISSING, STATE
from skmrf._utils.interrupts import limit_time
from skmrf._utils.phases import CliqueMoments, States
from skmrf._utils.rows import Batch
from skmrf.energies import BipartiteEnergy, FactorGraph, PairwiseEnergy, SemiRestrictedEnergy
from skmrf.exact import (
    elimination,
    enumeration,
    expectations,
    label_elimination,
    tree_decomposition,
)
from skmrf.exact.completion import Completion
from skmrf.learners import Exact
from skmrf.likelihood import label_graphs, log_partition_bounds
from skmrf.likelihood.bounds import exact_log_partition


def bipartite(n_visible, n_hidden, seed=0, scale=1.0, dtype=float):
    rng = np.random.default_rng(seed)
    sizes = (n_visible, n_hidden), n_visible, n_hidden
    return BipartiteEnergy(*(rng.normal(0.0, scale, size=s).astype(dtype) for s in sizes))


def pairwise(n, seed=0, scale=1.0, states=(-1, 1)):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.normal(0.0, scale, size=(n, n)), 1)
    return PairwiseEnergy(upper + upper.T, rng.normal(0.0, scale, size=n), states)


def all_states(n):
    return np.array(list(product((0, 1), repeat=n)), dtype=STATE).reshape(-1, n)


def enumerate_expectations(energy):
    """Return expected statistics and log Z by a sum over all joint states, in float64."""
    X = all_states(energy.n_variables)
    theta = {k: v.astype(float) for k, v in energy.theta.items()}
    log_f = energy.with_theta(theta).log_potential(X)
    log_z = logsumexp(log_f)
    p = np.exp(log_f - log_z)
    if isinstance(energy, PairwiseEnergy):
        S = energy.decode(X)
        pair = S.T @ (p[:, None] * S)
        np.fill_diagonal(pair, 0.0)
        return {"coupling": pair, "bias": p @ S}, log_z
    V, H = np.split(X.astype(float), [len(energy.visible_bias)], axis=1)
    found = {}
    if isinstance(energy, SemiRestrictedEnergy):
        V = energy.decode(V)
        found["coupling"] = V.T @ (p[:, None] * V)
        np.fill_diagonal(found["coupling"], 0.0)
    found |= {"weights": V.T @ (p[:, None] * H), "visible_bias": p @ V, "hidden_bias": p @ H}
    return found, log_z


COUPLED = "coupled layers"
ENERGIES = {
    "fewer hidden": bipartite(7, 3),
    "fewer visible": bipartite(4, 8, seed=1),
    "as many": bipartite(5, 5, seed=2),
    "one hidden": bipartite(6, 1, seed=3),
    "one visible": bipartite(1, 6, seed=4),
    "one of each": bipartite(1, 1, seed=5),
    "zero weights": BipartiteEnergy(np.zeros((4, 3)), np.arange(4.0), -np.arange(3.0)),
    "all zero": BipartiteEnergy(np.zeros((4, 3)), np.zeros(4), np.zeros(3)),
    "float32": bipartite(6, 4, seed=6, dtype=np.float32),
    "strong": bipartite(7, 4, seed=7, scale=20.0),
    "spins": pairwise(9),
    "an even number": pairwise(8, seed=1),
    "bits": pairwise(7, seed=2, states=(0, 1)),
    "other states": pairwise(5, seed=3, states=(-0.5, 2)),
    "one variable": pairwise(1, seed=4),
    "two variables": pairwise(2, seed=5),
    "uncoupled": PairwiseEnergy(np.zeros((5, 5)), np.arange(5.0)),
    "frozen": pairwise(8, seed=6, scale=30.0),
    COUPLED: coupled_layers(6, 3, 7, (-1, 1)),
    "strongly coupled layers": coupled_layers(4, 3, 8, scale=20.0),
    "coupled layers without hidden units": coupled_layers(4, 0, 9),
}


def check(found, expected, atol=1e-10):
    (moments, log_z), (right, right_z) = found, expected
    assert_allclose(log_z, right_z, rtol=1e-13, atol=atol)
    assert moments.keys() == right.keys()
    for name, value in right.items():
        assert moments[name].shape == value.shape
        assert_allclose(moments[name], value, rtol=0, atol=atol)


@pytest.mark.parametrize("name", ENERGIES)
def test_against_enumeration(name):
    energy = ENERGIES[name]
    model = expectations.exact_model(energy)
    expected = enumerate_expectations(energy)
    check(model.expected(energy), expected)
    assert_allclose(model.log_partition(energy), expected[1], rtol=1e-13, atol=1e-10)


@pytest.mark.parametrize("name", ENERGIES)
def test_against_elimination(name):
    energy = ENERGIES[name]
    graph = energy.factor_graph()
    plan = elimination.prepare(graph.layout)
    eliminated = elimination.log_partitions(plan, graph.flat)[0]
    for value in (exact_log_partition(energy), log_partition_bounds(energy)):
        assert_allclose(value.value, eliminated, rtol=1e-6 if name == "float32" else 1e-12)
        assert (value.method, value.lower, value.upper) == ("exact", value.value, value.value)
    assert inference.log_partition(energy).value == exact_log_partition(energy).value


@pytest.mark.parametrize("name", ["spins", "bits", "other states", "one variable", "uncoupled"])
def test_elimination_of_all_pair_tables(name):
    """Elimination gives the statistics of all pairs, including pairs with zero coupling."""
    energy = ENERGIES[name]
    model = expectations.EliminationSum(expectations.exact_tables(energy))
    check(model.expected(energy), enumerate_expectations(energy))


def test_table_moments_of_coupled_layers():
    energy = ENERGIES[COUPLED]
    model = expectations.EliminationSum(expectations.exact_tables(energy))
    check(model.expected(energy), enumerate_expectations(energy))
    for name in ("coupling", "weights"):
        zero = energy.with_theta({**energy.theta, name: np.zeros_like(energy.theta[name])})
        model = expectations.EliminationSum(expectations.exact_tables(zero))
        with pytest.raises(ValueError, match=r"Some (couplings|weights) are zero"):
            model.expected(zero)


@pytest.mark.parametrize("block", [16, 64])
@pytest.mark.parametrize(
    "name", ["fewer hidden", "fewer visible", "strong", "spins", "frozen", "coupled layers"]
)
def test_block_size_does_not_change_results(name, block, monkeypatch):
    monkeypatch.setattr(exact.enumeration, "BLOCK", block)
    monkeypatch.setattr(enumeration.VisibleSum, "BLOCK_STATES", block)
    monkeypatch.setattr(
        enumeration.LayerSum, "n_block_units", property(lambda self: min(2, self.layer_sizes[0]))
    )
    energy = ENERGIES[name]
    check(expectations.exact_model(energy).expected(energy), enumerate_expectations(energy))


@pytest.mark.parametrize("sign", [-200.0, 200.0])
@pytest.mark.parametrize("shape", [(300, 6), (6, 300)])
def test_large_weights_of_one_sign(shape, sign):
    energy = BipartiteEnergy(np.full(shape, sign), np.zeros(shape[0]), np.zeros(shape[1]))
    moments, log_z = expectations.exact_model(energy).expected(energy)
    if sign > 0:
        assert log_z == pytest.approx(sign * 1800, rel=1e-14)
        assert_allclose(moments["weights"], 1.0)
    else:  # one layer is all zero, the other is free
        assert log_z == pytest.approx(np.logaddexp(300 * np.log(2), 6 * np.log(2)), rel=1e-13)
        assert_allclose(moments["weights"], 0.0, atol=1e-30)
    assert all(np.isfinite(m).all() for m in moments.values())


def test_large_weights_of_any_sign(seed):
    rng = np.random.default_rng(seed)
    for shape in ((9, 4), (4, 9)):
        W = rng.choice([-200.0, 200.0], size=shape)
        energy = BipartiteEnergy(W, rng.normal(size=shape[0]), rng.normal(size=shape[1]))
        check(
            expectations.exact_model(energy).expected(energy),
            enumerate_expectations(energy),
            atol=1e-9,
        )
    upper = np.triu(rng.choice([-200.0, 200.0], size=(9, 9)), 1)
    energy = PairwiseEnergy(upper + upper.T, rng.normal(size=9))
    check(
        expectations.exact_model(energy).expected(energy), enumerate_expectations(energy), atol=1e-9
    )


def test_softplus_sums_and_means():
    """Check sums and means against their definitions, also for very large arguments."""
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(0, 10, size=200), [0.0, 40, -40, 700, -700, 1e4, -1e4, 1e300]])
    bias = rng.normal(size=len(y))
    rows = np.stack([y, -y])
    sums, means = np.empty(2), np.empty_like(rows)
    softplus_sums_and_means(rows, bias, sums, means)
    right = 1.0 / (1.0 + np.exp(np.clip(-(rows + bias), -700, 700)))
    assert_allclose(sums, np.logaddexp(0.0, rows + bias).sum(axis=1), rtol=1e-13)
    assert_allclose(means, right, rtol=1e-12, atol=1e-300)
    again = np.empty(2)
    softplus_sums_and_means(rows, bias, again, means[:0])
    np.testing.assert_array_equal(again, sums)


def change_parameter(energy, name, at, h):
    """Return the energy with one parameter changed; for a coupling, both of its entries."""
    theta = {k: v.astype(float) for k, v in energy.theta.items()}
    for place in {at, at[::-1]} if name == "coupling" else {at}:
        theta[name][place] += h
    return energy.with_theta(theta)


def central_differences(function, energy, h=1e-5):
    """Return derivatives by all parameters; a coupling has two entries but is one parameter."""
    out = {k: np.zeros(v.shape) for k, v in energy.theta.items()}
    for name, value in out.items():
        for at in np.ndindex(value.shape):
            if name == "coupling" and at[0] == at[1]:
                continue
            up, down = (function(change_parameter(energy, name, at, s * h)) for s in (1, -1))
            value[at] = (up - down) / (2 * h)
    return out


@pytest.mark.parametrize("name", ["fewer hidden", "fewer visible", "spins", "bits"])
def test_moments_are_the_gradient_of_log_z(name):
    energy = ENERGIES[name]
    model = expectations.exact_model(energy)
    moments, _ = model.expected(energy)
    reference = central_differences(model.log_partition, energy)
    for k, v in reference.items():
        assert_allclose(moments[k], v, atol=1e-8)


def random_batch(n_variables, n_rows, share, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, size=(n_rows, n_variables)).astype(STATE)
    X[rng.random(X.shape) < share] = MISSING
    return Batch(X, None, np.log(rng.uniform(0.2, 2.0, size=n_rows)))


def mean_log_likelihood(energy, batch):
    """Return the mean log-likelihood of incomplete rows by enumeration of their missing entries."""
    states = all_states(energy.n_variables)
    log_f = energy.log_potential(states)
    weights = np.exp(batch.log_weights - logsumexp(batch.log_weights))
    value = -logsumexp(log_f)
    for row, w in zip(batch.X, weights, strict=True):
        seen = np.flatnonzero(row != MISSING)
        value += w * logsumexp(log_f[(states[:, seen] == row[seen]).all(axis=1)])
    return value


LEARNED = {
    "rbm": (ENERGIES["fewer hidden"], 0.0),
    "wide rbm": (ENERGIES["fewer visible"], 0.0),
    "pairs": (pairwise(6), 0.0),
    "pairs of bits, missing": (pairwise(5, states=(0, 1)), 0.3),
    "pairs, missing": (pairwise(6, seed=2), 0.3),
    "tables": (ZOO["chain"](0), 0.0),
    "tables, missing": (ZOO["chain"](1), 0.3),
}


@pytest.mark.parametrize("name", LEARNED)
def test_objective_and_gradient_of_the_exact_learner(name, seed):
    energy, share = LEARNED[name]
    batch = random_batch(len(energy.visible_states), 12, share, seed)
    learner = Exact()
    state = learner.init(energy, batch, None)
    value, gradient = learner.objective(energy, batch, state)
    assert value == pytest.approx(mean_log_likelihood(energy, batch), abs=1e-10)
    reference = central_differences(lambda e: mean_log_likelihood(e, batch), energy)
    assert gradient.keys() == reference.keys()
    for k, v in reference.items():
        assert_allclose(gradient[k], v, atol=1e-7)
    state = pickle.loads(pickle.dumps(state))
    positive, negative, _, info = learner.step(energy, batch, state, None)
    assert isinstance(negative, CliqueMoments)
    assert info["log_likelihood"] == pytest.approx(value)
    for k, v in energy.gradient(positive, negative).items():
        assert_allclose(v, gradient[k], atol=1e-12)


def test_learner_state_works_for_any_parameters():
    """Training starts at zero couplings; the learner's state must not treat them as absent."""
    batch = random_batch(6, 20, 0.2, 0)
    learner, start = Exact(), PairwiseEnergy(np.zeros((6, 6)), np.zeros(6))
    state = learner.init(start, batch, None)
    energy = pairwise(6, seed=8)
    value, gradient = learner.objective(energy, batch, state)
    again, right = learner.objective(energy, batch, learner.init(energy, batch, None))
    assert value == again
    np.testing.assert_array_equal(gradient["coupling"], right["coupling"])


def test_rbm_steps_with_dense_and_sparse_rows():
    """Statistics have the dtype of the parameters, and sparse rows give the same results."""
    energy = bipartite(7, 3, dtype=np.float32)
    batch = random_batch(7, 30, 0.0, 0)
    learner = Exact()
    state = learner.init(energy, batch, None)
    part = Batch(batch.X[:10], None, batch.log_weights[:10])
    positive, negative, _, info = learner.step(energy, part, state, None)
    assert isinstance(positive, States)
    assert positive.visible is part.X
    assert positive.hidden is None
    assert all(m.dtype == np.float32 for m in negative.moments.values())
    sparse = part._replace(X=csr_matrix(part.X))
    state = learner.init(energy, sparse, None)
    found = learner.step(energy, sparse, state, None)
    assert found[3]["log_likelihood"] == pytest.approx(info["log_likelihood"], rel=1e-6)
    one, two = energy.gradient(positive, negative), energy.gradient(*found[:2])
    for k, v in one.items():
        assert v.dtype == np.float32
        assert_allclose(two[k], v, atol=1e-6)
    value, _ = learner.objective(energy, sparse, state)
    assert value == found[3]["log_likelihood"]


def test_rbm_with_missing_entries_raises():
    batch = random_batch(7, 30, 0.2, 0)
    with pytest.raises(ValueError, match=r'needs rows without missing entries.*"pcd"'):
        Exact().init(ENERGIES["fewer hidden"], batch, None)


def test_too_large_models_raise():
    wide = BipartiteEnergy(np.ones((784, 500)), np.zeros(784), np.zeros(500))
    message = (
        r"^Exact inference needs \S+ bytes and 2\^509\.6 operations for the 2\^500 states of the "
        r'smaller layer \(500 units; the other layer has 784\).* method="ais"'
    )
    with pytest.raises(ValueError, match=message):
        exact_log_partition(wide)
    with pytest.raises(ValueError, match=message):
        Exact().init(wide, random_batch(784, 2, 0.0, 0), None)
    with pytest.raises(ValueError, match=r"max_bytes=1000 and"):
        exact_log_partition(ENERGIES["fewer hidden"], max_bytes=1000)
    with pytest.raises(ValueError, match=r"^Exact inference needs \S+ bytes .*max_bytes=1000 "):
        expectations.exact_model(pairwise(8), max_bytes=1000)
    with pytest.raises(ValueError, match=r"^Exact inference needs \S+ bytes .*2\^40\.0 entries"):
        Exact().init(pairwise(40), random_batch(40, 2, 0.0, 0), None)


@pytest.mark.parametrize(
    ("energy", "quick"),
    [
        (BipartiteEnergy(np.ones((784, 20)), np.zeros(784), np.zeros(20)), True),
        (BipartiteEnergy(np.ones((20, 784)), np.zeros(20), np.zeros(784)), True),
        (BipartiteEnergy(np.ones((784, 25)), np.zeros(784), np.zeros(25)), False),
        (BipartiteEnergy(np.ones((784, 1000)), np.zeros(784), np.zeros(1000)), False),
        (pairwise(30), True),
        (pairwise(40), False),
    ],
)
def test_quick_exact_model_depends_on_size(energy, quick, monkeypatch):
    """A dense bipartite energy is never converted to tables."""
    monkeypatch.setattr(BipartiteEnergy, "factor_graph", None)
    model = expectations.quick_exact_model(energy)
    assert (model is not None) == quick


def test_sparse_couplings_are_eliminated():
    """Log Z of large trees is exact by elimination; their expected statistics are not available."""
    n = 60
    coupling = np.diag(np.full(n - 1, 0.5), 1)
    chain = PairwiseEnergy(coupling + coupling.T, np.zeros(n))
    log_z = n * np.log(2) + (n - 1) * np.log(np.cosh(0.5))
    assert exact_log_partition(chain).value == pytest.approx(log_z, rel=1e-13)
    assert log_partition_bounds(chain).method == "exact"
    model = expectations.exact_model(chain, sparse=True)
    with pytest.raises(ValueError, match=r"Use exact_model\(energy\) with sparse=False"):
        model.expected(chain)
    with pytest.raises(ValueError, match="Exact inference needs"):
        expectations.exact_model(chain)
    matching = BipartiteEnergy(2.0 * np.eye(n), np.zeros(n), np.zeros(n))
    value = log_partition_bounds(matching)
    assert value.value == pytest.approx(n * np.log(3 + np.exp(2.0)), rel=1e-13)


@pytest.mark.parametrize("n", [8, 20, 21, 28])
def test_exact_model_chooses_the_cheapest_sum(n):
    """Dense couplings are enumerated, and sparse couplings are eliminated."""
    dense = pairwise(n)
    for sparse in (False, True):
        assert isinstance(expectations.exact_model(dense, sparse=sparse), enumeration.TwoBlockSum)
    coupling = np.diag(np.full(n - 1, 0.5), 1)
    chain = PairwiseEnergy(coupling + coupling.T, np.zeros(n))
    blocks = n <= enumeration.TwoBlockSum.SMALL_SIZE
    assert (
        isinstance(expectations.exact_model(chain, sparse=True), enumeration.TwoBlockSum) == blocks
    )
    log_z = n * np.log(2) + (n - 1) * np.log(np.cosh(0.5))
    assert exact_log_partition(chain).value == pytest.approx(log_z, rel=1e-13)
    layers = BipartiteEnergy(2.0 * np.eye(n), np.zeros(n), np.zeros(n))
    model = expectations.exact_model(layers, sparse=True)
    assert isinstance(model, enumeration.LayerSum) == (n <= 21)
    assert model.log_partition(layers) == pytest.approx(n * np.log(3 + np.exp(2.0)), rel=1e-13)


def test_mean_log_potential():
    for name in ("spins", "fewer hidden"):
        energy = ENERGIES[name]
        moments, log_z = expectations.exact_model(energy).expected(energy)
        log_f = energy.log_potential(all_states(energy.n_variables))
        mean = np.exp(log_f - log_z) @ log_f
        assert energy.mean_log_potential(moments) == pytest.approx(mean, rel=1e-12)
    graph = FactorGraph([2], [(0,)], [np.array([0.5, -np.inf])])
    moments, log_z = expectations.exact_model(graph).expected(graph)
    assert graph.mean_log_potential(moments) == log_z == 0.5


def test_forecast_of_elimination_ends_at_the_first_slow_example(monkeypatch):
    """A forecast can take as long as inference, and its result is kept."""
    visited, forecast = [], label_elimination.forecast
    monkeypatch.setattr(
        label_elimination, "forecast", lambda layout: visited.append(layout) or forecast(layout)
    )
    for widths, n_visited in (([2, 14, 2], 2), ([2, 3, 4], 3)):
        visited.clear()
        images = [np.zeros((width, width, 1)) for width in widths]
        graphs = read_examples(SimpleNamespace(), images, graph="grid", reset=True).graphs
        assert label_graphs.is_tractable(graphs, 3) == (14 not in widths)
        assert label_graphs.is_tractable(graphs, 3) == (14 not in widths)
        assert len(visited) == n_visited


def test_forecast_is_kept_unless_time_ran_out():
    layout = pairwise(24).factor_graph().layout
    with limit_time(0.0):
        hasty = tree_decomposition.forecast(layout)
    best = tree_decomposition.forecast(layout)
    assert hasty.bytes >= best.bytes
    assert tree_decomposition.forecast(layout) is best
    assert best is not hasty
    assert tree_decomposition.forecast(layout, np.zeros(24, dtype=bool)) is not best


def test_search_of_orders_ends_at_an_order_that_adds_no_edge(monkeypatch):
    """All orders of a complete graph have the same tables; those of a grid differ."""
    visited, search = [], tree_decomposition.greedy_order
    monkeypatch.setattr(
        tree_decomposition, "greedy_order", lambda *args: visited.append(args) or search(*args)
    )
    complete = pairwise(40).factor_graph().layout
    cost = tree_decomposition.forecast(complete, np.zeros(40, dtype=bool), max_bytes=1e9)
    assert len(visited) == 1
    assert cost.entries == pytest.approx(2**41 - 2)
    assert cost.bytes > 1e9
    visited.clear()
    grid = FactorGraph([3] * 64, GRID, [np.zeros((3, 3))] * len(GRID)).layout
    tree_decomposition.forecast(grid, np.zeros(64, dtype=bool))
    assert len(visited) > 10
    visited.clear()
    mixed = FactorGraph([2] * 16 + [100], *all_pairs([2] * 16 + [100])).layout
    best = tree_decomposition.forecast(mixed, np.zeros(17, dtype=bool))
    assert best.entries == pytest.approx(100 * 2**16 + 2**17 - 2)  # begins with 100 states


def all_pairs(n_states):
    """Return the cliques of all pairs of variables, and tables of zeros."""
    cliques = [(i, j) for i in range(len(n_states)) for j in range(i)]
    return cliques, [np.zeros((n_states[i], n_states[j])) for i, j in cliques]


GRID = [(i, i + 1) for i in range(64) if i % 8 < 7] + [(i, i + 8) for i in range(56)]


# Rows on their own ------------------------------------------------------------------------

PAIRWISE = [
    "chain", "grid", "complete", "spin_glass", "zero_one", "tied", "one_state",
    "disconnected", "isolated", "uniform", "single_variable", "huge", "huge_binary",
]  # fmt: skip


def incomplete_rows(states, rng, n_rows=12):
    """Return rows with at least one missing entry each, at random positions."""
    X = states[rng.integers(len(states), size=n_rows)].astype(STATE)
    missing = rng.random(X.shape) < 0.5
    missing[np.arange(n_rows), rng.integers(X.shape[1], size=n_rows)] = True
    return np.where(missing, MISSING, X).astype(STATE)


@pytest.mark.parametrize("name", PAIRWISE)
def test_completion_equals_enumeration(name, seed):
    graph = ZOO[name](seed).factor_graph()
    states, log_f = enumerate_states(graph)
    X = incomplete_rows(states, np.random.default_rng(seed))
    completion = Completion(graph)
    is_done, modes = completion.modes(X)
    has_sums, marginals = completion.marginals(X)
    _, sums = completion.log_partitions(X)
    assert is_done.all()
    singles_of = np.hstack([(states[:, [i]] == range(q)) for i, q in enumerate(graph.n_states)])
    for r, x in enumerate(X):
        agree = (states[:, x >= 0] == x[x >= 0]).all(axis=1)
        log_given = np.where(agree, log_f, -np.inf)
        assert_allclose(naive_log_potential(graph, modes[r : r + 1])[0], log_given.max())
        assert_array_equal(modes[r, x >= 0], x[x >= 0])
        if has_sums[r] or not name.startswith("huge"):
            assert_allclose(sums[r], twins.log_sum(log_given), rtol=1e-9, atol=1e-9)
            p = np.exp(log_given - twins.log_sum(log_given))
            assert_allclose(marginals[r], p @ singles_of, rtol=0, atol=1e-10)


def test_completion_draws(seed):
    """Draws have the conditional distribution; a draw of another temperature would be rejected."""
    graph = ZOO["complete"](seed).factor_graph()
    states, log_f = enumerate_states(graph)
    x = np.full(graph.n_variables, MISSING, dtype=STATE)
    x[0] = 1
    X = np.repeat(x[None], 4000, axis=0)
    rng = np.random.default_rng(seed)
    is_done, drawn = Completion(graph).samples(X, rng)
    assert is_done.all()
    log_given = np.where(states[:, 0] == 1, log_f, -np.inf)
    check_draws(drawn, states, np.exp(log_given - twins.log_sum(log_given)))
    hot = np.where(states[:, 0] == 1, 0.5 * log_f, -np.inf)
    with pytest.raises(AssertionError):
        check_draws(drawn, states, np.exp(hot - twins.log_sum(hot)))


@pytest.mark.parametrize("name", ["zeros", "orders"])
def test_completion_leaves_other_models_to_elimination(name, seed):
    """Zero potentials and cliques of three variables need elimination."""
    graph = ZOO[name](seed).factor_graph()
    X = incomplete_rows(enumerate_states(graph)[0], np.random.default_rng(seed))
    is_done, out = Completion(graph).modes(X)
    assert not is_done.any()
    assert_array_equal(out, X)


def interacting_variables(rng, scale):
    """Return a model of 8 variables that all interact, with more states than a block of a sum."""
    n_states = [3, 2, 4, 2, 1, 3, 2, 8]
    cliques = list(combinations(range(8), 2)) + [(i,) for i in range(8)]
    return FactorGraph(n_states, cliques, random_tables(n_states, cliques, rng, scale))


@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0, 300.0])
def test_sums_of_more_states_than_a_block(scale, seed):
    """The sums over blocks and over trees of states are together exact, also for huge potentials.

    With the largest scale, blocks become small, because their exponentials would underflow.
    """
    rng = np.random.default_rng(seed)
    graph = interacting_variables(rng, scale)
    states, log_f = enumerate_states(graph)
    assert len(states) > 2 * BLOCK_STATES
    X = np.full((3, 8), MISSING, dtype=STATE)
    X[1, 1], X[2, 7] = 1, 5
    done, sums = Completion(graph).log_partitions(X)
    has_marginals, marginals = Completion(graph).marginals(X)
    assert done.all()
    assert has_marginals.all()
    indicators = np.hstack([states[:, [i]] == range(q) for i, q in enumerate(graph.n_states)])
    for x, found, singles in zip(X, sums, marginals, strict=True):
        log_given = np.where((states == x)[:, x >= 0].all(axis=1), log_f, -np.inf)
        log_z = twins.log_sum(log_given)
        assert_allclose(found, log_z, rtol=1e-12, atol=1e-9)
        assert_allclose(singles, np.exp(log_given - log_z) @ indicators, rtol=0, atol=1e-9)


def test_sums_ignore_improbable_states_only():
    """States with several changes from the mode still count in a sum."""
    pairs = list(combinations(range(20), 2))
    tables = [np.zeros((2, 2))] * len(pairs) + [np.array([0.0, 3.0])] * 20
    graph = FactorGraph([2] * 20, pairs + [(i,) for i in range(20)], tables)
    done, sums = Completion(graph).log_partitions(np.full((1, 20), MISSING, dtype=STATE))
    assert done.all()
    assert_allclose(sums, 20.0 * np.logaddexp(0.0, 3.0), rtol=0, atol=1e-9)


def test_draws_of_more_states_than_a_block(seed):
    """Draws of variables before, in, and at the border of a block have the exact distribution."""
    rng = np.random.default_rng(seed)
    graph = interacting_variables(rng, 0.5)
    states, log_f = enumerate_states(graph)
    done, drawn = Completion(graph).samples(np.full((20_000, 8), MISSING, dtype=STATE), rng)
    assert done.all()
    p = np.exp(log_f - twins.log_sum(log_f))
    check_draws(drawn, states, p)
    with pytest.raises(AssertionError):
        check_draws(drawn, states, np.exp(0.7 * log_f - twins.log_sum(0.7 * log_f)))
