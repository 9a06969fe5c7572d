"""Labels of trees: scores from sparse features, sums, maxima, draws and best labellings.

Chains are trees. The kernels take trees as arrays: ``ptr`` (first node of each example), ``order``
(parents before children), ``parent`` and ``kind`` (table of the edge to the parent). ``nodes`` has
the log-potential of each node and label. If ``labels[i]`` is not negative, only labels that equal
it modulo ``base`` are possible at node i. ``first`` and ``last`` limit the examples that a call
computes.
"""

import numpy as np

from ._jit import (
    LANES,
    N_LANES,
    assume_distinct,
    inlined,
    kernel,
    larger,
    load,
    multiply_add,
    spread,
    store,
)
from .exponential import exponential_or_zero

SMALLEST = 1e-280  # smaller sums are computed in the log domain


@kernel
def _add_multiple(n, x, values, first, out, start):
    """Add n entries of ``values``, from ``first`` on, times x to ``out``, from ``start`` on."""
    factor = spread(x)
    for b in range(0, n - LANES + 1, LANES):
        total = multiply_add(factor, load(values, first + b), load(out, start + b))
        store(out, start + b, total)
    for b in range(n - n % LANES, n):
        out[start + b] += x * values[first + b]


@kernel
def add_observed_scores(
    first, last, ptr, starts, values, pair_ptr, pairs, labels, pair_values, weights, out
):  # fmt: skip
    """Add the scores of observed pairs of a feature and a label to the rows ``first .. last``.

    The entries ``ptr[i] .. ptr[i + 1]`` are those of features with a weight for each label, which
    ``starts`` points to. The entries ``pair_ptr[i] .. pair_ptr[i + 1]`` are single pairs of the
    other features: weight, label and value. The values are empty if all of them are 1.
    """
    n, has_values, has_pair_values = out.shape[1], values.size > 0, pair_values.size > 0
    flat = out.reshape(-1)
    for i in range(first, last):
        for k in range(ptr[i], ptr[i + 1]):
            x = values[k] if has_values else 1.0
            _add_multiple(n, x, weights, starts[k], flat, i * n)
        for k in range(pair_ptr[i], pair_ptr[i + 1]):
            x = pair_values[k] if has_pair_values else 1.0
            out[i, labels[k]] += x * weights[pairs[k]]


@kernel
def add_observed_products(
    first, last, ptr, starts, values, pair_ptr, pairs, labels, pair_values, residuals, out
):  # fmt: skip
    """Add the gradient by the weights of observed pairs of a feature and a label.

    The entries are those of :func:`add_observed_scores`.
    """
    n, has_values, has_pair_values = residuals.shape[1], values.size > 0, pair_values.size > 0
    flat = residuals.reshape(-1)
    for i in range(first, last):
        for k in range(ptr[i], ptr[i + 1]):
            x = values[k] if has_values else 1.0
            _add_multiple(n, x, flat, i * n, out, starts[k])
        for k in range(pair_ptr[i], pair_ptr[i + 1]):
            x = pair_values[k] if has_pair_values else 1.0
            out[pairs[k]] += x * residuals[i, labels[k]]


@kernel
def clear_observed(first, last, ptr, starts, pair_ptr, pairs, n_labels, out):
    """Set all weights of the features of the rows ``first .. last`` to 0."""
    for i in range(first, last):
        for k in range(ptr[i], ptr[i + 1]):
            out[starts[k] : starts[k] + n_labels] = 0.0
        for k in range(pair_ptr[i], pair_ptr[i + 1]):
            out[pairs[k]] = 0.0


@kernel
def weigh_labels(row, label, base, out):
    """Set ``out`` to the exponentials of a row minus its maximum; return the maximum."""
    n = row.size
    top = -np.inf
    for b in range(n):
        if label < 0 or b % base == label:
            top = max(top, row[b])
    if top == -np.inf:
        out[:] = 0.0
        return top
    for b in range(n):
        out[b] = exponential_or_zero(row[b] - top)
    if label >= 0:
        for b in range(n):
            if b % base != label:
                out[b] = 0.0
    return top


@kernel
def exponentials_of_rows(values, labels, base, out, tops):
    """Set ``out`` to the exponentials of rows minus their maxima, which ``tops`` receives."""
    for i in range(values.shape[0]):
        tops[i] = weigh_labels(values[i], labels[i], base, out[i])


