"""Markov chain Monte Carlo (MCMC) maximum likelihood by reweighted particles."""

from dataclasses import dataclass, replace

from .._utils.log_weights import logsumexp
from .._utils.parameters import check_choice, check_counts, check_number
from ..samplers import sweep
from ..samplers.smc import equal_log_weights, resample, run_if, run_smc_from_reference
from .base import REFERENCES
from .particles import ParticleLearner, Particles
from .smc import weights_info


@dataclass
class AgedParticles(Particles):
    """State of learners that reweight particles.

    Attributes
    ----------
    age : int
        Number of training steps since the particles were last resampled.
    """

    age: int = 0


class _ReweightingLearner(ParticleLearner):
    """Base class of learners that reweight particles drawn from an earlier model."""

    is_pure = True
    needs_last_model = True

    def check(self):
        """Raise a ValueError if a parameter is invalid."""
        check_counts(self, "n_particles", "n_sweeps")
        check_number("ess_threshold", self.ess_threshold, low=0, high=1)
        check_choice("reference", self.reference, REFERENCES)

    def start(self, energy, data, batch, rng):
        """Return the initial particles: samples of the initial model with equal weights."""
        reference = data.reference(self.reference, energy, batch)
        first, generators = run_smc_from_reference(reference, energy, self.n_particles, rng)
        chosen = resample(first.log_weights, self.n_particles, rng)
        weights = equal_log_weights(self.n_particles)
        return AgedParticles(data, reference, energy, first.X[chosen], weights, generators)

    def _reweight(self, energy, state):
        """Return the particles with normalised importance weights for the new model."""
        density = state.energy.along(energy, state.X)
        log_weights = state.log_weights + density(1.0) - density(0.0)
        return replace(state, energy=energy, log_weights=log_weights - logsumexp(log_weights))

    def _resample_and_move_if(self, condition, state, rng):
        """Resample the particles by weight and move them by Gibbs sweeps if a condition holds."""

        def move(arrays, rng):
            X, log_weights = arrays
            is_host = isinstance(state.generators, list)
            X = X[resample(log_weights, len(X), rng)]
            generators = state.generators if is_host else rng
            X, _ = sweep(state.energy, X, generators, n_sweeps=self.n_sweeps)
            return X, equal_log_weights(len(X))

        X, log_weights = run_if(condition, move, (state.X, state.log_weights), rng)
        return replace(state, X=X, log_weights=log_weights)


class MCMCMLE(_ReweightingLearner):
    r"""Markov chain Monte Carlo maximum likelihood.

    The negative phase consists of particles of an earlier model :math:`\theta_0`. Their weights for
    the current model :math:`\theta` are

    .. math:: w_s \propto \exp((\theta - \theta_0)^\top \phi(x_s)).

    At a reset, the particles are resampled and moved by Gibbs sweeps, and the current model becomes
    :math:`\theta_0`. There is a reset after ``reset`` steps, or earlier if the effective sample
    size, relative to the number of particles, is less than ``ess_threshold``.

    Parameters
    ----------
    n_particles : int, default=500
        Number of particles.
    reset : int, default=10
        Maximum number of steps between two resets.
    ess_threshold : float, default=0.5
        Relative effective sample size, from 0 to 1, below which there is a reset.
    n_sweeps : int, default=5
        Number of Gibbs sweeps at a reset.
    reference : {"marginals", "uniform"}, default="marginals"
        Distribution from which the first particles are drawn, before they are moved to the initial
        model along a tempered path: a product of the state frequencies of the data, or the uniform
        distribution.

    References
    ----------
    C. J. Geyer, "Markov chain Monte Carlo maximum likelihood", Computing Science and Statistics:
    23rd Symposium on the Interface (1991).
    """

    def __init__(
        self, n_particles=500, reset=10, ess_threshold=0.5, n_sweeps=5, reference="marginals"
    ):
        self.n_particles = n_particles
        self.reset = reset
        self.ess_threshold = ess_threshold
        self.n_sweeps = n_sweeps
        self.reference = reference

    def check(self):
        """Raise a ValueError if a parameter is invalid."""
        super().check()
        check_counts(self, "reset")

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from particles."""
        positive = state.data(energy, batch)
        state = self._reweight(energy, state)
        info = weights_info(state.log_weights)
        age = state.age + 1
        is_due = (age >= self.reset) | (info["ess"] < self.ess_threshold)
        state = self._resample_and_move_if(is_due, state, rng)
        state = replace(state, age=age * (1 - is_due))
        return positive, state.phase, state, info


class ParticleFilteredMCMCMLE(_ReweightingLearner):
    r"""Particle-filtered MCMC maximum likelihood.

    The negative phase consists of weighted particles. After each parameter update, they
    are reweighted to the new model. They are resampled and moved by Gibbs sweeps only when the
    effective sample size, relative to the number of particles, is less than ``ess_threshold``.

    Parameters
    ----------
    n_particles : int, default=500
        Number of particles.
    ess_threshold : float, default=0.9
        Relative effective sample size, from 0 to 1, below which particles are resampled.
    n_sweeps : int, default=5
        Number of Gibbs sweeps after resampling.
    reference : {"marginals", "uniform"}, default="marginals"
        Distribution from which the first particles are drawn, before they are moved to the initial
        model along a tempered path: a product of the state frequencies of the data, or the uniform
        distribution.

    References
    ----------
    A. U. Asuncion, Q. Liu, A. T. Ihler, P. Smyth, "Particle filtered MCMC-MLE with connections to
    contrastive divergence", ICML (2010).
    """

    def __init__(self, n_particles=500, ess_threshold=0.9, n_sweeps=5, reference="marginals"):
        self.n_particles = n_particles
        self.ess_threshold = ess_threshold
        self.n_sweeps = n_sweeps
        self.reference = reference

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from particles."""
        positive = state.data(energy, batch)
        state = self._reweight(energy, state)
        info = weights_info(state.log_weights)
        state = self._resample_and_move_if(info["ess"] < self.ess_threshold, state, rng)
        return positive, state.phase, state, info
