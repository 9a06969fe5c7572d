"""Bootstrap of the graph search: repeat it on rows that are drawn with replacement."""

from dataclasses import dataclass

import numpy as np

from .._utils.parallel import run_parts
from ..training.part_reports import warn_interrupted
from .path import Path
from .search import Estimation


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


def run_bootstraps(bootstraps, n_bootstraps, rows, model, search, estimation):
    """Run the remaining bootstrap repetitions, and count the selected edges in ``bootstraps``.

    A callback can stop the bootstraps early. Ctrl-C stops them with a warning.

    Parameters
    ----------
    bootstraps : Bootstraps
        Finished bootstraps; it is modified in place.
    n_bootstraps : int
        Total number of bootstraps.
    rows : Rows
        Training rows.
    model : PairwiseModel
        Parameterisation of the edges.
    search : Search
        Strategy of each bootstrap.
    estimation : Estimation
        Its learner and schedule are used for each bootstrap.
    """
    seeds = np.random.SeedSequence(bootstraps.root).spawn(n_bootstraps)[bootstraps.n_done :]
    fixed = rows, model, search, estimation.learner, estimation.schedule
    tasks = ((*fixed, seed) for seed in seeds)
    try:
        for edges in run_parts(_select_on_sample, tasks, estimation.n_jobs):
            bootstraps.add(edges)
            estimation.reports.begin()
            if estimation.reports.end(bootstraps):
                break
    except KeyboardInterrupt:
        bootstraps.interrupted = True
        warn_interrupted(bootstraps.n_done, n_bootstraps, "bootstraps")


def _select_on_sample(rows, model, search, learner, schedule, seed):
    """Draw rows with replacement, and return the edges that the search selects on them."""
    rng = np.random.default_rng(seed)
    n_drawn = max(1, round(rows.count))
    drawn = rng.multinomial(n_drawn, rows.weights / rows.count)
    sample = rows.reweight(drawn / rows.weights * (rows.count / n_drawn))
    estimation = Estimation(learner, schedule, rng, Path(), n_jobs=1)
    selection = search.select(sample, model, estimation)
    if estimation.stopped:  # an interrupted search must not count
        raise KeyboardInterrupt
    return selection.energy.form.edges
