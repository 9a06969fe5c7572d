r"""Approximate inference in bipartite models of binary units, with biases (fields) for each row.

.. math:: \log f(v, h) = v^\top W h + v^\top b^v + h^\top b^h

Each row is one instance. All rows share the weights :math:`W`; each row has its own fields
:math:`b^v` and :math:`b^h`.
"""

from functools import cached_property
from itertools import pairwise
from threading import local
from typing import NamedTuple

import numpy as np

from .. import _jax
from .._kernels import bipartite as kernels
from .._kernels._jit import read_only
from .._kernels.layers import unit_means
from .._kernels.mean_field import ascend_states
from .._utils.namespaces import is_numpy, sigmoid
from .._utils.parallel import matrix_product, run_blocks

PRODUCTS = {"sum": kernels.SUM, "max": kernels.MAX, "mixed": kernels.MIXED}
MAX_BLOCK_ROWS = 32  # largest number of rows in a block
CACHE_LINE = 64  # bytes of a CPU cache line
MAX_KEPT_BYTES = 2**23  # largest scratch array, in bytes, that is kept between calls
MESSAGES_PER_CALL = 5e8  # takes about 0.1 s
# Largest |W| for which products of ratios do not overflow; and largest sum of |W|, over weights of
# one sign, in a segment.
LIMITS = {np.dtype(np.float32): (35.0, 80.0), np.dtype(np.float64): (300.0, 600.0)}
# Logits are clipped to these bounds, so that neither odds nor their products overflow.
BOUNDS = {kind: kind.type(0.98 * np.log(np.finfo(kind).max)) for kind in LIMITS}


class UnitBeliefs(NamedTuple):
    """Beliefs: log odds of the units of a bipartite model, with one row per data row.

    Attributes
    ----------
    visible : ndarray of shape (n_rows, n_visible)
        Log odds of ``v_i = 1``.
    hidden : ndarray of shape (n_rows, n_hidden)
        Log odds of ``h_j = 1``.
    pairs : ndarray of shape (n_visible, n_hidden) or None
        Mean over rows of the probability that both units are 1; None if it was not requested.
    converged : ndarray of bool of shape (n_rows,)
        Whether each instance converged.
    n_iter : ndarray of int of shape (n_rows,)
        Number of iterations of each instance.
    """

    visible: np.ndarray
    hidden: np.ndarray
    pairs: np.ndarray | None
    converged: np.ndarray
    n_iter: np.ndarray


def propagate(
    weights,
    visible_fields,
    hidden_fields,
    *,
    product="sum",
    max_iter=100,
    tol=1e-3,
    pairs=False,
    n_jobs=None,
):
    """Run belief propagation in a bipartite model of binary units.

    Each message is stored as one number: its value for state 1 divided by its value for state 0.

    Parameters
    ----------
    weights : ndarray of shape (n_visible, n_hidden)
        Weights. Their dtype is used for the arithmetic, except that float64 replaces float32 if the
        absolute value of a weight exceeds 35. Arrays of JAX stay in float32, and absolute values
        above 80 are clipped.
    visible_fields : ndarray of shape (n_rows, n_visible)
        Fields of the visible units.
    hidden_fields : ndarray of shape (n_rows, n_hidden)
        Fields of the hidden units.
    product : {"sum", "max", "mixed"}, default="sum"
        "sum" gives marginals. "max" gives max-marginals, for a joint mode. "mixed" maximises over
        the visible units the sum over the hidden units, for a marginal mode.
    max_iter : int, default=100
        Maximum number of iterations. An iteration updates all messages to the visible units, then
        all messages to the hidden units.
    tol : float, default=1e-3
        An instance has converged when no belief of a visible unit changes by more.
    pairs : bool, default=False
        Whether to compute the mean pairwise beliefs; only for ``product="sum"``.
    n_jobs : int, optional
        Number of threads over blocks of rows. Results do not depend on it.

    Returns
    -------
    UnitBeliefs
        Beliefs of all rows.

    Raises
    ------
    ValueError
        If the absolute value of a weight exceeds 300.

    References
    ----------
    W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured prediction",
    AISTATS 2017, Algorithm 1.
    """
    if not is_numpy(weights):
        fields = visible_fields, hidden_fields
        return UnitBeliefs(
            *_jax.inference().propagate(weights, *fields, product, max_iter, tol, pairs)
        )
    couplings = _prepare_couplings(weights)
    options = PRODUCTS[product], max_iter, tol, pairs
    total, parts = None, []
    for *part, block_sums in _run_in_blocks(
        _propagate_block, couplings, (visible_fields, hidden_fields), options, max_iter, n_jobs
    ):
        parts.append(part)
        total = block_sums if total is None else np.add(total, block_sums, out=total)
    visible, hidden, n_iter, moved = _concatenate_results(parts)
    mean = None
    if pairs:
        total /= max(len(visible), 1)
        mean = total.T.astype(weights.dtype, copy=False)
    visible, hidden = (a.astype(weights.dtype, copy=False) for a in (visible, hidden))
    return UnitBeliefs(visible, hidden, mean, moved == 0, n_iter)


