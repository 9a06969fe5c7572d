"""Graphs of variables: which of them are joined."""

from itertools import combinations

import numpy as np

N_NEIGHBORS = 5


def edges_of(graph, correlation, names):
    """Edges between columns, shape (n_edges, 2), the lower column first.

    Parameters
    ----------
    graph : {"complete", "tree", "grid", "knn", "empty"}, networkx.Graph or list of pairs
        "tree" is the spanning tree of greatest mutual information of Gaussians (Chow and Liu);
        "knn" joins every column to those of greatest correlation; "grid" takes columns for the
        pixels of a square. Pairs and nodes are names or indices of columns.
    correlation : ndarray of shape (n_columns, n_columns)
    names : list
    """
    n = len(names)
    if isinstance(graph, str):
        makers = {
            "complete": lambda: combinations(range(n), 2),
            "empty": lambda: (),
            "tree": lambda: _tree(correlation),
            "knn": lambda: _nearest(correlation),
            "grid": lambda: _grid(n),
        }
        if graph not in makers:
            raise ValueError(
                f"graph must be one of {sorted(makers)}, a networkx graph or a list of pairs of "
                f"columns; got {graph!r}."
            )
        pairs = makers[graph]()
    else:
        pairs = [_columns(pair, names) for pair in _listed(graph)]
        for node in graph.nodes if hasattr(graph, "edges") else ():
            _column(node, names)
    return np.array(sorted({tuple(sorted(p)) for p in pairs}), dtype=np.int64).reshape(-1, 2)


def _listed(graph):
    """Pairs of a graph or of a list."""
    pairs = graph.edges() if hasattr(graph, "edges") else graph
    wrong = isinstance(pairs, str) or not hasattr(pairs, "__iter__")
    pairs = [] if wrong else list(pairs)
    odd = [p for p in pairs if isinstance(p, str) or not hasattr(p, "__len__") or len(p) != 2]
    if wrong or odd:
        raise ValueError(
            "graph must be the name of one, a networkx graph or a list of pairs of columns; got "
            f"{odd[0] if odd else graph!r}."
        )
    return [tuple(pair) for pair in pairs]


def _columns(pair, names):
    found = [_column(column, names) for column in pair]
    if len(set(found)) != 2:
        raise ValueError(f"Edges join two different columns; got {pair!r}.")
    return found


def _column(column, names):
    if not isinstance(column, bool | np.bool_):
        if column in names:
            return names.index(column)
        if isinstance(column, int | np.integer) and 0 <= column < len(names):
            return int(column)
    raise ValueError(
        f"graph names column {column!r}; the columns are {names[:8]}"
        f"{' ...' if len(names) > 8 else ''}."
    )


def _grid(n):
    import networkx as nx  # takes as long as the rest of the package

    side = round(n**0.5)
    if side * side != n:
        raise ValueError(
            f'graph="grid" takes the columns for the pixels of a square, but there are {n}; give '
            "networkx.grid_2d_graph with its nodes relabelled to columns, or a list of pairs."
        )
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side), ordering="sorted")
    return graph.edges


def _tree(correlation):
    import networkx as nx  # takes as long as the rest of the package

    graph = nx.Graph()
    graph.add_nodes_from(range(len(correlation)))
    for i, j in combinations(range(len(correlation)), 2):
        graph.add_edge(i, j, weight=abs(correlation[i, j]))
    return nx.maximum_spanning_edges(graph, data=False)


def _nearest(correlation):
    strength = np.abs(correlation) - 2.0 * np.eye(len(correlation))
    k = min(N_NEIGHBORS, len(correlation) - 1)
    return [(i, int(j)) for i, row in enumerate(strength) for j in np.argsort(-row)[:k]]
