"""Gibbs sweeps along a path between two models of pairs of two-state variables.

The target at inverse temperature beta is ``reference(x) ** (1 - beta) * model(x) ** beta``. Each
chain has a field of each of the two models. So a change of the inverse temperature needs no product
of matrices. The reference has few couplings, and its fields are updated by lists of neighbours.

Arguments that are not explained here are as in :func:`~skmrf._kernels.gibbs.sweep_binary`.
"""

import numpy as np

from ._jit import assume_distinct, borrowed, kernel, lowest_bit
from .gibbs import (
    GROUP,
    add_changes,
    add_log_ratios,
    compute_fields,
    draw_group,
    load_couplings,
    load_fields,
)
from .layers import BLOCK, N_STREAMS, copy_rows, logistic_noise, n_words, start_streams


@kernel
def sweep_between(
    product, models, neighbours, least, betas, scan, seeds, is_new, all_fields, X, log_weights
):
    """Run Gibbs sweeps along a path from one binary pairwise model to another.

    ``models`` has the couplings, with further columns of zeros, and the biases of the reference and
    of the model. ``neighbours`` has the position of the first neighbour of each variable in the
    reference, and the neighbours of all variables. Rows of ``X`` are chains. ``all_fields`` has the
    fields of the chains in both models, which are computed if ``is_new``, and updated in place.
    The difference of the log-potentials of the two models is added to the log weights.
    """
    (base, base_bias), (coupling, bias) = models
    order, pairs, is_reversed = scan
    V = np.empty((bias.size, len(X)), bias.dtype)
    no_odds = np.zeros(bias.size, bias.dtype)
    streams = np.empty((4, N_STREAMS), np.uint64)
    copy_rows(X.T, V)
    if is_new:
        compute_fields(product, base, base_bias, V, all_fields[0])
        compute_fields(product, coupling, bias, V, all_fields[1])
    for first in range(0, len(X), BLOCK):
        last = min(first + BLOCK, len(X))
        fields = all_fields[0][first:last], all_fields[1][first:last]
        for t in range(betas.size - 1):
            beta, change = betas[t + 1], betas[t + 1] - betas[t]
            add_log_ratios(-change, base_bias, no_odds, order, fields[0], V, first, log_weights)
            add_log_ratios(change, bias, no_odds, order, fields[1], V, first, log_weights)
            start_streams(seeds[t, first // BLOCK], streams)
            given = least, base, coupling, neighbours, pairs, streams, first, fields, V
            if is_reversed:
                flip_between(beta, *given)
            draw_between(beta, base, coupling, neighbours, order, streams, first, fields, V)
            if not is_reversed:
                flip_between(beta, *given)
    copy_rows(V.T, X)


@kernel
def draw_between(beta, base, coupling, neighbours, order, streams, first, fields, X):
    """Draw all variables, one after the other, in the chains of a block."""
    kind, (base_fields, model_fields) = X.dtype, fields
    last, size = first + len(model_fields), GROUP * BLOCK
    noise, bits = np.empty(size, kind), np.empty(size, np.int32)
    words = np.empty(n_words(size, X.itemsize), np.uint64)
    base_values, values = np.zeros(size, kind), np.zeros(size, kind)
    base_within, within = np.zeros((GROUP, GROUP), kind), np.zeros((GROUP, GROUP), kind)
    changes, flips = np.zeros(size + BLOCK, kind), np.empty(BLOCK, kind)
    for start in range(0, order.size, GROUP):
        units = order[start : start + GROUP]
        logistic_noise(streams, words, noise[: units.size * (last - first)], bits)
        load_fields(base_fields, units, base_values)
        load_fields(model_fields, units, values)
        load_couplings(base, units, base_within)
        load_couplings(coupling, units, within)
        mix(beta, base_values, values)
        mix(beta, base_within.reshape(-1), within.reshape(-1))
        draw_group(units, noise, first, last, within, values, changes, flips, X)
        add_changes(coupling, units, changes, flips, model_fields)
        for c in range(last - first):
            rest = np.int64(flips[c])
            while rest != 0:
                k = lowest_bit(rest)
                rest &= rest - 1
                add_to_neighbours(
                    base, neighbours, units[k], changes[k * BLOCK + c], base_fields[c]
                )


@kernel
def mix(beta, first, last):
    """Replace ``last`` by weighted averages of the numbers, whose weight is ``beta``."""
    assume_distinct()
    first, last, kind = borrowed(first), borrowed(last), last.dtype.type
    share, rest = kind(beta), kind(1.0 - beta)
    for k in range(last.size):
        last[k] = share * last[k] + rest * first[k]


@kernel
def add_to_neighbours(coupling, neighbours, i, change, field):
    """Add the change of a variable, times its couplings, to the fields of its neighbours."""
    starts, others = neighbours
    for p in range(starts[i], starts[i + 1]):
        field[others[p]] += change * coupling[i, others[p]]


@kernel
def flip_between(
    beta, least, base, coupling, neighbours, pairs, streams, first, fields, X
):  # fmt: skip
    """Draw for each pair of variables whether both change, given all others, as in `flip_pairs`.

    Pairs whose coupling at ``beta`` is not stronger than ``least`` do not change together.
    """
    kind, (base_fields, model_fields) = X.dtype.type, fields
    n_chains, size, share, rest = len(model_fields), GROUP * BLOCK, kind(beta), kind(1.0 - beta)
    noise, bits = np.empty(size, X.dtype), np.empty(size, np.int32)
    words = np.empty(n_words(size, X.itemsize), np.uint64)
    for start in range(0, len(pairs), GROUP):
        group = pairs[start : start + GROUP]
        logistic_noise(streams, words, noise[: len(group) * n_chains], bits)
        for k in range(len(group)):
            i, j = group[k]
            if abs(share * coupling[i, j] + rest * base[i, j]) <= least:
                continue
            limits = noise[k * n_chains : (k + 1) * n_chains]
            x, y = X[i][first : first + n_chains], X[j][first : first + n_chains]
            flip_pair_between(
                share, rest, base, coupling, neighbours, i, j, limits, x, y, base_fields,
                model_fields,
            )  # fmt: skip


@kernel
def flip_pair_between(
    share, rest, base, coupling, neighbours, i, j, limits, x, y, base_fields, fields
):
    """Change variables i and j, whose states are x and y, where the increase exceeds the limit."""
    assume_distinct()
    base, coupling, limits = borrowed(base), borrowed(coupling), borrowed(limits)
    x, y, base_fields, fields = borrowed(x), borrowed(y), borrowed(base_fields), borrowed(fields)
    kind, row, other = x.dtype.type, coupling[i], coupling[j]
    one, two, mixed = kind(1), kind(2), share * row[j] + rest * base[i, j]
    is_positive = mixed > 0
    for c in range(x.size):
        if (x[c] == y[c]) != is_positive:
            continue
        f, g, s, r = fields[c], base_fields[c], one - two * x[c], one - two * y[c]
        increase = s * (share * f[i] + rest * g[i]) + r * (share * f[j] + rest * g[j])
        if not increase + s * r * mixed > limits[c]:
            continue
        x[c] += s
        y[c] += r
        for q in range(f.size):
            f[q] += s * row[q] + r * other[q]
        add_to_neighbours(base, neighbours, i, s, g)
        add_to_neighbours(base, neighbours, j, r, g)
