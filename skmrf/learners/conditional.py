"""Base classes of learners for conditional models of binary outputs Y given inputs X."""

from abc import abstractmethod

from .._utils.parameters import check_number
from .._utils.phases import States
from ..energies import ConditionalLayeredEnergy
from ..variational.bipartite import UnitBeliefs, mean_field
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
