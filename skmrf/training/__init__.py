"""The training loop and its parts."""

from .callbacks import EarlyStopping, ScoreMonitor
from .checkpoints import Checkpoint, NoCheckpoint, form_of
from .data_moments import (
    complete_moments,
    count_never,
    pair_facts,
    resolution,
    warn_unbounded,
)
from .held_out import held_out_score, layered_score
from .initial_values import independent_start, log_odds
from .loop import run
from .optimizers import OPTIMIZERS, SGD, Adam, Momentum, make_optimizer
from .penalties import L1, L2, GroupL1, NoPenalty, make_penalty
from .reports import EpochReports, PartReports, SilentReports, warn_interrupted
from .schedules import AdaptiveRate, ConstantRate, InverseRate, StepRate, make_rate
from .settings import MIN_UPDATES, Settings
from .solvers import make_solver
from .state import LoopState, resume, start

__all__ = [
    "L1",
    "L2",
    "MIN_UPDATES",
    "OPTIMIZERS",
    "SGD",
    "Adam",
    "AdaptiveRate",
    "Checkpoint",
    "ConstantRate",
    "EarlyStopping",
    "EpochReports",
    "GroupL1",
    "InverseRate",
    "LoopState",
    "Momentum",
    "NoCheckpoint",
    "NoPenalty",
    "PartReports",
    "ScoreMonitor",
    "Settings",
    "SilentReports",
    "StepRate",
    "complete_moments",
    "count_never",
    "form_of",
    "held_out_score",
    "independent_start",
    "layered_score",
    "log_odds",
    "make_optimizer",
    "make_penalty",
    "make_rate",
    "make_solver",
    "pair_facts",
    "resolution",
    "resume",
    "run",
    "start",
    "warn_interrupted",
    "warn_unbounded",
]
