"""Expectation-maximisation of mixtures of Gaussians and tables, with missing entries."""

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.log_weights import logsumexp_along
from .conditional_gaussians import add_conditional_gaussian, shrink_eigenvalues
from .mixtures import (
    FLOOR,
    Mixture,
    average_mixtures,
    inflate,
    student_log_densities,
    student_mixture,
)

MAX_PATTERNS = 64  # of missing entries with exact expectations; other rows are imputed by draws
MAX_CLUSTERING_ROWS = 3000
N_STARTS, MAX_STARTS = 2, 4  # mixtures from different clusters to average, and to compare
MAX_LOSS, LOSS_OF_PARAMETER = 0.02, 0.25  # nats a row, and nats, below the best of the mixtures
N_CLUSTERINGS = 3  # into two clusters; the best one is taken
N_IMPUTATIONS = 3  # of rows with rare patterns of missing entries
N_FOLDS, MAX_ROWS_OF_FOLDS = 3, 1500  # with more rows, one part of the rows is held out
MAX_SELECTION_ROWS = 2500  # training rows, and held-out rows, in the selection with many rows
MIN_ROWS = 12  # for a selection by held-out rows
MIN_ROWS_OF_COMPONENT = 6
INFLATIONS = 1.0, 1.05, 1.1, 1.2, 1.3, 1.45, 1.6, 1.8, 2.0
DEGREES = np.inf, 200.0, 100.0, 50.0, 30.0, 20.0, 14.0, 10.0, 7.0, 5.0  # of freedom
N_COMPONENTS = 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48
DIAGONALS = 0.0, 0.03, 0.1, 0.3  # candidates of Prior.diagonal
COVARIANCES = 1.0, 0.3, 0.1, 0.0  # candidates of Prior.covariance, per number
LARGE_COVARIANCES = 1.0, 2.0, 4.0, 8.0, 16.0  # further candidates in cross-validation
EQUAL_COVARIANCES = (16.0, 8.0, 4.0), (16.0, 64.0)  # of components with similar covariances


@dataclass(frozen=True)
class Rows:
    """Rows of numbers and state codes, grouped by the numbers that are missing.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_variables)
        Rows, with nan for missing entries.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable, 0 for numbers.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.
    noise : ndarray of shape (n_numbers,)
        Smallest variance of each number, such as that of its rounding error. Each covariance
        includes it.
    """

    X: np.ndarray
    n_states: np.ndarray
    weights: np.ndarray
    noise: np.ndarray

    @property
    def numbers(self):
        """Return the rows of the numbers, shape (n_rows, n_numbers)."""
        return self.X[:, self.n_states == 0]

    def take(self, rows):
        """Return some of the rows."""
        return Rows(self.X[rows], self.n_states, self.weights[rows], self.noise)

    def groups(self):
        """Return pairs of the observed numbers' mask and the indices of rows with this mask."""
        observed = ~np.isnan(self.numbers)
        masks, group = np.unique(observed, axis=0, return_inverse=True)
        order = np.argsort(group, kind="stable")
        ends = np.cumsum(np.bincount(group, minlength=len(masks)))
        return list(zip(masks, np.split(order, ends[:-1]), strict=True))

    def one_hot(self):
        """Return indicators of the states, one array of shape (n_rows, n_states) per variable."""
        states = ((j, np.arange(self.n_states[j])) for j in np.flatnonzero(self.n_states))
        return [(self.X[:, j, None] == codes).astype(float) for j, codes in states]


@dataclass(frozen=True)
class Prior:
    """Strengths of the shrinkage of the components, in rows.

    Attributes
    ----------
    covariance : float
        Weight of the pooled covariance in the covariance of a component. The eigenvalues of the
        pooled covariance are shrunk by :func:`shrink_eigenvalues`.
    diagonal : float
        Weight of the diagonal in the pooled covariance, from 0 to 1.
    table : float
        Weight of the overall shares of the states in the table of a component.
    """

    covariance: float
    diagonal: float
    table: float = 1.0


