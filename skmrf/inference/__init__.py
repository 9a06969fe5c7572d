"""Inference: log partition function, marginals, most probable states and samples."""

from .queries import log_partition, map_assignment, marginal_map, marginals, sample

__all__ = [
    "log_partition",
    "map_assignment",
    "marginal_map",
    "marginals",
    "sample",
]
