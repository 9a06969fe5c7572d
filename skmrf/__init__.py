"""Markov random fields for scikit-learn."""

from ._version import __version__
from .boltzmann import BoltzmannMachine
from .discrete import DiscreteMRF

__all__ = ["BoltzmannMachine", "DiscreteMRF", "__version__"]
