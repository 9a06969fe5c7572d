"""Learners by sequential Monte Carlo, with new or with persistent particles in each step."""

from dataclasses import replace

import numpy as np

from .._utils.log_weights import effective_sample_size, logsumexp
from .._utils.namespaces import namespace
from .._utils.parameters import check_choice, check_counts, check_number
from .._utils.results import Latest
from .._utils.rows import count_unique_rows
from ..samplers import spawn_generators
from ..samplers.smc import Interpolation, Tempering, resample, run_smc, run_smc_from_reference
from .base import REFERENCES
from .particles import ParticleLearner, Particles

N_PARTICLES, LAYERED_PARTICLES = 200, 100


class SMC(ParticleLearner):
    r"""Sequential Monte Carlo.

    The negative phase consists of weighted particles. In each training step, new particles are
    drawn from a product distribution :math:`p_0` and moved along the tempered path
    :math:`p_0^{1-\beta} f^\beta`, from :math:`\beta = 0` to 1, by adaptive steps. Each step is
    as long as possible, under the condition that the effective sample size after the step, relative
    to the number of particles, is at least ``ess_threshold``.

    Parameters
    ----------
    n_particles : int, optional
        Number of particles. By default 200, or 100 for models with a hidden layer.
    ess_threshold : float, default=0.9
        Minimum relative effective sample size after a step of the path, above 0 and at most 0.999.
        Larger values make shorter steps.
    n_sweeps : int, default=1
        Number of Gibbs sweeps after each step of the path.
    reference : {"marginals", "uniform"}, optional
        :math:`p_0`: "marginals" is a product of the state frequencies of the data, "uniform" the
        uniform distribution, as in the paper, which needs more steps. By default "marginals", or
        "uniform" for models with more than 20 hidden units. On the path from the marginals to such
        a model, all particles may end in the same state and stay there; ``distinct`` in
        ``history_`` is then low.

    References
    ----------
    H. Xiong, S. Szedmak, J. Piater, "Towards maximum likelihood: learning undirected graphical
    models using persistent sequential Monte Carlo", ACML (2014), section 4.
    """

    is_pure = True

    def __init__(self, n_particles=None, ess_threshold=0.9, n_sweeps=1, reference=None):
        self.n_particles = n_particles
        self.ess_threshold = ess_threshold
        self.n_sweeps = n_sweeps
        self.reference = reference

    def check(self):
        """Raise a ValueError if a parameter is invalid."""
        check_counts(self, "n_sweeps", optional=("n_particles",))
        check_number("ess_threshold", self.ess_threshold, low=0, high=0.999, open_low=True)
        if self.reference is not None:
            check_choice("reference", self.reference, REFERENCES)

    def start(self, energy, data, batch, rng):
        """Return the initial particles: weighted samples of the initial model."""
        reference = data.reference(self.reference, energy, batch)
        empty = Particles(data, reference, energy, None, None, [])
        return self._draw_particles(energy, empty, rng)[0]

    def _draw_particles(self, energy, state, rng):
        """Draw new particles for the model, and return the new state and diagnostics."""
        particles, generators = run_smc_from_reference(
            state.reference,
            energy,
            n_particles_of(self, energy),
            rng,
            ess_threshold=self.ess_threshold,
            n_sweeps=self.n_sweeps,
        )
        state = replace(
            state,
            energy=energy,
            X=particles.X,
            log_weights=particles.log_weights,
            generators=generators,
            log_partition=particles.log_ratio,
            variance=particles.variance,
        )
        return state, smc_info(particles)

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from particles."""
        positive = state.data(energy, batch)
        state, info = self._draw_particles(energy, state, rng)
        return positive, state.phase, state, info


class PSMC(ParticleLearner):
    r"""Persistent sequential Monte Carlo.

    The negative phase consists of weighted particles. Sequential Monte Carlo moves the particles of
    one model to the next model along a path of distributions by adaptive steps. Each step
    reweights, resamples and moves the particles. Each step is as long as possible, under the
    condition that the effective sample size after the step, relative to the number of particles, is
    at least ``ess_threshold``.

    Before these steps, some particles can be replaced by fresh draws from a product distribution
    :math:`p_0`, so that the particles can find modes again that they have lost. The parameter
    ``refresh`` selects the path:

    - "temper": fresh and persistent particles together move along the tempered path
      :math:`p_0^{1-\beta} f_{\theta}^\beta`.
    - "split": the fresh particles move along the tempered path. The persistent particles move
      along the path :math:`\theta_\beta = (1-\beta)\theta_{t-1} + \beta\theta_t` between the
      parameters. This takes half the work of "temper", and both groups have a valid target at
      every step.
    - "none": there are no fresh particles, and all move along the path between the parameters.
      Modes that the particles have lost stay lost.

    Parameters
    ----------
    n_particles : int, optional
        Number of particles. By default 200, or 100 for models with a hidden layer.
    refresh : {"temper", "split", "none"}, default="temper"
        Path of the fresh and of the persistent particles, as described above.
    fraction : float, default=0.5
        Share of fresh particles, above 0 and at most 1. It has no effect with ``refresh="none"``.
    ess_threshold : float, default=0.9
        Minimum relative effective sample size after a step of a path, above 0 and at most 0.999.
        Larger values make shorter steps.
    n_sweeps : int, default=1
        Number of Gibbs sweeps after each step of a path.
    reference : {"marginals", "uniform"}, optional
        :math:`p_0`: "marginals" is a product of the state frequencies of the data, "uniform" the
        uniform distribution, as in the paper, which needs more steps. By default "marginals", or
        "uniform" for models with more than 20 hidden units. On the path from the marginals to such
        a model, all particles may end in the same state and stay there; ``distinct`` in
        ``history_`` is then low.

    Notes
    -----
    In the paper's Algorithm 4, the fresh particles move along the path between the parameters, as
    if they were draws from the last model. This biases the gradient. The file
    ``benchmarks/boltzmann.py`` contains an implementation.

    With "temper" and "split", the log-weights of the fresh particles estimate log Z of each model;
    the estimate of Z is unbiased. ``history_`` has it in nats as ``log_partition``, with the
    standard error ``log_partition_error``. Particles that move along the path between the
    parameters only estimate the change of log Z. The sum of these changes accumulates the errors of
    all steps, so it is not reported.

    References
    ----------
    H. Xiong, S. Szedmak, J. Piater, "Towards maximum likelihood: learning undirected graphical
    models using persistent sequential Monte Carlo", ACML (2014), Algorithms 3 and 4.
    """

    is_pure = True
    needs_last_model = True

    def __init__(
        self,
        n_particles=None,
        refresh="temper",
        fraction=0.5,
        ess_threshold=0.9,
        n_sweeps=1,
        reference=None,
    ):
        self.n_particles = n_particles
        self.refresh = refresh
        self.fraction = fraction
        self.ess_threshold = ess_threshold
        self.n_sweeps = n_sweeps
        self.reference = reference

    def check(self):
        """Raise a ValueError if a parameter is invalid."""
        check_counts(self, "n_sweeps", optional=("n_particles",))
        check_choice("refresh", self.refresh, REFRESH)
        if self.reference is not None:
            check_choice("reference", self.reference, REFERENCES)
        check_number("ess_threshold", self.ess_threshold, low=0, high=0.999, open_low=True)
        check_number("fraction", self.fraction, low=0, high=1, open_low=True)

    def _n_fresh(self, n):
        return round(self.fraction * n)

    def start(self, energy, data, batch, rng):
        """Return the initial particles: weighted samples of the initial model."""
        n = n_particles_of(self, energy)
        if self.refresh != "none" and not 0 < self._n_fresh(n) < n:
            raise ValueError(
                f"fraction={self.fraction} of n_particles={n} leaves no fresh or no persistent "
                "particles. Increase n_particles, or choose a fraction closer to 0.5."
            )
        reference = data.reference(self.reference, energy, batch)
        particles, generators = run_smc_from_reference(
            reference,
            energy,
            n,
            rng,
            ess_threshold=self.ess_threshold,
            n_sweeps=self.n_sweeps,
        )
        return Particles(
            data,
            reference,
            energy,
            particles.X,
            particles.log_weights,
            generators,
            particles.log_ratio,
            particles.variance,
        )

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from particles."""
        positive = state.data(energy, batch)
        state, info = self.move(energy, state, rng)
        return positive, state.phase, state, info

    def move(self, energy, state, rng):
        """Move old and new particles to the new model; return the new state and diagnostics."""
        return REFRESH[self.refresh](self, energy, state, rng)

    def _move_along(self, path, X, generators, rng, log_weights=None):
        """Move particles to the end of a path of distributions by sequential Monte Carlo."""
        return run_smc(
            path,
            X,
            generators,
            rng,
            ess_threshold=self.ess_threshold,
            n_sweeps=self.n_sweeps,
            log_weights=log_weights,
        )

    def follow(self, energy, state, rng, X, log_weights):
        """Move all particles from the last model to the new model, along a path of models."""
        path = Interpolation(state.energy, energy)
        particles = self._move_along(path, X, state.generators, rng, log_weights)
        particles.log_ratio += state.log_partition
        particles.variance += state.variance
        state, info = _update_state(energy, state, particles)
        return state, {k: v for k, v in info.items() if not k.startswith("log_partition")}

    def old_and_fresh(self, state, rng):
        """Return resampled old particles, and new particles drawn from the reference."""
        n_fresh = self._n_fresh(len(state.X))
        old = state.X[resample(state.log_weights, len(state.X) - n_fresh, rng)]
        return old, state.reference.sample(n_fresh, rng)


