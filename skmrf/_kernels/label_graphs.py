"""Labels of graphs: loopy belief propagation, and sums of many chains at a time."""

import numpy as np

from ._jit import (
    LANES,
    N_LANES,
    assume_distinct,
    borrowed,
    copy_into,
    inlined,
    kernel,
    load,
    load_row,
    multiply_add,
    multiply_row,
    spread,
    store,
    store_row,
    transpose,
)
from .exponential import logarithms
from .label_trees import SMALLEST, count_labels, exponentiate

LOW, HIGH = 1e-30, 1e100  # sums outside of this range are normalised


@kernel
def _collect(start, end, first, last, edges, weights, messages, beliefs):
    """Set the beliefs of the nodes of an example; return the sum of their log normalisers."""
    n = weights.shape[1]
    beliefs[start:end] = weights[start:end]
    total = 0.0
    for e in range(first, last):
        for side in range(2):
            i, size = edges[e, side], 0.0
            for a in range(n):
                beliefs[i, a] *= messages[e, side, a]
                size += beliefs[i, a]
            if not size > 0.0:
                return -np.inf
            total += np.log(size)
            for a in range(n):
                beliefs[i, a] /= size
    for i in range(start, end):
        size = 0.0
        for a in range(n):
            size += beliefs[i, a]
        if not size > 0.0:
            return -np.inf
        total += np.log(size)
        for a in range(n):
            beliefs[i, a] /= size
    return total


@kernel
def _send(e, side, edges, kinds, tables, messages, beliefs, damping, is_max, cavity, new):
    """Update the message of an edge to the node on one side; return its largest change."""
    n = cavity.size
    i, j, k = edges[e, 1 - side], edges[e, side], kinds[e]
    for a in range(n):
        m = messages[e, 1 - side, a]
        cavity[a] = beliefs[i, a] / m if m > 0.0 else 0.0
    total = 0.0
    for b in range(n):
        x = 0.0
        for a in range(n):
            y = cavity[a] * (tables[k, a, b] if side == 1 else tables[k, b, a])
            x = max(x, y) if is_max else x + y
        new[b] = x
        total += x
    if not total > 0.0:
        return 0.0
    change, size = 0.0, 0.0
    for b in range(n):
        old = messages[e, side, b]
        x = damping * old + (1.0 - damping) * new[b] / total
        change = max(change, abs(x - old))
        messages[e, side, b] = x
        beliefs[j, b] = beliefs[j, b] * (x / old) if old > 0.0 else 0.0
        size += beliefs[j, b]
    if size > 0.0:
        for b in range(n):
            beliefs[j, b] /= size
    return change


@kernel
def propagate(
    start, end, first, last, edges, kinds, weights, tables, max_iter, tol, damping, is_max,
    messages, beliefs,
):  # fmt: skip
    """Update the messages of one example; return the largest change in the last iteration.

    ``weights`` and ``tables`` hold exponentials of log-potentials. ``messages[e, side]`` is the
    message of edge e to the node on this side. ``beliefs`` receives the beliefs of the nodes.
    """
    n = weights.shape[1]
    cavity, new, change = np.empty(n), np.empty(n), np.inf
    for e in range(first, last):
        messages[e] = 1.0 / n
    for _ in range(max_iter):
        _collect(start, end, first, last, edges, weights, messages, beliefs)
        change = 0.0
        for step in range(2 * (last - first)):
            e = first + step if step < last - first else 2 * last - 1 - step - first
            for side in (1, 0) if step < last - first else (0, 1):
                x = _send(
                    e, side, edges, kinds, tables, messages, beliefs, damping, is_max, cavity, new
                )
                change = max(change, x)
        if change <= tol:
            break
    return change


@kernel
def bethe_log_z(
    start, end, first, last, edges, kinds, weights, tables, messages, beliefs, weight, counts
):  # fmt: skip
    """Return the Bethe approximation of log Z, and add the weighted beliefs of edges to counts."""
    n = weights.shape[1]
    left, right = np.empty(n), np.empty(n)
    total = _collect(start, end, first, last, edges, weights, messages, beliefs)
    if total == -np.inf:
        return total
    for e in range(first, last):
        i, j, k = edges[e, 0], edges[e, 1], kinds[e]
        for a in range(n):
            m, w = messages[e, 0, a], messages[e, 1, a]
            left[a] = beliefs[i, a] / m if m > 0.0 else 0.0
            right[a] = beliefs[j, a] / w if w > 0.0 else 0.0
        size = 0.0
        for a in range(n):
            for b in range(n):
                size += left[a] * tables[k, a, b] * right[b]
        total += np.log(size)
        for a in range(n):
            for b in range(n):
                counts[k, a, b] += weight * left[a] * tables[k, a, b] * right[b] / size
    return total


