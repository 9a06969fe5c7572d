"""The training loop. It never asks which energy or learner it holds."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._kernels.ascent import blend
from .._utils.history import Latest
from .._utils.interrupts import InterruptLater
from .._utils.warn import warn_caller
from .batches import random_order, sort_rows, take_rows
from .reports import SilentReports
from .settings import MAX_UPDATES
from .solvers import make_solver
from .state import Progress, recover


def run(learner, data, settings, state, reports=None, began=None):
    """Train until done.

    Parameters
    ----------
    learner : Learner
    data : Batch
        All training rows.
    settings : Settings
    state : LoopState
        From :func:`start` or :func:`resume`, or one that an earlier run returned.
    reports : object with the methods of :class:`SilentReports`, optional
        It is called when an epoch begins and ends.
    began : int, optional
        Number of complete epochs when this run began, where the state is that of an unfinished
        run. By default those of the state.

    Returns
    -------
    LoopState
        After Ctrl-C, with a warning, that of the last complete update, from which training can
        resume; the optimizer and the window of an adaptive rate then start anew. Ctrl-C stops
        training after the current update. Pressed again a second later, it stops immediately, and
        some arrays of the averaged iterates may then hold the next iterate.

    Raises
    ------
    ValueError
        The parameters are not finite any more.
    KeyboardInterrupt
        After Ctrl-C, where ``settings.interruptible`` is False.

    Notes
    -----
    Arrays of the size of the parameters: the iterate, its gradient, the state of the optimizer
    (none for ``SGD``, one for ``Momentum``, two for ``Adam``; 41 for L-BFGS, two for FISTA), and
    optionally the average of the iterates, the two sums of an adaptive rate and the best model by
    held-out score, which takes two while averages are scored. Interruptions need no array: an
    iterate is never written to, and the state is replaced as a whole.
    """
    progress = Progress(replace(state, began=state.epoch if began is None else began))
    del state  # the progress holds the only reference
    stepping = SolverIteration if settings.optimizer is None else StochasticEpoch
    rule = stepping(learner, data, settings)
    try:
        _train(rule, settings, progress, SilentReports() if reports is None else reports)
    except KeyboardInterrupt:
        if not settings.interruptible:
            raise
        progress.state = recover(progress.state, settings)
        _warn_interrupted(progress.state)
    _warn_inference(progress.state, settings)
    return progress.state


def _train(rule, settings, progress, reports):
    """Advance by a stepping rule until it is done, a limit is reached or a report stops it."""
    rule.begin(progress)
    while not _is_over(rule, settings, progress.state):
        reports.begin()
        with rule.guard():
            info = rule.advance(progress)
            with InterruptLater():
                progress.record(info, settings)
        if reports.end(progress.state):
            break
    else:
        _warn_unconverged(rule, settings, progress.state)
    rule.finish(progress)


def _is_over(rule, settings, state):
    return (
        state.epoch - state.began >= rule.max_epochs
        or rule.is_done(state)
        or _is_past_best(settings, state)
    )


def _is_past_best(settings, state):
    """Return whether the last ``patience`` epochs of this run had no better held-out score."""
    if settings.score is None or state.epoch == state.began:
        return False
    scores = state.history.columns["validation_score"][state.began :]
    return len(scores) - 1 - int(np.argmax(scores)) >= settings.patience


def _warn_unconverged(rule, settings, state):
    if not settings.complete or rule.has_converged(state) or _is_past_best(settings, state):
        return
    warn_caller(
        f"Learning had not converged after {state.epoch} epochs ({state.step} updates); raise "
        "max_iter, or accept the model as it is (see history_).",
        ConvergenceWarning,
    )


def _warn_interrupted(state):
    warn_caller(
        f"Interrupted; the model is that of the last complete update, {state.step}, after "
        f"{state.epoch} epochs.",
        ConvergenceWarning,
    )


def _warn_inference(state, settings):
    """Warn if the learner's inference did not converge in the last epoch."""
    share = state.history.columns.get("inference_converged", [1.0])[-1]
    if share < settings.converged_share:
        warn_caller(
            f"Inference converged in {100 * share:.0f}% of its runs in the last epoch, so the "
            "gradient has an error that is not known; give the learner more iterations or damping, "
            "or take another one (see inference_converged in history_).",
            ConvergenceWarning,
        )


class SolverIteration:
    """Stepping rule: an iteration of a deterministic solver, which counts as an epoch.

    Parameters
    ----------
    learner : Learner
        With an objective.
    data : Batch
        All training rows.
    settings : Settings

    Attributes
    ----------
    max_epochs : int
        Number of iterations after which a run ends.
    """

    guard = InterruptLater  # Ctrl-C waits for the end of an iteration

    def __init__(self, learner, data, settings):
        self.learner = learner
        self.data = data
        self.settings = settings
        self.max_epochs = MAX_UPDATES if settings.max_iter is None else settings.max_iter

    def begin(self, progress):
        """Make the solver, and its state where an earlier run left none."""
        state, settings = progress.state.learner, self.settings
        self.objective = partial(self.learner.objective, batch=self.data, state=state)
        self.solver = make_solver(settings.penalty, settings.tol, settings.multiplicity)
        if progress.state.optimizer is None:
            solver_state = answer(self.solver.start(progress.state.energy), self.objective)
            progress.update(optimizer=solver_state, converged=solver_state.converged)

    def advance(self, progress):
        """Iterate once; return the objective and the largest entry of its gradient."""
        iteration = self.solver.step(progress.state.energy, progress.state.optimizer)
        energy, solver_state = answer(iteration, self.objective)
        progress.update(
            energy=energy,
            n_averaged=0,
            optimizer=solver_state,
            converged=solver_state.converged,
            step=progress.state.step + 1,
        )
        return {"objective": solver_state.value, "gradient_max": solver_state.gradient_max}

    def is_done(self, state):
        """Return whether the solver has converged or cannot improve the objective."""
        return state.optimizer.is_done

    def has_converged(self, state):
        """Return whether the solver has reached a maximum."""
        return state.converged

    def finish(self, progress):
        """Drop the state of the solver."""
        progress.update(n_averaged=0, optimizer=None)


