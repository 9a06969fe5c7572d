"""Tests of tables of users: masked arrays, booleans, and frames with the types of fit."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal
from sklearn.base import clone

from skmrf import (
    RBM,
    TRUSTED_TYPES,
    BoltzmannMachine,
    DiscreteMRF,
    NetworkPotentials,
    NNMRFBayesClassifier,
    NNMRFDensity,
)
from skmrf._data.categories import encode, merge_copies, value_codes
from skmrf._data.column_types import find_column_types
from skmrf._data.frame_types import FrameType
from skmrf._data.frames import as_columns
from skmrf._data.mixed import learn_columns
from skmrf._data.numeric import _scale_dense, find_far_values, find_linear_functions
from skmrf._data.supports import find_support, log_rounded_density
from skmrf._data.transforms import learn_transform
from skmrf._utils.rows import count_rows, find_copies
from skmrf.estimators.nnmrf.gaussian_potentials import learn_transformed_columns
from skmrf.learners import PCD

NETS = NetworkPotentials(node_layers=(2,), edge_layers=(2,), max_iter=1)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
WORDS = np.array(["x", "y", "z"])


def independent(**parameters):
    return DiscreteMRF("independent", "exact", alpha=0.1, **parameters)


def codes(seed, n=40):
    """Return codes of the rows; each code occurs."""
    return np.concatenate([np.arange(3), np.random.default_rng(seed).integers(3, size=n - 3)])


def pandas_frame(seed):
    i = codes(seed)
    days = pd.Timestamp("2026-01-01") + pd.to_timedelta(i, "D")
    columns = {
        "category": pd.Categorical(WORDS[i], ["z", "y", "x", "never"], ordered=True),
        "numbers": pd.Categorical(i),
        "string": pd.array(WORDS[i], "string"),
        "str": pd.Series(WORDS[i], dtype="str"),
        "object": WORDS[i].astype(object),
        "Int64": pd.array(i, "Int64"),
        "int8": i.astype("int8"),
        "uint8": i.astype("uint8"),
        "float32": i.astype("float32"),
        "boolean": pd.array(i > 0, "boolean"),
        "bool": i > 0,
        "days": days,
    }
    return pd.DataFrame(columns).set_index(np.arange(len(i)) + 7)


def polars_frame(seed):
    i = codes(seed)
    days = pl.Series(["2026-01-01", "2026-01-02", "2026-01-03"])
    columns = {
        "category": pl.Series(WORDS[i], dtype=pl.Categorical),
        "enum": pl.Series(WORDS[i], dtype=pl.Enum(["z", "y", "x", "never"])),
        "string": WORDS[i].tolist(),
        "int16": i.astype("int16"),
        "float32": i.astype("float32"),
        "bool": i > 0,
        "date": days.str.to_date().gather(i),
        "time": days.str.to_datetime(time_unit="ms", time_zone="UTC").gather(i),
    }
    return pl.DataFrame(columns)


def with_missing(X):
    """Return the frame with missing entries in its rows 0 and 1."""
    if isinstance(X, pl.DataFrame):
        places = pl.int_range(pl.len()) < 2
        return X.with_columns(pl.when(places).then(None).otherwise(pl.all()).name.keep())
    columns = {name: X[name].where(np.arange(len(X)) > 1) for name in X if name != "bool"}
    return pd.DataFrame(columns).assign(bool=X["bool"])[list(X)]


# Frames in, frames out ----------------------------------------------------------------------


def test_pandas_frames_come_back(seed):
    X = pandas_frame(seed)
    model = independent().fit(X)
    assert_frame_equal(model.predict(X), X)
    filled = model.predict(with_missing(X))
    assert filled.dtypes.equals(X.dtypes)
    assert not filled.isna().any(axis=None)
    assert_frame_equal(filled.iloc[2:], X.iloc[2:])
    drawn = model.sample(5, random_state=0)
    assert drawn.dtypes.equals(X.dtypes)
    assert drawn.index.tolist() == list(range(5))
    assert model.sample(len(X), given=with_missing(X), random_state=0).index.equals(X.index)
    for name, table in zip(X, model.marginals(X), strict=True):
        assert table.index.equals(X.index)
        assert_array_equal(table.idxmax(axis=1), X[name])
        np.testing.assert_allclose(table.sum(axis=1), 1.0)


def test_polars_frames_come_back(seed):
    X = polars_frame(seed)
    model = independent().fit(X)
    assert model.predict(X).equals(X)
    filled = model.predict(with_missing(X))
    assert filled.schema == X.schema
    assert not any(filled.null_count().row(0))
    assert model.sample(5, random_state=0).schema == X.schema
    tables = model.marginals(X)
    assert tables[0].columns == ["x", "y", "z"]
    assert tables[5].columns == ["False", "True"]
    assert (tables[5]["True"].to_numpy() == X["bool"].to_numpy()).all()


def test_frames_of_the_library_of_fit(seed):
    """The result has the library of the rows of fit, whatever the rows of the query are."""
    X = pandas_frame(seed)[["category", "int8"]]
    model = independent().fit(X)
    rows = pl.DataFrame({"category": ["x", None], "int8": [None, 2]})
    assert isinstance(model.predict(rows), pd.DataFrame)
    plain = independent().fit(X.to_numpy())
    assert isinstance(plain.set_params().predict(X.to_numpy()), np.ndarray)
    assert isinstance(plain.marginals(X.to_numpy())[0], np.ndarray)
    assert isinstance(clone(model).fit(X.to_numpy()).sample(2), np.ndarray)


def test_frames_of_other_estimators(seed):
    X = pandas_frame(seed)[["bool", "boolean"]].assign(whole=pd.array(codes(seed) % 2, "Int64"))
    for model in (BoltzmannMachine("exact", states=(0, 1), alpha=0.1), RBM(2, max_iter=2)):
        model.fit(X)
        assert model.sample(4, random_state=0).dtypes.equals(X.dtypes)
        polars = clone(model).fit(pl.DataFrame({name: X[name].tolist() for name in X}))
        assert polars.sample(4, random_state=0).schema == {
            "bool": pl.Boolean, "boolean": pl.Boolean, "whole": pl.Int64
        }  # fmt: skip
    machine = BoltzmannMachine("exact", states=(0, 1), alpha=0.1).fit(X)
    assert machine.predict(X.assign(whole=np.nan)).dtypes.equals(X.dtypes)
    assert machine.marginals(X)[2].columns.tolist() == [0, 1]


def test_states_beyond_the_data_type(seed):
    """The state -1 does not become 255 in a column of unsigned integers."""
    X = pandas_frame(seed)[["uint8", "int8"]]
    drawn = BoltzmannMachine("exact", binarize=0.5, alpha=0.1).fit(X).sample(20, random_state=0)
    assert set(drawn["uint8"]) == {-1, 1}
    assert drawn["int8"].dtype == np.int8


def test_frames_of_densities(seed):
    names = ["category", "str", "bool", "boolean"]
    X = pandas_frame(seed)[names].assign(
        size=np.random.default_rng(seed).normal(size=40).astype(np.float32),
        age=pd.array(30 + 5 * codes(seed) + np.arange(40) % 5, "Int64"),
    )
    model = NNMRFDensity(NETS, random_state=0).fit(X)
    assert [c.tolist() for c in model.categories_] == [
        ["z", "y", "x", "never"], ["x", "y", "z"], [False, True], [False, True]
    ]  # fmt: skip
    assert model.sample(5, random_state=0).dtypes.equals(X.dtypes)
    missing = X.mask(np.random.default_rng(seed).random(X.shape) < 0.3).astype(
        X.dtypes.drop("bool").to_dict()
    )
    filled = model.predict(missing)
    assert filled.dtypes.equals(X.dtypes)
    assert_frame_equal(filled[missing["str"].notna()][["str"]], X[missing["str"].notna()][["str"]])
    classes = NNMRFBayesClassifier(NETS, random_state=0).fit(X, np.arange(40) % 2)
    assert classes.sample(5, random_state=0).dtypes.equals(X.dtypes)


def test_arrow_types(seed):
    pa = pytest.importorskip("pyarrow")
    i = codes(seed)
    X = pd.DataFrame({"i": i, "b": i > 0, "s": WORDS[i]}).convert_dtypes(dtype_backend="pyarrow")
    X["d"] = X["s"].astype(pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))
    model = independent().fit(X)
    missing = X.copy()
    missing.iloc[:2] = pd.NA
    assert model.predict(missing).dtypes.equals(X.dtypes)
    assert_frame_equal(model.predict(X), X)


@pytest.mark.long
def test_types_survive_storage(seed):
    io = pytest.importorskip("skops.io")
    for X in (pandas_frame(seed).drop(columns="days"), polars_frame(seed)[:, :6]):
        model = independent().fit(X)
        expected = model.sample(3, random_state=0)
        stored = pickle.loads(pickle.dumps(model)), io.loads(io.dumps(model), trusted=TRUSTED_TYPES)
        for copied in stored:
            assert copied.sample(3, random_state=0).equals(expected)


def test_frame_type_of_other_tables():
    assert all(FrameType.of(X) is None for X in (np.zeros((2, 2)), [[1, 2]]))


# Masked arrays ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [float, int, bool, object, "U1"])
def test_masked_entries_are_missing(dtype, seed):
    rng = np.random.default_rng(seed)
    X, mask = rng.integers(2, size=(30, 3)).astype(dtype), rng.random((30, 3)) < 0.3
    mask[:, 0], mask[0] = False, [False, True, False]
    masked = np.ma.MaskedArray(X, mask)
    assert_array_equal(np.stack([pd.isna(c) for c in as_columns(masked)], axis=1), mask)
    objects = np.where(mask, None, X)
    model = independent().fit(masked)
    plain = independent().fit(objects)
    assert_array_equal(model.score_samples(masked), plain.score_samples(objects))
    assert_array_equal(model.predict(masked)[~mask], X[~mask])


def test_masked_entries_in_other_estimators(seed):
    rng = np.random.default_rng(seed)
    X, mask = rng.integers(2, size=(30, 3)), rng.random((30, 3)) < 0.2
    masked, floats = np.ma.MaskedArray(X, mask), np.where(mask, np.nan, X)
    machine = BoltzmannMachine("exact", states=(0, 1), alpha=0.1)
    found, expected = (clone(machine).fit(Y).coupling_ for Y in (masked, floats))
    assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="holds NaN, but RBM needs complete rows"):
        RBM(2, max_iter=1).fit(masked)
    numbers = np.ma.MaskedArray(rng.normal(size=(30, 3)), mask)
    model = NNMRFDensity(NETS, random_state=0).fit(numbers)
    assert_array_equal(model.score_samples(numbers), model.score_samples(numbers.filled(np.nan)))


# Truth values, words and numbers ------------------------------------------------------------


def test_one_and_one_point_zero_are_one_category():
    close = [2**63, 2.0**63, 2**63 + 1]  # float64 rounds the last one
    for column in ([1, 1.0, 2], [1, 1.0, "a"], [np.int8(1), np.float32(1), 2], close):
        model = independent().fit(X := np.array([column], dtype=object).T)
        assert len(model.categories_[0]) == 2
        assert_array_equal(model.score_samples(X[:1]), model.score_samples(X[1:2]))
    whole = independent().fit(pd.DataFrame({"a": [1, 2, 1]}))
    assert whole.predict(pd.DataFrame({"a": [1.0, np.nan]}))["a"].tolist() == [1, 1]


MIXED = [
    pd.DataFrame({"a": [1, 2] * 6, "b": [True, 1, 0] * 4}),
    pl.DataFrame({"a": [1, 2] * 6}).with_columns(pl.Series("b", [True, 1, 0] * 4, dtype=pl.Object)),
    [[1, True], [2, 1], [1, 0]] * 4,
    np.array([[1, True], [2, 1.5], [1, 0]] * 4, dtype=object),
]


@pytest.mark.parametrize("X", MIXED, ids=lambda X: type(X).__module__.split(".")[0])
@pytest.mark.parametrize(
    "model", [DiscreteMRF(), BoltzmannMachine(), RBM(), NNMRFDensity()], ids=lambda m: type(m)
)
def test_truth_values_among_numbers_raise(model, X):
    with pytest.raises(ValueError, match=r"Column ('b'|1) mixes booleans and numbers such as 1"):
        clone(model).fit(X)


def test_truth_values_and_words_are_categories(seed):
    """Truth values and words are categories of a density, in frames and arrays, with None."""
    i = codes(seed)
    x = np.random.default_rng(seed).normal(size=40)
    truth = (i > 0).astype(object)
    truth[5] = None
    array = np.empty((40, 3), dtype=object)
    array[:, 0], array[:, 1], array[:, 2] = x, truth, WORDS[i]
    frame = pd.DataFrame({"x": x, "b": truth, "w": WORDS[i]})
    tables = array, frame, pl.DataFrame({"x": x, "b": truth.tolist(), "w": WORDS[i].tolist()})
    scores = []
    for X in tables:
        model = NNMRFDensity(NETS, random_state=0).fit(X)
        assert [c.tolist() for c in model.categories_] == [[False, True], ["x", "y", "z"]]
        scores.append(model.score_samples(X))
    assert_array_equal(scores, [scores[0]] * 3)
    numbers = NNMRFDensity(NETS, random_state=0).fit(pd.DataFrame({"x": x, "text": x.astype(str)}))
    assert numbers.categories_ == []
    with pytest.raises(ValueError, match="Column 'x' holds 'a', which is not a number"):
        NNMRFDensity(NETS, random_state=0).fit(pd.DataFrame({"x": ["a", *x[1:]], "y": x}))


# Missing entries of two-state columns -----------------------------------------------------------

INCOMPLETE = [[0, 1], [1, np.nan], [1, 1], [0, 0], [1, 0]] * 4
OBJECTS = [[None if v != v else v for v in row] for row in INCOMPLETE]
FLAGS = pd.DataFrame(INCOMPLETE, columns=["a", "b"]).astype("boolean")


@pytest.mark.parametrize(
    "X",
    [
        OBJECTS,
        np.array(OBJECTS, dtype=object),
        np.array([[pd.NA if v is None else v for v in row] for row in OBJECTS], dtype=object),
        pd.DataFrame(OBJECTS, dtype=object),
        pd.DataFrame(OBJECTS, dtype=object).fillna(pd.NA),
        pd.DataFrame(INCOMPLETE).astype("Int64"),
        FLAGS,
        FLAGS.astype(object),
        pl.DataFrame(OBJECTS, orient="row"),
        pl.DataFrame(OBJECTS, orient="row").cast(pl.Boolean),
    ],
)
def test_missing_entries_of_two_state_columns(X):
    """None and NA are missing entries, as nan is."""
    model = BoltzmannMachine(PCD(n_chains=10), states=(0, 1), alpha=0.1, max_iter=2, random_state=0)
    expected = clone(model).fit(np.array(INCOMPLETE))
    model.fit(X)
    assert_array_equal(model.coupling_, expected.coupling_)
    assert_array_equal(model.score_samples(X), expected.score_samples(np.array(INCOMPLETE)))
    filled = as_columns(model.predict(X))[1].astype(float)
    assert_array_equal(filled, expected.predict(np.array(INCOMPLETE))[:, 1])


def test_missing_given_entry_is_drawn():
    rows = np.random.default_rng(0).integers(2, size=(30, 2))
    model = BoltzmannMachine(PCD(n_chains=10), states=(0, 1), alpha=0.1, max_iter=2, random_state=0)
    drawn = model.fit(rows).sample(40, given={0: 1, 1: pd.NA}, random_state=0)
    assert (drawn[:, 0] == 1).all()
    assert len(np.unique(drawn[:, 1])) == 2


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32])
def test_binary_rows_are_checked(dtype):
    X = np.random.default_rng(0).integers(0, 2, (400, 3)).astype(dtype)
    X[:, 0] = 1  # more ones than an integer of one byte can count
    assert_array_equal(count_rows(X, 1), (X == 1).sum(axis=0))
    assert count_rows(X[:, :0], 1).shape == (0,)
    with pytest.raises(ValueError, match="All values are 0 or 1: set states="):
        BoltzmannMachine(states=(-1, 1)).fit(X.astype(np.int8))
    X[7, 2] = -1
    with pytest.raises(ValueError, match=r"Column 2 holds -1(\.0)?, but the states are 0 and 1"):
        RBM().fit(X)


LARGE = [2**53 + k for k in (0, 1, 2, 3, 0, 1)]
COLUMNS = [pd.array([*LARGE, None], dtype=name) for name in ("Int64", "UInt64")]
COLUMNS += [pd.Categorical([*LARGE, None]), pl.Series([*LARGE, None])]


@pytest.mark.parametrize("column", COLUMNS)
def test_large_integers_beside_floats_are_not_rounded(column):
    """A float64 has 53 bits. Integers of other data types are the same categories."""
    library = pl if isinstance(column, pl.Series) else pd
    X = library.DataFrame({"id": column, "x": np.arange(7) % 2 + 0.5})
    model = independent().fit(X)
    assert list(model.predict(X)["id"])[:6] == LARGE
    known = model.score_samples(X[:6])
    assert known[0] == known[4] > known[2]
    for dtype in (np.int64, np.uint64):
        rows = library.DataFrame({"id": np.array(LARGE, dtype), "x": X["x"][:6]})
        assert_array_equal(model.score_samples(rows), known)
    names, read = list(rows), as_columns(rows)
    for learn in (learn_columns, learn_transformed_columns):
        columns = learn(rows, read, names, ["categorical", "continuous"], "auto", np.ones(6))
        assert columns.decode(columns.encode(read))[:, 0].tolist() == LARGE


def test_far_values_of_columns_whose_values_are_mostly_equal(seed):
    numbers = np.random.default_rng(seed).gamma(9.0, size=40)
    x = np.concatenate([np.zeros(160), numbers, [np.nan, 1e9]])
    assert np.flatnonzero(find_far_values(x)).tolist() == [201]
    assert not find_far_values(x[:-1]).any()
    assert not find_far_values(np.r_[np.zeros(99), 1.0]).any()
    assert not find_far_values(1.7e308 * np.sign(numbers - 9.0)).any()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_text_of_digits(library, seed):
    """Leading zeros are the sign of codes. Other text of digits is numbers, and stays text."""
    rng = np.random.default_rng(seed)
    table = {
        "zip": rng.choice(["02139", "10001", "00501"], 200).tolist(),
        "count": rng.integers(100, 300, 200).astype(str).tolist(),
        "length": rng.normal(size=200),
    }
    X = (
        pd.DataFrame(table).astype({"count": "string"})
        if library == "pandas"
        else pl.DataFrame(table)
    )
    model = NNMRFDensity(random_state=seed).fit(X)
    assert model.column_types_ == ["categorical", "integer", "continuous"]
    rows = model.sample(50, random_state=seed)
    assert set(rows["zip"].to_list()) <= set(table["zip"])
    assert all(value.isdigit() for value in rows["count"].to_list())
    assert rows["count"].dtype == X["count"].dtype


def test_samples_of_curved_columns_stay_near_the_values(seed):
    """The inverse of a transform with a logarithmic tail increases exponentially."""
    x = np.exp(2 * np.random.default_rng(seed).normal(size=200))
    columns = learn_transformed_columns(x[:, None], [x], ["a"], "auto", "auto", np.ones(200))
    last = columns.transforms[0].forward(x.max())
    highest = columns.transforms[0].inverse(last + 1.5)
    assert_allclose(columns.decode(np.array([[last + 1.0], [30.0]])).max(), highest)


def test_totals_do_not_make_columns_linear_functions_of_others(seed):
    X = np.random.default_rng(seed).normal(size=(100, 3))
    assert not find_linear_functions(list(np.r_[X, [[1e7, 1e7, 1e7]]].T)).any()
    X[:, 2] = X[:, 0] - X[:, 1]
    assert find_linear_functions(list(X.T)).all()


def test_counts_without_a_bound_are_not_capped(seed):
    """The largest of 100 small counts often occurs ten times, but is rarer than the next ones."""
    rng = np.random.default_rng(seed)
    draws = [*rng.poisson(0.5, size=(300, 100)), *rng.binomial(2, 0.1, size=(300, 100))]
    assert np.mean([find_support(1.0 * x, "integer")[1] < np.inf for x in draws]) < 0.02
    assert find_support(100.0 - rng.geometric(0.1, size=400), "integer") == (0.0, 99.0)


@pytest.mark.parametrize("mean", [1.0, 3.0, 8.0])
def test_counts_of_arrays_are_integers(mean, seed):
    """A new row may have a larger count. Codes of categories have about equal frequencies."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(30):
        columns = [rng.poisson(mean, 600), rng.integers(0, 8, 600), rng.integers(1, 16, 600)]
        X = np.stack(columns, axis=1).astype(float)
        found.append(find_column_types(X, list(X.T)))
    assert np.mean([types[0] == "integer" for types in found]) > 0.7
    assert all(types[1:] == ["categorical", "categorical"] for types in found)
    for last, kind in ((18, "integer"), (24, "categorical")):
        x = np.repeat(np.arange(4.0), [400, 30, 25, last])
        assert find_column_types(x[:, None], [x]) == [kind]


