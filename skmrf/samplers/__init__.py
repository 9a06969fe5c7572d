"""Markov chains that leave a model's distribution invariant, and paths towards it."""

from .annealing import anneal, averages, check_possible, draw
from .gibbs import BLOCK, Product, spawn_generators, sweep

__all__ = [
    "BLOCK",
    "Product",
    "anneal",
    "averages",
    "check_possible",
    "draw",
    "spawn_generators",
    "sweep",
]
