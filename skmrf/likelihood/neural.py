"""Log partition functions of models with neural potentials: by a grid, or annealed from beliefs."""

import numpy as np

from .._types import LogPartition, logsumexp
from .._validation import check_choice, check_generator, warn_caller
from ..samplers import resample
from .bounds import exact_fits, exact_log_partition
from .intervals import interval

REACH = 8.0  # deviations of the base that a grid spans to either side
POINTS = {0: 1, 1: 4001, 2: 601, 3: 161}  # a number, by how many numbers there are
MAX_POINTS = 2**23
ROWS = 2**18  # of a grid at a time
STEP = 2.38  # of random walks, by the root of the number of variables (Roberts et al., 1997)


def grid_fits(energy):
    """Whether a grid over all variables is small enough."""
    numbers = len(energy.numbers)
    states = np.prod(energy.n_states[energy.n_states > 0], dtype=float)
    return numbers in POINTS and POINTS[numbers] ** numbers * states <= MAX_POINTS


def grid(energy, n_points=None):
    """Points and the logarithms of their weights, for sums that approximate integrals.

    Parameters
    ----------
    energy : NeuralEnergy
        Of at most three numbers.
    n_points : int, optional
        Along each number.

    Returns
    -------
    X : ndarray of shape (n, n_variables)
    log_weight : float
        Of every point.
    """
    numbers = energy.numbers
    n_points = POINTS[len(numbers)] if n_points is None else n_points
    deviations = np.sqrt(np.diag(energy.covariance))
    axes, log_weight = [None] * energy.n_variables, 0.0
    for k, i in enumerate(numbers):
        reach = REACH * deviations[k]
        axes[i] = energy.mean[k] + np.linspace(-reach, reach, n_points)
        log_weight += np.log(2 * reach / (n_points - 1))
    for i in np.flatnonzero(energy.n_states):
        axes[i] = np.arange(energy.n_states[i], dtype=float)
    mesh = np.meshgrid(*axes, indexing="ij")
    return np.stack([x.ravel() for x in mesh], axis=1), log_weight


def grid_log_partition(energy, n_points=None):
    """log Z by a sum over a grid; the error is what half of the points would give differently."""
    numbers = len(energy.numbers)
    X, log_weight = grid(energy, n_points)
    logs = [energy.log_potential(X[s : s + ROWS]) for s in range(0, len(X), ROWS)]
    logs = np.concatenate(logs)
    value = logsumexp(logs) + log_weight
    n_points = POINTS[numbers] if n_points is None else n_points
    shape = [n_points if q == 0 else q for q in energy.n_states]
    every = tuple(slice(None, None, 2 if q == 0 else 1) for q in energy.n_states)
    coarse = logsumexp(logs.reshape(shape)[every].ravel()) + log_weight + numbers * np.log(2.0)
    error = abs(value - coarse) if numbers else 0.0
    return LogPartition(value, error, value - error, value + error, True, "grid", error < 0.1)


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
    if method == "exact" or (method == "auto" and discrete and exact_fits(energy.factor_graph())):
        return exact_log_partition(energy.factor_graph())
    if method == "grid" or (method == "auto" and not discrete and grid_fits(energy)):
        if not grid_fits(energy):
            raise ValueError(
                f'method="grid" sums over at most three numbers and {MAX_POINTS} points; use '
                'method="ais".'
            )
        return grid_log_partition(energy)
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
    walk = _Walk(proposal, rng)
    base, model = proposal.log_density(X), energy.log_potential(X)
    logs = np.zeros(len(X))
    for before, beta in zip(betas, betas[1:], strict=False):
        logs += (beta - before) * (model - base)
        moved = walk.propose(X)
        new_base, new_model = proposal.log_density(moved), energy.log_potential(moved)
        gain = (1 - beta) * (new_base - base) + beta * (new_model - model)
        taken = np.log(rng.random(len(X))) < gain
        X = np.where(taken[:, None], moved, X)
        base, model = np.where(taken, new_base, base), np.where(taken, new_model, model)
        walk.adapt(taken.mean())
    return logs, X


class _Walk:
    """Symmetric random walks: Gaussian steps of all numbers, another state of one variable."""

    def __init__(self, mixture, rng):
        self.mixture, self.rng = mixture, rng
        self.size = STEP / np.sqrt(max(mixture.means.shape[1], 1))
        within = np.einsum("k,kij->ij", np.exp(mixture.log_weights), mixture.covariances)
        self.root = np.linalg.cholesky(within) if len(within) else within

    def propose(self, X):
        """New states, X is not changed."""
        X = X.copy()
        numbers, discrete = self.mixture.numbers, self.mixture.discrete
        if len(numbers):
            X[:, numbers] += self.size * self.rng.normal(size=(len(X), len(numbers))) @ self.root.T
        if len(discrete):
            rows = np.arange(len(X))
            chosen = self.rng.choice(discrete, size=len(X))
            q = self.mixture.n_states[chosen]
            shift = 1 + np.floor(self.rng.random(len(X)) * np.maximum(q - 1, 1))
            X[rows, chosen] = (X[rows, chosen] + shift) % q
        return X

    def adapt(self, rate):
        """Towards accepting about three in ten; bounded, and by little, as chains are many."""
        self.size *= np.exp(np.clip(rate - 0.3, -0.3, 0.3))
