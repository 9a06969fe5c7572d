"""Elimination orders and bucket trees: what exact inference costs, and its index arrays."""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from .._kernels.elimination import Tree, block_offsets
from .._kernels.ordering import adjacency_bits, greedy_order
from .._utils.codes import MAX_STATES
from ..energies.layout import Layout

BLOCK = 1024
MAX_LOG_SIZE = 96 * math.log(2.0)  # no machine holds such a table
SEARCH = 50_000
CHEAP = 2**20
MAX_DENSE = 5_000
FLOAT_BYTES = 8


@dataclass(frozen=True)
class Forecast:
    """What exact elimination needs, known before it allocates.

    Attributes
    ----------
    bytes : float
        Peak bytes for one row of evidence: all messages of the bucket tree, the sums that one
        bucket's children receive, and the index arrays. At least this much (but a finite number)
        if ``order`` is None.
    entries : float
        Table entries visited in one pass.
    log2_largest : float
        Log2 of the number of entries of the largest table.
    order : ndarray or None
        Elimination order; None where the search stopped at a table beyond any memory.
    """

    bytes: float
    entries: float
    log2_largest: float
    order: np.ndarray | None


def forecast(layout, observed=None, maximised=None):
    """Search an elimination order and foretell bytes and work.

    Min-fill and min-size with random ties, and a band order; the cheapest in bytes is kept.

    Parameters
    ----------
    layout : Layout
    observed : ndarray of bool of shape (n_variables,), or None
    maximised : ndarray of bool of shape (n_variables,), or None
        Variables that every other one is eliminated before, as a sum inside a maximum must be.
        Such an order can cost far more than a free one.

    Returns
    -------
    Forecast
        Without an order where none is cheap enough to be followed.
    """
    n = len(layout.n_states)
    free = np.ones(n, dtype=bool) if observed is None else ~observed
    bits = adjacency_bits(layout.clique_ptr, layout.clique_vars, free, n)
    log_states = np.log(layout.n_states.astype(float))
    best = None
    for weights, rank in _attempts(layout, bits):
        if maximised is not None:
            rank = rank + maximised * (_largest_score(n) / weights[2])
        order, log_sizes = greedy_order(bits.copy(), free, log_states, weights, rank, MAX_LOG_SIZE)
        found = _price(order, log_sizes, layout.n_states, complete=len(order) == free.sum())
        if best is None or (found.order is not None, -found.bytes) > (
            best.order is not None,
            -best.bytes,
        ):
            best = found
        if best.order is None or best.bytes <= CHEAP:
            break
    return best if best.order is None else replace(best, bytes=_peak_bytes(layout, best.order))


