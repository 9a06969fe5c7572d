"""Log partition function of models with neural potentials: sum over a grid, or annealing."""

from itertools import pairwise

import numpy as np

from .._utils.log_weights import logsumexp
from .._utils.parameters import check_choice, check_generator, check_number
from .._utils.results import LogPartition
from .._utils.warn import LogPartitionWarning, warn_caller
from ..samplers.metropolis import Metropolis
from ..samplers.smc import resample
from .bounds import exact_fits, exact_log_partition
from .intervals import interval

GRID_DEVIATIONS = 8.0  # standard deviations of the base that a grid spans to either side
POINTS_PER_AXIS = {
    0: 1,
    1: 4001,
    2: 601,
    3: 161,
}  # points per axis, by the number of continuous variables
MAX_POINTS = 2**23
MAX_TERMS = 2**26  # potentials of variables and edges at all points, for method="auto"
BLOCK = 2**18  # grid points that are evaluated at a time
FINE = 0.5  # grid points are about evenly spaced within this distance from the mean


def grid_fits(energy):
    """Return True if a grid over all variables is small enough to compute log Z by a sum.

    Parameters
    ----------
    energy : NeuralEnergy
        Model of continuous and discrete variables.

    Returns
    -------
    bool
        True for at most three continuous variables and 2**23 grid points.
    """
    return len(energy.numbers) in POINTS_PER_AXIS and _n_grid_points(energy) <= MAX_POINTS


def _n_grid_points(energy):
    numbers = len(energy.numbers)
    states = np.prod(energy.n_states[energy.n_states > 0], dtype=float)
    return POINTS_PER_AXIS[numbers] ** numbers * states


def _is_grid_quick(energy):
    """Return True if a sum over the grid takes at most a few seconds."""
    n_terms = energy.n_variables + len(energy.edges)
    return grid_fits(energy) and _n_grid_points(energy) * n_terms <= MAX_TERMS


def grid(energy, n_points=None):
    """Return grid points and log weights; weighted sums over the points approximate integrals.

    The points along a continuous variable are ``m + c sinh t`` for evenly spaced t. They are dense
    where the data are, and sparse in the tails of a base that is much wider than the data.

    Parameters
    ----------
    energy : NeuralEnergy
        Model of at most three continuous variables, and any discrete ones.
    n_points : int, optional
        Number of points along each continuous variable. By default 4001, 601 or 161 for one, two or
        three continuous variables.

    Returns
    -------
    X : ndarray of shape (n, n_variables)
        Grid points: values of continuous variables and state codes of discrete ones.
    log_weights : ndarray of shape (n,)
        Logarithms of the weights of the points.
    """
    numbers = energy.numbers
    n_points = POINTS_PER_AXIS[len(numbers)] if n_points is None else n_points
    axes = [np.arange(max(q, 1), dtype=float) for q in energy.n_states]
    logs = [np.zeros(len(axis)) for axis in axes]
    for i, mean, variance in zip(numbers, energy.mean, np.diag(energy.covariance), strict=True):
        fine = FINE * min(1.0, np.sqrt(variance))
        t, step = np.linspace(-1, 1, n_points, retstep=True)
        reach = np.arcsinh(GRID_DEVIATIONS * np.sqrt(variance) / fine)
        axes[i] = mean + fine * np.sinh(reach * t)
        logs[i] = np.log(fine * reach * step * np.cosh(reach * t))
    X = np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=1)
    return X, sum(x.ravel() for x in np.meshgrid(*logs, indexing="ij"))


