"""A model whose log Z is hard to estimate, and log Z by enumeration."""

import numpy as np
import twins
from zoo import enumerate_states

from skmrf.energies import PairwiseEnergy


def true_log_z(energy):
    return twins.log_sum(energy.log_potential(enumerate_states(energy)[0]))


def hard_model():
    """Frustrated and cold: couplings of random sign, 3 nats each, on all pairs of 14."""
    rng = np.random.default_rng(0)
    upper = np.triu(rng.choice([-3.0, 3.0], size=(14, 14)), 1)
    return PairwiseEnergy(upper + upper.T, np.zeros(14))
