"""What learners of outputs given inputs share. Rows bring both: X, and Y of zeros and ones."""

from abc import abstractmethod

from .._utils.parameters import check_number
from .._utils.phases import States
from ..energies import ConditionalLayeredEnergy
from ..variational.bipartite import UnitBeliefs, mean_field
from .base import Learner

N_ITER = 50  # of mean field, where learning itself does not use it


class ConditionalLearner(Learner):
    """Learner of a layered model given inputs, with the inference that predicts from the model.

    Attributes
    ----------
    probabilistic : bool
        Whether the beliefs of :meth:`infer` are marginal probabilities.
    has_hidden : bool
        Whether the model has hidden units.
    """

    requires = (ConditionalLayeredEnergy,)
    probabilistic = True
    has_hidden = True

    @abstractmethod
    def infer(self, energy, X, epoch) -> UnitBeliefs:
        """Return the beliefs of the units given inputs.

        Parameters
        ----------
        energy : ConditionalLayeredEnergy
        X : ndarray or sparse matrix of shape (n_rows, n_inputs)
        epoch : int
            Number of the epoch that the model is from, which may limit the iterations.
        """


class MeanFieldPrediction(ConditionalLearner):
    """Learner that predicts by mean field."""

    def infer(self, energy, X, epoch) -> UnitBeliefs:
        """Return the mean-field beliefs of the units given inputs."""
        return mean_field(energy.weights, *energy.fields(X), max_iter=N_ITER)


class StatelessLearner(ConditionalLearner):
    """Learner that keeps nothing from one step to the next."""

    def init(self, energy, batch, rng):
        self.check()

    def check(self):
        """Check the parameters."""


class LimitedInference(StatelessLearner):
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
    """What rows show, and the model that they are drawn from.

    Returns
    -------
    states : States
        Outputs, and means of hidden units given them and the inputs.
    model : BipartiteEnergy
        Its biases, one row for every row of the batch, are the fields of both layers.
    """
    model = energy.at(batch)
    V = batch.Y.astype(model.weights.dtype, copy=False)
    return States(V, model.hidden_means(V)), model


def inference_info(beliefs):
    """Diagnostics of a batch."""
    return {
        "inference_converged": float(beliefs.converged.mean()),
        "inference_iterations": float(beliefs.n_iter.mean()),
    }
