"""Learners with tempered Markov chains: parallel tempering and tempered transitions."""

import numbers
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._utils.parameters import check_choice, check_counts, check_flag, check_number
from ..samplers import spawn_generators, sweep
from ..samplers.parallel_tempering import (
    Replicas,
    adapt_ladder,
    check_ladder,
    parallel_tempering,
    tempered_transition,
)
from .base import REFERENCES
from .particles import ParticleLearner, Particles

STEPS_PER_ADAPTATION = 100


@dataclass
class TemperedChains(Particles):
    """State of parallel tempering.

    Attributes
    ----------
    replicas : Replicas
        Chains at all temperatures.
    age : int
        Number of training steps.
    """

    replicas: Any = None
    age: int = 0


class ParallelTempering(ParticleLearner):
    r"""Learner by parallel tempering: chains at several temperatures swap their states.

    In each step, the chains at all inverse temperatures make a Gibbs sweep, and then chains at
    neighbouring temperatures swap their states. The chains at inverse temperature 1 are the
    negative phase.

    Parameters
    ----------
    n_chains : int, default=100
        Number of chains at each temperature.
    betas : int or array-like, default=10
        Increasing inverse temperatures that end with 1; or their number, at least 2. A
        number means evenly spaced values from 0 to 1, which are then adapted.
    adapt : bool, default=True
        Whether to adapt the temperatures every 100 steps so that all neighbours reject swaps
        equally often. The first and the last stay fixed. An array ``betas`` is never adapted.
    reference : {"marginals", "uniform"}, default="marginals"
        Distribution :math:`p_0` at inverse temperature 0; chains at :math:`\beta` target
        :math:`p_0^{1-\beta} f^\beta`. "marginals" is a product of the state frequencies of the
        data, "uniform" the uniform distribution (plain tempering).

    References
    ----------
    G. Desjardins et al., "Tempered Markov chain Monte Carlo for training of restricted Boltzmann
    machines", AISTATS (2010).
    """

    is_pure = True

    def __init__(self, n_chains=100, betas=10, adapt=True, reference="marginals"):
        self.n_chains = n_chains
        self.betas = betas
        self.adapt = adapt
        self.reference = reference

    def check(self):
        """Raise a ValueError if a parameter is invalid."""
        check_counts(self, "n_chains")
        check_flag("adapt", self.adapt)
        check_choice("reference", self.reference, REFERENCES)
        self._inverse_temperatures()

    def _inverse_temperatures(self):
        if isinstance(self.betas, numbers.Integral):
            check_number("betas", self.betas, low=2, integer=True)
            return check_ladder(np.linspace(0.0, 1.0, int(self.betas)))
        return check_ladder(self.betas)

    def start(self, energy, data, batch, rng):
        """Return Gibbs chains at all temperatures; each chain starts at a training row."""
        reference = data.reference(self.reference, energy, batch)
        betas = self._inverse_temperatures()
        X = np.stack([data.draw_rows(batch, self.n_chains, rng) for _ in betas])
        replicas = Replicas.start(betas, X, rng)
        return TemperedChains(data, reference, energy, X[-1], None, [], replicas=replicas)

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from tempered chains."""
        positive = state.data(energy, batch)
        replicas, info = parallel_tempering(energy, state.reference, state.replicas, rng)
        age = state.age + 1
        is_adaptive = self.adapt and isinstance(self.betas, numbers.Integral)
        if is_adaptive:
            replicas = adapt_ladder(replicas, age % STEPS_PER_ADAPTATION == 0)
        state = replace(state, energy=energy, X=replicas.X[-1], replicas=replicas, age=age)
        info["least_swap_rate"] = 1.0 - replicas.rejection_rates.max()
        return positive, state.phase, state, info


class TemperedTransitions(ParticleLearner):
    r"""Learner with persistent Gibbs chains that move by tempered transitions.

    The negative phase consists of the current states of chains. In each step, each chain makes one
    Gibbs sweep and one tempered transition.

    Parameters
    ----------
    n_chains : int, default=100
        Number of chains.
    n_temperatures : int, default=10
        Number of inverse temperatures below 1. They are evenly spaced, and the last is ``hottest``.
    hottest : float, default=0.9
        Smallest inverse temperature, from 0 to 1.
    reference : {"uniform", "marginals"}, default="uniform"
        Distribution :math:`p_0` of the tempered distributions :math:`p_0^{1-\beta} f^\beta`:
        "uniform" is plain tempering, "marginals" a product of the state frequencies of the data.

    References
    ----------
    Salakhutdinov, R., "Learning in Markov random fields using tempered transitions", NIPS (2009).
    """

    is_pure = True

    def __init__(self, n_chains=100, n_temperatures=10, hottest=0.9, reference="uniform"):
        self.n_chains = n_chains
        self.n_temperatures = n_temperatures
        self.hottest = hottest
        self.reference = reference

    def check(self):
        """Raise a ValueError if a parameter is invalid."""
        check_counts(self, "n_chains", "n_temperatures")
        check_number("hottest", self.hottest, low=0, high=1)
        check_choice("reference", self.reference, REFERENCES)

    def start(self, energy, data, batch, rng):
        """Return Gibbs chains that start at training rows."""
        X = data.draw_rows(batch, self.n_chains, rng)
        reference = data.reference(self.reference, energy, batch)
        return Particles(data, reference, energy, X, None, spawn_generators(rng, self.n_chains))

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from chains."""
        positive = state.data(energy, batch)
        betas = np.linspace(1.0, self.hottest, self.n_temperatures + 1)
        X, _ = sweep(energy, state.X, state.generators)
        X, accepted = tempered_transition(energy, X, state.generators, rng, betas, state.reference)
        state = replace(state, energy=energy, X=X)
        return positive, state.phase, state, {"acceptance": accepted.mean()}
