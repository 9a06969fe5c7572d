"""Log partition functions that come with an interval."""

from .ais import ais
from .bounds import exact_fits, exact_log_partition, log_partition_bounds
from .chained import bpchain

__all__ = ["ais", "bpchain", "exact_fits", "exact_log_partition", "log_partition_bounds"]
