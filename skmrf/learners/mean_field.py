"""Learner that estimates the model expectation by naive mean field."""

from dataclasses import dataclass, replace

import numpy as np

from .._utils.parameters import check_number
from .._utils.phases import CliqueMoments
from ..energies import TableEnergy
from ..variational import mean_field
from .base import DataPhase, Learner


@dataclass
class MeanFieldState:
    """State of the learner MeanField: positive phase and last mean-field distribution."""

    data: DataPhase
    single: np.ndarray | None = None


class MeanField(Learner):
    r"""Likelihood gradient by naive mean field, which approximates the model expectation.

    The negative phase consists of the moments of the product distribution with the best lower bound
    on :math:`\log Z`, so the result is the gradient of an upper bound of the log-likelihood. A
    product distribution ignores the dependence between variables. Couplings therefore grow until
    the product distribution has converged to one mode.

    Parameters
    ----------
    max_iter : int, default=100
        Maximum number of sweeps over the variables in each step.
    tol : float, default=1e-6
        Mean field has converged when no probability changes by more than this in a sweep.

    References
    ----------
    C. Peterson and J. R. Anderson, "A mean field theory learning algorithm for neural networks",
    Complex Systems 1 (1987).
    """

    requires = (TableEnergy,)

    def __init__(self, max_iter=100, tol=1e-6):
        self.max_iter = max_iter
        self.tol = tol

    def init(self, energy, batch, rng):
        """Return the learner's initial state: the positive phase, without a distribution."""
        check_number("max_iter", self.max_iter, low=1, integer=True)
        check_number("tol", self.tol, low=0)
        return MeanFieldState(DataPhase(energy, batch, rng))

    def resume(self, energy, batch, state, rng):
        """Return the learner's state for new training rows, with the last distribution."""
        fresh = self.init(energy, batch, rng)
        if not isinstance(state, MeanFieldState):  # of another learner
            return fresh
        return replace(fresh, single=state.single)

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, by mean field."""
        positive = state.data(energy, batch)
        result = mean_field.mean_field(
            energy, start=state.single, max_iter=self.max_iter, tol=self.tol
        )
        moments = mean_field.clique_moments(energy, result.single)
        info = {
            "inference_converged": float(result.converged),
            "residual": result.residual,
            "log_partition": result.lower_bound,
        }
        state = replace(state, single=result.single)
        return positive, CliqueMoments(dict.fromkeys(energy.theta, moments)), state, info
