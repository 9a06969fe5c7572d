"""Options of particle learners: validation and default values."""

from .._utils.log_weights import effective_sample_size
from .._utils.parameters import check_number

N_PARTICLES, LAYERED_PARTICLES = 200, 100
REFERENCES = ("uniform", "marginals")


def check_count(learner, *names, optional=()):
    """Raise a ValueError unless each parameter is a positive integer (or None, if optional)."""
    for name in (*names, *optional):
        value = getattr(learner, name)
        if value is not None or name not in optional:
            check_number(name, value, low=1, integer=True)


def n_particles_of(learner, energy):
    """Return the number of particles; the default is smaller for models with a hidden layer."""
    if learner.n_particles is not None:
        return learner.n_particles
    return LAYERED_PARTICLES if energy.has_latent else N_PARTICLES


def weights_info(log_weights):
    """Return the effective sample size of weighted particles, divided by their number."""
    return {"ess": effective_sample_size(log_weights) / len(log_weights)}
