"""Tests of NNMRFClassifier: features, members, exponents and predictions."""

import warnings

import numpy as np
import pandas as pd
import pytest
from estimator_models import rings
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax
from scipy.stats import multivariate_t, norm, rankdata
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from skmrf import NNMRFClassifier
from skmrf.estimators.nnmrf.label_features import (
    Column,
    LabelFeatures,
    PrincipalAxes,
    RadialFeatures,
    fit_column,
    weighted_quantiles,
)
from skmrf.estimators.nnmrf.label_members import (
    DOFS,
    INVERSE_TEMPERATURES,
    POOLINGS,
    RIDGES,
    ClassDensities,
    LabelRows,
    assign_folds,
    held_out_densities,
    learn_convex,
    learn_exponents,
    learn_quadratic,
    softmax_objective,
)
from skmrf.estimators.nnmrf.label_networks import (
    ADAM,
    Kind,
    Networks,
    NetworkSettings,
    features_of_folds,
    learn_networks,
    train_epoch,
)

CONVEX = {"potentials": ("linear", "spline"), "max_iter": 50, "random_state": 0}


def quick(**parameters):
    """Return a classifier with few members, folds and iterations."""
    small = {"max_iter": 15, "n_units": 8, "cv": 3, "alphas": (10.0, 1.0), "n_centers": 30}
    return NNMRFClassifier(**small | {"random_state": 0} | parameters)


def label_rows(seed, n=40, n_classes=3, n_features=4):
    """Return features, and labels with weights and folds."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.resize(np.arange(n_classes), n))
    F = rng.normal(size=(n, n_features)) + labels[:, None] * np.linspace(-1, 1, n_features)
    folds = assign_folds(labels, 4, rng)
    return F, LabelRows(np.eye(n_classes)[labels], rng.exponential(size=n), folds)


def mixed(n, seed):
    """Return a frame with numbers, categories and missing entries, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.resize(["a", "b", "c"], n))
    codes = np.searchsorted(["a", "b", "c"], y)
    kind = np.array(["fern", "moss", "tree"], object)[(codes + (rng.random(n) < 0.3)) % 3]
    table = pd.DataFrame({"x": codes + rng.normal(size=n), "kind": kind, "z": rng.normal(size=n)})
    return table.mask(rng.random(table.shape) < 0.1), y


# Features ---------------------------------------------------------------------------------


def test_weighted_quantiles_equal_those_of_repeated_rows(seed):
    rng = np.random.default_rng(seed)
    x, counts = rng.normal(size=30), rng.integers(1, 5, 30)
    shares = [0.01, 0.25, 0.5, 0.9, 1.0]
    repeated = np.repeat(x, counts)
    expected = np.quantile(repeated, shares, method="inverted_cdf")
    assert_array_equal(weighted_quantiles(x, counts.astype(float), shares), expected)
    again = fit_column(repeated, np.ones(len(repeated)), 4, {"name": "x"})
    column = fit_column(x, counts.astype(float), 4, {"name": "x"})
    assert_allclose(column.standardised(x), again.standardised(x))
    assert_allclose(column.knots, again.knots)


def test_features_of_a_column(seed):
    x = np.random.default_rng(seed).normal(3.0, 5.0, size=200)
    column = fit_column(x, np.ones(200), 6, {"name": "x"})
    assert len(column.knots) == 7
    z = column.linear_features(x)[0]
    assert_allclose([z.mean(), z.std()], [0.0, 1.0], atol=1e-9)
    parts = column.spline_features(x)
    assert len(parts) == 6
    inside = (z > column.knots[0]) & (z < column.knots[-1])
    line = column.knots[0] + np.stack(parts, axis=1) @ np.diff(column.knots)
    assert_allclose(line[inside], z[inside])  # linear functions are splines
    assert not column.has_missing
    incomplete = np.where(np.arange(200) % 5 == 0, np.nan, x)
    column = fit_column(incomplete, np.ones(200), 6, {"name": "x"})
    assert len(column.linear_features(incomplete)) == 2
    assert_array_equal(column.linear_features(incomplete)[0][::5], 0.0)


