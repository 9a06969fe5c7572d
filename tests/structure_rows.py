"""Rows for the tests of graph estimation, and slow fits of nodewise regressions.

The edges of the models for MRFStructureLearner are so strong that they are always found, and with
``STRICT`` the probability of any false edge is 1e-6. So tests can require the exact graph.
"""

from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from skmrf import MRFStructureLearner, inference
from skmrf._utils.codes import MISSING, STATE
from skmrf.datasets import make_ising
from skmrf.energies import PairwiseEnergy
from skmrf.energies.log_linear import LogLinearEnergy, LogLinearForm
from skmrf.structure import WaldTests
from skmrf.structure.rows import Rows

STRICT = 1e-6
RARE = 1e-5  # failure probability of a test of replicates
CHAIN = [[0, 1], [1, 2], [2, 3], [3, 4]]
slow = pytest.mark.slow


def strict(level=STRICT, **parameters):
    """Return the search strategy of Wald tests, with a strict level."""
    return WaldTests(level=level, **parameters)


def learner(name="exact", **parameters):
    return MRFStructureLearner(name, **({"search": strict(), "random_state": 0} | parameters))


def chain_rows(seed, n_rows=1500, n_variables=5, coupling=0.5, field=0.0):
    model = make_ising("chain", n_variables=n_variables, coupling=coupling, field=field)
    return inference.sample(model, n_rows, random_state=seed + 500).astype(int)


def three_state_rows(seed, n_rows=1500):
    """Return rows of three-state columns; columns 0 and 1 often agree, and so do 2 and 3."""
    rng = np.random.default_rng(seed + 700)
    X = rng.integers(0, 3, size=(n_rows, 4))
    for i, j in [(0, 1), (2, 3)]:
        same = rng.random(n_rows) < 0.5
        X[same, j] = X[same, i]
    return X


def holes(X, share, *seed):
    """Replace a share of the entries by missing values, completely at random."""
    X = X.astype(float)
    X[np.random.default_rng([77, *seed]).random(X.shape) < share] = np.nan
    return X


def edges_of(model):
    return model.edges_.tolist()


def same_fit(a, b, atol=0.0):
    assert edges_of(a) == edges_of(b)
    for x, y in zip(a.energy_.log_potentials, b.energy_.log_potentials, strict=True):
        np.testing.assert_allclose(x, y, atol=atol)
    for name in ("strength_", "p_values_", "edge_probability_"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=atol, rtol=1e-4)


def binary_truth():
    return PairwiseEnergy(*chain_couplings(), (-1, 1))


def chain_couplings():
    J = np.zeros((4, 4))
    for i, value in enumerate((0.5, -0.4, 0.6)):
        J[i, i + 1] = J[i + 1, i] = value
    return J, np.array([0.3, -0.2, 0.0, 0.4])


def a_fit(seed, n_states=(2, 3, 2, 3), n_rows=4000, edges=((0, 1), (1, 2), (2, 3), (0, 2))):
    """Return a fitted log-linear energy and its rows."""
    rng = np.random.default_rng([seed, 3])
    form = LogLinearForm.build(n_states, edges)
    theta = {k: rng.normal(0, 0.4, size=v.shape) for k, v in form.zeros().items()}
    energy = LogLinearEnergy(form, theta)
    X = inference.sample(energy, n_rows, random_state=rng)
    return energy, Rows(X.astype(STATE), np.ones(n_rows), np.array(n_states)), rng


def joint_law(energy):
    X = np.array(list(product(*map(range, energy.n_states))), dtype=STATE)
    log_f = energy.log_potential(X)
    return X, np.exp(log_f - np.logaddexp.reduce(log_f))


TAIL = 5.7e-7  # probability of both tails of a normal variable beyond five sigma
MIXED = (2, 3, 2, 4, 1, 2)
EDGES = [(0, 1), (1, 2), (0, 3), (1, 3), (2, 4), (3, 5)]
FORMS = [("table", True), ("table", False), ("agreement", True), ("agreement", False)]


def by_scipy(x, y):
    """Return the chi-square p-value and statistic of two columns, computed by scipy."""
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
    """Return the sufficient statistics of a variable's regression, by row, state and parameter."""
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
    """Return a regression's log-likelihood, row scores and information matrix."""
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


def pseudo_log_likelihoods(unit_energies, X):
    """Return a function that computes the log pseudo-likelihood of each row for some parameters.

    ``log f`` is the sum of the parameters times the ``log f`` of energies with a single parameter.
    Parameters of shape (n_parameters, n) give the shape (n, n_rows).
    """
    features = []
    for i, q in enumerate(MIXED):
        states = [np.where(np.arange(X.shape[1]) == i, k, X).astype(STATE) for k in range(q)]
        features.append(np.array([[e.log_potential(s) for e in unit_energies] for s in states]))

    def evaluate(parameters):
        total = 0.0
        for x, unit_log_f in zip(X.T, features, strict=True):
            log_f = np.einsum("kpr,pn->nkr", unit_log_f, parameters)
            total = total + log_f[:, x, np.arange(len(X))] - np.logaddexp.reduce(log_f, axis=1)
        return total

    return evaluate