def _move_tempered(learner, energy, state, rng):
    old, fresh = learner.old_and_fresh(state, rng)
    path = Tempering(state.reference, energy)
    xp = namespace(old)
    X = xp.concat([old, fresh])
    particles = learner._move_along(path, X, state.generators, rng)
    # Only descendants of fresh particles were drawn from the reference, so only they estimate Z.
    is_fresh = particles.ancestors >= len(old)
    share = logsumexp(xp.where(is_fresh, particles.log_weights, -np.inf))
    particles.log_ratio += share - np.log(len(fresh) / len(particles.X))
    n_fresh = is_fresh.sum()
    spread = 1.0 / xp.maximum(n_fresh, 1) - 1.0 / len(particles.X)
    particles.variance += xp.where(n_fresh > 0, spread, np.inf)
    return _update_state(energy, state, particles)


def _move_split(learner, energy, state, rng):
    old, fresh = learner.old_and_fresh(state, rng)
    generators = spawn_generators(rng, len(fresh))
    new = learner._move_along(Tempering(state.reference, energy), fresh, generators, rng)
    generators = spawn_generators(rng, len(old))
    kept = learner._move_along(Interpolation(state.energy, energy), old, generators, rng)
    n = len(old) + len(fresh)
    xp, parts = namespace(old), (kept, new)
    shares = zip(parts, (len(old), len(fresh)), strict=True)
    pooled = replace(
        new,
        X=xp.concat([p.X for p in parts]),
        log_weights=xp.concat([p.log_weights + np.log(size / n) for p, size in shares]),
        least_ess=xp.minimum(new.least_ess, kept.least_ess),
    )
    state, info = _update_state(energy, state, pooled)
    info["n_temperatures"] += kept.n_temperatures
    return state, info


