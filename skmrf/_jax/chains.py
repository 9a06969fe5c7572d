"""Gibbs sweeps of many Markov chains in JAX.

All functions take arrays of state codes with one row per chain. Along a path, matrix products have
the full precision of float32, because rounded weights would be those of a model with another log Z.
In training, they have the default precision of the device.
"""

from contextlib import nullcontext
from functools import cache, cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np

from .._utils.codes import state_columns
from .in_order import PairRule, change_strong_pairs, draw_in_order, draw_states_in_order

LARGEST_BLOCK = 1024  # chains that are filled up to a power of two
N_CHAIN_ARRAYS = 4  # of a chain's states and fields, that are on the device during a sweep
PIECE = 250  # sweeps of a compiled path; longer paths are run in pieces of this length
# XLA compiles products by cuBLAS in half the time of products by Triton. Epochs take about as long,
# or 12 % longer with small models.
OPTIONS = {"xla_gpu_enable_triton_gemm": False}


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
        """Return uniform random numbers between 0 and 1; an int as ``shape`` is a length."""
        shape = (shape,) if isinstance(shape, int) else shape
        return _uniform(self.split(), shape, dtype)

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

    def sweep_in_order(self, conditionals, odds, order, strong, betas, X, clamped, *, reverse):
        """Run Gibbs sweeps of coupled visible variables and a layer of hidden units.

        A sweep draws the hidden units as a layer, then the visible variables one after the other.
        Then, or before if ``reverse``, strongly coupled pairs of visible variables can change.

        Parameters
        ----------
        conditionals : tuple of arrays
            Couplings, weights, visible biases and hidden biases.
        odds, betas, X, clamped
            As in :meth:`sweep_layers`.
        order : ndarray of int
            Order of the visible variables.
        strong : tuple of (float, int)
            Largest absolute value of a coupling that is not strong, and the largest number of
            partners of a variable.
        reverse : bool
            Whether these are the reversals of sweeps that visit the variables in the other order.

        Returns
        -------
        X, log_weights
            As in :meth:`sweep_layers`.
        """
        arrays = *conditionals, odds, order, _positions_of(order, X.shape[1])
        path_function = IN_ORDER
        if self.device is None or np.abs(conditionals[0]).max() > strong[0]:
            path_function = path_with_pairs(*strong, reverse)
        return self._follow(path_function, arrays, betas, X, clamped)

    def sweep_states(self, conditionals, base, order, betas, X, clamped):
        """Run Gibbs sweeps of variables with any number of states, one after the other.

        Parameters
        ----------
        conditionals : StateConditionals
            Couplings and biases of all states, and the numbers of states.
        base : tuple of arrays
            Couplings and biases of all states at beta = 0. The couplings have the shape (0, 0) if
            they are zero. Otherwise ``betas`` must be the same for all chains.
        order, betas, X, clamped
            As in :meth:`sweep_in_order`.

        Returns
        -------
        X, log_weights
            As in :meth:`sweep_layers`, without the constant of the conditionals.
        """
        coupling, bias, _, n_states = conditionals
        first_and_size = (np.cumsum(n_states) - n_states)[order], n_states[order]
        given = coupling, bias, *base, *state_columns(n_states)
        arrays = *given, order, _positions_of(order, len(n_states)), *first_and_size
        return self._follow(STATES, arrays, betas, X, clamped)

    def _follow(self, path_function, arrays, betas, X, clamped):
        if self.device is None:  # in a compiled function
            pairs = jnp.stack([betas[:-1], betas[1:]], axis=1)
            V, arrays = X.astype(jnp.float32), tuple(map(jnp.asarray, arrays))
            V, log_weights, _ = path_function.scan(arrays, V, clamped, pairs, self.split())
            return V.astype(jnp.int16), log_weights
        pairs = np.stack([betas[:-1], betas[1:]], axis=1).astype(np.float32)
        n_chains = len(X)
        device = self.device.spread(n_chains)
        n_blocks = device.n_used  # of equal sizes
        n_padded = n_blocks * padded_blocks(n_chains // n_blocks, LARGEST_BLOCK).size
        chains = np.resize(np.arange(n_chains), n_padded)
        pairs = pairs[..., chains] if pairs.ndim == 3 else pairs
        clamped = clamped[chains] if clamped.size else clamped
        V = np.asarray(X, dtype=np.float32)[chains]
        n_bytes = 4.0 * (sum(map(np.size, arrays)) + _n_chain_entries(arrays, V) // n_blocks)
        device.check_memory("Sampling", n_bytes)
        with device.memory_errors("Sampling", n_bytes):
            V, log_weights = self._follow_in_pieces(
                device, path_function, arrays, pairs, V, clamped
            )
        return V[:n_chains].astype(np.int16), log_weights[:n_chains]

    def _follow_in_pieces(self, device, path_function, arrays, pairs, V, clamped):
        arrays, V = self.device.put_once(arrays, device), device.put(V, 0)
        clamped = device.put(clamped, 0) if clamped.size else clamped
        log_weights = []
        for piece in np.split(pairs, range(PIECE, len(pairs), PIECE)):
            given, key = (arrays, V, clamped), device.put(self.split())
            with device.context():
                if len(piece) == PIECE:
                    V, *increase = path_function.compiled_scan(*given, piece, key)
                else:
                    padded = np.zeros((PIECE, *piece.shape[1:]), dtype=np.float32)
                    padded[: len(piece)] = piece
                    V, *increase = path_function.compiled_loop(*given, padded, len(piece), key)
            V = device.put(V, 0)  # where it was, so that the next piece compiles nothing
            log_weights.append(increase)
        parts = [np.subtract(*map(np.asarray, pair), dtype=float) for pair in log_weights]
        return np.asarray(V), np.sum(parts, axis=0)


def padded_blocks(n_rows, largest):
    """Return row numbers in blocks of the same size: a power of two, or ``largest``.

    The last block is filled with the first rows. So functions are compiled for few sizes.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    largest : int
        Largest number of rows in a block.

    Returns
    -------
    ndarray of int of shape (n_blocks, size)
        Numbers of the rows of each block.
    """
    size = min(largest, 1 << max(n_rows - 1, 0).bit_length())
    return np.resize(np.arange(n_rows), (-(-n_rows // size), size))


def _n_chain_entries(arrays, V):
    """Return the number of entries of the states and fields of all chains, approximately."""
    widths = [a.shape[1] for a in arrays if np.ndim(a) == 2]
    return N_CHAIN_ARRAYS * len(V) * (V.shape[1] + sum(widths))


def compiled(function, **options):
    """Return a function that JAX compiles at its first call, with options for a short compilation.

    ``options`` are those of ``jax.jit``.
    """
    return jax.jit(function, compiler_options=_known_options(), **options)


@cache
def _known_options():
    """Return the options of XLA, or None if the installed version does not know them."""
    try:
        jax.jit(lambda: 0, compiler_options=OPTIONS)()
    except jax.errors.JaxRuntimeError:
        return None
    return OPTIONS


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

    @cached_property
    def compiled_scan(self):
        """The method :meth:`scan`, compiled by JAX."""
        return compiled(self.scan)

    @cached_property
    def compiled_loop(self):
        """The method :meth:`loop`, compiled by JAX."""
        return compiled(self.loop)

    def scan(self, arrays, V, clamped, pairs, key):
        """Return the states after sweeps along the whole path, the log weights and their errors.

        The log weights minus the rounding errors are more precise than float32.
        """

        def step(carry, inputs):
            pair, key = inputs
            V, increase = self.sweep(arrays, carry[0], clamped, *pair[..., None], key)
            return (V, *_add(*carry[1:], increase)), None

        inputs = jnp.asarray(pairs), jax.random.split(key, len(pairs))
        return jax.lax.scan(step, (V, *jnp.zeros((2, len(V)))), inputs)[0]

    def loop(self, arrays, V, clamped, pairs, n, key):
        """Return the result of :meth:`scan` for the first n steps of the path."""

        def step(i, carry):
            new_key = jax.random.fold_in(key, i)
            V, increase = self.sweep(arrays, carry[0], clamped, *pairs[i][..., None], new_key)
            return V, *_add(*carry[1:], increase)

        return jax.lax.fori_loop(0, n, step, (V, *jnp.zeros((2, len(V)))))


def _add(total, rounding, increase):
    """Add to a sum of many terms; return it and its rounding error (Kahan's summation)."""
    term = increase - rounding
    new = total + term
    return new, (new - total) - term


def _sweep_layers(arrays, V, clamped, before, beta, key):
    weights, visible_bias, hidden_bias, odds = arrays
    first, second = jax.random.split(key)
    field = _product(V, weights) + hidden_bias
    increase = (beta - before)[..., 0] * _sum_rows((visible_bias - odds) * V)
    increase += _softplus_change(field, before, beta)
    H = _draw(beta * field, first)
    logits = beta * (_product(H, weights.T) + visible_bias) + (1.0 - beta) * odds
    new = _draw(logits, second)
    return (jnp.where(clamped, V, new) if clamped.size else new), increase


def _sweep_in_order(arrays, V, clamped, before, beta, key, pair_rule=None):
    coupling, weights, visible_bias, hidden_bias, odds, order, positions = arrays
    field = _product(V, weights) + hidden_bias
    pairs = _product(V, coupling) + visible_bias
    increase = (beta - before)[..., 0] * _sum_rows((0.5 * (pairs + visible_bias) - odds) * V)
    increase += _softplus_change(field, before, beta)
    moves = [_draw_singles]
    if pair_rule is not None:
        moves.insert(0 if pair_rule.reverse else 1, partial(_draw_pairs, pair_rule))
    first, *keys = jax.random.split(key, 1 + len(moves))
    H = _draw(beta * field, first)
    given = coupling, visible_bias, beta, beta * _product(H, weights.T) + (1.0 - beta) * odds
    for move, own in zip(moves, keys, strict=True):
        V = move(given, order, positions, V, clamped, own)
    return V, increase


def _draw_singles(given, order, positions, V, clamped, key):
    """Draw visible variables one after the other; other variables become 0."""
    coupling, bias, beta, rest = given
    noise = jax.random.logistic(key, V.shape) - rest
    if clamped.size:
        noise = jnp.where(clamped, jnp.where(V > 0, -jnp.inf, jnp.inf), noise)
    field = (beta * (_product(V, coupling) + bias)).T[order]
    scale = jnp.broadcast_to(beta[..., 0], len(V))
    drawn = draw_in_order(coupling[order][:, order], scale, field, noise.T[order], V.T[order])
    return _take_drawn(drawn, positions)


def _draw_pairs(rule, given, order, positions, V, clamped, key):
    """Draw for strongly coupled pairs of visible variables whether both change."""
    coupling, bias, beta, rest = given
    scale, is_drawn = jnp.broadcast_to(beta[..., 0], len(V)), jnp.asarray(positions) < len(order)

    def field_of(V):
        return (beta * (_product(V.T, coupling) + bias) + rest).T

    arrays = coupling, scale, is_drawn, clamped.T, V.T
    return change_strong_pairs(rule, field_of, *arrays, key).T


def _sweep_states(arrays, V, clamped, before, beta, key):
    coupling, bias, base, base_bias, owner, states, order, positions, first, sizes = arrays
    is_state = V[:, owner] == states
    indicators = is_state.astype(V.dtype)
    scores, base_scores = _product(indicators, coupling) + bias, base_bias
    scale = jnp.broadcast_to(beta[..., 0], len(V))
    if base.size:
        base_scores = _product(indicators, base) + base_bias
        coupling, scale = base + beta * (coupling - base), jnp.ones(len(V))
    terms = indicators * (scores + bias - base_scores - base_bias)
    increase = 0.5 * (beta - before)[..., 0] * _sum_rows(terms)
    noise = jax.random.gumbel(key, scores.shape)
    scores = beta * scores + (1.0 - beta) * base_scores + noise
    if clamped.size:
        held = jnp.where(is_state, jnp.inf, -jnp.inf)
        scores = jnp.where(clamped[:, owner], held, scores)
    drawn = draw_states_in_order(coupling, first, sizes, scale, scores, V.T[order])
    return _take_drawn(drawn, positions).astype(V.dtype), increase


def _positions_of(order, n):
    """Return the position of each variable in ``order``, or its length for other variables."""
    positions = np.full(n, len(order))
    positions[order] = np.arange(len(order))
    return positions


def _take_drawn(drawn, positions):
    """Return the states of all variables, one column per variable; those not drawn are 0."""
    if not len(drawn):
        return jnp.zeros((drawn.shape[1], len(positions)), drawn.dtype)
    return jnp.take(drawn, positions, axis=0, mode="fill", fill_value=0).T


def _as_arrays(arrays):
    return jax.tree.map(jnp.asarray, arrays)


def _like(arrays, old):
    """Convert nested arrays to the data types of other nested arrays."""
    return jax.tree.map(lambda new, before: jnp.asarray(new, before.dtype), arrays, old)


def _softplus_change(field, before, beta):
    """Return the sum over units of the change of log(1 + exp(beta * field)), unit by unit."""
    return (jax.nn.softplus(beta * field) - jax.nn.softplus(before * field)).sum(axis=1)


def _sum_rows(terms):
    """Return the sum of each row, with a rounding error that does not depend on their number.

    The leading digits of the terms are multiples of one power of two. Their sum has no error.
    """
    if not terms.shape[1]:
        return jnp.zeros(len(terms), terms.dtype)
    exponents = jnp.frexp(jnp.abs(terms).max(axis=1, keepdims=True))[1]
    scale = jnp.ldexp(jnp.ones((), terms.dtype), exponents + terms.shape[1].bit_length())
    leading = (scale + terms) - scale
    return leading.sum(axis=1) + (terms - leading).sum(axis=1)


def _draw(logits, key):
    return _bernoulli(jax.nn.sigmoid(logits), key)


def _bernoulli(means, key):
    uniform = _uniform(key, (means.size,), np.float32).reshape(means.shape)
    return (uniform < means).astype(means.dtype)


def _uniform(key, shape, dtype):
    """Return uniform random numbers between 0 and 1.

    The numbers of JAX are multiples of the spacing at 1. Half of it is added, because an event of
    probability 1e-30 must not happen whenever a number is 0.
    """
    return jax.random.uniform(key, shape, dtype) + 0.5 * np.finfo(dtype).eps


def _product(a, b):
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


@cache
def path_with_pairs(*rule):
    """Return the compiled functions of sweeps in which strongly coupled pairs change together."""
    return PathFunction(partial(_sweep_in_order, pair_rule=PairRule(*rule)))


LAYERS, IN_ORDER = PathFunction(_sweep_layers), PathFunction(_sweep_in_order)
STATES = PathFunction(_sweep_states)
