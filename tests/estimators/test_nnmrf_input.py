"""Tests of bad input and of categorical columns of estimators with neural potentials."""

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from estimator_models import KINDS, both, classes, line, plants, ring, small
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from skmrf import GaussianPotentials, MRFImputer, NetworkPotentials, NNMRFDensity
from skmrf.learners import Grid, Variational

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
GOOD = line(30, 0, 3)
NAMED = pd.DataFrame(GOOD, columns=["a", "b", "c"])


def with_entry(column, row, value):
    table = NAMED.astype(object)
    table[column] = [value if i == row else v for i, v in enumerate(table[column])]
    return table


TEXT = "Column 'b' holds 'tall', which is not a number; if its values are categories"
BAD_DATA = [
    (with_entry("b", 3, np.inf), ValueError, "Column 'b' holds infinity; use nan"),
    (with_entry("b", 3, -np.inf), ValueError, "Column 'b' holds infinity; use nan"),
    (with_entry("b", 3, "tall"), ValueError, TEXT),
    (with_entry("b", 3, {"x": 1}), TypeError, "Column 'b' holds a dict"),
    (NAMED.assign(b=np.nan), ValueError, "Column 'b' has no observed entry; drop it"),
    (NAMED.assign(b=None), ValueError, "Column 'b' has no observed entry; drop it"),
    (NAMED.assign(b=np.resize([1.7e308, -1.7e308, 0.5], 30)), ValueError, "Column 'b' holds 1.7e"),
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
    ({"column_types": "all"}, 'column_types must be "auto", a type, a dict, or a list with one'),
    ({"column_types": 3}, 'column_types must be "auto", a type, a dict, or a list with one type'),
    ({"column_types": {"a": "colour"}}, "column_types gives column 'a' the type 'colour'; a type"),
    (
        {"column_types": {"z": "categorical"}},
        r"has 'z', which is not a column; the columns are \['a', 'b', 'c'\]",
    ),
    (
        {"column_types": {3: "categorical"}},
        "column_types has 3, which is not a column; the columns are",
    ),
    ({"column_types": ["categorical"]}, "one type for each of the 3 columns"),
    (
        {"column_types": {"b": "categorical"}},
        "Column 'b' holds real numbers such as .*KBinsDiscretizer",
    ),
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
        model = classes().fit(table, y)
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
        model.set_params(potentials__graph="ring").fit(GOOD[:, :2])
    with pytest.raises(ValueError, match="graph must be"):
        parts.set_params(potentials__graph="ring").fit(GOOD[:, :2], y)
    model.set_params(potentials__graph="complete")
    parts.set_params(potentials__graph="complete")
    assert vars(model).keys() == before[0].keys()
    assert vars(parts).keys() == before[1].keys()
    assert_array_equal(model.score_samples(NAMED), scores[0])
    assert_array_equal(parts.predict_proba(NAMED), scores[1])
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="Learning diverged"):
        small(optimizer="sgd", learning_rate=1e39, max_iter=5).fit(NAMED)


@both
def test_bad_queries(density):
    model = small(density=density, column_types={"d": "categorical"})
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
    with pytest.raises(ValueError, match=r"given has 'z', .* columns are \['a'"):
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


# Categorical columns -----------------------------------------------------------------------------


def bits(n, seed):
    rng = np.random.default_rng(seed)
    a = rng.random(n) < 0.3
    b = a ^ (rng.random(n) < 0.1)
    return np.stack([a, b, b ^ (rng.random(n) < 0.2)], axis=1).astype(int)


@pytest.mark.long
@both
def test_tables_of_categorical_columns_only(density, seed):
    X = bits(150, seed)
    model = small(
        density=density,
        column_types={0: "categorical", 1: "categorical", 2: "categorical"},
        max_iter=150,
    ).fit(X)
    every = np.array(np.unravel_index(np.arange(8), (2, 2, 2))).T
    p = np.exp(model.score_samples(every))
    assert p.sum() == pytest.approx(1.0, abs=1e-6)
    frequencies = np.bincount(X @ [4, 2, 1], minlength=8) / len(X)
    assert np.abs(p - frequencies).max() < (0.08 if density == "mrf" else 0.15)
    assert model.log_partition_method_ == "exact"
    lower, upper = model.log_partition_interval_
    assert lower == model.log_partition_ == upper
    draws = model.sample(2000 if density == "mixture" else 700, random_state=seed)
    counts = np.bincount((draws @ [4, 2, 1]).astype(int), minlength=8) / len(draws)
    assert (np.abs(counts - p) < 5 * np.sqrt(p * (1 - p) / len(draws)) + 0.01).all()
    some = np.array([[np.nan, 1, np.nan]])
    atol = 1e-6 if density == "mixture" else 0.3
    expected = np.log(p[every[:, 1] == 1].sum())
    assert model.score_samples(some)[0] == pytest.approx(expected, abs=atol)


