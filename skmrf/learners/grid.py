"""Likelihood gradient by summation over a grid, for at most three continuous variables."""

from typing import NamedTuple

import numpy as np

from .._utils.log_weights import logsumexp, normalized_weights
from .._utils.parameters import check_number
from .._utils.phases import States
from ..likelihood.neural import grid, grid_fits
from ..variational.free_energy import QuadratureSettings, infer
from ..variational.mixtures import Mixture
from .initial_mixture import first_mixture
from .variational import BeliefLearner

N_COMPONENTS = 5


class GridState(NamedTuple):
    """State of the learner Grid: grid points, their log-weights, and an initial mixture."""

    X: np.ndarray
    log_weights: np.ndarray
    mixture: Mixture


class Grid(BeliefLearner):
    """Likelihood gradient by a sum over a grid of points of all variables.

    It is for models with at most three continuous variables. On such models, it can be used to
    measure the error of approximate learners. Its objective is deterministic, so
    ``optimizer="lbfgs"`` finds a local maximum.

    Parameters
    ----------
    n_points : int, default=41
        Number of grid points along each continuous variable. The grid extends eight standard
        deviations of the base to either side of its mean.

    References
    ----------
    H. Xiong and N. Ruozzi, "General purpose MRF learning with neural network potentials", IJCAI
    2020, section 3: the gradient, which the beliefs of that paper approximate.
    """

    deterministic = True

    def __init__(self, n_points=41):
        self.n_points = n_points

    def init(self, energy, batch, rng):
        """Return the learner's initial state: the grid, and a mixture close to the model."""
        check_number("n_points", self.n_points, low=3, integer=True)
        if not grid_fits(energy):
            raise ValueError(
                "The learner Grid needs at most three continuous variables, and a grid of at most "
                "2**23 points, which has all joint states of the other variables; this model has "
                f"{len(energy.numbers)} continuous variables or needs a larger grid. Use "
                'learner="variational".'
            )
        mixture = first_mixture(energy, batch, N_COMPONENTS, False, rng)
        return GridState(*grid(energy, self.n_points), mixture)

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from grid points."""
        negative = States(state.X, None, state.log_weights + energy.log_potential(state.X))
        X = batch.X
        if np.isnan(X).any():
            X = self.proposal(energy, state).impute(X, rng)
        return States(X, None, batch.log_weights), negative, state, {}

    def beliefs(self, energy, state):
        """Fit a Gaussian mixture to the model, starting from the initial mixture; return it."""
        return infer(energy, state.mixture, QuadratureSettings()).mixture

    final_beliefs = beliefs

    def objective(self, energy, batch, state):
        """Return the mean log-likelihood of the rows in nats, and its gradient."""
        logs = state.log_weights + energy.log_potential(state.X)
        weights = normalized_weights(batch.log_weights, len(batch.X))
        value = weights @ energy.log_potential(batch.X) - logsumexp(logs)
        positive, negative = States(batch.X, None, batch.log_weights), States(state.X, None, logs)
        return float(value), energy.gradient(positive, negative, batch)
