"""Persistent contrastive divergence: Gibbs chains that go on from step to step."""

from dataclasses import dataclass

import numpy as np

from .._types import States
from .._validation import check_number
from ..samplers import spawn_generators, sweep
from .base import DataPhase, Learner

FEWEST, MOST = 64, 512


@dataclass
class PersistentChains:
    """Where the chains stand, their generators, and the positive phase."""

    data: DataPhase
    X: np.ndarray
    generators: list


class PCD(Learner):
    r"""Persistent contrastive divergence (stochastic maximum likelihood).

    The negative phase is the current states of Gibbs chains that start at training rows and follow
    the model as it changes.

    Parameters
    ----------
    n_chains : int, optional
        By default as many as training rows, at least 64 and at most 512.
    n_steps : int, default=5
        Sweeps over all variables a gradient step. On data of many modes one sweep lets the chains
        fall behind the model, which costs likelihood.

    References
    ----------
    T. Tieleman, "Training restricted Boltzmann machines using approximations to the likelihood
    gradient", ICML (2008).
    """

    def __init__(self, n_chains=None, n_steps=5):
        self.n_chains = n_chains
        self.n_steps = n_steps

    def init(self, energy, batch, rng):
        n_chains = self.n_chains
        if n_chains is None:
            n_chains = int(np.clip(len(batch.X), FEWEST, MOST))
        check_number("n_chains", n_chains, low=1, integer=True)
        check_number("n_steps", self.n_steps, low=1, integer=True)
        data = DataPhase(energy, batch, rng)
        X = data.draw_rows(batch, n_chains, rng)
        return PersistentChains(data, X, spawn_generators(rng, n_chains))

    def resume(self, energy, batch, state, rng):
        if not isinstance(state, PersistentChains):  # of another learner
            return self.init(energy, batch, rng)
        return PersistentChains(DataPhase(energy, batch, rng), state.X, state.generators)

    def step(self, energy, batch, state, rng):
        positive = state.data(energy, batch)
        X, _ = sweep(energy, state.X, state.generators, n_sweeps=self.n_steps)
        moved = float((X != state.X).mean())
        state = PersistentChains(state.data, X, state.generators)
        return positive, States(X), state, {"flip_rate": moved}
