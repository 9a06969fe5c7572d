"""Sequential Monte Carlo along a path of distributions, with adaptive steps.

Each step along the path reweights, resamples and moves the particles.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._utils.interrupts import check_time
from .._utils.log_weights import effective_sample_size, logsumexp, normalized_weights
from .._utils.namespaces import extract, insert, is_numpy, namespace
from ..energies import Energy
from .gibbs import Product, spawn_generators, sweep

SMALLEST_STEP = 1e-9
# The search of a step ends when its ESS exceeds ess_threshold by less than CLOSEST, and by less
# than the fraction CLOSE of 1 - ess_threshold, or when it is longer than the fraction NARROW of a
# step that is too long.
CLOSE = 0.2
CLOSEST = 0.02
NARROW = 0.95
MAX_TRIALS = 40
SHORTEST, N_LENGTHS = 2.0**-13, 14  # step on a device, and lengths that are tried at once
LOST_STEP = 0.05  # if all particles have probability zero, sweeps may reach possible states


class Tempering(NamedTuple):
    r"""Path of distributions :math:`p_0^{1-\beta} f^\beta` from a reference to a model.

    With a uniform :math:`p_0` these are the tempered distributions of the energy.

    Parameters
    ----------
    reference : Product
        Distribution :math:`p_0` of independent variables, at beta = 0.
    energy : Energy
        Model with the potential :math:`f`, at beta = 1.
    """

    reference: Product
    energy: Energy

    def log_density(self, X):
        """Return a function of beta: the log-density of each row of X at position beta of the path.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_visible)
            State codes.

        Returns
        -------
        callable
            Function that takes beta and returns an ndarray of shape (n_rows,): unnormalised
            log-densities in nats.
        """
        at_reference = self.reference.log_probability(X)
        if self.energy.has_latent:
            raised = self.energy.raised(X)
            return lambda beta: (1 - beta) * at_reference + raised(beta)
        value = self.energy.log_potential(X)  # may be -inf
        if not is_numpy(X):
            return lambda beta: (1 - beta) * at_reference + beta * value
        return lambda beta: (1 - beta) * at_reference + beta * value if beta else at_reference

    def move(self, X, beta, generators, n_sweeps):
        """Move states by Gibbs sweeps of the model at the inverse temperature ``beta``.

        Parameters
        ----------
        X : ndarray of shape (n_chains, n_visible)
            State codes.
        beta : float in [0, 1]
            Inverse temperature.
        generators : list of numpy.random.Generator
            One generator per block of chains, from :func:`skmrf.samplers.spawn_generators`.
        n_sweeps : int
            Number of sweeps.

        Returns
        -------
        ndarray of shape (n_chains, n_visible)
            State codes after the sweeps.
        """
        betas = namespace(beta).full(n_sweeps + 1, beta)
        return sweep(self.energy, X, generators, betas=betas, reference=self.reference)[0]


class Interpolation(NamedTuple):
    r"""Path of models between two parameter vectors of the same kind of energy.

    .. math:: \theta_\beta = (1 - \beta) \theta_\mathrm{first} + \beta \theta_\mathrm{last}

    Parameters
    ----------
    first : Energy
        Energy at beta = 0.
    last : Energy
        Energy at beta = 1, of the same class and size.
    """

    first: Energy
    last: Energy

    def log_density(self, X):
        """Return a function of beta: the log-density of each row of X at position beta of the path.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_visible)
            State codes.

        Returns
        -------
        callable
            Function that takes beta and returns an ndarray of shape (n_rows,): unnormalised
            log-densities in nats.
        """
        return self.first.along(self.last, X)

    def move(self, X, beta, generators, n_sweeps):
        """Move states by Gibbs sweeps of the model at position ``beta`` of the path.

        Parameters
        ----------
        X : ndarray of shape (n_chains, n_visible)
            State codes.
        beta : float in [0, 1]
            Position on the path.
        generators : list of numpy.random.Generator
            One generator per block of chains, from :func:`skmrf.samplers.spawn_generators`.
        n_sweeps : int
            Number of sweeps.

        Returns
        -------
        ndarray of shape (n_chains, n_visible)
            State codes after the sweeps.
        """
        energy = self.first.interpolate(self.last, beta)
        return sweep(energy, X, generators, n_sweeps=n_sweeps)[0]


@dataclass
class SMCResult:
    """Weighted particles of sequential Monte Carlo, with diagnostics of the run.

    Attributes
    ----------
    X : ndarray of shape (n_particles, n_visible)
        State codes of the particles.
    log_weights : ndarray of shape (n_particles,)
        Normalised log weights.
    ancestors : ndarray of shape (n_particles,)
        Index of the particle at the start of the path from which each particle descends.
    log_ratio : float
        Estimate of the log of the ratio of the normalising constants, last to first, in nats.
    variance : float
        Estimated variance of ``log_ratio``, from the weights of every step. It ignores modes that
        no particle has found.
    betas : tuple of float
        Inverse temperatures at the ends of the steps, from 0 to 1; on a device of JAX only the
        last one.
    n_temperatures : int
        Number of steps along the path.
    least_ess : float
        Smallest effective sample size after a step, as a fraction of the number of particles.
    """

    X: np.ndarray
    log_weights: np.ndarray
    ancestors: np.ndarray
    log_ratio: float = 0.0
    variance: float = 0.0
    betas: tuple = (0.0,)
    n_temperatures: int = 0
    least_ess: float = 1.0


def resample(log_weights, n, rng):
    """Draw n indices by systematic resampling: each index occurs about n * weight times.

    Parameters
    ----------
    log_weights : ndarray of shape (n_particles,)
        Log weights, not necessarily normalised. If all are -inf, equal weights are used.
    n : int
        Number of indices.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray of int of shape (n,)
        Indices in increasing order.
    """
    weights = normalized_weights(log_weights, len(log_weights))
    if not is_numpy(weights):
        xp = namespace(weights)
        chosen = xp.searchsorted(
            xp.cumsum(weights), (rng.random() + xp.arange(n)) / n, side="right"
        )
        return xp.minimum(chosen, len(weights) - 1)
    if not weights.any():  # all particles have probability zero
        weights = np.full(len(log_weights), 1.0 / len(log_weights))
    chosen = np.searchsorted(np.cumsum(weights), (rng.random() + np.arange(n)) / n, side="right")
    return np.minimum(chosen, np.flatnonzero(weights)[-1])  # rounding: the sum can be below 1


def run_if(condition, move, arrays, rng):
    """Return ``move(arrays, rng)`` if a condition holds, else the same tuple of arrays.

    Parameters
    ----------
    condition : bool, or array of JAX
        Condition.
    move : callable
        Function of the arrays and a source of randomness that returns arrays of the same shapes.
    arrays : tuple of arrays
        Arrays.
    rng : numpy.random.Generator, or DeviceChains
        Source of randomness.

    Returns
    -------
    tuple of arrays
        New arrays, or the given ones.
    """
    if isinstance(rng, np.random.Generator):
        return move(arrays, rng) if condition else arrays
    return rng.run_if(condition, move, arrays)


def equal_log_weights(n):
    """Return n equal log weights -log n, so that the weights sum to one.

    Parameters
    ----------
    n : int
        Number of particles.

    Returns
    -------
    ndarray of shape (n,)
        Log weights -log n.
    """
    return np.full(n, -np.log(n))


def run_smc(path, X, generators, rng, *, ess_threshold=0.9, n_sweeps=1, log_weights=None):
    """Move particles from the start to the end of a path by sequential Monte Carlo.

    Every step is the longest one that keeps the effective sample size at ``ess_threshold`` or
    above, or the rest of the path if that is shorter. After every step but the last one the
    particles are resampled. After every step they are moved by Gibbs sweeps.

    Parameters
    ----------
    path : Tempering or Interpolation
        Path of distributions.
    X : ndarray of shape (n_particles, n_visible)
        State codes of the particles at the beginning of the path.
    generators : list of numpy.random.Generator, or DeviceChains
        One generator per block of particles, from :func:`skmrf.samplers.spawn_generators`. On a
        device of JAX, where all particles are drawn together, ``rng`` is used instead.
    rng : numpy.random.Generator, or DeviceChains
        Source of randomness of the resampling.
    ess_threshold : float, default=0.9
        Smallest effective sample size after a step, as a fraction of the number of particles.
    n_sweeps : int, default=1
        Number of Gibbs sweeps after every step.
    log_weights : ndarray of shape (n_particles,), optional
        Log weights of the particles at the beginning. By default all are equal.

    Returns
    -------
    SMCResult
        Particles at the end of the path, with the weights of the last step.

    Raises
    ------
    TimeoutError
        If a time limit is exceeded before the end of the path.
    """
    n = len(X)
    log_weights = (
        equal_log_weights(n) if log_weights is None else log_weights - logsumexp(log_weights)
    )
    particles = SMCResult(X, log_weights, np.arange(n))
    if not is_numpy(X):
        return _run_on_device(path, particles, rng, ess_threshold, n_sweeps)
    beta, step = 0.0, 1.0
    while beta < 1.0:
        check_time()
        if effective_sample_size(particles.log_weights) < ess_threshold * n:
            particles = _resample_particles(particles, rng)
        density = path.log_density(particles.X)
        reached, new_log_weights = _longest_step(
            density, beta, particles.log_weights, ess_threshold, step
        )
        beta, step = reached, max(reached - beta, SMALLEST_STEP)
        betas, count = (*particles.betas, beta), particles.n_temperatures + 1
        particles = replace(particles, betas=betas, n_temperatures=count)
        particles = _reweight_particles(particles, new_log_weights)
        if beta < 1.0:
            particles = _resample_particles(particles, rng)
        particles = replace(particles, X=path.move(particles.X, beta, generators, n_sweeps))
    return particles


def _run_on_device(path, form, chains, ess_threshold, n_sweeps):
    """Return the result of :func:`run_smc` in a compiled function of JAX."""
    n = len(form.X)

    def advance(arrays, chains):
        particles = insert(form, arrays)
        few = effective_sample_size(particles.log_weights) < ess_threshold * n
        particles = _resample_if(few, particles, chains)
        density = path.log_density(particles.X)
        beta, log_weights = _longest_step_on_device(
            density, particles.betas[0], particles.log_weights, ess_threshold
        )
        particles = _resample_if(beta < 1.0, _reweight_particles(particles, log_weights), chains)
        X = path.move(particles.X, beta, chains, n_sweeps)
        count = particles.n_temperatures + 1
        return extract(replace(particles, X=X, betas=(beta,), n_temperatures=count))

    arrays = chains.run_while(lambda a: a["betas"][0] < 1.0, advance, extract(form))
    return insert(form, arrays)


def _resample_if(condition, particles, chains):
    """Return particles that are resampled by weight if a condition of JAX holds."""
    xp, n = namespace(particles.X), len(particles.X)
    chosen = xp.where(condition, resample(particles.log_weights, n, chains), xp.arange(n))
    log_weights = xp.where(condition, equal_log_weights(n), particles.log_weights)
    X, ancestors = particles.X[chosen], particles.ancestors[chosen]
    return replace(particles, X=X, log_weights=log_weights, ancestors=ancestors)


def _longest_step_on_device(density, beta, log_weights, ess_threshold):
    """Return the end of the longest step with enough effective samples, and its log weights.

    Lengths of the rest of the path, divided by powers of 2, are tried together, and then lengths
    between the longest of these and its double. The smallest length is taken in any case.
    """
    xp, n = namespace(log_weights), len(log_weights)
    here, rest = density(beta), 1.0 - beta

    def longest(steps):
        """Return the last of increasing lengths whose effective sample size is large enough."""
        shares = xp.vectorize(lambda s: effective_sample_size(reweight(s)) / n)(steps)
        return xp.where(shares >= ess_threshold, steps, steps[0]).max()

    def reweight(step):
        return log_weights + density(beta + step) - here

    lengths = xp.exp2(xp.arange(-N_LENGTHS + 1.0, 1.0))
    short = longest(xp.minimum(xp.maximum(rest * lengths, SHORTEST), rest))
    step = longest(xp.minimum(short * xp.linspace(1.0, 2.0, N_LENGTHS + 2)[:-1], rest))
    return xp.where(step >= rest, 1.0, beta + step), reweight(step)


def run_smc_from_reference(reference, energy, n, rng, *, ess_threshold=0.9, n_sweeps=1):
    """Sample a model by sequential Monte Carlo that starts from a reference distribution.

    Parameters
    ----------
    reference : Product
        Distribution of independent variables, at beta = 0.
    energy : Energy
        Model at beta = 1.
    n : int
        Number of particles.
    rng : numpy.random.Generator
        Source of randomness.
    ess_threshold : float, default=0.9
        Smallest effective sample size after a step, as a fraction of the number of particles.
    n_sweeps : int, default=1
        Number of Gibbs sweeps after every step.

    Returns
    -------
    SMCResult
        Particles at the model; ``log_ratio`` is an estimate of log Z of the energy, in nats.
    list of numpy.random.Generator
        One generator for each block of particles.
    """
    generators = spawn_generators(rng, n)
    X, path = reference.sample(n, rng), Tempering(reference, energy)
    return run_smc(
        path, X, generators, rng, ess_threshold=ess_threshold, n_sweeps=n_sweeps
    ), generators


def _resample_particles(particles, rng):
    """Resample particles by weight, and return them with equal weights."""
    n = len(particles.X)
    chosen = resample(particles.log_weights, n, rng)
    return replace(
        particles,
        X=particles.X[chosen],
        log_weights=equal_log_weights(n),
        ancestors=particles.ancestors[chosen],
    )


def _reweight_particles(particles, log_weights):
    """Normalise the particle weights, and add the log of their sum to the estimate of log Z."""
    total, n = logsumexp(log_weights), len(log_weights)
    if is_numpy(log_weights) and total == -np.inf:
        return replace(
            particles,
            log_weights=equal_log_weights(n),
            log_ratio=-np.inf,
            variance=np.inf,
            least_ess=0.0,
        )
    share = effective_sample_size(log_weights) / n
    return replace(
        particles,
        log_weights=log_weights - total,
        log_ratio=particles.log_ratio + total,
        variance=particles.variance + (1.0 / share - 1.0) / n,
        least_ess=namespace(share).minimum(particles.least_ess, share),
    )


def _longest_step(density, beta, log_weights, ess_threshold, guess):
    """Return the longest step along the path with enough effective samples, and its log weights.

    For short steps, the decrease of the log effective sample size is about proportional to the
    square of the step length. This rule gives the next length to try. It lies between a length that
    is too short and one that is too long.
    """
    here, rest = density(beta), 1.0 - beta
    close = min(CLOSE * (1.0 - ess_threshold), CLOSEST)
    target = -np.log(min(ess_threshold + 0.5 * close, 1.0 - 1e-6))
    short, long, kept = 0.0, np.inf, None
    step = min(guess, rest)
    for _ in range(MAX_TRIALS):
        new_log_weights = _update_log_weights(log_weights, density(min(beta + step, 1.0)), here)
        share = effective_sample_size(new_log_weights) / len(new_log_weights)
        if share >= ess_threshold:
            short, kept = step, new_log_weights
            if step == rest or share <= ess_threshold + close:
                break
        else:
            long = step
        if short > NARROW * long or long <= SMALLEST_STEP:
            break
        step *= min(np.sqrt(target / max(-np.log(max(share, 1e-300)), 1e-12)), 10.0)
        if not short < step < long:
            step = 0.5 * (short + long)
        step = min(max(step, SMALLEST_STEP), rest)
    if kept is None:  # even the smallest step leaves too few particles, or none at all
        short, kept = long, _update_log_weights(log_weights, density(min(beta + long, 1.0)), here)
        if (kept == -np.inf).all():
            short = min(LOST_STEP, rest)
    return (1.0 if short == rest else beta + short), kept


def _update_log_weights(log_weights, there, here):
    with np.errstate(invalid="ignore"):
        new_log_weights = log_weights + there - here
    new_log_weights[np.isnan(new_log_weights)] = -np.inf  # impossible at both ends: -inf - -inf
    return new_log_weights
