"""Means, samples and softplus sums of one layer of a bipartite model, given the other layer.

``activation`` is the product of the other layer's states and the weights, without the bias. It has
one row per chain. ``bias`` has one row for all chains, or one row per chain. The logit of a unit is
``scale * (activation + bias) + shift``. The loops run over one row of scratch, so that they are
vectorised. Sums of softplus multiply several factors in [1, 2] before they compute one logarithm.

A call of exp costs about 4 ns, because numba has no vector library. The exponential of
``fill_exponentials``, in float64, costs about 0.5 ns. Its relative error is below 2e-15 if the
result is above 1e-17.
"""

import numpy as np

from ._jit import assume_distinct, borrowed, inlined, kernel
from .exponential import ONE_BITS, UNUSED_BITS, exponentials, logarithms, uniform_odds
from .products import multiply

GROUP = 64  # factors of at most 2 per logarithm, so that their product does not overflow
LOG2_E = 1.4426950408889634
# log 2 in two parts, the first with few bits, so that n * LOG_2 is exact.
LOG_2, LOG_2_REST = 6.93145751953125e-1, 1.42860682030941723212e-6
LOWEST = -708.0  # smaller arguments give less than the smallest normal number
# exp(r) = 1 + r + r^2 (C2 + C3 r + ...), the Taylor series, for |r| <= log(2) / 2.
C2, C3, C4, C5, C6, C7 = 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040
C8, C9, C10, C11, C12 = 1 / 40320, 1 / 362880, 1 / 3628800, 1 / 39916800, 1 / 479001600
C13 = 1 / 6227020800
BLOCK = 64  # chains with the same random generator
N_STREAMS = 16  # parallel generators, so that loops are vectorised
# Shifts of xoshiro256++ (D. Blackman and S. Vigna, ACM Trans. Math. Softw. 47, 2021).
WIDTH, TURN, SHIFT, LAST_TURN = np.uint64(64), np.uint64(23), np.uint64(17), np.uint64(45)
# Constants of splitmix64 (G. Steele, D. Lea and C. Flood, OOPSLA 2014).
STEP = np.uint64(0x9E3779B97F4A7C15)
FACTORS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)
MIX_SHIFTS = np.array([30, 27, 31], dtype=np.uint64)


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


@inlined
def start_streams(seeds, streams):
    """Set the states of parallel generators, shape (4, N_STREAMS), from four random integers.

    Row r contains the numbers of the generator splitmix64 with the seed ``seeds[r]``.
    """
    for r in range(4):
        word = seeds[r]
        for k in range(N_STREAMS):
            word += STEP
            mixed = (word ^ (word >> MIX_SHIFTS[0])) * FACTORS[0]
            mixed = (mixed ^ (mixed >> MIX_SHIFTS[1])) * FACTORS[1]
            streams[r, k] = mixed ^ (mixed >> MIX_SHIFTS[2])


@inlined
def fill_words(streams, words):
    """Fill an array with random integers from parallel generators of the kind xoshiro256++.

    ``streams`` has the states of the generators, shape (4, N_STREAMS). The size of ``words`` is a
    multiple of N_STREAMS.
    """
    first, second, third, fourth = streams[0], streams[1], streams[2], streams[3]
    for start in range(0, words.size, N_STREAMS):
        for k in range(N_STREAMS):
            a, b, c, d = first[k], second[k], third[k], fourth[k]
            total = a + d
            words[start + k] = ((total << TURN) | (total >> (WIDTH - TURN))) + a
            c ^= a
            d ^= b
            first[k], second[k], third[k] = a ^ d, b ^ c, c ^ (b << SHIFT)
            fourth[k] = (d << LAST_TURN) | (d >> (WIDTH - LAST_TURN))


