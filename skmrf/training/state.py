"""State of the training loop."""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._utils.history import History
from .._utils.identity import identity_of


@dataclass
class LoopState:
    """Everything that the next epoch needs.

    It pickles, and training resumes from it bit for bit.

    Attributes
    ----------
    energy : Energy
        Current iterate.
    averaged : dict
        Mean of the iterates of this stage; empty where it is not kept.
    n_averaged : int
        Number of iterates in the mean.
    learner, optimizer, rate
        States of the learner, of the optimizer or solver, and of the schedule. The state of a
        solver is dropped when a run ends.
    rng : numpy.random.Generator
    epoch, step : int
        Number of complete epochs and updates.
    history : History
    converged : bool
    best : (float, Energy) or None
        Best score of held-out rows, and its energy.
    began : int
        Number of complete epochs when this run began.
    interrupted : bool
        Whether Ctrl-C ended this run.
    made_by : tuple
        Identities of the optimizer and of the schedule whose states these are.
    """

    energy: Any
    averaged: dict
    n_averaged: int
    learner: Any
    optimizer: Any
    rate: Any
    rng: np.random.Generator
    epoch: int = 0
    step: int = 0
    history: History = field(default_factory=History)
    converged: bool = False
    best: Any = None
    began: int = 0
    interrupted: bool = False
    made_by: tuple = ()

    def result(self, average=True):
        """Return the learned energy: the best by held-out score, else the averaged iterates."""
        if self.best is not None:
            return self.best[1]
        if average and self.n_averaged:
            return self.energy.with_theta({k: v.copy() for k, v in self.averaged.items()})
        return self.energy

    def check_finite(self):
        """Raise a ValueError if a parameter is nan or plus infinity."""
        if any(np.isnan(v).any() or (v == np.inf).any() for v in self.energy.theta.values()):
            raise ValueError(
                f"Learning diverged in epoch {self.epoch}: parameters are not finite any more. "
                "Give a smaller learning_rate, or alpha > 0."
            )


def start(energy, learner, data, settings, rng):
    """Return the state before the first epoch.

    Parameters
    ----------
    energy : Energy
        Initial values.
    learner : Learner
    data : Batch
        All training rows.
    settings : Settings
    rng : Generator or None
        The state keeps it and draws from it. A deterministic learner needs none.

    Returns
    -------
    LoopState
    """
    return LoopState(
        energy,
        _zero_averages(settings, energy),
        0,
        learner.init(energy, data, rng),
        _init_optimizer(settings, energy),
        settings.rate.init(),
        rng,
        made_by=_identities(settings),
    )


def resume(state, learner, data, settings):
    """Return a copy of a state from which training continues, on the same or on other rows.

    An optimizer or a schedule whose parameters have changed starts anew, and so does a schedule
    that has ended.

    Parameters
    ----------
    state : LoopState
        From an earlier :func:`run`.
    learner : Learner
    data : Batch
        All training rows.
    settings : Settings

    Returns
    -------
    LoopState
    """
    state = deepcopy(state)
    learner_state = learner.resume(state.energy, data, state.learner, state.rng)
    made_by = _identities(settings)
    is_same_optimizer, is_same_rate = (a == b for a, b in zip(made_by, state.made_by, strict=True))
    if not is_same_optimizer:
        state = replace(state, optimizer=_init_optimizer(settings, state.energy))
    if not is_same_rate or state.converged:
        state = replace(state, rate=settings.rate.init())
    if settings.average != bool(state.averaged):
        state = replace(state, averaged=_zero_averages(settings, state.energy), n_averaged=0)
    return replace(
        state,
        learner=learner_state,
        converged=False,
        best=None,
        began=state.epoch,
        interrupted=False,
        made_by=made_by,
    )


def recover(state, settings):
    """Return the state of the last complete update, after an interruption of the next one.

    The arrays that an update writes to start anew.
    """
    state.check_finite()
    return replace(
        state,
        averaged=state.averaged if state.n_averaged else _zero_averages(settings, state.energy),
        optimizer=_init_optimizer(settings, state.energy),
        rate=settings.rate.new_window(state.rate),
        interrupted=True,
    )


def _zero_averages(settings, energy):
    if not settings.average:
        return {}
    return {k: np.zeros_like(v) for k, v in energy.theta.items()}


def _init_optimizer(settings, energy):
    return None if settings.optimizer is None else settings.optimizer.init(energy.theta)


def _identities(settings):
    return identity_of(settings.optimizer), identity_of(settings.rate)


class Progress:
    """State that a run has reached.

    It holds the only reference to the state, so that the arrays that an update replaces are freed,
    and an interruption leaves the state of the last complete update.

    Parameters
    ----------
    state : LoopState

    Attributes
    ----------
    state : LoopState
        Replaced as a whole, never changed.
    """

    def __init__(self, state):
        self.state = state

    def update(self, **changes):
        """Replace attributes of the state."""
        self.state = replace(self.state, **changes)

    def record(self, info, settings):
        """End an epoch: add its diagnostics to the history, and keep the best energy.

        Parameters
        ----------
        info : dict
            Diagnostics of the epoch.
        settings : Settings
        """
        best = None if settings.score is None else self.state.best
        state = replace(self.state, epoch=self.state.epoch + 1, best=best)
        state.check_finite()
        row = dict(info, epoch=state.epoch, n_updates=state.step)
        if settings.score is not None:
            row["validation_score"], best = _score(state, settings)
            state = replace(state, best=best)
        state.history.append(row)
        self.state = state


def _score(state, settings):
    """Return the score of the current energy, and the best score with its energy."""
    energy = replace(state, best=None).result(settings.average)
    score, best = settings.score(energy, state), state.best
    return score, (score, energy) if best is None or score > best[0] else best
