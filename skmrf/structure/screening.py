"""Screening of pairs of variables by tests of independence."""

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from .._utils.codes import MISSING
from .chi2_tail import log_tail
from .multiple_tests import adjusted

COLUMNS = 256
NUMBERS_A_BLOCK = 2**26
EXACT_FLOAT32 = 2**24


class Screened(NamedTuple):
    """Pairs that are dependent.

    Attributes
    ----------
    edges : ndarray of shape (n_edges, 2)
        Pairs ``i < j`` in lexicographic order.
    p : ndarray of shape (n_edges,)
        p-values of the single tests.
    """

    edges: np.ndarray
    p: np.ndarray


class Budget(NamedTuple):
    """Number of parameters and of partners that a variable keeps.

    Attributes
    ----------
    free : ndarray of shape (n_variables,)
        The number of parameters of a pair is the product of two entries.
    max_parameters : float
        Parameters of a variable at most; those of its first partner always fit.
    max_partners : int
        Partners of a variable at most.
    """

    free: np.ndarray
    max_parameters: float
    max_partners: int


def screen(X, weights, n_states, *, level, budget=None):
    """Pairs that Pearson's chi-square test of independence tells apart from independent ones.

    A pair is tested on the rows where both are observed; states that none of these rows has do not
    count for the degrees of freedom.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes, MISSING where not observed.
    weights : ndarray of shape (n_rows,)
        How often a row counts.
    n_states : ndarray of shape (n_variables,)
    level : float
        False discovery rate, by Benjamini and Hochberg over all pairs.
    budget : Budget, optional
        A variable keeps the partners of smallest p-value that fit into it; a pair stays if both
        ends keep it.

    Returns
    -------
    Screened
    """
    n = X.shape[1]
    edges, statistic, dof = _candidates(X, weights, n_states, level)
    p = chi2.sf(statistic, dof)
    found = adjusted(p, "fdr", n_tests=n * (n - 1) // 2) <= level
    edges, statistic, dof, p = edges[found], statistic[found], dof[found], p[found]
    if budget is not None:
        order = np.lexsort((-statistic, log_tail(statistic, dof)))
        kept = _kept_by_both(edges, order, budget)
        edges, p = edges[kept], p[kept]
    order = np.lexsort(edges.T[::-1])
    return Screened(edges[order], p[order])


def pair_counts_seen(X, weights):
    """Weighted number of rows where both variables are observed, shape (n, n)."""
    n_rows, n = X.shape
    counts = np.zeros((n, n))
    step = max(1, NUMBERS_A_BLOCK // (8 * max(n, 1)))
    for start in range(0, n_rows, step):
        seen = (X[start : start + step] != MISSING).astype(float)
        counts += seen.T @ (seen * weights[start : start + step, None])
    return counts


def _candidates(X, weights, n_states, level):
    """Pairs with p at most ``level``, their statistics and degrees of freedom.

    The cut of Benjamini and Hochberg is never above the level, so no other pair can pass.
    """
    blocks = list(_blocks(np.asarray(n_states), len(X)))
    dtype = _exact_dtype(weights)
    passed = [(np.zeros((0, 2), np.int64), np.zeros(0), np.zeros(0, np.int64))]
    for k, (left, q) in enumerate(blocks):
        one_hot = _one_hot(X, left, q, dtype)
        one_hot *= weights[:, None]
        for right, r in blocks[k:]:
            counts = one_hot.T @ _one_hot(X, right, r, dtype)
            tables = counts.reshape(len(left), q, len(right), r).astype(float)
            statistic, dof = _pearson(tables.transpose(0, 2, 1, 3))
            fresh = (left[:, None] < right) | (left[0] != right[0])
            a, b = np.nonzero(fresh & (dof > 0) & (chi2.sf(statistic, np.maximum(dof, 1)) <= level))
            pairs = np.sort(np.column_stack([left[a], right[b]]), axis=1)
            passed.append((pairs, statistic[a, b], dof[a, b]))
    return tuple(np.concatenate(parts) for parts in zip(*passed, strict=True))


def _blocks(n_states, n_rows):
    """Variables of equal numbers of states, so many that their one-hot columns stay few."""
    columns = min(COLUMNS, NUMBERS_A_BLOCK // max(n_rows, 1))
    for q in np.unique(n_states[n_states > 1]).tolist():
        members = np.flatnonzero(n_states == q)
        step = max(1, columns // q)
        for start in range(0, len(members), step):
            yield members[start : start + step], q


def _exact_dtype(weights):
    """Single precision where it counts exactly."""
    whole = (weights == np.floor(weights)).all() and weights.sum() <= EXACT_FLOAT32
    return np.float32 if whole else np.float64


def _one_hot(X, variables, q, dtype):
    equal = X[:, variables, None] == np.arange(q)
    return equal.reshape(len(X), len(variables) * q).astype(dtype)


def _pearson(tables):
    """Chi-square statistics and degrees of freedom of tables of shape (..., q, r)."""
    rows, columns = tables.sum(axis=-1, keepdims=True), tables.sum(axis=-2, keepdims=True)
    total = np.maximum(rows.sum(axis=-2, keepdims=True), np.finfo(float).tiny)
    expected = rows * columns / total
    square = (tables - expected) ** 2
    statistic = np.divide(square, expected, out=np.zeros_like(square), where=expected > 0)
    free = [np.maximum((counts > 0).sum(axis=(-2, -1)) - 1, 0) for counts in (rows, columns)]
    return statistic.sum(axis=(-2, -1)), free[0] * free[1]


def _kept_by_both(edges, order, budget):
    """Which edges fit into what both of their ends have left, in this order."""
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
