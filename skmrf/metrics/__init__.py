"""Metrics: tests of synthetic rows."""

from .two_sample import classifier_two_sample_test

__all__ = ["classifier_two_sample_test"]
