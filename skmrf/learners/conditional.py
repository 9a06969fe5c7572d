"""Learners for conditional models of binary outputs: base classes, and maximum likelihood."""

from abc import abstractmethod

import numpy as np

from .._utils.log_weights import normalized_weights
from .._utils.parameters import check_number
from .._utils.phases import States, UnitMoments
from ..energies import ConditionalLayeredEnergy
from ..variational.bipartite import UnitBeliefs, mean_field, propagate, unit_probabilities
from .base import Learner

N_MEAN_FIELD_ITER = 50  # for predictions of learners that do not train by mean field


class ConditionalLearner(Learner):
    """Base class of learners for conditional models of outputs and hidden units given inputs.

    A learner also computes the predictions of the model, with its own inference method.

    Attributes
    ----------
    probabilistic : bool
        Whether the beliefs of :meth:`infer` are (approximate) marginal probabilities.
    has_hidden : bool
        Whether the model has hidden units.
    """

    requires = (ConditionalLayeredEnergy,)
    probabilistic = True
    has_hidden = True

    @abstractmethod
    def infer(self, energy, X, epoch) -> UnitBeliefs:
        """Return the log odds of all visible and hidden units given inputs.

        Parameters
        ----------
        energy : ConditionalLayeredEnergy
            Model.
        X : ndarray or sparse matrix of shape (n_rows, n_inputs)
            Inputs.
        epoch : int
            Number of training epochs of the model. It may determine the number of iterations.

        Returns
        -------
        UnitBeliefs
            Log odds of all visible and hidden units, row by row, and convergence diagnostics.
        """


class MeanFieldPrediction(ConditionalLearner):
    """Base class of learners that predict outputs by mean-field inference."""

    def infer(self, energy, X, epoch) -> UnitBeliefs:
        """Return the log odds of all units given inputs, by mean-field inference."""
        return mean_field(energy.weights, *energy.fields(X), max_iter=N_MEAN_FIELD_ITER)


class StatelessLearner(ConditionalLearner):
    """Base class of learners without a state that is passed from one step to the next."""

    def init(self, energy, batch, rng):
        """Check the parameters and return None, because the learner has no state."""
        self.check()

    def check(self):
        """Raise a ValueError if a parameter is invalid."""


class LimitedInference(StatelessLearner):
    """Base class of learners whose limit of inference iterations can increase in each epoch."""

    def __init__(self, n_iter=40, growth=0, tol=1e-3):
        self.n_iter = n_iter
        self.growth = growth
        self.tol = tol

    def check(self):
        """Raise a ValueError if a parameter is invalid."""
        check_number("n_iter", self.n_iter, low=1, integer=True)
        check_number("growth", self.growth, low=0, integer=True)
        check_number("tol", self.tol, low=0)

    def limits(self, epoch):
        """Return the maximum number of inference iterations and the tolerance in an epoch."""
        return {"max_iter": self.n_iter + self.growth * epoch, "tol": self.tol}


class MessagePassing(StatelessLearner):
    """Base class of learners by belief propagation between the two layers."""

    is_pure = True

    def n_messages(self, energy, n_rows):
        """Return the number of messages from hidden to visible units in a step."""
        return n_rows * energy.weights.size


def condition_on_batch(energy, batch):
    """Return the data expectation (positive phase) of a batch, and the model given its inputs.

    Parameters
    ----------
    energy : ConditionalLayeredEnergy
        Current model.
    batch : Batch
        Rows with inputs and outputs.

    Returns
    -------
    states : States
        Outputs, and means of the hidden units given the outputs and the inputs.
    model : BipartiteEnergy
        Model whose biases have one row for each row of the batch: the fields of both layers.
    """
    model = energy.at(batch)
    V = batch.Y.astype(model.weights.dtype, copy=False)
    return States(V, model.hidden_means(V)), model


def inference_info(beliefs):
    """Return diagnostics of inference: the share of converged rows, and the mean iterations."""
    return {
        "inference_converged": beliefs.converged.mean(),
        "inference_iterations": beliefs.n_iter.mean(),
    }


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
        weights = normalized_weights(batch.log_weights, batch.X.shape[0])
        if not batch.is_mapped:
            return self._sum_rows(energy, batch, weights)
        total, gradient = 0.0, {}
        for rows in batch.blocks():
            value, part = self._sum_rows(energy, batch.take(rows), weights[rows])
            total += value
            gradient = {k: v + gradient.get(k, 0.0) for k, v in part.items()}
        return total, gradient

    def _sum_rows(self, energy, batch, weights):
        """Return the weighted sum of the log-likelihoods of rows, and its gradient."""
        positive, negative, fields = _phases(energy, batch)
        V = positive.visible.astype(float)
        losses = (np.logaddexp(0.0, fields) - V * fields).sum(axis=1)
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
