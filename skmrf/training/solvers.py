"""Solvers of deterministic objectives: L-BFGS, and FISTA where the penalty has a kink.

A solver moves an energy by one iteration at a time. What the next one needs is a state that
pickles, so that a solver which was stopped goes on bit for bit.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .line_search import wolfe_point

MEMORY = 20  # pairs
LEAST_GAIN = 1e-15  # of the objective, relative; less is rounding
LEAST_NORM = 1e-12


@dataclass(frozen=True)
class SolverState:
    """Where a solver is, besides the energy.

    Attributes
    ----------
    value : float
        Objective less penalty.
    norm : float
        Largest entry of the (proximal) gradient.
    over : bool
        Whether there is nothing left to do, or to be done.
    converged : bool
        Whether it is over at a maximum, as far as that can be told.
    """

    value: float
    norm: float
    over: bool = False
    converged: bool = False


@dataclass(frozen=True)
class LBFGSState(SolverState):
    """What L-BFGS knows at the current parameters.

    Attributes
    ----------
    gradient : dict
        Of the objective less penalty.
    pairs : tuple of (ndarray, ndarray, float)
        Of the last steps: the way, how much the gradient fell, and one over their product; all
        parameters in one vector.
    scale : float
        Inverse curvature of the last step.
    """

    gradient: Any = None
    pairs: tuple = ()
    scale: float = 1.0


@dataclass(frozen=True)
class FISTAState(SolverState):
    """What FISTA knows at the current parameters.

    Attributes
    ----------
    ahead : dict or None
        Parameters that the next step is made from, where not the current ones.
    known : (float, dict) or None
        Objective and gradient there, where they were found already.
    momentum : float
    size : float
        Of a step.
    """

    ahead: Any = None
    known: Any = None
    momentum: float = 1.0
    size: float = 1.0


def maximise_deterministic(energy, objective, penalty, *, max_iter, tol, copies=None):
    """Maximise ``objective(energy) - penalty``.

    Parameters
    ----------
    energy : Energy
        Start.
    objective : callable, energy -> (value, gradient)
    penalty : penalty of :mod:`skmrf.training`
    max_iter : int
    tol : float
        Stop when the largest entry of the (proximal) gradient is at most this.
    copies : dict, optional
        As of :func:`make_solver`.

    Returns
    -------
    energy : Energy
    converged : bool
    """
    solver = make_solver(objective, penalty, tol, copies)
    at = solver.start(energy)
    for _ in range(max_iter):
        if at.over:
            break
        energy, at = solver.step(energy, at)
    return energy, at.converged


def make_solver(objective, penalty, tol, copies=None):
    """What maximises ``objective(energy) - penalty``.

    Parameters
    ----------
    objective : callable, energy -> (value, gradient)
    penalty : penalty of :mod:`skmrf.training`
    tol : float
        Largest entry of the (proximal) gradient at a maximum.
    copies : dict, optional
        How often the entries of an array of theta stand for one parameter: 2 for a symmetric
        matrix. Gradients are by parameters, so that the derivative by a single entry is that
        fraction of them.

    Returns
    -------
    LBFGS or FISTA
    """
    return (LBFGS if penalty.smooth else FISTA)(objective, penalty, tol, copies)


class LBFGS:
    """Quasi-Newton steps from the last 20 changes of the gradient, and a Wolfe line search.

    Parameters are moved in double precision.

    Parameters
    ----------
    objective, penalty, tol, copies
        As of :func:`make_solver`.

    References
    ----------
    J. Nocedal and S. J. Wright, "Numerical optimization" (2006), algorithms 7.4 and 7.5.
    """

    def __init__(self, objective, penalty, tol, copies=None):
        self.objective = objective
        self.penalty = penalty
        self.tol = max(tol, LEAST_NORM)
        self.copies = copies or {}

    def start(self, energy):
        """State before the first iteration."""
        value, gradient = self._at(energy)
        length = np.sqrt(_inner(gradient, gradient, self.copies))
        scale = 1.0 / length if length > 0 else 1.0
        return self._state(value, gradient, (), scale)

    def step(self, energy, at):
        """The energy after one more iteration, and the state."""
        direction = _newton(at.gradient, at.pairs, at.scale, self.copies)
        gain = _inner(at.gradient, direction, self.copies)
        rounding = LEAST_GAIN * max(1.0, abs(at.value))
        if at.pairs and 0 <= gain <= rounding:
            return energy, replace(at, over=True, converged=True)
        found = self._search(energy, at, direction)
        if found is None and at.pairs:
            at = replace(at, pairs=())
            direction = {k: at.scale * g for k, g in at.gradient.items()}
            found = self._search(energy, at, direction)
        if found is None:
            return energy, replace(at, over=True, converged=False)
        pairs, scale = self._remembered(at, found, direction)
        after = self._state(found.value, found.gradient, pairs, scale)
        if found.value - at.value <= LEAST_GAIN * max(1.0, abs(at.value), abs(found.value)):
            after = replace(after, over=True, converged=True)
        return found.energy, after

    def _at(self, energy):
        """Objective less penalty, and its gradient."""
        value, gradient = self.objective(energy)
        pull = self.penalty.gradient(energy.theta)
        gradient = {k: np.array(g, dtype=float) for k, g in gradient.items()}
        for k, p in (pull or {}).items():
            gradient[k] -= p
        return float(value - self.penalty.value(energy.theta)), gradient

    def _state(self, value, gradient, pairs, scale):
        norm = _largest(gradient)
        converged = norm <= self.tol
        return LBFGSState(value, norm, converged, converged, gradient, pairs, scale)

    def _search(self, energy, at, direction):
        """A better point in this direction, or None."""
        theta = {k: np.asarray(v, dtype=float) for k, v in energy.theta.items()}

        def visit(step):
            moved = energy.with_theta({k: v + step * direction[k] for k, v in theta.items()})
            value, gradient = self._at(moved)
            return Trial(step, value, _inner(gradient, direction, self.copies), moved, gradient)

        slope = _inner(at.gradient, direction, self.copies)
        return wolfe_point(visit, Trial(0.0, at.value, slope, energy, at.gradient))

    def _remembered(self, at, found, direction):
        """Pairs and scale after a step, which is left out where the objective was not concave."""
        way = found.step * _flat(direction, self.copies)
        fall = _flat(at.gradient, self.copies) - _flat(found.gradient, self.copies)
        product, square = float(way @ fall), float(fall @ fall)
        if product <= np.finfo(float).eps * square:
            return at.pairs, at.scale
        return (*at.pairs[1 - MEMORY :], (way, fall, 1.0 / product)), product / square


@dataclass(frozen=True)
class Trial:
    """A point of a line search.

    Attributes
    ----------
    step : float
    value : float
    slope : float
        Derivative of the value by the step.
    energy : Energy
    gradient : dict
    """

    step: float
    value: float
    slope: float
    energy: Any
    gradient: Any


def _newton(gradient, pairs, scale, copies):
    """Inverse curvature times the gradient, by the two loops over pairs."""
    out, shares = _flat(gradient, copies), []
    for way, fall, over in reversed(pairs):
        shares.append(over * (way @ out))
        out -= shares[-1] * fall
    out *= scale
    for way, fall, over in pairs:
        out += (shares.pop() - over * (fall @ out)) * way
    return _arrays(out, gradient, copies)


def _flat(arrays, copies):
    """All entries in one vector, scaled so that inner products are over parameters."""
    return np.concatenate([v.ravel() / np.sqrt(copies.get(k, 1)) for k, v in arrays.items()])


def _arrays(vector, like, copies):
    """The arrays of which :func:`_flat` is the vector, shaped like others."""
    parts = np.split(vector, np.cumsum([v.size for v in like.values()])[:-1])
    return {
        k: part.reshape(v.shape) * np.sqrt(copies.get(k, 1))
        for part, (k, v) in zip(parts, like.items(), strict=True)
    }


def _largest(arrays):
    return max((float(np.abs(v).max(initial=0.0)) for v in arrays.values()), default=0.0)


def _inner(a, b, copies):
    """Inner product over parameters."""
    return sum(float(np.vdot(a[k], b[k])) / copies.get(k, 1) for k in a)


class FISTA:
    """Accelerated proximal gradient with backtracking and restarts.

    Parameters
    ----------
    objective, penalty, tol, copies
        As of :func:`make_solver`.

    References
    ----------
    A. Beck and M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse
    problems", SIAM Journal on Imaging Sciences 2 (2009).
    """

    def __init__(self, objective, penalty, tol, copies=None):
        self.objective = objective
        self.penalty = penalty
        self.tol = tol
        self.copies = copies or {}

    def start(self, energy):
        """State before the first iteration."""
        return FISTAState(-np.inf, np.inf)

    def step(self, energy, at):
        """The energy after one more iteration, and the state."""
        theta = energy.theta
        ahead = theta if at.ahead is None else at.ahead
        value, gradient = at.known or self.objective(energy.with_theta(ahead))
        new, size, reached = self._proximal(energy, ahead, value, gradient, at.size)
        mapping = max(np.abs(new[k] - ahead[k]).max(initial=0.0) / size for k in new)
        back = {k: ahead[k] - new[k] for k in new}
        turned = _inner(back, {k: new[k] - theta[k] for k in new}, self.copies) > 0
        momentum = 1.0 if turned else 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * at.momentum**2))
        push = 0.0 if turned else (at.momentum - 1.0) / momentum
        following = {k: new[k] + push * (new[k] - theta[k]) for k in new} if push else None
        moved, done = energy.with_theta(new), bool(mapping <= self.tol)
        return moved, FISTAState(
            float(reached[0] - self.penalty.value(new)),
            float(mapping),
            done,
            done,
            following,
            None if push else reached,
            momentum,
            1.1 * size,
        )

    def _proximal(self, energy, theta, value, gradient, size):
        """Halve the step until the quadratic model is a lower bound."""
        while True:
            moved = {k: v + size * gradient[k] for k, v in theta.items()}
            new = self.penalty.prox(moved, dict.fromkeys(theta, size))
            change = {k: new[k] - theta[k] for k in theta}
            slope = {k: gradient[k] - change[k] / (2 * size) for k in theta}
            model = value + _inner(slope, change, self.copies)
            reached = self.objective(energy.with_theta(new))
            if reached[0] >= model - 1e-12 * max(1.0, abs(model)) or size < 1e-12:
                return new, size, reached
            size *= 0.5
