"""Validation and standardisation of numeric columns, linear functions, and far values."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import validate_data

from .._utils.namespaces import is_numpy, namespace
from .._utils.rows import Batch, MappedRows, dense_rows, float_type, is_mapped, row_blocks
from .categories import is_number, missing_mask
from .frame_types import FrameType, is_pandas, is_polars
from .frames import (
    array_kind,
    as_array,
    as_columns,
    check_truth_values,
    find_column_names,
    plain_array,
)

MAX_CENTRED = 100  # columns of a table whose columns of zeros and ones are centred
BINARY_SCALE = 0.5  # the standard deviation of as many zeros as ones
SMALLEST = 1e-300  # deviation of a column that is scaled
MAX_INFLATION = 1e6  # variance inflation factor of columns that are linear functions of others
ROUNDING = 1e-14  # relative range of a column that is constant up to rounding
MIN_OTHERS = 20  # observed values of a column that can have far ones
FAR_SHARE, MIN_FAR = 0.01, 2  # of the values of a column; so many can be far from all others
FAR_DISTANCE, FAR_RATIO = 20.0, 5.0  # in standard deviations, and relative to the other values


def numeric_rows(estimator, X, *, reset, remedy, missing=False, on_device=False, **options):
    """Return X as a numeric array; record its columns during fit, or compare them with fit later.

    The array is one of numpy, unless ``on_device`` is True and X is an array of JAX.

    Parameters
    ----------
    estimator : estimator
        Its attributes ``n_features_in_`` and ``feature_names_in_`` are set or checked. Its
        attribute ``_frame_type`` is set.
    X : array-like, frame or sparse matrix
        Rows.
    reset : bool
        Whether to record the columns. Otherwise they are compared with those of ``fit``.
    remedy : str
        End of error messages about entries that are not numbers: what the user can do.
    missing : bool, default=False
        Whether nan, None and NA are missing entries; they become nan. Infinite values are then left
        to the caller to check.
    on_device : bool, default=False
        Whether an array of JAX is returned unchanged, and not as an array of numpy.
    **options
        Options of :func:`sklearn.utils.validation.check_array`.

    Returns
    -------
    ndarray or sparse matrix of shape (n_rows, n_columns)
        Numeric rows.

    Raises
    ------
    ValueError
        If an entry is not a number or not finite, or if a column mixes booleans and numbers.
        The message names the first such column.
    TypeError
        If an entry is neither a number nor a string, such as a dict.
    """
    X = plain_array(X)
    frame_type = FrameType.of(X) if reset else None
    if array_kind(X) in ("", "O"):
        _raise_for_truth_values(X)
        X = _replace_missing(X) if missing else X
    if array_kind(X) in ("", "m", "M"):  # numpy would convert text and dates to numbers
        _raise_for_text(X, remedy)
    try:
        stays = on_device and not is_numpy(X) and X.ndim == 2 and array_kind(X) in "biuf"
        # An array of zeros without memory has the shape to check.
        given = np.broadcast_to(np.zeros((), X.dtype), X.shape) if stays else X
        rows = validate_data(estimator, given, reset=reset, ensure_all_finite=False, **options)
        rows = X if stays else rows
        if rows.dtype.kind == "O":  # polars frames may be converted to objects
            rows = rows.astype(float)
    except (OverflowError, TypeError, ValueError) as error:
        _raise_for_text(X, remedy, error)
        raise
    if not missing:
        _check_finite(rows, estimator)
    if reset:
        estimator._frame_type = frame_type
    return rows


def float_rows(estimator, X, **options):
    """Return X as an array of floats in C order, or a memory map whose rows are converted later.

    Parameters
    ----------
    estimator, X, **options
        As in :func:`numeric_rows`.

    Returns
    -------
    ndarray, sparse matrix or MappedRows of shape (n_rows, n_columns)
        Rows of the type float32 or float64.
    """
    if is_mapped(X) and X.dtype.kind in "biuf":
        rows = numeric_rows(estimator, X, dtype=None, **options)
        dtype = float_type(X[:0])
        return MappedRows(rows, convert=partial(np.asarray, dtype=dtype, order="C"), dtype=dtype)
    # Sums over columns in another order have other rounding errors.
    return numeric_rows(estimator, X, dtype=(np.float64, np.float32), order="C", **options)


def to_nan(values):
    """Return an array of objects in which the missing entries are nan."""
    absent = missing_mask(values.ravel()).reshape(values.shape)
    return np.where(absent, np.nan, values)


def _replace_missing(X):
    """Return a table in which missing entries of objects and of booleans are nan."""
    if is_polars(X):
        booleans = [c.name for c in X if c.null_count() and c.to_numpy().dtype == object]
        return X.with_columns(X.select(booleans).cast(float)) if booleans else X
    if is_pandas(X):
        X = X.copy(deep=False)
        for j, dtype in enumerate(X.dtypes):
            if dtype.kind in "Ob" and X.iloc[:, j].hasnans:
                X.isetitem(j, to_nan(X.iloc[:, j].to_numpy(dtype=object)))
        return X
    try:
        array = as_array(X)
    except (TypeError, ValueError):  # the caller raises a better error
        return X
    return to_nan(array) if array.dtype == object else X


def _raise_for_truth_values(X):
    """Raise an error that names a column with both booleans and numbers, if there is one."""
    try:
        columns = as_columns(X)
    except (TypeError, ValueError):  # the caller raises a better error
        return
    check_truth_values(columns, find_column_names(X, len(columns)))


def _raise_for_text(X, remedy, error=None):
    """Raise an error that names the first entry that is not a number, if there is one.

    If ``error`` is a TypeError, a TypeError with numpy's message is raised, otherwise a ValueError.
    """
    error_type, detail = ValueError, ""
    if isinstance(error, TypeError):
        error_type, detail = TypeError, f" ({error})"
    try:
        columns = as_columns(X)
    except (TypeError, ValueError):
        return
    names = find_column_names(X, len(columns))
    for is_wrong in (lambda value: not is_number(value), lambda value: isinstance(value, str)):
        for name, column in zip(names, columns, strict=True):
            for value in _values_to_check(column):
                if is_wrong(value):
                    raise error_type(
                        f"Column {name!r} holds {value!r}, which is not a number; {remedy}{detail}"
                    )


def _values_to_check(column):
    """Return the values of a column as a list; the list is empty if the data type is numeric."""
    if column.dtype.kind in "biuf":
        return []
    return (column.astype(str) if column.dtype.kind in "mM" else column).tolist()


def _check_finite(rows, estimator):
    if rows.dtype.kind in "biu":
        return
    values = rows.data[:, None] if issparse(rows) else rows
    for block in row_blocks(values):
        wrong = ~namespace(values).isfinite(values[block])
        if wrong.any():
            break
    else:
        return
    place = wrong.nonzero()
    column = rows.indices[block][place[0][0]] if issparse(rows) else place[1][0]
    name = vars(estimator).get("feature_names_in_", range(rows.shape[1]))[column]
    if np.isnan(values[block][wrong][0]):
        raise ValueError(
            f"Column {name!r} holds NaN, but {type(estimator).__name__} needs complete rows. "
            "Impute the missing entries (sklearn.impute.SimpleImputer), or drop these rows."
        )
    raise ValueError(f"Column {name!r} holds infinity; give finite numbers.")


def fit_scaler(X, weights, is_centred):
    """Return a scaler of the columns, or None if no column is changed.

    With ``is_centred``, columns of zeros and ones get the mean 0, and the variance 1 if both are
    equally frequent, and sparse rows are treated like dense ones. With many columns, steps of
    training would be too large, and ``is_centred`` is ignored.
    """
    is_centred = is_centred and X.shape[1] <= MAX_CENTRED
    X = dense_rows(X) if is_centred else X
    sparse, blocks = issparse(X), Batch(X).blocks()
    if sparse:
        others = np.unique(X.indices[(X.data != 0) & (X.data != 1)])
    else:
        masks = (((X[rows] != 0) & (X[rows] != 1)).any(axis=0) for rows in blocks)
        others = np.flatnonzero(np.any(list(masks), axis=0))
    if len(others) == 0 and not is_centred:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        weights = None if weights is None else weights / weights.max()
        scaler = StandardScaler(with_mean=not sparse)
        for rows in blocks:
            part = X[rows] if is_mapped(X) else X
            scaler.partial_fit(part, sample_weight=None if weights is None else weights[rows])
        if sparse:  # the mean is not subtracted, so it is part of the scale
            scaler.scale_ = np.sqrt(scaler.var_ + scaler.mean_**2)
            scaler.scale_[scaler.scale_ == 0] = 1.0
    # The variance is checked too: where it overflows, StandardScaler sets the scale to 1.
    means = 0.0 if sparse else scaler.mean_
    wrong = np.flatnonzero(~np.isfinite(scaler.scale_ + scaler.var_ + means))
    if wrong.size:
        largest = max(abs(X[rows][:, [wrong[0]]]).max() for rows in blocks)
        raise ValueError(
            f"Column {wrong[0]} of X holds {largest:.4g}, which is too large to be standardised. "
            "Remove the row if this is an outlier, or divide the column by a power of ten."
        )
    binary = np.setdiff1d(np.arange(X.shape[1]), others)
    scaler.scale_[binary] = BINARY_SCALE if is_centred else 1.0
    if not (sparse or is_centred):
        scaler.mean_[binary] = 0.0
    return scaler


def scale_inputs(scaler, X):
    """Return the scaled inputs; if ``scaler`` is None, return the inputs unchanged."""
    if scaler is None:
        return X
    if isinstance(X, MappedRows):
        return MappedRows(X, convert=partial(scale_inputs, scaler))
    with np.errstate(over="ignore"):  # the weights have a check of large inputs
        return scaler.transform(dense_rows(X) if scaler.with_mean else X)


def find_linear_functions(columns):
    """Return whether each column is a linear function of other columns in complete rows.

    Rows with values that are far from all others are ignored.
    """
    X = np.stack(columns, axis=1) if columns else np.zeros((0, 0))
    is_far = np.any([find_far_values(x) for x in columns], axis=0)
    X = X[~(np.isnan(X).any(axis=1) | is_far)]
    if len(X) <= X.shape[1] + 1 or X.shape[1] < 2:
        return np.zeros(X.shape[1], dtype=bool)
    size = np.maximum(np.abs(X).max(axis=0), 1e-300)
    X = X / size
    deviations = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviations > 1e-12, deviations, 1.0)
    correlations = X.T @ X / len(X) + 1e-12 * np.eye(X.shape[1])
    inflation = np.diag(np.linalg.pinv(correlations, hermitian=True, rcond=1e-15))
    return (inflation > MAX_INFLATION) & (deviations > 1e-12)


def median_and_scale(x):
    """Return the median of values, and a standard deviation that far values do not change.

    It comes from the quartiles, or from the values other than the median if most are equal to it.
    If all values are equal, it is infinite.
    """
    low, median, high = np.quantile(x, (0.25, 0.5, 0.75))
    scale = (high - low) / 1.349
    if scale <= 1e-9 * max(abs(low), abs(high), 1e-300):
        others = x[x != median]
        scale = np.median(np.abs(others - median)) if len(others) else np.inf
    return median, scale


@np.errstate(over="ignore")
def find_far_values(x):
    """Return a mask of the values that are much farther from the median than all others.

    Examples are a number such as 99999 that stands for an unknown value, and a row of totals. At
    most 1 % of the values can be far, but two in a small table. nan is not far.
    """
    observed, is_far = ~np.isnan(x), np.zeros(len(x), dtype=bool)
    quarters = 0.25 * x[observed]  # so that differences do not overflow
    if len(quarters) < MIN_OTHERS:
        return is_far
    median, scale = median_and_scale(quarters)
    distances = np.abs(quarters - median)
    n_others = len(quarters) - max(MIN_FAR, int(FAR_SHARE * len(quarters)))
    farthest = np.partition(distances, n_others - 1)[n_others - 1]
    is_far[observed] = distances > max(FAR_DISTANCE * scale, FAR_RATIO * farthest)
    return is_far


def hide_far_values(X, numeric):
    """Return rows without the numbers that are far from all others of their column.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Encoded rows.
    numeric : ndarray of int
        Indices of the columns of numbers.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        A copy with nan instead of these numbers, or ``X`` if there are none.
    """
    is_far = np.zeros(X.shape, dtype=bool)
    for j in numeric:
        is_far[:, j] = find_far_values(X[:, j])
    return np.where(is_far, np.nan, X) if is_far.any() else X


class FeatureScaling(NamedTuple):
    """Shift and scale of the features of a conditional random field.

    Dense columns get the mean 0 and the variance 1. Columns of two values become zeros and ones,
    so indicators are unchanged. Columns of a sparse matrix that are zero in some rows are only
    divided by the root mean square of their other entries. Features of edges have no intercept:
    they are centred only if other features of edges sum to 1, for example a column of ones.

    Attributes
    ----------
    shift, scale : ndarray of shape (n_features,)
        Values that are subtracted from the features of nodes, and divisors.
    edge_shift, edge_scale : ndarray of shape (n_edge_features,)
        The same for the features of edges.
    edge_constant : ndarray of shape (n_edge_features,)
        Weights with which the features of an edge sum to 1, or zeros.
    """

    shift: np.ndarray
    scale: np.ndarray
    edge_shift: np.ndarray
    edge_scale: np.ndarray
    edge_constant: np.ndarray

    @classmethod
    def of(cls, graphs, weights):
        """Return the scaling of training examples.

        Parameters
        ----------
        graphs : LabelGraphs
            Training examples.
        weights : ndarray of shape (n_examples,)
            Weights of the examples, above 0.

        Returns
        -------
        FeatureScaling
            Scaling.
        """
        nodes = np.repeat(weights, graphs.sizes)
        find = _scale_sparse if issparse(graphs.features) else _scale_dense
        shift, scale = find(graphs.features, nodes / nodes.sum())
        zeros = np.zeros(graphs.edge_features.shape[1])
        edges = zeros, zeros + 1.0, zeros
        if graphs.edges is not None and len(graphs.edges):
            strength = weights[graphs.example_of_node[graphs.edges[:, 0]]]
            counts = np.bincount(graphs.edge_types, strength, minlength=len(graphs.edge_features))
            is_used = counts > 0
            edges = _scale_edges(graphs.edge_features[is_used], counts[is_used] / counts.sum())
        return cls(shift, scale, *edges)

    @property
    def is_identity(self):
        """True if no feature is changed."""
        is_shifted = self.shift.any() or self.edge_shift.any()
        return not is_shifted and (self.scale == 1).all() and (self.edge_scale == 1).all()

    def apply(self, graphs):
        """Return examples with scaled features."""
        if self.is_identity:
            return graphs
        X = graphs.features
        if not issparse(X):
            X = (X - self.shift) / self.scale
        else:
            X, moved = X.copy(), np.flatnonzero(self.shift)
            X.data /= self.scale[X.indices]
            if len(moved):
                values = np.tile((-self.shift / self.scale)[moved], X.shape[0])
                ptr = len(moved) * np.arange(X.shape[0] + 1)
                X = X + csr_matrix((values, np.tile(moved, X.shape[0]), ptr), shape=X.shape)
                X.indptr, X.indices = X.indptr.astype(np.int64), X.indices.astype(np.int32)
        rows = (graphs.edge_features - self.edge_shift) / self.edge_scale
        return replace(graphs, features=X, edge_features=rows)

    def fold(self, energy):
        """Return the energy of raw features, given the energy of scaled features."""
        if self.is_identity:
            return energy
        energy = _rescale(energy, 1.0 / self.scale, 1.0 / self.edge_scale)
        return _move(energy, -self.shift, -self.edge_shift, self.edge_constant)

    def unfold(self, energy):
        """Return the energy of scaled features, given the energy of raw features."""
        if self.is_identity:
            return energy
        energy = _move(energy, self.shift, self.edge_shift, self.edge_constant)
        return _rescale(energy, self.scale, self.edge_scale)


def _scale_dense(X, weights):
    """Return the shift and the scale of each column of a dense matrix."""
    low, high = X.min(axis=0), X.max(axis=0)
    largest = np.maximum(np.abs(low), np.abs(high))
    largest[largest == 0] = 1.0
    is_constant = high / largest - low / largest <= ROUNDING
    is_pair = ((low == X) | (high == X)).all(axis=0)
    mean = np.clip(weights @ X, low, high)
    deviation = largest * np.sqrt(weights @ ((X / largest - mean / largest) ** 2))
    shift = np.where(is_pair, low, mean)
    shift[(low == 1) & (high == 1)] = 0.0
    scale = np.where(is_pair, high - low, deviation)
    scale[is_constant | (scale < SMALLEST)] = 1.0
    return shift, scale


def _scale_sparse(X, weights):
    """Return the shift and the scale of each column of a CSR matrix."""
    shift, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
    if (X.data == 1).all():
        return shift, scale
    scale = _root_mean_squares(X, weights)
    is_full = np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0]
    if is_full.any() and X.has_canonical_format:
        shift[is_full], scale[is_full] = _scale_dense(X[:, is_full].toarray(), weights)
    return shift, scale


def _scale_edges(Z, weights):
    """Return the shift and the scale of each feature of edges, and their weights of a constant."""
    shift, constant = np.zeros(Z.shape[1]), np.zeros(Z.shape[1])
    scale = _root_mean_squares(csr_matrix(Z), weights)
    is_base = ((Z == 0) | (Z == 1)).all(axis=0) | (Z[0] == Z).all(axis=0)
    found = np.linalg.lstsq(Z[:, is_base] / scale[is_base], np.ones(len(Z)))[0] / scale[is_base]
    if np.allclose(Z[:, is_base] @ found, 1.0):
        constant[is_base] = found
        shift[~is_base], scale[~is_base] = _scale_dense(Z[:, ~is_base], weights)
    return shift, scale, constant


def _root_mean_squares(X, weights):
    """Return the root mean square of the nonzero entries of each column of a CSR matrix, or 1."""
    n, largest = X.shape[1], abs(X).max(axis=0).toarray().ravel()
    largest[largest == 0] = 1.0
    values, strength = X.data / largest[X.indices], np.repeat(weights, np.diff(X.indptr))
    squares = np.bincount(X.indices, strength * values**2, minlength=n)
    totals = np.bincount(X.indices, strength * (values != 0), minlength=n)
    is_known = squares > 0
    largest[is_known] *= np.sqrt(squares[is_known] / totals[is_known])
    return largest


def _rescale(energy, factors, edge_factors):
    """Return an energy whose weights of each feature are multiplied by a factor."""
    coef, tables = energy.theta["coef"], energy.theta["transition"]
    factors = _per_weight(energy, factors)
    coef = (coef.T * factors).T
    tables = (tables.T * edge_factors).T
    return energy.with_theta(energy.theta | {"coef": coef, "transition": tables})


def _move(energy, shift, edge_shift, edge_constant):
    """Return an energy whose log-potentials are those of the features plus a shift."""
    coef, tables = energy.theta["coef"], energy.theta["transition"]
    if energy.pairs is None:
        added = shift @ coef
    else:
        terms = _per_weight(energy, shift) * coef
        added = np.bincount(energy.pairs[1], terms, minlength=energy.n_labels)
    tables = tables + np.multiply.outer(edge_constant, np.tensordot(edge_shift, tables, axes=1))
    intercept = energy.theta["intercept"] + added
    return energy.with_theta(energy.theta | {"intercept": intercept, "transition": tables})


def _per_weight(energy, values):
    """Return, for each row of weights, the value of its feature."""
    return values if energy.pairs is None else np.repeat(values, np.diff(energy.pairs[0]))
