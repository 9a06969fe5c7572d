"""Reports of the parts of a fit to scikit-learn's callbacks."""

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from .._utils.parallel import run_parts
from .._utils.warn import warn_caller
from .reports import propagate_callbacks


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
        """End the fit; ``attributes`` is a dict of the fitted attributes."""
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


def _learn_part(task, estimator, function, part):
    with propagate_callbacks(task, part[0]):
        task.call_on_fit_task_begin(estimator=estimator)
        learned = function(*part)
        task.call_on_fit_task_end(estimator=estimator)
    return learned