@pytest.mark.parametrize("n", [30, 2000])
def test_an_outlier_does_not_change_the_range(n, seed):
    x = np.random.default_rng(seed).normal(size=n)
    expected = fit_column(x, np.ones(n), 4, {"name": "x"})
    with_outlier = np.append(x, 1e30)
    column = fit_column(with_outlier, np.ones(n + 1), 4, {"name": "x"})
    assert column.scale < 10 * expected.scale
    assert np.ptp(column.standardised(x)) > 0.1 * np.ptp(expected.standardised(x))
    assert np.isfinite(column.standardised(np.array([1e308, -1e308]))).all()


def test_normal_scores_of_wide_tails(seed):
    """The scores depend only on ranks, and a column without wide tails has none."""
    rng = np.random.default_rng(seed)
    x, counts = np.exp(3 * rng.normal(size=(300, 2))), rng.integers(1, 5, 300)
    x[::9] = np.nan
    column = fit_column(x[:, 0], counts.astype(float), 4, {"name": "x"})
    found = column.normal_features(x[:, 0])[0]
    shares = (rankdata(x[:, 0], nan_policy="omit") - 0.5) / np.count_nonzero(~np.isnan(x[:, 0]))
    is_inside = np.abs(shares - 0.5) < 0.4
    assert np.corrcoef(norm.ppf(shares[is_inside]), found[is_inside])[0, 1] > 0.99
    assert_array_equal(found[::9], 0.0)
    observed = ~np.isnan(x[:, 0])
    weights = counts[observed]
    assert_allclose(np.average(found[observed], weights=weights), 0.0, atol=1e-9)
    assert_allclose(np.average(found[observed] ** 2, weights=weights), 1.0)
    again = np.repeat(x[:, 0], counts)
    repeated = fit_column(again, np.ones(len(again)), 4, {"name": "x"})
    assert_allclose(repeated.normal_features(x[:, 0])[0], found, atol=1e-9)
    normal = fit_column(np.log(x[:, 1]), np.ones(300), 4, {"name": "x"})
    assert_array_equal(normal.normal_features(x[:, 1]), normal.linear_features(x[:, 1]))
    found = LabelFeatures([normal])
    found.learn_means([x[:, 1]], np.ones(300))
    found = found.transform([x[:, 1]])
    assert found["normal"] is found["linear"]


def test_quadratic_member_of_log_normal_columns(seed):
    """The logarithms of the classes differ in their means, so that the Bayes rule is known."""
    rng = np.random.default_rng(seed)
    y = np.arange(1200) % 2
    Z = rng.normal(size=(1200, 4)) + np.where(y, 0.6, -0.6)[:, None]
    p = 1 / (1 + np.exp(-1.2 * Z.sum(axis=1) * np.where(y, 1, -1)))
    X = np.exp(3 * Z)
    model = NNMRFClassifier(("quadratic",), random_state=seed).fit(X[:600], y[:600])
    logs = model.predict_log_proba(X[600:])[np.arange(600), y[600:]]
    assert -logs.mean() < -np.log(p[600:]).mean() + 0.04


def test_unseen_categories_are_missing():
    column = Column("kind", np.array(["fern", "moss"], dtype=object), is_nominal=True)
    codes = column.to_numbers(np.array(["moss", "oak", None, "fern"], dtype=object))
    assert_array_equal(codes, [1.0, np.nan, np.nan, 0.0])
    assert_array_equal(np.stack(column.linear_features(codes), 1)[1:3], 0.0)


def test_radial_features_are_those_of_the_kernel(seed):
    Z = np.random.default_rng(seed).normal(size=(20, 3))
    features = RadialFeatures(Z, 0.7).transform(Z)
    distances = ((Z[:, None] - Z) ** 2).sum(axis=2)
    assert_allclose(features @ features.T / 100, np.exp(-distances / (3 * 0.7**2)), atol=1e-4)


def parts_of(F, rows):
    """Return the features of quadratic potentials for each fold."""
    return features_of_folds(Kind("quadratic"), F, rows, None, None)[1]


# Members ----------------------------------------------------------------------------------


def test_softmax_gradient_by_differences(seed):
    F, rows = label_rows(seed)
    flat = np.random.default_rng(seed).normal(size=15)
    _, gradient = softmax_objective(flat, F, rows, 0.7)
    for k, step in enumerate(1e-6 * np.eye(15)):
        ends = [softmax_objective(flat + s * step, F, rows, 0.7)[0] for s in (1, -1)]
        assert gradient[k] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-6)


