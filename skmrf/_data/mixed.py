"""Conversion of tables of continuous and categorical columns to arrays and back."""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtri

from .._utils.codes import MISSING
from .._utils.log_weights import normalized_weights
from .._utils.warn import warn_caller
from .categories import (
    TableEncoder,
    common_type,
    decode,
    encode,
    resolve_categories,
    time_advice,
    to_floats,
)
from .column_types import (
    DISCRETE_TYPES,
    encode_states,
    find_detected,
    find_log_unseen,
    find_unseen,
    resolve_column_types,
)
from .frames import declared_categories
from .numeric import hide_far_values

N_SHOWN = 8  # names in a warning
DEGENERATE = r"Columns? .* no maximum\. The model keeps"  # matches warnings
MAX_STANDARDISED = 1e99  # so that squares are finite
MAX_SKEWNESS = 1.0  # of columns that are standardised, and not replaced by Gaussian scores
TAIL = 1e-3  # probability that a normal sample has a value beyond the limit of such columns


@dataclass(frozen=True)
class Columns(TableEncoder):
    """Encoder that standardises continuous columns and converts categories to state codes.

    Attributes
    ----------
    names : list
        Names of the columns, for error messages.
    continuous : ndarray of int
        Indices of the continuous columns.
    discrete : ndarray of int
        Indices of the categorical columns.
    categories : list of ndarray
        Categories of each categorical column, in the order of their codes.
    mean : ndarray of shape (n_continuous,)
        Mean of each continuous column.
    scale : ndarray of shape (n_continuous,)
        Scale of each continuous column. The standardised number is ``(x - mean) / scale``.
    types : list of str
        Type of each column, such as "integer".
    log_unseen : dict of int to float
        Log-probability of a category not seen in fit, for columns with detected categories.
    """

    names: list
    continuous: np.ndarray
    discrete: np.ndarray
    categories: list
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    scale: np.ndarray = field(default_factory=lambda: np.ones(0))
    types: list = field(default_factory=list)
    log_unseen: dict = field(default_factory=dict)

    @property
    def n_states(self):
        """Number of states of each column; 0 for continuous columns."""
        n_states = np.zeros(len(self.names), dtype=np.int64)
        n_states[self.discrete] = [len(c) for c in self.categories]
        return n_states

    def encode(self, columns):
        """Encode rows as standardised numbers and state codes; missing entries become nan.

        The result has shape (n_rows, n_columns).
        """
        X = np.empty((len(columns[0]), len(columns)))
        for k, j in enumerate(self.continuous):
            with np.errstate(over="ignore"):
                x = (to_floats(columns[j], self.names[j]) - self.mean[k]) / self.scale[k]
            X[:, j] = np.clip(x, -MAX_STANDARDISED, MAX_STANDARDISED)
        if len(self.discrete):
            X[:, self.discrete] = encode_states(self, columns)
        return X

    def decode(self, X):
        """Convert encoded rows back to the user's units and categories.

        The array has the dtype object if a category is not numeric, or if a float would round it.
        """
        values = X[:, self.continuous] * self.scale + self.mean
        if not len(self.discrete):
            return values
        states = decode(X[:, self.discrete].astype(np.int64), self.categories)
        out = np.empty(X.shape, dtype=common_type([values, states]))
        out[:, self.continuous], out[:, self.discrete] = values, states
        return out

    def standardised(self, X, weights):
        """Standardise encoded rows by weighted means and deviations; return rows and encoder."""
        X, mean, scale = X.copy(), self.mean.copy(), self.scale.copy()
        for k, j in enumerate(self.continuous):
            centre, spread = _mean_and_scale(X[:, j], weights, self.names[j])
            X[:, j] = (X[:, j] - centre) / spread
            mean[k], scale[k] = mean[k] + scale[k] * centre, scale[k] * spread
        return X, replace(self, mean=mean, scale=scale)

    def log_scale(self, X):
        """Return, for each row, the sum of log ``scale`` over its observed continuous columns."""
        return ~np.isnan(X[:, self.continuous]) @ np.log(self.scale)


