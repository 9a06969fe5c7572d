"""Tests of messages between two layers, of coordinate ascent and of mean field.

Small tests also run with NUMBA_DISABLE_JIT=1.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import twins
from numba import config
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
from twins import propagate_matrices

from skmrf.variational.bipartite import (
    UnitBeliefs,
    coordinate_ascent,
    mean_field,
    propagate,
    unit_probabilities,
)

SIZES = [(1, 1), (1, 6), (6, 1), (12, 12), (12, 3), (3, 12), (4, 0), (1, 0)]

compiled = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="too large without compilation")


def forest(rng, n_visible, n_hidden):
    """Return weights whose non-zero entries form a forest."""
    weights, tree = np.zeros((n_visible, n_hidden)), np.arange(n_visible + n_hidden)
    for edge in rng.permutation(n_visible * n_hidden):
        i, j = divmod(int(edge), n_hidden)
        ends = tree[i], tree[n_visible + j]
        if ends[0] != ends[1] and rng.random() < 0.95:
            tree[tree == ends[1]] = ends[0]
            weights[i, j] = rng.normal(0.0, 2.0)
    return weights


def trees(seed, n_models):
    """Yield two-layer models whose weights form a forest; every second has one hidden unit."""
    rng = np.random.default_rng(seed)
    for k in range(n_models):
        n_visible = int(rng.integers(1, 7))
        n_hidden = 1 if k % 2 else int(rng.integers(1, 6))
        weights, visible, hidden = layers(rng, n_visible, n_hidden, scale=2.0)
        yield weights if n_hidden == 1 else forest(rng, n_visible, n_hidden), visible, hidden


def log_ratio(log_f, ones):
    """Return the log ratio of the sum over some states to the sum over the others."""
    return twins.log_sum(log_f[ones]) - twins.log_sum(log_f[~ones])


def best_ratio(log_f, ones):
    return log_f[ones].max() - log_f[~ones].max()


# Comparison with other implementations ----------------------------------------------------


@each_dtype
@each_product
def test_equals_matrix_products(product, dtype, seed):
    rng = np.random.default_rng(seed)
    sizes = SIZES + [tuple(rng.integers(1, 13, size=2)) for _ in range(12)]
    within = 1e-10 if dtype is np.float64 else 1e-5
    for size in sizes:
        arrays = layers(rng, *size, n_rows=3, scale=0.7, dtype=dtype)
        weights, visible, hidden = (a.astype(float) for a in arrays)
        for n_iter in (1, 2, 8) if dtype is np.float64 else (1, 2):  # max-product amplifies errors
            options = {"product": product, "max_iter": n_iter, "tol": -1.0}
            found = propagate(*arrays, pairs=product == "sum", **options)
            twin = [
                propagate_matrices(weights, v, h, **options)
                for v, h in zip(visible, hidden, strict=True)
            ]
            shown, odds, pairs, converged, counts = zip(*twin, strict=True)
            assert_allclose(found.visible, np.concatenate(shown), rtol=within, atol=within)
            assert_allclose(found.hidden, np.concatenate(odds), rtol=within, atol=within)
            assert_array_equal(found.n_iter, np.concatenate(counts))
            assert_array_equal(found.converged, np.concatenate(converged))
            if product == "sum":
                assert_allclose(found.pairs, np.mean(pairs, axis=0), rtol=0, atol=within)
            else:
                assert found.pairs is None


@each_product
def test_stops_at_the_same_iteration_as_matrix_products(product, seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        size = rng.integers(1, 10, size=2)
        weights, visible, hidden = layers(rng, *size, n_rows=5, scale=0.7)
        options = {"product": product, "max_iter": 60, "tol": 1e-3}
        found = propagate(weights, visible, hidden, **options)
        for k, fields in enumerate(zip(visible, hidden, strict=True)):
            twin = propagate_matrices(weights, *fields, **options)
            assert found.n_iter[k] == twin.n_iter[0]
            assert found.converged[k] == twin.converged[0]
            if twin.converged[0]:
                assert_allclose(found.visible[k], twin.visible[0], rtol=0, atol=1e-6)


@each_product
def test_equals_the_log_domain(product, seed):
    """The weights are too large for matrix products."""
    rng = np.random.default_rng(seed)
    for scale in (0.1, 3.0, 30.0):
        weights, visible, hidden = layers(rng, 7, 5, n_rows=4, scale=scale, field=scale)
        found = propagate(
            weights, visible, hidden, product=product, max_iter=3, tol=-1.0, pairs=product == "sum"
        )
        twin = [
            twins.layer_messages(weights, v, h, 3, product=product)
            for v, h in zip(visible, hidden, strict=True)
        ]
        shown, odds, pairs = (np.array(a) for a in zip(*twin, strict=True))
        assert_allclose(found.visible, shown, rtol=1e-10, atol=1e-9)
        assert_allclose(found.hidden, odds, rtol=1e-10, atol=1e-9)
        if product == "sum":
            assert_allclose(found.pairs, pairs.mean(axis=0), rtol=0, atol=1e-10)


@compiled
@each_dtype
@each_product
@pytest.mark.parametrize("spread", [0.05, 1.0, 8.0])
def test_products_over_several_segments(product, dtype, spread, seed):
    """Sums of absolute weights go from 10 to 1300, so products are split into segments."""
    rng = np.random.default_rng(seed)
    weights, visible, hidden = layers(rng, 200, 100, scale=spread, dtype=dtype)
    weights = np.clip(weights, -30.0, 30.0)
    found = propagate(
        weights, visible, hidden, product=product, max_iter=2, tol=-1.0, pairs=product == "sum"
    )
    shown, odds, pairs = twins.layer_messages(weights, visible[0], hidden[0], 2, product=product)
    within = 1e-10 if dtype is np.float64 else 2e-4
    assert_allclose(found.visible[0], shown, rtol=within, atol=within * spread * 10)
    assert_allclose(found.hidden[0], odds, rtol=within, atol=within * spread * 10)
    if product == "sum":
        assert_allclose(found.pairs, pairs, rtol=0, atol=within * spread * 10)


@compiled
@each_dtype
@each_product
@pytest.mark.parametrize("share", [0.99, 1.01, 2.5])
def test_products_at_the_limit_of_a_segment(product, dtype, share):
    """Check weights of either sign whose sums are close to the limit of a segment."""
    limit = 80.0 if dtype is np.float32 else 600.0
    size = share * limit / 100
    weights = np.full((200, 2), size, dtype=dtype)
    weights[100:] = -size
    weights[:, 1] *= -1
    visible, hidden = np.zeros((3, 200), dtype=dtype), np.zeros((3, 2), dtype=dtype)
    visible += np.array([[-9], [0], [9]], dtype=dtype)  # almost surely off, unknown, surely on
    for turned in (False, True):
        arrays = (weights.T, hidden, visible) if turned else (weights, visible, hidden)
        found = propagate(*arrays, product=product, max_iter=2, tol=-1.0)
        for k in range(3):
            fields = arrays[1][k].astype(float), arrays[2][k].astype(float)
            shown, odds, _ = twins.layer_messages(
                arrays[0].astype(float), *fields, 2, product=product
            )
            within = 1e-9 if dtype is np.float64 else 1e-4
            assert_allclose(found.visible[k], shown, rtol=within, atol=within * limit)
            assert_allclose(found.hidden[k], odds, rtol=within, atol=within * limit)


# Enumeration ------------------------------------------------------------------------------


def test_marginals_of_trees(seed):
    for weights, visible, hidden in trees(seed, 24):
        found = propagate(weights, visible, hidden, max_iter=15, tol=-1.0, pairs=True)
        V, H, log_f = twins.layer_table(weights, visible[0], hidden[0])
        for i in range(V.shape[1]):
            expected = log_ratio(log_f, V[:, i] > 0)
            assert_allclose(found.visible[0, i], expected, rtol=0, atol=1e-10)
        for j in range(H.shape[1]):
            expected = log_ratio(log_f.T, H[:, j] > 0)
            assert_allclose(found.hidden[0, j], expected, rtol=0, atol=1e-10)
        p = np.exp(log_f - twins.log_sum(log_f.ravel()))
        assert_allclose(found.pairs[weights != 0], (V.T @ p @ H)[weights != 0], rtol=0, atol=1e-10)
        assert not np.isnan(found.pairs).any()


def test_joint_modes_of_trees(seed):
    for weights, visible, hidden in trees(seed, 24):
        found = propagate(weights, visible, hidden, product="max", max_iter=15, tol=-1.0)
        V, H, log_f = twins.layer_table(weights, visible[0], hidden[0])
        for i in range(V.shape[1]):
            expected = best_ratio(log_f, V[:, i] > 0)
            assert_allclose(found.visible[0, i], expected, rtol=0, atol=1e-10)
        for j in range(H.shape[1]):
            expected = best_ratio(log_f.T, H[:, j] > 0)
            assert_allclose(found.hidden[0, j], expected, rtol=0, atol=1e-10)
        v, h = np.unravel_index(np.argmax(log_f), log_f.shape)
        assert_array_equal(found.visible[0] > 0, V[v] > 0)
        assert_array_equal(found.hidden[0] > 0, H[h] > 0)


def test_iterations_until_a_tree_is_exact(seed):
    """Visible units of a single hidden unit need two iterations; one is too few."""
    weights, visible, hidden = layers(np.random.default_rng(seed), 6, 1, scale=2.0)
    V, _, log_f = twins.layer_table(weights, visible[0], hidden[0])
    expected = [log_ratio(log_f, V[:, i] > 0) for i in range(6)]
    one, two = (propagate(weights, visible, hidden, max_iter=n, tol=-1.0) for n in (1, 2))
    assert_allclose(two.visible[0], expected, rtol=0, atol=1e-10)
    assert np.abs(one.visible[0] - expected).max() > 1e-3


def test_mixed_product_ends_at_local_maxima(seed):
    rng = np.random.default_rng(seed)
    n_converged = 0
    for _ in range(40):
        weights, visible, hidden = layers(rng, *rng.integers(1, 7, size=2), scale=2.0)
        found = propagate(weights, visible, hidden, product="mixed", max_iter=40, tol=0.0)
        if not found.converged[0]:
            continue
        n_converged += 1
        assert found.n_iter[0] < 40  # a change of zero counts as converged
        V, scores = log_marginals(weights, visible[0], hidden[0])
        state = found.visible[0] > 0
        gain = gains(scores, V, state)
        assert (gain <= 1e-10).all()
        assert_allclose(found.visible[0], np.where(state, -gain, gain), rtol=0, atol=1e-10)
        assert_allclose(found.hidden[0], state @ weights + hidden[0], rtol=0, atol=1e-10)
    assert n_converged >= 20


def test_mixed_product_finds_the_only_local_maximum(seed):
    """The models have only one state that no single change improves."""
    rng = np.random.default_rng(seed)
    n_models = 0
    while n_models < 15:
        weights, visible, hidden = layers(rng, 4, 3, scale=0.5)
        V, scores = log_marginals(weights, visible[0], hidden[0])
        if sum((gains(scores, V, v) < 0).all() for v in V) != 1:
            continue
        n_models += 1
        best = V[np.argmax(scores)]
        for start in (np.zeros((1, 4)), np.ones((1, 4))):
            found = coordinate_ascent(weights, visible, hidden, start)
            assert_array_equal(found.visible[0] > 0, best)
        found = propagate(weights, visible, hidden, product="mixed", tol=0.0)
        assert not found.converged[0] or ((found.visible[0] > 0) == best).all()


def test_oscillation_does_not_count_as_converged():
    """Each of two units prefers to be the only one in state 1, so both oscillate."""
    weights = np.array([[10.0], [-10.0]])
    visible, hidden = np.array([[-5.0, 5.0]]), np.zeros((1, 1))
    for n_iter in (30, 31):
        found = propagate(weights, visible, hidden, product="mixed", max_iter=n_iter)
        assert not found.converged[0]
        assert found.n_iter[0] == n_iter
    found = coordinate_ascent(weights, visible, hidden, np.zeros((1, 2)))
    assert found.converged[0]
    assert found.n_iter[0] == 2
    assert_array_equal(found.visible > 0, [[True, False]])


# Pairwise beliefs -------------------------------------------------------------------------


def test_pairs_satisfy_probability_bounds_at_fixed_points(seed):
    """The probability that both units are 1 lies within the bounds given by their marginals."""
    rng = np.random.default_rng(seed)
    for _ in range(10):
        arrays = layers(rng, 6, 5, scale=1.0)
        found = propagate(*arrays, max_iter=500, tol=1e-13, pairs=True)
        if not found.converged[0]:
            continue
        p, q = unit_probabilities(found.visible)[0][:, None], unit_probabilities(found.hidden)
        assert (found.pairs <= np.minimum(p, q) + 1e-10).all()
        assert (found.pairs >= np.maximum(p + q - 1, 0) - 1e-10).all()
        assert_array_equal(np.sign(found.pairs - p * q), np.sign(arrays[0]))


@pytest.mark.parametrize("n_iter", [1, 2, 5])
def test_pairs_are_consistent_with_hidden_units(n_iter, seed):
    """The last messages go to hidden units; pairs agree with visible units at fixed points only."""
    weights, visible, hidden = layers(np.random.default_rng(seed), 6, 4, scale=2.0)
    found = propagate(weights, visible, hidden, max_iter=n_iter, tol=-1.0, pairs=True)
    q = unit_probabilities(found.hidden)
    assert (found.pairs < q).all()
    # States of a visible unit given that a hidden unit is 1, and given that it is 0:
    *_, pairs = twins.layer_messages(weights, visible[0], hidden[0], n_iter)
    *_, others = twins.layer_messages(weights, visible[0], hidden[0], n_iter, absent=True)
    assert_allclose(found.pairs, pairs, rtol=0, atol=1e-12)
    assert_allclose(pairs + others, np.broadcast_to(q, pairs.shape), rtol=0, atol=1e-12)


# Large numbers ----------------------------------------------------------------------------


def large(kind, shape, rng, size=30.0):
    if kind == "dense":
        return np.clip(rng.normal(0.0, size / 2, size=shape), -size, size)
    signs = {"positive": np.ones(shape), "negative": -np.ones(shape)}
    return size * signs.get(kind, rng.choice([-1.0, 1.0], size=shape))


@each_dtype
@each_product
@pytest.mark.parametrize("kind", ["dense", "positive", "negative", "signs"])
@pytest.mark.parametrize(
    "shape", [(20, 15), pytest.param((784, 64), marks=[compiled]), (1, 30), (30, 1)]
)
def test_large_weights(shape, kind, product, dtype, seed):
    rng = np.random.default_rng(seed)
    weights = large(kind, shape, rng).astype(dtype)
    for field in (0.0, 1.0, 1000.0):
        _, visible, hidden = layers(rng, *shape, n_rows=2, field=field, dtype=dtype)
        found = propagate(
            weights, visible, hidden, product=product, max_iter=6, pairs=product == "sum"
        )
        assert_finite(found, dtype)
        assert_finite(coordinate_ascent(weights, visible, hidden, visible > 0), dtype)
        assert_finite(mean_field(weights, visible, hidden, pairs=True), dtype)


@each_product
def test_large_weights_use_double_precision(product, seed):
    rng = np.random.default_rng(seed)
    weights, visible, hidden = layers(rng, 9, 7, n_rows=3, scale=3.0, dtype=np.float32)
    weights[2, 3] = -36.0
    single = propagate(weights, visible, hidden, product=product, max_iter=4, pairs=True)
    double = propagate(
        *(a.astype(float) for a in (weights, visible, hidden)),
        product=product,
        max_iter=4,
        pairs=True,
    )
    for name in ("visible", "hidden", "pairs"):
        assert getattr(single, name).dtype == np.float32
        assert_array_equal(getattr(single, name), getattr(double, name).astype(np.float32))


@each_dtype
def test_too_large_weights_raise(dtype, seed):
    weights, visible, hidden = layers(np.random.default_rng(seed), 4, 3, dtype=dtype)
    calls = (propagate, lambda *a: coordinate_ascent(*a, np.zeros_like(visible)))
    for size in (300.0, -300.0):
        weights[1, 1] = size
        for call in calls:
            assert_finite(call(weights, visible, hidden), dtype)
    for size in (300.1, -1e6, np.nan):
        weights[1, 1] = size
        for call in calls:
            with pytest.raises(ValueError, match=r"needs weights of absolute value at most 300"):
                call(weights, visible, hidden)


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


def test_mean_field_equations(seed):
    weights, visible, hidden = layers(np.random.default_rng(seed), 7, 5, n_rows=20, scale=0.5)
    found = mean_field(weights, visible, hidden, max_iter=2000, tol=1e-13, pairs=True)
    p, q = (unit_probabilities(a) for a in (found.visible, found.hidden))
    assert found.converged.all()
    assert (found.n_iter < 2000).all()
    assert_allclose(found.hidden, p @ weights + hidden, rtol=0, atol=1e-10)
    assert_allclose(found.visible, q @ weights.T + visible, rtol=0, atol=1e-10)
    assert_allclose(found.pairs, p.T @ q / 20, rtol=0, atol=1e-14)


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
