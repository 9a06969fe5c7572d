"""Products of single distributions: expected log-potentials, and coordinate ascent on their bound.

``single[single_start[i] + s]`` is the probability of state s of variable i. Zero potentials are
counted apart from finite log-potentials, as their probability under the product.
"""

import numpy as np

from ._jit import inlined, kernel

RELATIVE = 1.0 + 1e-12  # masses that differ by less than rounding are the same


@inlined
def joint(a, skipped, n_states, clique_ptr, clique_vars, single, single_start, out):
    """Probabilities of the joint states of clique a without a variable; how many they are."""
    out[0] = 1.0
    filled = 1
    for p in range(clique_ptr[a + 1] - 1, clique_ptr[a] - 1, -1):
        i = clique_vars[p]
        q = n_states[i]
        if i == skipped or q == 1:
            continue
        at = single_start[i]
        for s in range(q - 1, -1, -1):
            for r in range(filled):
                out[s * filled + r] = out[r] * single[at + s]
        filled *= q
    return filled


@kernel
def ascend(tables, single_start, first, last, n_sweeps, tol, buffer, single):
    """Sweeps over variables first .. last - 1 until none changes a probability by more than tol.

    Changes single in place; buffer holds a table without one variable. Returns the number of
    sweeps and the largest change in the last one.
    """
    largest = tables.n_states.max() if tables.n_states.size > 0 else 1
    zero = np.empty(largest)
    field = np.empty(largest)
    change = 0.0
    for t in range(n_sweeps):
        change = 0.0
        for i in range(first, last):
            q = tables.n_states[i]
            if q > 1:
                fill_field(tables, i, single, single_start, buffer, zero, field)
                own = single[single_start[i] : single_start[i] + q]
                change = max(change, replace(zero, field, own))
        if change <= tol:
            return t + 1, change
    return n_sweeps, change


@inlined
def fill_field(tables, i, single, single_start, buffer, zero, field):
    """For every state of i: the mass on zero potentials, and the expected finite ones."""
    q = tables.n_states[i]
    zero[:q] = 0.0
    field[:q] = 0.0
    for e in range(tables.var_ptr[i], tables.var_ptr[i + 1]):
        a = tables.var_clique[e]
        stride = tables.var_stride[e]
        others = joint(
            a,
            i,
            tables.n_states,
            tables.clique_ptr,
            tables.clique_vars,
            single,
            single_start,
            buffer,
        )
        at = tables.table_start[a]
        for outer in range(0, others, stride):
            for s in range(q):
                for inner in range(outer, outer + stride):
                    if tables.flat[at] == -np.inf:
                        zero[s] += buffer[inner]
                    else:
                        field[s] += buffer[inner] * tables.flat[at]
                    at += 1


@inlined
def replace(zero, field, own):
    """Softmax of the field over the states of least zero mass; the largest change."""
    least = np.inf
    for s in range(own.size):
        least = min(least, zero[s])
    top = -np.inf
    for s in range(own.size):
        if zero[s] <= least * RELATIVE:
            top = max(top, field[s])
        else:
            field[s] = -np.inf
    total = 0.0
    for s in range(own.size):
        field[s] = np.exp(field[s] - top)
        total += field[s]
    change = 0.0
    for s in range(own.size):
        new = field[s] / total
        change = max(change, abs(new - own[s]))
        own[s] = new
    return change


@kernel
def expected_log_potential(tables, single_start, single, buffer):
    """Mass on zero potentials, and the expected sum of the finite ones, under the product."""
    zero = 0.0
    total = 0.0
    for a in range(tables.table_start.size):
        size = joint(
            a,
            -1,
            tables.n_states,
            tables.clique_ptr,
            tables.clique_vars,
            single,
            single_start,
            buffer,
        )
        start = tables.table_start[a]
        for r in range(size):
            value = tables.flat[start + r]
            if value == -np.inf:
                zero += buffer[r]
            else:
                total += buffer[r] * value
    return zero, total


@kernel
def add_products(single, single_start, n_states, clique_ptr, clique_vars, table_start, buffer, out):
    """out[e] += probability of the joint state of entry e under the product."""
    for a in range(table_start.size):
        size = joint(a, -1, n_states, clique_ptr, clique_vars, single, single_start, buffer)
        for r in range(size):
            out[table_start[a] + r] += buffer[r]
