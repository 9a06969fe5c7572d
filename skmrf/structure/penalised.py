"""Graphs by penalties under which the parameters of an edge become zero together."""

from dataclasses import replace

import numpy as np

from .. import training
from ..energies.log_linear import LogLinearForm
from ..learners import PseudoLikelihood
from ..learners.pseudo_likelihood import site_log_likelihood
from .estimation import TableLearnerAdapter, independent
from .nodewise import fit_nodes

N_ALPHAS = 20
N_FINER = 6  # further ones between the neighbours of the best
ABOVE = 1.001  # of the path's first penalty, against the least that leaves no edge
SMALLEST = 0.01  # of the path, as a share of the penalty that leaves no edge
N_FOLDS = 5
GAMMA = 0.5  # of the extended Bayesian information criterion
MAX_ITER, TOL = 500, 1e-4


def sparse_edges(rows, edges, criteria, estimation):
    """The edges that the penalty leaves.

    A penalty that is to be chosen is chosen along a path of pseudo-likelihood fits. Gaps are drawn
    from independent variables, which lessens what an edge gains, as they should.
    """
    name, alpha = criteria.penalty
    if not len(edges):
        return edges
    start = independent(rows, edges, criteria.statistic, criteria.unary)
    # a likelihood has one term for an edge, a pseudo-likelihood two
    scale = 1.0 if isinstance(estimation.learner, PseudoLikelihood) else 0.5
    # gaps drawn from all candidates would return chance as evidence
    rows = rows.completed(start, estimation.rng)
    if isinstance(alpha, str):
        alpha = scale * choose_alpha(rows, start, name, alpha, estimation)
    estimation.alpha, kept = alpha, np.zeros(len(edges), dtype=bool)
    if alpha < scale * _largest(rows, start, name):
        penalty = training.make_penalty(name, alpha, start.penalty_groups())
        kept = estimation.learn(start, rows, warm=False, penalty=penalty).strengths() > 0
    estimation.path.remove(edges[~kept])
    return edges[kept]


def choose_alpha(rows, start, name, criterion, estimation):
    """The strength of best criterion: "ebic" or "cv".

    Ctrl-C leaves the best of those among the strongest, or by the folds, which were judged before
    it.
    """
    alphas = _alphas(rows, start, name)
    if criterion == "ebic":
        return _of_least_cost(rows, start, name, alphas, estimation)
    fold = estimation.rng.permutation(len(rows.X)) % min(N_FOLDS, len(rows.X))
    judged, gains = [], _gains(rows, start, name, alphas, fold)
    _until_interrupted(judged, gains, int(fold.max()) + 1, "folds", estimation)
    return float(alphas[np.argmax(np.sum(judged, axis=0))])


def _of_least_cost(rows, start, name, alphas, estimation):
    """The strength of least criterion on the path, or on finer steps about the best of these."""
    judged, what = [], "penalties"
    costs = _costs(rows, start, name, alphas, estimation.n_jobs)
    _until_interrupted(judged, costs, len(alphas), what, estimation)
    if len(judged) == len(alphas):
        best = int(np.argmin(judged))
        around = alphas[max(best - 1, 0)], alphas[min(best + 1, len(alphas) - 1)]
        finer = np.geomspace(*around, N_FINER + 2)[1:-1]
        costs = _costs(rows, start, name, finer, estimation.n_jobs)
        alphas = np.append(alphas, finer)
        _until_interrupted(judged, costs, len(alphas), what, estimation)
    return float(alphas[np.argmin(judged)])


def _until_interrupted(judged, values, n, what, estimation):
    """Collect the values; Ctrl-C after the first one ends them and the search, with a warning."""
    try:
        judged.extend(values)
    except KeyboardInterrupt:
        if not judged:
            raise
        training.warn_interrupted(len(judged), n, what)
        estimation.stopped = estimation.interrupted = True


def _costs(rows, start, name, alphas, n_jobs):
    """Criterion of every strength."""
    for energy in _path(rows, start, name, alphas):
        yield ebic(rows, energy, n_jobs)


def _gains(rows, start, name, alphas, fold):
    """Log-pseudo-likelihoods of every strength, fold by fold."""
    for k in range(fold.max() + 1):
        train, test = rows.take(1.0 * (fold != k)), rows.take(1.0 * (fold == k))
        yield [
            test.weights @ site_log_likelihood(energy.graph, test.X)[0]
            for energy in _path(train, start, name, alphas)
        ]


def _objective(rows, start):
    learner = TableLearnerAdapter(PseudoLikelihood())
    state = learner.init(start, rows.batch, None)
    return lambda energy: learner.objective(energy, rows.batch, state)


def _largest(rows, start, name):
    """The strength from which on no edge is left."""
    _, gradient = _objective(rows, start)(start)
    pairs, owner = gradient["pairs"], start.form.owner
    sizes = np.maximum(np.bincount(owner), 1)
    norms = np.sqrt(np.bincount(owner, pairs**2) / sizes)
    return max(float(np.abs(pairs).max() if name == "l1" else norms.max()), 1e-12)


def _alphas(rows, start, name):
    """Falling strengths, from one that leaves no edge, whatever is rounded."""
    return ABOVE * _largest(rows, start, name) * np.geomspace(1.0, SMALLEST, N_ALPHAS)


def _path(rows, energy, name, alphas):
    """Yield the penalised pseudo-likelihood estimate of each strength, from the one before."""
    learner = OfTables(PseudoLikelihood())
    settings = training.Settings(
        optimizer=None,
        max_iter=MAX_ITER,
        tol=TOL,
        average=False,
        complete=False,
        interruptible=False,
    )
    state = training.start(energy, learner, rows.batch, settings, None)
    for alpha in alphas:
        penalty = training.make_penalty(name, alpha, energy.penalty_groups())
        settings = replace(settings, penalty=penalty)
        state = training.run(learner, rows.batch, settings, state)
        yield state.energy


def ebic(rows, energy, n_jobs=None):
    r"""Extended Bayesian information criterion of the edges that are not zero.

    .. math:: \sum_i \left( -2 \ell_i + k_i \log N + 2 \gamma d_i \log(n - 1) \right)

    with :math:`\ell_i` the maximal conditional log-likelihood of variable i given its
    :math:`d_i` neighbours, :math:`k_i` its parameters, N rows, n variables and
    :math:`\gamma = 1/2`. For two states it is that of the source; tables of more count as one
    neighbour, too.

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
