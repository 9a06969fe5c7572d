"""What learners of outputs given inputs share. Rows bring both: X, and Y of zeros and ones."""

from .._types import States
from .._validation import check_number
from ..messages.bipartite import UnitBeliefs, mean_field, unit_probabilities
from .base import Learner

N_ITER = 50  # of mean field, where learning itself does not use it


class AskedByMeanField:
    """Models of outputs given inputs that are asked by mean field."""

    probabilistic = True
    has_hidden = True

    def infer(self, energy, X, epoch) -> UnitBeliefs:
        """Beliefs of the units given inputs, as a model of that many epochs before is asked."""
        return mean_field(energy.weights, *energy.fields(X), max_iter=N_ITER)


class ConditionalLearner(Learner):
    """A learner without state whose models are asked as they were learned.

    It also has ``infer(energy, X, epoch)``, the beliefs of units given inputs;
    ``probabilistic`` says whether those of outputs are marginal probabilities, ``has_hidden``
    whether its models have hidden units.
    """

    probabilistic = True
    has_hidden = True

    def init(self, energy, batch, rng):
        self.check()

    def check(self):
        """Check the parameters."""


class LimitedInference(ConditionalLearner):
    """Inference of at most ``n_iter`` iterations, and ``growth`` more each epoch."""

    def __init__(self, n_iter=40, growth=0, tol=1e-3):
        self.n_iter = n_iter
        self.growth = growth
        self.tol = tol

    def check(self):
        check_number("n_iter", self.n_iter, low=1, integer=True)
        check_number("growth", self.growth, low=0, integer=True)
        check_number("tol", self.tol, low=0)

    def limits(self, epoch):
        """Options of inference in an epoch, from 0."""
        return {"max_iter": self.n_iter + self.growth * epoch, "tol": self.tol}


def observed(energy, batch):
    """Units given inputs and outputs, and the fields of both layers.

    Returns
    -------
    states : States
        Outputs, and means of hidden units given them.
    visible_fields, hidden_fields : ndarray
    """
    visible_fields, hidden_fields = energy.fields(batch.X)
    V = batch.Y.astype(energy.weights.dtype, copy=False)
    return States(V, hidden_means(energy, V, hidden_fields)), visible_fields, hidden_fields


def hidden_means(energy, V, hidden_fields):
    """Probabilities of hidden units given visible ones."""
    return unit_probabilities(V @ energy.weights + hidden_fields)


def inference_info(beliefs):
    """Diagnostics of a batch."""
    return {
        "inference_converged": float(beliefs.converged.mean()),
        "inference_iterations": float(beliefs.n_iter.mean()),
    }