@pytest.mark.parametrize("pooling", [3.0, np.inf])
def test_class_densities_equal_student_t_distributions(pooling, seed):
    F, rows = label_rows(seed)
    weights = rows.weights * rows.targets.T
    means = [np.average(F, axis=0, weights=w) for w in weights]
    scatter = [np.cov(F.T, aweights=w, ddof=0) * w.sum() for w in weights]
    pooled = sum(scatter) / weights.sum()
    level, expected = np.trace(pooled) / 4, np.log(weights.sum(axis=1) + 0.5)[None].repeat(40, 0)
    for k, (mean, S, w) in enumerate(zip(means, scatter, weights, strict=True)):
        own = (S + pooling * pooled) / (w.sum() + pooling) if np.isfinite(pooling) else pooled
        covariance = 0.9 * own + 0.1 * level * np.eye(4)
        expected[:, k] += multivariate_t(mean, covariance, 7.0).logpdf(F)
    found = ClassDensities(F, rows, pooling).log_proba(F, np.array([0.5, 0.1]), [2.0, 7.0])
    assert_allclose(found[1, 1], log_softmax(expected, axis=1), atol=1e-9)


def test_quadratic_member_of_gaussian_classes(seed):
    """Predictions are close to those of linear discriminant analysis, also for held-out rows."""
    F, rows = label_rows(seed, n=400)
    F = F @ np.array([[1, 2, 0, 0], [0, 1, 2, 0], [0, 0, 1, 2], [0, 0, 0, 1.0]])  # correlations
    rows = rows._replace(weights=np.ones(400))
    member = learn_quadratic(F, [F] * rows.n_folds, rows)
    reference = LinearDiscriminantAnalysis().fit(F, rows.targets.argmax(axis=1))
    p = np.exp(member.log_proba(F))
    assert np.abs(p - reference.predict_proba(F)).mean() < 0.04
    loss = -(rows.targets * reference.predict_log_proba(F)).sum(axis=1).mean()
    assert rows.held_out_loss(member.held_out) == pytest.approx(loss, abs=0.06)


def test_quadratic_member_of_classes_with_equal_means(seed):
    """The variances differ, so that the log odds are quadratic, and linear ones are useless."""
    rng = np.random.default_rng(seed)
    y = np.arange(600) % 2
    X = rng.normal(size=(600, 3)) * np.where(y, 3.0, 1.0)[:, None]
    for potential, low, high in (("linear", 0.3, 0.65), ("quadratic", 0.8, 1.0)):
        model = NNMRFClassifier((potential,), random_state=seed).fit(X[:300], y[:300])
        assert low < model.score(X[300:], y[300:]) < high


def test_held_out_densities_do_not_depend_on_their_rows(seed):
    F, rows = label_rows(seed)
    logs = held_out_densities(parts_of(F, rows), rows, 5.0)
    left = np.flatnonzero(rows.folds == 2)
    others = np.eye(3)[(rows.targets[left].argmax(axis=1) + 1) % 3]
    changed = rows.targets.copy()
    changed[left] = others
    rows = rows._replace(targets=changed)
    again = held_out_densities(parts_of(F, rows), rows, 5.0)
    assert_allclose(again[:, :, left], logs[:, :, left], atol=1e-12)
    assert np.abs(again - logs).max() > 1e-3


def test_held_out_rows_are_projected_like_new_rows(seed):
    """Axes of all rows would contain the held-out rows, but not new rows."""
    F, rows = label_rows(seed, n_features=310)
    logs = held_out_densities(parts_of(F, rows), rows, np.inf)
    kept, new = np.flatnonzero(rows.folds != 1), np.flatnonzero(rows.folds == 1)
    axes = PrincipalAxes(F[kept], 300)
    densities = ClassDensities(axes.transform(F[kept]), rows.select(kept), np.inf)
    expected = densities.log_proba(axes.transform(F[new]), RIDGES, DOFS)
    assert_allclose(logs[:, :, new], expected, atol=1e-8)


