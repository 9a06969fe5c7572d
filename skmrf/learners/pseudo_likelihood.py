"""Maximum pseudo-likelihood."""

from dataclasses import dataclass

import numpy as np

from .._kernels._jit import read_only
from .._kernels.pseudo import (
    add_pair_gradient,
    binary_sites,
    pair_arrays,
    pair_sites,
    pseudo_likelihood,
)
from .._utils.log_weights import normalized_weights
from .._utils.parallel import run_blocks
from .._utils.phases import CliqueMoments
from .._utils.rows import blocks_in_memory, has_missing, unique_rows
from ..energies.conditionals import BinaryConditionals
from ..energies.table_backed import TableBackedEnergy
from .base import GibbsImputer, Learner

CHUNK_SIZE = 2**22
MIN_TILE_STATES = 160  # whose couplings to all states of a few hundred rows fit into the cache
MAX_ADDITIONS = 2**28  # in one call of a kernel, which Ctrl-C cannot end
MAX_COUPLING = 1e6  # larger couplings are not subtracted from others, because of rounding
MAX_DENSE_STATES = 4000  # of all variables; a dense coupling matrix then takes 128 MB


@dataclass
class PseudoState:
    """State of the learner PseudoLikelihood: distinct weighted rows, or an imputer of rows."""

    X: np.ndarray
    weights: np.ndarray
    imputer: GibbsImputer | None


def site_log_likelihood(energy, X, weights=None):
    r"""Return the pseudo-log-likelihood of each row, and the gradient of their weighted sum.

    .. math:: \sum_i \log p(x_i \mid x_{-i})

    Parameters
    ----------
    energy : TableBackedEnergy
        Model.
    X : ndarray of shape (n_rows, n_variables)
        State codes without missing entries.
    weights : ndarray of shape (n_rows,), or None
        Row weights of the gradient. With None, no gradient is computed.

    Returns
    -------
    values : ndarray of shape (n_rows,)
        Pseudo-log-likelihood of each row in nats.
    gradient : ndarray of shape (n_parameters,), or None
        Derivatives of the weighted sum of the values by the log-potentials.
    """
    conditionals = energy.conditionals()
    if isinstance(conditionals, BinaryConditionals):
        return _binary_log_likelihood(energy, conditionals, X, weights)
    layout = energy.layout
    if layout.is_pairwise and layout.is_dense and layout.n_states.sum() <= MAX_DENSE_STATES:
        return _pairwise_log_likelihood(energy, X, weights)
    return _table_log_likelihood(energy, energy.table_conditionals(), X, weights)


