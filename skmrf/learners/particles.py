"""Base class and state of particle learners.

Particles are states of the visible variables that represent a model. After each parameter update,
a particle learner can reweight the particles to the new model, resample the particles by weight,
and move the particles by a Markov kernel that leaves the new model invariant. Persistent
contrastive divergence only moves particles, by Gibbs sweeps. Tempered transitions and parallel
tempering also only move particles, but by longer moves. MCMC maximum likelihood mainly reweights
particles. Sequential Monte Carlo reweights, resamples and moves particles along a path of
distributions.

Reference: H. Xiong, S. Szedmak, J. Piater, "Towards maximum likelihood: learning undirected
graphical models using persistent sequential Monte Carlo", ACML (2014), Algorithm 2.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._kernels._jit import read_only
from .._kernels.tables import count_changes
from .._utils.codes import STATE
from .._utils.namespaces import is_numpy
from .._utils.parameters import identity_of
from .._utils.phases import States
from .._utils.results import LatestArray
from ..energies import Energy
from ..samplers import Product
from .base import DataPhase, Learner


@dataclass
class Particles:
    """State of a particle learner: positive phase, weighted particles, and random generators.

    Attributes
    ----------
    data : DataPhase
        Positive phase.
    reference : Product
        Distribution at inverse temperature 0 of tempered paths.
    energy : Energy
        Model that the particles represent.
    X : ndarray of shape (n_particles, n_visible)
        State codes of the particles.
    log_weights : ndarray of shape (n_particles,) or None
        Log-weights of the particles; None for equal weights.
    generators : list of Generator
        Random generators, one per block of particles.
    log_partition, variance : float
        Running estimate of log Z of ``energy`` in nats, and its variance; nan without an estimate.
    hidden : ndarray of shape (n_particles, n_hidden) or None
        Means of the latent units given ``X``, if they have been computed.
    learner : tuple
        Identity of the learner: its class and parameters.
    """

    data: DataPhase
    reference: Product
    energy: Energy
    X: np.ndarray
    log_weights: np.ndarray | None
    generators: list
    log_partition: float = np.nan
    variance: float = np.nan
    hidden: np.ndarray | None = None
    learner: Any = None

    @property
    def chain_axes(self):
        """Axis of the particles, from the end, of each array that has an entry per particle."""
        return {"X": -2, "hidden": -2, "log_weights": -1}

    @property
    def phase(self):
        """Negative phase (model expectation) of the gradient: the particles and their weights."""
        return States(self.X, self.hidden, self.log_weights)


def flip_rate(before, after):
    """Return the share of changed entries as a diagnostic, given the states before and after.

    Parameters
    ----------
    before, after : ndarray or array of JAX of shape (n_chains, n_visible)
        State codes.

    Returns
    -------
    float or LatestArray
        Share of the entries that differ.
    """
    if not is_numpy(after):
        return LatestArray.share(after != before)
    codes = (read_only(np.ascontiguousarray(X, STATE).reshape(-1)) for X in (before, after))
    return count_changes(*codes) / max(after.size, 1)


class ParticleLearner(Learner):
    """Base class of learners that estimate the model expectation by weighted particles.

    A subclass implements :meth:`start` and :meth:`step`. The state is a :class:`Particles`. Call
    ``state.data`` for the positive phase. The negative phase is ``state.phase`` after a step, or
    other estimates from the particles.
    """

    reads_maps = True

    def check(self):
        """Raise a ValueError if a parameter is invalid."""

    @abstractmethod
    def start(self, energy, data, batch, rng):
        """Return the initial particles of a model; ``data`` is the positive phase."""

    def init(self, energy, batch, rng):
        """Check the parameters and return the initial particles."""
        self.check()
        first = self.start(energy, DataPhase(energy, batch, rng), batch, rng)
        return replace(first, learner=identity_of(self))

    def resume(self, energy, batch, state, rng):
        """Return the state for new rows with the old particles, unless the learner has changed."""
        if not isinstance(state, Particles) or state.learner != identity_of(self):
            return self.init(energy, batch, rng)
        return replace(state, data=DataPhase(energy, batch, rng))

    def chains(self, state):
        """Return the states of the particles, or None if they have weights."""
        return state.X if state.log_weights is None else None
