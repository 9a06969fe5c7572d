"""Warnings that point at the line of the caller."""

import os
import sys
import warnings

import joblib
import sklearn


def warn_caller(message, category=UserWarning):
    """Warn of the first line outside of this package, scikit-learn and joblib that led here."""
    package = os.path.dirname(os.path.dirname(__file__))
    others = (os.path.dirname(file) for file in (sklearn.__file__, joblib.__file__))
    inside = (package, *others)
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
