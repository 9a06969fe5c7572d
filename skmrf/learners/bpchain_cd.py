"""Contrastive divergence by chained belief propagation."""

from dataclasses import dataclass

import numpy as np

from .._utils.codes import MISSING
from .._utils.log_weights import effective_sample_size, log_mean_exp
from .._utils.parameters import check_number
from .._utils.phases import States
from ..energies import TableEnergy
from ..samplers.chained_bp import Chain, ChainSettings
from ..samplers.enumerated_states import KnownStates
from ..variational import belief_propagation
from .base import DataPhase, Learner, unique_rows

SUPPORT = 1e-3  # least conditional probability where draws are weighted
MOST_KNOWN = 2000  # training rows that are summed over


@dataclass
class ChainState:
    """The data's phase and the prepared chain."""

    data: DataPhase
    chain: Chain
    known: KnownStates


class BPChainCD(Learner):
    r"""Contrastive divergence by chained belief propagation (BPChain-CD).

    The negative phase are draws of

    .. math:: q(x) = \prod_i b_i(x_i \mid x_{<i}),

    each variable by its belief given those drawn before it: Algorithm 2 of the paper.

    Parameters
    ----------
    n_samples : int, default=100
    conditionals : {"auto", "bp", "exact"}, default="auto"
        "bp" as in the paper. "auto" takes exact conditionals as soon as eliminating the variables
        that are left is cheap, on small graphs from the first one on: then draws are exact.
    corrected : bool, default=False
        Weight the draws by :math:`f / q`, so that the gradient is that of the likelihood up to the
        error of importance sampling. The conditionals are then kept above 1e-3, and the most
        frequent training rows are summed over exactly: draws stand for the other states only.
    damping : float or "auto", default="auto"
        Share of the old log message that a new one keeps; "auto": none for 20 iterations, then 0.5.
    order : {"elimination", "index"} or array-like, default="elimination"
        In which order variables are drawn; "index" as in the paper.
    schedule : {"sequential", "residual", "flooding"}, default="sequential"
    max_iter : int, default=100
    tol : float, default=1e-3
        Largest change of a message to stop at; the draws are noisier than what is finer.
    warm_start : bool, default=False
        Messages of a prefix start where those of the prefix one shorter ended.

    Notes
    -----
    The paper's setting is ``conditionals="bp"``, ``order="index"``, ``schedule="flooding"``,
    ``damping=0.0``, ``max_iter=20``, ``tol=0.0``. Propagation then often has not converged; the
    column ``inference_converged`` of ``history_`` has the share of runs that have,
    ``log_partition`` the running estimate of log Z, and ``ess`` how many equally weighted draws
    that is worth. States that the chain misses are not seen in it, and where training rows are
    summed over it is near ``n_samples`` as soon as they have most of the estimate.

    References
    ----------
    F. Ding and Y. Xue, "Contrastive divergence learning with chained belief propagation", PGM
    (2020), section 5.
    """

    requires = (TableEnergy,)

    def __init__(
        self,
        n_samples=100,
        conditionals="auto",
        corrected=False,
        damping="auto",
        *,
        order="elimination",
        schedule="sequential",
        max_iter=100,
        tol=1e-3,
        warm_start=False,
    ):
        self.n_samples = n_samples
        self.conditionals = conditionals
        self.corrected = corrected
        self.damping = damping
        self.order = order
        self.schedule = schedule
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start

    def init(self, energy, batch, rng):
        check_number("n_samples", self.n_samples, low=1, integer=True)
        how = belief_propagation.Propagation(self.schedule, self.damping, self.max_iter, self.tol)
        clip = SUPPORT if self.corrected else 0.0
        settings = ChainSettings(self.conditionals, self.order, how, clip, self.warm_start)
        chain = Chain(energy.layout, settings, self.n_samples)
        return ChainState(DataPhase(energy, batch, rng), chain, self._known(batch))

    def _known(self, batch):
        """The complete rows that occur most often."""
        rows, weights = unique_rows(batch)
        often = np.argsort(-weights, kind="stable")[: MOST_KNOWN if self.corrected else 0]
        return KnownStates(rows[often][(rows[often] != MISSING).all(axis=1)])

    def step(self, energy, batch, state, rng):
        positive = state.data(energy, batch)
        draws = state.chain.draw(energy.flat, self.n_samples, rng)
        weights = state.known.weigh(energy, draws)
        estimates = weights.estimates()
        info = {
            "inference_converged": draws.converged,
            "n_propagations": float(draws.n_runs),
            "log_partition": log_mean_exp(estimates),
            "ess": effective_sample_size(estimates),
        }
        visible, log_weights = draws.X, np.log(draws.counts)
        if self.corrected:
            visible = np.concatenate([state.known.X, visible])
            averaged = weights.draws + log_weights - np.log(self.n_samples)
            log_weights = np.concatenate([weights.known, averaged])
        return positive, States(visible, None, log_weights), state, info
