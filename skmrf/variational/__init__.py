"""Variational inference: belief propagation, tree reweighting, mean field, mixtures."""

from .arrangement import Arrangement, arrange
from .belief_propagation import Beliefs, Propagation, belief_propagation, pass_messages
from .decimation import Decimated, decimate
from .mean_field import MeanField, clique_moments, mean_field
from .tree_reweighting import TreeReweighted, spanning_forests, tree_reweighted

__all__ = [
    "Arrangement",
    "Beliefs",
    "Decimated",
    "MeanField",
    "Propagation",
    "TreeReweighted",
    "arrange",
    "belief_propagation",
    "clique_moments",
    "decimate",
    "mean_field",
    "pass_messages",
    "spanning_forests",
    "tree_reweighted",
]
