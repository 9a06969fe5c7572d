"""Tests of exact answers to queries."""

import numpy as np
import pytest
import twins
from montecarlo import check_draws
from numpy.testing import assert_allclose, assert_array_equal
from query_answers import every, posterior, some_evidence
from zoo import ZOO

from skmrf._utils.codes import STATE
from skmrf.inference import log_partition, map_assignment, marginals, sample


@pytest.mark.parametrize("method", ["auto", "exact"])
@every
def test_log_partition(name, method, seed):
    energy = ZOO[name](seed)
    for evidence in (None, {}, some_evidence(energy, seed)[0]):
        result = log_partition(energy, evidence=evidence, method=method)
        expected = twins.log_sum(posterior(energy, evidence or {})[2])
        assert_allclose(float(result), expected, rtol=1e-13, atol=1e-12)
        assert (result.lower, result.upper) == (result.value, result.value)
        assert (result.std_error, result.method) == (0.0, "exact")
        assert result.converged
        assert result.upper_is_bound


@pytest.mark.parametrize("method", ["auto", "exact"])
@every
def test_marginals(name, method, seed):
    energy = ZOO[name](seed)
    graph = energy.factor_graph()
    for evidence in (None, some_evidence(energy, seed)[0]):
        result = marginals(energy, evidence=evidence, method=method)
        states, p, _ = posterior(energy, evidence or {})
        expected = twins.single_marginals(states, p, energy.n_states)
        assert len(result.single) == energy.n_variables
        for found, table in zip(result.single, expected, strict=True):
            assert_allclose(found, table, rtol=0, atol=1e-11)
        for i, state in (evidence or {}).items():
            assert_array_equal(result.single[i], np.arange(energy.n_states[i]) == state)
        expected = twins.clique_marginals(states, p, graph)
        assert len(result.cliques) == len(graph.cliques)
        for found, table in zip(result.cliques, expected, strict=True):
            assert found.shape == table.shape
            assert_allclose(found, table, rtol=0, atol=1e-11)
        assert (result.method, result.residual, result.converged) == ("exact", 0.0, True)


@pytest.mark.parametrize("method", ["auto", "exact"])
@every
def test_map_assignment(name, method, seed):
    energy = ZOO[name](seed)
    for evidence in (None, some_evidence(energy, seed)[0]):
        result = map_assignment(energy, evidence=evidence, method=method)
        log_given = posterior(energy, evidence or {})[2]
        assert_allclose(result.log_potential, log_given.max(), rtol=1e-13, atol=1e-12)
        assert_allclose(energy.log_potential(result.states[None]), [result.log_potential])
        assert result.states.shape == (energy.n_variables,)
        assert result.states.dtype == STATE
        assert all(result.states[i] == s for i, s in (evidence or {}).items())
        assert result.optimal is True
        assert result.method == "exact"


@pytest.mark.parametrize("method", ["auto", "exact"])
@every
def test_sample(name, method, seed):
    energy = ZOO[name](seed)
    for evidence in (None, some_evidence(energy, seed)[0]):
        X = sample(energy, 5000, evidence=evidence, method=method, random_state=seed)
        assert X.shape == (5000, energy.n_variables)
        assert X.dtype == STATE
        states, p, _ = posterior(energy, evidence or {})
        check_draws(X, states, p)
