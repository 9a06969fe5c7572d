"""Labels of graphs: loopy belief propagation, sums of many chains, Frank-Wolfe steps of chains."""

import numpy as np

from ._jit import kernel
from .exponential import exponential, logarithms
from .label_trees import (
    LOWEST,
    SMALLEST,
    add_observed_products,
    add_observed_scores,
    clear_observed,
    tree_maxima,
)

N_STREAMS = 8  # chains that are copied at a time


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
def exponentials_of_rows(values, labels, base, out, tops):
    """Set ``out`` to the exponentials of rows minus their maxima, which ``tops`` receives."""
    for i in range(values.shape[0]):
        top = -np.inf
        for b in range(values.shape[1]):
            if labels[i] < 0 or b % base == labels[i]:
                top = max(top, values[i, b])
        tops[i] = top
        for b in range(values.shape[1]):
            is_possible = labels[i] < 0 or b % base == labels[i]
            x = values[i, b] - top if is_possible and top > -np.inf else -np.inf
            out[i, b] = exponential(max(min(x, 0.0), LOWEST)) if x > LOWEST else 0.0


@kernel
def maximise_locally(start, end, ptr, neighbours, kinds, sides, nodes, tables, states, max_sweeps):
    """Change single labels of one example while its log-potential increases."""
    n = nodes.shape[1]
    row = np.empty(n)
    for _ in range(max_sweeps):
        has_changed = False
        for i in range(start, end):
            row[:] = nodes[i]
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


@kernel
def _gather(starts, lengths, nodes, labels, base, values):
    """Copy the log-potentials of chains to ``values``; those after the end of a chain are 0.

    Few chains are read at a time, because the processor fetches few streams ahead.
    """
    n, n_lanes = values.shape[1:]
    for first in range(0, n_lanes, N_STREAMS):
        for t in range(lengths[0]):
            for j in range(first, min(first + N_STREAMS, n_lanes)):
                if j >= lengths.size or t >= lengths[j]:
                    for b in range(n):
                        values[t, b, j] = 0.0
                    continue
                i = starts[j] + t
                for b in range(n):
                    values[t, b, j] = nodes[i, b]
                if labels[i] >= 0:
                    for b in range(n):
                        if b % base != labels[i]:
                            values[t, b, j] = -np.inf


@kernel
def _scatter(starts, lengths, values, beliefs):
    """Copy the marginals of chains to ``beliefs``."""
    for first in range(0, lengths.size, N_STREAMS):
        for t in range(lengths[first]):
            for j in range(first, min(first + N_STREAMS, lengths.size)):
                if t < lengths[j]:
                    for b in range(values.shape[1]):
                        beliefs[starts[j] + t, b] = values[t, b, j]


@kernel
def _exponentiate(own, tops, totals):
    """Replace the columns of ``own`` by exponentials minus the maxima, which totals receive."""
    n, n_lanes = own.shape
    for j in range(n_lanes):
        tops[j] = own[0, j]
    for b in range(1, n):
        for j in range(n_lanes):
            tops[j] = max(tops[j], own[b, j])
    for j in range(n_lanes):
        tops[j] = tops[j] if tops[j] > -np.inf else 0.0
        totals[j] += tops[j]
    for b in range(n):
        for j in range(n_lanes):
            x = own[b, j] - tops[j]
            y = exponential(max(min(x, 0.0), LOWEST))
            own[b, j] = y if x > LOWEST else 0.0


@kernel
def _normalise(n_active, own, sizes, inverses, bits, totals):
    """Divide the columns of ``own`` by their sums, and add the logs of the sums to ``totals``.

    A total becomes nan if the sum underflows.
    """
    n, n_lanes = own.shape
    sizes[:] = 0.0
    for b in range(n):
        for j in range(n_lanes):
            sizes[j] += own[b, j]
    for j in range(n_lanes):
        if j >= n_active:
            sizes[j] = 1.0
        elif not sizes[j] > SMALLEST:
            sizes[j], totals[j] = 1.0, np.nan
    for j in range(n_lanes):
        inverses[j] = 1.0 / sizes[j]
    for b in range(n):
        for j in range(n_lanes):
            own[b, j] *= inverses[j]
    logarithms(sizes, bits)
    for j in range(n_lanes):
        totals[j] += sizes[j]


