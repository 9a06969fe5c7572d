"""Monotone transforms of numeric columns, with point masses, bounds and rounding."""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import erfcx

from .categories import TableEncoder, common_type, decode, to_floats
from .column_types import MIN_ROWS, encode_states
from .numeric import find_far_values, median_and_scale
from .supports import (
    FARTHEST,
    LARGEST,
    MAX_REACH,
    check_support,
    extend_bounds,
    find_grid,
    find_outside,
    find_smallest,
    find_soft_ends,
    find_spikes,
    find_support,
    hide_outside,
    log_rounded_density,
    reaches_far,
    round_to_grid,
)

# Both lists begin with the transform that is closest to linear.
BOUND_SOFTNESS = (0.02, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1e60)  # in units of the scale
MAX_SOFTNESS = 1e4  # with two bounds or several classes, so that differences are accurate
TAIL_SOFTNESS = (1e3, 5.0, 2.0, 1.0, 0.5, 0.2, 0.05, 0.01)  # in units of the scale
MIN_TRANSFORM_GAIN = 2.0  # nats of the likelihood that a less linear transform must gain
MARGIN = 1.5  # standard deviations of samples beyond the transformed training values
MIN_SHARE = 1e-4  # of the distance a from a bound; nearer values are transformed like it
FAR, FAR_DECADES = 8.0, 5.0  # of far values: standard deviations, and powers of ten of their range
MIN_FAR_GAIN = 5.0  # nats of the likelihood, if far values have another distribution
MAX_LENGTH = 1.0  # standard deviations beyond its start up to which a tail is about linear
BEYOND = 0.5  # standard deviations beyond the training values that conditioning takes into account
ROUNDING = 1e-14  # error of transformed values
SMALLEST = 1e-9  # draw of a column without negative numbers, in units of the scale
NORMAL_CONSTANT = 1.0 + np.log(2.0 * np.pi)  # minus twice the log-likelihood at variance 1


