"""Chow-Liu trees and forests, and the choice of a reference model among their parts."""

from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import gammaln

from .._utils.rows import blocks_in_memory, count_states
from ..energies import FactorGraph, PairwiseEnergy
from ..exact import expectations
from ..inference import row_queries
from ..training.data_moments import count_weights, effective_rows
from ..training.regularization import Fold, held_out_weights
from .screening import binary_counts, joint_counts, pair_tables

MAX_TABLE_SIZE = 2**20  # larger tables of pairs are never edges
CONCENTRATIONS = 2.0 ** np.arange(11)  # total pseudo-counts of a conditional distribution


class Tree(NamedTuple):
    """Chow-Liu tree as a factor graph, with the increase of the likelihood by each edge.

    Attributes
    ----------
    graph : FactorGraph
        Model with one table per variable and one table per edge. Its log partition function is 0.
    gains : ndarray of shape (n_edges,)
        Increase of the log-likelihood of all rows by each edge, divided by the number of parameters
        ``(q - 1) (r - 1)`` of the edge, in nats.
    """

    graph: FactorGraph
    gains: np.ndarray

    def prune(self, min_gain):
        """Return a factor graph with the edges whose gain is more than ``min_gain``."""
        graph, n = self.graph, len(self.graph.n_states)
        kept = [*range(n), *(n + np.flatnonzero(self.gains > min_gain))]
        cliques, tables = graph.cliques, graph.log_potentials
        return FactorGraph(graph.n_states, [cliques[a] for a in kept], [tables[a] for a in kept])


def fit_tree(X, n_states, *, weights=None, allowed=None):
    r"""Fit a Chow-Liu tree: the edges are a spanning tree of maximum mutual information.

    The marginal probabilities of a variable have half a pseudo-count for each of its states. The
    joint probabilities of an edge have these marginals. They are the mean of two estimates by
    empirical Bayes: the conditional distributions of either variable, given the other one, have a
    Dirichlet prior whose mean is the marginal distribution, and whose concentration maximises the
    marginal likelihood of the edge. A pair is counted in the rows that observe both variables.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes; MISSING (-1) where an entry is missing.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.
    weights : ndarray of shape (n_rows,), optional
        Number of times that each row counts. By default 1.
    allowed : ndarray of bool of shape (n_variables, n_variables), optional
        True for pairs that can be edges (symmetric). By default all pairs can be edges.

    Returns
    -------
    Tree
        The tree, or a forest if ``allowed`` does not connect all variables.

    References
    ----------
    C. K. Chow and C. N. Liu, "Approximating discrete probability distributions with dependence
    trees", IEEE Transactions on Information Theory 14 (1968).

    J. Altschuler, J. Weed and P. Rigollet, "Near-linear time approximation algorithms for optimal
    transport via Sinkhorn iteration", Advances in Neural Information Processing Systems 30 (2017),
    Algorithm 2: the mean of the two estimates is changed to have the given marginals.
    """
    n_states = np.asarray(n_states)
    weights = np.broadcast_to(1.0, len(X)) if weights is None else weights
    joint = binary_counts(X, weights, n_states)
    gain = pair_gains(X, n_states, weights, joint)
    is_edge = np.triu(gain > 0.0, 1)
    if allowed is not None:
        is_edge &= allowed
    edges = _spanning_forest(gain, is_edge)
    singles = [_marginal(counts) for counts in count_states(X, n_states, weights)]
    tables = [np.log(p) for p in singles]
    if joint is None:
        counts = _count_edges(X, edges, n_states, weights)
    else:
        counts = _binary_tables(joint, edges, len(X))
    for (i, j), table in zip(edges, counts, strict=True):
        smooth = _smooth_joint(table, singles[i], singles[j])
        tables.append(np.log(smooth) - tables[i][:, None] - tables[j])
    i, j = np.array(edges, dtype=int).reshape(-1, 2).T
    graph = FactorGraph(n_states, [(v,) for v in range(X.shape[1])] + edges, tables)
    return Tree(graph, gain[i, j] / ((n_states[i] - 1) * (n_states[j] - 1)))