@inlined
def count_labels(labels, x):
    """Return the number of labels, which the compiler knows if ``labels`` is not empty."""
    return len(labels) if len(labels) > 0 else x.shape[-2]


@kernel
def exponentiate(n_positions, labels, values, totals):
    """Replace values by exponentials minus the maxima over labels, and add those to totals.

    With two labels, one exponential of their difference is enough.
    """
    assume_distinct()
    n, one, minus_one, zero = count_labels(labels, values), spread(1.0), spread(-1.0), spread(0.0)
    flat, n_entries = values.reshape(-1), n_positions * n * N_LANES
    if len(labels) == 2:
        lanes, end = np.uint64(N_LANES), np.uint64(n_entries)  # signed ones are not vectorised
        for first in range(np.uint64(0), end, lanes + lanes):
            for j in range(lanes):
                x, y = flat[first + j], flat[first + j + lanes]
                totals[j] += x if x > y else y
                w = exponential_or_zero(-abs(x - y))
                flat[first + j] = w if x < y else 1.0
                flat[first + j + lanes] = 1.0 if x < y else w
        return
    for first in range(0, n_entries, n * N_LANES):
        for j in range(0, N_LANES, LANES):
            top = load(values, first + j)
            for b in range(1, n):
                top = larger(top, load(values, first + b * N_LANES + j))
            store(totals, j, multiply_add(one, top, load(totals, j)))
            top = multiply_add(minus_one, top, zero)
            for b in range(n):
                k = first + b * N_LANES + j
                store(values, k, multiply_add(one, load(values, k), top))
    for k in range(n_entries):
        flat[k] = exponential_or_zero(flat[k])  # it is nan if no label is possible


@kernel
def tree_sums(
    first, last, ptr, order, parent, kind, nodes, labels, base, tables, least, weights, log_z,
    beliefs, counts, messages,
):  # fmt: skip
    """Compute log Z and the marginals of labels on trees, from ratios of potentials.

    Only examples whose ``log_z`` is nan are computed. ``tables`` holds exponentials. ``log_z``
    receives log Z without the maxima of the tables, or nan if a sum underflows or if log Z minus
    the maxima of nodes and tables is at most ``least[e]``. ``beliefs`` receives the marginals of
    nodes times the weight of their example. The weighted sums of marginals of edges, divided by
    ``tables``, are added to ``counts``. ``messages`` is scratch of the size of the largest example.
    """
    n = nodes.shape[1]
    ratio, own, product = np.empty(n), np.empty(n), np.empty(n)
    for e in range(first, last):
        if not np.isnan(log_z[e]):
            continue
        start, end = ptr[e], ptr[e + 1]
        total = 0.0
        for i in range(start, end):
            total += weigh_labels(nodes[i], labels[i], base, beliefs[i])
        scale, limit = 1.0, total + least[e]
        for k in range(end - 1, start - 1, -1):
            i = order[k]
            size = 0.0
            for b in range(n):
                size += beliefs[i, b]
            if not size > SMALLEST:
                scale = np.nan
                break
            scale *= size
            if scale > 1e150 or scale < 1e-150:
                total += np.log(scale)
                scale = 1.0
            inverse = 1.0 / size
            for b in range(n):
                own[b] = beliefs[i, b] * inverse
                beliefs[i, b] = own[b]
            p, c = parent[i], kind[i]
            if p < 0:
                continue
            for a in range(n):
                x = 0.0
                for b in range(n):
                    x += tables[c, a, b] * own[b]
                messages[i - start, a] = x
                beliefs[p, a] *= x
        if not scale > 0.0 or not total + np.log(scale) > limit:
            log_z[e] = np.nan
            beliefs[start:end] = 0.0
            continue
        log_z[e] = total + np.log(scale)
        weight = weights[e]
        for b in range(n):
            beliefs[order[start], b] *= weight
        for k in range(start + 1, end):
            i = order[k]
            p, c = parent[i], kind[i]
            for a in range(n):
                x = messages[i - start, a]
                ratio[a] = beliefs[p, a] / x if x > 0.0 else 0.0
                own[a] = beliefs[i, a]
                product[a] = 0.0
            for a in range(n):
                r = ratio[a]
                for b in range(n):
                    product[b] += r * tables[c, a, b]
                    counts[c, a, b] += r * own[b]
            for b in range(n):
                beliefs[i, b] = product[b] * own[b]


