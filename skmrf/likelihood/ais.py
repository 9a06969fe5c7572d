"""Annealed importance sampling, forward and reverse."""

import warnings

import numpy as np

from .._types import LogPartition
from .._validation import check_generator, check_number
from ..samplers import Product, resample, spawn_generators, sweep
from .intervals import interval, lost

FIRST_TEMPERATURES = 1000
GROWTH = 4
MAX_TEMPERATURES = 64_000
MAX_UPDATES = 1.5e9
SETTLE = 100


def ais(
    energy,
    *,
    n_chains=128,
    n_temperatures=None,
    max_width=1.0,
    random_state=None,
    n_jobs=None,
):
    r"""Log partition function by annealed importance sampling in both directions.

    Chains move from a product distribution :math:`p_0` to :math:`f` along
    :math:`p_0^{1-\beta} f^\beta`, one Gibbs sweep a temperature. The forward weights estimate
    :math:`Z` without bias, so their log is too small on average; weights of chains that walk back
    from (approximate) samples of :math:`f` give a log that is too large on average.

    Parameters
    ----------
    energy : Energy
    n_chains : int, default=128
    n_temperatures : int, optional
        Steps of the path. By default 1000, then four times more until the interval is at most
        ``max_width / 2`` wide or 1.5e9 variable updates are spent.
    max_width : float, default=1.0
        Nats; a wider interval is warned about and ``converged`` is False.
    random_state : int, Generator, RandomState or None
    n_jobs : int, optional
        Threads over blocks of 64 chains; the result does not depend on it.

    Returns
    -------
    LogPartition
        ``value`` is the forward estimate. ``lower`` is the forward and ``upper`` the reverse
        estimate moved outward to a one-sided 97.5% limit: a bootstrap over chains, never less than
        the standard error, and ln 40 (Markov's inequality) where the effective sample size is
        below 10. ``upper_is_bound`` is False, as the reverse chains start at samples that are only
        approximate. Where all chains start in zero potentials, the interval is from -inf to inf.

    References
    ----------
    R. M. Neal, "Annealed importance sampling", Statistics and Computing 11 (2001).
    Y. Burda, R. Grosse, R. Salakhutdinov, "Accurate and conservative estimates of MRF
    log-likelihood using reverse annealing", AISTATS (2015).
    """
    check_number("n_chains", n_chains, low=2, integer=True)
    check_number("max_width", max_width, low=0)
    rng = check_generator(random_state)
    if energy.n_variables == 0:
        value = float(energy.log_potential(np.zeros((1, 0), dtype=int))[0])
        return LogPartition(value, 0.0, value, value, True, "ais", True)
    base = _fitted_base(energy, n_chains, rng, n_jobs)
    if n_temperatures is not None:
        check_number("n_temperatures", n_temperatures, low=1, integer=True)
        result = _one_path(energy, base, n_chains, n_temperatures, max_width, rng, n_jobs)
    else:
        result = _lengthening_paths(energy, base, n_chains, max_width, rng, n_jobs)
    if not result.converged:
        warnings.warn(
            f"The interval of log Z by annealed importance sampling, [{result.lower:.4g}, "
            f"{result.upper:.4g}], is {result.upper - result.lower:.3g} nats wide, more than "
            f"max_width={max_width}; give more n_temperatures or n_chains.",
            stacklevel=2,
        )
    return result


def _lengthening_paths(energy, base, n_chains, max_width, rng, n_jobs):
    n_temperatures, spent = FIRST_TEMPERATURES, 0.0
    while True:
        result = _one_path(energy, base, n_chains, n_temperatures, max_width, rng, n_jobs)
        spent += 2.0 * n_temperatures * n_chains * energy.n_variables
        n_temperatures *= GROWTH
        if (
            result.upper - result.lower <= 0.5 * max_width
            or result.ess == 0  # a longer path starts at the same zero potentials
            or n_temperatures > MAX_TEMPERATURES
            or spent * (1 + GROWTH) > MAX_UPDATES
        ):
            return result


def _fitted_base(energy, n_chains, rng, n_jobs):
    """Independent variables with about the single marginals of the model."""
    X = Product.uniform(energy.visible_states).sample(n_chains, rng)
    generators = spawn_generators(rng, n_chains)
    X, _ = sweep(energy, X, generators, n_sweeps=20, n_jobs=n_jobs)
    return Product.from_counts(X, energy.visible_states)


def _one_path(energy, base, n_chains, n_temperatures, max_width, rng, n_jobs):
    betas = np.linspace(0.0, 1.0, n_temperatures + 1)
    generators = spawn_generators(rng, n_chains)
    X, forward = sweep(
        energy, base.sample(n_chains, rng), generators, betas=betas, base=base, n_jobs=n_jobs
    )
    if (forward == -np.inf).all():
        return lost("ais")
    start = X[resample(forward, n_chains, rng)]
    start, _ = sweep(energy, start, generators, n_sweeps=SETTLE, n_jobs=n_jobs)
    _, backward = sweep(
        energy, start, generators, betas=betas[::-1], base=base, reverse=True, n_jobs=n_jobs
    )
    return interval(forward, backward, max_width, rng, "ais")
