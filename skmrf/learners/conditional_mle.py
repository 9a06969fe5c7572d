"""Maximum likelihood of conditional models by belief propagation or mean field."""

import numpy as np

from .._utils.log_weights import normalized_weights
from .._utils.phases import States, UnitMoments
from ..variational.bipartite import mean_field, propagate, unit_probabilities
from .conditional import (
    LimitedInference,
    MessagePassing,
    StatelessLearner,
    condition_on_batch,
    inference_info,
)


class MLEBP(LimitedInference, MessagePassing):
    r"""Likelihood gradient of conditional models by sum-product belief propagation.

    The negative phase of a row consists of the beliefs of its units and of pairs of units given its
    inputs, after at most ``n_iter + growth * epoch`` iterations. Predictions use the same beliefs.

    Parameters
    ----------
    n_iter : int, default=40
        Maximum number of iterations in the first epoch. Rows that have converged take fewer.
    growth : int, default=0
        Increase of this maximum after each epoch. The paper uses ``n_iter=7, growth=1``, with which
        few rows converge in the first epochs.
    tol : float, default=1e-3
        A row has converged when the belief of no output changes by more than this.

    References
    ----------
    W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured prediction",
    AISTATS 2017, sections 4 and 5.
    """

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, from beliefs."""
        positive, model = condition_on_batch(energy, batch)
        beliefs = propagate(*model.conditionals(), pairs=True, **self.limits(batch.epoch))
        return positive, _moments(beliefs), state, inference_info(beliefs)

    def infer(self, energy, X, epoch):
        """Return the log odds of all units given inputs, by belief propagation."""
        return propagate(energy.weights, *energy.fields(X), **self.limits(epoch))


class MLEMF(LimitedInference):
    """Likelihood gradient of conditional models by mean field, which bounds log Z from below.

    Training maximises an upper bound of the likelihood, so the likelihood may decrease while the
    bound increases. Predictions use mean field too.

    Parameters
    ----------
    n_iter : int, default=40
        Maximum number of iterations in the first epoch. Rows that have converged take fewer.
    growth : int, default=0
        Increase of this maximum after each epoch.
    tol : float, default=1e-3
        A row has converged when the belief of no output changes by more than this.

    References
    ----------
    W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured prediction",
    AISTATS 2017, section 4.
    """

    is_pure = True

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient, by mean field."""
        positive, model = condition_on_batch(energy, batch)
        beliefs = mean_field(*model.conditionals(), pairs=True, **self.limits(batch.epoch))
        return positive, _moments(beliefs), state, inference_info(beliefs)

    def infer(self, energy, X, epoch):
        """Return the log odds of all units given inputs, by mean-field inference."""
        return mean_field(energy.weights, *energy.fields(X), **self.limits(epoch))


def _moments(beliefs):
    visible, hidden = unit_probabilities(beliefs.visible), unit_probabilities(beliefs.hidden)
    return UnitMoments(visible, hidden, beliefs.pairs)


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
    is_pure = True

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
    pairs = 0 * energy.weights
    negative = UnitMoments(unit_probabilities(fields), hidden_fields, pairs)
    positive = States(batch.Y.astype(fields.dtype, copy=False), hidden_fields)
    return positive, negative, fields
