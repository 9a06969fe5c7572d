"""Capabilities of all estimators, such as pickling, pipelines, data frames and sample weights.

``CAPABILITIES`` are functions of a case that raise an error if the capability does not work.
``EXCEPTIONS`` are the pairs of an estimator and a capability that it does not have, with the
reason. ``doc/generate.py`` creates the table of the documentation from both.
"""

import pickle
from dataclasses import dataclass
from functools import cache, cached_property
from io import BytesIO
from typing import Any

import joblib
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skmrf import (
    CRF,
    RBM,
    TRUSTED_TYPES,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFImputer,
    MRFStructureLearner,
    NetworkPotentials,
    NNMRFBayesClassifier,
    NNMRFClassifier,
    NNMRFDensity,
)
from skmrf.learners import CD, MLEBP, PCD, PseudoLikelihood, Variational
from skmrf.structure import WaldTests

ROUNDING = 1e-6
NAMES = ["a", "b", "c", "d"]
NETWORKS = NetworkPotentials(learner=Variational(2), node_layers=(3,), edge_layers=(3,), max_iter=2)
QUERIES = "score_samples", "predict", "predict_proba", "decision_function", "transform"


@dataclass(frozen=True, eq=False)
class Case:
    """Estimator with its rows, its targets if it has any, and two parameter values to search."""

    estimator: Any
    X: np.ndarray
    y: Any
    grid: dict

    @cached_property
    def model(self):
        """Fitted estimator, which all capabilities share and none changes."""
        return self.fitted(self.X)

    def fitted(self, X):
        """Return a new estimator that is fitted to some rows."""
        return clone(self.estimator).fit(X, self.y)


def answers(model, X):
    """Return the results of all query methods of a fitted estimator."""
    found = {name: np.asarray(getattr(model, name)(X)) for name in QUERIES if hasattr(model, name)}
    if isinstance(model, MRFStructureLearner):
        found |= {"coupling": model.coupling_, "score": np.asarray(model.score(X))}
    assert found
    return found


def assert_same(left, right, rtol=0.0):
    """Check that results are equal, exactly or up to the order of sums."""
    assert left.keys() == right.keys()
    for name, value in left.items():
        assert_allclose(value, right[name], rtol=rtol, err_msg=name)


@cache
def cases(seed=0):
    """Return one case per estimator class."""
    rng = np.random.default_rng(seed)
    bits = (rng.random((60, 1)) < 0.5) ^ (rng.random((60, 4)) < 0.2)
    bits = bits.astype(int)
    numbers = rng.normal(size=(60, 4)) + 2.0 * bits[:, :1]
    weak = {"max_iter": 3, "random_state": 0}
    nets = {"potentials__learner__n_components": [2, 3]}
    return {
        "DiscreteMRF": Case(
            DiscreteMRF(learner=PCD(n_chains=20), alpha=0.1, **weak),
            bits,
            None,
            {"learner__n_chains": [10, 20]},
        ),
        "BoltzmannMachine": Case(
            BoltzmannMachine(PCD(n_chains=20), states=(0, 1), alpha=0.1, **weak),
            bits,
            None,
            {"learner__n_chains": [10, 20]},
        ),
        "RBM": Case(RBM(3, CD(), alpha=0.01, **weak), bits, None, {"learner__n_sweeps": [1, 2]}),
        "CRBMStructuredPredictor": Case(
            CRBMStructuredPredictor(3, MLEBP(), **weak),
            numbers,
            bits[:, 0],
            {"learner__n_iter": [5, 10]},
        ),
        "NNMRFDensity": Case(NNMRFDensity(NETWORKS, random_state=0), numbers, None, nets),
        "NNMRFBayesClassifier": Case(
            NNMRFBayesClassifier(NETWORKS, random_state=0), numbers, bits[:, 0], nets
        ),
        "NNMRFClassifier": Case(
            NNMRFClassifier(max_iter=3, random_state=0),
            numbers,
            bits[:, 0],
            {"n_units": [4, 8]},
        ),
        "CRF": Case(CRF(alpha=0.1, **weak), numbers, bits[:, 0], {"alpha": [0.1, 1.0]}),
        "MRFImputer": Case(
            MRFImputer(DiscreteMRF(learner="exact", alpha=0.1), random_state=0),
            np.where((rng.random(bits.shape) < 0.1) & (np.arange(4) > 0), np.nan, bits),
            None,
            {"estimator__alpha": [0.1, 1.0]},
        ),
        "MRFStructureLearner": Case(
            MRFStructureLearner(PseudoLikelihood(), search=WaldTests("fdr"), random_state=0),
            bits,
            None,
            {"search__level": [0.01, 0.1]},
        ),
    }


