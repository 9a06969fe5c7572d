"""Energy of continuous and categorical variables: neural potentials plus a Gaussian base."""

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .._kernels._jit import read_only
from .._kernels.networks import network_gradients, network_values
from .._utils.log_weights import normalized_weights
from .._utils.phases import CliquePoints
from .factor_graph import FactorGraph
from .protocols import ContinuousEnergy

MAX_ROWS = 4096  # rows per block, so that the values of all networks fit into memory
MAX_VALUES = 2**22  # network values per block, for the same reason
MAX_INPUT = 1e6  # inputs are clipped here: units are saturated, and float32 does not overflow
INITIAL_OUTPUT_SCALE = 0.1  # of output weights, so that learning starts near the base


class Shape(NamedTuple):
    """Numbers of hidden units of the neural networks.

    Parameters
    ----------
    nodes : tuple of int
        Units of each hidden layer in the networks of variables.
    edges : tuple of int
        Units of each hidden layer in the networks of edges.
    """

    nodes: tuple
    edges: tuple


class NeuralEnergy(ContinuousEnergy):
    r"""Energy of continuous and categorical variables with neural-network potentials.

    .. math:: \log f(x) = \sum_i s_i \tanh n_i(x_i) + \sum_{ij} s_{ij} \tanh n_{ij}(x_i, x_j)
        - q(x_c)

    The sums are over the variables and over the edges :math:`ij` of a graph. The :math:`n` are
    dense networks of SELU units and the :math:`s` are learned scales. The quadratic term
    :math:`q(x_c) = \tfrac{1}{2} (x_c - m)^\top P (x_c - m)` is the Gaussian base of the continuous
    variables :math:`x_c`. The networks are bounded, so the model can be normalised if :math:`P` is
    positive definite. Categorical variables enter the networks one-hot encoded.

    Parameters
    ----------
    theta : dict of str to ndarray
        ``nodes`` of shape (n_variables, n_node_parameters) and ``edges`` of shape (n_edges,
        n_edge_parameters). Each row holds one network: the weights and biases of each layer, then
        the scale.
    edges : array-like of shape (n_edges, 2)
        Pairs of different variables. A pair may occur once only.
    n_states : array-like of shape (n_variables,)
        Number of states of each variable; 0 for a continuous variable.
    shape : Shape
        Units of each hidden layer, in the networks of variables and in those of edges.
    mean : array-like of shape (n_continuous,)
        Mean :math:`m` of the Gaussian base.
    precision : array-like of shape (n_continuous, n_continuous)
        Precision matrix :math:`P` of the Gaussian base, symmetric and positive definite.

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
        outside = self.edges[((self.edges < 0) | (self.edges >= n)).any(axis=1)]
        if len(outside):
            raise ValueError(
                f"edges must join variables 0 to {n - 1}; got the edge {outside[0].tolist()}."
            )
        loops = self.edges[self.edges[:, 0] == self.edges[:, 1]]
        if len(loops):
            raise ValueError(
                f"The edge {loops[0].tolist()} joins a variable to itself; an edge must join two "
                "different variables."
            )
        unique, counts = np.unique(np.sort(self.edges, axis=1), axis=0, return_counts=True)
        if (counts > 1).any():
            raise ValueError(
                f"The edge {unique[counts > 1][0].tolist()} is given twice; give every edge once."
            )
        if not all(layers and min(layers) > 0 for layers in self.shape):
            raise ValueError(
                "Each network needs at least one hidden layer, and each layer at least one unit; "
                f"got {self.shape}."
            )
        shapes = {
            "nodes": (n, n_parameters(1, self.n_slots, self.shape.nodes)),
            "edges": (len(self.edges), n_parameters(2, self.n_slots, self.shape.edges)),
        }
        for name, size in shapes.items():
            if self.theta[name].shape != size:
                raise ValueError(
                    f"theta[{name!r}] must be of shape {size}; got {self.theta[name].shape}."
                )
        m = int((self.n_states == 0).sum())
        if self.mean.shape != (m,) or self.precision.shape != (m, m):
            raise ValueError(
                f"There are {m} continuous variables, so mean must have shape {(m,)} and "
                f"precision {(m, m)}; got {self.mean.shape} and {self.precision.shape}."
            )
        P = self.precision
        symmetric = np.isfinite(P).all() and np.allclose(P, P.T)
        if m and not (symmetric and np.linalg.eigvalsh(P)[0] > 0):
            raise ValueError(
                "precision must be symmetric and positive definite, otherwise the model cannot be "
                "normalised."
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
        dtype="float64",
        random_state=None,
    ):
        """Create an energy with random neural networks that have small outputs.

        The initial weights have the variance with which SELU units keep the variance of their
        inputs (LeCun's initialisation).

        Parameters
        ----------
        n_states : array-like of shape (n_variables,)
            Number of states of each variable; 0 for a continuous variable.
        edges : array-like of shape (n_edges, 2)
            Pairs of different variables.
        node_layers : tuple of int, default=(8, 8)
            Units of each hidden layer in the networks of variables.
        edge_layers : tuple of int, default=(8, 8)
            Units of each hidden layer in the networks of edges.
        mean : array-like of shape (n_continuous,), optional
            Mean of the Gaussian base. By default it is zero.
        precision : array-like of shape (n_continuous, n_continuous), optional
            Precision matrix of the Gaussian base. By default it is the identity matrix.
        dtype : dtype, default="float64"
            Floating-point type of the network parameters.
        random_state : int, numpy.random.Generator or None, default=None
            Seed or generator of the initial weights.

        Returns
        -------
        NeuralEnergy
            Energy near its Gaussian base.
        """
        rng = np.random.default_rng(random_state)
        n_states = np.asarray(n_states)
        m, n_slots = int((n_states == 0).sum()), int(max(n_states.max(initial=1), 1))
        edges = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
        theta = {
            "nodes": _initial_networks(rng, len(n_states), 1, n_slots, node_layers, dtype),
            "edges": _initial_networks(rng, len(edges), 2, n_slots, edge_layers, dtype),
        }
        mean = np.zeros(m) if mean is None else mean
        precision = np.eye(m) if precision is None else precision
        return cls(theta, edges, n_states, Shape(node_layers, edge_layers), mean, precision)

    def __repr__(self):
        """Return a summary with the numbers of variables and edges."""
        return f"NeuralEnergy(n_variables={self.n_variables}, n_edges={len(self.edges)})"

    @cached_property
    def numbers(self):
        """Indices of the continuous variables, shape (n_continuous,)."""
        return np.flatnonzero(self.n_states == 0)

    @cached_property
    def covariance(self):
        """Covariance matrix of the Gaussian base, shape (n_continuous, n_continuous)."""
        return np.linalg.inv(self.precision)

    def with_theta(self, theta):
        """Return the same energy with other parameters, which are neither checked nor copied."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), theta=theta)
        return other

    # Values -------------------------------------------------------------------------------

    def base(self, X):
        """Return the log-density of each row under the Gaussian base, up to a constant.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)
            Values of continuous variables and state codes of categorical variables.

        Returns
        -------
        ndarray of shape (n_rows,)
            Quadratic term of ``log f`` in nats.
        """
        centred = X[:, self.numbers] - self.mean
        return -0.5 * ((centred @ self.precision) * centred).sum(axis=1)

    def log_potential(self, X):
        """Return ``log f`` of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_variables)
            Values of continuous variables and state codes of categorical variables.

        Returns
        -------
        ndarray of shape (n_rows,)
            Unnormalised log-probabilities in nats.
        """
        X = self._check_rows(X)
        return self.base(np.asarray(X, float)) + self.networks(X)

    def _check_rows(self, X):
        """Return the rows as an array, or raise a ValueError if a state code is out of range."""
        X = np.asarray(X)
        codes = X[:, self.n_states > 0]
        is_valid = (codes >= 0) & (codes < self.n_states[self.n_states > 0])
        if not is_valid.all():
            row, place = np.argwhere(~is_valid)[0]
            column = np.flatnonzero(self.n_states)[place]
            raise ValueError(
                f"Variable {column} has the state codes 0 to {self.n_states[column] - 1}, but row "
                f"{row} of X holds {codes[row, place]} in this column."
            )
        return X

    def networks(self, X):
        """Return the summed network outputs of each row: ``log f`` without the Gaussian base.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)
            Values of continuous variables and state codes of categorical variables.

        Returns
        -------
        ndarray of shape (n_rows,)
            Sums in nats.
        """
        step = max(1, min(MAX_ROWS, MAX_VALUES // max(len(self.edges), self.n_variables)))
        parts = [self._networks(X[s : s + step]) for s in range(0, len(X), step)]
        return np.concatenate([np.empty(0), *parts])

    def _networks(self, X):
        inputs = self._inputs(X.T)
        nodes = self._values("nodes", inputs, self._members("nodes", rows=True), self.n_states == 0)
        edges = self._values("edges", inputs, self._members("edges", rows=True), self.n_states == 0)
        return nodes.sum(axis=0, dtype=float) + edges.sum(axis=0, dtype=float)

    def clique_values(self, points):
        """Return the output of each network at given points of its variable or edge.

        Parameters
        ----------
        points : CliquePoints
            Points of each variable and of each edge.

        Returns
        -------
        nodes : ndarray of shape (n_variables, n_node_points)
            Values of the networks of variables, in nats.
        edges : ndarray of shape (n_edges, n_edge_points)
            Values of the networks of edges, in nats. Neither array contains the Gaussian base.
        """
        return tuple(
            self._values(k, self._inputs(x), self._members(k), self._is_continuous(k))
            for k, x in zip(("nodes", "edges"), (points.nodes, points.edges), strict=True)
        )

    def _inputs(self, x):
        x = np.minimum(np.maximum(x, -MAX_INPUT), MAX_INPUT)
        return np.ascontiguousarray(x, dtype=self.theta["nodes"].dtype)

    def _members(self, kind, rows=False):
        """Return, for each network, the indices of its inputs in X or in an array of points."""
        if kind == "nodes":
            return np.arange(self.n_variables)[:, None]
        # A copy: Ray passes read-only arrays, for which numba would compile the kernels again.
        return self.edges.copy() if rows else np.arange(2 * len(self.edges)).reshape(-1, 2)

    def _is_continuous(self, kind):
        """Return, for each network input, whether its variable is continuous."""
        is_continuous = self.n_states == 0
        return is_continuous if kind == "nodes" else is_continuous[self.edges.ravel()]

    def _values(self, kind, inputs, members, is_continuous):
        theta = read_only(self.theta[kind])
        out = np.empty((len(theta), inputs.shape[1]), theta.dtype)
        widths = np.array(getattr(self.shape, kind))
        network_values(theta, widths, self.n_slots, inputs, ~is_continuous, members, out)
        return out

    # Gradients ----------------------------------------------------------------------------

    def gradient(self, positive, negative, batch=None):
        """Return the gradient of the log-likelihood from the data and the model expectations.

        Parameters
        ----------
        positive : States or CliquePoints
            States or points that estimate the data-dependent expectation. The weights of a phase
            of states are normalised within the phase.
        negative : States or CliquePoints
            States or points that estimate the model-dependent expectation.
        batch : None
            Not used.

        Returns
        -------
        dict of str to ndarray
            Gradient by each parameter, shaped like ``theta``.
        """
        gradient = {k: np.zeros_like(v) for k, v in self.theta.items()}
        rows = []
        for sign, phase in ((1.0, positive), (-1.0, negative)):
            if isinstance(phase, CliquePoints):
                self._add_points(gradient, phase, sign)
            else:
                rows.append((sign, phase))
        if rows:  # one pass over both phases is faster
            X = np.concatenate([phase.visible for _, phase in rows])
            w = [s * normalized_weights(p.log_weights, len(p.visible)) for s, p in rows]
            self.add_gradient(X, np.concatenate(w), gradient)
        return gradient

    def add_gradient(self, X, weights, gradient):
        """Add the gradient of the weighted sum of ``log f`` over rows to ``gradient``.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)
            Values of continuous variables and state codes of categorical variables.
        weights : ndarray of shape (n_rows,)
            Weights of the rows, of any sign.
        gradient : dict of str to ndarray
            Gradient, shaped like ``theta``, changed in place.
        """
        inputs = self._inputs(X.T)
        weights = self._inputs(weights[None])
        for kind, out in gradient.items():
            members = self._members(kind, rows=True)
            self._add_derivatives(kind, inputs, members, self.n_states == 0, weights, out)

    def _add_points(self, gradient, points, sign):
        for kind, out in gradient.items():
            x, weights = getattr(points, kind), getattr(points, f"{kind[:-1]}_weights")
            weights = self._inputs(sign * weights)
            self._add_derivatives(
                kind, self._inputs(x), self._members(kind), self._is_continuous(kind), weights, out
            )

    def _add_derivatives(self, kind, inputs, members, is_continuous, weights, out):
        theta, widths = read_only(self.theta[kind]), np.array(getattr(self.shape, kind))
        network_gradients(
            theta, widths, self.n_slots, inputs, ~is_continuous, members, weights, out
        )

    def penalty_groups(self):
        """Return the penalty groups: the weights of each network form one group.

        Biases and scales have the group number -1 and are not penalised.
        """
        groups, n_networks = {}, 0
        for kind, k in (("nodes", 1), ("edges", 2)):
            weights = _is_weight(k, self.n_slots, getattr(self.shape, kind))
            numbers = n_networks + np.arange(len(self.theta[kind]))[:, None]
            groups[kind] = np.where(weights, numbers, -1)
            n_networks += len(numbers)
        return groups

    def factor_graph(self):
        """Return the factor graph of the same distribution.

        Returns
        -------
        FactorGraph
            A unary table for each variable and a pair table for each edge.

        Raises
        ------
        ValueError
            If a variable is continuous.
        """
        if (self.n_states == 0).any():
            raise ValueError(
                "A model with continuous variables has no tables; only a model whose variables are "
                "all categorical can be converted to a factor graph."
            )
        pairs = [tuple(edge) for edge in self.edges.tolist()]
        cliques = [(i,) for i in range(self.n_variables)] + pairs
        tables = [
            self._table("nodes", i, clique) for i, clique in enumerate(cliques[: self.n_variables])
        ]
        tables += [self._table("edges", e, clique) for e, clique in enumerate(pairs)]
        return FactorGraph(self.n_states, cliques, tables)

    def _table(self, kind, c, clique):
        """Return the values of one network at all joint states of its variables."""
        sizes = self.n_states[list(clique)]
        states = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes))
        theta = read_only(self.theta[kind][c : c + 1])
        out = np.empty((1, states.shape[1]), theta.dtype)
        members, discrete = np.arange(len(clique))[None], np.ones(len(clique), bool)
        widths = np.array(getattr(self.shape, kind))
        network_values(theta, widths, self.n_slots, self._inputs(states), discrete, members, out)
        return out[0].reshape(sizes).astype(float)


def n_parameters(n_variables, n_slots, layers):
    """Return the number of parameters of one neural network with the given layer sizes.

    Parameters
    ----------
    n_variables : int
        Number of variables that enter the network: 1 or 2.
    n_slots : int
        Number of input units per variable.
    layers : tuple of int
        Units of each hidden layer.

    Returns
    -------
    int
        Number of weights and biases, plus one for the scale.
    """
    sizes = [n_variables * n_slots, *layers, 1]
    return sum((a + 1) * b for a, b in pairwise(sizes)) + 1


def _is_weight(n_variables, n_slots, layers):
    sizes = [n_variables * n_slots, *layers, 1]
    parts = []
    for a, b in pairwise(sizes):
        parts += [np.ones(a * b, bool), np.zeros(b, bool)]
    return np.concatenate([*parts, np.zeros(1, bool)])


def _initial_networks(rng, n, n_variables, n_slots, layers, dtype):
    """Draw the initial parameters of n networks with LeCun's initialisation."""
    sizes = [n_variables * n_slots, *layers, 1]
    fan_in = [n_variables, *layers]
    parts = []
    for k, (a, b) in enumerate(pairwise(sizes)):
        scale = INITIAL_OUTPUT_SCALE if k == len(layers) else 1.0
        parts.append(scale * rng.normal(size=(n, a * b)) / np.sqrt(fan_in[k]))
        # Random biases of the first layer spread the kinks of its units over the data.
        parts.append(rng.uniform(-1, 1, (n, b)) if k == 0 else np.zeros((n, b)))
    return np.concatenate([*parts, np.ones((n, 1))], axis=1).astype(dtype)
