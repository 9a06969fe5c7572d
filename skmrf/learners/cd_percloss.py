"""Perceptron loss by contrastive divergence (CD-PercLoss)."""

from dataclasses import dataclass

import numpy as np

from .._utils.codes import STATE
from .._utils.namespaces import namespace
from .._utils.parameters import check_number
from .._utils.phases import States
from ..samplers import spawn_generators, sweep
from ..samplers.gibbs import BLOCK
from ..variational.bipartite import unit_probabilities
from .cd import first_generators, keep_generators
from .conditional import MeanFieldPrediction, condition_on_batch


@dataclass
class SearchState:
    """State of the learner CDPercLoss: a random generator for each block of chains."""

    generators: list


class CDPercLoss(MeanFieldPrediction):
    r"""Perceptron loss with Gibbs chains that search for outputs of low free energy.

    For each row, a Gibbs chain searches for outputs with a lower free energy than the true outputs.
    Its initial outputs are drawn with the probabilities :math:`\sigma(b^v + W^{vx} x)`, which
    ignore the hidden units. The negative phase is the state of lowest free energy
    among the states after each of the ``n_sweeps`` sweeps. Predictions use mean field.

    Parameters
    ----------
    n_sweeps : int, default=10
        Number of Gibbs sweeps in each step.

    References
    ----------
    V. Mnih, H. Larochelle and G. E. Hinton, "Conditional restricted Boltzmann machines for
    structured output prediction", UAI 2011.
    """

    is_pure = True

    def __init__(self, n_sweeps=10):
        self.n_sweeps = n_sweeps

    def init(self, energy, batch, rng):
        """Return the learner's initial state: a random generator for each block of chains."""
        check_number("n_sweeps", self.n_sweeps, low=1, integer=True)
        return SearchState(spawn_generators(rng, batch.X.shape[0]))

    def resume(self, energy, batch, state, rng):
        """Return the learner's old state, or a new one if there are more rows than before."""
        n_blocks = -(-batch.X.shape[0] // BLOCK)
        if not isinstance(state, SearchState) or n_blocks > len(state.generators):
            return self.init(energy, batch, rng)
        check_number("n_sweeps", self.n_sweeps, low=1, integer=True)
        return state

    def step(self, energy, batch, state, rng):
        """Return both terms of the gradient: true outputs, and found outputs of low free energy."""
        positive, model = condition_on_batch(energy, batch)
        shape, dtype = positive.visible.shape, positive.visible.dtype
        drawn = rng.random(shape, dtype=dtype) < unit_probabilities(model.visible_bias)
        V, lowest, best = drawn.astype(STATE), np.full(shape[0], np.inf), None
        generators, xp = first_generators(state.generators, shape[0]), namespace(V)
        for _ in range(self.n_sweeps):
            V, _ = sweep(model, V, generators)
            energies = model.free_energy(V)
            better = energies < lowest
            best = V if best is None else xp.where(better[:, None], V, best)
            lowest = xp.minimum(lowest, energies)
        keep_generators(state, generators)
        loss = model.free_energy(positive.visible) - lowest
        info = {"perceptron_loss": xp.maximum(loss, 0).mean()}
        return positive, States(best, model.hidden_means(best)), state, info
