"""Belief propagation between two layers of binary units; a message is a ratio of two values.

A message is one positive number, the ratio ``m(1) / m(0)``. The two messages of an edge take one
division, but no exponential and no logarithm. Let ``w = exp(W)``, let ``t`` be the odds of the
belief of the sending unit, and let ``s`` be the last message in the opposite direction. Then the
new message is

    (s + w t) / (s + t).

For maximisation, ``max`` replaces the sums. Odds are stored as the probabilities ``1 / (1 + t)``
and ``t / (1 + t)``. Every sum then lies between ``min(1, w)`` and ``max(1, w)``, so nothing
overflows. Products of ratios are computed in segments, with one logarithm per segment. In each
segment the sums of the positive and of the negative ``W`` are bounded.

Each row of the arrays belongs to one hidden unit. For each hidden unit, the loop computes three
results: first the messages that the unit receives, from the messages that its neighbours received;
then its belief; then the messages that it sends. All this happens while the row is in the CPU
cache. Only the messages from hidden to visible units are stored. The messages to a hidden unit are
kept as numerators and denominators, so that one division suffices. Rows of weights and of messages
start at cache lines, because loads across two cache lines take as long as all arithmetic.
"""

import numpy as np

from ._jit import borrowed, copy_into, inlined, kernel
from .exponential import exponential, exponentials, logarithms

SUM, MAX, MIXED = 0, 1, 2  # products
WORD_BYTES = 16  # bytes that a transposition moves at once
WORDS_PER_LINE = 4  # in a cache line
BLOCK = 16  # hidden units whose beliefs are computed together, with vector instructions


@inlined
def fill_ratios(weights, limit, out, positive, negative):
    """Write ``exp(w)`` of each weight of a row to ``out``; sum positive and negative weights.

    ``positive`` and ``negative`` accumulate the weights by column. Returns the sum of the positive
    weights, the sum of the sizes of the negative weights, and the number of weights whose size
    exceeds the limit.
    """
    kind = out.dtype.type
    zero = kind(0)
    above, below, n_beyond = zero, zero, zero
    for j in range(out.size):
        x = kind(weights[j])
        up = max(x, zero)
        down = up - x
        n_beyond += zero if abs(x) <= limit else kind(1)  # nan is counted, too
        above += up
        below += down
        positive[j] += up
        negative[j] += down
        out[j] = exponential(min(max(x, -limit), limit))
    return above, below, n_beyond


@inlined
def interleave(rows, out):
    """Interleave two or four rows: all first entries, then all second entries, and so on."""
    a, b, c, d = rows[0], rows[1], rows[-2], rows[-1]
    if rows.shape[0] == 4:
        for j in range(a.size):
            out[4 * j] = a[j]
            out[4 * j + 1] = b[j]
            out[4 * j + 2] = c[j]
            out[4 * j + 3] = d[j]
    else:
        for j in range(a.size):
            out[2 * j] = a[j]
            out[2 * j + 1] = b[j]


@kernel
def transpose_ratios(weights, limit, w, hidden_sums, visible_sums):
    """Exponentiate and transpose the weights; sum each unit's positive and negative weights.

    ``weights`` has shape (n_visible, n_hidden), and ``w`` receives the exponentials of its
    transpose. The rows of ``w`` are whole cache lines; the entries after the last visible unit are
    undefined. ``hidden_sums`` and ``visible_sums``, of shapes (2, n_hidden) and (2, n_visible),
    receive the sums of the positive weights and of the sizes of the negative weights of each unit.
    ``hidden_sums`` must be zero at the start. Returns whether any weight exceeds the limit.
    """
    n_visible, n_hidden = weights.shape
    n_rows = WORD_BYTES // w.itemsize
    rows = np.ones((n_rows, n_hidden), w.dtype)
    tile = np.empty((WORDS_PER_LINE, n_rows * n_hidden), w.dtype)
    units, lines = tile.view(np.complex128), w.view(np.complex128)
    n_beyond = w.dtype.type(0)
    for first in range(0, n_visible, WORDS_PER_LINE * n_rows):
        for unit in range(WORDS_PER_LINE):
            for k in range(n_rows):
                i, row = first + n_rows * unit + k, rows[k]
                if i < n_visible:
                    above, below, n_more = fill_ratios(
                        weights[i], limit, row, hidden_sums[0], hidden_sums[1]
                    )
                    visible_sums[0, i], visible_sums[1, i] = above, below
                    n_beyond += n_more
            interleave(rows, tile[unit])
        a, b, c, d = units[0], units[1], units[2], units[3]
        at = first // n_rows
        for j in range(n_hidden):
            line = lines[j, at : at + WORDS_PER_LINE]
            line[0] = a[j]
            line[1] = b[j]
            line[2] = c[j]
            line[3] = d[j]
    return n_beyond > 0


