"""Two variants of persistent sequential Monte Carlo that are not in the package.

Algorithm 4 of Xiong, Szedmak and Piater (2014) mixes new particles with persistent particles and
moves all of them to the new parameters. The new particles are not samples of the last model. The
gradient is therefore biased (:class:`LiteralPSMC`), unless weights correct this
(:class:`BalancedPSMC`).
"""

import numpy as np

from skmrf.learners import PSMC
from skmrf.samplers.smc import equal_log_weights


class LiteralPSMC(PSMC):
    """Persistent SMC by Algorithm 4 as printed: new particles without weights."""

    def move(self, energy, state, rng):
        X = np.concatenate(self.old_and_fresh(state, rng))
        return self.follow(energy, state, rng, X, equal_log_weights(len(X)))


class BalancedPSMC(PSMC):
    """Persistent SMC by Algorithm 4 with weights that correct the bias of new particles."""

    def move(self, energy, state, rng):
        old, fresh = self.old_and_fresh(state, rng)
        X = np.concatenate([old, fresh])
        log_p = state.energy.log_marginal(X) - state.log_partition
        log_reference = state.reference.log_probability(X)
        share = len(fresh) / len(X)
        mixed = np.logaddexp(log_p + np.log1p(-share), log_reference + np.log(share))
        return self.follow(energy, state, rng, X, log_p - mixed)
