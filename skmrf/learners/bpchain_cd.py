"""Contrastive divergence by chained belief propagation."""

from dataclasses import dataclass

import numpy as np

from .._utils.codes import MISSING
from .._utils.log_weights import effective_sample_size, log_mean_exp
from .._utils.parameters import check_flag, check_number
from .._utils.phases import States
from .._utils.rows import unique_rows
from ..energies.table_backed import TableEnergy
from ..samplers.chained_bp import ChainedSampler, ChainSettings
from ..samplers.enumerated_states import EnumeratedStates
from ..variational import belief_propagation
from .base import DataPhase, Learner

MIN_PROBABILITY = 1e-3  # lower bound of conditionals, so that importance weights stay bounded
MAX_ENUMERATED_ROWS = 2000


@dataclass
class ChainState:
    """State of the learner BPChainCD: positive phase, sampler, and most frequent training rows."""

    data: DataPhase
    chain: ChainedSampler
    enumerated: EnumeratedStates


class BPChainCD(Learner):
    r"""Contrastive divergence by chained belief propagation (BPChain-CD).

    The negative phase consists of draws from

    .. math:: q(x) = \prod_i b_i(x_i \mid x_{<i}).

    Each variable is drawn from its belief given the variables drawn before it (Algorithm 2 of the
    paper).

    Parameters
    ----------
    n_samples : int, default=100
        Number of draws in each step.
    conditionals : {"auto", "bp", "exact"}, default="auto"
        "bp" computes the conditionals by belief propagation, as in the paper. "exact" computes them
        by variable elimination. "auto" changes from belief propagation to elimination as soon as
        eliminating the remaining variables is cheap. On small graphs that is so from the first
        variable on, and the draws are exact.
    corrected : bool, default=False
        Whether to weight the draws by :math:`f / q`. The gradient is then that of the likelihood,
        up to the error of importance sampling. The conditionals are kept above 1e-3, the 2000 most
        frequent training rows are summed over exactly, and draws represent the other states only.
    damping : float or "auto", default="auto"
        Weight, from 0 to 0.99, of the old log message in the new one. "auto" does not damp the
        first 20 iterations and uses 0.5 after them.
    order : {"elimination", "index"} or array-like, default="elimination"
        Order in which variables are drawn: a reversed elimination order, the order of the columns
        as in the paper, or a permutation of the column indices.
    schedule : {"sequential", "residual", "flooding"}, default="sequential"
        Order of the message updates. "sequential" visits the cliques in turn, forwards and
        backwards. "residual" visits the clique with the largest change of incoming messages first.
        "flooding" updates all cliques at once, then all variables.
    max_iter : int, default=100
        Maximum number of iterations of each run. An iteration is one update per clique.
    tol : float, default=1e-3
        Propagation has converged when no log message changes by more than this. With a smaller
        value, the noise of the draws would be larger than the gain in accuracy.
    warm_start : bool, default=False
        Whether the messages for a prefix of drawn variables start from the messages for the prefix
        that is one variable shorter.

    Notes
    -----
    The paper's setting is ``conditionals="bp"``, ``order="index"``, ``schedule="flooding"``,
    ``damping=0.0``, ``max_iter=20``, ``tol=0.0``. Propagation often does not converge with it.

    ``history_`` has these columns: ``inference_converged`` is the share of converged runs,
    ``n_runs`` the number of runs of belief propagation, ``log_partition`` the running estimate of
    log Z in nats, and ``ess`` the effective sample size of this estimate, divided by ``n_samples``.
    ``ess`` does not account for states that the draws miss. If training rows are summed over
    exactly, it is close to 1 as soon as these rows have most of Z.

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
        """Return the learner's initial state: positive phase, sampler, and most frequent rows."""
        check_number("n_samples", self.n_samples, low=1, integer=True)
        check_flag("corrected", self.corrected)
        propagation = belief_propagation.Propagation(
            self.schedule, self.damping, self.max_iter, self.tol
        )
        clip = MIN_PROBABILITY if self.corrected else 0.0
        settings = ChainSettings(self.conditionals, self.order, propagation, clip, self.warm_start)
        chain = ChainedSampler(energy.layout, settings, self.n_samples)
        return ChainState(DataPhase(energy, batch, rng), chain, self._frequent_rows(batch))

    def _frequent_rows(self, batch):
        """Return the most frequent complete training rows, or no rows if draws are not weighted."""
        rows, weights = unique_rows(batch)
        n_max = MAX_ENUMERATED_ROWS if self.corrected else 0
        frequent = rows[np.argsort(-weights, kind="stable")[:n_max]]
        return EnumeratedStates(frequent[(frequent != MISSING).all(axis=1)])

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from draws."""
        positive = state.data(energy, batch)
        draws = state.chain.draw(energy.flat, self.n_samples, rng)
        weights = state.enumerated.compute_weights(energy, draws)
        estimates = weights.estimates()
        info = {
            "inference_converged": draws.converged,
            "n_runs": float(draws.n_runs),
            "log_partition": log_mean_exp(estimates),
            "ess": effective_sample_size(estimates) / self.n_samples,
        }
        visible, log_weights = draws.X, np.log(draws.counts)
        if self.corrected:
            visible = np.concatenate([state.enumerated.X, visible])
            averaged = weights.draws + log_weights - np.log(self.n_samples)
            log_weights = np.concatenate([weights.enumerated, averaged])
        return positive, States(visible, None, log_weights), state, info
