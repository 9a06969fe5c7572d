"""Score tests of pairs without an edge."""

from itertools import pairwise

import numpy as np
from scipy.special import expit

from .._utils.parallel import run_blocks
from .regression import (
    RIDGE,
    ChunkedCodes,
    Patterns,
    build_nodes,
    indicator_covariances,
    relative_basis,
    weighted_gram,
)
from .significance import quadratic_forms

MIN_INFORMATION = 0.1  # with less information, the standard error of a parameter is above 3
ROUNDING_SHARE = 1e-8  # information below this share of its total may be rounding


def score_tests(fits, X, weights, form, tested, *, n_jobs=None):
    """Return score (Rao) tests of all pairs of tested variables, except edges.

    The score is that of the nodewise regressions, with their fitted parameters projected out. Its
    variance is the Fisher information of the model.

    Parameters
    ----------
    fits : NodeFits
        Nodewise regressions of the same rows and form.
    X : ndarray of shape (n_rows, n_variables)
        State codes without missing entries.
    weights : ndarray of shape (n_rows,)
        Sample weights: how often each row counts.
    form : LogLinearForm
        Parameterisation of the graph.
    tested : ndarray of bool, shape (n_variables,)
        Mask of the variables to test.
    n_jobs : int or None
        Number of threads over variables.

    Returns
    -------
    statistic : ndarray of shape (n_variables, n_variables)
        Mean of the statistics of both directions, symmetric. 0 at edges, on the diagonal, and
        where one variable is a function of the neighbours of the other.
    dof : ndarray of shape (n_variables, n_variables)
        Degrees of freedom; 0 where nothing is tested.
    """
    score = _two_state_scores if (form.layout.n_states <= 2).all() else _table_scores
    tested = tested & (form.layout.n_states > 1)
    return _symmetrise(form, score(fits, X, weights, form, tested, n_jobs))


def _two_state_scores(fits, X, weights, form, tested, n_jobs):
    """Return score statistics and degrees of freedom of all pairs of two-state variables.

    Row i is from the regression of variable i. The states of the other variable are coded as -1
    and 1, so each sum over rows is a matrix product.
    """
    columns = np.ascontiguousarray(X.T)
    signs = ChunkedCodes.from_binary(X)

    def test_node(node, theta):
        if not tested[node.variable]:
            return np.zeros(len(tested)), np.zeros(len(tested), dtype=np.int64)
        loadings = node.loadings[:, 0]
        score, total, cross, information = 0.0, 0.0, 0.0, RIDGE * np.eye(len(theta))
        for rows, s in signs.iter_chunks():
            z = node.regressors(columns[node.partners, rows])
            p = expit(theta @ loadings @ z)
            w = weights[rows]
            scaled = z * (w * p * (1 - p))
            score += (w * (columns[node.variable, rows] - p)) @ s
            total += w @ (p * (1 - p))
            cross += loadings @ (scaled @ s)
            information += loadings @ (scaled @ z.T) @ loadings.T
        remaining = total - (cross * np.linalg.solve(information, cross)).sum(axis=0)
        testable = tested & (remaining > MIN_INFORMATION + ROUNDING_SHARE * total)
        statistic = np.where(testable, score**2, 0.0) / np.where(testable, remaining, 1.0)
        return statistic, testable.astype(int)

    return _test_all_nodes(test_node, fits, form, n_jobs)


def _table_scores(fits, X, weights, form, tested, n_jobs):
    """Return score statistics and degrees of freedom of all pairs; any numbers of states."""
    columns = np.ascontiguousarray(X.T)
    q = form.layout.n_states
    start = np.concatenate([[0], np.cumsum(np.where(tested, q, 0))])

    def test_node(node, theta):
        statistic, rank = np.zeros(len(q)), np.zeros(len(q), dtype=np.int64)
        if not tested[node.variable]:
            return statistic, rank
        sums = _StateSums(node, theta, Patterns(node, columns), weights, start)
        for q_j in np.unique(q[tested]).tolist():
            partners = np.flatnonzero(tested & (q == q_j))
            entries = start[partners][:, None] + np.arange(q_j)
            basis = relative_basis(form.statistic, node.n_states, q_j, True)
            statistic[partners], rank[partners] = sums.tests(entries, basis)
        return statistic, rank

    return _test_all_nodes(test_node, fits, form, n_jobs)


