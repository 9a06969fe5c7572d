"""Warnings that point to the line of user code that caused them."""

import os
import sys
import warnings

import joblib
import sklearn


class LogPartitionWarning(UserWarning):
    """Warning about an estimate of log Z with a wide interval, or without an upper limit."""


def warn_caller(message, category=UserWarning):
    """Warn, and show the line of the first caller outside of skmrf, scikit-learn and joblib."""
    package = os.path.dirname(os.path.dirname(__file__))
    dependencies = (os.path.dirname(file) for file in (sklearn.__file__, joblib.__file__))
    skipped_folders = (package, *dependencies)
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(skipped_folders):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
