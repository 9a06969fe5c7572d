"""Moments by naive mean field."""

from dataclasses import dataclass, replace

import numpy as np

from .._utils.parameters import check_number
from .._utils.phases import CliqueMoments
from ..energies import TableEnergy
from ..variational import mean_field
from .base import DataPhase, Learner


@dataclass
class MeanFieldState:
    """The data's phase and the last product distribution."""

    data: DataPhase
    single: np.ndarray | None = None


class MeanField(Learner):
    r"""Moments by naive mean field.

    The negative phase is the product distribution with the best lower bound on :math:`\log Z`, so
    the gradient is that of an upper bound of the log-likelihood. No dependence between variables is
    left in it: couplings grow until the product distribution settles on one mode.

    Parameters
    ----------
    max_iter : int, default=100
        Sweeps over the variables a step.
    tol : float, default=1e-6
        Largest change of a probability in a sweep to stop at.

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
        check_number("max_iter", self.max_iter, low=1, integer=True)
        check_number("tol", self.tol, low=0)
        return MeanFieldState(DataPhase(energy, batch, rng))

    def resume(self, energy, batch, state, rng):
        fresh = self.init(energy, batch, rng)
        if not isinstance(state, MeanFieldState):  # of another learner
            return fresh
        return replace(fresh, single=state.single)

    def step(self, energy, batch, state, rng):
        positive = state.data(energy, batch)
        found = mean_field.mean_field(
            energy, start=state.single, max_iter=self.max_iter, tol=self.tol
        )
        moments = mean_field.clique_moments(energy, found.single)
        info = {
            "inference_converged": float(found.converged),
            "residual": found.residual,
            "log_partition": found.lower_bound,
        }
        state = replace(state, single=found.single)
        return positive, CliqueMoments(dict.fromkeys(energy.theta, moments)), state, info
