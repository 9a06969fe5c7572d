r"""Belief propagation between two layers with matrix products, as in Ping and Ihler.

This is a readable form of :func:`skmrf.variational.bipartite.propagate` for one row. Messages are
probabilities ``M``, which round to 1 if a logit exceeds 36 (17 in float32). So weights must be
small.

References
----------
W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured prediction", AISTATS
2017. Section 5 and Appendix B, with (13) to (18) corrected: ``1 - M`` is multiplied by the belief
in state 1.
"""

import numpy as np

from skmrf.variational.bipartite import UnitBeliefs


def sigmoid(logits):
    """Return the probability of state 1."""
    return 1 / (1 + np.exp(-logits))


def logit(p):
    """Return the log odds."""
    return np.log(p) - np.log(1 - p)


def messages(weights, received, belief):
    """Return the messages ``M[i, j]`` from units j to units i, equations (13) and (14).

    ``received[j, i]`` are the messages from units i to units j.
    """
    one = (1 - received).T * belief
    zero = received.T * (1 - belief)
    return sigmoid(np.log((np.exp(weights) * one + zero) / (one + zero)))


def max_messages(weights, received, belief):
    """Return the messages of :func:`messages` with maxima instead of sums."""
    one = (1 - received).T * belief
    zero = received.T * (1 - belief)
    ratio = np.maximum(np.exp(weights) * one, zero) / np.maximum(one, zero)
    return sigmoid(np.log(ratio))


def hard_messages(weights, _, belief):
    """Return the messages from units that are in their more probable state, equation (15)."""
    return sigmoid(weights * (belief > 0.5))


TO_VISIBLE = {"sum": messages, "max": max_messages, "mixed": messages}
TO_HIDDEN = {"sum": messages, "max": max_messages, "mixed": hard_messages}


def propagate_matrices(
    weights, visible_field, hidden_field, *, product="sum", max_iter=100, tol=1e-3
):
    """Run belief propagation between two layers by Algorithm 1 of the paper.

    Parameters
    ----------
    weights : ndarray of shape (n_visible, n_hidden)
        Weights.
    visible_field : ndarray of shape (n_visible,)
        Biases of the visible units.
    hidden_field : ndarray of shape (n_hidden,)
        Biases of the hidden units.
    product : {"sum", "max", "mixed"}
        Kind of messages.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Largest change of a belief at which the iterations stop.

    Returns
    -------
    UnitBeliefs
        Beliefs of one row.
    """
    half = weights.dtype.type(0.5)
    to_visible = np.full_like(weights, half)
    to_hidden = np.full_like(weights.T, half)
    visible, hidden = visible_field, hidden_field
    n_iter, change = 0, np.inf
    while n_iter < max_iter and change > tol:
        before = sigmoid(visible)
        to_visible = TO_VISIBLE[product](weights, to_hidden, sigmoid(hidden))
        visible = visible_field + logit(to_visible).sum(axis=1)  # (16)
        to_hidden = TO_HIDDEN[product](weights.T, to_visible, sigmoid(visible))
        hidden = hidden_field + logit(to_hidden).sum(axis=1)  # (17)
        change = np.abs(sigmoid(visible) - before).max() if n_iter else 1.0
        n_iter += 1
    pairs = pair_beliefs(weights, to_visible, to_hidden, visible, hidden)
    converged, n_iter = np.array([change <= tol]), np.array([n_iter])
    return UnitBeliefs(visible[None], hidden[None], pairs, converged, n_iter)


def pair_beliefs(weights, to_visible, to_hidden, visible, hidden):
    """Return the probabilities that a visible and a hidden unit are both 1, equation (18)."""
    v, h = sigmoid(visible), sigmoid(hidden)
    to_hidden = to_hidden.T
    both = np.exp(weights) * np.outer(v, h) * (1 - to_visible) * (1 - to_hidden)
    only_hidden = np.outer(1 - v, h) * to_visible * (1 - to_hidden)
    only_visible = np.outer(v, 1 - h) * (1 - to_visible) * to_hidden
    neither = np.outer(1 - v, 1 - h) * to_visible * to_hidden
    return both / (both + only_hidden + only_visible + neither)