@kernel
def split_segments(weights, limit, bounds, sums):
    """Split the rows of a weight matrix into ranges (segments) with bounded column sums.

    Products of the exponentials of the weights of a segment then do not overflow.
    The positive and the negative weights of a column are summed separately, and the number of
    segments is as small as possible. ``bounds`` has n_rows + 1 entries and receives the bounds of
    the segments; their number is returned. ``sums`` is scratch of shape (2, n_columns), which must
    be zero at the start.
    """
    positive, negative = sums[0], sums[1]
    zero = sums.dtype.type(0)
    bounds[0], count = 0, 1
    for i in range(weights.shape[0]):
        n_exceeding = 0
        for j in range(positive.size):
            positive[j] += max(weights[i, j], zero)
            negative[j] += max(-weights[i, j], zero)
            n_exceeding += max(positive[j], negative[j]) > limit
        if n_exceeding and i > bounds[count - 1]:
            bounds[count] = i
            count += 1
            for j in range(positive.size):
                positive[j] = max(weights[i, j], zero)
                negative[j] = max(-weights[i, j], zero)
    bounds[count] = weights.shape[0]
    return count + 1


@inlined
def fill_beliefs(logits, bound, one, zero):
    """Convert the logit of each unit to the probabilities of its states 1 and 0.

    Each probability is accurate even if it is close to zero. ``one`` and ``zero`` may have more
    entries than ``logits``; those are not used.
    """
    unit = logits.dtype.type(1)
    for i in range(logits.size):
        one[i] = -min(max(logits[i], -bound), bound)
    exponentials(one[: logits.size])
    for i in range(logits.size):
        odds = one[i]
        one[i] = unit / (unit + odds)
        zero[i] = odds * one[i]


@inlined
def update_beliefs(logits, bound, one, zero, before, tol):
    """Recompute the beliefs of the units; return how many changed by more than ``tol``."""
    for i in range(logits.size):
        before[i] = one[i]
    fill_beliefs(logits, bound, one, zero)
    count = 0
    for i in range(logits.size):
        count += abs(one[i] - before[i]) > tol
    return count


@inlined
def add_log_factors(factors, logits, bits):
    """Add the logs of accumulated message products to the logits; reset the products to 1."""
    unit = factors.dtype.type(1)
    logarithms(factors, bits)
    for i in range(factors.size):
        logits[i] += factors[i]
        factors[i] = unit


@inlined
def sum_segment_logs(ratios, segments):
    """Return the sum of the logs of ``ratios``, computed from the product of each segment."""
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
def multiply_messages(w, sent, one, zero, product):
    """Return the product of the messages from visible units to a hidden unit.

    ``sent`` holds the messages that the hidden unit sent to the visible units. For SUM and MAX it
    is multiplied by the visible units' probabilities of state 0, for :func:`send_messages`.
    """
    kind = w.dtype.type
    above, below = kind(1), kind(1)
    if product == SUM:
        for i in range(w.size):
            rest = zero[i] * sent[i]
            above *= rest + one[i] * w[i]
            below *= rest + one[i]
            sent[i] = rest
    elif product == MAX:  # separate products of numerators and denominators might underflow
        for i in range(w.size):
            rest = zero[i] * sent[i]
            above *= max(rest, one[i] * w[i]) / max(rest, one[i])
            sent[i] = rest
    else:
        for i in range(w.size):
            above *= w[i] if one[i] > kind(0.5) else kind(1)
    return above / below


@inlined
def add_incoming_messages(w, sent, one, zero, product, segments, logits, products, bits):
    """Add the logs of the messages from all visible units to the logits of hidden units.

    The hidden units form one block. ``sent`` is changed as in :func:`multiply_messages`.
    """
    for k in range(segments.size - 1):
        part = slice(segments[k], segments[k + 1])
        for j in range(logits.size):
            products[j] = multiply_messages(
                w[j][part], sent[j][part], one[part], zero[part], product
            )
        logarithms(products[: logits.size], bits)
        for j in range(logits.size):
            logits[j] += products[j]


@inlined
def send_first_messages(w, on, off, product, sent, factors):
    """Compute the messages from a hidden unit to the visible units in the first iteration.

    The hidden unit has not received messages yet. ``sent`` receives the messages,
    and ``factors`` are multiplied by the messages.
    """
    unit = w.dtype.type(1)
    if product == MAX:
        scale = unit / max(off, on)
        for i in range(factors.size):
            sent[i] = max(off, on * w[i]) * scale
            factors[i] *= sent[i]
    else:
        scale = unit / (off + on)
        for i in range(factors.size):
            sent[i] = (off + on * w[i]) * scale
            factors[i] *= sent[i]


@inlined
def send_messages(w, one, on, off, product, rest, factors):
    """Compute the messages from a hidden unit to the visible units.

    ``on`` and ``off`` are the probabilities of the states 1 and 0 of the hidden unit. ``rest`` is
    the array ``sent`` after :func:`add_incoming_messages`. The messages replace it, and ``factors``
    are multiplied by them.
    """
    kind = w.dtype.type
    if product == SUM and on <= off:
        odds = on / off
        for i in range(factors.size):
            out, into = rest[i] + one[i] * w[i], odds * (rest[i] + one[i])
            message = (out + into * w[i]) / (out + into)
            rest[i] = message
            factors[i] *= message
    elif product == SUM:
        odds = off / on
        for i in range(factors.size):
            out, into = odds * (rest[i] + one[i] * w[i]), rest[i] + one[i]
            message = (out + into * w[i]) / (out + into)
            rest[i] = message
            factors[i] *= message
    elif product == MAX:
        for i in range(factors.size):
            out, into = off * max(rest[i], one[i] * w[i]), on * max(rest[i], one[i])
            message = max(out, into * w[i]) / max(out, into)
            rest[i] = message
            factors[i] *= message
    else:
        for i in range(factors.size):
            out = off * (w[i] if one[i] > kind(0.5) else kind(1))
            message = (out + on * w[i]) / (out + on)
            rest[i] = message
            factors[i] *= message


