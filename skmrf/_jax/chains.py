"""Gibbs sweeps of many Markov chains in JAX.

All functions take arrays with one row per chain, of the states 0 and 1. Along a path, matrix
products have the full precision of float32, because rounded weights would be those of a model with
another log Z. In training, they have the default precision of the device.
"""

from contextlib import nullcontext
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas
from jax.experimental.pallas import triton
from jax.sharding import PartitionSpec

CHAINS = "skmrf_chains"  # axis that is divided among devices; not a name in a mesh of the user
PIECE = 250  # sweeps of a compiled path; longer paths are run in pieces of this length
CHAINS_A_KERNEL = 16, 4  # most and fewest of a kernel that draws variables one after the other
MAX_TILE = 2**15  # fields of such a kernel, so many that the registers of eight warps hold them
WARP_TILE = 2**12  # fields that the registers of a warp hold


class DeviceChains:
    """Random numbers and Gibbs sweeps of Markov chains on a device.

    It takes the place of the random generators of blocks of chains. Results are arrays of numpy,
    but arrays of JAX inside of a compiled function.

    Parameters
    ----------
    key : jax.Array
        Key of the random numbers. Each call uses a new key.
    device : Device, optional
        Device of the arrays; None inside of a compiled function.
    """

    def __init__(self, key, device=None):
        self.key = key
        self.device = device

    def split(self):
        """Return a new random key of JAX."""
        with nullcontext() if self.device is None else self.device.context():
            self.key, key = jax.random.split(self.key)
        return key

    def random(self, shape=(), dtype=np.float32):
        """Return uniform random numbers below 1; an int as ``shape`` is a length."""
        shape = (shape,) if isinstance(shape, int) else shape
        return jax.random.uniform(self.split(), shape, dtype)

    @staticmethod
    def full_precision():
        """Return a context in which matrix products have the full precision of float32."""
        return jax.default_matmul_precision("highest")

    def run_if(self, condition, move, arrays):
        """Return ``move(arrays, chains)`` if a condition holds, else the given tuple of arrays."""
        key = self.split()

        def moved(arrays):
            return _like(move(arrays, DeviceChains(key)), arrays)

        return jax.lax.cond(condition, moved, lambda arrays: arrays, _as_arrays(arrays))

    def run_while(self, condition, move, arrays):
        """Repeat ``arrays = move(arrays, chains)`` while ``condition(arrays)`` holds."""

        def repeat(carry):
            key, arrays = carry
            key, own = jax.random.split(key)
            return key, _like(move(arrays, DeviceChains(own)), arrays)

        first = self.split(), _as_arrays(arrays)
        return jax.lax.while_loop(lambda carry: condition(carry[1]), repeat, first)[1]

    def alternate(self, conditionals, H, n_sweeps):
        """Run Gibbs sweeps of two layers, starting from states of the hidden units.

        Returns
        -------
        V : array of shape (n_chains, n_visible)
            Visible states of the last sweep, with the data type of the weights.
        means : array of shape (n_chains, n_hidden)
            Means of the hidden units given ``V``.
        H : array of shape (n_chains, n_hidden)
            Hidden states, sampled with these means.
        """
        weights, visible_bias, hidden_bias = conditionals

        def step(carry, key):
            first, second = jax.random.split(key)
            V = _draw(carry[2] @ weights.T + visible_bias, first)
            means = jax.nn.sigmoid(V @ weights + hidden_bias)
            return (V, means, _bernoulli(means, second)), None

        V = jnp.zeros((len(H), len(weights)), weights.dtype)
        carry = step((V, H, H), self.split())[0]
        if n_sweeps > 1:
            carry = jax.lax.scan(step, carry, jax.random.split(self.split(), n_sweeps - 1))[0]
        V, means, H = carry
        return V, means, H

    def sweep_layers(self, conditionals, odds, betas, X, clamped):
        """Run Gibbs sweeps of two layers along a path of inverse temperatures.

        Parameters
        ----------
        conditionals : tuple of arrays
            Weights, visible biases and hidden biases.
        odds : ndarray of shape (n_visible,)
            Log odds of the visible units at beta = 0.
        betas : array of shape (n_sweeps + 1,) or (n_sweeps + 1, n_chains)
            Inverse temperatures, which may differ by chain.
        X : array of shape (n_chains, n_visible)
            States at which the chains start.
        clamped : ndarray of bool
            True for entries that keep their state; of the shape of X, or empty.

        Returns
        -------
        X : array of shape (n_chains, n_visible)
            States at which the chains end.
        log_weights : array of shape (n_chains,)
            Log weights of annealed importance sampling, for visible states of zeros and hidden
            states with the total weight 1.
        """
        return self._follow(LAYERS, (*conditionals, odds), betas, X, clamped)

    def sweep_in_order(self, conditionals, odds, order, betas, X, clamped):
        """Run Gibbs sweeps of coupled visible variables and a layer of hidden units.

        A sweep draws the hidden units as a layer, then the visible variables one after the other.

        Parameters
        ----------
        conditionals : tuple of arrays
            Couplings, weights, visible biases and hidden biases.
        odds, betas, X, clamped
            As in :meth:`sweep_layers`.
        order : ndarray of int
            Order of the visible variables.

        Returns
        -------
        X, log_weights
            As in :meth:`sweep_layers`.
        """
        positions = np.full(X.shape[1], len(order))  # other variables have one state, 0
        positions[order] = np.arange(len(order))
        arrays = *conditionals, odds, order, positions
        return self._follow(IN_ORDER, arrays, betas, X, clamped)

    def _follow(self, path_function, arrays, betas, X, clamped):
        if self.device is None:  # in a compiled function
            pairs = jnp.stack([betas[:-1], betas[1:]], axis=1)
            V, arrays = X.astype(jnp.float32), tuple(map(jnp.asarray, arrays))
            V, log_weights = path_function.scan(arrays, V, clamped, pairs, self.split())
            return V.astype(jnp.int16), log_weights
        pairs = np.stack([betas[:-1], betas[1:]], axis=1).astype(np.float32)
        device = self.device.spread(len(X))
        arrays, V = device.put(arrays), device.put(np.asarray(X, dtype=np.float32), 0)
        clamped = device.put(clamped, 0) if clamped.size else clamped
        log_weights = []
        for piece in np.split(pairs, range(PIECE, len(pairs), PIECE)):
            given, key = (arrays, V, clamped), device.put(self.split())
            with device.context():
                if len(piece) == PIECE:
                    V, increase = path_function.compiled_scan(*given, piece, key)
                else:
                    padded = np.zeros((PIECE, *piece.shape[1:]), dtype=np.float32)
                    padded[: len(piece)] = piece
                    V, increase = path_function.compiled_loop(*given, padded, len(piece), key)
            V = device.put(V, 0)  # where it was, so that the next piece compiles nothing
            log_weights.append(increase)
        totals = np.sum([np.asarray(w, dtype=float) for w in log_weights], axis=0)
        return np.asarray(V).astype(np.int16), totals


