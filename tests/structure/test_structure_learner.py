"""Tests of MRFStructureLearner as an estimator, and as the cliques of a DiscreteMRF."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer
from structure_rows import CHAIN, chain_rows, edges_of, learner, same_fit

from skmrf import DiscreteMRF, MRFStructureLearner
from skmrf._utils.codes import STATE
from skmrf.learners import PCD, Exact, PseudoLikelihood
from skmrf.structure import (
    Nodewise,
    Penalized,
    RemovalWhileLearning,
    Thresholding,
    WaldTests,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# As an estimator --------------------------------------------------------------------------


def test_score_is_the_mean_pseudo_log_likelihood(seed):
    X = chain_rows(seed, 300, 4)
    found = learner().fit(X)
    log_f = found.energy_.log_potential(X.astype(STATE))
    expected = 0.0
    for i in range(4):
        flipped = X.copy()
        flipped[:, i] = 1 - flipped[:, i]
        expected -= np.logaddexp(0, found.energy_.log_potential(flipped.astype(STATE)) - log_f)
    assert found.score(X) == pytest.approx(expected.mean())
    incomplete = X.astype(float)
    incomplete[:100, 0] = np.nan
    assert found.score(incomplete) == pytest.approx(expected[100:].mean())
    incomplete[:, 0] = np.nan
    with pytest.raises(ValueError, match=r"needs at least one row without.*DiscreteMRF.pred"):
        found.score(incomplete)
    with pytest.raises(NotFittedError):
        learner().score(X)
    with pytest.raises(
        ValueError, match="X has 3 features, but MRFStructureLearner is expecting 4"
    ):
        found.score(X[:, :3])
    with pytest.raises(ValueError, match="not seen in fit"):
        found.score(X + 5)


def test_nested_parameters_and_clone():
    model = MRFStructureLearner(PCD(n_chains=10), search=WaldTests(level=0.01))
    assert model.get_params()["learner__n_chains"] == 10
    assert model.get_params()["search__level"] == 0.01
    twin = clone(model.set_params(learner__n_chains=20, search__level=0.02, screen=None))
    assert twin.learner.n_chains == 20
    assert twin.search.level == 0.02
    assert twin.search is not model.search
    assert twin.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert len(twin.get_params(deep=False)) == 17
    shown = repr(twin).replace("\n", "").replace("  ", "")
    assert "learner=PCD(n_chains=20)" in shown
    assert "search=WaldTests(level=0.02)" in shown


def make_learner_of(learner, search):
    return MRFStructureLearner(learner, search=search)._check_parameters()[1]


def test_default_learner_of_each_search():
    """Learner "auto" is the default of the search, and "pcd" has two sweeps."""
    for search in SEARCHES:
        assert isinstance(make_learner_of("pseudo-likelihood", search), PseudoLikelihood)
        if search in ("tests", "nodewise"):
            assert isinstance(make_learner_of("auto", search), PseudoLikelihood)
        else:
            assert make_learner_of("auto", search).n_sweeps == 2
        if search != "nodewise":
            assert make_learner_of("pcd", search).n_sweeps == 2
            assert isinstance(make_learner_of("exact", search), Exact)
    assert make_learner_of(PCD(), "tests").n_sweeps == PCD().n_sweeps


SEARCHES = {
    "tests": WaldTests(),
    "thresholding": Thresholding(),
    "removal": RemovalWhileLearning(),
    "l1": Penalized("l1"),
    "group-l1": Penalized("group-l1"),
    "nodewise": Nodewise(),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SEARCHES)
def test_searches_by_name(name):
    """A name equals an instance with default parameters."""
    X = chain_rows(0, 150, 4)
    parameters = {"max_iter": 20, "n_bootstraps": 1, "random_state": 0}
    named = MRFStructureLearner(search=name, **parameters).fit(X)
    given = clone(MRFStructureLearner(search=SEARCHES[name], **parameters)).fit(X)
    same_fit(named, given)
    np.testing.assert_array_equal(named.edge_frequency_, given.edge_frequency_)
    assert named.search == name
    assert hasattr(named, "alpha_") == (name in ("l1", "group-l1", "nodewise"))
    assert hasattr(named, "partial_fit") == (name == "removal")
    assert hasattr(given, "partial_fit") == (name == "removal")


@pytest.mark.parametrize("search", [*SEARCHES.values(), Nodewise("l1", alpha=0.1)], ids=repr)
def test_searches_clone(search):
    twin = clone(search)
    assert twin.get_params() == search.get_params()
    assert vars(twin) == search.get_params()
    assert len(repr(search)) < 50


def test_control_adjusts_the_p_values_of_every_search():
    """Holm's p-values are at least those of Benjamini and Hochberg; edges are equal."""
    X = chain_rows(0, 300)
    for search in (Thresholding(0.4), RemovalWhileLearning(0.4, 20), Penalized("l1", 0.1)):
        holm = learner(search=search, max_iter=40).fit(X)
        fdr = learner(search=clone(search).set_params(control="fdr"), max_iter=40).fit(X)
        assert edges_of(holm) == edges_of(fdr)
        assert (holm.p_values_ >= fdr.p_values_).all()
        assert (holm.p_values_ > fdr.p_values_).any()


