"""Tests of the imputation of missing values."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal
from scipy.stats import multivariate_normal, norm, truncnorm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from skmrf import (
    RBM,
    BoltzmannMachine,
    DiscreteMRF,
    MRFImputer,
    NetworkPotentials,
    NNMRFDensity,
)
from skmrf._data.categories import CategoryEncoder
from skmrf.estimators import _automatic, _imputation
from skmrf.estimators._imputation import (
    LatentGaussianModel,
    PrototypeModel,
    learn_latent_gaussian,
    learn_prototypes,
    truncated_moments,
)
from skmrf.estimators.imputer import choose_model

EXACT = DiscreteMRF(learner="exact", alpha=0.01)
NETS = NNMRFDensity(
    NetworkPotentials(node_layers=(2,), edge_layers=(2,), max_iter=2), random_state=0
)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows(seed, n=200):
    """Return dependent categorical rows, and the same rows with missing entries."""
    rng = np.random.default_rng(seed)
    first = rng.integers(3, size=n)
    X = np.stack([np.where(rng.random(n) < 0.9, first, rng.integers(3, size=n)) for _ in "1234"])
    X = X.T.astype(float)
    return X, np.where(rng.random(X.shape) < 0.25, np.nan, X)


def table(seed, n=60):
    """Return a frame of several types, and the same frame with missing entries."""
    rng = np.random.default_rng(seed)
    i, x = rng.integers(3, size=n), rng.normal(size=n)
    X = pd.DataFrame(
        {
            "kind": pd.Categorical(np.array(["oak", "fir", "elm"])[i], ["elm", "fir", "oak"]),
            "size": x + i,
            "age": pd.array(30 + np.arange(n) + i, "Int64"),
            "old": pd.array(i > 1, "boolean"),
        },
        index=np.arange(n) + 5,
    )
    missing = rng.random(X.shape) < 0.25
    missing[:2] = False
    return X, X.mask(missing).astype(X.dtypes)


# Values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["mode", "marginal"])
def test_imputed_values_are_those_of_the_model(strategy, seed):
    _, X = rows(seed)
    imputer = MRFImputer(EXACT, strategy=strategy).fit(X)
    found, model = imputer.transform(X), clone(EXACT).fit(X)
    marginals = np.stack([p.argmax(axis=1) for p in model.marginals(X)], axis=1)
    assert_array_equal(found, model.predict(X) if strategy == "mode" else marginals)
    assert_array_equal(found[~np.isnan(X)], X[~np.isnan(X)])


def test_draws(seed):
    """Draws have the conditional frequencies; each imputation has its own draws."""
    _, X = rows(seed)
    imputer = MRFImputer(EXACT, strategy="sample", random_state=seed).fit(X)
    row = np.array([[0.0, np.nan, np.nan, 1.0]])
    p = imputer.estimator_.marginals(row)[1][0]
    drawn = imputer.sample_imputations(np.repeat(row, 300, axis=0), 4)
    assert len(drawn) == 4
    assert not (drawn[0] == drawn[1]).all()
    counts = np.bincount(np.concatenate(drawn)[:, 1].astype(int), minlength=3)
    error = np.sqrt(p * (1 - p) / 1200)
    assert (np.abs(counts / 1200 - p) < 5 * error + 1e-3).all()
    assert (np.abs(counts / 1200 - p[[2, 0, 1]]) > 5 * error + 1e-3).any()
    assert_array_equal(imputer.transform(X), imputer.transform(X))


def test_continuous_entries(seed):
    """Continuous entries get their conditional mean: the regression on the other columns."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(400, 1))
    X = np.hstack([x + 0.2 * rng.normal(size=(400, 1)), x, 3 - x + 0.2 * rng.normal(size=(400, 1))])
    missing = X.copy()
    missing[::4, 1] = np.nan
    for density in ("mixture", "mrf"):
        networks = NetworkPotentials(base="gaussian", max_iter=5, density=density)
        model = NNMRFDensity(networks, random_state=0)
        for strategy in ("mode", "marginal"):
            found = MRFImputer(model, strategy=strategy).fit_transform(missing)
            error = np.sqrt(np.mean((found - X)[::4, 1] ** 2))
            assert error < 0.3  # the standard deviation of the column is 1, the noise is 0.14


