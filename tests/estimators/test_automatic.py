"""Tests of the automatic defaults of DiscreteMRF, and of estimators on real data."""

import pickle
import resource
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from zoo import brute

from skmrf import RBM, BoltzmannMachine, DiscreteMRF
from skmrf._utils.rows import Batch
from skmrf.datasets import fetch_density_benchmark, make_ising
from skmrf.energies import FactorGraph
from skmrf.estimators import _automatic, _refinement, _weight_decay
from skmrf.inference import sample
from skmrf.learners import CD, PCD, Exact, PseudoLikelihood
from skmrf.likelihood import ais
from skmrf.samplers.gibbs_queries import draw
from skmrf.structure.chow_liu import fit_tree
from skmrf.training import held_out, regularization
from skmrf.training.penalties import make_penalty


def independent_rows(rng, n_rows):
    return (rng.random((n_rows, 6)) < [0.5, 0.2, 0.9, 0.4, 0.5, 0.03]).astype(int)


def constant_and_equal_columns(rng, n_rows):
    X = independent_rows(rng, n_rows)
    X[:, 1], X[:, 2] = X[:, 0], 0
    return X


def chain_rows(rng, n_rows):
    energy = make_ising("chain", n_variables=6, coupling=0.8)
    return sample(energy, n_rows, random_state=rng)


def complete_graph_rows(rng, n_rows):
    coupling = np.random.default_rng(5).normal(0.0, 0.5, 15)
    energy = make_ising("complete", n_variables=6, coupling=coupling)
    return sample(energy, n_rows, random_state=rng)


def category_rows(rng, n_rows):
    X = rng.integers(0, 4, (n_rows, 5))
    X[:, 1] = (X[:, 0] + (rng.random(n_rows) < 0.2)) % 4
    X[:, 2] = (X[:, 0] + X[:, 1] + (rng.random(n_rows) < 0.3)) % 4
    return X


ROWS = [
    independent_rows,
    constant_and_equal_columns,
    chain_rows,
    complete_graph_rows,
    category_rows,
]


def baselines(model, train, test):
    """Return the log-likelihoods of test rows of independent columns and of a Chow-Liu tree."""
    n_states = [len(c) for c in model.categories_]
    tree = fit_tree(model._encode(train), n_states)
    codes = model._encode(test)
    return [tree.prune(np.inf).log_potential(codes), tree.graph.log_potential(codes)]


@pytest.mark.parametrize(("n_rows", "n_sets"), [(20, 5), (200, 2)])
@pytest.mark.parametrize("rows", ROWS)
def test_defaults_are_not_below_baselines(rows, n_rows, n_sets, seed):
    """Compare means over training sets: a choice from 20 rows can be wrong."""
    rng = np.random.default_rng(seed)
    gains = []
    for _ in range(n_sets):
        train, test = rows(rng, n_rows), rows(rng, 1000)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = DiscreteMRF().fit(train)
        seen = [np.isin(test[:, j], c) for j, c in enumerate(model.categories_)]
        test = test[np.all(seen, axis=0)]
        assert model.converged_
        assert model.n_iter_ >= 1
        gains.append([model.score(test) - b.mean() for b in baselines(model, train, test)])
    mean, error = np.mean(gains, axis=0), np.std(gains, axis=0) / np.sqrt(n_sets)
    assert (mean > -2 * error - 0.05).all()


def test_loops_are_learned(seed):
    """The default finds interactions beyond a tree, and the independent model fails this test."""
    rng = np.random.default_rng(seed)
    train, test = complete_graph_rows(rng, 1000), complete_graph_rows(rng, 2000)
    model = DiscreteMRF().fit(train)
    independent, tree = baselines(model, train, test)
    assert np.isfinite(model.alpha_)
    assert model.score(test) > tree.mean() + 0.05
    assert independent.mean() < tree.mean()


