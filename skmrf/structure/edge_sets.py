"""Differences and unions of arrays of edges."""

import numpy as np


def difference(edges, others):
    """Return the edges that are not among others."""
    known = set(map(tuple, others.tolist()))
    kept = [tuple(e) not in known for e in edges.tolist()]
    return edges[np.array(kept, dtype=bool)]


def union(edges, others):
    """Return the edges of two disjoint arrays in lexicographic order."""
    both = np.concatenate([edges, others])
    return both[np.lexsort(both.T[::-1])]
