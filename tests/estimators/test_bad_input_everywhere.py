"""Tests of the same bad input for all estimators."""

import warnings
from functools import cache

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from sklearn.base import clone

from skmrf import (
    CRF,
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    GaussianPotentials,
    MRFStructureLearner,
    NetworkPotentials,
    NNMRFBayesClassifier,
    NNMRFClassifier,
    NNMRFDensity,
)
from skmrf._data.frames import to_double
from skmrf._data.transforms import FARTHEST, learn_transform

RNG = np.random.default_rng(0)
BITS = RNG.integers(2, size=(40, 4))
BITS[:, 1] ^= BITS[:, 0] & RNG.integers(2, size=40)
NUMBERS = RNG.normal(size=(40, 4))
FEW = {"max_iter": 2, "random_state": 0}
NETWORKS = NetworkPotentials(node_layers=(3,), edge_layers=(3,), max_iter=2)

ESTIMATORS = {  # estimator, rows, targets
    "discrete": (DiscreteMRF(**FEW), BITS, None),
    "boltzmann": (BoltzmannMachine(states=(0, 1), **FEW), BITS, None),
    "rbm": (RBM(3, **FEW), BITS, None),
    "crbm": (CRBMStructuredPredictor(3, **FEW), NUMBERS, BITS[:, :2]),
    "crf": (CRF(alpha=0.1, **FEW), NUMBERS, BITS[:, 0]),
    "structure": (MRFStructureLearner("exact", random_state=0), BITS, None),
    "density": (NNMRFDensity(NETWORKS, random_state=0), NUMBERS, None),
    "classifier": (NNMRFClassifier(max_iter=3, random_state=0), NUMBERS, BITS[:, 0]),
    "classes": (NNMRFBayesClassifier(NETWORKS, random_state=0), NUMBERS, BITS[:, 0]),
}


def replace_entry(value, dtype=float):
    """Return a function that replaces one entry of column 1."""

    def change(X):
        X = np.array(X, dtype=dtype)
        X[3, 1] = value
        return X

    return change


def replace_column(make):
    """Return a function that replaces column 1 of a frame."""

    def change(X):
        return pd.DataFrame({f"c{j}": make(x) if j == 1 else x for j, x in enumerate(X.T)})

    return change


def memory_map(X, folder):
    path = folder / "rows.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


NEURAL = "density", "classifier", "classes"
WORKS = None
FINITE = "holds infinity; (use nan for a missing entry or a|give) finite"
COMPLETE = (
    "Column 1 holds NaN, but .* needs complete rows. Impute the missing .*, or drop these rows"
)
COMPLETE_ROWS = dict.fromkeys(["rbm", "crbm", "crf"], COMPLETE)
NO_NUMBER = "Column 'c1' holds {}, which is not a number; {}"
STATES = "give two states as numbers, or use DiscreteMRF"
ENCODE = r"encode it \(sklearn.preprocessing.OneHotEncoder(, skmrf.SequenceVectorizer)?\)"
NAME_IT = 'if its values are categories, give the column the type "categorical" in column_types'
NO_CATEGORIES = "Column 0 holds real numbers such as .* Discretise the column .*KBinsDiscretizer"
NUMBERS_NEED_AUTO = "Column 0 has the type .*, but learner='exact' needs .* Use learner=\"auto\""
OTHER_STATE = "Column 0 holds .*, but the states are 0 and 1. Give a threshold as binarize="
DATES = "values of type datetime64.*; convert them to real numbers"
EMPTY = "Column 1 has no observed entry; drop it"
DENSE = "Use '.toarray\\(\\)' to convert to a dense"


def expect(outcome, **others):
    """Return the same expected outcome for all estimators, with exceptions by name."""
    return dict.fromkeys(ESTIMATORS, outcome) | others


