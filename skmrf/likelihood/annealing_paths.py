"""Annealing paths from a reference distribution or a tractable model to another model."""

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._utils.interrupts import check_time, limit_time, remaining_time
from ..energies import FactorGraph, PairwiseEnergy
from ..energies.conditionals import BinaryConditionals
from ..energies.layout import has_many_pairs
from ..energies.table_backed import MAX_DENSE_VARIABLES
from ..exact import elimination
from ..samplers import Product, spawn_generators, sweep
from ..samplers.gibbs import BLOCK, annealed_states
from ..samplers.gibbs_queries import pieces_in_time, sweep_between
from ..samplers.smc import Tempering, resample, run_smc
from ..samplers.windows import BlockPath
from .intervals import add_phases, interval, rounding_error, zero_probability_result

N_BURN_IN, N_BURN_IN_BLOCKS = 100, 20
FIRST_TEMPERATURES = 1000
N_SEARCH_CHAINS, N_SEARCH_SWEEPS, SEARCH_BETAS = 128, 300, (0.05, 4.0)  # of simulated annealing
FEWEST_CHAINS = 16  # in a short time
SHORT_SWEEP = 2e-3  # seconds; the start of a call takes a part of it
N_REFERENCE_SWEEPS, N_REFERENCE_CHAINS = 20, 1024
# Shares of the remaining time of reference distributions, of schedules, and of the search of modes.
REFERENCE_TIME, SCHEDULE_TIME, SEARCH_TIME = 0.1, 0.1, 0.25


def check_reference_model(reference, energy):
    """Raise a ValueError unless two models have the same parameters, in the same order."""
    if isinstance(reference, PairwiseEnergy):
        is_pairwise = isinstance(energy, PairwiseEnergy)
        shape = reference.n_variables, reference.states
        if not is_pairwise or shape != (energy.n_variables, energy.states):
            raise ValueError(
                "reference is a PairwiseEnergy, so the energy must be a PairwiseEnergy with the "
                "same number of variables and the same states."
            )
    elif not (isinstance(energy, FactorGraph) and _are_equal(reference.layout, energy.layout)):
        raise ValueError(
            "reference is a FactorGraph, so the energy must be a FactorGraph with the same numbers "
            "of states and the same cliques in the same order."
        )


def _are_equal(a, b):
    """Return True if two layouts have the same cliques, in the same order."""
    names = "n_states", "clique_ptr", "clique_vars", "table_start"
    return a is b or all(np.array_equal(getattr(a, k), getattr(b, k)) for k in names)


