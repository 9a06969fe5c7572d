"""Edge selection by L1 and group L1 penalties."""

import numpy as np

from .._utils.parameters import check_choice, check_number_or
from ..learners import PseudoLikelihood
from ..training.part_reports import warn_interrupted
from .search import Search

PENALTIES = ("l1", "group-l1")
N_ALPHAS = 20
N_FINER = 6  # further strengths around the best strength of the path
PATH_MARGIN = 1.001  # of the largest strength; rounding must not leave an edge there
SMALLEST_SHARE = 0.01  # smallest strength of the path, as a share of the largest
N_FOLDS = 5


class Penalized(Search):
    """Selection of the edges whose parameters are not zero in a penalised estimate.

    After the selection, the parameters of the selected edges are learned without the penalty.
    During the selection, missing entries are sampled from independent columns. This can miss weak
    edges, but it does not create false ones.

    Parameters
    ----------
    penalty : {"l1", "group-l1"}, default="group-l1"
        Penalty on the parameters of edges. "l1" penalises the absolute value of each parameter,
        "group-l1" the norm of all parameters of an edge.
    alpha : {"ebic", "cv"} or float, default="ebic"
        Strength of the penalty, relative to the mean log-likelihood (or pseudo-log-likelihood) in
        nats. A float, above 0, is the strength. "ebic" selects it by the extended Bayesian
        information criterion [1]_ from a path of 20 values, and from 6 more values around the
        best. "cv" selects it from the path by the 5-fold cross-validated pseudo-likelihood, which
        keeps many false edges.
    control : {"holm", "fdr"}, default="holm"
        Adjustment of ``p_values_`` for multiple tests: family-wise error rate ("holm") or false
        discovery rate ("fdr"). The edges do not depend on it.

    References
    ----------
    .. [1] R. Foygel Barber and M. Drton, "High-dimensional Ising model selection with Bayesian
       information criteria", Electronic Journal of Statistics 9 (2015).
    """

    def __init__(self, penalty="group-l1", alpha="ebic", control="holm"):
        self.penalty = penalty
        self.alpha = alpha
        self.control = control

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        super().check()
        check_choice("penalty", self.penalty, PENALTIES)
        check_number_or(("ebic", "cv"), "alpha", self.alpha, low=0, open_low=True)

    def first_edges(self, rows, model, estimation):
        """Return the edges with nonzero parameters and the number of candidate pairs.

        Parameters
        ----------
        rows : Rows
            Training rows; every variable has at least two states.
        model : PairwiseModel
            Parameterisation of the edges, and limits on candidates and memory.
        estimation : Estimation
            Learner, settings and state of the training loop. Receives the strength and the path.

        Returns
        -------
        edges : ndarray of shape (n_edges, 2)
            Pairs of variable indices, the lower index first.
        n_candidates : int
            Number of candidate pairs.
        """
        pairs = model.candidates(rows)
        edges = self._nonzero_edges(rows, pairs, model, estimation) if len(pairs) else pairs
        return edges, len(pairs)

    def _nonzero_edges(self, rows, edges, model, estimation):
        """Return the edges with nonzero parameters in the penalised estimate."""
        path = model.penalised_path(rows, edges, self.penalty, estimation)
        alpha = self.alpha
        if isinstance(alpha, str):
            alpha = path.scale * choose_alpha(path, alpha, estimation)
        estimation.alpha, kept = alpha, np.zeros(len(edges), dtype=bool)
        if alpha < path.scale * path.largest_alpha():
            kept = path.select(alpha, estimation)
        estimation.path.remove(edges[~kept])
        return edges[kept]


