"""Reports of epochs to callbacks and as text, warnings of training, and scoring callbacks."""

from contextlib import contextmanager, nullcontext
from time import monotonic

import numpy as np
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning

from .._utils.parameters import check_flag, check_number
from .._utils.warn import warn_caller
from .checkpoints import NoCheckpoint

SECONDS_BETWEEN_LINES = 3.0
LONG_EPOCH = 60.0  # seconds
SCORES = ("validation_score", "objective", "loss", "gradient_rms", "gradient_max")


class SilentReports:
    """Placeholder for runs without callbacks: it reports nothing.

    Attributes
    ----------
    read_models : bool
        Whether the end of an epoch reads the model, and not only its diagnostics.
    """

    read_models = False

    def begin(self):
        """Do nothing when an epoch begins."""

    def end(self, state):
        """Return False at the end of an epoch, because there is no callback to stop training."""
        return False


class ProgressLines:
    """Lines of text about the progress of a fit, printed if ``estimator.verbose`` is positive.

    Parameters
    ----------
    estimator : estimator
        Estimator with the parameter ``verbose``.
    unit : str
        Noun for a step of the fit, such as "epoch".
    n_steps : int or None
        Maximum number of steps; None if it is unknown.
    """

    def __init__(self, estimator, unit, n_steps):
        self.verbose = getattr(estimator, "verbose", 0)
        if isinstance(self.verbose, bool):
            check_flag("verbose", self.verbose)
        else:
            check_number("verbose", self.verbose, low=0, integer=True)
        self.name, self.unit, self.n_steps = type(estimator).__name__, unit, n_steps
        self.n_done, self.last_line = 0, ""
        self.start_time = self.print_time = monotonic()

    def step(self, history=None):
        """Count a step. Print a line if the last line was printed a few seconds ago.

        Parameters
        ----------
        history : dict of str to list, optional
            Diagnostics of the steps.
        """
        if not self.verbose:
            return
        self.n_done += 1
        self.last_line = self._describe_score(history or {})
        now = monotonic()
        if self.verbose > 1 or now - self.print_time >= SECONDS_BETWEEN_LINES:
            self.print_time = now
            print(f"[{self.name}] {self._describe_steps(now)}{self.last_line}", flush=True)

    def finish(self):
        """Print a line at the end of the fit."""
        if self.verbose:
            seconds = monotonic() - self.start_time
            what = f"{self.n_done} {self.unit}s{self.last_line}"
            print(f"[{self.name}] finished: {what}, {seconds:.1f} s", flush=True)

    def _describe_steps(self, now):
        if self.n_steps is None or self.n_done > self.n_steps:
            return f"{self.unit} {self.n_done}, {now - self.start_time:.0f} s"
        left = (now - self.start_time) / self.n_done * (self.n_steps - self.n_done)
        return f"{self.unit} {self.n_done} of at most {self.n_steps}, at most {left:.0f} s left"

    @staticmethod
    def _describe_score(history):
        for name in SCORES:
            if history.get(name):
                return f", {name} {history[name][-1]:.6g}"
        return ""


class EpochReports:
    """Reports of each epoch to scikit-learn's callbacks.

    Parameters
    ----------
    estimator : estimator that supports scikit-learn's callbacks
        Estimator that is fitted.
    X, y : array-like
        Training rows and targets.
    max_iter : int or None
        Maximum number of epochs; None if it is unknown.
    n_sub_estimators : int, default=0
        Number of sub-estimators that are fitted before the epochs.

    Attributes
    ----------
    summary : callable or None
        Function ``LoopState -> dict`` that returns the fitted attributes after an epoch.
    checkpoint : NoCheckpoint
        Checkpoint that writes the state of the loop to a file.
    """

    def __init__(self, estimator, X, y, max_iter, n_sub_estimators=0):
        self.estimator = estimator
        self.rows = {"X": X, "y": y}
        self.summary = None
        self.checkpoint = NoCheckpoint()
        self.lines = ProgressLines(estimator, "epoch", max_iter)
        self.max_iter, self.has_epochs = max_iter, False
        n_tasks = None if max_iter is None else max_iter + n_sub_estimators
        self.root = estimator._init_callback_context(max_subtasks=n_tasks)
        self.root.call_on_fit_task_begin(estimator=estimator, **self.rows)

    @property
    def read_models(self):
        """Return whether a checkpoint or a callback reads the model at the end of an epoch."""
        has_file = type(self.checkpoint) is not NoCheckpoint
        return has_file or bool(vars(self.estimator).get("_skl_callbacks"))

    @contextmanager
    def sub_estimator(self, name, sub_estimator):
        """Report the fit of a sub-estimator in this context to the callbacks, as a task."""
        task = self.root.subcontext(task_name=name)
        with propagate_callbacks(task, sub_estimator):
            task.call_on_fit_task_begin(estimator=self.estimator, **self.rows)
            yield
            self._end_task(task, None)

    def begin(self):
        """Report the beginning of an epoch."""
        self.epoch_start = monotonic()
        self.epoch = self.root.subcontext(task_name="epoch")
        self.epoch.call_on_fit_task_begin(estimator=self.estimator, **self.rows)

    def end(self, state):
        """Write a checkpoint, report the end of an epoch, and return True to stop training."""
        self.checkpoint.write(state)
        if not self.has_epochs:
            self.has_epochs = True
            self._warn_long_epoch(monotonic() - self.epoch_start)
        self.lines.step(getattr(getattr(state, "history", None), "columns", None))
        return self._end_task(self.epoch, self.summary and (lambda: self.summary(state)))

    def _warn_long_epoch(self, seconds):
        """Warn after a first epoch of more than a minute, with a forecast of the fit's duration."""
        if seconds < LONG_EPOCH or self.max_iter == 1:
            return
        total = "max_iter=None sets no limit to their number"
        if self.max_iter is not None:
            hours = seconds * self.max_iter / 3600.0
            total = f"the {self.max_iter} epochs of max_iter take up to {hours:.2g} hours"
        warn_caller(
            f"The first epoch took {seconds:.0f} seconds; {total}. Ctrl-C stops the fit and keeps "
            "the model. To learn faster, use fewer columns, cliques or rows, merge rare "
            "categories, or set a smaller max_iter."
        )

    def finish(self, attributes=None):
        """Report the end of the fit; callbacks may call ``attributes`` for fitted attributes."""
        self.lines.finish()
        self._end_task(self.root, attributes)

    def _end_task(self, task, attributes):
        return task.call_on_fit_task_end(
            estimator=self.estimator, **self.rows, reconstruction_attributes=attributes
        )


