"""Tests of queries of partly observed rows."""

import numpy as np
import pytest
import twins
from montecarlo import check_draws
from numpy.testing import assert_allclose, assert_array_equal
from query_answers import assert_near, posterior
from zoo import ZOO, enumerate_states

from skmrf import DiscreteMRF, inference
from skmrf._utils.codes import MISSING, STATE
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.inference import marginals, row_log_partitions, row_marginals, row_modes, row_samples


def holed_rows(graph, n_rows, seed):
    """Possible states with holes, some rows whole, some patterns more than once."""
    rng = np.random.default_rng(seed)
    states, log_f = enumerate_states(graph)
    X = states[rng.choice(np.flatnonzero(log_f > -np.inf), size=n_rows)]
    patterns = rng.random((4, graph.n_variables)) < 0.5
    X[patterns[rng.integers(4, size=n_rows)]] = MISSING
    X[:2] = states[np.argmax(log_f)]
    return X


def row_posterior(graph, x):
    return posterior(graph, {i: int(s) for i, s in enumerate(x) if s != MISSING})


@pytest.mark.parametrize("name", ["orders", "zeros", "tied", "constant_variables", "huge", "grid"])
def test_rows(name, seed):
    """Each row is answered as the query about one row answers it, whatever its pattern."""
    graph = ZOO[name](seed)
    X = holed_rows(graph, 30, seed)
    kept = X.copy()
    rng = np.random.default_rng(seed)
    log_z = row_log_partitions(graph, X)
    singles = row_marginals(graph, X)
    modes = row_modes(graph, X)
    draws = row_samples(graph, X, rng)
    assert_array_equal(X, kept)
    for r, x in enumerate(X):
        states, p, log_given = row_posterior(graph, x)
        assert_allclose(log_z[r], twins.log_sum(log_given), rtol=1e-13, atol=1e-12)
        expected = twins.single_marginals(states, p, graph.n_states)
        for table, wanted_table in zip(singles, expected, strict=True):
            assert_allclose(table[r], wanted_table, rtol=0, atol=1e-11)
        assert_allclose(graph.log_potential(modes[[r]])[0], log_given.max(), rtol=1e-12, atol=1e-12)
        for filled in (modes[r], draws[r]):
            assert_array_equal(filled[x != MISSING], x[x != MISSING])
            assert p[(states == filled).all(axis=1)] > 0


@pytest.mark.parametrize("max_bytes", [2**32, 1])
@pytest.mark.parametrize("name", ["orders", "zero_one"])
def test_row_samples(name, max_bytes, seed):
    """Exact draws or chains: equal rows are drawn independently from their posterior."""
    graph = ZOO[name](seed).factor_graph()
    X = np.repeat(holed_rows(graph, 3, seed)[2:], 3000, axis=0)
    rng = np.random.default_rng(seed)
    states, p, _ = row_posterior(graph, X[0])
    if max_bytes > 1 or (X[0] != MISSING).all():
        draws = row_samples(graph, X, rng, max_bytes=max_bytes)
    else:
        with pytest.warns(UserWarning, match="^Exact sampling does not fit in memory"):
            draws = row_samples(graph, X, rng, max_bytes=max_bytes)
    check_draws(draws, states, p)


def test_rows_that_do_not_fit(seed):
    """The same answers, roughly, by annealing and by chains."""
    graph = ZOO["orders"](seed)
    X = holed_rows(graph, 4, seed)
    rng = np.random.default_rng(seed)
    how = {"max_bytes": 1, "rng": rng}
    assert_allclose(row_log_partitions(graph, X, **how), row_log_partitions(graph, X), atol=0.1)
    for found, wanted_table in zip(
        row_marginals(graph, X, **how), row_marginals(graph, X), strict=True
    ):
        assert_near(found, wanted_table, 256)
    modes = row_modes(graph, X, **how)
    best = graph.log_potential(row_modes(graph, X))
    assert_allclose(graph.log_potential(modes), best, rtol=1e-12)
    assert row_marginals(graph, X[:3], max_bytes=1)[0].shape == (3, 2)


def test_impossible_rows_are_named(seed):
    """By their number among all rows, not among those of their pattern."""
    graph = ZOO["zeros_binary"](seed)
    X = np.full((3000, 6), MISSING, dtype=STATE)
    X[::2, 1] = 0
    X[1::2, 2] = 1
    X[2001, 3] = 0
    X[1001, 5] = 1
    message = "^The model gives the evidence of row 2001 the probability zero"
    rng = np.random.default_rng(seed)
    for query in (row_marginals, row_modes, lambda graph, X: row_samples(graph, X, rng)):
        with pytest.raises(ValueError, match=message):
            query(graph, X)
    log_z = row_log_partitions(graph, X)
    assert np.flatnonzero(log_z == -np.inf).tolist() == [2001]
    mask = X[2001] != MISSING
    assert mask.tolist() == [False, False, True, True, False, False]
    with pytest.raises(ValueError, match="Gibbs chains found a state of positive"):
        row_samples(graph, X[[2001]], rng, max_bytes=1)


def test_weighted_draws_that_miss_modes_say_so(seed):
    """Strong frustrated couplings: marginals are right, or called unconverged."""
    rng = np.random.default_rng(seed)
    J = np.triu(rng.choice([-2.5, 2.5], size=(10, 10)), 1)
    energy = PairwiseEnergy(J + J.T, 0.3 * rng.normal(size=10))
    how = {"method": "bpchain", "conditionals": "bp", "n_samples": 200, "random_state": seed}
    found, expected = marginals(energy, **how), marginals(energy)
    error = max(np.abs(a - b).max() for a, b in zip(found.single, expected.single, strict=True))
    assert error < 0.03 or not found.converged
    assert error < 5 * found.residual


def test_mean_field_on_an_impossible_model_has_not_converged():
    """An odd cycle of inequalities; no message proves it impossible."""
    table = np.array([[-np.inf, 0.0], [0.0, -np.inf]])
    graph = FactorGraph([2] * 3, [(0, 1), (1, 2), (2, 0)], [table] * 3)
    assert not marginals(graph, method="mean-field").converged


def test_estimators_in_the_place_of_energies():
    model = DiscreteMRF(learner="exact", alpha=0.1).fit([[0, 1], [1, 0], [1, 1]])
    for ask in (
        inference.marginals,
        inference.log_partition,
        inference.map_assignment,
        lambda energy: inference.marginal_map(energy, [0]),
        lambda energy: inference.sample(energy, 3),
    ):
        with pytest.raises(TypeError, match="such as energy_ of a DiscreteMRF; got DiscreteMRF"):
            ask(model)
