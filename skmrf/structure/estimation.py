"""Parameters of the edges of a graph, learned by the loop."""

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import parallel_config

from .. import training
from .._utils.phases import CliqueMoments
from ..energies.log_linear import LogLinearEnergy
from ..energies.table_backed import NAME
from ..learners import Learner
from ..learners.registry import missing
from ..training import data_moments, loop, optimizers, penalties, schedules
from ..training import state as loop_state
from ..training.reports import SilentReports
from ..training.settings import MIN_UPDATES, Settings
from .path import Path, Recorder
from .regression import RIDGE
from .rows import Rows

DRAWS_A_ROW = 10  # states of chains in the averaged iterates, so that their noise adds 5%
LAST_STAGE = 3.375  # windows
LONGEST_WINDOW = 2_000  # all stages fit into the updates of a run
N_HALVINGS = 3
CHAINS = 512
FIRST_RATE = 0.01
SHORTEST = 500  # updates
ENTRIES_A_BATCH = 2**18


def adapted(learner):
    """Return the learner, in an adapter if it learns tables only."""
    return TableLearnerAdapter(learner) if missing(learner, LogLinearEnergy) else learner


class TableLearnerAdapter(Learner):
    """Adapter that lets a learner of tables learn a :class:`LogLinearEnergy`.

    The learner sees the energy as a factor graph, so its own ``requires`` must be met by
    :class:`~skmrf.energies.FactorGraph`.

    Parameters
    ----------
    learner : Learner
        A learner of tables of log-potentials.
    """

    requires = (LogLinearEnergy,)

    def __init__(self, learner):
        self.learner = learner

    @property
    def deterministic(self):
        """Whether the learner has an objective."""
        return self.learner.deterministic

    @property
    def objective_takes_missing(self):
        """Whether the objective of the learner takes rows with missing entries."""
        return self.learner.objective_takes_missing

    def init(self, energy, batch, rng):
        return self.learner.init(energy.graph, batch, rng)

    def resume(self, energy, batch, state, rng):
        return self.learner.resume(energy.graph, batch, state, rng)

    def step(self, energy, batch, state, rng):
        phases = self.learner.step(energy.graph, batch, state, rng)
        positive, negative = (_by_parameters(energy, phase) for phase in phases[:2])
        return positive, negative, *phases[2:]

    def objective(self, energy, batch, state):
        """Return the objective of the learner and its gradient by the free parameters."""
        value, gradient = self.learner.objective(energy.graph, batch, state)
        return value, energy.from_table_gradient(gradient[NAME])


def _by_parameters(energy, phase):
    """Return a phase with moments shaped like the parameters of the energy."""
    if isinstance(phase, CliqueMoments):
        return CliqueMoments(energy.from_table_moments(phase.moments[NAME]))
    return phase


