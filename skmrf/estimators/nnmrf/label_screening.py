"""Screening: columns on which the label depends, found by tests of single columns and of pairs."""

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from ...structure.significance import adjust_p_values, log_tail

FALSE_SHARE = 0.1  # of the selected columns that may be irrelevant (false discovery rate)
MIN_COLUMNS = 5  # of a table whose columns are selected
MAX_SHARE = 0.5  # of relevant columns; if there are more, no columns are selected
MAX_COLUMNS = 50  # that are selected
MAX_ROWS = 5000  # that are tested
MAX_ENTRIES = 2**24  # of the sums of products of all pairs, for all classes
MIN_CLASS = 1.0  # effective rows of a class
MIN_COUNT = 10  # rows of a category that has a score of its own
MIN_VARIANCE = 0.05  # of the product of two scores that is tested
MAX_SCORE = 5.0  # of scores whose products are tested, because rare categories have long tails
DEGREE = 4  # of polynomials of the ranks of a column
MIN_RESIDUAL = 1e-3  # of a function of a column given those before it, relative to its size
BLOCK_ENTRIES = 2**18  # of columns that are ranked together


class ColumnScores(NamedTuple):
    """Scores of rows: functions of single columns with mean 0 and variance 1, uncorrelated.

    Categories with fewer than 10 rows have no score.

    Attributes
    ----------
    scores : ndarray of float32, shape (n_rows, n_scores)
        Polynomials of the ranks of numbers, and indicators of categories and of missing entries.
    owners : ndarray of int, shape (n_scores,)
        Column of each score.
    is_simple : ndarray of bool, shape (n_scores,)
        Whether a score is a linear function of ranks, or an indicator. Products of two such scores
        are tested.
    """

    scores: np.ndarray
    owners: np.ndarray
    is_simple: np.ndarray