def coordinate_ascent(weights, visible_fields, hidden_fields, start, *, max_iter=100, n_jobs=None):
    """Search for the most probable states of the visible units by coordinate ascent.

    Maximises ``sum_h f(v, h)`` over ``v`` by updating one visible unit after the other.
    Every change increases the sum, so the ascent ends at a state that no single change improves.
    This is mixed-product belief propagation with sequential updates, where the visible units send
    their states as messages to the hidden units.

    Parameters
    ----------
    weights : ndarray of shape (n_visible, n_hidden)
        Weights, as in :func:`propagate`.
    visible_fields : ndarray of shape (n_rows, n_visible)
        Fields of the visible units.
    hidden_fields : ndarray of shape (n_rows, n_hidden)
        Fields of the hidden units.
    start : ndarray of shape (n_rows, n_visible)
        States at which the ascent starts, zeros and ones.
    max_iter : int, default=100
        Maximum number of sweeps over the visible units.
    n_jobs : int, optional
        Number of threads over blocks of rows. Results do not depend on it.

    Returns
    -------
    UnitBeliefs
        ``visible`` contains the log odds of each unit given the states of the others, positive if
        the state is 1.
    """
    if not is_numpy(weights):
        fields = visible_fields, hidden_fields
        return UnitBeliefs(*_jax.inference().ascend(weights, *fields, start, max_iter))
    couplings = _prepare_couplings(weights)
    blocks = _run_in_blocks(
        _ascend_block,
        couplings,
        (visible_fields, hidden_fields, start),
        (max_iter,),
        max_iter,
        n_jobs,
    )
    visible, hidden, n_iter, moved = _concatenate_results(list(blocks))
    visible, hidden = (a.astype(weights.dtype, copy=False) for a in (visible, hidden))
    return UnitBeliefs(visible, hidden, None, moved == 0, n_iter)


def mean_field(weights, visible_fields, hidden_fields, *, max_iter=100, tol=1e-3, pairs=False):
    r"""Compute the mean-field approximation by alternating updates of the two layers.

    .. math:: \tau^h = \sigma(W^\top \tau^v + b^h), \quad \tau^v = \sigma(W \tau^h + b^v)

    The fixed point is a product of independent units that is a stationary point of the divergence
    from the model. The first :math:`\tau^v` is :math:`\sigma(b^v)`.

    Parameters
    ----------
    weights : ndarray of shape (n_visible, n_hidden)
        Weights.
    visible_fields : ndarray of shape (n_rows, n_visible)
        Fields of the visible units.
    hidden_fields : ndarray of shape (n_rows, n_hidden)
        Fields of the hidden units.
    max_iter : int, default=100
        Maximum number of iterations; each one updates both layers.
    tol : float, default=1e-3
        An instance has converged when no probability of a visible unit changes by more.
    pairs : bool, default=False
        Whether to compute the mean pairwise beliefs.

    Returns
    -------
    UnitBeliefs
        Beliefs of all rows.
    """

    def update(rows, V):
        """Return the beliefs after an update of both layers, and their largest changes."""
        hidden = matrix_product(V, weights) + hidden_fields[rows]
        H = unit_probabilities(hidden)
        visible = matrix_product(H, weights.T) + visible_fields[rows]
        new = unit_probabilities(visible)
        return (visible, hidden, new, H), abs(new - V).max(axis=1, initial=0.0)

    first = visible_fields, hidden_fields
    beliefs = *first, *map(unit_probabilities, first)
    if is_numpy(weights):
        results = _iterate_rows(update, beliefs, max_iter, tol)
    else:

        def step(_, beliefs):
            new, change = update(slice(None), beliefs[2])
            return new, change > tol

        results = _jax.inference().iterate_rows(step, beliefs, max_iter)
    (visible, hidden, V, H), converged, n_iter = results
    mean = matrix_product(V.T, H) / weights.dtype.type(max(len(V), 1)) if pairs else None
    return UnitBeliefs(visible, hidden, mean, converged, n_iter)


