"""Penalties on parameters, subtracted from the mean log-likelihood.

A penalty has a smooth part (``value`` and ``gradient``) and a proximal map (``prox``, the identity
for smooth penalties). Parameters whose group is -1 (tables of single variables) are not penalised.
A parameter that theta holds twice, as a symmetric matrix does, is penalised once: ``copies`` says
how often the entries of an array stand for one parameter.
"""

import numpy as np

from .._utils.parameters import check_choice, check_number


class NoPenalty:
    """Nothing."""

    smooth = True

    def value(self, theta):
        """0."""
        return 0.0

    def gradient(self, theta):
        """None: nothing to add."""
        return

    def prox(self, theta, sizes):
        """The identity."""
        return theta


class L2(NoPenalty):
    r""":math:`\frac{\alpha}{2} \lVert \theta \rVert_2^2`.

    Parameters
    ----------
    alpha : float
        Strength, against the mean log-likelihood in nats.
    groups : dict of str to ndarray of int
        Numbers of groups, shaped like theta; -1 is not penalised.
    copies : dict of str to int, optional
        How often the entries of an array of theta stand for one parameter, where not once.
    """

    def __init__(self, alpha, groups, copies=None):
        self.alpha = alpha
        self.copies = copies or {}
        self.weights = {k: _strengths(alpha, g >= 0) for k, g in groups.items()}

    def value(self, theta):
        """The penalty at theta."""
        return 0.5 * _total(self.copies, {k: self.weights[k] * v * v for k, v in theta.items()})

    def gradient(self, theta):
        """Derivative of the penalty."""
        return {k: (self.weights[k] * v).astype(v.dtype, copy=False) for k, v in theta.items()}


class L1(NoPenalty):
    r""":math:`\alpha \lVert \theta \rVert_1`, by soft thresholding.

    Parameters
    ----------
    alpha : float
        Strength, against the mean log-likelihood in nats.
    groups : dict of str to ndarray of int
        Numbers of groups, shaped like theta; -1 is not penalised.
    copies : dict of str to int, optional
        How often the entries of an array of theta stand for one parameter, where not once.
    """

    smooth = False

    def __init__(self, alpha, groups, copies=None):
        self.alpha = alpha
        self.copies = copies or {}
        self.weights = {k: alpha * (g >= 0) for k, g in groups.items()}

    def value(self, theta):
        """The penalty at theta."""
        return _total(self.copies, {k: self.weights[k] * np.abs(v) for k, v in theta.items()})

    def prox(self, theta, sizes):
        """Soft thresholding by alpha times the step size of every parameter."""
        out = {}
        for k, v in theta.items():
            cut = (sizes[k] * self.weights[k]).astype(v.dtype)
            out[k] = np.sign(v) * np.maximum(np.abs(v) - cut, 0.0)
        return out


class GroupL1(NoPenalty):
    r""":math:`\alpha \sum_a \sqrt{d_a} \lVert \theta_a \rVert_2` over the tables of cliques.

    :math:`d_a` is the number of entries of the table; whole tables become zero.

    Parameters
    ----------
    alpha : float
        Strength, against the mean log-likelihood in nats.
    groups : dict of str to ndarray of int
        Numbers of groups, shaped like theta; -1 is not penalised.
    copies : dict of str to int, optional
        How often the entries of an array of theta stand for one parameter, where not once.
    """

    smooth = False

    def __init__(self, alpha, groups, copies=None):
        self.alpha = alpha
        self.copies = copies or {}
        self.groups = groups
        self.sizes = {k: np.bincount(g[g >= 0].ravel()) for k, g in groups.items()}

    def _norms(self, k, v):
        inside = self.groups[k] >= 0
        squares = np.bincount(self.groups[k][inside], v[inside] ** 2, minlength=len(self.sizes[k]))
        return inside, np.sqrt(squares)

    def value(self, theta):
        """The penalty at theta."""
        norms = {k: np.sqrt(self.sizes[k]) * self._norms(k, v)[1] for k, v in theta.items()}
        return self.alpha * _total(self.copies, norms)

    def prox(self, theta, sizes):
        """Shrink the norm of every table; steps that differ inside it enter by their mean."""
        out = {}
        for k, v in theta.items():
            inside, norms = self._norms(k, v)
            step = np.broadcast_to(sizes[k], v.shape)[inside]
            members = self.groups[k][inside]
            mean_step = np.bincount(members, step, len(norms)) / np.maximum(self.sizes[k], 1)
            cut = self.alpha * np.sqrt(self.sizes[k]) * mean_step
            keep = np.maximum(1.0 - cut / np.maximum(norms, 1e-300), 0.0)
            out[k] = v.copy()
            out[k][inside] *= keep[members]
        return out


def _strengths(alpha, penalised):
    """Strength of the penalty on every parameter of an array; one number where all are alike."""
    if penalised.all():
        return float(alpha)
    return alpha * penalised if penalised.any() else 0.0


def _total(copies, terms):
    """Sum over parameters of arrays over the entries of theta."""
    return sum(float(v.sum()) / copies.get(k, 1) for k, v in terms.items())


PENALTIES = {"l2": L2, "l1": L1, "group-l1": GroupL1}


def make_penalty(name, alpha, groups, copies=None):
    """The penalty of that name, or :class:`NoPenalty` for ``alpha=0``.

    Parameters
    ----------
    name : {"l2", "l1", "group-l1"}
    alpha : float
        Strength, at least 0.
    groups : dict of str to ndarray of int
        From :meth:`~skmrf.energies.Energy.penalty_groups`: numbers of groups, shaped like theta;
        -1 is not penalised.
    copies : dict of str to int, optional
        How often the entries of an array of theta stand for one parameter, where not once.

    Returns
    -------
    L2, L1, GroupL1 or NoPenalty
    """
    check_choice("penalty", name, PENALTIES)
    check_number("alpha", alpha, low=0)
    return PENALTIES[name](alpha, groups, copies) if alpha > 0 else NoPenalty()
