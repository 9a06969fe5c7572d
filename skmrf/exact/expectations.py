"""Selection of an exact method for log Z and the expected statistics.

:func:`exact_model` returns an object with ``log_partition(energy) -> float`` and
``expected(energy) -> (moments, log_z)``, where ``moments`` has the keys and shapes of
``energy.theta``. The choice of the method depends on the protocols that the energy implements and
on the memory limit. The object holds no parameters: it can be used for every energy of the same
structure (``with_theta``).
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from .._utils.interrupts import remaining_time
from ..energies import LayeredEnergy
from ..energies.layout import Layout
from ..energies.protocols import BinaryPairwiseEnergy
from ..energies.structured_protocols import HiddenLayerEnergy
from .elimination import DEFAULT_MAX_BYTES, expected_moments, log_partitions, memory_message
from .enumeration import TERMS_PER_SECOND, LayerSum, TwoBlockSum, VisibleSum
from .tree_decomposition import build_tree, forecast

MAX_ENTRIES = 1.5e9  # table entries that take about a minute
ENTRIES_PER_SECOND = MAX_ENTRIES / 60
PLANNING_SECONDS = 0.25  # of an elimination of layers
MAX_LOG2_TERMS = 1000.0  # so that the number of terms is a float
MAX_WEIGHTS_PER_UNIT = 4  # non-zero weights per unit, up to which elimination may be cheap


def exact_model(energy, *, max_bytes=DEFAULT_MAX_BYTES, sparse=False):
    """Select an exact method for log Z and the expected statistics of an energy.

    The returned object can be used for all energies of the same structure.

    Parameters
    ----------
    energy : Energy
        Energy that gives the structure.
    max_bytes : float, default=4 GiB
        Upper limit of the peak memory, in bytes.
    sparse : bool, default=False
        Assume that couplings which are zero in this energy are always zero. This can need far less
        memory and time, but the result may only have ``log_partition``, and only for energies with
        the same zeros.

    Returns
    -------
    LayerSum, VisibleSum, TwoBlockSum or EliminationSum
        The first method that fits into ``max_bytes``.

    Raises
    ------
    ValueError
        If no method fits. The message contains the memory that is needed.

    Examples
    --------
    >>> from skmrf.energies import PairwiseEnergy
    >>> from skmrf.exact.expectations import exact_model
    >>> energy = PairwiseEnergy([[0, 0.5], [0.5, 0]], [0.0, 0.0])
    >>> moments, log_z = exact_model(energy).expected(energy)
    >>> moments["coupling"].round(4)
    array([[0.    , 0.4621],
           [0.4621, 0.    ]])
    >>> round(log_z, 4)
    1.5064
    """
    messages = []
    for model in _candidates(energy, sparse):
        if model.fits(max_bytes):
            return model
        messages.append(model.limit_message(max_bytes))
    raise ValueError(messages[0])


def quick_exact_model(energy, *, max_bytes=DEFAULT_MAX_BYTES):
    """Return an exact method for log Z that takes about a minute at most, or None.

    This is :func:`exact_model` with ``sparse=True`` and a limit of the time. The check allocates
    only small arrays.

    Parameters
    ----------
    energy : Energy
        Energy that gives the structure.
    max_bytes : float, default=4 GiB
        Upper limit of the peak memory, in bytes.

    Returns
    -------
    LayerSum, VisibleSum, TwoBlockSum, EliminationSum or None
        None if every method is too slow or needs too much memory.
    """
    models = (m for m in _candidates(energy, True) if m.is_quick and m.fits(max_bytes))
    return next(models, None)


def _candidates(energy, sparse):
    """Return the exact methods for an energy, with the preferred method first."""
    if isinstance(energy, HiddenLayerEnergy):
        return _layered_candidates(energy, sparse)
    if isinstance(energy, BinaryPairwiseEnergy):
        return _pairwise_candidates(energy, sparse)
    return [EliminationSum(GraphTables(energy.factor_graph().layout))]


def _pairwise_candidates(energy, sparse):
    two_blocks = TwoBlockSum(energy.n_variables)
    if two_blocks.is_small:
        yield two_blocks
    tables = EliminationSum(
        NonZeroTables.from_energy(energy) if sparse else PairTables(energy.n_variables)
    )
    n = two_blocks.n_variables
    better = n <= two_blocks.MAX_VARIABLES and n < np.log2(tables.entries)
    yield from (two_blocks, tables) if better else (tables, two_blocks)


def _layered_candidates(energy, sparse):
    sizes = energy.weights.shape
    layers = LayerSum(*sizes) if isinstance(energy, LayeredEnergy) else VisibleSum(*sizes)
    if not sparse or _count_interactions(energy) > MAX_WEIGHTS_PER_UNIT * energy.n_variables:
        return [layers]
    tables = EliminationSum(NonZeroTables.from_energy(energy))
    seconds = 2.0 ** min(layers.log2_terms, MAX_LOG2_TERMS) / TERMS_PER_SECOND
    better = seconds > PLANNING_SECONDS and tables.entries / ENTRIES_PER_SECOND < seconds
    return [tables, layers] if better else [layers, tables]


def _count_interactions(energy):
    """Return the number of non-zero weights and couplings of a model with hidden units."""
    arrays = energy.conditionals()._asdict()
    return sum(np.count_nonzero(arrays.get(name, 0.0)) for name in ("weights", "coupling"))


def max_quick_entries():
    """Return the number of table entries that take about a minute, or the remaining time."""
    return min(MAX_ENTRIES, ENTRIES_PER_SECOND * remaining_time())


def exact_tables(energy):
    """Return the tables whose marginals determine the expected sufficient statistics of an energy.

    Parameters
    ----------
    energy : Energy
        Discrete energy without latent variables.

    Returns
    -------
    GraphTables or PairTables
        An object with a ``layout``, the method ``flat(energy)`` for the log-potentials in this
        layout and the method ``moments(energy, flat_moments)`` for the expected statistics, which
        have the keys and shapes of theta.
    """
    if isinstance(energy, BinaryPairwiseEnergy):
        return PairTables(energy.n_variables)
    return GraphTables(energy.factor_graph().layout)


@dataclass
class GraphTables:
    """Tables of the factor graph of an energy.

    Parameters
    ----------
    layout : Layout
        Layout of the factor graph.
    """

    layout: Layout

    def flat(self, energy):
        """Return the log-potentials of all tables of an energy, concatenated."""
        return energy.factor_graph().flat

    def moments(self, energy, flat):
        """Return the expected sufficient statistics, a dict shaped like ``energy.theta``."""
        return energy.from_table_moments(flat)


class NonZeroTables(GraphTables):
    """Tables of the non-zero parameters of an energy."""

    @classmethod
    def from_energy(cls, energy):
        """Return the tables of the non-zero parameters of ``energy``."""
        return cls(energy.factor_graph().layout)

    def moments(self, energy, flat):
        """Raise a ValueError: without tables of zero couplings, not all statistics are computed."""
        raise ValueError(
            "With sparse=True, the expected statistics of zero couplings and weights are not "
            "computed. Use exact_model(energy) with sparse=False."
        )


@dataclass
class PairTables:
    """Tables of all variables and all pairs of a ``BinaryPairwiseEnergy``.

    Parameters
    ----------
    n_variables : int
        Number of variables.
    """

    n_variables: int

    @cached_property
    def layout(self):
        """Return the layout: one table per variable, then one table per pair of variables."""
        n = self.n_variables
        cliques = [(v,) for v in range(n)] + list(combinations(range(n), 2))
        return Layout.build(np.full(n, 2), cliques)

    def flat(self, energy):
        """Return the log-potentials of all tables of an energy, concatenated."""
        states, outer = _statistics(energy)
        pairs = energy.coupling[np.triu_indices(self.n_variables, 1)]
        single = np.multiply.outer(energy.bias, states)
        return np.concatenate([single.ravel(), np.multiply.outer(pairs, outer).ravel()])

    def moments(self, energy, flat):
        """Return the expected sufficient statistics, a dict shaped like ``energy.theta``."""
        n = self.n_variables
        states, outer = _statistics(energy)
        coupling = np.zeros((n, n))
        coupling[np.triu_indices(n, 1)] = flat[2 * n :].reshape(-1, 4) @ outer
        means = flat[: 2 * n].reshape(-1, 2) @ states
        return energy.from_pair_moments(coupling + coupling.T, means)


def _statistics(energy):
    """Return the two state values of a binary energy, and their products in the states of a pair.

    The shapes are (2,) and (4,). The joint states of a pair are 00, 01, 10 and 11.
    """
    states = np.array(energy.states)
    return states, np.multiply.outer(states, states).ravel()


@dataclass
class EliminationSum:
    """Exact log Z and expected statistics by variable elimination.

    Parameters
    ----------
    tables : GraphTables or PairTables
        Tables to eliminate.
    """

    tables: GraphTables | PairTables

    @cached_property
    def cost(self):
        """Return the forecast of the memory and time of the elimination."""
        return forecast(self.tables.layout)

    @cached_property
    def plan(self):
        """Return the bucket tree, which is built at the first use."""
        none = np.zeros(len(self.tables.layout.n_states), dtype=bool)
        return build_tree(self.tables.layout, none, none, self.cost)

    @property
    def entries(self):
        """Return the number of table entries of the elimination; inf if it is too large."""
        return self.cost.entries if self.cost.order is not None else np.inf

    @property
    def is_quick(self):
        """Return whether the elimination takes about a minute at most."""
        return self.entries <= max_quick_entries()

    def fits(self, max_bytes):
        """Return whether the elimination needs at most ``max_bytes`` of memory."""
        return self.cost.order is not None and self.cost.bytes <= max_bytes

    def limit_message(self, max_bytes):
        """Return the error message for an elimination that needs more than ``max_bytes``."""
        return memory_message(self.cost, max_bytes)

    def log_partition(self, energy):
        """Return the log partition function log Z of an energy, in nats."""
        return float(log_partitions(self.plan, self.tables.flat(energy))[0])

    def expected(self, energy):
        """Return the expected sufficient statistics (a dict like ``energy.theta``) and log Z."""
        flat, log_z = expected_moments(self.plan, self.tables.flat(energy))
        return self.tables.moments(energy, flat), float(log_z[0])
