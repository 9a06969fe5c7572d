"""Tests of bad input of NNMRFDensity and NNMRFClassifier."""

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from nnmrf_models import both, classes, line, small
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from skmrf.learners import Grid, Variational

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
GOOD = line(30, 0, 3)
NAMED = pd.DataFrame(GOOD, columns=["a", "b", "c"])


def with_entry(column, row, value):
    table = NAMED.astype(object)
    table[column] = [value if i == row else v for i, v in enumerate(table[column])]
    return table


TEXT = "Column 'b' holds 'tall', which is not a number; add the column to categorical_features"
BAD_DATA = [
    (with_entry("b", 3, np.inf), ValueError, "Column 'b' holds infinity; use nan"),
    (with_entry("b", 3, -np.inf), ValueError, "Column 'b' holds infinity; use nan"),
    (with_entry("b", 3, "tall"), ValueError, TEXT),
    (with_entry("b", 3, {"x": 1}), TypeError, "Column 'b' holds a dict"),
    (NAMED.assign(b=np.nan), ValueError, "Column 'b' has no observed entry; drop it"),
    (NAMED.assign(b=None), ValueError, "Column 'b' has no observed entry; drop it"),
    (NAMED.assign(b=1.7e308 * np.resize([1, -1], 30)), ValueError, "Column 'b' holds numbers too"),
    (NAMED.iloc[:0], ValueError, r"Found array with 0 sample\(s\)"),
    (GOOD[:0], ValueError, r"Found array with 0 sample\(s\)"),
    (GOOD[:, :0], ValueError, r"Found array with 0 feature\(s\)"),
    (GOOD[0], ValueError, "Expected 2D array, got 1D array"),
    (GOOD + 1j, ValueError, "Complex data not supported"),
    (NAMED.assign(b=1j), ValueError, "Column 'b' holds values of type complex128; convert them to"),
    (
        NAMED.assign(b=pd.date_range("2020-01-01", periods=30)),
        ValueError,
        "Column 'b' holds values of type datetime64.*; convert them to real numbers",
    ),
    (sp.csr_array(GOOD), TypeError, "Sparse data was passed"),
]


def not_fitted(model):
    return not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(("data", "error", "message"), BAD_DATA, ids=range(len(BAD_DATA)))
def test_bad_data(data, error, message):
    model = small()
    with pytest.raises(error, match=message):
        model.fit(data)
    assert not_fitted(model)
    model = classes()
    with pytest.raises(error, match=message):
        model.fit(data, np.resize([0, 1], data.shape[0]))
    assert not_fitted(model)


BAD_PARAMETERS = [
    ({"graph": "ring"}, r"graph must be one of \['complete', .*a list of pairs.*; got 'ring'"),
    (
        {"graph": [("a", "z")]},
        r"graph has 'z', which is not a column; the columns are \['a', 'b', 'c'\]",
    ),
    ({"graph": [(0, 3)]}, "graph has 3, which is not a column; the columns are"),
    ({"graph": [("a", "a")]}, r"must join two different columns; got \('a', 'a'\)"),
    ({"graph": [("a", "b", "c")]}, "graph must be .* a list of pairs of columns"),
    ({"graph": 7}, "graph must be .* a list of pairs of columns; got 7"),
    ({"graph": "grid"}, "a square number of columns, but there are 3"),
    ({"graph": nx.path_graph(5)}, "graph has 3, which is not a column; the columns are"),
    ({"learner": "pcd"}, r"cannot take the learner PCD\(\): .*Take one of \['grid', 'variational"),
    ({"learner": "sgd"}, r"learner must be one of \['grid', 'variational'\].*; got 'sgd'"),
    ({"learner": Variational(0)}, "n_components must be an integer >= 1; got 0"),
    ({"learner": Variational(entropy="x")}, r"entropy must be one of \['bethe', 'joint'\]"),
    ({"learner": Variational(negative="x")}, "negative must be one of"),
    ({"learner": Variational(interval=0)}, "interval must be an integer >= 1; got 0"),
    ({"learner": Variational(covariance="x")}, r"covariance must be one of \['diag', 'full'\]"),
    ({"learner": Grid(2)}, "n_points must be an integer >= 3; got 2"),
    ({"base": 0}, "base must be a number > 0 and <= 1000000.0; got 0"),
    ({"base": -1.0}, "base must be a number > 0 and <= 1000000.0; got -1"),
    ({"base": 1e300}, r"base must be a number > 0 and <= 1000000.0; got 1e\+300"),
    ({"base": "gauss"}, "base must be .*; got 'gauss'"),
    (
        {"node_layers": ()},
        "node_layers must be a tuple with the number of units of each hidden layer",
    ),
    (
        {"edge_layers": ()},
        "edge_layers must be a tuple with the number of units of each hidden layer",
    ),
    ({"node_layers": (0,)}, "node_layers must be an integer >= 1; got 0"),
    ({"edge_layers": (3, 2.5)}, r"edge_layers must be an integer; got 2\.5"),
    ({"density": "model"}, r"density must be one of \['mixture', 'mrf'\]; got 'model'"),
    ({"early_stopping": "yes"}, "early_stopping must be .*; got 'yes'"),
    ({"early_stopping": 1}, "early_stopping must be .*; got 1"),
    ({"optimizer": "lbfgs"}, 'optimizer="lbfgs" needs a deterministic objective'),
    ({"categorical_features": "all"}, 'categorical_features must be "from_dtype", None, or a lis'),
    ({"categorical_features": 3}, 'categorical_features must be "from_dtype", None, or a list'),
    (
        {"categorical_features": ["z"]},
        r"has 'z', which is not a column; the columns are \['a', 'b', 'c'\]",
    ),
    (
        {"categorical_features": [3]},
        "categorical_features has 3, which is not a column; the columns are",
    ),
    ({"categorical_features": [True]}, "has 1 booleans, but X has 3 columns"),
    ({"categorical_features": ["b"]}, "Column 'b' holds real numbers such as .*KBinsDiscretizer"),
    ({"max_bytes": 100}, "bytes, more than max_bytes=100. Use a sparser graph"),
]


