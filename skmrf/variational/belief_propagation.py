"""Loopy belief propagation on discrete factor graphs, and decimation, which finds a mode."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._kernels.propagation import (
    AUTO_DAMPING,
    FLOODING,
    RESIDUAL,
    SEQUENTIAL,
    RunSettings,
    bethe_log_partition,
    propagate,
)
from .._utils.codes import MISSING, STATE, check_evidence_row
from .._utils.interrupts import remaining_time
from .._utils.parameters import check_choice, check_number
from ..energies import FactorGraph
from ..energies.layout import Layout
from ..exact.elimination import ImpossibleEvidence
from .arrangement import arrange

SCHEDULES = {"flooding": FLOODING, "sequential": SEQUENTIAL, "residual": RESIDUAL}
ENTRIES_PER_CALL = 2**23
CLAMP_TOLERANCE = 1e-6
TIE = 1e-9  # beliefs that differ by less count as equal
MAX_BACKTRACKS = 1000


@dataclass(frozen=True)
class Propagation:
    """Settings of belief propagation: schedule, damping, iteration limit and tolerance.

    Parameters
    ----------
    schedule : {"sequential", "residual", "flooding"}, default="sequential"
        Order of the updates. "sequential" updates one clique after the other, forward and then
        backward. "residual" first updates the clique whose incoming messages have changed most.
        "flooding" updates all cliques at once, then all variables.
    damping : float in [0, 0.99] or "auto", default="auto"
        Share of the old log message that a new one keeps. "auto" uses 0 for 20 iterations, then
        0.5.
    max_iter : int, default=500
        Maximum number of iterations. An iteration has as many clique updates as there are cliques.
    tol : float in [0, 0.5], default=1e-8
        Stop when no log message changes by more. Log messages are shifted so that their largest
        entry is 0; changes of entries below -1 are relative. Damped messages must also be as close
        as ``tol`` to the undamped ones.
    """

    schedule: str = "sequential"
    damping: float | str = "auto"
    max_iter: int = 500
    tol: float = 1e-8

    def __post_init__(self):
        """Check the settings of belief propagation."""
        check_choice("schedule", self.schedule, tuple(SCHEDULES))
        if isinstance(self.damping, str) and self.damping != "auto":
            raise ValueError(f'damping must be "auto" or a number; got {self.damping!r}.')
        if self.damping != "auto":
            check_number("damping", self.damping, low=0, high=0.99)
        check_number("max_iter", self.max_iter, low=1, integer=True)
        check_number("tol", self.tol, low=0, high=0.5)  # the residual is 1 before the first update

    def codes(self, max_iter=None):
        """Return the settings of belief propagation as numbers, for the compiled loops."""
        damping = AUTO_DAMPING if self.damping == "auto" else float(self.damping)
        limit = self.max_iter if max_iter is None else max_iter
        return RunSettings(SCHEDULES[self.schedule], limit, float(self.tol), damping)


class Beliefs(NamedTuple):
    """Result of belief propagation.

    Attributes
    ----------
    single : ndarray of shape (sum of n_states,)
        Beliefs of the variables, concatenated; for maximised variables max-marginals scaled to sum
        to one.
    cliques : ndarray of shape (n_entries,)
        Beliefs of the cliques, in the layout of the untied tables of the model.
    log_partition : float
        Bethe (or tree-reweighted) approximation of log Z, in nats; -inf if the messages prove that
        all states have probability zero. If variables are maximised, only the value -inf is
        meaningful.
    n_iter : int
        Number of iterations.
    residual : float
        Largest change of a log message in the last iteration, or the largest distance from a damped
        log message to the undamped one if this is greater.
    converged : bool
        Whether the residual is at most ``tol``.
    messages : ndarray of float
        Final messages, which can start the next run on the same graph.
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
    r"""Run sum-product, max-product or mixed-product belief propagation.

    The log messages from cliques to variables,

    .. math:: \lambda_{a \to i}(x_i) = \log \sum_{x_a \setminus x_i} \exp\Big(\theta_a(x_a) +
              \sum_{k \in a \setminus i} \lambda_{k \to a}(x_k)\Big), \qquad
              \lambda_{k \to a} = \sum_{b \ni k, b \ne a} \lambda_{b \to k}

    are updated until they no longer change. For a maximised variable the sum is replaced by the
    maximum. On trees the beliefs are exact. On graphs with loops they are stationary points of the
    Bethe free energy.

    Parameters
    ----------
    graph : FactorGraph
        Model.
    how : Propagation, optional
        Settings of the message passing; by default ``Propagation()``.
    evidence : ndarray of shape (n_variables,), optional
        State codes of observed variables, MISSING for the others. By default no variable is
        observed.
    maximised : ndarray of bool of shape (n_variables,), optional
        True for variables to maximise over: all for max-product, some for mixed-product (marginal
        MAP), none (default) for sum-product.
    counting : ndarray of shape (n_cliques,), optional
        Counting numbers of tree-reweighted propagation. By default all are 1.
    start : ndarray of float, optional
        ``messages`` of a run on the same graph with the same observed variables. By default all
        messages are uniform.

    Returns
    -------
    Beliefs
        Beliefs of variables and cliques, and the approximation of log Z.

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
    """Run belief propagation on a factor graph whose variables are reordered (an Arrangement).

    Parameters
    ----------
    arranged : Arrangement
        Graph whose observed variables come first.
    flat : ndarray of shape (n_parameters,)
        Log-potentials of all tables of the model, concatenated.
    how : Propagation
        Settings of the message passing.
    x : ndarray of shape (n_variables,), optional
        State codes in the order of ``arranged``: observed variables first, then MISSING. By default
        no variable is observed.
    start : ndarray of float, optional
        ``messages`` of an earlier run. By default all messages are uniform.

    Returns
    -------
    Beliefs
        Beliefs of variables and cliques, in the order of the model.
    """
    x = np.full(len(arranged.order), MISSING, dtype=STATE) if x is None else x
    n_clamped = int(np.count_nonzero(x != MISSING))
    tables, starts = arranged.tables(flat), arranged.starts(x[None], n_clamped)
    scope, work = arranged.components(n_clamped), arranged.work()
    messages = np.zeros((1, len(work.messages)))
    if start is not None:
        messages[0] = _check_messages(start, len(work.messages))
    singles, ends = np.zeros((1, len(work.totals))), np.zeros((1, 2))
    n_iter, residual = 0, np.inf
    piece = max(1, ENTRIES_PER_CALL // max(arranged.visits(), 1))
    while n_iter < how.max_iter and residual > how.tol:  # short calls, so that Ctrl-C is handled
        codes = how.codes(min(piece, how.max_iter - n_iter))
        propagate(
            arranged.graph, tables, starts, scope, codes, n_iter, messages, work, singles, ends
        )
        n_iter, residual = n_iter + int(ends[0, 0]), float(ends[0, 1])
        if remaining_time() < 0:
            break
    beliefs = np.zeros(arranged.layout.n_parameters)
    value = bethe_log_partition(
        arranged.graph, tables, starts[0], scope, messages[0], work, beliefs
    )
    singles[0, arranged.graph.state_start[:n_clamped] + x[:n_clamped]] = 1.0
    whole = starts[0, _find_clamped_cliques(arranged.layout, n_clamped)]
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


def _check_messages(start, n_messages):
    """Check the initial messages of a run, and return them as an array."""
    start = np.asarray(start, dtype=float)
    if start.shape != (n_messages,) or np.isnan(start).any():
        raise ValueError(
            f"start must contain the messages of a run on the same graph: shape ({n_messages},), "
            f"without nan. Got shape {start.shape}."
        )
    return start


def _find_clamped_cliques(layout, n_clamped):
    """Return a mask of the cliques whose variables are all clamped."""
    owner = np.repeat(np.arange(layout.n_cliques), layout.orders)
    whole = np.ones(layout.n_cliques, dtype=bool)
    whole[owner[layout.clique_vars >= n_clamped]] = False
    return whole


class Decimated(NamedTuple):
    """Result of decimation: a joint state, and the fraction of converged max-product runs.

    Attributes
    ----------
    states : ndarray of shape (n_variables,)
        State codes.
    converged_fraction : float
        Fraction of the runs of max-product propagation that converged.
    """

    states: np.ndarray
    converged_fraction: float


class _DecimationState(NamedTuple):
    """State of a decimation search: clamped variables and excluded states.

    If ``one_at_a_time`` is true, the next step clamps only one variable.
    """

    row: np.ndarray
    banned: tuple  # pairs of a variable and a state that is impossible given the row
    one_at_a_time: bool


def decimate(graph, how=None, *, evidence=None):
    """Search for a joint mode by repeated max-product belief propagation and clamping.

    The search repeats two steps until every variable is clamped: run max-product propagation, then
    clamp variables to their best states and slice the tables. If the run converged, all variables
    with a max-marginal above 1 - 1e-6 are clamped at once. If it did not converge, or if there is
    no such variable, only the variable with the largest max-marginal is clamped. Ties are resolved
    by the lowest index of the variable and of its state. On trees the result is a mode. On graphs
    with loops it is a state of high probability, without a guarantee.

    If messages prove that the variables clamped last lead to probability zero, the search goes
    back. If several variables were clamped together, it clamps them one at a time. If only one
    variable was clamped, its state is ruled out. After 1000 such steps the search does not go back
    any more, and the result can have probability zero. If a time limit expires, all variables are
    clamped at once.

    Parameters
    ----------
    graph : FactorGraph
        Model.
    how : Propagation, optional
        Settings of the message passing; by default ``Propagation()``.
    evidence : ndarray of shape (n_variables,), optional
        State codes of observed variables, MISSING for the others. By default no variable is
        observed.

    Returns
    -------
    Decimated
        State codes, and the fraction of runs that converged.

    Raises
    ------
    ImpossibleEvidence
        If every state that agrees with the evidence has probability zero.

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf.energies import FactorGraph
    >>> from skmrf.variational.belief_propagation import decimate
    >>> graph = FactorGraph([2, 3], [(0, 1), (1,)], [[[0, 1, 0], [2, 0, 0]], [0, 0, 1.5]])
    >>> decimate(graph).states
    array([1, 0], dtype=int16)
    """
    row = check_evidence_row(evidence, graph.n_states)
    row = np.where(graph.n_states == 1, 0, row).astype(STATE)
    with_singles = _add_single_tables(graph)
    levels, converged = [_DecimationState(row, (), False)], []
    n_backtracks = 0
    while True:
        level = levels[-1]
        beliefs = _max_product(with_singles, level, how)
        may_backtrack = n_backtracks < MAX_BACKTRACKS and remaining_time() > 0
        if beliefs.log_partition == -np.inf and may_backtrack:
            n_backtracks += 1
            _backtrack(levels)
        elif (level.row != MISSING).all():
            return Decimated(level.row, float(np.mean(converged or [True])))
        else:
            converged.append(beliefs.converged)
            levels.append(
                _DecimationState(_clamp_next(level, beliefs, graph.n_states), level.banned, False)
            )


def _backtrack(levels):
    """Undo the last clamping step of the search, and prevent its repetition.

    If the step clamped one variable, the state of the variable is excluded. If the step clamped
    several variables, the search then clamps only one variable.
    """
    wrong = levels.pop()
    if not levels:
        raise ImpossibleEvidence(0)
    row, banned, _ = levels.pop()
    new = np.flatnonzero(row != wrong.row)
    if len(new) == 1:
        banned = (*banned, (int(new[0]), int(wrong.row[new[0]])))
    levels.append(_DecimationState(row, banned, len(new) > 1))


def _max_product(graph, level, how):
    """Run max-product propagation with clamped variables and without the excluded states."""
    flat = graph.flat.copy()
    first = graph.layout.state_start
    for i, s in level.banned:
        flat[first[i] + s] = -np.inf
    graph = FactorGraph.from_layout(graph.layout, flat)
    maximised = np.ones(graph.n_variables, dtype=bool)
    return belief_propagation(graph, how, evidence=level.row, maximised=maximised)


def _clamp_next(level, beliefs, n_states):
    """Clamp all variables with a max-marginal close to 1, or only the most certain variable.

    Only one variable is clamped if ``level`` requires it, if the run did not converge, or if no
    max-marginal is close to 1. Returns the new row of states.
    """
    first = np.cumsum(n_states) - n_states
    top = np.maximum.reduceat(beliefs.single, first)
    modes = np.flatnonzero(beliefs.single >= np.repeat(top, n_states) - TIE)
    owner, at = np.unique(np.repeat(np.arange(len(n_states)), n_states)[modes], return_index=True)
    states = modes[at] - first[owner]
    top[level.row != MISSING] = -1.0
    if remaining_time() < 0:
        return np.where(level.row == MISSING, states, level.row).astype(STATE)
    chosen = np.flatnonzero(top > 1.0 - CLAMP_TOLERANCE)
    if level.one_at_a_time or not beliefs.converged or len(chosen) == 0:
        chosen = np.flatnonzero(top >= top.max() - TIE)[:1]
    row = level.row.copy()
    row[chosen] = states[chosen]
    return row


def _add_single_tables(graph):
    """Return an equivalent model with an additional table of zeros for each variable.

    The additional tables come before the tables of the model.
    """
    n = graph.n_variables
    layout = Layout.build(graph.n_states, [(i,) for i in range(n)] + list(graph.cliques))
    tables = [np.zeros(int(graph.n_states.sum())), *(t.ravel() for t in graph.log_potentials)]
    return FactorGraph.from_layout(layout, np.concatenate(tables))
