"""Rows of data: batches, memory maps, conversion to dense rows, unique rows, float type."""

from mmap import mmap
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse

from .codes import MISSING
from .label_graphs import LabelGraphs
from .log_weights import check_sample_weight, normalized_weights
from .namespaces import as_numpy, is_numpy, namespace
from .parallel import gram_matrix

BLOCK_ENTRIES = 2**20  # of rows that are checked or summed together
LARGE_ENTRIES = 2**26  # the same of rows on a device, and of products of rows in memory
BYTE_ROWS = 127  # whose ones are added in one byte, which is faster
MAX_COUNT = 2**20  # ones of float32 that are added together; the sum of more than 2**24 is rounded
# Shares of the pairs of equal values of a column that are pairs of equal rows. With less than the
# first share, most equal values are coincidences. With more than the second, rows are copies.
IDENTIFYING_SHARES = 0.3, 0.9
CHANCE_FACTOR = 5.0  # times the share for independent columns; dependent columns have a larger one
MIN_DISTINCT = 50  # rows, if half of the columns identify them
COMMON_ROWS, COMMON_SHARE = 20, 0.02  # times the median, and of all rows, of a row that is no copy
MAX_DISTINCT = 2**22  # entries of distinct rows of a memory map that are copied
MASK_RATIO = 16  # a mask sorts faster than np.sort if a batch has at least one row in 16


class Batch(NamedTuple):
    """Rows of the data that one gradient step uses.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes, with -1 (``MISSING``) for missing values. For a conditional model, the inputs,
        which may be any numbers.
    Y : ndarray of shape (n_rows, n_targets) or None
        State codes of the targets of a conditional model; None for other models.
    log_weights : ndarray of shape (n_rows,) or None
        Log sample weights; None means equal weights.
    rows : ndarray of int of shape (n_rows,) or None
        Indices of the rows in the training data. A learner that stores a state per row (for
        example chains) uses them to find it again.
    epoch : int
        Number of the epoch, for schedules.
    step : int
        Number of the gradient step, for schedules.
    """

    X: np.ndarray
    Y: np.ndarray | None = None
    log_weights: np.ndarray | None = None
    rows: np.ndarray | None = None
    epoch: int = 0
    step: int = 0

    @property
    def is_mapped(self):
        """True if the rows or the targets are in a memory map."""
        return is_mapped(self.X) or is_mapped(self.Y)

    @property
    def shown(self):
        """Values of the modelled variables: ``Y`` in a conditional model, otherwise ``X``."""
        return self.X if self.Y is None else self.Y

    def take(self, which):
        """Return a batch with the given rows of this batch, as arrays of numpy.

        Parameters
        ----------
        which : slice, ndarray of int or ndarray of bool
            Rows to keep, by index or mask.

        Returns
        -------
        Batch
            Batch with these rows and the same epoch and step.
        """
        parts = (self.X, self.Y, self.log_weights, self.rows)
        parts = (None if p is None else as_numpy(p[which]) for p in parts)
        return Batch(*parts, self.epoch, self.step)

    def select(self, which):
        """Return the same batch as :meth:`take`, with the rows where they are.

        The rows of a memory map are not copied, and those on a device stay there.

        Parameters
        ----------
        which : ndarray of int
            Rows to keep.

        Returns
        -------
        Batch
            Batch with these rows. ``X`` and ``Y`` are ``MappedRows`` or arrays of JAX if they
            are in a memory map or on a device.
        """
        parts = (self.X, self.Y, self.log_weights, self.rows)
        parts = (p if p is None else _select_rows(p, which) for p in parts)
        return Batch(*parts, self.epoch, self.step)

    def in_file_order(self):
        """Return the same rows in the order of the file, if they are some rows of a memory map.

        Sums over all rows are faster in this order.
        """
        if not isinstance(self.X, MappedRows) or self.X.rows is None:
            return self
        if self.log_weights is None and self.rows is None and self.Y is None:
            return self._replace(X=self.X.with_rows(np.sort(self.X.rows)))
        return self.select(np.argsort(self.X.rows))

    def blocks(self):
        """Return slices of consecutive rows of a memory map, or one slice of all other rows."""
        if not self.is_mapped:
            return [slice(None)]
        n_columns = self.X.shape[1] + (0 if self.Y is None else self.Y.shape[1])
        return row_blocks(np.broadcast_to(False, (self.X.shape[0], n_columns)), BLOCK_ENTRIES)


