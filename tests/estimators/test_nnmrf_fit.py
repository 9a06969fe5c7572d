"""Tests of the training and of the potentials of NNMRFDensity and NNMRFBayesClassifier."""

import functools
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from estimator_models import DENSITIES, base_of, both, classes, line, plants, ring, small, with_gap
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skmrf import GaussianPotentials, NetworkPotentials, NNMRFBayesClassifier, NNMRFDensity
from skmrf._utils.rows import Batch
from skmrf.energies import NeuralEnergy
from skmrf.estimators.nnmrf.density import MIN_ROWS_FOR_HOLD_OUT
from skmrf.learners import Grid, Variational
from skmrf.variational.expectation_maximization import MixtureRows
from skmrf.variational.mixture_selection import MixtureSelection

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# Weights ----------------------------------------------------------------------------------


def test_covariances_are_shrunk_in_the_units_of_columns(seed):
    X = line(200, seed, 3, 0.6) * [1.0, 10.0, 0.1]
    sample, prior = np.cov(X.T, bias=True), np.diag([2.0, 3.0, 0.5])
    unit = np.sqrt(np.outer(*[np.diag(sample)] * 2))
    for share in (0.0, 0.3, 1.0):
        model = small(prior_covariance=prior, shrinkage=share).fit(X)
        mean, covariance = base_of(model)
        expected = sample + share * (prior - sample)
        assert_allclose(covariance / unit, expected / unit, rtol=0.01, atol=0.01)
        assert_allclose(mean, X.mean(axis=0))
    apart = base_of(small(shrinkage=1.0).fit(X))[1]
    assert_allclose(apart / unit, np.diag(np.diag(sample)) / unit, atol=1e-5)
    number = base_of(small(base=0.5).fit(X))[1]
    assert_allclose(number, np.diag(X.var(axis=0)), rtol=1e-6)


def test_integer_weights_nearly_equal_repeated_rows(seed):
    X = line(200, seed, 3, 0.6) * [1.0, 10.0, 0.1]
    counts = np.random.default_rng(seed).integers(1, 5, size=len(X)) * (1 + (X[:, 0] > 0.5))
    weighted = base_of(small().fit(X, sample_weight=counts))
    repeated = base_of(small().fit(np.repeat(X, counts, axis=0)))
    plain = base_of(small().fit(X))
    deviation = np.sqrt(np.diag(repeated[1]))
    assert_allclose(weighted[0] / deviation, repeated[0] / deviation, atol=1e-6)
    unit = deviation * deviation[:, None]
    assert_allclose(weighted[1] / unit, repeated[1] / unit, atol=0.06)
    assert np.abs((plain[0] - repeated[0]) / deviation).max() > 0.05


def test_rows_of_weight_zero_are_ignored(seed):
    X = ring(60, seed)
    weights = np.r_[np.ones(40), np.zeros(20)]
    X[40:] += 100.0
    expected = small().fit(X[:40], sample_weight=np.ones(40))
    assert_allclose(
        small().fit(X, sample_weight=weights).score_samples(X[:40]),
        expected.score_samples(X[:40]),
        atol=1e-6,
    )


def test_rows_of_weight_zero_are_ignored_by_classes(seed):
    codes = plants(80, seed)
    table = np.column_stack([codes, np.random.default_rng(seed).normal(size=80)])
    y = np.resize(["a", "b"], 80)
    weights = np.r_[np.ones(60), np.zeros(20)]
    table[60:, 0] += 100.0
    table[70:, 1], table[60:, 2] = 9, np.nan
    y[75:] = "c"
    left = classes(column_types={1: "categorical"}).fit(table, y, sample_weight=weights)
    right = classes(column_types={1: "categorical"})
    right.fit(table[:60], y[:60], sample_weight=np.ones(60))
    assert left.classes_.tolist() == ["a", "b"]
    assert left.categories_[0].tolist() == [0, 1, 2]
    expected = right.predict_proba(table[:60])
    assert_allclose(left.predict_proba(table[:60]), expected, atol=1e-4)


