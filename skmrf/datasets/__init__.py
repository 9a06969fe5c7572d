"""Generators of random models, and fetchers of public data sets that also work offline."""

from .density import fetch_density_benchmark
from .ising import make_ising
from .multimodal import make_multimodal_mrf
from .satisfiability import make_weighted_3sat
from .sequences import enumerate_structured_sequences, make_structured_sequences
from .tables import make_random_mrf

__all__ = [
    "enumerate_structured_sequences",
    "fetch_density_benchmark",
    "make_ising",
    "make_multimodal_mrf",
    "make_random_mrf",
    "make_structured_sequences",
    "make_weighted_3sat",
]
