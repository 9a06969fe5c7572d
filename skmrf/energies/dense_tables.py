"""Tables of one or two variables as one matrix over all states of all variables.

The matrix has a row and a column per state of each variable. Its entries are those of the tables of
pairs, in both orders of the pair. Its diagonal holds the tables of single variables for a device of
JAX. Gibbs chains of models with many tables move faster with this matrix, also on the CPU.
"""

import numpy as np

from .._kernels._jit import aligned_zeros, read_only
from .._kernels.pseudo import pair_arrays, write_positions
from .._utils.codes import state_columns
from .._utils.namespaces import namespace, without_diagonal
from .._utils.parallel import gram_matrix
from .conditionals import BinaryConditionals, StateConditionals

BYTES_PER_COUPLING = 12  # of the matrix, of its positions and of its gradient
MAX_TOTAL_STATES = 46_340  # so that positions in the matrix have 32 bits
LARGEST = 1e5  # log-potential on a device; float32 rounds larger ones by more than 0.004


def check_pairs(layout, max_bytes=np.inf):
    """Raise a ValueError unless the tables of a layout can be trained on a device of JAX.

    Its matrix, the positions and the gradient need at most ``max_bytes``.
    """
    advice = 'Use other cliques, or device="cpu".'
    n_total = int(layout.n_states.sum())
    needed, limit = (BYTES_PER_COUPLING * float(n) ** 2 for n in (n_total, MAX_TOTAL_STATES))
    if needed > min(max_bytes, limit):
        raise ValueError(
            f"A device of JAX needs about {needed:.4g} bytes for couplings of all {n_total} states "
            f"of the variables, more than {min(max_bytes, limit):.4g}. Merge rare states, raise "
            f'max_bytes (up to {limit:.4g}), or use device="cpu".'
        )
    wrong = np.flatnonzero((layout.orders < 1) | (layout.orders > 2))
    if wrong.size:
        raise ValueError(
            "A device of JAX trains tables of one or two variables, but clique "
            f"{layout.cliques[wrong[0]]} has {layout.orders[wrong[0]]} variables. {advice}"
        )
    if layout.is_tied:
        raise ValueError(
            'A device of JAX cannot train tables that are tied. Set tie=None, or device="cpu".'
        )
    ends = layout.clique_vars[layout.clique_ptr[:-1]], layout.clique_vars[layout.clique_ptr[1:] - 1]
    keys = np.minimum(*ends).astype(np.int64) * len(layout.n_states) + np.maximum(*ends)
    is_first = np.zeros(len(keys), dtype=bool)
    is_first[np.unique(keys, return_index=True)[1]] = True
    if not is_first.all():
        raise ValueError(
            "A device of JAX trains one table per pair of variables, but clique "
            f"{layout.cliques[np.argmin(is_first)]} occurs twice. {advice}"
        )


def find_positions(layout):
    """Return index arrays that convert the flat vector of all tables to the matrix, and back.

    Parameters
    ----------
    layout : Layout
        Layout that :func:`check_pairs` accepts.

    Returns
    -------
    dict of str to ndarray
        "matrix", shape (n_total_states, n_total_states): the position in the flat vector of each
        entry of the matrix, or the length of the vector for entries that are always zero.
        "entries", shape (n_parameters,): the position in the flattened matrix of each entry of the
        vector.
    """
    check_pairs(layout)
    n_total, n_parameters = int(layout.n_states.sum()), layout.n_parameters
    matrix = np.full((n_total, n_total), n_parameters, dtype=np.int32)
    entries = np.zeros(n_parameters, dtype=np.int32)
    write_positions(_state_start(layout.n_states), *layout.structure, matrix, entries)
    return {"matrix": matrix, "entries": entries}


def _state_start(n_states):
    return np.append(0, np.cumsum(n_states))


