"""Deterministic inference: exact elimination on a bucket tree."""

from .decomposition import BucketTree, Forecast, forecast
from .elimination import (
    ImpossibleEvidence,
    expected_moments,
    log_partitions,
    maximise,
    prepare,
    sample,
    single_marginals,
)

__all__ = [
    "BucketTree",
    "Forecast",
    "ImpossibleEvidence",
    "expected_moments",
    "forecast",
    "log_partitions",
    "maximise",
    "prepare",
    "sample",
    "single_marginals",
]
