"""Exact phases by variable elimination."""

from dataclasses import dataclass

import numpy as np

from .. import messages
from .._types import MISSING, CliqueMoments, States
from .base import Learner, unique_rows


@dataclass
class ExactState:
    """Bucket trees, built once: of the model, and of every pattern of missing entries."""

    model: messages.BucketTree
    complete: dict
    complete_weight: float
    partial: list  # (bucket tree, distinct rows, weights) a pattern


class Exact(Learner):
    r"""Exact maximum likelihood.

    Both phases are computed by variable elimination; rows with missing entries enter the positive
    phase by the exact expectation given what was observed. The objective is the mean
    log-likelihood of the observed entries,

    .. math:: \sum_r w_r \log p(x_r^\mathrm{obs}; \theta),

    and is maximised by a deterministic solver.

    Parameters
    ----------
    max_bytes : float, default=4 GiB
        Refuse a model whose elimination is forecast to need more.
    """

    deterministic = True

    def __init__(self, max_bytes=4 * 2**30):
        self.max_bytes = max_bytes

    def init(self, energy, batch, rng):
        layout = energy.factor_graph().layout
        model = messages.prepare(layout, max_bytes=self.max_bytes)
        X, weights = unique_rows(batch)
        seen = X != MISSING
        full = seen.all(axis=1)
        complete = {name: np.zeros_like(v) for name, v in energy.theta.items()}
        if full.any():
            with np.errstate(divide="ignore"):
                phase = States(X[full], None, np.log(weights[full]))
            scale = weights[full].sum()
            complete = {k: scale * v for k, v in energy.moments(phase).items()}
        patterns, which = np.unique(seen[~full], axis=0, return_inverse=True)
        partial = []
        for p, observed in enumerate(patterns):
            rows = np.flatnonzero(which == p)
            plan = messages.prepare(layout, observed, max_bytes=self.max_bytes)
            partial.append((plan, X[~full][rows], weights[~full][rows]))
        return ExactState(model, complete, float(weights[full].sum()), partial)

    def _phases(self, energy, state):
        """Positive and negative moments and the mean log-likelihood."""
        flat = energy.flat
        (name,) = energy.theta
        expected, log_z = messages.expected_moments(state.model, flat)
        positive = state.complete[name].copy()
        value = float(positive @ flat) - float(log_z[0])
        for plan, X, weights in state.partial:
            moments, totals = messages.expected_moments(plan, flat, X, weights)
            positive += moments
            value += float(weights @ totals)
        return {name: positive}, {name: expected}, value

    def objective(self, energy, batch, state):
        """Mean log-likelihood in nats and its gradient."""
        positive, negative, value = self._phases(energy, state)
        return value, {k: positive[k] - negative[k] for k in positive}

    def step(self, energy, batch, state, rng):
        positive, negative, value = self._phases(energy, state)
        info = {"log_likelihood": value}
        return CliqueMoments(positive), CliqueMoments(negative), state, info
