"""Markov chains that leave a model's distribution invariant, and paths towards it."""

from .gibbs import BLOCK, Product, spawn_generators, sweep

__all__ = ["BLOCK", "Product", "spawn_generators", "sweep"]