def test_rows_of_large_weight_have_large_density(seed):
    X = np.r_[ring(60, seed), ring(60, seed) + 10.0]
    left, right = np.r_[np.full(60, 9.0), np.ones(60)], np.r_[np.ones(60), np.full(60, 9.0)]
    a, b = (small(max_iter=20).fit(X, sample_weight=w) for w in (left, right))
    assert a.score(X[:60]) > b.score(X[:60]) + 0.5
    assert b.score(X[60:]) > a.score(X[60:]) + 0.5
    y = np.r_[np.zeros(60), np.ones(60)]
    assert_allclose(classes().fit(X, y, sample_weight=left).class_prior_, [0.9, 0.1])


# Learning ---------------------------------------------------------------------------------


def test_same_seed_same_model(seed):
    X = ring(60, seed)
    expected = small(random_state=seed).fit(X).score_samples(X)
    for same in (seed, np.random.default_rng(seed)):
        model = small(random_state=same).fit(X)
        assert_array_equal(model.score_samples(X), expected)
    assert (small(random_state=seed + 1).fit(X).score_samples(X) != expected).any()
    legacy = [
        small(random_state=np.random.RandomState(seed)).fit(X).score_samples(X) for _ in range(2)
    ]
    assert_array_equal(*legacy)
    free = small(random_state=None).fit(X)
    assert_array_equal(free.score_samples(X), free.score_samples(X))


@pytest.mark.long
def test_jobs_do_not_matter(seed):
    X, y = ring(60, seed), np.resize([0, 1, 2], 60)
    expected = classes().fit(X, y).predict_log_proba(X)
    assert_array_equal(classes(n_jobs=2).fit(X, y).predict_log_proba(X), expected)
    with parallel_config("threading", n_jobs=2):
        assert_array_equal(classes().fit(X, y).predict_log_proba(X), expected)


@both
def test_grid_with_lbfgs(density, seed):
    X = ring(150, seed)
    model = small(learner=Grid(21), optimizer="lbfgs", max_iter=40, density=density).fit(X)
    steps = model.history_["objective"]
    assert np.all(np.diff(steps) > -1e-6)
    assert steps[-1] > steps[0] + 0.05
    start = small(learner=Grid(21), max_iter=1, learning_rate=1e-9, density=density).fit(X)
    if density == "mrf":
        assert model.score(X) > start.score(X) + 0.05
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(small(learner="grid", density=density).fit(X).score_samples(X)).all()


def test_grid_needs_at_most_three_continuous_columns():
    with pytest.raises(
        ValueError, match=r'at most three continuous variables, .* Use learner="variational"'
    ):
        small(learner="grid").fit(line(50, 0, 4))


@pytest.mark.parametrize("graph", ["complete", "tree", "empty"])
def test_the_learner_of_the_paper(graph, seed):
    X = np.column_stack([ring(80, seed), plants(80, seed)])
    learner = Variational(
        3, negative="quadrature", entropy="bethe", covariance="diag", n_points=5, warmup=1
    )
    model = small(graph, learner, base=0.01, column_types={3: "categorical"}).fit(X)
    assert "log_partition_bound" in model.history_
    covariances = model.mixture_.covariances
    diagonal = np.diagonal(covariances, axis1=1, axis2=2)
    assert_allclose(covariances, diagonal[:, :, None] * np.eye(3), atol=1e-9)
    for density in DENSITIES:
        model.set_params(potentials__density=density)
        assert np.isfinite(model.score_samples(X)).all()
        assert np.isfinite(model.sample(20, random_state=0)).all()


