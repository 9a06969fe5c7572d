"""Sequential Monte Carlo from scratch for every model."""

from dataclasses import replace

from .._utils.history import Latest
from .._utils.parameters import check_choice, check_number
from .._utils.rows import distinct_rows
from ..samplers.smc import climb_from_base
from .particle_options import BASES, check_count, n_particles_of
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
    ``threshold`` of effective particles.

    Parameters
    ----------
    n_particles : int, optional
        By default 200; 100 for models with a hidden layer.
    threshold : float, default=0.9
    n_steps : int, default=1
        Sweeps after every step of the path.
    base : {"marginals", "uniform"}, optional
        :math:`p_0`: independent variables with the frequencies of the data, or the paper's uniform
        distribution, which needs more steps. By default "marginals", but "uniform" for models of
        more than 20 hidden units: on the way from the marginals to these, all particles may fall
        into one state (few are ``distinct``) and stay there.

    References
    ----------
    H. Xiong, S. Szedmak, J. Piater, "Towards maximum likelihood: learning undirected graphical
    models using persistent sequential Monte Carlo", ACML (2014), section 4.
    """

    def __init__(self, n_particles=None, threshold=0.9, n_steps=1, base=None):
        self.n_particles = n_particles
        self.threshold = threshold
        self.n_steps = n_steps
        self.base = base

    def check(self):
        check_count(self, "n_steps", optional=("n_particles",))
        check_number("threshold", self.threshold, low=0, high=0.999, open_low=True)
        if self.base is not None:
            check_choice("base", self.base, BASES)

    def start(self, energy, data, batch, rng):
        base = data.reference(self.base, energy, batch)
        return self._climbed(energy, Particles(data, base, energy, None, None, []), rng)[0]

    def _climbed(self, energy, state, rng):
        climb, generators = climb_from_base(
            state.base,
            energy,
            n_particles_of(self, energy),
            rng,
            threshold=self.threshold,
            n_sweeps=self.n_steps,
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

    def advance(self, energy, state, rng):
        return self._climbed(energy, state, rng)
