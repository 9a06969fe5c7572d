"""Options that learners by particles share, and their defaults."""

from .._utils.log_weights import effective_sample_size
from .._utils.parameters import check_number

N_PARTICLES, LAYERED_PARTICLES = 200, 100
REFERENCES = ("uniform", "marginals")


def check_count(learner, *names, optional=()):
    """Parameters that count something; None stands for a default of optional ones."""
    for name in (*names, *optional):
        value = getattr(learner, name)
        if value is not None or name not in optional:
            check_number(name, value, low=1, integer=True)


def n_particles_of(learner, energy):
    """How many particles, if the learner leaves it open: fewer of those with a hidden layer."""
    if learner.n_particles is not None:
        return learner.n_particles
    return LAYERED_PARTICLES if energy.has_latent else N_PARTICLES


def weights_info(log_weights):
    """The share of effective particles."""
    return {"ess": effective_sample_size(log_weights) / len(log_weights)}
