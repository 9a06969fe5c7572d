"""Edge selection by L1 and group L1 penalties."""

from dataclasses import replace

import numpy as np

from .._utils.parameters import check_choice, check_number_or
from ..energies.log_linear import LogLinearForm
from ..learners import PseudoLikelihood
from ..learners.pseudo_likelihood import site_log_likelihood
from ..training import loop, penalties
from ..training import state as loop_state
from ..training.part_reports import warn_interrupted
from ..training.settings import Settings
from .estimation import TableLearnerAdapter
from .nodewise import fit_nodes
from .screening import candidate_pairs
from .search import Search

PENALTIES = ("l1", "group-l1")
N_ALPHAS = 20
N_FINER = 6  # further strengths around the best strength of the path
PATH_MARGIN = 1.001  # of the largest strength; rounding must not leave an edge there
SMALLEST_SHARE = 0.01  # smallest strength of the path, as a share of the largest
N_FOLDS = 5
GAMMA = 0.5  # parameter of the extended Bayesian information criterion
MAX_ITER, TOL = 500, 1e-4


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
        pairs = candidate_pairs(rows, model)
        edges = self._nonzero_edges(rows, pairs, model, estimation) if len(pairs) else pairs
        return edges, len(pairs)

    def _nonzero_edges(self, rows, edges, model, estimation):
        """Return the edges with nonzero parameters in the penalised estimate."""
        start = model.independent(rows, edges)
        # an edge is in one term of a likelihood, but in two terms of a pseudo-likelihood
        scale = 1.0 if isinstance(estimation.learner, PseudoLikelihood) else 0.5
        # a model of all candidates would impute noise as dependence
        rows = rows.impute(start, estimation.rng)
        alpha = self.alpha
        if isinstance(alpha, str):
            alpha = scale * choose_alpha(rows, start, self.penalty, alpha, estimation)
        estimation.alpha, kept = alpha, np.zeros(len(edges), dtype=bool)
        if alpha < scale * _largest_alpha(rows, start, self.penalty):
            penalty = penalties.make_penalty(self.penalty, alpha, start.penalty_groups())
            kept = estimation.learn(start, rows, penalty=penalty).strengths() > 0
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


def choose_alpha(rows, start, name, criterion, estimation):
    """Return the penalty strength that EBIC or cross-validation selects.

    After Ctrl-C it is the best of the strengths that were evaluated. The rows must have no missing
    entries, and ``start`` must be the model of independent variables.
    """
    alphas = _alpha_path(rows, start, name)
    if criterion == "ebic":
        return _choose_by_ebic(rows, start, name, alphas, estimation)
    fold = estimation.rng.permutation(len(rows.X)) % min(N_FOLDS, len(rows.X))
    scores, fold_scores = [], _held_out_scores(rows, start, name, alphas, fold)
    _collect(scores, fold_scores, int(fold.max()) + 1, "folds", estimation)
    return float(alphas[np.argmax(np.sum(scores, axis=0))])


def _choose_by_ebic(rows, start, name, alphas, estimation):
    """Return the penalty strength with the smallest EBIC on a coarse grid and then a finer grid."""
    scores, unit = [], "penalties"
    criteria = _ebic_scores(rows, start, name, alphas, estimation.n_jobs)
    _collect(scores, criteria, len(alphas), unit, estimation)
    if len(scores) == len(alphas):
        best = int(np.argmin(scores))
        around = alphas[max(best - 1, 0)], alphas[min(best + 1, len(alphas) - 1)]
        finer = np.geomspace(*around, N_FINER + 2)[1:-1]
        criteria = _ebic_scores(rows, start, name, finer, estimation.n_jobs)
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


def _ebic_scores(rows, start, name, alphas, n_jobs):
    """Yield the EBIC of the penalised estimate for each penalty strength."""
    for energy in _penalised_energies(rows, start, name, alphas):
        yield ebic(rows, energy, n_jobs)


