"""Discrete models as graphs of networkx."""

import networkx as nx
import numpy as np

from .._utils.parameters import check_choice
from ..energies.checks import factor_graph_of
from ..energies.pair_strengths import pair_strengths
from .names import check_names

KINDS = ("variable", "factor")


def to_networkx(energy, *, kind="variable", names=None):
    r"""The graph of a discrete model.

    Parameters
    ----------
    energy : Energy
        Any energy with a factor graph.
    kind : {"variable", "factor"}
        "variable": nodes are variables, and those that share a clique are joined. "factor": the
        bipartite graph of variables and cliques.
    names : sequence of hashable, optional
        What the nodes of variables are called. By default the names of a
        :class:`NamedFactorGraph`, else 0, 1, ...

    Returns
    -------
    networkx.Graph
        Nodes of variables, in their order, have ``n_states``. The rest depends on ``kind``.

        "variable": edges have ``strength``, the Frobenius norm of the table :math:`\theta_{ij}`
        of the pair after its rows and columns are centred. If no variable has more than two
        states they have also ``weight``, the coupling :math:`J_{ij}` of states -1 and 1, and its
        ``sign``; else ``weight`` is the strength. This is as in ``graph_`` of
        :class:`skmrf.MRFStructureLearner`.

        "factor": variables have ``bipartite=0``. Clique number a is the node ``("factor", a)``
        with ``bipartite=1``, ``variables``, the names in the order of its axes, and
        ``log_potentials``, its table.

    Raises
    ------
    TypeError
        What has no factor graph, such as an estimator.
    ValueError
        Names that are not one a variable, distinct and hashable.

    See Also
    --------
    skmrf.DiscreteMRF : Takes such a graph as ``cliques``, and learns tables for its edges.

    Notes
    -----
    The table of a pair is the sum of the tables of its cliques. A larger clique adds its mean over
    the other variables, so that what three variables do together and no two of them do is not
    seen. Strength is infinite where the pair has states that exclude each other, and where zeros
    of a larger table leave it open (the sign is then 0).

    Examples
    --------
    >>> from skmrf.energies import PairwiseEnergy
    >>> from skmrf.io import to_networkx
    >>> energy = PairwiseEnergy([[0, -0.5, 0], [-0.5, 0, 0], [0, 0, 0]], [0.1, 0.2, 0.3])
    >>> graph = to_networkx(energy, names=["a", "b", "c"])
    >>> graph.edges["a", "b"]
    {'weight': -0.5, 'strength': 1.0, 'sign': -1.0}
    >>> list(graph.nodes)
    ['a', 'b', 'c']
    """
    check_choice("kind", kind, KINDS)
    graph = factor_graph_of(energy)
    names = check_names(names, energy, graph.n_variables, int)
    network = nx.Graph()
    for name, q in zip(names, graph.n_states.tolist(), strict=True):
        network.add_node(name, n_states=q)
    (_add_pairs if kind == "variable" else _add_factors)(network, graph, names)
    return network


def _add_factors(network, graph, names):
    nx.set_node_attributes(network, 0, "bipartite")
    for a, (clique, table) in enumerate(zip(graph.cliques, graph.log_potentials, strict=True)):
        factor, members = ("factor", a), [names[v] for v in clique]
        if factor in network:
            raise ValueError(f"A variable is called {factor}, as a factor is; rename it.")
        network.add_node(factor, bipartite=1, variables=members, log_potentials=table)
        network.add_edges_from((name, factor) for name in members)


def _add_pairs(network, graph, names):
    by_number = bool((graph.n_states <= 2).all())
    for (i, j), coupling, strength in zip(*pair_strengths(graph), strict=True):
        values = {"weight": coupling if by_number else strength, "strength": strength}
        if by_number:
            values["sign"] = 0.0 if np.isnan(coupling) else float(np.sign(coupling))
            values["weight"] = strength if np.isnan(coupling) else coupling
        network.add_edge(names[i], names[j], **values)
