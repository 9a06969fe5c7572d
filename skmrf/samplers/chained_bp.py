"""Chained belief propagation: variables drawn one after the other from BP conditionals."""

import numbers
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .._utils.parameters import check_choice, check_number
from ..energies import FactorGraph
from ..exact import elimination, tree_decomposition
from ..variational import arrangement, belief_propagation
from .prefix_tree import Prefixes

CONDITIONALS = ("auto", "bp", "exact")
ORDERS = ("elimination", "index")
EXACT_ENTRIES = 2**24  # table entries that "auto" visits at most for one set of draws


@dataclass(frozen=True)
class ChainSettings:
    """How to draw by chained belief propagation.

    Attributes
    ----------
    conditionals : {"auto", "bp", "exact"}
        "bp" takes every conditional from belief propagation, "exact" from elimination; "auto" goes
        over to elimination as soon as it is cheap on what the variables drawn so far leave.
    order : {"elimination", "index"} or array-like of shape (n_variables,)
        In which order to draw; "elimination" is an elimination order backwards, so that the core of
        the graph comes first and what is left soon falls apart.
    how : Propagation
        Of the messages of "bp".
    clip : float
        To which the probabilities of a conditional are raised before they are scaled to sum to one;
        what is drawn then covers all states.
    warm_start : bool
        Start the messages of a prefix where those of the prefix one shorter ended. Saves work, but
        what is drawn is something else wherever messages have not converged.
    """

    conditionals: str = "auto"
    order: object = "elimination"
    how: belief_propagation.Propagation = field(default_factory=belief_propagation.Propagation)
    clip: float = 0.0
    warm_start: bool = False

    def __post_init__(self):
        check_choice("conditionals", self.conditionals, CONDITIONALS)
        check_number("clip", self.clip, low=0, high=0.5)
        if not isinstance(self.how, belief_propagation.Propagation):
            raise TypeError(
                f"how must be a skmrf.variational.belief_propagation.Propagation; got {self.how!r}."
            )


class Draws(NamedTuple):
    """Draws of a chain, equal ones together where all conditionals are beliefs.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_variables), state codes
    counts : ndarray of shape (n_rows,)
        How often each was drawn; ones, also of equal rows, where elimination took over.
    log_q : ndarray of shape (n_rows,)
        Log-probability of being drawn, nats.
    converged : float
        Share of the runs of belief propagation that converged.
    n_runs : int
    """

    X: np.ndarray
    counts: np.ndarray
    log_q: np.ndarray
    converged: float
    n_runs: int