def test_frames_and_forms_of_column_types(seed):
    """All forms of the input give the same fit."""
    codes = plants(60, seed)
    words = KINDS[codes[:, 1].astype(int)]
    columns = {"height": codes[:, 0], "kind": words}
    pandas = pd.DataFrame(columns)
    pandas["kind"] = pandas["kind"].astype("category")
    polars = pl.DataFrame({"height": codes[:, 0], "kind": words.tolist()})
    plain = np.empty((60, 2), dtype=object)
    plain[:, 0], plain[:, 1] = codes[:, 0], words
    model = small().fit(pandas)
    expected = model.score_samples(pandas)
    assert model.categories_[0].tolist() == KINDS.tolist()
    assert model.feature_names_in_.tolist() == ["height", "kind"]
    for table, named in (
        (polars.with_columns(pl.col("kind").cast(pl.Categorical)), "auto"),
        (polars.with_columns(pl.col("kind").cast(pl.Enum(KINDS.tolist()))), "auto"),
        (polars, {"kind": "categorical"}),
        (pd.DataFrame(columns), "auto"),
        (pandas, {1: "categorical"}),
        (pandas, ["continuous", "ordinal"]),
        (plain, {1: "categorical"}),
        (plain, {-1: "categorical", 0: "auto"}),
        (pandas, np.array(["continuous", "categorical"])),
        (plain.tolist(), {1: "categorical"}),
        (codes, "auto"),
    ):
        other = small(column_types=named).fit(table)
        assert_array_equal(other.score_samples(table), expected)
    y = np.resize([0, 1], 60)
    expected = classes().fit(pandas, y).predict_proba(pandas)
    found = classes(column_types={"kind": "categorical"}).fit(polars, y).predict_proba(polars)
    assert_array_equal(found, expected)


def frames_with_declared_category(columns):
    """Return pandas and polars frames that declare a category that no row has."""
    known = [*KINDS.tolist(), "never"]
    pandas = pd.DataFrame(columns)
    pandas["kind"] = pd.Categorical(pandas["kind"], categories=known)
    return pandas, pl.DataFrame(columns).with_columns(pl.col("kind").cast(pl.Enum(known)))


@pytest.mark.long
def test_declared_categories(seed):
    """Categories that a data type declares are valid, even if no training row has them."""
    codes = plants(60, seed)
    columns = {"height": codes[:, 0], "kind": KINDS[codes[:, 1].astype(int)].tolist()}
    y = np.resize([0, 1], 60)
    for table in frames_with_declared_category(columns):
        other = frames_with_declared_category(columns | {"kind": ["never"] * 60})[
            isinstance(table, pl.DataFrame)
        ]
        model, parts = small().fit(table), classes().fit(table, y)
        assert model.categories_[0].tolist() == parts.categories_[0].tolist()
        assert model.categories_[0].tolist()[-1] == "never"
        assert model.score_samples(other).mean() < model.score_samples(table).mean()
        assert_allclose(parts.predict_proba(other).sum(axis=1), 1.0)
    plain = pd.DataFrame(columns)
    given = {"column_types": {"kind": "categorical"}, "categories": [[*KINDS.tolist(), "never"]]}
    parts = classes(**given).fit(plain, y)
    assert_array_equal(parts.predict_proba(plain), classes().fit(table, y).predict_proba(table))
    with pytest.raises(
        ValueError, match=r"not seen in fit.*Give all categories in categories= before"
    ):
        classes(column_types={"kind": "categorical"}).fit(plain, y).predict(
            plain.assign(kind="never")
        )
    empty = table.with_columns(pl.lit(None).cast(table["kind"].dtype).alias("kind"))
    assert np.isfinite(small().fit(empty).score_samples(table)).all()
    assert_allclose(classes().fit(empty, y).predict_proba(table).sum(axis=1), 1.0)
    rare = frames_with_declared_category(columns | {"kind": ["never", *columns["kind"][1:]]})[0]
    assert np.isfinite(cross_val_score(classes(), rare, y, cv=3, error_score="raise")).all()


