"""Acyclic sets of cliques."""

import numpy as np

from ._jit import kernel


@kernel
def root_of(parent, i):
    """Representative of the tree that holds i; paths to it are halved."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@kernel
def grow_forest(order, clique_ptr, clique_vars, n_variables, taken):
    """taken = which cliques a greedy forest has, tried in the order given.

    A clique joins if its variables are in different trees of the bipartite graph of cliques and
    variables, which so stays without cycles.
    """
    parent = np.arange(n_variables)
    taken[:] = False
    for k in range(order.size):
        a = order[k]
        first, last = clique_ptr[a], clique_ptr[a + 1]
        apart = True
        for p in range(first, last):
            here = root_of(parent, clique_vars[p])
            for r in range(first, p):
                apart = apart and root_of(parent, clique_vars[r]) != here
        if apart:
            taken[a] = True
            for p in range(first + 1, last):
                parent[root_of(parent, clique_vars[p])] = root_of(parent, clique_vars[first])
