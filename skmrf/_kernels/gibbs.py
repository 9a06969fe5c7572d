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
from .exponential import logarithms
from .layers import logistic_noise
from .tables import fill_entries

SMALLEST_BETA = 1e-30  # stands for 0 in divisions


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


@inlined
def update_in_order(coupling, order, noise, clamped, c, x, field):
    """Draw the variables of chain c in the given order, and update the fields of all variables.

    A variable is 1 if its field exceeds its noise. Clamped variables are skipped.
    """
    kind = x.dtype.type
    one, zero = kind(1), kind(0)
    masked = clamped.shape[0] > 0
    for place in range(order.size):
        i = order[place]
        if masked and clamped[c, i]:
            continue
        new = one if field[i] > noise[i] else zero
        change = new - x[i]
        if change != zero:
            x[i] = new
            row = coupling[i]
            for j in range(x.size):
                field[j] += change * row[j]


@kernel
def sweep_binary(conditionals, odds, betas, order, X, field, clamped, log_weights, rng):
    """Run Gibbs sweeps on a binary pairwise model.

    X contains zeros and ones of the dtype of the couplings. ``field``, which is
    ``bias + X @ coupling``, is updated in place. ``odds`` has the log odds of the variables in the
    reference. Log weights lack the constant terms of the model and of the reference.
    """
    coupling, bias = borrowed(conditionals.coupling), borrowed(conditionals.bias)
    X, field, clamped = borrowed(X), borrowed(field), borrowed(clamped)
    n = bias.size
    masked = clamped.shape[0] > 0
    noise, bits, limits = np.empty(n), np.empty(n, np.int32), np.empty(n, X.dtype)
    for c in range(X.shape[0]):
        x, f = X[c], field[c]
        for t in range(betas.size - 1):
            beta = betas[t + 1]
            if beta != betas[t]:
                total = 0.0
                for i in range(n):
                    total += x[i] * (0.5 * (f[i] + bias[i]) - odds[i])
                log_weights[c] += (beta - betas[t]) * total
            for i in range(n):
                noise[i] = 0.5
            for place in range(order.size):
                i = order[place]
                if not (masked and clamped[c, i]):
                    noise[i] = rng.random()
            for i in range(n):
                noise[i] = noise[i] / (1.0 - noise[i])
            logarithms(noise, bits)
            factor, rest = 1.0 / max(beta, SMALLEST_BETA), 1.0 - beta
            for i in range(n):
                limits[i] = factor * (noise[i] - rest * odds[i])
            update_in_order(coupling, order, limits, clamped, c, x, f)


@kernel
def draw_in_order(coupling, order, from_hidden, scale, shift, words, clamped, field, X):
    """Draw the coupled visible variables of each chain in the given order.

    Variable i is 1 if ``scale * (field + from_hidden) + shift`` exceeds its logistic noise. X
    contains zeros and ones of the dtype of the couplings. ``field``, without the part from the
    hidden units, is updated in place. ``words`` has a random integer for each variable of each
    chain. With ``scale`` 1, ``shift`` is ignored.
    """
    coupling, field, X = borrowed(coupling), borrowed(field), borrowed(X)
    from_hidden, words, clamped = borrowed(from_hidden), borrowed(words), borrowed(clamped)
    n, factor, has_hidden = X.shape[1], X.dtype.type(1.0 / scale), from_hidden.shape[0] > 0
    noise, bits = np.empty(n, X.dtype), np.empty(n, np.int32)
    for c in range(X.shape[0]):
        x, f = X[c], field[c]
        logistic_noise(words[c * n : (c + 1) * n], noise, bits)
        if scale != 1.0:
            for j in range(n):
                noise[j] = factor * (noise[j] - shift[j])
        if has_hidden:
            for j in range(n):
                noise[j] -= from_hidden[c, j]
        update_in_order(coupling, order, noise, clamped, c, x, f)