@kernel
def _multiply(table, x, out):
    """Set ``out`` to the product of two matrices; the second one has a column for each chain."""
    n, n_lanes = x.shape
    for a in range(n):
        for j in range(n_lanes):
            out[a, j] = 0.0
        for b in range(0, n - 3, 4):
            t, u, v, w = table[a, b], table[a, b + 1], table[a, b + 2], table[a, b + 3]
            for j in range(n_lanes):
                out[a, j] += t * x[b, j] + u * x[b + 1, j] + v * x[b + 2, j] + w * x[b + 3, j]
        for b in range(n - n % 4, n):
            t = table[a, b]
            for j in range(n_lanes):
                out[a, j] += t * x[b, j]


@kernel
def _add_inner_products(x, y, out):
    """Add ``x @ y.T`` to ``out``."""
    n, n_lanes = x.shape
    for a in range(n):
        for b in range(0, n - 3, 4):
            t, u, v, w = 0.0, 0.0, 0.0, 0.0
            for j in range(n_lanes):
                t += x[a, j] * y[b, j]
                u += x[a, j] * y[b + 1, j]
                v += x[a, j] * y[b + 2, j]
                w += x[a, j] * y[b + 3, j]
            out[a, b] += t
            out[a, b + 1] += u
            out[a, b + 2] += v
            out[a, b + 3] += w
        for b in range(n - n % 4, n):
            t = 0.0
            for j in range(n_lanes):
                t += x[a, j] * y[b, j]
            out[a, b] += t


@kernel
def _pass_backwards(
    starts, lengths, kind, nodes, labels, base, tables, values, messages, rows, totals
):  # fmt: skip
    """Compute the messages from the end to the start of a group of chains, and their log Z.

    ``values[t]`` receives the normalised sums over the labels after position t, ``messages[t]``
    their product with the table of the edge to the position before. The chains are sorted by
    decreasing length.
    """
    tops, sizes, inverses, n_active = rows[0], rows[1], rows[2], 0
    bits = np.empty(sizes.size, np.int32)
    n, n_lanes = values.shape[1:]
    totals[:] = 0.0
    _gather(starts, lengths, nodes, labels, base, values)
    for t in range(lengths[0] - 1, -1, -1):
        own = values[t]
        while n_active < lengths.size and lengths[n_active] > t:
            n_active += 1
        _exponentiate(own, tops, totals)
        if t + 1 < lengths[0]:
            for b in range(n):
                for j in range(n_lanes):
                    own[b, j] *= messages[t + 1, b, j]
        _normalise(n_active, own, sizes, inverses, bits, totals)
        if t > 0:
            _multiply(tables[kind[starts[0] + t]], own, messages[t])
            for b in range(n):
                for j in range(n_active, n_lanes):
                    messages[t, b, j] = 1.0


@kernel
def _pass_forwards(
    starts, lengths, kind, transposed, strengths, values, messages, product, beliefs, counts
):  # fmt: skip
    """Compute marginals times the weights of the chains from the results of the pass backwards.

    ``beliefs`` receives those of nodes. Those of edges, divided by their table, are added to
    ``counts``.
    """
    n_active, (n, n_lanes) = lengths.size, product.shape
    for t in range(lengths[0]):
        own, ratio = values[t], messages[t]
        while lengths[n_active - 1] <= t:
            n_active -= 1
        if t == 0:
            for b in range(n):
                for j in range(n_lanes):
                    own[b, j] *= strengths[j]
        else:
            c, above = kind[starts[0] + t], values[t - 1]
            for a in range(n):
                for j in range(n_lanes):
                    x = ratio[a, j]
                    ratio[a, j] = above[a, j] / x if x > 0.0 else 0.0
                for j in range(n_active, n_lanes):
                    ratio[a, j] = 0.0
            _multiply(transposed[c], ratio, product)
            _add_inner_products(ratio, own, counts[c])
            for b in range(n):
                for j in range(n_lanes):
                    own[b, j] *= product[b, j]
    _scatter(starts, lengths, values, beliefs)


@kernel
def chain_sums(
    order, ptr, kind, nodes, labels, base, tables, transposed, weights, log_z, beliefs, counts,
    values, messages,
):  # fmt: skip
    """Compute log Z and marginals of many chains at a time.

    The arguments and results are those of ``tree_sums`` in ``label_trees.py``.
    ``order`` has the chains in groups that are sorted by decreasing length. All groups but the last
    one have ``values.shape[2]`` chains. The k-th edges of all chains of a group have the same
    table. ``values`` and ``messages``, with one row per node of the longest chain, are scratch.
    """
    n, n_lanes = values.shape[1:]
    rows, product = np.empty((5, n_lanes)), np.empty((n, n_lanes))
    for first in range(0, order.size, n_lanes):
        group = order[first : first + n_lanes]
        starts, lengths = ptr[group], ptr[group + 1] - ptr[group]
        totals, strengths = rows[3], rows[4]
        _pass_backwards(
            starts, lengths, kind, nodes, labels, base, tables, values, messages, rows, totals
        )
        strengths[:] = 0.0
        for j in range(group.size):
            if not np.isnan(totals[j]):
                log_z[group[j]], strengths[j] = totals[j], weights[group[j]]
        _pass_forwards(
            starts, lengths, kind, transposed, strengths, values, messages, product, beliefs, counts
        )