def test_quadratic_member_has_the_smallest_held_out_loss(seed):
    """Equal columns make densities too certain, so the inverse temperature is below 1."""
    F, rows = label_rows(seed, n=2100, n_features=2)
    F = np.tile(F, 8) + 0.3 * np.random.default_rng(seed).normal(size=(2100, 16)) ** 3
    new = rows.select(np.arange(100, 2100))
    rows = rows.select(np.arange(100))
    member = learn_quadratic(F[:100], [F[:100]] * rows.n_folds, rows)
    held_out = [held_out_densities([F[:100]] * 4, rows, pooling) for pooling in POOLINGS]
    losses = [
        rows.held_out_loss(log_softmax(beta * logs, axis=1))
        for logs in np.concatenate(held_out).reshape(-1, 100, 3)
        for beta in INVERSE_TEMPERATURES
    ]
    assert rows.held_out_loss(member.held_out) == pytest.approx(min(losses))
    logs = member.densities.log_proba(F[100:], np.array([member.ridge]), [member.dof])[0, 0]
    assert new.held_out_loss(member.log_proba(F[100:])) < new.held_out_loss(logs) - 0.01


def test_one_fold_with_all_rows_of_convex_members(seed):
    """Such rows are not left out. A fold without any row has no parameters."""
    _, rows = label_rows(seed)
    few = rows.select(np.flatnonzero(rows.folds == 1)[:2])
    assert_array_equal(few.folds, -1)
    assert few.held_out_loss(np.zeros((2, 3))) == 0.0
    X = np.random.default_rng(seed).normal(size=(30, 3))
    for random_state in range(8):  # two of 30 rows have the same fold in about one of five fits
        given = {"max_convex_rows": 2, "random_state": random_state}
        model = NNMRFClassifier(("linear", "quadratic"), **given).fit(X, np.arange(30) % 3)
        assert np.isfinite(model.predict_log_proba(X)).all()


@pytest.mark.parametrize("n", [30, 90])
def test_principal_axes_keep_the_largest_variances(n, seed):
    """All inner products are kept if there are enough axes, and as much variance as possible."""
    F = np.random.default_rng(seed).normal(size=(n, 60)) * np.linspace(0.2, 3, 60)
    F -= F.mean(axis=0)
    Z = PrincipalAxes(F, 60).transform(F)
    assert_allclose(Z @ Z.T, F @ F.T, atol=1e-8)
    Z = PrincipalAxes(F, 5).transform(F)
    assert_allclose((Z**2).sum(), (np.linalg.svd(F)[1][:5] ** 2).sum())


def test_quadratic_potentials_of_many_columns(seed):
    """Rows of 400 columns are projected on axes; the labels depend on one direction."""
    rng = np.random.default_rng(seed)
    y = np.arange(300) % 2
    X = rng.normal(size=(300, 400)) + np.where(y, 0.2, -0.2)[:, None]
    model = NNMRFClassifier(("quadratic",), random_state=seed).fit(X[:200], y[:200])
    assert model._mappings[0].mapping.axes.shape[1] < 200
    assert model.score(X[200:], y[200:]) > 0.9


def test_weight_decay_leaves_biases_unchanged(seed):
    """Without row weights the gradient is zero, so that only the decay changes the weights."""
    rng = np.random.default_rng(seed)
    networks = Networks.random(3, 4, np.full((2, 3), -1.0), "tanh", rng)
    before, state = [a.copy() for a in networks.theta], ADAM.init(networks.named_theta)
    F, targets, weights = rng.normal(size=(30, 3)), np.zeros((30, 3)), np.zeros((2, 30))
    data = [a.astype(np.float32) for a in (F, targets, weights)]
    train_epoch(networks, state, data, 10, 0.5, 0.1, rng)  # three minibatches
    for k, (old, new) in enumerate(zip(before, networks.theta, strict=True)):
        assert_allclose(new, old * (0.95**3 if k % 2 == 0 else 1.0), rtol=1e-5)


def test_convex_members_converge(seed):
    """Features of different scales and nearly separable classes have the exact minimum."""
    F, rows = label_rows(seed, n=200, n_features=8)
    F = np.hstack([F, F @ np.random.default_rng(seed).normal(size=(8, 8)) / 20])
    labels = rows.targets.argmax(axis=1)
    F += 2.0 * labels[:, None]
    member = learn_convex(F, [F] * 4, rows, (0.05,), 40)
    peer = LogisticRegression(C=20.0, tol=1e-8, solver="newton-cg", max_iter=1000)
    peer.fit(F, labels, sample_weight=rows.weights)
    assert_allclose(np.exp(member.log_proba(F)), peer.predict_proba(F), atol=1e-5)
    assert member.converged
    assert not learn_convex(F, [F] * 4, rows, (0.05,), 2).converged


