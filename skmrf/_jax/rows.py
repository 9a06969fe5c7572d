r"""Computations for all rows together in JAX: inference in bipartite models, and sums of terms.

The messages of inference are those of :mod:`skmrf._kernels.bipartite`: ratios of the values for the
states 1 and 0. Here each row keeps its messages from hidden to visible units in an array of shape
(n_hidden, n_visible), in float32. Sums of terms, such as log-likelihoods, are computed in float64.
"""

import jax
import jax.numpy as jnp
import numpy as np

try:
    from jax import enable_x64
except ImportError:  # before JAX 0.8
    from jax.experimental import enable_x64

from .._utils.namespaces import is_numpy
from .chains import compiled, padded_blocks

BLOCK_ENTRIES = 2**24  # of rows that are converted to float64 together
LARGEST_WEIGHT = 80.0  # larger weights are clipped, because exp overflows
BOUND = 86.0  # of logits, for the same reason


def iterate_rows(step, state, max_iter):
    """Repeat a step until it has converged for each row, or ``max_iter`` times.

    Parameters
    ----------
    step : callable
        Function ``(count, state) -> (state, moving)``. ``count`` is the number of earlier steps,
        and ``moving`` is True for the rows that have not converged.
    state : tuple of arrays
        Arrays with one entry per row along their first axis. Rows that have converged keep their
        entries.
    max_iter : int
        Maximum number of steps, at least 1.

    Returns
    -------
    state : tuple of arrays
        Last entries of each row.
    converged : array of bool of shape (n_rows,)
        Whether each row has converged.
    n_iter : array of int of shape (n_rows,)
        Number of steps of each row.
    """

    def repeat(carry):
        count, active, n_iter, state = carry
        new, moving = step(count, state)
        state = tuple(map(lambda old, after: _where(active, after, old), state, new))
        return count + 1, active & moving, n_iter + active, state

    def goes_on(carry):
        return (carry[0] < max_iter) & carry[1].any()

    n_rows = len(state[0])
    first = 0, jnp.ones(n_rows, bool), jnp.zeros(n_rows, jnp.int32), state
    _, active, n_iter, state = jax.lax.while_loop(goes_on, repeat, first)
    return state, ~active, n_iter


def _where(rows, a, b):
    return jnp.where(rows.reshape(-1, *[1] * (a.ndim - 1)), a, b)


def propagate(weights, visible_fields, hidden_fields, product, max_iter, tol, pairs):
    """Run belief propagation; see :func:`skmrf.variational.bipartite.propagate`.

    Returns
    -------
    tuple
        The fields of :class:`~skmrf.variational.bipartite.UnitBeliefs`.
    """
    w = jnp.exp(jnp.clip(weights, -LARGEST_WEIGHT, LARGEST_WEIGHT)).T
    combine = jnp.maximum if product == "max" else jnp.add

    def incoming(logits, sent):
        """Return the messages to the hidden units, and their sums of logs."""
        one, zero = (p[:, None] for p in _beliefs(logits))
        if product == "mixed":
            received = jnp.where(one > 0.5, w, 1.0)
        else:
            received = combine(zero * sent, one * w) / combine(zero * sent, one)
        return received, jnp.log(received).sum(axis=2)

    def step(count, state):
        logits, sent = state
        received, sums = incoming(logits, sent)
        received = jnp.where(count > 0, received, 1.0)
        on, off = (p[..., None] for p in _beliefs(hidden_fields + jnp.where(count > 0, sums, 0.0)))
        sent = combine(off * received, on * w) / combine(off * received, on)
        new = visible_fields + jnp.log(sent).sum(axis=1)
        moved = jnp.abs(_beliefs(new)[0] - _beliefs(logits)[0]) > tol
        return (new, sent), jnp.where(count > 0, moved.any(axis=1), tol < 1.0)

    sent = jnp.ones((len(visible_fields), *w.shape), w.dtype)
    (logits, sent), converged, n_iter = iterate_rows(step, (visible_fields, sent), max_iter)
    hidden = hidden_fields + incoming(logits, sent)[1]
    mean = None
    if pairs:
        one, zero = (p[:, None] for p in _beliefs(logits))
        given_hidden = one * w / (zero * sent + one * w)
        mean = (_beliefs(hidden)[0][..., None] * given_hidden).mean(axis=0).T
    return logits, hidden, mean, converged, n_iter


