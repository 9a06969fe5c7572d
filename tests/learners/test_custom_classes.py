"""Tests of a custom energy and a custom learner, which are written as in the guides."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from zoo import enumerate_states

from skmrf import (
    CRF,
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFStructureLearner,
    NNMRFBayesClassifier,
    NNMRFDensity,
)
from skmrf.energies import DiscreteEnergy, FactorGraph
from skmrf.energies.protocols import HiddenLayerEnergy
from skmrf.inference import log_partition, map_assignment, marginals, sample
from skmrf.learners import BP, Batch, CliqueMoments, DataPhase, Learner, States, register
from skmrf.learners.registry import LEARNERS, accepted
from skmrf.likelihood import ais
from skmrf.samplers import Product, spawn_generators, sweep, trace_chains
from skmrf.training.loop import run
from skmrf.training.settings import Settings
from skmrf.training.state import start

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class RestartedState(NamedTuple):
    """State of the learner: positive phase, chains, and number of steps since the restart."""

    data: DataPhase
    X: Any
    generators: list
    age: int


class RestartedGibbs(Learner):
    """Gibbs chains that restart at uniform states every ``restart`` steps."""

    def __init__(self, n_chains=50, restart=10):
        self.n_chains = n_chains
        self.restart = restart

    def init(self, energy, batch, rng):
        """Return the state before the first step."""
        generators = spawn_generators(rng, self.n_chains)
        return RestartedState(DataPhase(energy, batch, rng), None, generators, self.restart)

    def step(self, energy, batch, state, rng):
        """Return both phases, the new state, and diagnostics."""
        X, age = state.X, state.age + 1
        if age >= self.restart:
            X, age = Product.uniform(energy.visible_states).sample(self.n_chains, rng), 0
        generators = list(state.generators)
        X, _ = sweep(energy, X, generators, n_sweeps=2)
        state = RestartedState(state.data, X, generators, age)
        return state.data(energy, batch), States(X), state, {"age": age}


@pytest.fixture
def registered():
    """Register the learner for one test and return its name."""
    register("restarted-gibbs", RestartedGibbs)
    yield "restarted-gibbs"
    del LEARNERS["restarted-gibbs"]


def make_binary_rows(seed):
    rng = np.random.default_rng(seed)
    return ((rng.random((80, 1)) < 0.5) ^ (rng.random((80, 4)) < 0.2)).astype(int)


SUPPORTED = [DiscreteMRF, BoltzmannMachine, RBM, MRFStructureLearner]
UNSUPPORTED = [CRBMStructuredPredictor, CRF, NNMRFDensity, NNMRFBayesClassifier]


def make_estimator(kind, learner):
    options = {"states": (0, 1)} if kind is BoltzmannMachine else {}
    options |= {"n_components": 2} if kind is RBM else {}
    options |= {"alpha": 0.01} if kind in (BoltzmannMachine, RBM) else {}
    return kind(learner=learner, max_iter=3, random_state=0, **options)


@pytest.mark.parametrize("kind", SUPPORTED)
def test_learner_by_instance_and_by_name_are_equal(kind, registered, seed):
    X = make_binary_rows(seed)
    one = make_estimator(kind, RestartedGibbs()).fit(X)
    two = make_estimator(kind, registered).fit(X)
    assert "age" in one.history_
    assert one.score(X) == two.score(X)
    assert clone(one).fit(X).score(X) == one.score(X)


def test_grid_search_over_learner_parameters(seed):
    X = make_binary_rows(seed)
    search = GridSearchCV(
        make_estimator(RBM, RestartedGibbs()), {"learner__n_chains": [10, 20]}, cv=2
    ).fit(X)
    assert search.best_params_["learner__n_chains"] in (10, 20)


@pytest.mark.parametrize("kind", UNSUPPORTED)
@pytest.mark.parametrize("by_name", [True, False])
def test_unsupported_estimators_raise(kind, by_name, registered, seed):
    learner = registered if by_name else RestartedGibbs()
    X = make_binary_rows(seed)
    match = rf"{kind.__name__} cannot take the learner RestartedGibbs\(\): .* Take one of \['"
    with pytest.raises(ValueError, match=match) as error:
        make_estimator(kind, learner).fit(X * 1.0, X[:, 0])
    assert "restarted-gibbs" not in str(error.value)


class HiddenLayerGibbs(RestartedGibbs):
    """Learner for energies with a hidden layer."""

    requires = (HiddenLayerEnergy,)


def test_learner_of_a_boltzmann_machine_must_fit_the_hidden_units(seed):
    """The requirements are those of the energy that the number of hidden units implies."""
    X, model = make_binary_rows(seed), make_estimator(BoltzmannMachine, HiddenLayerGibbs())
    assert np.isfinite(clone(model).set_params(n_components=2).fit(X).score(X))
    for n_components in (0, "auto"):
        with pytest.raises(ValueError, match=r"^BoltzmannMachine cannot take the learner Hidden"):
            model.set_params(n_components=n_components).fit(X)


def test_register_raises_for_other_classes():
    with pytest.raises(TypeError, match=r"learner must be a subclass of skmrf.learners.Learner"):
        register("other", DiscreteMRF)
    with pytest.raises(ValueError, match=r"learner must be one of .*'restarted'"):
        make_estimator(DiscreteMRF, "restarted").fit(make_binary_rows(0))


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


SLOW_LEARNERS = "parallel-tempering", "ptt", "tempered-transitions", "smc"


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long) if name in SLOW_LEARNERS else name
        for name in accepted(UniformIsing)
    ],
)
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
