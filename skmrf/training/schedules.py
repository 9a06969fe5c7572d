"""Learning-rate schedules: constant, step, inverse, linear and adaptive.

A schedule gives the learning rate of each update ``t = 0, 1, ...``. A schedule object stores its
parameters only. The training loop passes each gradient to ``observe``, together with the state of
the schedule, which is small and can be pickled.
"""

import numpy as np
from sklearn.base import BaseEstimator

from .._utils.parameters import check_number

PAIRS = ("first", "second"), ("first", "first"), ("second", "second")


class _Schedule(BaseEstimator):
    """Base class of learning-rate schedules, which by default never end training."""

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        check_number(f"rate of {type(self).__name__}", self.rate, low=0, open_low=True)

    def init(self):
        """Return the state of the schedule before the first parameter update."""
        return {"t": 0}

    def last_stage(self):
        """Return the state in which ``partial_fit`` continues after the end of the schedule.

        By default the schedule starts anew.
        """
        return self.init()

    def observe(self, gradient, state, resolution):
        """Advance the schedule by one parameter update, given the gradient of this update.

        Parameters
        ----------
        gradient : dict of str to ndarray
            Gradient of the update, shaped like theta.
        state : dict
            State of the schedule before the update.
        resolution : float
            Squared norm below which a gradient counts as noise.

        Returns
        -------
        state : dict
            State after the update.
        is_new_stage : bool
            Whether a new stage of the schedule begins.
        is_done : bool
            Whether training ends.
        """
        return {"t": state["t"] + 1}, False, False

    def pure_state(self, state, theta):
        """Return the state with the numbers and arrays that :meth:`pure_observe` needs."""
        return state

    def pure_observe(self, gradient, state, resolution):
        """Return the result of :meth:`observe` for arrays of JAX, without modifying an array."""
        return self.observe(gradient, state, resolution)

    def new_window(self, state):
        """Return the schedule's state after an interruption, without sums of gradients."""
        return state


class ConstantRate(_Schedule):
    """Constant learning rate.

    Parameters
    ----------
    rate : float, default=0.1
        Learning rate, above 0.
    """

    def __init__(self, rate=0.1):
        self.rate = rate

    def value(self, state):
        """Return the learning rate of the next update."""
        return self.rate