def _iterate_rows(update, beliefs, max_iter, tol):
    """Update the beliefs of each row until they have converged."""
    beliefs = [a.copy() for a in beliefs]
    n_iter = np.zeros(len(beliefs[0]), dtype=np.int64)
    moved = np.full(len(n_iter), np.inf)
    active = np.arange(len(n_iter))
    for _ in range(max_iter):
        new, moved[active] = update(active, beliefs[2][active])
        for old, after in zip(beliefs, new, strict=True):
            old[active] = after
        n_iter[active] += 1
        active = active[moved[active] > tol]
        if len(active) == 0:
            break
    return beliefs, moved <= tol, n_iter


def unit_probabilities(log_odds):
    """Convert the log odds of units to probabilities.

    Parameters
    ----------
    log_odds : ndarray of shape (n_rows, n_units)
        Log odds of the state 1.

    Returns
    -------
    ndarray of shape (n_rows, n_units)
        Probabilities of the state 1, of the same dtype.
    """
    if not is_numpy(log_odds):
        return sigmoid(log_odds)
    out = np.empty_like(log_odds)
    unit_means(log_odds, read_only(np.zeros((1, log_odds.shape[1]), log_odds.dtype)), out)
    return out


def _prepare_couplings(weights):
    """Return the weights prepared for inference; reuse the last result if the weights are equal.

    The result is reused if the weights are equal. The preparation takes as long as two iterations
    of a row. Large weights are not kept.
    """
    last = _scratch.couplings
    if last is not None and last.match(weights):
        return last
    _scratch.couplings = None  # its ratios are overwritten
    small = weights.nbytes <= MAX_KEPT_BYTES
    couplings = _Couplings(weights.copy(order="K") if small else weights)
    if small and couplings.ratios.nbytes <= MAX_KEPT_BYTES:
        _scratch.couplings = couplings
    return couplings


class _Couplings:
    """Weights of a bipartite model prepared for inference: their exponentials and row segments."""

    def __init__(self, weights):
        self.given = weights
        self._compute_ratios(weights, weights.dtype)
        self.bound = BOUNDS[self.dtype]

    def _compute_ratios(self, weights, dtype):
        """Compute the exponentials of the weights, in float64 if the given dtype is too small."""
        self.dtype, self.weights = dtype, np.ascontiguousarray(weights, dtype=dtype)
        n_visible, n_hidden = weights.shape
        largest, limit = (dtype.type(x) for x in LIMITS[dtype])
        self.ratios = _scratch.get("ratios", n_hidden, n_visible, dtype)
        to_hidden, to_visible = np.zeros((2, n_hidden), dtype), np.empty((2, n_visible), dtype)
        if kernels.transpose_ratios(self.weights, largest, self.ratios, to_hidden, to_visible):
            self._compute_ratios(weights, check_weights(weights))
            return
        self.to_hidden = _split_rows(self.weights, to_hidden, limit)
        self.to_visible = _split_rows(self.weights.T, to_visible, limit)

    def match(self, weights):
        """Return True if this object was prepared from weights equal to ``weights``."""
        given = self.given
        return (
            (given.dtype, given.shape) == (weights.dtype, weights.shape)
            and np.array_equal(given[:1], weights[:1])  # fast check: learning changes every row
            and np.array_equal(given, weights)
        )

    @cached_property
    def by_visible(self):
        """Return the exponentials of the weights, with visible units as rows."""
        return np.ascontiguousarray(self.ratios[:, : len(self.weights)].T)


class _ScratchArrays(local):
    """Scratch arrays that each thread keeps between calls, because allocation is slow.

    Rows start at cache lines, so an array can have more columns than requested. Arrays of more than
    ``MAX_KEPT_BYTES`` bytes are not kept.
    """

    def __init__(self):
        self.kept = {}
        self.couplings = None

    def get(self, name, n_rows, n_columns, dtype):
        """Return the scratch array with the given name, whose rows start at cache lines."""
        key = n_rows, n_columns, dtype
        last, rows = self.kept.get(name, (None, None))
        if last != key:
            self.kept.pop(name, None)
            rows = _allocate_aligned(*key)
            if rows.nbytes <= MAX_KEPT_BYTES:
                self.kept[name] = key, rows
        return rows


