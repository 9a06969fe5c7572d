"""Selection of the components and the shrinkage of a mixture by held-out rows."""

from dataclasses import replace
from functools import cached_property

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.log_weights import group_copies, logsumexp_along, random_folds
from .._utils.rows import find_unique_rows
from .._utils.warn import warn_caller
from .conditional_gaussians import add_conditional_gaussian
from .expectation_maximization import (
    MIN_ROWS,
    TOLERANCE,
    ClusterTree,
    Prior,
    fit_from_clusters,
    fit_mixture,
    has_converged,
    start_mixture,
)
from .mixtures import average_mixtures, student_log_densities, student_mixture, student_scales
from .quadrature import are_coarse, joint_log_densities, row_log_densities

MAX_PATTERNS = 64  # of missing entries with exact expectations; other rows are imputed by draws
N_STARTS, MAX_STARTS = 2, 4  # mixtures from different clusters to average, and to compare
MAX_LOSS, LOSS_OF_PARAMETER = 0.02, 0.25  # nats a row, and nats, below the best of the mixtures
MAX_ITERATIONS, N_SELECTION_ITERATIONS = 500, 20
TABLE_TOLERANCE, SELECTION_TOLERANCE = 1e-5, 1e-3  # nats a row
N_IMPUTATIONS = 3  # of rows with rare patterns of missing entries
N_FOLDS, MAX_ROWS_OF_FOLDS = 3, 1500  # with more rows, one part of the rows is held out
MAX_SELECTION_ROWS = 2500  # training rows, and held-out rows, in the selection with many rows
MIN_ROWS_OF_COMPONENT = 6
INFLATIONS = 1.0, 1.05, 1.1, 1.2, 1.3, 1.45, 1.6, 1.8, 2.0
MAX_HEAVY, HEAVY_DEGREES = 20.0, (10.0, 5.0, 3.0)  # of freedom, of heavy tails
MAX_HEAVY_COMPONENTS = 8
DEGREES = np.inf, 200.0, 100.0, 50.0, 30.0, 20.0, 14.0, 10.0, 7.0, 5.0, 4.0, 3.0  # of freedom
MAX_CELL_WORK = 5e6  # entries of covariances times rows; with more, rounding errors are normal
N_SIMPLE = 4  # components of a simple mixture
N_COMPONENTS = 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48
DIAGONALS = 0.0, 0.03, 0.1, 0.3, 0.6, 1.0  # candidates of Prior.diagonal
FEW_ROWS_DIAGONALS = 1.0, 0.85, 0.7, 0.55, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.0
NO_POOLING, COMPARED = 1e-6, (4, 8, 16)  # rows; numbers of components
PATIENCE, PATIENCE_OF_TABLES = 2, 3  # numbers of components without improvement
MIN_GAIN = 0.02  # nats a row
COVARIANCES = 1.0, 0.3, 0.1, 0.0  # candidates of Prior.covariance, per number
LARGE_COVARIANCES = 1.0, 2.0, 4.0, 8.0, 16.0  # further candidates in cross-validation
SIMILAR_COVARIANCES = np.inf, 16.0, 8.0, 4.0, 2.0, 1.0  # with few rows
EQUAL_COVARIANCES = (16.0, 8.0, 4.0), (16.0, 64.0)  # of components with similar covariances


