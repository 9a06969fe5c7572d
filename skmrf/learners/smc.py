"""Sequential Monte Carlo from scratch for every model."""

from dataclasses import replace

from .._utils.history import Latest
from .._utils.parameters import check_choice, check_number
from .._utils.rows import distinct_rows
from ..samplers.smc import climb_from_reference
from .particle_options import REFERENCES, check_count, n_particles_of
from .particles import ParticleLearner, Particles


def climb_info(climb):
    """Diagnostics of a path: steps, effective and distinct particles, log Z and its error."""
    return {
        "n_temperatures": climb.n_temperatures,
        "least_ess": climb.least_ess,
        "distinct": len(distinct_rows(climb.X)[0]) / len(climb.X),
        "log_partition": Latest(climb.log_ratio),
        "log_partition_error": Latest(climb.variance**0.5),
    }


class SMC(ParticleLearner):
    r"""Sequential Monte Carlo.

    For every model particles start as independent variables and climb the tempered path
    :math:`p_0^{1-\beta} f^\beta` by adaptive steps, each the longest that leaves a share
    ``ess_threshold`` of effective particles.

    Parameters
    ----------
    n_particles : int, optional
        By default 200; 100 for models with a hidden layer.
    ess_threshold : float, default=0.9
    n_sweeps : int, default=1
        Sweeps after every step of the path.
    reference : {"marginals", "uniform"}, optional
        :math:`p_0`: independent variables with the frequencies of the data, or the paper's uniform
        distribution, which needs more steps. By default "marginals", but "uniform" for models of
        more than 20 hidden units: on the way from the marginals to these, all particles may fall
        into one state (few are ``distinct``) and stay there.

    References
    ----------
    H. Xiong, S. Szedmak, J. Piater, "Towards maximum likelihood: learning undirected graphical
    models using persistent sequential Monte Carlo", ACML (2014), section 4.
    """

    def __init__(self, n_particles=None, ess_threshold=0.9, n_sweeps=1, reference=None):
        self.n_particles = n_particles
        self.ess_threshold = ess_threshold
        self.n_sweeps = n_sweeps
        self.reference = reference

    def check(self):
        check_count(self, "n_sweeps", optional=("n_particles",))
        check_number("ess_threshold", self.ess_threshold, low=0, high=0.999, open_low=True)
        if self.reference is not None:
            check_choice("reference", self.reference, REFERENCES)

    def start(self, energy, data, batch, rng):
        reference = data.reference(self.reference, energy, batch)
        return self._climbed(energy, Particles(data, reference, energy, None, None, []), rng)[0]

    def _climbed(self, energy, state, rng):
        climb, generators = climb_from_reference(
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
            X=climb.X,
            log_weights=climb.log_weights,
            generators=generators,
            log_partition=climb.log_ratio,
            variance=climb.variance,
        )
        return state, climb_info(climb)

    def step(self, energy, batch, state, rng):
        positive = state.data(energy, batch)
        state, info = self._climbed(energy, state, rng)
        return positive, state.phase, state, info
