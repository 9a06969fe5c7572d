"""Solvers of deterministic objectives: L-BFGS, and FISTA for non-smooth penalties.

A solver makes one iteration at a time. Its state can be pickled, and a solver that continues from
a pickled state gives the same result, bit for bit.

Solvers use reverse communication: the methods ``start`` and ``step`` of a solver are generators.
Each generator yields an energy where it needs the objective. The caller then sends the value and
the gradient of the objective to the generator. At the end the generator returns its result.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._kernels.ascent import add_and_project
from .._utils.namespaces import difference

C1 = 1e-4  # sufficient increase condition: minimum ratio of the mean slope to the first slope
C2 = 0.9  # curvature condition: maximum ratio of the last slope to the first slope
GROWTH = 4.0
MARGIN = 0.1  # relative distance of an interpolated step from the ends of its interval
MAX_TRIALS = 20
ROUNDING = 1e-14  # relative rounding error of values
MEMORY = 20  # number of L-BFGS pairs
MIN_MEMORY, MAX_MEMORY_ENTRIES = 5, 5e6  # many parameters have fewer pairs
MIN_GAIN = 1e-15  # relative increase of the objective; a smaller one is a rounding error
MIN_TOL = 1e-12
MIN_STEP_SIZE = 1e-12


@dataclass(frozen=True)
class SolverState:
    """State of a solver of a deterministic objective, without the energy.

    Attributes
    ----------
    value : float
        Objective minus penalty.
    gradient_max : float
        Largest entry of the (proximal) gradient.
    is_done : bool
        Whether the solver has converged or cannot improve the objective.
    converged : bool
        Whether the solver is done at a maximum, up to ``tol`` or rounding.
    """

    value: float
    gradient_max: float
    is_done: bool = False
    converged: bool = False

    @property
    def diagnostics(self):
        """Diagnostics of the last iteration, which ``history_`` stores."""
        return {"objective": self.value, "gradient_max": self.gradient_max}


@dataclass(frozen=True)
class LBFGSState(SolverState):
    r"""State of L-BFGS at the current parameters.

    Attributes
    ----------
    gradient : dict
        Gradient of the objective minus penalty.
    pairs : tuple of (ndarray, ndarray, float)
        Pairs :math:`(s, y, \rho)` of the last steps: change of the parameters, decrease of the
        gradient, and :math:`1 / y^\top s`. The vectors contain all parameters.
    gamma : float
        Scale :math:`s^\top y / y^\top P y` of the initial inverse Hessian P.
    n_small : int
        Number of successive iterations, up to the last one, whose increase was small.
    """

    gradient: Any = None
    pairs: tuple = ()
    gamma: float = 1.0
    n_small: int = 0


@dataclass(frozen=True)
class FISTAState(SolverState):
    """State of FISTA at the current parameters.

    Attributes
    ----------
    extrapolated : dict or None
        Extrapolated parameters from which the next step starts; None for the current parameters.
    evaluated : (float, dict) or None
        Objective and gradient at these parameters, or None if they have not been computed.
    momentum : float
        Momentum coefficient :math:`t_k`.
    step_size : float
        Step size at which backtracking starts.
    """

    extrapolated: Any = None
    evaluated: Any = None
    momentum: float = 1.0
    step_size: float = 1.0


def make_solver(penalty, tol, multiplicity=None, min_gain=0.0, precondition=None, **stop):
    """Return a solver that maximises an objective minus a penalty.

    Parameters
    ----------
    penalty : penalty of :mod:`skmrf.training`
        Penalty. FISTA is used if it is not smooth.
    tol : float
        Largest entry of the (proximal) gradient at which the solver has converged.
    multiplicity : dict of str to int, optional
        Number of entries of an array of theta that are the same parameter, such as 2 for a
        symmetric matrix. By default 1. Gradients are derivatives by parameters, so the derivative
        by one entry is the gradient divided by the multiplicity.
    min_gain : float, default=0
        Increase of the objective in one iteration, in nats, at which L-BFGS has converged.
    precondition : callable, optional
        Approximate inverse Hessian for L-BFGS: a function from a vector of all parameters to a
        vector. By default the identity.
    **stop
        Parameters of :class:`LBFGS`: "n_small_gains" and "max_gradient".

    Returns
    -------
    LBFGS or FISTA
        Solver.
    """
    if penalty.smooth:
        return LBFGS(penalty, tol, multiplicity, min_gain, precondition, **stop)
    return FISTA(penalty, tol, multiplicity)


class LBFGS:
    """L-BFGS with the last 5 to 20 steps and a line search for the strong Wolfe conditions.

    It computes in double precision. The first five parameters are those of :func:`make_solver`.

    Parameters
    ----------
    penalty, tol, multiplicity, min_gain, precondition
        As in :func:`make_solver`.
    n_small_gains : int, default=1
        Number of successive increases of at most ``min_gain`` at which L-BFGS has converged.
    max_gradient : float, default=inf
        Largest entry of the gradient at which an increase of at most ``min_gain`` counts.

    References
    ----------
    J. Nocedal and S. J. Wright, "Numerical optimization" (2006), algorithms 7.4 and 7.5.
    """

    def __init__(
        self, penalty, tol, multiplicity=None, min_gain=0.0, precondition=None, *,
        n_small_gains=1, max_gradient=np.inf,
    ):  # fmt: skip
        self.penalty = penalty
        self.tol = max(tol, MIN_TOL)
        self.multiplicity = multiplicity or {}
        self.min_gain = min_gain
        self.precondition = precondition
        self.n_small_gains = n_small_gains
        self.max_gradient = max_gradient

    def start(self, energy):
        """Return the state of the solver before the first iteration."""
        value, gradient = yield from self._evaluate(energy)
        length = np.sqrt(_inner(gradient, gradient, self.multiplicity))
        is_scaled = self.precondition is not None or length == 0.0
        return self._state(value, gradient, (), 1.0 if is_scaled else 1.0 / length)

    def step(self, energy, state):
        """Return the energy and the solver's state after one more iteration."""
        direction = self._newton_direction(state)
        slope = _inner(state.gradient, direction, self.multiplicity)
        if state.pairs and 0 <= slope <= MIN_GAIN * max(1.0, abs(state.value)):
            return energy, replace(state, is_done=True, converged=True)
        point = yield from self._search(energy, state, direction)
        if point is None and state.pairs:
            state = replace(state, pairs=())
            direction = self._newton_direction(state)
            point = yield from self._search(energy, state, direction)
        if point is None:
            return energy, replace(state, is_done=True, converged=False)
        pairs, gamma = self._update_pairs(state, point, direction)
        new = self._state(point.value, point.gradient, pairs, gamma)
        gain = point.value - state.value
        is_small = gain <= self.min_gain and new.gradient_max <= self.max_gradient
        if state.pairs and is_small:  # the first step has an arbitrary length
            new = replace(new, n_small=state.n_small + 1)
        rounding = MIN_GAIN * max(1.0, abs(state.value), abs(point.value))
        if gain <= rounding or new.n_small >= self.n_small_gains:
            new = replace(new, is_done=True, converged=True)
        return point.energy, new

    def _evaluate(self, energy):
        """Return the objective minus the penalty at an energy, and its gradient."""
        value, gradient = yield energy
        penalty_gradient = self.penalty.gradient(energy.theta)
        gradient = {k: np.array(g, dtype=float) for k, g in gradient.items()}
        for k, g in (penalty_gradient or {}).items():
            gradient[k] -= g
        return float(value - self.penalty.value(energy.theta)), gradient

    def _state(self, value, gradient, pairs, gamma):
        gradient_max = _max_abs(gradient)
        converged = gradient_max <= self.tol
        return LBFGSState(value, gradient_max, converged, converged, gradient, pairs, gamma)

    def _newton_direction(self, state):
        """Return the approximate inverse Hessian times the gradient, by the L-BFGS recursion."""
        q, alphas, last = _to_vector(state.gradient, self.multiplicity), [], 0.0
        change = np.zeros_like(q)
        for s, y, rho in reversed(state.pairs):
            alphas.append(rho * add_and_project(q, change, -last, s))
            change, last = y, alphas[-1]
        add_and_project(q, change, -last, q)
        q, last = state.gamma * self._scale(q), 0.0
        for s, y, rho in state.pairs:
            slope = add_and_project(q, change, last, y)
            change, last = s, alphas.pop() - rho * slope
        add_and_project(q, change, last, q)
        return _to_arrays(q, state.gradient, self.multiplicity)

    def _scale(self, vector):
        """Return the initial inverse Hessian times a vector, up to the factor gamma."""
        return vector if self.precondition is None else self.precondition(vector)

    def _search(self, energy, state, direction):
        """Search along a direction; return the point found, or None if no point is better."""
        theta = {k: np.asarray(v, dtype=float) for k, v in energy.theta.items()}

        def evaluate(step):
            moved = energy.with_theta({k: v + step * direction[k] for k, v in theta.items()})
            value, gradient = yield from self._evaluate(moved)
            slope = _inner(gradient, direction, self.multiplicity)
            return Trial(step, value, slope, moved, gradient)

        slope = _inner(state.gradient, direction, self.multiplicity)
        first = Trial(0.0, state.value, slope, energy, state.gradient)
        return (yield from wolfe_point(evaluate, first))

    def _update_pairs(self, state, point, direction):
        """Return the updated L-BFGS pairs and the scale of the initial inverse Hessian."""
        s = point.step * _to_vector(direction, self.multiplicity)
        y = _to_vector(state.gradient, self.multiplicity)
        y = y - _to_vector(point.gradient, self.multiplicity)
        sy, yy = _dot(s, y), _dot(y, self._scale(y))
        if sy <= np.finfo(float).eps * yy:
            return state.pairs, state.gamma
        n_pairs = int(np.clip(MAX_MEMORY_ENTRIES / max(s.size, 1), MIN_MEMORY, MEMORY))
        return (*state.pairs[1 - n_pairs :], (s, y, 1.0 / sy)), sy / yy


