"""The ``cliques`` parameter: from what users write to arrays of variables."""

import numbers

import numpy as np

WORDS = ("independent", "pairwise")


def resolve_cliques(cliques, n_features, names=None):
    """Pointers and variables of all cliques.

    Parameters
    ----------
    cliques : {"independent", "pairwise"}, networkx graph or sequence of tuples
        Tuples and nodes are column indices or names. A single-variable clique is added for every
        column that a sequence leaves out, and for all columns of a graph.
    n_features : int
    names : sequence of str, optional

    Returns
    -------
    (pointers, variables) : tuple of ndarray

    Raises
    ------
    ValueError
        A clique that names a missing column, or one twice; an unknown word.
    """
    if isinstance(cliques, str):
        if cliques not in WORDS:
            raise ValueError(
                f"cliques must be one of {list(WORDS)}, a list of tuples of columns, a networkx "
                f"graph or an MRFStructureLearner; got {cliques!r}."
            )
        return _singles(n_features) if cliques == "independent" else _all_pairs(n_features)
    lookup = {name: i for i, name in enumerate(names)} if names is not None else {}
    if hasattr(cliques, "edges") and hasattr(cliques, "nodes"):
        edges = [e for e in cliques.edges() if e[0] != e[1]]
        given = [(v,) for v in range(n_features)] + [tuple(e) for e in edges]
        for node in cliques.nodes():
            _column(node, (node,), n_features, lookup)
    else:
        given = _tuples(cliques)
    resolved = [_resolve(c, n_features, lookup) for c in given]
    covered = {v for c in resolved for v in c}
    resolved = [(v,) for v in range(n_features) if v not in covered] + resolved
    return _flatten(resolved)


def _tuples(cliques):
    try:
        return [tuple(c) if not isinstance(c, str) else (c,) for c in cliques]
    except TypeError:
        raise ValueError(
            f"cliques must be one of {list(WORDS)}, a list of tuples of columns, a networkx "
            f"graph or an MRFStructureLearner; got {cliques!r}."
        ) from None


def _resolve(clique, n_features, lookup):
    members = tuple(_column(v, clique, n_features, lookup) for v in clique)
    if len(set(members)) < len(members):
        twice = next(v for v in members if members.count(v) > 1)
        raise ValueError(f"Clique {clique} names column {twice} twice; name every column once.")
    return members


def _column(v, clique, n_features, lookup):
    if v in lookup:
        return lookup[v]
    if isinstance(v, numbers.Integral) and not isinstance(v, bool) and 0 <= v < n_features:
        return int(v)
    known = f"0 to {n_features - 1}" + (f" or {list(lookup)[:8]}" if lookup else "")
    raise ValueError(f"Clique {clique} names column {v!r}, but the columns are {known}.")


def _flatten(cliques):
    lengths = [len(c) for c in cliques]
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return ptr, np.array([v for c in cliques for v in c], dtype=np.int64)


def _singles(n):
    return np.arange(n + 1), np.arange(n)


def _all_pairs(n):
    """Every variable, then every pair."""
    i, j = np.triu_indices(n, 1)
    ptr = np.concatenate([np.arange(n), n + 2 * np.arange(len(i) + 1)])
    return ptr, np.concatenate([np.arange(n), np.column_stack([i, j]).ravel()])
