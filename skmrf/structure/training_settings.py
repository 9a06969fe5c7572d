"""Learners, settings and penalised problems of the training loop for models of a given graph."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import training
from .._utils.phases import CliqueMoments
from ..energies.log_linear import LogLinearEnergy
from ..energies.table_backed import NAME
from ..learners import Learner
from ..learners.registry import unmet_requirements
from ..training import optimizers, schedules
from ..training.settings import MIN_UPDATES, Settings
from .rows import Rows

DRAWS_PER_ROW = 10  # chain states in the averaged iterates, so that their noise adds 5%
LAST_STAGE = 3.375  # length of the last stage of the learning rate, in windows
MAX_WINDOW = 2_000  # so that all stages fit into the updates of a run
N_HALVINGS = 3
N_CHAINS = 512
FIRST_RATE = 0.01
MIN_WARM_UPDATES = 500
BATCH_ENTRIES = 2**18


def adapt_learner(learner):
    """Return a learner of :class:`LogLinearEnergy`: the learner itself, or an adapter of it.

    The adapter is for learners that support factor graphs only.
    """
    return TableLearnerAdapter(learner) if unmet_requirements(learner, LogLinearEnergy) else learner


class TableLearnerAdapter(Learner):
    """Adapter that lets a learner of factor graphs learn a :class:`LogLinearEnergy`.

    The learner receives the energy as a factor graph, so :class:`~skmrf.energies.FactorGraph` must
    satisfy its ``requires``.

    Parameters
    ----------
    learner : Learner
        Learner of tables of log-potentials.
    """

    requires = (LogLinearEnergy,)

    def __init__(self, learner):
        self.learner = learner

    @property
    def deterministic(self):
        """True if the objective of the wrapped learner is deterministic."""
        return self.learner.deterministic

    @property
    def objective_takes_missing(self):
        """True if the objective of the wrapped learner supports missing entries."""
        return self.learner.objective_takes_missing

    def init(self, energy, batch, rng):
        """Return the initial state of the wrapped learner."""
        return self.learner.init(energy.graph, batch, rng)

    def resume(self, energy, batch, state, rng):
        """Return the wrapped learner's state for continued training."""
        return self.learner.resume(energy.graph, batch, state, rng)

    def step(self, energy, batch, state, rng):
        """Return both phases of the gradient, converted to statistics of the free parameters."""
        phases = self.learner.step(energy.graph, batch, state, rng)
        positive, negative = (_convert_moments(energy, phase) for phase in phases[:2])
        return positive, negative, *phases[2:]

    def objective(self, energy, batch, state):
        """Return the wrapped learner's objective, and its gradient for the free parameters."""
        value, gradient = self.learner.objective(energy.graph, batch, state)
        return value, energy.from_table_gradient(gradient[NAME])


def _convert_moments(energy, phase):
    """Convert the clique marginals of a phase to expected sufficient statistics of the energy."""
    if isinstance(phase, CliqueMoments):
        return CliqueMoments(energy.from_table_moments(phase.moments[NAME]))
    return phase


@dataclass(frozen=True)
class LoopParameters:
    """Parameters of the structure learner that are settings of the training loop."""

    optimizer: Any
    learning_rate: Any
    batch_size: int | None
    max_iter: int | None
    tol: float

    def settings(self, learner, rows, penalty, *, warm=False, restriction=None):
        """Return the settings of one run of the training loop.

        ``warm`` states that the initial values are near the optimum. A ``restriction`` removes
        edges between updates.
        """
        optimizer = self._optimizer(learner, rows, penalty, restriction)
        short = warm and self.learning_rate == "adaptive"
        settings = Settings(
            optimizer=optimizer,
            rate=_warm_start_rate(rows)
            if short
            else schedules.make_rate(self.learning_rate, optimizer),
            penalty=penalty,
            batch_size=self.batch_size or max(1, BATCH_ENTRIES // rows.X.shape[1]),
            max_iter=self.max_iter,
            tol=self.tol,
            average=penalty.smooth and restriction is None,
            complete=restriction is None or self.max_iter is None,
            min_updates=MIN_WARM_UPDATES if short else MIN_UPDATES,
        )
        return settings if restriction is None else replace(settings, restriction=restriction)

    def _optimizer(self, learner, rows, penalty, restriction):
        solvable = learner.deterministic and (
            learner.objective_takes_missing or not rows.has_missing
        )
        name = "sgd" if self.optimizer == "auto" and restriction is not None else self.optimizer
        kind = "l2" if penalty.smooth else "l1"
        optimizer = optimizers.make_optimizer(name, solvable, penalty, kind)
        if restriction is not None and optimizer is None:
            raise ValueError(
                "RemovalWhileLearning removes edges between the updates of a stochastic "
                'optimizer, so L-BFGS cannot be used. Use optimizer="sgd", or use '
                "search=Thresholding(...) to remove edges after learning."
            )
        return optimizer


def _warm_start_rate(rows):
    """Return a learning-rate schedule for a warm start; more rows give a longer schedule."""
    window = int(np.clip(DRAWS_PER_ROW * rows.count / N_CHAINS / LAST_STAGE, 100, MAX_WINDOW))
    return training.AdaptiveRate(FIRST_RATE, window, n_halvings=N_HALVINGS)


@dataclass(frozen=True, eq=False)
class PenalisedProblem:
    """Penalised estimation of the candidate pairs by the learner of the search.

    Attributes
    ----------
    energy : LogLinearEnergy
        Initial values.
    rows : Rows
        Rows without missing entries.
    penalty : object
        Penalty of the parameters.
    """

    energy: Any
    rows: Rows
    penalty: Any
