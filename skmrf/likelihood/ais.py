"""Log partition function and bounds of log-likelihoods by annealed importance sampling."""

from time import monotonic

import numpy as np

from .._jax import open_device
from .._utils.codes import check_states
from .._utils.interrupts import remaining_time
from .._utils.log_weights import log_mean_exp
from .._utils.parameters import check_choice, check_generator, check_number
from .._utils.results import LogPartition
from .._utils.rows import dense_rows
from ..energies import FactorGraph, PairwiseEnergy
from ..energies.protocols import check_energy
from ..exact.elimination import ImpossibleEvidence
from ..samplers import Product, spawn_generators, sweep
from ..samplers.windows import MAX_VARIABLES
from .annealing_paths import (
    N_BURN_IN,
    AnnealingChains,
    BlockAnnealing,
    ModelPath,
    ProductPath,
    check_reference_model,
    estimate_phases,
    has_zeros,
    interpolate,
    with_sparse_tables,
)
from .intervals import (
    compare_lengths,
    compare_references,
    is_inside,
    raise_to_bound,
    rounding_error,
    warn_unless_converged,
    without_upper_limit,
    zero_probability_result,
)

GROWTH = 4
SHORTEST = 10  # temperatures of the path with which the first estimate is compared, at least
SMALLEST_ESS_GROWTH = 1.1  # for a path that is four times as long
LONG_ENOUGH = 0.5  # effective share of the chains from which more chains are added
MOVES = ("auto", "gibbs", "block-gibbs")
MAX_TEMPERATURES = 64_000
MAX_UPDATES = 1.5e9
N_PILOT_CHAINS = 128
N_PATH_SWEEPS = 9.0  # per temperature, in the first three runs, besides sweeps before annealing
N_REVERSE_STARTS = 6  # in these runs; their sweeps before annealing are at most N_BURN_IN each
CHAINS_AT_ONCE = 4096