@pytest.mark.long
def test_mixture_as_the_negative_phase(seed):
    """A learning rate that the mixture cannot follow would give a poor model."""
    rng = np.random.default_rng(seed)
    roots = np.array([[[0.5, 0, 0], [-0.4, 1.1, 0], [0.3, 0.5, 0.4]], 0.8 * np.eye(3)])
    means, shares = np.array([[-2.5, 1.9, -1.0], [1.7, -1.5, 2.2]]), (0.3, 0.7)
    kind = rng.choice(2, size=3000, p=shares)
    X = means[kind] + np.einsum("nij,nj->ni", roots[kind], rng.normal(size=(3000, 3)))
    X, T = X[:600], X[1000:]
    gaussian = multivariate_normal(X.mean(axis=0), np.cov(X.T)).logpdf(T).mean()
    learner = Variational(negative="quadrature")
    networks = NetworkPotentials(learner=learner, density="mrf")
    model = NNMRFDensity(networks, random_state=seed).fit(X)
    assert model.score(T) > gaussian + 0.3


def test_mixture_follows_the_model_as_the_negative_phase(seed):
    X, energy = ring(60, seed), NeuralEnergy.random([0, 0], [(0, 1)], random_state=seed)
    for negative, interval, n_inferred, rate in (
        ("quadrature", None, 5, 0.003),
        ("chains", None, 1, 0.03),
        ("quadrature", 2, 3, 0.003),
        ("chains", 4, 2, 0.03),
    ):
        rng = np.random.default_rng(seed)
        learner = Variational(negative=negative, interval=interval, warmup=0)
        state = learner.init(energy, Batch(X), rng)
        for _ in range(5):
            _, _, state, _ = learner.step(energy, Batch(X), state, rng)
        assert len(state.pool) == 1 + n_inferred
        assert_allclose(small(learner=learner).fit(X).history_["learning_rate"][0], rate)


@pytest.mark.long
def test_early_stopping(seed):
    X = ring(MIN_ROWS_FOR_HOLD_OUT, seed)
    for wanted, n, held_out in (
        (True, 60, True),
        (False, MIN_ROWS_FOR_HOLD_OUT, False),
        ("auto", MIN_ROWS_FOR_HOLD_OUT, True),
        ("auto", MIN_ROWS_FOR_HOLD_OUT - 1, False),
    ):
        model = small(early_stopping=wanted).fit(X[:n])
        assert ("validation_score" in model.history_) is held_out
        for density in DENSITIES:
            assert np.isfinite(
                model.set_params(potentials__density=density).score_samples(X[:50])
            ).all()
    model = small(early_stopping=True, max_iter=2000, n_iter_no_change=1, learning_rate=0.3)
    assert model.fit(X[:50]).n_iter_ < 2000


@both
def test_early_stopping_with_incomplete_rows(density, seed):
    X = ring(100, seed)
    X[np.random.default_rng(seed).random(100) < 0.5, 1] = np.nan
    for rows in (X, with_gap(X, 0)):
        rows[:5] = ring(5, seed)
        model = small(early_stopping=True, density=density).fit(rows)
        assert np.isfinite(model.history_["validation_score"]).all()


def test_partial_fit(seed):
    X = ring(60, seed)
    one = small(max_iter=1).fit(X)
    model = small().partial_fit(X)
    assert_array_equal(model.score_samples(X), one.score_samples(X))
    edges = model.edges_
    for n in (2, 3):
        model.partial_fit(ring(40, seed + n))
        assert model.n_iter_ == n
    assert_array_equal(model.edges_, edges)
    assert (model.score_samples(X) != one.score_samples(X)).any()
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(np.zeros((4, 3)))
    assert model.n_features_in_ == 2
    assert model.n_iter_ == 3


def test_warm_start(seed):
    X = ring(60, seed)
    model = small(warm_start=True, max_iter=4, optimizer="sgd", learning_rate=0.01).fit(X)
    first = model.score_samples(X)
    assert model.fit(X).n_iter_ == 8
    assert (model.score_samples(X) != first).any()
    cold = small(max_iter=4).fit(X)
    assert cold.fit(X).n_iter_ == 4


