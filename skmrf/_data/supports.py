"""Rounding, bounds and point masses of numeric columns, found from values."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtri

from .categories import to_floats
from .frames import MAX_EXACT

NEAR_BOUND = 0.02  # distance from a bound, relative to the range of the values
MIN_NEAR, MIN_NEAR_SHARE = 6, 0.008  # values near the bounds of a bounded column
NEAR_ZERO = 0.25  # interquartile ranges; so many values are evidence of the bound 0:
NEAR_ZERO_SHARE, MIN_NEAR_ZERO = 0.1, (3, 12)  # share of the rows, and limits of the number
MAX_DEVIATION = 2.5  # standard deviations of the number of values in the nearer half
MIN_LOG_ODDS = 7.0  # that the greatest common divisor of integers is no coincidence
MAX_DECIMALS, MIN_TIES = 6, 0.1  # of rounded columns; share of rows with a repeated value
MIN_STEPS, MAX_STEPS = 5.0, 1000.0  # of a grid with rounding errors: precisions, largest number
ROUNDING_ERROR = 0.51  # largest one, relative to the precision
GRID_ERROR, EXACT_ERROR = 0.02, 1e-6  # of values without decimals, and of exact ones, in steps
RELATIVE_ERROR = 2e-12  # of large numbers
MAX_GAPS, N_TRIALS = 3.0, 8.0  # steps of the smallest difference, frequencies per period
MIN_COHERENCE, MAX_COMPARED = 0.8, 100  # of a grid, and number of values that are compared first
BOUND_MARGIN = 10.0  # between the extremes and the bounds, in mean distances of values
NATURAL_BOUNDS = (0.0, 1.0), (0.0, 100.0)
MIN_PILED, MAX_POWER = 50, 0.8  # values of a column whose density increases towards a bound
MIN_DISTANCE = 1e-3  # of values from such a bound, relative to a quantile
MIN_CAPPED, MIN_CAPPED_SHARE = 10, 0.02  # equal values at the upper end of a capped column
N_BELOW_CAP, MIN_CAP_RATIO = 5, 0.5  # next values, and the frequency of the cap relative to theirs
MAX_SPIKES = 4  # point masses of a column
MIN_SPIKE_ROWS, MIN_SPIKE_SHARE = 3, 0.01  # of the rows, for a point mass
SPIKE_RATIO = 6.0  # rows of a point mass relative to those of values around it
FEW_VALUES = 10  # mean number of rows of a value, if all values are point masses
FEW_ROUNDED, MAX_ROUNDED = 5, 20  # the same for a rounded column, and its number of values
MAX_FILLED, MIN_ISOLATED = 0.6, 0.5  # filled steps, and rows with isolated values, of this column
N_NEAR = 5  # values on each side that a point mass is compared with
MAX_SHORTFALL = 0.75  # standard deviations from the extremes of samples to those of the values
MAX_REACH = 3.0  # of samples beyond the values, relative to their range
SMALLEST_SHARE = 1e-16  # error of small probabilities
FARTHEST = 1e100  # of standardised values, so that squares are finite
LARGEST = np.finfo(float).max
OFFSETS = np.array([j for j in range(-N_NEAR, N_NEAR + 1) if j])


def _ends_abruptly(x, end):
    """Return whether many distinct values are near an end, and are not rarer towards the end."""
    half = 0.5 * np.unique(x)  # so that differences do not overflow
    distances, near = np.abs(half - 0.5 * end), NEAR_BOUND * np.ptp(half)
    counts = np.array([(distances < d).sum() for d in (0.5 * near, near, 2.0 * near)])
    deviations = counts[:-1] - 0.5 * counts[1:]  # of the nearer half of the values
    is_flat = deviations >= -MAX_DEVIATION * 0.5 * np.sqrt(counts[1:])
    return bool(counts[1] >= max(MIN_NEAR, MIN_NEAR_SHARE * len(x)) and is_flat.all())


@dataclass(frozen=True)
class Grid:
    """Possible values of a rounded column: ``origin`` plus multiples of ``step``.

    Attributes
    ----------
    unit : float
        Unit of the values: the greatest common divisor of integers, or of decimal numbers.
    step : float
        Distance of neighbouring possible values, 0 if the column is not rounded.
    origin : float
        One of the possible values.
    decimals : int or None
        Number of decimals of all values, None if it is large or not known.
    is_exact : bool
        Whether all values are possible values, without rounding errors.
    """

    unit: float = 1.0
    step: float = 0.0
    origin: float = 0.0
    decimals: int | None = None
    is_exact: bool = True


def find_grid(x, kind):
    """Return the grid of the observed values of a column.

    The step of decimal numbers, and of integers, is the greatest common divisor of their
    differences, if it is no coincidence. A coarser grid whose values are rounded to these decimals
    is preferred, such as the multiples of 100 / 84 with two decimals. Columns of other numbers than
    integers are rounded only if values are repeated.
    """
    size, values = np.abs(x).max(), np.unique(x)
    if kind == "integer":
        return _find_multiples(values) if 0 < size < MAX_EXACT else Grid(1.0, 1.0)
    has_ties = 1.0 - len(values) / len(x) >= MIN_TIES
    for decimals in range(MAX_DECIMALS + 1) if 0 < size < 1e9 else ():
        scaled = values * 10.0**decimals
        whole = np.rint(scaled)
        if whole.any() and np.allclose(scaled, whole, rtol=1e-12, atol=1e-6):
            if has_ties:
                return _find_decimal_grid(values, whole, decimals)
            return Grid(float(max(np.gcd.reduce(whole.astype(np.int64)), 1)) / 10.0**decimals)
    if has_ties and len(values) > 2:
        steps = (values - values[0]) / np.diff(values).min()
        if steps[-1] < 1e5 and np.allclose(steps, np.rint(steps), atol=GRID_ERROR):
            unit = (values[-1] - values[0]) / np.rint(steps[-1])
            return Grid(float(unit), float(unit), float(values[0]), is_exact=False)
    return Grid()


def _find_multiples(whole, *, is_common=False):
    """Return the coarsest grid of distinct integers in ascending order.

    A common divisor of all integers must not be a coincidence, unless ``is_common`` is True.
    """
    integers = whole.astype(np.int64)
    common = int(np.gcd.reduce(integers))
    if not is_common and np.count_nonzero(integers) * np.log(common) < MIN_LOG_ODDS:
        common = 1
    step = int(np.gcd.reduce(np.diff(integers))) if len(integers) > 1 else common
    if (len(integers) - 2) * np.log(step / common) < MIN_LOG_ODDS:  # one difference is no evidence
        step = common
    return Grid(float(common), float(step), float(integers[0] % step))


def _find_decimal_grid(values, whole, decimals):
    """Return the grid of distinct decimal numbers, given those without the decimal point."""
    size, found = 10.0**decimals, _find_multiples(whole, is_common=True)
    if found.step == 1.0:
        grid = _find_rounded_grid(values, 1.0 / size)
        if grid is not None:
            return Grid(found.unit / size, *grid, decimals, is_exact=False)
    return Grid(found.unit / size, found.step / size, found.origin / size, decimals)


def _find_rounded_grid(values, precision):
    """Return the step and the origin of the coarsest grid that distinct values are rounded from.

    The rounding errors are at most half of the precision. None is returned if no grid is coarse
    enough, or if it can be a coincidence: the values are compared with as many random numbers.
    """
    x, error = values - values[0], ROUNDING_ERROR * precision
    least = np.diff(values).min(initial=np.inf)
    if least < MIN_STEPS * precision or x[-1] > MAX_STEPS * least or len(values) < 3:
        return None
    last = min(MAX_GAPS / least, 1.0 / (MIN_STEPS * precision))
    frequencies = np.arange(1.0 / (least + 2.0 * error), last, 1.0 / (N_TRIALS * x[-1]))
    phases = np.exp(2j * np.pi * frequencies[:, None] * x[:: 1 + len(x) // MAX_COMPARED])
    means = phases.mean(axis=1)
    for i in np.flatnonzero(np.abs(means) > MIN_COHERENCE):
        places = np.rint(x * frequencies[i] - np.angle(means[i]) / (2.0 * np.pi))
        found = _fit_grid(values, places, error)
        if found is not None and found[0] >= MIN_STEPS * precision:
            log_odds = (len(x) - 2) * np.log(found[0] / (2.0 * error)) - np.log(len(frequencies))
            return found if log_odds >= MIN_LOG_ODDS else None
    return None


def _fit_grid(x, places, error):
    """Return the step and the origin of a grid whose places differ from values by at most an error.

    The origin is 0 if possible. None is returned if there is no such grid.
    """
    steps, differences = places[:, None] - places, x[:, None] - x
    is_later = np.triu(np.ones(steps.shape, dtype=bool), 1).T
    steps, differences = steps[is_later], differences[is_later]
    if steps.min() <= 0:
        return None
    low, high = ((differences + sign * 2.0 * error) / steps for sign in (-1, 1))
    if low.max() > high.min():
        return None
    step = 0.5 * (low.max() + high.min())
    origins = x - step * places
    origin = 0.5 * (origins.min() + origins.max())
    places = np.rint(x / step)
    is_zero, rest = places == 0, x[places != 0]
    ends = np.sort([rest - error, rest + error] / places[~is_zero], axis=0)
    is_multiple = (np.abs(x[is_zero]) <= error).all() and ends[0].max() <= ends[1].min()
    if is_multiple:
        step, origin = 0.5 * (ends[0].max() + ends[1].min()), 0.0
    return float(step), float(origin)


def check_support(x, kind, name):
    """Raise a ValueError if the values contradict the type of the column."""
    if kind == "integer" and (x != np.floor(x)).any():
        wrong, remedy = x[x != np.floor(x)][0], '"continuous" or "non-negative"'
    elif kind == "non-negative" and (x < 0).any():
        wrong, remedy = x[x < 0][0], '"continuous"'
    else:
        return
    raise ValueError(
        f"Column {name!r} has the type {kind!r} but holds {float(wrong)!r}; give it the type "
        f"{remedy} in column_types."
    )


def find_support(x, kind):
    """Return the bounds of a numeric column, given its observed values; infinite if it has none."""
    low, high = x.min(), x.max()
    if kind == "bounded":
        margin = BOUND_MARGIN / len(x) * (high - low)
        ends = low - margin, high + margin
        for bounds in NATURAL_BOUNDS:
            if bounds[0] <= low and high <= bounds[1]:
                are_ends = has_many_near_ends(x, low, high)
                return tuple(np.clip(ends, *bounds).tolist()) if are_ends else bounds
        return max(ends[0], 0.0) if low >= 0 else ends[0], ends[1]
    if low < 0 or kind not in ("integer", "non-negative"):
        return -np.inf, np.inf
    if _is_capped(x):
        return 0.0, high
    natural = [bound for _, bound in NATURAL_BOUNDS if kind == "non-negative" and high <= bound]
    return 0.0, natural[0] if natural and _piles_up(natural[0] - x) else np.inf


def extend_bounds(grid, low, high):
    """Return bounds that contain the cells of the smallest and the largest value within bounds."""
    step, origin = grid.step, grid.origin
    if not origin:
        return low - step / 2, high + step / 2
    error = _largest_error(step, grid.decimals, grid.is_exact)
    first = origin + step * np.ceil((low - origin) / step - error)
    last = origin + step * np.floor((high - origin) / step + error)
    return min(low, first - step / 2), max(high, last + step / 2)


def _largest_error(step, decimals, is_exact):
    """Return the largest rounding error of the values of a grid, in steps."""
    if is_exact:
        return EXACT_ERROR
    return GRID_ERROR if decimals is None else ROUNDING_ERROR / (step * 10.0**decimals)


def find_outer_ends(transform):
    """Return the ends of the cells of the smallest and the largest possible value.

    Numbers between these ends and the bounds are rounded to these values.
    """
    (low, high), step, origin = transform.support, transform.step, transform.origin
    if not origin:
        return low, high
    ends = np.array([low + step / 2, high - step / 2])
    first, last = (origin + step * np.rint((ends - origin) / step)).tolist()
    return max(low, first - step / 2), min(high, last + step / 2)


def find_soft_ends(x, kind, low, high, is_detected):
    """Return whether the density is positive below the lower bound, and above the upper bound.

    The bound 0 of a type that is not given ends the support if many values are near it.
    """
    if kind == "bounded":
        is_natural = high in (1.0, 100.0)
        ends = low != 0 or (x.min() > 0 and not is_natural), not is_natural
        return ends if is_detected else (False, False)
    if low != 0 or (kind == "non-negative" and not is_detected):
        return False, False
    near = NEAR_ZERO * np.ptp(np.quantile(x, [0.25, 0.75]))
    return (x <= near).sum() < np.clip(NEAR_ZERO_SHARE * len(x), *MIN_NEAR_ZERO), False


def find_outside(n_values, kind, low, high, is_soft, is_detected):
    """Return the probabilities of numbers below the lower bound, and above the upper bound.

    A bound that is found from the values is no proof that new rows have no number beyond it. One of
    n + 1 rows has such a number, if n values are observed and the density ends at the bound. Copies
    of a row count once.
    """
    is_hard = np.isfinite([low, high]) & ~np.array(is_soft)
    if not is_detected:
        is_hard &= [kind not in ("bounded", "non-negative"), kind != "bounded"]
    shares = is_hard / (max(is_hard.sum(), 1) * (n_values + 1.0))
    return tuple(shares.tolist())


def score_outside(encoder, columns):
    """Return the log-density of each row's numbers beyond detected bounds, shape (n_rows,).

    A number at the distance d beyond the bound has the density :math:`p s / (s + d)^2`, where p is
    the probability of these numbers, and s is the scale of the column. The other numbers of such a
    column have the probability 1 - p.
    """
    total = np.zeros(len(columns[0]))
    for j, transform in encoder.transforms.items():
        x, p = to_floats(columns[j], encoder.names[j]), transform.outside
        step, scale, is_inside = transform.step, transform.scale, ~np.isnan(x)
        for sign, bound, share in zip((-1.0, 1.0), (transform.low, transform.high), p, strict=True):
            if share:
                with np.errstate(over="ignore"):
                    distances = np.minimum(sign * (x - bound), LARGEST / 4)
                here = distances > 0
                near, far = np.maximum(distances[here] - step / 2, 0.0), distances[here] + step / 2
                width = np.log(np.minimum(distances[here] / step + 0.5, 1.0)) if step else 0.0
                logs = np.log(share) + np.log(scale) + width
                total[here] += logs - np.log(scale + near) - np.log(scale + far)
                is_inside &= ~here
        total[is_inside] += np.log1p(-sum(p))
    return total


def score_grids(encoder, columns):
    """Return the log of the factor of each row's density in columns with a coarse grid.

    The step of a coarse grid is larger than the unit of the values. The mean density of a cell is
    the probability of its possible value divided by the step. With the factor, the density of a
    possible value is this probability divided by the unit, times 1 - p. A point mass has the factor
    1 - p, and other values have the factor p, which is ``between``. The shape is (n_rows,).
    """
    total = np.zeros(len(columns[0]))
    for j, transform in encoder.transforms.items():
        p = transform.between
        if p:
            x = to_floats(columns[j], encoder.names[j])
            with np.errstate(over="ignore", invalid="ignore"):
                counts = _count_possible(transform, x)
            logs = np.log(transform.step / transform.unit / np.maximum(counts, 1.0))
            logs = np.where(counts > 0, logs + np.log1p(-p), np.log(p))
            logs = np.where(np.isin(x, transform.spikes), np.log1p(-p), logs)
            total += np.where(np.isnan(x), 0.0, logs)
    return total


def _count_possible(transform, x):
    """Return the number of possible values in the cell of each value, 0 if it is none of them.

    A cell with a training value has only this one. Rounding errors of a grid increase with the
    distance from the training values, so cells far from them can have several possible values.
    """
    step, origin, known = transform.step, transform.origin, transform.values
    tolerance = EXACT_ERROR * step + RELATIVE_ERROR * np.abs(x)
    centres = origin + np.rint((x - origin) / step) * step
    if not len(known):
        return 1.0 * (np.abs(x - centres) <= tolerance)
    nearest = round_to_grid(transform, x)
    beyond = np.maximum(np.maximum(known[0] - x, x - known[-1]), 0.0) / np.ptp(known)
    errors = _largest_error(step, transform.decimals, is_exact=False) * (1.0 + 2.0 * beyond)
    errors = np.minimum(errors, 0.5) * step
    ends = (
        np.floor((centres + errors) / transform.unit),
        np.ceil((centres - errors) / transform.unit),
    )
    counts = np.where(np.abs(x - centres) <= errors + tolerance, ends[0] - ends[1] + 1.0, 0.0)
    return np.where(np.isin(nearest, known), np.abs(x - nearest) <= tolerance, counts)


def hide_outside(encoder, codes):
    """Return encoded rows in which numbers with a density of :func:`score_outside` are missing."""
    codes, n = codes.copy(), len(encoder.names)
    for j, transform in encoder.transforms.items():
        low, high = (share > 0 for share in transform.outside)
        here = (low & (codes[:, j] <= -FARTHEST)) | (high & (codes[:, j] >= FARTHEST))
        codes[here, j] = np.nan
        if len(transform.spikes):
            codes[here, n + encoder.spiked.index(j)] = np.nan
    return codes


def has_many_near_ends(x, low, high):
    """Return whether the values end abruptly at the smallest one, and at the largest one."""
    return _ends_abruptly(x, low) and _ends_abruptly(x, high)


def _piles_up(distances):
    """Return whether the density increases towards a bound, given the distances from it.

    The distribution function of the smallest half of the distances, and of the smallest quarter, is
    about a power of the distance. Below a power of 1, the density is largest at the bound. At the
    upper end of most distributions without a bound, the power is above 2.
    """
    distances = np.sort(distances)
    nearest = [distances[: len(distances) // divisor] for divisor in (2, 4)]
    if len(distances) < MIN_PILED or nearest[1][-1] <= 0:
        return False
    shares = [np.maximum(part / part[-1], MIN_DISTANCE) for part in nearest]
    return all(MAX_POWER * -np.log(part).mean() > 1.0 for part in shares)


def _is_capped(x):
    """Return whether many values are equal to the largest one, as in a score of at most 100.

    The largest value of counts without a bound is much rarer than the next smaller ones.
    """
    _, counts = np.unique(x, return_counts=True)
    *below, highest = counts[-1 - N_BELOW_CAP :].tolist()
    least = max(MIN_CAPPED, MIN_CAPPED_SHARE * len(x))
    return len(below) > 0 and highest >= max(least, MIN_CAP_RATIO * np.mean(below))


def find_spikes(x, step, low, high):
    """Return the values that repeat much more often than the values around them.

    These are all values if there are few, as in a column of doses.
    """
    values, counts = np.unique(x, return_counts=True)
    is_often = not step and len(x) >= FEW_VALUES * len(values)
    if len(values) <= 2 or is_often or (step and _are_isolated(values, counts, step)):
        return values
    is_bound = np.isin(values, () if step else (low, high))
    is_frequent = counts >= max(MIN_SPIKE_ROWS, MIN_SPIKE_SHARE * len(x))
    found = []
    for i in np.flatnonzero(is_bound | is_frequent):
        if step:
            near = np.abs(np.rint((values - values[i]) / step))
            places = values[i] + step * OFFSETS
            n_near = ((values[0] <= places) & (places <= values[-1])).sum()
            others = counts[(near > 0) & (near <= N_NEAR)].sum() / max(n_near, 1)
        else:
            around = np.delete(counts[max(i - N_NEAR, 0) : i + N_NEAR + 1], min(i, N_NEAR))
            others = around.mean() if len(around) else 0.0
        if is_bound[i] or counts[i] >= SPIKE_RATIO * others + 3.0:
            found.append((counts[i], values[i]))
    return np.sort([value for _, value in sorted(found)[::-1][:MAX_SPIKES]])


def _are_isolated(values, counts, step):
    """Return whether rounded values are few and irregular, and most rows have isolated values.

    An isolated value has no value one step above or below. Most rows of counts have values with
    neighbours, although large counts are isolated. The most frequent value does not count, because
    it can be the zero of amounts. Equidistant values, such as every fifth year, are regular.
    """
    n_steps = np.rint(np.diff(values) / step)
    is_far = np.append(True, n_steps > 1) & np.append(n_steps > 1, True)
    is_sparse = len(values) < MAX_FILLED * (n_steps.sum() + 1.0) and np.ptp(n_steps) > 0
    others = np.arange(len(values)) != np.argmax(counts)
    n_rows = counts[others].sum()
    return bool(
        is_sparse
        and len(values) <= min(MAX_ROUNDED, 1 + n_rows / FEW_ROUNDED)
        and counts[others & is_far].sum() >= MIN_ISOLATED * n_rows
    )


def round_to_grid(transform, x):
    """Return the nearest possible values, which are training values where these are close."""
    step, origin, known = transform.step, transform.origin, transform.values
    if not step:
        return x
    x = origin + np.rint((x - origin) / step) * step
    if transform.decimals is not None:
        x = np.round(x, transform.decimals) + 0.0  # no negative zeros
    if len(known):
        place = np.clip(np.searchsorted(known, x - step / 2), 0, len(known) - 1)
        x = np.where(np.abs(known[place] - x) < step / 4, known[place], x)
    return x


def find_smallest(transform):
    """Return the smallest possible value that is not negative."""
    step = transform.step
    if not step:
        return 0.0
    error = _largest_error(step, transform.decimals, not len(transform.values))
    share = max((transform.origin / step + error) % 1.0 - error, 0.0)
    return max(float(round_to_grid(transform, share * step)), 0.0)


def log_rounded_density(transform, x):
    """Return the log of the mean density of the values that are rounded to each value."""
    low, high = (x + sign * transform.step / 2 for sign in (-1, 1))
    low, high = (transform.standardise(transform.curve(ends)[0]) for ends in (low, high))
    is_upper = low > 0  # the difference of shares near 1 is inaccurate
    log_more = log_ndtr(np.where(is_upper, -low, high))
    log_less = log_ndtr(np.where(is_upper, -high, low))
    shares = np.maximum(-np.expm1(log_less - log_more), SMALLEST_SHARE)
    return log_more + np.log(shares / transform.step)


def reaches_far(transform, x):
    """Return whether normal samples would be far from all values, as with values in two groups."""
    z, width = transform.standardise(transform.curve(x)[0]), MAX_REACH * np.ptp(x)
    ends = ndtri([0.5 / len(x), 1.0 - 0.5 / len(x)])  # of as many samples as values
    is_usual = [z.min() <= ends[0] + MAX_SHORTFALL, z.max() >= ends[1] - MAX_SHORTFALL]
    low, high = transform.invert(np.where(is_usual, 0.0, ends))
    return low < x.min() - width or high > x.max() + width
