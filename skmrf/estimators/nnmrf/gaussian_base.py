"""Gaussian models with few parameters: shrunk covariances, and shrunk Gaussians of classes."""

from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning

from ..._utils.warn import warn_caller
from ...learners.initial_mixture import impute_normal
from .label_members import assign_folds

MIN_ROWS = 4  # with fewer rows the covariance is the target
MIN_VARIANCE = 1e-6  # of a standardised column
N_FOLDS, SHRINKAGES = 5, (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
# Candidates for the Gaussians of classes. The first ones are chosen if no rows are held out.
FACTORS = 1.0, 0.85, 0.7, 0.5, 0.35, 0.25, 0.15
THRESHOLDS = 0.0, 1.0, 2.0, 3.0
POOLINGS = 1.0, 0.8, 0.5, 0.2, 0.0
DIAGONAL_SHARES = np.array([1.0, 0.75, 0.5, 0.35, 0.2, 0.1, 0.03, 0.01, 0.003])
MAX_CLASS_WORK = 1.5e9  # of n_classes * min(n_rows, n)**3, for covariances of single classes
MAX_SELECTION_ROWS, MANY_ROWS, FEW_ROWS = 5000, 1000, 300
TINY = np.finfo(float).tiny


def shrunk_covariance(X, weights, target, shrinkage="auto"):
    """Return the mean and the covariance of the rows; shrink the covariance towards a target.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n)
        Continuous columns without missing entries.
    weights : ndarray of shape (n_rows,)
        Weights of the rows, with sum 1.
    target : ndarray of shape (n, n)
        Positive definite target of the shrinkage.
    shrinkage : "auto" or float, default="auto"
        Weight of the target. "auto" selects it by cross-validation of the log-likelihood.

    Returns
    -------
    mean : ndarray of shape (n,)
        Weighted mean.
    covariance : ndarray of shape (n, n)
        Shrunk covariance.
    """
    n = len(X)
    mean, S = _covariance(X, weights)
    if n < MIN_ROWS or X.shape[1] == 0:
        return mean, target
    if shrinkage == "auto":
        scores = np.zeros(len(SHRINKAGES))
        for kept, out in _folds(n):
            centre, part = _covariance(X[kept], weights[kept] / weights[kept].sum())
            for k, share in enumerate(SHRINKAGES):
                residuals = X[out] - centre
                scores[k] += weights[out] @ _log_densities(residuals, _shrink(part, target, share))
        shrinkage = SHRINKAGES[int(np.argmax(scores))]
    return mean, _shrink(S, target, max(shrinkage, _min_shrinkage(*X.shape)))


def select_class_shrinkage(X, labels, weights, target):
    """Select one shrinkage weight for the Gaussians of all classes by cross-validation.

    The weight maximises the log-likelihood of left-out rows. It is the same for all classes,
    because a class with few rows cannot determine its own weight (compare regularised discriminant
    analysis, Friedman 1989).
    """
    weights = weights / weights.sum()
    if labels.max() == 0 or X.shape[1] == 0:
        return "auto"
    scores = np.zeros(len(SHRINKAGES))
    for kept, out in _folds(len(X)):
        for c in np.unique(labels[kept]):
            rows, scored = kept[labels[kept] == c], out[labels[out] == c]
            mean, S = _covariance(X[rows], weights[rows] / weights[rows].sum())
            least = _min_shrinkage(len(rows), X.shape[1])
            for k, share in enumerate(SHRINKAGES):
                covariance = _shrink(S, target, max(share, least))
                scores[k] += weights[scored] @ _log_densities(X[scored] - mean, covariance)
    return SHRINKAGES[int(np.argmax(scores))]


def _folds(n):
    """Return the indices of the training rows and of the left-out rows of each fold."""
    order = np.random.default_rng(0).permutation(n)  # the same folds for all classes and targets
    fold = np.arange(n) % min(N_FOLDS, n)
    return [(order[fold != k], order[fold == k]) for k in range(fold.max() + 1)]


def _shrink(S, target, share):
    return S + share * (target - S)


def _min_shrinkage(n, m):
    """Return the smallest shrinkage weight; it makes the variance of constant columns positive."""
    return 0.01 * m / (n + m)


def pooled_covariance(X, labels, weights):
    """Return the pooled within-class covariance, shrunk towards its diagonal.

    If no class has two rows, it is the covariance of all rows about their mean.
    """
    n, n_classes = len(X), labels.max() + 1
    if n <= n_classes:
        labels, n_classes = np.zeros(n, int), 1
    residuals = np.empty_like(X)
    for k in range(n_classes):
        here = labels == k
        residuals[here] = X[here] - np.average(X[here], axis=0, weights=weights[here])
    shares = weights / weights.sum()
    variances = shares @ residuals**2
    target = np.diag(np.maximum(variances, 1e-12 * max(variances.max(initial=0.0), 1.0)))
    return shrunk_covariance(residuals, shares, target)[1] * n / max(n - n_classes, 1)


def _covariance(X, weights):
    mean = weights @ X
    centred = X - mean
    return mean, (weights[:, None] * centred).T @ centred


def _log_densities(residuals, covariance):
    """Return the Gaussian log-density of each row of residuals, up to a constant.

    The log-densities are -1e300 if the covariance is not positive definite.
    """
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return np.full(len(residuals), -1e300)
    white = np.linalg.solve(root, residuals.T)
    return -0.5 * (white * white).sum(axis=0) - np.log(np.diag(root)).sum()


# Gaussians of classes ----------------------------------------------------------------------------


class Shrinkage(NamedTuple):
    """Strengths of the shrinkage of the Gaussians of classes.

    Attributes
    ----------
    factor : float
        Factor of the differences between the means of the classes and the mean of all rows.
    threshold : float
        Number of standard errors by which each difference is reduced before that, at most to 0.
    pooling : float
        Weight of the pooled within-class covariance in the covariance of a class.
    diagonal : float
        Weight of its diagonal in the covariance.
    """

    factor: float
    threshold: float
    pooling: float = 1.0
    diagonal: float = 1.0


class ClassGaussians:
    """Gaussian of each class, with a shrunk mean and a shrunk covariance.

    The covariances are those about the shrunk means, so a part of the differences between the
    classes is in the covariances instead of the means.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n)
        Rows of numbers without missing entries.
    rows : LabelRows
        Labels and weights. The mean of the weights is about 1.
    shrinkage : Shrinkage
        Strengths of the shrinkage.

    Attributes
    ----------
    means : ndarray of shape (n_classes, n)
        Shrunk means.
    """

    def __init__(self, X, rows, shrinkage):
        self.rows, self.shrinkage = rows, shrinkage
        self.counts = np.maximum(rows.weights @ rows.targets, TINY)
        self.total = self.counts.sum()
        self.mean_weights = rows.weights**2 @ rows.targets / self.counts  # of a row of each class
        self.means = self._shrink_means(X)
        self.residuals = X - rows.targets @ self.means

    def _shrink_means(self, X):
        rows = self.rows
        means = rows.targets.T @ (rows.weights[:, None] * X) / self.counts[:, None]
        variances = self._pooled_weights @ (X - rows.targets @ means) ** 2
        mean = self.counts @ means / self.total
        # inverse effective numbers of rows: of each class, and of all classes
        own, all_rows = self.mean_weights / self.counts, self.counts @ self.mean_weights
        shares = np.maximum(own - all_rows / self.total**2, 0.0)
        errors = np.sqrt(shares[:, None] * variances)
        sizes = np.maximum(np.abs(means - mean) - self.shrinkage.threshold * errors, 0.0)
        return mean + self.shrinkage.factor * np.sign(means - mean) * sizes

    @property
    def _pooled_weights(self):
        return self.rows.weights / max(self.total - self.mean_weights.sum(), 0.5 * self.total)

    def _row_weights(self, k):
        """Return the weight of each row in the covariance of a class."""
        count = self.counts[k]
        own = self.rows.weights * self.rows.targets[:, k]
        own /= max(count - self.mean_weights[k], 0.5 * count)
        pooling = self.shrinkage.pooling
        return pooling * self._pooled_weights + (1 - pooling) * own

    def covariance(self, k):
        """Return the shrunk covariance of a class, shape (n, n)."""
        weights = self._row_weights(k)
        S = (weights[:, None] * self.residuals).T @ self.residuals
        return _shrink(S, np.diag(np.maximum(np.diag(S), MIN_VARIANCE)), self.shrinkage.diagonal)

    def log_joint(self, X):
        """Return ``log p(x, y)``, up to a constant, for each weight of the diagonal.

        The result has shape (n_diagonal_shares, n_rows, n_classes).
        """
        out, spectrum = np.empty((len(DIAGONAL_SHARES), len(X), len(self.means))), None
        for k, mean in enumerate(self.means):
            if spectrum is None or self.shrinkage.pooling < 1:
                spectrum = self._spectrum(k)
            out[:, :, k] = _log_densities_of_shares(X - mean, *spectrum)
        return out + self.rows.log_shares()

    def _spectrum(self, k):
        """Return the standard deviations, and the principal axes of the correlations of a class."""
        weights = self._row_weights(k)
        used = weights > 0
        Z = np.sqrt(weights[used])[:, None] * self.residuals[used]
        deviations = np.sqrt(np.maximum((Z**2).sum(axis=0), MIN_VARIANCE))
        Z /= deviations
        if len(Z) >= Z.shape[1]:
            return deviations, *np.linalg.eigh(Z.T @ Z)
        variances, axes = np.linalg.eigh(Z @ Z.T)
        kept = variances > 1e-9 * max(variances.max(initial=0.0), MIN_VARIANCE)
        variances, axes = variances[kept], axes[:, kept]
        return deviations, variances, Z.T @ axes / np.sqrt(variances)


def _log_densities_of_shares(residuals, deviations, variances, axes):
    """Return Gaussian log-densities for each weight of the diagonal, up to a constant.

    Parameters
    ----------
    residuals : ndarray of shape (n_rows, n)
        Differences of the rows from the mean.
    deviations : ndarray of shape (n,)
        Standard deviations.
    variances, axes : ndarray of shape (r,) and (n, r)
        Positive eigenvalues of the correlation matrix, and their eigenvectors.

    Returns
    -------
    ndarray of shape (n_diagonal_shares, n_rows)
        Log-densities.
    """
    Z, shares = residuals / deviations, DIAGONAL_SHARES[:, None]
    squares = (Z @ axes) ** 2
    mixed = (1 - shares) * np.maximum(variances, 0.0) + shares
    logs = np.log(mixed).sum(axis=1, keepdims=True) + 2 * np.log(deviations).sum()
    n_other = len(deviations) - len(variances)
    rest = np.maximum((Z**2).sum(axis=1) - squares.sum(axis=1), 0.0) if n_other else 0.0
    return -0.5 * ((1 / mixed) @ squares.T + rest / shares + logs + n_other * np.log(shares))


def class_tables(codes, n_states, rows, factor):
    """Return the probabilities of the states of discrete variables in each class.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_discrete)
        State codes; nan for missing entries.
    n_states : ndarray of int, shape (n_discrete,)
        Number of states of each variable.
    rows : LabelRows
        Labels and weights.
    factor : float
        Factor of the differences between the probabilities of the classes and those of all rows.

    Returns
    -------
    ndarray of shape (n_classes, n_discrete, n_slots)
        Probabilities, 0 beyond the last state of a variable.
    """
    weights = rows.weights[:, None] * rows.targets
    out = np.zeros((weights.shape[1], len(n_states), int(n_states.max(initial=1))))
    for d, q in enumerate(n_states):
        counts = weights.T @ (codes[:, d, None] == np.arange(q))
        pooled = (counts.sum(axis=0) + 1 / q) / (counts.sum() + 1)
        own = (counts + pooled) / (counts.sum(axis=1, keepdims=True) + 1)
        out[:, d, :q] = pooled + factor * (own - pooled)
    return out


def impute_without_labels(X, weights):
    """Impute missing numbers of a table by draws from one normal distribution.

    Draws from distributions of the classes would make the log loss of left-out rows too small. The
    covariance is shrunk, and with fewer rows than columns the columns are independent.
    """
    (n_rows, n), rng, shares = X.shape, np.random.default_rng(0), weights / weights.sum()
    if n_rows < n:
        draws = rng.normal(np.nanmean(X, axis=0), np.nanstd(X, axis=0), X.shape)
        return np.where(np.isnan(X), draws, X)
    return impute_normal(X, np.zeros(n, int), shares, rng, shrinkage=n / (n + n_rows))


def select_class_gaussians(X, codes, n_states, rows, rng):
    """Select the shrinkage of the Gaussians and of the tables of classes by cross-validation.

    The selected values have the smallest log loss of left-out rows or, with a single class, the
    largest likelihood. The covariances of the classes are pooled if other covariances would take
    too long.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n)
        Rows of numbers without missing entries.
    codes : ndarray of shape (n_rows, n_discrete)
        State codes of the discrete variables; nan for missing entries.
    n_states : ndarray of int, shape (n_discrete,)
        Number of states of each discrete variable.
    rows : LabelRows
        Labels and weights of the rows.
    rng : Generator
        Random numbers of the folds.

    Returns
    -------
    shrinkage : Shrinkage
        Shrinkage of the Gaussians.
    factor : float
        Shrinkage of the tables, as in :func:`class_tables`.

    References
    ----------
    J. H. Friedman, "Regularized discriminant analysis", Journal of the American Statistical
    Association 84 (1989).

    R. Tibshirani, T. Hastie, B. Narasimhan and G. Chu, "Class prediction by nearest shrunken
    centroids", Statistical Science 18 (2003).
    """
    search = ShrinkageSearch(X, rows, rng)
    search.add(Shrinkage(FACTORS[0], THRESHOLDS[0]))
    try:
        search.select_means()
        if rows.targets.shape[1] * float(min(search.X.shape)) ** 3 <= MAX_CLASS_WORK:
            search.select_pooling()
        factor = search.select_table_factor(codes[search.chosen], n_states)
    except KeyboardInterrupt:
        factor = FACTORS[0]
        warn_caller(
            "Interrupted while the shrinkage of the Gaussians was selected; the best one so far is "
            "used.",
            ConvergenceWarning,
        )
    return search.best, factor


class ShrinkageSearch:
    """Search for the shrinkage of the Gaussians of classes by cross-validation.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n)
        Rows of numbers without missing entries. At most 5,000 random rows are used, among them at
        least two of each class.
    rows : LabelRows
        Labels and weights.
    rng : Generator
        Random numbers of the folds.

    Attributes
    ----------
    best : Shrinkage
        Shrinkage with the smallest loss.
    loss : float
        This loss.
    logs : list of ndarray of shape (n_rows, n_classes)
        ``log p(x, y)`` of the left-out rows by these Gaussians, for each division into folds.
    chosen : ndarray of int
        Indices of the rows that are used.
    """

    def __init__(self, X, rows, rng):
        self.chosen = _choose_rows(rows.targets.argmax(axis=1), rng)
        self.best, self.loss, self.logs = None, np.inf, None
        self.X, rows = X[self.chosen], rows.select(self.chosen)
        labels = rows.targets.argmax(axis=1)
        n_folds = 3 if len(self.X) > MANY_ROWS else N_FOLDS
        n_repeats = 3 if len(self.X) <= FEW_ROWS else 1
        self.repeats = [
            rows._replace(folds=assign_folds(labels, n_folds, rng)) for _ in range(n_repeats)
        ]

    def add(self, shrinkage):
        """Compute the loss of a shrinkage of the means with each weight of the diagonal."""
        logs = [self._held_out(rows, shrinkage) for rows in self.repeats]
        for i, share in enumerate(DIAGONAL_SHARES.tolist()):
            loss = self._loss([part[i] for part in logs])
            if self.best is None or loss < self.loss:
                self.loss, self.best = loss, shrinkage._replace(diagonal=share)
                self.logs = [part[i] for part in logs]

    def select_means(self):
        """Select the shrinkage of the means, with pooled covariances."""
        for factor in FACTORS[1:]:
            self.add(Shrinkage(factor, THRESHOLDS[0]))
        for threshold in THRESHOLDS[1:]:
            self.add(Shrinkage(FACTORS[0], threshold))
        factor, threshold, *_ = self.best
        if threshold:
            others = [(other, threshold) for other in FACTORS[1:]]
        else:
            others = [(factor, other) for other in THRESHOLDS[1:] if factor < FACTORS[0]]
        for means in others:
            self.add(Shrinkage(*means))

    def select_pooling(self):
        """Select the weight of the pooled covariance, with the best means or means as they are."""
        factor, threshold, *_ = self.best
        for pooling in POOLINGS[1:]:
            for means in sorted({(FACTORS[0], THRESHOLDS[0]), (factor, threshold)}):
                self.add(Shrinkage(*means, pooling))

    def _held_out(self, rows, shrinkage):
        logs = np.zeros((len(DIAGONAL_SHARES), *rows.targets.shape))
        for kept, left in label_folds(rows):
            gaussians = ClassGaussians(self.X[kept], rows.select(kept), shrinkage)
            logs[:, left] = gaussians.log_joint(self.X[left])
        return logs

    def _loss(self, logs):
        if logs[0].shape[1] > 1:
            logs = [log_softmax(part, axis=-1) for part in logs]
        pairs = zip(self.repeats, logs, strict=True)
        return float(np.mean([rows.held_out_loss(part) for rows, part in pairs]))

    def select_table_factor(self, codes, n_states):
        """Return the shrinkage of the tables with the smallest loss, given the best Gaussians."""
        found = np.inf, FACTORS[0]
        for factor in FACTORS if len(n_states) else ():
            logs = []
            for rows, numbers in zip(self.repeats, self.logs, strict=True):
                part = numbers.copy()
                for kept, left in label_folds(rows):
                    tables = class_tables(codes[kept], n_states, rows.select(kept), factor)
                    part[left] += _table_logs(tables, codes[left])
                logs.append(part)
            found = min(found, (self._loss(logs), factor))
        return found[1]


def _choose_rows(labels, rng):
    """Return the sorted indices of at most 5,000 random rows, with two rows of each class first."""
    order = rng.permutation(len(labels))
    rank = np.empty(len(labels), int)
    for k in range(labels.max(initial=-1) + 1):
        here = labels[order] == k
        rank[here] = np.arange(here.sum())
    return np.sort(order[np.argsort(rank >= 2, kind="stable")][:MAX_SELECTION_ROWS])


def label_folds(rows):
    """Return the indices of the training rows and of the left-out rows of each fold."""
    folds = [(np.flatnonzero(rows.folds != k), np.flatnonzero(rows.folds == k))
             for k in range(rows.n_folds)]  # fmt: skip
    return [(kept, left) for kept, left in folds if len(left)]


def _table_logs(tables, codes):
    """Return the log-probability of the observed states of each row, shape (n_rows, n_classes)."""
    total = np.zeros((len(codes), len(tables)))
    for d, column in enumerate(codes.T):
        seen = ~np.isnan(column)
        total[seen] += np.log(tables[:, d, column[seen].astype(int)]).T
    return total
