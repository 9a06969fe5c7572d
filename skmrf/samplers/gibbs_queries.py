"""Gibbs chains for samples, marginals and the most probable state, and paths between models."""

import numpy as np
from scipy.special import expit

from .._jax import open_device
from .._kernels import annealing
from .._kernels._jit import aligned_empty
from .._kernels.products import find_product
from .._utils.codes import MISSING, STATE, state_columns
from .._utils.interrupts import remaining_time
from .._utils.log_weights import effective_sample_size
from .._utils.parallel import run_blocks
from .._utils.parameters import check_number
from .._utils.warn import warn_caller
from ..energies.conditionals import BinaryConditionals, TableConditionals
from .gibbs import Product, blocks_per_unit, spawn_generators, split_chains, sweep
from .layers import (
    REFRESH,
    STRONG_COUPLING,
    align_rows,
    make_scan,
    random_seeds,
    split_path,
    sweep_between_on_device,
)
from .smc import resample

LOWEST_BETA, HIGHEST_BETA = 0.05, 12.0
UPDATES_PER_PIECE = 2_000_000
CONVERGED_ERROR = 0.01  # standard error of a marginal probability
MIN_CHAINS = 10  # effective number of chains, below which chains are not resampled


def draw(energy, n_samples, rng, *, n_sweeps=1000, n_jobs=None, device="cpu"):
    """Draw samples by independent Gibbs chains, with annealing in the first half of the sweeps.

    During the first half of the sweeps the inverse temperature increases from 0 to 1. The second
    half is run at 1.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables.
    n_samples : int
        Number of samples, each from its own chain.
    rng : Generator
        Source of randomness.
    n_sweeps : int, default=1000
        Number of sweeps of each chain.
    n_jobs : int, optional
        Number of threads over blocks of chains. Results do not depend on it.
    device : {"cpu", "gpu", "cuda", "jax"}, default="cpu"
        Device of the chains, as in :func:`skmrf.likelihood.ais`.

    Returns
    -------
    ndarray of shape (n_samples, n_variables)
        State codes.

    Raises
    ------
    ValueError
        If all chains end in states of probability zero.
    """
    check_number("n_sweeps", n_sweeps, low=1, integer=True)
    betas = np.minimum(np.linspace(0.0, 2.0, n_sweeps + 1), 1.0)
    X = Product.uniform(energy.visible_states).sample(n_samples, rng)
    generators = spawn_generators(rng, n_samples, open_device(device))
    X = sweep_in_time(energy, X, generators, betas, n_jobs)
    check_possible(energy, X)
    return X


def sweep_in_time(energy, X, generators, betas, n_jobs):
    """Run Gibbs sweeps along a path of inverse temperatures.

    With a time limit, the sweeps run in short pieces, and the sweeps that remain at the end of the
    time are skipped.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables.
    X : ndarray of shape (n_chains, n_variables)
        State codes at which the chains start.
    generators : list of numpy.random.Generator
        One generator per block of chains.
    betas : ndarray of shape (n_sweeps + 1,)
        Inverse temperatures.
    n_jobs : int or None
        Number of threads over blocks of chains.

    Returns
    -------
    ndarray of shape (n_chains, n_variables)
        State codes.
    """
    for piece in pieces_in_time(energy, len(X), betas):
        X, _ = sweep(energy, X, generators, betas=piece, n_jobs=n_jobs)
        if remaining_time() < 0:
            break
    return X