INVALID = [
    ({"search": "other"}, r"search must be one of \['group-l1'.*'tests'.*skmrf.structure; got 'ot"),
    ({"search": None}, "search must be one of .*nodewise.*skmrf.structure; got None"),
    ({"search": WaldTests}, "search must be one of .*got <class"),
    ({"search": "nodewise"}, r'learner must be "auto" or "pseudo-likelihood"; got Exact\(\)'),
    ({"search": "nodewise", "learner": "pcd"}, r'got PCD\(n_sweeps=2\).*search="group-l1"'),
    ({"statistic": "x"}, "statistic must be one of .*agreement"),
    ({"search": WaldTests(control="bonferroni")}, "control must be one of .*fdr.*holm"),
    ({"screen": "all"}, "screen must be \"auto\", None or a number; got 'all'"),
    ({"search": WaldTests(re_entry="yes")}, "re_entry must be True or False; got 'yes'"),
    ({"search": Thresholding(None)}, "threshold must be a finite number; got None"),
    ({"search": Thresholding(np.ones(2))}, "threshold must be a finite number; got array"),
    ({"search": Penalized(alpha=None)}, 'alpha must be "ebic", "cv" or a number; got None'),
    ({"screen": 0.0}, "screen must be .*0.*got 0.0"),
    ({"screen": 1.5}, "screen must be .*1.*got 1.5"),
    ({"search": WaldTests(level=0)}, "level must be .*got 0"),
    ({"search": WaldTests(level=2)}, "level must be .*got 2"),
    ({"search": Thresholding("z")}, "threshold must be a finite number; got 'z'"),
    ({"search": Thresholding(-1.0)}, "threshold must be .*got -1.0"),
    ({"search": RemovalWhileLearning("wald")}, "threshold must be a finite number; got 'wald'"),
    ({"search": RemovalWhileLearning(0.1, -1)}, "warmup must be .*got -1"),
    ({"search": RemovalWhileLearning(0.1, None)}, "warmup must be an integer; got None"),
    ({"search": Penalized("l2")}, "penalty must be one of .*group-l1.*l1"),
    ({"search": Penalized(alpha="aic")}, 'alpha must be "ebic", "cv" or a number; got \'aic\''),
    ({"search": Penalized(alpha=0.0)}, "alpha must be .*got 0.0"),
    ({"search": Nodewise("l0"), "learner": "auto"}, "penalty must be one of .*got 'l0'"),
    ({"n_bootstraps": -1}, "n_bootstraps must be .*got -1"),
    ({"n_bootstraps": 1.5}, "n_bootstraps must be .*got 1.5"),
    ({"max_iter": 0}, "max_iter must be .*got 0"),
    ({"batch_size": 0}, "batch_size must be .*got 0"),
    ({"tol": -1}, "tol must be .*got -1"),
    ({"max_bytes": 0}, "max_bytes must be .*got 0"),
    ({"max_bytes": 100}, "more than max_bytes=100.*Set screen to a number.*increase max_bytes"),
    ({"learner": "newton"}, r"learner must be one of \['auto', .*exact.*pcd"),
    (
        {"learner": "lr"},
        r"MRFStructureLearner cannot take the learner LR\(\): .* Take one of",
    ),
    ({"optimizer": "newton"}, "optimizer must be one of .*lbfgs"),
    ({"learning_rate": "fast", "learner": "pcd"}, "learning_rate must be .*adaptive"),
    ({"random_state": "x"}, "random_state must be None, an int"),
    ({"categories": [[0, 1]] * 2}, "categories has 2 lists, but X has 5 columns; give one list"),
]