def propagate_callbacks(task, part):
    """Return a context manager in which the tasks of a part are subtasks of ``task``."""
    takes_callbacks = isinstance(part, CallbackSupportMixin)
    return task.propagate_callback_context(part) if takes_callbacks else nullcontext()


class ScoreMonitor:
    """Callback that records a score of given rows after each epoch.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features), optional
        Rows to score. By default the training rows.
    scoring : callable, optional
        Function ``scoring(estimator, X) -> float``, or ``scoring(estimator, X, y)`` for models that
        have targets. By default ``estimator.score``.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
        Targets of the rows ``X``. By default None, for models without targets.

    Attributes
    ----------
    scores : list of float
        Score after each epoch of the last fit.
    """

    def __init__(self, X=None, scoring=None, *, y=None):
        self.X = X
        self.y = y
        self.scoring = scoring
        self.scores = []

    def setup(self, estimator, context):
        """Clear the list of scores before a fit."""
        self.scores = []

    def teardown(self, estimator, context):
        """Do nothing after a fit."""

    def on_fit_task_begin(self, estimator, context):
        """Do nothing when an epoch begins, because the model is scored when the epoch ends."""

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        """Score the model at the end of an epoch; return True if training must stop."""
        is_epoch = context.max_subtasks == 0
        if fitted_estimator is None or not is_epoch:
            return False
        rows, targets = (X, y) if self.X is None else (self.X, self.y)
        rows = (rows,) if targets is None else (rows, targets)
        scoring = type(fitted_estimator).score if self.scoring is None else self.scoring
        self.scores.append(float(scoring(fitted_estimator, *rows)))
        return self.should_stop()

    def should_stop(self):
        """Return False, because a score monitor never stops a fit."""
        return False


class EarlyStopping(ScoreMonitor):
    """Callback that stops a fit when the score of held-out rows no longer improves.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features), optional
        Held-out rows. By default the training rows.
    scoring : callable, optional
        Function ``scoring(estimator, X) -> float``, or ``scoring(estimator, X, y)`` for models that
        have targets. By default ``estimator.score``.
    patience : int, default=5
        Number of epochs without an improvement after which the fit stops.
    min_delta : float, default=1e-4
        Smallest increase of the score that counts as an improvement.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
        Targets of the rows ``X``. By default None, for models without targets.

    Attributes
    ----------
    scores : list of float
        Score after each epoch of the last fit.
    """

    def __init__(self, X=None, scoring=None, patience=5, min_delta=1e-4, *, y=None):
        super().__init__(X, scoring, y=y)
        check_number("patience", patience, low=1, integer=True)
        self.patience = patience
        self.min_delta = min_delta

    def should_stop(self):
        """Return True if the score has not improved in the last ``patience`` epochs."""
        if len(self.scores) <= self.patience:
            return False
        best = np.max(self.scores[: -self.patience])
        return bool(np.max(self.scores[-self.patience :]) < best + self.min_delta)


def warn_unconverged(state, settings):
    """Warn that training has not converged, unless the best held-out score is old enough.

    A solver that stops by itself without convergence has found no better point.

    Parameters
    ----------
    state : LoopState
        Final state.
    settings : Settings
        Settings of the run.
    """
    if state.is_past_best(settings):
        return
    message = (
        f"Learning had not converged after {state.epoch} epochs ({state.step} updates). Increase "
        "max_iter, or accept the model as it is (see history_)."
    )
    if getattr(state.optimizer, "is_done", False):
        message = (
            f"L-BFGS stopped after {state.epoch} iterations, because no step along its direction "
            "increases the objective. The largest entry of the gradient is "
            f"{state.optimizer.gradient_max:.2g}, above tol={settings.tol:g}. If this is small, "
            "rounding errors are the reason: set a larger tol. Otherwise set a larger alpha, or "
            'use optimizer="adam".'
        )
    warn_caller(message, ConvergenceWarning)


def warn_interrupted(state):
    """Warn that Ctrl-C ended training."""
    warn_caller(
        f"Interrupted; the model is that of the last complete update, {state.step}, after "
        f"{state.epoch} epochs.",
        ConvergenceWarning,
    )


def warn_inference(state, settings):
    """Warn if the learner's inference did not converge in the last epoch."""
    share = state.history.columns.get("inference_converged", [1.0])[-1]
    if share < settings.converged_share:
        warn_caller(
            f"Inference converged in {100 * share:.0f}% of its runs in the last epoch, so the "
            "gradient has an unknown error. Increase the iterations or the damping of the learner, "
            "or use another learner (see inference_converged in history_).",
            ConvergenceWarning,
        )