@inlined
def n_words(size, itemsize):
    """Return how many integers of 64 bits contain ``size`` integers of ``itemsize`` bytes."""
    return -(-size * itemsize // (8 * N_STREAMS)) * N_STREAMS


@kernel
def logistic_noise(streams, words, out, bits):
    """Draw logistic random numbers, whose cumulative distribution function is a sigmoid.

    ``streams`` has the states of the random generators. ``words`` and ``bits`` are scratch:
    ``words`` has dtype uint64 and at least :func:`n_words` entries, and ``bits`` is for the
    logarithms.
    """
    assume_distinct()
    streams, words, out, bits = borrowed(streams), borrowed(words), borrowed(out), borrowed(bits)
    fill_words(streams, words[: n_words(out.size, out.itemsize)])
    uniform_odds(words, out)
    logarithms(out, bits)


@kernel
def uniforms(streams, words, out):
    """Draw uniform random numbers in 0 .. 1, without 1.

    ``streams`` has the states of the random generators. ``words`` is scratch of the size of
    ``out``, a multiple of N_STREAMS, with dtype uint64.
    """
    assume_distinct()
    streams, words, out = borrowed(streams), borrowed(words), borrowed(out)
    fill_words(streams, words)
    for j in range(out.size):
        out[j] = np.uint64((words[j] >> UNUSED_BITS) | ONE_BITS).view(np.float64) - 1.0


@kernel
def draw_layer(activation, bias, scale, shift, seeds):
    """Replace the activations of a layer by states: 1 if the logit exceeds its logistic noise.

    The logit is ``scale * (activation + bias) + shift``. ``bias`` has one row, or one for each
    chain, and ``shift`` has one entry per unit. ``seeds`` has four random integers for each block
    of BLOCK chains.
    """
    activation = borrowed(activation)
    kind = activation.dtype.type
    one, zero, scale = kind(1), kind(0), kind(scale)
    n, last = activation.shape[1], bias.shape[0] - 1
    noise, bits = np.empty(n, activation.dtype), np.empty(n, np.int32)
    words = np.empty(n_words(n, activation.itemsize), np.uint64)
    streams = np.empty((4, N_STREAMS), np.uint64)
    for c in range(activation.shape[0]):
        if c % BLOCK == 0:
            start_streams(seeds[c // BLOCK], streams)
        logistic_noise(streams, words, noise, bits)
        row = min(c, last)
        for j in range(n):
            is_one = scale * (activation[c, j] + bias[row, j]) + shift[j] > noise[j]
            activation[c, j] = one if is_one else zero


@inlined
def copy_rows(source, target):
    """Copy a matrix into one of the same shape, which can have another data type."""
    for c in range(target.shape[0]):
        for i in range(target.shape[1]):
            target[c, i] = source[c, i]


@inlined
def take_rows(array, first, last):
    """Return some rows of an array, or its only row if that applies to all chains."""
    return array if array.shape[0] == 1 else array[first:last]


@kernel
def sweep_from_hidden(
    product, weights, visible_bias, hidden_bias, seeds, H, X, means, states, first, last
):
    """Run Gibbs sweeps of the chains ``first .. last``, starting from their hidden states ``H``.

    A sweep samples visible given hidden units, then hidden given visible units. ``X`` receives the
    visible states of the last sweep, ``means`` the means of the hidden units given ``X``, and
    ``states`` hidden states with these means. ``seeds`` has shape (2 * n_sweeps, n_blocks, 4).
    ``product`` is from :func:`~skmrf._kernels.products.find_product`.
    """
    visible_bias = take_rows(visible_bias, first, last)
    hidden_bias = take_rows(hidden_bias, first, last)
    means, states, block = means[first:last], states[first:last], first // BLOCK
    one, no_shift = weights.dtype.type(1), np.zeros(max(weights.shape), weights.dtype)
    V = np.empty((last - first, weights.shape[0]), weights.dtype)
    copy_rows(H[first:last], states)
    for t in range(0, seeds.shape[0], 2):
        multiply(product, states, weights.T, V)
        draw_layer(V, visible_bias, one, no_shift, seeds[t, block:])
        multiply(product, V, weights, states)
        unit_means(states, hidden_bias, means)
        draw_layer(states, hidden_bias, one, no_shift, seeds[t + 1, block:])
    copy_rows(V, X[first:last])


@kernel
def draw_hidden(product, weights, hidden_bias, before, beta, seeds, X, from_hidden, log_weights):
    """Draw the hidden units given the visible variables; write the fields that they produce.

    ``from_hidden`` receives the product of the weights and the hidden states, with a column for
    each chain. If the inverse temperature changes, the log weights increase.
    """
    n_chains, n_hidden, kind = X.shape[0], weights.shape[1], weights.dtype
    V, H = np.empty(X.shape, kind), np.empty((n_chains, n_hidden), kind)
    copy_rows(X, V)
    multiply(product, V, weights, H)
    if beta != before:
        add_softplus(H, hidden_bias, beta, 1.0, log_weights)
        add_softplus(H, hidden_bias, before, -1.0, log_weights)
    draw_layer(H, hidden_bias, beta, np.zeros(n_hidden, kind), seeds)
    multiply(product, weights, H.T, from_hidden)


@kernel
def add_softplus(activation, bias, scale, factor, out):
    """Add the sums of :func:`softplus_sums`, times a factor, to ``out``."""
    sums = np.empty(out.size)
    softplus_sums(activation, bias, scale, sums)
    for c in range(out.size):
        out[c] += factor * sums[c]


@kernel
def sweep_bipartite(
    product, weights, visible_bias, hidden_bias, odds, constant, betas, seeds, clamped, X,
    log_weights,
):  # fmt: skip
    """Run Gibbs sweeps of two layers along a path of inverse temperatures.

    A sweep samples hidden given visible units, then visible given hidden units. ``odds`` has the
    log odds of the visible units in the reference, and ``constant`` is subtracted from the log
    ratio of model and reference. ``X`` and ``log_weights`` are updated in place. ``seeds`` has
    shape (2 * n_sweeps, n_blocks, 4).
    """
    n_chains, n_hidden = X.shape[0], weights.shape[1]
    kind = weights.dtype.type
    V, H = np.empty(X.shape, weights.dtype), np.empty((n_chains, n_hidden), weights.dtype)
    shift, no_shift = np.empty_like(odds), np.zeros(n_hidden, weights.dtype)
    copy_rows(X, V)
    for t in range(betas.size - 1):
        beta, change = betas[t + 1], betas[t + 1] - betas[t]
        multiply(product, V, weights, H)
        if change != 0.0:
            add_softplus(H, hidden_bias, beta, 1.0, log_weights)
            add_softplus(H, hidden_bias, betas[t], -1.0, log_weights)
            for c in range(n_chains):
                row, total = min(c, visible_bias.shape[0] - 1), 0.0
                for i in range(V.shape[1]):
                    total += V[c, i] * (visible_bias[row, i] - odds[i])
                log_weights[c] += change * (total - constant)
        draw_layer(H, hidden_bias, beta, no_shift, seeds[2 * t])
        multiply(product, H, weights.T, V)
        for i in range(odds.size):
            shift[i] = kind(1.0 - beta) * odds[i]
        draw_layer(V, visible_bias, beta, shift, seeds[2 * t + 1])
        for c in range(clamped.shape[0]):
            for i in range(V.shape[1]):
                if clamped[c, i]:
                    V[c, i] = X[c, i]
    copy_rows(V, X)


@kernel
def fill_layers(
    product, weights, hidden_bias, visible, hidden, row_weights, V, H, visible_sums, hidden_sums,
    first, last, unit,
):  # fmt: skip
    """Write the states of both layers in the rows ``first .. last``, for a product of all rows.

    ``V`` receives the visible states. ``H`` receives the hidden states times the weights of the
    rows; if ``hidden`` has no rows, it receives the means of the hidden units instead of states.
    The weighted sums of the units are added to row ``unit`` of ``visible_sums`` and of
    ``hidden_sums``.
    """
    V, H, hidden_bias = V[first:last], H[first:last], take_rows(hidden_bias, first, last)
    visible_sum, hidden_sum = visible_sums[unit], hidden_sums[unit]
    kind = weights.dtype.type
    for c in range(last - first):
        weight = row_weights[first + c]
        for i in range(V.shape[1]):
            x = kind(visible[first + c, i])
            V[c, i] = x
            visible_sum[i] += weight * x
    if hidden.shape[0] > 0:
        copy_rows(hidden[first:last], H)
    else:
        multiply(product, V, weights, H)
        unit_means(H, hidden_bias, H)
    for c in range(last - first):
        weight = row_weights[first + c]
        for j in range(H.shape[1]):
            x = weight * H[c, j]
            H[c, j] = x
            hidden_sum[j] += x


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
    """Write the mean of each unit, and each row's sum of softplus(activation + bias), in float64.

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
