"""Estimators of Gaussian models: shrunk covariances, and precision matrices on a graph."""

import numpy as np

MIN_ROWS = 4  # with fewer rows the covariance is the target
MIN_VARIANCE = 1e-6  # of a standardised column
MAX_CHANGE = 1e-8  # of a covariance in a sweep that has converged
N_FOLDS, SHRINKAGES = 5, (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


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


def gaussian_base(X, numbers, weights, edges, target=None, shrinkage="auto"):
    """Fit a Gaussian with the edges of a graph; return its mean and its precision matrix.

    On the edges of the graph, the covariances of the Gaussian are the shrunk covariances of the
    rows. The precision is zero for pairs without an edge.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Encoded rows without missing entries.
    numbers : ndarray of int of shape (n_numbers,)
        Indices of the continuous columns.
    weights : ndarray of shape (n_rows,)
        Weights of the rows, with sum 1.
    edges : ndarray of shape (n_edges, 2)
        Pairs of column indices.
    target : ndarray of shape (n_numbers, n_numbers), optional
        Target of the shrinkage. By default it is the diagonal of the covariance.
    shrinkage : "auto" or float, default="auto"
        Weight of the target. "auto" selects it by cross-validation of the log-likelihood.

    Returns
    -------
    mean : ndarray of shape (n_numbers,)
        Mean of the Gaussian.
    precision : ndarray of shape (n_numbers, n_numbers)
        Precision matrix of the Gaussian.
    """
    m, X = len(numbers), X[:, numbers]
    if target is None:
        target = np.diag(weights @ (X - weights @ X) ** 2)
    floor = MIN_VARIANCE * np.eye(m)
    mean, covariance = shrunk_covariance(X, weights, target + floor, shrinkage)
    place = np.full(max(edges.max(initial=0), numbers.max(initial=0)) + 1, -1)
    place[numbers] = np.arange(m)
    among = place[edges]
    return mean, precision_on_graph(covariance + floor, among[(among >= 0).all(axis=1)])


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


def precision_on_graph(covariance, edges, *, max_iter=100):
    """Return the precision matrix of the Gaussian with given covariances on a graph's edges.

    The precision is zero for pairs without an edge. Each variable is regressed on its neighbours
    in turn (Hastie, Tibshirani and Friedman, The Elements of Statistical Learning, algorithm 17.1).
    Nearly singular covariances may need more than ``max_iter`` sweeps. The covariances on the edges
    are then approximate, but the precision matrix is always positive definite.
    """
    n = len(covariance)
    if len(edges) == n * (n - 1) // 2:
        precision = np.linalg.inv(covariance)
        return 0.5 * (precision + precision.T)
    neighbours = [np.concatenate([edges[edges[:, 0] == i, 1], edges[edges[:, 1] == i, 0]])
                  for i in range(n)]  # fmt: skip
    W = covariance.copy()
    coefficients = [np.zeros(0)] * n
    for _ in range(max_iter):
        before = W.copy()
        for i, near in enumerate(neighbours):
            coefficients[i] = np.linalg.solve(W[np.ix_(near, near)], covariance[near, i])
            others = np.arange(n) != i
            W[others, i] = W[i, others] = W[np.ix_(others, near)] @ coefficients[i]
        if np.abs(W - before).max() < MAX_CHANGE:
            break
    precision = np.zeros((n, n))
    for i, near in enumerate(neighbours):
        rest = covariance[i, i] - W[i, near] @ coefficients[i]
        precision[i, i] = 1.0 / max(rest, 1e-9 * covariance[i, i])
        precision[i, near] = -coefficients[i] * precision[i, i]
    return _make_positive_definite(0.5 * (precision + precision.T))


def _make_positive_definite(precision):
    """Halve the off-diagonal entries of a precision matrix until it is positive definite."""
    diagonal = np.diag(precision)
    size = np.sqrt(np.outer(diagonal, diagonal))
    while len(size) and np.linalg.eigvalsh(precision / size)[0] < 1e-9:
        precision = 0.5 * (precision + np.diag(diagonal))
    return precision
