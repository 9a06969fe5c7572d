"""Reports of epochs to scikit-learn's callbacks."""

from contextlib import nullcontext

from sklearn.callback import CallbackSupportMixin

from .checkpoints import NoCheckpoint


class SilentReports:
    """Placeholder for runs without callbacks: it reports nothing."""

    def begin(self):
        """Do nothing when an epoch begins."""

    def end(self, state):
        """Return False at the end of an epoch, because there is no callback to stop training."""
        return False


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
        n_tasks = None if max_iter is None else max_iter + n_sub_estimators
        self.root = estimator._init_callback_context(max_subtasks=n_tasks)
        self.root.call_on_fit_task_begin(estimator=estimator, **self.rows)

    def fit(self, name, sub_estimator, sample_weight):
        """Fit a sub-estimator to the same rows, and report its fit to the callbacks as a task."""
        task = self.root.subcontext(task_name=name)
        with propagate_callbacks(task, sub_estimator):
            task.call_on_fit_task_begin(estimator=self.estimator, **self.rows)
            fitted = sub_estimator.fit(self.rows["X"], sample_weight=sample_weight)
            self._end_task(task, None)
        return fitted

    def begin(self):
        """Report the beginning of an epoch."""
        self.epoch = self.root.subcontext(task_name="epoch")
        self.epoch.call_on_fit_task_begin(estimator=self.estimator, **self.rows)

    def end(self, state):
        """Write a checkpoint, report the end of an epoch, and return True to stop training."""
        self.checkpoint.write(state)
        return self._end_task(self.epoch, self.summary and (lambda: self.summary(state)))

    def finish(self, attributes=None):
        """Report the end of the fit; callbacks may call ``attributes`` for fitted attributes."""
        self._end_task(self.root, attributes)

    def _end_task(self, task, attributes):
        return task.call_on_fit_task_end(
            estimator=self.estimator, **self.rows, reconstruction_attributes=attributes
        )


def propagate_callbacks(task, part):
    """Return a context manager in which the tasks of a part are subtasks of ``task``."""
    takes_callbacks = isinstance(part, CallbackSupportMixin)
    return task.propagate_callback_context(part) if takes_callbacks else nullcontext()
