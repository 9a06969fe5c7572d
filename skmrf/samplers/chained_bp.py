"""Chained belief propagation: sampling each variable in turn from its estimated conditional."""

import numbers
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .._utils.interrupts import check_time
from .._utils.parameters import check_choice, check_number
from ..energies import FactorGraph
from ..exact import elimination, tree_decomposition
from ..variational import arrangement, belief_propagation
from .prefix_tree import Prefixes

CONDITIONALS = ("auto", "bp", "exact")
ORDERS = ("elimination", "index")
EXACT_ENTRIES = 2**24  # table entries that "auto" visits at most for one set of samples


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
    how : Propagation, optional
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
    how: belief_propagation.Propagation = field(default_factory=belief_propagation.Propagation)
    clip: float = 0.0
    warm_start: bool = False

    def __post_init__(self):
        """Raise an error if a setting is invalid."""
        check_choice("conditionals", self.conditionals, CONDITIONALS)
        check_number("clip", self.clip, low=0, high=0.5)
        if not isinstance(self.how, belief_propagation.Propagation):
            raise TypeError(
                f"how must be a skmrf.variational.belief_propagation.Propagation; got {self.how!r}."
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


class Chain:
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
            settings.how,
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
