"""Joint modes by max-product propagation and clamping."""

from typing import NamedTuple

import numpy as np

from .._utils.codes import MISSING, STATE, check_evidence_row
from ..energies import FactorGraph
from ..energies.layout import Layout
from ..exact.elimination import ImpossibleEvidence
from .belief_propagation import belief_propagation

DECIDED = 1e-6
TIE = 1e-9  # beliefs that differ by less are decided alike
MAX_RETURNS = 1000


class Decimated(NamedTuple):
    """A joint state found by decimation.

    Attributes
    ----------
    states : ndarray of shape (n_variables,), state codes
    converged_fraction : float
        Share of the runs of max-product propagation that converged.
    """

    states: np.ndarray
    converged_fraction: float


class _Level(NamedTuple):
    """What a run is given, and how much may be clamped after it."""

    row: np.ndarray
    banned: tuple  # pairs of a variable and a state that is impossible given the row
    one_at_a_time: bool


def decimate(graph, how=None, *, evidence=None):
    """A joint mode by max-product belief propagation with clamping.

    Propagate, clamp what is decided, slice the tables, and again until every variable is clamped.
    Where a run converges, all variables with a max-marginal beyond 1 - 1e-6 are clamped at once.
    Else, or where there is none, the variable of the largest max-marginal is (of equal ones the
    first, to the first of its states). On trees the result is a mode. With loops it is a state of
    high probability, without a bound.

    Where messages prove that what was clamped last has probability zero, it is given up: variables
    clamped together are tried one at a time, and a state of a single variable is ruled out. After
    1000 such returns the search stops going back, and the result may have probability zero.

    Parameters
    ----------
    graph : FactorGraph
    how : Propagation, optional
    evidence : ndarray of shape (n_variables,), optional
        State codes of observed variables, MISSING elsewhere.

    Returns
    -------
    Decimated

    Raises
    ------
    ImpossibleEvidence
        When every state that agrees with the evidence has probability zero.

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
    with_singles = _with_singles(graph)
    levels, converged = [_Level(row, (), False)], []
    n_returns = 0
    while True:
        level = levels[-1]
        beliefs = _max_product(with_singles, level, how)
        if beliefs.log_partition == -np.inf and n_returns < MAX_RETURNS:
            n_returns += 1
            _go_back(levels)
        elif (level.row != MISSING).all():
            return Decimated(level.row, float(np.mean(converged or [True])))
        else:
            converged.append(beliefs.converged)
            levels.append(_Level(_clamped(level, beliefs, graph.n_states), level.banned, False))


def _go_back(levels):
    """Give up the last level; the one before may not go there again."""
    wrong = levels.pop()
    if not levels:
        raise ImpossibleEvidence(0)
    row, banned, _ = levels.pop()
    new = np.flatnonzero(row != wrong.row)
    if len(new) == 1:
        banned = (*banned, (int(new[0]), int(wrong.row[new[0]])))
    levels.append(_Level(row, banned, len(new) > 1))


def _max_product(graph, level, how):
    """Max-marginals given the row, without the banned states."""
    flat = graph.flat.copy()
    first = graph.layout.state_start
    for i, s in level.banned:
        flat[first[i] + s] = -np.inf
    graph = FactorGraph.from_layout(graph.layout, flat)
    maximised = np.ones(graph.n_variables, dtype=bool)
    return belief_propagation(graph, how, evidence=level.row, maximised=maximised)


def _clamped(level, beliefs, n_states):
    """The row with one variable more, or with all that are decided."""
    first = np.cumsum(n_states) - n_states
    top = np.maximum.reduceat(beliefs.single, first)
    modes = np.flatnonzero(beliefs.single >= np.repeat(top, n_states) - TIE)
    owner, at = np.unique(np.repeat(np.arange(len(n_states)), n_states)[modes], return_index=True)
    states = modes[at] - first[owner]
    top[level.row != MISSING] = -1.0
    chosen = np.flatnonzero(top > 1.0 - DECIDED)
    if level.one_at_a_time or not beliefs.converged or len(chosen) == 0:
        chosen = np.flatnonzero(top >= top.max() - TIE)[:1]
    row = level.row.copy()
    row[chosen] = states[chosen]
    return row


def _with_singles(graph):
    """The same model with a table of zeros for every variable, these first."""
    n = graph.n_variables
    layout = Layout.build(graph.n_states, [(i,) for i in range(n)] + list(graph.cliques))
    tables = [np.zeros(int(graph.n_states.sum())), *(t.ravel() for t in graph.log_potentials)]
    return FactorGraph.from_layout(layout, np.concatenate(tables))
