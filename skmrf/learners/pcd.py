"""Persistent contrastive divergence."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .._utils.namespaces import is_numpy, namespace
from .._utils.parameters import check_counts, check_flag, check_number
from .._utils.phases import CliqueMoments, States
from ..energies import LayeredEnergy
from ..energies.conditionals import BinaryConditionals
from ..energies.protocols import BinaryPairwiseEnergy
from ..energies.structured_protocols import HiddenLayerEnergy
from ..energies.table_backed import TableBackedEnergy
from ..samplers import Product, spawn_generators, sweep
from ..samplers.gibbs import ANNEALING_BETAS, annealed_states, move_from_hidden
from .particles import ParticleLearner, Particles, flip_rate
from .pseudo_likelihood import site_log_likelihood

MIN_CHAINS, MAX_CHAINS = 64, 512
ANNEALING_INTERVAL = 10  # steps
LAYERED_CHAINS, LAYERED_SWEEPS, COUPLED_SWEEPS, SWEEPS = 500, 1, 1, 5


@dataclass
class GibbsChains(Particles):
    """State of PCD, with the states of the hidden units of layered models.

    Attributes
    ----------
    hidden_states : ndarray of shape (n_chains, n_hidden) or None
        States of the hidden units; None for models without two separate layers.
    """

    hidden_states: np.ndarray | None = None

    @property
    def chain_axes(self):
        """Axis of the chains, from the end, of each array that has chains."""
        return super().chain_axes | {"hidden_states": -2}


class PCD(ParticleLearner):
    r"""Persistent contrastive divergence (stochastic maximum likelihood).

    The negative phase consists of the current states of Gibbs chains. The chains start at training
    rows and continue from step to step, while the model changes.

    Parameters
    ----------
    n_chains : int, optional
        Number of chains. By default the number of training rows, but at least 64 and at most 512;
        500 for models with a hidden layer.
    n_sweeps : int, optional
        Number of sweeps over all variables in each step. By default 5: if the data have many modes,
        chains with one sweep cannot follow the model, which reduces the likelihood. The default is
        1 for models with a hidden layer, which draw a whole layer at a time. With few hidden units,
        some fits reach a likelihood several nats below others.
    n_annealed : int, default=0
        Largest number of chains that restart at states of simulated annealing every 10 steps. If
        the model has modes far from the training rows, chains that start at rows do not find them,
        and training does not remove them.
    rao_blackwell : bool, default=False
        Whether the negative phase has conditional probabilities instead of the frequencies of the
        states. In a model of pairs, a joint state :math:`(a, b)` gets the mean of
        :math:`1[x_i = a]\, p(x_j = b \mid x_{-j})` and the same with i and j exchanged. Both have
        the same expectation for samples of the model. Conditional probabilities have a smaller
        variance, by far for pairs of rare states. The model must not have hidden units, which
        already enter by their means.

    References
    ----------
    T. Tieleman, "Training restricted Boltzmann machines using approximations to the likelihood
    gradient", ICML (2008).
    A. E. Gelfand and A. F. M. Smith, "Sampling-based approaches to calculating marginal densities",
    Journal of the American Statistical Association 85 (1990): Rao-Blackwell estimates.
    """

    is_pure = True

    def __init__(self, n_chains=None, n_sweeps=None, n_annealed=0, rao_blackwell=False):
        self.n_chains = n_chains
        self.n_sweeps = n_sweeps
        self.n_annealed = n_annealed
        self.rao_blackwell = rao_blackwell

    def check(self):
        """Raise a ValueError if a parameter is invalid."""
        check_counts(self, optional=("n_chains", "n_sweeps"))
        check_number("n_annealed", self.n_annealed, low=0, integer=True)
        check_flag("rao_blackwell", self.rao_blackwell)

    def start(self, energy, data, batch, rng):
        """Return Gibbs chains that start at training rows."""
        is_layered = isinstance(energy, LayeredEnergy)
        has_conditionals = isinstance(energy, BinaryPairwiseEnergy | TableBackedEnergy)
        if self.rao_blackwell and (energy.has_latent or not has_conditionals):
            raise ValueError(
                "PCD(rao_blackwell=True) needs a model of tables, or of pairs of two-state "
                f"variables, without hidden units; got a {type(energy).__name__}. Set it to False."
            )
        n_chains = self.n_chains
        if n_chains is None:
            n_rows = int(np.clip(batch.X.shape[0], MIN_CHAINS, MAX_CHAINS))
            has_hidden = isinstance(energy, HiddenLayerEnergy)
            n_chains = LAYERED_CHAINS if has_hidden else n_rows
        X = data.draw_rows(batch, n_chains, rng)
        reference = Product.uniform(energy.visible_states)
        hidden = _draw_hidden(energy, X, rng) if is_layered else None
        generators = spawn_generators(rng, n_chains)
        return GibbsChains(data, reference, energy, X, None, generators, hidden_states=hidden)

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from Gibbs chains."""
        positive = state.data(energy, batch)
        if self.n_annealed:
            state = self._restart(energy, batch.step, state, rng)
        move = self._alternate if isinstance(energy, LayeredEnergy) else self._sweep
        after = replace(move(energy, state), energy=energy)
        negative = conditional_moments(energy, after.X) if self.rao_blackwell else after.phase
        return positive, negative, after, {"flip_rate": flip_rate(state.X, after.X)}

    def _restart(self, energy, step, state, rng):
        """Restart some chains at states of simulated annealing, in every tenth step."""
        restart = partial(_restart_chains, energy, min(self.n_annealed, len(state.X)))
        chains, is_due = (state.X, state.hidden_states), step % ANNEALING_INTERVAL == 0
        if not is_numpy(state.X):
            chains = rng.run_if(is_due, restart, chains)
        elif is_due:
            chains = restart(chains, rng)
        return replace(state, X=chains[0], hidden_states=chains[1])

    def _sweep(self, energy, state):
        has_hidden = isinstance(energy, HiddenLayerEnergy)
        n_sweeps = self.n_sweeps or (COUPLED_SWEEPS if has_hidden else SWEEPS)
        reference = state.reference if is_numpy(state.X) else None  # JAX needs constants
        X, _ = sweep(energy, state.X, state.generators, n_sweeps=n_sweeps, reference=reference)
        return replace(state, X=X)

    def _alternate(self, energy, state):
        """Return the chains after layer-wise Gibbs sweeps, with the means of their hidden units."""
        n_sweeps = self.n_sweeps or LAYERED_SWEEPS
        X, means, H = move_from_hidden(energy, state.hidden_states, state.generators, n_sweeps)
        return replace(state, X=X, hidden=means, hidden_states=H)


