"""Contrastive divergence: Gibbs chains started at the data."""

from dataclasses import dataclass

from .._types import States, dense_rows
from .._validation import check_number
from ..samplers import BLOCK, spawn_generators, sweep
from .base import DataPhase, Learner


@dataclass
class CDState:
    """The data's phase, and a generator for every block of rows of the largest batch."""

    data: DataPhase
    generators: list


class CD(Learner):
    r"""Contrastive divergence.

    The negative phase is where Gibbs chains stand ``n_steps`` sweeps after they left the rows of
    the batch.

    Parameters
    ----------
    n_steps : int, default=1
        Sweeps over all variables.

    References
    ----------
    G. E. Hinton, "Training products of experts by minimizing contrastive divergence", Neural
    Computation 14 (2002).
    """

    def __init__(self, n_steps=1):
        self.n_steps = n_steps

    def init(self, energy, batch, rng):
        check_number("n_steps", self.n_steps, low=1, integer=True)
        return CDState(DataPhase(energy, batch, rng), spawn_generators(rng, batch.X.shape[0]))

    def resume(self, energy, batch, state, rng):
        n_blocks = -(-batch.X.shape[0] // BLOCK)
        if not isinstance(state, CDState) or n_blocks > len(state.generators):
            return self.init(energy, batch, rng)
        check_number("n_steps", self.n_steps, low=1, integer=True)
        return CDState(DataPhase(energy, batch, rng), state.generators)

    def step(self, energy, batch, state, rng):
        positive = state.data.batch_states(energy, batch)
        start = dense_rows(positive.visible)
        n_blocks = -(-len(start) // BLOCK)
        generators = state.generators[:n_blocks]
        X, _ = sweep(energy, start, generators, n_sweeps=self.n_steps)
        state.generators[:n_blocks] = generators
        return positive, States(X, None, batch.log_weights), state, {}
