"""Log partition function with limits, by any method."""

import numpy as np

from .._utils.parameters import check_choice, check_options
from .._utils.results import LogPartition
from ..energies.checks import check_energy
from ..exact import expectations, tree_decomposition
from ..exact.elimination import DEFAULT_MAX_BYTES
from ..exact.expectations import MAX_ENTRIES
from ..variational import belief_propagation, tree_reweighting
from ..variational import mean_field as naive
from .ais import ais
from .chained_bp import bpchain


def exact_fits(layout, observed=None, max_bytes=DEFAULT_MAX_BYTES, *, maximised=None):
    """Whether elimination is forecast to stay within ``max_bytes`` and about a minute.

    Parameters
    ----------
    layout : Layout
    observed : ndarray of bool of shape (n_variables,), optional
        Variables whose states are given.
    max_bytes : float, default=4 GiB
    maximised : ndarray of bool of shape (n_variables,), optional
        Variables that are maximised over, after the others have been summed out.

    Returns
    -------
    bool
    """
    cost = tree_decomposition.forecast(layout, observed, maximised)
    return cost.order is not None and cost.bytes <= max_bytes and cost.entries <= MAX_ENTRIES


def exact_log_partition(energy, *, max_bytes=DEFAULT_MAX_BYTES):
    """Log Z by enumeration or variable elimination, see ``skmrf.exact``.

    Parameters
    ----------
    energy : Energy
    max_bytes : float, default=4 GiB

    Returns
    -------
    LogPartition
        With ``lower == value == upper``, in nats.

    Raises
    ------
    ValueError
        When the forecast is beyond ``max_bytes``.
    """
    return _summed(energy, expectations.exact_model(energy, max_bytes=max_bytes, sparse=True))


def _summed(energy, model):
    value = model.log_partition(energy)
    return LogPartition(value, 0.0, value, value, True, "exact", True)


def bethe(energy, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8):
    """The Bethe approximation of log Z: exact on trees, no bound on graphs with loops.

    Parameters
    ----------
    energy : Energy
    schedule, damping, max_iter, tol
        See :class:`skmrf.variational.belief_propagation.Propagation`.
    """
    how = belief_propagation.Propagation(schedule, damping, max_iter, tol)
    found = belief_propagation.belief_propagation(energy.factor_graph(), how)
    value = found.log_partition
    return LogPartition(value, np.nan, -np.inf, np.inf, False, "bethe", found.converged, np.nan)


def mean_field(energy, *, max_iter=1000, tol=1e-9):
    """The naive mean-field lower bound on log Z.

    Parameters
    ----------
    energy : Energy
    max_iter, tol
        See :func:`skmrf.variational.mean_field.mean_field`.
    """
    found = naive.mean_field(energy.factor_graph(), max_iter=max_iter, tol=tol)
    value = found.lower_bound
    return LogPartition(value, np.nan, value, np.inf, False, "mean-field", found.converged, np.nan)


def tree_reweighted(energy, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8):
    """The tree-reweighted upper bound on log Z, with the mean-field bound below it.

    Parameters
    ----------
    energy : Energy
    schedule, damping, max_iter, tol
        See :class:`skmrf.variational.belief_propagation.Propagation`.
    """
    graph = energy.factor_graph()
    found = tree_reweighting.tree_reweighted(
        graph, belief_propagation.Propagation(schedule, damping, max_iter, tol)
    )
    lower = naive.mean_field(graph).lower_bound
    upper, converged = found.upper_bound, found.beliefs.converged
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
    """Log partition function in nats with a lower and an upper limit.

    Parameters
    ----------
    energy : Energy
    method : {"auto", "exact", "ais", "bpchain", "bethe", "trw", "mean-field"}, default="auto"
        "exact" sums over all states (see ``skmrf.exact``); "ais" anneals forward
        and back (see :func:`ais`); "bpchain" weights draws of chained belief propagation (see
        :func:`bpchain`); "bethe" is the Bethe approximation, without limits; "trw" the
        tree-reweighted upper bound, with the bound of "mean-field" below. "auto" takes "exact"
        where its forecast of memory and time fits, else "ais".
    max_bytes : float, default=4 GiB
        Memory bound of "exact".
    random_state : int, Generator, RandomState or None
    **options
        Of :func:`ais`: ``n_chains``, ``n_temperatures``, ``schedule``, ``reference``, ``start``,
        ``max_width``, ``n_jobs``; of
        :func:`bpchain`: ``n_samples``, ``conditionals``, ``order``, ``clip``, ``max_width``; of
        "bethe" and "trw": ``schedule``, ``damping``, ``max_iter``, ``tol``; of "mean-field":
        ``max_iter``, ``tol``.

    Returns
    -------
    LogPartition

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
        model = expectations.quick_exact_model(energy, max_bytes=max_bytes)
        if model is not None:
            return _summed(energy, model)
        method = "ais"
    given = {"random_state": random_state} if method in SAMPLING else {}
    if method == "exact":
        given = {"max_bytes": max_bytes}
    check_options(method, FUNCTIONS[method], options, given)
    return FUNCTIONS[method](energy, **given, **options)
