"""Belief propagation between two layers of two-state units, in the domain of ratios.

A message is one positive number, the ratio ``m(1) / m(0)``, so it costs one division and neither
an exponential nor a logarithm. With ``w = exp(W)``, ``t`` the odds of the belief of a unit and
``s`` the message that reached it from the receiver, the message it sends is

    (s + w t) / (s + t),

or with ``max`` for the sums. Odds enter as the probabilities ``1 / (1 + t)`` and ``t / (1 + t)``,
so that every sum lies between ``min(1, w)`` and ``max(1, w)`` and nothing overflows. Products of
ratios are taken over segments in which the sums of positive and of negative ``W`` are bounded, one
logarithm a segment.

Hidden units are rows: row j turns the messages that reached its neighbours into those it gets,
finds its belief and sends its own messages, while the row is in the cache. Only the messages from
hidden to visible units are stored; those that a hidden unit gets are fractions that its belief
needs, and then its messages, which is where the one division of both is. Rows of weights and of
messages begin at lines of the cache: across two of them, loading takes as long as all arithmetic.
"""

import numpy as np

from ._jit import borrowed, inlined, kernel
from .exponential import exponential, exponentials, logarithms

SUM, MAX, MIXED = 0, 1, 2  # products
UNIT = 16  # bytes that are moved as one where weights are turned
UNITS = 4  # of a line of the cache
BLOCK = 16  # hidden units whose beliefs are found at once, in vectors


@inlined
def ratios_of(weights, limit, out, positive, negative):
    """Exponentials of a row; adds up sizes of either sign, and counts those beyond the limit."""
    kind = out.dtype.type
    zero = kind(0)
    above, below, beyond = zero, zero, zero
    for j in range(out.size):
        x = kind(weights[j])
        up = max(x, zero)
        down = up - x
        beyond += zero if abs(x) <= limit else kind(1)  # nan is beyond, too
        above += up
        below += down
        positive[j] += up
        negative[j] += down
        out[j] = exponential(min(max(x, -limit), limit))
    return above, below, beyond


@inlined
def interleaved(rows, out):
    """The first entries of the two or four rows, then the second ones, and so on."""
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
def turned(weights, limit, w, hidden_sums, visible_sums):
    """Ratios with hidden units as rows, and the sums of positive and of negative ``W`` at units.

    ``weights`` is (n_visible, n_hidden); w gets their exponentials, and its rows are whole lines of
    the cache, of which what is left over gets anything. The sums, of sizes, are (2, n_hidden) and
    (2, n_visible); those of hidden units begin at zero. Returns whether any is beyond the limit.
    """
    n_visible, n_hidden = weights.shape
    n_rows = UNIT // w.itemsize
    rows = np.ones((n_rows, n_hidden), w.dtype)
    tile = np.empty((UNITS, n_rows * n_hidden), w.dtype)
    units, lines = tile.view(np.complex128), w.view(np.complex128)
    beyond = w.dtype.type(0)
    for first in range(0, n_visible, UNITS * n_rows):
        for unit in range(UNITS):
            for k in range(n_rows):
                i, row = first + n_rows * unit + k, rows[k]
                if i < n_visible:
                    above, below, more = ratios_of(
                        weights[i], limit, row, hidden_sums[0], hidden_sums[1]
                    )
                    visible_sums[0, i], visible_sums[1, i] = above, below
                    beyond += more
            interleaved(rows, tile[unit])
        a, b, c, d = units[0], units[1], units[2], units[3]
        at = first // n_rows
        for j in range(n_hidden):
            line = lines[j, at : at + UNITS]
            line[0] = a[j]
            line[1] = b[j]
            line[2] = c[j]
            line[3] = d[j]
    return beyond > 0


@kernel
def segments_of(weights, limit, bounds, sums):
    """Cut rows into as few segments as keep every column's sums of either sign within a limit.

    ``bounds`` has room for one more than there are rows; returns how many of it are used. ``sums``
    is scratch, two a column, zero.
    """
    positive, negative = sums[0], sums[1]
    zero = sums.dtype.type(0)
    bounds[0], count = 0, 1
    for i in range(weights.shape[0]):
        beyond = 0
        for j in range(positive.size):
            positive[j] += max(weights[i, j], zero)
            negative[j] += max(-weights[i, j], zero)
            beyond += max(positive[j], negative[j]) > limit
        if beyond and i > bounds[count - 1]:
            bounds[count] = i
            count += 1
            for j in range(positive.size):
                positive[j] = max(weights[i, j], zero)
                negative[j] = max(-weights[i, j], zero)
    bounds[count] = weights.shape[0]
    return count + 1


@inlined
def beliefs(logits, bound, one, zero):
    """Probabilities of both states; each is exact where it is close to zero."""
    unit = logits.dtype.type(1)
    for i in range(logits.size):
        one[i] = -min(max(logits[i], -bound), bound)
    exponentials(one)
    for i in range(logits.size):
        odds = one[i]
        one[i] = unit / (unit + odds)
        zero[i] = odds * one[i]


