"""Generators of random models, and fetchers of public data sets that also work offline."""

from .density import fetch_density_benchmark
from .ising import make_ising
from .tables import make_random_mrf

__all__ = ["fetch_density_benchmark", "make_ising", "make_random_mrf"]
