"""The one learning loop. It never asks which energy or learner it holds."""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._kernels.ascent import blend
from .._utils.history import History, Latest
from .._utils.identity import identity_of
from .._utils.interrupts import InterruptLater
from .._utils.warn import warn_caller
from ..learners.registry import check_learner
from .batches import ascending, random_order, take
from .optimizers import Adam
from .penalties import NoPenalty
from .schedules import AdaptiveRate
from .solvers import make_solver

MIN_UPDATES = 2_000
MAX_UPDATES = 20_000
CONVERGED = 0.99  # share of inference runs


class NoRestriction:
    """Leaves theta as it is; a structure learner removes and re-enters edges here."""

    def update(self, energy, positive, negative, info):
        """The energy to go on with."""
        return energy


@dataclass
class Settings:
    """How to learn.

    Attributes
    ----------
    optimizer : of :mod:`skmrf.training`, or None
        None hands the learner's objective to a deterministic solver.
    rate, penalty, restriction : see their modules
    batch_size : int
    max_iter : int or None
        Epochs; None: until done, at least ``min_updates`` and at most ``max_updates`` updates.
    tol : float
        Largest gradient entry at which a deterministic solver stops.
    average : bool
        Keep the mean of the iterates since the last change of the rate, and return it.
    recency : float
        The n-th of these weighs about ``n ** recency``: 0 for problems that are concave, where the
        first ones are about as good as the last.
    resolution : float
        Squared norm of a gradient too small to matter.
    score : callable or None
        ``(energy, state) -> float`` on held-out data, for early stopping.
    patience : int
        Epochs without a better score before stopping.
    min_updates, max_updates : int
        Where ``max_iter`` is None.
    converged_share : float
        Of inference runs; less is warned about.
    complete : bool
        Whether learning that ends before it has converged is warned about.
    copies : dict
        How often the entries of an array of theta stand for one parameter, where not once.
    """

    optimizer: Any = field(default_factory=Adam)
    rate: Any = field(default_factory=AdaptiveRate)
    penalty: Any = field(default_factory=NoPenalty)
    restriction: Any = field(default_factory=NoRestriction)
    batch_size: int = 256
    max_iter: int | None = None
    tol: float = 1e-6
    average: bool = True
    recency: float = 0.0
    resolution: float = 0.0
    score: Any = None
    patience: int = 5
    min_updates: int = MIN_UPDATES
    max_updates: int = MAX_UPDATES
    converged_share: float = CONVERGED
    complete: bool = True
    copies: dict = field(default_factory=dict)


@dataclass
class LoopState:
    """Everything the next epoch needs; it pickles, and a fit resumes from it bit for bit.

    Attributes
    ----------
    energy : Energy, the current iterate
    averaged : dict, mean of the iterates of this stage; empty where it is not kept
    n_averaged : int
    learner, optimizer, rate : states of these; that of a solver is dropped when a run is over
    rng : numpy.random.Generator
    epoch, step : int, done so far
    history : History
    converged : bool
    best : (score, energy) or None
    began : int
        Epochs done when this run began.
    interrupted : bool
        Whether Ctrl-C ended this run.
    made_by : tuple
        Which optimizer and schedule their states belong to.
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
        """The learned energy: the best by held-out score, else the averaged iterates."""
        if self.best is not None:
            return self.best[1]
        if average and self.n_averaged:
            return self.energy.with_theta({k: v.copy() for k, v in self.averaged.items()})
        return self.energy


def start(energy, learner, data, settings, rng):
    """State before the first epoch.

    Parameters
    ----------
    energy : Energy
        Where learning starts.
    learner : Learner
    data : Batch
        All training rows.
    settings : Settings
    rng : Generator
        The state's own from now on.

    Returns
    -------
    LoopState

    Raises
    ------
    ValueError
        The energy does not keep a protocol that the learner requires.
    """
    check_learner(learner, type(energy))
    return LoopState(
        energy,
        _no_average(settings, energy),
        0,
        learner.init(energy, data, rng),
        _first_optimizer(settings, energy),
        settings.rate.init(),
        rng,
        made_by=_makers(settings),
    )


def resume(state, learner, data, settings):
    """A state to go on from, on the same or other rows; the one given stays as it is.

    An optimizer or a schedule with other parameters starts anew, as does a schedule that is done.

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
    makers = _makers(settings)
    optimizer, rate = state.optimizer, state.rate
    if makers[0] != state.made_by[0]:
        optimizer = _first_optimizer(settings, state.energy)
    if makers[1] != state.made_by[1] or state.converged:
        rate = settings.rate.init()
    if settings.average != bool(state.averaged):
        state = replace(state, averaged=_no_average(settings, state.energy), n_averaged=0)
    return replace(
        state,
        learner=learner_state,
        optimizer=optimizer,
        rate=rate,
        converged=False,
        best=None,
        began=state.epoch,
        interrupted=False,
        made_by=makers,
    )


def _no_average(settings, energy):
    """The mean of no iterates, if it is to be kept."""
    if not settings.average:
        return {}
    return {k: np.zeros_like(v) for k, v in energy.theta.items()}


