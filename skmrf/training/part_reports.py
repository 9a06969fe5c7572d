"""Fits of independent parts, such as bootstraps: checkpoints and reports to callbacks."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from .._utils.parallel import run_parts
from .._utils.warn import warn_caller
from .reports import ProgressLines, propagate_callbacks


class PartReports:
    """Parallel fit of independent parts, with a report of each part to the callbacks.

    If a part is an estimator, callbacks that support nested tasks also receive its epochs.

    Parameters
    ----------
    estimator : estimator that supports scikit-learn's callbacks
        Estimator that is fitted in parts.
    X, y : array-like
        Training rows and targets.
    n_parts : int
        Total number of parts.
    """

    def __init__(self, estimator, X, y, n_parts):
        self.estimator = estimator
        self.rows = {"X": X, "y": y}
        self.root = estimator._init_callback_context(
            max_subtasks=n_parts, sequential_subtasks=False
        )
        self.lines = ProgressLines(estimator, "part", n_parts)
        self.n_begun = 0
        self.interrupted = False  # after Ctrl-C, no part is fitted or written
        self.root.call_on_fit_task_begin(estimator=estimator, **self.rows)

    def begin(self, rng, *inputs):
        """Load the finished parts from the checkpoint; return its random generator, or ``rng``.

        Without a checkpoint file there are no finished parts, and ``rng`` is returned.
        """
        self.checkpoint = self.estimator._checkpoint
        rng = self.checkpoint.begin(rng, self.estimator, *inputs)
        self.done, _ = self.checkpoint.take_saved() or ([], None)
        self.checkpoint.set_fixed(None)
        return rng

    def learn(self, name, plural, function, parts, *, n_jobs=None, brief=None):
        """Fit all parts of a fit by ``function(*part)``, and return the list of results.

        Parts in the checkpoint are not fitted again. After Ctrl-C, the interrupted part and the
        later ones are dropped, or replaced by ``brief(*part)`` if ``brief`` is not None. If
        the interrupted part returns a partial result, this result is kept.
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
            rest = "the others are dropped" if brief is None else "the others are fitted briefly"
            warn_interrupted(len(learned), len(parts), plural, rest)
        left = [] if brief is None else parts[len(learned) :]
        return learned + [brief(*part) for part in left]

    def _add(self, part):
        self.done.append(part)
        self.lines.step()
        self.interrupted |= getattr(part, "_interrupted", False)
        if not self.interrupted:
            self.checkpoint.write(self.done)

    def finish(self, attributes):
        """Report the end of the fit and its fitted attributes to the callbacks."""
        if not self.interrupted and not self.checkpoint.ended:
            self.checkpoint.write(self.done, ended=True)
        self.lines.finish()
        self.root.call_on_fit_task_end(
            estimator=self.estimator, **self.rows, reconstruction_attributes=attributes
        )


@dataclass
class Bootstraps:
    """Number of bootstrap repetitions that selected each edge.

    Attributes
    ----------
    root : list of int
        Seed of all bootstraps.
    n_done : int
        Number of finished bootstraps.
    counts : ndarray of shape (n_columns, n_columns)
        Number of bootstraps that found each edge, above the diagonal.
    interrupted : bool
        Whether Ctrl-C has interrupted the bootstraps.
    """

    root: list
    n_done: int
    counts: np.ndarray
    interrupted: bool = False

    @classmethod
    def start(cls, n_columns, rng):
        """Return the bootstrap counts before the first repetition: all counts are zero."""
        root = rng.integers(0, 2**63, size=2).tolist()
        return cls(root, 0, np.zeros((n_columns, n_columns), dtype=int))

    def add(self, edges):
        """Add one bootstrap repetition: increase the counts of the edges that it selected."""
        self.counts[edges[:, 0], edges[:, 1]] += 1
        self.n_done += 1

    def frequencies(self):
        """Return the share of bootstrap repetitions that selected each edge.

        The result is None before the first repetition.
        """
        if not self.n_done:
            return None
        return (self.counts + self.counts.T) / self.n_done

    def tasks(self, n_bootstraps, *arguments):
        """Return the arguments of each remaining repetition: the given ones, and its seed.

        Parameters
        ----------
        n_bootstraps : int
            Total number of bootstraps.
        *arguments
            Rows, model, search strategy, learner and schedule of a repetition.

        Returns
        -------
        list of tuple
            Arguments of :func:`skmrf.structure.search.select_on_sample`.
        """
        seeds = np.random.SeedSequence(self.root).spawn(n_bootstraps)[self.n_done :]
        return [(*arguments, seed) for seed in seeds]

    def interrupt(self, n_bootstraps):
        """Store that Ctrl-C stopped the bootstraps, and warn."""
        self.interrupted = True
        warn_interrupted(self.n_done, n_bootstraps, "bootstraps")


def warn_interrupted(n_done, n, plural, rest="the others are dropped"):
    """Warn that Ctrl-C ended a fit before all of its parts were complete.

    Parameters
    ----------
    n_done, n : int
        Number of complete parts, and number of all parts.
    plural : str
        Plural noun for the parts.
    rest : str
        Clause about the other parts.
    """
    warn_caller(f"Interrupted after {n_done} of {n} {plural}; {rest}.", ConvergenceWarning)


def _learn_part(task, estimator, function, part):
    with propagate_callbacks(task, part[0]):
        task.call_on_fit_task_begin(estimator=estimator)
        learned = function(*part)
        task.call_on_fit_task_end(estimator=estimator)
    return learned
