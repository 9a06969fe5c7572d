"""Two readings of persistent sequential Monte Carlo that are not in the package.

Algorithm 4 of Xiong, Szedmak and Piater (2014) mixes fresh particles with persistent ones and lets
all of them follow the parameters. The fresh particles are no draws of the last model, so the
gradient is biased (:class:`LiteralPSMC`), unless weights correct for it (:class:`BalancedPSMC`).
"""

import numpy as np

from skmrf.learners import PSMC
from skmrf.samplers.smc import equal


class LiteralPSMC(PSMC):
    """Algorithm 4 as printed: fresh particles without weights."""

    def move(self, energy, state, rng):
        X = np.concatenate(self.old_and_fresh(state, rng))
        return self.follow(energy, state, rng, X, equal(len(X)))


class BalancedPSMC(PSMC):
    """Algorithm 4 with weights that correct for fresh particles not being draws of the model."""

    def move(self, energy, state, rng):
        old, fresh = self.old_and_fresh(state, rng)
        X = np.concatenate([old, fresh])
        log_p = state.energy.log_marginal(X) - state.log_partition
        log_reference = state.reference.log_probability(X)
        share = len(fresh) / len(X)
        mixed = np.logaddexp(log_p + np.log1p(-share), log_reference + np.log(share))
        return self.follow(energy, state, rng, X, log_p - mixed)