def ais(
    energy,
    *,
    n_chains=128,
    n_temperatures=None,
    schedule="adaptive",
    reference=None,
    moves="auto",
    start=None,
    max_width=1.0,
    target_width=None,
    random_state=None,
    n_jobs=None,
    device="cpu",
):
    r"""Estimate the log partition function by annealed importance sampling in both directions.

    Chains move from a product distribution :math:`p_0` to :math:`f` along the path
    :math:`p_0^{1-\beta} f^\beta`, with one Gibbs sweep per temperature. The mean of the forward
    weights is an unbiased estimate of :math:`Z`, so its log is too small on average. The reverse
    chains start at (approximate) samples of :math:`f` and move to :math:`p_0`. The estimate of
    :math:`\log Z` from their weights is too large on average.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables. Latent variables are allowed.
    n_chains : int, default=128
        Number of forward chains and of reverse chains; at least 2. It is the first number of chains
        if ``n_temperatures`` is None.
    n_temperatures : int, optional
        Number of steps of the path. By default the first two runs have 250 and 1000 steps, and each
        further run has four times as many as the last one. If the last estimate is in the interval
        of the run before it and the effective sample size is at least half of the number of chains,
        the next run instead has up to four times as many chains. The runs end if the last estimate
        is in the interval of the run before it, the interval is at most ``target_width`` wide, and
        a run from a second reference distribution confirms it. With zero potentials, which no path
        can avoid, they also end if the effective sample size no longer grows. All runs end at
        64,000 steps, and if the next run would exceed a total work of 1.5e9 updates of two-state
        variables (about half a minute) without runs from the second reference distribution. These
        have up to four times as many steps if ``reference`` is a model. A given length is one run.
    schedule : {"adaptive", "linear"}, default="adaptive"
        Spacing of the temperatures. "adaptive" places them where a pilot run of sequential Monte
        Carlo takes short steps; "linear" spaces them evenly in :math:`\beta`.
    reference : Product, FactorGraph or PairwiseEnergy, optional
        The distribution :math:`p_0`. By default a product of approximate single marginals of the
        model, or of the single marginals of ``start`` if ``start`` is given, ``n_temperatures`` is
        None and no potential is zero. A FactorGraph must have the same cliques as the energy, a
        PairwiseEnergy the same states. Exact inference must be feasible without their tables or
        couplings of zeros, as for a Chow-Liu tree. Temperatures of their paths are evenly spaced,
        and the first two runs have 25 and 100 steps.
    moves : {"auto", "gibbs", "block-gibbs"}, default="auto"
        Moves of the chains.

        - "gibbs": Gibbs sweeps.
        - "block-gibbs": draws of most variables together, by exact elimination given the others,
          and Gibbs sweeps. The path starts at a model of the same tables in which a few variables
          are independent of all others, such that exact inference is feasible. Zero potentials are
          small positive numbers before the end of the path. ``schedule`` has no effect.
        - "auto": "block-gibbs" for a FactorGraph with zero potentials and at most 5,000 variables
          on the CPU, unless ``reference`` is given; else "gibbs".
    start : ndarray of shape (n, n_visible), optional
        State codes at which a second set of reverse chains starts, such as chains of a learner, or
        data that the model fits. By default, if ``n_temperatures`` is None, they are the best
        states that simulated annealing finds. The upper limit is the larger one of both sets. The
        first set starts at the last states of the forward chains, resampled by their weights, and
        contains no mode that the forward chains have missed. All reverse chains are first moved by
        100 sweeps.
    max_width : float, default=1.0
        Largest width of the interval, in nats, that counts as converged. A wider interval raises a
        warning and sets ``converged`` to False.
    target_width : float, optional
        Width of the interval, in nats, at which the runs end if ``n_temperatures`` is None. By
        default half of ``max_width``.
    random_state : int, Generator, RandomState or None
        Seed or generator. Pass an int for reproducible results.
    n_jobs : int, optional
        Number of threads over blocks of 64 chains. The result does not depend on it.
    device : {"cpu", "gpu", "cuda", "jax"}, default="cpu"
        Device of the chains: the compiled functions of numba, a GPU, or the default device of JAX.
        Except on the CPU, the energy must be a model of two-state variables that interact in pairs,
        with or without a layer of hidden units, or a model of tables of at most two variables
        without zero potentials. Its data type is float32. The limits include rounding errors.

    Returns
    -------
    LogPartition
        ``value`` is the forward estimate, in nats. ``lower`` is the one-sided 97.5% limit below the
        forward estimate, ``upper`` the one-sided 97.5% limit above the reverse estimate. The
        distance from the estimate to its limit comes from a bootstrap over chains. It is at least
        the standard error, and at least ln 40 (Markov's inequality) if the effective sample size is
        below 10. ``upper_is_bound`` is False because the reverse chains start at approximate
        samples. If all forward chains have weight zero because of zero potentials, the interval is
        from -inf to inf. The distance to ``lower`` includes the probability, in a product
        reference, of states that no chain draws. ``value`` and ``lower`` are at least the log
        potential of the best state of ``start``.

    Notes
    -----
    If ``n_temperatures`` is None, two other estimates have to confirm the result.

    - A shorter path, or fewer chains: its interval must contain the value of the result. If the two
      intervals only overlap, and the effective sample size of both is at least half of the number
      of chains, the interval of the result contains both.
    - A path from a second reference distribution: its interval must contain the value of the
      result, and its effective sample size must be at least 10. If the two intervals only overlap,
      or the effective sample size is from 3 to 10, the interval of the result contains both.

    Otherwise some chains may have missed a part of the probability. If only the two reference
    distributions disagree, their chains may end at different modes of the model. The states are
    then divided into two sets: each state belongs to the path whose last states have the more
    similar single marginals. Each path estimates the sum over its set. ``value``, ``lower`` and
    ``upper`` are those of the two sums together. The model can have modes that no chain has
    reached, so the result has not converged. ``upper`` is inf if the other two paths disagree, or
    if the effective sample size of a sum is below 3.

    The second reference distribution is the product of approximate single marginals of the model,
    or the uniform distribution if the first one is this product. If potentials are zero, it is
    another estimate of this product, or the given FactorGraph with halved log potentials. With
    block moves, the two paths begin at models with different independent variables.

    References
    ----------
    R. M. Neal, "Annealed importance sampling", Statistics and Computing 11 (2001).
    Y. Burda, R. Grosse, R. Salakhutdinov, "Accurate and conservative estimates of MRF
    log-likelihood using reverse annealing", AISTATS (2015).
    B. Bidyuk, R. Dechter, "Cutset sampling for Bayesian networks", JAIR 28 (2007): block moves.
    """
    check_energy(energy)
    check_number("n_chains", n_chains, low=2, integer=True)
    check_number("max_width", max_width, low=0)
    if target_width is None:
        target_width = 0.5 * max_width
    check_number("target_width", target_width, low=0)
    widths = max_width, target_width
    check_choice("moves", moves, MOVES)
    rng = check_generator(random_state)
    if energy.n_variables == 0:
        value = float(energy.log_potential(np.zeros((1, 0), dtype=int))[0])
        return LogPartition(value, 0.0, value, value, True, "ais", True)
    check_choice("schedule", schedule, ("adaptive", "linear"))
    if start is not None:
        start = _check_start(start, energy)
    chains = AnnealingChains(n_chains, n_jobs, open_device(device))
    energy = with_sparse_tables(energy, reference) if chains.device is None else energy
    chains = chains.with_time(energy, rng)
    if n_temperatures is not None:
        check_number("n_temperatures", n_temperatures, low=1, integer=True)
    if _has_block_moves(energy, moves, reference, chains):
        if start is None and n_temperatures is None:
            start = chains.find_modes(energy, rng)
        result = _estimate_in_blocks(energy, n_temperatures, start, chains, widths, rng)
    elif n_temperatures is not None:
        first = chains.fit_reference(energy, rng) if reference is None else reference
        path = _make_path(energy, first, schedule, start, chains, rng)
        result = _estimate_in_time(path, n_temperatures, max_width, rng)
    else:
        fitted = chains.fit_reference(energy, rng)
        references = _choose_references(energy, reference, fitted, start, chains, rng)
        start = chains.find_modes(energy, rng) if start is None else start
        widths = max_width, target_width + 2.0 * rounding_error(chains.device, [energy], [start])
        paths = [_make_path(energy, p, schedule, start, chains, rng) for p in references]
        n_affordable = _affordable_temperatures(chains.affordable_sweeps(1.0, n_chains))
        n_first = int(np.clip(n_affordable, SHORTEST, paths[0].first_temperatures))
        result = _estimate_with_longer_paths(paths, widths, rng, n_first)
    result = zero_probability_result("ais") if result is None else result
    if start is not None and len(start):
        result = raise_to_bound(result, float(energy.log_marginal(start[:n_chains]).max()))
    warn_unless_converged(result, max_width)
    return result


