"""What learners of continuous models share: mixture beliefs of the model."""

from abc import abstractmethod

from ..energies import ContinuousEnergy
from .base import Learner


class BeliefLearner(Learner):
    """Learner that keeps a mixture which approximates the model.

    Its state has the mixture as the attribute ``mixture``, or the learner overrides
    :meth:`proposal`.
    """

    requires = (ContinuousEnergy,)

    @abstractmethod
    def beliefs(self, energy, state):
        """Return the mixture that approximates the model while it is learned."""

    @abstractmethod
    def final_beliefs(self, energy, state):
        """Return the mixture that approximates a model that was learned."""

    def proposal(self, energy, state):
        """Return the last mixture with the Gaussian base as one more component."""
        return state.mixture.defended(energy.mean, energy.covariance)
