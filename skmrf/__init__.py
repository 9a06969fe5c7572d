"""Markov random fields for scikit-learn."""

from ._version import __version__
from .discrete import DiscreteMRF

__all__ = ["DiscreteMRF", "__version__"]
