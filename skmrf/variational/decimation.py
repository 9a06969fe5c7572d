"""Search for a joint mode by decimation: max-product belief propagation with clamping."""

from typing import NamedTuple

import numpy as np

from .._utils.codes import MISSING, STATE, check_evidence_row
from .._utils.interrupts import remaining_time
from ..energies import FactorGraph
from ..energies.layout import Layout
from ..exact.elimination import ImpossibleEvidence
from .belief_propagation import belief_propagation

CLAMP_TOLERANCE = 1e-6
TIE = 1e-9  # beliefs that differ by less count as equal
MAX_BACKTRACKS = 1000


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


class _SearchState(NamedTuple):
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
    >>> from skmrf.variational.decimation import decimate
    >>> graph = FactorGraph([2, 3], [(0, 1), (1,)], [[[0, 1, 0], [2, 0, 0]], [0, 0, 1.5]])
    >>> decimate(graph).states
    array([1, 0], dtype=int16)
    """
    row = check_evidence_row(evidence, graph.n_states)
    row = np.where(graph.n_states == 1, 0, row).astype(STATE)
    with_singles = _add_single_tables(graph)
    levels, converged = [_SearchState(row, (), False)], []
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
                _SearchState(_clamp_next(level, beliefs, graph.n_states), level.banned, False)
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
    levels.append(_SearchState(row, banned, len(new) > 1))


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
