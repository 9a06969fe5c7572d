"""Gibbs updates of variables one after the other in JAX, by one kernel on a GPU.

A GPU runs one kernel for a group of chains, because a kernel for each variable would take longer to
start than to run. With several devices, each device draws its own chains. Strongly coupled pairs of
two-state variables can change together.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas
from jax.sharding import PartitionSpec

try:
    from jax.experimental.pallas import triton
except ImportError:  # JAX 0.11 says that a later version will not have it
    triton = None

CHAINS = "skmrf_chains"  # axis that is divided among devices; not a name in a mesh of the user
CHAINS_PER_KERNEL = 16, 4  # most and fewest of a kernel that draws variables one after the other
MAX_TILE = 2**15  # fields of such a kernel, so many that the registers of eight warps hold them
WARP_TILE = 2**12  # fields that the registers of a warp hold
STATES_WARP_TILE = 2**11  # scores of states that a warp holds, beside the changes of the scores


def draw_in_order(coupling, scale, field, noise, V):
    """Draw two-state variables one after the other; all arrays have one row per variable.

    A variable is 1 if its field exceeds its logistic noise. Its change, times the coupling and the
    ``scale`` of the chain, is added to the fields of the other variables.
    """
    arrays = coupling, scale, field, noise, V
    return _divide_chains(_draw_chains, arrays, axes=(None, 0, 1, 1, 1))


def draw_states_in_order(coupling, first, sizes, scale, scores, V):
    """Draw variables with any number of states one after the other.

    Parameters
    ----------
    coupling : array of shape (n_total_states, n_total_states)
        Symmetric couplings of states.
    first, sizes : array of int of shape (n_drawn,)
        First state of each variable that is drawn, and its number of states.
    scale : array of shape (n_chains,)
        Factor of the couplings of each chain.
    scores : array of shape (n_chains, n_total_states)
        Conditional log-probabilities of all states up to normalisation, plus Gumbel noise.
    V : array of shape (n_drawn, n_chains)
        State codes of the variables that are drawn.

    Returns
    -------
    array of int of shape (n_drawn, n_chains)
        New state codes: the states with the largest scores. The change of a variable, times the
        coupling and the scale, is added to the scores of the other variables.
    """
    arrays = coupling, first, sizes, scale, scores, V.astype(jnp.int32)
    return _divide_chains(_draw_states_of_chains, arrays, axes=(None, None, None, 0, 0, 1))


class PairRule(NamedTuple):
    """Rule for the pairs of two-state variables that can change together.

    Attributes
    ----------
    least : float
        The absolute value of the coupling of such a pair is larger.
    n_partners : int
        Largest number of partners of a variable, with its strongest couplings.
    reverse : bool
        Whether the pairs are drawn before the single variables, in the reverse order.
    """

    least: float
    n_partners: int
    reverse: bool


def change_strong_pairs(rule, field_of, coupling, scale, is_drawn, clamped, V, key):
    """Draw for strongly coupled pairs of two-state variables, in order, whether both change.

    Equal variables change if their coupling is positive, different ones if it is negative. The draw
    is between two states, so it leaves the target invariant.

    Parameters
    ----------
    rule : PairRule
        Which pairs can change.
    field_of : callable
        Function of V that returns the log odds of the state 1 of each variable given the others.
    coupling : array of shape (n, n)
        Symmetric couplings.
    scale : array of shape (n_chains,)
        Factor of the couplings of each chain.
    is_drawn : array of bool of shape (n,)
        Whether a variable can change.
    clamped : array of bool
        True for entries that keep their state; of the shape of V, or empty.
    V : array of shape (n, n_chains)
        States.
    key : jax.Array
        Key of the random numbers.

    Returns
    -------
    array of shape (n, n_chains)
        New states.
    """
    n = len(V)

    def change_all(V):
        *pairs, count = find_pairs(coupling, is_drawn, rule)

        def change_next(carry):
            """Change the next n pairs, or the pairs that are left."""
            start, V, key = carry
            key, own = jax.random.split(key)
            first, last = (jax.lax.dynamic_slice(a, (start,), (n,)) for a in pairs)
            # With a row per chain, the noise of a chain does not depend on the number of chains.
            noise = jax.random.logistic(own, V.T.shape).T
            if clamped.size:
                noise = jnp.where(clamped[first] | clamped[last], jnp.inf, noise)
            left = jnp.minimum(count - start, n)[None]
            arrays = coupling, scale, field_of(V), noise, first, last, left, V
            axes = None, 0, 1, 1, None, None, None, 1
            return start + n, _divide_chains(_change_pairs_of_chains, arrays, axes), key

        return jax.lax.while_loop(lambda carry: carry[0] < count, change_next, (0, V, key))[1]

    is_strong = (jnp.abs(coupling) > rule.least).any()
    return jax.lax.cond(is_strong, change_all, lambda V: V, V)


def find_pairs(coupling, is_drawn, rule):
    """Return the pairs of a rule: their first and last variables, then zeros, and their number.

    The lengths of the arrays are a multiple of the number of variables.
    """
    n = len(coupling)
    strength, partners = jax.lax.top_k(jnp.abs(coupling), min(rule.n_partners, n))
    kept = jnp.zeros((n, n), bool).at[jnp.arange(n)[:, None], partners].set(strength > rule.least)
    kept = jnp.triu((kept | kept.T) & is_drawn & is_drawn[:, None], 1)
    step = -1 if rule.reverse else 1
    (places,) = jnp.nonzero(kept.ravel()[::step], size=partners.size, fill_value=0)
    codes = n * n - 1 - places if rule.reverse else places
    return codes // n, codes % n, kept.sum()


def _divide_chains(draw, arrays, axes):
    """Return ``draw(*arrays)``, computed by each device for its own chains.

    ``axes`` has the axis of the chains in each array, or None. The result has the shape of the last
    array.
    """
    if not arrays[-1].size:  # no variable has several states
        return arrays[-1]
    mesh, n_chains = jax.sharding.get_abstract_mesh(), arrays[-1].shape[axes[-1]]
    if CHAINS not in mesh.axis_names or mesh.size == 1 or n_chains % mesh.size:
        return draw(*arrays)
    specs = [PartitionSpec() if k is None else PartitionSpec(*[None] * k, CHAINS) for k in axes]
    options = {"in_specs": tuple(specs), "out_specs": specs[-1], "check_vma": False}  # for kernels
    return jax.shard_map(draw, **options)(*arrays)


def _draw_chains(*arrays):
    """Draw the two-state variables of chains on one device one after the other."""
    return _run_on_platform(kernel_in_order, loop_in_order, arrays)


def _draw_states_of_chains(*arrays):
    """Draw the variables of chains on one device one after the other."""
    return _run_on_platform(kernel_states_in_order, loop_states_in_order, arrays)


def _change_pairs_of_chains(*arrays):
    """Change the pairs of chains on one device one after the other."""
    return _run_on_platform(kernel_of_pairs, loop_of_pairs, arrays, max_tile=MAX_TILE // 2)


def _run_on_platform(kernel, loop, arrays, max_tile=MAX_TILE):
    """Run a kernel on a GPU if the registers hold the arrays of few chains, else a loop."""
    if triton is None or _padded_length(len(arrays[0])) * CHAINS_PER_KERNEL[1] > max_tile:
        return loop(*arrays)
    return jax.lax.platform_dependent(*arrays, cuda=kernel, default=loop)


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
    tile, arrays = partial(_draw_tile, n=len(V)), (field, noise, V)
    return _run_tiles(tile, coupling, scale, arrays, (), MAX_TILE, interpret=interpret)


def _run_tiles(tile, coupling, scale, arrays, shared, max_tile, *, interpret):
    """Run a GPU kernel for each group of chains; the result has the shape of the last array.

    ``arrays`` have a row per variable or pair, and ``shared`` are vectors that all kernels read.
    """
    n, n_chains = arrays[-1].shape
    rows = _padded_length(n)
    group = min(CHAINS_PER_KERNEL[0], max_tile // rows)
    columns = -(-n_chains // group)
    more_chains = columns * group - n_chains
    padded = [jnp.pad(a, ((0, rows - n), (0, more_chains))) for a in arrays]
    coupling = jnp.pad(coupling, ((0, rows - n), (0, rows - n)))
    scale = jnp.pad(scale, (0, more_chains))
    coupling_block = pallas.BlockSpec((rows, rows), lambda _: (0, 0))
    scale_block = pallas.BlockSpec((group,), lambda c: (c,))
    shared_blocks = [pallas.BlockSpec(a.shape, lambda _: (0,)) for a in shared]
    block = pallas.BlockSpec((rows, group), lambda c: (0, c))
    out = pallas.pallas_call(
        tile,
        out_shape=jax.ShapeDtypeStruct(padded[-1].shape, padded[-1].dtype),
        grid=(columns,),
        in_specs=[coupling_block, scale_block, *shared_blocks, *[block] * len(padded)],
        out_specs=block,
        compiler_params=triton.CompilerParams(
            num_warps=max(4, rows * group * MAX_TILE // max_tile // WARP_TILE), num_stages=1
        ),
        interpret=interpret,
    )(coupling, scale, *shared, *padded)
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


def loop_of_pairs(coupling, scale, field, noise, first, last, count, V):
    """Change pairs one after the other, with several small JAX operations per pair."""

    def change(k, carry):
        (field, V), i, j = carry, first[k], last[k]
        s, r = _changes_of_pair(V[i], V[j], field[i], field[j], scale * coupling[i, j], noise[k])
        change = scale * (coupling[i][:, None] * s + coupling[j][:, None] * r)
        return field + change, V.at[i].add(s).at[j].add(r)

    return jax.lax.fori_loop(0, count[0], change, (field, V))[1]


def kernel_of_pairs(coupling, scale, field, noise, first, last, count, V, *, interpret=False):
    """Change pairs one after the other, with a single GPU kernel for a group of chains."""
    arrays, shared = (field, noise, V), (first, last, count)
    limit = MAX_TILE // 2  # the registers hold the fields and the states
    return _run_tiles(_change_tile, coupling, scale, arrays, shared, limit, interpret=interpret)


def _change_tile(coupling, scale, first, last, count, fields, noise, V, out):
    """Change the pairs of a group of chains; the references have one row per variable or pair."""
    row = jax.lax.broadcasted_iota(jnp.int32, fields.shape, 0)

    def change(k, carry):
        i, j = first[k], last[k]
        (field, V), is_first, is_last = carry, row == i, row == j
        own = [jnp.where(at, a, 0.0).sum(axis=0) for a in (V, field) for at in (is_first, is_last)]
        s, r = _changes_of_pair(*own, factor * coupling[i, j], noise[k, :])
        change = coupling[i, :][:, None] * s[None, :] + coupling[j, :][:, None] * r[None, :]
        V += jnp.where(is_first, s[None, :], 0.0) + jnp.where(is_last, r[None, :], 0.0)
        return field + factor[None, :] * change, V

    factor = scale[...]
    out[...] = jax.lax.fori_loop(0, count[0], change, (fields[...], V[...]))[1]


def _changes_of_pair(x, y, field, other, coupling, noise):
    """Return the changes of the states x and y of a pair in each chain, which are 0 in some."""
    s, r = 1.0 - 2.0 * x, 1.0 - 2.0 * y
    increase = s * field + r * other + s * r * coupling
    is_changed = (s * r * coupling > 0.0) & (increase > noise)
    return jnp.where(is_changed, s, 0.0), jnp.where(is_changed, r, 0.0)


def loop_states_in_order(coupling, first, sizes, scale, scores, V):
    """Draw variables with any number of states, with several small JAX operations per variable."""

    def draw(i, carry):
        scores, V = carry
        is_own = (state >= first[i]) & (state < first[i] + sizes[i])
        new = jnp.where(is_own, scores, -jnp.inf).argmax(axis=1)
        change = coupling[new] - coupling[first[i] + V[i]]
        return scores + scale[:, None] * change, V.at[i].set((new - first[i]).astype(V.dtype))

    state = jnp.arange(len(coupling))
    return jax.lax.fori_loop(0, len(V), draw, (scores, V))[1]


def kernel_states_in_order(coupling, first, sizes, scale, scores, V, *, interpret=False):
    """Draw variables with any number of states, with a GPU kernel for a group of chains."""
    n_states, (n, n_chains) = len(coupling), V.shape
    columns = _padded_length(n_states)
    group = min(CHAINS_PER_KERNEL[0], MAX_TILE // columns)
    n_groups = -(-n_chains // group)
    more_chains, more_states = n_groups * group - n_chains, columns - n_states
    scores = jnp.pad(scores, ((0, more_chains), (0, more_states)))
    coupling = jnp.pad(coupling, ((0, 0), (0, more_states)))
    V = jnp.pad(V, ((0, 0), (0, more_chains)))
    first, last = (a.astype(jnp.int32) for a in (first, first + sizes))
    scale_block = pallas.BlockSpec((group,), lambda c: (c,))
    shared_blocks = [
        pallas.BlockSpec(a.shape, lambda _, k=a.ndim: (0,) * k) for a in (coupling, first)
    ]
    code_block = pallas.BlockSpec((n, group), lambda c: (0, c))
    score_block = pallas.BlockSpec((group, columns), lambda c: (c, 0))
    out = pallas.pallas_call(
        partial(_draw_tile_of_states, n=n),
        out_shape=jax.ShapeDtypeStruct(V.shape, jnp.int32),
        grid=(n_groups,),
        in_specs=[*shared_blocks, shared_blocks[1], scale_block, score_block, code_block],
        out_specs=code_block,
        compiler_params=triton.CompilerParams(
            num_warps=max(4, columns * group // STATES_WARP_TILE), num_stages=1
        ),
        interpret=interpret,
    )(coupling, first, last, jnp.pad(scale, (0, more_chains)), scores, V)
    return out[:, :n_chains]


def _draw_tile_of_states(coupling, first, last, scale, scores, V, out, *, n):
    """Draw the variables of a group of chains; the scores have one row per chain."""
    state = jax.lax.broadcasted_iota(jnp.int32, scores.shape, 1)

    def draw(i, scores):
        start = first[i]
        is_own = (state >= start) & (state < last[i])
        new = jnp.argmax(jnp.where(is_own, scores, -jnp.inf), axis=1).astype(jnp.int32)
        out[i, :] = new - start
        change = coupling[new, :] - coupling[start + V[i, :], :]
        return scores + factor[:, None] * change

    factor = scale[...]
    jax.lax.fori_loop(0, n, draw, scores[...])


def _padded_length(n):
    """Return the number of rows or columns of a tile: a power of two."""
    return 1 << max(n - 1, 15).bit_length()
