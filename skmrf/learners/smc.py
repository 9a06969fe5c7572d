"""Learner by sequential Monte Carlo, with new particles in each training step."""

from dataclasses import replace

from .._utils.log_weights import effective_sample_size
from .._utils.parameters import check_choice, check_counts, check_number
from .._utils.results import Latest
from .._utils.rows import count_unique_rows
from ..samplers.smc import run_smc_from_reference
from .base import REFERENCES
from .particles import ParticleLearner, Particles

N_PARTICLES, LAYERED_PARTICLES = 200, 100


def smc_info(particles):
    """Return the diagnostics of a run of sequential Monte Carlo."""
    return {
        "n_temperatures": particles.n_temperatures,
        "least_ess": particles.least_ess,
        "distinct": count_unique_rows(particles.X) / len(particles.X),
        "log_partition": Latest.of(particles.log_ratio),
        "log_partition_error": Latest.of(particles.variance**0.5),
    }


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


def n_particles_of(learner, energy):
    """Return the number of particles; the default is smaller for models with a hidden layer."""
    if learner.n_particles is not None:
        return learner.n_particles
    return LAYERED_PARTICLES if energy.has_latent else N_PARTICLES


def weights_info(log_weights):
    """Return the effective sample size of weighted particles, divided by their number."""
    return {"ess": effective_sample_size(log_weights) / len(log_weights)}