def test_warning_that_members_have_not_converged(seed):
    X, y = load_iris(return_X_y=True)
    for potentials in (("linear", "spline"), ("linear", "relu", "tanh")):
        with pytest.warns(ConvergenceWarning, match="Increase max_iter") as caught:
            NNMRFClassifier(potentials, max_iter=3, random_state=seed).fit(X, y)
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            model = NNMRFClassifier(potentials, random_state=seed).fit(X, y)
        assert all(member.converged for member in model.members_)


@pytest.mark.parametrize("activation", ["relu", "selu", "tanh"])
def test_gradient_of_networks_by_differences(activation, seed):
    F, rows = label_rows(seed, n=11)
    rng = np.random.default_rng(seed)
    networks = Networks.random(4, 3, np.tile(rows.log_shares(), (2, 1)), activation, rng)
    networks.theta = [a.astype(float) + 0.3 * rng.normal(size=a.shape) for a in networks.theta]
    weights = rng.exponential(size=(2, 11))

    def loss():
        return -(weights * (rows.targets * networks.log_proba(F)).sum(axis=2)).sum()

    gradient = networks.gradient(F, rows.targets, weights)
    for array, slopes in zip(networks.theta, gradient, strict=True):
        for place in np.ndindex(array.shape):
            value, ends = array[place], []
            for step in (1e-6, -1e-6):
                array[place] = value + step
                ends.append(loss())
            array[place] = value
            assert slopes[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-4)


def test_weights_equal_repeated_rows(seed):
    """Objectives and gradients of members with weights are those of repeated rows."""
    F, rows = label_rows(seed)
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, len(F))
    again = np.repeat(np.arange(len(F)), counts)
    repeated = LabelRows(rows.targets[again], np.ones(len(again)), rows.folds[again])
    weighted = rows._replace(weights=counts.astype(float))
    flat = rng.normal(size=15)
    for left, right in zip(
        softmax_objective(flat, F, weighted, 0.5),
        softmax_objective(flat, F[again], repeated, 0.5),
        strict=True,
    ):
        assert_allclose(left, right, atol=1e-12)
    member = learn_convex(F, [F] * 4, weighted, (1.0,), 100)  # a choice uses the effective number
    other = learn_convex(F[again], [F[again]] * 4, repeated, (1.0,), 100)
    assert_allclose(member.coef, other.coef, atol=0.02)
    logs = rng.normal(size=(3, 40, 3))
    assert_allclose(
        learn_exponents(logs, weighted, 1.0),
        learn_exponents(logs[:, again], repeated, 1.0),
        atol=0.01,
    )


def test_held_out_predictions_do_not_use_their_rows(seed):
    """If the label of a row changes, its held-out prediction stays and others change."""
    F, rows = label_rows(seed)
    settings = NetworkSettings("tanh", 4, 0.01, 10.0, 64, 1, 5)
    changed = rows.targets.copy()
    changed[0] = np.roll(changed[0], 1)
    for learn in (
        lambda r: learn_convex(F, [F] * 4, r, (1.0,), 100).held_out,
        lambda r: learn_networks(F, r._replace(weights=np.ones(40)), settings, 0).held_out,
    ):
        before, after = learn(rows), learn(rows._replace(targets=changed))
        left = rows.folds == rows.folds[0]
        assert np.abs(before[~left] - after[~left]).max() > 1e-5
        assert_allclose(before[left], after[left], atol=1e-6)


def test_exponents(seed):
    """The exponents prefer the informative member and correct its temperature."""
    rng = np.random.default_rng(seed)
    truth = log_softmax(2.0 * rng.normal(size=(3000, 3)), axis=-1)
    labels = np.argmax(truth + rng.gumbel(size=truth.shape), axis=1)
    rows = LabelRows(np.eye(3)[labels], np.ones(3000), np.zeros(3000, int))
    noise = log_softmax(rng.normal(size=truth.shape), axis=-1)
    found = learn_exponents(np.stack([0.5 * truth, noise]), rows, 0.1)
    assert found[0] == pytest.approx(2.0, abs=0.3)
    assert 0 <= found[1] < 0.15
    assert_allclose(learn_exponents(np.stack([0.5 * truth, noise]), rows, 1e9), 0.5, atol=1e-3)


