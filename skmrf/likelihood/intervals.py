"""From importance weights of both directions to log Z with one-sided 97.5% limits."""

import numpy as np
from scipy.special import betaincinv

from .._utils.log_weights import effective_sample_size, log_mean_exp
from .._utils.results import LogPartition

N_BOOTSTRAPS = 2000
TRUSTED_ESS = 10
QUANTILE = 0.005  # a bootstrap of some hundred skewed weights is too narrow for 0.025


def lost(method):
    """The result where no state of positive probability was found."""
    return LogPartition(-np.inf, np.inf, -np.inf, np.inf, False, method, False, 0.0)


def _margin(log_weights, rng):
    """How far the lower 97.5% limit of the log mean weight lies from it, its error and ESS."""
    n = len(log_weights)
    ess = effective_sample_size(log_weights)
    if ess == 0:
        return np.inf, np.inf, 0.0
    std_error = np.sqrt(max(n / ess - 1.0, 0.0) / (n - 1))
    weights = np.exp(log_weights - log_weights.max())
    means = [weights[rng.integers(0, n, size=n)].mean() for _ in range(N_BOOTSTRAPS)]
    limit = np.quantile(means, QUANTILE) / weights.mean()
    margin = max(-np.log(limit) if limit > 0 else 0.0, std_error)
    if ess < TRUSTED_ESS:
        margin = max(margin, np.log(40.0))
    return margin, std_error, ess


def _possible_mass(forward):
    """Log of the reference's mass outside of the zero potentials, its upper 97.5% limit and error.

    Chains that walk back never enter the zero potentials, so their mean weight is this mass by Z.
    """
    n, k = len(forward), np.count_nonzero(forward > -np.inf)
    limit = 1.0 if k == n else betaincinv(k + 1, n - k, 0.975)  # Clopper and Pearson
    return np.log(k / n), np.log(limit * n / k), np.sqrt((1.0 - k / n) / k)


def interval(forward, backward, max_width, rng, method):
    """Log partition function from log weights of both directions.

    Parameters
    ----------
    forward : ndarray of shape (n,)
        Log weights whose mean estimates Z without bias.
    backward : ndarray of shape (n,)
        Log weights whose mean estimates 1 / Z, as far as the reference covers the model, from about
        samples of the model.
    max_width : float
        The width that counts as converged.
    rng : numpy.random.Generator
    method : str

    Returns
    -------
    LogPartition
    """
    mass, mass_margin, mass_error = _possible_mass(forward)
    value, reverse = log_mean_exp(forward), mass - log_mean_exp(backward)
    down, error_down, ess_down = _margin(forward, rng)
    # The log of the backward mean enters with a minus, so its lower limit is log Z's upper one.
    up, error_up, ess_up = _margin(backward, rng)
    up, error_up = np.hypot(up, mass_margin), np.hypot(error_up, mass_error)
    lower = value - down
    upper = max(reverse + up, value + error_down)
    std_error = float(np.hypot(max(error_down, error_up), 0.5 * (reverse - value)))
    return LogPartition(
        float(value),
        std_error,
        float(lower),
        float(upper),
        False,
        method,
        bool(upper - lower <= max_width),
        float(min(ess_down, ess_up)),
    )