@pytest.mark.parametrize(("parameters", "message"), INVALID, ids=lambda v: str(v)[:40])
def test_invalid_parameters_raise(parameters, message):
    model = MRFStructureLearner("exact").set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(chain_rows(0, 100))
    assert not hasattr(model, "n_features_in_")
    assert not hasattr(model, "edges_")


def test_invalid_rows_raise():
    X = chain_rows(0, 100).astype(float)
    with pytest.raises(
        ValueError, match=r"All sample weights are zero; at least one row must have a positive"
    ):
        learner().fit(X, sample_weight=np.zeros(100))
    numbers, model = np.random.default_rng(0).normal(size=(100, 2)), learner()
    model.set_params(column_types="categorical")
    with pytest.raises(ValueError, match=r"too many for categories\. Discretise"):
        model.fit(numbers)
    with pytest.raises(ValueError, match="Column 1 holds infinity; use nan for a missing entry"):
        learner().fit(np.where(np.arange(5) == 1, np.inf, X))
    with pytest.raises(ValueError, match="Column 1 has no observed entry; drop it, or give its"):
        learner().fit(np.where(np.arange(5) == 1, np.nan, X))


def test_failed_fit_keeps_the_fitted_state():
    X = chain_rows(0)
    model = learner().fit(X)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="infinity"):
        model.fit(pd.DataFrame(np.full((9, 2), np.inf), columns=["a", "b"]))
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[k] is v for k, v in before.items())


class StoppingCounter:
    """Callback that counts tasks and stops the fit at the end of task ``stop``."""

    def __init__(self, stop=None):
        self.stop, self.begun, self.ended = stop, 0, 0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        self.begun += 1

    def on_fit_task_end(self, estimator, context, **rows):
        self.ended += 1
        return self.ended == self.stop


@pytest.mark.parametrize("parameters", [{}, {"n_bootstraps": 3}, {"search": "l1"}])
def test_callbacks_are_called_for_each_epoch(parameters):
    count = StoppingCounter()
    found = learner(**parameters).set_callbacks(count).fit(chain_rows(0, 300))
    assert count.begun == count.ended == 1 + found.n_iter_ + parameters.get("n_bootstraps", 0)
    assert {len(column) for column in found.history_.values()} == {found.n_iter_}
    updates = found.path_.iteration
    assert updates.tolist() == list(range(1, found.n_iter_ + 1))
    assert len(found.path_.parameters) == found.n_iter_
    learner(n_bootstraps=2).set_callbacks(ProgressBar()).fit(chain_rows(0, 200))


@pytest.mark.parametrize(("name", "stop"), [("exact", 1), ("pcd", 1), ("pcd", 3)])
def test_callback_stops_the_fit(name, stop):
    """A callback stops the fit at an epoch, without further rounds or bootstraps."""
    found = learner(name, n_bootstraps=3).set_callbacks(StoppingCounter(stop)).fit(chain_rows(0))
    assert found.n_iter_ == stop
    assert not found.converged_
    assert len(found.rounds_) == 1
    assert not hasattr(found, "edge_frequency_")
    assert np.isfinite(found.coupling_).all()
    assert np.isfinite(found.score(chain_rows(1)))