def learn_columns(
    X, columns, names, column_types, categories, weights=None, *, accepts_unseen=False
):
    """Return an encoder fitted to training rows, given the types and categories of columns.

    Parameters
    ----------
    X : array-like or frame
        Training rows.
    columns : list of ndarray
        Columns of ``X``, or of some of its rows.
    names : list
        Names of the columns.
    column_types : "auto", str, list of str, or dict
        Types of the columns, as in :func:`~skmrf._data.column_types.resolve_column_types`.
    categories : "auto" or list of lists
        Categories of each categorical column.
    weights : ndarray of shape (n_rows,), optional
        Weight of each row of ``columns``.
    accepts_unseen : bool, default=False
        Whether queries can have other categories in all columns with detected ones.

    Returns
    -------
    Columns
        Encoder of the columns.
    """
    types = resolve_column_types(column_types, X, columns, names)
    mask = np.isin(types, DISCRETE_TYPES)
    declared = declared_categories(X, mask)
    found = fit_columns(columns, names, mask, categories, weights, declared)
    parts = zip(found.discrete.tolist(), found.categories, declared, strict=True)
    is_open = find_detected(column_types, names) if isinstance(categories, str) else ()
    known = {j: c for j, c, given in parts if given is None and j in is_open}
    log_unseen = find_log_unseen(columns, known, accepts_all=accepts_unseen)
    return replace(found, types=types, log_unseen=log_unseen)


def fit_columns(columns, names, categorical, categories, weights=None, declared=None):
    """Return an encoder that is fitted to the columns of a table.

    Parameters
    ----------
    columns : list of ndarray
        Training columns.
    names : list
        Names of the columns.
    categorical : ndarray of bool
        Mask of the categorical columns.
    categories : "auto" or list of lists
        Categories of each categorical column.
    weights : ndarray of shape (n_rows,), optional
        Weight of each row.
    declared : list of (ndarray or None), optional
        Categories that each categorical column declares; used with "auto". None means that the
        categories are found in the column.

    Returns
    -------
    Columns
        Encoder of the columns.
    """
    discrete, continuous = np.flatnonzero(categorical), np.flatnonzero(~categorical)
    categories = find_discrete_categories(columns, names, categorical, categories, declared)
    mean, scale = np.zeros(len(continuous)), np.ones(len(continuous))
    for k, j in enumerate(continuous):
        mean[k], scale[k] = _mean_and_scale(to_floats(columns[j], names[j]), weights, names[j])
    return Columns(list(names), continuous, discrete, categories, mean, scale)


def find_discrete_categories(columns, names, categorical, categories, declared=None):
    """Return the categories of each categorical column: given, declared, or found in the column.

    The parameters are those of :func:`fit_columns`.
    """
    columns, names = (
        [part for part, is_used in zip(parts, categorical, strict=True) if is_used]
        for parts in (columns, names)
    )
    return resolve_categories(categories, columns, names, declared)


def restore_numbers(values, columns, encoder):
    """Put the observed numbers of columns into decoded rows, where they have rounding errors.

    The observed numbers that were not seen in fit are replaced by imputed categories there.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
        Decoded rows, changed in place. Columns of integers keep their integers.
    columns : list of ndarray of shape (n_rows,)
        Columns before they were encoded.
    encoder : Columns or TransformedColumns
        Encoder of the rows.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        The decoded rows.
    """
    for j, mask in find_unseen(encoder, columns).items():
        values[mask, j] = columns[j][mask]
    for j, kind in enumerate(encoder.types):
        if kind not in DISCRETE_TYPES:
            x = to_floats(columns[j], encoder.names[j])
            is_kept = x == np.rint(x) if kind == "integer" else ~np.isnan(x)
            values[is_kept, j] = columns[j][is_kept].astype(float)
    return values


def _mean_and_scale(x, weights, name):
    """Return the mean and standard deviation of observed entries.

    The standard deviation of a constant column is replaced by 1.
    """
    is_observed = ~np.isnan(x)
    if not is_observed.any():
        raise ValueError(f"Column {name!r} has no observed entry; drop it.")
    x, weights = x[is_observed], None if weights is None else weights[is_observed]
    centre = x[np.argmax(np.abs(x))] / 2  # keeps sums of large numbers finite
    with np.errstate(over="ignore", invalid="ignore"):
        mean = centre + np.average(x - centre, weights=weights)
        size = np.abs(x - mean).max()
        spread = (
            size * np.sqrt(np.average(((x - mean) / size) ** 2, weights=weights)) if size else 0
        )
    if not np.isfinite(mean + spread):
        raise ValueError(
            f"Column {name!r} holds {x[np.argmax(np.abs(x))]}, which is too large to be "
            "standardised; divide the column by a power of ten."
        )
    negligible = spread <= 1e-12 * max(abs(mean), 1e-300)
    return mean, 1.0 if negligible else spread