def _first_optimizer(settings, energy):
    return None if settings.optimizer is None else settings.optimizer.init(energy.theta)


def _makers(settings):
    return identity_of(settings.optimizer), identity_of(settings.rate)


class SilentReports:
    """What :func:`run` tells of its epochs; this one listens to nothing."""

    def begin(self):
        """An epoch begins."""

    def end(self, state):
        """An epoch is over; True stops."""
        return False


def run(learner, data, settings, state, reports=None, began=None):
    """Learn until done.

    Parameters
    ----------
    learner : Learner
    data : Batch
        All training rows.
    settings : Settings
    state : LoopState
        From :func:`start`, or one that an earlier run returned.
    reports : object with the methods of :class:`SilentReports`, optional
    began : int, optional
        Epochs done when this run began, if it is one that was broken off; by default those of the
        state.

    Returns
    -------
    LoopState
        After Ctrl-C (with a warning) that of the last complete update, from which learning can go
        on; the optimizer and the window of an adaptive rate then begin anew. Ctrl-C waits for the
        end of an update; a second one, a second later, does not, and where the average of the
        iterates is kept, some of its arrays may then already hold the iterate that was to follow.

    Notes
    -----
    Arrays of the size of the parameters: the iterate, its gradient, what the optimizer keeps (none
    for ``SGD``, one for ``Momentum``, two for ``Adam``; 41 for L-BFGS, two for FISTA), and where
    they are asked for the average of the iterates, the two sums of an adaptive rate and the best
    model by held-out score, which takes two while it is found of averages. Nothing is kept for
    Ctrl-C: an iterate is never written to, and the state is exchanged as a whole.
    """
    holder = [replace(state, began=state.epoch if began is None else began)]
    del state  # of which an epoch makes a new one
    reports = SilentReports() if reports is None else reports
    try:
        if settings.optimizer is None:
            _solve(learner, data, settings, holder, reports)
        else:
            _iterate(learner, data, settings, holder, reports)
    except KeyboardInterrupt:
        holder[0] = _after_interruption(holder[0], settings)
        warn_caller(
            f"Interrupted; the model is that of the last complete update, {holder[0].step}, after "
            f"{holder[0].epoch} epochs.",
            ConvergenceWarning,
        )
    _warn_inference(holder[0], settings)
    return holder[0]


def _after_interruption(state, settings):
    """A complete state without what the update after it may have changed in place."""
    _check_finite(state)
    return replace(
        state,
        averaged=state.averaged if state.n_averaged else _no_average(settings, state.energy),
        optimizer=_first_optimizer(settings, state.energy),
        rate=settings.rate.new_window(state.rate),
        interrupted=True,
    )


def _warn_inference(state, settings):
    """Once a fit, if the learner's inference did not converge in the last epoch."""
    share = state.history.columns.get("inference_converged", [1.0])[-1]
    if share < settings.converged_share:
        warn_caller(
            f"Inference converged in {100 * share:.0f}% of its runs in the last epoch, so the "
            "gradient has an error that is not known; give the learner more iterations or damping, "
            "or take another one (see inference_converged in history_).",
            ConvergenceWarning,
        )


