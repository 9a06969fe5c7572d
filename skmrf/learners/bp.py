"""Learners whose negative phase is one run of belief propagation."""

from dataclasses import dataclass, replace

import numpy as np

from .._utils.parameters import check_number
from .._utils.phases import CliqueMoments, States
from ..energies import TableEnergy
from ..samplers import Product
from ..variational import arrangement, belief_propagation
from .base import DataPhase, Learner


@dataclass
class PropagationState:
    """The data's phase, the arranged graph, and the last messages."""

    data: DataPhase
    arranged: arrangement.Arrangement
    messages: np.ndarray | None = None


class BP(Learner):
    r"""Moments by belief propagation.

    The negative phase is the beliefs :math:`b_a(x_a)` of the cliques, so the gradient is that of
    the log-likelihood with the Bethe approximation in place of :math:`\log Z`: exact on trees.

    Parameters
    ----------
    schedule : {"sequential", "residual", "flooding"}, default="sequential"
    damping : float or "auto", default="auto"
        Share of the old log message that a new one keeps; "auto": none for 20 iterations, then 0.5.
    max_iter : int, default=200
    tol : float, default=1e-6
        Largest change of a message to stop at.
    warm_start : bool, default=True
        Start from the messages of the step before.

    References
    ----------
    W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured prediction",
    AISTATS (2017), where clique beliefs are the model's moments.
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
        self._how()
        return PropagationState(DataPhase(energy, batch, rng), arrangement.arrange(energy.layout))

    def resume(self, energy, batch, state, rng):
        fresh = self.init(energy, batch, rng)
        if not isinstance(state, PropagationState):  # of another learner
            return fresh
        return replace(fresh, messages=state.messages)

    def _how(self):
        return belief_propagation.Propagation(self.schedule, self.damping, self.max_iter, self.tol)

    def _propagate(self, energy, state):
        """Beliefs, the state after them, and diagnostics."""
        start = state.messages if self.warm_start else None
        found = belief_propagation.pass_messages(
            state.arranged, energy.flat, self._how(), start=start
        )
        info = {
            "inference_converged": float(found.converged),
            "residual": found.residual,
            "n_propagations": float(found.n_iter),
            "log_partition": found.log_partition,
        }
        return found, replace(state, messages=found.messages), info

    def step(self, energy, batch, state, rng):
        positive = state.data(energy, batch)
        found, state, info = self._propagate(energy, state)
        moments = energy.layout.tied(found.cliques)
        return positive, CliqueMoments(dict.fromkeys(energy.theta, moments)), state, info


class BPCD(BP):
    r"""Contrastive divergence by independent draws from beliefs.

    The negative phase are draws from :math:`\prod_i b_i(x_i)`, each variable by its own belief,
    as in the baseline of the chained propagation paper. What the model says of several variables
    together is lost; :class:`BP` keeps it within cliques.

    Parameters
    ----------
    n_samples : int, default=3000
    schedule, damping, max_iter, tol, warm_start
        As in :class:`BP`.

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
        check_number("n_samples", self.n_samples, low=1, integer=True)
        return super().init(energy, batch, rng)

    def step(self, energy, batch, state, rng):
        positive = state.data(energy, batch)
        found, state, info = self._propagate(energy, state)
        with np.errstate(divide="ignore"):
            product = Product(np.log(found.single), energy.layout.state_start)
        return positive, States(product.sample(self.n_samples, rng)), state, info
