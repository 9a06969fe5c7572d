"""Metrics of label sequences and of synthetic rows."""

from .sequences import sequence_scores
from .two_sample import classifier_two_sample_test

__all__ = ["classifier_two_sample_test", "sequence_scores"]
