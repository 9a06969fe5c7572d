"""Graph searches that remove edges: by tests, or by the size of their parameters."""

import numpy as np

from .._utils.parameters import check_flag, check_number
from ..learners import PseudoLikelihood
from .path import EdgeRemoval
from .screening import union
from .search import Search
from .significance import CONTROLS, LOCAL_FDR, adjust_p_values

PAPER_THRESHOLD = 0.004  # log(0.501 / 0.499)


class WaldTests(Search):
    """Backward elimination by Wald tests and forward selection by score tests.

    Each round learns the parameters of all edges and removes edges whose parameters do not differ
    from zero by a Wald test. If a round removes no edge, pairs that are significant by a score test
    are added. A pair that is significant by its score test and not by its Wald test is no edge. The
    search ends when a round changes nothing. In tables with numeric columns, a pair is tested in
    the regressions of both of its columns on their neighbours, by F tests for numeric columns. The
    test statistic is the square of the mean of the roots of both statistics.

    Parameters
    ----------
    control : {"local-fdr", "holm", "fdr"}, default="local-fdr"
        Error rate that ``level`` bounds.

        - "holm" bounds the probability of any false edge (Holm).
        - "fdr" bounds the expected share of false edges among the selected edges (Benjamini and
          Hochberg).
        - "local-fdr" selects the edges that "holm" selects, and each other pair whose posterior
          probability of being no edge is at most ``level``. This probability, one minus
          ``edge_probability_``, is the local false discovery rate (Efron). It is estimated from the
          tests of all pairs, so it depends on how clearly edges differ from other pairs. If no pair
          is an edge, the probability of any false edge is at most about ``level`` + 0.01.

        ``p_values_`` are adjusted accordingly, and with "local-fdr" as with "fdr".
    level : float, default=0.05
        Upper bound of the error rate, above 0 and at most 1.
    re_entry : bool, default=True
        Whether pairs that are significant by a score test are added.

    References
    ----------
    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979). Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate",
    Journal of the Royal Statistical Society B 57 (1995). B. Efron, R. Tibshirani, J. D. Storey and
    V. Tusher, "Empirical Bayes analysis of a microarray experiment", Journal of the American
    Statistical Association 96 (2001).

    Examples
    --------
    >>> from skmrf import MRFStructureLearner
    >>> from skmrf.structure import WaldTests
    >>> MRFStructureLearner(search=WaldTests(control="fdr", level=0.1))
    MRFStructureLearner(search=WaldTests(control='fdr', level=0.1))
    """

    takes_numbers = True
    controls = (LOCAL_FDR, *CONTROLS)

    def __init__(self, control=LOCAL_FDR, level=0.05, re_entry=True):
        self.control = control
        self.level = level
        self.re_entry = re_entry

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        super().check()
        check_number("level", self.level, low=0, high=1, open_low=True)
        check_flag("re_entry", self.re_entry)

    def default_learner(self):
        """Return the pseudo-likelihood learner."""
        return PseudoLikelihood()

    @property
    def keeps_by_all_tests(self):
        """True for "local-fdr", which needs the tests of all pairs to keep an edge."""
        return self.control == LOCAL_FDR

    @property
    def adjustment(self):
        """Adjustment of the p-values."""
        return "fdr" if self.control == LOCAL_FDR else self.control

    def keep(self, energy, assessment):
        """Return a mask of the edges whose Wald tests are significant.

        Parameters
        ----------
        energy : LogLinearEnergy
            Model with the learned parameters of the edges.
        assessment : Assessment
            Tests of the edges.

        Returns
        -------
        ndarray of bool of shape (n_edges,)
            True for the edges to keep.
        """
        return self._is_significant(assessment)[tuple(energy.form.edges.T)]

    def revise(self, rows, edges, assessment, model, entered, n_jobs):
        """Return the next round's edges, by forward selection and backward elimination.

        Both use the conditional likelihoods. A step adds a pair if no other pair with one of its
        ends is more significant. No pair is added twice, so that the search ends.

        Parameters
        ----------
        rows : Rows or MixedRows
            Training rows without missing entries.
        edges : ndarray of shape (n_edges, 2)
            Edges of the current round.
        assessment : Assessment
            Tests of all pairs.
        model : GraphModel
            Parameterisation of the edges.
        entered : set of (int, int)
            Pairs that were added in earlier rounds. The pairs that are added now are inserted.
        n_jobs : int or None
            Number of threads over variables.

        Returns
        -------
        ndarray of shape (n_edges, 2)
            Edges of the next round.
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
            assessment = model.assess_pairs(rows, edges, n_jobs)
        return edges

    def _is_significant(self, assessment):
        """Return a mask of the significant pairs ``i < j``, shape (n, n)."""
        n, is_local = len(assessment.statistic), self.control == LOCAL_FDR
        control = "holm" if is_local else self.control
        is_edge = adjust_p_values(assessment.p, control) <= self.level
        if is_local:
            is_edge |= assessment.edge_probabilities >= 1.0 - self.level
        significant = np.zeros((n, n), dtype=bool)
        significant[np.triu_indices(n, 1)] = is_edge
        return significant


def most_significant(log_p):
    """Return each pair with the smallest p-value among all pairs that share a variable with it.

    Parameters
    ----------
    log_p : ndarray of shape (n, n)
        Log p-values in the upper triangle. Infinite entries are excluded.

    Returns
    -------
    ndarray of shape (n_pairs, 2)
        Pairs of variable indices.
    """
    both = np.minimum(log_p, log_p.T)
    best = both.min(axis=0, initial=np.inf)
    first = np.isfinite(both) & (both <= best) & (both <= best[:, None])
    return np.argwhere(np.triu(first, 1))


class RemovalWhileLearning(Search):
    r"""Removal of edges while their parameters are learned.

    In this method [1]_, the parameters of all candidates are learned once. After each update, edges
    with :math:`\lVert \theta_{ij} \rVert` below the threshold are removed permanently. The default
    threshold is far below the standard error, so the selected graph is largely random.
    ``partial_fit`` is available with this search only.

    Parameters
    ----------
    threshold : float, default=0.004
        Smallest norm of the centred table of an edge that is kept, at least 0. If both columns have
        two categories, the norm is twice the absolute coupling of states -1 and 1, and equals
        :math:`\lvert \log \beta / (1 - \beta) \rvert` of [1]_. The default is the value in [1]_.
    warmup : int, default=0
        Number of updates before the first removal, at least 0.
    control : {"holm", "fdr"}, default="holm"
        Adjustment of ``p_values_`` for multiple tests: family-wise error rate ("holm") or false
        discovery rate ("fdr"). The edges do not depend on it.

    References
    ----------
    .. [1] J. Liu and D. Page, "Structure learning of undirected graphical models with contrastive
       divergence", ICML 2013 workshop on structured learning, Algorithm 1.
    """

    takes_partial_fit = True

    def __init__(self, threshold=PAPER_THRESHOLD, warmup=0, control="holm"):
        self.threshold = threshold
        self.warmup = warmup
        self.control = control

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        super().check()
        check_number("threshold", self.threshold, low=0)
        check_number("warmup", self.warmup, low=0, integer=True)

    def restriction(self, estimation):
        """Return the rule that removes edges between updates, as an ``EdgeRemoval``.

        Parameters
        ----------
        estimation : Estimation
            Its path records the removals.
        """
        return EdgeRemoval(self.threshold, self.warmup, estimation.path)


class Thresholding(Search):
    r"""Backward elimination of edges with small parameters.

    Each round learns the parameters of all edges and removes edges with
    :math:`\lVert \theta_{ij} \rVert` below the threshold. The search ends when a round removes no
    edge.

    Parameters
    ----------
    threshold : float, default=0.25
        Smallest norm of the centred table of an edge that is kept, at least 0. If both columns have
        two categories, the norm is twice the absolute coupling of states -1 and 1, and equals
        :math:`\lvert \log \beta / (1 - \beta) \rvert` of Liu and Page (2013).
    control : {"holm", "fdr"}, default="holm"
        Adjustment of ``p_values_`` for multiple tests: family-wise error rate ("holm") or false
        discovery rate ("fdr"). The edges do not depend on it.
    """

    def __init__(self, threshold=0.25, control="holm"):
        self.threshold = threshold
        self.control = control

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        super().check()
        check_number("threshold", self.threshold, low=0)

    def keep(self, energy, assessment):
        """Return a mask of the edges whose parameter norm is at least the threshold.

        Parameters
        ----------
        energy : LogLinearEnergy
            Model with the learned parameters of the edges.
        assessment : Assessment
            Tests of the edges (not used).

        Returns
        -------
        ndarray of bool of shape (n_edges,)
            True for the edges to keep.
        """
        return energy.strengths() >= self.threshold
