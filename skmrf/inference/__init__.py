"""Questions to a model: marginals, log Z, most probable states, samples."""

from .queries import log_partition, map_assignment, marginal_map, marginals, sample
from .row_queries import row_log_partitions, row_marginals, row_modes, row_samples

__all__ = [
    "log_partition",
    "map_assignment",
    "marginal_map",
    "marginals",
    "row_log_partitions",
    "row_marginals",
    "row_modes",
    "row_samples",
    "sample",
]
