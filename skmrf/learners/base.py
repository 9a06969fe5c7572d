"""The contract of negative phases."""

from abc import ABC, abstractmethod

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from .._utils.batch import Batch
from .._utils.codes import MISSING
from .._utils.log_weights import normalized_weights
from .._utils.phases import CliqueMoments, States
from .._utils.rows import dense_rows, distinct_rows
from ..energies import DiscreteEnergy
from ..samplers import Product
from .missing_entries import Completions

FEW_LATENT = 20


class Learner(BaseEstimator, ABC):
    """Estimates the two phases of the log-likelihood gradient.

    A learner holds parameters only, so it clones and its parameters can be searched as
    ``learner__...``. What a step leaves to the next one is in ``state``, which pickles.

    Attributes
    ----------
    requires : tuple of protocols
        The protocols (``skmrf.energies.protocols``) that the energy must keep, all of them.
        Estimators accept the learners whose requirements their energy meets; estimators of
        conditional and of continuous models take a :class:`ConditionalLearner` and a
        :class:`BeliefLearner`.
    deterministic : bool
        Whether the learner has an :meth:`objective`, which a deterministic solver maximises.
    objective_takes_missing : bool
        Whether :meth:`objective` takes rows with missing entries; where it does not, such rows are
        learned from by stochastic steps.
    pace : float
        Share of an estimator's default first learning rate that the learner keeps up with.
    """

    requires = (DiscreteEnergy,)
    deterministic = False
    objective_takes_missing = True
    pace = 1.0

    @abstractmethod
    def init(self, energy, batch, rng):
        """Return the state before the first step; ``batch`` holds all training rows."""

    def resume(self, energy, batch, state, rng):
        """Return the state for other (or the same) training rows.

        It keeps what does not depend on the rows.
        """
        return self.init(energy, batch, rng)

    @abstractmethod
    def step(self, energy, batch, state, rng):
        """Return one estimate: ``(positive, negative, state, info)``.

        ``positive`` and ``negative`` are phases: :class:`~skmrf.learners.States`,
        :class:`~skmrf.learners.CliqueMoments` or, of conditional models,
        :class:`~skmrf.learners.UnitMoments`. ``info`` is a dict of diagnostics, which ``history_``
        averages by epoch (of a :class:`~skmrf.learners.Latest` it keeps the last); a share of
        converged runs in ``inference_converged`` is warned about when it is low in the last epoch.
        """

    def objective(self, energy, batch, state):
        """Return the objective of the whole batch in nats and its gradient, shaped like theta."""
        raise NotImplementedError(f"{type(self).__name__} has no deterministic objective.")


class DataPhase:
    """Positive phase of learners by chains and particles.

    Without missing entries and latent variables it is in closed form: the moments of all training
    rows, computed once. Latent variables are averaged out given the rows of a batch. Missing
    entries of a batch are completed by Gibbs chains that persist by row.

    Parameters
    ----------
    energy : GibbsEnergy
        Energy that learning starts with.
    batch : Batch
        All training rows.
    rng : numpy.random.Generator
        Source of the completions.
    """

    def __init__(self, energy, batch, rng):
        self.completions = None
        self.moments = None
        if has_missing(batch.shown):
            self.completions = Completions(batch, energy.visible_states, rng)
        elif not energy.has_latent:
            phase = States(batch.shown, None, batch.log_weights)
            self.moments = CliqueMoments(energy.moments(phase))

    def batch_states(self, energy, batch):
        """What a batch shows of the model, missing entries completed."""
        X = batch.shown
        if self.completions is not None:
            X = self.completions.update(energy, batch)
        return States(X, None, batch.log_weights)

    def __call__(self, energy, batch):
        """The positive phase of a batch."""
        return self.moments or self.batch_states(energy, batch)

    def _filled(self, batch):
        return batch.shown if self.completions is None else self.completions.filled(batch)

    def draw_rows(self, batch, n_rows, rng):
        """Training rows drawn by their weights, missing entries filled."""
        X = self._filled(batch)
        weights = normalized_weights(batch.log_weights, X.shape[0])
        return dense_rows(X[rng.choice(X.shape[0], size=n_rows, p=weights)])

    def reference(self, name, energy, batch):
        """Return the distribution at inverse temperature 0.

        Parameters
        ----------
        name : {"marginals", "uniform"} or None
            Independent variables with the state frequencies of the training rows, or uniform ones.
            None is "marginals", except for models with many latent variables: halfway to these,
            particles that start at the marginals may all fall into one state and stay there.
        energy : DiscreteEnergy
        batch : Batch
            All training rows.

        Returns
        -------
        Product
        """
        n_latent = len(energy.n_states) - len(energy.visible_states)
        if name == "uniform" or (name is None and n_latent > FEW_LATENT):
            return Product.uniform(energy.visible_states)
        return self.marginals(energy, batch)

    def marginals(self, energy, batch):
        """Return independent variables with the state frequencies of the training rows."""
        X = self._filled(batch)
        n = X.shape[0]
        weights = n * normalized_weights(batch.log_weights, n)
        return Product.from_counts(X, energy.visible_states, weights)


def has_missing(X):
    """Whether an entry is missing; sparse rows have none."""
    if issparse(X):
        return False
    return bool((np.isnan(X) if X.dtype.kind == "f" else X == MISSING).any())


def unique_rows(batch: Batch):
    """Distinct rows and their weights, which sum to one."""
    weights = normalized_weights(batch.log_weights, len(batch.X))
    first, which = distinct_rows(batch.X)
    return batch.X[first], np.bincount(which, weights=weights, minlength=len(first))
