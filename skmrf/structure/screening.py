"""Screening: selection of dependent pairs of variables by tests of independence."""

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from .._utils.codes import MISSING
from .chi2_tail import log_tail
from .multiple_tests import adjust_p_values

BLOCK_COLUMNS = 256
BLOCK_ENTRIES = 2**26
MAX_EXACT_FLOAT32 = 2**24


class ScreenedPairs(NamedTuple):
    """Pairs of variables for which independence is rejected.

    Attributes
    ----------
    edges : ndarray of shape (n_edges, 2)
        Pairs ``i < j`` in lexicographic order.
    p : ndarray of shape (n_edges,)
        p-values of the tests of these pairs, not adjusted.
    """

    edges: np.ndarray
    p: np.ndarray


class Budget(NamedTuple):
    """Limits on each variable: its number of parameters, and its number of partners.

    Attributes
    ----------
    free : ndarray of shape (n_variables,)
        Factors whose products are the numbers of parameters of the pairs.
    max_parameters : float
        Maximum number of parameters of a variable. The first partner is always allowed.
    max_partners : int
        Maximum number of partners of a variable.
    """

    free: np.ndarray
    max_parameters: float
    max_partners: int


def screen(X, weights, n_states, *, level, budget=None):
    """Return the pairs for which Pearson's chi-square test rejects independence.

    A pair is tested on the rows that observe both variables. States that do not occur in these
    rows do not count in the degrees of freedom.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes, MISSING where not observed.
    weights : ndarray of shape (n_rows,)
        Sample weights: how often each row counts.
    n_states : ndarray of shape (n_variables,)
        Number of states of each variable.
    level : float
        False discovery rate over all pairs, by the procedure of Benjamini and Hochberg.
    budget : Budget, optional
        Limits on the partners of each variable. A variable keeps its partners of smallest p-value
        within the limits, and a pair is returned if both of its variables keep it.

    Returns
    -------
    ScreenedPairs
        Dependent pairs and their p-values.
    """
    n = X.shape[1]
    edges, statistic, dof = _pairs_below_level(X, weights, n_states, level)
    p = chi2.sf(statistic, dof)
    rejected = adjust_p_values(p, "fdr", n_tests=n * (n - 1) // 2) <= level
    edges, statistic, dof, p = edges[rejected], statistic[rejected], dof[rejected], p[rejected]
    if budget is not None:
        order = np.lexsort((-statistic, log_tail(statistic, dof)))
        kept = _select_within_budget(edges, order, budget)
        edges, p = edges[kept], p[kept]
    order = np.lexsort(edges.T[::-1])
    return ScreenedPairs(edges[order], p[order])


def count_observed_pairs(X, weights):
    """Return the (n, n) matrix of the weighted numbers of rows that observe both variables."""
    n_rows, n = X.shape
    counts = np.zeros((n, n))
    step = max(1, BLOCK_ENTRIES // (8 * max(n, 1)))
    for start in range(0, n_rows, step):
        observed = (X[start : start + step] != MISSING).astype(float)
        counts += observed.T @ (observed * weights[start : start + step, None])
    return counts


def _pairs_below_level(X, weights, n_states, level):
    """Return the pairs with p-value at most ``level``, with statistics and degrees of freedom.

    The threshold of Benjamini and Hochberg never exceeds the level, so it rejects no other pair.
    """
    blocks = list(variable_blocks(np.asarray(n_states), len(X)))
    dtype = exact_dtype(weights)
    passed = [(np.zeros((0, 2), np.int64), np.zeros(0), np.zeros(0, np.int64))]
    for k, (left, q) in enumerate(blocks):
        columns = one_hot_columns(X, left, q, dtype)
        columns *= weights[:, None]
        for right, r in blocks[k:]:
            counts = columns.T @ one_hot_columns(X, right, r, dtype)
            tables = counts.reshape(len(left), q, len(right), r).astype(float)
            statistic, dof = _pearson(tables.transpose(0, 2, 1, 3))
            is_first_visit = (left[:, None] < right) | (left[0] != right[0])
            a, b = np.nonzero(
                is_first_visit & (dof > 0) & (chi2.sf(statistic, np.maximum(dof, 1)) <= level)
            )
            pairs = np.sort(np.column_stack([left[a], right[b]]), axis=1)
            passed.append((pairs, statistic[a, b], dof[a, b]))
    return tuple(np.concatenate(parts) for parts in zip(*passed, strict=True))


def variable_blocks(n_states, n_rows):
    """Yield blocks of variables with equal numbers of states.

    The size of the blocks bounds the memory of the one-hot columns.
    """
    columns = min(BLOCK_COLUMNS, BLOCK_ENTRIES // max(n_rows, 1))
    for q in np.unique(n_states[n_states > 1]).tolist():
        members = np.flatnonzero(n_states == q)
        step = max(1, columns // q)
        for start in range(0, len(members), step):
            yield members[start : start + step], q


def exact_dtype(weights):
    """Return float32 if it represents all weighted counts exactly, otherwise float64."""
    whole = (weights == np.floor(weights)).all() and weights.sum() <= MAX_EXACT_FLOAT32
    return np.float32 if whole else np.float64


def one_hot_columns(X, variables, q, dtype):
    """Return one column of zeros and ones per state of each variable; all have q states."""
    equal = X[:, variables, None] == np.arange(q)
    return equal.reshape(len(X), len(variables) * q).astype(dtype)


def _pearson(tables):
    """Return Pearson's chi-square statistics of contingency tables, and degrees of freedom.

    The shape of the tables is (..., q, r).
    """
    rows, columns = tables.sum(axis=-1, keepdims=True), tables.sum(axis=-2, keepdims=True)
    total = np.maximum(rows.sum(axis=-2, keepdims=True), np.finfo(float).tiny)
    expected = rows * columns / total
    square = (tables - expected) ** 2
    statistic = np.divide(square, expected, out=np.zeros_like(square), where=expected > 0)
    free = [np.maximum((counts > 0).sum(axis=(-2, -1)) - 1, 0) for counts in (rows, columns)]
    return statistic.sum(axis=(-2, -1)), free[0] * free[1]


def _select_within_budget(edges, order, budget):
    """Let each variable keep edges in the given order, within its limits.

    Returns a mask of the edges that both variables keep.
    """
    kept = np.zeros(len(edges), dtype=bool)
    degree, used = np.zeros(len(budget.free), dtype=int), np.zeros(len(budget.free))
    sizes = budget.free[edges].prod(axis=1)
    for e in order:
        ends = edges[e]
        fits = (degree[ends] == 0) | (used[ends] + sizes[e] <= budget.max_parameters)
        fits &= degree[ends] < budget.max_partners
        kept[e] = fits.all()
        degree[ends] += fits
        used[ends] += np.where(fits, sizes[e], 0.0)
    return kept
