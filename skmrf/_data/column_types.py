"""Types, rounding and bounds of columns, found from values."""

import re

import numpy as np

from .._utils.codes import MIN_CODES, MISSING, find_ordered
from .._utils.parameters import show_list
from .._utils.warn import warn_caller
from .categories import (
    GIVE_ALL,
    GIVE_TYPE,
    N_SHOWN,
    blank_unseen,
    encode,
    is_number,
    missing_mask,
    value_codes,
)
from .cliques import COLUMN_TYPES, read_types
from .frames import MAX_EXACT, TRUTH_VALUES, to_double
from .frames import column_types as frame_types

DISCRETE_TYPES = ("ordinal", "categorical", "boolean")  # columns with categories
# names of the data types of pandas, polars and pyarrow: integers, floats
NUMBERS = r"(sparse\[)?u?int\d", r"(sparse\[)?(half)?float|double"
CODE = r"\s*0\d"  # text that begins with 0 and another digit, such as a postal code
MAX_WHOLE_CATEGORIES = 20  # distinct whole numbers of a column that is categorical by default
N_TAIL, MAX_TAIL_RANGE, MAX_LAST = 3, 8, 4  # largest counts, their range, rows of the last one
MAX_LAST_SHARE = 0.04  # the same as a share of all rows
MAX_END_SHARE = 0.3  # of the mean frequency of codes; a rarer end shows that there are other codes
MIN_PEAK_RATIO = 4.0  # of the largest frequency of counts to the mean frequency of their tail
MIN_BELL_RATIO = 2.0  # the same if both tails are rare
MIN_FILLED = 0.6  # share of the whole numbers between the ends of such a column that occur in it
MAX_DIGIT = 9  # of codes that can have a row each
MIN_DISTINCT, MAX_DISTINCT_SHARE = 5, 0.5  # of larger codes: distinct ones, and their share of rows
MIN_ROWS = 20  # fewer rows are no evidence of bounds, unless a column has its bound as a value
NEAR_BOUND = 0.02  # distance from a bound, relative to the range of the values
MIN_NEAR, MIN_NEAR_SHARE = 6, 0.008  # values near the bounds of a bounded column
MAX_DEVIATION = 2.5  # standard deviations of the number of values in the nearer half
MIN_LOG_ODDS = 7.0  # that the greatest common divisor of integers is no coincidence
MAX_DECIMALS, MIN_TIES = 6, 0.1  # of rounded columns; share of rows with a repeated value
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
N_NEAR = 5  # values on each side that a point mass is compared with
OFFSETS = np.array([j for j in range(-N_NEAR, N_NEAR + 1) if j])


def resolve_column_types(column_types, X, columns, names, *, by_dtype=True, find=None):
    """Return the type of each column, given the parameter ``column_types``.

    Parameters
    ----------
    column_types : "auto", str, list of str, or dict
        "auto" detects the types by :func:`find_column_types`. Another str is the type of all
        columns. A list has one type for each column. A dict has the types of some columns by name
        or index. Columns without a type, or with the type "auto", are detected.
    X : array-like or frame of shape (n_rows, n_columns)
        Training rows.
    columns : list of ndarray of shape (n_rows,)
        Columns of ``X``.
    names : list
        Names of the columns.
    by_dtype : bool, default=True
        Whether the data types of a frame decide if whole numbers are categories. Otherwise whole
        numbers of a frame are treated like those of an array.
    find : callable, optional
        Function of ``X`` and ``columns`` that detects the types, instead of
        :func:`find_column_types`.

    Returns
    -------
    list of str
        Type of each column, one of ``COLUMN_TYPES``.
    """
    given = read_types(column_types, names)
    for j, kind in given.items():
        if not isinstance(kind, str) or kind not in (*COLUMN_TYPES, "auto"):
            raise ValueError(
                f"column_types gives column {names[j]!r} the type {kind!r}; a type is one of "
                f"{show_list(COLUMN_TYPES, len(COLUMN_TYPES))}, or 'auto'."
            )
    given = {j: kind for j, kind in given.items() if kind != "auto"}
    if len(given) == len(names):
        return [given[j] for j in range(len(names))]
    found = find(X, columns) if find else find_column_types(X, columns, by_dtype=by_dtype)
    return [given.get(j, kind) for j, kind in enumerate(found)]