def test_folds(seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(5), [1, 2, 4, 13, 40]))
    folds = assign_folds(labels, 5, np.random.default_rng(seed))
    assert folds[labels == 0] == -1
    for k, n in ((1, 2), (2, 4), (3, 13), (4, 40)):
        counts = np.bincount(folds[labels == k], minlength=5)
        assert counts.sum() == n
        assert np.ptp(counts) <= 1


# Predictions ------------------------------------------------------------------------------


def test_iris(seed):
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(seed).permutation(150)
    train, test = order[:100], order[100:]
    model = quick(random_state=seed).fit(X[train], y[train])
    assert model.score(X[test], y[test]) >= 0.86
    p = model.predict_proba(X[test])
    assert_allclose(p.sum(axis=1), 1.0)
    assert_allclose(np.exp(model.predict_log_proba(X[test])), p)
    assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X[test]))
    assert (model.exponents_ >= 0).all()
    assert len(model.members_) == len(model.kinds_) == 7


@pytest.mark.parametrize("potential", ["radial", "relu", "tanh", "selu"])
def test_rings_need_more_than_linear_potentials(potential, seed):
    X, y = rings(1000, seed)
    parameters = {"weight_decay": 0.0, "batch_size": 32, "cv": 2, "random_state": seed}
    parameters |= {"n_iter_no_change": 25}
    linear = NNMRFClassifier(("linear",), **parameters).fit(X[:400], y[:400])
    assert linear.score(X[400:], y[400:]) < 0.65
    model = NNMRFClassifier((potential,), **parameters).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.75


def test_labels_independent_of_rows(seed):
    """The probabilities are about the shares of the classes."""
    X = np.random.default_rng(seed).normal(size=(400, 3))
    y = (np.random.default_rng(seed + 1000).random(400) < 0.75).astype(int)
    p = quick().fit(X[:300], y[:300]).predict_proba(X[300:])
    assert np.abs(p[:, 1] - 0.75).mean() < 0.12


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_same_seed_same_predictions(n_jobs, seed):
    X, y = mixed(40, seed)
    model = quick(random_state=seed).fit(X, y)
    with parallel_config("threading"):
        again = clone(model).set_params(n_jobs=n_jobs).fit(X, y)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    other = clone(model).set_params(random_state=seed + 1).fit(X, y)
    assert (other.predict_proba(X) != model.predict_proba(X)).any()


def test_order_of_columns_and_names_of_classes_do_not_matter(seed):
    X, y = mixed(90, seed)
    model = NNMRFClassifier(**CONVEX).fit(X, y)
    expected = model.predict_proba(X)
    turned = NNMRFClassifier(**CONVEX).fit(X.iloc[:, ::-1], y)
    assert_allclose(turned.predict_proba(X.iloc[:, ::-1]), expected, atol=0.01)
    renamed = NNMRFClassifier(**CONVEX).fit(X, np.array([5, 6, 7])[np.searchsorted(list("abc"), y)])
    assert_allclose(renamed.predict_proba(X), expected, atol=1e-10)
    scaled = X.assign(x=1e6 * X["x"] - 7.0)
    assert_allclose(clone(model).fit(scaled, y).predict_proba(scaled), expected, atol=0.01)


def test_missing_entries_and_unseen_categories(seed):
    X, y = mixed(200, seed)
    model = quick().fit(X, y)
    assert model.column_types_ == ["continuous", "categorical", "continuous"]
    assert model.categories_[0].tolist() == ["fern", "moss", "tree"]
    assert model.score(X, y) > 0.6
    rows = X.iloc[:5].assign(kind="oak")
    expected = model.predict_proba(X.iloc[:5].assign(kind=None))
    assert_array_equal(model.predict_proba(rows), expected)
    empty = pd.DataFrame({"x": [np.nan], "kind": [None], "z": [np.nan]})
    assert np.abs(model.predict_proba(empty) - 1 / 3).max() < 0.3


def test_whole_numbers_of_arrays_are_numbers(seed):
    X = np.random.default_rng(seed).integers(0, 9, size=(120, 2))
    y = X[:, 0] > 4
    model = quick().fit(X, y)
    assert model.column_types_ == ["integer", "integer"]
    assert np.isfinite(model.predict_proba(X + 100)).all()  # values that fit did not see
    assert quick(column_types="categorical").fit(X, y).column_types_ == ["categorical"] * 2