class PathFunction:
    """Compiled functions that repeat a Gibbs sweep along a path of inverse temperatures.

    Parameters
    ----------
    sweep : callable
        Function ``(arrays, V, clamped, before, beta, key) -> (V, increase)``. It returns the states
        after a sweep at ``beta``, and the increase of the log weights on the way from ``before``.
    """

    def __init__(self, sweep):
        self.sweep = sweep
        self.compiled_scan, self.compiled_loop = jax.jit(self.scan), jax.jit(self.loop)

    def scan(self, arrays, V, clamped, pairs, key):
        """Return the states and the log weights after sweeps along the whole path."""

        def step(carry, inputs):
            pair, key = inputs
            V, increase = self.sweep(arrays, carry[0], clamped, *pair[..., None], key)
            return (V, carry[1] + increase), None

        inputs = jnp.asarray(pairs), jax.random.split(key, len(pairs))
        return jax.lax.scan(step, (V, jnp.zeros(len(V))), inputs)[0]

    def loop(self, arrays, V, clamped, pairs, n, key):
        """Return the states and log weights after sweeps along the first n steps of the path."""

        def step(i, carry):
            new_key = jax.random.fold_in(key, i)
            V, increase = self.sweep(arrays, carry[0], clamped, *pairs[i][..., None], new_key)
            return V, carry[1] + increase

        return jax.lax.fori_loop(0, n, step, (V, jnp.zeros(len(V))))


def _sweep_layers(arrays, V, clamped, before, beta, key):
    weights, visible_bias, hidden_bias, odds = arrays
    first, second = jax.random.split(key)
    field = _product(V, weights) + hidden_bias
    increase = (beta - before)[..., 0] * ((visible_bias - odds) * V).sum(axis=1)
    increase += _softplus_change(field, before, beta)
    H = _draw(beta * field, first)
    logits = beta * (_product(H, weights.T) + visible_bias) + (1.0 - beta) * odds
    new = _draw(logits, second)
    return (jnp.where(clamped, V, new) if clamped.size else new), increase


def _sweep_in_order(arrays, V, clamped, before, beta, key):
    coupling, weights, visible_bias, hidden_bias, odds, order, positions = arrays
    first, second = jax.random.split(key)
    field = _product(V, weights) + hidden_bias
    pairs = _product(V, coupling) + visible_bias
    increase = (beta - before)[..., 0] * ((0.5 * (pairs + visible_bias) - odds) * V).sum(axis=1)
    increase += _softplus_change(field, before, beta)
    H = _draw(beta * field, first)
    rest = beta * _product(H, weights.T) + (1.0 - beta) * odds
    noise = jax.random.logistic(second, V.shape) - rest
    if clamped.size:
        noise = jnp.where(clamped, jnp.where(V > 0, -jnp.inf, jnp.inf), noise)
    field = (beta * pairs).T[order]
    scale = jnp.broadcast_to(beta[..., 0], len(V))
    drawn = draw_in_order(coupling[order][:, order], scale, field, noise.T[order], V.T[order])
    return jnp.take(drawn, positions, axis=0, mode="fill", fill_value=0.0).T, increase


