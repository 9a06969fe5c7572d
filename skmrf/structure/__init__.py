"""Strategies that decide which pairs of columns are edges of a graph."""

from .penalised import Nodewise, Penalized
from .removal import RemovalWhileLearning
from .thresholding import Thresholding
from .wald import WaldTests

__all__ = ["Nodewise", "Penalized", "RemovalWhileLearning", "Thresholding", "WaldTests"]
