"""Exact inference: variable elimination, enumeration, sums over one layer."""

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
from .enumeration import LayerSum, TwoBlockSum
from .expectations import (
    Eliminated,
    exact_model,
    exact_tables,
    quick_exact_model,
)
from .tree_decomposition import BucketTree, Forecast, forecast

__all__ = [
    "BucketTree",
    "Eliminated",
    "Forecast",
    "ImpossibleEvidence",
    "LayerSum",
    "TwoBlockSum",
    "exact_model",
    "exact_tables",
    "expected_moments",
    "forecast",
    "log_partitions",
    "marginal_map",
    "maximise",
    "prepare",
    "quick_exact_model",
    "sample",
    "single_marginals",
]
