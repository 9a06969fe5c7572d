"""Tests of the estimators by scikit-learn's estimator checks, and with scikit-learn's tools."""

import re
import sys
import warnings
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
from capabilities import CAPABILITIES, EXCEPTIONS, cases
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import estimator_checks_generator

import skmrf
from skmrf import (
    CRF,
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    GaussianPotentials,
    MRFImputer,
    MRFStructureLearner,
    NetworkPotentials,
    NNMRFBayesClassifier,
    NNMRFClassifier,
    NNMRFDensity,
)
from skmrf._data.column_types import find_column_types
from skmrf._data.transforms import ColumnTransform
from skmrf._kernels._jit import read_only
from skmrf._kernels.gaussians import cell_log_densities
from skmrf.estimators.nnmrf.gaussian_potentials import _cell_ends
from skmrf.learners import CD, PCD, CDPercLoss, Variational
from skmrf.structure import Penalized, RemovalWhileLearning, WaldTests
from skmrf.variational.expectation_maximization import (
    MixtureRows,
    Prior,
    fit_mixture,
    start_mixture,
)
from skmrf.variational.mixture_selection import MixtureSelection, learn_mixture, student_score
from skmrf.variational.mixtures import student_mixture

OMITTED_CHECKS = {  # and why they can fail
    "check_sample_weight_equivalence_on_dense_data": (
        "feeds continuous columns, which are no categories, and asks that stochastic fits agree; "
        "test_discrete.py checks the equivalence on categories, test_boltzmann_machine.py and "
        "test_rbm_fit.py on two states, test_crbm_fit.py on outputs, with deterministic learners; "
        "test_nnmrf_fit.py checks the bases of neural potentials, whose networks are learned from "
        "chains, and that rows of weight 0 count as absent"
    ),
    "check_sample_weight_equivalence_on_sparse_data": (
        "asks that stochastic fits agree; test_rbm_fit.py and test_crbm_fit.py check the "
        "equivalence with a deterministic learner, and test_rbm_fit.py and test_crbm_queries.py "
        "that sparse rows give the same fit as dense ones"
    ),
}

EXPECTED_SKIPPED_CHECKS = {
    "check_array_api_input": "scikit-learn skips it unless SCIPY_ARRAY_API=1 is set",
    "check_classifiers_multilabel_output_format_predict_proba": (
        "max-margin learners have no probabilities, so no predict_proba"
    ),
}