@kernel
def maximise_locally(start, end, ptr, neighbours, kinds, sides, nodes, tables, states, max_sweeps):
    """Change single labels of one example while its log-potential increases."""
    n = nodes.shape[1]
    row = np.empty(n)
    for _ in range(max_sweeps):
        has_changed = False
        for i in range(start, end):
            copy_into(nodes[i], row)
            for p in range(ptr[i], ptr[i + 1]):
                j, k = neighbours[p], kinds[p]
                for a in range(n):
                    row[a] += tables[k, a, states[j]] if sides[p] == 0 else tables[k, states[j], a]
            best = states[i]
            for a in range(n):
                if row[a] > row[best]:
                    best = a
            if best != states[i]:
                states[i], has_changed = best, True
        if not has_changed:
            break


# Sums of many chains ------------------------------------------------------------------------
#
# Arrays of shape (n_positions, n_labels, N_LANES) have the chains of a group in the last axis. A
# row of N_LANES entries is found by its index in the flat array. If the tuple ``labels`` is not
# empty, loops over labels are unrolled, and products stay in registers.


@inlined
def _count_copied(n):
    """Return n if vectors copy n entries (the last two vectors can overlap), or else 0."""
    return n if n >= LANES else 0


@kernel
def _gather(starts, lengths, nodes, labels, base, values):
    """Copy the log-potentials of chains to ``values``; those after the end of a chain are 0.

    ``labels`` is empty if no label is known.
    """
    n = nodes.shape[1]
    source, target = nodes.reshape(-1), values.reshape(-1)
    for first in range(0, N_LANES, LANES):
        n_copied = 0
        if first + LANES <= lengths.size:
            n_copied = _count_copied(n * lengths[first + LANES - 1])
            i, j = n * starts[first], n * starts[first + 1]
            k, m = n * starts[first + 2], n * starts[first + 3]
            for step in range(0, n_copied, LANES):
                x = min(step, n_copied - LANES)
                a, b, c, d = transpose(
                    load(nodes, i + x), load(nodes, j + x), load(nodes, k + x), load(nodes, m + x)
                )
                y = x * N_LANES + first
                store(values, y, a)
                store(values, y + N_LANES, b)
                store(values, y + 2 * N_LANES, c)
                store(values, y + 3 * N_LANES, d)
            if n_copied == n * lengths[0] and labels.size == 0:
                continue
        for j in range(first, first + LANES):
            length, start = 0, 0
            if j < lengths.size:
                length, start = lengths[j], starts[j]
            for x in range(n_copied, n * length):
                target[x * N_LANES + j] = source[n * start + x]
            for x in range(n * length, n * lengths[0]):
                target[x * N_LANES + j] = 0.0
            for t in range(min(length, labels.size)):
                if labels[start + t] >= 0:
                    for b in range(n):
                        if b % base != labels[start + t]:
                            values[t, b, j] = -np.inf


@kernel
def _scatter(starts, lengths, values, beliefs):
    """Copy the marginals of chains to ``beliefs``."""
    n = beliefs.shape[1]
    source, target = values.reshape(-1), beliefs.reshape(-1)
    for first in range(0, lengths.size, LANES):
        n_copied = 0
        if first + LANES <= lengths.size:
            n_copied = _count_copied(n * lengths[first + LANES - 1])
            i, j = n * starts[first], n * starts[first + 1]
            k, m = n * starts[first + 2], n * starts[first + 3]
            for step in range(0, n_copied, LANES):
                x = min(step, n_copied - LANES)
                y = x * N_LANES + first
                a, b, c, d = transpose(
                    load(values, y), load(values, y + N_LANES), load(values, y + 2 * N_LANES),
                    load(values, y + 3 * N_LANES),
                )  # fmt: skip
                store(beliefs, i + x, a)
                store(beliefs, j + x, b)
                store(beliefs, k + x, c)
                store(beliefs, m + x, d)
        for j in range(first, min(first + LANES, lengths.size)):
            for x in range(n_copied, n * lengths[j]):
                target[n * starts[j] + x] = source[x * N_LANES + j]


@kernel
def _multiply_rows(labels, x, y, start, product):
    """Set ``product`` to the elementwise product of rows of x and of y."""
    zero = spread(0.0)
    for k in range(0, count_labels(labels, product) * N_LANES, LANES):
        store(product, k, multiply_add(load(x, start + k), load(y, start + k), zero))


