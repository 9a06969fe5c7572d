"""Exact phases by enumeration or variable elimination."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.codes import MISSING
from .._utils.log_weights import normalized_weights
from .._utils.phases import CliqueMoments, States, Theta
from ..exact import elimination, expectations
from .base import Learner, has_missing, unique_rows


@dataclass
class ExactState:
    """How to sum over all states of the model, and what is known of the data."""

    model: Any
    data: Any


@dataclass
class CountedRows:
    """Positive phase where all variables are visible, of all training rows.

    Attributes
    ----------
    complete : dict
        Sum over the complete rows of weighted statistics, shaped like theta.
    tables : GraphTables or PairTables, or None
        Of the rows with missing entries.
    partial : list
        (bucket tree, distinct rows, weights) of every pattern of missing entries.
    """

    complete: Theta
    tables: Any
    partial: list

    @classmethod
    def of(cls, energy, batch, max_bytes):
        """Count the rows once."""
        X, weights = unique_rows(batch)
        seen = X != MISSING
        full = seen.all(axis=1)
        complete = {name: np.zeros_like(v) for name, v in energy.theta.items()}
        if full.any():
            with np.errstate(divide="ignore"):
                phase = States(X[full], None, np.log(weights[full]))
            scale = weights[full].sum()
            complete = {k: scale * v for k, v in energy.moments(phase).items()}
        if full.all():
            return cls(complete, None, [])
        tables = expectations.exact_tables(energy)
        return cls(complete, tables, _patterns(tables.layout, X[~full], weights[~full], max_bytes))

    def phase(self, energy, batch):
        """The positive phase and the mean over rows of the log of their unnormalised sums."""
        positive, value = self.complete, energy.mean_log_potential(self.complete)
        for plan, X, weights in self.partial:
            flat = self.tables.flat(energy)
            found, totals = elimination.expected_moments(plan, flat, X, weights)
            found = self.tables.moments(energy, found)
            positive = {k: positive[k] + found[k] for k in positive}
            value += float(weights @ totals)
        return CliqueMoments(positive), value


def _patterns(layout, X, weights, max_bytes):
    """(bucket tree, rows, weights) of every pattern of missing entries."""
    patterns, which = np.unique(X != MISSING, axis=0, return_inverse=True)
    out = []
    for p, observed in enumerate(patterns):
        rows = np.flatnonzero(which.ravel() == p)
        plan = elimination.prepare(layout, observed, max_bytes=max_bytes)
        out.append((plan, X[rows], weights[rows]))
    return out


class VisibleRows:
    """Positive phase where latent variables are averaged out given the rows of a batch."""

    def __init__(self, batch):
        if has_missing(batch.X):
            raise ValueError(
                "Exact learning of an energy with hidden units takes rows without missing "
                'entries. Fill them in, or take a learner by chains, such as learner="pcd".'
            )

    def phase(self, energy, batch):
        """As :meth:`CountedRows.phase`, of the batch."""
        weights = normalized_weights(batch.log_weights, batch.X.shape[0])
        value = float(weights @ energy.log_marginal(batch.X))
        return States(batch.X, None, batch.log_weights), value


class Exact(Learner):
    r"""Exact maximum likelihood.

    The negative phase is a sum over all states: by variable elimination, for a
    :class:`~skmrf.energies.PairwiseEnergy` of at most 24 variables by enumeration in two blocks,
    for a :class:`~skmrf.energies.BipartiteEnergy` over the states of its smaller layer. Rows with
    missing entries enter the positive phase by the exact expectation given what was observed. The
    objective is the mean log-likelihood of the observed entries,

    .. math:: \sum_r w_r \log p(x_r^\mathrm{obs}; \theta),

    and is maximised by a deterministic solver, or, with latent variables, by steps on batches of
    which only the positive phase is drawn.

    Parameters
    ----------
    max_bytes : float, default=4 GiB
        Refuse a model whose sums are forecast to need more.

    References
    ----------
    D. Koller and N. Friedman, "Probabilistic graphical models: principles and techniques" (2009),
    section 20.3: the gradient and why there is one maximum; section 20.3.3: missing entries.
    """

    deterministic = True

    def __init__(self, max_bytes=4 * 2**30):
        self.max_bytes = max_bytes

    def init(self, energy, batch, rng):
        model = expectations.exact_model(energy, max_bytes=self.max_bytes)
        if energy.has_latent:
            return ExactState(model, VisibleRows(batch))
        return ExactState(model, CountedRows.of(energy, batch, self.max_bytes))

    def _phases(self, energy, batch, state):
        """The phases and the mean log-likelihood."""
        expected, log_z = state.model.expected(energy)
        positive, value = state.data.phase(energy, batch)
        expected = {k: v.astype(energy.theta[k].dtype, copy=False) for k, v in expected.items()}
        return positive, CliqueMoments(expected), value - log_z

    def objective(self, energy, batch, state):
        """Mean log-likelihood in nats and its gradient, shaped like theta."""
        positive, negative, value = self._phases(energy, batch, state)
        return value, energy.gradient(positive, negative, batch)

    def step(self, energy, batch, state, rng):
        positive, negative, value = self._phases(energy, batch, state)
        return positive, negative, state, {"log_likelihood": value}
