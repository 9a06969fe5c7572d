"""Gibbs chains put to use: draws, averages and maximisers where exact inference does not fit."""

import numpy as np

from .gibbs import Product, spawn_generators, sweep

HOTTEST, COLDEST = 0.05, 12.0


def draw(energy, n_samples, rng, *, n_sweeps=1000, n_jobs=None):
    """States of ``n_samples`` independent Gibbs chains after a tempered start.

    Half of the sweeps raise the inverse temperature from 0 to 1, half are made at 1.
    """
    betas = np.minimum(np.linspace(0.0, 2.0, n_sweeps + 1), 1.0)
    X = Product.uniform(energy.n_states).sample(n_samples, rng)
    generators = spawn_generators(rng, n_samples)
    return sweep(energy, X, generators, betas=betas, n_jobs=n_jobs)[0]


def averages(energy, rng, *, n_chains=256, n_sweeps=1000, n_records=50, n_jobs=None):
    """States visited by Gibbs chains, shape (n_chains * n_records, n_variables), and a residual.

    The residual is the largest standard error of a single marginal, from the chains' own means.
    """
    X = draw(energy, n_chains, rng, n_sweeps=n_sweeps, n_jobs=n_jobs)
    generators = spawn_generators(rng, n_chains)
    records = []
    for _ in range(n_records):
        X, _ = sweep(energy, X, generators, n_sweeps=max(1, n_sweeps // (2 * n_records)))
        records.append(X)
    kept = np.stack(records)
    residual = 0.0
    for s in range(int(energy.n_states.max())):
        spread = (kept == s).mean(axis=0).std(axis=0, ddof=1)
        residual = max(residual, float(spread.max()) / np.sqrt(n_chains))
    return kept.reshape(-1, energy.n_variables), residual


def anneal(energy, rng, *, n_chains=64, n_sweeps=500, n_jobs=None):
    """The best state that simulated annealing finds, and its log-potential."""
    betas = np.append(np.geomspace(HOTTEST, COLDEST, n_sweeps), 1e6)
    X = Product.uniform(energy.n_states).sample(n_chains, rng)
    X, _ = sweep(energy, X, spawn_generators(rng, n_chains), betas=betas, n_jobs=n_jobs)
    values = energy.log_potential(X)
    best = int(np.argmax(values))
    return X[best], float(values[best])
