"""The selection repeated on rows drawn with replacement."""

from dataclasses import dataclass

import numpy as np

from .._parallel import run_parts
from ..learning import warn_interrupted
from .estimates import Estimation
from .findings import z_values
from .path import Path
from .rounds import select


@dataclass
class Bootstraps:
    """What the bootstraps that are done have found, as sums over them.

    Attributes
    ----------
    root : list of int
        Seed of all bootstraps.
    n_done : int
    shares : ndarray of shape (n_columns, n_columns)
        How many found each edge, above the diagonal.
    squares : ndarray of shape (n_columns, n_columns)
        Of the z-values of pairs.
    interrupted : bool
        Whether Ctrl-C has ended them.
    """

    root: list
    n_done: int
    shares: np.ndarray
    squares: np.ndarray
    interrupted: bool = False

    @classmethod
    def none(cls, n_columns, rng):
        """Before the first."""
        root = rng.integers(0, 2**63, size=2).tolist()
        return cls(root, 0, *np.zeros((2, n_columns, n_columns)))

    def add(self, edges, values):
        """One more is done."""
        self.shares[edges[:, 0], edges[:, 1]] += 1.0
        self.squares += values.astype(float) ** 2
        self.n_done += 1

    def summary(self):
        """Share of the bootstraps with each edge, and a z-value of each pair from all of them.

        Drawing rows adds 1 to the expected square of a z-value, so the square returned is the mean
        of the squares less 1. None before the first bootstrap.
        """
        if not self.n_done:
            return None
        mean_square = self.squares / self.n_done
        return (self.shares + self.shares.T) / self.n_done, np.sqrt((mean_square - 1.0).clip(0.0))


def repeated(rows, criteria, estimation, n_bootstraps, known=None):
    """Summary of the selection repeated so many times, of which some may be ``known`` already.

    A callback that asks to stop ends them, and so does Ctrl-C, with a warning; None if there are
    none before it. Those that are known are added to.
    """
    known = Bootstraps.none(len(rows.n_states), estimation.rng) if known is None else known
    seeds = np.random.SeedSequence(known.root).spawn(n_bootstraps)[known.n_done :]
    how = estimation.learner, estimation.schedule
    tasks = ((rows, criteria, *how, seed) for seed in seeds)
    try:
        for found in run_parts(_replicate, tasks, estimation.n_jobs):
            known.add(*found)
            estimation.reports.begin()
            if estimation.reports.end(known):
                break
    except KeyboardInterrupt:
        known.interrupted = True
        warn_interrupted(known.n_done, n_bootstraps, "bootstraps")
    return known.summary()


def _replicate(rows, criteria, learner, schedule, seed):
    rng = np.random.default_rng(seed)
    n_drawn = max(1, round(rows.count))
    drawn = rng.multinomial(n_drawn, rows.weights / rows.count)
    sample = rows.take(drawn / rows.weights * (rows.count / n_drawn))
    estimation = Estimation(learner, schedule, rng, Path(), n_jobs=1)
    selection = select(sample, criteria, estimation)
    if estimation.stopped:  # half a selection says nothing
        raise KeyboardInterrupt
    return selection.energy.form.edges, z_values(selection).astype(np.float32)