def pieces_in_time(energy, n_chains, betas):
    """Split a path of inverse temperatures into short pieces if there is a time limit.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables.
    n_chains : int
        Number of chains that move along the path.
    betas : ndarray of shape (n_sweeps + 1,)
        Inverse temperatures.

    Returns
    -------
    list of ndarray
        Pieces, whose ends are the starts of the next ones; the whole path without a time limit.
    """
    if remaining_time() == np.inf:
        return [betas]
    length = max(1, int(UPDATES_PER_PIECE // max(n_chains * energy.sweep_work, 1)))
    return [betas[s : s + length + 1] for s in range(0, len(betas) - 1, length)]


def sweep_between(first, last, betas, X, generators, *, reverse=False, n_jobs=None):
    r"""Run Gibbs sweeps of chains along a path from one model of pairs to another.

    The target at an inverse temperature :math:`\beta` is :math:`f_0^{1-\beta} f^\beta`.

    Parameters
    ----------
    first, last : FactorGraph or PairwiseEnergy
        Models at beta = 0 and at beta = 1. On the CPU, their conditionals must be
        :class:`~skmrf.energies.conditionals.BinaryConditionals`. The first model should have few
        couplings, because each change of a variable visits all of them that are not zero.
    betas, X, generators, reverse, n_jobs
        As in :func:`skmrf.samplers.sweep`.

    Returns
    -------
    X, log_weights : arrays
        As in :func:`skmrf.samplers.sweep`.
    """
    if not isinstance(generators, list):
        return sweep_between_on_device(first, last, betas, X, generators, reverse=reverse)
    conditionals = [energy.conditionals() for energy in (first, last)]
    base, coupling = (c.coupling for c in conditionals)
    order = np.flatnonzero(np.asarray(last.visible_states) > 1)
    order = order[::-1].copy() if reverse else order
    scan = make_scan((base, coupling), order, reverse=reverse)
    rows, neighbours = np.nonzero(base)
    starts = np.searchsorted(rows, np.arange(len(base) + 1))
    dtype = np.dtype(float)
    models = tuple((align_rows(c.coupling, dtype), c.bias.astype(dtype)) for c in conditionals)
    given = models, (starts, neighbours), betas, scan
    X, rise = np.array(X, dtype=STATE), conditionals[1].constant - conditionals[0].constant
    log_weights = np.full(len(X), (betas[-1] - betas[0]) * rise)
    parts = split_chains(len(X), generators, blocks_per_unit(last, len(X), len(betas) - 1))
    tasks = [(*given, X[chains], log_weights[chains], rngs) for chains, rngs in parts]
    list(run_blocks(_sweep_part, tasks, n_jobs))
    return X, log_weights


def _sweep_part(models, neighbours, betas, scan, X, log_weights, rngs):
    """Run the sweeps of :func:`sweep_between` for a part of the chains."""
    dtype = models[0][1].dtype
    fields = tuple(aligned_empty(len(X), len(bias), dtype) for _, bias in models)
    start, product = 0, find_product(dtype)
    for path in split_path(betas, X.size, REFRESH):
        seeds, is_new = random_seeds(rngs, len(path) - 1), start % REFRESH == 0
        along = neighbours, STRONG_COUPLING, path, scan, seeds, is_new
        annealing.sweep_between(product, models, *along, fields, X, log_weights)
        start += len(path) - 1


class ClampedChains:
    """Gibbs chains of the missing entries of rows, which start at uniformly drawn states.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables.
    X : ndarray of shape (n_chains, n_visible)
        State codes, MISSING for the entries to sample.
    rng : numpy.random.Generator
        Source of randomness.
    device : {"cpu", "gpu", "cuda", "jax"}, default="cpu"
        Device of the chains, as in :func:`skmrf.likelihood.ais`.

    Attributes
    ----------
    X : ndarray of shape (n_chains, n_visible)
        State codes of the chains, without missing entries.
    """

    def __init__(self, energy, X, rng, *, device="cpu"):
        self.energy, self.clamped = energy, X != MISSING
        drawn = Product.uniform(energy.visible_states).sample(len(X), rng)
        self.X = np.where(self.clamped, X, drawn)
        self._generators = spawn_generators(rng, len(X), open_device(device))

    def sweep(self, betas, *, n_jobs=None):
        """Run sweeps along a path of inverse temperatures.

        Parameters
        ----------
        betas : ndarray of shape (n_sweeps + 1,)
            Inverse temperatures.
        n_jobs : int, optional
            Number of threads over blocks of chains. Results do not depend on it.

        Returns
        -------
        X : ndarray of shape (n_chains, n_visible)
            State codes at which the chains end.
        log_weights : ndarray of shape (n_chains,)
            Log weights of annealed importance sampling along ``betas``, in nats.
        """
        options = {"betas": betas, "clamped": self.clamped, "n_jobs": n_jobs}
        self.X, log_weights = sweep(self.energy, self.X, self._generators, **options)
        return self.X, log_weights


def draw_missing(energy, X, rng, *, n_sweeps=1000, n_jobs=None, device="cpu"):
    """Sample the missing entries of each row given its other entries.

    Each row has its own Gibbs chain, which is annealed as in :func:`draw`. At the end of the
    annealing, the chains of equal rows are resampled according to their weights, so that separated
    modes get their probabilities. If fewer than 10 chains are effective, they are not resampled.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables.
    X : ndarray of shape (n_rows, n_visible)
        State codes, MISSING for the entries to sample.
    rng : numpy.random.Generator
        Source of randomness.
    n_sweeps : int, default=1000
        Number of sweeps of each chain.
    n_jobs : int, optional
        Number of threads over blocks of chains. Results do not depend on it.
    device : {"cpu", "gpu", "cuda", "jax"}, default="cpu"
        Device of the chains, as in :func:`skmrf.likelihood.ais`.

    Returns
    -------
    ndarray of shape (n_rows, n_visible)
        State codes without missing entries.
    """
    chains = ClampedChains(energy, X, rng, device=device)
    _, log_weights = chains.sweep(np.linspace(0.0, 1.0, (n_sweeps + 1) // 2 + 1), n_jobs=n_jobs)
    chains.X = _resample_equal_rows(X, chains.X, log_weights, rng)
    return chains.sweep(np.ones(n_sweeps // 2 + 1), n_jobs=n_jobs)[0]


def _resample_equal_rows(X, states, log_weights, rng):
    """Resample the states of the chains of equal rows of X according to their weights."""
    _, inverse, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    by_row = np.split(np.argsort(inverse.ravel(), kind="stable"), np.cumsum(counts)[:-1])
    chosen = np.arange(len(X))
    for chains in by_row:
        if len(chains) > MIN_CHAINS and effective_sample_size(log_weights[chains]) >= MIN_CHAINS:
            found = chains[resample(log_weights[chains], len(chains), rng)]
            chosen[chains] = rng.permutation(found)
    return states[chosen]


def check_possible(energy, X):
    """Raise an error if all chains have states of probability zero; warn if some chains do.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables.
    X : ndarray of shape (n_chains, n_variables)
        State codes of the chains.

    Raises
    ------
    ValueError
        If all chains are in states of probability zero.
    """
    n_impossible = np.count_nonzero(energy.log_potential(X) == -np.inf)
    if n_impossible and n_impossible == len(X):
        is_limited = remaining_time() < np.inf
        raise ValueError(
            f"None of {len(X)} Gibbs chains found a state of positive probability: "
            + "the time limit is too short, " * is_limited
            + "the evidence is impossible, or zero potentials separate the chains from such "
            "states. Use "
            + "a longer time_limit or " * is_limited
            + 'method="exact", or replace zero potentials by small positive ones.'
        )
    if n_impossible:
        warn_caller(
            f"{n_impossible} of {len(X)} Gibbs chains are in states of probability zero. Increase "
            'n_sweeps, use method="exact", or replace zero potentials by small positive ones.',
        )


def record_states(
    energy, rng, *, n_chains=256, n_sweeps=1000, n_records=50, n_jobs=None, until_converged=False
):
    """Record states of Gibbs chains, and estimate the standard error of marginal probabilities.

    The error is the largest standard error of a single marginal, estimated from the differences
    between the chains.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables.
    rng : Generator
        Source of randomness.
    n_chains : int, default=256
        Number of chains; at least 2.
    n_sweeps : int, default=1000
        Number of sweeps before the first record. From the first to the last record there are half
        as many.
    n_records : int, default=50
        Number of states recorded per chain.
    n_jobs : int, optional
        Number of threads over blocks of chains. Results do not depend on it.
    until_converged : bool, default=False
        Whether the chains continue until the error is below 0.01, or until the time limit. Each
        time, new states replace the first half of the records, and there are twice as many sweeps
        between records. Few records cannot have this error. Their chains continue until it is at
        most twice the largest error of as many independent states.

    Returns
    -------
    X : ndarray of shape (n_chains * n_records, n_variables)
        State codes.
    residual : float
        Largest standard error of a marginal probability.
    """
    check_number("n_chains", n_chains, low=2, integer=True)
    check_number("n_records", n_records, low=1, integer=True)
    X = draw(energy, n_chains, rng, n_sweeps=n_sweeps, n_jobs=n_jobs)
    generators = spawn_generators(rng, n_chains)
    records, between = [], max(1, n_sweeps // (2 * n_records))
    target = max(CONVERGED_ERROR, (n_chains * n_records) ** -0.5)
    while True:
        while not records or (len(records) < n_records and remaining_time() >= 0):
            X = sweep_in_time(energy, X, generators, np.ones(between + 1), n_jobs)
            records.append(X)
        residual = _largest_standard_error(energy, np.stack(records))
        if not until_converged or residual < target or remaining_time() < 0:
            return np.concatenate(records), residual
        records, between = records[(n_records + 1) // 2 :], 2 * between


def _largest_standard_error(energy, records):
    """Return the largest standard error of a single marginal, from differences between chains."""
    residual = 0.0
    for s in range(int(energy.visible_states.max(initial=0))):
        spread = (records == s).mean(axis=0).std(axis=0, ddof=1)
        residual = max(residual, float(spread.max()) / np.sqrt(records.shape[1]))
    return residual


def average_conditionals(energy, X, n_chains):
    """Average the probabilities of the states of each variable given the others, for each chain.

    These averages have smaller errors than the frequencies of the states (Rao-Blackwell). For a
    model whose chains use tables instead of a matrix of couplings, the frequencies are returned.

    Parameters
    ----------
    energy : FactorGraph
        Model.
    X : ndarray of shape (n_records * n_chains, n_variables)
        State codes of the chains, from :func:`record_states`.
    n_chains : int
        Number of chains.

    Returns
    -------
    ndarray of shape (n_chains, n_total_states)
        Probabilities of the states of all variables.
    """
    conditionals = energy.conditionals()
    records = X.reshape(len(X) // n_chains, n_chains, X.shape[1])
    return sum(_state_probabilities(energy, conditionals, x) for x in records) / len(records)


def _state_probabilities(energy, conditionals, X):
    """Return the probabilities of the states of each variable given the others, for each row."""
    owner, state = state_columns(energy.n_states)
    if isinstance(conditionals, BinaryConditionals):
        p = expit(X @ conditionals.coupling + conditionals.bias)[:, owner]
        return np.where(state == 1, p, 1.0 - p)
    indicators = (X[:, owner] == state).astype(float)
    if isinstance(conditionals, TableConditionals):
        return indicators
    start = np.flatnonzero(state == 0)
    scores = indicators @ conditionals.coupling[:, : len(owner)] + conditionals.bias
    p = np.exp(scores - np.maximum.reduceat(scores, start, axis=1)[:, owner])
    return p / np.add.reduceat(p, start, axis=1)[:, owner]


def anneal(energy, rng, *, n_chains=64, n_sweeps=500, n_jobs=None):
    """Search for the most probable state by simulated annealing.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables.
    rng : Generator
        Source of randomness.
    n_chains : int, default=64
        Number of chains.
    n_sweeps : int, default=500
        Number of sweeps of each chain.
    n_jobs : int, optional
        Number of threads over blocks of chains. Results do not depend on it.

    Returns
    -------
    x : ndarray of shape (n_variables,)
        State codes of the best state found.
    log_potential : float
        Log-potential of this state, in nats.

    References
    ----------
    S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, "Optimization by simulated annealing", Science 220
    (1983).
    """
    check_number("n_chains", n_chains, low=1, integer=True)
    check_number("n_sweeps", n_sweeps, low=1, integer=True)
    betas = np.append(np.geomspace(LOWEST_BETA, HIGHEST_BETA, n_sweeps), 1e6)
    X = Product.uniform(energy.visible_states).sample(n_chains, rng)
    generators = spawn_generators(rng, n_chains)
    X = sweep_in_time(energy, X, generators, betas[:-1], n_jobs)
    X, _ = sweep(energy, X, generators, betas=betas[-2:], n_jobs=n_jobs)
    values = energy.log_potential(X)
    best = int(np.argmax(values))
    return X[best], float(values[best])
