"""Tests of inference in bipartite models: batches of rows, coordinate ascent and mean field."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import twins
from numpy.testing import assert_allclose, assert_array_equal
from potentials import (
    PRODUCTS,
    assert_finite,
    each_dtype,
    each_product,
    gains,
    layers,
    log_marginals,
)

from skmrf.variational.bipartite import (
    UnitBeliefs,
    coordinate_ascent,
    mean_field,
    propagate,
    unit_probabilities,
)

# Batches of rows --------------------------------------------------------------------------


def assert_same(first, second):
    for a, b in zip(first, second, strict=True):
        assert_array_equal(a, b)


@each_dtype
@each_product
def test_blocks_of_rows(product, dtype, seed):
    """The result of a row does not depend on other rows or on threads."""
    rng = np.random.default_rng(seed)
    weights, visible, hidden = layers(rng, 6, 5, n_rows=70, scale=1.5, dtype=dtype)
    options = {"product": product, "max_iter": 20, "pairs": product == "sum"}
    found = propagate(weights, visible, hidden, n_jobs=1, **options)
    assert_same(found, propagate(weights, visible, hidden, n_jobs=2, **options))
    pairs = 0.0
    for k in range(70):
        row = propagate(weights, visible[k : k + 1], hidden[k : k + 1], **options)
        for name in ("visible", "hidden", "converged", "n_iter"):
            assert_array_equal(getattr(found, name)[k], getattr(row, name)[0])
        pairs = pairs + row.pairs / 70 if product == "sum" else pairs
    if product == "sum":
        assert_allclose(found.pairs, pairs, rtol=0, atol=1e-12 if dtype is np.float64 else 1e-6)
        assert len(np.unique(found.n_iter)) > 1


def test_blocks_of_rows_in_coordinate_ascent(seed):
    rng = np.random.default_rng(seed)
    weights, visible, hidden = layers(rng, 6, 5, n_rows=70, scale=2.0)
    start = rng.integers(0, 2, size=visible.shape).astype(float)
    found = coordinate_ascent(weights, visible, hidden, start, n_jobs=1)
    assert found.pairs is None
    assert_same(found[:2], coordinate_ascent(weights, visible, hidden, start, n_jobs=2)[:2])
    for k in range(70):
        rows = slice(k, k + 1)
        row = coordinate_ascent(weights, visible[rows], hidden[rows], start[rows])
        assert_array_equal(found.visible[rows], row.visible)
        assert found.n_iter[k] == row.n_iter[0]


@each_dtype
def test_no_rows(dtype):
    arrays = layers(np.random.default_rng(0), 3, 2, n_rows=0, dtype=dtype)
    for found in (
        propagate(*arrays, pairs=True),
        propagate(*arrays, pairs=True, n_jobs=2),
        mean_field(*arrays, pairs=True),
        coordinate_ascent(*arrays, np.zeros((0, 3), dtype=dtype)),
    ):
        assert isinstance(found, UnitBeliefs)
        assert [a.shape for a in (found.visible, found.hidden)] == [(0, 3), (0, 2)]
        assert [a.shape for a in (found.converged, found.n_iter)] == [(0,), (0,)]
        assert found.visible.dtype == dtype
        if found.pairs is not None:
            assert_array_equal(found.pairs, np.zeros((3, 2)))


@each_dtype
def test_arguments_are_not_modified(dtype, seed):
    """Check read-only arguments in any memory order."""
    rng = np.random.default_rng(seed)
    arrays = layers(rng, 5, 4, n_rows=3, dtype=dtype)
    start = (arrays[1] > 0).astype(dtype)
    plain = [
        propagate(*arrays, pairs=True),
        mean_field(*arrays, pairs=True),
        coordinate_ascent(*arrays, start),
    ]
    turned = [np.asfortranarray(a) for a in (*arrays, start)]
    for a in turned:
        a.flags.writeable = False
    *turned, start = turned
    again = [
        propagate(*turned, pairs=True),
        mean_field(*turned, pairs=True),
        coordinate_ascent(*turned, start),
    ]
    within = 1e-12 if dtype is np.float64 else 1e-5
    for before, after in zip(plain, again, strict=True):
        assert_allclose(before.visible, after.visible, rtol=within, atol=within)
        assert_allclose(before.hidden, after.hidden, rtol=within, atol=within)


# Repeated calls ---------------------------------------------------------------------------


def run_in_new_thread(*arrays, **options):
    """Return the result of a thread that has no arrays from earlier calls."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(propagate, *arrays, max_iter=7, **options).result()


