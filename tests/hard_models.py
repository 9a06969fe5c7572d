"""Models that are hard for approximate inference, with log Z by enumeration."""

import numpy as np
import twins
from zoo import ZOO, enumerate_states

from skmrf.energies import PairwiseEnergy
from skmrf.samplers.chained_bp import Chain, ChainSettings
from skmrf.variational.belief_propagation import Propagation


def true_log_z(energy):
    return twins.log_sum(energy.log_potential(enumerate_states(energy)[0]))


def hard_model():
    """Return a spin glass of 14 variables: couplings of 3 nats and random sign on all pairs."""
    rng = np.random.default_rng(0)
    upper = np.triu(rng.choice([-3.0, 3.0], size=(14, 14)), 1)
    return PairwiseEnergy(upper + upper.T, np.zeros(14))


PAPER = Propagation("flooding", damping=0.0, max_iter=20, tol=0.0)


def frustrated(strength=1.5):
    """Return a model of six spins on which belief propagation does not converge."""
    rng = np.random.default_rng(34)
    upper = np.triu(rng.choice([-strength, strength], size=(6, 6)), 1)
    return PairwiseEnergy(upper + upper.T, rng.normal(0.0, 0.3, size=6)).factor_graph()


def model(name, seed):
    return frustrated() if name == "frustrated" else ZOO[name](seed).factor_graph()


def chain_of(graph, conditionals="bp", order="index", how=PAPER, n_samples=1000, **settings):
    return Chain(graph.layout, ChainSettings(conditionals, order, how, **settings), n_samples)


def density(chain, graph):
    """Return the probability with which chained belief propagation draws each joint state."""
    log_q = chain.log_density(graph.flat, enumerate_states(graph)[0])
    assert not np.isnan(log_q).any()
    assert log_q.max() < 1e-11
    return np.minimum(np.exp(log_q), 1.0)
