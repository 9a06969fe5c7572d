"""Options that learners by particles share, and their defaults."""

from .._utils.log_weights import effective_sample_size
from .._utils.parameters import check_number
from ..samplers import Product

N_PARTICLES, LAYERED_PARTICLES = 200, 100
FEW_LATENT = 20
BASES = ("uniform", "marginals")


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


def choose_base(name, energy, data, batch):
    """The hot end of paths: "uniform", or "marginals" of the training rows.

    None is "marginals" but for models with many latent variables: halfway to these, particles that
    start at the marginals may all fall into one state and stay there.
    """
    n_latent = len(energy.n_states) - len(energy.visible_states)
    if name == "uniform" or (name is None and n_latent > FEW_LATENT):
        return Product.uniform(energy.visible_states)
    return data.marginals(energy, batch)


def weights_info(log_weights):
    """The share of effective particles."""
    return {"ess": effective_sample_size(log_weights) / len(log_weights)}