# The capabilities --------------------------------------------------------------------------


def by_pickle(case):
    """Pickle a model; the copy gives the same results."""
    model = case.model
    assert_same(answers(pickle.loads(pickle.dumps(model)), case.X), answers(model, case.X))


def by_joblib(case):
    """Save a model in a compressed joblib file; the copy gives the same results."""
    model, file = case.model, BytesIO()
    joblib.dump(model, file, compress=3)
    file.seek(0)
    assert_same(answers(joblib.load(file), case.X), answers(model, case.X))


def by_skops(case):
    """Save a model in a skops file; it has trusted types only and gives the same results."""
    import pytest

    io = pytest.importorskip("skops.io")
    model = case.model
    found = io.loads(io.dumps(model), trusted=TRUSTED_TYPES)
    assert_same(answers(found, case.X), answers(model, case.X))


def by_clone(case):
    """Clone an estimator; the clone has the same parameters, is not fitted, and fits equally."""
    model = case.model
    copy = clone(model)
    assert str(copy.get_params()) == str(model.get_params())
    assert not [name for name in vars(copy) if name.endswith("_") and not name.startswith("_")]
    assert_same(answers(copy.fit(case.X, case.y), case.X), answers(model, case.X))


def in_pipeline(case):
    """Use the estimator as the last step of a pipeline, or before a classifier if it transforms."""
    model = case.model
    last = clone(case.estimator)
    if hasattr(model, "transform"):
        steps = make_pipeline(last, LogisticRegression()).fit(case.X, case.X[:, 0])
        features = model.transform(case.X)
        assert_array_equal(steps[0].transform(case.X), features)
        alone = LogisticRegression().fit(features, case.X[:, 0])
        assert_array_equal(steps.predict(case.X), alone.predict(features))
    else:
        steps = make_pipeline(FunctionTransformer(np.ascontiguousarray), last).fit(case.X, case.y)
        assert_same(answers(steps[-1], case.X), answers(model, case.X))
        assert steps.score(case.X, case.y) == model.score(case.X, case.y)


