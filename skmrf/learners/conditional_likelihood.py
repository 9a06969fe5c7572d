"""Maximum conditional likelihood of labels."""

import numpy as np

from ..energies.protocols import LabelEnergy
from .base import Learner


class ConditionalLikelihood(Learner):
    """Maximum conditional likelihood of labels, over differences from initial networks.

    The parameters of the energy that it learns are differences from ``origin``, in double
    precision. Networks are evaluated in single precision.

    Parameters
    ----------
    origin : dict of str to ndarray
        Shaped like theta.
    row_weights : ndarray of shape (n_rows,)
    """

    requires = (LabelEnergy,)
    deterministic = True

    def __init__(self, origin, row_weights):
        self.origin = origin
        self.row_weights = row_weights

    def shifted(self, energy):
        """Return the energy at the origin plus theta."""
        theta = {k: (v + energy.theta[k]).astype(np.float32) for k, v in self.origin.items()}
        return energy.with_theta(theta)

    def init(self, energy, batch, rng):
        return None

    def step(self, energy, batch, state, rng):
        raise NotImplementedError("ConditionalLikelihood is maximised by a deterministic solver.")

    def objective(self, energy, batch, state):
        """Return the weighted log-likelihood of labels in nats and its gradient."""
        return self.shifted(energy).objective(batch.X, batch.Y, self.row_weights)
