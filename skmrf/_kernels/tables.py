"""Log-potentials, weighted counts and index arrays of discrete factor graphs."""

import numpy as np

from ._jit import inlined, kernel


@inlined
def table_index(a, x, clique_ptr, clique_vars, strides, table_start):
    """Return, for joint state x, the index of clique a's entry in the concatenated tables."""
    index = table_start[a]
    for p in range(clique_ptr[a], clique_ptr[a + 1]):
        index += x[clique_vars[p]] * strides[p]
    return index


@inlined
def fill_entries(conditionals, x, entry):
    """Write, for joint state x, the index of each clique's entry in the concatenated tables."""
    for a in range(entry.size):
        entry[a] = table_index(
            a,
            x,
            conditionals.clique_ptr,
            conditionals.clique_vars,
            conditionals.strides,
            conditionals.table_start,
        )


@inlined
def clique_entries(a, XT, clique_ptr, clique_vars, strides, table_start, at):
    """Write, for each joint state, the index of clique a's entry in the concatenated tables.

    ``at[r]`` receives the index for the joint state in column r of XT.
    """
    at[:] = table_start[a]
    for p in range(clique_ptr[a], clique_ptr[a + 1]):
        x = XT[clique_vars[p]]
        stride = strides[p]
        for r in range(at.size):
            at[r] += x[r] * stride


@kernel
def log_potentials(XT, flat, clique_ptr, clique_vars, strides, table_start, out):
    """Write the log-potential of each joint state: the sum of its entries in the tables.

    ``out[r]`` receives the log-potential of the joint state in column r of XT.
    """
    at = np.empty(XT.shape[1], dtype=np.int64)
    out[:] = 0.0
    for a in range(table_start.size):
        clique_entries(a, XT, clique_ptr, clique_vars, strides, table_start, at)
        for r in range(at.size):
            out[r] += flat[at[r]]


@kernel
def add_moments(XT, weights, clique_ptr, clique_vars, strides, table_start, out):
    """Add the weighted count of each table entry of a factor graph to ``out``.

    ``out[e]`` is increased by the sum of the weights of all joint states (columns of XT) that
    select entry e.
    """
    at = np.empty(XT.shape[1], dtype=np.int64)
    for a in range(table_start.size):
        clique_entries(a, XT, clique_ptr, clique_vars, strides, table_start, at)
        for r in range(at.size):
            out[at[r]] += weights[r]


@kernel
def add_binary_moments(gram, total, n_states, clique_ptr, clique_vars, strides, table_start, out):
    """Add the weighted count of each table entry of a binary pairwise factor graph to ``out``.

    ``gram`` is ``X' diag(w) X`` for the states X and the weights w.
    """
    for a in range(table_start.size):
        p = clique_ptr[a]
        start = table_start[a]
        order = clique_ptr[a + 1] - p
        if order == 0:
            out[start] += total
            continue
        i = clique_vars[p]
        step_i = strides[p] * (n_states[i] - 1)
        one_i = gram[i, i]
        if order == 1:
            out[start] += total - one_i
            out[start + step_i] += one_i
            continue
        j = clique_vars[p + 1]
        step_j = strides[p + 1] * (n_states[j] - 1)
        one_j, both = gram[j, j], gram[i, j]
        out[start] += total - one_i - one_j + both
        out[start + step_j] += one_j - both
        out[start + step_i] += one_i - both
        out[start + step_i + step_j] += both


@kernel
def binary_form(flat, n_states, clique_ptr, clique_vars, strides, table_start, coupling, bias):
    """Convert the tables of a binary pairwise factor graph to couplings and biases.

    Returns the constant of ``log f = constant + bias'x + x'coupling x / 2``. Variables with one
    state are always 0, so their terms are 0.
    """
    constant = 0.0
    for a in range(table_start.size):
        p = clique_ptr[a]
        start = table_start[a]
        order = clique_ptr[a + 1] - p
        first_entry = flat[start]
        constant += first_entry
        if order == 0:
            continue
        i = clique_vars[p]
        step_i = strides[p] * (n_states[i] - 1)
        bias[i] += flat[start + step_i] - first_entry
        if order == 1:
            continue
        j = clique_vars[p + 1]
        step_j = strides[p + 1] * (n_states[j] - 1)
        c = (
            flat[start + step_i + step_j]
            - flat[start + step_j]
            - flat[start + step_i]
            + first_entry
        )
        bias[j] += flat[start + step_j] - first_entry
        coupling[i, j] += c
        coupling[j, i] += c
    return constant


