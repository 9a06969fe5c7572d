"""Loopy belief propagation on factor graphs of tables of any order."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._kernels.belief import Graph, Work
from .._kernels.elimination import clamped_starts
from .._kernels.propagation import (
    AUTO_DAMPING,
    FLOODING,
    RESIDUAL,
    SEQUENTIAL,
    component,
    propagate,
    summarise,
)
from .._kernels.tables import incidence
from .._types import MISSING, STATE
from .._validation import check_choice, check_number
from ..energies import Layout

SCHEDULES = {"flooding": FLOODING, "sequential": SEQUENTIAL, "residual": RESIDUAL}
ENTRIES_A_CALL = 2**23


@dataclass(frozen=True)
class Propagation:
    """How to pass messages.

    Attributes
    ----------
    schedule : {"sequential", "residual", "flooding"}
        Cliques in turn, there and back; the clique first that has heard most news; or all cliques
        at once, then all variables.
    damping : float in [0, 1) or "auto"
        Share of the old log message that a new one keeps. "auto": none for 20 iterations, then 0.5.
    max_iter : int
        An iteration is as many turns as there are cliques.
    tol : float
        Largest change of a message (scaled to have 1 as its largest entry) to stop at.
    """

    schedule: str = "sequential"
    damping: float | str = "auto"
    max_iter: int = 500
    tol: float = 1e-8

    def __post_init__(self):
        check_choice("schedule", self.schedule, tuple(SCHEDULES))
        if self.damping != "auto":
            check_number("damping", self.damping, low=0, high=1, open_high=True)
        check_number("max_iter", self.max_iter, low=1, integer=True)
        check_number("tol", self.tol, low=0)

    def codes(self):
        """Schedule, tolerance and damping as the kernel takes them."""
        damping = AUTO_DAMPING if self.damping == "auto" else float(self.damping)
        return SCHEDULES[self.schedule], float(self.tol), damping


@dataclass(frozen=True)
class Room:
    """A factor graph whose variables are put in an order, with what messages need.

    Attributes
    ----------
    order : ndarray of shape (n_variables,)
        Variable at every position.
    layout : Layout
        Of the positions; cliques list them increasing, no tables are tied.
    source, place : ndarray
        Where each of its table entries lies in the parameters of the model, and in its tables when
        untied.
    graph : Graph
    """

    order: np.ndarray
    layout: Layout
    source: np.ndarray
    place: np.ndarray
    graph: Graph

    def tables(self, flat):
        """Log-potentials, and potentials whose largest is 1 in every clique."""
        log_potentials = flat[self.source] / np.repeat(
            self.graph.counting, self.layout.table_size
        )
        if len(log_potentials) == 0:
            return log_potentials, log_potentials
        top = np.maximum.reduceat(log_potentials, self.layout.table_start)
        return log_potentials, np.exp(log_potentials - np.repeat(top, self.layout.table_size))

    def work(self):
        """Fresh arrays for one run at a time."""
        n_messages = int(self.graph.message_start[-1])
        n_totals = int(self.graph.state_start[-1])
        largest = int(self.layout.table_size.max(initial=1))
        numbers = [np.zeros(n_messages) for _ in range(3)]
        spoken = int(np.diff(self.graph.message_start[self.graph.clique_ptr]).max(initial=1))
        return Work(
            *numbers,
            np.zeros(n_totals),
            np.zeros(n_totals, dtype=np.int64),
            np.zeros(largest),
            np.zeros(spoken),
            np.zeros(largest),
        )

    def starts(self, X):
        """Where every clique's slice begins given the leading clamped columns of X."""
        out = np.empty((len(X), self.layout.n_cliques), dtype=np.int64)
        lay = self.layout
        clamped = (X[0] != MISSING) if len(X) else np.zeros(X.shape[1], dtype=bool)
        clamped_starts(
            X, clamped, lay.clique_ptr, lay.clique_vars, lay.strides, lay.table_start, out
        )
        return out