def _move_persistent(learner, energy, state, rng):
    return learner.follow(energy, state, rng, state.X, state.log_weights)


def _update_state(energy, state, particles):
    """Return the learner's state with the particles of a new model, and diagnostics."""
    state = replace(
        state,
        energy=energy,
        X=particles.X,
        log_weights=particles.log_weights,
        log_partition=particles.log_ratio,
        variance=particles.variance,
    )
    return state, smc_info(particles)


REFRESH = {
    "temper": _move_tempered,
    "split": _move_split,
    "none": _move_persistent,
}


def smc_info(particles):
    """Return the diagnostics of a run of sequential Monte Carlo."""
    return {
        "n_temperatures": particles.n_temperatures,
        "least_ess": particles.least_ess,
        "distinct": count_unique_rows(particles.X) / len(particles.X),
        "log_partition": Latest.of(particles.log_ratio),
        "log_partition_error": Latest.of(particles.variance**0.5),
    }


def n_particles_of(learner, energy):
    """Return the number of particles; the default is smaller for models with a hidden layer."""
    if learner.n_particles is not None:
        return learner.n_particles
    return LAYERED_PARTICLES if energy.has_latent else N_PARTICLES


def weights_info(log_weights):
    """Return the effective sample size of weighted particles, divided by their number."""
    return {"ess": effective_sample_size(log_weights) / len(log_weights)}