def test_class_weight_and_sample_weight(seed):
    """Labels are independent of rows, so probabilities are weighted class shares."""
    X = np.random.default_rng(seed).normal(size=(300, 2))
    y = np.resize(["a", "b", "b"], 300)
    weights = np.where(y == "a", 18.0, 1.0)
    model = quick().fit(X, y, sample_weight=weights)
    found = quick(class_weight={"a": 18.0, "b": 1.0}).fit(X, y).predict_proba(X)
    assert_array_equal(found, model.predict_proba(X))
    rows = np.r_[X, X + 5], np.r_[y, y[::-1]], np.r_[weights, np.zeros(300)]
    for class_weight, p in ((None, 0.9), ("balanced", 0.5)):
        model = quick(class_weight=class_weight).fit(X, y, sample_weight=weights)
        ignored = quick(class_weight=class_weight).fit(rows[0], rows[1], sample_weight=rows[2])
        assert_array_equal(ignored.predict_proba(X), model.predict_proba(X))
        assert_allclose(model.predict_proba(X).mean(axis=0), [p, 1.0 - p], atol=0.06)


# Bad input --------------------------------------------------------------------------------


BAD_COLUMNS = {
    "constant": lambda _, y: np.ones(len(y)),
    "constant within a class": lambda X, y: np.where(y, 1.0, X[:, 0]),
    "outlier": lambda X, y: np.where(np.arange(len(y)) == 3, 1e30, X[:, 0]),
    "huge": lambda X, y: np.where(np.arange(len(y)) == 3, 1e308, X[:, 0]),
    "one observed": lambda _, y: np.where(np.arange(len(y)) == 3, 1.0, np.nan),
    "categories": lambda _, y: np.array([f"c{i}" for i in range(len(y))], dtype=object),
}


@pytest.mark.parametrize("name", BAD_COLUMNS)
def test_bad_columns(name, seed):
    X = np.random.default_rng(seed).normal(size=(80, 2))
    y = X[:, 1] > 0
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "bad": BAD_COLUMNS[name](X, y)})
    model = quick(max_iter=50).fit(table, y)
    p = model.predict_proba(table)
    assert_allclose(p.sum(axis=1), 1.0)
    assert model.score(table, y) > 0.85


def test_an_unobserved_column_is_ignored(seed):
    X = np.random.default_rng(seed).normal(size=(60, 2))
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "empty": np.nan})
    with pytest.warns(UserWarning, match="Column 'empty' has no observed entry, so it is ignored"):
        model = quick().fit(table, X[:, 0] > 0)
    assert np.isfinite(model.predict_proba(table.assign(empty=5.0))).all()


@pytest.mark.parametrize("y", [[0] * 20, [0] * 19 + [1], list(range(20)), [0, 1] * 10])
def test_classes_of_few_rows(y, seed):
    X = np.random.default_rng(seed).normal(size=(20, 2))
    model = quick().fit(X, y)
    p = model.predict_proba(X)
    assert p.shape == (20, len(set(y)))
    assert_allclose(p.sum(axis=1), 1.0)
    assert np.isfinite(model.predict_log_proba(X)).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"potentials": "linear"}, r"potentials must be a sequence .* of \['linear', 'spline'"),
        ({"potentials": ["cubic"]}, "each of potentials must be one of"),
        ({"widths": []}, "widths must be a sequence with at least one entry"),
        ({"alphas": [0.0]}, "each of alphas must be a number > 0"),
        ({"cv": 1}, "cv must be an integer >= 2"),
        ({"n_units": 0}, "n_units must be an integer >= 1"),
        ({"learning_rate": 0}, "learning_rate must be a number > 0"),
        ({"shrinkage": -1}, "shrinkage must be a number >= 0"),
        ({"column_types": "word"}, "column_types must be"),
        ({"categories": "all"}, "categories must be"),
    ],
    ids=str,
)
def test_bad_parameters(parameters, message):
    X, y = mixed(30, 0)
    model = quick(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "n_features_in_")


def test_bad_rows():
    with pytest.raises(ValueError, match="Column 1 holds infinity"):
        quick().fit([[0.0, 1.0], [1.0, np.inf]], [0, 1])
