"""Expectations under a mixture distribution: Gauss-Hermite quadrature and conditional moments.

The functions of the quadrature depend on one variable, or on an edge (a pair of variables). Only
the values of a function are needed. The expectations of its derivatives follow from these values
and from the derivatives of the log density (the score).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dtrtri

from .._kernels import gaussians
from .._kernels._jit import read_only
from .._utils.log_weights import logsumexp_along
from .._utils.parallel import equal_slices
from .._utils.phases import CliquePoints
from .mixtures import LOG_2PI, TINY, missing_patterns

MIN_RESPONSIBILITY = 1e-12  # share of a component in the weight of a row, in sums of moments
MAX_BLOCK = 2**22  # log-densities of rows and components at once
MAX_FINE = 0.01  # squared width of a cell, relative to the least variance, that has no effect
MAX_INVERSE = 64  # numbers up to which an inverse triangle is faster than solving for each row


class Expectations(NamedTuple):
    """Expectations of a function and of its derivatives under each component of a mixture.

    The function is h, a function of all variables.

    Attributes
    ----------
    values : ndarray of shape (n_components,)
        E h.
    slopes : ndarray of shape (n_components, n_numbers)
        E of the gradient of h. This is the derivative of E h by the component's mean.
    curvatures : ndarray of shape (n_components, n_numbers, n_numbers)
        E of the Hessian of h. This is twice the derivative of E h by the component's covariance.
    gains : ndarray of shape (n_components, n_discrete, n_slots)
        E of h given a state of a discrete variable, up to a constant for each variable.
    """

    values: np.ndarray
    slopes: np.ndarray
    curvatures: np.ndarray
    gains: np.ndarray

    def add(self, other, sign=1.0):
        """Return the expectations of a sum of two functions; ``sign`` multiplies the second."""
        return Expectations(*(a + sign * b for a, b in zip(self, other, strict=True)))


class Quadrature(NamedTuple):
    """Quadrature points and weights of all components of a mixture.

    Attributes
    ----------
    points : CliquePoints
        Points of all variables and edges, with the weights of the mixture.
    nodes : ndarray of shape (n_components, n_variables, n_points)
        Weights of the points of variables within a component.
    edges : ndarray of shape (n_components, n_edges, n_points ** 2)
        Weights of the points of edges within a component.
    standard : ndarray of shape (n_points,)
        Gauss-Hermite points of the standard normal distribution, 0 where only states have points.
    roots : ndarray of shape (n_components, n_edges, 3)
        Cholesky factor of the covariance of each pair: r11, r21, r22.
    """

    points: CliquePoints
    nodes: np.ndarray
    edges: np.ndarray
    standard: np.ndarray
    roots: np.ndarray


def quadrature(mixture, edges, n_points):
    """Return quadrature points and weights of a mixture for each variable and each edge.

    Parameters
    ----------
    mixture : Mixture
        Beliefs.
    edges : ndarray of int of shape (n_edges, 2)
        Pairs of variables.
    n_points : int
        Number of Gauss-Hermite points of a continuous variable.

    Returns
    -------
    Quadrature
        Points and weights.
    """
    numeric = mixture.n_states == 0
    nodes, weights, standard = _quadrature_nodes(mixture, n_points)
    L, n, S = weights.shape
    mean, variance = _moments(mixture)
    i, j = edges.T
    cov = np.zeros((L, n, n))
    both = np.ix_(np.arange(L), mixture.numbers, mixture.numbers)
    cov[both] = mixture.covariances
    roots = _pair_roots(variance, cov[:, i, j], i, j)
    first = np.repeat(nodes[:, i], S, axis=-1)
    second = np.tile(nodes[:, j], S)
    a, b = np.repeat(standard, S), np.tile(standard, S)
    correlated = mean[:, j, None] + roots[..., 1:2] * a + roots[..., 2:3] * b
    second = np.where((numeric[i] & numeric[j])[:, None], correlated, second)
    pair_weights = (weights[:, i, :, None] * weights[:, j, None, :]).reshape(L, len(i), S * S)
    alpha = np.exp(mixture.log_weights)[:, None, None]
    points = CliquePoints(
        _concatenate_components(nodes),
        _concatenate_components(alpha * weights),
        np.stack([_concatenate_components(first), _concatenate_components(second)], axis=1).reshape(
            2 * len(i), L * S * S
        ),
        _concatenate_components(alpha * pair_weights),
    )
    return Quadrature(points, weights, pair_weights, standard, roots)


def _concatenate_components(x):
    """Reshape an array to one row per variable or edge, with the points of all components."""
    L, n, S = x.shape
    return np.ascontiguousarray(x.transpose(1, 0, 2)).reshape(n, L * S)


def _quadrature_nodes(mixture, n_points):
    """Return the quadrature points and weights of each variable under each component."""
    numeric = mixture.n_states == 0
    n_slots = mixture.tables.shape[2] if (~numeric).any() else 0
    x, w = _gauss_hermite(n_points) if numeric.any() else (np.zeros(0), np.zeros(0))
    S = max(len(x), n_slots)
    x, w = (np.concatenate([v, np.zeros(S - len(v))]) for v in (x, w))
    L, n = mixture.n_components, len(numeric)
    nodes, weights = np.zeros((L, n, S)), np.zeros((L, n, S))
    mean, variance = _moments(mixture)
    nodes[:, numeric] = mean[:, numeric, None] + np.sqrt(variance[:, numeric, None]) * x
    weights[:, numeric] = w
    for d, i in enumerate(mixture.discrete):
        q = mixture.n_states[i]
        nodes[:, i, :q] = np.arange(q)
        weights[:, i, :q] = mixture.tables[:, d, :q]
    return nodes, weights, x


@lru_cache(maxsize=32)
def _gauss_hermite(n_points):
    """Return the Gauss-Hermite points and weights of the standard normal distribution."""
    x, w = np.polynomial.hermite_e.hermegauss(n_points)
    return x, w / w.sum()


def _moments(mixture):
    """Return mean and variance of each variable under each component of a mixture.

    Discrete variables have mean 0 and variance 1.
    """
    L, n = mixture.n_components, len(mixture.n_states)
    mean, variance = np.zeros((L, n)), np.ones((L, n))
    mean[:, mixture.numbers] = mixture.means
    variance[:, mixture.numbers] = np.diagonal(mixture.covariances, axis1=1, axis2=2)
    return mean, variance


def _pair_roots(variance, covariance, i, j):
    first = np.sqrt(variance[:, i])
    low = covariance / first
    return np.stack([first, low, np.sqrt(np.maximum(variance[:, j] - low**2, TINY))], axis=-1)


def integrate(mixture, edges, grid, node_values, edge_values):
    """Return the expectations of a sum of functions of single variables and of edges.

    Parameters
    ----------
    mixture : Mixture
        Beliefs.
    edges : ndarray of int of shape (n_edges, 2)
        Pairs of variables.
    grid : Quadrature
        Points, from :func:`quadrature`.
    node_values : ndarray
        Values of the functions of variables at ``grid.points.nodes``.
    edge_values : ndarray
        Values of the functions of edges at ``grid.points.edges``.

    Returns
    -------
    Expectations
        Expectations under each component.
    """
    L, n, S = grid.nodes.shape
    nodes = node_values.reshape(n, L, S).transpose(1, 0, 2).astype(float)
    total = _integrate_nodes(mixture, grid, nodes)
    if len(edges):
        pairs = edge_values.reshape(len(edges), L, S, S).transpose(1, 0, 2, 3).astype(float)
        _add_edges(total, _integrate_edges(grid, pairs), edges, mixture.n_states, grid.roots)
        total = total._replace(values=total.values + _edge_total(grid, pairs))
    return total


def _integrate_nodes(mixture, grid, v):
    numeric, x = mixture.n_states == 0, grid.standard
    weighted = grid.nodes * v
    deviations = np.sqrt(np.diagonal(mixture.covariances, axis1=1, axis2=2))
    curvatures = np.zeros_like(mixture.covariances)
    here = np.arange(deviations.shape[1])
    curvatures[:, here, here] = (weighted @ (x * x - 1.0))[:, numeric] / deviations**2
    return Expectations(
        weighted.sum(axis=(1, 2)),
        (weighted @ x)[:, numeric] / deviations,
        curvatures,
        v[:, ~numeric, : mixture.tables.shape[2]].copy(),
    )


def _edge_total(grid, v):
    return (grid.edges * v.reshape(grid.edges.shape)).sum(axis=(1, 2))


class _EdgeMoments(NamedTuple):
    """Expectations of edge functions times standard normal variables, under each component."""

    first: np.ndarray
    second: np.ndarray
    first_first: np.ndarray
    second_second: np.ndarray
    mixed: np.ndarray
    gains: tuple


def _integrate_edges(grid, v):
    weights = grid.edges.reshape(v.shape)
    weighted, x = weights * v, grid.standard
    rows, columns = weighted.sum(axis=3), weighted.sum(axis=2)
    first, second = weights.sum(axis=3), weights.sum(axis=2)
    return _EdgeMoments(
        rows @ x,
        columns @ x,
        rows @ (x * x - 1.0),
        columns @ (x * x - 1.0),
        (weighted @ x) @ x,
        ((second[:, :, None] * v).sum(axis=3), (first[..., None] * v).sum(axis=2)),
    )


def _add_edges(total, moments, edges, n_states, roots):
    """Add the expected derivatives of edge functions to the expectations of all variables.

    With R the Cholesky factor of a pair's covariance, the slope is R^-T m and the curvature
    R^-T M R^-1 for the moments m, M of the standard normals.
    """
    numeric = n_states == 0
    place = np.where(numeric, np.cumsum(numeric), np.cumsum(~numeric)) - 1
    i, j = edges.T
    both = numeric[i] & numeric[j]
    r11, r21, r22 = np.moveaxis(roots, -1, 0)
    low = np.where(both, r21 / r22, 0.0)
    second, m22 = moments.second / r22, moments.second_second / r22**2
    first = (moments.first - low * moments.second) / r11
    m12 = (moments.mixed - low * moments.second_second) / (r11 * r22)
    m11 = moments.first_first - 2 * low * moments.mixed + low**2 * moments.second_second
    k = np.arange(len(roots))[:, None]
    for end, slope, curvature in ((i, first, m11 / r11**2), (j, second, m22)):
        here = numeric[end]
        at = place[end[here]]
        np.add.at(total.slopes, (k, at), slope[:, here])
        np.add.at(total.curvatures, (k, at, at), curvature[:, here])
    a, b = place[i[both]], place[j[both]]
    np.add.at(total.curvatures, (k, a, b), m12[:, both])
    np.add.at(total.curvatures, (k, b, a), m12[:, both])
    for end, gain in zip((i, j), moments.gains, strict=True):
        here = ~numeric[end]
        np.add.at(total.gains, (k, place[end[here]]), gain[:, here, : total.gains.shape[2]])


class ConditionalMoments:
    """Conditional expectations of the missing numbers of rows under each component.

    They follow from the precision matrices of all numbers, so that a row needs only the Cholesky
    factor of a matrix of its missing numbers. If no row has missing numbers, no precision matrix is
    computed.

    Parameters
    ----------
    mixture : Mixture
        Mixture of the rows.
    X : ndarray of shape (n_rows, n_numbers)
        Numbers of the rows, with nan for missing ones.
    pattern, masks : ndarray
        Results of :func:`.mixtures.missing_patterns` for these rows. There can be further patterns.

    Attributes
    ----------
    means : ndarray of shape (n_components, n_rows, n_numbers)
        Numbers, with conditional means for missing ones.
    squares : ndarray of shape (n_components, n_rows)
        Squared Mahalanobis distances of the observed numbers.
    log_densities : ndarray of shape (n_components, n_rows)
        Log-densities of the observed numbers in nats.
    """

    def __init__(self, mixture, X, pattern, masks):
        X = np.ascontiguousarray(X)  # kernels are compiled for this order
        is_missing, shape = np.isnan(X), (mixture.n_components, *X.shape)
        self._pattern, self._masks, self._precisions = pattern, masks, []
        self._shapes, self._is_complete = mixture.shapes, not is_missing.any()
        self.means = np.broadcast_to(X, shape) if self._is_complete else np.empty(shape)
        n_observed = (~is_missing).sum(axis=1)
        self.squares, log_dets = np.zeros((2, *shape[:2]))
        for members, factors in self._shapes:
            means, covariance = mixture.means[members], mixture.covariances[members[0]]
            root = np.linalg.cholesky(covariance)
            if self._is_complete:
                rows, centers = _whiten(X, root), _whiten(means, root)
                found = np.stack([np.square(rows - c[:, None]).sum(axis=0) for c in centers.T])
            else:
                found, log_dets[members] = self._complete(X, members, means, root)
            self.squares[members] = found / factors[:, None]
            log_dets[members] += 0.5 * n_observed * np.log(factors)[:, None]
            log_dets[members] += np.log(np.diag(root)).sum()
        self.log_densities = -0.5 * (self.squares + LOG_2PI * n_observed) - log_dets

    def _complete(self, X, members, means, root):
        """Complete the rows for components with one covariance, whose root is given.

        Squares and log-determinants are returned.
        """
        shape, whitening = (len(members), *X.shape), dtrtri(root.T)[0].T
        rows = np.where(np.isnan(X), 0.0, X - means[:, None]).reshape(-1, X.shape[1])
        precision = whitening.T @ whitening  # this form has no negative pivots
        self._precisions.append(precision)
        products, log_dets = rows @ precision, np.zeros(len(rows))
        squares = np.einsum("rj,rj->r", products, rows)
        pattern = np.tile(self._pattern, len(members))
        args = pattern, np.argsort(pattern, kind="stable"), precision, products, rows
        gaussians.complete_deviations(read_only(self._masks), *args, squares, log_dets)
        self.means[members] = rows.reshape(shape) + means[:, None]
        return squares.reshape(shape[:2]), log_dets.reshape(shape[:2])

    def find_variances(self, weights):
        """Return the conditional variances of each row.

        Parameters
        ----------
        weights : ndarray of shape (n_components, n_rows)
            Weights of the rows. The variances of missing-value patterns with weight 0 are 0.

        Returns
        -------
        ndarray of shape (n_components, n_rows, n_numbers)
            Variances of missing numbers; 0 for observed ones.
        """
        variances = np.zeros(self.means.shape)
        for members, factors, found, _ in self._find_covariances(weights):
            variances[members] = factors * found[self._pattern]
        return variances

    def _find_covariances(self, weights):
        """Yield variances of patterns, and sums of covariances, of groups of components."""
        if self._is_complete:
            return
        n_patterns, p = self._masks.shape
        for (members, factors), precision in zip(self._shapes, self._precisions, strict=True):
            totals = [np.bincount(self._pattern, weights[k], n_patterns) for k in members]
            found, out = np.zeros((n_patterns, p)), np.zeros((len(members), p, p))
            args = precision, np.array(totals), found, out
            gaussians.sum_conditional_covariances(read_only(self._masks), *args)
            yield members, factors[:, None, None], found, out

    def find_moments(self, resp, scaled):
        """Return the weighted sums of the first and second moments of the rows.

        Parameters
        ----------
        resp : ndarray of shape (n_components, n_rows)
            Weights of the rows. Negligible ones count as 0.
        scaled : ndarray of shape (n_components, n_rows)
            Weights of the rows divided by the factors of their covariances.

        Returns
        -------
        first : ndarray of shape (n_components, n_numbers)
        second : ndarray of shape (n_components, n_numbers, n_numbers)
        """
        is_used = resp > MIN_RESPONSIBILITY * resp.sum(axis=0)
        weights, scaled = np.where(is_used, resp, 0.0), np.where(is_used, scaled, 0.0)
        first = np.zeros((len(resp), self.means.shape[2]))
        second = np.zeros((*first.shape, first.shape[1]))
        for members, factors, _, out in self._find_covariances(weights):
            second[members] = factors * out
        for k, (w, rows) in enumerate(zip(scaled, self.means, strict=True)):
            used = np.flatnonzero(w)
            if 2 * len(used) < len(w):
                w, rows = w[used], rows[used]
            first[k] = w @ rows
            second[k] += (rows.T * w) @ rows
        return first, second


def _whiten(rows, root):
    """Return the products of an inverse Cholesky factor and rows, which become columns."""
    if len(root) <= MAX_INVERSE:
        return dtrtri(root.T)[0].T @ rows.T if len(root) else rows.T
    return dtrsm(1.0, root.T, rows.T, trans_a=1)


def joint_log_densities(mixture, rows, patterns, indicators=None, here=slice(None)):
    """Return the log-density of each row and component, and the completions of the rows.

    Parameters
    ----------
    mixture : Mixture
        Mixture of the rows.
    rows : MixtureRows
        Rows.
    patterns : tuple of two ndarrays
        Missing-value patterns of the rows, ``rows.patterns``.
    indicators : ndarray, optional
        Result of ``rows.indicators()``. With it, the computation is faster.
    here : slice, default=slice(None)
        Rows that are used.

    Returns
    -------
    logs : ndarray of shape (n_components, n_rows)
        Joint log-densities of components and observed entries in nats.
    moments : ConditionalMoments
        Conditional expectations of the missing numbers.
    """
    if indicators is None:
        logs = mixture.table_log_densities(rows.X[here])
    else:
        sizes = mixture.n_states[mixture.discrete, None]
        tables = mixture.tables[:, np.arange(mixture.tables.shape[2]) < sizes]
        logs = np.log(np.maximum(tables, TINY)) @ indicators[here].T  # per component
    pattern, masks = patterns
    moments = ConditionalMoments(mixture, rows.numbers[here], pattern[here], masks)
    return logs + mixture.log_weights[:, None] + moments.log_densities, moments


def are_coarse(cells, mixture):
    """Return whether a component can be so narrow that its density varies in a cell."""
    if cells is None:
        return False
    variances = np.diagonal(mixture.roots, axis1=1, axis2=2).min(axis=0) ** 2
    return bool((12.0 * cells.noise > MAX_FINE * variances).any())


def take_cells(cells, rows):
    """Return the cells of some of the rows."""
    return cells._make([*(part[rows] for part in cells[:3]), *cells[3:]])


def component_log_densities(mixture, X, cells):
    """Return the log-density of each row under each component, averaged over cells of rounding."""
    logs, numbers = mixture.table_log_densities(X), np.ascontiguousarray(X[:, mixture.numbers])
    pattern, _ = missing_patterns(numbers)
    args = numbers, pattern, np.argsort(pattern, kind="stable")
    for members, factors in mixture.shapes:
        found = np.empty((len(members), len(X)))
        moments = mixture.means[members], factors, read_only(mixture.covariances[members[0]])
        gaussians.cell_log_densities(*args, *moments, *cells, found)
        logs[members] += found
    return logs


def row_log_densities(mixture, rows):
    """Return the log-density of each row, averaged over the cells of its rounded numbers.

    ``rows`` has the attributes ``X`` and ``cells``, as in ``MixtureRows``.
    """
    X, cells = rows.X, rows.cells
    if not are_coarse(cells, mixture):
        return mixture.log_density(X)
    out, n_blocks = np.empty(len(X)), -(-len(X) * mixture.n_components // MAX_BLOCK)
    for here in equal_slices(len(X), n_blocks):
        logs = component_log_densities(mixture, X[here], take_cells(cells, here))
        out[here] = logsumexp_along(logs + mixture.log_weights[:, None])
    return out
