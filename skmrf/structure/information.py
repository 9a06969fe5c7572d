"""Covariance of the estimated parameters, computed from the Fisher information of the model."""

from itertools import pairwise, product

import numpy as np

from .._utils.codes import STATE
from .._utils.log_weights import normalized_weights
from ..energies.log_linear import contrasts, pair_basis
from ..samplers import spawn_generators, sweep
from .regression import RIDGE

MAX_STATISTICS = 2_000
MAX_ENUMERATED_STATES = 2**14
MIN_DRAWS, DRAWS_PER_STATISTIC = 20_000, 10
N_CHAINS, BURN_IN, THINNING = 1_024, 100, 5


def sufficient_statistics(form, X):
    """Return the sufficient statistics of each row; single variables come first, then edges."""
    q = form.layout.n_states
    columns = [contrasts(q[i])[X[:, i]] for i in range(len(form.unary_start) - 1)]
    for i, j in form.edges.tolist():
        columns.append(pair_basis(form.statistic, q[i], q[j])[:, X[:, i], X[:, j]].T)
    return np.hstack(columns)


def fisher_information(energy, rows, rng):
    """Return the Fisher information of one row: the covariance of the sufficient statistics.

    It is a sum over all joint states if these are few. Otherwise it is estimated from Gibbs chains
    that start at the rows.
    """
    if np.prod(energy.n_states.astype(float)) <= MAX_ENUMERATED_STATES:
        X = np.array(list(product(*map(range, energy.n_states))), dtype=STATE)
        p = normalized_weights(energy.log_potential(X), len(X))
        return _covariance([(sufficient_statistics(energy.form, X), p)])
    n_statistics = sum(v.size for v in energy.theta.values())
    n_draws = max(MIN_DRAWS, DRAWS_PER_STATISTIC * n_statistics)
    equal = np.full(N_CHAINS, 1.0 / N_CHAINS)
    parts = (
        (sufficient_statistics(energy.form, X), equal)
        for X in _sample_chains(energy, rows, n_draws, rng)
    )
    # corrects the bias of the inverse of a sample covariance
    return _covariance(parts) * (n_draws / (n_draws - n_statistics - 1))


def _sample_chains(energy, rows, n_draws, rng):
    """Run Gibbs chains; after burn-in, yield the states of all chains once every few sweeps."""
    p = rows.weights / rows.count
    X = rows.X[rng.choice(len(rows.X), size=N_CHAINS, p=p)]
    generators = spawn_generators(rng, N_CHAINS)
    X, _ = sweep(energy, X, generators, n_sweeps=BURN_IN)
    for _ in range(-(-n_draws // N_CHAINS)):
        X, _ = sweep(energy, X, generators, n_sweeps=THINNING)
        yield X


def _covariance(parts):
    """Return the covariance of statistics that come in several parts, each of total weight 1."""
    shift, mean, second, n_parts = None, 0.0, 0.0, 0
    for T, weights in parts:
        shift = (
            weights @ T if shift is None else shift
        )  # close to the mean, to reduce rounding errors
        centred = T - shift
        mean = mean + weights @ centred
        second = second + centred.T @ (weights[:, None] * centred)
        n_parts += 1
    return second / n_parts - np.outer(mean, mean) / n_parts**2


def parameter_covariances(energy, rows, rng):
    """Return, for each edge, the covariance matrix of its maximum likelihood parameters.

    The rows must have no missing entries. The ridge of the nodewise regressions is added to the
    information, so directions with little information have a large but finite variance.
    """
    if not len(energy.form.edges):
        return []
    total = rows.count * fisher_information(energy, rows, rng)
    inverse = np.linalg.inv(total + RIDGE * np.eye(len(total)))
    first = energy.form.unary_start[-1]
    bounds = first + energy.form.pair_start
    return [inverse[a:b, a:b] for a, b in pairwise(bounds.tolist())]
