"""Nodewise regressions: data, slow fits and statistics."""

from itertools import product

import numpy as np
from scipy.stats import chi2_contingency

from skmrf._utils.codes import MISSING
from skmrf.energies.log_linear import LogLinearEnergy, LogLinearForm

TAIL = 5.7e-7  # probability of both tails of a normal variable beyond five sigma
MIXED = (2, 3, 2, 4, 1, 2)
EDGES = [(0, 1), (1, 2), (0, 3), (1, 3), (2, 4), (3, 5)]
FORMS = [("table", True), ("table", False), ("agreement", True), ("agreement", False)]


def by_scipy(x, y):
    """Return the p-value and statistic of scipy, for rows where both columns are observed."""
    both = (x != MISSING) & (y != MISSING)
    a, i = np.unique(x[both], return_inverse=True)
    b, j = np.unique(y[both], return_inverse=True)
    if min(len(a), len(b)) < 2:
        return 1.0, 0.0
    table = np.zeros((len(a), len(b)))
    np.add.at(table, (i, j), 1)
    found = chi2_contingency(table, correction=False)
    return found.pvalue, found.statistic


def all_of(form):
    return np.ones(len(form.layout.n_states), dtype=bool)


def law(energy):
    """Return all joint states and their probabilities."""
    X = np.array(list(product(*(range(q) for q in energy.n_states))), dtype=np.int16)
    log_f = energy.log_potential(X)
    p = np.exp(log_f - log_f.max())
    return X, p / p.sum()


def random_energy(rng, n_states, edges, statistic, unary, scale=0.7):
    form = LogLinearForm.build(n_states, edges, statistic, unary)
    theta = {k: scale * rng.normal(size=v.shape) for k, v in form.zeros().items()}
    return LogLinearEnergy(form, theta)


def counted(rng, energy, n_rows):
    """Return the unique rows of a sample and their counts."""
    X, p = law(energy)
    counts = rng.multinomial(n_rows, p).astype(float)
    return X[counts > 0], counts[counts > 0]


def parameters_of(form, i):
    """Return the names and indices of the parameters of a variable's regression."""
    q = form.layout.n_states
    if q[i] == 1:
        return []
    out = []
    if form.unary:
        out += [("unary", k) for k in range(*form.unary_start[i : i + 2])]
    for e, (a, b) in enumerate(form.edges):
        if i in (a, b) and min(q[a], q[b]) > 1:
            out += [("pairs", k) for k in range(*form.pair_start[e : e + 2])]
    return out


def features(form, X, i):
    """Return the statistics by row, state and parameter, from log-potentials of whole rows."""
    names = parameters_of(form, i)
    F = np.zeros((len(X), form.layout.n_states[i], len(names)))
    for k, (name, number) in enumerate(names):
        theta = form.zeros()
        theta[name][number] = 1.0
        energy = LogLinearEnergy(form, theta)
        for a in range(F.shape[1]):
            rows = X.copy()
            rows[:, i] = a
            F[:, a, k] = energy.log_potential(rows)
    return F


def derivatives(F, states, weights, theta):
    """Return the log-likelihood, the scores of the rows and the information matrix."""
    logits = F @ theta
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    rows = np.arange(len(F))
    value = weights @ np.log(p[rows, states])
    mean = np.einsum("rak,ra->rk", F, p)
    scores = F[rows, states] - mean
    second = np.einsum("rak,ral,ra,r->kl", F, F, p, weights)
    return value, scores, second - np.einsum("rk,rl,r->kl", mean, mean, weights)


def assert_same(first, second, **tolerance):
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)
