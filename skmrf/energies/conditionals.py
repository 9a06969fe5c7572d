"""Arrays from which Gibbs kernels compute ``p(x_i | rest)``."""

from typing import NamedTuple

import numpy as np


class TableConditionals(NamedTuple):
    """Cliques of any order over variables of any number of states.

    ``var_ptr``, ``var_clique`` and ``var_stride`` list the cliques of every variable and its
    stride in their tables; the rest is as in :class:`~skmrf.energies.layout.Layout`.

    Parameters
    ----------
    flat, n_states, clique_ptr, clique_vars, strides, table_start : ndarray
        As of :class:`~skmrf.energies.layout.Layout`.
    var_ptr : ndarray of int of shape (n_variables + 1,)
        Where the cliques of every variable start in the two that follow.
    var_clique, var_stride : ndarray of int of shape (sum of the orders of the cliques,)
    """

    flat: np.ndarray
    n_states: np.ndarray
    clique_ptr: np.ndarray
    clique_vars: np.ndarray
    strides: np.ndarray
    table_start: np.ndarray
    var_ptr: np.ndarray
    var_clique: np.ndarray
    var_stride: np.ndarray


class BinaryConditionals(NamedTuple):
    """Binary pairwise: ``log f = constant + bias'x + x' coupling x / 2`` for x in {0, 1}.

    ``logit p(x_i = 1 | rest) = bias_i + (coupling x)_i``; ``coupling`` is symmetric with a zero
    diagonal. A variable of one state is always 0 and its bias is far below zero.

    Parameters
    ----------
    coupling : ndarray of shape (n_variables, n_variables)
    bias : ndarray of shape (n_variables,)
    constant : float
        In nats, as are the others.
    """

    coupling: np.ndarray
    bias: np.ndarray
    constant: float


class BipartiteConditionals(NamedTuple):
    """Two layers of two-state units, each independent given the other.

    ``logit p(h_j = 1 | v) = (v weights + hidden_bias)_j`` and
    ``logit p(v_i = 1 | h) = (h weights' + visible_bias)_i``. The biases have shape (1, n_units), or
    (n_chains, n_units) where every chain has its own.

    Parameters
    ----------
    weights : ndarray of shape (n_visible, n_hidden)
    visible_bias : ndarray of shape (1, n_visible) or (n_chains, n_visible)
    hidden_bias : ndarray of shape (1, n_hidden) or (n_chains, n_hidden)
    """

    weights: np.ndarray
    visible_bias: np.ndarray
    hidden_bias: np.ndarray


def bias_rows(bias, n_rows):
    """A bias as a matrix: one row, or one for each of ``n_rows`` states."""
    bias = np.atleast_2d(bias)
    if len(bias) not in (1, n_rows):
        raise ValueError(f"There are biases for {len(bias)} rows of states, but {n_rows} rows.")
    return bias


def bias_sums(states, bias):
    """Sum of the biases of the units that are 1, of every row of states."""
    return states @ bias[0] if len(bias) == 1 else np.einsum("ij,ij->i", states, bias)