def same_as_in_a_new_thread(*arrays):
    found = propagate(*arrays, max_iter=7, pairs=True)
    for a, b in zip(found, run_in_new_thread(*arrays, pairs=True), strict=True):
        assert_array_equal(a, b)
        assert a.dtype == b.dtype


@each_dtype
@pytest.mark.parametrize("row", [0, 4])
def test_weights_changed_in_place(dtype, row, seed):
    weights, *fields = layers(np.random.default_rng(seed), 5, 3, 2, dtype=dtype)
    for size in 1.0, -2.0, 40.0, np.nan, 0.5:
        weights[row, 1] = size
        if np.isnan(size):
            with pytest.raises(ValueError, match="weights of absolute value at most"):
                propagate(weights, *fields)
        else:
            same_as_in_a_new_thread(weights, *fields)
            same_as_in_a_new_thread(weights, *fields)


def test_weights_that_differ_in_type_shape_or_order(seed):
    weights, visible, hidden = layers(np.random.default_rng(seed), 6, 3, 2, dtype=np.float32)
    arrays = weights, visible, hidden
    same_as_in_a_new_thread(*arrays)
    same_as_in_a_new_thread(*(a.astype(float) for a in arrays))
    same_as_in_a_new_thread(*arrays)
    same_as_in_a_new_thread(np.asfortranarray(weights), visible, hidden)
    same_as_in_a_new_thread(weights[:4], visible[:, :4], hidden)
    same_as_in_a_new_thread(*arrays)
    start = (visible > 0).astype(np.float32)
    first = coordinate_ascent(*arrays, start)
    propagate(-weights, visible, hidden)
    for a, b in zip(first, coordinate_ascent(*arrays, start), strict=True):
        assert_array_equal(a, b)


# Coordinate ascent -------------------------------------------------------------------------------


def test_coordinate_ascent(seed):
    """The value never decreases, and the last state is a local maximum with correct log odds."""
    rng = np.random.default_rng(seed)
    for _ in range(25):
        size = int(rng.integers(1, 8)), int(rng.integers(0, 6))
        weights, visible, hidden = layers(rng, *size, scale=2.0)
        V, scores = log_marginals(weights, visible[0], hidden[0])
        value = dict(zip(map(tuple, V.astype(int).tolist()), scores, strict=True))
        start = rng.integers(0, 2, size=(1, size[0])).astype(float)
        path = [tuple(start[0].astype(int).tolist())]
        for n_sweeps in range(1, 10):
            found = coordinate_ascent(weights, visible, hidden, start, max_iter=n_sweeps)
            state = found.visible[0] > 0
            path.append(tuple(state.astype(int).tolist()))
            assert_allclose(found.hidden[0], state @ weights + hidden[0], rtol=0, atol=1e-10)
        assert found.converged[0]
        assert (np.diff([value[v] for v in path]) >= -1e-10).all()
        assert found.n_iter[0] == next(k for k, v in enumerate(path) if v == path[-1]) + 1
        gain = gains(scores, V, path[-1])
        assert (gain <= 1e-10).all()
        assert_allclose(found.visible[0], np.where(path[-1], -gain, gain), rtol=0, atol=1e-10)


@each_dtype
def test_ties_converge(dtype, seed):
    """Units without any preference converge although rounding errors differ by state."""
    rng = np.random.default_rng(seed)
    for weights in (np.zeros((5, 30)), np.repeat(rng.normal(size=(1, 30)), 5, axis=0)):
        hidden = rng.normal(size=(200, 30)).astype(dtype)
        zeros = np.zeros((200, 5), dtype=dtype)
        weights = weights.astype(dtype)
        odds = coordinate_ascent(weights, zeros, hidden, zeros, max_iter=1).visible[:, :1]
        for visible in (zeros, np.broadcast_to(-odds, zeros.shape)):
            for start in (zeros, zeros + 1):
                found = coordinate_ascent(weights, visible, hidden, start, max_iter=20)
                assert found.converged.all()
                assert (found.n_iter < 10).all()


