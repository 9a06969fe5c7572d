"""Models of outputs given inputs, enumerated."""

import numpy as np
import twins
from numpy.testing import assert_allclose

from skmrf._utils.batch import Batch
from skmrf._utils.codes import STATE
from skmrf.energies import ConditionalBipartiteEnergy


def conditional(seed, n_visible=4, n_hidden=3, n_inputs=2, *, scale=1.0, dtype=float):
    rng = np.random.default_rng(seed)
    shapes = (n_visible, n_hidden), (n_inputs, n_visible), (n_inputs, n_hidden)
    arrays = (rng.normal(0.0, scale, s) for s in (*shapes, (n_visible,), (n_hidden,)))
    return ConditionalBipartiteEnergy(*(a.astype(dtype) for a in arrays))


def rows_of(energy, n_rows, seed):
    rng = np.random.default_rng(seed + 1)
    n_inputs, n_visible = energy.theta["visible_inputs"].shape
    X = rng.normal(size=(n_rows, n_inputs))
    return Batch(X, rng.integers(0, 2, size=(n_rows, n_visible)).astype(STATE))


def tables(energy, X):
    """For every row, log f of all states of visible units (rows) and hidden ones (columns)."""
    V = H = None
    out = []
    for fields in zip(*energy.fields(X), strict=True):
        V, H, log_f = twins.layer_table(energy.weights, *fields)
        out.append(log_f)
    return V, H, np.array(out)


def log_sums(log_f):
    """Log of the sum over hidden states, of every row and visible state."""
    return np.logaddexp.reduce(log_f, axis=2)


def numbers(V, Y):
    """Which of the states V the rows of Y are."""
    return np.array([np.flatnonzero((y == V).all(axis=1))[0] for y in Y])


def of_states(values, which):
    return values[np.arange(len(values)), which]


def learn(learner, energy, batch, seed=0):
    """One step from a fresh state: both phases and what is told of them."""
    rng = np.random.default_rng(seed)
    state = learner.init(energy, batch, rng)
    positive, negative, _, info = learner.step(energy, batch, state, rng)
    return positive, negative, info


def gradient_of(learner, energy, batch, seed=0):
    return energy.gradient(*learn(learner, energy, batch, seed)[:2], batch)


def assert_same(left, right, **within):
    assert left.keys() == right.keys()
    for name in left:
        assert_allclose(left[name], right[name], err_msg=name, **within)
