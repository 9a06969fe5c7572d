"""Tree-reweighted belief propagation: a convex free energy and an upper bound on log Z."""

from typing import NamedTuple

import numpy as np

from .._kernels.ordering import grow_forest
from .._utils.codes import MISSING, STATE, check_evidence_row
from ..energies import FactorGraph
from ..energies.layout import Layout
from .arrangement import arrange
from .belief_propagation import Beliefs, Propagation, belief_propagation

MIN_FORESTS = 16
EXACT_ON_FORESTS = Propagation(damping=0.0, max_iter=2, tol=0.0)  # one pass forward, one back


class TreeReweighted(NamedTuple):
    """Result of tree-reweighted belief propagation.

    Attributes
    ----------
    beliefs : Beliefs
        Beliefs of all variables and cliques. ``log_partition`` is the reweighted free energy, which
        is an upper bound of log Z at convergence only.
    upper_bound : float
        Upper bound of log Z in nats, for any messages, up to rounding; -inf if the messages prove
        that f is zero everywhere.
    n_forests : int
        Number of forests in the distribution.
    """

    beliefs: Beliefs
    upper_bound: float
    n_forests: int


def tree_reweighted(graph, how=None, *, evidence=None):
    r"""Run tree-reweighted belief propagation, and compute an upper bound on log Z.

    The bound holds for any messages. A forest :math:`T` is a set of cliques whose bipartite graph
    with the variables has no cycle. For a distribution over forests let :math:`\rho_a` be the
    probability that :math:`T` contains clique :math:`a`. For any messages :math:`\lambda`,
    converged or not, and :math:`b_i = \sum_{a \ni i} \rho_a \lambda_{a \to i}`,

    .. math::

        \theta_T(x) = \sum_i b_i(x_i) + \sum_{a \in T} \Big(\theta_a(x_a) / \rho_a
        - \sum_{i \in a} \lambda_{a \to i}(x_i)\Big), \qquad \mathbb{E}_T \theta_T = \log f,

    so :math:`\log Z \le \mathbb{E}_T \log Z(\theta_T)` by convexity. Every :math:`\log Z(\theta_T)`
    is exact after one forward and one backward pass. At a fixed point the bound is the reweighted
    free energy, which is the best bound for these :math:`\rho`. States that a message rules out
    have :math:`f = 0`, so they get probability zero in every forest.

    The distribution is uniform over forests that are grown one after the other. Each forest prefers
    the cliques that were used least so far. The minimum number of forests is 16, or the largest
    number of cliques of a variable if this is greater. Up to twice this number of forests are
    grown, and more if some clique has not been used yet. Then the number of forests is chosen, not
    below the minimum, for which the least-used clique has its largest probability. Cliques with at
    most one unobserved variable are in every forest. If the graph is a forest, there is one forest
    and the bound equals log Z.

    Parameters
    ----------
    graph : FactorGraph
        Model.
    how : Propagation, optional
        Settings of the message passing; by default ``Propagation()``.
    evidence : ndarray of shape (n_variables,), optional
        State codes of observed variables, MISSING for the others. By default no variable is
        observed.

    Returns
    -------
    TreeReweighted
        Beliefs and the upper bound.

    References
    ----------
    M. J. Wainwright, T. S. Jaakkola, A. S. Willsky, "A new class of upper bounds on the log
    partition function", IEEE Trans. Information Theory 51 (2005).

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf.energies import FactorGraph
    >>> from skmrf.variational.tree_reweighting import tree_reweighted
    >>> triangle = FactorGraph([2] * 3, [(0, 1), (1, 2), (2, 0)], [np.eye(2)] * 3)
    >>> found = tree_reweighted(triangle)
    >>> log_z = float(np.log(2 * np.e**3 + 6 * np.e))
    >>> round(found.upper_bound, 3), round(log_z, 3)
    (4.096, 4.034)
    """
    row = check_evidence_row(evidence, graph.n_states)
    row = np.where(graph.n_states == 1, 0, row).astype(STATE)  # one state carries no information
    given = graph.condition({int(i): int(row[i]) for i in np.flatnonzero(row != MISSING)})
    forests = spanning_forests(given.layout)
    counting = forests.mean(axis=0)
    beliefs = belief_propagation(graph, how, evidence=row, counting=counting)
    messages = beliefs.messages[_free_message_mask(graph.layout, row)]
    return TreeReweighted(beliefs, _upper_bound(given, forests, counting, messages), len(forests))


