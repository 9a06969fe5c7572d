"""Log partition functions that come with an interval."""

from .ais import ais
from .bounds import log_partition_bounds
from .chained_bp import bpchain

__all__ = [
    "ais",
    "bpchain",
    "log_partition_bounds",
]