def state_conditionals(tables):
    """Return the conditionals of a model of tables as a matrix over all states.

    Parameters
    ----------
    tables : TableConditionals
        Tables of at most two variables, without zero potentials.

    Returns
    -------
    StateConditionals
        Conditionals of the same model. The couplings can have further columns of zeros, because
        their rows are aligned.
    """
    structure = tables.clique_ptr, tables.clique_vars, tables.strides, tables.table_start
    is_empty = np.diff(tables.clique_ptr) == 0
    constant = float(tables.flat[tables.table_start[is_empty]].sum())
    start = _state_start(tables.n_states)
    pairs, singles = aligned_zeros(start[-1], start[-1], tables.flat.dtype), np.zeros(start[-1])
    pair_arrays(read_only(tables.flat), start, *structure, pairs, singles)
    return StateConditionals(read_only(pairs), read_only(singles), constant, tables.n_states)


def conditionals_of_tables(tables):
    """Return the conditionals of a model of tables for a device of JAX.

    Parameters
    ----------
    tables : TableConditionals
        Tables of at most two variables.

    Returns
    -------
    StateConditionals
        Conditionals of the same model.

    Raises
    ------
    ValueError
        If a table has more than two variables, a potential is zero, or a log-potential is too
        large.
    """
    orders = np.diff(tables.clique_ptr)
    if orders.max(initial=0) > 2:
        raise ValueError(
            "A device of JAX samples models whose tables have at most two variables; this model "
            f'has a table of {orders.max()} variables. Use device="cpu".'
        )
    if np.isneginf(tables.flat).any():
        raise ValueError(
            'A device of JAX samples models without zero potentials. Use device="cpu".'
        )
    return centre(state_conditionals(tables))


def centre(conditionals):
    """Return conditionals of a model for a device of JAX, whose tables have means of zero.

    Parameters
    ----------
    conditionals : StateConditionals
        Result of :func:`state_conditionals`.

    Returns
    -------
    StateConditionals
        Conditionals of the same model.

    Raises
    ------
    ValueError
        If a log-potential is too large.
    """
    pairs, singles, constant, n_states = conditionals
    pairs, singles, moved = _centre(pairs[:, : len(singles)], singles, n_states)
    check_float32(pairs, singles)
    return StateConditionals(pairs, singles, constant + moved, n_states)


def check_float32(*arrays):
    """Raise a ValueError if log-potentials are too large for a device, which has float32."""
    largest = max(np.abs(a).max(initial=0.0) for a in arrays)
    if largest > LARGEST:
        raise ValueError(
            f"The log-potentials of this model differ by up to {largest:.3g}. A device of JAX "
            f'computes in float32, and takes at most {LARGEST:.0e}. Use device="cpu".'
        )


def _centre(pairs, singles, n_states):
    """Return the tables with means of zero over each variable, and the constant that is left.

    Constants and effects of single states may be much larger than the interactions, and float32
    would then round these.
    """
    owner, _ = state_columns(n_states)
    start = _state_start(n_states)[:-1]
    means = np.add.reduceat(pairs, start, axis=1) / n_states  # over the states of each variable
    pair_means = np.add.reduceat(means, start, axis=0) / n_states[:, None]
    rows = means[:, owner]
    pairs = pairs - rows - rows.T + pair_means[owner][:, owner]
    singles = singles + means.sum(axis=1)
    single_means = np.add.reduceat(singles, start) / n_states
    constant = single_means.sum() - 0.5 * pair_means.sum()
    return pairs, singles - single_means[owner], float(constant)


def conditionals_of_flat(flat, n_states, matrix):
    """Return the conditionals of a model whose tables are in one array of JAX.

    Parameters
    ----------
    flat : array of shape (n_parameters,)
        All log-potentials.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.
    matrix : array of int of shape (n_total_states, n_total_states)
        Positions from :func:`find_positions`.

    Returns
    -------
    StateConditionals or BinaryConditionals
        Conditionals of the model. The latter if each variable has two states.
    """
    pairs, singles = _fill_matrix(flat, matrix)
    if (n_states != 2).any():
        return StateConditionals(pairs, singles, 0.0, n_states)
    n = len(n_states)
    pairs, singles = pairs.reshape(n, 2, n, 2), singles.reshape(n, 2)
    given_zeros = pairs[:, :, :, 0].sum(axis=2)
    steps = pairs[:, :, :, 1] - pairs[:, :, :, 0]
    constant = singles[:, 0].sum() + 0.5 * given_zeros[:, 0].sum()
    bias = singles + given_zeros
    return BinaryConditionals(steps[:, 1] - steps[:, 0], bias[:, 1] - bias[:, 0], constant)