def ascend(weights, visible_fields, hidden_fields, start, max_iter):
    """Run coordinate ascent; see :func:`skmrf.variational.bipartite.coordinate_ascent`.

    Returns
    -------
    tuple
        The fields of :class:`~skmrf.variational.bipartite.UnitBeliefs`.
    """
    n_visible, n_hidden = weights.shape
    rounding = 8.0 * jnp.finfo(weights.dtype).eps

    def update(i, carry):
        V, logits, out, changed = carry
        state = V[:, i] > 0
        sign = jnp.where(state, -1.0, 1.0)[:, None]
        one, zero = _beliefs(logits)
        factors = zero + one * jnp.exp(jnp.clip(sign * weights[i], -BOUND, BOUND))
        odds = visible_fields[:, i] + sign[:, 0] * jnp.log(factors).sum(axis=1)
        tie = rounding * (n_hidden + jnp.abs(visible_fields[:, i]))
        odds = jnp.where(~state & (odds > 0) & (odds <= tie), 0.0, odds)
        flips = (odds > 0) != state
        logits = logits + flips[:, None] * sign * weights[i]
        V = V.at[:, i].set((odds > 0).astype(V.dtype))
        return V, logits, out.at[:, i].set(odds), changed | flips

    def step(_, state):
        *state, changed = jax.lax.fori_loop(0, n_visible, update, (*state, nothing))
        return tuple(state), changed

    nothing = jnp.zeros(len(start), bool)
    V = start.astype(weights.dtype)
    state = V, V @ weights + hidden_fields, jnp.zeros_like(V)
    (V, _, out), converged, n_iter = iterate_rows(step, state, max_iter)
    return out, V @ weights + hidden_fields, None, converged, n_iter


def _beliefs(logits):
    """Return the probabilities of the states 1 and 0, each of them accurate even if it is small."""
    logits = jnp.clip(logits, -BOUND, BOUND)
    return jax.nn.sigmoid(logits), jax.nn.sigmoid(-logits)


class WeightedSum:
    """Function of parameters with a term for each row, computed by a device in float64.

    Parameters
    ----------
    sums : RowSums
        Compiled functions.
    device : Device
        Device that computes.
    X, weights
        Parameters of :meth:`Device.weighted_sum`.
    """

    def __init__(self, sums, device, X, weights):
        n_rows, n_columns = X.shape
        largest = 1 << int(np.log2(max(BLOCK_ENTRIES // max(n_columns, 1), 1)))
        size = padded_blocks(n_rows, largest).shape[1]
        n_padded = -(-n_rows // size) * size if is_numpy(X) else n_rows
        if n_padded > n_rows:  # so that few sizes are compiled
            X = np.concatenate([X, np.zeros((n_padded - n_rows, n_columns), X.dtype)])
        self.sums, self.device, self.size = sums, device, min(size, n_padded)
        self.X, weights = device.put(X), np.pad(weights, (0, n_padded - n_rows))
        with enable_x64(True):
            self.weights = jax.device_put(weights.astype(float), device.device)

    def value(self, theta):
        """Return the value for parameters of numpy."""
        return float(self._compute(theta, has_gradient=False))

    def value_and_gradient(self, theta):
        """Return the value, and a dict of numpy arrays of float64 with the gradient."""
        value, gradient = self._compute(theta, has_gradient=True)
        return float(value), {k: np.asarray(gradient[k]) for k in theta}

    def _compute(self, theta, has_gradient):
        given = self.X, self.weights, self.size, has_gradient
        with self.device.context(), enable_x64(True):
            theta = {k: np.asarray(v, dtype=float) for k, v in theta.items()}
            theta = jax.device_put(theta, self.device.device)
            return jax.device_get(self.sums.compiled(theta, *given))


class RowSums:
    """Compiled sums of terms of rows, which are added block by block."""

    def __init__(self, functions):
        self.terms, self.constant = functions
        self.compiled = compiled(self._add, static_argnums=(3, 4))

    def _add(self, theta, X, weights, size, has_gradient):
        transform = jax.value_and_grad if has_gradient else lambda function: function
        constant, part = transform(self.constant), transform(self._sum_block)

        def add(k, total):
            # The last block may begin with rows of the block before it.
            start = jnp.minimum(k * size, len(X) - size)
            is_new = start + jnp.arange(size) >= k * size
            own = jax.lax.dynamic_slice_in_dim(weights, start, size) * is_new
            rows = jax.lax.dynamic_slice_in_dim(X, start, size)
            return jax.tree.map(jnp.add, total, part(theta, rows, own))

        return jax.lax.fori_loop(0, -(-len(X) // size), add, constant(theta))

    def _sum_block(self, theta, rows, weights):
        return weights @ self.terms(theta, rows)
