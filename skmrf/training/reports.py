"""Reports of epochs and of parts of a fit to scikit-learn's callbacks."""

from contextlib import nullcontext

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from .._utils.parallel import run_parts
from .._utils.warn import warn_caller
from .checkpoints import NoCheckpoint


class SilentReports:
    """Reports that nothing receives."""

    def begin(self):
        """Begin an epoch."""

    def end(self, state):
        """End an epoch; return whether to stop."""
        return False


class EpochReports:
    """Reports of every epoch to scikit-learn's callbacks.

    Parameters
    ----------
    estimator : estimator that takes scikit-learn's callbacks
    X, y : array-like
        Training rows and targets.
    max_iter : int or None
        Maximum number of epochs, where it is known.
    n_firsts : int, default=0
        Number of sub-estimators that are fitted before the epochs.

    Attributes
    ----------
    summary : callable or None
        ``LoopState -> dict``, the fitted attributes after an epoch.
    checkpoint : NoCheckpoint
        It writes the state of the loop to a file.
    """

    def __init__(self, estimator, X, y, max_iter, n_firsts=0):
        self.estimator = estimator
        self.rows = {"X": X, "y": y}
        self.summary = None
        self.checkpoint = NoCheckpoint()
        n_tasks = None if max_iter is None else max_iter + n_firsts
        self.root = estimator._init_callback_context(max_subtasks=n_tasks)
        self.root.call_on_fit_task_begin(estimator=estimator, **self.rows)

    def fit(self, name, first, sample_weight):
        """Fit a sub-estimator to the same rows, as a task of this name."""
        task = self.root.subcontext(task_name=name)
        with _propagate_callbacks(task, first):
            task.call_on_fit_task_begin(estimator=self.estimator, **self.rows)
            fitted = first.fit(self.rows["X"], sample_weight=sample_weight)
            self._end_task(task, None)
        return fitted

    def begin(self):
        """Begin an epoch."""
        self.epoch = self.root.subcontext(task_name="epoch")
        self.epoch.call_on_fit_task_begin(estimator=self.estimator, **self.rows)

    def end(self, state):
        """End an epoch; return whether to stop."""
        self.checkpoint.write(state)
        return self._end_task(self.epoch, self.summary and (lambda: self.summary(state)))

    def finish(self, attributes=None):
        """End the fit; ``attributes`` returns the fitted attributes, if there are any."""
        self._end_task(self.root, attributes)

    def _end_task(self, task, attributes):
        return task.call_on_fit_task_end(
            estimator=self.estimator, **self.rows, reconstruction_attributes=attributes
        )


class PartReports:
    """Parallel learning of independent parts of a fit, with a report of each to the callbacks.

    A part that is an estimator reports its epochs too, to callbacks that take nested tasks.

    Parameters
    ----------
    estimator : estimator that takes scikit-learn's callbacks
    X, y : array-like
        Training rows and targets.
    n_parts : int
    """

    def __init__(self, estimator, X, y, n_parts):
        self.estimator = estimator
        self.rows = {"X": X, "y": y}
        self.root = estimator._init_callback_context(
            max_subtasks=n_parts, sequential_subtasks=False
        )
        self.n_begun = 0
        self.interrupted = False  # after Ctrl-C no part is learned or written
        self.root.call_on_fit_task_begin(estimator=estimator, **self.rows)

    def begin(self, rng, *given):
        """Return the generator to start with; ``given`` identifies the fit in a checkpoint."""
        self.checkpoint = self.estimator._checkpoint
        rng = self.checkpoint.begin(rng, self.estimator, *given)
        self.done, _ = self.checkpoint.resumed() or ([], None)
        self.checkpoint.keep(None)
        return rng

    def learn(self, name, plural, function, parts, *, n_jobs=None, brief=None):
        """Return ``function(*part)`` for every part, in order.

        Parts in the checkpoint are not learned again. Ctrl-C drops the interrupted part and the
        later ones, or replaces them by ``brief(*part)`` where that is given. An interrupted part
        that returns its result so far is kept.
        """
        first = self.n_begun
        self.n_begun += len(parts)
        estimator = clone(self.estimator)  # without fitted attributes
        tasks = [
            (self.root.subcontext(name, first + k), estimator, function, part)
            for k, part in enumerate(parts)
            if first + k >= len(self.done)
        ]
        try:
            for part in run_parts(_learn_part, tasks, n_jobs):
                self._add(part)
                if self.interrupted:
                    break
        except KeyboardInterrupt:
            self.interrupted = True
        learned = self.done[first : self.n_begun]
        if self.interrupted:
            rest = "there are no more" if brief is None else "the others are learned in brief"
            warn_interrupted(len(learned), len(parts), plural, rest)
        left = [] if brief is None else parts[len(learned) :]
        return learned + [brief(*part) for part in left]

    def _add(self, part):
        self.done.append(part)
        self.interrupted |= getattr(part, "_interrupted", False)
        if not self.interrupted:
            self.checkpoint.write(self.done)

    def finish(self, attributes):
        """End the fit; ``attributes`` returns the fitted attributes."""
        if not self.interrupted and not self.checkpoint.ended:
            self.checkpoint.write(self.done, ended=True)
        self.root.call_on_fit_task_end(
            estimator=self.estimator, **self.rows, reconstruction_attributes=attributes
        )


def warn_interrupted(n_done, n, what, rest="there are no more"):
    """Warn that Ctrl-C ended a sequence of parts early.

    Parameters
    ----------
    n_done, n : int
        Number of parts that are complete, and of all.
    what : str
        Name of the parts, in the plural.
    rest : str
        Clause on the other parts.
    """
    warn_caller(f"Interrupted after {n_done} of {n} {what}; {rest}.", ConvergenceWarning)


def _propagate_callbacks(task, part):
    """Return a context in which the tasks of a part are subtasks of this one."""
    takes_callbacks = hasattr(part, "set_callbacks")
    return task.propagate_callback_context(part) if takes_callbacks else nullcontext()


def _learn_part(task, estimator, function, part):
    with _propagate_callbacks(task, part[0]):
        task.call_on_fit_task_begin(estimator=estimator)
        learned = function(*part)
        task.call_on_fit_task_end(estimator=estimator)
    return learned
