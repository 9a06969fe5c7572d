"""Maximum likelihood of conditional models by belief propagation or mean field."""

from .._utils.phases import UnitMoments
from ..variational.bipartite import mean_field, propagate, unit_probabilities
from .conditional import LimitedInference, condition_on_batch, inference_info


class MLEBP(LimitedInference):
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