def _allocate_aligned(n_rows, n_columns, dtype):
    """Allocate an array whose rows start at cache lines and fill whole cache lines."""
    width = -(-n_columns * dtype.itemsize // CACHE_LINE) * CACHE_LINE
    buffer = np.empty(n_rows * width + CACHE_LINE, dtype=np.uint8)
    start = -buffer.__array_interface__["data"][0] % CACHE_LINE
    rows = buffer[start : start + n_rows * width].view(dtype)
    return rows.reshape(n_rows, width // dtype.itemsize)


_scratch = _ScratchArrays()


def check_weights(weights):
    """Return the dtype for computations with the weights; raise an error if they are too large.

    Parameters
    ----------
    weights : ndarray of shape (n_visible, n_hidden)
        Weights of dtype float32 or float64.

    Returns
    -------
    dtype
        The dtype of the weights, or float64 if they are too large for float32.

    Raises
    ------
    ValueError
        If the absolute value of a weight exceeds 300.
    """
    dtype = weights.dtype
    largest = max(float(weights.max(initial=0.0)), -float(weights.min(initial=0.0)))
    if not largest <= LIMITS[dtype][0]:
        dtype = np.dtype(np.float64)
    if not largest <= LIMITS[dtype][0]:
        raise ValueError(
            "Approximate inference needs weights of absolute value at most "
            f"{LIMITS[dtype][0]:g}; the largest absolute value is {largest:g}. Use a smaller "
            "learning_rate. If alpha is 0, use alpha > 0."
        )
    return dtype


def _split_rows(weights, totals, limit):
    """Split the rows of the weights into segments with bounded column sums; return the bounds.

    The positive and the negative weights of a column are summed separately. ``totals`` are the sums
    over all rows, two per column. A segment of one row may exceed the limit.
    """
    n = len(weights)
    if totals.max(initial=0.0) <= limit:
        return np.array([0, n])
    bounds = np.empty(n + 1, dtype=np.int64)
    rows = np.ascontiguousarray(weights)
    return bounds[: kernels.split_segments(rows, limit, bounds, np.zeros_like(totals))]


def _run_in_blocks(run, couplings, rows, options, max_iter, n_jobs):
    """Run inference in blocks of rows, and return the results of the blocks in order."""
    work, n_rows = 2 * couplings.weights.size * max_iter, len(rows[0])
    size = int(min(max(MESSAGES_PER_CALL // max(work, 1), 1), MAX_BLOCK_ROWS))
    n_blocks = max(-(-n_rows // size), 1)
    bounds = [n_rows * k // n_blocks for k in range(n_blocks + 1)]
    tasks = [
        (couplings, *(a[start:stop] for a in rows), *options) for start, stop in pairwise(bounds)
    ]
    return run_blocks(run, tasks, n_jobs)


def _concatenate_results(parts):
    if len(parts) == 1:
        return parts[0]
    return (np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def _propagate_block(couplings, visible, hidden, product, max_iter, tol, pairs):
    dtype, ratios = couplings.dtype, couplings.ratios
    visible = np.ascontiguousarray(visible, dtype=dtype)
    hidden = np.ascontiguousarray(hidden, dtype=dtype)
    out_visible, out_hidden = np.empty_like(visible), np.empty_like(hidden)
    n_iter, moved = np.empty((2, len(visible)), dtype=np.int64)
    sums = np.zeros(couplings.weights.shape[::-1] if pairs else (0, 0), dtype=dtype)
    kernels.propagate(
        ratios,
        visible,
        hidden,
        product,
        max_iter,
        dtype.type(tol),
        couplings.bound,
        couplings.to_hidden,
        couplings.to_visible,
        _scratch.get("messages", *couplings.weights.shape[::-1], dtype),
        _scratch.get("rows", 8, max(visible.shape[1], kernels.BLOCK), dtype),
        out_visible,
        out_hidden,
        n_iter,
        moved,
        sums,
    )
    return out_visible, out_hidden, n_iter, moved, sums


def _ascend_block(couplings, visible, hidden, start, max_iter):
    dtype = couplings.dtype
    weights = couplings.weights
    V = np.array(start, dtype=dtype, order="C")
    out = np.empty_like(V)
    n_iter, moved = np.empty(len(V), dtype=np.int64), np.empty(len(V), dtype=np.int64)
    hidden = np.ascontiguousarray(hidden, dtype=dtype)
    ascend_states(
        weights,
        couplings.by_visible,
        np.ascontiguousarray(visible, dtype=dtype),
        hidden,
        couplings.to_visible,
        couplings.bound,
        max_iter,
        np.empty((4, weights.shape[1]), dtype=dtype),
        V,
        out,
        n_iter,
        moved,
    )
    return out, V @ weights + hidden, n_iter, moved
