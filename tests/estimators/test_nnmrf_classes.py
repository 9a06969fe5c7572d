"""Tests of NNMRFBayesClassifier, and of copied and few rows of NNMRFClassifier."""

import functools

import numpy as np
import pandas as pd
import pytest
from estimator_models import (
    DENSITIES,
    KINDS,
    both,
    classes,
    fitted,
    kinds,
    learned,
    line,
    plants,
    ring,
    rings,
    small,
    with_gap,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skmrf import (
    GaussianPotentials,
    MRFImputer,
    NetworkPotentials,
    NNMRFBayesClassifier,
    NNMRFClassifier,
    NNMRFDensity,
)
from skmrf._data.classes import transform_wide_columns
from skmrf._data.mixed import learn_columns
from skmrf.estimators.nnmrf import initial_energy
from skmrf.estimators.nnmrf.gaussian_base import pooled_covariance
from skmrf.learners import Variational

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_iris(iris, seed):
    X, y = iris
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:100], order[100:]
    model = classes(max_iter=12, random_state=seed).fit(X[train], y[train])
    for density in DENSITIES:
        model.set_params(potentials__density=density)
        assert model.score(X[test], y[test]) >= 0.88
        p = model.predict_proba(X[test])
        assert_allclose(p.sum(axis=1), 1.0)
        assert (p >= 0).all()
        assert_allclose(np.exp(model.predict_log_proba(X[test])), p)
        assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X[test]))
        joint = model.predict_joint_log_proba(X[test])
        assert_allclose(np.logaddexp.reduce(joint, axis=1), model.score_samples(X[test]))
        assert_allclose(joint - model.score_samples(X[test])[:, None], np.log(p), atol=1e-9)
    assert_allclose(model.class_prior_, np.bincount(y[train]) / len(train))
    assert model.n_iter_ == 12
    assert len(model.densities_) == 3
    assert all(isinstance(part, NNMRFDensity) for part in model.densities_)


def test_densities_of_classes_integrate_to_one(seed):
    X = plants(120, seed)
    model = classes(max_iter=8).fit(X[:, :1], X[:, 1])
    scaled = classes(max_iter=8).fit(X[:, :1] * 1e3, X[:, 1])
    axis = np.linspace(-20, 26, 4001)[:, None]
    for density in DENSITIES:
        model.set_params(potentials__density=density)
        joint = np.exp(model.predict_joint_log_proba(axis)) * (axis[1] - axis[0])
        assert_allclose(joint.sum(axis=0), model.class_prior_, atol=2e-3)
        expected = model.score_samples(axis) - np.log(1e3)
        found = scaled.set_params(potentials__density=density).score_samples(axis * 1e3)
        assert_allclose(found, expected, atol=0.05)


@pytest.mark.parametrize("labels", [["b", "a"], [5, -1], [True, False], [0.0, 1.0]], ids=str)
def test_labels(labels, seed):
    X = np.r_[ring(30, seed), ring(30, seed) + 20.0]
    y = np.repeat(labels, 30)
    model = classes().fit(X, y)
    assert model.classes_.tolist() == sorted(labels)
    assert model.predict(X).dtype == y.dtype
    assert_array_equal(model.predict(X), y)
    rows = model.sample(4, y=labels[0], random_state=0)
    assert model.predict(rows).tolist() == [labels[0]] * 4


def test_priors(seed):
    X, y = np.r_[ring(30, seed), ring(60, seed) + 1.0], np.repeat([0, 1], [30, 60])
    counted, given = classes().fit(X, y), classes(priors=[0.9, 0.1]).fit(X, y)
    assert_allclose(counted.class_prior_, [1 / 3, 2 / 3])
    assert_allclose(given.class_prior_, [0.9, 0.1])
    shift = np.log([0.9 * 3, 0.1 * 1.5])
    expected = counted.predict_log_proba(X) + shift
    expected -= np.logaddexp.reduce(expected, axis=1, keepdims=True)
    assert_allclose(given.predict_log_proba(X), expected, atol=1e-9)
    expected = counted.predict_joint_log_proba(X) + shift
    assert_allclose(given.predict_joint_log_proba(X), expected)
    X[y == 1] += 100.0
    never = classes(priors=[1, 0]).fit(X, y)
    assert_array_equal(never.predict(X), 0)
    assert_allclose(never.predict_proba(X), np.tile([1.0, 0.0], (90, 1)))
    assert (never.sample(50, random_state=0) < 50.0).all()
    assert not (never.sample(50, y=1, random_state=0) < 50.0).any()


