"""Markov chains that leave a model's distribution invariant, and paths towards it."""

from .annealing import anneal, averages, check_possible, draw, draw_given
from .chain import Chain, ChainSettings, Draws, check_order
from .gibbs import BLOCK, Product, blocks_of, spawn_generators, sweep
from .guided import Metropolis
from .independence import chain_states, metropolis
from .known import KnownStates, annealed_states
from .layers import alternate
from .parallel_tempering import Replicas, adapted, check_ladder, parallel_tempering
from .paths import Interpolation, Tempering
from .smc import Climb, climb, equal, resample
from .tempered_transitions import tempered_transition
from .traces import ChainTraces, trace_chains

__all__ = [
    "BLOCK",
    "Chain",
    "ChainSettings",
    "ChainTraces",
    "Climb",
    "Draws",
    "Interpolation",
    "KnownStates",
    "Metropolis",
    "Product",
    "Replicas",
    "Tempering",
    "adapted",
    "alternate",
    "anneal",
    "annealed_states",
    "averages",
    "blocks_of",
    "chain_states",
    "check_ladder",
    "check_order",
    "check_possible",
    "climb",
    "draw",
    "draw_given",
    "equal",
    "metropolis",
    "parallel_tempering",
    "resample",
    "spawn_generators",
    "sweep",
    "tempered_transition",
    "trace_chains",
]
