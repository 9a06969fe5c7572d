"""Labels of graphs: scores from sparse features and their gradients, loopy belief propagation."""

import numpy as np

from ._jit import kernel
from .exponential import exponential

LOWEST = -708.0  # exp of smaller numbers is zero


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
def add_scores(first, last, ptr, columns, values, weights, out):
    """Add ``X @ weights`` to the rows ``first .. last`` of ``out``, for a CSR matrix X."""
    n = weights.shape[1]
    row = np.empty(n)
    for i in range(first, last):
        row[:] = out[i]
        for k in range(ptr[i], ptr[i + 1]):
            j, x = columns[k], values[k]
            for b in range(n):
                row[b] += x * weights[j, b]
        out[i] = row


@kernel
def add_products(first, last, ptr, columns, values, residuals, out):
    """Add ``X.T @ residuals`` of the rows ``first .. last`` of a CSR matrix X to ``out``."""
    n = out.shape[1]
    row = np.empty(n)
    for i in range(first, last):
        row[:] = residuals[i]
        for k in range(ptr[i], ptr[i + 1]):
            j, x = columns[k], values[k]
            for b in range(n):
                out[j, b] += x * row[b]


@kernel
def add_observed_scores(first, last, ptr, columns, values, pair_ptr, pair_labels, weights, out):
    """Add the scores of observed pairs of a feature and a label.

    Feature j has the weights ``pair_ptr[j] .. pair_ptr[j + 1]``, one for each of its labels.
    """
    row = np.empty(out.shape[1])
    for i in range(first, last):
        row[:] = out[i]
        for k in range(ptr[i], ptr[i + 1]):
            j, x = columns[k], values[k]
            start, end = pair_ptr[j], pair_ptr[j + 1]
            if end - start == row.size:
                for b in range(row.size):
                    row[b] += x * weights[start + b]
                continue
            for q in range(start, end):
                row[pair_labels[q]] += x * weights[q]
        out[i] = row


@kernel
def add_observed_products(
    first, last, ptr, columns, values, pair_ptr, pair_labels, residuals, out
):  # fmt: skip
    """Add the gradient by the weights of observed pairs of a feature and a label."""
    row = np.empty(residuals.shape[1])
    for i in range(first, last):
        row[:] = residuals[i]
        for k in range(ptr[i], ptr[i + 1]):
            j, x = columns[k], values[k]
            start, end = pair_ptr[j], pair_ptr[j + 1]
            if end - start == row.size:
                for b in range(row.size):
                    out[start + b] += x * row[b]
                continue
            for q in range(start, end):
                out[q] += x * row[pair_labels[q]]
