"""Chained belief propagation: sampling each variable in turn from its estimated conditional."""

import numbers
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .._kernels.propagation import propagate
from .._utils.codes import MISSING, STATE
from .._utils.interrupts import check_time
from .._utils.parameters import check_choice, check_flag, check_number
from .._utils.rows import find_unique_rows
from ..energies import FactorGraph
from ..exact import elimination, tree_decomposition
from ..variational import arrangement
from ..variational.belief_propagation import Propagation

CONDITIONALS = ("auto", "bp", "exact")
ORDERS = ("elimination", "index")
EXACT_ENTRIES = 2**24  # table entries that "auto" visits at most for one set of samples
ENTRIES_PER_CALL = 2**23  # table entries times iterations; Ctrl-C is handled between two calls


@dataclass(frozen=True)
class ChainSettings:
    """Settings of chained belief propagation.

    Parameters
    ----------
    conditionals : {"auto", "bp", "exact"}, default="auto"
        Source of the conditional distributions. "bp" uses belief propagation, "exact" uses variable
        elimination. "auto" starts with belief propagation and changes to elimination as soon as
        elimination of the remaining variables is cheap.
    order : {"elimination", "index"} or array-like of shape (n_variables,), default="elimination"
        Order in which the variables are sampled. "elimination" is a reversed elimination order: the
        core of the graph comes first, so that the remaining graph soon splits into components.
        "index" is the order of the columns. An array lists all variables in sampling order.
    propagation : Propagation, optional
        Settings of the message passing of "bp".
    clip : float in [0, 0.5], default=0.0
        Lower limit of the probabilities of a conditional, before they are scaled to sum to one.
        With a positive value every state can be sampled.
    warm_start : bool, default=False
        Start the messages of a prefix at the final messages of the prefix that is one variable
        shorter. This saves work, but it changes the distribution of the samples wherever messages
        have not converged.
    """

    conditionals: str = "auto"
    order: object = "elimination"
    propagation: Propagation = field(default_factory=Propagation)
    clip: float = 0.0
    warm_start: bool = False

    def __post_init__(self):
        """Raise an error if a setting is invalid."""
        check_choice("conditionals", self.conditionals, CONDITIONALS)
        check_number("clip", self.clip, low=0, high=0.5)
        check_flag("warm_start", self.warm_start)
        if not isinstance(self.propagation, Propagation):
            raise TypeError(
                "propagation must be a skmrf.variational.belief_propagation.Propagation; "
                f"got {self.propagation!r}."
            )


class Draws(NamedTuple):
    """Samples of chained belief propagation, with their counts and log-probabilities.

    Equal samples are merged, unless variable elimination was used.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes.
    counts : ndarray of shape (n_rows,)
        Number of times each row was sampled. All counts are 1, also of equal rows, if elimination
        was used.
    log_q : ndarray of shape (n_rows,)
        Log-probability of sampling each row, in nats.
    converged : float
        Fraction of the runs of belief propagation that converged.
    n_runs : int
        Number of runs of belief propagation.
    """

    X: np.ndarray
    counts: np.ndarray
    log_q: np.ndarray
    converged: float
    n_runs: int


