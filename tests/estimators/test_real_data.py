"""Tests of published results on real data; they are skipped if the data are absent."""

import resource

import numpy as np
import pandas as pd
import pytest
from zoo import brute

from skmrf import RBM, DiscreteMRF
from skmrf.datasets import fetch_density_benchmark, make_ising
from skmrf.learners import CD
from skmrf.samplers.gibbs_queries import draw

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


def test_house_votes(data_folder):
    """The table has missing votes, a party column and column names."""
    X = pd.read_csv(data_folder("votes") / "house_votes_84.csv.gz", na_values="?")
    model = DiscreteMRF(alpha=0.01, random_state=0).fit(X)
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
    assert grown * 1024 < 12 * X.nbytes
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


@pytest.fixture
def mnist(data_folder):
    """Return binary images for training and testing."""
    with np.load(data_folder("mnist") / "mnist.npz") as file:
        return [file[name].reshape(-1, 784) > 127 for name in ("x_train", "x_test")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("learner", "least"), [("exact", -151.5), ("pcd", -175.0)])
def test_rbm_learns_digits(mnist, learner, least, seed):
    """Independent pixels give -206, the maximum is about -150, PCD ends at -152 to -166."""
    train, test = mnist
    model = RBM(10, learner, random_state=seed).fit(train)
    assert model.log_partition_method_ == "exact"
    assert model.score(train) > least
    assert model.score(test) > least
