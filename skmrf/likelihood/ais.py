"""Annealed importance sampling, forward and reverse."""

from typing import Any, NamedTuple

import numpy as np

from .._utils.codes import check_states
from .._utils.parameters import check_choice, check_number
from .._utils.randomness import check_generator
from .._utils.results import LogPartition
from .._utils.rows import dense_rows
from .._utils.warn import warn_caller
from ..energies.checks import check_energy
from ..samplers import Product, Tempering, spawn_generators, sweep
from ..samplers.smc import climb, resample
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
    schedule="adaptive",
    reference=None,
    start=None,
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
        ``max_width / 2`` wide or the work of 1.5e9 variable updates is spent, about half a minute.
    schedule : {"adaptive", "linear"}, default="adaptive"
        Where the temperatures lie: as dense as the steps of a pilot run of sequential Monte Carlo,
        or evenly spaced in :math:`\beta`.
    reference : Product, optional
        :math:`p_0`; by default about the single marginals of the model.
    start : ndarray of shape (n, n_visible), optional
        (About) draws of the model from which the reverse chains begin, such as chains or particles
        of a learner, or data of a model that fits them; they make 100 sweeps first. By default the
        ends of the forward chains, resampled by their weights, which miss what these have missed.
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
    check_energy(energy)
    check_number("n_chains", n_chains, low=2, integer=True)
    check_number("max_width", max_width, low=0)
    rng = check_generator(random_state)
    if energy.n_variables == 0:
        value = float(energy.log_potential(np.zeros((1, 0), dtype=int))[0])
        return LogPartition(value, 0.0, value, value, True, "ais", True)
    check_choice("schedule", schedule, ("adaptive", "linear"))
    if start is not None:
        start = _check_start(start, energy)
    if reference is not None:
        _check_reference(reference, energy)
    reference = _fitted_reference(energy, n_chains, rng, n_jobs) if reference is None else reference
    path = _Path(
        energy,
        reference,
        _grid(energy, reference, n_chains, schedule, rng),
        start,
        n_chains,
        n_jobs,
    )
    if n_temperatures is not None:
        check_number("n_temperatures", n_temperatures, low=1, integer=True)
        result = path.estimate(n_temperatures, max_width, rng)
    else:
        result = _lengthening(path, max_width, rng)
    if not result.converged:
        warn_caller(
            f"The interval of log Z by annealed importance sampling, [{result.lower:.4g}, "
            f"{result.upper:.4g}], is {result.upper - result.lower:.3g} nats wide, more than "
            f"max_width={max_width}; give more n_temperatures or n_chains.",
        )
    return result


def _check_start(start, energy):
    start = check_states(dense_rows(start), energy.visible_states)
    if len(start) == 0:
        raise ValueError("start has no rows; give states of the model, or None.")
    return start


def _check_reference(reference, energy):
    known = isinstance(reference, Product)
    states = np.diff(np.append(reference.start, len(reference.log_p))) if known else None
    if not known or not np.array_equal(states, energy.visible_states):
        raise ValueError(
            "reference must be a skmrf.samplers.Product over the visible variables of the energy, "
            "such as Product.uniform(energy.visible_states)."
        )


def _lengthening(path, max_width, rng):
    n_temperatures, spent = FIRST_TEMPERATURES, 0.0
    while True:
        result = path.estimate(n_temperatures, max_width, rng)
        spent += 2.0 * n_temperatures * path.n_chains * path.energy.sweep_work
        n_temperatures *= GROWTH
        if (
            result.upper - result.lower <= 0.5 * max_width
            or result.ess == 0  # a longer path starts at the same zero potentials
            or n_temperatures > MAX_TEMPERATURES
            or spent * (1 + GROWTH) > MAX_UPDATES
        ):
            return result


def _fitted_reference(energy, n_chains, rng, n_jobs):
    """Independent variables with about the single marginals of the model."""
    X = Product.uniform(energy.visible_states).sample(n_chains, rng)
    generators = spawn_generators(rng, n_chains)
    X, _ = sweep(energy, X, generators, n_sweeps=20, n_jobs=n_jobs)
    return Product.from_counts(X, energy.visible_states)


def _grid(energy, reference, n_chains, schedule, rng):
    """Inverse temperatures between which all steps are about as hard."""
    if schedule == "linear":
        return np.array([0.0, 1.0])
    X = reference.sample(n_chains, rng)
    pilot = climb(Tempering(reference, energy), X, spawn_generators(rng, n_chains), rng)
    return np.array(pilot.betas)


class _Path(NamedTuple):
    """An energy, the path to it, and where reverse chains begin."""

    energy: Any
    reference: Product
    grid: np.ndarray
    start: np.ndarray | None
    n_chains: int
    n_jobs: int | None

    def estimate(self, n_temperatures, max_width, rng):
        """Forward and reverse chains along ``n_temperatures`` steps."""
        energy, reference = self.energy, self.reference
        along = np.linspace(0.0, len(self.grid) - 1.0, n_temperatures + 1)
        betas = np.interp(along, np.arange(len(self.grid)), self.grid)
        X = reference.sample(self.n_chains, rng)
        generators = spawn_generators(rng, self.n_chains)
        X, forward = sweep(
            energy, X, generators, betas=betas, reference=reference, n_jobs=self.n_jobs
        )
        if (forward == -np.inf).all():
            return lost("ais")
        found = X[resample(forward, self.n_chains, rng)]
        if self.start is not None:
            found = self.start[rng.choice(len(self.start), size=self.n_chains)]
        found, _ = sweep(energy, found, generators, n_sweeps=SETTLE, n_jobs=self.n_jobs)
        _, backward = sweep(
            energy,
            found,
            generators,
            betas=betas[::-1],
            reference=reference,
            reverse=True,
            n_jobs=self.n_jobs,
        )
        return interval(forward, backward, max_width, rng, "ais")
