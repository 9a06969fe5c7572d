"""Pseudo-likelihood: conditional probability of each variable given all other variables."""

import numpy as np

from ._jit import inlined, kernel
from .tables import fill_entries


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
def pair_site(i, first, states, coupling, bias, weights, site_log_p, gradient, bias_gradient):
    """Add log p(x_i | rest) of each row of a pairwise model, and its weighted gradient.

    ``coupling`` has one row per state of every variable and one column per state of variable i,
    followed by columns of zeros. The rows of variable i are zero. ``states[r, j]`` is the row of
    ``coupling`` for the state of variable j in row r, and ``first`` is the row for state 0 of
    variable i. The gradient arrays have the shapes of ``coupling`` and ``bias``; with empty arrays
    no gradient is computed.
    """
    q, width = bias.size, coupling.shape[1]
    scores = np.empty(width)
    for r in range(states.shape[0]):
        scores[:q] = bias
        scores[q:] = 0.0
        for j in range(states.shape[1]):
            k = states[r, j]
            for s in range(width):
                scores[s] += coupling[k, s]
        x = states[r, i] - first
        site_log_p[r] += log_softmax(scores, q, x)
        if gradient.size == 0:
            continue
        for s in range(q):
            scores[s] *= -weights[r]
        scores[x] += weights[r]
        for s in range(q):
            bias_gradient[s] += scores[s]
        for j in range(states.shape[1]):
            k = states[r, j]
            for s in range(width):
                gradient[k, s] += scores[s]


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
