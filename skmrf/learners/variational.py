"""Likelihood gradient of neural potentials: chains or quadrature, guided by mixture beliefs."""

from dataclasses import dataclass, replace

import numpy as np

from .._utils.history import Latest
from .._utils.parameters import check_choice, check_number
from .._utils.phases import States
from ..samplers.metropolis import Metropolis
from ..variational.free_energy import FIRST_STEP, Rule, infer, quadrature
from ..variational.mixtures import Mixture, average
from .beliefs import BeliefLearner
from .initial_mixture import first_mixture, normal_beliefs

FIRST_ITERATIONS = 50  # so that beliefs become the model's, and are no longer those of the clusters
COUNTS = "n_components", "n_points", "n_iter", "pool", "n_chains"
INTERVAL = {"chains": 5, "quadrature": 1}  # a gradient by beliefs is of the model they lag behind
PACE = 0.1  # and they follow no faster


@dataclass
class VariationalState:
    """What a step of :class:`Variational` leaves to the next one.

    Attributes
    ----------
    mixture : Mixture
        Beliefs of the model as it was when they were last inferred.
    pool : list of Mixture
        The last ones, of earlier models.
    proposal : Mixture or None
        Their average with the base as one more component.
    step : float
        Of the natural gradient.
    n_updates : int
    inferred : bool
        Whether the beliefs are of the model yet; first they are clusters of the rows.
    chains : ndarray of shape (n_chains, n_variables) or None
    size : float
        Of random walks.
    """

    mixture: Mixture
    pool: list
    proposal: Mixture | None = None
    step: float = FIRST_STEP
    n_updates: int = 0
    inferred: bool = False
    chains: np.ndarray | None = None
    size: float = 0.0


class Variational(BeliefLearner):
    r"""Maximum likelihood with mixture beliefs of the model.

    Beliefs :math:`b = \sum_k \alpha_k b_k` start as clusters of the rows and then follow the model
    by natural-gradient steps on the free energy. Markov chains of the model estimate the negative
    phase; beliefs guide them: a chain may jump to a draw from them, and takes random walks shaped
    like their components. The paper's negative phase is the expectation under the beliefs alone,
    which is biased by what they miss of the model.

    Parameters
    ----------
    n_components : int, default=5
        Of the mixture.
    negative : {"chains", "quadrature"}, default="chains"
        Metropolis chains that persist, or the average of the pool of beliefs (the paper's).
    entropy : {"joint", "bethe"}, default="joint"
        Entropy in the free energy. That of the joint mixture makes it a lower bound of log Z, up to
        the error of quadrature; the Bethe approximation (the paper's) is none on graphs with
        cycles, and punishes separate components.
    covariance : {"full", "diag"}, default="full"
        Of the components; "diag" are the paper's fully factorised ones.
    n_points : int, default=7
        Gauss-Hermite points along a number.
    n_iter : int, default=1
        Iterations of an inference; each starts from the beliefs before. 50 in the first one.
    interval : int, optional
        Updates from one inference to the next; by default 5, and 1 where beliefs are the negative
        phase.
    warmup : int, default=50
        Updates before the first inference.
    pool : int, default=10
        Beliefs that are averaged.
    n_chains : int, default=250
    n_steps : int, default=4
        Random walks of a chain an update, after one jump.

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
        """How expectations under the beliefs are taken."""
        return Rule(self.n_points, self.entropy, diagonal=self.covariance == "diag")

    @property
    def pace(self):
        """Share of the default first learning rate that beliefs keep up with."""
        return PACE if self.negative == "quadrature" else 1.0

    def init(self, energy, batch, rng):
        self._check()
        mixture = first_mixture(energy, batch, self.n_components, self.covariance == "diag", rng)
        return self._with_beliefs(VariationalState(mixture, []), energy, mixture)

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
        self._check()
        if not isinstance(state, VariationalState):
            return self.init(energy, batch, rng)
        if state.chains is not None and len(state.chains) != self.n_chains:
            return replace(state, chains=None)
        return state

    def beliefs(self, energy, state):
        """Beliefs of the model, while it is learned."""
        return state.mixture if state.inferred else normal_beliefs(energy)

    def final_beliefs(self, energy, state):
        """Beliefs of a model that was learned."""
        return infer(energy, state.mixture, self.rule).mixture

    def step(self, energy, batch, state, rng):
        info, since = {}, state.n_updates - self.warmup
        if since >= 0 and since % (self.interval or INTERVAL[self.negative]) == 0:
            state, info = self._inferred(energy, state)
        state = replace(state, n_updates=state.n_updates + 1)
        if self.negative == "chains":
            state, more = self._moved(energy, state, rng)
            negative, info = States(state.chains), info | more
        else:
            negative = quadrature(average(state.pool), energy.edges, self.n_points).points
        X = batch.X
        if np.isnan(X).any():
            X = state.proposal.fill(X, rng)
        return States(X, None, batch.log_weights), negative, state, info

    def _inferred(self, energy, state):
        """Beliefs of the model as it is now."""
        n_iter = self.n_iter if state.inferred else FIRST_ITERATIONS
        found = infer(energy, state.mixture, self.rule, max_iter=n_iter, step=state.step)
        state = replace(state, step=found.step, inferred=True)
        state = self._with_beliefs(state, energy, found.mixture)
        return state, {"log_partition_bound": Latest(found.value)}

    def _with_beliefs(self, state, energy, mixture):
        pool = [*state.pool, mixture][-self.pool :]
        proposal = average(pool).defended(energy.mean, energy.covariance)
        return replace(state, mixture=mixture, pool=pool, proposal=proposal)

    def _moved(self, energy, state, rng):
        """Chains after some Metropolis moves of the model, and diagnostics."""
        X = state.chains
        if X is None:
            X = state.proposal.sample(self.n_chains, rng)
        moves, walked = Metropolis(state.proposal, state.size), np.nan
        logs = energy.log_potential(X)
        proposed = moves.propose_jump(X, rng)
        new = energy.log_potential(proposed)
        gain = moves.jump_gain(X, logs, proposed, new)
        X, logs, jumped = moves.choose(X, logs, proposed, new, gain, rng)
        for _ in range(self.n_steps):
            proposed = moves.propose_walk(X, rng)
            new = energy.log_potential(proposed)
            X, logs, walked = moves.choose(X, logs, proposed, new, new - logs, rng)
            moves.adapt(walked)
        info = {"jumps_accepted": jumped, "walks_accepted": walked}
        return replace(state, chains=X, size=moves.size), info
