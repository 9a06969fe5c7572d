"""Markov chains whose invariant distribution is a model, and tempered paths to a model."""

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
