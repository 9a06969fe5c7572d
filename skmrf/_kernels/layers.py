"""Means, samples and softplus sums of one layer of a bipartite model, given the other layer.

``activation`` is the product of the other layer's states and the weights, without the bias. It has
one row per chain. ``bias`` has one row for all chains, or one row per chain. The logit of a unit is
``scale * (activation + bias) + shift``. The loops run over one row of scratch, so that they are
vectorised. Sums of softplus multiply several factors in [1, 2] before they compute one logarithm.
"""

import numpy as np

from ._jit import inlined, kernel
from .exponential import exponentials, logarithms

GROUP = 64  # factors of at most 2 per logarithm, so that their product does not overflow


@kernel
def unit_means(activation, bias, out):
    """Write the probability that each unit is 1 to ``out``, shape (n_chains, n_units)."""
    one = activation.dtype.type(1)
    n, last = bias.shape[1], bias.shape[0] - 1
    x = np.empty(n, activation.dtype)
    for c in range(activation.shape[0]):
        row = min(c, last)
        for j in range(n):
            x[j] = -(activation[c, j] + bias[row, j])
        exponentials(x)
        for j in range(n):
            out[c, j] = one / (one + x[j])


@inlined
def log_product(x, total):
    """Return ``total`` plus the sum of ``log(1 + x_j)`` over all j, for x_j in [0, 1]."""
    for first in range(0, x.size, GROUP):
        product = 1.0
        for j in range(first, min(first + GROUP, x.size)):
            product *= 1.0 + x[j]
        total += np.log(product)
    return total


@kernel
def softplus_sums(activation, bias, scale, out):
    """Write the sum over units of log(1 + exp(scale * (activation + bias))), for each row."""
    n, last = bias.shape[1], bias.shape[0] - 1
    x = np.empty(n, activation.dtype)
    for c in range(activation.shape[0]):
        row, total = min(c, last), 0.0
        for j in range(n):
            y = activation.dtype.type(scale) * (activation[c, j] + bias[row, j])
            total += max(y, 0.0)
            x[j] = -abs(y)
        exponentials(x)
        out[c] = log_product(x, total)


@kernel
def draw_units(activation, bias, scale, shift, noise, out):
    """Draw each unit: 1 if its uniform random number is below its probability of 1, else 0."""
    kind = activation.dtype.type
    one, zero = kind(1), kind(0)
    half = kind(np.finfo(activation.dtype).eps / 4)  # keeps the noise above 0 and below 1, like p
    scale = kind(scale)
    n, last = bias.shape[1], bias.shape[0] - 1
    x = np.empty(n, activation.dtype)
    for c in range(activation.shape[0]):
        row = min(c, last)
        for j in range(n):
            x[j] = -(scale * (activation[c, j] + bias[row, j]) + shift[j])
        exponentials(x)
        for j in range(n):
            out[c, j] = one if (noise[c, j] + half) * (one + x[j]) <= one else zero


@inlined
def logistic_noise(words, out, bits):
    """Convert random integers to logistic random numbers, whose cumulative function is a sigmoid.

    ``words`` and ``out`` have entries of the same size. The sign bit of an integer is ignored.
    ``bits`` is scratch for the logarithms.
    """
    half, kind = out.dtype.type(0.5), words.dtype.type
    top = kind(np.iinfo(words.dtype).max)
    for j in range(out.size):
        low = words[j] & top
        high = kind(top - low)
        out[j] = (out.dtype.type(low) + half) / (out.dtype.type(high) + half)
    logarithms(out, bits)


@kernel
def draw_by_words(activation, bias, scale, words):
    """Replace the activations of a layer by states: 1 if the logit exceeds its logistic noise.

    ``bias`` has one entry per unit, and ``words`` has a random integer for each unit of each chain.
    """
    kind = activation.dtype.type
    one, zero, scale = kind(1), kind(0), kind(scale)
    n = activation.shape[1]
    noise, bits = np.empty(n, activation.dtype), np.empty(n, np.int32)
    for c in range(activation.shape[0]):
        logistic_noise(words[c * n : (c + 1) * n], noise, bits)
        for j in range(n):
            is_one = scale * (activation[c, j] + bias[j]) > noise[j]
            activation[c, j] = one if is_one else zero
