"""Tests of RBM: queries, input, use with scikit-learn, columns that exclude each other."""

import gc
import pickle
import warnings
import weakref
from copy import copy
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from estimator_models import SMALL, assert_same, bits, draws, every, law, quick
from montecarlo import check_draws
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline
from zoo import layers

from skmrf import RBM, CRBMStructuredPredictor
from skmrf._utils.codes import MISSING, STATE
from skmrf._utils.rows import Batch
from skmrf.energies import BipartiteEnergy, SemiRestrictedEnergy
from skmrf.estimators import _density, _weight_decay
from skmrf.estimators._hidden_layer import initial_layers, random_layers
from skmrf.exact import enumeration
from skmrf.inference.row_queries import latent_samples
from skmrf.learners import BP, CD, MSSVM, PCD, PSMC
from skmrf.learners.exact import DeviceExact
from skmrf.likelihood import log_partition_bounds

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def fitted():
    """Return a maximum likelihood model whose layers can both be enumerated."""
    X = draws(layers(6, 2, 0, scale=1.5), 1000, 0)
    return RBM(2, "exact", optimizer="lbfgs", alpha=0.0, random_state=0).fit(X)


@pytest.fixture(scope="module")
def annealed_model():
    """Return a fitted model without an exact log Z."""
    return quick(12, max_iter=20, max_bytes=SMALL).fit(bits())


# Probabilities ----------------------------------------------------------------------------


@pytest.mark.long
def test_probabilities_sum_to_one(fitted):
    V, log_p = law(fitted.energy_)
    found = fitted.score_samples(V)
    np.testing.assert_allclose(found, log_p, atol=1e-5)
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-5)
    assert fitted.log_partition_method_ == "exact"
    assert fitted.log_partition_interval_ == (fitted.log_partition_,) * 2
    assert fitted.score(V) == pytest.approx(found.mean())


def test_free_energy(fitted):
    W, c, b = fitted.components_.T, fitted.intercept_visible_, fitted.intercept_hidden_
    V, _ = law(fitted.energy_)
    V = V.astype(float)
    expected = -V @ c - np.logaddexp(0.0, V @ W + b).sum(axis=1)
    np.testing.assert_allclose(fitted.free_energy(V), expected, atol=1e-5)
    scores = fitted.score_samples(V)
    np.testing.assert_allclose(scores + fitted.free_energy(V), -fitted.log_partition_, atol=1e-9)


def test_agrees_with_scikit_learns_formulas(fitted):
    X = bits(50, 6).astype(float)
    other = BernoulliRBM(n_components=2, n_iter=1, random_state=0).fit(X)
    other.components_ = fitted.components_.astype(float)
    other.intercept_hidden_ = fitted.intercept_hidden_.astype(float)
    other.intercept_visible_ = fitted.intercept_visible_.astype(float)
    np.testing.assert_allclose(fitted.transform(X), other.transform(X), rtol=1e-5)
    assert fitted.components_.shape == other.components_.shape
    names = fitted.get_feature_names_out().tolist()
    assert names == ["rbm0", "rbm1"]


def test_scores_subtract_the_value_of_log_z(annealed_model):
    lower, upper = annealed_model.log_partition_interval_
    assert annealed_model.log_partition_method_ == "ais"
    assert lower < annealed_model.log_partition_ < upper
    X = bits(30)
    expected = -annealed_model.free_energy(X) - annealed_model.log_partition_
    np.testing.assert_array_equal(annealed_model.score_samples(X), expected)
    exact = log_partition_bounds(annealed_model.energy_, method="exact").value
    assert lower - 0.1 < exact < upper + 0.1


