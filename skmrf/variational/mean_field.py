"""Naive mean field: a product distribution that maximises a lower bound on log Z."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import entr

from .._kernels._jit import read_only
from .._kernels.mean_field import add_products, ascend, expected_log_potential
from .._utils.interrupts import remaining_time
from .._utils.parameters import check_number
from ..energies.conditionals import TableConditionals

ENTRIES_PER_CALL = 2**23  # Ctrl-C is handled between two calls
SUM_TOLERANCE = 1e-6


class MeanFieldResult(NamedTuple):
    """Result of mean field: a product distribution and its lower bound on log Z.

    Attributes
    ----------
    single : ndarray of shape (sum of n_states,)
        Distributions of the variables, concatenated.
    lower_bound : float
        Lower bound on log Z, in nats; -inf if the product distribution gives zero potentials a
        positive probability.
    n_iter : int
        Number of sweeps.
    residual : float
        Largest change of a probability in the last sweep.
    converged : bool
        Whether the residual is at most ``tol``.
    """

    single: np.ndarray
    lower_bound: float
    n_iter: int
    residual: float
    converged: bool


def mean_field(graph, *, start=None, max_iter=1000, tol=1e-9):
    r"""Maximise the mean-field bound over product distributions by coordinate ascent.

    .. math::

        \log Z \ge \sum_a \mathbb{E}_q \theta_a(x_a) + \sum_i H(q_i), \qquad
        q_i(x_i) \propto \exp \sum_{a \ni i} \mathbb{E}_{q_{-i}} [\theta_a(x_a) \mid x_i]

    Variables are updated in index order, each given the newest distributions of the others, so
    the bound never decreases. A sweep visits every entry of a clique's table once for each
    variable of the clique. The fixed point that is reached depends on the start. A uniform start
    can stay at a saddle point of a symmetric model.

    A zero potential (-inf) is treated as the limit of a large penalty. The field of a state has two
    parts: the probability that it puts on zero potentials, and its finite expectation. The states
    with the smallest such probability (equal up to a relative 1e-12) divide the probability of the
    variable among them by their finite expectations. The other states get probability zero.

    Parameters
    ----------
    graph : FactorGraph
        Model.
    start : ndarray of shape (sum of n_states,), or None
        Distributions of the variables at which the ascent starts, concatenated. None: uniform
        distributions.
    max_iter : int, default=1000
        Maximum number of sweeps.
    tol : float, default=1e-9
        Stop when no probability changes by more in a sweep.

    Returns
    -------
    MeanFieldResult
        Distributions of the variables and the bound.

    Raises
    ------
    ValueError
        If ``start`` has the wrong shape or does not contain a distribution for each variable.

    References
    ----------
    M. J. Wainwright and M. I. Jordan (2008), Graphical models, exponential families, and
    variational inference, section 5.3.

    Examples
    --------
    >>> from skmrf.energies import FactorGraph
    >>> from skmrf.variational.mean_field import mean_field
    >>> found = mean_field(FactorGraph([2, 2], [(0, 1), (1,)], [[[0, 1], [1, 0]], [0, 2.0]]))
    >>> found.single.round(3), round(found.lower_bound, 3)
    (array([0.697, 0.303, 0.084, 0.916]), 3.398)
    """
    check_number("max_iter", max_iter, low=1, integer=True)
    check_number("tol", tol, low=0.0)
    tables = TableConditionals(read_only(graph.flat), *graph.layout.index_arrays)
    first = _start_indices(graph.n_states)
    single = (
        _uniform(graph.n_states) if start is None else _check_start(start, graph.n_states, first)
    )
    buffer = _buffer(graph.layout)
    runs, sweeps_a_call = _plan_kernel_calls(graph.layout)
    n_iter, residual = 0, np.inf
    while n_iter < max_iter and residual > tol:
        n_sweeps = min(sweeps_a_call, max_iter - n_iter)
        done = [ascend(tables, first, *run, n_sweeps, tol, buffer, single) for run in runs]
        n_iter += done[0][0]
        residual = max(change for _, change in done)
        if remaining_time() < 0:
            break
    zero, expected = expected_log_potential(tables, first, single, buffer)
    bound = -np.inf if zero > 0.0 else expected + entr(single).sum()
    return MeanFieldResult(single, float(bound), n_iter, float(residual), residual <= tol)


def clique_moments(graph, single, layout=None):
    """Return the joint distribution of each clique under a product distribution.

    They are the expected statistics for a gradient.

    Parameters
    ----------
    graph : FactorGraph
        Model.
    single : ndarray of shape (sum of n_states,)
        Distributions of the variables, concatenated.
    layout : Layout, optional
        Layout of the result: the same cliques, possibly with untied tables. The values of tied
        tables are summed. By default the layout of ``graph``.

    Returns
    -------
    ndarray of shape (layout.n_parameters,)
        Distributions of the cliques.
    """
    layout = graph.layout if layout is None else layout
    out = np.zeros(layout.n_parameters)
    add_products(
        np.ascontiguousarray(single, dtype=float),
        _start_indices(layout.n_states),
        layout.n_states,
        layout.clique_ptr,
        layout.clique_vars,
        layout.table_start,
        _buffer(layout),
        out,
    )
    return out


def _start_indices(n_states):
    """Return the index of each variable's first probability in the concatenated distributions."""
    return np.cumsum(n_states) - n_states


def _uniform(n_states):
    return np.repeat(1.0 / n_states, n_states)


def _check_start(start, n_states, first):
    """Check the initial distributions, and return a copy in which each sums exactly to one."""
    start = np.array(start, dtype=float)
    if start.shape != (n_states.sum(),):
        raise ValueError(
            f"start must contain the concatenated distributions of all variables, shape "
            f"({n_states.sum()},); got {start.shape}."
        )
    total = np.add.reduceat(start, first) if start.size else start
    smallest = np.minimum.reduceat(start, first) if start.size else start
    wrong = np.flatnonzero(~((np.abs(total - 1.0) <= SUM_TOLERANCE) & (smallest >= 0.0)))
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"start[{first[i]}:{first[i] + n_states[i]}], which belongs to variable {i}, is "
            f"{start[first[i] : first[i] + n_states[i]]}. It must be a distribution: non-negative "
            "numbers that sum to one."
        )
    return start / np.repeat(total, n_states)


def _buffer(layout):
    return np.empty(int(layout.table_size.max(initial=1)))


def _plan_kernel_calls(layout):
    """Return the range of variables of each kernel call, and the number of sweeps per call.

    Each call is short, because Ctrl-C is handled between two calls.
    """
    ptr, clique, _ = layout.incidence
    entries = np.concatenate([[0], np.cumsum(layout.table_size[clique])])[ptr] + np.arange(len(ptr))
    n_runs = int(entries[-1] // ENTRIES_PER_CALL) + 1
    cuts = np.searchsorted(entries, np.linspace(0, entries[-1], n_runs + 1)[1:-1])
    ends = [0, *np.unique(cuts[cuts > 0]).tolist(), len(ptr) - 1]
    sweeps = max(1, int(ENTRIES_PER_CALL // max(entries[-1], 1)))
    return list(pairwise(ends)), sweeps