def test_learner_and_path(seed):
    rng = np.random.default_rng(seed)
    train = complete_graph_rows(rng, 500)
    model = DiscreteMRF().fit(train)
    path = model.regularization_path_
    assert isinstance(model.learner_, Exact)
    assert path.criterion == "log-likelihood"
    assert path.alphas[0] == np.inf
    assert (np.diff(path.alphas) < 0).all()
    assert model.alpha_ in path.alphas
    assert path.scores.shape == path.std_errors.shape == path.alphas.shape
    assert path.std_errors[0] == 0
    lower = path.scores - 0.5 * path.std_errors
    assert lower[path.alphas == model.alpha_] == lower.max()
    assert pickle.loads(pickle.dumps(model)).alpha_ == model.alpha_


@pytest.mark.long
def test_pseudo_likelihood_of_large_models(seed):
    energy = make_ising("grid", n_variables=36, coupling=0.3)
    rng = np.random.default_rng(seed)
    train, test = (sample(energy, n, random_state=rng) for n in (1000, 1000))
    model = DiscreteMRF().fit(train)
    assert isinstance(model.learner_, PseudoLikelihood | PCD)
    assert model.regularization_path_.criterion == "pseudo-log-likelihood"
    _, tree = baselines(model, train, test)
    assert model.score(test) > tree.mean() + 0.1


def clustered_rows(rng, n_rows):
    """Return rows of noisy copies of eight patterns, which pairs of columns describe only partly.

    Pseudo-likelihood and likelihood have different maxima.
    """
    patterns = np.random.default_rng(1).random((8, 20)) < 0.4
    return (patterns[rng.integers(8, size=n_rows)] ^ (rng.random((n_rows, 20)) < 0.08)).astype(int)


@pytest.mark.long
@pytest.mark.parametrize("is_incomplete", [False, True])
def test_refinement_by_persistent_chains(is_incomplete, seed):
    rng = np.random.default_rng(seed)
    train, test = clustered_rows(rng, 600).astype(float), clustered_rows(rng, 1000)
    if is_incomplete:
        train[rng.random(train.shape) < 0.1] = np.nan
    model = DiscreteMRF(random_state=0).fit(train)
    first = DiscreteMRF(learner="pseudo-likelihood", random_state=0).fit(train)
    assert isinstance(model.learner_, PCD)
    assert model.converged_
    assert model.history_["n_updates"][-1] == 400
    assert model.history_["learning_rate"][-1] < 0.01
    assert model.score(test) > first.score(test) + 0.05


@pytest.mark.long
def test_a_dense_model_of_many_columns_is_not_shrunk_towards_a_tree(seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0.0, 1.5, (1600, 1)) + rng.normal(-1.0, 1.0, 75)  # a common factor
    X = 1 * (rng.logistic(size=(1600, 75)) < logits)
    model = DiscreteMRF(learner="pseudo-likelihood", max_iter=1).fit(X)
    assert 0.0 < model.alpha_ < np.inf
    assert all(np.ptp(t) < 1e-9 for t in model.reference_.log_potentials if t.ndim == 2)