def test_log_z_that_has_not_converged_is_warned_about_once(annealed_model, monkeypatch):
    wide = partial(log_partition_bounds, n_temperatures=1, n_chains=2, max_width=0.0)
    monkeypatch.setattr(_density, "log_partition_bounds", wide)
    model, X = copy(annealed_model), bits(30)
    model._cache = {}
    with pytest.warns(ConvergenceWarning, match="log Z has not converged.* n_temperatures"):
        scores = model.score_samples(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(model.score_samples(X), scores)
    np.testing.assert_array_equal(scores, -model.free_energy(X) - model.log_partition_)


@pytest.mark.long
def test_scores_are_the_same_in_all_calls(annealed_model):
    X = bits(30)
    first = annealed_model.score_samples(X)
    again = pickle.loads(pickle.dumps(annealed_model))
    again._cache.clear()
    np.testing.assert_array_equal(again.score_samples(X), first)
    unseeded = quick(12, random_state=None, max_bytes=SMALL).fit(X)
    first = unseeded.score_samples(X)
    unseeded._cache.clear()
    np.testing.assert_array_equal(unseeded.score_samples(X), first)


def test_hidden_statistics(fitted):
    X = draws(layers(6, 2, 0, scale=1.5), 1000, 0)
    H = fitted.transform(X)
    np.testing.assert_allclose(fitted.hidden_means_, H.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(fitted.hidden_stds_, H.std(axis=0), rtol=1e-5)


# Samples ----------------------------------------------------------------------------------


@pytest.mark.long
def test_sample_follows_the_model(fitted, seed):
    V, log_p = law(fitted.energy_)
    check_draws(fitted.sample(4000, random_state=seed), V, np.exp(log_p))
    drawn = fitted.sample(4000, given={1: 1, 4: 0}, random_state=seed)
    agrees = (V[:, 1] == 1) & (V[:, 4] == 0)
    p = np.where(agrees, np.exp(log_p), 0.0)
    check_draws(drawn, V, p / p.sum())


@pytest.mark.parametrize(("shape", "J"), [((8, 6), None), ((5, 8), None), ((8, 6), 0.1)])
def test_samples_of_separated_modes_are_exact(shape, J, monkeypatch, seed):
    """Gibbs chains do not move between the two modes, which have different probabilities."""
    monkeypatch.setattr(enumeration, "BLOCK", 16)  # more than one block
    rng = np.random.default_rng(seed)
    weights = np.full(shape, 4.0) + rng.normal(size=shape)
    biases = -0.5 * weights.sum(axis=1), -0.5 * weights.sum(axis=0)
    layers = weights, biases[0] + 0.1, biases[1] + 0.1
    energy = SemiRestrictedEnergy(J * (1 - np.eye(8)), *layers) if J else BipartiteEnergy(*layers)
    V, log_p = law(energy)
    unknown = np.full((2000, shape[0]), MISSING, dtype=STATE)
    check_draws(latent_samples(energy, unknown, rng), V, np.exp(log_p))
    rows = unknown.copy()
    rows[:, 1] = np.arange(2000) % 2
    drawn = latent_samples(energy, rows, rng)
    for state in (0, 1):
        p = np.where(V[:, 1] == state, np.exp(log_p), 0.0)
        check_draws(drawn[state::2], V, p / p.sum())


def test_sample_given_rows(fitted):
    given = np.full((3, 6), np.nan)
    given[:, 2] = 0, 1, 1
    drawn = fitted.sample(3, given=given, random_state=0)
    assert drawn.shape == (3, 6)
    assert set(np.unique(drawn)) <= {0, 1}
    np.testing.assert_array_equal(drawn[:, 2], [0, 1, 1])
    assert (fitted.sample(5, given=given[1:2], random_state=0)[:, 2] == 1).all()
    again = [fitted.sample(4, random_state=3) for _ in range(2)]
    np.testing.assert_array_equal(*again)
    assert (fitted.sample(4, random_state=3) != fitted.sample(4, random_state=4)).any()
    assert fitted.sample().shape == (1, 6)
    with pytest.raises(ValueError, match="given has 3 rows; give one row, or n_samples=2 rows"):
        fitted.sample(2, given=given)
    with pytest.raises(ValueError, match=r"given has 6, .*; the 6 columns are \[0, 1, 2"):
        fitted.sample(given={6: 1})
    with pytest.raises(ValueError, match=r"Column 2 holds 3\.0, but the states are 0 and 1"):
        fitted.sample(given={2: 3})


def test_gibbs(fitted, seed):
    """A Gibbs step samples hidden units given the row, then visible units given these."""
    V, _ = law(fitted.energy_)
    row = V[21]
    hidden, _ = law(BipartiteEnergy(np.zeros((2, 0)), np.zeros(2), []))
    up = fitted.transform(row[None])[0]
    weights = np.where(hidden == 1, up, 1 - up).prod(axis=1)
    down = fitted.inverse_transform(hidden.astype(float))
    p = np.array([weights @ np.where(v == 1, down, 1 - down).prod(axis=1) for v in V])
    drawn = fitted.gibbs(np.repeat(row[None], 8000, axis=0), random_state=seed)
    check_draws(drawn, V, p / p.sum())
    sparse = fitted.gibbs(sp.csr_array(V), random_state=seed)
    np.testing.assert_array_equal(sparse, fitted.gibbs(V, random_state=seed))


def test_inverse_transform(fitted):
    H = np.array([[0.0, 1.0], [0.3, 0.6]])
    expected = 1 / (1 + np.exp(-H @ fitted.components_ - fitted.intercept_visible_))
    found = fitted.inverse_transform(H)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert fitted.inverse_transform(H.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match=r"2 columns \(hidden units\); got 3 columns"):
        fitted.inverse_transform(np.zeros((1, 3)))


# With scikit-learn ------------------------------------------------------------------------


@pytest.mark.long
def test_features_for_a_classifier():
    grey, labels = load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(grey, labels, random_state=0)
    model = make_pipeline(
        RBM(64, "pcd", binarize=7.5, max_iter=50, random_state=0),
        LogisticRegression(C=10, max_iter=1000),
    )
    assert model.fit(train, train_labels).score(test, test_labels) > 0.85


def test_grid_search_over_learners():
    X = bits(60)
    grid = {"learner": ["pcd", "cd", PSMC(n_particles=50)], "n_components": [2, 13]}
    search = GridSearchCV(quick(max_iter=2), grid, cv=2).fit(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    inner = GridSearchCV(quick(learner=PCD(), max_iter=2), {"learner__n_chains": [10, 20]}, cv=2)
    assert inner.fit(X).best_estimator_.learner.n_chains in (10, 20)


def test_types_of_rows(tmp_path):
    X = bits(40, 4)
    expected = quick().fit(X)
    saved = tmp_path / "rows.npy"
    np.save(saved, X.astype(float))
    locked = X.copy()
    locked.flags.writeable = False
    kinds = (X.astype(bool), X.astype(np.float32), X.tolist(), X.astype(object), locked)
    strided = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    for rows in (*kinds, np.asfortranarray(X), strided, np.load(saved, mmap_mode="r")):
        assert_same(quick().fit(rows), expected)
        np.testing.assert_allclose(expected.transform(rows), expected.transform(X), rtol=1e-6)
    assert expected.transform(X).dtype == np.float64
    assert expected.transform(X.astype(np.float32)).dtype == np.float32
    assert expected.transform(sp.csr_array(X.astype(np.float32))).dtype == np.float32


def test_frames():
    X = pd.DataFrame(bits(40, 3), columns=["a", "b", "c"])
    model = quick().fit(X)
    assert_same(model, quick().fit(X.to_numpy()))
    assert_same(model, quick().fit(pl.DataFrame({name: X[name].to_list() for name in X})))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.set_output(transform="pandas").transform(X).columns.tolist() == [
        f"rbm{k}" for k in range(4)
    ]
    assert (model.sample(5, given={"b": 1}, random_state=0)["b"] == 1).all()
    with pytest.raises(ValueError, match="feature names"):
        model.transform(X[["c", "b", "a"]])
    with pytest.raises(ValueError, match=r"Column 'c' holds 3, but the states are 0 and 1"):
        model.score(X.assign(c=3))


@every
@pytest.mark.parametrize("convert", [np.array, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "rows",
    [
        [[1.0, 0.0, 1.0]],
        [[1.0], [0.0], [1.0]],
        [[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]],
        [[0.0, 0.0]] * 30,
        [[1.0, 1.0], [0.0, 0.0]] * 10,
    ],
    ids=["one row", "one column", "a constant column", "all zero", "equal columns"],
)
def test_degenerate_data(rows, convert, learner):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = quick(2, learner, max_iter=8, alpha=0.01).fit(convert(np.array(rows)))
    for name in ("components_", "intercept_visible_", "intercept_hidden_", "hidden_stds_"):
        assert np.isfinite(getattr(model, name)).all()
    uniform = -len(rows[0]) * np.log(2)
    assert uniform - 0.1 < model.score(convert(np.array(rows))) <= 1e-6


# Probabilities ----------------------------------------------------------------------------


def fractions(n_rows=60, n_columns=5, seed=0):
    """Return rows of probabilities; some probabilities are exactly 0 or 1."""
    return np.clip(np.random.default_rng(seed).normal(0.6, 0.4, (n_rows, n_columns)), 0, 1)


def test_transform_takes_probabilities():
    model = quick().fit(bits(40, 5))
    other = BernoulliRBM(4).fit(bits(40, 5))
    other.components_ = model.components_
    other.intercept_hidden_ = model.intercept_hidden_
    P = fractions()
    for rows in (P, sp.csr_array(P), pd.DataFrame(P)):
        np.testing.assert_allclose(model.transform(rows), other.transform(P), rtol=1e-5)
    assert np.abs(model.transform(P) - model.transform(P > 0.5)).max() > 1e-3


@every
def test_fit_takes_probabilities(learner):
    P = fractions()
    dense, sparse = (quick(learner=learner, max_iter=2).fit(rows) for rows in (P, sp.csr_array(P)))
    np.testing.assert_allclose(dense.components_, sparse.components_, atol=1e-6)
    assert np.abs(dense.components_ - quick(learner=learner).fit(P > 0.5).components_).max() > 1e-4
    assert np.isfinite(dense.sample(3, random_state=0)).all()
    assert np.isfinite(dense.partial_fit(P).score(P > 0.5))
    assert quick(learner=learner, early_stopping=True).fit(P).history_["validation_score"][0] < 0


@pytest.mark.long
@pytest.mark.parametrize("weighted", [False, True])
def test_model_of_probabilities_has_their_means(weighted, seed):
    P = fractions(seed=seed)
    weights = np.arange(len(P)) if weighted else np.ones(len(P))
    model = RBM(1, "exact", optimizer="lbfgs", alpha=0.01, random_state=seed)
    energy = model.fit(P, sample_weight=weights).energy_
    V, log_p = law(energy)
    means = np.average(P, axis=0, weights=weights)
    np.testing.assert_allclose(np.exp(log_p) @ V, means, atol=1e-3)
    start = quick(learning_rate=1e-12, max_iter=1).fit(P, sample_weight=weights)
    ones = weights @ P
    expected = np.log((ones + 0.5) / (weights.sum() - ones + 0.5))
    np.testing.assert_allclose(start.intercept_visible_, expected, rtol=1e-4)


@pytest.mark.parametrize("query", ["score_samples", "score", "free_energy", "gibbs"])
def test_other_queries_refuse_probabilities(query):
    model = quick().fit(fractions())
    with pytest.raises(ValueError, match=r"Column . holds 0\.\d+, but .* binarize= .* by rounding"):
        getattr(model, query)(np.full((2, 5), 0.25) + 0.5 * np.eye(2, 5))


@pytest.mark.slow
def test_default_parameters_learn_a_good_model():
    X = bits(200, 12)
    model = RBM(2, random_state=0).fit(X)
    best = RBM(2, "exact", optimizer="lbfgs", random_state=0).fit(X).score(X)
    assert model.history_["n_updates"][-1] <= 10_100
    assert best - 0.3 < model.score(X) < best + 0.1  # the penalties differ


# Bad input --------------------------------------------------------------------------------

BITS = bits(20, 3)
BAD_PARAMETERS = [
    ({"n_components": 0}, "n_components must be an integer >= 1; got 0"),
    ({"n_components": 2.0}, r"n_components must be an integer; got 2\.0"),
    ({"learner": "sgd"}, r"learner must be one of \['cd', 'exact', .*'psmc'.*; got 'sgd'"),
    ({"learner": "bp"}, r"RBM cannot take the learner BP\(\): .*Take one of \['cd', 'exact'"),
    ({"learner": "pseudo-likelihood"}, r"RBM cannot take the learner PseudoLikelihood\(\)"),
    ({"learner": BP()}, r"RBM cannot take the learner BP\(\)"),
    ({"learner": PCD}, "learner must be one of .*; got <class"),
    ({"learner": PCD(n_chains=0)}, "n_chains must be an integer >= 1; got 0"),
    ({"learner": CD(n_sweeps=0)}, "n_sweeps must be an integer >= 1; got 0"),
    ({"binarize": "mean"}, "binarize must be a finite number; got 'mean'"),
    ({"init_visible_bias": "ones"}, r"init_visible_bias must be one of \['data', 'zeros'\]"),
    ({"optimizer": "lbfgs"}, 'optimizer="lbfgs" needs a deterministic objective'),
    ({"alpha": -1}, "alpha must be a number >= 0; got -1"),
    ({"max_iter": 0}, "max_iter must be an integer >= 1; got 0"),
    ({"batch_size": 0}, "batch_size must be an integer >= 1; got 0"),
    ({"max_bytes": 100}, "Learning 12 weights needs about 576 bytes, .* Use fewer n_components"),
    ({"n_components": 10**9}, "Learning 3000000000 weights needs about 1.44e"),
    ({"random_state": "seed"}, "random_state must be None, an int"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS)))
def test_bad_parameters(parameters, message):
    model = RBM(**{"n_components": 4, "learner": "pcd", "max_iter": 1, **parameters})
    with pytest.raises(ValueError, match=message):
        model.fit(BITS)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_exact_learning_of_two_large_layers_raises():
    with pytest.raises(ValueError, match=r'smaller layer \(50 units.* such as "pcd" or "psmc"'):
        RBM(60, "exact").fit(bits(20, 50))


BAD_DATA = [
    (BITS * 2, ValueError, "Column 0 holds 2, but the states are 0 and 1. .* as binarize="),
    (BITS * 1.5, ValueError, r"Column 0 holds 1\.5, but the states are 0 and 1"),
    (-0.5 * BITS, ValueError, r"Column 0 holds -0\.5, but the states are 0 and 1"),
    (np.c_[0.5 * BITS, 3.0 * BITS], ValueError, r"Column \d+ holds 3\.0, but the states are 0"),
    (sp.csr_array(BITS * 2), ValueError, "Column 0 holds 2, but the states are 0 and 1"),
    (np.where(BITS > 0, np.nan, 0), ValueError, "Column 0 holds NaN, but RBM needs complete rows"),
    (np.where(BITS > 0, np.inf, 0), ValueError, "Column . holds infinity; give finite"),
    (BITS[:0], ValueError, r"Found array with 0 sample\(s\)"),
    (BITS[:, :0], ValueError, r"Found array with 0 feature\(s\)"),
    (BITS[:, 0], ValueError, "Expected 2D array, got 1D array"),
    (BITS + 1j, ValueError, "Complex data not supported"),
    (np.array([["a", "b"]] * 3), ValueError, "which is not a number; give two states"),
    (pd.DataFrame({"x": [1, 1], "y": [0, 7]}), ValueError, "Column 'y' holds 7, but the states"),
]


@pytest.mark.parametrize(("data", "error", "message"), BAD_DATA, ids=range(len(BAD_DATA)))
def test_bad_data(data, error, message):
    model = quick()
    with pytest.raises(error, match=message):
        model.fit(data)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_failed_fit_keeps_the_previous_model():
    model = quick().fit(BITS)
    before = model.score(BITS)
    with pytest.raises(ValueError, match="Column 1 holds 3"):
        model.fit(np.array([[1, 3]]))
    assert model.score(BITS) == before
    with pytest.raises(ValueError, match="X has 2 features, but RBM is expecting 3"):
        model.transform(np.ones((1, 2)))


def test_unfitted_and_clone():
    model = RBM(3, PCD(n_chains=10))
    for query in ("transform", "free_energy", "score_samples", "score", "gibbs", "sample"):
        with pytest.raises(NotFittedError):
            getattr(model, query)(*([] if query == "sample" else [BITS]))
    with pytest.raises(NotFittedError):
        model.inverse_transform(np.ones((1, 3)))
    assert clone(model).learner.n_chains == 10
    assert not hasattr(model, "components_")
    assert model.__sklearn_tags__().input_tags.sparse


@pytest.mark.parametrize("learner", ["mssvm", MSSVM()], ids=str)
def test_learners_of_conditional_models_raise(learner):
    with pytest.raises(ValueError, match="RBM cannot take the learner"):
        RBM(2, learner).fit(np.eye(4))


# Devices ----------------------------------------------------------------------------------


def on_device(**options):
    """Return an estimator that is fitted quickly on the default device of JAX."""
    return quick(3, device="jax", **{"alpha": 0.01, "batch_size": 100} | options)


@pytest.mark.parametrize("kind", ["codes", "probabilities", "sparse", "jax"])
def test_transform_on_a_device(kind, monkeypatch):
    """The hidden units of many rows are those of the CPU, and a second call compiles nothing."""
    jax, devices = pytest.importorskip("jax"), pytest.importorskip("skmrf._jax.devices")
    rows = bits(300, 6)
    monkeypatch.setattr("skmrf.estimators._hidden_layer.DEVICE_ROWS", 128)
    model = on_device(max_iter=40, learning_rate=0.05, optimizer="adam").fit(rows)
    on_cpu = clone(model).set_params(device="cpu").fit(rows)
    on_cpu.energy_ = model.energy_
    convert = {"sparse": sp.csr_array, "jax": jax.numpy.asarray}.get(kind, np.asarray)
    X = np.clip(rows, 0.2, 0.7) if kind == "probabilities" else rows.astype(np.float32)
    for part in (convert(X), convert(X[:5])):
        found = model.transform(part)
        assert type(found) is np.ndarray
        assert found.dtype == X.dtype
        np.testing.assert_allclose(found, on_cpu.transform(np.asarray(X[: len(found)])), atol=1e-6)
    assert np.ptp(found) > 0.3
    compiled = devices._COMPILED["hidden means", type(model.energy_)]
    n_compiled = compiled._cache_size()
    model.transform(convert(X[:100]))  # padded to 128 rows, as the blocks are
    assert compiled._cache_size() == n_compiled
    monkeypatch.setattr(devices.Device, "free_bytes", 100.0)
    with pytest.raises(MemoryError, match=r"Inference needs about .* bytes of the device, and 100"):
        model.transform(X)


def test_refitted_models_use_their_own_parameters():
    """A second fit gives the answers of its parameters, compiles nothing, and frees the first."""
    pytest.importorskip("jax")
    devices = pytest.importorskip("skmrf._jax.devices")
    rows = bits(300, 6)
    X, Y = rows.astype(np.float32), rows[:, :2].astype(int)
    conditional = CRBMStructuredPredictor(2, alpha=0.1, max_iter=2, device="jax", random_state=0)
    for model, given, method in (
        (on_device(), (rows,), "transform"),
        (conditional, (X, Y), "predict_proba"),
    ):
        first = getattr(model.fit(*given), method)(X)
        old = weakref.ref(model.energy_.theta["weights"])
        functions = dict(devices._COMPILED)
        sizes = {k: getattr(f, "compiled", f)._cache_size() for k, f in functions.items()}
        second = getattr(model.set_params(random_state=1, alpha=1.0).fit(*given), method)(X)
        assert functions == devices._COMPILED
        assert sizes == {k: getattr(f, "compiled", f)._cache_size() for k, f in functions.items()}
        assert np.abs(second - first).max() > 1e-3
        np.testing.assert_allclose(
            second, getattr(model.set_params(device="cpu"), method)(X), atol=1e-5
        )
        gc.collect()
        assert old() is None


def test_hidden_means_of_a_device(monkeypatch):
    devices, model = pytest.importorskip("skmrf._jax.devices"), on_device(max_iter=None)
    on_cpu = clone(model).fit(bits(300, 6))
    monkeypatch.setattr("skmrf.estimators._hidden_layer.DEVICE_WORK", 0)
    devices._COMPILED.pop(("hidden means", BipartiteEnergy), None)
    model.fit(bits(300, 6))
    assert ("hidden means", BipartiteEnergy) in devices._COMPILED
    np.testing.assert_allclose(model.hidden_means_, on_cpu.hidden_means_, rtol=1e-5)


@pytest.mark.long
def test_last_iterations_on_a_device(monkeypatch):
    """A device computes the exact gradients at the end of a fit with few hidden units."""
    pytest.importorskip("jax")
    X, used, objective = bits(150, 6), [], DeviceExact.objective
    monkeypatch.setattr(
        DeviceExact, "objective", lambda *a, **b: used.append(1) or objective(*a, **b)
    )
    model = on_device(alpha=0.001, max_iter=None, early_stopping=True).fit(X)
    assert len(used) > 5
    n_used = len(used)
    monkeypatch.setattr(DeviceExact, "fits", lambda *_: False)
    on_host = clone(model).fit(X)
    assert len(used) == n_used
    np.testing.assert_allclose(model.components_, on_host.components_, rtol=1e-4, atol=1e-4)
    assert model.score(X) == pytest.approx(on_host.score(X), abs=1e-6)


# Columns that exclude each other -------------------------------------------------------------


def exclusive(n_rows, n_columns, seed):
    """Return the indicators of a category with equally frequent levels."""
    return np.eye(n_columns, dtype=int)[np.random.default_rng(seed).permutation(n_rows) % n_columns]


@pytest.mark.parametrize("n_columns", [pytest.param(6, marks=pytest.mark.long), 10])
def test_columns_that_exclude_each_other(n_columns, seed, monkeypatch):
    """Exact scores are compared with those of independent columns and of the true distribution."""
    monkeypatch.setattr(_weight_decay, "_n_updates", lambda *_: 600)
    X = exclusive(1000, n_columns, seed)
    score = RBM(32 if n_columns == 6 else 16, random_state=seed).fit(X).score(X)
    p = 1.0 / n_columns
    independent = n_columns * (p * np.log(p) + (1.0 - p) * np.log(1.0 - p))
    assert np.log(p) > score > independent + 0.5 * (np.log(p) - independent)


@pytest.mark.parametrize("alpha", [pytest.param(0.0, marks=pytest.mark.long), 0.01])
def test_a_model_of_independent_columns_is_reported(alpha, seed, monkeypatch):
    """The correlations of the indicators of 16 categories are -1/15."""
    monkeypatch.setattr(_weight_decay, "_n_updates", lambda *_: 600)
    with pytest.warns(ConvergenceWarning, match="No hidden unit depends on the rows"):
        model = RBM(4, alpha=alpha, random_state=seed).fit(exclusive(1000, 16, seed))
    assert not model.converged_
    noise = np.random.default_rng(seed).random((1000, 16)) < np.linspace(0.002, 0.5, 16)
    for weights in (None, np.append(1e8, np.ones(999))):
        model = RBM(4, alpha=alpha, random_state=seed).fit(noise.astype(int), sample_weight=weights)
        assert model.converged_


def test_a_strong_penalty_that_removes_hidden_units_is_reported(seed):
    X, w = np.repeat(bits(300, 4), 2, axis=1), np.arange(300)
    with pytest.warns(ConvergenceWarning, match="No hidden unit depends on the rows"):
        assert not RBM(4, alpha=1.0, random_state=seed).fit(X, sample_weight=w).converged_


@pytest.mark.parametrize("n_hidden", [3, 100])
def test_larger_random_weights(n_hidden, seed):
    """At the column means hidden units are 1 with probability 1/2, and have no mean effect."""
    X = bits(400, 9, seed)
    small = initial_layers(Batch(X), n_hidden, "data", np.random.default_rng(seed))
    energy = random_layers(small, Batch(X))
    means = expit(small.visible_bias)
    assert energy.weights.dtype == small.weights.dtype
    np.testing.assert_allclose(means @ energy.weights + energy.hidden_bias, 0.0, atol=1e-4)
    odds = energy.visible_bias + 0.5 * energy.weights.sum(axis=1)
    np.testing.assert_allclose(odds, small.visible_bias, atol=1e-4)
    V = np.random.default_rng(seed).random((4000, 9)) < means
    deviation = np.sqrt((V @ energy.weights).var(axis=0).mean())
    assert 0.4 < deviation * n_hidden**0.25 / 5.0 < 1.8


def test_means_of_hidden_units_count_weighted_rows(seed):
    """A weight of 2 has the effect of two copies of the row."""
    X = np.random.default_rng(seed).integers(2, size=(60, 4))
    model = RBM(3, alpha=0.01, max_iter=3, random_state=seed)
    weights = np.arange(60) % 3
    model.fit(X, sample_weight=weights)
    copies = model.transform(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(model.hidden_means_, copies.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(model.hidden_stds_, copies.std(axis=0), rtol=1e-4)
    means = [model.fit(X, sample_weight=w).hidden_means_ for w in (None, np.ones(60))]
    np.testing.assert_allclose(*means, rtol=1e-9)