@pytest.mark.parametrize("kind", ["independent", "classes", "autoregressive"])
def test_coverage_of_draws_with_few_rows(kind, seed):
    """The 5-95 % range of draws has about 90 % of the true values, and errors are small."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 60))
    if kind == "classes":
        X += rng.integers(2, size=(50, 1)) * rng.normal(size=60)
    for j in range(1, 60 if kind == "autoregressive" else 1):
        X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    missing = rng.random(X.shape) < 0.2
    incomplete = np.where(missing, np.nan, X)
    imputer = MRFImputer(random_state=0).fit(incomplete)
    draws = np.array(imputer.sample_imputations(incomplete, 100))[:, missing]
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    covered = np.mean((low <= X[missing]) & (X[missing] <= high))
    assert 0.8 < covered < 0.95
    errors = [draws.mean(axis=0) - X[missing], (np.nanmean(incomplete, axis=0) - X)[missing]]
    ratio = np.sqrt(np.mean(errors[0] ** 2) / np.mean(errors[1] ** 2))
    assert ratio < (0.85 if kind == "autoregressive" else 1.06)


def test_mixture_means_equal_weighted_draws(seed):
    """Conditional means and modes of a mixture agree with the draws of the mixture."""
    X, missing = table(seed)
    model = clone(NETS).fit(X)
    codes = model._encode(missing)[:10]
    found, draws = model._impute(codes, "marginal"), []
    rng = np.random.default_rng(seed)
    draws = np.stack([model._impute(codes, "sample", rng) for _ in range(2000)])
    error = draws.std(axis=0) / np.sqrt(2000)
    for j in model._columns.continuous:
        assert (np.abs(draws.mean(axis=0) - found)[:, j] <= 5 * error[:, j] + 1e-9).all()
    for j in model._columns.discrete:
        share = (draws[:, :, j] == found[:, j]).mean(axis=0)
        assert (share >= 1 / model._columns.n_states[j] - 0.06).all()
    modes = model._impute(codes, "mode")
    logs = model.mixture_.log_density
    assert (logs(modes) >= logs(found) - 1e-9).all()


# Types --------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["mode", "marginal", "sample"])
def test_frames_keep_their_types(strategy, seed):
    _, X = table(seed)
    for Y in (X, pl.DataFrame({n: [None if pd.isna(v) else v for v in X[n]] for n in X})):
        found = MRFImputer(NETS, strategy=strategy, random_state=0).fit_transform(Y)
        if Y is X:
            complete = X.notna().all(axis=1)
            assert found.dtypes.equals(X.dtypes)
            assert found.notna().all(axis=None)
            assert ((found == X) | X.isna()).all(axis=None)
            assert_frame_equal(found[complete], X[complete])
        else:
            assert found.schema == Y.schema
            assert not any(found.null_count().row(0))


@pytest.mark.parametrize("dtype", ["float64", "float32", "object", "masked", "list"])
def test_arrays_keep_their_types(dtype, seed):
    X, missing = rows(seed, 60)
    if dtype == "masked":
        given = np.ma.MaskedArray(X.astype(np.int16), np.isnan(missing))
    else:
        given = missing.tolist() if dtype == "list" else missing.astype(dtype)
    found = MRFImputer(EXACT).fit_transform(given)
    assert type(found) is np.ndarray
    assert found.dtype == {"masked": np.int16, "list": float}.get(dtype, dtype)
    assert_array_equal(found.astype(float), MRFImputer(EXACT).fit_transform(missing))
    whole = X.astype(int)
    assert_array_equal(MRFImputer(EXACT).fit_transform(whole), whole)


def test_complete_rows_keep_every_bit(seed):
    x = np.random.default_rng(seed).normal(size=(50, 2))
    x[0] = [1e-310, -0.0]
    found = MRFImputer(NETS).fit(x).transform(x)
    assert found.tobytes() == x.tobytes()
    assert found is not x


def test_default_model(seed):
    X, _ = table(seed)
    few, many = np.arange(40) % 20, np.arange(40) % 21
    half = np.where(few > 0, few, 0.5)
    for columns, expected in (
        ([few, few * 1.0], ["categorical"] * 2),
        ([few, many], ["categorical", "integer"]),
        ([half, few], ["non-negative", "categorical"]),
    ):
        imputer = MRFImputer(NETS).fit(np.stack(columns, 1))
        assert imputer.column_types_ == expected
        assert imputer.estimator_._columns.discrete.tolist() == [
            j for j, kind in enumerate(expected) if kind == "categorical"
        ]
    types = MRFImputer(NETS, column_types={"age": "categorical"}).fit(X).column_types_
    assert types == ["categorical", "continuous", "categorical", "boolean"]
    types = MRFImputer(NETS, column_types=["continuous"] * 2).fit(np.stack([few, many], 1))
    assert types.column_types_ == ["continuous"] * 2
    short = [[1.0, "a"], [2.0, np.nan], [1.0, "b"]] * 3
    assert isinstance(MRFImputer(random_state=3).fit(short).estimator_, DiscreteMRF)
    mixed = np.column_stack([np.arange(40.0), np.arange(40) % 2])
    assert isinstance(MRFImputer(random_state=3).fit(mixed).estimator_, NNMRFDensity)
    assert MRFImputer(random_state=3)._make_model(EXACT, ["ordinal"]).random_state == 3
    assert (
        clone(NETS).random_state == MRFImputer(NETS, random_state=3).fit(X).estimator_.random_state
    )


@pytest.mark.parametrize("kind", ["categorical", "continuous"])
def test_sample_weights(kind, seed):
    """A row with weight 0 is not used, and weights of one are no weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3)) if kind == "continuous" else rng.integers(3, size=(60, 3)) * 1.0
    X[rng.random(X.shape) < 0.1] = np.nan
    weights = rng.integers(2, size=60)
    X[weights > 0, 1] = np.nan  # an empty column without the other rows
    imputer = MRFImputer(column_types=kind, random_state=0)
    found = clone(imputer).fit(X, sample_weight=weights).transform(X)
    model = DiscreteMRF(random_state=0) if kind == "categorical" else None
    expected = MRFImputer(model, column_types=kind, random_state=0).fit(X[weights > 0]).transform(X)
    assert_array_equal(found, expected)
    plain = clone(imputer).fit(X)
    equal = clone(imputer).fit(X, sample_weight=np.ones(60))
    assert_array_equal(plain.transform(X), equal.transform(X))
    assert len(repr(plain.estimator_)) < 1000


