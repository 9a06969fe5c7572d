"""Tree-reweighted belief propagation: a convex free energy and an upper bound on log Z."""

from typing import NamedTuple

import numpy as np

from .._kernels.forests import grow_forest
from .._utils.codes import MISSING, STATE, check_evidence_row
from ..energies import FactorGraph
from ..energies.layout import Layout
from .arrangement import arrange
from .belief_propagation import Beliefs, Propagation, belief_propagation

LEAST_FORESTS = 16
EXACT_ON_FORESTS = Propagation(damping=0.0, max_iter=2, tol=0.0)  # there and back


class TreeReweighted(NamedTuple):
    """What tree-reweighted propagation ends with.

    Attributes
    ----------
    beliefs : Beliefs
        Of all variables and cliques; ``log_partition`` is the reweighted free energy, which bounds
        log Z at convergence only.
    upper_bound : float
        At least log Z, nats, at any messages, up to rounding; -inf where they prove that f is zero
        everywhere.
    n_forests : int
        Forests in the distribution.
    """

    beliefs: Beliefs
    upper_bound: float
    n_forests: int


def tree_reweighted(graph, how=None, *, evidence=None):
    r"""Tree-reweighted sum-product propagation with a bound that holds at any messages.

    For a distribution over forests :math:`T` (sets of cliques whose bipartite graph with the
    variables has no cycle) let :math:`\rho_a` be the probability that :math:`T` has clique
    :math:`a`. For any messages :math:`\lambda`, converged or not, and
    :math:`b_i = \sum_{a \ni i} \rho_a \lambda_{a \to i}`,

    .. math::

        \theta_T(x) = \sum_i b_i(x_i) + \sum_{a \in T} \Big(\theta_a(x_a) / \rho_a
        - \sum_{i \in a} \lambda_{a \to i}(x_i)\Big), \qquad \mathbb{E}_T \theta_T = \log f,

    so :math:`\log Z \le \mathbb{E}_T \log Z(\theta_T)` by convexity, and every term is exact by one
    pass there and back. At a fixed point the bound is the reweighted free energy, the best one for
    these :math:`\rho`. States that a message rules out have :math:`f = 0`; they count as such in
    every forest.

    The distribution is uniform over forests grown one after the other, each with the cliques used
    least so far, until every clique has been used and there are at least as many forests as the
    largest number of cliques of a variable, and at least 16; among these and as many again it ends
    where the least-used clique has its largest share. Cliques of at most one unobserved variable
    are in every forest; on a forest there is one, and the bound is log Z.

    Parameters
    ----------
    graph : FactorGraph
    how : Propagation, optional
    evidence : ndarray of shape (n_variables,), optional
        State codes of observed variables, MISSING elsewhere.

    Returns
    -------
    TreeReweighted

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
    row = np.where(graph.n_states == 1, 0, row).astype(STATE)  # nothing passes through them
    given = graph.condition({int(i): int(row[i]) for i in np.flatnonzero(row != MISSING)})
    forests = spanning_forests(given.layout)
    counting = forests.mean(axis=0)
    beliefs = belief_propagation(graph, how, evidence=row, counting=counting)
    messages = beliefs.messages[_between_free(graph.layout, row)]
    return TreeReweighted(beliefs, _bound(given, forests, counting, messages), len(forests))


def spanning_forests(layout):
    """Forests that together have every clique, shape (n_forests, n_cliques), bool.

    No forest could take another clique.

    Parameters
    ----------
    layout : Layout

    Returns
    -------
    ndarray of bool of shape (n_forests, n_cliques)
    """
    n_cliques, n_variables = layout.n_cliques, len(layout.n_states)
    degree = np.bincount(layout.clique_vars[np.repeat(layout.orders, layout.orders) > 1])
    least = max(LEAST_FORESTS, degree.max(initial=0))
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


def _between_free(layout, row):
    """Which entries of an arranged run's messages go to unobserved variables."""
    observed = row != MISSING
    order = np.concatenate([np.flatnonzero(observed), np.flatnonzero(~observed)])
    arranged = arrange(layout, order).layout
    free = arranged.clique_vars >= np.count_nonzero(observed)
    return np.repeat(free, arranged.n_states[arranged.clique_vars])


def _bound(graph, forests, counting, messages):
    """Mean log partition function of the forests, at the messages of the arranged graph."""
    arranged = arrange(graph.layout, counting=counting)
    fields, terms = _reparametrised(arranged, graph.flat, messages)
    union, tables = _union(arranged.layout, forests, fields, terms)
    if not _all_possible(union, tables):
        return -np.inf
    whole = belief_propagation(FactorGraph.from_layout(union, tables), EXACT_ON_FORESTS)
    return whole.log_partition / len(forests)


def _all_possible(layout, flat):
    """Whether every table has an entry that is not -inf."""
    return bool((np.maximum.reduceat(flat, layout.table_start) > -np.inf).all())


def _reparametrised(arranged, flat, messages):
    """The b of all variables and the cliques' terms, each flat."""
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
    return fields, arranged.tables(flat).log_potentials - _spread(layout, finite)


def _spread(layout, messages):
    """For every table entry the sum of its clique's messages at the entry's states."""
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


def _union(layout, forests, fields, terms):
    """One graph of all forests side by side, each with its own copy of every variable."""
    n, m = len(layout.n_states), len(forests)
    tree, clique = np.nonzero(forests)
    orders = layout.orders[clique]
    ptr = np.concatenate([np.arange(n * m), n * m + np.concatenate([[0], np.cumsum(orders)])])
    edge = _ranges(layout.clique_ptr[clique], orders)
    variables = layout.clique_vars[edge] + n * np.repeat(tree, orders)
    entry = _ranges(layout.table_start[clique], layout.table_size[clique])
    union = Layout.build(
        np.tile(layout.n_states, m), (ptr, np.concatenate([np.arange(n * m), variables]))
    )
    return union, np.concatenate([np.tile(fields, m), terms[entry]])


def _ranges(first, length):
    """first[k], first[k] + 1, ..., length[k] numbers for every k, one after the other."""
    return np.repeat(first - np.cumsum(length) + length, length) + np.arange(length.sum())
