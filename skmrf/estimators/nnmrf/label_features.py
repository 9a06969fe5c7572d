"""Features of the potentials of a classifier: numbers, normal scores, splines and radial units."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.stats import norm

from ..._data.categories import (
    blank_unseen,
    check_categories,
    encode,
    find_categories,
    missing_mask,
    to_floats,
)
from ..._data.column_types import DISCRETE_TYPES, find_position, resolve_column_types
from ..._data.frames import declared_categories
from ..._utils.codes import MISSING
from ..._utils.warn import warn_caller

TAIL = 0.01  # share of each tail that does not count in the range of a column
MAX_REACH = 10.0  # of the range beyond the quartiles, in interquartile ranges
FEW_VALUES, MIN_ROWS_PER_VALUE = 20, 5  # of a column with a knot at each distinct value
MAX_CODES, MIN_ROWS_PER_CODE = 64, 20  # the same, for whole numbers
MIN_CATEGORY_ROWS, MAX_LEVELS = 2, 1000  # of a nominal column
SCORED_SHARES = np.linspace(0, 1, 101)  # of the rows, at the quantiles that have normal scores
FEATURE_SETS = "linear", "normal", "spline"
RADIAL_SCALE = 10.0  # so that one path of penalties suits all features


@dataclass(frozen=True)
class Column:
    """Encoding of one column of a table.

    Attributes
    ----------
    name : object
        Name of the column.
    categories : ndarray or None
        Categories, or None for numbers.
    is_nominal : bool
        Whether the categories have no order.
    low, high : float
        Range outside which numbers are clipped.
    mean, scale : float
        Centre and scale of clipped numbers.
    knots : ndarray of shape (n_knots,)
        Knots of the spline. There are none for nominal columns.
    has_missing : bool
        Whether the training rows have missing entries.
    normal_scores : ndarray of shape (2, n_quantiles)
        Quantiles of the standardised numbers of a column with wide tails, and their normal scores.
    levels : ndarray of shape (n_categories + 1,)
        Level of each nominal category. The last entry is for unseen categories. Rare categories
        share a level. Categories with nan are treated as missing. Ordered categories have no
        levels.
    """

    name: object
    categories: np.ndarray | None = None
    is_nominal: bool = False
    low: float = 0.0
    high: float = 0.0
    mean: float = 0.0
    scale: float = 1.0
    knots: np.ndarray = ()
    has_missing: bool = False
    normal_scores: np.ndarray = ()
    levels: np.ndarray = ()

    def to_numbers(self, column):
        """Return numbers or codes of categories or levels, with nan for missing entries."""
        if self.categories is None:
            return to_floats(column, self.name)
        known = blank_unseen(column, self.categories)
        codes = encode([known], [self.categories], [self.name])[:, 0]
        if not len(self.levels):
            return np.where(codes == MISSING, np.nan, codes)
        # The code of unseen categories is -1, so they have the last level.
        return np.where(missing_mask(column), np.nan, self.levels[codes])

    def standardised(self, x):
        """Return clipped and standardised numbers; missing entries have the mean, which is 0."""
        with np.errstate(over="ignore"):
            z = (np.clip(x, self.low, self.high) - self.mean) / self.scale
        return np.where(np.isnan(x), 0.0, z)

    def features(self, name, x):
        """Return the list of features of a set: "linear", "normal" or "spline"."""
        methods = {
            "linear": self.linear_features,
            "normal": self.normal_features,
            "spline": self.spline_features,
        }
        return methods[name](x)

    def linear_features(self, x):
        """Return the list of features of the linear potential of the column."""
        indicators = [np.isnan(x).astype(float)] if self.has_missing else []
        if self.is_nominal:
            n = int(np.nanmax(self.levels)) + 1 if len(self.levels) else len(self.categories)
            return [(x == k).astype(float) for k in range(n)] + indicators
        return [self.standardised(x), *indicators]

    def normal_features(self, x):
        """Return the list of linear features, with normal scores if the column has wide tails."""
        features = self.linear_features(x)
        if len(self.normal_scores):
            scores = np.interp(features[0], *self.normal_scores)
            features[0] = np.where(np.isnan(x), 0.0, scores)
        return features

    def spline_features(self, x):
        """Return the list of features of the piecewise linear potential of the column."""
        if self.is_nominal or len(self.knots) < 3:
            return self.linear_features(x)
        z = self.standardised(x)
        parts = [
            np.clip((z - a) / (b - a), 0, 1)
            for a, b in zip(self.knots[:-1], self.knots[1:], strict=True)
        ]
        return parts + ([np.isnan(x).astype(float)] if self.has_missing else [])


def fit_column(x, weights, n_knots, column):
    """Return the column with its range, scale and knots, learned from numbers and weights.

    Parameters
    ----------
    x : ndarray of shape (n_rows,)
        Numbers or category codes, with nan for missing entries.
    weights : ndarray of shape (n_rows,)
        Weight of each row.
    n_knots : int
        Largest number of intervals of the spline. Columns with few distinct values have a knot at
        each value.
    column : dict
        Other attributes of :class:`Column`.

    Returns
    -------
    Column
        Fitted column.
    """
    is_observed = ~np.isnan(x)
    has_missing = not is_observed.all()
    x, weights = x[is_observed], weights[is_observed]
    if not len(x):
        warn_caller(f"Column {column['name']!r} has no observed entry, so it is ignored; drop it.")
        return Column(**column)
    if column.get("is_nominal"):
        levels = find_levels(x.astype(int), column)
        return Column(**column, has_missing=has_missing, levels=levels)
    low, first, third, high = weighted_quantiles(x, weights, [TAIL, 0.25, 0.75, 1 - TAIL])
    if third > first:  # an outlier in few rows does not change the range
        reach = MAX_REACH * (third - first)
        low, high = max(low, first - reach), min(high, third + reach)
    if low == high:
        low, high = x.min(), x.max()
    if high - low > np.finfo(float).max / 4:
        raise ValueError(
            f"Column {column['name']!r} holds {x[np.argmax(np.abs(x))]}, which is too large to be "
            "standardised; divide the column by a power of ten."
        )
    width = (high - low) or 1.0
    lowest, highest = low - width, high + width
    units = (np.clip(x, lowest, highest) - low) / width
    mean = np.average(units, weights=weights)
    spread = np.sqrt(np.average((units - mean) ** 2, weights=weights))
    spread = spread if spread > 1e-9 and high > low else 1.0
    fitted = Column(
        **column,
        low=lowest,
        high=highest,
        mean=low + width * mean,
        scale=width * spread,
        has_missing=has_missing,
    )
    z = fitted.standardised(x)
    learned = {
        "knots": find_knots(z, weights, n_knots, (x == np.round(x)).all()),
        "normal_scores": find_normal_scores(z, weights),
    }
    return Column(**vars(fitted) | learned)


def find_knots(z, weights, n_knots, is_whole):
    """Return the distinct values of a column if they are few, otherwise distinct quantiles.

    Whole numbers can have more distinct values, because they can be codes of categories.
    """
    distinct = np.unique(z)
    n, n_rows = len(distinct), len(z)
    has_few = n <= FEW_VALUES and n_rows >= MIN_ROWS_PER_VALUE * n
    has_codes = is_whole and n <= MAX_CODES and n_rows >= MIN_ROWS_PER_CODE * n
    if n <= n_knots + 1 or has_few or has_codes:
        return distinct
    return np.unique(weighted_quantiles(z, weights, np.linspace(0, 1, n_knots + 1)))


def find_levels(codes, column):
    """Return the level of each category; the last entry is the level of unseen categories.

    Frequent categories have a level each. The others share the last level if any of them has a row,
    because unseen categories resemble them. Otherwise they have nan.
    """
    counts = np.bincount(codes, minlength=len(column["categories"]))
    if counts.max() < MIN_CATEGORY_ROWS:
        warn_caller(
            f"No category of column {column['name']!r} occurs in several rows, so its categories "
            "are ignored; drop the column."
        )
    order = np.argsort(-counts, kind="stable")[: MAX_LEVELS - 1]
    frequent = np.sort(order[counts[order] >= MIN_CATEGORY_ROWS])
    has_rare = counts[frequent].sum() < len(codes)
    levels = np.full(len(counts) + 1, len(frequent) if has_rare else np.nan)
    levels[frequent] = np.arange(len(frequent))
    return levels


def find_normal_scores(z, weights):
    """Return quantiles of a column with wide tails, and their normal scores.

    The scores of the rows have mean 0 and variance 1. A column without wide tails, or with at most
    20 distinct values, has no scores.
    """
    values, owners = np.unique(z, return_inverse=True)
    low, first, third, high = weighted_quantiles(z, weights, [TAIL, 0.25, 0.75, 1 - TAIL])
    if high - low <= MAX_REACH * (third - first) or len(values) <= FEW_VALUES:
        return ()
    counts = np.bincount(owners, weights)
    scores = norm.ppf((np.cumsum(counts) - 0.5 * counts) / counts.sum())
    knots = np.unique(np.searchsorted(values, weighted_quantiles(z, weights, SCORED_SHARES)))
    values, scores = values[knots], scores[knots]
    found = np.interp(z, values, scores)
    mean = np.average(found, weights=weights)
    spread = np.sqrt(np.average((found - mean) ** 2, weights=weights))
    return np.stack([values, (scores - mean) / spread])


def weighted_quantiles(x, weights, shares):
    """Return quantiles (inverse of the distribution function) of weighted numbers.

    Parameters
    ----------
    x, weights : ndarray of shape (n,)
        Numbers and their weights.
    shares : array-like of shape (n_quantiles,)
        Shares of the total weight at or below each quantile.

    Returns
    -------
    ndarray of shape (n_quantiles,)
        Quantiles, which are entries of ``x``.
    """
    order = np.argsort(x, kind="stable")
    cumulated = np.cumsum(weights[order])
    places = np.searchsorted(cumulated / cumulated[-1] + 1e-12, shares)
    return x[order][np.minimum(places, len(x) - 1)]


class LabelFeatures:
    """Sets of features of rows: linear features, linear features with normal scores, and splines.

    Parameters
    ----------
    columns : list of Column
        Encoding of the columns.
    """

    def __init__(self, columns):
        self.columns = columns

    def to_numbers(self, columns):
        """Return the numbers or category codes of each column, with nan for missing entries."""
        return [c.to_numbers(column) for c, column in zip(self.columns, columns, strict=True)]

    def owners(self):
        """Return the column of each feature, for each set of features."""
        x, numbers = np.zeros(1), np.arange(len(self.columns))
        return {
            name: np.repeat(numbers, [len(c.features(name, x)) for c in self.columns])
            for name in FEATURE_SETS
        }

    def learn_means(self, columns, weights):
        """Store the weighted means of the features, which :meth:`transform` subtracts."""
        self.means = dict.fromkeys(FEATURE_SETS, 0.0)
        found = self.transform(columns)
        self.means = {name: np.average(F, axis=0, weights=weights) for name, F in found.items()}

    def transform(self, columns):
        """Return the centred features of rows.

        Parameters
        ----------
        columns : list of ndarray of shape (n_rows,)
            Columns of the table.

        Returns
        -------
        dict
            Arrays of shape (n_rows, n_features). "linear": standardised numbers, indicators of
            categories, and indicators of missing entries. "normal": the same, with normal scores
            of columns with wide tails. "spline": the same, with piecewise linear features in place
            of numbers.
        """
        pairs = list(zip(self.columns, self.to_numbers(columns), strict=True))
        found = {}
        for name in FEATURE_SETS:
            if name == "normal" and not any(len(c.normal_scores) for c in self.columns):
                found[name] = found["linear"]  # the same array saves memory
                continue
            F = np.stack([f for c, x in pairs for f in c.features(name, x)], axis=1)
            found[name] = F - self.means[name]
        return found


def learn_features(X, columns, names, column_types, categories, weights, n_knots):
    """Return the features of a table, learned from the training rows, and the types of columns.

    Parameters
    ----------
    X : array-like or frame
        Training rows.
    columns : list of ndarray
        Columns of ``X`` in the rows that have a weight.
    names : list
        Names of the columns.
    column_types, categories
        Parameters of the classifier.
    weights : ndarray of shape (n_rows,)
        Weight of each row of ``columns``.
    n_knots : int
        Largest number of intervals of the spline of a column.

    Returns
    -------
    LabelFeatures
        Features.
    types : list of str
        Type of each column.
    categories : list of ndarray
        Categories of each column that has categories.
    """
    types = resolve_column_types(column_types, X, columns, names)
    given = _given_positions(column_types, names)
    declared = declared_categories(X, np.ones(len(columns), dtype=bool))
    given |= {j for j, known in enumerate(declared) if known is not None}
    types = [  # a detected column of whole numbers keeps its order
        "integer" if t == "categorical" and j not in given and c.dtype.kind in "iuf" else t
        for j, (t, c) in enumerate(zip(types, columns, strict=True))
    ]
    found = _find_categories(X, columns, names, types, categories)
    fitted = []
    for j, (column, kind) in enumerate(zip(columns, types, strict=True)):
        known = {"name": names[j], "categories": found.get(j)}
        known["is_nominal"] = j in found and kind != "ordinal"
        x = Column(**known).to_numbers(column)
        fitted.append(fit_column(x, weights, n_knots, known))
    features = LabelFeatures(fitted)
    features.learn_means(columns, weights)
    return features, types, list(found.values())


def _given_positions(column_types, names):
    """Return the set of columns whose type the user has given."""
    if isinstance(column_types, str):
        return set() if column_types == "auto" else set(range(len(names)))
    if isinstance(column_types, dict):
        return {find_position(c, names) for c, kind in column_types.items() if kind != "auto"}
    return {j for j, kind in enumerate(column_types) if kind != "auto"}


def _find_categories(X, columns, names, types, categories):
    """Return the categories of the columns that have categories, keyed by column."""
    is_discrete = np.isin(types, DISCRETE_TYPES)
    places = np.flatnonzero(is_discrete).tolist()
    if not isinstance(categories, str):
        found = check_categories(categories, [names[j] for j in places])
        return dict(zip(places, found, strict=True))
    if categories != "auto":
        raise ValueError(f'categories must be "auto" or a list of lists; got {categories!r}.')
    found = {}
    for j, declared in zip(places, declared_categories(X, is_discrete), strict=True):
        known = None if declared is None else [declared]
        name = [names[j]]
        if known is None:
            found[j] = find_categories([columns[j]], name)[0]
        else:
            found[j] = check_categories(known, name)[0]
    return found


class SelectedFeatures:
    """Some of the features, or functions of them.

    Parameters
    ----------
    kept : slice or ndarray of int
        Positions of the features.
    mapping : RadialFeatures or PrincipalAxes, optional
        Functions of these features.
    """

    def __init__(self, kept, mapping=None):
        self.kept, self.mapping = kept, mapping

    def transform(self, F):
        """Return the features of rows, shape (n_rows, n_features)."""
        F = F[:, self.kept]
        return F if self.mapping is None else self.mapping.transform(F)


class FoldFeatures:
    """Features that each fold has selected.

    Parameters
    ----------
    kept : list of ndarray of int
        Positions of the features, for each fold.
    """

    def __init__(self, kept):
        self.kept = kept

    def transform(self, F):
        """Return the features of rows as float32, with zeros at the ends of short parts.

        The shape is (n_folds, n_rows, n_features).
        """
        parts = np.zeros((len(self.kept), len(F), max(map(len, self.kept))), np.float32)
        for part, kept in zip(parts, self.kept, strict=True):
            part[:, : len(kept)] = F[:, kept]
        return parts


class RadialFeatures:
    """Features of radial basis functions of all columns, with training rows as centres.

    The inner products of the features are ``exp(-sum((a - b)**2) / (width**2 * n_linear))``, up to
    a factor, for rows ``a`` and ``b`` of linear features. This is exact if the rows are centres.

    Parameters
    ----------
    centers : ndarray of shape (n_centers, n_linear)
        Linear features of the centres.
    width : float
        Width of the functions, relative to the root mean square of the linear features.
    """

    def __init__(self, centers, width):
        self.centers, self.width = centers, width
        values, vectors = np.linalg.eigh(self._kernel(centers))
        kept = values > 1e-6 * values[-1]
        self.basis = RADIAL_SCALE * vectors[:, kept] / np.sqrt(values[kept])

    def _kernel(self, Z):
        squares = (Z**2).sum(axis=1)[:, None] + (self.centers**2).sum(axis=1)
        distances = np.maximum(squares - 2 * Z @ self.centers.T, 0.0)
        return np.exp(-distances / (self.width**2 * max(Z.shape[1], 1)))

    def transform(self, Z):
        """Return the features, shape (n_rows, n_features), of rows of linear features."""
        return self._kernel(Z) @ self.basis


class PrincipalAxes:
    """Projection of features on the axes of largest variance.

    Parameters
    ----------
    F : ndarray of shape (n_rows, n_features)
        Centred features.
    n_axes : int
        Maximum number of axes.
    """

    def __init__(self, F, n_axes):
        is_wide = F.shape[1] > F.shape[0]
        n, products = min(F.shape), F @ F.T if is_wide else F.T @ F
        largest = max(n - n_axes, 0), n - 1
        values, vectors = eigh(products, subset_by_index=largest)
        kept = values > 1e-9 * values[-1]
        self.axes = vectors[:, kept]
        if is_wide:
            self.axes = F.T @ (self.axes / np.sqrt(values[kept]))

    def transform(self, F):
        """Return the coordinates of rows, shape (n_rows, n_axes)."""
        return F @ self.axes
