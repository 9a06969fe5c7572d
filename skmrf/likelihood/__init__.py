"""Log partition function with lower and upper limits, exact or estimated."""

from .ais import ais, raise_bound
from .bounds import log_partition_bounds

__all__ = [
    "ais",
    "log_partition_bounds",
    "raise_bound",
]
