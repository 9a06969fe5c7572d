"""Gaussians from few rows: shrunk covariances, and precisions that fit to a graph."""

import numpy as np

FEWEST = 4  # rows of which a covariance is estimated
LEAST_VARIANCE = 1e-6  # of the base along any number, in units of the data
FOLDS, SHARES = 5, (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


def shrunk_covariance(X, weights, target, shrinkage="auto"):
    """Covariance of rows, shrunk towards ``target``.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n)
    weights : ndarray of shape (n_rows,), sum 1
    target : ndarray of shape (n, n), positive definite
    shrinkage : "auto" or float
        Share of the target; "auto" is the one that predicts rows left out best.

    Returns
    -------
    mean : ndarray of shape (n,)
    covariance : ndarray of shape (n, n)
    """
    n = len(X)
    mean, S = _covariance(X, weights)
    if n < FEWEST or X.shape[1] == 0:
        return mean, target
    if shrinkage == "auto":
        scores = np.zeros(len(SHARES))
        for kept, out in _folds(n):
            centre, part = _covariance(X[kept], weights[kept] / weights[kept].sum())
            for k, share in enumerate(SHARES):
                residuals = X[out] - centre
                scores[k] += weights[out] @ _log_densities(residuals, _shrunk(part, target, share))
        shrinkage = SHARES[int(np.argmax(scores))]
    return mean, _shrunk(S, target, max(shrinkage, _least_share(*X.shape)))


def class_shrinkage(X, labels, weights, target):
    """The share of ``target`` with which Gaussians of classes predict rows left out best.

    One share for all classes, as those of few rows cannot tell theirs (compare Friedman's
    regularised discriminant analysis, 1989).
    """
    weights = weights / weights.sum()
    if labels.max() == 0 or X.shape[1] == 0:
        return "auto"
    scores = np.zeros(len(SHARES))
    for kept, out in _folds(len(X)):
        for c in np.unique(labels[kept]):
            rows, asked = kept[labels[kept] == c], out[labels[out] == c]
            mean, S = _covariance(X[rows], weights[rows] / weights[rows].sum())
            least = _least_share(len(rows), X.shape[1])
            for k, share in enumerate(SHARES):
                covariance = _shrunk(S, target, max(share, least))
                scores[k] += weights[asked] @ _log_densities(X[asked] - mean, covariance)
    return SHARES[int(np.argmax(scores))]


def _folds(n):
    """Rows that are kept and left out, fold by fold."""
    order = np.random.default_rng(0).permutation(n)
    fold = np.arange(n) % min(FOLDS, n)
    return [(order[fold != k], order[fold == k]) for k in range(fold.max() + 1)]


def _shrunk(S, target, share):
    return S + share * (target - S)


def _least_share(n, m):
    """Of the target, so that columns that are constant by chance have some variance."""
    return 0.01 * m / (n + m)


def gaussian_base(X, numbers, weights, edges, target=None, shrinkage="auto"):
    """Mean and precision of the Gaussian with the covariances of rows along the edges of a graph.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
    numbers : ndarray of int
        The columns that the Gaussian is of.
    weights : ndarray of shape (n_rows,), sum 1
    edges : ndarray of shape (n_edges, 2), of columns
    target : ndarray of shape (n_numbers, n_numbers), optional
        Of shrinkage; by default the diagonal of the covariance.
    shrinkage : "auto" or float
        Share of the target.
    """
    m, X = len(numbers), X[:, numbers]
    if target is None:
        target = np.diag(weights @ (X - weights @ X) ** 2)
    floor = LEAST_VARIANCE * np.eye(m)
    mean, covariance = shrunk_covariance(X, weights, target + floor, shrinkage)
    place = np.full(max(edges.max(initial=0), numbers.max(initial=0)) + 1, -1)
    place[numbers] = np.arange(m)
    among = place[edges]
    return mean, precision_on_graph(covariance + floor, among[(among >= 0).all(axis=1)])


def pooled_covariance(X, labels, weights):
    """Covariance of rows about the means of their classes, shrunk towards its diagonal.

    Of all rows about their mean where no class has two.
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
    """Up to a constant; -inf of a covariance that is not positive definite."""
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return np.full(len(residuals), -1e300)
    white = np.linalg.solve(root, residuals.T)
    return -0.5 * (white * white).sum(axis=0) - np.log(np.diag(root)).sum()


def precision_on_graph(covariance, edges, *, max_iter=100, tol=1e-8):
    """Precision of the Gaussian that has this covariance on the edges and no other couplings.

    By regressions of every variable on its neighbours in turn (Hastie, Tibshirani and Friedman,
    The Elements of Statistical Learning, algorithm 17.1). Where ``max_iter`` sweeps are too few,
    which nearly singular covariances may need, it is only about that, but positive definite.
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
        if np.abs(W - before).max() < tol:
            break
    precision = np.zeros((n, n))
    for i, near in enumerate(neighbours):
        rest = covariance[i, i] - W[i, near] @ coefficients[i]
        precision[i, i] = 1.0 / max(rest, 1e-9 * covariance[i, i])
        precision[i, near] = -coefficients[i] * precision[i, i]
    return _made_definite(0.5 * (precision + precision.T))


def _made_definite(precision):
    """The matrix, with couplings halved until it is positive definite."""
    diagonal = np.diag(precision)
    size = np.sqrt(np.outer(diagonal, diagonal))
    while len(size) and np.linalg.eigvalsh(precision / size)[0] < 1e-9:
        precision = 0.5 * (precision + np.diag(diagonal))
    return precision