def pair_couplings(graph):
    """Return the couplings and biases of a pairwise graph whose variables have the states 0 and 1.

    Parameters
    ----------
    graph : FactorGraph
        Model with tables of single variables and of pairs.

    Returns
    -------
    coupling : ndarray of shape (n_variables, n_variables)
        Symmetric matrix of couplings with a zero diagonal.
    bias : ndarray of shape (n_variables,)
        Biases.
    """
    n = len(graph.n_states)
    coupling, bias = np.zeros((n, n)), np.zeros(n)
    for variables, table in zip(graph.cliques, graph.log_potentials, strict=True):
        if len(variables) == 1:
            bias[variables] += table[1] - table[0]
            continue
        i, j = variables
        coupling[i, j] = coupling[j, i] = table[0, 0] - table[0, 1] - table[1, 0] + table[1, 1]
        bias[i] += table[1, 0] - table[0, 0]
        bias[j] += table[0, 1] - table[0, 0]
    return coupling, bias


def fit_pairwise_forest(data, states):
    """Fit a Chow-Liu forest of two-state variables, as a pairwise energy.

    The edges are those of a Chow-Liu tree that an extended Bayesian information criterion keeps.

    Parameters
    ----------
    data : Batch
        Rows of the codes 0 and 1; MISSING (-1) where an entry is missing.
    states : pair of float
        Values of the states with the codes 0 and 1.

    Returns
    -------
    PairwiseEnergy
        Couplings and biases of the forest.
    """
    n = data.X.shape[1]
    tree = fit_tree(data.X, np.full(n, 2), weights=count_weights(data))
    forest = tree.prune(_min_edge_gain(n, data))
    coupling, bias = pair_couplings(forest)
    low, step = states[0], states[1] - states[0]
    coupling /= step**2
    return PairwiseEnergy(coupling, bias / step - low * coupling.sum(axis=1), states)


def pair_gains(X, n_states, weights, joint=None):
    """Return the increase of the log-likelihood of all rows by each pair of variables, in nats.

    It is the number of rows that observe both variables, times the mutual information of the
    smoothed frequencies.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes; MISSING (-1) where an entry is missing.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.
    weights : ndarray of shape (n_rows,)
        Number of times that each row counts.
    joint : ndarray of shape (n_variables, n_variables), optional
        Result of :func:`~skmrf.structure.screening.binary_counts`, if it is known.

    Returns
    -------
    ndarray of shape (n_variables, n_variables)
        Symmetric matrix. It is 0 for variables with one state, and for pairs with more than
        2**20 joint states.
    """
    n = X.shape[1]
    gain = np.zeros((n, n))
    for left, right, tables in pair_tables(X, weights, n_states, MAX_TABLE_SIZE, joint):
        values = _information(tables)
        gain[np.ix_(left, right)] = values
        gain[np.ix_(right, left)] = values.T
    np.fill_diagonal(gain, 0.0)
    return gain


def _information(counts):
    """Return the number of rows times the mutual information, from tables of counts."""
    q, r = counts.shape[-2:]
    n_rows = counts.sum(axis=(-2, -1))
    p = counts + 1.0 / (q * r)
    p /= (n_rows + 1.0)[..., None, None]
    rows, columns = p.sum(axis=-1), p.sum(axis=-2)
    entropies = [-(v * np.log(v)).sum(axis=-1) for v in (rows, columns)]
    return n_rows * (entropies[0] + entropies[1] + (p * np.log(p)).sum(axis=(-2, -1)))


def _spanning_forest(gain, is_edge):
    """Return the edges of a spanning forest of maximum gain, a list of tuples of int."""
    i, j = np.argwhere(is_edge).T.astype(np.int32)  # csgraph of SciPy 1.15 takes no other type
    cost = coo_array((-1.0 - gain[i, j], (i, j)), shape=gain.shape)  # no cost is zero
    tree = minimum_spanning_tree(cost.tocsr()).tocoo()
    return sorted(zip(tree.row.tolist(), tree.col.tolist(), strict=True))


def _count_edges(X, edges, n_states, weights):
    """Return the weighted counts of the joint states of each edge, in a list of tables."""
    tables = [np.zeros(n_states[list(edge)]) for edge in edges]
    for rows in blocks_in_memory(X):
        columns, given = np.asfortranarray(X[rows]), weights[rows]
        for table, (i, j) in zip(tables, edges, strict=True):
            table += joint_counts(columns[:, i], columns[:, j], given, table.shape)
    return tables


def _binary_tables(joint, edges, n_rows):
    """Return the counts of the joint states of each edge, from those of the state (1, 1)."""
    ones = joint.diagonal()
    return [
        np.array(
            [
                [n_rows - ones[i] - ones[j] + joint[i, j], ones[j] - joint[i, j]],
                [ones[i] - joint[i, j], joint[i, j]],
            ]
        )
        for i, j in edges
    ]


