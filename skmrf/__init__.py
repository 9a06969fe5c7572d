"""Markov random fields for scikit-learn."""

from ._version import __version__
from .boltzmann import BoltzmannMachine
from .crbm import CRBMStructuredPredictor
from .discrete import DiscreteMRF
from .nnmrf import NNMRFDensity
from .nnmrf_classifier import NNMRFClassifier
from .rbm import RBM
from .structure import MRFStructureLearner

__all__ = [
    "RBM",
    "BoltzmannMachine",
    "CRBMStructuredPredictor",
    "DiscreteMRF",
    "MRFStructureLearner",
    "NNMRFClassifier",
    "NNMRFDensity",
    "__version__",
]