@dataclass(frozen=True)
class ColumnTransform:
    r"""Monotone transform of the continuous part of a numeric column to a normal scale.

    With :math:`u = (x - c) / s`, the transform of an unbounded column is
    :math:`t \, \mathrm{asinh}(u / t)`, which has logarithmic tails. With a lower bound at
    :math:`u = 0` it is :math:`u + t \log(1 - e^{-u/t})`: linear far from the bound, and logarithmic
    near it. With an upper bound at :math:`u = w` it has the additional term
    :math:`-t \log(1 - e^{-(w-u)/t})`. The result z is standardised. Between a bound and a distance
    a where the transform is :math:`z_a`, it is replaced by :math:`z_a + \log(u / a) / k` with
    :math:`k = \varphi(z_a) / \Phi(z_a)`, so that x is about uniform there if z is standard normal.
    Much nearer to the bound than a, all values have the same z, which is finite. At a soft bound,
    :math:`\log(u / a)` is replaced by :math:`-2 \log(1 + (a - u) / 2a)`, also outside the bound.
    Above a value b with the slope d, the transform can be :math:`z_b + d h \log(1 + (x - b) / h)`.

    Attributes
    ----------
    low, high : float
        Bounds, infinite if there are none.
    is_soft : tuple of bool
        Whether the transform continues below ``low``, and above ``high``.
    outside : tuple of float
        Probability below ``low``, and above ``high``, where the transform does not continue.
    between : float
        Probability of numbers between the possible values, 0 if ``step`` is the unit.
    step, origin : float
        Values of a rounded column are ``origin`` plus a multiple of ``step``, which is 0 otherwise.
    noise : float
        Variance of the rounding error of a transformed number.
    unit : float
        Unit of the values: a density is the probability of a value divided by this unit.
    decimals : int or None
        Number of decimals of a rounded column, None if they are not known.
    values : ndarray of shape (n_values,)
        Distinct training values if they differ from the possible values by rounding errors.
    spikes : ndarray of shape (n_spikes,)
        Values with a point mass.
    centre, scale, softness : float
        Parameters c, s and t of the transform.
    least : float
        Distance a from a bound, in units of the scale.
    start, length : float
        Value b where a logarithmic upper tail begins (infinite if there is none), and distance h.
    mean, deviation : float
        Mean and standard deviation before standardisation.
    extremes, reach : tuple of float
        Smallest and largest transformed training value, without those far from all others, and
        smallest and largest transformed value of a sample of a column with a curved transform.
    """

    low: float = -np.inf
    high: float = np.inf
    is_soft: tuple = (False, False)
    outside: tuple = (0.0, 0.0)
    between: float = 0.0
    step: float = 0.0
    origin: float = 0.0
    noise: float = 0.0
    unit: float = 1.0
    decimals: int | None = None
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    spikes: np.ndarray = field(default_factory=lambda: np.zeros(0))
    centre: float = 0.0
    scale: float = 1.0
    softness: float = 1e3
    least: float = 1e-12
    start: float = np.inf
    length: float = 1.0
    mean: float = 0.0
    deviation: float = 1.0
    extremes: tuple = (-np.inf, np.inf)
    reach: tuple = (-np.inf, np.inf)

    def find_states(self, x):
        """Return 0 for continuous values, k + 1 for the k-th point mass, and nan where missing."""
        states = np.where(np.isnan(x), np.nan, 0.0)
        for k, value in enumerate(self.spikes):
            states[x == value] = k + 1.0
        return states

    def forward(self, x):
        """Return the transformed values; values outside the bounds are -1e100 or 1e100."""
        z = np.asarray(self.standardise(self.curve(x)[0]))
        for sign, bound, is_soft in self._bounds:
            with np.errstate(over="ignore"):
                shares = np.asarray(sign * (x - bound) / (self.scale * self.least))
            is_near, (limit, rate) = shares < 1.0, self._tail(sign, bound)
            near = np.maximum(shares[is_near], -LARGEST if is_soft else MIN_SHARE)
            logs = -2.0 * np.log1p(0.5 - near / 2) if is_soft else np.log(near)
            z[is_near] = sign * (limit + logs / rate)
        z = np.where(x < self.support[0], -FARTHEST, z)
        return np.where(x > self.support[1], FARTHEST, z)

    def limit(self, z):
        """Move extreme transformed values of a column with bounds near the training values.

        Such a column is curved, so its relation to other columns is known only there.
        """
        lowest, highest = self.extremes
        return np.clip(z, lowest - BEYOND, highest + BEYOND) if self._bounds else z

    def standardise(self, raw):
        """Return transformed values with mean 0 and variance 1, given those before."""
        return np.clip((raw - self.mean) / self.deviation, -FARTHEST, FARTHEST)

    @property
    def _bounds(self):
        """Finite bounds, each with the sign of the direction inside, and whether it is soft."""
        parts = zip((1, -1), (self.low, self.high), self.is_soft, strict=True)
        return [part for part in parts if np.isfinite(part[1])]

    @property
    def support(self):
        """Ends of the interval of the numbers that are transformed."""
        low, high = self.is_soft
        return -np.inf if low else self.low, np.inf if high else self.high

    def _tail(self, sign, bound):
        """Return the transformed value at the distance ``least`` from a bound, and the rate k.

        The value has the opposite sign at an upper bound.
        """
        raw, _ = self.curve(bound + sign * self.scale * self.least)
        limit = sign * self.standardise(raw)
        return limit, np.sqrt(2 / np.pi) / erfcx(max(-limit, 0.0) / np.sqrt(2))

    def log_slope(self, z):
        """Return the log-derivative of the transform at transformed values, 0 for nan."""
        z = np.where(np.isnan(z), 0.0, z)
        slopes = np.asarray(self.curve(self.invert(z))[1] - np.log(self.deviation))
        for sign, bound, is_soft in self._bounds:
            limit, rate = self._tail(sign, bound)
            is_near, scale = sign * z < limit, rate * self.scale * self.least
            logs = rate * (sign * z[is_near] - limit)
            slopes[is_near] = (0.5 * logs if is_soft else -logs) - np.log(scale)
        return slopes

    def inverse(self, z):
        """Convert transformed values to the column's units; keep them in bounds, and round them."""
        low, high = self.support
        low, high = max(low + self.step / 2, -LARGEST), min(high - self.step / 2, LARGEST)
        return round_to_grid(self, np.clip(self.restore(np.asarray(z)), low, high))

    def restore(self, z):
        """Convert transformed values to the column's units without rounding."""
        x = np.asarray(self.invert(z))
        for sign, bound, is_soft in self._bounds:
            limit, rate = self._tail(sign, bound)
            is_near = sign * z < limit
            logs = np.maximum(rate * (sign * z[is_near] - limit), -1000.0)
            shares = 1.0 - 2.0 * np.expm1(-logs / 2) if is_soft else np.exp(logs)
            x[is_near] = bound + sign * shares * self.scale * self.least
        return x

    def invert(self, z):
        """Return the values whose standardised transforms are given, without tails at bounds."""
        raw, t, excess = np.asarray(z) * self.deviation + self.mean, self.softness, 0.0
        if np.isfinite(self.start):
            last, log_slope = self._curve_without_tail(self.start)
            logs = np.maximum(raw - last, 0.0) / (self.length * np.exp(log_slope))
            raw, excess = np.minimum(raw, last), np.expm1(np.minimum(logs, 700.0))
        if np.isinf(self.low):
            u = t * np.sinh(np.clip(raw / t, -500, 500))
        else:
            u = t * np.logaddexp(0.0, raw / t)
            if np.isfinite(self.high):
                u -= t * np.logaddexp(0.0, (raw - self._width) / t)
        with np.errstate(over="ignore"):
            return self.centre + self.scale * u + self.length * excess

    @property
    def _width(self):
        return (self.high - self.low) / self.scale

    def curve(self, x):
        """Return the values and the log-derivatives of the transform before standardisation."""
        raw, log_slope = self._curve_without_tail(np.minimum(x, self.start))
        if np.isinf(self.start):
            return raw, log_slope
        with np.errstate(over="ignore"):
            shares = (np.maximum(x, self.start) - self.start) / self.length
        logs = np.log1p(np.minimum(shares, LARGEST))
        return raw + self.length * np.exp(log_slope) * logs, log_slope - logs

    def _curve_without_tail(self, x):
        t, log_scale = self.softness, np.log(self.scale)
        with np.errstate(over="ignore"):
            u = np.clip((x - self.centre) / self.scale, -1e300, 1e300)
        if np.isinf(self.low):
            log_slope = -np.log(np.hypot(1.0, u / t)) - log_scale
            return t * np.arcsinh(u / t), log_slope
        u = np.maximum(u, self.least)
        raw, slope = u + t * np.log(-np.expm1(-u / t)), -1.0 / np.expm1(-u / t)
        if np.isfinite(self.high):
            v = np.maximum(self._width - u, self.least)
            raw, slope = raw - t * np.log(-np.expm1(-v / t)), slope - 1.0 / np.expm1(-v / t) - 1.0
        return raw, np.log(slope) - log_scale


