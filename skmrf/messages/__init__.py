"""Deterministic inference: exact elimination, belief propagation, mean field."""

from .arrangement import Arrangement, arrange
from .belief_propagation import Beliefs, Propagation, belief_propagation
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

__all__ = [
    "Arrangement",
    "Beliefs",
    "BucketTree",
    "Forecast",
    "ImpossibleEvidence",
    "MeanField",
    "Propagation",
    "arrange",
    "belief_propagation",
    "clique_moments",
    "expected_moments",
    "forecast",
    "log_partitions",
    "marginal_map",
    "maximise",
    "mean_field",
    "prepare",
    "sample",
    "single_marginals",
]
