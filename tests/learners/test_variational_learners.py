"""Tests of learners by belief propagation and mean field, of Gaussians of classes and mixtures."""

import warnings

import numpy as np
import pytest
import twins
from montecarlo import check_draws, check_mean_weight, check_means
from numpy.testing import assert_allclose
from scipy.stats import ks_2samp, multivariate_normal
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from zoo import TABLE_LEARNERS, TABLE_MODELS, VARIATIONAL, ZOO, enumerate_states, model_rows

from skmrf import (
    DiscreteMRF,
    GaussianPotentials,
    NetworkPotentials,
    NNMRFBayesClassifier,
    NNMRFDensity,
)
from skmrf._utils.phases import States
from skmrf._utils.rows import Batch
from skmrf.datasets import make_ising
from skmrf.estimators.nnmrf import bayes_classifier, initial_energy
from skmrf.estimators.nnmrf.bayes_classifier import warn_if_slow
from skmrf.estimators.nnmrf.gaussian_base import (
    DIAGONAL_SHARES,
    ClassGaussians,
    Shrinkage,
    _choose_rows,
    class_tables,
)
from skmrf.estimators.nnmrf.label_members import LabelRows, assign_folds
from skmrf.learners import BP, BPCD, BPChainCD, MeanField, Variational
from skmrf.variational import belief_propagation, mean_field

TREES = ["chain", "tied_binary", "disconnected", "isolated", "single_variable", "zeros_binary"]


# Belief propagation and mean field -------------------------------------------------------


def run_steps(learner, energy, n_steps, seed, n_rows=60):
    """Return the moments of the negative phase and the diagnostics of each step.

    The training rows are draws from the model.
    """
    rng = np.random.default_rng(seed)
    batch = Batch(model_rows(energy, n_rows, rng))
    state = learner.init(energy, batch, rng)
    moments, infos = [], []
    for _ in range(n_steps):
        _, negative, state, info = learner.step(energy, batch, state, rng)
        moments.append(energy.moments(negative)["log_potentials"])
        infos.append(info)
    return np.array(moments), infos, negative


def exact_moments(energy):
    return twins.moments(energy, *twins.distribution(energy))["log_potentials"]


@pytest.mark.parametrize("warm_start", [False, True])
@pytest.mark.parametrize("schedule", ["sequential", "residual", "flooding"])
@pytest.mark.parametrize("name", TREES)
def test_bp_is_exact_on_trees(name, schedule, warm_start, seed):
    energy = ZOO[name](seed)
    learner = BP(schedule=schedule, warm_start=warm_start)
    actual, infos, _ = run_steps(learner, energy, 3, seed)
    np.testing.assert_allclose(actual, [exact_moments(energy)] * 3, rtol=0, atol=1e-6)
    log_z = twins.log_sum(enumerate_states(energy)[1])
    for info in infos:
        assert info["inference_converged"] == 1.0
        assert info["residual"] <= 1e-6
        assert info["log_partition"] == pytest.approx(log_z, abs=1e-6)


def test_warm_start_needs_fewer_iterations(seed):
    energy = ZOO["grid"](seed)
    for warm_start in (True, False):
        _, infos, _ = run_steps(BP(warm_start=warm_start), energy, 2, seed)
        first, second = (info["n_propagations"] for info in infos)
        assert (second < first) is warm_start


@pytest.mark.parametrize("name", ["cycle", "grid", "complete", "orders", "tied", "zeros", "dense"])
def test_bp_moments_are_clique_beliefs_on_loopy_graphs(name, seed):
    """The moments are the tied clique beliefs, which differ from the exact moments."""
    energy = make_dense_ising() if name == "dense" else ZOO[name](seed)
    actual, _, _ = run_steps(BP(), energy, 1, seed)
    beliefs = belief_propagation.belief_propagation(
        energy, belief_propagation.Propagation(tol=1e-10)
    ).cliques
    np.testing.assert_allclose(actual[0], energy.layout.tied(beliefs), rtol=0, atol=1e-4)
    assert name != "dense" or np.abs(actual[0] - exact_moments(energy)).max() > 0.01