def test_training_of_a_class_ends_after_100_epochs(seed, monkeypatch):
    """Other parameters of training keep about 500 updates: 50 with windows a tenth as long."""
    X, y = np.r_[ring(30, seed), ring(130, seed) + 1.0], np.repeat([0, 1], [30, 130])
    small_nets = {"node_layers": (2,), "edge_layers": (2,)}

    def updates(**parameters):
        networks = NetworkPotentials(**small_nets, **parameters)
        model = NNMRFBayesClassifier(networks, random_state=seed).fit(X, y)
        return [density.history_["n_updates"][-1] for density in model.densities_]

    assert updates() == [100, 200]
    rate, epochs = initial_energy.RATE_WITHOUT_HELD_OUT, initial_energy.WINDOW_OF_CLASS
    shorter = clone(rate).set_params(window=rate.window // 10)
    monkeypatch.setattr(initial_energy, "RATE_WITHOUT_HELD_OUT", shorter)
    monkeypatch.setattr(initial_energy, "WINDOW_OF_CLASS", epochs // 10)
    assert updates(batch_size=20) == [20, 56]  # complete epochs
    assert updates(optimizer="adam") == [50, 50]
    assert updates(max_iter=12) == [12, 24]
    assert updates(learner=Variational(n_components=2)) == [50, 50]


def test_density_can_be_chosen_after_a_fit(seed):
    X, y = ring(60, seed), np.resize([0, 1], 60)
    parts, later = classes(density="mrf").fit(X, y), classes().fit(X, y)
    before = later.score_samples(X)
    later.set_params(potentials__density="mrf")
    assert_allclose(later.score_samples(X), parts.score_samples(X))
    assert_array_equal(later.sample(5, random_state=1), parts.sample(5, random_state=1))
    assert np.abs(later.score_samples(X) - before).max() > 1e-6
    wrong = {"potentials__density": "foo"}
    for model in (later.set_params(**wrong), small().fit(X).set_params(**wrong)):
        for ask in (model.score_samples, lambda _, model=model: model.sample(2)):
            with pytest.raises(ValueError, match="density must be one of"):
                ask(X)


@pytest.mark.parametrize("size", [1e-300, 1e308])
def test_scale_of_weights_does_not_matter(size, seed):
    X, y = ring(60, seed), np.resize([0, 1], 60)
    weighted = classes().fit(X, y, sample_weight=np.full(60, size))
    assert_allclose(weighted.predict_proba(X), classes().fit(X, y, np.ones(60)).predict_proba(X))


@both
def test_one_class(density, seed):
    X = ring(40, seed)
    model = classes(density=density).fit(X, np.full(40, "only"))
    assert_array_equal(model.predict(X), "only")
    assert_allclose(model.predict_proba(X), 1.0)
    assert np.isfinite(model.score_samples(X)).all()


@both
def test_one_row_per_class(density, seed):
    X = np.array([[0.5, 0.5], [5.5, 0.5], [0.5, 1e3]])
    model = classes(density=density).fit(X, ["a", "b", "c"])
    assert model.predict(X).tolist() == ["a", "b", "c"]
    assert np.isfinite(model.predict_joint_log_proba(X + 1.0)).all()
    X = np.r_[ring(40, seed), [[50.0, 50.0]]]
    model = classes(density=density).fit(X, [0] * 40 + [1])
    assert model.predict([[50.0, 50.0]]) == [1]
    assert (model.predict(X[:40]) == 0).all()
    assert np.isfinite(model.predict_joint_log_proba(X)).all()


def test_samples_of_classes(seed):
    X = np.r_[ring(30, seed), ring(60, seed) + 30.0]
    model = classes().fit(X, np.repeat(["a", "b"], [30, 60]))
    drawn = model.predict(model.sample(600, random_state=seed))
    share = np.mean(drawn == "b")
    assert share == pytest.approx(2 / 3, abs=5 * np.sqrt(2 / 9 / 600))
    assert set(model.predict(model.sample(20, y="a", random_state=seed))) == {"a"}
    wanted = np.resize(["b", "a", "a"], 30)
    rows = model.sample(30, y=wanted, random_state=seed)
    assert_array_equal(model.predict(rows), wanted)
    assert_array_equal(rows, model.sample(30, y=wanted, random_state=seed))
    assert model.sample().shape == (1, 2)
    mixed = pd.DataFrame({"x": X[:, 0], "kind": np.resize(KINDS, 90)})
    model = classes(column_types={"kind": "categorical"}).fit(mixed, np.resize([0, 1], 90))
    rows = model.sample(20, random_state=seed)
    assert set(rows["kind"]) <= set(KINDS)
    assert np.isfinite(rows["x"]).all()


@pytest.mark.long
def test_missing_entries_in_queries(iris, seed):
    X, y = iris
    model = classes(max_iter=10).fit(X, y)
    blank, unknown = X.copy(), np.full((1, 4), np.nan)
    blank[:, :2] = np.nan
    incomplete = np.where(np.random.default_rng(seed).random(X.shape) < 0.2, np.nan, X)
    other = classes(max_iter=10).fit(incomplete, y)
    for density in DENSITIES:
        model.set_params(potentials__density=density)
        assert model.score(blank, y) > 0.85
        assert_allclose(model.predict_proba(unknown)[0], model.class_prior_, atol=0.1)
        assert other.set_params(potentials__density=density).score(X, y) > 0.85


def test_units_of_columns_do_not_matter(seed):
    """The rows have missing entries, and the columns have other units."""
    X = plants(90, seed)
    X, y = np.stack([X[:, 0], X[:, 0] * 1e3 + 50], axis=1), X[:, 1]
    X[:, 1] += 1e3 * np.random.default_rng(seed).normal(size=90)
    model = classes().fit(X, y)
    first = model.score_samples(with_gap(X, 1))
    second = model.score_samples(with_gap(X, 0))
    assert -5 < first.mean() < -1
    assert -5 < second.mean() + np.log(1e3) < -1


@pytest.mark.long
def test_searches_and_pipelines(iris):
    X, y = iris
    model = classes(learner=Variational(), max_iter=6)
    grid = {"potentials__learner__n_components": [1, 3], "potentials__alpha": [0.001]}
    search = GridSearchCV(clone(model), grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.9
    assert set(search.best_params_) == set(grid)
    assert cross_val_score(model, X, y, cv=2).min() > 0.85
    assert make_pipeline(StandardScaler(), model).fit(X, y).score(X, y) > 0.9
    calibrated = CalibratedClassifierCV(model, cv=2).fit(X, y)
    assert calibrated.score(X, y) > 0.9
    assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1.0)
    grid = {"potentials__alpha": [0.001], "potentials__graph": ["tree", "empty"]}
    search = GridSearchCV(small(), grid, cv=3).fit(line(90, 0, 3))
    assert search.best_params_["potentials__graph"] == "tree"
    grid = {"potentials": [GaussianPotentials()], "potentials__n_components": [1, 2]}
    search = GridSearchCV(NNMRFDensity(random_state=0), grid, cv=3).fit(ring(90, 0))
    assert search.best_params_["potentials__n_components"] == 2


def test_classes_of_frames(seed):
    codes = plants(90, seed)
    table = pd.DataFrame({"height": codes[:, 0] + codes[:, 1], "kind": codes[:, 1]})
    table["kind"] = pd.Categorical(KINDS[codes[:, 1].astype(int)])
    y = pd.Series(np.where(codes[:, 1] == 2, "big", "little"))
    model = classes(max_iter=20).fit(table, y)
    assert model.score(table, y) > 0.9
    assert model.feature_names_in_.tolist() == ["height", "kind"]
    assert model.categories_[0].tolist() == KINDS.tolist()
    incomplete = pd.DataFrame({"height": [np.nan, 10.0], "kind": ["tree", None]})
    assert model.predict(incomplete).tolist() == ["big", "big"]
    with pytest.raises(ValueError, match="Column 'kind' has the category 'oak'"):
        model.predict(pd.DataFrame({"height": [1.0], "kind": ["oak"]}))
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        model.predict(table.rename(columns={"kind": "sort"}))


def test_missing_entries_do_not_change_the_shrinkage(seed):
    y = np.repeat(np.arange(4), 100)
    X = line(400, seed, 2, 0.8) + 5.0 * y[:, None]
    incomplete = np.where(np.random.default_rng(seed).random(X.shape) < 0.3, np.nan, X)
    for table in (X, incomplete):
        density = classes(max_iter=1).fit(table, y).densities_[0]
        networks = density.potentials
        assert networks.shrinkage >= 0.2  # all classes have the same covariance
        spread = np.sqrt(np.diag(networks.prior_covariance)) * X.std(axis=0)
        assert_allclose(spread, 1.0, atol=0.2)


def test_pooled_covariances_of_small_classes(seed):
    y = np.repeat(np.arange(2000), 2)
    X = np.random.default_rng(seed).normal(size=(4000, 2)) + 0.1 * y[:, None]
    assert_allclose(np.diag(pooled_covariance(X, y, np.ones(len(X)))), 1.0, atol=0.2)


def test_one_row_per_class_has_the_covariance_of_all_rows():
    model = classes().fit([[0.0], [1.05], [2.0]], [0, 1, 2])
    assert model.predict([[0.1], [1.9]]).tolist() == [0, 2]
    assert model.score_samples([[0.5]])[0] > -5


def test_priors_are_normalised():
    X, y = load_iris(return_X_y=True)
    model = classes(priors=[0.3333333] * 3).fit(X, y)
    assert model.sample(5, random_state=0).shape == (5, 4)


def test_an_empty_row_has_log_density_zero():
    model = learned("two numbers", "mrf", 0)
    assert_allclose(model.score_samples([[np.nan, np.nan]]), 0.0, atol=1e-12)


# Bayes' rule ---------------------------------------------------------------------------


def with_missing_entries(X):
    return np.where((np.arange(len(X)) % 3 == 0)[:, None] & [False, True], np.nan, X)


@pytest.mark.parametrize("kind", ["rings", "kinds"])
def test_joint_probabilities(kind, seed):
    model = fitted(kind, seed)
    X = with_missing_entries({"rings": rings, "kinds": kinds}[kind](40, seed + 1)[0])
    scores, p = model.score_samples(X), model.predict_proba(X)
    joint = model.predict_joint_log_proba(X)
    assert_allclose(np.logaddexp.reduce(joint, axis=1), scores, rtol=1e-10)
    assert_allclose(np.exp(joint - scores[:, None]), p, rtol=1e-8, atol=1e-12)
    assert_allclose(p.sum(axis=1), 1.0)
    assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])


