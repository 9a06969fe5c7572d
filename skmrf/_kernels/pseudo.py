"""Pseudo-likelihood: conditional probability of each variable given all other variables."""

import numpy as np

from ._jit import inlined, kernel, subkernel
from .exponential import LONG_RANGE, exponential
from .tables import fill_entries

BLOCK_ROWS = 256  # whose scores fit into the cache
MAX_PRODUCT = 1e250  # of sums of probabilities between two logarithms


@kernel
def pseudo_likelihood(conditionals, X, weights, site_log_p, gradient):
    """Write the log pseudo-likelihood of each row, and add its gradient to ``gradient``.

    ``site_log_p[r]`` is set to the sum over i of log p(x_i | rest of row r). The sum over rows of
    ``weights[r] * d site_log_p[r] / d flat`` is added to ``gradient``, unless it has no entries.
    """
    flat = conditionals.flat
    scores = np.empty(conditionals.n_states.max())
    entry = np.empty(conditionals.table_start.size, dtype=np.int64)
    with_gradient = gradient.size > 0
    for r in range(X.shape[0]):
        x = X[r]
        fill_entries(conditionals, x, entry)
        value = 0.0
        for i in range(x.size):
            q = conditionals.n_states[i]
            if q == 1:
                continue
            first, last = conditionals.var_ptr[i], conditionals.var_ptr[i + 1]
            for s in range(q):
                scores[s] = 0.0
            for e in range(first, last):
                stride = conditionals.var_stride[e]
                at = entry[conditionals.var_clique[e]] - x[i] * stride
                for s in range(q):
                    scores[s] += flat[at + s * stride]
            value += log_softmax(scores, q, x[i])
            if not with_gradient:
                continue
            for e in range(first, last):
                stride = conditionals.var_stride[e]
                at = entry[conditionals.var_clique[e]] - x[i] * stride
                for s in range(q):
                    gradient[at + s * stride] -= weights[r] * scores[s]
                gradient[at + x[i] * stride] += weights[r]
        site_log_p[r] = value


@inlined
def log_softmax(scores, q, chosen):
    """Return the log-probability of state ``chosen``, and replace the scores by probabilities."""
    top = -np.inf
    for s in range(q):
        top = max(top, scores[s])
    if top == -np.inf:
        for s in range(q):
            scores[s] = 1.0 / q
        return -np.inf
    chosen_score = scores[chosen] - top
    total = 0.0
    for s in range(q):
        scores[s] = np.exp(scores[s] - top)
        total += scores[s]
    for s in range(q):
        scores[s] /= total
    return chosen_score - np.log(total)


@kernel
def binary_sites(rows, weights, scores, site_log_p):
    """Write the log pseudo-likelihood of binary rows, and replace scores by weighted errors.

    ``scores[r, i]`` is the log odds of state 1 of variable i given the rest of row r. It becomes
    ``weights[r] * (rows[r, i] - p(x_i = 1 | rest of row r))``.
    """
    for r in range(rows.shape[0]):
        value, product = 0.0, 1.0
        for i in range(rows.shape[1]):
            score = scores[r, i]
            ratio = np.exp(-abs(score))
            product *= 1.0 + ratio  # at most 2**500 between two logarithms
            if i % 500 == 499:
                value -= np.log(product)
                product = 1.0
            p = 1.0 / (1.0 + ratio) if score >= 0.0 else ratio / (1.0 + ratio)
            if (rows[r, i] == 1.0) != (score >= 0.0):
                value -= abs(score)
            scores[r, i] = weights[r] * (rows[r, i] - p)
        site_log_p[r] = value - np.log(product)


