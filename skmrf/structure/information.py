"""Standard errors from the covariance of the statistics under the model."""

from itertools import pairwise, product

import numpy as np

from .._utils.codes import STATE
from .._utils.log_weights import normalized_weights
from ..energies.log_linear import contrasts, pair_basis
from ..samplers import spawn_generators, sweep
from .regression import RIDGE

MOST_STATISTICS = 2_000
ENUMERABLE = 2**14  # joint states
FEWEST_DRAWS, DRAWS_A_STATISTIC = 20_000, 10
CHAINS, BURN_IN, BETWEEN = 1_024, 100, 5


def statistics(form, X):
    """The statistics of every row, those of variables before those of edges."""
    q = form.layout.n_states
    columns = [contrasts(q[i])[X[:, i]] for i in range(len(form.unary_start) - 1)]
    for i, j in form.edges.tolist():
        columns.append(pair_basis(form.statistic, q[i], q[j])[:, X[:, i], X[:, j]].T)
    return np.hstack(columns)


def information(energy, rows, rng):
    """Covariance matrix of the statistics: the Fisher information of one row.

    By a sum over all joint states where these are few, else from Gibbs chains that start at the
    rows.
    """
    if np.prod(energy.n_states.astype(float)) <= ENUMERABLE:
        X = np.array(list(product(*map(range, energy.n_states))), dtype=STATE)
        p = normalized_weights(energy.log_potential(X), len(X))
        return _covariance([(statistics(energy.form, X), p)])
    n_statistics = sum(v.size for v in energy.theta.values())
    n_draws = max(FEWEST_DRAWS, DRAWS_A_STATISTIC * n_statistics)
    equal = np.full(CHAINS, 1.0 / CHAINS)
    parts = ((statistics(energy.form, X), equal) for X in _draws(energy, rows, n_draws, rng))
    # the mean of the inverse of a sample covariance is too large by this factor
    return _covariance(parts) * (n_draws / (n_draws - n_statistics - 1))


def _draws(energy, rows, n_draws, rng):
    """States of chains, some sweeps apart."""
    p = rows.weights / rows.count
    X = rows.X[rng.choice(len(rows.X), size=CHAINS, p=p)]
    generators = spawn_generators(rng, CHAINS)
    X, _ = sweep(energy, X, generators, n_sweeps=BURN_IN)
    for _ in range(-(-n_draws // CHAINS)):
        X, _ = sweep(energy, X, generators, n_sweeps=BETWEEN)
        yield X


def _covariance(parts):
    """Of equally likely parts (statistics, weights that sum to one)."""
    shift, mean, second, n_parts = None, 0.0, 0.0, 0
    for T, weights in parts:
        shift = weights @ T if shift is None else shift  # near the mean, for the sake of rounding
        centred = T - shift
        mean = mean + weights @ centred
        second = second + centred.T @ (weights[:, None] * centred)
        n_parts += 1
    return second / n_parts - np.outer(mean, mean) / n_parts**2


def parameter_covariances(energy, rows, rng):
    """Covariance matrix of the estimated parameters of every edge.

    Those of maximum likelihood, ``rows`` being complete. Directions that the model hardly varies in
    have a large variance, by the ridge of the regressions on neighbours.
    """
    if not len(energy.form.edges):
        return []
    known = rows.count * information(energy, rows, rng)
    inverse = np.linalg.inv(known + RIDGE * np.eye(len(known)))
    first = energy.form.unary_start[-1]
    bounds = first + energy.form.pair_start
    return [inverse[a:b, a:b] for a, b in pairwise(bounds.tolist())]
