"""Log partition function with lower and upper limits, exact or estimated."""

from .ais import ais, raise_bound
from .bounds import log_partition_bounds
from .chained_bp import bpchain

__all__ = [
    "ais",
    "bpchain",
    "log_partition_bounds",
    "raise_bound",
]
