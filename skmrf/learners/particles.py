"""The scheme of learners by particles: reweight, resample, move.

The states of the visible variables in a :class:`Particles` stand for the model. When the model has
changed, particles may be reweighted to it, resampled by their weights, and moved by a kernel that
leaves it invariant. Learners differ in which of these they do: persistent contrastive divergence
only moves (by Gibbs sweeps), tempered transitions and parallel tempering move further, MCMC maximum
likelihood mainly reweights, sequential Monte Carlo does all three along a path.

Reference: H. Xiong, S. Szedmak, J. Piater, "Towards maximum likelihood: learning undirected
graphical models using persistent sequential Monte Carlo", ACML (2014), Algorithm 2.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._utils.identity import identity_of
from .._utils.phases import States
from ..energies import Energy
from ..samplers import Product
from .base import DataPhase, Learner


@dataclass
class Particles:
    """What the next step needs.

    Attributes
    ----------
    data : DataPhase
    reference : Product
        Independent variables at the hot end of paths.
    energy : Energy
        What the particles target.
    X : ndarray of shape (n_particles, n_visible)
    log_weights : ndarray of shape (n_particles,) or None
        None: equal.
    generators : list of Generator
    log_partition, variance : float
        Running estimate of log Z of ``energy``, where the learner has one.
    memory : object
        What a learner keeps besides.
    hidden : ndarray or None
        Means of the latent units given ``X``, where they are known already.
    learner : tuple
        Which learner, with its parameters, these are of.
    """

    data: DataPhase
    reference: Product
    energy: Energy
    X: np.ndarray
    log_weights: np.ndarray | None
    generators: list
    log_partition: float = np.nan
    variance: float = np.nan
    memory: Any = None
    hidden: np.ndarray | None = None
    learner: Any = None

    @property
    def phase(self):
        """What the particles say of the model."""
        return States(self.X, self.hidden, self.log_weights)


class ParticleLearner(Learner):
    """A learner whose negative phase is a set of particles.

    A subclass implements :meth:`start` and :meth:`step`. The state of its steps is a
    :class:`Particles`: ``state.data`` returns the positive phase, and ``phase`` of the particles
    after the step is the negative phase.
    """

    def check(self):
        """Check the parameters."""

    @abstractmethod
    def start(self, energy, data, batch, rng):
        """The first particles."""

    def init(self, energy, batch, rng):
        self.check()
        first = self.start(energy, DataPhase(energy, batch, rng), batch, rng)
        return replace(first, learner=identity_of(self))

    def resume(self, energy, batch, state, rng):
        if not isinstance(state, Particles) or state.learner != identity_of(self):
            return self.init(energy, batch, rng)
        return replace(state, data=DataPhase(energy, batch, rng))
