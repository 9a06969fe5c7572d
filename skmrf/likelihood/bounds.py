"""Methods that compute the log partition function with lower and upper limits."""

from contextlib import suppress

import numpy as np

from .._utils.interrupts import limit_time, remaining_time
from .._utils.parameters import check_choice, check_options
from .._utils.results import LogPartition
from ..energies.protocols import check_energy
from ..exact import expectations, tree_decomposition
from ..exact.elimination import DEFAULT_MAX_BYTES
from ..exact.expectations import max_quick_entries
from ..variational import belief_propagation, tree_reweighting
from ..variational import mean_field as naive
from .ais import ais
from .chained_bp import bpchain


def exact_fits(layout, observed=None, max_bytes=DEFAULT_MAX_BYTES, *, maximised=None):
    """Return True if variable elimination needs at most ``max_bytes`` and about one minute.

    A time limit of less than one minute replaces the minute.

    This is a forecast: no large array is allocated.

    Parameters
    ----------
    layout : Layout
        Variables and cliques of the factor graph.
    observed : ndarray of bool of shape (n_variables,), optional
        True for variables whose states are given. By default no variable is observed.
    max_bytes : float, default=4 GiB
        Upper limit of the peak memory for one row of evidence, in bytes.
    maximised : ndarray of bool of shape (n_variables,), optional
        True for variables that are maximised over, after the others have been summed out. By
        default no variable is maximised.

    Returns
    -------
    bool
        True if both limits are met.
    """
    return exact_entries(layout, observed, max_bytes, maximised=maximised) <= max_quick_entries()


def exact_entries(layout, observed=None, max_bytes=DEFAULT_MAX_BYTES, *, maximised=None):
    """Return the number of table entries that variable elimination visits for one row of evidence.

    It is inf if more than ``max_bytes`` are needed. The parameters are those of :func:`exact_fits`.
    """
    cost = tree_decomposition.forecast(layout, observed, maximised, max_bytes=max_bytes)
    return cost.entries if cost.order is not None and cost.bytes <= max_bytes else np.inf


def exact_log_partition(energy, *, max_bytes=DEFAULT_MAX_BYTES):
    """Compute log Z exactly, by enumeration or variable elimination (see ``skmrf.exact``).

    Parameters
    ----------
    energy : Energy
        Model of discrete variables.
    max_bytes : float, default=4 GiB
        Upper limit of the peak memory, in bytes.

    Returns
    -------
    LogPartition
        With ``lower == value == upper``, in nats.

    Raises
    ------
    ValueError
        If the forecast of the memory exceeds ``max_bytes``.
    """
    return _exact_result(energy, expectations.exact_model(energy, max_bytes=max_bytes, sparse=True))


def _exact_result(energy, model):
    value = model.log_partition(energy)
    return LogPartition(value, 0.0, value, value, True, "exact", True)


def bethe(energy, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8):
    """Compute the Bethe approximation of log Z, which is exact on trees.

    On graphs with loops the approximation is no bound.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables that has a factor graph.
    schedule : {"sequential", "residual", "flooding"}, default="sequential"
        Order of the message updates; see
        :class:`skmrf.variational.belief_propagation.Propagation`.
    damping : float in [0, 0.99] or "auto", default="auto"
        Share of the old log message that a new one keeps. "auto" uses 0 for 20 iterations, then
        0.5.
    max_iter : int, default=500
        Maximum number of iterations.
    tol : float in [0, 0.5], default=1e-8
        Stop when no log message changes by more.

    Returns
    -------
    LogPartition
        The approximation in nats, with the limits -inf and inf.
    """
    settings = belief_propagation.Propagation(schedule, damping, max_iter, tol)
    beliefs = belief_propagation.belief_propagation(energy.factor_graph(), settings)
    value = beliefs.log_partition
    return LogPartition(value, np.nan, -np.inf, np.inf, False, "bethe", beliefs.converged, np.nan)


def mean_field(energy, *, max_iter=1000, tol=1e-9):
    """Compute the naive mean-field lower bound on log Z.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables that has a factor graph.
    max_iter : int, default=1000
        Maximum number of sweeps over the variables.
    tol : float, default=1e-9
        Stop when no probability changes by more in a sweep.

    Returns
    -------
    LogPartition
        The bound in nats as ``value`` and ``lower``; ``upper`` is inf.
    """
    beliefs = naive.mean_field(energy.factor_graph(), max_iter=max_iter, tol=tol)
    value = beliefs.lower_bound
    has_converged = beliefs.converged and value > -np.inf
    return LogPartition(value, np.nan, value, np.inf, False, "mean-field", has_converged, np.nan)


