"""Partial samples (prefixes) of chained belief propagation, and sampling of the next variable."""

import numpy as np

from .._kernels.propagation import propagate
from .._utils.codes import MISSING, STATE
from .._utils.rows import find_unique_rows

ENTRIES_A_CALL = 2**23  # table entries times iterations; Ctrl-C is handled between two calls


class Prefixes:
    """Distinct states of the variables sampled so far (prefixes), with their log-probabilities.

    Parameters
    ----------
    arranged : Arrangement
        Variables in the order in which they are sampled.
    flat : ndarray of shape (n_parameters,)
        Log-potentials of all tables, concatenated.
    how : Propagation
        Settings of the message passing.
    clip : float
        Lower limit of the probabilities of a conditional.
    warm_start : bool
        Whether messages start at the final messages of the prefix that is one variable shorter.
    counts : ndarray of shape (n_prefixes,)
        Number of samples that begin with each prefix. At first all prefixes are empty.

    Attributes
    ----------
    X : ndarray of shape (n_prefixes, n_variables)
        State codes in the order of ``arranged``, MISSING for variables that are not sampled yet.
    log_q : ndarray of shape (n_prefixes,)
        Log-probabilities of the prefixes, in nats.
    n_runs : int
        Number of runs of belief propagation.
    n_converged : int
        Number of these runs that converged.
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
        """Return the fraction of the runs of belief propagation that converged."""
        return self.n_converged / self.n_runs if self.n_runs else 1.0

    def sample_next(self, depth, rng):
        """Sample the next variable of each prefix: draw multinomial counts of its states."""
        p, which = self._conditionals(depth)
        shares = rng.multinomial(self.counts, p[which])
        parent, state = np.nonzero(shares)
        self.counts = shares[parent, state]
        self._extend(depth, parent, state, p[which[parent], state])

    def append_states(self, depth, states):
        """Append a given state of the next variable to each prefix."""
        p, which = self._conditionals(depth)
        self._extend(depth, np.arange(len(states)), states, p[which, states])

    def _extend(self, depth, parent, state, p):
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
        """Return the distinct distributions of the next variable, and the index for each prefix."""
        scope = self.arranged.find_component(depth, depth)
        if len(self.messages):
            first, which = np.arange(len(self.X)), np.arange(len(self.X))
        else:
            first, which = find_unique_rows(self.starts[:, scope.cliques])
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
        """Run belief propagation for each prefix, in short calls so that Ctrl-C works."""
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
