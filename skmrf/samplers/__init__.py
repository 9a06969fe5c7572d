"""Sampling algorithms: Gibbs sampling, tempering, Metropolis chains and sequential Monte Carlo."""

from .gibbs import Product, spawn_generators, sweep
from .smc import Tempering
from .traces import trace_chains

__all__ = [
    "Product",
    "Tempering",
    "spawn_generators",
    "sweep",
    "trace_chains",
]