class Nodewise(Penalized):
    """Neighbourhood selection by penalised pseudo-likelihood.

    The method [1]_ is :class:`Penalized` with the pseudo-likelihood in place of the likelihood. The
    pseudo-likelihood is the product of the conditional likelihoods of all columns given the
    others. The two directions of an edge share their parameters.

    Parameters
    ----------
    penalty : {"l1", "group-l1"}, default="group-l1"
        Penalty on the parameters of edges. "l1" penalises the absolute value of each parameter,
        "group-l1" the norm of all parameters of an edge.
    alpha : {"ebic", "cv"} or float, default="ebic"
        Strength of the penalty, relative to the mean pseudo-log-likelihood in nats. A float, above
        0, is the strength. "ebic" and "cv" select it as in :class:`Penalized`.
    control : {"holm", "fdr"}, default="holm"
        Adjustment of ``p_values_`` for multiple tests: family-wise error rate ("holm") or false
        discovery rate ("fdr"). The edges do not depend on it.

    References
    ----------
    .. [1] P. Ravikumar, M. J. Wainwright, J. D. Lafferty, "High-dimensional Ising model selection
       using l1-regularized logistic regression", Annals of Statistics 38 (2010).
    """

    def default_learner(self):
        """Return the pseudo-likelihood learner."""
        return PseudoLikelihood()

    def check_learner(self, learner):
        """Raise a ValueError unless the learner is the pseudo-likelihood."""
        if not isinstance(learner, PseudoLikelihood):
            raise ValueError(
                'Nodewise search learns by pseudo-likelihood: learner must be "auto" or '
                f'"pseudo-likelihood"; got {learner!r}. For other learners use '
                'search=Penalized(...), such as search="group-l1".'
            )


def choose_alpha(path, criterion, estimation):
    """Return the penalty strength that EBIC or cross-validation selects.

    After Ctrl-C it is the best of the strengths that were evaluated.

    Parameters
    ----------
    path : object with the methods of :class:`~skmrf.structure.pairwise.PairwisePath`
        Penalised estimates of rows without missing entries.
    criterion : {"ebic", "cv"}
        Extended Bayesian information criterion, or 5-fold cross-validation.
    estimation : Estimation
        Its random generator draws the folds.

    Returns
    -------
    float
        Strength of the penalty.
    """
    # the graph of the first strength has no edges
    alphas = PATH_MARGIN * path.largest_alpha() * np.geomspace(1.0, SMALLEST_SHARE, N_ALPHAS)
    if criterion == "ebic":
        return _choose_by_ebic(path, alphas, estimation)
    n_rows = len(path.rows.X)
    fold = estimation.rng.permutation(n_rows) % min(N_FOLDS, n_rows)
    scores, fold_scores = [], _held_out_scores(path, alphas, fold)
    _collect(scores, fold_scores, int(fold.max()) + 1, "folds", estimation)
    return float(alphas[np.argmax(np.sum(scores, axis=0))])


def _choose_by_ebic(path, alphas, estimation):
    """Return the penalty strength with the smallest EBIC on a coarse grid and then a finer grid."""
    scores, unit = [], "penalties"
    _collect(scores, _ebic_scores(path, alphas, estimation.n_jobs), len(alphas), unit, estimation)
    if len(scores) == len(alphas):
        best = int(np.argmin(scores))
        around = alphas[max(best - 1, 0)], alphas[min(best + 1, len(alphas) - 1)]
        finer = np.geomspace(*around, N_FINER + 2)[1:-1]
        criteria = _ebic_scores(path, finer, estimation.n_jobs)
        alphas = np.append(alphas, finer)
        _collect(scores, criteria, len(alphas), unit, estimation)
    return float(alphas[np.argmin(scores)])


def _collect(scores, values, n, unit, estimation):
    """Collect scores in a list; on Ctrl-C, warn and keep the scores that were computed so far.

    If there is no value yet, the KeyboardInterrupt is raised.
    """
    try:
        scores.extend(values)
    except KeyboardInterrupt:
        if not scores:
            raise
        warn_interrupted(len(scores), n, unit)
        estimation.stopped = estimation.interrupted = True


def _ebic_scores(path, alphas, n_jobs):
    """Yield the EBIC of the penalised estimate for each penalty strength."""
    for estimate in path.estimates(alphas):
        yield path.ebic(estimate, n_jobs)


def _held_out_scores(path, alphas, fold):
    """Yield, for each fold, the held-out pseudo-log-likelihoods for all penalty strengths."""
    for k in range(fold.max() + 1):
        train, test = path.reweight(1.0 * (fold != k)), path.reweight(1.0 * (fold == k))
        yield [test.score(estimate) for estimate in train.estimates(alphas)]
