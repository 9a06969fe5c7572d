"""Epochs, and parts of a fit, as tasks of scikit-learn's callbacks."""

from contextlib import nullcontext

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from .._utils.parallel import run_parts
from .._utils.warn import warn_caller
from .checkpoints import NoCheckpoint


class EpochReports:
    """Tells scikit-learn's callbacks of every epoch.

    Parameters
    ----------
    estimator : estimator that scikit-learn's callbacks can be set of
    X, y : array-like
        What it is fitted to.
    max_iter : int or None
        Epochs at most, where that is known.
    n_firsts : int, default=0
        Estimators that are fitted before the epochs.

    Attributes
    ----------
    summary : callable or None
        Makes the fitted attributes of a state of the loop, where an epoch leaves a model.
    checkpoint : NoCheckpoint
        What writes the state of the loop to a file.
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
        """Fit an estimator to the same rows, with its tasks below one of this name."""
        task = self.root.subcontext(task_name=name)
        with _propagated(task, first):
            task.call_on_fit_task_begin(estimator=self.estimator, **self.rows)
            fitted = first.fit(self.rows["X"], sample_weight=sample_weight)
            self._ends(task, None)
        return fitted

    def begin(self):
        """An epoch begins."""
        self.epoch = self.root.subcontext(task_name="epoch")
        self.epoch.call_on_fit_task_begin(estimator=self.estimator, **self.rows)

    def end(self, state):
        """An epoch is over; True asks to stop."""
        self.checkpoint.write(state)
        return self._ends(self.epoch, self.summary and (lambda: self.summary(state)))

    def finish(self, attributes=None):
        """The fit is over; ``attributes`` makes what was fitted, if it was."""
        self._ends(self.root, attributes)

    def _ends(self, task, attributes):
        return task.call_on_fit_task_end(
            estimator=self.estimator, **self.rows, reconstruction_attributes=attributes
        )


class PartReports:
    """Learns the parts of a fit that are independent in parallel, and tells callbacks of each.

    A part that is an estimator itself tells them of its epochs too, if they ask for nested tasks.

    Parameters
    ----------
    estimator : estimator that scikit-learn's callbacks can be set of
    X, y : array-like
        What it is fitted to.
    n_parts : int
    """

    def __init__(self, estimator, X, y, n_parts):
        self.estimator = estimator
        self.rows = {"X": X, "y": y}
        self.root = estimator._init_callback_context(
            max_subtasks=n_parts, sequential_subtasks=False
        )
        self.n_begun = 0
        self.interrupted = False  # no part is learned, nor put on file, after Ctrl-C
        self.root.call_on_fit_task_begin(estimator=estimator, **self.rows)

    def begin(self, rng, *given):
        """The generator that the fit starts with; what is ``given`` tells it from other fits."""
        self.checkpoint = self.estimator._checkpoint
        rng = self.checkpoint.begin(rng, self.estimator, *given)
        self.done, _ = self.checkpoint.first(lambda: ([], None))
        return rng

    def learn(self, name, plural, function, parts, *, n_jobs=None, brief=None):
        """What ``function`` makes of every part, a tuple of arguments, in order.

        Parts on file are not learned again. Ctrl-C leaves out the part at which it comes and those
        after it, or they are what ``brief`` makes of them where that is given; a part that keeps
        what it has learned until then is kept.
        """
        first = self.n_begun
        self.n_begun += len(parts)
        estimator = clone(self.estimator)  # without what an earlier fit has left
        tasks = [
            (self.root.subcontext(name, first + k), estimator, function, part)
            for k, part in enumerate(parts)
            if first + k >= len(self.done)
        ]
        try:
            for part in run_parts(_learn_part, tasks, n_jobs):
                self._keep(part)
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

    def _keep(self, part):
        self.done.append(part)
        self.interrupted |= getattr(part, "_interrupted", False)
        if not self.interrupted:
            self.checkpoint.write(self.done)

    def finish(self, attributes):
        """The fit is over; ``attributes`` makes what was fitted."""
        if not self.interrupted and not self.checkpoint.ended:
            self.checkpoint.write(self.done, ended=True)
        self.root.call_on_fit_task_end(
            estimator=self.estimator, **self.rows, reconstruction_attributes=attributes
        )


def warn_interrupted(n_done, n, what, rest="there are no more"):
    """That Ctrl-C ended something early.

    Parameters
    ----------
    n_done, n : int
        How many of how many.
    what : str
        Of what, in the plural.
    rest : str
        What becomes of the others.
    """
    warn_caller(f"Interrupted after {n_done} of {n} {what}; {rest}.", ConvergenceWarning)


def _propagated(task, part):
    """Tasks of a part that can have callbacks are below this one."""
    nested = hasattr(part, "set_callbacks")
    return task.propagate_callback_context(part) if nested else nullcontext()


def _learn_part(task, estimator, function, part):
    with _propagated(task, part[0]):
        task.call_on_fit_task_begin(estimator=estimator)
        learned = function(*part)
        task.call_on_fit_task_end(estimator=estimator)
    return learned
