"""A learner written from the guide alone works with all estimators whose energy it takes."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skmrf import (
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFStructureLearner,
    NNMRFClassifier,
    NNMRFDensity,
)
from skmrf.learners import DataPhase, Learner, States, register
from skmrf.learners.registry import LEARNERS
from skmrf.samplers import Product, spawn_generators, sweep

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class RestartedState(NamedTuple):
    """What one step leaves to the next: the positive phase, the chains, and their age."""

    data: DataPhase
    X: Any
    generators: list
    age: int


class RestartedGibbs(Learner):
    """Gibbs chains that start again at uniform states every ``restart`` steps."""

    def __init__(self, n_chains=50, restart=10):
        self.n_chains = n_chains
        self.restart = restart

    def init(self, energy, batch, rng):
        generators = spawn_generators(rng, self.n_chains)
        return RestartedState(DataPhase(energy, batch, rng), None, generators, self.restart)

    def step(self, energy, batch, state, rng):
        X, age = state.X, state.age + 1
        if age >= self.restart:
            X, age = Product.uniform(energy.visible_states).sample(self.n_chains, rng), 0
        generators = list(state.generators)
        X, _ = sweep(energy, X, generators, n_sweeps=2)
        state = RestartedState(state.data, X, generators, age)
        return state.data(energy, batch), States(X), state, {"age": age}


@pytest.fixture
def registered():
    """The learner by name, for one test."""
    register("restarted-gibbs", RestartedGibbs)
    yield "restarted-gibbs"
    del LEARNERS["restarted-gibbs"]


def bits(seed):
    rng = np.random.default_rng(seed)
    return ((rng.random((80, 1)) < 0.5) ^ (rng.random((80, 4)) < 0.2)).astype(int)


ACCEPTING = [DiscreteMRF, BoltzmannMachine, RBM, MRFStructureLearner]
REFUSING = [CRBMStructuredPredictor, NNMRFDensity, NNMRFClassifier]


def new(kind, learner):
    options = {"states": (0, 1)} if kind is BoltzmannMachine else {}
    options |= {"n_components": 2} if kind is RBM else {}
    return kind(learner=learner, max_iter=3, random_state=0, **options)


@pytest.mark.parametrize("kind", ACCEPTING)
def test_by_instance_and_by_name(kind, registered, seed):
    X = bits(seed)
    one = new(kind, RestartedGibbs()).fit(X)
    two = new(kind, registered).fit(X)
    assert "age" in one.history_
    assert one.score(X) == two.score(X)
    assert clone(one).fit(X).score(X) == one.score(X)


def test_parameters_are_searched(seed):
    X = bits(seed)
    search = GridSearchCV(new(RBM, RestartedGibbs()), {"learner__n_chains": [10, 20]}, cv=2).fit(X)
    assert search.best_params_["learner__n_chains"] in (10, 20)


@pytest.mark.parametrize("kind", REFUSING)
@pytest.mark.parametrize("by_name", [True, False])
def test_other_estimators_refuse_it(kind, by_name, registered, seed):
    learner = registered if by_name else RestartedGibbs()
    X = bits(seed)
    match = rf"{kind.__name__} cannot take the learner RestartedGibbs\(\): .* Take one of \['"
    with pytest.raises(ValueError, match=match) as error:
        new(kind, learner).fit(X * 1.0, X[:, 0])
    assert "restarted-gibbs" not in str(error.value)


def test_only_learners_are_registered():
    with pytest.raises(TypeError, match=r"learner must be a subclass of skmrf.learners.Learner"):
        register("other", DiscreteMRF)
    with pytest.raises(ValueError, match=r"learner must be one of .*'restarted'"):
        new(DiscreteMRF, "restarted").fit(bits(0))
