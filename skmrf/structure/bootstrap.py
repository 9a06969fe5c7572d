"""Bootstrap repetitions of the graph search: their random seeds and the counts of their edges."""

from dataclasses import dataclass

import numpy as np

from ..training.part_reports import warn_interrupted


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
