"""Learner that estimates the model expectation by parallel trajectory tempering."""

from dataclasses import dataclass, replace
from typing import Any

from .._utils.parameters import check_counts, check_number
from .._utils.results import Latest
from ..energies.structured_protocols import HiddenLayerEnergy
from ..samplers import spawn_generators, sweep
from ..samplers.ladder import MIN_RATE, Ladder
from .particles import ParticleLearner, Particles
from .pcd import SWEEPS

N_CHAINS, LAYERED_CHAINS = 200, 500


@dataclass
class LadderChains(Particles):
    """State of parallel trajectory tempering.

    Attributes
    ----------
    rungs : Ladder
        Models of earlier training steps, from independent columns on, with their chains.
    age : int
        Number of training steps.
    """

    rungs: Any = None
    age: int = 0


class PTT(ParticleLearner):
    r"""Learner by parallel trajectory tempering: chains swap states with models of earlier steps.

    Models along training are kept as rungs of a ladder. The first rung is a model of independent
    columns. Its states are drawn anew each time. The last rung is the current model. Every few
    steps, Gibbs chains of all rungs make a sweep, and chains of neighbouring rungs swap their
    states. The chains of the last rung are the negative phase. Swaps bring them states from the
    first rung, so they can move between modes that Gibbs sweeps do not connect.

    Parameters
    ----------
    n_chains : int, optional
        Number of chains at each rung. By default 200, or 500 for models with a hidden layer.
    n_sweeps : int, optional
        Number of sweeps of the last rung in each step. By default 5, or 1 for models with a hidden
        layer, which draw a whole layer at a time.
    swap_every : int, default=5
        Number of steps between two moves of the whole ladder.
    target_swap_rate : float, default=0.3
        Smallest share of accepted swaps between the newest kept model and the current model, above
        0 and at most 0.9. When the share is smaller, the current model is kept as a new rung.
    max_rungs : int, default=50
        Maximum number of rungs, at least 3. When there are more, the rung is dropped whose
        neighbours swap states most often.

    References
    ----------
    N. Béreux, A. Decelle, C. Furtlehner, L. Rosset, B. Seoane, "Fast training and sampling of
    restricted Boltzmann machines", ICLR (2025).
    """

    def __init__(
        self, n_chains=None, n_sweeps=None, swap_every=5, target_swap_rate=0.3, max_rungs=50
    ):
        self.n_chains = n_chains
        self.n_sweeps = n_sweeps
        self.swap_every = swap_every
        self.target_swap_rate = target_swap_rate
        self.max_rungs = max_rungs

    def check(self):
        """Raise a ValueError if a parameter is invalid."""
        check_counts(self, "swap_every", optional=("n_chains", "n_sweeps"))
        check_number("max_rungs", self.max_rungs, low=3, integer=True)
        check_number("target_swap_rate", self.target_swap_rate, low=1e-3, high=0.9)

    def start(self, energy, data, batch, rng):
        """Return a ladder from independent columns to a model, with Gibbs chains."""
        n_chains = self.n_chains
        if n_chains is None:
            n_chains = LAYERED_CHAINS if isinstance(energy, HiddenLayerEnergy) else N_CHAINS
        X = data.draw_rows(batch, n_chains, rng)
        reference = data.reference("marginals", energy, batch)
        ladder = Ladder.start(reference, energy, X, rng)
        generators = spawn_generators(rng, n_chains)
        return LadderChains(data, reference, energy, X, None, generators, rungs=ladder)

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from a ladder."""
        positive = state.data(energy, batch)
        ladder, age = state.rungs, state.age
        X, _ = sweep(energy, state.X, state.generators, n_sweeps=self._n_sweeps(energy))
        if (age + 1) % self.swap_every == 0:
            ladder = self._extend(ladder.with_last(energy, X), rng)
            ladder, _ = ladder.advance(rng)
            X = ladder.states[-1]
        info = {
            "flip_rate": float((X != state.X).mean()),
            "swap_rate": float(1.0 - ladder.replicas.rejection_rates.mean()),
            "n_rungs": Latest(len(ladder)),
        }
        after = replace(state, energy=energy, X=X, rungs=ladder, age=age + 1)
        return positive, after.phase, after, info

    def ladder(self, state):
        """Return the ladder from independent columns to the last model."""
        return state.rungs.with_last(state.energy, state.X)

    def _n_sweeps(self, energy):
        return self.n_sweeps or (1 if isinstance(energy, HiddenLayerEnergy) else SWEEPS)

    def _extend(self, ladder, rng):
        """Keep the current model as a rung if it rarely swaps states with the rung before it."""
        last = len(ladder) - 1
        rate = ladder.swap_rate(last - 1, last)
        if rate >= self.target_swap_rate:
            return ladder
        if rate < MIN_RATE:
            ladder = ladder.fill(rng, max_inserted=self.max_rungs)
        ladder = ladder.append(rng)
        while len(ladder) > self.max_rungs:
            ladder = ladder.drop_closest()
        return ladder
