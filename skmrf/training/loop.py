"""Training loop of all learners and energies, and its minibatches."""

from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import partial

import numpy as np

from .._utils.interrupts import InterruptLater
from .._utils.namespaces import difference
from .._utils.parallel import equal_slices, keep_number_of_threads, threads_of_products
from .._utils.results import Diagnostics
from .._utils.rows import sort_rows, take_minibatch
from ..learners.registry import check_learner
from ..samplers.smc import resample
from .device import DeviceUpdates
from .preconditioning import make_preconditioner
from .reports import SilentReports, warn_inference, warn_interrupted, warn_unconverged
from .settings import MAX_UPDATES
from .solvers import make_solver
from .state import InPlace, Progress, continue_from, first_state, recover


def train(session, learner, data, settings, attributes):
    """Train the model of a fit, from its initial energy, or from the state of an earlier fit.

    Parameters
    ----------
    session : object with the attributes and methods of ``skmrf.estimators._session.FitSession``
        Callbacks, checkpoint, random numbers and initial energy of the fit.
    learner : Learner
        Estimator of the gradient or of the objective.
    data : Batch
        All training rows.
    settings : Settings
        Settings of the run.
    attributes : callable
        ``state -> dict``. It returns the fitted attributes for a state of the loop, for callbacks.

    Returns
    -------
    LoopState
        Final state.
    """
    session.begin_training(learner, attributes)
    if session.state is None and session.previous is not None:
        session.state = resume(session.previous, learner, data, settings, session.rows_hash)
    elif session.state is None:
        session.state = start(session.energy, learner, data, settings, session.rng)
    session.state = replace(session.state, rows_hash=session.rows_hash)
    session.release_energy()
    if session.is_interrupted:
        state = recover(session.release_state(), settings)
    elif session.is_ended:
        state = session.release_state()
    else:
        reports, start_epoch = session.reports, session.state.start_epoch
        with session.parallel():
            state = run(learner, data, settings, session.release_state(), reports, start_epoch)
            has_ended = state.converged or state.is_past_best(settings)
            if has_ended and not state.interrupted:
                state = settings.finish_training(state)
    session.end_training(state)
    return state


def start(energy, learner, data, settings, rng):
    """Return the training state before the first epoch.

    Parameters
    ----------
    energy : Energy
        Energy with the initial values of the parameters.
    learner : Learner
        Estimator of the gradient or of the objective.
    data : Batch
        All training rows.
    settings : Settings
        Settings of the run.
    rng : Generator or None
        Source of random numbers, which becomes part of the state. A deterministic learner does not
        need it.

    Returns
    -------
    LoopState
        State from which training starts.

    Raises
    ------
    ValueError
        The energy does not have a protocol that the learner requires.
    """
    check_learner(learner, type(energy))
    return first_state(energy, learner.init(energy, data, rng), settings, rng)


def resume(state, learner, data, settings, rows_hash=None):
    """Return the training state for a continued run, on the same or on other rows.

    Parameters
    ----------
    state : LoopState
        State at the end of an earlier run. It is copied, not modified.
    learner, data, settings
        As in :func:`start`, for the new run.
    rows_hash : str, optional
        Hash of the rows. If it differs from that of the earlier run, the schedule and the mean of
        the iterates start anew. By default the rows are not compared.

    Returns
    -------
    LoopState
        State from which training continues.
    """
    state = deepcopy(state)
    learner_state = learner.resume(state.energy, data, state.learner, state.rng)
    if learner_state is None:
        learner_state = learner.init(state.energy, data, state.rng)
    return continue_from(state, learner_state, settings, rows_hash)


