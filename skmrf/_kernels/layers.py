"""Two-state units of a layer given the other layer: means, draws, softplus sums.

``activation`` is what the other layer sends, without the bias, one row a chain; the logit of a
unit is ``scale * (activation + bias) + shift``. Loops without calls or branches, so that they are
vectorised; sums of softplus multiply several factors in [1, 2] before they take one logarithm.
"""

import numpy as np

from ._jit import inlined, kernel

GROUP = 32  # factors of at most 2 before a logarithm


@kernel
def unit_means(activation, bias, out):
    """Probability that a unit is 1."""
    for c in range(activation.shape[0]):
        for j in range(bias.size):
            out[c, j] = 1.0 / (1.0 + np.exp(-(activation[c, j] + bias[j])))


@kernel
def softplus_sums(activation, bias, scale, out):
    """sum over units of log(1 + exp(scale * (activation + bias)))."""
    for c in range(activation.shape[0]):
        out[c] = softplus_row(activation[c], bias, scale)


@inlined
def softplus_row(activation, bias, scale):
    """sum over one row; max(x, 0) apart, so that no factor overflows."""
    total, product = 0.0, 1.0
    for j in range(bias.size):
        x = scale * (activation[j] + bias[j])
        total += max(x, 0.0)
        product *= 1.0 + np.exp(-abs(x))
        if j % GROUP == GROUP - 1:
            total += np.log(product)
            product = 1.0
    return total + np.log(product)


@kernel
def draw_units(activation, bias, scale, shift, noise, out):
    """1 where uniform noise is below the probability of being 1."""
    for c in range(activation.shape[0]):
        for j in range(bias.size):
            x = scale * (activation[c, j] + bias[j]) + shift[j]
            out[c, j] = 1 if noise[c, j] * (1.0 + np.exp(-x)) < 1.0 else 0
