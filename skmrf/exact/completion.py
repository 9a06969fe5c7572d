"""Exact imputation of single rows with missing entries.

For models with pairwise tables, each row is searched on its own. This is faster than variable
elimination if most rows have different missing entries, or if all missing variables interact. For
models with two layers, the states of the smaller layer are enumerated.
"""

import numpy as np

from .._kernels._jit import read_only
from .._kernels.completion import impute_rows
from .._utils.codes import MISSING
from ..energies import BipartiteEnergy
from .elimination import DEFAULT_MAX_BYTES
from .enumeration import QUICK_TERMS, LayerSum

FEW_MISSING = 24  # of a row whose mode is always searched
MAX_MISSING = 40  # of a row; the search of a mode with more takes longer than annealing
MAX_PAIR_ENTRIES = 2**23  # of the tables of all pairs of missing variables, 64 MB
LIMITS = (
    4e7,  # table entries of the search of a mode, about 0.1 s
    16 * np.log(2.0),  # log of the number of states that are summed, in less than a millisecond
    29 * np.log(2.0),  # the same if elimination is not faster, about 0.4 s
)
CHUNK = 2**22  # numbers in the marginals of rows that are computed together
CALL_BUDGET = 2e7  # table entries of a kernel call, so that Ctrl-C takes effect soon
TOLERANCE = 27.0  # nats; the ignored states have a probability below exp(-27) in total


