"""Elimination orders, their cost, and bucket trees (index arrays) for exact inference."""

import math
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from .._kernels.elimination import Tree, block_offsets
from .._kernels.ordering import adjacency_bits, greedy_order
from .._utils.codes import MAX_STATES
from .._utils.interrupts import remaining_time
from ..energies.layout import Layout

BLOCK = 1024
MAX_LOG_SIZE = 96 * math.log(2.0)  # no machine holds such a table
SEARCH_BUDGET = 50_000
CHEAP_BYTES = 2**20
MAX_DENSE = 5_000
FLOAT_BYTES = 8
_forecasts = WeakKeyDictionary()  # of layouts without observed variables: a fit needs them often


@dataclass(frozen=True)
class Forecast:
    """Forecast of an elimination's memory and time, made before any large array is allocated.

    Attributes
    ----------
    bytes : float
        Peak memory in bytes for one row of evidence: all messages of the bucket tree, the sums that
        the children of one bucket receive, and the index arrays. If ``order`` is None this is a
        finite lower bound.
    entries : float
        Number of table entries visited in one pass.
    log2_largest : float
        Log2 of the number of entries of the largest table.
    order : ndarray or None
        Elimination order; None if the search stopped at a table that no machine can hold.
    """

    bytes: float
    entries: float
    log2_largest: float
    order: np.ndarray | None


def forecast(layout, observed=None, maximised=None, *, max_bytes=math.inf):
    """Search for an elimination order, and forecast its memory and time.

    The search tries min-fill and min-size orders with random ties, and an order of small bandwidth.
    It keeps the order that needs the fewest bytes. If all variables have the same number of states,
    it ends early at a min-fill order that adds no edges between variables: other such orders have
    equally many tables of each size, and no order has a smaller largest table.

    Parameters
    ----------
    layout : Layout
        Variables and cliques of the factor graph.
    observed : ndarray of bool of shape (n_variables,), or None
        True for variables that are not eliminated. None: no variable is observed.
    maximised : ndarray of bool of shape (n_variables,), or None
        True for variables that are eliminated after all others, as a maximum over a sum requires.
        Such an order can cost far more than an unconstrained one. None: no constraint.
    max_bytes : float, default=inf
        If more bytes are needed, ``bytes`` may be a lower bound.

    Returns
    -------
    Forecast
        ``order`` is None if no order is cheap enough.
    """
    if observed is not None or maximised is not None:
        return _search_order(layout, observed, maximised, max_bytes)
    if (known := _forecasts.get(layout)) is None:
        known = _search_order(layout)
        if remaining_time() >= 0:
            _forecasts[layout] = known
    return known


def _search_order(layout, observed=None, maximised=None, max_bytes=math.inf):
    """Return the forecast of the best order of a search, as :func:`forecast` does."""
    n = len(layout.n_states)
    free = np.ones(n, dtype=bool) if observed is None else ~observed
    bits = adjacency_bits(layout.clique_ptr, layout.clique_vars, free, n)
    log_states = np.log(layout.n_states.astype(float))
    best = None
    for weights, rank in _order_heuristics(layout, bits):
        if maximised is not None:
            rank = rank + maximised * (_largest_score(n) / weights[2])
        order, log_sizes = greedy_order(bits.copy(), free, log_states, weights, rank, MAX_LOG_SIZE)
        candidate = _forecast_order(
            order, log_sizes, layout.n_states, complete=len(order) == free.sum()
        )
        if best is None or (candidate.order is not None, -candidate.bytes) > (
            best.order is not None,
            -best.bytes,
        ):
            best = candidate
        if best.order is None or best.bytes <= CHEAP_BYTES or remaining_time() < 0:
            break
        may_be_best = candidate is best and maximised is None
        if may_be_best and _adds_no_edge(bits, log_states[free], log_sizes):
            break
    if best.order is None or best.bytes > max_bytes:
        return best
    return replace(best, bytes=_peak_bytes(layout, best.order))


def _adds_no_edge(bits, log_states, log_sizes):
    """Return whether an elimination order adds no edge, if all variables have equal states.

    Otherwise the result is False. The table of an eliminated variable contains its neighbours.
    """
    if len(bits) > MAX_DENSE or log_states.min() < log_states.max() or log_states.min() == 0:
        return False
    n_edges = _adjacency_matrix(bits).sum(dtype=int) // 2
    return round((log_sizes / log_states.min() - 1.0).sum()) == n_edges


