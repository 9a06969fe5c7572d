"""Checks of random results within their Monte Carlo error, and exact transition matrices.

The checks are exact tests or have tolerances of five standard errors. Each has a negative control.
"""

from itertools import combinations

import numpy as np
import twins
from scipy.stats import binom
from zoo import enumerate_states

from skmrf._utils.codes import STATE
from skmrf.energies import BipartiteEnergy, SemiRestrictedEnergy
from skmrf.energies.conditionals import BinaryConditionals, CoupledLayerConditionals
from skmrf.samplers import Product
from skmrf.samplers.smc import Tempering

N_SIGMA = 5.0
LEAST_ESS = 200
TAIL = 5.7e-7  # probability of both tails of a normal variable beyond five sigma


def check_draws(draws, states, p):
    """Check that independent draws have the probabilities p.

    The check uses exact binomial tails of the frequencies of joint states, of the states of single
    variables and of the states of pairs.
    """
    counts = count(draws, states)
    assert not counts[p == 0].any(), "a state of probability zero was drawn"
    counts, p = [counts], [p]
    n_variables = states.shape[1]
    for members in [(i,) for i in range(n_variables)] + list(combinations(range(n_variables), 2)):
        _, cell = np.unique(states[:, members], axis=0, return_inverse=True)
        counts.append(np.bincount(cell.ravel(), counts[0]))
        p.append(np.minimum(np.bincount(cell.ravel(), p[0]), 1.0))
    counts, p, n = np.concatenate(counts), np.concatenate(p), len(draws)
    tails = 2 * np.minimum(binom.cdf(counts, n, p), binom.sf(counts - 1, n, p))
    worst = int(np.argmin(tails))
    assert tails[worst] > TAIL / len(p), (
        f"cell {worst} was drawn {counts[worst]:.0f} times of {n}, expected {n * p[worst]:.1f}"
    )


def count(draws, states):
    """Return how often each joint state was drawn."""
    radix = np.append(np.cumprod(states.max(axis=0, initial=0)[:0:-1] + 1)[::-1], 1)
    radix = radix[: states.shape[1]].astype(np.int64)
    codes = states @ radix
    order = np.argsort(codes)
    found = order[np.searchsorted(codes[order], draws @ radix)]
    assert (states[found] == draws).all()
    return np.bincount(found, minlength=len(states))


def check_means(values, expected):
    """Check the mean of each column of independent rows.

    The check also fails if the error is too large for a conclusion: if the effective sample size is
    below 200, according to the variance of an indicator with this mean.
    """
    values, expected = np.asarray(values, dtype=float), np.asarray(expected, dtype=float)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    indicator = expected * (1 - expected)
    large = indicator > 0.05
    ess = indicator[large] / np.maximum(error[large], 1e-12) ** 2
    assert (ess > LEAST_ESS).all(), f"only {ess.min():.0f} effective samples"
    error = np.maximum(error, np.sqrt(np.maximum(indicator, 1e-9)) / len(values))
    z = (values.mean(axis=0) - expected) / error
    worst = int(np.argmax(np.abs(z)))
    assert np.abs(z[worst]) < N_SIGMA, f"column {worst} is {z[worst]:.1f} sigma off"


def check_mean_weight(log_weights, log_expected, largest_error=0.05):
    """Check the mean of importance weights, given by logs, and that its error is small."""
    weights = np.exp(np.asarray(log_weights) - log_expected)
    error = weights.std(ddof=1) / np.sqrt(len(weights))
    assert error < largest_error, f"the relative error is {error:.2g}"
    assert abs(weights.mean() - 1) <= N_SIGMA * error + 1e-9, (
        f"the mean is {weights.mean():.4f} +- {error:.4f} times what it should be"
    )


# Markov chains on the visible states: exact transition matrices and observed frequencies.


def random_product(n_states, rng):
    """Return a random product distribution."""
    log_p = [np.log(rng.dirichlet(np.full(q, 3.0))) for q in n_states]
    return Product(np.concatenate(log_p), np.cumsum(n_states) - n_states)


def visible_states(energy):
    return twins.visible_law(energy)[0].astype(STATE)


def law(energy, beta=1.0, reference=None):
    """Return log-densities and probabilities of all visible states at an inverse temperature."""
    reference = Product.uniform(energy.visible_states) if reference is None else reference
    _, log_f = twins.visible_law(energy, beta, reference.log_probability)
    return log_f, np.exp(log_f - twins.log_sum(log_f))


