"""Pairs of variables that learning begins with."""

import numpy as np

from .screening import Budget, screen

ROWS_A_PARAMETER = 20
SCREEN_LEVEL = 0.05
MOST_CANDIDATES = 2_000
MOST_PARTNERS = 64


def candidate_pairs(rows, model):
    """Return the pairs that learning begins with.

    With ``screen=None`` these are all pairs. With a level they are the pairs that tests of
    independence find at that level of false discoveries, and of each variable at most as many as it
    has rows for. With "auto" all pairs of few parameters are candidates, unless these pairs are
    many; of the other pairs those found at a level of 0.05, and the 64 strongest of each variable
    at most: where nearly all pairs are dependent, edges are among the strongest.

    Parameters
    ----------
    rows : Rows
    model : PairwiseModel

    Returns
    -------
    ndarray of shape (n_pairs, 2)
    """
    pairs = np.column_stack(np.triu_indices(len(rows.n_states), 1))
    if model.screen is None or not len(pairs):
        return pairs
    if model.screen != "auto":
        return _dependent_pairs(rows, model, model.screen, len(rows.n_states))
    small = _small_pairs(rows, model, pairs)
    if len(small) == len(pairs):
        return pairs
    found = _dependent_pairs(rows, model, SCREEN_LEVEL, MOST_PARTNERS)
    return union(small, difference(found, small))


def _small_pairs(rows, model, pairs):
    """Return the pairs of so few parameters that a variable has rows for n - 1 such pairs."""
    n_parameters = model.free_parameters(rows.n_states)[pairs].prod(axis=1)
    small = (len(rows.n_states) - 1) * n_parameters <= rows.count / ROWS_A_PARAMETER
    return pairs[small & (n_parameters[small].sum() <= MOST_CANDIDATES)]


def _dependent_pairs(rows, model, level, max_partners):
    free = model.free_parameters(rows.n_states)
    budget = Budget(free, rows.count / ROWS_A_PARAMETER, max_partners)
    return screen(rows.X, rows.weights, rows.n_states, level=level, budget=budget).edges


def difference(edges, others):
    """Return the edges that are not among others."""
    known = set(map(tuple, others.tolist()))
    kept = [tuple(e) not in known for e in edges.tolist()]
    return edges[np.array(kept, dtype=bool)]


def union(edges, others):
    """Return the edges of two disjoint arrays in lexicographic order."""
    both = np.concatenate([edges, others])
    return both[np.lexsort(both.T[::-1])]