def _has_block_moves(energy, moves, reference, chains):
    """Return whether chains draw windows of variables; raise a ValueError if they cannot."""
    is_possible = isinstance(energy, FactorGraph) and chains.device is None and reference is None
    is_possible &= energy.n_variables <= MAX_VARIABLES
    if moves == "block-gibbs" and not is_possible:
        raise ValueError(
            'moves="block-gibbs" needs a FactorGraph of at most '
            f'{MAX_VARIABLES:,} variables, device="cpu" and no reference.'
        )
    return moves != "gibbs" and is_possible and (moves != "auto" or has_zeros(energy))


def _estimate_in_blocks(energy, n_temperatures, start, chains, widths, rng):
    """Estimate log Z from chains that draw windows of variables, or return None.

    None means that the tables allow no state, or that there is no estimate within the time limit.
    """
    began = monotonic()
    try:
        paths = BlockAnnealing.pair(energy, start, chains, rng)
        if n_temperatures is not None:
            return paths[0].estimate(n_temperatures, widths[0], rng)
        seconds = max(monotonic() - began, 1e-9) / sum(len(path.schedule) for path in paths)
        n_affordable = remaining_time() / (N_PATH_SWEEPS * seconds)
        n_first = int(np.clip(n_affordable, SHORTEST, paths[0].first_temperatures))
        return _estimate_with_longer_paths(paths, widths, rng, n_first)
    except (ImpossibleEvidence, TimeoutError):
        return None


def _affordable_temperatures(n_sweeps):
    """Return the number of steps of a path whose first three runs have this number of sweeps."""
    n_long = (n_sweeps - N_REVERSE_STARTS * N_BURN_IN) / N_PATH_SWEEPS
    n_short = n_sweeps / (N_PATH_SWEEPS + N_REVERSE_STARTS)
    return n_long if n_long > N_BURN_IN else n_short


