"""Learner that estimates the model expectation by tempered transitions."""

from dataclasses import replace

import numpy as np

from .._utils.parameters import check_choice, check_counts, check_number
from ..samplers import spawn_generators, sweep
from ..samplers.tempered_transitions import tempered_transition
from .base import REFERENCES
from .particles import ParticleLearner, Particles


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
