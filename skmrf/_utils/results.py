"""Result types: log partition function, marginals, most probable state, training history."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .namespaces import is_numpy


@dataclass(frozen=True)
class LogPartition:
    """Log partition function with an uncertainty interval and the method that computed it.

    Attributes
    ----------
    value : float
        Log partition function, or its estimate, in nats.
    std_error : float
        Standard error of the estimate, in nats; 0 for an exact value, nan if the method draws no
        samples.
    lower : float
        Lower end of the interval, in nats. It equals ``value`` if the value is exact. If the method
        draws samples, it is a one-sided 97.5% confidence limit. It is a lower bound for
        "mean-field", and minus infinity if the method has no lower limit.
    upper : float
        Upper end of the interval, in nats. It equals ``value`` if the value is exact. If the method
        draws samples, it is a one-sided 97.5% confidence limit. It is an upper bound for "trw", and
        infinite if the method has no upper limit.
    upper_is_bound : bool
        Whether ``upper`` is an upper bound (with its confidence) and not only an estimate.
    method : str
        Name of the method.
    converged : bool
        False if the interval is wider than requested, or if the iterations stopped before
        they converged.
    ess : float
        Effective sample size of the estimate; infinite for an exact value, nan if the method draws
        no samples.
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
        """Return the log partition function in nats."""
        return float(self.value)


@dataclass(frozen=True)
class Marginals:
    """Marginal probabilities and the method that computed them.

    Attributes
    ----------
    single : list of ndarray of shape (n_states_i,)
        Marginal probabilities of each variable.
    cliques : list of ndarray
        Marginal probabilities of each clique, shaped like its table.
    converged : bool
        Whether the iterations converged.
    residual : float
        Change in the last iteration.
    n_iter : int
        Number of iterations.
    method : str
        Name of the method.
    """

    single: list[np.ndarray]
    cliques: list[np.ndarray]
    converged: bool
    residual: float
    n_iter: int
    method: str


@dataclass(frozen=True)
class Assignment:
    """Joint state of all variables, with its unnormalised log-probability.

    Attributes
    ----------
    states : ndarray of shape (n_variables,)
        State code of each variable.
    log_potential : float
        Unnormalised log-probability of the joint state, in nats.
    optimal : bool
        Whether the joint state is proved to be a most probable one.
    method : str
        Name of the method.
    """

    states: np.ndarray
    log_potential: float
    optimal: bool
    method: str


@dataclass
class History:
    """Training history: the diagnostics of each epoch.

    Attributes
    ----------
    columns : dict of str to list
        Values of each diagnostic, one per epoch.
    """

    columns: dict[str, list] = field(default_factory=dict)

    def append(self, row: dict[str, Any]):
        """Add the diagnostics of one epoch.

        Parameters
        ----------
        row : dict of str to object
            Value of each diagnostic. A diagnostic has nan in epochs without a value.
        """
        length = max((len(c) for c in self.columns.values()), default=0)
        for name in row:
            self.columns.setdefault(name, [np.nan] * length)
        for name, column in self.columns.items():
            column.append(row.get(name, np.nan))


class Latest(float):
    """Diagnostic whose last value in an epoch is stored in the history, instead of its mean.

    Parameters
    ----------
    x : float
        Value of the diagnostic.
    """

    @classmethod
    def of(cls, x):
        """Return a diagnostic of this kind from a number, or from a number of JAX."""
        return cls(x) if is_numpy(x) else LatestArray(x, _same)


class LatestArray(NamedTuple):
    """Diagnostic like :class:`Latest`, from arrays of JAX.

    A device computes it once after many updates, which saves time in each update.

    Parameters
    ----------
    arrays : jax.Array or dict of jax.Array
        Arrays of an update.
    compute : callable
        Function ``arrays -> value`` of the arrays of the last update.
    """

    arrays: Any
    compute: Callable

    @classmethod
    def share(cls, mask):
        """Return the share of True in an array of JAX, as a diagnostic of this kind."""
        return cls(mask, _mean)


def _same(x):
    return x


def _mean(x):
    return x.mean()


class Diagnostics:
    """Accumulator of the diagnostics of an epoch, which returns their means."""

    def __init__(self):
        self.count = 0
        self.sums = {}
        self.latest = {}

    def add(self, info):
        """Add the diagnostics of one parameter update."""
        self.count += 1
        for name, value in info.items():
            if isinstance(value, Latest):
                self.latest[name] = float(value)
            else:
                self.sums[name] = self.sums.get(name, 0.0) + float(value)

    def summary(self):
        """Return the mean of each diagnostic, or its last value if it is a ``Latest``."""
        return {k: v / self.count for k, v in self.sums.items()} | self.latest
