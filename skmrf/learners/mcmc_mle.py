"""MCMC maximum likelihood: particles of an earlier model, reweighted to the present one."""

from dataclasses import replace

from .._utils.log_weights import logsumexp
from .._utils.parameters import check_choice, check_number
from ..samplers import sweep
from ..samplers.smc import climb_from_reference, equal, resample
from .particle_options import REFERENCES, check_count, weights_info
from .particles import ParticleLearner, Particles


class _Reweighting(ParticleLearner):
    """Reweights particles."""

    def check(self):
        check_count(self, "n_particles", "n_sweeps")
        check_number("ess_threshold", self.ess_threshold, low=0, high=1)
        check_choice("reference", self.reference, REFERENCES)

    def start(self, energy, data, batch, rng):
        reference = data.reference(self.reference, energy, batch)
        first, generators = climb_from_reference(reference, energy, self.n_particles, rng)
        chosen = resample(first.log_weights, self.n_particles, rng)
        weights = equal(self.n_particles)
        return Particles(data, reference, energy, first.X[chosen], weights, generators, memory=0)

    def _reweight(self, energy, state):
        """The particles with weights for the new energy."""
        density = state.energy.along(energy, state.X)
        grown = state.log_weights + density(1.0) - density(0.0)
        return replace(state, energy=energy, log_weights=grown - logsumexp(grown))

    def _resample_and_move(self, state, rng):
        """Particles with equal weights, where these weights have been."""
        n = len(state.X)
        X = state.X[resample(state.log_weights, n, rng)]
        X, _ = sweep(state.energy, X, state.generators, n_sweeps=self.n_sweeps)
        return replace(state, X=X, log_weights=equal(n))


class MCMCMLE(_Reweighting):
    r"""Markov chain Monte Carlo maximum likelihood.

    The negative phase is particles of an earlier model :math:`\theta_0` with the weights

    .. math:: w_s \propto \exp((\theta - \theta_0)^\top \phi(x_s)).

    After ``reset`` steps, or when a share of less than ``ess_threshold`` is effective, particles
    are resampled, moved by Gibbs sweeps, and stand for the present model.

    Parameters
    ----------
    n_particles : int, default=500
    reset : int, default=10
        Most steps between two resets.
    ess_threshold : float, default=0.5
    n_sweeps : int, default=5
        Sweeps at a reset.
    reference : {"marginals", "uniform"}, default="marginals"
        Where the first particles come from, along a tempered path.

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
        super().check()
        check_count(self, "reset")

    def step(self, energy, batch, state, rng):
        positive = state.data(energy, batch)
        state = self._reweight(energy, state)
        info = weights_info(state.log_weights)
        age = state.memory + 1
        if age >= self.reset or info["ess"] < self.ess_threshold:
            state, age = self._resample_and_move(state, rng), 0
        state = replace(state, memory=age)
        return positive, state.phase, state, info


class ParticleFilteredMCMCMLE(_Reweighting):
    r"""Particle-filtered MCMC maximum likelihood.

    Particles are reweighted from each model to the next, and resampled and moved by Gibbs sweeps
    only when fewer than a share ``ess_threshold`` of them is effective.

    Parameters
    ----------
    n_particles : int, default=500
    ess_threshold : float, default=0.9
    n_sweeps : int, default=5
        Sweeps after resampling.
    reference : {"marginals", "uniform"}, default="marginals"
        Where the first particles come from, along a tempered path.

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
        positive = state.data(energy, batch)
        state = self._reweight(energy, state)
        info = weights_info(state.log_weights)
        if info["ess"] < self.ess_threshold:
            state = self._resample_and_move(state, rng)
        return positive, state.phase, state, info
