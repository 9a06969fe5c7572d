"""Tests of a custom learner, written as in the guide, with all estimators."""

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
UNSUPPORTED = [CRBMStructuredPredictor, NNMRFDensity, NNMRFClassifier]


def make_estimator(kind, learner):
    options = {"states": (0, 1)} if kind is BoltzmannMachine else {}
    options |= {"n_components": 2} if kind is RBM else {}
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


def test_register_raises_for_other_classes():
    with pytest.raises(TypeError, match=r"learner must be a subclass of skmrf.learners.Learner"):
        register("other", DiscreteMRF)
    with pytest.raises(ValueError, match=r"learner must be one of .*'restarted'"):
        make_estimator(DiscreteMRF, "restarted").fit(make_binary_rows(0))
