"""The contract that every energy keeps."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from .._utils.phases import Theta


class Energy(ABC):
    """Unnormalised log-probability ``log f(x; theta)`` as a value.

    This class is the core that all energies share. What only some energies can do is declared by
    the protocols in ``skmrf.energies.protocols``; algorithms ask for a protocol, never for a
    class.

    An energy never samples and never learns. Its arrays are not changed in place.

    Attributes
    ----------
    theta : dict of str to ndarray
        The parameters, named arrays of any shape.
    multiplicity : dict of str to int
        Number of entries of an array of ``theta`` that stand for one parameter, for the arrays
        where it is not 1: 2 for a symmetric matrix.
    """

    theta: Theta
    multiplicity: ClassVar[dict[str, int]] = {}

    @abstractmethod
    def with_theta(self, theta):
        """Return the same energy with other parameters; ``theta`` is neither checked nor copied."""

    @abstractmethod
    def log_potential(self, X):
        """Return ``log f`` of every row of states.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)

        Returns
        -------
        ndarray of shape (n_rows,)
            In nats; ``-inf`` for states of probability zero.
        """

    @abstractmethod
    def gradient(self, positive, negative, batch=None):
        """Return ``E_positive[d log f] - E_negative[d log f]``, arrays shaped like ``theta``.

        Parameters
        ----------
        positive, negative : phase of :mod:`skmrf.learners`
            What each expectation is estimated by; each phase is normalised by its own weights.
        batch : Batch, optional
            The rows of the step, which a conditional energy needs.

        Returns
        -------
        dict of str to ndarray
        """

    @abstractmethod
    def penalty_groups(self):
        """Return the group number of every parameter, shaped like ``theta``; -1: no penalty."""

    def at(self, batch):
        """Return the distribution that the rows of a batch are drawn from.

        A conditional energy returns its distribution given the inputs of the batch; any other
        energy returns itself.
        """
        return self

    def tempered(self, beta):
        """Return the energy of ``f ** beta``; zero potentials stay zero for ``beta > 0``."""
        if beta == 0:
            return self.with_theta({k: np.zeros_like(v) for k, v in self.theta.items()})
        return self.with_theta({k: beta * v for k, v in self.theta.items()})

    def interpolate(self, other, beta):
        """Return the energy at ``(1 - beta) * theta + beta * other.theta``."""
        if beta == 0:
            return self
        if beta == 1:
            return other
        mixed = {k: (1 - beta) * v + beta * other.theta[k] for k, v in self.theta.items()}
        return self.with_theta(mixed)
