"""Energies: unnormalised log-probabilities with their parameters and gradients.

An energy contains no sampling and no learning algorithm. :class:`Energy` defines the interface of
all energies. ``skmrf.energies.protocols`` defines the methods that only some energies have.
"""

from .base import Energy
from .bipartite import BipartiteEnergy
from .conditional_bipartite import ConditionalBipartiteEnergy
from .factor_graph import FactorGraph
from .neural import NeuralEnergy
from .pairwise import PairwiseEnergy
from .protocols import BinaryPairwiseEnergy, ContinuousEnergy, DiscreteEnergy, GibbsEnergy
from .semi_restricted import SemiRestrictedEnergy
from .structured_protocols import ConditionalLayeredEnergy, LayeredEnergy

__all__ = [
    "BinaryPairwiseEnergy",
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
    "SemiRestrictedEnergy",
]
