"""Sampling algorithms: Gibbs sampling, tempering, Metropolis chains and sequential Monte Carlo."""

from .gibbs import Product, spawn_generators, sweep
from .traces import trace_chains

__all__ = [
    "Product",
    "spawn_generators",
    "sweep",
    "trace_chains",
]