def _marginal(counts):
    """Return the frequencies of a column, with half a pseudo-count for each state."""
    return (counts + 0.5) / (counts + 0.5).sum()


def _smooth_joint(counts, first, second):
    """Return smoothed joint frequencies of two variables that have the given marginals."""
    joint = first[:, None] * _smooth_conditional(counts, second)
    joint += second * _smooth_conditional(counts.T, first).T
    joint, transposed = 0.5 * joint, 0.5 * joint.T  # rows and columns are treated alike
    either = _set_marginals(joint, first, second), _set_marginals(transposed, second, first).T
    return 0.5 * (either[0] + either[1])


def _smooth_conditional(counts, prior):
    """Return a conditional distribution for each row of a table of counts, by empirical Bayes.

    The distributions have a common Dirichlet prior with the given mean. Its concentration maximises
    the marginal likelihood of all rows of the table.
    """
    i, j = np.nonzero(counts)
    totals = counts.sum(axis=1)
    cells, p = counts[i, j], prior[j]
    log_evidence = [
        (gammaln(c) - gammaln(c + totals)).sum() + (gammaln(c * p + cells) - gammaln(c * p)).sum()
        for c in CONCENTRATIONS
    ]
    # The pseudo-count of all cells limits the effect of marginal probabilities near zero.
    table = counts + CONCENTRATIONS[np.argmax(log_evidence)] * prior + 1.0 / counts.size
    return table / table.sum(axis=1, keepdims=True)


def _set_marginals(joint, first, second):
    """Return the nearby positive table with the given marginals of Altschuler et al. (2017)."""
    joint = joint * np.minimum(first / joint.sum(axis=1), 1.0)[:, None]
    joint *= np.minimum(second / joint.sum(axis=0), 1.0)
    lacking = [np.maximum(p - joint.sum(axis=a), 0.0) for p, a in ((first, 1), (second, 0))]
    total = max(lacking[0].sum(), np.finfo(float).tiny)
    return joint + np.outer(lacking[0] / total, lacking[1])


def possible_edges(layout):
    """Return a matrix that is True for pairs of variables that a clique contains.

    Parameters
    ----------
    layout : Layout
        Cliques of a model.

    Returns
    -------
    ndarray of bool of shape (n_variables, n_variables)
        Symmetric matrix.
    """
    n = len(layout.n_states)
    allowed = np.zeros((n, n), dtype=bool)
    i, j = _pair_members(layout)
    allowed[i, j] = allowed[j, i] = True
    for a in np.flatnonzero(layout.orders > 2):
        members = layout.clique_vars[layout.clique_ptr[a] : layout.clique_ptr[a + 1]]
        allowed[np.ix_(members, members)] = True
    np.fill_diagonal(allowed, False)
    return allowed


def _pair_members(layout):
    """Return the two variables of each clique of two variables."""
    first = layout.clique_ptr[:-1][layout.orders == 2]
    return layout.clique_vars[first], layout.clique_vars[first + 1]


def embed(forest, layout):
    """Return a model with the cliques of ``layout`` and the distribution of a forest.

    Parameters
    ----------
    forest : FactorGraph
        Model whose tables have one or two variables. Each pair must be in a clique of ``layout``.
    layout : Layout
        Cliques of the new model. No two cliques share a table.

    Returns
    -------
    FactorGraph
        Model with the same distribution. The tables of other cliques are zero.
    """
    flat = np.zeros(layout.n_parameters)
    owners = _owning_cliques(layout, forest.cliques)
    for a, variables, table in zip(owners, forest.cliques, forest.log_potentials, strict=True):
        members = layout.clique_vars[layout.clique_ptr[a] : layout.clique_ptr[a + 1]].tolist()
        entries = flat[layout.table_start[a] : layout.table_start[a] + layout.table_size[a]]
        entries.reshape(layout.shape(a))[...] += _align(table, variables, members)
    return FactorGraph.from_layout(layout, flat)


