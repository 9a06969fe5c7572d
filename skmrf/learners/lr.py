"""Logistic regression of each output: a conditional model without hidden units."""

import numpy as np

from .._utils.log_weights import normalized_weights
from .._utils.phases import States, UnitMoments
from ..variational.bipartite import mean_field, unit_probabilities
from .conditional import StatelessLearner


class LR(StatelessLearner):
    """Exact likelihood gradient of a conditional model without hidden units.

    Such a model is a logistic regression of each output. The objective is deterministic and
    concave, so ``optimizer="lbfgs"`` finds the maximum.

    References
    ----------
    D. R. Cox, "The regression analysis of binary sequences", Journal of the Royal Statistical
    Society B 20 (1958).

    W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured prediction",
    AISTATS 2017, section 6: use it as the baseline.
    """

    deterministic = True
    has_hidden = False

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, which are exact."""
        positive, negative, _ = _phases(energy, batch)
        return positive, negative, state, {}

    def objective(self, energy, batch, state):
        """Return the mean log-likelihood of outputs given inputs in nats, and its gradient."""
        positive, negative, fields = _phases(energy, batch)
        V = positive.visible.astype(float)
        losses = (np.logaddexp(0.0, fields) - V * fields).sum(axis=1)
        weights = normalized_weights(batch.log_weights, len(V))
        # energy.gradient averages over rows with equal weights, so each row is scaled by its own.
        scale = (len(V) * weights).astype(fields.dtype)[:, None]
        positive = positive._replace(visible=scale * positive.visible)
        negative = negative._replace(visible=scale * negative.visible)
        return -float(weights @ losses), energy.gradient(positive, negative, batch)

    def infer(self, energy, X, epoch):
        """Return the log odds of the outputs given inputs."""
        return mean_field(energy.weights, *energy.fields(X), max_iter=1)


def _phases(energy, batch):
    fields, hidden_fields = energy.fields(batch.X)
    pairs = np.zeros_like(energy.weights)
    negative = UnitMoments(unit_probabilities(fields), hidden_fields, pairs)
    positive = States(batch.Y.astype(fields.dtype, copy=False), hidden_fields)
    return positive, negative, fields
