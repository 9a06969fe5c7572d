"""Sufficient statistics of the training rows: their means and their sampling error."""

import numpy as np

from .._utils.codes import MISSING
from .._utils.log_weights import effective_sample_size
from .._utils.phases import States
from .._utils.rows import drop_incomplete_rows, pair_frequencies
from .._utils.warn import warn_caller
from ..energies.table_backed import TableEnergy


def check_possible_rows(energy, data):
    """Raise a ValueError if a row has a zero potential, because training does not change it.

    Parameters
    ----------
    energy : Energy
        Initial model. Only tables of log-potentials have zero potentials.
    data : Batch
        All training rows. A row is impossible if a table has a zero potential for all states of its
        missing entries.
    """
    if not (isinstance(energy, TableEnergy) and np.isneginf(energy.flat).any()):
        return
    tables = zip(energy.layout.cliques, energy.layout.split(energy.flat), strict=True)
    tables = [(clique, _maxima(table)) for clique, table in tables if np.isneginf(table).any()]
    for rows in data.blocks():
        X, first = data.X[rows], rows.start or 0
        wrong = [(_first_zero(X[:, clique], table), clique) for clique, table in tables]
        wrong = [(row, clique) for row, clique in wrong if row is not None]
        if wrong:
            row, clique = min(wrong)
            states = [None if s == MISSING else int(s) for s in X[row, clique]]
            raise ValueError(
                f"Row {first + row} has probability zero under the initial model, because clique "
                f"{clique} has a zero potential (-inf) for the states {states}. "
                "Training does not change zero potentials. Leave out the row, or start from a "
                "model without this zero potential. (Rows of weight 0 are not counted.)"
            )


def _maxima(table):
    """Return a table with one more state per variable, which has the maximum over the others.

    This last state has the index -1, the code of a missing entry.
    """
    for axis in range(table.ndim):
        table = np.concatenate([table, table.max(axis=axis, keepdims=True)], axis=axis)
    return table


def _first_zero(states, table):
    """Return the first row of states whose log-potential in a table is -inf, or None."""
    rows = np.flatnonzero(np.isneginf(table[tuple(states.T)]))
    return int(rows[0]) if rows.size else None


def complete_moments(energy, data):
    """Return the mean sufficient statistics of complete rows, or {} if no row is complete.

    Parameters
    ----------
    energy : Energy
        Model with the cliques.
    data : Batch
        All training rows. The state code -1 marks a missing entry.

    Returns
    -------
    dict of str to ndarray
        Means of the sufficient statistics, shaped like theta.
    """
    rows = drop_incomplete_rows(data)
    if not len(rows.X):
        return {}
    rows = rows.in_file_order()
    return energy.moments(States(rows.X, None, rows.log_weights))


def estimate_resolution(moments, data):
    """Return the noise floor: the squared gradient norm that sampling noise in the rows causes.

    It is a hundredth of the squared standard error of the moments of the data.

    Parameters
    ----------
    moments : dict of str to ndarray
        From :func:`complete_moments`.
    data : Batch
        All training rows.

    Returns
    -------
    float
        Squared norm, as in ``Settings.resolution``.
    """
    variance = sum(float((m * (1.0 - m)).clip(0.0).sum()) for m in moments.values())
    return 0.01 * variance / effective_rows(data)


def effective_rows(data):
    """Return the effective number of rows of a batch, which is smaller for unequal weights."""
    if data.log_weights is None:
        return data.X.shape[0]
    return effective_sample_size(data.log_weights)


def count_weights(data):
    """Return the number of times that each row of a batch counts, or None for once.

    These are the weights of the rows. If the sum of the weights is less than the effective number
    of rows, for example if it is 1, they are multiplied so that the sum is this number. Weights
    that are whole numbers are not changed.
    """
    if data.log_weights is None:
        return None
    weights = np.exp(data.log_weights)
    return weights * max(1.0, effective_rows(data) / weights.sum())


def count_unobserved(moments):
    """Return the number of joint states of cliques that never occur in the data.

    Parameters
    ----------
    moments : dict of str to ndarray
        From :func:`complete_moments`.

    Returns
    -------
    int
        Number of joint states, added over all cliques.
    """
    return sum(int((m <= 1e-15).sum()) for m in moments.values())


def summarise_pairs(energy, data):
    """Return the noise floor of the gradient, and the number of unobserved joint states of pairs.

    Both are computed from the complete rows. They are 0 if there are no complete rows.

    Parameters
    ----------
    energy : PairwiseEnergy
        Model.
    data : Batch
        All training rows.

    Returns
    -------
    resolution : float
        Squared norm below which a gradient is only sampling noise.
    n_unobserved : int
        Number of joint states of pairs of variables that never occur in the data.
    """
    rows = drop_incomplete_rows(data)
    n_rows = rows.X.shape[0]
    if n_rows == 0:
        return 0.0, 0
    shares = pair_frequencies(rows.X)
    high, low, mixed = _joint_states(np.rint(n_rows * shares), n_rows)
    if rows.log_weights is not None:
        shares = pair_frequencies(rows.X, rows.log_weights)
    variance = _pair_variance(energy.states, *_joint_states(shares, 1.0))
    is_pair = ~np.eye(len(high), dtype=bool)
    n_unobserved = sum(int((counts[is_pair] == 0).sum()) for counts in (high, low)) // 2
    n_unobserved += int((mixed[is_pair] == 0).sum())
    return 0.01 * variance / effective_rows(data), n_unobserved


def _joint_states(high, total):
    """Return the frequencies of the codes (1, 1), (0, 0) and (1, 0) of all pairs of columns.

    ``high`` has the frequencies of (1, 1), as shares or as counts, and ``total`` is their sum over
    all codes.
    """
    ones = np.diagonal(high)
    return high, total - ones[:, None] - ones + high, ones[:, None] - high


def _pair_variance(states, high, low, mixed):
    """Return the sum of the variances of all pair statistics, given joint pair probabilities."""
    lower, upper = states
    values = np.array([upper * upper, lower * lower, upper * lower])
    p = np.stack([high, low, mixed + mixed.T])
    pairs = np.tensordot(values**2, p, 1) - np.tensordot(values, p, 1) ** 2
    np.fill_diagonal(pairs, 0.0)
    means = np.diagonal(high)
    return float(
        pairs.clip(0.0).sum() + (upper - lower) ** 2 * (means * (1.0 - means)).clip(0.0).sum()
    )


def warn_unbounded(n_unobserved):
    """Warn if a joint state never occurs, because its log-potential tends to minus infinity.

    Parameters
    ----------
    n_unobserved : int
        Number of joint states that never occur. With 0 there is no warning.
    """
    if n_unobserved:
        warn_caller(
            f"{n_unobserved} joint states of cliques never occur in the data, so the maximum of "
            "the likelihood is at infinite parameters, which the fit cannot reach. Set alpha > 0 "
            "for a finite maximum."
        )