def _order_heuristics(layout, bits):
    """Yield the settings of several greedy searches for an elimination order.

    The settings are the weights of (fill, table size, rank) in the score of a variable, and the
    ranks of the variables.
    """
    n = len(layout.n_states)
    rng = np.random.default_rng(0)  # only breaks ties; the same order on every call
    by_fill, by_size = np.array([1.0, 1e-3, 1e-6]), np.array([1e-3, 1.0, 1e-6])
    yield by_fill, np.arange(n) / n
    if n <= MAX_DENSE:
        yield np.array([0.0, 0.0, 1.0]), _band_rank(bits)
    for attempt in range(max(4, SEARCH_BUDGET // n)):
        yield (by_size if attempt % 2 else by_fill), rng.random(n)


def _largest_score(n):
    """Return an upper bound on the score of a variable in a greedy search for an elimination order.

    The score is fill + log table size + rank.
    """
    return n * (n + math.log(MAX_STATES)) + 1.0


def _band_rank(bits):
    """Return each variable's position in an order in which neighbours are close (small bandwidth).

    An order of small bandwidth suits long strips and grids.
    """
    order = reverse_cuthill_mckee(csr_array(_adjacency_matrix(bits)), symmetric_mode=True)
    rank = np.empty(len(bits))
    rank[order] = np.arange(len(bits))
    return rank


def _adjacency_matrix(bits):
    """Return the matrix of zeros and ones whose rows are stored as bits."""
    return np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little")[:, : len(bits)]


def _forecast_order(order, log_sizes, n_states, complete):
    """Return the forecast of memory and time of an elimination order, given its table sizes."""
    if len(order) == 0:
        return Forecast(0.0, 0.0, 0.0, order)
    with np.errstate(over="ignore"):
        tables = np.exp(log_sizes)
        separators = tables / n_states[order]
        needed = FLOAT_BYTES * (separators.sum() + separators.max())
    needed = min(float(needed), np.finfo(float).max)
    largest = float(log_sizes.max() / np.log(2.0))
    return Forecast(needed, float(tables.sum()), largest, order if complete else None)


def _peak_bytes(layout, order):
    """Return the peak memory of an elimination for one row of evidence, in bytes.

    The memory contains the arrays of :func:`build_tree` and the messages. Only shapes are used; no
    large array is allocated.
    """
    position, cliques_of_bucket = _buckets(layout, order)
    separators, children = _eliminate_symbolically(layout, order, position, cliques_of_bucket)
    n_states = layout.n_states.tolist()
    sizes, n_offsets = [], 0
    for k, (separator, v) in enumerate(zip(separators, order.tolist(), strict=True)):
        cards = [n_states[u] for u in (*separator, v)]
        split = _count_outer_variables(cards)
        block = math.prod(cards[:split]) + math.prod(cards[split:])
        n_offsets += block * (len(cliques_of_bucket.get(k, ())) + len(children[k]))
        sizes.append(math.prod(cards[:-1]))
    received = max((sum(sizes[c] for c in below) for below in children), default=0)
    # while the offsets are concatenated there are two copies of them, but no messages yet
    return float(FLOAT_BYTES * (n_offsets + max(n_offsets, sum(sizes) + received)))


def _count_outer_variables(cards):
    """Return the number of a bucket's variables that index the blocks of its table.

    Blocks are indexed by the variables that change slowest. The other variables index entries
    within a block.
    """
    split, inner = len(cards) - 1, cards[-1]
    while split > 0 and inner * cards[split - 1] <= BLOCK:
        split -= 1
        inner *= cards[split]
    return split


@dataclass(frozen=True)
class BucketTree:
    """Index arrays of a variable elimination, for one layout and one set of observed variables.

    Attributes
    ----------
    tree : Tree
        Arrays for the kernels.
    layout : Layout
        Layout of the factor graph.
    observed : ndarray of bool of shape (n_variables,)
        True for observed variables.
    constant_cliques : ndarray of int
        Cliques whose variables are all observed.
    n_summed : int
        Number of buckets before the buckets of maximised variables; the number of all buckets if no
        variable is maximised.
    n_messages : int
        Number of floats in the messages of one row of evidence.
    n_scratch : int
        Number of floats of scratch memory in the downward pass.
    forecast : Forecast
        Forecast that contains the elimination order.
    """

    tree: Tree
    layout: Layout
    observed: np.ndarray
    constant_cliques: np.ndarray
    n_summed: int
    n_messages: int
    n_scratch: int
    forecast: Forecast


def build_tree(layout, observed, maximised, cost):
    """Build the bucket tree for the elimination order ``cost.order``."""
    position, cliques_of_bucket = _buckets(layout, cost.order)
    separators, children = _eliminate_symbolically(layout, cost.order, position, cliques_of_bucket)
    sources = _SourceOffsets(layout, separators)
    shapes = []
    for k, v in enumerate(cost.order.tolist()):
        shapes.append(
            sources.add_bucket(separators[k] + [v], cliques_of_bucket.get(k, ()), children[k])
        )
    # Contiguous rows also for one bucket, so that kernels are compiled for one type of arrays.
    outer, inner, source_count = np.array(shapes, dtype=np.int64).reshape(-1, 3).T.copy()
    q = layout.n_states[cost.order].astype(np.int64)
    size = outer * inner // q
    tree = Tree(
        cost.order,
        q,
        outer,
        inner,
        _start_indices(size),
        _start_indices(layout.n_states)[cost.order],
        np.array([not s for s in separators], dtype=bool),
        _pointers([len(s) for s in separators]),
        np.array([u for s in separators for u in s], dtype=np.int64),
        np.concatenate([*sources.strides, np.zeros(0, np.int64)]),
        _pointers(source_count),
        *sources.arrays(),
    )
    constant = np.array(cliques_of_bucket.get(-1, []), dtype=np.int64)
    scratch = max((int(size[c].sum()) for c in children), default=0)
    n_summed = len(cost.order) - np.count_nonzero(maximised[cost.order])
    return BucketTree(tree, layout, observed, constant, n_summed, int(size.sum()), scratch, cost)


def _pointers(counts):
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _start_indices(sizes):
    return _pointers(sizes)[:-1]


def _buckets(layout, order):
    """Return each variable's position in the elimination order, and the cliques of each bucket.

    The position of an observed variable is -1. A clique belongs to the bucket of its first
    eliminated variable, or to bucket -1 if all its variables are observed.
    """
    position = np.full(len(layout.n_states), -1)
    position[order] = np.arange(len(order))
    cliques_of_bucket = {}
    for a, clique in enumerate(layout.cliques):
        bucket = min((int(position[v]) for v in clique if position[v] >= 0), default=-1)
        cliques_of_bucket.setdefault(bucket, []).append(a)
    return position, cliques_of_bucket


def _eliminate_symbolically(layout, order, position, cliques_of_bucket):
    """Return the separator and the child buckets of each bucket.

    The variables of a separator are in reverse elimination order.
    """
    gathered = [set() for _ in order]
    children = [[] for _ in order]
    separators = []
    for k, v in enumerate(order.tolist()):
        scope = gathered[k]
        for a in cliques_of_bucket.get(k, ()):
            scope.update(u for u in layout.cliques[a] if position[u] >= 0)
        scope.discard(v)
        separators.append(sorted(scope, key=lambda u: -position[u]))
        if scope:
            parent = int(position[separators[-1][-1]])
            gathered[parent] |= scope
            children[parent].append(k)
    return separators, children


class _SourceOffsets:
    """Builder of index arrays that locate the tables and the child messages of each bucket."""

    def __init__(self, layout, separators):
        self.layout = layout
        self.separators = separators
        self.strides = [_row_major(layout.n_states[s]) for s in separators]
        self.rows = []
        self.offsets = []
        self.filled = 0

    def add_bucket(self, scope, cliques, children):
        """Add the index arrays of a bucket, and return the sizes of its table's blocks.

        Returns (outer, inner, number of sources): the bucket has ``outer`` blocks of ``inner``
        entries.
        """
        cards = self.layout.n_states[scope].astype(np.int64)
        split = _count_outer_variables(cards.tolist())
        for a in cliques:
            span = slice(self.layout.clique_ptr[a], self.layout.clique_ptr[a + 1])
            self._add(-1, a, scope, self.layout.clique_vars[span], self.layout.strides[span], split)
        for c in children:
            self._add(c, -1, scope, self.separators[c], self.strides[c], split)
        return np.prod(cards[:split]), np.prod(cards[split:]), len(cliques) + len(children)

    def _add(self, child, clique, scope, variables, strides, split):
        place = dict(zip(np.asarray(variables).tolist(), strides.tolist(), strict=True))
        along = np.array([place.get(u, 0) for u in scope], dtype=np.int64)
        cards = self.layout.n_states[scope].astype(np.int64)
        outer_at = self._block(cards[:split], along[:split])
        inner_at = self._block(cards[split:], along[split:])
        self.rows.append((child, clique, outer_at, inner_at))

    def _block(self, cards, strides):
        block = np.empty(int(np.prod(cards)), dtype=np.int64)
        block_offsets(cards, strides, block)
        self.offsets.append(block)
        self.filled += len(block)
        return self.filled - len(block)

    def arrays(self):
        """Return the index arrays of the tables and child messages of all buckets.

        The arrays are source_bucket, source_clique, outer_at, inner_at and offsets.
        """
        rows = np.array(self.rows, dtype=np.int64).reshape(-1, 4)
        columns = [np.ascontiguousarray(c) for c in rows.T]
        return *columns, np.concatenate([*self.offsets, np.zeros(0, np.int64)])


def _row_major(cards):
    """Return the strides of a table in row-major order: the last variable changes fastest."""
    return np.concatenate([np.cumprod(cards[:0:-1])[::-1], np.ones(min(len(cards), 1))]).astype(
        np.int64
    )
