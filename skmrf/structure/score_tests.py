"""Score tests of pairs that are no edges."""

from itertools import pairwise

import numpy as np
from scipy.special import expit

from .._utils.parallel import run_blocks
from .chi2_tail import quadratic_forms
from .regression import RIDGE, Encoded, Patterns, gram, nodes_of, relative_basis, spread

LEAST_INFORMATION = 0.1  # of a parameter worth testing: its standard error would be above 3
NEGLIGIBLE = 1e-8  # share of the information of a parameter that rounding may leave


def score_tests(fits, X, weights, form, tested, *, n_jobs=None):
    """Score (Rao) tests of every pair of some variables that is no edge.

    From each end's regression, with its fitted parameters projected out of the score, and the
    information of the model.

    Parameters
    ----------
    fits : NodeFits
        Of the same rows and form.
    X : ndarray of shape (n_rows, n_variables)
        State codes, nothing missing.
    weights : ndarray of shape (n_rows,)
    form : LogLinearForm
    tested : ndarray of bool, shape (n_variables,)
    n_jobs : int or None

    Returns
    -------
    statistic : ndarray of shape (n_variables, n_variables)
        Mean of both directions, symmetric. 0 at edges, on the diagonal and where one variable is a
        function of the neighbours of the other.
    dof : ndarray of shape (n_variables, n_variables)
        0 where there is nothing to test.
    """
    score = _two_state_scores if (form.layout.n_states <= 2).all() else _table_scores
    tested = tested & (form.layout.n_states > 1)
    return _symmetric(form, score(fits, X, weights, form, tested, n_jobs))


def _two_state_scores(fits, X, weights, form, tested, n_jobs):
    """Statistics (n, n) and degrees of freedom (n, n) from the regression of the first variable.

    The statistic of a pair is x_j in {-1, 1}, so every sum over rows is a matrix product.
    """
    columns = np.ascontiguousarray(X.T)
    signs = Encoded.signs(X)

    def direction(node, theta):
        if not tested[node.variable]:
            return np.zeros(len(tested)), np.zeros(len(tested), dtype=np.int64)
        loadings = node.loadings[:, 0]
        score, total, cross, information = 0.0, 0.0, 0.0, RIDGE * np.eye(len(theta))
        for rows, s in signs.parts():
            z = node.regressors(columns[node.partners, rows])
            p = expit(theta @ loadings @ z)
            w = weights[rows]
            scaled = z * (w * p * (1 - p))
            score += (w * (columns[node.variable, rows] - p)) @ s
            total += w @ (p * (1 - p))
            cross += loadings @ (scaled @ s)
            information += loadings @ (scaled @ z.T) @ loadings.T
        left = total - (cross * np.linalg.solve(information, cross)).sum(axis=0)
        told = tested & (left > LEAST_INFORMATION + NEGLIGIBLE * total)
        return np.where(told, score**2, 0.0) / np.where(told, left, 1.0), told.astype(int)

    return _directions(direction, fits, form, n_jobs)


def _table_scores(fits, X, weights, form, tested, n_jobs):
    """The same for any numbers of states, from sums over the rows of every state of a partner."""
    columns = np.ascontiguousarray(X.T)
    q = form.layout.n_states
    start = np.concatenate([[0], np.cumsum(np.where(tested, q, 0))])

    def direction(node, theta):
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

    return _directions(direction, fits, form, n_jobs)


class _StateSums:
    """Sums over rows by the states of all other variables, which all score tests are made of."""

    def __init__(self, node, theta, patterns, weights, start):
        p, k, m = node.loadings.shape
        n_columns = start[-1]
        loadings = node.loadings.reshape(p, k * m)
        seen = _occurrences(patterns.states, k + 1, patterns.columns, weights, start)
        self.score, self.second = seen[1:], np.zeros((k * k, n_columns))
        cross = np.zeros((k * m, k * n_columns))
        information = np.zeros((k * m, k * m))
        counts, order = patterns.counts(weights).sum(axis=0), np.argsort(patterns.which)
        ends = np.searchsorted(patterns.which[order], np.arange(len(patterns) + 1))
        encoded = Encoded(patterns.regressors, len(patterns), n_columns + 2 * m + (k + 1) ** 2)
        for some, z in encoded.parts():
            rows = order[ends[some.start] : ends[some.stop]]
            which = patterns.which[rows] - some.start
            columns = (column[rows] for column in patterns.columns)
            seen = _occurrences(which, z.shape[1], columns, weights[rows], start)
            probabilities = np.exp(node.log_law(theta, z)[1:])
            covariances = spread(probabilities, 1.0)
            self.score -= probabilities @ seen
            self.second += covariances.reshape(k * k, -1) @ seen
            cross += gram(covariances, z, seen).reshape(cross.shape)
            information += gram(covariances * counts[some], z, z.T).reshape(information.shape)
        self.second = self.second.reshape(k, k, n_columns)
        self.cross = (loadings @ cross).reshape(p, k, n_columns)
        self.information = RIDGE * np.eye(p) + loadings @ information @ loadings.T

    def tests(self, entries, basis):
        """Statistics and ranks of partners whose states are these columns."""
        score = np.tensordot(self.score[:, entries], basis, axes=((0, 2), (1, 2)))
        cross = np.tensordot(self.cross[:, :, entries], basis, axes=((1, 3), (1, 2)))
        p, n, d = cross.shape
        solved = np.linalg.solve(self.information, cross.reshape(p, n * d)).reshape(cross.shape)
        explained = np.matmul(cross.transpose(1, 2, 0), solved.transpose(1, 0, 2))
        second = self.second[:, :, entries].transpose(3, 0, 1, 2)  # a matrix product a state
        half = np.matmul(basis.transpose(2, 0, 1), second.reshape(*second.shape[:2], -1))
        half = half.reshape(len(half), d, -1, n)
        total = np.tensordot(half, basis, axes=((0, 2), (2, 1))).transpose(1, 0, 2)
        left = total - explained
        largest = np.trace(total, axis1=1, axis2=2)
        return quadratic_forms(score, left, LEAST_INFORMATION + NEGLIGIBLE * largest)


def _occurrences(groups, n_groups, columns, weights, start):
    """Weights of the rows of every group by the states of all variables, numbered through."""
    out = np.empty((n_groups, start[-1]))
    for column, (a, b) in zip(columns, pairwise(start.tolist()), strict=True):
        if a == b:
            continue
        cells = groups * (b - a) + column
        found = np.bincount(cells, weights, minlength=n_groups * (b - a))
        out[:, a:b] = found.reshape(n_groups, b - a)
    return out


def _directions(direction, fits, form, n_jobs):
    tasks = list(zip(nodes_of(form), fits.own, strict=True))
    found = list(run_blocks(direction, tasks, n_jobs))
    return np.stack([f[0] for f in found]), np.stack([f[1] for f in found])


def _symmetric(form, directed):
    """Mean of the statistics of both directions, the larger of their degrees of freedom."""
    statistic, dof = (directed[0] + directed[0].T) / 2, np.maximum(directed[1], directed[1].T)
    for values in (statistic, dof):
        values[form.edges[:, 0], form.edges[:, 1]] = 0
        values[form.edges[:, 1], form.edges[:, 0]] = 0
        np.fill_diagonal(values, 0)
    return statistic, dof
