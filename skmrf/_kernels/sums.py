"""Softplus sums and unit means of an RBM layer in float64, with one exponential per unit.

A call of exp costs about 4 ns, because numba has no vector library. The exponential of this module
costs about 0.5 ns. Its relative error is below 2e-15 if the result is above 1e-17.
"""

import numpy as np

from ._jit import inlined, kernel
from .layers import log_product

LOG2_E = 1.4426950408889634
# log 2 in two parts, the first with few bits, so that n * LOG_2 is exact.
LOG_2, LOG_2_REST = 6.93145751953125e-1, 1.42860682030941723212e-6
LOWEST = -708.0  # smaller arguments give less than the smallest normal number
# exp(r) = 1 + r + r^2 (C2 + C3 r + ...), the Taylor series, for |r| <= log(2) / 2.
C2, C3, C4, C5, C6, C7 = 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040
C8, C9, C10, C11, C12 = 1 / 40320, 1 / 362880, 1 / 3628800, 1 / 39916800, 1 / 479001600
C13 = 1 / 6227020800


@inlined
def fill_exponentials(x, bits):
    """Replace each entry x <= 0 of an array by ``exp(max(x, -708))``.

    ``bits`` is scratch of dtype int64.
    """
    for j in range(x.size):
        v = max(x[j], LOWEST)
        n = np.floor(v * LOG2_E + 0.5)
        r = v - n * LOG_2 - n * LOG_2_REST
        p = C8 + r * (C9 + r * (C10 + r * (C11 + r * (C12 + r * C13))))
        p = C2 + r * (C3 + r * (C4 + r * (C5 + r * (C6 + r * (C7 + r * p)))))
        x[j] = p * r * r + r + 1.0
        bits[j] = np.int64(np.int32(n) + np.int32(1023)) << np.int64(52)  # the exponent of a float
    scale = bits.view(np.float64)
    for j in range(x.size):
        x[j] *= scale[j]


@kernel
def softplus_sums_and_means(activation, bias, sums, means):
    """Write the mean of each unit, and each row's sum of softplus(activation + bias) over units.

    ``means`` receives the probabilities of the state 1. It is shaped like ``activation``, or has no
    rows if the probabilities are not needed.
    """
    n = bias.size
    x, bits = np.empty(n), np.empty(n, np.int64)
    for c in range(activation.shape[0]):
        total = 0.0
        for j in range(n):
            y = activation[c, j] + bias[j]
            total += max(y, 0.0)
            x[j] = -abs(y)
        fill_exponentials(x, bits)
        sums[c] = log_product(x, total)
        if means.shape[0] > 0:
            for j in range(n):
                one = 1.0 / (1.0 + x[j])
                means[c, j] = one if activation[c, j] + bias[j] >= 0.0 else x[j] * one
