"""Tests of categorical columns of NNMRFDensity and NNMRFClassifier."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from nnmrf_models import KINDS, both, classes, plants, ring, small
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import cross_val_score

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def bits(n, seed):
    rng = np.random.default_rng(seed)
    a = rng.random(n) < 0.3
    b = a ^ (rng.random(n) < 0.1)
    return np.stack([a, b, b ^ (rng.random(n) < 0.2)], axis=1).astype(int)


@both
def test_tables_of_categorical_columns_only(density, seed):
    X = bits(150, seed)
    model = small(density=density, categorical_features=[0, 1, 2], max_iter=150).fit(X)
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


def test_frames_and_forms_of_categorical_features(seed):
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
        (polars.with_columns(pl.col("kind").cast(pl.Categorical)), "from_dtype"),
        (polars.with_columns(pl.col("kind").cast(pl.Enum(KINDS.tolist()))), "from_dtype"),
        (polars, ["kind"]),
        (pd.DataFrame(columns), ["kind"]),
        (pandas, [1]),
        (pandas, [False, True]),
        (plain, [1]),
        (plain, [-1]),
        (pandas, np.array(["kind"])),
        (plain, np.array([False, True])),
        (plain.tolist(), [1]),
        (codes, [1]),
    ):
        other = small(categorical_features=named).fit(table)
        assert_array_equal(other.score_samples(table), expected)
    y = np.resize([0, 1], 60)
    expected = classes().fit(pandas, y).predict_proba(pandas)
    found = classes(categorical_features=["kind"]).fit(polars, y).predict_proba(polars)
    assert_array_equal(found, expected)


def frames_with_declared_category(columns):
    """Return pandas and polars frames that declare a category that no row has."""
    known = [*KINDS.tolist(), "never"]
    pandas = pd.DataFrame(columns)
    pandas["kind"] = pd.Categorical(pandas["kind"], categories=known)
    return pandas, pl.DataFrame(columns).with_columns(pl.col("kind").cast(pl.Enum(known)))


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
    given = {"categorical_features": ["kind"], "categories": [[*KINDS.tolist(), "never"]]}
    parts = classes(**given).fit(plain, y)
    assert_array_equal(parts.predict_proba(plain), classes().fit(table, y).predict_proba(table))
    with pytest.raises(
        ValueError, match=r"not seen in fit.*Give all categories in categories= before"
    ):
        classes(categorical_features=["kind"]).fit(plain, y).predict(plain.assign(kind="never"))
    empty = table.with_columns(pl.lit(None).cast(table["kind"].dtype).alias("kind"))
    assert np.isfinite(small().fit(empty).score_samples(table)).all()
    assert_allclose(classes().fit(empty, y).predict_proba(table).sum(axis=1), 1.0)
    rare = frames_with_declared_category(columns | {"kind": ["never", *columns["kind"][1:]]})[0]
    assert np.isfinite(cross_val_score(classes(), rare, y, cv=3, error_score="raise")).all()


def test_datetime_categories(seed):
    days = pd.to_datetime(["2026-01-01", "2026-01-02"]).to_numpy().astype("datetime64[ns]")
    plain = pd.DataFrame({"x": ring(40, seed)[:, 0], "day": np.resize(days, 40)})
    named = {"categorical_features": ["day"]}
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
    model = small(density=density, categorical_features=["kind"]).fit(table)
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
    numeric = small(density=density, categorical_features=[1]).fit(codes * [1, 5])
    X = numeric.sample(30, random_state=0)
    assert X.dtype == float
    assert set(X[:, 1]) <= {0.0, 5.0, 10.0}


def test_given_categories(seed):
    codes = plants(60, seed)
    model = small(categorical_features=[1], categories=[[2, 0, 1, 7]]).fit(codes)
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
    assert len(model.categories_) == (kind not in ("whole numbers", "floats", "polars"))
    assert model.sample(3, random_state=0).shape == (3, 2)
    y = np.resize([0, 1], 30)
    assert_allclose(classes().fit(table, y).predict_proba(table).sum(axis=1), 1.0)
