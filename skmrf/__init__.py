"""Markov random fields for scikit-learn."""

from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__ as __version__

if TYPE_CHECKING:
    from ._data.vectorizer import SequenceVectorizer
    from .estimators.boltzmann_machine import BoltzmannMachine
    from .estimators.crbm import CRBMStructuredPredictor
    from .estimators.crf import CRF
    from .estimators.discrete_mrf import DiscreteMRF
    from .estimators.imputer import MRFImputer
    from .estimators.nnmrf.bayes_classifier import NNMRFBayesClassifier
    from .estimators.nnmrf.classifier import NNMRFClassifier
    from .estimators.nnmrf.density import NNMRFDensity
    from .estimators.nnmrf.potentials import GaussianPotentials, NetworkPotentials
    from .estimators.rbm import RBM
    from .estimators.structure_learner import MRFStructureLearner

__all__ = [
    "CRF",
    "RBM",
    "BoltzmannMachine",
    "CRBMStructuredPredictor",
    "DiscreteMRF",
    "GaussianPotentials",
    "MRFImputer",
    "MRFStructureLearner",
    "NNMRFBayesClassifier",
    "NNMRFClassifier",
    "NNMRFDensity",
    "NetworkPotentials",
    "SequenceVectorizer",
]

# Modules are imported when their names are first used, so that importing skmrf is fast.
_MODULES = {
    "BoltzmannMachine": "estimators.boltzmann_machine",
    "CRF": "estimators.crf",
    "CRBMStructuredPredictor": "estimators.crbm",
    "DiscreteMRF": "estimators.discrete_mrf",
    "GaussianPotentials": "estimators.nnmrf.potentials",
    "MRFImputer": "estimators.imputer",
    "MRFStructureLearner": "estimators.structure_learner",
    "NNMRFBayesClassifier": "estimators.nnmrf.bayes_classifier",
    "NNMRFClassifier": "estimators.nnmrf.classifier",
    "NNMRFDensity": "estimators.nnmrf.density",
    "NetworkPotentials": "estimators.nnmrf.potentials",
    "RBM": "estimators.rbm",
    "SequenceVectorizer": "_data.vectorizer",
    "TRUSTED_TYPES": "io.trusted_types",
}
_PACKAGES = {
    "datasets",
    "energies",
    "exact",
    "inference",
    "io",
    "learners",
    "likelihood",
    "metrics",
    "plot",
    "samplers",
    "structure",
    "training",
    "variational",
}


def __getattr__(name):
    """Import and return a name when it is first used."""
    if name in _MODULES:
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    elif name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    """Return the public names, also those that are not imported yet."""
    return sorted({*globals(), *__all__, *_MODULES, *_PACKAGES})