class ChainedSampler:
    r"""Sampler by chained belief propagation for all factor graphs that have a given layout.

    .. math:: q(x) = \prod_i b_i(x_i \mid x_{<i})

    Here :math:`b_i` is the belief of variable :math:`i`, computed by belief propagation given the
    variables that were sampled before (Algorithm 1 of the paper). Samples with equal prefixes share
    a run of belief propagation. A run only uses the tables of the connected component of variable
    :math:`i`, so prefixes that lead to the same tables of this component share the run, too. This
    does not change :math:`q`.

    Parameters
    ----------
    layout : Layout
        Variables, cliques and tables of the factor graph.
    settings : ChainSettings
        Settings of the chain.
    n_samples : int, default=1000
        Expected number of samples per call, by which "auto" judges the costs.

    Attributes
    ----------
    n_chained : int
        Number of variables that are sampled from beliefs; the others are sampled by elimination.

    References
    ----------
    F. Ding and Y. Xue, "Contrastive divergence learning with chained belief propagation", PGM
    (2020), Algorithm 1.
    """

    def __init__(self, layout, settings, n_samples=1000):
        self.settings = settings
        self.layout = layout
        self.order = _resolve_order(layout, settings.order)
        self.n_chained = _count_chained(layout, self.order, settings.conditionals, n_samples)
        self.arranged = arrangement.arrange(layout, self.order)
        self.plan = None
        if self.n_chained < len(self.order):
            self.plan = elimination.prepare(layout, _mask_of_first(self.order, self.n_chained))

    @property
    def exact(self):
        """Return True if all conditionals are exact, so that samples follow the model exactly."""
        return self.n_chained == 0

    def draw(self, flat, n_samples, rng):
        """Draw ``n_samples`` independent samples.

        The number of samples with a prefix is divided among its continuations by a multinomial
        draw.

        Parameters
        ----------
        flat : ndarray of shape (n_parameters,)
            Log-potentials of all tables, concatenated.
        n_samples : int
            Number of samples.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        Draws
            Rows with their counts and log-probabilities.
        """
        prefixes = self._empty_prefixes(flat, np.array([n_samples]))
        for depth in range(self.n_chained):
            check_time()
            prefixes.sample_next(depth, rng)
        X, counts, log_q = prefixes.X[:, np.argsort(self.order)], prefixes.counts, prefixes.log_q
        if self.plan is not None:
            X, counts, log_q = self._sample_remaining(flat, X, counts, log_q, rng)
        return Draws(X, counts, log_q, prefixes.converged, prefixes.n_runs)

    def log_density(self, flat, X):
        """Return the log-probability of sampling each row with this sampler, in nats.

        Parameters
        ----------
        flat : ndarray of shape (n_parameters,)
            Log-potentials of all tables, concatenated.
        X : ndarray of shape (n_rows, n_variables)
            State codes.

        Returns
        -------
        ndarray of shape (n_rows,)
            Log-probabilities.
        """
        prefixes = self._empty_prefixes(flat, np.ones(len(X), dtype=np.int64))
        for depth in range(self.n_chained):
            prefixes.append_states(depth, X[:, self.order[depth]])
        if self.plan is None:
            return prefixes.log_q
        return prefixes.log_q + self._log_remaining(
            flat, X, elimination.log_partitions(self.plan, flat, X)
        )

    def _empty_prefixes(self, flat, counts):
        settings = self.settings
        return Prefixes(
            self.arranged,
            flat,
            settings.propagation,
            clip=settings.clip,
            warm_start=settings.warm_start,
            counts=counts,
        )

    def _sample_remaining(self, flat, X, counts, log_q, rng):
        """Sample the remaining variables exactly, given the sampled variables (prefix).

        After a prefix of probability zero the states are uniform.
        """
        log_z = elimination.log_partitions(self.plan, flat, X)
        owner = np.repeat(np.arange(len(X)), counts)
        rows = X[owner]
        possible = log_z[owner] > -np.inf
        shared = X if len(X) == 1 else rows[possible]
        if possible.any():
            n_draws = int(np.count_nonzero(possible))
            rows[possible] = elimination.sample(self.plan, flat, n_draws, rng, shared)
        remaining = self.order[self.n_chained :]
        blank = (len(rows) - np.count_nonzero(possible), len(remaining))
        rows[np.ix_(~possible, remaining)] = rng.integers(
            self.layout.n_states[remaining], size=blank
        )
        log_q = log_q[owner] + self._log_remaining(flat, rows, log_z[owner])
        return rows, np.ones(len(rows), dtype=np.int64), log_q

    def _log_remaining(self, flat, X, log_z):
        """Return the log-probability of the remaining variables given the sampled variables.

        ``log_z`` holds the log partition function of the remaining variables of each row.
        """
        log_f = FactorGraph.from_layout(self.layout, flat).log_potential(X)
        remaining = self.order[self.n_chained :]
        log_uniform = -float(np.log(self.layout.n_states[remaining]).sum())
        possible = log_z > -np.inf
        return np.where(possible, log_f - np.where(possible, log_z, 0.0), log_uniform)


def _mask_of_first(order, n):
    """Return a boolean mask of the first n variables in an order."""
    mask = np.zeros(len(order), dtype=bool)
    mask[order[:n]] = True
    return mask


def _resolve_order(layout, order):
    n = len(layout.n_states)
    if isinstance(order, str):
        check_choice("order", order, ORDERS)
        if order == "index":
            return np.arange(n)
        found = tree_decomposition.forecast(layout).order
        if found is not None:
            return found[::-1].copy()
        return np.argsort(-np.diff(layout.incidence[0]), kind="stable")  # most connected first
    return check_order(order, n)


def check_order(order, n):
    """Check that an order contains each of n variables once, and return the order as an array.

    Parameters
    ----------
    order : sequence of int
        Variables in the order in which they are sampled.
    n : int
        Number of variables.

    Returns
    -------
    ndarray of int of shape (n,)
        The order.

    Raises
    ------
    ValueError
        If a variable is missing or occurs twice.
    """
    given = np.array(order, dtype=object)  # ragged lists, too
    numbers_only = given.shape == (n,) and all(isinstance(i, numbers.Real) for i in given)
    if not numbers_only or sorted(given) != list(range(n)):
        raise ValueError(
            f"order must be one of {ORDERS} or name each of the {n} variables once; got {order!r}."
        )
    return given.astype(np.int64)


def _count_chained(layout, order, conditionals, n_samples):
    """Return the number of variables to sample by belief propagation; elimination does the rest."""
    if conditionals != "auto":
        return len(order) if conditionals == "bp" else 0

    def cheap(n):
        cost = tree_decomposition.forecast(layout, _mask_of_first(order, n))
        runs = n_samples if n else 1
        return cost.order is not None and runs * cost.entries <= EXACT_ENTRIES

    if cheap(0):  # one run serves all samples, so 0 can be cheap although 1 is not
        return 0
    low, high = 0, len(order)  # low is not cheap, high is cheap
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cheap(middle) else (middle, high)
    return high


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
        rows = ENTRIES_PER_CALL // (visits * self.how.max_iter)
        for s in range(0, len(starts), max(rows, 1)):
            c = slice(s, s + max(rows, 1))
            how, messages, done = self.how.codes(), self.messages[c], 0
            if rows == 0:
                how = self.how.codes(max(1, ENTRIES_PER_CALL // visits))
                messages = np.zeros((1, len(self.work.messages))) if not len(messages) else messages
            while done < self.how.max_iter and (done == 0 or ends[s, 1] > how.tol):
                how = how._replace(max_iter=min(how.max_iter, self.how.max_iter - done))
                propagate(
                    self.arranged.graph, self.tables, starts[c], scope, how, done, messages,
                    self.work, singles[c], ends[c],
                )  # fmt: skip
                done += how.max_iter