def tree_reweighted(energy, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8):
    """Compute the tree-reweighted upper bound on log Z, and the mean-field lower bound.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables that has a factor graph.
    schedule : {"sequential", "residual", "flooding"}, default="sequential"
        Order of the message updates; see
        :class:`skmrf.variational.belief_propagation.Propagation`.
    damping : float in [0, 0.99] or "auto", default="auto"
        Share of the old log message that a new one keeps. "auto" uses 0 for 20 iterations, then
        0.5.
    max_iter : int, default=500
        Maximum number of iterations.
    tol : float in [0, 0.5], default=1e-8
        Stop when no log message changes by more.

    Returns
    -------
    LogPartition
        The upper bound in nats as ``value`` and ``upper``, and the mean-field bound as ``lower``.
    """
    graph = energy.factor_graph()
    result = tree_reweighting.tree_reweighted(
        graph, belief_propagation.Propagation(schedule, damping, max_iter, tol)
    )
    upper, converged = result.upper_bound, result.beliefs.converged
    lower = min(naive.mean_field(graph).lower_bound, upper)  # equal bounds differ by rounding
    return LogPartition(upper, np.nan, lower, upper, True, "trw", converged, np.nan)


FUNCTIONS = {
    "exact": exact_log_partition,
    "ais": ais,
    "bpchain": bpchain,
    "bethe": bethe,
    "trw": tree_reweighted,
    "mean-field": mean_field,
}
SAMPLING = ("ais", "bpchain")
METHODS = ("auto", *FUNCTIONS)


def log_partition_bounds(
    energy, *, method="auto", max_bytes=DEFAULT_MAX_BYTES, random_state=None, **options
):
    """Compute the log partition function with a lower and an upper limit.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables.
    method : {"auto", "exact", "ais", "bpchain", "bethe", "trw", "mean-field"}, default="auto"
        - "exact": sum over all states (see ``skmrf.exact``).
        - "ais": annealed importance sampling, forward and reverse (see :func:`ais`).
        - "bpchain": importance sampling from chained belief propagation.
        - "bethe": Bethe approximation, without limits.
        - "trw": tree-reweighted upper bound, with the mean-field bound as ``lower``.
        - "mean-field": mean-field lower bound, without an upper limit.
        - "auto": "exact" if its forecast of memory and time is within the limits, else "ais".
    max_bytes : float, default=4 GiB
        Upper limit of the memory of "exact" in bytes.
    random_state : int, Generator, RandomState or None
        Seed or generator of "ais" and "bpchain". Pass an int for reproducible results.
    **options
        Options of the method:

        - "ais": ``n_chains``, ``n_temperatures``, ``schedule``, ``reference``, ``moves``,
          ``start``, ``max_width``, ``target_width``, ``n_jobs``, ``device``.
        - "bpchain": ``n_samples``, ``conditionals``, ``order``, ``clip``, ``max_width``.
        - "bethe" and "trw": ``schedule``, ``damping``, ``max_iter``, ``tol``.
        - "mean-field": ``max_iter``, ``tol``.

    Returns
    -------
    LogPartition
        Estimate ``value`` with the limits ``lower`` and ``upper``, all in nats.

    Examples
    --------
    >>> from skmrf.energies import PairwiseEnergy
    >>> from skmrf.likelihood import log_partition_bounds
    >>> energy = PairwiseEnergy([[0, 0.5], [0.5, 0]], [0.0, 0.0])
    >>> round(float(log_partition_bounds(energy)), 4)
    1.5064
    """
    check_energy(energy)
    check_choice("method", method, METHODS)
    if method == "auto":
        check_options(method, ais, options, ("random_state",))
        with limit_time(0.5 * remaining_time()), suppress(TimeoutError):
            model = expectations.quick_exact_model(energy, max_bytes=max_bytes)
            if model is not None:
                return _exact_result(energy, model)
        method = "ais"
    given = {"random_state": random_state} if method in SAMPLING else {}
    if method == "exact":
        given = {"max_bytes": max_bytes}
    check_options(method, FUNCTIONS[method], options, given)
    return FUNCTIONS[method](energy, **given, **options)