def draw_in_order(coupling, scale, field, noise, V):
    """Draw variables one after the other; all arrays have one row per variable.

    A variable is 1 if its field exceeds its logistic noise. Its change, times the coupling and the
    ``scale`` of the chain, is added to the fields of the other variables. A GPU runs one kernel for
    a group of chains, because a kernel for each variable would take longer to start than to run.
    Several devices draw their own chains.
    """
    arrays = coupling, scale, field, noise, V
    mesh = jax.sharding.get_abstract_mesh()
    if CHAINS not in mesh.axis_names or mesh.size == 1 or V.shape[1] % mesh.size:
        return _draw_chains(*arrays)
    columns = PartitionSpec(None, CHAINS)
    specs = PartitionSpec(), PartitionSpec(CHAINS), columns, columns, columns
    options = {"in_specs": specs, "out_specs": columns, "check_vma": False}  # for the kernel
    return jax.shard_map(_draw_chains, **options)(*arrays)


def _draw_chains(coupling, scale, field, noise, V):
    """Draw the variables of chains on one device one after the other."""
    if V.shape[0] * CHAINS_A_KERNEL[1] > MAX_TILE:
        return loop_in_order(coupling, scale, field, noise, V)
    return jax.lax.platform_dependent(
        coupling, scale, field, noise, V, cuda=kernel_in_order, default=loop_in_order
    )


def loop_in_order(coupling, scale, field, noise, V):
    """Draw variables one after the other, with several small JAX operations per variable."""

    def draw(i, carry):
        field, V = carry
        new = (field[i] > noise[i]).astype(V.dtype)
        change = scale * (new - V[i])
        return field + coupling[i][:, None] * change, V.at[i].set(new)

    return jax.lax.fori_loop(0, len(V), draw, (field, V))[1]


def kernel_in_order(coupling, scale, field, noise, V, *, interpret=False):
    """Draw variables one after the other, with a single GPU kernel for a group of chains."""
    n, n_chains = V.shape
    rows = 1 << max(n - 1, 15).bit_length()
    group = min(CHAINS_A_KERNEL[0], MAX_TILE // rows)
    columns = -(-n_chains // group)
    width = columns * group - n_chains
    padded = [jnp.pad(a, ((0, rows - n), (0, width))) for a in (field, noise, V)]
    coupling = jnp.pad(coupling, ((0, rows - n), (0, rows - n)))
    scale = jnp.pad(scale, (0, width))
    few = pallas.BlockSpec((group,), lambda c: (c,))
    tile = pallas.BlockSpec((rows, group), lambda c: (0, c))
    out = pallas.pallas_call(
        partial(_draw_tile, n=n),
        out_shape=jax.ShapeDtypeStruct(padded[2].shape, V.dtype),
        grid=(columns,),
        in_specs=[pallas.BlockSpec((rows, rows), lambda _: (0, 0)), few, tile, tile, tile],
        out_specs=tile,
        compiler_params=triton.CompilerParams(
            num_warps=max(4, rows * group // WARP_TILE), num_stages=1
        ),
        interpret=interpret,
    )(coupling, scale, *padded)
    return out[:n, :n_chains]


def _draw_tile(coupling, scale, fields, noise, V, out, *, n):
    """Draw the variables of a group of chains; the references have one row per variable."""
    row = jax.lax.broadcasted_iota(jnp.int32, fields.shape, 0)

    def draw(i, field):
        own = jnp.where(row == i, field, 0.0).sum(axis=0)
        new = (own > noise[i, :]).astype(field.dtype)
        out[i, :] = new
        change = factor * (new - V[i, :])
        return field + coupling[i, :][:, None] * change[None, :]

    factor = scale[...]
    jax.lax.fori_loop(0, n, draw, fields[...])


def _as_arrays(arrays):
    return jax.tree.map(jnp.asarray, arrays)


def _like(arrays, old):
    """Convert nested arrays to the data types of other nested arrays."""
    return jax.tree.map(lambda new, before: jnp.asarray(new, before.dtype), arrays, old)


def _softplus_change(field, before, beta):
    """Return the sum over units of the change of log(1 + exp(beta * field)), unit by unit."""
    return (jax.nn.softplus(beta * field) - jax.nn.softplus(before * field)).sum(axis=1)


def _draw(logits, key):
    return _bernoulli(jax.nn.sigmoid(logits), key)


def _bernoulli(means, key):
    uniform = jax.random.uniform(key, (means.size,)).reshape(means.shape)
    return (uniform < means).astype(means.dtype)


def _product(a, b):
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


LAYERS, IN_ORDER = PathFunction(_sweep_layers), PathFunction(_sweep_in_order)
