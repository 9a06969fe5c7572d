"""Tests of displays of moments."""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from displayed_models import NAMES, digits, draw, spins
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from zoo import ZOO, enumerate_states

from skmrf import RBM, DiscreteMRF
from skmrf.energies import FactorGraph
from skmrf.plot import MomentsDisplay

pytestmark = [
    pytest.mark.filterwarnings("ignore:Learning had not converged"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def exact_moments(energy):
    """Probabilities of the states that are shown, column by column and then pair by pair."""
    states, log_f = enumerate_states(energy)
    p = np.exp(log_f - log_f.max())
    return moments(states, p / p.sum(), energy.n_states)


def moments(codes, weights, n_states):
    """Weighted shares, by loops; missing entries (-1) are left out."""
    shown = [range(q) if q != 2 else [1] for q in n_states]
    out = []
    for i, q in enumerate(shown):
        there = codes[:, i] >= 0
        total = weights[there].sum()
        out += [weights[there & (codes[:, i] == a)].sum() / total for a in q]
    for i, j in combinations(range(len(shown)), 2):
        there = (codes[:, [i, j]] >= 0).all(axis=1)
        for a in shown[i]:
            for b in shown[j]:
                hit = there & (codes[:, i] == a) & (codes[:, j] == b)
                out.append(weights[hit].sum() / weights[there].sum())
    return np.array(out)


def rows_of(energy, n_rows, seed):
    states, log_f = enumerate_states(energy)
    p = np.exp(log_f - log_f.max())
    return states[np.random.default_rng(seed).choice(len(states), size=n_rows, p=p / p.sum())]


@pytest.mark.parametrize("name", ["chain", "cycle", "orders", "zeros", "constant_variables"])
def test_moments_are_those_of_enumeration(name, seed):
    energy = ZOO[name](seed)
    model, rows = DiscreteMRF.from_energy(energy), rows_of(energy, 500, seed).astype(float)
    rows[np.random.default_rng(seed).random(rows.shape) < 0.2] = np.nan
    display = MomentsDisplay.from_estimator(model, rows)
    codes = np.where(np.isnan(rows), -1, rows).astype(int)
    assert_allclose(display.model, exact_moments(energy), rtol=0, atol=1e-12)
    assert_allclose(display.data, moments(codes, np.ones(500), energy.n_states), atol=1e-12)
    n_points = 0
    for kind, (left, right) in display.points_.items():
        of = display.kinds == kind
        n_points += of.sum()
        assert_array_equal(left.get_xdata(), display.model[of])
        assert_array_equal(left.get_ydata(), display.data[of])
        assert_array_equal(right.get_xdata(), display.model[of])
        assert_array_equal(right.get_ydata(), display.z_[of])
    assert n_points == len(display.model)


def test_moments_of_weighted_rows(seed):
    """A row of weight two is two rows for shares; one of weight zero is none."""
    energy = ZOO["chain"](seed)
    model, rows = DiscreteMRF.from_energy(energy), rows_of(energy, 200, seed).astype(float)
    rows[np.random.default_rng(seed).random(rows.shape) < 0.2] = np.nan
    times = np.random.default_rng(seed).integers(3, size=200)
    weighted = MomentsDisplay.from_estimator(model, rows, sample_weight=times)
    repeated = MomentsDisplay.from_estimator(model, np.repeat(rows, times, axis=0))
    assert_allclose(weighted.data, repeated.data, atol=1e-12)
    seen = ~np.isnan(rows[:, 0])
    worth = times[seen].sum() ** 2 / (times[seen] ** 2).sum()
    ratio = (weighted.standard_error / repeated.standard_error)[weighted.kinds == "column"][0]
    assert ratio == pytest.approx(np.sqrt(times[seen].sum() / worth))
    equal = MomentsDisplay.from_estimator(model, rows, sample_weight=np.full(200, 0.5))
    assert_allclose(equal.z_, MomentsDisplay.from_estimator(model, rows).z_)
    with pytest.raises(ValueError, match="sample_weight"):
        MomentsDisplay.from_estimator(model, rows, sample_weight=-times)


@pytest.mark.parametrize("method", ["exact", "samples"])
def test_differences_are_in_standard_errors(method, seed):
    """Of rows that the model drew, the mean square of z is one, half of it from draws."""
    energy = ZOO["grid"](seed)
    model, how = DiscreteMRF.from_energy(energy), {"method": method, "n_samples": 1000}
    squares = []
    for k in range(60):
        random = np.random.default_rng([seed, k])
        rows = rows_of(energy, 1000, [seed, k])
        z = MomentsDisplay.from_estimator(model, rows, random_state=random, **how).z_
        plt.close("all")
        squares.append(np.mean(z**2))
    error = np.std(squares, ddof=1) / np.sqrt(60)
    assert error < 0.15
    assert abs(np.mean(squares) - 1) < 5 * error
    others = rows_of(energy.tempered(0.3), 1000, seed)
    z = MomentsDisplay.from_estimator(model, others, random_state=seed, **how).z_
    assert np.mean(z**2) > np.mean(squares) + 5 * np.std(squares)


def test_kinds_of_moments(models):
    X = spins()
    chain = DiscreteMRF([("north", "east"), ("east", "south", "west")], "exact")
    chain.fit(pd.DataFrame(X, columns=NAMES))
    kinds = MomentsDisplay.from_estimator(chain, pd.DataFrame(X, columns=NAMES)).kinds.tolist()
    inside, outside = "pair in a clique", "pair in no clique"
    assert kinds == ["column"] * 4 + [inside, outside, outside] + [inside] * 3
    full = draw(MomentsDisplay, models["boltzmann"], "boltzmann")
    assert full.kinds.tolist() == ["column"] * 4 + [inside] * 6
    assert set(draw(MomentsDisplay, models["rbm"], "rbm").kinds) == {"column", "pair"}


def test_moments_of_an_rbm(seed):
    """Against the sum over all states; the rows are grey, the draws are not."""
    ink = digits()[:, 18:26]
    model = RBM(2, "pcd", binarize=7.5, max_iter=200, random_state=seed).fit(8.0 * ink)
    states = (np.arange(256)[:, None] >> np.arange(8)) & 1
    p = np.exp(-model.energy_.astype(float).free_energy(states))
    display = MomentsDisplay.from_estimator(model, 8.0 * ink, n_samples=4000, random_state=seed)
    expected = moments(states, p / p.sum(), [2] * 8)
    assert_allclose(display.data, moments(ink, np.ones(200), [2] * 8))
    error = np.sqrt(expected * (1 - expected) / 4000) + 1e-3
    assert (np.abs(display.model - expected) < 5 * error).all()
    with pytest.raises(ValueError, match='of an RBM take method="samples"'):
        MomentsDisplay.from_estimator(model, 8.0 * ink, method="exact")


def test_moments_of_sparse_rows(models):
    ink = digits()
    how = {"n_samples": 20, "n_pairs": 10, "random_state": 0}
    dense, sparse = (
        MomentsDisplay.from_estimator(models["rbm"], X, **how) for X in (ink, csr_matrix(ink))
    )
    assert_array_equal(sparse.data, dense.data)
    assert_array_equal(sparse.z_, dense.z_)


def test_few_pairs_are_chosen(seed):
    energy = ZOO["chain"](seed)
    model, rows = DiscreteMRF.from_energy(energy), rows_of(energy, 100, seed)
    few = MomentsDisplay.from_estimator(model, rows, n_pairs=4, random_state=seed)
    assert len(few.model) == 6 + 4
    assert np.isin(few.model.round(12), exact_moments(energy).round(12)).all()
    none = MomentsDisplay.from_estimator(model, rows, n_pairs=0)
    assert set(none.kinds) == {"column"}


def test_pairs_that_no_row_shows_are_left_out():
    energy = ZOO["chain"](0)
    rows = rows_of(energy, 100, 0).astype(float)
    rows[:50, 0] = rows[50:, 1] = np.nan
    display = MomentsDisplay.from_estimator(DiscreteMRF.from_energy(energy), rows)
    assert len(display.model) == 6 + 14
    assert np.isfinite(display.z_).all()


def test_never_and_always_have_an_error():
    """A state that neither has differs by nothing; one that only the model has, by something."""
    rows = np.zeros((50, 2), dtype=int)
    graph = FactorGraph([2, 2], [(0,), (1,)], [[0.0, -np.inf], [0.0, 0.0]])
    z = MomentsDisplay.from_estimator(DiscreteMRF.from_energy(graph), rows).z_
    assert z[0] == 0.0
    assert z[1] < -6
    assert np.isfinite(z).all()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"method": "gibbs"}, "method must be one of"),
        ({"n_samples": 1}, "n_samples must be an integer >= 2"),
        ({"n_pairs": -1}, "n_pairs must be an integer >= 0"),
    ],
)
def test_bad_parameters_of_moments(how, message, models):
    with pytest.raises(ValueError, match=message):
        MomentsDisplay.from_estimator(models["boltzmann"], spins(), **how)
