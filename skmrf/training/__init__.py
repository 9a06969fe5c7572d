"""Training loop, optimizers, learning rates, penalties, callbacks and checkpoints."""

from .checkpoints import Checkpoint
from .optimizers import SGD, Adam, Momentum
from .reports import EarlyStopping, ScoreMonitor
from .schedules import AdaptiveRate, ConstantRate, InverseRate, StepRate

__all__ = [
    "SGD",
    "Adam",
    "AdaptiveRate",
    "Checkpoint",
    "ConstantRate",
    "EarlyStopping",
    "InverseRate",
    "Momentum",
    "ScoreMonitor",
    "StepRate",
]
