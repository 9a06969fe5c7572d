"""Tests of quadrature for mixture beliefs."""

import numpy as np
import pytest
from mixture_potentials import mixture_of, neural
from numpy.testing import assert_allclose

from skmrf.variational.free_energy import Rule, free_energy, integrate, quadrature

KINDS = np.array([0, 0, 5, 0, 2])  # more states than points of the smallest rule
EDGES = np.array([(0, 1), (3, 0), (0, 2), (4, 1), (2, 4), (3, 1)])


def polynomials(grid, rng):
    """Polynomials of variables and edges at the points of a grid, and their coefficients.

    Of a number x: a x + b x^2 + c x^3, of two: a x y + b x^2 y + g y^2, of a number and a state:
    t_s (x + x^2), of states: t_s and t_st.
    """
    nodes, edges, names = np.empty(grid.points.nodes.shape), [], []
    for i, q in enumerate(KINDS):
        x = grid.points.nodes[i]
        t = rng.normal(size=q or 3)
        nodes[i] = t[x.astype(int)] if q else t[0] * x + t[1] * x**2 + t[2] * x**3
        names.append(t)
    for e, (i, j) in enumerate(EDGES):
        x, y = grid.points.edges[2 * e : 2 * e + 2]
        t = rng.normal(size=(max(KINDS[i], 1), max(KINDS[j], 1), 3))
        s = t[x.astype(int) if KINDS[i] else 0, y.astype(int) if KINDS[j] else 0].T
        if KINDS[i] and KINDS[j]:
            value = s[0]
        elif KINDS[i] or KINDS[j]:
            z = y if KINDS[i] else x
            value = s[0] * (z + z**2)
        else:
            value = s[0] * x * y + s[1] * x**2 * y + s[2] * y**2
        edges.append(value)
        names.append(t)
    return nodes, np.array(edges), names


class Exact:
    """Expectations of :func:`polynomials` under one component, by hand."""

    def __init__(self, mixture, k):
        self.mu, self.C, self.p = np.zeros(5), np.zeros((5, 5)), [None] * 5
        numbers = np.flatnonzero(KINDS == 0)
        self.mu[numbers] = mixture.means[k]
        self.C[np.ix_(numbers, numbers)] = mixture.covariances[k]
        for d, i in enumerate(np.flatnonzero(KINDS)):
            self.p[i] = mixture.tables[k, d, : KINDS[i]]
        self.value, self.slope, self.curvature = 0.0, np.zeros(5), np.zeros((5, 5))
        self.gain = [np.zeros(q) for q in KINDS]

    def node(self, i, t):
        mu, v = self.mu[i], self.C[i, i]
        if KINDS[i]:
            self.value += self.p[i] @ t
            self.gain[i] += t
            return
        self.value += t[0] * mu + t[1] * (mu**2 + v) + t[2] * (mu**3 + 3 * mu * v)
        self.slope[i] += t[0] + 2 * t[1] * mu + 3 * t[2] * (mu**2 + v)
        self.curvature[i, i] += 2 * t[1] + 6 * t[2] * mu

    def edge(self, i, j, t):
        if KINDS[i] and KINDS[j]:
            self.value += self.p[i] @ t[..., 0] @ self.p[j]
            self.gain[i] += t[..., 0] @ self.p[j]
            self.gain[j] += self.p[i] @ t[..., 0]
        elif KINDS[i] or KINDS[j]:
            self.mixed(*((j, i) if KINDS[i] else (i, j)), t[..., 0].ravel())
        else:
            self.pair(i, j, *t.ravel())

    def mixed(self, number, state, t):
        mu, v = self.mu[number], self.C[number, number]
        mean = self.p[state] @ t
        self.value += mean * (mu + mu**2 + v)
        self.slope[number] += mean * (1 + 2 * mu)
        self.curvature[number, number] += 2 * mean
        self.gain[state] += t * (mu + mu**2 + v)

    def pair(self, i, j, a, b, g):
        (x, y), v, c = self.mu[[i, j]], self.C[i, i], self.C[i, j]
        self.value += a * (x * y + c) + b * (x**2 * y + v * y + 2 * x * c)
        self.value += g * (y**2 + self.C[j, j])
        self.slope[i] += a * y + 2 * b * (x * y + c)
        self.slope[j] += a * x + b * (x**2 + v) + 2 * g * y
        self.curvature[i, i] += 2 * b * y
        self.curvature[i, j] += a + 2 * b * x
        self.curvature[j, i] += a + 2 * b * x
        self.curvature[j, j] += 2 * g


