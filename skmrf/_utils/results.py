"""Results of inference, with their uncertainty."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LogPartition:
    """Log partition function in nats, with its interval and how it was computed.

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