def learn_mixture(rows, n_components, rng):
    """Learn a mixture; select its shrinkage and number of components by held-out rows.

    The number of components increases until the log-likelihood of held-out rows decreases. The
    result is the average of mixtures that are learned from different initial clusters. With numbers
    and categories, a conditional Gaussian distribution is added if "auto" selects the components.

    Parameters
    ----------
    rows : MixtureRows
        Training rows.
    n_components : "auto" or int
        Number of components of each mixture. "auto" selects it.
    rng : Generator
        Random numbers of folds, clusters and imputations.

    Returns
    -------
    mixture : Mixture
        Average of the learned mixtures.
    history : dict of lists
        "log_likelihood" of the training rows for each iteration of the last mixture, in nats.
    converged : bool
        Whether expectation-maximisation of all averaged mixtures converged.
    """
    original, is_automatic = rows, n_components == "auto"
    if not rows.has_few_rows and len(rows.patterns[1]) > MAX_PATTERNS:
        rows = impute_rare_patterns(rows, start_mixture(rows, 1, Prior(np.inf, 0.1), rng), rng)
    choice = MixtureSelection(rows, rng)
    n_components, prior = choice.select(n_components)
    fits, mixtures = _fit_starts(rows, n_components, prior, rng), []
    for mixture, scores, _ in fits:
        for _ in range(N_IMPUTATIONS if rows is not original else 0):
            completed = impute_rare_patterns(original, mixture, rng)
            mixture, scores = fit_mixture(completed, mixture, prior, 10)
        mixtures.append(mixture)
    converged = all(is_converged for _, _, is_converged in fits)
    _warn(converged, 0 if is_automatic else n_components, mixtures[0].n_components)
    factor, degrees = choice.select_spread(n_components, prior)
    mixture = student_mixture(inflate(average_mixtures(mixtures), factor), degrees)
    if is_automatic and choice.is_mixed and len(rows.X) >= MIN_ROWS:
        logs = choice.held_out_log_densities(n_components, prior, original.X)
        mixture = add_conditional_gaussian(mixture, original, choice.folds, logs, rng)
    return mixture, {"log_likelihood": scores}, converged


def _warn(converged, n_components, n_learned):
    """Warn if training did not converge, or if a mixture has too few components."""
    remedy = "Use a smaller n_components of GaussianPotentials, or more training rows."
    if not converged:
        text = f"Expectation-maximisation did not converge in {MAX_ITERATIONS} iterations. {remedy}"
        warn_caller(text, ConvergenceWarning)
    if n_learned < n_components:
        text = f"The mixture has {n_learned} of the n_components={n_components} classes. {remedy}"
        warn_caller(text)


def _fit_starts(rows, n_components, prior, rng):
    """Return mixtures, their scores and whether they converged, without low likelihoods.

    Expectation-maximisation can converge to a saddle point. The likelihoods of mixtures with many
    parameters differ more, without a difference in the likelihood of new rows.
    """
    rows, p, fits = rows.merge(), len(rows.noise), []
    n_parameters = n_components * (p * (p + 3) / 2 + np.maximum(rows.n_states - 1, 0).sum())
    allowed_loss = max(MAX_LOSS, LOSS_OF_PARAMETER * n_parameters / rows.weights.sum())
    tol = rows.scale_tolerance(TOLERANCE) if p else TABLE_TOLERANCE
    for i in range(MAX_STARTS if n_components > 1 else 1):
        tree = None if p or n_components == 1 else ClusterTree(rows, rng, is_random=i > 0)
        options = MAX_ITERATIONS, tol, tree
        mixture, scores = fit_from_clusters(rows, n_components, prior, rng, *options)
        fits.append((mixture, scores, has_converged(scores, tol, rows.has_few_rows)))
        best = max(scores[-1] for _, scores, _ in fits)
        kept = [fit for fit in fits if fit[1][-1] > best - allowed_loss]
        if len(kept) == N_STARTS:
            break
    return kept


