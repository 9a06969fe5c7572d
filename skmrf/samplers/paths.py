"""Paths of distributions from one that can be sampled to the one that is wanted.

Along a path ``beta`` grows from 0 to 1. A path knows the log-density of states at every ``beta``
(latent variables summed out, not normalised) and a move that leaves the distribution invariant.
"""

from typing import NamedTuple

import numpy as np

from ..energies import Energy
from .gibbs import Product, sweep


class Tempering(NamedTuple):
    r"""From independent variables to an energy: :math:`p_0^{1-\beta} f^\beta`.

    With a uniform :math:`p_0` these are the tempered distributions of the energy.

    Parameters
    ----------
    base : Product
    energy : Energy
    """

    base: Product
    energy: Energy

    def log_density(self, X):
        """Log-density of the rows of X as a function of beta."""
        at_base, raised = self.base.log_probability(X), self.energy.raised(X)
        return lambda beta: (1 - beta) * at_base + raised(beta)

    def move(self, X, beta, generators, n_sweeps):
        """Gibbs sweeps at ``beta``."""
        betas = np.full(n_sweeps + 1, beta)
        return sweep(self.energy, X, generators, betas=betas, base=self.base)[0]


class Interpolation(NamedTuple):
    r"""From one setting of the parameters to another:
    :math:`\theta_\beta = (1 - \beta) \theta_\mathrm{first} + \beta \theta_\mathrm{last}`.

    Parameters
    ----------
    first, last : Energy
        Of the same kind and size.
    """

    first: Energy
    last: Energy

    def log_density(self, X):
        """Log-density of the rows of X as a function of beta."""
        return self.first.along(self.last, X)

    def move(self, X, beta, generators, n_sweeps):
        """Gibbs sweeps at ``beta``."""
        energy = self.first.interpolate(self.last, beta)
        return sweep(energy, X, generators, n_sweeps=n_sweeps)[0]
