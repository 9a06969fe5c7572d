"""Base class of all energies."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from .._utils.namespaces import is_numpy
from .._utils.phases import Theta


class Energy(ABC):
    """Base class of energies, which compute a log-probability ``log f(x; theta)`` up to a constant.

    This class declares the methods that all energies have. The protocols in
    ``skmrf.energies.protocols`` declare the methods that only some energies have. Algorithms
    require a protocol, never a concrete class.

    An energy never samples and never learns. Its arrays are never changed in place.

    Attributes
    ----------
    theta : dict of str to ndarray
        The parameters: arrays of any shape, by name.
    multiplicity : dict of str to int
        Number of entries of an array of ``theta`` that hold the same parameter, by name of the
        array. It is 2 for a symmetric matrix. An array that is not listed has multiplicity 1.
    """

    theta: Theta
    multiplicity: ClassVar[dict[str, int]] = {}

    @abstractmethod
    def with_theta(self, theta):
        """Return the same energy with other parameters.

        Parameters
        ----------
        theta : dict of str to ndarray
            The new parameters, with the names and shapes of the attribute ``theta``. They are
            neither checked nor copied.

        Returns
        -------
        Energy
            An energy of the same class.
        """

    def n_device_entries(self, n_rows):
        """Return the number of entries of arrays on a device that have other shapes than theta.

        ``n_rows`` is the number of rows of states of an update. States are not counted.
        """
        return 0

    def device_arrays(self):
        """Return the index arrays that functions on a device of JAX need, a dict; {} by default."""
        return {}

    def with_device_arrays(self, arrays):
        """Return the same energy with the arrays of :meth:`device_arrays` on a device."""
        return self

    @abstractmethod
    def log_potential(self, X):
        """Return the unnormalised log-probability ``log f`` of each row of states.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)
            State codes of discrete variables and values of continuous variables.

        Returns
        -------
        ndarray of shape (n_rows,)
            ``log f`` in nats; ``-inf`` for states of probability zero.
        """

    @abstractmethod
    def gradient(self, positive, negative, batch=None):
        """Return the gradient of the log-likelihood from the data and the model expectations.

        The gradient is ``E[d log f / d theta]`` under the data minus that under the model, where
        ``f`` is the unnormalised probability.

        Parameters
        ----------
        positive : phase of :mod:`skmrf.learners`
            States or moments that estimate the data-dependent expectation. The weights of a phase
            are normalised within the phase.
        negative : phase of :mod:`skmrf.learners`
            States or moments that estimate the model-dependent expectation.
        batch : Batch, optional
            Rows of the gradient step. Only conditional energies need them.

        Returns
        -------
        dict of str to ndarray
            Gradient by each parameter, shaped like ``theta``.
        """

    @abstractmethod
    def penalty_groups(self):
        """Return the penalty group of each parameter.

        Returns
        -------
        dict of str to ndarray of int
            Group number of each parameter, shaped like ``theta``. Parameters with -1 are not
            penalised.
        """

    def at(self, batch):
        """Return the model given the inputs of a batch, or this model if it has no inputs.

        A conditional energy returns its distribution given the inputs of the batch. Any other
        energy returns itself.

        Parameters
        ----------
        batch : Batch
            Rows of the gradient step.

        Returns
        -------
        Energy
            Energy of the modelled variables.
        """
        return self

    def tempered(self, beta):
        """Return the tempered energy, which has the unnormalised probability ``f ** beta``.

        Parameters
        ----------
        beta : float
            Inverse temperature. Zero potentials stay zero for ``beta > 0``; ``beta = 0`` gives
            the energy with all parameters zero.

        Returns
        -------
        Energy
            An energy of the same class with the parameters ``beta * theta``.
        """
        if beta == 0:
            return self.with_theta({k: np.zeros_like(v) for k, v in self.theta.items()})
        return self.with_theta({k: beta * v for k, v in self.theta.items()})

    def interpolate(self, other, beta):
        """Return the energy with parameters ``(1 - beta) * theta + beta * other.theta``.

        Parameters
        ----------
        other : Energy
            Energy of the same class, with parameters of the same shapes.
        beta : float
            Position between this energy (0) and the other one (1).

        Returns
        -------
        Energy
            An energy of the same class.
        """
        if is_numpy(beta) and beta == 0:
            return self
        if is_numpy(beta) and beta == 1:
            return other
        mixed = {k: (1 - beta) * v + beta * other.theta[k] for k, v in self.theta.items()}
        return self.with_theta(mixed)