def _held_out_scores(rows, start, name, alphas, fold):
    """Yield, for each fold, the held-out pseudo-log-likelihoods for all penalty strengths."""
    for k in range(fold.max() + 1):
        train, test = rows.reweight(1.0 * (fold != k)), rows.reweight(1.0 * (fold == k))
        yield [
            test.weights @ site_log_likelihood(energy.graph, test.X)[0]
            for energy in _penalised_energies(train, start, name, alphas)
        ]


def _pseudo_likelihood(rows, start):
    """Return a function that maps an energy to the rows' pseudo-log-likelihood and its gradient."""
    learner = TableLearnerAdapter(PseudoLikelihood())
    state = learner.init(start, rows.batch, None)
    return lambda energy: learner.objective(energy, rows.batch, state)


def _largest_alpha(rows, start, name):
    """Return the smallest penalty strength at which all edges have zero parameters."""
    _, gradient = _pseudo_likelihood(rows, start)(start)
    pairs, owner = gradient["pairs"], start.form.owner
    sizes = np.maximum(np.bincount(owner), 1)
    norms = np.sqrt(np.bincount(owner, pairs**2) / sizes)
    return max(float(np.abs(pairs).max() if name == "l1" else norms.max()), 1e-12)


def _alpha_path(rows, start, name):
    """Return decreasing penalty strengths; the first is so large that the graph has no edges."""
    return (
        PATH_MARGIN
        * _largest_alpha(rows, start, name)
        * np.geomspace(1.0, SMALLEST_SHARE, N_ALPHAS)
    )


def _penalised_energies(rows, energy, name, alphas):
    """Yield the penalised estimate for each penalty strength, with a warm start at the last one.

    The objective is the pseudo-likelihood.
    """
    learner = TableLearnerAdapter(PseudoLikelihood())
    settings = Settings(
        optimizer=None,
        max_iter=MAX_ITER,
        tol=TOL,
        average=False,
        complete=False,
        interruptible=False,
    )
    state = loop_state.start(energy, learner, rows.batch, settings, None)
    for alpha in alphas:
        penalty = penalties.make_penalty(name, alpha, energy.penalty_groups())
        settings = replace(settings, penalty=penalty)
        state = loop.run(learner, rows.batch, settings, state)
        yield state.energy


def ebic(rows, energy, n_jobs=None):
    r"""Return the extended Bayesian information criterion (EBIC) of the graph of nonzero edges.

    .. math:: \sum_i \left( -2 \ell_i + k_i \log N + 2 \gamma d_i \log(n - 1) \right)

    where :math:`\ell_i` is the maximal conditional log-likelihood of variable i given its
    :math:`d_i` neighbours, :math:`k_i` is its number of parameters, N is the number of rows, n is
    the number of variables and :math:`\gamma = 1/2`. For variables of two states it is the
    criterion of the reference. A neighbour of more states also counts once.

    Parameters
    ----------
    rows : Rows
        Rows without missing entries.
    energy : LogLinearEnergy
        Model whose nonzero edges are evaluated.
    n_jobs : int or None
        Number of threads over variables.

    Returns
    -------
    float
        Criterion in nats; smaller is better.

    References
    ----------
    R. Foygel Barber and M. Drton, "High-dimensional Ising model selection with Bayesian information
    criteria", Electronic Journal of Statistics 9 (2015).
    """
    edges = energy.form.edges[energy.strengths() > 0]
    form = LogLinearForm.build(rows.n_states, edges, energy.form.statistic, energy.form.unary)
    fits = fit_nodes(rows.X, rows.weights, form, n_jobs=n_jobs)
    n = len(rows.n_states)
    cost = fits.n_parameters.sum() * np.log(rows.count)
    cost += 4.0 * GAMMA * len(edges) * np.log(max(n - 1, 1))
    return float(cost - 2.0 * np.sum(fits.log_likelihood))