def find_column_types(X, columns, *, by_dtype=True):
    """Return the type of each column, detected from its data type and its values.

    The page "Which estimator do I need?" of the user guide has a table of the rules. Whole numbers
    that would be categories are integers if :func:`~skmrf._utils.codes.find_ordered` finds that
    their order matters, except if the data types of a frame decide. A column of floats of pandas
    counts as integers if it has missing entries and whole numbers only, unless another column of
    floats has whole numbers without missing entries.

    Parameters
    ----------
    X : array-like or frame of shape (n_rows, n_columns)
        Training rows.
    columns : list of ndarray of shape (n_rows,)
        Columns of ``X``.
    by_dtype : bool, default=True
        Whether the data types of a frame decide if whole numbers are categories. Otherwise whole
        numbers of a frame are treated like those of an array.

    Returns
    -------
    list of str
        Type of each column.
    """
    dtypes = frame_types(X)
    pairs = list(zip(dtypes, columns, strict=False))
    kinds = dtypes
    if not any(_holds_whole_floats(*pair) for pair in pairs):
        kinds = ["int64" if _stores_integers(*pair) else pair[0] for pair in pairs]
    is_uniform = _are_uniform(kinds)
    limit = 2 if by_dtype and not is_uniform else MAX_WHOLE_CATEGORIES
    dtypes = dtypes or [None] * len(columns)
    pairs = list(zip(dtypes, columns, strict=True))
    found = [_find_type(*pair, limit) for pair in pairs]
    if limit > 2 and len(columns) > 1:
        detected = [j for j, pair in enumerate(pairs) if _find_type(*pair, 0) != found[j]]
        tested = {j: _find_scale(columns[j]) for j in detected}
        tested = {j: codes for j, codes in tested.items() if len(codes)}
        for j in find_ordered(_to_numbers(columns), tested) if tested else ():
            found[j] = "integer"
    return found


def _find_scale(column):
    """Return the consecutive whole numbers of a column, without point masses; none if too few."""
    x = _observed_numbers(column)
    values = np.unique(x)
    if len(values) < MIN_CODES or np.abs(values).max() >= MAX_EXACT or values[0] == -1:
        return values[:0]
    step = np.gcd.reduce(values.astype(np.int64))
    if len(values) <= MIN_FILLED * (values[-1] - values[0]) / step:
        return values[:0]
    values = np.setdiff1d(values, find_spikes(x, float(step), -np.inf, np.inf))
    return values if len(values) >= MIN_CODES else values[:0]


def _to_numbers(columns):
    """Return columns as numbers, nan where missing; text has codes, or is missing if diverse."""
    codes = value_codes(columns).astype(float)
    codes[codes == MISSING] = np.nan
    for x, column in zip(codes.T, columns, strict=True):
        numbers = _observed_numbers(column)
        if len(numbers):
            x[~np.isnan(x)] = numbers
        elif np.nanmax(x, initial=0) >= MAX_WHOLE_CATEGORIES:
            x[:] = np.nan
    return codes


def find_graph_types(X, columns):
    """Return the type of each column of a table whose graph is estimated.

    The types are those of :func:`find_column_types`, with these differences: whole numbers are
    "categorical" if there are at most 20 distinct values, also counts and in frames. Other numbers
    are "categorical" if the number of distinct values is also at most two, or at most the square
    root of the number of rows. Text, dates and other entries that are no numbers are "categorical".

    Parameters
    ----------
    X : array-like or frame of shape (n_rows, n_columns)
        Training rows.
    columns : list of ndarray of shape (n_rows,)
        Columns of ``X``.

    Returns
    -------
    list of str
        Type of each column.
    """
    found = find_column_types(X, columns, by_dtype=False)
    return [
        kind if kind in DISCRETE_TYPES or _has_measurements(column) else "categorical"
        for kind, column in zip(found, columns, strict=True)
    ]


def _has_measurements(column):
    """Return True if a column has numbers only, with too many distinct ones for categories."""
    if column.dtype.kind not in "Oiuf":
        return False
    if column.dtype == object and any(isinstance(v, str) for v in column.tolist()):
        return False
    x = _observed_numbers(column)
    is_whole = (x == np.floor(x)).all()
    most = MAX_WHOLE_CATEGORIES if is_whole else max(2.0, np.sqrt(len(x)))
    return len(np.unique(x)) > min(MAX_WHOLE_CATEGORIES, most)


def _are_uniform(dtypes):
    """Return True for an array, and for a frame whose columns are all integers or all floats."""
    return any(all(re.match(kind, str(t).lower()) for t in dtypes) for kind in NUMBERS)


def _stores_integers(dtype, column):
    """Return True for integers, and for integers that pandas stores as floats with nan."""
    is_integer = re.match(NUMBERS[0], str(dtype).lower())
    return bool(is_integer or 0 < len(_whole_floats(dtype, column)) < len(column))


def _holds_whole_floats(dtype, column):
    """Return True for whole numbers that are floats although no entry is missing."""
    return 0 < len(_whole_floats(dtype, column)) == len(column)


def _whole_floats(dtype, column):
    """Return the observed entries of a column of floats of numpy, or none if one is not whole."""
    is_float = isinstance(dtype, np.dtype) and dtype.kind == "f"
    x = _observed_numbers(column) if is_float else np.zeros(0)
    return x if (x == np.floor(x)).all() else np.zeros(0)


