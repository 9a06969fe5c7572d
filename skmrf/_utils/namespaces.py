"""Arithmetic that is written once for arrays of numpy and of JAX."""

import numpy as np
from scipy.special import expit


def namespace(array):
    """Return the module with the functions of an array: ``numpy``, or ``jax.numpy``."""
    return getattr(array, "__array_namespace__", lambda: np)()


def is_numpy(array):
    """Return whether an array is one of numpy, or a list or sparse matrix."""
    return namespace(array) is np


def sigmoid(x):
    """Return ``1 / (1 + exp(-x))``."""
    return expit(x) if is_numpy(x) else 1.0 / (1.0 + namespace(x).exp(-x))


def without_diagonal(square):
    """Return a square matrix with zeros on its diagonal; an array of numpy is overwritten."""
    if is_numpy(square):
        np.fill_diagonal(square, 0.0)
        return square
    return square * (1.0 - np.eye(len(square), dtype=np.float32))
