"""Systematic-scan Gibbs sweeps of models of pairs along a path of inverse temperatures.

The target at inverse temperature beta is ``reference(x) ** (1 - beta) * f(x) ** beta``. The
reference is a product distribution. ``betas`` has one more entry than there are sweeps. Before
sweep t, the log-weights increase by ``(betas[t + 1] - betas[t]) * (log f - log reference)``. Sweep
t leaves the target at ``betas[t + 1]`` invariant. If all betas are 1, the sweeps are plain Gibbs
sampling. Variables are visited in the given order, which does not contain variables with one state.
Clamped variables are skipped. X and log_weights are changed in place.
"""

import numpy as np

from ._jit import assume_distinct, borrowed, inlined, kernel, lowest_bit
from .exponential import LONG_RANGE, exponential
from .layers import BLOCK, N_STREAMS, copy_rows, logistic_noise, n_words, start_streams, uniforms
from .products import multiply

GROUP = 16  # variables whose changes are added to the fields together; a multiple of 4
SMALLEST_BETA = 1e-30  # stands for 0 in divisions


@kernel
def sweep_states(
    coupling, bias, start, n_states, log_p, betas, order, clamped, seeds, is_new, field, X,
    log_weights,
):  # fmt: skip
    """Run Gibbs sweeps on tables of pairs, which are one matrix over the states of all variables.

    Rows of ``X``, ``clamped`` and ``field`` are chains. The states of variable i start at
    ``start[i]`` in ``bias``, in the reference ``log_p`` and in both axes of ``coupling``. ``field``
    has the log-potential of each state given the other variables. It is computed if ``is_new``, and
    updated in place. ``coupling`` and ``field`` can have further columns. ``seeds`` has four random
    integers for each sweep and each block of BLOCK chains. Log weights lack the constant term of
    the model.
    """
    scores, tops = np.empty(BLOCK * n_states.max()), np.empty(BLOCK)
    drawn, uniform = np.empty(BLOCK, np.int64), np.empty(GROUP * BLOCK)
    words, streams = np.empty(GROUP * BLOCK, np.uint64), np.empty((4, N_STREAMS), np.uint64)
    if is_new:
        set_fields(coupling, bias, start, X, field)
    for first in range(0, X.shape[0], BLOCK):
        last = min(first + BLOCK, X.shape[0])
        for t in range(betas.size - 1):
            beta, change = betas[t + 1], betas[t + 1] - betas[t]
            start_streams(seeds[t, first // BLOCK], streams)
            if change != 0.0:
                for c in range(first, last):
                    total = 0.0
                    for i in range(X.shape[1]):
                        at = start[i] + X[c, i]
                        total += 0.5 * (field[c, at] + bias[at]) - log_p[at]
                    log_weights[c] += change * total
            for place in range(order.size):
                k, i = place % GROUP, order[place]
                if k == 0:
                    uniforms(streams, words, uniform)
                u, q = uniform[k * BLOCK : (k + 1) * BLOCK], n_states[i]
                copy_scores(beta, field, log_p, start[i], q, first, last, scores)
                draw_each(scores, q, last - first, u, tops, drawn)
                change_states(coupling, start[i], i, clamped, drawn, first, last, field, X)


@kernel
def set_fields(coupling, bias, start, X, field):
    """Compute the log-potential of each state of each variable given the others, for all chains."""
    assume_distinct()
    coupling, bias, field, X = borrowed(coupling), borrowed(bias), borrowed(field), borrowed(X)
    n = X.shape[1]
    for c in range(X.shape[0]):
        f, x = field[c], X[c]
        for j in range(bias.size):
            f[j] = bias[j]
        for i in range(0, n - n % 4, 4):
            a, b = coupling[start[i] + x[i]], coupling[start[i + 1] + x[i + 1]]
            d, e = coupling[start[i + 2] + x[i + 2]], coupling[start[i + 3] + x[i + 3]]
            for j in range(f.size):
                f[j] += (a[j] + b[j]) + (d[j] + e[j])
        for i in range(n - n % 4, n):
            a = coupling[start[i] + x[i]]
            for j in range(f.size):
                f[j] += a[j]


@kernel
def copy_scores(beta, field, log_p, at, q, first, last, scores):
    """Write the log-probabilities of the states of a variable at ``beta``, up to normalisation.

    ``scores`` receives BLOCK entries per state, the first of them for the chains of the block.
    """
    assume_distinct()
    field, scores = borrowed(field), borrowed(scores)
    for s in range(q):
        row = scores[s * BLOCK : s * BLOCK + last - first]
        for c in range(row.size):
            row[c] = field[first + c, at + s]
        if beta != 1.0:
            shift = (1.0 - beta) * log_p[at + s]
            for c in range(row.size):
                row[c] = beta * row[c] + shift


@kernel
def draw_each(scores, q, size, uniform, tops, drawn):
    """Draw a state of each chain from scores, which are replaced by cumulative probabilities.

    Each probability is at least exp(-708) times the largest one.
    """
    assume_distinct()
    scores, uniform = borrowed(scores), borrowed(uniform)
    tops, drawn = borrowed(tops), borrowed(drawn)
    for c in range(size):
        tops[c] = scores[c]
        drawn[c] = 0
    for s in range(1, q):
        row = scores[s * BLOCK : s * BLOCK + size]
        for c in range(size):
            tops[c] = max(tops[c], row[c])
    for s in range(q):
        row = scores[s * BLOCK : s * BLOCK + size]
        for c in range(size):
            row[c] = exponential(max(row[c] - tops[c], -LONG_RANGE))
    for s in range(1, q):
        row, before = scores[s * BLOCK : s * BLOCK + size], scores[(s - 1) * BLOCK : s * BLOCK]
        for c in range(size):
            row[c] += before[c]
    total = scores[(q - 1) * BLOCK : (q - 1) * BLOCK + size]
    for c in range(size):
        tops[c] = uniform[c] * total[c]
    for s in range(q - 1):
        row = scores[s * BLOCK : s * BLOCK + size]
        for c in range(size):
            drawn[c] += 1 if row[c] <= tops[c] else 0


@kernel
def change_states(coupling, at, i, clamped, drawn, first, last, field, X):
    """Set the states of a variable that are not clamped, and add the changes to the fields."""
    assume_distinct()
    coupling, field = borrowed(coupling), borrowed(field)
    drawn, X, clamped = borrowed(drawn), borrowed(X), borrowed(clamped)
    is_clamped = clamped.shape[0] > 0
    for c in range(last - first):
        old, new = X[first + c, i], drawn[c]
        if new == old or (is_clamped and clamped[first + c, i]):
            continue
        X[first + c, i] = new
        f, more, less = field[first + c], coupling[at + new], coupling[at + old]
        for j in range(f.size):
            f[j] += more[j] - less[j]


@kernel
def sweep_coupled(
    product, coupling, bias, odds, betas, scan, from_hidden, clamped, seeds, is_new, field, X,
    log_weights,
):  # fmt: skip
    """Run Gibbs sweeps on a binary pairwise model, whose states are rows of ``X``, one per chain.

    ``is_new`` is True if the fields must be computed. ``product`` is an address, see
    :func:`~skmrf._kernels.products.multiply`, and other arguments are as in :func:`sweep_binary`.
    """
    n_chains, n = X.shape
    V = np.empty((n, n_chains), bias.dtype)
    copy_rows(X.T, V)
    if is_new:
        compute_fields(product, coupling, bias, V, field)
    sweep_binary(
        coupling, bias, odds, betas, scan, from_hidden, clamped, seeds, field, V, log_weights
    )
    copy_rows(V.T, X)


@kernel
def compute_fields(product, coupling, bias, V, field):
    """Compute the fields of all chains, whose states are columns of ``V``, by a matrix product."""
    multiply(product, V[: coupling.shape[0]].T, coupling, field)
    for c in range(len(field)):
        for i in range(bias.size):
            field[c, i] += bias[i]


@inlined
def sweep_binary(
    coupling, bias, odds, betas, scan, from_hidden, clamped, seeds, field, X, log_weights
):
    """Run Gibbs sweeps on a binary pairwise model.

    A sweep draws the variables ``scan.order`` one after the other. Then, or before if
    ``scan.is_reversed``, each pair of variables in ``scan.pairs`` may change both of its states.

    Rows of ``X``, ``from_hidden`` and ``clamped`` are variables. Rows of ``field``, which is
    ``bias + X.T @ coupling`` and is updated in place, are chains. ``coupling`` and ``field`` can
    have further columns. ``coupling`` has no rows if the variables are not coupled. X contains
    zeros and ones of the dtype of the couplings. ``from_hidden`` is added to the fields of all
    sweeps; it can be empty. ``seeds`` has four random integers for each sweep and each block of
    BLOCK chains. ``odds`` has the log odds of the variables in the reference. Log weights lack the
    constant terms of the model and of the reference.

    A group of variables is drawn in all chains of a block. Then its changes are added to the
    fields of all variables.
    """
    size = GROUP * BLOCK
    limits, bits = np.empty(size, X.dtype), np.empty(size, np.int32)
    words = np.empty(n_words(size, X.itemsize), np.uint64)
    streams = np.empty((4, N_STREAMS), np.uint64)
    values, changes = np.zeros(size, X.dtype), np.zeros(size + BLOCK, X.dtype)
    flips, is_coupled = np.empty(BLOCK, X.dtype), coupling.shape[0] > 0
    within = np.zeros((GROUP if is_coupled else 0, GROUP), X.dtype)
    order, pairs, is_reversed = scan
    for first in range(0, X.shape[1], BLOCK):
        last = min(first + BLOCK, X.shape[1])
        fields = field[first:last]
        for t in range(betas.size - 1):
            beta, change = betas[t + 1], betas[t + 1] - betas[t]
            start_streams(seeds[t, first // BLOCK], streams)
            if change != 0.0:
                add_log_ratios(change, bias, odds, order, fields, X, first, log_weights)
            if is_reversed:
                flip_pairs(
                    beta, coupling, odds, pairs, from_hidden, clamped, streams, words, limits, bits,
                    first, last, fields, X,
                )  # fmt: skip
            for start in range(0, order.size, GROUP):
                units = order[start : start + GROUP]
                used = units.size * (last - first)
                logistic_noise(streams, words, limits[:used], bits)
                set_limits(beta, odds, units, from_hidden, clamped, X, first, last, limits)
                load_fields(fields, units, values)
                load_couplings(coupling, units, within)
                draw_group(units, limits, first, last, within, values, changes, flips, X)
                if is_coupled:
                    add_changes(coupling, units, changes, flips, fields)
            if not is_reversed:
                flip_pairs(
                    beta, coupling, odds, pairs, from_hidden, clamped, streams, words, limits, bits,
                    first, last, fields, X,
                )  # fmt: skip


@kernel
def add_log_ratios(change, bias, odds, order, fields, X, first, log_weights):
    """Add ``change`` times the log ratio of model and reference to the log weights of a block.

    ``fields`` has the rows of the chains of the block, whose first chain is ``first``.
    """
    half = X.dtype.type(0.5)
    for place in range(order.size):
        i = order[place]
        x, b, log_odds = X[i], bias[i], odds[i]
        for c in range(fields.shape[0]):
            ratio = half * (fields[c, i] + b) - log_odds
            log_weights[first + c] += change * (x[first + c] * ratio)


@kernel
def set_limits(beta, odds, units, from_hidden, clamped, X, first, last, limits):
    """Replace noise by the limits that the fields of variables with state 1 exceed."""
    assume_distinct()
    limits, X = borrowed(limits), borrowed(X)
    from_hidden, clamped = borrowed(from_hidden), borrowed(clamped)
    kind, size = X.dtype.type, last - first
    factor, rest = kind(1.0 / max(beta, SMALLEST_BETA)), kind(1.0 - beta)
    for k in range(units.size):
        i = units[k]
        limit = limits[k * size : (k + 1) * size]
        if beta != 1.0:
            shift = rest * odds[i]
            for c in range(size):
                limit[c] = factor * (limit[c] - shift)
        if from_hidden.shape[0] > 0:
            hidden = from_hidden[i][first:last]
            for c in range(size):
                limit[c] -= hidden[c]
        if clamped.shape[0] > 0:
            x, fixed = X[i][first:last], clamped[i][first:last]
            for c in range(size):
                if fixed[c]:
                    limit[c] = kind(np.inf) if x[c] == kind(0) else kind(-np.inf)


@kernel
def load_fields(fields, units, values):
    """Copy the fields of a group of variables; BLOCK entries of ``values`` are for a variable."""
    assume_distinct()
    fields, values = borrowed(fields), borrowed(values)
    for k in range(units.size):
        i, value = units[k], values[k * BLOCK : (k + 1) * BLOCK]
        for c in range(fields.shape[0]):
            value[c] = fields[c, i]


@kernel
def load_couplings(coupling, units, within):
    """Copy the couplings of each variable of a group with the variables before it."""
    for k in range(units.size if coupling.shape[0] > 0 else 0):
        for e in range(k):
            within[k, e] = coupling[units[k], units[e]]


@kernel
def draw_group(units, limits, first, last, within, values, changes, flips, X):
    """Draw variables one after the other, each in all chains of a block.

    A variable is 1 if its field exceeds its limit. ``values`` has the fields before the first draw,
    and ``within`` the couplings in the group; it is empty without couplings. ``changes`` receives
    the changes of the states. Bit k of ``flips`` is 1 if variable k of the group changed.
    """
    assume_distinct()
    limits, changes, values = borrowed(limits), borrowed(changes), borrowed(values)
    within, X = borrowed(within), borrowed(X)
    kind, size = X.dtype.type, last - first
    one, zero = kind(1), kind(0)
    flips[:] = zero
    bit = one
    for k in range(units.size):
        value = values[k * BLOCK : (k + 1) * BLOCK]
        if within.shape[0] > 0:
            add_products(within[k], changes, k, value[:size])
        change = changes[k * BLOCK : (k + 1) * BLOCK]
        x, limit = X[units[k]][first:last], limits[k * size : (k + 1) * size]
        for c in range(size):
            new = one if value[c] > limit[c] else zero
            difference = new - x[c]
            x[c] = new
            change[c] = difference
            flips[c] += bit * abs(difference)
        bit += bit


@kernel
def add_products(weights, changes, n, out):
    """Add the products of the first n rows of ``changes`` and their weights; other weights are 0.

    Each row of ``changes`` has BLOCK entries. Only its first ``out.size`` entries are used.
    """
    assume_distinct()
    changes = borrowed(changes)
    for e in range(0, n, 4):
        w0, w1, w2, w3 = weights[e], weights[e + 1], weights[e + 2], weights[e + 3]
        d0 = changes[e * BLOCK : (e + 1) * BLOCK]
        d1 = changes[(e + 1) * BLOCK : (e + 2) * BLOCK]
        d2 = changes[(e + 2) * BLOCK : (e + 3) * BLOCK]
        d3 = changes[(e + 3) * BLOCK : (e + 4) * BLOCK]
        for c in range(out.size):
            out[c] += w0 * d0[c] + w1 * d1[c] + w2 * d2[c] + w3 * d3[c]


@kernel
def add_changes(coupling, units, changes, flips, fields):
    """Add the changes of variables, two at a time, to the fields of all variables.

    Row GROUP of ``changes`` is 0.
    """
    assume_distinct()
    coupling, fields = borrowed(coupling), borrowed(fields)
    for c in range(fields.shape[0]):
        f, rest = fields[c], np.int64(flips[c])
        while rest != 0:
            k = lowest_bit(rest)
            rest &= rest - 1
            e = min(lowest_bit(rest), GROUP)  # Without a second variable, the row of zeros.
            rest &= rest - 1
            factor, second = changes[k * BLOCK + c], changes[e * BLOCK + c]
            row, other = coupling[units[k]], coupling[units[min(e, units.size - 1)]]
            for j in range(f.size):
                f[j] += factor * row[j] + second * other[j]


@kernel
def flip_pairs(
    beta, coupling, odds, pairs, from_hidden, clamped, streams, words, noise, bits, first, last,
    fields, X,
):  # fmt: skip
    """Draw for each pair of variables whether both change, given all other variables.

    Equal variables change if their coupling is positive, different ones if it is negative. The draw
    is between two states, so it leaves the target invariant. Changes are added to the fields.
    """
    size = last - first
    for start in range(0, pairs.shape[0], GROUP):
        group = pairs[start : start + GROUP]
        logistic_noise(streams, words, noise[: group.shape[0] * size], bits)
        for k in range(group.shape[0]):
            limits = noise[k * size : (k + 1) * size]
            flip_pair(
                beta, coupling, odds, group[k], from_hidden, clamped, limits, first, last, fields, X
            )


@kernel
def flip_pair(beta, coupling, odds, pair, from_hidden, clamped, limits, first, last, fields, X):
    """Change both variables of a pair in the chains where the increase exceeds the limit."""
    assume_distinct()
    coupling, fields, limits = borrowed(coupling), borrowed(fields), borrowed(limits)
    from_hidden, clamped = borrowed(from_hidden), borrowed(clamped)
    i, j = pair
    x, y, kind = X[i][first:last], X[j][first:last], X.dtype.type
    one, two, scale, rest = kind(1), kind(2), kind(beta), kind(1.0 - beta)
    row, other = coupling[i], coupling[j]
    is_positive = row[j] > 0
    for c in range(last - first):
        if (x[c] == y[c]) != is_positive:
            continue
        f, s, r = fields[c], one - two * x[c], one - two * y[c]
        increase = s * f[i] + r * f[j] + s * r * row[j]
        if from_hidden.shape[0] > 0:
            increase += s * from_hidden[i, first + c] + r * from_hidden[j, first + c]
        if beta != 1.0:
            increase = scale * increase + rest * (s * odds[i] + r * odds[j])
        if not increase > limits[c]:  # also if both odds are infinite
            continue
        if clamped.shape[0] > 0 and (clamped[i, first + c] or clamped[j, first + c]):
            continue
        x[c] += s
        y[c] += r
        for q in range(f.size):
            f[q] += s * row[q] + r * other[q]
