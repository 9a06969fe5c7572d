"""Arrays of model parameters from which Gibbs sampling computes ``p(x_i | rest)``."""

from typing import NamedTuple

import numpy as np

from .._utils.namespaces import is_numpy


class TableConditionals(NamedTuple):
    """Arrays for Gibbs sampling of a factor graph, with cliques and state spaces of any size.

    The cliques of variable ``i`` are ``var_clique[var_ptr[i]:var_ptr[i + 1]]``.
    :class:`~skmrf.energies.layout.Layout` explains how tables are stored.

    Parameters
    ----------
    flat : ndarray of shape (n_parameters,)
        Log-potentials of all tables, in nats.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.
    clique_ptr : ndarray of int of shape (n_cliques + 1,)
        Start of each clique in ``clique_vars`` and ``strides``, and the end of the last one.
    clique_vars : ndarray of int of shape (sum of the orders of the cliques,)
        Variables of all cliques, one clique after the other.
    strides : ndarray of int of shape (sum of the orders of the cliques,)
        Stride of each of these variables in the table of its clique.
    table_start : ndarray of int of shape (n_cliques,)
        Position of the first entry of each clique's table in ``flat``.
    var_ptr : ndarray of int of shape (n_variables + 1,)
        Start of each variable in ``var_clique`` and ``var_stride``, and the end of the last one.
    var_clique : ndarray of int of shape (sum of the orders of the cliques,)
        Cliques of all variables, one variable after the other.
    var_stride : ndarray of int of shape (sum of the orders of the cliques,)
        Stride of the variable in the table of each of these cliques.
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
    """Arrays for Gibbs sampling of a binary pairwise model: couplings, biases and constant.

    The conditionals are ``logit p(x_i = 1 | rest) = bias_i + (coupling x)_i``. A variable with one
    state is always 0; its bias is far below zero.

    Parameters
    ----------
    coupling : ndarray of shape (n_variables, n_variables)
        Symmetric couplings with a zero diagonal, in nats.
    bias : ndarray of shape (n_variables,)
        Biases, in nats.
    constant : float
        Log-potential of the state of zeros, in nats.
    """

    coupling: np.ndarray
    bias: np.ndarray
    constant: float


class StateConditionals(NamedTuple):
    """Arrays for Gibbs sampling of tables of one or two variables, as a matrix over all states.

    The arrays have one entry per state of each variable, one variable after the other. For a state
    s of variable i, ``log p(x_i = s | rest)`` is ``bias_s`` plus the sum of ``coupling`` between s
    and the states of the other variables, up to normalisation.

    Parameters
    ----------
    coupling : ndarray of shape (n_total_states, n_total_states)
        Symmetric matrix of log-potentials of pairs of states, zero between states of one variable.
        It can have further columns of zeros.
    bias : ndarray of shape (n_total_states,)
        Log-potentials of single states, in nats.
    constant : float
        Sum of the tables of no variable, in nats.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.
    """

    coupling: np.ndarray
    bias: np.ndarray
    constant: float
    n_states: np.ndarray


class BipartiteConditionals(NamedTuple):
    """Arrays for layer-wise Gibbs sampling of a bipartite model of two-state units.

    The conditionals are ``logit p(h_j = 1 | v) = (v weights + hidden_bias)_j`` and
    ``logit p(v_i = 1 | h) = (h weights' + visible_bias)_i``. Biases with one row apply to all
    chains.

    Parameters
    ----------
    weights : ndarray of shape (n_visible, n_hidden)
        Weights between visible and hidden units.
    visible_bias : ndarray of shape (1, n_visible) or (n_chains, n_visible)
        Biases of the visible units, for all chains or for each chain.
    hidden_bias : ndarray of shape (1, n_hidden) or (n_chains, n_hidden)
        Biases of the hidden units, for all chains or for each chain.
    """

    weights: np.ndarray
    visible_bias: np.ndarray
    hidden_bias: np.ndarray


class CoupledLayerConditionals(NamedTuple):
    """Arrays for Gibbs sampling of coupled visible variables and a layer of hidden units.

    All variables have the codes 0 and 1. The conditionals are
    ``logit p(h_j = 1 | v) = (v weights + hidden_bias)_j`` and
    ``logit p(v_i = 1 | rest) = (v coupling + h weights' + visible_bias)_i``.

    Parameters
    ----------
    coupling : ndarray of shape (n_visible, n_visible)
        Symmetric couplings between visible variables with a zero diagonal, in nats.
    weights : ndarray of shape (n_visible, n_hidden)
        Weights between visible variables and hidden units, in nats.
    visible_bias : ndarray of shape (n_visible,)
        Biases of the visible variables, in nats.
    hidden_bias : ndarray of shape (n_hidden,)
        Biases of the hidden units, in nats.
    constant : float
        Log-potential of the state of zeros, in nats.
    """

    coupling: np.ndarray
    weights: np.ndarray
    visible_bias: np.ndarray
    hidden_bias: np.ndarray
    constant: float


def as_matrix(bias):
    """Return biases as a matrix, with one row if they are the same for all rows of states."""
    return bias[None] if bias.ndim == 1 else bias


def bias_rows(bias, n_rows):
    """Return the biases as a matrix: one row for all rows of states, or one for each."""
    bias = as_matrix(bias)
    if len(bias) not in (1, n_rows):
        raise ValueError(
            f"The biases have {len(bias)} rows, but the states have {n_rows} rows; give one row of "
            "biases, or one for each row of states."
        )
    return bias


def bias_sums(states, bias):
    """Return, for each row of states, the sum of the biases of the units that are 1."""
    if len(bias) == 1:
        return states @ bias[0]
    return np.einsum("ij,ij->i", states, bias) if is_numpy(states) else (states * bias).sum(axis=1)
