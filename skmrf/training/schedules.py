"""Learning-rate schedules.

Rates are per update ``t = 0, 1, ...``. A schedule holds parameters only; the loop passes every
gradient to ``observe``, with a small state that pickles.
"""

import numpy as np
from sklearn.base import BaseEstimator

from .._utils.parameters import check_number


class _Schedule(BaseEstimator):
    """Schedule that never ends training."""

    def init(self):
        """Return the state before the first update."""
        return {"t": 0}

    def observe(self, gradient, state, resolution):
        """Advance by one update; return the state, whether a new stage begins, and whether done.

        ``resolution`` is the squared norm below which a gradient counts as noise.
        """
        return {"t": state["t"] + 1}, False, False

    def new_window(self, state):
        """Return the state without sums of gradients, which an interrupted update may change."""
        return state


class ConstantRate(_Schedule):
    """Constant rate.

    Parameters
    ----------
    rate : float, default=0.1
    """

    def __init__(self, rate=0.1):
        self.rate = rate

    def value(self, state):
        """Return the rate of the next update."""
        return self.rate


class StepRate(_Schedule):
    """Rate that is multiplied by ``drop`` every ``every`` updates.

    Parameters
    ----------
    rate, drop : float
    every : int
    """

    def __init__(self, rate=0.1, drop=0.5, every=1000):
        self.rate = rate
        self.drop = drop
        self.every = every

    def value(self, state):
        """Return the rate of the next update."""
        return self.rate * self.drop ** (state["t"] // self.every)


class InverseRate(_Schedule):
    """Rate ``1 / (a + b t)``.

    Parameters
    ----------
    a, b : float
    """

    def __init__(self, a=10.0, b=0.1):
        self.a = a
        self.b = b

    def value(self, state):
        """Return the rate of the next update."""
        return 1.0 / (self.a + self.b * state["t"])


class AdaptiveRate(_Schedule):
    """Rate that is halved whenever the gradient is only noise.

    Gradients are averaged over the two halves of a window. Far from the optimum the two means have
    similar directions. When their cosine falls below ``cosine``, the rate is halved and the next
    window is longer by half. After ``n_halvings`` halvings training ends.

    Parameters
    ----------
    rate : float, default=0.03
    window : int, default=100
        Updates of the first window.
    cosine : float, default=0.2
    n_halvings : int, default=6
    """

    def __init__(self, rate=0.03, window=100, cosine=0.2, n_halvings=6):
        self.rate = rate
        self.window = window
        self.cosine = cosine
        self.n_halvings = n_halvings

    def init(self):
        """Return the state before the first update."""
        return {"t": 0, "halvings": 0, "window": int(self.window), "first": None, "second": None}

    def value(self, state):
        """Return the rate of the next update."""
        return self.rate * 0.5 ** state["halvings"]

    def new_window(self, state):
        return dict(state, t=0, first=None, second=None)

    def observe(self, gradient, state, resolution):
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


def _mean_square(state):
    """Return the squared norm of the mean gradient of a window."""
    first, second = state["first"], state["second"]
    total = sum(float(np.sum((first[k] + second[k]) ** 2)) for k in first)
    return total / state["window"] ** 2


def _cosine(a, b):
    """Return the cosine of the angle between two dicts of arrays; 0 where one is zero."""
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
    """Return a schedule by name, a constant rate for a number, or the instance itself.

    A schedule by name starts at the default rate of the optimizer.

    Parameters
    ----------
    rate : {"adaptive", "constant", "step", "inverse"}, float or schedule
    optimizer : optional
        Its ``default_rate`` is the first rate of schedules by name.

    Returns
    -------
    schedule

    Raises
    ------
    ValueError
        An unknown name, or a number that is not positive.
    """
    if isinstance(rate, _Schedule):
        return rate
    if not isinstance(rate, str):
        return ConstantRate(check_number("learning_rate", rate, low=0, open_low=True))
    if rate not in RATES:
        raise ValueError(
            f"learning_rate must be one of {sorted(RATES)}, a number or a schedule of "
            f"skmrf.training; got {rate!r}."
        )
    first = None if optimizer is None else optimizer.default_rate
    if first is None:
        return RATES[rate]()
    if rate == "inverse":
        return InverseRate(a=1.0 / first, b=0.01 / first)
    return RATES[rate](rate=first)
