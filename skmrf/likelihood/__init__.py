"""Estimation of the log partition function, with intervals."""

from .ais import ais
from .bounds import log_partition_bounds
from .chained_bp import bpchain

__all__ = [
    "ais",
    "bpchain",
    "log_partition_bounds",
]
