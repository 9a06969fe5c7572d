"""Export of models to networkx graphs, and of samples to ArviZ."""

import networkx as nx
import numpy as np

from .._utils.parameters import check_choice
from ..energies.factor_graph import pair_strengths
from ..energies.protocols import factor_graph_of
from ._files import require
from .names import check_names

KINDS = ("variable", "factor")


def to_networkx(energy, *, kind="variable", names=None):
    r"""Convert a discrete model to a networkx graph.

    Parameters
    ----------
    energy : Energy
        Discrete model: any energy that has a factor graph.
    kind : {"variable", "factor"}, default="variable"
        With "variable", the nodes are the variables, and two variables have an edge if they are in
        a common clique. With "factor", the result is the bipartite graph of variables and cliques.
    names : sequence of hashable, optional
        Distinct names of the variables, which become nodes. The default is the names of a
        :class:`~skmrf.io.names.NamedFactorGraph`, and 0, 1, ... for other energies.

    Returns
    -------
    networkx.Graph
        Graph whose variable nodes are in the order of the variables and have the attribute
        ``n_states``. The other attributes depend on ``kind``.

        "variable": each edge has ``strength``, the Frobenius norm of the pair's table
        :math:`\theta_{ij}` with centred rows and columns, in nats. If no variable has more than
        two states, ``weight`` is the coupling :math:`J_{ij}` of the states -1 and 1, and ``sign``
        is the sign of this coupling. Otherwise ``weight`` equals ``strength`` and there is no
        ``sign``. The attribute ``graph_`` of :class:`skmrf.MRFStructureLearner` has the same edge
        attributes.

        "factor": variables have ``bipartite=0``. The node of clique a is ``("factor", a)``, with
        the attributes ``bipartite=1``, ``variables`` (names in the order of the axes of its table)
        and ``log_potentials`` (its table).

    Raises
    ------
    TypeError
        If ``energy`` has no factor graph, for example because it is an estimator.
    ValueError
        If ``names`` does not have one entry per variable, or if the names are not distinct and
        hashable.

    See Also
    --------
    skmrf.DiscreteMRF : Accepts such a graph as ``cliques`` and estimates a table for each edge.

    Notes
    -----
    The table of a pair is the sum of the tables of all cliques that contain it. The table of a
    clique with more than two variables is averaged over the other variables. Pure interactions of
    three or more variables are therefore not visible in this graph. The strength is infinite if
    the pair has joint states of probability zero, or if zeros in a larger table make the strength
    undetermined (in this case the sign is 0).

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
            raise ValueError(
                f"A variable is named {factor}, which is also the name of a factor; rename it."
            )
        network.add_node(factor, bipartite=1, variables=members, log_potentials=table)
        network.add_edges_from((name, factor) for name in members)


def _add_pairs(network, graph, names):
    has_couplings = bool((graph.n_states <= 2).all())
    for (i, j), coupling, strength in zip(*pair_strengths(graph), strict=True):
        values = {"weight": coupling if has_couplings else strength, "strength": strength}
        if has_couplings:
            values["sign"] = 0.0 if np.isnan(coupling) else float(np.sign(coupling))
            values["weight"] = strength if np.isnan(coupling) else coupling
        network.add_edge(names[i], names[j], **values)


def to_arviz(traces, *, names=None):
    r"""Convert the traces of Gibbs chains to ArviZ, for convergence diagnostics.

    Parameters
    ----------
    traces : ChainTraces
        Recorded chains, the result of :func:`skmrf.samplers.trace_chains`.
    names : sequence of str or int, optional
        Distinct names, one per variable. The default is 0, 1, ...

    Returns
    -------
    arviz.InferenceData, or xarray.DataTree from ArviZ 1.0 on
        The group ``posterior`` has the variable ``states``: state codes of shape
        (chain, draw, column), with ``names`` as coordinates of ``column``. The group
        ``sample_stats`` has the variable ``lp``: log-potentials of shape (chain, draw), which are
        unnormalised log-probabilities in nats.

    Raises
    ------
    ValueError
        If ``names`` does not have one entry per variable, or if the names are not distinct.
    ImportError
        If ArviZ is not installed.

    See Also
    --------
    skmrf.samplers.trace_chains : Run Gibbs chains and record their states.

    Notes
    -----
    The result can be passed to ``arviz.rhat``, ``arviz.ess`` and ``arviz.summary``. These functions
    treat the state codes as numbers. This is appropriate for variables with two states. For
    variables with more than two unordered states, the codes have no numerical meaning; use the
    diagnostics of ``lp`` instead. R-hat is undefined for a variable that never changes. Agreement
    of the chains does not prove that they have visited all modes.

    Examples
    --------
    >>> import arviz
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.io import to_arviz
    >>> from skmrf.samplers import trace_chains
    >>> traces = trace_chains(make_ising("chain", n_variables=4, coupling=0.2), random_state=0)
    >>> data = to_arviz(traces, names=["a", "b", "c", "d"])
    >>> bool(arviz.rhat(data)["states"].sel(column="b") < 1.01)
    True
    """
    arviz = require("arviz", "interop")
    names = check_names(names, None, traces.states.shape[2], int)
    groups = {
        "posterior": {"states": traces.states},
        "sample_stats": {"lp": traces.log_potential},
    }
    labels = {"coords": {"column": names}, "dims": {"states": ["column"]}}
    if arviz.__version__.startswith("0."):
        return arviz.from_dict(**groups, **labels)
    return arviz.from_dict(groups, **labels)
