"""Pseudo-likelihood: every variable given all others."""

from dataclasses import dataclass

import numpy as np

from .._kernels.pseudo import pseudo_likelihood
from .._utils.codes import MISSING
from .._utils.log_weights import normalized_weights
from .._utils.phases import CliqueMoments
from ..energies import TableEnergy
from ..energies.conditionals import BinaryConditionals
from .base import Learner, unique_rows
from .missing_entries import Completions

ROWS_A_CALL = 2**22


@dataclass
class PseudoState:
    """Distinct training rows and their weights, or chains that complete missing entries."""

    X: np.ndarray
    weights: np.ndarray
    completions: Completions | None


def site_log_likelihood(energy, X, weights=None):
    r"""Pseudo-log-likelihood of every row and the gradient of its weighted sum.

    .. math:: \sum_i \log p(x_i \mid x_{-i})

    Parameters
    ----------
    energy : FactorGraph
    X : ndarray of shape (n_rows, n_variables)
        State codes, nothing missing.
    weights : ndarray of shape (n_rows,), or None
        None leaves the gradient out.

    Returns
    -------
    values : ndarray of shape (n_rows,), nats
    gradient : ndarray of shape (n_parameters,), or None
    """
    conditionals = energy.conditionals()
    if isinstance(conditionals, BinaryConditionals):
        return _binary(energy, conditionals, X, weights)
    values = np.empty(len(X))
    gradient = np.zeros(0 if weights is None else energy.layout.n_parameters)
    row_weights = np.ones(len(X)) if weights is None else weights
    chunk = max(1, ROWS_A_CALL // max(len(conditionals.clique_vars), 1))
    for s in range(0, len(X), chunk):
        rows = slice(s, s + chunk)
        pseudo_likelihood(conditionals, X[rows], row_weights[rows], values[rows], gradient)
    return values, None if weights is None else gradient


def _binary(energy, conditionals, X, weights):
    """The same by matrix products."""
    coupling, bias, _ = conditionals
    values = np.empty(len(X))
    pair, single = np.zeros_like(coupling), np.zeros_like(bias)
    chunk = max(1, ROWS_A_CALL // X.shape[1])
    for s in range(0, len(X), chunk):
        rows = X[s : s + chunk].astype(float)
        logit = rows @ coupling + bias
        signed = np.where(rows == 1.0, logit, -logit)
        values[s : s + chunk] = -np.logaddexp(0.0, -signed).sum(axis=1)
        if weights is not None:
            p = np.exp(-np.logaddexp(0.0, -logit))
            error = (rows - p) * weights[s : s + chunk, None]
            pair += rows.T @ error
            single += error.sum(axis=0)
    if weights is None:
        return values, None
    return values, energy.binary_gradient(pair + pair.T, single)


class PseudoLikelihood(Learner):
    r"""Maximum pseudo-likelihood.

    The objective is :math:`\sum_r w_r \sum_i \log p(x_{ri} \mid x_{r,-i}; \theta)`, which needs no
    partition function. Missing entries are completed by Gibbs chains that persist by row, and
    learning is then stochastic. The two phases are only meaningful by their difference.

    References
    ----------
    J. Besag, "Statistical analysis of non-lattice data", The Statistician 24 (1975).
    """

    requires = (TableEnergy,)
    deterministic = True
    objective_takes_missing = False

    def init(self, energy, batch, rng):
        if (batch.X == MISSING).any():
            return PseudoState(batch.X[:0], np.zeros(0), Completions(batch, energy.n_states, rng))
        return PseudoState(*unique_rows(batch), None)

    def objective(self, energy, batch, state):
        """Mean pseudo-log-likelihood in nats and its gradient."""
        return self._value(energy, state.X, state.weights)

    def _value(self, energy, X, weights):
        values, gradient = site_log_likelihood(energy, X, weights)
        (name,) = energy.theta
        return float(weights @ values), {name: gradient}

    def step(self, energy, batch, state, rng):
        X = batch.X if state.completions is None else state.completions.update(energy, batch)
        weights = normalized_weights(batch.log_weights, len(X))
        value, gradient = self._value(energy, X, weights)
        nothing = {k: np.zeros_like(v) for k, v in gradient.items()}
        info = {"pseudo_log_likelihood": value}
        return CliqueMoments(gradient), CliqueMoments(nothing), state, info