def _owning_cliques(layout, wanted):
    """Return the indices of cliques that contain the wanted variables, or pairs of variables."""
    n = len(layout.n_states)
    larger = np.flatnonzero(layout.orders > 2)[::-1]
    members = [layout.clique_vars[layout.clique_ptr[a] : layout.clique_ptr[a + 1]] for a in larger]
    owner = {
        key: a
        for a, variables in zip(larger, members, strict=True)
        for key in _pair_keys(*np.array(list(combinations(variables, 2))).T, n).tolist()
    }
    pairs = np.flatnonzero(layout.orders == 2)
    keys = _pair_keys(*_pair_members(layout), n)
    owner.update(zip(keys[::-1].tolist(), pairs[::-1].tolist(), strict=True))
    edges = {v: int(owner[_pair_keys(*v, n)]) for v in wanted if len(v) == 2}
    # Without a clique of its own, a variable is added to an edge, so that no cycle appears.
    ptr, cliques, _ = layout.incidence
    single = cliques[ptr[:-1]]
    for variables, a in edges.items():
        single[list(variables)] = a
    alone = np.flatnonzero(layout.orders == 1)
    single[layout.clique_vars[layout.clique_ptr[alone]]] = alone
    return [int(single[v[0]]) if len(v) == 1 else edges[v] for v in wanted]


def _pair_keys(i, j, n):
    """Return an integer that identifies each pair of variables, in any order."""
    return np.minimum(i, j).astype(np.int64) * n + np.maximum(i, j)


def _align(table, variables, clique):
    """Return a view of a table that broadcasts over the axes of a clique."""
    order = np.argsort([clique.index(v) for v in variables])
    shape = [1] * len(clique)
    for v, q in zip(variables, table.shape, strict=True):
        shape[clique.index(v)] = q
    return table.transpose(order).reshape(shape)


EDGE_RULES = ("none", "extended BIC", "all")  # edges of a Chow-Liu tree in the reference model


def choose_references(energy, splits, parameters, *, with_independent=False):
    """Choose the edges of the reference model by scores of held-out rows.

    Parameters
    ----------
    energy : FactorGraph
        Model of independent columns with all cliques.
    splits : list of (Batch, Batch)
        Training rows and held-out rows.
    parameters : TrainingParameters
        Parameters of the estimator.
    with_independent : bool, default=False
        Whether the model without edges is also returned if another one is better. It is first if an
        extended Bayesian information criterion keeps no edge of the tree of any split.

    Returns
    -------
    list of callables
        Functions ``rows -> FactorGraph`` that learn a reference model from rows. The model has all
        cliques. With tied tables or sparse penalties it is ``energy``.
    """
    layout = energy.layout
    if layout.is_tied or parameters.penalty != "l2":
        return [lambda _: energy]
    allowed = possible_edges(layout)
    row_scores, n_kept = [[] for _ in EDGE_RULES], 0
    for train, test in splits:
        tree = _fit_tree(layout, allowed, train)
        n_kept += np.count_nonzero(tree.gains > _min_gain("extended BIC", layout, train))
        for rule, scores in zip(EDGE_RULES, row_scores, strict=True):
            scores.append(_forest_scores(tree.prune(_min_gain(rule, layout, train)), test))
    weights = held_out_weights([Fold(train, test, None) for train, test in splits])
    rules = [EDGE_RULES[int(np.argmax([np.concatenate(s) @ weights for s in row_scores]))]]
    if with_independent and rules != ["none"]:
        rules = [*rules, "none"] if n_kept else ["none", *rules]

    def reference(rule, rows):
        tree = _fit_tree(layout, allowed, rows)
        return embed(tree.prune(_min_gain(rule, layout, rows)), layout)

    return [partial(reference, rule) for rule in rules]


def _min_gain(rule, layout, data):
    """Return the increase of the log-likelihood per parameter that an edge needs, in nats."""
    if rule == "none":
        return np.inf
    if rule == "all":
        return -np.inf
    return _min_edge_gain(len(layout.n_states), data)


def _min_edge_gain(n_variables, data):
    """Return the least gain of an edge per parameter by an extended BIC, in nats."""
    n_pairs = n_variables * (n_variables - 1) / 2
    return 0.5 * np.log(effective_rows(data)) + np.log(max(n_pairs, 1))


def _fit_tree(layout, allowed, data):
    data = data.in_file_order()
    return fit_tree(data.X, layout.n_states, weights=count_weights(data), allowed=allowed)


def _forest_scores(forest, data):
    """Return the log-likelihood of each row under a model without cycles, in nats."""
    log_z = expectations.exact_model(forest).log_partition(forest)
    return row_queries.row_log_partitions(forest, data.X, exact=True) - log_z
