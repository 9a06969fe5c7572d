"""Tests of DiscreteMRF."""

import pickle
import warnings
from dataclasses import replace
from functools import cache
from itertools import product

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import parallel_config
from scipy.special import expit
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer
from zoo import ZOO, brute, enumerate_states

from skmrf import BoltzmannMachine, DiscreteMRF
from skmrf._utils.rows import Batch
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph
from skmrf.estimators import _automatic, _refinement, _weight_decay
from skmrf.estimators._training import TrainingParameters
from skmrf.learners import CD, PCD, Exact
from skmrf.training import EarlyStopping, ScoreMonitor, regularization
from skmrf.training.state import LoopState

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*never occur in the data.*", "ignore::sklearn.exceptions.ConvergenceWarning"
)


def table(seed, n=300):
    """Return two dependent columns with three categories and an independent binary column."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    b = (a + (rng.random(n) < 0.2)) % 3
    return np.column_stack([a, b, rng.integers(0, 2, n)])


def with_missing_entries(X, share, seed):
    X = X.astype(float)
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


@pytest.fixture(scope="module")
def fitted():
    return DiscreteMRF(learner="exact", alpha=1e-3).fit(table(0))


def test_queries_of_incomplete_rows(fitted, seed):
    X = with_missing_entries(table(seed + 1, 60), 0.4, seed)
    scores, filled, marginals = fitted.score_samples(X), fitted.predict(X), fitted.marginals(X)
    for r, row in enumerate(X):
        total, p, rows = brute(fitted, row)
        assert scores[r] == pytest.approx(total, abs=1e-10)
        chosen = (rows == filled[r]).all(axis=1)
        assert p[chosen][0] == pytest.approx(p.max(), abs=1e-12)
        for j, known in enumerate(fitted.categories_):
            exact = [p[rows[:, j] == c].sum() for c in known]
            np.testing.assert_allclose(marginals[j][r], exact, atol=1e-12)
    assert fitted.score(X) == pytest.approx(scores.mean())


def test_probabilities_of_all_rows_sum_to_one(fitted):
    rows = np.array(list(product(*fitted.categories_)))
    assert np.exp(fitted.score_samples(rows)).sum() == pytest.approx(1.0, abs=1e-12)


def test_sample_follows_the_model(fitted, seed):
    given = np.array([[np.nan, 2.0, np.nan]])
    drawn = fitted.sample(20_000, given=given, random_state=seed)
    _, p, rows = brute(fitted, given[0])
    counts = np.array([(drawn == row).all(axis=1).sum() for row in rows])
    assert counts.sum() == 20_000
    assert (np.abs(counts - 20_000 * p) < 5 * np.sqrt(20_000 * p * (1 - p)) + 1).all()
    by_name = fitted.sample(5, given={1: 2}, random_state=seed)
    assert (by_name[:, 1] == 2).all()
    per_row = fitted.sample(3, given=np.array([[0, np.nan, 1], [1, np.nan, 0], [2, 1, 1]]))
    np.testing.assert_array_equal(per_row[:, 0], [0, 1, 2])
    again = [fitted.sample(4, random_state=3) for _ in range(2)]
    np.testing.assert_array_equal(*again)


@pytest.mark.parametrize("learner", ["pcd", "cd", "pseudo-likelihood"])
def test_learners_near_maximum_likelihood(learner, seed):
    X = table(seed)
    best = DiscreteMRF(learner="exact", alpha=0).fit(X).score(X)
    model = DiscreteMRF(learner=learner, alpha=0, max_iter=200, random_state=seed).fit(X)
    assert best - 0.02 < model.score(X) < best + 1e-6


def test_maximum_likelihood_matches_the_moments(seed):
    X = table(seed)
    model = DiscreteMRF(learner="exact", alpha=0).fit(X)
    rows = np.array(list(product(*model.categories_)))
    p = np.exp(model.score_samples(rows))
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        for a, b in product(model.categories_[i], model.categories_[j]):
            expected = ((X[:, i] == a) & (X[:, j] == b)).mean()
            assert p[(rows[:, i] == a) & (rows[:, j] == b)].sum() == pytest.approx(
                expected, abs=1e-5
            )


def test_independent_columns_have_closed_form():
    X = table(0)
    model = DiscreteMRF(cliques="independent", learner="exact", alpha=0).fit(X)
    expected = sum(np.log([(X[:, j] == v).mean() for v in X[:, j]]) for j in range(3))
    np.testing.assert_allclose(model.score_samples(X), expected, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("learner", ["exact", "pcd"])
def test_learning_from_incomplete_rows(learner):
    """Missing entries increase the error less than dropping the incomplete rows."""
    X = table(0, 4000)
    model = DiscreteMRF(learner=learner, alpha=1e-3, max_iter=40, random_state=0)
    model.fit(with_missing_entries(X, 0.3, 1))
    best = DiscreteMRF(learner="exact", alpha=1e-3).fit(X)
    assert best.score(X) - model.score(X) < 0.02


def test_sample_weight_is_repetition(seed):
    X = table(seed)
    weights = np.random.default_rng(seed + 1000).integers(0, 3, len(X))
    weighted = DiscreteMRF(learner="exact", alpha=0.01).fit(X, sample_weight=weights)
    repeated = DiscreteMRF(learner="exact", alpha=0.01).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.score_samples(X), repeated.score_samples(X), atol=1e-4)
    halved = DiscreteMRF(learner="exact", alpha=0.01).fit(X, sample_weight=weights / 2)
    np.testing.assert_allclose(weighted.score_samples(X), halved.score_samples(X), atol=1e-4)
    other = DiscreteMRF(learner="exact", alpha=0.01).fit(X)
    assert np.abs(weighted.score_samples(X) - other.score_samples(X)).max() > 1e-3


def test_initial_values_use_sample_weights(seed):
    """Initial columns are independent, with the weighted frequencies of the rows."""
    X = table(seed)
    weights = np.random.default_rng(seed + 1000).integers(0, 3, len(X))
    given = {"learner": "pcd", "alpha": 0.1, "learning_rate": 1e-12, "max_iter": 1}
    still = DiscreteMRF(**given, random_state=seed)
    weighted = clone(still).fit(X, sample_weight=weights)
    repeated = clone(still).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.score_samples(X), repeated.score_samples(X), atol=1e-6)
    assert np.abs(still.fit(X).score_samples(X) - weighted.score_samples(X)).max() > 1e-3


@pytest.mark.parametrize("scale", [1e-6, 1e-2])
def test_small_weights_count_like_larger_ones(scale, seed):
    """The sum of the weights can be 1: the default model depends only on their ratios."""
    X = table(seed)
    weights = np.random.default_rng(seed + 1000).uniform(0.1, 0.5, len(X))
    models = [DiscreteMRF().fit(X, sample_weight=w) for w in (weights, scale * weights)]
    np.testing.assert_allclose(models[1].score_samples(X), models[0].score_samples(X), atol=1e-3)


def test_from_energy():
    ising = make_ising("grid", n_variables=9, coupling=0.4)
    model = DiscreteMRF.from_energy(ising)
    states, log_f = enumerate_states(ising)
    np.testing.assert_allclose(
        model.score_samples(ising.decode(states)), log_f - np.logaddexp.reduce(log_f), atol=1e-10
    )
    assert set(np.unique(model.sample(20, random_state=0))) <= {-1.0, 1.0}
    named = DiscreteMRF.from_energy(FactorGraph([2], [(0,)], [[0.0, 1.0]]), [["no", "yes"]])
    assert named.predict(np.array([[None]], dtype=object)).tolist() == [["yes"]]
    with pytest.raises(ValueError, match="Variable 0 has 2 states, but 3 categories are given"):
        DiscreteMRF.from_energy(FactorGraph([2], [(0,)], [[0.0, 1.0]]), [[1, 2, 3]])


def test_tied_cliques_share_a_table():
    X = table(0)[:, :2]
    model = DiscreteMRF([(0,), (1,), (0, 1)], "exact", tie=[[0, 1]]).fit(X)
    np.testing.assert_array_equal(model.log_potentials_[0], model.log_potentials_[1])
    assert model.energy_.layout.n_parameters == 12


def frame():
    a, b, c = table(0).T
    return pd.DataFrame(
        {
            "letter": pd.Categorical(np.array(["x", "y", "z"])[a]),
            "count": pd.array(b, dtype="Int64"),
            "vote": pd.array(np.array(["no", "yes"])[c], dtype="string"),
        }
    )


def test_pandas():
    X = frame()
    X.loc[3, "count"], X.loc[5, "letter"], X.loc[7, "vote"] = pd.NA, np.nan, pd.NA
    model = DiscreteMRF([("letter", "count")], "exact", alpha=1e-3).fit(X)
    assert model.feature_names_in_.tolist() == ["letter", "count", "vote"]
    assert model.cliques_ == ((0, 1), (2,))
    assert [len(c) for c in model.categories_] == [3, 3, 2]
    filled = model.predict(X)
    assert filled.dtypes.equals(X.dtypes)
    pd.testing.assert_series_equal(filled.loc[0], X.loc[0])
    assert filled.loc[3, "count"] in (0, 1, 2)
    assert filled.loc[5, "letter"] in ("x", "y", "z")
    assert np.isfinite(model.score_samples(X)).all()
    with pytest.raises(ValueError, match="feature names"):
        model.score(X[["vote", "letter", "count"]])


def test_polars():
    a, b, c = table(0).T
    count = [None if v == 2 else int(v) for v in b]
    X = pl.DataFrame(
        {"letter": np.array(["x", "y", "z"])[a], "count": count, "vote": c.astype(bool)}
    ).with_columns(pl.col("letter").cast(pl.Categorical))
    model = DiscreteMRF(learner="exact", alpha=1e-3).fit(X)
    assert len(model.categories_[1]) == 2
    assert np.isfinite(model.score_samples(X)).all()


def test_mixed_object_array():
    X = np.array([[1, "a", True], [2, "b", False], [1, None, True], [2, "b", None]], dtype=object)
    model = DiscreteMRF(learner="exact", alpha=0.1).fit(X)
    assert [c.tolist() for c in model.categories_] == [[1, 2], ["a", "b"], [False, True]]
    assert model.predict(X)[2].tolist() == [1, "a", True]


@pytest.mark.parametrize("order", ["C", "F", "strided", "read-only", "memmap"])
def test_memory_layouts(order, tmp_path):
    X = table(0)
    reference = DiscreteMRF(alpha=0.1, max_iter=5, random_state=0).fit(X)
    if order == "F":
        Y = np.asfortranarray(X)
    elif order == "strided":
        Y = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]
    elif order == "memmap":
        np.save(tmp_path / "x.npy", X)
        Y = np.load(tmp_path / "x.npy", mmap_mode="r")
    else:
        Y = X.copy()
        Y.flags.writeable = order == "C"
    model = DiscreteMRF(alpha=0.1, max_iter=5, random_state=0).fit(Y)
    np.testing.assert_array_equal(model.energy_.flat, reference.energy_.flat)
    np.testing.assert_array_equal(model.score_samples(Y), reference.score_samples(X))


def test_grid_search():
    X = table(0)
    search = GridSearchCV(
        DiscreteMRF(max_iter=20, random_state=0),
        {"learner": ["pcd", "exact", CD(2)], "alpha": [0.0, 10.0]},
        cv=3,
    ).fit(X)
    assert search.best_params_["alpha"] == 0.0
    nested = GridSearchCV(
        DiscreteMRF(learner=PCD(), alpha=0.0, max_iter=5, random_state=0),
        {"learner__n_chains": [64, 80]},
        cv=3,
    ).fit(X)
    assert nested.best_estimator_.learner.n_chains in (64, 80)
    alone = GridSearchCV(DiscreteMRF(max_iter=5, random_state=0), {"alpha": [0.0, 0.1]}, cv=2)
    parallel = clone(alone).set_params(n_jobs=2)
    alone.fit(X)
    with parallel_config("threading"):  # test_clusters.py has processes
        parallel.fit(X)
    np.testing.assert_array_equal(
        parallel.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"]
    )


def test_pipeline():
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[:, 1] += X[:, 0]
    bins = KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf")
    model = make_pipeline(bins, DiscreteMRF(learner="exact", alpha=0.01))
    alone = make_pipeline(bins, DiscreteMRF("independent", "exact", alpha=0.01))
    assert cross_val_score(model, X).mean() > cross_val_score(alone, X).mean() + 0.1


def test_jobs_do_not_matter():
    X = table(0)
    one, other = (
        DiscreteMRF(learner="pcd", max_iter=10, random_state=0, n_jobs=n).fit(X) for n in (None, 3)
    )
    np.testing.assert_array_equal(other.energy_.flat, one.energy_.flat)


def test_warm_start_resumes_bit_for_bit():
    X = with_missing_entries(table(0), 0.0, 0)
    first = DiscreteMRF(learner="pcd", alpha=0.0, max_iter=7, random_state=0, warm_start=True).fit(
        X
    )
    first = pickle.loads(pickle.dumps(first)).fit(X)
    whole = DiscreteMRF(learner="pcd", alpha=0.0, max_iter=14, random_state=0).fit(X)
    np.testing.assert_array_equal(first.energy_.flat, whole.energy_.flat)
    assert first.n_iter_ == whole.n_iter_ == 14


def test_partial_fit():
    X = table(0)
    model = DiscreteMRF(batch_size=10, random_state=0, categories=[[0, 1, 2], [0, 1, 2], [0, 1]])
    for k in range(60):
        rows = slice((k % 3) * 100, (k % 3 + 1) * 100)
        model.partial_fit(X[rows])
    assert model.n_iter_ == 60
    assert model.score(X) > DiscreteMRF(learner="exact").fit(X).score(X) - 0.05
    with pytest.raises(ValueError, match="Column 0 has the category 7, which was not seen in fit"):
        model.partial_fit(np.array([[7, 0, 0]]))


def test_early_stopping():
    X = table(0)
    model = DiscreteMRF(
        learner="pcd", alpha=0.0, early_stopping=True, max_iter=500, random_state=0
    ).fit(X)
    scores = model.history_["validation_score"]
    assert len(scores) == model.n_iter_ < 500
    assert len(scores) - 1 - int(np.argmax(scores)) == 5


def test_callbacks():
    X = table(0)
    monitor, stopping = ScoreMonitor(), EarlyStopping(X[:50], patience=2, min_delta=10.0)
    model = DiscreteMRF(learner="pcd", alpha=0.0, max_iter=30, random_state=0).set_callbacks(
        monitor, stopping, ProgressBar()
    )
    model.fit(X)
    assert model.n_iter_ == 3
    assert len(monitor.scores) == 3
    assert monitor.scores[-1] == pytest.approx(model.score(X))
    custom = ScoreMonitor(scoring=lambda m, rows: m.log_partition_ + len(rows))
    DiscreteMRF(learner="pcd", alpha=0.0, max_iter=2, random_state=0).set_callbacks(custom).fit(X)
    assert len(custom.scores) == 2
    search = GridSearchCV(
        DiscreteMRF(learner="pcd", alpha=0.0, max_iter=2, random_state=0),
        {"alpha": [0.0, 0.1]},
        cv=2,
    )
    search.set_callbacks(ProgressBar()).fit(X)


class Interrupt:
    """Callback that raises KeyboardInterrupt after the second epoch."""

    def setup(self, estimator, context):
        self.epochs = 0

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.epochs += 1
        if self.epochs == 2:
            raise KeyboardInterrupt


def test_interrupted_fit_gives_a_usable_model():
    X = table(0)
    model = DiscreteMRF(learner="pcd", alpha=0.0, max_iter=30, random_state=0).set_callbacks(
        Interrupt()
    )
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model.fit(X)
    assert model.n_iter_ == 2
    assert np.isfinite(model.score(X))


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "momentum", "lbfgs"])
@pytest.mark.parametrize("rate", ["adaptive", "constant", "step", "inverse", 0.1])
def test_optimizers_and_rates_increase_the_likelihood(optimizer, rate):
    X = table(0)
    alone = DiscreteMRF("independent", "exact", alpha=0.0).fit(X).score(X)
    given = {"alpha": 0.001, "max_iter": 100, "random_state": 0}
    model = DiscreteMRF(learner="exact", optimizer=optimizer, learning_rate=rate, **given)
    assert model.fit(X).score(X) > alone + 0.3


@pytest.mark.parametrize("penalty", ["l1", "group-l1"])
@pytest.mark.parametrize("learner", ["exact", "pcd"])
def test_sparse_penalties_find_the_dependent_pair(penalty, learner):
    model = DiscreteMRF(learner=learner, penalty=penalty, alpha=0.05, random_state=0)
    model.set_params(max_iter=200).fit(table(0))
    norms = [np.abs(t).sum() for t in model.log_potentials_[3:]]
    assert norms[0] > 1.0
    assert norms[1:] == [0.0, 0.0]


def test_networkx_cliques_and_names():
    model = DiscreteMRF(nx.path_graph(3), "exact", alpha=0.1).fit(table(0))
    assert model.cliques_ == ((0,), (1,), (2,), (0, 1), (1, 2))
    named = nx.Graph([("letter", "vote")])
    assert DiscreteMRF(named, "exact", alpha=0.1).fit(frame()).cliques_[-1] == (0, 2)


def test_constant_column_and_one_row():
    X = np.column_stack([table(0), np.zeros(300)])
    model = DiscreteMRF(learner="exact", alpha=1e-3).fit(X)
    assert len(model.categories_[3]) == 1
    assert model.score(X) == pytest.approx(
        DiscreteMRF(learner="exact", alpha=1e-3).fit(X[:, :3]).score(X[:, :3]), abs=1e-4
    )
    one = DiscreteMRF(random_state=0).fit(X[:1])
    assert one.score(X[:1]) == pytest.approx(0.0, abs=1e-12)


def test_warns_of_an_unbounded_maximum():
    X = np.array([[0, 0], [1, 1]] * 10)
    with pytest.warns(UserWarning, match="2 joint states of cliques never occur"):
        model = DiscreteMRF(learner="exact", alpha=0).fit(X)
    assert np.isfinite(model.energy_.flat).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DiscreteMRF(learner="exact", alpha=0.1).fit(X)


def test_log_partition_of_a_wide_model():
    """Without exact inference, the interval of log Z contains the exact value."""
    X = (np.random.default_rng(0).random((200, 12)) < 0.4).astype(int)
    X[:, 1:] |= X[:, :-1]
    wide = DiscreteMRF(learner="cd", alpha=0.1, max_iter=30, random_state=0, max_bytes=1e5).fit(X)
    narrow = DiscreteMRF.from_energy(wide.energy_)
    assert (wide.log_partition_method_, narrow.log_partition_method_) == ("ais", "exact")
    lower, upper = wide.log_partition_interval_
    assert lower - 0.1 <= narrow.log_partition_ <= upper + 0.1
    assert 0 < upper - lower < 1
    assert wide.log_partition_ == pickle.loads(pickle.dumps(wide)).log_partition_


def test_unfitted_and_clone():
    model = DiscreteMRF(learner=PCD(n_chains=10))
    for query in (model.score_samples, model.predict, model.marginals):
        with pytest.raises(NotFittedError):
            query(table(0))
    with pytest.raises(NotFittedError):
        model.sample(1)
    assert clone(model).learner.n_chains == 10
    assert "DiscreteMRF" in model._repr_html_()
    tags = DiscreteMRF(learner=Exact()).__sklearn_tags__()
    assert tags.input_tags.categorical
    assert tags.input_tags.allow_nan


@pytest.mark.parametrize("name", ["chain", "cycle", "grid", "complete"])
def test_learns_the_models_of_the_zoo(name):
    """The learned model has a small Kullback-Leibler divergence from the true one."""
    energy = ZOO[name](0)
    truth = DiscreteMRF.from_energy(energy)
    X = truth.sample(20_000, random_state=0)
    model = DiscreteMRF(list(energy.cliques), random_state=0).fit(X)
    fresh = truth.sample(5_000, random_state=1)
    loss = truth.score_samples(fresh) - model.score_samples(fresh)
    assert loss.mean() < energy.layout.n_parameters / 20_000 + 5 * loss.std() / np.sqrt(5_000)


def test_strengths_are_checked_with_all_rows(monkeypatch, seed):
    """A model of pseudo-likelihood that is worse than the reference on held-out rows is rejected.

    It is trained on all rows of the fold before, although its penalty was chosen with fewer rows.
    """
    n_rows, lengths = [], set()

    def fit_strength(learner, fold, start, settings, *args):
        n_rows.append(len(fold.train.X))
        lengths.add((settings.min_gain, settings.max_iter))
        energy = regularization.fit_strength(learner, fold, start, settings, *args)
        return energy.with_theta({k: factor * v for k, v in energy.theta.items()})

    ising = DiscreteMRF.from_energy(make_ising("grid", n_variables=16, coupling=0.4))
    X = ising.sample(4000, random_state=seed)
    monkeypatch.setattr(_refinement, "is_possible", lambda *_: False)
    monkeypatch.setattr(_automatic, "MAX_EXACT_ENTRIES", 1)
    monkeypatch.setattr(_automatic, "MAX_PATH_WORK", 1.0)
    monkeypatch.setattr(_automatic, "fit_strength", fit_strength)
    for factor in (1.0, 5.0):
        n_rows.clear()
        model = DiscreteMRF("pairwise", random_state=0).fit(X)
        assert (model.alpha_ < np.inf) == (factor == 1.0)
        assert min(n_rows) > 2 * regularization.MIN_ROWS_TO_SPLIT * 0.75
    assert lengths == {(_automatic.FINAL_GAIN, model.max_iter)}  # as in the final fit


def test_refinement_starts_at_the_reference_if_it_is_better(monkeypatch, seed):
    truth = DiscreteMRF.from_energy(make_ising("grid", n_variables=16, coupling=0.4))
    train, test = truth.sample(2000, random_state=seed), truth.sample(500, random_state=seed + 50)
    good = DiscreteMRF("pairwise", learner="pseudo-likelihood").fit(train)
    reference, rows = good.reference_, [Batch(good._encode(X)) for X in (train, test)]
    fold, strength = regularization.Fold(*rows, reference), good.alpha_ * len(train)
    noise = np.random.default_rng(seed).normal(0.0, 20.0, len(reference.flat))
    far = reference.with_theta({"log_potentials": reference.flat + noise})
    monkeypatch.setattr(_refinement, "N_UPDATES", 50)
    fits = regularization.PathFits([np.inf, strength], [], [reference, far])
    paths = [regularization.ChosenPath([fold], fits, 1)]
    refined = _automatic._refine(paths, 0, reference, TrainingParameters.of(DiscreteMRF()))[1]
    energies, codes = (refined.energy, reference), fold.test.X
    scores = [DiscreteMRF.from_energy(e).score(codes) for e in energies]
    assert scores[0] > scores[1] + 0.3
    state = LoopState(far, {}, 0, None, None, None, np.random.default_rng(seed), converged=True)
    kept = [reference, fold.train, False]
    with pytest.warns(ConvergenceWarning, match="states far from the rows became probable"):
        after = _refinement.keep_start(reference, *kept, state)
    assert after.energy is reference
    assert not after.converged
    better = replace(state, energy=good.energy_)
    assert _refinement.keep_start(reference, *kept, better) is better


def common_cause_rows(rng, n_rows):
    """Return 15 binary columns that all depend weakly on the same hidden variable."""
    cause = rng.random(n_rows) < 0.2
    return (rng.random((n_rows, 15)) < expit(1.5 * cause - 2.5)[:, None]).astype(int)


@cache
def common_cause_problem(seed, k):
    """Return training rows, test rows, and the best score of several strengths around zero."""
    rng = np.random.default_rng([seed, k])
    train, test = common_cause_rows(rng, 500), common_cause_rows(rng, 4000)
    models = (BoltzmannMachine("exact", states=(0, 1), alpha=a) for a in (0.01, 0.02, 0.05))
    return train, test, max(model.fit(train).score(test) for model in models)


@pytest.mark.long
@pytest.mark.parametrize("model", [DiscreteMRF(), BoltzmannMachine(states=(0, 1), random_state=0)])
def test_strength_of_a_weak_common_cause(model, seed):
    """The choice by few rows is nearly as good as the best of several strengths around zero."""
    problems = [common_cause_problem(seed, k) for k in range(4)]
    losses = [best - model.fit(train).score(test) for train, test, best in problems]
    assert np.mean(losses) < 0.012


def scored_path(scores, *, interrupted=False):
    """Return a path around a reference model, from the scores of four held-out rows."""
    folds = [regularization.Fold(None, Batch(np.zeros((4, 1))), None)]
    scores = [np.asarray(s, dtype=float) for s in scores]
    fits = regularization.PathFits([np.inf, 10.0, 1.0], scores, [0, 1, 2], interrupted)
    return regularization.choose_strength(fits, folds)


def test_strength_with_a_small_but_certain_gain():
    """A strength with a larger but uncertain gain is not chosen, nor is the reference model."""
    zero, certain, uncertain = np.zeros(4), np.full(4, 0.1), np.array([9.0, -9.0, 9.0, -8.0])
    assert scored_path([zero, certain, uncertain]).choice == 1
    assert scored_path([zero, certain, certain + 0.1]).choice == 2
    assert scored_path([zero, uncertain - 0.2, -certain]).choice == 0


def test_reference_model_of_the_best_path():
    """A later path must have clearly better scores. Ctrl-C in any path is kept."""
    first, better = scored_path(np.eye(3, 4)), scored_path(np.eye(3, 4) + 0.1)
    equal = scored_path(np.eye(3, 4) + [0.1, -0.1, 0.1, -0.05])
    assert regularization.choose_path([first, better]) == (1, better)
    assert regularization.choose_path([first, equal]) == (0, first)
    ended = scored_path(np.eye(3, 4), interrupted=True)
    index, path = regularization.choose_path([first, ended])
    assert index == 0
    assert path.fits.interrupted


def test_folds_of_exact_comparisons():
    """Each row is held out once; with many rows there is one split."""
    data = Batch(np.arange(54)[:, None])
    splits = _weight_decay._folds(data, np.random.default_rng(0))
    held_out = np.concatenate([test.X for _, test in splits])
    np.testing.assert_array_equal(np.sort(held_out, axis=0), data.X)
    for train, test in splits:
        assert not np.isin(train.X, test.X).any()
        assert len(train.X) + len(test.X) == 54
    single = _weight_decay.split_rows(data, np.random.default_rng(0))[1]
    np.testing.assert_array_equal(np.sort(splits[0][1].X, axis=0), np.sort(single.X, axis=0))
    many = Batch(np.zeros((_weight_decay.MAX_CROSS_VALIDATED, 1)))
    assert len(_weight_decay._folds(many, np.random.default_rng(0))) == 1


def test_masked_rows_of_other_data_types():
    """Masked entries are missing values, as in arrays with data types of numpy."""
    bfloat16 = pytest.importorskip("jax.numpy").bfloat16
    mask = np.random.default_rng(0).random((300, 3)) < 0.2
    plain, other = (table(0).astype(t) for t in (np.float32, bfloat16))
    missing = np.where(mask, np.nan, plain)
    model = DiscreteMRF(alpha=0.1, max_iter=5, random_state=0)
    found = clone(model).fit(np.ma.MaskedArray(other, mask)).score_samples(missing)
    np.testing.assert_allclose(found, model.fit(missing).score_samples(missing), atol=1e-6)
