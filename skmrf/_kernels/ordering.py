"""Greedy elimination orders on a graph held as bits."""

import numpy as np

from ._jit import kernel

WORD = 64


@kernel
def adjacency_bits(clique_ptr, clique_vars, free, n_variables):
    """Rows of bits: which free variables share a clique with i."""
    words = (n_variables + WORD - 1) // WORD
    bits = np.zeros((n_variables, words), dtype=np.uint64)
    for a in range(clique_ptr.size - 1):
        for p in range(clique_ptr[a], clique_ptr[a + 1]):
            i = clique_vars[p]
            if not free[i]:
                continue
            for r in range(clique_ptr[a], clique_ptr[a + 1]):
                j = clique_vars[r]
                if free[j] and j != i:
                    bits[i, j // WORD] |= np.uint64(1) << np.uint64(j % WORD)
    return bits


@kernel
def popcount(word):
    """Number of set bits."""
    x = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    x = x + (x >> np.uint64(8))
    x = x + (x >> np.uint64(16))
    x = x + (x >> np.uint64(32))
    return np.int64(x & np.uint64(0x7F))


@kernel
def members(row, out):
    """Write the positions of the set bits of a row; return how many."""
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
def elimination_scores(bits, v, log_states, around):
    """(edges that eliminating v would add, log of the size of the table it needs)."""
    degree = members(bits[v], around)
    missing = 0
    log_size = log_states[v]
    for k in range(degree):
        u = around[k]
        log_size += log_states[u]
        for w in range(bits.shape[1]):
            missing += popcount(bits[v, w] & ~bits[u, w])
    return (missing - degree) // 2, log_size


@kernel
def greedy_order(bits, free, log_states, weights, rank, max_log_size):
    """Order of the free variables by least weights . (fill, log size of the table, rank).

    Stops at a variable with a table larger than max_log_size, which is then the last entry. Returns
    the order and the log size of every variable's table. Overwrites bits.
    """
    n = bits.shape[0]
    score = np.full(n, np.inf)
    size = np.zeros(n)
    around = np.empty(n, dtype=np.int64)
    second = np.empty(n, dtype=np.int64)
    touched = np.zeros(n, dtype=np.bool_)
    n_free = 0
    for v in range(n):
        if free[v]:
            touched[v] = True
            n_free += 1
    order = np.empty(n_free, dtype=np.int64)
    log_size = np.empty(n_free)
    for step in range(n_free):
        best = -1
        for v in range(n):
            if touched[v]:
                touched[v] = False
                fill, size[v] = elimination_scores(bits, v, log_states, around)
                score[v] = weights[0] * fill + weights[1] * size[v] + weights[2] * rank[v]
            if score[v] < np.inf and (best < 0 or score[v] < score[best]):
                best = v
        order[step] = best
        log_size[step] = size[best]
        if size[best] > max_log_size:
            return order[: step + 1], log_size[: step + 1]
        degree = members(bits[best], around)
        score[best] = np.inf
        for k in range(degree):  # neighbours become a clique without best
            u = around[k]
            for w in range(bits.shape[1]):
                bits[u, w] |= bits[best, w]
            bits[u, u // WORD] &= ~(np.uint64(1) << np.uint64(u % WORD))
            bits[u, best // WORD] &= ~(np.uint64(1) << np.uint64(best % WORD))
        for k in range(degree):
            touched[around[k]] = True
            n_second = members(bits[around[k]], second)
            for r in range(n_second):
                touched[second[r]] = True
    return order, log_size
