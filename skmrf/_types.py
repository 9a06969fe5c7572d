"""Values that pass between rooms: batches, phases, results, log-domain weights.

States of discrete variables are integer codes ``0 .. q - 1`` of dtype :data:`STATE`;
:data:`MISSING` marks an entry that was not observed. Everything logarithmic is in nats.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

STATE = np.dtype(np.int16)
MISSING = -1
MAX_STATES = int(np.iinfo(STATE).max)

Theta = dict[str, np.ndarray]


class Batch(NamedTuple):
    """Rows that one gradient step sees.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes, MISSING where not observed; of a conditional model the inputs, any numbers.
    Y : ndarray of shape (n_rows, n_variables) or None
        State codes of the targets of a conditional model.
    log_weights : ndarray of shape (n_rows,) or None
        Log sample weights; None means equal weights.
    rows : ndarray of shape (n_rows,) or None
        Row numbers in the training data, so that what a learner keeps for a row persists.
    epoch, step : int
        For schedules.
    """

    X: np.ndarray
    Y: np.ndarray | None = None
    log_weights: np.ndarray | None = None
    rows: np.ndarray | None = None
    epoch: int = 0
    step: int = 0

    @property
    def shown(self):
        """What the model is of: the targets of a conditional model, else the rows."""
        return self.X if self.Y is None else self.Y

    def take(self, which):
        """The batch of some rows, given by an index or a mask."""
        parts = (self.X, self.Y, self.log_weights, self.rows)
        return Batch(*(None if p is None else p[which] for p in parts), self.epoch, self.step)


class States(NamedTuple):
    """A phase given by weighted states: data, chains, particles or maximisers."""

    visible: np.ndarray
    hidden: np.ndarray | None = None
    log_weights: np.ndarray | None = None


class CliqueMoments(NamedTuple):
    """A phase given by expected statistics, one array for every array of theta."""

    moments: Theta


class CliquePoints(NamedTuple):
    """A phase given by weighted points for every variable and edge, as of quadrature.

    Attributes
    ----------
    nodes, node_weights : ndarray of shape (n_variables, n_node_points)
        Numbers, or states as numbers.
    edges : ndarray of shape (2 n_edges, n_edge_points)
        Two rows for every edge.
    edge_weights : ndarray of shape (n_edges, n_edge_points)
    """

    nodes: np.ndarray
    node_weights: np.ndarray
    edges: np.ndarray
    edge_weights: np.ndarray


class UnitMoments(NamedTuple):
    """A phase of a bipartite model, given by the expected units of every row.

    Attributes
    ----------
    visible : ndarray of shape (n_rows, n_visible)
    hidden : ndarray of shape (n_rows, n_hidden)
    pairs : ndarray of shape (n_visible, n_hidden)
        Mean over rows of the expected products.
    """

    visible: np.ndarray
    hidden: np.ndarray
    pairs: np.ndarray


@dataclass(frozen=True)
class LogPartition:
    """Log partition function in nats, with what it is worth.

    Attributes
    ----------
    value : float
    std_error : float
        Standard error of the estimate; 0 for an exact value, nan where nothing is drawn.
    lower, upper : float
        Equal to ``value`` when exact, one-sided 97.5% limits of what is drawn; bounds of "trw" and
        "mean-field"; infinite where the method has none.
    upper_is_bound : bool
        Whether ``upper`` bounds from above (with its confidence) or is only an estimate.
    method : str
    converged : bool
        False when the interval is wider than asked for, or iterations ended before their limit.
    ess : float
        Effective sample size behind the estimate; infinite for an exact value, nan where nothing
        is drawn.
    """

    value: float
    std_error: float
    lower: float
    upper: float
    upper_is_bound: bool
    method: str
    converged: bool
    ess: float = np.inf

    def __float__(self):
        return float(self.value)


@dataclass(frozen=True)
class Marginals:
    """Marginal probabilities, with how they were obtained.

    Attributes
    ----------
    single : list of ndarray of shape (n_states_i,)
    cliques : list of ndarray, each shaped like the table of its clique
    converged : bool
    residual : float
    n_iter : int
    method : str
    """

    single: list[np.ndarray]
    cliques: list[np.ndarray]
    converged: bool
    residual: float
    n_iter: int
    method: str


@dataclass(frozen=True)
class Assignment:
    """A joint state and its unnormalised log-probability.

    Attributes
    ----------
    states : ndarray of shape (n_variables,), state codes
    log_potential : float
    optimal : bool
        Whether it is proved to be a maximiser.
    method : str
    """

    states: np.ndarray
    log_potential: float
    optimal: bool
    method: str


@dataclass
class History:
    """Diagnostics by epoch; every column has one entry an epoch."""

    columns: dict[str, list] = field(default_factory=dict)

    def append(self, row: dict[str, Any]):
        """Add one epoch; a column that starts late is padded with nan."""
        length = max((len(c) for c in self.columns.values()), default=0)
        for name in row:
            self.columns.setdefault(name, [np.nan] * length)
        for name, column in self.columns.items():
            column.append(row.get(name, np.nan))


class Latest(float):
    """A diagnostic of which the history of an epoch keeps the last value, not the mean."""


def identity_of(estimator):
    """Class and parameters, for telling whether a state belongs to an estimator like this one."""
    if not hasattr(estimator, "get_params"):
        return type(estimator).__name__
    return type(estimator).__name__, repr(sorted(estimator.get_params().items()))


def dense_rows(X):
    """Rows as an array, also those of a sparse matrix."""
    return X.toarray() if hasattr(X, "toarray") else X


def distinct_rows(rows):
    """Numbers of the first of equal rows, and which of these each row equals."""
    if rows.shape[1] == 0:
        return np.zeros(min(len(rows), 1), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    rows = np.ascontiguousarray(rows)
    view = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, which = np.unique(view, return_index=True, return_inverse=True)
    return first, which


def logsumexp(log_weights):
    """Log of the sum of exponentials; -inf for an empty sum or all -inf."""
    top = np.max(log_weights, initial=-np.inf)
    if not np.isfinite(top):
        return float(top)
    return float(top + np.log(np.sum(np.exp(log_weights - top))))


def log_mean_exp(log_weights):
    """Log of the mean of exponentials."""
    return logsumexp(log_weights) - np.log(len(log_weights))


def normalized_weights(log_weights, n):
    """Weights that sum to one; equal ones for ``None``. All -inf gives zeros."""
    if log_weights is None:
        return np.full(n, 1.0 / max(n, 1))
    total = logsumexp(log_weights)
    if total == -np.inf:
        return np.zeros(n)
    return np.exp(np.asarray(log_weights) - total)


def effective_sample_size(log_weights):
    """Kish's effective sample size, in [1, n]; 0 when all weights are zero."""
    log_weights = np.asarray(log_weights, dtype=float)
    top = log_weights.max(initial=-np.inf)
    if top == -np.inf:
        return 0.0
    weights = np.exp(log_weights - top)
    ess = weights.sum() ** 2 / (weights @ weights)
    return float(np.clip(ess, 1.0, len(weights)))  # rounding may leave the interval
