"""Learner that estimates the model expectation by parallel trajectory tempering."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._utils.namespaces import is_numpy, namespace
from .._utils.parameters import check_counts, check_number
from .._utils.results import Latest
from ..energies.structured_protocols import HiddenLayerEnergy
from ..samplers import spawn_generators, sweep
from ..samplers.ladder import MIN_RATE, N_NEW_SWEEPS, Ladder
from ..samplers.parallel_tempering import MEMORY, NEITHER, Replicas, Rungs, swap_probability
from ..samplers.smc import Tempering
from .particles import ParticleLearner, Particles, flip_rate
from .pcd import SWEEPS

N_CHAINS, LAYERED_CHAINS = 200, 500


@dataclass
class LadderChains(Particles):
    """State of parallel trajectory tempering.

    Attributes
    ----------
    ladder : Ladder or PaddedLadder
        Models of earlier training steps, from independent columns on, with their chains. On a
        device of JAX, it is a ``PaddedLadder``.
    age : int
        Number of training steps.
    """

    ladder: Any = None
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
        neighbours swap states most often. On a device of JAX, training needs memory for this
        number of models and their chains, also if there are fewer rungs.

    References
    ----------
    N. Béreux, A. Decelle, C. Furtlehner, L. Rosset, B. Seoane, "Fast training and sampling of
    restricted Boltzmann machines", ICLR (2025).
    """

    is_pure = True

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
        return LadderChains(data, reference, energy, X, None, generators, ladder=ladder)

    def resume(self, energy, batch, state, rng):
        """Return the state for new rows with the old ladder, unless the learner has changed."""
        state = super().resume(energy, batch, state, rng)
        return replace(state, ladder=state.ladder.with_generators(rng))

    def pad(self, state):
        """Return the state with a ladder in arrays of fixed sizes."""
        return replace(state, ladder=PaddedLadder.pad(state.ladder, self.max_rungs + 1))

    def unpad(self, state):
        """Return the state with the ladder of a state from :meth:`pad`."""
        path = Tempering(state.reference, state.energy)
        return replace(state, ladder=state.ladder.unpad(path))

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from a ladder."""
        positive = state.data(energy, batch)
        age = state.age + 1
        X, _ = sweep(energy, state.X, state.generators, n_sweeps=self._n_sweeps(energy))
        move = self._move if is_numpy(X) else self._move_on_device
        ladder, X = move(replace(state, energy=energy, X=X), age % self.swap_every == 0, rng)
        info = {
            "flip_rate": flip_rate(state.X, X),
            "swap_rate": ladder.mean_swap_rate,
            "n_rungs": Latest.of(ladder.n_rungs),
        }
        after = replace(state, energy=energy, X=X, ladder=ladder, age=age)
        return positive, after.phase, after, info

    def _move(self, state, is_due, rng):
        """Return the ladder and the chains of its last rung, after a move of the ladder if due."""
        if not is_due:
            return state.ladder, state.X
        ladder = self._extend(self.ladder(state), rng)
        ladder, _ = ladder.advance(rng)
        return ladder, ladder.states[-1]

    def _move_on_device(self, state, is_due, chains):
        """Return the result of :meth:`_move` on a device of JAX."""
        path = Tempering(state.reference, state.energy)

        def extend(ladder, chains, rate):
            ladder = chains.run_if(rate < MIN_RATE, fill, ladder).append()
            return chains.run_if(ladder.n_rungs > self.max_rungs, drop, ladder)

        def fill(ladder, chains):
            return ladder.fill(path, chains, max_inserted=self.max_rungs)

        def drop(ladder, chains):
            return ladder.drop(ladder.closest(path, chains))

        def move(given, chains):
            ladder, X = given
            ladder = ladder.with_last(state.energy, X)
            last = ladder.n_rungs - 1
            rate = ladder.swap_rate(path, last - 1, last)
            is_rare = rate < self.target_swap_rate
            ladder = chains.run_if(is_rare, partial(extend, rate=rate), ladder)
            ladder = ladder.advance(path, chains)
            return ladder, ladder.states

        with chains.full_precision():  # rounded densities would be those of another model
            return chains.run_if(is_due, move, (state.ladder, state.X))

    def ladder(self, state):
        """Return the ladder from independent columns to the last model."""
        return state.ladder.with_last(state.energy, state.X)

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


class PaddedLadder(NamedTuple):
    """Ladder in arrays of fixed sizes, for a function that JAX compiles.

    The rungs are the first ``n_rungs`` entries of the arrays. The other entries have no effect.
    Methods with the parameter ``path`` need a :class:`~skmrf.samplers.smc.Tempering` of the
    reference and of any model of the kind of the rungs.

    Parameters
    ----------
    theta : dict of str to array
        Parameters of the models, each of shape (capacity, ...).
    betas : array of shape (capacity,)
        Inverse temperatures.
    X : array of shape (capacity, n_chains, n_visible)
        State codes of the chains.
    rejection_rates : array of shape (capacity,)
        Running mean of the rejection rate of swaps between each rung and the next one.
    n_rungs : int
        Number of rungs, at most ``capacity``.
    parity : int
        0 if the even pairs try the next swaps, 1 if the odd ones do.
    """

    theta: dict
    betas: np.ndarray
    X: np.ndarray
    rejection_rates: np.ndarray
    n_rungs: int
    parity: int

    @classmethod
    def pad(cls, ladder, capacity):
        """Return a ladder in arrays of ``capacity`` rungs."""
        energies, replicas = ladder.rungs.energies, ladder.replicas

        def padded(values):
            values = np.asarray(values)
            out = np.zeros((capacity, *values.shape[1:]), dtype=values.dtype)
            out[: len(values)] = values
            return out

        theta = {k: padded([e.theta[k] for e in energies]) for k in ladder.energy.theta}
        arrays = map(padded, (ladder.rungs.betas, ladder.states, replicas.rejection_rates))
        return cls(theta, *arrays, len(ladder), replicas.parity)

    def unpad(self, path):
        """Return the ladder without generators and without records of its past."""
        n = self.n_rungs
        theta = [{k: v[i].copy() for k, v in self.theta.items()} for i in range(n)]
        rungs = Rungs(
            path.reference,
            tuple(map(path.energy.with_theta, theta)),
            tuple(self.betas[:n].tolist()),
        )
        replicas = Replicas(
            betas=np.arange(n, dtype=float),
            X=self.X[:n].copy(),
            generators=[],
            last_end=np.full(self.X[:n].shape[:2], NEITHER),
            rejection_rates=self.rejection_rates[: n - 1].copy(),
            swap_probabilities=np.full(n - 1, np.nan),
            log_ratios=np.full((n - 1, 2, self.X.shape[1]), np.nan),
            parity=self.parity,
        )
        return Ladder(rungs, replicas)

    @property
    def chain_axes(self):
        """Axis of the chains, from the end, of each array that has chains."""
        return {"X": -2}

    @property
    def states(self):
        """Chains of the last rung, shape (n_chains, n_visible)."""
        return self.X[self.n_rungs - 1]

    @property
    def mean_swap_rate(self):
        """Mean over the pairs of neighbours of the running share of accepted swaps."""
        n_pairs = self.n_rungs - 1
        is_pair = namespace(self.X).arange(len(self.betas)) < n_pairs
        return 1.0 - (self.rejection_rates * is_pair).sum() / n_pairs

    def _rung(self, path, k):
        theta = {name: values[k] for name, values in self.theta.items()}
        return path._replace(energy=path.energy.with_theta(theta)), self.betas[k]

    def with_last(self, energy, X):
        """Return the ladder with another model and other chains at the last rung."""
        last = self.n_rungs - 1
        theta = {k: v.at[last].set(energy.theta[k]) for k, v in self.theta.items()}
        return self._replace(theta=theta, X=self.X.at[last].set(X))

    def log_ratios(self, path, low, high):
        """Return the result of ``density_ratios`` for the chains of two rungs."""
        xp, n_visible = namespace(self.X), self.X.shape[-1]
        rows = self.X[xp.stack([low, high])].reshape(-1, n_visible)
        rungs = (self._rung(path, k) for k in (low, high))
        below, above = (rung.log_density(rows)(beta) for rung, beta in rungs)
        return (above - below).reshape(2, -1)

    def swap_rate(self, path, low, high):
        """Return the mean probability of a swap between the chains of two rungs."""
        return swap_probability(self.log_ratios(path, low, high)).mean()

    def advance(self, path, chains):
        """Run a Gibbs sweep at each rung, then propose swaps of half of the neighbouring rungs."""
        xp = namespace(self.X)

        def sweep_rung(carry, chains):
            k, X = carry
            rung, beta = self._rung(path, k)
            return k + 1, X.at[k].set(rung.move(X[k], beta, chains, 1).astype(X.dtype))

        def swap_pair(carry, chains):
            low, X, rates = carry
            probability = swap_probability(self._replace(X=X).log_ratios(path, low, low + 1))
            swapped = (chains.random(len(probability)) < probability)[:, None]
            first, second = X[low], X[low + 1]
            X = X.at[low].set(xp.where(swapped, second, first))
            X = X.at[low + 1].set(xp.where(swapped, first, second))
            change = (1.0 - MEMORY) * (1.0 - probability.mean() - rates[low])
            return low + 2, X, rates.at[low].add(change)

        first = 0, self.X
        _, X = chains.run_while(lambda carry: carry[0] < self.n_rungs, sweep_rung, first)
        first = self.parity, X, self.rejection_rates
        _, X, rates = chains.run_while(lambda c: c[0] + 1 < self.n_rungs, swap_pair, first)
        return self._replace(X=X, rejection_rates=rates, parity=1 - self.parity)

    def _take(self, source, n_rungs):
        """Return the ladder with the rungs of the given indices, and a new number of rungs."""
        theta = {name: v[source] for name, v in self.theta.items()}
        arrays = (v[source] for v in (self.betas, self.X, self.rejection_rates))
        return PaddedLadder(theta, *arrays, n_rungs, self.parity)

    def insert(self, k, theta, beta, X):
        """Return the ladder with a new rung k, if there are fewer rungs than ``capacity``."""
        index = namespace(self.X).arange(len(self.betas))
        ladder = self._take(index - (index >= k), self.n_rungs + 1)
        return ladder._replace(
            theta={name: v.at[k].set(theta[name]) for name, v in ladder.theta.items()},
            betas=ladder.betas.at[k].set(beta),
            X=ladder.X.at[k].set(X),
            rejection_rates=ladder.rejection_rates.at[k - 1].set(0.5),
        )

    def append(self):
        """Return the ladder with a copy of the last rung, which may then get another model."""
        last = self.n_rungs - 1
        return self.insert(last, {k: v[last] for k, v in self.theta.items()}, 1.0, self.X[last])

    def drop(self, k):
        """Return the ladder without rung k, which is neither the first nor the last one."""
        xp, capacity = namespace(self.X), len(self.betas)
        index = xp.arange(capacity)
        source = xp.minimum(index + (index >= k), capacity - 1)
        return self._take(source, self.n_rungs - 1)

    def closest(self, path, chains):
        """Return the index of the rung whose two neighbours swap states most often."""
        xp = namespace(self.X)

        def compare(carry, _):
            k, best, largest = carry
            rate = self.swap_rate(path, k - 1, k + 1)
            return k + 1, xp.where(rate > largest, k, best), xp.maximum(rate, largest)

        first = 1, 1, -1.0
        return chains.run_while(lambda c: c[0] < self.n_rungs - 1, compare, first)[1]

    def fill(self, path, chains, *, max_inserted):
        """Return the ladder with additional rungs where neighbours rarely swap states.

        See :meth:`Ladder.fill`. One entry of the arrays stays free. If no other entry is free,
        the rung whose neighbours swap states most often is dropped before an insertion.
        """
        xp, limit = namespace(self.X), len(self.betas) - 1

        def insert(carry, chains):
            low, n_inserted, ladder = carry
            beta = 0.5 * (ladder.betas[low] + ladder.betas[low + 1])
            (first, _), (second, _) = (ladder._rung(path, k) for k in (low, low + 1))
            share = xp.where(beta == 1.0, 0.5, 1.0)  # at other temperatures, the model of the next
            rung = path._replace(energy=first.energy.interpolate(second.energy, share))
            X = rung.move(ladder.X[low + 1], beta, chains, N_NEW_SWEEPS)
            return low, n_inserted + 1, ladder.insert(low + 1, rung.energy.theta, beta, X)

        def drop(carry, chains):
            low, n_inserted, ladder = carry
            k = ladder.closest(path, chains)
            return low - (k <= low), n_inserted, ladder.drop(k)

        def visit(carry, chains):
            low, _, ladder = carry
            is_gap = ladder.swap_rate(path, low, low + 1) < MIN_RATE
            is_full = ladder.n_rungs >= limit
            carry = chains.run_if(is_gap & is_full, drop, carry)
            low, *others = chains.run_if(is_gap & ~is_full, insert, carry)
            return low + ~is_gap, *others

        def goes_on(carry):
            return (carry[0] < carry[2].n_rungs - 1) & (carry[1] < max_inserted)

        return chains.run_while(goes_on, visit, (0, 0, self))[2]
