"""Deterministic inference: exact elimination on a bucket tree."""

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
    "BucketTree",
    "Forecast",
    "ImpossibleEvidence",
    "MeanField",
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
