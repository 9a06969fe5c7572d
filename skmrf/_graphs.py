"""Graphs of variables: which of them are joined, and Gaussians that fit to a graph."""

from itertools import combinations

import networkx as nx
import numpy as np

N_NEIGHBORS = 5
LEAST_VARIANCE = 1e-6  # of the base along any number, in units of the data
FOLDS, SHARES = 5, (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


def edges_of(graph, correlation, names):
    """Edges between columns, shape (n_edges, 2), the lower column first.

    Parameters
    ----------
    graph : {"complete", "tree", "grid", "knn", "empty"}, networkx.Graph or list of pairs
        "tree" is the spanning tree of greatest mutual information of Gaussians (Chow and Liu);
        "knn" joins every column to those of greatest correlation; "grid" takes columns for the
        pixels of a square. Pairs and nodes are names or indices of columns.
    correlation : ndarray of shape (n_columns, n_columns)
    names : list
    """
    n = len(names)
    if isinstance(graph, str):
        makers = {
            "complete": lambda: combinations(range(n), 2),
            "empty": lambda: (),
            "tree": lambda: _tree(correlation),
            "knn": lambda: _nearest(correlation),
            "grid": lambda: _grid(n),
        }
        if graph not in makers:
            raise ValueError(
                f"graph must be one of {sorted(makers)}, a networkx graph or a list of pairs of "
                f"columns; got {graph!r}."
            )
        pairs = makers[graph]()
    else:
        pairs = [_columns(pair, names) for pair in _listed(graph)]
    return np.array(sorted({tuple(sorted(p)) for p in pairs}), dtype=np.int64).reshape(-1, 2)


def _listed(graph):
    """Pairs of a graph or of a list."""
    pairs = graph.edges() if hasattr(graph, "edges") else graph
    wrong = isinstance(pairs, str) or not hasattr(pairs, "__iter__")
    pairs = [] if wrong else list(pairs)
    odd = [p for p in pairs if isinstance(p, str) or not hasattr(p, "__len__") or len(p) != 2]
    if wrong or odd:
        raise ValueError(
            "graph must be the name of one, a networkx graph or a list of pairs of columns; got "
            f"{odd[0] if odd else graph!r}."
        )
    return [tuple(pair) for pair in pairs]


def _columns(pair, names):
    found = []
    for column in pair:
        if column in names:
            found.append(names.index(column))
        elif isinstance(column, int | np.integer) and 0 <= column < len(names):
            found.append(int(column))
        else:
            raise ValueError(
                f"graph names column {column!r}; the columns are {names[:8]}"
                f"{' ...' if len(names) > 8 else ''}."
            )
    if len(set(found)) != 2:
        raise ValueError(f"Edges join two different columns; got {pair!r}.")
    return found


def _grid(n):
    side = round(n**0.5)
    if side * side != n:
        raise ValueError(
            f'graph="grid" takes the columns for the pixels of a square, but there are {n}; give '
            "networkx.grid_2d_graph with its nodes relabelled to columns, or a list of pairs."
        )
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side), ordering="sorted")
    return graph.edges


def _tree(correlation):
    graph = nx.Graph()
    graph.add_nodes_from(range(len(correlation)))
    for i, j in combinations(range(len(correlation)), 2):
        graph.add_edge(i, j, weight=abs(correlation[i, j]))
    return nx.maximum_spanning_edges(graph, data=False)


def _nearest(correlation):
    strength = np.abs(correlation) - 2.0 * np.eye(len(correlation))
    k = min(N_NEIGHBORS, len(correlation) - 1)
    return [(i, int(j)) for i, row in enumerate(strength) for j in np.argsort(-row)[:k]]


# Gaussians ---------------------------------------------------------------------------------


def shrunk_covariance(X, weights, target):
    """Covariance of rows, shrunk towards ``target`` as predicts rows left out best.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n)
    weights : ndarray of shape (n_rows,), sum 1
    target : ndarray of shape (n, n), positive definite

    Returns
    -------
    mean : ndarray of shape (n,)
    covariance : ndarray of shape (n, n)
    """
    mean = weights @ X
    if len(X) < 2 * 2 or X.shape[1] == 0:
        return mean, target
    folds = np.arange(len(X)) % min(FOLDS, len(X))
    order = np.random.default_rng(0).permutation(len(X))
    scores = np.zeros(len(SHARES))
    for fold in range(folds.max() + 1):
        out = order[folds == fold]
        kept = order[folds != fold]
        m, S = _covariance(X[kept], weights[kept] / weights[kept].sum())
        for k, share in enumerate(SHARES):
            scores[k] += weights[out] @ _log_densities(X[out] - m, S + share * (target - S))
    n, m = X.shape
    share = max(SHARES[int(np.argmax(scores))], 0.01 * m / (n + m))
    S = _covariance(X, weights)[1]
    return mean, S + share * (target - S)


def gaussian_base(X, numbers, weights, edges, target=None):
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
    """
    m, X = len(numbers), X[:, numbers]
    if target is None:
        target = np.diag(weights @ (X - weights @ X) ** 2)
    floor = LEAST_VARIANCE * np.eye(m)
    mean, covariance = shrunk_covariance(X, weights, target + floor)
    place = np.full(max(edges.max(initial=0), numbers.max(initial=0)) + 1, -1)
    place[numbers] = np.arange(m)
    among = place[edges]
    return mean, precision_on_graph(covariance + floor, among[(among >= 0).all(axis=1)])


def pooled_covariance(X, labels, weights):
    """Covariance of rows about the means of their classes, shrunk towards its diagonal.

    Entries that are nan count as the mean of their class.
    """
    residuals = np.zeros_like(X)
    for k in np.unique(labels):
        here = labels == k
        seen = ~np.isnan(X[here])
        filled = np.where(seen, X[here], 0.0)
        mean = filled.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        residuals[here] = np.where(seen, filled - mean, 0.0)
    weights = np.ones(len(X)) if weights is None else weights
    weights = weights / weights.sum()
    variances = weights @ residuals**2
    target = np.diag(np.maximum(variances, 1e-12 * max(variances.max(initial=0.0), 1.0)))
    return shrunk_covariance(residuals, weights, target)[1]


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
    The Elements of Statistical Learning, algorithm 17.1).
    """
    n = len(covariance)
    if len(edges) == n * (n - 1) // 2:
        return np.linalg.inv(covariance)
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
        precision[i, i] = 1.0 / (covariance[i, i] - W[i, near] @ coefficients[i])
        precision[i, near] = -coefficients[i] * precision[i, i]
    return 0.5 * (precision + precision.T)