def run(learner, data, settings, state, reports=None, start_epoch=None):
    """Train a model until training converges or a limit of the settings is reached.

    Parameters
    ----------
    learner : Learner
        Estimator of the gradient or of the objective.
    data : Batch
        All training rows.
    settings : Settings
        Settings of the run.
    state : LoopState
        State from :func:`start` or :func:`resume`, or from an earlier run.
    reports : object with the methods of :class:`SilentReports`, optional
        Its methods are called at the beginning and at the end of each epoch.
    start_epoch : int, optional
        Number of complete epochs at the start of this run, if the state is that of an unfinished
        run. By default the number of complete epochs of the state.

    Returns
    -------
    LoopState
        State at the end of training. Ctrl-C stops training after the current update, with a
        warning. The returned state is then that of the last complete update. Training can be
        resumed from it, but the optimizer and the window of an adaptive rate start anew. Press
        Ctrl-C again after a second to stop immediately. Some arrays of the averaged iterates may
        then contain the next iterate.

    Raises
    ------
    ValueError
        If a parameter is no longer finite.
    KeyboardInterrupt
        After Ctrl-C, if ``settings.interruptible`` is False.

    Notes
    -----
    The loop needs memory for these arrays of the size of the parameters: the iterate, its gradient,
    and the state of the optimizer (none for ``SGD``, one for ``Momentum``, two for ``Adam``, 41 for
    L-BFGS, two for FISTA). Optional arrays are the average of the iterates, the two sums of an
    adaptive rate, and the best model by held-out score (two arrays while averages are scored).
    Interruptions need no array, because iterates are never modified and the state is replaced as a
    whole.
    """
    start_epoch = state.epoch if start_epoch is None else start_epoch
    progress = Progress(replace(state, start_epoch=start_epoch))
    del state  # the progress holds the only reference
    rule = _stepping(settings)(learner, data, settings)
    try:
        work, has_blocks = settings.work_of_update(progress.state.energy, data)
        with keep_number_of_threads(), threads_of_products(work, has_blocks=has_blocks):
            _run_epochs(rule, settings, progress, reports or SilentReports())
    except KeyboardInterrupt:
        if not settings.interruptible:
            raise
        rule.collect(progress)
        progress.state = recover(progress.state, settings)
        warn_interrupted(progress.state)
    warn_inference(progress.state, settings)
    return progress.state


def _stepping(settings):
    """Return the class of the epochs of a run."""
    if settings.optimizer is None:
        return SolverIteration
    return StochasticEpoch if settings.device is None else DeviceEpoch


def _run_epochs(rule, settings, progress, reports):
    """Run epochs until training converges, a limit is reached, or a callback stops training."""
    rule.begin(progress, settings.score is not None or reports.read_models)
    while not _is_over(rule, settings, progress.state):
        reports.begin()
        with rule.guard():
            info = rule.advance(progress)
            if settings.score is not None or reports.read_models:
                rule.collect(progress, complete=reports.read_models)
            with InterruptLater():
                progress.record(info, settings)
        if reports.end(progress.state):
            break
    else:
        if settings.complete and not rule.has_converged(progress.state):
            warn_unconverged(progress.state, settings)
    rule.finish(progress)


def _is_over(rule, settings, state):
    return (
        state.epoch - state.start_epoch >= rule.max_epochs
        or rule.is_done(state)
        or state.is_past_best(settings)
    )


class SolverIteration:
    """Epochs of deterministic training: one epoch is one iteration of a solver.

    Parameters
    ----------
    learner : Learner
        Learner that has an objective.
    data : Batch
        All training rows.
    settings : Settings
        Settings of the run.

    Attributes
    ----------
    max_epochs : int
        Maximum number of iterations of a run.
    """

    guard = InterruptLater  # Ctrl-C waits for the end of an iteration

    def __init__(self, learner, data, settings):
        self.learner = learner
        self.data = data
        self.settings = settings
        self.max_epochs = MAX_UPDATES if settings.max_iter is None else settings.max_iter

    def begin(self, progress, reads_models):
        """Create the solver, and its initial state unless the run resumes a saved state."""
        state, settings = progress.state.learner, self.settings
        self.objective = partial(self.learner.objective, batch=self.data, state=state)
        solver = self.learner.make_solver(
            progress.state.energy, self.data, settings, progress.state.rng
        )
        self.solver = solver or make_solver(
            settings.penalty,
            settings.tol,
            settings.multiplicity,
            settings.min_gain,
            make_preconditioner(progress.state.energy, self.data, settings.penalty),
            n_small_gains=settings.n_small_gains,
            max_gradient=settings.max_gradient,
        )
        if progress.state.optimizer is None:
            solver_state = run_with_objective(
                self.solver.start(progress.state.energy), self.objective
            )
            progress.update(optimizer=solver_state, converged=solver_state.converged)

    def advance(self, progress):
        """Make one iteration of the solver; return its diagnostics."""
        iteration = self.solver.step(progress.state.energy, progress.state.optimizer)
        energy, solver_state = run_with_objective(iteration, self.objective)
        progress.update(
            energy=energy,
            n_averaged=0,
            optimizer=solver_state,
            converged=solver_state.converged,
            step=progress.state.step + 1,
        )
        return solver_state.diagnostics

    def collect(self, progress, *, complete=True):
        """Do nothing, because the training state is complete after each iteration."""

    def is_done(self, state):
        """Return True if the solver has converged or cannot improve the objective."""
        return state.optimizer.is_done

    def has_converged(self, state):
        """Return True if the solver has reached a maximum of the objective."""
        return state.converged

    def finish(self, progress):
        """Remove the solver's state from the training state at the end of a run."""
        progress.update(n_averaged=0, optimizer=None)