def arrange(layout, order=None, *, counting=None, maximised=None):
    """Put the variables of a layout in an order (their own by default).

    Parameters
    ----------
    layout : Layout
    order : ndarray of shape (n_variables,), optional
    counting : ndarray of shape (n_cliques,), optional
        Counting numbers of tree-reweighted propagation; ones by default.
    maximised : ndarray of bool of shape (n_variables,), optional
        Variables to maximise over; the others are summed over.
    """
    n = len(layout.n_states)
    order = np.arange(n) if order is None else np.asarray(order)
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n)
    owner = np.repeat(np.arange(layout.n_cliques), layout.orders)
    moved = position[layout.clique_vars]
    by = np.lexsort((moved, owner))
    arranged = Layout.build(layout.n_states[order], (layout.clique_ptr, moved[by]))
    clique = np.repeat(np.arange(arranged.n_cliques), arranged.table_size)
    offset = _offsets(arranged, clique, layout.strides[by])
    source = layout.table_start[clique] + offset
    place = arranged.table_start[clique] + offset
    counting = np.ones(layout.n_cliques) if counting is None else np.asarray(counting, dtype=float)
    maximised = np.zeros(n, dtype=bool) if maximised is None else np.asarray(maximised)[order]
    return Room(order, arranged, source, place, _graph(arranged, counting, maximised))


def _offsets(arranged, clique, strides):
    """Offset in the model's table of every entry of the arranged tables."""
    rest = np.arange(arranged.n_parameters) - arranged.table_start[clique]
    offset = np.zeros(arranged.n_parameters, dtype=np.int64)
    for back in range(int(arranged.orders.max(initial=0))):
        has = np.flatnonzero(arranged.orders[clique] > back)
        edge = arranged.clique_ptr[1:][clique[has]] - 1 - back
        q = arranged.n_states[arranged.clique_vars[edge]]
        offset[has] += rest[has] % q * strides[edge]
        rest[has] //= q
    return offset


def _graph(layout, counting, maximised):
    q = layout.n_states[layout.clique_vars]
    edge = np.arange(len(layout.clique_vars), dtype=np.int64)
    var_ptr, var_clique, var_edge = incidence(
        layout.clique_ptr, layout.clique_vars, edge, len(layout.n_states)
    )
    return Graph(
        layout.n_states,
        np.concatenate([[0], np.cumsum(layout.n_states)]),
        layout.clique_ptr,
        layout.clique_vars,
        layout.table_start,
        np.concatenate([[0], np.cumsum(q)]).astype(np.int64),
        var_ptr,
        var_edge,
        var_clique,
        counting,
        maximised,
    )


class Beliefs(NamedTuple):
    """What belief propagation ends with.

    Attributes
    ----------
    single : ndarray of shape (sum of n_states,)
        Beliefs of the variables side by side; max-marginals scaled to sum to 1 where maximised.
    cliques : ndarray
        Beliefs of the cliques, laid out as the untied tables of the model.
    log_partition : float
        Bethe (or tree-reweighted) approximation of log Z, in nats.
    n_iter : int
    residual : float
    converged : bool
    messages : ndarray
        For a start of the next run on the same graph.
    """

    single: np.ndarray
    cliques: np.ndarray
    log_partition: float
    n_iter: int
    residual: float
    converged: bool
    messages: np.ndarray


def components(graph, n_clamped):
    """(cliques, variables) of all components of the unclamped variables, nearest first."""
    n, m = len(graph.n_states), len(graph.table_start)
    seen = np.zeros(n + m, dtype=bool)
    cliques, variables = np.empty(m, dtype=np.int64), np.empty(n, dtype=np.int64)
    found = [(cliques[:0].copy(), variables[:0].copy())]
    for root in range(n_clamped, n):
        if not seen[root]:
            a, v = component(graph, n_clamped, root, seen, cliques, variables)
            found.append((cliques[:a].copy(), variables[:v].copy()))
    return tuple(np.concatenate(part) for part in zip(*found, strict=True))


