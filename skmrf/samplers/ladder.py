"""Parallel trajectory tempering: chains of models along training that swap states."""

from dataclasses import dataclass, replace

import numpy as np

from .._utils.codes import STATE
from .gibbs import spawn_generators
from .parallel_tempering import (
    NEITHER,
    Replicas,
    Rungs,
    density_ratios,
    exchange,
    swap_probability,
)

MIN_RATE = 0.15  # neighbours that swap less often get a rung between them
N_NEW_SWEEPS = 10  # of the chains of an inserted rung
MAX_INSERTED = 64
N_MOVES, MOVES_PER_RUNG = 50, 4  # between samples of the same chain
N_COUNTED = 200  # sweeps in which round trips are counted


@dataclass(frozen=True)
class Ladder:
    """Models between independent variables and a model, with Markov chains of each of them.

    The models are called rungs. Chain i of a rung swaps states with chain i of the neighbouring
    rungs only, so chains with different indices are independent.

    Attributes
    ----------
    rungs : Rungs
        Distributions from independent variables to the model.
    replicas : Replicas
        Chains of each rung.
    """

    rungs: Rungs
    replicas: Replicas

    @classmethod
    def start(cls, reference, energy, X, rng):
        """Create a ladder of three rungs: independent variables, and the same model twice.

        Parameters
        ----------
        reference : Product
            Distribution of independent variables.
        energy : DiscreteEnergy
            Model.
        X : ndarray of shape (n_chains, n_visible)
            State codes at which the chains of the model start.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        Ladder
            Ladder with three rungs. The last one may then get another model.
        """
        states = np.stack([reference.sample(len(X), rng), X, X])
        replicas = Replicas.at(np.arange(3.0), states, rng)
        return cls(Rungs(reference, (energy,) * 3, (0.0, 1.0, 1.0)), replicas)

    @property
    def energy(self):
        """Model of the last rung."""
        return self.rungs.energies[-1]

    @property
    def states(self):
        """Chains of each rung, shape (n_rungs, n_chains, n_visible)."""
        return self.replicas.X

    @property
    def n_rungs(self):
        """Number of rungs, with the independent variables."""
        return len(self.rungs.energies)

    @property
    def mean_swap_rate(self):
        """Mean over the pairs of neighbours of the running share of accepted swaps."""
        return float(1.0 - self.replicas.rejection_rates.mean())

    def __len__(self):
        """Return the number of rungs, with the independent variables."""
        return self.n_rungs

    def __repr__(self):
        """Return a summary with the numbers of rungs and of chains."""
        return f"Ladder(n_rungs={len(self)}, n_chains={self.states.shape[1]})"

    def with_last(self, energy, X):
        """Return the ladder with another model and other chains at the last rung.

        Parameters
        ----------
        energy : DiscreteEnergy
            Model.
        X : ndarray of shape (n_chains, n_visible)
            State codes of its chains.

        Returns
        -------
        Ladder
            Ladder with the other rungs unchanged.
        """
        rungs = self.rungs._replace(energies=(*self.rungs.energies[:-1], energy))
        states = np.concatenate([self.states[:-1], X[None]])
        return Ladder(rungs, replace(self.replicas, X=states))

    def advance(self, rng):
        """Run a Gibbs sweep at each rung, then propose swaps of half of the neighbouring rungs.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness of the swaps.

        Returns
        -------
        ladder : Ladder
            Ladder after the sweeps and swaps.
        info : dict
            Diagnostics; see ``skmrf.samplers.parallel_tempering.parallel_tempering``.
        """
        replicas, info = exchange(self.rungs, self.replicas, rng)
        return replace(self, replicas=replicas), info

    def swap_rate(self, low, high):
        """Return the mean probability of a swap between the chains of two rungs."""
        pair = [low, high]
        ratios = density_ratios(self.rungs, self.states[pair], pair)
        return float(swap_probability(ratios).mean())

    def insert(self, k, energy, beta, X, rng):
        """Return the ladder with a new rung.

        Parameters
        ----------
        k : int
            Index of the new rung, from 1 to the number of rungs minus 1.
        energy : Energy
            Model of the new rung.
        beta : float
            Inverse temperature of the new rung.
        X : ndarray of shape (n_chains, n_visible)
            State codes at which the chains of the new rung start.
        rng : numpy.random.Generator
            Generator from which the seeds of the new chains are drawn.

        Returns
        -------
        Ladder
            Ladder with one more rung.
        """
        rungs, old = self.rungs, self.replicas
        energies = (*rungs.energies[:k], energy, *rungs.energies[k:])
        betas = (*rungs.betas[:k], beta, *rungs.betas[k:])
        new = spawn_generators(rng, X.shape[0])
        replicas = replace(
            old,
            betas=np.arange(len(betas), dtype=float),
            X=np.insert(old.X, k, X, axis=0),
            generators=[*old.generators[:k], new, *old.generators[k:]],
            last_end=np.insert(old.last_end, k, NEITHER, axis=0),
            rejection_rates=np.insert(old.rejection_rates, k - 1, 0.5),
            swap_probabilities=np.full(len(betas) - 1, np.nan),
            log_ratios=np.full((len(betas) - 1, 2, X.shape[0]), np.nan),
        )
        return Ladder(Rungs(rungs.reference, energies, betas), replicas)

    def append(self, rng):
        """Return the ladder with a copy of the last rung, which may then get another model."""
        return self.insert(len(self) - 1, self.energy, 1.0, self.states[-1], rng)

    def drop(self, k):
        """Return the ladder without rung k, which is neither the first nor the last one."""
        rungs, old = self.rungs, self.replicas
        kept = [j for j in range(len(self)) if j != k]
        replicas = replace(
            old,
            betas=np.arange(len(kept), dtype=float),
            X=old.X[kept],
            generators=[old.generators[j] for j in kept],
            last_end=old.last_end[kept],
            rejection_rates=np.delete(old.rejection_rates, k),
            swap_probabilities=np.full(len(kept) - 1, np.nan),
            log_ratios=np.full((len(kept) - 1, 2, old.X.shape[1]), np.nan),
        )
        energies = tuple(rungs.energies[j] for j in kept)
        betas = tuple(rungs.betas[j] for j in kept)
        return Ladder(Rungs(rungs.reference, energies, betas), replicas)

    def drop_closest(self):
        """Return the ladder without the rung whose two neighbours swap states most often."""
        rates = [self.swap_rate(k - 1, k + 1) for k in range(1, len(self) - 1)]
        return self.drop(1 + int(np.argmax(rates)))

    def thin(self, target):
        """Return the ladder without rungs whose neighbours swap at least at a target rate."""
        ladder, k = self, 1
        while k < len(ladder) - 1:
            if ladder.swap_rate(k - 1, k + 1) >= target:
                ladder = ladder.drop(k)
            else:
                k += 1
        return ladder

    def fill(self, rng, *, min_rate=MIN_RATE, max_inserted=MAX_INSERTED):
        """Return the ladder with additional rungs where neighbours rarely swap states.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        min_rate : float
            Neighbours that swap less often get a rung between them.
        max_inserted : int
            Maximum number of additional rungs.

        Returns
        -------
        Ladder
            Ladder whose new chains start at states of the next rung, and are moved by 10 sweeps.
        """
        ladder, low, n_inserted = self, 0, 0
        while low < len(ladder) - 1 and n_inserted < max_inserted:
            if ladder.swap_rate(low, low + 1) >= min_rate:
                low += 1
                continue
            energy, beta = ladder.rungs.between(low)
            ladder = ladder.insert(low + 1, energy, beta, ladder.states[low + 1], rng)
            generators = ladder.replicas.generators[low + 1]
            X = ladder.states.copy()
            X[low + 1] = ladder.rungs.move(X[low + 1], low + 1, generators, N_NEW_SWEEPS)
            ladder = replace(ladder, replicas=replace(ladder.replicas, X=X))
            n_inserted += 1
        return ladder

    def compact(self):
        """Return the ladder with states of the smallest integer type and without generators."""
        largest = int(max(self.states.max(initial=0), 1))
        X = self.states.astype(np.min_scalar_type(largest))
        return replace(self, replicas=replace(self.replicas, X=X, generators=[]))

    def with_generators(self, rng):
        """Return the ladder with new random generators if it has none, else the same ladder."""
        if self.replicas.generators:
            return self
        generators = [spawn_generators(rng, self.states.shape[1]) for _ in range(len(self))]
        return replace(self, replicas=replace(self.replicas, generators=generators))

    def restart(self, rng, n_chains=None):
        """Return the ladder with new random generators and without records of its past.

        Parameters
        ----------
        rng : numpy.random.Generator
            Generator from which the seeds of the chains are drawn.
        n_chains : int, optional
            Number of chains per rung: at most that of the ladder, from which they are drawn at
            random. By default all chains.

        Returns
        -------
        Ladder
            Ladder that can be advanced.
        """
        n = self.states.shape[1]
        n_chains = n if n_chains is None else min(n, n_chains)
        columns = np.sort(rng.permutation(n)[:n_chains])
        X = self.states[:, columns].astype(STATE)
        return replace(self, replicas=Replicas.at(np.arange(len(self), dtype=float), X, rng))


def draw(ladder, n_samples, rng):
    """Draw samples of the last model of a ladder.

    Parameters
    ----------
    ladder : Ladder
        Ladder whose chains have mixed.
    n_samples : int
        Number of samples.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_samples, n_visible)
        States of the chains after 50 moves and 4 more per rung, and again after further moves if
        there are more samples than chains.
    """
    ladder, drawn = ladder.restart(rng, n_samples), []
    n_chains = ladder.states.shape[1]
    for _ in range(-(-n_samples // n_chains)):
        for _ in range(N_MOVES + MOVES_PER_RUNG * len(ladder)):
            ladder, _ = ladder.advance(rng)
        drawn.append(ladder.states[-1])
    return np.concatenate(drawn)[:n_samples]


def count_round_trips(ladder, rng):
    """Return the number of round trips along a ladder, per chain and 1000 sweeps.

    Parameters
    ----------
    ladder : Ladder
        Ladder whose chains have mixed.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    float
        Round trips in 200 sweeps of each chain.
    """
    ladder, trips = ladder.restart(rng), 0.0
    for _ in range(N_COUNTED):
        ladder, info = ladder.advance(rng)
        trips += info["round_trips"]
    return 1000.0 * trips / N_COUNTED
