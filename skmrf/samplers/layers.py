"""Gibbs sampling of coupled variables whose couplings are a matrix, and of layers of hidden units.

All chains of a call move together, a layer by matrix products. Each block of chains has its own
random generator.
"""

from typing import NamedTuple

import numpy as np

from .._kernels._jit import aligned_empty, aligned_zeros, read_only
from .._kernels.gibbs import sweep_coupled, sweep_states
from .._kernels.layers import draw_hidden, sweep_bipartite
from .._kernels.ordering import strongest_partners
from .._kernels.products import find_product
from .._utils.namespaces import is_numpy
from ..energies.conditionals import (
    BinaryConditionals,
    CoupledLayerConditionals,
    StateConditionals,
    TableConditionals,
    bias_rows,
)
from ..energies.dense_tables import centre, check_float32, conditionals_of_tables

REFRESH = 64  # sweeps after which fields are recomputed, so that rounding errors do not add up
UPDATES_PER_CALL = 1_000_000  # of variables, which take about 10 ms
WEIGHTS_PER_UPDATE = 200  # weights of a matrix product that takes as long as an update
STATES_PER_DRAW = 100  # whose log-potentials a draw changes in 10 ns
LARGEST_FIELD = 8192.0  # nats; each sum of larger numbers has an error above 0.0005 in float32
MIN_FLOAT32 = 256  # variables; a sweep of 500 chains then takes a few milliseconds
STRONG_COUPLING = 4.0  # absolute value, in nats, above which two variables change together
PARTNERS = 16  # of a variable in such pairs, with the strongest couplings
NO_COUPLING = np.zeros((0, 0))


class Scan(NamedTuple):
    """Order of the updates in a sweep of coupled two-state variables.

    Attributes
    ----------
    order : ndarray of int
        Variables that are drawn one after the other.
    pairs : ndarray of int of shape (n_pairs, 2)
        Pairs of strongly coupled variables that may change together. Single changes seldom move
        the 1 of a group of exclusive columns, such as indicators of categories.
    is_reversed : bool
        Whether the pairs are updated before the single variables.
    """

    order: np.ndarray
    pairs: np.ndarray
    is_reversed: bool


