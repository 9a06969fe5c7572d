"""Log partition functions that come with an interval."""

from .ais import ais
from .bounds import exact_fits, exact_log_partition, log_partition_bounds
from .chained_bp import bpchain
from .intervals import TRUSTED_ESS
from .neural import neural_log_partition

__all__ = [
    "TRUSTED_ESS",
    "ais",
    "bpchain",
    "exact_fits",
    "exact_log_partition",
    "log_partition_bounds",
    "neural_log_partition",
]
