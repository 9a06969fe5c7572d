"""Types of columns: those that are given, and those that are found from values."""

import re

import numpy as np

from .._utils.codes import MISSING
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
from .frames import MAX_EXACT, TRUTH_VALUES, to_double
from .frames import column_types as frame_types
from .supports import NEAR_BOUND, find_spikes, has_many_near_ends

COLUMN_TYPES = (
    "continuous",
    "non-negative",
    "bounded",
    "integer",
    "ordinal",
    "categorical",
    "boolean",
)
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
MAX_ROWS, MAX_OTHERS = 5000, 50  # rows, and other columns, that are compared
MAX_VALUES, N_BINS = 20, 8  # numbers with more distinct values are divided into bins
RARE = 0.01  # share of rows; rarer values of other columns have less weight
DEGREE, MIN_CODES = 2, 8  # of the polynomial, and codes of a column that is tested
MIN_EXPLAINED = 0.6  # share of the differences between codes that the polynomial explains
N_PERMUTATIONS = 100, 900  # the second ones are drawn only if none of the first ones is as good


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
    given = _given_types(column_types, names)
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


def _given_types(column_types, names):
    """Return a dict of the given types by column index."""
    if isinstance(column_types, dict):
        return {find_position(c, names): kind for c, kind in column_types.items()}
    if isinstance(column_types, str) and column_types in (*COLUMN_TYPES, "auto"):
        return dict.fromkeys(range(len(names)), column_types)
    types = column_types if isinstance(column_types, list | tuple | np.ndarray) else ()
    if len(types) != len(names):
        raise ValueError(
            'column_types must be "auto", a type, a dict, or a list with one type for each of the '
            f"{len(names)} columns; got {column_types!r}. The types are "
            f"{show_list(COLUMN_TYPES, len(COLUMN_TYPES))}."
        )
    return dict(enumerate(types))


def find_position(column, names, parameter="column_types"):
    """Return the index of a column that a parameter names, given its name or index."""
    if isinstance(column, int | np.integer) and not isinstance(column, bool):
        if -len(names) <= column < len(names):
            return int(column) % len(names)
    elif column in names:
        return names.index(column)
    raise ValueError(
        f"{parameter} has {column!r}, which is not a column; the columns are {show_list(names)}."
    )


def find_detected(column_types, names):
    """Return the indices of the columns whose types are detected."""
    given = _given_types(column_types, names)
    return {j for j in range(len(names)) if given.get(j, "auto") == "auto"}