@dataclass(frozen=True)
class Trial:
    """Trial point of a line search: step length, objective, slope, energy and gradient.

    Attributes
    ----------
    step : float
        Length of the step along the direction.
    value : float
        Objective minus penalty.
    slope : float
        Derivative of the value by the step.
    energy : Energy
        Energy at the point.
    gradient : dict of str to ndarray
        Gradient at the point, shaped like theta.
    """

    step: float
    value: float
    slope: float
    energy: Any
    gradient: Any


def _to_vector(arrays, multiplicity):
    """Concatenate arrays to a vector, scaled so that inner products count each parameter once."""
    return np.concatenate([v.ravel() / np.sqrt(multiplicity.get(k, 1)) for k, v in arrays.items()])


def _to_arrays(vector, like, multiplicity):
    """Split a vector from :func:`_to_vector` into arrays with the shapes of ``like``."""
    parts = np.split(vector, np.cumsum([v.size for v in like.values()])[:-1])
    return {
        k: part.reshape(v.shape) * np.sqrt(multiplicity.get(k, 1))
        for part, (k, v) in zip(parts, like.items(), strict=True)
    }


def _max_abs(arrays):
    return max((float(np.abs(v).max(initial=0.0)) for v in arrays.values()), default=0.0)


def _inner(a, b, multiplicity):
    """Return the inner product of two dicts of arrays, counting each parameter once."""
    return sum(_dot(a[k], b[k]) / multiplicity.get(k, 1) for k in a)