class Chain:
    r"""Chained belief propagation on graphs of one layout.

    .. math:: q(x) = \prod_i b_i(x_i \mid x_{<i})

    with :math:`b_i` the belief of variable :math:`i` by belief propagation given the variables
    drawn before (Algorithm 1 of the paper). Draws that agree so far share their run; more than
    that, a run sees only the tables of the component of variable :math:`i`, so prefixes that leave
    the same tables there share it too. None of this changes :math:`q`.

    Parameters
    ----------
    layout : Layout
    settings : ChainSettings
    n_samples : int
        Draws at a time, which "auto" counts with.

    Attributes
    ----------
    n_chained : int
        How many variables are drawn from beliefs; the others come from elimination.

    References
    ----------
    F. Ding and Y. Xue, "Contrastive divergence learning with chained belief propagation", PGM
    (2020), Algorithm 1.
    """

    def __init__(self, layout, settings, n_samples=1000):
        self.settings = settings
        self.layout = layout
        self.order = _order(layout, settings.order)
        self.n_chained = _n_chained(layout, self.order, settings.conditionals, n_samples)
        self.arranged = arrangement.arrange(layout, self.order)
        self.plan = None
        if self.n_chained < len(self.order):
            self.plan = elimination.prepare(layout, _first(self.order, self.n_chained))

    @property
    def exact(self):
        """Whether all conditionals are exact, so that :math:`q = p`."""
        return self.n_chained == 0

    def draw(self, flat, n_samples, rng):
        """Draw ``n_samples`` times; the counts of a prefix are shared out multinomially.

        Parameters
        ----------
        flat : ndarray of shape (n_parameters,)
        n_samples : int
        rng : numpy.random.Generator

        Returns
        -------
        Draws
        """
        prefixes = self._start(flat, np.array([n_samples]))
        for depth in range(self.n_chained):
            prefixes.split(depth, rng)
        X, counts, log_q = prefixes.X[:, np.argsort(self.order)], prefixes.counts, prefixes.log_q
        if self.plan is not None:
            X, counts, log_q = self._complete(flat, X, counts, log_q, rng)
        return Draws(X, counts, log_q, prefixes.converged, prefixes.n_runs)

    def log_density(self, flat, X):
        """Log-probability of drawing each row of state codes X, shape (n_rows,), nats."""
        prefixes = self._start(flat, np.ones(len(X), dtype=np.int64))
        for depth in range(self.n_chained):
            prefixes.follow(depth, X[:, self.order[depth]])
        if self.plan is None:
            return prefixes.log_q
        return prefixes.log_q + self._log_completion(
            flat, X, elimination.log_partitions(self.plan, flat, X)
        )

    def _start(self, flat, counts):
        chosen = self.settings
        return Prefixes(
            self.arranged,
            flat,
            chosen.how,
            clip=chosen.clip,
            warm_start=chosen.warm_start,
            counts=counts,
        )

    def _complete(self, flat, X, counts, log_q, rng):
        """Exact draws given every prefix; any states after a prefix of probability zero."""
        log_z = elimination.log_partitions(self.plan, flat, X)
        owner = np.repeat(np.arange(len(X)), counts)
        rows = X[owner]
        possible = log_z[owner] > -np.inf
        shared = X if len(X) == 1 else rows[possible]
        if possible.any():
            n_draws = int(np.count_nonzero(possible))
            rows[possible] = elimination.sample(self.plan, flat, n_draws, rng, shared)
        left = self.order[self.n_chained :]
        blank = (len(rows) - np.count_nonzero(possible), len(left))
        rows[np.ix_(~possible, left)] = rng.integers(self.layout.n_states[left], size=blank)
        log_q = log_q[owner] + self._log_completion(flat, rows, log_z[owner])
        return rows, np.ones(len(rows), dtype=np.int64), log_q

    def _log_completion(self, flat, X, log_z):
        """Log-probability of what :meth:`_complete` draws after prefixes of partition log_z."""
        log_f = FactorGraph.from_layout(self.layout, flat).log_potential(X)
        left = self.order[self.n_chained :]
        blind = -float(np.log(self.layout.n_states[left]).sum())
        possible = log_z > -np.inf
        return np.where(possible, log_f - np.where(possible, log_z, 0.0), blind)


def _first(order, n):
    """Mask of the first n variables of an order."""
    mask = np.zeros(len(order), dtype=bool)
    mask[order[:n]] = True
    return mask


def _order(layout, wanted):
    n = len(layout.n_states)
    if isinstance(wanted, str):
        check_choice("order", wanted, ORDERS)
        if wanted == "index":
            return np.arange(n)
        found = tree_decomposition.forecast(layout).order
        if found is not None:
            return found[::-1].copy()
        return np.argsort(-np.diff(layout.incidence[0]), kind="stable")  # most connected first
    return check_order(wanted, n)


def check_order(order, n):
    """An order of n variables that names each once, as an array.

    Parameters
    ----------
    order : sequence of int
    n : int

    Returns
    -------
    ndarray of int of shape (n,)

    Raises
    ------
    ValueError
        A variable that is missing, or there twice.
    """
    given = np.array(order, dtype=object)  # ragged lists, too
    numbers_only = given.shape == (n,) and all(isinstance(i, numbers.Real) for i in given)
    if not numbers_only or sorted(given) != list(range(n)):
        raise ValueError(
            f"order must be one of {ORDERS} or name each of the {n} variables once; got {order!r}."
        )
    return given.astype(np.int64)


def _n_chained(layout, order, conditionals, n_samples):
    """How many variables to draw before elimination takes over."""
    if conditionals != "auto":
        return len(order) if conditionals == "bp" else 0

    def cheap(n):
        cost = tree_decomposition.forecast(layout, _first(order, n))
        runs = n_samples if n else 1
        return cost.order is not None and runs * cost.entries <= EXACT_ENTRIES

    if cheap(0):  # one run for all draws, so it may be when the next ones are not
        return 0
    low, high = 0, len(order)  # not cheap, cheap
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cheap(middle) else (middle, high)
    return high
