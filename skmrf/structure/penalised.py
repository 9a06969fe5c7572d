"""Edge selection by L1 and group L1 penalties."""

from functools import cached_property

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.parameters import check_choice, check_number_or
from .._utils.warn import warn_caller
from ..learners import PseudoLikelihood
from ..training.part_reports import warn_interrupted
from .mixed_nodes import MIN_VARIANCE, Multinomial, log_probabilities
from .nodewise import extended_bic
from .rows import Design
from .search import Search

PENALTIES = ("l1", "group-l1")
N_ALPHAS = 20
N_FINER = 6  # further strengths around the best strength of the path
PATH_MARGIN = 1.001  # of the largest strength; rounding must not leave an edge there
SMALLEST_SHARE = 0.01  # smallest strength of the path, as a share of the largest
N_FOLDS = 5
MAX_STEPS, MAX_INNER = 100, 500  # of the regressions of mixed columns
FINAL_STEPS = 400  # of the regressions that decide on the edges
STEP_TOLERANCE, INNER_TOLERANCE = 1e-5, 1e-6
MIN_SCALE = 1e-3  # smallest factor of the Hessian of a variable


class Penalized(Search):
    """Selection of the edges whose parameters are not zero in a penalised estimate.

    After the selection, the parameters of the selected edges are learned without the penalty.
    During the selection, missing entries are sampled from independent columns. This can miss weak
    edges, but it does not create false ones. In tables with numeric columns, the penalised estimate
    is that of regressions of each column on all others, instead of the likelihood. The
    parameters of an edge in the regressions of both of its columns are penalised as one group.

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

    takes_numbers = True

    def __init__(self, penalty="group-l1", alpha="ebic", control="holm"):
        self.penalty = penalty
        self.alpha = alpha
        self.control = control

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        super().check()
        check_choice("penalty", self.penalty, PENALTIES)
        check_number_or(("ebic", "cv"), "alpha", self.alpha, low=0, open_low=True)

    def penalise(self, rows, edges, model, estimation):
        """Choose the strength of the penalty, and return the estimation or the nonzero edges.

        Parameters
        ----------
        rows : Rows or MixedRows
            Training rows; every variable has at least two states.
        edges : ndarray of shape (n_edges, 2)
            Candidate pairs, at least one.
        model : GraphModel
            Parameterisation of the edges, and limits on candidates and memory.
        estimation : Estimation
            Random generator and number of threads. Its ``alpha`` is set to the strength of the
            penalty.

        Returns
        -------
        PenalisedProblem or ndarray of bool of shape (n_edges,)
            Problem that the learner of the search must solve, or the mask of the edges with
            nonzero parameters.
        """
        path = model.penalised_path(rows, edges, self.penalty, estimation)
        alpha = self.alpha
        if isinstance(alpha, str):
            alpha = path.scale * choose_alpha(path, alpha, estimation)
        estimation.alpha = alpha
        if alpha >= path.scale * path.largest_alpha():
            return np.zeros(len(edges), dtype=bool)
        return path.select(alpha)


class Nodewise(Penalized):
    """Neighbourhood selection by penalised pseudo-likelihood.

    The method [1]_ is :class:`Penalized` with the pseudo-likelihood in place of the likelihood. The
    pseudo-likelihood is the product of the conditional likelihoods of all columns given the
    others. The two directions of an edge share their parameters. In tables with numeric columns,
    they have their own parameters, which are zero or nonzero together.

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