def impute_rare_patterns(rows, mixture, rng):
    """Return the rows with draws for missing entries, except in rows with frequent patterns."""
    X, (pattern, _) = rows.X.copy(), rows.patterns
    order = np.argsort(-np.bincount(pattern), kind="stable")
    here = np.isin(pattern, order[MAX_PATTERNS // 2 :])
    X[here] = mixture.impute(X[here], rng)
    return replace(rows, X=X)


def score_simple_mixtures(rows, log_scale):
    """Return the log-likelihood in nats of held-out rows under simple mixtures of encoded rows.

    Parameters
    ----------
    rows : MixtureRows
        Encoded rows.
    log_scale : ndarray of shape (n_rows,)
        Logs of the factors by which the densities of the encoded rows are divided.

    Returns
    -------
    float
        Sum over the held-out rows for the best simple mixture.
    """
    choice, p = MixtureSelection(rows, np.random.default_rng(0)), len(rows.noise)
    candidates = [(1, Prior(np.inf, 0.0, degrees=d)) for d in (np.inf, *HEAVY_DEGREES)]
    if len(rows.X) >= N_SIMPLE * MIN_ROWS_OF_COMPONENT:
        candidates.append((N_SIMPLE, Prior(N_SIMPLE * p + 2.0, 0.0)))
    held_out = np.concatenate([out for _, out in choice.folds])
    return choice.find_score(candidates) - rows.weights[held_out] @ log_scale[held_out]


class MixtureSelection:
    """Selection of the number of components and of the shrinkage by held-out rows.

    Parameters
    ----------
    rows : MixtureRows
        Training rows.
    rng : Generator
        Random numbers of folds and clusters.
    """

    def __init__(self, rows, rng):
        self.rows, self.rng, self._last = rows, rng, {}
        self._fitted, self._scores, self._spreads = {}, {}, {}  # by candidates
        groups = np.arange(len(rows.X))
        if len(rows.noise):  # copies of a held-out row would favour narrow components
            owners = find_unique_rows(np.nan_to_num(rows.X, nan=np.inf))[1]
            groups = group_copies(owners, rows.weights)
        n_folds = N_FOLDS if len(rows.X) <= MAX_ROWS_OF_FOLDS else 1
        self.folds = random_folds(groups, n_folds, MAX_SELECTION_ROWS, rng)

    @property
    def is_mixed(self):
        """Return whether there are numbers and categories."""
        return 0 < len(self.rows.noise) < self.rows.X.shape[1]

    def select(self, n_components):
        """Return the number of components, given or selected, and the prior.

        With numbers and categories, many components with similar covariances are also compared.
        They represent categories that depend on several numbers. With few rows, the search
        starts with equal covariances.
        """
        if len(self.rows.X) < N_FOLDS:
            return 1 if n_components == "auto" else n_components, Prior(np.inf, 1.0)
        has_few_rows, strengths = self.rows.has_few_rows, (LARGE_COVARIANCES, COVARIANCES)
        groups = (SIMILAR_COVARIANCES,) if has_few_rows else strengths[len(self.folds) == 1 :]
        best = self._select(n_components, groups)
        if n_components == "auto" and self.is_mixed and not has_few_rows:
            best = max(best, self._select(n_components, EQUAL_COVARIANCES), key=self._spread_score)
        return self._select_degrees(best)

    def _select_degrees(self, best):
        """Return the best candidate, with means and covariances of heavy tails if it has any.

        One component with heavy tails can replace several components without them. Many components
        describe heavy tails themselves.
        """
        (_, degrees), _ = self._search_spread(best)
        if degrees > MAX_HEAVY or best[0] > MAX_HEAVY_COMPONENTS:
            return best
        bases = [best, *sorted((c for c in self._scores if c[0] == 1), key=self._spread_score)[-1:]]
        for k, prior in dict.fromkeys(bases):
            others = [(k, replace(prior, degrees=d)) for d in HEAVY_DEGREES]
            best = max(best, _search(others, 1, self._spread_score)[0], key=self._spread_score)
        return best

    def find_score(self, candidates):
        """Return the score of held-out rows under the best candidate."""
        return max(map(self._spread_score, candidates))

    def _select(self, n_components, strengths):
        """Return a number of components and a prior; the first strength is first of each group."""
        p, n, has_few_rows = len(self.rows.noise), len(self.rows.X), self.rows.has_few_rows
        paths = [n_components]
        if n_components == "auto":
            paths = [k for k in N_COMPONENTS if k <= max(n / MIN_ROWS_OF_COMPONENT, 1)]
        shares = FEW_ROWS_DIAGONALS if has_few_rows else DIAGONALS
        shares = shares if p else shares[:1]  # tables have no covariances
        if paths[0] == 1:
            one = 1, self._search_shares(1, np.inf, shares)
            if not has_few_rows:  # several components need at least as much shrinkage
                shares = shares[shares.index(one[1].diagonal) :]
        several = [k for k in paths if k > 1]
        if not several:
            return one
        first = strengths[0][0] * max(p, 1) + 2.0
        second = self._search_shares(several[0], first, shares)
        patience = PATIENCE if p else PATIENCE_OF_TABLES
        best, _ = _search([(k, second) for k in several], patience, self._score)
        if p > 0 and not has_few_rows:
            best = self._compare_sizes(best, several)
        if has_few_rows:
            nearest = max(shares.index(second.diagonal) - 1, 0)
            best = best[0], self._search_shares(best[0], first, shares[nearest:])
        if paths[0] == 1:
            similar = replace(second, covariance=max(strengths[0]) * p + 2.0) if p else second
            others = [(k, similar) for k in several]
            best = max(best, one, key=self._spread_score)
            if best == one:  # classes with similar covariances
                best, _ = _search([one, *others], 1, self._spread_score)
        k, prior = best
        for group in strengths:
            if p > 0 and prior.covariance == first:  # the strengths before have lower scores
                others = [(k, replace(prior, covariance=s * p + 2.0)) for s in group]
                (_, prior), _ = _search(others, 1, self._spread_score)
        return k, prior

    def _compare_sizes(self, best, numbers):
        """Return a candidate whose components differ much in size, if it is clearly better."""
        others = [(k, replace(best[1], covariance=NO_POOLING)) for k in numbers]
        few = [other for other in others if other[0] in COMPARED] or others
        if max(map(self._score, few)) <= self._score(best) + MIN_GAIN * self.rows.weights.sum():
            return best
        return max(*few, _search(others, 3, self._score)[0], key=self._score)

    def _search_shares(self, n_components, strength, shares):
        """Return the prior with the best weight of the diagonal, for a number of components.

        The eigenvalues are only shrunk if they are also shrunk in the folds, which have fewer rows.
        Otherwise, the best weight for the folds would be too large for all rows.
        """
        n = min(len(kept) for kept, _ in self.folds) - n_components
        first = Prior(strength, 0.0, shrinks_eigenvalues=n > len(self.rows.noise))
        candidates = [(n_components, replace(first, diagonal=share)) for share in shares]
        return _search(candidates, 1, self._score)[0][1]

    def select_spread(self, n_components, prior):
        """Return the factor of the covariances and the degrees of freedom of the distributions."""
        (factor, degrees), _ = self._search_spread((n_components, prior))
        return 1.0 + (factor - 1.0) * (1.0 - 1.0 / N_FOLDS), degrees  # the folds have fewer rows

    def held_out_log_densities(self, n_components, prior, X):
        """Return the log-densities in nats of the rows of X that the folds hold out."""
        (factor, degrees), _ = self._search_spread((n_components, prior))
        pairs = zip(self._fitted[n_components, prior], self.folds, strict=True)
        parts = [(student_mixture(inflate(m, factor), degrees), out) for (m, _), (_, out) in pairs]
        rows = replace(self.rows, X=X)
        return np.concatenate([row_log_densities(m, rows.take(out)) for m, out in parts])

    def _search_spread(self, candidate):
        """Return the best factor and degrees of freedom for held-out rows, and their score."""
        if candidate in self._spreads:
            return self._spreads[candidate]
        fitted = self._fitted.get(candidate, ())
        has_numbers = len(self.rows.noise) > 0  # tables and a single component are unchanged
        factors = INFLATIONS if candidate[0] > 1 and has_numbers else INFLATIONS[:1]
        degrees = DEGREES if has_numbers else DEGREES[:1]
        work = sum(m.covariances.size * len(r.X) for m, r in fitted)
        find = student_score if work > MAX_CELL_WORK else rounded_score
        factor, _ = _search(
            factors,
            2,
            lambda f: sum(find(inflate(m, f), r)(candidate[1].degrees) for m, r in fitted),
        )
        folds = [find(inflate(m, factor), r) for m, r in fitted]
        best, score = _search(degrees, 2, lambda d: sum(fold(d) for fold in folds))
        if work > MAX_CELL_WORK:
            score = sum(rounded_score(inflate(m, factor), r)(best) for m, r in fitted)
        self._spreads[candidate] = (factor, best), score
        return self._spreads[candidate]

    def _spread_score(self, candidate):
        """Return the score of held-out rows with the best factor and degrees of freedom."""
        self._score(candidate)
        return self._search_spread(candidate)[1]

    def _score(self, candidate):
        """Return the weighted sum of log-likelihoods of held-out rows."""
        if candidate not in self._scores:
            fitted = self._fitted[candidate] = self._fit_folds(*candidate)
            degrees = candidate[1].degrees
            self._scores[candidate] = sum(rounded_score(m, r)(degrees) for m, r in fitted)
        return self._scores[candidate]

    @cached_property
    def _parts(self):
        """Return the training rows, the held-out rows and a tree of clusters of each fold."""
        parts, rng = [], np.random.default_rng(0)
        for kept, out in self.folds:
            rows = self.rows.take(kept).merge()
            tree = None if len(rows.noise) else ClusterTree(rows, rng)
            parts.append((rows, self.rows.take(out).merge(), tree))
        return parts

    def _fit_folds(self, n_components, prior):
        """Return pairs of a mixture, learned from some of the rows, and the held-out rows."""
        limits = N_SELECTION_ITERATIONS, self.rows.scale_tolerance(SELECTION_TOLERANCE)
        fitted, starts = [], self._last.get(n_components, [None] * len(self.folds))
        for (rows, out, tree), start in zip(self._parts, starts, strict=True):
            if start is None:
                rng = np.random.default_rng(0)
                mixture, _ = fit_from_clusters(rows, n_components, prior, rng, *limits, tree)
            else:
                mixture, _ = fit_mixture(rows, start, prior, *limits)
            fitted.append((mixture, out))
        if self.rows.has_few_rows:  # the next prior is similar
            self._last[n_components] = [mixture for mixture, _ in fitted]
        return fitted


def _search(candidates, patience, find_score):
    """Return the best candidate and its score.

    The search stops after ``patience`` candidates without improvement.
    """
    best, best_score, n_worse = candidates[0], -np.inf, 0
    for candidate in candidates:
        score, n_worse = find_score(candidate), n_worse + 1
        if score > best_score:
            best, best_score, n_worse = candidate, score, 0
        if n_worse >= patience:
            break
    return best, best_score


def inflate(mixture, factor):
    """Return the mixture with inflated covariances, and with the same variance of each number.

    If a component has few rows, its covariance is too small, and its mean is too far from the
    overall mean. Therefore, the covariances are multiplied by the factor, and each number is then
    scaled around its overall mean to the variance that it had before.
    """
    shares = np.exp(mixture.log_weights - logsumexp_along(mixture.log_weights))
    mean = shares @ mixture.means
    within = shares @ np.diagonal(mixture.covariances, axis1=1, axis2=2)
    between = shares @ (mixture.means - mean) ** 2
    scale = np.sqrt((within + between) / (factor * within + between))
    covariances = factor * mixture.covariances * np.outer(scale, scale)
    return replace(mixture, means=mean + scale * (mixture.means - mean), covariances=covariances)


def student_score(mixture, rows):
    """Return a function that maps degrees of freedom to the score of ``student_mixture``.

    The score is the weighted sum of the log-densities of rows in nats. ``mixture`` has Gaussian
    components. Rounded numbers are treated as numbers with normal errors.
    """
    logs, moments = joint_log_densities(mixture, rows, rows.patterns)
    args = logs, moments.squares, (~np.isnan(rows.numbers)).sum(axis=1)

    def score(degrees):
        scales = student_scales(degrees, rows.numbers.shape[1])
        return float(rows.weights @ student_log_densities(*args, scales))

    return score


def rounded_score(mixture, rows):
    """Return the function of ``student_score``, averaged over the cells of rounded numbers."""
    if not are_coarse(rows.cells, mixture):
        return student_score(mixture, rows)
    return lambda degrees: float(
        rows.weights @ row_log_densities(student_mixture(mixture, degrees), rows)
    )
