"""Systematic-scan Gibbs sweeps along a path of inverse temperatures, for a block of chains.

The target at beta is ``base(x) ** (1 - beta) * f(x) ** beta`` with a product distribution as base.
``betas`` has one more entry than there are sweeps; before sweep t the log-weights grow by
``(betas[t + 1] - betas[t]) * (log f - log base)``, and the sweep leaves the target at
``betas[t + 1]`` invariant. All betas equal to 1 is plain Gibbs sampling. Sites are visited in the
order given, which leaves out those of one state; clamped ones are skipped. X and log_weights are
changed in place.
"""

import numpy as np

from ._jit import inlined, kernel
from .elimination import categorical
from .tables import fill_entries


@kernel
def sweep_tables(conditionals, base, base_start, betas, order, X, clamped, log_weights, rng):
    """Cliques of any order; base holds log-probabilities of variable i from base_start[i]."""
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
                    total -= base[base_start[i] + x[i]]
                log_weights[c] += (beta - betas[t]) * total
            for place in range(order.size):
                i = order[place]
                q = conditionals.n_states[i]
                if q == 1 or (masked and clamped[c, i]):
                    continue
                update_site(conditionals, base, base_start[i], beta, i, q, x, entry, scores, rng)


@inlined
def update_site(conditionals, base, base_at, beta, i, q, x, entry, scores, rng):
    """Draw x[i] given the rest and keep the entries of its cliques up to date."""
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
            scores[s] = base[base_at + s]
        elif beta != 1.0:
            scores[s] = beta * scores[s] + (1.0 - beta) * base[base_at + s]
        top = max(top, scores[s])
    u = rng.random()
    if top == -np.inf:  # a start of probability zero: any state is as good
        new = min(int(u * q), q - 1)
    elif q == 2:
        new = 1 if u * (1.0 + np.exp(scores[0] - scores[1])) < 1.0 else 0
    else:
        new = categorical(scores[:q], top, u)
    if new != old:
        x[i] = new
        for e in range(first, last):
            stride = conditionals.var_stride[e]
            entry[conditionals.var_clique[e]] += (new - old) * stride


@kernel
def binary_field(X, coupling, bias, field):
    """field = bias + X coupling, by adding up the rows of coupling whose variable is 1."""
    for c in range(X.shape[0]):
        f = field[c]
        f[:] = bias
        for i in range(bias.size):
            if X[c, i] == 1:
                for j in range(bias.size):
                    f[j] += coupling[i, j]


@kernel
def sweep_binary(conditionals, base, base_start, betas, order, X, field, clamped, log_weights, rng):
    """Binary pairwise models; field = bias + X coupling is kept up to date at every flip."""
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
                    total += 0.5 * x[i] * (f[i] + bias[i]) - base[base_start[i] + x[i]]
                log_weights[c] += (beta - betas[t]) * total
            for place in range(order.size):
                i = order[place]
                if masked and clamped[c, i]:
                    continue
                logit = f[i]
                if beta != 1.0:
                    b = base_start[i]
                    logit = beta * logit + (1.0 - beta) * (base[b + 1] - base[b])
                new = 1 if rng.random() * (1.0 + np.exp(-logit)) < 1.0 else 0
                if new != x[i]:
                    change = float(new - x[i])
                    x[i] = new
                    for j in range(n):
                        f[j] += change * coupling[i, j]
