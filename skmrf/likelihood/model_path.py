"""Annealing path from a tractable model, such as a Chow-Liu tree, to another model."""

from typing import Any, NamedTuple

import numpy as np

from ..energies import FactorGraph
from ..exact import elimination
from ..samplers import spawn_generators, sweep
from ..samplers.gibbs import annealed_states
from ..samplers.layers import sweep_between
from ..samplers.smc import resample
from .intervals import interval, zero_probability_result

N_BURN_IN = 100
N_SEARCH_CHAINS, SEARCH_BETAS = 128, np.geomspace(0.05, 4.0, 301)  # of simulated annealing


def check_reference_model(reference, energy):
    """Raise a ValueError unless two factor graphs have the same cliques, in the same order."""
    if not (isinstance(energy, FactorGraph) and _are_equal(reference.layout, energy.layout)):
        raise ValueError(
            "reference is a FactorGraph, so the energy must be a FactorGraph with the same numbers "
            "of states and the same cliques in the same order."
        )


def _are_equal(a, b):
    """Return True if two layouts have the same cliques, in the same order."""
    names = "n_states", "clique_ptr", "clique_vars", "table_start"
    return a is b or all(np.array_equal(getattr(a, k), getattr(b, k)) for k in names)


class AnnealingChains(NamedTuple):
    """Number of chains, threads that move them, and their device."""

    n_chains: int
    n_jobs: int | None = None
    device: Any = None

    def spawn(self, rng):
        """Return random generators of the chains, or chains of the device."""
        return spawn_generators(rng, self.n_chains, self.device)

    def find_modes(self, energy, rng):
        """Return the best states of simulated annealing, or None if all have the probability zero.

        They can be in a mode of the model that annealing to beta = 1 misses.
        """
        # A device compiles a function for each number of chains.
        n_chains = N_SEARCH_CHAINS if self.device is None else self.n_chains
        options = {"betas": SEARCH_BETAS, "n_jobs": self.n_jobs, "device": self.device}
        X = annealed_states(energy, n_chains, rng, **options)
        best = np.argsort(-energy.log_marginal(X), kind="stable")
        return X[best[: max(n_chains // 10, 1)]] if len(X) else None


class ModelPath(NamedTuple):
    r"""Annealing path :math:`f_0^{1-\beta} f^\beta` from a reference model :math:`f_0` to a model.

    Attributes
    ----------
    energy : FactorGraph
        Model :math:`f`.
    reference : FactorGraph
        Model :math:`f_0` with the same cliques. Without its zero tables, exact elimination must be
        feasible.
    start : ndarray of shape (n, n_variables) or None
        State codes at which a second set of reverse chains starts.
    chains : AnnealingChains
        Number of forward chains and of reverse chains, and their threads or device.
    first_temperatures : int
        Number of steps of the first path, before longer paths.
    """

    energy: Any
    reference: Any
    start: np.ndarray | None
    chains: AnnealingChains
    first_temperatures: int = 100

    @property
    def n_chains(self):
        """Number of chains."""
        return self.chains.n_chains

    def with_chains(self, n_chains):
        """Return the same path with another number of chains."""
        return self._replace(chains=self.chains._replace(n_chains=n_chains))

    def has_zero_potentials(self):
        """Return whether the model has zero potentials."""
        return bool(np.isinf(self.energy.flat).any())

    def estimate(self, n_temperatures, max_width, rng):
        """Estimate log Z and its interval from annealing chains with ``n_temperatures`` steps.

        The inverse temperatures are evenly spaced.
        """
        exact = self.reference.without_zero_tables()
        plan = elimination.prepare(exact.layout)
        log_z = float(elimination.log_partitions(plan, exact.flat)[0])
        betas = np.linspace(0.0, 1.0, n_temperatures + 1)
        X = elimination.sample(plan, exact.flat, self.n_chains, rng)
        generators, n_jobs = self.chains.spawn(rng), self.chains.n_jobs
        X, forward = self._anneal(X, betas, generators)
        if (forward == -np.inf).all():
            return zero_probability_result("ais")
        ends = [X[resample(forward, self.n_chains, rng)]]
        if self.start is not None:
            ends.append(self.start[rng.choice(len(self.start), size=self.n_chains)])
        results = []
        for end in ends:
            end, _ = sweep(self.energy, end, generators, n_sweeps=N_BURN_IN, n_jobs=n_jobs)
            _, backward = self._anneal(end, betas[::-1], generators, reverse=True)
            results.append(interval(forward + log_z, backward - log_z, max_width, rng, "ais"))
        return max(results, key=lambda result: result.upper)

    def _anneal(self, X, betas, generators, *, reverse=False):
        """Move chains along inverse temperatures, and return the states and the log weights.

        The rows of ``X`` are distributed as the model at the first inverse temperature.
        """
        if not isinstance(generators, list):
            given = self.reference, self.energy, betas, X, generators
            return sweep_between(*given, reverse=reverse)
        log_weights = np.zeros(len(X))
        for k in range(len(betas) - 1):
            if reverse:
                X = self._sweep(X, betas[k], generators, reverse)
            ratio = self.energy.log_potential(X) - self.reference.log_potential(X)
            log_weights += (betas[k + 1] - betas[k]) * ratio
            if not reverse:
                X = self._sweep(X, betas[k + 1], generators, reverse)
        return X, log_weights

    def _sweep(self, X, beta, generators, reverse):
        n_jobs = self.chains.n_jobs
        return sweep(self._at(beta), X, generators, reverse=reverse, n_jobs=n_jobs)[0]

    def _at(self, beta):
        """Return the model at an inverse temperature of the path."""
        if beta in (0.0, 1.0):  # 0 times the logarithm of a zero potential is nan
            return self.energy if beta else self.reference
        start = self.reference.theta
        theta = {k: (1.0 - beta) * start[k] + beta * v for k, v in self.energy.theta.items()}
        return self.energy.with_theta(theta)