@pytest.mark.parametrize(
    "change",
    [
        {"graph": "empty"},
        {"graph": "tree"},
        {"node_layers": (5,)},
        {"base": 0.5},
        {"shrinkage": 0.3},
        {"prior_covariance": np.eye(2)},
        {"column_types": {0: "categorical"}},
    ],
    ids=str,
)
def test_resuming_with_another_model_raises(change, seed):
    X = ring(60, seed)
    model = small(warm_start=True).fit(X)
    name, value = next(iter(change.items()))
    name = name if name == "column_types" else f"potentials__{name}"
    with pytest.raises(ValueError, match=f"{next(iter(change))}.*warm_start=False"):
        model.set_params(**{name: value}).fit(X)


@both
def test_clone_and_copy(density, seed):
    X = ring(60, seed)
    model = small(density=density).fit(X)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.score_samples(X), model.score_samples(X))
    assert_array_equal(again.sample(5, random_state=1), model.sample(5, random_state=1))
    assert not hasattr(clone(model), "energy_")
    assert_array_equal(clone(model).fit(X).score_samples(X), model.score_samples(X))
    assert model.score(X) == pytest.approx(model.score_samples(X).mean())
    parameters = model.get_params(deep=False)
    assert clone(model).get_params().keys() == NNMRFDensity(**parameters).get_params().keys()
    networks = model.potentials.get_params()
    assert (
        clone(model).potentials.get_params()
        == networks
        == NetworkPotentials(**networks).get_params()
    )


@pytest.mark.parametrize(("n_rows", "largest"), [(300, 16.0), (1600, 1.0)])
def test_selection_of_the_pooled_weight(n_rows, largest, monkeypatch):
    """Large weights of the pooled covariance are only selected in cross-validation."""
    rows = MixtureRows(np.zeros((n_rows, 3)), np.zeros(3, int), np.ones(n_rows), np.zeros(3))
    monkeypatch.setattr(MixtureSelection, "_score", lambda *_: 0.0)
    for best in (0.0, 0.1, 1.0, 4.0, 16.0):
        score = lambda _, pair, x=best: -abs(pair[1].covariance - 2.0 - 3.0 * x)  # noqa: E731
        monkeypatch.setattr(MixtureSelection, "_spread_score", score)
        found = MixtureSelection(rows, np.random.default_rng(0)).select(2)[1].covariance
        assert found == pytest.approx(2.0 + 3.0 * min(best, largest))


# Potentials -------------------------------------------------------------------------------

GRID = {"learner": Grid(5), "max_iter": 20}
STOPPED = GRID | {"early_stopping": True, "batch_size": 1, "optimizer": "sgd", "learning_rate": 1.0}
# For each parameter, values that change the fit, and other parameters that both fits have.
REACHES_THE_FIT = {
    "graph": ("empty", {}),
    "learner": (Variational(2), {}),
    "node_layers": ((5,), {}),
    "edge_layers": ((5,), {}),
    "base": (0.5, {}),
    "prior_covariance": (np.diag([9.0, 4.0]), {"shrinkage": 0.5}),
    "shrinkage": (0.9, {}),
    "density": ("mrf", {}),
    "optimizer": ("sgd", {}),
    "learning_rate": (0.5, {}),
    "penalty": ("l1", {"alpha": 0.1}),
    "alpha": (1.0, {}),
    "batch_size": (7, {}),
    "max_iter": (9, {}),
    "tol": (0.1, GRID | {"optimizer": "lbfgs"}),
    "average": (False, {}),
    "early_stopping": (True, {}),
    "validation_fraction": (0.5, {"early_stopping": True}),
    "n_iter_no_change": (15, STOPPED),
}


def fitted_numbers(**parameters):
    """Return the log-densities of a fitted model, and its number of epochs."""
    X = ring(40, 0)
    model = small(**parameters).fit(X)
    return np.append(model.score_samples(X), model.n_iter_)


@functools.cache
def default_numbers():
    """Return the numbers of a fit with default parameters, which repeats exactly."""
    numbers = fitted_numbers()
    assert_array_equal(fitted_numbers(), numbers)
    return numbers


@pytest.mark.parametrize("name", REACHES_THE_FIT)
def test_parameters_of_networks_reach_the_fit(name):
    value, common = REACHES_THE_FIT[name]
    before = fitted_numbers(**common) if common else default_numbers()
    assert (fitted_numbers(**common | {name: value}) != before).any()