def fit_mixture(rows, mixture, prior, n_iter, tol=1e-4):
    """Return the mixture after iterations of expectation-maximisation.

    Parameters
    ----------
    rows : Rows
        Training rows.
    mixture : Mixture
        Initial mixture.
    prior : Prior
        Strengths of the shrinkage.
    n_iter : int
        Largest number of iterations.
    tol : float, default=1e-4
        Iterations end when the mean log-likelihood of a row in nats increases less.

    Returns
    -------
    mixture : Mixture
        Fitted mixture.
    scores : list of float
        Mean log-likelihood of a row in nats at the start of each iteration.
    """
    groups, indicators, scores = rows.groups(), rows.one_hot(), []
    shares = rows.weights / rows.weights.sum()
    for _ in range(n_iter):
        logs, parts = joint_log_densities(mixture, rows, groups)
        totals = logsumexp_along(logs)
        scores.append(float(shares @ totals))
        if len(scores) > 1 and scores[-1] - scores[-2] < tol:
            break
        resp = np.exp(logs - totals) * rows.weights
        mixture = _maximise(rows, indicators, resp, parts, prior)
    return mixture, scores


def joint_log_densities(mixture, rows, groups=None):
    """Return the log-density of each row and component, and the completions of the rows.

    Parameters
    ----------
    mixture : Mixture
        Mixture of the rows.
    rows : Rows
        Rows.
    groups : list, optional
        Result of ``rows.groups()``.

    Returns
    -------
    logs : ndarray of shape (n_components, n_rows)
        Joint log-densities of components and observed entries in nats.
    parts : list of (Completion, ndarray)
        Completion of each group of rows, and the indices of the rows.
    """
    logs = mixture.table_log_densities(rows.X) + mixture.log_weights[:, None]
    numbers, parts = rows.numbers, []
    for observed, here in rows.groups() if groups is None else groups:
        part = Completion(mixture, numbers[np.ix_(here, observed)], observed)
        logs[:, here] += part.log_densities
        parts.append((part, here))
    return logs, parts


class Completion:
    """Expectations of the missing numbers of rows that share the observed numbers.

    Parameters
    ----------
    mixture : Mixture
        Mixture of the rows.
    X : ndarray of shape (n_rows, n_observed)
        Observed numbers.
    observed : ndarray of bool of shape (n_numbers,)
        Mask of the observed numbers.
    """

    def __init__(self, mixture, X, observed):
        o, m = np.flatnonzero(observed), np.flatnonzero(~observed)
        S, means = mixture.covariances, mixture.means
        self.X, self.o, self.m = X, o, m
        inner = S[:, o[:, None], o]
        roots = np.linalg.cholesky(inner)
        whitening = np.linalg.inv(roots)
        white = whitening @ X.T - (whitening @ means[:, o, None])
        log_dets = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        self.squares = np.einsum("kir,kir->kr", white, white)
        constant = 0.5 * np.log(2 * np.pi) * len(o)
        self.log_densities = -0.5 * self.squares - (log_dets + constant)[:, None]
        if len(m):
            cross = whitening @ S[:, o[:, None], m]
            self.slopes = np.swapaxes(whitening, 1, 2) @ cross
            self.covariances = S[:, m[:, None], m] - np.swapaxes(cross, 1, 2) @ cross
            self.intercepts = means[:, m] - np.einsum("kom,ko->km", self.slopes, means[:, o])

    def add_moments(self, resp, first, second):
        """Add the weighted first and second moments under each component to the given arrays."""
        o, m = self.o, self.m
        total, sums = resp.sum(axis=1)[:, None], resp @ self.X
        squares = (resp[:, None, :] * self.X.T) @ self.X
        first[:, o] += sums
        second[:, o[:, None], o] += squares
        if len(m):
            slopes, intercept = self.slopes, self.intercepts
            mean = np.einsum("ko,kom->km", sums, slopes)
            cross = squares @ slopes + sums[:, :, None] * intercept[:, None, :]
            mixed = mean[:, :, None] * intercept[:, None, :]
            inner = np.swapaxes(slopes, 1, 2) @ squares @ slopes + mixed
            outer = intercept[:, :, None] * intercept[:, None, :]
            inner += np.swapaxes(mixed, 1, 2) + total[:, :, None] * (self.covariances + outer)
            first[:, m] += mean + total * intercept
            second[:, o[:, None], m] += cross
            second[:, m[:, None], o] += np.swapaxes(cross, 1, 2)
            second[:, m[:, None], m] += inner


