"""Candidate pairs: the pairs of variables that the graph search considers as edges."""

import numpy as np

from .screening import Budget, screen

ROWS_PER_PARAMETER = 20
SCREEN_LEVEL = 0.05
MAX_PARAMETERS = 2_000
MAX_PARTNERS = 64


def candidate_pairs(rows, model):
    """Return the candidate pairs: the pairs of variables that can become edges.

    If ``model.screen`` is None, all pairs are candidates. If it is a number, the candidates are the
    pairs that tests of independence find at this false discovery rate, and each variable has at
    most as many as there are rows for (20 rows per parameter). If it is "auto", all pairs with few
    parameters are candidates, unless these pairs have many parameters together. Of the other pairs,
    those found at a false discovery rate of 0.05 are candidates, at most the 64 strongest of each
    variable. If nearly all pairs are dependent, edges are among the strongest pairs.

    Parameters
    ----------
    rows : Rows
        Training rows.
    model : PairwiseModel
        Parameterisation of the edges, and the setting ``screen``.

    Returns
    -------
    ndarray of shape (n_pairs, 2)
        Pairs of variable indices, the lower index first.
    """
    pairs = np.column_stack(np.triu_indices(len(rows.n_states), 1))
    if model.screen is None or not len(pairs):
        return pairs
    if model.screen != "auto":
        return _dependent_pairs(rows, model, model.screen, len(rows.n_states))
    small = _small_pairs(rows, model, pairs)
    if len(small) == len(pairs):
        return pairs
    dependent = _dependent_pairs(rows, model, SCREEN_LEVEL, MAX_PARTNERS)
    return union(small, difference(dependent, small))


def _small_pairs(rows, model, pairs):
    """Return pairs with so few parameters that each variable can have n - 1 such pairs.

    Each parameter needs 20 rows. No pair is returned if these pairs have more than 2,000
    parameters together.
    """
    n_parameters = model.free_parameters(rows.n_states)[pairs].prod(axis=1)
    small = (len(rows.n_states) - 1) * n_parameters <= rows.count / ROWS_PER_PARAMETER
    return pairs[small & (n_parameters[small].sum() <= MAX_PARAMETERS)]


def _dependent_pairs(rows, model, level, max_partners):
    free = model.free_parameters(rows.n_states)
    budget = Budget(free, rows.count / ROWS_PER_PARAMETER, max_partners)
    return screen(rows.X, rows.weights, rows.n_states, level=level, budget=budget).edges


def difference(edges, others):
    """Return the rows of ``edges`` that are not in ``others``."""
    excluded = set(map(tuple, others.tolist()))
    kept = [tuple(e) not in excluded for e in edges.tolist()]
    return edges[np.array(kept, dtype=bool)]


def union(edges, others):
    """Return the edges of two arrays without common edges, in lexicographic order."""
    both = np.concatenate([edges, others])
    return both[np.lexsort(both.T[::-1])]