def find_column_types(X, columns, *, by_dtype=True):
    """Return the type of each column, detected from its data type and its values.

    The page "Which estimator do I need?" of the user guide has a table of the rules. Whole numbers
    that would be categories are integers if :func:`find_ordered` finds that
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


def find_ordered(X, tested):
    """Return which columns of codes have relations to other columns that follow their order.

    The distributions of the other columns given a code are compared between codes. The order of the
    codes of a column matters if a quadratic polynomial of the code explains most differences, and
    if it explains no more for each of 1000 random permutations of the codes. For names of
    categories, all permutations are equally probable, so the order rarely matters by chance.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Columns of numbers, nan where missing.
    tested : dict of int to ndarray of shape (n_codes,)
        Codes that are compared, in ascending order, by the index of the column.

    Returns
    -------
    list of int
        Indices of the columns whose codes are ordered.
    """
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(X))[:MAX_ROWS])
    X = X[rows]
    others = np.unique(np.linspace(0, X.shape[1] - 1, MAX_OTHERS).astype(int))
    parts = [_indicators(X[:, k]) for k in others]
    owners = np.repeat(others, [part.shape[1] for part in parts])
    indicators = np.concatenate(parts, axis=1)
    squares, found = indicators**2, []
    for j, codes in tested.items():
        is_code = (X[:, j, None] == codes).astype(float)
        counts = is_code.sum(axis=0)
        codes, is_code, counts = codes[counts > 0], is_code[:, counts > 0], counts[counts > 0]
        if len(codes) >= MIN_CODES:
            sums = (is_code.T @ indicators)[:, owners != j]
            total = (is_code.sum(axis=1) @ squares)[owners != j].sum()
            if _is_ordered(codes, counts, sums, total, rng):
                found.append(j)
    return found


def _indicators(x):
    """Return scaled and centred indicators of the values of a column, or of bins of its numbers."""
    is_observed = ~np.isnan(x)
    values, inverse = np.unique(x[is_observed], return_inverse=True)
    if len(values) > MAX_VALUES:
        cuts = np.unique(np.quantile(inverse, np.arange(1, N_BINS) / N_BINS))
        inverse = np.searchsorted(cuts, inverse, side="right")
    found = np.zeros((len(x), inverse.max(initial=0) + 1))
    found[is_observed] = np.eye(found.shape[1])[inverse]
    shares = found.sum(axis=0) / max(is_observed.sum(), 1)
    found[is_observed] -= shares
    return found / np.sqrt(np.maximum(shares, RARE))


def _is_ordered(codes, counts, sums, total, rng):
    """Return whether a polynomial of the codes explains the means of indicators given a code.

    ``sums`` are the sums of the indicators of the rows with each code, shape (n_codes,
    n_indicators), and ``total`` is the sum of all squares.
    """
    n_rows, n_codes, mean = counts.sum(), len(codes), sums.sum(axis=0) / counts.sum()
    sums = (sums - counts[:, None] * mean) / np.sqrt(counts)[:, None]
    products = sums @ sums.T  # the trace is the sum of squares between codes
    between = np.trace(products)
    within = total - n_rows * (mean**2).sum() - between
    noise = within / max(n_rows - n_codes, 1)  # of each degree of freedom
    places = 2.0 * (codes - codes[0]) / (codes[-1] - codes[0]) - 1.0

    def explained(orders):
        powers = places[orders][..., None] ** np.arange(DEGREE + 1)
        basis = np.linalg.qr(powers * np.sqrt(counts)[:, None])[0]
        return (basis * (products @ basis)).sum(axis=(-2, -1))

    found = explained(np.arange(n_codes))
    least = MIN_EXPLAINED * (between - (n_codes - 1) * noise)
    if found - DEGREE * noise <= max(least, 0.0):
        return False
    draws = (rng.permuted(np.tile(np.arange(n_codes), (n, 1)), axis=1) for n in N_PERMUTATIONS)
    return all((explained(orders) <= found + 1e-9 * between).all() for orders in draws)


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
    if has_many_near_ends(x, low, high):
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


def find_log_unseen(columns, known, *, accepts_all=False):
    """Return the log-probability of a category that was not seen in fit, by column index.

    It is that of one row of n + 1, if the column has n observed entries, and if few of them are the
    smallest or the largest number. Otherwise new rows seldom have other numbers. With
    ``accepts_all`` it is the same for all columns, also those of text. The dict ``known`` has the
    categories of each column whose type and categories are detected.
    """
    found = {}
    for j, categories in known.items():
        x, is_open = columns[j][~missing_mask(columns[j])], accepts_all
        if categories.dtype.kind in "biuf" and not is_open:
            _, counts = np.unique(x.astype(float), return_counts=True)
            is_open = len(counts) < 2 or min(counts[[0, -1]]) <= MAX_END_SHARE * counts.mean()
        if is_open:
            found[j] = -float(np.log1p(len(x)))
    return found


def find_unseen(encoder, columns):
    """Return masks of the categories that were not seen in fit, by column index.

    The columns are those of ``encoder.log_unseen``. Other unseen categories raise in ``encode``,
    also those with another type, such as text in a column of numbers.
    """
    masks, known = {}, dict(zip(encoder.discrete.tolist(), encoder.categories, strict=True))
    for j in encoder.log_unseen:
        blank = blank_unseen(columns[j], known[j])
        if blank is not columns[j]:
            mask = missing_mask(blank) & ~missing_mask(columns[j])
            if _are_similar(columns[j][mask].tolist(), known[j]):
                masks[j] = mask
    return masks


def _are_similar(values, known):
    """Return whether values are whole numbers like known numbers, or have the types of others."""
    if known.dtype.kind not in "biuf":
        types, others = ({type(_unwrap(v)) for v in part} for part in (known.tolist(), values))
        return others <= types
    x = np.array(values)
    return bool(x.dtype.kind in "biuf" and np.isfinite(x).all() and (x == np.floor(x)).all())


def _unwrap(value):
    return value.item() if isinstance(value, np.generic) else value


def score_unseen(encoder, columns):
    """Return the log-probability of the categories of each row that were not seen in fit."""
    total = np.zeros(len(columns[0]))
    for j, mask in find_unseen(encoder, columns).items():
        total[mask] += encoder.log_unseen[j]
    return total


def hide_unseen(encoder, columns):
    """Return columns in which the categories that were not seen in fit are missing, and warn."""
    masks, columns, shown = find_unseen(encoder, columns), list(columns), []
    known = zip(encoder.discrete, encoder.categories, strict=True)
    are_numbers = all(values.dtype.kind in "iuf" for j, values in known if j in masks)
    for j, mask in masks.items():
        shown.append(f"{columns[j][mask].tolist()[0]!r} in column {encoder.names[j]!r}")
        columns[j] = np.where(mask, None, columns[j].astype(object))
    if shown:
        dots = ", ..." * (len(shown) > N_SHOWN)
        warn_caller(
            f"These {'numbers' if are_numbers else 'categories'} were not seen in fit: "
            f"{', '.join(shown[:N_SHOWN])}{dots}. Each has the probability of one training row in "
            "scores, and counts as missing in other queries. "
            f"{GIVE_TYPE if are_numbers else ''}{GIVE_ALL}."
        )
    return columns


def encode_states(encoder, columns):
    """Return the state codes of the columns with categories; missing entries are nan."""
    columns = hide_unseen(encoder, columns)
    names, read = ([v[j] for j in encoder.discrete] for v in (encoder.names, columns))
    codes = encode(read, encoder.categories, names, has_types=True)
    return np.where(codes == MISSING, np.nan, codes)