def incidence(clique_ptr, clique_vars, strides, n_variables):
    """Return the cliques that contain each variable, in compressed sparse row (CSR) format.

    Returns the row pointers, the cliques, and the strides of the variables in the tables.
    """
    ptr = np.zeros(n_variables + 1, dtype=np.int64)
    np.cumsum(np.bincount(clique_vars, minlength=n_variables), out=ptr[1:])
    clique, stride = (np.empty(len(clique_vars), dtype=np.int32) for _ in range(2))
    write_incidence(clique_ptr, clique_vars, strides, ptr[:-1].copy(), clique, stride)
    return ptr, clique, stride


@kernel
def write_incidence(clique_ptr, clique_vars, strides, at, clique, stride):
    """Write the cliques and strides of each variable, from position ``at`` of the variable on."""
    for a in range(clique_ptr.size - 1):
        for p in range(clique_ptr[a], clique_ptr[a + 1]):
            i = clique_vars[p]
            clique[at[i]] = a
            stride[at[i]] = strides[p]
            at[i] += 1


@inlined
def scale_table(
    a, gradient, frequencies, state_start, curvature, clique_ptr, clique_vars, strides,
    table_start, out,
):  # fmt: skip
    """Divide the gradient of a table by the probabilities of the joint states, plus a curvature."""
    first, last = clique_ptr[a], clique_ptr[a + 1]
    size = 1
    for p in range(first, last):
        size *= state_start[clique_vars[p] + 1] - state_start[clique_vars[p]]
    for k in range(size):
        f, rest, entry = 1.0, k, table_start[a]
        for p in range(first, last):
            start = state_start[clique_vars[p]]
            q = state_start[clique_vars[p] + 1] - start
            f *= frequencies[start + rest % q]
            entry += (rest % q) * strides[p]
            rest //= q
        out[entry] += gradient[entry] / (f + curvature[entry])


@kernel
def precondition_tables(
    gradient, frequencies, state_start, owner, curvature, clique_ptr, clique_vars, strides,
    table_start, out,
):  # fmt: skip
    """Multiply a gradient by the approximate inverse Hessian of a model of independent variables.

    ``frequencies[state_start[i] + s]`` is the probability of state s of variable i, and
    ``owner[i]`` is a clique that has only variable i, or -1. ``curvature`` is added to the diagonal
    of the Hessian. Tables of two variables are centred: the expectation of each row and each column
    is moved to the tables of single variables. They count twice, as in a pseudo-likelihood. ``out``
    must be zero at the start.
    """
    for a in range(table_start.size):
        p, start = clique_ptr[a], table_start[a]
        if clique_ptr[a + 1] - p == 1:
            first = state_start[clique_vars[p]]
            for s in range(state_start[clique_vars[p] + 1] - first):
                entry, f = start + s * strides[p], frequencies[first + s]
                out[entry] += gradient[entry] / (f * (1.0 - f) + curvature[entry])
    for a in range(table_start.size):
        p, start = clique_ptr[a], table_start[a]
        order = clique_ptr[a + 1] - p
        if order == 1:
            continue
        if order != 2 or owner[clique_vars[p]] < 0 or owner[clique_vars[p + 1]] < 0:
            scale_table(a, gradient, frequencies, state_start, curvature, clique_ptr, clique_vars,
                        strides, table_start, out)  # fmt: skip
            continue
        i, j = clique_vars[p], clique_vars[p + 1]
        own_i, own_j = table_start[owner[i]], table_start[owner[j]]
        step_i, step_j = strides[clique_ptr[owner[i]]], strides[clique_ptr[owner[j]]]
        for s in range(state_start[i + 1] - state_start[i]):
            f_i, entry_i = frequencies[state_start[i] + s], own_i + s * step_i
            for t in range(state_start[j + 1] - state_start[j]):
                f_j, entry_j = frequencies[state_start[j] + t], own_j + t * step_j
                entry = start + s * strides[p] + t * strides[p + 1]
                change = gradient[entry] - f_j * gradient[entry_i] - f_i * gradient[entry_j]
                change /= 2.0 * f_i * (1.0 - f_i) * f_j * (1.0 - f_j) + curvature[entry]
                out[entry] += change
                out[entry_i] -= f_j * change
                out[entry_j] -= f_i * change
