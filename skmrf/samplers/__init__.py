"""Markov chains that leave a model's distribution invariant, and paths towards it."""

from .annealing import anneal, averages, check_possible, draw
from .chain import Chain, ChainSettings, Draws, check_order
from .gibbs import BLOCK, Product, spawn_generators, sweep
from .independence import chain_states, metropolis
from .known import KnownStates, annealed_states

__all__ = [
    "BLOCK",
    "Chain",
    "ChainSettings",
    "Draws",
    "KnownStates",
    "Product",
    "anneal",
    "annealed_states",
    "averages",
    "chain_states",
    "check_order",
    "check_possible",
    "draw",
    "metropolis",
    "spawn_generators",
    "sweep",
]
