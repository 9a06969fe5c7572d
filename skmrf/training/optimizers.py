"""First-order optimizers: gradient ascent, momentum and Adam."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from sklearn.base import BaseEstimator

from .._kernels.ascent import adam_step, adam_step_sizes, gradient_step
from .._utils.namespaces import own_array
from .._utils.parameters import check_choice, check_number


class Optimizer(BaseEstimator, ABC):
    """Base class of first-order optimizers.

    Attributes
    ----------
    default_rate : float or None
        Initial value of learning rates that are given by name. With None, the default of the
        schedule is used.
    is_linear : bool
        Whether a step is proportional to the learning rate times a sum of gradients. The loop then
        makes implicit steps on the penalty "l2", which do not diverge if the penalty is strong.
    """

    default_rate = None
    is_linear = False

    def check(self):
        """Raise a ValueError unless the parameters are valid. By default nothing is checked."""

    @abstractmethod
    def init(self, theta):
        """Return the optimizer's state before its first step, as a dict of arrays.

        After an interrupted update, the loop calls it again.
        """

    @abstractmethod
    def step(self, theta, gradient, rate, state):
        """Return the updated parameters, their step sizes, and the optimizer's new state.

        It may modify the arrays of the state and of the gradient, but never those of theta.
        """

    def pure_step(self, theta, gradient, rate, state):
        """Return the result of :meth:`step` for arrays of JAX, without modifying an array.

        An optimizer without this method works on numpy arrays only.
        """
        raise ValueError(
            f'The optimizer {type(self).__name__} has no pure_step. Use device="cpu", or '
            "implement it."
        )


class SGD(Optimizer):
    r"""Stochastic gradient ascent.

    Each step adds :math:`\eta g` to the parameters. Here :math:`\eta` is the learning rate, and
    :math:`g` is the estimate of the gradient.
    """

    default_rate = 0.1
    is_linear = True

    def init(self, theta):
        """Return an empty state, because SGD needs no state."""
        return {}

    def step(self, theta, gradient, rate, state):
        """Return the updated parameters, their step sizes, and the optimizer's state."""
        moved = {k: np.ascontiguousarray(g) for k, g in gradient.items()}
        for k, v in theta.items():
            gradient_step(v.reshape(-1), moved[k].reshape(-1), rate)
        return moved, dict.fromkeys(theta, rate), state

    def pure_step(self, theta, gradient, rate, state):
        """Return the result of :meth:`step` without modifying an array."""
        return (
            {k: v + rate * gradient[k] for k, v in theta.items()},
            dict.fromkeys(theta, rate),
            state,
        )


class Momentum(Optimizer):
    r"""Gradient ascent with momentum, :math:`m \leftarrow \mu m + g`, :math:`\theta + \eta m`.

    A constant gradient moves the parameters by :math:`\eta g / (1 - \mu)` per step, which is the
    step size for proximal maps.

    Parameters
    ----------
    momentum : float, default=0.9
        Decay factor :math:`\mu` of the accumulated gradient, at least 0 and less than 1.
    """

    default_rate = 0.02
    is_linear = True

    def __init__(self, momentum=0.9):
        self.momentum = momentum

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        check_number("momentum of Momentum", self.momentum, low=0, high=1, open_high=True)

    def init(self, theta):
        """Return the optimizer's state before its first step: zeros, shaped like theta."""
        return {k: np.zeros_like(v) for k, v in theta.items()}

    def step(self, theta, gradient, rate, state):
        """Return the updated parameters, their step sizes, and the optimizer's new state."""
        for k, v in theta.items():
            state[k] *= self.momentum
            state[k] += gradient[k]
            np.multiply(state[k], rate, out=gradient[k])
            gradient[k] += v
        return gradient, dict.fromkeys(theta, rate / (1.0 - self.momentum)), state

    def pure_step(self, theta, gradient, rate, state):
        """Return the result of :meth:`step` without modifying an array."""
        state = {k: self.momentum * v + gradient[k] for k, v in state.items()}
        moved = {k: v + rate * state[k] for k, v in theta.items()}
        return moved, dict.fromkeys(theta, rate / (1.0 - self.momentum)), state