@pytest.mark.parametrize("name", [*TABLE_MODELS, "zeros", "zeros_binary"])
def test_mean_field_moments_are_those_of_a_product_distribution(name, seed):
    energy = ZOO[name](seed)
    actual, infos, _ = run_steps(MeanField(tol=1e-12, max_iter=5000), energy, 2, seed)
    single = mean_field.mean_field(energy, tol=1e-12, max_iter=5000)
    parts = np.split(single.single, np.cumsum(energy.n_states)[:-1])
    states, log_f = enumerate_states(energy)
    p = np.array([np.prod([parts[i][s] for i, s in enumerate(x)]) for x in states])
    expected = twins.moments(energy, states, p)["log_potentials"]
    np.testing.assert_allclose(actual, [expected] * 2, rtol=0, atol=1e-8)
    for info in infos:
        assert info["log_partition"] == pytest.approx(single.lower_bound, abs=1e-8)
        assert info["log_partition"] <= twins.log_sum(log_f)
        assert info["inference_converged"] == 1.0


def product_of_beliefs(graph):
    """Return all joint states and their probabilities under the product of single beliefs."""
    beliefs = belief_propagation.belief_propagation(graph).single
    parts = np.split(beliefs, np.cumsum(graph.n_states)[:-1])
    states, _ = enumerate_states(graph)
    return states, np.array([np.prod([parts[i][s] for i, s in enumerate(x)]) for x in states])


def make_dense_ising(strength=0.25):
    """Return an Ising model on a complete graph of six spins, for which beliefs are inexact."""
    options = {"n_variables": 6, "coupling": strength, "field": 0.1}
    return make_ising("complete", **options).factor_graph()


@pytest.mark.parametrize("name", ["chain", "cycle", "orders", "zeros_binary"])
def test_bp_cd_draws_have_the_product_distribution(name, seed):
    energy = ZOO[name](seed)
    _, infos, negative = run_steps(BPCD(n_samples=20_000), energy, 2, seed)
    assert isinstance(negative, States)
    assert negative.visible.shape == (20_000, energy.n_variables)
    check_draws(negative.visible, *product_of_beliefs(energy))
    assert infos[0]["inference_converged"] == 1.0


def test_bp_cd_draws_ignore_dependence(seed):
    """Negative control: the draws have the single marginals but not the pairs of the model."""
    energy = make_dense_ising()
    _, _, negative = run_steps(BPCD(n_samples=20_000), energy, 1, seed)
    check_draws(negative.visible, *product_of_beliefs(energy))
    states, p = twins.distribution(energy)
    with pytest.raises(AssertionError, match="was drawn"):
        check_draws(negative.visible, states, p)
    correlations = np.corrcoef(negative.visible.T)
    assert np.abs(correlations[np.triu_indices(6, 1)]).max() < 0.04


@pytest.mark.parametrize("conditionals", ["auto", "exact"])
@pytest.mark.parametrize("name", ["chain", "cycle", "complete", "orders", "tied", "zeros"])
def test_bpchain_cd_with_exact_conditionals_is_unbiased(name, conditionals, seed):
    energy = ZOO[name](seed)
    learner = BPChainCD(n_samples=50, conditionals=conditionals)
    actual, infos, _ = run_steps(learner, energy, 200, seed)
    counts = len(energy.cliques) if name == "tied" else 1  # moments of a tied table add up
    check_means(actual / counts, exact_moments(energy) / counts)
    log_z = twins.log_sum(enumerate_states(energy)[1])
    for info in infos:
        assert info["ess"] == pytest.approx(1.0)
        assert info["log_partition"] == pytest.approx(log_z)
        assert info["inference_converged"] == 1.0


@pytest.mark.parametrize("name", ["cycle", "complete", "orders", "zeros", "dense"])
def test_bpchain_cd_with_corrected_draws_is_unbiased(name, seed):
    """The self-normalised weights have a negligible bias of order 1 / n_samples."""
    energy = make_dense_ising() if name == "dense" else ZOO[name](seed)
    learner = BPChainCD(n_samples=2000, conditionals="bp", corrected=True)
    actual, infos, _ = run_steps(learner, energy, 100, seed, n_rows=3)
    check_means(actual, exact_moments(energy))
    log_z = twins.log_sum(enumerate_states(energy)[1])
    check_mean_weight([info["log_partition"] for info in infos], log_z)
    assert all(1 / 2000 <= info["ess"] <= 1 + 1e-9 for info in infos)


