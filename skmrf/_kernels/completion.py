"""Modes and sums over the missing entries of single rows, for models with pairwise tables.

The missing variables of a row are numbered from 0 to m - 1. ``fields[0, j, s]`` is the sum of the
table entries of variable j in state s, given the observed variables. ``pairs[j, l, s, t]`` is the
table of two missing variables. A depth-first search fixes the variables in this order. At depth d,
``fields[d]`` also contains the table entries given the d fixed variables. A subtree is skipped if
an upper bound of its log-potentials is too small. The bound replaces each remaining table by its
maximum over one of its two variables.
"""

import numpy as np

from ._jit import copy_into, inlined, kernel
from .exponential import exponential_or_zero
from .ordering import find_components, find_degeneracy, select_component

LOG_GAIN = 6 * np.log(2.0)  # an entry of elimination takes as long as about 100 states here
MAX_SPREAD = 600.0  # nats; exponentials of more overflow
BLOCK_STATES = 512  # joint states whose terms are summed together


@kernel
def _fill_tables(x, variables, m, place, layout, flat, fields, pairs):
    """Write the fields and the tables of the missing variables of a row."""
    n_states, clique_ptr, clique_vars, strides, table_start, ptr, cliques, steps = layout
    for j in range(m):
        i = variables[j]
        for s in range(n_states[i]):
            fields[0, j, s] = 0.0
            for other in range(m):
                pairs[j, other, s, :] = 0.0
    for j in range(m):
        i = variables[j]
        for p in range(ptr[i], ptr[i + 1]):
            a, step = cliques[p], steps[p]
            start, other, step_other = table_start[a], -1, 0
            for k in range(clique_ptr[a], clique_ptr[a + 1]):
                if clique_vars[k] != i:
                    other, step_other = clique_vars[k], strides[k]
            if other >= 0 and x[other] < 0:
                if place[other] > j:
                    for s in range(n_states[i]):
                        for t in range(n_states[other]):
                            entry = flat[start + s * step + t * step_other]
                            pairs[j, place[other], s, t] += entry
            else:
                if other >= 0:
                    start += x[other] * step_other
                for s in range(n_states[i]):
                    fields[0, j, s] += flat[start + s * step]


@kernel
def _centre_tables(m, q, fields, pairs):
    """Subtract the mean over its first variable from each table; add it to the second's field.

    The bounds become tighter. Tables with zero potentials are not changed.
    """
    for j in range(m):
        for other in range(j + 1, m):
            for t in range(q[other]):
                mean = 0.0
                for s in range(q[j]):
                    mean += pairs[j, other, s, t]
                mean /= q[j]
                if mean > -np.inf:
                    fields[0, other, t] += mean
                    for s in range(q[j]):
                        pairs[j, other, s, t] -= mean


@kernel
def _fill_rest(m, q, pairs, rest):
    """Write, for each variable and state, the sum of table maxima over all later variables."""
    for j in range(m):
        for s in range(q[j]):
            rest[j, s] = 0.0
            for other in range(j + 1, m):
                top = -np.inf
                for t in range(q[other]):
                    top = max(top, pairs[j, other, s, t])
                rest[j, s] += top


@inlined
def _bound_of_others(d, m, q, fields, rest):
    """Return an upper bound on the log-potential of all variables after d."""
    total = 0.0
    for j in range(d + 1, m):
        top = -np.inf
        for s in range(q[j]):
            top = max(top, fields[d, j, s] + rest[j, s])
        total += top
    return total


@inlined
def _fix_state(d, s, m, q, fields, pairs):
    """Write the fields of depth d + 1: variable d has the state s."""
    for j in range(d + 1, m):
        for t in range(q[j]):
            fields[d + 1, j, t] = fields[d, j, t] + pairs[d, j, s, t]


@kernel
def _sort_states(d, q, fields, rest, order):
    """Write the states of variable d in the order of decreasing upper bounds."""
    for s in range(q[d]):
        k = s
        while k > 0:
            before = order[d, k - 1]
            if fields[d, d, before] + rest[d, before] >= fields[d, d, s] + rest[d, s]:
                break
            order[d, k] = before
            k -= 1
        order[d, k] = s


