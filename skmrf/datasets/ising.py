"""Ising models on named and given graphs."""

from itertools import count
from math import isqrt

import networkx as nx
import numpy as np

from .._utils.parameters import check_number
from ..energies import PairwiseEnergy
from ._random import generator, integer_seed

MAX_VARIABLES = 16384  # a dense coupling matrix of 2 GiB


def make_ising(
    kind,
    *,
    n_variables,
    coupling,
    field=0.0,
    mixed_signs=False,
    degree=4.0,
    random_state=None,
):
    r"""Ising model on a graph.

    .. math:: \log f(s) = \sum_{(i, j) \in E} J_{ij} s_i s_j + \sum_i b_i s_i,
              \qquad s_i \in \{-1, 1\}

    Parameters
    ----------
    kind : str, networkx graph, or sequence of pairs of int
        The graph :math:`E`:

        - ``"chain"``, ``"star"`` (variable 0 is the centre), ``"complete"``;
        - ``"cycle"``: at least 3 variables;
        - ``"grid"``: ``n_variables = rows * columns``, the most square such factorisation with at
          least 2 rows; variable ``r * columns + c`` lies in row r and column c;
        - ``"torus"``: the same with opposite sides joined, at least 3 rows;
        - ``"tree"``: uniform over the labelled trees;
        - ``"erdos-renyi"``: every pair is an edge with probability
          ``degree / (n_variables - 1)`` [1]_;
        - ``"regular"``: every variable has ``degree`` neighbours, ``n_variables * degree`` even;
        - ``"power-law"``: preferential attachment, ``degree / 2`` edges from every new
          variable, hence about ``degree`` neighbours in the mean [2]_;
        - an undirected networkx graph, whose nodes are the variables ``0 .. n_variables - 1`` or
          else any labels, numbered in the order of its nodes;
        - a list of edges, pairs of variables.
    n_variables : int
        From 1 to 16384; for a networkx graph its number of nodes.
    coupling : float or array-like of shape (n_edges,) or (n_variables, n_variables)
        :math:`J` in nats: one for all, one an edge, or a matrix, of which the entries on the
        edges are used. Edges are in the order of the graph or list given, and otherwise sorted
        pairs ``i < j`` in lexicographic order.
    field : float or array-like of shape (n_variables,), default=0.0
        :math:`b` in nats.
    mixed_signs : bool, default=False
        Multiply every coupling by +1 or -1, each with probability 1/2 (a spin glass). The graph
        stays that of the same ``random_state`` without mixed signs.
    degree : float, default=4.0
        Mean number of neighbours of ``"erdos-renyi"``, ``"regular"`` (an integer) and
        ``"power-law"`` (an even integer); other kinds ignore it.
    random_state : int, RandomState instance or None, default=None
        Draws the graph and the signs.

    Returns
    -------
    PairwiseEnergy
        With ``states=(-1, 1)``.

    Raises
    ------
    ValueError
        An unknown kind, a number of variables that the kind does not allow, couplings or fields
        of the wrong shape or not finite, a matrix that is not symmetric on the edges.

    References
    ----------
    .. [1] P. Erdős and A. Rényi, "On random graphs I", Publicationes Mathematicae 6, 1959.
    .. [2] A.-L. Barabási and R. Albert, "Emergence of scaling in random networks", Science 286,
       1999.

    Examples
    --------
    >>> from skmrf.datasets import make_ising
    >>> energy = make_ising("cycle", n_variables=4, coupling=0.5, field=0.1)
    >>> energy.coupling
    array([[0. , 0.5, 0. , 0.5],
           [0.5, 0. , 0.5, 0. ],
           [0. , 0.5, 0. , 0.5],
           [0.5, 0. , 0.5, 0. ]])
    >>> make_ising([(0, 1), (1, 2)], n_variables=3, coupling=[1.0, -1.0]).coupling
    array([[ 0.,  1.,  0.],
           [ 1.,  0., -1.],
           [ 0., -1.,  0.]])
    """
    n = int(check_number("n_variables", n_variables, low=1, high=MAX_VARIABLES, integer=True))
    rng = generator(random_state)
    edges = _edges(kind, n, degree, rng)
    strength = _strengths(coupling, edges, n)
    if mixed_signs:
        strength = strength * rng.choice([-1.0, 1.0], size=len(edges))
    matrix = np.zeros((n, n))
    matrix[edges[:, 0], edges[:, 1]] = strength
    matrix[edges[:, 1], edges[:, 0]] = strength
    return PairwiseEnergy(matrix, _fields(field, n), states=(-1, 1))


