"""Maximum pseudo-likelihood."""

from dataclasses import dataclass

import numpy as np

from .._kernels.pseudo import pseudo_likelihood
from .._utils.codes import MISSING
from .._utils.log_weights import normalized_weights
from .._utils.phases import CliqueMoments
from ..energies import TableEnergy
from ..energies.conditionals import BinaryConditionals
from .base import Learner, unique_rows
from .missing_entries import GibbsImputer

CHUNK_SIZE = 2**22


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
    energy : FactorGraph
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
    values = np.empty(len(X))
    gradient = np.zeros(0 if weights is None else energy.layout.n_parameters)
    row_weights = np.ones(len(X)) if weights is None else weights
    chunk = max(1, CHUNK_SIZE // max(len(conditionals.clique_vars), 1))
    for s in range(0, len(X), chunk):
        rows = slice(s, s + chunk)
        pseudo_likelihood(conditionals, X[rows], row_weights[rows], values[rows], gradient)
    return values, None if weights is None else gradient


def _binary_log_likelihood(energy, conditionals, X, weights):
    """Compute :func:`site_log_likelihood` for a pairwise model of binary variables."""
    coupling, bias, _ = conditionals
    values = np.empty(len(X))
    pair, single = np.zeros_like(coupling), np.zeros_like(bias)
    chunk = max(1, CHUNK_SIZE // X.shape[1])
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

    The objective is :math:`\sum_r w_r \sum_i \log p(x_{ri} \mid x_{r,-i}; \theta)`, the
    log-likelihood of each variable given all others. It needs no partition function. Missing
    entries are imputed by Gibbs chains, one for each incomplete row, which persist between steps;
    training is then stochastic. A step returns two phases; only their difference has a meaning.

    References
    ----------
    J. Besag, "Statistical analysis of non-lattice data", The Statistician 24 (1975).
    """

    requires = (TableEnergy,)
    deterministic = True
    objective_takes_missing = False

    def init(self, energy, batch, rng):
        """Return the learner's initial state: distinct rows, or an imputer of missing entries."""
        if (batch.X == MISSING).any():
            return PseudoState(batch.X[:0], np.zeros(0), GibbsImputer(batch, energy.n_states, rng))
        return PseudoState(*unique_rows(batch), None)

    def objective(self, energy, batch, state):
        """Return the mean pseudo-log-likelihood of the training rows in nats and its gradient."""
        return self._evaluate(energy, state.X, state.weights)

    def _evaluate(self, energy, X, weights):
        values, gradient = site_log_likelihood(energy, X, weights)
        (name,) = energy.theta
        return float(weights @ values), {name: gradient}

    def step(self, energy, batch, state, rng):
        """Return the gradient of the pseudo-likelihood as positive phase; the negative is zero."""
        X = batch.X if state.imputer is None else state.imputer.update(energy, batch)
        weights = normalized_weights(batch.log_weights, len(X))
        value, gradient = self._evaluate(energy, X, weights)
        zeros = {k: np.zeros_like(v) for k, v in gradient.items()}
        info = {"pseudo_log_likelihood": value}
        return CliqueMoments(gradient), CliqueMoments(zeros), state, info
