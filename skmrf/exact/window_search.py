"""Local search for a joint mode by exact maximisation over large sets of variables (windows)."""

import numpy as np

from .._kernels.ordering import adjacency_bits, write_window
from .._utils.interrupts import remaining_time
from .elimination import ImpossibleEvidence, maximise, sample
from .tree_decomposition import Forecast, build_tree

MAX_VARIABLES = 5000  # the adjacency matrix and the planning of windows are quadratic
LOG2_TABLE = (12, 18)  # largest tables of the first and of the later windows
PATIENCE = 10  # windows without a better state, before the search moves to another state
LOWEST_BETA = 0.05
TOLERANCE = 1e-9


class WindowSearch:
    """Local search for a joint mode of a factor graph.

    A move maximises exactly over a random set of variables, the window, given the states of all
    other variables. The window contains as many variables as elimination allows with tables of a
    limited size, so it contains most variables of a grid and all variables of a tree. If ten moves
    find no better state, the search draws the states of a window at a random temperature, and
    continues from there.

    Parameters
    ----------
    graph : FactorGraph
        Model.
    rng : numpy.random.Generator
        Source of randomness.
    n_windows : int
        Number of moves.
    """

    def __init__(self, graph, rng, n_windows):
        self.graph, self.rng, self.n_windows = graph, rng, n_windows
        layout = graph.layout
        self.bits = adjacency_bits(
            layout.clique_ptr,
            layout.clique_vars,
            np.ones(graph.n_variables, dtype=bool),
            graph.n_variables,
        )
        self.log_states = np.log(layout.n_states.astype(float))

    def improve(self, starts):
        """Return the best state that the search finds.

        Parameters
        ----------
        starts : ndarray of shape (n_starts, n_variables)
            State codes at which the search starts.

        Returns
        -------
        ndarray of shape (n_variables,)
            State codes. The log-potential is at least the largest of ``starts``.
        """
        queue = starts[np.argsort(self._values(starts))]
        best = x = queue[-1:]
        queue, n_failed = queue[:-1], 0
        top = current = self._values(x)[0]
        for k in range(self.n_windows):
            if remaining_time() < 0:
                break
            try:
                plan = self._draw_window(LOG2_TABLE[k >= PATIENCE])
                if n_failed >= PATIENCE:
                    x = queue[-1:] if len(queue) else self._disturb(plan, best)
                    queue, n_failed, current = queue[:-1], 0, -np.inf
                x = maximise(plan, self.graph.flat, x)
            except ImpossibleEvidence:  # the clamped variables have probability zero
                n_failed += 1
                continue
            except TimeoutError:
                break
            value = self._values(x)[0]
            n_failed = 0 if value > current + TOLERANCE else n_failed + 1
            current = value
            if value > top + TOLERANCE:
                best, top = x, value
            if len(plan.forecast.order) == self.graph.n_variables:  # the state is optimal
                break
        return best[0]

    def _values(self, X):
        return self.graph.log_potential(X)

    def _draw_window(self, log2_table):
        """Return the elimination plan of a random window."""
        n = self.graph.n_variables
        is_free, order = np.ones(n, dtype=bool), np.empty(n, dtype=np.int64)
        limit, noise = log2_table * np.log(2.0), self.rng.random(n)
        count = write_window(self.bits.copy(), is_free, self.log_states, noise, limit, order)
        cost = Forecast(0.0, 0.0, 0.0, order[:count])
        return build_tree(self.graph.layout, ~is_free, np.zeros(n, dtype=bool), cost)

    def _disturb(self, plan, x):
        """Draw the states of a window at a random temperature, given the other variables."""
        beta = np.exp(self.rng.uniform(np.log(LOWEST_BETA), 0.0))
        return sample(plan, beta * self.graph.flat, 1, self.rng, x)
