"""Belief propagation between two layers of two-state units, in the domain of ratios.

A message is one positive number, the ratio ``m(1) / m(0)``, so it costs one division and neither
an exponential nor a logarithm. With ``w = exp(W)``, ``t`` the odds of the belief of a unit and
``s`` the message that reached it from the receiver, the message it sends is

    (s + w t) / (s + t),

or with ``max`` for the sums. Odds enter as the probabilities ``1 / (1 + t)`` and ``t / (1 + t)``,
so that every sum lies between ``min(1, w)`` and ``max(1, w)`` and nothing overflows. Products of
ratios are taken over segments in which ``sum |W|`` is bounded, one logarithm a segment.

Hidden units are rows: row j turns the messages that reached its neighbours into those it gets,
finds its belief and sends its own messages, while the row is in the cache. Only the messages from
hidden to visible units are stored.
"""

import numpy as np

from ._jit import borrowed, inlined, kernel
from .exponential import exponentials, logarithms

SUM, MAX, MIXED = 0, 1, 2  # products
TILE = 16  # rows transposed at once: a line of the cache


@kernel
def ratios_of(weights, w, hidden_sums, visible_sums):
    """exp(W) with hidden units as rows, and the sums of ``|W|`` over all that sends to a unit.

    ``weights`` is (n_visible, n_hidden); ``hidden_sums`` begins at zero.
    """
    n_visible, n_hidden = weights.shape
    bits = np.empty(n_hidden, np.int32)
    tile = np.empty((TILE, n_hidden), w.dtype)
    for first in range(0, n_visible, TILE):
        height = min(TILE, n_visible - first)
        for i in range(height):
            row = tile[i]
            total = 0.0
            for j in range(n_hidden):
                row[j] = weights[first + i, j]
                total += abs(row[j])
                hidden_sums[j] += abs(row[j])
            visible_sums[first + i] = total
            exponentials(row, bits)
        for j in range(n_hidden):
            for i in range(height):
                w[j, first + i] = tile[i, j]


@inlined
def beliefs(logits, bound, one, zero, bits):
    """Probabilities of both states; each is exact where it is close to zero."""
    unit = logits.dtype.type(1)
    for i in range(logits.size):
        one[i] = -min(max(logits[i], -bound), bound)
    exponentials(one, bits)
    for i in range(logits.size):
        odds = one[i]
        one[i] = unit / (unit + odds)
        zero[i] = odds * one[i]


@inlined
def belief_change(logits, bound, one, zero, bits, before):
    """New beliefs, and by how much one of them moved at most."""
    for i in range(logits.size):
        before[i] = one[i]
    beliefs(logits, bound, one, zero, bits)
    largest = logits.dtype.type(0)
    for i in range(logits.size):
        largest = max(largest, abs(one[i] - before[i]))
    return largest


@inlined
def gather(factors, logits, bits):
    """Add the logarithms of the factors to the logits, and begin with factors of 1."""
    unit = factors.dtype.type(1)
    logarithms(factors, bits)
    for i in range(factors.size):
        logits[i] += factors[i]
        factors[i] = unit


@inlined
def log_product(ratios, segments):
    """Sum of the logarithms, one of them a segment."""
    kind = ratios.dtype.type
    total = kind(0)
    for k in range(segments.size - 1):
        part = ratios[segments[k] : segments[k + 1]]
        product = kind(1)
        for i in range(part.size):
            product *= part[i]
        total += kind(np.log(product))
    return total


@inlined
def to_hidden(w, sent, one, zero, product, received):
    """Messages from all visible units to a hidden one, which sent them ``sent``."""
    kind = w.dtype.type
    if product == SUM:
        for i in range(w.size):
            rest = zero[i] * sent[i]
            received[i] = (rest + one[i] * w[i]) / (rest + one[i])
    elif product == MAX:
        for i in range(w.size):
            rest = zero[i] * sent[i]
            received[i] = max(rest, one[i] * w[i]) / max(rest, one[i])
    else:
        for i in range(w.size):
            received[i] = w[i] if one[i] > kind(0.5) else kind(1)


