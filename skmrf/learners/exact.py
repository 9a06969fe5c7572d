"""Exact maximum likelihood by enumeration or variable elimination."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.codes import MISSING
from .._utils.log_weights import normalized_weights
from .._utils.namespaces import is_numpy, without_values
from .._utils.parameters import check_bytes
from .._utils.phases import CliqueMoments, States, Theta
from .._utils.rows import MappedCodes, dense_rows, has_missing, unique_rows
from ..energies import LayeredEnergy
from ..exact import elimination, expectations
from ..exact.enumeration import MAX_DEVICE_ENTRIES, LayerSum
from .base import Learner

N_COPIES = 4  # arrays of the size of a layer in all states of the other layer, on a device


@dataclass
class ExactState:
    """State of the learner Exact: the method that sums over all states, and the positive phase."""

    model: Any
    data: Any


@dataclass
class VisiblePhase:
    """Data expectation (positive phase) of all training rows; models without latent variables.

    Attributes
    ----------
    complete : dict of str to ndarray
        Weighted sum of the sufficient statistics of the complete rows, shaped like theta.
    tables : GraphTables or PairTables, or None
        Tables of the model, for the rows with missing entries; None if there are none.
    partial : list of (bucket tree, ndarray, ndarray)
        Elimination plan, distinct rows and row weights of each pattern of missing entries.
    """

    complete: Theta
    tables: Any
    partial: list

    @classmethod
    def from_batch(cls, energy, batch, max_bytes):
        """Create the positive phase: sum statistics of complete rows, group incomplete rows."""
        if isinstance(batch.X, MappedCodes):
            rows = batch.in_file_order()
            return cls(energy.row_moments(rows.X, rows.log_weights), None, [])
        X, weights = unique_rows(batch)
        full = (X != MISSING).all(axis=1)
        complete = {name: np.zeros_like(v) for name, v in energy.theta.items()}
        if full.any():
            with np.errstate(divide="ignore"):
                phase = States(X[full], None, np.log(weights[full]))
            scale = weights[full].sum()
            complete = {k: scale * v for k, v in energy.moments(phase).items()}
        if full.all():
            return cls(complete, None, [])
        tables = expectations.exact_tables(energy)
        partial = _group_by_pattern(tables.layout, X[~full], weights[~full], max_bytes)
        return cls(complete, tables, partial)

    def phase(self, energy, batch):
        """Return the data expectation and the mean unnormalised log-likelihood of all rows."""
        positive, value = self.complete, energy.mean_log_potential(self.complete)
        for plan, X, weights in self.partial:
            flat = self.tables.flat(energy)
            flat_moments, log_sums = elimination.expected_moments(plan, flat, X, weights)
            moments = self.tables.moments(energy, flat_moments)
            positive = {k: positive[k] + moments[k] for k in positive}
            value += float(weights @ log_sums)
        return CliqueMoments(positive), value


def _group_by_pattern(layout, X, weights, max_bytes):
    """Group rows by missing entries; return an elimination plan, rows and weights per group."""
    patterns, inverse = np.unique(X != MISSING, axis=0, return_inverse=True)
    groups = []
    for p, observed in enumerate(patterns):
        rows = np.flatnonzero(inverse.ravel() == p)
        plan = elimination.prepare(layout, observed, max_bytes=max_bytes)
        groups.append((plan, X[rows], weights[rows]))
    return groups


class LatentPhase:
    """Data expectation (positive phase) of a batch, with latent variables averaged out."""

    def __init__(self, batch):
        if has_missing(batch.X):
            raise ValueError(
                "Exact learning of a model with hidden units needs rows without missing entries, "
                'but some are missing. Impute them, or use a sampling learner such as "pcd".'
            )

    def phase(self, energy, batch):
        """Return the data expectation and the mean unnormalised log-likelihood of a batch."""
        weights = normalized_weights(batch.log_weights, batch.X.shape[0])
        value = weights @ energy.log_marginal(batch.X)
        return States(batch.X, None, batch.log_weights), value


class Exact(Learner):
    r"""Exact maximum likelihood.

    The negative phase is a sum over all states. In general, it is computed by variable elimination.
    For a :class:`~skmrf.energies.PairwiseEnergy` with at most 24 variables, it is computed by
    enumeration in two blocks. For a :class:`~skmrf.energies.BipartiteEnergy`, it is computed by
    enumeration of the states of the smaller layer. The positive phase of a row with missing entries
    is the exact expectation given the observed entries of the row. The objective is the mean
    log-likelihood of the observed entries,

    .. math:: \sum_r w_r \log p(x_r^\mathrm{obs}; \theta).

    A deterministic solver maximises it. For models with latent variables, the default is stochastic
    steps on batches, in which only the choice of the rows is random.

    Parameters
    ----------
    max_bytes : float, default=4 GiB
        Maximum memory in bytes. A model that is estimated to need more raises a ValueError.

    References
    ----------
    D. Koller and N. Friedman, "Probabilistic graphical models: principles and techniques" (2009),
    section 20.3: the gradient and the uniqueness of the maximum; section 20.3.3: missing entries.
    """

    deterministic = True
    objective_takes_missing = True
    reads_maps = True
    is_pure = True
    device_requires = (LayeredEnergy,)

    def __init__(self, max_bytes=4 * 2**30):
        self.max_bytes = max_bytes

    def init(self, energy, batch, rng):
        """Return the learner's initial state: the method of summation, and the positive phase."""
        check_bytes(self.max_bytes)
        model = expectations.exact_model(energy, max_bytes=self.max_bytes)
        if energy.has_latent:
            return ExactState(model, LatentPhase(batch))
        return ExactState(model, VisiblePhase.from_batch(energy, batch, self.max_bytes))

    def _phases(self, energy, batch, state):
        """Return both phases (data and model expectation) and the mean log-likelihood."""
        expected, log_z = state.model.expected(energy)
        positive, value = state.data.phase(energy, batch)
        expected = {k: v.astype(energy.theta[k].dtype, copy=False) for k, v in expected.items()}
        return positive, CliqueMoments(expected), value - log_z

    def objective(self, energy, batch, state):
        """Return the mean log-likelihood in nats, and its gradient in the shapes of theta."""
        positive, negative, value = self._phases(energy, batch, state)
        return value, energy.gradient(positive, negative, batch)

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, computed exactly."""
        positive, negative, value = self._phases(energy, batch, state)
        return positive, negative, state, {"log_likelihood": value}


class DeviceExact(Exact):
    """Exact maximum likelihood of a two-layer model whose objective a device of JAX computes.

    Parameters
    ----------
    device : Device
        Device that computes in float64, because the line search of a solver needs exact values.
    """

    def __init__(self, device):
        super().__init__()
        self.device = device

    @staticmethod
    def fits(energy, batch, device):
        """Return whether the rows and the states of the smaller layer fit on a device."""
        n_terms = 2.0 ** LayerSum(*energy.weights.shape).log2_terms
        if n_terms > MAX_DEVICE_ENTRIES:
            return False
        entry_bytes = 4 if batch.X.dtype.kind == "f" else 1
        return device.keeps(entry_bytes * np.prod(batch.X.shape) + 8.0 * N_COPIES * n_terms)

    def init(self, energy, batch, rng):
        """Return the log-likelihood as a function of parameters, with the rows on the device."""
        return likelihood_on_device(energy, batch, self.device)

    def objective(self, energy, batch, state):
        """Return the mean log-likelihood in nats, and its gradient in the shapes of theta."""
        return state.value_and_gradient(energy.theta)


def likelihood_on_device(energy, batch, device):
    """Return the mean log-likelihood of a two-layer model, which a device computes.

    Parameters
    ----------
    energy : BipartiteEnergy
        Model with the numbers of units.
    batch : Batch
        Complete rows: state codes, or probabilities as floating-point numbers.
    device : Device
        Device that gets the rows.

    Returns
    -------
    WeightedSum
        Function of the parameters, with its gradient.
    """
    form, X = without_values(energy), dense_rows(batch.X)
    if is_numpy(X) and X.dtype.kind != "f":
        X = X.astype(np.uint8)

    def log_marginal(theta, rows):
        return form.with_theta(theta).log_marginal(rows)

    def minus_log_z(theta):
        return -LayerSum(*theta["weights"].shape).log_partition(form.with_theta(theta))

    weights = normalized_weights(batch.log_weights, X.shape[0])
    identity = "log-likelihood", type(energy)
    return device.weighted_sum(log_marginal, minus_log_z, identity, X, weights)
