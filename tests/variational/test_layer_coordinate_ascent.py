"""Tests of coordinate ascent in two layers."""

import numpy as np
from layer_potentials import assert_finite, each_dtype, gains, layers, log_marginals
from numpy.testing import assert_allclose

from skmrf.variational.bipartite import coordinate_ascent


def test_coordinate_ascent(seed):
    """Never lower, and at the end a state that no single change improves, with its log odds."""
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
def test_ties_end(dtype, seed):
    """Units that nothing tells what to be; rounding errors differ by state."""
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