def centred(gain):
    """Gains up to a constant."""
    return gain - gain.mean()


@pytest.mark.parametrize("n_points", [3, 4, 8])
def test_polynomials_are_exact(n_points, seed):
    rng = np.random.default_rng(seed)
    mixture = mixture_of(seed, KINDS, 3)
    grid = quadrature(mixture, EDGES, n_points)
    nodes, edges, coefficients = polynomials(grid, rng)
    found = integrate(mixture, EDGES, grid, nodes, edges)
    numbers = KINDS == 0
    for k in range(3):
        exact = Exact(mixture, k)
        for i in range(5):
            exact.node(i, coefficients[i])
        for (i, j), t in zip(EDGES, coefficients[5:], strict=True):
            exact.edge(i, j, t)
        assert_allclose(found.values[k], exact.value, rtol=1e-10, atol=1e-10)
        assert_allclose(found.slopes[k], exact.slope[numbers], rtol=1e-10, atol=1e-10)
        curvature = exact.curvature[np.ix_(numbers, numbers)]
        assert_allclose(found.curvatures[k], curvature, rtol=1e-9, atol=1e-9)
        for d, i in enumerate(np.flatnonzero(KINDS)):
            gain = found.gains[k, d, : KINDS[i]]
            assert_allclose(centred(gain), centred(exact.gain[i]), rtol=1e-10, atol=1e-10)


def test_waves_are_exact_in_the_limit(seed):
    """E sin(a x + b y) of correlated numbers, a function of no polynomial."""
    mixture = mixture_of(seed, [0, 0], 2)
    edges = np.array([(1, 0)])
    grid = quadrature(mixture, edges, 31)
    a = np.array([0.7, -1.1])
    values = np.sin(a[1] * grid.points.edges[:1] + a[0] * grid.points.edges[1:])
    found = integrate(mixture, edges, grid, np.zeros(grid.points.nodes.shape), values)
    angle = mixture.means @ a
    decay = np.exp(-0.5 * np.einsum("i,kij,j->k", a, mixture.covariances, a))
    assert_allclose(found.values, decay * np.sin(angle), atol=1e-9)
    assert_allclose(found.slopes, (decay * np.cos(angle))[:, None] * a, atol=1e-9)
    waves = -(decay * np.sin(angle))[:, None, None] * np.outer(a, a)
    assert_allclose(found.curvatures, waves, atol=1e-9)


def test_weights_of_points_sum_to_one(seed):
    mixture = mixture_of(seed, KINDS, 3)
    grid = quadrature(mixture, EDGES, 4)
    assert_allclose(grid.points.node_weights.sum(axis=1), 1.0)
    assert_allclose(grid.points.edge_weights.sum(axis=1), 1.0)
    assert (grid.points.node_weights >= 0).all()
    for i, q in enumerate(KINDS):
        if q:
            assert (np.isin(grid.points.nodes[i], np.arange(q))).all()


def test_no_edges(seed):
    mixture = mixture_of(seed, [0, 3], 2)
    energy = neural(seed, [0, 3], [])
    value, terms = free_energy(energy, mixture, Rule(9))
    assert np.isfinite(value)
    assert terms.curvatures.shape == (2, 1, 1)
