"""Systematic-scan Gibbs sweeps along a path of inverse temperatures, for several chains.

The target at inverse temperature beta is ``reference(x) ** (1 - beta) * f(x) ** beta``. The
reference is a product distribution. ``betas`` has one more entry than there are sweeps. Before
sweep t, the log-weights increase by ``(betas[t + 1] - betas[t]) * (log f - log reference)``. Sweep
t leaves the target at ``betas[t + 1]`` invariant. If all betas are 1, the sweeps are plain Gibbs
sampling. Variables are visited in the given order, which does not contain variables with one state.
Clamped variables are skipped. X and log_weights are changed in place.
"""

import numpy as np

from ._jit import borrowed, inlined, kernel
from .elimination import draw_categorical
from .layers import logistic_noise
from .tables import fill_entries


@kernel
def sweep_tables(
    conditionals, reference, reference_start, betas, order, X, clamped, log_weights, rng
):
    """Run Gibbs sweeps on a factor graph whose cliques can have any size.

    The log-probabilities of variable i in the reference start at ``reference[reference_start[i]]``.
    """
    flat = conditionals.flat
    scores = np.empty(conditionals.n_states.max() if X.shape[1] > 0 else 1)
    entry = np.empty(conditionals.table_start.size, dtype=np.int64)
    masked = clamped.shape[0] > 0
    for c in range(X.shape[0]):
        x = X[c]
        fill_entries(conditionals, x, entry)
        for t in range(betas.size - 1):
            beta = betas[t + 1]
            if beta != betas[t]:
                total = 0.0
                for a in range(entry.size):
                    total += flat[entry[a]]
                for i in range(x.size):
                    total -= reference[reference_start[i] + x[i]]
                log_weights[c] += (beta - betas[t]) * total
            for place in range(order.size):
                i = order[place]
                q = conditionals.n_states[i]
                if q == 1 or (masked and clamped[c, i]):
                    continue
                update_site(
                    conditionals, reference, reference_start[i], beta, i, q, x, entry, scores, rng
                )


@inlined
def update_site(conditionals, reference, reference_at, beta, i, q, x, entry, scores, rng):
    """Draw a state of variable i given all others; update the index of each clique's table entry.

    ``entry`` contains the index of the current table entry of each clique.
    """
    flat = conditionals.flat
    old = x[i]
    first, last = conditionals.var_ptr[i], conditionals.var_ptr[i + 1]
    if q == 2:
        zero, one = 0.0, 0.0
        for e in range(first, last):
            stride = conditionals.var_stride[e]
            at = entry[conditionals.var_clique[e]] - old * stride
            zero += flat[at]
            one += flat[at + stride]
        scores[0], scores[1] = zero, one
    else:
        for s in range(q):
            scores[s] = 0.0
        for e in range(first, last):
            stride = conditionals.var_stride[e]
            at = entry[conditionals.var_clique[e]] - old * stride
            for s in range(q):
                scores[s] += flat[at + s * stride]
    top = -np.inf
    for s in range(q):
        if beta == 0.0:
            scores[s] = reference[reference_at + s]
        elif beta != 1.0:
            scores[s] = beta * scores[s] + (1.0 - beta) * reference[reference_at + s]
        top = max(top, scores[s])
    u = rng.random()
    if top == -np.inf:  # the current state has probability zero, so all states are equally good
        new = min(int(u * q), q - 1)
    elif q == 2:
        new = 1 if u * (1.0 + np.exp(scores[0] - scores[1])) < 1.0 else 0
    else:
        new = draw_categorical(scores[:q], top, u)
    if new != old:
        x[i] = new
        for e in range(first, last):
            stride = conditionals.var_stride[e]
            entry[conditionals.var_clique[e]] += (new - old) * stride


@kernel
def binary_field(X, coupling, bias, field):
    """Set ``field`` to ``bias + X @ coupling``, where X contains zeros and ones."""
    for c in range(X.shape[0]):
        f = field[c]
        f[:] = bias
        for i in range(bias.size):
            if X[c, i] == 1:
                for j in range(bias.size):
                    f[j] += coupling[i, j]


@kernel
def sweep_binary(
    conditionals, reference, reference_start, betas, order, X, field, clamped, log_weights, rng
):
    """Run Gibbs sweeps on a binary pairwise model.

    ``field``, which is ``bias + X @ coupling``, is updated in place.
    """
    coupling, bias, constant = conditionals
    n = bias.size
    masked = clamped.shape[0] > 0
    for c in range(X.shape[0]):
        x = X[c]
        f = field[c]
        for t in range(betas.size - 1):
            beta = betas[t + 1]
            if beta != betas[t]:
                total = constant
                for i in range(n):
                    total += 0.5 * x[i] * (f[i] + bias[i]) - reference[reference_start[i] + x[i]]
                log_weights[c] += (beta - betas[t]) * total
            for place in range(order.size):
                i = order[place]
                if masked and clamped[c, i]:
                    continue
                logit = f[i]
                if beta != 1.0:
                    b = reference_start[i]
                    logit = beta * logit + (1.0 - beta) * (reference[b + 1] - reference[b])
                new = 1 if rng.random() * (1.0 + np.exp(-logit)) < 1.0 else 0
                if new != x[i]:
                    change = float(new - x[i])
                    x[i] = new
                    for j in range(n):
                        f[j] += change * coupling[i, j]


@kernel
def draw_in_order(coupling, order, from_hidden, scale, shift, words, clamped, field, X):
    """Draw the coupled visible variables of each chain in the given order.

    Variable i is 1 if ``scale * (field + from_hidden) + shift`` exceeds its logistic noise. X
    contains zeros and ones of the dtype of the couplings. ``field``, without the part from the
    hidden units, is updated in place. ``words`` has a random integer for each variable of each
    chain. With ``scale`` 1, ``shift`` is ignored.
    """
    coupling, field, X = borrowed(coupling), borrowed(field), borrowed(X)
    from_hidden, words = borrowed(from_hidden), borrowed(words)
    kind, n = X.dtype.type, X.shape[1]
    one, zero, factor = kind(1), kind(0), kind(1.0 / scale)
    masked, has_hidden = clamped.shape[0] > 0, from_hidden.shape[0] > 0
    noise, bits = np.empty(n, X.dtype), np.empty(n, np.int32)
    for c in range(X.shape[0]):
        x, f = X[c], field[c]
        logistic_noise(words[c * n : (c + 1) * n], noise, bits)
        if scale != 1.0:
            for j in range(n):
                noise[j] = factor * (noise[j] - shift[j])
        if has_hidden:
            for j in range(n):
                f[j] += from_hidden[c, j]
        for place in range(order.size):
            i = order[place]
            if masked and clamped[c, i]:
                continue
            new = one if f[i] > noise[i] else zero
            change = new - x[i]
            if change != zero:
                x[i] = new
                row = coupling[i]
                for j in range(n):
                    f[j] += change * row[j]
        if has_hidden:
            for j in range(n):
                f[j] -= from_hidden[c, j]