def test_priors_shift_log_odds(seed):
    X, y = rings(60, seed)
    y = np.where(X[:, 0] > 0.5, "c", np.where(y, "a", "b"))
    counted, priors = classes().fit(X, y), np.array([0.2, 0.7, 0.1])
    given = classes(priors=priors).fit(X, y)
    rows = with_missing_entries(X)
    shift = np.log(priors / counted.class_prior_)
    expected = counted.predict_log_proba(rows) + shift
    expected -= np.logaddexp.reduce(expected, axis=1, keepdims=True)
    assert_allclose(given.predict_log_proba(rows), expected, atol=1e-10)
    never = classes(priors=[0.5, 0.5, 0.0]).fit(X, y)
    assert_array_equal(never.predict_proba(rows)[:, 2], 0.0)
    assert np.isfinite(never.predict_log_proba(rows)[:, :2]).all()


def test_rows_of_weight_zero_are_ignored(seed):
    X, y = rings(60, seed)
    weights = np.random.default_rng(seed).exponential(size=60)
    weights[40:] = 0.0
    X[50:, 0], y[55:] = 1e3, 7
    left = classes().fit(with_missing_entries(X), y, sample_weight=weights)
    right = classes().fit(with_missing_entries(X)[:40], y[:40], sample_weight=weights[:40])
    assert left.classes_.tolist() == [0, 1]
    rows = rings(30, seed + 1)[0]
    assert_array_equal(left.predict_proba(rows), right.predict_proba(rows))
    scaled = classes().fit(with_missing_entries(X)[:40], y[:40], sample_weight=1e3 * weights[:40])
    assert_allclose(scaled.predict_proba(rows), right.predict_proba(rows), atol=0.02)


