"""Ising models on standard, random and user-defined graphs."""

from itertools import count
from math import isqrt

import networkx as nx
import numpy as np

from .._utils.parameters import check_number
from ..energies import PairwiseEnergy
from .random_models import N_SEEDS, generator

MAX_VARIABLES = 16384  # the dense coupling matrix then takes 2 GiB


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
    r"""Generate an Ising model on a graph.

    .. math:: \log f(s) = \sum_{(i, j) \in E} J_{ij} s_i s_j + \sum_i b_i s_i,
              \qquad s_i \in \{-1, 1\}

    The probability of the state :math:`s` is proportional to :math:`f(s)`.

    Parameters
    ----------
    kind : str, networkx graph, or sequence of pairs of int
        The graph :math:`E`:

        - ``"chain"``: variables ``i`` and ``i + 1`` are neighbours;
        - ``"star"``: variable 0 is a neighbour of all others;
        - ``"complete"``: all variables are neighbours;
        - ``"cycle"``: a chain with joined ends, at least 3 variables;
        - ``"grid"``: a rectangle with ``n_variables = rows * columns``, as square as possible,
          with at least 2 rows; variable ``r * columns + c`` is in row r and column c;
        - ``"torus"``: a grid with joined opposite sides, at least 3 rows;
        - ``"tree"``: a random tree, uniform over all labelled trees;
        - ``"erdos-renyi"``: each pair is an edge with probability
          ``degree / (n_variables - 1)`` [1]_;
        - ``"regular"``: a random graph in which each variable has ``degree`` neighbours;
          ``n_variables * degree`` must be even;
        - ``"power-law"``: preferential attachment with ``degree / 2`` edges for each new
          variable, so the mean number of neighbours is about ``degree`` [2]_;
        - an undirected networkx graph: its nodes are the integers ``0 .. n_variables - 1``, or
          any labels, which are numbered in the order of ``graph.nodes``;
        - a list of edges, each a pair of variables.
    n_variables : int
        Number of variables, from 1 to 16384. For a networkx graph, the number of its nodes.
    coupling : float or array-like of shape (n_edges,) or (n_variables, n_variables)
        Couplings :math:`J` in nats: one number for all edges, one number per edge, or a matrix.
        Of a matrix, only the entries of the edges are used. The order of the edges is that of
        the given graph or list. For a ``kind`` given by name, it is the lexicographic order of
        the pairs ``(i, j)`` with ``i < j``.
    field : float or array-like of shape (n_variables,), default=0.0
        Fields :math:`b` in nats: one number for all variables, or one number per variable.
    mixed_signs : bool, default=False
        If True, multiply each coupling by +1 or -1, each with probability 1/2 (a spin glass).
        With the same ``random_state``, the graph is the same with and without mixed signs.
    degree : float, default=4.0
        Mean number of neighbours of ``"erdos-renyi"``, ``"regular"`` (an integer) and
        ``"power-law"`` (an even integer). Other kinds ignore it.
    random_state : int, RandomState instance or None, default=None
        Seed of the random graph and of the random signs. An int gives the same model at every
        call.

    Returns
    -------
    PairwiseEnergy
        Ising model with ``states=(-1, 1)``.

    Raises
    ------
    ValueError
        If ``kind`` is unknown or does not allow ``n_variables``, if ``coupling`` or ``field`` has
        a wrong shape or is not finite, or if a coupling matrix is not symmetric on the edges.

    References
    ----------
    .. [1] Erdős, P., and Rényi, A., "On random graphs I", Publicationes Mathematicae 6, 1959.
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
    edges = _make_edges(kind, n, degree, rng)
    strength = _check_couplings(coupling, edges, n)
    if mixed_signs:
        strength = strength * rng.choice([-1.0, 1.0], size=len(edges))
    matrix = np.zeros((n, n))
    matrix[edges[:, 0], edges[:, 1]] = strength
    matrix[edges[:, 1], edges[:, 0]] = strength
    return PairwiseEnergy(matrix, _check_fields(field, n), states=(-1, 1))


# Graphs ------------------------------------------------------------------------------------


def _make_edges(kind, n, degree, rng):
    """Return the edges of a graph, given by name or as an object, in an array (n_edges, 2)."""
    if isinstance(kind, str):
        graph = _make_graph(kind, n, degree, rng)
        pairs = sorted(tuple(sorted(edge)) for edge in graph.edges())
    elif isinstance(kind, nx.Graph):
        pairs = _number_edges(kind, n)
    else:
        pairs = kind
    edges = _to_edge_array(pairs)
    _check_edges(edges, n)
    return edges


def _make_graph(kind, n, degree, rng):
    if kind in DETERMINISTIC_GRAPHS:
        return DETERMINISTIC_GRAPHS[kind](n)
    if kind in RANDOM_GRAPHS:
        return RANDOM_GRAPHS[kind](n, degree, _integer_seed(rng))
    raise ValueError(
        f"kind must be one of {[*DETERMINISTIC_GRAPHS, *RANDOM_GRAPHS]}, a networkx graph or a "
        f"list of edges; got {kind!r}."
    )


def _number_edges(graph, n):
    """Return the edges of a networkx graph as pairs of variable numbers."""
    if graph.is_directed():
        raise ValueError(
            "kind must be an undirected graph, but it is directed; use graph.to_undirected()."
        )
    if len(graph) != n:
        raise ValueError(
            f"kind is a graph with {len(graph)} nodes, but n_variables is {n}; give n_variables="
            f"{len(graph)} or a graph with {n} nodes."
        )
    if set(graph) == set(range(n)):
        return list(graph.edges())
    number = {node: i for i, node in enumerate(graph)}
    return [(number[u], number[v]) for u, v in graph.edges()]


def _to_edge_array(pairs):
    try:
        pairs = list(pairs)
        edges = np.asarray(pairs) if pairs else np.zeros((0, 2), dtype=int)
    except (TypeError, ValueError):  # not iterable, or tuples of unequal lengths
        edges = np.zeros(0)
    if edges.ndim != 2 or edges.shape[1] != 2 or not np.issubdtype(edges.dtype, np.integer):
        raise ValueError(
            "kind must be the name of a graph, a networkx graph or a list of edges, each a pair "
            f"of integers; got {pairs!r:.60}."
        )
    return edges


def _check_edges(edges, n):
    outside = np.flatnonzero(((edges < 0) | (edges >= n)).any(axis=1))
    if outside.size:
        raise ValueError(
            f"kind contains the edge {_edge_at(edges, outside[0])}, but the variables are 0 to "
            f"{n - 1}."
        )
    loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if loops.size:
        raise ValueError(
            f"kind contains the edge {_edge_at(edges, loops[0])}, which joins a variable to "
            "itself; edges must join two different variables."
        )
    _, first, counts = np.unique(
        np.sort(edges, axis=1), axis=0, return_index=True, return_counts=True
    )
    if (counts > 1).any():
        raise ValueError(
            f"kind contains the edge {_edge_at(edges, first[counts > 1].min())} more than once; "
            "give each pair of variables once."
        )


def _edge_at(edges, row):
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


def _lattice(kind, n, min_rows):
    """Return a grid or torus graph with at least ``min_rows`` rows, numbered row by row."""
    if _count_rows(n) < min_rows:
        below = next((m for m in range(n - 1, 0, -1) if _count_rows(m) >= min_rows), None)
        above = next(m for m in count(n + 1) if _count_rows(m) >= min_rows)
        near = [f"{m} ({_count_rows(m)} x {m // _count_rows(m)})" for m in (below, above) if m]
        raise ValueError(
            f"kind={kind!r} needs n_variables = rows * columns with at least {min_rows} of each; "
            f"got {n}. The nearest valid numbers are {' and '.join(near)}."
        )
    shape = _count_rows(n), n // _count_rows(n)
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(*shape, periodic=kind == "torus"))


def _count_rows(n):
    """Return the number of rows of a lattice with n nodes: the largest divisor up to sqrt(n)."""
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


DETERMINISTIC_GRAPHS = {
    "chain": nx.path_graph,
    "cycle": _cycle,
    "grid": _grid,
    "torus": _torus,
    "star": _star,
    "complete": nx.complete_graph,
}
RANDOM_GRAPHS = {
    "tree": _tree,
    "erdos-renyi": _erdos_renyi,
    "regular": _regular,
    "power-law": _power_law,
}


# Couplings and fields ----------------------------------------------------------------------


def _check_finite(name, values, accepted):
    """Return the values as a float array, or raise a ValueError if a value is not finite."""
    try:
        values = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be {accepted}; got {type(values).__name__}.") from None
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite; found {values[~np.isfinite(values)][0]}.")
    return values


def _check_couplings(coupling, edges, n):
    """Return the coupling of each edge, shape (n_edges,)."""
    accepted = f"a number, {len(edges)} numbers (one per edge) or a matrix of shape {(n, n)}"
    values = _check_finite("coupling", coupling, accepted)
    if values.shape == (n, n):
        i, j = edges.T
        wrong = np.flatnonzero(values[i, j] != values[j, i])
        if wrong.size:
            i, j = _edge_at(edges, wrong[0])
            raise ValueError(
                f"coupling must be symmetric on the edges; coupling[{i}, {j}] is {values[i, j]} "
                f"and coupling[{j}, {i}] is {values[j, i]}."
            )
        return values[i, j]
    if values.shape not in ((), (len(edges),)):
        raise ValueError(f"coupling must be {accepted}; got an array of shape {values.shape}.")
    return np.broadcast_to(values, len(edges))


def _check_fields(field, n):
    """Return the field of each variable, shape (n_variables,)."""
    accepted = f"a number or {n} numbers (one per variable)"
    values = _check_finite("field", field, accepted)
    if values.shape not in ((), (n,)):
        raise ValueError(f"field must be {accepted}; got an array of shape {values.shape}.")
    return np.broadcast_to(values, n)


def _integer_seed(rng):
    """Draw an integer seed from a numpy Generator, for functions that accept only integer seeds."""
    return int(rng.integers(N_SEEDS))