def _epoch_limit(settings, updates_an_epoch):
    if settings.max_iter is not None:
        return settings.max_iter
    return -(-settings.max_updates // updates_an_epoch)


def _iterate(learner, data, settings, holder, reports):
    """Epochs of minibatch updates."""
    limit = _epoch_limit(settings, -(-data.X.shape[0] // settings.batch_size))
    while not _over(holder[0], settings, limit):
        reports.begin()
        info = _epoch(learner, data, settings, holder)
        with InterruptLater():
            holder[0] = _judge(replace(holder[0], epoch=holder[0].epoch + 1), settings, info)
        if reports.end(holder[0]):
            return
    if settings.complete and not _finished(holder[0], settings):
        _warn_unconverged(holder[0])


def _warn_unconverged(state):
    warn_caller(
        f"Learning had not converged after {state.epoch} epochs ({state.step} updates); raise "
        "max_iter, or accept the model as it is (see history_).",
        ConvergenceWarning,
    )


def _over(state, settings, limit):
    """Whether this run has done all its epochs, or enough of them."""
    done = state.epoch - state.began
    return done >= limit or (done > 0 and _finished(state, settings))


def _finished(state, settings):
    if _past_best(state, settings):
        return True
    return state.converged and (settings.max_iter is not None or state.step >= settings.min_updates)


def _stale(state, settings):
    """No better held-out score in the last ``patience`` epochs of this run."""
    scores = state.history.columns["validation_score"][state.began :]
    return len(scores) - 1 - int(np.argmax(scores)) >= settings.patience


def _epoch(learner, data, settings, holder):
    """One pass over the rows in random order; mean diagnostics.

    The holder has the state after every update: with another name for one, its parameters would
    stay behind.
    """
    holder[0] = replace(holder[0], converged=False)
    order = random_order(data, holder[0].rng)
    sums, count, latest = {}, 0, {}
    for s in range(0, len(order), settings.batch_size):
        rows = ascending(order[s : s + settings.batch_size], data)
        batch = take(data, rows, holder[0])
        with InterruptLater():
            holder[0], info = _update(learner, batch, settings, holder[0])
        count += 1
        for name, value in info.items():
            if isinstance(value, Latest):
                latest[name] = float(value)
            else:
                sums[name] = sums.get(name, 0.0) + value
    return {k: v / count for k, v in sums.items()} | latest


def _update(learner, batch, settings, state):
    """One gradient step."""
    energy = state.energy
    positive, negative, learner_state, info = learner.step(energy, batch, state.learner, state.rng)
    gradient = energy.gradient(positive, negative, batch)
    pull = settings.penalty.gradient(energy.theta)
    if pull is not None:
        gradient = {k: np.subtract(g, pull[k], out=pull[k]) for k, g in gradient.items()}
    rate = settings.rate.value(state.rate)
    mean_square = np.mean([np.vdot(g, g) / g.size for g in gradient.values() if g.size])
    if settings.penalty.smooth:  # before the optimizer writes into the gradient
        rate_state, new_stage, done = settings.rate.observe(
            gradient, state.rate, settings.resolution
        )
    theta, sizes, optimizer = settings.optimizer.step(energy.theta, gradient, rate, state.optimizer)
    theta = settings.penalty.prox(theta, sizes)
    moved = settings.restriction.update(energy.with_theta(theta), positive, negative, info)
    if not settings.penalty.smooth:  # gradients do not vanish at a kink, the way covered does
        progress = {k: v - energy.theta[k] for k, v in theta.items()}
        rate_state, new_stage, done = settings.rate.observe(progress, state.rate, 0.0)
    averaged, n_averaged = state.averaged, state.n_averaged
    if settings.average:
        restart = new_stage and not done
        averaged, n_averaged = _average(state, moved.theta, restart, settings.recency)
    info = dict(info, gradient_rms=float(np.sqrt(mean_square)), learning_rate=rate)
    state = replace(
        state,
        energy=moved,
        averaged=averaged,
        n_averaged=n_averaged,
        learner=learner_state,
        optimizer=optimizer,
        rate=rate_state,
        step=state.step + 1,
        converged=state.converged or done,
    )
    return state, info


def _average(state, theta, restart, recency):
    """Mean of the iterates of this stage, the n-th of which weighs about ``n ** recency``."""
    n = 1 if restart else state.n_averaged + 1
    share = (1 + recency) / (n + recency)
    for k, v in theta.items():
        blend(state.averaged[k].reshape(-1), v.reshape(-1), share)
    return state.averaged, n


def _judge(state, settings, info):
    """Record the epoch, and keep the best by held-out score."""
    _check_finite(state)
    row = dict(info, epoch=state.epoch, n_updates=state.step)
    best = None
    if settings.score is not None:
        current = replace(state, best=None).result(settings.average)
        row["validation_score"] = settings.score(current, state)
        best = state.best
        if best is None or row["validation_score"] > best[0]:
            best = (row["validation_score"], current)
    state.history.append(row)
    return replace(state, best=best)


def _check_finite(state):
    if any(np.isnan(v).any() or (v == np.inf).any() for v in state.energy.theta.values()):
        raise ValueError(
            f"Learning diverged in epoch {state.epoch}: parameters are not finite any more. Give a "
            "smaller learning_rate, or alpha > 0."
        )


def _solve(learner, data, settings, holder, reports):
    """Iterations of a deterministic solver, each of which counts as an epoch."""
    limit = MAX_UPDATES if settings.max_iter is None else settings.max_iter

    def objective(energy):
        return learner.objective(energy, data, holder[0].learner)

    solver = make_solver(objective, settings.penalty, settings.tol, settings.copies)
    if holder[0].optimizer is None:
        first = solver.start(holder[0].energy)
        holder[0] = replace(holder[0], optimizer=first, converged=first.converged)
    while not _solved(holder[0], settings, limit):
        reports.begin()
        with InterruptLater():
            holder[0] = _iteration(solver, settings, holder[0])
        if reports.end(holder[0]):
            break
    else:
        if settings.complete and not (holder[0].converged or _past_best(holder[0], settings)):
            _warn_unconverged(holder[0])
    holder[0] = replace(holder[0], n_averaged=0, optimizer=None)


def _solved(state, settings, limit):
    """Whether the solver has come to its end, or this run has."""
    done = state.epoch - state.began
    return state.optimizer.over or done >= limit or _past_best(state, settings)


def _past_best(state, settings):
    """Whether rows held out have been judged, and get no better."""
    judged = settings.score is not None and state.epoch > state.began
    return judged and _stale(state, settings)


def _iteration(solver, settings, state):
    """The state after one iteration."""
    energy, at = solver.step(state.energy, state.optimizer)
    state = replace(
        state,
        energy=energy,
        n_averaged=0,
        optimizer=at,
        converged=at.converged,
        epoch=state.epoch + 1,
        step=state.step + 1,
    )
    return _judge(state, settings, {"objective": at.value, "gradient_max": at.norm})