def test_memory_check_of_first_layers():
    """There are three units for each of three node networks and three edge networks."""
    with pytest.raises(ValueError, match="Learning 27 weights of first layers needs"):
        small(max_bytes=1200).fit(NAMED)


@pytest.mark.parametrize(("parameters", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS)))
def test_bad_parameters(parameters, message):
    model = small(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(NAMED)
    assert not_fitted(model)
    model = classes(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(NAMED, np.resize([0, 1], 30))
    assert not_fitted(model)


ONLY_DENSITY = [
    (
        {"prior_covariance": np.eye(2)},
        r"prior_covariance must be a symmetric positive definite matrix of shape",
    ),
    ({"categories": [[0]]}, "categories has 1 lists"),
    ({"shrinkage": 1.5}, "shrinkage must be a number >= 0 and <= 1; got 1.5"),
    ({"shrinkage": -0.1}, "shrinkage must be a number >= 0 and <= 1; got -0.1"),
]
LACKING = [
    ({"base": "gauss"}, "gaussian"),
    ({"base": None}, "gaussian"),
    ({"node_layers": 8}, "node_layers"),
    ({"prior_covariance": "a"}, "prior_covariance"),
    ({"prior_covariance": np.full((3, 3), np.nan)}, "prior_covariance"),
    ({"prior_covariance": -np.eye(3)}, "prior_covariance"),
    ({"prior_covariance": np.tri(3)}, "prior_covariance"),
    ({"early_stopping": "yes"}, "True"),
    ({"alpha": None}, "auto"),
]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        *ONLY_DENSITY,
        *LACKING,
    ],
)
def test_bad_parameters_of_densities(parameters, message):
    model = small(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(NAMED)
    assert not_fitted(model)


@pytest.mark.parametrize(
    "priors", [[0.5], [0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0], "a", 1.0, [[0.5, 0.5]]], ids=str
)
def test_bad_priors(priors):
    model = classes(priors=priors)
    with pytest.raises(
        ValueError, match="priors must be 2 probabilities that sum to 1, one per cl"
    ):
        model.fit(GOOD, np.resize([0, 1], 30))
    assert not_fitted(model)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        (np.linspace(0, 1, 30), "Unknown label type"),
        (np.zeros(29), "inconsistent numbers of samples"),
        (np.zeros((30, 2)), "y should be a 1d array|multilabel|Unknown label type"),
        (np.where(np.arange(30) > 3, np.nan, 1.0), "NaN"),
    ],
    ids=range(5),
)
def test_bad_targets(y, message):
    model = classes()
    with pytest.raises(ValueError, match=message):
        model.fit(NAMED, y)
    assert not_fitted(model)