@np.errstate(over="ignore", invalid="ignore")
def learn_transform(x, weights, kind, name="x", *, is_linear=False, is_detected=False):
    """Return the transform of a numeric column, learned from its values.

    Parameters
    ----------
    x : ndarray of shape (n_rows,)
        Values, with nan for missing entries. At least one value is observed.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.
    kind : {"continuous", "non-negative", "bounded", "integer"}
        Type of the column.
    name : str, default="x"
        Name of the column, for error messages.
    is_linear : bool, default=False
        Whether to learn an almost linear transform. "bounded" columns then have no bounds.
    is_detected : bool, default=False
        Whether the type is detected. Most bounds of "bounded" are then soft.

    Returns
    -------
    ColumnTransform
        Transform of the column.
    """
    x, weights = x[~np.isnan(x)], weights[~np.isnan(x)]
    check_support(x, kind, name)
    kind = "continuous" if is_linear and kind == "bounded" else kind
    grid = find_grid(x, kind)
    unit, step = grid.unit, grid.step
    low, high = find_support(x, kind)
    spikes = find_spikes(x, step, low, high)
    if not step and len(spikes) > 1:
        unit = float(np.diff(spikes).min())
    is_spike, n = np.isin(x, spikes), len(x)
    is_soft = find_soft_ends(x, kind, low, high, is_detected)
    parts = dict(zip(("low", "high"), extend_bounds(grid, low, high), strict=True))
    parts |= {"step": step, "unit": unit, "origin": grid.origin, "decimals": grid.decimals}
    parts["between"] = 1.0 / (n + 1.0) if step > unit else 0.0
    parts |= {"spikes": spikes, "values": np.unique(x[:0] if grid.is_exact else x)}
    x, weights = x[~is_spike], weights[~is_spike]
    parts |= {"is_soft": is_soft, "outside": find_outside(n, kind, low, high, is_soft, is_detected)}
    if len(np.unique(x)) < 2:
        return _without_shape(parts, np.append(x, spikes))
    is_far = find_far_values(x)
    median, scale = median_and_scale(x[~is_far])
    centre = parts["low"] if np.isfinite(parts["low"]) else median
    distances = np.concatenate([np.abs(x - parts["low"]), np.abs(parts["high"] - x)]) / scale
    positive = distances[(distances > 0) & np.isfinite(distances)]
    parts |= {"centre": centre, "scale": scale, "least": positive.min(initial=np.inf) / 2}
    transform, is_far = _separate_far_values(x, weights, parts, is_linear, is_far)
    z = transform.forward(x)
    if not np.isfinite(transform.mean + transform.deviation) or np.abs(z).max() >= FARTHEST:
        raise ValueError(
            f"Column {name!r} holds {float(x[np.argmax(np.abs(x))])!r}, which is too large. If the "
            "value is an error, replace it by nan; otherwise divide the column by a power of ten."
        )
    extremes = float(z[~is_far].min()), float(z[~is_far].max())
    if np.isfinite(low) and np.isinf(high) and not is_linear:
        transform = _with_tail(transform, extremes[1] + BEYOND)
    slopes = np.exp(transform.log_slope(z[~is_far]))
    noise = np.average((step * slopes) ** 2, weights=weights[~is_far]) / 12.0
    transform = replace(transform, noise=min(float(noise), 1.0))
    return replace(transform, extremes=extremes, reach=_find_reach(transform, np.append(x, spikes)))


