"""Tests of BoltzmannMachine."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from zoo import COUPLED_LEARNERS, TABLE_LEARNERS, enumerate_states

from skmrf import BoltzmannMachine, DiscreteMRF
from skmrf._utils.phases import States
from skmrf._utils.rows import unique_rows
from skmrf.energies import PairwiseEnergy
from skmrf.estimators import _hidden_layer, _weight_decay
from skmrf.inference import row_queries
from skmrf.learners import PCD, Learner, PseudoLikelihood
from skmrf.training import ScoreMonitor

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*never occur in the data.*", "ignore::sklearn.exceptions.ConvergenceWarning"
)


class Enumeration(Learner):
    """Learner that enumerates all states; it needs complete rows."""

    deterministic = True
    objective_takes_missing = False

    def init(self, energy, batch, rng):
        return None

    def step(self, energy, batch, state, rng):
        X, weights = unique_rows(batch)
        states, log_f = enumerate_states(energy)
        return States(X, None, np.log(weights)), States(states, None, log_f), state, {}

    def objective(self, energy, batch, state):
        positive, negative, _, _ = self.step(energy, batch, state, None)
        log_z = np.logaddexp.reduce(negative.log_weights)
        value = np.exp(positive.log_weights) @ energy.log_potential(positive.visible) - log_z
        return value, energy.gradient(positive, negative)


def truth(seed, n=5, states=(-1, 1)):
    rng = np.random.default_rng(seed)
    coupling = np.triu(rng.normal(scale=0.4, size=(n, n)), 1)
    return PairwiseEnergy(coupling + coupling.T, rng.normal(scale=0.3, size=n), states)


def draws(energy, n_rows, seed):
    """Return exact samples of an energy."""
    states, log_f = enumerate_states(energy)
    p = np.exp(log_f - np.logaddexp.reduce(log_f))
    return energy.decode(states[np.random.default_rng(seed).choice(len(p), size=n_rows, p=p)])


def with_missing_entries(X, share, seed):
    X = X.astype(float)
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def standard_errors(energy, n_rows):
    """Return standard errors of the couplings i < j, by the Fisher information."""
    states, log_f = enumerate_states(energy)
    S = energy.decode(states)
    i, j = np.triu_indices(S.shape[1], 1)
    T = np.hstack([S[:, i] * S[:, j], S])
    covariance = np.cov(T.T, aweights=np.exp(log_f - log_f.max()), bias=True)
    return np.sqrt(np.diagonal(np.linalg.inv(covariance))[: len(i)] / n_rows)


def quick(learner="pcd", max_iter=5, **parameters):
    return BoltzmannMachine(
        learner, max_iter=max_iter, random_state=0, **{"alpha": 0.0, **parameters}
    )


@pytest.fixture(scope="module", params=[(-1, 1), (0, 1), (0.5, 2)], ids=str)
def fitted(request):
    return BoltzmannMachine(Enumeration(), states=request.param, alpha=0.0).fit(
        draws(truth(0, states=request.param), 500, 0)
    )


def all_rows(model):
    """Return all possible rows and their probabilities, computed from the fitted attributes."""
    codes, _ = enumerate_states(model.energy_)
    low, high = model.energy_.states
    coupling = model.coupling_ * 4 / (high - low) ** 2
    rows = np.where(codes == 1, high, low)
    log_f = 0.5 * np.einsum("ri,ij,rj->r", rows, coupling, rows) + rows @ model.bias_
    return rows, np.exp(log_f - np.logaddexp.reduce(log_f))


def test_probabilities_are_those_of_the_formula(fitted):
    rows, p = all_rows(fitted)
    np.testing.assert_allclose(np.exp(fitted.score_samples(rows)), p, atol=1e-12)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert fitted.log_partition_method_ == "exact"
    assert fitted.score(rows) == pytest.approx(fitted.score_samples(rows).mean())


def test_maximum_likelihood_matches_the_moments(fitted):
    X = draws(truth(0, states=fitted.states), 500, 0)
    rows, p = all_rows(fitted)
    np.testing.assert_allclose(p @ rows, X.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(rows.T @ (rows * p[:, None]), X.T @ X / len(X), atol=1e-5)


def test_queries_of_incomplete_rows(fitted, seed):
    rows, p = all_rows(fitted)
    X = with_missing_entries(rows, 0.4, seed)
    scores, filled, marginals = fitted.score_samples(X), fitted.predict(X), fitted.marginals(X)
    for r, row in enumerate(X):
        agrees = np.all(np.isnan(row) | (rows == row), axis=1)
        q = p * agrees
        assert scores[r] == pytest.approx(np.log(q.sum()), abs=1e-10)
        assert q[(rows == filled[r]).all(axis=1)][0] == pytest.approx(q.max(), rel=1e-9)
        for j, found in enumerate(marginals):
            upper = q[rows[:, j] == fitted.energy_.states[1]].sum() / q.sum()
            np.testing.assert_allclose(found[r], [1 - upper, upper], atol=1e-10)


def test_sample_follows_the_model(fitted, seed):
    n_rows = 20_000
    low, high = fitted.energy_.states
    drawn = fitted.sample(n_rows, given={1: high}, random_state=seed)
    rows, p = all_rows(fitted)
    p = np.where(rows[:, 1] == high, p, 0.0)
    p /= p.sum()
    counts = np.array([(drawn == row).all(axis=1).sum() for row in rows])
    assert counts.sum() == n_rows
    assert (np.abs(counts - n_rows * p) <= 5 * np.sqrt(n_rows * p * (1 - p)) + 1e-9).all()
    given = np.full((2, 5), np.nan)
    given[:, 2] = low, high
    np.testing.assert_array_equal(fitted.sample(2, given=given)[:, 2], [low, high])
    again = [fitted.sample(4, random_state=3) for _ in range(2)]
    np.testing.assert_array_equal(*again)


@pytest.mark.long
@pytest.mark.parametrize("learner", ["pcd", "psmc"])
def test_learns_known_couplings(learner, seed):
    """The tolerance is five standard errors, plus one for the noise of training."""
    energy = truth(seed)
    model = BoltzmannMachine(learner, max_iter=25, random_state=seed, alpha=0.0)
    model.fit(draws(energy, 4000, seed))
    i, j = np.triu_indices(5, 1)
    error = np.abs(model.coupling_ - energy.coupling)[i, j]
    assert (error < 6 * standard_errors(energy, 4000)).all()
    assert (error > standard_errors(energy, 4000) / 100).any()


@pytest.mark.long
@pytest.mark.parametrize(
    "learner", sorted(set(TABLE_LEARNERS) & {"cd", "smc", "mcmc-mle", "tempered-transitions"})
)
def test_learners_near_maximum_likelihood(learner, seed):
    X = draws(truth(seed), 500, seed)
    best = BoltzmannMachine(Enumeration(), alpha=0.0).fit(X).score(X)
    model = BoltzmannMachine(learner, max_iter=150, random_state=seed, alpha=0.0).fit(X)
    assert best - 0.02 < model.score(X) < best + 1e-6


def test_both_state_pairs_give_the_same_distribution():
    X = draws(truth(0), 500, 0)
    signs = BoltzmannMachine(Enumeration(), tol=1e-9, alpha=0.0).fit(X)
    bits = BoltzmannMachine(Enumeration(), tol=1e-9, states=(0, 1), alpha=0.0).fit((X + 1) / 2)
    np.testing.assert_allclose(bits.coupling_, signs.coupling_, atol=1e-4)
    np.testing.assert_allclose(bits.coupling_, bits.energy_.coupling / 4)
    expected = 2 * (signs.bias_ - signs.coupling_.sum(axis=1))
    np.testing.assert_allclose(bits.bias_, expected, atol=1e-3)
    np.testing.assert_allclose(bits.score_samples((X + 1) / 2), signs.score_samples(X), atol=1e-5)
    again = PairwiseEnergy(signs.coupling_, signs.bias_)
    np.testing.assert_array_equal(again.coupling, signs.energy_.coupling)
    assert set(np.unique(bits.sample(50, random_state=0))) == {0, 1}
    assert set(np.unique(signs.predict(np.full((1, 5), np.nan)))) <= {-1, 1}


def test_agrees_with_discrete_mrf():
    """Pair tables have the same distributions as couplings and biases."""
    X = draws(truth(1), 300, 1)
    machine = BoltzmannMachine(Enumeration(), tol=1e-8, alpha=0.0).fit(X)
    tables = DiscreteMRF(learner="exact", alpha=0, tol=1e-8).fit(X)
    np.testing.assert_allclose(machine.score_samples(X), tables.score_samples(X), atol=1e-5)


def test_sample_weight_is_repetition(seed):
    X = draws(truth(seed), 200, seed)
    weights = np.random.default_rng(seed + 1000).integers(0, 3, len(X))
    weighted = BoltzmannMachine(Enumeration(), alpha=0.01).fit(X, sample_weight=weights)
    repeated = BoltzmannMachine(Enumeration(), alpha=0.01).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.coupling_, repeated.coupling_, atol=1e-4)
    other = BoltzmannMachine(Enumeration(), alpha=0.01).fit(X)
    assert np.abs(weighted.coupling_ - other.coupling_).max() > 1e-3


def test_learning_from_incomplete_rows(seed):
    """Entries missing at random increase the error only slightly."""
    X = draws(truth(seed), 2000, seed)
    model = BoltzmannMachine("pcd", max_iter=40, random_state=seed, alpha=0.0)
    model.fit(with_missing_entries(X, 0.3, seed + 1))
    best = BoltzmannMachine(Enumeration(), alpha=0.0).fit(X)
    assert best.score(X) - model.score(X) < 0.02


def test_binarize():
    numbers = np.random.default_rng(0).normal(size=(100, 4))
    numbers[3, 1] = np.nan
    signs = np.where(np.isnan(numbers), np.nan, np.where(numbers > 0.2, 1, -1))
    plain, cut = quick().fit(signs), quick(binarize=0.2).fit(numbers)
    np.testing.assert_array_equal(plain.coupling_, cut.coupling_)
    np.testing.assert_array_equal(plain.score_samples(signs), cut.score_samples(numbers))
    np.testing.assert_array_equal(cut.predict(numbers), plain.predict(signs))
    assert cut.predict(np.full((1, 4), 0.2)).tolist() == [[-1] * 4]
    assert (cut.sample(9, given={0: 0.3}, random_state=0)[:, 0] == 1).all()


def frame():
    X = pd.DataFrame(draws(truth(0, 3), 100, 0), columns=["a", "b", "c"])
    return X.astype({"a": int, "b": "Int64"})


def test_pandas():
    X = frame()
    X.loc[3, "b"], X.loc[5, "c"] = pd.NA, np.nan
    model = quick().fit(X)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    plain = quick().fit(X.to_numpy(dtype=float, na_value=np.nan))
    np.testing.assert_array_equal(model.coupling_, plain.coupling_)
    drawn = model.sample(5, given={"b": -1}, random_state=0)
    assert (drawn["b"] == -1).all()
    assert drawn.dtypes.equals(X.dtypes)
    assert np.isfinite(model.score_samples(X)).all()
    with pytest.raises(ValueError, match="feature names"):
        model.score(X[["c", "b", "a"]])
    with pytest.raises(ValueError, match=r"given has 'd', .* columns are \['a'"):
        model.sample(given={"d": 1})
    with pytest.raises(ValueError, match=r"Column 'c' holds 3\.0, but the states are -1 and 1"):
        model.score(X.assign(c=3.0))


def test_polars():
    X = frame().astype(int)
    model = quick().fit(pl.DataFrame({name: X[name].to_list() for name in X}))
    np.testing.assert_array_equal(model.coupling_, quick().fit(X).coupling_)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    some = pl.DataFrame({"a": [1, None], "b": [None, -1], "c": [1, 1]})
    rows = np.array([[1, np.nan, 1], [np.nan, -1, 1]])
    np.testing.assert_array_equal(
        model.score_samples(some), quick().fit(X.values).score_samples(rows)
    )


def test_booleans_and_lists():
    X = draws(truth(0, 3, (0, 1)), 50, 0)
    expected = quick(states=(0, 1)).fit(X).coupling_
    for Y in (X.astype(bool), X.tolist(), X.astype(object)):
        np.testing.assert_array_equal(quick(states=(0, 1)).fit(Y).coupling_, expected)


DEGENERATE_ROWS = {
    "one row": [[1.0, -1.0, 1.0]],
    "one column": [[1.0], [-1.0], [1.0]],
    "a constant column": [[1.0, 1.0], [1.0, -1.0], [1.0, -1.0], [1.0, 1.0]],
    "one state": [[1.0, 1.0]] * 30,
    "equal columns": [[1.0, 1.0], [-1.0, -1.0]] * 10,
}


@pytest.mark.parametrize(
    "learner", ["pcd", pytest.param("psmc", marks=pytest.mark.long), Enumeration()], ids=str
)
@pytest.mark.parametrize("name", DEGENERATE_ROWS)
def test_degenerate_data(name, learner):
    X = np.array(DEGENERATE_ROWS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = quick(learner, max_iter=60, alpha=0.01).fit(X)
    assert np.isfinite(model.coupling_).all()
    assert np.isfinite(model.bias_).all()
    assert -X.shape[1] * np.log(2) - 1e-9 <= model.score(X) <= 0


def test_unobserved_column_has_small_couplings():
    X = draws(truth(0), 200, 0)
    X[:, 2] = np.nan
    model = quick(max_iter=50, alpha=0.1).fit(X)
    assert np.isfinite(model.score(X))
    assert np.abs(model.coupling_[2]).max() < 0.2


def test_warns_of_an_unbounded_maximum():
    X = np.array([[1, 1], [-1, -1]] * 10)
    with pytest.warns(UserWarning, match="2 joint states of cliques never occur"):
        quick().fit(X)
    with pytest.warns(UserWarning, match="1 joint states of cliques never occur"):
        quick().fit(np.vstack([X, [[1, -1]]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", message="Learning had not converged")
        quick(alpha=0.1).fit(X)
        quick().fit(np.vstack([X, [[1, -1], [-1, 1]]]))


def test_jobs_do_not_matter():
    X = draws(truth(0), 200, 0)
    models = [quick(n_jobs=n).fit(X) for n in (None, 2)]
    np.testing.assert_array_equal(models[0].coupling_, models[1].coupling_)


@pytest.mark.parametrize("learner", ["pcd", "psmc"])
def test_warm_start_resumes_bit_for_bit(learner):
    X = draws(truth(0), 200, 0)
    first = quick(learner, 7, warm_start=True).fit(X)
    first = pickle.loads(pickle.dumps(first)).fit(X)
    whole = quick(learner, 14).fit(X)
    np.testing.assert_array_equal(first.coupling_, whole.coupling_)
    np.testing.assert_array_equal(first.bias_, whole.bias_)
    assert first.n_iter_ == whole.n_iter_ == 14


def test_partial_fit():
    X = draws(truth(0), 300, 0)
    model = BoltzmannMachine("pcd", batch_size=10, random_state=0, alpha=0.0)
    for k in range(60):
        rows = slice((k % 3) * 100, (k % 3 + 1) * 100)
        model.partial_fit(X[rows])
    assert model.n_iter_ == 60
    assert model.score(X) > BoltzmannMachine(Enumeration(), alpha=0.0).fit(X).score(X) - 0.05
    with pytest.raises(ValueError, match=r"cannot continue with states=\(0, 1\), because the prev"):
        model.set_params(states=(0, 1)).partial_fit((X + 1) / 2)


@pytest.mark.parametrize("n", [5, 30])
def test_early_stopping(n):
    """The score is the likelihood of a narrow model and the pseudo-likelihood of a wide one."""
    X = draws(truth(0), 300, 0)[:, np.arange(n) % 5]
    X[np.random.default_rng(0).random(X.shape) < 0.2] *= -1
    model = quick(max_iter=200, early_stopping=True).fit(X)
    scores = model.history_["validation_score"]
    assert len(scores) == model.n_iter_ < 200
    assert scores[0] < 0
    if n == 5:
        assert max(scores) > -n * np.log(2)


def test_callbacks():
    X = draws(truth(0), 100, 0)
    monitor = ScoreMonitor()
    model = quick().set_callbacks(monitor).fit(X)
    assert len(monitor.scores) == model.n_iter_ == 5
    assert monitor.scores[-1] == pytest.approx(model.score(X))


@pytest.mark.parametrize("penalty", ["l1", "group-l1"])
def test_sparse_penalties_give_zero_couplings(penalty):
    coupling = np.zeros((4, 4))
    coupling[0, 1] = coupling[1, 0] = 0.8
    X = draws(PairwiseEnergy(coupling, np.zeros(4)), 500, 0)
    model = BoltzmannMachine(Enumeration(), penalty=penalty, alpha=0.15).fit(X)
    assert model.coupling_[0, 1] > 0.2
    assert np.count_nonzero(model.coupling_) == 2


@pytest.mark.parametrize("states", [(-1, 1), (0, 1)], ids=str)
def test_the_penalty_counts_every_pair_once(states):
    """At the maximum, moments differ from the data by alpha times the coupling."""
    X = draws(truth(0, states=states), 300, 0)
    model = BoltzmannMachine(Enumeration(), states=states, alpha=0.2, tol=1e-9).fit(X)
    rows, p = all_rows(model)
    missed = X.T @ X / len(X) - rows.T @ (rows * p[:, None])
    np.fill_diagonal(missed, 0.0)
    np.testing.assert_allclose(missed, 0.2 * model.energy_.coupling, atol=1e-6)
    np.testing.assert_allclose(p @ rows, X.mean(axis=0), atol=1e-6)


def test_a_wide_model():
    """Without exact inference, log Z and imputations are close to the exact ones."""
    X = draws(truth(0, 10), 300, 0)
    narrow = quick(max_iter=20).fit(X)
    wide = quick(max_iter=20, max_bytes=20_000).fit(X)
    assert (narrow.log_partition_method_, wide.log_partition_method_) == ("exact", "ais")
    lower, upper = wide.log_partition_interval_
    assert lower - 0.1 <= narrow.log_partition_ <= upper + 0.1
    np.testing.assert_allclose(wide.score_samples(X), narrow.score_samples(X), atol=0.2)
    rows = np.where(np.arange(10) < 5, X[:50], np.nan)
    np.testing.assert_array_equal(wide.predict(rows), narrow.predict(rows))
    with pytest.warns(UserWarning, match="Exact sampling needs too much memory"):
        drawn = wide.sample(3, given={4: -1}, random_state=0)
    assert (drawn[:, 4] == -1).all()


SIGNS = np.array([[1, -1], [-1, 1], [1, 1], [-1, -1]] * 5)

BAD_DATA = [
    (SIGNS * 2, ValueError, "Column 0 holds 2, but the states are -1 and 1. .* as binarize="),
    ((SIGNS + 1) // 2, ValueError, r"holds 0, but the states are -1 and 1\. .* states=\(0, 1\)"),
    (np.where(SIGNS > 0, SIGNS, 0.5), ValueError, "Column 0 holds 0.5, but the states are"),
    (np.where(SIGNS > 0, np.inf, -1), ValueError, "Column 0 holds infinity; use nan for a missing"),
    (SIGNS[:0], ValueError, r"Found array with 0 sample\(s\)"),
    (SIGNS[:, :0], ValueError, r"Found array with 0 feature\(s\)"),
    (SIGNS[:, 0], ValueError, "Expected 2D array, got 1D array"),
    (SIGNS + 1j, ValueError, "Complex data not supported"),
    (sp.csr_array(SIGNS), TypeError, "Sparse data was passed"),
    (np.array([["a", "b"]] * 3), ValueError, "which is not a number; give two states"),
    (np.array([[1, "up"]], dtype=object), ValueError, "Column 1 holds 'up', which is not a number"),
    (pd.DataFrame({"x": [1, 1], "y": [-1, 7]}), ValueError, "Column 'y' holds 7, but the states"),
]


@pytest.mark.parametrize(("data", "error", "message"), BAD_DATA, ids=range(len(BAD_DATA)))
def test_bad_data(data, error, message):
    model = quick()
    with pytest.raises(error, match=message):
        model.fit(data)
    assert not [name for name in vars(model) if name.endswith("_")]


BAD_PARAMETERS = [
    ({"learner": "sgd"}, r"learner must be one of \['cd', .*'pcd'.*an instance .*; got 'sgd'"),
    ({"learner": "bp"}, r"BoltzmannMachine cannot take the learner BP\(\): .*Take one of .*'pcd'"),
    ({"learner": PseudoLikelihood()}, r"BoltzmannMachine cannot take .* PseudoLikelihood\(\)"),
    ({"learner": PCD}, "learner must be one of .*; got <class"),
    ({"states": (1, 1)}, r"states must be two increasing finite numbers; got \(1, 1\)"),
    ({"states": (1, -1)}, "states must be two increasing finite numbers"),
    ({"states": (0, 1, 2)}, "states must be two increasing finite numbers"),
    ({"states": ("a", "b")}, "states must be two increasing finite numbers"),
    ({"states": (0, np.inf)}, "states must be two increasing finite numbers"),
    ({"states": 2}, "states must be two increasing finite numbers; got 2"),
    ({"binarize": "mean"}, "binarize must be a finite number; got 'mean'"),
    ({"binarize": np.nan}, "binarize must be a finite number; got nan"),
    ({"binarize": 0.0, "max_bytes": 10}, "Learning 6 couplings and biases needs about 288 bytes"),
    ({"n_components": -1}, "n_components must be an integer >= 0; got -1"),
    ({"n_components": 2.5}, "n_components must be an integer; got 2.5"),
    ({"n_components": "many"}, "n_components must be an integer >= 0 or .*; got 'many'"),
    ({"n_components": 3, "max_bytes": 10}, "Learning 12 couplings, weights and biases needs about"),
    ({"alpha": -1}, "alpha must be a number >= 0; got -1"),
    ({"optimizer": "lbfgs"}, 'optimizer="lbfgs" needs a deterministic objective'),
    ({"max_iter": 0}, "max_iter must be an integer >= 1; got 0"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS)))
def test_bad_parameters(parameters, message):
    model = BoltzmannMachine(**{"learner": "pcd", **parameters})
    with pytest.raises(ValueError, match=message):
        model.fit(SIGNS)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_failed_fit_keeps_the_previous_model():
    model = quick().fit(SIGNS)
    before = model.score(SIGNS)
    with pytest.raises(ValueError, match="Column 2 holds 3"):
        model.fit(np.array([[1, -1, 3]]))
    assert model.score(SIGNS) == before
    with pytest.raises(ValueError, match="X has 3 features, but BoltzmannMachine is expecting 2"):
        model.score(np.ones((1, 3)))


def test_unfitted_and_clone():
    model = BoltzmannMachine(PCD(n_chains=10), alpha=0.0)
    for query in (model.score_samples, model.predict, model.marginals):
        with pytest.raises(NotFittedError):
            query(SIGNS)
    with pytest.raises(NotFittedError):
        model.sample(1)
    assert clone(model).learner.n_chains == 10
    assert not hasattr(model, "coupling_")
    assert model.__sklearn_tags__().input_tags.allow_nan


# Hidden units ------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[(-1, 1), (0, 1), (0.5, 2)], ids=str)
def hidden(request):
    X = draws(truth(0, states=request.param), 300, 0)
    return quick("exact", 40, n_components=2, states=request.param, alpha=0.01).fit(X)


def hidden_law(model):
    """Return all visible rows and their probabilities, computed from the fitted attributes."""
    low, high = model.energy_.states
    rows = np.where(list(np.ndindex((2,) * 5)), high, low)
    units = np.array(list(np.ndindex((2,) * 2)))
    coupling = model.coupling_.astype(float) * 4 / (high - low) ** 2
    log_f = 0.5 * np.einsum("ri,ij,rj->r", rows, coupling, rows) + rows @ model.bias_
    across = (rows @ model.components_.T + model.intercept_hidden_) @ units.T
    log_f = log_f + np.logaddexp.reduce(across, axis=1)
    return rows, np.exp(log_f - np.logaddexp.reduce(log_f))


def test_probabilities_with_hidden_units(hidden):
    rows, p = hidden_law(hidden)
    assert hidden.components_.shape == (2, 5)
    np.testing.assert_allclose(np.exp(hidden.score_samples(rows)), p, atol=1e-6)
    assert hidden.log_partition_method_ == "exact"
    again = pickle.loads(pickle.dumps(hidden))
    np.testing.assert_array_equal(again.score_samples(rows), hidden.score_samples(rows))


@pytest.mark.parametrize("is_exact", [True, False])
def test_queries_of_incomplete_rows_with_hidden_units(hidden, is_exact, seed, monkeypatch):
    """Check enumeration of missing entries, and the Gibbs chains of rows with too many of them."""
    if not is_exact:
        monkeypatch.setattr(row_queries, "MAX_ENUMERATED", 0)
    rows, p = hidden_law(hidden)
    X = with_missing_entries(rows, 0.4, seed)[:4]
    scores, filled, marginals = hidden.score_samples(X), hidden.predict(X), hidden.marginals(X)
    within = 1e-5 if is_exact else 0.1
    assert len(marginals) == 5
    for r, row in enumerate(X):
        q = p * np.all(np.isnan(row) | (rows == row), axis=1)
        assert scores[r] == pytest.approx(np.log(q.sum()), abs=within)
        assert q[(rows == filled[r]).all(axis=1)][0] == pytest.approx(q.max(), rel=1e-5)
        for j, found in enumerate(marginals):
            upper = q[rows[:, j] == hidden.energy_.states[1]].sum() / q.sum()
            np.testing.assert_allclose(found[r], [1 - upper, upper], atol=within)


@pytest.mark.long
def test_sample_with_hidden_units(hidden, seed):
    high = hidden.energy_.states[1]
    drawn = hidden.sample(1000, given={1: high}, random_state=seed)
    rows, p = hidden_law(hidden)
    p = np.where(rows[:, 1] == high, p, 0.0)
    p /= p.sum()
    counts = np.array([(drawn == row).all(axis=1).sum() for row in rows])
    assert counts.sum() == 1000
    assert (np.abs(counts - 1000 * p) <= 5 * np.sqrt(1000 * p * (1 - p)) + 1).all()


@pytest.mark.parametrize("states", [(-1, 1), (0, 1)])
def test_hidden_units_learn_what_couplings_cannot(states, seed):
    """The third column is the exclusive or of two others, so no pair of columns is correlated."""
    codes = np.random.default_rng(seed).integers(0, 2, size=(300, 2))
    X = np.column_stack([codes, codes[:, 0] ^ codes[:, 1]])
    X = np.where(X == 1, states[1], states[0])
    pairs, units = (
        quick("exact", 200, n_components=m, states=states, alpha=0.002, learning_rate=0.1).fit(X)
        for m in (0, 12)
    )
    assert units.score(X) > pairs.score(X) + 0.2


@pytest.mark.parametrize("learner", COUPLED_LEARNERS)
def test_learners_with_hidden_units(learner):
    X = draws(truth(0), 60, 0)
    model = quick(learner, 2, n_components=3, warm_start=True)
    model.fit(X if learner == "exact" else with_missing_entries(X, 0.2, 0))
    assert np.isfinite(model.score(X))
    assert model.energy_.weights.shape == (5, 3)
    resumed = quick(learner, 2, n_components=3, warm_start=True).fit(X)
    straight = quick(learner, 4, n_components=3, warm_start=True).fit(X)
    for name, values in resumed.fit(X).energy_.theta.items():
        np.testing.assert_array_equal(values, straight.energy_.theta[name])


@pytest.mark.long
def test_hidden_units_with_early_stopping_and_partial_fit():
    X = with_missing_entries(draws(truth(0), 100, 0), 0.05, 0)
    model = quick(max_iter=4, n_components=2, early_stopping=True, alpha="auto").fit(X)
    assert len(model.history_["validation_score"]) == 4
    model = quick(n_components=2).partial_fit(X).partial_fit(X)
    assert model.n_iter_ == 2
    with pytest.raises(ValueError, match="previous fit has 2 hidden units"):
        model.set_params(n_components=3).partial_fit(X)
    assert quick().fit(X).components_.shape == (0, 5)


@pytest.mark.parametrize(("best", "n_compared"), [(0, 2), (32, 3), (128, 3)])
def test_number_of_hidden_units_is_chosen(best, n_compared, monkeypatch):
    """Larger models are compared until one is worse; 512 units are too many for the rows."""
    compared = []

    def choose(energy, *_, **__):
        compared.append(energy.n_variables - 40)
        score = -abs(compared[-1] - best)
        return _weight_decay.Choice(0.01, 0.1, energy, score=score, start=energy)

    monkeypatch.setattr(_hidden_layer, "choose", choose)
    X = np.random.default_rng(0).choice([-1, 1], size=(1300, 40))
    model = quick(max_iter=1, n_components="auto", warm_start=True).fit(X)
    assert (model.n_components_, len(compared)) == (best, n_compared)
    assert (model.fit(X).n_components_, len(compared)) == (best, n_compared)


def test_few_rows_have_no_hidden_units():
    X = draws(truth(0), 100, 0)
    assert quick(n_components="auto").fit(X).n_components_ == 0
    assert quick(max_iter=2, n_components="auto").fit(np.tile(X, (4, 7))).n_components_ in (0, 32)
