"""Sampling algorithms: Gibbs sampling, tempering, Metropolis chains and sequential Monte Carlo."""

from .gibbs import Product, blocks_of, spawn_generators, sweep
from .parallel_tempering import parallel_tempering
from .smc import Tempering
from .tempered_transitions import tempered_transition
from .traces import trace_chains

__all__ = [
    "Product",
    "Tempering",
    "blocks_of",
    "parallel_tempering",
    "spawn_generators",
    "sweep",
    "tempered_transition",
    "trace_chains",
]