def _binary_log_likelihood(energy, conditionals, X, weights):
    """Compute :func:`site_log_likelihood` for a pairwise model of binary variables."""
    coupling, bias, _ = conditionals
    values = np.empty(len(X))
    pair, single = np.zeros_like(coupling), np.zeros_like(bias)
    row_weights = np.ones(len(X)) if weights is None else weights
    chunk = max(1, CHUNK_SIZE // X.shape[1])
    for s in range(0, len(X), chunk):
        block = slice(s, s + chunk)
        rows = X[block].astype(float)
        errors = rows @ coupling + bias
        binary_sites(rows, row_weights[block], errors, values[block])
        if weights is not None:
            pair += rows.T @ errors
            single += errors.sum(axis=0)
    if weights is None:
        return values, None
    return values, energy.binary_gradient(pair + pair.T, single)


def _pairwise_log_likelihood(energy, X, weights):
    """Compute :func:`site_log_likelihood` for a dense pairwise model, tile by tile of variables."""
    layout = energy.layout
    state_start = np.append(layout.state_start, layout.n_states.sum())
    n = state_start[-1] if weights is not None else 0
    coupling, bias = np.zeros((state_start[-1], state_start[-1])), np.zeros(state_start[-1])
    pair_arrays(read_only(energy.flat), state_start, *layout.structure, coupling, bias)
    pair, single = np.zeros((n, n)), np.zeros(n)
    states = (X + layout.state_start).astype(np.int32)
    reference = _frequent_states(states, state_start, coupling)
    row_weights = np.ones(len(X)) if weights is None else weights
    tasks = [
        (tile, states, reference, state_start, coupling, bias, row_weights, weights is not None)
        for tile in _tiles(state_start)
    ]
    values = np.zeros(len(X))
    for s, site_values, gradient, bias_gradient in run_blocks(_evaluate_tile, tasks, None):
        values += site_values
        if weights is not None:
            pair[:, s], single[s] = gradient, bias_gradient
    if weights is None:
        return values, None
    flat = np.zeros(layout.n_parameters)
    add_pair_gradient(pair, single, state_start, *layout.structure, flat)
    return values, flat


def _tiles(state_start):
    """Divide the variables into ranges with at least 160 states each, except the last one."""
    tiles, first = [], 0
    for i, start in enumerate(state_start.tolist()):
        if start - state_start[first] >= MIN_TILE_STATES or i == len(state_start) - 1 > first:
            tiles.append((first, i))
            first = i
    return tiles


def _frequent_states(states, state_start, coupling):
    """Return the row of the coupling matrix for the most frequent state of each variable.

    Couplings relative to these rows are added, so frequent states need no additions. Return -1 for
    all variables if some couplings are infinite or too large to be subtracted.
    """
    if not np.abs(coupling).max(initial=0.0) < MAX_COUPLING:
        return np.full(states.shape[1], -1, dtype=np.int32)
    counts = np.bincount(states.ravel(), minlength=state_start[-1])
    parts = np.split(counts, state_start[1:-1])
    return (state_start[:-1] + [part.argmax() for part in parts]).astype(np.int32)


def _evaluate_tile(tile, states, reference, state_start, coupling, bias, weights, with_gradient):
    """Return the log conditional probabilities of some variables and their weighted gradient."""
    starts = state_start[tile[0] : tile[1] + 1]
    columns = slice(starts[0], starts[-1])
    coupling, bias = coupling[:, columns].copy(), bias[columns].copy()
    has_reference = reference[0] >= 0
    if has_reference:
        base = coupling[reference]
        bias += base.sum(axis=0)
        coupling -= np.repeat(base, np.diff(state_start), axis=0)
    gradient = np.zeros_like(coupling if with_gradient else coupling[:0])
    values, bias_gradient = np.zeros(len(states)), np.zeros_like(bias)
    chunk = max(1, MAX_ADDITIONS // (states.shape[1] * bias.size))
    for start in range(0, len(states), chunk):
        rows = slice(start, start + chunk)
        pair_sites(
            states[rows], tile[0], reference, starts, coupling, bias, weights[rows],
            values[rows], gradient, bias_gradient,
        )  # fmt: skip
    if has_reference and with_gradient:
        gradient[reference] = bias_gradient - np.add.reduceat(gradient, state_start[:-1], axis=0)
    return columns, values, gradient, bias_gradient


def _table_log_likelihood(energy, conditionals, X, weights):
    """Compute :func:`site_log_likelihood` for a model with tables of any order."""
    values = np.empty(len(X))
    gradient = np.zeros(0 if weights is None else energy.layout.n_parameters)
    row_weights = np.ones(len(X)) if weights is None else weights
    chunk = max(1, CHUNK_SIZE // max(len(conditionals.clique_vars), 1))
    for s in range(0, len(X), chunk):
        rows = slice(s, s + chunk)
        pseudo_likelihood(conditionals, X[rows], row_weights[rows], values[rows], gradient)
    return values, None if weights is None else gradient


class PseudoLikelihood(Learner):
    r"""Maximum pseudo-likelihood.

    The objective is :math:`\sum_r w_r \sum_i \log p(x_{ri} \mid x_{r,-i}; \theta)`, the
    log-likelihood of each variable given all others. It needs no partition function. Missing
    entries are imputed by Gibbs chains, one for each incomplete row, which persist between steps;
    training is then stochastic. A step returns two phases; only their difference has a meaning.

    References
    ----------
    Besag, J., "Statistical analysis of non-lattice data", The Statistician 24 (1975).
    """

    requires = (TableBackedEnergy,)
    deterministic = True
    reads_maps = True

    def init(self, energy, batch, rng):
        """Return the learner's initial state: distinct rows, or an imputer of missing entries."""
        if has_missing(batch.X):
            return PseudoState(batch.X[:0], np.zeros(0), GibbsImputer(batch, energy.n_states, rng))
        return PseudoState(*unique_rows(batch), None)

    def objective(self, energy, batch, state):
        """Return the mean pseudo-log-likelihood of the training rows in nats and its gradient."""
        return self._evaluate(energy, state.X, state.weights)

    def _evaluate(self, energy, X, weights):
        total = gradient = 0.0
        for rows in blocks_in_memory(X):
            values, part = site_log_likelihood(energy, X[rows], weights[rows])
            total, gradient = total + float(weights[rows] @ values), gradient + part
        return total, energy.from_table_gradient(gradient)

    def step(self, energy, batch, state, rng):
        """Return the gradient of the pseudo-likelihood as positive phase; the negative is zero."""
        X = batch.X if state.imputer is None else state.imputer.update(energy, batch)
        weights = normalized_weights(batch.log_weights, len(X))
        value, gradient = self._evaluate(energy, X, weights)
        zeros = {k: np.zeros_like(v) for k, v in gradient.items()}
        info = {"pseudo_log_likelihood": value}
        return CliqueMoments(gradient), CliqueMoments(zeros), state, info
