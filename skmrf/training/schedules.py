"""Learning-rate schedules. ``observe(gradient)`` is told every gradient of the loop.

Rates are per update ``t = 0, 1, ...``. A schedule is a value of parameters plus a small state that
pickles with the fit.
"""

import numpy as np
from sklearn.base import BaseEstimator

from .._utils.parameters import check_number


class _Rate(BaseEstimator):
    """A schedule that never says that learning is done."""

    def init(self):
        """State before the first update."""
        return {"t": 0}

    def observe(self, gradient, state, resolution):
        """Advance by one update; return (state, whether a new stage begins, whether done).

        ``resolution`` is the squared norm of a gradient too small to matter.
        """
        return {"t": state["t"] + 1}, False, False

    def new_window(self, state):
        """The state without sums of gradients, which an interrupted update may have changed."""
        return state


class ConstantRate(_Rate):
    """The same rate throughout.

    Parameters
    ----------
    rate : float, default=0.1
    """

    def __init__(self, rate=0.1):
        self.rate = rate

    def value(self, state):
        """Rate of the next update."""
        return self.rate


class StepRate(_Rate):
    """Multiplied by ``drop`` every ``every`` updates.

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
        """Rate of the next update."""
        return self.rate * self.drop ** (state["t"] // self.every)


class InverseRate(_Rate):
    """``1 / (a + b t)``.

    Parameters
    ----------
    a, b : float
    """

    def __init__(self, a=10.0, b=0.1):
        self.a = a
        self.b = b

    def value(self, state):
        """Rate of the next update."""
        return 1.0 / (self.a + self.b * state["t"])


class AdaptiveRate(_Rate):
    """Halved whenever the gradient has become noise; done after enough halvings.

    Gradients are averaged over the two halves of a window. While there is progress to be made the
    two means point the same way; when their cosine falls below ``cosine`` the parameters wander
    about the optimum, so the rate is halved and the next window is longer by half. After
    ``n_halvings`` of them learning is done.

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
        return {"t": 0, "halvings": 0, "window": int(self.window), "first": None, "second": None}

    def value(self, state):
        """Rate of the next update."""
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
        settled = (
            _cosine(state["first"], state["second"]) < self.cosine
            or _mean_square(state) < resolution
        )
        halvings = state["halvings"] + int(settled)
        window = int(state["window"] * 1.5) if settled else state["window"]
        state = {"t": 0, "halvings": halvings, "window": window, "first": None, "second": None}
        return state, settled, halvings > self.n_halvings


def _mean_square(state):
    """Squared norm of the mean gradient of a window."""
    first, second = state["first"], state["second"]
    total = sum(float(np.sum((first[k] + second[k]) ** 2)) for k in first)
    return total / state["window"] ** 2


def _cosine(a, b):
    """Cosine of the angle between two dicts of arrays; 0 where one is zero."""
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
    """A schedule from its name, a number (constant) or an instance.

    Schedules chosen by name start at the default rate of the optimizer.

    Parameters
    ----------
    rate : {"adaptive", "constant", "step", "inverse"}, float or schedule
    optimizer : optional
        Whose ``default_rate`` schedules by name begin at.

    Returns
    -------
    schedule

    Raises
    ------
    ValueError
        An unknown name, or a number that is not positive.
    """
    if isinstance(rate, _Rate):
        return rate
    if not isinstance(rate, str):
        return ConstantRate(check_number("learning_rate", rate, low=0, open_low=True))
    if rate not in RATES:
        raise ValueError(
            f"learning_rate must be one of {sorted(RATES)}, a number or a schedule of "
            f"skmrf.training; got {rate!r}."
        )
    first = getattr(optimizer, "default_rate", None)
    if first is None:
        return RATES[rate]()
    if rate == "inverse":
        return InverseRate(a=1.0 / first, b=0.01 / first)
    return RATES[rate](rate=first)
