"""Energies: values that know their parameters, log-potentials and gradients.

An energy never samples and never learns. See :class:`Energy` for the contract.
"""

from .base import Energy
from .conditionals import BinaryConditionals, TableConditionals
from .factor_graph import FactorGraph
from .layout import Layout
from .pairwise import PairwiseEnergy

__all__ = [
    "BinaryConditionals",
    "Energy",
    "FactorGraph",
    "Layout",
    "PairwiseEnergy",
    "TableConditionals",
]