@each_dtype
def test_large_gains_in_coordinate_ascent(dtype, seed):
    rng = np.random.default_rng(seed)
    for size in (3.0, 34.0, 290.0):
        weights, visible, hidden = layers(rng, 6, 4, n_rows=8, field=size, dtype=dtype)
        weights = np.clip(size * weights, -size, size)
        found = coordinate_ascent(weights, visible, hidden, np.zeros_like(visible))
        assert_finite(found, dtype)
        assert found.converged.all()
        for k in range(8):
            V, scores = log_marginals(*(a.astype(float) for a in (weights, visible[k], hidden[k])))
            gain = gains(scores, V, found.visible[k] > 0)
            expected = np.where(found.visible[k] > 0, -gain, gain)
            within = 1e-10 if dtype is np.float64 else 3e-6
            assert_allclose(found.visible[k], expected, rtol=within, atol=within * 6 * size)


# Mean field --------------------------------------------------------------------------------------


def bound(weights, visible, hidden, p, q):
    """Return the mean-field lower bound of log Z."""
    entropy = sum(-(r * np.log(r) + (1 - r) * np.log1p(-r)).sum() for r in (p, q))
    return p @ weights @ q + p @ visible + q @ hidden + entropy


def test_mean_field_equations(seed):
    weights, visible, hidden = layers(np.random.default_rng(seed), 7, 5, n_rows=20, scale=0.5)
    found = mean_field(weights, visible, hidden, max_iter=2000, tol=1e-13, pairs=True)
    p, q = (unit_probabilities(a) for a in (found.visible, found.hidden))
    assert found.converged.all()
    assert (found.n_iter < 2000).all()
    assert_allclose(found.hidden, p @ weights + hidden, rtol=0, atol=1e-10)
    assert_allclose(found.visible, q @ weights.T + visible, rtol=0, atol=1e-10)
    assert_allclose(found.pairs, p.T @ q / 20, rtol=0, atol=1e-14)


def test_mean_field_bound_increases(seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        weights, visible, hidden = layers(rng, 5, 4, scale=1.5)
        _, scores = log_marginals(weights, visible[0], hidden[0])
        values = []
        for n_iter in range(1, 12):
            found = mean_field(weights, visible, hidden, max_iter=n_iter, tol=-1.0)
            p, q = (unit_probabilities(a)[0] for a in (found.visible, found.hidden))
            values.append(bound(weights, visible[0], hidden[0], p, q))
        assert (np.diff(values) >= -1e-10).all()
        assert values[-1] < twins.log_sum(scores)


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_mean_field_rows_stop_independently(tol, seed):
    weights, visible, hidden = layers(np.random.default_rng(seed), 7, 5, n_rows=40, scale=1.5)
    found = mean_field(weights, visible, hidden, max_iter=15, tol=tol)
    assert len(np.unique(found.n_iter)) > 1
    assert_array_equal(found.converged | (found.n_iter == 15), True)
    for k in range(40):
        row = mean_field(weights, visible[k : k + 1], hidden[k : k + 1], max_iter=15, tol=tol)
        assert found.n_iter[k] == row.n_iter[0]
        assert found.converged[k] == row.converged[0]
        assert_allclose(found.visible[k], row.visible[0], rtol=1e-12, atol=1e-12)
        assert_allclose(found.hidden[k], row.hidden[0], rtol=1e-12, atol=1e-12)


def test_without_hidden_units_visible_units_are_independent(seed):
    arrays = layers(np.random.default_rng(seed), 4, 0, n_rows=3)
    for found in (
        *(propagate(*arrays, product=p) for p in PRODUCTS),
        mean_field(*arrays),
        coordinate_ascent(*arrays, np.ones((3, 4))),
    ):
        assert_array_equal(found.visible, arrays[1])
        assert found.hidden.shape == (3, 0)
        assert found.converged.all()
