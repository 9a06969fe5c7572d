"""Energy of two layers of two-state units (restricted Boltzmann machine)."""

import numpy as np
from scipy.sparse import issparse

from .._kernels._jit import read_only
from .._kernels.layers import fill_layers, softplus_sums, unit_means
from .._kernels.products import find_product
from .._utils.codes import STATE, check_evidence, check_states
from .._utils.log_weights import normalized_weights
from .._utils.namespaces import is_numpy, namespace, sigmoid
from .._utils.parallel import UNIT, count_units, equal_slices, matrix_product, run_blocks
from .._utils.phases import States
from .._utils.rows import dense_rows, float_type
from .conditionals import bias_rows, bias_sums
from .factor_graph import FactorGraph
from .structured_protocols import LayeredEnergy

CHUNK = 2048  # rows per matrix product, which bounds memory
MIN_ROWS = 64  # of a unit of parallel work
PRODUCT_WIDTH = 8  # whose multiples are fast on a GPU


class BipartiteEnergy(LayeredEnergy):
    r"""Bipartite energy of a visible and a hidden layer of units in {0, 1}.

    .. math:: \log f(v, h) = v^\top W h + c^\top v + b^\top h

    The visible units come first, then the hidden units. The hidden units are latent. The log of
    the sum over them is the negative free energy:

    .. math:: \log \sum_h f(v, h) = -F(v) = c^\top v + \sum_j \log(1 + e^{b_j + (v^\top W)_j}).

    Parameters
    ----------
    weights : array-like of shape (n_visible, n_hidden)
        Weights :math:`W` between visible and hidden units. If they are float32, all arithmetic
        is in float32, otherwise in float64.
    visible_bias : array-like of shape (n_visible,)
        Biases :math:`c` of the visible units.
    hidden_bias : array-like of shape (n_hidden,)
        Biases :math:`b` of the hidden units.

    Attributes
    ----------
    theta : dict
        ``{"weights": ndarray, "visible_bias": ndarray, "hidden_bias": ndarray}``. The biases
        passed to :meth:`with_theta` may be matrices with one row per row of states. Then
        :meth:`conditionals`, and all methods that return one value or one row per row of states,
        use row i of the biases for row i of the states.

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
                "weights must have shape (n_visible, n_hidden), visible_bias (n_visible,) and "
                f"hidden_bias (n_hidden,); got {weights.shape}, {visible_bias.shape} and "
                f"{hidden_bias.shape}."
            )
        if not all(np.isfinite(a).all() for a in (weights, visible_bias, hidden_bias)):
            raise ValueError(
                "weights and biases must be finite; for states of probability zero use a "
                "FactorGraph."
            )
        self.theta = {
            "weights": weights,
            "visible_bias": visible_bias,
            "hidden_bias": hidden_bias,
        }

    def __repr__(self):
        """Return a summary with the numbers of visible and hidden units."""
        n_visible, n_hidden = self.weights.shape
        return f"BipartiteEnergy(n_visible={n_visible}, n_hidden={n_hidden})"

    @property
    def weights(self):
        """Weights W between visible and hidden units, shape (n_visible, n_hidden)."""
        return self.theta["weights"]

    @property
    def visible_bias(self):
        """Visible biases c, shape (n_visible,), or (n_rows, n_visible) if they differ by row."""
        return self.theta["visible_bias"]

    @property
    def hidden_bias(self):
        """Hidden biases b, shape (n_hidden,), or (n_rows, n_hidden) if they differ by row."""
        return self.theta["hidden_bias"]

    @property
    def n_states(self):
        """Number of states of each unit (2), shape (n_visible + n_hidden,)."""
        return np.full(sum(self.weights.shape), 2)

    @property
    def sweep_work(self):
        """Cost of a Gibbs sweep of one chain; the unit is one draw of a variable."""
        # 0.05 ns per weight (matrix products) and 2 ns per unit, measured.
        n_visible, n_hidden = self.weights.shape
        return (0.5 * n_visible * n_hidden / 10 + 2.0 * (n_visible + n_hidden)) / 20

    @classmethod
    def from_theta(cls, theta):
        """Return the energy with the given parameters.

        Parameters
        ----------
        theta : dict of str to ndarray
            ``{"weights": ndarray, "visible_bias": ndarray, "hidden_bias": ndarray}``. The arrays
            are neither checked nor copied.

        Returns
        -------
        BipartiteEnergy
            Energy whose attribute ``theta`` is the given dict.
        """
        energy = cls.__new__(cls)
        energy.theta = theta
        return energy

    def with_theta(self, theta):
        """Return the same energy with other parameters, which are neither checked nor copied."""
        return self.from_theta(theta)

    def astype(self, dtype):
        """Return the same energy with parameters of another floating-point type.

        Parameters
        ----------
        dtype : dtype
            ``numpy.float32`` or ``numpy.float64``.

        Returns
        -------
        BipartiteEnergy
            Energy whose parameters have the given type.
        """
        return self.with_theta({k: v.astype(dtype, copy=False) for k, v in self.theta.items()})

    def dense(self, V):
        """Convert visible states to a dense array with the dtype of the parameters.

        Parameters
        ----------
        V : array-like or sparse matrix of shape (n_rows, n_visible)
            Visible states.

        Returns
        -------
        ndarray of shape (n_rows, n_visible)
            The same states.
        """
        V = dense_rows(V)
        V = np.asarray(V) if is_numpy(V) else V
        return V.astype(self.weights.dtype, copy=False)

    def hidden_means(self, V):
        """Return the probability ``p(h_j = 1 | v)`` of each hidden unit for each row.

        Parameters
        ----------
        V : array-like or sparse matrix of shape (n_rows, n_visible)
            Visible states.

        Returns
        -------
        ndarray of shape (n_rows, n_hidden)
            Probabilities that hidden units are 1.
        """
        return _unit_means(self.dense(V) @ self.weights, self.hidden_bias)

    def visible_means(self, H):
        """Return the probability ``p(v_i = 1 | h)`` of each visible unit for each row.

        Parameters
        ----------
        H : array-like of shape (n_rows, n_hidden)
            Hidden states.

        Returns
        -------
        ndarray of shape (n_rows, n_visible)
            Probabilities that visible units are 1.
        """
        return _unit_means(self.dense(H) @ self.weights.T, self.visible_bias)

    def log_potential(self, X):
        """Return ``log f(v, h)`` in nats of each row of visible and hidden states."""
        X = check_states(X, self.n_states)
        V, H = np.split(self.dense(X), [self.weights.shape[0]], axis=1)
        visible_bias, hidden_bias = self._biases(len(V))
        pairs = np.einsum("ij,ij->i", V @ self.weights, H)
        return (pairs + bias_sums(V, visible_bias) + bias_sums(H, hidden_bias)).astype(float)

    def _biases(self, n_rows):
        return bias_rows(self.visible_bias, n_rows), bias_rows(self.hidden_bias, n_rows)

    def free_energy(self, V):
        """Return the free energy ``F(v) = -log sum_h f(v, h)`` of each row of visible states.

        Parameters
        ----------
        V : array-like or sparse matrix of shape (n_rows, n_visible)
            Visible states.

        Returns
        -------
        ndarray of shape (n_rows,)
            Free energies in nats.
        """
        if not is_numpy(V):
            return -self.raised(V)(1.0)
        V = V if issparse(V) else np.asarray(V)
        out = np.empty(V.shape[0])
        biases = self._biases(len(out))
        for rows in _chunks(len(out)):
            part = self.dense(V[rows])
            visible_bias, hidden_bias = (b if len(b) == 1 else b[rows] for b in biases)
            softplus_sums(part @ self.weights, read_only(hidden_bias), 1.0, out[rows])
            out[rows] += bias_sums(part, visible_bias)
        return -out

    def raised(self, V):
        """Return a function of the inverse temperature beta: the scaled log marginal of each row.

        The function returns ``log(sum_h f(v, h) ** beta) + (beta - 1) * log(m)`` of each row, where
        m is the number of joint states of the hidden units.
        """
        V = self.dense(V)
        visible_bias, hidden_bias = self._biases(len(V))
        activation, visible_sums = V @ self.weights, bias_sums(V, visible_bias)
        log_n_latent = self.weights.shape[1] * np.log(2.0)

        def at(beta):
            out = sum_softplus(activation, hidden_bias, beta)
            return out + beta * visible_sums - (1 - beta) * log_n_latent

        return at

    def along(self, other, V):
        """Return a function of beta: the log marginals under ``interpolate(other, beta)``."""
        V = self.dense(V)
        first, last = V @ self.weights + self.hidden_bias, V @ other.weights + other.hidden_bias
        sums_first, sums_last = (bias_sums(V, e._biases(len(V))[0]) for e in (self, other))
        zero_bias = np.zeros((1, first.shape[1]), dtype=first.dtype)
        change, sums_change = last - first, sums_last - sums_first

        def at(beta):
            beta = self.weights.dtype.type(beta) if is_numpy(beta) else beta
            out = sum_softplus(first + beta * change, zero_bias, 1.0)
            return out + sums_first + beta * sums_change

        return at

    def from_layer_moments(self, pairs, visible, hidden):
        """Return the expectations of products and of units in a dict like ``theta``."""
        return {"weights": pairs, "visible_bias": visible, "hidden_bias": hidden}

    def moments(self, phase):
        """Return the expected sufficient statistics of a phase (data or model).

        The arrays have the names and shapes of ``theta``.
        """
        if not isinstance(phase, States):
            return phase.moments
        n = phase.visible.shape[0]
        weights = self.row_weights(phase)
        if not is_numpy(weights):
            return self._weighted_statistics([(phase.visible, phase.hidden, weights)])
        out = None
        for rows in _chunks(n):
            hidden = None if phase.hidden is None else phase.hidden[rows]
            part = self._weighted_statistics([(phase.visible[rows], hidden, weights[rows])])
            out = part if out is None else {name: out[name] + part[name] for name in out}
        return out

    def _weighted_statistics(self, states):
        """Sum the weighted sufficient statistics of several (visible, hidden, weights) triples.

        A unit of parallel work is an equal share of the rows of each triple.
        """
        if not is_numpy(self.weights):
            return self._joined_statistics(states[::-1])
        most = max(len(weights) for *_, weights in states)
        size = max(MIN_ROWS, UNIT // (2 * max(self.weights.size, 1)))
        n_units, ends = count_units(most / size), np.cumsum([len(w) for *_, w in states])
        layers = [np.empty((ends[-1], n), self.weights.dtype) for n in self.weights.shape]
        sums = [np.zeros((n_units, n)) for n in self.weights.shape]
        phases = []
        for state, end in zip(states, ends, strict=True):
            n = len(state[-1])
            arrays = (*self._phase_arrays(*state), *(a[end - n : end] for a in layers), *sums)
            phases.append((arrays, equal_slices(n, n_units)))

        def fill(unit):
            for arrays, parts in phases:
                fill_layers(*arrays, parts[unit].start, parts[unit].stop, unit)

        list(run_blocks(fill, [(unit,) for unit in range(n_units)], None))
        V, H = layers
        visible, hidden = (s.sum(axis=0).astype(self.weights.dtype) for s in sums)
        return {"weights": matrix_product(V.T, H), "visible_bias": visible, "hidden_bias": hidden}

    def _phase_arrays(self, visible, hidden, weights):
        """Return the arguments of the kernel that do not depend on the part of the rows."""
        dtype, n_rows = self.weights.dtype, len(weights)
        visible = dense_rows(visible)[:]
        if visible.dtype not in (np.int8, STATE):  # the kernel is compiled for few types
            visible = visible.astype(dtype, copy=False)
        bias = bias_rows(self.hidden_bias, n_rows)
        shapes = [(n_rows, n) for n in self.weights.shape]
        found = [visible.shape, shapes[1] if hidden is None else hidden.shape]
        if found != shapes:
            raise ValueError(
                f"The states of both layers must have the shapes {shapes}; got {found}."
            )
        hidden = np.empty((0, 0), dtype) if hidden is None else hidden.astype(dtype, copy=False)
        arrays = self.weights, bias, visible, hidden, weights
        return find_product(dtype), *(read_only(np.ascontiguousarray(a)) for a in arrays)

    def _joined_statistics(self, states):
        """Return the statistics of all states from one product of arrays of JAX.

        The caller passes the states of the model first. XLA joins the rows in this order when it
        computes the hidden means of both phases. The sums of both layers are a column and a row of
        the same product, because a GPU needs a longer time for separate sums.
        """
        join = namespace(self.weights).concatenate
        layers = zip(*(self._layer_states(*part[:2]) for part in states), strict=True)
        V, H, weights = map(join, (*layers, [weights for *_, weights in states]))
        weights = weights[:, None]
        (n, n_visible), n_hidden = V.shape, H.shape[1]
        ones = np.ones((n, 1), dtype=V.dtype)
        sums = _with_columns(V, ones).T @ _with_columns(H * weights, weights)
        return {
            "weights": sums[:n_visible, :n_hidden],
            "visible_bias": sums[:n_visible, n_hidden],
            "hidden_bias": sums[n_visible, :n_hidden],
        }

    def _layer_states(self, visible, hidden):
        """Return the states of both layers; hidden means replace missing hidden states."""
        V = self.dense(visible)
        return V, self.hidden_means(V) if hidden is None else self.dense(hidden)

    def gradient(self, positive, negative, batch=None):
        """Return the gradient of the log-likelihood from the data and the model expectations.

        The positive phase estimates the expectation under the data, the negative phase estimates
        the expectation under the model.
        """
        phases = (positive, 1.0), (negative, -1.0)
        if all(isinstance(p, States) and p.visible.shape[0] <= CHUNK for p, _ in phases):
            signed = [(p.visible, p.hidden, sign * self.row_weights(p)) for p, sign in phases]
            return self._weighted_statistics(signed)
        up, down = self.moments(positive), self.moments(negative)
        return {name: up[name] - down[name] for name in up}

    def row_weights(self, phase):
        """Return the normalised weights of the rows of a phase, with the dtype of the parameters.

        Parameters
        ----------
        phase : States
            Weighted states.

        Returns
        -------
        ndarray of shape (n_rows,)
            Weights that sum to one.
        """
        n = phase.visible.shape[0]
        return normalized_weights(phase.log_weights, n).astype(self.weights.dtype)

    def from_table_moments(self, flat):
        """Convert clique marginals to expected sufficient statistics, shaped like ``theta``.

        Raises
        ------
        ValueError
            If a weight is zero, because the factor graph has no pair table for it.
        """
        n_units = self.n_variables
        if not self.weights.all():
            raise ValueError(
                "Some weights are zero. The factor graph has no table for a zero weight, so its "
                "clique marginals do not give the expected statistic of this weight. Use "
                "skmrf.exact.expectations.exact_model(energy) with sparse=False."
            )
        on = flat[: 2 * n_units].reshape(-1, 2)[:, 1]
        visible, hidden = np.split(on, [self.weights.shape[0]])
        pairs = flat[2 * n_units :].reshape(-1, 4)[:, 3].reshape(self.weights.shape)
        return self.from_layer_moments(pairs, visible, hidden)

    def penalty_groups(self):
        """Return the penalty groups: the weights of each hidden unit form one group.

        Biases have the group number -1 and are not penalised.
        """
        n_visible, n_hidden = self.weights.shape
        return {
            "weights": np.broadcast_to(np.arange(n_hidden), (n_visible, n_hidden)),
            "visible_bias": np.full(n_visible, -1),
            "hidden_bias": np.full(n_hidden, -1),
        }

    def factor_graph(self):
        """Return the factor graph of the same distribution.

        Returns
        -------
        FactorGraph
            A unary table for each unit and a pair table for each non-zero weight.
        """
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
        """Return the factor graph of the unobserved units given evidence.

        Parameters
        ----------
        evidence : dict of int to int
            State code of each observed unit. Hidden units have the numbers ``n_visible`` and
            above.

        Returns
        -------
        FactorGraph
            Distribution of the other units, in their order, up to normalisation.
        """
        return self.factor_graph().condition(check_evidence(evidence, self.n_states))


def _with_columns(states, column):
    """Append one or more copies of a column, so that the width is a multiple of eight."""
    xp = namespace(states)
    n_columns = PRODUCT_WIDTH - states.shape[1] % PRODUCT_WIDTH
    columns = xp.broadcast_to(column, (len(states), n_columns))
    return xp.concatenate([states, columns], axis=1)


def _unit_means(activation, bias):
    """Return the probabilities that units are 1; a numpy ``activation`` is overwritten."""
    bias = bias_rows(bias, len(activation))
    if not is_numpy(activation):
        return sigmoid(activation + bias)
    unit_means(activation, read_only(bias), activation)
    return activation


def sum_softplus(activation, bias, beta):
    """Return the sum of ``log(1 + exp(beta * (activation + bias)))`` of each row."""
    if not is_numpy(activation):
        xp = namespace(activation)
        return xp.logaddexp(xp.asarray(beta)[..., None] * (activation + bias), 0.0).sum(axis=1)
    out = np.empty(len(activation))
    softplus_sums(activation, read_only(bias), beta, out)
    return out


def _chunks(n_rows):
    return [slice(s, s + CHUNK) for s in range(0, max(n_rows, 1), CHUNK)]