def test_missing_and_unknown_categories(seed):
    X, y = kinds(90, seed)
    table = pd.DataFrame({"size": X[:, 0], "kind": pd.Categorical(X[:, 1].astype(int).astype(str))})
    model = classes().fit(table, y)
    rows = table.iloc[:4].astype(object)
    rows["kind"] = [None, np.nan, pd.NA, None]
    incomplete = table.iloc[:4].assign(kind=pd.Categorical([None] * 4, list("012")))
    assert_array_equal(model.predict_proba(rows), model.predict_proba(incomplete))
    with pytest.raises(ValueError, match="Column 'kind' has the category 'oak'"):
        model.predict(rows.assign(kind="oak"))


def table_with_rare_categories(seed):
    """Return a table of numbers, text and codes, and classes; two categories have one row each."""
    X, y = kinds(90, seed)
    kind = np.array(["ash", "elm", "oak"], dtype=object)[X[:, 1].astype(int)]
    code = np.random.default_rng(seed).integers(2, size=90).astype(float)
    kind[40], code[50] = "yew", 7.0
    return pd.DataFrame({"size": X[:, 0], "kind": kind, "code": code}), y


def test_unseen_categories_of_detected_columns_are_missing(seed):
    table, y = table_with_rare_categories(seed)
    model = NNMRFBayesClassifier("gaussian", random_state=0)
    model.fit(table.drop(index=[40, 50]), np.delete(y, [40, 50]))
    assert model.column_types_[1:] == ["categorical"] * 2
    row = table.iloc[[3]].assign(kind="yew")
    with pytest.warns(UserWarning, match=r"categories were not seen.* 'yew' in column 'kind'"):
        found = model.predict_proba(row)
    assert_allclose(found, model.predict_proba(row.assign(kind=None)), atol=1e-12)
    with pytest.warns(UserWarning, match=r"numbers were not seen.*7\.0 in column 'code'"):
        score = model.score_samples(row.assign(kind="elm", code=7.0))
    known = model.score_samples(row.assign(kind="elm", code=None))
    assert_allclose(score, known - np.log(89.0), atol=1e-12)
    for wrong in ({"code": 1.5}, {"code": "ash"}, {"kind": 3}):
        with pytest.raises(ValueError, match="not seen in fit"):
            model.predict(row.assign(kind="elm").assign(**wrong))