def run_with_objective(requests, objective):
    """Run a solver (a generator of energies), and send it the objective of each energy.

    Parameters
    ----------
    requests : generator
        Generator that yields energies and is sent ``objective(energy)``.
    objective : callable
        Function ``energy -> (value, gradient)``.

    Returns
    -------
    object
        Return value of the generator.
    """
    try:
        energy = next(requests)
        while True:
            energy = requests.send(objective(energy))
    except StopIteration as end:
        return end.value


class StochasticEpoch:
    """Epochs of stochastic training: one epoch is one pass over the rows in minibatches.

    Parameters
    ----------
    learner : Learner
        Estimator of the gradient.
    data : Batch
        All training rows.
    settings : Settings
        Settings of the run.

    Attributes
    ----------
    max_epochs : int
        Maximum number of epochs of a run.
    n_batches : int
        Number of minibatches in an epoch. Their sizes differ by at most one row.
    """

    guard = nullcontext  # Ctrl-C may end an epoch between two updates

    def __init__(self, learner, data, settings):
        self.learner = learner
        self.data = data
        self.settings = settings
        self.max_epochs = settings.max_iter
        self.n_batches = -(-data.X.shape[0] // settings.batch_size)
        if settings.max_iter is None:
            self.max_epochs = -(-settings.max_updates // self.n_batches)

    def begin(self, progress, reads_models):
        """Do nothing at the beginning of a run, because the initial training state is complete."""

    def advance(self, progress):
        """Make one parameter update per random minibatch; return the mean diagnostics."""
        progress.update(converged=False)
        order = random_order(self.data, progress.state.rng)
        diagnostics = Diagnostics()
        for part in equal_slices(len(order), self.n_batches):  # a few rows are a noisy gradient
            rows = sort_rows(order[part], self.data)
            batch = take_minibatch(self.data, rows, progress.state.epoch, progress.state.step)
            with InterruptLater():
                progress.state, info, is_done = update(
                    self.learner, batch, self.settings, progress.state
                )
                progress.update(converged=progress.state.converged or is_done)
            diagnostics.add(info)
        return diagnostics.summary()

    def collect(self, progress, *, complete=True):
        """Do nothing, because the training state is complete after each update."""

    def is_done(self, state):
        """Return True if training has converged in an epoch of this run."""
        return state.epoch > state.start_epoch and self.has_converged(state)

    def has_converged(self, state):
        """Return True if the learning-rate schedule has ended and enough updates were made."""
        has_enough = self.settings.max_iter is not None or state.step >= self.settings.min_updates
        return state.converged and has_enough

    def finish(self, progress):
        """Do nothing at the end of a run, because a next run needs the whole training state."""


class DeviceEpoch(StochasticEpoch):
    """Epochs of stochastic training on a device of JAX; one function updates all parameters.

    The training state on the host gets the arrays of the device only when they are read. If nothing
    reads them after each epoch, a call of the device can train for several epochs.
    """

    updates, waiting = None, ()

    def begin(self, progress, reads_models):
        """Send the training rows and the arrays of the training state to the device."""
        self.updates = DeviceUpdates(update, self.learner, self.data, self.settings, progress.state)
        if self.updates.n_parts == 1:
            self.guard = InterruptLater  # so that the diagnostics of a call are not lost
        self.most_epochs = 1 if reads_models else self.max_epochs
        self.waiting = []  # diagnostics of complete epochs that are not in the history

    def advance(self, progress):
        """Make one parameter update per random minibatch; return the mean diagnostics."""
        state = progress.state
        if not self.waiting:
            n_epochs = min(self.most_epochs, self.max_epochs + state.start_epoch - state.epoch)
            self.waiting = self.updates.epochs(
                n_epochs, partial(random_order, self.data), state.rng
            )
        info = self.waiting.pop(0)
        is_done = info.pop("is_done") > 0
        progress.update(step=state.step + self.updates.n_batches, converged=is_done)
        if not np.isfinite(info["gradient_rms"]):
            energy = self.updates.collect(complete=False)["energy"]
            replace(state, energy=energy, epoch=state.epoch + 1).check_finite(self.settings)
        return info

    def collect(self, progress, *, complete=True):
        """Set the training state, or the model, to that after all epochs of the last call."""
        while self.waiting:
            progress.record(self.advance(progress), self.settings)
        if self.updates is not None:
            progress.update(**self.updates.collect(complete))

    def finish(self, progress):
        """Set the training state to the arrays of the device."""
        self.collect(progress)


def update(learner, batch, settings, state, arithmetic=InPlace):
    """Make one gradient step.

    Parameters
    ----------
    learner : Learner
        Estimator of the gradient.
    batch : Batch
        Training rows of this step.
    settings : Settings
        Settings of the run.
    state : LoopState
        State before the step. ``InPlace`` may modify its arrays ``averaged`` and ``optimizer``.
    arithmetic : class, default=InPlace
        ``InPlace`` or ``Pure``.

    Returns
    -------
    state : LoopState
        State after the step.
    diagnostics : dict of str to float
        Diagnostics of the learner, and those of the gradient and of the learning rate.
    is_done : bool
        Whether the schedule of the learning rate has ended.
    """
    energy, penalty = state.energy, settings.penalty
    positive, negative, learner_state, info = learner.step(energy, batch, state.learner, state.rng)
    gradient = energy.gradient(positive, negative, batch)
    gradient, squares = penalty.subtract_gradient(gradient, energy.theta)
    rate = settings.rate.value(state.rate)
    size = arithmetic.root_mean_square(gradient, squares)
    diagnostics = {"gradient_rms": size, "learning_rate": rate}
    if penalty.smooth:  # before the optimizer overwrites the gradient
        schedule = arithmetic.observe(settings.rate, gradient, state.rate, settings.resolution)
    if settings.optimizer.is_linear:
        gradient = penalty.implicit_gradient(gradient, rate)
    theta, sizes, optimizer = arithmetic.step(
        settings.optimizer, energy.theta, gradient, rate, state.optimizer
    )
    theta = penalty.prox(theta, sizes)
    moved = settings.restriction.update(energy.with_theta(theta), positive, negative, info)
    if not penalty.smooth:  # at a kink of the penalty, steps vanish but gradients do not
        step = {k: difference(v, energy.theta[k]) for k, v in theta.items()}
        schedule = arithmetic.observe(settings.rate, step, state.rate, 0.0)
    rate_state, is_new_stage, is_done = schedule
    state = replace(
        state,
        energy=moved,
        learner=learner_state,
        optimizer=optimizer,
        rate=rate_state,
        step=state.step + 1,
    )
    if settings.average:
        restarts = is_new_stage * (1 - is_done)
        state = state.with_average(settings.recency, restarts, arithmetic)
    return state, info | diagnostics, is_done


def random_order(data, rng):
    """Return the row indices of an epoch in random order; weighted rows are resampled by weight.

    Batches of resampled rows estimate the phases without bias. Batches of weighted rows would be
    biased, because a batch with a small total weight would count as much as one with a large one.
    """
    n = data.X.shape[0]
    if data.log_weights is None:
        return rng.permutation(n)
    return rng.permutation(resample(data.log_weights, n, rng))