def in_grid_search(case):
    """Search over a parameter of the estimator or of its learner, and refit the best one."""
    search = GridSearchCV(case.estimator, case.grid, cv=2, error_score="raise")
    search.fit(case.X, case.y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_.items() <= search.best_estimator_.get_params().items()
    answers(search.best_estimator_, case.X)


def of_pandas(case):
    """Fit and query a pandas data frame with a custom index."""
    import pandas as pd

    frame = pd.DataFrame(case.X, columns=NAMES, index=np.arange(len(case.X)) + 100)
    _same_as_array(case, frame)


def of_polars(case):
    """Fit and query a polars data frame."""
    import polars as pl

    _same_as_array(case, pl.DataFrame(case.X, schema=NAMES))


def _same_as_array(case, frame):
    model = case.fitted(frame)
    assert list(model.feature_names_in_) == NAMES
    assert_same(answers(model, frame), answers(case.model, case.X), ROUNDING)


def with_feature_names(case):
    """Raise an error for columns with other names or in another order."""
    import pandas as pd
    import pytest

    frame = pd.DataFrame(case.X, columns=NAMES)
    model = case.fitted(frame)
    assert model.n_features_in_ == len(NAMES)
    for query in [name for name in (*QUERIES, "score") if hasattr(model, name)]:
        for other in (frame[NAMES[::-1]], frame.rename(columns={"a": "other"})):
            with pytest.raises(ValueError, match="feature names"):
                getattr(model, query)(other, *(() if query in QUERIES else (case.y,)))


def by_set_output(case):
    """Return a data frame with column names from transform."""
    import pandas as pd

    model = case.fitted(pd.DataFrame(case.X, columns=NAMES))
    plain = model.transform(pd.DataFrame(case.X, columns=NAMES))
    for kind in ("pandas", "polars"):
        found = model.set_output(transform=kind).transform(pd.DataFrame(case.X, columns=NAMES))
        assert type(found).__module__.startswith(kind)
        assert list(found.columns) == list(model.get_feature_names_out())
        assert_array_equal(np.asarray(found), plain)


def as_html(case):
    """Show name, parameters, fitted state and a link to the documentation in notebooks."""
    name = type(case.estimator).__name__
    new, fitted = clone(case.estimator)._repr_html_(), case.model._repr_html_()
    assert name in new
    assert next(iter(case.estimator.get_params(deep=False))) in new
    assert f"skmrf.{name}.html" in new
    assert "<span>Not fitted</span>" in new
    assert "<span>Fitted</span>" in fitted


def by_sample_weight(case):
    """Ignore rows of weight zero."""
    X = np.concatenate([case.X, case.X[:10][:, ::-1]])
    y = None if case.y is None else np.concatenate([case.y, 1 - case.y[:10]])
    weights = np.repeat([1.0, 0.0], [len(case.X), 10])
    model = clone(case.estimator).fit(X, y, sample_weight=weights)
    without = clone(case.estimator).fit(case.X, case.y, sample_weight=np.ones(len(case.X)))
    assert_same(answers(model, case.X), answers(without, case.X), ROUNDING)


def by_partial_fit(case):
    """Continue training on a second part of the rows with partial_fit."""
    more = {"classes": np.unique(case.y)} if is_classifier(case.estimator) else {}
    model = clone(case.estimator)
    y = [None, None] if case.y is None else np.split(case.y, 2)
    first, second = np.split(case.X, 2)
    model.partial_fit(first, y[0], **more)
    before = answers(model, case.X)
    model.partial_fit(second, y[1])
    after = answers(model, case.X)
    assert any((before[name] != after[name]).any() for name in before)


def with_callbacks(case):
    """Call scikit-learn's callbacks during training."""
    calls = []

    class Count:
        def setup(self, estimator, context):
            calls.append("setup")

        def on_fit_task_begin(self, estimator, context):
            calls.append("begin")

        def on_fit_task_end(self, estimator, context):
            calls.append("end")

        def teardown(self, estimator, context):
            calls.append("teardown")

    clone(case.estimator).set_callbacks(Count()).fit(case.X, case.y)
    assert calls[0] == "setup"
    assert calls[-1] == "teardown"
    assert calls.count("begin") == calls.count("end") > 2


CAPABILITIES = {
    "pickle": by_pickle,
    "joblib": by_joblib,
    "skops": by_skops,
    "clone": by_clone,
    "Pipeline": in_pipeline,
    "GridSearchCV": in_grid_search,
    "pandas": of_pandas,
    "polars": of_polars,
    "feature names": with_feature_names,
    "set_output": by_set_output,
    "HTML": as_html,
    "sample_weight": by_sample_weight,
    "partial_fit": by_partial_fit,
    "callbacks": with_callbacks,
}

_AT_ONCE = "its members are combined by rows that are left out of a fit to all rows"
_SHARED_COVARIANCE = "its densities share a covariance that is estimated from all rows"
_OF_ITS_MODEL = "it is trained by its parameter `estimator`"
_NO_TRANSFORM = "it has no `transform`; what queries return are arrays"
EXCEPTIONS = {
    ("DiscreteMRF", "set_output"): _NO_TRANSFORM,
    ("BoltzmannMachine", "set_output"): _NO_TRANSFORM,
    ("CRBMStructuredPredictor", "set_output"): _NO_TRANSFORM,
    ("NNMRFDensity", "set_output"): _NO_TRANSFORM,
    ("NNMRFBayesClassifier", "set_output"): _NO_TRANSFORM,
    ("MRFStructureLearner", "set_output"): _NO_TRANSFORM,
    ("NNMRFClassifier", "set_output"): _NO_TRANSFORM,
    ("NNMRFClassifier", "partial_fit"): _AT_ONCE,
    ("CRF", "set_output"): _NO_TRANSFORM,
    ("CRF", "partial_fit"): "it has no `partial_fit`; continue training with `warm_start=True`",
    ("NNMRFBayesClassifier", "partial_fit"): _SHARED_COVARIANCE,
    ("MRFImputer", "GridSearchCV"): "it has no `score`; search over a pipeline with a classifier",
    ("MRFImputer", "partial_fit"): _OF_ITS_MODEL,
    ("MRFImputer", "callbacks"): _OF_ITS_MODEL,
    ("MRFStructureLearner", "partial_fit"): (
        "only with `search=RemovalWhileLearning()`, which removes edges while learning"
    ),
}