@kernel
def _normalise(n_active, product, weights, sizes, totals, bits, is_always):
    """Divide the columns of ``weights`` by the sums of the columns of ``product``.

    This is done if ``is_always`` is true or a sum is very large or small. The logs of the sums are
    added to ``totals``, which become nan if a sum underflows.
    """
    assume_distinct()
    n_extreme = 0
    for j in range(N_LANES):
        sizes[j] = product[0, j]
    for b in range(1, product.shape[0]):
        for j in range(N_LANES):
            sizes[j] += product[b, j]
    for j in range(N_LANES):
        n_extreme += not (LOW < sizes[j] < HIGH)
    if n_extreme == 0 and not is_always:
        return
    for j in range(n_active):
        if not sizes[j] > SMALLEST:
            sizes[j], totals[j] = 1.0, np.nan
    for b in range(product.shape[0]):
        for j in range(n_active):
            weights[b, j] /= sizes[j]
    logarithms(sizes, bits)
    for j in range(n_active):
        totals[j] += sizes[j]


@kernel
def _multiply(n, table, tables, x, first, out, start):
    """Set n rows of ``out`` to the product of a table and n rows of x."""
    zero = spread(0.0)
    for step in range(0, n, 2):
        a = max(min(step, n - 2), 0)  # an odd n computes a row twice
        b = min(a + 1, n - 1)
        i, j = (table * n + a) * n, (table * n + b) * n
        p, q, r, s = zero, zero, zero, zero
        t, u, v, w = zero, zero, zero, zero
        for k in range(n):
            one, two = spread(tables[i + k]), spread(tables[j + k])
            c, d, e, f = load_row(x, first + k * N_LANES)
            p, t = multiply_add(one, c, p), multiply_add(two, c, t)
            q, u = multiply_add(one, d, q), multiply_add(two, d, u)
            r, v = multiply_add(one, e, r), multiply_add(two, e, v)
            s, w = multiply_add(one, f, s), multiply_add(two, f, w)
        store_row(out, start + a * N_LANES, p, q, r, s)
        store_row(out, start + b * N_LANES, t, u, v, w)


@inlined
def _add_inner_products(labels, table, values, messages, start, product, sums):
    """Add the products of the forward sums of a position and ``product`` to the sums of a table.

    ``messages`` has the forward sums before ``start``. ``product`` is not used if ``labels`` has
    the labels. ``sums`` has four parts of each sum, because adding the entries of a vector takes
    longer.
    """
    n, zero, one = count_labels(labels, product), spread(0.0), spread(1.0)
    for a in range(n):
        p, q, r, s = load_row(messages, start + (a - n) * N_LANES)
        for b in range(n):
            if len(labels) > 0:
                c, d, e, f = multiply_row(values, messages, start + b * N_LANES)
            else:
                c, d, e, f = load_row(product, b * N_LANES)
            total = multiply_add(p, c, multiply_add(q, d, multiply_add(r, e, zero)))
            k = ((table * n + a) * n + b) * LANES
            store(sums, k, multiply_add(one, multiply_add(s, f, total), load(sums, k)))


@inlined
def _send_backwards(labels, table, tables, values, messages, start):
    """Compute the messages of the position before ``start``."""
    n, zero = len(labels), spread(0.0)
    for j in range(0, N_LANES, LANES):
        for a in range(n):
            total = zero
            for b in range(n):
                k = start + b * N_LANES + j
                x = multiply_add(load(values, k), load(messages, k), zero)
                total = multiply_add(spread(tables[(table * n + a) * n + b]), x, total)
            store(messages, start + (a - n) * N_LANES + j, total)


@inlined
def _send_forwards(labels, table, transposed, values, messages, start):
    """Replace messages by forward sums, and values by marginals, of the position at ``start``."""
    n, zero = len(labels), spread(0.0)
    for j in range(0, N_LANES, LANES):
        for b in range(n):
            x = zero
            for a in range(n):
                weight = spread(transposed[(table * n + b) * n + a])
                x = multiply_add(weight, load(messages, start + (a - n) * N_LANES + j), x)
            k = start + b * N_LANES + j
            x = multiply_add(x, load(values, k), zero)
            store(values, k, multiply_add(x, load(messages, k), zero))
            store(messages, k, x)


@kernel
def _pass_backwards(
    starts, lengths, kind, labels, tables, interval, values, messages, product, sizes, totals, bits
):
    """Compute the messages from the end to the start of a group of chains, and their log Z.

    ``messages[t]`` receives the sums over the labels after position t. A position is normalised if
    the sum over its labels is very large or small, which is checked every ``interval`` positions:
    then its weights ``values[t]`` are divided by the sum. The chains are sorted by decreasing
    length.
    """
    assume_distinct()
    n, n_active = count_labels(labels, product), 0
    messages[lengths[0] - 1] = 1.0
    for t in range(lengths[0] - 1, -1, -1):
        start = t * n * N_LANES
        while n_active < lengths.size and lengths[n_active] > t:
            n_active += 1
        if t % interval == 0:
            _multiply_rows(labels, values, messages, start, product)
            _normalise(n_active, product, values[t], sizes, totals, bits, t == 0)
        if t > 0:
            table = kind[starts[0] + t]
            if len(labels) > 0:
                _send_backwards(labels, table, tables, values, messages, start)
            else:
                _multiply_rows(labels, values, messages, start, product)
                _multiply(n, table, tables, product, 0, messages, start - n * N_LANES)
            for j in range(n_active, N_LANES):
                messages[t - 1, :, j] = 1.0