def _differences(a, b):
    return {k: difference(v, b[k]) for k, v in a.items()}


def _dot(a, b):
    """Return the inner product of two arrays, computed by one thread."""
    return float(np.einsum("i,i", a.ravel(), b.ravel()))


class FISTA:
    """Accelerated proximal gradient with backtracking and adaptive restarts (FISTA).

    The parameters are those of :func:`make_solver`.

    References
    ----------
    A. Beck and M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse
    problems", SIAM Journal on Imaging Sciences 2 (2009).

    B. O'Donoghue and E. Candès, "Adaptive restart for accelerated gradient schemes", Foundations of
    Computational Mathematics 15 (2015): adaptive restarts.
    """

    def __init__(self, penalty, tol, multiplicity=None):
        self.penalty = penalty
        self.tol = tol
        self.multiplicity = multiplicity or {}

    def start(self, energy):
        """Return the state of the solver before the first iteration."""
        yield from ()
        return FISTAState(-np.inf, np.inf)

    def step(self, energy, state):
        """Return the energy and the solver's state after one more iteration."""
        base = energy.theta if state.extrapolated is None else state.extrapolated
        value, gradient = state.evaluated or (yield energy.with_theta(base))
        new, step_size, evaluated = yield from self._backtrack(
            energy, base, value, gradient, state.step_size
        )
        gradient_max = _max_abs(_differences(new, base)) / step_size
        extrapolated, momentum = self._extrapolate(energy.theta, base, new, state.momentum)
        converged = bool(gradient_max <= self.tol)
        return energy.with_theta(new), FISTAState(
            float(evaluated[0] - self.penalty.value(new)),
            float(gradient_max),
            converged,
            converged,
            extrapolated,
            evaluated if extrapolated is None else None,
            momentum,
            1.1 * step_size,
        )

    def _extrapolate(self, theta, base, new, momentum):
        """Return the extrapolated parameters of FISTA and the new momentum coefficient.

        The extrapolated parameters are None if they equal the new parameters. The momentum
        restarts if the angle between the step and the change of the parameters is obtuse.
        """
        change = _differences(new, theta)
        if _inner(_differences(base, new), change, self.multiplicity) > 0:
            return None, 1.0
        new_momentum = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        beta = (momentum - 1.0) / new_momentum
        if not beta:
            return None, new_momentum
        return {k: new[k] + beta * change[k] for k in new}, new_momentum

    def _backtrack(self, energy, theta, value, gradient, step_size):
        """Make a proximal gradient step; halve its size until a quadratic bounds the objective."""
        while True:
            moved = {k: v + step_size * gradient[k] for k, v in theta.items()}
            new = self.penalty.prox(moved, dict.fromkeys(theta, step_size))
            change = _differences(new, theta)
            slope = {k: gradient[k] - change[k] / (2 * step_size) for k in theta}
            model = value + _inner(slope, change, self.multiplicity)
            evaluated = yield energy.with_theta(new)
            is_bound = evaluated[0] >= model - 1e-12 * max(1.0, abs(model))
            if is_bound or step_size < MIN_STEP_SIZE:
                return new, step_size, evaluated
            step_size *= 0.5


