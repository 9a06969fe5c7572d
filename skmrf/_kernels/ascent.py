"""First-order updates in one pass over the parameters."""

import numpy as np

from ._jit import kernel


@kernel
def adam_step(theta, gradient, mean, square, betas, corrections, rate, epsilon, out, sizes):
    """Running means in place; ``out`` and ``sizes``: new parameters and their step sizes.

    ``corrections`` multiply the running mean and the root of the running mean square.
    """
    kind = theta.dtype.type
    one, rate, epsilon = kind(1), kind(rate), kind(epsilon)
    b1, b2 = kind(betas[0]), kind(betas[1])
    c1, c2 = kind(corrections[0]), kind(corrections[1])
    for i in range(theta.size):
        g = gradient[i]
        m = b1 * mean[i] + (one - b1) * g
        v = b2 * square[i] + (one - b2) * g * g
        mean[i], square[i] = m, v
        sizes[i] = rate / (np.sqrt(v) * c2 + epsilon)
        out[i] = theta[i] + sizes[i] * m * c1


@kernel
def adam_sizes(square, rate, correction, epsilon, sizes):
    """Step sizes after :func:`adam_step`; ``correction`` is the second of its two."""
    kind = square.dtype.type
    rate, correction, epsilon = kind(rate), kind(correction), kind(epsilon)
    for i in range(square.size):
        sizes[i] = rate / (np.sqrt(square[i]) * correction + epsilon)


@kernel
def climb(theta, gradient, rate):
    """gradient = theta + rate * gradient, in place."""
    rate = gradient.dtype.type(rate)
    for i in range(theta.size):
        gradient[i] = theta[i] + rate * gradient[i]


@kernel
def blend(mean, value, share):
    """mean += share * (value - mean), in place."""
    share = mean.dtype.type(share)
    for i in range(mean.size):
        mean[i] += share * (value[i] - mean[i])