class _StateSums:
    """Sums over rows for the score tests of one variable with each state of each other variable."""

    def __init__(self, node, theta, patterns, weights, start):
        p, k, m = node.loadings.shape
        n_columns = start[-1]
        loadings = node.loadings.reshape(p, k * m)
        state_weights = _state_weights(patterns.states, k + 1, patterns.columns, weights, start)
        self.score, self.second = state_weights[1:], np.zeros((k * k, n_columns))
        cross = np.zeros((k * m, k * n_columns))
        information = np.zeros((k * m, k * m))
        counts, order = patterns.counts(weights).sum(axis=0), np.argsort(patterns.inverse)
        ends = np.searchsorted(patterns.inverse[order], np.arange(len(patterns) + 1))
        encoded = ChunkedCodes(patterns.regressors, len(patterns), n_columns + 2 * m + (k + 1) ** 2)
        for chunk, z in encoded.iter_chunks():
            rows = order[ends[chunk.start] : ends[chunk.stop]]
            groups = patterns.inverse[rows] - chunk.start
            columns = (column[rows] for column in patterns.columns)
            state_weights = _state_weights(groups, z.shape[1], columns, weights[rows], start)
            probabilities = np.exp(node.log_probabilities(theta, z)[1:])
            covariances = indicator_covariances(probabilities, 1.0)
            self.score -= probabilities @ state_weights
            self.second += covariances.reshape(k * k, -1) @ state_weights
            cross += weighted_gram(covariances, z, state_weights).reshape(cross.shape)
            information += weighted_gram(covariances * counts[chunk], z, z.T).reshape(
                information.shape
            )
        self.second = self.second.reshape(k, k, n_columns)
        self.cross = (loadings @ cross).reshape(p, k, n_columns)
        self.information = RIDGE * np.eye(p) + loadings @ information @ loadings.T

    def tests(self, entries, basis):
        """Return score statistics and degrees of freedom of pairs with several other variables."""
        score = np.tensordot(self.score[:, entries], basis, axes=((0, 2), (1, 2)))
        cross = np.tensordot(self.cross[:, :, entries], basis, axes=((1, 3), (1, 2)))
        p, n, d = cross.shape
        solved = np.linalg.solve(self.information, cross.reshape(p, n * d)).reshape(cross.shape)
        explained = np.matmul(cross.transpose(1, 2, 0), solved.transpose(1, 0, 2))
        second = self.second[:, :, entries].transpose(3, 0, 1, 2)  # one matrix product per state
        half = np.matmul(basis.transpose(2, 0, 1), second.reshape(*second.shape[:2], -1))
        half = half.reshape(len(half), d, -1, n)
        total = np.tensordot(half, basis, axes=((0, 2), (2, 1))).transpose(1, 0, 2)
        remaining = total - explained
        largest = np.trace(total, axis1=1, axis2=2)
        return quadratic_forms(score, remaining, MIN_INFORMATION + ROUNDING_SHARE * largest)


def _state_weights(groups, n_groups, columns, weights, start):
    """Return, for each group of rows, the total weight of each state of each variable."""
    out = np.empty((n_groups, start[-1]))
    for column, (a, b) in zip(columns, pairwise(start.tolist()), strict=True):
        if a == b:
            continue
        cells = groups * (b - a) + column
        counts = np.bincount(cells, weights, minlength=n_groups * (b - a))
        out[:, a:b] = counts.reshape(n_groups, b - a)
    return out


def _test_all_nodes(test_node, fits, form, n_jobs):
    tasks = list(zip(build_nodes(form), fits.node_parameters, strict=True))
    results = list(run_blocks(test_node, tasks, n_jobs))
    return np.stack([r[0] for r in results]), np.stack([r[1] for r in results])


def _symmetrise(form, directed):
    """Average the score statistics of both directions of each pair; use the larger dof."""
    statistic, dof = (directed[0] + directed[0].T) / 2, np.maximum(directed[1], directed[1].T)
    for values in (statistic, dof):
        values[form.edges[:, 0], form.edges[:, 1]] = 0
        values[form.edges[:, 1], form.edges[:, 0]] = 0
        np.fill_diagonal(values, 0)
    return statistic, dof
