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

MAX_SPREAD = 600.0  # nats; exponentials of more overflow


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
def _weigh_pair(first, second, table, q_first, q_second, weights, columns):
    """Write the sums of exp(first[s] + second[t] + table[s, t]) over t, and those over s.

    They are ``weights[s]`` and ``columns[t]``, divided by the exponential of the number that is
    returned.
    """
    top, other = _largest(first, q_first), _largest(second, q_second)
    for t in range(q_second):
        columns[t] = np.exp(second[t] - other)
        weights[q_first + t] = 0.0
    for s in range(q_first):
        outer, total = np.exp(first[s] - top), 0.0
        for t in range(q_second):
            entry = outer * table[s, t]
            total += entry * columns[t]
            weights[q_first + t] += entry
        weights[s] = total
    for t in range(q_second):
        columns[t] *= weights[q_first + t]
    return top + other


@kernel
def _sum_states(m, q, fields, pairs, rest, top, lowest, target, singles, states):
    """Return the sum of exp(log-potential - top) over states, and the work in table entries.

    Subtrees whose upper bound is below ``lowest`` are skipped. The unnormalised marginals are
    written to ``singles``. The sum stops when it exceeds ``target``; ``states`` are then the states
    of all variables but the last two. The last two variables are summed together, with few
    exponentials: a table of them is exponentiated once.
    """
    n_slots = fields.shape[2]
    at, last = np.full(m, -1, np.int64), max(m - 2, 0)
    base, others, before = np.zeros(m + 1), np.empty(m), np.zeros(m)
    table, none = np.ones((n_slots, n_slots)), np.zeros(1)
    weights, columns = np.empty(2 * n_slots), np.empty(n_slots)
    shift = 0.0
    if m > 1:
        for s in range(q[last]):
            shift = max(shift, _largest(pairs[last, m - 1, s], q[m - 1]))
        for s in range(q[last]):
            for t in range(q[m - 1]):
                table[s, t] = np.exp(pairs[last, m - 1, s, t] - shift)
    total, work, d, entered = 0.0, 0, 0, True
    singles[:m] = 0.0
    while d >= 0:
        if d == last:
            second, q_second = (fields[d, d + 1], q[d + 1]) if m > 1 else (none, 1)
            scale = _weigh_pair(fields[d, d], second, table, q[d], q_second, weights, columns)
            scale = np.exp(base[d] + scale + shift - top)
            work += q[d] * q_second
            for s in range(q[d]):
                singles[d, s] += scale * weights[s]
                total += scale * weights[s]
            if m > 1:
                for t in range(q_second):
                    singles[d + 1, t] += scale * columns[t]
            if total > target:
                return total, work
            d, entered = d - 1, False
            continue
        if entered:
            others[d] = _bound_of_others(d, m, q, fields, rest)
            work += (m - d) * q[d]
            at[d], entered = -1, False
        elif at[d] >= 0:
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
    return total, work


@kernel
def _draw_last(m, q, fields, pairs, uniform, states):
    """Draw the states of the last two variables, given the others."""
    d, q_second = max(m - 2, 0), q[m - 1] if m > 1 else 1
    top, total = -np.inf, 0.0
    for step in range(3):  # the maximum, the sum, the draw
        cumulative = 0.0
        for s in range(q[d]):
            for t in range(q_second):
                value = fields[d, d, s]
                if m > 1:
                    value += fields[d, d + 1, t] + pairs[d, d + 1, s, t]
                if step == 0:
                    top = max(top, value)
                    continue
                cumulative += np.exp(value - top)
                if step == 2 and cumulative >= uniform * total:
                    states[m - 1] = t
                    states[d] = s
                    return
        total = cumulative


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
def _select_component(c, missing, n_missing, component, variables):
    """Write the variables of component c, and return their number."""
    m = 0
    for j in range(n_missing):
        if component[missing[j]] == c:
            variables[m] = missing[j]
            m += 1
    return m


@kernel
def _find_components(x, layout, missing, component):
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
def _is_complete(variables, m, component, layout):
    """Return whether all pairs of the variables of a component have a table."""
    clique_ptr, clique_vars, ptr, cliques = layout[1], layout[2], layout[5], layout[6]
    is_seen = np.empty(component.size, np.bool_)
    for j in range(m):
        i, n_others = variables[j], 0
        is_seen[:] = False
        for p in range(ptr[i], ptr[i + 1]):
            for k in range(clique_ptr[cliques[p]], clique_ptr[cliques[p] + 1]):
                other = clique_vars[k]
                if other != i and component[other] == component[i] and not is_seen[other]:
                    is_seen[other] = True
                    n_others += 1
        if n_others < m - 1:
            return False
    return True


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
def _can_sum(m, q, pairs, variables, component, layout, limits):
    """Return whether to sum over all states of a component, instead of eliminating variables."""
    log_size = 0.0
    for j in range(m):
        log_size += np.log(q[j])
    if log_size > limits[2]:
        return False
    if m > 1 and _spread(pairs[m - 2, m - 1], q[m - 2], q[m - 1]) > MAX_SPREAD:
        return False
    return log_size <= limits[1] or _is_complete(variables, m, component, layout)


@kernel
def complete_rows(
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
        that are always summed, and that of states that are summed if all variables of the component
        interact. Rows that need more are not changed.
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
    best, states = np.empty(m_max, np.int64), np.empty(m_max, np.int64)
    sums, found = np.empty((m_max, n_slots)), np.empty(n, np.int64)
    done, r = 0.0, first
    while r < len(X) and done <= budget:
        n_missing, n_components = _find_components(X[r], layout, missing, component)
        totals[r] = 0.0
        for c in range(n_components):
            m = _select_component(c, missing, n_missing, component, variables)
            _load_tables(X[r], m, layout, flat, variables, place, q, fields, pairs, rest)
            top, work = _search_mode(m, q, fields, pairs, rest, limits[0], best)
            done += work
            is_possible = work <= limits[0] and top > -np.inf
            if is_possible and tolerance >= 0:
                is_possible = _can_sum(m, q, pairs, variables, component, layout, limits)
            if not is_possible:
                totals[r] = np.nan
                break
            if tolerance >= 0:
                lowest = top - tolerance
                for j in range(m):
                    lowest -= np.log(q[j])
                given = m, q, fields, pairs, rest, top, lowest
                total, work = _sum_states(*given, np.inf, sums, states)
                done += work
                totals[r] += np.log(total)
                if len(uniforms):
                    _sum_states(*given, uniforms[r, c, 0] * total, sums, best)
                    _draw_last(m, q, fields, pairs, uniforms[r, c, 1], best)
                    done += work
                elif len(singles):
                    for j in range(m):
                        singles[r, variables[j], : q[j]] = sums[j, : q[j]] / total
            for j in range(m):
                found[variables[j]] = best[j]
        if not np.isnan(totals[r]):
            for j in range(n_missing):
                X[r, missing[j]] = found[missing[j]]
        r += 1
    return r
