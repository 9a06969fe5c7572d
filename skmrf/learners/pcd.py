"""Persistent contrastive divergence: Gibbs chains that go on from step to step."""

from dataclasses import replace

import numpy as np

from ..energies import LayeredEnergy
from ..samplers import Product, blocks_of, spawn_generators, sweep
from ..samplers.gibbs import alternate
from .particle_options import check_count
from .particles import ParticleLearner, Particles

FEWEST, MOST = 64, 512
LAYERED_CHAINS, LAYERED_SWEEPS, SWEEPS = 100, 1, 5


class PCD(ParticleLearner):
    r"""Persistent contrastive divergence (stochastic maximum likelihood).

    The negative phase is the current states of Gibbs chains that start at training rows and follow
    the model as it changes.

    Parameters
    ----------
    n_chains : int, optional
        By default as many as training rows, at least 64 and at most 512; 100 for models with a
        hidden layer.
    n_sweeps : int, optional
        Sweeps over all variables a gradient step: by default 5, as on data of many modes one sweep
        lets the chains fall behind the model, which costs likelihood; 1 for models with a hidden
        layer, whose units are drawn a layer at a time. With few hidden units some fits end several
        nats below others.

    References
    ----------
    T. Tieleman, "Training restricted Boltzmann machines using approximations to the likelihood
    gradient", ICML (2008).
    """

    def __init__(self, n_chains=None, n_sweeps=None):
        self.n_chains = n_chains
        self.n_sweeps = n_sweeps

    def check(self):
        check_count(self, optional=("n_chains", "n_sweeps"))

    def start(self, energy, data, batch, rng):
        layered = isinstance(energy, LayeredEnergy)
        n_chains = self.n_chains
        if n_chains is None:
            n_rows = int(np.clip(batch.X.shape[0], FEWEST, MOST))
            n_chains = LAYERED_CHAINS if layered else n_rows
        X = data.draw_rows(batch, n_chains, rng)
        reference = Product.uniform(energy.visible_states)
        hidden = None
        if layered:
            means = energy.hidden_means(X)
            hidden = (rng.random(means.shape) < means).astype(means.dtype)
        generators = spawn_generators(rng, n_chains)
        return Particles(data, reference, energy, X, None, generators, memory=hidden)

    def step(self, energy, batch, state, rng):
        positive = state.data(energy, batch)
        moved = self._alternate if isinstance(energy, LayeredEnergy) else self._sweep
        after = replace(moved(energy, state), energy=energy)
        return positive, after.phase, after, {"flip_rate": float((after.X != state.X).mean())}

    def _sweep(self, energy, state):
        X, _ = sweep(energy, state.X, state.generators, n_sweeps=self.n_sweeps or SWEEPS)
        return replace(state, X=X)

    def _alternate(self, energy, state):
        """From the hidden states, so that the last product of matrices serves the gradient too."""
        blocks = blocks_of(len(state.X))
        n_sweeps = self.n_sweeps or LAYERED_SWEEPS
        X, means, H = alternate(energy, state.memory, state.generators, blocks, n_sweeps)
        return replace(state, X=X, hidden=means, memory=H)
