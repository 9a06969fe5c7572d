"""Solvers of deterministic objectives: L-BFGS, and FISTA where the penalty has a kink."""

import numpy as np
from scipy.optimize import minimize


class _Flat:
    """Parameters of an energy as one vector."""

    def __init__(self, theta, copies):
        self.copies = np.concatenate([np.full(v.size, copies.get(k, 1)) for k, v in theta.items()])
        self.shapes = {k: v.shape for k, v in theta.items()}

    def pack(self, theta):
        return np.concatenate([theta[k].ravel() for k in self.shapes]).astype(float)

    def unpack(self, x):
        theta, at = {}, 0
        for k, shape in self.shapes.items():
            size = int(np.prod(shape))
            theta[k] = x[at : at + size].reshape(shape)
            at += size
        return theta


def maximise_deterministic(energy, objective, penalty, *, max_iter, tol, on_iteration, copies=None):
    """Maximise ``objective(energy) - penalty``.

    Parameters
    ----------
    energy : Energy
        Start.
    objective : callable, energy -> (value, gradient)
    penalty : penalty of :mod:`skmrf.learning`
    max_iter : int
    tol : float
        Stop when the largest entry of the (proximal) gradient is at most this.
    on_iteration : callable, (energy, value, gradient_norm) -> bool
        Called after every iteration; True stops.
    copies : dict, optional
        How often the entries of an array of theta stand for one parameter: 2 for a symmetric
        matrix. Gradients are by parameters, so that the derivative by a single entry is that
        fraction of them.

    Returns
    -------
    energy : Energy
    converged : bool
    """
    solver = _lbfgs if penalty.smooth else _fista
    return solver(energy, objective, penalty, max_iter, tol, on_iteration, copies or {})


def _lbfgs(energy, objective, penalty, max_iter, tol, on_iteration, copies):
    flat = _Flat(energy.theta, copies)
    last = {}

    def negative(x):
        theta = flat.unpack(x)
        value, gradient = objective(energy.with_theta(theta))
        g = flat.pack(gradient)
        pull = penalty.gradient(theta)
        if pull is not None:
            g = g - flat.pack(pull)
        last[x.tobytes()] = np.abs(g).max(initial=0.0)
        return penalty.value(theta) - value, -g / flat.copies

    def callback(intermediate_result):
        x = intermediate_result.x
        norm = last.get(x.tobytes(), np.nan)
        last.clear()
        current = energy.with_theta(flat.unpack(x.copy()))
        if on_iteration(current, -float(intermediate_result.fun), norm):
            raise StopIteration

    result = minimize(
        negative,
        flat.pack(energy.theta),
        jac=True,
        method="L-BFGS-B",
        callback=callback,
        options={
            "maxiter": max_iter,
            "maxfun": 4 * max_iter,
            "gtol": tol / max(copies.values(), default=1),
            "ftol": 1e-15,
            "maxcor": 20,
        },
    )
    converged = np.abs(result.jac).max(initial=0.0) <= max(tol, 1e-12) or "CONVERGENCE" in str(
        result.message
    )
    return energy.with_theta(flat.unpack(result.x)), bool(converged)


def _fista(energy, objective, penalty, max_iter, tol, on_iteration, copies):
    """Accelerated proximal gradient with backtracking and restarts (Beck and Teboulle, 2009)."""
    theta = energy.theta
    ahead, momentum, size = theta, 1.0, 1.0
    for _ in range(max_iter):
        value, gradient = objective(energy.with_theta(ahead))
        new, size = _proximal_step(energy, objective, penalty, ahead, value, gradient, size, copies)
        mapping = max(np.abs(new[k] - ahead[k]).max(initial=0.0) / size for k in new)
        back = {k: ahead[k] - new[k] for k in new}
        turned = _inner(back, {k: new[k] - theta[k] for k in new}, copies) > 0
        following = 1.0 if turned else 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        push = 0.0 if turned else (momentum - 1.0) / following
        ahead = {k: new[k] + push * (new[k] - theta[k]) for k in new}
        theta, momentum = new, following
        if on_iteration(energy.with_theta(theta), value - penalty.value(theta), mapping):
            return energy.with_theta(theta), False
        if mapping <= tol:
            return energy.with_theta(theta), True
        size *= 1.1
    return energy.with_theta(theta), False


def _inner(a, b, copies):
    """Inner product over parameters."""
    return sum(float(np.vdot(a[k], b[k])) / copies.get(k, 1) for k in a)


def _proximal_step(energy, objective, penalty, theta, value, gradient, size, copies):
    """Halve the step until the quadratic model is a lower bound."""
    while True:
        moved = {k: v + size * gradient[k] for k, v in theta.items()}
        new = penalty.prox(moved, dict.fromkeys(theta, size))
        change = {k: new[k] - theta[k] for k in theta}
        slope = {k: gradient[k] - change[k] / (2 * size) for k in theta}
        model = value + _inner(slope, change, copies)
        reached, _ = objective(energy.with_theta(new))
        if reached >= model - 1e-12 * max(1.0, abs(model)) or size < 1e-12:
            return new, size
        size *= 0.5
