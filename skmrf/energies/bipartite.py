"""Energy of two layers of two-state units (restricted Boltzmann machine)."""

import numpy as np
from scipy.sparse import issparse

from .._kernels.layers import softplus_sums, unit_means
from .._utils.codes import STATE, check_evidence, check_states
from .._utils.log_weights import normalized_weights
from .._utils.phases import States
from .._utils.rows import dense_rows, float_type
from .conditionals import BipartiteConditionals, bias_rows, bias_sums
from .factor_graph import FactorGraph
from .protocols import LayeredEnergy

CHUNK = 2048  # rows at once


class BipartiteEnergy(LayeredEnergy):
    r"""Bipartite energy of a visible and a hidden layer of units in {0, 1}.

    .. math:: \log f(v, h) = v^\top W h + c^\top v + b^\top h

    The variables are the visible units and then the hidden ones, which are latent: summed out,

    .. math:: \log \sum_h f(v, h) = -F(v) = c^\top v + \sum_j \log(1 + e^{b_j + (v^\top W)_j}).

    Parameters
    ----------
    weights : array-like of shape (n_visible, n_hidden)
        :math:`W`.
    visible_bias : array-like of shape (n_visible,)
        :math:`c`.
    hidden_bias : array-like of shape (n_hidden,)
        :math:`b`. All arithmetic is in float32 where ``weights`` is, else in float64.

    Attributes
    ----------
    theta : dict
        ``{"weights": ndarray, "visible_bias": ndarray, "hidden_bias": ndarray}``. Biases that
        :meth:`with_theta` is given may have a row for every row of states: then
        :meth:`conditionals` and all methods that return one value or one row for every row of
        states take each with its own.

    Examples
    --------
    >>> from skmrf.energies import BipartiteEnergy
    >>> energy = BipartiteEnergy([[1.0], [-1.0]], [0.5, 0.0], [0.0])
    >>> energy.log_potential([[1, 0, 1]])
    array([1.5])
    >>> energy.free_energy([[1, 0]]).round(4)
    array([-1.8133])
    """

    def __init__(self, weights, visible_bias, hidden_bias):
        dtype = float_type(weights)
        weights = np.array(weights, dtype=dtype)
        visible_bias = np.array(visible_bias, dtype=dtype)
        hidden_bias = np.array(hidden_bias, dtype=dtype)
        if (
            visible_bias.ndim != 1
            or hidden_bias.ndim != 1
            or weights.shape != (len(visible_bias), len(hidden_bias))
        ):
            raise ValueError(
                "weights must be (n_visible, n_hidden), visible_bias (n_visible,) and hidden_bias "
                f"(n_hidden,); got {weights.shape}, {visible_bias.shape} and {hidden_bias.shape}."
            )
        if not all(np.isfinite(a).all() for a in (weights, visible_bias, hidden_bias)):
            raise ValueError(
                "weights and biases must be finite; for zero potentials use a FactorGraph."
            )
        self.theta = {
            "weights": weights,
            "visible_bias": visible_bias,
            "hidden_bias": hidden_bias,
        }

    def __repr__(self):
        n_visible, n_hidden = self.weights.shape
        return f"BipartiteEnergy(n_visible={n_visible}, n_hidden={n_hidden})"

    @property
    def weights(self):
        """W, shape (n_visible, n_hidden)."""
        return self.theta["weights"]

    @property
    def visible_bias(self):
        """c, shape (n_visible,)."""
        return self.theta["visible_bias"]

    @property
    def hidden_bias(self):
        """b, shape (n_hidden,)."""
        return self.theta["hidden_bias"]

    @property
    def n_states(self):
        """Two states for every unit of both layers."""
        return np.full(sum(self.weights.shape), 2)

    @property
    def visible_states(self):
        return np.full(self.weights.shape[0], 2)

    @property
    def sweep_work(self):
        n_visible, n_hidden = self.weights.shape  # 0.5 ns a weight by matrix products, 2 ns a unit
        return (0.5 * n_visible * n_hidden / 10 + 2.0 * (n_visible + n_hidden)) / 20

    @classmethod
    def from_theta(cls, theta):
        """The energy of arrays as ``theta`` holds them, neither checked nor copied."""
        energy = cls.__new__(cls)
        energy.theta = theta
        return energy

    def with_theta(self, theta):
        return self.from_theta(theta)

    def astype(self, dtype):
        """The same energy in float32 or float64."""
        return self.with_theta({k: v.astype(dtype, copy=False) for k, v in self.theta.items()})

    def dense(self, V):
        """Visible states as a matrix of the parameters' type, also from a sparse matrix."""
        return np.asarray(dense_rows(V)).astype(self.weights.dtype, copy=False)

    def hidden_means(self, V):
        """``p(h_j = 1 | v)`` of every row, shape (n_rows, n_hidden)."""
        activation = self.dense(V) @ self.weights
        unit_means(activation, bias_rows(self.hidden_bias, len(activation)), activation)
        return activation

    def visible_means(self, H):
        """``p(v_i = 1 | h)`` of every row of hidden states, shape (n_rows, n_visible)."""
        activation = np.asarray(H, dtype=self.weights.dtype) @ self.weights.T
        unit_means(activation, bias_rows(self.visible_bias, len(activation)), activation)
        return activation

    def log_potential(self, X):
        X = check_states(X, self.n_states)
        V, H = np.split(self.dense(X), [self.weights.shape[0]], axis=1)
        visible_bias, hidden_bias = self._biases(len(V))
        pairs = np.einsum("ij,ij->i", V @ self.weights, H)
        return (pairs + bias_sums(V, visible_bias) + bias_sums(H, hidden_bias)).astype(float)

    def _biases(self, n_rows):
        return bias_rows(self.visible_bias, n_rows), bias_rows(self.hidden_bias, n_rows)

    def log_marginal(self, V):
        return -self.free_energy(V)

    def free_energy(self, V):
        """``F(v)`` of every row of visible states, shape (n_rows,), in nats."""
        V = V if issparse(V) else np.asarray(V)
        out = np.empty(V.shape[0])
        biases = self._biases(len(out))
        for rows in _chunks(len(out)):
            part = self.dense(V[rows])
            visible_bias, hidden_bias = (b if len(b) == 1 else b[rows] for b in biases)
            softplus_sums(part @ self.weights, hidden_bias, 1.0, out[rows])
            out[rows] += bias_sums(part, visible_bias)
        return -out

    def raised(self, V):
        V = self.dense(V)
        visible_bias, hidden_bias = self._biases(len(V))
        activation, shown = V @ self.weights, bias_sums(V, visible_bias)
        latent = self.weights.shape[1] * np.log(2.0)

        def at(beta):
            out = np.empty(len(V))
            softplus_sums(activation, hidden_bias, beta, out)
            return out + beta * shown - (1 - beta) * latent

        return at

    def along(self, other, V):
        V = self.dense(V)
        first, last = V @ self.weights + self.hidden_bias, V @ other.weights + other.hidden_bias
        shown_first, shown_last = (bias_sums(V, e._biases(len(V))[0]) for e in (self, other))
        nothing = np.zeros((1, first.shape[1]), dtype=first.dtype)
        change, shown_change = last - first, shown_last - shown_first

        def at(beta):
            out = np.empty(len(V))
            beta = self.weights.dtype.type(beta)
            softplus_sums(first + beta * change, nothing, 1.0, out)
            return out + shown_first + beta * shown_change

        return at

    def conditionals(self):
        biases = (np.atleast_2d(b) for b in (self.visible_bias, self.hidden_bias))
        return BipartiteConditionals(self.weights, *biases)

    def moments(self, phase):
        if not isinstance(phase, States):
            return phase.moments
        n = phase.visible.shape[0]
        weights = self._weights(phase)
        out = None
        for rows in _chunks(n):
            hidden = None if phase.hidden is None else phase.hidden[rows]
            part = self._signed([(phase.visible[rows], hidden, weights[rows])])
            out = part if out is None else {name: out[name] + part[name] for name in out}
        return out

    def _signed(self, states):
        """Sum of weighted statistics of (visible, hidden, weights), as one product of matrices."""
        V = [self.dense(visible) for visible, _, _ in states]
        H = [
            self.hidden_means(v) if hidden is None else np.asarray(hidden, v.dtype)
            for v, (_, hidden, _) in zip(V, states, strict=True)
        ]
        weights = np.concatenate([w for _, _, w in states])
        V, H = np.concatenate(V), np.concatenate(H)
        H *= weights[:, None]
        return {"weights": V.T @ H, "visible_bias": weights @ V, "hidden_bias": H.sum(axis=0)}

    def gradient(self, positive, negative, batch=None):
        phases = (positive, 1.0), (negative, -1.0)
        if all(isinstance(p, States) and p.visible.shape[0] <= CHUNK for p, _ in phases):
            signed = [(p.visible, p.hidden, sign * self._weights(p)) for p, sign in phases]
            return self._signed(signed)
        up, down = self.moments(positive), self.moments(negative)
        return {name: up[name] - down[name] for name in up}

    def _weights(self, phase):
        n = phase.visible.shape[0]
        return normalized_weights(phase.log_weights, n).astype(self.weights.dtype)

    def from_table_moments(self, flat):
        n_units = self.n_variables
        if not self.weights.all():
            raise ValueError(
                "The factor graph leaves out weights that are zero, so its clique marginals do not "
                "give their statistics."
            )
        on = flat[: 2 * n_units].reshape(-1, 2)[:, 1]
        visible, hidden = np.split(on, [self.weights.shape[0]])
        pairs = flat[2 * n_units :].reshape(-1, 4)[:, 3].reshape(self.weights.shape)
        return {"weights": pairs, "visible_bias": visible, "hidden_bias": hidden}

    def penalty_groups(self):
        """The weights of a hidden unit are a group."""
        n_visible, n_hidden = self.weights.shape
        return {
            "weights": np.tile(np.arange(n_hidden), (n_visible, 1)),
            "visible_bias": np.full(n_visible, -1),
            "hidden_bias": np.full(n_hidden, -1),
        }

    def complete(self, V, rng):
        """Rows of both layers: the hidden units drawn given visible states."""
        means = self.hidden_means(V)
        H = rng.random(means.shape) < means
        return np.concatenate([np.asarray(V, dtype=STATE), H.astype(STATE)], axis=1)

    def factor_graph(self):
        """Unary tables of all units and a pair table for every non-zero weight."""
        n_visible = len(self.visible_bias)
        i, j = np.nonzero(self.weights)
        cliques = [(v,) for v in range(self.n_variables)]
        cliques += list(zip(i.tolist(), (n_visible + j).tolist(), strict=True))
        biases = np.concatenate([self.visible_bias, self.hidden_bias])
        single = np.stack([np.zeros_like(biases), biases], axis=1)
        pair = np.zeros((len(i), 4), dtype=biases.dtype)
        pair[:, 3] = self.weights[i, j]
        flat = np.concatenate([single.ravel(), pair.ravel()])
        return FactorGraph(self.n_states, cliques, flat)

    def condition(self, evidence):
        """The :class:`FactorGraph` of the unobserved units given ``{unit: state code}``."""
        return self.factor_graph().condition(check_evidence(evidence, self.n_states))


def _chunks(n_rows):
    return [slice(s, s + CHUNK) for s in range(0, max(n_rows, 1), CHUNK)]
