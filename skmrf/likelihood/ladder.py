"""Log partition function along a ladder of models, by bridge sampling between neighbours."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import t as student

from .._utils.interrupts import remaining_time
from .._utils.log_weights import effective_sample_size
from .._utils.parameters import check_generator
from .._utils.results import LogPartition
from ..samplers.parallel_tempering import swap_probability
from .intervals import MIN_ESS, TRUSTED_ESS, without_upper_limit, zero_probability_result

SWAP_RATE = 0.5  # rungs are dropped if their neighbours still swap at this rate
MIN_SWAP_RATE = 0.3  # neighbours that swap less often get a rung between them
N_CHAINS = 128  # per rung, at most
MAX_WIDTH = 1.0  # of an interval that counts as converged, in nats
MIN_TRIPS = 1.0  # round trips per chain, before and during the measurement
N_BURN_IN, N_MEASURED = 50, 64  # moves of the ladder, at least
MAX_UPDATES, MAX_MOVES = 4e8, 1024
MOVES_WITHOUT_TRIP = 256  # moves after which chains without any round trip are stuck
DRIFT_SIGMAS = 3.0


@dataclass(frozen=True)
class LadderEstimate:
    """Log partition functions of all rungs of a ladder, with diagnostics.

    Attributes
    ----------
    log_partitions : ndarray of shape (n_rungs,)
        log Z of each rung in nats; 0 at the first rung.
    std_errors : ndarray of shape (n_rungs,)
        Standard errors of ``log_partitions`` in nats.
    ess_up, ess_down : ndarray of shape (n_rungs - 1,)
        Effective sample size, in independent chains, of the importance weights from each rung to
        the next one, and back.
    swap_rates : ndarray of shape (n_rungs - 1,)
        Mean probability of a swap between neighbours.
    round_trips : float
        Number of round trips along the ladder per chain of the last rung.
    n_moves : int
        Number of records of each pair of neighbours; there are two sweeps between records.
    drift : float
        log Z of the last rung in the second half of the moves minus that in the first half.
    drift_error : float
        Standard error of ``drift``.
    result : LogPartition
        log Z of the last rung, with its interval.
    """

    log_partitions: np.ndarray
    std_errors: np.ndarray
    ess_up: np.ndarray
    ess_down: np.ndarray
    swap_rates: np.ndarray
    round_trips: float
    n_moves: int
    drift: float
    drift_error: float
    result: LogPartition


def bennett(forward, backward):
    r"""Estimate a log ratio of normalisation constants by Bennett's acceptance ratio.

    The estimate c solves :math:`\sum_i \sigma(u_i - c) = \sum_i \sigma(w_i + c)`, where
    :math:`\sigma` is the logistic function.

    Parameters
    ----------
    forward : ndarray of shape (n_moves, n_chains)
        :math:`u = \log f_1 - \log f_0` of samples of the first distribution.
    backward : ndarray of shape (n_moves, n_chains)
        :math:`w = \log f_0 - \log f_1` of samples of the second distribution.

    Returns
    -------
    value : float
        Estimate of :math:`\log Z_1 - \log Z_0` in nats.
    influence : ndarray of shape (n_chains,)
        Influence of each chain on the value. The values of different chains are independent, so
        the variance of the estimate is the sum of the squares.

    References
    ----------
    C. H. Bennett, "Efficient estimation of free energy differences from Monte Carlo data", Journal
    of Computational Physics 22 (1976).
    """
    u, w = np.asarray(forward, dtype=float), np.asarray(backward, dtype=float)
    finite = np.concatenate([u[np.isfinite(u)], -w[np.isfinite(w)]])
    if not np.isfinite(u).any() or not len(finite):
        return -np.inf, np.zeros(u.shape[1])

    def imbalance(c):
        return expit(u - c).sum() - expit(w + c).sum()

    value = brentq(imbalance, finite.min() - 40.0, finite.max() + 40.0, xtol=1e-10)
    up, down = expit(u - value), expit(w + value)
    slope = (up * (1.0 - up)).sum() + (down * (1.0 - down)).sum()
    if slope == 0:
        return float(value), np.full(u.shape[1], np.inf)
    return float(value), (up.sum(axis=0) - down.sum(axis=0)) / slope


def burn_in(ladder, random_state=None):
    """Adapt the rungs of a ladder to its last model, and run its chains until they have mixed.

    Rungs are inserted where neighbours rarely swap states, and dropped where they swap often. Then
    the chains move until each has made a round trip along the ladder on average, or until a limit
    of the time.

    Parameters
    ----------
    ladder : Ladder
        Ladder of a fitted model.
    random_state : int, Generator, RandomState or None
        Seed or generator.

    Returns
    -------
    Ladder
        Ladder with adapted rungs, and with at most 128 chains per rung.
    """
    rng = check_generator(random_state)
    ladder = ladder.restart(rng, N_CHAINS)
    for _ in range(N_BURN_IN // 5):  # the chains of the last training steps follow the last model
        ladder, _ = ladder.advance(rng)
    ladder = ladder.fill(rng, min_rate=MIN_SWAP_RATE).thin(SWAP_RATE)
    limit, done, trips = _max_moves(ladder) // 2, 0, 0.0
    while done < limit and (done < N_BURN_IN or trips < MIN_TRIPS) and remaining_time() > 0:
        if trips == 0 and done > 2 * MOVES_WITHOUT_TRIP:
            break
        ladder, info = ladder.advance(rng)
        done, trips = done + 1, trips + info["round_trips"]
    return ladder


def ladder_log_partition(ladder, random_state=None):
    r"""Estimate log Z of the last model of a ladder by bridge sampling between its rungs.

    The first rung is normalised. The log ratios of neighbouring rungs are estimated by Bennett's
    acceptance ratio from the states of both rungs, and added. Chains with different indices are
    independent, so the variation between chains gives standard errors that account for
    autocorrelation.

    Parameters
    ----------
    ladder : Ladder
        Ladder of :func:`burn_in`.
    random_state : int, Generator, RandomState or None
        Seed or generator.

    Returns
    -------
    LadderEstimate
        log Z of each rung. The moves are doubled until the interval of the last one is at most 0.25
        nats wide and the result is trusted, or until a limit of the time. It is trusted if the
        effective sample size is at least 10, each chain has made a round trip on average, and both
        halves of the moves agree. An estimate that is not trusted has not converged; it has no
        upper limit if there are too few round trips or effective samples.
    """
    rng = check_generator(random_state)
    ladder = ladder.restart(rng)
    records, trips, n_moves = [], 0.0, N_MEASURED
    limit = max(_max_moves(ladder), N_MEASURED)
    while True:
        while len(records) < n_moves:
            ladder, n_trips, work = _measure(ladder, rng)
            trips += n_trips
            records.append(work)
        estimate = _estimate(records, trips)
        result = estimate.result
        is_narrow = result.upper - result.lower <= 0.25 * MAX_WIDTH
        is_stuck = n_moves >= MOVES_WITHOUT_TRIP and trips == 0
        is_over = is_stuck or 2 * n_moves > limit or remaining_time() < 0
        if (is_narrow and result.converged) or is_over:
            return estimate
        n_moves *= 2


def _max_moves(ladder):
    n_rungs, n_chains, _ = ladder.states.shape
    work = 2.0 * n_rungs * n_chains * max(ladder.energy.sweep_work, 1.0)
    return int(min(MAX_UPDATES / work, MAX_MOVES))


def _measure(ladder, rng):
    """Move a ladder twice, so that all pairs of neighbours try a swap.

    Returns the ladder, round trips per chain, and log ratios of the densities of neighbours, higher
    rung over lower rung, shape (n_rungs - 1, 2, n_chains).
    """
    ladder, first = ladder.advance(rng)
    ratios = ladder.replicas.log_ratios
    ladder, second = ladder.advance(rng)
    ratios = np.where(np.isnan(ratios), ladder.replicas.log_ratios, ratios)
    return ladder, first["round_trips"] + second["round_trips"], ratios


def _estimate(records, trips):
    """Return the estimate of log Z from the recorded log ratios."""
    work = np.stack(records)
    ratios, influences = _bridge(work)
    if (ratios == -np.inf).any():
        result = zero_probability_result("ladder")
    else:
        result = _interval(ratios.sum(), influences, _least_ess(work))
    half = len(work) // 2
    (first, one), (second, two) = _bridge(work[:half]), _bridge(work[half:])
    drift = float(second.sum() - first.sum()) if result.value > -np.inf else np.inf
    drift_error = _error((two - one).sum(axis=0))
    if abs(drift) > DRIFT_SIGMAS * drift_error:
        result = replace(
            result,
            lower=result.lower - abs(drift),
            upper=result.upper + abs(drift),
            converged=False,
        )
    if trips < MIN_TRIPS or result.ess < MIN_ESS:
        result = without_upper_limit(result)
    ess, swaps = _chain_ess(work), swap_probability(np.moveaxis(work, 2, 0))
    return LadderEstimate(
        np.append(0.0, np.cumsum(ratios)),
        np.append(0.0, [_error(c) for c in np.cumsum(influences, axis=0)]),
        ess[:, 0],
        ess[:, 1],
        swaps.mean(axis=(0, 2)),
        float(trips),
        len(work),
        drift,
        drift_error,
        result,
    )


def _bridge(work):
    """Return log ratios of neighbours and the influence of each chain, by Bennett's method."""
    pairs = [bennett(work[:, k, 0], -work[:, k, 1]) for k in range(work.shape[1])]
    return np.array([value for value, _ in pairs]), np.array([i for _, i in pairs])