class Adam(Optimizer):
    """Adam optimizer.

    Parameters
    ----------
    beta_1 : float, default=0.9
        Decay factor of the running mean of the gradient, at least 0 and less than 1.
    beta_2 : float, default=0.999
        Decay factor of the running mean square of the gradient, at least 0 and less than 1.
    epsilon : float, default=1e-8
        Constant that is added to the root mean square of the gradient, for numerical stability.

    References
    ----------
    Kingma, D. P., and Ba, J., "Adam: a method for stochastic optimization", ICLR (2015).
    """

    default_rate = 0.03

    def __init__(self, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        for name in ("beta_1", "beta_2"):
            check_number(f"{name} of Adam", getattr(self, name), low=0, high=1, open_high=True)
        check_number("epsilon of Adam", self.epsilon, low=0, open_low=True)

    def init(self, theta):
        """Return the optimizer's state before its first step: zeros, and a counter of steps."""
        names = "mean", "square"
        return {"t": 0} | {m: {k: np.zeros_like(v) for k, v in theta.items()} for m in names}

    def step(self, theta, gradient, rate, state):
        """Return the updated parameters, their step sizes, and the optimizer's new state."""
        t = state["t"] + 1
        betas = self.beta_1, self.beta_2
        corrections = 1 / (1 - self.beta_1**t), (1 - self.beta_2**t) ** -0.5
        moved = {k: own_array(gradient[k], v.dtype) for k, v in theta.items()}
        for k, old in theta.items():
            arrays = old, moved[k], state["mean"][k], state["square"][k]
            flat = [a.reshape(-1) for a in arrays]
            adam_step(*flat, betas, corrections, rate, self.epsilon)
        state = state | {"t": t}
        return moved, AdamSizes(state["square"], rate, corrections[1], self.epsilon), state

    def pure_step(self, theta, gradient, rate, state):
        """Return the result of :meth:`step` without modifying an array."""
        t, b1, b2 = state["t"] + 1, self.beta_1, self.beta_2
        mean = {k: b1 * v + (1 - b1) * gradient[k] for k, v in state["mean"].items()}
        square = {k: b2 * v + (1 - b2) * gradient[k] ** 2 for k, v in state["square"].items()}
        correction = (1 - b2**t) ** -0.5
        sizes = {k: rate / (v**0.5 * correction + self.epsilon) for k, v in square.items()}
        moved = {k: v + sizes[k] * mean[k] / (1 - b1**t) for k, v in theta.items()}
        return moved, sizes, {"t": t, "mean": mean, "square": square}


class AdamSizes(Mapping):
    """Mapping to Adam's step sizes of all parameters, which are computed on access."""

    def __init__(self, squares, rate, correction, epsilon):
        self.squares = squares
        self.constants = rate, correction, epsilon

    def __getitem__(self, k):
        """Return the step sizes of the parameters in one array of theta, given its name."""
        sizes = np.empty_like(self.squares[k])
        adam_step_sizes(self.squares[k].reshape(-1), *self.constants, sizes.reshape(-1))
        return sizes

    def __iter__(self):
        """Iterate over the names of the parameter arrays (the keys of theta)."""
        return iter(self.squares)

    def __len__(self):
        """Return the number of parameter arrays in theta."""
        return len(self.squares)


OPTIMIZERS = {"sgd": SGD, "momentum": Momentum, "adam": Adam}


def check_optimizer(optimizer, solvable=True):
    """Raise a ValueError unless the parameter ``optimizer`` of an estimator is valid.

    Parameters
    ----------
    optimizer : object
        Value of the parameter.
    solvable : bool, default=True
        Whether the learner may have a deterministic objective, which "lbfgs" needs.
    """
    if isinstance(optimizer, Optimizer):
        optimizer.check()
        return
    names = "auto", "lbfgs", *OPTIMIZERS
    if not isinstance(optimizer, str):
        raise ValueError(
            f"optimizer must be one of {sorted(names)} or an instance of a class of "
            f"skmrf.training; got {optimizer!r}."
        )
    check_choice("optimizer", optimizer, names)
    if optimizer == "lbfgs" and not solvable:
        raise ValueError(
            'optimizer="lbfgs" needs a deterministic objective. This learner has none, or not with '
            f"missing entries. Use one of {sorted(OPTIMIZERS)}, or another learner."
        )


def make_optimizer(optimizer, solvable, penalty, penalty_name):
    """Return an optimizer by name, or None for a deterministic solver.

    Parameters
    ----------
    optimizer : {"auto", "lbfgs", "adam", "sgd", "momentum"} or Optimizer
        Value of the parameter ``optimizer`` of the estimator. "lbfgs" selects a deterministic
        solver, and so does "auto" if ``solvable`` is True. Otherwise "auto" is "adam", or "sgd" for
        the penalty "group-l1".
    solvable : bool
        Whether the learner has a deterministic objective on these data.
    penalty : penalty of :mod:`skmrf.training`
        Penalty on the parameters.
    penalty_name : str
        Value of the parameter ``penalty`` of the estimator.

    Returns
    -------
    Optimizer or None
        Optimizer; None for a deterministic solver.

    Raises
    ------
    ValueError
        If the name is unknown, or if it is "lbfgs" and there is no deterministic objective.
    """
    check_optimizer(optimizer, solvable)
    if isinstance(optimizer, Optimizer):
        return optimizer
    if optimizer == "lbfgs" or (optimizer == "auto" and solvable):
        return None
    if optimizer == "auto":
        is_grouped = not penalty.smooth and penalty_name == "group-l1"
        optimizer = "sgd" if is_grouped else "adam"
    return OPTIMIZERS[optimizer]()
