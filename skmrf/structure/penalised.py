"""Edges by penalties under which the parameters of an edge become zero together."""

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
from .candidates import candidate_pairs
from .estimation import TableLearnerAdapter
from .nodewise import fit_nodes
from .search import Search

PENALTIES = ("l1", "group-l1")
N_ALPHAS = 20
N_FINER = 6  # further ones between the neighbours of the best
ABOVE = 1.001  # of the path's first penalty, against the least that leaves no edge
SMALLEST = 0.01  # of the path, as a share of the penalty that leaves no edge
N_FOLDS = 5
GAMMA = 0.5  # of the extended Bayesian information criterion
MAX_ITER, TOL = 500, 1e-4


class Penalized(Search):
    """Edges whose parameters are not zero under a penalty.

    The parameters of these edges are then learned again without the penalty. Missing entries are
    sampled from independent columns for the selection, so that weak edges are missed rather than
    noise taken for edges.

    Parameters
    ----------
    penalty : {"l1", "group-l1"}, default="group-l1"
        Penalty on the parameters of edges: on the absolute value of each parameter, or on the norm
        of all parameters of an edge.
    alpha : {"ebic", "cv"} or float, default="ebic"
        Strength of the penalty, relative to the mean log-likelihood (or pseudo-log-likelihood) in
        nats. "ebic" chooses it by the extended Bayesian information criterion [1]_ from a path of
        20, and from 6 more values around the best. "cv" chooses it from the path by the 5-fold
        cross-validated pseudo-likelihood, which leaves many false edges. A float must be above 0.
    control : {"holm", "fdr"}, default="holm"
        Adjustment of ``p_values_`` for multiple tests. The edges do not depend on it.

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
        super().check()
        check_choice("penalty", self.penalty, PENALTIES)
        check_number_or(("ebic", "cv"), "alpha", self.alpha, low=0, open_low=True)

    def first_edges(self, rows, model, estimation):
        """Return the edges that are not zero under the penalty, and the number of candidates."""
        pairs = candidate_pairs(rows, model)
        edges = self._nonzero_edges(rows, pairs, model, estimation) if len(pairs) else pairs
        return edges, len(pairs)

    def _nonzero_edges(self, rows, edges, model, estimation):
        """Return the edges whose parameters are not zero, and record the strength and the path."""
        start = model.independent(rows, edges)
        # a likelihood has one term for an edge, a pseudo-likelihood two
        scale = 1.0 if isinstance(estimation.learner, PseudoLikelihood) else 0.5
        # entries sampled from all candidates would return chance as evidence
        rows = rows.completed(start, estimation.rng)
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
    """Neighbourhood selection [1]_.

    This is :class:`Penalized` with the pseudo-likelihood in place of the likelihood: the
    conditional likelihoods of all columns given the others. The two directions of an edge share
    their parameters.

    Parameters
    ----------
    penalty : {"l1", "group-l1"}, default="group-l1"
        Penalty on the parameters of edges: on the absolute value of each parameter, or on the norm
        of all parameters of an edge.
    alpha : {"ebic", "cv"} or float, default="ebic"
        Strength of the penalty, relative to the mean pseudo-log-likelihood in nats, or how it is
        chosen; see :class:`Penalized`.
    control : {"holm", "fdr"}, default="holm"
        Adjustment of ``p_values_`` for multiple tests. The edges do not depend on it.

    References
    ----------
    .. [1] P. Ravikumar, M. J. Wainwright, J. D. Lafferty, "High-dimensional Ising model selection
       using l1-regularized logistic regression", Annals of Statistics 38 (2010).
    """

    def default_learner(self):
        return PseudoLikelihood()

    def check_learner(self, learner):
        if not isinstance(learner, PseudoLikelihood):
            raise ValueError(
                'Nodewise search learns by pseudo-likelihood: learner must be "auto" or '
                f'"pseudo-likelihood"; got {learner!r}. For other learners use '
                'search=Penalized(...), such as search="group-l1".'
            )


def choose_alpha(rows, start, name, criterion, estimation):
    """Return the strength of a penalty that is best by a criterion.

    After Ctrl-C it is the best of the values whose criterion is known.

    Parameters
    ----------
    rows : Rows
        Nothing is missing.
    start : LogLinearEnergy
        Independent variables.
    name : {"l1", "group-l1"}
    criterion : {"ebic", "cv"}
    estimation : Estimation

    Returns
    -------
    float
    """
    alphas = _alpha_path(rows, start, name)
    if criterion == "ebic":
        return _choose_by_ebic(rows, start, name, alphas, estimation)
    fold = estimation.rng.permutation(len(rows.X)) % min(N_FOLDS, len(rows.X))
    known, scores = [], _held_out_scores(rows, start, name, alphas, fold)
    _collect(known, scores, int(fold.max()) + 1, "folds", estimation)
    return float(alphas[np.argmax(np.sum(known, axis=0))])


def _choose_by_ebic(rows, start, name, alphas, estimation):
    """Return the strength of least criterion, from the path and from finer steps around it."""
    known, what = [], "penalties"
    criteria = _criteria(rows, start, name, alphas, estimation.n_jobs)
    _collect(known, criteria, len(alphas), what, estimation)
    if len(known) == len(alphas):
        best = int(np.argmin(known))
        around = alphas[max(best - 1, 0)], alphas[min(best + 1, len(alphas) - 1)]
        finer = np.geomspace(*around, N_FINER + 2)[1:-1]
        criteria = _criteria(rows, start, name, finer, estimation.n_jobs)
        alphas = np.append(alphas, finer)
        _collect(known, criteria, len(alphas), what, estimation)
    return float(alphas[np.argmin(known)])


def _collect(known, values, n, what, estimation):
    """Append the values; Ctrl-C after the first one ends them and the search, with a warning."""
    try:
        known.extend(values)
    except KeyboardInterrupt:
        if not known:
            raise
        warn_interrupted(len(known), n, what)
        estimation.stopped = estimation.interrupted = True


def _criteria(rows, start, name, alphas, n_jobs):
    """Yield the information criterion of each strength."""
    for energy in _penalised_energies(rows, start, name, alphas):
        yield ebic(rows, energy, n_jobs)


def _held_out_scores(rows, start, name, alphas, fold):
    """Yield the log-pseudo-likelihoods of each fold, a list over all strengths."""
    for k in range(fold.max() + 1):
        train, test = rows.take(1.0 * (fold != k)), rows.take(1.0 * (fold == k))
        yield [
            test.weights @ site_log_likelihood(energy.graph, test.X)[0]
            for energy in _penalised_energies(train, start, name, alphas)
        ]


def _objective(rows, start):
    """Return the pseudo-log-likelihood of the rows as a function of an energy."""
    learner = TableLearnerAdapter(PseudoLikelihood())
    state = learner.init(start, rows.batch, None)
    return lambda energy: learner.objective(energy, rows.batch, state)


def _largest_alpha(rows, start, name):
    """Return the least strength that leaves no edge."""
    _, gradient = _objective(rows, start)(start)
    pairs, owner = gradient["pairs"], start.form.owner
    sizes = np.maximum(np.bincount(owner), 1)
    norms = np.sqrt(np.bincount(owner, pairs**2) / sizes)
    return max(float(np.abs(pairs).max() if name == "l1" else norms.max()), 1e-12)


def _alpha_path(rows, start, name):
    """Return decreasing strengths; the first leaves no edge, whatever is rounded."""
    return ABOVE * _largest_alpha(rows, start, name) * np.geomspace(1.0, SMALLEST, N_ALPHAS)


def _penalised_energies(rows, energy, name, alphas):
    """Yield the penalised pseudo-likelihood estimate of each strength, from the one before."""
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
    r"""Return the extended Bayesian information criterion of the edges that are not zero.

    .. math:: \sum_i \left( -2 \ell_i + k_i \log N + 2 \gamma d_i \log(n - 1) \right)

    with :math:`\ell_i` the maximal conditional log-likelihood of variable i given its
    :math:`d_i` neighbours, :math:`k_i` its parameters, N rows, n variables and
    :math:`\gamma = 1/2`. For two states it is that of the source; tables of more states count as
    one neighbour, too.

    Parameters
    ----------
    rows : Rows
        Nothing is missing.
    energy : LogLinearEnergy
    n_jobs : int or None

    Returns
    -------
    float

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
