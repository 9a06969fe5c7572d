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
def inverse_or_zero(value):
    """Return 1 / value, or 0 if the value (a curvature) is at most 1e-12."""
    return 1.0 / value if value > 1e-12 else 0.0


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
        out[entry] += gradient[entry] * inverse_or_zero(f + curvature[entry])


@kernel
def precondition_singles(
    gradient, values, vectors, vector_start, state_start, curvature, clique_ptr, clique_vars,
    strides, table_start, out,
):  # fmt: skip
    """Multiply the gradients of tables of one variable by the inverse of their Hessian.

    The Hessian of variable i has the eigenvalues ``values[state_start[i]:]``, increased by
    ``curvature``, and the eigenvectors in the rows of a matrix that starts at
    ``vectors[vector_start[i]]``, or -1 if there is none. The results are added to ``out``.
    """
    for a in range(table_start.size):
        p, start = clique_ptr[a], table_start[a]
        if clique_ptr[a + 1] - p != 1 or vector_start[clique_vars[p]] < 0:
            continue
        i = clique_vars[p]
        q = state_start[i + 1] - state_start[i]
        for k in range(q):
            row = vector_start[i] + k * q
            total = 0.0
            for s in range(q):
                total += vectors[row + s] * gradient[start + s * strides[p]]
            total *= inverse_or_zero(values[state_start[i] + k] + curvature[start])
            for s in range(q):
                out[start + s * strides[p]] += total * vectors[row + s]


@inlined
def multiply(left, matrix, right, work):
    """Replace a matrix by the product of three matrices, left @ matrix @ right."""
    q, r = matrix.shape
    for k in range(q):
        for t in range(r):
            work[k, t] = 0.0
        for s in range(q):
            for t in range(r):
                work[k, t] += left[k, s] * matrix[s, t]
    for k in range(q):
        for m in range(r):
            matrix[k, m] = 0.0
        for t in range(r):
            for m in range(r):
                matrix[k, m] += work[k, t] * right[t, m]


@inlined
def scale_binary_pair(matrix, value, curvature):
    """Multiply a centred gradient of two binary variables by the inverse of its Hessian.

    The eigenvectors are products of (1, 1) and (1, -1). The only nonzero eigenvalue is that of the
    product of the two differences, ``value``.
    """
    a, b, c, d = matrix[0, 0], matrix[0, 1], matrix[1, 0], matrix[1, 1]
    rest = inverse_or_zero(curvature)
    shift = 0.25 * (inverse_or_zero(value + curvature) - rest) * (a - b - c + d)
    matrix[0, 0], matrix[0, 1] = rest * a + shift, rest * b - shift
    matrix[1, 0], matrix[1, 1] = rest * c - shift, rest * d + shift


@kernel
def precondition_pairs(
    gradient, frequencies, values, vectors, transposed, vector_start, owner, state_start, curvature,
    clique_ptr, clique_vars, strides, table_start, out,
):  # fmt: skip
    """Multiply the gradients of tables of several variables by an approximate inverse Hessian.

    Tables of two variables are centred: the expectations of their rows and columns are moved to the
    tables of the single variables, ``owner``. Their Hessian has products of the eigenvalues of both
    variables, which count twice, as in a pseudo-likelihood. ``transposed`` has the transposes of
    the matrices of eigenvectors in ``vectors``. Other tables are only scaled.
    """
    matrix, work = np.empty((0, 0)), np.empty((0, 0))
    for a in range(table_start.size):
        p, start = clique_ptr[a], table_start[a]
        order = clique_ptr[a + 1] - p
        if order == 1 and vector_start[clique_vars[p]] >= 0:
            continue
        if order != 2 or owner[clique_vars[p]] < 0 or owner[clique_vars[p + 1]] < 0:
            scale_table(a, gradient, frequencies, state_start, curvature, clique_ptr, clique_vars,
                        strides, table_start, out)  # fmt: skip
            continue
        i, j = clique_vars[p], clique_vars[p + 1]
        q, r = state_start[i + 1] - state_start[i], state_start[j + 1] - state_start[j]
        own_i, own_j = table_start[owner[i]], table_start[owner[j]]
        step_i, step_j = strides[clique_ptr[owner[i]]], strides[clique_ptr[owner[j]]]
        if matrix.shape[0] != q or matrix.shape[1] != r:
            matrix, work = np.empty((q, r)), np.empty((q, r))
        for s in range(q):
            for t in range(r):
                matrix[s, t] = (
                    gradient[start + s * strides[p] + t * strides[p + 1]]
                    - frequencies[state_start[j] + t] * gradient[own_i + s * step_i]
                    - frequencies[state_start[i] + s] * gradient[own_j + t * step_j]
                )
        if q == 2 and r == 2:
            value = 2.0 * values[state_start[i] + 1] * values[state_start[j] + 1]
            scale_binary_pair(matrix, value, curvature[start])
        else:
            at_i, at_j = vector_start[i], vector_start[j]
            left, right = vectors[at_i : at_i + q * q], vectors[at_j : at_j + r * r]
            left_t, right_t = transposed[at_i : at_i + q * q], transposed[at_j : at_j + r * r]
            multiply(left.reshape(q, q), matrix, right_t.reshape(r, r), work)
            for k in range(q):
                for m in range(r):
                    value = 2.0 * values[state_start[i] + k] * values[state_start[j] + m]
                    matrix[k, m] *= inverse_or_zero(value + curvature[start])
            multiply(left_t.reshape(q, q), matrix, right.reshape(r, r), work)
        for s in range(q):
            for t in range(r):
                change = matrix[s, t]
                out[start + s * strides[p] + t * strides[p + 1]] += change
                out[own_i + s * step_i] -= frequencies[state_start[j] + t] * change
                out[own_j + t * step_j] -= frequencies[state_start[i] + s] * change