class MappedRows:
    """Rows of a memory map, which are read and converted when they are indexed.

    Parameters
    ----------
    X : ndarray or MappedRows of shape (n_all_rows, n_columns)
        Rows in a memory map.
    rows : ndarray of int of shape (n_rows,), optional
        Indices of the rows. By default all rows.
    convert : callable, optional
        Function that converts an array of rows. By default they are not converted.
    dtype : dtype, optional
        Data type of the converted rows. By default that of ``X``.
    """

    def __init__(self, X, rows=None, convert=None, dtype=None):
        self.X, self.rows, self.convert = X, rows, convert
        self.dtype, self.ndim = np.dtype(X.dtype if dtype is None else dtype), X.ndim
        self.shape = X.shape if rows is None else (len(rows), X.shape[1])

    def with_rows(self, rows):
        """Return the rows of the map with other indices, converted in the same way."""
        return type(self)(self.X, rows, self.convert, self.dtype)

    def select(self, which):
        """Return the rows with the given indices, without reading them."""
        return self.with_rows(which if self.rows is None else self.rows[which])

    def __len__(self):
        """Return the number of rows."""
        return self.shape[0]

    def __getitem__(self, which):
        """Return an array of the rows with the given indices."""
        found = self.X[which if self.rows is None else self.rows[which]]
        return found if self.convert is None else self.convert(found)

    def __array__(self, dtype=None, copy=None):
        """Return an array of all rows."""
        return np.asarray(self[:], dtype=dtype)


class MappedCodes(MappedRows):
    """State codes of the rows of a memory map, without missing codes."""


def _select_rows(X, which):
    if isinstance(X, MappedRows):
        return X.select(which)
    return MappedRows(X, which) if is_mapped(X) else X[which]


def is_mapped(X):
    """Return whether rows are in a file that is mapped to memory, such as a ``numpy.memmap``."""
    if isinstance(X, MappedRows):
        return True
    while isinstance(X, np.ndarray):
        X = X.base
    return isinstance(X, mmap)


