"""Deterministic inference: elimination, belief propagation, tree reweighting, mean field."""

from .arrangement import Arrangement, arrange
from .belief_propagation import Beliefs, Propagation, belief_propagation, pass_messages
from .decimation import Decimated, decimate
from .decomposition import BucketTree, Forecast, forecast
from .elimination import (
    ImpossibleEvidence,
    expected_moments,
    log_partitions,
    marginal_map,
    maximise,
    prepare,
    sample,
    single_marginals,
)
from .mean_field import MeanField, clique_moments, mean_field
from .reweighting import TreeReweighted, spanning_forests, tree_reweighted

__all__ = [
    "Arrangement",
    "Beliefs",
    "BucketTree",
    "Decimated",
    "Forecast",
    "ImpossibleEvidence",
    "MeanField",
    "Propagation",
    "TreeReweighted",
    "arrange",
    "belief_propagation",
    "clique_moments",
    "decimate",
    "expected_moments",
    "forecast",
    "log_partitions",
    "marginal_map",
    "maximise",
    "mean_field",
    "pass_messages",
    "prepare",
    "sample",
    "single_marginals",
    "spanning_forests",
    "tree_reweighted",
]