def belief_propagation(
    graph, how=None, *, evidence=None, maximised=None, counting=None, start=None
):
    r"""Sum-product, max-product or mixed-product belief propagation.

    Messages from cliques to variables, in logs,

    .. math:: \lambda_{a \to i}(x_i) = \log \sum_{x_a \setminus x_i} \exp\Big(\theta_a(x_a) +
              \sum_{k \in a \setminus i} \lambda_{k \to a}(x_k)\Big), \qquad
              \lambda_{k \to a} = \sum_{b \ni k, b \ne a} \lambda_{b \to k}

    until they no longer change; a maximised variable has the maximum in place of its sum. On trees
    the beliefs are exact; with loops they are stationary points of the Bethe free energy.

    Parameters
    ----------
    graph : FactorGraph
    how : Propagation, optional
    evidence : ndarray of shape (n_variables,), optional
        State codes of observed variables, MISSING elsewhere; tables are sliced.
    maximised : ndarray of bool of shape (n_variables,), optional
        Max-product where all are True, mixed-product (marginal MAP) where some are.
    counting : ndarray of shape (n_cliques,), optional
        Counting numbers of tree-reweighted propagation.
    start : ndarray, optional
        ``messages`` of a run on the same graph with the same evidence variables.

    Returns
    -------
    Beliefs

    References
    ----------
    J. S. Yedidia, W. T. Freeman, Y. Weiss, "Constructing free-energy approximations and generalized
    belief propagation algorithms", IEEE Trans. Information Theory 51 (2005).
    Q. Liu, A. Ihler, "Variational algorithms for marginal MAP", JMLR 14 (2013).
    """
    how = Propagation() if how is None else how
    n = graph.n_variables
    row = np.full(n, MISSING, dtype=STATE) if evidence is None else evidence
    observed = row != MISSING
    order = np.concatenate([np.flatnonzero(observed), np.flatnonzero(~observed)])
    room = arrange(graph.layout, order, counting=counting, maximised=maximised)
    return run(room, graph.flat, how, row, start)


def run(room, flat, how, row, start=None):
    """Belief propagation in an arranged graph; ``row`` observes the leading variables."""
    log_potentials, potentials = room.tables(flat)
    X = row[room.order][None]
    n_clamped = int(np.count_nonzero(X != MISSING))
    starts = room.starts(X)
    cliques, variables = components(room.graph, n_clamped)
    work = room.work()
    messages = np.zeros((1, int(room.graph.message_start[-1])))
    if start is not None:
        messages[0] = start
    singles = np.zeros((1, len(work.totals)))
    n_iter, residual = 0, np.inf
    schedule, tol, damping = how.codes()
    piece = max(1, ENTRIES_A_CALL // max(room.layout.n_parameters, 1))
    while n_iter < how.max_iter and residual > tol:
        done, left = np.zeros(1, dtype=np.int64), np.zeros(1)
        limit = min(piece, how.max_iter - n_iter)
        propagate(
            room.graph, log_potentials, potentials, starts, n_clamped, cliques, variables,
            schedule, limit, tol, damping, n_iter, messages, work, singles, done, left,
        )  # fmt: skip
        n_iter, residual = n_iter + int(done[0]), float(left[0])
    beliefs = np.zeros(room.layout.n_parameters)
    value = summarise(
        room.graph, log_potentials, starts[0], n_clamped, cliques, variables, messages[0], work,
        beliefs,
    )  # fmt: skip
    value += _settle_observed(room, log_potentials, X[0], n_clamped, starts[0], singles[0], beliefs)
    return Beliefs(
        _in_model_order(room, singles[0]),
        beliefs[np.argsort(room.place)],
        float(value),
        n_iter,
        residual,
        residual <= tol,
        messages[0],
    )


def _settle_observed(room, log_potentials, x, n_clamped, starts, singles, beliefs):
    """Beliefs of what evidence fixes; its constant in log Z."""
    base = room.graph.state_start
    for i in range(n_clamped):
        singles[base[i] + x[i]] = 1.0
    free = np.repeat(np.arange(room.layout.n_cliques), room.layout.orders)
    whole = np.ones(room.layout.n_cliques, dtype=bool)
    whole[free[room.graph.clique_vars >= n_clamped]] = False
    beliefs[starts[whole]] = 1.0
    return float((room.graph.counting[whole] * log_potentials[starts[whole]]).sum())


def _in_model_order(room, singles):
    """Numbers of the positions' states put in the order of the variables."""
    n_states = room.layout.n_states
    parts = np.split(singles, np.cumsum(n_states)[:-1])
    out = [None] * len(parts)
    for position, i in enumerate(room.order):
        out[i] = parts[position]
    return np.concatenate([*out, np.zeros(0)])