def answer(requests, objective):
    """Return the result of a generator that asks for an objective.

    Parameters
    ----------
    requests : generator
        It yields energies and is sent ``objective(energy)``.
    objective : callable, energy -> (value, gradient)

    Returns
    -------
    object
    """
    try:
        energy = next(requests)
        while True:
            energy = requests.send(objective(energy))
    except StopIteration as end:
        return end.value


class StochasticEpoch:
    """Stepping rule: an epoch of minibatch updates.

    Parameters
    ----------
    learner : Learner
    data : Batch
        All training rows.
    settings : Settings

    Attributes
    ----------
    max_epochs : int
        Number of epochs after which a run ends.
    """

    guard = nullcontext  # Ctrl-C may end an epoch between two updates

    def __init__(self, learner, data, settings):
        self.learner = learner
        self.data = data
        self.settings = settings
        self.max_epochs = settings.max_iter
        if settings.max_iter is None:
            n_batches = -(-data.X.shape[0] // settings.batch_size)
            self.max_epochs = -(-settings.max_updates // n_batches)

    def begin(self, progress):
        """Do nothing: the state of :func:`start` is complete."""

    def advance(self, progress):
        """Update the state once a batch, in random order; return the mean diagnostics."""
        progress.update(converged=False)
        order = random_order(self.data, progress.state.rng)
        diagnostics = Diagnostics()
        for s in range(0, len(order), self.settings.batch_size):
            rows = sort_rows(order[s : s + self.settings.batch_size], self.data)
            batch = take_rows(self.data, rows, progress.state)
            with InterruptLater():
                progress.state, info = update(self.learner, batch, self.settings, progress.state)
            diagnostics.add(info)
        return diagnostics.summary()

    def is_done(self, state):
        """Return whether an epoch of this run has converged."""
        return state.epoch > state.began and self.has_converged(state)

    def has_converged(self, state):
        """Return whether the schedule has ended, after enough updates."""
        has_enough = self.settings.max_iter is not None or state.step >= self.settings.min_updates
        return state.converged and has_enough

    def finish(self, progress):
        """Do nothing: the next run continues from this state."""


class Diagnostics:
    """Means of the diagnostics of an epoch."""

    def __init__(self):
        self.count = 0
        self.sums = {}
        self.latest = {}

    def add(self, info):
        """Add the diagnostics of one update."""
        self.count += 1
        for name, value in info.items():
            if isinstance(value, Latest):
                self.latest[name] = float(value)
            else:
                self.sums[name] = self.sums.get(name, 0.0) + value

    def summary(self):
        """Return the mean of each diagnostic, or its last value if it is a ``Latest``."""
        return {k: v / self.count for k, v in self.sums.items()} | self.latest


def update(learner, batch, settings, state):
    """Return the state after one gradient step, and the diagnostics of the step."""
    energy, penalty = state.energy, settings.penalty
    positive, negative, learner_state, info = learner.step(energy, batch, state.learner, state.rng)
    gradient = energy.gradient(positive, negative, batch)
    gradient = _subtract(penalty.gradient(energy.theta), gradient)
    rate = settings.rate.value(state.rate)
    diagnostics = {"gradient_rms": _root_mean_square(gradient), "learning_rate": rate}
    if penalty.smooth:  # before the optimizer overwrites the gradient
        schedule = settings.rate.observe(gradient, state.rate, settings.resolution)
    theta, sizes, optimizer = settings.optimizer.step(energy.theta, gradient, rate, state.optimizer)
    theta = penalty.prox(theta, sizes)
    moved = settings.restriction.update(energy.with_theta(theta), positive, negative, info)
    if not penalty.smooth:  # at a kink steps vanish, gradients do not
        step = {k: v - energy.theta[k] for k, v in theta.items()}
        schedule = settings.rate.observe(step, state.rate, 0.0)
    rate_state, is_new_stage, is_done = schedule
    n_averaged = state.n_averaged
    if settings.average:
        n_averaged = 1 if is_new_stage and not is_done else n_averaged + 1
        _average(state.averaged, moved.theta, n_averaged, settings.recency)
    state = replace(
        state,
        energy=moved,
        n_averaged=n_averaged,
        learner=learner_state,
        optimizer=optimizer,
        rate=rate_state,
        step=state.step + 1,
        converged=state.converged or is_done,
    )
    return state, info | diagnostics


def _subtract(penalty_gradient, gradient):
    """Return the gradient less that of the penalty, in the arrays of the penalty."""
    if penalty_gradient is None:
        return gradient
    out = penalty_gradient
    return {k: np.subtract(g, out[k], out=out[k]) for k, g in gradient.items()}


def _root_mean_square(gradient):
    mean_square = np.mean([np.vdot(g, g) / g.size for g in gradient.values() if g.size])
    return float(np.sqrt(mean_square))


def _average(averaged, theta, n, recency):
    """Add the n-th iterate to the mean, in place; its weight is about ``n ** recency``."""
    share = (1 + recency) / (n + recency)
    for k, v in theta.items():
        blend(averaged[k].reshape(-1), v.reshape(-1), share)
