"""First-order optimizers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from sklearn.base import BaseEstimator

from .._kernels.ascent import adam_sizes, adam_step, climb
from .._utils.parameters import check_choice

CHUNK = 2**16  # parameters that Adam moves in one call


class Optimizer(BaseEstimator, ABC):
    """Contract of first-order optimizers.

    Attributes
    ----------
    default_rate : float or None
        First value of an adaptive learning rate; None: that of the schedule.
    """

    default_rate = None

    @abstractmethod
    def init(self, theta):
        """Return the state before the first step, a dict of arrays.

        After an interrupted update the loop starts with it again.
        """

    @abstractmethod
    def step(self, theta, gradient, rate, state):
        """Return new theta, the step size of every parameter, and the new state.

        It may write into the arrays of the state and of the gradient, never into theta.
        """


class SGD(Optimizer):
    r"""Plain gradient ascent, :math:`\theta + \eta g`."""

    default_rate = 0.1

    def init(self, theta):
        return {}

    def step(self, theta, gradient, rate, state):
        moved = {k: np.ascontiguousarray(g) for k, g in gradient.items()}
        for k, v in theta.items():
            climb(v.reshape(-1), moved[k].reshape(-1), rate)
        return moved, dict.fromkeys(theta, rate), state


class Momentum(Optimizer):
    r"""Gradient ascent with momentum, :math:`m \leftarrow \mu m + g`, :math:`\theta + \eta m`.

    Parameters
    ----------
    momentum : float, default=0.9
    """

    default_rate = 0.02

    def __init__(self, momentum=0.9):
        self.momentum = momentum

    def init(self, theta):
        return {k: np.zeros_like(v) for k, v in theta.items()}

    def step(self, theta, gradient, rate, state):
        for k, v in theta.items():
            state[k] *= self.momentum
            state[k] += gradient[k]
            np.multiply(state[k], rate, out=gradient[k])
            gradient[k] += v
        return gradient, dict.fromkeys(theta, rate), state


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015).

    Parameters
    ----------
    beta_1, beta_2 : float, default=0.9, 0.999
        Decay of the running mean and mean square of the gradient.
    epsilon : float, default=1e-8
    """

    default_rate = 0.03

    def __init__(self, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def init(self, theta):
        names = "mean", "square"
        return {"t": 0} | {m: {k: np.zeros_like(v) for k, v in theta.items()} for m in names}

    def step(self, theta, gradient, rate, state):
        t = state["t"] + 1
        betas = self.beta_1, self.beta_2
        corrections = 1 / (1 - self.beta_1**t), (1 - self.beta_2**t) ** -0.5
        moved = {k: _output_array(v, gradient[k]) for k, v in theta.items()}
        for k, old in theta.items():
            arrays = old, gradient[k], state["mean"][k], state["square"][k], moved[k]
            flat = [a.reshape(-1) for a in arrays]
            sizes = np.empty(min(old.size, CHUNK), old.dtype)
            for s in range(0, old.size, CHUNK):
                *before, after = (a[s : s + CHUNK] for a in flat)
                part = sizes[: len(after)]
                adam_step(*before, betas, corrections, rate, self.epsilon, after, part)
        state = state | {"t": t}
        return moved, AdamSizes(state["square"], rate, corrections[1], self.epsilon), state


class AdamSizes(Mapping):
    """Step sizes of Adam, computed only where a proximal map needs them."""

    def __init__(self, squares, rate, correction, epsilon):
        self.squares = squares
        self.numbers = rate, correction, epsilon

    def __getitem__(self, k):
        sizes = np.empty_like(self.squares[k])
        adam_sizes(self.squares[k].reshape(-1), *self.numbers, sizes.reshape(-1))
        return sizes

    def __iter__(self):
        return iter(self.squares)

    def __len__(self):
        return len(self.squares)


def _output_array(theta, gradient):
    """Return an array for new parameters: that of the gradient if it can hold them."""
    fits = gradient.dtype == theta.dtype and gradient.flags.c_contiguous
    return gradient if fits and gradient.flags.writeable else np.empty(theta.shape, theta.dtype)


OPTIMIZERS = {"sgd": SGD, "momentum": Momentum, "adam": Adam}


def make_optimizer(optimizer, solvable, penalty, penalty_name):
    """Return an optimizer, or None for the deterministic solver.

    Parameters
    ----------
    optimizer : {"auto", "lbfgs", "adam", "sgd", "momentum"} or instance
    solvable : bool
        Whether the learner has a deterministic objective on these data.
    penalty : penalty of :mod:`skmrf.training`
    penalty_name : str
        Value of the parameter ``penalty`` of the estimator.

    Returns
    -------
    instance or None

    Raises
    ------
    ValueError
        An unknown name, or "lbfgs" without an objective.
    """
    if not isinstance(optimizer, str):
        if not isinstance(optimizer, Optimizer):
            raise ValueError(
                f"optimizer must be one of {sorted(('auto', 'lbfgs', *OPTIMIZERS))} or an instance "
                f"of a class of skmrf.training; got {optimizer!r}."
            )
        return optimizer
    check_choice("optimizer", optimizer, ("auto", "lbfgs", *OPTIMIZERS))
    if optimizer == "lbfgs" and not solvable:
        raise ValueError(
            'optimizer="lbfgs" needs a deterministic objective, which this learner does not have '
            f"on these data; use one of {sorted(OPTIMIZERS)}."
        )
    if optimizer == "lbfgs" or (optimizer == "auto" and solvable):
        return None
    if optimizer == "auto":
        grouped = not penalty.smooth and penalty_name == "group-l1"
        optimizer = "sgd" if grouped else "adam"
    return OPTIMIZERS[optimizer]()