class Interrupted(PCD):
    """PCD with Ctrl-C at the third update of the second run of the training loop."""

    def init(self, energy, batch, rng):
        self.runs = getattr(self, "runs", 0) + 1
        self.updates = 0
        return super().init(energy, batch, rng)

    def step(self, energy, batch, state, rng):
        self.updates += 1
        if (self.runs, self.updates) == (2, 3):
            raise KeyboardInterrupt
        return super().step(energy, batch, state, rng)


class InterruptedExact(Exact):
    """Exact learner with Ctrl-C in the solver."""

    n_left = 2

    def objective(self, energy, batch, state):
        self.n_left -= 1
        if self.n_left == 0:
            raise KeyboardInterrupt
        return super().objective(energy, batch, state)


@pytest.mark.parametrize("interrupted", [Interrupted(), InterruptedExact()], ids=repr)
def test_interrupted_fit_is_usable(interrupted):
    """Ctrl-C ends a fit with a warning, without further rounds or bootstraps."""
    X = chain_rows(0)
    with pytest.warns(ConvergenceWarning, match="Interrupted; the model is that of the last"):
        found = learner(interrupted, max_iter=30, n_bootstraps=2).fit(X)
    assert not found.converged_
    assert not hasattr(found, "edge_frequency_")
    assert len(found.rounds_) == (2 if isinstance(interrupted, Interrupted) else 1)
    assert found.n_iter_ == (32 if isinstance(interrupted, Interrupted) else 0)
    assert {tuple(e) for e in CHAIN} <= {tuple(e) for e in edges_of(found)}
    where = tuple(np.array(CHAIN).T)
    np.testing.assert_allclose(found.coupling_[where], 0.5, atol=0.2)
    assert np.isfinite(found.score(X))


def test_interrupted_bootstrap_is_not_counted():
    """An interrupted bootstrap does not count."""
    X = chain_rows(0)
    interrupted = InterruptedExact()
    interrupted.n_left = 60
    model = learner(interrupted, n_bootstraps=50)
    with pytest.warns(ConvergenceWarning, match=r"Interrupted after [1-9]\d* of 50 bootstraps"):
        model.fit(X)
    assert edges_of(model) == CHAIN
    frequency = model.edge_frequency_[model.edge_frequency_ > 0]
    assert frequency.max() == 1.0


@pytest.mark.parametrize("has_numbers", [False, True])
def test_chain_of_rare_columns(has_numbers, seed):
    """Joint states that are rare if columns are independent need not be rare given neighbours."""
    rng = np.random.default_rng(seed)
    X = np.zeros((1500, 5), dtype=int)
    X[:, 0] = rng.random(1500) < 0.06
    for j in range(1, 5):
        X[:, j] = rng.random(1500) < np.where(X[:, j - 1] == 1, 0.6, 0.03)
    if has_numbers:
        X = np.column_stack([X, rng.normal(size=1500)])
    found = {tuple(edge) for edge in MRFStructureLearner(random_state=0).fit(X).edges_}
    assert found >= set(pairwise(range(5)))
    assert len(found) <= 5


# As the cliques of a DiscreteMRF ----------------------------------------------------------


def as_cliques(**parameters):
    return DiscreteMRF(learner("pseudo-likelihood", random_state=None), "exact", **parameters)


def test_discrete_mrf_with_structure_learner_as_cliques():
    X = pd.DataFrame(chain_rows(0), columns=list("abcde"))
    model = as_cliques(random_state=3).fit(X)
    assert model.cliques_ == tuple([(i,) for i in range(5)] + [tuple(e) for e in CHAIN])
    assert edges_of(model.structure_) == CHAIN
    assert model.structure_.random_state == 3
    assert model.cliques.random_state is None
    assert not hasattr(model.cliques, "edges_")
    by_hand = DiscreteMRF(model.cliques_, "exact").fit(X)
    assert model.score(X) == pytest.approx(by_hand.score(X), abs=1e-6)
    by_seed = DiscreteMRF(learner(random_state=7), "exact", random_state=3).fit(X)
    assert by_seed.structure_.random_state == 7
    model.set_params(cliques="independent").fit(X)
    assert not hasattr(model, "structure_")