def test_cross_validation_with_rare_categories(seed):
    table, y = table_with_rare_categories(seed)
    model = NNMRFBayesClassifier("gaussian")
    with pytest.warns(UserWarning, match="in column 'kind'"):
        assert np.isfinite(cross_val_score(model, table, y, cv=3)).all()
    model.set_params(column_types={"kind": "categorical"})
    with pytest.raises(ValueError, match="Column 'kind' has the category 'yew'"):
        cross_val_score(model, table, y, cv=3, error_score="raise")


FAR_ROWS = {
    "totals": lambda X: X.sum(axis=0)[None],
    "unknown": lambda X: np.full((1, X.shape[1]), 99999.0),
    "one entry": lambda X: np.r_[-99999.0, X[0, 1:]][None],
}


@functools.cache
def imputer_without_far_rows(seed):
    """Return rows for training, rows for tests, and a fitted imputer."""
    X = np.random.default_rng(seed).permutation(load_iris().data)
    return X[:90], X[90:], MRFImputer(random_state=seed).fit(X[:90])


@pytest.mark.parametrize("name", FAR_ROWS)
def test_one_far_row_does_not_spoil_a_density(name, seed):
    """The density, its samples and imputed entries are about those without this row."""
    X, test, alone = imputer_without_far_rows(seed)
    rows = np.r_[X, FAR_ROWS[name](X)]
    both = MRFImputer(random_state=seed).fit(rows)
    incomplete = np.where(np.random.default_rng(0).random(test.shape) < 0.2, np.nan, test)
    errors = [np.abs(model.transform(incomplete) - test).mean() for model in (alone, both)]
    assert errors[1] < 1.3 * errors[0]
    density = both.estimator_
    assert isinstance(density, NNMRFDensity)
    assert density.score(test) > alone.estimator_.score(test) - 0.3
    low, high = np.quantile(density.sample(1000, random_state=seed), (0.1, 0.9), axis=0)
    assert (low > X.min(axis=0) - 1.0).all()
    assert (high < X.max(axis=0) + 1.0).all()
    assert -100.0 < density.score_samples(rows)[-1] < density.score_samples(X).min() - 3.0