@inlined
def add_pairs(w, rest, one, logit, bound, pairs):
    """Add to ``pairs`` the probability that a hidden unit and each visible unit are both 1.

    ``pairs`` has one entry for each visible unit.
    """
    kind = w.dtype.type
    hidden = kind(1) / (kind(1) + kind(np.exp(-min(max(logit, -bound), bound))))
    for i in range(pairs.size):
        both = one[i] * w[i]
        pairs[i] += hidden * both / (rest[i] + both)


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
    moved,
    pairs,
):
    """Run belief propagation for each row of biases until no belief changes by more than ``tol``.

    Parameters
    ----------
    w : ndarray of shape (n_hidden, at least n_visible)
        Exponentials of the weights.
    visible, hidden : ndarray of shape (n_rows, n_visible) and (n_rows, n_hidden)
        Biases.
    product : {SUM, MAX, MIXED}
        MIXED sums over hidden units and maximises over visible units.
    max_iter : int
        Maximum number of iterations, at least 1. An iteration sends messages to the visible units
        and then to the hidden units.
    tol : float
        Largest change of a visible unit's belief at which the iterations stop.
    bound : float
        Largest size of logits; larger ones are clipped.
    segments_to_hidden, segments_to_visible : ndarray of int
        Bounds of the segments of visible units, and of hidden units.
    messages : ndarray
        Scratch, shaped like ``w``.
    scratch : ndarray of shape (8, at least n_visible and BLOCK)
        Scratch.
    out_visible, out_hidden : ndarray
        Receive the logits of the beliefs; shaped like the biases.
    n_iter, moved : ndarray of int of shape (n_rows,)
        Receive the number of iterations, and the number of beliefs that changed in the last one.
    pairs : ndarray of shape (n_hidden, n_visible) or (0, 0)
        The probabilities that both units are 1 are added to it; for SUM only.
    """
    kind = w.dtype.type
    w, messages, pairs = borrowed(w), borrowed(messages), borrowed(pairs)
    scratch, hidden, out_hidden = borrowed(scratch), borrowed(hidden), borrowed(out_hidden)
    n_hidden, n_visible = hidden.shape[1], visible.shape[1]
    one, zero, before = scratch[0][:n_visible], scratch[1][:n_visible], scratch[2][:n_visible]
    factors, logits = scratch[3][:n_visible], scratch[4][:n_visible]
    bits = np.empty(max(n_visible, BLOCK), np.int32)
    on, off, products = scratch[5][:BLOCK], scratch[6][:BLOCK], scratch[7][:BLOCK]
    one[:] = kind(0)
    for c in range(visible.shape[0]):
        factors[:] = kind(1)
        count, n_moved = 0, 1
        while count < max_iter and n_moved > 0:
            copy_into(visible[c], logits)
            for k in range(segments_to_visible.size - 1):
                start, stop = segments_to_visible[k], segments_to_visible[k + 1]
                n_blocks = (stop - start + BLOCK - 1) // BLOCK
                for step in range(n_blocks):
                    first = start + BLOCK * (step if count % 2 else n_blocks - 1 - step)
                    block = slice(first, min(first + BLOCK, stop))
                    w_block, sent, total = w[block], messages[block], out_hidden[c][block]
                    copy_into(hidden[c][block], total)
                    if count > 0:
                        add_incoming_messages(
                            w_block,
                            sent,
                            one,
                            zero,
                            product,
                            segments_to_hidden,
                            total,
                            products,
                            bits,
                        )
                    fill_beliefs(total, bound, on, off)
                    for j in range(total.size):
                        if count > 0:
                            send_messages(w_block[j], one, on[j], off[j], product, sent[j], factors)
                        else:
                            send_first_messages(
                                w_block[j], on[j], off[j], product, sent[j], factors
                            )
                add_log_factors(factors, logits, bits)
            n_moved = update_beliefs(logits, bound, one, zero, before, tol)
            n_moved = n_moved if count > 0 else int(tol < kind(1))
            count += 1
        out_hidden[c] = hidden[c]
        for start in range(0, n_hidden, BLOCK):
            block = slice(start, min(start + BLOCK, n_hidden))
            w_block, sent, total = w[block], messages[block], out_hidden[c][block]
            add_incoming_messages(
                w_block, sent, one, zero, product, segments_to_hidden, total, products, bits
            )
            if pairs.size:
                for j in range(total.size):
                    add_pairs(w_block[j], sent[j], one, total[j], bound, pairs[start + j])
        out_visible[c] = logits
        n_iter[c], moved[c] = count, n_moved
