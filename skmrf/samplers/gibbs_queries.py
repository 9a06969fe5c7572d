"""Gibbs chains put to use: draws, averages and maximisers where exact inference does not fit."""

import numpy as np

from .._utils.codes import MISSING
from .._utils.parameters import check_number
from .._utils.warn import warn_caller
from .gibbs import Product, spawn_generators, sweep

HOTTEST, COLDEST = 0.05, 12.0


def draw(energy, n_samples, rng, *, n_sweeps=1000, n_jobs=None):
    """States of ``n_samples`` independent Gibbs chains after a tempered start.

    Half of the sweeps raise the inverse temperature from 0 to 1, half are made at 1.

    Parameters
    ----------
    energy : Energy
    n_samples : int
    rng : Generator
    n_sweeps : int, default=1000
    n_jobs : int, optional
        Threads over blocks of chains; results do not depend on it.

    Returns
    -------
    ndarray of shape (n_samples, n_variables)
        State codes.

    Raises
    ------
    ValueError
        When all chains end in states of probability zero.
    """
    check_number("n_sweeps", n_sweeps, low=1, integer=True)
    betas = np.minimum(np.linspace(0.0, 2.0, n_sweeps + 1), 1.0)
    X = Product.uniform(energy.visible_states).sample(n_samples, rng)
    generators = spawn_generators(rng, n_samples)
    X, _ = sweep(energy, X, generators, betas=betas, n_jobs=n_jobs)
    check_possible(energy, X)
    return X


def draw_given(energy, X, rng, *, n_sweeps=1000, n_jobs=None):
    """Rows with their missing entries drawn given the others, each by a chain as in :func:`draw`.

    Parameters
    ----------
    energy : Energy
    X : ndarray of shape (n_rows, n_visible)
        State codes, MISSING where to draw.
    rng : numpy.random.Generator
    n_sweeps : int, default=1000
    n_jobs : int, optional

    Returns
    -------
    ndarray of shape (n_rows, n_visible)
    """
    observed = X != MISSING
    start = Product.uniform(energy.visible_states).sample(len(X), rng)
    start[observed] = X[observed]
    betas = np.minimum(np.linspace(0.0, 2.0, n_sweeps + 1), 1.0)
    generators = spawn_generators(rng, len(X))
    moved, _ = sweep(energy, start, generators, betas=betas, clamped=observed, n_jobs=n_jobs)
    return moved


def check_possible(energy, X):
    """Refuse chains that all are in states of probability zero; warn about some.

    Parameters
    ----------
    energy : Energy
    X : ndarray of shape (n_chains, n_variables)
        Where the chains stand.

    Raises
    ------
    ValueError
        When all of them are.
    """
    lost = np.count_nonzero(energy.log_potential(X) == -np.inf)
    if lost and lost == len(X):
        raise ValueError(
            f"None of {len(X)} Gibbs chains found a state of positive probability: the evidence is "
            'impossible, or zero potentials hide such states. Use method="exact", or replace zero '
            "potentials by small ones."
        )
    if lost:
        warn_caller(
            f"{lost} of {len(X)} Gibbs chains are in states of probability zero; give more "
            'n_sweeps, use method="exact" or replace zero potentials by small ones.',
        )


def averages(energy, rng, *, n_chains=256, n_sweeps=1000, n_records=50, n_jobs=None):
    """States visited by Gibbs chains, shape (n_chains * n_records, n_variables), and a residual.

    The residual is the largest standard error of a single marginal, from the chains' own means.

    Parameters
    ----------
    energy : Energy
    rng : Generator
    n_chains : int, default=256
    n_sweeps : int, default=1000
        Before the first record, and half as many from the first to the last.
    n_records : int, default=50
        States kept of every chain.
    n_jobs : int, optional
        Threads over blocks of chains; results do not depend on it.

    Returns
    -------
    X : ndarray of shape (n_chains * n_records, n_variables)
    residual : float
    """
    check_number("n_chains", n_chains, low=2, integer=True)
    check_number("n_records", n_records, low=1, integer=True)
    X = draw(energy, n_chains, rng, n_sweeps=n_sweeps, n_jobs=n_jobs)
    generators = spawn_generators(rng, n_chains)
    records = []
    for _ in range(n_records):
        between = max(1, n_sweeps // (2 * n_records))
        X, _ = sweep(energy, X, generators, n_sweeps=between, n_jobs=n_jobs)
        records.append(X)
    kept = np.stack(records)
    residual = 0.0
    for s in range(int(energy.visible_states.max(initial=0))):
        spread = (kept == s).mean(axis=0).std(axis=0, ddof=1)
        residual = max(residual, float(spread.max()) / np.sqrt(n_chains))
    return np.concatenate(records), residual


def anneal(energy, rng, *, n_chains=64, n_sweeps=500, n_jobs=None):
    """The best state that simulated annealing finds, and its log-potential.

    Parameters
    ----------
    energy : Energy
    rng : Generator
    n_chains : int, default=64
    n_sweeps : int, default=500
    n_jobs : int, optional
        Threads over blocks of chains; results do not depend on it.

    Returns
    -------
    x : ndarray of shape (n_variables,)
        State codes.
    log_potential : float
        In nats.

    References
    ----------
    S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, "Optimization by simulated annealing", Science 220
    (1983).
    """
    check_number("n_chains", n_chains, low=1, integer=True)
    check_number("n_sweeps", n_sweeps, low=1, integer=True)
    betas = np.append(np.geomspace(HOTTEST, COLDEST, n_sweeps), 1e6)
    X = Product.uniform(energy.visible_states).sample(n_chains, rng)
    X, _ = sweep(energy, X, spawn_generators(rng, n_chains), betas=betas, n_jobs=n_jobs)
    values = energy.log_potential(X)
    best = int(np.argmax(values))
    return X[best], float(values[best])
