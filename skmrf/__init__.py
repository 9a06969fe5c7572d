"""Markov random fields for scikit-learn."""

from ._version import __version__
from .boltzmann import BoltzmannMachine
from .crbm import CRBMStructuredPredictor
from .discrete import DiscreteMRF
from .rbm import RBM

__all__ = ["RBM", "BoltzmannMachine", "CRBMStructuredPredictor", "DiscreteMRF", "__version__"]
