"""Energy of two layers of two-state units given real inputs (conditional RBM)."""

import numpy as np

from .._kernels.layers import unit_means
from .._utils.batch import Batch
from .._utils.codes import STATE
from .._utils.phases import UnitMoments
from .._utils.rows import float_type
from .bipartite import BipartiteEnergy
from .protocols import ConditionalLayeredEnergy

NAMES = "weights", "visible_inputs", "hidden_inputs", "visible_bias", "hidden_bias"


class ConditionalBipartiteEnergy(ConditionalLayeredEnergy):
    r"""Bipartite energy of visible and hidden units in {0, 1} given inputs x.

    .. math:: \log f(v, h | x) = v^\top W^{vh} h + v^\top W^{vx} x + h^\top W^{hx} x
        + v^\top b^v + h^\top b^h

    Given x it is a :class:`~skmrf.energies.BipartiteEnergy` with the weights :math:`W^{vh}` and the
    fields :math:`b^v + W^{vx} x` and :math:`b^h + W^{hx} x` for biases. Without hidden units it is
    logistic regression of every output.

    Parameters
    ----------
    weights : array-like of shape (n_visible, n_hidden)
        :math:`W^{vh}`. All arithmetic is in float32 where it is, else in float64.
    visible_inputs : array-like of shape (n_inputs, n_visible)
        Transpose of :math:`W^{vx}`.
    hidden_inputs : array-like of shape (n_inputs, n_hidden)
        Transpose of :math:`W^{hx}`.
    visible_bias : array-like of shape (n_visible,)
    hidden_bias : array-like of shape (n_hidden,)

    Attributes
    ----------
    theta : dict of these arrays by name

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf.energies import ConditionalBipartiteEnergy
    >>> energy = ConditionalBipartiteEnergy([[1.0]], [[2.0]], [[0.5]], [0.0], [-1.0])
    >>> visible, hidden = energy.fields(np.array([[1.0], [0.0]]))
    >>> visible.ravel(), hidden.ravel()
    (array([2., 0.]), array([-0.5, -1. ]))
    """

    has_latent = True

    def __init__(self, weights, visible_inputs, hidden_inputs, visible_bias, hidden_bias):
        dtype = float_type(weights)
        arrays = weights, visible_inputs, hidden_inputs, visible_bias, hidden_bias
        self.theta = {name: np.array(a, dtype=dtype) for name, a in zip(NAMES, arrays, strict=True)}
        n_visible, n_hidden = self.theta["visible_bias"].size, self.theta["hidden_bias"].size
        n_inputs = len(np.atleast_1d(self.theta["visible_inputs"]))
        wanted = (n_visible, n_hidden), (n_inputs, n_visible), (n_inputs, n_hidden)
        for name, shape in zip(NAMES, (*wanted, (n_visible,), (n_hidden,)), strict=True):
            if self.theta[name].shape != shape:
                raise ValueError(f"{name} must be of shape {shape}; got {self.theta[name].shape}.")
            if not np.isfinite(self.theta[name]).all():
                raise ValueError(f"{name} must be finite.")

    def __repr__(self):
        n_visible, n_hidden = self.weights.shape
        return (
            f"ConditionalBipartiteEnergy(n_inputs={len(self.theta['visible_inputs'])}, "
            f"n_visible={n_visible}, n_hidden={n_hidden})"
        )

    @property
    def weights(self):
        """W between visible and hidden units, shape (n_visible, n_hidden)."""
        return self.theta["weights"]

    @property
    def visible_states(self):
        """Two for every visible unit."""
        return np.full(self.weights.shape[0], 2)

    def with_theta(self, theta):
        """The same energy with other parameters; ``theta`` is not copied."""
        energy = ConditionalBipartiteEnergy.__new__(ConditionalBipartiteEnergy)
        energy.theta = theta
        return energy

    def fields(self, X):
        """What inputs and biases give to visible and to hidden units, one row an instance.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_rows, n_inputs)

        Returns
        -------
        visible : ndarray of shape (n_rows, n_visible)
        hidden : ndarray of shape (n_rows, n_hidden)
        """
        visible = X.astype(self.weights.dtype, copy=False) @ self.theta["visible_inputs"]
        visible += self.theta["visible_bias"]
        return visible, self._hidden_fields(X)

    def _hidden_fields(self, X):
        hidden = X.astype(self.weights.dtype, copy=False) @ self.theta["hidden_inputs"]
        hidden += self.theta["hidden_bias"]
        return hidden

    def at(self, batch):
        """The ``BipartiteEnergy`` of the rows of a batch, each with biases of its own."""
        visible, hidden = self.fields(batch.X)
        theta = {"weights": self.weights, "visible_bias": visible, "hidden_bias": hidden}
        return BipartiteEnergy.from_theta(theta)

    def log_potential(self, X):
        X = np.asarray(X)
        n_inputs = len(self.theta["visible_inputs"])
        inputs, states = X[:, :n_inputs], X[:, n_inputs:]
        return self.at(Batch(inputs)).log_potential(states.astype(STATE))

    def condition(self, x):
        """The ``BipartiteEnergy`` given the inputs of one row, shape (n_inputs,)."""
        visible, hidden = self.fields(np.asarray(x)[None])
        return BipartiteEnergy(self.weights, visible[0], hidden[0])

    def gradient(self, positive, negative, batch):
        """``E_positive[d log f] - E_negative[d log f]``, means over the rows of a batch.

        Parameters
        ----------
        positive, negative : States or UnitMoments
            Rows of units, one for every row of the batch. ``States`` without hidden units
            stand for their means given the visible ones. Rows count alike.
        batch : Batch

        Returns
        -------
        dict of str to ndarray
            Shaped like theta.
        """
        n = self.weights.dtype.type(1.0 / batch.X.shape[0])
        X = batch.X.astype(self.weights.dtype, copy=False)
        (V, H), (U, G) = self._units(positive, batch), self._units(negative, batch)
        pairs = V.T @ (H * n)
        pairs -= negative.pairs if isinstance(negative, UnitMoments) else U.T @ (G * n)
        visible, hidden = (V - U) * n, (H - G) * n
        return {
            "weights": pairs,
            "visible_inputs": X.T @ visible,
            "hidden_inputs": X.T @ hidden,
            "visible_bias": visible.sum(axis=0),
            "hidden_bias": hidden.sum(axis=0),
        }

    def _units(self, phase, batch):
        visible = np.asarray(phase.visible).astype(self.weights.dtype, copy=False)
        if phase.hidden is not None:
            return visible, np.asarray(phase.hidden).astype(self.weights.dtype, copy=False)
        hidden = visible @ self.weights
        unit_means(hidden, self._hidden_fields(batch.X), hidden)
        return visible, hidden

    def penalty_groups(self):
        """A group is what a hidden unit has with outputs, or with inputs, or an output with inputs.

        Groups are numbered within their array.
        """
        n_visible, n_hidden = self.weights.shape
        n_inputs = len(self.theta["visible_inputs"])
        hidden, visible = np.arange(n_hidden), np.arange(n_visible)
        return {
            "weights": np.broadcast_to(hidden, (n_visible, n_hidden)),
            "visible_inputs": np.broadcast_to(visible, (n_inputs, n_visible)),
            "hidden_inputs": np.broadcast_to(hidden, (n_inputs, n_hidden)),
            "visible_bias": np.full(n_visible, -1),
            "hidden_bias": np.full(n_hidden, -1),
        }
