"""Log partition functions that come with an interval."""

from .ais import ais
from .bounds import exact_fits, exact_log_partition, log_partition_bounds

__all__ = ["ais", "exact_fits", "exact_log_partition", "log_partition_bounds"]
