"""Penalties on the parameters, which are subtracted from the mean log-likelihood.

A penalty has a smooth part (``value`` and ``gradient``) and a proximal map (``prox``). The proximal
map of a smooth penalty is the identity. Parameters in the penalty group -1, such as tables of
single variables, are not penalised. If an array of theta contains a parameter twice, as a symmetric
matrix does, the parameter is penalised once. ``multiplicity`` is the number of entries of an array
that are the same parameter. Log-potentials of -inf are constant and not penalised.
"""

import numpy as np

from .._kernels.ascent import subtract_decay
from .._utils.namespaces import difference, is_numpy, namespace, own_array, replace_zeros
from .._utils.parameters import check_choice, check_number

FREE = 0.01  # factor of the penalty of entries of group -1, if there is a centre
N_NEWTON_STEPS = 16  # for step sizes of very different magnitudes; most groups need two to five
PRECISION = 1e-9  # relative, of the norms of groups


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

    def subtract_gradient(self, gradient, theta):
        """Return a gradient minus that of the penalty, and known sums of its squares.

        Parameters
        ----------
        gradient : dict of str to array
            Gradient of the log-likelihood, shaped like theta. Arrays of numpy may be overwritten.
        theta : dict of str to array
            Parameters.

        Returns
        -------
        gradient : dict of str to array
            Gradient of the log-likelihood minus the penalty.
        squares : dict of str to float
            Sums of the squares of some of its arrays, which are computed in the same loop.
        """
        return gradient, {}

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

    def subtract_gradient(self, gradient, theta):
        """Return a gradient minus that of the penalty, and known sums of its squares."""
        out, squares = {}, {}
        for k, v in theta.items():
            strength = self.weights[k]
            if self.centre is None and is_numpy(v) and isinstance(strength, float):
                out[k] = own_array(gradient[k], v.dtype)
                arrays = v.reshape(-1), out[k].reshape(-1)
                squares[k] = subtract_decay(*arrays, strength)
            else:
                decay = strength * self._deviation(k, v)
                out[k] = gradient[k] - decay.astype(v.dtype, copy=False)
        return out, squares

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
        is_penalised = groups >= 0
        if is_numpy(values):
            return _group_sums(values[is_penalised], groups[is_penalised], n_groups)
        return _group_sums(namespace(values).where(is_penalised, values, 0.0), groups, n_groups)

    def value(self, theta):
        """Return the value of the penalty for the parameters theta."""
        squares = {k: self._sums(k, replace_zeros(v) ** 2) for k, v in theta.items()}
        norms = {k: np.sqrt(self.sizes[k] * v) for k, v in squares.items()}
        return self.alpha * _sum_parameters(norms, self.multiplicity)

    def prox(self, theta, sizes):
        r"""Return the proximal map of the penalty in the metric of the step sizes.

        For a group with the parameters :math:`v_i`, the step sizes :math:`s_i` and the strength
        :math:`\lambda`, the result minimises
        :math:`\sum_i (x_i - v_i)^2 / (2 s_i) + \lambda \lVert x \rVert_2`. With the same step size
        for all parameters, it is the soft threshold of the norm.

        Parameters
        ----------
        theta : dict of str to array
            Parameters after a step along the gradient of the log-likelihood.
        sizes : dict of str to float or array
            Step sizes: one number per array of theta, or one per parameter.

        Returns
        -------
        dict of str to array
            New parameters.
        """
        return {k: self._shrink(k, v, sizes[k]) for k, v in theta.items()}

    def _shrink(self, k, v, step_sizes):
        xp, groups = namespace(v), self.groups[k]
        if len(self.sizes[k]) == 0:
            return v
        finite = replace_zeros(v)
        factors = self._factors if np.ndim(step_sizes) else self._equal_factors
        is_shrunk = (groups >= 0) & (v > -np.inf)
        return xp.where(is_shrunk, finite * factors(k, finite, step_sizes), v).astype(v.dtype)

    def _equal_factors(self, k, values, step_size):
        """Return the factor of each parameter, for one step size of all parameters."""
        xp, n_entries = namespace(values), self.sizes[k]
        norms = xp.sqrt(self._sums(k, values**2))
        steps = xp.broadcast_to(step_size, values.shape)
        mean_step = self._sums(k, steps) / xp.maximum(n_entries, 1)
        threshold = self.alpha * xp.sqrt(n_entries) * mean_step
        least = 1e8 * np.finfo(norms.dtype).tiny  # divides a threshold without overflow
        return xp.maximum(1.0 - threshold / xp.maximum(norms, least), 0.0)[self.groups[k]]

    def _factors(self, k, values, step_sizes):
        """Return the factor of each parameter, for a step size of each parameter."""
        xp, groups, n_groups = namespace(values), self.groups[k], len(self.sizes[k])
        thresholds = (self.alpha * xp.sqrt(self.sizes[k]))[groups] * step_sizes
        is_penalised = groups >= 0
        if is_numpy(values):
            factors = np.ones(values.shape)
            arrays = (a[is_penalised] for a in (values, thresholds, groups))
            factors[is_penalised] = _group_factors(*arrays, n_groups)
            return factors
        return _group_factors(xp.where(is_penalised, values, 0.0), thresholds, groups, n_groups)


def _group_factors(values, thresholds, groups, n_groups):
    r"""Return the factors :math:`t / (t + \lambda s_i)` of parameters in groups.

    The norm t of the new parameters of a group is the root of
    :math:`\sum_i (v_i / (t + \lambda s_i))^2 = 1`, or 0 if there is no root. Newton's method is
    applied to the inverse square root of the sum, a concave function of t. So it starts below the
    root and never exceeds it.

    Parameters
    ----------
    values : array
        Parameters :math:`v_i`; 0 for parameters without a group.
    thresholds : array
        Products :math:`\lambda s_i` of the strength and the step sizes, shaped like ``values``.
    groups : array of int
        Group index of each parameter, shaped like ``values``.
    n_groups : int
        Number of groups.
    """
    xp = namespace(values)
    least = 1e8 * np.finfo(values.dtype).tiny
    norms = _group_maxima(xp.abs(values) - thresholds, groups, n_groups)
    for _ in range(N_NEWTON_STEPS):
        divisors = xp.maximum(norms[groups] + thresholds, least)
        squares = (values / divisors) ** 2
        total = _group_sums(squares, groups, n_groups)
        slope = _group_sums(squares / divisors, groups, n_groups)
        steps = xp.maximum(total * (xp.sqrt(total) - 1.0), 0.0) / xp.maximum(slope, least)
        norms = norms + steps
        if is_numpy(values) and (steps <= PRECISION * norms).all():
            break
    return norms[groups] / xp.maximum(norms[groups] + thresholds, least)


def _group_sums(values, groups, n_groups):
    """Return the sums over the groups; values without a group are 0, or are not in the arrays."""
    if is_numpy(values):
        return np.bincount(groups, values, minlength=n_groups)
    return namespace(values).zeros(n_groups).at[groups].add(values)


def _group_maxima(values, groups, n_groups):
    """Return the maxima over the groups, which are at least 0, as :func:`_group_sums`."""
    if is_numpy(values):
        maxima = np.zeros(n_groups)
        np.maximum.at(maxima, groups, values)
        return maxima
    return namespace(values).zeros(n_groups).at[groups].max(values)


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