def _with_tail(transform, z):
    """Return the transform with a logarithmic tail above a transformed value."""
    start = float(transform.invert(z))
    slope = np.exp(transform.curve(start)[1]) / transform.deviation
    length = min(start - transform.low, MAX_LENGTH / slope)
    return replace(transform, start=start, length=length) if start < LARGEST else transform


def _find_reach(transform, x):
    """Return the range of the samples; it is narrower if the values are few or rounded."""
    if transform.softness == TAIL_SOFTNESS[0]:  # samples of linear transforms are never far
        return -np.inf, np.inf
    z, width = transform.forward(x), MAX_REACH * np.ptp(x)
    low, high = float(z.min()) - MARGIN, float(z.max()) + MARGIN
    if transform.is_soft[0] and x.min() >= 0.0:
        edge = max(find_smallest(transform) - transform.step / 2, 0.0)
        low = max(low, float(transform.forward(edge + SMALLEST * transform.scale)))
    if not width or (not transform.step and len(x) >= MIN_ROWS):
        return low, high
    ends = transform.forward(np.array([x.min() - width, x.max() + width]))
    return max(low, float(ends[0])), min(high, float(ends[1]))


def _without_shape(parts, values):
    """Return the transform of a column whose values are equal or point masses.

    The scale of the continuous part is the range of the values, or their size if all are equal.
    """
    low, width = parts["low"], parts["high"] - parts["low"]
    is_bounded = np.isfinite(low)
    scale = float(np.ptp(values)) or float(np.abs(values).max())
    if is_bounded and np.isfinite(width):
        scale = width / 2
    centre, scale = float(low if is_bounded else values[0]), scale or 1.0
    transform = ColumnTransform(**parts, centre=centre, scale=scale, softness=1.0)
    transform = replace(transform, mean=float(transform.forward(centre + scale * is_bounded)))
    return replace(transform, reach=_find_reach(transform, values))


def _select_softness(x, weights, parts, is_linear):
    """Return the transform that maximises the likelihood of a normal distribution, and its log."""
    best, best_score = None, -np.inf
    weights = weights * (len(weights) / weights.sum())
    candidates = TAIL_SOFTNESS if np.isinf(parts["low"]) else BOUND_SOFTNESS
    most = MAX_SOFTNESS if np.isfinite(parts["high"]) else np.inf
    for softness in candidates[:1] if is_linear else candidates:
        transform = ColumnTransform(**parts, softness=min(softness, most))
        raw, log_slope = transform.curve(x)
        mean = np.average(raw, weights=weights)
        variance = np.average((raw - mean) ** 2, weights=weights)
        variance = max(variance, (ROUNDING * mean) ** 2, 1e-300)
        transform = replace(transform, mean=mean, deviation=np.sqrt(variance))
        if transform.step and np.isinf(transform.low) and not len(transform.spikes):
            score = weights @ log_rounded_density(transform, x)
        else:
            score = weights @ log_slope - 0.5 * len(x) * (np.log(variance) + NORMAL_CONSTANT)
        is_better = best is None or score > best_score + MIN_TRANSFORM_GAIN
        if is_better and (best is None or not reaches_far(transform, x)):
            best, best_score = transform, score
    return best, best_score


def _separate_far_values(x, weights, parts, is_linear, is_far):
    """Return the transform of a column, and the mask of the values that it need not describe.

    Such values are far from all others also after the transform of these, and their likelihood is
    larger if their logarithms have a wide distribution of their own.
    """
    transform, score = _select_softness(x, weights, parts, is_linear)
    if not is_far.any():
        return transform, is_far
    near, _ = _select_softness(x[~is_far], weights[~is_far], parts, is_linear)
    is_far = is_far & (np.abs(near.forward(x)) > FAR)
    near, score_of_near = _select_softness(x[~is_far], weights[~is_far], parts, is_linear)
    widths = 2.0 * FAR_DECADES * np.log(10.0) * np.abs(x[is_far] - parts["centre"])
    gain = score_of_near - np.log(widths * len(x) / max(is_far.sum(), 1)).sum() - score
    return (near, is_far) if gain > MIN_FAR_GAIN else (transform, np.zeros_like(is_far))