def test_discrete_mrf_passes_weights_and_categories():
    X, Y = chain_rows(0), np.random.default_rng(1).integers(0, 2, (1500, 5))
    both, first = np.vstack([X, Y]), np.repeat([1.0, 0.0], 1500)
    model = as_cliques(categories=[[1, 0]] * 5).fit(both, sample_weight=first)
    same_fit(model.structure_, learner("pseudo-likelihood", categories=[[1, 0]] * 5).fit(X))
    assert [c.tolist() for c in model.structure_.categories_] == [[1, 0]] * 5
    assert edges_of(as_cliques().fit(Y).structure_) == []


def test_failed_fit_of_discrete_mrf_keeps_its_structure():
    X = chain_rows(0)
    model = as_cliques().fit(X)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.full((9, 2), np.inf))
    bad = model.set_params(max_bytes=1)  # fails after the structure was learned
    with pytest.raises(ValueError, match="max_bytes"):
        bad.fit(np.random.default_rng(1).integers(0, 2, (500, 5)))
    model.set_params(max_bytes=before["max_bytes"])
    assert {k: v for k, v in vars(model).items() if k != "max_bytes"}.keys() == (
        before.keys() - {"max_bytes"}
    )
    assert model.structure_ is before["structure_"]
    assert model.energy_ is before["energy_"]


def test_warm_start_and_partial_fit_keep_the_structure():
    X = chain_rows(0)
    model = as_cliques(max_iter=5, warm_start=True).fit(X)
    first = model.structure_
    assert model.fit(X).structure_ is first
    assert model.partial_fit(X).structure_ is first


@pytest.mark.long
def test_grid_search_and_pipeline():
    X = chain_rows(0, 150)
    search = GridSearchCV(
        as_cliques(), {"cliques__search__level": [1e-3, 0.99], "cliques__screen": [None]}, cv=2
    ).fit(X)
    assert search.best_params_["cliques__search__level"] in (1e-3, 0.99)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    grid = [{"search__level": [1e-3, 0.99]}, {"search": ["thresholding", Nodewise(alpha=0.1)]}]
    own = GridSearchCV(learner("pseudo-likelihood"), grid, cv=2).fit(X)
    assert len(own.cv_results_["mean_test_score"]) == 4
    assert np.isfinite(own.cv_results_["mean_test_score"]).all()
    assert set(own.best_params_) <= {"search", "search__level"}
    noise = np.random.default_rng(0).normal(size=(600, 1))
    Z = np.column_stack([noise, noise + 0.3 * np.random.default_rng(1).normal(size=(600, 1))])
    pipe = make_pipeline(KBinsDiscretizer(3, encode="ordinal"), learner()).fit(Z)
    assert edges_of(pipe[-1]) == [[0, 1]]
    assert pipe.score(Z) < 0


def test_refit_without_bootstraps_deletes_edge_frequency():
    X = np.random.default_rng(0).integers(2, size=(80, 3))
    learner = MRFStructureLearner("exact", n_bootstraps=2, random_state=0).fit(X)
    assert learner.edge_frequency_.shape == (3, 3)
    learner.set_params(n_bootstraps=0).fit(X)
    assert not hasattr(learner, "edge_frequency_")
    assert not any("frequency" in edge for *_, edge in learner.graph_.edges(data=True))


@pytest.mark.parametrize("alpha", [0.0, "auto"])
def test_interrupted_search_ends_the_fit_of_discrete_mrf(alpha):
    """Ctrl-C in the structure search leaves a usable model with initial parameters."""
    X = chain_rows(0)
    search = learner(InterruptedExact(), max_iter=30)
    model = DiscreteMRF(cliques=search, learner="exact", alpha=alpha, random_state=0)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X)
    messages = [str(w.message) for w in caught]
    assert any("Interrupted before the parameters were learned" in m for m in messages)
    assert model.n_iter_ == 0
    assert not model.converged_
    assert np.isfinite(model.score(X))
    assert model.sample(3, random_state=0).shape == (3, X.shape[1])
    model.set_params(cliques="independent").fit(X)
    assert model.converged_
