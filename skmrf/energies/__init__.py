"""Energies: values that know their parameters, log-potentials and gradients.

An energy never samples and never learns. See :class:`Energy` for the contract, and
``skmrf.energies.protocols`` for what only some energies can do.
"""

from .base import Energy
from .bipartite import BipartiteEnergy
from .conditional_bipartite import ConditionalBipartiteEnergy
from .factor_graph import FactorGraph
from .neural import NeuralEnergy
from .pairwise import PairwiseEnergy
from .protocols import (
    ConditionalLayeredEnergy,
    ContinuousEnergy,
    DiscreteEnergy,
    GibbsEnergy,
    LayeredEnergy,
    TableEnergy,
)

__all__ = [
    "BipartiteEnergy",
    "ConditionalBipartiteEnergy",
    "ConditionalLayeredEnergy",
    "ContinuousEnergy",
    "DiscreteEnergy",
    "Energy",
    "FactorGraph",
    "GibbsEnergy",
    "LayeredEnergy",
    "NeuralEnergy",
    "PairwiseEnergy",
    "TableEnergy",
]