class Completion:
    """Exact modes, sums and draws of the missing entries of single rows.

    Parameters
    ----------
    graph : FactorGraph
        Model over all variables.
    """

    def __init__(self, graph):
        self._graph = graph
        has_pairs_only = bool((np.diff(graph.layout.clique_ptr) <= 2).all())
        # impossible evidence needs the tables of observed variables
        self._is_usable = has_pairs_only and bool(np.isfinite(graph.flat).all())

    def modes(self, X, *, many=False):
        """Impute rows by their joint modes.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)
            State codes; MISSING where an entry is missing.
        many : bool, default=False
            Whether rows with 25 to 40 missing entries are searched, and not those with at most 24.
            An unsuccessful search takes about 0.1 s per row.

        Returns
        -------
        is_done : ndarray of bool of shape (n_rows,)
            Rows that are complete or were imputed. Other rows need another method.
        out : ndarray of shape (n_rows, n_variables)
            State codes.
        """
        limits = (FEW_MISSING + 1, MAX_MISSING) if many else (1, FEW_MISSING)
        return self._run(X, self._find_searchable(X, *limits))[:2]

    def samples(self, X, rng):
        """Impute rows by random draws; return a mask and state codes, as :meth:`modes` does."""
        rows = self._find_searchable(X)
        m_max = int((X[rows] == MISSING).sum(axis=1).max(initial=1))
        uniforms = rng.random((np.count_nonzero(rows), m_max, 2))
        return self._run(X, rows, uniforms=uniforms, tolerance=TOLERANCE)[:2]

    def log_partitions(self, X):
        """Return the mask of computed rows, and each row's log Z over its missing entries."""
        is_done, out, totals = self._run(X, self._find_searchable(X), tolerance=TOLERANCE)
        sums = np.zeros(len(X))
        sums[is_done] = self._graph.log_potential(out[is_done]) + totals[is_done]
        return is_done, sums

    def marginals(self, X):
        """Return the mask of computed rows, and marginals of shape (n_rows, sum of n_states)."""
        n_states = self._graph.layout.n_states
        n_slots = int(n_states.max(initial=1))
        keep = np.arange(n_slots) < n_states[:, None]
        out, is_done = np.zeros((len(X), int(n_states.sum()))), self._find_searchable(X)
        n_rows = max(1, CHUNK // keep.size)
        for start in range(0, len(X), n_rows):
            rows = np.flatnonzero(is_done[start : start + n_rows]) + start
            singles = np.zeros((len(rows), *keep.shape))
            chosen = np.ones(len(rows), dtype=bool)
            is_done[rows] = self._run(X[rows], chosen, tolerance=TOLERANCE, singles=singles)[0]
            place = np.nonzero(X[rows] != MISSING)
            singles[(*place, X[rows][place])] = 1.0
            out[rows] = singles[:, keep]
        return is_done, out

    def _find_searchable(self, X, least=1, most=MAX_MISSING):
        """Return a mask of the rows with few missing entries."""
        n_missing = (X == MISSING).sum(axis=1)
        n_slots = int(self._graph.layout.n_states.max(initial=1))
        most = min(most, max(FEW_MISSING, int(MAX_PAIR_ENTRIES**0.5) // n_slots))
        return (least <= n_missing) & (n_missing <= most) & self._is_usable

    def _run(self, X, is_chosen, uniforms=None, tolerance=-1.0, singles=None):
        """Run the kernel on some rows, in short calls.

        Returns the same as :meth:`modes`, and the logs of the sums relative to the modes.
        """
        is_done, out, logs = (X != MISSING).all(axis=1), X.copy(), np.zeros(len(X))
        rows = np.flatnonzero(is_chosen)
        if not len(rows):
            return is_done, out, logs
        layout, chosen, totals = self._graph.layout, X[rows], np.empty(len(rows))
        flat, arrays = read_only(self._graph.flat), layout.index_arrays
        m_max = int((chosen == MISSING).sum(axis=1).max())
        uniforms = np.zeros((0, 0, 0)) if uniforms is None else uniforms
        singles = np.zeros((0, 0, 0)) if singles is None else singles
        row = 0
        while row < len(chosen):
            row = impute_rows(
                chosen, row, arrays, flat, m_max, LIMITS, CALL_BUDGET, uniforms, tolerance, totals,
                singles,
            )  # fmt: skip
        out[rows], is_done[rows], logs[rows] = chosen, np.isfinite(totals), totals
        return is_done, out, logs


def are_layer_sums_quick(energy, X, max_bytes=DEFAULT_MAX_BYTES):
    """Return whether exact draws of the missing entries of all rows take a few seconds at most.

    Parameters
    ----------
    energy : Energy
        Model. Only a :class:`~skmrf.energies.BipartiteEnergy` has sums over a layer.
    X : ndarray of shape (n_rows, n_visible)
        State codes, MISSING where an entry is missing.
    max_bytes : float, default=4 GiB
        Maximum memory of a sum, in bytes.

    Returns
    -------
    bool
        True if :func:`draw_visible` is quick.
    """
    if not isinstance(energy, BipartiteEnergy):
        return False
    n_hidden, n_missing = energy.weights.shape[1], (X == MISSING).sum(axis=1)
    sizes, counts = np.unique(n_missing, return_counts=True)
    sums = [LayerSum(int(n), n_hidden) for n in sizes]
    n_terms = sum(n * 2.0**s.log2_terms for n, s in zip(counts, sums, strict=True))
    return n_terms <= QUICK_TERMS and all(s.fits(max_bytes) for s in sums)


def draw_visible(energy, X, pattern, rng):
    """Draw the missing entries of visible states exactly, with the hidden units summed out.

    Parameters
    ----------
    energy : BipartiteEnergy
        Model.
    X : ndarray of shape (n_patterns, n_visible)
        State codes, MISSING for the entries to draw.
    pattern : ndarray of int of shape (n_rows,)
        Index of the row of ``X`` that is given for each drawn row.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_rows, n_visible)
        State codes without missing entries.
    """
    energy, out = energy.astype(float), X[pattern]
    groups = np.split(np.argsort(pattern, kind="stable"), np.cumsum(np.bincount(pattern))[:-1])
    for row, rows in zip(X, groups, strict=True):
        free = row == MISSING
        weights = energy.weights[free]
        hidden_bias = energy.hidden_bias + row[~free] @ energy.weights[~free]
        given = BipartiteEnergy(weights, energy.visible_bias[free], hidden_bias)
        out[np.ix_(rows, free)] = LayerSum(*weights.shape).sample(given, len(rows), rng)[0]
    return out
