"""Steps of optimizers, each computed in one loop over the parameters."""

import numpy as np

from ._jit import kernel


@kernel
def adam_step(theta, gradient, mean, square, betas, corrections, rate, epsilon, out, sizes):
    """Compute one step of the Adam optimiser.

    The running means ``mean`` and ``square`` are updated in place. ``out`` receives the parameters
    and ``sizes`` the step sizes. The two ``corrections`` are factors of the running mean and of the
    square root of the running mean square.
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
def adam_step_sizes(square, rate, correction, epsilon, sizes):
    """Set ``sizes`` to the step size of each parameter in an Adam step.

    ``correction`` is the second of the two corrections of :func:`adam_step`.
    """
    kind = square.dtype.type
    rate, correction, epsilon = kind(rate), kind(correction), kind(epsilon)
    for i in range(square.size):
        sizes[i] = rate / (np.sqrt(square[i]) * correction + epsilon)


@kernel
def gradient_step(theta, gradient, rate):
    """Overwrite ``gradient`` with the new parameters ``theta + rate * gradient``."""
    rate = gradient.dtype.type(rate)
    for i in range(theta.size):
        gradient[i] = theta[i] + rate * gradient[i]


@kernel
def update_running_mean(mean, value, share):
    """Move a running mean towards a new value: ``mean += share * (value - mean)``."""
    share = mean.dtype.type(share)
    for i in range(mean.size):
        mean[i] += share * (value[i] - mean[i])


@kernel
def add_and_project(vector, direction, factor, other):
    """Add ``factor * direction`` to ``vector``; return the inner product of the sum and ``other``.

    One thread computes it: BLAS would start several, which wait for each other if other programs
    run.
    """
    product = 0.0
    for i in range(vector.size):
        vector[i] += factor * direction[i]
        product += vector[i] * other[i]
    return product