@pytest.mark.parametrize("n", [12, 24])
def test_types_of_whole_numbers_of_few_rows(n, seed):
    """Codes up to 9 can have few rows each. Larger numbers with few equal ones are integers."""
    rng = np.random.default_rng(seed)
    heights, ages = np.rint(rng.normal(170, 10, (30, n))), rng.integers(20, 60, (30, n))
    assert all(find_column_types(x[:, None], [x]) == ["integer"] for x in [*heights, *ages])
    ratings, codes = rng.integers(1, 6, (30, n)), rng.integers(0, 4, (30, n))
    distant = rng.choice([10, 20, 30], (30, n))
    found = [find_column_types(x[:, None], [x]) for x in [*ratings, *codes, *distant]]
    assert np.mean([types == ["categorical"] for types in found]) > 0.9


@pytest.mark.parametrize(("deviation", "n"), [(1.0, 1000), (2.0, 300), (3.0, 1000)])
def test_negative_and_positive_numbers_with_rare_ends_are_integers(deviation, n, seed):
    """Negative codes have no rare ends on both sides, or begin at -1."""
    rng = np.random.default_rng(seed)
    draws = np.rint(deviation * rng.normal(size=(40, n)))
    assert np.mean([find_column_types(x[:, None], [x]) == ["integer"] for x in draws]) > 0.8
    others = [*rng.integers(-3, 4, (40, n)), *rng.integers(-8, -2, (40, n))]
    codes = rng.choice(np.arange(-1, 4), (40, n), p=[0.005, 0.6, 0.3, 0.08, 0.015])
    codes[:, 0] = -1
    others += list(codes)
    found = [find_column_types(x[:, None], [x]) for x in others]
    assert np.mean([types == ["categorical"] for types in found]) > 0.98