# Graphs ------------------------------------------------------------------------------------


def _edges(kind, n, degree, rng):
    """Edges as an array of shape (n_edges, 2)."""
    if isinstance(kind, str):
        graph = _named_graph(kind, n, degree, rng)
        pairs = sorted(tuple(sorted(edge)) for edge in graph.edges())
    elif isinstance(kind, nx.Graph):
        pairs = _graph_pairs(kind, n)
    else:
        pairs = kind
    edges = _pair_array(pairs)
    _check_pairs(edges, n)
    return edges


def _named_graph(kind, n, degree, rng):
    if kind in FIXED:
        return FIXED[kind](n)
    if kind in RANDOM:
        return RANDOM[kind](n, degree, integer_seed(rng))
    raise ValueError(
        f"kind must be one of {[*FIXED, *RANDOM]}, a networkx graph or a list of edges; "
        f"got {kind!r}."
    )


def _graph_pairs(graph, n):
    if graph.is_directed():
        raise ValueError("kind must be an undirected graph; use graph.to_undirected().")
    if len(graph) != n:
        raise ValueError(
            f"kind is a graph of {len(graph)} nodes, but n_variables is {n}; give n_variables="
            f"{len(graph)} or a graph of {n} nodes."
        )
    if set(graph) == set(range(n)):
        return list(graph.edges())
    number = {node: i for i, node in enumerate(graph)}
    return [(number[u], number[v]) for u, v in graph.edges()]


def _pair_array(pairs):
    try:
        pairs = list(pairs)
        edges = np.asarray(pairs) if pairs else np.zeros((0, 2), dtype=int)
    except (TypeError, ValueError):  # nothing to iterate over, or pairs of unequal lengths
        edges = np.zeros(0)
    if edges.ndim != 2 or edges.shape[1] != 2 or not np.issubdtype(edges.dtype, np.integer):
        raise ValueError(
            "kind must be the name of a graph, a networkx graph or a list of edges, each a pair "
            f"of integers; got {pairs!r:.60}."
        )
    return edges


def _check_pairs(edges, n):
    outside = np.flatnonzero(((edges < 0) | (edges >= n)).any(axis=1))
    if outside.size:
        raise ValueError(
            f"kind holds the edge {_pair(edges, outside[0])}, but the variables are 0 to {n - 1}."
        )
    loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if loops.size:
        raise ValueError(
            f"kind holds the edge {_pair(edges, loops[0])}, which joins a variable to itself; "
            "edges join two variables."
        )
    _, first, times = np.unique(
        np.sort(edges, axis=1), axis=0, return_index=True, return_counts=True
    )
    if (times > 1).any():
        raise ValueError(
            f"kind holds the edge {_pair(edges, first[times > 1].min())} more than once; give "
            "every pair of variables once."
        )


def _pair(edges, row):
    return tuple(edges[row].tolist())


def _cycle(n):
    if n < 3:
        raise ValueError(f"kind='cycle' needs n_variables >= 3; got {n}.")
    return nx.cycle_graph(n)


def _star(n):
    return nx.star_graph(n - 1)


def _grid(n):
    return _lattice("grid", n, 2)


def _torus(n):
    return _lattice("torus", n, 3)


