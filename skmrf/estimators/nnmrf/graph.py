"""Conversion of the parameter ``graph`` to pairs of column indices."""

from itertools import combinations

import numpy as np

from ..._utils.parameters import show_list

N_NEIGHBORS = 5


def resolve_edges(graph, correlation, names):
    """Return the edges of the graph that is given by its name, as an object or as a list.

    Parameters
    ----------
    graph : {"complete", "tree", "grid", "knn", "empty"}, networkx.Graph or list of pairs
        "tree" is the spanning tree with the largest mutual information of Gaussians (Chow and Liu).
        "knn" joins each column with the columns of largest absolute correlation. "grid" uses the
        columns as the pixels of a square. Pairs and nodes are names or indices of columns.
    correlation : ndarray of shape (n_columns, n_columns)
        Correlations of the columns. Only "tree" and "knn" use them.
    names : list
        Names of the columns.

    Returns
    -------
    ndarray of shape (n_edges, 2)
        Sorted pairs of column indices, the lower index first.
    """
    n = len(names)
    if isinstance(graph, str):
        makers = {
            "complete": lambda: combinations(range(n), 2),
            "empty": lambda: (),
            "tree": lambda: _tree_edges(correlation),
            "knn": lambda: _knn_edges(correlation),
            "grid": lambda: _grid_edges(n),
        }
        if graph not in makers:
            raise ValueError(
                f"graph must be one of {sorted(makers)}, a networkx graph or a list of pairs of "
                f"columns; got {graph!r}."
            )
        pairs = makers[graph]()
    else:
        pairs = [_find_pair(pair, names) for pair in _list_pairs(graph)]
        for node in graph.nodes if hasattr(graph, "edges") else ():
            _find_column(node, names)
    return np.array(sorted({tuple(sorted(p)) for p in pairs}), dtype=np.int64).reshape(-1, 2)


def _list_pairs(graph):
    """Return the edges of a networkx graph or a list; raise a ValueError if one is not a pair."""
    pairs = graph.edges() if hasattr(graph, "edges") else graph
    is_wrong_type = isinstance(pairs, str) or not hasattr(pairs, "__iter__")
    pairs = [] if is_wrong_type else list(pairs)
    wrong = [p for p in pairs if isinstance(p, str) or not hasattr(p, "__len__") or len(p) != 2]
    if is_wrong_type or wrong:
        raise ValueError(
            "graph must be a name, a networkx graph or a list of pairs of columns; got "
            f"{wrong[0] if wrong else graph!r}."
        )
    return [tuple(pair) for pair in pairs]


def _find_pair(pair, names):
    indices = [_find_column(column, names) for column in pair]
    if len(set(indices)) != 2:
        raise ValueError(f"Each edge of graph must join two different columns; got {pair!r}.")
    return indices


def _find_column(column, names):
    if not isinstance(column, bool | np.bool_):
        if column in names:
            return names.index(column)
        if isinstance(column, int | np.integer) and 0 <= column < len(names):
            return int(column)
    raise ValueError(
        f"graph has {column!r}, which is not a column; the columns are {show_list(names)}."
    )


def _grid_edges(n):
    import networkx as nx  # imported here because it is slow

    side = round(n**0.5)
    if side * side != n:
        raise ValueError(
            f'graph="grid" needs a square number of columns, but there are {n}. Instead, give '
            "networkx.grid_2d_graph with its nodes relabelled to columns, or a list of pairs."
        )
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side), ordering="sorted")
    return graph.edges


def _tree_edges(correlation):
    import networkx as nx  # imported here because it is slow

    graph = nx.Graph()
    graph.add_nodes_from(range(len(correlation)))
    for i, j in combinations(range(len(correlation)), 2):
        graph.add_edge(i, j, weight=abs(correlation[i, j]))
    return nx.maximum_spanning_edges(graph, data=False)


def _knn_edges(correlation):
    strength = np.abs(correlation) - 2.0 * np.eye(len(correlation))
    k = min(N_NEIGHBORS, len(correlation) - 1)
    return [(i, int(j)) for i, row in enumerate(strength) for j in np.argsort(-row)[:k]]