@kernel
def _search_mode(m, q, fields, pairs, rest, limit, best):
    """Write the states of highest log-potential to ``best``.

    Returns the log-potential without the tables of observed variables, and the work in table
    entries. The search stops if the work exceeds ``limit``.
    """
    order = np.empty((m, fields.shape[2]), np.int64)
    at, states = np.zeros(m, np.int64), np.empty(m, np.int64)
    base, others = np.zeros(m + 1), np.empty(m)
    top, work, d, entered = -np.inf, 0, 0, True
    while d >= 0 and work <= limit:
        if entered:
            _sort_states(d, q, fields, rest, order)
            others[d] = _bound_of_others(d, m, q, fields, rest)
            work += (m - d) * q[d]
            at[d], entered = 0, False
        s = order[d, min(at[d], q[d] - 1)]
        bound = base[d] + fields[d, d, s] + rest[d, s] + others[d]
        if at[d] == q[d] or bound <= top:
            d -= 1
            continue
        at[d] += 1
        states[d] = s
        if d == m - 1:
            top = bound
            copy_into(states, best[:m])
        else:
            base[d + 1] = base[d] + fields[d, d, s]
            _fix_state(d, s, m, q, fields, pairs)
            work += (m - d) * q[d]
            d, entered = d + 1, True
    return top, work


@inlined
def _largest(values, n):
    """Return the largest of the first n values."""
    top = values[0]
    for s in range(1, n):
        top = max(top, values[s])
    return top


@kernel
def _spread(table, n_rows, n_columns):
    """Return the difference between the largest and the smallest entry of a table."""
    top, bottom = -np.inf, np.inf
    for s in range(n_rows):
        for t in range(n_columns):
            top, bottom = max(top, table[s, t]), min(bottom, table[s, t])
    return top - bottom


@kernel
def _first_of_block(m, q, pairs):
    """Return the first variable of the block: the last variables, whose states are summed together.

    A block has one variable, or at most ``BLOCK_STATES`` joint states of variables with two or more
    states.
    """
    first, size, spread = m - 1, q[m - 1], 0.0
    while first > 0:
        size *= q[first - 1]
        for j in range(first, m):
            spread += _spread(pairs[first - 1, j], q[first - 1], q[j])
        if size > BLOCK_STATES or spread > MAX_SPREAD or q[first - 1] == 1:
            break
        first -= 1
    return first


@kernel
def _fill_block(first, m, q, pairs, table, row):
    """Write the exponentials of the log-potentials between the variables of the block.

    The table has one entry for each joint state, and the last variable varies fastest. Returns the
    number of entries, and the log of the scale by which all of them are divided.
    """
    table[0], size = 0.0, 1
    for j in range(m - 1, first - 1, -1):
        for s in range(q[j] - 1, -1, -1):
            row[0], filled = 0.0, 1
            for later in range(m - 1, j, -1):
                for t in range(q[later] - 1, -1, -1):
                    for k in range(filled):
                        row[t * filled + k] = row[k] + pairs[j, later, s, t]
                filled *= q[later]
            for k in range(size):
                table[s * size + k] = table[k] + row[k]
        size *= q[j]
    scale = _largest(table, size)
    for k in range(size):
        table[k] = exponential_or_zero(table[k] - scale)
    return size, scale


@kernel
def _sum_block(first, m, q, size, fields, levels, weights):
    """Sum the table of the block, weighted by exponentials of the fields, variable by variable.

    ``levels`` has the table and, after it, the sums over the first variable, over the first two,
    and so on. Returns the position of the sum over all variables, and the log of its scale.
    """
    start, scale = 0, 0.0
    for j in range(first, m):
        top = _largest(fields[j], q[j])
        scale += top
        end, size = start + size, size // q[j]
        out = levels[end : end + size]
        for s in range(q[j]):
            weights[j, s] = exponential_or_zero(fields[j, s] - top)
            entries = levels[start + s * size : start + (s + 1) * size]
            if s == 0:
                for k in range(size):
                    out[k] = weights[j, s] * entries[k]
            else:
                for k in range(size):
                    out[k] += weights[j, s] * entries[k]
        start = end
    return start, scale


@kernel
def _add_block_marginals(first, m, q, start, levels, weights, products, scale, singles):
    """Add the unnormalised marginals of the variables of the block to ``singles``."""
    products[0], size = scale, 1
    for j in range(m - 1, first - 1, -1):
        start -= size * q[j]
        for s in range(q[j] - 1, -1, -1):
            entries, total = levels[start + s * size : start + (s + 1) * size], 0.0
            for k in range(size):
                total += entries[k] * products[k]
            singles[j, s] += weights[j, s] * total
            if j > first:
                for k in range(size):
                    products[s * size + k] = weights[j, s] * products[k]
        size *= q[j]


