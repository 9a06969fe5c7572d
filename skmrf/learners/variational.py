"""Neural potentials by mixture beliefs: free energy by quadrature, importance-weighted draws."""

from dataclasses import dataclass, replace

import numpy as np

from .._types import States, effective_sample_size
from .._validation import check_choice, check_number
from ..messages.free_energy import FIRST_STEP, Rule, infer, quadrature
from ..messages.mixtures import Mixture, average
from .base import Learner
from .clusters import first_mixture



@dataclass
class VariationalState:
    """What a step of :class:`Variational` leaves to the next one."""

    mixture: Mixture
    pool: list
    step: float = FIRST_STEP
    n_steps: int = 0
    inferred: bool = False


class Variational(Learner):
    def __init__(
        self,
        n_components=5,
        *,
        negative="importance",
        entropy="joint",
        covariance="full",
        n_points=7,
        n_iter=1,
        warmup=50,
        pool=10,
        n_draws=500,
        min_ess=0.25,
    ):
        self.n_components = n_components
        self.negative = negative
        self.entropy = entropy
        self.covariance = covariance
        self.n_points = n_points
        self.n_iter = n_iter
        self.warmup = warmup
        self.pool = pool
        self.n_draws = n_draws
        self.min_ess = min_ess

    @property
    def rule(self):
        return Rule(self.n_points, self.entropy, diagonal=self.covariance == "diag")

    def init(self, energy, batch, rng):
        mixture = first_mixture(energy, batch, self.n_components, self.covariance == "diag", rng)
        return VariationalState(mixture, [mixture])

    def resume(self, energy, batch, state, rng):
        return state

    def step(self, energy, batch, state, rng):
        mixture, step, value = state.mixture, state.step, np.nan
        if state.n_steps >= self.warmup and self.n_iter:
            found = infer(energy, mixture, self.rule, max_iter=self.n_iter, step=step)
            mixture, step, value = found.mixture, found.step, found.value
            state = replace(state, inferred=True)
        pool = [*state.pool, mixture][-self.pool :]
        info = {"log_partition_bound": value} if np.isfinite(value) else {}
        if self.negative == "importance":
            negative, more = self._weighted_draws(energy, average(pool), rng)
            info |= more
        else:
            negative = _pooled_points(energy, pool, self.n_points)
        state = replace(state, mixture=mixture, pool=pool, step=step, n_steps=state.n_steps + 1)
        X = batch.X
        if np.isnan(X).any():
            X = average(pool).fill(X, rng)
        return States(X, None, batch.log_weights), negative, state, info

    def _weighted_draws(self, energy, mixture, rng):
        proposal = mixture.defended(energy.mean, energy.covariance)
        X = proposal.sample(self.n_draws, rng)
        logs = energy.log_potential(X) - proposal.log_density(X)
        power = largest_power(logs, self.min_ess * len(X))
        ess = effective_sample_size(power * logs) / len(X)
        return States(X, None, power * logs), {"ess": ess, "importance_power": power}


def largest_power(logs, least_ess):
    """The largest power of importance weights, at most 1, of which the ESS is large enough."""
    if effective_sample_size(logs) >= least_ess:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = 0.5 * (low + high)
        if effective_sample_size(middle * logs) >= least_ess:
            low = middle
        else:
            high = middle
    return low


def _pooled_points(energy, pool, n_points):
    return quadrature(average(pool), energy.edges, n_points).points