def test_the_error_of_an_unseen_number_names_the_types(seed):
    rng = np.random.default_rng(seed)
    X = np.c_[rng.normal(size=60), np.arange(60) % 5]
    message = r'Column 1 has the category 9\.0.* the type "integer" or "continuous" in column_types'
    with pytest.raises(ValueError, match=message):
        NNMRFDensity(random_state=seed).fit(X).score_samples([[0.0, 9.0]])
    for wrong, known in ((np.array(["w"]), np.array(["u"])), (np.array([9]), np.array([1]))):
        with pytest.raises(ValueError, match="not seen in fit") as error:
            encode([wrong], [known], ["kind"], has_types=known.dtype.kind == "U")
        assert "column_types" not in str(error.value)


def test_features_of_subnormal_size_are_not_scaled(seed):
    """The inverse of their scale would overflow."""
    X, weights = np.random.default_rng(seed).normal(size=(50, 2)), np.full(50, 0.02)
    X[:, 1] *= 1e-310
    shift, scale = _scale_dense(X, weights)
    assert_allclose(scale, [X[:, 0].std(), 1.0])
    assert_allclose(shift, X.mean(axis=0))


@pytest.mark.parametrize("ends", [(2.0, 8.0), (20.0, 80.0), (0.0, 360.0), (0.0, 1.0), (0.0, 100.0)])
def test_bounds_are_near_the_ends_of_the_values(ends, seed):
    low, high = find_support(np.random.default_rng(seed).uniform(*ends, size=1500), "bounded")
    margin = 0.02 * (ends[1] - ends[0])
    assert max(ends[0] - margin, 0.0) <= low <= ends[0] + margin
    assert ends[1] - margin <= high <= ends[1] + margin
    if ends[1] in (1.0, 100.0):
        assert (low, high) == ends


