"""Tests of all pairs of variables, given the graph and its parameters."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from .information import MOST_STATISTICS, parameter_covariances
from .nodewise import likelihood_ratio, score_tests


@dataclass(frozen=True, eq=False)
class Assessment:
    """Chi-square statistics of all pairs: of edges whether to keep them, of others to add them.

    Attributes
    ----------
    statistic, dof : ndarray of shape (n_variables, n_variables)
        Symmetric; both 0 where nothing can be tested.
    covariances : list of ndarray
        Of the parameters of every edge.
    """

    statistic: np.ndarray
    dof: np.ndarray
    covariances: list

    @property
    def p(self):
        """p-values of all pairs ``i < j``, in the order of ``numpy.triu_indices(n, 1)``."""
        upper = np.triu_indices(len(self.statistic), 1)
        dof = self.dof[upper]
        return np.where(dof > 0, chi2.sf(self.statistic[upper], np.maximum(dof, 1)), 1.0)


def assess(energy, rows, completed, fits, rng, n_jobs=None):
    """Wald tests of the edges and score tests of all other pairs.

    Standard errors are those of the likelihood, from the covariance of the statistics under the
    model, or with more than 2,000 statistics those of each variable's own conditional likelihood
    (sandwich form). Edges with a joint state that never occurs, of which Wald tests fail, get a
    likelihood-ratio test of the conditional likelihoods.

    Parameters
    ----------
    energy : LogLinearEnergy
        Its moments are matched to the rows.
    rows, completed : Rows
        With missing entries, and with these drawn.
    fits : NodeFits
        Of the same graph, to ``completed``.
    """
    form, n = energy.form, energy.n_variables
    if n < 2:
        return Assessment(np.zeros((n, n)), np.zeros((n, n)), [])
    statistic, dof = score_tests(fits, completed.X, completed.weights, form)
    covariances = _covariances(energy, rows, completed, fits, rng)
    values = np.array(
        [
            theta @ np.linalg.pinv(c, hermitian=True) @ theta
            for theta, c in zip(energy.edge_parameters(), covariances, strict=True)
        ]
    )
    free = np.diff(form.pair_start)
    doubtful = np.flatnonzero(_with_empty_cells(form, completed))
    if len(doubtful):
        ratios, _ = likelihood_ratio(completed.X, completed.weights, form, doubtful, n_jobs=n_jobs)
        shown = rows.seen(form.edges[doubtful]) / rows.count
        values[doubtful] = ratios * shown
    i, j = form.edges.T
    statistic[i, j] = statistic[j, i] = values
    dof[i, j] = dof[j, i] = free
    return Assessment(statistic, dof, covariances)


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
        out[e] = len(np.unique(joint)) < q[i] * q[j]
    return out