@inlined
def to_visible(w, received, logit, bound, product, sent, factors):
    """Messages from a hidden unit to all visible ones; ``factors`` are multiplied by them."""
    kind = w.dtype.type
    odds = kind(np.exp(-min(max(logit, -bound), bound)))
    one = kind(1) / (kind(1) + odds)
    zero = odds * one
    if product == MAX:
        for i in range(w.size):
            rest = zero * received[i]
            message = max(rest, one * w[i]) / max(rest, one)
            sent[i] = message
            factors[i] *= message
    else:
        for i in range(w.size):
            rest = zero * received[i]
            message = (rest + one * w[i]) / (rest + one)
            sent[i] = message
            factors[i] *= message


@inlined
def add_pairs(w, sent, one, zero, logit, bound, pairs):
    """Add the probabilities that a hidden unit and each visible one are both 1."""
    kind = w.dtype.type
    hidden = kind(1) / (kind(1) + kind(np.exp(-min(max(logit, -bound), bound))))
    for i in range(w.size):
        both = one[i] * w[i]
        pairs[i] += hidden * both / (zero[i] * sent[i] + both)


@kernel
def propagate(
    w,
    visible,
    hidden,
    product,
    max_iter,
    tol,
    bound,
    segments_to_hidden,
    segments_to_visible,
    messages,
    scratch,
    out_visible,
    out_hidden,
    n_iter,
    change,
    pairs,
):
    """Messages of every row of fields until no belief moves by more than ``tol``.

    Parameters
    ----------
    w : (n_hidden, n_visible), exponentials of the weights
    visible, hidden : (n_rows, n_visible) and (n_rows, n_hidden), the fields
    product : SUM, MAX, or MIXED: sums over hidden units, maxima over visible ones
    max_iter : at least 1; an iteration is messages to the visible units and then to the hidden ones
    tol : largest change of a belief of a visible unit that counts as none
    bound : logits beyond it are held there
    segments_to_hidden, segments_to_visible
        Bounds of segments of visible units, and of hidden units.
    messages : (n_hidden, n_visible), scratch
    scratch : (6, n_visible), scratch
    out_visible, out_hidden : shaped like the fields; logits of beliefs
    n_iter, change : (n_rows,); iterations, and the last change
    pairs : (n_hidden, n_visible) or (0, 0)
        Grows by the probabilities that both units are 1, for SUM.
    """
    kind = w.dtype.type
    w, messages, pairs = borrowed(w), borrowed(messages), borrowed(pairs)
    scratch = borrowed(scratch)
    n_hidden, n_visible = w.shape
    one, zero, before = scratch[0], scratch[1], scratch[2]
    received, factors, logits = scratch[3], scratch[4], scratch[5]
    bits = np.empty(n_visible, np.int32)
    for c in range(visible.shape[0]):
        for i in range(n_visible):
            logits[i], factors[i], received[i] = visible[c, i], kind(1), kind(1)
        for k in range(segments_to_visible.size - 1):
            for j in range(segments_to_visible[k], segments_to_visible[k + 1]):
                to_visible(w[j], received, hidden[c, j], bound, product, messages[j], factors)
            gather(factors, logits, bits)
        beliefs(logits, bound, one, zero, bits)
        count, moved = 1, kind(1)
        while count < max_iter and moved > tol:
            for i in range(n_visible):
                logits[i] = visible[c, i]
            for k in range(segments_to_visible.size - 1):
                for j in range(segments_to_visible[k], segments_to_visible[k + 1]):
                    to_hidden(w[j], messages[j], one, zero, product, received)
                    logit = hidden[c, j] + log_product(received, segments_to_hidden)
                    to_visible(w[j], received, logit, bound, product, messages[j], factors)
                gather(factors, logits, bits)
            moved = belief_change(logits, bound, one, zero, bits, before)
            count += 1
        for j in range(n_hidden):
            to_hidden(w[j], messages[j], one, zero, product, received)
            out_hidden[c, j] = hidden[c, j] + log_product(received, segments_to_hidden)
            if pairs.size:
                add_pairs(w[j], messages[j], one, zero, out_hidden[c, j], bound, pairs[j])
        for i in range(n_visible):
            out_visible[c, i] = logits[i]
        n_iter[c], change[c] = count, moved
