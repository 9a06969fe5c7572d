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
from .exact import (
    Eliminated,
    exact_model,
    exact_tables,
    mean_log_potential,
    quick_exact_model,
)
from .mean_field import MeanField, clique_moments, mean_field
from .reweighting import TreeReweighted, spanning_forests, tree_reweighted
from .sums import LayerSum, TwoBlockSum

__all__ = [
    "Arrangement",
    "Beliefs",
    "BucketTree",
    "Decimated",
    "Eliminated",
    "Forecast",
    "ImpossibleEvidence",
    "LayerSum",
    "MeanField",
    "Propagation",
    "TreeReweighted",
    "TwoBlockSum",
    "arrange",
    "belief_propagation",
    "clique_moments",
    "decimate",
    "exact_model",
    "exact_tables",
    "expected_moments",
    "forecast",
    "log_partitions",
    "marginal_map",
    "maximise",
    "mean_field",
    "mean_log_potential",
    "pass_messages",
    "prepare",
    "quick_exact_model",
    "sample",
    "single_marginals",
    "spanning_forests",
    "tree_reweighted",
]