@kernel
def pair_sites(
    states, first, reference, starts, coupling, bias, weights, site_log_p, gradient, bias_gradient
):
    """Add log p(x_i | rest) of each row for several variables i, and its weighted gradient.

    The variables are first, first + 1, ... of a pairwise model. ``coupling`` has one row per state
    of every variable, and ``states[r, j]`` is the row for the state of variable j in row r. The
    columns of ``coupling`` and the entries of ``bias`` are the states starts[0], starts[0] + 1, ...
    of the variables i; ``starts[t]`` is the first state of the t-th of them. Entries of
    ``coupling`` for two states of the same variable are zero. The row ``reference[j]`` is zero, and
    its gradient is not computed; it is -1 if variable j has no such row. The gradient arrays have
    the shapes of ``coupling`` and ``bias``; with empty arrays no gradient is computed.
    """
    n, d = states.shape
    size = min(n, BLOCK_ROWS)
    scores = np.empty((size, bias.size))
    index, members = np.empty(size * d, dtype=np.int32), np.empty(size * d, dtype=np.int32)
    row_ptr = np.zeros(size + 1, dtype=np.int64)
    state_ptr = np.empty(len(coupling) + 1, dtype=np.int64)
    for start in range(0, n, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, n)
        list_states(states[start:stop], reference, row_ptr, index)
        errors = scores[: stop - start]
        for r in range(stop - start):
            errors[r] = bias
        add_listed_rows(coupling, row_ptr, index, errors)
        site_errors(states[start:stop], first, starts, weights[start:stop], site_log_p[start:stop],
                    errors)  # fmt: skip
        if gradient.size > 0:
            group_by_state(row_ptr[: stop - start + 1], index, state_ptr, members)
            add_listed_rows(errors, state_ptr, members, gradient)
            for r in range(stop - start):
                bias_gradient += errors[r]


@subkernel
def list_states(states, reference, ptr, index):
    """List the states of each row without reference states: index[ptr[r]:ptr[r + 1]] in row r."""
    size = 0
    for r in range(states.shape[0]):
        for j in range(states.shape[1]):
            if states[r, j] != reference[j]:
                index[size] = states[r, j]
                size += 1
        ptr[r + 1] = size


@subkernel
def group_by_state(ptr, index, state_ptr, members):
    """List the rows with each state k, members[state_ptr[k]:state_ptr[k + 1]]."""
    state_ptr[:] = 0
    for e in range(ptr[-1]):
        state_ptr[index[e] + 1] += 1
    for k in range(state_ptr.size - 1):
        state_ptr[k + 1] += state_ptr[k]
    for r in range(ptr.size - 1):
        for e in range(ptr[r], ptr[r + 1]):
            members[state_ptr[index[e]]] = r
            state_ptr[index[e]] += 1
    for k in range(state_ptr.size - 1, 0, -1):  # entries are now the ends of the lists
        state_ptr[k] = state_ptr[k - 1]
    state_ptr[0] = 0


@subkernel
def add_listed_rows(rows, ptr, index, totals):
    """Add rows[index[ptr[t]:ptr[t + 1]]] to each row t of totals, four at a time."""
    for t in range(totals.shape[0]):
        total, e = totals[t], ptr[t]
        while e + 4 <= ptr[t + 1]:
            a, b, c, d = rows[index[e]], rows[index[e + 1]], rows[index[e + 2]], rows[index[e + 3]]
            for s in range(total.size):
                total[s] += (a[s] + b[s]) + (c[s] + d[s])
            e += 4
        while e < ptr[t + 1]:
            a = rows[index[e]]
            for s in range(total.size):
                total[s] += a[s]
            e += 1


@subkernel
def site_errors(states, first, starts, weights, site_log_p, scores):
    """Add log p(x_i | rest) of the variables first, first + 1, ... for each row.

    Scores are replaced by the derivatives of the weighted sum by the scores.
    """
    for r in range(scores.shape[0]):
        row, value, product = scores[r], 0.0, 1.0
        for t in range(starts.size - 1):
            site = row[starts[t] - starts[0] : starts[t + 1] - starts[0]]
            if site.size == 1:
                site[0] = 0.0
                continue
            chosen = states[r, first + t] - starts[t]
            chosen_score, total = relative_probabilities(site, chosen)
            value += chosen_score
            product *= total
            if product > MAX_PRODUCT:
                value -= np.log(product)
                product = 1.0
            scale = -weights[r] / total
            for s in range(site.size):
                site[s] *= scale
            site[chosen] += weights[r]
        site_log_p[r] += value - np.log(product)