def _error(influence):
    n = len(influence)
    return float(np.sqrt((influence**2).sum() * n / max(n - 1, 1)))


def _chain_ess(work):
    """Return effective numbers of independent chains, of shape (n_rungs - 1, 2)."""
    weights = np.stack([work[:, :, 0], -work[:, :, 1]], axis=2)  # up and down
    top = np.maximum(weights.max(axis=(0, 3), keepdims=True), -1e300)
    means = np.exp(weights - top).mean(axis=0)
    with np.errstate(divide="ignore"):
        logs = np.log(means)
    return np.array([[effective_sample_size(w) for w in pair] for pair in logs])


def _least_ess(work):
    return float(_chain_ess(work).min())


def _interval(value, influences, ess):
    """Return the estimate with one-sided 97.5% limits."""
    n = influences.shape[1]
    error = _error(influences.sum(axis=0))
    margin = student.ppf(0.975, max(n - 1, 1)) * error
    if ess < TRUSTED_ESS:
        margin = max(margin, np.log(40.0))
    lower, upper = value - margin, value + margin
    is_converged = bool(upper - lower <= MAX_WIDTH and ess >= TRUSTED_ESS)
    return LogPartition(
        float(value), error, float(lower), float(upper), False, "ladder", is_converged, ess
    )


def combine(annealed, ladder):
    """Return one log partition function from two estimates by different methods.

    Parameters
    ----------
    annealed : LogPartition
        Estimate by annealed importance sampling, which tends to be too low.
    ladder : LogPartition
        Estimate by bridge sampling along a ladder.

    Returns
    -------
    LogPartition
        The estimate with the narrower interval among those whose interval has both values. If only
        one estimate has converged, it is that one, unless the other one found more probability. If
        the estimates disagree, the interval contains both intervals, and the result has not
        converged.
    """
    if annealed.converged != ladder.converged:
        known, unknown = (annealed, ladder) if annealed.converged else (ladder, annealed)
        largest = unknown.value if known is ladder else unknown.lower
        if largest <= known.upper:
            return known
    results = sorted((annealed, ladder), key=lambda r: r.upper - r.lower)
    for result in results if annealed.converged == ladder.converged else ():
        if all(result.lower <= other.value <= result.upper for other in results):
            return result
    return replace(
        ladder,
        value=max(annealed.value, ladder.value),
        lower=min(annealed.lower, ladder.lower),
        upper=max(annealed.upper, ladder.upper),
        converged=False,
    )
