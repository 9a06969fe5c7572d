"""Edges by Wald tests, and missing pairs by score tests."""

import numpy as np

from .._utils.parameters import check_flag, check_number
from .assessment import assess_nodes, with_scores
from .candidates import union
from .multiple_tests import adjusted
from .nodewise import fit_nodes
from .search import Search


class WaldTests(Search):
    """Backward elimination by Wald tests and forward selection by score tests.

    In each round the parameters of all edges are learned, and edges whose parameters do not differ
    from zero by a Wald test leave. When none leaves, pairs that score tests find missing enter. The
    search ends when a round changes nothing.

    Parameters
    ----------
    control : {"holm", "fdr"}, default="holm"
        What ``level`` bounds: the probability of any false edge (Holm), or the expected share of
        false edges among those found (Benjamini and Hochberg). ``p_values_`` are adjusted
        accordingly.
    level : float, default=0.05
        Bound on the errors, above 0 and at most 1.
    re_entry : bool, default=True
        Whether pairs that score tests find missing enter.

    References
    ----------
    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979). Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate",
    Journal of the Royal Statistical Society B 57 (1995).

    Examples
    --------
    >>> from skmrf import MRFStructureLearner
    >>> from skmrf.structure import WaldTests
    >>> MRFStructureLearner(search=WaldTests(control="fdr", level=0.1))
    MRFStructureLearner(search=WaldTests(control='fdr', level=0.1))
    """

    def __init__(self, control="holm", level=0.05, re_entry=True):
        self.control = control
        self.level = level
        self.re_entry = re_entry

    def check(self):
        super().check()
        check_number("level", self.level, low=0, high=1, open_low=True)
        check_flag("re_entry", self.re_entry)

    def keep(self, energy, assessment):
        return self._is_significant(assessment)[tuple(energy.form.edges.T)]

    def revise(self, rows, edges, assessment, model, entered, n_jobs):
        """Return the edges after forward selection and backward elimination.

        Both are by the conditional likelihoods. In a step a pair enters if no pair with either of
        its ends is more significant, and no pair enters twice, so that the search ends.
        """
        while self.re_entry:
            significant = self._is_significant(assessment)
            kept = significant[tuple(edges.T)]
            significant[tuple(edges.T)] = False
            significant[tuple(np.array(sorted(entered), dtype=np.int64).reshape(-1, 2).T)] = False
            entering = most_significant(np.where(significant, assessment.log_p, np.inf))
            if kept.all() and not len(entering):
                break
            entered.update(map(tuple, entering.tolist()))
            edges = union(edges[kept], entering)
            fits = fit_nodes(rows.X, rows.weights, model.form(rows.n_states, edges), n_jobs=n_jobs)
            assessment = with_scores(assess_nodes(fits, rows, n_jobs), fits, rows, n_jobs)
        return edges

    def _is_significant(self, assessment):
        """Return a matrix that is True for the pairs ``i < j`` whose tests reject."""
        n = len(assessment.statistic)
        significant = np.zeros((n, n), dtype=bool)
        significant[np.triu_indices(n, 1)] = adjusted(assessment.p, self.control) <= self.level
        return significant


def most_significant(log_p):
    """Return the pairs ``i < j`` that have the smallest entry of both of their rows.

    Parameters
    ----------
    log_p : ndarray of shape (n, n)
        Its upper triangle counts; infinite entries are no candidates.

    Returns
    -------
    ndarray of shape (n_pairs, 2)
    """
    both = np.minimum(log_p, log_p.T)
    best = both.min(axis=0, initial=np.inf)
    first = np.isfinite(both) & (both <= best) & (both <= best[:, None])
    return np.argwhere(np.triu(first, 1))