def test_datetime_categories(seed):
    days = pd.to_datetime(["2026-01-01", "2026-01-02"]).to_numpy().astype("datetime64[ns]")
    plain = pd.DataFrame({"x": ring(40, seed)[:, 0], "day": np.resize(days, 40)})
    named = {"column_types": {"day": "categorical"}}
    for table, given in ((plain, named), (plain.astype({"day": "category"}), {})):
        model = small(**given).fit(table)
        assert set(model.sample(30, random_state=seed)["day"].to_numpy()) == set(days)
        rows = model.sample(3, random_state=seed)
        assert rows.dtypes.equals(table.dtypes)
        assert np.isfinite(model.score_samples(rows)).all()


@both
def test_draws_are_in_the_categories_of_the_user(density, seed):
    codes = plants(60, seed)
    table = pd.DataFrame({"height": codes[:, 0], "kind": KINDS[codes[:, 1].astype(int)]})
    model = small(density=density, column_types={"kind": "categorical"}).fit(table)
    X = model.sample(30, random_state=0)
    assert X.dtypes.equals(table.dtypes)
    assert set(X["kind"]) <= set(KINDS)
    X = model.sample(5, given={"kind": "moss"}, random_state=0)
    assert X["kind"].tolist() == ["moss"] * 5
    given = pd.DataFrame({"height": [1.5, np.nan], "kind": [None, "tree"]})
    X = model.sample(2, given=given, random_state=0)
    assert X["height"][0] == pytest.approx(1.5)
    assert X["kind"][1] == "tree"
    plain = small(density=density).fit(table.to_numpy())
    X = plain.sample(30, random_state=0)
    assert X.dtype == object
    assert set(X[:, 1]) <= set(KINDS)
    assert all(isinstance(v, float) for v in X[:, 0])
    numeric = small(density=density, column_types={1: "categorical"}).fit(codes * [1, 5])
    X = numeric.sample(30, random_state=0)
    assert X.dtype == float
    assert set(X[:, 1]) <= {0.0, 5.0, 10.0}


def test_given_categories(seed):
    codes = plants(60, seed)
    model = small(column_types={1: "categorical"}, categories=[[2, 0, 1, 7]]).fit(codes)
    assert model.categories_[0].tolist() == [2, 0, 1, 7]
    assert np.isfinite(model.score_samples([[0.0, 7.0]])).all()
    with pytest.raises(ValueError, match="Column 1 has the category 3"):
        model.score_samples([[0.0, 3.0]])


def frames(seed):
    """Return frames with several data types, some with missing entries."""
    x = np.random.default_rng(seed).normal(size=30)
    return {
        "whole numbers": pd.DataFrame({"x": x, "a": pd.array([1, None, 3] * 10, dtype="Int64")}),
        "floats": pd.DataFrame({"x": x, "a": pd.array(x**2, dtype="Float64")}),
        "intervals": pd.DataFrame({"x": x, "a": pd.cut(x, 3)}),
        "numbers": pd.DataFrame({"x": x, "a": pd.Categorical([1, 2, None] * 10)}),
        "words": pd.DataFrame({"x": x, "a": pd.Categorical(["u", "v", None] * 10)}),
        "polars": pl.DataFrame({"x": x, "a": [1, None, 4] * 10}),
        "polars words": pl.DataFrame({"x": x, "a": ["u", None, "v"] * 10}).with_columns(
            pl.col("a").cast(pl.Categorical)
        ),
    }


@pytest.mark.filterwarnings("ignore:Column 'a' has only two values")
@pytest.mark.parametrize("kind", frames(0))
def test_types_of_frames(kind, seed):
    table = frames(seed)[kind]
    model = small().fit(table)
    assert np.isfinite(model.score_samples(table)).all()
    assert len(model.categories_) == sum(
        t in ("categorical", "ordinal") for t in model.column_types_
    )
    assert model.sample(3, random_state=0).shape == (3, 2)
    y = np.resize([0, 1], 30)
    assert_allclose(classes().fit(table, y).predict_proba(table).sum(axis=1), 1.0)


# Values beyond the training rows ----------------------------------------------------------------


def curved_and_straight(seed, name):
    """Return rows of a column with bounds and of a column that is a noisy linear function of it."""
    rng = np.random.default_rng(seed)
    x = rng.gamma(2.0, 1.0, 300) if name == "non-negative" else rng.random(300)
    return np.stack([x, 3.0 * x + 0.3 * rng.normal(size=300)], axis=1)