@dataclass(frozen=True)
class TransformedColumns(TableEncoder):
    """Encoder of a table: transformed numbers, states of point masses, and state codes.

    The encoded rows have a variable for each column: the transformed number or the state code of a
    category. A variable for each numeric column with point masses follows: 0 for the continuous
    part, k + 1 for the k-th point mass. The transformed number of a point mass is missing.

    Attributes
    ----------
    names, types : list
        Names of the columns, for error messages, and their types.
    transforms : dict of int to ColumnTransform
        Transform of each numeric column.
    categories : list of ndarray
        Categories of each of the other columns, in the order of their codes.
    log_unseen : dict of int to float
        Log-probability of a number that was not seen in fit, for columns with detected categories.
    """

    names: list
    types: list
    transforms: dict
    categories: list
    log_unseen: dict = field(default_factory=dict)

    @property
    def discrete(self):
        """Indices of the columns with categories."""
        return np.array([j for j in range(len(self.names)) if j not in self.transforms], dtype=int)

    @property
    def spiked(self):
        """Indices of the numeric columns with point masses."""
        return [j for j, transform in self.transforms.items() if len(transform.spikes)]

    @property
    def n_states(self):
        """Number of states of each variable, 0 for transformed numbers."""
        n_states = np.zeros(len(self.names), dtype=np.int64)
        n_states[self.discrete] = [len(c) for c in self.categories]
        added = [len(self.transforms[j].spikes) + 1 for j in self.spiked]
        return np.concatenate([n_states, np.array(added, dtype=np.int64)])

    def encode(self, columns):
        """Return the encoded rows, shape (n_rows, n_variables); missing entries are nan."""
        X, n = np.full((len(columns[0]), len(self.n_states)), np.nan), len(self.names)
        for j, transform in self.transforms.items():
            x = to_floats(columns[j], self.names[j])
            states = transform.find_states(x)
            X[:, j] = np.where(states == 0, transform.forward(x), np.nan)
            if len(transform.spikes):
                X[:, n + self.spiked.index(j)] = states
        if len(self.discrete):
            X[:, self.discrete] = encode_states(self, columns)
        return X

    def hide_far(self, X):
        """Return encoded training rows without the numbers that are far from all others."""
        X = X.copy()
        for j, transform in self.transforms.items():
            X[np.abs(X[:, j] - np.clip(X[:, j], *transform.extremes)) > 0, j] = np.nan
        return X

    def limit(self, X):
        """Return encoded rows for conditional distributions, without extreme numbers.

        Numbers beyond detected bounds count as missing.
        """
        X = hide_outside(self, X)
        for j, transform in self.transforms.items():
            X[:, j] = transform.limit(X[:, j])
        return X

    def decode(self, X):
        """Convert complete encoded rows to the user's units and categories."""
        n, values = len(self.names), {}
        for j, transform in self.transforms.items():
            values[j] = transform.inverse(np.clip(X[:, j], *transform.reach))
            if len(transform.spikes):
                states = X[:, n + self.spiked.index(j)].astype(int)
                table = np.concatenate([[np.nan], transform.spikes])
                values[j] = np.where(states > 0, table[states], values[j])
        dtype = np.dtype(float)
        if len(self.discrete):
            states = decode(X[:, self.discrete].astype(np.int64), self.categories)
            dtype = common_type([states, np.zeros(0)])
            values |= dict(zip(self.discrete.tolist(), states.T, strict=True))
        out = np.empty((len(X), n), dtype=dtype)
        for j, column in values.items():
            out[:, j] = column
        return out

    def log_scale(self, X):
        """Return the log of the factor by which the density of each encoded row is divided.

        The log is a sum over columns: minus the log-derivative of the transform for a number, and
        the log of the unit of rounding for a point mass. The result has shape (n_rows,).
        """
        total, n = np.zeros(len(X)), len(self.names)
        for j, transform in self.transforms.items():
            total -= np.where(np.isnan(X[:, j]), 0.0, transform.log_slope(X[:, j]))
            if len(transform.spikes):
                total += (X[:, n + self.spiked.index(j)] > 0) * np.log(transform.unit)
        return total
