"""The contract that every energy keeps."""

from abc import ABC, abstractmethod

import numpy as np

from .._utils.phases import Theta


class Energy(ABC):
    """Unnormalised log-probability ``log f(x; theta)`` as a value.

    ``theta`` maps names to arrays in which ``log f`` is linear (exponential families), so the
    geometric path between two parameter settings is a straight line in ``theta``.

    Data show the first variables, the *visible* ones; the others, if any, are latent. Chains and
    particles are states of the visible variables, with the latent ones summed out.

    Attributes
    ----------
    theta : dict of str to ndarray
    n_states : ndarray of shape (n_variables,)
        Number of states of every variable.
    """

    theta: Theta
    n_states: np.ndarray

    @property
    def n_variables(self):
        """Number of variables."""
        return len(self.n_states)

    @property
    def visible_states(self):
        """Number of states of every visible variable."""
        return self.n_states

    @property
    def has_latent(self):
        """Whether there are variables that data do not show."""
        return len(self.visible_states) < len(self.n_states)

    @property
    def sweep_work(self):
        """Work of a Gibbs sweep of one chain, in draws of one variable (about 20 ns)."""
        return float(self.n_variables)

    @abstractmethod
    def with_theta(self, theta):
        """The same energy with other parameters; ``theta`` is not copied."""

    def at(self, batch):
        """The distribution that rows of a batch are drawn from.

        Of a conditional energy: given the inputs of the batch.
        """
        return self

    @abstractmethod
    def log_potential(self, X):
        """``log f`` of every row of state codes, shape (n_rows,), in nats."""

    def log_marginal(self, V):
        """Log of ``f`` summed over the latent variables, of every row of visible state codes."""
        return self.log_potential(V)

    def along(self, other, V):
        """:meth:`log_marginal` of ``interpolate(other, beta)`` as a function of beta.

        What does not depend on beta is computed once.
        """
        first, last = self.log_marginal(V), other.log_marginal(V)

        def at(beta):
            if beta in (0, 1):  # the other end may be -inf
                return last if beta else first
            return (1 - beta) * first + beta * last

        return at

    def raised(self, V):
        r"""Log of ``f ** beta`` summed over the m latent states, by ``m ** (1 - beta)``.

        A function of beta: 0 at beta = 0, :meth:`log_marginal` at 1.
        """
        value = self.log_potential(V)
        return lambda beta: beta * value if beta else np.zeros_like(value)

    @abstractmethod
    def conditionals(self):
        """What a Gibbs kernel needs to know of ``p(x_i | rest)``, as arrays."""

    @abstractmethod
    def moments(self, phase):
        """Expected statistics under a phase, arrays shaped like ``theta``."""

    @abstractmethod
    def gradient(self, positive, negative, batch=None):
        """``E_positive[d log f] - E_negative[d log f]``, each phase by its own weights."""

    @abstractmethod
    def penalty_groups(self):
        """Group number of every parameter, shaped like ``theta``; -1 is not penalised."""

    @abstractmethod
    def factor_graph(self):
        """The same distribution as a :class:`FactorGraph`."""

    @abstractmethod
    def condition(self, evidence):
        """The energy of the other variables given ``{variable: state}``."""

    def tempered(self, beta):
        """The energy of ``f ** beta``; zero potentials stay zero for ``beta > 0``."""
        if beta == 0:
            return self.with_theta({k: np.zeros_like(v) for k, v in self.theta.items()})
        return self.with_theta({k: beta * v for k, v in self.theta.items()})

    def interpolate(self, other, beta):
        """The energy at ``(1 - beta) * theta + beta * other.theta``."""
        if beta == 0:
            return self
        if beta == 1:
            return other
        mixed = {k: (1 - beta) * v + beta * other.theta[k] for k, v in self.theta.items()}
        return self.with_theta(mixed)
