"""Energies: values that know their parameters, log-potentials and gradients.

An energy never samples and never learns. See :class:`Energy` for the contract.
"""

from .base import Energy
from .bipartite import BipartiteEnergy
from .conditional_bipartite import ConditionalBipartiteEnergy
from .conditionals import BinaryConditionals, BipartiteConditionals, TableConditionals
from .factor_graph import FactorGraph
from .layout import Layout
from .log_linear import LogLinearEnergy, LogLinearForm, contrasts, pair_basis
from .neural import NeuralEnergy
from .neural_labels import NeuralLabels
from .pairwise import PairwiseEnergy

__all__ = [
    "BinaryConditionals",
    "BipartiteConditionals",
    "BipartiteEnergy",
    "ConditionalBipartiteEnergy",
    "Energy",
    "FactorGraph",
    "Layout",
    "LogLinearEnergy",
    "LogLinearForm",
    "NeuralEnergy",
    "NeuralLabels",
    "PairwiseEnergy",
    "TableConditionals",
    "contrasts",
    "pair_basis",
]