@pytest.mark.parametrize(
    ("gains", "best"),  # in standard errors, by log10 of the strength
    [
        ({0: 3, -1: 1, -0.5: 1, 0.5: 1}, 0),
        ({0: -1.5, -1: -5, 0.5: -3}, 0),  # a tie with pseudo-likelihood
        ({0: -4, 0.5: 1, 1: 3}, 1),
        # The search starts anew at the reference model, 160 standard errors below.
        ({0: -4, 0.5: -3, 1.5: -200}, None),
        ({0: -4, 0.5: -3, 1.5: -50, 1: -60}, None),
        ({0: -4, 0.5: -3, 1.5: -50, 1: 5}, 1),
        ({0: 3, -1: 9, -2: 15}, -2),
        ({0: 3, -1: 2.5, -0.5: 5}, -0.5),
        ({0: 3, -1: 2, -0.5: 2, 0.5: 5, 1: 4}, 0.5),
    ],
)
def test_search_for_the_strength_of_a_refinement(gains, best, monkeypatch):
    compared, n, log_z = [], 64, _refinement.QuickLogPartition(0.0, 0.0, 0.0)

    def refine(_, __, ___, k):  # scores have errors that do not depend on those of other models
        row_scores = gains.get(k, -50) / np.sqrt(n) + (-1.0) ** (np.arange(n) >> len(compared))
        compared.append(k)
        return SimpleNamespace(log_potential=lambda _: row_scores)

    monkeypatch.setattr(_refinement, "_refine", refine)
    monkeypatch.setattr(_refinement, "quick_log_partition", lambda *_: log_z)
    first, worst = (FactorGraph([2], [(0,)], [[c, -c]]) for c in (0.0, -10.0))
    fold = regularization.Fold(None, Batch(np.zeros((n, 1), dtype=int)), worst)
    search = _refinement.StrengthSearch(first, 1.0, lambda s: round(np.log10(s), 9), fold, None)
    other = _refinement.StrengthSearch(worst, 1.0, lambda _: -9, fold, None)
    assert _refinement.choose([other, search])[0] == 1
    assert set(compared) == {-9, *gains}
    assert (search.best and round(np.log10(search.best.strength), 9)) == best


@pytest.mark.long
def test_refinement_is_not_used_with_other_parameters(seed):
    train = clustered_rows(np.random.default_rng(seed), 200)
    for given in ({"optimizer": "lbfgs"}, {"early_stopping": True}, {"alpha": 0.01}):
        assert isinstance(DiscreteMRF(**given).fit(train).learner_, PseudoLikelihood)


@pytest.mark.long
def test_refinement_that_is_cut_short_warns(seed):
    train = clustered_rows(np.random.default_rng(seed), 600)
    with pytest.warns(ConvergenceWarning, match="had not converged after 50 epochs"):
        model = DiscreteMRF(max_iter=50).fit(train)
    assert isinstance(model.learner_, PCD)
    assert not model.converged_


@pytest.mark.long
def test_refinement_that_diverges_is_not_kept(monkeypatch, seed):
    """Held-out rows reject a refinement with steps that are much too long."""
    monkeypatch.setattr(_refinement, "RATE", 5.0)
    train = clustered_rows(np.random.default_rng(seed), 600)
    assert isinstance(DiscreteMRF().fit(train).learner_, PseudoLikelihood)


def test_given_learners_and_strengths(seed):
    train = chain_rows(np.random.default_rng(seed), 100)
    assert isinstance(DiscreteMRF(learner=CD(), max_iter=5).fit(train).learner_, CD)
    model = DiscreteMRF(alpha=0.1).fit(train)
    assert model.alpha_ == 0.1
    assert model.reference_ is None
    assert model.regularization_path_ is None
    assert isinstance(model.learner_, Exact)
    with pytest.raises(ValueError, match='alpha must be a number or "auto"'):
        DiscreteMRF(alpha="best").fit(train)


@pytest.mark.long
@pytest.mark.parametrize("penalty", ["l1", "group-l1"])
def test_strength_of_sparse_penalties(penalty, seed):
    rng = np.random.default_rng(seed)
    train, test = complete_graph_rows(rng, 300), complete_graph_rows(rng, 1000)
    model = DiscreteMRF(penalty=penalty).fit(train)
    independent, _ = baselines(model, train, test)
    assert 0 < model.alpha_ < np.inf
    assert model.score(test) > independent.mean() + 0.1


def test_tied_tables(seed):
    train = chain_rows(np.random.default_rng(seed), 300)
    cliques = [(i, i + 1) for i in range(5)]
    model = DiscreteMRF(cliques, tie=[list(range(5))]).fit(train)
    tables = model.log_potentials_
    np.testing.assert_array_equal(tables[0], tables[4])
    assert model.score(train) > 6 * np.log(0.5)


