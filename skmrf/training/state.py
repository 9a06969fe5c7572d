"""State of the training loop (creation, continuation, recovery), and arithmetic of its arrays."""

import weakref
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._kernels.ascent import update_running_mean
from .._utils.parameters import identity_of
from .._utils.results import History, LatestArray


class DivergenceError(ValueError):
    """Error of training whose parameters do not stay finite."""


@dataclass
class LoopState:
    """State of the training loop between two epochs.

    It can be pickled. Training that resumes from it continues bit for bit.

    Attributes
    ----------
    energy : Energy
        Current iterate.
    averaged : dict of str to ndarray
        Mean of the iterates of this stage, shaped like theta; empty if no mean is computed.
    n_averaged : int
        Number of iterates in the mean.
    learner, optimizer, rate : object
        States of the learner, of the optimizer or solver, and of the schedule. The state of a
        solver is dropped at the end of a run.
    rng : numpy.random.Generator
        Source of random numbers.
    epoch, step : int
        Number of complete epochs and updates.
    history : History
        Diagnostics of each epoch.
    converged : bool
        Whether training has converged.
    best : (float, Energy) or None
        Best score of held-out rows, and the energy that has it.
    start_epoch : int
        Number of complete epochs at the start of this run.
    interrupted : bool
        Whether Ctrl-C ended this run.
    identities : tuple
        Identities of the optimizer and of the schedule to which the states belong.
    rows_hash : str or None
        Hash of the training rows, if a later ``fit`` can continue training.
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
    start_epoch: int = 0
    interrupted: bool = False
    identities: tuple = ()
    rows_hash: str | None = None

    def result(self, average=True):
        """Return the energy with the trained parameters.

        With held-out rows, it is the energy with the best score. Otherwise it is the energy of the
        averaged iterates if there are any, else the last energy.
        """
        if self.best is not None:
            return self.best[1]
        if average and self.n_averaged:
            return self.energy.with_theta({k: v.copy() for k, v in self.averaged.items()})
        return self.energy

    def with_other_model(self, energy):
        """Return the state with another model, which has no chains and has not converged.

        The chains of training represent the trained model. Continued training starts new ones.
        """
        model = {"energy": energy, "averaged": {}, "n_averaged": 0}
        return replace(self, **model, learner=None, converged=False)

    @property
    def best_epoch(self):
        """Epoch of the trained energy: the epoch of best held-out score, or the last epoch."""
        if self.best is None:
            return max(self.epoch - 1, 0)
        scores = self.history.columns["validation_score"]
        return self.start_epoch + int(np.argmax(scores[self.start_epoch :]))

    def is_past_best(self, settings):
        """Return True if the best held-out score of this run is at least ``patience`` epochs old.

        Parameters
        ----------
        settings : Settings
            Settings of the run. Without a score of held-out rows, the answer is False.
        """
        if settings.score is None or self.epoch == self.start_epoch:
            return False
        scores = self.history.columns["validation_score"][self.start_epoch :]
        return len(scores) - 1 - int(np.argmax(scores)) >= settings.patience

    def with_average(self, recency, restarts, arithmetic):
        """Return the state after an update of the running mean of the iterates.

        The n-th iterate has a weight of about ``n ** recency``.

        Parameters
        ----------
        recency : float
            Exponent of the weights; 0 for equal weights.
        restarts : bool or int
            Whether the mean starts anew.
        arithmetic : class
            ``InPlace`` or ``Pure``.

        Returns
        -------
        LoopState
            State with the new mean.
        """
        n = 1 + self.n_averaged * (1 - restarts)
        share = (1 + recency) / (n + recency)
        averaged = arithmetic.move_mean(self.averaged, self.energy.theta, share)
        return replace(self, averaged=averaged, n_averaged=n)

    def check_finite(self, settings):
        """Raise a DivergenceError if any parameter is nan or plus infinity.

        Parameters
        ----------
        settings : Settings
            Settings of the run. The error suggests a penalty if they have none.
        """
        if any(np.isnan(v).any() or (v == np.inf).any() for v in self.energy.theta.values()):
            remedy = "" if settings.penalty.alpha else ", or alpha > 0"
            raise DivergenceError(
                f"Learning diverged in epoch {self.epoch}: some parameters are not finite. Set a "
                f"smaller learning_rate{remedy}."
            )


def first_state(energy, learner_state, settings, rng):
    """Return the training state before the first epoch.

    Parameters
    ----------
    energy : Energy
        Energy with the initial values of the parameters.
    learner_state : object
        Initial state of the learner.
    settings : Settings
        Settings of the run.
    rng : Generator or None
        Source of random numbers, which becomes part of the state.

    Returns
    -------
    LoopState
        State from which training starts.
    """
    return LoopState(
        energy,
        _zero_averages(settings, energy),
        0,
        learner_state,
        _init_optimizer(settings, energy),
        _first_rate(settings),
        rng,
        identities=_identities(settings),
    )


def untrained(energy, settings, rng, *, interrupted=False):
    """Return the training state of a model that needs no training, or whose training was stopped.

    Parameters
    ----------
    energy : Energy
        The model.
    settings : Settings
        Settings of the run.
    rng : Generator
        Source of random numbers.
    interrupted : bool, default=False
        Whether Ctrl-C stopped the training before its first update.

    Returns
    -------
    LoopState
        State after one epoch without updates. It has converged, unless it was interrupted.
    """
    history = History()
    history.append({"epoch": 1, "n_updates": 0})
    return LoopState(
        energy,
        {},
        0,
        None,
        _init_optimizer(settings, energy),
        settings.rate.init(),
        rng,
        epoch=1,
        history=history,
        converged=not interrupted,
        interrupted=interrupted,
        identities=_identities(settings),
    )


def continue_from(state, learner_state, settings, rows_hash=None):
    """Return the training state for a continued run.

    An optimizer or a schedule starts anew if its parameters have changed. A schedule that has ended
    also starts anew, or in its last stage if the settings say so. With other training rows, the
    schedule and the mean of the iterates start anew.

    Parameters
    ----------
    state : LoopState
        State at the end of an earlier run. The new state contains its arrays.
    learner_state : object
        State of the learner at the start of the new run.
    settings : Settings
        Settings of the new run.
    rows_hash : str, optional
        Hash of the training rows of the new run. By default the rows are not compared.

    Returns
    -------
    LoopState
        State from which training continues.
    """
    identities = _identities(settings)
    is_same_optimizer, is_same_rate = (
        a == b for a, b in zip(identities, state.identities, strict=True)
    )
    if not is_same_optimizer:
        state = replace(state, optimizer=_init_optimizer(settings, state.energy))
    has_other_rows = rows_hash is not None and rows_hash != state.rows_hash
    if not is_same_rate or state.converged or has_other_rows:
        state = replace(state, rate=_first_rate(settings))
    if has_other_rows or settings.average != bool(state.averaged):
        state = replace(state, averaged=_zero_averages(settings, state.energy), n_averaged=0)
    return replace(
        state,
        learner=learner_state,
        converged=False,
        best=None,
        start_epoch=state.epoch,
        interrupted=False,
        identities=identities,
    )


def recover(state, settings):
    """Return the training state after the last complete parameter update, after an interruption.

    Arrays that an update modifies in place are set to their initial values.
    """
    state.check_finite(settings)
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


def _first_rate(settings):
    return settings.rate.last_stage() if settings.is_last_stage else settings.rate.init()


def _identities(settings):
    return identity_of(settings.optimizer), identity_of(settings.rate)


class Progress:
    """Container of a run's training state, so that no other object refers to the state.

    As there is no other reference, arrays that an update replaces are freed at once. After an
    interruption, the state is that of the last complete update.

    Parameters
    ----------
    state : LoopState
        Initial state.

    Attributes
    ----------
    state : LoopState
        Current state. It is replaced as a whole and never modified.
    """

    def __init__(self, state):
        self.state = state
        self._checked = lambda: None  # returns the last energy whose parameters were checked

    def update(self, **changes):
        """Replace the training state by a copy with the given changes of attributes."""
        self.state = replace(self.state, **changes)

    def record(self, info, settings):
        """Add the diagnostics of an epoch to the history, and update the best energy so far.

        Parameters
        ----------
        info : dict of str to float
            Diagnostics of the epoch.
        settings : Settings
            Settings of the run.
        """
        best = None if settings.score is None else self.state.best
        state = replace(self.state, epoch=self.state.epoch + 1, best=best)
        if state.energy is not self._checked():  # a device keeps new ones until they are read
            state.check_finite(settings)
            self._checked = weakref.ref(state.energy)  # does not keep the parameters in memory
        row = dict(info, epoch=state.epoch, n_updates=state.step)
        if settings.score is not None:
            row["validation_score"], best = _score(state, settings)
            state = replace(state, best=best)
        state.history.append(row)
        self.state = state


def _score(state, settings):
    """Return the score of the current energy, and the best score so far with its energy."""
    energy = replace(state, best=None).result(settings.average)
    score, best = settings.score(energy, state), state.best
    return score, (score, energy) if best is None or score > best[0] else best


class InPlace:
    """Arithmetic of numpy arrays, which reuses arrays that are no longer needed."""

    @staticmethod
    def root_mean_square(gradient, squares):
        """Return the root of the mean square over the arrays, given some of the sums of squares."""
        sums = {k: np.vdot(g, g) for k, g in gradient.items() if k not in squares} | squares
        means = [sums[k] / g.size for k, g in gradient.items() if g.size]
        return float(np.sqrt(sum(means) / max(len(means), 1)))

    @staticmethod
    def step(optimizer, *args):
        """Return the result of a step of an optimizer, which may modify the gradient."""
        return optimizer.step(*args)

    @staticmethod
    def observe(rate, *args):
        """Return the result of the observation of a gradient by a schedule."""
        return rate.observe(*args)

    @staticmethod
    def move_mean(mean, theta, share):
        """Move the running mean of the parameters towards new parameters, and return it."""
        for k, v in theta.items():
            update_running_mean(mean[k].reshape(-1), v.reshape(-1), share)
        return mean


class Pure:
    """Arithmetic of arrays of JAX, which changes no array."""

    @staticmethod
    def root_mean_square(gradient, squares):  # noqa: ARG004
        """Return the root of the mean square over the arrays of a gradient.

        A device computes it once in an epoch. In each update, XLA would fuse the sums with other
        results, which then use only one multiprocessor of a GPU.
        """
        return LatestArray(gradient, _root_mean_square)

    @staticmethod
    def step(optimizer, theta, gradient, *args):
        """Return the result of a step of an optimizer."""
        return optimizer.pure_step(theta, dict(gradient), *args)

    @staticmethod
    def observe(rate, *args):
        """Return the result of the observation of a gradient by a schedule."""
        return rate.pure_observe(*args)

    @staticmethod
    def move_mean(mean, theta, share):
        """Return the running mean of the parameters after new parameters."""
        return {k: v + share * (theta[k] - v) for k, v in mean.items()}


def _root_mean_square(gradient):
    squares = [(g * g).mean() for g in gradient.values() if g.size]
    return (sum(squares) / len(squares)) ** 0.5
