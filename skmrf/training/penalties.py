"""Penalties on the parameters, which are subtracted from the mean log-likelihood.

A penalty has a smooth part (``value`` and ``gradient``) and a proximal map (``prox``). The proximal
map of a smooth penalty is the identity. Parameters in the penalty group -1, such as tables of
single variables, are not penalised. If an array of theta contains a parameter twice, as a symmetric
matrix does, the parameter is penalised once. ``multiplicity`` is the number of entries of an array
that are the same parameter. Log-potentials of -inf are constant and not penalised.
"""

import numpy as np

from .._utils.namespaces import difference, is_numpy, namespace, replace_zeros
from .._utils.parameters import check_choice, check_number

FREE = 0.01  # factor of the penalty of entries of group -1, if there is a centre


class NoPenalty:
    """Placeholder for training without a penalty."""

    smooth = True
    alpha = 0.0  # strength

    def value(self, theta):
        """Return 0, the value of no penalty."""
        return 0.0

    def gradient(self, theta):
        """Return None, which means that the penalty has a zero gradient."""
        return

    def implicit_gradient(self, gradient, rate):
        """Return the gradient unchanged."""
        return gradient

    def curvature(self, theta):
        """Return the second derivatives of the penalty by each entry: zero."""
        return dict.fromkeys(theta, 0.0)

    def prox(self, theta, sizes):
        """Return the parameters theta unchanged."""
        return theta


class L2(NoPenalty):
    r"""L2 penalty :math:`\frac{\alpha}{2} \lVert \theta - \theta_0 \rVert_2^2`.

    Parameters
    ----------
    alpha : float
        Strength of the penalty, against the mean log-likelihood in nats.
    groups : dict of str to ndarray of int
        Group index of each entry, shaped like theta. Entries of group -1 are not penalised.
    multiplicity : dict of str to int, optional
        Number of entries of an array of theta that are the same parameter. By default 1.
    centre : dict of str to ndarray, optional
        Parameters :math:`\theta_0` without penalty, shaped like theta. If given, the penalty of
        entries of group -1 is multiplied by 0.01 instead of 0. By default zero.
    """

    def __init__(self, alpha, groups, multiplicity=None, centre=None):
        self.alpha = alpha
        self.multiplicity = multiplicity or {}
        self.centre = centre
        free = 0.0 if centre is None else FREE
        self.weights = {k: _entry_strengths(alpha, free, g) for k, g in groups.items()}

    def set_strengths(self, name, strengths):
        """Set the strength of the penalty of each entry of an array of theta.

        Parameters
        ----------
        name : str
            Name of the array.
        strengths : ndarray
            Strengths in place of ``alpha``, shaped like the array.
        """
        self.weights[name] = strengths

    def _deviation(self, name, values):
        if self.centre is None:
            return replace_zeros(values)
        return difference(values, self.centre[name])

    def value(self, theta):
        """Return the penalty at theta."""
        terms = {k: self.weights[k] * self._deviation(k, v) ** 2 for k, v in theta.items()}
        return 0.5 * _sum_parameters(terms, self.multiplicity)

    def gradient(self, theta):
        """Return the derivative of the penalty."""
        return {
            k: (self.weights[k] * self._deviation(k, v)).astype(v.dtype, copy=False)
            for k, v in theta.items()
        }

    def implicit_gradient(self, gradient, rate):
        r"""Return the gradient of an implicit step; arrays of numpy are overwritten.

        A step :math:`\eta g` diverges if the curvature :math:`c` of the penalty exceeds
        :math:`2 / \eta`. The step :math:`\eta g / (1 + \eta c)` does not. It equals the proximal
        map of the penalty after a step along the gradient of the log-likelihood.

        Parameters
        ----------
        gradient : dict of str to array
            Gradient :math:`g` of the log-likelihood minus the penalty, shaped like theta.
        rate : float
            Learning rate :math:`\eta`.

        Returns
        -------
        dict of str to array
            The gradient divided by :math:`1 + \eta c`.
        """
        scaled = {}
        for k, g in gradient.items():
            g *= 1.0 / (1.0 + rate * self.weights[k])
            scaled[k] = g
        return scaled

    def curvature(self, theta):
        """Return the second derivatives of the penalty by each entry."""
        return {k: self.weights[k] for k in theta}


class L1(NoPenalty):
    r"""L1 penalty :math:`\alpha \lVert \theta \rVert_1`, by soft thresholding.

    Parameters
    ----------
    alpha : float
        Strength of the penalty, against the mean log-likelihood in nats.
    groups : dict of str to ndarray of int
        Group index of each entry, shaped like theta. Entries of group -1 are not penalised.
    multiplicity : dict of str to int, optional
        Number of entries of an array of theta that are the same parameter. By default 1.
    """

    smooth = False

    def __init__(self, alpha, groups, multiplicity=None):
        self.alpha = alpha
        self.multiplicity = multiplicity or {}
        self.weights = {k: alpha * (g >= 0) for k, g in groups.items()}

    def value(self, theta):
        """Return the value of the penalty for the parameters theta."""
        terms = {k: self.weights[k] * np.abs(replace_zeros(v)) for k, v in theta.items()}
        return _sum_parameters(terms, self.multiplicity)

    def prox(self, theta, sizes):
        """Apply soft thresholding to theta, by alpha times the step size of each parameter."""
        out = {}
        for k, v in theta.items():
            threshold = (sizes[k] * self.weights[k]).astype(v.dtype)
            xp = namespace(v)
            out[k] = xp.sign(v) * xp.maximum(xp.abs(v) - threshold, 0.0)
        return out