def _restart_chains(energy, n_annealed, chains, rng):
    """Return the states of all chains after the first ones restart at distinct annealed states."""
    X, hidden = chains
    if is_numpy(X):
        modes, X = annealed_states(energy, n_annealed, rng), X.copy()
        X[: len(modes)] = modes
    else:
        energy = energy.with_theta(energy.theta)  # JAX: no cached value may leave this function
        modes = Product.uniform(energy.visible_states).sample(n_annealed, rng)
        modes, _ = sweep(energy, modes, rng, betas=ANNEALING_BETAS)
        is_equal = (modes[:, None] == modes).all(axis=2)
        is_new = is_equal.argmax(axis=1) == np.arange(n_annealed)
        modes = namespace(X).where(is_new[:, None], modes.astype(X.dtype), X[:n_annealed])
        X = X.at[:n_annealed].set(modes)
    if hidden is not None:
        drawn = _draw_hidden(energy, X[: len(modes)], rng)
        hidden = namespace(X).concat([drawn, hidden[len(modes) :]])
    return X, hidden


def _draw_hidden(energy, X, rng):
    means = energy.hidden_means(X)
    return (rng.random(means.shape) < means).astype(means.dtype)


def conditional_moments(energy, X):
    r"""Estimate the expected statistics of a model from its samples and their conditionals.

    The estimate is the mean over the samples :math:`x` and over :math:`K` variables per clique,
    where :math:`K` is the largest number of variables of a clique. The indicator of the joint state
    :math:`a` of a clique :math:`c` is replaced by its expectation given all variables but one:

    .. math:: \frac{1}{n} \sum_x \frac{1}{K} \Big( (K - |c|)\, 1[x_c = a] + \sum_{i \in c}
        1[x_{c \setminus i} = a_{c \setminus i}] \, p(a_i \mid x_{-i}) \Big)

    This is the frequency of the joint state minus the derivative of the mean
    pseudo-log-likelihood, divided by :math:`K`. All cliques with a variable have the same estimate
    of its marginal, so centred gradients of pairs have no noise of single variables.

    Parameters
    ----------
    energy : DiscreteEnergy
        Model without latent variables.
    X : array of shape (n_rows, n_variables)
        State codes of samples.

    Returns
    -------
    CliqueMoments
        Estimates of the expected sufficient statistics, shaped like ``theta``.

    References
    ----------
    A. E. Gelfand and A. F. M. Smith, "Sampling-based approaches to calculating marginal densities",
    Journal of the American Statistical Association 85 (1990).
    """
    is_binary = isinstance(energy.conditionals(), BinaryConditionals)
    if is_binary or not is_numpy(X):
        return CliqueMoments(energy.conditional_moments(X))
    _, gradient = site_log_likelihood(energy, X, np.full(len(X), 1.0 / len(X)))
    gradient /= max(energy.layout.orders.max(initial=1), 1)
    moments = energy.table_moments((States(X), 1.0)) - gradient
    return CliqueMoments(energy.from_table_moments(moments))
