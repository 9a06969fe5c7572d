"""The same bad input for every estimator: what each does with it, in one table."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from skmrf import (
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFStructureLearner,
    NNMRFClassifier,
    NNMRFDensity,
)

RNG = np.random.default_rng(0)
BITS = RNG.integers(2, size=(40, 4))
BITS[:, 1] ^= BITS[:, 0] & RNG.integers(2, size=40)
NUMBERS = RNG.normal(size=(40, 4))
FEW = {"max_iter": 2, "random_state": 0}
SMALL = FEW | {"node_layers": (3,), "edge_layers": (3,)}

ESTIMATORS = {  # a model, rows and targets
    "discrete": (DiscreteMRF(**FEW), BITS, None),
    "boltzmann": (BoltzmannMachine(states=(0, 1), **FEW), BITS, None),
    "rbm": (RBM(3, **FEW), BITS, None),
    "crbm": (CRBMStructuredPredictor(3, **FEW), NUMBERS, BITS[:, :2]),
    "structure": (MRFStructureLearner("exact", random_state=0), BITS, None),
    "density": (NNMRFDensity(**SMALL), NUMBERS, None),
    "classifier": (NNMRFClassifier(**SMALL), NUMBERS, BITS[:, 0]),
}


def entry(value, dtype=float):
    """One entry of column 1 is another one."""

    def put(X):
        X = np.array(X, dtype=dtype)
        X[3, 1] = value
        return X

    return put


def second(make):
    """Column 1 of a frame is another one."""

    def put(X):
        return pd.DataFrame({f"c{j}": make(x) if j == 1 else x for j, x in enumerate(X.T)})

    return put


def memory_map(X, folder):
    path = folder / "rows.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


WORKS = None
FINITE = "holds infinity; (use nan for a missing entry or a|give) finite"
COMPLETE = (
    "Column 1 holds NaN, but .* takes complete rows. Fill the gaps .*, or leave these rows out"
)
NO_NUMBER = "Column 'c1' holds {}, which is no number; {}"
STATES = "give two states as numbers, or take DiscreteMRF"
ENCODE = r"encode it \(sklearn.preprocessing.OneHotEncoder\)"
NAME_IT = "name the column in categorical_features if its values are categories"
NO_CATEGORIES = "Column 0 holds real numbers such as .* Discretise the column .*KBinsDiscretizer"
OTHER_STATE = "Column 0 holds .*, but the states are 0 and 1. Give a threshold as binarize="
DATES = "values of type datetime64.*; turn them into real numbers"
EMPTY = "Column 1 has no observed entry; drop it"
DENSE = "Use '.toarray\\(\\)' to convert to a dense"


def all_of(outcome, **others):
    """The same for all estimators but some."""
    return dict.fromkeys(ESTIMATORS, outcome) | others


def words(value):
    """What is no number."""
    return all_of(
        NO_NUMBER.format(value, NAME_IT),
        discrete=WORKS,
        structure=WORKS,
        boltzmann=NO_NUMBER.format(value, STATES),
        rbm=NO_NUMBER.format(value, STATES),
        crbm=NO_NUMBER.format(value, ENCODE),
    )


UNHASHABLE = r"Column 'c1' holds a list; categories must be hashable \(numbers, strings"
TABLE = {
    "nan": (entry(np.nan), all_of(WORKS, rbm=COMPLETE, crbm=COMPLETE)),
    "None": (entry(None, object), all_of(WORKS, rbm=COMPLETE, crbm=COMPLETE)),
    "infinity": (entry(np.inf), all_of(FINITE)),
    "minus infinity": (entry(-np.inf), all_of(FINITE)),
    "a column of nan": (
        lambda X: np.where(np.arange(4) == 1, np.nan, X),
        all_of(EMPTY, rbm=COMPLETE, crbm=COMPLETE, boltzmann=WORKS),
    ),
    "real numbers": (
        lambda X: X + 0.1 + 0.5 * RNG.random(X.shape),
        all_of(
            WORKS,
            discrete=NO_CATEGORIES,
            structure=NO_CATEGORIES,
            boltzmann=OTHER_STATE,
            rbm=OTHER_STATE,
        ),
    ),
    "strings": (second(lambda x: np.where(x > 0, "a", "b")), words("'[ab]'")),
    "object strings": (
        second(lambda x: np.where(x > 0, "a", "b").astype(object)),
        words("'[ab]'"),
    ),
    "strings among numbers": (
        second(lambda x: np.where(np.arange(40) == 7, "a", x.astype(object))),
        words("'a'") | {"discrete": WORKS, "structure": WORKS},
    ),
    "lists": (
        second(lambda x: [[1]] * len(x)),
        words(r"\[1\]") | {"discrete": UNHASHABLE, "structure": UNHASHABLE},
    ),
    "dates": (
        second(lambda x: pd.Timestamp("2026-01-01") + pd.to_timedelta(np.sign(x), "D")),
        words("'202.*'") | {"density": DATES, "classifier": DATES},
    ),
    "dates without a frame": (
        lambda X: np.datetime64("2026-01-01") + np.sign(X).astype(int),
        all_of(
            "Column 0 holds '202.*', which is no number; (give two states|encode it)",
            discrete=WORKS,
            structure=WORKS,
            density=DATES,
            classifier=DATES,
        ),
    ),
    "strings in polars": (
        lambda X: pl.DataFrame(
            {f"c{j}": x if j != 1 else ["a"] * len(x) for j, x in enumerate(X.T)}
        ),
        words("'a'"),
    ),
    "decimals in polars": (
        lambda X: pl.DataFrame(X.T.tolist()).cast(pl.Decimal(20, 10)),
        all_of(WORKS),
    ),
    "beyond all floats": (
        second(lambda x: [10**400, *x[1:].tolist()]),
        words("10+"),
    ),
    "complex numbers": (lambda X: X + 1j, all_of("Complex data not supported")),
    "no rows": (lambda X: X[:0], all_of(r"Found array with 0 sample\(s\)")),
    "no columns": (lambda X: X[:, :0], all_of(r"Found array with 0 feature\(s\)")),
    "one dimension": (lambda X: X[:, 0], all_of("Expected 2D array, got 1D array instead")),
    "three dimensions": (lambda X: X[:, :, None], all_of("Found array with dim 3")),
    "a number": (len, all_of("Expected 2D array, got scalar array instead")),
    "one row": (lambda X: X[:1], all_of(WORKS)),
    "a constant column": (lambda X: np.where(np.arange(4) == 1, 1, X), all_of(WORKS)),
    "the same column twice": (lambda X: X[:, [0, 1, 2, 0]], all_of(WORKS)),
    "sparse": (sp.csr_array, all_of(DENSE, rbm=WORKS, crbm=WORKS)),
    "huge numbers": (
        lambda X: X * 1e300,
        all_of(
            WORKS,
            boltzmann=OTHER_STATE,
            rbm=OTHER_STATE,
            crbm="Column 0 of X holds numbers too large to be standardised; divide it",
            discrete=WORKS,
        ),
    ),
    "names of two kinds": (
        lambda X: pd.DataFrame(X, columns=[0, "b", "c", "d"]),
        all_of("Feature names are only supported if all input features have string names"),
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


def numbers_in(value):
    """All arrays of numbers in a fitted attribute."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from numbers_in(part)
    elif isinstance(value, dict):
        yield from numbers_in(list(value.values()))
    elif hasattr(value, "theta"):
        yield from numbers_in(value.theta)