def _attempts(layout, bits):
    """Weights of (fill, table size, rank) and ranks, one pair an attempt."""
    n = len(layout.n_states)
    rng = np.random.default_rng(0)  # only breaks ties; the same order on every call
    by_fill, by_size = np.array([1.0, 1e-3, 1e-6]), np.array([1e-3, 1.0, 1e-6])
    yield by_fill, np.arange(n) / n
    if n <= MAX_DENSE:
        yield np.array([0.0, 0.0, 1.0]), _band_rank(bits)
    for attempt in range(max(4, SEARCH // n)):
        yield (by_size if attempt % 2 else by_fill), rng.random(n)


def _largest_score(n):
    """Above every fill + log size of a table + rank of n variables."""
    return n * (n + math.log(MAX_STATES)) + 1.0


def _band_rank(bits):
    """Rank in an order of small bandwidth: the one for long strips and grids."""
    n = len(bits)
    dense = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little")[:, :n]
    order = reverse_cuthill_mckee(csr_array(dense), symmetric_mode=True)
    rank = np.empty(n)
    rank[order] = np.arange(n)
    return rank


def _price(order, log_sizes, n_states, complete):
    """Bytes and entries of an order from the sizes of its tables."""
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
    """Bytes of :func:`build_tree`'s arrays and of one row's messages, from the shapes alone."""
    when, own = _buckets(layout, order)
    separators, children = _symbolic(layout, order, when, own)
    n_states = layout.n_states.tolist()
    sizes, n_offsets = [], 0
    for k, (separator, v) in enumerate(zip(separators, order.tolist(), strict=True)):
        cards = [n_states[u] for u in (*separator, v)]
        split = _split(cards)
        block = math.prod(cards[:split]) + math.prod(cards[split:])
        n_offsets += block * (len(own.get(k, ())) + len(children[k]))
        sizes.append(math.prod(cards[:-1]))
    received = max((sum(sizes[c] for c in below) for below in children), default=0)
    # the offsets are there twice while they are joined, but then no message is
    return float(FLOAT_BYTES * (n_offsets + max(n_offsets, sum(sizes) + received)))


def _split(cards):
    """How many of a bucket's variables, the slow ones, index blocks; the others lie in a block."""
    split, inner = len(cards) - 1, cards[-1]
    while split > 0 and inner * cards[split - 1] <= BLOCK:
        split -= 1
        inner *= cards[split]
    return split


@dataclass(frozen=True)
class BucketTree:
    """Index arrays of an elimination, built once for a layout and a set of observed variables.

    Attributes
    ----------
    tree : Tree
        Arrays for the kernels.
    layout : Layout
    observed : ndarray of bool
    constant_cliques : ndarray
        Cliques that are wholly observed.
    n_summed : int
        Buckets before those of the variables to maximise over; all where there are none.
    n_messages : int
        Floats a row of evidence needs.
    n_scratch : int
    forecast : Forecast
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
    """The bucket tree of ``cost.order``."""
    when, own = _buckets(layout, cost.order)
    separators, children = _symbolic(layout, cost.order, when, own)
    sources = _Sources(layout, separators)
    shapes = []
    for k, v in enumerate(cost.order.tolist()):
        shapes.append(sources.add_bucket(separators[k] + [v], own.get(k, ()), children[k]))
    outer, inner, source_count = np.array(shapes, dtype=np.int64).reshape(-1, 3).T
    q = layout.n_states[cost.order].astype(np.int64)
    size = outer * inner // q
    tree = Tree(
        cost.order,
        q,
        outer,
        inner,
        _starts(size),
        _starts(layout.n_states)[cost.order],
        np.array([not s for s in separators], dtype=bool),
        _pointers([len(s) for s in separators]),
        np.array([u for s in separators for u in s], dtype=np.int64),
        np.concatenate([*sources.strides, np.zeros(0, np.int64)]),
        _pointers(source_count),
        *sources.arrays(),
    )
    constant = np.array(own.get(-1, []), dtype=np.int64)
    scratch = max((int(size[c].sum()) for c in children), default=0)
    n_summed = len(cost.order) - np.count_nonzero(maximised[cost.order])
    return BucketTree(tree, layout, observed, constant, n_summed, int(size.sum()), scratch, cost)


def _pointers(counts):
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _starts(sizes):
    return _pointers(sizes)[:-1]


def _buckets(layout, order):
    """When every variable is eliminated (-1: observed), and the cliques by the bucket that takes
    them: that of their first eliminated variable, or -1."""
    when = np.full(len(layout.n_states), -1)
    when[order] = np.arange(len(order))
    own = {}
    for a, clique in enumerate(layout.cliques):
        bucket = min((int(when[v]) for v in clique if when[v] >= 0), default=-1)
        own.setdefault(bucket, []).append(a)
    return when, own


def _symbolic(layout, order, when, own):
    """Separator of every bucket (latest eliminated first) and its child buckets."""
    gathered = [set() for _ in order]
    children = [[] for _ in order]
    separators = []
    for k, v in enumerate(order.tolist()):
        scope = gathered[k]
        for a in own.get(k, ()):
            scope.update(u for u in layout.cliques[a] if when[u] >= 0)
        scope.discard(v)
        separators.append(sorted(scope, key=lambda u: -when[u]))
        if scope:
            parent = int(when[separators[-1][-1]])
            gathered[parent] |= scope
            children[parent].append(k)
    return separators, children


class _Sources:
    """Collects the offset blocks of every bucket's sources."""

    def __init__(self, layout, separators):
        self.layout = layout
        self.separators = separators
        self.strides = [_row_major(layout.n_states[s]) for s in separators]
        self.rows = []
        self.offsets = []
        self.filled = 0

    def add_bucket(self, scope, cliques, children):
        """Add the sources of a bucket; return (outer, inner, number of sources)."""
        cards = self.layout.n_states[scope].astype(np.int64)
        split = _split(cards.tolist())
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
        """source_bucket, source_clique, outer_at, inner_at, offsets."""
        rows = np.array(self.rows, dtype=np.int64).reshape(-1, 4)
        columns = [np.ascontiguousarray(c) for c in rows.T]
        return *columns, np.concatenate([*self.offsets, np.zeros(0, np.int64)])


def _row_major(cards):
    """Strides of a table, last variable fastest."""
    return np.concatenate([np.cumprod(cards[:0:-1])[::-1], np.ones(min(len(cards), 1))]).astype(
        np.int64
    )