def test_parameters_of_networks_reach_the_densities_of_classes():
    given = {name: value for name, (value, _) in REACHES_THE_FIT.items()}
    given |= {"base": "gaussian", "max_bytes": 1e9}
    model = classes(**given).fit(line(60, 0, 2), np.resize([0, 1], 60))
    for density in model.densities_:
        found = density.potentials.get_params(deep=False)
        assert found.pop("warm_start") is False
        assert found.keys() == given.keys()
        for name in given.keys() - {"learner", "prior_covariance"}:
            assert found[name] == given[name]
        assert found["learner"].n_components == 2
        assert found["prior_covariance"].shape == (2, 2)


def test_no_parameter_is_ignored():
    """The other parameters are those of memory and warm starts, and those of both potentials."""
    others = {"max_bytes", "warm_start"}
    assert REACHES_THE_FIT.keys() | others == NetworkPotentials().get_params(deep=False).keys()
    with pytest.raises(ValueError, match="max_bytes=10"):
        fitted_numbers(max_bytes=10)
    model = small(warm_start=True).fit(ring(40, 0))
    assert model.fit(ring(40, 0)).n_iter_ == 6
    match = "NNMRFBayesClassifier cannot continue training, so warm_start of its potentials must"
    with pytest.raises(ValueError, match=match):
        classes(warm_start=True).fit(ring(40, 0), np.resize([0, 1], 40))
    own = {"potentials", "column_types", "categories", "random_state", "verbose"}
    assert NNMRFDensity().get_params(deep=False).keys() == own
    own |= {"priors", "transform_columns", "n_jobs"}
    assert NNMRFBayesClassifier().get_params(deep=False).keys() == own
    assert GaussianPotentials().get_params() == {"n_components": "auto"}


@pytest.mark.parametrize("potentials", [GaussianPotentials(2), NetworkPotentials(max_iter=3)])
def test_common_parameters_reach_both_kinds_of_fits(potentials, capsys):
    X = plants(60, 0)
    model = NNMRFDensity(potentials, random_state=0).fit(X)
    assert not capsys.readouterr().out
    other = clone(model).set_params(random_state=1, verbose=1).fit(X)
    assert "[NNMRFDensity] finished" in capsys.readouterr().out
    assert (other.score_samples(X) != model.score_samples(X)).any()
    given = clone(model).set_params(column_types=["continuous", "categorical"]).fit(X)
    assert_array_equal(given.score_samples(X), model.score_samples(X))
    given.set_params(categories=[[2, 0, 1, 7]]).fit(X)
    assert given.categories_[0].tolist() == [2, 0, 1, 7]
    assert clone(model).set_params(column_types="continuous").fit(X).categories_ == []


def test_gaussian_potentials(seed):
    X = ring(40, seed)
    model = NNMRFDensity(GaussianPotentials(1), random_state=seed).fit(X)
    more = clone(model).set_params(potentials__n_components=4).fit(X)
    assert model.mixture_.n_components < more.mixture_.n_components
    for again in (clone(more).fit(X), pickle.loads(pickle.dumps(more))):
        assert_array_equal(again.score_samples(X), more.score_samples(X))
        assert again.potentials.get_params() == {"n_components": 4}
    default = NNMRFDensity(random_state=seed).fit(X)
    auto = NNMRFDensity(GaussianPotentials(), random_state=seed).fit(X)
    assert_array_equal(default.score_samples(X), auto.score_samples(X))
    for wrong in (0, 1.5, "many", None):
        with pytest.raises(ValueError, match="n_components must be"):
            clone(model).set_params(potentials__n_components=wrong).fit(X)


def test_names_are_default_instances(seed):
    X = ring(20, seed)
    for name, given in (("network", NetworkPotentials()), (NetworkPotentials(), "network")):
        model = NNMRFDensity(name, random_state=0).partial_fit(X)
        again = NNMRFDensity(given, random_state=0).partial_fit(X)
        assert_array_equal(model.score_samples(X), again.score_samples(X))