# Columns ------------------------------------------------------------------------------------


def test_empty_columns_and_indicators(seed):
    _, X = rows(seed, 60)
    X[:, 1], X[:, 2] = np.nan, 1.0
    imputer = MRFImputer(EXACT).fit(X)
    assert imputer.column_types_ == ["categorical", "empty", "categorical", "categorical"]
    assert imputer.transform(X).shape == (60, 3)
    assert imputer.get_feature_names_out().tolist() == ["x0", "x2", "x3"]
    imputer = MRFImputer(EXACT, keep_empty_features=True, add_indicator=True).fit(X)
    found = imputer.transform(X)
    assert imputer.get_feature_names_out(list("abcd")).tolist() == [
        *"abcd", "missingindicator_a", "missingindicator_b", "missingindicator_d"
    ]  # fmt: skip
    assert (found[:, 1] == 0).all()
    assert_array_equal(found[:, 4:], np.isnan(X[:, [0, 1, 3]]))
    X[3, 1] = 8.0
    assert imputer.transform(X)[3, 1] == 8.0
    with pytest.raises(ValueError, match="No column of X has an observed entry"):
        MRFImputer(EXACT).fit(np.full((4, 2), np.nan))


def test_empty_columns_of_frames(seed):
    _, X = table(seed)
    types = {"age": "Int64", "old": "boolean", "text": "str", "kind": X["kind"].dtype}
    Y = X.assign(age=pd.NA, old=pd.NA, text=None, kind=None, extra=np.arange(60) % 3).astype(types)
    found = MRFImputer(NETS, keep_empty_features=True, add_indicator=True).fit_transform(Y)
    assert found[Y.columns].dtypes.equals(Y.dtypes)
    assert (found["age"] == 0).all()
    assert not found["old"].any()
    assert found[["kind", "text"]].isna().all(axis=None)
    assert found["missingindicator_age"].dtype == bool
    assert list(MRFImputer(NETS).fit_transform(Y)) == ["size", "extra"]


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_set_output(output, seed):
    _, X = rows(seed, 60)
    for Y in (X, pd.DataFrame(X, columns=list("abcd")), pl.DataFrame(X, schema=list("abcd"))):
        imputer = MRFImputer(EXACT, add_indicator=True).set_output(transform=output)
        found = imputer.fit_transform(Y)
        assert type(found).__module__.startswith(output)
        assert list(found.columns) == imputer.get_feature_names_out().tolist()
    _, X = table(seed)
    assert type(
        MRFImputer(NETS).set_output(transform=output).fit_transform(X)
    ).__module__.startswith(output)


