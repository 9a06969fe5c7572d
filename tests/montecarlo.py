"""Checks of random results within their Monte Carlo error; each has a negative control."""

from itertools import combinations

import numpy as np
from scipy.stats import binom

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