def expected_for_text(value):
    """Return the expected outcomes for a text value."""
    return expect(
        NO_NUMBER.format(value, NAME_IT),
        discrete=WORKS,
        structure=WORKS,
        boltzmann=NO_NUMBER.format(value, STATES),
        rbm=NO_NUMBER.format(value, STATES),
        crbm=NO_NUMBER.format(value, ENCODE),
        crf=NO_NUMBER.format(value, ENCODE),
    )


def expected_for_words(value):
    """Return the expected outcomes for a column of words."""
    return expected_for_text(value) | dict.fromkeys(NEURAL, WORKS)


UNHASHABLE = r"Column 'c1' holds a list; categories must be hashable \(numbers, strings"
TABLE = {
    "nan": (replace_entry(np.nan), expect(WORKS, **COMPLETE_ROWS)),
    "None": (replace_entry(None, object), expect(WORKS, **COMPLETE_ROWS)),
    "infinity": (replace_entry(np.inf), expect(FINITE)),
    "minus infinity": (replace_entry(-np.inf), expect(FINITE)),
    "a column of nan": (
        lambda X: np.where(np.arange(4) == 1, np.nan, X),
        expect(EMPTY, **COMPLETE_ROWS, boltzmann=WORKS, classifier=WORKS),
    ),
    "real numbers": (
        lambda X: X + 0.1 + 0.5 * RNG.random(X.shape),
        expect(
            WORKS,
            discrete=NO_CATEGORIES,
            structure=NUMBERS_NEED_AUTO,
            boltzmann=OTHER_STATE,
            rbm=OTHER_STATE,
        ),
    ),
    "strings": (replace_column(lambda x: np.where(x > 0, "a", "b")), expected_for_words("'[ab]'")),
    "object strings": (
        replace_column(lambda x: np.where(x > 0, "a", "b").astype(object)),
        expected_for_words("'[ab]'"),
    ),
    "strings among numbers": (
        replace_column(lambda x: np.where(np.arange(40) == 7, "a", x.astype(object))),
        expected_for_text("'a'") | {"discrete": WORKS, "structure": WORKS},
    ),
    "lists": (
        replace_column(lambda x: [[1]] * len(x)),
        expected_for_text(r"\[1\]") | {"discrete": UNHASHABLE, "structure": UNHASHABLE},
    ),
    "dates": (
        replace_column(lambda x: pd.Timestamp("2026-01-01") + pd.to_timedelta(np.sign(x), "D")),
        expected_for_text("'202.*'") | dict.fromkeys(NEURAL, DATES),
    ),
    "dates without a frame": (
        lambda X: np.datetime64("2026-01-01") + np.sign(X).astype(int),
        expect(
            "Column 0 holds '202.*', which is not a number; (give two states|encode it)",
            discrete=WORKS,
            structure=WORKS,
            **dict.fromkeys(NEURAL, DATES),
        ),
    ),
    "strings in polars": (
        lambda X: pl.DataFrame(
            {f"c{j}": x if j != 1 else ["a"] * len(x) for j, x in enumerate(X.T)}
        ),
        expected_for_words("'a'"),
    ),
    "booleans among numbers": (
        lambda X: replace_entry(True, object)(X),
        expect("Column 1 mixes booleans and numbers such as"),
    ),
    "masked": (
        lambda X: np.ma.MaskedArray(X, np.arange(160).reshape(40, 4) % 7 == 1),
        expect(WORKS, **dict.fromkeys(COMPLETE_ROWS, COMPLETE.replace("1", "[01]"))),
    ),
    "decimals in polars": (
        lambda X: pl.DataFrame(X.T.tolist()).cast(pl.Decimal(20, 10)),
        expect(WORKS),
    ),
    "beyond all floats": (
        replace_column(lambda x: [10**400, *x[1:].tolist()]),
        expected_for_text("10+"),
    ),
    "complex numbers": (lambda X: X + 1j, expect("Complex data not supported")),
    "no rows": (lambda X: X[:0], expect(r"Found array with 0 sample\(s\)")),
    "no columns": (lambda X: X[:, :0], expect(r"Found array with 0 feature\(s\)")),
    "one dimension": (lambda X: X[:, 0], expect("Expected 2D array, got 1D array instead")),
    "three dimensions": (
        lambda X: X[:, :, None],
        expect("Found array with dim 3", crf="Example 0 of y must be a list"),
    ),
    "a number": (len, expect("Expected 2D array, got scalar array instead")),
    "one row": (lambda X: X[:1], expect(WORKS)),
    "a constant column": (lambda X: np.where(np.arange(4) == 1, 1, X), expect(WORKS)),
    "the same column twice": (lambda X: X[:, [0, 1, 2, 0]], expect(WORKS)),
    "sparse": (sp.csr_array, expect(DENSE, rbm=WORKS, crbm=WORKS, crf=WORKS)),
    "huge numbers": (
        lambda X: X * 1e300,
        expect(
            WORKS,
            boltzmann=OTHER_STATE,
            rbm=OTHER_STATE,
            crbm=r"Column 0 of X holds \d.*e\+3\d\d, which is too large to be standardised. Remove",
            discrete=WORKS,
        ),
    ),
    "names of two kinds": (
        lambda X: pd.DataFrame(X, columns=[0, "b", "c", "d"]),
        expect("Feature names are only supported if all input features have string names"),
    ),
}
CELLS = [(what, who) for what, (_, outcomes) in TABLE.items() for who in outcomes]


