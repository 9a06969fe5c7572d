"""Base class of learners that approximate a continuous model by a Gaussian mixture."""

from abc import abstractmethod

from ..energies import ContinuousEnergy
from .base import Learner


class BeliefLearner(Learner):
    """Base class of learners that approximate the model by a Gaussian mixture during training.

    The mixture is called the beliefs. The state of the learner stores it in the attribute
    ``mixture``; otherwise the learner must override :meth:`proposal`.
    """

    requires = (ContinuousEnergy,)

    @abstractmethod
    def beliefs(self, energy, state):
        """Return the Gaussian mixture that approximates the model during training.

        Parameters
        ----------
        energy : ContinuousEnergy
            Current model.
        state : object
            State after the last step.

        Returns
        -------
        Mixture
            Approximation, which may lag a few updates behind the model.
        """

    @abstractmethod
    def final_beliefs(self, energy, state):
        """Return the Gaussian mixture that approximates the fitted model.

        Parameters
        ----------
        energy : ContinuousEnergy
            Fitted model.
        state : object
            State after the last step.

        Returns
        -------
        Mixture
            Approximation of the fitted model.
        """

    def proposal(self, energy, state):
        """Return a proposal distribution: the last mixture and the Gaussian base of the model.

        Parameters
        ----------
        energy : ContinuousEnergy
            Current model, whose Gaussian base becomes one more component.
        state : object
            State after the last step.

        Returns
        -------
        Mixture
            Proposal with one component more than the last mixture.
        """
        return state.mixture.with_defensive_component(energy.mean, energy.covariance)