@pytest.mark.long
def test_incomplete_rows(seed):
    """Missing entries cost little likelihood, with both learners."""
    rng = np.random.default_rng(seed)
    for energy, learner in (
        (make_ising("complete", n_variables=5, coupling=0.3), "auto"),
        (make_ising("grid", n_variables=9, coupling=0.4), "pseudo-likelihood"),
    ):
        train, test = (sample(energy, n, random_state=rng) for n in (400, 500))
        incomplete = np.where(rng.random(train.shape) < 0.15, np.nan, train)
        complete = DiscreteMRF(learner=learner).fit(train).score(test)
        score = DiscreteMRF(learner=learner).fit(incomplete).score(test)
        floor = train.shape[1] * np.log(0.5)
        assert score > complete - 0.2 * (complete - floor)


def test_partial_fit_and_continued_training(seed):
    rng = np.random.default_rng(seed)
    X = complete_graph_rows(rng, 400)
    model = DiscreteMRF(random_state=0)
    for start in range(0, 400, 100):
        model.partial_fit(X[start : start + 100])
    assert isinstance(model.learner_, PCD)
    assert model.alpha_ == pytest.approx(0.01)
    warm = DiscreteMRF(warm_start=True, random_state=0).fit(X)
    first = warm.alpha_, warm.score(X)
    warm.fit(X)
    assert warm.alpha_ == first[0]
    assert warm.score(X) == pytest.approx(first[1], abs=1e-2)
    independent = DiscreteMRF(warm_start=True, categories=[[0, 1]] * 6).fit(
        independent_rows(rng, 30)
    )
    assert independent.fit(independent_rows(rng, 30)).alpha_ > 0