# Categories that were not seen, and invalid parameters ----------------------------------------


@pytest.mark.long
def test_unseen_categories(seed):
    _, X = rows(seed, 60)
    row = np.array([[7.0, np.nan, 1.0, 2.0]])
    blank = np.array([[np.nan, np.nan, 1.0, 2.0]])
    message = r"Column 0 has the category 7\.0, which was not seen.* handle_unknown=\"ignore\""
    for model in (None, EXACT):
        imputer = MRFImputer(model).fit(X)
        with pytest.raises(ValueError, match=message):
            imputer.transform(row)
    imputer.set_params(strategy="marginal", handle_unknown="ignore")
    found = imputer.transform(row)[0]
    assert found[0] == 7.0
    assert found[1] == imputer.transform(blank)[0, 1]
    _, X = table(seed)
    row = X.iloc[:1].assign(size=np.nan).assign(kind="ash")
    imputer = MRFImputer(NETS).fit(X)
    with pytest.raises(ValueError, match="Column 'kind' has the category 'ash'"):
        imputer.transform(row)
    found = imputer.set_params(handle_unknown="ignore").transform(row)
    assert found["kind"].tolist() == ["ash"]
    assert np.isfinite(found["size"]).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"estimator": RBM()}, "estimator must be a DiscreteMRF, BoltzmannMachine or NNMRFDensity"),
        ({"strategy": "mean"}, "strategy must be"),
        ({"handle_unknown": "drop"}, "handle_unknown must be"),
        ({"add_indicator": 1}, "add_indicator must be True or False"),
        ({"keep_empty_features": "no"}, "keep_empty_features must be True or False"),
        (
            {"column_types": "category"},
            'column_types must be "auto", a type, a dict, or a list',
        ),
        ({"column_types": ["continuous"]}, "one type for each of the 4 columns"),
        ({"column_types": {9: "continuous"}}, "column_types has 9, which is not a column"),
        ({"column_types": {0: "number"}}, "column_types gives column 0 the type 'number'"),
    ],
    ids=str,
)
def test_invalid_parameters(parameters, message, seed):
    _, X = rows(seed, 20)
    imputer = MRFImputer(**({"estimator": EXACT} | parameters))
    with pytest.raises(ValueError, match=message):
        imputer.fit(X)
    assert not hasattr(imputer, "n_features_in_")


def test_invalid_rows(seed):
    _, X = rows(seed, 60)
    imputer = MRFImputer(EXACT).fit(pd.DataFrame(X, columns=list("abcd")))
    with pytest.raises(ValueError, match="feature names"):
        imputer.transform(pd.DataFrame(X, columns=list("abce")))
    with pytest.raises(ValueError, match="n_imputations must be"):
        imputer.sample_imputations(X, 0)
    with pytest.raises(ValueError, match="X has 3 features, but MRFImputer is expecting 4"):
        imputer.transform(X[:, :3])


# Pipelines ------------------------------------------------------------------------------------