@pytest.mark.parametrize("n", [1, 15])
def test_columns_without_entries_in_a_class(n):
    """The density of the class uses the column's values in all classes."""
    y = np.where(np.arange(30) < 30 - n, "x", "y")
    kinds = np.resize(["u", "v", "v"], 30).astype(object)
    table = NAMED.assign(
        b=NAMED["b"].where(y == "x"), kind=pd.Categorical(np.where(y == "x", kinds, None))
    )
    with pytest.warns(UserWarning, match="Column 'b' has no observed entry in class 'y'\\. The"):
        model = classes(rule="bayes").fit(table, y)
    drawn = model.sample(400, y="y", random_state=0).to_numpy()
    mean, spread = NAMED["b"].mean(), NAMED["b"].std()
    assert abs(np.mean(drawn[:, 1].astype(float)) - mean) < spread
    assert set(drawn[:, -1]) == {"u", "v"}
    assert np.isfinite(model.score_samples(table)).all()
    assert_allclose(classes().fit(table, y).predict_proba(table).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(30), "All sample weights are zero"),
        (-np.ones(30), r"sample_weight\[0\] is -1.0; weights must be finite and not negative"),
        (np.full(30, np.nan), r"sample_weight\[0\] is nan"),
        (np.ones(3), r"sample_weight.shape == \(3,\), expected \(30,\)"),
    ],
    ids=range(4),
)
def test_bad_weights(weights, message):
    model = small()
    with pytest.raises(ValueError, match=message):
        model.fit(GOOD, sample_weight=weights)
    assert not_fitted(model)
    model = classes()
    with pytest.raises(ValueError, match=message):
        model.fit(GOOD, np.resize([0, 1], 30), sample_weight=weights)
    assert not_fitted(model)


def test_failed_fits_keep_the_previous_model():
    y = np.resize([0, 1], 30)
    model, parts = small().fit(NAMED), classes().fit(NAMED, y)
    before = dict(vars(model)), dict(vars(parts))
    scores = model.score_samples(NAMED), parts.predict_proba(NAMED)
    for data in (np.full((4, 2), np.inf), pd.DataFrame({"z": [np.inf, 1.0]}), GOOD[:0]):
        with pytest.raises(ValueError):
            model.fit(data)
        with pytest.raises(ValueError):
            parts.fit(data, y[: len(data)])
    with pytest.raises(ValueError, match="graph must be"):
        model.set_params(graph="ring").fit(GOOD[:, :2])
    with pytest.raises(ValueError, match="graph must be"):
        parts.set_params(graph="ring").fit(GOOD[:, :2], y)
    model.set_params(graph="complete")
    parts.set_params(graph="complete")
    assert vars(model).keys() == before[0].keys()
    assert vars(parts).keys() == before[1].keys()
    assert_array_equal(model.score_samples(NAMED), scores[0])
    assert_array_equal(parts.predict_proba(NAMED), scores[1])
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="Learning diverged"):
        small(optimizer="sgd", learning_rate=1e39, max_iter=5).fit(NAMED)


@both
def test_bad_queries(density):
    model = small(density=density, categorical_features=["d"])
    table = NAMED.assign(d=np.resize(["u", "v"], 30))
    model.fit(table)
    for wrong, message in (
        (table.assign(d="w"), "Column 'd' has the category 'w', which was not seen in fit"),
        (table.assign(a=np.inf), "Column 'a' holds infinity"),
        (table.assign(a="tall"), "Column 'a' holds 'tall', which is not a number"),
        (table.rename(columns={"a": "z"}), "Feature names unseen at fit time"),
        (table.to_numpy()[:, :2], "X has 2 features, but NNMRFDensity is expecting 4"),
        (table.iloc[:0], r"Found array with 0 sample\(s\)"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for ask in (model.score_samples, model.score, lambda X: model.sample(30, given=X)):
                with pytest.raises(ValueError, match=message):
                    ask(wrong)
    with pytest.raises(ValueError, match="n_samples must be an integer >= 1; got 0"):
        model.sample(0)
    with pytest.raises(ValueError, match=r"given names column 'z'; the columns are \['a'"):
        model.sample(given={"z": 1})
    with pytest.raises(ValueError, match="Column 'd' has the category 'w'"):
        model.sample(given={"d": "w"})
    with pytest.raises(ValueError, match="Column 'a' holds 'tall', which is not a number"):
        model.sample(given={"a": "tall"})
    with pytest.raises(ValueError, match="given has 30 rows; give one row, or n_samples=2 rows"):
        model.sample(2, given=table)
    with pytest.raises(ValueError, match="random_state must be None, an int"):
        model.sample(1, random_state="seed")


def test_bad_queries_of_classifiers():
    model = classes().fit(NAMED, np.resize(["x", "y"], 30))
    for ask in (model.predict, model.predict_proba, model.score_samples):
        with pytest.raises(ValueError, match="Column 'a' holds infinity"):
            ask(NAMED.assign(a=np.inf))
        with pytest.raises(ValueError, match="Feature names unseen at fit time"):
            ask(NAMED.rename(columns={"a": "z"}))
        with pytest.raises(NotFittedError):
            getattr(classes(), ask.__name__)(NAMED)
    with pytest.raises(NotFittedError):
        classes().sample()
    with pytest.raises(ValueError, match=r"y has the class 'z', .* classes are \['x', 'y'\]"):
        model.sample(3, y="z")
    with pytest.raises(ValueError, match=r"y must be one class, or n_samples=3 classes; .*2"):
        model.sample(3, y=["x", "y"])
    with pytest.raises(ValueError, match="n_samples must be an integer >= 1; got 0"):
        model.sample(0)
