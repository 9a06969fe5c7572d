"""Questions to a model: marginals, log Z, most probable states, samples."""

from .queries import log_partition, map_assignment, marginal_map, marginals, sample

__all__ = [
    "log_partition",
    "map_assignment",
    "marginal_map",
    "marginals",
    "sample",
]
