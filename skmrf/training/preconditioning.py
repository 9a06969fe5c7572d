"""Preconditioners of training: approximate inverse Hessians, and stochastic ascent with them."""

from functools import partial
from itertools import pairwise

import numpy as np
from scipy.linalg import block_diag

from .._kernels._jit import LANES, read_only
from .._kernels.ascent import precondition_layers
from .._kernels.tables import precondition_pairs, precondition_singles
from .._utils.codes import state_columns
from .._utils.log_weights import normalized_weights
from .._utils.namespaces import (
    equal_rows,
    is_numpy,
    namespace,
    own_array,
    row_product,
    sigmoid,
    without_diagonal,
)
from .._utils.parallel import run_blocks
from .._utils.rows import count_states
from ..energies.dense_tables import find_positions
from ..energies.table_backed import TableEnergy
from .optimizers import SGD

ENTRIES_PER_UNIT = 2**17  # of tables, whose steps take about a millisecond
MAX_STATES = 64  # of a variable whose tables are centred
MIN_VARIANCE = 0.05  # relative to the largest variance; it limits the steps of rare states
MIN_PAIR_VARIANCE = 1e-3  # the same for products of two variances
COUPLING_SCALE = 0.25  # steps of couplings relative to those of weights of hidden units


class TablePreconditioner:
    r"""Approximate inverse Hessian of the pseudo-likelihood of tables of log-potentials.

    It is the inverse Hessian of a model of independent variables with the frequencies :math:`p_i`
    of the data. Tables of two variables are centred. Their log-potentials are
    :math:`\sum_{st} \theta_{ij}(s, t) (1[x_i = s] - p_i(s)) (1[x_j = t] - p_j(t))`, and their
    Hessian is :math:`2\, C_i \otimes C_j` with the covariances
    :math:`C_i = \mathrm{diag}(p_i) - p_i p_i^\top`. The Hessian of a table of one variable is
    :math:`C_i`. The second derivatives of the penalty are added to the eigenvalues. Tables of three
    and more variables, tables of variables without a table of their own, and tables of variables
    with more than 64 states are only scaled.

    Parameters
    ----------
    layout : Layout
        Cliques of the model.
    frequencies : list of ndarray
        Probabilities of the states of each variable, all greater than 0.
    curvature : float or ndarray of shape (n_parameters,)
        Second derivatives of the penalty; the same for all entries of a table.
    """

    def __init__(self, layout, frequencies, curvature):
        self.layout = layout
        self.frequencies = np.concatenate(frequencies)
        self.state_start = np.append(layout.state_start, layout.n_states.sum())
        self.curvature = np.full(layout.n_parameters, curvature, dtype=float)
        is_centred = (layout.n_states > 1) & (layout.n_states <= MAX_STATES)
        sides = -(-layout.n_states // LANES) * LANES
        sizes = np.where(is_centred, sides**2, 0)
        self.vector_start = np.where(is_centred, np.cumsum(sizes) - sizes, -1)
        self.values = np.zeros(len(self.frequencies))
        self.vectors, self.transposed = np.zeros(sizes.sum()), np.zeros(sizes.sum())
        for i in np.flatnonzero(is_centred):
            p = frequencies[i]
            values, vectors = np.linalg.eigh(np.diag(p) - np.outer(p, p))
            states = slice(self.state_start[i], self.state_start[i + 1])
            self.values[states] = np.maximum(values, 0.0)
            entries = slice(self.vector_start[i], self.vector_start[i] + sizes[i])
            padded = np.zeros((sides[i], sides[i]))
            padded[: p.size, : p.size] = vectors
            self.vectors[entries], self.transposed[entries] = padded.T.ravel(), padded.ravel()
        alone = np.flatnonzero(layout.orders == 1)[::-1]
        owner = np.full(len(layout.n_states), -1)
        owner[layout.clique_vars[layout.clique_ptr[alone]]] = alone
        self.is_centred = is_centred & (owner >= 0)
        variable, state = state_columns(layout.n_states)
        self.own_states = np.flatnonzero(self.is_centred[variable])
        own = owner[variable[self.own_states]]
        strides = layout.strides[layout.clique_ptr[own]]
        self.own_entries = layout.table_start[own] + state[self.own_states] * strides
        ends = np.cumsum(layout.table_size)
        n_units = -(-layout.table_size.sum() // ENTRIES_PER_UNIT)
        inner = np.searchsorted(ends, ENTRIES_PER_UNIT * np.arange(1, n_units))
        self.units = list(pairwise([0, *inner.tolist(), len(ends)]))

    def steps(self, theta, gradient):
        """Return the preconditioned gradient, a dict of arrays shaped like theta."""
        return {k: self(g) for k, g in gradient.items()}

    def eigenvectors(self, i):
        """Return the eigenvectors of the covariance of a centred variable, one per row."""
        q, start = self.layout.n_states[i], self.vector_start[i]
        side = -(-q // LANES) * LANES
        return self.vectors[start : start + side**2].reshape(side, side)[:q, :q]

    def __call__(self, gradient):
        """Return the approximate inverse Hessian times a vector of shape (n_parameters,)."""
        out = np.zeros(self.layout.n_parameters)
        precondition_singles(
            gradient, self.values, self.vectors, self.vector_start, self.state_start,
            self.curvature, *self.layout.structure, out,
        )  # fmt: skip
        singles = np.zeros(len(self.frequencies))
        singles[self.own_states] = gradient[self.own_entries]

        def precondition(first, last):
            moved = np.zeros_like(singles)
            precondition_pairs(
                first, last, gradient, singles, self.is_centred, self.frequencies, self.values,
                self.vectors, self.transposed, self.vector_start, self.state_start,
                self.curvature, *self.layout.structure, out, moved,
            )  # fmt: skip
            return moved

        for moved in run_blocks(precondition, self.units, None):
            out[self.own_entries] -= moved[self.own_states]
        return out


class MatrixPreconditioner:
    """The preconditioner :class:`TablePreconditioner` for a device of JAX, by products of matrices.

    The matrices have a row and a column per state of each variable (see
    ``skmrf.energies.dense_tables``).

    Parameters
    ----------
    tables : TablePreconditioner
        The preconditioner, for tables of one or two variables.

    Attributes
    ----------
    vectors : ndarray of shape (n_total_states, n_total_states)
        Eigenvectors of the covariances of the variables in its rows, in blocks on the diagonal.
    scale : ndarray of shape (n_total_states, n_total_states)
        Inverse eigenvalues of the Hessians of centred tables of pairs, zero for other pairs.
    direct_scale : ndarray of shape (n_total_states, n_total_states) or None
        Factors of the tables of pairs that are only scaled; None if there are none.
    single_scale : ndarray of shape (n_total_states,)
        Inverse eigenvalues of the Hessians of the tables of single variables.
    frequencies : ndarray of shape (n_total_states,)
        Probabilities of the states.
    positions : dict of str to ndarray
        Result of :func:`~skmrf.energies.dense_tables.find_positions`.
    """

    def __init__(self, tables):
        layout, is_centred = tables.layout, tables.is_centred
        owner, _ = state_columns(layout.n_states)
        self.positions = find_positions(layout)
        curvature = np.append(tables.curvature, 0.0)[self.positions["matrix"]]
        is_pair = self.positions["matrix"] < layout.n_parameters
        np.fill_diagonal(is_pair, False)
        is_moved = is_pair & np.logical_and.outer(is_centred[owner], is_centred[owner])
        both = np.multiply.outer(tables.values, tables.values)
        self.scale = np.where(is_moved, _inverse_or_zero(2.0 * both + curvature), 0.0)
        self.frequencies = f = tables.frequencies
        self.direct_scale = None  # of pairs that are only scaled
        if (is_pair & ~is_moved).any():
            direct = _inverse_or_zero(np.multiply.outer(f, f) + curvature)
            self.direct_scale = np.where(is_pair & ~is_moved, direct, 0.0)
        blocks = [
            tables.eigenvectors(i) if start >= 0 else np.eye(q)
            for i, (start, q) in enumerate(
                zip(tables.vector_start.tolist(), layout.n_states.tolist(), strict=True)
            )
        ]
        self.vectors = block_diag(*blocks)
        values = np.where(tables.vector_start[owner] >= 0, tables.values, f)
        self.single_scale = _inverse_or_zero(values + np.diagonal(curvature))

    def steps(self, theta, gradient):
        """Return the preconditioned gradient, a dict of arrays shaped like theta."""
        ((name, flat),) = gradient.items()
        vectors, f = self.vectors, self.frequencies
        # Rounded products would move parameters in directions that do not change the model.
        product = partial(namespace(flat).matmul, precision="highest")
        joint = flat.at[self.positions["matrix"]].get(mode="fill", fill_value=0.0)
        pairs, singles = without_diagonal(joint), joint.diagonal()
        shift = singles[:, None] * f
        moved = product(product(vectors, pairs - shift - shift.T), vectors.T)
        steps = product(product(vectors.T, self.scale * moved), vectors)
        own = product(vectors.T, self.single_scale * product(vectors, singles)) - product(steps, f)
        if self.direct_scale is not None:
            steps = steps + self.direct_scale * pairs
        total = without_diagonal(steps) + namespace(own).diag(own)
        return {name: total.ravel()[self.positions["entries"]]}


def _inverse_or_zero(values):
    """Return 1 / values, or 0 where a value (a curvature) is at most 1e-12."""
    return np.where(values > 1e-12, 1.0 / np.maximum(values, 1e-12), 0.0)


class LayerPreconditioner:
    r"""Preconditioner of two layers of units: centred gradients, scaled by visible variances.

    It is gradient ascent on the parameters of the same model with centred units,
    :math:`(v - \mu)^\top W (h - \lambda) + c^\top v + b^\top h`. Without centring, gradients of
    weights and biases are nearly parallel. The offsets are the means of the visible units in the
    data, and the means of the hidden units given them. The steps of a visible unit are divided by
    four times its variance (at least 0.05 times the largest possible one) plus the curvature of
    the penalty. A maximum of the likelihood is not moved.

    Parameters
    ----------
    means : ndarray of shape (n_visible,)
        Means of the codes 0 and 1 of the visible units.
    curvature : float
        Second derivative of the penalty by each weight.
    states : pair of float, default=(0, 1)
        Values of the visible states with the codes 0 and 1.

    References
    ----------
    J. Melchior, A. Fischer, L. Wiskott, "How to center deep Boltzmann machines", JMLR 17 (2016).
    """

    def __init__(self, means, curvature, states=(0, 1)):
        low, step = np.float32(states[0]), np.float32(states[1] - states[0])
        means = np.asarray(means, dtype=np.float32)
        variances = np.maximum(4.0 * means * (1.0 - means), MIN_VARIANCE)
        self.means = equal_rows(low + step * means)
        self.scale = 1.0 / (step**2 * variances + np.float32(curvature))

    def steps(self, theta, gradient):
        """Return the preconditioned gradient, a dict of arrays shaped like theta."""
        weights, scale = gradient["weights"], self.scale
        if is_numpy(weights):
            return self._add(np.zeros_like(weights[:1]), 1.0, theta, gradient)
        visible, hidden = gradient["visible_bias"], gradient["hidden_bias"]
        offsets = self._hidden_offsets(theta)
        weights -= self.means[0][:, None] * hidden
        weights -= visible[:, None] * offsets
        weights *= scale[:, None]
        return {
            "weights": weights,
            "visible_bias": scale * visible - weights @ offsets,
            "hidden_bias": hidden - row_product(self.means, weights),
        }

    def move(self, theta, gradient, rate):
        """Return the parameters after a step; the gradient of the weights is overwritten.

        Parameters
        ----------
        theta : dict of str to ndarray
            Parameters.
        gradient : dict of str to ndarray
            Gradient, shaped like theta.
        rate : float
            Learning rate.

        Returns
        -------
        dict of str to ndarray
            Sum of ``theta`` and the preconditioned gradient times ``rate``.
        """
        moved = self._add(theta["weights"], rate, theta, gradient)
        for name in ("visible_bias", "hidden_bias"):
            moved[name] = theta[name] + theta[name].dtype.type(rate) * moved[name]
        return moved

    def _hidden_offsets(self, theta):
        return sigmoid(theta["hidden_bias"] + row_product(self.means, theta["weights"]))

    def _add(self, weights, rate, theta, gradient):
        """Return the steps, after those of the weights are multiplied and added to ``weights``."""
        visible, hidden = gradient["visible_bias"].copy(), gradient["hidden_bias"].copy()
        steps = own_array(gradient["weights"], weights.dtype)
        offsets = self._hidden_offsets(theta)
        arrays = read_only(weights), rate, steps, visible, hidden
        precondition_layers(*arrays, self.means[0], offsets, self.scale)
        return {"weights": steps, "visible_bias": visible, "hidden_bias": hidden}


class PairPreconditioner:
    r"""Preconditioner of pairwise models of two-state variables: natural gradients.

    It is the inverse Fisher information of independent variables. Couplings are those of centred
    states :math:`s_i - m_i`, and their steps are divided by the product of two variances.

    Parameters
    ----------
    means : ndarray of shape (n_variables,)
        Means of the codes 0 and 1.
    states : pair of float
        Values of the states with the codes 0 and 1.
    curvature : float
        Second derivative of the penalty by each coupling.
    """

    def __init__(self, means, states, curvature):
        low, high = states
        variances = (high - low) ** 2 * means * (1.0 - means)
        quarter = 0.25 * (high - low) ** 2  # the largest variance
        self.means = low + (high - low) * means
        self.scale = 1.0 / np.maximum(variances, MIN_VARIANCE * quarter)
        product = np.multiply.outer(variances, variances)
        self.pair_scale = 1.0 / (np.maximum(product, MIN_PAIR_VARIANCE * quarter**2) + curvature)

    def steps(self, theta, gradient):
        """Return the preconditioned gradient, a dict of arrays shaped like theta."""
        bias = gradient["bias"]
        shift = self.means[:, None] * bias
        coupling = self.pair_scale * (gradient["coupling"] - shift - shift.T)
        coupling = without_diagonal(coupling)
        return {"coupling": coupling, "bias": self.scale * bias - coupling @ self.means}


class CoupledLayerPreconditioner:
    r"""Preconditioner of coupled visible variables and a layer of hidden units.

    It is gradient ascent on the parameters of the same model with centred units. The steps of
    weights are those of :class:`LayerPreconditioner`, the steps of couplings and visible biases
    are those of :class:`PairPreconditioner`.

    Parameters
    ----------
    means : ndarray of shape (n_visible,)
        Means of the codes 0 and 1 of the visible variables.
    states : pair of float
        Values of the visible states with the codes 0 and 1.
    curvatures : tuple of (float, float)
        Second derivatives of the penalty by each coupling and by each weight.
    """

    def __init__(self, means, states, curvatures):
        self.pairs = PairPreconditioner(means, states, curvatures[0])
        self.layers = LayerPreconditioner(means, curvatures[1], states)

    def steps(self, theta, gradient):
        """Return the preconditioned gradient, a dict of arrays shaped like theta."""
        pairs = self.pairs.steps(
            theta, {"coupling": gradient["coupling"], "bias": gradient["visible_bias"]}
        )
        layers = self.layers.steps(theta, gradient)
        own = self.layers.scale * gradient["visible_bias"]  # is in both of the steps
        kind = theta["weights"].dtype
        steps = {
            **layers,
            "coupling": COUPLING_SCALE * pairs["coupling"],
            "visible_bias": layers["visible_bias"] - own + COUPLING_SCALE * pairs["bias"],
        }
        return {k: v.astype(kind, copy=False) for k, v in steps.items()}


class PreconditionedSGD(SGD):
    r"""Stochastic gradient ascent with a preconditioner, :math:`\theta + \eta P g`.

    Parameters
    ----------
    preconditioner : object with the method ``steps(theta, gradient)``
        Approximate inverse :math:`P` of the Hessian, including the curvature of the penalty.
    """

    is_linear = False

    def __init__(self, preconditioner):
        self.preconditioner = preconditioner

    def step(self, theta, gradient, rate, state):
        """Return the updated parameters, their step sizes, and the optimizer's state."""
        if isinstance(self.preconditioner, LayerPreconditioner):
            moved = self.preconditioner.move(theta, gradient, rate)
            return moved, dict.fromkeys(theta, rate), state
        return super().step(theta, self.preconditioner.steps(theta, gradient), rate, state)

    def pure_step(self, theta, gradient, rate, state):
        """Return the result of :meth:`step` without modifying an array."""
        return super().pure_step(theta, self.preconditioner.steps(theta, gradient), rate, state)


def make_preconditioner(energy, data, penalty, min_curvature=0.0):
    """Return the preconditioner of a model, or None if the model has none.

    Parameters
    ----------
    energy : Energy
        Model to train.
    data : Batch
        All training rows.
    penalty : penalty of :mod:`skmrf.training`
        Penalty.
    min_curvature : float, default=0.0
        Smallest second derivative of the penalty that the preconditioner assumes. A larger value
        makes steps of rare states shorter.

    Returns
    -------
    TablePreconditioner or None
        Preconditioner. None unless the parameters are tables, no two tables are tied, and the
        penalty is smooth.
    """
    if not isinstance(energy, TableEnergy) or energy.layout.is_tied or not penalty.smooth:
        return None
    data = data.in_file_order()
    weights = normalized_weights(data.log_weights, len(data.X))
    counts = count_states(data.X, energy.layout.n_states, weights)
    frequencies = [_smooth(p, len(data.X)) for p in counts]
    (curvature,) = penalty.curvature(energy.theta).values()
    curvature = np.maximum(curvature, min_curvature)
    return TablePreconditioner(energy.layout, frequencies, curvature)


def _smooth(frequencies, n_rows):
    """Return the state frequencies of a column after one pseudo-count is added."""
    n_states = len(frequencies)
    return (n_rows * frequencies + 1.0 / n_states) / (n_rows * frequencies.sum() + 1.0)