def _lattice(kind, n, least):
    """Grid graph of at least ``least`` rows, its nodes numbered row by row."""
    if _rows(n) < least:
        below = next((m for m in range(n - 1, 0, -1) if _rows(m) >= least), None)
        above = next(m for m in count(n + 1) if _rows(m) >= least)
        near = [f"{m} ({_rows(m)} x {m // _rows(m)})" for m in (below, above) if m]
        raise ValueError(
            f"kind={kind!r} needs n_variables = rows * columns with at least {least} of each; "
            f"got {n}. The nearest are {' and '.join(near)}."
        )
    shape = _rows(n), n // _rows(n)
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(*shape, periodic=kind == "torus"))


def _rows(n):
    """Rows of the most square factorisation of n, at most as many as columns."""
    return next(a for a in range(isqrt(n), 0, -1) if n % a == 0)


def _tree(n, _degree, seed):
    return nx.random_labeled_tree(n, seed=seed)


def _erdos_renyi(n, degree, seed):
    degree = _check_degree("erdos-renyi", degree, 0, n - 1, n)
    return nx.fast_gnp_random_graph(n, degree / max(n - 1, 1), seed=seed)


def _regular(n, degree, seed):
    degree = _check_degree("regular", degree, 0, n - 1, n)
    if degree != int(degree) or n * int(degree) % 2:
        raise ValueError(
            "kind='regular' needs an integer degree with n_variables * degree even; got "
            f"degree={degree} and n_variables={n}."
        )
    return nx.random_regular_graph(int(degree), n, seed=seed)


def _power_law(n, degree, seed):
    degree = _check_degree("power-law", degree, 2, 2 * (n - 1), n)
    if degree % 2:
        raise ValueError(f"kind='power-law' needs an even integer degree; got degree={degree}.")
    return nx.barabasi_albert_graph(n, int(degree) // 2, seed=seed)


def _check_degree(kind, degree, low, high, n):
    check_number("degree", degree)
    if not low <= degree <= high:
        raise ValueError(
            f"kind={kind!r} with n_variables={n} needs a degree from {low} to {high}; got "
            f"degree={degree}."
        )
    return float(degree)


FIXED = {
    "chain": nx.path_graph,
    "cycle": _cycle,
    "grid": _grid,
    "torus": _torus,
    "star": _star,
    "complete": nx.complete_graph,
}
RANDOM = {
    "tree": _tree,
    "erdos-renyi": _erdos_renyi,
    "regular": _regular,
    "power-law": _power_law,
}


# Numbers -----------------------------------------------------------------------------------


def _numbers(name, values, accepted):
    """A finite float array."""
    try:
        values = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be {accepted}; got {type(values).__name__}.") from None
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite; it holds {values[~np.isfinite(values)][0]}.")
    return values


def _strengths(coupling, edges, n):
    """One coupling an edge, shape (n_edges,)."""
    accepted = f"a number, {len(edges)} numbers (one an edge) or a matrix of shape {(n, n)}"
    values = _numbers("coupling", coupling, accepted)
    if values.shape == (n, n):
        i, j = edges.T
        wrong = np.flatnonzero(values[i, j] != values[j, i])
        if wrong.size:
            i, j = _pair(edges, wrong[0])
            raise ValueError(
                f"coupling must be symmetric on the edges; coupling[{i}, {j}] is {values[i, j]} "
                f"and coupling[{j}, {i}] is {values[j, i]}."
            )
        return values[i, j]
    if values.shape not in ((), (len(edges),)):
        raise ValueError(f"coupling must be {accepted}; got an array of shape {values.shape}.")
    return np.broadcast_to(values, len(edges))


def _fields(field, n):
    """One field a variable, shape (n_variables,)."""
    accepted = f"a number or {n} numbers (one a variable)"
    values = _numbers("field", field, accepted)
    if values.shape not in ((), (n,)):
        raise ValueError(f"field must be {accepted}; got an array of shape {values.shape}.")
    return np.broadcast_to(values, n)
