"""Training loop, optimizers, learning rates, penalties, callbacks and checkpoints."""

from .checkpoints import Checkpoint
from .energy_fit import fit_energy
from .optimizers import SGD, Adam
from .reports import EarlyStopping, ScoreMonitor
from .schedules import AdaptiveRate

__all__ = [
    "SGD",
    "Adam",
    "AdaptiveRate",
    "Checkpoint",
    "EarlyStopping",
    "ScoreMonitor",
    "fit_energy",
]