SMALL = {"node_layers": (2,), "edge_layers": (2,), "max_iter": 1}
NUMBERS = {"column_types": "continuous"}  # one epoch is too short for rounded numbers
QUADRATURE = Variational(
    2, negative="quadrature", entropy="bethe", covariance="diag", n_points=3, warmup=0
)
QUICK = Variational(1, n_iter=1, warmup=0)
VARIANTS = [  # those that take a few seconds at most
    DiscreteMRF(learner="exact", alpha=0.1),
    DiscreteMRF(learner="cd", alpha=0.1, max_iter=20),
    DiscreteMRF(learner=PCD(n_chains=64), max_iter=20, optimizer="sgd", alpha=0.1),
    DiscreteMRF(learner=CD(n_sweeps=2), alpha=0.1, max_iter=5, early_stopping=True),
    DiscreteMRF(cliques="independent", learner="exact", alpha=0.1, penalty="group-l1"),
    MRFStructureLearner("exact", search=Penalized("l1", 0.01), statistic="agreement", unary=False),
    MRFStructureLearner(column_types="continuous"),
    BoltzmannMachine("pcd", binarize=0.5, alpha=0.01, max_iter=2),
    RBM(2, "pcd", binarize=0.5, alpha=0.01, max_iter=2),
    CRBMStructuredPredictor(learner="lr", optimizer="lbfgs", alpha=0.01),
    CRF(alpha=0.05, max_iter=15),
    MRFImputer(DiscreteMRF("independent", "exact", alpha=0.1)),
]
LONG_VARIANTS = [
    DiscreteMRF(learner="pseudo-likelihood", max_iter=20),
    DiscreteMRF(MRFStructureLearner("pseudo-likelihood"), "exact", alpha=0.1),
    MRFStructureLearner(),
    MRFStructureLearner(search="nodewise", column_types="continuous"),
    MRFStructureLearner("exact"),
    MRFStructureLearner("pseudo-likelihood", search=WaldTests("fdr", level=0.2), screen=0.5),
    MRFStructureLearner("cd", search=RemovalWhileLearning(0.1), n_bootstraps=2, max_iter=5),
    BoltzmannMachine("pcd", binarize=0.5, max_iter=20),
    BoltzmannMachine(binarize=0.5, max_iter=5, states=(0, 1), early_stopping=True),
    RBM(3, "pcd", binarize=0.5, max_iter=5),
    RBM(2, "exact", binarize=0.5, alpha=0.01, max_iter=5),
    RBM(2, CD(n_sweeps=2), binarize=0.5, alpha=0.01, max_iter=5, early_stopping=True),
    CRBMStructuredPredictor(4, alpha=0.01, max_iter=5),
    CRBMStructuredPredictor(4, "mssvm", alpha=0.01, max_iter=5),
    CRBMStructuredPredictor(4, CDPercLoss(n_sweeps=2), alpha=0.01, max_iter=5, early_stopping=True),
    CRF(),
    CRF(learner="ssvm", alpha=0.05, max_iter=10),
    CRF(learner="perceptron", max_iter=10),
    CRF(learner="pseudo-likelihood", penalty="l1", alpha=0.05, max_iter=15),
    NNMRFDensity(),
    NNMRFDensity(NetworkPotentials("empty", QUICK, **SMALL)),
    NNMRFDensity(NetworkPotentials(**SMALL)),
    NNMRFDensity(NetworkPotentials("tree", density="mrf", **SMALL)),
    NNMRFDensity(NetworkPotentials("empty", QUADRATURE, base=0.01, early_stopping=True, **SMALL)),
    NNMRFBayesClassifier(
        NetworkPotentials("empty", QUICK, early_stopping=False, **SMALL), **NUMBERS
    ),
    NNMRFBayesClassifier(NetworkPotentials(max_iter=5)),
    NNMRFClassifier(cv=2),
    MRFImputer(NNMRFDensity(NetworkPotentials(**SMALL))),
    MRFImputer(DiscreteMRF("independent", "exact"), strategy="marginal", add_indicator=True),
]
SLOW_VARIANTS = [
    DiscreteMRF(),  # 2,000 updates a fit
    MRFStructureLearner(search="nodewise"),
    CRBMStructuredPredictor(4, max_iter=20),
    MRFImputer(),  # the default models
    NNMRFBayesClassifier(),
    NNMRFBayesClassifier(NetworkPotentials("tree", **SMALL), **NUMBERS),
    NNMRFBayesClassifier(
        NetworkPotentials("tree", QUADRATURE, base=0.1, early_stopping=False, **SMALL), **NUMBERS
    ),
]
DEVICE_VARIANTS = [
    RBM(2, "pcd", binarize=0.5, alpha=0.01, max_iter=1, device="jax"),
]
SLOW_DEVICE_VARIANTS = [
    BoltzmannMachine(PCD(), binarize=0.5, alpha=0.01, max_iter=1, device="jax"),
    CRBMStructuredPredictor(2, alpha=0.01, max_iter=1, device="jax"),
    DiscreteMRF(learner="pcd", alpha=0.01, max_iter=1, device="jax"),
]
needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
VARIANTS += [
    pytest.param(estimator, marks=[pytest.mark.long, needs_jax]) for estimator in DEVICE_VARIANTS
]
VARIANTS += [
    pytest.param(estimator, marks=[pytest.mark.slow, needs_jax])
    for estimator in SLOW_DEVICE_VARIANTS
]
VARIANTS += [pytest.param(estimator, marks=pytest.mark.long) for estimator in LONG_VARIANTS]
VARIANTS += [pytest.param(estimator, marks=pytest.mark.slow) for estimator in SLOW_VARIANTS]