@kernel
def _pass_forwards(
    starts, lengths, kind, labels, transposed, strengths, values, messages, product, forward, sums
):
    """Replace values by marginals times the weights of the chains.

    The marginals of edges, divided by their table, are added to ``sums``. The messages are replaced
    by the sums over the labels up to a position, relative to Z.
    """
    assume_distinct()
    n, n_active, zero = count_labels(labels, product), lengths.size, spread(0.0)
    for b in range(n):
        for j in range(N_LANES):
            x = values[0, b, j] * strengths[j]
            values[0, b, j] = x * messages[0, b, j]
            messages[0, b, j] = x
    for t in range(1, lengths[0]):
        start, table = t * n * N_LANES, kind[starts[0] + t]
        while lengths[n_active - 1] <= t:
            n_active -= 1
        for j in range(n_active, N_LANES):
            messages[t - 1, :, j] = 0.0
        if len(labels) > 0:
            _add_inner_products(labels, table, values, messages, start, product, sums)
            _send_forwards(labels, table, transposed, values, messages, start)
            continue
        _multiply_rows(labels, values, messages, start, product)
        _add_inner_products(labels, table, values, messages, start, product, sums)
        _multiply(n, table, transposed, messages, start - n * N_LANES, forward, 0)
        for k in range(0, n * N_LANES, LANES):
            x, y = load(forward, k), load(values, start + k)
            store(messages, start + k, multiply_add(x, y, zero))
            store(values, start + k, multiply_add(x, load(product, k), zero))


@kernel
def chain_sums(
    order, ptr, kind, nodes, known, base, tables, least, transposed, interval, weights, log_z,
    beliefs, counts, labels, positions, rows, sums, limits, bits,
):  # fmt: skip
    """Compute log Z and marginals of many chains at a time.

    The arguments and results are those of ``tree_sums`` in ``label_trees.py``, but ``known`` is
    empty if no label is known. ``order`` has the chains in groups of ``N_LANES`` that are sorted by
    decreasing length. The k-th edges of all chains of a group have the same table. The tuple
    ``labels`` is empty, or it has all labels, so that the number of labels is known to the
    compiler. The arguments after it are scratch. A group is skipped if one of its sums overflows.
    """
    kind, nodes, known, tables = borrowed((kind, nodes, known, tables))
    transposed, beliefs, values, sums = borrowed((transposed, beliefs, positions[0], sums))
    n = nodes.shape[1]
    messages, product, forward = borrowed((positions[1], rows[:n], rows[n : 2 * n]))
    totals, strengths, sizes, floors = borrowed((rows[-4], rows[-3], rows[-2], rows[-1]))
    limits, bits = borrowed(limits), borrowed(bits)
    flat_counts = counts.reshape(-1)
    for first in range(0, order.size, N_LANES):
        group = order[first : first + N_LANES]
        starts, lengths = limits[0, : group.size], limits[1, : group.size]
        for j in range(group.size):
            starts[j], lengths[j] = ptr[group[j]], ptr[group[j] + 1] - ptr[group[j]]
        for j in range(N_LANES):
            totals[j], strengths[j] = 0.0, 0.0
        for k in range(sums.size):
            sums[k] = 0.0
        _gather(starts, lengths, nodes, known, base, values)
        exponentiate(lengths[0], labels, values, totals)
        for j in range(group.size):
            floors[j] = totals[j] + least[group[j]]
        _pass_backwards(
            starts, lengths, kind, labels, tables, interval, values, messages, product, sizes,
            totals, bits,
        )  # fmt: skip
        for j in range(group.size):
            if totals[j] > floors[j]:
                log_z[group[j]], strengths[j] = totals[j], weights[group[j]]
        _pass_forwards(
            starts, lengths, kind, labels, transposed, strengths, values, messages, product,
            forward, sums,
        )  # fmt: skip
        _scatter(starts, lengths, values, beliefs)
        total = 0.0
        for k in range(sums.size):
            total += sums[k]
        if -np.inf < total < np.inf:
            for k in range(sums.size):
                flat_counts[k // LANES] += sums[k]
        else:
            for j in range(group.size):
                log_z[group[j]] = np.nan
