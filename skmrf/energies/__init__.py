"""Energies: values that know their parameters, log-potentials and gradients.

An energy never samples and never learns. See :class:`Energy` for the contract, and
:mod:`skmrf.energies.protocols` for what only some energies can do.
"""

from .base import Energy
from .bipartite import BipartiteEnergy
from .conditional_bipartite import ConditionalBipartiteEnergy
from .factor_graph import FactorGraph
from .neural import NeuralEnergy
from .pairwise import PairwiseEnergy
from .protocols import (
    BinaryPairwiseEnergy,
    ConditionalLayeredEnergy,
    ContinuousEnergy,
    DiscreteEnergy,
    FactorGraphConvertible,
    GibbsEnergy,
    LabelEnergy,
    LayeredEnergy,
    TableEnergy,
)

__all__ = [
    "BinaryPairwiseEnergy",
    "BipartiteEnergy",
    "ConditionalBipartiteEnergy",
    "ConditionalLayeredEnergy",
    "ContinuousEnergy",
    "DiscreteEnergy",
    "Energy",
    "FactorGraph",
    "FactorGraphConvertible",
    "GibbsEnergy",
    "LabelEnergy",
    "LayeredEnergy",
    "NeuralEnergy",
    "PairwiseEnergy",
    "TableEnergy",
]
