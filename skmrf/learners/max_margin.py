"""Max-margin learning: structured support vector machines with hidden units."""

import numpy as np

from .._utils.namespaces import namespace
from .._utils.parameters import check_choice, check_number
from .._utils.phases import States
from ..variational.bipartite import coordinate_ascent, propagate
from .conditional import MessagePassing, condition_on_batch, inference_info

SCHEDULES = "sequential", "parallel"


class MaxMargin(MessagePassing):
    """Base class of max-margin learners, whose Hamming loss has a weight for each output."""

    probabilistic = False

    def check(self):
        """Raise a ValueError if a parameter is invalid."""
        check_number("max_iter", self.max_iter, low=1, integer=True)
        try:
            weight = np.asarray(self.loss_weight, dtype=float)
        except (TypeError, ValueError):
            weight = np.array(np.nan)
        if weight.ndim > 1 or not np.isfinite(weight).all() or (weight < 0).any():
            raise ValueError(
                "loss_weight must be a number of at least 0, or a list of such numbers, one per "
                f"output; got {self.loss_weight!r}."
            )

    def init(self, energy, batch, rng):
        """Check the parameters and return None, because the learner has no state."""
        self.check()
        weight = np.asarray(self.loss_weight)
        if weight.ndim and weight.size != batch.Y.shape[1]:
            raise ValueError(
                f"loss_weight has {weight.size} entries, but there are {batch.Y.shape[1]} outputs; "
                "give one number, or one number per output."
            )

    def augmented(self, visible_fields, V):
        """Return the biases of the outputs, to which the Hamming loss of wrong outputs is added."""
        weight = np.asarray(self.loss_weight, dtype=V.dtype)
        return visible_fields + weight * (1 - 2 * V)

    def loss(self, V, predicted):
        """Return the weighted Hamming loss of the predicted outputs of each row."""
        return (np.asarray(self.loss_weight, dtype=V.dtype) * (predicted != V)).sum(axis=1)


class MSSVM(MaxMargin):
    r"""Marginal structured SVM, which sums over the hidden units.

    The learner minimises

    .. math:: \max_{\hat v} \big[ \Delta(\hat v, v) - F(\hat v | x) \big] + F(v | x)

    with the Hamming loss :math:`\Delta` and the free energy :math:`F`. The negative phase consists
    of the outputs :math:`\hat v` that attain the maximum. Predictions are the outputs that maximise
    :math:`-F`. Both maxima are found by mixed-product belief propagation.

    Parameters
    ----------
    schedule : {"sequential", "parallel"}, default="sequential"
        "sequential" is coordinate ascent. It starts at the best outputs without hidden units, never
        decreases the objective, and always ends. "parallel" updates all outputs at once, as in the
        paper, and may cycle.
    loss_weight : float or array-like of shape (n_outputs,), default=1.0
        Loss of a wrong output, at least 0: one number for all outputs or one for each.
    max_iter : int, default=50
        Maximum number of iterations of each maximisation.

    References
    ----------
    W. Ping, Q. Liu and A. Ihler, "Marginal structured SVM with hidden variables", ICML 2014;
    W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured prediction",
    AISTATS 2017, section 4.
    """

    def __init__(self, schedule="sequential", loss_weight=1.0, max_iter=50):
        self.schedule = schedule
        self.loss_weight = loss_weight
        self.max_iter = max_iter

    def check(self):
        """Raise a ValueError if a parameter is invalid."""
        super().check()
        check_choice("schedule", self.schedule, SCHEDULES)

    def step(self, energy, batch, state, rng):
        """Return both terms of the gradient of the hinge loss, by loss-augmented inference."""
        positive, model = condition_on_batch(energy, batch)
        V = positive.visible
        fields = self.augmented(model.visible_bias, V), model.hidden_bias
        beliefs = self._maximise(energy, *fields)
        best = (beliefs.visible > 0).astype(V.dtype)
        hinge = self.loss(V, best) + model.free_energy(V) - model.free_energy(best)
        xp = namespace(hinge)
        best = xp.where(hinge[:, None] > 0, best, V)  # the maximum is at least that of V
        info = inference_info(beliefs) | {"hinge": xp.maximum(hinge, 0).mean()}
        return positive, States(best, model.hidden_means(best)), state, info

    def _maximise(self, energy, visible_fields, hidden_fields):
        fields = visible_fields, hidden_fields
        if self.schedule == "sequential":
            start = visible_fields > 0
            return coordinate_ascent(energy.weights, *fields, start, max_iter=self.max_iter)
        return propagate(energy.weights, *fields, product="mixed", max_iter=self.max_iter)

    def infer(self, energy, X, epoch):
        """Return a score of each output; a positive score predicts that the output is 1."""
        return self._maximise(energy, *energy.fields(X))


class LSSVM(MaxMargin):
    r"""Latent structured SVM, which maximises over the hidden units.

    The learner minimises

    .. math:: \max_{\hat v, \hat h} \big[ \Delta(\hat v, v) + \log f(\hat v, \hat h | x) \big]
        - \max_h \log f(v, h | x)

    with the Hamming loss :math:`\Delta` and the unnormalised probability :math:`f`. Predictions are
    the outputs in the most probable joint state of outputs and hidden units. The joint maxima are
    found by max-product belief propagation.

    Parameters
    ----------
    loss_weight : float or array-like of shape (n_outputs,), default=1.0
        Loss of a wrong output, at least 0: one number for all outputs or one for each.
    max_iter : int, default=50
        Maximum number of iterations of each maximisation.

    References
    ----------
    C.-N. J. Yu and T. Joachims, "Learning structural SVMs with latent variables", ICML 2009;
    J. Yang, S. Safar and M.-H. Yang, "Max-margin Boltzmann machines for object segmentation", CVPR
    2014.
    """

    def __init__(self, loss_weight=1.0, max_iter=50):
        self.loss_weight = loss_weight
        self.max_iter = max_iter

    def step(self, energy, batch, state, rng):
        """Return both terms of the gradient of the hinge loss, by maximisation over all units."""
        (V, means, _), model = condition_on_batch(energy, batch)
        fields = self.augmented(model.visible_bias, V), model.hidden_bias
        beliefs = propagate(energy.weights, *fields, product="max", max_iter=self.max_iter)
        best = (beliefs.visible > 0).astype(V.dtype)
        positive, negative = (
            States(U, (p > 0.5).astype(V.dtype))  # the best hidden units given the outputs
            for U, p in ((V, means), (best, model.hidden_means(best)))
        )
        return positive, negative, state, inference_info(beliefs)

    def infer(self, energy, X, epoch):
        """Return the log odds of all units given inputs, by max-product belief propagation."""
        fields = energy.fields(X)
        return propagate(energy.weights, *fields, product="max", max_iter=self.max_iter)