def standardise(columns, data):
    """Standardise rows by weighted means and deviations, and warn of degenerate columns.

    Parameters
    ----------
    columns : Columns
        Encoder of the rows.
    data : Batch
        Encoded rows.

    Returns
    -------
    columns : Columns
        Encoder of the standardised rows.
    data : Batch
        Standardised rows, with nan for numbers that are far from all others of their column.
    """
    X = hide_far_values(data.X, columns.continuous)
    if data.log_weights is not None or X is not data.X:
        weights = normalized_weights(data.log_weights, len(X))
        X, columns = columns.standardised(X, weights)
        data = data._replace(X=X)
    warn_degenerate(data.X, columns.continuous, columns.names)
    return columns, data


def warn_degenerate(X, continuous, names, where=""):
    """Warn of continuous columns with only one or two values: the likelihood has no maximum.

    Returns
    -------
    list of int
        Indices of these columns.
    """
    degenerate = {True: [], False: []}  # keys: whether the column is constant
    for j in continuous if len(X) >= 10 else ():
        values = np.unique(X[~np.isnan(X[:, j]), j])
        if len(values) <= 2:
            degenerate[len(values) == 1].append(j)
    for is_constant, columns in degenerate.items():
        if columns:
            warn_caller(_degenerate_message(is_constant, [names[j] for j in columns], where))
    return degenerate[True] + degenerate[False]


def _degenerate_message(is_constant, names, where):
    shown = ", ".join(repr(name) for name in names[:N_SHOWN]) + ", ..." * (len(names) > N_SHOWN)
    subject, be, have, them = (
        ("Column", "is", "has", "it") if len(names) == 1 else ("Columns", "are", "have", "them")
    )
    what = f"{be} constant" if is_constant else f"{have} only two values"
    advice = (
        f"drop {them}" if is_constant else f'give {them} the type "categorical" in column_types'
    )
    return (
        f"{subject} {shown} {what}{where}, so the likelihood of a density has no maximum. The "
        f"model keeps standard deviations above a lower bound. To avoid this, {advice}."
    )


@dataclass(frozen=True)
class ColumnScale:
    """Monotone transform of a numeric column: standardisation, or rank-based Gaussian scores.

    Attributes
    ----------
    centre, scale : float
        Standardised values are ``(x - centre) / scale``.
    values, scores : ndarray of shape (n_values,)
        Distinct training values and their scores, empty for a standardised column. Other values
        have interpolated scores.
    """

    centre: float = 0.0
    scale: float = 1.0
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def transform(self, x):
        """Return the transformed values; missing entries stay nan."""
        if len(self.values):
            return np.where(np.isnan(x), np.nan, np.interp(x, self.values, self.scores))
        return (x - self.centre) / self.scale


def learn_scale(x, weights):
    r"""Return the transform of a numeric column.

    The column is standardised if its absolute skewness is at most 1 and if no standardised value
    is farther from zero than a sample of the normal distribution allows, with a probability of
    0.001. Otherwise its values are replaced by rank-based Gaussian scores (nonparanormal): a value
    has the score :math:`\Phi^{-1}((r - 1/2) / n)`, where r is the mean rank of all entries with
    this value, and scores are standardised.

    Parameters
    ----------
    x : ndarray of float of shape (n_rows,)
        Values, nan for missing entries. At least one is observed.
    weights : ndarray of shape (n_rows,)
        Number of times that each row counts.

    Returns
    -------
    ColumnScale
        Transform of the column.

    References
    ----------
    H. Liu, J. Lafferty and L. Wasserman, "The nonparanormal: semiparametric estimation of high
    dimensional undirected graphs", Journal of Machine Learning Research 10 (2009).
    """
    counted = ~np.isnan(x) & (weights > 0)
    x, weights = x[counted], weights[counted]
    size = np.abs(x).max(initial=0.0)
    if not size or x.min() == x.max():
        return ColumnScale(centre=float(x[0]) if len(x) else 0.0)
    unit = x / size
    mean = np.average(unit, weights=weights)
    deviation = np.sqrt(np.average((unit - mean) ** 2, weights=weights))
    z = (unit - mean) / max(deviation, 1e-300)
    limit = -ndtri(TAIL / (2.0 * max(weights.sum(), 1.0)))
    is_light = np.abs(z).max() <= limit and abs(np.average(z**3, weights=weights)) <= MAX_SKEWNESS
    if is_light and deviation > 1e-12:
        return ColumnScale(float(mean * size), float(deviation * size))
    values, inverse = np.unique(x, return_inverse=True)
    counts = np.bincount(inverse, weights)
    scores = ndtri((np.cumsum(counts) - counts / 2) / counts.sum())
    scores -= np.average(scores, weights=counts)
    scores /= np.sqrt(np.average(scores**2, weights=counts))
    return ColumnScale(values=values, scores=scores)


