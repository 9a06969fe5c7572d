"""Conversion of the parameter ``cliques`` to arrays of column indices."""

import numbers

import numpy as np

from .._utils.parameters import show_list

NAMES = ("independent", "pairwise")


def resolve_cliques(cliques, n_features, names=None):
    """Return the column indices of all cliques in one array, and the start of each clique.

    Parameters
    ----------
    cliques : {"independent", "pairwise"}, networkx graph or sequence of tuples
        Parameter of the estimator. Tuples and nodes are column indices or names. A clique of a
        single variable is added for each column that a sequence leaves out, and for all columns of
        a graph.
    n_features : int
        Number of columns.
    names : sequence of str, optional
        Names of the columns.

    Returns
    -------
    pointers : ndarray of shape (n_cliques + 1,)
        Clique ``a`` has the variables ``variables[pointers[a]:pointers[a + 1]]``.
    variables : ndarray
        Column indices of all cliques, concatenated.

    Raises
    ------
    ValueError
        If a clique has a column that does not exist, or a column twice, if a graph has a loop, or
        if the string is unknown.
    """
    if isinstance(cliques, str):
        if cliques not in NAMES:
            raise ValueError(
                f"cliques must be one of {['auto', *NAMES]}, a list of tuples of columns, a "
                f"networkx graph or an MRFStructureLearner; got {cliques!r}."
            )
        if cliques == "independent":
            return np.arange(n_features + 1), np.arange(n_features)
        return cliques_from_pairs(np.column_stack(np.triu_indices(n_features, 1)), n_features)
    lookup = {name: i for i, name in enumerate(names)} if names is not None else {}
    if hasattr(cliques, "edges") and hasattr(cliques, "nodes"):
        given = [(v,) for v in range(n_features)] + [tuple(e) for e in cliques.edges()]
        loops = [u for u, v in cliques.edges() if u == v]
        if loops:
            raise ValueError(f"The graph of cliques has a loop at {loops[0]!r}; remove it.")
        for node in cliques.nodes():
            _find_column(node, (node,), n_features, lookup)
    else:
        given = _list_tuples(cliques)
    resolved = [_find_columns(c, n_features, lookup) for c in given]
    covered = {v for c in resolved for v in c}
    return _flatten(resolved + [(v,) for v in range(n_features) if v not in covered])


def check_tie(tie, cliques):
    """Raise a ValueError if there are groups of tied cliques, but no list of cliques."""
    is_list = not (isinstance(cliques, str) or hasattr(cliques, "edges") or hasattr(cliques, "fit"))
    if tie is not None and not is_list:
        raise ValueError(
            "tie has positions in the list cliques, so it needs a list of tuples of columns as "
            f"cliques; got cliques={cliques!r}."
        )


def _list_tuples(cliques):
    try:
        return [tuple(c) if not isinstance(c, str) else (c,) for c in cliques]
    except TypeError:
        raise ValueError(
            f"cliques must be one of {['auto', *NAMES]}, a list of tuples of columns, a "
            f"networkx graph or an MRFStructureLearner; got {cliques!r}."
        ) from None


def _find_columns(clique, n_features, lookup):
    members = tuple(_find_column(v, clique, n_features, lookup) for v in clique)
    if len(set(members)) < len(members):
        twice = next(v for v in members if members.count(v) > 1)
        raise ValueError(f"Clique {clique} has column {twice} twice; give each column once.")
    return members


def _find_column(v, clique, n_features, lookup):
    if v in lookup:
        return lookup[v]
    if isinstance(v, numbers.Integral) and not isinstance(v, bool) and 0 <= v < n_features:
        return int(v)
    columns = f"0 to {n_features - 1}" + (f" or {show_list(list(lookup))}" if lookup else "")
    raise ValueError(f"Clique {clique} has column {v!r}, but the columns are {columns}.")


def _flatten(cliques):
    lengths = [len(c) for c in cliques]
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return ptr, np.array([v for c in cliques for v in c], dtype=np.int64)


def cliques_from_pairs(pairs, n_features):
    """Return all single variables and the given pairs of variables as cliques.

    Parameters
    ----------
    pairs : ndarray of int of shape (n_pairs, 2)
        Column indices.
    n_features : int
        Number of columns.

    Returns
    -------
    pointers, variables : ndarray
        Column indices of all cliques, as :func:`resolve_cliques` returns them.
    """
    pointers = n_features + 2 * np.arange(len(pairs) + 1)
    singles = np.arange(n_features)
    return np.concatenate([singles, pointers]), np.concatenate([singles, pairs.ravel()])
