"""Markov random fields for scikit-learn."""

from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
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

# Names are imported when they are first asked for, so that no model costs the import of all.
_FILES = {
    "BoltzmannMachine": "boltzmann",
    "CRBMStructuredPredictor": "crbm",
    "DiscreteMRF": "discrete",
    "MRFStructureLearner": "structure",
    "NNMRFClassifier": "nnmrf_classifier",
    "NNMRFDensity": "nnmrf",
    "RBM": "rbm",
    "TRUSTED_TYPES": "_trusted",
}
_ROOMS = {
    "datasets",
    "energies",
    "inference",
    "io",
    "learners",
    "learning",
    "likelihood",
    "messages",
    "plot",
    "samplers",
    "structure",
}


def __getattr__(name):
    if name in _FILES:
        value = getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
    elif name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__, *_FILES, *_ROOMS})
