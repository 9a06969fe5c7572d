"""Energy of numbers and states whose potentials are small neural networks on a Gaussian base."""

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .._kernels.networks import network_gradients, network_values
from .._utils.log_weights import normalized_weights
from .._utils.phases import CliquePoints
from .factor_graph import FactorGraph
from .protocols import ContinuousEnergy

ROWS = 4096  # at a time, so that values of all networks fit into memory
ENTRIES = 2**22  # of values of networks at a time
FAR = 1e6  # in units of the data
FIRST_OUTPUT = 0.1  # first weights of outputs, so that learning starts near the base


class Shape(NamedTuple):
    """Hidden units of the networks, layer by layer."""

    nodes: tuple
    edges: tuple


class NeuralEnergy(ContinuousEnergy):
    r"""Markov random field of numbers and states with neural-network potentials.

    .. math:: \log f(x) = \sum_i s_i \tanh n_i(x_i) + \sum_{ij} s_{ij} \tanh n_{ij}(x_i, x_j)
        - \tfrac{1}{2} (x_c - m)^\top P (x_c - m)

    over the edges :math:`ij` of a graph, with dense networks :math:`n` of SELU units and learned
    scales :math:`s`. The last term, over the numbers :math:`x_c` among the variables, is the base:
    the networks are bounded, so a positive definite :math:`P` keeps the model normalisable. States
    enter the networks one-hot.

    Parameters
    ----------
    theta : dict
        ``nodes`` of shape (n_variables, n_node_parameters) and ``edges`` of shape (n_edges,
        n_edge_parameters): a row a network, weights and biases layer by layer, then the scale.
    edges : array-like of shape (n_edges, 2)
    n_states : array-like of shape (n_variables,)
        Number of states of every variable, 0 for a number.
    shape : Shape
        Hidden units.
    mean : array-like of shape (n_numbers,)
    precision : array-like of shape (n_numbers, n_numbers)

    References
    ----------
    H. Xiong and N. Ruozzi, "General purpose MRF learning with neural network potentials", IJCAI
    2020, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf.energies import NeuralEnergy
    >>> energy = NeuralEnergy.random([0, 0, 3], [(0, 1), (1, 2)], precision=np.eye(2),
    ...                              random_state=0)
    >>> energy.log_potential(np.array([[0.1, -0.3, 2.0]])).shape
    (1,)
    """

    def __init__(self, theta, edges, n_states, shape, mean, precision):
        self.theta = theta
        self.edges = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
        self.n_states = np.asarray(n_states, dtype=np.int64)
        self.shape = Shape(*(tuple(layers) for layers in shape))
        self.mean = np.asarray(mean, dtype=float)
        self.precision = np.asarray(precision, dtype=float)
        self._check()

    def _check(self):
        n = len(self.n_states)
        if len(self.edges) and not (self.edges.min() >= 0 and self.edges.max() < n):
            raise ValueError(f"edges must join variables 0 to {n - 1}; got {self.edges.tolist()}.")
        if (self.edges[:, 0] == self.edges[:, 1]).any():
            raise ValueError("An edge joins a variable to itself.")
        if len(np.unique(np.sort(self.edges, axis=1), axis=0)) < len(self.edges):
            raise ValueError("An edge is given twice.")
        if not all(layers and min(layers) > 0 for layers in self.shape):
            raise ValueError(f"Networks need at least one layer of hidden units; got {self.shape}.")
        wanted = {
            "nodes": (n, n_parameters(1, self.n_slots, self.shape.nodes)),
            "edges": (len(self.edges), n_parameters(2, self.n_slots, self.shape.edges)),
        }
        for name, size in wanted.items():
            if self.theta[name].shape != size:
                raise ValueError(
                    f"theta[{name!r}] must be of shape {size}; got {self.theta[name].shape}."
                )
        m = int((self.n_states == 0).sum())
        if self.mean.shape != (m,) or self.precision.shape != (m, m):
            raise ValueError(
                f"mean and precision must be of the {m} variables that are numbers; got shapes "
                f"{self.mean.shape} and {self.precision.shape}."
            )
        P = self.precision
        symmetric = np.isfinite(P).all() and np.allclose(P, P.T)
        if m and not (symmetric and np.linalg.eigvalsh(P)[0] > 0):
            raise ValueError(
                "precision must be symmetric and positive definite, or the model has no log Z."
            )

    @classmethod
    def random(
        cls,
        n_states,
        edges,
        *,
        node_layers=(8, 8),
        edge_layers=(8, 8),
        mean=None,
        precision=None,
        dtype=np.float64,
        random_state=None,
    ):
        """An energy near its base, with first weights of which SELU units keep the variance.

        Parameters
        ----------
        n_states : array-like of shape (n_variables,), 0 for a number
        edges : array-like of shape (n_edges, 2)
        node_layers, edge_layers : tuple of int
            Hidden units.
        mean, precision : array-like, optional
            Of the base; default 0 and the unit matrix.
        dtype : of the networks
        random_state : int, Generator or None

        Returns
        -------
        NeuralEnergy
        """
        rng = np.random.default_rng(random_state)
        n_states = np.asarray(n_states)
        m, n_slots = int((n_states == 0).sum()), int(max(n_states.max(initial=1), 1))
        edges = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
        theta = {
            "nodes": _first_networks(rng, len(n_states), 1, n_slots, node_layers, dtype),
            "edges": _first_networks(rng, len(edges), 2, n_slots, edge_layers, dtype),
        }
        mean = np.zeros(m) if mean is None else mean
        precision = np.eye(m) if precision is None else precision
        return cls(theta, edges, n_states, Shape(node_layers, edge_layers), mean, precision)

    def __repr__(self):
        return f"NeuralEnergy(n_variables={self.n_variables}, n_edges={len(self.edges)})"

    @cached_property
    def numbers(self):
        """Which of the variables are numbers."""
        return np.flatnonzero(self.n_states == 0)

    @cached_property
    def covariance(self):
        """Of the base, without the networks."""
        return np.linalg.inv(self.precision)

    def with_theta(self, theta):
        """The same energy with other parameters; ``theta`` is not copied."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), theta=theta)
        return other

    # Values -------------------------------------------------------------------------------

    def base(self, X):
        """The quadratic term of every row, shape (n_rows,)."""
        centred = X[:, self.numbers] - self.mean
        return -0.5 * ((centred @ self.precision) * centred).sum(axis=1)

    def log_potential(self, X):
        """``log f`` of every row, shape (n_rows,), in nats; states are codes among the numbers."""
        X = self._checked(X)
        return self.base(np.asarray(X, float)) + self.networks(X)

    def _checked(self, X):
        """Rows, of which every state is one of its variable."""
        X = np.asarray(X)
        codes = X[:, self.n_states > 0]
        legal = (codes >= 0) & (codes < self.n_states[self.n_states > 0])
        if not legal.all():
            column = np.flatnonzero(self.n_states)[np.flatnonzero(~legal.all(axis=0))[0]]
            raise ValueError(
                f"Variable {column} has the states 0 to {self.n_states[column] - 1}; got others."
            )
        return X

    def networks(self, X):
        """Sum of all networks at every row, shape (n_rows,): ``log f`` without the base."""
        step = max(1, min(ROWS, ENTRIES // max(len(self.edges), self.n_variables)))
        parts = [self._networks(X[s : s + step]) for s in range(0, len(X), step)]
        return np.concatenate([np.empty(0), *parts])

    def _networks(self, X):
        inputs = self._inputs(X.T)
        nodes = self._values("nodes", inputs, self._members("nodes", rows=True), self.n_states == 0)
        edges = self._values("edges", inputs, self._members("edges", rows=True), self.n_states == 0)
        return nodes.sum(axis=0, dtype=float) + edges.sum(axis=0, dtype=float)

    def clique_values(self, points):
        """Networks at points of their own.

        Parameters
        ----------
        points : CliquePoints

        Returns
        -------
        nodes : ndarray of shape (n_variables, n_node_points)
        edges : ndarray of shape (n_edges, n_edge_points)
            Without the quadratic term.
        """
        return tuple(
            self._values(k, self._inputs(x), self._members(k), self._numeric(k))
            for k, x in zip(("nodes", "edges"), (points.nodes, points.edges), strict=True)
        )

    def _inputs(self, x):
        x = np.minimum(np.maximum(x, -FAR), FAR)  # where units are saturated, and float32 holds
        return np.ascontiguousarray(x, dtype=self.theta["nodes"].dtype)

    def _members(self, kind, rows=False):
        """Inputs of every network: the variables themselves if points are rows."""
        if kind == "nodes":
            return np.arange(self.n_variables)[:, None]
        # Ray hands over read-only arrays, for which kernels would be compiled once more: a copy.
        return self.edges.copy() if rows else np.arange(2 * len(self.edges)).reshape(-1, 2)

    def _numeric(self, kind):
        """Which of the inputs of own points are numbers."""
        numeric = self.n_states == 0
        return numeric if kind == "nodes" else numeric[self.edges.ravel()]

    def _values(self, kind, inputs, members, numeric):
        theta = self.theta[kind]
        out = np.empty((len(theta), inputs.shape[1]), theta.dtype)
        widths = np.array(getattr(self.shape, kind))
        network_values(theta, widths, self.n_slots, inputs, ~numeric, members, out)
        return out

    # Gradients ----------------------------------------------------------------------------

    def gradient(self, positive, negative, batch=None):
        """``E_positive[d log f] - E_negative[d log f]``, each phase by its own weights."""
        gradient = {k: np.zeros_like(v) for k, v in self.theta.items()}
        rows = []
        for sign, phase in ((1.0, positive), (-1.0, negative)):
            if isinstance(phase, CliquePoints):
                self._add_points(gradient, phase, sign)
            else:
                rows.append((sign, phase))
        if rows:  # both phases in one pass
            X = np.concatenate([phase.visible for _, phase in rows])
            w = [s * normalized_weights(p.log_weights, len(p.visible)) for s, p in rows]
            self.add_gradient(X, np.concatenate(w), gradient)
        return gradient

    def add_gradient(self, X, weights, gradient):
        """Add the derivatives of the weighted sum of ``log f`` over rows; weights have any sign."""
        inputs = self._inputs(X.T)
        weights = self._inputs(weights[None])
        for kind, out in gradient.items():
            members = self._members(kind, rows=True)
            self._add(kind, inputs, members, self.n_states == 0, weights, out)

    def _add_points(self, gradient, points, sign):
        for kind, out in gradient.items():
            x, weights = getattr(points, kind), getattr(points, f"{kind[:-1]}_weights")
            weights = self._inputs(sign * weights)
            self._add(kind, self._inputs(x), self._members(kind), self._numeric(kind), weights, out)

    def _add(self, kind, inputs, members, numeric, weights, out):
        widths = np.array(getattr(self.shape, kind))
        network_gradients(
            self.theta[kind], widths, self.n_slots, inputs, ~numeric, members, weights, out
        )

    def penalty_groups(self):
        """Group number of every weight, a group a network; -1 for biases and scales."""
        groups, first = {}, 0
        for kind, k in (("nodes", 1), ("edges", 2)):
            weights = _is_weight(k, self.n_slots, getattr(self.shape, kind))
            numbers = first + np.arange(len(self.theta[kind]))[:, None]
            groups[kind] = np.where(weights, numbers, -1)
            first += len(numbers)
        return groups

    def factor_graph(self):
        """The same distribution as a :class:`FactorGraph`, where all variables are states."""
        if (self.n_states == 0).any():
            raise ValueError(
                "A model of numbers has no tables; only where all variables are states is it a "
                "factor graph."
            )
        pairs = [tuple(edge) for edge in self.edges.tolist()]
        cliques = [(i,) for i in range(self.n_variables)] + pairs
        tables = [
            self._table("nodes", i, clique) for i, clique in enumerate(cliques[: self.n_variables])
        ]
        tables += [self._table("edges", e, clique) for e, clique in enumerate(pairs)]
        return FactorGraph(self.n_states, cliques, tables)

    def _table(self, kind, c, clique):
        """Values of one network at all joint states."""
        sizes = self.n_states[list(clique)]
        states = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes))
        theta = self.theta[kind][c : c + 1]
        out = np.empty((1, states.shape[1]), theta.dtype)
        members, discrete = np.arange(len(clique))[None], np.ones(len(clique), bool)
        widths = np.array(getattr(self.shape, kind))
        network_values(theta, widths, self.n_slots, self._inputs(states), discrete, members, out)
        return out[0].reshape(sizes).astype(float)


def n_parameters(n_variables, n_slots, layers):
    """Of a network of that many variables."""
    sizes = [n_variables * n_slots, *layers, 1]
    return sum((a + 1) * b for a, b in pairwise(sizes)) + 1


def _is_weight(n_variables, n_slots, layers):
    sizes = [n_variables * n_slots, *layers, 1]
    parts = []
    for a, b in pairwise(sizes):
        parts += [np.ones(a * b, bool), np.zeros(b, bool)]
    return np.concatenate([*parts, np.zeros(1, bool)])


def _first_networks(rng, n, n_variables, n_slots, layers, dtype):
    """LeCun's first weights; biases of the first layer spread the kinks over the data."""
    sizes = [n_variables * n_slots, *layers, 1]
    fan_in = [n_variables, *layers]
    parts = []
    for k, (a, b) in enumerate(pairwise(sizes)):
        spread = FIRST_OUTPUT if k == len(layers) else 1.0
        parts.append(spread * rng.normal(size=(n, a * b)) / np.sqrt(fan_in[k]))
        parts.append(rng.uniform(-1, 1, (n, b)) if k == 0 else np.zeros((n, b)))
    return np.concatenate([*parts, np.ones((n, 1))], axis=1).astype(dtype)