@dataclass(frozen=True)
class ScoredColumns:
    """Encoder of a table for graph estimation: transformed numbers and state codes.

    Attributes
    ----------
    names : list
        Names of the columns, for error messages.
    types : list of str
        Type of each column.
    scales : dict of int to ColumnScale
        Transform of each numeric column. Ordinal columns are transformed like numbers, from the
        positions of their categories.
    categories : list of ndarray
        Categories of each column, empty for columns of numbers.
    """

    names: list
    types: list
    scales: dict
    categories: list

    @property
    def n_states(self):
        """Number of states of each column, 0 for numeric and ordinal columns."""
        return [0 if j in self.scales else len(c) for j, c in enumerate(self.categories)]

    def encode(self, columns):
        """Return the encoded rows, shape (n_rows, n_columns); missing entries are nan."""
        X = _read_numbers(columns, self.names, self.categories)
        for j, scale in self.scales.items():
            X[:, j] = scale.transform(X[:, j])
        return X


def learn_scored_columns(X, columns, names, types, categories, weights):
    """Return an encoder for graph estimation, fitted to training rows.

    Parameters
    ----------
    X : array-like or frame
        Training rows.
    columns : list of ndarray of shape (n_rows,)
        Columns of ``X``.
    names : list
        Names of the columns.
    types : list of str
        Types of the columns.
    categories : "auto" or list of lists
        Categories of each column with categories.
    weights : ndarray of shape (n_rows,)
        Number of times that each row counts.

    Returns
    -------
    ScoredColumns
        Encoder of the columns.

    Raises
    ------
    ValueError
        If a column has no observed entry, infinite values, entries that are no numbers, or more
        categories than half of the rows.
    """
    is_discrete = np.isin(types, DISCRETE_TYPES)
    declared = declared_categories(X, is_discrete)
    found = iter(find_discrete_categories(columns, names, is_discrete, categories, declared))
    known = [next(found) if discrete else np.zeros(0) for discrete in is_discrete]
    values, scales = _read_numbers(columns, names, known), {}
    for j, (kind, name, column) in enumerate(zip(types, names, columns, strict=True)):
        x = values[weights > 0, j]
        if np.isnan(x).all():
            raise ValueError(f"Column {name!r} has no observed entry; drop it.")
        n_distinct = len(np.unique(x[~np.isnan(x)]))
        if not is_discrete[j] or (kind == "ordinal" and n_distinct > 2):
            scales[j] = learn_scale(values[:, j], weights)
        elif n_distinct > max(2, len(x) / 2):
            advice = time_advice(column) or (
                " Drop the column if it identifies the rows, or merge rare categories. If its "
                'entries are numbers, give it the type "continuous" in column_types.'
            )
            raise ValueError(
                f"Column {name!r} has {n_distinct} categories in {len(x)} rows, which are too many "
                f"to estimate its dependence on other columns.{advice}"
            )
    return ScoredColumns(list(names), types, scales, known)


def _read_numbers(columns, names, categories):
    """Return numbers, and the state codes of columns with categories, as floats."""
    X = np.empty((len(columns[0]), len(columns)))
    for j, (column, name, known) in enumerate(zip(columns, names, categories, strict=True)):
        if len(known):
            codes = encode([column], [known], [name])[:, 0]
            X[:, j] = np.where(codes == MISSING, np.nan, codes)
        else:
            X[:, j] = to_floats(column, name)
    return X
