"""Powers of two, exponentials and logarithms that numba can vectorise.

A call of exp costs about 4 ns, because numba has no vector library. Loops that contain
:func:`power_of_two` are vectorised. One power of two then costs about 0.1 ns in float32 and 0.3 ns
in float64.
"""

import numpy as np
from numba import types
from numba.extending import overload

LOG2_E = np.float32(1.44269504)
# log 2 in two parts, the first with few bits, so that n * LOG_2 is exact.
LOG_2, LOG_2_REST = np.float32(0.693359375), np.float32(-2.12194440e-4)
RANGE = np.float32(87.0)
HALF, ONE = np.float32(0.5), np.float32(1.0)
# 2^f = 1 + f (C0 + C1 f + ...) for |f| <= 1/2, interpolated at Chebyshev points.
C0, C1, C2 = np.float32(6.931471825e-1), np.float32(2.402265072e-1), np.float32(5.550356954e-2)
C3, C4, C5 = np.float32(9.618083015e-3), np.float32(1.339086331e-3), np.float32(1.545316336e-4)
MANTISSA = np.int32(23)  # bits
# The same constants for float64.
LONG_LOG2_E, LONG_RANGE = 1.4426950408889634, 708.0
LONG_LOG_2, LONG_LOG_2_REST = 0.693147180369123816490, 1.90821492927058770002e-10
L0, L1, L2 = 0.6931471805599462, 0.24022650695910075, 0.05550410866465167
L3, L4, L5 = 0.009618129107618665, 0.0013333558200794592, 0.00015403530424776529
L6, L7 = 1.5252672924850737e-05, 1.3215451633221434e-06
L8, L9 = 1.0205905413765595e-07, 7.070977866508139e-09
LONG_MANTISSA = np.int64(52)
LOWEST = -1021.0 * LONG_LOG_2  # exp of smaller numbers is replaced by 0
# The last bits of n + LONG_SHIFT_OUT are the integer n. AVX2 has no conversion to int64.
LONG_SHIFT_OUT = 1.5 * 2.0**52
# log(1 + f) = f - f^2 / 2 + f^3 (D0 + D1 f + ...) for 1 + f in sqrt(1/2) .. sqrt(2), fitted.
D0, D1, D2 = np.float32(3.3333910770e-1), np.float32(-2.5001337016e-1), np.float32(1.9963062290e-1)
D3, D4, D5 = np.float32(-1.6577586007e-1), np.float32(1.4914787022e-1), np.float32(-1.4267476323e-1)
D6 = np.float32(8.7003599471e-2)
ROOT_HALF_BITS = np.int32(0x3F3504F3)  # of sqrt(1/2) as a float32
# log(1 + f) = 2 s + s^3 (E0 + E1 s^2 + ...) for s = f / (2 + f), interpolated at Chebyshev points.
E0, E1, E2 = 0.6666666666666666, 0.39999999999929836, 0.28571428618048983
E3, E4, E5 = 0.22222212022723145, 0.1818284078753836, 0.153329839578825
E6 = 0.14603780601988015
LONG_SHIFT = np.uint64(0xFFF6A09E667F3BCD)  # bits of sqrt(1/2) minus bits of 1
LONG_BITS, LONG_BIAS, BIAS = np.uint64(52), np.uint64(1023), np.int32(1023)
LARGEST = np.int32(2**31 - 1)
UNUSED_BITS, MANTISSA_BITS = np.uint64(12), np.uint64(2**52 - 1)
ONE_BITS, BELOW_ONE = np.uint64(0x3FF << 52), 1.0 - 2.0**-53
# Without "reassoc", which would add the two parts of log 2.
EXACT = {"fastmath": {"contract", "nsz"}, "error_model": "numpy"}


def power_of_two(y):
    """Return 2^y for y in -126 .. 126 (float32) or -1022 .. 1022 (float64).

    The relative error is below 2e-7 (float32) or 1e-15 (float64). Outside of these ranges the
    result is wrong.
    """
    return np.exp2(y)


def scaled_power_of_two(f, n):
    """Return 2^(f + n) for f in -1/2 .. 1/2 and an integer n."""
    return np.exp2(f + n)


def _scaled32(f, n):
    p = C0 + f * (C1 + f * (C2 + f * (C3 + f * (C4 + f * C5))))
    bits = np.float32(ONE + f * p).view(np.int32)
    return np.int32(bits + (np.int32(n) << MANTISSA)).view(np.float32)  # adds n to the exponent


def _scaled64(f, n):
    p = L5 + f * (L6 + f * (L7 + f * (L8 + f * L9)))
    p = L0 + f * (L1 + f * (L2 + f * (L3 + f * (L4 + f * p))))
    bits = np.float64(1.0 + f * p).view(np.int64)
    exponent = np.float64(n + LONG_SHIFT_OUT).view(np.int64) << LONG_MANTISSA
    return np.int64(bits + exponent).view(np.float64)


@overload(scaled_power_of_two, jit_options=EXACT)
def _scaled(f, n):  # noqa: ARG001
    return _scaled32 if f == types.float32 else _scaled64


@overload(power_of_two, jit_options=EXACT)
def _power(y):  # noqa: ARG001
    def by_rounding(y):
        n = np.rint(y)
        return scaled_power_of_two(y - n, n)

    return by_rounding


