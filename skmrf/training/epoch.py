"""One pass over the rows by minibatch updates."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from .._kernels.ascent import blend
from .._utils.history import Latest
from .._utils.interrupts import InterruptLater
from .batches import random_order, sort_rows, take_rows


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