@pytest.mark.parametrize("estimator", LONG_VARIANTS, ids=repr)
def test_names_of_attributes(estimator):
    """``dir`` reads all attributes, so that it fails if a property raises a ValueError."""
    assert "fit" in dir(estimator)


@pytest.mark.parametrize("estimator", VARIANTS, ids=repr)
def test_check_estimator(estimator):
    failed, skipped, n_checks = {}, set(), 0
    for model, check in estimator_checks_generator(estimator):
        name = check.func.__name__
        if name in OMITTED_CHECKS:
            continue
        n_checks += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(model)
        except SkipTest:
            skipped.add(name)
        except Exception as error:
            failed[name] = repr(error)
    assert not failed
    assert skipped <= EXPECTED_SKIPPED_CHECKS.keys()
    assert n_checks > 35


# Densities of rounded columns, and of repeated rows -----------------------------------------------


DISCRETE = {  # distributions of whole numbers
    "poisson": stats.poisson(4),
    "binomial": stats.binom(10, 0.5),
    "geometric": stats.geom(0.05, loc=-1),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_densities_of_whole_numbers(name, seed):
    """The sum over whole numbers is 1, and no score of new rows is above that of the truth."""
    law, rng = DISCRETE[name], np.random.default_rng(seed)
    X, T = (law.rvs((n, 1), random_state=rng).astype(float) for n in (1000, 20_000))
    model = NNMRFDensity(column_types="integer", random_state=seed).fit(X)
    assert np.exp(model.score_samples(np.arange(400.0)[:, None])).sum() == pytest.approx(
        1, abs=0.01
    )
    losses = law.logpmf(T[:, 0]) - model.score_samples(T)
    error = losses.std() / np.sqrt(len(T))
    assert -5 * error < losses.mean() < 0.04
    assert model.mixture_.n_components <= 100


def test_joint_densities_of_whole_numbers(seed):
    """Sums over one column or both agree with marginals, also with a point mass and a category."""
    rng = np.random.default_rng(seed)
    rate = rng.gamma(3.0, 1.0, 600)
    X = np.stack([rng.poisson(rate), rng.poisson(2.0 * rate), rate > 3.0], axis=1).astype(float)
    X[rng.random(600) < 0.7, 0] = 7.0
    types = ["integer", "integer", "boolean"]
    model = NNMRFDensity(column_types=types, random_state=seed).fit(X)
    assert 7.0 in model._columns.transforms[0].spikes
    grid = np.stack(np.meshgrid(np.arange(80.0), np.arange(150.0), (0, 1), indexing="ij"), axis=-1)
    p = np.exp(model.score_samples(grid.reshape(-1, 3))).reshape(grid.shape[:3])
    assert p.sum() == pytest.approx(1.0, abs=0.01)  # of numbers that are not too large
    hidden = np.c_[np.arange(80.0), np.full((80, 2), np.nan)]
    assert_allclose(np.exp(model.score_samples(hidden)), p.sum(axis=(1, 2)), atol=2e-3)


def test_densities_are_averaged_over_cells(seed):
    """Components with independent numbers agree with differences of distribution functions."""
    rng = np.random.default_rng(seed)
    X, means = rng.integers(-4, 5, (50, 3)).astype(float), rng.normal(size=(4, 3))
    X[0, 1], X[1:9, 0] = 70.0, np.nan
    noise, widths = np.array([1 / 12, 1 / 12, 0.0]), np.broadcast_to([1.0, 1.0, np.nan], X.shape)
    cells = X - widths / 2, X + widths / 2, widths.copy(), noise, np.full((3, 4, 2), np.nan)
    pattern, out = np.isnan(X[:, 0]).astype(np.int64), np.empty((4, 50))
    covariance = read_only(np.diag(np.array([0.3, 1.2, 3.0]) ** 2 + noise))
    args = X, pattern, np.argsort(pattern), means, np.ones(4), covariance, *cells
    cell_log_densities(*args, out)
    for k, r in np.ndindex(out.shape):
        expected = stats.norm(means[k, 2], 3.0).logpdf(X[r, 2])
        for j, deviation in enumerate((0.3, 1.2)):
            near = -np.abs(X[r, j] - means[k, j])  # distribution functions are accurate there
            logs = stats.norm(0.0, deviation).logcdf(near + np.array([0.5, -0.5]))
            expected += 0.0 if np.isnan(near) else logs[0] + np.log(-np.expm1(logs[1] - logs[0]))
        assert_allclose(out[k, r], expected, rtol=1e-6, atol=1e-6)


def test_densities_of_multiples(seed):
    """Multiples of 1000 have the same model as thousands, and other numbers are possible."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(50.0, 8.0, (400, 1)))
    small, large = (NNMRFDensity(random_state=seed).fit(unit * X) for unit in (1.0, 1000.0))
    assert_allclose(large.score_samples(1000.0 * X) + np.log(1000.0), small.score_samples(X))
    assert (large.sample(100, random_state=seed) % 1000 == 0).all()
    between = large.score_samples([[50_000.0], [50_400.0], [51_000.0]])
    assert np.ptp(between) < 0.5


def test_repeated_rows_are_in_one_fold(seed):
    """Copies of a held-out row are held out, unless the row is frequent."""
    rng = np.random.default_rng(seed)
    for n, width in ((100, 0.1), (700, 0.01)):
        X = np.round(rng.normal(size=(n, 2)) / width) * width
        X = rng.permutation(np.concatenate([X, X, X[: n // 2], np.zeros((n // 2, 2))]))
        rows = MixtureRows(X, np.zeros(2, dtype=int), np.ones(len(X)), np.full(2, width**2 / 12))
        for kept, out in MixtureSelection(rows, rng).folds:
            shared = {tuple(row) for row in X[kept]} & {tuple(row) for row in X[out]}
            assert {tuple(np.abs(row)) for row in shared} == {(0.0, 0.0)}
            assert len(out) > len(X) / 5


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 6])
def test_equal_rows_have_a_density(n_rows, seed):
    X = np.full((n_rows, 2), 2.5)
    model = NNMRFDensity(random_state=seed).fit(X)
    assert np.isfinite(model.score(X))
    assert np.isfinite(model.sample(2)).all()


def test_samples_have_the_shares_of_point_masses(seed):
    """The other numbers are not rounded to point masses."""
    rng = np.random.default_rng(seed)
    ages = np.rint(rng.normal(50.0, 11.0, 800))
    ages[:400] = 50.0
    model = NNMRFDensity(random_state=seed).fit(ages[:, None])
    share = np.exp(model.score([[50.0]]))
    drawn = model.sample(100_000, random_state=seed)
    assert_allclose(share, (ages == 50.0).mean(), atol=0.002)
    assert abs((drawn == 50.0).mean() - share) < 5 * (0.25 / len(drawn)) ** 0.5


@pytest.mark.parametrize(("shift", "decimals"), [(1e11, 0), (1e14, 0), (1e8, 2), (5e8, 1)])
def test_densities_of_shifted_numbers(shift, decimals, seed):
    """The bound 0 and the rounding of far numbers have no effect."""
    x = np.round(np.random.default_rng(seed).normal(0, 4.0 / 10**decimals, (500, 1)), decimals)
    logs = [NNMRFDensity(random_state=0).fit(x + s).score(x + s) for s in (0.0, shift)]
    assert_allclose(*logs, atol=1e-3)


def test_cells_beside_soft_bounds_are_finite():
    """A cell reaches to infinity only at an exact bound."""
    transform = ColumnTransform(low=0.0, high=9.0, is_soft=(True, False), step=1.0)
    ends = _cell_ends(transform, np.array([0.5, 8.5]))
    assert np.isfinite(ends[0]).all()
    assert ends[1, 1] == np.inf


@pytest.mark.parametrize("is_rounded", [False, True])
def test_rows_without_negative_numbers_are_no_evidence_of_a_bound(is_rounded, seed):
    x = np.random.default_rng(seed).normal(4.0, 1.5, (400, 1))
    x = np.abs(np.rint(4.0 * x) if is_rounded else x)
    model = NNMRFDensity(random_state=seed).fit(x)
    assert model.column_types_ == ["integer" if is_rounded else "non-negative"]
    assert np.isfinite(model.score_samples([[-1.0], [-3.0]])).all()
    assert (model.sample(100_000, random_state=seed) >= 0.0).all()
    model.fit(np.floor(x**2 / 20.0) if is_rounded else x**2 - x.min() ** 2)  # many are near 0
    assert model._columns.transforms[0].outside[0] > 0.0


def test_large_integers_are_numbers(seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"id": 2**60 + rng.permutation(150), "x": rng.normal(size=150)})
    model = NNMRFDensity(random_state=seed).fit(frame)
    assert model.column_types_ == ["integer", "continuous"]
    assert np.isfinite(model.score(frame))


# Heavy tails ------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_heavy_tails", [False, True])
def test_selection_of_degrees_of_freedom(has_heavy_tails, seed, monkeypatch):
    """Few degrees of freedom are selected for heavy tails, and new rows are more probable."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(900, 6))
    if has_heavy_tails:
        X *= np.sqrt(5.0 / rng.chisquare(5, size=(900, 1)))
    rows = MixtureRows(X[:600], np.zeros(6, dtype=int), np.ones(600), np.zeros(6))
    prior = MixtureSelection(rows, np.random.default_rng(0)).select(1)[1]
    assert np.isfinite(prior.degrees) == has_heavy_tails
    student = learn_mixture(rows, 1, np.random.default_rng(0))[0]
    monkeypatch.setattr("skmrf.variational.mixture_selection.DEGREES", (np.inf,))
    gaussian = learn_mixture(rows, 1, np.random.default_rng(0))[0]
    assert gaussian.n_components == 1
    gain = np.mean(student.log_density(X[600:]) - gaussian.log_density(X[600:]))
    assert (gain > 0.1) if has_heavy_tails else (abs(gain) < 0.02)


@pytest.mark.parametrize("degrees", [np.inf, 100.0, 5.0, 3.0])
def test_scores_of_student_mixtures(degrees, seed):
    """Densities are those of Student t distributions, also of incomplete rows."""
    rng = np.random.default_rng(seed)
    X = np.c_[rng.standard_t(4, size=(200, 3)), rng.integers(3, size=200)]
    X[rng.random(X.shape) < 0.2] = np.nan
    rows = MixtureRows(X, np.array([0, 0, 0, 3]), rng.random(200), np.zeros(3))
    mixture = start_mixture(rows, 5, Prior(5.0, 0.1), rng)
    logs = mixture.log_weights[:, None] + mixture.table_log_densities(X)
    shapes = mixture.covariances * (1.0 if np.isinf(degrees) else (degrees - 2.0) / degrees)
    for r, x in enumerate(X[:, :3]):
        seen = ~np.isnan(x)
        for k in range(5 if seen.any() else 0):
            parts = mixture.means[k, seen], shapes[k][np.ix_(seen, seen)], degrees
            logs[k, r] += stats.multivariate_t(*parts).logpdf(x[seen])
    expected = np.logaddexp.reduce(logs)
    found = student_mixture(mixture, degrees).log_density(X)
    assert_allclose(found, expected, atol=0.1)  # the tails are those of the widest Gaussian
    assert np.abs(found - expected).mean() < 0.02
    score = student_score(mixture, rows)(degrees)
    assert score == pytest.approx(rows.weights @ found, rel=1e-5)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_means_and_covariances_of_heavy_tails(missing, seed):
    """Expectation-maximisation reaches a maximum of the likelihood of a Student t distribution."""
    rng, n_states = np.random.default_rng(seed), np.zeros(3, dtype=int)
    root = np.array([[1.0, 0.0, 0.0], [0.7, 0.5, 0.0], [-0.3, 0.2, 2.0]])
    X = [1.0, -2.0, 3.0] + rng.standard_t(3, size=(300, 1)) * (rng.normal(size=(300, 3)) @ root.T)
    X[rng.random(X.shape) < missing] = np.nan
    rows = MixtureRows(X, n_states, rng.uniform(0.5, 1.5, 300), np.zeros(3))
    prior = Prior(0.0, 0.0, shrinks_eigenvalues=False, degrees=3.0)
    start = start_mixture(rows, 1, prior, rng)
    found, scores = fit_mixture(rows, start, prior, 300, 1e-10)
    assert np.diff(scores).min() > -1e-9
    best = student_score(found, rows)(3.0)
    assert best > student_score(start, rows)(3.0) + 1.0
    for _ in range(20):
        step = 0.1 * rng.normal(size=(3, 3))
        change = np.eye(3) + step
        other = replace(
            found,
            means=found.means + 0.1 * rng.normal(size=3) * np.sqrt(np.diag(found.covariances[0])),
            covariances=change @ found.covariances @ change.T,
        )
        assert student_score(other, rows)(3.0) < best


@pytest.mark.parametrize("is_joint", [True, False])
def test_tails_of_columns_and_of_rows(is_joint, seed):
    """Extreme values of several columns can be in the same rows, or in different rows."""
    rng, shape = np.random.default_rng(seed), 0.5 + 0.5 * np.eye(5)
    true = stats.multivariate_t(shape=shape, df=3)
    X = true.rvs(1800, random_state=rng)
    logs = true.logpdf(X)
    if not is_joint:
        X = rng.standard_t(3, size=X.shape)
        logs = stats.t(3).logpdf(X).sum(axis=1)
    model = NNMRFDensity(random_state=seed).fit(X[:900])
    is_curved = [transform.softness < 100.0 for transform in model._columns.transforms.values()]
    assert sum(is_curved) == (0 if is_joint else 5)
    assert logs[900:].mean() - 0.1 < model.score(X[900:]) < logs[900:].mean() + 0.05
    drawn = model.sample(50_000, random_state=seed)
    shares = [(np.abs(rows).max(axis=1) > 6.0).mean() for rows in (drawn, X)]
    assert 0.5 < shares[0] / shares[1] < 2.0


# Tools of scikit-learn, as in the documentation's table ------------------------------------------


DOC = Path(__file__).parents[2] / "doc"
ESTIMATORS = [name for name in skmrf.__all__ if hasattr(getattr(skmrf, name), "fit")]
ESTIMATORS.remove("SequenceVectorizer")  # it takes sequences of dicts, not tables
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_everyday_use(name, capability, seed):
    case = cases(seed)[name]
    if (name, capability) not in EXCEPTIONS:
        CAPABILITIES[capability](case)
    elif capability == "set_output":
        assert not hasattr(case.model, "transform")
    else:
        with pytest.raises((AttributeError, TypeError)):
            CAPABILITIES[capability](case)


def test_exceptions_refer_to_existing_names():
    for name, capability in EXCEPTIONS:
        assert name in ESTIMATORS
        assert capability in CAPABILITIES


@pytest.mark.skipif(not DOC.is_dir(), reason="the documentation is not in this distribution")
def test_capability_table_of_the_documentation(monkeypatch):
    monkeypatch.syspath_prepend(DOC)
    import generate

    lines = generate.list_capabilities(DOC.parent).splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]
    assert [feature for feature, *_ in rows] == list(CAPABILITIES)
    for feature, _, estimators in rows:
        names = set(re.findall(r"skmrf\.(\w+)", estimators))
        supported = set(ESTIMATORS) - names if estimators.startswith("all") else names
        assert supported == {name for name in ESTIMATORS if (name, feature) not in EXCEPTIONS}
    sys.modules.pop("generate", None)


