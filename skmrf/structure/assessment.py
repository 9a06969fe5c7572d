"""Tests of all pairs of variables, given the graph and its parameters."""

from dataclasses import dataclass

import numpy as np

from .._utils.warn import warn_caller
from .chi2_tail import log_tail
from .information import MOST_STATISTICS, parameter_covariances
from .nodewise import likelihood_ratio, wald_statistics
from .score_tests import score_tests

MOST_WORK = 1e12  # multiplications of all score tests
MOST_LEFT_OUT = 0.25  # share of the columns; if it takes more, no pair is tested


@dataclass(frozen=True, eq=False)
class Assessment:
    """Chi-square statistics of pairs: of edges whether to keep them, of others to add them.

    Attributes
    ----------
    statistic, dof : ndarray of shape (n_variables, n_variables)
        Symmetric; both 0 where nothing was tested.
    covariances : list of ndarray
        Of the parameters of every edge.
    """

    statistic: np.ndarray
    dof: np.ndarray
    covariances: list

    @property
    def log_p(self):
        """Logarithms of the p-values, symmetric; 0 where nothing was tested."""
        out = np.zeros(self.statistic.shape)
        tested = self.dof > 0
        out[tested] = log_tail(self.statistic[tested], self.dof[tested])
        return out

    @property
    def p(self):
        """p-values of all pairs ``i < j``, in the order of ``numpy.triu_indices(n, 1)``."""
        return np.exp(self.log_p[np.triu_indices(len(self.statistic), 1)])


def assess(energy, rows, completed, fits, rng, n_jobs=None):
    """Wald tests of the edges, by the likelihood.

    Standard errors are from the covariance of the statistics under the model, or with more than
    2,000 statistics those of each variable's own conditional likelihood (sandwich form).

    Parameters
    ----------
    energy : LogLinearEnergy
        Its moments are matched to the rows.
    rows, completed : Rows
        With missing entries, and with these drawn.
    fits : NodeFits
        Of the same graph, to ``completed``.
    rng : numpy.random.Generator
    n_jobs : int or None
        Threads over variables.
    """
    covariances = _covariances(energy, rows, completed, fits, rng)
    values = wald_statistics(energy.form, energy.theta["pairs"], covariances)
    shown = rows.seen(energy.form.edges) / rows.count
    return _of_edges(fits, values, covariances, completed, shown, n_jobs)


def assess_nodes(fits, rows, n_jobs=None):
    """Wald tests of the edges, by each variable's own conditional likelihood.

    Parameters
    ----------
    fits : NodeFits
    rows : Rows
        Those fitted to.
    """
    values, _ = fits.wald()
    return _of_edges(fits, values, fits.covariances, rows, np.ones(len(values)), n_jobs)


def _of_edges(fits, values, covariances, rows, shown, n_jobs):
    """Edges with a joint state that never occurs, of which Wald tests fail, get another test.

    It is the likelihood-ratio test of the conditional likelihoods.
    """
    form = fits.form
    doubtful = np.flatnonzero(_with_empty_cells(form, rows))
    if len(doubtful):
        ratios, _ = likelihood_ratio(fits, rows.X, rows.weights, doubtful, n_jobs=n_jobs)
        values[doubtful] = ratios * shown[doubtful]
    n = len(form.layout.n_states)
    i, j = form.edges.T
    statistic, dof = np.zeros((n, n)), np.zeros((n, n), dtype=int)
    statistic[i, j] = statistic[j, i] = values
    dof[i, j] = dof[j, i] = _degrees(form, rows)
    return Assessment(statistic, dof, covariances)


def _degrees(form, rows):
    """Parameters of every edge that rows can tell of: states that never occur have none."""
    if form.statistic == "agreement":
        return np.ones(len(form.edges), dtype=int)
    free = np.array([len(np.unique(column)) - 1 for column in rows.X.T])
    return free[form.edges[:, 0]] * free[form.edges[:, 1]]


def with_scores(found, fits, rows, n_jobs=None):
    """The same, with score tests of all pairs that are no edges, unless that takes too long."""
    if len(found.statistic) < 2:
        return found
    tested = _affordable(fits.form, len(rows.X))
    if not tested.any():
        return found
    statistic, dof = score_tests(fits, rows.X, rows.weights, fits.form, tested, n_jobs=n_jobs)
    return Assessment(found.statistic + statistic, found.dof + dof, found.covariances)


def _affordable(form, n_rows):
    """Variables of which score tests take no longer than bearable: but for those of most states."""
    q = form.layout.n_states
    free = q - 1.0 if form.statistic == "table" else np.ones(len(q))
    needed = n_rows * (free**2).sum() ** 2
    most, tested = int(q.max()) + 1, np.ones(len(q), dtype=bool)
    while n_rows * (free[tested] ** 2).sum() ** 2 > MOST_WORK:
        most = int(q[tested].max())
        tested = q < most
    if (~tested).mean() > MOST_LEFT_OUT:
        most, tested = 2, np.zeros(len(q), dtype=bool)
    if not tested.all():
        warn_caller(
            f"Score tests of columns of {most} categories and more would take about {needed:.2g} "
            "multiplications and were left out: no edge of such a column enters, and p-values "
            "where it has none are 1. Merge rare categories, drop columns that name the rows, or "
            'use statistic="agreement".'
        )
    return tested


def _covariances(energy, rows, completed, fits, rng):
    """As if every pair had been seen as often as it was."""
    few = sum(v.size for v in energy.theta.values()) <= MOST_STATISTICS
    found = parameter_covariances(energy, completed, rng) if few else fits.covariances
    scale = rows.count / np.maximum(rows.seen(energy.form.edges), 1.0)
    return [c * s for c, s in zip(found, scale, strict=True)]


def _with_empty_cells(form, rows):
    """Edges of which a joint state never occurs."""
    q = form.layout.n_states
    out = np.zeros(len(form.edges), dtype=bool)
    for e, (i, j) in enumerate(form.edges.tolist()):
        joint = rows.X[:, i].astype(np.int64) * q[j] + rows.X[:, j]
        out[e] = (np.bincount(joint, minlength=q[i] * q[j]) == 0).any()
    return out