def test_far_values_of_many_columns_stay_apart(seed):
    """A row with a far number in one column has ordinary, dependent numbers in the others."""
    rng = np.random.default_rng(seed)
    X = 4.0 * rng.choice([-1.0, 1.0], size=(500, 1)) + 0.5 * rng.normal(size=(500, 12))
    rows = X.copy()
    for j in range(12):
        rows[rng.choice(500, 5, replace=False), j] = 1e6
    is_far = rows == 1e6
    model = NNMRFDensity(random_state=seed).fit(rows)
    draws = model.sample(4000, random_state=seed)
    assert abs((np.abs(draws) > 50.0).mean() - is_far.mean()) < 0.004
    assert abs((np.abs(draws) > 50.0).any(axis=1).mean() - is_far.any(axis=1).mean()) < 0.03
    far_first = (np.abs(draws[:, 0]) > 50.0) & (np.abs(draws[:, 1:]) < 50.0).all(axis=1)
    assert np.corrcoef(draws[far_first][:, [3, 5]].T)[0, 1] > 0.8
    single = rows[is_far.sum(axis=1) == 1]
    assert model.score(single) > -40.0
    other = np.where(single == 1e6, single, 2.0 * rng.normal(size=single.shape))
    assert model.score(single) > model.score(other) + 10.0


def test_rows_with_far_values_have_the_common_categories(seed):
    rng = np.random.default_rng(seed)
    kind = np.where(rng.random(600) < 0.95, "common", "rare")
    table = pd.DataFrame({"x": rng.normal(size=600), "kind": kind})
    table.loc[:4, "x"] = 1e6
    draws = NNMRFDensity(random_state=seed).fit(table).sample(20_000, random_state=seed)
    assert (draws["kind"][draws["x"].abs() > 50.0] == "common").mean() > 0.85


def test_one_far_row_does_not_spoil_networks(iris, seed):
    X = iris[0][np.random.default_rng(seed).permutation(150)]
    networks = NetworkPotentials(max_iter=20)
    alone, both = (
        NNMRFDensity(networks, random_state=seed).fit(rows).score(X[90:])
        for rows in (X[:90], np.r_[X[:90], [[99999.0] * 4]])
    )
    assert both > alone - 0.5


def test_one_far_row_does_not_spoil_a_classifier(iris, seed):
    order = np.random.default_rng(seed).permutation(150)
    (X, y), train, test = iris, order[:100], order[100:]
    rows, labels = np.r_[X[train], np.full((1, 4), 99999.0)], np.r_[y[train], 0]
    model = classes(max_iter=12, random_state=seed).fit(rows, labels)
    for density in DENSITIES:
        model.set_params(potentials__density=density)
        assert model.score(X[test], y[test]) >= 0.86


def test_a_rare_class_far_from_the_others_is_recognised(seed):
    """Its numbers are far from those of the other class, but not from each other."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(400, 2)), np.zeros(400, dtype=int)
    X[:4, 0] += 60.0
    y[:4] = 1
    model = classes(max_iter=10, random_state=seed).fit(X, y)
    assert_array_equal(model.predict([[60.0, 0.0], [59.0, 1.0], [0.0, 0.0]]), [1, 1, 0])


# Columns with wide tails ------------------------------------------------------------------------


def wide_rows(seed, n=500):
    """Return a lognormal column, a cubed normal one, one with zeros, a normal one, and labels."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 4))
    y = ((Z[:, 0] + Z[:, 1] > 0) ^ (rng.random(n) < 0.1)).astype(int)
    with_zeros = np.where(rng.random(n) < 0.3, 0.0, np.exp(1.5 * Z[:, 2]))
    return np.stack([np.exp(2 * Z[:, 0]), Z[:, 1] ** 3, with_zeros, Z[:, 3]], axis=1), y


def test_transformed_columns(seed):
    """Decoded rows are those before, and log_scale has the derivative of the transform."""
    X, y = wide_rows(seed)
    X[5, 0] = np.nan
    names, rows = list("abcd"), list(X.T)
    before = learn_columns(X, rows, names, "auto", "auto")
    columns = transform_wide_columns(before, rows, y, None, {})
    assert list(columns.curves) == [0, 1, 2]
    Z = columns.encode(rows)
    assert_allclose(np.nanmean(Z, axis=0), 0.0, atol=1e-6)
    assert_allclose(np.nanstd(Z, axis=0), 1.0, rtol=1e-6)
    complete = ~np.isnan(X).any(axis=1)
    assert_allclose(columns.decode(Z[complete]), X[complete], rtol=1e-6, atol=1e-9)
    steps = 1e-5 * (np.abs(X) + 1e-3)
    slopes = (columns.encode(list((X + steps).T)) - columns.encode(list((X - steps).T))) / 2 / steps
    found = columns.log_scale(Z)
    assert_allclose(found, -np.nansum(np.log(slopes), axis=1), atol=1e-3)
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=(300, 3)) + np.arange(300)[:, None] % 2
    again = learn_columns(normal, list(normal.T), names[:3], "auto", "auto")
    assert transform_wide_columns(again, list(normal.T), np.arange(300) % 2, None, {}) is again
    far = normal.copy()
    far[0, 0] = 99999.0  # one far number is no wide tail
    again = learn_columns(far, list(far.T), names[:3], "auto", "auto")
    assert transform_wide_columns(again, list(far.T), np.arange(300) % 2, None, {}) is again