@kernel
def _copy_possible(start, end, nodes, labels, base, values):
    """Set ``values`` to the log-potentials of nodes, and to -inf for impossible labels."""
    for i in range(start, end):
        for b in range(nodes.shape[1]):
            is_possible = labels[i] < 0 or b % base == labels[i]
            values[i, b] = nodes[i, b] if is_possible else -np.inf


@kernel
def _log_weights(start, end, order, parent, kind, nodes, labels, base, tables, values, messages):
    """Set ``values`` to the log sum over the subtree of each node and label; return log Z."""
    n = nodes.shape[1]
    _copy_possible(start, end, nodes, labels, base, values)
    for k in range(end - 1, start, -1):
        i = order[k]
        p, c = parent[i], kind[i]
        for a in range(n):
            top = -np.inf
            for b in range(n):
                top = max(top, tables[c, a, b] + values[i, b])
            x = 0.0
            if top > -np.inf:
                for b in range(n):
                    x += np.exp(tables[c, a, b] + values[i, b] - top)
            messages[i - start, a] = np.log(x) + top if x > 0.0 else -np.inf
            values[p, a] += messages[i - start, a]
    root = order[start]
    top = values[root, 0]
    for b in range(n):
        top = max(top, values[root, b])
    if top == -np.inf:
        return top
    x = 0.0
    for b in range(n):
        x += np.exp(values[root, b] - top)
    return np.log(x) + top


@kernel
def tree_sums_in_logs(
    first, last, ptr, order, parent, kind, nodes, labels, base, tables, weights, log_z, beliefs,
    counts, messages,
):  # fmt: skip
    """Compute log Z and the marginals of labels on trees, from log-potentials.

    Only examples whose ``log_z`` is nan are computed. ``tables`` holds log-potentials, and the
    weighted sums of marginals of edges are added to ``counts``.
    """
    n = nodes.shape[1]
    own = np.empty(n)
    for e in range(first, last):
        if not np.isnan(log_z[e]):
            continue
        start, end = ptr[e], ptr[e + 1]
        log_z[e] = _log_weights(
            start, end, order, parent, kind, nodes, labels, base, tables, beliefs, messages
        )
        if log_z[e] == -np.inf:
            beliefs[start:end] = 0.0
            continue
        root = order[start]
        for b in range(n):
            beliefs[root, b] = weights[e] * np.exp(beliefs[root, b] - log_z[e])
        for k in range(start + 1, end):
            i = order[k]
            p, c = parent[i], kind[i]
            for a in range(n):
                own[a], beliefs[i, a] = beliefs[i, a], 0.0
            for a in range(n):
                if beliefs[p, a] == 0.0 or messages[i - start, a] == -np.inf:
                    continue
                for b in range(n):
                    x = tables[c, a, b] + own[b] - messages[i - start, a]
                    x = beliefs[p, a] * np.exp(x)
                    counts[c, a, b] += x
                    beliefs[i, b] += x


@kernel
def tree_draws(
    first, last, ptr, order, parent, kind, nodes, labels, base, tables, uniforms, values, messages,
    states,
):  # fmt: skip
    """Draw the labels of each example from their joint distribution, given uniform numbers.

    ``states`` receives the labels, or -1 if an example has no possible labels.
    """
    n = nodes.shape[1]
    log_p = np.empty(n)
    for e in range(first, last):
        start, end = ptr[e], ptr[e + 1]
        log_z = _log_weights(
            start, end, order, parent, kind, nodes, labels, base, tables, values, messages
        )
        if log_z == -np.inf:
            states[start:end] = -1
            continue
        for k in range(start, end):
            i = order[k]
            p, c = parent[i], kind[i]
            top = -np.inf
            for b in range(n):
                log_p[b] = values[i, b] if p < 0 else values[i, b] + tables[c, states[p], b]
                top = max(top, log_p[b])
            total = 0.0
            for b in range(n):
                log_p[b] = np.exp(log_p[b] - top)
                total += log_p[b]
            left, chosen = uniforms[i] * total, -1
            for b in range(n):
                if log_p[b] > 0.0:
                    chosen = b
                    left -= log_p[b]
                    if left < 0.0:
                        break
            states[i] = chosen