def grid_log_partition(energy, n_points=None):
    """Compute log Z by a sum over a grid, and its error from a grid with half the points.

    Parameters
    ----------
    energy : NeuralEnergy
        Model of at most three continuous variables, and any discrete ones.
    n_points : int, optional
        Number of points along each continuous variable. By default 4001, 601 or 161 for one, two or
        three continuous variables.

    Returns
    -------
    LogPartition
        ``std_error`` is the difference to the sum over every second point of each axis, in nats;
        ``converged`` is whether it is below 0.1.
    """
    numbers = len(energy.numbers)
    n_points = POINTS_PER_AXIS[numbers] if n_points is None else n_points
    X, logs = grid(energy, n_points)
    logs = logs + np.concatenate(
        [energy.log_potential(X[s : s + BLOCK]) for s in range(0, len(X), BLOCK)]
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
    """Estimate the log partition function of a :class:`~skmrf.energies.NeuralEnergy`.

    Parameters
    ----------
    energy : NeuralEnergy
        Model of continuous and discrete variables.
    mixture : Mixture
        Beliefs: an approximation of the model, from which chains are annealed to the model.
    method : {"auto", "exact", "grid", "ais"}, default="auto"
        - "exact": variable elimination, if no variable is continuous.
        - "grid": sum over a grid, for at most three continuous variables.
        - "ais": annealed importance sampling with Metropolis steps, along the geometric path from
          the beliefs to the model.
        - "auto": the first of "exact", "grid" and "ais" that is possible and takes at most a few
          seconds.
    n_chains : int, default=256
        Number of chains of "ais".
    n_temperatures : int, default=60
        Number of steps of the path of "ais".
    max_width : float, default=1.0
        Largest width of the interval of "ais", in nats, that counts as converged. A wider interval
        raises a warning.
    random_state : int, Generator, RandomState or None
        Seed or generator of "ais". Pass an int for reproducible results.

    Returns
    -------
    LogPartition
        Estimate ``value`` with the limits ``lower`` and ``upper``, all in nats.
    """
    check_choice("method", method, ("auto", "exact", "grid", "ais"))
    check_number("n_chains", n_chains, low=2, integer=True)
    check_number("n_temperatures", n_temperatures, low=1, integer=True)
    check_number("max_width", max_width, low=0)
    discrete = not len(energy.numbers)
    if method == "exact" or (
        method == "auto" and discrete and exact_fits(energy.factor_graph().layout)
    ):
        return exact_log_partition(energy.factor_graph())
    if method == "grid" or (method == "auto" and not discrete and _is_grid_quick(energy)):
        if not grid_fits(energy):
            raise ValueError(
                'method="grid" takes at most three continuous variables and a grid of at most '
                f"{MAX_POINTS} points, but this model has {len(energy.numbers)} continuous "
                'variables or needs a larger grid. Use method="ais".'
            )
        result = grid_log_partition(energy)
        if result.converged:
            return result
        if method == "grid":
            warn_caller(
                f"The grid is too coarse: log Z changes by {result.std_error:.3g} nats if half of "
                'its points are left out. Use method="ais".'
            )
            return result
    rng = check_generator(random_state)
    proposal = mixture.with_defensive_component(energy.mean, energy.covariance)
    betas = np.linspace(0.0, 1.0, n_temperatures + 1)
    X = proposal.sample(n_chains, rng)
    forward, X = _anneal(energy, proposal, X, betas, rng)
    X = X[resample(forward, n_chains, rng)]
    backward, _ = _anneal(energy, proposal, X, betas[::-1], rng)
    result = interval(forward, backward, max_width, rng, "ais")
    if not result.converged:
        warn_caller(
            f"The interval of log Z is {result.upper - result.lower:.3g} nats wide, more than "
            f"max_width={max_width}. Increase n_chains or n_temperatures.",
            LogPartitionWarning,
        )
    return result


def _anneal(energy, proposal, X, betas, rng):
    """Anneal chains from the proposal to the model; return log weights and last states."""
    moves = Metropolis(proposal)
    log_weights = np.zeros(len(X))
    for before, beta in pairwise(betas):
        log_weights += (beta - before) * (energy.log_potential(X) - proposal.log_density(X))

        def target(X, beta=beta):
            return (1 - beta) * proposal.log_density(X) + beta * energy.log_potential(X)

        X, _, rate = moves.random_walk_step(target, X, target(X), rng)
        moves.adapt(rate)
    return log_weights, X