@inlined
def relative_probabilities(scores, chosen):
    """Replace scores by exp(score - largest score); return log of entry ``chosen`` and the sum.

    If all scores are -inf, all states have the same probability, and log p is -inf.
    """
    top = -np.inf
    for s in range(scores.size):
        top = max(top, scores[s])
    chosen_score = scores[chosen] - top
    if top == -np.inf:
        scores[:] = 1.0
        return -np.inf, float(scores.size)
    total = 0.0
    for s in range(scores.size):
        score = scores[s] - top
        scores[s] = exponential(max(score, -LONG_RANGE)) if score > -LONG_RANGE else 0.0
        total += scores[s]
    return chosen_score, total


@kernel
def pair_arrays(flat, state_start, clique_ptr, clique_vars, strides, table_start, coupling, bias):
    """Add tables of one or two variables to a symmetric coupling matrix and a bias vector.

    Both have one row per state of every variable.
    """
    for a in range(table_start.size):
        first, order = clique_ptr[a], clique_ptr[a + 1] - clique_ptr[a]
        if order == 0:
            continue
        i = clique_vars[first]
        q_i = state_start[i + 1] - state_start[i]
        if order == 1:
            for s in range(q_i):
                bias[state_start[i] + s] += flat[table_start[a] + s * strides[first]]
            continue
        j = clique_vars[first + 1]
        for s in range(q_i):
            for t in range(state_start[j + 1] - state_start[j]):
                value = flat[table_start[a] + s * strides[first] + t * strides[first + 1]]
                coupling[state_start[i] + s, state_start[j] + t] += value
                coupling[state_start[j] + t, state_start[i] + s] += value


@kernel
def write_positions(state_start, clique_ptr, clique_vars, strides, table_start, matrix, entries):
    """Write where the entries of tables of one or two variables are in a matrix over all states.

    ``matrix[s, t]`` receives the index of the entry for the states s and t, and ``entries`` the
    index in the flattened matrix of each entry. Tables of one variable are on the diagonal.
    """
    n_total = matrix.shape[0]
    for a in range(table_start.size):
        first, last = clique_ptr[a], clique_ptr[a + 1] - 1
        rows = state_start[clique_vars[first]]
        columns, n_columns = rows, 1
        if last > first:
            columns = state_start[clique_vars[last]]
            n_columns = state_start[clique_vars[last] + 1] - columns
        for s in range(state_start[clique_vars[first] + 1] - rows):
            for t in range(n_columns):
                entry, row, column = table_start[a] + s * strides[first], rows + s, columns + s
                if last > first:
                    entry, column = entry + t * strides[last], columns + t
                matrix[row, column] = entry
                matrix[column, row] = entry
                entries[entry] = row * n_total + column


@kernel
def add_pair_gradient(
    coupling, bias, state_start, clique_ptr, clique_vars, strides, table_start, out
):
    """Add derivatives by the arrays of :func:`pair_arrays` to derivatives by the tables."""
    for a in range(table_start.size):
        first, order = clique_ptr[a], clique_ptr[a + 1] - clique_ptr[a]
        if order == 0:
            continue
        i = clique_vars[first]
        q_i = state_start[i + 1] - state_start[i]
        if order == 1:
            for s in range(q_i):
                out[table_start[a] + s * strides[first]] += bias[state_start[i] + s]
            continue
        j = clique_vars[first + 1]
        for s in range(q_i):
            for t in range(state_start[j + 1] - state_start[j]):
                entry = table_start[a] + s * strides[first] + t * strides[first + 1]
                out[entry] += coupling[state_start[i] + s, state_start[j] + t]
                out[entry] += coupling[state_start[j] + t, state_start[i] + s]
