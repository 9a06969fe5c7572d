"""CD-PercLoss: chains that search for outputs more probable than the true ones."""

from dataclasses import dataclass

import numpy as np

from .._utils.codes import STATE
from .._utils.parameters import check_number
from .._utils.phases import States
from ..samplers import spawn_generators, sweep
from ..samplers.gibbs import BLOCK
from ..variational.bipartite import unit_probabilities
from .conditional import MeanFieldPrediction, observed


@dataclass
class SearchState:
    """A generator for every block of chains of the largest batch."""

    generators: list


class CDPercLoss(MeanFieldPrediction):
    r"""Perceptron loss by a stochastic search.

    A Gibbs chain leaves outputs drawn from what the inputs alone say of them,
    :math:`\sigma(b^v + W^{vx} x)`. The negative phase is the state of lowest free energy among its
    ``n_sweeps`` sweeps. Models are asked by mean field.

    Parameters
    ----------
    n_sweeps : int, default=10

    References
    ----------
    V. Mnih, H. Larochelle and G. E. Hinton, "Conditional restricted Boltzmann machines for
    structured output prediction", UAI 2011.
    """

    def __init__(self, n_sweeps=10):
        self.n_sweeps = n_sweeps

    def init(self, energy, batch, rng):
        check_number("n_sweeps", self.n_sweeps, low=1, integer=True)
        return SearchState(spawn_generators(rng, batch.X.shape[0]))

    def resume(self, energy, batch, state, rng):
        n_blocks = -(-batch.X.shape[0] // BLOCK)
        if not isinstance(state, SearchState) or n_blocks > len(state.generators):
            return self.init(energy, batch, rng)
        check_number("n_sweeps", self.n_sweeps, low=1, integer=True)
        return state

    def step(self, energy, batch, state, rng):
        positive, model = observed(energy, batch)
        shape, dtype = positive.visible.shape, positive.visible.dtype
        drawn = rng.random(shape, dtype=dtype) < unit_probabilities(model.visible_bias)
        V, lowest, best = drawn.astype(STATE), np.full(shape[0], np.inf), None
        n_blocks = -(-shape[0] // BLOCK)
        generators = state.generators[:n_blocks]
        for _ in range(self.n_sweeps):
            V, _ = sweep(model, V, generators)
            energies = model.free_energy(V)
            better = energies < lowest
            best = V if best is None else np.where(better[:, None], V, best)
            lowest = np.minimum(lowest, energies)
        state.generators[:n_blocks] = generators
        gap = model.free_energy(positive.visible) - lowest
        info = {"perceptron_loss": float(np.maximum(gap, 0).mean())}
        return positive, States(best, model.hidden_means(best)), state, info
