"""Log-potentials, counts of states, index arrays and Gibbs sweeps of discrete factor graphs."""

import numpy as np

from ._jit import (
    LANES,
    assume_distinct,
    borrowed,
    inlined,
    kernel,
    load,
    multiply_add,
    spread,
    store,
    subkernel,
)
from .elimination import draw_categorical

MAX_COUNT = 2**15  # that an integer of 16 bits can hold


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
def padded_size(n):
    """Return a number of states rounded up to a multiple of four."""
    return (n + LANES - 1) // LANES * LANES


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
    ``vectors[vector_start[i]]``, or -1 if there is none. The results are added to ``out``. The rows
    have further zeros, so that their length is a multiple of four.
    """
    for a in range(table_start.size):
        p, start = clique_ptr[a], table_start[a]
        if clique_ptr[a + 1] - p != 1 or vector_start[clique_vars[p]] < 0:
            continue
        i = clique_vars[p]
        q = state_start[i + 1] - state_start[i]
        for k in range(q):
            row = vector_start[i] + k * padded_size(q)
            total = 0.0
            for s in range(q):
                total += vectors[row + s] * gradient[start + s * strides[p]]
            total *= inverse_or_zero(values[state_start[i] + k] + curvature[start])
            for s in range(q):
                out[start + s * strides[p]] += total * vectors[row + s]


@kernel
def multiply(left, n_rows, left_length, right, inner, length, out):
    """Write a product of matrices whose entries are contiguous arrays of one dimension.

    ``left`` has ``n_rows`` rows of ``left_length`` entries, ``right`` and ``out`` have rows of
    ``length`` entries, and ``inner`` products are added. Except ``inner``, the numbers are
    multiples of four.
    """
    assume_distinct()
    left, right, out = borrowed(left), borrowed(right), borrowed(out)
    for k in range(0, n_rows * left_length, LANES * left_length):
        for t in range(0, length, LANES):
            a = b = c = d = spread(0.0)
            for s in range(inner):
                x = load(right, s * length + t)
                a = multiply_add(spread(left[k + s]), x, a)
                b = multiply_add(spread(left[k + left_length + s]), x, b)
                c = multiply_add(spread(left[k + 2 * left_length + s]), x, c)
                d = multiply_add(spread(left[k + 3 * left_length + s]), x, d)
            row = (k // left_length) * length + t
            store(out, row, a)
            store(out, row + length, b)
            store(out, row + 2 * length, c)
            store(out, row + 3 * length, d)


@inlined
def precondition_binary_pair(
    start, step_i, step_j, at_i, at_j, gradient, singles, frequencies, value, curvature, out, moved
):
    """Multiply the gradient of a table of two binary variables by the inverse of its Hessian.

    The eigenvectors are products of (1, 1) and (1, -1). The only nonzero eigenvalue is that of the
    product of the two differences, ``value``. Arguments are as in :func:`precondition_pairs`.
    """
    p, q, r, s = (frequencies[at_i], frequencies[at_i + 1], frequencies[at_j],
                  frequencies[at_j + 1])  # fmt: skip
    i0, i1, j0, j1 = singles[at_i], singles[at_i + 1], singles[at_j], singles[at_j + 1]
    a = gradient[start] - r * i0 - p * j0
    b = gradient[start + step_j] - s * i0 - p * j1
    c = gradient[start + step_i] - r * i1 - q * j0
    d = gradient[start + step_i + step_j] - s * i1 - q * j1
    rest = inverse_or_zero(curvature)
    shift = 0.25 * (inverse_or_zero(value + curvature) - rest) * (a - b - c + d)
    a, b, c, d = rest * a + shift, rest * b - shift, rest * c - shift, rest * d + shift
    out[start], out[start + step_j] = a, b
    out[start + step_i], out[start + step_i + step_j] = c, d
    moved[at_i] += r * a + s * b
    moved[at_i + 1] += r * c + s * d
    moved[at_j] += p * a + q * c
    moved[at_j + 1] += p * b + q * d


@kernel
def precondition_pairs(
    first, last, gradient, singles, is_centred, frequencies, values, vectors, transposed,
    vector_start, state_start, curvature, clique_ptr, clique_vars, strides, table_start, out, moved,
):  # fmt: skip
    """Multiply the gradients of some tables of several variables by an approximate inverse Hessian.

    The tables are those of the cliques first, first + 1, ..., last - 1. Tables of two variables are
    centred: the expectations of their rows and columns are moved to the tables of the single
    variables, whose gradients are in ``singles``, by state. The sum of the steps that move is added
    to ``moved``. Their Hessian has products of the eigenvalues of both variables, which count
    twice, as in a pseudo-likelihood. ``vectors`` has the eigenvectors of each variable in the rows
    of a matrix, whose sides are rounded up to a multiple of four by zeros, and ``transposed`` has
    the transposes. Other tables are only scaled.
    """
    most = 0
    for i in range(is_centred.size):
        if is_centred[i]:
            most = max(most, padded_size(state_start[i + 1] - state_start[i]))
    matrix, work = np.zeros(most**2), np.zeros(most**2)
    for a in range(first, last):
        p, start = clique_ptr[a], table_start[a]
        order = clique_ptr[a + 1] - p
        if order == 1 and vector_start[clique_vars[p]] >= 0:
            continue
        if order != 2 or not (is_centred[clique_vars[p]] and is_centred[clique_vars[p + 1]]):
            scale_table(a, gradient, frequencies, state_start, curvature, clique_ptr, clique_vars,
                        strides, table_start, out)  # fmt: skip
            continue
        i, j = clique_vars[p], clique_vars[p + 1]
        at_i, at_j = state_start[i], state_start[j]
        q, r = state_start[i + 1] - at_i, state_start[j + 1] - at_j
        step_i, step_j = strides[p], strides[p + 1]
        if q == 2 and r == 2:
            value = 2.0 * values[at_i + 1] * values[at_j + 1]
            precondition_binary_pair(start, step_i, step_j, at_i, at_j, gradient, singles,
                                     frequencies, value, curvature[start], out, moved)  # fmt: skip
            continue
        Q, R = padded_size(q), padded_size(r)
        for s in range(q):
            for t in range(r):
                matrix[s * R + t] = (
                    gradient[start + s * step_i + t * step_j]
                    - frequencies[at_j + t] * singles[at_i + s]
                    - frequencies[at_i + s] * singles[at_j + t]
                )
            matrix[s * R + r : (s + 1) * R] = 0.0
        own_i = slice(vector_start[i], vector_start[i] + Q * Q)
        own_j = slice(vector_start[j], vector_start[j] + R * R)
        multiply(vectors[own_i], Q, Q, matrix, q, R, work)
        multiply(work, Q, R, transposed[own_j], r, R, matrix)
        for s in range(q):
            for t in range(r):
                value = 2.0 * values[at_i + s] * values[at_j + t]
                matrix[s * R + t] *= inverse_or_zero(value + curvature[start])
        multiply(transposed[own_i], Q, Q, matrix, q, R, work)
        multiply(work, Q, R, vectors[own_j], r, R, matrix)
        for s in range(q):
            total = 0.0
            for t in range(r):
                change = matrix[s * R + t]
                out[start + s * step_i + t * step_j] = change
                total += frequencies[at_j + t] * change
                moved[at_j + t] += frequencies[at_i + s] * change
            moved[at_i + s] += total


@kernel
def count_changes(before, after):
    """Return the number of entries in which two vectors of state codes differ."""
    total = 0
    for start in range(0, before.size, MAX_COUNT):
        x, y = before[start : start + MAX_COUNT], after[start : start + MAX_COUNT]
        count = np.uint16(0)  # a counter of the size of the codes makes the loop faster
        for i in range(x.size):
            count = np.uint16(count + np.uint16(x[i] != y[i]))
        total += np.int64(count)
    return total


@kernel
def sweep_tables(
    conditionals, reference, reference_start, betas, order, X, clamped, log_weights, rng
):
    """Run Gibbs sweeps on a factor graph whose cliques can have any size.

    The log-probabilities of variable i in the reference start at ``reference[reference_start[i]]``.
    """
    scores = np.empty(conditionals.n_states.max() if X.shape[1] > 0 else 1)
    entry = np.empty(conditionals.table_start.size, dtype=np.int64)
    masked = clamped.shape[0] > 0
    for c in range(X.shape[0]):
        fixed = clamped[c] if masked else clamped[:0].reshape(-1)
        log_weights[c] += sweep_chain(
            conditionals, reference, reference_start, betas, order, X[c], fixed, scores, entry, rng
        )


@subkernel
def sweep_chain(
    conditionals, reference, reference_start, betas, order, x, fixed, scores, entry, rng
):
    """Run Gibbs sweeps on one chain, and return the increase of its log-weight.

    ``fixed`` is empty if no variable is clamped. ``scores`` and ``entry`` are scratch.
    """
    assume_distinct()
    conditionals, order, x, fixed, scores, entry = borrowed(
        (conditionals, order, x, fixed, scores, entry)
    )
    reference, reference_start = borrowed(reference), borrowed(reference_start)
    log_weight = 0.0
    fill_entries(conditionals, x, entry)
    for t in range(betas.size - 1):
        beta = betas[t + 1]
        if beta != betas[t]:
            total = 0.0
            for a in range(entry.size):
                total += conditionals.flat[entry[a]]
            for i in range(x.size):
                total -= reference[reference_start[i] + x[i]]
            log_weight += (beta - betas[t]) * total
        for place in range(order.size):
            i = order[place]
            q = conditionals.n_states[i]
            if q == 1 or (fixed.size > 0 and fixed[i]):
                continue
            update_site(
                conditionals, reference, reference_start[i], beta, i, q, x, entry, scores, rng
            )
    return log_weight


@inlined
def update_site(conditionals, reference, reference_at, beta, i, q, x, entry, scores, rng):
    """Draw a state of variable i given all others; update the index of each clique's table entry.

    ``entry`` contains the index of the current table entry of each clique.
    """
    # Indices are unsigned, because signed ones are checked for negative numbers.
    flat, cliques, strides = conditionals.flat, conditionals.var_clique, conditionals.var_stride
    old = x[i]
    first, last = conditionals.var_ptr[i], conditionals.var_ptr[i + 1]
    if q == 2:
        zero, one = 0.0, 0.0
        for e in range(first, last):
            step = np.uint64(strides[e])
            at = np.uint64(entry[np.uint64(cliques[e])]) - np.uint64(old) * step
            zero += flat[at]
            one += flat[at + step]
        scores[0], scores[1] = zero, one
    else:
        for s in range(q):
            scores[s] = 0.0
        for e in range(first, last):
            step = np.uint64(strides[e])
            at = np.uint64(entry[np.uint64(cliques[e])]) - np.uint64(old) * step
            for s in range(q):
                scores[s] += flat[at + np.uint64(s) * step]
    top = -np.inf
    for s in range(q):
        if beta == 0.0:
            scores[s] = reference[reference_at + s]
        elif beta != 1.0:
            scores[s] = beta * scores[s] + (1.0 - beta) * reference[reference_at + s]
        top = max(top, scores[s])
    u = rng.random()
    if top == -np.inf:  # the current state has probability zero, so all states are equally good
        new = min(int(u * q), q - 1)
    elif q == 2:
        new = 1 if u * (1.0 + np.exp(scores[0] - scores[1])) < 1.0 else 0
    else:
        new = draw_categorical(scores[:q], top, u)
    if new != old:
        x[i] = new
        for e in range(first, last):
            entry[np.uint64(cliques[e])] += (new - old) * strides[e]