def fit(model, X, y):
    if y is not None and hasattr(X, "shape"):
        y = y[: X.shape[0]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        return model.fit(X) if y is None else model.fit(X, y)


def numeric_arrays(value):
    """Yield all numeric arrays in a fitted attribute."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from numeric_arrays(part)
    elif isinstance(value, dict):
        yield from numeric_arrays(list(value.values()))
    elif hasattr(value, "theta"):
        yield from numeric_arrays(value.theta)


def fitted(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


@pytest.mark.parametrize(("what", "who"), CELLS, ids=[" ".join(cell) for cell in CELLS])
def test_bad_input(what, who):
    """Bad input raises a helpful error and changes nothing, or the model has no nan."""
    make, outcomes = TABLE[what]
    model, X, y = ESTIMATORS[who]
    model = clone(model)
    if outcomes[who] is not WORKS:
        with pytest.raises((ValueError, TypeError), match=outcomes[who]):
            fit(model, make(X), y)
        assert not fitted(model)
        return
    fit(model, make(X), y)
    for name, value in fitted(model).items():
        for numbers in numeric_arrays(value):
            known = ("categories_", "history_", "confidence_interval_")  # nan is valid there
            assert name in known or not np.isnan(numbers).any(), name


@cache
def arrays_of_whole_rows(who):
    """Return the arrays of an estimator that is fitted to an ordinary array."""
    model, X, y = ESTIMATORS[who]
    return list(numeric_arrays(list(fitted(fit(clone(model), X, y)).values())))


@pytest.mark.parametrize("who", ESTIMATORS)
@pytest.mark.parametrize(
    "layout",
    [
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=0)[::2],
        lambda X: np.hstack([X, X])[:, :4],
        lambda X: X.astype(object),
        lambda X: X.tolist(),
        memory_map,
    ],
    ids=["Fortran", "every other row", "a part", "objects", "lists", "read-only map"],
)
def test_memory_layout_does_not_matter(layout, who, tmp_path):
    model, X, y = ESTIMATORS[who]
    before = X.copy()
    laid_out = layout(X, tmp_path) if layout is memory_map else layout(X)
    found = fit(clone(model), laid_out, y)
    arrays = numeric_arrays(list(fitted(found).values()))
    for a, b in zip(arrays, arrays_of_whole_rows(who), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(X, before)


WEIGHTS = {
    "zero": (np.zeros(40), "All sample weights are zero"),
    "negative": (-np.ones(40), r"sample_weight\[0\] is -1.0; weights must be finite and not negat"),
    "nan": (np.full(40, np.nan), r"sample_weight\[0\] is nan; weights must be finite"),
    "infinite": (np.full(40, np.inf), r"sample_weight\[0\] is inf; weights must be finite"),
    "few": (np.ones(3), r"sample_weight.shape == \(3,\), expected \(40,\)"),
}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("who", ESTIMATORS)
def test_bad_weights(who, kind):
    model, X, y = ESTIMATORS[who]
    model, (weights, message) = clone(model), WEIGHTS[kind]
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sample_weight=weights)
    assert not fitted(model)


MODEL_CHANGES = [
    ({"cliques": [(0, 1)]}, {"cliques": "pairwise"}),
    ({"cliques": [(0, 1)]}, {"cliques": [(0, 9)]}),
    ({"cliques": nx.path_graph(4)}, {"cliques": nx.cycle_graph(4)}),
    ({"cliques": MRFStructureLearner("exact")}, {"cliques__tol": 0.5}),
    ({"cliques": [(0, 1), (2, 3)]}, {"tie": [[0, 1]]}),
    ({"cliques": [(0, 1)]}, {"categories": "nonsense"}),
]


@pytest.mark.parametrize(("first", "change"), MODEL_CHANGES)
def test_training_of_tables_does_not_continue_with_another_model(first, change):
    options = {"learner": "exact", "alpha": 0.1, "warm_start": True, "max_iter": 2}
    model = DiscreteMRF(**first, **options).fit(BITS).fit(BITS)
    model.set_params(**change)
    before, name = model.energy_, next(iter(change)).partition("__")[0]
    with pytest.raises(ValueError, match=f"Training cannot continue with another value of {name}"):
        model.fit(BITS)
    assert model.energy_ is before
    given = DiscreteMRF.from_energy(before).set_params(**options).fit(BITS)
    with pytest.raises(ValueError, match="Training cannot continue with another value of cliques"):
        given.set_params(cliques="independent").partial_fit(BITS)


@pytest.mark.parametrize("who", ["crbm", "classifier"])
def test_bad_targets(who):
    model, X, y = ESTIMATORS[who]
    for target, message in (
        (None, "requires y to be passed, but the target y is None"),
        (y[:7], r"y must have shape|inconsistent numbers of samples: \[40, 7\]"),
        (np.where(y > 0, np.nan, 0.0), "nan; outputs must be one of|Input y contains NaN"),
        (np.where(y > 0, np.inf, 0.0), "inf; outputs must be one of|Input y contains infinity"),
        (y + RNG.random(y.shape), "outputs must be one of|Unknown label type: continuous"),
    ):
        bad = clone(model)
        with pytest.raises(ValueError, match=message):
            bad.fit(X, target)
        assert not fitted(bad)
    one = fit(clone(model), X, np.zeros_like(y))  # only one class
    assert np.isfinite(one.predict_proba(X)).all()


@pytest.mark.parametrize("who", ["crbm", "classifier"])
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([None, "a"] * 20, dtype=object), "y holds None; remove the rows without a label"),
        (pd.Series([None, "a"] * 20, dtype="string"), "y holds <NA>; remove the rows"),
        (pd.Series([None, True] * 20, dtype="boolean"), "y holds <NA>; remove|y contains NaN"),
        (np.array(["a", 1] * 20, dtype=object), r"y mixes labels of the types \['int', 'str'\]"),
    ],
    ids=["None", "string", "boolean", "mixed"],
)
def test_missing_and_mixed_labels(who, labels, message):
    model, X, _ = ESTIMATORS[who]
    with pytest.raises(ValueError, match=message):
        clone(model).fit(X, labels)


def test_tables_of_labels():
    model, X, Y = ESTIMATORS["crbm"]
    with pytest.raises(ValueError, match=r"is 'a'; outputs .* sklearn.*MultiLabelBinarizer"):
        clone(model).fit(X, np.array([["a", "b"]] * 40))
    absent = pd.DataFrame(Y).astype("Int64").mask(Y == 0)
    with pytest.raises(ValueError, match=r"Output \d of row 0 of y is None; outputs must be one"):
        clone(model).fit(X, absent)
    with pytest.raises(ValueError, match=r"Output \d of row 0 of y_val is None; outputs must be"):
        clone(model).fit(X, Y, X_val=X, y_val=absent)


def test_bad_targets_of_scores():
    """Scores refuse values that are no outputs; labels that fit did not see are wrong."""
    model, X, Y = ESTIMATORS["crbm"]
    model = clone(model).set_params(learner="lr", alpha=0.1)
    table, one = clone(model).fit(X, Y), clone(model).fit(X, Y[:, 0])
    for value in (np.nan, 0.5, None, "1"):
        with pytest.raises(ValueError, match=r"Output 1 of row 3 of y is|y holds None; remove"):
            table.score(X, replace_entry(value, object)(Y))
    for bad, message in (
        (np.where(Y[:, 0], 1.0, np.nan), "Input y contains NaN"),
        (0.5 * Y[:, 0], "Unknown label type: continuous"),
        (np.array([None, 1] * 20, dtype=object), "y holds None; remove the rows"),
        (Y[:, 0].astype(str), r"but fit had labels such as [01]; make them all strings or all"),
    ):
        with pytest.raises(ValueError, match=message):
            one.score(X, bad)
    predicted = one.predict(X)
    assert one.score(X, np.where(np.arange(40) < 10, 2, predicted)) == 0.75
    words = clone(model).fit(X, np.array(["a", "b"])[Y[:, 0]])
    with pytest.raises(ValueError, match=r"but fit had labels such as '[ab]'"):
        words.score(X, Y[:, 0])
    assert words.score(X, np.array(["c"] * 40, dtype=object)) == 0.0


@pytest.mark.parametrize("who", ESTIMATORS)
def test_bad_queries_and_queries_before_fit(who):
    model, X, y = ESTIMATORS[who]
    model = clone(model)
    queries = [q for q in ("score_samples", "predict", "predict_proba") if hasattr(model, q)]
    queries += ["transform"] if who == "rbm" else ["score"] * (y is None)
    for query in queries:
        with pytest.raises(ValueError, match=f"{type(model).__name__} instance is not fitted yet"):
            getattr(model, query)(X)
    fit(model, X, y)
    for query in queries:
        ask = getattr(model, query)
        for rows, message in (
            (X[:, :3], f"X has 3 features, but {type(model).__name__} is expecting 4"),
            (X[0], "Expected 2D array, got 1D array instead"),
            (X[:0], r"Found array with 0 sample\(s\)"),
            (
                replace_entry(np.inf)(X),
                "infinity|category inf, which was not seen in fit and is not in categories=; its",
            ),
        ):
            with pytest.raises(ValueError, match=message):
                ask(rows)
        if who not in ("crbm", "crf", *NEURAL):
            with pytest.raises(ValueError, match=r"Column 1 (holds|has the category) 7"):
                ask(replace_entry(7)(X))


# Large numbers, and numbers that fit did not see ----------------------------------------------


@pytest.mark.parametrize("scale", [1e98, 1e120, 1e150])
def test_classes_of_large_numbers_beside_a_transformed_column(scale, seed):
    rng = np.random.default_rng(seed)
    y = np.arange(200) % 2
    X = np.c_[rng.lognormal(0, 2, 200), rng.normal(size=(200, 2)) @ [[1.0, 0.9], [0.0, 0.3]]]
    X[:, 1:] += np.c_[np.full(200, 20.0), 20.0 + y]
    model, scales = NNMRFBayesClassifier("gaussian"), [1.0, scale, scale]
    expected = clone(model).fit(X, y).predict_proba(X)
    found = clone(model).fit(X * scales, y)
    np.testing.assert_allclose(found.predict_proba(X * scales), expected, atol=1e-6)


@pytest.mark.parametrize("weight", [1e154, 1e300])
def test_large_equal_weights(weight, seed):
    rng = np.random.default_rng(seed)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 2)) + 3.0 * y[:, None]
    model = NNMRFClassifier(["linear", "quadratic"], random_state=seed)
    assert model.fit(X, y, np.full(60, weight)).score(X, y) > 0.9


def make_counts(seed):
    """Return rows with a number and two columns of codes, and rows with unseen codes."""
    rng = np.random.default_rng(seed)
    X = np.c_[rng.normal(size=240), np.arange(240) % 2, np.arange(240) // 2 % 4]
    X[10:100, 1:] = 0.0, 1.0  # one and three are rare
    X[100:220, 1:] = 0.0, 2.0
    return X, np.array([[0.5, 2.0, 1.0], [0.5, 1.0, 9.0], [0.5, 5.0, 7.0]])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        NNMRFDensity(GaussianPotentials(1), random_state=0),
        NNMRFDensity(NETWORKS, random_state=0),
        NNMRFBayesClassifier("gaussian"),
    ],
    ids=["gaussian", "network", "classes"],
)
def test_numbers_that_detected_categories_do_not_have(model, seed):
    """They have the probability of one row in scores, and count as missing otherwise."""
    X, rows = make_counts(seed)
    model = clone(model).fit(X, np.arange(240) // 8 % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        missing = np.where(rows > [9.0, 1.0, 3.0], np.nan, rows)
        known = model.score_samples(missing)
    with pytest.warns(UserWarning, match=r"not seen in fit: 2\.0 in column 1, 9\.0 in column 2\."):
        found = model.score_samples(rows)
    np.testing.assert_allclose(found, known - np.log(241.0) * np.isnan(missing).sum(axis=1))
    with pytest.warns(UserWarning, match='the type "integer" or "continuous" in column_types'):
        found = model.predict(rows)
    if isinstance(model, NNMRFBayesClassifier):
        np.testing.assert_array_equal(found, model.predict(missing))
    else:
        np.testing.assert_array_equal(found, rows)
        with pytest.warns(UserWarning, match="not seen in fit"):
            np.testing.assert_array_equal(model.sample(3, given=rows), rows)
    for wrong in (0.5, np.inf, "a"):
        bad = rows.astype(object)
        bad[0, 1] = wrong
        with pytest.raises(ValueError, match=r"Column 1 has the category .*not seen in fit"):
            model.score_samples(bad)
    for given in ({"column_types": {1: "categorical"}}, {"categories": [[0, 1], [0, 1, 2, 3]]}):
        strict = clone(model).set_params(**given).fit(X, np.arange(240) // 8 % 2)
        with pytest.raises(ValueError, match=r"Column 1 has the category 2\.0, which was not"):
            strict.score_samples(rows[:1])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rounded_numbers_of_short_floats_are_the_same_decimal_numbers(dtype, seed):
    rng, digits = np.random.default_rng(seed), np.finfo(dtype).precision
    for places in range(digits + 2):
        x = rng.integers(-(10**digits), 10**digits, 500) / 10.0**places
        np.testing.assert_array_equal(to_double(x.astype(dtype)), x)
    x = rng.normal(size=500).astype(dtype)
    np.testing.assert_array_equal(to_double(x).astype(dtype), x)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf], dtype)
    np.testing.assert_array_equal(to_double(special), special.astype(float))


@pytest.mark.parametrize("kind", ["zeros", "cap", "spike"])
def test_float32_rows_have_the_scores_of_float64_rows(kind, seed):
    rng = np.random.default_rng(seed)
    is_same, x = rng.random((300, 2)) < 0.3, rng.lognormal(size=(300, 2))
    X = {
        "zeros": np.where(is_same, 0.0, x).round(2),
        "cap": np.minimum(x, 1.1).round(5),
        "spike": np.where(is_same, 0.1, np.log(x)).round(5),
    }[kind]
    rows = X.astype(np.float32)
    model = NNMRFDensity(GaussianPotentials(1), random_state=seed)
    double, single = clone(model).fit(X), clone(model).fit(rows)
    expected = double.score_samples(X)
    for found in (double.score_samples(rows), single.score_samples(rows), single.score_samples(X)):
        np.testing.assert_allclose(found, expected, rtol=1e-7)
    np.testing.assert_array_equal(double.predict(rows), rows)


# Rows outside the bounds of the training rows -------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(2.0, 9.0), (1e-3, 2.0), (-1.0, 1.0)])
def test_densities_are_positive_beyond_detected_bounds(low, high, seed):
    """Inside the bounds, the density is that of the given type "bounded"."""
    shares = np.random.default_rng(seed).permutation(500) / 499
    x, margin = low + shares * (high - low), 0.1 * (high - low)
    hard, soft = (
        learn_transform(x, np.ones(500), "bounded", is_detected=is_detected)
        for is_detected in (False, True)
    )
    assert soft.is_soft == (True, True)
    inside = np.linspace(low, high, 200)
    np.testing.assert_allclose(soft.forward(inside), hard.forward(inside))
    np.testing.assert_allclose(
        soft.log_slope(soft.forward(inside)), hard.log_slope(hard.forward(inside))
    )
    grid = np.linspace(low - margin, high + margin, 2001)
    z = soft.forward(grid)
    assert (np.diff(z) > 0).all()
    assert np.abs(soft.forward(np.array([low - 1e9, high + 1e9]))).max() < 50.0
    np.testing.assert_allclose(soft.inverse(z), grid, rtol=1e-6, atol=1e-6)
    slopes = np.log(np.gradient(z, grid))[[20, -21]]
    np.testing.assert_allclose(slopes, soft.log_slope(z[[20, -21]]), atol=0.01)
    assert norm.cdf(soft.forward(low - margin)) + norm.sf(soft.forward(high + margin)) < 0.01
    assert np.abs(hard.forward(np.array([low - margin, high + margin]))).min() == FARTHEST


NEAR_BOUNDS = {  # values, a type with the same bounds, and numbers beyond a bound
    "durations": (
        lambda rng: rng.gamma(1.0, 2.0, 200),
        "non-negative",
        -np.geomspace(1e-9, 1e9, 9001),
    ),
    "percentages": (
        lambda rng: 100 * rng.beta(0.5, 0.5, 200),
        "bounded",
        -np.geomspace(1e-8, 1e10, 9001),
    ),
    "capped": (lambda rng: np.minimum(rng.poisson(90, 200), 94.0), None, np.arange(95.0, 1e5)),
}


@pytest.mark.parametrize("name", NEAR_BOUNDS)
def test_few_rows_are_beyond_detected_bounds(name, seed):
    """They have the probability of one training row, and the other columns do not change it."""
    make, given, beyond = NEAR_BOUNDS[name]
    rng, far = np.random.default_rng(seed), np.stack([beyond, np.full(len(beyond), np.nan)], axis=1)
    x = make(rng)
    X = np.stack([x, rng.integers(2, size=200) + (x > np.median(x))], axis=1)
    model = NNMRFDensity(random_state=0).fit(X)
    logs, step = model.score_samples(far), model._columns.transforms[0].step
    total = np.exp(logs).sum() if step else abs(np.trapezoid(np.exp(logs), beyond))
    assert total == pytest.approx((1 if given != "bounded" else 0.5) / 201, rel=0.01)
    with_class = [model.score_samples([[v, 1.0], [np.nan, 1.0]]) for v in beyond[:9]]
    np.testing.assert_allclose(np.subtract(*np.transpose(with_class)), logs[:9], atol=1e-9)
    if given:
        hard = NNMRFDensity(column_types={0: given}, random_state=0).fit(X)
        assert np.isneginf(hard.score_samples(far)).all()
        expected = hard.score_samples(X) + np.log1p(-1 / 201)
        np.testing.assert_allclose(model.score_samples(X), expected)