def test_bpchain_cd_without_correction_is_biased(seed):
    """Negative control of the correction."""
    energy = make_dense_ising()
    actual, infos, negative = run_steps(BPChainCD(2000, "bp"), energy, 100, seed)
    with pytest.raises(AssertionError, match="sigma off"):
        check_means(actual, exact_moments(energy))
    assert all(info["ess"] < 0.9995 for info in infos)
    np.testing.assert_allclose(np.exp(negative.log_weights).sum(), 2000)


def test_bpchain_cd_importance_weights(seed):
    """Training rows have the weight f, other draws f / (q n); the sum estimates Z."""
    rng = np.random.default_rng(seed)
    energy = make_dense_ising()
    batch = Batch(model_rows(energy, 4, rng))
    learner = BPChainCD(300, "bp", corrected=True, order="index")
    state = learner.init(energy, batch, rng)
    _, negative, state, info = learner.step(energy, batch, state, rng)
    X, log_weights = negative.visible, negative.log_weights
    rows = np.unique(batch.X, axis=0)
    assert {x.tobytes() for x in X[: len(rows)]} == {x.tobytes() for x in rows}
    log_f = energy.log_potential(X)
    np.testing.assert_allclose(log_weights[: len(rows)], log_f[: len(rows)])
    repeated = np.array([x.tobytes() in {k.tobytes() for k in rows} for x in X[len(rows) :]])
    assert (log_weights[len(rows) :][repeated] == -np.inf).all()
    log_q = state.chain.log_density(energy.flat, X[len(rows) :][~repeated])
    counts = 300 * np.exp(log_weights - log_f)[len(rows) :][~repeated] * np.exp(log_q)
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
    assert info["log_partition"] == pytest.approx(twins.log_sum(log_weights))


# In an estimator -------------------------------------------------------------------------


def make_rows(seed, n_rows=400):
    rng = np.random.default_rng(seed)
    return model_rows(ZOO["chain"](seed), n_rows, rng)


def select_inference_warnings(caught):
    return [w for w in caught if str(w.message).startswith("Inference converged in")]


