"""Record of edges and their parameters during learning, and removal between updates."""

import numpy as np

from ..training.reports import SilentReports
from .screening import difference

MAX_RECORDS = 2_000
MAX_ENTRIES = 2**24


class Path:
    """Record of how the parameters of all edges change during learning.

    Edges with one parameter are recorded by its value, other edges by the norm of their
    parameters. When the number of records exceeds its limit, every second record is dropped, and
    the number of updates between records is doubled.
    """

    def __init__(self):
        self.columns = {}
        self.iterations = []
        self.values = []
        self.removed = {}
        self.before = 0
        self.every = 1
        self.now = 0
        self.calls = 0

    def __getstate__(self):
        """Return the state for pickling, with lists instead of dictionaries.

        Some file formats do not support tuples as dictionary keys.
        """
        return vars(self) | {"columns": list(self.columns), "removed": list(self.removed.items())}

    def __setstate__(self, state):
        """Restore a pickled state, with dictionaries instead of lists."""
        vars(self).update(state)
        self.columns = {tuple(edge): k for k, edge in enumerate(state["columns"])}
        self.removed = {tuple(edge): at for edge, at in state["removed"]}

    def begin(self):
        """Begin another training run; the count of updates continues from the last run."""
        self.before = self.now

    def record(self, update, energy):
        """Record the edge parameters after an update of this training run."""
        self.now = self.before + update
        self.calls += 1
        if self.calls % self.every:
            return
        self.iterations.append(self.now)
        self.values.append(_edge_values(energy, self._path_columns(energy.form.edges)))
        max_records = min(MAX_RECORDS, MAX_ENTRIES // max(len(self.columns), 1))
        if len(self.iterations) > max(max_records, 2):
            self._thin()

    def _thin(self):
        self.every *= 2
        self.iterations = self.iterations[1::2]
        self.values = self.values[1::2]

    def _path_columns(self, edges):
        for edge in map(tuple, edges.tolist()):
            self.columns.setdefault(edge, len(self.columns))
        return [self.columns[edge] for edge in map(tuple, edges.tolist())]

    def remove(self, edges, update=0):
        """Record the removal of edges from the model, with the number of the update.

        ``update`` counts the updates of this run; 0 is the end of the last run.
        """
        at = self.before + update if update else self.now
        self.removed |= dict.fromkeys(map(tuple, edges.tolist()), at)

    def enter(self, edges):
        """Record that edges were added to the model, so that they no longer count as removed."""
        for edge in map(tuple, edges.tolist()):
            self.removed.pop(edge, None)

    def summary(self, original):
        """Return the recorded edge parameters as a dict of arrays.

        ``original`` maps variables to columns of the data.
        """
        edges = np.array(list(self.columns), dtype=np.int64).reshape(-1, 2)
        parameters = np.zeros((len(self.values), len(edges)), dtype=np.float32)
        for row, values in zip(parameters, self.values, strict=True):
            row[: len(values)] = values
        return {
            "edges": original[edges],
            "iteration": np.array(self.iterations, dtype=np.int64),
            "parameters": parameters,
            "removed": np.array([self.removed.get(e, -1) for e in self.columns], dtype=np.int64),
        }


def _edge_values(energy, columns):
    """Return an array with the parameter of edge k at position ``columns[k]``, and zeros elsewhere.

    The value is the signed parameter of an edge with one parameter, otherwise the norm.
    """
    single = np.diff(energy.form.pair_start) == 1
    values = energy.strengths()
    first = energy.form.pair_start[:-1][single]
    values[single] = energy.theta["pairs"][first]
    out = np.zeros(max(columns, default=-1) + 1, dtype=np.float32)
    out[columns] = values
    return out


class Recorder(SilentReports):
    """Progress reports that record the edge parameters after each epoch."""

    def __init__(self, path, reports):
        self.path = path
        self.reports = reports
        self.stopped = False

    def begin(self):
        """Report the beginning of an epoch to the wrapped progress reports."""
        self.reports.begin()

    def end(self, state):
        """Record the edge parameters; return True if the wrapped reports stop training."""
        self.path.record(state.step, state.energy)
        self.stopped = bool(self.reports.end(state))
        return self.stopped


class EdgeRemoval:
    r"""Removal of edges with :math:`\lVert \theta_{ij} \rVert` below a threshold.

    Parameters
    ----------
    threshold : float
        Smallest norm of the parameters of an edge that is kept.
    warmup : int
        Number of updates before the first removal.
    path : Path
        Records the removals.
    """

    def __init__(self, threshold, warmup, path):
        self.threshold = threshold
        self.warmup = warmup
        self.path = path
        self.n_updates = 0

    def update(self, energy, positive, negative, info):
        """Return the energy without the edges whose parameters have a norm below the threshold."""
        self.n_updates += 1
        if self.n_updates <= self.warmup:
            return energy
        weak = energy.alive & (energy.strengths() < self.threshold)
        if not weak.any():
            return energy if energy.alive.all() else energy.restricted(energy.alive)
        self.path.remove(energy.form.edges[weak], self.n_updates)
        return energy.restricted(energy.alive & ~weak)


def count_changes(before, after):
    """Return the numbers of edges before a round of the search, of removed and of added edges."""
    return {
        "n_edges": len(before),
        "left": len(difference(before, after)),
        "entered": len(difference(after, before)),
    }
