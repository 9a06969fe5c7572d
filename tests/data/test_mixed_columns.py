"""Tests of the conversion of tables with continuous and categorical columns."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from skmrf._data.categories import as_columns, to_floats
from skmrf._data.column_types import (
    DISCRETE_TYPES,
    _are_uniform,
    find_column_types,
    resolve_column_types,
)
from skmrf._data.mixed import fit_columns, warn_degenerate
from skmrf._data.transforms import FARTHEST, learn_transform

NAMES = ["size", "kind", "age", "flag"]
MASK = np.array([False, True, False, True])
LEVELS = np.add.outer(range(5), 0.03 * norm.ppf(np.arange(1, 400) / 400)).ravel()  # with noise


def table(seed, n=30):
    """Return two continuous columns with different units, a text column and an integer column."""
    rng = np.random.default_rng(seed)
    return [
        rng.normal(1e6, 1e5, size=n),
        np.resize(np.array(["tree", "fern", "moss"], dtype=object), n)[rng.permutation(n)],
        rng.normal(-3.0, 1e-4, size=n),
        np.resize([2, 7], n)[rng.permutation(n)],
    ]


def with_missing_entries(columns, rng):
    """Replace about a third of the entries: nan in numeric columns, None in text columns."""
    out = []
    for column in columns:
        gone = (rng.random(len(column)) < 0.3) & (np.arange(len(column)) > 2)
        column = column.astype(object if column.dtype == object else float)
        column[gone] = None if column.dtype == object else np.nan
        out.append(column)
    return out


# Encoding ----------------------------------------------------------------------------------


def test_numbers_are_standardised_and_categories_are_codes(seed):
    columns = table(seed)
    found = fit_columns(columns, NAMES, MASK, "auto")
    assert (found.continuous.tolist(), found.discrete.tolist()) == ([0, 2], [1, 3])
    assert found.n_states.tolist() == [0, 3, 0, 2]
    X = found.encode(columns)
    assert X.dtype == np.float64
    assert_allclose(X[:, found.continuous].mean(axis=0), 0.0, atol=1e-9)
    assert_allclose(X[:, found.continuous].std(axis=0), 1.0, rtol=1e-9)
    assert [found.categories[0][int(s)] for s in X[:, 1]] == columns[1].tolist()
    assert found.categories[0].tolist() == ["fern", "moss", "tree"]
    assert_array_equal(found.categories[1][X[:, 3].astype(int)], columns[3])


def test_round_trip(seed):
    columns = table(seed)
    found = fit_columns(columns, NAMES, MASK, "auto")
    back = found.decode(found.encode(columns))
    assert back.dtype == object
    assert back.shape == (30, 4)
    assert back[:, 1].tolist() == columns[1].tolist()
    assert back[:, 3].tolist() == columns[3].tolist()
    for j in (0, 2):
        assert_allclose(back[:, j].astype(float), columns[j], rtol=1e-12)


def test_round_trip_of_numbers_and_numeric_categories(seed):
    columns = table(seed)
    columns[1] = np.resize([1.5, -2.0, 0.0], 30)
    found = fit_columns(columns, NAMES, MASK, "auto")
    back = found.decode(found.encode(columns))
    assert back.dtype == np.float64
    assert_allclose(back, np.stack(columns, axis=1), rtol=1e-12)


def test_round_trip_of_one_kind_only(seed):
    columns = table(seed)
    numbers = [columns[j] for j in (0, 2)]
    found = fit_columns(numbers, NAMES[::2], np.zeros(2, bool), "auto")
    assert_allclose(found.decode(found.encode(numbers)), np.stack(numbers, axis=1), rtol=1e-12)
    words = [columns[j] for j in (1, 3)]
    found = fit_columns(words, NAMES[1::2], np.ones(2, bool), "auto")
    back = found.decode(found.encode(words))
    assert [back[:, k].tolist() for k in range(2)] == [w.tolist() for w in words]
    assert_array_equal(found.log_scale(found.encode(words)), 0.0)


def test_missing_entries(seed):
    """Missing entries are nan in all columns and do not change means and scales."""
    rng = np.random.default_rng(seed)
    columns = with_missing_entries(table(seed), rng)
    found = fit_columns(columns, NAMES, MASK, "auto")
    X = found.encode(columns)
    for j, column in enumerate(columns):
        assert_array_equal(np.isnan(X[:, j]), pd.isna(column))
    for k, j in enumerate(found.continuous):
        assert_allclose(found.mean[k], np.nanmean(columns[j]), rtol=1e-12)
        assert_allclose(found.scale[k], np.nanstd(columns[j]), rtol=1e-6)
    numbers = found.decode(np.where(np.isnan(X) & MASK, 0.0, X))[:, ::2].astype(float)
    assert_allclose(numbers, np.stack(columns[::2], axis=1), rtol=1e-12)


def test_log_scale(seed):
    """The log scale is the log Jacobian of the standardisation of the observed entries."""
    columns = with_missing_entries(table(seed), np.random.default_rng(seed))
    found = fit_columns(columns, NAMES, MASK, "auto")
    expected = [
        sum(np.log(np.nanstd(columns[j])) for j in (0, 2) if not np.isnan(columns[j][r]))
        for r in range(30)
    ]
    assert_allclose(found.log_scale(found.encode(columns)), expected, rtol=1e-5, atol=1e-9)


def test_weights_equal_repeated_rows(seed):
    columns = table(seed, 12)
    counts = np.random.default_rng(seed).integers(0, 4, size=12)
    counts[0] = 2
    repeated = [np.repeat(c, counts) for c in columns]
    weighted = fit_columns(columns, NAMES, MASK, "auto", counts / counts.sum())
    expected = fit_columns(repeated, NAMES, MASK, "auto")
    assert_allclose(weighted.mean, expected.mean, rtol=1e-12)
    assert_allclose(weighted.scale, expected.scale, rtol=1e-6)


def test_given_categories():
    columns = [np.array([1.0, 2.0]), np.array(["b", "a"], dtype=object)]
    names, mask = ["x", "y"], np.array([False, True])
    found = fit_columns(columns, names, mask, [["c", "b", "a"]])
    assert found.n_states.tolist() == [0, 3]
    assert found.encode(columns)[:, 1].tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="The categories of column 'y' must be distinct"):
        fit_columns(columns, names, mask, [["a", "a"]])


# Scales ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-200, 1e-6, 1e6, 1e200, 1e306])
def test_scales(scale, seed):
    x = np.random.default_rng(seed).normal(size=40)
    columns = [x * scale]
    found = fit_columns(columns, ["x"], np.zeros(1, bool), "auto")
    X = found.encode(columns)
    assert_allclose(X[:, 0], (x - x.mean()) / x.std(), rtol=1e-9, atol=1e-9)
    assert_allclose(found.decode(X), columns[0][:, None], rtol=1e-9, atol=1e-9 * scale)


@pytest.mark.parametrize("value", [0.0, 3.0, -1e6, 0.1, 1e-300, 1e200])
def test_a_constant_column_is_zero(value):
    """A constant column has scale 1, not the rounding error of its deviation."""
    columns = [np.full(17, value)]
    found = fit_columns(columns, ["x"], np.zeros(1, bool), "auto")
    assert found.scale[0] == 1.0
    assert_allclose(found.encode(columns), 0.0, atol=1e-12 * max(abs(value), 1.0))
    assert_allclose(found.decode(found.encode(columns)), value)


def test_large_offset_is_not_a_constant_column(seed):
    x = 1e6 + np.random.default_rng(seed).normal(size=50)
    found = fit_columns([x], ["x"], np.zeros(1, bool), "auto")
    assert_allclose(found.encode([x])[:, 0].std(), 1.0, rtol=1e-6)


@pytest.mark.parametrize(
    "x", [[1.7e308, -1.7e308], [-1.7e308, 1.6e308, 1.7e308, -1.7e308]], ids=len
)
def test_numbers_too_large(x):
    """Very large numbers raise an error that names the column, or give no overflow warning."""
    try:
        found = fit_columns([np.array(x)], ["x"], np.zeros(1, bool), "auto")
    except ValueError as error:
        assert re.match("Column 'x' holds .*e[+]308, which is too large", str(error))  # noqa: PT017
        return
    assert np.isfinite(found.encode([np.array(x)])).all()


# Errors ------------------------------------------------------------------------------------


def assert_raises_and_names(columns, message, mask=MASK, kind=ValueError, categories="auto"):
    with pytest.raises(kind, match=message):
        fit_columns(columns, NAMES, mask, categories)


def test_invalid_numbers_raise(seed):
    columns = table(seed)
    columns[0] = columns[0].astype(object)
    columns[0][4] = "tall"
    assert_raises_and_names(
        columns, "Column 'size' holds 'tall', which is not a number; if its values are categ"
    )
    columns[0] = np.array(["tall"] * 30)
    assert_raises_and_names(columns, "Column 'size' holds 'tall', which is not a number")
    columns[0] = table(seed)[0]
    columns[0][4] = -np.inf
    assert_raises_and_names(columns, "Column 'size' holds infinity; use nan")
    columns[0] = np.full(30, np.nan)
    assert_raises_and_names(columns, "Column 'size' has no observed entry; drop it")


def test_invalid_categories_raise(seed):
    columns = table(seed)
    columns[3] = columns[0]
    assert_raises_and_names(columns, "Column 'flag' holds real numbers")
    columns[3] = np.full(30, None)
    assert_raises_and_names(columns, "Column 'flag' has no observed entry")
    columns[3] = np.array([[1]] * 30 + [None], dtype=object)[:30]
    assert_raises_and_names(columns, "Column 'flag' holds a list", kind=TypeError)


def test_invalid_query_rows_raise(seed):
    columns = table(seed)
    found = fit_columns(columns, NAMES, MASK, "auto")
    changed = [c.copy() for c in columns]
    changed[1][3] = "oak"
    with pytest.raises(ValueError, match="Column 'kind' has the category 'oak'"):
        found.encode(changed)
    changed = [c.copy() for c in columns]
    changed[2][3] = np.inf
    with pytest.raises(ValueError, match="Column 'age' holds infinity"):
        found.encode(changed)
    changed[2] = np.full(30, "old")
    with pytest.raises(ValueError, match="Column 'age' holds 'old', which is not a number"):
        found.encode(changed)


@pytest.mark.parametrize(
    "column",
    [
        np.array([1, 2, 3]),
        np.array([True, False, True]),
        np.array(["1", "0", "2.5"]),
        np.array([1, None, 2.5], dtype=object),
        np.array([1, pd.NA, 2.5], dtype=object),
        np.array([1, np.nan, 2.5], dtype=np.float32),
    ],
    ids=lambda c: str(c.dtype),
)
def test_valid_numeric_columns(column):
    found = to_floats(column, "x")
    assert found.dtype == np.float64
    for value, given in zip(found, column.tolist(), strict=True):
        assert np.isnan(value) if pd.isna(given) else value == float(given)


# Degenerate columns ------------------------------------------------------------------------


def test_warns_of_degenerate_columns():
    X = np.random.default_rng(0).normal(size=(20, 4))
    X[:, 1], X[:, 2] = 3.0, np.resize([0, 1], 20)
    X[4, 2] = np.nan
    with pytest.warns(UserWarning, match="the likelihood of a density has no maximum") as caught:
        warn_degenerate(X, np.array([0, 1, 2]), NAMES)
    messages = [str(w.message) for w in caught]
    assert len(messages) == 2
    assert messages[0].startswith("Column 'kind' is constant, so the likelihood")
    assert messages[0].endswith("To avoid this, drop it.")
    assert messages[1].startswith("Column 'age' has only two values")
    assert messages[1].endswith('To avoid this, give it the type "categorical" in column_types.')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_degenerate(X, np.array([0, 3]), NAMES)
        warn_degenerate(X[:2], np.array([0, 3]), NAMES)


# Selection of categorical columns ----------------------------------------------------------


def frame():
    return pd.DataFrame(
        {
            "size": [1.0, 2.0, 3.0],
            "kind": pd.Categorical(["a", "b", "a"]),
            "age": [1, 2, 3],
            "flag": pd.Categorical([7, 7, 2], categories=[2, 7], ordered=True),
        }
    )


def types_of(X, column_types="auto", **options):
    return resolve_column_types(column_types, X, as_columns(X), NAMES[: X.shape[1]], **options)


def test_types_by_dtype():
    assert types_of(frame()) == ["integer", "categorical", "integer", "ordinal"]
    polar = pl.DataFrame(
        {
            "size": [1.5, 2.0],
            "kind": pl.Series(["a", "b"], dtype=pl.Categorical),
            "age": [1, 2],
            "flag": pl.Series(["x", "y"], dtype=pl.Enum(["x", "y"])),
        }
    )
    assert types_of(polar) == ["continuous", "categorical", "categorical", "categorical"]
    assert types_of(np.zeros((2, 4))) == ["categorical"] * 4
    assert types_of(frame(), by_dtype=False)[2] == "categorical"
    assert types_of(frame(), "continuous") == ["continuous"] * 4


@pytest.mark.parametrize(
    "dtype", ["int64", "uint8", "Int64", "float32", "Float64", "Sparse[int]", "Sparse[float]"]
)
def test_types_of_frames_with_one_data_type(dtype):
    X = np.stack([np.arange(40) % 20, np.arange(40) % 21], axis=1)
    table = pd.DataFrame(X, columns=["few", "many"]).astype(dtype)
    assert types_of(table) == types_of(X) == ["categorical", "integer"]
    assert types_of(pl.DataFrame({"few": X[:, 0], "many": X[:, 1]})) == types_of(X)
    assert types_of(table.astype({"many": "category"})) == ["integer", "categorical"]
    assert types_of(table.assign(many="a")) == ["integer", "categorical"]
    assert types_of(table.assign(many=X[:, 0] > 3)) == ["integer", "boolean"]
    mixed = table.assign(many=X[:, 1].astype("int8" if table["few"].dtype.kind == "f" else float))
    assert types_of(mixed) == ["integer", "integer"]
    assert types_of(mixed, by_dtype=False) == ["categorical", "integer"]


@pytest.mark.parametrize("dtype", ["int64", "uint8", "Int64"])
@pytest.mark.parametrize("other", [np.arange(40) % 7, np.arange(40) % 21, np.linspace(-1, 1, 40)])
def test_missing_entries_do_not_change_the_types(dtype, other):
    few = pd.Series(np.arange(40) % 5).astype(dtype)
    table = pd.DataFrame({"few": few, "other": other, "last": np.arange(40) % 3})
    incomplete = table.assign(few=few.where(few.index > 2))
    assert incomplete["few"].isna().any()
    assert types_of(incomplete) == types_of(table)
    polar = pl.DataFrame({c: table[c].to_list() for c in table})
    assert types_of(polar.with_columns(few=pl.Series([None, *polar["few"][1:]]))) == types_of(polar)
    floats = table.astype("float64").assign(other=0.5)
    assert types_of(floats.assign(few=incomplete["few"].astype("float64"))) == types_of(floats)


def test_a_missing_entry_does_not_make_integers_categories():
    table = pd.DataFrame({"count": np.arange(40) % 5, "length": np.linspace(-1, 1, 40)})
    incomplete = table.assign(count=table["count"].where(table.index > 0))
    assert types_of(incomplete) == types_of(table) == ["integer", "continuous"]
    assert types_of(incomplete.assign(name="a"))[:2] == types_of(table)
    assert types_of(incomplete.assign(code=np.arange(40.0)))[0] == "categorical"


@pytest.mark.parametrize("names", ["int8 UInt64", "float double[pyarrow]", "Float32 halffloat"])
def test_uniform_data_types(names):
    assert _are_uniform(names.split())
    assert not _are_uniform([*names.split(), "bool"])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.arange(40) % 20, "categorical"),
        (np.arange(40) % 21, "integer"),
        (np.r_[np.arange(40) % 20, np.nan], "categorical"),
        (np.r_[np.arange(40) % 20, 0.5], "non-negative"),
        (np.linspace(-1, 1, 40), "continuous"),
        (np.linspace(0, 1, 40), "bounded"),
        (np.linspace(-1, 1, 2000), "bounded"),
        (LEVELS, "continuous"),
        (np.linspace(0.3, 0.9, 40), "non-negative"),
        (np.linspace(0.3, 0.9, 10), "continuous"),
        (np.array([True, False] * 20), "boolean"),
        (np.array([True, None] * 20), "boolean"),
        (np.array(["a", "b"] * 20), "categorical"),
        (np.array(["1", "0.5"] * 20), "non-negative"),
        (np.full(40, np.nan), "continuous"),
        (np.array([1, 10**400], dtype=object), "continuous"),
    ],
)
def test_types_by_value(values, expected):
    assert find_column_types(values[:, None], [values]) == [expected]


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "ordinal", "age": "auto"},
        {1: "ordinal"},
        {-3: "ordinal"},
        ["auto", "ordinal", "auto", "auto"],
    ],
    ids=str,
)
def test_types_by_name_and_index(given):
    assert types_of(frame(), given) == ["integer", "ordinal", "integer", "ordinal"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("kind", r"column_types must be .* a list .* got 'kind'. The types are \['continuous', "),
        ({4: "integer"}, "column_types has 4, which is not a column; the columns are"),
        ({-5: "integer"}, "column_types has -5, which"),
        ({"colour": "integer"}, "column_types has 'colour', which is not a column"),
        ({1.5: "integer"}, "column_types has 1.5, which"),
        (["integer"] * 2, "one type for each of the 4 columns"),
        ({"age": "number"}, "column_types gives column 'age' the type 'number'; a type is one of"),
        ({"age": 3}, "column_types gives column 'age' the type 3; a type is one of"),
    ],
    ids=str,
)
def test_unknown_types_raise(given, message):
    with pytest.raises(ValueError, match=message):
        types_of(frame(), given)


@pytest.mark.parametrize("polars", [False, True])
def test_frames_with_missing_entries(polars):
    """Frames with missing entries are encoded by data type and decoded again."""
    words, sizes = ["a", None, "b", "a"], [1.0, 2.0, None, 6.0]
    if polars:
        X = pl.DataFrame({"size": sizes, "kind": pl.Series(words, dtype=pl.Categorical)})
    else:
        X = pd.DataFrame({"size": sizes, "kind": pd.Categorical(words)})
    names = ["size", "kind"]
    columns = as_columns(X)
    mask = np.isin(resolve_column_types("auto", X, columns, names), DISCRETE_TYPES)
    assert mask.tolist() == [False, True]
    found = fit_columns(columns, names, mask, "auto")
    assert found.categories[0].tolist() == ["a", "b"]
    encoded = found.encode(columns)
    assert_array_equal(np.isnan(encoded), [[0, 0], [0, 1], [1, 0], [0, 0]])
    assert_array_equal(encoded[[0, 2, 3], 1], [0, 1, 0])
    assert_allclose(found.mean, 3.0)
    back = found.decode(encoded[[0, 3]])
    assert back[:, 1].tolist() == ["a", "a"]
    assert_allclose(back[:, 0].astype(float), [1.0, 6.0])


# Monotone transforms -----------------------------------------------------------------------

KINDS_OF_ROWS = {
    "normal": (lambda rng: rng.normal(size=300), "continuous"),
    "heavy tails": (lambda rng: rng.standard_t(2, size=300), "continuous"),
    "exponential": (lambda rng: rng.exponential(size=300), "non-negative"),
    "shares": (lambda rng: rng.beta(2, 5, size=300), "bounded"),
    "outlier": (lambda rng: np.append(rng.normal(size=99), 1e30), "continuous"),
}


@pytest.mark.parametrize("name", KINDS_OF_ROWS)
def test_transforms_are_monotone_and_have_the_right_slope(name, seed):
    make, kind = KINDS_OF_ROWS[name]
    x = np.sort(make(np.random.default_rng(seed)))
    found = learn_transform(x, np.ones(len(x)), kind)
    z = found.forward(x)
    assert (np.diff(z) > 0).all()
    assert_allclose(found.inverse(z), x, rtol=1e-6, atol=1e-9)
    middle, h = slice(20, 80), 1e-5 * found.scale
    slope = (found.forward(x[middle] + h) - found.forward(x[middle] - h)) / (2 * h)
    assert_allclose(found.log_slope(z[middle]), np.log(slope), atol=1e-4)
    draws = found.inverse(np.linspace(-8, 8, 100))
    assert (draws >= (0 if kind in ("non-negative", "bounded") else -np.inf)).all()
    assert (draws <= (1 if kind == "bounded" else np.inf)).all()


@pytest.mark.parametrize("kind", ["continuous", "non-negative", "integer"])
def test_few_far_values_do_not_change_a_transform(kind, seed):
    """A number that stands for an unknown value, and a total, are no part of the distribution."""
    x = np.rint(np.random.default_rng(seed).gamma(9.0, 100.0, size=200))
    alone = learn_transform(x, np.ones(200), kind)
    for far in ([1e6], [99999.0, x.sum()]):
        both = learn_transform(np.append(x, far), np.ones(200 + len(far)), kind)
        assert_allclose(both.forward(x), alone.forward(x), rtol=1e-9)
        assert_allclose(both.extremes, alone.extremes, rtol=1e-9)
        assert (both.forward(np.array(far)) > 8.0).all()
    many = learn_transform(np.append(x, [1e6, 2e6, 3e6, 4e6]), np.ones(204), kind)
    assert many.extremes[1] == many.forward(4e6)


@pytest.mark.parametrize("n", [30, 300, 3000])
def test_heavy_tails_have_no_far_values(n, seed):
    """Their logarithms, or similar numbers, are about normal."""
    for rng in np.random.default_rng(seed).spawn(12):
        for x, kind in (
            (np.exp(2.0 * rng.normal(size=n)), "non-negative"),
            (rng.standard_t(2, size=n), "continuous"),
        ):
            found = learn_transform(x, np.ones(n), kind)
            assert found.extremes[1] == found.forward(x.max())


def test_transforms_find_point_masses_and_rounding(seed):
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(400) < 0.3, 0.0, rng.exponential(size=400))
    assert learn_transform(x, np.ones(400), "non-negative").spikes.tolist() == [0.0]
    x = np.minimum(rng.exponential(size=400), 1.0)
    assert learn_transform(x, np.ones(400), "non-negative").spikes.tolist() == [1.0]
    x = rng.normal(5, 1, 400)
    assert not len(learn_transform(x, np.ones(400), "continuous").spikes)
    found = learn_transform(np.round(x, 1), np.ones(400), "continuous")
    assert found.step == 0.1
    draws = found.inverse(rng.normal(size=50))
    assert_array_equal(draws, np.round(draws, 1))
    counts = learn_transform(rng.poisson(30, 400) * 1.0, np.ones(400), "integer")
    draws = counts.inverse(np.clip(5 * rng.normal(size=50), *counts.reach))
    assert_array_equal(draws, np.abs(np.rint(draws)))
    x = 0.0123 + 0.0371 * rng.integers(50, size=400)
    known = set(np.round(x, 9))
    found = learn_transform(x, np.ones(400), "continuous")
    assert set(np.round(found.inverse(found.forward(x)), 9)) <= known


def test_all_values_of_a_rounded_column_with_irregular_values_are_point_masses(seed):
    """Not those of counts, of regular values, and of amounts with many zeros."""
    rng, doses = np.random.default_rng(seed), [95.0, 175.0, 250.0, 350.0, 500.0, 675.0, 1000.0]
    found = learn_transform(rng.permutation(8 * doses), np.ones(56), "integer")
    assert found.spikes.tolist() == doses
    amounts = rng.negative_binomial(2, 0.02, 400) * (rng.random(400) < 0.3)
    years, counts = 1952 + 5 * rng.integers(12, size=400), rng.poisson(3, size=400)
    for x in (amounts, years, counts, rng.binomial(6, 0.5, 400)):
        assert len(learn_transform(x * 1.0, np.ones(400), "integer").spikes) <= 1


@pytest.mark.parametrize("size", [1e300, 1e305, 1e307])
@pytest.mark.parametrize("kind", ["continuous", "non-negative", "bounded", "integer"])
def test_transforms_of_large_numbers(kind, size, seed):
    """Draws are finite and in the range of floating-point numbers, without warnings."""
    x = np.abs(np.random.default_rng(seed).normal(size=100)) * size
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = learn_transform(x, np.ones(100), kind)
        draws = found.inverse(np.linspace(-40, 40, 100))
        assert_allclose(found.inverse(found.forward(x)), x, rtol=1e-6)
    assert np.isfinite(draws).all()
    assert np.isfinite(found.high) == (kind == "bounded")
    assert (np.diff(draws) >= -1e-12 * size).all()
    assert draws[-1] > x.max() > draws[0]


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_units_do_not_change_the_rounding_of_a_column(unit, seed):
    """Ties at 0 and values below 1e-6 are not values that are rounded to 1."""
    rng = np.random.default_rng(seed)
    x = unit * np.concatenate([np.zeros(30), rng.exponential(size=70)])
    found = learn_transform(x, np.ones(100), "non-negative")
    assert found.step == 0.0
    assert_allclose(found.inverse(found.forward(x[30:])), x[30:])


FEW_ROWS = {
    "shares": (lambda rng, n: rng.beta(0.5, 2.0, size=n), "bounded", 1.0),
    "heavy tail": (lambda rng, n: np.exp(2.0 * rng.normal(size=n)), "non-negative", np.inf),
    "near zero": (lambda rng, n: rng.gamma(0.3, size=n), "non-negative", np.inf),
}


@pytest.mark.parametrize("n", [6, 20])
@pytest.mark.parametrize("name", FEW_ROWS)
@pytest.mark.parametrize("deviation", [1.0, 1.7])
def test_transformed_densities_integrate_to_one(name, n, deviation, seed):
    """Also between a bound and the nearest training value, for a normal z of any variance."""
    make, kind, high = FEW_ROWS[name]
    x = make(np.random.default_rng(seed), n)
    found = learn_transform(x, np.ones(n), kind)
    reach = min(float(found.inverse(12.0)), high)
    jump = found.least * found.scale  # distance from a bound at which the density has a jump
    distances = np.append(np.geomspace(1e-13 * jump, reach / 2, 2000), jump)
    grid = np.unique(np.concatenate([distances, reach - distances]))
    nodes, shares = np.polynomial.legendre.leggauss(6)
    half = np.diff(grid) / 2
    points = grid[:-1, None] + half[:, None] * (nodes + 1)
    z = found.forward(points)
    p = np.exp(norm.logpdf(z, scale=deviation) + found.log_slope(z))
    assert half @ (p @ shares) == pytest.approx(1.0, abs=2e-4)


def test_transforms_near_bounds_are_monotone(seed):
    x = np.random.default_rng(seed).beta(0.5, 2.0, size=10)
    found = learn_transform(x, np.ones(10), "bounded")
    nearest = min(x.min(), 1 - x.max())
    distances = nearest * np.array([1e-4, 1e-3, 1e-2, 0.1, 0.4, 0.6, 0.9])
    for near in (distances, 1 - distances[::-1]):
        z = found.forward(near)
        assert (np.diff(z) > 0).all()
        assert_allclose(found.inverse(z), near, rtol=1e-6)
    assert np.isfinite(found.forward(np.array([0.0, 1.0]))).all()
    assert_array_equal(np.abs(found.forward(np.array([-0.1, 1.1]))), FARTHEST)


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("name", FEW_ROWS)
def test_densities_at_bounds_are_moderate(name, n, seed):
    """A value at the bound is neither very rare nor more probable than all others."""
    make, kind, _ = FEW_ROWS[name]
    found = learn_transform(make(np.random.default_rng(seed), n), np.ones(n), kind)
    z = found.forward(found.scale * found.least * np.array([0.0, 1e-9, 0.99]))
    for mean, deviation in ((0.0, 1.0), (0.0, 1.7), (-1.0, 1.2)):
        logs = norm.logpdf(z, mean, deviation) + found.log_slope(z)
        assert (logs[:2] < logs[2] + 7.0).all()
        assert (logs[:2] > logs[2] - 25.0).all()