class PenalisedNodes:
    r"""Penalised regressions of all variables, in which both directions of an edge form one group.

    With the design matrix D and the regressors :math:`D_i` of variable i as responses, the
    objective is

    .. math:: -\frac{1}{N} \sum_i \ell_i(B_i) + \alpha \sum_{(i,j)} \sqrt{d_{ij}} \,
              \Big( \tfrac12 \lVert B_{ij} \rVert^2 + \tfrac12 \lVert B_{ji} \rVert^2 \Big)^{1/2},

    where :math:`B_{ij}` are the parameters of j in the regression of i, and :math:`d_{ij}` is their
    number. Numeric variables have the conditional variance 1. With the penalty "l1", each group has
    one parameter of each direction.

    Parameters
    ----------
    design : Design
        Regressors of complete rows.
    edges : ndarray of shape (n_edges, 2)
        Pairs of variables whose parameters can be nonzero.
    penalty : {"l1", "group-l1"}
        Penalty on the parameters of edges.
    """

    def __init__(self, design, edges, penalty):
        self.design = design
        self.edges = edges
        self.penalty = penalty
        self.members = np.repeat(np.eye(len(design.sizes)), design.sizes, axis=0)
        allowed = np.zeros((len(design.sizes), len(design.sizes)))
        allowed[tuple(edges.T)] = 1.0
        self.allowed = self._to_entries(allowed + allowed.T)
        self.weights = self._to_entries(np.sqrt(np.outer(design.sizes, design.sizes)))
        if penalty == "l1":
            self.weights = np.ones_like(self.weights)
        self.gram = design.gram / design.count
        self.curvature = np.linalg.eigvalsh(self.gram)[-1]
        sizes = design.sizes.tolist()
        self.blocks = [
            (j, slice(a - 1, b - 1))
            for j, (a, b) in enumerate(zip(design.start[:-1], design.start[1:], strict=True))
            if sizes[j] and not design.is_number(j)
        ]

    def _to_entries(self, matrix):
        """Expand a matrix over variables to a matrix over their regressors."""
        return self.members @ matrix @ self.members.T

    def start(self):
        """Return the parameters without edges, shape (n_columns, n_columns - 1)."""
        B = np.zeros((len(self.gram), len(self.gram) - 1))
        B[0] = self.gram[0, 1:]
        for j, block in self.blocks:
            B[0, block] = Multinomial(self.design, j, ()).start()[0]
        return B

    def value_and_gradient(self, B):
        """Return the negative mean log-likelihood of each variable, and the gradient.

        The values have the shape (n_variables,), the gradient that of ``B``.
        """
        design, count = self.design, self.design.count
        gradient = self.gram @ B - self.gram[:, 1:]
        values = 0.5 * (B * (gradient - self.gram[:, 1:])).sum(axis=0)
        values = (values + 0.5 * np.diag(self.gram)[1:]) @ self.members
        for j, block in self.blocks:
            log_p = log_probabilities(design.values @ B[:, block], design.codes[j])
            residuals = design.codes[j][design.states[j]] - np.exp(log_p) @ design.codes[j]
            gradient[:, block] = -(design.values.T @ (residuals * design.weights[:, None])) / count
            own = design.weights @ log_p[np.arange(len(log_p)), design.states[j]]
            values[j] = -own / count
        return values, gradient

    def score(self, B):
        """Return the sum over the rows of the log-likelihoods of all variables, in nats.

        The conditional variance of a numeric variable is its residual variance.
        """
        design, total = self.design, 0.0
        for j in np.flatnonzero(design.sizes).tolist():
            linear = design.values @ B[:, design.start[j] - 1 : design.start[j + 1] - 1]
            if design.is_number(j):
                residuals = design.values[:, design.start[j]] - linear[:, 0]
                left = max(design.weights @ residuals**2 / design.count, MIN_VARIANCE)
                total -= 0.5 * design.count * np.log(left)
            else:
                log_p = log_probabilities(linear, design.codes[j])
                total += design.weights @ log_p[np.arange(len(log_p)), design.states[j]]
        return total

    def nonzero_edges(self, B):
        """Return a mask of the edges with nonzero parameters, shape (n_edges,)."""
        sums = self.members.T @ np.abs(B[1:]) @ self.members
        return (sums + sums.T)[tuple(self.edges.T)] > 0

    def norms(self, B):
        """Return the norm of the group of each parameter, shape (n_columns - 1, n_columns - 1)."""
        squares = B[1:] ** 2
        if self.penalty == "group-l1":
            squares = self._to_entries(self.members.T @ squares @ self.members)
        return np.sqrt((squares + squares.T) / 2)

    def largest_alpha(self):
        """Return the smallest penalty strength at which all edges have zero parameters."""
        _, gradient = self.value_and_gradient(self.start())
        norms = 2.0 * self.norms(gradient) * self.allowed / np.maximum(self.weights, 1e-12)
        return max(float(norms.max(initial=0.0)), 1e-12)

    def prox(self, B, thresholds):
        """Shrink the groups of parameters towards zero by given thresholds."""
        norms = np.maximum(self.norms(B), 1e-300)
        out = B.copy()
        out[1:] *= self.allowed * np.maximum(1.0 - thresholds / norms, 0.0)
        return out

    def solve(self, alpha, B, max_steps=MAX_STEPS):
        """Return the parameters that minimise the objective, and whether the solver converged.

        A step minimises a quadratic approximation. Its Hessian is that of independent variables,
        times a factor for each variable. The factor increases until the approximation is an upper
        bound. Otherwise it decreases, because the Hessian of well predicted categories is smaller.
        """
        scales = np.ones(len(self.design.sizes))
        is_category = np.zeros(len(scales), dtype=bool)
        is_category[[j for j, _ in self.blocks]] = True
        values, gradient = self.value_and_gradient(B)
        for _ in range(max_steps):
            new, step = self._minimise_quadratic(alpha, B, gradient, self.members @ scales)
            new_values, new_gradient = self.value_and_gradient(new)
            bounds = (gradient * step).sum(axis=0) @ self.members
            bounds += 0.5 * scales * ((step * (self.gram @ step)).sum(axis=0) @ self.members)
            is_above = is_category & (new_values > values + bounds + 1e-12 * np.abs(values))
            if is_above.any():
                scales = np.where(is_above, 2.0 * scales, scales)
                continue
            B, values, gradient = new, new_values, new_gradient
            scales = np.where(is_category, np.maximum(scales / 1.5, MIN_SCALE), scales)
            if np.abs(step).max(initial=0.0) < STEP_TOLERANCE:
                return B, True
        return B, False

    def _minimise_quadratic(self, alpha, B, gradient, scales):
        """Return the minimum of the quadratic approximation plus the penalty, and its step."""
        rate = 1.0 / (scales.max(initial=MIN_SCALE) * self.curvature)
        # half of the norm of both directions, so the proximal map has twice the threshold
        thresholds = 0.5 * rate * alpha * self.weights
        step = momentum = np.zeros_like(B)
        t = 1.0
        for _ in range(MAX_INNER):
            slope = gradient + scales * (self.gram @ momentum)
            new = self.prox(B + momentum - rate * slope, thresholds) - B
            t_new = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
            momentum = new + (t - 1.0) / t_new * (new - step)
            change = np.abs(new - step).max(initial=0.0)
            step, t = new, t_new
            if change < INNER_TOLERANCE:
                break
        return B + step, step


