"""Contrastive divergence, and the perceptron loss by contrastive divergence (CD-PercLoss)."""

from dataclasses import dataclass

from .._utils.codes import STATE
from .._utils.namespaces import namespace
from .._utils.parameters import check_choice, check_number
from .._utils.phases import States
from ..energies import GibbsEnergy
from ..samplers import Product, spawn_generators, sweep
from ..samplers.gibbs import BLOCK
from ..variational.bipartite import unit_probabilities
from .base import DataPhase, draw_states
from .conditional import MeanFieldPrediction, condition_on_batch


@dataclass
class CDState:
    """State of the learner CD: positive phase, and a random generator for each block of chains."""

    data: DataPhase
    generators: list


class CD(MeanFieldPrediction):
    r"""Contrastive divergence.

    The negative phase consists of the states of Gibbs chains after ``n_sweeps`` sweeps. Each row of
    the batch has one chain, which starts anew in each step.

    Parameters
    ----------
    n_sweeps : int, default=1
        Number of sweeps over all variables.
    start : {"data", "random"}, default="data"
        Initial states of the chains: the rows of the batch, or states drawn uniformly. Chains with
        random initial states also reach modes that are far from the data. With both values, the
        gradient is biased unless there are enough sweeps for the chains to mix.

    References
    ----------
    G. E. Hinton, "Training products of experts by minimizing contrastive divergence", Neural
    Computation 14 (2002).

    D. H. Ackley, G. E. Hinton, T. J. Sejnowski, "A learning algorithm for Boltzmann machines",
    Cognitive Science 9 (1985): random initial states.

    V. Mnih, H. Larochelle, G. E. Hinton, "Conditional restricted Boltzmann machines for structured
    output prediction", UAI (2011): recommends random initial states for conditional models.
    """

    requires = (GibbsEnergy,)
    is_pure = True
    reads_maps = True

    def __init__(self, n_sweeps=1, start="data"):
        self.n_sweeps = n_sweeps
        self.start = start

    def _check(self):
        check_number("n_sweeps", self.n_sweeps, low=1, integer=True)
        check_choice("start", self.start, ("data", "random"))

    def init(self, energy, batch, rng):
        """Return the learner's initial state: positive phase, and random generators of chains."""
        self._check()
        return CDState(DataPhase(energy, batch, rng), spawn_generators(rng, batch.X.shape[0]))

    def resume(self, energy, batch, state, rng):
        """Return the learner's state for new training rows, with the old random generators."""
        n_blocks = -(-batch.X.shape[0] // BLOCK)
        if not isinstance(state, CDState) or n_blocks > len(state.generators):
            return self.init(energy, batch, rng)
        self._check()
        return CDState(DataPhase(energy, batch, rng), state.generators)

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from Gibbs chains."""
        positive = state.data.batch_states(energy, batch)
        start = self._initial_states(energy, positive, rng)
        generators = first_generators(state.generators, len(start))
        X, _ = sweep(energy.at(batch), start, generators, n_sweeps=self.n_sweeps)
        keep_generators(state, generators)
        return positive, States(X, None, batch.log_weights), state, {}

    def _initial_states(self, energy, positive, rng):
        rows = positive.visible
        if self.start == "data":
            return draw_states(rows, rng)
        return Product.uniform(energy.visible_states).sample(rows.shape[0], rng)


@dataclass
class SearchState:
    """State of the learner CDPercLoss: a random generator for each block of chains."""

    generators: list


class CDPercLoss(MeanFieldPrediction):
    r"""Perceptron loss with Gibbs chains that search for outputs of low free energy.

    For each row, a Gibbs chain searches for outputs with a lower free energy than the true outputs.
    Its initial outputs are drawn with the probabilities :math:`\sigma(b^v + W^{vx} x)`, which
    ignore the hidden units. The negative phase is the state of lowest free energy
    among the true outputs and the states after each of the ``n_sweeps`` sweeps. Rows whose true
    outputs have the lowest free energy do not change the parameters. Predictions use mean field.

    Parameters
    ----------
    n_sweeps : int, default=10
        Number of Gibbs sweeps in each step.

    References
    ----------
    V. Mnih, H. Larochelle and G. E. Hinton, "Conditional restricted Boltzmann machines for
    structured output prediction", UAI 2011.
    """

    is_pure = True

    def __init__(self, n_sweeps=10):
        self.n_sweeps = n_sweeps

    def init(self, energy, batch, rng):
        """Return the learner's initial state: a random generator for each block of chains."""
        check_number("n_sweeps", self.n_sweeps, low=1, integer=True)
        return SearchState(spawn_generators(rng, batch.X.shape[0]))

    def resume(self, energy, batch, state, rng):
        """Return the learner's old state, or a new one if there are more rows than before."""
        n_blocks = -(-batch.X.shape[0] // BLOCK)
        if not isinstance(state, SearchState) or n_blocks > len(state.generators):
            return self.init(energy, batch, rng)
        check_number("n_sweeps", self.n_sweeps, low=1, integer=True)
        return state

    def step(self, energy, batch, state, rng):
        """Return both terms of the gradient: true outputs, and found outputs of low free energy."""
        positive, model = condition_on_batch(energy, batch)
        shape, dtype = positive.visible.shape, positive.visible.dtype
        drawn = rng.random(shape, dtype=dtype) < unit_probabilities(model.visible_bias)
        V, best = drawn.astype(STATE), positive.visible.astype(STATE)
        true = lowest = model.free_energy(best)
        generators, xp = first_generators(state.generators, shape[0]), namespace(V)
        for _ in range(self.n_sweeps):
            V, _ = sweep(model, V, generators)
            energies = model.free_energy(V)
            better = energies < lowest
            best = xp.where(better[:, None], V, best)
            lowest = xp.minimum(lowest, energies)
        keep_generators(state, generators)
        info = {"perceptron_loss": (true - lowest).mean()}
        return positive, States(best, model.hidden_means(best)), state, info


def first_generators(generators, n_chains):
    """Return the generators of the first chains; on a device of JAX, the chains themselves."""
    return generators[: -(-n_chains // BLOCK)] if isinstance(generators, list) else generators


def keep_generators(state, generators):
    """Store the advanced generators of the first chains in a learner's state."""
    if isinstance(generators, list):
        state.generators[: len(generators)] = generators
