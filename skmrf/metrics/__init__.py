"""Metrics of predictions."""

from .sequences import sequence_scores

__all__ = ["sequence_scores"]