def test_wide_tables_have_the_strongest_pairs(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    X = chain_rows(rng, 500)
    monkeypatch.setattr(_automatic, "MAX_PAIR_ENTRIES", 24)
    with pytest.warns(UserWarning, match="6 columns have 15 pairs"):
        model = DiscreteMRF().fit(X)
    pairs = [c for c in model.cliques_ if len(c) == 2]
    assert set(pairs) >= {(i, i + 1) for i in range(5)}
    assert len(pairs) <= 6


def test_long_fits_are_forecast(monkeypatch):
    X = np.random.default_rng(0).integers(0, 2, (50, 12))
    monkeypatch.setattr(regularization, "LONG_PATH", 0.0)
    with pytest.warns(UserWarning, match=r"takes up to about \d+ minutes.*use fewer columns"):
        DiscreteMRF("pairwise", learner="pseudo-likelihood").fit(X)


def test_compilation_is_no_part_of_the_forecast(monkeypatch):
    X = np.random.default_rng(0).integers(0, 2, (50, 4))
    seconds = iter([60.0, 0.0])
    monkeypatch.setattr(regularization, "_time_objective", lambda *_: next(seconds))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DiscreteMRF("pairwise", learner="pseudo-likelihood").fit(X)
    assert next(seconds, None) is None


def test_identifiers_are_named():
    X = pd.DataFrame({"group": np.arange(1200) % 3, "key": np.arange(1200)})
    with pytest.warns(UserWarning, match="Column 'key' has 1200 categories in 1200 rows.*ident"):
        DiscreteMRF("independent", learner="pseudo-likelihood", alpha=1.0, max_iter=1).fit(X)


def test_ctrl_c_while_alpha_is_chosen(monkeypatch, seed):
    calls = []
    score_all = regularization._score_all

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return score_all(*args)

    monkeypatch.setattr(regularization, "_score_all", interrupted)
    train = complete_graph_rows(np.random.default_rng(seed), 300)
    with pytest.warns(ConvergenceWarning, match="Interrupted while alpha was chosen"):
        model = DiscreteMRF().fit(train)
    assert len(model.regularization_path_.alphas) == 2
    assert not model.converged_
    assert np.isfinite(model.score(train))


@pytest.mark.long
def test_ctrl_c_on_the_path_starts_no_refinement(monkeypatch, seed):
    def interrupted(*_):
        raise KeyboardInterrupt

    def forbidden(*_):
        raise AssertionError("a refinement began after Ctrl-C")

    train = clustered_rows(np.random.default_rng(seed), 400)
    monkeypatch.setattr(_refinement, "_refine", interrupted)
    with pytest.warns(ConvergenceWarning, match="Interrupted while alpha was chosen"):
        model = DiscreteMRF().fit(train)
    assert not model.converged_
    assert model.score(train) > baselines(model, train, train)[1].mean() + 0.2
    monkeypatch.setattr(_refinement, "_refine", forbidden)
    monkeypatch.setattr(regularization, "_is_past_best", interrupted)
    with pytest.warns(ConvergenceWarning, match="Interrupted while alpha was chosen"):
        DiscreteMRF().fit(train)


def test_penalty_on_the_deviation_from_a_centre():
    theta, centre = {"t": np.array([1.0, 2.0, 3.0])}, {"t": np.array([1.0, 0.0, 0.0])}
    penalty = make_penalty("l2", 2.0, {"t": np.array([0, 0, -1])}, centre=centre)
    assert penalty.value(theta) == pytest.approx(0.5 * 2.0 * (4.0 + 0.01 * 9.0))
    np.testing.assert_allclose(penalty.gradient(theta)["t"], [0.0, 4.0, 0.06])


def test_held_out_rows_of_a_path():
    """Each row is held out once, and training rows are the others."""
    data = Batch(np.arange(30).reshape(10, 3))
    splits = regularization.split_into_folds(data, np.random.default_rng(0), one=False)
    held_out = np.concatenate([test.X for _, test in splits])
    np.testing.assert_array_equal(np.sort(held_out[:, 0]), data.X[:, 0])
    for train, test in splits:
        assert not np.isin(train.X, test.X).any()
        assert len(train.X) + len(test.X) == 10


@pytest.mark.parametrize(
    ("gains", "ends"),
    [
        ([0.01], False),  # a strong penalty changes little
        ([-1.0], False),
        ([1.0, 1.01], False),
        ([0.01, 1.0], False),
        ([1.0, 0.99, 1.01], True),
        ([1.0, 0.5], True),
    ],
)
def test_end_of_a_path(gains, ends):
    """A path ends after a clear loss, or after two strengths without a clear gain."""
    noise = np.array([0.1, -0.1, 0.1, -0.1])  # the standard error of a gain is about .05
    scores = [np.zeros(4)] + [g + (k + 1) * noise for k, g in enumerate(gains)]
    assert regularization._is_past_best(scores, np.full(4, 0.25)) == ends


# Real data ---------------------------------------------------------------------------------------


pytestmark = pytest.mark.filterwarnings("ignore:.*never occur in the data.*")
MAXIMUM_LIKELIHOOD = {"nltcs": -6.0284, "msnbc": -6.4036}


@pytest.fixture
def density(data_folder):
    folder = data_folder("density20")
    return lambda name: fetch_density_benchmark(name, data_home=folder, download_if_missing=False)


@pytest.mark.parametrize("name", ["nltcs", pytest.param("msnbc", marks=pytest.mark.slow)])
def test_exact_learning_reaches_maximum_likelihood(density, name):
    data = density(name)
    model = DiscreteMRF(learner="exact").fit(data.train)
    assert model.converged_
    assert model.score(data.test) == pytest.approx(MAXIMUM_LIKELIHOOD[name], abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAXIMUM_LIKELIHOOD)
@pytest.mark.parametrize("learner", ["pcd", CD(n_sweeps=10)], ids=["pcd", "cd-10"])
def test_sampling_learners_are_near_maximum_likelihood(density, name, learner, seed):
    data = density(name)
    model = DiscreteMRF(learner=learner, random_state=seed).fit(data.train)
    assert model.converged_
    assert model.score(data.test) == pytest.approx(MAXIMUM_LIKELIHOOD[name], abs=0.02)


def test_missing_entries_against_brute_force(density):
    data = density("nltcs")
    columns = [0, 2, 3, 7, 8, 11, 15]
    model = DiscreteMRF(learner="exact").fit(data.train[:, columns])
    X = data.test[:40, columns].astype(float)
    X[np.random.default_rng(0).random(X.shape) < 0.4] = np.nan
    expected = [brute(model, row)[0] for row in X]
    np.testing.assert_allclose(model.score_samples(X), expected, atol=1e-8)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_house_votes(data_folder):
    """The table has missing votes, a party column and column names."""
    X = pd.read_csv(data_folder("votes") / "house_votes_84.csv.gz", na_values="?")
    model = DiscreteMRF(alpha=0.01, max_iter=200, random_state=0).fit(X)
    party = X.columns[-1] if "democrat" in set(X.iloc[:, -1]) else X.columns[0]
    blind = X.copy()
    blind[party] = None
    known = X[party].notna()
    accuracy = (model.predict(blind)[party] == X[party])[known].mean()
    assert accuracy > 0.93
    assert np.isfinite(model.score(X))


@pytest.mark.slow
def test_a_million_rows_in_bounded_memory(density):
    rows = density("msnbc").train
    X = np.tile(rows, (4, 1))[:1_000_000]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = DiscreteMRF(random_state=0).fit(X)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < 16 * X.nbytes  # codes, their columns, folds, and temporary arrays
    assert model.score(density("msnbc").test) == pytest.approx(-6.4036, abs=0.02)


@pytest.mark.slow
def test_five_hundred_variables():
    truth = make_ising(
        "erdos-renyi", n_variables=500, degree=8.0, coupling=0.15, mixed_signs=True, random_state=0
    )
    pairs = np.argwhere(np.triu(truth.coupling))
    X = draw(truth, 5000, np.random.default_rng(0), n_sweeps=200)
    model = DiscreteMRF([tuple(p) for p in pairs.tolist()], random_state=0).fit(X)
    tables = [t for c, t in zip(model.cliques_, model.log_potentials_, strict=True) if len(c) == 2]
    learned = np.array([(t[0, 0] + t[1, 1] - t[0, 1] - t[1, 0]) / 4 for t in tables])
    assert model.converged_
    assert np.abs(learned - truth.coupling[tuple(pairs.T)]).mean() < 0.025


# Starts of reverse annealing chains ---------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kind", ["BoltzmannMachine", "DiscreteMRF", "RBM"])
def test_reverse_chains_of_log_partition_start_at_training_rows(kind, seed):
    """Check that the interval of log Z is that of annealing with reverse chains from the data."""
    rng = np.random.default_rng(seed)
    X = (rng.random((200, 12)) < rng.choice([0.2, 0.8], size=(200, 1))).astype(int)
    given = {"learner": "pcd", "alpha": 0.1, "max_iter": 3, "random_state": seed, "max_bytes": 2e4}
    model = {
        "BoltzmannMachine": BoltzmannMachine(states=(0, 1), **given),
        "DiscreteMRF": DiscreteMRF(**given),
        "RBM": RBM(16, **given),
    }[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = model.fit(X).log_partition_interval_
        target = max(0.02, np.std(model.energy_.log_marginal(X)) / np.sqrt(200))
        options = {"target_width": float(target), "random_state": model._seed}
        chains = ais(model.energy_, start=model._starts, **options)
        others = ais(model.energy_, **options)
    assert model.log_partition_method_ == "ais"
    assert found == (chains.lower, chains.upper)
    assert found != (others.lower, others.upper)
    assert sorted(map(tuple, model._starts)) == sorted(map(tuple, X))


def test_no_complete_row_to_start_at(seed):
    X = np.random.default_rng(seed).integers(0, 2, size=(60, 8)).astype(float)
    X[np.arange(60), np.arange(60) % 8] = np.nan
    model = BoltzmannMachine(states=(0, 1), max_iter=2, alpha=0.1, random_state=seed).fit(X)
    assert model._starts is None
    assert np.isfinite(model.score(X))


def test_reverse_chains_of_discrete_mrf_start_at_its_ladder(monkeypatch, seed):
    starts = []

    def annealed(energy, **options):
        starts.append(options["start"])
        del options["max_bytes"]
        return ais(energy, n_temperatures=50, **options)

    monkeypatch.setattr(_automatic, "log_partition_bounds", annealed)
    X = np.random.default_rng(seed).integers(0, 2, size=(80, 12))
    given = {"max_iter": 5, "alpha": 0.1, "random_state": seed, "max_bytes": 2e4}
    model = DiscreteMRF(learner="ptt", **given).fit(X)
    assert np.isfinite(model.log_partition_)
    np.testing.assert_array_equal(starts[0], model.ladder_.states[-1])


@pytest.mark.long
def test_choice_of_alpha_anneals_back_from_training_rows(monkeypatch, seed):
    """Check the start of the reverse chains in the score of each candidate."""
    starts = []

    def record(energy, *, start, **options):
        starts.append(set(map(tuple, start)))
        return ais(energy, start=start, **options)

    monkeypatch.setattr(held_out, "ais", record)
    monkeypatch.setattr(_weight_decay, "MAX_EXACT", 0)
    X = np.random.default_rng(seed).integers(0, 2, size=(100, held_out.MAX_LAYER_SIZE + 1))
    BoltzmannMachine(states=(0, 1), max_iter=5, random_state=seed).fit(X)
    assert len(starts) >= 3
    assert all(rows and rows <= set(map(tuple, X)) for rows in starts)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_rows", [60, 150])
def test_boltzmann_machine_of_independent_columns(n_rows, seed, monkeypatch):
    """A strong penalty is chosen, because no candidate is better than independent columns."""
    monkeypatch.setattr(held_out, "N_TEMPERATURES", (250, 1000))
    rng = np.random.default_rng(seed)
    train, test = (rng.integers(0, 2, (n, 21)) for n in (n_rows, 2000))
    model = BoltzmannMachine(states=(0, 1), max_iter=300, random_state=0).fit(train)
    assert model._centre is None
    assert model.alpha_ > 99 / n_rows
    p = (train.sum(axis=0) + 0.5) / (n_rows + 1)
    independent = (test @ np.log(p) + (1 - test) @ np.log1p(-p)).mean()
    assert model.score(test) > independent - 0.05


@pytest.mark.parametrize("n_rows", [400, 3000])  # with and without cross-validation
def test_final_pseudo_likelihood_is_compared_with_the_chosen_model(n_rows, seed, monkeypatch):
    """Check that the model of a fold is kept if it has a clearly higher likelihood."""
    compared = []

    def keep_start(start, reference, data, average, state):
        compared.append((start, reference, len(data.X), state.result(average)))
        return state.with_other_model(start)

    monkeypatch.setattr(_refinement, "keep_start", keep_start)
    monkeypatch.setattr(_refinement, "is_possible", lambda *_: False)
    monkeypatch.setattr(_automatic, "MAX_EXACT_ENTRIES", 1)
    X = complete_graph_rows(np.random.default_rng(seed), n_rows)
    model = DiscreteMRF("pairwise", random_state=0).fit(X)
    ((start, reference, size, final),) = compared
    assert isinstance(model.learner_, PseudoLikelihood)
    assert (model.energy_, reference, size) == (start, model._tree, n_rows)
    from_start, from_reference = (
        np.linalg.norm(final.flat - energy.flat) for energy in (start, model.reference_)
    )
    assert 1e-3 < from_start < from_reference
