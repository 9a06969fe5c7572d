"""Variational free energy of mixture distributions in models with neural potentials.

Expectations are computed by quadrature. The mixture distributions (beliefs) are improved by
natural-gradient steps. Each component takes the Newton-like steps of Lin, Khan and Schmidt (2019),
and its precision matrix stays positive definite (Lin, Schmidt and Khan, 2020).
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from .._utils.log_weights import logsumexp_along
from .mixtures import Mixture
from .quadrature import Expectations, integrate, quadrature

MIN_DEVIATION = 1e-3  # smallest standard deviation of a component, in units of the data
FIRST_STEP, LARGEST_STEP = 0.2, 0.5


@dataclass(frozen=True)
class QuadratureSettings:
    """Settings of the variational free energy: quadrature points, entropy and covariances.

    Parameters
    ----------
    n_points : int, default=7
        Number of Gauss-Hermite points of a continuous variable. A pair has the square of it.
    entropy : {"joint", "bethe"}, default="joint"
        "joint" uses the entropy of the joint mixture, which gives a lower bound of log Z. "bethe"
        uses the entropy of the Bethe free energy.
    n_draws : int, default=64
        Number of points per component for the joint entropy.
    diagonal : bool, default=False
        Whether components have diagonal covariances, as in the paper.
    """

    n_points: int = 7
    entropy: str = "joint"
    n_draws: int = 64
    diagonal: bool = False


# Entropies ---------------------------------------------------------------------------------


def _joint_log_density(mixture, n_draws):
    """Return the expected log density of a mixture under each of its own components.

    The mixture density is b. If there are several components, the expectation under a component is
    a mean over sample points of this component. With r_l the responsibility of component l at a
    point and v_l its score there, the gradient of log b is g = sum r_l v_l and its Hessian sum r_l
    (v_l v_l' - P_l) - g g' for the precisions P_l.
    """
    if mixture.n_components == 1:
        return _single_log_density(mixture)
    X, states = _sample_points(mixture, n_draws)
    L, S, _ = X.shape
    logs = mixture.component_log_densities(X.reshape(L * S, -1)) + mixture.log_weights[:, None]
    total = logsumexp_along(logs)
    shares = np.exp(logs - total).reshape(L, L, S)  # component l at the points of component k
    precisions = np.linalg.inv(mixture.covariances)
    residuals = X[..., mixture.numbers] - mixture.means[:, None, None]
    scores = -np.einsum("lij,lksj->lksi", precisions, residuals, optimize=True)
    weighted = shares[..., None] * scores
    slopes = weighted.sum(axis=0)
    curvatures = np.einsum("lksi,lksj->kij", weighted, scores, optimize=True)
    curvatures -= np.einsum("ksi,ksj->kij", slopes, slopes, optimize=True)
    curvatures -= np.einsum("lks,lij->kij", shares, precisions, optimize=True)
    gains = _table_gains(mixture, logs.reshape(L, L, S), states)
    values = total.reshape(L, S).mean(axis=1)
    return Expectations(values, slopes.mean(axis=1), curvatures / S, gains)


def _sample_points(mixture, n_draws):
    """Return quasi-random samples of each component of a mixture, and their discrete states.

    The points have shape (n_components, n, n_variables).
    """
    m, D = mixture.means.shape[1], mixture.tables.shape[1]
    normal, uniform = _sobol_points(m, D, n_draws)
    totals = np.cumsum(mixture.tables, axis=2)[:, None]
    states = (uniform[None, :, :, None] > totals).sum(axis=3)
    states = np.minimum(states, mixture.n_states[mixture.discrete] - 1)
    X = np.empty((mixture.n_components, len(normal), m + D))
    X[..., mixture.numbers] = mixture.means[:, None] + normal @ mixture.roots.transpose(0, 2, 1)
    X[..., mixture.discrete] = states
    return X, states


@lru_cache(maxsize=32)
def _sobol_points(m, D, n):
    """Return Sobol points of m standard normal and D uniform variables, and their mirror images.

    The mirror image of a point has the negative normal variables and the same uniform variables.
    """
    from scipy.stats import qmc  # slow to import

    uniform = qmc.Sobol(max(m + D, 1), scramble=True, rng=0).random(n)
    normal = ndtri(np.clip(uniform[:, :m], 1e-9, 1 - 1e-9))
    states = uniform[:, m : m + D]
    return np.concatenate([normal, -normal]), np.concatenate([states, states])


def _table_gains(mixture, logs, states):
    """Average a log density over samples in which one discrete variable is set to each state.

    There is one expectation for each component of the mixture.
    """
    gains = np.zeros_like(mixture.tables)
    log_tables = np.maximum(mixture.log_tables, -700.0)
    for d in range(gains.shape[1]):
        without = logs - np.take(log_tables[:, d], states[:, :, d], axis=1)
        for s in range(mixture.n_states[mixture.discrete[d]]):
            changed = without + log_tables[:, d, s][:, None, None]
            gains[:, d, s] = logsumexp_along(changed, axis=0).mean(axis=1)
    return gains


def _single_log_density(mixture):
    m = mixture.means.shape[1]
    value = -0.5 * m * (1 + np.log(2 * np.pi))
    value -= 0.5 * np.linalg.slogdet(mixture.covariances)[1]
    log_tables = np.maximum(mixture.log_tables, -700.0)
    value = value + (mixture.tables * log_tables).sum(axis=(1, 2))
    precisions = np.linalg.inv(mixture.covariances)
    return Expectations(value, np.zeros_like(mixture.means), -precisions, log_tables)


@np.errstate(invalid="ignore")  # for states of probability zero, whose weight is zero, too
def _bethe_terms(mixture, edges, degrees, grid):
    """Return the entropy terms of the Bethe free energy at the quadrature points.

    The terms are ``(d_i - 1) log b_i`` for variables of degree ``d_i``, and ``-log b_ij`` for
    edges.
    """
    nodes = np.empty(grid.points.nodes.shape)
    for i in range(len(nodes)):
        one = mixture.marginal([i])
        nodes[i] = (degrees[i] - 1) * one.log_density(grid.points.nodes[i][:, None])
    pairs = np.empty(grid.points.edge_weights.shape)
    points = grid.points.edges.reshape(len(edges), 2, pairs.shape[1])
    for e, (i, j) in enumerate(edges):
        x = points[e].T if i < j else points[e, ::-1].T
        two = mixture.marginal([min(i, j), max(i, j)])
        pairs[e] = -two.log_density(x)
    # states of probability zero have weight zero
    return np.nan_to_num(nodes, neginf=0.0, posinf=0.0), np.nan_to_num(pairs, posinf=0.0)


# Ascent ------------------------------------------------------------------------------------


def free_energy(energy, mixture, rule):
    """Return the negative free energy of a mixture (an estimate of log Z) and its derivatives.

    The derivatives follow from expectations of log f - log b, for the model f and the mixture b.
    With ``entropy="joint"`` the value is a lower bound of log Z up to the error of the quadrature.
    If the beliefs were optimised at the same points, this error makes the value too large.

    Parameters
    ----------
    energy : NeuralEnergy
        Model.
    mixture : Mixture
        Beliefs b.
    rule : QuadratureSettings
        Settings of the expectations.

    Returns
    -------
    value : float
        Minus the free energy, in nats.
    terms : Expectations
        Expectations of log f - log b under each component.
    """
    grid = quadrature(mixture, energy.edges, rule.n_points)
    nodes, edges = energy.clique_values(grid.points)
    if rule.entropy == "bethe":
        entropy_terms = _bethe_terms(mixture, energy.edges, energy.degrees, grid)
        nodes, edges = nodes + entropy_terms[0], edges + entropy_terms[1]
    terms = integrate(mixture, energy.edges, grid, nodes, edges).add(
        _quadratic_expectations(energy, mixture)
    )
    if rule.entropy == "joint":
        terms = terms.add(_joint_log_density(mixture, rule.n_draws // 2), -1.0)
    return float(np.exp(mixture.log_weights) @ terms.values), terms


def _quadratic_expectations(energy, mixture):
    """Return the expectation of the log-potential's quadratic term under each mixture component."""
    P, centred = energy.precision, mixture.means - energy.mean
    slopes = -centred @ P
    values = 0.5 * (slopes * centred).sum(axis=1)
    values -= 0.5 * np.einsum("ij,kij->k", P, mixture.covariances)
    curvatures = np.broadcast_to(-P, mixture.covariances.shape)
    return Expectations(values, slopes, curvatures, np.zeros_like(mixture.tables))


def ascend(mixture, terms, step, diagonal=False):
    """Return the mixture after a natural-gradient step on all its parameters.

    Parameters
    ----------
    mixture : Mixture
        Beliefs before the step.
    terms : Expectations
        Expectations of log f - log b, from :func:`free_energy`.
    step : float
        Step size.
    diagonal : bool, default=False
        Whether covariances are kept diagonal.

    Returns
    -------
    Mixture
        Beliefs after the step.
    """
    C = mixture.covariances
    G = -terms.curvatures
    if diagonal:
        C, G = C * np.eye(G.shape[1]), G * np.eye(G.shape[1])
    precisions = np.linalg.inv(C)
    moved = precisions + step * G + 0.5 * step**2 * (G @ C @ G)
    moved = 0.5 * (moved + moved.transpose(0, 2, 1))
    values, vectors = np.linalg.eigh(moved)
    variances = 1.0 / np.clip(values, 1e-8, MIN_DEVIATION**-2)
    covariances = (vectors * variances[:, None]) @ vectors.transpose(0, 2, 1)
    means = mixture.means + step * np.einsum("kij,kj->ki", covariances, terms.slopes)
    log_weights = mixture.log_weights + step * (terms.values - terms.values.mean())
    log_weights = np.maximum(log_weights - logsumexp_along(log_weights), -20.0)
    tables = _step_tables(mixture, step * terms.gains)
    return replace(
        mixture,
        log_weights=log_weights - logsumexp_along(log_weights),
        means=means,
        covariances=covariances,
        tables=tables,
    )


def _step_tables(mixture, gains):
    if not mixture.tables.shape[1]:
        return mixture.tables
    legal = np.arange(mixture.tables.shape[2]) < mixture.n_states[mixture.discrete][:, None]
    logs = np.where(legal, np.log(np.maximum(mixture.tables, 1e-30)) + gains, -np.inf)
    return np.exp(logs - logsumexp_along(logs, axis=2, keepdims=True))


class InferenceResult(NamedTuple):
    """Result of :func:`infer`: mixture distribution, negative free energy and convergence.

    Attributes
    ----------
    mixture : Mixture
        Beliefs.
    value : float
        Minus the free energy, in nats.
    step : float
        Step size with which to continue.
    converged : bool
        Whether the ascent converged.
    n_iter : int
        Number of iterations.
    """

    mixture: Mixture
    value: float
    step: float
    converged: bool
    n_iter: int


def infer(energy, start, rule, *, max_iter=100, tol=1e-4, step=FIRST_STEP):
    """Minimise the free energy over mixture distributions, starting from a given mixture.

    A step that decreases the value (minus the free energy) is undone, and the step size is halved.

    Parameters
    ----------
    energy : NeuralEnergy
        Model.
    start : Mixture
        Beliefs at which the ascent starts.
    rule : QuadratureSettings
        Settings of the expectations.
    max_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=1e-4
        Stop when the value has increased by less than this, in nats, three times in a row.
    step : float, default=0.2
        Step size of the first step.

    Returns
    -------
    InferenceResult
        Beliefs and their value.
    """
    mixture = start
    value, terms = free_energy(energy, mixture, rule)
    small = 0
    for n_iter in range(1, max_iter + 1):
        moved = ascend(mixture, terms, step, rule.diagonal)
        new_value, new_terms = free_energy(energy, moved, rule)
        if not new_value > value - tol:
            step *= 0.5
            if step < 1e-4:
                return InferenceResult(mixture, value, FIRST_STEP, True, n_iter)
            continue
        small = small + 1 if new_value - value < tol else 0
        mixture, value, terms = moved, new_value, new_terms
        step = min(1.2 * step, LARGEST_STEP)
        if small == 3:
            return InferenceResult(mixture, value, step, True, n_iter)
    return InferenceResult(mixture, value, step, False, max_iter)
