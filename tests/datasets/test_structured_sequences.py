"""Tests of structured sequences."""

import re

import numpy as np
import pytest
from montecarlo import check_draws

from skmrf.datasets import enumerate_structured_sequences, make_structured_sequences

N_SEQUENCES = [10, 16, 26, 41, 64, 100, 157, 247, 388, 609, 956, 1501, 2357, 3701]


@pytest.mark.parametrize(("n", "expected"), list(zip(range(5, 32, 2), N_SEQUENCES, strict=True)))
def test_number_of_sequences(n, expected):
    rows = enumerate_structured_sequences(n)
    assert rows.shape == (expected, n)
    assert rows.dtype == np.int64
    assert set(np.unique(rows)) == {0, 1}
    assert all((rows[:, j : j + 5].sum(axis=1) == 3).all() for j in range(0, n - 4, 2))
    assert (np.diff(rows @ (1 << np.arange(n)[::-1])) > 0).all()  # increasing: no two equal


@pytest.mark.parametrize("n", [5, 7, 9, 11, 13])
def test_sequences_match_brute_force(n):
    rows = np.indices((2,) * n).reshape(n, -1).T
    for j in range(0, n - 4, 2):
        rows = rows[rows[:, j : j + 5].sum(axis=1) == 3]
    np.testing.assert_array_equal(enumerate_structured_sequences(n), rows)


@pytest.mark.parametrize("n", [5, 9, 15])
def test_sequences_are_uniform(n, seed):
    X, _ = make_structured_sequences(n, n_samples=20_000, random_state=seed)
    states = enumerate_structured_sequences(n)
    check_draws(X, states, np.full(len(states), 1 / len(states)))


def test_ancestral_sequences_are_not_uniform(seed):
    """Negative control: complete each window uniformly given its overlap with the last one."""
    states = enumerate_structured_sequences(15)
    p = np.full(len(states), 0.1)
    for j in range(2, 11, 2):
        p *= np.where(states[:, j : j + 3].sum(axis=1) == 2, 0.5, 1.0)
    draws = states[np.random.default_rng(seed).choice(len(states), 20_000, p=p / p.sum())]
    assert p.sum() == pytest.approx(1.0)
    with pytest.raises(AssertionError, match="was drawn"):
        check_draws(draws, states, np.full(len(states), 1 / len(states)))


@pytest.mark.parametrize("n", [5, 7, 31, 1001])
def test_sequences_shapes(n, seed):
    X, cliques = make_structured_sequences(n, n_samples=3, random_state=seed)
    assert X.shape == (3, n)
    assert X.dtype == np.int64
    assert cliques == [(j, j + 1, j + 2, j + 3, j + 4) for j in range(0, n - 4, 2)]
    assert all((X[:, clique].sum(axis=1) == 3).all() for clique in cliques)


def test_sequences_are_reproducible(seed):
    def draw(random_state):
        return make_structured_sequences(31, n_samples=50, random_state=random_state)[0]

    np.testing.assert_array_equal(draw(seed), draw(seed))
    state = np.random.RandomState(seed)
    np.testing.assert_array_equal(draw(state), draw(seed))
    assert (draw(state) != draw(seed)).any()
    assert (draw(seed + 1) != draw(seed)).any()
    assert (draw(None) != draw(None)).any()


LENGTH_ERRORS = [
    (4, "n_variables must be an integer >= 5; got 4."),
    (7.0, "n_variables must be an integer; got 7.0."),
    (
        8,
        "n_variables must be odd, because windows of 5 start at every second variable; got 8. The "
        "nearest valid numbers are 7 and 9.",
    ),
]


@pytest.mark.parametrize(("n", "message"), LENGTH_ERRORS)
def test_sequences_errors(n, message):
    message = f"^{re.escape(message)}$"
    with pytest.raises(ValueError, match=message):
        make_structured_sequences(n, n_samples=10)
    with pytest.raises(ValueError, match=message):
        enumerate_structured_sequences(n)


@pytest.mark.parametrize("n_samples", [0, -1, 2.5, None])
def test_sequences_invalid_n_samples(n_samples):
    with pytest.raises(ValueError, match=r"^n_samples must be an integer"):
        make_structured_sequences(7, n_samples=n_samples)


def test_sequences_enumeration_limit():
    message = (
        "n_variables must be at most 51 to list all sequences; got 10001. "
        "For longer sequences, use make_structured_sequences to draw samples."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        enumerate_structured_sequences(10_001)
