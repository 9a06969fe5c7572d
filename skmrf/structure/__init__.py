"""Search strategies of structure learning: they select the pairs of columns that are edges."""

from .penalised import Nodewise, Penalized
from .removal import RemovalWhileLearning, Thresholding, WaldTests

__all__ = ["Nodewise", "Penalized", "RemovalWhileLearning", "Thresholding", "WaldTests"]
