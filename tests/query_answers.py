"""Inference queries with their methods, and expected results by enumeration."""

import numpy as np
import pytest
import twins
from zoo import ZOO, enumerate_states

from skmrf._utils.results import Assignment, LogPartition, Marginals
from skmrf.inference import log_partition, map_assignment, marginal_map, marginals, sample

PROPAGATION = ["schedule", "damping", "max_iter", "tol"]
CHAIN = ["conditionals", "order", "clip"]
METHODS = {
    log_partition: {
        "exact": [],
        "ais": [
            "n_chains",
            "n_temperatures",
            "schedule",
            "reference",
            "start",
            "max_width",
            "n_jobs",
        ],
        "bpchain": ["n_samples", *CHAIN, "settings", "max_width"],
        "bethe": PROPAGATION,
        "trw": PROPAGATION,
        "mean-field": ["max_iter", "tol"],
    },
    marginals: {
        "exact": [],
        "gibbs": ["n_chains", "n_sweeps", "n_records", "n_jobs"],
        "bp": PROPAGATION,
        "trw": PROPAGATION,
        "mean-field": ["max_iter", "tol"],
        "bpchain": ["n_samples", *CHAIN],
    },
    map_assignment: {
        "exact": [],
        "local-search": ["n_windows", "n_chains", "n_sweeps", "n_jobs"],
        "annealing": ["n_chains", "n_sweeps", "n_jobs"],
        "decimation": PROPAGATION,
    },
    marginal_map: {"exact": [], "bp": PROPAGATION},
    sample: {
        "exact": [],
        "gibbs": ["n_sweeps", "n_jobs"],
        "bpchain": ["n_steps", *CHAIN],
    },
}

every = pytest.mark.parametrize("name", ZOO)
each_method = pytest.mark.parametrize(
    ("query", "method"), [(q, m) for q, methods in METHODS.items() for m in methods]
)


def ask(query, energy, **how):
    """Call an inference function by name; samples and marginal MAP variables are set."""
    second = {sample: [20], marginal_map: [range(min(2, energy.n_variables))]}.get(query, [])
    return query(energy, *second, **how)


def some_evidence(energy, seed):
    """Return random evidence, all states, and their probabilities and log f given the evidence."""
    rng = np.random.default_rng(seed)
    states, log_f = enumerate_states(energy)
    x = states[rng.choice(np.flatnonzero(log_f > -np.inf))]
    observed = rng.random(energy.n_variables) < 0.4
    evidence = {int(i): int(x[i]) for i in np.flatnonzero(observed)}
    return evidence, *posterior(energy, evidence)


def posterior(energy, evidence):
    states, log_f = enumerate_states(energy)
    log_given = np.where(twins.consistent(states, evidence), log_f, -np.inf)
    return states, np.exp(log_given - twins.log_sum(log_given)), log_given


def same(left, right):
    """Return True if two results of inference are equal in all fields."""
    if isinstance(left, np.ndarray):
        return np.array_equal(left, right)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, Marginals | Assignment | LogPartition):
        return all(same(v, getattr(right, k)) for k, v in vars(left).items())
    return left == right


def assert_near(found, expected, n_independent):
    """Check that frequencies are within five standard errors of probabilities."""
    sigma = np.sqrt(np.maximum(expected * (1 - expected), 0.0) / n_independent)
    excess = np.abs(found - expected) / (5 * sigma + 5 / n_independent)
    assert excess.max() < 1, f"a marginal is {5 * excess.max():.1f} sigma off"