@kernel
def _draw_block(first, m, q, start, levels, weights, uniform, states):
    """Draw the states of the variables of the block, after :func:`_sum_block`."""
    at, size = 0, 1
    for j in range(m - 1, first - 1, -1):
        start -= size * q[j]
        total = 0.0
        for s in range(q[j]):
            total += weights[j, s] * levels[start + s * size + at]
        rest, drawn = uniform * total, 0
        for s in range(q[j]):
            part = weights[j, s] * levels[start + s * size + at]
            if part > 0.0:
                drawn = s
                uniform = min(rest / part, 1.0)
                if rest < part:
                    break
                rest -= part
        states[j] = drawn
        at += drawn * size
        size *= q[j]


@kernel
def _sum_states(m, q, fields, pairs, rest, top, lowest, target, block, singles, states):
    """Return the sum of exp(log-potential - top) over states, and the work in table entries.

    Subtrees whose upper bound is below ``lowest`` are skipped. The unnormalised marginals are
    written to ``singles``, unless it is empty. The sum stops when it exceeds ``target``; ``states``
    are then the states of the variables before the block. Returns also the position of the sum of
    the last block in ``levels``.
    """
    first, size, shift, levels, weights, products = block
    at, has_marginals = np.full(m, -1, np.int64), len(singles) > 0
    base, others, before = np.zeros(m + 1), np.empty(m), np.zeros(m)
    total, work, d, start, entered = 0.0, 0, 0, 0, True
    singles[:m] = 0.0
    while d >= 0:
        if d == first:
            start, scale = _sum_block(first, m, q, size, fields[d], levels, weights)
            scale = np.exp(base[d] + scale + shift - top)
            total += scale * levels[start]
            work += size
            if has_marginals:
                given = levels, weights, products
                _add_block_marginals(first, m, q, start, *given, scale, singles)
            if total > target:
                break
            d, entered = d - 1, False
            continue
        if entered:
            others[d] = _bound_of_others(d, m, q, fields, rest)
            work += (m - d) * q[d]
            at[d], entered = -1, False
        elif has_marginals and at[d] >= 0:
            singles[d, at[d]] += total - before[d]
        at[d] += 1
        if at[d] == q[d]:
            d -= 1
            continue
        s, before[d] = at[d], total
        if base[d] + fields[d, d, s] + rest[d, s] + others[d] >= lowest:
            states[d] = s
            base[d + 1] = base[d] + fields[d, d, s]
            _fix_state(d, s, m, q, fields, pairs)
            work += (m - d) * q[d]
            d, entered = d + 1, True
    return total, work, start


@kernel
def _order_variables(m, q, variables, fields, place):
    """Sort the missing variables: first those whose states differ most in log-potential."""
    leads = np.empty(m)
    for j in range(m):
        first, second = -np.inf, -np.inf
        for s in range(q[variables[j]]):
            value = fields[0, j, s]
            if value > first:
                first, second = value, first
            elif value > second:
                second = value
        leads[j] = first - second if second > -np.inf else np.inf
    for j in range(1, m):  # insertion sort; np.argsort would take seconds to compile
        i, size, k = variables[j], leads[j], j
        while k > 0 and leads[k - 1] < size:
            variables[k], leads[k] = variables[k - 1], leads[k - 1]
            k -= 1
        variables[k], leads[k] = i, size
    for j in range(m):
        place[variables[j]] = j


@kernel
def _load_tables(x, m, layout, flat, variables, place, q, fields, pairs, rest):
    """Write the tables of m missing variables, which do not interact with other missing ones."""
    for j in range(m):
        place[variables[j]] = j
    n_states = layout[0]
    _fill_tables(x, variables, m, place, layout, flat, fields, pairs)
    _order_variables(m, n_states, variables, fields, place)
    _fill_tables(x, variables, m, place, layout, flat, fields, pairs)
    for j in range(m):
        q[j] = n_states[variables[j]]
    _centre_tables(m, q, fields, pairs)
    _fill_rest(m, q, pairs, rest)


@kernel
def _can_sum(m, q, variables, component, layout, limits):
    """Return whether to sum over all states of a component, instead of eliminating variables.

    The largest table of elimination has at least 1 + degeneracy variables.
    """
    log_size = 0.0
    for j in range(m):
        log_size += np.log(q[j])
    if log_size <= limits[1] or log_size > limits[2]:
        return log_size <= limits[1]
    n_together = 1 + find_degeneracy(variables, m, component, layout)
    return log_size <= LOG_GAIN + log_size * n_together / m


