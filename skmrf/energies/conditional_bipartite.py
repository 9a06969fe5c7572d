"""Energy of two layers of two-state units given real inputs (conditional RBM)."""

import numpy as np

from .._utils.parallel import matrix_product
from .._utils.phases import UnitMoments
from .._utils.rows import Batch, float_type
from .bipartite import BipartiteEnergy
from .structured_protocols import ConditionalLayeredEnergy

NAMES = "weights", "visible_inputs", "hidden_inputs", "visible_bias", "hidden_bias"


class ConditionalBipartiteEnergy(ConditionalLayeredEnergy):
    r"""Bipartite energy of visible and hidden units in {0, 1} given inputs x.

    .. math:: \log f(v, h | x) = v^\top W^{vh} h + v^\top W^{vx} x + h^\top W^{hx} x
        + v^\top b^v + h^\top b^h

    Given x, the model is a :class:`~skmrf.energies.BipartiteEnergy` with the weights
    :math:`W^{vh}` and the biases :math:`b^v + W^{vx} x` and :math:`b^h + W^{hx} x`. Without hidden
    units, the model is one logistic regression per output.

    Parameters
    ----------
    weights : array-like of shape (n_visible, n_hidden)
        Weights :math:`W^{vh}` between visible and hidden units. If they are float32, all
        arithmetic is in float32, otherwise in float64.
    visible_inputs : array-like of shape (n_inputs, n_visible)
        Weights between inputs and visible units, the transpose of :math:`W^{vx}`.
    hidden_inputs : array-like of shape (n_inputs, n_hidden)
        Weights between inputs and hidden units, the transpose of :math:`W^{hx}`.
    visible_bias : array-like of shape (n_visible,)
        Biases :math:`b^v` of the visible units.
    hidden_bias : array-like of shape (n_hidden,)
        Biases :math:`b^h` of the hidden units.

    Attributes
    ----------
    theta : dict of str to ndarray
        The five arrays above, by the names of the parameters.
    has_latent : bool
        True: the hidden units are latent.

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
        shapes = (n_visible, n_hidden), (n_inputs, n_visible), (n_inputs, n_hidden)
        for name, shape in zip(NAMES, (*shapes, (n_visible,), (n_hidden,)), strict=True):
            if self.theta[name].shape != shape:
                raise ValueError(f"{name} must be of shape {shape}; got {self.theta[name].shape}.")
            if not np.isfinite(self.theta[name]).all():
                raise ValueError(f"{name} must be finite; it holds nan or infinite values.")

    def __repr__(self):
        """Return a summary with the numbers of inputs and units."""
        n_visible, n_hidden = self.weights.shape
        return (
            f"ConditionalBipartiteEnergy(n_inputs={len(self.theta['visible_inputs'])}, "
            f"n_visible={n_visible}, n_hidden={n_hidden})"
        )

    @property
    def weights(self):
        """Weights between visible and hidden units, shape (n_visible, n_hidden)."""
        return self.theta["weights"]

    @property
    def visible_states(self):
        """Number of states of each visible unit (2), shape (n_visible,)."""
        return np.full(self.weights.shape[0], 2)

    def with_theta(self, theta):
        """Return the same energy with other parameters, which are neither checked nor copied."""
        energy = ConditionalBipartiteEnergy.__new__(ConditionalBipartiteEnergy)
        energy.theta = theta
        return energy

    def fields(self, X):
        """Return the biases of both layers given each row of inputs.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_rows, n_inputs)
            Inputs.

        Returns
        -------
        visible : ndarray of shape (n_rows, n_visible)
            Biases of the visible units given the inputs, :math:`b^v + W^{vx} x`.
        hidden : ndarray of shape (n_rows, n_hidden)
            Biases of the hidden units given the inputs, :math:`b^h + W^{hx} x`.
        """
        visible = matrix_product(self._inputs(X), self.theta["visible_inputs"])
        visible += self.theta["visible_bias"]
        return visible, self._hidden_fields(X)

    def _hidden_fields(self, X):
        hidden = matrix_product(self._inputs(X), self.theta["hidden_inputs"])
        hidden += self.theta["hidden_bias"]
        return hidden

    def _inputs(self, X):
        return X.astype(self.weights.dtype, copy=False)

    def at(self, batch):
        """Return the distribution of the units given the inputs of each row of a batch.

        Parameters
        ----------
        batch : Batch
            Rows of the gradient step; ``batch.X`` holds the inputs.

        Returns
        -------
        BipartiteEnergy
            Energy whose biases have one row per row of the batch.
        """
        return self._given(*self.fields(batch.X))

    def _given(self, visible, hidden):
        """Return the distribution of the units with the given biases of both layers."""
        theta = {"weights": self.weights, "visible_bias": visible, "hidden_bias": hidden}
        return BipartiteEnergy.from_theta(theta)

    def log_potential(self, X):
        """Return ``log f(v, h | x)`` of each row, which holds inputs, visible and hidden states.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_inputs + n_visible + n_hidden)
            Inputs, then visible states, then hidden states.

        Returns
        -------
        ndarray of shape (n_rows,)
            Unnormalised log-probabilities in nats.
        """
        X = np.asarray(X)
        n_inputs = len(self.theta["visible_inputs"])
        inputs, states = X[:, :n_inputs], X[:, n_inputs:]
        return self.at(Batch(inputs)).log_potential(states)

    def condition(self, x):
        """Return the distribution of the units given the inputs of one row.

        Parameters
        ----------
        x : array-like of shape (n_inputs,)
            Inputs.

        Returns
        -------
        BipartiteEnergy
            Energy of the visible and hidden units given ``x``.
        """
        visible, hidden = self.fields(np.asarray(x)[None])
        return BipartiteEnergy(self.weights, visible[0], hidden[0])

    def gradient(self, positive, negative, batch):
        """Return the gradient of the log-likelihood of a batch from both expectations.

        Parameters
        ----------
        positive : States
            States of the units under the data, one row per row of the batch. If their hidden units
            are None, the means of the hidden units given the visible units are used. All rows have
            the same weight.
        negative : States or UnitMoments
            States or moments of the units under the model, one row per row of the batch.
        batch : Batch
            Rows of the gradient step; ``batch.X`` holds the inputs.

        Returns
        -------
        dict of str to ndarray
            Gradient by each parameter, shaped like ``theta``.
        """
        n = self.weights.dtype.type(1.0 / batch.X.shape[0])
        X = self._inputs(batch.X)
        (V, H), (U, G) = self._units(positive, batch), self._units(negative, batch)
        pairs = matrix_product(V.T, H * n)
        pairs -= negative.pairs if isinstance(negative, UnitMoments) else matrix_product(U.T, G * n)
        visible, hidden = (V - U) * n, (H - G) * n
        return {
            "weights": pairs,
            "visible_inputs": matrix_product(X.T, visible),
            "hidden_inputs": matrix_product(X.T, hidden),
            "visible_bias": visible.sum(axis=0),
            "hidden_bias": hidden.sum(axis=0),
        }

    def _units(self, phase, batch):
        has_hidden = phase.hidden is not None
        model = self._given(None, None if has_hidden else self._hidden_fields(batch.X))
        V = model.dense(phase.visible)
        return V, model.dense(phase.hidden) if has_hidden else model.hidden_means(V)

    def penalty_groups(self):
        """Return the penalty group of each parameter.

        There are three kinds of groups: the weights between a hidden unit and all visible units,
        the weights between a hidden unit and all inputs, and the weights between a visible unit
        and all inputs.

        Returns
        -------
        dict of str to ndarray of int
            Group numbers, shaped like ``theta``. They start at 0 in each array. Biases have -1 and
            are not penalised.
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