class StepRate(_Schedule):
    """Learning rate that is multiplied by a factor at regular intervals.

    Parameters
    ----------
    rate : float, default=0.1
        Initial learning rate, above 0.
    drop : float, default=0.5
        Factor by which the rate is multiplied, above 0.
    every : int, default=1000
        Number of updates between two multiplications.
    """

    def __init__(self, rate=0.1, drop=0.5, every=1000):
        self.rate = rate
        self.drop = drop
        self.every = every

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        super().check()
        check_number("drop of StepRate", self.drop, low=0, open_low=True)
        check_number("every of StepRate", self.every, low=1, integer=True)

    def value(self, state):
        """Return the learning rate of the next update."""
        return self.rate * self.drop ** (state["t"] // self.every)


class InverseRate(_Schedule):
    """Learning rate ``1 / (a + b t)`` of update ``t``.

    Parameters
    ----------
    a : float, default=10.0
        Inverse of the initial rate, above 0.
    b : float, default=0.1
        Increase of the inverse rate per update, at least 0.
    """

    def __init__(self, a=10.0, b=0.1):
        self.a = a
        self.b = b

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        check_number("a of InverseRate", self.a, low=0, open_low=True)
        check_number("b of InverseRate", self.b, low=0)

    def value(self, state):
        """Return the learning rate of the next update."""
        return 1.0 / (self.a + self.b * state["t"])


class LinearRate(_Schedule):
    """Learning rate that falls linearly to zero, where training ends.

    The average of the iterates starts anew after half of the updates.

    Parameters
    ----------
    rate : float, default=0.05
        Initial learning rate, above 0.
    n_updates : int, default=400
        Number of updates after which the rate is zero.
    """

    def __init__(self, rate=0.05, n_updates=400):
        self.rate = rate
        self.n_updates = n_updates

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        super().check()
        check_number("n_updates of LinearRate", self.n_updates, low=1, integer=True)

    def value(self, state):
        """Return the learning rate of the next update."""
        t = state["t"]
        return self.rate * (1.0 - t / self.n_updates) * (t < self.n_updates)

    def observe(self, gradient, state, resolution):
        """Advance the schedule by one update; training ends after ``n_updates`` updates."""
        t = state["t"] + 1
        return {"t": t}, t == self.n_updates // 2, t >= self.n_updates


class AdaptiveRate(_Schedule):
    """Learning rate that is halved whenever the gradient is only noise.

    Gradients are averaged over the two halves of a window of updates. Far from the optimum, the two
    means have similar directions. If their cosine is below ``cosine``, the gradient is only noise.
    The rate is then halved, and the next window is 1.5 times as long. Training ends after
    ``n_halvings`` halvings, when the gradient is only noise once more. If the model is then trained
    further by ``partial_fit``, the rate remains at its last value.

    Parameters
    ----------
    rate : float, default=0.03
        Initial learning rate, above 0.
    window : int, default=100
        Number of updates in the first window, at least 2.
    cosine : float, default=0.2
        Cosine of the angle between the two mean gradients, from -1 to 1, below which the rate is
        halved. Larger values halve it earlier.
    n_halvings : int, default=6
        Number of halvings before training ends.
    """

    def __init__(self, rate=0.03, window=100, cosine=0.2, n_halvings=6):
        self.rate = rate
        self.window = window
        self.cosine = cosine
        self.n_halvings = n_halvings

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        super().check()
        check_number("window of AdaptiveRate", self.window, low=2, integer=True)
        check_number("cosine of AdaptiveRate", self.cosine, low=-1, high=1)
        check_number("n_halvings of AdaptiveRate", self.n_halvings, low=0, integer=True)

    def init(self):
        """Return the state of the schedule before the first parameter update."""
        return {"t": 0, "halvings": 0, "window": int(self.window), "first": None, "second": None}

    def last_stage(self):
        """Return the state after all halvings, so that the rate remains small."""
        return self.init() | {"halvings": self.n_halvings}

    def value(self, state):
        """Return the learning rate of the next update."""
        return self.rate * 0.5 ** state["halvings"]

    def new_window(self, state):
        """Return the schedule's state at the beginning of a new window of updates."""
        return dict(state, t=0, first=None, second=None)

    def observe(self, gradient, state, resolution):
        """Add a gradient to the window of updates; halve the rate if its mean is only noise."""
        state = dict(state, t=state["t"] + 1)
        half = "first" if state["t"] <= state["window"] // 2 else "second"
        if state[half] is None:
            state[half] = {k: g.copy() for k, g in gradient.items()}
        else:
            for k, g in gradient.items():
                state[half][k] += g
        if state["t"] < state["window"]:
            return state, False, False
        is_noise = (
            _cosine(state["first"], state["second"]) < self.cosine
            or _mean_square(state) < resolution
        )
        halvings = state["halvings"] + int(is_noise)
        window = int(state["window"] * 1.5) if is_noise else state["window"]
        state = {"t": 0, "halvings": halvings, "window": window, "first": None, "second": None}
        return state, is_noise, halvings > self.n_halvings

    def pure_state(self, state, theta):
        """Return the state for :meth:`pure_observe`: sums that are None become arrays of zeros."""
        zeros = {k: np.zeros_like(v) for k, v in theta.items()}
        return state | {half: state[half] or zeros for half in ("first", "second")}

    def pure_observe(self, gradient, state, resolution):
        """Return the result of :meth:`observe` for arrays of JAX, without modifying an array."""
        t, window, halvings = state["t"] + 1, state["window"], state["halvings"]
        is_first, is_end = 1 * (t <= window // 2), t >= window
        shares = {"first": is_first, "second": 1 - is_first}
        sums = {
            half: {k: v + share * gradient[k] for k, v in state[half].items()}
            for half, share in shares.items()
        }
        inner, first, second = (_inner(sums[a], sums[b]) for a, b in PAIRS)
        norms = (first * second) ** 0.5
        is_turned = inner / (norms + (norms == 0)) < self.cosine
        is_small = first + second + 2.0 * inner < resolution * window**2
        is_noise = (is_turned | is_small) & is_end
        halvings, window = halvings + is_noise, window + is_noise * (window // 2)
        goes_on = 1 - is_end
        state = {"t": t * goes_on, "halvings": halvings, "window": window}
        sums = {half: {k: v * goes_on for k, v in s.items()} for half, s in sums.items()}
        return state | sums, is_noise, is_end & (halvings > self.n_halvings)


def _inner(a, b):
    """Return the inner product of two dicts of arrays."""
    return sum((a[k] * b[k]).sum() for k in a)


def _mean_square(state):
    """Return the squared norm of the mean gradient in a window of updates."""
    first, second = state["first"], state["second"]
    total = sum(float(np.sum((first[k] + second[k]) ** 2)) for k in first)
    return total / state["window"] ** 2


def _cosine(a, b):
    """Return the cosine of the angle between two dicts of arrays, or 0 if one is zero."""
    inner = sum(float(np.vdot(a[k], b[k])) for k in a)
    norms = [np.sqrt(sum(float(np.vdot(v, v)) for v in x.values())) for x in (a, b)]
    return inner / (norms[0] * norms[1]) if norms[0] * norms[1] > 0 else 0.0


RATES = {
    "adaptive": AdaptiveRate,
    "constant": ConstantRate,
    "step": StepRate,
    "inverse": InverseRate,
}


def make_rate(rate, optimizer=None):
    """Return a learning-rate schedule from a name, a constant rate, or a schedule instance.

    Parameters
    ----------
    rate : {"adaptive", "constant", "step", "inverse"}, float or schedule
        Name of a schedule, positive number for a constant rate, or instance of a schedule.
    optimizer : Optimizer, optional
        Optimizer whose ``default_rate`` is the initial rate of a schedule that is given by name. By
        default, the schedule has its own default.

    Returns
    -------
    schedule
        Instance of a schedule.

    Raises
    ------
    ValueError
        If the name is unknown, the number is not positive, or a parameter of the instance is
        invalid.
    """
    if isinstance(rate, _Schedule):
        rate.check()
        return rate
    if not isinstance(rate, str):
        return ConstantRate(float(check_number("learning_rate", rate, low=0, open_low=True)))
    if rate not in RATES:
        raise ValueError(
            f"learning_rate must be one of {sorted(RATES)}, a number or a schedule of "
            f"skmrf.training; got {rate!r}."
        )
    initial_rate = None if optimizer is None else optimizer.default_rate
    if initial_rate is None:
        return RATES[rate]()
    if rate == "inverse":
        return InverseRate(a=1.0 / initial_rate, b=0.01 / initial_rate)
    return RATES[rate](rate=initial_rate)