@inlined
def moved_beliefs(logits, bound, one, zero, before, tol):
    """New beliefs, and how many of them moved by more than ``tol``."""
    for i in range(logits.size):
        before[i] = one[i]
    beliefs(logits, bound, one, zero)
    count = 0
    for i in range(logits.size):
        count += abs(one[i] - before[i]) > tol
    return count


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
def message_product(w, sent, one, zero, product):
    """Product of the messages from visible units to a hidden one, which sent them ``sent``.

    For SUM and MAX ``sent`` is left as what a visible unit's odds of 0 are without it.
    """
    kind = w.dtype.type
    above, below = kind(1), kind(1)
    if product == SUM:
        for i in range(w.size):
            rest = zero[i] * sent[i]
            above *= rest + one[i] * w[i]
            below *= rest + one[i]
            sent[i] = rest
    elif product == MAX:  # either side alone might be 1 / 2 time and again
        for i in range(w.size):
            rest = zero[i] * sent[i]
            above *= max(rest, one[i] * w[i]) / max(rest, one[i])
            sent[i] = rest
    else:
        for i in range(w.size):
            above *= w[i] if one[i] > kind(0.5) else kind(1)
    return above / below


@inlined
def hear(w, sent, one, zero, product, segments, logits, products, bits):
    """Add the logs of all messages to a block of hidden units to their logits.

    What they had sent is replaced, see :func:`message_product`.
    """
    for k in range(segments.size - 1):
        part = slice(segments[k], segments[k + 1])
        for j in range(logits.size):
            products[j] = message_product(w[j][part], sent[j][part], one[part], zero[part], product)
        logarithms(products[: logits.size], bits)
        for j in range(logits.size):
            logits[j] += products[j]


@inlined
def send_first(w, on, off, product, sent, factors):
    """Messages of a hidden unit that has received none; ``factors`` are multiplied by them."""
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
def send(w, one, on, off, product, rest, factors):
    """Messages of a hidden unit, of probabilities ``on`` and ``off``, to all visible ones.

    ``factors`` are multiplied by them; they replace ``rest``, what :func:`hear` left.
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
    """Add the probabilities that a hidden unit and each visible one are both 1."""
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
    """Messages of every row of fields until no belief moves by more than ``tol``.

    Parameters
    ----------
    w : (n_hidden, at least n_visible), exponentials of the weights
    visible, hidden : (n_rows, n_visible) and (n_rows, n_hidden), the fields
    product : SUM, MAX, or MIXED: sums over hidden units, maxima over visible ones
    max_iter : at least 1; an iteration is messages to the visible units and then to the hidden ones
    tol : largest change of a belief of a visible unit that counts as none
    bound : logits beyond it are held there
    segments_to_hidden, segments_to_visible
        Bounds of segments of visible units, and of hidden units.
    messages : shaped like w, scratch
    scratch : (8, at least n_visible and BLOCK), scratch
    out_visible, out_hidden : shaped like the fields; logits of beliefs
    n_iter, moved : (n_rows,); iterations, and how many beliefs the last one moved
    pairs : (n_hidden, n_visible) or (0, 0)
        Grows by the probabilities that both units are 1, for SUM.
    """
    kind = w.dtype.type
    w, messages, pairs = borrowed(w), borrowed(messages), borrowed(pairs)
    scratch, hidden, out_hidden = borrowed(scratch), borrowed(hidden), borrowed(out_hidden)
    n_hidden, n_visible = hidden.shape[1], visible.shape[1]
    one, zero, before = scratch[0][:n_visible], scratch[1][:n_visible], scratch[2][:n_visible]
    factors, logits = scratch[3][:n_visible], scratch[4][:n_visible]
    bits = np.empty(max(n_visible, BLOCK), np.int32)
    on, off, products = scratch[5][:BLOCK], scratch[6][:BLOCK], scratch[7][:BLOCK]
    for c in range(visible.shape[0]):
        factors[:] = kind(1)
        count, n_moved = 0, 1
        while count < max_iter and n_moved > 0:
            logits[:] = visible[c]
            for k in range(segments_to_visible.size - 1):
                start, stop = segments_to_visible[k], segments_to_visible[k + 1]
                n_blocks = (stop - start + BLOCK - 1) // BLOCK
                for step in range(n_blocks):
                    first = start + BLOCK * (step if count % 2 else n_blocks - 1 - step)
                    block = slice(first, min(first + BLOCK, stop))
                    near, told, own = w[block], messages[block], out_hidden[c][block]
                    own[:] = hidden[c][block]
                    if count > 0:
                        hear(
                            near, told, one, zero, product, segments_to_hidden, own, products, bits
                        )
                    beliefs(own, bound, on, off)
                    for j in range(own.size):
                        if count > 0:
                            send(near[j], one, on[j], off[j], product, told[j], factors)
                        else:
                            send_first(near[j], on[j], off[j], product, told[j], factors)
                gather(factors, logits, bits)
            n_moved = moved_beliefs(logits, bound, one, zero, before, tol)
            n_moved = n_moved if count > 0 else int(tol < kind(1))
            count += 1
        out_hidden[c] = hidden[c]
        for start in range(0, n_hidden, BLOCK):
            block = slice(start, min(start + BLOCK, n_hidden))
            near, told, own = w[block], messages[block], out_hidden[c][block]
            hear(near, told, one, zero, product, segments_to_hidden, own, products, bits)
            if pairs.size:
                for j in range(own.size):
                    add_pairs(near[j], told[j], one, own[j], bound, pairs[start + j])
        out_visible[c] = logits
        n_iter[c], moved[c] = count, n_moved