def _maximise(rows, indicators, resp, parts, prior):
    """Return the mixture that maximises the expected log-likelihood plus the log prior."""
    n_components, p = len(resp), len(rows.noise)
    first, second = np.zeros((n_components, p)), np.zeros((n_components, p, p))
    for group, here in parts:
        group.add_moments(resp[:, here], first, second)
    counts = resp.sum(axis=1)
    return make_mixture(rows, indicators, resp, counts, first, second, prior)


def make_mixture(rows, indicators, resp, counts, first, second, prior):
    """Return the mixture with the given moments, shrunk by the prior."""
    counts = np.maximum(counts, 1e-10)
    means = first / counts[:, None]
    scatters = second - counts[:, None, None] * (means[:, :, None] * means[:, None, :])
    pooled = scatters.sum(axis=0) / counts.sum()
    diagonal = np.diag(np.maximum(np.diag(pooled), FLOOR))
    pooled = pooled + prior.diagonal * (diagonal - pooled)
    pooled = shrink_eigenvalues(pooled, counts.sum() - len(counts)) + np.diag(rows.noise + FLOOR)
    scatters += counts[:, None, None] * np.diag(rows.noise + FLOOR)
    weight = counts + prior.covariance
    covariances = (scatters + prior.covariance * pooled) / weight[:, None, None]
    tables = np.zeros((len(counts), len(indicators), int(max(rows.n_states.max(initial=1), 1))))
    for d, indicator in enumerate(indicators):
        overall = rows.weights @ indicator + 0.5
        overall = overall / overall.sum()
        table = resp @ indicator + prior.table * overall
        tables[:, d, : indicator.shape[1]] = table / table.sum(axis=1, keepdims=True)
    log_weights = np.log(counts + 0.5) - np.log((counts + 0.5).sum())
    return Mixture(rows.n_states, log_weights, means, covariances, tables)