@kernel
def tree_maxima(
    first, last, ptr, order, parent, kind, nodes, labels, base, tables, values, best, scores,
    states,
):  # fmt: skip
    """Find the labels of each example with the largest log-potential.

    ``scores`` receives the log-potentials. ``values`` (one row per node) and ``best`` (one row per
    node of the largest example) are scratch.
    """
    n = nodes.shape[1]
    for e in range(first, last):
        start, end = ptr[e], ptr[e + 1]
        _copy_possible(start, end, nodes, labels, base, values)
        for k in range(end - 1, start, -1):
            i = order[k]
            p, c = parent[i], kind[i]
            for a in range(n):
                top = -np.inf
                for b in range(n):
                    top = max(top, tables[c, a, b] + values[i, b])
                chosen = 0
                for b in range(n):
                    if tables[c, a, b] + values[i, b] == top:
                        chosen = b
                        break
                best[i - start, a] = chosen
                values[p, a] += top
        root = order[start]
        chosen = 0
        for b in range(1, n):
            if values[root, b] > values[root, chosen]:
                chosen = b
        states[root], scores[e] = chosen, values[root, chosen]
        for k in range(start + 1, end):
            i = order[k]
            states[i] = best[i - start, states[parent[i]]]


@kernel
def best_labellings(
    start, end, order, parent, kind, nodes, labels, base, tables, lists, back, scores, states
):  # fmt: skip
    """Find the k labellings of one example with the largest log-potentials, best first.

    ``lists`` of shape (n_nodes, n_labels, k) is scratch, and so is ``back`` of shape (n_nodes,
    n_labels, k, 3): for each entry of the list of a node's parent, the entry of the list without
    the node, and the label and the entry of the list of the node. Missing labellings have the
    score -inf.
    """
    n, n_best = nodes.shape[1], len(scores)
    for i in range(end - start):
        for b in range(n):
            lists[i, b, :] = -np.inf
            if labels[start + i] < 0 or b % base == labels[start + i]:
                lists[i, b, 0] = nodes[start + i, b]
    ranks = np.zeros(end - start, np.int64)
    heads, merged = np.zeros(n, np.int64), np.empty(n_best)
    child, child_label = np.empty(n_best), np.empty(n_best, np.int64)
    child_rank, seconds = np.empty(n_best, np.int64), np.zeros(n_best, np.int64)
    for k in range(end - 1, start, -1):
        i = order[k]
        p, c = parent[i] - start, kind[i]
        for a in range(n):
            heads[:] = 0
            for r in range(n_best):
                top, chosen = -np.inf, 0
                for b in range(n):
                    if heads[b] < n_best:
                        x = tables[c, a, b] + lists[i - start, b, heads[b]]
                        if x > top:
                            top, chosen = x, b
                child[r], child_label[r], child_rank[r] = top, chosen, heads[chosen]
                heads[chosen] += 1
            seconds[:] = 0
            for r in range(n_best):
                top, chosen = -np.inf, 0
                for q in range(n_best):
                    if seconds[q] < n_best:
                        x = lists[p, a, q] + child[seconds[q]]
                        if x > top:
                            top, chosen = x, q
                s = min(seconds[chosen], n_best - 1)
                merged[r] = top
                back[i - start, a, r, 0] = chosen
                back[i - start, a, r, 1] = child_label[s]
                back[i - start, a, r, 2] = child_rank[s]
                seconds[chosen] += 1
            lists[p, a] = merged
    root = order[start] - start
    heads[:] = 0
    for r in range(n_best):
        top, chosen = -np.inf, 0
        for b in range(n):
            if heads[b] < n_best and lists[root, b, heads[b]] > top:
                top, chosen = lists[root, b, heads[b]], b
        scores[r] = top
        if top == -np.inf:
            continue
        states[r, root], ranks[root] = chosen, heads[chosen]
        heads[chosen] += 1
        for k in range(start + 1, end):
            i, p = order[k] - start, parent[order[k]] - start
            pointer = back[i, states[r, p], ranks[p]]
            ranks[p], states[r, i], ranks[i] = pointer[0], pointer[1], pointer[2]
