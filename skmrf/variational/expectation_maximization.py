"""Expectation-maximisation of mixtures of Gaussians and tables, with missing entries."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.log_weights import logsumexp_along
from .._utils.parallel import equal_slices
from .._utils.rows import find_unique_rows
from .conditional_gaussians import shrink_covariance
from .mixtures import FLOOR, Mixture, missing_patterns, student_scales, student_terms
from .quadrature import joint_log_densities, take_cells

MAX_CLUSTERING_ROWS = 3000
MIN_TREE_ROWS, MAX_TREE_ROWS, MAX_TREE_WORK = 64, 256, 2**24  # squared rows times states
MAX_FEATURE = 10.0  # absolute value of a number
N_CLUSTERINGS = 3  # into two clusters; the best one is taken
N_SHORT_ITERATIONS = 5
TOLERANCE = 1e-4  # nats a row
N_NUMBERS_OF_TOLERANCE = 10  # with few rows, tolerances are proportional to the numbers
MAX_BLOCK = 2**22  # numbers of rows and components at once
MIN_ROWS = 12  # for a selection by held-out rows


@dataclass(frozen=True)
class MixtureRows:
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
    cells : object, optional
        Cells of rounded numbers, as in :func:`.quadrature.row_log_densities`.
    """

    X: np.ndarray
    n_states: np.ndarray
    weights: np.ndarray
    noise: np.ndarray
    cells: object = None

    @cached_property
    def numbers(self):
        """Return the rows of the numbers, shape (n_rows, n_numbers)."""
        return np.ascontiguousarray(self.X[:, self.n_states == 0])

    def take(self, rows):
        """Return some of the rows."""
        cells = self.cells and take_cells(self.cells, rows)
        return replace(self, X=self.X[rows], weights=self.weights[rows], cells=cells)

    @cached_property
    def patterns(self):
        """Return the missing-value patterns of the numbers, as :func:`missing_patterns` does."""
        return missing_patterns(self.numbers)

    @property
    def has_few_rows(self):
        """Return whether two components would have at most as many rows each as numbers."""
        return len(self.X) <= max(2 * len(self.noise), MIN_ROWS - 1)

    def scale_tolerance(self, tol):
        """Return a tolerance of the log-likelihood of a row; with few rows it can be larger."""
        factor = max(len(self.noise) / N_NUMBERS_OF_TOLERANCE, 1.0) if self.has_few_rows else 1.0
        return tol * factor

    def blocks(self, n_components):
        """Return slices of rows whose numbers, for each component, need little memory."""
        return equal_slices(len(self.X), -(-self.numbers.size * n_components // MAX_BLOCK))

    def merge(self):
        """Return the distinct rows, with sums of weights, if there are no numbers."""
        if len(self.noise):
            return self
        first, inverse = find_unique_rows(np.nan_to_num(self.X, nan=-1.0))
        weights = np.bincount(inverse, self.weights)
        return MixtureRows(self.X[first], self.n_states, weights, self.noise)

    def one_hot(self):
        """Return indicators of the states, one array of shape (n_rows, n_states) per variable."""
        states = ((j, np.arange(self.n_states[j])) for j in np.flatnonzero(self.n_states))
        return [(self.X[:, j, None] == codes).astype(float) for j, codes in states]

    def indicators(self):
        """Return the indicators of the states of all variables, one column per state."""
        return np.concatenate([np.empty((len(self.X), 0)), *self.one_hot()], axis=1)


@dataclass(frozen=True)
class Prior:
    """Strengths of the shrinkage of the components, in rows.

    Attributes
    ----------
    covariance : float
        Weight of the pooled covariance in the covariance of a component. With ``inf`` all
        components have the pooled covariance.
    diagonal : float
        Weight of the diagonal in the pooled covariance, from 0 to 1.
    table : float
        Weight of the overall shares of the states in the table of a component.
    shrinks_eigenvalues : bool
        Whether :func:`shrink_eigenvalues` is applied to the pooled covariance.
    degrees : float
        Degrees of freedom of the Student t distributions whose means and covariances are estimated.
    """

    covariance: float
    diagonal: float
    table: float = 1.0
    shrinks_eigenvalues: bool = True
    degrees: float = np.inf


def fit_mixture(rows, mixture, prior, n_iter, tol=TOLERANCE):
    """Return the mixture after iterations of expectation-maximisation.

    Parameters
    ----------
    rows : MixtureRows
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
        Fitted mixture. With few rows, shrunk eigenvalues can alternate; their mean is used then.
    scores : list of float
        Mean log-likelihood of a row in nats at the start of each iteration.
    """
    indicators, scores, shares = rows.indicators(), [], rows.weights / rows.weights.sum()
    for _ in range(n_iter):
        totals, resp, *moments = _expect(mixture, rows, indicators, prior.degrees)
        scores.append(float(shares @ totals))
        if has_converged(scores, tol, rows.has_few_rows):
            break
        before, gains = mixture.covariances, np.diff(scores)
        mixture = make_mixture(rows, indicators, resp, *moments, prior)
        if rows.has_few_rows and gains.min(initial=0.0) < 0.0 < gains.max(initial=0.0):  # cycles
            mixture = replace(mixture, covariances=0.5 * (before + mixture.covariances))
    return mixture, scores


def _expect(mixture, rows, indicators, degrees):
    """Return the log densities of rows, weights of the components, and sums of moments.

    The moments are sums of 1, x and its square, weighted by the inverse factors of the covariances
    of Student t distributions.
    """
    found, n_numbers = [], (~np.isnan(rows.numbers)).sum(axis=1)
    scales = student_scales(degrees, rows.numbers.shape[1])
    n_components = mixture.n_components * len(scales[0])
    for here in rows.blocks(n_components):
        logs, moments = joint_log_densities(mixture, rows, rows.patterns, indicators, here)
        terms = student_terms(logs, moments.squares, n_numbers[here], scales)
        totals = logsumexp_along(terms.reshape(n_components, -1))
        shares = np.exp(terms - totals) * rows.weights[here]
        resp, scaled = shares.sum(axis=0), np.tensordot(1.0 / scales[0], shares, 1)
        found.append((totals, resp, scaled.sum(axis=1), *moments.find_moments(resp, scaled)))
    totals, resp, *moments = zip(*found, strict=True)
    return np.concatenate(totals), np.concatenate(resp, axis=1), *map(sum, moments)


def has_converged(scores, tol, has_few_rows=False):
    """Return whether the last score increased (with few rows: changed) less than ``tol``."""
    gain = scores[-1] - scores[-2] if len(scores) > 1 else np.inf
    return (abs(gain) if has_few_rows else gain) < tol


def make_mixture(rows, indicators, resp, totals, first, second, prior):
    """Return the mixture with the given moments, shrunk by the prior."""
    counts, totals = np.maximum(resp.sum(axis=1), 1e-10), np.maximum(totals, 1e-10)
    means = first / totals[:, None]
    scatters = second - totals[:, None, None] * (means[:, :, None] * means[:, None, :])
    pooled = scatters.sum(axis=0) / counts.sum()
    n = counts.sum() - len(counts) if prior.shrinks_eigenvalues else 0.0
    pooled = shrink_covariance(pooled, n, prior.diagonal)
    pooled += np.diag(rows.noise + FLOOR)
    scatters += counts[:, None, None] * np.diag(rows.noise + FLOOR)
    own = (1.0 / (counts + prior.covariance))[:, None, None]
    covariances = own * scatters + (1.0 - own * counts[:, None, None]) * pooled
    n_states = rows.n_states[rows.n_states > 0]
    tables = np.zeros((len(counts), len(n_states), n_states.max(initial=1)))
    sums, totals = resp @ indicators, rows.weights @ indicators + 0.5
    for d, states in enumerate(np.split(np.arange(len(totals)), np.cumsum(n_states))[:-1]):
        table = sums[:, states] + prior.table * totals[states] / totals[states].sum()
        tables[:, d, : len(states)] = table / table.sum(axis=1, keepdims=True)
    log_weights = np.log(counts + 0.5) - np.log((counts + 0.5).sum())
    return Mixture(rows.n_states, log_weights, means, covariances, tables)


def start_mixture(rows, n_components, prior, rng, is_projected=False):
    """Return an initial mixture from clusters of the rows, or of their principal components."""
    from sklearn.cluster import KMeans  # takes long to import
    from sklearn.utils.extmath import randomized_svd

    features, n_init = _features(rows), N_CLUSTERINGS if n_components == 2 else 1
    n_components = min(n_components, len(features))
    labels = np.zeros(len(features), dtype=int)
    if n_components > 1:
        size = min(len(features), MAX_CLUSTERING_ROWS)
        subset = rng.choice(len(features), size, replace=False)
        seed, weights = int(rng.integers(2**31)), rows.weights[subset]
        if is_projected:
            scaled = np.sqrt(weights)[:, None] * features[subset]
            axes = randomized_svd(scaled, n_components - 1, random_state=seed)[2]
            features = features @ axes.T
        clusters = KMeans(n_components, n_init=n_init, random_state=seed)
        with warnings.catch_warnings():  # fewer distinct rows than components are no problem
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = clusters.fit(features[subset], sample_weight=weights).predict(features)
    return _mixture_of_clusters(rows, labels, prior)


def _mixture_of_clusters(rows, labels, prior):
    """Return the mixture with a component for each cluster of rows, given their labels."""
    resp, numbers = np.zeros((labels.max() + 1, len(labels))), np.nan_to_num(rows.numbers)
    resp[labels, np.arange(len(labels))] = rows.weights
    resp, numbers = resp[resp.sum(axis=1) > 0], np.clip(numbers, -MAX_FEATURE, MAX_FEATURE)
    first = resp @ numbers
    second = np.stack([(numbers[w > 0.0].T * w[w > 0.0]) @ numbers[w > 0.0] for w in resp])
    return make_mixture(rows, rows.indicators(), resp, resp.sum(axis=1), first, second, prior)


class ClusterTree:
    """Clusters of rows of states, for any number of clusters.

    At first each row is a cluster. Then two clusters are merged again and again. They are those
    whose union decreases the likelihood of the rows given their clusters least. Some dependences
    need many classes. Clusters by distances are then often poor classes.

    Parameters
    ----------
    rows : MixtureRows
        Rows without numbers. With many of them, the clusters have a random subset, in which rows
        with large weights are more probable.
    rng : Generator
        Random numbers.
    is_random : bool, default=False
        Whether the weights of the rows are multiplied by random numbers. The clusters of several
        trees are different then.
    """

    def __init__(self, rows, rng, is_random=False):
        size = np.sqrt(MAX_TREE_WORK / max(rows.n_states.sum(), 1))
        size = int(np.clip(size, MIN_TREE_ROWS, MAX_TREE_ROWS))
        order = np.argsort(rng.exponential(size=len(rows.X)) / np.maximum(rows.weights, 1e-10))
        self.rows = rows.take(np.sort(order[:size]))
        weights = self.rows.weights
        weights = weights * rng.exponential(size=len(weights)) if is_random else weights
        variable = np.repeat(np.arange((rows.n_states > 0).sum()), rows.n_states[rows.n_states > 0])
        belongs = np.eye(variable.max(initial=-1) + 1)[variable]  # states to variables
        totals = rows.weights @ rows.indicators() + 0.5
        indicators = self.rows.indicators()
        sums = np.concatenate(
            [indicators, indicators @ belongs, np.ones((len(weights), 1))], axis=1
        )
        self._sums = sums * np.maximum(weights, 1e-10)[:, None]  # of states, variables and rows
        added = totals / (belongs @ (totals @ belongs))  # as by the prior of the tables
        self._added = np.concatenate([added, np.ones(belongs.shape[1]), np.zeros(1)])
        self._signs = np.concatenate([np.ones(len(added)), -np.ones(belongs.shape[1]), np.ones(1)])
        self._merges = self._merge()

    def _find_scores(self, sums):
        """Return the log-likelihood of the rows of each cluster, given its sums."""
        return (sums * np.log(sums + self._added)) @ self._signs

    def _merge(self):
        """Return the pairs of clusters in the order in which the second joins the first."""
        sums, n = self._sums.copy(), len(self._sums)
        scores, losses, merges = self._find_scores(sums), np.full((n, n), np.inf), []
        for a in range(n - 1):
            rest = slice(a + 1, n)
            losses[a, rest] = scores[a] + scores[rest] - self._find_scores(sums[a] + sums[rest])
        losses = np.minimum(losses, losses.T)
        is_left = np.ones(n, dtype=bool)
        for _ in range(n - 1):
            a, b = divmod(int(losses.argmin()), n)
            merges.append((a, b))
            is_left[b] = False
            losses[b] = losses[:, b] = np.inf
            sums[a] += sums[b]
            scores[a] = self._find_scores(sums[a])
            others = np.flatnonzero(is_left)
            others = others[others != a]
            merged = self._find_scores(sums[a] + sums[others])
            losses[a, others] = losses[others, a] = scores[a] + scores[others] - merged
        return merges

    def start_mixture(self, n_components, prior):
        """Return the mixture with a component for each of ``n_components`` clusters."""
        labels = np.arange(len(self.rows.X))
        for a, b in self._merges[: len(labels) - n_components]:
            labels[labels == b] = a
        return _mixture_of_clusters(self.rows, labels, prior)


def fit_from_clusters(rows, n_components, prior, rng, n_iter, tol, tree=None):
    """Return the fitted mixture from initial clusters, and its scores as in ``fit_mixture``.

    If most variables are discrete, clusters of the rows can be nearly independent of the classes.
    Without numbers, the clusters of a tree are compared with them after a few iterations; otherwise
    clusters of principal components. ``tree`` is a :class:`ClusterTree` of the rows, or None.
    """
    starts = [start_mixture(rows, n_components, prior, rng)]
    if n_components > 1 and not len(rows.noise):
        tree = tree or ClusterTree(rows, rng)
        if n_components <= len(tree.rows.X):
            starts.append(tree.start_mixture(n_components, prior))
    elif n_components > 1 and (rows.n_states > 0).mean() > 0.5:
        starts.append(start_mixture(rows, n_components, prior, rng, is_projected=True))
    if len(starts) > 1:
        fits = [fit_mixture(rows, start, prior, N_SHORT_ITERATIONS) for start in starts]
        starts = [max(fits, key=lambda fit: fit[1][-1])[0]]
    return fit_mixture(rows, starts[0], prior, n_iter, tol)


def _features(rows):
    """Return the numbers, with means for missing ones, and scaled indicators of the states."""
    shares = rows.weights / rows.weights.sum()
    parts = [np.clip(np.nan_to_num(rows.numbers), -MAX_FEATURE, MAX_FEATURE)]
    for indicator in rows.one_hot():
        mean = shares @ indicator
        parts.append((indicator - mean) / np.sqrt(max((mean * (1 - mean)).sum(), 1e-3)))
    return np.concatenate(parts, axis=1)
