"""Max-margin learning: the negative phase is the outputs that are best together with their loss."""

import numpy as np

from .._utils.parameters import check_choice, check_number
from .._utils.phases import States
from ..variational.bipartite import coordinate_ascent, propagate
from .conditional import StatelessLearner, inference_info, observed

SCHEDULES = "sequential", "parallel"


class MaxMargin(StatelessLearner):
    """Hamming loss, weighted by output."""

    probabilistic = False

    def check(self):
        check_number("max_iter", self.max_iter, low=1, integer=True)
        try:
            weight = np.asarray(self.loss_weight, dtype=float)
        except (TypeError, ValueError):
            weight = np.array(np.nan)
        if weight.ndim > 1 or not np.isfinite(weight).all() or (weight < 0).any():
            raise ValueError(
                "loss_weight must be a number, or one for every output, none of them negative; "
                f"got {self.loss_weight!r}."
            )

    def init(self, energy, batch, rng):
        self.check()
        weight = np.asarray(self.loss_weight)
        if weight.ndim and weight.size != batch.Y.shape[1]:
            raise ValueError(
                f"loss_weight has {weight.size} entries, but there are {batch.Y.shape[1]} outputs."
            )

    def augmented(self, visible_fields, V):
        """Fields with what a wrong output adds to the loss."""
        weight = np.asarray(self.loss_weight, dtype=V.dtype)
        return visible_fields + weight * (1 - 2 * V)

    def loss(self, V, found):
        """Weighted Hamming loss of every row."""
        return (np.asarray(self.loss_weight, dtype=V.dtype) * (found != V)).sum(axis=1)


class MSSVM(MaxMargin):
    r"""Marginal structured SVM: hidden units are summed out.

    .. math:: \max_{\hat v} \big[ \Delta(\hat v, v) - F(\hat v | x) \big] + F(v | x)

    is lowered, with the Hamming loss :math:`\Delta`. Models are asked for the outputs that maximise
    :math:`-F`, by mixed-product belief propagation.

    Parameters
    ----------
    schedule : {"sequential", "parallel"}, default="sequential"
        "sequential" is coordinate ascent from the outputs that the inputs alone favour, which never
        gets worse and ends; "parallel", the paper's, updates all outputs at once and may cycle.
    loss_weight : float or array-like of shape (n_outputs,), default=1.0
    max_iter : int, default=50

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
        super().check()
        check_choice("schedule", self.schedule, SCHEDULES)

    def step(self, energy, batch, state, rng):
        positive, model = observed(energy, batch)
        V = positive.visible
        fields = self.augmented(model.visible_bias, V), model.hidden_bias
        beliefs = self._maximise(energy, *fields)
        found = (beliefs.visible > 0).astype(V.dtype)
        hinge = self.loss(V, found) + model.free_energy(V) - model.free_energy(found)
        info = inference_info(beliefs) | {"hinge": float(np.maximum(hinge, 0).mean())}
        return positive, States(found, model.hidden_means(found)), state, info

    def _maximise(self, energy, visible_fields, hidden_fields):
        fields = visible_fields, hidden_fields
        if self.schedule == "sequential":
            start = visible_fields > 0
            return coordinate_ascent(energy.weights, *fields, start, max_iter=self.max_iter)
        return propagate(energy.weights, *fields, product="mixed", max_iter=self.max_iter)

    def infer(self, energy, X, epoch):
        """Log odds of every output, positive where it is 1 in the maximiser."""
        return self._maximise(energy, *energy.fields(X))


class LSSVM(MaxMargin):
    r"""Latent structured SVM: hidden units are maximised over, with the outputs and given them.

    .. math:: \max_{\hat v, \hat h} \big[ \Delta(\hat v, v) + \log f(\hat v, \hat h | x) \big]
        - \max_h \log f(v, h | x)

    is lowered. Models are asked for the outputs of the joint maximiser. Both are by max-product
    belief propagation.

    Parameters
    ----------
    loss_weight : float or array-like of shape (n_outputs,), default=1.0
    max_iter : int, default=50

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
        (V, means, _), model = observed(energy, batch)
        fields = self.augmented(model.visible_bias, V), model.hidden_bias
        beliefs = propagate(energy.weights, *fields, product="max", max_iter=self.max_iter)
        found = (beliefs.visible > 0).astype(V.dtype)
        positive, negative = (
            States(U, (p > 0.5).astype(V.dtype))  # the best hidden units given the outputs
            for U, p in ((V, means), (found, model.hidden_means(found)))
        )
        return positive, negative, state, inference_info(beliefs)

    def infer(self, energy, X, epoch):
        """Max-marginal log odds of the units."""
        fields = energy.fields(X)
        return propagate(energy.weights, *fields, product="max", max_iter=self.max_iter)
