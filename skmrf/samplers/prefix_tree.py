"""Prefixes of chained belief propagation, and what the next variable's beliefs are after each."""

import numpy as np

from .._kernels.propagation import propagate
from .._utils.codes import MISSING, STATE
from .._utils.rows import distinct_rows

ENTRIES_A_CALL = 2**23  # times iterations; Ctrl-C is seen between calls


class Prefixes:
    """Distinct prefixes of one length, with the log-probability of each.

    Parameters
    ----------
    arranged : Arrangement
        Variables in the order in which they are drawn.
    flat : ndarray of shape (n_parameters,)
    how : Propagation
    clip : float
    warm_start : bool
    counts : ndarray of shape (n_prefixes,)
        Draws that begin with each prefix (all empty at first).

    Attributes
    ----------
    X : ndarray of shape (n_prefixes, n_variables)
        State codes in the order of ``arranged``, MISSING where not drawn yet.
    log_q : ndarray of shape (n_prefixes,)
    n_runs, n_converged : int
        Of belief propagation.
    """

    def __init__(self, arranged, flat, how, *, clip, warm_start, counts):
        self.arranged = arranged
        self.tables = arranged.tables(flat)
        self.how = how
        self.clip = clip
        self.work = arranged.work()
        self.counts = counts
        self.X = np.full((len(counts), len(arranged.order)), MISSING, dtype=STATE)
        self.log_q = np.zeros(len(counts))
        self.starts = arranged.starts(self.X, 0)
        shape = (len(counts), len(self.work.messages)) if warm_start else (0, 0)
        self.messages = np.zeros(shape)
        self.n_runs = self.n_converged = 0

    @property
    def converged(self):
        """Share of the runs that converged."""
        return self.n_converged / self.n_runs if self.n_runs else 1.0

    def split(self, depth, rng):
        """Every prefix becomes those with a state more, its draws shared out multinomially."""
        p, which = self._conditionals(depth)
        shares = rng.multinomial(self.counts, p[which])
        parent, state = np.nonzero(shares)
        self.counts = shares[parent, state]
        self._grow(depth, parent, state, p[which[parent], state])

    def follow(self, depth, states):
        """Every prefix is continued by the state given for it."""
        p, which = self._conditionals(depth)
        self._grow(depth, np.arange(len(states)), states, p[which, states])

    def _grow(self, depth, parent, state, p):
        with np.errstate(divide="ignore"):
            self.log_q = self.log_q[parent] + np.log(p)
        self.X = self.X[parent]
        self.X[:, depth] = state
        graph, strides = self.arranged.graph, self.arranged.layout.strides
        edges = slice(graph.var_ptr[depth], graph.var_ptr[depth + 1])
        self.starts = self.starts[parent]
        moved = np.asarray(state)[:, None] * strides[graph.var_edge[edges]]
        self.starts[:, graph.var_clique[edges]] += moved
        if len(self.messages):
            self.messages = self.messages[parent]

    def _conditionals(self, depth):
        """Distributions of the next variable, and which of them belongs to each prefix."""
        scope = self.arranged.component(depth, depth)
        if len(self.messages):
            first, which = np.arange(len(self.X)), np.arange(len(self.X))
        else:
            first, which = distinct_rows(self.starts[:, scope.cliques])
        ends = np.empty((len(first), 2))
        graph = self.arranged.graph
        singles = np.empty((len(first), int(graph.state_start[-1])))
        self._run(scope, self.starts[first], singles, ends)
        self.n_runs += len(first)
        self.n_converged += int(np.count_nonzero(ends[:, 1] <= self.how.tol))
        p = singles[:, graph.state_start[depth] : graph.state_start[depth + 1]]
        if self.clip > 0:
            p = np.maximum(p, self.clip)
        return p / p.sum(axis=1, keepdims=True), which

    def _run(self, scope, starts, singles, ends):
        """Propagation for every row of starts, in short calls."""
        visits = max(self.arranged.visits(scope.cliques), 1)
        rows = ENTRIES_A_CALL // (visits * self.how.max_iter)
        for s in range(0, len(starts), max(rows, 1)):
            c = slice(s, s + max(rows, 1))
            how, messages, done = self.how.codes(), self.messages[c], 0
            if rows == 0:
                how = self.how.codes(max(1, ENTRIES_A_CALL // visits))
                messages = np.zeros((1, len(self.work.messages))) if not len(messages) else messages
            while done < self.how.max_iter and (done == 0 or ends[s, 1] > how.tol):
                how = how._replace(max_iter=min(how.max_iter, self.how.max_iter - done))
                propagate(
                    self.arranged.graph, self.tables, starts[c], scope, how, done, messages,
                    self.work, singles[c], ends[c],
                )  # fmt: skip
                done += how.max_iter