def row_blocks(X, n_entries=None):
    """Return slices of consecutive rows with about ``n_entries`` entries each; at least one slice.

    Temporary arrays of a block need little memory, also if those of all rows would not fit. The
    default of ``n_entries`` depends on where the rows are.
    """
    n_rows, n_columns = X.shape
    if n_entries is None:
        n_entries = BLOCK_ENTRIES if is_numpy(X) else LARGE_ENTRIES
    size = max(1, n_entries // max(n_columns, 1))
    return [slice(s, s + size) for s in range(0, max(n_rows, 1), size)]


def blocks_in_memory(X):
    """Return slices of consecutive rows of a memory map, or one slice of rows in memory."""
    return row_blocks(X) if is_mapped(X) else [slice(None)]


def count_states(codes, n_states, weights):
    """Return the weighted number of rows with each state of each column, a list of arrays.

    Missing entries are not counted.
    """
    if max(n_states, default=0) <= 2 and (weights == 1.0).all():
        by_code = np.stack([count_rows(codes, 0), count_rows(codes, 1)], axis=1).astype(float)
        return [counts[:q] for counts, q in zip(by_code, n_states, strict=True)]
    counts = [np.zeros(q) for q in n_states]
    for rows in blocks_in_memory(codes):
        part, given = codes[rows], weights[rows]
        for i, column in enumerate(part.T):
            observed = column != MISSING
            counts[i] += np.bincount(column[observed], given[observed], minlength=len(counts[i]))
    return counts


def column_means(X, log_weights=None):
    """Return the weighted means of columns of zeros and ones or of floats, shape (n_columns,).

    With equal weights, ones are counted, which needs fewer operations.
    """
    if log_weights is None and X.dtype.kind != "f" and not issparse(X):
        return count_rows(X, 1) / len(X)
    weights = normalized_weights(log_weights, X.shape[0])
    if issparse(X):
        return np.asarray(weights @ X).ravel()
    # numpy converts all rows of a product to floats.
    blocks = row_blocks(X, BLOCK_ENTRIES if is_mapped(X) else LARGE_ENTRIES)
    return sum(weights[rows] @ as_numpy(X[rows]) for rows in blocks)


def count_rows(codes, code, weights=None):
    """Return the number or the total weight of the rows that have a code, for each column."""
    if issparse(codes):
        mask = codes == code
        return np.asarray(mask.sum(axis=0)).ravel() if weights is None else weights @ mask
    if weights is None:
        return sum(_column_counts(codes[rows] == code) for rows in row_blocks(codes))
    in_memory = is_numpy(codes) and not is_mapped(codes)
    blocks = [slice(None)] if in_memory else row_blocks(codes)
    masks = ((rows, as_numpy(codes[rows] == code)) for rows in blocks)
    return sum(np.einsum("i,ij->j", weights[rows], mask) for rows, mask in masks)


def _column_counts(mask):
    """Return the number of true entries of each column; few rows are summed in one byte."""
    if not is_numpy(mask):
        return np.asarray(mask.sum(axis=0, dtype=np.int32))
    n_rows, n_columns = mask.shape
    n_parts = n_rows // BYTE_ROWS
    first, rest = np.split(mask.view(np.int8), [n_parts * BYTE_ROWS])
    parts = first.reshape(n_parts, BYTE_ROWS, n_columns).sum(axis=1, dtype=np.int8)
    return parts.sum(axis=0, dtype=int) + rest.sum(axis=0, dtype=np.int8)


def pair_frequencies(codes, log_weights=None):
    """Return the weighted share of the rows in which two columns have the code 1, for all pairs.

    With equal weights, the shares are ratios of exact counts.

    Parameters
    ----------
    codes : ndarray or array of JAX of shape (n_rows, n_columns)
        Complete rows of the codes 0 and 1.
    log_weights : ndarray of shape (n_rows,), optional
        Logarithms of the row weights. By default all weights are 1.

    Returns
    -------
    ndarray of shape (n_columns, n_columns)
        Shares. The diagonal has the means of the columns.
    """
    n_rows = codes.shape[0]
    weights, dtype = np.ones(n_rows), np.float32  # which has exact counts of the rows of a block
    if log_weights is not None:
        weights, dtype = n_rows * normalized_weights(log_weights, n_rows), float
    total = 0.0
    n_entries = BLOCK_ENTRIES if is_mapped(codes) else LARGE_ENTRIES
    for rows in row_blocks(codes, min(n_entries, MAX_COUNT * codes.shape[1])):
        part = codes[rows]
        if is_numpy(part):
            total = total + gram_matrix((part, weights[rows].astype(dtype)), dtype=dtype)
        else:
            part = part.astype(np.float32)
            weighted = part * weights[rows, None].astype(np.float32)
            gram = namespace(part).matmul(part.T, weighted, precision="highest")
            total = total + np.asarray(gram, dtype=float)
    return total / n_rows


def weighted_rows(data, sample_weight):
    """Return the rows with a positive weight as a batch, which also has the log weights.

    Parameters
    ----------
    data : Batch
        All rows, without weights.
    sample_weight : array-like of shape (n_rows,), or None
        Weight of each row. None means equal weights.

    Returns
    -------
    Batch
        Rows with positive weight.
    """
    weights = check_sample_weight(sample_weight, data.X.shape[0])
    if weights is None:
        return data
    counted = weights > 0
    log_weights = None if (weights[counted] == 1.0).all() else np.log(weights[counted])
    if not counted.all():
        pick = data.select if data.is_mapped else data.take
        data = pick(np.flatnonzero(counted))
    return data._replace(log_weights=log_weights)


def has_missing(X):
    """Return True if any entry of X is missing; sparse matrices have no missing entries."""
    if issparse(X) or isinstance(X, MappedCodes):
        return False
    if isinstance(X, LabelGraphs):
        return not X.is_labelled
    blocks = (X[rows] for rows in row_blocks(X))
    if X.dtype.kind == "f":
        return any(bool(namespace(X).isnan(part).any()) for part in blocks)
    # The minimum is computed faster than a mask.
    return any(part.min(initial=0) < 0 and bool((part == MISSING).any()) for part in blocks)


def drop_incomplete_rows(data):
    """Return the rows of a batch that have no missing entry; the same batch if all are complete."""
    if isinstance(data.X, MappedCodes):
        return data
    parts = (as_numpy((data.X[rows] != MISSING).all(axis=1)) for rows in row_blocks(data.X))
    is_complete = np.concatenate(list(parts))
    return data if is_complete.all() else data.take(is_complete)


def sample_weights(data):
    """Return the row weights of a batch, shape (n_rows,), or None if all weights are equal."""
    return None if data.log_weights is None else np.exp(data.log_weights)


def sort_rows(rows, data):
    """Return row indices in ascending order.

    For large batches, a mask takes a tenth of the time of sorting. A mask needs distinct rows, so
    it is not used for weighted rows, which are resampled with repetitions.
    """
    n = data.X.shape[0]
    if data.log_weights is not None or MASK_RATIO * len(rows) < n:
        return np.sort(rows)
    mask = np.zeros(n, dtype=bool)
    mask[rows] = True
    return np.flatnonzero(mask)


def take_minibatch(data, rows, epoch, step):
    """Return a minibatch that contains the given rows with equal weights.

    State codes of a memory map are read only if the learner uses them.
    """
    targets = None if data.Y is None else data.Y[rows]
    X = data.X
    if isinstance(X, MappedCodes):
        return Batch(X.select(rows), targets, None, rows, epoch, step)
    # np.take copies the whole array first if it is not C-contiguous.
    is_contiguous = isinstance(X, np.ndarray) and X.flags.c_contiguous
    X = np.take(X, rows, axis=0) if is_contiguous else X[rows]
    return Batch(X, targets, None, rows, epoch, step)


def dense_rows(X):
    """Return the rows as a dense array."""
    return X.toarray() if issparse(X) else X


def find_unique_rows(rows):
    """Return the first index of each unique row, and the inverse index of each row."""
    if rows.shape[1] == 0:
        return np.zeros(min(len(rows), 1), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    rows = np.ascontiguousarray(rows)
    view = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first_index, inverse = np.unique(view, return_index=True, return_inverse=True)
    return first_index, inverse


def find_copies(codes, is_fine):
    """Return the first index of each row that is no copy, and the inverse index of each row.

    Equal rows are copies if there are two columns or more, and a column with fine values in which
    many pairs of equal values are pairs of equal rows: more than 90 %, or more than 30 % and five
    times as many as if the columns were independent. They are also copies if there are many
    distinct rows, and nearly all pairs of rows that are equal in half of the columns are equal in
    all columns, as in images. If a few rows occur much more often than the others, such as rows of
    zeros, all rows are returned.

    Parameters
    ----------
    codes : ndarray of int of shape (n_rows, n_columns)
        Codes of the values, with -1 for missing values.
    is_fine : ndarray of bool of shape (n_columns,)
        True for columns of numbers in which equal values are unlikely by chance.

    Returns
    -------
    first_index : ndarray of int of shape (n_distinct,)
        Indices of the rows that are no copies, in ascending order.
    inverse : ndarray of int of shape (n_rows,)
        Position in ``first_index`` of the row to which each row is equal.
    """
    n, n_columns = codes.shape
    first, inverse = find_unique_rows(codes)
    if n_columns < 2 or len(first) == n:
        return np.arange(n), np.arange(n)
    counts = np.bincount(inverse)
    has_common = counts.max() > max(COMMON_ROWS * np.median(counts), COMMON_SHARE * n)
    distinct = codes[first]
    if has_common or not (
        _has_identifying_column(codes, distinct, inverse, np.flatnonzero(is_fine))
        or (len(first) >= MIN_DISTINCT and _have_identifying_halves(codes, inverse))
    ):
        return np.arange(n), np.arange(n)
    order = np.argsort(first)
    return first[order], np.argsort(order)[inverse]


def _has_identifying_column(codes, distinct, owners, fine):
    """Return whether equal values of a fine column are in equal rows more often than by chance."""
    shares = [_count_pairs(x[x >= 0]) / len(distinct) ** 2 for x in distinct.T]
    chances = np.array([np.prod(np.delete(shares, j)) for j in fine])
    limits = np.clip(CHANCE_FACTOR * chances, *IDENTIFYING_SHARES)
    found = np.array([_share_of_equal_rows(codes[:, j], owners) for j in fine])
    return bool((found >= limits).any())


def _have_identifying_halves(codes, owners):
    """Return whether nearly all pairs that are equal in half of the columns are equal rows.

    The halves have every second column, in the order of the numbers of distinct values.
    """
    order = np.argsort([-len(np.unique(column)) for column in codes.T], kind="stable")
    halves = (find_unique_rows(codes[:, order[k::2]])[1] for k in range(2))
    return all(_share_of_equal_rows(half, owners) >= IDENTIFYING_SHARES[1] for half in halves)


def _share_of_equal_rows(column, owners):
    """Return the share of the pairs of equal values of a column that are pairs of equal rows."""
    seen = column >= 0
    return _count_pairs(owners[seen]) / max(_count_pairs(column[seen]), 1)


def _count_pairs(owners):
    """Return the number of ordered pairs of rows that have the same owner."""
    counts = np.bincount(owners)
    return (counts * (counts - 1)).sum()


def unique_rows(batch):
    """Return the distinct rows of a batch, and row weights that sum to one.

    All rows of a memory map are returned, as they are, if many of them are distinct.
    """
    data = batch.in_file_order()
    weights = sample_weights(data)
    X, counts = data.X[:0], np.zeros(0)
    for rows in blocks_in_memory(data.X):
        part = data.X[rows]
        given = np.ones(len(part)) if weights is None else weights[rows]
        if len(X):
            part, given = np.concatenate([X, part]), np.concatenate([counts, given])
        first, which = find_unique_rows(part)
        X, counts = part[first], np.bincount(which, weights=given, minlength=len(first))
        if X.size > MAX_DISTINCT and is_mapped(data.X):
            return data.X, normalized_weights(data.log_weights, len(data.X))
    return X, counts / counts.sum()


def count_unique_rows(rows):
    """Return the number of unique rows of integers; for arrays of JAX, of unique hash values."""
    if is_numpy(rows):
        return len(find_unique_rows(rows)[0])
    # multipliers of a hash; a fixed seed gives the same count in each call
    factors = np.random.default_rng(0).integers(1, 2**31, size=rows.shape[1], dtype=np.int32)
    hashes = namespace(rows).sort((rows.astype(np.int32) * factors).sum(axis=1))
    return 1 + (hashes[1:] != hashes[:-1]).sum()


def float_type(array):
    """Return float32 if the array has the dtype float32, otherwise float64."""
    return np.float32 if np.asarray(array).dtype == np.float32 else np.float64