# Cross-validation of densities with default types of columns ------------------------------------


def test_counts_survive_cross_validation(seed):
    """The largest counts, and all of a rare column, can be in the same fold."""
    rng = np.random.default_rng(seed)
    y = np.arange(200) % 2
    X = rng.poisson([0.02, 0.1, 0.3, 0.3, 0.6, 1.0], (200, 6)).astype(float)
    X[0] += 4.0
    for model in (
        NNMRFDensity(GaussianPotentials(1), random_state=seed),
        NNMRFBayesClassifier("gaussian"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = cross_val_score(model, X, y, cv=5, error_score="raise")
        assert np.isfinite(scores).all()


@pytest.mark.parametrize("unit", [1000.0, 5000.0])
def test_rounded_salaries_are_numbers(unit, seed):
    rng = np.random.default_rng(seed)
    draws = unit * np.rint(rng.normal(10.0, 2.4, (30, 400)))
    codes = unit * rng.integers(1, 13, (30, 400))
    found = [find_column_types(x[:, None], [x])[0] for x in draws]
    assert np.mean([kind == "integer" for kind in found]) > 0.8
    assert all(find_column_types(x[:, None], [x]) == ["categorical"] for x in codes)


def make_scales(rng, n, n_columns=4):
    """Return columns with whole numbers from 0 to 10 that are noisy values of a common number."""
    common = rng.normal(size=(n, 1))
    return np.clip(np.floor(2.0 * common + 1.5 * rng.normal(size=(n, n_columns)) + 5.5), 0, 10)


@pytest.mark.parametrize("n", [200, 1000])
def test_scales_that_are_related_to_other_columns_are_integers(n, seed):
    """Codes become integers if their order matters, and stay categories if it is random."""
    rng = np.random.default_rng(seed)
    n_integers = n_changed = 0
    for _ in range(10):
        X = make_scales(rng, n)
        n_integers += find_column_types(X, list(X.T)).count("integer")
        codes = np.stack([rng.permutation(np.arange(11.0))[x.astype(int)] for x in X.T], axis=1)
        for j, code in enumerate(codes.T):
            if find_column_types(code[:, None], [code]) == ["categorical"]:
                n_changed += find_column_types(codes, list(codes.T))[j] == "integer"
        missing = np.where(rng.random(X.shape) < 0.05, 99.0, X)
        assert find_column_types(missing, list(missing.T)) == ["categorical"] * 4
    assert n_integers > 32
    assert n_changed <= 1


def test_codes_with_relations_to_other_codes_are_categories(seed):
    """Equal codes in two columns, and a weak trend, do not show that the order of codes matters."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 12, (20, 800))
    second = np.where(rng.random((20, 800)) < 0.6, first, rng.integers(0, 12, (20, 800)))
    means = rng.normal(size=(20, 12, 6)) + np.linspace(-1.2, 1.2, 12)[:, None]
    found = []
    for a, b, mean in zip(first, second, means, strict=True):
        X = np.column_stack([a, b, mean[a] + 0.3 * rng.normal(size=(800, 6))])
        found += find_column_types(X, list(X.T))[:2]
    assert found.count("categorical") >= len(found) - 1


def test_declared_codes_remain_categories(seed):
    X = make_scales(np.random.default_rng(seed), 500)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1].astype(int).astype(str), "c": X[:, 2]})
    frame["b"] = frame["b"].str.zfill(2)
    frame["d"] = pd.Categorical(X[:, 3].astype(int))
    found = find_column_types(frame, [frame[c].to_numpy() for c in frame], by_dtype=False)
    assert found == ["integer", "categorical", "integer", "categorical"]


@pytest.mark.parametrize("kind", ["counts", "narrow", "related"])
def test_samples_of_rounded_numbers_have_the_probabilities_of_the_scores(kind, seed):
    """The rounding errors of the training rows and of the samples are not added."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 2))
    if kind == "counts":
        X = rng.poisson(1.0, (500, 2)).astype(float)
    elif kind == "related":
        X[:, 1] = 0.95 * X[:, 0] + 0.3 * X[:, 1]
    X = np.rint(X if kind == "counts" else 0.7 * X)
    model = NNMRFDensity(column_types="integer", random_state=seed).fit(X)
    values = np.arange(-12.0, 25.0)
    rows = np.stack([values, np.full(len(values), np.nan)], axis=1)
    p = np.exp(model.score_samples(rows))
    samples = model.sample(20000, random_state=seed)
    frequencies = (samples[:, :1] == values).mean(axis=0)
    assert 0.5 * np.abs(frequencies - p).sum() < 0.015
    together = (samples[:, 0] == samples[:, 1]).mean()
    pairs = np.exp(model.score_samples(np.stack([values, values], axis=1))).sum()
    assert_allclose(together, pairs, atol=0.04)
    quantiles = model.marginals(np.full((1, 2), np.nan), quantiles=[0.1, 0.4, 0.9])[0][0]
    ranks = np.searchsorted(values, quantiles)
    assert (np.cumsum(p)[ranks] > np.array([0.1, 0.4, 0.9]) - 0.01).all()
    assert (np.cumsum(p)[ranks - 1] < np.array([0.1, 0.4, 0.9]) + 0.01).all()


def test_quantiles_exclude_the_cells_of_point_masses(seed):
    rng = np.random.default_rng(seed)
    x = np.rint(rng.normal(10.0, 1.5, 1000))
    x[rng.random(1000) < 0.4] = 10.0
    model = NNMRFDensity(column_types="integer", random_state=seed).fit(x[:, None])
    values = np.arange(0.0, 21.0)
    totals = np.cumsum(np.exp(model.score_samples(values[:, None])))
    levels = totals[(totals > 0.02) & (totals < 0.98)]
    levels = np.concatenate([levels - 0.008, levels + 0.008])
    quantiles = model.marginals([[np.nan]], quantiles=levels)[0][0]
    assert_allclose(quantiles, values[np.searchsorted(totals, levels)])


def test_samples_exclude_the_cells_of_point_masses_in_each_component(seed):
    """The narrow component has most of its numbers in the cell of the point mass."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(1200) < 0.5, rng.normal(10, 1, 1200), rng.normal(20, 3, 1200))
    x = np.rint(x)
    x[rng.random(1200) < 0.3] = 10.0
    model = NNMRFDensity(column_types="integer", random_state=seed).fit(x[:, None])
    values = np.arange(-5.0, 45.0)
    p = np.exp(model.score_samples(values[:, None]))
    frequencies = (model.sample(20000, random_state=seed) == values).mean(axis=0)
    assert 0.5 * np.abs(frequencies - p).sum() < 0.025


def test_scores_of_columns_with_blurred_ends_are_finite(seed):
    """Noise can move held-out rows beyond the detected bounds. Samples are rarely there."""
    rng, n_bounded = np.random.default_rng(seed), 0
    for _ in range(4):
        x = rng.uniform(-1.0, 1.0, (900, 2)) + [0.0, 0.01] * rng.normal(size=(900, 2))
        model = NNMRFDensity(GaussianPotentials(1), random_state=seed).fit(x[:600])
        n_bounded += model.column_types_ == ["bounded", "bounded"]
        found = model.score_samples(np.r_[x[600:], [[1.3, 0.0], [0.0, -1.3]]])
        strict = clone(model).set_params(column_types="bounded").fit(x[:600])
        logs = strict.score_samples(x[600:])
        if model.column_types_ == ["bounded", "bounded"]:
            assert np.isfinite(found).all()
            assert strict.score_samples([[1.3, 0.0]])[0] == -np.inf
            assert np.abs((found[:-2] - logs)[np.isfinite(logs)].mean()) < 0.02
            draws = model.sample(1000, random_state=seed)
            assert (np.abs(draws).max(axis=1) > 1.2).mean() < 0.01
    assert n_bounded > 0