def exponential(x):
    """Return exp(x) for x in -87 .. 87 (float32) or -708 .. 708 (float64)."""
    return np.exp(x)


@overload(exponential, jit_options=EXACT)
def _exponential(x):
    if x == types.float32:
        log2_e, high, low = LOG2_E, LOG_2, LOG_2_REST
    else:
        log2_e, high, low = LONG_LOG2_E, LONG_LOG_2, LONG_LOG_2_REST

    def by_rounding(x):
        n = np.rint(x * log2_e)
        return scaled_power_of_two((x - n * high - n * low) * log2_e, n)

    return by_rounding


def exponential_or_zero(x):
    """Return exp(x), or 0 if x is below :data:`LOWEST` or nan. x is float64 and at most 708.

    The relative error is below ``1e-15 + 2e-16 * abs(x)``, which is of the order of the effect of
    the rounding of x.
    """
    return np.exp(x) if x > LOWEST else 0.0


@overload(exponential_or_zero, jit_options=EXACT)
def _exponential_or_zero(x):  # noqa: ARG001
    def by_rounding(x):
        # The power of -1023 is 0, because the bits of the exponent and of the mantissa are 0.
        return power_of_two(x * LONG_LOG2_E if x > LOWEST else -1023.0)

    return by_rounding


def exponentials(x):
    """Replace each entry x of an array by exp(x), after x is clipped.

    x is clipped to -87 .. 87 (float32) or -708 .. 708 (float64).
    """
    limit = RANGE if x.dtype == np.float32 else LONG_RANGE
    np.exp(np.clip(x, -limit, limit), out=x)


@overload(exponentials, inline="always")
def _exponentials(x):
    limit = RANGE if x.dtype == types.float32 else LONG_RANGE

    def in_place(x):
        for j in range(x.size):
            x[j] = exponential(min(max(x[j], -limit), limit))

    return in_place


def logarithms(x, bits):  # noqa: ARG001
    """Replace each entry x > 0 of an array by log(x).

    The absolute or the relative error is below 2e-7 in float32, and the relative error below 1e-15
    in float64, for normal numbers. ``bits`` is scratch of the same length with dtype int32.
    """
    np.log(x, out=x)


def _vectorised_logarithms(x, bits):
    pattern = x.view(np.int32)
    for j in range(x.size):
        exponent = (pattern[j] - ROOT_HALF_BITS) >> np.int32(23)
        bits[j] = exponent
        pattern[j] -= exponent << np.int32(23)
    for j in range(x.size):
        f, n = x[j] - ONE, np.float32(bits[j])
        p = D0 + f * (D1 + f * (D2 + f * (D3 + f * (D4 + f * (D5 + f * D6)))))
        x[j] = n * LOG_2_REST + f * f * (p * f - HALF) + f + n * LOG_2


def uniform_odds(words, out):
    """Write u / (1 - u) to ``out``, for uniform random numbers u from random integers.

    ``words`` has dtype uint64 and at least as many bytes as ``out``. The numbers u are 31 bits plus
    a half in float32, and 52 bits plus a half in float64.
    """
    if out.dtype == np.float32:
        _odds32(words, out)
    else:
        _odds64(words, out)


def _odds32(words, out):
    integers = words.view(np.int32)
    for j in range(out.size):
        low = integers[j] & LARGEST
        high = np.int32(LARGEST - low)
        out[j] = (np.float32(low) + HALF) / (np.float32(high) + HALF)


def _odds64(words, out):
    pattern = out.view(np.uint64)
    for j in range(out.size):
        pattern[j] = words[j] >> UNUSED_BITS
    for j in range(out.size):
        low = np.uint64(pattern[j] | ONE_BITS).view(np.float64)  # in [1, 2)
        high = np.uint64((pattern[j] ^ MANTISSA_BITS) | ONE_BITS).view(np.float64)
        out[j] = (low - BELOW_ONE) / (high - BELOW_ONE)


@overload(uniform_odds, inline="always")
def _uniform_odds(words, out):  # noqa: ARG001
    return _odds32 if out.dtype == types.float32 else _odds64


def log_one_plus(f, n):
    """Return log((1 + f) 2^n) for f in sqrt(1/2) - 1 .. sqrt(2) - 1 and an integer n."""
    return np.log1p(f) + n * np.log(2.0)


@overload(log_one_plus, jit_options=EXACT)
def _log_one_plus(f, n):  # noqa: ARG001
    def by_polynomial(f, n):
        s, half = f / (2.0 + f), 0.5 * f * f
        z = s * s
        p = z * (E0 + z * (E1 + z * (E2 + z * (E3 + z * (E4 + z * (E5 + z * E6))))))
        return n * LONG_LOG_2 + (f - (half - (s * (half + p) + n * LONG_LOG_2_REST)))

    return by_polynomial


def _long_logarithms(x, bits):
    pattern = x.view(np.uint64)
    for j in range(x.size):
        biased = (pattern[j] - LONG_SHIFT) >> LONG_BITS
        bits[j] = np.int32(biased) - BIAS
        pattern[j] -= (biased - LONG_BIAS) << LONG_BITS
    for j in range(x.size):
        x[j] = log_one_plus(x[j] - 1.0, np.float64(bits[j]))


@overload(logarithms, inline="always")
def _logarithms(x, bits):  # noqa: ARG001
    return _vectorised_logarithms if x.dtype == types.float32 else _long_logarithms