class ElasticNet(L1):
    r"""Mean of the L1 and the L2 penalty, also called elastic net.

    .. math:: \frac{\alpha}{2} \Big(\lVert \theta \rVert_1
        + \frac{1}{2} \lVert \theta \rVert_2^2\Big)

    Parameters
    ----------
    alpha : float
        Strength of the penalty, against the mean log-likelihood in nats.
    groups : dict of str to ndarray of int
        Group index of each entry, shaped like theta. Entries of group -1 are not penalised.
    multiplicity : dict of str to int, optional
        Number of entries of an array of theta that are the same parameter. By default 1.
    """

    def __init__(self, alpha, groups, multiplicity=None):
        super().__init__(0.5 * alpha, groups, multiplicity)

    def value(self, theta):
        """Return the value of the penalty for the parameters theta."""
        squares = {k: 0.5 * self.weights[k] * replace_zeros(v) ** 2 for k, v in theta.items()}
        return super().value(theta) + _sum_parameters(squares, self.multiplicity)

    def prox(self, theta, sizes):
        """Apply soft thresholding to theta, and shrink the result."""
        out = super().prox(theta, sizes)
        return {k: (v / (1.0 + sizes[k] * self.weights[k])).astype(v.dtype) for k, v in out.items()}


class GroupL1(NoPenalty):
    r"""Group-L1 penalty :math:`\alpha \sum_a \sqrt{d_a} \lVert \theta_a \rVert_2`.

    The groups :math:`a` are the tables of the cliques, and :math:`d_a` is the number of entries of
    a table. The penalty sets whole tables to zero.

    Parameters
    ----------
    alpha : float
        Strength of the penalty, against the mean log-likelihood in nats.
    groups : dict of str to ndarray of int
        Group index of each entry, shaped like theta. Entries of group -1 are not penalised.
    multiplicity : dict of str to int, optional
        Number of entries of an array of theta that are the same parameter. By default 1.
    """

    smooth = False

    def __init__(self, alpha, groups, multiplicity=None):
        self.alpha = alpha
        self.multiplicity = multiplicity or {}
        self.groups = groups
        self.sizes = {k: np.bincount(g[g >= 0].ravel()) for k, g in groups.items()}

    def _sums(self, k, values):
        """Return the sums over the groups of an array that is shaped like theta."""
        groups, n_groups = self.groups[k], len(self.sizes[k])
        if is_numpy(values):
            is_penalised = groups >= 0
            return np.bincount(groups[is_penalised], values[is_penalised], minlength=n_groups)
        xp = namespace(values)
        return xp.zeros(n_groups).at[groups].add(xp.where(groups >= 0, values, 0.0))

    def value(self, theta):
        """Return the value of the penalty for the parameters theta."""
        squares = {k: self._sums(k, replace_zeros(v) ** 2) for k, v in theta.items()}
        norms = {k: np.sqrt(self.sizes[k] * v) for k, v in squares.items()}
        return self.alpha * _sum_parameters(norms, self.multiplicity)

    def prox(self, theta, sizes):
        """Shrink the norm of each group of parameters by soft thresholding."""
        return {k: self._shrink(k, v, sizes[k]) for k, v in theta.items()}

    def _shrink(self, k, v, step_sizes):
        xp, groups, n_entries = namespace(v), self.groups[k], self.sizes[k]
        if len(n_entries) == 0:
            return v
        finite = replace_zeros(v)
        norms = xp.sqrt(self._sums(k, finite**2))
        mean_step = self._sums(k, xp.broadcast_to(step_sizes, v.shape)) / xp.maximum(n_entries, 1)
        threshold = self.alpha * xp.sqrt(n_entries) * mean_step
        least = 1e8 * np.finfo(norms.dtype).tiny  # divides a threshold without overflow
        keep = xp.maximum(1.0 - threshold / xp.maximum(norms, least), 0.0)
        is_shrunk = (groups >= 0) & (v > -np.inf)
        return xp.where(is_shrunk, finite * keep[groups], v).astype(v.dtype)


def _entry_strengths(alpha, free, groups):
    """Return the penalty strength of each entry, or one number if all strengths are equal.

    The strength of entries of group -1 is ``alpha * free``.
    """
    is_free = groups < 0
    if is_free.size and is_free.all() == is_free.any():
        return float(alpha * (free if is_free.flat[0] else 1.0))
    return alpha * np.where(is_free, free, 1.0)


def _sum_parameters(terms, multiplicity):
    """Sum the entries of arrays that are shaped like theta, counting each parameter once."""
    return sum(float(v.sum()) / multiplicity.get(k, 1) for k, v in terms.items())


PENALTIES = {"l2": L2, "l1": L1, "elasticnet": ElasticNet, "group-l1": GroupL1}


def make_penalty(name, alpha, groups, multiplicity=None, centre=None):
    """Return a penalty by name, or :class:`NoPenalty` for ``alpha=0``.

    Parameters
    ----------
    name : {"l2", "l1", "elasticnet", "group-l1"}
        Name of the penalty.
    alpha : float
        Strength, at least 0, against the mean log-likelihood in nats.
    groups : dict of str to ndarray of int
        Group index of each entry, shaped like theta, from
        :meth:`~skmrf.energies.Energy.penalty_groups`. Entries of group -1 are not penalised.
    multiplicity : dict of str to int, optional
        Number of entries of an array of theta that are the same parameter. By default 1.
    centre : dict of str to ndarray, optional
        Parameters towards which the penalty "l2" shrinks. By default zero.

    Returns
    -------
    L2, L1, GroupL1 or NoPenalty
        Penalty.
    """
    check_choice("penalty", name, PENALTIES)
    check_number("alpha", alpha, low=0)
    if alpha == 0:
        return NoPenalty()
    options = {} if centre is None else {"centre": centre}
    return PENALTIES[name](float(alpha), groups, multiplicity, **options)
