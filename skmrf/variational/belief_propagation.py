"""Loopy belief propagation on factor graphs of tables of any order."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._kernels.propagation import (
    AUTO_DAMPING,
    FLOODING,
    RESIDUAL,
    SEQUENTIAL,
    How,
    propagate,
    summarise,
)
from .._utils.codes import MISSING, STATE, check_evidence_row
from .._utils.parameters import check_choice, check_number
from .arrangement import arrange

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
    damping : float in [0, 0.99] or "auto"
        Share of the old log message that a new one keeps. "auto": none for 20 iterations, then 0.5.
    max_iter : int
        An iteration is as many turns as there are cliques.
    tol : float in [0, 0.5]
        Largest change of a log message (its largest entry 0; relative below -1) to stop at.
    """

    schedule: str = "sequential"
    damping: float | str = "auto"
    max_iter: int = 500
    tol: float = 1e-8

    def __post_init__(self):
        check_choice("schedule", self.schedule, tuple(SCHEDULES))
        if isinstance(self.damping, str) and self.damping != "auto":
            raise ValueError(f'damping must be "auto" or a number; got {self.damping!r}.')
        if self.damping != "auto":
            check_number("damping", self.damping, low=0, high=0.99)
        check_number("max_iter", self.max_iter, low=1, integer=True)
        check_number("tol", self.tol, low=0, high=0.5)  # before a run its residual counts as 1

    def codes(self, max_iter=None):
        """What the kernel takes."""
        damping = AUTO_DAMPING if self.damping == "auto" else float(self.damping)
        limit = self.max_iter if max_iter is None else max_iter
        return How(SCHEDULES[self.schedule], limit, float(self.tol), damping)


class Beliefs(NamedTuple):
    """What belief propagation ends with.

    Attributes
    ----------
    single : ndarray of shape (sum of n_states,)
        Beliefs of the variables side by side; max-marginals scaled to sum to 1 where maximised.
    cliques : ndarray
        Beliefs of the cliques, laid out as the untied tables of the model.
    log_partition : float
        Bethe (or tree-reweighted) approximation of log Z, in nats; -inf where the messages prove
        that nothing is possible. Of no other use where variables are maximised.
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
    row = check_evidence_row(evidence, graph.n_states)
    observed = row != MISSING
    order = np.concatenate([np.flatnonzero(observed), np.flatnonzero(~observed)])
    arranged = arrange(graph.layout, order, counting=counting, maximised=maximised)
    return pass_messages(arranged, graph.flat, how, row[order], start)


def pass_messages(arranged, flat, how, x=None, start=None):
    """Belief propagation in an arranged graph.

    Parameters
    ----------
    arranged : Arrangement
    flat : ndarray of shape (n_parameters,)
    how : Propagation
    x : ndarray of shape (n_variables,), optional
        State codes in the order of ``arranged``, MISSING after those that are observed.
    start : ndarray, optional
        ``messages`` of a run before.

    Returns
    -------
    Beliefs
    """
    x = np.full(len(arranged.order), MISSING, dtype=STATE) if x is None else x
    n_clamped = int(np.count_nonzero(x != MISSING))
    tables, starts = arranged.tables(flat), arranged.starts(x[None], n_clamped)
    scope, work = arranged.components(n_clamped), arranged.work()
    messages = np.zeros((1, len(work.messages)))
    if start is not None:
        messages[0] = _checked(start, len(work.messages))
    singles, ends = np.zeros((1, len(work.totals))), np.zeros((1, 2))
    n_iter, residual = 0, np.inf
    piece = max(1, ENTRIES_A_CALL // max(arranged.visits(), 1))
    while n_iter < how.max_iter and residual > how.tol:  # short calls, so that Ctrl-C is seen
        codes = how.codes(min(piece, how.max_iter - n_iter))
        propagate(
            arranged.graph, tables, starts, scope, codes, n_iter, messages, work, singles, ends
        )
        n_iter, residual = n_iter + int(ends[0, 0]), float(ends[0, 1])
    beliefs = np.zeros(arranged.layout.n_parameters)
    value = summarise(arranged.graph, tables, starts[0], scope, messages[0], work, beliefs)
    singles[0, arranged.graph.state_start[:n_clamped] + x[:n_clamped]] = 1.0
    whole = starts[0, _wholly_clamped(arranged.layout, n_clamped)]
    beliefs[whole] = 1.0
    value += flat[arranged.source[whole]].sum()
    return Beliefs(
        *arranged.in_model_order(singles[0], beliefs),
        float(value),
        n_iter,
        residual,
        residual <= how.tol,
        messages[0],
    )


def _checked(start, n_messages):
    """Messages of a run before."""
    start = np.asarray(start, dtype=float)
    if start.shape != (n_messages,) or np.isnan(start).any():
        raise ValueError(
            f"start must be the messages of a run on the same graph, shape ({n_messages},), without"
            f" nan; got shape {start.shape}."
        )
    return start


def _wholly_clamped(layout, n_clamped):
    """Which cliques have no free variable."""
    owner = np.repeat(np.arange(layout.n_cliques), layout.orders)
    whole = np.ones(layout.n_cliques, dtype=bool)
    whole[owner[layout.clique_vars >= n_clamped]] = False
    return whole