@pytest.mark.parametrize(
    "wrong", ["tree", "Gaussian", None, 3, NetworkPotentials, Variational(), ["network"]], ids=str
)
def test_wrong_potentials_raise(wrong):
    X, y = ring(20, 0), np.resize([0, 1], 20)
    match = (
        "potentials of NNMRFDensity must be 'gaussian' or 'network', or an instance of "
        "GaussianPotentials or NetworkPotentials; got "
    )
    model = NNMRFDensity(wrong)
    with pytest.raises(ValueError, match=match):
        model.fit(X)
    assert not hasattr(model, "partial_fit")
    assert not hasattr(model, "marginals")
    match = (
        "BayesClassifier must be 'auto' or 'gaussian' or 'network', or an instance of NetworkPot"
    )
    for potentials in (wrong, GaussianPotentials()):
        with pytest.raises(ValueError, match=match):
            NNMRFBayesClassifier(potentials).fit(X, y)


def test_methods_of_each_kind_of_potentials():
    X = ring(20, 0)
    gaussian, network = NNMRFDensity(), small()
    for model in (gaussian, network, gaussian.fit(X), network.fit(X)):
        assert hasattr(model, "partial_fit") is (model is network)
        assert hasattr(model, "marginals") is (model is gaussian)
    network.set_params(potentials="gaussian")
    for ask in (network.score_samples, network.predict, lambda _: network.sample(2)):
        with pytest.raises(ValueError, match=r"was fitted with network potentials.*'gaussian'"):
            ask(X)
    assert not hasattr(network.fit(X), "energy_")


def test_covariances_need_a_gaussian_base():
    for parameters in ({"shrinkage": 0.3}, {"prior_covariance": np.eye(2)}):
        for make in (small, classes):
            with pytest.raises(
                ValueError, match=r"shrinkage of NetworkPotentials .* got base=0\.5"
            ):
                make(base=0.5, **parameters).fit(ring(20, 0), np.resize([0, 1], 20))


def test_densities_of_classes_have_the_given_covariance(seed):
    X, y = line(60, seed, 2, 0.5) * [10.0, 1.0], np.resize([0, 1], 60)
    prior = np.diag([200.0, 3.0])
    model = classes(prior_covariance=prior, shrinkage=1.0).fit(X, y)
    left, right = model.densities_
    assert left.potentials is not right.potentials
    scale = X.std(axis=0)
    for density in (left, right):
        assert density.potentials.shrinkage == 1.0
        assert_allclose(density.potentials.prior_covariance, prior / scale / scale[:, None])
        assert_allclose(base_of(density)[1], prior / scale / scale[:, None], rtol=1e-4)
    flat = classes(base=0.5).fit(X, y).densities_[0].potentials
    assert flat.prior_covariance is None
    assert flat.shrinkage == "auto"


def test_density_after_a_fit_with_a_name(seed):
    X = ring(20, seed)
    density = NNMRFDensity("network", random_state=0).partial_fit(X)
    for model in (density, NNMRFBayesClassifier(random_state=0).fit(X, np.zeros(20))):
        before = model.score_samples(X)
        model.set_params(potentials=NetworkPotentials(density="mrf"))
        assert np.abs(model.score_samples(X) - before).max() > 1e-6
        model.set_params(potentials__density="mixture")
        assert_array_equal(model.score_samples(X), before)


# Degenerate tables ------------------------------------------------------------------------