# Structured support vector machine of chains ------------------------------------------------


@kernel
def _find_change(first, last, states, known, nodes, tables, change, table_change):
    """Set the changes to the moments of known minus found labels, minus the dual variables."""
    table_change[:] = -tables
    for i in range(first, last):
        change[i] = -nodes[i]
        change[i, known[i]] += 1.0
        change[i, states[i]] -= 1.0
        if i > first:
            table_change[known[i - 1], known[i]] += 1.0
            table_change[states[i - 1], states[i]] -= 1.0


@kernel
def _inner_product(first, last, x, y):
    """Return the sum of the products of the rows ``first .. last`` of two arrays."""
    total = 0.0
    for i in range(first, last):
        for b in range(x.shape[1]):
            total += x[i, b] * y[i, b]
    return total


@kernel
def _squared_norm(first, last, features, change, table_change, projected, buffer):
    """Return the squared norm of the statistics of a change. All entries of buffer are zero."""
    ptr, starts, _, pair_ptr, pairs, _, _ = features
    n = change.shape[1]
    add_observed_products(first, last, *features, change, buffer)
    projected[first:last] = 0.0
    add_observed_scores(first, last, *features, buffer, projected)
    clear_observed(first, last, ptr, starts, pair_ptr, pairs, n, buffer)
    total = _inner_product(first, last, change, projected)
    total += _inner_product(0, n, table_change, table_change)
    for i in (first, last - 1):
        total += _inner_product(i, i + 1, change, change)
    for b in range(n):
        x = 0.0
        for i in range(first, last):
            x += change[i, b]
        total += x * x
    return total


@kernel
def _add_statistics(first, last, features, change, table_change, theta):
    """Add the statistics of a change to the parameters."""
    coef, intercept, transition, start, end = theta
    add_observed_products(first, last, *features, change, coef)
    for i in range(first, last):
        intercept += change[i]
    start += change[first]
    end += change[last - 1]
    transition[0] += table_change


@kernel
def frank_wolfe_steps(
    examples, n_steps, alpha, weights, ptr, trees, features, known, free, loss, theta, lag, nodes,
    tables, losses, rows, scratch,
):  # fmt: skip
    """Make a block-coordinate Frank-Wolfe step for each chain of ``examples``.

    ``theta`` and ``lag`` are the weights of features as a vector, the intercept, the transitions,
    and the weights of the first and of the last label, as in ``learners/frank_wolfe.py``. The dual
    variables ``nodes`` and ``tables`` and their ``losses`` are updated, and so are ``theta`` and
    ``lag``. ``rows`` and ``scratch`` are work arrays; the first one of ``scratch`` must be
    zero.
    """
    coef, intercept, transition, start, end = theta
    n = loss.shape[1]
    scores, augmented, change, projected = rows
    buffer, values, best, found, states = scratch
    table_change = np.empty((n, n))
    for e in examples:
        first, last = ptr[e], ptr[e + 1]
        scores[first:last] = intercept
        scores[first] += start
        scores[last - 1] += end
        add_observed_scores(first, last, *features, coef, scores)
        augmented[first:last] = scores[first:last] + loss[first:last]
        tree_maxima(
            e, e + 1, ptr, *trees, augmented, free, n, transition, values, best, found, states
        )
        _find_change(first, last, states, known, nodes, tables[e], change, table_change)
        new_loss = 0.0
        for i in range(first, last):
            new_loss += loss[i, states[i]]
        slope = _inner_product(first, last, change, scores)
        slope += _inner_product(0, n, table_change, transition[0])
        gain = new_loss - losses[e] - slope
        norm = _squared_norm(first, last, features, change, table_change, projected, buffer)
        curvature = max(weights[e] / alpha * norm, 1e-300)
        size = 0.0 if gain <= 0.0 else min(gain / curvature, 1.0)
        nodes[first:last] += size * change[first:last]
        tables[e] += size * table_change
        losses[e] += size * (new_loss - losses[e])
        for factor, part in (
            (size * weights[e] / alpha, theta), (0.5 * n_steps * (n_steps + 1), lag)
        ):  # fmt: skip
            change[first:last] *= factor
            table_change *= factor
            _add_statistics(first, last, features, change, table_change, part)
        n_steps += 1
