"""Parallel tempering: the negative phase is the coldest of several chains that swap states."""

import numbers
from dataclasses import replace

import numpy as np

from .._utils.parameters import check_choice
from ..samplers import parallel_tempering
from ..samplers.parallel_tempering import Replicas, adapted, check_ladder
from .particle_options import REFERENCES, check_count
from .particles import ParticleLearner, Particles

ADAPT_EVERY = 100


class ParallelTempering(ParticleLearner):
    r"""Parallel tempering.

    Chains at every inverse temperature make a Gibbs sweep, then neighbours swap states; those at
    1 are the negative phase.

    Parameters
    ----------
    n_chains : int, default=100
        At every temperature.
    betas : int or array-like, default=10
        Inverse temperatures rising to 1, or how many, evenly spaced from 0 and then adapted.
    adapt : bool, default=True
        Every 100 steps, move the temperatures between the ends to where all neighbours would refuse
        swaps equally often. Given ``betas`` stay as they are.
    reference : {"marginals", "uniform"}, default="marginals"
        The distribution at 0, mixed in as :math:`p_0^{1-\beta}`: independent variables with the
        frequencies of the data, or plain tempering.

    References
    ----------
    G. Desjardins et al., "Tempered Markov chain Monte Carlo for training of restricted Boltzmann
    machines", AISTATS (2010).
    """

    def __init__(self, n_chains=100, betas=10, adapt=True, reference="marginals"):
        self.n_chains = n_chains
        self.betas = betas
        self.adapt = adapt
        self.reference = reference

    def check(self):
        check_count(self, "n_chains")
        check_choice("reference", self.reference, REFERENCES)
        self._ladder()

    def _ladder(self):
        if isinstance(self.betas, numbers.Integral):
            return check_ladder(np.linspace(0.0, 1.0, int(self.betas)))
        return check_ladder(self.betas)

    def start(self, energy, data, batch, rng):
        reference = data.reference(self.reference, energy, batch)
        betas = self._ladder()
        X = np.stack([data.draw_rows(batch, self.n_chains, rng) for _ in betas])
        replicas = Replicas.start(betas, X, rng)
        return Particles(data, reference, energy, X[-1], None, [], memory=(replicas, 0))

    def step(self, energy, batch, state, rng):
        positive = state.data(energy, batch)
        replicas, age = state.memory
        replicas, info = parallel_tempering(energy, state.reference, replicas, rng)
        age += 1
        moving = self.adapt and isinstance(self.betas, numbers.Integral)
        if moving and age % ADAPT_EVERY == 0:
            replicas = adapted(replicas)
        state = replace(state, energy=energy, X=replicas.X[-1], memory=(replicas, age))
        info["least_swap_rate"] = float(1.0 - replicas.refusals.max())
        return positive, state.phase, state, info