def column_scores(X, is_nominal, weights):
    """Return the scores of columns. The parameters are those of :class:`Screening`."""
    nominal = np.flatnonzero(is_nominal)
    ordered = np.flatnonzero(~np.asarray(is_nominal))
    shares = weights / weights.sum()
    parts = [_category_scores(X[j], j, shares) for j in nominal]
    size = max(BLOCK_ENTRIES // len(X[0]), 1)
    for first in range(0, len(ordered), size):
        block = ordered[first : first + size]
        parts.append(_rank_scores(np.stack([X[j] for j in block], axis=1), block, shares))
    scores, owners, is_simple = zip(*parts, strict=True)
    return ColumnScores(
        np.concatenate(scores, axis=1), np.concatenate(owners), np.concatenate(is_simple)
    )


def _rank_scores(X, owners, shares):
    """Return polynomials of the ranks of numbers, and the indicators of missing entries.

    The first polynomial of a column is linear. Columns with few distinct values have fewer
    polynomials.
    """
    is_missing = np.isnan(X)
    ranks = np.nan_to_num(rankdata(X, axis=0, nan_policy="omit")) / len(X)
    powers = [ranks**k for k in range(1, DEGREE + 1)]
    scores, is_kept = _uncorrelated(np.stack([*powers, is_missing], axis=2), shares)
    is_simple = np.zeros(is_kept.shape, bool)
    is_simple[:, 0] = True
    return scores[:, is_kept], owners[np.nonzero(is_kept)[0]], is_simple[is_kept]


def _category_scores(x, owner, shares):
    """Return scores of the frequent categories of a column, and of its missing entries."""
    codes = np.where(np.isnan(x), -1, x).astype(int) + 1
    frequent = np.flatnonzero(np.bincount(codes) >= MIN_COUNT)
    indicators = (codes[:, None] == frequent)[:, None].astype(float)
    scores, is_kept = _uncorrelated(indicators, shares)
    scores = scores[:, is_kept]
    n = scores.shape[1]
    return scores, np.full(n, owner), np.ones(n, bool)


def _uncorrelated(F, shares):
    """Return uncorrelated functions with mean 0 and variance 1 of the columns of a table.

    Parameters
    ----------
    F : ndarray of shape (n_rows, n_columns, n_functions)
        Functions of each column. A function is replaced by its residual given those before it.
    shares : ndarray of shape (n_rows,)
        Weights of the rows, which sum to 1.

    Returns
    -------
    F : ndarray of float32, shape (n_rows, n_columns, n_functions)
        Uncorrelated functions.
    is_kept : ndarray of bool, shape (n_columns, n_functions)
        False for functions that depend linearly on those before them.
    """

    def mean(values):
        return np.tensordot(shares, values, axes=1)

    F = F - mean(F)
    sizes = np.sqrt(mean(F**2))
    is_kept = np.zeros(F.shape[1:], bool)
    for k in range(F.shape[2]):
        for before in range(k):
            F[..., k] -= mean(F[..., k] * F[..., before]) * F[..., before]
        left = np.sqrt(mean(F[..., k] ** 2))
        is_kept[:, k] = left > MIN_RESIDUAL * np.maximum(sizes[:, k], MIN_RESIDUAL)
        F[..., k] *= is_kept[:, k] / np.where(is_kept[:, k], left, 1.0)
    return F.astype(np.float32), is_kept


class Screening:
    """Columns on which the label depends, by tests of single columns and of pairs of columns.

    The label is tested for a dependence on each column, and on the product of the ranks or
    indicators of each pair of columns. The false discovery rate of the columns is controlled. At
    most 5,000 rows are tested. In wide tables, only the columns with the largest statistics alone
    are tested in pairs.

    Parameters
    ----------
    X : list of ndarray of shape (n_rows,)
        Numbers or category codes of each column, with nan for missing entries.
    is_nominal : list of bool
        Whether the categories of a column have no order.
    targets : ndarray of shape (n_rows, n_classes)
        One-hot labels.
    weights : ndarray of shape (n_rows,)
        Weight of each row.

    Attributes
    ----------
    selected : ndarray of int
        Relevant columns by all rows, at most 50. It is empty if there are fewer than five columns,
        or if more than half of them are relevant.
    """

    def __init__(self, X, is_nominal, targets, weights):
        n = len(weights)
        self.rows = np.unique(np.linspace(0, n - 1, min(n, MAX_ROWS)).astype(int))
        weights = weights[self.rows] / weights[self.rows].max()
        targets = targets[self.rows] * (weights * (weights.sum() / (weights**2).sum()))[:, None]
        found = column_scores([x[self.rows] for x in X], is_nominal, weights)
        self.tests = _Tests(found, len(X), targets.astype(np.float32))
        columns = _select(self.tests.log_p_values(np.zeros(len(self.rows), bool)))
        if len(X) < MIN_COLUMNS or len(columns) > MAX_SHARE * len(X):
            columns = columns[:0]
        self.selected = np.sort(columns[:MAX_COLUMNS])

    def of_folds(self, folds):
        """Return the relevant columns by the rows that each fold keeps; at least one for each."""
        found = []
        for k in range(folds.max() + 1):
            log_p = self.tests.log_p_values(folds[self.rows] == k)
            columns = _select(log_p)[:MAX_COLUMNS]
            found.append(np.sort(columns) if len(columns) else np.argsort(log_p)[:1])
        return found


def _select(log_p):
    """Return the numbers of the columns that the tests select, the most significant first."""
    adjusted = adjust_p_values(np.exp(np.minimum(log_p, 0.0)), "fdr")
    order = np.argsort(log_p, kind="stable")
    return order[adjusted[order] <= FALSE_SHARE]


class _Tests:
    """Score tests of single columns and of pairs of columns.

    Parameters
    ----------
    found : ColumnScores
        Scores of the rows.
    n_columns : int
        Number of columns.
    targets : ndarray of float32, shape (n_rows, n_classes)
        One-hot labels times weights, whose sum is the effective number of rows.
    """

    def __init__(self, found, n_columns, targets):
        self.found, self.n_columns, self.targets = found, n_columns, targets
        self.counts = targets.sum(axis=0, dtype=float)
        self.sums = targets.T @ found.scores
        is_simple = found.is_simple & (np.abs(found.scores).max(axis=0, initial=0) <= MAX_SCORE)
        simple = np.flatnonzero(is_simple)
        most = int((MAX_ENTRIES / targets.shape[1]) ** 0.5)
        if len(simple) > most:
            statistic = _statistics(self.sums, self.counts)[simple]
            simple = np.sort(simple[np.argsort(-statistic)[:most]])
        self.U = found.scores[:, simple]
        self.owners = found.owners[simple]
        everything = slice(None)
        self.products = self._class_sums(self.U, everything)
        self.squares = self._class_sums(self.U**2, everything)

    def _class_sums(self, U, rows):
        """Return the sums of products of pairs of functions over the rows of each class."""
        U, sums = U[rows], []
        for y in self.targets[rows].T:
            own = y > 0
            sums.append((U[own] * y[own, None]).T @ U[own])
        return np.stack(sums)

    def log_p_values(self, left_out):
        """Return the log p-value of each column, without the rows that are left out."""
        targets = self.targets[left_out]
        counts = self.counts - targets.sum(axis=0, dtype=float)
        n_free = np.count_nonzero(counts > 0) - 1
        alone = _statistics(self.sums - targets.T @ self.found.scores[left_out], counts)
        dof = np.bincount(self.found.owners, minlength=self.n_columns) * n_free
        statistic = np.bincount(self.found.owners, alone, minlength=self.n_columns)
        log_p = np.where(dof > 0, log_tail(statistic, np.maximum(dof, 1)), 0.0)
        in_pairs = self._log_p_of_pairs(left_out, counts, n_free)
        return np.minimum(log_p, in_pairs) + np.log(2.0)

    def _log_p_of_pairs(self, left_out, counts, n_free):
        """Return the smallest log p-value of a pair of each column, times the number of pairs."""
        log_p, n = np.zeros(self.n_columns), len(self.owners)
        if n_free < 1 or n < 2:
            return log_p
        products = self.products - self._class_sums(self.U, left_out)
        squares = self.squares - self._class_sums(self.U**2, left_out)
        variances = self._variances(products, squares, counts)
        statistic = (_statistics(products, counts) / variances).max(axis=1)
        tails = log_tail(statistic, np.full(n, n_free))
        own = np.bincount(self.owners, minlength=self.n_columns)[self.owners]
        np.minimum.at(log_p, self.owners, tails + np.log(np.maximum(own * (n - own), 1)))
        return log_p

    def _variances(self, products, squares, counts):
        """Return the variance of each product of scores, infinite if it is not tested.

        It is at least the mean square in each class: a column on which the label depends varies
        more in a rare class, also in products with columns that are irrelevant.
        """
        n = counts.sum()
        variances = squares.sum(axis=0) / n - (products.sum(axis=0) / n) ** 2
        for part, count in zip(squares, counts, strict=True):
            np.maximum(variances, part / max(count, MIN_CLASS), out=variances)
        variances[self.owners[:, None] == self.owners] = 0.0
        variances[variances < MIN_VARIANCE] = np.inf
        return variances


def _statistics(sums, counts):
    """Return the score statistics of sums over the rows of each class."""
    kept = counts > 0
    shares = (counts[kept] / counts.sum()).reshape(-1, *[1] * (sums.ndim - 1))
    excess = sums[kept] - shares * sums.sum(axis=0)
    return (excess**2 / (counts.sum() * shares)).sum(axis=0)
