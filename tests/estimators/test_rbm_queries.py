"""Tests of probabilities and samples of RBM."""

import pickle
import warnings
from copy import copy
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from montecarlo import check_draws
from rbm_models import SMALL, bits, draws, law, quick
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import BernoulliRBM
from zoo import layers

from skmrf import RBM
from skmrf.energies import BipartiteEnergy
from skmrf.estimators import rbm
from skmrf.likelihood import log_partition_bounds

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def fitted():
    """Return a maximum likelihood model whose layers can both be enumerated."""
    X = draws(layers(6, 2, 0, scale=1.5), 1000, 0)
    return RBM(2, "exact", optimizer="lbfgs", random_state=0).fit(X)


@pytest.fixture(scope="module")
def annealed_model():
    """Return a fitted model without an exact log Z."""
    return quick(12, max_iter=20, max_bytes=SMALL).fit(bits())


# Probabilities ----------------------------------------------------------------------------


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
    monkeypatch.setattr(rbm, "log_partition_bounds", wide)
    model, X = copy(annealed_model), bits(30)
    model._cache = {}
    with pytest.warns(ConvergenceWarning, match="log Z has not converged.* n_temperatures"):
        scores = model.score_samples(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(model.score_samples(X), scores)
    np.testing.assert_array_equal(scores, -model.free_energy(X) - model.log_partition_)


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


def test_sample_follows_the_model(fitted, seed):
    V, log_p = law(fitted.energy_)
    check_draws(fitted.sample(4000, random_state=seed), V, np.exp(log_p))
    drawn = fitted.sample(4000, given={1: 1, 4: 0}, random_state=seed)
    agrees = (V[:, 1] == 1) & (V[:, 4] == 0)
    p = np.where(agrees, np.exp(log_p), 0.0)
    check_draws(drawn, V, p / p.sum())


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
    with pytest.raises(ValueError, match=r"given names column 6; the columns are \[0, 1, 2"):
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