def raise_bound(
    energy,
    X,
    *,
    n_chains=16,
    n_temperatures=1000,
    reference=None,
    random_state=None,
    n_jobs=None,
):
    r"""Estimate lower bounds of row log-likelihoods by reverse annealing (RAISE).

    Annealing with a finite number of steps draws from a distribution :math:`p_a(v)` that is close
    to the model if the path is long. Reverse chains from a row estimate :math:`p_a(v)` without
    bias:

    .. math:: \hat p(v) = f(v) \, \frac{1}{K} \sum_{k=1}^K
        \prod_t \frac{f_{t-1}(x_{t-1}^{(k)})}{f_t(x_{t-1}^{(k)})}

    Hidden units are summed out. The log of the estimate is too small on average. So the mean over
    test rows is, in expectation, a lower bound of the log-likelihood of :math:`p_a`, a normalised
    model that can be sampled. It needs no estimate of log Z. If it is far below
    :func:`ais`-based log-likelihoods, annealing does not reach the modes of the model.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables. Latent variables are allowed.
    X : array-like or sparse matrix of shape (n_rows, n_visible)
        State codes of the visible variables.
    n_chains : int, default=16
        Number of reverse chains K of each row.
    n_temperatures : int, default=1000
        Number of steps of the path.
    reference : Product, optional
        Distribution at the start of the path. By default a product of approximate single marginals
        of the model.
    random_state : int, Generator, RandomState or None
        Seed or generator. Pass an int for reproducible results.
    n_jobs : int, optional
        Number of threads over blocks of 64 chains. The result does not depend on it.

    Returns
    -------
    ndarray of shape (n_rows,)
        Estimates in nats. They are -inf for rows of probability zero.

    Raises
    ------
    ValueError
        If a state code is invalid or a parameter is out of range.

    References
    ----------
    Y. Burda, R. Grosse, R. Salakhutdinov, "Accurate and conservative estimates of MRF
    log-likelihood using reverse annealing", AISTATS (2015).

    Examples
    --------
    >>> from skmrf.energies import PairwiseEnergy
    >>> from skmrf.likelihood import log_partition_bounds, raise_bound
    >>> energy = PairwiseEnergy([[0, 0.5], [0.5, 0]], [0.0, 0.0])
    >>> bound = raise_bound(energy, [[1, 1]], random_state=0)
    >>> exact = energy.log_potential([[1, 1]]) - log_partition_bounds(energy).value
    >>> bool(abs(bound - exact)[0] < 0.1)
    True
    """
    check_energy(energy)
    check_number("n_chains", n_chains, low=1, integer=True)
    check_number("n_temperatures", n_temperatures, low=1, integer=True)
    rng = check_generator(random_state)
    X = check_states(dense_rows(X), energy.visible_states)
    if reference is None:
        reference = AnnealingChains(N_PILOT_CHAINS, n_jobs).fit_reference(energy, rng)
    _check_reference(reference, energy)
    schedule = AnnealingChains(N_PILOT_CHAINS).choose_betas(energy, reference, "adaptive", rng)
    betas = interpolate(schedule, n_temperatures)[::-1]
    out = energy.log_marginal(X).astype(float)
    possible = np.flatnonzero(out > -np.inf)
    rows_at_once = max(1, CHAINS_AT_ONCE // n_chains)
    for first in range(0, len(possible), rows_at_once):
        rows = possible[first : first + rows_at_once]
        starts = np.repeat(X[rows], n_chains, axis=0)
        generators = spawn_generators(rng, len(starts))
        _, log_weights = sweep(
            energy, starts, generators, betas=betas, reference=reference, reverse=True,
            n_jobs=n_jobs,
        )  # fmt: skip
        out[rows] += [log_mean_exp(w) for w in log_weights.reshape(-1, n_chains)]
    return out


def _make_path(energy, reference, schedule, start, chains, rng):
    """Return the annealing path from a reference distribution or model to the energy."""
    if isinstance(reference, FactorGraph | PairwiseEnergy):
        check_reference_model(reference, energy)
        return ModelPath(energy, reference, start, chains)
    _check_reference(reference, energy)
    betas = chains.choose_betas(energy, reference, schedule, rng)
    return ProductPath(energy, reference, start, chains, schedule=betas)


def _check_start(start, energy):
    start = check_states(dense_rows(start), energy.visible_states)
    if len(start) == 0:
        raise ValueError("start has no rows. Pass states of the model, or None.")
    return start


def _check_reference(reference, energy):
    is_product = isinstance(reference, Product)
    states = np.diff(np.append(reference.start, len(reference.log_p))) if is_product else None
    if not is_product or not np.array_equal(states, energy.visible_states):
        raise ValueError(
            "reference must be a skmrf.samplers.Product over the visible variables of the energy, "
            "such as Product.uniform(energy.visible_states), or a FactorGraph with the cliques of "
            "the energy."
        )
    if not np.isfinite(reference.log_p).all():
        raise ValueError(
            "reference has states whose probability is 0 or not finite. Give all states a positive "
            "probability, so that annealing can reach all states of the model."
        )


def _estimate_with_longer_paths(paths, widths, rng, n_temperatures):
    """Estimate log Z with longer paths or more chains, until all runs agree and a limit is met.

    ``paths`` start at two reference distributions. ``widths`` are the largest width that counts as
    converged, and the width at which runs end. The notes of :func:`ais` define agreement. A result
    with an upper limit is compared with a run of the second path. None means that no path ends in
    time.
    """
    max_width, target_width = widths
    path, other = paths
    n_before = max(n_temperatures // GROWTH, SHORTEST)
    spent, before = 0.0, _estimate_in_time(path, n_before, max_width, rng)
    if before is None:
        return None
    share_before = before.ess / path.n_chains
    has_zeros, has_disagreed = path.has_zero_potentials(), False
    while True:
        began = monotonic()
        result = _estimate_in_time(path, n_temperatures, max_width, rng)
        if result is None:
            return without_upper_limit(before)
        seconds = monotonic() - began
        width, share = result.upper - result.lower, result.ess / path.n_chains
        # Without zero potentials, the effective sample size can stay low for some lengths of the
        # path and then increase.
        can_improve = not has_zeros or share > SMALLEST_ESS_GROWTH * share_before
        is_confirmed = is_inside(before, result.value)
        is_long = is_confirmed and share >= LONG_ENOUGH
        growth = min(GROWTH, (width / target_width) ** 2) if is_long and target_width else GROWTH
        growth = max(growth, 2.0)
        spent += 2.0 * n_temperatures * path.n_chains * path.work
        is_longest = n_temperatures * GROWTH > MAX_TEMPERATURES
        is_last = (is_longest and not is_long) or _exceeds_limits(growth, seconds, spent)
        can_improve |= is_long
        if is_last or (is_confirmed and (width <= target_width or not can_improve)):
            is_random = min(share, share_before) >= LONG_ENOUGH
            final = compare_lengths(before, result, is_confirmed, is_random, max_width)
            # More chains do not make two references agree, so the next path is longer.
            is_last = is_last or is_longest or _exceeds_limits(GROWTH, seconds, spent)
            is_last |= not can_improve
            if final.upper < np.inf:
                divides = is_last or has_disagreed
                final = _confirm(final, (path, other), n_temperatures, divides, max_width, rng)
                has_disagreed = True
            if final.upper - final.lower <= target_width or is_last:
                return final
            is_long = False
        before, share_before = result, share
        if is_long:
            path = path.with_chains(int(growth * path.n_chains))
        else:
            n_temperatures *= GROWTH


def _confirm(result, paths, n_temperatures, divides, max_width, rng):
    """Return a result, compared with a run of the second path.

    If the two paths disagree and ``divides`` is True, each path estimates the sum over a part of
    the states. Otherwise there is no upper limit, also if there is no time for the other runs.
    """
    path, other = paths
    other = other.with_chains(max(other.n_chains, min(path.n_chains, N_PILOT_CHAINS)))
    length = _other_length(path, other, n_temperatures)
    found = _estimate_in_time(other, length, max_width, rng)
    if found is None:
        return without_upper_limit(result)
    final = compare_references(result, found, max_width)
    if final.upper < np.inf or not divides:
        return final
    try:
        both = estimate_phases((path, other), (n_temperatures, length), max_width, rng)
    except TimeoutError:
        return final
    both = raise_to_bound(both, final.lower)
    return both if both.upper < np.inf else final


def _estimate_in_time(path, n_temperatures, max_width, rng):
    """Return an estimate, or None if the chains do not reach the end of the path in time."""
    try:
        return path.estimate(n_temperatures, max_width, rng)
    except TimeoutError:
        return None


def _exceeds_limits(growth, seconds, spent):
    """Return whether a run that takes ``growth`` times as long would exceed a limit."""
    n_runs = growth + 1.0  # with the run from the second reference, or with those before
    return n_runs * seconds > remaining_time() or n_runs * spent > MAX_UPDATES


def _other_length(path, other, n_temperatures):
    """Return the number of temperatures of a run from the other reference."""
    n_others = other.first_temperatures
    n_scaled = n_temperatures * n_others // path.first_temperatures
    return min(n_scaled, max(GROWTH * n_temperatures, n_others), MAX_TEMPERATURES)


def _choose_references(energy, given, fitted, start, chains, rng):
    """Return two reference distributions: the given or the default one, and another one.

    If potentials are zero, samples of the uniform distribution can all be impossible.
    """
    if has_zeros(energy):
        if isinstance(given, FactorGraph):
            return given, given.with_theta({k: 0.5 * v for k, v in given.theta.items()})
        given = chains.fit_reference(energy, rng) if given is None else given
    if given is not None:
        return given, fitted
    if start is None:
        return fitted, Product.uniform(energy.visible_states)
    return Product.from_counts(start, energy.visible_states), fitted