def fitted(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


@pytest.mark.parametrize(("what", "who"), CELLS, ids=[" ".join(cell) for cell in CELLS])
def test_bad_input(what, who):
    """Either a message that says what to do and an estimator as before, or a model without nan."""
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
        for numbers in numbers_in(value):
            known = ("categories_", "history_", "confidence_interval_")  # nan has a meaning there
            assert name in known or not np.isnan(numbers).any(), name


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
def test_how_rows_lie_in_memory_has_no_influence(layout, who, tmp_path):
    model, X, y = ESTIMATORS[who]
    before = X.copy()
    whole = fit(clone(model), X, y)
    laid_out = layout(X, tmp_path) if layout is memory_map else layout(X)
    found = fit(clone(model), laid_out, y)
    expected = numbers_in(list(fitted(whole).values()))
    for a, b in zip(numbers_in(list(fitted(found).values())), expected, strict=True):
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


@pytest.mark.parametrize("who", ["crbm", "classifier"])
def test_bad_targets(who):
    model, X, y = ESTIMATORS[who]
    for target, message in (
        (None, "requires y to be passed, but the target y is None"),
        (y[:7], r"y must have shape|inconsistent numbers of samples: \[40, 7\]"),
        (np.where(y > 0, np.nan, 0.0), "nan; outputs must be in|Input y contains NaN"),
        (np.where(y > 0, np.inf, 0.0), "inf; outputs must be in|Input y contains infinity"),
        (y + RNG.random(y.shape), "outputs must be in|Unknown label type: continuous"),
    ):
        bad = clone(model)
        with pytest.raises(ValueError, match=message):
            bad.fit(X, target)
        assert not fitted(bad)
    one = fit(clone(model), X, np.zeros_like(y))  # one class
    assert np.isfinite(one.predict_proba(X)).all()


@pytest.mark.parametrize("who", ESTIMATORS)
def test_queries_refuse_other_columns_and_come_after_fit(who):
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
            (entry(np.inf)(X), "infinity|category inf, which was not seen in fit; known are"),
        ):
            with pytest.raises(ValueError, match=message):
                ask(rows)
        if who not in ("crbm", "density", "classifier"):
            with pytest.raises(ValueError, match=r"Column 1 (holds|has the category) 7"):
                ask(entry(7)(X))