class MixedPath:
    """Penalised estimates of the candidate pairs of mixed columns.

    Parameters
    ----------
    rows : MixedRows
        Rows without missing entries.
    edges : ndarray of shape (n_edges, 2)
        Candidate pairs.
    penalty : {"l1", "group-l1"}
        Penalty on the parameters of edges.
    fit : callable
        Function ``fit(rows, edges, n_jobs)`` that returns the regressions of a graph without the
        penalty, as :class:`~skmrf.structure.mixed.MixedFits`.
    codes : list of ndarray, optional
        Codes of the variables, if they are those of other rows.
    """

    scale = 1.0

    def __init__(self, rows, edges, penalty, fit, codes=None):
        self.rows = rows
        self.edges = edges
        self.penalty = penalty
        self.fit = fit
        self.codes = codes

    @cached_property
    def problem(self):
        """Penalised regressions of the rows."""
        rows = self.rows
        design = Design.from_rows(rows.X, rows.weights, rows.n_states, self.codes)
        return PenalisedNodes(design, self.edges, self.penalty)

    def largest_alpha(self):
        """Return the smallest penalty strength at which all edges have zero parameters."""
        return self.problem.largest_alpha()

    def estimates(self, alphas):
        """Yield the parameters for each penalty strength, with a warm start at the last ones."""
        B = self.problem.start()
        for alpha in alphas:
            B, _ = self.problem.solve(alpha, B)
            yield B

    def ebic(self, B, n_jobs):
        """Return the EBIC of the graph of nonzero edges, without the penalty."""
        edges = self.edges[self.problem.nonzero_edges(B)]
        return extended_bic(self.fit(self.rows, edges, n_jobs), len(edges), self.rows.count)

    def reweight(self, factors):
        """Return the path of the same candidates for rows whose weights are multiplied."""
        codes = self.problem.design.codes
        rows = self.rows.reweight(factors)
        return MixedPath(rows, self.edges, self.penalty, self.fit, codes)

    def score(self, B):
        """Return the sum over the rows of the pseudo-log-likelihood, in nats."""
        return self.problem.score(B)

    def select(self, alpha):
        """Return a mask of the nonzero edges; warn if their parameters have not converged."""
        problem = self.problem
        B, has_converged = problem.solve(alpha, problem.start(), FINAL_STEPS)
        if not has_converged:
            warn_caller(
                f"The penalised regressions had not converged after {FINAL_STEPS} steps, so edges "
                "with parameters near zero are uncertain. Set a larger alpha, or remove columns "
                "that other columns determine.",
                ConvergenceWarning,
            )
        return problem.nonzero_edges(B)
