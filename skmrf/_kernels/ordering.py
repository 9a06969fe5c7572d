"""Algorithms on graphs: greedy elimination orders, forests of cliques, strongest partners."""

import numpy as np

from ._jit import kernel

WORD = 64


def adjacency_bits(clique_ptr, clique_vars, free, n_variables):
    """Return the adjacency matrix of the free (unobserved) variables, stored as bits.

    Two variables are adjacent if they share a clique.
    """
    bits = np.zeros((n_variables, (n_variables + WORD - 1) // WORD), dtype=np.uint64)
    add_adjacent_pairs(clique_ptr, clique_vars, free, bits)
    return bits


@kernel
def add_adjacent_pairs(clique_ptr, clique_vars, free, bits):
    """Set the bit of each pair of free variables that share a clique."""
    for a in range(clique_ptr.size - 1):
        for p in range(clique_ptr[a], clique_ptr[a + 1]):
            i = clique_vars[p]
            if not free[i]:
                continue
            for r in range(clique_ptr[a], clique_ptr[a + 1]):
                j = clique_vars[r]
                if free[j] and j != i:
                    bits[i, j // WORD] |= np.uint64(1) << np.uint64(j % WORD)


@kernel
def popcount(word):
    """Return the number of bits of a 64-bit integer that are 1."""
    x = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    x = x + (x >> np.uint64(8))
    x = x + (x >> np.uint64(16))
    x = x + (x >> np.uint64(32))
    return np.int64(x & np.uint64(0x7F))


@kernel
def set_bits(row, out):
    """Write the positions of the bits of a row that are 1, and return their number."""
    count = 0
    for w in range(row.size):
        word = row[w]
        while word != np.uint64(0):
            low = word & (~word + np.uint64(1))
            out[count] = w * WORD + popcount(low - np.uint64(1))
            count += 1
            word ^= low
    return count


@kernel
def elimination_scores(bits, v, log_states, neighbours):
    """Return the number of edges that eliminating variable v adds, and its table's log size."""
    degree = set_bits(bits[v], neighbours)
    missing = 0
    log_size = log_states[v]
    for k in range(degree):
        u = neighbours[k]
        log_size += log_states[u]
        for w in range(bits.shape[1]):
            missing += popcount(bits[v, w] & ~bits[u, w])
    return (missing - degree) // 2, log_size


def greedy_order(bits, free, log_states, weights, rank, max_log_size):
    """Return a greedy elimination order of the free variables and the log sizes of their tables.

    The next variable is the one with the smallest score ``weights . (fill, log size of the table,
    rank)``, where fill is the number of edges that its elimination adds. The order ends at the
    first variable whose table is larger than ``max_log_size``. ``bits`` is overwritten.
    """
    n_free = np.count_nonzero(free)
    order, log_size = np.empty(n_free, dtype=np.int64), np.empty(n_free)
    n = write_greedy_order(bits, free, log_states, weights, rank, max_log_size, order, log_size)
    return order[:n], log_size[:n]


@kernel
def write_greedy_order(bits, free, log_states, weights, rank, max_log_size, order, log_size):
    """Write a greedy elimination order and the log sizes of its tables; return its length."""
    n = bits.shape[0]
    score = np.full(n, np.inf)
    size = np.zeros(n)
    neighbours = np.empty(n, dtype=np.int64)
    second_neighbours = np.empty(n, dtype=np.int64)
    is_outdated = np.zeros(n, dtype=np.bool_)
    for v in range(n):
        is_outdated[v] = free[v]
    for step in range(order.size):
        best = -1
        for v in range(n):
            if is_outdated[v]:
                is_outdated[v] = False
                fill, size[v] = elimination_scores(bits, v, log_states, neighbours)
                score[v] = weights[0] * fill + weights[1] * size[v] + weights[2] * rank[v]
            if score[v] < np.inf and (best < 0 or score[v] < score[best]):
                best = v
        order[step] = best
        log_size[step] = size[best]
        if size[best] > max_log_size:
            return step + 1
        degree = set_bits(bits[best], neighbours)
        score[best] = np.inf
        for k in range(degree):  # the neighbours of an eliminated variable become a clique
            u = neighbours[k]
            for w in range(bits.shape[1]):
                bits[u, w] |= bits[best, w]
            bits[u, u // WORD] &= ~(np.uint64(1) << np.uint64(u % WORD))
            bits[u, best // WORD] &= ~(np.uint64(1) << np.uint64(best % WORD))
        for k in range(degree):
            is_outdated[neighbours[k]] = True
            n_second_neighbours = set_bits(bits[neighbours[k]], second_neighbours)
            for r in range(n_second_neighbours):
                is_outdated[second_neighbours[r]] = True
    return order.size


@kernel
def write_window(bits, is_free, log_states, noise, max_log_size, order):
    """Clamp variables until no table of a greedy elimination is larger than ``max_log_size``.

    Each step eliminates the variable with the smallest table. If this table is too large, the step
    clamps the variable with the largest table instead. ``noise`` is added to the log sizes, so that
    different noise gives different windows. ``is_free`` is set to False for clamped variables, and
    ``order`` receives the others. Returns the number of variables in ``order``. ``bits`` is
    overwritten.
    """
    n = bits.shape[0]
    size = np.zeros(n)
    neighbours = np.empty(n, dtype=np.int64)
    is_left, is_outdated = is_free.copy(), is_free.copy()
    count = 0
    while True:
        smallest, largest = -1, -1
        for v in range(n):
            if not is_left[v]:
                continue
            if is_outdated[v]:
                is_outdated[v] = False
                size[v] = log_states[v]
                for k in range(set_bits(bits[v], neighbours)):
                    size[v] += log_states[neighbours[k]]
            if smallest < 0 or size[v] + noise[v] < size[smallest] + noise[smallest]:
                smallest = v
            if largest < 0 or size[v] + 4.0 * noise[v] > size[largest] + 4.0 * noise[largest]:
                largest = v
        if smallest < 0:
            return count
        is_clamped = size[smallest] > max_log_size
        v = largest if is_clamped else smallest
        is_left[v] = False
        if is_clamped:
            is_free[v] = False
        else:
            order[count] = v
            count += 1
        for k in range(set_bits(bits[v], neighbours)):
            u = neighbours[k]
            is_outdated[u] = True
            if not is_clamped:  # the neighbours of an eliminated variable become a clique
                for w in range(bits.shape[1]):
                    bits[u, w] |= bits[v, w]
                bits[u, u // WORD] &= ~(np.uint64(1) << np.uint64(u % WORD))
            bits[u, v // WORD] &= ~(np.uint64(1) << np.uint64(v % WORD))


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


@kernel
def select_component(c, missing, n_missing, component, variables):
    """Write the variables of component c, and return their number."""
    m = 0
    for j in range(n_missing):
        if component[missing[j]] == c:
            variables[m] = missing[j]
            m += 1
    return m


@kernel
def find_components(x, layout, missing, component):
    """Find the connected components of the missing variables of a row.

    Returns the number of missing variables and the number of components.
    """
    clique_ptr, clique_vars, ptr, cliques = layout[1], layout[2], layout[5], layout[6]
    m, n_components = 0, 0
    for i in range(x.size):
        component[i] = -1
        if x[i] < 0:
            missing[m] = i
            m += 1
    stack = np.empty(m, np.int64)
    for j in range(m):
        if component[missing[j]] >= 0:
            continue
        stack[0], height = missing[j], 1
        component[missing[j]] = n_components
        while height > 0:
            height -= 1
            i = stack[height]
            for p in range(ptr[i], ptr[i + 1]):
                for k in range(clique_ptr[cliques[p]], clique_ptr[cliques[p] + 1]):
                    other = clique_vars[k]
                    if x[other] < 0 and component[other] < 0:
                        component[other] = n_components
                        stack[height] = other
                        height += 1
        n_components += 1
    return m, n_components


@kernel
def find_degeneracy(variables, m, component, layout):
    """Return the degeneracy of the graph of the variables of a component.

    It is the largest minimum degree of a subgraph. The treewidth is at least as large.
    """
    clique_ptr, clique_vars, ptr, cliques = layout[1], layout[2], layout[5], layout[6]
    place, is_adjacent = np.empty(component.size, np.int64), np.zeros((m, m), np.bool_)
    for j in range(m):
        place[variables[j]] = j
    for j in range(m):
        i = variables[j]
        for p in range(ptr[i], ptr[i + 1]):
            for k in range(clique_ptr[cliques[p]], clique_ptr[cliques[p] + 1]):
                other = clique_vars[k]
                if other != i and component[other] == component[i]:
                    is_adjacent[j, place[other]] = True
    degrees, most = is_adjacent.sum(axis=1), 0
    for _ in range(m):
        j = np.argmin(degrees)
        most = max(most, degrees[j])
        degrees[j] = 2 * m
        for other in range(m):
            degrees[other] -= is_adjacent[j, other]
    return most


@kernel
def strongest_partners(weights, least, partners):
    """Write the columns of the strongest entries of each row to the rows of ``partners``.

    The strength of an entry is its absolute value. Entries up to ``least`` do not count; -1 fills
    the rest of a row. ``weights`` can have further columns.
    """
    most = partners.shape[1]
    strengths = np.empty(most)
    for i in range(partners.shape[0]):
        strengths[:] = least
        partners[i] = -1
        for j in range(partners.shape[0]):
            strength = abs(weights[i, j])
            if not strength > strengths[most - 1]:
                continue
            place = most - 1
            while place > 0 and strength > strengths[place - 1]:
                strengths[place], partners[i, place] = strengths[place - 1], partners[i, place - 1]
                place -= 1
            strengths[place], partners[i, place] = strength, j
