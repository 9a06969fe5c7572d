"""Neural potentials by mixture beliefs: free energy by quadrature, importance-weighted draws."""

from dataclasses import dataclass, replace

import numpy as np

from .._types import States
from .._validation import check_choice, check_number
from ..messages.free_energy import FIRST_STEP, Rule, infer, quadrature
from ..messages.mixtures import Mixture, average
from ..samplers.metropolis import Metropolis
from .base import Learner
from .clusters import first_mixture


FIRST_ITERATIONS = 50  # so that beliefs are the model's, not those of the clusters


@dataclass
class VariationalState:
    """What a step of :class:`Variational` leaves to the next one."""

    mixture: Mixture
    pool: list
    step: float = FIRST_STEP
    n_steps: int = 0
    inferred: bool = False
    chains: np.ndarray | None = None
    size: float = 0.0


class Variational(Learner):
    def __init__(
        self,
        n_components=5,
        *,
        negative="chains",
        entropy="joint",
        covariance="full",
        n_points=7,
        n_iter=1,
        warmup=50,
        pool=10,
        n_chains=500,
        n_moves=4,
    ):
        self.n_components = n_components
        self.negative = negative
        self.entropy = entropy
        self.covariance = covariance
        self.n_points = n_points
        self.n_iter = n_iter
        self.warmup = warmup
        self.pool = pool
        self.n_chains = n_chains
        self.n_moves = n_moves

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
            n_iter = self.n_iter if state.inferred else FIRST_ITERATIONS
            found = infer(energy, mixture, self.rule, max_iter=n_iter, step=step)
            mixture, step, value = found.mixture, found.step, found.value
            state = replace(state, inferred=True)
        pool = [*state.pool, mixture][-self.pool :]
        info = {"log_partition_bound": value} if np.isfinite(value) else {}
        if self.negative == "chains":
            X, size, more = self._moved(energy, average(pool), state, rng)
            negative, state = States(X), replace(state, chains=X, size=size)
            info |= more
        else:
            negative = _pooled_points(energy, pool, self.n_points)
        state = replace(state, mixture=mixture, pool=pool, step=step, n_steps=state.n_steps + 1)
        X = batch.X
        if np.isnan(X).any():
            X = average(pool).fill(X, rng)
        return States(X, None, batch.log_weights), negative, state, info

    def _moved(self, energy, mixture, state, rng):
        """Chains after some Metropolis moves of the model, and diagnostics."""
        proposal = mixture.defended(energy.mean, energy.covariance)
        X = proposal.sample(self.n_chains, rng) if state.chains is None else state.chains
        moves = Metropolis(proposal, state.size)
        logs = energy.log_potential(X)
        X, logs, jumped = moves.jump(energy.log_potential, X, logs, rng)
        for _ in range(self.n_moves):
            X, logs, walked = moves.walk(energy.log_potential, X, logs, rng)
            moves.adapt(walked)
        return X, moves.size, {"jumps_accepted": jumped, "walks_accepted": walked}


def _pooled_points(energy, pool, n_points):
    return quadrature(average(pool), energy.edges, n_points).points
