"""Contrastive divergence: Gibbs chains started at the data."""

from .._types import States
from .._validation import check_number
from ..samplers import spawn_generators, sweep
from .base import DataPhase, Learner


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
        return DataPhase(energy, batch, rng)

    def step(self, energy, batch, state, rng):
        positive = state.batch_states(energy, batch)
        generators = spawn_generators(rng, len(positive.visible))
        X, _ = sweep(energy, positive.visible, generators, n_sweeps=self.n_steps)
        return positive, States(X, None, batch.log_weights), state, {}
