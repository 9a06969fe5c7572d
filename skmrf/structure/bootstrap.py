"""The selection repeated on rows drawn with replacement."""

from dataclasses import dataclass

import numpy as np

from .._utils.parallel import run_parts
from ..training import warn_interrupted
from .estimation import Estimation
from .path import Path
from .stepwise import select


@dataclass
class Bootstraps:
    """What the bootstraps that are done have found.

    Attributes
    ----------
    root : list of int
        Seed of all bootstraps.
    n_done : int
    counts : ndarray of shape (n_columns, n_columns)
        How many found each edge, above the diagonal.
    interrupted : bool
        Whether Ctrl-C has ended them.
    """

    root: list
    n_done: int
    counts: np.ndarray
    interrupted: bool = False

    @classmethod
    def none(cls, n_columns, rng):
        """Before the first."""
        root = rng.integers(0, 2**63, size=2).tolist()
        return cls(root, 0, np.zeros((n_columns, n_columns), dtype=int))

    def add(self, edges):
        """One more is done."""
        self.counts[edges[:, 0], edges[:, 1]] += 1
        self.n_done += 1

    def frequencies(self):
        """Share of the bootstraps with each edge; None before the first bootstrap."""
        if not self.n_done:
            return None
        return (self.counts + self.counts.T) / self.n_done


def repeated(rows, criteria, estimation, n_bootstraps, known=None):
    """Frequencies of edges in so many selections, of which some may be ``known`` already.

    A callback that asks to stop ends them, and so does Ctrl-C, with a warning; None if there are
    none before it. Those that are known are added to.
    """
    known = Bootstraps.none(len(rows.n_states), estimation.rng) if known is None else known
    seeds = np.random.SeedSequence(known.root).spawn(n_bootstraps)[known.n_done :]
    how = estimation.learner, estimation.schedule
    tasks = ((rows, criteria, *how, seed) for seed in seeds)
    try:
        for edges in run_parts(_replicate, tasks, estimation.n_jobs):
            known.add(edges)
            estimation.reports.begin()
            if estimation.reports.end(known):
                break
    except KeyboardInterrupt:
        known.interrupted = True
        warn_interrupted(known.n_done, n_bootstraps, "bootstraps")
    return known.frequencies()


def _replicate(rows, criteria, learner, schedule, seed):
    rng = np.random.default_rng(seed)
    n_drawn = max(1, round(rows.count))
    drawn = rng.multinomial(n_drawn, rows.weights / rows.count)
    sample = rows.take(drawn / rows.weights * (rows.count / n_drawn))
    estimation = Estimation(learner, schedule, rng, Path(), n_jobs=1)
    selection = select(sample, criteria, estimation)
    if estimation.stopped:  # half a selection says nothing
        raise KeyboardInterrupt
    return selection.energy.form.edges