def _find_type(dtype, column, limit):
    if str(dtype).lower().startswith(("category", "categorical", "enum")):
        return "ordinal" if getattr(dtype, "ordered", False) else "categorical"
    if column.dtype.kind not in "iuf":
        values = column[~missing_mask(column)].tolist()
        kinds = {type(v) for v in values}
        if column.dtype.kind == "b" or (kinds and kinds <= set(TRUTH_VALUES)):
            return "boolean"
        is_text = all(issubclass(k, str) for k in kinds)
        if is_text and not all(is_number(v) and not re.match(CODE, v) for v in values):
            return "categorical"
    return _find_numeric_type(_observed_numbers(column), limit)


def _observed_numbers(column):
    """Return the observed entries, not rounded to floats; none if they are not finite numbers."""
    observed = column[~missing_mask(column)] if column.dtype.kind in "OiufU" else ()
    try:
        x = np.array(observed.tolist() if column.dtype == object else observed)
        is_integer = x.dtype.kind in "iu" and x.ndim == 1  # entries can be lists
        values = x if is_integer else to_double(np.asarray(observed))
    except (OverflowError, TypeError, ValueError):
        return np.zeros(0)
    return values if np.isfinite(values).all() else np.zeros(0)


def _find_numeric_type(x, limit):
    if not len(x):
        return "continuous"
    low, high = x.min(), x.max()
    distinct, counts = np.unique(x, return_counts=True)
    if (distinct == np.floor(distinct)).all():
        is_few = len(distinct) <= limit and not _are_numbers(distinct, counts)
        return "categorical" if is_few else "integer"
    if low >= 0 and high <= 1 and low < NEAR_BOUND and high > 1 - NEAR_BOUND:
        return "bounded"
    if _has_many_near_ends(x, low, high):
        return "bounded"
    return "non-negative" if low == 0 or (low > 0 and len(x) >= MIN_ROWS) else "continuous"


def _are_numbers(values, frequencies):
    """Return True for whole numbers that are probably no codes of categories.

    These are numbers above 9 with few equal ones, counts with few rows at the upper end, and
    negative and positive numbers with few rows at both ends. New rows can have other numbers.
    """
    if max(-float(values[0]), float(values[-1])) > MAX_DIGIT:
        most = max(MIN_DISTINCT, MAX_DISTINCT_SHARE * frequencies.sum())
        if len(values) > most:
            return True
        if np.abs(values).max() < MAX_EXACT:  # rounded numbers, such as multiples of 5000
            values = values / np.gcd.reduce(values.astype(np.int64))
    if values[0] >= 0:
        return _has_rare_end(values, frequencies, MIN_PEAK_RATIO)
    if values[0] == -1 or values[-1] <= 0:
        return False
    if len(values) < max(2 * N_TAIL, MIN_FILLED * (float(values[-1]) - float(values[0]) + 1.0)):
        return False
    ends = (values, frequencies), (-values[::-1], frequencies[::-1])
    return all(_has_rare_end(*end, MIN_BELL_RATIO) for end in ends)


def _has_rare_end(values, frequencies, min_ratio):
    """Return True if the frequencies of values decrease to a few rows at the upper end.

    Smaller numbers than the most frequent one can be rare or frequent.
    """
    tail = frequencies[-N_TAIL:]
    return bool(
        len(values) > N_TAIL
        and np.ptp(values[-N_TAIL:]) <= MAX_TAIL_RANGE
        and tail[-1] <= max(MAX_LAST, MAX_LAST_SHARE * frequencies.sum())
        and (np.diff(tail) <= 1.0 + np.sqrt(tail[:-1])).all()
        and min_ratio * tail.mean() <= frequencies.max()
    )


def _ends_abruptly(x, end):
    """Return whether many distinct values are near an end, and are not rarer towards the end."""
    half = 0.5 * np.unique(x)  # so that differences do not overflow
    distances, near = np.abs(half - 0.5 * end), NEAR_BOUND * np.ptp(half)
    counts = np.array([(distances < d).sum() for d in (0.5 * near, near, 2.0 * near)])
    deviations = counts[:-1] - 0.5 * counts[1:]  # of the nearer half of the values
    is_flat = deviations >= -MAX_DEVIATION * 0.5 * np.sqrt(counts[1:])
    return bool(counts[1] >= max(MIN_NEAR, MIN_NEAR_SHARE * len(x)) and is_flat.all())


