"""Learners that estimate the model expectation by belief propagation, and by naive mean field."""

from dataclasses import dataclass, replace

import numpy as np

from .._utils.parameters import check_flag, check_number
from .._utils.phases import CliqueMoments, States
from ..energies.table_backed import TableEnergy
from ..samplers import Product
from ..variational import arrangement, belief_propagation, mean_field
from .base import DataPhase, Learner


@dataclass
class PropagationState:
    """State of the learner BP: positive phase, prepared factor graph, and last messages."""

    data: DataPhase
    arranged: arrangement.Arrangement
    messages: np.ndarray | None = None


class BP(Learner):
    r"""Likelihood gradient by belief propagation, which approximates the model expectation.

    The negative phase consists of the beliefs :math:`b_a(x_a)` of the cliques. The result
    is the gradient of the log-likelihood with the Bethe approximation in place of :math:`\log Z`.
    It is exact on trees.

    Parameters
    ----------
    schedule : {"sequential", "residual", "flooding"}, default="sequential"
        Order of the message updates. "sequential" visits the cliques in turn, forwards and
        backwards. "residual" visits the clique with the largest change of incoming messages first.
        "flooding" updates all cliques at once, then all variables.
    damping : float or "auto", default="auto"
        Weight, from 0 to 0.99, of the old log message in the new one. "auto" does not damp the
        first 20 iterations and uses 0.5 after them.
    max_iter : int, default=200
        Maximum number of iterations. An iteration is one update per clique.
    tol : float, default=1e-6
        Propagation has converged when no log message changes by more than this.
    warm_start : bool, default=True
        Whether to start from the messages of the previous step.

    References
    ----------
    W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured prediction",
    AISTATS (2017): use clique beliefs as the moments of the model.
    """

    requires = (TableEnergy,)

    def __init__(
        self, schedule="sequential", damping="auto", max_iter=200, tol=1e-6, warm_start=True
    ):
        self.schedule = schedule
        self.damping = damping
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start

    def init(self, energy, batch, rng):
        """Return the learner's initial state: positive phase and prepared factor graph."""
        self._propagation()
        check_flag("warm_start", self.warm_start)
        return PropagationState(DataPhase(energy, batch, rng), arrangement.arrange(energy.layout))

    def resume(self, energy, batch, state, rng):
        """Return the learner's state for new training rows, with the last messages."""
        fresh = self.init(energy, batch, rng)
        if not isinstance(state, PropagationState):  # of another learner
            return fresh
        return replace(fresh, messages=state.messages)

    def _propagation(self):
        return belief_propagation.Propagation(self.schedule, self.damping, self.max_iter, self.tol)

    def _propagate(self, energy, state):
        """Run belief propagation; return the beliefs, the learner's new state, and diagnostics."""
        start = state.messages if self.warm_start else None
        beliefs = belief_propagation.pass_messages(
            state.arranged, energy.flat, self._propagation(), start=start
        )
        info = {
            "inference_converged": float(beliefs.converged),
            "residual": beliefs.residual,
            "n_propagations": float(beliefs.n_iter),
            "log_partition": beliefs.log_partition,
        }
        return beliefs, replace(state, messages=beliefs.messages), info

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from clique beliefs."""
        positive = state.data(energy, batch)
        beliefs, state, info = self._propagate(energy, state)
        moments = energy.layout.tied(beliefs.cliques)
        return positive, CliqueMoments(dict.fromkeys(energy.theta, moments)), state, info


class BPCD(BP):
    r"""Contrastive divergence with samples from beliefs: each variable is drawn independently.

    The negative phase consists of draws from :math:`\prod_i b_i(x_i)`: each variable is drawn from
    its own belief, independently of the others, as in the baseline of the paper on chained belief
    propagation. The dependence between variables is lost. :class:`BP` keeps it within cliques.

    Parameters
    ----------
    n_samples : int, default=3000
        Number of draws in each step.
    schedule : {"sequential", "residual", "flooding"}, default="sequential"
        Order of the message updates. "sequential" visits the cliques in turn, forwards and
        backwards. "residual" visits the clique with the largest change of incoming messages first.
        "flooding" updates all cliques at once, then all variables.
    damping : float or "auto", default="auto"
        Weight, from 0 to 0.99, of the old log message in the new one. "auto" does not damp the
        first 20 iterations and uses 0.5 after them.
    max_iter : int, default=200
        Maximum number of iterations. An iteration is one update per clique.
    tol : float, default=1e-6
        Propagation has converged when no log message changes by more than this.
    warm_start : bool, default=True
        Whether to start from the messages of the previous step.

    References
    ----------
    F. Ding and Y. Xue, "Contrastive divergence learning with chained belief propagation", PGM
    (2020), section 6.
    """

    def __init__(
        self,
        n_samples=3000,
        schedule="sequential",
        damping="auto",
        max_iter=200,
        tol=1e-6,
        warm_start=True,
    ):
        super().__init__(schedule, damping, max_iter, tol, warm_start)
        self.n_samples = n_samples

    def init(self, energy, batch, rng):
        """Return the learner's initial state: positive phase and prepared factor graph."""
        check_number("n_samples", self.n_samples, low=1, integer=True)
        return super().init(energy, batch, rng)

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from draws."""
        positive = state.data(energy, batch)
        beliefs, state, info = self._propagate(energy, state)
        with np.errstate(divide="ignore"):
            product = Product(np.log(beliefs.single), energy.layout.state_start)
        return positive, States(product.sample(self.n_samples, rng)), state, info


@dataclass
class MeanFieldState:
    """State of the learner MeanField: positive phase and last mean-field distribution."""

    data: DataPhase
    single: np.ndarray | None = None


class MeanField(Learner):
    r"""Likelihood gradient by naive mean field, which approximates the model expectation.

    The negative phase consists of the moments of the product distribution with the best lower bound
    on :math:`\log Z`, so the result is the gradient of an upper bound of the log-likelihood. A
    product distribution ignores the dependence between variables. Couplings therefore grow until
    the product distribution has converged to one mode.

    Parameters
    ----------
    max_iter : int, default=100
        Maximum number of sweeps over the variables in each step.
    tol : float, default=1e-6
        Mean field has converged when no probability changes by more than this in a sweep.

    References
    ----------
    C. Peterson and J. R. Anderson, "A mean field theory learning algorithm for neural networks",
    Complex Systems 1 (1987).
    """

    requires = (TableEnergy,)

    def __init__(self, max_iter=100, tol=1e-6):
        self.max_iter = max_iter
        self.tol = tol

    def init(self, energy, batch, rng):
        """Return the learner's initial state: the positive phase, without a distribution."""
        check_number("max_iter", self.max_iter, low=1, integer=True)
        check_number("tol", self.tol, low=0)
        return MeanFieldState(DataPhase(energy, batch, rng))

    def resume(self, energy, batch, state, rng):
        """Return the learner's state for new training rows, with the last distribution."""
        fresh = self.init(energy, batch, rng)
        if not isinstance(state, MeanFieldState):  # of another learner
            return fresh
        return replace(fresh, single=state.single)

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, by mean field."""
        positive = state.data(energy, batch)
        result = mean_field.mean_field(
            energy, start=state.single, max_iter=self.max_iter, tol=self.tol
        )
        moments = mean_field.clique_moments(energy, result.single)
        info = {
            "inference_converged": float(result.converged),
            "residual": result.residual,
            "log_partition": result.lower_bound,
        }
        state = replace(state, single=result.single)
        return positive, CliqueMoments(dict.fromkeys(energy.theta, moments)), state, info
