"""The one learning loop and what it is made of."""

from .callbacks import EarlyStopping, ScoreMonitor
from .loop import LoopState, Settings, SilentReports, resume, run, start
from .optimizers import OPTIMIZERS, SGD, Adam, Momentum
from .penalties import L1, L2, GroupL1, NoPenalty, make_penalty
from .rates import AdaptiveRate, ConstantRate, InverseRate, StepRate, make_rate
from .solvers import maximise_deterministic

__all__ = [
    "L1",
    "L2",
    "OPTIMIZERS",
    "SGD",
    "Adam",
    "AdaptiveRate",
    "ConstantRate",
    "EarlyStopping",
    "GroupL1",
    "InverseRate",
    "LoopState",
    "Momentum",
    "NoPenalty",
    "ScoreMonitor",
    "Settings",
    "SilentReports",
    "StepRate",
    "make_penalty",
    "make_rate",
    "maximise_deterministic",
    "resume",
    "run",
    "start",
]
