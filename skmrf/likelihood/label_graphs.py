"""Inference of labels of sequences, trees and graphs, exactly or by belief propagation."""

from ..exact import label_elimination, label_trees
from ..variational import label_graphs as propagation


def is_tractable(graphs, n_states):
    """Return whether exact inference of all examples is fast.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples.
    n_states : int
        Number of states of a node.

    Returns
    -------
    bool
        True for trees, and for graphs with cycles that are small or narrow.
    """
    return graphs.trees is not None or label_elimination.is_cheap(graphs, n_states)


def _exact(graphs):
    """Return the module for exact inference on the graphs: for trees, or by elimination."""
    return label_elimination if graphs.trees is None else label_trees


def _is_exact(graphs, potentials):
    return is_tractable(graphs, potentials.nodes.shape[1])


def sums(graphs, potentials, weights=None, *, method="auto", **options):
    """Return log Z and the marginals of nodes and edges, given the known labels.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples. Their known labels are evidence.
    potentials : LabelPotentials
        Log-potentials of the examples.
    weights : ndarray of shape (n_examples,), optional
        Weight of each example. By default 1.
    method : {"auto", "exact", "bp"}, default="auto"
        Inference method. "bp" is exact on trees. "auto" is "exact" if that is fast, else "bp".
    **options
        Options of belief propagation: ``max_iter``, ``tol``, ``damping`` and ``shapes``.

    Returns
    -------
    LabelSums
        Log Z, and weighted marginals.
    """
    is_exact = method == "exact" or (method == "auto" and _is_exact(graphs, potentials))
    if graphs.trees is not None or is_exact:
        return _exact(graphs).sums(graphs, potentials, weights)
    return propagation.sums(graphs, potentials, weights, **options)


def maxima(graphs, potentials):
    """Return the most probable labels of each example, jointly.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples. Their known labels are evidence.
    potentials : LabelPotentials
        Log-potentials of the examples.

    Returns
    -------
    states : ndarray of int of shape (n_nodes,)
        State of each node. It is approximate for graphs with cycles that are neither small nor
        narrow.
    scores : ndarray of shape (n_examples,)
        Log-potentials in nats, ``-inf`` if no labelling was found.
    """
    module = _exact(graphs) if _is_exact(graphs, potentials) else propagation
    return module.maxima(graphs, potentials)


def draws(graphs, potentials, rng):
    """Draw the states of each example from their joint distribution.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples. Their known labels are evidence.
    potentials : LabelPotentials
        Log-potentials of the examples.
    rng : numpy.random.Generator
        Source of random numbers.

    Returns
    -------
    ndarray of int of shape (n_nodes,)
        States.

    Raises
    ------
    ValueError
        If a graph with cycles is too large for exact inference.
    """
    return _exact(graphs).draws(graphs, potentials, rng)


def best(graphs, potentials, k):
    """Return the k most probable labellings of each example.

    Parameters
    ----------
    graphs : LabelGraphs
        Examples. Their known labels are evidence.
    potentials : LabelPotentials
        Log-potentials of the examples.
    k : int
        Number of labellings.

    Returns
    -------
    states : list of ndarray of shape (n_labellings, n_nodes)
        Distinct labellings of each example, the most probable first.
    scores : list of ndarray of shape (n_labellings,)
        Log-potentials in nats.
    """
    return _exact(graphs).best(graphs, potentials, k)
