"""Arithmetic of the update of parameters, for arrays of numpy and of JAX."""

import numpy as np

from .._kernels.ascent import update_running_mean


class InPlace:
    """Arithmetic of numpy arrays, which reuses arrays that are no longer needed."""

    @staticmethod
    def subtract(gradient, decay):
        """Return the gradient minus the penalty's gradient, in the arrays of the latter."""
        return {k: np.subtract(g, decay[k], out=decay[k]) for k, g in gradient.items()}

    @staticmethod
    def root_mean_square(gradient):
        """Return the root of the mean square over the arrays of a gradient."""
        mean_square = np.mean([np.vdot(g, g) / g.size for g in gradient.values() if g.size])
        return float(np.sqrt(mean_square))

    @staticmethod
    def step(optimizer, *args):
        """Return the result of a step of an optimizer, which may modify the gradient."""
        return optimizer.step(*args)

    @staticmethod
    def observe(rate, *args):
        """Return the result of the observation of a gradient by a schedule."""
        return rate.observe(*args)

    @staticmethod
    def move_mean(mean, theta, share):
        """Move the running mean of the parameters towards new parameters, and return it."""
        for k, v in theta.items():
            update_running_mean(mean[k].reshape(-1), v.reshape(-1), share)
        return mean


class Pure:
    """Arithmetic of arrays of JAX, which changes no array."""

    @staticmethod
    def subtract(gradient, decay):
        """Return the gradient minus the penalty's gradient."""
        return {k: g - decay[k] for k, g in gradient.items()}

    @staticmethod
    def root_mean_square(gradient):
        """Return the root of the mean square over the arrays of a gradient."""
        squares = [(g * g).mean() for g in gradient.values() if g.size]
        return (sum(squares) / len(squares)) ** 0.5

    @staticmethod
    def step(optimizer, theta, gradient, *args):
        """Return the result of a step of an optimizer."""
        return optimizer.pure_step(theta, dict(gradient), *args)

    @staticmethod
    def observe(rate, *args):
        """Return the result of the observation of a gradient by a schedule."""
        return rate.pure_observe(*args)

    @staticmethod
    def move_mean(mean, theta, share):
        """Return the running mean of the parameters after new parameters."""
        return {k: v + share * (theta[k] - v) for k, v in mean.items()}