@dataclass(frozen=True)
class Schedule:
    """Settings of the training loop that are parameters of the estimator."""

    optimizer: Any
    learning_rate: Any
    batch_size: int | None
    max_iter: int | None
    tol: float

    def settings(self, learner, rows, penalty, *, warm=False, restriction=None):
        """Return the settings of one run of the loop.

        Parameters
        ----------
        learner : Learner
        rows : Rows
        penalty : penalty of :mod:`skmrf.training`
        warm : bool
            Whether the initial values are near the optimum.
        restriction : EdgeRemoval, optional
            Removes edges between updates.

        Returns
        -------
        Settings
        """
        optimizer = self._optimizer(learner, rows, penalty, restriction)
        short = warm and self.learning_rate == "adaptive"
        settings = Settings(
            optimizer=optimizer,
            rate=_short_rate(rows) if short else schedules.make_rate(self.learning_rate, optimizer),
            penalty=penalty,
            batch_size=self.batch_size or max(1, ENTRIES_A_BATCH // rows.X.shape[1]),
            max_iter=self.max_iter,
            tol=self.tol,
            average=penalty.smooth and restriction is None,
            complete=restriction is None or self.max_iter is None,
            min_updates=SHORTEST if short else MIN_UPDATES,
        )
        if restriction is not None:
            settings.restriction = restriction
        return settings

    def _optimizer(self, learner, rows, penalty, restriction):
        solvable = learner.deterministic and (
            learner.objective_takes_missing or not rows.has_missing
        )
        name = "sgd" if self.optimizer == "auto" and restriction is not None else self.optimizer
        kind = "l2" if penalty.smooth else "l1"
        optimizer = optimizers.make_optimizer(name, solvable, penalty, kind)
        if restriction is not None and optimizer is None:
            raise ValueError(
                "RemovalWhileLearning removes edges between the updates of an optimizer, and "
                'L-BFGS has none; use optimizer="sgd", or search=Thresholding(...) to remove edges '
                "after learning."
            )
        return optimizer


def _short_rate(rows):
    """Return a schedule for starts near the optimum, longer for more rows."""
    window = int(np.clip(DRAWS_A_ROW * rows.count / CHAINS / LAST_STAGE, 100, LONGEST_WINDOW))
    return training.AdaptiveRate(FIRST_RATE, window, n_halvings=N_HALVINGS)


@dataclass
class Estimation:
    """How the parameters of a graph are learned.

    Attributes
    ----------
    learner : Learner
    schedule : Schedule
    rng : numpy.random.Generator
    path : Path
    reports : object with the methods of :class:`~skmrf.training.reports.SilentReports`
    n_jobs : int or None
    history : dict of lists
        Of all runs of the loop so far.
    n_iter : int
        Epochs of all of them.
    converged : bool
        Of the last.
    stopped : bool
        Whether a callback, or Ctrl-C, has asked to stop.
    interrupted : bool
        Whether Ctrl-C has cut any of the runs short.
    alpha : float or None
        Strength of the penalty that was chosen.
    state : LoopState or None
        Of the last run.
    restriction : EdgeRemoval or None
        Of runs that go on.
    """

    learner: Learner
    schedule: Any
    rng: np.random.Generator
    path: Path
    reports: Any = field(default_factory=SilentReports)
    n_jobs: int | None = None
    history: dict = field(default_factory=dict)
    n_iter: int = 0
    converged: bool = True
    stopped: bool = False
    interrupted: bool = False
    alpha: float | None = None
    state: Any = None
    restriction: Any = None

    def learn(self, energy, rows: Rows, *, warm=False, penalty=None, restriction=None):
        """Learn the parameters of a graph.

        Parameters
        ----------
        energy : LogLinearEnergy
            Initial values.
        rows : Rows
        warm : bool
            Whether the initial values are near the optimum.
        penalty : optional
            By default the ridge of the conditional likelihoods, which keeps finite what has no
            maximum; none under a restriction.
        restriction : EdgeRemoval, optional
            Removes edges between updates.

        Returns
        -------
        LogLinearEnergy
        """
        if not len(energy.form.edges):
            return energy
        learner = adapted(self.learner)
        if penalty is None:
            penalty = self._default_penalty(energy, rows, restriction)
        options = {"warm": warm, "restriction": restriction}
        settings = self.schedule.settings(learner, rows, penalty, **options)
        moments = data_moments.complete_moments(energy.graph, rows.batch)
        settings.resolution = data_moments.resolution(moments, rows.batch)
        self.path.begin()
        state = loop_state.start(energy, learner, rows.batch, settings, self.rng)
        return self._run(learner, rows, settings, state)

    def learn_epoch(self, energy, rows: Rows, restriction):
        """Learn for one more epoch under a restriction.

        Parameters
        ----------
        energy : LogLinearEnergy
            Initial values of the first epoch; later ones resume.
        rows : Rows
            They may differ from epoch to epoch.
        restriction : EdgeRemoval
            Restriction of the first epoch; later ones keep it.

        Returns
        -------
        LogLinearEnergy
        """
        first = self.state is None
        self.restriction = restriction if first else self.restriction
        learner, schedule = adapted(self.learner), replace(self.schedule, max_iter=1)
        settings = schedule.settings(
            learner, rows, penalties.NoPenalty(), restriction=self.restriction
        )
        if first:
            state = loop_state.start(energy, learner, rows.batch, settings, self.rng)
        else:
            state = loop_state.resume(self.state, learner, rows.batch, settings)
        return self._run(learner, rows, settings, state)

    @staticmethod
    def _default_penalty(energy, rows, restriction):
        if restriction is not None:
            return penalties.NoPenalty()
        return penalties.L2(RIDGE / rows.count, energy.penalty_groups())

    def _run(self, learner, rows, settings, state):
        recorder = Recorder(self.path, self.reports)
        known = state.epoch
        with nullcontext() if self.n_jobs is None else parallel_config(n_jobs=self.n_jobs):
            state = loop.run(learner, rows.batch, settings, state, recorder)
        self.n_iter += state.epoch - known
        self.converged = bool(state.converged)
        self.interrupted |= state.interrupted
        self.stopped |= recorder.stopped or state.interrupted
        for name, column in state.history.columns.items():
            self.history.setdefault(name, []).extend(column[known:])
        self.state = state
        return state.result().restricted(state.energy.alive)