@kernel
def _sum_component(m, q, fields, pairs, rest, top, tolerance, uniform, arrays, sums, best):
    """Return the sum over the states of a component, relative to the mode, and the work.

    The unnormalised marginals are written to ``sums``, unless it is empty. With two uniform random
    numbers, drawn states replace the mode in ``best``.
    """
    lowest = top - tolerance
    for j in range(m):
        lowest -= np.log(q[j])
    first = _first_of_block(m, q, pairs)
    levels, weights, products = arrays
    size, shift = _fill_block(first, m, q, pairs, levels, products)
    given = m, q, fields, pairs, rest, top, lowest
    block = first, size, shift, levels, weights, products
    total, work, _ = _sum_states(*given, np.inf, block, sums, np.empty(m, np.int64))
    if len(uniform):
        _, more, end = _sum_states(*given, uniform[0] * total, block, sums, best)
        _draw_block(first, m, q, end, levels, weights, uniform[1], best)
        work += more
    return total, work


@kernel
def impute_rows(
    X, first, layout, flat, m_max, limits, budget, uniforms, tolerance, totals, singles
):
    """Impute the missing entries of rows of X in place, from row ``first``.

    The connected components of the missing variables are imputed one after the other.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes; negative where an entry is missing.
    first : int
        First row.
    layout : tuple of ndarrays
        Numbers of states, cliques, strides and starts of the tables, and their incidence.
    flat : ndarray of shape (n_parameters,)
        Log-potentials of all tables.
    m_max : int
        Largest number of missing entries of a row.
    limits : tuple of float
        Largest number of table entries of the search of a mode, the log of the number of states
        that are always summed, and that of states that are summed if elimination is not faster.
        Rows that need more are not changed.
    budget : float
        Number of table entries after which the kernel returns.
    uniforms : ndarray of shape (n_rows, m_max, 2) or (0, 0, 0)
        Uniform random numbers of draws. Without them rows are imputed by their modes.
    tolerance : float
        States whose log-potential is lower than that of the mode by more than ``tolerance`` and the
        logarithm of the number of states are ignored in sums. A negative tolerance: no sums.
    totals : ndarray of shape (n_rows,)
        The log of the sum over the states of the missing entries, minus the log-potential of the
        mode, is written to it, or 0 without sums. nan for rows that are not changed.
    singles : ndarray of shape (n_rows, n_variables, n_slots) or (0, 0, 0)
        Marginals of the missing entries are written to it.

    Returns
    -------
    int
        The next row.
    """
    n, n_slots = X.shape[1], layout[0].max()
    missing, component = np.empty(n, np.int64), np.empty(n, np.int64)
    variables, place, q = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(m_max, np.int64)
    fields = np.empty((m_max + 1, m_max, n_slots))
    pairs, rest = np.empty((m_max, m_max, n_slots, n_slots)), np.empty((m_max, n_slots))
    best, found, none = np.empty(m_max, np.int64), np.empty(n, np.int64), np.empty(0)
    sums, n_entries = np.empty((m_max if len(singles) else 0, n_slots)), max(BLOCK_STATES, n_slots)
    arrays = np.empty(2 * n_entries), np.empty((m_max, n_slots)), np.empty(n_entries)
    done, r = 0.0, first
    while r < len(X) and done <= budget:
        n_missing, n_components = find_components(X[r], layout, missing, component)
        totals[r] = 0.0
        for c in range(n_components):
            m = select_component(c, missing, n_missing, component, variables)
            _load_tables(X[r], m, layout, flat, variables, place, q, fields, pairs, rest)
            is_possible = tolerance < 0 or _can_sum(m, q, variables, component, layout, limits)
            top = -np.inf
            if is_possible:
                top, work = _search_mode(m, q, fields, pairs, rest, limits[0], best)
                done += work
                is_possible = work <= limits[0]
            if not is_possible or top == -np.inf:
                totals[r] = np.nan
                break
            if tolerance >= 0:
                uniform = uniforms[r, c] if len(uniforms) else none
                tables = m, q, fields, pairs, rest, top, tolerance
                total, work = _sum_component(*tables, uniform, arrays, sums, best)
                done += work
                totals[r] += np.log(total)
                for j in range(m if len(singles) else 0):
                    singles[r, variables[j], : q[j]] = sums[j, : q[j]] / total
            for j in range(m):
                found[variables[j]] = best[j]
        if not np.isnan(totals[r]):
            for j in range(n_missing):
                X[r, missing[j]] = found[missing[j]]
        r += 1
    return r