@pytest.mark.parametrize("name", VARIATIONAL)
def test_estimators_with_variational_learners(name, seed):
    """Names and instances are equal, history_ is complete, and there are no needless warnings."""
    X = make_rows(seed)
    cliques = [(i, i + 1) for i in range(5)]
    models = []
    for learner in (name, TABLE_LEARNERS[name]()):
        model = DiscreteMRF(cliques, learner, max_iter=20, alpha=0.01, random_state=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            models.append(model.fit(X))
            again = clone(model).fit(X)
        n_expected = 2 * (model.history_["inference_converged"][-1] < 0.99)
        assert len(select_inference_warnings(caught)) == n_expected
        np.testing.assert_array_equal(again.energy_.flat, model.energy_.flat)
    one, two = models
    np.testing.assert_array_equal(one.energy_.flat, two.energy_.flat)
    assert np.isfinite(one.energy_.flat).all()
    columns = {"inference_converged", "log_partition"}
    if name == "bpchain-cd":
        columns.add("ess")
    assert columns <= set(one.history_)
    assert all(len(one.history_[c]) == one.n_iter_ == 20 for c in columns)
    assert all(np.isfinite(one.history_[c]).all() for c in columns)
    assert name == "mean-field" or min(one.history_["inference_converged"]) == 1.0


@pytest.mark.parametrize("learner", [BP(), BPChainCD(500), BPChainCD(500, "bp", corrected=True)])
def test_log_likelihood_on_trees_equals_exact_learning(learner, seed):
    X = make_rows(seed)
    options = {"cliques": [(i, i + 1) for i in range(5)], "alpha": 0.001, "random_state": seed}
    best = DiscreteMRF(learner="exact", **options).fit(X).score(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        actual = DiscreteMRF(learner=learner, max_iter=150, **options).fit(X).score(X)
    assert best - 0.02 < actual < best + 1e-3


@pytest.mark.parametrize("learner", [BP(max_iter=1), BPCD(max_iter=1), MeanField(max_iter=1)])
def test_unconverged_inference_warns_once(learner, seed):
    X = make_rows(seed)
    model = DiscreteMRF("pairwise", learner, max_iter=8, alpha=0.01, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    (actual,) = select_inference_warnings(caught)
    assert issubclass(actual.category, ConvergenceWarning)
    assert "Increase the iterations or the damping" in str(actual.message)
    assert model.history_["inference_converged"][-1] < 0.99


def test_unconverged_chained_inference_warns_once(seed):
    learner = BPChainCD(conditionals="bp", order="index", schedule="flooding", max_iter=2, tol=0.0)
    model = DiscreteMRF("pairwise", learner, max_iter=4, alpha=0.01, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(make_rows(seed))
    assert len(select_inference_warnings(caught)) == 1
    assert 0.0 <= model.history_["inference_converged"][-1] < 0.99


def test_set_params_and_grid_search_over_learner_parameters(seed):
    """The learner of the original estimator is unchanged."""
    X = make_rows(seed, 100)
    cliques = [(i, i + 1) for i in range(5)]
    options = {"max_iter": 3, "alpha": 0.1, "categories": [[0, 1]] * 6, "random_state": seed}
    model = DiscreteMRF(cliques, BPChainCD(), **options)
    grid = {"learner__corrected": [False, True], "learner__n_samples": [20, 30]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(model, grid, cv=2).fit(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_.learner
    assert best.get_params()["n_samples"] == search.best_params_["learner__n_samples"]
    assert model.learner.n_samples == 100
    for learner, name, value in [
        (BP(), "damping", 0.3),
        (BPCD(), "n_samples", 7),
        (BPChainCD(), "order", "index"),
        (MeanField(), "max_iter", 9),
    ]:
        changed = clone(DiscreteMRF(learner=learner)).set_params(**{f"learner__{name}": value})
        assert getattr(changed.learner, name) == value
        assert getattr(learner, name) != value


def test_instance_with_defaults_has_the_fit_of_its_name(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(16, 1)), np.arange(16) % 2
    fits = [
        NNMRFBayesClassifier(
            NetworkPotentials(learner=learner, node_layers=(2,)), random_state=seed
        ).fit(X, y)
        for learner in ("variational", Variational())
    ]
    assert fits[0].n_iter_ == fits[1].n_iter_
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in fits))


@pytest.mark.parametrize(
    "change", [{"n_components": 3}, {"covariance": "diag"}, {"entropy": "bethe"}], ids=str
)
def test_changed_parameters_start_the_mixture_anew(change, seed):
    X = np.random.default_rng(seed).normal(size=(60, 2))
    options = {"node_layers": (2,), "edge_layers": (2,), "warm_start": True, "max_iter": 2}
    networks = NetworkPotentials(learner=Variational(2), **options)
    model = NNMRFDensity(networks, random_state=seed).fit(X)
    assert model.fit(X)._loop_state.learner.n_updates == 4
    changes = {f"potentials__learner__{k}": v for k, v in change.items()}
    assert model.set_params(**changes).fit(X)._loop_state.learner.n_updates == 2


@pytest.mark.parametrize(
    ("graph", "n_columns", "is_slow"),
    [("complete", 60, False), ("complete", 61, True), ("knn", 61, False), ([(0, 1)], 151, True)],
)
def test_warning_about_many_columns(graph, n_columns, is_slow):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_slow(graph, n_columns)
    assert len(caught) == is_slow


def test_fit_warns_about_many_columns_before_it_trains(seed):
    """The warning is an error here, so it ends the fit."""
    X, y = np.random.default_rng(seed).normal(size=(20, 500)), np.arange(20) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="500 columns and 124,750 networks"):
            NNMRFBayesClassifier("network", random_state=seed).fit(X, y)


def _label_rows(y, weights):
    return LabelRows(np.eye(y.max() + 1)[y], weights / weights.mean(), np.full(len(y), -1))


@pytest.mark.parametrize("n_columns", [4, 40])
@pytest.mark.parametrize("pooling", [1.0, 0.4, 0.0])
def test_gaussians_of_classes_have_the_densities_of_their_covariances(n_columns, pooling, seed):
    """Compare log-densities with those of the covariances, also with fewer rows than columns."""
    rng = np.random.default_rng(seed)
    y = np.arange(30) % 3
    X, Z = rng.normal(size=(30, n_columns)) + y[:, None], rng.normal(size=(5, n_columns))
    rows = _label_rows(y, rng.uniform(0.5, 1.0, 30))
    for i, share in enumerate(DIAGONAL_SHARES):
        model = ClassGaussians(X, rows, Shrinkage(0.7, 1.0, pooling, share))
        constant = -0.5 * n_columns * np.log(2 * np.pi)
        for k, log_share in enumerate(rows.log_shares()):
            normal = multivariate_normal(model.means[k], model.covariance(k))
            expected = normal.logpdf(Z) + log_share - constant
            assert_allclose(model.log_joint(Z)[i, :, k], expected, rtol=1e-6)


def test_gaussians_of_classes_without_shrinkage_have_the_moments_of_the_rows(seed):
    rng = np.random.default_rng(seed)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 3)) * (1 + y[:, None]) + y[:, None]
    rows = _label_rows(y, np.ones(40))
    parts = [X[y == k] for k in range(2)]
    model = ClassGaussians(X, rows, Shrinkage(1.0, 0.0, 0.0, 0.0))
    for k, part in enumerate(parts):
        assert_allclose(model.means[k], part.mean(axis=0))
        assert_allclose(model.covariance(k), np.cov(part.T))
    pooled = ClassGaussians(X, rows, Shrinkage(1.0, 0.0, 1.0, 0.0)).covariance(0)
    assert_allclose(pooled, sum(np.cov(part.T) for part in parts) / 2)
    far = ClassGaussians(X, rows, Shrinkage(1.0, 1e9, 1.0, 0.0))
    assert_allclose(far.means, np.tile(X.mean(axis=0), (2, 1)))
    assert_allclose(far.covariance(0), np.cov(X.T) * 39 / 38)


def test_probabilities_of_categories_are_between_those_of_the_class_and_of_all_rows():
    rows = _label_rows(np.array([0, 0, 1, 1]), np.ones(4))
    codes = np.array([[0.0], [0.0], [1.0], [np.nan]])
    tables = class_tables(codes, np.array([2]), rows, 1.0)
    pooled = np.array([2.5, 1.5]) / 4
    assert_allclose(
        tables[:, 0], [(np.array([2, 0]) + pooled) / 3, (np.array([0, 1]) + pooled) / 2]
    )
    half = class_tables(codes, np.array([2]), rows, 0.5)
    assert_allclose(half, 0.5 * (tables + pooled))


def test_default_classifier_has_gaussians_in_wide_tables(seed):
    rng = np.random.default_rng(seed)
    y = np.arange(700) % 2
    X = rng.normal(size=(700, 12)) @ rng.normal(size=(12, 70)) / 3 + rng.normal(size=(700, 70))
    X[:, :3] += y[:, None]
    X[:, 69] = rng.random(700) < 0.2 + 0.6 * y
    train, test = slice(0, 100), slice(100, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = NNMRFBayesClassifier(column_types={69: "categorical"}, random_state=seed)
        model.fit(X[train], y[train])
    assert not any(hasattr(density, "energy_") for density in model.densities_)
    other = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(X[train], y[train])
    losses = [log_loss(y[test], m.predict_proba(X[test])) for m in (model, other)]
    assert losses[0] < losses[1] + 0.05
    huge = np.where(np.arange(70) == 5, 1e300, X[:1])
    assert_allclose(model.predict_proba(huge).sum(), 1.0)
    drawn = model.sample(2000, y=1, random_state=seed)
    shares = [density.mixture_.tables[0, 0, 1] for density in model.densities_]
    assert abs(drawn[:, 69].mean() - shares[1]) < 5 * 0.5 / 2000**0.5
    hidden = X[:1].copy()
    hidden[:, :69] = np.nan
    table = np.where(hidden[0, 69] == 1, shares, np.subtract(1, shares))
    assert_allclose(model.predict_proba(hidden)[0], table / table.sum())


@pytest.mark.parametrize("kind", ["gaussian", pytest.param("network", marks=pytest.mark.long)])
def test_default_classifier_selects_the_potentials_by_held_out_rows(kind, seed):
    """Two moons are far from Gaussian, and networks overfit in the other table."""
    if kind == "network":
        X, y = make_moons(120, noise=0.1, random_state=seed)
    else:
        y = np.arange(40) % 2
        X = np.random.default_rng(seed).normal(size=(40, 6)) + 0.3 * y[:, None]
    chosen = NNMRFBayesClassifier(random_state=seed).fit(X, y)
    same = NNMRFBayesClassifier(kind, random_state=seed).fit(X, y)
    np.testing.assert_array_equal(chosen.predict_proba(X), same.predict_proba(X))


def record_fits(monkeypatch):
    """Return a list that receives the densities of each training of networks of all classes."""
    fits, learn = [], NNMRFBayesClassifier._learn_densities

    def record(*given):
        fits.append(learn(*given))
        return fits[-1]

    monkeypatch.setattr(NNMRFBayesClassifier, "_learn_densities", record)
    return fits


@pytest.mark.parametrize(
    ("clear_gain", "n_trials"), [(3.0, 1), pytest.param(np.inf, 3, marks=pytest.mark.long)]
)
def test_a_clear_difference_ends_the_trials(clear_gain, n_trials, seed, monkeypatch):
    """One trial shows that two moons are far from Gaussian. Then networks learn all rows."""
    fits = record_fits(monkeypatch)
    monkeypatch.setattr(bayes_classifier, "CLEAR_GAIN", clear_gain)
    X, y = make_moons(400, noise=0.05, random_state=seed)
    NNMRFBayesClassifier(random_state=seed).fit(X, y)
    assert len(fits) == n_trials + 1


def test_default_classifier_limits_the_work_of_networks(seed, monkeypatch):
    """Clearly better networks have all updates in the last training, unless they are slow."""
    fits, limit = record_fits(monkeypatch), 10_000
    monkeypatch.setattr(initial_energy, "MAX_WORK", 0)
    monkeypatch.setattr(initial_energy, "MAX_QUICK_WORK", limit)
    X, y = make_moons(400, noise=0.05, random_state=seed)
    NNMRFBayesClassifier(random_state=seed).fit(X, y)
    monkeypatch.setattr(initial_energy, "MAX_LONG_WORK", limit)
    NNMRFBayesClassifier(random_state=seed).fit(X, y)
    work = initial_energy.UPDATE_WORK + 3  # two networks of columns, one of a pair
    updates = [sum(density.history_["n_updates"][-1] for density in fit) for fit in fits]
    trial, longer, same_trial, short = updates
    assert trial == same_trial == short
    assert 0.8 * limit < work * trial <= limit
    assert longer == 2 * 2.5 * initial_energy.WINDOW_OF_CLASS * 2  # minibatches of 200 rows
    monkeypatch.setattr(initial_energy, "MAX_QUICK_WORK", limit // 4)
    few = NNMRFBayesClassifier(random_state=seed).fit(X, y)
    assert len(fits) == 4
    assert not any(hasattr(density, "energy_") for density in few.densities_)


def test_default_classifier_has_no_networks_if_they_are_slow(seed, monkeypatch):
    """Tables with 60 columns, or with many classes, have too many networks."""
    fits, rng = record_fits(monkeypatch), np.random.default_rng(seed)
    for n_columns, n_classes in ((60, 2), (14, 30)):
        y = np.arange(180) % n_classes
        X = rng.normal(size=(180, n_columns)) + y[:, None]
        NNMRFBayesClassifier(random_state=seed).fit(X, y)
    assert not fits


@pytest.mark.long
def test_trials_of_the_default_classifier_do_not_hold_out_rows(seed, monkeypatch):
    """Their number of updates is limited. The last training of better networks is longer."""
    fits = record_fits(monkeypatch)
    X, y = make_moons(1400, noise=0.05, random_state=seed)
    NNMRFBayesClassifier(random_state=seed).fit(X, y)
    trials, last = [density for fit in fits[:-1] for density in fit], fits[-1]
    assert not any(density.potentials.early_stopping for density in trials)
    assert all(density.history_["n_updates"][-1] <= 510 for density in trials)
    assert all(density.potentials.early_stopping == "auto" for density in last)


@pytest.mark.parametrize("smallest", [1.0, 1e-320])
def test_gaussians_of_classes_with_few_rows_or_tiny_weights(smallest, seed):
    """The rows that select the shrinkage are a part of the rows, with rows of each class."""
    rng = np.random.default_rng(seed)
    few = [_choose_rows((np.arange(8000) == 7000).astype(int), rng) for _ in range(20)]
    assert all(7000 in rows and len(np.unique(rows)) == 5000 for rows in few)
    X, y = rng.normal(size=(8000, 3)), np.arange(8000) % 2
    y[:1], weights = 2, np.where(np.arange(8000) < 4, smallest, 1.0)
    p = NNMRFBayesClassifier("gaussian").fit(X, y, sample_weight=weights).predict_proba(X)
    assert_allclose(p.sum(axis=1), 1.0)
    assert_allclose(p.mean(axis=0), [0.5, 0.5, 0.0], atol=0.02)


def test_gaussians_of_classes_do_not_depend_on_the_unit_of_weights(seed):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(40, 3)), np.eye(2)[np.arange(40) % 2]
    shrinkage = Shrinkage(1.0, 0.0, 0.0, 0.0)
    for scale in (1.0, 7.0):
        rows = LabelRows(labels, np.full(40, scale), np.full(40, -1))
        found = ClassGaussians(X, rows, shrinkage).covariance(0)
        assert_allclose(found, np.cov(X[::2].T), rtol=1e-9)


def test_folds_of_groups(seed):
    """Rows of a group share a fold, and no fold leaves out all rows of a class."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.resize(np.arange(20), 60))
    labels = rng.integers(0, 3, 60)
    labels[groups == 7] = [3, 3, 0]
    folds = assign_folds(labels, 4, rng, groups)
    assert all(np.ptp(folds[groups == g]) == 0 for g in range(20))
    assert (folds[groups == 7] == -1).all()
    assert (np.bincount(folds[folds >= 0]) >= 9).all()
    assert all((labels[folds != k] == label).any() for k, label in np.ndindex(4, 4))


def copied_columns(rng):
    """Return columns of integers, each a copy of the one before with 15% other entries."""
    columns = [np.rint(rng.gamma(1.0, 1500.0, 500))]
    for _ in range(6):
        last = columns[-1]
        columns.append(np.where(rng.random(500) < 0.15, np.rint(last * rng.random(500)), last))
    return np.column_stack([*columns[::-1], rng.normal(size=500)])


def units(rng):
    """Return one quantity in three units of rounding, and a continuous column."""
    x = rng.normal(50.0, 9.0, 500)
    near = x * rng.normal(1.0, 0.003, 500)
    return np.column_stack(
        [near.round(), (x / 2).round() * 2, x.round(1), x + rng.normal(size=500)]
    )


@pytest.mark.parametrize("make", [copied_columns, units])
def test_samples_of_nearly_equal_columns_are_draws_of_the_mixture(make, seed):
    X = make(rng := np.random.default_rng(seed))
    model = NNMRFDensity(GaussianPotentials(3), column_types="continuous", random_state=seed).fit(X)
    expected = model._columns.decode(model.mixture_.sample(20_000, rng))
    draws = model.sample(5000, random_state=seed)
    for found, values in zip(draws.T, expected.T, strict=True):
        assert ks_2samp(found, values).statistic < 0.045
    missing = np.where(rng.random(X.shape) < 0.4, np.nan, X)
    for rows in (draws, model.sample(500, given=missing, random_state=seed)):
        largest = [np.nanmax(np.abs(model._encode(part)), axis=0) for part in (rows, expected)]
        assert largest[0].max() < 3.0 * largest[1].max()
    if make is units:
        assert_allclose(np.corrcoef(draws.T), np.corrcoef(X.T), atol=0.01)


@pytest.mark.parametrize("correlation", [0.9, 0.99, 0.999])
def test_samples_of_correlated_integers_have_the_probabilities_of_the_scores(correlation, seed):
    rng = np.random.default_rng(seed)
    covariance = 2.25 * np.array([[1.0, correlation], [correlation, 1.0]])
    X = np.rint(rng.multivariate_normal([0.0, 0.0], covariance, 500))
    model = NNMRFDensity(column_types="integer", random_state=seed).fit(X)
    pairs = np.stack(np.mgrid[-15:16, -15:16], axis=-1).reshape(-1, 2).astype(float)
    p, draws = np.exp(model.score_samples(pairs)), model.sample(40_000, random_state=seed)
    draws = draws[np.abs(draws).max(axis=1) <= 15.0]
    for distance in (0, 1, 2):
        expected = p[np.abs(pairs[:, 0] - pairs[:, 1]) == distance].sum() / p.sum()
        found = (np.abs(draws[:, 0] - draws[:, 1]) == distance).mean()
        assert found == pytest.approx(expected, abs=0.009)
    assert_allclose(np.square(draws).mean(axis=0), p @ pairs**2 / p.sum(), rtol=0.06)
