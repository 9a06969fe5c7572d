"""Tests of a custom energy, which follows the guide, with queries and learners."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from zoo import enumerate_states

from skmrf import DiscreteMRF
from skmrf.energies import DiscreteEnergy, FactorGraph
from skmrf.inference import log_partition, map_assignment, marginals, sample
from skmrf.learners import BP, Batch, CliqueMoments, accepted
from skmrf.learners.registry import LEARNERS
from skmrf.likelihood import ais
from skmrf.samplers import trace_chains
from skmrf.training.loop import run
from skmrf.training.settings import Settings
from skmrf.training.state import start

N = 6


class UniformIsing(DiscreteEnergy):
    """Ising model with one coupling for all pairs and one bias for all variables."""

    def __init__(self, n_variables, coupling, bias):
        self.n_states = np.full(n_variables, 2)
        self.theta = {"coupling": np.array([coupling]), "bias": np.array([bias])}

    def with_theta(self, theta):
        return UniformIsing(self.n_variables, theta["coupling"][0], theta["bias"][0])

    def _statistics(self, X):
        total = (2.0 * np.asarray(X) - 1.0).sum(axis=1)
        return {"coupling": 0.5 * (total**2 - self.n_variables), "bias": total}

    def log_potential(self, X):
        return sum(self.theta[k][0] * v for k, v in self._statistics(X).items())

    def moments(self, phase):
        if isinstance(phase, CliqueMoments):
            return phase.moments
        found = self._statistics(phase.visible)
        return {k: np.array([phase.weights @ v]) for k, v in found.items()}

    def from_table_moments(self, flat):
        single, pair = np.split(flat, [2 * self.n_variables])
        spins = np.array([-1.0, 1.0])
        products = np.multiply.outer(spins, spins).ravel()
        parts = {"coupling": pair.reshape(-1, 4) @ products, "bias": single.reshape(-1, 2) @ spins}
        return {k: np.array([v.sum()]) for k, v in parts.items()}

    def penalty_groups(self):
        return {"coupling": np.array([0]), "bias": np.array([-1])}

    def factor_graph(self):
        spins, n = np.array([-1.0, 1.0]), self.n_variables
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        single = [self.theta["bias"][0] * spins] * n
        pair = [self.theta["coupling"][0] * np.multiply.outer(spins, spins)] * len(pairs)
        return FactorGraph(self.n_states, [(i,) for i in range(n)] + pairs, single + pair)


def enumerate_distribution(energy):
    """Return all states and their probabilities, by enumeration."""
    X, _ = enumerate_states(energy.factor_graph())
    log_f = energy.log_potential(X)
    return X, np.exp(log_f - np.logaddexp.reduce(log_f)), np.logaddexp.reduce(log_f)


def test_queries():
    energy = UniformIsing(N, 0.2, 0.1)
    X, p, log_z = enumerate_distribution(energy)
    assert log_partition(energy).value == pytest.approx(log_z)
    assert_allclose(marginals(energy).single[0][1], p @ X[:, 0])
    assert_allclose(map_assignment(energy).states, X[np.argmax(p)])
    assert sample(energy, 5, random_state=0).shape == (5, N)
    assert trace_chains(energy, n_sweeps=20, random_state=0).states.shape[2] == N
    found = ais(energy, random_state=0)
    assert found.lower - 0.1 < log_z < found.upper + 0.1
    model = DiscreteMRF.from_energy(energy)
    assert_allclose(np.exp(model.score_samples(X)), p)


@pytest.mark.parametrize("name", accepted(UniformIsing))
def test_learners_match_the_moments(name, seed):
    """Check that the learned model has the means and mean products of the rows."""
    rng = np.random.default_rng(seed)
    X, p, _ = enumerate_distribution(UniformIsing(N, 0.15, 0.2))
    rows = X[rng.choice(len(X), size=500, p=p)]
    learner, settings = LEARNERS[name](), Settings(max_iter=150, complete=False)
    if learner.deterministic:
        settings.optimizer = None
    state = start(UniformIsing(N, 0.0, 0.0), learner, Batch(rows), settings, rng)
    learned = run(learner, Batch(rows), settings, state).result()
    states, p, _ = enumerate_distribution(learned)
    for power in (1, 2):
        observed, modelled = rows.sum(axis=1) ** power, states.sum(axis=1) ** power
        bound = 5 * observed.std() / np.sqrt(500)
        assert abs(observed.mean() - p @ modelled) < bound or name == "cd"  # which is biased


def test_learners_of_other_protocols_raise(seed):
    energy = UniformIsing(N, 0.0, 0.0)
    assert "bp" not in accepted(UniformIsing)
    assert {"exact", "pcd", "psmc"} <= accepted(UniformIsing).keys()
    rows = Batch(np.zeros((4, N), dtype=np.int16))
    with pytest.raises(ValueError, match=r"cannot take the learner BP\(\): .*TableEnergy.*'exact'"):
        start(energy, BP(), rows, Settings(), np.random.default_rng(seed))