def test_pipeline_without_leakage(seed):
    """The imputer in a pipeline is fitted to the training rows of each fold only."""
    X, missing = rows(seed)
    y, seen = X[:, 0] > 0, []

    class Recorded(MRFImputer):
        def fit(self, X, y=None):
            seen.append(len(X))
            return super().fit(X, y)

    model = make_pipeline(Recorded(EXACT), LogisticRegression())
    scores = cross_val_score(model, missing, y, cv=4, error_score="raise")
    assert seen == [150] * 4
    assert scores.mean() > 0.8


def test_two_state_model(seed):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((80, 1)) < 0.5, 1, -1) * np.where(rng.random((80, 3)) < 0.9, 1.0, -1.0)
    X[rng.random(X.shape) < 0.2] = np.nan
    imputer = MRFImputer(BoltzmannMachine("exact", alpha=0.01))
    assert set(np.unique(imputer.fit_transform(X))) == {-1.0, 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_allclose(imputer.transform([[1, np.nan, 1]]), 1.0)


# Default models of categorical columns ------------------------------------------------------

CORRELATION = np.array([[1.0, 0.6, 0.3], [0.6, 1.0, 0.7], [0.3, 0.7, 1.0]])
LIMITS = [np.array([-np.inf, -0.5, 0.8, np.inf]), np.array([-np.inf, 0.2, np.inf])]


def encoder(*sizes):
    return CategoryEncoder(list(range(len(sizes))), [np.arange(q) for q in sizes])


def latent_rows(seed, n=1000):
    """Return state codes of three correlated latent numbers, and the model."""
    rng = np.random.default_rng(seed)
    model = LatentGaussianModel(encoder(3, 2, 2), [*LIMITS, LIMITS[1]], CORRELATION)
    z = rng.multivariate_normal(np.zeros(3), CORRELATION, n)
    codes = [np.searchsorted(b[1:-1], x) for b, x in zip(model.limits, z.T, strict=True)]
    return np.column_stack(codes).astype(np.int16), model


def clustered_rows(seed, n=200):
    """Return noisy copies of a few rows of unordered categories."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(6, size=(12, 8))[rng.integers(12, size=n)]
    noise = rng.random(rows.shape) < 0.1
    return np.where(noise, rng.integers(6, size=rows.shape), rows).astype(np.int16)


def test_truncated_moments():
    low, high = (
        np.array([-np.inf, -1.0, 6.0, 0.3, -np.inf]),
        np.array([0.5, 2.0, 7.0, np.inf, -9.0]),
    )
    mean, scale = np.array([0.2, 1.0, -1.0, 0.0, 0.0]), np.array([1.0, 0.5, 1.5, 2.0, 1.0])
    found = truncated_moments(low, high, mean, scale)
    expected = truncnorm.stats((low - mean) / scale, (high - mean) / scale, mean, scale)
    assert_allclose(found[0], expected[0], rtol=1e-6)
    assert_allclose(found[1], expected[1], rtol=1e-5)
    far = truncated_moments(np.array([60.0]), np.array([61.0]), 0.0, 1.0)
    assert 60.0 <= far[0][0] <= 61.0


def test_latent_gaussian_probabilities():
    """Conditional probabilities are close to those of integrals over the latent numbers."""
    _, model = latent_rows(0, 1)
    joint = multivariate_normal(np.zeros(3), CORRELATION)

    def mass(state):
        low, high = np.array([(b[s], b[s + 1]) for b, s in zip(model.limits, state, strict=True)]).T
        return joint.cdf(high, lower_limit=low)

    worst = worst_alone = 0.0
    for first, last in np.ndindex(3, 2):
        expected = np.array([mass((first, s, last)) for s in (0, 1)])
        expected /= expected.sum()
        found = model.probabilities(np.array([[first, -1, last]]))[1][0]
        alone = model.probabilities(np.array([[-1, -1, -1]]))[1][0]
        worst = max(worst, np.abs(found - expected).max())
        worst_alone = max(worst_alone, np.abs(alone - expected).max())
    assert worst < 0.05 < 0.2 < worst_alone


def test_latent_gaussian_learns_correlations(seed):
    """Errors are within five standard errors of tetrachoric correlations and of quantiles."""
    codes, model = latent_rows(seed, 2000)
    rng = np.random.default_rng(seed)
    codes[rng.random(codes.shape) < 0.2] = -1
    n_rows = (codes >= 0).T.astype(float) @ (codes >= 0)  # rows that observe each pair
    share = 0.25 - (np.arcsin(CORRELATION) / np.pi) ** 2  # with limits at the medians
    tolerance = 5 * np.pi * np.sqrt((1 - CORRELATION**2) * share / n_rows)
    found = learn_latent_gaussian(model.encoder, codes)
    assert (np.abs(found.correlation - CORRELATION) <= tolerance + 1e-9).all()
    apart = learn_latent_gaussian(model.encoder, rng.permuted(codes, axis=0))
    assert (np.abs(apart.correlation - CORRELATION) > tolerance).any()
    for b, expected, n in zip(found.limits, model.limits, np.diag(n_rows), strict=True):
        x = expected[1:-1]
        error = np.sqrt(norm.cdf(x) * norm.sf(x) / n) / norm.pdf(x)
        assert (np.abs(b[1:-1] - x) < 5 * error).all()


def test_prototype_probabilities():
    codes = np.array([[0, 1, 2], [0, 0, 1], [1, -1, 2], [1, 1, -1]])
    model = learn_prototypes(encoder(2, 2, 3), codes, 0.3)
    query = np.array([[0, -1, 2]])
    f, weights = model.frequencies, []
    for row in (0, 1, 3):  # the prototypes that have column 1
        factors = [
            (0.3 * f[j][query[0, j]] + 0.7 * (codes[row, j] == query[0, j]))
            if codes[row, j] >= 0
            else f[j][query[0, j]]
            for j in (0, 2)
        ]
        weights.append(np.prod(factors))
    shares = np.bincount(codes[[0, 1, 3], 1], weights) / np.sum(weights)
    assert_allclose(model.probabilities(query)[1][0], 0.3 * f[1] + 0.7 * shares)


@pytest.mark.parametrize("make", [latent_rows, clustered_rows])
def test_draws_have_the_conditional_probabilities(make, seed):
    codes = make(seed)[0] if make is latent_rows else make(seed)
    known = encoder(*(codes.max(axis=0) + 1))
    learned = [learn_latent_gaussian(known, codes), learn_prototypes(known, codes, 0.2)]
    model, n = learned[make is clustered_rows], 4000
    query = codes[:1].copy()
    query[0, 1] = -1
    p = model.probabilities(query)[1][0]
    draws = model._impute(np.repeat(query, n, axis=0), "sample", np.random.default_rng(seed))
    shares = np.bincount(draws[:, 1], minlength=len(p)) / n
    tolerance = 5.0 * np.sqrt(0.25 / n) + 0.03 * (make is latent_rows)  # means and draws differ
    assert np.abs(shares - p).max() < tolerance
    assert np.abs(shares - np.roll(p, 1)).max() > tolerance
    assert_array_equal(np.delete(draws, 1, axis=1), np.delete(np.repeat(query, n, 0), 1, axis=1))


@pytest.mark.long
def test_choice_of_the_default_model(seed):
    """Each kind of table has the model that imputes it best."""
    rng, types = np.random.default_rng(seed), ["categorical"] * 8
    z = rng.multivariate_normal(np.zeros(8), 0.9 + 0.1 * np.eye(8), 200)
    codes = np.searchsorted([-1.0, -0.4, 0.0, 0.4, 1.0], z).astype(np.int16)
    chosen = choose_model(encoder(*[6] * 8), codes, types, 0)
    assert isinstance(chosen, LatentGaussianModel)
    codes = clustered_rows(seed)
    chosen = choose_model(encoder(*[6] * 8), codes, types, 0)
    assert isinstance(chosen, PrototypeModel)
    assert isinstance(choose_model(encoder(*[6] * 8), codes[:40], types, 0), DiscreteMRF)


@pytest.mark.slow
def test_choice_of_a_pairwise_model(seed):
    """A chain of unordered categories, in which each determines the next up to noise."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(5, size=600)]
    for _ in range(11):
        moved = (2 * columns[-1] + 1) % 5
        columns.append(np.where(rng.random(600) < 0.25, rng.integers(5, size=600), moved))
    codes = np.column_stack(columns).astype(np.int16)
    chosen = choose_model(encoder(*[5] * 12), codes, ["categorical"] * 12, 0)
    assert isinstance(chosen, DiscreteMRF)


def test_default_model_of_frames(seed, monkeypatch):
    """Ordered categories keep their declared order, and unseen ones can be ignored."""
    rng, chosen = np.random.default_rng(seed), lambda *given: learn_latent_gaussian(*given[:2])
    monkeypatch.setattr("skmrf.estimators.imputer.choose_model", chosen)
    z = rng.multivariate_normal(np.zeros(4), 0.8 + 0.2 * np.eye(4), 150)
    levels = ["low", "middle", "top"]
    names = np.array(levels)[np.searchsorted([-0.5, 0.5], z)]
    X = pd.DataFrame(names, columns=list("abcd"))
    X = X.mask(rng.random(X.shape) < 0.2)
    X = X.astype(pd.CategoricalDtype(["top", "middle", "low"], ordered=True))
    imputer = MRFImputer(random_state=0).fit(X)
    assert isinstance(imputer.estimator_, LatentGaussianModel)
    assert imputer.estimator_.categories_[0].tolist() == ["top", "middle", "low"]
    found = imputer.transform(X)
    assert found.dtypes.equals(X.dtypes)
    assert (found == names)[X.isna()].sum().sum() > 0.5 * X.isna().sum().sum()
    first, second = imputer.sample_imputations(X, 2)
    assert not first.equals(second)
    assert_frame_equal(first, imputer.sample_imputations(X, 2)[0])
    row = pd.DataFrame([["new", None, "low", "low"]], columns=list("abcd"))
    with pytest.raises(ValueError, match="has the category 'new'"):
        imputer.transform(row)
    filled = imputer.set_params(handle_unknown="ignore").transform(row)
    assert filled.loc[0].tolist() == ["new", "low", "low", "low"]


def weak_rows(seed):
    """Return rows whose columns depend weakly on each other, so that a pairwise model is tried."""
    rng = np.random.default_rng(seed)
    return rng.integers(3, size=(80, 4)).astype(float)


def test_ctrl_c_while_models_are_compared(monkeypatch, seed):
    """The other model is used if Ctrl-C ends the fit of a pairwise model, and a warning says so."""
    path = _automatic.fit_path

    def interrupted(*given, **how):
        return path(*given, **how)._replace(interrupted=True)

    monkeypatch.setattr(_automatic, "fit_path", interrupted)
    X = weak_rows(seed)
    X[::5, 0] = np.nan
    with pytest.warns(ConvergenceWarning, match="Interrupted while models were compared"):
        imputer = MRFImputer(random_state=0).fit(X)
    assert not isinstance(imputer.estimator_, DiscreteMRF)
    assert not np.isnan(imputer.transform(X)).any()


def test_ctrl_c_before_the_pairwise_model_is_fitted(monkeypatch, seed):
    """The model that is known then is used, and a warning says so."""
    monkeypatch.setattr(_imputation, "_impute_by_tree", press_ctrl_c)
    with pytest.warns(ConvergenceWarning, match="Interrupted while models were compared"):
        imputer = MRFImputer(random_state=0).fit(weak_rows(seed))
    assert not isinstance(imputer.estimator_, DiscreteMRF)


def test_ctrl_c_before_any_model_is_known(monkeypatch, seed):
    """Ctrl-C raises, and the estimator keeps its earlier fit."""
    X = weak_rows(seed)
    imputer = MRFImputer(EXACT).fit(X[:, :3])
    expected = imputer.transform(X[:, :3])
    imputer.set_params(estimator=None)
    monkeypatch.setattr(_imputation, "learn_prototypes", press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        imputer.fit(X)
    assert_array_equal(imputer.transform(X[:, :3]), expected)


def press_ctrl_c(*_, **__):
    raise KeyboardInterrupt
