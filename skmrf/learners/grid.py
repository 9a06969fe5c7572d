"""Exact likelihood gradient of models with neural potentials of up to three numbers."""

from typing import NamedTuple

import numpy as np

from .._utils.log_weights import logsumexp, normalized_weights
from .._utils.parameters import check_number
from .._utils.phases import States
from ..likelihood.neural import grid, grid_fits
from ..variational.free_energy import Rule, infer
from ..variational.mixtures import Mixture
from .beliefs import BeliefLearner
from .initial_mixture import first_mixture

N_CLUSTERS = 5


class GridState(NamedTuple):
    """Points, the logarithms of their weights, and beliefs to start inference from."""

    X: np.ndarray
    log_weights: np.ndarray
    mixture: Mixture


class Grid(BeliefLearner):
    """Likelihood gradient by a sum over a grid of all variables.

    For models of at most three numbers: what other learners lose by inference can be told from it.
    Its objective is deterministic, so that ``optimizer="lbfgs"`` finds a maximum nearby.

    Parameters
    ----------
    n_points : int, default=41
        Of the grid along every number, which spans eight deviations of the base to either side.

    References
    ----------
    H. Xiong and N. Ruozzi, "General purpose MRF learning with neural network potentials", IJCAI
    2020, section 3: the gradient that their beliefs approximate.
    """

    deterministic = True
    objective_takes_missing = False

    def __init__(self, n_points=41):
        self.n_points = n_points

    def init(self, energy, batch, rng):
        check_number("n_points", self.n_points, low=3, integer=True)
        if not grid_fits(energy):
            raise ValueError(
                f"The learner Grid takes at most three numbers (and few states); the model has "
                f'{len(energy.numbers)}. Use learner="variational".'
            )
        mixture = first_mixture(energy, batch, N_CLUSTERS, False, rng)
        return GridState(*grid(energy, self.n_points), mixture)

    def step(self, energy, batch, state, rng):
        negative = States(state.X, None, state.log_weights + energy.log_potential(state.X))
        X = batch.X
        if np.isnan(X).any():
            X = self.proposal(energy, state).fill(X, rng)
        return States(X, None, batch.log_weights), negative, state, {}

    def beliefs(self, energy, state):
        """Beliefs of the model."""
        return infer(energy, state.mixture, Rule()).mixture

    final_beliefs = beliefs

    def objective(self, energy, batch, state):
        """Mean log-likelihood of the rows in nats, and its gradient."""
        logs = state.log_weights + energy.log_potential(state.X)
        weights = normalized_weights(batch.log_weights, len(batch.X))
        value = weights @ energy.log_potential(batch.X) - logsumexp(logs)
        positive, negative = States(batch.X, None, batch.log_weights), States(state.X, None, logs)
        return float(value), energy.gradient(positive, negative, batch)
