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
