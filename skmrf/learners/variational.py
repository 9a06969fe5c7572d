"""Learners for models with neural potentials; a Gaussian mixture approximates the model.

The gradient is estimated with Metropolis chains, or by quadrature, or on a grid of points.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._utils.log_weights import logsumexp, normalized_weights
from .._utils.parameters import check_choice, check_number, identity_of
from .._utils.phases import States
from .._utils.results import Latest
from ..energies import ContinuousEnergy
from ..likelihood.neural import grid, grid_fits
from ..samplers.metropolis import Metropolis
from ..variational.free_energy import FIRST_STEP, QuadratureSettings, infer
from ..variational.mixtures import Mixture, average_mixtures
from ..variational.quadrature import quadrature
from .base import Learner
from .initial_mixture import first_mixture, normal_beliefs

GRID_COMPONENTS = 5  # of the mixture that approximates the model on a grid
N_FIRST_ITER = 50  # enough to move the beliefs from the clusters of the rows to the model
COUNTS = "n_components", "n_points", "n_iter", "pool", "n_chains"
# Gradients by quadrature are biased if the beliefs lag behind the model: infer at each update, and
# take smaller steps.
DEFAULT_INTERVALS = {"chains": 5, "quadrature": 1}
QUADRATURE_PACE = 0.1


class BeliefLearner(Learner):
    """Base class of learners that approximate the model by a Gaussian mixture during training.

    The mixture is called the beliefs. The state of the learner stores it in the attribute
    ``mixture``; otherwise the learner must override :meth:`proposal`.
    """

    requires = (ContinuousEnergy,)

    @abstractmethod
    def beliefs(self, energy, state):
        """Return the Gaussian mixture that approximates the model during training.

        Parameters
        ----------
        energy : ContinuousEnergy
            Current model.
        state : object
            State after the last step.

        Returns
        -------
        Mixture
            Approximation, which may lag a few updates behind the model.
        """

    @abstractmethod
    def final_beliefs(self, energy, state):
        """Return the Gaussian mixture that approximates the fitted model.

        Parameters
        ----------
        energy : ContinuousEnergy
            Fitted model.
        state : object
            State after the last step.

        Returns
        -------
        Mixture
            Approximation of the fitted model.
        """

    def proposal(self, energy, state):
        """Return a proposal distribution: the last mixture and the Gaussian base of the model.

        Parameters
        ----------
        energy : ContinuousEnergy
            Current model, whose Gaussian base becomes one more component.
        state : object
            State after the last step.

        Returns
        -------
        Mixture
            Proposal with one component more than the last mixture.
        """
        return state.mixture.with_defensive_component(energy.mean, energy.covariance)


@dataclass
class VariationalState:
    """State of the learner :class:`Variational`.

    Attributes
    ----------
    mixture : Mixture
        Beliefs: approximation of the model at the time of the last inference.
    pool : list of Mixture
        Last beliefs, oldest first.
    proposal : Mixture or None
        Average of the pool, with the base as one more component.
    step : float
        Step size of the natural gradient.
    n_updates : int
        Number of updates so far.
    is_inferred : bool
        Whether the beliefs have been inferred from the model. Before that, they are clusters of the
        rows.
    chains : ndarray of shape (n_chains, n_variables) or None
        Current states of the Markov chains; None before the first update.
    size : float
        Step size of random walks.
    learner : tuple
        Class and parameters of the learner, from
        :func:`~skmrf._utils.parameters.identity_of`.
    """

    mixture: Mixture
    pool: list
    proposal: Mixture | None = None
    step: float = FIRST_STEP
    n_updates: int = 0
    is_inferred: bool = False
    chains: np.ndarray | None = None
    size: float = 0.0
    learner: tuple = ()


class Variational(BeliefLearner):
    r"""Maximum likelihood with a mixture approximation of the model.

    The mixture :math:`b = \sum_k \alpha_k b_k` is called the beliefs. The initial components are
    clusters of the rows. Natural-gradient steps on the free energy then fit the mixture to the
    model. Markov chains of the model estimate the negative phase. The beliefs are the proposal
    distribution of these chains: a chain can jump to a draw from the beliefs, and its random walks
    have the covariance of the components. In the paper, the negative phase is the expectation under
    the beliefs alone. This is biased, because the beliefs do not represent the model exactly.

    Parameters
    ----------
    n_components : int, default=5
        Number of components of the mixture.
    negative : {"chains", "quadrature"}, default="chains"
        Estimate of the negative phase: persistent Metropolis chains, or, as in the paper, the
        average of the last beliefs by quadrature.
    entropy : {"joint", "bethe"}, default="joint"
        Entropy in the free energy. With "joint", the entropy of the mixture, the negative free
        energy is a lower bound of log Z, up to the error of quadrature. With "bethe", the Bethe
        approximation of the paper, it is not a bound on graphs with cycles, and separate components
        are penalised.
    covariance : {"full", "diag"}, default="full"
        Covariance of the components. "diag" gives the fully factorised components of the paper.
    n_points : int, default=7
        Number of Gauss-Hermite points along each continuous variable.
    n_iter : int, default=1
        Number of iterations of each inference, which starts from the last beliefs. The first
        inference has 50.
    interval : int, optional
        Number of updates between two inferences. By default 5 for ``negative="chains"`` and 1 for
        ``negative="quadrature"``.
    warmup : int, default=50
        Number of updates before the first inference.
    pool : int, default=10
        Number of last beliefs that are averaged.
    n_chains : int, default=250
        Number of Markov chains.
    n_steps : int, default=4
        Number of random-walk moves of each chain per update, after one jump.

    References
    ----------
    H. Xiong and N. Ruozzi, "General purpose MRF learning with neural network potentials", IJCAI
    2020, section 3.

    W. Lin, M. E. Khan and M. Schmidt, "Fast and simple natural-gradient variational inference with
    mixture of exponential-family approximations", ICML 2019.
    """

    def __init__(
        self,
        n_components=5,
        *,
        negative="chains",
        entropy="joint",
        covariance="full",
        n_points=7,
        n_iter=1,
        interval=None,
        warmup=50,
        pool=10,
        n_chains=250,
        n_steps=4,
    ):
        self.n_components = n_components
        self.negative = negative
        self.entropy = entropy
        self.covariance = covariance
        self.n_points = n_points
        self.n_iter = n_iter
        self.interval = interval
        self.warmup = warmup
        self.pool = pool
        self.n_chains = n_chains
        self.n_steps = n_steps

    @property
    def rule(self):
        """Quadrature rule and entropy approximation of the free energy."""
        return QuadratureSettings(self.n_points, self.entropy, diagonal=self.covariance == "diag")

    @property
    def pace(self):
        """Factor by which the estimator multiplies its default initial learning rate."""
        return QUADRATURE_PACE if self.negative == "quadrature" else 1.0

    def init(self, energy, batch, rng):
        """Return the learner's initial state; its mixture has a component per cluster of rows."""
        self._check()
        mixture = first_mixture(energy, batch, self.n_components, self.covariance == "diag", rng)
        state = VariationalState(mixture, [], learner=identity_of(self))
        return self._with_beliefs(state, energy, mixture)

    def _check(self):
        for name in COUNTS:
            check_number(name, getattr(self, name), low=1, integer=True)
        for name in ("warmup", "n_steps"):
            check_number(name, getattr(self, name), low=0, integer=True)
        if self.interval is not None:
            check_number("interval", self.interval, low=1, integer=True)
        check_choice("negative", self.negative, ("chains", "quadrature"))
        check_choice("entropy", self.entropy, ("joint", "bethe"))
        check_choice("covariance", self.covariance, ("full", "diag"))

    def resume(self, energy, batch, state, rng):
        """Return the learner's old state, unless the learner has changed."""
        if not isinstance(state, VariationalState) or state.learner != identity_of(self):
            return self.init(energy, batch, rng)
        return state

    def beliefs(self, energy, state):
        """Return the last mixture that approximates the model, or the Gaussian base at first."""
        return state.mixture if state.is_inferred else normal_beliefs(energy)

    def final_beliefs(self, energy, state):
        """Fit the mixture to the trained model, starting from the last mixture, and return it."""
        return infer(energy, state.mixture, self.rule).mixture

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient."""
        info, n_updates = {}, state.n_updates - self.warmup
        if n_updates >= 0 and n_updates % (self.interval or DEFAULT_INTERVALS[self.negative]) == 0:
            state, info = self._infer(energy, state)
        state = replace(state, n_updates=state.n_updates + 1)
        if self.negative == "chains":
            state, chain_info = self._move_chains(energy, state, rng)
            negative, info = States(state.chains), info | chain_info
        else:
            negative = quadrature(average_mixtures(state.pool), energy.edges, self.n_points).points
        X = batch.X
        if np.isnan(X).any():
            X = state.proposal.impute(X, rng)
        return States(X, None, batch.log_weights), negative, state, info

    def _infer(self, energy, state):
        """Update the mixture to the current model, and return the new state and diagnostics."""
        n_iter = self.n_iter if state.is_inferred else N_FIRST_ITER
        result = infer(energy, state.mixture, self.rule, max_iter=n_iter, step=state.step)
        state = replace(state, step=result.step, is_inferred=True)
        state = self._with_beliefs(state, energy, result.mixture)
        return state, {"log_partition_bound": Latest(result.value)}

    def _with_beliefs(self, state, energy, mixture):
        pool = [*state.pool, mixture][-self.pool :]
        proposal = average_mixtures(pool).with_defensive_component(energy.mean, energy.covariance)
        return replace(state, mixture=mixture, pool=pool, proposal=proposal)

    def _move_chains(self, energy, state, rng):
        """Move the chains by Metropolis steps, and return the new state and diagnostics."""
        X = state.chains
        if X is None:
            X = state.proposal.sample(self.n_chains, rng)
        moves, walked = Metropolis(state.proposal, state.size), np.nan
        logs = energy.log_potential(X)
        proposed = moves.propose_independent(X, rng)
        new = energy.log_potential(proposed)
        gain = moves.independence_log_ratio(X, logs, proposed, new)
        X, logs, jumped = moves.accept_or_reject(X, logs, proposed, new, gain, rng)
        for _ in range(self.n_steps):
            proposed = moves.propose_random_walk(X, rng)
            new = energy.log_potential(proposed)
            X, logs, walked = moves.accept_or_reject(X, logs, proposed, new, new - logs, rng)
            moves.adapt(walked)
        info = {"jumps_accepted": jumped, "walks_accepted": walked}
        return replace(state, chains=X, size=moves.size), info


class GridState(NamedTuple):
    """State of the learner Grid: grid points, their log-weights, and an initial mixture."""

    X: np.ndarray
    log_weights: np.ndarray
    mixture: Mixture


class Grid(BeliefLearner):
    """Likelihood gradient by a sum over a grid of points of all variables.

    It is for models with at most three continuous variables. On such models, it can be used to
    measure the error of approximate learners. Its objective is deterministic, so
    ``optimizer="lbfgs"`` finds a local maximum.

    Parameters
    ----------
    n_points : int, default=41
        Number of grid points along each continuous variable. The grid extends eight standard
        deviations of the base to either side of its mean.

    References
    ----------
    H. Xiong and N. Ruozzi, "General purpose MRF learning with neural network potentials", IJCAI
    2020, section 3: the gradient, which the beliefs of that paper approximate.
    """

    deterministic = True

    def __init__(self, n_points=41):
        self.n_points = n_points

    def init(self, energy, batch, rng):
        """Return the learner's initial state: the grid, and a mixture close to the model."""
        check_number("n_points", self.n_points, low=3, integer=True)
        if not grid_fits(energy):
            raise ValueError(
                "The learner Grid needs at most three continuous variables, and a grid of at most "
                "2**23 points, which has all joint states of the other variables; this model has "
                f"{len(energy.numbers)} continuous variables or needs a larger grid. Use "
                'learner="variational".'
            )
        mixture = first_mixture(energy, batch, GRID_COMPONENTS, False, rng)
        return GridState(*grid(energy, self.n_points), mixture)

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from grid points."""
        negative = States(state.X, None, state.log_weights + energy.log_potential(state.X))
        X = batch.X
        if np.isnan(X).any():
            X = self.proposal(energy, state).impute(X, rng)
        return States(X, None, batch.log_weights), negative, state, {}

    def beliefs(self, energy, state):
        """Fit a Gaussian mixture to the model, starting from the initial mixture; return it."""
        return infer(energy, state.mixture, QuadratureSettings()).mixture

    final_beliefs = beliefs

    def objective(self, energy, batch, state):
        """Return the mean log-likelihood of the rows in nats, and its gradient."""
        logs = state.log_weights + energy.log_potential(state.X)
        weights = normalized_weights(batch.log_weights, len(batch.X))
        value = weights @ energy.log_potential(batch.X) - logsumexp(logs)
        positive, negative = States(batch.X, None, batch.log_weights), States(state.X, None, logs)
        return float(value), energy.gradient(positive, negative, batch)
