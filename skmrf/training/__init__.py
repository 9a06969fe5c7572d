"""Training loop, optimizers, learning rates, penalties, callbacks and checkpoints."""

from .checkpoints import Checkpoint
from .optimizers import SGD, Adam
from .reports import EarlyStopping, ScoreMonitor
from .schedules import AdaptiveRate, ConstantRate

__all__ = [
    "SGD",
    "Adam",
    "AdaptiveRate",
    "Checkpoint",
    "ConstantRate",
    "EarlyStopping",
    "ScoreMonitor",
]
