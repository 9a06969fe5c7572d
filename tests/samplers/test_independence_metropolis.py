"""Tests of Metropolis steps whose proposals are draws of chained belief propagation."""

from itertools import combinations

import numpy as np
import pytest
import twins
from chained_models import chain_of, density, model
from montecarlo import check_draws
from numpy.testing import assert_allclose, assert_array_equal
from zoo import ZOO, enumerate_states

from skmrf._utils.codes import STATE
from skmrf.energies import FactorGraph
from skmrf.samplers import chain_states, metropolis
from skmrf.variational import Propagation


class Uniforms:
    """A generator that says what it is told."""

    def __init__(self, u):
        self.u = u

    def random(self, n):
        assert n == len(self.u)
        return self.u


def acceptance(log_weights):
    """Probability that a chain at state i takes the proposal j, found by halving intervals of u."""
    n = len(log_weights)
    here, there = (k.ravel() for k in np.indices((n, n)))
    low, high = np.zeros(n * n), np.ones(n * n)  # 1 - u accepted up to between these

    def accepted(v):
        X, weights, taken = metropolis(
            here[:, None],
            log_weights[here],
            there[:, None],
            log_weights[there],
            Uniforms(np.minimum(1.0 - v, 1.0 - 2**-53)),
        )
        moved = np.where(taken, there, here)
        assert_array_equal(X[:, 0], moved)
        assert_array_equal(weights, log_weights[moved])
        return taken

    for _ in range(60):
        middle = 0.5 * (low + high)
        taken = accepted(middle)
        low, high = np.where(taken, middle, low), np.where(taken, high, middle)
    return np.where(low > 1 - 1e-14, 1.0, low).reshape(n, n)


@pytest.mark.parametrize("name", ["orders", "zero_one", "zeros", "zeros_binary", "frustrated"])
def test_metropolis_leaves_the_model_invariant(name, seed):
    graph = model(name, seed)
    log_f = np.sort(enumerate_states(graph)[1])
    log_f = np.concatenate([log_f[:30], log_f[-30:]])  # the least and the most probable states
    p = np.exp(log_f - twins.log_sum(log_f))
    q = np.random.default_rng(seed).dirichlet(np.ones(len(p)))
    taken = acceptance(log_f - np.log(q))
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.minimum(1.0, p / q / (p / q)[:, None])
    expected[p == 0] = 1.0
    assert_allclose(taken, expected, rtol=0, atol=1e-13)
    K = q * taken
    K[np.diag_indices(len(p))] += 1.0 - K.sum(axis=1)
    assert K.min() > -1e-12
    assert_allclose(p @ K, p, rtol=0, atol=1e-12)
    assert_allclose(p[:, None] * K, (p[:, None] * K).T, rtol=0, atol=1e-13)  # reversible
    wrong = q * acceptance(0.9 * log_f - np.log(q))
    wrong[np.diag_indices(len(p))] += 1.0 - wrong.sum(axis=1)
    assert np.abs(p @ wrong - p).max() > 1e-6


@pytest.mark.parametrize("name", ["frustrated", "orders", "zeros"])
def test_metropolis_chains_approach_the_model(name, seed):
    """Proposals of one undamped iteration with a clip; without steps they are not of the model."""
    graph = model(name, seed)
    states, p = twins.distribution(graph)
    chain = chain_of(graph, how=Propagation("flooding", 0.0, 1, 0.0), clip=0.05)
    rng = np.random.default_rng(seed)
    q = density(chain, graph)
    assert np.max(p / q) < 200
    X, rate = chain_states(chain, graph, 4000, 0, rng)
    assert rate == 1.0
    check_draws(X, states, q)
    with pytest.raises(AssertionError, match="was drawn"):
        check_draws(X, states, p)
    X, rate = chain_states(chain, graph, 4000, int(15 * np.max(p / q)), rng)
    assert 0.0 < rate < 1.0
    assert X.dtype == STATE
    check_draws(X, states, p)


def test_metropolis_with_exact_proposals_takes_them_all(seed):
    graph = ZOO["orders"](seed)
    states, p = twins.distribution(graph)
    chain = chain_of(graph, "exact")
    X, rate = chain_states(chain, graph, 3000, 2, np.random.default_rng(seed))
    assert rate > 1 - 1e-9
    check_draws(X, states, p)


def test_metropolis_chains_are_independent(seed):
    """Draws that come together by prefix are dealt out at random."""
    graph = FactorGraph([2, 2], [(0,), (1,)], [[0.0, 0.0], [0.0, 0.0]])
    X, _ = chain_states(chain_of(graph), graph, 20_000, 1, np.random.default_rng(seed))
    for i, j in combinations(range(2), 2):
        assert abs(np.corrcoef(X[:, i], X[:, j])[0, 1]) < 0.04
    assert abs(np.corrcoef(X[1:, 0], X[:-1, 0])[0, 1]) < 0.04
