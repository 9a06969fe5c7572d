"""Maximum likelihood of outputs given inputs, with beliefs for marginals."""

from .._utils.phases import UnitMoments
from ..variational.bipartite import mean_field, propagate, unit_probabilities
from .conditional import LimitedInference, inference_info, observed


class MLEBP(LimitedInference):
    r"""Likelihood gradient with beliefs of sum-product belief propagation.

    The negative phase of a row is its beliefs of units and of pairs given its inputs, after at most
    ``n_iter + growth * epoch`` iterations. Models are asked in the same way.

    Parameters
    ----------
    n_iter : int, default=40
        Iterations of the first epoch. Rows that have converged take fewer.
    growth : int, default=0
        Iterations more in each further one. The paper's are ``n_iter=7, growth=1``, with which few
        rows converge in the first epochs.
    tol : float, default=1e-3
        Largest change of an output's belief at which a row has converged.

    References
    ----------
    W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured prediction",
    AISTATS 2017, sections 4 and 5.
    """

    def step(self, energy, batch, state, rng):
        positive, model = observed(energy, batch)
        beliefs = propagate(*model.conditionals(), pairs=True, **self.limits(batch.epoch))
        return positive, _moments(beliefs), state, inference_info(beliefs)

    def infer(self, energy, X, epoch):
        """Beliefs of the units given inputs."""
        return propagate(energy.weights, *energy.fields(X), **self.limits(epoch))


class MLEMF(LimitedInference):
    """Likelihood gradient with the beliefs of mean field, which bounds log Z from below.

    So learning raises an upper bound of the likelihood, with no promise for the likelihood itself.
    Models are asked in the same way.

    Parameters
    ----------
    n_iter, growth, tol
        As in :class:`MLEBP`.

    References
    ----------
    W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured prediction",
    AISTATS 2017, section 4.
    """

    def step(self, energy, batch, state, rng):
        positive, model = observed(energy, batch)
        beliefs = mean_field(*model.conditionals(), pairs=True, **self.limits(batch.epoch))
        return positive, _moments(beliefs), state, inference_info(beliefs)

    def infer(self, energy, X, epoch):
        """Beliefs of the units given inputs."""
        return mean_field(energy.weights, *energy.fields(X), **self.limits(epoch))


def _moments(beliefs):
    visible, hidden = unit_probabilities(beliefs.visible), unit_probabilities(beliefs.hidden)
    return UnitMoments(visible, hidden, beliefs.pairs)