def find_step(x, kind):
    """Return the unit of observed values, their rounding step (0 if none), and the steps' origin.

    Rounded values differ from the origin by multiples of the step.
    """
    size, values = np.abs(x).max(), np.unique(x)
    if kind == "integer":
        common = float(np.gcd.reduce(values.astype(np.int64))) if 0 < size < MAX_EXACT else 1.0
        is_chance = np.count_nonzero(values) * np.log(common) < MIN_LOG_ODDS
        return (1.0, 1.0, 0.0) if is_chance else (common, common, 0.0)
    ties = 1.0 - len(values) / len(x)
    for decimals in range(MAX_DECIMALS + 1) if 0 < size < 1e9 else ():
        scaled = x * 10.0**decimals
        whole = np.rint(scaled)
        if whole.any() and np.allclose(scaled, whole, rtol=1e-12, atol=1e-6):
            common = np.gcd.reduce(whole.astype(np.int64))
            unit = float(max(common, 1)) / 10.0**decimals
            return unit, unit if ties >= MIN_TIES else 0.0, 0.0
    if ties >= MIN_TIES and len(values) > 2:
        steps = (values - values[0]) / np.diff(values).min()
        if steps[-1] < 1e5 and np.allclose(steps, np.rint(steps), atol=0.02):
            unit = (values[-1] - values[0]) / np.rint(steps[-1])
            return unit, unit, values[0]
    return 1.0, 0.0, 0.0


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
                are_ends = _has_many_near_ends(x, low, high)
                return tuple(np.clip(ends, *bounds).tolist()) if are_ends else bounds
        return max(ends[0], 0.0) if low >= 0 else ends[0], ends[1]
    if low < 0 or kind not in ("integer", "non-negative"):
        return -np.inf, np.inf
    if _is_capped(x):
        return 0.0, high
    natural = [bound for _, bound in NATURAL_BOUNDS if kind == "non-negative" and high <= bound]
    return 0.0, natural[0] if natural and _piles_up(natural[0] - x) else np.inf


def _has_many_near_ends(x, low, high):
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
    """Return the values that repeat much more often than the values around them."""
    values, counts = np.unique(x, return_counts=True)
    if len(values) <= 2 or (not step and len(x) >= FEW_VALUES * len(values)):
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


def find_log_unseen(columns, known):
    """Return the log-probability of a number that was not seen in fit, by column index.

    It is that of one row of n + 1, if the column has n observed entries, and if few of them are the
    smallest or the largest number. Otherwise new rows seldom have other numbers. The dict ``known``
    has the categories of each column whose type and categories are detected.
    """
    found = {}
    for j, categories in known.items():
        if categories.dtype.kind in "biuf":
            x = columns[j][~missing_mask(columns[j])].astype(float)
            _, counts = np.unique(x, return_counts=True)
            if len(counts) < 2 or min(counts[0], counts[-1]) <= MAX_END_SHARE * counts.mean():
                found[j] = -float(np.log1p(len(x)))
    return found


def find_unseen_numbers(encoder, columns):
    """Return masks of the whole numbers that were not seen in fit, by column index.

    The columns are those of ``encoder.log_unseen``. Other unseen categories raise in ``encode``.
    """
    masks, known = {}, dict(zip(encoder.discrete.tolist(), encoder.categories, strict=True))
    for j in encoder.log_unseen:
        blank = blank_unseen(columns[j], known[j])
        if blank is not columns[j]:
            mask = missing_mask(blank) & ~missing_mask(columns[j])
            x = np.array(columns[j][mask].tolist())
            if x.dtype.kind in "biuf" and np.isfinite(x).all() and (x == np.floor(x)).all():
                masks[j] = mask
    return masks


def score_unseen_numbers(encoder, columns):
    """Return the log-probability of the numbers of each row that were not seen in fit."""
    total = np.zeros(len(columns[0]))
    for j, mask in find_unseen_numbers(encoder, columns).items():
        total[mask] += encoder.log_unseen[j]
    return total


def hide_unseen_numbers(encoder, columns):
    """Return columns in which the numbers that were not seen in fit are missing, and warn."""
    masks, columns, shown = find_unseen_numbers(encoder, columns), list(columns), []
    for j, mask in masks.items():
        shown.append(f"{columns[j][mask].tolist()[0]!r} in column {encoder.names[j]!r}")
        columns[j] = np.where(mask, None, columns[j].astype(object))
    if shown:
        dots = ", ..." * (len(shown) > N_SHOWN)
        warn_caller(
            f"These numbers were not seen in fit: {', '.join(shown[:N_SHOWN])}{dots}. Each has the "
            "probability of one training row in scores, and counts as missing in other queries. "
            f"{GIVE_TYPE}{GIVE_ALL}."
        )
    return columns


def encode_states(encoder, columns):
    """Return the state codes of the columns with categories; missing entries are nan."""
    columns = hide_unseen_numbers(encoder, columns)
    names, read = ([v[j] for j in encoder.discrete] for v in (encoder.names, columns))
    codes = encode(read, encoder.categories, names, has_types=True)
    return np.where(codes == MISSING, np.nan, codes)