def wolfe_point(evaluate, first):
    """Return a point along a line that satisfies the strong Wolfe conditions.

    Parameters
    ----------
    evaluate : callable
        Function ``step -> generator``. The generator returns a point with the attributes ``step``,
        ``value``, which is maximised, and ``slope``, its derivative by the step. The first trial
        has the step 1.
    first : point
        Point at step 0, with a positive slope.

    Returns
    -------
    point or None
        Point that satisfies the conditions. After 20 trials without one, the best point of
        sufficient increase, or None if there is none. If the curvature condition holds, an increase
        of zero within rounding is sufficient.

    References
    ----------
    J. Nocedal and S. J. Wright, "Numerical optimization" (2006), algorithms 3.5 and 3.6.
    """
    low, high, step = first, None, 1.0
    rounded = first.value - ROUNDING * max(1.0, abs(first.value))
    for _ in range(MAX_TRIALS):
        point = yield from evaluate(step)
        is_flat = abs(point.slope) <= C2 * first.slope
        has_increased = point.value >= first.value + C1 * step * first.slope
        if is_flat and (has_increased or point.value >= rounded):
            return point
        if not (has_increased and point.value > low.value):  # also if the value is nan
            high = point
        else:
            direction = 1.0 if high is None else high.step - low.step
            if point.slope * direction <= 0:
                high = low
            low = point
        step = GROWTH * step if high is None else _interpolate(low, high)
    return low if low.step > 0 else None


def _interpolate(low, high):
    """Return a step length between two trial points: the maximum of a cubic, or the midpoint."""
    width = high.step - low.step
    mean = (high.value - low.value) / width
    curvature = low.slope + high.slope - 3.0 * mean
    with np.errstate(all="ignore"):
        root = np.sign(width) * np.sqrt(curvature**2 - low.slope * high.slope)
        share = 1.0 - (curvature - high.slope + root) / (low.slope - high.slope + 2.0 * root)
    if not np.isfinite(share):
        share = 0.5
    return low.step + width * float(np.clip(share, MARGIN, 1.0 - MARGIN))
