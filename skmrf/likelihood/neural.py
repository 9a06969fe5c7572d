"""Log partition functions of models with neural potentials: by a grid, or annealed from beliefs."""

from itertools import pairwise

import numpy as np

from .._utils.log_weights import logsumexp
from .._utils.parameters import check_choice
from .._utils.randomness import check_generator
from .._utils.results import LogPartition
from .._utils.warn import warn_caller
from ..samplers.metropolis import Metropolis
from ..samplers.smc import resample
from .bounds import exact_fits, exact_log_partition
from .intervals import interval

REACH = 8.0  # deviations of the base that a grid spans to either side
POINTS = {0: 1, 1: 4001, 2: 601, 3: 161}  # a number, by how many numbers there are
MAX_POINTS = 2**23
ROWS = 2**18  # of a grid at a time
FINE = 0.5  # deviations of standardised data within which points of a grid are evenly spaced


def grid_fits(energy):
    """Whether a grid over all variables is small enough."""
    numbers = len(energy.numbers)
    states = np.prod(energy.n_states[energy.n_states > 0], dtype=float)
    return numbers in POINTS and POINTS[numbers] ** numbers * states <= MAX_POINTS


def grid(energy, n_points=None):
    """Points and the logarithms of their weights, for sums that approximate integrals.

    Points along a number are ``m + c sinh t`` for even t: dense where data are, and wide apart in
    the tails of a base that is much wider.

    Parameters
    ----------
    energy : NeuralEnergy
        Of at most three numbers.
    n_points : int, optional
        Along each number.

    Returns
    -------
    X : ndarray of shape (n, n_variables)
    log_weights : ndarray of shape (n,)
    """
    numbers = energy.numbers
    n_points = POINTS[len(numbers)] if n_points is None else n_points
    axes = [np.arange(max(q, 1), dtype=float) for q in energy.n_states]
    logs = [np.zeros(len(axis)) for axis in axes]
    for i, mean, variance in zip(numbers, energy.mean, np.diag(energy.covariance), strict=True):
        fine = FINE * min(1.0, np.sqrt(variance))
        t, step = np.linspace(-1, 1, n_points, retstep=True)
        reach = np.arcsinh(REACH * np.sqrt(variance) / fine)
        axes[i] = mean + fine * np.sinh(reach * t)
        logs[i] = np.log(fine * reach * step * np.cosh(reach * t))
    X = np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=1)
    return X, sum(x.ravel() for x in np.meshgrid(*logs, indexing="ij"))


def grid_log_partition(energy, n_points=None):
    """log Z by a sum over a grid; the error is what half of the points would give differently."""
    numbers = len(energy.numbers)
    n_points = POINTS[numbers] if n_points is None else n_points
    X, logs = grid(energy, n_points)
    logs = logs + np.concatenate(
        [energy.log_potential(X[s : s + ROWS]) for s in range(0, len(X), ROWS)]
    )
    value = logsumexp(logs)
    shape = [n_points if q == 0 else q for q in energy.n_states]
    every = tuple(slice(None, None, 2 if q == 0 else 1) for q in energy.n_states)
    coarse = logsumexp(logs.reshape(shape)[every].ravel()) + numbers * np.log(2.0)
    error = abs(value - coarse) if numbers else 0.0
    return LogPartition(value, error, value - error, value + error, False, "grid", error < 0.1)


def neural_log_partition(
    energy,
    mixture,
    *,
    method="auto",
    n_chains=256,
    n_temperatures=60,
    max_width=1.0,
    random_state=None,
):
    """Log partition function of a :class:`~skmrf.energies.NeuralEnergy`.

    Parameters
    ----------
    energy : NeuralEnergy
    mixture : Mixture
        Beliefs, from which chains are annealed to the model.
    method : {"auto", "exact", "grid", "ais"}, default="auto"
        "exact" by elimination where there are no numbers, "grid" for up to three numbers, "ais"
        along the geometric path from the beliefs, with Metropolis steps.
    n_chains, n_temperatures : int
        Of "ais".
    max_width : float
        Nats; a wider interval is warned about.
    random_state : int, Generator, RandomState or None

    Returns
    -------
    LogPartition
    """
    check_choice("method", method, ("auto", "exact", "grid", "ais"))
    discrete = not len(energy.numbers)
    if method == "exact" or (
        method == "auto" and discrete and exact_fits(energy.factor_graph().layout)
    ):
        return exact_log_partition(energy.factor_graph())
    if method == "grid" or (method == "auto" and not discrete and grid_fits(energy)):
        if not grid_fits(energy):
            raise ValueError(
                f'method="grid" sums over at most three numbers and {MAX_POINTS} points; use '
                'method="ais".'
            )
        result = grid_log_partition(energy)
        if result.converged:
            return result
        if method == "grid":
            warn_caller(
                f"Too coarse a grid: log Z is {result.std_error:.3g} nats off with half of its "
                'points; use method="ais".'
            )
            return result
    rng = check_generator(random_state)
    proposal = mixture.defended(energy.mean, energy.covariance)
    betas = np.linspace(0.0, 1.0, n_temperatures + 1)
    X = proposal.sample(n_chains, rng)
    forward, X = _anneal(energy, proposal, X, betas, rng)
    X = X[resample(forward, n_chains, rng)]
    backward, _ = _anneal(energy, proposal, X, betas[::-1], rng)
    result = interval(forward, backward, max_width, rng, "ais")
    if not result.converged:
        warn_caller(
            f"The interval of log Z is {result.upper - result.lower:.3g} nats wide; give more "
            "n_chains or n_temperatures."
        )
    return result


def _anneal(energy, proposal, X, betas, rng):
    """Log weights of chains that walk along the path, and their ends."""
    moves = Metropolis(proposal)
    log_weights = np.zeros(len(X))
    for before, beta in pairwise(betas):
        log_weights += (beta - before) * (energy.log_potential(X) - proposal.log_density(X))

        def target(X, beta=beta):
            return (1 - beta) * proposal.log_density(X) + beta * energy.log_potential(X)

        X, _, rate = moves.walk(target, X, target(X), rng)
        moves.adapt(rate)
    return log_weights, X