def _fill_matrix(flat, matrix):
    """Return the tables of pairs as a matrix with a zero diagonal, and the others as a vector."""
    joint = flat.at[matrix].get(mode="fill", fill_value=0.0)
    return without_diagonal(joint), joint.diagonal()


def indicate_states(X, n_states):
    """Return a matrix that is 1 where a variable has a state, with a column per state.

    Parameters
    ----------
    X : array of shape (n_rows, n_variables)
        State codes.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.

    Returns
    -------
    array of float32 of shape (n_rows, n_total_states)
        Zeros and ones.
    """
    owner, state = state_columns(n_states)
    return (X[:, owner] == state).astype(np.float32)


def log_potentials(flat, X, n_states, matrix):
    """Return ``log f`` of each row of states, for arrays of JAX."""
    pairs, singles = _fill_matrix(flat, matrix)
    states = indicate_states(X, n_states)
    return (states * (0.5 * (states @ pairs) + singles)).sum(axis=1)


def table_frequencies(parts, n_states, entries):
    """Return the weighted frequencies of all table entries in rows of states, for arrays of JAX.

    Parameters
    ----------
    parts : list of (array, array)
        States of shape (n_rows, n_variables) and weights of shape (n_rows,), of any sign.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.
    entries : array of int of shape (n_parameters,)
        Positions from :func:`find_positions`.

    Returns
    -------
    array of shape (n_parameters,)
        Sums of the weights of the rows with the states of each entry.
    """
    xp = namespace(entries)
    states = [indicate_states(X, n_states) for X, _ in parts]
    weights = [xp.asarray(weights) for _, weights in parts]
    joint = gram_matrix((xp.concat(states), xp.concat(weights)))
    return joint.ravel()[entries]


def conditional_frequencies(flat, X, n_states, matrix, entries):
    """Return frequencies of all table entries in samples, with conditional probabilities.

    The frequency of a pair of states is the mean of two estimates: in each, one of the variables
    has its probabilities given all other variables instead of its state. The frequency of a single
    state is the mean of both.

    Parameters
    ----------
    flat : array of shape (n_parameters,)
        All log-potentials.
    X : array of shape (n_rows, n_variables)
        State codes of samples.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.
    matrix, entries : array of int
        Positions from :func:`find_positions`.

    Returns
    -------
    array of shape (n_parameters,)
        Frequencies, for arrays of JAX.
    """
    pairs, singles = _fill_matrix(flat, matrix)
    states = indicate_states(X, n_states)
    p = _normalise(states @ pairs + singles, n_states)
    joint = states.T @ p / (2.0 * len(states))
    means = 0.5 * (states + p).mean(axis=0)
    joint = without_diagonal(joint + joint.T) + namespace(flat).diag(means)
    return joint.ravel()[entries]


def _normalise(fields, n_states):
    """Return the probabilities of the states of each variable from their unnormalised logarithms.

    Parameters
    ----------
    fields : array of JAX of shape (n_rows, n_total_states)
        Logarithms.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.

    Returns
    -------
    array of shape (n_rows, n_total_states)
        Probabilities, which add up to 1 for each variable.
    """
    owner, _ = state_columns(n_states)
    zeros = namespace(fields).zeros((len(fields), len(n_states)), fields.dtype)
    largest = (zeros - np.inf).at[:, owner].max(fields)
    weights = namespace(fields).exp(fields - largest[:, owner])
    return weights / zeros.at[:, owner].add(weights)[:, owner]
