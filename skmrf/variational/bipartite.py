r"""Inference in two layers of two-state units whose fields differ by row.

.. math:: \log f(v, h) = v^\top W h + v^\top b^v + h^\top b^h

A row is one instance: the weights are common, the fields :math:`b^v, b^h` its own.
"""

from functools import cached_property
from itertools import pairwise
from threading import local
from typing import NamedTuple

import numpy as np

from .._kernels import bipartite as kernels
from .._kernels.coordinate import ascend
from .._kernels.layers import unit_means
from .._utils.parallel import run_blocks

PRODUCTS = {"sum": kernels.SUM, "max": kernels.MAX, "mixed": kernels.MIXED}
ROWS = 32  # of a block, at most
LINE = 64  # bytes of a line of the cache
KEPT = 2**23  # bytes of scratch that may stay
MESSAGES_A_CALL = 5e8  # some 0.1 s
# Largest |W| whose ratios, times one another, are in range; and largest sum of either sign's |W| in
# a segment.
LIMITS = {np.dtype(np.float32): (35.0, 80.0), np.dtype(np.float64): (300.0, 600.0)}
# Logits are held within these, so that neither odds nor what they are multiplied by overflows.
BOUNDS = {kind: kind.type(0.98 * np.log(np.finfo(kind).max)) for kind in LIMITS}