@pytest.mark.parametrize("n", [200, 800])
def test_density_that_increases_towards_1_or_100(n, seed):
    """Such columns have this bound. Others have none, even if their largest value is near it."""
    rng = np.random.default_rng(seed)
    shares = [*rng.beta(4, 0.3, (30, n)), *(1.0 - 10.0 ** (-6.0 * rng.random((30, n))))]
    percentages = 100.0 * rng.beta(8, 0.5, (30, n))
    for values, bound in ((shares, 1.0), (percentages, 100.0)):
        found = [find_support(x, "non-negative") == (0.0, bound) for x in values]
        assert np.mean(found) > 0.8
    others = [*rng.normal(5.0, 1.0, (100, n)), *rng.gamma(3.0, size=(100, n))]
    others = [x * (1.0 - 1e-6) / x.max() for x in [*others, *np.exp(rng.normal(size=(100, n)))]]
    assert np.mean([np.isfinite(find_support(x, "non-negative")[1]) for x in others]) < 0.02
    near = 0.01 * rng.random(n // 4) ** (1 / 3)  # the density decreases again towards the bound
    x = 1.0 - np.r_[near, rng.random(n // 4), 0.7 + rng.random(n // 2)] / 2
    assert find_support(x, "non-negative") == (0.0, np.inf)


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_columns_with_a_gap_have_no_far_samples(share, seed):
    """The logarithmic transform of heavy tails would fit two groups of values well."""
    rng = np.random.default_rng(seed)
    centres = np.where(rng.random(200) < share, -1.0, 1.0)
    x = centres + 0.02 * rng.normal(size=200)
    found = learn_transform(x, np.ones(200), "continuous")
    assert (np.abs(found.inverse(np.array([-2.5, 2.5]))) < 7.5).all()
    model = NNMRFDensity(random_state=seed).fit(np.c_[x, rng.normal(size=200)])
    assert np.abs(model.sample(4000, random_state=seed)[:, 0]).max() < 7.5


@pytest.mark.parametrize("n", [10, 20, 50])
def test_samples_of_rounded_columns_are_near_the_values(n, seed):
    """Repeated values are no evidence of a high density at a point, with wide tails around it."""
    rng = np.random.default_rng(seed)
    for draws in (rng.normal(size=(30, n)), rng.standard_t(2, size=(30, n))):
        for x in np.round(7.0 + 0.1 * draws, 1):
            found, width = learn_transform(x, np.ones(n), "continuous"), np.ptp(x)
            if width and np.isfinite(found.reach).all():
                low, high = found.inverse(np.array(found.reach))
                assert x.min() - 3.01 * width <= low < high <= x.max() + 3.01 * width
    x = np.round(7.0 + 0.1 * rng.normal(size=(60, n)), 1)
    found = [learn_transform(column, np.ones(n), "continuous") for column in x]
    assert np.mean([transform.softness >= 1.0 for transform in found]) > 0.9


def test_samples_of_few_values_are_near_them():
    x = np.array([0.1098, 0.1299, 0.1318, 0.1298, 0.06217])
    found = learn_transform(x, np.ones(5), "continuous")
    low, high = found.inverse(np.array(found.reach))
    assert x.min() - 3.01 * np.ptp(x) <= low < high <= x.max() + 3.01 * np.ptp(x)


def test_rounding_does_not_change_the_transform_much(seed):
    """Each transform is about the one of the values before rounding, also if it is curved."""
    rng = np.random.default_rng(seed)
    for x in (rng.normal(size=1000), rng.standard_t(2, size=1000), rng.laplace(size=1000)):
        exact = learn_transform(x, np.ones(1000), "continuous")
        rounded = learn_transform(np.round(x, 1), np.ones(1000), "continuous")
        assert 0.2 <= exact.softness / rounded.softness <= 5.0 or exact.softness > 2.0
        for softness in (1e3, 1.0, 0.2):
            transform = replace(exact, softness=softness, step=1e-3, origin=0.0)
            z = transform.forward(x)
            expected = transform.log_slope(z) - 0.5 * (z**2 + np.log(2.0 * np.pi))
            assert_allclose(log_rounded_density(transform, x), expected, atol=0.01)


def test_densities_far_above_non_negative_values(seed):
    """The tails are logarithmic, so a value 100 times the largest one is not extremely rare."""
    rng, factors = np.random.default_rng(seed), np.array([1.5, 3.0, 10.0, 100.0, 1e9])
    for x in (np.exp(4 * rng.normal(size=500)), rng.gamma(9, size=500), rng.poisson(9, 500)):
        found = learn_transform(x * 1.0, np.ones(500), "non-negative")
        far = np.rint(x.max() * factors)
        z = found.forward(far)
        rates = (found.forward(far * (1 + 1e-5)) - found.forward(far * (1 - 1e-5))) / 2e-5
        assert_allclose(found.log_slope(z), np.log(rates / far), atol=1e-4)
        assert_allclose(found.inverse(z), far, rtol=1e-7)
        assert (z < 6.0 + 2.0 * np.log(factors)).all()


def test_copies_of_rows(seed):
    """Equal rows are copies unless they are likely by chance. Missing entries are equal."""
    rng = np.random.default_rng(seed)
    n, again = 60, rng.permutation(np.r_[np.arange(60), rng.integers(60, size=40)])
    text = rng.choice(np.array(["a", "b", None], object), n)
    numbers = rng.normal(size=(2, n))
    numbers[:, :10] = np.nan
    text[:10] = [f"name {k}" for k in range(10)]
    codes = value_codes([text[again], *numbers[:, again]])
    first, inverse = find_copies(codes, np.array([False, True, True]))
    assert_array_equal(again[first][inverse], again)
    assert (np.diff(first) > 0).sum() == n - 1
    labels, weights, age = np.zeros(600), np.ones(600), rng.integers(70, size=600)
    zeros = np.where(rng.random((2, 600)) < 0.5, 0.0, fine := rng.normal(size=(2, 600)))
    few = rng.poisson(1.0, (2, 600)), rng.integers(0, 3, (5, 600)), zeros, fine * (age < 30)
    for natural in ([age], [age, age // 2], [age**3 * 9.9, zeros[0] > 0], zeros > 0, *few):
        assert len(merge_copies(list(natural), labels, weights)[0]) == 600
    for n_copies in (2, 5, 24, 50):
        rows = np.arange(600) % (600 // n_copies)
        pixels = rng.integers(0, 4, (30, 600)) if n_copies < 10 else fine
        for columns in ([fine[0], age], [*fine, age], [1000.0 * age**3, fine[1]], pixels):
            kept, sums, _ = merge_copies([x[rows] for x in columns], labels, weights)
            assert_array_equal(kept, np.arange(600 // n_copies))
            assert_array_equal(sums, n_copies)