def spanning_forests(layout):
    """Return several forests of cliques such that every clique is in at least one forest.

    Parameters
    ----------
    layout : Layout
        Variables and cliques of the factor graph.

    Returns
    -------
    ndarray of bool of shape (n_forests, n_cliques)
        True for the cliques of each forest. No clique can be added to a forest without a cycle.
    """
    n_cliques, n_variables = layout.n_cliques, len(layout.n_states)
    degree = np.bincount(layout.clique_vars[np.repeat(layout.orders, layout.orders) > 1])
    least = max(MIN_FORESTS, degree.max(initial=0))
    used, grown = np.zeros(n_cliques, dtype=np.int64), []
    while not (used == len(grown)).all() or not grown:
        order = np.argsort(used, kind="stable")
        taken = np.zeros(n_cliques, dtype=bool)
        grow_forest(order, layout.clique_ptr, layout.clique_vars, n_variables, taken)
        grown.append(taken)
        used += taken
        if len(grown) >= 2 * least and used.min() > 0:
            break
    grown = np.array(grown)
    share = np.cumsum(grown, axis=0).min(axis=1, initial=len(grown)) / np.arange(1, len(grown) + 1)
    share[: least - 1] *= len(grown) == 1
    return grown[: np.argmax(share) + 1]


def _free_message_mask(layout, row):
    """Return a mask of the message entries that belong to unobserved variables."""
    observed = row != MISSING
    order = np.concatenate([np.flatnonzero(observed), np.flatnonzero(~observed)])
    arranged = arrange(layout, order).layout
    free = arranged.clique_vars >= np.count_nonzero(observed)
    return np.repeat(free, arranged.n_states[arranged.clique_vars])


def _upper_bound(graph, forests, counting, messages):
    """Return an upper bound on log Z: the mean log partition function of spanning forests."""
    arranged = arrange(graph.layout, counting=counting)
    fields, terms = _reparametrise(arranged, graph.flat, messages)
    union, tables = _join_forests(arranged.layout, forests, fields, terms)
    if not _has_possible_states(union, tables):
        return -np.inf
    whole = belief_propagation(FactorGraph.from_layout(union, tables), EXACT_ON_FORESTS)
    return whole.log_partition / len(forests)


def _has_possible_states(layout, flat):
    """Return whether every table has an entry that is not -inf."""
    return bool((np.maximum.reduceat(flat, layout.table_start) > -np.inf).all())


def _reparametrise(arranged, flat, messages):
    """Rewrite a model's log-potential as terms of variables plus terms of cliques, given messages.

    Both results are flat arrays. The fields are b in :func:`tree_reweighted`.
    """
    layout, counting = arranged.layout, arranged.graph.counting
    q = layout.n_states[layout.clique_vars]
    owner = np.repeat(np.repeat(np.arange(layout.n_cliques), layout.orders), q)
    first = layout.state_start
    within = np.arange(len(messages)) - np.repeat(np.cumsum(q) - q, q)
    state = np.repeat(first[layout.clique_vars], q) + within
    dead = messages == -np.inf
    finite = np.where(dead, 0.0, messages)
    fields = np.zeros(int(layout.n_states.sum()))
    np.add.at(fields, state, counting[owner] * finite)
    fields[state[dead]] = -np.inf
    return fields, arranged.tables(flat).log_potentials - _sum_messages(layout, finite)


def _sum_messages(layout, messages):
    """Return, for each table entry, the sum of its clique's messages at the entry's states."""
    q = layout.n_states[layout.clique_vars]
    begin = np.cumsum(q) - q
    clique = np.repeat(np.arange(layout.n_cliques), layout.table_size)
    rest = np.arange(layout.n_parameters) - layout.table_start[clique]
    out = np.zeros(layout.n_parameters)
    for k in range(int(layout.orders.max(initial=0))):
        has = np.flatnonzero(layout.orders[clique] > k)
        edge = layout.clique_ptr[clique[has]] + k
        out[has] += messages[begin[edge] + rest[has] // layout.strides[edge]]
        rest[has] %= layout.strides[edge]
    return out


def _join_forests(layout, forests, fields, terms):
    """Build one factor graph that contains all spanning forests, each with its own variables."""
    n, m = len(layout.n_states), len(forests)
    tree, clique = np.nonzero(forests)
    orders = layout.orders[clique]
    ptr = np.concatenate([np.arange(n * m), n * m + np.concatenate([[0], np.cumsum(orders)])])
    edge = _concatenate_ranges(layout.clique_ptr[clique], orders)
    variables = layout.clique_vars[edge] + n * np.repeat(tree, orders)
    entry = _concatenate_ranges(layout.table_start[clique], layout.table_size[clique])
    union = Layout.build(
        np.tile(layout.n_states, m), (ptr, np.concatenate([np.arange(n * m), variables]))
    )
    return union, np.concatenate([np.tile(fields, m), terms[entry]])


def _concatenate_ranges(first, length):
    """Concatenate ranges of ``length[k]`` consecutive integers, each starting at ``first[k]``."""
    return np.repeat(first - np.cumsum(length) + length, length) + np.arange(length.sum())