def make_scan(couplings, order, *, reverse):
    """Return the updates of a sweep of coupled two-state variables.

    Parameters
    ----------
    couplings : sequence of ndarray of shape (n_variables, at least n_variables) or (0, n_columns)
        Couplings of one model or of several ones.
    order : ndarray of int
        Order of the variables.
    reverse : bool
        Whether the sweep is the reversal of a forward sweep.

    Returns
    -------
    Scan
        Order, and pairs of the variables with up to 16 strongest partners of each in any model.
    """
    codes = np.unique(np.concatenate([_strong_pairs(coupling, order) for coupling in couplings]))
    codes, n = codes[::-1] if reverse else codes, max(map(len, couplings))
    return Scan(order, np.column_stack([codes // max(n, 1), codes % max(n, 1)]), reverse)


def _strong_pairs(coupling, order):
    """Return pairs of strongly coupled variables, each as a number."""
    n = len(coupling)
    partners = np.empty((n, PARTNERS), dtype=np.int64)
    strongest_partners(read_only(coupling), STRONG_COUPLING, partners)
    first, place = np.nonzero(partners >= 0)
    last, is_drawn = partners[first, place], np.bincount(order, minlength=n) > 0
    kept = is_drawn[first] & is_drawn[last]
    return (np.minimum(first, last) * n + np.maximum(first, last))[kept]


def random_seeds(generators, n_sweeps):
    """Return seeds for the random generators of compiled kernels.

    Each sweep has its own seeds, so that two sweeps in one call and in two calls have equal
    results.

    Parameters
    ----------
    generators : list of numpy.random.Generator
        One generator per block of chains.
    n_sweeps : int
        Number of sweeps.

    Returns
    -------
    ndarray of shape (n_sweeps, n_blocks, 4), dtype uint64
        Random integers.
    """
    seeds = [rng.bit_generator.random_raw(4 * n_sweeps) for rng in generators]
    shape = len(generators), n_sweeps, 4
    return np.ascontiguousarray(np.array(seeds).reshape(shape).swapaxes(0, 1))


def sweep_layers(conditionals, reference, betas, _order, X, clamped, log_weights, generators):
    r"""Run Gibbs sweeps of a bipartite model along a path of inverse temperatures.

    Matrix products update all chains together. A sweep samples hidden given visible units, then
    visible given hidden units. The target at beta, with the hidden units summed out, is

    .. math:: p_0(v)^{1-\beta} e^{\beta c^\top v}
        \prod_j \frac{1 + e^{\beta (b_j + (v^\top W)_j)}}{2^{1-\beta}}

    This is the reference ``p_0`` at beta = 0 and ``exp(-F(v))`` at beta = 1. A sweep is reversible.

    Parameters
    ----------
    conditionals : BipartiteConditionals
        Weights and biases of the model.
    reference : Product
        Distribution of the visible units at beta = 0.
    betas : ndarray of shape (n_sweeps + 1,)
        Path of inverse temperatures.
    X : ndarray of shape (n_chains, n_visible), dtype STATE
        States of the chains, which are changed in place.
    clamped : ndarray of bool
        True for entries that keep their state; of the shape of X, or empty.
    log_weights : ndarray of shape (n_chains,)
        Log weights of annealed importance sampling, which are increased in place.
    generators : list of numpy.random.Generator
        One generator per block of chains.
    """
    arrays, weights = bipartite_arrays(conditionals, len(X)), conditionals.weights
    log_p, start = reference.log_p, reference.start
    odds = read_only((log_p[start + 1] - log_p[start]).astype(weights.dtype))
    given = *arrays, odds, log_p[start].sum() - weights.shape[1] * np.log(2.0)
    n_updates = len(X) * (sum(weights.shape) + weights.size // WEIGHTS_PER_UPDATE)
    clamped = read_only(clamped)
    for path in split_path(betas, n_updates, len(betas)):
        seeds = random_seeds(generators, 2 * (len(path) - 1))
        sweep_bipartite(*given, path, seeds, clamped, X, log_weights)


def bipartite_arrays(conditionals, n_chains):
    """Return the first arguments of compiled sweeps of a bipartite model.

    Parameters
    ----------
    conditionals : BipartiteConditionals
        Weights and biases of the model.
    n_chains : int
        Number of chains.

    Returns
    -------
    tuple
        Address of the function that multiplies matrices, weights, and biases with one row or one
        for each chain.
    """
    weights, *biases = conditionals
    arrays, dtype = (weights, *(bias_rows(b, n_chains) for b in biases)), weights.dtype
    return find_product(dtype), *(read_only(np.ascontiguousarray(a, dtype)) for a in arrays)


def sweep_coupled_layers(conditionals, reference, betas, scan, X, clamped, log_weights, generators):
    r"""Run Gibbs sweeps of coupled visible variables and a layer of hidden units.

    A sweep samples all hidden units given the visible variables by a matrix product, then the
    visible variables one after the other. The target at beta, with the hidden units summed out, is

    .. math:: p_0(v)^{1-\beta} e^{\beta (v^\top K v / 2 + c^\top v)}
        \prod_j \frac{1 + e^{\beta (b_j + (v^\top W)_j)}}{2^{1-\beta}}

    The reversal of a sweep is a sweep in the reverse order of the visible variables.

    Parameters
    ----------
    conditionals : CoupledLayerConditionals
        Couplings :math:`K`, weights :math:`W` and biases, from :func:`align_couplings`.
    reference : tuple
        Result of :func:`reference_odds` for the distribution at beta = 0.
    betas : ndarray of shape (n_sweeps + 1,)
        Path of inverse temperatures.
    scan : Scan
        Updates of the visible variables in a sweep, without variables with one state.
    X : ndarray of shape (n_chains, n_visible), dtype STATE
        States of the chains, which are changed in place.
    clamped : ndarray of bool
        True for entries that keep their state; of the shape of X, or empty.
    log_weights : ndarray of shape (n_chains,)
        Log weights of annealed importance sampling, which are increased in place.
    generators : list of numpy.random.Generator
        One generator per block of chains.
    """
    coupling, weights, visible_bias, hidden_bias, constant = conditionals
    (n, n_hidden), dtype, (odds, from_reference, _) = weights.shape, weights.dtype, reference
    log_weights += (betas[-1] - betas[0]) * (constant + n_hidden * np.log(2.0) + from_reference)
    given = coupling, visible_bias, read_only(odds.astype(dtype, copy=False))
    clamped = read_only(np.ascontiguousarray(clamped.T))
    field, start, product = aligned_zeros(len(X), n, dtype), 0, find_product(dtype)
    from_hidden = np.empty((n, len(X)) if n_hidden else (0, 0), dtype=dtype)
    for path in split_path(betas, X.size, 1 if n_hidden else REFRESH):
        is_new, start = start % REFRESH == 0, start + len(path) - 1
        if n_hidden:
            before, beta = path.tolist()
            arrays = random_seeds(generators, 1)[0], X, from_hidden, log_weights
            draw_hidden(product, weights, hidden_bias, before, beta, *arrays)
        arrays = from_hidden, clamped, random_seeds(generators, len(path) - 1), is_new, field
        sweep_coupled(product, *given, path, scan, *arrays, X, log_weights)


def is_one_call(conditionals, betas, n_chains):
    """Return whether one call of a compiled function makes all sweeps of coupled variables.

    Parameters
    ----------
    conditionals : CoupledLayerConditionals
        Conditionals of the model.
    betas : ndarray of shape (n_sweeps + 1,)
        Path of inverse temperatures.
    n_chains : int
        Number of chains of a call.

    Returns
    -------
    bool
        True for a short path of a model without hidden units.
    """
    n_visible, n_hidden = conditionals.weights.shape
    return n_hidden == 0 and len(split_path(betas, n_chains * n_visible, REFRESH)) == 1


def single_calls(conditionals, reference, betas, scan, X, clamped, log_weights, parts):
    """Return the arguments of :func:`sweep_coupled` for each part of the chains.

    The calls give the same results as :func:`sweep_coupled_layers`. This function prepares the
    arrays of all calls before threads start, because only one thread at a time can run Python.

    Parameters
    ----------
    conditionals, reference, betas, scan, X, clamped, log_weights
        As in :func:`sweep_coupled_layers`, for a path where :func:`is_one_call` is True.
    parts : list of (slice, list of numpy.random.Generator)
        Chains of each part, and their random generators.

    Returns
    -------
    list of tuple
        Arguments of each call.
    """
    coupling, weights, bias, _, constant = conditionals
    dtype, (odds, from_reference, _) = weights.dtype, reference
    log_weights += (betas[-1] - betas[0]) * (constant + from_reference)
    given = find_product(dtype), coupling, bias, read_only(odds.astype(dtype, copy=False)), betas
    given = *given, scan, np.empty((0, 0), dtype=dtype)
    fields = aligned_empty(len(X), bias.size, dtype)
    calls = []
    for chains, generators in parts:
        fixed = read_only(np.ascontiguousarray(clamped[chains].T))
        arrays = fixed, random_seeds(generators, len(betas) - 1), True, fields[chains]
        calls.append((*given, *arrays, X[chains], log_weights[chains]))
    return calls


def sweep_tables_of_pairs(
    conditionals, reference, betas, order, X, clamped, log_weights, generators
):
    r"""Run Gibbs sweeps of a model whose tables have at most two variables.

    Each chain has the log-potential of each state of each variable, given its other variables. A
    draw that changes a state adds two rows of a matrix to these. The target at beta is

    .. math:: p_0(x)^{1-\beta} f(x)^\beta

    Parameters
    ----------
    conditionals : StateConditionals
        Tables of the model as a matrix over the states of all variables.
    reference : Product
        Distribution at beta = 0.
    order : ndarray of int
        Order of the variables in a sweep, without variables with one state.
    betas, X, clamped, log_weights, generators
        As in :func:`sweep_coupled_layers`.
    """
    coupling, bias, constant, n_states = conditionals
    log_weights += (betas[-1] - betas[0]) * constant
    given = coupling, bias, reference.start, n_states, reference.log_p
    field, start = aligned_zeros(len(X), len(bias), bias.dtype), 0
    for path in split_path(betas, X.size * (1 + len(bias) // STATES_PER_DRAW), REFRESH):
        seeds, is_new = random_seeds(generators, len(path) - 1), start % REFRESH == 0
        sweep_states(*given, path, order, clamped, seeds, is_new, field, X, log_weights)
        start += len(path) - 1


def align_couplings(conditionals, dtype):
    """Return conditionals with aligned rows of couplings for :func:`sweep_coupled_layers`.

    Parameters
    ----------
    conditionals : CoupledLayerConditionals or BinaryConditionals
        Conditionals of a model with or without hidden units.
    dtype : dtype
        Data type of the arrays.

    Returns
    -------
    CoupledLayerConditionals
        The same conditionals. The couplings have further columns of zeros, or no rows if all of
        them are zero. The hidden biases are a matrix with one row.
    """
    coupling, *arrays, hidden_bias, constant = with_layer(conditionals)
    n = len(coupling) if coupling.any() else 0
    aligned = align_rows(coupling[:n], dtype)
    arrays = aligned, *arrays, hidden_bias[None]
    arrays = (read_only(np.ascontiguousarray(a, dtype)) for a in arrays)
    return CoupledLayerConditionals(*arrays, constant)


def align_rows(matrix, dtype):
    """Return a copy of a matrix with aligned rows, which have further columns of zeros."""
    aligned = aligned_zeros(*matrix.shape, dtype)
    aligned[:, : matrix.shape[1]] = matrix
    return aligned


def float_of_sweeps(conditionals, betas, order):
    """Return the data type in which coupled variables are drawn.

    Log weights need float64. At a constant temperature there are none. float32 then takes half the
    time, but with few variables the compilation for a second data type takes longer.

    Parameters
    ----------
    conditionals : CoupledLayerConditionals or BinaryConditionals
        Conditionals of a model with or without hidden units.
    betas : ndarray of shape (n_sweeps + 1,)
        Path of inverse temperatures.
    order : ndarray of int
        Variables that are drawn.

    Returns
    -------
    dtype
        float32 for many variables without hidden units at a constant temperature, unless fields
        can be large; otherwise the data type of the conditionals.
    """
    is_large = isinstance(conditionals, BinaryConditionals) and len(order) >= MIN_FLOAT32
    if is_large and (betas == betas[0]).all():
        coupling, bias, _ = conditionals
        squares = np.einsum("ij,ij->i", coupling, coupling).max(initial=0.0)
        largest = np.sqrt(len(coupling) * squares) + np.abs(bias[order]).max(initial=0.0)
        if max(betas[0], 1.0) * largest <= LARGEST_FIELD:
            return np.dtype(np.float32)
    return conditionals.coupling.dtype


def split_path(betas, n_updates, longest):
    """Split a path of inverse temperatures into pieces; Ctrl-C works between two pieces.

    Parameters
    ----------
    betas : ndarray of shape (n_sweeps + 1,)
        Path of inverse temperatures.
    n_updates : int
        Number of updates of variables in a sweep.
    longest : int
        Largest number of sweeps in a piece.

    Returns
    -------
    list of ndarray
        Pieces, whose ends are the starts of the next ones. All but the last one have the same
        number of sweeps, which is ``longest`` or a power of two.
    """
    length = min(longest, 1 << max(UPDATES_PER_CALL // max(n_updates, 1), 1).bit_length() - 1)
    return [betas[s : s + length + 1] for s in range(0, len(betas) - 1, length)]


def sweep_on_device(conditionals, reference, betas, X, clamped, chains, *, reverse=False):
    """Run Gibbs sweeps of chains on a JAX device along a path of inverse temperatures.

    Parameters
    ----------
    conditionals : conditionals of :mod:`skmrf.energies.conditionals`
        Parameters of the model.
    reference : Product
        Distribution of the visible variables at beta = 0.
    betas : ndarray of shape (n_sweeps + 1,)
        Path of inverse temperatures.
    X : array of shape (n_chains, n_visible)
        States at which the chains start.
    clamped : ndarray of bool
        True for entries that keep their state; of the shape of X, or empty.
    chains : DeviceChains
        Chains of the device.
    reverse : bool, default=False
        Whether the variables are visited from the last to the first.

    Returns
    -------
    X : array of shape (n_chains, n_visible)
        States at which the chains end.
    log_weights : array of shape (n_chains,)
        Log weights of annealed importance sampling.
    """
    conditionals = conditionals_on_device(conditionals)
    if isinstance(conditionals, StateConditionals):
        base = conditionals._replace(coupling=NO_COUPLING, bias=reference.log_p, constant=0.0)
        return _sweep_states(base, conditionals, betas, X, clamped, chains, reverse=reverse)
    conditionals = with_layer(conditionals)
    odds, constant, order = reference_odds(reference)
    constant += conditionals.weights.shape[1] * np.log(2.0)
    layers, coupling = conditionals, None
    if isinstance(conditionals, CoupledLayerConditionals):
        coupling, *layers, offset = conditionals
        constant += offset
    if is_numpy(layers[1]):
        weights, bias, hidden_bias = layers
        pairs = NO_COUPLING if coupling is None else coupling
        check_float32(weights, bias[..., order], hidden_bias, pairs)
    if coupling is None or (isinstance(coupling, np.ndarray) and not coupling.any()):
        X, log_weights = chains.sweep_layers(layers, odds, betas, X, clamped)
    else:
        order, strong = order[:: -1 if reverse else 1], (STRONG_COUPLING, PARTNERS)
        given = (coupling, *layers), odds, order, strong, betas, X, clamped
        X, log_weights = chains.sweep_in_order(*given, reverse=reverse)
    return X, log_weights + (betas[-1] - betas[0]) * constant


def conditionals_on_device(conditionals):
    """Return the conditionals of the same model in the form of a device; tables have means of 0."""
    if isinstance(conditionals, TableConditionals):
        return conditionals_of_tables(conditionals)
    if isinstance(conditionals, StateConditionals) and is_numpy(conditionals.bias):
        return centre(conditionals)
    return conditionals


def sweep_between_on_device(first, last, betas, X, chains, *, reverse=False):
    """Run Gibbs sweeps of chains on a JAX device along a path from one discrete model to another.

    Parameters
    ----------
    first, last : FactorGraph or PairwiseEnergy
        Models at beta = 0 and at beta = 1, with tables of at most two variables.
    betas, X, chains, reverse
        As in :func:`sweep_on_device`.

    Returns
    -------
    X, log_weights : arrays
        As in :func:`sweep_on_device`.
    """
    graphs = [energy.factor_graph() for energy in (first, last)]
    models = [conditionals_of_tables(graph.table_conditionals()) for graph in graphs]
    clamped = np.zeros((0, 0), dtype=bool)
    return _sweep_states(*models, betas, X, clamped, chains, reverse=reverse)


def _sweep_states(first, last, betas, X, clamped, chains, *, reverse):
    order = np.flatnonzero(last.n_states > 1)[:: -1 if reverse else 1]
    X, log_weights = chains.sweep_states(last, first[:2], order, betas, X, clamped)
    return X, log_weights + (betas[-1] - betas[0]) * (last.constant - first.constant)


def with_layer(conditionals):
    """Return the conditionals of a binary pairwise model with a layer of no hidden units.

    Other conditionals are returned as they are.
    """
    if not isinstance(conditionals, BinaryConditionals):
        return conditionals
    coupling, bias, constant = conditionals
    weights = np.zeros((len(bias), 0), dtype=bias.dtype)
    return CoupledLayerConditionals(coupling, weights, bias, weights[:0].ravel(), constant)


def reference_odds(reference):
    """Return the log odds, log normaliser and two-state variables of a reference distribution.

    The log normaliser is minus the log-probability of the state in which all variables are 0. A
    variable with one state is always 0.
    """
    log_p, start = reference.log_p, reference.start
    if reference.is_binary:
        return log_p[1::2] - log_p[0::2], -log_p[0::2].sum(), np.arange(len(start))
    has_two = np.diff(np.append(start, len(log_p))) > 1
    odds = np.where(has_two, log_p[start + has_two] - log_p[start], 0.0)
    return odds, -log_p[start].sum(), np.flatnonzero(has_two)
