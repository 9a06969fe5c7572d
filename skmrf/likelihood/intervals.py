"""Intervals of log Z from importance weights, with one-sided 97.5% limits and rounding errors."""

from dataclasses import replace

import numpy as np
from scipy.special import betaincinv
from sklearn.exceptions import ConvergenceWarning

from .._utils.log_weights import effective_sample_size, log_mean_exp
from .._utils.namespaces import sigmoid
from .._utils.results import LogPartition
from .._utils.warn import LogPartitionWarning, warn_caller
from ..energies.conditionals import CoupledLayerConditionals, StateConditionals
from ..energies.dense_tables import indicate_states
from ..samplers import Product
from ..samplers.layers import conditionals_on_device, with_layer

N_BOOTSTRAPS = 2000
BOOTSTRAP_DRAWS = 2**16  # that are made together
TRUSTED_ESS = 10
ROUNDING = 1e-6  # nats
MAX_ROUNDED = 64  # chains whose rounding errors are estimated
MIN_ESS = 3  # with a smaller effective sample size there is no upper limit
QUANTILE = 0.005  # at 0.025 a bootstrap of about 100 skewed weights gives too narrow an interval


def zero_probability_result(method):
    """Return the result for samples that all have probability zero: log Z = -inf, not converged."""
    return LogPartition(-np.inf, np.inf, -np.inf, np.inf, False, method, False, 0.0)


def without_upper_limit(result):
    """Return the result with an infinite upper limit, not converged."""
    return replace(result, upper=np.inf, converged=False)


def is_inside(result, value):
    """Return whether the interval of a result contains a value, except for rounding errors."""
    return result.lower - ROUNDING <= value <= result.upper + ROUNDING


def join_intervals(before, result, max_width):
    """Return the last result with an interval that contains both intervals, or None.

    None means that the intervals do not overlap.
    """
    if max(before.lower, result.lower) > min(before.upper, result.upper) + ROUNDING:
        return None
    lower, upper = min(before.lower, result.lower), max(before.upper, result.upper)
    difference = 0.5 * abs(result.value - before.value)
    return replace(
        result,
        std_error=max(before.std_error, result.std_error, difference),
        lower=lower,
        upper=upper,
        converged=bool(upper - lower <= max_width),
    )


def compare_lengths(before, result, is_confirmed, is_random, max_width):
    """Return the last result, checked with the run of a shorter path or of fewer chains."""
    if result.ess < MIN_ESS:
        return without_upper_limit(result)
    if is_confirmed:
        return result
    joined = join_intervals(before, result, max_width) if is_random else None
    return without_upper_limit(result) if joined is None else joined


def compare_references(result, other, max_width):
    """Return an estimate of log Z that an estimate from another reference distribution confirms.

    The other estimate confirms the result if its interval contains the value of the result, and if
    its effective sample size is at least 10. If the two intervals only overlap, or the effective
    sample size is from 3 to 10, the returned interval contains both. Otherwise the larger estimate
    is returned without an upper limit, because its chains may also miss a part of the probability.
    """
    if other.ess >= TRUSTED_ESS and is_inside(other, result.value):
        return result
    joined = join_intervals(other, result, max_width) if other.ess >= MIN_ESS else None
    if joined is None:
        return without_upper_limit(max(result, other, key=lambda estimate: estimate.value))
    return joined


def add_phases(parts):
    """Return log Z from the logs of the sums over disjoint sets that contain all states.

    A limit is the sum of the limits of the parts. There is no upper limit if the effective sample
    size of a part is below 3. The result has not converged, because no second path has confirmed a
    part.
    """
    value, lower, upper = (
        float(np.logaddexp.reduce([getattr(part, name) for part in parts]))
        for name in ("value", "lower", "upper")
    )
    shares = np.exp([part.value - value for part in parts])
    with np.errstate(invalid="ignore"):
        errors = shares * [part.std_error for part in parts]  # nan if no chain ends in a set
    error = float(np.hypot.reduce(np.nan_to_num(errors, nan=np.inf)))
    ess = min(part.ess for part in parts)
    upper = upper if ess >= MIN_ESS else np.inf
    return LogPartition(value, error, lower, upper, False, parts[0].method, False, ess)


def is_below(result, bound):
    """Return whether a result is below a lower bound of log Z.

    The upper limit decides; for a result without an upper limit, the value. Rounding errors do not
    count.
    """
    return bound > (result.upper if result.upper < np.inf else result.value) + ROUNDING


def raise_to_bound(result, bound):
    """Return the result raised to a lower bound of log Z, without an upper limit if it is below."""
    if not is_below(result, bound):
        value, lower = max(result.value, bound), max(result.lower, bound)
        return replace(result, value=value, lower=lower, upper=max(result.upper, value))
    return without_upper_limit(replace(result, value=bound, lower=bound))


