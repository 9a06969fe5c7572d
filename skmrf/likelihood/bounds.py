"""Log partition function with limits: exact where that fits, else annealed."""

from .. import messages
from .._types import LogPartition
from .._validation import check_choice
from ..messages.elimination import DEFAULT_MAX_BYTES
from .ais import ais

MAX_ENTRIES = 1.5e9


def exact_fits(layout, observed=None, max_bytes=DEFAULT_MAX_BYTES):
    """Whether elimination is forecast to stay within ``max_bytes`` and about a minute."""
    cost = messages.forecast(layout, observed)
    return cost.order is not None and cost.bytes <= max_bytes and cost.entries <= MAX_ENTRIES


def exact_log_partition(energy, *, max_bytes=DEFAULT_MAX_BYTES):
    """Log Z by variable elimination.

    Raises
    ------
    ValueError
        When the forecast is beyond ``max_bytes``.
    """
    graph = energy.factor_graph()
    plan = messages.prepare(graph.layout, max_bytes=max_bytes)
    value = float(messages.log_partitions(plan, graph.flat)[0])
    return LogPartition(value, 0.0, value, value, True, "exact", True)


def log_partition_bounds(
    energy, *, method="auto", max_bytes=DEFAULT_MAX_BYTES, random_state=None, **options
):
    """Log partition function in nats with a lower and an upper limit.

    Parameters
    ----------
    energy : Energy
    method : {"auto", "exact", "ais"}, default="auto"
        "exact" eliminates variables; "ais" anneals forward and back (see :func:`ais`); "auto" takes
        "exact" where its forecast of memory and time fits.
    max_bytes : float, default=4 GiB
        Memory bound of "exact".
    random_state : int, Generator, RandomState or None
    **options
        Of :func:`ais`: ``n_chains``, ``n_temperatures``, ``max_width``, ``n_jobs``.

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
    check_choice("method", method, ("auto", "exact", "ais"))
    if method == "auto":
        layout = energy.factor_graph().layout
        method = "exact" if exact_fits(layout, max_bytes=max_bytes) else "ais"
    if method == "exact":
        return exact_log_partition(energy, max_bytes=max_bytes)
    return ais(energy, random_state=random_state, **options)
