"""Maximum conditional likelihood of labels given inputs."""

import numpy as np

from ..energies.protocols import LabelEnergy
from .base import Learner


class ConditionalLikelihood(Learner):
    """Maximum conditional likelihood of labels; it learns changes of initial networks.

    The parameters of the trained energy are differences from ``origin``, in double precision.
    Networks are evaluated in single precision.

    Parameters
    ----------
    origin : dict of str to ndarray
        Parameters of the initial networks, shaped like theta.
    row_weights : ndarray of shape (n_rows,)
        Weights of the training rows.
    """

    requires = (LabelEnergy,)
    deterministic = True

    def __init__(self, origin, row_weights):
        self.origin = origin
        self.row_weights = row_weights

    def shifted(self, energy):
        """Return the energy with the sum of initial and learned parameters, in single precision."""
        theta = {k: (v + energy.theta[k]).astype(np.float32) for k, v in self.origin.items()}
        return energy.with_theta(theta)

    def init(self, energy, batch, rng):
        """Return None, because the learner has no state."""
        return

    def step(self, energy, batch, state, rng):
        """Raise a NotImplementedError, because only a deterministic solver can use this learner."""
        raise NotImplementedError(
            "ConditionalLikelihood needs a deterministic solver. Set optimizer=None in "
            "skmrf.training.settings.Settings."
        )

    def objective(self, energy, batch, state):
        """Return the weighted log-likelihood of the labels in nats, and its gradient."""
        return self.shifted(energy).objective(batch.X, batch.Y, self.row_weights)
