"""Selection of cliques that form a forest (a factor graph without cycles)."""

import numpy as np

from ._jit import kernel


@kernel
def root_of(parent, i):
    """Return the root of the tree that contains i, and shorten the path from i to the root.

    A shorter path makes later calls faster.
    """
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@kernel
def grow_forest(order, clique_ptr, clique_vars, n_variables, taken):
    """Select cliques greedily, in the given order, such that they form a forest.

    A clique is selected if its variables are in different trees of the bipartite graph of cliques
    and variables, so that this graph has no cycles. ``taken`` receives True for selected cliques.
    """
    parent = np.arange(n_variables)
    taken[:] = False
    for k in range(order.size):
        a = order[k]
        first, last = clique_ptr[a], clique_ptr[a + 1]
        is_acyclic = True
        for p in range(first, last):
            tree = root_of(parent, clique_vars[p])
            for r in range(first, p):
                is_acyclic = is_acyclic and root_of(parent, clique_vars[r]) != tree
        if is_acyclic:
            taken[a] = True
            for p in range(first + 1, last):
                parent[root_of(parent, clique_vars[p])] = root_of(parent, clique_vars[first])
