"""What became of every edge while learning went on."""

import numpy as np

from ..training.reports import SilentReports

MOST_RECORDS = 2_000
MOST_NUMBERS = 2**24


class Path:
    """Parameters of all edges by update.

    Of edges with one parameter the parameter itself, of others its norm. When the records become
    many, every second one is dropped and from then on twice as many updates lie between two.
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
        """Without dictionaries by edge, which not every format of files can hold."""
        return vars(self) | {"columns": list(self.columns), "removed": list(self.removed.items())}

    def __setstate__(self, state):
        vars(self).update(state)
        self.columns = {tuple(edge): k for k, edge in enumerate(state["columns"])}
        self.removed = {tuple(edge): at for edge, at in state["removed"]}

    def begin(self):
        """Another run of the loop begins."""
        self.before = self.now

    def record(self, update, energy):
        """The parameters after an update of this run of the loop."""
        self.now = self.before + update
        self.calls += 1
        if self.calls % self.every:
            return
        self.iterations.append(self.now)
        self.values.append(_signed(energy, self._places(energy.form.edges)))
        most = min(MOST_RECORDS, MOST_NUMBERS // max(len(self.columns), 1))
        if len(self.iterations) > max(most, 2):
            self._thin()

    def _thin(self):
        self.every *= 2
        self.iterations = self.iterations[1::2]
        self.values = self.values[1::2]

    def _places(self, edges):
        for edge in map(tuple, edges.tolist()):
            self.columns.setdefault(edge, len(self.columns))
        return [self.columns[edge] for edge in map(tuple, edges.tolist())]

    def remove(self, edges, update=0):
        """These edges went with an update of this run; 0: of the last one of the run before."""
        at = self.before + update if update else self.now
        self.removed |= dict.fromkeys(map(tuple, edges.tolist()), at)

    def enter(self, edges):
        """These edges are back."""
        for edge in map(tuple, edges.tolist()):
            self.removed.pop(edge, None)

    def summary(self, original):
        """Arrays by edge; ``original`` are the columns that the variables stand for."""
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


def _signed(energy, places):
    """Parameters in the columns of a path."""
    single = np.diff(energy.form.pair_start) == 1
    values = energy.strengths()
    first = energy.form.pair_start[:-1][single]
    values[single] = energy.theta["pairs"][first]
    out = np.zeros(max(places, default=-1) + 1, dtype=np.float32)
    out[places] = values
    return out


class Recorder(SilentReports):
    """Reports that record the path of the parameters and are passed on."""

    def __init__(self, path, reports):
        self.path = path
        self.reports = reports
        self.stopped = False

    def begin(self):
        self.reports.begin()

    def end(self, state):
        self.path.record(state.step, state.energy)
        self.stopped = bool(self.reports.end(state))
        return self.stopped
