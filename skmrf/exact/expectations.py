"""One way to exact log Z and expected statistics, whatever the energy.

:func:`exact_model` gives an object with ``log_partition(energy) -> float`` and
``expected(energy) -> (moments, log_z)``, where ``moments`` is shaped like ``energy.theta``. It is
chosen by the protocols of the energy and by what fits, holds no parameters, and is good for every
energy of the same structure (``with_theta``).
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from ..energies import LayeredEnergy
from ..energies.layout import Layout
from ..energies.protocols import BinaryPairwiseEnergy
from .elimination import DEFAULT_MAX_BYTES, expected_moments, log_partitions, refusal
from .enumeration import LayerSum, TwoBlockSum
from .tree_decomposition import build_tree, forecast

MAX_ENTRIES = 1.5e9  # of tables, about a minute
FEW = 4  # non-zero weights a unit, up to which a graph may be simple enough


def exact_model(energy, *, max_bytes=DEFAULT_MAX_BYTES, sparse=False):
    """How to compute exact sums of energies of this structure.

    Parameters
    ----------
    energy : Energy
    max_bytes : float
        Bound on the peak memory.
    sparse : bool, default=False
        Take couplings that are zero in this energy to be zero in all: that may need far less, but
        then only ``log_partition`` is there, and only for energies of the same zeros.

    Returns
    -------
    LayerSum, TwoBlockSum or Eliminated

    Raises
    ------
    ValueError
        When none fits, with the bytes that are needed.

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
    refusals = []
    for model in _candidates(energy, sparse):
        if model.fits(max_bytes):
            return model
        refusals.append(model.refusal(max_bytes))
    raise ValueError(refusals[0])


def quick_exact_model(energy, *, max_bytes=DEFAULT_MAX_BYTES):
    """:func:`exact_model` with ``sparse``, or None where it would take more than about a minute.

    Only small arrays are allocated to find out.

    Parameters
    ----------
    energy : Energy
    max_bytes : float, default=4 GiB

    Returns
    -------
    model or None
        As of :func:`exact_model`.
    """
    models = (m for m in _candidates(energy, True) if m.quick and m.fits(max_bytes))
    return next(models, None)


def _candidates(energy, sparse):
    """Models of an energy, the best one first."""
    if isinstance(energy, LayeredEnergy):
        return _layered_candidates(energy, sparse)
    if isinstance(energy, BinaryPairwiseEnergy):
        return _pairwise_candidates(energy, sparse)
    return [Eliminated(GraphTables(energy.factor_graph().layout))]


def _pairwise_candidates(energy, sparse):
    two_blocks = TwoBlockSum(energy.n_variables)
    if two_blocks.few:
        yield two_blocks
    tables = Eliminated(NonZeroTables.of(energy) if sparse else PairTables(energy.n_variables))
    better = two_blocks.quick and two_blocks.n_variables < np.log2(tables.entries)
    yield from (two_blocks, tables) if better else (tables, two_blocks)


def _layered_candidates(energy, sparse):
    yield LayerSum(*energy.weights.shape)
    if sparse and np.count_nonzero(energy.weights) <= FEW * energy.n_variables:
        yield Eliminated(NonZeroTables.of(energy))


def exact_tables(energy):
    """Tables from which all expected statistics of an energy without latent variables follow.

    Parameters
    ----------
    energy : Energy
        Discrete, and without latent variables.

    Returns
    -------
    GraphTables or PairTables
        With a ``layout``, the parameters ``flat(energy)`` laid out so, and the expected statistics
        ``moments(energy, flat_moments)`` shaped like theta.
    """
    if isinstance(energy, BinaryPairwiseEnergy):
        return PairTables(energy.n_variables)
    return GraphTables(energy.factor_graph().layout)


@dataclass
class GraphTables:
    """The tables of a factor graph themselves.

    Parameters
    ----------
    layout : Layout
    """

    layout: Layout

    def flat(self, energy):
        """Log-potentials of all tables."""
        return energy.factor_graph().flat

    def moments(self, energy, flat):
        """Expected statistics shaped like theta."""
        return energy.from_table_moments(flat)


class NonZeroTables(GraphTables):
    """The tables of an energy's non-zero parameters."""

    @classmethod
    def of(cls, energy):
        return cls(energy.factor_graph().layout)

    def moments(self, energy, flat):
        raise ValueError(
            "Tables of non-zero couplings say nothing of the others; take exact_model(energy), "
            "without sparse."
        )


@dataclass
class PairTables:
    """Tables of all variables and of all pairs of a :class:`~skmrf.energies.PairwiseEnergy`.

    Parameters
    ----------
    n_variables : int
    """

    n_variables: int

    @cached_property
    def layout(self):
        n = self.n_variables
        cliques = [(v,) for v in range(n)] + list(combinations(range(n), 2))
        return Layout.build(np.full(n, 2), cliques)

    def flat(self, energy):
        """Log-potentials of all tables."""
        states, outer = _statistics(energy)
        pairs = energy.coupling[np.triu_indices(self.n_variables, 1)]
        single = np.multiply.outer(energy.bias, states)
        return np.concatenate([single.ravel(), np.multiply.outer(pairs, outer).ravel()])

    def moments(self, energy, flat):
        """Expected statistics shaped like theta."""
        n = self.n_variables
        states, outer = _statistics(energy)
        coupling = np.zeros((n, n))
        coupling[np.triu_indices(n, 1)] = flat[2 * n :].reshape(-1, 4) @ outer
        return {"coupling": coupling + coupling.T, "bias": flat[: 2 * n].reshape(-1, 2) @ states}


def _statistics(energy):
    """The states and their products."""
    states = np.array(energy.states)
    return states, np.multiply.outer(states, states).ravel()


@dataclass
class Eliminated:
    """Sums by variable elimination.

    Parameters
    ----------
    tables : GraphTables or PairTables
    """

    tables: GraphTables | PairTables

    @cached_property
    def cost(self):
        """The forecast."""
        return forecast(self.tables.layout)

    @cached_property
    def plan(self):
        """The bucket tree, once it is needed."""
        nothing = np.zeros(len(self.tables.layout.n_states), dtype=bool)
        return build_tree(self.tables.layout, nothing, nothing, self.cost)

    @property
    def entries(self):
        """Of all tables."""
        return self.cost.entries if self.cost.order is not None else np.inf

    @property
    def quick(self):
        """Whether it takes about a minute at most."""
        return self.entries <= MAX_ENTRIES

    def fits(self, max_bytes):
        """Whether memory is bearable."""
        return self.cost.order is not None and self.cost.bytes <= max_bytes

    def refusal(self, max_bytes):
        """Why it does not fit, and what does."""
        return refusal(self.cost, max_bytes)

    def log_partition(self, energy):
        """Log Z in nats."""
        return float(log_partitions(self.plan, self.tables.flat(energy))[0])

    def expected(self, energy):
        """Expected statistics shaped like theta, and log Z."""
        flat, log_z = expected_moments(self.plan, self.tables.flat(energy))
        return self.tables.moments(energy, flat), float(log_z[0])
