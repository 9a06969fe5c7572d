"""Sequential Monte Carlo along a path: reweight, resample, move, by adaptive steps."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._utils.log_weights import effective_sample_size, logsumexp, normalized_weights
from ..energies import Energy
from .gibbs import Product, spawn_generators, sweep

SMALLEST_STEP = 1e-9
CLOSE = 0.2  # a step is long enough at this part of the way from the ess_threshold to 1, or
CLOSEST = 0.02  # so little above the ess_threshold
NARROW = 0.95  # or when it is this near to one that is too long
PROBES = 40
LOST_STEP = 0.05  # where all particles are in states of probability zero, sweeps may lead out


class Tempering(NamedTuple):
    r"""From independent variables to an energy: :math:`p_0^{1-\beta} f^\beta`.

    With a uniform :math:`p_0` these are the tempered distributions of the energy.

    Parameters
    ----------
    reference : Product
    energy : Energy
    """

    reference: Product
    energy: Energy

    def log_density(self, X):
        """Log-density of the rows of X as a function of beta."""
        at_reference = self.reference.log_probability(X)
        if self.energy.has_latent:
            raised = self.energy.raised(X)
            return lambda beta: (1 - beta) * at_reference + raised(beta)
        value = self.energy.log_potential(X)  # may be -inf
        return lambda beta: (1 - beta) * at_reference + beta * value if beta else at_reference

    def move(self, X, beta, generators, n_sweeps):
        """Gibbs sweeps at ``beta``."""
        betas = np.full(n_sweeps + 1, beta)
        return sweep(self.energy, X, generators, betas=betas, reference=self.reference)[0]


class Interpolation(NamedTuple):
    r"""From one setting of the parameters to another:
    :math:`\theta_\beta = (1 - \beta) \theta_\mathrm{first} + \beta \theta_\mathrm{last}`.

    Parameters
    ----------
    first, last : Energy
        Of the same kind and size.
    """

    first: Energy
    last: Energy

    def log_density(self, X):
        """Log-density of the rows of X as a function of beta."""
        return self.first.along(self.last, X)

    def move(self, X, beta, generators, n_sweeps):
        """Gibbs sweeps at ``beta``."""
        energy = self.first.interpolate(self.last, beta)
        return sweep(energy, X, generators, n_sweeps=n_sweeps)[0]


@dataclass
class Climb:
    """Particles on a path, and what getting there has told.

    Attributes
    ----------
    X : ndarray of shape (n_particles, n_visible)
    log_weights : ndarray of shape (n_particles,)
        Normalised.
    ancestors : ndarray of shape (n_particles,)
        Which particle at the start each one comes from.
    log_ratio : float
        Estimate of the log of the ratio of the normalising constants, last to first.
    variance : float
        Of ``log_ratio``, from the weights of every step; it does not know of modes that no
        particle has found.
    betas : tuple of float
        Where the steps ended, from 0 to 1.
    least_ess : float
        The smallest share of effective particles after a step.
    """

    X: np.ndarray
    log_weights: np.ndarray
    ancestors: np.ndarray
    log_ratio: float = 0.0
    variance: float = 0.0
    betas: tuple = (0.0,)
    least_ess: float = 1.0

    @property
    def n_temperatures(self):
        """Steps made."""
        return len(self.betas) - 1


def resample(log_weights, n, rng):
    """Systematic resampling: n indices, each about n * weight times.

    Parameters
    ----------
    log_weights : ndarray of shape (n_particles,)
        Not necessarily normalised; if all are -inf, as if all were equal.
    n : int
    rng : Generator

    Returns
    -------
    ndarray of int of shape (n,)
        Rising.
    """
    weights = normalized_weights(log_weights, len(log_weights))
    if not weights.any():  # nothing is possible: as good as any
        weights = np.full(len(log_weights), 1.0 / len(log_weights))
    chosen = np.searchsorted(np.cumsum(weights), (rng.random() + np.arange(n)) / n, side="right")
    return np.minimum(chosen, np.flatnonzero(weights)[-1])  # sums end a rounding away from 1


def equal(n):
    """Normalised log weights that are all the same.

    Parameters
    ----------
    n : int

    Returns
    -------
    ndarray of shape (n,)
    """
    return np.full(n, -np.log(n))


def climb(path, X, generators, rng, *, ess_threshold=0.9, n_sweeps=1, log_weights=None):
    """Move particles from the beginning of a path to its end.

    Every step is the longest that leaves a share ``ess_threshold`` of effective particles, or the
    rest of the path. After a step that was cut short particles are resampled; then they move.

    Parameters
    ----------
    path : Tempering or Interpolation
    X : ndarray of shape (n_particles, n_visible)
    generators : list of Generator, see :func:`skmrf.samplers.sweep`
    rng : numpy.random.Generator
        For resampling.
    ess_threshold : float, default=0.9
    n_sweeps : int, default=1
        Sweeps after every step.
    log_weights : ndarray of shape (n_particles,), optional
        Where the particles are weighted from the start.

    Returns
    -------
    Climb
        The weights of the last step are kept, not resampled.
    """
    n = len(X)
    log_weights = equal(n) if log_weights is None else log_weights - logsumexp(log_weights)
    now = Climb(X, log_weights, np.arange(n))
    beta, step = 0.0, 1.0
    while beta < 1.0:
        if effective_sample_size(now.log_weights) < ess_threshold * n:
            now = _resampled(now, rng)
        density = path.log_density(now.X)
        reached, grown = _longest_step(density, beta, now.log_weights, ess_threshold, step)
        beta, step = reached, max(reached - beta, SMALLEST_STEP)
        now = replace(now, betas=(*now.betas, beta))
        now = _reweighted(now, grown)
        if beta < 1.0:
            now = _resampled(now, rng)
        now = replace(now, X=path.move(now.X, beta, generators, n_sweeps))
    return now


def climb_from_reference(reference, energy, n, rng, *, ess_threshold=0.9, n_sweeps=1):
    """Bring independent draws of a reference to an energy along the tempered path.

    Parameters
    ----------
    reference : Product
    energy : Energy
    n : int
        Number of particles.
    rng : numpy.random.Generator
    ess_threshold, n_sweeps
        As of :func:`climb`.

    Returns
    -------
    Climb
        With an estimate of log Z of the energy.
    list of Generator
        One for every block of particles.
    """
    generators = spawn_generators(rng, n)
    X, path = reference.sample(n, rng), Tempering(reference, energy)
    return climb(
        path, X, generators, rng, ess_threshold=ess_threshold, n_sweeps=n_sweeps
    ), generators


def _resampled(now, rng):
    """The same number of particles, each about as often as its weight says."""
    n = len(now.X)
    chosen = resample(now.log_weights, n, rng)
    return replace(now, X=now.X[chosen], log_weights=equal(n), ancestors=now.ancestors[chosen])


def _reweighted(now, log_weights):
    """Particles with new weights, which hold the growth of the normalising constant."""
    total, n = logsumexp(log_weights), len(log_weights)
    if total == -np.inf:
        return replace(now, log_weights=equal(n), log_ratio=-np.inf, variance=np.inf, least_ess=0.0)
    share = effective_sample_size(log_weights) / n
    return replace(
        now,
        log_weights=log_weights - total,
        log_ratio=now.log_ratio + total,
        variance=now.variance + (1.0 / share - 1.0) / n,
        least_ess=min(now.least_ess, share),
    )


def _longest_step(density, beta, log_weights, ess_threshold, guess):
    """The end of the longest step that keeps enough effective particles, and the weights there.

    The log of the share of effective particles falls about as the square of a short step, which
    tells where to look next, within what is known to be too short and too long.
    """
    here, rest = density(beta), 1.0 - beta
    close = min(CLOSE * (1.0 - ess_threshold), CLOSEST)
    wanted = -np.log(min(ess_threshold + 0.5 * close, 1.0 - 1e-6))
    short, long, kept = 0.0, np.inf, None
    step = min(guess, rest)
    for _ in range(PROBES):
        grown = _grown(log_weights, density(min(beta + step, 1.0)), here)
        share = effective_sample_size(grown) / len(grown)
        if share >= ess_threshold:
            short, kept = step, grown
            if step == rest or share <= ess_threshold + close:
                break
        else:
            long = step
        if short > NARROW * long or long <= SMALLEST_STEP:
            break
        step *= min(np.sqrt(wanted / max(-np.log(max(share, 1e-300)), 1e-12)), 10.0)
        if not short < step < long:
            step = 0.5 * (short + long)
        step = min(max(step, SMALLEST_STEP), rest)
    if kept is None:  # also the smallest step leaves too few, or none where nothing is possible
        short, kept = long, _grown(log_weights, density(min(beta + long, 1.0)), here)
        if (kept == -np.inf).all():
            short = min(LOST_STEP, rest)
    return (1.0 if short == rest else beta + short), kept


def _grown(log_weights, there, here):
    with np.errstate(invalid="ignore"):
        grown = log_weights + there - here
    grown[np.isnan(grown)] = -np.inf  # -inf at both ends
    return grown