def start_mixture(rows, n_components, prior, rng):
    """Return an initial mixture from clusters of the rows."""
    from sklearn.cluster import KMeans  # takes long to import

    features, n_init = _features(rows), N_CLUSTERINGS if n_components == 2 else 1
    n_components = min(n_components, len(features))
    labels = np.zeros(len(features), dtype=int)
    if n_components > 1:
        size = min(len(features), MAX_CLUSTERING_ROWS)
        subset = rng.choice(len(features), size, replace=False)
        clusters = KMeans(n_components, n_init=n_init, random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():  # fewer distinct rows than components are no problem
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = clusters.fit(features[subset]).predict(features)
    resp = np.zeros((labels.max() + 1, len(labels)))
    resp[labels, np.arange(len(labels))] = rows.weights
    resp = resp[resp.sum(axis=1) > 0]
    numbers = features[:, : len(rows.noise)]
    first = resp @ numbers
    second = np.stack([(r[:, None] * numbers).T @ numbers for r in resp])
    return make_mixture(rows, rows.one_hot(), resp, resp.sum(axis=1), first, second, prior)


def _features(rows):
    """Return the numbers, with means for missing ones, and scaled indicators of the states."""
    shares = rows.weights / rows.weights.sum()
    numbers = np.where(np.isnan(rows.numbers), 0.0, rows.numbers)
    parts = [np.clip(numbers, -10.0, 10.0)]
    for indicator in rows.one_hot():
        mean = shares @ indicator
        parts.append((indicator - mean) / np.sqrt(max((mean * (1 - mean)).sum(), 1e-3)))
    return np.concatenate(parts, axis=1)


def learn_mixture(rows, n_components, rng):
    """Learn a mixture; select its shrinkage and number of components by held-out rows.

    The number of components increases until the log-likelihood of held-out rows decreases. The
    result is the average of mixtures that are learned from different initial clusters. With numbers
    and categories, a conditional Gaussian distribution is added if "auto" selects the components.

    Parameters
    ----------
    rows : Rows
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
    """
    original, is_automatic = rows, n_components == "auto"
    if len(rows.groups()) > MAX_PATTERNS:
        rows = impute_rare_patterns(rows, start_mixture(rows, 1, Prior(0.0, 0.1), rng), rng)
    choice = Selection(rows, rng)
    n_components, prior = choice.select(n_components)
    mixtures = []
    for mixture, scores in _fit_starts(rows, n_components, prior, rng):
        for _ in range(N_IMPUTATIONS if rows is not original else 0):
            completed = impute_rare_patterns(original, mixture, rng)
            mixture, scores = fit_mixture(completed, mixture, prior, 10)
        mixtures.append(mixture)
    factor, degrees = choice.select_spread(n_components, prior)
    mixture = student_mixture(inflate(average_mixtures(mixtures), factor), degrees)
    if is_automatic and choice.is_mixed and len(rows.X) >= MIN_ROWS:
        logs = choice.held_out_log_densities(n_components, prior)
        mixture = add_conditional_gaussian(mixture, original, choice.folds, logs, rng)
    return mixture, {"log_likelihood": scores}


def _fit_starts(rows, n_components, prior, rng):
    """Return mixtures from different clusters, and their scores, without those of low likelihood.

    Expectation-maximisation can converge to a saddle point. The likelihoods of mixtures with many
    parameters differ more, without a difference in the likelihood of new rows.
    """
    p, fits = len(rows.noise), []
    n_parameters = n_components * p * (p + 3) / 2
    tolerance = max(MAX_LOSS, LOSS_OF_PARAMETER * n_parameters / len(rows.X))
    for _ in range(MAX_STARTS if n_components > 1 else 1):
        start = start_mixture(rows, n_components, prior, rng)
        fits.append(fit_mixture(rows, start, prior, 60))
        best = max(scores[-1] for _, scores in fits)
        kept = [(mixture, scores) for mixture, scores in fits if scores[-1] > best - tolerance]
        if len(kept) == N_STARTS:
            break
    return kept


def impute_rare_patterns(rows, mixture, rng):
    """Return the rows with draws for missing entries, except in rows with frequent patterns."""
    X = rows.X.copy()
    groups = sorted(rows.groups(), key=lambda group: -len(group[1]))
    here = np.concatenate([rare for _, rare in groups[MAX_PATTERNS // 2 :]])
    X[here] = mixture.impute(X[here], rng)
    return Rows(X, rows.n_states, rows.weights, rows.noise)


class Selection:
    """Selection of the number of components and of the shrinkage by held-out rows.

    Parameters
    ----------
    rows : Rows
        Training rows.
    rng : Generator
        Random numbers of folds and clusters.
    """

    def __init__(self, rows, rng):
        self.rows, self.rng, self._fitted = rows, rng, {}
        n, order = len(rows.X), rng.permutation(len(rows.X))
        if n > MAX_ROWS_OF_FOLDS:
            n_held_out = min(n // 3, MAX_SELECTION_ROWS)
            kept = order[n_held_out : n_held_out + MAX_SELECTION_ROWS]
            self.folds = [(kept, order[:n_held_out])]
        else:
            fold = np.arange(n) % N_FOLDS
            self.folds = [(order[fold != k], order[fold == k]) for k in range(min(N_FOLDS, n))]

    @property
    def is_mixed(self):
        """Return whether there are numbers and categories."""
        return 0 < len(self.rows.noise) < self.rows.X.shape[1]

    def select(self, n_components):
        """Return the number of components, given or selected, and the prior.

        With numbers and categories, many components with similar covariances are also compared.
        They represent categories that depend on several numbers.
        """
        p, n = len(self.rows.noise), len(self.rows.X)
        if n < MIN_ROWS:
            return 1 if n_components == "auto" else n_components, Prior(p + 2.0, DIAGONALS[-1])
        strengths = (LARGE_COVARIANCES, COVARIANCES)[len(self.folds) == 1 :]
        best = self._select(n_components, strengths)
        if n_components == "auto" and self.is_mixed:
            pair = best, self._select(n_components, EQUAL_COVARIANCES)
            best = max(pair, key=self._spread_score)
        return best

    def _select(self, n_components, strengths):
        """Return a number of components and a prior; the first strength is first of each group."""
        p, n = len(self.rows.noise), len(self.rows.X)
        k, first = 2 if n_components == "auto" else n_components, strengths[0][0] * p + 2.0
        priors = [Prior(first, share) for share in DIAGONALS]
        (_, prior), _ = _search([(k, prior) for prior in priors], 1, self._score)
        if n_components == "auto":
            paths = [(k, prior) for k in N_COMPONENTS if k <= max(n / MIN_ROWS_OF_COMPONENT, 1)]
            (k, prior), _ = _search(paths, 2, self._score)
        for group in strengths:
            if p > 0 and prior.covariance == first:  # the strengths before have lower scores
                others = [(k, Prior(s * p + 2.0, prior.diagonal)) for s in group]
                (_, prior), _ = _search(others, 1, self._spread_score)
        return k, prior

    def select_spread(self, n_components, prior):
        """Return the factor of the covariances and the degrees of freedom of the distributions."""
        (factor, degrees), _ = self._search_spread((n_components, prior))
        return 1.0 + (factor - 1.0) * (1.0 - 1.0 / N_FOLDS), degrees  # the folds have fewer rows

    def held_out_log_densities(self, n_components, prior):
        """Return the log-densities of the held-out rows of all folds in nats."""
        (factor, degrees), _ = self._search_spread((n_components, prior))
        pairs = self._fitted[n_components, prior]
        parts = [(student_mixture(inflate(m, factor), degrees), rows) for m, rows in pairs]
        return np.concatenate([mixture.log_density(rows.X) for mixture, rows in parts])

    def _search_spread(self, candidate):
        """Return the best factor and degrees of freedom for held-out rows, and their score."""
        fitted = self._fitted.get(candidate, ())
        factors = INFLATIONS if candidate[0] > 1 else INFLATIONS[:1]  # one component is unchanged
        degrees = DEGREES if len(self.rows.noise) else DEGREES[:1]
        factor, _ = _search(factors, 2, lambda f: sum(_score(inflate(m, f), r) for m, r in fitted))
        folds = [_student_score(inflate(m, factor), r) for m, r in fitted]
        best, score = _search(degrees, 2, lambda d: sum(fold(d) for fold in folds))
        return (factor, best), score

    def _spread_score(self, candidate):
        """Return the score of held-out rows with the best factor and degrees of freedom."""
        self._score(candidate)
        return self._search_spread(candidate)[1]

    def _score(self, candidate):
        """Return the weighted sum of log-likelihoods of held-out rows."""
        if candidate not in self._fitted:
            self._fitted[candidate] = self._fit_folds(*candidate)
        return sum(_score(*pair) for pair in self._fitted[candidate])

    def _fit_folds(self, n_components, prior):
        """Return pairs of a mixture, learned from some of the rows, and the held-out rows."""
        fitted = []
        for kept, out in self.folds:
            rows, held_out = self.rows.take(kept), self.rows.take(out)
            start = start_mixture(rows, n_components, prior, np.random.default_rng(0))
            fitted.append((fit_mixture(rows, start, prior, 20, 1e-3)[0], held_out))
        return fitted


def _search(candidates, patience, find_score):
    """Return the best candidate and its score.

    The search stops after ``patience`` candidates without improvement.
    """
    best, best_score, n_worse = candidates[0], -np.inf, 0
    for candidate in candidates:
        score = find_score(candidate)
        n_worse = 0 if score > best_score else n_worse + 1
        if score > best_score:
            best, best_score = candidate, score
        if n_worse >= patience:
            break
    return best, best_score


def _score(mixture, rows):
    return float(rows.weights @ logsumexp_along(joint_log_densities(mixture, rows)[0]))


def _student_score(mixture, rows):
    """Return a function that maps degrees of freedom to the score of ``student_mixture``.

    The covariances are factorised only once.
    """
    logs, parts = joint_log_densities(mixture, rows)
    squares, n_numbers = np.zeros(logs.shape), (~np.isnan(rows.numbers)).sum(axis=1)
    for part, here in parts:
        squares[:, here] = part.squares
    return lambda d: float(rows.weights @ student_log_densities(logs, squares, n_numbers, d))