def test_distant_classes_are_no_wide_tail(seed):
    """The rows of each class are normal, but those of all classes together are skewed."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(400) >= 340).astype(int)
    X = np.where(labels == 1, 60.0, 6.0)[:, None] + rng.normal(size=(400, 2))
    columns = learn_columns(X, list(X.T), ["a", "b"], "auto", "auto")
    assert transform_wide_columns(columns, list(X.T), labels, None, {}) is columns
    assert transform_wide_columns(columns, list(X.T), 0 * labels, None, {}) is not columns


def test_densities_of_columns_with_wide_tails(seed):
    X, y = wide_rows(seed, 800)
    scores, densities = [], []
    for transform in (False, True):
        model = classes(max_iter=20, random_state=seed).set_params(transform_columns=transform)
        model.fit(X[:400], y[:400])
        scores.append(model.score(X[400:], y[400:]))
        densities.append(model.score_samples(X[400:]))
    assert scores[1] > scores[0] + 0.02
    assert densities[1].mean() > densities[0].mean() + 2.0
    rows = model.sample(1000, random_state=seed)
    assert (rows[:, [0, 2]] >= 0).all()
    assert np.abs(rows).max() < 5 * np.abs(X).max()
    strange = np.array([[-1.0, 0, 0, 0], [1e300, 0, 0, 0], [0, -1e300, -5, 0], [np.nan] * 4])
    assert np.isfinite(model.predict_log_proba(strange)).all()
    assert (model.score_samples(strange) > -1e5).all()
    with pytest.raises(ValueError, match="transform_columns must be True or False; got 'log'"):
        clone(model).set_params(transform_columns="log").fit(X, y)


# Copied rows and few rows of NNMRFClassifier ----------------------------------------------------


def test_copies_are_weights(seed):
    """Copies give the same model as the weights of the distinct rows, also with missing values."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    X["d"] = rng.choice(["u", "v", None], 60)
    X = X.mask(rng.random(X.shape) < 0.1)
    y = (rng.normal(size=60) + X["a"].fillna(0) > 0).to_numpy(int)
    counts = rng.integers(1, 4, 60)
    again = np.repeat(np.arange(60), counts)
    model = NNMRFClassifier(max_iter=10, cv=3, random_state=seed)
    copied = clone(model).fit(X.iloc[again], y[again])
    weighted = clone(model).fit(X, y, sample_weight=counts)
    assert len(copied.members_[0].held_out) == 60
    assert_array_equal(copied.predict_proba(X), weighted.predict_proba(X))
    for model in (NNMRFDensity(GaussianPotentials(2), random_state=seed), classes(max_iter=5)):
        copied = clone(model).fit(X.iloc[again], y[again]).score_samples(X)
        assert_allclose(copied, clone(model).fit(X, y, sample_weight=counts).score_samples(X))


def test_repeated_rows_of_few_categories_are_no_copies(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (80, 2))
    model = NNMRFClassifier(("linear",), random_state=0).fit(X, rng.permutation(80) % 2)
    assert len(model.members_[0].held_out) == 80


@pytest.mark.parametrize("n", [3, 4, 8])
def test_few_rows_give_moderate_probabilities(n, seed):
    """On average, the log loss of tiny tables without any dependence is about that of shares."""
    losses = []
    for k in range(4):
        rng = np.random.default_rng([seed, k])
        y = np.arange(n) % 2
        model = NNMRFClassifier(max_iter=30, random_state=k).fit(rng.normal(size=(n, 4)), y)
        losses.append(log_loss(y[:2].repeat(100), model.predict_proba(rng.normal(size=(200, 4)))))
    assert np.mean(losses) < 1.1