def _lower_margin(log_weights, rng):
    """Return the margin below the log mean weight, its standard error and the sample size.

    The margin is the distance to the one-sided lower 97.5% limit. The sample size is the effective
    sample size of the weights.
    """
    n = len(log_weights)
    ess = effective_sample_size(log_weights)
    if ess == 0:
        return np.inf, np.inf, 0.0
    std_error = np.sqrt(max(n / ess - 1.0, 0.0) / (n - 1))
    weights = np.exp(log_weights - log_weights.max())
    means = _bootstrap_means(weights, rng)
    limit = np.quantile(means, QUANTILE) / weights.mean()
    margin = max(-np.log(limit) if limit > 0 else 0.0, std_error)
    if ess < TRUSTED_ESS:
        margin = max(margin, np.log(40.0))
    return margin, std_error, ess


def _bootstrap_means(values, rng):
    """Return means of samples that are drawn with replacement from the values."""
    n = len(values)
    n_together = max(1, BOOTSTRAP_DRAWS // n)
    means = []
    for first in range(0, N_BOOTSTRAPS, n_together):
        drawn = rng.integers(0, n, size=(min(n_together, N_BOOTSTRAPS - first), n))
        means.append(values[drawn].mean(axis=1))
    return np.concatenate(means)


def _estimate_possible_mass(n, n_possible):
    """Estimate the log-probability that a reference sample has a positive density, with its error.

    ``n_possible`` of ``n`` samples are possible: no potential is zero. If none is, the estimate is
    that for one possible sample.

    The margin leads to an upper 97.5% limit. Reverse chains never enter zero potentials, so their
    mean weight estimates this mass divided by Z.
    """
    k = max(n_possible, 1)
    limit = 1.0
    if n_possible < n:
        limit = betaincinv(n_possible + 1, n - n_possible, 0.975)  # Clopper-Pearson interval
    return np.log(k / n), np.log(limit * n / k), np.sqrt((1.0 - k / n) / k)


def _unseen_margin(forward, has_zeros, unseen_margin):
    """Return the lower margin for reference samples of density zero that none of n samples is.

    With probability 97.5%, their share is at most :math:`1 - 0.025^{1/n}`.
    """
    largest = -np.log(0.025) / len(forward)
    if has_zeros:
        return largest if np.all(forward > -np.inf) else 0.0
    return min(largest, unseen_margin)


def interval(
    forward,
    backward,
    max_width,
    rng,
    method,
    *,
    n_possible=None,
    has_zeros=False,
    unseen_margin=0.0,
    rounding=0.0,
):
    """Estimate the log partition function and its interval from forward and reverse weights.

    Parameters
    ----------
    forward : ndarray of shape (n,)
        Log weights whose mean weight is an unbiased estimate of Z.
    backward : ndarray of shape (n,)
        Log weights, from approximate samples of the model, whose mean weight estimates 1 / Z if the
        reference covers the model.
    max_width : float
        Largest width of the interval, in nats, that counts as converged.
    rng : numpy.random.Generator
        Source of randomness of the bootstrap.
    method : str
        Name of the method, stored in the result.
    n_possible : int, optional
        Number of reference samples with a positive density. By default the number of weights in
        ``forward`` that are not zero.
    has_zeros : bool, default=False
        Whether the model has zero potentials, so that reference samples can be impossible.
    unseen_margin : float, default=0
        Minus the log-probability, in the reference, of the states that samples of the reference
        contain. The density of the others can be almost zero.
    rounding : float, default=0
        Rounding error of the log weights that all chains can have in common, in nats. Both limits
        are moved by it.

    Returns
    -------
    LogPartition
        Forward estimate with one-sided 97.5% limits, in nats.
    """
    if n_possible is None:
        n_possible = np.count_nonzero(forward > -np.inf)
    mass, mass_margin, mass_error = _estimate_possible_mass(len(forward), n_possible)
    value, reverse = log_mean_exp(forward), mass - log_mean_exp(backward)
    down, error_down, ess_down = _lower_margin(forward, rng)
    # The log of the backward mean enters with a minus sign: its lower limit is log Z's upper limit.
    up, error_up, ess_up = _lower_margin(backward, rng)
    up, error_up = np.hypot(up, mass_margin), np.hypot(error_up, mass_error)
    lower = value - np.hypot(down, _unseen_margin(forward, has_zeros, unseen_margin)) - rounding
    upper = max(reverse + up, value + error_down) + rounding
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


def warn_unless_converged(result, max_width):
    """Warn that annealed importance sampling found a wide interval, or missed modes."""
    if result.upper == np.inf and result.lower > -np.inf:
        warn_caller(
            f"Annealed importance sampling found no upper limit of log Z, which is at least "
            f"{result.lower:.4g}: longer paths or a second reference distribution change the "
            "estimate, few chains have most of the weight, or a time limit is too short. "
            "Log-likelihoods may be too high by many nats. Increase n_temperatures, n_chains and "
            "the time limit, or train with a larger alpha.",
            LogPartitionWarning,
        )
    elif result.upper == np.inf:
        warn_caller(
            "Annealed importance sampling has no estimate of log Z, because zero potentials made "
            "the weights of all chains zero, or the time limit is too short. Use log_partition "
            'with method="bpchain", or with method="exact" and a larger max_bytes.',
        )
    elif not result.converged and result.upper - result.lower <= max_width:
        warn_caller(
            "The chains of annealed importance sampling from two reference distributions ended at "
            f"different modes of the model. log Z of these modes is in the interval "
            f"[{result.lower:.4g}, {result.upper:.4g}], but there can be more modes. Increase "
            "n_temperatures or n_chains, or train with a larger alpha.",
            LogPartitionWarning,
        )
    elif not result.converged:
        warn_caller(
            f"The interval of log Z by annealed importance sampling, [{result.lower:.4g}, "
            f"{result.upper:.4g}], is {result.upper - result.lower:.3g} nats wide, more than "
            f"max_width={max_width}. Increase n_temperatures or n_chains.",
            LogPartitionWarning,
        )


def warn_wide(result):
    """Warn that the interval of the estimated log partition function is wide or infinite."""
    if result.upper == np.inf and result.lower > -np.inf:
        warn_caller(
            f"log Z has not converged: it is at least {result.lower:.4g}, and longer annealing "
            "still changes the estimate. Log-likelihoods may be too high by many nats. Train with "
            "a larger alpha, or estimate log Z of energy_ with more "
            "n_temperatures and n_chains by skmrf.likelihood.ais.",
            ConvergenceWarning,
        )
        return
    warn_caller(
        f"log Z has not converged: its interval, [{result.lower:.4g}, {result.upper:.4g}], is "
        f"{result.upper - result.lower:.3g} nats wide. If it is narrow, estimates disagree or "
        "their chains end at different modes. Log-likelihoods are at least as uncertain. "
        "Estimate log Z of energy_ with more n_temperatures or n_chains: use "
        "skmrf.likelihood.ais, or skmrf.likelihood.neural.neural_log_partition for neural "
        "potentials.",
        ConvergenceWarning,
    )


def rounding_error(device, models, states):
    """Return the rounding error of log Z from annealing chains on a device, in nats.

    A device rounds parameters and sums to float32. Each of the two relative errors is at most half
    the distance from 1 to the next number. It is the same for all chains in a state.

    Parameters
    ----------
    device : Device or None
        Device of the chains; None for the CPU, which has no such error.
    models : sequence of Energy or Product
        Distributions at the two ends of the path.
    states : sequence of ndarray of shape (n_chains, n_visible)
        States at the two ends of the path.

    Returns
    -------
    float
        The precision of float32 times the mean sum of the absolute terms of the log-potentials, at
        the end of the path at which it is larger.
    """
    if device is None:
        return 0.0

    def mean_sum(X):
        sums = (
            -m.log_probability(X)
            if isinstance(m, Product)
            else _sum_absolute_terms(m.conditionals(), X)
            for m in models
        )
        return float(sum(sums).mean())

    largest = max(mean_sum(np.asarray(X)[:MAX_ROUNDED]) for X in states)
    return float(np.finfo(np.float32).eps) * largest


def _sum_absolute_terms(conditionals, X):
    """Return the sum of the absolute values of all terms that a device adds to a log-potential.

    Parameters
    ----------
    conditionals : conditionals of :mod:`skmrf.energies.conditionals`
        Parameters of a model.
    X : ndarray of int of shape (n_rows, n_visible)
        State codes.

    Returns
    -------
    ndarray of shape (n_rows,)
        Sums in nats. A term of the weights of a hidden unit is multiplied by the mean of the unit.
    """
    conditionals = with_layer(conditionals_on_device(conditionals))
    if isinstance(conditionals, StateConditionals):
        coupling, bias, _, n_states = conditionals
        states, layer = indicate_states(X, n_states), None
    elif isinstance(conditionals, CoupledLayerConditionals):
        coupling, *layer, _ = conditionals
        states, bias = X.astype(np.float32), layer[1]
    else:
        coupling, layer = None, conditionals
        states, bias = X.astype(np.float32), layer[1]
    total = (np.abs(bias) * states).sum(axis=1, dtype=float)
    if coupling is not None:
        total += 0.5 * ((states @ np.abs(coupling)) * states).sum(axis=1, dtype=float)
    if layer is not None:
        weights, _, hidden_bias = layer
        terms = states @ np.abs(weights) + np.abs(hidden_bias)
        total += (terms * sigmoid(states @ weights + hidden_bias)).sum(axis=1, dtype=float)
    return total