class AnnealingChains(NamedTuple):
    """Number of chains, threads that move them, their device, and seconds of a sweep of a chain.

    The seconds are 0 without a time limit.
    """

    n_chains: int
    n_jobs: int | None = None
    device: Any = None
    sweep_seconds: float = 0.0

    def spawn(self, rng):
        """Return random generators of the chains, or chains of the device."""
        return spawn_generators(rng, self.n_chains, self.device)

    def with_time(self, energy, rng):
        """Return the same chains with the seconds of a sweep, measured if there is a time limit."""
        if remaining_time() == np.inf:
            return self
        n_chains = BLOCK if self.device is None else self.n_chains
        X, seconds = Product.uniform(energy.visible_states).sample(n_chains, rng), 0.0
        for n_sweeps in (1, 1, 20):  # the first sweep can compile a function
            if n_sweeps > 1 and seconds > SHORT_SWEEP:
                break
            began = monotonic()
            np.asarray(sweep(energy, X, self.spawn(rng), n_sweeps=n_sweeps, n_jobs=self.n_jobs)[0])
            seconds = (monotonic() - began) / n_sweeps
        return self._replace(sweep_seconds=seconds / n_chains)

    def affordable_sweeps(self, share, n_chains):
        """Return how many sweeps of chains take a share of the remaining time."""
        if self.sweep_seconds == 0.0:
            return np.inf
        return max(share * remaining_time(), 0.0) / (n_chains * self.sweep_seconds)

    def fit_in_time(self, share, n_chains, n_sweeps):
        """Return smaller numbers of chains and of sweeps that take a share of the remaining time.

        On a device the number of chains does not change, because each number is compiled.
        """
        if self.device is None:
            n_affordable = self.affordable_sweeps(share, n_sweeps)  # chains with these sweeps
            n_chains = int(np.clip(n_affordable, min(FEWEST_CHAINS, n_chains), n_chains))
        return n_chains, int(np.clip(self.affordable_sweeps(share, n_chains), 1, n_sweeps))

    def find_modes(self, energy, rng):
        """Return the best states of simulated annealing, or None if all have the probability zero.

        They can be in a mode of the model that annealing to beta = 1 misses. The best state is the
        first.
        """
        # A device compiles a function for each number of chains.
        n_chains = N_SEARCH_CHAINS if self.device is None else self.n_chains
        n_chains, n_sweeps = self.fit_in_time(SEARCH_TIME, n_chains, N_SEARCH_SWEEPS)
        betas = np.geomspace(*SEARCH_BETAS, n_sweeps + 1)
        options = {"betas": betas, "n_jobs": self.n_jobs, "device": self.device}
        X = annealed_states(energy, n_chains, rng, **options)
        best = np.argsort(-energy.log_marginal(X), kind="stable")
        return X[best[: max(n_chains // 10, 1)]] if len(X) else None

    def fit_reference(self, energy, rng):
        """Return a reference: independent variables with approximately the model's marginals.

        There are many chains, because all variables can have errors of the same sign if they depend
        on the mode of a chain. Annealing could then miss a mode.
        """
        n_rounds, n_chains = 1, N_REFERENCE_CHAINS
        if self.device is not None:  # it compiles a function for each number of chains
            n_rounds, n_chains = -(-N_REFERENCE_CHAINS // self.n_chains), self.n_chains
        n_chains, n_sweeps = self.fit_in_time(REFERENCE_TIME, n_chains, N_REFERENCE_SWEEPS)
        ends, how = [], {"n_sweeps": n_sweeps, "n_jobs": self.n_jobs}
        for _ in range(n_rounds):
            X = Product.uniform(energy.visible_states).sample(n_chains, rng)
            generators = self._replace(n_chains=n_chains).spawn(rng)
            ends.append(sweep(energy, X, generators, **how)[0])
        return Product.from_counts(np.concatenate(ends), energy.visible_states)

    def choose_betas(self, energy, reference, schedule, rng):
        """Return the schedule of inverse temperatures between 0 (reference) and 1 (model).

        Unless the schedule is linear, all steps of the schedule are about equally difficult. It is
        linear if the chains that find an adaptive schedule take too much of the remaining time.
        """
        if schedule == "adaptive":
            X, path = reference.sample(self.n_chains, rng), Tempering(reference, energy)
            with limit_time(SCHEDULE_TIME * remaining_time()), suppress(TimeoutError):
                return np.array(run_smc(path, X, self.spawn(rng), rng).betas)
        return np.array([0.0, 1.0])


class Phase(NamedTuple):
    """Set of the states that are more probable under one product distribution than under another.

    Attributes
    ----------
    products : tuple of two Product
        Distributions of independent variables.
    index : int
        Index of the distribution whose states these are, 0 or 1.
    """

    products: tuple
    index: int

    def contains(self, X):
        """Return whether each row of states is in the set."""
        first, second = (p.log_probability(np.asarray(X)) for p in self.products)
        return (second > first) == bool(self.index)


@dataclass(frozen=True)
class AnnealingPath(ABC):
    r"""Annealing path :math:`f_0^{1-\beta} f^\beta` to a model.

    Attributes
    ----------
    energy : Energy
        Model :math:`f`.
    reference : Product, FactorGraph or BlockPath
        Distribution or model :math:`f_0`.
    start : ndarray of shape (n, n_visible) or None
        State codes at which a second set of reverse chains starts.
    chains : AnnealingChains
        Number of forward chains and of reverse chains, and their threads or device.
    first_temperatures : int
        Number of steps of the first path, before longer paths.
    schedule : ndarray
        Inverse temperatures at steps that are about equally difficult. By default the inverse
        temperatures are evenly spaced.
    crosses_zeros : bool
        Whether zero potentials have small positive values on the path.
    """

    energy: Any
    reference: Any
    start: np.ndarray | None
    chains: AnnealingChains
    first_temperatures: int = 100
    schedule: np.ndarray = (0.0, 1.0)
    crosses_zeros: ClassVar[bool] = False

    @property
    def n_chains(self):
        """Number of chains."""
        return self.chains.n_chains

    @property
    def work(self):
        """Updates of two-state variables in the move of a chain, approximately."""
        return self.energy.sweep_work

    def with_chains(self, n_chains):
        """Return the same path with another number of chains."""
        return replace(self, chains=self.chains._replace(n_chains=n_chains))

    def estimate(self, n_temperatures, max_width, rng, phase=None):
        """Estimate log Z and its interval from annealing chains with ``n_temperatures`` steps.

        With a :class:`Phase`, the sum is over its states only.
        """
        first, log_z = self.draw_reference(rng)
        unseen_margin = self.compute_unseen_margin(first)
        betas, generators = interpolate(self.schedule, n_temperatures), self.chains.spawn(rng)
        X, forward = self.anneal(first, betas, generators)
        rounding = rounding_error(self.chains.device, (self.reference, self.energy), (first, X))
        starts = [] if self.start is None else [self.start]
        stops_at_zeros = has_zeros(self.energy) and not self.crosses_zeros
        if phase is not None:
            if stops_at_zeros and (forward > -np.inf).all():  # zeros may have been missed
                stops_at_zeros, unseen_margin = False, np.inf
            forward = np.where(phase.contains(X), forward, -np.inf)
            starts = [rows[phase.contains(rows)] for rows in starts]
        if (forward == -np.inf).all():
            return zero_probability_result("ais")
        ends = [X[resample(forward, self.n_chains, rng)]]
        ends += [rows[rng.choice(len(rows), size=self.n_chains)] for rows in starts if len(rows)]
        n_burn_in = N_BURN_IN if remaining_time() == np.inf else min(n_temperatures, N_BURN_IN)
        results, how = [], {"has_zeros": stops_at_zeros, "rounding": rounding}
        how["unseen_margin"] = unseen_margin
        for end in ends:
            end = self.burn_in(end, generators, n_burn_in)
            _, backward = self.anneal(end, betas[::-1], generators, reverse=True)
            backward = backward if phase is None else backward[phase.contains(end)]
            if len(backward) > 1:
                weights = forward + log_z, backward - log_z
                results.append(interval(*weights, max_width, rng, "ais", **how))
        if not results:
            return zero_probability_result("ais")
        return max(results, key=lambda result: result.upper)

    def draw_ends(self, n_temperatures, rng):
        """Return the last states of forward chains, which are not weighted."""
        X, _ = self.draw_reference(rng)
        betas = interpolate(self.schedule, n_temperatures)
        return np.asarray(self.anneal(X, betas, self.chains.spawn(rng))[0])

    @abstractmethod
    def has_zero_potentials(self):
        """Return whether zero potentials of the model stop chains at the start of the path."""

    @abstractmethod
    def draw_reference(self, rng):
        """Return states of :math:`f_0`, and its log partition function."""

    def compute_unseen_margin(self, X):
        """Return minus the log-probability of the states that samples of a product contain.

        The margin is 0 for a reference that is not a product.
        """
        return 0.0

    def burn_in(self, X, generators, n_sweeps):
        """Move states of the model by Gibbs sweeps, before reverse annealing."""
        n_jobs = self.chains.n_jobs
        for piece in pieces_in_time(self.energy, len(X), np.ones(n_sweeps + 1)):
            check_time()
            X = sweep(self.energy, X, generators, betas=piece, n_jobs=n_jobs)[0]
        return X

    @abstractmethod
    def anneal(self, X, betas, generators, *, reverse=False):
        """Move chains along inverse temperatures, and return the states and the log weights.

        The rows of ``X`` are distributed as the model at the first inverse temperature.
        """


@dataclass(frozen=True)
class ProductPath(AnnealingPath):
    """Annealing path from independent variables to a model."""

    first_temperatures: int = FIRST_TEMPERATURES

    def has_zero_potentials(self):
        """Return whether states of probability zero are common in samples of the reference."""
        rng = np.random.default_rng(0)  # the method of "auto" does not depend on random_state
        X = self.reference.sample(self.n_chains, rng)
        return not self.energy.has_latent and bool((self.energy.log_potential(X) == -np.inf).any())

    def draw_reference(self, rng):
        """Return samples of the reference, and the logarithm of its total probability, 0."""
        return self.reference.sample(self.n_chains, rng), 0.0

    def compute_unseen_margin(self, X):
        """Return minus the log-probability of the states that samples of the reference contain."""
        log_p, start = self.reference.log_p, self.reference.start
        p = np.exp(log_p)
        p[np.unique(np.asarray(X) + start)] = 0.0
        return -float(np.log1p(-np.add.reduceat(p, start)).sum())

    def anneal(self, X, betas, generators, *, reverse=False):
        """Move chains along inverse temperatures, and return the states and the log weights."""
        how = {"reference": self.reference, "reverse": reverse, "n_jobs": self.chains.n_jobs}
        log_weights = 0.0
        for piece in pieces_in_time(self.energy, len(X), betas):
            check_time()
            X, changes = sweep(self.energy, X, generators, betas=piece, **how)
            log_weights = log_weights + changes
        return X, log_weights


@dataclass(frozen=True)
class ModelPath(AnnealingPath):
    """Annealing path from a model with the same cliques or the same two states.

    Without the zero tables or couplings of this model, exact elimination must be feasible.
    """

    def has_zero_potentials(self):
        """Return whether the model has zero potentials."""
        return has_zeros(self.energy)

    def draw_reference(self, rng):
        """Return states of the reference model, and its log partition function."""
        exact = self.reference.factor_graph().without_zero_tables()
        plan = elimination.prepare(exact.layout)
        log_z = float(elimination.log_partitions(plan, exact.flat)[0])
        return elimination.sample(plan, exact.flat, self.n_chains, rng), log_z

    def anneal(self, X, betas, generators, *, reverse=False):
        """Move chains along inverse temperatures, and return the states and the log weights."""
        ends, n_jobs = (self.reference, self.energy), self.chains.n_jobs
        if isinstance(generators, list) and not self._is_binary:

            def move(X, beta):
                return sweep(self._at(beta), X, generators, reverse=reverse, n_jobs=n_jobs)[0]

            return _anneal(X, betas, move, self._log_ratio(), reverse)
        log_weights = 0.0
        for piece in pieces_in_time(self.energy, len(X), betas):
            check_time()
            X, changes = sweep_between(*ends, piece, X, generators, reverse=reverse, n_jobs=n_jobs)
            log_weights = log_weights + changes
        return X, log_weights

    @property
    def _is_binary(self):
        """True if the two models are couplings and biases of two-state variables."""
        models = self.reference, self.energy
        return all(isinstance(m.conditionals(), BinaryConditionals) for m in models)

    def _log_ratio(self):
        """Return a function that computes the log ratio of the model and the reference model."""
        if not has_zeros(self.energy) and not has_zeros(self.reference):
            start = self.reference.theta
            difference = {k: v - start[k] for k, v in self.energy.theta.items()}
            return self.energy.with_theta(difference).log_potential
        return lambda X: self.energy.log_potential(X) - self.reference.log_potential(X)

    def _at(self, beta):
        """Return the model at an inverse temperature of the path."""
        if beta in (0.0, 1.0):  # 0 times the logarithm of a zero potential is nan
            return self.energy if beta else self.reference
        start = self.reference.theta
        theta = {k: (1.0 - beta) * start[k] + beta * v for k, v in self.energy.theta.items()}
        return self.energy.with_theta(theta)


@dataclass(frozen=True)
class BlockAnnealing(AnnealingPath):
    """Annealing path of a :class:`BlockPath`, which draws most variables of a chain together."""

    crosses_zeros: ClassVar[bool] = True

    @classmethod
    def pair(cls, energy, start, chains, rng):
        """Return two annealing paths that start at different tractable models."""
        made = []
        for path in BlockPath.pair(energy, rng, chains.n_jobs):
            X = path.draw(chains.n_chains, rng)
            pilot = run_smc(path, X, chains.spawn(rng), rng)
            made.append(cls(energy, path, start, chains, schedule=np.array(pilot.betas)))
        return made

    @property
    def work(self):
        """Table entries that the move of a chain visits."""
        return self.reference.work

    def has_zero_potentials(self):
        """Return False, because zero potentials have small positive values on the path."""
        return False

    def draw_reference(self, rng):
        """Return states of the tractable model, and its log partition function."""
        return self.reference.draw(self.n_chains, rng), self.reference.log_z

    def burn_in(self, X, generators, n_sweeps):
        """Move states of the model by block moves, before reverse annealing."""
        return self.reference.move(X, 1.0, generators, min(n_sweeps, N_BURN_IN_BLOCKS))

    def anneal(self, X, betas, generators, *, reverse=False):
        """Move chains along inverse temperatures, and return the states and the log weights."""
        path = self.reference

        def move(X, beta):
            return path.move(X, beta, generators, reverse=reverse)

        X, log_weights = _anneal(X, betas, move, path.log_ratio, reverse)
        if not reverse:
            log_weights[~path.is_possible(X)] = -np.inf
        return X, log_weights


def estimate_phases(paths, lengths, max_width, rng):
    """Estimate log Z from two annealing paths whose chains end in different phases of the model.

    Each path estimates the sum over the states that are more similar to its own last states than to
    those of the other path. Shorter runs of the paths draw these states.

    Parameters
    ----------
    paths : sequence of two AnnealingPath
        Paths to the same model.
    lengths : sequence of two int
        Numbers of temperatures.
    max_width : float
        Largest width of the interval, in nats, that counts as converged.
    rng : Generator
        Source of randomness.

    Returns
    -------
    LogPartition
        Estimate of log Z.
    """
    runs = list(zip(paths, lengths, strict=True))
    ends = [path.draw_ends(max(n // 4, 1), rng) for path, n in runs]
    products = tuple(Product.from_counts(X, paths[0].energy.visible_states) for X in ends)
    parts = [
        path.estimate(n, max_width, rng, Phase(products, k)) for k, (path, n) in enumerate(runs)
    ]
    return add_phases(parts)


def _anneal(X, betas, move, log_ratio, reverse):
    """Return the states and the log weights of chains that a function moves along a path."""
    log_weights = np.zeros(len(X))
    for k in range(len(betas) - 1):
        check_time()
        if reverse:
            X = move(X, betas[k])
        log_weights += (betas[k + 1] - betas[k]) * log_ratio(X)
        if not reverse:
            X = move(X, betas[k + 1])
    return X, log_weights


def interpolate(schedule, n_temperatures):
    """Return a schedule with another number of steps, by linear interpolation."""
    along = np.linspace(0.0, len(schedule) - 1.0, n_temperatures + 1)
    return np.interp(along, np.arange(len(schedule)), schedule)


def with_sparse_tables(energy, reference):
    """Return a large model with few couplings as tables, so that sweeps skip couplings of zero.

    The model is not changed if the reference is a :class:`PairwiseEnergy`, because both models of a
    path have the same class.
    """
    is_large = isinstance(energy, PairwiseEnergy) and energy.n_variables > MAX_DENSE_VARIABLES
    if not is_large or isinstance(reference, PairwiseEnergy):
        return energy
    n_pairs = np.count_nonzero(energy.coupling) // 2
    return energy if has_many_pairs(n_pairs, energy.n_variables) else energy.factor_graph()


def has_zeros(energy):
    """Return whether a potential of the model is zero."""
    return any(bool(np.isneginf(values).any()) for values in energy.theta.values())