@pytest.mark.parametrize("name", ["non-negative", "bounded"])
def test_values_beyond_the_training_rows_do_not_impute_extreme_values(name, seed):
    X = curved_and_straight(seed, name)
    rows = np.array([[x, np.nan] for x in (-1.0, -0.01, 0.0, 1.001, 15.0, 1000.0)])
    width = np.ptp(X[:, 1])
    imputer = MRFImputer(NNMRFDensity(), random_state=seed).fit(X)
    assert imputer.estimator_.column_types_[0] == name
    for strategy in ("mode", "marginal", "sample"):
        imputed = imputer.set_params(strategy=strategy).transform(rows)[:, 1]
        assert imputed.min() > X[:, 1].min() - width
        assert imputed.max() < X[:, 1].max() + width
    quantiles = imputer.estimator_.marginals(rows)[1]
    assert np.ptp(quantiles) < 3 * width


def test_dependence_on_columns_without_bounds_is_extrapolated(seed):
    """Values without wide tails have linear transforms, so the dependence stays linear."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2.0, 2.0, size=(300, 1))
    X = np.hstack([x, 2.0 * x + rng.normal(size=(300, 1))])
    model = NNMRFDensity(GaussianPotentials(1), column_types="continuous", random_state=seed)
    found = model.fit(X).predict([[30.0, np.nan]])[0, 1]
    assert 40.0 < found < 80.0


@pytest.mark.parametrize("potentials", ["gaussian", NetworkPotentials(max_iter=1)])
def test_observed_numbers_stay_as_they_are(potentials, seed):
    X = curved_and_straight(seed, "bounded")
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "n": np.arange(300) % 30})
    model = NNMRFDensity(potentials, random_state=seed).fit(table)
    rows = pd.DataFrame({"a": [-1.0, 1 / 3, 7.0], "b": np.nan, "n": [3, 40, 5]})
    found = model.predict(rows)
    drawn = [model.sample(3, given=rows), model.sample(3, given={"a": -1.0, "n": 40})]
    assert found[["a", "n"]].equals(rows[["a", "n"]])
    assert drawn[0][["a", "n"]].equals(rows[["a", "n"]])
    assert (drawn[1][["a", "n"]] == [-1.0, 40]).all(axis=None)
    assert all(np.isfinite(frame["b"]).all() for frame in (found, *drawn))
    if potentials == "gaussian":
        for name, quantiles in zip("ab", model.marginals(rows), strict=False):
            observed = rows[[name]].to_numpy()
            assert np.isfinite(quantiles).all()
            assert (np.isnan(observed) | (quantiles == observed)).all()


def test_samples_stay_below_a_cap(seed):
    """Scores of at most 100 and capped prices have an upper bound; counts have none."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "score": 100 - np.rint(np.minimum(rng.exponential(8.0, 400), 100.0)).astype(int),
            "price": np.minimum(rng.gamma(4.0, 8.0, 400), 50.0),
            "visits": rng.poisson(8.0, 400),
        }
    )
    model = NNMRFDensity(random_state=seed).fit(table)
    draws = model.sample(3000, random_state=seed)
    assert draws["score"].max() == 100
    assert draws["price"].max() == 50.0
    assert abs((draws["score"] == 100).mean() - (table["score"] == 100).mean()) < 0.04
    more = table.iloc[:1].assign(visits=table["visits"].max() + 2)
    above, at = (model.score_samples(more.assign(score=score))[0] for score in (101, 100))
    assert -np.inf < above < at


def test_rows_far_above_the_training_rows(seed):
    """Their density is about the true one, and totals stay totals in the tail."""
    rng = np.random.default_rng(seed)
    x, far = np.exp(4 * rng.normal(size=(300, 1))), np.exp(4 * np.array([[4.0], [5.0], [6.0]]))
    logs = NNMRFDensity(random_state=seed).fit(x).score_samples(far)
    true = norm.logpdf(np.log(far[:, 0]), scale=4.0) - np.log(far[:, 0])
    assert (np.abs(logs - true) < [4.0, 8.0, 15.0]).all()  # at 4, 5 and 6 standard deviations
    parts = rng.gamma(9.0, size=(200, 2))
    rows = np.column_stack([parts, parts.sum(axis=1)])
    model = NNMRFDensity(random_state=seed).fit(rows)
    assert model.score_samples([[25.0, 25.0, 50.0]])[0] > model.score(rows) - 60.0
