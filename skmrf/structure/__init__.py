"""Search strategies of structure learning: which pairs of columns are edges."""

from .penalised import Nodewise, Penalized
from .removal import RemovalWhileLearning
from .thresholding import Thresholding
from .wald import WaldTests

__all__ = ["Nodewise", "Penalized", "RemovalWhileLearning", "Thresholding", "WaldTests"]
