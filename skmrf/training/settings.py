"""Settings of the training loop."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .optimizers import Adam
from .penalties import NoPenalty
from .reports import warn_interrupted
from .schedules import AdaptiveRate

MIN_UPDATES = 2_000
MAX_UPDATES = 20_000
CONVERGED_SHARE = 0.99


class NoRestriction:
    """Placeholder for training without a restriction of the parameters."""

    def update(self, energy, positive, negative, info):
        """Return the energy unchanged."""
        return energy


@dataclass(frozen=True)
class Settings:
    """Settings of one run of the training loop.

    Attributes
    ----------
    optimizer : optimizer of :mod:`skmrf.training`, or None
        Optimizer of stochastic steps. With None, a deterministic solver maximises the objective of
        the learner.
    rate : learning-rate schedule of :mod:`skmrf.training`
        Schedule of the learning rate of the optimizer.
    is_last_stage : bool
        Whether a new schedule starts in its last stage, because the model is already trained.
    penalty : penalty of :mod:`skmrf.training`
        Penalty that is subtracted from the mean log-likelihood.
    restriction : object with the method of :class:`NoRestriction`
        Its ``update`` is called after each step of the optimizer, and can change the energy.
    batch_size : int
        Number of rows in a minibatch.
    max_iter : int or None
        Maximum number of epochs, or of iterations of a solver. With None, training ends at
        convergence, after at least ``min_updates`` and at most ``max_updates`` updates.
    tol : float
        Largest gradient entry at which a deterministic solver stops.
    min_gain : float
        Increase of the objective in one iteration, in nats, at which L-BFGS has converged.
    n_small_gains : int
        Number of successive increases of at most ``min_gain`` at which L-BFGS has converged.
    max_gradient : float
        Largest entry of the gradient at which an increase of at most ``min_gain`` counts.
    average : bool
        Whether to keep and return the mean of the iterates since the last change of the rate.
    recency : float
        Exponent of the weights in this mean: the n-th iterate has a weight of about
        ``n ** recency``. Use 0 for concave problems.
    resolution : float
        Squared norm below which a gradient counts as noise.
    score : callable or None
        Function ``(energy, state) -> float`` that scores held-out rows, for early stopping.
    patience : int
        Number of epochs without a better score after which training stops.
    min_updates, max_updates : int
        Minimum and maximum number of updates if ``max_iter`` is None.
    converged_share : float
        Share of converged inference runs in the last epoch below which the loop warns.
    complete : bool
        Whether to warn if training ends before convergence.
    interruptible : bool
        Whether Ctrl-C ends the run with a warning and the state of the last complete update. If
        False, Ctrl-C raises a ``KeyboardInterrupt``.
    multiplicity : dict of str to int
        Number of entries of an array of theta that are the same parameter, as in
        :class:`~skmrf.energies.Energy`. It is 1 for arrays without an entry in the dict.
    finish : tuple of callable
        Functions ``LoopState -> LoopState`` that improve or check the final state of training, one
        after the other, unless training is stopped before it has converged.
    device : Device or None
        Device of JAX on which training runs; None for the compiled functions of numba.
    """

    optimizer: Any = field(default_factory=Adam)
    rate: Any = field(default_factory=AdaptiveRate)
    is_last_stage: bool = False
    penalty: Any = field(default_factory=NoPenalty)
    restriction: Any = field(default_factory=NoRestriction)
    batch_size: int = 256
    max_iter: int | None = None
    tol: float = 1e-6
    min_gain: float = 0.0
    n_small_gains: int = 1
    max_gradient: float = np.inf
    average: bool = True
    recency: float = 0.0
    resolution: float = 0.0
    score: Any = None
    patience: int = 5
    min_updates: int = MIN_UPDATES
    max_updates: int = MAX_UPDATES
    converged_share: float = CONVERGED_SHARE
    complete: bool = True
    interruptible: bool = True
    multiplicity: dict = field(default_factory=dict)
    finish: tuple = ()
    device: Any = None

    def work_of_update(self, energy, data):
        """Return the parameters times the rows of an update, and whether training is stochastic."""
        n_rows, is_stochastic = data.X.shape[0], self.optimizer is not None
        n_used = min(self.batch_size or n_rows, n_rows) if is_stochastic else n_rows
        return n_used * sum(v.size for v in energy.theta.values()), is_stochastic

    def finish_training(self, state):
        """Return the final state of training after the functions of ``finish``.

        Ctrl-C ends them. The state is then that before the function that was interrupted.
        """
        try:
            for function in self.finish:
                state = function(state)
        except KeyboardInterrupt:
            if not self.interruptible:
                raise
            state = replace(state, interrupted=True)
            warn_interrupted(state)
        return state
