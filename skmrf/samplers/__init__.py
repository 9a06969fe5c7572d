"""Markov chains that leave a model's distribution invariant, and paths towards it."""

from .chained_bp import Chain, ChainSettings, Draws, check_order
from .enumerated_states import KnownStates, annealed_states
from .gibbs import BLOCK, Product, alternate, blocks_of, spawn_generators, sweep
from .gibbs_queries import anneal, averages, check_possible, draw, draw_given
from .independence_metropolis import chain_states, metropolis
from .metropolis import Metropolis
from .parallel_tempering import Replicas, adapted, check_ladder, parallel_tempering
from .smc import Climb, Interpolation, Tempering, climb, equal, resample
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