def sweep_matrix(energy, beta=1.0, reference=None, reverse=False):
    """Return the transition matrix of a Gibbs sweep, by variable and pair, or by layer."""
    reference = Product.uniform(energy.visible_states) if reference is None else reference
    if isinstance(energy, BipartiteEnergy):
        return _layer_matrix(energy, beta, reference)
    states, _ = enumerate_states(energy)
    parts = np.split(reference.log_p, reference.start[1:])
    sites = range(len(energy.visible_states))
    kernels = [twins.site_kernel(energy, states, i, beta, parts) for i in sites]
    if isinstance(energy.conditionals(), BinaryConditionals | CoupledLayerConditionals):
        pairs = twins.strong_pairs(energy)
        kernels += [twins.pair_kernel(energy, states, pair, beta, parts) for pair in pairs]
    K = np.eye(len(states))
    for kernel in reversed(kernels) if reverse else kernels:
        K = K @ kernel
    if isinstance(energy, SemiRestrictedEnergy):  # hidden units are drawn first, then forgotten
        up, _ = _conditional_tables(energy, beta, reference)
        blocks = K.reshape(*up.shape, *up.shape)
        return np.einsum("vh,vhwk->vw", up, blocks)
    return K


def _layer_matrix(energy, beta, reference):
    up, down = _conditional_tables(energy, beta, reference)
    return up @ down.T


def _conditional_tables(energy, beta, reference):
    """Return p(h | v) and p(v | h) at an inverse temperature, shape (n_v_states, n_h_states)."""
    joint, log_f = enumerate_states(energy)
    n = len(energy.visible_states)
    V, which = np.unique(joint[:, :n], axis=0, return_inverse=True)
    scores = beta * log_f + (1 - beta) * reference.log_probability(V)[which.ravel()]
    table = np.exp(scores - scores.max()).reshape(len(V), -1)
    up = table / table.sum(axis=1, keepdims=True)
    return up, table / table.sum(axis=0, keepdims=True)


def tempered_matrix(energy, betas, reference, reverse=True):
    """Return the transition matrix of a tempered transition, by a sum over all paths.

    The probability of a path is a product of sweep matrices. If a path is rejected, the chain stays
    in its state.
    """
    log_f = {beta: law(energy, beta, reference)[0] for beta in betas}
    up = [sweep_matrix(energy, beta, reference) for beta in betas]
    down = [sweep_matrix(energy, beta, reference, reverse) for beta in betas]
    legs = [(up[k], log_f[betas[k]] - log_f[betas[k - 1]]) for k in range(1, len(betas))]
    legs.append((down[-1], np.zeros(len(up[0]))))
    for k in range(len(betas) - 2, 0, -1):
        legs.append((down[k], log_f[betas[k]] - log_f[betas[k + 1]]))
    last = log_f[betas[0]] - log_f[betas[1]]
    S = len(log_f[betas[0]])
    T = np.zeros((S, S))
    for start in range(S):
        at, p, weight = np.array([start]), np.ones(1), np.zeros(1)
        for K, gain in legs:
            weight = np.repeat(weight + gain[at], S)
            p = (p[:, None] * K[at]).ravel()
            at = np.tile(np.arange(S), len(at))
        accepted = p * np.exp(np.minimum(weight + last[at], 0.0))
        T[start] = np.bincount(at, accepted, minlength=S)
        T[start, start] += 1.0 - accepted.sum()
    return T


def number_of(X, states):
    """Return the index of each row among the states."""
    code = {tuple(s): k for k, s in enumerate(states.tolist())}
    return np.array([code[tuple(x)] for x in X.tolist()])


def frequencies(move, states, n):
    """Return the number of chains that move from each state to each other state."""
    X = np.repeat(states, n, axis=0)
    radix = np.append(np.cumprod((states.max(axis=0) + 1)[:0:-1])[::-1], 1)
    assert (np.diff(states @ radix) > 0).all()
    ends = np.searchsorted(states @ radix, move(X) @ radix)
    cells = np.repeat(np.arange(len(states)), n) * len(states) + ends
    return np.bincount(cells, minlength=len(states) ** 2).reshape(len(states), -1)


def check_counts(counts, p):
    """Check that each count is binomial, within five sigma for all cells together."""
    n = counts.sum(axis=-1, keepdims=True)
    p = np.clip(p, 0.0, 1.0)
    tails = 2 * np.minimum(binom.cdf(counts, n, p), binom.sf(counts - 1, n, p))
    worst = np.unravel_index(np.argmin(tails), tails.shape)
    expected = (n * p)[worst]
    assert tails[worst] > TAIL / tails.size, (
        f"cell {worst} was drawn {counts[worst]} times, expected {expected:.1f}"
    )


def check_invariant(p, K, tolerance=1e-12):
    """Check that K is a transition matrix that leaves p invariant."""
    assert (K >= -1e-15).all()
    np.testing.assert_allclose(K.sum(axis=1), 1.0, rtol=0, atol=tolerance)
    np.testing.assert_allclose(p @ K, p, rtol=0, atol=tolerance)


def densities(energy, reference, betas):
    """Return the log-densities of all states along a path, computed by the package."""
    at = Tempering(reference, energy).log_density(visible_states(energy))
    return [at(beta) for beta in betas]
