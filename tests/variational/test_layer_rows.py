"""Tests of batches of rows, and of one call after another, of messages between two layers."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from layer_potentials import each_dtype, each_product, layers
from numpy.testing import assert_allclose, assert_array_equal

from skmrf.variational.bipartite import UnitBeliefs, coordinate_ascent, mean_field, propagate

# Rows -------------------------------------------------------------------------------------


def assert_same(first, second):
    for a, b in zip(first, second, strict=True):
        assert_array_equal(a, b)


@each_dtype
@each_product
def test_blocks_of_rows(product, dtype, seed):
    """Neither other rows nor threads have an influence on a row."""
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
def test_arguments_stay_as_they_are(dtype, seed):
    """Read-only ones, in any order in memory."""
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


# Calls one after the other ----------------------------------------------------------------


def in_a_new_thread(*arrays, **options):
    """What a thread finds that keeps nothing from earlier calls."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(propagate, *arrays, max_iter=7, **options).result()


def same_as_in_a_new_thread(*arrays):
    found = propagate(*arrays, max_iter=7, pairs=True)
    for a, b in zip(found, in_a_new_thread(*arrays, pairs=True), strict=True):
        assert_array_equal(a, b)
        assert a.dtype == b.dtype


@each_dtype
@pytest.mark.parametrize("row", [0, 4])
def test_weights_changed_in_place(dtype, row, seed):
    weights, *fields = layers(np.random.default_rng(seed), 5, 3, 2, dtype=dtype)
    for size in 1.0, -2.0, 40.0, np.nan, 0.5:
        weights[row, 1] = size
        if np.isnan(size):
            with pytest.raises(ValueError, match="weights of up to"):
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