class UnitBeliefs(NamedTuple):
    """Beliefs of units, one row an instance.

    Attributes
    ----------
    visible : ndarray of shape (n_rows, n_visible), log odds of ``v_i = 1``
    hidden : ndarray of shape (n_rows, n_hidden), log odds of ``h_j = 1``
    pairs : ndarray of shape (n_visible, n_hidden) or None
        Mean over rows of the probability that both are 1.
    converged : ndarray of bool of shape (n_rows,)
    n_iter : ndarray of int of shape (n_rows,)
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
    """Belief propagation by messages in the domain of ratios.

    Parameters
    ----------
    weights : ndarray of shape (n_visible, n_hidden)
        Its dtype is that of the arithmetic; float32 is left for float64 where a weight is beyond
        35 in size.
    visible_fields : ndarray of shape (n_rows, n_visible)
    hidden_fields : ndarray of shape (n_rows, n_hidden)
    product : {"sum", "max", "mixed"}
        Marginals; max-marginals, for a joint maximiser; or maxima over visible units of what is
        summed over hidden ones, for a marginal maximiser.
    max_iter : int
        An iteration is all messages to the visible units and then all to the hidden ones.
    tol : float
        An instance has converged when no belief of a visible unit moves by more.
    pairs : bool
        Also the mean pairwise beliefs (of ``product="sum"``).
    n_jobs : int, optional
        Threads over blocks of rows. Has no influence on results.

    Returns
    -------
    UnitBeliefs

    Raises
    ------
    ValueError
        A weight beyond 300 in size.

    References
    ----------
    W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured prediction",
    AISTATS 2017, Algorithm 1.
    """
    couplings = _couplings_of(weights)
    options = PRODUCTS[product], max_iter, tol, pairs
    total, parts = None, []
    for *part, of_block in _in_blocks(
        _propagate_block, couplings, (visible_fields, hidden_fields), options, max_iter, n_jobs
    ):
        parts.append(part)
        total = of_block if total is None else np.add(total, of_block, out=total)
    visible, hidden, n_iter, moved = _joined(parts)
    mean = None
    if pairs:
        total /= max(len(visible), 1)
        mean = total.T.astype(weights.dtype, copy=False)
    visible, hidden = (a.astype(weights.dtype, copy=False) for a in (visible, hidden))
    return UnitBeliefs(visible, hidden, mean, moved == 0, n_iter)


def coordinate_ascent(weights, visible_fields, hidden_fields, start, *, max_iter=100, n_jobs=None):
    """Maximise ``sum_h f(v, h)`` over ``v``, one unit after the other.

    Every change raises the sum, so it ends at a state that no single change improves. This is
    mixed-product belief propagation with sequential updates: its messages to hidden units are
    those of the states themselves.

    Parameters
    ----------
    weights, visible_fields, hidden_fields, n_jobs
        As in :func:`propagate`.
    start : ndarray of shape (n_rows, n_visible), zeros and ones
    max_iter : int
        Sweeps over the visible units.

    Returns
    -------
    UnitBeliefs
        ``visible`` are log odds of each unit given the others at their states, positive where the
        state is 1.
    """
    couplings = _couplings_of(weights)
    blocks = _in_blocks(
        _ascend_block,
        couplings,
        (visible_fields, hidden_fields, start),
        (max_iter,),
        max_iter,
        n_jobs,
    )
    visible, hidden, n_iter, moved = _joined(list(blocks))
    visible, hidden = (a.astype(weights.dtype, copy=False) for a in (visible, hidden))
    return UnitBeliefs(visible, hidden, None, moved == 0, n_iter)


def mean_field(weights, visible_fields, hidden_fields, *, max_iter=100, tol=1e-3, pairs=False):
    r"""Independent units that minimise the divergence from the model, layer after layer.

    .. math:: \tau^h = \sigma(W^\top \tau^v + b^h), \quad \tau^v = \sigma(W \tau^h + b^v)

    Parameters
    ----------
    weights, visible_fields, hidden_fields, max_iter, tol, pairs
        As in :func:`propagate`. Starts at :math:`\tau^v = \sigma(b^v)`.

    Returns
    -------
    UnitBeliefs
    """
    visible, hidden = visible_fields.copy(), hidden_fields.copy()
    n_iter = np.zeros(len(visible), dtype=np.int64)
    moved = np.full(len(visible), np.inf)
    V, H = unit_probabilities(visible), unit_probabilities(hidden)
    active = np.arange(len(visible))
    for _ in range(max_iter):
        hidden[active] = V[active] @ weights + hidden_fields[active]
        H[active] = unit_probabilities(hidden[active])
        visible[active] = H[active] @ weights.T + visible_fields[active]
        new = unit_probabilities(visible[active])
        moved[active] = np.abs(new - V[active]).max(axis=1, initial=0.0)
        V[active] = new
        n_iter[active] += 1
        active = active[moved[active] > tol]
        if len(active) == 0:
            break
    mean = V.T @ H / weights.dtype.type(max(len(V), 1)) if pairs else None
    return UnitBeliefs(visible, hidden, mean, moved <= tol, n_iter)


def unit_probabilities(log_odds):
    """Probabilities of units from their log odds."""
    out = np.empty_like(log_odds)
    unit_means(log_odds, np.zeros((1, log_odds.shape[1]), log_odds.dtype), out)
    return out


def _couplings_of(weights):
    """Those of the last call, where its weights were the same; large ones are not kept.

    To make them takes as long as two iterations of a row.
    """
    last = _rooms.couplings
    if last is not None and last.are_of(weights):
        return last
    _rooms.couplings = None  # whose ratios are overwritten
    small = weights.nbytes <= KEPT
    found = _Couplings(weights.copy(order="K") if small else weights)
    if small and found.ratios.nbytes <= KEPT:
        _rooms.couplings = found
    return found


class _Couplings:
    """What kernels want to know of weights."""

    def __init__(self, weights):
        self.given = weights
        self._turn(weights, weights.dtype)
        self.bound = BOUNDS[self.dtype]

    def _turn(self, weights, dtype):
        """Ratios of that type, or of the one that the weights need."""
        self.dtype, self.weights = dtype, weights.astype(dtype, copy=False)
        n_visible, n_hidden = weights.shape
        largest, limit = (dtype.type(x) for x in LIMITS[dtype])
        self.ratios = _rooms.lines("ratios", n_hidden, n_visible, dtype)
        to_hidden, to_visible = np.zeros((2, n_hidden), dtype), np.empty((2, n_visible), dtype)
        if kernels.turned(self.weights, largest, self.ratios, to_hidden, to_visible):
            self._turn(weights, check_weights(weights))
            return
        self.to_hidden = _segments(self.weights, to_hidden, limit)
        self.to_visible = _segments(self.weights.T, to_visible, limit)

    def are_of(self, weights):
        given = self.given
        return (
            (given.dtype, given.shape) == (weights.dtype, weights.shape)
            and np.array_equal(given[:1], weights[:1])  # learning changes all of them
            and np.array_equal(given, weights)
        )

    @cached_property
    def by_visible(self):
        """The ratios with visible units as rows."""
        return np.ascontiguousarray(self.ratios[:, : len(self.weights)].T)


class _Rooms(local):
    """What a thread keeps from one call to the next: fresh pages cost as much as messages.

    Rows begin at lines of the cache, so there may be more columns than asked for. What is larger
    than ``KEPT`` bytes is not kept.
    """

    def __init__(self):
        self.kept = {}
        self.couplings = None

    def lines(self, name, n_rows, n_columns, dtype):
        wanted = n_rows, n_columns, dtype
        last, rows = self.kept.get(name, (None, None))
        if last != wanted:
            self.kept.pop(name, None)
            rows = _aligned(*wanted)
            if rows.nbytes <= KEPT:
                self.kept[name] = wanted, rows
        return rows


def _aligned(n_rows, n_columns, dtype):
    """Rows that are whole lines of the cache."""
    width = -(-n_columns * dtype.itemsize // LINE) * LINE
    room = np.empty(n_rows * width + LINE, dtype=np.uint8)
    start = -room.__array_interface__["data"][0] % LINE
    rows = room[start : start + n_rows * width].view(dtype)
    return rows.reshape(n_rows, width // dtype.itemsize)


_rooms = _Rooms()


def check_weights(weights):
    """The type of the arithmetic, for weights that are not too large for any."""
    dtype = weights.dtype
    largest = max(float(weights.max(initial=0.0)), -float(weights.min(initial=0.0)))
    if not largest <= LIMITS[dtype][0]:
        dtype = np.dtype(np.float64)
    if not largest <= LIMITS[dtype][0]:
        raise ValueError(
            f"Inference takes weights of up to {LIMITS[dtype][0]:g} in size; the largest "
            f"is {largest:g}. Learn with a smaller learning_rate, or with alpha > 0."
        )
    return dtype


def _segments(weights, totals, limit):
    """Bounds of segments of rows, in each of which the sums of either sign by column are limited.

    ``totals`` are these sums over all rows, two a column. A row alone may exceed the limit.
    """
    n = len(weights)
    if totals.max(initial=0.0) <= limit:
        return np.array([0, n])
    bounds = np.empty(n + 1, dtype=np.int64)
    rows = np.ascontiguousarray(weights)
    return bounds[: kernels.segments_of(rows, limit, bounds, np.zeros_like(totals))]


def _in_blocks(run, couplings, rows, options, max_iter, n_jobs):
    """Results of blocks of rows, in order."""
    work, n_rows = 2 * couplings.weights.size * max_iter, len(rows[0])
    size = int(min(max(MESSAGES_A_CALL // max(work, 1), 1), ROWS))
    n_blocks = max(-(-n_rows // size), 1)
    bounds = [n_rows * k // n_blocks for k in range(n_blocks + 1)]  # as equal as can be
    tasks = [
        (couplings, *(a[start:stop] for a in rows), *options) for start, stop in pairwise(bounds)
    ]
    return run_blocks(run, tasks, n_jobs)


def _joined(parts):
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
        _rooms.lines("messages", *couplings.weights.shape[::-1], dtype),
        _rooms.lines("rows", 8, max(visible.shape[1], kernels.BLOCK), dtype),
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
    V = start.astype(dtype)
    out = np.empty_like(V)
    n_iter, moved = np.empty(len(V), dtype=np.int64), np.empty(len(V), dtype=np.int64)
    hidden = np.ascontiguousarray(hidden, dtype=dtype)
    ascend(
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