DEGENERATE = {
    "constant": (lambda X: np.column_stack([X, np.full(len(X), 7.5)]), "Column 2 is constant"),
    "two values": (
        lambda X: np.column_stack([X, np.resize([3.5, 8.5], len(X))]),
        "Column 2 has only two values.*To avoid this, give it the type",
    ),
    "all equal": (lambda X: np.repeat(X[:1], 30, axis=0), "Columns 0, 1 are constant"),
    "one feature": (lambda X: X[:, :1], None),
    "one row": (lambda X: X[:1], None),
    "two rows": (lambda X: X[:2], None),
    "duplicates": (lambda X: np.repeat(X[:4], 10, axis=0), None),
    "collinear": (lambda X: np.column_stack([X, 2 * X[:, 0] + 1, X.sum(axis=1)]), None),
    "large": (lambda X: X * 1e6 + 1e8, None),
    "huge": (lambda X: X * 1e200, None),
    "tiny": (lambda X: X * 1e-9, None),
    "integers": (lambda X: np.round(X).astype(int), None),
    "outlier": (lambda X: np.concatenate([X, [[1e4, -1e4]]]), None),
    "more columns than rows": (lambda X: X[:20].reshape(4, 10), None),
}


def test_collinear_columns(seed):
    """Columns with other units may be collinear, also in the pooled covariance."""
    X = np.random.default_rng(seed).normal(size=(120, 3))
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    for more in (X, X * 1e6 + 3):
        table = np.column_stack([X, more])
        parts = classes().fit(table, y)
        assert np.isfinite(parts.score_samples(table)).all()
        assert_allclose(parts.predict_proba(table).sum(axis=1), 1.0)


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.long
def test_degenerate_tables(name, seed):
    make, message = DEGENERATE[name]
    X = make(ring(60, seed))
    graph = "tree" if name == "more columns than rows" else "complete"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = small(graph).fit(X)
    messages = [str(w.message) for w in caught if "no maximum" in str(w.message)]
    assert bool(messages) == (message is not None)
    assert not messages or re.search(message, messages[0])
    assert all(np.isfinite(v).all() for v in model.energy_.theta.values())
    for density in DENSITIES:
        model.set_params(potentials__density=density)
        assert np.isfinite(model.score_samples(X)).all()
        assert np.isfinite(model.sample(5, random_state=0)).all()
        assert np.isfinite(model.sample(2, given={0: X[0, 0]}, random_state=0)).all()


def test_warnings_name_degenerate_columns(seed):
    table = pd.DataFrame(ring(40, seed), columns=["a", "b"]).assign(
        on=np.resize([0.5, 1.5], 40), k=3.5
    )
    with pytest.warns(UserWarning, match="no maximum") as caught:
        small().fit(table)
    messages = [str(w.message) for w in caught if "no maximum" in str(w.message)]
    assert len(messages) == 2
    assert messages[0].startswith("Column 'k' is constant, so the likelihood")
    assert messages[1].startswith("Column 'on' has only two values, so the likelihood")


def test_warnings_name_degenerate_columns_of_a_class(seed):
    y = np.resize(["x", "y"], 60)
    table = pd.DataFrame(ring(60, seed), columns=["a", "b"])
    table["c"] = np.where(y == "y", 1.0, table["a"])
    with pytest.warns(UserWarning, match="no maximum") as caught:
        model = classes().fit(table, y)
    messages = [str(w.message) for w in caught if "no maximum" in str(w.message)]
    assert len(messages) == 1
    assert messages[0].startswith("Column 'c' is constant in class 'y', so the likelihood")
    assert np.isfinite(model.score_samples(table)).all()


# Regression tests -------------------------------------------------------------------------


@pytest.mark.long
def test_early_stopping_with_exact_gradients_scores_the_mixture(seed):
    X = ring(MIN_ROWS_FOR_HOLD_OUT + 100, seed)
    model = small(learner=Grid(21), max_iter=30).fit(X)
    scores = model.history_["validation_score"]
    assert len(set(scores)) > 10
    assert max(scores[10:]) > scores[0] + 0.02


@pytest.mark.parametrize("first", ["grid", "variational"])
def test_resuming_with_another_learner(first, seed):
    X = ring(80, seed)
    model = small(learner=first, warm_start=True).fit(X)
    other = {"grid": "variational", "variational": "grid"}[first]
    before = model.score(X)
    model.set_params(potentials__learner=other, potentials__max_iter=5).fit(X)
    assert abs(model.score(X) - before) < 1.0
    model.set_params(potentials__learner=Variational(n_chains=7)).fit(X)
    assert model.n_iter_ == 13
